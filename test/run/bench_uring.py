# SPDX-License-Identifier: MIT
"""uaio bench uring: that it runs, and that what it prints is what ran."""
import os

from benchmark import (bench_of, expect_form, expect_lines, expect_proofs,
                       import_of_bench, tables_of)
from harness import case, expect, main

WORDS = ("no-ops, depth 1", "no-ops, depth 32", "no-ops, depth 1, SQPOLL",
         "reads, disk, depth 1", "reads, disk, depth 32",
         "reads, tmpfs, depth 1", "reads, tmpfs, depth 32",
         "no-ops by workers, depth 10: uaio, one list",
         "no-ops by workers, depth 10: uaio, private lists",
         "no-ops by workers, depth 10: lists",
         "no-ops by workers, depth 128: uaio, one list",
         "no-ops by workers, depth 128: uaio, private lists",
         "no-ops by workers, depth 128: lists", "idle Node", "idle QEMU",
         "added to epoll_wait without a ring", "added to poll without a ring",
         "added to mmap without a ring", "added to close without a ring")


@case("uaio bench measures io_uring and writes rows that can be read")
def _(tool):
    outcome, rows = bench_of(tool, "uring")
    import_of_bench(tool, "uring")
    outcome.expect(out=None)
    expect_form(rows, "uring", lambda row: row["title"])
    expect([row["title"] for row in rows], [*WORDS], "rows")
    for row in rows:
        expect(row["goal"] is None, row["title"].endswith("lists")
               and "uaio" not in row["title"], f"goal of {row['title']}")
        # What the machine has not, or forbids the peer.
        expect(bool(row["subject_values"]) or bool(row["note"]), True,
               row["title"])
        if not row["title"].startswith("idle"):
            expect(bool(row["subject_values"]), True, row["title"])
    tables = tables_of(tool)
    expect(set(tables), {"uring.rate", "uring.cpu", "uring.workers_rate",
                         "uring.workers_cpu"}, "tables")
    expect_lines(tables["uring.rate"], ("uaio", "plain"))
    expect_lines(tables["uring.workers_rate"],
                 ("uaio, one list", "uaio, private lists"))
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


def said_of(rings=0, counted=None, pollers=0, threads=1, worker=0):
    return {"all_requests": 1000, "rings": rings, "pollers": pollers,
            "threads": threads, "counted": counted and {
                "requests": counted, "worker": worker}}


PLAIN_RING = {"io_uring": said_of(1), "uaio": said_of(0, 1000),
              "plain": said_of()}
POLLED = {"io_uring": said_of(1, pollers=1, threads=2),
          "io_uring, spinning": said_of(1, pollers=1, threads=2),
          "uaio": said_of(0, 1000), "plain": said_of()}
BY_WORKERS = {"io_uring": said_of(1, threads=4),
              "uaio, one list": said_of(0, 1000, 0, 4, 1000),
              "uaio, private lists": said_of(0, 1000, 0, 4, 1000)}


def lies_of(truths, *more):
    """One variant that is another is disproved, if they differ."""
    return (*((name, truths[other]) for name in truths for other in truths
              if truths[name] != truths[other]), *more)


@case("on io_uring and on uaio is proven by rings, threads and counters")
def _(tool):
    uring = import_of_bench(tool, "uring")
    for work, truths, lies in (
            (uring.WORKS[0], PLAIN_RING, lies_of(
                PLAIN_RING, ("uaio", said_of(0, 999)),
                ("uaio", said_of(1, 1000)), ("io_uring", said_of(2)))),
            (uring.WORKS[2], POLLED, lies_of(
                POLLED, ("uaio", said_of(0, 1000, threads=2)),
                ("uaio", said_of(0, 1000, pollers=1)),
                ("io_uring", said_of(1)))),
            (uring.THROUGH_WORKERS[0], BY_WORKERS, lies_of(
                BY_WORKERS, ("uaio, one list", said_of(0, 1000, 0, 1, 1000)),
                ("uaio, one list", said_of(0, 1000, 0, 4, 999))))):
        expect_proofs(uring, lambda name, said, work=work: uring.proof_of(
            name, work, said), truths, lies)
    for name, said, lie in (("uaio", {"rings": 0, "ours": 1}, {"rings": 1}),
                            ("uaio", {"rings": 0, "ours": 1}, {"ours": 0}),
                            ("io_uring", {"rings": 2, "ours": 0}, {"ours": 1}),
                            ("io_uring", {"rings": 2, "ours": 0}, {"rings": 0})):
        expect_proofs(uring, uring.proof_of_idle, {name: said}, [(name, lie)])


if __name__ == "__main__":
    main()
