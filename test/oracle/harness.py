#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""harness.py BUILD [quick|long|CASE...|backends BACKEND...]: libaio's own test
harness as an oracle.

Every case is run on the kernel, on uaio, and on uaio with the kernel's AIO
denied, or else, with `backends`, the quick ones on the kernel and on uaio with each
of those; a case must end in the same way on all of them. The harness is fetched
and built by tools/fetch-libaio. What a case may need is given to each of
them separately: a folder on ext4, a file system of 65 KiB free space that the
harness brings with it, and a new ext2.
"""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True  # leave the source tree clean
import sandbox  # noqa: E402

DEADLINE = 300
TRIES = 3
ENDINGS = {0: "pass", 3: "skip", None: "hangs"}
# These fill file systems of their own, which only root can mount.
NEED_MOUNTS = {8, 10}
# These use all of the memory, or repeat themselves for many seconds.
LONG = {6, 11, 14, 18}
# Case 20 reads the quota, and makes an array as long.
QUOTA = ["--max-nr=65536"]


def cases_of(harness):
    names = os.listdir(os.path.join(harness, "cases"))
    return sorted(int(n[:-2]) for n in names if re.fullmatch(r"\d+\.p", n))


def chosen(cases, arguments):
    if arguments in (["quick"], ["long"]):
        is_long = arguments == ["long"]
        return [case for case in cases if (case in LONG) == is_long]
    return [int(a) for a in arguments] or cases


def prepare(box, harness, name):
    """The folder a lane works in, laid out as the harness's README asks."""
    if not box.is_private:
        lane = box.folder(name)
        os.mkdir(os.path.join(lane, "testdir"))
        return lane
    lane = box.ext4(name, 1200 << 20)
    os.mkdir(os.path.join(lane, "testdir"))
    enospc = tempfile.TemporaryFile(dir=box.dir)
    with open(os.path.join(harness, "ext2-enospc.img"), "rb") as image:
        shutil.copyfileobj(image, enospc)
    enospc.flush()
    box.mount(f"{name}/testdir.enospc", "ext2", enospc)
    ext2 = tempfile.TemporaryFile(dir=box.dir)
    ext2.truncate(10 << 20)
    sandbox.make_fs(ext2, "mke2fs", "-q", "-F", "-b", "4096")
    box.mount(f"{name}/testdir.ext2", "ext2", ext2)
    return lane


def renew_files(lane):
    for name, mode in (("rofile", 0o400), ("wofile", 0o200), ("rwfile", 0o600)):
        path = os.path.join(lane, "testdir", name)
        if os.path.exists(path):
            os.unlink(path)
        with open(path, "w") as file:
            file.write("test\n")
        os.chmod(path, mode)


def run_lane(lane, harness, cases, wrap):
    """Run the cases in order, as runtests.sh does. Return: {case: (ending, output)}."""
    results = {}
    for case in cases:
        renew_files(lane)
        program = os.path.join(harness, "cases", f"{case}.p")
        status, output = sandbox.run(wrap(program), DEADLINE, cwd=lane)
        results[case] = ENDINGS.get(status, f"fails ({status})"), output
    return results


def try_again(lane, harness, results, wrap):
    """Repeat cases that failed, as other programs may be the cause. Case 20 wants all of
    fs.aio-max-nr, which the whole machine shares. Many cases look for the event of a
    write without waiting, which fails if the disk is slow at that moment."""
    for _ in range(TRIES):
        cases = [case for case, (ending, _) in results.items()
                 if ending != "pass"]
        if not cases:
            return
        time.sleep(1)
        results.update(run_lane(lane, harness, cases, wrap))


def report(lanes, results, cases):
    """Print the table. Return: the cases whose endings differ."""
    differing = []
    print("case  " + "  ".join(f"{name:>14}" for name in lanes))
    for case in cases:
        endings = [results[name][case][0] for name in lanes]
        differs = len(set(endings)) > 1
        print(f"{case:4}  " + "  ".join(f"{e:>14}" for e in endings)
              + ("   <- differs" if differs else ""))
        if differs:
            differing.append(case)
    for name in lanes:
        passed = sum(results[name][case][0] == "pass" for case in cases)
        print(f"{name}: {passed} of {len(cases)}")
    for case in differing:
        for name in lanes:
            ending, output = results[name][case]
            print(f"\n--- {case} on {name}: {ending}\n{output[-2000:]}")
    return differing


def lanes_of(box, backends):
    """Return: {name: how a command is run in this way}"""
    lanes = {"kernel": lambda *command: list(command)}
    for backend in backends:
        lanes[backend] = functools.partial(
            box.uaio, options=[f"--backend={backend}", *QUOTA])
    if not backends:
        lanes["uaio"] = functools.partial(box.uaio, options=QUOTA)
        lanes["uaio, no kernel AIO"] = functools.partial(box.uaio_only,
                                                         options=QUOTA)
    return lanes


def main():
    box = sandbox.Sandbox(sys.argv[1])
    harness = box.fetch("libaio")
    arguments, backends = sys.argv[2:], []
    if arguments[:1] == ["backends"]:
        arguments, backends = ["quick"], arguments[1:]
    cases = chosen(cases_of(harness), arguments)
    if not box.is_private:
        cases = [c for c in cases if c not in NEED_MOUNTS]
        print("cases 8 and 10 need root and were not run")
    lanes = lanes_of(box, backends)
    folders = {name: prepare(box, harness, f"lane{i}")
               for i, name in enumerate(lanes)}
    with ThreadPoolExecutor(len(lanes)) as pool:
        futures = {name: pool.submit(run_lane, folders[name], harness, cases,
                                     wrap) for name, wrap in lanes.items()}
        results = {name: future.result() for name, future in futures.items()}
    for name, wrap in lanes.items():
        try_again(folders[name], harness, results[name], wrap)
    if report(lanes, results, cases):
        return 1
    return 0 if box.is_private else sandbox.SKIP


if __name__ == "__main__":
    sys.exit(main())
