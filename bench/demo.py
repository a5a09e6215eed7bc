#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uaio beside the kernel, in a minute or two, with nothing but fio.

Everything shown is measured here and now, in pairs of runs; README.md of this
folder explains the rows.
"""
from __future__ import annotations

import argparse
import ctypes
import errno
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import fio
from harness import (Disproved, Progress, Rounds, Series, VariantFailed,
                     alternate, cleanup)
from machine import Places, file_system_of, machine_facts
from rows import Spread, print_table, short

PAIRS = 5
SHM = Path("/dev/shm")
ROOM_BYTES = 256 << 20

KERNEL, UAIO = "kernel", "uaio"
URING, UAIO_URING = "io_uring", "uaio, io_uring"
GLIBC, UAIO_POSIX = "posixaio", "uaio, posixaio"
OURS = (UAIO, UAIO_URING, UAIO_POSIX)

# Shorter than in `make bench`, and both on the same file system.
TIMED = [
    replace(fio.job_named("many-tmpfs"), loops=20,
            title="512 jobs, 1 KiB random rw, by wall time"),
    replace(fio.job_named("hot-read"), title="1 job, 1 KiB hot read, depth 1"),
]
RUNTIME_S = 1.5
POSIX = replace(fio.job_named("hot-read"), size="16m",
                title="POSIX AIO beside glibc's, 1 KiB hot read, depth 1")
POSIX_PAIRS, POSIX_RUNTIME_S = 3, 0.3

CHECKED = fio.Job("verify", "data verified (crc32c)", "checked",
                  ("rw=randwrite", "bs=4k", "iodepth=16", "verify=crc32c",
                   "do_verify=1", "verify_fatal=1"), "16m", loops=1)
COUNTED = fio.Job("counted", "", "counted",
                  ("rw=randread", "bs=1k", "iodepth=1", "invalidate=0"),
                  "8m", loops=1)
FORBIDDEN = replace(COUNTED, file="forbidden", size="1m")

AIO_CALLS = ["io_setup", "io_destroy", "io_submit", "io_cancel",
             "io_getevents", "io_pgetevents"]


@dataclass
class Line:
    """A line of the demo: a figure of the kernel and one of uaio."""

    title: str
    kernel: str
    uaio: str
    ratio: str = ""


class Demo:
    def __init__(self, build: Path, pairs: int) -> None:
        self.pairs = pairs
        self.progress = Progress()
        self.notes: list[str] = []
        self.names = [KERNEL, UAIO]
        self.is_wrong = False
        self.directory = cleanup.temp_dir(self._choose_directory())
        self.bench = fio.Bench(Places.of_build(build), self.directory, self.directory,
                               RUNTIME_S)
        self.variants = fio.variants(self.bench)
        self.deny = build / "bench/deny-aio"

    def _choose_directory(self) -> Path:
        if SHM.is_dir() and os.access(SHM, os.W_OK):
            if shutil.disk_usage(SHM).free >= ROOM_BYTES:
                return SHM
            why = f"has less than {ROOM_BYTES >> 20} MiB free"
        else:
            why = "is not there"
        other = Path(tempfile.gettempdir())
        self.notes.append(f"{SHM} {why}, so the files are in {other} "
                          f"({file_system_of(other)})")
        return other

    def note_once(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # --- what is timed

    def timed(self, job: fio.Job) -> Line:
        return self._compared(job, self.bench, Rounds(self.pairs),
                              (KERNEL, UAIO), self.names)

    def posix(self) -> Line:
        """uaio is much faster than glibc, so a short time is enough to show it."""
        bench = replace(self.bench, runtime_s=POSIX_RUNTIME_S)
        names = (GLIBC, UAIO_POSIX)
        return self._compared(POSIX, bench,
                              Rounds(min(self.pairs, POSIX_PAIRS)), names,
                              names)

    def _compared(self, job: fio.Job, bench: fio.Bench, rounds: Rounds,
                  columns: tuple[str, str], names: Sequence[str]) -> Line:
        """The variants of the two columns, as far as they can be measured here."""
        peer, ours = columns
        self.progress.show(f"{job.title}: laying out its files")
        fio.lay_out(bench, job)
        series = alternate(
            {name: lambda name=name: fio.measure(bench, job,
                                                 self.variants[name])
             for name in names},
            rounds, None, self.progress, job.title)
        for file in self.directory.glob(f"{job.file}.*"):
            file.unlink()
        rates = [self._rate(name, series.get(name)) for name in columns]
        ratio = None
        if peer in series and not any(each.failure
                                      for each in series.values()):
            ratio = Spread.of_ratios(series[ours].values("I/O"),
                                     series[peer].values("I/O"))
        return Line(job.title, *rates,
                    f"{ratio.median:.2f}x ({ratio.min:.2f}–{ratio.max:.2f})"
                    if ratio else "–")

    def _rate(self, name: str, series: Series | None) -> str:
        if series is None:
            return "–"
        if series.failure:
            if series.is_disproved or name in OURS:
                self.is_wrong = True
            self.note_once(f"{name}: {series.failure}")
            return "–"
        rate = Spread.of(series.values("I/O"))
        text = f"{short(rate.median)}{'' if rate.median >= 1e4 else ' '}/s"
        if series.proof() is None:
            self.note_once(f"* unproven: {self._unproven(name)}")
            text += "*"
        return text

    @staticmethod
    def _unproven(name: str) -> str:
        if name in OURS:
            return "the library left no counters of what it served"
        return "no ring of kernel AIO was seen in fio's memory maps"

    # --- what is only tried

    def tried(self, name: str, job: fio.Job, wrap: tuple[str, ...] = ()
              ) -> str | None:
        """Return: None if the job ran to its end; otherwise the reason why not."""
        report = self.directory / "counters"
        report.unlink(missing_ok=True)
        try:
            result = fio.run_fio(fio.job_options(self.bench, job),
                                 self.directory, self.variants[name], wrap)
        except VariantFailed as why:
            return str(why)
        proof = fio.prove(self.variants[name], result.done, report, result.ios)
        if proof is None and name in OURS:
            return f"unproven: {self._unproven(name)}"
        return None

    def verified(self) -> Line:
        shown = {}
        for name in self.names:
            self.progress.show(f"{CHECKED.title}: {name}")
            why = self.tried(name, CHECKED)
            shown[name] = "yes" if why is None else "no"
            if why is not None:
                self.note_once(f"{name}: {why}")
                self.is_wrong |= name == UAIO
        return Line(f"{CHECKED.title}, {CHECKED.size[:-1]} MiB",
                    shown.get(KERNEL, "–"), shown[UAIO])

    def forbidden(self, what: str, names: tuple[str, str],
                  *options: str) -> Line:
        """fio under a filter that denies kernel AIO: without uaio, and with it."""
        title = f"with {what} (seccomp)"
        if not self.deny.exists():
            self.note_once("deny-aio was not built: libseccomp-dev is missing")
            return Line(title, "–", "–")
        shown = []
        fio.lay_out(self.bench, FORBIDDEN)
        for name in names:
            self.progress.show(f"{title}: {name}")
            why = self.tried(name, FORBIDDEN,
                             (str(self.deny), *options, "--"))
            shown.append("runs" if why is None else "fio fails")
            if why is not None and name == names[-1]:
                self.is_wrong = True
                self.note_once(f"uaio, {title}: {why}")
        return Line(title, *shown)

    def calls(self) -> Line:
        """Count system calls in separate runs, because strace is slow."""
        shown, ios = {}, 0
        fio.lay_out(self.bench, COUNTED)
        for name in self.names:
            self.progress.show(f"counting calls: {name}")
            try:
                count, ios = self._count_calls(name)
                shown[name] = f"{count:,}".replace(",", " ")
            except (VariantFailed, FileNotFoundError) as why:
                shown[name] = "–"
                self.note_once(f"calls of {name} were not counted: {why}")
        what = f"{ios:,}".replace(",", " ") if ios else "no"
        return Line(f"kernel AIO calls made for {what} reads",
                    shown.get(KERNEL, "–"), shown[UAIO])

    def _count_calls(self, name: str) -> tuple[int, int]:
        table = self.directory / "strace"
        table.unlink(missing_ok=True)
        trace = ("strace", "--seccomp-bpf", "-f", "-qq", "-c", "-U",
                 "name,calls", "-o", str(table), "-e",
                 "trace=" + ",".join(AIO_CALLS))
        result = fio.run_fio(fio.job_options(self.bench, COUNTED),
                             self.directory, self.variants[name], trace)
        count = 0
        for line in table.read_text().splitlines():
            words = line.split()
            if words and words[0] in AIO_CALLS:
                count += int(words[1])
        return count, result.ios

    # --- all of it

    def head(self) -> str:
        facts = machine_facts()
        place = self.directory.parent
        return "   ".join([
            "uaio demo", f"fio {facts['fio']} ({shutil.which('fio')}, "
            "unmodified)", f"{facts['cpus']} CPUs",
            f"{platform.system()} {facts['kernel'].partition('-')[0]}",
            f"{file_system_of(place)} on {place}"])

    def lines(self) -> list[Line]:
        lines = [self.timed(job) for job in TIMED if self.pairs]
        if self.pairs:
            lines.append(self.posix())
        lines += [self.verified(),
                  self.forbidden("kernel AIO forbidden", (KERNEL, UAIO)),
                  self.forbidden("io_uring refused", (URING, UAIO_URING),
                                 "--uring", "--errno", "EPERM"),
                  self.calls()]
        self.progress.clear()
        return lines

    def show(self) -> None:
        missing = kernel_aio_is_missing()
        if missing:
            self.names.remove(KERNEL)
            self.note_once(f"kernel AIO is not to be had here: {missing}")
        print(self.head() + "\n", flush=True)
        lines = self.lines()
        head = ["", "kernel", "uaio",
                f"ratio ({self.pairs} pair{'s' if self.pairs != 1 else ''}, "
                "min–max)"]
        print_table([head] + [[line.title, line.kernel, line.uaio, line.ratio]
                              for line in lines], {1, 2})
        for note in self.notes:
            print(f"  {note}")
        print("\nTry it:  "
              f"{shown_path(self.bench.places.uaio)} run -- fio "
              "--name=try --ioengine=libaio --rw=randrw --size=20m")


def shown_path(path: Path) -> str:
    """Return: the path as one would type it here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def kernel_aio_is_missing() -> str | None:
    """Ask the kernel for a context. Return: why the kernel gives none; or None."""
    numbers = {"x86_64": (206, 207), "aarch64": (0, 1)}
    if platform.machine() not in numbers:
        return None
    setup, destroy = numbers[platform.machine()]
    libc = ctypes.CDLL(None, use_errno=True)
    context = ctypes.c_ulong(0)
    if libc.syscall(setup, 1, ctypes.byref(context)) == 0:
        libc.syscall(destroy, context)
        return None
    code = ctypes.get_errno()
    hint = " (fs.aio-max-nr is used up)" if code == errno.EAGAIN else ""
    return f"io_setup: {os.strerror(code)}{hint}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True,
                        help="the build directory")
    parser.add_argument("--pairs", type=int, default=PAIRS, metavar="N",
                        help=f"measured pairs of runs (default: {PAIRS}); 0: "
                        "nothing is timed")
    args = parser.parse_args()
    if not shutil.which("fio"):
        parser.error("fio is not installed")
    demo = Demo(args.build.resolve(), max(0, args.pairs))
    try:
        demo.show()
    except Disproved as what:
        sys.exit(f"demo: not what it was said to be: {what}")
    except VariantFailed as why:
        sys.exit(f"demo: {why}")
    return 1 if demo.is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
