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

CHILD_TIMEOUT_S = 600
INTERRUPTED = "interrupted"


class VariantFailed(Exception):
    """A variant cannot be measured here; the text says why."""


class Disproved(Exception):
    """A variant did not run what it was said to run."""


# --- progress ---------------------------------------------------------------


class Progress:
    """One line on the terminal, rewritten: a bar, the time left and what is
    being measured. Nothing where there is no terminal.

    The time left is what the parts not begun are expected to take, at the pace
    of those that are over, and the rest of the one that is being measured.
    """

    BAR = 20

    def __init__(self) -> None:
        self.on = sys.stderr.isatty()
        self._left: dict[str, float] = {}
        self._part = ""
        self._begun = self._entered = time.monotonic()
        self._expected_s = self._took_s = 0.0
        """Of the parts that are over."""

    def begin(self, seconds: dict[str, float]) -> None:
        """Begin with all parts to be measured, and the expected time of each."""
        self._left = dict(seconds)
        self._begun = time.monotonic()

    def enter(self, part: str) -> None:
        """Begin a part, and end the one before."""
        now = time.monotonic()
        if self._part:
            self._expected_s += self._left.pop(self._part, 0)
            self._took_s += now - self._entered
        self._part, self._entered = part, now

    def left_s(self) -> float:
        pace = self._took_s / self._expected_s if self._expected_s else 1.0
        left = {part: pace * expected for part, expected in self._left.items()}
        this = left.pop(self._part, 0.0) - (time.monotonic() - self._entered)
        return sum(left.values()) + max(this, 0.0)

    def _bar(self) -> str:
        left, gone = self.left_s(), time.monotonic() - self._begun
        part = gone / (gone + left) if gone + left else 0.0
        full = round(part * self.BAR)
        return (f"[{'#' * full}{'.' * (self.BAR - full)}] {100 * part:.0f} %, "
                f"{_duration(left)} left   ")

    def show(self, text: str) -> None:
        if self.on:
            width = shutil.get_terminal_size().columns - 1
            bar = self._bar() if self._left else ""
            sys.stderr.write("\r\x1b[K" + (bar + text)[:width])
            sys.stderr.flush()

    def clear(self) -> None:
        if self.on:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


# --- what must be undone ----------------------------------------------------


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Cleanup:
    """Undoes what was done, also when a signal ends the program.

    The child that runs is killed first, and all that it started: nothing then
    writes to the files that are removed.
    """

    def __init__(self) -> None:
        self.child: int | None = None
        self.may_finish = False
        """The first SIGINT does not end the program: what runs is killed, and
        nothing more begins. What was measured can be told then."""
        self.is_interrupted = False
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

    def _on_signal(self, number: int, _frame: object) -> None:
        if (number == signal.SIGINT and self.may_finish
                and not self.is_interrupted):
            self.is_interrupted = True
            if self.child is not None:
                _kill_below(self.child)
            return
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
        """The program's last line of output, to explain a failure."""
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
    if cleanup.is_interrupted:
        raise VariantFailed(INTERRUPTED)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        child = subprocess.Popen(
            argv, env=clean_environment(env), cwd=cwd, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        cleanup.child = child.pid
        if cleanup.is_interrupted:
            # Between the check and the start.
            _kill_below(child.pid)
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
        if cleanup.is_interrupted:
            raise VariantFailed(INTERRUPTED)
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
    round: int = 0
    """The round it is of: ratios are of one round."""


@dataclass
class Series:
    """The samples of one variant, one of each round that it took part in, or
    why there are none."""

    samples: list[Sample] = field(default_factory=list)
    failure: str | None = None
    is_disproved: bool = False

    def values(self, figure: str) -> list[float]:
        """The existing values of a figure, in order of the rounds."""
        return [sample.figures[figure] for sample in self.samples
                if figure in sample.figures]

    def median(self, figure: str) -> float | None:
        values = self.values(figure)
        return statistics.median(values) if values and not self.failure \
            else None

    def proof(self) -> str | None:
        if any(sample.proof is None for sample in self.samples):
            return None
        return self.samples[-1].proof if self.samples else None


def paired(ours: Series, theirs: Series,
           figure: str) -> tuple[list[float], list[float]]:
    """A figure of both in the rounds that have it of both."""
    of_round = {sample.round: sample.figures[figure]
                for sample in theirs.samples if figure in sample.figures}
    pairs = [(sample.figures[figure], of_round[sample.round])
             for sample in ours.samples
             if figure in sample.figures and sample.round in of_round]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


CONTROL = "control"


@dataclass(frozen=True)
class Rounds:
    """How often everything is run: so many times measured, after some that are
    thrown away."""

    measured: int
    warm_up: int = 1
    seldom: frozenset[str] = frozenset()
    """Variants that take part in every third measured round: nothing is
    promised beside them, and they would take most of the time."""

    SELDOM = 3

    def has(self, variant: str, number: int) -> bool:
        """Whether a variant takes part in a round; the first measured is 1."""
        return variant not in self.seldom or (
            number > 0 and number % self.SELDOM == 1)


def alternate(variants: dict[str, Callable[[], Sample]], rounds: Rounds,
              control: str | None, progress: Progress,
              title: str) -> dict[str, Series]:
    """Run the variants in turn, in rounds.

    `control` names the variant that is run again at the end of each round. A
    variant that fails is left out from then on. A round that was interrupted
    does not count.
    """
    todo = dict(variants)
    if control in variants:
        todo[CONTROL] = variants[control]
    series = {name: Series() for name in todo}
    for number in range(1 - rounds.warm_up, rounds.measured + 1):
        stage = f"round {number} of {rounds.measured}" if number > 0 \
            else "warm-up"
        present = {name: measure for name, measure in todo.items()
                   if rounds.has(name, number)}
        samples = _round(present, series, progress, f"{title}: {stage}")
        if cleanup.is_interrupted:
            break
        if number > 0:
            for name, sample in samples.items():
                sample.round = number
                series[name].samples.append(sample)
    progress.clear()
    for each in series.values():
        if not each.samples and not each.failure:
            each.failure = INTERRUPTED
    return series


def _round(todo: dict[str, Callable[[], Sample]], series: dict[str, Series],
           progress: Progress, stage: str) -> dict[str, Sample]:
    """Run each variant once, except those that have failed."""
    samples = {}
    for name, measure in todo.items():
        if series[name].failure or cleanup.is_interrupted:
            continue
        progress.show(f"{stage}, {name}")
        try:
            samples[name] = measure()
        except (VariantFailed, Disproved) as why:
            if not cleanup.is_interrupted:
                series[name] = Series(failure=str(why),
                                      is_disproved=isinstance(why, Disproved))
    return samples
