# SPDX-License-Identifier: MIT
"""What is said at once: programs that the library gets lost in, and interfaces that
are not served."""
import os
import sys

from harness import build, case, expect, main

LOST = "uaio: library: not in "


def said(outcome, status=0):
    """The lines about what is lost or not served."""
    expect(outcome.status, status, outcome.story)
    return [line for line in outcome.err.splitlines()
            if line.startswith((LOST, "uaio: library: not served"))]


def expect_lost(tool, program, words, *command, **options):
    for flag in ("--verbose", "--stats"):
        found = said(tool.run(flag, *command, **options))
        if len(found) != 1 or program not in found[0] or words not in found[0]:
            raise AssertionError(f"not {program} and {words!r}: {found}")
    outcome = tool.run(*command, **options)
    expect(outcome.err, "", "without either option")


@case("that a static program is executed is said at once")
def _(tool):
    program = tool.args.static_target
    expect_lost(tool, program, "use a dynamic build", "sh", "-c",
                f"{program}; true")
    script = tool.write("script", f"#!{program}\n")
    expect_lost(tool, program, "statically linked", "sh", "-c",
                f"{script}; true")
    expect_lost(tool, "run-static-target", "statically linked", "env",
                "run-static-target", env={
                    "PATH": f"{os.path.dirname(program)}:{os.environ['PATH']}"})


@case("that an environment is cleared is said at once")
def _(tool):
    expect_lost(tool, tool.args.target, "without LD_PRELOAD", "env", "-i",
                tool.args.target)


@case("that a program gains privilege is said at once")
def _(tool):
    program = tool.copy_setuid()
    expect_lost(tool, program, "put 'uaio run' behind it", "sh", "-c",
                f"{program}; true")


@case("that a program is for another processor is said at once")
def _(tool):
    program = tool.copy(tool.args.target, "program")
    with open(program, "r+b") as file:
        file.seek(18)
        file.write(b"\xf3\0")
    # A shell would take it for a script.
    code = ("import os, sys\n"
            "try: os.execv(sys.argv[1], ['program'])\n"
            "except OSError: pass")
    expect_lost(tool, program, "another processor", sys.executable, "-c", code,
                program)


@case("nothing is said of a program that the library is loaded into")
def _(tool):
    script = tool.write("script", f"#!{tool.args.target}\n")
    for command in (("sh", "-c", f"{tool.args.target}; true"),
                    ("sh", "-c", f"{script}; true"),
                    ("env", tool.args.target), ("sh", "-c", "no-such; true")):
        for flag in ("--verbose", "--stats"):
            expect(said(tool.run(flag, *command)), [], command)


@case("an interface that is not served is told of when it is first used")
def _(tool):
    program = build(tool, "posix", """
#include <aio.h>
#include <stdio.h>

int main(void)
{
	struct aiocb request = { .aio_fildes = -1 };

	for (int i = 0; i < 2; i++)
		(void)aio_read(&request);
	fputs("after\\n", stderr);
	return 0;
}
""")
    for flag in ("--verbose", "--stats"):
        outcome = tool.run(flag, "--posix=off", program)
        found = said(outcome)
        expect(len(found), 1, outcome.story)
        if "--posix=off" not in found[0]:
            raise AssertionError(outcome.story)
        lines = outcome.err.splitlines()
        expect(lines.index(found[0]) < lines.index("after"), True,
               "said before the end")
    expect(tool.run("--posix=off", program).err, "after\n", "without")


@case("programs without asynchronous I/O are one line together")
def _(tool):
    outcome = tool.run("--stats", "sh", "-c", "true; cat /dev/null; env true; :")
    expect(outcome.err.count("\n"), 1, outcome.story)
    if "made no io_setup" not in outcome.err or "uaio: sh[" not in outcome.err:
        raise AssertionError(outcome.story)
    # One that makes requests is named, wherever it was started.
    outcome = tool.run("--stats", "sh", "-c",
                       f"true; {tool.args.client} return; :")
    expect(outcome.err.count("made no"), 1, outcome.story)
    expect(outcome.err.count("uaio: run-client["), 1, outcome.story)


main()
