#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""arm-guest.py: run the tests that are asked for on a kernel that arm-system.py booted.

arm-guest.py BUILD ENGINE: fio by that engine, which the kernel refuses. It verifies what
it wrote, and the library's report says that it has served it.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # leave the source tree clean
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "kernels"))
import guest  # noqa: E402

# What keeps fio from the kernel.
REFUSE = {"libaio": (), "io_uring": ("--uring",)}
BLOCKS = 512


def fio(build, engine):
    command = [f"{build}/uaio", "run", "--stats", "--", "fio", "--name=job", "--thread",
               f"--ioengine={engine}", "--rw=randrw", f"--size={4 * BLOCKS}k", "--bs=4k",
               "--iodepth=16", "--verify=crc32c", f"--filename=/tmp/{engine}"]
    if engine in REFUSE:
        command[:0] = [f"{build}/bench/deny-aio", *REFUSE[engine], "--"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    print(done.stdout)
    served = sum(map(int, re.findall(r"\]: (\d+) requests?", done.stdout)))
    # Each block is written or read, and what was written is read.
    return done.returncode or int(served < BLOCKS)


def main():
    os.chdir("/tmp")
    guest.follow_orders({"page": os.sysconf("SC_PAGESIZE"),
                         "release": os.uname().release})


if __name__ == "__main__":
    sys.exit(fio(*sys.argv[1:]) if len(sys.argv) > 1 else main())
