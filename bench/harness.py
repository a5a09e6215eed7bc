# SPDX-License-Identifier: MIT
"""How everything in this folder is measured.

Machines are noisy, so a figure is a ratio of two programs in one run. Variants
are run in turn, A B C A B C ..., the first round is thrown away, and each
measured round gives one ratio; their median and their spread are what is
reported. In each round the peer is run a second time: its ratio to itself, the
control, says how far the machine can be believed.

A variant proves by counters of its own what it ran (see fio.py). A figure
without a proof is shown as unproven; one that is disproved is no figure, and
the whole run fails.
"""
from __future__ import annotations

import atexit
import datetime
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ENOUGH_PAIRS = 9
CONTROL_BAND = (0.95, 1.05)
CHILD_TIMEOUT_S = 600


class VariantFailed(Exception):
    """A variant cannot be measured here; the text says why."""


class Disproved(Exception):
    """A variant did not run what it was said to run."""


# --- where everything is ----------------------------------------------------


@dataclass(frozen=True)
class Places:
    """The command, and the programs and libraries of this folder: in a build
    tree, or where they were installed."""

    uaio: Path
    helpers: Path

    @classmethod
    def of_build(cls, build: Path) -> Places:
        return cls(build / "uaio", build / "bench")


# --- the machine ------------------------------------------------------------


def file_system_of(path: Path) -> str:
    """The type of the file system a path is on, as its mount table says."""
    best, kind = "", "unknown"
    where = str(path.resolve())
    try:
        mounts = Path("/proc/self/mounts").read_text()
    except OSError:
        return kind
    for line in mounts.splitlines():
        _, mount, this_kind = line.split()[:3]
        mount = mount.replace("\\040", " ")
        inside = where == mount or where.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, this_kind
    return kind


def first_line(argv: list[str]) -> str:
    """The first line a command prints, or nothing if it cannot be run."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.partition("\n")[0].strip()


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return os.uname().machine


def machine_facts() -> dict:
    """What each row says about where it was measured."""
    here = str(Path(__file__).resolve().parent)
    return {
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": os.uname().release,
        "fio": first_line(["fio", "--version"]).removeprefix("fio-"),
        "commit": first_line(["git", "-C", here, "describe", "--always",
                              "--dirty", "--abbrev=12", "--exclude=*"]),
        "date": datetime.datetime.now(datetime.timezone.utc)
                .isoformat(timespec="seconds"),
        "load": os.getloadavg()[0],
    }


# --- progress ---------------------------------------------------------------


class Progress:
    """One line on the terminal, rewritten; nothing where there is none."""

    def __init__(self) -> None:
        self.on = sys.stderr.isatty()

    def show(self, text: str) -> None:
        if self.on:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r\x1b[K" + text[:width])
            sys.stderr.flush()

    def clear(self) -> None:
        self.show("")


# --- what must be undone ----------------------------------------------------


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Cleanup:
    """Undoes what was done, also when a signal ends the program.

    The child that runs is killed first, and all that it started: nothing then
    writes to the files that are removed.
    """

    def __init__(self) -> None:
        self.child: int | None = None
        self._undo: list[Callable[[], None]] = []
        atexit.register(self.run)
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def add(self, undo: Callable[[], None]) -> None:
        self._undo.append(undo)

    def run(self) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if self.child is not None:
            _kill_below(self.child)
            try:
                os.waitpid(self.child, 0)
            except ChildProcessError:
                pass
            self.child = None
        while self._undo:
            self._undo.pop()()

    def temp_dir(self, parent: Path) -> Path:
        path = Path(tempfile.mkdtemp(prefix="uaio-bench-", dir=parent))
        self.add(lambda: shutil.rmtree(path, ignore_errors=True))
        return path

    @staticmethod
    def _on_signal(number: int, _frame: object) -> None:
        # What atexit registered runs on the way out.
        sys.exit(128 + number)


cleanup = Cleanup()


# --- running a program ------------------------------------------------------


@dataclass
class Finished:
    """A program that ended, and what it used, its children included."""

    status: int
    out: str
    err: str
    wall_s: float
    cpu_s: float
    switches: int
    bytes_read: int
    """Read from the device, not from the page cache."""
    mapped: set[str]
    """Which of the markers looked for were seen in its memory maps."""

    def complaint(self) -> str:
        """The last thing it said, to explain a failure."""
        lines = (self.err + "\n" + self.out).strip().splitlines()
        return lines[0].strip() if lines else f"exit status {self.status}"


def _descendants(root: int) -> list[int]:
    """A process and all that it started; fio's jobs leave its session."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _maps_below(root: int) -> str:
    text = ""
    for pid in _descendants(root):
        try:
            text += Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            continue
    return text


def _kill_below(root: int) -> None:
    """Kill a process and its descendants; stopped first, it starts no more."""
    _send(root, signal.SIGSTOP)
    for pid in _descendants(root):
        _send(pid, signal.SIGKILL)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class _Watcher(threading.Thread):
    """Looks for markers in a child's maps until all are seen; ends a child
    that hangs. It stops looking early, so it costs the child next to nothing,
    and the same for every variant."""

    def __init__(self, child: int, markers: frozenset[str]) -> None:
        super().__init__(daemon=True)
        self.child, self.markers = child, markers
        self.seen: set[str] = set()
        self.ended = threading.Event()
        self.timed_out = False
        self.start()

    def run(self) -> None:
        deadline = time.monotonic() + CHILD_TIMEOUT_S
        pause = 0.05
        while self.markers - self.seen:
            if self.ended.wait(pause):
                return
            maps = _maps_below(self.child)
            self.seen |= {mark for mark in self.markers if mark in maps}
            pause = min(pause * 1.5, 1.0)
        if not self.ended.wait(deadline - time.monotonic()):
            self.timed_out = True
            _kill_below(self.child)


def clean_environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """Our environment without anything that would change a peer."""
    env = {name: value for name, value in os.environ.items()
           if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH", "FLOOR_REPORT")
           and not name.startswith("UAIO_")}
    return env | {"LC_ALL": "C"} | (extra or {})


def run(argv: list[str], env: dict[str, str] | None = None,
        markers: frozenset[str] = frozenset(), cwd: Path | None = None) -> Finished:
    """Run a program to its end. It gets a clean environment and `env`."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        child = subprocess.Popen(
            argv, env=clean_environment(env), cwd=cwd, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        cleanup.child = child.pid
        watcher = _Watcher(child.pid, markers)
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.monotonic() - start
        cleanup.child = None
        child.returncode = os.waitstatus_to_exitcode(status)
        watcher.ended.set()
        watcher.join()
        if watcher.timed_out:
            raise VariantFailed(f"took more than {CHILD_TIMEOUT_S} s: "
                                + " ".join(argv))
        out.seek(0)
        err.seek(0)
        return Finished(
            status=child.returncode,
            out=out.read().decode(errors="replace"),
            err=err.read().decode(errors="replace"),
            wall_s=wall_s,
            cpu_s=usage.ru_utime + usage.ru_stime,
            switches=usage.ru_nvcsw + usage.ru_nivcsw,
            bytes_read=usage.ru_inblock * 512,
            mapped=watcher.seen)


# --- rounds and ratios ------------------------------------------------------


@dataclass
class Sample:
    """One measurement: figures by name, and the proof that it is one."""

    figures: dict[str, float]
    proof: str | None
    """What proves it, or None: unproven."""


@dataclass
class Series:
    """The samples of one variant, one a round, or why there are none."""

    samples: list[Sample] = field(default_factory=list)
    failure: str | None = None
    is_disproved: bool = False

    def values(self, figure: str) -> list[float]:
        return [sample.figures[figure] for sample in self.samples]

    def median(self, figure: str) -> float | None:
        if self.failure or not self.samples:
            return None
        return statistics.median(self.values(figure))

    def proof(self) -> str | None:
        if any(sample.proof is None for sample in self.samples):
            return None
        return self.samples[-1].proof if self.samples else None


CONTROL = "control"


def alternate(variants: dict[str, Callable[[], Sample]], pairs: int,
              control: str | None, progress: Progress,
              title: str) -> dict[str, Series]:
    """Run the variants in turn, one round to warm up and then `pairs` more.

    `control` names the variant that is run again at the end of each round. A
    variant that fails is left out from then on.
    """
    todo = dict(variants)
    if control in variants:
        todo[CONTROL] = variants[control]
    series = {name: Series() for name in todo}
    for number in range(pairs + 1):
        for name, measure in todo.items():
            stage = f"pair {number} of {pairs}" if number else "warm-up"
            progress.show(f"{title}: {stage}, {name}")
            if series[name].failure:
                continue
            try:
                sample = measure()
            except VariantFailed as why:
                series[name] = Series(failure=str(why))
                continue
            except Disproved as why:
                series[name] = Series(failure=str(why), is_disproved=True)
                continue
            if number:
                series[name].samples.append(sample)
    progress.clear()
    return series


@dataclass
class Spread:
    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: list[float]) -> Spread | None:
        if not values:
            return None
        return cls(statistics.median(values), min(values), max(values))

    @classmethod
    def of_ratios(cls, ours: list[float], theirs: list[float]) -> Spread | None:
        return cls.of([a / b for a, b in zip(ours, theirs, strict=True) if b])

    def __str__(self) -> str:
        digits = 2 if self.max < 100 else 0
        return (f"{self.median:.{digits}f} "
                f"({self.min:.{digits}f}–{self.max:.{digits}f})")


@dataclass(frozen=True)
class Goal:
    """What is promised of a ratio, or of the subject's own figure."""

    bound: float
    at_least: bool = True
    of: str = "ratio"

    def is_met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        unit = "x" if self.of == "ratio" else ""
        return f"{sign} {self.bound:g}{unit}"


def verdict(goal: Goal | None, value: Spread | None, pairs: int,
            control: Spread | None, is_timing: bool, is_proven: bool) -> str:
    """README.md explains each of them."""
    if value is None:
        return "not measured"
    if not is_proven:
        return "unproven"
    if goal is None:
        return "no goal"
    if is_timing:
        if pairs < ENOUGH_PAIRS:
            return "too few pairs"
        if control is None:
            return "no control"
        low, high = CONTROL_BAND
        if not low <= control.median <= high:
            return "too noisy here"
    return "met" if goal.is_met(value.median) else "missed"


@dataclass
class Row:
    """One line of the report; README.md documents its JSON form."""

    name: str
    title: str
    figure: str
    unit: str
    peer: str
    subject: str = "uaio"
    goal: Goal | None = None
    peer_values: list[float] = field(default_factory=list)
    subject_values: list[float] = field(default_factory=list)
    control: Spread | None = None
    is_timing: bool = True
    proofs: dict[str, str | None] = field(default_factory=dict)
    note: str = ""
    is_disproved: bool = False
    file_system: str = ""
    is_quiet: bool = False
    """Written, but not printed with the others: it stands in a table."""
    cpu_s_per_io: dict[str, list[float]] = field(default_factory=dict)
    """Of the subject and the peer, in the same rounds."""

    def pairs(self) -> int:
        return len(self.subject_values)

    def ratio(self) -> Spread | None:
        if not self.subject_values or not self.peer_values:
            return None
        return Spread.of_ratios(self.subject_values, self.peer_values)

    def verdict(self) -> str:
        if self.is_disproved:
            return "disproved"
        goal_is_ratio = self.goal is None or self.goal.of == "ratio"
        value = self.ratio() if goal_is_ratio and self.peer \
            else Spread.of(self.subject_values)
        proven = all(proof is not None for proof in self.proofs.values())
        return verdict(self.goal, value, self.pairs(), self.control,
                       self.is_timing, proven)

    def to_json(self, machine: dict) -> dict:
        def plain(value: object) -> object:
            return None if value is None else vars(value)

        return {
            "name": self.name, "title": self.title, "figure": self.figure,
            "unit": self.unit, "subject": self.subject,
            "peer": self.peer or None, "pairs": self.pairs(),
            "subject_values": self.subject_values,
            "peer_values": self.peer_values, "ratio": plain(self.ratio()),
            "control": plain(self.control), "goal": plain(self.goal),
            "verdict": self.verdict(), "proofs": self.proofs,
            "cpu_s_per_io": self.cpu_s_per_io or None,
            "note": self.note, "file_system": self.file_system,
            "machine": machine,
        }


def control_of(series: dict[str, Series], peer: str,
               figure: str) -> Spread | None:
    """The ratio of a peer to itself in the same rounds."""
    again = series.get(CONTROL)
    if not again or again.failure or series[peer].failure:
        return None
    return Spread.of_ratios(again.values(figure), series[peer].values(figure))


def row_of(series: dict[str, Series], subject: str, peer: str, figure: str,
           **about: object) -> Row:
    """The row that compares one figure of two of the variants measured."""
    row = Row(figure=figure, subject=subject, peer=peer, **about)
    ours, theirs = series[subject], series[peer]
    failures = [f"{name}: {each.failure}" for name, each
                in ((subject, ours), (peer, theirs)) if each.failure]
    if failures:
        row.note = "; ".join(failures)
        row.is_disproved = ours.is_disproved or theirs.is_disproved
    else:
        row.proofs = {subject: ours.proof(), peer: theirs.proof()}
    row.subject_values = [] if ours.failure else ours.values(figure)
    row.peer_values = [] if theirs.failure else theirs.values(figure)
    return row


# --- printing ---------------------------------------------------------------


def short(value: float) -> str:
    """A number in the three or four digits that mean something."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.2f} M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.0f} k"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def print_lines(lines: list[list[str]], widths: list[int],
                right: set[int]) -> None:
    """Lines in columns; those of `right` end in line."""
    for line in lines:
        cells = [cell.rjust(width) if i in right else cell.ljust(width)
                 for i, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip(), flush=True)


def print_table(lines: list[list[str]], right: set[int]) -> None:
    """The same, the columns as wide as they must be."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    print_lines(lines, widths, right)


def print_markdown(lines: list[list[str]]) -> None:
    """The same as Markdown, to be shown elsewhere; figures end in line."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    rule = ["-" * width for width in widths]
    for line in [lines[0], rule, *lines[1:]]:
        first, *rest = zip(line, widths)
        cells = [first[0].ljust(first[1]),
                 *(cell.rjust(width) for cell, width in rest)]
        print(f"| {' | '.join(cells)} |", flush=True)


ROW_HEAD = ["", "figure", "peer", "peer's", "subject's", "ratio (min–max)",
            "control", "goal", "verdict"]
ROW_WIDTHS = [4, 40, 14, 7, 9, 19, 7, 7, 15]
ROW_RIGHT = {3, 4, 5, 6, 7}


def print_rows(rows: list[Row]) -> None:
    """The rows of one measurement; they are printed as they are had."""
    lines = []
    for row in rows:
        if row.is_quiet:
            continue
        theirs = Spread.of(row.peer_values)
        ours = Spread.of(row.subject_values)
        ratio = row.ratio()
        lines.append([
            row.name, f"{row.title}, {row.unit}", row.peer or "–",
            short(theirs.median) if theirs else "–",
            short(ours.median) if ours else "–",
            str(ratio) if ratio else "–",
            f"{row.control.median:.2f}" if row.control else "–",
            str(row.goal) if row.goal else "–",
            row.verdict()])
    print_lines(lines, ROW_WIDTHS, ROW_RIGHT)
    for note in dict.fromkeys(row.note for row in rows if row.note):
        print(f"      {note}", flush=True)


def write_rows(path: Path, rows: list[Row], machine: dict) -> None:
    """One JSON object a line."""
    with path.open("w") as file:
        for row in rows:
            file.write(json.dumps(row.to_json(machine), ensure_ascii=False))
            file.write("\n")
