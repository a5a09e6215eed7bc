# SPDX-License-Identifier: MIT
"""The process stays the command's own: status, signals, descriptors."""
import os
import shutil
import signal
import subprocess

from harness import TIMEOUT_S, Skip, case, environment, expect, main


@case("the exit status of the program is passed on")
def _(tool):
    for status in (0, 1, 2, 7, 126, 127, 255):
        tool.run("sh", "-c", f"exit {status}").expect(status=status)


@case("death by a signal is passed on")
def _(tool):
    tool.run("sh", "-c", "kill -TERM $$").expect(status=-signal.SIGTERM)
    tool.exec("sh", "-c", f"{tool.uaio} run sh -c 'kill -TERM $$'; echo $?"
              ).expect(out="143\n", err=None)


@case("a message of the library that nobody reads does not end the program")
def _(tool):
    for options, variables in (
        (["--stats"], {}),
        (["--verbose"], {}),
        (["--stats-json=/dev/stderr"], {}),
        # The library complains.
        ([], {"LD_PRELOAD": tool.library, "UAIO_STATSS": "1"}),
        ([], {"LD_PRELOAD": tool.library, "UAIO_STATS": "/nonexistent/f"}),
    ):
        command = [tool.uaio, "run", *options] if options else []
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [*command, tool.args.client, "return"], env=environment(**variables),
            stdin=subprocess.DEVNULL, stderr=writer, timeout=TIMEOUT_S)
        os.close(writer)
        expect(done.returncode, 0, (options, variables))


@case("a signal sent to uaio reaches the program")
def _(tool):
    script = "trap 'echo got it; exit 3' USR1; echo ready; read line"
    with subprocess.Popen(
        [tool.uaio, "run", "sh", "-c", script], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as child:
        expect(child.stdout.readline(), "ready\n", "the script says")
        child.send_signal(signal.SIGUSR1)
        # dash finishes its read first; end of file lets it.
        child.stdin.close()
        expect(child.stdout.readline(), "got it\n", "the trap says")
        expect(child.wait(timeout=TIMEOUT_S), 3, "status")


@case("the program has the process id of uaio")
def _(tool):
    with subprocess.Popen(
        [tool.uaio, "run", "sh", "-c", "echo $$"], text=True,
        stdout=subprocess.PIPE,
    ) as child:
        expect(child.stdout.read(), f"{child.pid}\n", "process id")


@case("signals that are ignored or blocked stay so")
def _(tool):
    show = ("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")

    def change():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})

    plain = tool.exec(*show, preexec_fn=change).expect().out
    expect(plain == tool.exec(*show).out, False, "the change shows")
    tool.run(*show, preexec_fn=change).expect(out=plain)


@case("the program gets the descriptors it would get without uaio")
def _(tool):
    show = ("sh", "-c", "echo /proc/self/fd/*")
    plain = tool.exec(*show).expect().out
    tool.run("--max-nr=1", *show).expect(out=plain)


@case("the program gets its arguments and its name unchanged")
def _(tool):
    script = tool.write("show", "#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    tool.run(script, "", "a b", "*", "--", "-x").expect(
        out="<><a b><*><--><-x>")
    tool.run("sh", "-c", "cat /proc/$$/cmdline; true").expect(
        out="sh\0-c\0cat /proc/$$/cmdline; true\0")


@case("fio starts behind a shell that execs it")
def _(tool):
    if not shutil.which("fio"):
        raise Skip("fio is not installed")
    plain = tool.exec("fio", "--version").expect().out
    tool.run("--", "sh", "-c", "exec fio --version").expect(out=plain)


@case("a missing command gives 127")
def _(tool):
    env = {"PATH": tool.scratch}
    tool.run("true", env=env).expect_refusal(127, "true: command not found")
    tool.run("./no-such").expect_refusal(127, "./no-such: No such file")
    tool.run("").expect_refusal(127)


@case("a command that cannot be executed gives 126")
def _(tool):
    plain = tool.write("plain", "text", mode=0o644)
    os.mkfifo(tool.path("pipe"), 0o755)
    tool.run(plain).expect_refusal(126, plain, "Permission denied")
    tool.run(tool.path("pipe")).expect_refusal(126, "Permission denied")
    tool.run(tool.scratch).expect_refusal(126, "Is a directory")
    tool.run(plain + "/x").expect_refusal(126, "Not a directory")
    tool.run("plain", env={"PATH": tool.scratch}).expect_refusal(
        126, "Permission denied")


@case("the command is searched for as execvp does")
def _(tool):
    tool.write("closed/it", "#!/bin/sh\necho closed\n", mode=0o644)
    os.makedirs(tool.path("directory/it"))
    tool.write("first/it", "#!/bin/sh\necho first\n")
    tool.write("second/it", "#!/bin/sh\necho second\n")
    here = tool.path("second")

    def search(*names):
        return ":".join(name and tool.path(name) for name in names)

    for path, wanted in (
        (search("first", "second"), "first\n"),
        (search("nowhere", "closed", "directory", "second"), "second\n"),
        (search("first/it", "second"), "second\n"),
        (search("", "first"), "second\n"),
        (search("nowhere", ""), "second\n"),
        ("", "second\n"),
    ):
        tool.run("it", env={"PATH": path}, cwd=here).expect(out=wanted)
    tool.run("it", env={"PATH": search("closed")}).expect_refusal(126, "it:")
    tool.run("sh", "-c", "echo found", env={"PATH": None}).expect(
        out="found\n")


main()
