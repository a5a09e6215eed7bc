# SPDX-License-Identifier: MIT
"""Throughput against depth: hot 1 KiB reads and O_DIRECT 4 KiB reads by fio, as
many at a time, submitted and reaped in batches of half as many."""
from __future__ import annotations

import dataclasses

import fio
from harness import Series, alternate
from jobs import bench_of, why_not
from machine import file_system_of
from programs import Programs
from rows import Row, Table, row_of

DEPTHS, QUICK_DEPTHS = (1, 4, 16, 64), (1, 16)
RUNTIME_S, QUICK_RUNTIME_S = 0.5, 0.2
ENGINES = ("kernel", "uaio", "io_uring")
ONE_BY_ONE = ("posixaio", "psync")
"""At depth 1 only: beyond it psync has none, and glibc's threads go up and
down."""

HOT, DIRECT = "hot", "direct"
TITLES = {HOT: "1 KiB hot read", DIRECT: "4 KiB O_DIRECT read"}
SIZES = {HOT: "100m", DIRECT: "512m"}
QUICK_SIZES = {HOT: "16m", DIRECT: "32m"}


def job_at(work: str, depth: int, is_quick: bool = False) -> fio.Job:
    """Return: the job with this depth, on the file of the jobs hot-read and
    direct-read-32."""
    batch = max(1, depth // 2)
    title = f"{TITLES[work]}, depth {depth}"
    size = (QUICK_SIZES if is_quick else SIZES)[work]
    options = (f"iodepth={depth}", f"iodepth_batch_submit={batch}",
               f"iodepth_batch_complete_min={batch}", "rw=randread")
    if work == HOT:
        return fio.Job("depth", title, "hot",
                       (*options, "bs=1k", "invalidate=0"), size)
    return fio.Job("depth", title, "cold", (*options, "bs=4k"), size,
                   direct=True)


def _series(programs: Programs, bench: fio.Bench, work: str,
            depth: int) -> dict[str, Series]:
    job = job_at(work, depth, programs.is_quick)
    known = fio.variants(bench)
    names = (*ENGINES, *(ONE_BY_ONE if depth == 1 else ()))
    rounds = dataclasses.replace(programs.rounds, seldom=frozenset(ONE_BY_ONE))
    return alternate(
        {name: lambda name=name: fio.measure(bench, job, known[name])
         for name in names},
        rounds, None, programs.progress, f"depth: {job.title}")


def results_of(work: str, all_series: dict[int, dict[str, Series]],
               file_system: str) -> list[Row | Table]:
    """The table, and uaio against each peer at each depth."""
    about = {"name": "depth", "unit": "I/O/s", "file_system": file_system}
    table = Table(**about | {"name": f"depth.{work}"}, title=TITLES[work],
                  across="depth", columns=[*all_series], plot="lines",
                  logarithmic="x")
    absent = Series()
    for name in (*ENGINES, *ONE_BY_ONE):
        table.add(name, [series.get(name, absent)
                         for series in all_series.values()], [fio.RATE])
    rows = [row_of(series, "uaio", peer, fio.RATE,
                   title=f"{TITLES[work]}, depth {depth}", **about)
            for depth, series in all_series.items()
            for peer in ENGINES if peer != "uaio"]
    return [table, *rows]


def depth_results(programs: Programs) -> list[Row | Table]:
    bench = bench_of(programs,
                     QUICK_RUNTIME_S if programs.is_quick else RUNTIME_S)
    depths = QUICK_DEPTHS if programs.is_quick else DEPTHS
    results: list[Row | Table] = []
    for work, title in TITLES.items():
        job = job_at(work, depths[0], programs.is_quick)
        why = why_not(programs, bench, job)
        if why:
            results.append(Row(name="depth", title=title, figure=fio.RATE,
                               unit="I/O/s", peer="kernel", note=why))
            continue
        series = {depth: _series(programs, bench, work, depth)
                  for depth in depths}
        results += results_of(work, series, file_system_of(bench.dir_of(job)))
    return results
