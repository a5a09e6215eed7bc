# SPDX-License-Identifier: MIT
"""What figures show, in words. Each sentence is made of the data that it stands
under: who is faster, by how much, and whether the rounds agree on it. What was
not measured is not spoken of, but for why.
"""
from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reading import ReadRow, ReadTable
from rows import CONTROL_BAND, ENOUGH_PAIRS, Spread, short
from seeds import POSTED_BYTES

MORE_IS_FASTER = {"1/s", "I/O/s", "GB/s", "MB/s", "M/s"}
LESS_IS_FASTER = {"ns", "us", "ms", "s"}

SUBJECTS = ("uaio", "table", "caller-runs+delayed-kick", "prefix")
"""Whom a table is about: the first of these that it has, or its first line."""
PEERS = ("kernel", "io_uring", "posixaio", "list", "radix", "whole", "floor",
         "worker-for-each", "malloc", "single+batches")
MOST_PEERS = 3
"""So many are spoken of; the table has all."""


# --- two variants -----------------------------------------------------------


def is_time(table: ReadTable) -> bool:
    """Less is faster. "ns a read" is a time, too; that of processors is one
    that is spent."""
    return table.unit.split(" ")[0] in LESS_IS_FASTER \
        and "cpu" not in table.name.lower() and " per " not in table.unit


def is_speed(table: ReadTable) -> bool:
    return table.unit in MORE_IS_FASTER or is_time(table)


@dataclass(frozen=True)
class Comparison:
    """How many times as fast the subject is as the peer, round by round; of
    what is no speed, how many times its figure."""

    subject: str
    peer: str
    times: Spread
    rounds: int
    is_speed: bool

    def is_equal(self) -> bool:
        """The rounds do not agree on which is more."""
        return self.times.min <= 1 <= self.times.max


def _inverse(spread: Spread) -> Spread:
    return Spread(1 / spread.median, 1 / spread.max, 1 / spread.min)


def compare(table: ReadTable, subject: str, peer: str,
            column: str | float) -> Comparison | None:
    """Nothing where one of them has no figure, or is nought."""
    ours, theirs = (table.values(name, column) for name in (subject, peer))
    if subject == peer or not ours or not theirs:
        return None
    if min(ours) <= 0 or min(theirs) <= 0:
        return None
    if len(ours) == len(theirs):
        spread = Spread.of_ratios(ours, theirs)
    else:
        spread = Spread(statistics.median(ours) / statistics.median(theirs),
                        min(ours) / max(theirs), max(ours) / min(theirs))
    return Comparison(subject, peer,
                      _inverse(spread) if is_time(table) else spread,
                      min(len(ours), len(theirs)), is_speed(table))


def times(value: float) -> str:
    """A ratio; as much of it as tells it from 1."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else \
        f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _told(spread: Spread, rounds: int) -> str:
    if rounds == 1:
        return "in a single round"
    return f"{times(spread.min)}–{times(spread.max)}"


def says(found: Comparison) -> str:
    """A clause, without a full stop."""
    ours, theirs, value = found.subject, found.peer, found.times
    how = "as fast as" if found.is_speed else "as much as"
    told = _told(value, found.rounds)
    if found.is_equal() and value.min == value.max:
        return f"{ours} and {theirs} are equal ({told})"
    if found.is_equal():
        return (f"{ours} and {theirs} cannot be told apart "
                f"({times(value.median)} times {how[:-3]}, {told})")
    if value.median > 1:
        verb = "is" if found.is_speed else "has"
        return f"{ours} {verb} {times(value.median)} times {how} {theirs} ({told})"
    # Who is behind is named as that, and the other's lead told.
    back = _inverse(value)
    told = _told(back, found.rounds)
    if found.is_speed:
        return (f"{ours} is slower than {theirs}, which is "
                f"{times(back.median)} times as fast ({told})")
    return (f"{ours} has less than {theirs}, which has {times(back.median)} "
            f"times as much ({told})")


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
    if table.plot == "cdf":
        return f"latency of {column} %: "
    return f"{column}: " if isinstance(column, str) \
        else f"{table.across} {column:g}: ".lstrip()


def capital(table: ReadTable, text: str) -> str:
    """As sentences begin, but for the names of variants."""
    return text if text.startswith(tuple(table.lines)) \
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
    return capital(table, _column(table, column) + "; ".join(said) + ".") \
        if said else ""


def ends(table: ReadTable, subject: str) -> list[str | float]:
    """The first and the last column in which the subject has something."""
    there = [column for column in table.columns
             if table.values(subject, column)]
    return there[:1] + there[-1:] if len(there) > 1 else there


def growth(table: ReadTable, variants: Iterable[str]) -> str:
    """What more of what is across does to each, or nothing."""
    by_ends: dict[tuple[float, float], list[str]] = {}
    for variant in variants:
        columns = ends(table, variant)
        if len(columns) < 2 or not isinstance(columns[0], (int, float)):
            continue
        first, last = (median(table.values(variant, column))
                       for column in columns)
        factor = f" ({times(last / first)} times)" if first > 0 else ""
        by_ends.setdefault(tuple(columns), []).append(
            f"{variant} goes from {short(first)} to {short(last)}{factor}")
    return " ".join(f"{capital(table, table.across)} {few:g} to {many:g}, "
                    f"{table.unit}: {', '.join(said)}."
                    for (few, many), said in by_ends.items())


def extremes(table: ReadTable, column: str | float) -> str:
    """Who has most and who least, and whether the rounds agree."""
    there = {name: median(table.values(name, column)) for name in table.lines
             if table.values(name, column)}
    if len(there) < 2:
        return ""
    order = sorted(there, key=there.get, reverse=True)
    if is_time(table):
        order.reverse()
    words = ("fastest", "slowest") if is_speed(table) \
        else ("most", "least")
    best, second, worst = order[0], order[1], order[-1]
    if there[best] == there[worst]:
        return capital(table, f"{_column(table, column)}all have "
                       f"{short(there[best])} {table.unit}.")
    found = compare(table, best, second, column)
    doubt = f", not to be told from {second}" if found and found.is_equal() \
        and second != worst else ""
    return capital(table, f"{_column(table, column)}{words[0]} {best} with "
                   f"{short(there[best])} {table.unit}{doubt}; {words[1]} "
                   f"{worst} with {short(there[worst])}.")


# --- what keeps a figure from being believed --------------------------------


def doubts(table: ReadTable) -> list[str]:
    """Why not all of a table is to be had, or to be believed."""
    said = []
    if table.is_disproved:
        said.append("A variant of this table ran something else than its name "
                    "says: it is disproved, and has no figure there.")
    for variant, why in table.notes.items():
        where = " everywhere" if any(table.lines.get(variant, [])) else ""
        said.append(f"{variant} was not measured{where}: {why}.")
    unproven = [name for name, proof in table.proofs.items()
                if proof is None and any(table.lines.get(name, []))]
    if unproven:
        said.append(f"Not proven to be what it is called: "
                    f"{', '.join(unproven)}.")
    rounds = table.rounds()
    if not rounds:
        said.append("Nothing of it was measured.")
    elif rounds < ENOUGH_PAIRS and is_speed(table):
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
    """Of counts: what each has, or from where to where it goes."""
    said = []
    for name, line in table.lines.items():
        middles = [median(values) for values in line if values]
        if middles:
            least, most = short(min(middles)), short(max(middles))
            said.append(f"{name} {least}" if least == most
                        else f"{name} {least} to {most}")
    if len(table.columns) == 1:
        return [f"{', '.join(said)} {table.unit}."] if said else []
    return [f"Over all {table.across or 'columns'}, {table.unit}: "
            f"{', '.join(said)}."] if said else []


def _shares(table: ReadTable) -> list[str]:
    return [growth(table, table.lines)]


def _bytes(table: ReadTable) -> list[str]:
    """Beside what was posted of the worst case."""
    said = [growth(table, table.lines)]
    there = ends(table, "radix")[-1:]
    for column in there:
        ours = median(table.values("radix", column))
        said.append(f"The radix tree has {short(ours)} {table.unit} a context "
                    f"of {column:g}; {POSTED_BYTES} were posted for the worst "
                    "case.")
    return said


SAYS = {
    "nop.works": _works, "nop.contended": _sums, "nop.late": _sums,
    "nop.wakes": _sums, "contexts.index": _cost,
    "contexts.threads": _cost, "contexts.bytes_dense": _bytes,
    "contexts.bytes_sparse": _bytes, "contexts.share": _shares,
    "contexts.lookup": _cost,
    "pipe.event": _cost, "pipe.event_hot": _cost,
    "pipe.switches_per_s": _sums, "pipe.wakes": _sums, "pipe.tries": _sums,
    "dio.cut": _sums, "dio.slow_cut": _sums,
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


def of_goals(rows: Iterable[ReadRow], are_named: bool = False) -> str:
    """How many goals were met; those that were missed may be named."""
    goals = [row for row in rows if row.goal]
    if not goals:
        return ""
    counted = []
    for verdict, words in VERDICTS.items():
        number = sum(row.verdict() == verdict for row in goals)
        if number:
            counted.append(f"{number} {words}" if len(goals) > 1 else words)
    missed = [f"{row.title}{f' against {row.peer}' if row.peer else ''} "
              f"({measured(row)}, goal {row.goal})"
              for row in goals if row.verdict() == "missed"]
    text = f"Of {len(goals)} goals: {', '.join(counted)}." \
        if len(goals) > 1 else f"The one goal: {counted[0]}."
    return text + (f" Missed: {'; '.join(missed)}."
                   if missed and are_named else "")


def measured(row: ReadRow) -> str:
    """What a goal is compared with: a ratio, or a figure and its unit."""
    spread = row.measured()
    if not spread:
        return "–"
    own = not row.peer or (row.goal is not None and row.goal.of != "ratio")
    if not own:
        return times(spread.median)
    return f"{short(spread.median)} {row.unit}"
