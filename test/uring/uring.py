#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uring.py --build DIR --liburing PROGRAM [--linked PROGRAM] --filter PROGRAM
[SENTENCE]: ways to an io_uring.

With --list it prints the names of its tests, one a line.
"""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helpers"))
from cases import SKIPPED, Skip, case, environment, main  # noqa: E402

DEADLINE = 120


def run(args, command, is_preloaded, **options):
    """Run a command without the tester's own variables. Return: its output."""
    if is_preloaded:
        options.setdefault("LD_PRELOAD", os.path.join(args.build, "libuaio.so.0"))
    env = environment(**options)
    done = subprocess.run(command, env=env, timeout=DEADLINE, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode == SKIPPED:
        raise Skip(f"the kernel refuses io_uring: {done.stdout}")
    if done.returncode:
        raise AssertionError(f"{command}: status {done.returncode}\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout


def said(args, command, **options):
    """Return: what a preloaded program prints on its standard error."""
    preexec = options.pop("preexec_fn", None)
    options.setdefault("LD_PRELOAD", os.path.join(args.build, "libuaio.so.0"))
    env = environment(**options)
    done = subprocess.run(command, env=env, timeout=DEADLINE, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          preexec_fn=preexec)
    return done.stderr


def changed(text, name):
    """Return: how many calls in that object reach the library, and how many do not."""
    found = re.search(rf"^uaio: library: io_uring calls in \S*{name}\S*: (\d+) "
                      r"come here, (\d+) cannot be changed", text, re.M)
    return found and (int(found[1]), int(found[2]))


def expect_same(wanted, actual, what):
    wanted, actual = wanted.splitlines(), actual.splitlines()
    for number, lines in enumerate(zip(wanted, actual), 1):
        if lines[0] != lines[1]:
            raise AssertionError(f"{what}, line {number}: liburing's: "
                                 f"{lines[0]}; ours: {lines[1]}")
    if len(wanted) != len(actual):
        raise AssertionError(f"{what}: {len(wanted)} and {len(actual)} lines")


@case("liburing's functions return what liburing's own do on the kernel's rings")
def _(args):
    theirs = run(args, [args.liburing, "old"], False)
    for when in ("never", "auto"):
        expect_same(theirs, run(args, [args.liburing, "old"], True,
                                UAIO_URING=when), when)
    print(f"{len(theirs.splitlines())} lines")


@case("a program that makes a file ready finds the completion when it looks")
def _(args):
    assert int(run(args, [args.liburing, "peeks"], False)) == 100
    # Another thread may be about to complete it: then it is there a moment later.
    at_once = int(run(args, [args.liburing, "peeks"], True, UAIO_URING="always"))
    assert at_once >= 50, at_once
    print(f"{at_once} of 100 at once")


@case("liburing's functions are ours in a preloaded program")
def _(args):
    for line in run(args, [args.liburing, "whose"], True).splitlines():
        assert line.endswith("libuaio.so.0"), line
    for line in run(args, [args.liburing, "whose"], False).splitlines():
        assert "liburing" in line.split()[1], line


@case("functions of later versions do what they say, on the kernel's rings and ours")
def _(args):
    for when in ("never", "always"):
        print(run(args, [args.liburing, "newer"], True, UAIO_URING=when))


@case("a ring's descriptor comes by a socket, and is the ring in a child, not elsewhere")
def _(args):
    text = run(args, [args.liburing, "sent"], True, UAIO_URING="always")
    lines = text.splitlines()
    for who in ("here", "child", "at last"):
        assert f"{who}: 1" in lines, text
    for what in ("submit", "wait", "register"):
        assert lines.count(f"{what}: EOPNOTSUPP") == 2, text


@case("calls that liburing makes by itself come to the library")
def _(args):
    command = [args.liburing, "whose"]
    text = said(args, command, UAIO_URING="always", UAIO_VERBOSE="1")
    came, left = changed(text, "liburing") or (0, 0)
    print(f"{came} come, {left} do not")
    assert came > 20 and left == 0, text
    for options in ({"UAIO_URING": "never"}, {"UAIO_NO_PATCH": "1",
                                              "UAIO_URING": "always"}):
        text = said(args, command, UAIO_VERBOSE="1", **options)
        assert changed(text, "liburing") is None, text


@case("all waits of a liburing that is linked into the program come to the library")
def _(args):
    if not args.linked or os.uname().machine != "x86_64":
        raise Skip("there is no liburing.a, or its code is not changed")
    text = run(args, [args.linked], True, UAIO_URING="always")
    assert text == "all waits ended\n", text
    text = said(args, [args.linked], UAIO_URING="always", UAIO_VERBOSE="1")
    found = re.search(r"io_uring calls in the program: (\d+) come here, (\d+) "
                      "cannot be changed", text)
    assert found and int(found[1]) >= 10 and int(found[2]) == 0, text


@case("calls in fio's own code come to the library")
def _(args):
    if not shutil.which("fio"):
        raise Skip("no fio here")
    text = said(args, ["fio", "--version"], UAIO_URING="always",
                UAIO_VERBOSE="1")
    found = re.search(r"io_uring calls in the program: (\d+) come here, (\d+) "
                      "cannot be changed", text)
    assert found and int(found[1]) >= 3 and int(found[2]) == 0, text


@case("where memory must not become executable no code is changed")
def _(args):
    set_mdwe = 65
    libc = ctypes.CDLL(None)

    def refuse():
        os._exit(SKIPPED) if libc.prctl(set_mdwe, 1, 0, 0, 0) else None

    text = said(args, [args.liburing, "whose"], UAIO_URING="always",
                UAIO_VERBOSE="1", preexec_fn=refuse)
    if not text:
        raise Skip("the kernel has no PR_SET_MDWE")
    came, left = changed(text, "liburing") or (-1, -1)
    assert came == 0 and left > 20, text


@case("a program is refused a ring that its own code would use without us")
def _(args):
    if not shutil.which("fio"):
        raise Skip("no fio here")
    libc = ctypes.CDLL(None)
    set_mdwe = 65
    command = ["fio", "--name=try", "--ioengine=io_uring", "--size=64k",
               "--filename=/dev/zero", "--rw=read", "--thread"]

    def refuse():
        os._exit(SKIPPED) if libc.prctl(set_mdwe, 1, 0, 0, 0) else None

    for why, preexec, options in (
            ("cannot be changed", refuse, {}),
            ("--no-patch leaves that alone", None, {"UAIO_NO_PATCH": "1"})):
        text = said(args, command, UAIO_URING="always", UAIO_STATS="1",
                    preexec_fn=preexec, **options)
        if not text:
            raise Skip("the kernel has no PR_SET_MDWE")
        assert " context" not in text, text  # no ring
        assert "not served: io_uring" in text and why in text, text
    # A program that leaves it all to liburing is served.
    text = said(args, [args.liburing, "init"], UAIO_URING="always",
                UAIO_STATS="1", preexec_fn=refuse)
    assert "not served" not in text and " 1 request " in text, text


@case("a program whose io_uring is not served is told why")
def _(args):
    run(args, [args.liburing, "init"], False)  # skips where it is refused
    for when, why in (("never", "--uring=never"),
                      ("auto", "--uring=always")):
        for option in ("UAIO_VERBOSE", "UAIO_STATS"):
            text = said(args, [args.liburing, "init"], UAIO_URING=when,
                        **{option: "1"})
            lines = [line for line in text.splitlines()
                     if "not served: io_uring" in line]
            # At once, and in the report, which may be in a file.
            assert len(lines) == 1 + (option == "UAIO_STATS"), text
            assert all(why in line for line in lines), (when, option, text)
        text = said(args, [args.liburing, "whose"], UAIO_URING=when,
                    UAIO_VERBOSE="1")
        assert "not served" not in text, text


@case("rings that RLIMIT_MEMLOCK refuses are the library's, beside the kernel's")
def _(args):
    def made(text):
        return [int(nr) for nr in
                re.match(r"rings: (\d+), (\d+) by the kernel", text).groups()]

    command = [args.liburing, "limited"]
    wanted = 64
    alone, _ = made(run(args, command, False))
    if alone == wanted:
        raise Skip("not rings by RLIMIT_MEMLOCK")
    # Other processes of the same user change how many are the kernel's.
    both, of_kernel = made(run(args, command, True))
    print(f"{alone} without the library; {of_kernel} beside the library's")
    assert both == wanted and of_kernel < wanted, (both, of_kernel)
    assert made(run(args, command, True, UAIO_URING="always")) == [wanted, 0]
    text = said(args, command, UAIO_STATS="1", UAIO_VERBOSE="1")
    found = re.search(r"  rings: (\d+) by the kernel, (\d+) by uaio: "
                      "RLIMIT_MEMLOCK$", text, re.M)
    assert found and int(found[2]) > 0, text
    assert "the kernel refuses an io_uring (RLIMIT_MEMLOCK)" in text, text
    assert int(found[1]) == 0 or \
        "not served: RLIMIT_MEMLOCK refuses to register buffers" in text, text


@case("a filter that ends the process for io_uring does not end it")
def _(args):
    calls = "io_uring_setup,io_uring_enter,io_uring_register"
    tool = [os.path.join(args.build, "uaio"), "run", "--"]
    preload = ["env", "LD_PRELOAD=" +
               os.path.join(args.build, "libuaio.so.0")]
    for action in ("kill", "EPERM", "ENOSYS"):
        for way in (tool, preload):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    [args.filter, "before", f"{action}:{calls}", *way,
                     args.liburing, "init"], cwd=folder, timeout=DEADLINE,
                    stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode not in (0, SKIPPED):
                raise AssertionError(f"{action}, {way}: {done}")
            print(action, way[0], done.stdout.splitlines())


if __name__ == "__main__":
    main(("build", "liburing", "linked", "filter"))
