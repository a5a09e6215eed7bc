#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kernels.py BUILD KERNEL TEST...: tests of this tree on another kernel.

KERNEL is a suite of Debian's, whose User-mode Linux is fetched and booted with this
machine's root (guest.py); or `old`, which is this machine's kernel without the system
calls that came after Linux 5.0. TEST is the sentence of a test, or @SUITE for all of a
suite. A test that says that this kernel has not what it needs is skipped, and listed.
"""
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # leave the source tree clean
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "oracle"))
import guest  # noqa: E402
import guests  # noqa: E402
import sandbox  # noqa: E402

OLD = "old"
MEMORY = "1536M"
DEADLINE = 3000
ARTEFACTS = {
    "a sleep beside a poll says what is wrong with its addresses":
        "User-mode Linux reads memory that is PROT_NONE",
}
"""Tests that fail on User-mode Linux for its own sake: why."""


def run_on(kernel, tests):
    """Those of the tests that say something of this kernel."""
    if kernel == OLD:
        return tests
    for test in tests:
        if test["name"] in ARTEFACTS:
            print(f"left out: {test['name']}: {ARTEFACTS[test['name']]}")
    return [test for test in tests if test["name"] not in ARTEFACTS]


def fetch(build, suite):
    """The root with that suite's kernel, fetched if it is not there."""
    return subprocess.run(
        [os.path.join(HERE, "..", "..", "tools", "fetch-root"), suite,
         "user-mode-linux", os.path.join(build, "test", "kernels", suite)],
        stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def fetch_clients(build):
    """The guest has no network."""
    subprocess.run([os.path.join(HERE, "..", "..", "tools", "fetch-pypi"),
                    os.path.join(build, "test", "oracle", "pypi")],
                   stdout=subprocess.DEVNULL, check=True)


def prepare(root, orders):
    """Mounts of this process's own, which go with it. Return: where the guest's files
    are, of here."""
    def mount(*arguments):
        subprocess.run(["mount", *arguments], check=True)

    host, memory = os.path.join(root, "srv", "host"), os.path.join(root, "tmp")
    os.makedirs(host, exist_ok=True)
    os.makedirs(memory, exist_ok=True)
    mount("--rbind", "/", host)
    mount("--rbind", "/dev", os.path.join(root, "dev"))
    mount("-t", "proc", "proc", os.path.join(root, "proc"))
    mount("-t", "tmpfs", "-o", "mode=1777,exec", "tmpfs", memory)
    shared = os.path.join(memory, "host")
    guests.give(shared, orders)
    guests.make_disk(os.path.join(memory, "disk"))
    return shared


def boot(build, suite, orders):
    """Run the guest to its end. Return: its results, and the end of its console."""
    root = fetch(build, suite)
    shared = prepare(root, orders)
    [modules] = os.listdir(os.path.join(root, "usr", "lib", "uml", "modules"))
    command = [
        "chroot", root, "/usr/bin/linux.uml", f"mem={MEMORY}", "ubd0=/tmp/disk",
        "root=/dev/root", "rootfstype=hostfs", "rootflags=/srv/host", "rw",
        "con0=null,fd:1", "con=null", "panic=-1", "init=" + sys.executable, "--",
        "-B", os.path.join(HERE, "guest.py"),
        os.path.join(root, "usr", "lib", "uml", "modules", modules),
    ]
    shim = "/srv/host" + os.path.join(build, "test", "kernels", "libxstate.so")
    return guests.run_to_end(command, DEADLINE, shared, env={
        "HOME": "/tmp", "TMPDIR": "/tmp", "LD_PRELOAD": shim})


def run_here(build, orders):
    """The same behind a filter of system calls."""
    lines = []
    os.environ.update(orders["environment"])
    for test in orders["tests"]:
        test["cmd"] = [os.path.join(build, "bench", "deny-aio"), "--old", "--",
                       *test["cmd"]]
    guest.run_tests(orders, lines.append)
    return [*lines, {"ends": True}], ""


def main():
    build, kernel, *wanted = sys.argv[1:]
    build = os.path.abspath(build)
    if os.geteuid() != 0:
        print("needs root, to mount")
        return sandbox.SKIP
    if "KERNELS_OF_UAIO" not in os.environ:
        os.environ["KERNELS_OF_UAIO"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child",
                              "--mount-proc", sys.executable, "-B", *sys.argv])
    # Of the filter the tool warns.
    doctor = guests.doctor(build, status=1 if kernel == OLD else 0)
    tests = [doctor, *run_on(kernel, guests.chosen(build, wanted))]
    if any("node" in argument for test in tests for argument in test["cmd"]):
        fetch_clients(build)
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG")
                   if name in os.environ}
    if kernel != OLD:
        environment["HOST_FEW_ROUNDS"] = "1"  # a system call takes ten times as long
    orders = {"build": build, "tests": tests, "environment": environment}
    start = time.monotonic()
    lines, console = run_here(build, orders) if kernel == OLD else \
        boot(build, kernel, orders)
    return guests.conclude(kernel, tests, lines, console, start)


if __name__ == "__main__":
    sys.exit(main())
