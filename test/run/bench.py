# SPDX-License-Identifier: MIT
"""uaio bench: that it runs, and that what it prints is what ran."""
import os

from benchmark import (bench_of, bench_on_answers, disproved_of, expect_form,
                       expect_lines, expect_proofs, import_of_bench,
                       tables_of)
from harness import case, expect, main

OURS = ("single", "single+batches", "round-robin", "packed", "packed+batches")
DEPTHS = (10, 128)  # of --quick
FIGURES = ("contended", "late", "wakes")


def expect_nop_tables(tables, has_peer, names=OURS):
    """Each figure of each variant under each depth."""
    expect(set(tables), {f"nop.{figure}" for figure in ("items", *FIGURES)},
           "tables")
    for figure in FIGURES:
        expect_lines(tables[f"nop.{figure}"], names, may_be_none=True)
    expect_lines(tables["nop.items"],
                 (*names, *(["io_uring"] if has_peer else [])))
    expect(tables["nop.items"]["columns"], [*DEPTHS], "depths")


def expect_nop_rows(rows, has_peer, names=OURS):
    """Check that each variant has a row, and that no row is unreadable."""
    expect_form(rows, "nop", lambda row: row["title"])
    by_title = {row["title"]: row for row in rows}
    for depth in DEPTHS:
        for name in names:
            row = by_title[f"no-ops, depth {depth}: {name}"]
            expect(row["subject"], name, row["title"])
            expect(row["pairs"], 1, row["title"])
            expect(row["note"] if has_peer else "", "", row["title"])
            expect(row["subject_values"][0] > 0, True, row["title"])
            expect(len(row["peer_values"]), int(has_peer), row["title"])
            expect(bool(row["ratio"]), has_peer, row["title"])
    idle = {row["subject"] for row in rows if row["figure"] == "idle CPU"}
    expect(idle >= {"io_uring", *names}, True, f"{idle}: variants whose idling was measured")
    best = [row for row in rows if row["title"].startswith("best, depth")]
    if "single+batches" in names:
        expect([row["peer"] for row in best], ["single+batches"] * len(DEPTHS),
               "what the best is compared with")


@case("uaio bench measures no-ops and writes rows that can be read")
def _(tool):
    # Whether work items find a worker awake, and each other, is the machine's doing.
    excused = {"packed", "packed+batches", "single+batches"}
    outcome, rows = bench_of(tool, "nop", excused)
    disproved = disproved_of(rows)
    expect(disproved - excused, set(), outcome.story)
    outcome.expect(status=1 if disproved else 0, out=None)
    # What the machine forbids, or what the program was built without.
    has_peer = any(row["peer_values"] for row in rows
                   if row["peer"] == "io_uring")
    expect(has_peer or any("io_uring: " in row["note"] for row in rows), True,
           "why there is no peer")
    expect_nop_rows([row for row in rows if row["verdict"] != "disproved"],
                    has_peer, set(OURS) - disproved)
    expect_nop_tables(tables_of(tool), has_peer, set(OURS) - disproved)
    for text in ("400–500 k", "1.6 M", "1.12–1.18 M", "1.91–2.08 M"):
        expect(text in outcome.out, True, f"the figure {text} beside ours")
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


# What nop says of each variant where all is as it should be.
def said_of(name, rounds, depth):
    items = rounds * depth
    said = dict(variant=name, rounds=rounds, depth=depth, usecs=1000,
                items_per_s=items * 1000, idle_cpu_us=0.0, workers=4, fixed=3,
                private=items, public=0, shared=0, switches=1, stolen=0,
                late=0, locked=items, contended=0, wakes=1, posted=100, posts=100,
                placed=[items, 0, 0])
    if name == "round-robin":
        said["placed"] = [items - 2 * (items // 3), items // 3, items // 3]
        said["switches"] = items
    if name.startswith("single"):
        said |= dict(fixed=0, private=0, public=items, placed=[])
    if name.endswith("batches"):
        said["posts"] = 25
    return said


LIES = (
    ("single", {"private": 1, "public": 999}),
    ("single", {"public": 999}),
    ("single", {"fixed": 3}),
    ("single", {"workers": 5}),
    ("single", {"posts": 25}),
    ("single+batches", {"posts": 100}),
    ("round-robin", {"placed": [1000, 0, 0]}),
    ("round-robin", {"fixed": 0, "placed": []}),
    ("round-robin", {"fixed": 2, "placed": [500, 500]}),
    ("round-robin", {"workers": 5}),
    ("round-robin", {"posts": 25}),
    ("packed", {"switches": 1000}),
    ("round-robin", {"switches": 10}),
    ("packed", {"placed": [100, 0, 0]}),
    ("packed", {"private": 400, "public": 600, "placed": [400, 0, 0]}),
    ("packed+batches", {"posts": 100}),
    ("io_uring", {"workers": 0}),
)


@case("each variant of the work queue is proven by its counters and no others")
def _(tool):
    nop = import_of_bench(tool, "nop")
    expect_proofs(nop, nop.proof_of,
                  {name: said_of(name, 100, 10) for name in ("io_uring", *OURS)},
                  LIES)


def bench_nop(tool, swapped):
    """Run the row on made-up answers of variants, some of which did what another one
    does."""
    return bench_on_answers(tool, "nop", "$1 $3", {
        f"{name} {depth}": said_of(swapped.get(name, name), 100, depth)
        | {"variant": name}
        for name in ("io_uring", *OURS) for depth in DEPTHS})


@case("variants with their labels transposed fail the benchmark")
def _(tool):
    outcome, rows = bench_nop(tool, {})
    outcome.expect(out=None)
    expect_nop_rows(rows, True)
    expect_nop_tables(tables_of(tool), True)
    expect({row["verdict"] for row in rows} & {"unproven", "disproved"}, set(),
           "verdicts with the right labels")
    swapped = {"packed": "round-robin", "round-robin": "packed"}
    outcome, rows = bench_nop(tool, swapped)
    expect(outcome.status, 1, f"status with labels transposed\n{outcome.story}")
    for row in rows:
        expect(row["verdict"] == "disproved", row["subject"] in swapped,
               row["title"])
    for name, table in tables_of(tool).items():
        expect(table["is_disproved"], True, name)
        expect(set(table["notes"]), set(swapped), name)
        for variant in swapped:
            expect(table["lines"][variant], [[]] * len(DEPTHS), name)


@case("uaio bench refuses in one line what it cannot do")
def _(tool):
    bench = (tool.uaio, "bench")
    for arguments, words in (
        (("no-such-row",), ("no such row", "no-such-row")),
        (("--pairs", "0", "nop"), ("--pairs",)),
        (("--pairs", "x", "nop"), ("--pairs", "x")),
        (("--fast", "nop"), ("--fast",)),
        (("--json", "/nonexistent/rows", "nop"), ("/nonexistent/rows",)),
        (("--dir", "/nonexistent", "nop"), ("/nonexistent",)),
    ):
        tool.exec(*bench, *arguments).expect_refusal(2, *words)
    tool.exec(*bench, "nop", env={"PATH": "/nonexistent"}).expect_refusal(
        127, "python3")
    alone = tool.copy(tool.args.uaio, "bin/uaio")
    tool.exec(alone, "bench", "nop").expect_refusal(2, "bench", "run.py")


@case("uaio bench shows its options without its script")
def _(tool):
    alone = tool.copy(tool.args.uaio, "bin/uaio")
    wanted = tool.exec(tool.uaio, "bench", "--help").expect(out=None).out
    for option in ("--quick", "--pairs", "--json", "--dir", "--help"):
        expect(option in wanted, True, f"{option} in the help")
    tool.exec(alone, "bench", "-h").expect(out=wanted)
    tool.exec(alone, "help", "bench").expect(out=wanted)


if __name__ == "__main__":
    main()
