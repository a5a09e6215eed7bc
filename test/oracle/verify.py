#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""verify.py BUILD SCENARIO: unmodified fio writes, reads back and verifies.

Every block carries a crc32c of itself, its offset and fio's own header, so
data that is lost, stale, torn or misplaced ends the run with an error. The
kernel's own AIO is denied meanwhile: what passes was done by uaio.
"""
import itertools
import os
import sys

sys.dont_write_bytecode = True  # leave the source tree clean
import sandbox  # noqa: E402

DEADLINE = 300
WORKER = {"UAIO_FORCE_WORKER": "1"}
VERIFY = ["--verify=crc32c", "--verify_fatal=1", "--randseed=11"]
DIRECT = ["--direct=1", "--bsrange=4k-64k"]
BUFFERED = ["--bsrange=512-64k"]


def fio(*options):
    return ["fio", "--name=job", "--ioengine=libaio", "--output-format=normal",
            *options]


def matrix(*io):
    """Depth, way of reaping and pattern, all combinations."""
    for depth, reap, rw in itertools.product(
            (1, 32), ((), ("--userspace_reap",)), ("write", "randwrite")):
        yield fio("--size=4m", f"--rw={rw}", f"--iodepth={depth}", *reap, *io,
                  *VERIFY)


def threads():
    yield fio("--thread", "--numjobs=8", "--size=1m", "--iodepth=8",
              "--rw=randwrite", *BUFFERED, *VERIFY)
    yield fio("--thread", "--numjobs=8", "--size=1m", "--iodepth=8",
              "--rw=randwrite", *DIRECT, *VERIFY)


def files():
    yield fio("--nrfiles=8", "--size=4m", "--iodepth=16", "--rw=randwrite",
              *BUFFERED, *VERIFY)
    yield fio("--nrfiles=8", "--size=4m", "--iodepth=16", "--rw=randwrite",
              "--file_service_type=random", *DIRECT, *VERIFY)


def sync():
    for option in "--fsync=8", "--fdatasync=8":
        yield fio(option, "--size=1m", "--iodepth=16", "--rw=randwrite",
                  *BUFFERED, *VERIFY)
        yield fio(option, "--size=1m", "--iodepth=16", "--rw=write", *DIRECT,
                  *VERIFY)


def batches():
    """Many requests a call, reaped late: submission falls short at times."""
    yield fio("--size=8m", "--iodepth=128", "--iodepth_batch_submit=32",
              "--iodepth_batch_complete_min=16", "--rw=randwrite", *BUFFERED,
              *VERIFY)
    yield fio("--size=8m", "--iodepth=128", "--iodepth_batch_submit=32",
              "--iodepth_batch_complete_min=16", "--rw=randwrite", *DIRECT,
              *VERIFY)


def crowd():
    """512 threads with a context and a file each, small blocks."""
    job = ["--thread", "--numjobs=512", "--size=256k", "--iodepth=1",
           "--bs=1k", "--group_reporting"]
    yield fio(*job, "--rw=randrw", "--loops=2")
    yield fio(*job, "--rw=randrw", *VERIFY)


def shell():
    yield ["sh", "-c", " ".join(fio("--size=4m", "--iodepth=16",
                                    "--rw=randwrite", *BUFFERED, *VERIFY))]


# scenario: (file system, commands, environment)
SCENARIOS = {
    "ext4-direct": ("ext4", matrix(*DIRECT), {}),
    "ext4-buffered": ("ext4", matrix(*BUFFERED), {}),
    "tmpfs-direct": ("tmpfs", matrix(*DIRECT), {}),
    "tmpfs-buffered": ("tmpfs", matrix(*BUFFERED), {}),
    "ext4-direct-worker": ("ext4", matrix(*DIRECT), WORKER),
    "ext4-buffered-worker": ("ext4", matrix(*BUFFERED), WORKER),
    "tmpfs-direct-worker": ("tmpfs", matrix(*DIRECT), WORKER),
    "tmpfs-buffered-worker": ("tmpfs", matrix(*BUFFERED), WORKER),
    "threads": ("ext4", threads(), {}),
    "threads-worker": ("ext4", threads(), WORKER),
    "files": ("ext4", files(), {}),
    "files-worker": ("ext4", files(), WORKER),
    "sync": ("ext4", sync(), {}),
    "sync-worker": ("ext4", sync(), WORKER),
    "batches": ("ext4", batches(), {}),
    "batches-worker": ("ext4", batches(), WORKER),
    "crowd": ("tmpfs", crowd(), {}),
    "crowd-worker": ("tmpfs", crowd(), WORKER),
    "shell": ("ext4", shell(), {}),
}


def main():
    build, scenario = sys.argv[1:3]
    fs, commands, env = SCENARIOS[scenario]
    box = sandbox.Sandbox(build)
    wrap = box.uaio_only
    if sys.argv[3:] == ["kernel"]:  # by hand: is it the test?
        def wrap(*command):
            return list(command)
    if not box.is_private:
        place = box.folder("files")
    elif fs == "ext4":
        place = box.ext4("files", 512 << 20)
    else:
        place = box.tmpfs("files")
    failed = 0
    for command in commands:
        status, output = sandbox.run(wrap(*command), DEADLINE, cwd=place,
                                     env=env)
        for name in os.listdir(place):
            if name.startswith("job."):
                os.unlink(os.path.join(place, name))
        if status != 0:
            failed += 1
            ending = "hangs" if status is None else f"exits with {status}"
            print(f"{' '.join(command)}\n{ending}:\n{output[-1500:]}",
                  flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
