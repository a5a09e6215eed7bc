# SPDX-License-Identifier: MIT
"""The rows and tables of fio's jobs: one unmodified fio on the kernel, on uaio
and on other peers."""
from __future__ import annotations

import dataclasses
import shutil

import fio
from harness import CONTROL, Series, VariantFailed, alternate
from machine import file_system_of
from programs import TMPFS, Programs
from rows import Row, Table

NO_FIO = "fio is not installed: apt-get install fio"
TAILS = (50, 99, 99.9)
"""Per cent of the latencies that a table has."""

RUNTIME_S, QUICK_RUNTIME_S = 2.0, 0.3
QUICK = {"many-tmpfs": {"loops": 2}, "many-disk": {"loops": 1},
         **{name: {"size": "16m"} for name in ("hot-read", "hot-write",
                                               "hot-read-32")},
         **{name: {"size": "32m"} for name in ("cold-read-32", "direct-read-32",
                                               "direct-write-32")}}
"""What --quick makes smaller, to see that everything runs."""


def bench_of(programs: Programs, runtime_s: float) -> fio.Bench:
    return fio.Bench(programs.places, programs.disk_dir, programs.tmpfs_dir,
                     runtime_s)


def why_not(programs: Programs, bench: fio.Bench, job: fio.Job) -> str:
    """Write the files of a job. Return: why it cannot be run, or None."""
    if not shutil.which("fio"):
        return NO_FIO
    if job.on_tmpfs and file_system_of(bench.tmpfs_dir) != "tmpfs":
        return f"no tmpfs on {TMPFS}"
    programs.progress.show(f"{job.name}: laying out its files")
    try:
        fio.lay_out(bench, job)
    except VariantFailed as why:
        return str(why)
    return ""


def _single(bench: fio.Bench, job: fio.Job, series: dict[str, Series],
            name: str, title: str, unit: str, figure: str) -> Table:
    """A table of one column: the job."""
    table = Table(name=f"{job.name}.{name}", title=title, unit=unit,
                  across="work", columns=[job.title], plot="bars",
                  file_system=file_system_of(bench.dir_of(job)))
    return _filled(table, series, [figure])


def _latencies(bench: fio.Bench, job: fio.Job, series: dict[str, Series],
               name: str, figure: str, per_cents: tuple[float, ...],
               plot: str = "") -> Table:
    """A table of latencies: the time within which this percentage of the I/Os completed."""
    table = Table(name=f"{job.name}.{name}", unit="us",
                  title=f"{job.title}: latency, {figure}", across="per cent of I/Os",
                  columns=[*per_cents], plot=plot,
                  logarithmic="x" if plot else "",
                  file_system=file_system_of(bench.dir_of(job)))
    return _filled(table, series, [f"{figure} {per_cent:g}"
                                   for per_cent in per_cents])


def _filled(table: Table, series: dict[str, Series],
            figures: list[str]) -> Table:
    for name, each in series.items():
        if name != CONTROL:
            table.add(name, [each], figures)
    return table


def tables_of(bench: fio.Bench, job: fio.Job,
              series: dict[str, Series]) -> list[Table]:
    """The tables of all engines, including those without a row."""
    about = (bench, job, series)
    return [
        _single(*about, "rate", f"{job.title}: throughput", "I/O/s", fio.RATE),
        _single(*about, "cpu", f"{job.title}: CPU time", "us per I/O", fio.CPU),
        _single(*about, "switches", f"{job.title}: context switches",
                "per I/O", fio.SWITCHES),
        _latencies(*about, "submission", fio.SUBMISSION, TAILS),
        _latencies(*about, "completion", fio.COMPLETION, TAILS),
        _latencies(*about, "cdf", fio.BOTH, fio.PER_CENTS, "cdf"),
    ]


def job_results(programs: Programs, job: fio.Job) -> list[Row | Table]:
    if programs.is_quick:
        job = dataclasses.replace(job, **QUICK.get(job.name, {}))
    bench = bench_of(programs,
                     QUICK_RUNTIME_S if programs.is_quick else RUNTIME_S)
    why = why_not(programs, bench, job)
    if why:
        return [Row(name=job.name, title=job.title, figure=fio.RATE,
                    unit="I/O/s", peer="kernel", note=why)]
    known = fio.variants(bench, job.direct)
    series = alternate(
        {name: lambda name=name: fio.measure(bench, job, known[name])
         for name in fio.peers_of(job)},
        dataclasses.replace(programs.rounds, seldom=fio.seldom_of(job)),
        "kernel", programs.progress, job.name)
    return [*tables_of(bench, job, series),
            *fio.rows_of(bench, job, series)]
