#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the figures in doc/benchmarks.md from a file of results.

They stand between the lines `<!-- figures: NAME -->` and `<!-- end of figures -->`.
With --check nothing is written: the document must be what the file gives.
"""
from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import sentences
from fio import JOBS
from reading import ReadRow, ReadTable, Results, Unreadable, read
from rows import Spread, short

HERE = Path(__file__).resolve().parent
WIDTH = 80
MARKED = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end of figures -->)",
                    re.S)
NONE = "–"


# --- Markdown ---------------------------------------------------------------


def _lines(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |".replace("|  |", "| |")

    return "\n".join([line(head), "|" + "---|" * len(head),
                      *map(line, lines)])


def _prose(*texts: str) -> str:
    return textwrap.fill(" ".join(text for text in texts if text), WIDTH,
                         break_on_hyphens=False, break_long_words=False)


def _whole(*blocks: str) -> str:
    return "\n\n".join(block for block in blocks if block)


# --- what was measured where ------------------------------------------------


def _where(tables: Sequence[ReadTable | None], rows: Sequence[ReadRow]) -> str:
    """The machine, the date and the number of rounds of a part."""
    there = [table for table in tables if table]
    machine = (there or rows)[0].machine
    # What is only counted need not be counted again.
    rounds = sorted({len(values) for table in there
                     if sentences.is_speed(table)
                     for line in table.lines.values()
                     for values in line if values})
    most = f" to {rounds[-1]}" if len(rounds) > 1 else ""
    many = f"; medians of {rounds[0]}{most} alternating rounds" \
        if rounds and rounds[-1] > 1 else "; a single round" if rounds else ""
    systems = dict.fromkeys(each.file_system for each in [*there, *rows]
                            if each.file_system)
    return (f"Measured on {machine.get('date', '')[:10]}, "
            f"{machine.get('cpus')} × {machine.get('cpu')}, Linux "
            f"{machine.get('kernel')}"
            f"{', ' + ' and '.join(systems) if systems else ''}{many}.")


def _cell(table: ReadTable | None, variant: str, column: str | float) -> str:
    value = sentences.median(table.values(variant, column)) if table else None
    return NONE if value is None else short(value)


def _first(table: ReadTable | None, variant: str) -> str:
    return _cell(table, variant, table.columns[0]) \
        if table and table.columns else NONE


def _caveats(tables: Sequence[ReadTable | None]) -> list[str]:
    """What cannot be believed, each thing once."""
    said = [text for table in tables if table
            for text in sentences.doubts(table) if "ound" not in text]
    return list(dict.fromkeys(said))


def _variants(*tables: ReadTable | None) -> list[str]:
    return list(dict.fromkeys(name for table in tables if table
                              for name in table.lines))


# --- the work queue ---------------------------------------------------------

NOP_NAMES = {
    "io_uring": "io_uring, IOSQE_ASYNC", "single": "one list",
    "single+batches": "one list, events posted together",
    "round-robin": "private lists in turn, as proposed then",
    "packed": "private lists, packed",
    "packed+batches": "packed, events posted together",
}
PRIVATE = ("round-robin", "packed", "packed+batches")


def _waited(table: ReadTable | None) -> str:
    """Of the locks, by variant."""
    if not table:
        return ""
    said = []
    for name, line in table.lines.items():
        middles = [sentences.median(values) for values in line if values]
        if middles:
            least, most = (short(bound) for bound in (min(middles),
                                                      max(middles)))
            said.append(f"{least if least == most else f'{least} to {most}'} "
                        f"with {NOP_NAMES.get(name, name)}")
    return f"Of 100 acquisitions of the lock had to wait: {'; '.join(said)}." \
        if said else ""


def _private(table: ReadTable) -> list[str]:
    """The best private lists beside the one list that is as well tuned."""
    said = []
    for column in table.columns:
        there = {name: middle for name in PRIVATE if (
            middle := sentences.median(table.values(name, column)))}
        if there:
            best = max(there, key=there.get)
            said.append(sentences.at(table, column, best, ["single+batches"]))
    return said


def nop(results: Results) -> str:
    works, contended = map(results.table, ("nop.works", "nop.contended"))
    rows = results.rows_of("nop")
    if not works:
        return ""
    return _whole(
        _prose(_where([works], rows), sentences.of_control(rows)),
        _lines([works.title + ", a second"] + [
            f"{column:g} at a time" for column in works.columns],
               [[NOP_NAMES.get(name, name), *(_cell(works, name, column)
                                             for column in works.columns)]
                for name in works.lines]),
        _prose("In 2021 were posted, for 10 at a time and a machine that was not "
               "named: 400 k to 500 k, with private lists 1.0 M, and in batches "
               "1.6 M.", _waited(contended)),
        _prose(*_private(works), *_caveats([works, contended]),
               sentences.of_goals(rows, True)))


# --- pipes ------------------------------------------------------------------

PIPE_NAMES = {
    "worker-for-each": "the standby thread retries",
    "caller-runs": "who waits retries",
    "caller-runs+delayed-kick": "the same, the thread comes late",
    "io_uring+deferred": "io_uring, deferred",
    "kernel": "kernel AIO, written before it is read",
    "threads": "two threads without AIO", "plain": "one thread without AIO",
}


def pipe(results: Results) -> str:
    rate, switches, a_second, trips = tables = [
        results.table(f"pipe.{name}")
        for name in ("rate", "switches", "switches_per_s", "trips")]
    rows = results.rows_of("pipe")
    if not any(tables):
        return ""
    order = [*PIPE_NAMES][:3]
    names = _variants(*tables)
    names = [name for name in order if name in names] + [
        name for name in names if name not in order]
    lines = [[PIPE_NAMES.get(name, name), _first(rate, name),
              _first(switches, name), _first(a_second, name),
              *(_cell(trips, name, place)
                for place in ("1 processor", "2 processors"))]
             for name in names]
    return _whole(
        _prose(_where(tables, rows), sentences.of_control(rows)),
        _lines(["4 KiB through a pipe", "GB/s", "context switches a request",
                "a second", "round trips a second, one processor", "two"],
               lines),
        _prose("The patch that these ideas come from went from 600 000 context "
               "switches a second to 360 000, and to about 30 with the late "
               "kick.", *(sentences.of_table(rate) if rate else []),
               *_caveats(tables[1:]), sentences.of_goals(rows, True)))


# --- direct I/O -------------------------------------------------------------

DIO_NAMES = {"kernel": "kernel AIO", "psync": "pread",
             "whole": "uaio, all whole"}
SET_UPS = {"whole": "all of it cleared", "prefix": "prefix cleared, as uaio does",
           "malloc": "malloc() and free() each time"}


def _set_up(results: Results) -> str:
    tables = [results.table(f"dio.setup_{name}")
              for name in ("ns", "instructions", "cleared")]
    names = _variants(*tables)
    return _lines(["set-up of a 1 MiB request", "ns", "instructions",
                   "bytes cleared"],
                  [[SET_UPS.get(name, name), *(_first(table, name)
                                              for table in tables)]
                   for name in names]) if names else ""


def _across(table: ReadTable | None, more: ReadTable | None = None,
            word: str = "") -> str:
    """A line for each column of a table, and a line of another at its end."""
    if not table:
        return ""
    names = [*table.lines]
    head = [f"{table.title}, {table.unit}", *(
        DIO_NAMES.get(name, name if name in ("uaio", "io_uring")
                      else f"uaio, {name}") for name in names)]
    return _lines(head + [word] * bool(more), [
        [f"{column}", *(_cell(table, name, column) for name in names),
         *([_cell(more, "uaio", column)] if more else [])]
        for column in table.columns])


def dio(results: Results) -> str:
    set_up, reads, cut, slow = tables = [
        results.table(f"dio.{name}")
        for name in ("setup_ns", "reads", "cut", "slow")]
    rows = results.rows_of("dio")
    if not any(tables):
        return ""
    saved = [row for row in rows if row.figure == "saved"
             and row.subject_values]
    return _whole(
        _prose(_where(tables, rows), sentences.of_control(rows)),
        _set_up(results),
        _prose("With Linux 2.6.32, in 2009, clearing all of it lost a database "
               "benchmark 0.5 %, and clearing only the front gave 0.6 %.",
               *(sentences.of_table(set_up) if set_up else []),
               *(f"Of a 1 MiB read that saves {sentences.measured(row)}."
                 for row in saved)),
        _across(reads, cut, "of 100 uaio cut"),
        _prose(*(sentences.of_table(reads) if reads else [])),
        _across(slow),
        _prose(*(sentences.of_table(slow) if slow else []),
               sentences.of_goals(rows, True)))


# --- the peers --------------------------------------------------------------

ENGINES = ("kernel", "uaio", "io_uring", "posixaio", "psync", "floor")


def _what(row: ReadRow) -> str:
    """What a goal is of: a peer, or a figure of our own."""
    if row.goal.of != "ratio":
        return row.figure
    return row.peer if row.subject == "uaio" else row.title


def _ratio(spread: Spread | None) -> str:
    if not spread:
        return NONE
    return (f"{sentences.times(spread.median)} "
            f"({sentences.times(spread.min)}–{sentences.times(spread.max)})")


def _promised(rows: Sequence[ReadRow]) -> str:
    """Each goal of a job, and how it ended."""
    return "; ".join(
        f"{_what(row)} {row.goal}: "
        f"{row.verdict()}" + (f", {sentences.measured(row)}"
                              if row.measured() else "")
        for row in rows if row.goal) or NONE


def peers(results: Results) -> str:
    jobs = [job.name for job in JOBS]
    rows = results.rows_of(*jobs)
    tables = {job: table for job in jobs
              if (table := results.table(f"{job}.rate"))}
    if not rows and not tables:
        return ""
    lines = []
    for job in JOBS:
        mine = results.rows_of(job.name)
        if not mine and job.name not in tables:
            continue
        beside = [row.ratio() for row in mine if row.subject == "uaio"
                  and row.peer == "kernel" and row.unit == "I/O/s"]
        lines.append([job.title,
                      *(_first(tables.get(job.name), name)
                        for name in ENGINES),
                      _ratio(beside[0] if beside else None), _promised(mine)])
    notes = dict.fromkeys(f"{row.name}: {row.note}." for row in rows
                          if row.note)
    return _whole(
        _prose(_where([*tables.values()], rows), sentences.of_control(rows)),
        _lines(["I/O a second", *ENGINES, "uaio : kernel", "goals"], lines),
        _prose(sentences.of_goals(rows), *notes))


# --- the document -----------------------------------------------------------

PARTS: dict[str, Callable[[Results], str]] = {
    "nop": nop, "pipe": pipe, "dio": dio, "peers": peers}


class Refused(Exception):
    """The document cannot be written; the text says why."""


def written(text: str, results: Results) -> str:
    """The document with the figures of these results."""
    found = [match[2] for match in MARKED.finditer(text)]
    if sorted(found) != sorted(PARTS):
        raise Refused(f"the document has figures for {', '.join(found) or 'none'}"
                      f", and not once for each of {', '.join(PARTS)}")
    return MARKED.sub(lambda match: match[1] + (
        PARTS[match[2]](results) or "Not measured.") + "\n" + match[3], text)


def _newest() -> Path | None:
    return max((HERE / "results").glob("*.jsonl"), default=None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="?", type=Path, default=_newest(),
                        help="default: the last of bench/results")
    parser.add_argument("--document", type=Path,
                        default=HERE.parent / "doc/benchmarks.md")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if not args.results:
        print("benchmarks: no file in bench/results, so nothing to write from")
        return 0
    try:
        old = args.document.read_text()
        new = written(old, read([args.results]))
    except (OSError, Refused, Unreadable) as why:
        print(f"benchmarks: {why}", file=sys.stderr)
        return 2
    if not args.check:
        args.document.write_text(new)
    elif old != new:
        print(f"benchmarks: {args.document} has other figures than "
              f"{args.results}: make benchmarks", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
