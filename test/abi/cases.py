# SPDX-License-Identifier: MIT
"""What the Python tests of this folder share.

A file of tests calls main() at its end. With --list it prints the names of its
tests, one a line, for meson; with a name it runs that test. A test gets the
arguments: the library, the build's folder, and programs to run.
"""
import argparse
import glob
import os
import re
import subprocess
import sys

SKIPPED = 77  # what meson takes for a skip
TIMEOUT_S = 60

_cases = {}


class Skip(Exception):
    pass


def case(sentence):
    """Registers a test under the sentence it proves."""

    def register(function):
        assert sentence not in _cases, f"two tests: {sentence}"
        _cases[sentence] = function
        return function

    return register


def expect(actual, wanted, what):
    if actual != wanted:
        raise AssertionError(f"{what}:\n  {actual!r}\nnot\n  {wanted!r}")


def environment(**more):
    """Ours, without what a tester may have set for the library or loader."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("UAIO_", "LD_"))}
    return env | more


def run(*command, env=None, status=0):
    """Returns what a command prints; its exit status must be the one given."""
    done = subprocess.run(command, env=env or environment(), text=True,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=TIMEOUT_S)
    if done.returncode != status:
        raise AssertionError(f"{command}: status {done.returncode}\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout


def parts_of_libc():
    """The libraries that glibc has beside libc.so.6: before 2.34 that of threads and
    its like."""
    version = os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")
    return [] if tuple(map(int, version)) >= (2, 34) else [
        "libdl.so.2", "libpthread.so.0", "librt.so.1"]


def debian_libaio():
    """The libaio of this machine, by its path."""
    for path in sorted(glob.glob("/usr/lib/*/libaio.so.1*")
                       + glob.glob("/usr/lib*/libaio.so.1*")):
        if "uaio" not in os.path.realpath(path):
            return path
    raise Skip("no libaio.so.1 on this machine: apt-get install libaio1")


def exported(path):
    """The dynamic symbols a library defines, each with its version."""
    names = []
    for line in run("readelf", "-W", "--dyn-syms", path).splitlines():
        fields = line.split()
        if re.match(r"\d+:", line.strip()) and len(fields) >= 8 \
                and fields[6] != "UND":
            names.append(fields[7])
    return sorted(names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    for name in ("library", "uaio", "golden", "census", "elsewhere", "links"):
        parser.add_argument(f"--{name}", type=os.path.abspath)
    parser.add_argument("sentence", nargs="?")
    args = parser.parse_args()
    if args.list:
        print("\n".join(_cases))
        return
    try:
        _cases[args.sentence](args)
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    except AssertionError as failure:
        print(f"failed: {failure}")
        sys.exit(1)
