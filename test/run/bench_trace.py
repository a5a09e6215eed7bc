# SPDX-License-Identifier: MIT
"""uaio bench trace: that it runs, and that what it prints is what ran."""
import os

from benchmark import bench_of, expect_form, tables_of
from harness import case, expect, main

JOBS = ("1 KiB hot read, depth 1", "1 KiB hot read, depth 32")
TRACED = ("traced", "traced, --errors")


@case("uaio bench measures what a trace costs and writes rows that can be read")
def _(tool):
    outcome, rows = bench_of(tool, "trace")
    outcome.expect(out=None)
    expect_form(rows, "trace", lambda row: row["title"])
    expect([row["title"] for row in rows],
           [f"{job}, {how}" for job in JOBS for how in TRACED], "rows")
    for row in rows:
        expect(row["peer"], "uaio", row["title"])
        expect(len(row["subject_values"]), 1, f"{row['title']}: {row['note']}")
        expect(row["goal"] is None, "depth 32" in row["title"],
               f"goal of {row['title']}")
    tables = tables_of(tool)
    expect(set(tables), {"trace.lost.hot-read", "trace.lost.hot-read-32"},
           "tables")
    for table in tables.values():
        expect(set(table["lines"]), set(TRACED), "lines")
        for name, (values,) in table["lines"].items():
            expect([0 <= value < 1 for value in values], [True], name)
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


main()
