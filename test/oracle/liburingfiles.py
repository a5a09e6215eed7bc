#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""liburingfiles.py SOURCE TARGET: a file copied by liburing's bindings for Python.

TARGET is opened, given its length, looked at, renamed and closed by requests; the
blocks are moved by links of a read and a write, through vectors and through fixed
buffers, and read back. The statically linked liburing makes its calls itself.
"""
import os
import random
import sys

import liburing as lib

BLOCK = 16384
NR_PAIRS = 16  # of a read and a write, in flight together
IOSQE_IO_LINK = 1 << 2


class Ring:
    def __init__(self):
        self.ring = lib.io_uring()
        lib.io_uring_queue_init(2 * NR_PAIRS, self.ring)
        self.cqe = lib.io_uring_cqe()

    def prepare(self, function, *arguments, user_data=1, flags=0):
        sqe = lib.io_uring_get_sqe(self.ring)
        function(sqe, *arguments)
        sqe.user_data = user_data
        sqe.flags = flags

    def results(self, nr):
        """{user_data: result} of what is prepared, nr requests."""
        assert lib.io_uring_submit_and_wait(self.ring, nr) == nr
        found = {}
        for _ in range(nr):
            lib.trap_error(lib.io_uring_wait_cqe(self.ring, self.cqe))
            found[self.cqe.user_data] = lib.trap_error(self.cqe.res)
            lib.io_uring_cqe_seen(self.ring, self.cqe)
        return found

    def do(self, function, *arguments):
        self.prepare(function, *arguments)
        return self.results(1)[1]


def by_vectors(ring, source, target, buffers, pairs):
    vectors = [lib.iovec(buffer) for buffer in buffers]
    for i, at in enumerate(pairs):
        ring.prepare(lib.io_uring_prep_readv, source, vectors[i], at,
                     user_data=2 * i + 1, flags=IOSQE_IO_LINK)
        ring.prepare(lib.io_uring_prep_writev, target, vectors[i], 1, at,
                     user_data=2 * i + 2)
    return ring.results(2 * len(pairs))


def by_fixed(ring, source, target, buffers, pairs):
    for i, at in enumerate(pairs):
        ring.prepare(lib.io_uring_prep_read_fixed, source, buffers[i], BLOCK,
                     at, i, user_data=2 * i + 1, flags=IOSQE_IO_LINK)
        ring.prepare(lib.io_uring_prep_write_fixed, target, buffers[i], BLOCK,
                     at, i, user_data=2 * i + 2)
    return ring.results(2 * len(pairs))


def copy(ring, source, target, length):
    buffers = [bytearray(BLOCK) for _ in range(NR_PAIRS)]
    vector = lib.iovec(buffers)
    lib.io_uring_register_buffers(ring.ring, vector, len(vector))
    blocks = list(range(0, length, BLOCK))
    random.Random(length).shuffle(blocks)
    for first in range(0, len(blocks), NR_PAIRS):
        pairs = blocks[first:first + NR_PAIRS]
        move = by_fixed if first // NR_PAIRS % 2 else by_vectors
        results = move(ring, source, target, buffers, pairs)
        assert set(results.values()) == {BLOCK}, results
        for i, at in enumerate(pairs):
            ring.prepare(lib.io_uring_prep_read, target, buffers[i], BLOCK, at,
                         user_data=i + 1)
        results = ring.results(len(pairs))
        assert set(results.values()) == {BLOCK}, results
        for i, at in enumerate(pairs):
            assert buffers[i] == os.pread(source, BLOCK, at), at
    lib.io_uring_unregister_buffers(ring.ring)


def main(source_path, target_path):
    ring = Ring()
    works = lib.probe()
    assert works["IORING_OP_READ_FIXED"] and works["IORING_OP_RENAMEAT"], works
    temporary = target_path + ".new"
    source = ring.do(lib.io_uring_prep_openat, source_path.encode())
    target = ring.do(lib.io_uring_prep_openat, temporary.encode(),
                     os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
    length = os.fstat(source).st_size
    assert length % BLOCK == 0
    ring.do(lib.io_uring_prep_fallocate, target, length)
    copy(ring, source, target, length)
    ring.do(lib.io_uring_prep_fsync, target)
    ring.do(lib.io_uring_prep_close, target)
    ring.do(lib.io_uring_prep_close, source)
    ring.do(lib.io_uring_prep_renameat, temporary.encode(),
            target_path.encode())
    status = lib.statx()
    ring.do(lib.io_uring_prep_statx, status, target_path.encode())
    assert status.stx_size == length, status.stx_size
    try:
        ring.do(lib.io_uring_prep_unlink, temporary.encode())
    except FileNotFoundError:
        pass
    else:
        raise AssertionError("what was renamed is still there")
    lib.io_uring_queue_exit(ring.ring)


main(*sys.argv[1:])
