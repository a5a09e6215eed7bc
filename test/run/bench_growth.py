# SPDX-License-Identifier: MIT
"""uaio bench growth: that it runs, and that what it prints is what ran."""
import os

from benchmark import bench_of, expect_form, import_of_bench, tables_of
from harness import case, expect, main


@case("uaio bench measures how costs grow and writes rows that can be read")
def _(tool):
    outcome, rows = bench_of(tool, "growth")
    growth = import_of_bench(tool, "growth")
    outcome.expect(out=None)
    expect_form(rows, "growth", lambda row: row["title"])
    expect([row["title"].rpartition(", ")[0] for row in rows],
           [operation.title for operation in growth.ALL], "rows")
    for row in rows:
        # What the machine forbids the peer.
        expect(bool(row["subject_values"]) or bool(row["note"]), True,
               row["title"])
    tables = tables_of(tool)
    names = [operation.name for operation in growth.ALL]
    expect(set(tables), {f"growth.{name}" for name in [*names, "exponents"]},
           "tables")
    expect(set(tables["growth.exponents"]["words"]),
           set(tables["growth.exponents"]["lines"]), "lines with words")
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


def said_of(n, ns, is_ours, has_ring=True):
    return {"n": n, "ns": ns, "ops": 10, "has_library": is_ours,
            "has_kernel_ring": has_ring and not is_ours}


@case("an exponent that exceeds the peer's is named, and one from noise is not")
def _(tool):
    growth = import_of_bench(tool, "growth")
    harness = __import__("harness")
    operation = growth.Operation("made-up", "a made-up operation")

    def named(cost, rounds=9, noise=1.0):
        series = {name: harness.Series() for name in ("kernel", "uaio",
                                                      "control")}
        for number in range(1, rounds + 1):
            for name in series:
                sample = growth.sample_of(
                    operation, "uaio" if name == "uaio" else "kernel",
                    [said_of(n, cost(n) if name == "uaio" else
                             500.0 * (noise if name == "control" else 1.0),
                             name == "uaio") for n in growth.POWERS])
                sample.round = number
                series[name].samples.append(sample)
        found = growth.growth_of(operation, growth.POWERS, series)
        return bool(found.named()), found.verdict()

    expect(named(lambda n: 500.0), (False, "met"), "a cost that is flat")
    expect(named(lambda n: 400.0 + n), (True, "missed, grows faster"),
           "a cost that grows")
    expect(named(lambda n: 500.0 + n / 100), (False, "missed"),
           "a cost that hardly grows")
    expect(named(lambda n: 500.0, noise=1.1), (False, "too noisy here"),
           "a peer that differs from itself")
    expect(named(lambda n: 500.0, rounds=8), (False, "too few pairs"),
           "eight rounds")
    for lie in (said_of(1, 1.0, False), said_of(1, 1.0, True) | {
            "has_kernel_ring": True}):
        try:
            growth.sample_of(operation, "uaio", [lie])
        except harness.Disproved:
            continue
        raise AssertionError(f"{lie}: not disproved")


@case("a row without a goal says that the machine was too noisy")
def _(tool):
    rows = import_of_bench(tool, "rows")
    for control, pairs, wanted in ((1.0, 9, "no goal"), (0.9, 9, rows.NOISY),
                                   (1.06, 9, rows.NOISY), (0.9, 1, "no goal")):
        row = rows.Row("a", "a", "a", "ns", "kernel",
                       peer_values=[1.0] * pairs, subject_values=[1.0] * pairs,
                       control=rows.Spread(control, control, control))
        expect(row.verdict(), wanted, f"control {control}, {pairs} pairs")


if __name__ == "__main__":
    main()
