# SPDX-License-Identifier: MIT
"""The part index-jobs: the fio jobs that the table was made for, end to end, on
libraries that find their contexts in different ways, and on the kernel.

    table        the library as it is
    list, radix  with another index (indexes.py)
    kernel       kernel AIO

What each proves: the library counted what fio did, in as many contexts as fio
has jobs, and all were in the index of that name; the kernel's ring was mapped.
"""
from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import fio
from harness import Disproved, Sample, Series, VariantFailed, alternate
from indexes import (INDEXES, LIST, RADIX, environment_of, prove_index,
                     reporting, said_of_index)
from machine import file_system_of
from programs import TMPFS, Programs
from rows import Row, Table, control_of, row_of

TABLE, KERNEL = "table", "kernel"
WHO = (TABLE, LIST, RADIX, KERNEL)

OPTIONS = ("rw=randrw", "bs=1k", "iodepth=1", "thread", "group_reporting")
MANY = fio.Job("index-jobs", "512 jobs", "many", OPTIONS, "256k", jobs=512,
               loops=16, on_tmpfs=True)
"""The job of 2013, but for its number of loops, 100; on the files of
many-tmpfs."""
ONE = fio.Job("index-jobs", "1 job", "single", OPTIONS, "100m", loops=3,
              on_tmpfs=True)
"""Measured by fio: it takes longer to start than to do this."""
JOBS = (MANY, ONE)
QUICK = {"512 jobs": {"loops": 4}, "1 job": {"loops": 1}}

FIGURES = {"jobs": "I/O", "jobs_cpu": "CPU per I/O"}

SEED = ("radix tree against list in Linux of 2013, 512 jobs: 66 % of the time "
        "on 1 core, 72 % on 8, 84 % on 32, as posted; 1 job: 101 %",)


# --- what proves a variant --------------------------------------------------


def prove_requests(said: list[dict], ios: int, contexts: int) -> str:
    """What the library counted of a run. Raises Disproved if it is too little."""
    counted = {key: sum(each[key] for each in said)
               for key in ("requests", "contexts")}
    text = f"{counted['requests']} requests of {counted['contexts']} contexts"
    if counted["requests"] < ios or counted["contexts"] < contexts:
        raise Disproved(f"fio did {ios} I/Os of {contexts} jobs, the library "
                        f"counted {text}")
    return f"libuaio counted {text}"


# --- one run ----------------------------------------------------------------


def _variant(programs: Programs, who: str, counters: Path,
             index: Path) -> fio.Variant:
    if who == KERNEL:
        return fio.Variant(marker=fio.KERNEL_MARKER)
    env = environment_of(programs, who, index) if who in INDEXES \
        else reporting(index)
    return fio.Variant(
        prefix=tuple(programs.uaio_run()) if who == TABLE else (),
        env=tuple((env | {"UAIO_COUNTERS": str(counters)}).items()))


def _measure(programs: Programs, bench: fio.Bench, job: fio.Job,
             who: str) -> Sample:
    counters, index = (bench.disk_dir / name for name in ("counters", "index"))
    for report in (counters, index):
        report.unlink(missing_ok=True)
    variant = _variant(programs, who, counters, index)
    result = fio.run_fio(fio.job_options(bench, job), bench.disk_dir, variant)
    done, ios = result.done, result.ios
    if who == KERNEL:
        proof = f"{variant.marker} mapped" \
            if variant.marker in done.mapped else None
    else:
        proof = ", ".join((
            prove_requests(fio.said_of_fio(counters), ios, job.jobs),
            prove_index(who, said_of_index(index), job.jobs)))
    return Sample({"I/O": ios / done.wall_s if job.jobs > 1 else result.iops,
                   "CPU per I/O": done.cpu_s / ios * 1e6}, proof)


# --- the part ---------------------------------------------------------------


def _series_of(programs: Programs, bench: fio.Bench,
               job: fio.Job) -> dict[str, Series]:
    programs.progress.show(f"{job.title}: laying out its files")
    try:
        fio.lay_out(bench, job)
    except VariantFailed as why:
        return {who: Series(failure=str(why)) for who in WHO}
    return alternate(
        {who: lambda who=who: _measure(programs, bench, job, who)
         for who in (LIST, KERNEL, RADIX, TABLE)},
        programs.rounds, LIST, programs.progress, job.title)


def _why_not(programs: Programs) -> str:
    if not shutil.which("fio"):
        return "fio is not installed: apt-get install fio"
    if file_system_of(programs.tmpfs_dir) != "tmpfs":
        return f"no tmpfs on {TMPFS}"
    return ""


def _tables(all_series: dict[str, dict[str, Series]]) -> list[Table]:
    tables = [
        Table("contexts.jobs", "fio, 1 KiB random reads and writes", "I/O/s",
              "jobs, each with a context", [*all_series], plot="bars",
              beside=[*SEED], file_system="tmpfs"),
        Table("contexts.jobs_cpu", "The same, CPU time", "us per I/O",
              "jobs, each with a context", [*all_series], plot="bars",
              file_system="tmpfs")]
    for table in tables:
        figure = FIGURES[table.name.partition(".")[2]]
        for who in WHO:
            table.add(who, [series[who] for series in all_series.values()],
                      [figure])
    return tables


def _rows(title: str, series: dict[str, Series]) -> list[Row]:
    return [row_of(series, TABLE, peer, "I/O", name=MANY.name,
                   title=f"{title}, 1 KiB random rw, tmpfs", unit="I/O/s",
                   control=control_of(series, LIST, "I/O"),
                   file_system="tmpfs")
            for peer in (LIST, RADIX, KERNEL)]


def index_jobs_results(programs: Programs) -> list[Row | Table]:
    why = _why_not(programs)
    if why:
        raise VariantFailed(why)
    bench = fio.Bench(programs.places, programs.disk_dir, programs.tmpfs_dir)
    all_series = {}
    for job in JOBS:
        if programs.is_quick:
            job = dataclasses.replace(job, **QUICK[job.title])
        all_series[job.title] = _series_of(programs, bench, job)
    rows = [row for title, series in all_series.items()
            for row in _rows(title, series)]
    return [*_tables(all_series), *rows]
