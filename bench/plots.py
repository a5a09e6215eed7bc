# SPDX-License-Identifier: MIT
"""Tables as plots, drawn by Matplotlib: an SVG each, the same each time."""
from __future__ import annotations

import io
import itertools
import statistics

import matplotlib
from matplotlib import ft2font
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import (EngFormatter, LogLocator, NullFormatter,
                               NullLocator)

from rows import Table, short

WIDTH = 8.0
"""Inches."""
SETTINGS = {
    "svg.fonttype": "none", "svg.hashsalt": "uaio", "font.size": 12,
    "axes.spines.top": False, "axes.spines.right": False,
    "axes.axisbelow": True, "axes.grid.axis": "y", "grid.color": "#d9dce0",
    "legend.frameon": False, "lines.linewidth": 2, "lines.markersize": 5.5,
}
COLOURS = {"uaio": "C2", "table": "C2", "caller-runs+delayed-kick": "C2",
           "prefix": "C2", "kernel": "0.3", "io_uring": "C1", "radix": "C1",
           "posixaio": "C4", "psync": "C7", "plain": "C7", "floor": "C8",
           "list": "C0", "whole": "C0"}
"""What is the same thing has the same colour everywhere."""
MARKERS = "osD^vPX*"
PERCENTS = (1, 10, 50, 90, 99, 99.9)
"""Those that the axis of a distribution names."""


def to_svg(figure: Figure, words: str = "") -> bytes:
    """Return: the SVG, with a description and the name of what drew it, if there are
    words for them."""
    FigureCanvasSVG(figure)
    metadata = {key: None for key in ("Date", "Creator", "Format", "Type")}
    if words:
        metadata |= {"Description": words, "Creator":
                     f"Matplotlib {matplotlib.__version__}, FreeType "
                     f"{ft2font.__freetype_version__}"}
    out = io.BytesIO()
    figure.savefig(out, format="svg", transparent=True, metadata=metadata)
    return out.getvalue()


def _colours_of(table: Table) -> dict[str, str]:
    known = {name: COLOURS[name] for name in table.lines if name in COLOURS}
    free = itertools.cycle(sorted({f"C{number}" for number in range(10)}
                                  - {*known.values()}))
    return {name: known.get(name) or next(free) for name in table.lines}


def _all(table: Table) -> list[float]:
    return [value for line in table.lines.values() for values in line
            for value in values]


def _is_log(table: Table, axis: str) -> bool:
    """Whether the scale is logarithmic: only if all values are above 0."""
    shown = table.columns if axis == "x" else _all(table)
    return axis in table.logarithmic and all(
        isinstance(value, (int, float)) and value > 0 for value in shown)


def _scale_values(axis: object) -> None:
    """Numbers for a scale as people write them: powers of ten, with their 2 and 5 fold if
    there are few."""
    if axis.get_scale() == "log":
        low, high = axis.get_view_interval()
        if high / low < 100:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(EngFormatter(sep=" "))


# --- what is drawn ----------------------------------------------------------


def _draw_lines(axes: Axes, table: Table) -> None:
    """Draw medians as lines, and the range from least to greatest as a shade."""
    for (variant, line), marker in zip(table.lines.items(),
                                       itertools.cycle(MARKERS)):
        there = [(column, values) for column, values
                 in zip(table.columns, line) if values]
        if not there:
            continue
        at, figures = zip(*there)
        colour = _colours_of(table)[variant]
        axes.plot(at, [*map(statistics.median, figures)], color=colour,
                  marker=marker, label=variant)
        axes.fill_between(at, [*map(min, figures)], [*map(max, figures)],
                          color=colour, alpha=0.15, linewidth=0)
    if _is_log(table, "x"):
        axes.set_xscale("log")
    if _is_log(table, "y"):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    _scale_values(axes.yaxis)
    if not isinstance(table.columns[0], str):
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(table.columns,
                        [f"{column:g}" for column in table.columns])
    axes.set(xlabel=table.across, ylabel=table.unit)


def _draw_cdf(axes: Axes, table: Table) -> None:
    """Draw how long each of 100 requests took at most. The slowest requests get as much
    width as the fastest fifty."""
    for (variant, line), marker in zip(table.lines.items(),
                                       itertools.cycle(MARKERS)):
        there = [(statistics.median(values), column / 100) for column, values
                 in zip(table.columns, line) if values]
        if there:
            axes.plot(*zip(*there), color=_colours_of(table)[variant],
                      marker=marker, markevery=2, label=variant)
    if min(_all(table)) > 0:
        axes.set_xscale("log")
    _scale_values(axes.xaxis)
    axes.set_yscale("logit")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticks([percent / 100 for percent in PERCENTS],
                    [f"{percent:g}" for percent in PERCENTS])
    axes.set(xlabel=table.unit, ylabel="of 100 requests", ylim=(0.009, 0.9993))


def _draw_bars(axes: Axes, table: Table, number: int) -> None:
    """The bars of one column: medians, with the least and the greatest."""
    is_log = bool(table.logarithmic) and max(_all(table)) > 0
    floor = min(value for value in _all(table) if value > 0) / 3 \
        if is_log else 0.0
    columns = [line[number] for line in table.lines.values()]
    shown = [[max(value, floor) for value in values] or [floor]
             for values in columns]
    middles = [*map(statistics.median, shown)]
    if is_log:
        axes.set_xscale("log")
    bars = axes.barh(
        [*table.lines], middles, color=[*_colours_of(table).values()],
        xerr=[[middle - min(values) for middle, values in zip(middles, shown)],
              [max(values) - middle for middle, values in zip(middles, shown)]],
        error_kw={"ecolor": "gray", "capsize": 3})
    axes.bar_label(bars, [short(statistics.median(values)) if values else "–"
                          for values in columns], padding=6)
    axes.set_xlim(floor, max(_all(table)) * (4 if is_log else 1.15) or 1)
    _scale_values(axes.xaxis)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    if len(table.columns) > 1:
        axes.set_title(str(table.columns[number]), loc="left", fontsize=12)


def _bars_figure(table: Table) -> Figure:
    """Bar charts one below the other, one group for each column."""
    groups = len(table.columns)
    height = 0.8 + groups * (0.34 * len(table.lines) + 0.4 * (groups > 1))
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    every = figure.subplots(groups, 1, sharex=True, squeeze=False)[:, 0]
    for number, axes in enumerate(every):
        _draw_bars(axes, table, number)
    every[-1].set_xlabel(table.unit)
    return figure


def _lines_figure(table: Table) -> Figure:
    figure = Figure(figsize=(WIDTH, 0.52 * WIDTH), layout="constrained")
    axes = figure.subplots()
    (_draw_cdf if table.plot == "cdf" else _draw_lines)(axes, table)
    axes.grid(True, axis="both" if table.plot == "cdf" else "y")
    columns = max(1, min(6, 74 // (max(map(len, table.lines)) + 7)))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1),
                ncol=min(columns, len(table.lines)),
                borderaxespad=0.2, columnspacing=1.4)
    return figure


# --- as a part of a page ----------------------------------------------------


def can_draw(table: Table) -> bool:
    return table.plot in ("lines", "bars", "cdf") and bool(_all(table))


def draw(table: Table) -> bytes:
    """A table that can be drawn."""
    with matplotlib.rc_context(SETTINGS):
        return to_svg(_bars_figure(table) if table.plot == "bars"
                      else _lines_figure(table))
