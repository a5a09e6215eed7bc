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
    expect({"files", "poll"} <= groups, True, "what takes neither root nor a disk")
    if os.geteuid() == 0:
        expect({"overlay", "fuse", "slow"} <= groups, True, "what takes root")
    expect(set(tables), {f"replaces.{group}_{figure}" for group in groups
                         for figure in FIGURES}, "tables")
    for group in groups:
        expect_lines(tables[f"replaces.{group}_request"], ("uaio",))
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


def said_of(rings, counted=None, processes=1):
    return {"requests": 1000, "rings_of_kernel_aio": rings,
            "counted": counted and {"requests": counted, "processes": processes}}


TRUTHS = {"kernel": said_of(2), "uaio": said_of(3, 1000),
          "threads": said_of(0)}
LIES = (*((name, TRUTHS[other]) for name in TRUTHS for other in TRUTHS
          if name != other),
        ("kernel", said_of(1)), ("uaio", said_of(0, 999)),
        ("uaio", said_of(0, 1000, 2)))
TWO = {"kernel": said_of(2), "uaio": said_of(0, 1000, 2), "threads": said_of(0)}
LIES_OF_TWO = (("kernel", said_of(1)), ("uaio", said_of(0, 1000, 1)),
               ("uaio", said_of(0, 500, 2)), ("threads", said_of(1)))


def work_of(replaces, options=(), processes=1):
    return replaces.Work("poll", "", "", options, processes=processes)


@case("on the kernel, on uaio and by plain threads is proven by counters")
def _(tool):
    replaces = import_of_bench(tool, "replaces")
    for work, truths, lies in (
            (work_of(replaces, ("-t2",)), TRUTHS, LIES),
            (work_of(replaces, processes=2), TWO, LIES_OF_TWO)):
        expect_proofs(replaces.fio,
                      lambda name, said, work=work: replaces.proof_of(name, work, said),
                      truths, lies)


@case("what the library counted in two processes is added up")
def _(tool):
    replaces = import_of_bench(tool, "replaces")
    expect(replaces.counted_of([{"requests": 3}, {"requests": 4}]),
           {"processes": 2, "requests": 7}, "two processes")
    expect(replaces.counted_of([]), None, "none")


if __name__ == "__main__":
    main()
