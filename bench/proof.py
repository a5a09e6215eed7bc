# SPDX-License-Identifier: MIT
"""What a variant's counters must say, or it did not run what its name says; and
rows of what they say besides."""
from __future__ import annotations

from dataclasses import dataclass

from harness import Disproved, Series
from rows import Row


@dataclass(frozen=True)
class Check:
    """A claim about a variant, and the message if it does not hold."""

    claim: str
    holds: bool


def prove(checks: list[Check], where: str, said: dict,
          counted: tuple[str, ...]) -> str:
    """Check all claims. Raises Disproved at the first one that does not hold. Return: the
    counters that were reported."""
    numbers = ", ".join(f"{key} {said[key]}" for key in counted if key in said)
    for check in checks:
        if not check.holds:
            raise Disproved(f"{where}, not true: {check.claim} ({numbers})")
    return ", ".join(check.claim for check in checks)


def counted_row(series: Series, figure: str, **about: object) -> Row:
    """The row of a figure of one variant, without a peer; not a timing."""
    row = Row(figure=figure, peer="", is_timing=False, **about)
    if series.failure:
        row.note = f"{row.subject}: {series.failure}"
        row.is_disproved = series.is_disproved
    else:
        row.subject_values = series.values(figure)
        row.proofs = {row.subject: series.proof()}
    return row
