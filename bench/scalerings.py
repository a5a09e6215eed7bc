# SPDX-License-Identifier: MIT
"""The row scale, of io_uring: no-ops, hot reads, pipes and echoes by several threads,
with one ring for all or one each.

scale-uring.c is an ordinary program, run on the kernel and under
`uaio run --uring=always`.
"""
from __future__ import annotations

import json
from collections.abc import Sequence

from harness import Sample, Series, alternate
from programs import Programs
from proof import Check, prove
from rows import Row, Table, control_of, row_of

WORKS = {"nop": "no-ops", "read": "1 KiB read in memory",
         "pipe": "a read of a pipe that waits", "echo": "a receive and its answer"}
MS, QUICK_MS = 200, 30
RATE, CPU = "operation", "CPU"
ONE, EACH = "1 ring", "a ring each"
KERNEL, UAIO = "kernel", "uaio"
WANTED = 16
"""Threads up to which there would be figures, had the machine the processors."""


def name_of(who: str, rings: str) -> str:
    return f"{who}, {rings}"


VARIANTS = [name_of(who, rings) for rings in (ONE, EACH)
            for who in (KERNEL, UAIO)]


def sample_of(who: str, rings: int, said: dict) -> Sample:
    expected = rings if who == KERNEL else 0
    proof = prove([Check(f"{expected} rings of the kernel",
                         said["rings"] == expected),
                   Check("operations", said["ios"] > 0)],
                  who, said, ("rings", "ios"))
    return Sample({RATE: 1e6 * said["ios"] / said["usecs"],
                   CPU: 1e3 * said["cpu_us"] / said["ios"]}, proof)


def _measure(programs: Programs, work: str, who: str, threads: int,
             rings: int) -> Sample:
    said = json.loads(programs.output(
        "scale-uring",
        [work, threads, rings, QUICK_MS if programs.is_quick else MS],
        [str(programs.places.uaio), "run", "--uring=always", "--"]
        if who == UAIO else []))
    return sample_of(who, rings, said)


def _series(programs: Programs, work: str, threads: int, rings: str,
            ) -> dict[str, Series]:
    """The series of the kernel and uaio, run in turn, with the kernel's control."""
    number = 1 if rings == ONE else threads
    return alternate(
        {name_of(who, rings): lambda who=who: _measure(
            programs, work, who, threads, number) for who in (KERNEL, UAIO)},
        programs.rounds, name_of(KERNEL, rings), programs.progress,
        f"scale: {work}, {threads} threads, {rings}")


def results_of(work: str, all_series: dict[tuple[int, str], dict[str, Series]],
               cpus: int) -> list[Row | Table]:
    counts = list(dict.fromkeys(threads for threads, _ in all_series))
    tables = []
    for figure, word, unit in ((RATE, "rate", "1/s"), (CPU, "cpu", "ns")):
        table = Table(f"scale.{work}_{word}", f"{WORKS[work]}: {word}", unit,
                      "threads", [*counts], plot="lines", logarithmic="x")
        for name in VARIANTS:
            rings = name.partition(", ")[2]
            table.add(name, [all_series[threads, rings][name]
                             for threads in counts], [figure])
        tables.append(table)
    if cpus < WANTED:
        tables[-1].beside = [
            f"Of {cpus} processors there are no figures beyond {2 * cpus} "
            "threads."]
    rows = []
    for (threads, rings), series in all_series.items():
        ours, peer = (name_of(who, rings) for who in (UAIO, KERNEL))
        rows.append(row_of(
            series, ours, peer, CPU, name="scale", unit="ns",
            title=f"{work}, threads {threads}: {rings}",
            control=control_of(series, peer, CPU)))
    return [*tables, *rows]


def ring_results(programs: Programs, counts: Sequence[int],
                 cpus: int) -> list[Row | Table]:
    results: list[Row | Table] = []
    for work in WORKS:
        results += results_of(work, {
            (threads, rings): _series(programs, work, threads, rings)
            for threads in counts for rings in (ONE, EACH)}, cpus)
    return results
