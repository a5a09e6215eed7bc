#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""limits.py BUILD [--seed S] [--seconds N]

Runs the program `limits-client` of the build under random limits, on the library and on
the kernel. No run may hang, end by a signal, or read a wrong byte. Where the kernel
serves the client, the library serves it, too. There are two exceptions. With
`3 processes` the library may refuse requests that wait (EAGAIN), as they need a thread of
the library. With `no /proc` the client runs with UAIO_CALLS=all, as the library cannot
find out whether a seccomp filter kills.
"""
import argparse
import ctypes
import os
import random
import re
import resource
import shlex
import sys
import time

sys.dont_write_bytecode = True  # leave the source tree clean
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "oracle"))
import sandbox  # noqa: E402

DEADLINE_S = 120
ROUNDS = 20
MIB = 1 << 20
CLONE_NEWNS = 0x20000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
INTERFACES = ("aio", "posix", "uring")
COUNTED = re.compile(r"^counted (\d+) requests$", re.M)
REFUSED = re.compile(r"^failed: .*: (Resource temporarily unavailable|Cannot allocate memory"
                     r"|Too many open files|Operation not permitted|Function not implemented)$",
                     re.M)


def limit(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


def mount(*args):
    libc = ctypes.CDLL(None, use_errno=True)
    source, target, kind, flags, data = (
        each.encode() if isinstance(each, str) else each for each in args)
    if libc.mount(source, target, kind, flags, data):
        raise OSError(ctypes.get_errno(), f"mount on {args[1]}")


def use_own_mounts():
    if ctypes.CDLL(None).unshare(CLONE_NEWNS):
        raise OSError("unshare")
    mount(None, "/", None, MS_REC | MS_PRIVATE, None)


def cover(path):
    """Mount an empty directory there that nobody can write to."""
    return lambda: mount("none", path, "tmpfs", MS_RDONLY, None)


def forbid_writing_to_root():
    mount(None, "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY, None)


# What needs mounts comes first, and what the script itself could not live with comes last.
LIMITS = {
    "read-only root": forbid_writing_to_root,
    "no /dev/shm": cover("/dev/shm"),
    "one processor": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    "no locked memory": limit(resource.RLIMIT_MEMLOCK, 0),
    "stacks of 64 KiB": limit(resource.RLIMIT_STACK, 64 << 10),
    "no core": limit(resource.RLIMIT_CORE, 0),
    "files of 1 MiB": limit(resource.RLIMIT_FSIZE, MIB),
    "no /proc": cover("/proc"),
    "16 descriptors": limit(resource.RLIMIT_NOFILE, 16),
    "data of 16 MiB": limit(resource.RLIMIT_DATA, 16 * MIB),
    "3 processes": lambda: None,  # the client does it
}
PROCESSES = 3


def execute_under(names, command):
    use_own_mounts()
    for name in names:
        LIMITS[name]()
    os.execv(command[0], command)


def commands(box, interface, names):
    client = [os.path.join(box.build, "test", "reliability", "limits-client"), interface,
              str(ROUNDS)]
    if "3 processes" in names:
        client.append(str(PROCESSES))
    under = [sys.executable, "-B", os.path.abspath(__file__), "--under", ",".join(names)]
    return {"kernel": [*under, *client],
            "uaio": [*under, *box.uaio(*client, options=["--uring=always", "--posix=on"])]}


def outcome(box, command, names):
    """Return: the number of requests, or 0 if a call was refused; what is wrong, or ""."""
    path = box.folder("limits")
    os.chmod(path, 0o777)
    env = {"UAIO_CALLS": "all"} if "no /proc" in names else {}
    status, output = sandbox.run(command, DEADLINE_S, cwd=path, env=env)
    counted = COUNTED.search(output)
    if status == 0 and counted:
        return int(counted[1]), ""
    if status == 1 and REFUSED.search(output):
        return 0, ""
    return 0, f"status {status} after {output[-1500:]!r}"


def try_limits(box, interface, names):
    """Return: whether the library served the client; what is wrong, or ""."""
    run = commands(box, interface, names)
    served, wrong = outcome(box, run["uaio"], names)
    if served or wrong or "3 processes" in names:
        return served > 0, wrong
    served, _ = outcome(box, run["kernel"], names)
    return False, "the kernel serves the client, and the library does not" if served else ""


def draw(chance):
    """Each limit alone, each pair, or several."""
    some = chance.sample(list(LIMITS), chance.choice((1, 2, 2, 3, 4)))
    return [name for name in LIMITS if name in some]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args()
    box = sandbox.Sandbox(args.build)
    if not box.is_private:
        print("needs root")
        return sandbox.SKIP
    chance = random.Random(args.seed)
    end = time.monotonic() + args.seconds
    alone = [(interface, [name]) for interface in INTERFACES for name in LIMITS]
    tried = refused = lost = 0
    while alone or time.monotonic() < end:
        interface, names = alone.pop() if alone else (chance.choice(INTERFACES), draw(chance))
        served, wrong = try_limits(box, interface, names)
        tried += 1
        refused += not served and not wrong
        if wrong:
            lost += 1
            print(f"failed: {interface} with {', '.join(names)}: {wrong}\nreplay: " +
                  shlex.join(commands(box, interface, names)["uaio"]), flush=True)
    print(f"{refused} clients were refused")
    print(f"counted {tried} clients: {lost} lost")
    return 1 if lost else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--under"]:
        execute_under(sys.argv[2].split(","), sys.argv[3:])
    sys.exit(main())
