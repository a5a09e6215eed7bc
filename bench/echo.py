# SPDX-License-Identifier: MIT
"""The row echo: a server of io_uring, the kernel's and ours, and one of epoll.

echo.c is an ordinary server, and its clients in a process of their own. It is run on
the kernel, with a plain ring and with one as cheap as the kernel's can be, and under
`uaio run --uring=always`; and as a server that uses epoll, on the kernel.
"""
from __future__ import annotations

import json
import os
from dataclasses import dataclass

from harness import Sample, Series, alternate
from programs import Programs
from proof import Check, prove
from rows import Goal, Row, Table, control_of, row_of

RATE, CPU, SWITCHES = "message", "CPU", "context switches"
MS, QUICK_MS = 500, 50
KERNEL, DEFERRED, UAIO, EPOLL = "io_uring", "io_uring+deferred", "uaio", "epoll"
VARIANTS = (KERNEL, DEFERRED, UAIO, EPOLL)
GOALS = {KERNEL: Goal(0.9), EPOLL: Goal(1.0)}


@dataclass(frozen=True)
class Talk:
    """How many connections are served, and how."""

    column: str
    how: str
    options: tuple[str, ...] = ()
    is_pinned: bool = False
    """Server and clients share one processor."""


TALKS = (
    Talk("1 connection", "ring"),
    Talk("64 connections", "ring", ("-n64",)),
    Talk("64 connections, 1 processor", "ring", ("-n64",), is_pinned=True),
    Talk("50 of 1050 connections", "ring", ("-n50", "-i1000")),
    Talk("1 connection, multishot", "multishot"),
    Talk("64 connections, multishot", "multishot", ("-n64",)),
)


def _pin() -> list[str]:
    return ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]


def measure(programs: Programs, talk: Talk, variant: str) -> Sample:
    """One timed run."""
    how = EPOLL if variant == EPOLL else talk.how
    said = json.loads(programs.output(
        "echo",
        [how, *talk.options, f"-m{QUICK_MS if programs.is_quick else MS}",
         *(["-t"] if variant == DEFERRED else [])],
        [*(_pin() if talk.is_pinned else []),
         *([str(programs.places.uaio), "run", "--uring=always", "--"]
           if variant == UAIO else [])]))
    rings = int(variant in (KERNEL, DEFERRED))
    proof = prove([Check(f"{rings} rings of the kernel",
                         said["rings"] == rings),
                   Check("messages", said["requests"] > 0)],
                  f"{talk.column}: {variant}", said, ("rings", "requests"))
    return Sample({RATE: 1e6 * said["requests"] / said["usecs"],
                   CPU: said["cpu_us"] / said["requests"],
                   SWITCHES: said["switches"] / said["requests"]}, proof)


TABLES = ((RATE, "rate", "rate", "1/s"),
          (CPU, "cpu", "CPU time of the server", "us per message"),
          (SWITCHES, "switches", "context switches of the server",
           "per message"))


def echo_results(programs: Programs) -> list[Row | Table]:
    rows: list[Row | Table] = []
    all_series: dict[str, dict[str, Series]] = {}
    for talk in TALKS:
        series = alternate(
            {name: lambda name=name, talk=talk: measure(programs, talk, name)
             for name in VARIANTS},
            programs.rounds, KERNEL, programs.progress, f"echo: {talk.column}")
        all_series[talk.column] = series
        rows += [row_of(series, UAIO, peer, RATE, name="echo", unit="1/s",
                        title=talk.column, goal=goal,
                        control=control_of(series, KERNEL, RATE))
                 for peer, goal in GOALS.items()]
    tables = []
    for figure, word, what, unit in TABLES:
        table = Table(f"echo.{word}", f"An echo server: {what}", unit,
                      "connections", [talk.column for talk in TALKS])
        for variant in VARIANTS:
            table.add(variant, [all_series[talk.column].get(variant, Series())
                                for talk in TALKS], [figure])
        tables.append(table)
    return [*tables, *rows]
