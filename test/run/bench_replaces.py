# SPDX-License-Identifier: MIT
"""uaio bench replaces: that it runs, and that what it prints is what ran."""
import os

from benchmark import (bench_of, expect_form, expect_lines, expect_proofs,
                       import_of_bench, tables_of)
from harness import case, expect, main

FIGURES = ("request", "cpu", "switches")


@case("uaio bench measures what uaio replaces and writes rows that can be read")
def _(tool):
    outcome, rows = bench_of(tool, "replaces")
    replaces = import_of_bench(tool, "replaces")
    outcome.expect(out=None)
    expect_form(rows, "replaces", lambda row: row["title"])
    expect({row["title"] for row in rows},
           {work.title for work in replaces.WORKS}, "rows")
    for row in rows:
        # What takes root, or what the machine forbids the peer.
        expect(bool(row["subject_values"]) or bool(row["note"]), True,
               row["title"])
    tables = tables_of(tool)
    measured = {row["title"] for row in rows if row["subject_values"]}
    groups = {work.group for work in replaces.WORKS
              if work.title in measured}
    expect("files" in groups, True, "what takes neither root nor a disk")
    if os.geteuid() == 0:
        expect({"overlay", "fuse", "slow"} <= groups, True, "what takes root")
    expect(set(tables), {f"replaces.{group}_{figure}" for group in groups
                         for figure in FIGURES}, "tables")
    for group in groups:
        expect_lines(tables[f"replaces.{group}_request"], ("uaio",))
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


def said_of(rings, counted=None):
    return {"requests": 1000, "rings_of_kernel_aio": rings,
            "counted": counted and {"requests": counted}}


TRUTHS = {"kernel": said_of(2), "uaio": said_of(0, 1000),
          "threads": said_of(0)}
LIES = (*((name, TRUTHS[other]) for name in TRUTHS for other in TRUTHS
          if name != other),
        ("kernel", said_of(1)), ("uaio", said_of(0, 999)))


@case("on the kernel, on uaio and by plain threads is proven by counters")
def _(tool):
    replaces = import_of_bench(tool, "replaces")
    expect_proofs(replaces.fio, lambda name, said: replaces.proof_of(name, 2, said),
                  TRUTHS, LIES)


if __name__ == "__main__":
    main()
