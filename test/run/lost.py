# SPDX-License-Identifier: MIT
"""What is said at once: programs that the library gets lost in, and interfaces that
are not served."""
import errno
import os
import re
import sys

from harness import build, case, expect, main

LOST = "uaio: library: not in "


def said(outcome, status=0):
    """Return: the lines about programs that are lost or interfaces that are not served."""
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


@case("a file that is no program is not waited for, and not left open")
def _(tool):
    code = """
import errno, os, sys
os.chdir(sys.argv[1])
os.mkfifo("fifo", 0o700)
with open("itself", "w") as file:
    file.write("#!" + os.path.abspath("itself") + "\\n")
os.chmod("itself", 0o700)
before = os.listdir("/proc/self/fd")
for name, error in (("fifo", errno.EACCES), ("itself", errno.ELOOP)):
    try:
        os.execv(os.path.abspath(name), [name])
    except OSError as failure:
        if failure.errno != error:
            raise
if os.listdir("/proc/self/fd") != before:
    sys.exit("left open")
"""
    expect(said(tool.run("--verbose", sys.executable, "-c", code,
                         tool.scratch)), [], "nothing is lost")


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


SPAWN = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Start argv[2] by the call that argv[1] names; with argv[3], without an environment. */
int main(int argc, char **argv)
{
	char *const args[] = {argv[2], NULL};
	const char *how = argv[1];
	int status = 0, error = 0;
	pid_t child;

	if (argc > 3)
		clearenv();
	if (!strcmp(how, "posix_spawn"))
		error = posix_spawn(&child, argv[2], NULL, NULL, args, environ);
	else if (!strcmp(how, "posix_spawnp"))
		error = posix_spawnp(&child, argv[2], NULL, NULL, args, environ);
	else if (!strcmp(how, "system"))
		return system(argv[2]);
	else if (!strcmp(how, "popen"))
		return pclose(popen(argv[2], "w"));
	else if (!strcmp(how, "execvp"))
		return execvp(argv[2], args);
	else if (!strcmp(how, "fexecve"))
		return fexecve(open(argv[2], O_RDONLY | O_CLOEXEC), args, environ);
	else
		return execveat(AT_FDCWD, argv[2], args, environ, 0);
	if (error)
		return error; /* the child's, as it has its parent's memory */
	return waitpid(child, &status, 0) != child || status;
}
"""
SPAWNS = ("posix_spawn", "posix_spawnp", "system", "popen")


@case("a program that the C library starts by itself is told of as others are")
def _(tool):
    program = tool.args.static_target
    spawn = build(tool, "spawn", SPAWN)
    for how in SPAWNS + ("execvp", "execveat", "fexecve"):
        # The shell of system() and popen() is not lost, and tells of the program.
        fd = how == "fexecve"
        expect_lost(tool, "/proc/self/fd/" if fd else program, "statically linked",
                    spawn, how, program)
    path = {"PATH": f"{os.path.dirname(program)}:{os.environ['PATH']}"}
    for how in ("posix_spawnp", "execvp"):
        expect_lost(tool, program, "statically linked", spawn, how,
                    os.path.basename(program), env=path)


@case("of a child that is given no environment it is told which program it runs")
def _(tool):
    spawn = build(tool, "spawn", SPAWN)
    for how, program in (
            ("posix_spawn", tool.args.target), ("posix_spawnp", tool.args.target),
            ("posix_spawnp", "true"), ("execvp", "true"), ("system", "/bin/sh"),
            ("popen", "/bin/sh"), ("execveat", tool.args.target)):
        command = "exec true" if program == "/bin/sh" else program
        expect_lost(tool, program, "without LD_PRELOAD", spawn, how, command,
                    "clear")


@case("a child that cannot execute its program gives its parent the error")
def _(tool):
    spawn = build(tool, "spawn", SPAWN)
    data = tool.write("data", "text", mode=0o644)
    for how in ("posix_spawn", "posix_spawnp"):
        for flag in ("--verbose", "--stats"):
            for path, error in (("/no-such", errno.ENOENT), (data, errno.EACCES)):
                outcome = tool.run(flag, spawn, how, path)
                expect(said(outcome, error), [], outcome.story)


@case("nothing is said of a program that the library is loaded into")
def _(tool):
    script = tool.write("script", f"#!{tool.args.target}\n")
    spawn = build(tool, "spawn", SPAWN)
    for command in (*((spawn, how, tool.args.target) for how in SPAWNS),
                    ("sh", "-c", f"{tool.args.target}; true"),
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


@case("with UAIO_STATS alone only programs that make requests report")
def _(tool):
    env = {"LD_PRELOAD": tool.library, "LD_LIBRARY_PATH": tool.lib_dir,
           "UAIO_STATS": "yes"}
    outcome = tool.exec("sh", "-c", "true; ls -d /; env true; :", env=env)
    outcome.expect(out="/\n", err="")
    outcome = tool.exec("sh", "-c", f"ls -d /; {tool.args.client} return; :",
                        env=env)
    expect(re.findall(r"^uaio: (.*)\[", outcome.err, re.M), ["run-client"],
           outcome.story)


main()
