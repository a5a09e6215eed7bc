# SPDX-License-Identifier: MIT
"""Cases: tests of programs, each a function under the sentence that it proves.

A file of cases calls main() at its end. With --list it prints the sentences of a suite,
or all of them, one a line, for meson; with a sentence it runs that case.
"""
import argparse
import os
import sys
import traceback

SKIPPED = 77  # what meson takes for a skip

_cases = {}


class Skip(Exception):
    """The case does not apply here: why."""


def case(sentence, suite="run"):
    """Registers a case under the sentence it proves."""

    def register(function):
        assert sentence not in _cases, f"two tests: {sentence}"
        _cases[sentence] = function, suite
        return function

    return register


def expect(actual, wanted, what):
    if actual != wanted:
        raise AssertionError(f"{what}: {actual!r}, not {wanted!r}")


def environment(**more):
    """Return: this process's environment, without variables that a tester may have set
    for the library or loader. `more` adds variables; None in it removes one."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("UAIO_", "LD_"))}
    return {name: value for name, value in (env | more).items() if value is not None}


def main(paths, words=(), call=lambda function, args: function(args)):
    """The names of options whose values are paths, and of others; call runs a case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", nargs="?", const=True, metavar="SUITE")
    for name in paths:
        # Cases change the working directory, and meson's paths are relative.
        parser.add_argument(f"--{name}", type=os.path.abspath)
    for name in words:
        parser.add_argument(f"--{name}")
    parser.add_argument("sentence", nargs="?")
    args = parser.parse_args()
    if args.list:
        print("\n".join(sentence for sentence, (_, suite) in _cases.items()
                        if args.list in (True, suite)))
        return
    function, _ = _cases[args.sentence]
    try:
        call(function, args)
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    except AssertionError as failure:
        traceback.print_exc()
        print(f"failed: {failure}")
        sys.exit(1)
