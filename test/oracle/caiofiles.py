#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""caiofiles.py SOURCE TARGET: a file copied by caio, again and again.

By io_uring as caio uses it by itself, by io_uring without a polling thread, and by
kernel AIO, all in one process; each time block by block, many at once, in an order by
chance. What was written is read back and compared. TARGET holds the last copy.
"""
import asyncio
import os
import random
import sys

from caio import linux_aio_asyncio, linux_uring, linux_uring_asyncio

BLOCK = 8000  # of no file system
AT_ONCE = 32


async def each(numbers, work):
    """work(number) for each of them, some at once."""
    left = iter(numbers)

    async def some():
        for number in left:
            await work(number)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def copy(context, source, target, length):
    blocks = list(range(0, length, BLOCK))
    random.Random(length).shuffle(blocks)

    async def move(at):
        data = await context.read(BLOCK, source, at)
        assert len(data) == min(BLOCK, length - at), (at, len(data))
        written = await context.write(data, target, at)
        assert written == len(data), (at, written)

    async def compare(at):
        data = await context.read(BLOCK, target, at)
        assert data == os.pread(source, BLOCK, at), at

    await each(blocks, move)
    await context.fdsync(target)
    await each(blocks, compare)
    await context.fsync(target)


async def main(source, target):
    uring = linux_uring_asyncio.AsyncioContext
    contexts = {
        "io_uring": lambda: uring(AT_ONCE, sqpoll=linux_uring.SQPOLL_ALLOWED),
        "io_uring without a polling thread": lambda: uring(AT_ONCE,
                                                           sqpoll=False),
        "io_uring by batches": lambda: uring(AT_ONCE, sqpoll=False,
                                             deferred=True),
        "kernel AIO": lambda: linux_aio_asyncio.AsyncioContext(AT_ONCE),
    }
    for name, make in contexts.items():
        with open(source, "rb") as read, open(target, "w+b") as write:
            async with make() as context:
                await copy(context, read.fileno(), write.fileno(),
                           os.fstat(read.fileno()).st_size)
        print(name)


asyncio.run(main(*sys.argv[1:]))
