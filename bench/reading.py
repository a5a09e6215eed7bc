# SPDX-License-Identifier: MIT
"""Results that were written with --json, read again; README.md has their form."""
from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness import Rounds
from rows import Goal, Row, Spread, Table


class Unreadable(Exception):
    """A file that has no results in it; the text says why."""


@dataclass
class ReadRow(Row):
    """A row as it was written, with the verdict that was reached then."""

    said_verdict: str = "not measured"
    said_ratio: Spread | None = None
    machine: dict = field(default_factory=dict)

    def verdict(self) -> str:
        return self.said_verdict

    def ratio(self) -> Spread | None:
        return self.said_ratio

    @classmethod
    def of_json(cls, said: dict) -> ReadRow:
        def spread(key: str) -> Spread | None:
            return Spread(**said[key]) if said.get(key) else None

        goal = said.get("goal")
        return cls(
            name=said["name"], title=said["title"], figure=said["figure"],
            unit=said["unit"], peer=said.get("peer") or "",
            subject=said["subject"], goal=Goal(**goal) if goal else None,
            peer_values=said["peer_values"],
            subject_values=said["subject_values"], control=spread("control"),
            proofs=said.get("proofs") or {}, note=said.get("note") or "",
            is_disproved=said["verdict"] == "disproved",
            file_system=said.get("file_system") or "",
            cpu_s_per_io=said.get("cpu_s_per_io") or {},
            said_verdict=said["verdict"], said_ratio=spread("ratio"),
            machine=said.get("machine") or {})

    def is_own(self) -> bool:
        """Whether a goal is compared with the subject's own figure, not with a ratio."""
        return not self.peer or (self.goal is not None
                                 and self.goal.of != "ratio")

    def measured(self) -> Spread | None:
        """The figure that is compared with a goal: the ratio, or the subject's own
        figure."""
        return Spread.of(self.subject_values) if self.is_own() \
            else self.ratio()


@dataclass
class ReadTable(Table):
    machine: dict = field(default_factory=dict)

    @classmethod
    def of_json(cls, said: dict) -> ReadTable:
        return cls(**{key: value for key, value in said.items()
                      if key != "kind"})

    def values(self, variant: str, column: str | float) -> list[float]:
        """All values that were measured there; empty if there are none."""
        if variant not in self.lines or column not in self.columns:
            return []
        return self.lines[variant][self.columns.index(column)]

    def ratios(self, subject: str, peer: str,
               column: str | float) -> list[float]:
        """Ratios of subject to peer, for each round with both. Some variants only take
        part in the first, fourth, seventh ... round."""
        ours, theirs = (self.values(name, column) for name in (subject, peer))
        if len(ours) > len(theirs):
            ours = ours[::Rounds.SELDOM]
        elif len(theirs) > len(ours):
            theirs = theirs[::Rounds.SELDOM]
        if len(ours) != len(theirs):
            return []
        return [a / b for a, b in zip(ours, theirs) if b]

    def rounds(self) -> int:
        """The smallest number of rounds that any figure has, if there is one."""
        return min((len(values) for line in self.lines.values()
                    for values in line if values), default=0)

    def part(self) -> str:
        return self.name.rpartition(".")[0] or self.name


@dataclass
class Results:
    rows: list[ReadRow] = field(default_factory=list)
    tables: list[ReadTable] = field(default_factory=list)

    def table(self, name: str) -> ReadTable | None:
        """The table of that name. If there are several, the one that was read last."""
        found = [table for table in self.tables if table.name == name]
        return found[-1] if found else None

    def rows_of(self, *parts: str) -> list[ReadRow]:
        return [row for row in self.rows if row.name in parts]

    def machines(self) -> list[dict]:
        """The machine of each run, once, in the order in which the runs were read."""
        found: list[dict] = []
        for each in [*self.rows, *self.tables]:
            if each.machine not in found:
                found.append(each.machine)
        return found


def _add(results: Results, line: str) -> None:
    said = json.loads(line)
    if said["kind"] == "row":
        results.rows.append(ReadRow.of_json(said))
    elif said["kind"] == "table":
        results.tables.append(ReadTable.of_json(said))
    else:
        raise ValueError(f"kind {said['kind']!r}")


def read(paths: Iterable[Path]) -> Results:
    """All of several files. Raises Unreadable."""
    results = Results()
    for path in paths:
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as why:
            raise Unreadable(f"{path}: {getattr(why, 'strerror', why)}") \
                from None
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    _add(results, line)
            except (ValueError, KeyError, TypeError) as why:
                raise Unreadable(f"{path}:{number}: not a result: {why}") \
                    from None
    return results
