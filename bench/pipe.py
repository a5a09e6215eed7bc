# SPDX-License-Identifier: MIT
"""The row pipe: what waiting for pipes and sockets costs, by who retries.

Three works (pipe.c): 4 KiB through a pipe by one thread, a ball between two
processes, and one socket of many that becomes ready. The variants differ in who
retries what had to wait: a thread of the engine's, or who waits for the event.
"""
from __future__ import annotations

import json

from harness import Disproved, Sample, Series, alternate
from programs import Programs
from proof import Check, counted_row, prove
from rows import Goal, Row, Spread, Table, control_of, row_of

WORKER = "worker-for-each"
CALLER = "caller-runs"
DEFAULT = "caller-runs+delayed-kick"
OURS = (WORKER, CALLER, DEFAULT)
PEER = "io_uring"
URINGS = (PEER, "io_uring+deferred")
THREADS = "threads"
KERNEL = "kernel"
PLAIN = "plain"
PEERS = (*URINGS, KERNEL, THREADS, PLAIN)

BLOCK = 4096
PLACES = {0: "", 1: ", 1 processor", 2: ", 2 processors"}
"""What the two processes of ping-pong run on; 0: what they are given."""
COUNTS = (10, 100, 1000, 10_000)
QUICK_COUNTS = (10, 1000)
"""Of sockets on each of which a read waits."""
ANY, HOT = "parked", "parked-hot"
HOT_PAIRS = 100
"""With so many or fewer all are hot."""
AGAIN = "again"
"""The figure of the fewest, measured a second time at the end."""

ROUNDS = {"pipe": 200_000, "ping-pong": 40_000, "parked": 50_000}
QUICK_ROUNDS = {"pipe": 4_000, "ping-pong": 1_000, "parked": 2_000}
SLOW = {("pipe", WORKER): 5, ("ping-pong", 2): 20}
"""So many times fewer rounds of what takes as much longer."""

RATE_GOAL = Goal(1.25)
"""Of the default against io_uring, also where that is at its best."""
SWITCHES_GOAL = Goal(0.001, at_least=False, of="subject")
FEWER_GOAL = Goal(100)
"""Times fewer context switches than with a thread that retries."""
TRIPS_GOAL = Goal(1)
EVENT_GOAL = Goal(2, at_least=False)

SEED = (("Linux 2.6", "600 000"), ("callers run what is ready", "360 000"),
        ("and the worker is kicked with a delay", "about 30, as Linux 2.4"))
"""Context switches a second of pipetest, by their author in 2004."""


# --- what the counters must say ---------------------------------------------

COUNTED = ("rings_of_kernel_aio", "rings_of_io_uring", "parked", "by_caller",
           "by_fallback", "fallback_wakes", "tries", "sleeps", "events", "arms")
"""What is told of a variant that is disproved."""

WOKEN = 0.01
"""The fallback thread comes awake for more of the requests than this where it
is woken at once, and for fewer where it comes late;"""
LOOKS_PER_S = 200
"""but it looks about it now and then, whatever the requests do."""
TRIES = 5
"""How often a run is made that its counters deny."""
TRIES_PER_EVENT = 40
"""However many are parked: a caller's few, and the one that is ready."""


def _checks_of_rings(name: str, said: dict) -> list[Check]:
    aio, uring = said["rings_of_kernel_aio"], said["rings_of_io_uring"]
    if name in URINGS:
        return [Check("a ring of io_uring", uring > 0 and aio == 0)]
    if name == KERNEL:
        return [Check("a ring of kernel AIO", aio == 1 and uring == 0)]
    return [Check("no ring of the kernel's", aio == 0 and uring == 0)]


def _checks_of_who(name: str, said: dict, seconds: float) -> list[Check]:
    """Checks of which thread completed waiting requests, and which threads it woke."""
    parked, wakes = said["parked"], said["fallback_wakes"]
    woken = Check("the fallback thread was woken", wakes > WOKEN * parked)
    if name == WORKER:
        return [Check("none completed by a caller", said["by_caller"] == 0),
                Check("no caller slept in epoll", said["sleeps"] == 0), woken]
    if name == CALLER:
        return [Check("some completed by callers", said["by_caller"] > 0),
                woken]
    return [Check("nearly all completed by callers",
                  said["by_caller"] > 0.95 * parked),
            Check("the fallback thread was left asleep",
                  wakes < WOKEN * parked + LOOKS_PER_S * seconds + 1)]


def _checks_of_ours(name: str, said: dict, run: dict) -> list[Check]:
    """The checks for one process, if it ran the library."""
    rounds = run["rounds"]
    # In ping-pong, the answer may arrive before the process waits for it.
    least = rounds // 20 if run["work"] == "ping-pong" else rounds
    checks = [Check(f"at least {least} of {rounds} requests had to wait",
                    least <= said["parked"] <= rounds),
              Check("each completed once",
                    said["by_caller"] + said["by_fallback"] == said["parked"]),
              *_checks_of_who(name, said, run["usecs"] / 1e6)]
    if run["work"] in (ANY, HOT):
        checks.append(Check("nothing done for those that were not ready",
                            said["tries"] <= TRIES_PER_EVENT * rounds))
    return checks


def proof_of(name: str, said: dict) -> str:
    """What the counters prove of a run. Raises Disproved if they deny it."""
    where = said["work"]
    if "count" in said:
        where += f", {said['count']} of them"
    checks = _checks_of_rings(name, said)
    if name in OURS:
        checks += _checks_of_ours(name, said, said)
    claims = prove(checks, where, said, COUNTED)
    if name in OURS and "other" in said:
        prove(_checks_of_ours(name, said["other"], said),
              f"{where}, the other process", said["other"], COUNTED)
    return claims


# --- measuring --------------------------------------------------------------


def _run(programs: Programs, work: str, name: str, of: int = 0) -> dict:
    rounds = (QUICK_ROUNDS if programs.is_quick else ROUNDS)[
        "parked" if work == HOT else work]
    rounds //= SLOW.get((work, name), SLOW.get((work, of), 1))
    said = json.loads(programs.output(
        "pipe", [work, name, rounds, *([of] if of else [])]))
    if (said["work"], said["variant"]) != (work, name):
        raise Disproved(f"{work}, {name}: {said['work']}, {said['variant']} "
                        "answered")
    return said


def _run_and_prove(programs: Programs, work: str, name: str,
                   of: int = 0) -> tuple[dict, str]:
    """Run and prove. On a busy machine a caller may come later than the fallback thread.
    Then the counters contradict the proof for a quiet machine, although nothing is
    wrong, and the run is repeated."""
    for tries_left in reversed(range(TRIES)):
        said = _run(programs, work, name, of)
        try:
            return said, proof_of(name, said)
        except Disproved:
            if not tries_left:
                raise
    raise AssertionError


def _measure_pipe(programs: Programs, name: str) -> Sample:
    said, proof = _run_and_prove(programs, "pipe", name)
    requests, seconds = 2 * said["rounds"], said["usecs"] / 1e6
    figures = {
        "GB/s": BLOCK * said["rounds"] / seconds / 1e9,
        "requests": requests / seconds,
        "switches": said["switches"] / requests,
        "switches, if not none": max(said["switches"], 1) / requests,
        "switches a second": said["switches"] / seconds,
    }
    if name in OURS:
        figures["wakes"] = said["fallback_wakes"] / requests
    return Sample(figures, proof)


def _measure_trips(programs: Programs, name: str, processors: int) -> Sample:
    said, proof = _run_and_prove(programs, "ping-pong", name, processors)
    return Sample({"trips": said["rounds"] * 1e6 / said["usecs"]}, proof)


def _counts(programs: Programs) -> tuple[int, ...]:
    return QUICK_COUNTS if programs.is_quick else COUNTS


def _measure_events(programs: Programs, name: str) -> Sample:
    """All counts in one sample, so that they can be compared."""
    figures: dict[str, float] = {}
    counts = _counts(programs)
    for work, count in [*((ANY, count) for count in counts),
                        *((HOT, count) for count in counts
                          if count > HOT_PAIRS), (ANY, counts[0])]:
        said, proof = _run_and_prove(programs, work, name, count)
        key = f"{work} {count}"
        if key in figures:
            key = AGAIN
        figures[key] = said["usecs"] * 1000 / said["rounds"]
        figures[f"{key} pairs"] = said["count"]
        if name in OURS:
            figures[f"{key} tries"] = said["tries"] / said["rounds"]
    return Sample(figures, proof)


# --- rows -------------------------------------------------------------------


def _counted_row(series: Series, name: str, title: str, figure: str, unit: str,
                 goal: Goal | None = None) -> Row:
    return counted_row(series, figure, name="pipe", subject=name,
                       title=f"{title}: {name}", unit=unit, goal=goal)


def _pipe_rows(series: dict[str, Series]) -> list[Row]:
    def rate(name: str, peer: str, goal: Goal | None) -> Row:
        return row_of(series, name, peer, "GB/s", name="pipe", unit="GB/s",
                      title=f"pipe: {name}", goal=goal,
                      control=control_of(series, PEER, "GB/s"))

    rows = [rate(name, PEER, None) for name in (WORKER, CALLER)]
    rows += [rate(DEFAULT, peer, RATE_GOAL if peer in URINGS else None)
             for peer in PEERS]
    rows += [_counted_row(series[name], name, "switches", "switches", "each",
                          SWITCHES_GOAL if name == DEFAULT else None)
             for name in OURS]
    rows.append(row_of(series, WORKER, DEFAULT, "switches, if not none",
                       name="pipe", title=f"switches: {WORKER}", unit="each",
                       goal=FEWER_GOAL, is_timing=False))
    return rows


def _trip_rows(series: dict[str, Series], place: str) -> list[Row]:
    return [row_of(series, DEFAULT, peer, "trips", name="pipe", unit="1/s",
                   title=f"ping-pong{place}: uaio",
                   goal=TRIPS_GOAL if peer in URINGS else None,
                   control=control_of(series, PEER, "trips"))
            for peer in (*URINGS, PLAIN)]


def _flat_row(series: Series, name: str, work: str, few: int,
              many: int) -> Row:
    """Compare one of many waiting requests with one of few."""
    title = "event" if work == ANY else "event, hot"
    row = Row(name="pipe", title=f"{title}, {many} parked: {name}",
              figure=f"{work} {many}", unit="ns", subject=name,
              peer=f"{few} parked",
              goal=EVENT_GOAL if name == DEFAULT else None,
              note=f"{name}: {series.failure}" if series.failure else "",
              is_disproved=series.is_disproved)
    if series.failure:
        return row
    row.subject_values = series.values(row.figure)
    row.peer_values = series.values(f"{ANY} {few}")
    row.control = Spread.of_ratios(series.values(AGAIN), row.peer_values)
    row.proofs = {name: series.proof()}
    pairs = min(series.values(f"{row.figure} pairs"))
    if pairs < many:
        row.note = f"descriptors for {pairs:.0f} pairs of sockets, not {many}"
    return row


def _event_rows(series: dict[str, Series],
                counts: tuple[int, ...]) -> list[Row]:
    few, many = counts[0], counts[-1]
    rows = [_flat_row(series[name], name, work, few, many)
            for work in (ANY, HOT) for name in (DEFAULT, PEER, PLAIN)]
    rows += [row_of(series, DEFAULT, PEER, f"{ANY} {count}", name="pipe",
                    title=f"event, {count} parked: uaio", unit="ns",
                    control=control_of(series, PEER, f"{ANY} {count}"))
             for count in counts]
    return rows


# --- tables -----------------------------------------------------------------


def _pipe_tables(series: dict[str, Series]) -> list[Table]:
    tables = [Table(f"pipe.{name}", title, unit, "", ["4 KiB"], plot="bars",
                    logarithmic=logarithmic, beside=beside)
              for name, title, unit, logarithmic, beside in (
        ("rate", "Through a pipe", "GB/s", "", []),
        ("switches", "Context switches of a request", "each", "y", []),
        ("switches_per_s", "Context switches a second", "1/s", "y",
         [f"of pipetest, as posted in 2004: {what}: {switches}"
          for what, switches in SEED]),
        ("wakes", "Wake-ups of the fallback thread, of a request", "each", "",
         []))]
    figures = ("GB/s", "switches", "switches a second", "wakes")
    for table, figure in zip(tables, figures, strict=True):
        for name in OURS if figure == "wakes" else (*PEERS, *OURS):
            table.add(name, [series[name]], [figure])
    return tables


def _trip_table(all_series: dict[int, dict[str, Series]]) -> Table:
    table = Table("pipe.trips", "Round trips between two processes", "1/s", "",
                  ["anywhere", "1 processor", "2 processors"], plot="bars")
    for name in (*URINGS, PLAIN, DEFAULT):
        table.add(name, [series[name] for series in all_series.values()],
                  ["trips"])
    return table


def _event_tables(series: dict[str, Series],
                  counts: tuple[int, ...]) -> list[Table]:
    def table(name: str, title: str, unit: str, work: str, figure: str,
              variants: tuple[str, ...], plot: str) -> Table:
        made = Table(f"pipe.{name}", title, unit, "sockets parked",
                     [*counts], plot=plot, logarithmic="x" if plot else "")
        for variant in variants:
            made.add(variant, [series[variant]], [
                f"{work if work == ANY or count > HOT_PAIRS else ANY} {count}"
                f"{figure}" for count in counts])
        return made

    names = (*URINGS, PLAIN, DEFAULT)
    return [
        table("event", "One of many becomes ready", "ns", ANY, "", names,
              "lines"),
        table("event_hot", f"One of {HOT_PAIRS} of them does", "ns", HOT, "",
              names, "lines"),
        table("tries", "Requests tried for an event", "each", ANY, " tries",
              (DEFAULT,), "")]


def _series_of(programs: Programs, names: tuple[str, ...], what: str,
               measure: object, *arguments: object) -> dict[str, Series]:
    return alternate(
        {name: lambda name=name: measure(programs, name, *arguments)
         for name in names},
        programs.rounds, PEER, programs.progress, what)


def pipe_results(programs: Programs) -> list[Row | Table]:
    """The three works, each with its variants in turn."""
    pipe = _series_of(programs, (*PEERS, *OURS), "pipe", _measure_pipe)
    trips = {number: _series_of(programs, (*URINGS, PLAIN, DEFAULT),
                                f"ping-pong{place}", _measure_trips, number)
             for number, place in PLACES.items()}
    events = _series_of(programs, (*URINGS, PLAIN, DEFAULT), "event",
                        _measure_events)
    counts = _counts(programs)
    return [*_pipe_tables(pipe), _trip_table(trips),
            *_event_tables(events, counts), *_pipe_rows(pipe),
            *(row for number, place in PLACES.items()
              for row in _trip_rows(trips[number], place)),
            *_event_rows(events, counts)]
