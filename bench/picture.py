# SPDX-License-Identifier: MIT
"""The picture of README.md: uaio, io_uring and glibc's AIO beside kernel AIO, at
the work that programs have most. There are two, for light and for dark."""
from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fio import JOBS, SLOW_ENGINES
from reading import ReadTable, Results
from rows import times

CACHE, MISS, DIRECT, PIPE = "in the page cache", "not in it", "O_DIRECT", "pipe"


@dataclass(frozen=True)
class Work:
    """A piece of work, and the table that has its figures."""

    title: str
    kind: str
    table: str
    column: str | float | None = None
    """The first, if not said."""
    ours: str = "uaio"


WORKS = (
    Work("cached read, 1 KiB, one at a time", CACHE, "hot-read.rate"),
    Work("cached read, 1 KiB, 32 at a time", CACHE, "hot-read-32.rate"),
    Work("cached write, 1 KiB, one at a time", CACHE, "hot-write.rate"),
    Work("512 threads, a context each, 1 KiB", CACHE, "many-tmpfs.rate"),
    Work("uncached read, 4 KiB, 32 at a time", MISS, "cold-read-32.rate"),
    Work("O_DIRECT read, 4 KiB, one at a time", DIRECT, "depth.direct", 1),
    Work("O_DIRECT read, 4 KiB, 32 at a time", DIRECT, "direct-read-32.rate"),
    Work("O_DIRECT write, 4 KiB, 32 at a time", DIRECT, "direct-write-32.rate"),
    Work("through a pipe, 4 KiB", PIPE, "pipe.rate",
         ours="caller-runs+delayed-kick"),
)
ENGINES = {"uaio": "uaio", "io_uring": "io_uring",
           "posixaio": "glibc's POSIX AIO"}
PEER = "kernel"


# --- what is shown ----------------------------------------------------------


@dataclass(frozen=True)
class Half:
    """The median, and the range of the middle half of the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Half | None:
        if not values:
            return None
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, middle, high = statistics.quantiles(values, method="inclusive")
        return cls(middle, low, high)

    def __str__(self) -> str:
        if self.low == self.high:
            return times(self.median)
        return f"{times(self.median)} ({times(self.low)}–{times(self.high)})"


def is_fair(table: ReadTable, engine: str) -> bool:
    """Whether the engine did all the work. If it did only a part, starting takes most of
    its time."""
    loops = {job.name: job.loops for job in JOBS}.get(table.part(), 0)
    return not loops or engine not in SLOW_ENGINES


def ratios(results: Results, work: Work, engine: str) -> list[float]:
    """For each round: how many times as much work the engine did as kernel AIO."""
    table = results.table(work.table)
    if not table or not table.columns or not is_fair(table, engine):
        return []
    return table.ratios(
        work.ours if engine == "uaio" else engine, PEER,
        table.columns[0] if work.column is None else work.column)


def beside(results: Results, work: Work, engine: str) -> Half | None:
    return Half.of(ratios(results, work, engine))


def alternative(results: Results) -> str:
    """The figures in words: for readers who cannot see the picture, and for a test that
    compares pictures with results."""
    lines = []
    for work in WORKS:
        said = [f"{words} {half}" for engine, words in ENGINES.items()
                if (half := beside(results, work, engine))]
        if said:
            lines.append(f"{work.title}: {', '.join(said)}")
    return "I/O a second, that of kernel AIO being 1. " + "; ".join(lines) + "."


# --- how it is drawn --------------------------------------------------------


@dataclass(frozen=True)
class Theme:
    ink: str
    faint: str
    rule: str
    colours: tuple[str, str, str]


LIGHT = Theme("#1f2328", "#59636e", "#d1d9e0",
              ("#1a7f37", "#bc4c00", "#8250df"))
DARK = Theme("#f0f6fc", "#9198a1", "#3d444d",
             ("#3fb950", "#f0883e", "#ab7df8"))
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


def draw(results: Results, theme: Theme, note: str) -> bytes:
    """Draw an SVG without a background. `note` is the text below it."""
    # Only after report.can_draw(), which decides where Matplotlib keeps its files.
    import matplotlib
    from matplotlib.figure import Figure

    import plots

    works = [work for work in WORKS if beside(results, work, "uaio")]
    settings = {"svg.hashsalt": "uaio", "font.size": 11,
                "text.color": theme.ink, "axes.edgecolor": theme.rule,
                "ytick.color": theme.ink, "xtick.color": theme.faint,
                "axes.labelcolor": theme.faint}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(9, 1.5 + 0.46 * len(works)),
                        layout="constrained")
        axes = figure.subplots()
        for number, (engine, words) in enumerate(ENGINES.items()):
            _draw_engine(axes, results, works, engine, words,
                         0.25 * (number - 1), theme.colours[number])
        axes.axvline(1, color=theme.ink, linewidth=1.2, zorder=1)
        axes.text(1, -0.75, "kernel AIO = 1", ha="center", va="bottom")
        axes.text(1.01, -0.75, "uaio", color=theme.colours[0], weight="bold",
                  transform=axes.get_yaxis_transform(), va="bottom")
        for place, work in enumerate(works):
            axes.text(1.01, place, times(beside(results, work, "uaio").median),
                      transform=axes.get_yaxis_transform(), va="center",
                      color=theme.colours[0], weight="bold")
            axes.axhspan(place - 0.42, place + 0.42, color=theme.rule,
                         alpha=0.25, linewidth=0, zorder=0)
        axes.set_xscale("log")
        axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.set_xticks([], minor=True)
        axes.set_yticks(range(len(works)), [work.title for work in works])
        axes.set_ylim(len(works) - 0.45, -0.75)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("I/O a second, times that of kernel AIO  (right is "
                        "faster)")
        figure.legend(*axes.get_legend_handles_labels(), loc="upper left",
                      ncol=len(ENGINES), frameon=False)
        figure.supxlabel(note, fontsize=9, color=theme.faint, x=0.01,
                         ha="left")
        return plots.to_svg(figure, f"{alternative(results)} {note}")


def _draw_engine(axes: object, results: Results, works: Sequence[Work],
                 engine: str, words: str, shift: float, colour: str) -> None:
    there = [(place + shift, half) for place, work in enumerate(works)
             if (half := beside(results, work, engine))]
    axes.errorbar(
        [half.median for _, half in there], [place for place, _ in there],
        xerr=[[half.median - half.low for _, half in there],
              [half.high - half.median for _, half in there]],
        fmt="o", color=colour, markersize=8 if engine == "uaio" else 6,
        elinewidth=2.5, alpha=0.9, label=words)
