#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""checksum.py FILE...: the SHA-256 of files, read ahead by asynchronous reads.

An example of libaio in Python, by ctypes. Nothing in it knows of uaio; run it
either way:

    python3 checksum.py FILE                  # on the kernel
    uaio run -- python3 checksum.py FILE      # on uaio

While one block is digested, the next ones are being read.
"""
import ctypes
import errno
import hashlib
import os
import sys

DEPTH = 8
BLOCK_BYTES = 128 * 1024

IO_CMD_PREAD = 0


class Iocb(ctypes.Structure):
    """struct iocb as <linux/aio_abi.h> has it on a little-endian machine."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32), ("rw_flags", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16), ("reqprio", ctypes.c_int16),
        ("fildes", ctypes.c_uint32),
        ("buf", ctypes.c_uint64), ("nbytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64), ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32), ("resfd", ctypes.c_uint32),
    ]


class Event(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64), ("obj", ctypes.c_uint64),
        ("res", ctypes.c_int64), ("res2", ctypes.c_int64),
    ]


def load_libaio():
    """The library under either of its names: Debian renamed it in 2024."""
    for name in "libaio.so.1", "libaio.so.1t64":
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        sys.exit("checksum: libaio is not installed")
    # The handle is a pointer: undeclared, it would be cut to 32 bits.
    library.io_setup.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)]
    library.io_destroy.argtypes = [ctypes.c_void_p]
    library.io_submit.argtypes = [ctypes.c_void_p, ctypes.c_long,
                                  ctypes.POINTER(ctypes.POINTER(Iocb))]
    library.io_getevents.argtypes = [
        ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.POINTER(Event),
        ctypes.c_void_p]
    return library


def check(result):
    """libaio returns a negative errno; so does the result of a request."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


class Context:
    """An AIO context; it is destroyed when its `with` block is left.

    That waits for the requests in flight, which write to their buffers: keep
    those alive for longer than the context.
    """

    def __init__(self, nr_events):
        self.library = load_libaio()
        self.handle = ctypes.c_void_p()
        check(self.library.io_setup(nr_events, ctypes.byref(self.handle)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.library.io_destroy(self.handle)

    def submit(self, iocb):
        """One request: io_submit takes it, or says why not."""
        check(self.library.io_submit(self.handle, 1,
                                     ctypes.byref(ctypes.pointer(iocb))))

    def wait(self):
        """Wait for one event. (ctypes lets other threads run meanwhile.)"""
        event = Event()
        result = -errno.EINTR  # also if a signal handler ran meanwhile
        while result == -errno.EINTR:
            result = self.library.io_getevents(self.handle, 1, 1,
                                               ctypes.byref(event), None)
        check(result)
        return event


class Reader:
    """The blocks of a file in order, several of them read ahead."""

    def __init__(self, fd):
        self.fd = fd
        self.size = os.fstat(fd).st_size
        self.next = 0  # where the next block to be asked for begins
        self.buffers = [ctypes.create_string_buffer(BLOCK_BYTES)
                        for _ in range(DEPTH)]
        # The iocb of a request must stay where it is until it has completed.
        self.iocbs = [Iocb() for _ in range(DEPTH)]
        self.done = {}  # slot: bytes read, for those that have completed

    def ask(self, context, slot):
        """Ask for the next block, if there is one."""
        if self.next >= self.size:
            return
        self.iocbs[slot] = Iocb(
            data=slot, opcode=IO_CMD_PREAD, fildes=self.fd,
            buf=ctypes.addressof(self.buffers[slot]),
            nbytes=min(BLOCK_BYTES, self.size - self.next), offset=self.next)
        self.next += BLOCK_BYTES
        context.submit(self.iocbs[slot])

    def blocks(self):
        with Context(DEPTH) as context:
            for slot in range(DEPTH):
                self.ask(context, slot)
            for number in range((self.size + BLOCK_BYTES - 1) // BLOCK_BYTES):
                # Slots take turns, so this block is in the slot of its number;
                # requests may complete in any order.
                slot = number % DEPTH
                while slot not in self.done:
                    event = context.wait()
                    self.done[event.data] = check(event.res)
                length = self.done.pop(slot)
                if length != self.iocbs[slot].nbytes:
                    raise OSError("the file became shorter")
                yield self.buffers[slot].raw[:length]
                self.ask(context, slot)


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: checksum.py FILE...")
    for path in sys.argv[1:]:
        digest = hashlib.sha256()
        try:
            with open(path, "rb", buffering=0) as file:
                for block in Reader(file.fileno()).blocks():
                    digest.update(block)
        except OSError as error:
            sys.exit(f"checksum: {path}: {error.strerror or error}")
        print(f"{digest.hexdigest()}  {path}")


if __name__ == "__main__":
    main()
