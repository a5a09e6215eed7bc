# SPDX-License-Identifier: MIT
"""The row trap: what a program's system calls cost under `uaio run --trap`.

A static program makes them by its own instruction, plainly and under the trap; and a
dynamic one by its own and by its C library, which the trap is in front of as well. While
syscall user dispatch is on, the kernel takes longer for each call, whoever turned it
on: that is measured, too. What the library answers is compared with syscall(2) in a
program that it is loaded into.
"""
from __future__ import annotations

import json

from harness import Sample, Series, alternate
from programs import Programs
from proof import Check, prove
from rows import Goal, Row, control_of, row_of

PLAIN = "plain"
TRAP = "trap"
SWITCHED = "dispatch"
"""Dispatch is on, and lets all calls through."""
ENTER = "trap, enter"
LOADED = "syscall(2)"
DYNAMIC = "dynamic"
DYNAMIC_TRAP = "trap, dynamic"

STATIC, LINKED = "trap-static", "trap"
"""The programs."""
OURS = ["--uring=always"]

CHANGED = "changed"
FUNCTION = "function"
"""Of the C library."""
MADE = "made"
"""By a call of the library's own."""
FIXED = "fixed"
FIRST = "first"
FIRST_IN_PAGE = "first_in_page"
FIGURES = (CHANGED, FUNCTION, MADE, FIXED, FIRST, FIRST_IN_PAGE)

ADDED_GOAL = Goal(30, at_least=False, of="subject")
"""Nanoseconds that a call takes longer at a place that was changed into a jump."""
FIRST_GOAL = Goal(5000, at_least=False, of="subject")
"""Nanoseconds of the first call at a place, which is then changed."""

SAID = ("jumps", "libraries")
JUMPS = 3
"""Places that are looked at, of those that may be changed."""


def proof_of(name: str, said: dict) -> str:
    """Prove a run by what the program found out about itself. Raises Disproved."""
    is_ours = name in (TRAP, ENTER, LOADED, DYNAMIC_TRAP)
    checks = [Check("the library was there" if is_ours else "no library",
                    (said["libraries"] > 0) == is_ours)]
    if name == TRAP:
        checks += [Check(f"{JUMPS} places became jumps",
                         said["jumps"] == JUMPS)]
    elif name in (ENTER, DYNAMIC_TRAP):
        checks += [Check("its place became a jump", said["jumps"] == 1)]
    elif name != SWITCHED:
        checks += [Check("no place became a jump", said["jumps"] == 0)]
    return prove(checks, name, said, SAID)


def _measure(programs: Programs, name: str) -> Sample:
    run = [str(programs.places.uaio), "run"]
    program, what, prefix = {
        PLAIN: (STATIC, "places", []),
        TRAP: (STATIC, "places", [*run, "--trap", *OURS, "--"]),
        SWITCHED: (STATIC, "switched", []),
        ENTER: (STATIC, "enter", [*run, "--trap", *OURS, "--"]),
        LOADED: (LINKED, "enter", [*run, *OURS, "--"]),
        DYNAMIC: (LINKED, "function", []),
        DYNAMIC_TRAP: (LINKED, "function",
                       [*run, "--trap=always", *OURS, "--"]),
    }[name]
    said = json.loads(programs.output(program, [what], prefix))
    return Sample({figure: said[figure] for figure in FIGURES
                   if figure in said}, proof_of(name, said))


def _added(series: dict[str, Series], subject: str, peer: str, title: str,
           goal: Goal | None, figure: str = CHANGED) -> Row:
    """How much longer a call takes than the peer's, in each round."""
    row = row_of(series, subject, peer, figure, name="trap", title=title,
                 unit="ns", goal=goal,
                 control=control_of(series, PLAIN, CHANGED))
    row.subject_values = [ours - theirs for ours, theirs in zip(
        row.subject_values, row.peer_values)]
    row.figure, row.peer, row.peer_values = "added", "", []
    return row


def _taken(series: dict[str, Series], figure: str, title: str,
           goal: Goal | None) -> Row:
    return row_of(series, TRAP, PLAIN, figure, name="trap", title=title,
                  unit="ns", goal=goal,
                  control=control_of(series, PLAIN, CHANGED))


def trap_results(programs: Programs) -> list[Row]:
    """All variants, in turn; the control is the plain program again."""
    series = alternate(
        {name: lambda name=name: _measure(programs, name)
         for name in (PLAIN, TRAP, SWITCHED, ENTER, LOADED, DYNAMIC,
                      DYNAMIC_TRAP)},
        programs.rounds, PLAIN, programs.progress, "trap")
    return [
        _added(series, TRAP, PLAIN, "added at a jump: the kernel's call",
               ADDED_GOAL),
        _added(series, SWITCHED, PLAIN, "of it, by dispatch alone", None),
        _added(series, TRAP, SWITCHED, "of it, by the jump", None),
        _added(series, ENTER, LOADED, "added at a jump: the library's call",
               ADDED_GOAL),
        _added(series, ENTER, LOADED, "the same, which makes one itself",
               None, MADE),
        _added(series, DYNAMIC_TRAP, DYNAMIC,
               "added in a dynamic program: its own instruction", None),
        _added(series, DYNAMIC_TRAP, DYNAMIC,
               "added in a dynamic program: a function of its C library", None,
               FUNCTION),
        _taken(series, FIXED, "a place that stays", None),
        _taken(series, FIRST, "first call, page changed before", FIRST_GOAL),
        _taken(series, FIRST_IN_PAGE, "first call, page not changed before",
               FIRST_GOAL),
    ]
