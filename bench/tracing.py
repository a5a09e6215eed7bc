# SPDX-License-Identifier: MIT
"""The row trace: what a trace costs the program that is traced.

fio's hot 1 KiB reads, one at a time and 32, on uaio, alternately without a trace, with one
that writes a line for each request, and with one that takes each record and writes none.
The tracer has a processor of its own if there are two.
"""
from __future__ import annotations

import dataclasses

import fio
from harness import Series, alternate
from jobs import bench_of, why_not
from machine import file_system_of
from programs import Programs
from rows import Goal, Row, Table, control_of, row_of

RUNTIME_S, QUICK_RUNTIME_S = 0.5, 0.2
PLAIN, LINES, FILTERED = "uaio", "traced", "traced, --errors"
GOAL = Goal(0.95)
"""Of the rate without a trace, of reads one at a time."""

JOBS = (("hot-read", GOAL), ("hot-read-32", None))


def variants(bench: fio.Bench) -> dict[str, fio.Variant]:
    plain = fio.variants(bench)["uaio"]
    trace = (str(bench.places.uaio), "trace", "-o", "/dev/null")
    return {PLAIN: plain,
            LINES: dataclasses.replace(plain, prefix=(*trace, "--")),
            FILTERED: dataclasses.replace(plain,
                                          prefix=(*trace, "--errors", "--"))}


def results_of(job: fio.Job, goal: Goal | None, series: dict[str, Series],
               file_system: str) -> list[Row | Table]:
    """The table of records that were lost, and the rows."""
    about = {"name": "trace", "file_system": file_system}
    lost = Table(**about | {"name": f"trace.lost.{job.name}"},
                 title=f"{job.title}: records lost", unit="per request",
                 across="work", columns=[job.title])
    for name in (LINES, FILTERED):
        lost.add(name, [series[name]], [fio.LOST])
    control = control_of(series, PLAIN, fio.RATE)
    return [lost, *(row_of(series, name, PLAIN, fio.RATE, unit="I/O/s",
                           title=f"{job.title}, {name}", goal=goal,
                           control=control, **about)
                    for name in (LINES, FILTERED))]


def trace_results(programs: Programs) -> list[Row | Table]:
    bench = bench_of(programs,
                     QUICK_RUNTIME_S if programs.is_quick else RUNTIME_S)
    results: list[Row | Table] = []
    for name, goal in JOBS:
        job = fio.job_named(name)
        if programs.is_quick:
            job = dataclasses.replace(job, size="16m")
        why = why_not(programs, bench, job)
        if why:
            results.append(Row(name="trace", title=job.title, figure=fio.RATE,
                               unit="I/O/s", peer=PLAIN, note=why))
            continue
        known = variants(bench)
        series = alternate(
            {each: lambda each=each: fio.measure(bench, job, known[each])
             for each in known},
            programs.rounds, PLAIN, programs.progress, f"trace: {job.title}")
        results += results_of(job, goal, series,
                              file_system_of(bench.dir_of(job)))
    return results
