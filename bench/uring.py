# SPDX-License-Identifier: MIT
"""The row uring: io_uring, the kernel's and ours.

uring.c is an ordinary program of io_uring, run on the kernel and under `uaio run
--uring=always`; with -p it makes a plain system call for each request, which is the
least that a request can cost. Beside it: what idle programs that have a ring use of a
processor, and what it costs a program without a ring that the library stands in
front of the C library.
"""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import fio
from harness import (Disproved, Sample, Series, VariantFailed, alternate,
                     clean_environment, cleanup)
from machine import file_system_of
from programs import TMPFS, Programs
from proof import Check, prove
from rows import Goal, Row, Table, control_of, row_of

RATE, CPU = "request", "CPU"
MS, QUICK_MS = 300, 30
KERNEL, DEFERRED, SPINS = "io_uring", "io_uring+deferred", "io_uring, spinning"
UAIO, PLAIN = "uaio", "plain"
SINGLE, PRIVATE = "uaio, one list", "uaio, private lists"
FIXED, WORKERS = 3, 4
"""Fixed workers with lists of their own, and all; on one list as many without."""

HERE, DISK, MEMORY = "", "disk", "tmpfs"


@dataclass(frozen=True)
class Work:
    """A load: the operation, how many at a time, and the file."""

    column: str
    """Where in the table."""
    options: tuple[str, ...]
    goal: float
    """Of io_uring's rate."""
    place: str = HERE

    def is_polled(self) -> bool:
        return "-s" in self.options

    def variants(self) -> list[str]:
        if self.is_polled():
            return [KERNEL, SPINS, UAIO, PLAIN]
        return [KERNEL, DEFERRED, UAIO, PLAIN]


@dataclass(frozen=True)
class Workers(Work):
    """Requests executed by workers, with one list or private lists."""

    def variants(self) -> list[str]:
        return [KERNEL, SINGLE, PRIVATE]


WORKS = (
    Work("no-ops, depth 1", ("nop", "-d1"), 6),
    Work("no-ops, depth 32", ("nop", "-d32"), 4),
    Work("no-ops, depth 1, SQPOLL", ("nop", "-d1", "-s"), 5),
    Work("reads, disk, depth 1", ("read", "-d1"), 1.15, DISK),
    Work("reads, disk, depth 32", ("read", "-d32"), 0.95, DISK),
    Work("reads, tmpfs, depth 1", ("read", "-d1"), 4, MEMORY),
    Work("reads, tmpfs, depth 32", ("read", "-d32"), 2.5, MEMORY),
)
THROUGH_WORKERS = (
    Workers("depth 10", ("nop", "-d10", "-a", f"-w{WORKERS}"), 6),
    Workers("depth 128", ("nop", "-d128", "-a", f"-w{WORKERS}"), 6),
)
OPTIONS = {DEFERRED: ("-t",), SPINS: ("-b",), PLAIN: ("-p",)}
"""What the program is told of a variant."""
PREFIX = {UAIO: (), SINGLE: ("--fixed=0",), PRIVATE: (f"--fixed={FIXED}",)}
"""What `uaio run` is told."""


# --- what the counters must say ---------------------------------------------

COUNTED = ("all_requests", "counted", "rings", "pollers", "threads")


def proof_of(variant: str, work: Work, said: dict) -> str:
    """What the counters prove of a run. Raises Disproved if they deny it."""
    counted = said["counted"]
    is_ours = variant in PREFIX
    checks = [Check("the library was there" if is_ours else "no library",
                    bool(counted) == is_ours)]
    wanted = 0 if is_ours or variant == PLAIN else 1
    checks += [Check(f"{wanted} rings of the kernel", said["rings"] == wanted)]
    if is_ours and counted:
        checks += [Check(f"{said['all_requests']} requests",
                         counted["requests"] == said["all_requests"])]
    if work.is_polled():
        checks += [Check(f"{wanted} threads that poll",
                         said["pollers"] == wanted)]
        if is_ours:
            checks += [Check("no other thread", said["threads"] == 1)]
    if isinstance(work, Workers) and is_ours and counted:
        checks += [Check("all by workers",
                         counted["worker"] == counted["requests"]),
                   Check("threads", said["threads"] > 1)]
    return prove(checks, f"{work.column}: {variant}", said, COUNTED)


# --- measuring --------------------------------------------------------------


def folder_of(programs: Programs, work: Work) -> Path:
    """The directory of the work's file. Raises VariantFailed if there is none."""
    folder = programs.tmpfs_dir if work.place == MEMORY else programs.disk_dir
    is_tmpfs = file_system_of(folder) == "tmpfs"
    if work.place == MEMORY and not is_tmpfs:
        raise VariantFailed(f"no tmpfs on {TMPFS}")
    if work.place == DISK and is_tmpfs:
        raise VariantFailed(f"no disk under {folder.parent}: --dir")
    return folder


def _prefix(programs: Programs, options: Sequence[str] = ()) -> list[str]:
    return [str(programs.places.uaio), "run", "--uring=always", *options, "--"]


def measure(programs: Programs, work: Work, variant: str) -> Sample:
    """One timed run."""
    counters = programs.disk_dir / "counters"
    counters.unlink(missing_ok=True)
    file = [f"-f{folder_of(programs, work) / 'uring-read'}"] if work.place \
        else []
    said = json.loads(programs.output(
        "uring",
        [*work.options, *OPTIONS.get(variant, ()), *file,
         f"-m{QUICK_MS if programs.is_quick else MS}"],
        ["env", f"UAIO_COUNTERS={counters}",
         *(_prefix(programs, PREFIX[variant]) if variant in PREFIX else [])]))
    processes = fio.said_of(counters, "uring")
    said["counted"] = processes[0] if processes else None
    return Sample({RATE: 1e6 * said["requests"] / said["usecs"],
                   CPU: said["cpu_us"] / said["requests"]},
                  proof_of(variant, work, said))


def _series(programs: Programs, work: Work) -> dict[str, Series]:
    return alternate(
        {name: lambda name=name: measure(programs, work, name)
         for name in work.variants()},
        programs.rounds, KERNEL, programs.progress, f"uring: {work.column}")


def rows_for(work: Work, series: dict[str, Series],
             file_system: str) -> list[Row]:
    """Each variant of ours against io_uring."""
    goal = Goal(work.goal)
    about = {"name": "uring", "unit": "1/s", "file_system": file_system,
             "control": control_of(series, KERNEL, RATE)}
    if isinstance(work, Workers):
        rows = [row_of(series, name, KERNEL, RATE, goal=goal,
                       title=f"no-ops by workers, {work.column}: {name}",
                       **about) for name in (SINGLE, PRIVATE)]
        return [*rows, row_of(
            series, PRIVATE, SINGLE, RATE,
            title=f"no-ops by workers, {work.column}: lists", **about)]
    return [row_of(series, UAIO, KERNEL, RATE, title=work.column, goal=goal,
                   **about)]


TABLES = ((RATE, "rate", "rate", "1/s"),
          (CPU, "cpu", "CPU time", "us per request"))


def tables_for(name: str, title: str, across: str, works: Sequence[Work],
               all_series: dict[str, dict[str, Series]]) -> list[Table]:
    """Rate and CPU time of every variant."""
    here = [work for work in works if work.column in all_series]
    tables = []
    for figure, word, what, unit in TABLES if here else ():
        table = Table(f"uring.{name}{word}", f"{title}: {what}", unit, across,
                      [work.column for work in here])
        for variant in dict.fromkeys(variant for work in here
                                     for variant in work.variants()):
            table.add(variant, [all_series[work.column].get(variant, Series())
                                for work in here], [figure])
        tables.append(table)
    return tables


# --- idle programs ----------------------------------------------------------

IDLE_MS, QUICK_IDLE_MS = 1000, 200
IDLE_GOAL = Goal(1, at_least=False, of="subject")
READY_S = 60
"""So long a program may take to be ready."""
IDLE = "idle CPU"

NODE = """
const { readFile } = require("node:fs");
readFile(process.argv[1], (error) => {
  if (error) throw error;
  process.stdout.write("ready\\n");
  process.stdin.resume();
});
"""


@dataclass(frozen=True)
class Idle:
    """A program that has used its ring and now waits."""

    title: str
    program: str
    arguments: Callable[[Path], list[str]]
    """With a file to use."""
    env: tuple[tuple[str, str], ...] = ()


IDLES = (
    Idle("Node", "node", lambda file: ["-e", NODE, str(file)],
         (("UV_USE_IO_URING", "1"),)),
    Idle("QEMU", "qemu-system-x86_64", lambda file: [
        "-machine", "pc", "-accel", "tcg", "-nodefaults", "-display", "none",
        "-S", "-qmp", "stdio", "-object", "iothread,id=thread", "-drive",
        f"if=none,id=disk,format=raw,file={file},aio=io_uring", "-device",
        "virtio-blk-pci,drive=disk,iothread=thread"]),
)


@contextlib.contextmanager
def started(argv: Sequence[str], env: dict[str, str]) -> Iterator[int]:
    """Start a program, and wait until it has printed something. It is killed at the end."""
    with subprocess.Popen(
            argv, env=clean_environment(env), start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE) as child:
        cleanup.child = child.pid
        try:
            if not child.stdout.readline():
                said = child.stderr.read().decode(errors="replace").split("\n")
                raise VariantFailed(f"{argv[-1]}: {said[0]}")
            yield child.pid
        finally:
            child.kill()
            cleanup.child = None


def cpu_ns(pid: int) -> int:
    """The processor time of all threads of a process, including threads that have ended."""
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise VariantFailed(f"process {pid} is gone")
    return time.clock_gettime_ns(clock.value)


def rings_of(pid: int) -> dict[str, int]:
    """Return: how many of its descriptors are rings: of the kernel, and of uaio."""
    links = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(os.readlink(link))
    return {"rings": links.count("anon_inode:[io_uring]"),
            "ours": sum(link.startswith("/memfd:[io_uring]")
                        for link in links)}


def proof_of_idle(variant: str, said: dict) -> str:
    """Prove that the program has rings, and only the variant's."""
    one, other = ("ours", "rings") if variant == UAIO else ("rings", "ours")
    return prove([Check("has a ring", said[one] > 0),
                  Check("and none of the other's", said[other] == 0)],
                 variant, said, ("rings", "ours"))


def measure_idle(programs: Programs, idle: Idle, variant: str) -> Sample:
    program = shutil.which(idle.program)
    if not program:
        raise VariantFailed(f"{idle.program} is not installed")
    file = programs.disk_dir / "uring-idle"
    if not file.exists():
        file.write_bytes(bytes(1 << 20))
    wait_s = (QUICK_IDLE_MS if programs.is_quick else IDLE_MS) / 1000
    prefix = _prefix(programs) if variant == UAIO else []
    with started([*prefix, program, *idle.arguments(file)],
                 dict(idle.env)) as pid:
        # Wait until what it began has ended.
        time.sleep(wait_s)
        used, start = cpu_ns(pid), time.monotonic_ns()
        time.sleep(wait_s)
        used, took = cpu_ns(pid) - used, time.monotonic_ns() - start
        proof = proof_of_idle(variant, rings_of(pid))
    return Sample({IDLE: 100 * used / took}, proof)


def idle_row(programs: Programs, idle: Idle) -> Row:
    series = alternate(
        {name: lambda name=name: measure_idle(programs, idle, name)
         for name in (KERNEL, UAIO)},
        programs.rounds, None, programs.progress, f"uring: idle {idle.title}")
    return row_of(series, UAIO, KERNEL, IDLE, name="uring",
                  title=f"idle {idle.title}", unit="% of a CPU",
                  goal=IDLE_GOAL, is_timing=False)


# --- programs without a ring ------------------------------------------------

CALLS = ("epoll_wait", "poll", "mmap", "close")
CALLS_GOAL = Goal(10, at_least=False, of="subject")


def measure_calls(programs: Programs, is_loaded: bool) -> Sample:
    said = json.loads(programs.output(
        "calls", [], programs.uaio_run() if is_loaded else []))
    checks = [Check("the library was there" if is_loaded else "no library",
                    (said["libraries"] > 0) == is_loaded)]
    return Sample({name: said[name]["beyond"] for name in CALLS},
                  prove(checks, "calls", said, ("libraries",)))


def calls_rows(programs: Programs) -> list[Row]:
    """How much longer each call takes if the library is loaded."""
    series = alternate(
        {PLAIN: lambda: measure_calls(programs, False),
         UAIO: lambda: measure_calls(programs, True)},
        programs.rounds, None, programs.progress, "uring: calls without a ring")
    rows = []
    for name in CALLS:
        row = row_of(series, UAIO, PLAIN, name, name="uring", unit="ns",
                     title=f"added to {name} without a ring", goal=CALLS_GOAL)
        row.subject_values = [
            ours - plain for ours, plain
            in zip(row.subject_values, row.peer_values, strict=True)]
        row.figure, row.peer, row.peer_values = "added", "", []
        row.is_timing = False
        rows.append(row)
    return rows


# --- all of it --------------------------------------------------------------


def uring_results(programs: Programs) -> list[Row | Table]:
    rows: list[Row | Table] = []
    all_series: dict[str, dict[str, Series]] = {}
    for work in (*WORKS, *THROUGH_WORKERS):
        try:
            file_system = file_system_of(folder_of(programs, work)) \
                if work.place else ""
        except VariantFailed as why:
            rows.append(Row(name="uring", title=work.column, figure=RATE,
                            unit="1/s", peer=KERNEL, note=str(why)))
            continue
        all_series[work.column] = _series(programs, work)
        rows += rows_for(work, all_series[work.column], file_system)
    rows += [idle_row(programs, idle) for idle in IDLES]
    rows += calls_rows(programs)
    return [*tables_for("", "io_uring", "work", WORKS, all_series),
            *tables_for("workers_", "No-ops by workers", "at a time",
                        THROUGH_WORKERS, all_series), *rows]
