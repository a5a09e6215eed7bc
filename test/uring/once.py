#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""once.py --fuzz PROGRAM --uaio COMMAND [--worlds N | --seconds N] [--seed S]

The library reads each byte of a submission once.

Another thread of the program may change a submission while the library reads it. If the
library checked a field and read that field again to use it, the check would be worth
nothing. So it may read each byte of an SQE, and of what an SQE points to, once a request:
message headers, names, times, buffer rings.

The program fuzz makes random requests, one at a time, under valgrind's tool lackey, which
prints each access to memory. A store to one of the program's marks comes before and after
each request. Whatever is loaded twice between them is printed, with the requests. The
kernel's own accesses are not in the trace: what the library passes on by its address is
read by the kernel later. So vectors of reads and writes, and what CHECKED_AGAIN names, may
be read twice. The kernel checks them again, and the library relies on neither read.
"""
from __future__ import annotations

import argparse
import bisect
import collections
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CHECKED_AGAIN = re.compile(r" op (28|53) ")
"""OPENAT2 and FUTEX_WAITV: if a worker makes the call, the library copies struct open_how or
the futexes once more. The kernel checks that copy, and the library relies on neither read."""
WORLDS_TOGETHER = 4  # of one process, whose trace lies on disk
PATIENCE_US = 20000
WORLD, BEGIN, END = range(3)
TRACED = re.compile(r"(\d+)\.traced (.*) (0x[0-9a-f]+) (0x[0-9a-f]+)")
STEP = re.compile(r"(\d+)\.(\d+) ")
MAP = re.compile(r"(\d+)\.map ([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ "
                 r"(\d+) *(.*)")
COPY_BYTES = 2048  # of the code of memcpy()
INLINED_BYTES = 64  # of the code of a copy of one structure


@dataclass
class Mapping:
    start: int
    end: int
    may: str
    offset: int
    inode: int
    path: str


@dataclass
class World:
    """The output of one world (scenario)."""

    ranges: list[tuple[int, int, str]] = field(default_factory=list)
    maps: list[Mapping] = field(default_factory=list)
    marks: int = 0
    steps: list[str] = field(default_factory=list)

    def object_at(self, address: int) -> Mapping | None:
        return next((each for each in self.maps
                     if each.start <= address < each.end), None)

    def add_other_mappings(self) -> None:
        """The library has mapped the ring elsewhere."""
        for start, end, name in list(self.ranges):
            here = self.object_at(start)
            for each in self.maps:
                if here and each is not here and each.inode and (
                        each.inode, each.offset) == (here.inode, here.offset):
                    moved = each.start - here.start
                    self.ranges.append((start + moved, end + moved, name))
        self.ranges.sort()


def worlds_of(lines: Iterable[str]) -> list[World]:
    worlds: dict[int, World] = collections.defaultdict(World)
    for line in lines:
        if said := TRACED.match(line):
            world, start = worlds[int(said[1])], int(said[3], 16)
            if said[2] == "marks":
                world.marks = start
            else:
                world.ranges.append((start, start + int(said[4], 16), said[2]))
        elif said := STEP.match(line):
            worlds[int(said[1])].steps.append(line.rstrip())
        elif said := MAP.match(line):
            worlds[int(said[1])].maps.append(
                Mapping(int(said[2], 16), int(said[3], 16), said[4],
                        int(said[5], 16), int(said[6]), said[7]))
    for world in worlds.values():
        world.add_other_mappings()
    return [worlds[number] for number in sorted(worlds)]


@dataclass
class Count:
    """The counts of a trace."""

    reads: int = 0
    checked_again: int = 0
    by_range: collections.Counter[str] = field(
        default_factory=collections.Counter)
    twice: list[str] = field(default_factory=list)


def range_of(world: World, address: int) -> tuple[str, int] | None:
    place = bisect.bisect_right(world.ranges, (address, sys.maxsize, "")) - 1
    if place < 0 or address >= world.ranges[place][1]:
        return None
    start, _, name = world.ranges[place]
    return name, address - start


@dataclass
class Load:
    """One access, by the instruction at `code`."""

    code: int
    address: int
    size: int


def is_one_copy(world: World, first: Load, second: Load) -> bool:
    """memcpy() loads the middle of a block twice, by two instructions, and stores one of
    the values over the other. So does a copy that the compiler has inlined."""
    here = world.object_at(first.code)
    is_library = here is not None and "/libc.so" in here.path
    is_overlap = (first.size == second.size >= 8 and
                  first.address != second.address)
    distance = abs(first.code - second.code)
    return is_library and 0 < distance < COPY_BYTES or (
        is_overlap and 0 < distance < INLINED_BYTES)


def name_of(world: World, address: int) -> str:
    """Return: the name of the library's function that contains the instruction."""
    here = world.object_at(address)
    if not here or not here.path.startswith("/"):
        return f"{address:#x}"
    offset = address - here.start + here.offset
    done = subprocess.run(["addr2line", "-f", "-e", here.path, f"{offset:#x}"],
                          capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split()) + f" ({offset:#x})"


def check(trace: Iterable[str], worlds: list[World]) -> Count:
    """Check that each load between two marks is of bytes that no earlier load there has
    read."""
    count, number, step = Count(), -1, -1
    world, loaded, told, code = worlds[0], None, False, ""
    marks = world.marks
    for text in trace:
        kind = text[:2]
        if kind == "I ":
            code = text
            continue
        if kind not in (" L", " S", " M"):
            continue
        digits, _, size = text[3:].partition(",")
        address = int(digits, 16)
        if kind == " S" and marks <= address < marks + 24:
            mark = (address - marks) // 8
            if mark == WORLD:
                number, step = number + 1, -1
                world = worlds[number]
            elif mark == BEGIN:
                step, loaded, told = step + 1, {}, False
            else:
                loaded = None
            continue
        if kind == " S" or loaded is None:
            continue
        found = range_of(world, address)
        if not found:
            continue
        count.reads += 1
        count.by_range[found[0]] += 1
        if found[0] == "vectors":
            continue
        load = Load(int(code[3:].partition(",")[0], 16), address, int(size))
        for each in range(address, address + load.size):
            first = loaded.setdefault(each, load)
            if first is load or told or is_one_copy(world, first, load):
                continue
            told = True
            if (found[0] == "arguments" and
                    CHECKED_AGAIN.search(world.steps[step])):
                count.checked_again += 1
                continue
            count.twice.append(
                f"{found[0]}+{found[1]:#x}, by {name_of(world, first.code)} "
                f"and by {name_of(world, load.code)}: {world.steps[step]}")
    return count


def run(args: argparse.Namespace, first: int, last: int) -> Count:
    with tempfile.TemporaryDirectory(prefix="uaio-once-") as directory:
        log = Path(directory) / "accesses"
        done = subprocess.run(
            [args.uaio, "run", "--uring=always", "--", "valgrind",
             "--tool=lackey", "--trace-mem=yes", f"--log-file={log}",
             args.fuzz, f"traced:{args.seed}", str(PATIENCE_US),
             f"{first}-{last}"],
            cwd=directory, stdout=subprocess.PIPE, text=True, check=False,
            errors="replace")
        if done.returncode:
            sys.exit(f"failed: the program ended with {done.returncode}")
        worlds = worlds_of(done.stdout.splitlines())
        with log.open(errors="replace") as trace:
            return check(trace, worlds)


def ranges(args: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """The worlds of each process."""
    end = args.seconds and time.monotonic() + args.seconds
    for first in itertools.count(1, WORLDS_TOGETHER):
        if first > 1 and time.monotonic() > end if end else first > args.worlds:
            return
        last = first + WORLDS_TOGETHER - 1
        yield first, last if end else min(last, args.worlds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--fuzz", type=os.path.abspath, required=True)
    parser.add_argument("--uaio", type=os.path.abspath, required=True)
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--seconds", type=float, help="instead of --worlds")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    total = Count()
    for first, last in ranges(args):
        count = run(args, first, last)
        total.reads += count.reads
        total.checked_again += count.checked_again
        total.by_range += count.by_range
        total.twice += count.twice
        for text in count.twice:
            print(f"read twice: {text}", file=sys.stderr, flush=True)
    for name, nr in sorted(total.by_range.items()):
        print(f"{nr:8} of {name}")
    print(f"{total.checked_again:8} read again, and checked by the kernel")
    print(f"counted {total.reads} reads: {len(total.twice)} lost")
    sys.exit(bool(total.twice) or not total.by_range["submissions"])


main()
