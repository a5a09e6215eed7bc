# SPDX-License-Identifier: MIT
"""What figures show, in words. Each sentence is made of the data that it stands
under: who is faster, by how much, and whether the rounds agree on it. What was
not measured is not spoken of, but for why.
"""
from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from results import ReadRow, ReadTable
from rows import CONTROL_BAND, ENOUGH_PAIRS, Spread, short

MORE_IS_FASTER = {"1/s", "I/O/s", "GB/s", "MB/s", "M/s"}
LESS_IS_FASTER = {"ns", "us", "ms", "s"}


def is_speed(unit: str) -> bool:
    """Whether one can be faster than another in it; "ns a read" is one, too."""
    return unit.split(" ")[0] in MORE_IS_FASTER | LESS_IS_FASTER


def is_time(unit: str) -> bool:
    return unit.split(" ")[0] in LESS_IS_FASTER


SUBJECTS = ("uaio", "table", "caller-runs+delayed-kick", "prefix")
"""Whom a table is about: the first of these that it has, or its first line."""
PEERS = ("kernel", "io_uring", "posixaio", "list", "radix", "whole", "floor",
         "worker-for-each", "malloc", "single+batches")
MOST_PEERS = 3
"""So many are spoken of; the table has all."""


# --- two variants -----------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """How many times the subject's figure is the peer's, round by round."""

    subject: str
    peer: str
    times: Spread
    rounds: int
    unit: str

    def is_speed(self) -> bool:
        return is_speed(self.unit)

    def speed(self) -> Spread:
        """Times as fast; of what is no speed the figures as they are."""
        if not is_time(self.unit):
            return self.times
        return Spread(1 / self.times.median, 1 / self.times.max,
                      1 / self.times.min)

    def is_equal(self) -> bool:
        """The rounds do not agree on which is more."""
        return self.times.min <= 1 <= self.times.max


def compare(table: ReadTable, subject: str, peer: str,
            column: str | float) -> Comparison | None:
    ours, theirs = (table.values(name, column) for name in (subject, peer))
    if subject == peer or not ours or not theirs:
        return None
    if min(ours) <= 0 or min(theirs) <= 0:
        return None
    if len(ours) == len(theirs):
        times = Spread.of_ratios(ours, theirs)
    else:
        times = Spread(statistics.median(ours) / statistics.median(theirs),
                       min(ours) / max(theirs), max(ours) / min(theirs))
    return Comparison(subject, peer, times, min(len(ours), len(theirs)),
                      table.unit) if times else None


def times(value: float) -> str:
    """A ratio; as much of it as tells it from 1."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else \
        f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _range(spread: Spread, rounds: int) -> str:
    if rounds == 1:
        return "in a single round"
    return f"{times(spread.min)}–{times(spread.max)} in {rounds} rounds"


def says(found: Comparison) -> str:
    """Without the names of what was compared where, or a full stop."""
    speed = found.speed()
    how = "as fast" if found.is_speed() else "as much"
    value = f"{times(speed.median)} times {how}"
    told = _range(speed, found.rounds)
    if found.is_equal() and speed.min == speed.max:
        return f"{found.subject} is equal to {found.peer} ({told})"
    if found.is_equal():
        return (f"{found.subject} and {found.peer} cannot be told apart "
                f"({value}; {told})")
    is_more = speed.median > 1
    word = ("faster" if is_more else "slower") if found.is_speed() else \
        ("more" if is_more else "less")
    verb = "is" if found.is_speed() else "has"
    return (f"{found.subject} {verb} {word} than {found.peer}: {value} "
            f"({told})")


# --- a table ----------------------------------------------------------------


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def subject_of(table: ReadTable) -> str | None:
    """Whom the table is about, of those that were measured."""
    measured = [name for name, line in table.lines.items() if any(line)]
    for name in SUBJECTS:
        if name in measured:
            return name
    return measured[0] if measured else None


def peers_of(table: ReadTable, subject: str) -> list[str]:
    """Whom it is compared with."""
    others = [name for name, line in table.lines.items()
              if name != subject and any(line)]
    known = [name for name in PEERS if name in others]
    return (known + [name for name in others if name not in known])[:MOST_PEERS]


def _column(table: ReadTable, column: str | float) -> str:
    """In front of what is said of it."""
    if len(table.columns) == 1:
        return ""
    return f"{column}: " if isinstance(column, str) \
        else f"{table.across} {column:g}: "


def capital(text: str) -> str:
    # The names of variants are as they are.
    first = text.split(" ", 1)[0].rstrip(",:")
    known = {*SUBJECTS, *PEERS}
    return text if first in known or "_" in first or "+" in first \
        else text[:1].upper() + text[1:]


def at(table: ReadTable, column: str | float, subject: str,
       peers: Iterable[str]) -> str:
    """The subject beside its peers under one column, or nothing."""
    found = [compare(table, subject, peer, column) for peer in peers]
    said = [says(each) for each in found if each]
    none = [peer for peer, each in zip(peers, found) if not each
            and table.values(peer, column) and table.values(subject, column)]
    for peer in none:
        ours, theirs = (median(table.values(name, column))
                        for name in (subject, peer))
        said.append(f"{subject} has {short(ours)} {table.unit} and {peer} "
                    f"{short(theirs)}")
    return capital(_column(table, column) + "; ".join(said) + ".") \
        if said else ""


def ends(table: ReadTable, subject: str) -> list[str | float]:
    """The first and the last column in which the subject has something."""
    there = [column for column in table.columns
             if table.values(subject, column)]
    return there[:1] + there[-1:] if len(there) > 1 else there


def growth(table: ReadTable, variants: Iterable[str]) -> str:
    """What more of what is across does to each, or nothing."""
    said = []
    for variant in variants:
        columns = ends(table, variant)
        if len(columns) < 2 or not isinstance(columns[0], (int, float)):
            continue
        first, last = (median(table.values(variant, column))
                       for column in columns)
        factor = f", {times(last / first)} times" if first > 0 else ""
        said.append(f"{variant} goes from {short(first)} to {short(last)} "
                    f"{table.unit} between {columns[0]:g} and {columns[1]:g}"
                    f"{factor}")
    return capital("; ".join(said) + ".") if said else ""


def extremes(table: ReadTable, column: str | float) -> str:
    """Who has most and who least, and whether the rounds agree."""
    there = {name: median(table.values(name, column)) for name in table.lines
             if table.values(name, column)}
    if len(there) < 2:
        return ""
    order = sorted(there, key=there.get, reverse=True)
    if is_time(table.unit):
        order.reverse()
    words = ("fastest", "slowest") if is_speed(table.unit) \
        else ("most", "least")
    best, second, worst = order[0], order[1], order[-1]
    if there[best] == there[worst]:
        return capital(f"{_column(table, column)}all have "
                       f"{short(there[best])} {table.unit}.")
    found = compare(table, best, second, column)
    doubt = f", not to be told from {second}" if found and found.is_equal() \
        and second != worst else ""
    return capital(f"{_column(table, column)}{words[0]} {best} with "
                   f"{short(there[best])} {table.unit}{doubt}; {words[1]} "
                   f"{worst} with {short(there[worst])}.")


# --- what keeps a figure from being believed --------------------------------


def doubts(table: ReadTable) -> list[str]:
    """Why not all of a table is to be had, or to be believed."""
    said = []
    if table.is_disproved:
        said.append("A variant of this table ran something else than its name "
                    "says: it is disproved, and has no figure.")
    for variant, why in table.notes.items():
        said.append(f"{variant} was not measured: {why}.")
    unproven = [name for name, proof in table.proofs.items()
                if proof is None and any(table.lines.get(name, []))]
    if unproven:
        said.append(f"Not proven to be what it is called: "
                    f"{', '.join(unproven)}.")
    rounds = table.rounds()
    if not rounds:
        said.append("Nothing of it was measured.")
    elif rounds < ENOUGH_PAIRS and is_speed(table.unit):
        said.append("One round only: it shows no spread." if rounds == 1 else
                    f"Only {rounds} rounds.")
    return said


# --- tables that have more to say than the others ---------------------------


def _cost(table: ReadTable) -> list[str]:
    """Of a figure that is to stay as it is, whatever is across."""
    subject = subject_of(table)
    peers = peers_of(table, subject)
    return [growth(table, [subject, *peers]),
            *(at(table, column, subject, peers)
              for column in ends(table, subject))]


def _works(table: ReadTable) -> list[str]:
    """Of the variants of a work queue, beside io_uring: the best of them."""
    said = [extremes(table, column) for column in table.columns]
    last = [column for column in table.columns
            if table.values("round-robin", column)
            and table.values("single+batches", column)][-1:]
    return said + [at(table, column, "round-robin", ["single+batches"])
                   for column in last]


def _sums(table: ReadTable) -> list[str]:
    """Of counts: the figure of each."""
    said = []
    for column in table.columns:
        there = [(name, median(table.values(name, column)))
                 for name in table.lines if table.values(name, column)]
        if there:
            said.append(capital(_column(table, column) + ", ".join(
                f"{name} {short(value)}" for name, value in there)
                + f" {table.unit}."))
    return said


SAYS = {
    "nop.works": _works, "nop.contended": _sums, "contexts.index": _cost,
    "contexts.threads": _cost, "contexts.bytes_dense": _cost,
    "contexts.bytes_sparse": _cost, "contexts.lookup": _cost,
    "pipe.event": _cost, "pipe.event_hot": _cost,
    "pipe.switches_per_s": _sums, "dio.cut": _sums,
}


def _any(table: ReadTable) -> list[str]:
    """Where there is nothing in particular: its ends, or all of a few."""
    subject = subject_of(table)
    peers = peers_of(table, subject)
    columns = ends(table, subject) if table.plot in ("lines", "cdf") \
        or len(table.columns) > 4 else table.columns
    if table.plot == "cdf":
        columns = [column for column in (50, 99)
                   if column in table.columns] or columns
    said = [at(table, column, subject, peers) for column in columns]
    return said if any(said) else [extremes(table, column)
                                   for column in table.columns[:4]]


def of_table(table: ReadTable) -> list[str]:
    """All that is said of a table."""
    if not subject_of(table):
        return doubts(table)
    said = SAYS.get(table.name, _any)(table)
    return [text for text in said if text] + doubts(table)


# --- rows -------------------------------------------------------------------


def of_control(rows: Iterable[ReadRow]) -> str:
    """How far the machine can be believed, by the controls of a part."""
    controls = [row.control for row in rows if row.control]
    if not controls:
        return ""
    low = min(control.median for control in controls)
    high = max(control.median for control in controls)
    least = min(control.min for control in controls)
    most = max(control.max for control in controls)
    told = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" \
        else f"{low:.2f} to {high:.2f}"
    is_calm = CONTROL_BAND[0] <= low and high <= CONTROL_BAND[1]
    verdict = "which is calm enough for verdicts" if is_calm else \
        f"outside of {CONTROL_BAND[0]}–{CONTROL_BAND[1]} there is no verdict"
    return (f"The control, a peer against itself in the same rounds, was "
            f"{told} (single rounds {least:.2f}–{most:.2f}): {verdict}.")


VERDICTS = {
    "met": "met", "missed": "missed", "too noisy here": "too noisy to tell",
    "too few pairs": "measured in too few rounds to tell",
    "no control": "without a control", "unproven": "unproven",
    "disproved": "disproved", "not measured": "not measured",
}


def of_goals(rows: Iterable[ReadRow]) -> str:
    """How many goals were met; those that were missed are named."""
    goals = [row for row in rows if row.goal]
    if not goals:
        return ""
    counted = []
    for verdict, words in VERDICTS.items():
        number = sum(row.verdict() == verdict for row in goals)
        if number:
            counted.append(f"{number} {words}")
    missed = [f"{row.title}{f' against {row.peer}' if row.peer else ''} "
              f"({measured(row)}, goal {row.goal})"
              for row in goals if row.verdict() == "missed"]
    text = f"Of {len(goals)} goals: {', '.join(counted)}." \
        if len(goals) > 1 else f"The goal is {counted[0]}."
    return text + (f" Missed: {'; '.join(missed)}." if missed else "")


def measured(row: ReadRow) -> str:
    """What a goal is compared with: a ratio, or a figure and its unit."""
    spread = row.measured()
    if not spread:
        return "–"
    own = not row.peer or (row.goal is not None and row.goal.of != "ratio")
    if not own:
        return times(spread.median)
    return f"{short(spread.median)} {row.unit}"
