# SPDX-License-Identifier: MIT
"""uaio bench posix: that it runs, and that what it prints is what ran."""
import os

from benchmark import (bench_of, expect_form, expect_lines, expect_proofs,
                       import_of_bench, tables_of)
from harness import case, expect, main

PROGRAM = ("aio_suspend, depth 1", "aio_suspend, depth 32", "LIO_WAIT, 32",
           "signal, depth 1", "SIGEV_THREAD, depth 1")
FIO = ("fio, cold read, depth 32", "fio, O_DIRECT read, depth 32",
       "fio, O_DIRECT write, depth 32", "fio, hot read, depth 1",
       "fio, hot read, depth 32")


@case("uaio bench measures POSIX AIO and writes rows that can be read")
def _(tool):
    outcome, rows = bench_of(tool, "posix")
    outcome.expect(out=None)
    expect_form(rows, "posix", lambda row: row["title"])
    expect([row["title"] for row in rows],
           [title + what for title in (*PROGRAM, *FIO)
            for what in ("", ": CPU time")], "rows")
    for row in rows:
        expect((row["subject"], row["peer"]), ("uaio", "glibc"), row["title"])
        expect(len(row["subject_values"]), 1, f"{row['title']}: {row['note']}")
        expect(row["goal"] is None, row["title"].endswith("CPU time")
               and "hot read, depth 32" not in row["title"],
               f"goal of {row['title']}")
    tables = tables_of(tool)
    expect(set(tables), {"posix.rate", "posix.cpu", "posix.fio_rate",
                         "posix.fio_cpu"}, "tables")
    expect_lines(tables["posix.rate"],
                 ("glibc", "uaio", "uaio, libaio", "pread"))
    expect(tables["posix.rate"]["columns"], [*PROGRAM], "works")
    expect_lines(tables["posix.fio_rate"], ("glibc", "uaio", "uaio, libaio"))
    expect(tables["posix.fio_rate"]["columns"], [*FIO], "fio's works")
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


def said_of(counted=None, contexts=0, threads=1):
    return {"all_requests": 1000, "threads": threads,
            "counted": counted and {"requests": counted,
                                    "contexts": contexts}}


TRUTHS = {"glibc": said_of(threads=2), "uaio": said_of(1000),
          "uaio, libaio": said_of(1000, 1), "pread": said_of()}


@case("on glibc and on uaio is proven by threads and counters")
def _(tool):
    posixaio = import_of_bench(tool, "posixaio")
    expect_proofs(posixaio, posixaio.proof_of, TRUTHS, [
        *((name, TRUTHS[other]) for name in TRUTHS for other in TRUTHS
          if name != other),
        ("uaio", said_of(999)), ("uaio", said_of(1000, 1)),
        ("uaio, libaio", said_of(1000, 0)), ("glibc", said_of()),
        ("pread", said_of(threads=2))])


if __name__ == "__main__":
    main()
