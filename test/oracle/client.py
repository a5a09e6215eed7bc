#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""client.py BUILD FILE-SYSTEM WAY COMMAND...: run one client of libaio.

It runs in an empty folder of that file system, in one of these ways; all but
`kernel`, `plain`, `aio` and `io_uring` have the kernel's own AIO denied, so that what passes
was done by uaio. File systems are tmpfs, ext4, overlay on ext4, and, in memory, xfs
and btrfs, where the tools for them are.

    kernel    on the kernel
    plain     as it is: a program that has the engine in it
    linked    with uaio's libaio.so.1 as the library it is linked with
    run       under `uaio run`
    aio, io_uring
              under `uaio run` with that --backend: by its statistics the kernel
              executed requests, if this machine lets it
    compare   on the kernel and under `uaio run`: both must succeed and print
              the same lines
"""
import itertools
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # leave the source tree clean
import sandbox  # noqa: E402

DEADLINE = 540
RARE_BYTES = 320 << 20  # the least that mkfs.xfs takes, and some


def compare(box, command, place):
    outputs = []
    for name, wrapped in (("kernel", command),
                          ("uaio", box.uaio_only(*command))):
        status, output = sandbox.run(wrapped, DEADLINE, cwd=place)
        if status != 0:
            print(f"on {name}: status {status}\n{output[-3000:]}")
            return 1
        outputs.append(output.splitlines())
    failed = 0
    for kernel, uaio in itertools.zip_longest(*outputs):
        if kernel == uaio:
            print(f"        {uaio}")
        else:
            print(f"kernel: {kernel}\nuaio:   {uaio}")
            failed = 1
    return failed


COUNTERS = {"aio": "kernel_aio", "io_uring": "io_uring"}
"""What the statistics call the requests of a backend."""


def native(box, backend, command, place, env):
    """Run under uaio with a backend of the kernel, and check that the kernel executed requests."""
    stats = os.path.join(box.dir, "stats")
    status, output = sandbox.run(
        box.uaio(*command, options=[f"--backend={backend}"]), DEADLINE,
        cwd=place, env={**env, "UAIO_STATS_JSON": stats})
    if status != 0 or not box.has_backend(backend):
        return status, output
    nr = sum(line["direct"][COUNTERS[backend]] for line in box.reports(stats))
    output += f"{nr} requests by the kernel\n"
    return (status if nr else 1), output


def make_place(box, fs):
    """A directory on that file system, or None if it cannot be made."""
    is_rare = fs in ("xfs", "btrfs", "overlay")
    if not box.is_private:
        return None if is_rare else box.folder("place")
    if fs == "tmpfs":
        return box.tmpfs("place")
    if fs == "overlay":
        return box.overlay("place", 256 << 20)
    if not is_rare:
        return box.ext4("place", 256 << 20)
    if not shutil.which("mkfs." + fs):
        return None
    try:
        return box.new_fs(fs, "place", RARE_BYTES, in_memory=True)
    except subprocess.CalledProcessError:  # the kernel does not know it
        return None


def main():
    build, fs, way, *command = sys.argv[1:]
    box = sandbox.Sandbox(build)
    if os.sep in command[0]:
        command[0] = os.path.abspath(command[0])
    place = make_place(box, fs)
    if not place:
        print(f"no {fs} here")
        return sandbox.SKIP
    if way == "compare":
        return compare(box, command, place)
    env = {}
    if way == "linked":
        env["LD_LIBRARY_PATH"] = box.build
        env["UAIO_CALLS"] = "all"  # the filter denies kernel AIO only
        command = box.deny_aio(*command)
    elif way == "run":
        command = box.uaio_only(*command)
    if way in COUNTERS:
        status, output = native(box, way, command, place, env)
    else:
        status, output = sandbox.run(command, DEADLINE, cwd=place, env=env)
    print(output[-3000:], end="")
    if status != 0:
        print(f"status {status}")
    return status if status in (0, sandbox.SKIP) else 1


if __name__ == "__main__":
    sys.exit(main())
