# SPDX-License-Identifier: MIT
"""The row posix: POSIX AIO, glibc's and ours.

posix.c is an ordinary program of POSIX AIO, run on glibc and under `uaio run`; beside
it the same program with libaio on uaio, and with plain calls. Then fio's posixaio on
both, beside fio's libaio on uaio. CPU time counts as much as the rate: glibc makes
each request by a thread, which on an idle second processor overlaps with the program.
"""
from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

import fio
import jobs
from harness import Disproved, Sample, Series, alternate
from machine import file_system_of
from programs import Programs
from proof import Check, prove
from rows import Goal, Row, Table, control_of, row_of

RATE, CPU = "request", "CPU"
MS, QUICK_MS = 300, 30
GLIBC, UAIO, LIBAIO, PLAIN = "glibc", "uaio", "uaio, libaio", "pread"
VARIANTS = (GLIBC, UAIO, LIBAIO, PLAIN)


@dataclass(frozen=True)
class Work:
    """How the program is notified of completed requests, and how many are in flight."""

    column: str
    """Where in the table."""
    way: str
    depth: int
    goal: float
    """Of glibc's rate."""


WORKS = (
    Work("aio_suspend, depth 1", "suspend", 1, 5),
    Work("aio_suspend, depth 32", "suspend", 32, 3),
    Work("LIO_WAIT, 32", "listio", 32, 1),
    Work("signal, depth 1", "signal", 1, 3),
    Work("SIGEV_THREAD, depth 1", "thread", 1, 8),
)
OTHER_WAYS = {LIBAIO: "libaio", PLAIN: "pread"}
"""What the program does in a variant, whatever the work."""


# --- what the counters must say ---------------------------------------------

COUNTED = ("all_requests", "counted", "threads")


def proof_of(variant: str, said: dict) -> str:
    """What the counters prove of a run. Raises Disproved if they deny it."""
    counted = said["counted"]
    is_ours = variant in (UAIO, LIBAIO)
    checks = [Check("the library was there" if is_ours else "no library",
                    bool(counted) == is_ours)]
    if is_ours and counted:
        checks += [Check(f"{said['all_requests']} requests",
                         counted["requests"] == said["all_requests"]),
                   Check(f"{'a' if variant == LIBAIO else 'no'} context",
                         counted["contexts"] == (variant == LIBAIO))]
    if variant == GLIBC:
        checks += [Check("threads of glibc's", said["threads"] > 1)]
    if variant == PLAIN:
        checks += [Check("no other thread", said["threads"] == 1)]
    return prove(checks, variant, said, COUNTED)


# --- the program ------------------------------------------------------------


def measure(programs: Programs, work: Work, variant: str) -> Sample:
    """One timed run."""
    counters = programs.disk_dir / "counters"
    counters.unlink(missing_ok=True)
    said = json.loads(programs.output(
        "posix",
        [OTHER_WAYS.get(variant, work.way), f"-d{work.depth}",
         f"-f{programs.disk_dir / 'posix-read'}",
         f"-m{QUICK_MS if programs.is_quick else MS}"],
        ["env", f"UAIO_COUNTERS={counters}",
         *(programs.uaio_run() if variant in (UAIO, LIBAIO) else [])]))
    processes = fio.said_of(counters, "posix")
    said["counted"] = processes[0] if processes else None
    return Sample({RATE: 1e6 * said["requests"] / said["usecs"],
                   CPU: said["cpu_us"] / said["requests"]},
                  proof_of(variant, said))


def _series(programs: Programs, work: Work) -> dict[str, Series]:
    return alternate(
        {name: lambda name=name: measure(programs, work, name)
         for name in VARIANTS},
        programs.rounds, GLIBC, programs.progress, f"posix: {work.column}")


def rows_for(title: str, series: dict[str, Series], figure: str, unit: str,
             goal: Goal, cpu: str, cpu_goal: Goal | None,
             file_system: str) -> list[Row]:
    """uaio compared with glibc: the rate, and the CPU time."""
    about = {"name": "posix", "file_system": file_system,
             "control": control_of(series, GLIBC, figure)}
    return [row_of(series, UAIO, GLIBC, figure, title=title, unit=unit,
                   goal=goal, **about),
            row_of(series, UAIO, GLIBC, cpu, title=f"{title}: CPU time",
                   unit="us", goal=cpu_goal, **about)]


# --- fio --------------------------------------------------------------------

READS = ("rw=randread", "bs=4k")
HOT = (*READS, "invalidate=0")


@dataclass(frozen=True)
class FioWork:
    job: fio.Job
    goal: float
    """Of glibc's rate."""
    cpu_goal: Goal | None = None


FIO_WORKS = (
    FioWork(fio.Job("posix", "fio, cold read, depth 32", "cold",
                    (*READS, "iodepth=32"), "512m", cold=True), 2.2),
    FioWork(fio.Job("posix", "fio, O_DIRECT read, depth 32", "cold",
                    (*READS, "iodepth=32"), "512m", direct=True), 3),
    FioWork(fio.Job("posix", "fio, O_DIRECT write, depth 32", "cold",
                    ("rw=randwrite", "bs=4k", "iodepth=32"), "512m",
                    direct=True), 2.5),
    FioWork(fio.Job("posix", "fio, hot read, depth 1", "hot",
                    (*HOT, "iodepth=1"), "100m"), 4),
    # glibc's thread reads while fio submits, on another processor.
    FioWork(fio.Job("posix", "fio, hot read, depth 32", "hot",
                    (*HOT, "iodepth=32"), "100m"), 0.9,
            Goal(1, at_least=False)),
)
FIO_VARIANTS = {GLIBC: "posixaio", UAIO: "uaio, posixaio", LIBAIO: "uaio"}
"""What they are called in fio.py."""
QUICK_SIZES = {"cold": "32m", "hot": "16m"}


def _fio_series(programs: Programs, bench: fio.Bench,
                job: fio.Job) -> dict[str, Series]:
    known = fio.variants(bench)
    return alternate(
        {name: lambda variant=known[variant]: fio.measure(bench, job, variant)
         for name, variant in FIO_VARIANTS.items()},
        programs.rounds, GLIBC, programs.progress, f"posix: {job.title}")


def fio_results(programs: Programs) -> list[Row | Table]:
    bench = jobs.bench_of(programs, jobs.QUICK_RUNTIME_S if programs.is_quick
                          else jobs.RUNTIME_S)
    rows: list[Row] = []
    all_series: dict[str, dict[str, Series]] = {}
    for work in FIO_WORKS:
        job = work.job
        if programs.is_quick:
            job = dataclasses.replace(job, size=QUICK_SIZES[job.file])
        if why := jobs.why_not(programs, bench, job):
            rows.append(Row(name="posix", title=job.title, figure=fio.RATE,
                            unit="I/O/s", peer=GLIBC, note=why))
            continue
        series = all_series[job.title] = _fio_series(programs, bench, job)
        rows += rows_for(job.title, series, fio.RATE, "I/O/s",
                         Goal(work.goal), fio.CPU, work.cpu_goal,
                         file_system_of(bench.dir_of(job)))
    return [*tables_for("fio_", "fio's posixaio", "I/O",
                        (fio.RATE, fio.CPU), all_series, tuple(FIO_VARIANTS)),
            *rows]


# --- all of it --------------------------------------------------------------


def tables_for(name: str, title: str, of: str, figures: tuple[str, str],
               all_series: dict[str, dict[str, Series]],
               variants: tuple[str, ...]) -> list[Table]:
    """Rate and CPU time of every variant."""
    tables = []
    for figure, word, what, unit in zip(
            figures, ("rate", "cpu"), ("rate", "CPU time"),
            ("1/s", f"us per {of}"), strict=True):
        table = Table(f"posix.{name}{word}", f"{title}: {what}", unit, "work",
                      [*all_series])
        for variant in variants if all_series else ():
            table.add(variant, [series[variant]
                                for series in all_series.values()], [figure])
        tables.append(table)
    return tables if all_series else []


def posix_results(programs: Programs) -> list[Row | Table]:
    file_system = file_system_of(programs.disk_dir)
    if file_system == "tmpfs":
        return [Row(name="posix", title="POSIX AIO", figure=RATE, unit="1/s",
                    peer=GLIBC,
                    note=f"no disk under {programs.disk_dir.parent}: --dir")]
    rows: list[Row] = []
    all_series: dict[str, dict[str, Series]] = {}
    for work in WORKS:
        series = all_series[work.column] = _series(programs, work)
        rows += rows_for(work.column, series, RATE, "1/s", Goal(work.goal),
                         CPU, None, file_system)
    return [*tables_for("", "POSIX AIO", "request", (RATE, CPU), all_series,
                        VARIANTS), *rows, *fio_results(programs)]
