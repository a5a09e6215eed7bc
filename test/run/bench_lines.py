# SPDX-License-Identifier: MIT
"""uaio bench lines: which cache lines two threads write."""
import os

from benchmark import import_of_bench
from harness import case, expect, main

MARKS = 0x1000
LOG = """==1== Lackey
 S 5000,8
--1--   SCHED[2]:  acquired lock (VG_(scheduler))
 S 1000,8
I  400000,3
 S 5000,8
 M 6010,4
 L 7000,8
--1--   SCHED[3]:  acquired lock (VG_(scheduler))
 S 7000,8
 S 1010,8
 S 5038,8
 S 7008,8
 L 6000,8
 S 1018,8
 S 6000,8
--1--   SCHED[2]:  acquired lock (VG_(scheduler))
 S 1008,8
 S 7010,8
"""


@case("a cache line is shared where both threads write it between their marks")
def _(tool):
    lines = import_of_bench(tool, "lines")
    found = lines.written(LOG.splitlines(keepends=True), MARKS)
    expect({number * lines.LINE: dict(line.writes)
            for number, line in found.items()},
           {0x5000: {2: 1, 3: 1}, 0x6000: {2: 1}, 0x7000: {3: 1}}, "lines")
    expect(found[0x5000 // lines.LINE].at, {0x5000, 0x5038}, "addresses")


@case("the program whose cache lines are counted makes each kind of request")
def _(tool):
    program = os.path.join(tool.args.build, "bench/lines")
    for work in ("nop", "read", "pipe"):
        outcome = tool.exec(tool.uaio, "run", "--uring=always", "--", program,
                            work, "20").expect(out=None)
        expect("libuaio" in outcome.out, True, f"{work}: the memory map")


if __name__ == "__main__":
    main()
