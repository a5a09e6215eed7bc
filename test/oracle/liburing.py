#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""liburing.py BUILD WAY [TEST...]: liburing's own tests as an oracle.

They are fetched and built by tools/fetch-liburing, and linked with the shared
liburing of this machine. WAY is

    kernel    on the kernel: are they the tests?
    nothing   with io_uring answered ENOSYS, and without uaio: each must fail, for
              one that passes would prove nothing
    EPERM, ENOSYS, KILL
              under `uaio run`, with io_uring answered so, or the process killed
    all       all tests there are, on the kernel, whatever they are about: by
              hand, for a new version of liburing

A test that skips itself or a part of itself has failed: all that these need is
there. Those that need what uaio has not are in NOT_YET, with the reason.
"""
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True  # leave the source tree clean
import sandbox  # noqa: E402

DEADLINE = 600  # far more than any takes
DEADLINE_TO_FAIL = 10
TRIES = 3
# More than there are processors: most wait most of their time.
AT_ONCE = 4
SKIPPED = re.compile(r"skip|not supported|unsupported|n't support", re.I)

# What io_uring has and uaio not, and the tests that are about it.
NOT_YET = {
    "completions that wait until their thread asks": ["defer-taskrun"],
    "completions within a millisecond, on a busy machine": ["recv-multishot"],
    "a ring that is closed while a thread waits for it": ["socket"],
    "personalities that the thread has given up": ["personality"],
    "cancelling a request of another process": ["io-cancel"],
    "completions of what a child that executes a program has begun": ["timeout"],
    "a descriptor that read() refuses": ["io_uring_setup"],
}

# They pass where there is no io_uring.
PROVE_NOTHING = """
    35fa71a030ca 917257daa0fe a0908ae19763 a4c0b3decb33 b19062a56726
    double-poll-crash drop-submit exec-target iopoll-leak nolibc poll pollfree
    sqpoll-cancel-hang sqpoll-disable-exit
    """.split()

# They fail on the kernel they were tried on, 6.18, or not always pass.
FAIL_THERE = """
    d4ae271dfaae fc2a85cb02ef io_uring_register multicqes_drain read-write
    rsrc_tags send-zerocopy send_recv timeout-overflow
    """.split()


def tests_in(folder):
    names = sorted(name[:-2] for name in os.listdir(folder)
                   if name.endswith(".t"))
    left_out = set(PROVE_NOTHING + FAIL_THERE)
    return names, [name for name in names if name not in left_out]


class Runner:
    def __init__(self, box, tests, wrap, deadline):
        self.tests, self.wrap, self.deadline = tests, wrap, deadline
        self.place = box.ext4("place", 1 << 30) if box.is_private else \
            box.folder("place")

    def run(self, name, nr):
        """Return: what the test did wrong ("" if nothing), and the seconds it took."""
        folder = os.path.join(self.place, f"{name}-{nr}")
        os.mkdir(folder)
        for program in os.listdir(self.tests):  # some start others, by name
            if program.endswith(".t"):
                os.symlink(os.path.join(self.tests, program),
                           os.path.join(folder, program))
        start = time.monotonic()
        status, output = sandbox.run(self.wrap(f"./{name}.t"),
                                     self.deadline, cwd=folder)
        taken = time.monotonic() - start
        subprocess.run(["rm", "-rf", folder], check=True)
        said = output.strip().splitlines()[-3:]
        if status is None:
            return f"hangs {said}", taken
        if status == 77:
            return f"is skipped {said}", taken
        if status != 0:
            return f"exits with {status} {said}", taken
        if SKIPPED.search(output):
            return f"skips a part {said}", taken
        return "", taken

    def run_all(self, names, tries=TRIES):
        """{name: (what it did wrong, seconds)}"""
        results = {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            results = dict(zip(names, pool.map(lambda name: self.run(name, 0),
                                               names)))
        # Many tests wait for a time, not for an event: so run a failed one again, alone.
        for nr in range(1, tries):
            for name, (wrong, _) in results.items():
                if wrong:
                    results[name] = self.run(name, nr)
        return results


def judge(results, expected_to_fail):
    """Print the tests that did not end as they should. Return: how many these are."""
    nr_wrong = 0
    for name, (wrong, taken) in results.items():
        if name in expected_to_fail and not wrong:
            print(f"{name}: passes, though {expected_to_fail[name]}")
        elif name not in expected_to_fail and wrong:
            print(f"{name}: {wrong} after {taken:.1f} s")
        else:
            continue
        nr_wrong += 1
    return nr_wrong


def main():
    build, way, *wanted = sys.argv[1:]
    box = sandbox.Sandbox(build)
    tests = box.fetch("liburing")
    if way == "fetch":
        return 0
    every, names = tests_in(tests)
    not_yet = {name for each in NOT_YET.values() for name in each}
    wraps = {
        "kernel": lambda *command: list(command),
        "all": lambda *command: list(command),
        "nothing": lambda *command: box.deny_uring("ENOSYS", *command),
    }
    wrap = wraps.get(way) or (
        lambda *command: box.deny_uring(way, *box.uaio(*command)))
    runner = Runner(box, tests, wrap,
                    DEADLINE_TO_FAIL if way == "nothing" else DEADLINE)
    if way == "all":
        for name, (wrong, taken) in runner.run_all(wanted or every,
                                                   1).items():
            print(f"{name}\t{taken:.2f}\t{wrong}")
        return 0
    names = [name for name in names if name not in not_yet]
    expected = {}
    if way == "nothing":
        expected = dict.fromkeys(names, "there is no io_uring")
    names = wanted or names
    results = runner.run_all(names, 1 if expected else TRIES)
    nr_wrong = judge(results, expected)
    slowest = sorted(results, key=lambda name: results[name][1])[-3:]
    print("the slowest:", ", ".join(f"{name} {results[name][1]:.1f} s"
                                    for name in slowest))
    print(f"{len(names) - nr_wrong} passed, {nr_wrong} failed")
    if nr_wrong:
        return 1
    return 0 if box.is_private else sandbox.SKIP


if __name__ == "__main__":
    sys.exit(main())
