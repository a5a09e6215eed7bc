#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""posix.py --build DIR --faults PROGRAM SENTENCE: what glibc's POSIX AIO gets wrong.

Each case runs on uaio, where it must find everything right, and on glibc, where it
tells what happens. With --list it prints the sentences, one a line.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True  # leave the source tree clean
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "oracle"))
import sandbox  # noqa: E402

DEADLINE = 240
CASES = {
    "an aio_write stays with its file when the number is closed and used again":
        "closed",
    "a child of a process that has used aio_read may use it too": "forked",
    "an aio_write is carried out behind an aio_read of the same socket":
        "duplex",
    "aio_reads of empty pipes hold up no aio_read of a file": "crowded",
    "aio_fsync comes after the aio_writes before it, whatever their priority":
        "synced",
    "aio_writes that were accepted are on the file after exit": "exited",
    "aio_suspend answers any timeout": "timeouts",
    "aio_error makes no system call, however busy the process is": "polled",
}


def run_case(box, program, case):
    worst = 0
    for where, command in (("glibc", [program, case, "glibc"]),
                           ("uaio", box.uaio(program, case, "uaio"))):
        place = box.tmpfs(where) if box.is_private else box.folder(where)
        status, output = sandbox.run(command, DEADLINE, cwd=place,
                                     env={"UAIO_FORCE_WORKER": "1"})
        print(f"on {where}, status {status}:\n{output[-2000:]}", end="")
        if status == sandbox.SKIP:
            return status
        worst = worst or status != 0
    return int(worst)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build")
    parser.add_argument("--faults")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("sentence", nargs="?")
    args = parser.parse_args()
    if args.list:
        print("\n".join(CASES))
        return 0
    program = os.path.abspath(args.faults)
    return run_case(sandbox.Sandbox(args.build), program,
                    CASES[args.sentence])


if __name__ == "__main__":
    sys.exit(main())
