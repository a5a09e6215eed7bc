# SPDX-License-Identifier: MIT
"""What measurements become: rows, which compare two variants and have a verdict,
and tables, which have every variant under everything that was varied.

README.md documents the JSON form of both.
"""
from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness import CONTROL, Series, paired

ENOUGH_PAIRS = 9
CONTROL_BAND = (0.95, 1.05)


# --- ratios -----------------------------------------------------------------


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
    """A promise about a ratio, or about the subject's own figure."""

    bound: float
    at_least: bool = True
    of: str = "ratio"

    def is_met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        unit = "x" if self.of == "ratio" else ""
        return f"{sign} {self.bound:g}{unit}"


NOISY = "too noisy here"


def _doubt(pairs: int, control: Spread | None) -> str:
    """Return: why the times of `pairs` rounds allow no verdict; or None."""
    if pairs < ENOUGH_PAIRS:
        return "too few pairs"
    if control is None:
        return "no control"
    low, high = CONTROL_BAND
    return "" if low <= control.median <= high else NOISY


def verdict(goal: Goal | None, value: Spread | None, pairs: int,
            control: Spread | None, is_timing: bool, is_proven: bool) -> str:
    """README.md explains each of them."""
    if value is None:
        return "not measured"
    if not is_proven:
        return "unproven"
    doubt = _doubt(pairs, control) if is_timing else ""
    if goal is None:
        # Few pairs are enough to show a figure, but a ratio from a noisy machine shows nothing.
        return doubt if doubt == NOISY else "no goal"
    if doubt:
        return doubt
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
            "kind": "row", "name": self.name, "title": self.title, "figure": self.figure,
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
    return Spread.of_ratios(*paired(again, series[peer], figure))


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
        row.subject_values, row.peer_values = paired(ours, theirs, figure)
        return row
    row.subject_values = [] if ours.failure else ours.values(figure)
    row.peer_values = [] if theirs.failure else theirs.values(figure)
    return row


# --- tables -----------------------------------------------------------------


@dataclass
class Table:
    """One figure of every variant, under everything that was varied; what a
    report shows as a table and a plot. README.md documents its JSON form."""

    name: str
    """Of the part and the table, "nop.items": a report knows it by that."""
    title: str
    unit: str
    across: str
    """What the columns are, "depth"."""
    columns: list[str | float]
    lines: dict[str, list[list[float]]] = field(default_factory=dict)
    """By variant: for each column what was measured, in order of the rounds."""
    proofs: dict[str, str | None] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """By variant, why it was not measured."""
    plot: str = ""
    """"lines" or "bars", "cdf" (the columns are per cent, the values the
    unit's), or nothing: a table is enough."""
    logarithmic: str = ""
    """Of a plot: "x", "y" or "xy"."""
    beside: list[str] = field(default_factory=list)
    """Said below it, above all by those whose idea it is, of theirs."""
    words: dict[str, str] = field(default_factory=dict)
    """By variant, what stands at the end of its line."""
    file_system: str = ""
    is_disproved: bool = False

    def add(self, variant: str, series: Sequence[Series],
            figures: Sequence[str]) -> None:
        """Add a line. Series and figure are either one per column, or one for all
        columns."""
        width = len(self.columns)
        columns = list(zip(series if len(series) > 1 else [*series] * width,
                           figures if len(figures) > 1 else [*figures] * width,
                           strict=True))
        self.lines[variant] = [_values(each, figure)
                               for each, figure in columns]
        proofs = [each.proof() for each, _ in columns if each.samples]
        self.proofs[variant] = proofs[-1] \
            if proofs and None not in proofs else None
        failures = [each.failure for each, _ in columns if each.failure]
        if failures:
            self.notes[variant] = failures[0]
            self.is_disproved |= any(each.is_disproved for each, _ in columns)

    def median(self, variant: str, column: str | float) -> float | None:
        values = self.lines.get(variant, [[]] * len(self.columns))[
            self.columns.index(column)]
        return statistics.median(values) if values else None

    def to_json(self, machine: dict) -> dict:
        return {"kind": "table", **vars(self), "machine": machine}

    @classmethod
    def of_json(cls, said: dict) -> Table:
        return cls(**{key: value for key, value in said.items()
                      if key not in ("kind", "machine")})


def _values(series: Series, figure: str) -> list[float]:
    """The values of a figure. A series that failed has none."""
    return [] if series.failure else series.values(figure)


NARROW = 3
SIDE_BY_SIDE = 9
"""Tables of a part with no more columns than NARROW are printed beside each
other, up to so many columns, if they are of the same variants, or of some."""


def print_tables(tables: list[Table]) -> None:
    """Print the tables, without values that only a plot can show."""
    groups: list[list[Table]] = []
    for table in tables:
        if table.plot == "cdf":
            continue
        if groups and _is_beside(table, groups[-1]):
            groups[-1].append(table)
        else:
            groups.append([table])
    for group in groups:
        _print_tables(group)


def _is_beside(table: Table, group: list[Table]) -> bool:
    widths = [len(each.columns) for each in (*group, table)]
    return (table.name.partition(".")[0] == group[0].name.partition(".")[0]
            and set(table.lines) <= set(group[0].lines)
            and max(widths) <= NARROW and sum(widths) <= SIDE_BY_SIDE)


def _print_tables(tables: list[Table]) -> None:
    """Print tables side by side. The common beginning of their titles is printed once."""
    title = os.path.commonprefix([table.title for table in tables])
    title = title[:title.rfind(": ") + 1]
    above = [title.rstrip(":")]
    across = {table.across for table in tables}
    head = [across.pop() if len(across) == 1 else ""]
    for table in tables:
        columns = [*map(_column, table.columns)]
        own = table.title[len(title):].strip()
        above += [f"{own}, {table.unit}", *[""] * (len(columns) - 1)]
        head += columns if len(columns) > 1 or not title else [""]
    lines = [above, *([head] if any(head[1:]) else [])]
    has_words = any(table.words for table in tables)
    if has_words:
        above.append("")
        head.append("")
    for variant in dict.fromkeys(each for table in tables
                                 for each in table.lines):
        lines.append([f"  {variant}", *(
            _cell(values) for table in tables for values in table.lines.get(
                variant, [[]] * len(table.columns))), *(
            [" ".join(table.words.get(variant, "") for table in tables)]
            if has_words else [])])
    print_table(lines, set(range(1, len(above) - has_words)))
    for line in dict.fromkeys(
            line for table in tables
            for line in (*(f"{variant}: {why}"
                           for variant, why in table.notes.items()),
                         *table.beside)):
        print(f"      {line}", flush=True)


def _column(column: str | float) -> str:
    return column if isinstance(column, str) else f"{column:g}"


def _cell(values: list[float]) -> str:
    return short(statistics.median(values)) if values else "–"


# --- printing ---------------------------------------------------------------


def short(value: float) -> str:
    """A number with three or four significant digits."""
    if value and abs(value) < 1e-3:
        return f"{value:.2g}"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.2f} M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.0f} k"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def times(value: float) -> str:
    """A ratio, with as many digits as show its difference from 1."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else \
        f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def print_lines(lines: list[list[str]], widths: list[int],
                right: set[int]) -> None:
    """Print lines in columns. Columns in `right` are aligned to the right."""
    for line in lines:
        cells = [cell.rjust(width) if i in right else cell.ljust(width)
                 for i, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip(), flush=True)


def print_table(lines: list[list[str]], right: set[int]) -> None:
    """Print lines in columns that are as wide as their contents."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    print_lines(lines, widths, right)


ROW_HEAD = ["", "figure", "peer", "peer's", "subject's", "ratio (min–max)",
            "control", "goal", "verdict"]
ROW_WIDTHS = [4, 40, 14, 7, 9, 19, 7, 7, 15]
ROW_RIGHT = {3, 4, 5, 6, 7}


def print_rows(rows: list[Row]) -> None:
    """The rows of a measurement. Each is printed as soon as it is added."""
    lines = []
    for row in rows:
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


def write_results(path: Path, results: Sequence[Row | Table],
                  machine: dict) -> None:
    """One JSON object a line."""
    with path.open("w") as file:
        for result in results:
            file.write(json.dumps(result.to_json(machine), ensure_ascii=False))
            file.write("\n")
