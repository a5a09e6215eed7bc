# SPDX-License-Identifier: MIT
"""The rows that are not fio's: lookup, contexts, memory, and the cost of being
loaded."""
from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import (CONTROL, Disproved, Progress, Rounds, Sample, Series,
                     VariantFailed, alternate, clean_environment, run)
from machine import Places, file_system_of
from rows import Goal, Row, Spread, control_of, print_table, row_of

COUNTS = [4 ** power for power in range(8)]
"""1, 4, 16 ... 16384 contexts."""
MEMORY_COUNTS = [1000, 16384]
TURN_COUNTS = [1, 16, 64, 512]
TMPFS = Path("/dev/shm")

AIO_NR = Path("/proc/sys/fs/aio-nr")
AIO_MAX_NR = Path("/proc/sys/fs/aio-max-nr")

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

    def with_list(self) -> list[str]:
        """What runs a program on uaio with its contexts in a list."""
        return ["env", f"LD_PRELOAD={self.places.helpers / 'libuaio-list.so'}"]

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


# --- lookup: the time to find a context -----------------------------------------


@contextmanager
def kernel_limit(contexts: int) -> Iterator[None]:
    """Let the kernel have that many contexts, if root must raise its limit,
    and put it back. Where that is impossible the kernel's variant fails by
    itself and says why."""
    old = None
    try:
        needed = int(AIO_NR.read_text()) + contexts
        limit = AIO_MAX_NR.read_text()
        if int(limit) < needed:
            AIO_MAX_NR.write_text(str(needed))
            old = limit
    except OSError:
        pass
    try:
        yield
    finally:
        if old is not None:
            AIO_MAX_NR.write_text(old)


AGAIN = "again"
"""The figure of one context, measured a second time at the end."""


def _lookup(programs: Programs, prefix: list[str], of_kernel: bool) -> Sample:
    figures: dict[str, float] = {}
    with kernel_limit(max(COUNTS)):
        lines = [programs.lines("lookup", [count], prefix)[0]
                 for count in [*COUNTS, 1]]
    for count, ns, rings in lines:
        if int(rings) != (int(count) if of_kernel else 0):
            raise Disproved(f"lookup: {count} contexts, "
                            f"{rings} rings of the kernel")
        figures[AGAIN if count in figures else count] = float(ns)
    return Sample(figures, "every context had a ring of the kernel"
                  if of_kernel else "no context had a ring of the kernel")


def _indexes(programs: Programs) -> Sample:
    figures = {}
    for index, count, ns, size in programs.lines("index", COUNTS):
        figures[f"{index} {count}"] = float(ns)
        figures[f"{index} {count} bytes"] = float(size)
    return Sample(figures, "every handle was found")


INDEXES = ["list", "radix", "radix-scattered"]


def lookup_results(programs: Programs) -> list[Row]:
    series = alternate({
        "kernel": lambda: _lookup(programs, [], True),
        "uaio": lambda: _lookup(programs, programs.uaio_run(), False),
        "indexes": lambda: _indexes(programs),
    }, programs.rounds, None, programs.progress, "lookup")
    most = str(COUNTS[-1])
    goal = Goal(1.3, at_least=False)
    rows = [_flat_row(series[who], who, most, "1", AGAIN,
                      goal if who == "uaio" else None)
            for who in ("uaio", "kernel")]
    rows += [_flat_row(series["indexes"], index, f"{index} {most}",
                       f"{index} 1", None, None) for index in INDEXES]
    _print_lookups(series)
    return rows


def _flat_row(series: Series, who: str, many: str, one: str,
              again: str | None, goal: Goal | None) -> Row:
    row = Row(name="lookup", title=f"find one of {COUNTS[-1]}: {who}",
              figure="lookup", unit="ns", subject=who, peer="one of 1",
              goal=goal, note=series.failure or "",
              is_disproved=series.is_disproved)
    if not series.failure:
        row.subject_values = series.values(many)
        row.peer_values = series.values(one)
        row.proofs = {who: series.proof()}
        if again:
            row.control = Spread.of_ratios(series.values(again),
                                           row.peer_values)
    return row


def _print_lookups(series: dict[str, Series]) -> None:
    """Every number of contexts, for the reader: the rows have the ends."""
    lines = []
    for who in ("uaio", "kernel"):
        if not series[who].failure:
            lines.append([f"  {who}"] + [_median(series[who], str(count))
                                  for count in COUNTS])
    if not series["indexes"].failure:
        for index in INDEXES:
            lines.append([f"  {index}"] + [
                _median(series["indexes"], f"{index} {count}")
                for count in COUNTS])
            lines.append(["    bytes per handle"] + [
                _median(series["indexes"], f"{index} {count} bytes")
                for count in COUNTS])
    head = ["lookup: ns to find one of", *map(str, COUNTS)]
    print_table([head, *lines], set(range(1, len(head))))


def _median(series: Series, figure: str) -> str:
    value = statistics.median(series.values(figure))
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


# --- contexts: what finding one is of a request ----------------------------------


def _turns(programs: Programs, folder: Path, prefix: list[str],
           of_kernel: bool) -> Sample:
    figures: dict[str, float] = {}
    for count in TURN_COUNTS:
        [[_, request, find, rings]] = programs.lines(
            "requests", [str(folder), count], prefix)
        if int(rings) != (count if of_kernel else 0):
            raise Disproved(f"requests: {count} contexts, "
                            f"{rings} rings of the kernel")
        figures[f"request {count}"] = float(request)
        figures[f"find {count}"] = float(find)
        figures[f"share {count}"] = 100 * float(find) / float(request)
    return Sample(figures, "every context had a ring of the kernel"
                  if of_kernel else "no context had a ring of the kernel")


def requests_results(programs: Programs) -> list[Row]:
    """uaio against itself with a list in the place of its table."""
    folder = TMPFS if TMPFS.is_dir() else Path(tempfile.gettempdir())
    series = alternate({
        "list": lambda: _turns(programs, folder, programs.with_list(), False),
        "kernel": lambda: _turns(programs, folder, [], True),
        "uaio": lambda: _turns(programs, folder, programs.uaio_run(), False),
    }, programs.rounds, "list", programs.progress, "requests")

    def row(figure: str, count: int, title: str, unit: str, peer: str,
            goal: Goal | None) -> Row:
        return row_of(series, "uaio", peer, f"{figure} {count}",
                      name="requests", title=f"{title} one of {count}",
                      unit=unit, goal=goal,
                      control=control_of(series, "list", f"request {count}"),
                      file_system=file_system_of(folder))

    rows = [row("share", count, "part of a read to find", "%", "list",
                Goal(5, at_least=False, of="subject"))
            for count in TURN_COUNTS]
    rows += [row("request", 1, "a read by", "ns", "list",
                 Goal(1.01, at_least=False)),
             row("request", TURN_COUNTS[-1], "a read by", "ns", "list", None),
             row("request", TURN_COUNTS[-1], "a read by", "ns", "kernel", None)]
    _print_turns(series)
    return rows


def _print_turns(series: dict[str, Series]) -> None:
    lines = []
    for who, each in series.items():
        if not each.failure and who != CONTROL:
            lines += [[f"  {who}: {figure}"] + [
                _median(each, f"{figure} {count}") for count in TURN_COUNTS]
                for figure in ("request", "find")]
    head = ["contexts: ns of a read, of finding it", *map(str, TURN_COUNTS)]
    print_table([head, *lines], set(range(1, len(head))))


# --- memory: the memory of a context --------------------------------------------


def memory_results(programs: Programs) -> list[Row]:
    """Not timings: one run of each is enough, and no control is needed."""
    rows = []
    programs.progress.show("memory")
    try:
        lines = programs.lines("memory", MEMORY_COUNTS, programs.uaio_run())
    except VariantFailed as why:
        programs.progress.clear()
        return [Row(name="memory", title="memory of a context", figure="memory",
                    unit="B", peer="", is_timing=False, note=str(why))]
    programs.progress.clear()
    for count, made, used, index in lines:
        rows += [
            _memory_row(f"context, made, of {count}", made, None),
            _memory_row(f"context, used, of {count}", used,
                        Goal(8192, at_least=False, of="subject")),
            _memory_row(f"index a context, of {count}", index,
                        Goal(32, at_least=False, of="subject"))]
    return rows


def _memory_row(title: str, size: str, goal: Goal | None) -> Row:
    row = Row(name="memory", title=title, figure="memory", unit="B", peer="",
              goal=goal, is_timing=False,
              proofs={"uaio": "no context had a ring of the kernel"})
    if size == "-":
        row.note = "the library did not report the size of its index"
    else:
        row.subject_values = [float(size)]
    return row


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
