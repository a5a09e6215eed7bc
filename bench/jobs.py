# SPDX-License-Identifier: MIT
"""The rows of fio's jobs: one unmodified fio on the kernel, on uaio and on
other peers."""
from __future__ import annotations

import dataclasses
import shutil

import fio
from harness import VariantFailed, alternate
from machine import file_system_of
from programs import TMPFS, Programs
from rows import Row, Table

RUNTIME_S, QUICK_RUNTIME_S = 2.0, 0.3
QUICK = {"many-tmpfs": {"loops": 2}, "many-disk": {"loops": 1},
         "cold-read-32": {"size": "32m"},
         "direct-read-32": {"size": "32m"}, "direct-write-32": {"size": "32m"}}
"""What --quick makes smaller, to see that everything runs."""


def _bench(programs: Programs) -> fio.Bench:
    return fio.Bench(programs.places, programs.disk_dir, programs.tmpfs_dir,
                     QUICK_RUNTIME_S if programs.is_quick else RUNTIME_S)


def _why_not(programs: Programs, bench: fio.Bench, job: fio.Job) -> str:
    """Lays out the files of a job. Return: why it cannot be run, or nothing."""
    if not shutil.which("fio"):
        return "fio is not installed: apt-get install fio"
    if job.on_tmpfs and file_system_of(bench.tmpfs_dir) != "tmpfs":
        return f"no tmpfs on {TMPFS}"
    programs.progress.show(f"{job.name}: laying out its files")
    try:
        fio.lay_out(bench, job)
    except VariantFailed as why:
        return str(why)
    return ""


def job_results(programs: Programs, job: fio.Job) -> list[Row | Table]:
    if programs.is_quick:
        job = dataclasses.replace(job, **QUICK.get(job.name, {}))
    bench = _bench(programs)
    why = _why_not(programs, bench, job)
    if why:
        return [Row(name=job.name, title=job.title, figure="I/O", unit="I/O/s",
                    peer="kernel", note=why)]
    known = fio.variants(bench)
    series = alternate(
        {name: lambda name=name: fio.measure(bench, job, known[name])
         for name in fio.peers_of(job)},
        programs.rounds, "kernel", programs.progress, job.name)
    return fio.rows_of(bench, job, series)
