# SPDX-License-Identifier: MIT
"""Remarks beside the figures: what was not measured or not proven, how noisy the
machine was, and how many goals were met."""
from __future__ import annotations

from collections.abc import Iterable

from reading import ReadRow, ReadTable
from rows import ENOUGH_PAIRS

TIMED = {"1/s", "I/O/s", "GB/s", "MB/s", "ns", "us", "ms", "s"}
"""Units of figures that differ from round to round. "ns a read" counts as ns."""


# --- tables -----------------------------------------------------------------


def doubts(table: ReadTable) -> list[str]:
    """Why figures of a table are missing, or cannot be relied on."""
    said = []
    if table.is_disproved:
        said.append("A variant of this table is disproved: it ran something else than "
                    "its name says. Its figures are left out.")
    for variant, why in table.notes.items():
        where = " everywhere" if any(table.lines.get(variant, [])) else ""
        said.append(f"{variant} was not measured{where}: {why}.")
    unproven = [name for name, proof in table.proofs.items()
                if proof is None and any(table.lines.get(name, []))]
    if unproven:
        said.append("Not proven to be what it is called: "
                    f"{', '.join(unproven)}.")
    rounds = table.rounds()
    if not rounds:
        said.append("Nothing of it was measured.")
    elif rounds < ENOUGH_PAIRS and table.unit.split(" ")[0] in TIMED:
        said.append("One round only: it shows no spread." if rounds == 1 else
                    f"Only {rounds} rounds.")
    return said


# --- rows -------------------------------------------------------------------


def of_control(rows: Iterable[ReadRow]) -> str:
    """How noisy the machine was, by the controls of a part."""
    controls = [row.control for row in rows if row.control]
    if not controls:
        return ""
    low, high = (bound(control.median for control in controls)
                 for bound in (min, max))
    least = min(control.min for control in controls)
    most = max(control.max for control in controls)
    told = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" \
        else f"{low:.2f} to {high:.2f}"
    return ("The peer is the variant with which the others are compared. As a "
            "control, each round measures the peer twice. The ratio of the two "
            f"measurements was {told} (single rounds {least:.2f}–"
            f"{most:.2f}). A difference within that range means nothing.")


VERDICTS = {
    "met": "met", "missed": "missed", "too noisy here": "too noisy to tell",
    "too few pairs": "measured in too few rounds to tell",
    "no control": "without a control", "unproven": "unproven",
    "disproved": "disproved", "not measured": "not measured",
}


def of_goals(rows: Iterable[ReadRow]) -> str:
    """How many goals were met."""
    goals = [row for row in rows if row.goal]
    if not goals:
        return ""
    counted = []
    for verdict, words in VERDICTS.items():
        number = sum(row.verdict() == verdict for row in goals)
        if number:
            counted.append(f"{number} {words}" if len(goals) > 1 else words)
    return f"Of {len(goals)} goals: {', '.join(counted)}." \
        if len(goals) > 1 else f"The one goal: {counted[0]}."
