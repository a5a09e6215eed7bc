# SPDX-License-Identifier: MIT
"""Where the programs of this folder are, and the cost of being loaded."""
from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import (Disproved, Progress, Rounds, Sample, VariantFailed,
                     alternate, clean_environment, run)
from machine import Places
from rows import Goal, Row, control_of

TMPFS = Path("/dev/shm")

TRUE = "/bin/true"
LOADS = 25
"""How often a program is started for one sample, which is the median."""


@dataclass(frozen=True)
class Programs:
    """Where the programs and files on disk are, and how often they are run."""

    places: Places
    disk_dir: Path
    tmpfs_dir: Path
    rounds: Rounds
    is_quick: bool
    progress: Progress

    def uaio_run(self) -> list[str]:
        return [str(self.places.uaio), "run", "--"]

    def output(self, name: str, arguments: Sequence[int | str] = (),
               prefix: Sequence[str] = ()) -> str:
        """What a program of this folder prints."""
        program = self.places.helpers / name
        if not program.exists():
            raise VariantFailed(f"{program} is not there: it was not built, "
                                "or is not installed")
        done = run([*prefix, str(program), *map(str, arguments)])
        if done.status:
            raise VariantFailed(done.complaint())
        return done.out

    def lines(self, name: str, arguments: Sequence[int | str] = (),
              prefix: Sequence[str] = ()) -> list[list[str]]:
        """The words of each line of it."""
        return [line.split() for line
                in self.output(name, arguments, prefix).splitlines()]


# --- load: what it costs to be there ----------------------------------------


def _start_ms(argv: list[str]) -> float:
    env = clean_environment()
    start = time.monotonic()
    child = os.posix_spawn(argv[0], argv, env)
    status = os.waitpid(child, 0)[1]
    took_ms = (time.monotonic() - start) * 1000
    if status:
        raise VariantFailed(f"{' '.join(argv)}: "
                            f"status {os.waitstatus_to_exitcode(status)}")
    return took_ms


def _starts(argv: list[str], proof: str) -> Sample:
    times = [_start_ms(argv) for _ in range(LOADS)]
    return Sample({"start": statistics.median(times)}, proof)


def load_results(programs: Programs) -> list[Row]:
    row = Row(name="load", title=f"start of {TRUE}", figure="start", unit="ms",
              peer="plain")
    added = Row(name="load", title="added by uaio run", figure="added",
                unit="ms", peer="", goal=Goal(5, at_least=False, of="subject"))
    threads = Row(name="load", title="threads after the start",
                  figure="threads", unit="number", peer="", is_timing=False,
                  goal=Goal(1, at_least=False, of="subject"))
    rows = [row, added, threads]
    maps = run([*programs.uaio_run(), "cat", "/proc/self/maps"])
    if "libuaio.so" not in maps.out:
        raise Disproved("uaio run: libuaio.so is not mapped in a program")
    proof = "libuaio.so mapped"
    for each in rows:
        each.proofs = {"uaio": proof}

    measures: dict[str, Callable[[], Sample]] = {
        "plain": lambda: _starts([TRUE], "plain"),
        "uaio": lambda: _starts([*programs.uaio_run(), TRUE], proof),
    }
    series = alternate(measures, programs.rounds, "plain", programs.progress,
                       "load")
    row.note = series["uaio"].failure or ""
    if not row.note:
        row.peer_values = series["plain"].values("start")
        row.subject_values = series["uaio"].values("start")
        row.control = control_of(series, "plain", "start")
        added.control = row.control
        added.subject_values = [
            ours - plain for ours, plain
            in zip(row.subject_values, row.peer_values, strict=True)]
    try:
        [[count]] = programs.lines("threads", prefix=programs.uaio_run())
        threads.subject_values = [float(count)]
    except VariantFailed as why:
        threads.note = str(why)
    return rows
