#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""backends.py BUILD ENGINE WAY: fio writes, reads back and verifies direct I/O that
one of the library's backends executes.

The files are there before, so that writes are in place. ENGINE is fio's: whichever
interface the program uses. Ways: BackendClient in ways.py.
"""
import itertools
import os
import sys

sys.dont_write_bytecode = True  # leave the source tree clean
import ways  # noqa: E402

JOBS = 4
SIZE = 2 << 20
BYTES_MAX = 64 << 10
LEAST = JOBS * SIZE // BYTES_MAX
"""Of so many requests at least a pass over the files is made."""

def fio(engine):
    def run(client):
        for depth, jobs, rw in itertools.product(
                (1, 32), ([], ["--thread"]), ("randwrite", "randrw")):
            client.run("fio", "--name=job", f"--ioengine={engine}", "--direct=1",
                       "--overwrite=1", f"--size={SIZE}", f"--numjobs={JOBS}",
                       f"--bsrange=4k-{BYTES_MAX}", f"--iodepth={depth}",
                       f"--rw={rw}", "--verify=crc32c", "--verify_fatal=1",
                       "--randseed=11", *jobs)
            client.prove("fio", (1 if rw == "randrw" else 2) * LEAST)
            for name in os.listdir(client.place):
                if name.startswith("job."):
                    os.unlink(client.path(name))
        client.prove_backend()
    return run


ENGINES = {engine: fio(engine)
           for engine in ("libaio", "io_uring", "posixaio")}

if __name__ == "__main__":
    sys.exit(ways.main(__doc__, ENGINES, ways.BackendClient))
