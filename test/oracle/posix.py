#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""posix.py BUILD PROGRAM WAY [ARGUMENT...]: unmodified programs of POSIX AIO.

fio checks each block it wrote; what the ranks of an MPI program wrote they compare
with each other, and it is looked at from outside. Ways: PosixClient in ways.py.
"""
import array
import os
import subprocess
import sys

sys.dont_write_bytecode = True  # leave the source tree clean
import sandbox  # noqa: E402
import uring  # noqa: E402
import ways  # noqa: E402

MIB = 1 << 20
DEADLINE = 120

# fio

BUFFERED = ["--direct=0", "--bsrange=512-64k"]
DIRECT = ["--direct=1", "--bsrange=4k-64k"]
VERIFY = ["--verify=crc32c", "--verify_fatal=1", "--randseed=11"]
FIO_SIZE = 4 * MIB
FIO_LEAST = FIO_SIZE // (64 << 10)
"""Of so many requests at least a pass over the file is made."""


def fio_job(client, at_least, *options):
    client.run("fio", "--name=job", "--ioengine=posixaio", "--filename=file",
               f"--size={FIO_SIZE}", *VERIFY, *options)
    client.prove("fio", at_least)


def fio(io):
    def run(client):
        for depth in 1, 8, 32:
            for rw in "write", "randwrite", "randrw":
                fio_job(client, (1 if rw == "randrw" else 2) * FIO_LEAST,
                        f"--rw={rw}", f"--iodepth={depth}", *io)
                os.unlink(client.path("file"))
            # Written by one process, and checked by others.
            same = io[0], "--bs=16k", f"--iodepth={depth}"
            fio_job(client, FIO_LEAST, "--rw=write", "--do_verify=0", *same)
            for rw in "read", "randread":
                fio_job(client, FIO_LEAST, f"--rw={rw}", *same)
            os.unlink(client.path("file"))
    return run


def fio_threads(client):
    """Threads, each on its part of the file, that sync it now and then."""
    fio_job(client, 8 * FIO_LEAST, "--rw=randwrite", "--thread", "--numjobs=4",
            "--offset_increment=4m", "--iodepth=16", "--fsync=16", *BUFFERED)


# stress-ng


def stress_ng(client):
    """Reads and writes of one file, whose end a signal reports. stress-ng fails if a call
    does."""
    for requests in 1, 16, 128:
        output = client.run(
            "stress-ng", "--aio", "1", "--aio-ops", "2000",
            "--aio-requests", str(requests), "--temp-path", client.place)
        if "successful run completed" not in output:
            raise ways.Failed(output)
        client.prove("stress-ng-aio", 2000)


# MPI: mpi.c, built with the MPI that is named

RANKS = 4
BLOCK, BLOCKS, ROUNDS = 12288, 48, 4
"""As in mpi.c."""
OTHER_ROUNDS, KILLED = 40, 2
PAGE = 4096

# Open MPI refuses root, and wants a processor for each rank; it asks how to start
# ranks on other machines. OMPIO is the one of its two kinds of MPI-IO that uses
# POSIX AIO: its copy of ROMIO is built without.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_plm": "isolated",
    "OMPI_MCA_btl": "self,vader",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_io": "ompio",
}
# The ways in which each makes a request of each block that a rank writes or reads.
# MPICH, which has ROMIO, makes plain calls for what is collective.
MPI_AIO = {
    "mpich": ("independent",),
    "openmpi": ("independent", "collective"),
}
MPI_REQUESTS = 2 * RANKS * BLOCKS * ROUNDS


class Mpi:
    """One MPI of Debian's, and the program built with it."""

    def __init__(self, client, name, source):
        self.client, self.name = client, name
        self.comm = f"mpi-{name}"
        self.program = client.path(self.comm)
        subprocess.run([ways.find(f"mpicc.{name}"), "-O2", "-w", "-pthread",
                        source, "-o", self.program], check=True)

    def run(self, *options, env=None):
        """Return: the status, which is None where it hangs, and the output."""
        client = self.client
        return sandbox.run(
            client.wrap(ways.find(f"mpirun.{self.name}"), *options),
            DEADLINE, cwd=client.place,
            env={**client.env(), **OPEN_MPI, **(env or {})})

    def share(self, way):
        path = self.client.path("shared")
        status, output = self.run("-n", str(RANKS), self.program, way, path)
        if status != 0:
            raise ways.Failed(f"{self.name}, {way}: {status}\n{output[-3000:]}")
        self.client.prove(self.comm, MPI_REQUESTS
                          if way in MPI_AIO[self.name] else 0)
        with open(path, "rb") as file:
            data = file.read()
        if data != words(0, RANKS * BLOCKS * BLOCK, ROUNDS):
            raise ways.Failed(f"{self.name}, {way}: the file is not what was "
                              "written to it")
        os.unlink(path)


def words(start, end, in_round):
    """What the file holds there, written in that round."""
    return array.array("Q", range(start | in_round << 48, end | in_round << 48,
                                  8)).tobytes()


def mpi(name):
    def run(client, source):
        of_name = Mpi(client, name, source)
        for way in "independent", "collective", "blocking":
            of_name.share(way)
    return run


def mpi_killed(name):
    """One rank is killed while it writes. No other rank may hang, and no file may contain
    other data than was written there. Open MPI can be told to let the other ranks run
    to their end."""
    goes_on = name == "openmpi"

    def run(client, source):
        path = client.path("own")
        of_name = Mpi(client, name, source)
        options = ["--enable-recovery"] if goes_on else []
        for forced in {}, {"UAIO_FORCE_WORKER": "1"}:
            status, output = of_name.run(
                *options, "-n", str(RANKS), of_name.program, "killed", path,
                env=forced)
            # What an MPI says of a killed rank is its own affair: that rank ends
            # in no other way.
            if status is None:
                raise ways.Failed(f"{name}: {status}\n{output[-3000:]}")
            client.prove(of_name.comm, (RANKS - 1) * BLOCKS * OTHER_ROUNDS
                         if goes_on else 0)
            for rank in range(RANKS):
                check_file(f"{path}.{rank}",
                           OTHER_ROUNDS if goes_on and rank != KILLED else 0)
    return run


def check_file(path, at_least):
    """Check the file, and remove it: what its rank reported as written is there, for at
    least so many rounds. Everything else is either written or not."""
    with open(path, "rb") as file:
        data = file.read()
    with open(path + ".done", "rb") as log:
        done = log.read()
    if list(done) != list(range(1, len(done) + 1)) or len(done) < at_least:
        raise ways.Failed(f"{path}: rounds {list(done)}")
    size = BLOCKS * BLOCK
    if len(data) < len(done) * size:
        raise ways.Failed(f"{path}: {len(data)} bytes of {len(done)} rounds")
    for start in range(0, len(data), PAGE):
        in_round = start // size + 1
        page = data[start:start + PAGE]
        if page == words(start, start + len(page), in_round):
            continue
        if in_round <= len(done) or any(page):
            raise ways.Failed(f"{path}: byte {start} and after are not what "
                              f"was written, in round {in_round}")
    os.unlink(path)
    os.unlink(path + ".done")


# NIXL, from PyPI: its POSIX backend, of files and memory. No GPU is asked for.


def nixl(client, script):
    uring.copy(client, script, 3 * (uring.COPIED // (16 << 10)))


PROGRAMS = {
    "fio-buffered": fio(BUFFERED),
    "fio-direct": fio(DIRECT),
    "fio-threads": fio_threads,
    "stress-ng": stress_ng,
    "mpich": mpi("mpich"),
    "openmpi": mpi("openmpi"),
    "mpich-killed": mpi_killed("mpich"),
    "openmpi-killed": mpi_killed("openmpi"),
    "nixl": nixl,
}

if __name__ == "__main__":
    sys.exit(ways.main(__doc__, PROGRAMS, ways.PosixClient))
