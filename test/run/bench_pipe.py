# SPDX-License-Identifier: MIT
"""uaio bench pipe: that it runs, and that what it prints is what ran."""
import json
import os
import resource

from benchmark import (bench_of, bench_on_answers, disproved_of, expect_form,
                       expect_lines, expect_proofs, import_of_bench,
                       tables_of)
from harness import NOBODY, case, expect, main

WORKER, CALLER = "worker-for-each", "caller-runs"
DEFAULT = "caller-runs+delayed-kick"
OURS = (WORKER, CALLER, DEFAULT)
URINGS = ("io_uring", "io_uring+deferred")
PEERS = (*URINGS, "kernel", "threads", "plain")
PLACES = ("", ", 1 processor", ", 2 processors")
COUNTS = (10, 1000)  # of --quick
COUNTED = ("switches",)  # so there may be none
TABLES = {"rate", "switches", "switches_per_s", "wakes", "trips", "event",
          "event_hot", "tries"}


def key(row):
    return row["title"], row["peer"]


def expect_pipe_rows(rows, peers=PEERS, names=OURS):
    """Each figure of each variant, and nothing that could not be read."""
    expect_form(rows, "pipe", key)
    by_key = {key(row): row for row in rows}
    keys = [(f"switches: {name}", None) for name in names]
    keys.append((f"switches: {WORKER}", DEFAULT))
    keys += [(f"pipe: {DEFAULT}", peer) for peer in peers]
    keys += [(f"event{hot}, {COUNTS[-1]} parked: {DEFAULT}",
              f"{COUNTS[0]} parked") for hot in ("", ", hot")]
    # One processor may be all there is.
    keys += [(f"ping-pong{place}: uaio", peer)
             for place in PLACES[:1 + len(os.sched_getaffinity(0))]
             for peer in peers if peer in (*URINGS, "plain")]
    if "io_uring" in peers:
        keys += [(f"pipe: {name}", "io_uring") for name in names]
        keys += [(f"event, {count} parked: uaio", "io_uring")
                 for count in COUNTS]
    for wanted in keys:
        expect(by_key[wanted]["note"], "", str(wanted))
        values = by_key[wanted]["subject_values"]
        expect(len(values), 1, str(wanted))
        if by_key[wanted]["figure"] not in COUNTED:
            expect(values[0] > 0, True, str(wanted))


def expect_pipe_tables(tables, peers=PEERS, names=OURS):
    expect(set(tables), {f"pipe.{name}" for name in TABLES}, "tables")
    expect_lines(tables["pipe.rate"], (*peers, *names))
    for name in ("switches", "switches_per_s"):
        expect_lines(tables[f"pipe.{name}"], (*peers, *names), True)
    expect_lines(tables["pipe.wakes"], names, True)
    for name in ("event", "event_hot"):
        expect_lines(tables[f"pipe.{name}"],
                     {*peers, *names} & {*URINGS, "plain", DEFAULT})
    expect_lines(tables["pipe.tries"], {*names} & {DEFAULT})
    expect(tables["pipe.event"]["columns"], [*COUNTS], "sockets parked")
    # One processor may be all there is.
    for variant in {*peers, *names} & {*URINGS, "plain", DEFAULT}:
        measured = tables["pipe.trips"]["lines"][variant]
        expect(all(measured[:1 + len(os.sched_getaffinity(0))]), True, variant)


@case("uaio bench measures pipes and writes rows that can be read")
def _(tool):
    # Its thread is woken at once, and may be too late for any of a few
    # milliseconds: whether it gets a processor is the machine's doing.
    excused = {CALLER}
    outcome, rows = bench_of(tool, "pipe", excused)
    disproved = disproved_of(rows)
    expect(disproved - excused, set(), outcome.story)
    outcome.expect(status=1 if disproved else 0, out=None)
    rows = [row for row in rows if row["verdict"] != "disproved"]
    # What the machine forbids, or what the program was built without.
    peers = [peer for peer in PEERS if any(
        row["peer_values"] for row in rows if row["peer"] == peer)]
    for peer in set(PEERS) - set(peers):
        expect(any(f"{peer}: " in row["note"] for row in rows), True,
               f"why there is no {peer}")
    expect({"threads", "plain"} <= set(peers), True, f"{peers}: peers")
    expect_pipe_rows(rows, peers,
                     [name for name in OURS if name not in disproved])
    expect_pipe_tables(tables_of(tool), peers,
                       [name for name in OURS if name not in disproved])
    for text in ("600 000", "360 000", "about 30"):
        expect(text in outcome.out, True, f"the figure {text} beside ours")
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


# What the program says of each variant where all is as it should be.
def said_of(work, name, rounds, count=0):
    said = dict(work=work, variant=name, rounds=rounds, usecs=float(rounds),
                switches=rounds // 1000, rings_of_io_uring=2 * (name in URINGS),
                rings_of_kernel_aio=int(name == "kernel"))
    if count:
        said["count"] = count
    if name in OURS:
        said |= dict(parked=rounds, by_caller=rounds, by_fallback=0,
                     fallback_wakes=0, tries=rounds, sleeps=0, events=0, arms=0)
    if name == WORKER:
        said |= dict(by_caller=0, by_fallback=rounds, fallback_wakes=rounds)
    if name == CALLER:
        said |= dict(by_caller=rounds - 300, by_fallback=300,
                     fallback_wakes=rounds // 2)
    if work == "ping-pong":
        said["other"] = dict(said)
    return said


LIES = (
    *((name, {"rings_of_kernel_aio": 1, "rings_of_io_uring": 2})
      for name in (*PEERS, *OURS)),
    *((name, {"rings_of_kernel_aio": 0, "rings_of_io_uring": 0})
      for name in (*URINGS, "kernel")),
    *((name, {"rings_of_io_uring": 2}) for name in ("threads", "plain", *OURS)),
    *((name, {"parked": 999}) for name in OURS),
    *((name, {"parked": 0, "by_caller": 0, "by_fallback": 0}) for name in OURS),
    *((name, {"by_fallback": 999}) for name in OURS),
    (WORKER, {"by_caller": 1, "by_fallback": 999}),
    (WORKER, {"sleeps": 1}),
    (WORKER, {"fallback_wakes": 1}),
    (CALLER, {"fallback_wakes": 1}),
    (CALLER, {"by_caller": 0, "by_fallback": 1000}),
    (DEFAULT, {"by_caller": 900, "by_fallback": 100}),
    (DEFAULT, {"fallback_wakes": 100}),
    *((name, said_of("pipe", other, 1000))
      for name in OURS for other in OURS if name != other),
)


@case("each variant of readiness is proven by its counters and no others")
def _(tool):
    pipe = import_of_bench(tool, "pipe")
    expect_proofs(pipe, pipe.proof_of,
                  {name: said_of("pipe", name, 1000)
                   for name in (*PEERS, *OURS)}, LIES)
    expect_proofs(pipe, pipe.proof_of,
                  {name: said_of("ping-pong", name, 1000)
                   for name in (*URINGS, "plain", DEFAULT)},
                  ((DEFAULT, {"parked": 10, "by_caller": 10}),
                   (DEFAULT, {"other": said_of("pipe", WORKER, 1000)})))
    expect_proofs(pipe, pipe.proof_of,
                  {DEFAULT: said_of("parked", DEFAULT, 1000, 10000)},
                  ((DEFAULT, {"tries": 100_000}),))


def bench_pipe(tool, swapped, most=1000):
    """The row with answers of variants, some of which did what another does, and
    at most so many pairs of sockets."""
    works = [("pipe", 0), *(("ping-pong", number) for number in range(3)),
             *((work, count) for work in ("parked", "parked-hot")
               for count in COUNTS)]
    return bench_on_answers(tool, "pipe", "$1 $2 ${4:-0}", {
        f"{work} {name} {count}":
            said_of(work, swapped.get(name, name), 1000,
                    min(count, most) if work.startswith("parked") else 0)
            | {"variant": name}
        for name in (*PEERS, *OURS) for work, count in works})


@case("variants of readiness with their labels transposed fail the benchmark")
def _(tool):
    outcome, rows = bench_pipe(tool, {})
    outcome.expect(out=None)
    expect_pipe_rows(rows)
    expect_pipe_tables(tables_of(tool))
    swapped = {CALLER: DEFAULT, DEFAULT: CALLER}
    outcome, rows = bench_pipe(tool, swapped)
    expect(outcome.status, 1, f"status with labels transposed\n{outcome.story}")
    for row in rows:
        expect(row["verdict"] == "disproved",
               bool({row["subject"], row["peer"]} & set(swapped)),
               row["title"])


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))


@case("where descriptors are few the benchmark has fewer sockets and says so")
def _(tool):
    program = tool.copy(os.path.dirname(tool.uaio) + "/bench/pipe", "pipe")
    outcome = tool.exec(
        program, "parked", "plain", "100", "1000", preexec_fn=few_descriptors,
        user=NOBODY if os.geteuid() == 0 else None).expect(out=None)
    expect(json.loads(outcome.out)["count"], 100, "pairs of sockets")
    outcome, rows = bench_pipe(tool, {}, 100)
    notes = {row["note"] for row in rows if "1000 parked" in row["title"]
             and row["peer"] == "10 parked"}
    expect(notes, {"descriptors for 100 pairs of sockets, not 1000"},
           outcome.story)


if __name__ == "__main__":
    main()
