# SPDX-License-Identifier: MIT
"""Throughput against the number of threads that submit: with one context for all
or one each, of work that is done inline; and with few or many workers, of work
that is theirs.

scale.c is an ordinary program of libaio, run on the kernel and under `uaio run`.
"""
from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import fio
import scalerings
from harness import Sample, Series, alternate
from machine import file_system_of
from programs import Programs
from proof import Check, prove
from rows import Row, Table, row_of

HOT, DIRECT = "hot", "direct"
TITLES = {HOT: "1 KiB read on tmpfs, depth 1",
          DIRECT: "4 KiB O_DIRECT read, depth 8 a thread"}
DEPTHS = {HOT: 1, DIRECT: 8}
SIZES = {HOT: 1 << 20, DIRECT: 256 << 20}
QUICK_SIZE = 16 << 20
MS, QUICK_MS = 350, 50
WORKERS = (1, 4, 16)
RATE = "I/O"


@dataclass(frozen=True)
class Variant:
    """The kernel, or uaio with this many workers; 0: the default number."""

    is_ours: bool
    is_shared: bool = False
    """All threads have the same context."""
    workers: int = 0

    def contexts(self, threads: int) -> int:
        return 1 if self.is_shared else threads

    def prefix(self, uaio: Path) -> list[str]:
        if not self.is_ours:
            return []
        workers = [f"--workers={self.workers}",
                   "--backend=threads"] if self.workers else []
        return [str(uaio), "run", *workers, "--"]


ONE, EACH = "1 context", "a context each"
KERNEL = "kernel"
VARIANTS = {
    HOT: {f"{who}, {contexts}": Variant(who == "uaio", contexts == ONE)
          for contexts in (ONE, EACH) for who in (KERNEL, "uaio")},
    DIRECT: {KERNEL: Variant(False), **{
        f"uaio, {number} worker{'s' if number > 1 else ''}":
            Variant(True, workers=number) for number in WORKERS}},
}
PEERS = {
    HOT: {f"uaio, {contexts}": f"{KERNEL}, {contexts}"
          for contexts in (ONE, EACH)},
    DIRECT: {name: KERNEL for name in VARIANTS[DIRECT] if name != KERNEL},
}
"""Ours, and what each is compared with."""


def thread_counts(cpus: int) -> list[int]:
    """Return: 1, 2, 4 ..., the number of processors, and twice that number."""
    powers = [1 << power for power in range((2 * cpus).bit_length())]
    return sorted({*powers, cpus, 2 * cpus})


# --- what the counters must say ---------------------------------------------

COUNTED = ("requests", "counted", "rings_of_kernel_aio", "added_threads")


def _checks_of_work(variant: Variant, said: dict) -> list[Check]:
    """Checks, by the library's counters, of which threads did the work."""
    counted, all_of_them = said["counted"], said["requests"]
    checks = [Check(f"{all_of_them} requests",
                    counted["requests"] == all_of_them),
              Check(f"on {said['contexts']} contexts",
                    counted["contexts"] == said["contexts"])]
    if not variant.workers:
        return [*checks, Check(f"{counted['inline']} of them inline",
                               counted["inline"] >= 0.9 * all_of_them)]
    return [*checks, Check(f"{counted['worker']} of them by workers",
                           counted["worker"] >= 0.9 * all_of_them),
            _check_of_threads(variant, said["added_threads"])]


def _check_of_threads(variant: Variant, added: int) -> Check:
    """The check of the number of threads: one worker for each, and the fallback thread.
    Variants with fewer workers cannot have so many."""
    fewer = max((number for number in WORKERS if number < variant.workers),
                default=0)
    return Check(f"{added} threads more",
                 fewer + 1 < added <= variant.workers + 1)


def proof_of(name: str, said: dict) -> str:
    """What the counters prove of a run. Raises Disproved if they deny it."""
    variant = VARIANTS[said["work"]][name]
    rings, contexts = said["rings_of_kernel_aio"], said["contexts"]
    checks = [Check(f"{contexts} contexts of {said['threads']} threads",
                    contexts == variant.contexts(said["threads"]))]
    if variant.is_ours:
        checks += [Check("no ring of the kernel", rings == 0),
                   Check("the library was there", bool(said["counted"])),
                   *(_checks_of_work(variant, said) if said["counted"] else [])]
    else:
        checks += [Check("a ring of the kernel for each context",
                         rings == contexts),
                   Check("no library", not said["counted"])]
    return prove(checks, f"{said['threads']} threads", said, COUNTED)


# --- measuring --------------------------------------------------------------


def _lay_out(programs: Programs, work: str) -> Path:
    """The file that is read, written in full."""
    folder = programs.tmpfs_dir if work == HOT else programs.disk_dir
    path = folder / f"scale-{work}"
    size = SIZES[work]
    if programs.is_quick:
        size = min(size, QUICK_SIZE)
    programs.progress.show(f"scale: laying out {path.name}")
    some = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(size // len(some)):
            file.write(some)
        file.flush()
        os.fsync(file.fileno())
    return path


def _measure(programs: Programs, file: Path, work: str, name: str,
             threads: int) -> Sample:
    """One timed run."""
    variant = VARIANTS[work][name]
    counters = programs.disk_dir / "counters"
    counters.unlink(missing_ok=True)
    contexts = variant.contexts(threads)
    said = json.loads(programs.output(
        "scale", [str(file), work, threads, contexts, DEPTHS[work],
                  QUICK_MS if programs.is_quick else MS],
        ["env", f"UAIO_COUNTERS={counters}",
         *variant.prefix(programs.places.uaio)]))
    counted = fio.said_of(counters, "scale")
    said |= {"work": work, "threads": threads, "contexts": contexts,
             "counted": counted[0] if counted else None}
    return Sample({RATE: 1e6 * said["ios"] / said["usecs"]},
                  proof_of(name, said))


def _series(programs: Programs, file: Path, work: str,
            threads: int) -> dict[str, Series]:
    return alternate(
        {name: lambda name=name: _measure(programs, file, work, name, threads)
         for name in VARIANTS[work]},
        programs.rounds, None, programs.progress,
        f"scale: {work}, {threads} threads")


def results_of(work: str, all_series: dict[int, dict[str, Series]],
               file_system: str) -> list[Row | Table]:
    """The table, and ours against the kernel for each number of threads."""
    about = {"name": "scale", "unit": "I/O/s", "file_system": file_system}
    table = Table(**about | {"name": f"scale.{work}"}, title=TITLES[work],
                  across="threads", columns=[*all_series], plot="lines",
                  logarithmic="x")
    for name in VARIANTS[work]:
        table.add(name, [series[name] for series in all_series.values()],
                  [RATE])
    rows = [row_of(series, ours, peer, RATE,
                   title=f"{work}, threads {threads}: {ours}", **about)
            for threads, series in all_series.items()
            for ours, peer in PEERS[work].items()]
    return [table, *rows]


def _why_not(programs: Programs, work: str) -> str:
    if work == DIRECT and file_system_of(programs.disk_dir) == "tmpfs":
        return f"no disk under {programs.disk_dir.parent}: --dir"
    if not (programs.places.helpers / "scale").exists():
        return (f"{programs.places.helpers / 'scale'} is not there: it was not "
                "built (apt-get install libaio-dev), or is not installed")
    return ""


def _unmeasured(work: str, why: str) -> Row:
    return Row(name="scale", title=TITLES[work], figure=RATE, unit="I/O/s",
               peer=KERNEL, note=why)


def scale_results(programs: Programs) -> list[Row | Table]:
    cpus = len(os.sched_getaffinity(0))
    counts: Sequence[int] = thread_counts(cpus)
    results: list[Row | Table] = []
    for work in TITLES:
        why = _why_not(programs, work)
        if why:
            results.append(_unmeasured(work, why))
            continue
        file = _lay_out(programs, work)
        series = {threads: _series(programs, file, work, threads)
                  for threads in counts}
        results += results_of(work, series, file_system_of(file))
    return results + scalerings.ring_results(programs, counts, cpus)
