# SPDX-License-Identifier: MIT
"""The row dio: large direct requests, whole and in segments.

What setting one up costs is in descriptor.py. Here fio reads with O_DIRECT, on
the disk, and on a file system that takes its time for each call, where segments
show whether they are made in parallel. The library's statistics say how many
requests were cut, and into how many segments.
"""
from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import fio
from descriptor import PREFIX, WHOLE, set_up_results
from harness import Sample, Series, VariantFailed, alternate
from machine import file_system_of
from programs import Programs
from proof import Check, prove
from rows import Goal, Row, Table, control_of, row_of, short

SEGMENT_BYTES = 64 * 4096
MIB = 1 << 20
TRIALS = 12
"""Of so many requests that the kernel's own AIO did not get some were cut, to see
whether that pays."""

AUTO = "uaio"
WIDTHS = {"whole": 1, "4 wide": 4, "8 wide": 8, "16 wide": 16, "64 wide": 64}
"""Variants of uaio that do not measure, but do as they are told."""
KERNEL, URING, PLAIN = "kernel", "io_uring", "psync"
OURS = (AUTO, *WIDTHS)

READS = ((1, 1), (1, 4), (16, 1), (16, 4))
QUICK_READS = ((1, 1), (16, 4))
"""MiB of a request, and how many there are at a time."""
DISK_VARIANTS = (KERNEL, AUTO, "whole", "8 wide", URING)
DISK_GOAL = Goal(0.98)

SLOW_US = 5000
QUICK_SLOW_US = 500
"""What each call to the slow file system takes."""
SLOW_MIB = 16
CALLS = {"128 KiB": 128 << 10, "1 MiB": MIB}
QUICK_CALLS = ("128 KiB",)
"""Bytes of such a call: FUSE's own, and the most that a server may have."""
SLOW_VARIANTS = ("whole", KERNEL, AUTO, "4 wide", "16 wide", "64 wide")
SERIAL = "whole"
SLOW_GOAL = Goal(0.25, at_least=False)

CANNOT = "no slow file system"


@dataclass(frozen=True)
class Times:
    """Seconds. What is read first is not measured. Where requests are slow, the library
    takes longer to find out which way is faster."""

    ramp: float
    runtime: float
    calibration: float = 0

    def ramp_of(self, name: str) -> float:
        return self.ramp + (self.calibration if name == AUTO else 0)


DISK_TIMES = Times(0.5, 1)
SLOW_TIMES = {"128 KiB": Times(0.2, 1.5, 5), "1 MiB": Times(0.2, 1, 1.5)}
QUICK_TIMES = Times(0.2, 0.2)


# --- what the counters must say ---------------------------------------------

COUNTED = ("requests", "native", "cut", "segments", "reads", "at_once")
"""What is told of a variant that is disproved."""


def _checks_of_cuts(name: str, said: dict) -> list[Check]:
    requests, cut = said["requests"], said["cut"]
    segments, per_request = said["segments"], said["bytes"] // SEGMENT_BYTES
    checks = [Check(f"at least {said['ios']} requests",
                    requests >= said["ios"])]
    if name == AUTO:
        ours = requests - said["native"]
        return [*checks,
                Check(f"{cut} of {ours} cut, some to see",
                      (ours < TRIALS or cut > 0) and cut <= ours),
                Check(f"in {per_request} each",
                      segments == cut * per_request)]
    if WIDTHS[name] == 1:
        return [*checks, Check("none cut", cut == segments == 0)]
    return [*checks, Check(f"all {requests} cut", cut == requests),
            Check(f"in {per_request} each", segments == cut * per_request)]


def _checks_of_calls(name: str, said: dict) -> list[Check]:
    """Checks of the number of calls that reached the slow file system."""
    at_once = said["at_once"]
    least = said["ios"] * said["bytes"] // said["call_bytes"]
    checks = [Check(f"at least {least} calls", said["reads"] >= least)]
    if name == AUTO:
        return [*checks, Check(f"up to {at_once} at a time",
                               said["requests"] < TRIALS or at_once > 1)]
    width = WIDTHS.get(name, 1)
    if width == 1:
        return [*checks, Check("one at a time", at_once == 1)]
    return [*checks, Check(f"up to {at_once} of {width} at a time",
                           1 < at_once <= width)]


def proof_of(name: str, said: dict) -> str:
    """What the counters prove of a run: those of the library (if the variant is uaio) and
    those of the slow file system. Raises Disproved if they contradict the variant."""
    checks = _checks_of_cuts(name, said) if name in OURS else []
    if "reads" in said:
        checks += _checks_of_calls(name, said)
    return prove(checks, f"{said['bytes'] // MIB} MiB", said, COUNTED)


# --- measuring --------------------------------------------------------------


def _variants(bench: fio.Bench) -> dict[str, fio.Variant]:
    known = fio.variants(bench)
    counted = known["counted"]
    *uaio_run, end = counted.prefix
    return {
        **{name: known[name] for name in (KERNEL, URING, PLAIN)},
        AUTO: counted,
        **{name: replace(counted, prefix=(*uaio_run, f"--segments={width}",
                                          end))
           for name, width in WIDTHS.items()},
    }


def _job(mib: int, depth: int, size: str) -> fio.Job:
    return fio.Job("dio", f"{mib} MiB, depth {depth}", "direct",
                   ("rw=randread", f"bs={mib}m", f"iodepth={depth}"), size,
                   direct=True)


def _said_by_library(stats: Path) -> dict:
    """The library's counters of all processes of fio. Raises VariantFailed if there are none."""
    all_said = fio.said_of_fio(stats)
    if not all_said:
        raise VariantFailed("the library wrote no statistics")
    return {"requests": sum(said["completed"] for said in all_said),
            **{ours: sum(said["direct"][what] for said in all_said)
               for ours, what in (("native", "kernel_aio"), ("cut", "cut"),
                                  ("segments", "segments"))}}


@dataclass(frozen=True)
class Place:
    """Where a job reads, and for how long."""

    bench: fio.Bench
    times: Times
    slow: Slow | None = None

    def options(self, job: fio.Job, name: str) -> list[str]:
        bench = self.bench if not self.slow \
            else replace(self.bench, disk_dir=self.slow.folder)
        return [*fio.job_options(bench, job),
                f"--ramp_time={self.times.ramp_of(name) * 1000:.0f}ms"]


@dataclass(frozen=True)
class Slow:
    """A file system in which each read takes this long."""

    helper: Path
    folder: Path
    us: int
    call_bytes: int

    def wrap(self) -> tuple[str, ...]:
        return (str(self.helper), f"{self.us}:{self.call_bytes}", "0",
                str(self.folder))


def _measure(place: Place, job: fio.Job, name: str, mib: int) -> Sample:
    """One timed run."""
    slow, scratch = place.slow, place.bench.disk_dir
    counters, stats, calls = (scratch / file
                              for file in ("counters", "stats", "calls"))
    for file in (counters, stats, calls):
        file.unlink(missing_ok=True)
    variant = _variants(place.bench)[name]
    if slow:
        variant = replace(variant,
                          env=(*variant.env, ("SLOWFS_REPORT", str(calls))))
    result = fio.run_fio(place.options(job, name), scratch, variant,
                         slow.wrap() if slow else ())
    proof = fio.prove(variant, result.done, counters, result.ios)
    said: dict = {"ios": result.ios, "bytes": mib * MIB}
    if name in OURS:
        said |= _said_by_library(stats)
    if slow:
        said |= json.loads(calls.read_text())
        said["call_bytes"] = slow.call_bytes
    elif result.done.bytes_read < fio.COLD_SHARE * result.bytes:
        proof = None
    more = proof_of(name, said)
    figures = {"GB/s": result.iops * mib * MIB / 1e9, "ms": 1e3 / result.iops}
    if name in OURS:
        figures["cut"] = 100 * said["cut"] / max(said["requests"], 1)
    if proof and more:
        proof += f"; {more}"
    return Sample(figures, proof)


# --- on the disk ------------------------------------------------------------


def _place(programs: Programs, times: Times, slow: Slow | None = None) -> Place:
    if programs.is_quick:
        times = QUICK_TIMES
    return Place(fio.Bench(programs.places, programs.disk_dir,
                           programs.disk_dir, times.runtime), times, slow)


def _disk_job(programs: Programs, mib: int, depth: int) -> fio.Job:
    return _job(mib, depth, "64m" if programs.is_quick else "512m")


def _disk_series(programs: Programs, mib: int,
                 depth: int) -> dict[str, Series]:
    place = _place(programs, DISK_TIMES)
    job = _disk_job(programs, mib, depth)
    # A job with one request at a time has no depth.
    names = (*DISK_VARIANTS, *([PLAIN] if depth == 1 else []))
    return alternate(
        {name: lambda name=name: _measure(place, job, name, mib)
         for name in names},
        programs.rounds, KERNEL, programs.progress, f"dio: {job.title}")


def _disk_rows(programs: Programs, series: dict[str, Series],
               title: str) -> list[Row]:
    def row(name: str, peer: str, goal: Goal | None = None) -> Row:
        return row_of(series, name, peer, "GB/s", name="dio", unit="GB/s",
                      title=f"{title}: {name}", goal=goal,
                      control=control_of(series, KERNEL, "GB/s"),
                      file_system=file_system_of(programs.disk_dir))

    peers = [peer for peer in (URING, PLAIN) if peer in series]
    return [row(AUTO, KERNEL, DISK_GOAL), *(row(AUTO, peer) for peer in peers),
            row("whole", KERNEL), row("8 wide", KERNEL),
            row("8 wide", "whole")]


def _table(all_series: dict[str, dict[str, Series]], name: str, title: str,
           figure: str, unit: str, variants: tuple[str, ...],
           **about: str) -> Table:
    """A table of series by column and variant."""
    table = Table(f"dio.{name}", title, unit, "", [*all_series], **about)
    for variant in variants:
        table.add(variant, [series.get(variant, Series())
                            for series in all_series.values()], [figure])
    return table


def _disk_tables(all_series: dict[str, dict[str, Series]],
                 file_system: str) -> list[Table]:
    return [
        _table(all_series, "reads", "O_DIRECT reads", "GB/s", "GB/s",
               (AUTO, "whole", "8 wide", KERNEL, URING, PLAIN), plot="bars",
               file_system=file_system),
        _table(all_series, "cut", "O_DIRECT reads that uaio cut", "cut", "%",
               (AUTO,), file_system=file_system)]


def _unmeasured(title: str, figure: str, peer: str, why: str) -> Row:
    return Row(name="dio", title=title, figure=figure, unit=figure, peer=peer,
               note=why)


def _why_no_reads(programs: Programs, read: tuple[int, int]) -> str | None:
    """Write the file that is read. Return: why that is impossible, or None."""
    if file_system_of(programs.disk_dir) == "tmpfs":
        return f"no disk under {programs.disk_dir.parent}: --dir"
    programs.progress.show("dio: laying out its file")
    try:
        fio.lay_out(_place(programs, DISK_TIMES).bench,
                    _disk_job(programs, *read))
    except VariantFailed as why:
        return str(why)
    finally:
        programs.progress.clear()
    return None


def _read_results(programs: Programs) -> tuple[
        list[Row | Table], dict[str, Series]]:
    """The results of reads, and the share that reads of 1 MiB, one at a time, have in
    them."""
    reads = QUICK_READS if programs.is_quick else READS
    why = _why_no_reads(programs, reads[0])
    if why:
        return [_unmeasured("direct reads: uaio", "GB/s", KERNEL, why)], {}
    all_series = {read: _disk_series(programs, *read) for read in reads}
    titled = {_disk_job(programs, *read).title: series
              for read, series in all_series.items()}
    return [*_disk_tables(titled, file_system_of(programs.disk_dir)),
            *(row for title, series in titled.items()
              for row in _disk_rows(programs, series, title))], \
        all_series[1, 1]


# --- on what is slow --------------------------------------------------------


def _why_nothing_slow(programs: Programs) -> str | None:
    helper = _helper(programs)
    if not helper.exists():
        return (f"{CANNOT}: {helper} is not there: it was not built, or is "
                "not installed")
    if os.geteuid() != 0:
        return f"{CANNOT}: only root may mount it"
    if not Path("/dev/fuse").exists():
        return f"{CANNOT}: no /dev/fuse"
    return None


def _helper(programs: Programs) -> Path:
    return programs.places.helpers / "with-slowfs"


def _slow_series(programs: Programs, calls: str) -> dict[str, Series]:
    job = _job(SLOW_MIB, 1, "32m")
    slow = Slow(_helper(programs), programs.disk_dir / "slow",
                QUICK_SLOW_US if programs.is_quick else SLOW_US, CALLS[calls])
    place = _place(programs, SLOW_TIMES[calls], slow)
    return alternate(
        {name: lambda name=name: _measure(place, job, name, SLOW_MIB)
         for name in SLOW_VARIANTS},
        programs.rounds, SERIAL, programs.progress, f"dio: slow, {calls}")


def _slow_rows(series: dict[str, Series], calls: str) -> list[Row]:
    title = f"16 MiB by calls of {calls}"

    def row(name: str, peer: str, goal: Goal | None = None) -> Row:
        return row_of(series, name, peer, "ms", name="dio", unit="ms",
                      title=f"{title}: {name}", goal=goal, file_system="fuse",
                      control=control_of(series, SERIAL, "ms"))

    widths = [name for name in SLOW_VARIANTS
              if name in WIDTHS and name != SERIAL]
    return [row(AUTO, SERIAL, SLOW_GOAL), row(AUTO, KERNEL),
            *(row(name, SERIAL) for name in widths)]


def _slow_results(programs: Programs) -> list[Row | Table]:
    why = _why_nothing_slow(programs)
    if why:
        return [_unmeasured("16 MiB of a slow file: uaio", "ms", SERIAL, why)]
    all_series = {calls: _slow_series(programs, calls) for calls
                  in (QUICK_CALLS if programs.is_quick else CALLS)}
    us = QUICK_SLOW_US if programs.is_quick else SLOW_US
    titled = {f"calls of {calls}": series
              for calls, series in all_series.items()}
    return [_table(titled, "slow", f"{SLOW_MIB} MiB of a file that takes "
                   f"{us / 1000:g} ms a call", "ms", "ms", SLOW_VARIANTS,
                   plot="bars", logarithmic="y", file_system="fuse"),
            _table(titled, "slow_cut", "Of these reads uaio cut", "cut", "%",
                   (AUTO,), file_system="fuse"),
            *(row for calls, series in all_series.items()
              for row in _slow_rows(series, calls))]


# --- what the set-up is of a read -------------------------------------------

UNSEEN = 0.1
"""Per cent of a read that nobody could find in what it takes."""


def _share_row(set_up: dict[str, Series], reads: dict[str, Series]) -> Row:
    """How much clearing less saves, compared with the time of one read."""
    row = Row(name="dio", title="saved of a 1 MiB read: prefix",
              figure="saved", unit="%", subject=PREFIX, peer="")
    parts = {PREFIX: set_up[PREFIX], WHOLE: set_up[WHOLE],
             AUTO: reads.get(AUTO, Series(failure="not measured"))}
    failures = [f"{name}: {series.failure}" for name, series in parts.items()
                if series.failure]
    if failures:
        row.note = "; ".join(failures)
        row.is_disproved = any(part.is_disproved for part in parts.values())
        return row
    row.control = control_of(reads, KERNEL, "GB/s")
    row.proofs = {name: series.proof() for name, series in parts.items()}
    row.subject_values = [
        100 * (whole - prefix) / (ms * 1e6) for whole, prefix, ms in zip(
            parts[WHOLE].values("set-up"), parts[PREFIX].values("set-up"),
            parts[AUTO].values("ms"), strict=True)]
    return row


def _meaning(row: Row, set_up: dict[str, Series],
             reads: dict[str, Series]) -> str:
    """A sentence on what this ratio means, for the figures of this run only."""
    if not row.subject_values:
        return "what the set-up is of a read was not measured"
    whole, prefix = (set_up[name].median("set-up") for name in (WHOLE, PREFIX))
    us = 1e3 * reads[AUTO].median("ms")
    saved = sorted(row.subject_values)[len(row.subject_values) // 2]
    return (f"Clearing the prefix only takes {short(prefix)} ns instead of "
            f"{short(whole)}: {short(whole / prefix)} times less, but of one "
            f"1 MiB read, which took {short(us)} us here, it saves "
            f"{saved:.2g} %. " + ("Nobody will notice." if saved < UNSEEN
                                  else "That may be noticed."))


def _fio_results(programs: Programs) -> tuple[
        list[Row | Table], dict[str, Series]]:
    """Of the disk and of what is slow; and reads of 1 MiB, as above."""
    if not shutil.which("fio"):
        return [_unmeasured("direct reads: uaio", "GB/s", KERNEL,
                            "fio is not installed: apt-get install fio")], {}
    results, reads = _read_results(programs)
    return results + _slow_results(programs), reads


def dio_results(programs: Programs) -> list[Row | Table]:
    """The set-up, the disk and what is slow."""
    rows, tables, set_up = set_up_results(programs)
    of_fio, reads = _fio_results(programs)
    share = _share_row(set_up, reads)
    tables[0].beside.append(_meaning(share, set_up, reads))
    return [*tables, *rows, share, *of_fio]
