#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""identity.py --build DIR --client PROGRAM --own-calls PROGRAM [SENTENCE]: as whom
requests are made.

The client changes as whom it makes its calls, and makes requests in many ways. The
kernel and the library must print the same. Without SENTENCE the script compares all
cases but the static program, with back-ends drawn by --seed, until --seconds have
passed. With --list it prints the sentences, one a line.
"""
import argparse
import difflib
import os
import random
import sys
import time

sys.dont_write_bytecode = True  # leave the source tree clean
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "oracle"))
import sandbox  # noqa: E402

DEADLINE = 300
BACKENDS = ("", "threads", "aio", "io_uring")
SIZE = 16 << 20
STATIC = "threads of a static program have their requests made as themselves"
OWN = ("a thread that changes by its own instruction has its requests made "
       "as itself")
CASES = {
    "a thread that takes another fsuid has its requests made as itself": "fsuid",
    "a thread that drops its capabilities has its requests made as itself":
        "capabilities",
    "a thread that sets its own ids has its requests made as itself": "ids",
    "a process that sets its ids has its requests made as itself": "ids-of-all",
    "a thread that takes a group has its requests made as itself": "group",
    "a thread in a Landlock domain has its requests made as itself": "landlock",
    "a thread with a working directory of its own has its requests made there":
        "directory",
    "a thread with a umask of its own has its requests made with it": "umask",
    "a thread that takes its former fsuid again is as it was": "back",
    "a request is made with the ids of before when the process regains others":
        "regain",
    "a request is made with the ids of before when the process lowers its own":
        "lower",
    "a chain goes on with the ids that the process gives itself for good": "drop",
    "what a thread changes for itself does not reach other threads": "beside",
    OWN: "fsuid",
    STATIC: "fsuid ids group landlock directory",
    "a thread that changes nothing has its requests made as the process":
        "nothing",
}

# The C library changes the ids of all threads, those of the library, too. In the
# kernel the thread that polls a ring keeps them. Threads of the C library's AIO, which
# is compared with, have whatever ids they have when they come to a request.
DIFFERS = ("ids-of-all polled", "regain polled", "lower polled",
           "regain posix", "lower posix",
           # Nobody can take the former ids then.
           "drop plain", "drop async", "drop drain", "drop polled", "drop heir",
           "drop aio", "drop posix")

# A request that begins behind another of its chain the kernel makes with the ids that
# the submitter has then; the library with those ids at its submission, if the submitter
# has gained rights since.
AS_SUBMITTED = ("regain chain", "regain plain")


def lines(output):
    return [line for line in output.splitlines()
            if not line.startswith(DIFFERS)]


def expect_as_submitted(wanted):
    """Return: what the library prints where the kernel prints this."""
    chain, plain = AS_SUBMITTED
    return [line for line in wanted if not line.startswith(chain)] + [
        line.replace(plain, chain) for line in wanted if line.startswith(plain)]


def run(box, name, command, env):
    status, output = sandbox.run(command, DEADLINE, cwd=box.ext4(name, SIZE, True),
                                 env=env)
    if status not in (0, sandbox.SKIP):
        print(f"{name}: status {status}\n{output[-3000:]}")
    return status, lines(output)


def compare_static(box, client):
    worst = 0
    for change in CASES[STATIC].split():
        found = {}
        for name, command in (("kernel", [client, change]),
                              ("trap", box.uaio(client, change, options=[
                                  "--trap", "--uring=always"]))):
            status, all_lines = run(box, f"{name}-{change}", command, {})
            # POSIX AIO is the program's own, within it.
            found[name] = [line for line in all_lines if " posix " not in line]
            worst = worst or status
        if found["kernel"] != found["trap"]:
            worst = 1
            print("\n".join(difflib.unified_diff(
                found["kernel"], found["trap"], "kernel", "trap",
                lineterm="", n=0)))
    return worst


def compare(box, client, change, options):
    """Return: the worst status, and how many requests were compared."""
    status, wanted = run(box, "kernel", [client, change], {})
    if status:
        return status, 0
    worst = 0
    wanted = sorted(expect_as_submitted(wanted))
    for name, env in (("inline", {}), ("workers", {"UAIO_FORCE_WORKER": "1"})):
        status, found = run(box, name, box.uaio(
            client, change, options=["--uring=always", "--posix=on", *options]), env)
        found.sort()
        if status or found != wanted:
            worst = 1
            print("\n".join(difflib.unified_diff(wanted, found, "kernel", name,
                                                 lineterm="", n=0)))
    return worst, 2 * len(wanted)


def compare_case(box, args, sentence, backend):
    options = [f"--backend={backend}"] if backend else []
    client = args.own_calls if sentence == OWN else args.client
    return compare(box, os.path.abspath(client), CASES[sentence], options)


def compare_all(box, args):
    """Compare each case once before any case comes again."""
    chance = random.Random(args.seed)
    end = time.monotonic() + args.seconds
    cases = [case for case in CASES if case != STATIC]
    compared = failed = 0
    while not compared or time.monotonic() < end:
        chance.shuffle(cases)
        for case in cases:
            backend = chance.choice(BACKENDS)
            status, requests = compare_case(box, args, case, backend)
            compared += requests
            if status not in (0, sandbox.SKIP):
                failed += 1
                print(f"failed: {case}, with the back-end {backend or 'by default'}")
            if time.monotonic() > end:
                break
    print(f"counted {compared} requests: {failed} lost")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build")
    parser.add_argument("--client")
    parser.add_argument("--own-calls")
    parser.add_argument("--static")
    parser.add_argument("--backend")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("sentence", nargs="?")
    args = parser.parse_args()
    if args.list:
        print("\n".join(case for case in CASES if case != STATIC))
        return 0
    box = sandbox.Sandbox(args.build)
    if not box.is_private or not box.has_kernel_uring() \
            or not box.has_kernel_aio():
        print("needs root, and the kernel's io_uring and AIO")
        return sandbox.SKIP
    if args.static:
        return compare_static(box, os.path.abspath(args.static))
    if not args.sentence:
        return compare_all(box, args)
    status, requests = compare_case(box, args, args.sentence, args.backend)
    print(f"{requests} requests")
    return status


if __name__ == "__main__":
    sys.exit(main())
