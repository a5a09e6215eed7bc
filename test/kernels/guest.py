#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""guest.py: the first process of a kernel that kernels.py has booted.

The root is the host's, by hostfs, and what tests write is on file systems of the guest's
own. The tests that are asked for are in ORDERS; what came of each is a line in RESULTS.
"""
import ctypes
import errno
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True  # leave the source tree clean
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "oracle"))
import sandbox  # noqa: E402

ORDERS, RESULTS = "orders", "results"
SHARED = "/run/host"
FINIT_MODULE = 313  # x86-64
POWER_OFF = 0x4321FEDC
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
SKIP = sandbox.SKIP
AT_ONCE = 3  # many tests wait most of the time
LAST_LINES = 20
libc = ctypes.CDLL(None, use_errno=True)


def mount(kind, source, target, options=""):
    os.makedirs(target, exist_ok=True)
    if libc.mount(source.encode(), target.encode(), kind.encode(), 0, options.encode()):
        error = ctypes.get_errno()
        if error != errno.EBUSY:  # the kernel has mounted it by itself
            raise OSError(error, os.strerror(error), target)


def load(module):
    """A module that is not there is in the kernel."""
    try:
        with open(module, "rb") as file:
            libc.syscall(FINIT_MODULE, file.fileno(), b"", 0)
    except FileNotFoundError:
        pass


def prepare(modules):
    """Mounts of the guest's own, with ext4 where tests make files."""
    for name in "fs/fuse/fuse", "drivers/block/loop":
        load(f"{modules}/kernel/{name}.ko")
    mount("proc", "proc", "/proc")
    mount("sysfs", "sysfs", "/sys")
    mount("devtmpfs", "devtmpfs", "/dev")
    mount("devpts", "devpts", "/dev/pts", "ptmxmode=666")
    # Without it 5.10 executes no file by its descriptor.
    os.symlink("/proc/self/fd", "/dev/fd")
    mount("tmpfs", "tmpfs", "/dev/shm", "mode=1777")
    mount("tmpfs", "tmpfs", "/run")
    mount("hostfs", "none", SHARED, "/tmp/host")
    mount("ext4", "/dev/ubda", "/tmp")
    os.chmod("/tmp", 0o1777)
    mount("ext4", "/dev/ubda", "/var/tmp")
    os.environ["SANDBOX_IMAGES"] = "/tmp"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def run_test(test, build):
    """Run a test. Return: its outcome, as a line of the results."""
    start = time.monotonic()
    status, output = sandbox.run(test["cmd"], test["timeout"],
                                 cwd=test["workdir"] or build, env=test["env"])
    return {
        "name": test["name"],
        "status": status,
        "seconds": round(time.monotonic() - start, 1),
        "output": "\n".join(output.splitlines()[-LAST_LINES:]),
    }


def run_tests(orders, tell):
    def run(test):
        tell({"begins": test["name"]})
        tell(run_test(test, orders["build"]))

    alone = [test for test in orders["tests"] if not test["is_parallel"]]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(run, [test for test in orders["tests"] if test not in alone]))
    for test in alone:
        run(test)


def follow_orders(*first):
    """Run what is asked for; the results begin with these lines."""
    with open(f"{SHARED}/{ORDERS}") as file:
        orders = json.load(file)
    os.environ.update(orders["environment"])
    with open(f"{SHARED}/{RESULTS}", "a") as results:
        def tell(result):
            print(json.dumps(result), file=results, flush=True)

        for line in first:
            tell(line)
        run_tests(orders, tell)
        tell({"ends": True})


if __name__ == "__main__":
    try:
        prepare(sys.argv[1])
        follow_orders()
    except BaseException:  # this process has no end but the kernel's
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        libc.reboot(POWER_OFF)
