#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uring.py BUILD PROGRAM WAY [ARGUMENT...]: unmodified programs of io_uring.

What they wrote is looked at by themselves and from outside. Ways: UringClient in
ways.py. MariaDB is database.py's.
"""
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # leave the source tree clean
import programs  # noqa: E402
import ways  # noqa: E402

MIB = programs.MIB
NR_FILES = 10_000

# fio

DIRECT = ["--direct=1", "--bsrange=4k-64k"]
BUFFERED = ["--bsrange=512-64k"]
VERIFY = ["--verify=crc32c", "--verify_fatal=1", "--randseed=11"]
FIO_KINDS = {
    "plain": [],
    "fixedbufs": ["--fixedbufs"],
    "registerfiles": ["--registerfiles"],
    "sqthread_poll": ["--sqthread_poll"],
    "all": ["--fixedbufs", "--registerfiles", "--sqthread_poll"],
    "vectors": ["--nonvectored=0"],
    "async": ["--force_async=4"],
    "hipri": ["--hipri"],
}


def fio(kind):
    def run(client):
        for io in BUFFERED, DIRECT:
            if kind == "hipri" and io is BUFFERED:
                continue  # polling is for direct requests
            for depth in 1, 32:
                for rw in "write", "randwrite":
                    fio_job(client, kind, rw, depth, io)
    return run


def fio_job(client, kind, rw, depth, io):
    client.run("fio", "--name=job", "--ioengine=io_uring", "--size=4m",
               f"--rw={rw}", f"--iodepth={depth}", *FIO_KINDS[kind], *io,
               *VERIFY)
    client.prove("fio", 2 * (4 * MIB // (64 << 10)))
    os.unlink(client.path("job.0.0"))


# QEMU


def qemu_io(client):
    programs.qemu_io(client, "io_uring")


def qemu_img(client):
    programs.qemu_img(client, "io_uring")


# plocate, which has a group's privilege: a copy has not


def plocate(client):
    tree, database = client.path("tree"), client.path("db")
    paths = [os.path.join(tree, str(i % 100), f"thing-{i}")
             for i in range(NR_FILES)]
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w"):
            pass
    subprocess.run([ways.find("updatedb.plocate"), "-l", "0", "-U", tree,
                    "-o", database], check=True)
    program = client.path("plocate")
    shutil.copyfile(ways.find("plocate"), program)
    os.chmod(program, 0o755)
    for path in paths[:1000]:
        os.unlink(path)
    # What is there still is asked of the file system, file by file.
    output = client.run(program, "-e", "-d", database, "thing-")
    if sorted(output.splitlines()) != sorted(paths[1000:]):
        raise ways.Failed(f"{len(output.splitlines())} paths are found")
    client.prove("plocate", NR_FILES)


# Node


def node(client, script):
    program = ways.find("node")
    version = subprocess.check_output(
        [program, "-p", "process.versions.uv"], text=True)
    if tuple(map(int, version.split("."))) < (1, 45, 0):
        raise ways.Missing(f"a node whose libuv is newer than {version}")
    os.mkdir(client.path("files"))
    output = client.run("env", "UV_USE_IO_URING=1", program, script,
                        client.path("files"), str(NR_FILES))
    if output != f"{NR_FILES} files\n":
        raise ways.Failed(output)
    client.prove("node", 3 * NR_FILES)


PROGRAMS = {
    **{"fio-" + kind: fio(kind) for kind in FIO_KINDS},
    "qemu-io": qemu_io,
    "qemu-img": qemu_img,
    "plocate": plocate,
    "node": node,
}

if __name__ == "__main__":
    sys.exit(ways.main(__doc__, PROGRAMS, ways.UringClient))
