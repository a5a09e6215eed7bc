# SPDX-License-Identifier: MIT
"""fio as a measure: the jobs, the variants it runs on, and their proofs.

All variants run the same, unmodified fio with the same options.

    kernel    ioengine=libaio on the system's libaio
    uaio      the same under `uaio run`
    counted   the same with --stats-json
    floor     fio with libfloor.so preloaded (floor.c)
    io_uring  ioengine=io_uring
    posixaio  ioengine=posixaio, glibc's threads
    psync     ioengine=psync, no asynchronous I/O at all

What each proves: for the kernel and io_uring, that their ring was seen in the
memory maps of fio while it ran; for posixaio and psync, that neither was, and
that fio submitted, or did not; for uaio and the floor, that the library itself
counted at least as many requests as fio did I/Os. A library that counted fewer
disproves its variant, and so does fio where it says that it ran another engine.
"""
from __future__ import annotations

import json
import os
import re
import struct
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness import (Disproved, Finished, Sample, Series, VariantFailed, paired,
                     run)
from machine import Places, file_system_of
from rows import Goal, Row, control_of, row_of

RATE, CPU, SWITCHES = "I/O", "CPU per I/O", "context switches per I/O"
IN_SUBMIT = "time in submit per I/O"
LOST = "records lost per I/O"
SUBMISSION, COMPLETION, BOTH = "submission", "completion", "both together"
"""Figures; of the last three each per cent is one."""
PERCENTILES = {"slat": SUBMISSION, "clat": COMPLETION, "lat": BOTH}
"""As fio calls them."""

PER_CENTS = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.5, 99.9)
"""No more than 20: fio takes no more."""
LATENCIES = (*(f"--{name}_percentiles=1" for name in PERCENTILES),
             "--percentile_list=" + ":".join(map(str, PER_CENTS)),
             "--unified_rw_reporting=mixed")

FLOOR_LINE_BYTES = 64
"""floor.c counts the requests of each context in a line of its own."""

COLD_SHARE = 0.95
HOT_SHARE = 0.01
"""How much of what was read must have come from the device, or may have."""

HOT_TRIES = 5
"""The kernel may take pages back at any time; a run that met that is repeated."""


@dataclass(frozen=True)
class Job:
    """One piece of work. `file` names the file to work on. Jobs with the same name share
    the file, which is written before anything is timed."""

    name: str
    title: str
    file: str
    options: tuple[str, ...]
    size: str
    jobs: int = 1
    loops: int = 0
    """A fixed amount of work, measured by wall time; 0: time-based."""
    cold: bool = False
    """One pass over a file that is not in the page cache, or what of it there
    is time for."""
    direct: bool = False
    on_tmpfs: bool = False
    goals: dict[str, Goal | None] = field(default_factory=dict)
    """The peers compared with, and what is promised against each."""
    more: tuple[tuple[str, str, str, Goal | None], ...] = ()
    """Further rows: figure, unit, peer, goal."""
    counting: Goal | None = None
    """What is promised of uaio with statistics against uaio without."""

    def is_hot(self) -> bool:
        """Whether the job's files must be in the page cache, and could be evicted."""
        return not (self.cold or self.direct or self.on_tmpfs)

    def writes(self) -> bool:
        return any(option in ("rw=randrw", "rw=randwrite")
                   for option in self.options)


    def loops_of(self, engine: str) -> int:
        """Return: how many passes of the fixed work an engine makes."""
        return max(1, self.loops // SLOW_ENGINES.get(engine, 1)) \
            if self.loops else 0


SLOW_ENGINES = {"posixaio": 20, "io_uring": 8}
"""With 512 threads they would take minutes over all of it: they make a part."""

FLOOR_GOAL = Goal(0.92)
NATIVE_GOAL = Goal(0.97)
THREADS_GOAL = Goal(0.95)
OWN_THREADS = "uaio, backend threads"
"""uaio that leaves no direct I/O to the kernel's AIO."""
OWN_URING = "uaio, backend io_uring"
"""uaio that leaves all of it, and cold reads, to the kernel's io_uring."""

THREADS = "32 threads"
"""Of plain pread or pwrite, one file for all: what can be had without the kernel's
help."""
DIRECT_GOALS = {"kernel": NATIVE_GOAL, "io_uring": NATIVE_GOAL, THREADS: None}
BATCHES_OF_16 = ("iodepth=32", "iodepth_batch_submit=16",
                 "iodepth_batch_complete_min=16")
CPU_PER_IO = ((CPU, "us", "kernel", None), (CPU, "us", "floor", None))

MANY_JOBS = ("rw=randrw", "bs=1k", "iodepth=1", "thread", "group_reporting")

JOBS = [
    Job("many-tmpfs", "512 jobs, 1 KiB random rw, tmpfs", "many", MANY_JOBS, "256k",
        jobs=512, loops=30, on_tmpfs=True,
        goals={"kernel": Goal(1.7), "floor": FLOOR_GOAL}, more=CPU_PER_IO),
    Job("many-disk", "512 jobs, 1 KiB random rw, disk", "many",
        (*MANY_JOBS, "invalidate=0"), "256k", jobs=512, loops=20,
        goals={"kernel": None, "floor": FLOOR_GOAL}, more=CPU_PER_IO),
    Job("hot-read", "1 KiB hot read, depth 1", "hot",
        ("rw=randread", "bs=1k", "iodepth=1", "invalidate=0"), "100m",
        goals={"kernel": None, "io_uring": Goal(1.25), "floor": FLOOR_GOAL},
        counting=Goal(0.98)),
    Job("hot-write", "1 KiB hot write, depth 1", "hot",
        ("rw=randwrite", "bs=1k", "iodepth=1", "invalidate=0"), "100m",
        goals={"kernel": Goal(1.2), "io_uring": None, "floor": FLOOR_GOAL}),
    Job("hot-read-32", "1 KiB hot read, depth 32", "hot",
        ("rw=randread", "bs=1k", *BATCHES_OF_16, "invalidate=0"), "100m",
        goals={"kernel": Goal(1.05), "io_uring": None, "floor": FLOOR_GOAL}),
    Job("cold-read-32", "4 KiB cold read, depth 32", "cold",
        ("rw=randread", "bs=4k", "iodepth=32"), "512m", cold=True,
        goals={"kernel": Goal(3.5), "io_uring": Goal(1.0)},
        more=((IN_SUBMIT, "us", "kernel",
               Goal(8, at_least=False, of="subject")),
              (SWITCHES, "number", "kernel",
               Goal(0.1, at_least=False, of="subject")))),
    Job("direct-read-32", "4 KiB O_DIRECT read, depth 32", "cold",
        ("rw=randread", "bs=4k", *BATCHES_OF_16), "512m", direct=True,
        goals=DIRECT_GOALS),
    Job("direct-write-32", "4 KiB O_DIRECT write, depth 32", "cold",
        ("rw=randwrite", "bs=4k", "iodepth=32"), "512m", direct=True,
        goals=DIRECT_GOALS),
]


def job_named(name: str) -> Job:
    return next(job for job in JOBS if job.name == name)


@dataclass(frozen=True)
class Bench:
    """Where the programs and the files are, and how long a run may be."""

    places: Places
    disk_dir: Path
    tmpfs_dir: Path
    runtime_s: float = 3.0

    def dir_of(self, job: Job) -> Path:
        return self.tmpfs_dir if job.on_tmpfs else self.disk_dir


# --- fio's command line -----------------------------------------------------


def _layout_options(bench: Bench, job: Job) -> list[str]:
    return [f"--name={job.file}", f"--directory={bench.dir_of(job)}",
            f"--size={job.size}", f"--numjobs={job.jobs}"]


def lay_out(bench: Bench, job: Job) -> None:
    """Write the files of a job completely, so that no run has to extend them."""
    done = run(["fio", *_layout_options(bench, job), "--ioengine=psync",
                "--rw=read", "--bs=64k", "--create_only=1", "--invalidate=0",
                "--thread"])
    if done.status:
        raise VariantFailed(f"fio cannot lay out its files: {done.complaint()}")
    os.sync()
    if job.is_hot():
        _warm(bench, job)


def _warm(bench: Bench, job: Job) -> None:
    """Read the job's files into the page cache."""
    for file in bench.dir_of(job).glob(f"{job.file}.*"):
        file.read_bytes()


COLD_MOST_S = 3


def job_options(bench: Bench, job: Job) -> list[str]:
    options = [*_layout_options(bench, job),
               *(f"--{option}" for option in job.options)]
    if job.direct:
        options.append("--direct=1")
    if job.cold:
        options.append(f"--runtime={COLD_MOST_S}")
    elif job.loops:
        options.append(f"--loops={job.loops}")
    else:
        # fio takes no fraction of a second.
        options += ["--time_based",
                    f"--runtime={bench.runtime_s * 1000:.0f}ms"]
    return options


# --- variants and their proofs ----------------------------------------------


@dataclass(frozen=True)
class Variant:
    engine: str = "libaio"
    prefix: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    marker: str | None = None
    """What its ring is called in /proc/PID/maps."""
    counter: str | None = None
    """The library that counts what it served."""
    no_markers: frozenset[str] = frozenset()
    """Rings that must not be there."""
    needs: Path | None = None
    """A library without which it would be another variant."""
    options: tuple[str, ...] = ()
    """Of fio, instead of the job's."""

    def submits(self) -> bool:
        """Whether fio counts submissions. Without, each I/O is one call."""
        return self.engine != "psync"


KERNEL_MARKER = "/[aio]"
URING_MARKER = "[io_uring]"


def variants(bench: Bench, is_direct: bool = False) -> dict[str, Variant]:
    """The variants. is_direct: small requests that the kernel's AIO executes for uaio."""
    report = str(bench.disk_dir / "counters")
    floor = bench.places.helpers / "libfloor.so"
    uaio = Variant(prefix=(str(bench.places.uaio), "run", "--"),
                   env=(("UAIO_COUNTERS", report),), counter="uaio")
    stats = ("UAIO_STATS_JSON", str(bench.disk_dir / "stats"))
    return {
        "kernel": Variant(marker=KERNEL_MARKER),
        "uaio": replace(uaio, marker=KERNEL_MARKER if is_direct else None),
        "uaio, io_uring": replace(uaio, engine="io_uring"),
        "uaio, posixaio": replace(uaio, engine="posixaio"),
        OWN_THREADS: replace(
            uaio, prefix=(*uaio.prefix[:-1], "--backend=threads", "--")),
        OWN_URING: replace(
            uaio, prefix=(*uaio.prefix[:-1], "--backend=io_uring", "--"),
            marker=URING_MARKER),
        "counted": replace(uaio, env=(*uaio.env, stats)),
        "floor": Variant(env=(("LD_PRELOAD", str(floor)),
                              ("FLOOR_REPORT", report)),
                         counter="floor", needs=floor),
        "io_uring": Variant(engine="io_uring", marker=URING_MARKER),
        **{engine: Variant(engine=engine, no_markers=frozenset(
            (KERNEL_MARKER, URING_MARKER)))
           for engine in ("posixaio", "psync")},
        THREADS: Variant(engine="psync", options=(
            "--iodepth=1", "--numjobs=32", "--thread", "--group_reporting",
            "--filename=cold.0.0"),
            no_markers=frozenset((KERNEL_MARKER, URING_MARKER))),
    }


def said_of(report: Path, program: str) -> list[dict]:
    """Return: what the library reported of each process of a program. All processes
    append a line to one file."""
    try:
        lines = report.read_text().splitlines()
    except FileNotFoundError:
        return []
    return [said for said in map(json.loads, lines) if said["comm"] == program]


def said_of_fio(report: Path) -> list[dict]:
    return said_of(report, "fio")


def _uaio_count(report: Path) -> tuple[int, str] | None:
    """What the library counted in all processes called fio."""
    total: dict[str, int] = {}
    for counted in said_of_fio(report):
        del counted["comm"], counted["pid"]
        for name, count in counted.items():
            total[name] = total.get(name, 0) + count
    if not total:
        return None
    text = ", ".join(f"{count} {name}" for name, count in total.items())
    return total["requests"], f"libuaio counted {text}"


def _floor_count(report: Path) -> tuple[int, str] | None:
    try:
        data = report.read_bytes()
    except FileNotFoundError:
        return None
    served = sum(struct.unpack_from("Q", data, at)[0]
                 for at in range(FLOOR_LINE_BYTES, len(data), FLOOR_LINE_BYTES))
    return served, f"libfloor counted {served} requests"


def prove(variant: Variant, done: Finished, report: Path,
          ios: int) -> str | None:
    """Return: the proof, or None if there is none."""
    if variant.no_markers:
        if done.mapped:
            raise Disproved(f"mapped: {' '.join(sorted(done.mapped))}")
        return "no ring mapped"
    if variant.marker and variant.marker not in done.mapped:
        return None
    if variant.marker and not variant.counter:
        return f"{variant.marker} mapped"
    count = _uaio_count if variant.counter == "uaio" else _floor_count
    counted = count(report)
    if counted is None:
        return None
    if counted[0] < ios:
        raise Disproved(f"{variant.counter}: fio did {ios} I/Os, {counted[1]}")
    return counted[1]


# --- one run ----------------------------------------------------------------


INSTALL = (
    (r"libaio\.so\S*: cannot open", "apt-get install libaio1"),
    (r"[Ee]ngine \S+ not loadable|not find engine|failed to load engine",
     "this fio was built without it; apt-get install fio for one that has it"),
)
"""What fio says where a package would help."""


def _why(done: Finished, output: str, jobs: list[dict]) -> str:
    """Return: why fio failed, in a few words."""
    said = output + done.err + done.out
    for pattern, advice in INSTALL:
        if found := re.search(f".*(?:{pattern}).*", said):
            return f"{found[0].strip()} ({advice})"
    found = re.search(r"func=(\S+?), error=(.*)", said)
    if found:
        return f"{found[1]}: {found[2].strip()}"
    for job in jobs:
        if job["error"]:
            return f"fio: {os.strerror(job['error'])}"
    return f"fio: {done.complaint()}"


SIDES = ("read", "write", "mixed")


@dataclass
class FioResult:
    """A run of fio that did all of its work without an error."""

    done: Finished
    ios: int
    iops: float
    bytes: int
    engines: set[str]
    """What fio says it ran."""
    latencies: dict[str, dict]
    """What fio says of each of PERCENTILES, if reads and writes are as one."""

    def submitted(self) -> int:
        """Return: how many times fio submitted; an engine may count no submissions."""
        return self.latencies.get("slat", {}).get("N", 0)

    def figures(self) -> dict[str, float]:
        """Latencies in microseconds. Figures that fio does not report are left out."""
        known = {}
        for name, figure in PERCENTILES.items():
            said = self.latencies.get(name, {})
            if said.get("N"):
                known |= {f"{figure} {float(per_cent):g}": ns / 1000 for
                          per_cent, ns in said.get("percentile", {}).items()}
        if self.submitted():
            known[IN_SUBMIT] = self.latencies["slat"]["mean"] / 1000
        return known


def run_fio(options: list[str], scratch: Path, variant: Variant = Variant(),
            wrap: tuple[str, ...] = ()) -> FioResult:
    """Run fio to its end. `wrap` is a command that runs what follows it."""
    output = scratch / "fio.json"
    output.unlink(missing_ok=True)
    done = run([*wrap, *variant.prefix, "fio", f"--ioengine={variant.engine}",
                *options, "--output-format=json", f"--output={output}"],
               env=dict(variant.env), cwd=scratch,
               markers=frozenset({variant.marker} - {None})
               | variant.no_markers)
    text = output.read_text() if output.exists() else ""
    jobs: list[dict] = []
    try:
        jobs = json.loads(text[text.index("{"):text.rindex("}") + 1])["jobs"]
    except (ValueError, KeyError):
        raise VariantFailed(_why(done, text, jobs)) from None
    if done.status or any(job["error"] for job in jobs):
        raise VariantFailed(_why(done, text, jobs))
    return _result_of(done, jobs)


def _result_of(done: Finished, jobs: list[dict]) -> FioResult:
    sides = [job[side] for job in jobs for side in SIDES if side in job]
    ios = sum(side["total_ios"] for side in sides)
    if not ios:
        raise VariantFailed("fio did no I/O")
    together = jobs[0].get("mixed", {}) if len(jobs) == 1 else {}
    return FioResult(
        done=done, ios=ios,
        iops=sum(side["iops"] for side in sides),
        bytes=sum(side["io_bytes"] for side in sides),
        engines={job.get("job options", {}).get("ioengine") for job in jobs}
                - {None},
        latencies={name: together[f"{name}_ns"] for name in PERCENTILES
                   if f"{name}_ns" in together})


def prove_engine(variant: Variant, result: FioResult) -> None:
    """Raise Disproved if fio itself reports another engine."""
    if result.engines - {variant.engine}:
        raise Disproved(f"not {variant.engine}, but fio ran "
                        + " ".join(sorted(result.engines)))
    if result.latencies and bool(result.submitted()) != variant.submits():
        raise Disproved(f"{variant.engine}: {result.ios} I/Os, "
                        f"{result.submitted()} submissions")


def _has_left_the_cache(job: Job, result: FioResult) -> bool:
    return job.is_hot() and result.done.bytes_read > HOT_SHARE * result.bytes


def _lost(done: Finished) -> int:
    """Return: how many records of a trace were lost."""
    said = re.search(r"^uaio: trace: (\d+) records were lost", done.err, re.M)
    return int(said[1]) if said else 0


def measure(bench: Bench, job: Job, variant: Variant) -> Sample:
    """One timed run of a job on a variant."""
    if variant.needs and not variant.needs.exists():
        raise VariantFailed(f"{variant.needs} is not there: it was not built, "
                            "or is not installed")
    report = bench.disk_dir / "counters"
    job = replace(job, loops=job.loops_of(variant.engine))
    for _ in range(HOT_TRIES):
        report.unlink(missing_ok=True)
        if job.writes():
            # Write back dirty pages of the previous run, so that this run does not pay for them.
            os.sync()
        result = run_fio([*job_options(bench, job), *LATENCIES,
                          *variant.options], bench.disk_dir, variant)
        if not _has_left_the_cache(job, result):
            break
        _warm(bench, job)
    done, ios = result.done, result.ios
    prove_engine(variant, result)
    proof = prove(variant, done, report, ios)
    if job.cold and done.bytes_read < COLD_SHARE * result.bytes:
        proof = None
    if _has_left_the_cache(job, result):
        raise VariantFailed("the files did not stay in the page cache")
    return Sample({
        RATE: ios / done.wall_s if job.loops else result.iops,
        CPU: done.cpu_s / ios * 1e6,
        SWITCHES: done.switches / ios,
        LOST: _lost(done) / ios,
        **result.figures(),
    }, proof)


def peers_of(job: Job) -> list[str]:
    """The peers in the order of a round; the control is last."""
    return ["kernel", "uaio", *([OWN_THREADS] if job.direct else []),
            *([OWN_URING] if job.direct or job.cold else []),
            *(["counted"] if job.counting else []),
            *(peer for peer in job.goals if peer != "kernel"),
            *sorted(seldom_of(job))]


def seldom_of(job: Job) -> frozenset[str]:
    """Peers that appear only in tables."""
    return frozenset(("io_uring", "posixaio", "psync")) - set(job.goals)


def rows_of(bench: Bench, job: Job, series: dict[str, Series]) -> list[Row]:
    """Rows that compare the throughput, all with the control of the same run."""
    about = {"name": job.name, "control": control_of(series, "kernel", RATE),
             "file_system": file_system_of(bench.dir_of(job))}
    rows = [row_of(series, "uaio", peer, RATE, title=job.title, unit="I/O/s",
                   goal=goal, **about)
            for peer, goal in job.goals.items()]
    rows += [row_of(series, "uaio", peer, figure, title=figure, unit=unit,
                    goal=goal, **about)
             for figure, unit, peer, goal in job.more]
    if job.direct:
        rows.append(row_of(series, OWN_THREADS, THREADS, RATE,
                           title="the same by uaio's threads", unit="I/O/s",
                           goal=THREADS_GOAL, **about))
    if job.direct or job.cold:
        rows.append(row_of(series, OWN_URING, "io_uring", RATE,
                           title="the same by io_uring behind uaio",
                           unit="I/O/s", goal=None, **about))
    if job.counting:
        rows.append(row_of(series, "counted", "uaio", RATE,
                           title="the same with statistics", unit="I/O/s",
                           goal=job.counting, **about))
    for row in rows:
        row.cpu_s_per_io = _cpu_s_per_io(series, row.subject, row.peer)
    return rows


def _cpu_s_per_io(series: dict[str, Series], *names: str
                  ) -> dict[str, list[float]]:
    """Return: CPU seconds per I/O, from the rounds that the values of a row come from."""
    ours, theirs = (series[name] for name in names)
    values = {name: series[name].values(CPU) for name in names
              if not series[name].failure}
    if len(values) == len(names):
        values = dict(zip(names, paired(ours, theirs, CPU), strict=True))
    return {name: [us / 1e6 for us in each] for name, each in values.items()}
