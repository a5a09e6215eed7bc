# SPDX-License-Identifier: MIT
"""uaio bench trap: that it runs, and that what it prints is what ran."""
import os
import sys

from benchmark import bench_of, expect_form, expect_proofs, import_of_bench
from harness import case, expect, main

ADDED = ("added at a jump: the kernel's call", "of it, by dispatch alone",
         "of it, by the jump", "added at a jump: the library's call",
         "the same, which makes one itself",
         "added in a dynamic program: its own instruction",
         "added in a dynamic program: a function of its C library")
TAKEN = ("a place that stays", "first call, page changed before",
         "first call, page not changed before")
WITHOUT_GOAL = (*ADDED[1:3], *ADDED[4:], TAKEN[0])


@case("uaio bench measures the trap and writes rows that can be read")
def _(tool):
    outcome, rows = bench_of(tool, "trap")
    outcome.expect(out=None)
    expect_form(rows, "trap", lambda row: row["title"])
    expect([row["title"] for row in rows], [*ADDED, *TAKEN], "rows")
    for row in rows:
        expect(len(row["subject_values"]), 1, f"{row['title']} {row['note']}")
        expect(row["goal"] is None, row["title"] in WITHOUT_GOAL,
               f"goal of {row['title']}")
        if row["title"] in TAKEN:
            # A signal is not had for the price of a call.
            expect(row["ratio"]["median"] > 2, True, row["title"])
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


def said_of(jumps=0, libraries=0):
    return {"jumps": jumps, "libraries": libraries}


@case("a call under the trap is proven by the jump and the library")
def _(tool):
    trap = import_of_bench(tool, "trap")
    truths = {trap.PLAIN: said_of(), trap.TRAP: said_of(3, 6),
              trap.SWITCHED: said_of(), trap.ENTER: said_of(1, 6),
              trap.LOADED: said_of(0, 6), trap.DYNAMIC: said_of(),
              trap.DYNAMIC_TRAP: said_of(1, 6)}
    expect_proofs(sys.modules["proof"], trap.proof_of, truths, (
        *((name, truths[other]) for name in truths for other in truths
          if truths[name] != truths[other]),
        (trap.TRAP, said_of(2, 6)), (trap.PLAIN, said_of(1))))


if __name__ == "__main__":
    main()
