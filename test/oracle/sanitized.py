#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sanitized.py BUILD: tokio-uring's own tests, with AddressSanitizer, as in a project's CI.

The tests, and the crates that they use, are built with AddressSanitizer. `uaio check`
runs each of their programs in a sandbox that denies io_uring, with the suppressions of
tokio-uring.known. All is green then. Without these suppressions, what they name is
reported, and nothing else.
"""
import os
import re
import sys

sys.dont_write_bytecode = True  # leave the source tree clean
import sandbox  # noqa: E402

DEADLINE = 120
FOUND = 99  # the exit status of `uaio check` after a report
KNOWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokio-uring.known")
# Which program has the known error, and its kind. Its writes end late, so that they are in
# flight when the driver is dropped.
WRONG = {"driver": "freed-in-flight"}
LATE = ("--fault", "write:delay=1s")
# Of each program: how many tests are in it, and how many requests they make at least.
PROGRAMS = {
    "buf": (7, 0),
    "driver": (3, 1000),
    "fixed_buf": (4, 16),
    "fs_directory": (2, 2),
    "fs_file": (15, 30),
    "runtime": (2, 0),
    "tokio_uring": (12, 1),
}


class Failed(Exception):
    """The text says what."""


def run(box, *command):
    """Run it where io_uring is denied. Return: its status and output."""
    place = box.folder("place")
    return sandbox.run(box.deny_uring("EPERM", *command), DEADLINE, cwd=place,
                       env={"TMPDIR": place})


def check(box, program, *options):
    return run(box, os.path.join(box.build, "uaio"), "check", "--verbose", *options,
               "--", program, "--test-threads=1")


def expect(is_so, what, output):
    if not is_so:
        raise Failed(f"{what}:\n{output[-4000:]}")


def check_green(box, folder, name):
    nr_tests, nr_requests = PROGRAMS[name]
    status, output = check(box, os.path.join(folder, name), "--suppressions", KNOWN)
    expect(status == 0, f"{name} ends with {status}", output)
    expect(f"test result: ok. {nr_tests} passed" in output, f"{name}: tests", output)
    found = re.search(r"check: (\d+) requests? .* checker in the process: (\S+);", output)
    if not nr_requests:
        print(f"{name}: {nr_tests} tests", flush=True)
        return
    expect(found and int(found[1]) >= nr_requests and found[2] == "AddressSanitizer",
           f"{name}: requests", output)
    print(f"{name}: {nr_tests} tests, {found[1]} requests", flush=True)


def check_wrong(box, folder, name):
    status, output = run(box, os.path.join(folder, name))
    expect(status not in (0, None), f"{name} passes without io_uring", output)
    status, output = check(box, os.path.join(folder, name), *LATE)
    kinds = set(re.findall("ERROR: uaio check: ([a-z-]+)", output))
    expect(status == FOUND and kinds == {WRONG[name]}, f"{name} has {kinds}", output)


def main():
    box = sandbox.Sandbox(sys.argv[1])
    if box.is_private:
        box.ext4("place", 64 << 20)
    folder = box.fetch("crate", "tokio-uring+asan")
    missing = set(PROGRAMS) ^ (set(os.listdir(folder)) - {"built", "tokio-server"})
    expect(not missing, "programs", str(missing))
    for name in PROGRAMS:
        check_green(box, folder, name)
    for name in WRONG:
        check_wrong(box, folder, name)


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit(str(why))
