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

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness import Disproved, Sample, Series, VariantFailed, alternate
from machine import file_system_of
from programs import TMPFS, Programs
from rows import Goal, Row, Spread, Table, control_of, row_of

COUNTS = [4 ** power for power in range(8)]
"""1, 4, 16 ... 16384 contexts."""
QUICK_COUNTS = [1, 16, 1024]
TURN_COUNTS = [1, 16, 64, 512]
QUICK_TURN_COUNTS = [1, 512]
MEMORY_COUNTS = [1000, 16384]

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


def _rings_proof(where: str, rings: str, wanted: int) -> None:
    """How many rings of the kernel were mapped. Raises Disproved if wrong."""
    if int(rings) != wanted:
        raise Disproved(f"{where}: {rings} rings of the kernel, not {wanted}")


def _rings_claim(of_kernel: bool) -> str:
    return ("every" if of_kernel else "no") \
        + " context had a ring of the kernel"


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
    counts = counts_of(programs)
    with kernel_limit(max(counts)):
        lines = [*programs.lines("lookup", counts, prefix),
                 *programs.lines("lookup", [1], prefix)]
    for count, ns, rings in lines:
        _rings_proof(f"lookup, {count} contexts", rings,
                     int(count) if of_kernel else 0)
        figures[AGAIN if count in figures else count] = float(ns)
    return Sample(figures, _rings_claim(of_kernel))


def lookup_results(programs: Programs) -> list[Row | Table]:
    series = alternate({
        "kernel": lambda: _lookup(programs, [], True),
        "uaio": lambda: _lookup(programs, programs.uaio_run(), False),
    }, programs.rounds, None, programs.progress, "lookup")
    counts = counts_of(programs)
    table = Table("contexts.lookup", "An io_submit of nothing", "ns",
                  "number of contexts", [*counts], plot="lines",
                  logarithmic="xy")
    for who in ("uaio", "kernel"):
        table.add(who, [series[who]], [str(count) for count in counts])
    return [table,
            _flat_row("lookup", series["uaio"], "uaio", str(counts[-1]), "1",
                      counts[-1], AGAIN, FLAT_GOAL),
            _flat_row("lookup", series["kernel"], "kernel", str(counts[-1]),
                      "1", counts[-1], AGAIN)]


def _flat_row(name: str, series: Series, who: str, many: str, one: str,
              most: int, again: str = "", goal: Goal | None = None) -> Row:
    """One of many against one of one."""
    row = Row(name=name, title=f"find one of {most}: {who}", figure="lookup",
              unit="ns", subject=who, peer="one of 1", goal=goal,
              note=series.failure or "", is_disproved=series.is_disproved)
    if not series.failure:
        row.subject_values = series.values(many)
        row.peer_values = series.values(one)
        row.proofs = {who: series.proof()}
        if again:
            row.control = Spread.of_ratios(series.values(again),
                                           row.peer_values)
    return row


# --- requests: what finding one is of a request ----------------------------------


def library_of(programs: Programs, index: str) -> Path:
    """uaio with its contexts in a list or a radix tree."""
    library = programs.places.helpers / f"libuaio-{index}.so"
    if not library.exists():
        raise VariantFailed(f"{library} is not there: it was not built, or is "
                            "not installed")
    return library


def _turn_counts(programs: Programs) -> list[int]:
    return QUICK_TURN_COUNTS if programs.is_quick else TURN_COUNTS


def _turns(programs: Programs, folder: Path, prefix: list[str],
           of_kernel: bool) -> Sample:
    figures: dict[str, float] = {}
    for count in _turn_counts(programs):
        [[_, request, find, rings]] = programs.lines(
            "requests", [str(folder), count], prefix)
        _rings_proof(f"requests, {count} contexts", rings,
                     count if of_kernel else 0)
        figures[f"request {count}"] = float(request)
        figures[f"share {count}"] = 100 * float(find) / float(request)
    return Sample(figures, _rings_claim(of_kernel))


def _turns_with(programs: Programs, folder: Path, index: str) -> Sample:
    library = library_of(programs, index)
    return _turns(programs, folder, ["env", f"LD_PRELOAD={library}"], False)


def requests_results(programs: Programs) -> list[Row | Table]:
    """uaio against itself with a list or a tree in the place of its table."""
    folder = TMPFS if TMPFS.is_dir() else Path(tempfile.gettempdir())
    series = alternate({
        "list": lambda: _turns_with(programs, folder, "list"),
        "kernel": lambda: _turns(programs, folder, [], True),
        "uaio": lambda: _turns(programs, folder, programs.uaio_run(), False),
    }, programs.rounds, "list", programs.progress, "requests")
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
        for who in ("uaio", "list", "kernel"):
            table.add(who, [series[who]],
                      [f"{figure} {count}" for count in counts])
    return tables


def _turn_rows(programs: Programs, series: dict[str, Series],
               file_system: str) -> list[Row]:
    counts = _turn_counts(programs)

    def row(figure: str, count: int, title: str, unit: str, peer: str,
            goal: Goal | None) -> Row:
        return row_of(series, "uaio", peer, f"{figure} {count}",
                      name="requests", title=f"{title} one of {count}",
                      unit=unit, goal=goal,
                      control=control_of(series, "list", f"request {count}"),
                      file_system=file_system)

    most = counts[-1]
    return [*(row("share", count, "part of a read to find", "%", "list",
                  SHARE_GOAL) for count in counts),
            row("request", 1, "a read by", "ns", "list", LIST_GOAL),
            row("request", most, "a read by", "ns", "list", None),
            row("request", most, "a read by", "ns", "kernel", None)]


# --- memory: the memory of a context --------------------------------------------


def memory_results(programs: Programs) -> list[Row]:
    """Not timings: one run of each is enough, and no control is needed."""
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
