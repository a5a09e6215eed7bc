# SPDX-License-Identifier: MIT
"""What uaio replaces, where it has the least to win: kernel AIO on file systems
that know no RWF_NOWAIT, on small files, on devices, fast and slow, and for POLL; and
as many plain threads that make the same calls.

replaces.c is an ordinary program of libaio, run on the kernel and under `uaio
run`; with -p it makes the calls without AIO, by a thread for each request, or has
an epoll in the place of POLL.
"""
from __future__ import annotations

import json
import math
import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import fio
from harness import Sample, Series, VariantFailed, alternate
from machine import file_system_of
from programs import Programs
from proof import Check, prove
from rows import Goal, Row, Table, control_of, row_of

RATE, CPU, SWITCHES = "request", "CPU", "switches"
MS, QUICK_MS = 300, 50
KERNEL, UAIO = "kernel", "uaio"
THREADS, EPOLL = "threads", "epoll"
"""What the program does without AIO."""
AT_LEAST = Goal(0.9)
"""Of the kernel's rate, where there is nothing to win."""

OVERLAY, CACHED_FUSE, SLOW, DEVICE, DISK = "overlay", "fuse", "slow", "disk", ""
NO_FILE, SOCKETS = "none", "sockets"
DESCRIPTORS = 2 * 5000 + 64
"""Those of replaces.c on so many sockets."""


@dataclass(frozen=True)
class Work:
    """A load, and the kind of file it works on."""

    group: str
    """The table it is in."""
    column: str
    """And where in it."""
    work: str
    """replaces.c's name for it."""
    options: tuple[str, ...]
    place: str = DISK
    goal: Goal | None = AT_LEAST
    plain: str = THREADS
    """The peer without AIO."""
    processes: int = 1
    """With a context each."""

    @property
    def title(self) -> str:
        return f"{GROUPS[self.group]}: {self.column}"

    def variants(self) -> list[str]:
        return [KERNEL, UAIO, self.plain]

    def contexts(self) -> int:
        said = [option[2:] for option in self.options if option[:2] == "-t"]
        return self.processes * (int(said[0]) if said else 1)


GROUPS = {
    "overlay": "overlayfs, in the page cache",
    "fuse": "FUSE, in the page cache",
    "files": "1 KiB files opened, read, closed",
    "direct": "O_DIRECT, depth 32",
    "many": "64 threads with a context each",
    "slow": "O_DIRECT, 5 ms a call",
    "poll": "POLL",
}
"""The tables, and their titles."""
HOT = ("-b4096", "-d32", "-s16384")
HOT_ONE = ("-b1024", "-s16384")
DIRECT = ("-b4096", "-d32", "-s65536", "-D")
HOLES = ("-b4096", "-d32", "-s1048576", "-D", "-S")
"""So large that next to none is written a second time."""
MANY = ("-b4096", "-t64")
DEEP = ("-b4096", "-d128", "-s16384", "-D")
DEEPER = ("-b4096", "-d256", "-s16384", "-D")
SLOW_US = 5000

WORKS = (
    Work("overlay", "1 KiB reads", "read", HOT_ONE, OVERLAY),
    Work("overlay", "4 KiB reads, depth 32", "read", HOT, OVERLAY),
    Work("overlay", "4 KiB writes, depth 32", "write", HOT, OVERLAY),
    Work("fuse", "1 KiB reads", "read", HOT_ONE, CACHED_FUSE),
    Work("fuse", "4 KiB reads, depth 32", "read", HOT, CACHED_FUSE),
    Work("files", "ext4, or what is there", "files", ("-b1024",)),
    Work("files", "overlayfs", "files", ("-b1024",), OVERLAY),
    Work("direct", "reads", "read", DIRECT, DEVICE),
    Work("direct", "writes", "write", DIRECT, DEVICE),
    Work("direct", "writes into holes", "write", HOLES, DEVICE),
    Work("many", "O_DIRECT reads", "read", (*MANY, "-s65536", "-D"), DEVICE),
    Work("many", "cold reads", "read", (*MANY, "-s131072", "-C"), DEVICE),
    Work("slow", "reads, depth 128", "read", DEEP, SLOW),
    Work("slow", "reads, depth 256", "read", DEEPER, SLOW),
    Work("slow", "writes, depth 128", "write", DEEP, SLOW),
    Work("slow", "writes, depth 256", "write", DEEPER, SLOW),
    Work("poll", "ping-pong, by own epoll", "ping-pong", (), NO_FILE,
         processes=2),
    Work("poll", "100 of 5000 sockets", "sockets", (), SOCKETS, plain=EPOLL),
)


# --- where it is done -------------------------------------------------------

ON_OVERLAY = ('cd "$0" && mkdir -p lower upper work merged && mount -t overlay '
              'overlay -o lowerdir=lower,upperdir=upper,workdir=work merged '
              '&& exec "$@"')
"""In a mount namespace of its own, which is gone with the last process in it."""


@dataclass(frozen=True)
class Place:
    """A directory, and the command prefix under which programs find that directory."""

    folder: Path
    prefix: tuple[str, ...] = ()
    file_system: str = ""


def may_have_descriptors() -> float:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return math.inf if most == resource.RLIM_INFINITY else most


def place_of(programs: Programs, name: str) -> Place:
    """Return: where the work is done. Raises VariantFailed if root, a disk or more
    descriptors are needed and missing."""
    if name in (NO_FILE, SOCKETS):
        if name == SOCKETS and os.geteuid() != 0 \
                and may_have_descriptors() < DESCRIPTORS:
            raise VariantFailed(f"{DESCRIPTORS} descriptors: ulimit -Hn is less")
        return Place(programs.disk_dir)
    if name in (DISK, DEVICE):
        file_system = file_system_of(programs.disk_dir)
        if name == DEVICE and file_system == "tmpfs":
            raise VariantFailed(f"no disk under {programs.disk_dir.parent}: "
                                "--dir")
        return Place(programs.disk_dir, (), file_system)
    if os.geteuid() != 0:
        raise VariantFailed(f"{name}: only root can mount it")
    folder = programs.disk_dir / name
    folder.mkdir(exist_ok=True)
    if name == OVERLAY:
        return Place(folder / "merged", ("unshare", "--mount", "sh", "-c",
                                         ON_OVERLAY, str(folder)), OVERLAY)
    times = (f"{SLOW_US}:async", str(SLOW_US)) if name == SLOW \
        else ("0:cached", "0")
    return Place(folder, (str(programs.places.helpers / "with-slowfs"),
                          *times, str(folder)), "fuse")


# --- what the counters must say ---------------------------------------------

COUNTED = ("requests", "counted", "rings_of_kernel_aio")


def counted_of(processes: Sequence[dict]) -> dict | None:
    """The sum of the library's counters over all processes; empty if no process had the
    library."""
    if not processes:
        return None
    return {"processes": len(processes),
            "requests": sum(each["requests"] for each in processes)}


def proof_of(variant: str, work: Work, said: dict) -> str:
    """What the counters prove of a run. Raises Disproved if they deny it."""
    rings, counted = said["rings_of_kernel_aio"], said["counted"]
    # The library may have rings of kernel AIO, which it uses for direct requests.
    if variant == UAIO:
        checks = [Check("the library was there", bool(counted)),
                  Check(f"in {work.processes} processes", bool(counted)
                        and counted["processes"] == work.processes),
                  Check(f"{said['requests']} requests", bool(counted)
                        and counted["requests"] == said["requests"])]
    else:
        wanted = work.contexts() if variant == KERNEL else 0
        checks = [Check("no library", not counted),
                  Check(f"{wanted} rings of the kernel", rings == wanted)]
    return prove(checks, variant, said, COUNTED)


# --- measuring --------------------------------------------------------------


def measure(programs: Programs, work: Work, variant: str) -> Sample:
    """One timed run."""
    place = place_of(programs, work.place)
    counters = programs.disk_dir / "counters"
    counters.unlink(missing_ok=True)
    said = json.loads(programs.output(
        "replaces",
        [work.work, str(place.folder / f"replaces-{work.work}"),
         *work.options, f"-m{QUICK_MS if programs.is_quick else MS}",
         *(["-p"] if variant == work.plain else [])],
        [*place.prefix, "env", f"UAIO_COUNTERS={counters}",
         *(programs.uaio_run() if variant == UAIO else [])]))
    said["counted"] = counted_of(fio.said_of(counters, "replaces"))
    requests = max(said["requests"], 1)
    return Sample({RATE: 1e6 * said["requests"] / said["usecs"],
                   CPU: said["cpu_us"] / requests,
                   SWITCHES: said["switches"] / requests},
                  proof_of(variant, work, said))


def _series(programs: Programs, work: Work) -> dict[str, Series]:
    return alternate(
        {name: lambda name=name: measure(programs, work, name)
         for name in work.variants()},
        programs.rounds, KERNEL, programs.progress, f"replaces: {work.title}")


def row_for(work: Work, series: dict[str, Series], file_system: str) -> Row:
    row = row_of(series, UAIO, KERNEL, RATE, name="replaces", title=work.title,
                 unit="1/s", goal=work.goal, file_system=file_system)
    row.control = control_of(series, KERNEL, RATE)
    return row


TABLES = ((RATE, "rate", "1/s"), (CPU, "CPU time", "us per request"),
          (SWITCHES, "context switches", "per request"))


def tables_for(group: str, works: Sequence[Work],
               all_series: dict[str, dict[str, Series]]) -> list[Table]:
    """Rate, CPU time and context switches of every variant, side by side."""
    here = [work for work in works
            if work.group == group and work.title in all_series]
    tables = []
    for figure, what, unit in TABLES if here else ():
        table = Table(f"replaces.{group}_{figure.lower()}",
                      f"{GROUPS[group]}: {what}", unit, "work",
                      [work.column for work in here])
        for name in dict.fromkeys(name for work in here
                                  for name in work.variants()):
            table.add(name, [all_series[work.title].get(name, Series())
                             for work in here], [figure])
        tables.append(table)
    return tables


def replaces_results(programs: Programs) -> list[Row | Table]:
    rows: list[Row | Table] = []
    all_series: dict[str, dict[str, Series]] = {}
    for work in WORKS:
        try:
            file_system = place_of(programs, work.place).file_system
        except VariantFailed as why:
            rows.append(Row(name="replaces", title=work.title, figure=RATE,
                            unit="1/s", peer=KERNEL, note=str(why)))
            continue
        all_series[work.title] = _series(programs, work)
        rows.append(row_for(work, all_series[work.title], file_system))
    return [*(table for group in GROUPS
              for table in tables_for(group, WORKS, all_series)), *rows]
