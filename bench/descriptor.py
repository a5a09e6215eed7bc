# SPDX-License-Identifier: MIT
"""Of the row dio: what setting up the descriptor of a direct request costs.

By how much of it is cleared, and where it comes from: in nanoseconds, and in
instructions, which a profiler counts and which are the same each time.
"""
from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from harness import Disproved, Sample, Series, VariantFailed, alternate
from programs import Programs
from proof import Check, prove
from rows import Goal, Row, Table, control_of, row_of

WHOLE, PREFIX, MALLOC = "whole", "prefix", "malloc"
VARIANTS = (WHOLE, PREFIX, MALLOC)
"""All of it cleared; its prefix, as uaio does; that, of malloc() each time."""

PREFIX_BYTES = 128
"""The most that may be cleared of a request, whatever it needs."""
PREFIX_GOAL = Goal(0.95, at_least=False)
"""Of the time and the instructions that clearing all takes."""
BYTES_GOAL = Goal(PREFIX_BYTES, at_least=False, of="subject")

COUNTED_REQUESTS = 6400
PROFILED = "dio_counted"
"""The function of dio.c in which they are set up."""

SEED = ("in a database benchmark zeroing all of it lost 0.5 %",
        "and clearing only the front gave 0.6 % back")
"""By the authors of the patch that this comes from, for Linux 2.6.32, 2009."""

SAID = ("struct_bytes", "slots_bytes", "cleared_bytes", "most_cleared_bytes",
        "slots", "slots_written", "most_written_beyond", "slab_bytes")
"""What is told of a variant that is disproved."""


def proof_of(name: str, said: dict) -> str:
    """Check what the run found in memory filled with poison. Raises Disproved."""
    all_bytes, slots_bytes = said["struct_bytes"], said["slots_bytes"]
    cleared = said["cleared_bytes"]
    checks = [Check("memory of its own" if name == MALLOC else "of the slab",
                    (said["slab_bytes"] == 0) == (name == MALLOC))]
    if name == WHOLE:
        checks += [Check(f"all {all_bytes} bytes cleared",
                         cleared == all_bytes)]
    else:
        checks += [
            Check(f"{cleared} of {all_bytes} bytes cleared, the slots "
                  f"({slots_bytes}) left", all_bytes - cleared == slots_bytes),
            Check("as many whatever the number of slots",
                  said["most_cleared_bytes"] == cleared <= PREFIX_BYTES),
            Check(f"{said['slots']} slots written and no other",
                  said["slots_written"] == said["slots"]
                  and said["most_written_beyond"] == 0)]
    return prove(checks, "set-up", said, SAID)


# --- measuring --------------------------------------------------------------


def _said(text: str, name: str) -> dict:
    said = json.loads(text)
    if said["variant"] != name:
        raise Disproved(f"{name}: {said['variant']} answered")
    return said


def _measure(programs: Programs, name: str) -> Sample:
    said = _said(programs.output("dio", [name]), name)
    return Sample({"set-up": said["ns"], "cleared": said["cleared_bytes"],
                   "bytes": said["struct_bytes"]}, proof_of(name, said))


def _count_once(programs: Programs, name: str, report: Path) -> int:
    """Return: the number of instructions for all requests."""
    out = programs.output("dio", [name, COUNTED_REQUESTS], [
        "valgrind", "--tool=callgrind", f"--toggle-collect={PROFILED}",
        f"--callgrind-out-file={report}"])
    proof_of(name, _said(out, name))
    for line in report.read_text().splitlines():
        if line.startswith("totals:"):
            return int(line.split()[1])
    return 0


def _count(programs: Programs, name: str) -> Sample:
    """Count by two runs, which must agree."""
    if not shutil.which("valgrind"):
        raise VariantFailed("instructions are not counted: no valgrind")
    with tempfile.TemporaryDirectory() as folder:
        counts = {_count_once(programs, name, Path(folder) / "report")
                  for _ in range(2)}
    if len(counts) > 1 or counts == {0}:
        raise VariantFailed(f"instructions: two runs had {sorted(counts)}")
    return Sample({"instructions": counts.pop() / COUNTED_REQUESTS},
                  "two runs agree")


def _counted_series(programs: Programs) -> dict[str, Series]:
    """Count without timing, so each variant runs once."""
    series = {}
    for name in VARIANTS:
        programs.progress.show(f"dio: instructions, {name}")
        try:
            series[name] = Series([_count(programs, name)])
        except VariantFailed as why:
            series[name] = Series(failure=str(why))
        except Disproved as why:
            series[name] = Series(failure=str(why), is_disproved=True)
    programs.progress.clear()
    return series


# --- rows -------------------------------------------------------------------


def _bytes_row(series: Series, name: str) -> Row:
    row = Row(name="dio", title=f"cleared: {name}", figure="cleared", unit="B",
              subject=name, peer="", is_timing=False,
              goal=None if name == WHOLE else BYTES_GOAL,
              note=f"{name}: {series.failure}" if series.failure else "",
              is_disproved=series.is_disproved)
    if not series.failure:
        row.subject_values = series.values("cleared")
        row.proofs = {name: series.proof()}
    return row


def _rows(timed: dict[str, Series], counted: dict[str, Series]) -> list[Row]:
    control = control_of(timed, WHOLE, "set-up")
    peers = {WHOLE: PREFIX_GOAL, MALLOC: None}
    rows = [row_of(timed, PREFIX, peer, "set-up", name="dio", unit="ns",
                   title="set-up of a request: prefix", goal=goal,
                   control=control) for peer, goal in peers.items()]
    rows += [row_of(counted, PREFIX, peer, "instructions", name="dio",
                    title="the same: prefix", unit="instr.", goal=goal,
                    is_timing=False) for peer, goal in peers.items()]
    return rows + [_bytes_row(timed[name], name) for name in VARIANTS]


def _tables(timed: dict[str, Series],
            counted: dict[str, Series]) -> list[Table]:
    tables = []
    for name, title, unit, series, figure in (
            ("ns", "Set-up of a request", "ns", timed, "set-up"),
            ("instructions", "Set-up of a request", "instr.", counted,
             "instructions"),
            ("cleared", "Cleared of a request", "B", timed, "cleared")):
        table = Table(f"dio.setup_{name}", title, unit, "", ["1 MiB"],
                      plot="bars")
        for variant in VARIANTS:
            table.add(variant, [series[variant]], [figure])
        tables.append(table)
    tables[0].beside.append("Linux 2.6.32, by its authors: " + " ".join(SEED))
    return tables


def set_up_results(programs: Programs) -> tuple[
        list[Row], list[Table], dict[str, Series]]:
    """Rows and tables, and what was timed of each variant."""
    timed = alternate(
        {name: lambda name=name: _measure(programs, name)
         for name in VARIANTS},
        programs.rounds, WHOLE, programs.progress, "dio: set-up")
    counted = _counted_series(programs)
    return _rows(timed, counted), _tables(timed, counted), timed
