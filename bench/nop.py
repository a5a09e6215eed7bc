# SPDX-License-Identifier: MIT
"""The row nop: no-ops through workers, by the work queue's variants.

What was posted in 2021 and 2022 for io_uring ("io-wq: fixed workers") had its
labels transposed in three postings of four. So here the queue's own counters
say which variant ran; one that did not run what its name says is disproved.
"""
from __future__ import annotations

import json

from harness import Disproved, Sample, Series, alternate
from programs import Programs
from proof import Check, counted_row, prove
from rows import Goal, Row, Table, control_of, row_of

PEER = "io_uring"
SINGLE = ("single", "single+batches")
ROUND_ROBIN = "round-robin"
PACKED = ("packed", "packed+batches")
PRIVATE = (ROUND_ROBIN, *PACKED)
OURS = (*SINGLE, *PRIVATE)
BATCHED = ("single+batches", "packed+batches")

FIXED = 3
"""Fixed workers, beside one normal; on one list as many normal ones."""

ROUNDS = {1: 100_000, 10: 100_000, 128: 12_000, 1024: 2_000}
"""By depth: each run lasts a tenth of a second or more."""
QUICK_ROUNDS = {10: 1_000, 128: 120}
COUNTED = ("workers", "fixed", "private", "public", "shared", "switches",
           "placed", "posted", "posts")
"""What is told of a variant that is disproved."""
MANY = (128, 1024)
"""Depths at which lists of their own are to pay."""

GOALS = {10: Goal(6), 128: Goal(6)}
"""Of the best variant against io_uring, by depth."""
PRIVATE_GOAL = Goal(1.2)
IDLE_GOAL = Goal(5, at_least=False, of="subject")
"""Microseconds of 100 ms: less than one wake-up; reading the clocks takes some."""

SEED = (
    ("as posted, depth 10", "before 400–500 k", "private lists 1.0 M",
     "and batches 1.6 M"),
    ("later, depth 100", "normal 1.12–1.18 M", "fixed 1.91–2.08 M",
     "(labels transposed in v2 to v4)"),
)
"""Works a second, by their author on a machine that was not named."""


# --- what the counters must say ---------------------------------------------


def _is_even(placed: list[int]) -> bool:
    """Whether each list had its share of items, within a fifth."""
    mean = sum(placed) / len(placed) if placed else 0
    return bool(placed) and all(abs(nr - mean) <= mean / 5 for nr in placed)


def _checks_of_lists(name: str, said: dict) -> list[Check]:
    placed = said["placed"]
    if name in SINGLE:
        return [Check("no fixed worker", said["fixed"] == 0),
                Check("nothing on private lists", said["private"] == 0),
                Check(f"at most {FIXED + 1} workers",
                      said["workers"] <= FIXED + 1)]
    checks = [Check(f"{FIXED} fixed workers", said["fixed"] == FIXED),
              Check(f"at most {FIXED + 1} workers",
                    said["workers"] <= FIXED + 1),
              Check("most on private lists",
                    2 * (said["private"] + said["shared"])
                    > said["private"] + said["public"]),
              Check("what was placed is what was private",
                    sum(placed) == said["private"])]
    if name == ROUND_ROBIN:
        return [*checks, Check("lists filled evenly", _is_even(placed)),
                Check("each on another list than the one before",
                      said["switches"] > 0.9 * said["private"])]
    # With one at a time, each item may find another worker awake.
    if said["depth"] == 1:
        return checks
    return [*checks, Check("one list until it is left",
                           said["switches"] < 0.3 * said["private"] + 1)]


def _checks_of_batches(name: str, said: dict) -> list[Check]:
    if name not in BATCHED:
        return [Check("each event posted alone",
                      said["posts"] == said["posted"])]
    # With one at a time, no other event can be posted together with it.
    return [Check("events posted together",
                  said["posts"] < 0.9 * said["posted"])] \
        if said["depth"] > 1 else []


def proof_of(name: str, said: dict) -> str:
    """What the counters prove of a run. Raises Disproved if they deny it."""
    items = said["rounds"] * said["depth"]
    if name == PEER:
        checks = [Check("threads of io-wq", said["workers"] > 0)]
    else:
        checks = [Check(f"{items} items on one list or another",
                        said["private"] + said["public"] == items),
                  *_checks_of_lists(name, said),
                  *_checks_of_batches(name, said)]
    return prove(checks, f"depth {said['depth']}", said, COUNTED)


# --- measuring --------------------------------------------------------------


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _rounds(programs: Programs) -> dict[int, int]:
    return QUICK_ROUNDS if programs.is_quick else ROUNDS


def _measure(programs: Programs, name: str, depth: int) -> Sample:
    rounds = _rounds(programs)[depth]
    out = programs.output("nop", [name, rounds, depth, FIXED])
    said = json.loads(out)
    if said["variant"] != name:
        raise Disproved(f"{name}: {said['variant']} answered")
    figures = {"items": said["items_per_s"], "idle CPU": said["idle_cpu_us"]}
    if name != PEER:
        figures |= {
            "contended": _percent(said["contended"], said["locked"]),
            "late": _percent(said["late"], said["private"] + said["public"]),
            "wakes": said["wakes"] / (said["rounds"] * said["depth"]),
        }
    return Sample(figures, proof_of(name, said))


def _series_of(programs: Programs, depth: int) -> dict[str, Series]:
    return alternate(
        {name: lambda name=name: _measure(programs, name, depth)
         for name in (PEER, *OURS)},
        programs.rounds, PEER, programs.progress, f"nop, depth {depth}")


def _best(series: dict[str, Series], names: tuple[str, ...]) -> str | None:
    """The fastest of the variants."""
    rates = {name: rate for name in names
             if (rate := series[name].median("items")) is not None}
    return max(rates, key=rates.get) if rates else None


# --- rows -------------------------------------------------------------------


def _rate_rows(series: dict[str, Series], depth: int) -> list[Row]:
    best = _best(series, OURS)
    return [row_of(series, name, PEER, "items", name="nop",
                   title=f"no-ops, depth {depth}: {name}", unit="1/s",
                   goal=GOALS.get(depth) if name == best else None,
                   control=control_of(series, PEER, "items"))
            for name in OURS]


def _private_rows(all_series: dict[int, dict[str, Series]]) -> list[Row]:
    """The best variant with private lists, compared with one list that is tuned as well.
    Where a gain is promised, the depth is the one with the largest gain."""
    rows = {}
    for depth, series in all_series.items():
        best = _best(series, PRIVATE)
        if best:
            rows[depth] = row_of(
                series, best, "single+batches", "items", name="nop",
                title=f"best, depth {depth}: {best}", unit="1/s",
                control=control_of(series, PEER, "items"))
    ratios = {depth: ratio.median for depth in MANY
              if depth in rows and (ratio := rows[depth].ratio())}
    if ratios:
        rows[max(ratios, key=ratios.get)].goal = PRIVATE_GOAL
    return list(rows.values())


def _counted_row(series: dict[str, Series], name: str, depth: int, figure: str,
                 unit: str, goal: Goal | None) -> Row:
    return counted_row(series[name], figure, name="nop", subject=name,
                       title=f"{figure}, depth {depth}: {name}", unit=unit,
                       goal=goal)


def _idle_rows(all_series: dict[int, dict[str, Series]]) -> list[Row]:
    """The processor time of idle workers, for each variant at the depth with the highest
    use."""
    rows = []
    for name in (PEER, *OURS):
        most = max(all_series, key=lambda depth:
                   all_series[depth][name].median("idle CPU") or 0)
        rows.append(_counted_row(all_series[most], name, most, "idle CPU", "us",
                                 IDLE_GOAL if name != PEER else None))
    return rows


# --- tables -----------------------------------------------------------------


def _table(all_series: dict[int, dict[str, Series]], figure: str, title: str,
           unit: str, variants: tuple[str, ...], **about: object) -> Table:
    table = Table(f"nop.{figure}", title, unit, "no-ops at a time",
                  [*all_series], **about)
    for name in variants:
        table.add(name, [series[name] for series in all_series.values()],
                  [figure])
    return table


def _tables(all_series: dict[int, dict[str, Series]]) -> list[Table]:
    """Each variant at each depth."""
    return [
        _table(all_series, "items", "No-ops through workers", "1/s",
               (PEER, *OURS), plot="lines", logarithmic="xy",
               beside=["in the kernel, by their author: " + ", ".join(line)
                       for line in SEED]),
        _table(all_series, "contended", "Lock acquisitions that had to wait",
               "%", OURS, plot="bars"),
        _table(all_series, "late", "No-ops late, with a worker asleep", "%",
               OURS),
        _table(all_series, "wakes", "Wake-ups for a no-op", "each", OURS)]


def nop_results(programs: Programs) -> list[Row | Table]:
    """Every variant at every depth, in turn with io_uring."""
    all_series = {depth: _series_of(programs, depth)
                  for depth in _rounds(programs)}
    rows = [row for depth, series in all_series.items()
            for row in _rate_rows(series, depth)]
    return [*_tables(all_series), *rows, *_private_rows(all_series),
            *_idle_rows(all_series)]
