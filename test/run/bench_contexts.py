# SPDX-License-Identifier: MIT
"""uaio bench contexts: that it runs, and that what it prints is what ran."""
import os
import shutil
import sys

from benchmark import (bench_of, disproved_of, expect_form, expect_lines,
                       expect_proofs, import_of_bench, rows_of, tables_of)
from harness import case, expect, main

INDEXES = ("table", "list", "radix")
LIBRARIES = ("uaio", "list", "radix", "kernel")
COUNTS = [1, 16, 1024]  # of --quick
TURNS = [1, 512]
JOBS = ["512 jobs", "1 job"]
# The columns and the variants of each table; columns of None: how many threads.
TABLES = {
    "contexts.lookup": (COUNTS, ("uaio", "kernel")),
    "contexts.index": (COUNTS, INDEXES),
    "contexts.threads": (None, INDEXES),
    "contexts.bytes_dense": (COUNTS, INDEXES),
    "contexts.bytes_sparse": (COUNTS, INDEXES),
    "contexts.request": (TURNS, LIBRARIES),
    "contexts.share": (TURNS, LIBRARIES),
    "contexts.jobs": (JOBS, (*INDEXES, "kernel")),
    "contexts.jobs_cpu": (JOBS, (*INDEXES, "kernel")),
}
PARTS = ("lookup", "index", "requests", "index-jobs", "memory")
NODE = 528  # bytes of the radix tree
HAS_FIO = bool(shutil.which("fio"))


def expect_tables(tables):
    """Each with every variant; the kernel may be forbidden, and says why."""
    expect(set(tables), {name for name in TABLES
                         if HAS_FIO or "jobs" not in name}, "tables")
    for name, table in tables.items():
        columns, variants = TABLES[name]
        if columns is None:
            columns = table["columns"]
            expect(columns[0], 1, name)
            expect(columns[-1], len(os.sched_getaffinity(0)), name)
        expect(table["columns"], columns, name)
        expect(set(table["lines"]), set(variants), name)
        expect(set(table["notes"]) <= {"kernel"}, True, table["notes"])
        # What finding a context is of a request may be less than the noise.
        expect_lines(table, set(variants) - set(table["notes"]),
                     name == "contexts.share")
        for variant, proof in table["proofs"].items():
            # Of a short run of the kernel's the ring may not have been seen.
            expect(variant == "kernel" or bool(proof), True,
                   f"{name}: proof of {variant}")


def expect_bytes(tables):
    """They are counted, not measured, and the same everywhere."""
    dense, sparse = (tables[f"contexts.bytes_{places}"]["lines"]
                     for places in ("dense", "sparse"))
    expect(dense["list"], [[32.0]] * len(COUNTS), "bytes of the list")
    expect(sparse["list"], dense["list"], "bytes of the list")
    expect(sparse["table"], dense["table"], "bytes of the table")
    expect(sparse["radix"][0], [NODE], "a tree with one low handle")
    # 0x4000 to 0x400000000000 four bits apart, and seven scattered.
    expect(sparse["radix"][1], [63 * NODE / 16], "a tree with few to share")
    expect(dense["radix"][2][0] < 2 * 8 + 1, True, "a tree that is shared")


@case("uaio bench measures contexts and writes tables that can be read")
def _(tool):
    outcome, rows = bench_of(tool, "contexts")
    outcome.expect(out=None)
    tables = tables_of(tool)
    expect_tables(tables)
    expect_bytes(tables)
    for part in PARTS:
        expect_form([row for row in rows if row["name"] == part], part,
                    lambda row: (row["title"], row["peer"]))
        expect(any(row["subject_values"] for row in rows
                   if row["name"] == part),
               part != "index-jobs" or HAS_FIO, part)
    for text in ("7384", *(["84 % on 32"] if HAS_FIO else [])):
        expect(text in outcome.out, True, f"the figure {text} beside ours")
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


def said(*lines):
    return {"lines": [{"pid": 1, "index": index, "put": put}
                      for index, put in lines]}


@case("each index is proven by what its library says and no others")
def _(tool):
    indexes = import_of_bench(tool, "indexes")
    truths = {"uaio": said(), "table": said(), "list": said(("list", 512)),
              "radix": said(("radix", 500), ("radix", 12))}
    expect_proofs(
        indexes,
        lambda who, what: indexes.prove_index(who, what["lines"], 512), truths,
        (*((who, truths[other]) for who in truths for other in truths
           if truths[who] != truths[other]),
         ("list", said(("list", 511))),
         ("list", said(("list", 512), ("radix", 1))),
         ("table", said(("list", 1)))))


def bench_with(tool, libraries, *names):
    """Rows where libraries are others than their names say."""
    built = os.path.dirname(tool.uaio) + "/bench"
    helpers = tool.path("helpers")
    os.makedirs(helpers)
    for name in ("requests", "libuaio-list.so", "libuaio-radix.so"):
        os.symlink(libraries.get(name, f"{built}/{name}"), f"{helpers}/{name}")
    path = tool.path("rows.jsonl")
    outcome = tool.exec(
        sys.executable, "-B", tool.args.source + "/bench/run.py", "--uaio",
        tool.uaio, "--helpers", helpers, "--quick", "--pairs", "1", "--dir",
        tool.scratch, "--json", path, *names)
    return outcome, rows_of(path)


@case("a library with another index than its name says fails the benchmark")
def _(tool):
    built = os.path.dirname(tool.uaio) + "/bench"
    outcome, rows = bench_with(
        tool, {"libuaio-list.so": f"{built}/libuaio-radix.so",
               "libuaio-radix.so": os.path.realpath(tool.args.library)},
        "requests", *(["index-jobs"] if HAS_FIO else []))
    outcome.expect(status=1, out=None)
    for row in rows:
        if row["peer"] in ("list", "radix"):
            expect(row["verdict"], "disproved", f"{row['title']} {row['note']}")
    expect(disproved_of([row for row in rows if row["peer"] == "kernel"]),
           set(), "what was what its name says")
    for name, table in tables_of(tool).items():
        expect(table["is_disproved"], True, name)
        expect({"list", "radix"} <= set(table["notes"]), True, name)


if __name__ == "__main__":
    main()
