# SPDX-License-Identifier: MIT
"""The row lines: cache lines that two threads write, though they share no ring and no
file.

Such a line goes from one processor to the other with each write, and limits how many
processors are of use. lines.c is run under valgrind, whose tool lackey prints each access;
its scheduler prints which thread runs.
"""
from __future__ import annotations

import bisect
import collections
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness import VariantFailed
from programs import Programs
from rows import Goal, Row

LINE = 64
REQUESTS, QUICK_REQUESTS = 50, 20
NONE = Goal(0, at_least=False, of="subject")
WORKS = {"nop": ("no-ops", NONE), "read": ("reads in memory", NONE),
         "pipe": ("reads of pipes that wait", None)}
RUNS = re.compile(r"SCHED\[(\d+)\]: +acquired lock")


@dataclass
class Line:
    """The accesses to one cache line, by thread."""

    writes: collections.Counter[int] = field(
        default_factory=collections.Counter)
    at: set[int] = field(default_factory=set)
    """The addresses that were written to."""


def written(log: Iterable[str], marks: int) -> dict[int, Line]:
    """Return: the lines that the threads wrote to between their marks."""
    found: dict[int, Line] = collections.defaultdict(Line)
    thread, inside = 1, set()
    for text in log:
        if text[:2] in (" S", " M"):
            address = int(text[3:text.index(",")], 16)
            if marks <= address < marks + 32:
                (inside.add if (address - marks) % 16 == 0
                 else inside.discard)(thread)
            elif thread in inside:
                line = found[address // LINE]
                line.writes[thread] += 1
                line.at.add(address)
        elif text[:1] not in "I ":
            if runs := RUNS.search(text):
                thread = int(runs[1])
    return found


# --- names ------------------------------------------------------------------


class Names:
    """Names of addresses in the library."""

    def __init__(self, maps: list[str]) -> None:
        mapped = [line.split() for line in maps if "/libuaio.so" in line]
        if not mapped:
            raise VariantFailed("libuaio is not mapped")
        self.base = int(mapped[0][0].split("-")[0], 16)
        done = subprocess.run(["nm", "--defined-only", mapped[0][5]],
                              capture_output=True, text=True, check=False)
        symbols = sorted((int(words[0], 16), words[2]) for line
                         in done.stdout.splitlines()
                         if len(words := line.split()) == 3)
        self.at = [address for address, _ in symbols]
        self.names = [name for _, name in symbols]
        self.end = self.at[-1] + LINE if self.at else 0

    def of(self, address: int) -> str:
        offset = address - self.base
        if not 0 <= offset < self.end:
            return "memory"
        return self.names[bisect.bisect_right(self.at, offset) - 1]


# --- measuring --------------------------------------------------------------


def shared_of(programs: Programs, work: str, requests: int) -> list[str]:
    """For each line that both threads wrote to, the names of the data in it."""
    log = Path(programs.disk_dir) / "accesses"
    head, *maps = programs.output(
        "lines", [work, requests],
        [str(programs.places.uaio), "run", "--uring=always", "--", "valgrind",
         "--tool=lackey", "--trace-mem=yes", "--trace-sched=yes",
         f"--log-file={log}"]).splitlines()
    with log.open(errors="replace") as file:
        found = written(file, int(head, 16))
    log.unlink()
    if not found:
        raise VariantFailed("valgrind printed no access")
    names = Names(maps)
    return [f"{sum(line.writes.values()) / requests / 2:.1f} writes a request: "
            + ", ".join(sorted({names.of(address) for address in line.at}))
            for _, line in sorted(found.items()) if len(line.writes) > 1]


def lines_results(programs: Programs) -> list[Row]:
    requests = QUICK_REQUESTS if programs.is_quick else REQUESTS
    rows = []
    for work, (title, goal) in WORKS.items():
        row = Row(name="lines", title=f"lines that two threads write, {title}",
                  figure="lines", unit="number", peer="", goal=goal,
                  is_timing=False)
        rows.append(row)
        if not shutil.which("valgrind"):
            row.note = "there is no valgrind: apt-get install valgrind"
            continue
        programs.progress.show(f"lines: {title}")
        try:
            shared = shared_of(programs, work, requests)
        except VariantFailed as why:
            row.note = str(why)
            continue
        row.subject_values = [float(len(shared))]
        row.proofs = {"uaio": "libuaio mapped"}
        row.note = "; ".join(f"{title}: {each}" for each in shared)
    return rows
