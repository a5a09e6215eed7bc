# SPDX-License-Identifier: MIT
"""The parts of the group contexts: what finding one of many contexts costs, in
the list and the radix tree that kernel AIO had or was offered, and in a table.

    lookup      an io_submit() of nothing, on uaio and on the kernel
    index       the three indexes in a process of their own: time and bytes
    requests    reads by contexts in turn, on libraries with each index
    index-jobs  the fio jobs the table was made for, on the same (indexjobs.py)
    memory      what a context takes
"""
from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import Disproved, Sample, Series, VariantFailed, alternate
from indexes import (INDEXES, LIST, RADIX, environment_of, prove_index,
                     reporting, said_of_index)
from machine import file_system_of
from programs import TMPFS, Programs
from rows import Goal, Row, Spread, Table, control_of, row_of

UAIO, KERNEL = "uaio", "kernel"
TABLE = "table"
"""uaio's index."""

COUNTS = [4 ** power for power in range(8)]
"""1, 4, 16 ... 16384 contexts."""
QUICK_COUNTS = [1, 16, 1024]
TURN_COUNTS = [1, 16, 64, 512]
QUICK_TURN_COUNTS = [1, 512]
MEMORY_COUNTS = [1000, 16384]
THREADED = 1024
"""So many contexts where the threads are varied."""

SPARSE_SEED = (
    "handles: 0x4000, 0x40000 ... 0x400000000000, then scattered",
    "radix tree, worst case as posted in 2013: 7384 B/context (13 nodes of 568 "
    "B)",)

AIO_NR = Path("/proc/sys/fs/aio-nr")
AIO_MAX_NR = Path("/proc/sys/fs/aio-max-nr")

FLAT_GOAL = Goal(1.3, at_least=False)
SHARE_GOAL = Goal(5, at_least=False, of="subject")
LIST_GOAL = Goal(1.01, at_least=False)
"""Of a read where there is one context, against the library with a list."""
CONTEXT_GOAL = Goal(8192, at_least=False, of="subject")
INDEX_GOAL = Goal(32, at_least=False, of="subject")


def counts_of(programs: Programs) -> list[int]:
    return QUICK_COUNTS if programs.is_quick else COUNTS


def _prove_rings(where: str, rings: str, wanted: int) -> None:
    """Prove the variant by the number of mapped rings of the kernel. Raises Disproved."""
    if int(rings) != wanted:
        raise Disproved(f"{where}: {rings} rings of the kernel, not {wanted}")


def _rings_claim(of_kernel: bool) -> str:
    return ("every" if of_kernel else "no") \
        + " context had a ring of the kernel"


# --- lookup: the time to find a context -----------------------------------------


@contextmanager
def kernel_limit(contexts: int) -> Iterator[None]:
    """Allow the kernel that many contexts (root may raise the limit), and restore the
    limit afterwards. If the limit cannot be raised, the kernel's variant fails and
    says why."""
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
    counts = counts_of(programs)
    with kernel_limit(max(counts)):
        lines = [*programs.lines("lookup", counts, prefix),
                 *programs.lines("lookup", [1], prefix)]
    for count, ns, rings in lines:
        _prove_rings(f"lookup, {count} contexts", rings,
                     int(count) if of_kernel else 0)
        figures[AGAIN if count in figures else count] = float(ns)
    return Sample(figures, _rings_claim(of_kernel))


def lookup_results(programs: Programs) -> list[Row | Table]:
    series = alternate({
        KERNEL: lambda: _lookup(programs, [], True),
        UAIO: lambda: _lookup(programs, programs.uaio_run(), False),
    }, programs.rounds, None, programs.progress, "lookup")
    counts = counts_of(programs)
    table = Table("contexts.lookup", "An io_submit of nothing", "ns",
                  "number of contexts", [*counts], plot="lines",
                  logarithmic="xy")
    for who in (UAIO, KERNEL):
        table.add(who, [series[who]], [str(count) for count in counts])
    return [table,
            _flat_row("lookup", series[UAIO], UAIO, counts, AGAIN, FLAT_GOAL),
            _flat_row("lookup", series[KERNEL], KERNEL, counts, AGAIN)]


def _flat_row(name: str, series: Series, who: str, counts: list[int],
              again: str = "", goal: Goal | None = None,
              prefix: str = "") -> Row:
    """Compare a lookup among the most contexts with one among a single context."""
    row = Row(name=name, title=f"find one of {counts[-1]}: {who}",
              figure="lookup", unit="ns", subject=who, peer="one of 1",
              goal=goal, note=series.failure or "",
              is_disproved=series.is_disproved)
    if not series.failure:
        row.subject_values = series.values(f"{prefix}{counts[-1]}")
        row.peer_values = series.values(f"{prefix}{counts[0]}")
        row.proofs = {who: series.proof()}
        if again:
            row.control = Spread.of_ratios(series.values(again),
                                           row.peer_values)
    return row


# --- index: the three indexes by themselves ------------------------------------


def _thread_counts() -> list[int]:
    """1, 2, 4 ... and as many as there are processors."""
    cpus = len(os.sched_getaffinity(0))
    return sorted({cpus, *(1 << power for power in range(cpus.bit_length())
                           if 1 << power <= cpus)})


def _indexes(programs: Programs) -> Sample:
    """Run the program that prints the time and bytes of each index."""
    figures: dict[str, float] = {}

    def measure(places: str, threads: int, count: int, column: str) -> None:
        for index, ns, size in programs.lines("index",
                                              [places, threads, count]):
            figures[f"{index} {column}"] = float(ns)
            figures[f"{index} bytes {column}"] = float(size) / count

    for count in counts_of(programs):
        for places in ("dense", "sparse"):
            measure(places, 1, count, f"{places} {count}")
    for threads in _thread_counts():
        measure("dense", threads, THREADED, f"threads {threads}")
    return Sample(figures, "every handle led to its context")


INDEX_LINES = (TABLE, LIST, RADIX)


def index_results(programs: Programs) -> list[Row | Table]:
    series = alternate({"indexes": lambda: _indexes(programs)},
                       programs.rounds, None, programs.progress,
                       "index")["indexes"]
    counts = counts_of(programs)
    rows = [_flat_row("index", series, index, counts, prefix=f"{index} dense ")
            for index in INDEX_LINES]
    rows += [dataclasses.replace(
        _flat_row("index", series, index, counts, prefix=f"{index} sparse "),
        title=f"find one of {counts[-1]}, sparse: {index}")
        for index in INDEX_LINES]
    return [*_index_tables(programs, series), *rows]


def _index_tables(programs: Programs, series: Series) -> list[Table]:
    counts, threads = counts_of(programs), _thread_counts()
    wanted = (
        (Table("contexts.index", "Finding one of many, by one thread", "ns",
               "number of contexts", [*counts], plot="lines",
               logarithmic="xy"), "dense"),
        (Table("contexts.threads", f"Finding one of {THREADED}, each thread",
               "ns", "threads", [*threads], plot="lines", logarithmic="xy"),
         "threads"),
        (Table("contexts.bytes_dense", "Index, handles side by side",
               "B/context", "number of contexts", [*counts], plot="lines",
               logarithmic="xy"), "bytes dense"),
        (Table("contexts.bytes_sparse", "Index, handles far apart", "B/context",
               "number of contexts", [*counts], plot="lines",
               logarithmic="xy", beside=[*SPARSE_SEED]), "bytes sparse"))
    for table, figure in wanted:
        for index in INDEX_LINES:
            table.add(index, [series], [f"{index} {figure} {column}"
                                        for column in table.columns])
    return [table for table, _ in wanted]


# --- requests: what finding one is of a request ----------------------------------


def _turn_counts(programs: Programs) -> list[int]:
    return QUICK_TURN_COUNTS if programs.is_quick else TURN_COUNTS


def _turns(programs: Programs, folder: Path, who: str) -> Sample:
    """Time reads that use the contexts in turn."""
    figures: dict[str, float] = {}
    counts = _turn_counts(programs)
    report = programs.disk_dir / "index"
    report.unlink(missing_ok=True)
    prefix = _prefix_of(programs, who, report)
    for count in counts:
        [[_, request, find, rings]] = programs.lines(
            "requests", [str(folder), count], prefix)
        _prove_rings(f"requests, {count} contexts", rings,
                     count if who == KERNEL else 0)
        figures[f"request {count}"] = float(request)
        figures[f"share {count}"] = 100 * float(find) / float(request)
    proof = _rings_claim(who == KERNEL)
    if who != KERNEL:
        proof += ", " + prove_index(who, said_of_index(report), sum(counts))
    return Sample(figures, proof)


def _prefix_of(programs: Programs, who: str, report: Path) -> list[str]:
    if who == KERNEL:
        return []
    env = environment_of(programs, who, report) if who in INDEXES \
        else reporting(report)
    return ["env", *(f"{name}={value}" for name, value in env.items()),
            *(programs.uaio_run() if who == UAIO else [])]


def requests_results(programs: Programs) -> list[Row | Table]:
    """Compare uaio with uaio that has a list or a tree instead of its table."""
    folder = TMPFS if TMPFS.is_dir() else Path(tempfile.gettempdir())
    series = alternate(
        {who: lambda who=who: _turns(programs, folder, who)
         for who in (LIST, KERNEL, RADIX, UAIO)},
        programs.rounds, LIST, programs.progress, "requests")
    return [*_turn_tables(programs, series, file_system_of(folder)),
            *_turn_rows(programs, series, file_system_of(folder))]


def _turn_tables(programs: Programs, series: dict[str, Series],
                 file_system: str) -> list[Table]:
    counts = _turn_counts(programs)
    tables = [
        Table("contexts.request", "A read of 1 KiB", "ns", "contexts in turn",
              [*counts], plot="lines", logarithmic="x",
              file_system=file_system),
        Table("contexts.share", "Part of it to find its context", "%",
              "contexts in turn", [*counts], plot="lines", logarithmic="x",
              file_system=file_system)]
    for table, figure in zip(tables, ("request", "share"), strict=True):
        for who in (UAIO, LIST, RADIX, KERNEL):
            table.add(who, [series[who]],
                      [f"{figure} {count}" for count in counts])
    return tables


def _turn_rows(programs: Programs, series: dict[str, Series],
               file_system: str) -> list[Row]:
    counts = _turn_counts(programs)

    def row(figure: str, count: int, title: str, unit: str, peer: str,
            goal: Goal | None) -> Row:
        return row_of(series, UAIO, peer, f"{figure} {count}",
                      name="requests", title=f"{title} one of {count}",
                      unit=unit, goal=goal,
                      control=control_of(series, LIST, f"request {count}"),
                      file_system=file_system)

    most = counts[-1]
    return [*(row("share", count, "part of a read to find", "%", LIST,
                  SHARE_GOAL) for count in counts),
            row("request", 1, "a read by", "ns", LIST, LIST_GOAL),
            *(row("request", most, "a read by", "ns", peer, None)
              for peer in (LIST, RADIX, KERNEL))]


# --- memory: the memory of a context --------------------------------------------


def memory_results(programs: Programs) -> list[Row]:
    """Measure sizes, not times: one run of each is enough, without a control."""
    programs.progress.show("memory")
    try:
        lines = programs.lines("memory", MEMORY_COUNTS, programs.uaio_run())
    except VariantFailed as why:
        return [Row(name="memory", title="memory of a context", figure="memory",
                    unit="B", peer="", is_timing=False, note=str(why))]
    finally:
        programs.progress.clear()
    rows = []
    for count, made, used, index in lines:
        rows += [
            _memory_row(f"context, made, of {count}", made, None),
            _memory_row(f"context, used, of {count}", used, CONTEXT_GOAL),
            _memory_row(f"index a context, of {count}", index, INDEX_GOAL)]
    return rows


def _memory_row(title: str, size: str, goal: Goal | None) -> Row:
    row = Row(name="memory", title=title, figure="memory", unit="B", peer="",
              goal=goal, is_timing=False,
              proofs={"uaio": _rings_claim(False)})
    if size == "-":
        row.note = "the library did not report the size of its index"
    else:
        row.subject_values = [float(size)]
    return row
