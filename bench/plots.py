# SPDX-License-Identifier: MIT
"""Tables as plots: SVG that can stand in a page with others, takes its colours
and its letters from it, and is the same each time."""
from __future__ import annotations

import io
import math
import re
import statistics
import xml.etree.ElementTree as xml

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import (FixedLocator, FuncFormatter, LogLocator,
                               NullFormatter, NullLocator)

from page import Markup
from rows import Table, short

WIDTH = 8.0
"""Inches of 72 units."""
SVG = "http://www.w3.org/2000/svg"
XLINK = "{http://www.w3.org/1999/xlink}"

INK, FAINT, RULE = "#010101", "#020202", "#030303"
LINES = [f"#04{number:02x}04" for number in range(8)]
"""Colours that stand for the page's: it has others where it is dark."""
VARIABLES = {INK: "--ink", FAINT: "--faint", RULE: "--rule",
             **{colour: f"--line{number}"
                for number, colour in enumerate(LINES)}}
MARKERS = "osD^vPX*"

OURS, KERNEL, URING = 0, 1, 2
KNOWN = {"kernel": KERNEL, "io_uring": URING, "list": 5, "radix": URING,
         "posixaio": 3, "psync": 7, "plain": 7, "floor": 6,
         "io_uring+deferred": 3, "threads": 4, "whole": 5, "counted": 5}
"""What is the same thing has the same colour everywhere."""
MAIN = ("uaio", "table", "caller-runs+delayed-kick", "prefix",
        "single+batches")

SETTINGS = {
    "svg.fonttype": "none", "font.size": 12, "font.family": "sans-serif",
    "axes.edgecolor": FAINT, "axes.labelcolor": FAINT,
    "xtick.color": FAINT, "ytick.color": FAINT, "text.color": INK,
    "grid.color": RULE, "grid.linewidth": 0.8, "axes.linewidth": 0.8,
    "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "lines.linewidth": 2, "lines.markersize": 5.5,
    "axes.axisbelow": True,
}


def colours_of(variants: list[str]) -> dict[str, int]:
    """The number of each variant's colour: ours, those known, then others."""
    chosen = {name: OURS for name in variants if name in MAIN[:1]} \
        or {name: OURS for name in variants if name in MAIN}
    chosen |= {name: KNOWN[name] for name in variants if name in KNOWN}
    free = [number for number in (5, 4, 3, 6, 7, 2, 1, 0)
            if number not in chosen.values()]
    rest = [name for name in variants if name not in chosen]
    for number, name in enumerate(rest):
        chosen[name] = free[number] if number < len(free) \
            else number % len(LINES)
    return chosen


# --- what is drawn ----------------------------------------------------------


def _spread(values: list[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)


def _is_log(table: Table, axis: str) -> bool:
    """Of what is not above nothing there is no logarithm. Bars that lie have
    but one axis of values, and may be nothing."""
    if table.plot == "bars":
        return bool(table.logarithmic) and max(_all(table)) > 0
    if axis not in table.logarithmic:
        return False
    if axis == "x":
        return all(isinstance(column, (int, float)) and column > 0
                   for column in table.columns)
    return min(_all(table)) > 0


def _all(table: Table) -> list[float]:
    return [value for line in table.lines.values() for values in line
            for value in values]


def _places(table: Table) -> list[float]:
    """Where the columns are along the axis."""
    if all(isinstance(column, (int, float)) for column in table.columns):
        return [float(column) for column in table.columns]
    return [float(number) for number in range(len(table.columns))]


def _short(value: float, _position: object = None) -> str:
    return short(float(f"{value:.12g}"))


def _value_axis(axis: object, is_log: bool) -> None:
    if is_log:
        axis.set_major_locator(LogLocator(10, numticks=9))
        axis.set_minor_formatter(NullFormatter())
        low, high = axis.get_view_interval()
        if high / low < 30:
            axis.set_major_locator(LogLocator(10, subs=(1, 2, 5), numticks=9))
    axis.set_major_formatter(FuncFormatter(_short))


def _draw_lines(axes: Axes, table: Table) -> None:
    places = _places(table)
    colours = colours_of(list(table.lines))
    for number, (variant, line) in enumerate(table.lines.items()):
        there = [(at, *_spread(values)) for at, values in zip(places, line)
                 if values]
        if not there:
            continue
        at, middle, low, high = zip(*there)
        colour = LINES[colours[variant]]
        axes.fill_between(at, low, high, color=colour, alpha=0.16, linewidth=0)
        axes.plot(at, middle, color=colour, label=variant,
                  marker=MARKERS[number % len(MARKERS)],
                  zorder=3 if colours[variant] == OURS else 2)
    if _is_log(table, "x"):
        axes.set_xscale("log")
    if _is_log(table, "y"):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    _value_axis(axes.yaxis, _is_log(table, "y"))
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(places, [_column(column) for column in table.columns])
    axes.set_xlabel(table.across)
    axes.set_ylabel(table.unit)
    axes.grid(True, axis="y")


def _column(column: str | float) -> str:
    return column if isinstance(column, str) else f"{column:g}"


def _stretched(percent: float) -> float:
    """So that the last of a hundred are as wide as the first fifty."""
    part = min(max(percent / 100, 1e-4), 1 - 1e-4)
    return math.log10(part / (1 - part))


PERCENTS = (1, 10, 50, 90, 99, 99.9)


def _draw_cdf(axes: Axes, table: Table) -> None:
    colours = colours_of(list(table.lines))
    for number, (variant, line) in enumerate(table.lines.items()):
        there = [(statistics.median(values), _stretched(float(column)))
                 for column, values in zip(table.columns, line) if values]
        if there:
            axes.plot(*zip(*there), color=LINES[colours[variant]],
                      label=variant, markevery=2,
                      marker=MARKERS[number % len(MARKERS)],
                      zorder=3 if colours[variant] == OURS else 2)
    if min(_all(table)) > 0:
        axes.set_xscale("log")
        _value_axis(axes.xaxis, True)
    axes.set_yticks([_stretched(percent) for percent in PERCENTS],
                    [f"{percent:g}" for percent in PERCENTS])
    axes.set_ylim(_stretched(0.9), _stretched(99.93))
    axes.set_xlabel(table.unit)
    axes.set_ylabel("of 100 requests")
    axes.grid(True)


def _draw_bars(axes: Axes, table: Table) -> None:
    """Lying, one group below the other, each with its figure at its end."""
    colours = colours_of(list(table.lines))
    at, ticks, names = 0.0, [], []
    is_log = _is_log(table, "y")
    shown = _all(table)
    floor = min(value for value in shown if value > 0) / 3 if is_log else 0.0
    for number, column in enumerate(table.columns):
        if len(table.columns) > 1:
            axes.text(0, at - 0.05, _column(column), va="center",
                      transform=axes.get_yaxis_transform(), weight="bold")
            at += 0.9
        for variant, line in table.lines.items():
            ticks.append(at)
            names.append(variant)
            if line[number]:
                middle, low, high = (max(value, floor) for value
                                     in _spread(line[number]))
                axes.barh(at, middle - floor, 0.72, left=floor,
                          color=LINES[colours[variant]])
                axes.plot([low, high], [at, at], color=INK, linewidth=1.2,
                          marker="|", markersize=6)
                axes.annotate(_short(statistics.median(line[number])), (max(middle, high), at),
                              (6, 0), textcoords="offset points", va="center")
            else:
                axes.annotate("–", (floor, at), (6, 0), va="center",
                              textcoords="offset points")
            at += 1
        at += 0.5
    if is_log:
        axes.set_xscale("log")
        axes.set_xlim(floor, max(shown) * 4)
    else:
        axes.set_xlim(0, max(shown) * 1.14 or 1)
    _value_axis(axes.xaxis, is_log)
    axes.set_ylim(at - 0.6, -0.7)
    axes.set_yticks(ticks, names)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(table.unit)
    axes.grid(True, axis="x")


def _height_of_bars(table: Table) -> float:
    groups = len(table.columns)
    bars = groups * len(table.lines) + (1.4 * groups if groups > 1 else 0)
    return 0.8 + 0.34 * bars


DRAW = {"lines": _draw_lines, "cdf": _draw_cdf, "bars": _draw_bars}


def _legend_columns(table: Table) -> int:
    longest = max(map(len, table.lines), default=1)
    return max(1, min(6, int(74 / (longest + 7)), len(table.lines)))


def _legend(axes: Axes, table: Table) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0),
                ncol=_legend_columns(table), handlelength=1.8,
                columnspacing=1.4, borderaxespad=0.2)


LETTER, ROW = 0.105, 0.27
"""Inches of one, and of a line of a legend, as wide as a page may have them."""


def _frame(table: Table, width: float,
           height: float) -> tuple[float, float, float, float]:
    """Where the axes are in the figure. Measuring what is around them would
    take as long as drawing them."""
    if table.plot == "bars":
        left = 0.2 + LETTER * max(map(len, table.lines))
        right, below, above = 0.15, 0.55, 0.05
    else:
        left, right, below = 1.0, 0.2, 0.6
        above = 0.15 + ROW * math.ceil(
            len(table.lines) / _legend_columns(table))
    return (left / width, below / height, (width - left - right) / width,
            (height - below - above) / height)


# --- as a part of a page ----------------------------------------------------


def can_draw(table: Table) -> bool:
    return table.plot in DRAW and any(
        values for line in table.lines.values() for values in line)


def draw(table: Table, identifier: str, width: float = WIDTH) -> Markup:
    """A table that can be drawn, as an element. All its ids start with the
    identifier."""
    is_bars = table.plot == "bars"
    height = _height_of_bars(table) if is_bars else 0.52 * width
    with matplotlib.rc_context({**SETTINGS, "svg.hashsalt": identifier}):
        figure = Figure(figsize=(width, height))
        FigureCanvasSVG(figure)
        axes = figure.add_axes(_frame(table, width, height))
        DRAW[table.plot](axes, table)
        if not is_bars:
            _legend(axes, table)
        out = io.BytesIO()
        figure.savefig(out, format="svg", transparent=True, metadata={
            key: None for key in ("Date", "Creator", "Format", "Type")})
    return _embedded(out.getvalue(), identifier, table)


def _restyled(text: str) -> str:
    """In the page's colours and letters."""
    text = re.sub(r"#0[1-4][0-9a-f]{4}",
                  lambda found: f"var({VARIABLES[found[0]]})", text)
    # A size, and the family that is the page's.
    return re.sub(r"font: (?:(bold|[1-9]00) )?([\d.]+)px [^;]*",
                  lambda found: f"font-size: {found[2]}px" + (
                      f"; font-weight: {found[1]}" if found[1] else ""), text)


def _embedded(svg: bytes, identifier: str, table: Table) -> Markup:
    root = xml.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}title", "}style")):
                parent.remove(child)
    for each in root.iter():
        for key, value in list(each.attrib.items()):
            if key == f"{XLINK}href":
                del each.attrib[key]
                key = "href"
            if key == "id":
                value = f"{identifier}-{value}"
            value = value.replace("url(#", f"url(#{identifier}-")
            if key == "href":
                value = value.replace("#", f"#{identifier}-", 1)
            each.set(key, _restyled(value) if key == "style" else value)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    # Of a style sheet, which would be the whole page's.
    root.set("style", "stroke-linejoin: round; stroke-linecap: butt")
    root.set("role", "img")
    root.set("aria-label", f"{table.title}, {table.unit}")
    xml.register_namespace("", SVG)
    return Markup(xml.tostring(root, encoding="unicode"))
