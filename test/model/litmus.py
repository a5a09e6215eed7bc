# SPDX-License-Identifier: MIT
"""Litmus tests: what the machine of weak.pml has to allow and to forbid.

A test has its threads between "|". x=1 is a relaxed store, a=x a relaxed load into
the register a, a+x adds 1 to x and loads the old value; after a dot is the order:
rel, acq, ar or sc. "fence" is a seq_cst fence. The outcome names registers, and
X or Y for the last value of a location. What is said is what C11 says, as RC11 has
it, but for the tests of OTHERWISE.
"""
import re

MODES = {"": 0, "acq": 1, "rel": 2, "ar": 3}
STORE, LOAD, ADD, FENCE = range(4)

# (name, threads, outcome, whether it is allowed)
TESTS = [
    # Message passing.
    ("MP", "x=1; y=1 | a=y; b=x", "a=1 b=0", True),
    ("MP rel", "x=1; y.rel=1 | a=y; b=x", "a=1 b=0", True),
    ("MP acq", "x=1; y=1 | a=y.acq; b=x", "a=1 b=0", True),
    ("MP rel acq", "x=1; y.rel=1 | a=y.acq; b=x", "a=1 b=0", False),
    ("MP sc", "x=1; y.sc=1 | a=y.sc; b=x", "a=1 b=0", False),
    ("MP, sc data alone", "x.sc=1; y=1 | a=y; b=x.sc", "a=1 b=0", True),
    ("MP fences", "x=1; fence; y=1 | a=y; fence; b=x", "a=1 b=0", False),
    ("MP one fence", "x=1; fence; y=1 | a=y; b=x", "a=1 b=0", True),
    ("MP fence acq", "x=1; fence; y=1 | a=y.acq; b=x", "a=1 b=0", False),
    ("MP rel fence", "x=1; y.rel=1 | a=y; fence; b=x", "a=1 b=0", False),
    ("MP through an addition",
     "x=1; y.rel=1 | a+y | b=y.acq; c=x", "a=1 b=2 c=0", False),
    ("MP through a store", "x=1; y.rel=1 | a=y; y=2 | b=y.acq; c=x",
     "a=1 b=2 c=0", True),
    ("MP additions", "x=1; a+y.rel | b+y.acq; c=x", "a=0 b=1 c=0", False),
    ("MP additions relaxed", "x=1; a+y | b+y; c=x", "a=0 b=1 c=0", True),
    ("MP of three", "x.rel=1 | a=x.acq; y.rel=1 | b=y.acq; c=x",
     "a=1 b=1 c=0", False),
    ("MP of three relaxed", "x=1 | a=x; y=1 | b=y; c=x", "a=1 b=1 c=0", True),
    # Store buffering.
    ("SB", "x=1; a=y | y=1; b=x", "a=0 b=0", True),
    ("SB rel acq", "x.rel=1; a=y.acq | y.rel=1; b=x.acq", "a=0 b=0", True),
    ("SB sc", "x.sc=1; a=y.sc | y.sc=1; b=x.sc", "a=0 b=0", False),
    ("SB fences", "x=1; fence; a=y | y=1; fence; b=x", "a=0 b=0", False),
    ("SB one fence", "x=1; fence; a=y | y=1; b=x", "a=0 b=0", True),
    ("SB one load acq", "x.sc=1; a=y.acq | y.sc=1; b=x.sc", "a=0 b=0", True),
    ("SB one load relaxed", "x.sc=1; a=y | y.sc=1; b=x.sc", "a=0 b=0", True),
    ("SB one store rel", "x.rel=1; a=y.sc | y.sc=1; b=x.sc", "a=0 b=0", True),
    ("SB additions sc", "a+x.sc; b=y.sc | c+y.sc; d=x.sc",
     "a=0 b=0 c=0 d=0", False),
    ("SB additions ar", "a+x.ar; b=y.acq | c+y.ar; d=x.acq",
     "a=0 b=0 c=0 d=0", True),
    ("SB additions sc, load acq", "a+x.sc; b=y.acq | c+y.sc; d=x.sc",
     "a=0 b=0 c=0 d=0", True),
    # Load buffering: see OTHERWISE.
    ("LB", "a=x; y=1 | b=y; x=1", "a=1 b=1", True),
    ("LB acq", "a=x.acq; y=1 | b=y.acq; x=1", "a=1 b=1", False),
    ("LB rel acq", "a=x.acq; y.rel=1 | b=y.acq; x.rel=1", "a=1 b=1", False),
    ("LB sc", "a=x.sc; y.sc=1 | b=y.sc; x.sc=1", "a=1 b=1", False),
    # Independent reads of independent writes.
    ("IRIW", "x=1 | y=1 | a=x; b=y | c=y; d=x", "a=1 b=0 c=1 d=0", True),
    ("IRIW rel acq", "x.rel=1 | y.rel=1 | a=x.acq; b=y.acq | c=y.acq; d=x.acq",
     "a=1 b=0 c=1 d=0", True),
    ("IRIW sc", "x.sc=1 | y.sc=1 | a=x.sc; b=y.sc | c=y.sc; d=x.sc",
     "a=1 b=0 c=1 d=0", False),
    ("IRIW fences", "x=1 | y=1 | a=x; fence; b=y | c=y; fence; d=x",
     "a=1 b=0 c=1 d=0", False),
    ("IRIW one acq", "x.sc=1 | y.sc=1 | a=x.acq; b=y.acq | c=y.sc; d=x.sc",
     "a=1 b=0 c=1 d=0", True),
    # Two threads that write two locations.
    ("2+2W", "x=1; y=2 | y=1; x=2", "X=1 Y=1", True),
    ("2+2W rel", "x.rel=1; y.rel=2 | y.rel=1; x.rel=2", "X=1 Y=1", True),
    ("2+2W sc", "x.sc=1; y.sc=2 | y.sc=1; x.sc=2", "X=1 Y=1", False),
    ("2+2W fences", "x=1; fence; y=2 | y=1; fence; x=2", "X=1 Y=1", False),
    ("2+2W one relaxed", "x.sc=1; y.sc=2 | y.sc=1; x=2", "X=1 Y=1", True),
    # Other shapes of two locations.
    ("S", "x=2; y=1 | a=y; x=1", "a=1 X=2", True),
    ("S rel acq", "x=2; y.rel=1 | a=y.acq; x=1", "a=1 X=2", False),
    ("R", "x=1; y=1 | y=2; a=x", "Y=2 a=0", True),
    ("R rel acq", "x=1; y.rel=1 | y.rel=2; a=x.acq", "Y=2 a=0", True),
    ("R sc", "x.sc=1; y.sc=1 | y.sc=2; a=x.sc", "Y=2 a=0", False),
    # A seq_cst store orders nothing that follows it and is not seq_cst.
    ("sc store, relaxed store", "x.sc=1; y=1 | a=y; b=x.sc", "a=1 b=0", True),
    ("two sc stores, relaxed store", "x.sc=1; x.sc=2; y=1 | a=y; b=x.sc",
     "a=1 b=0", True),
    ("sc store, relaxed store, acq", "x.sc=1; y=1 | a=y.acq; b=x.sc",
     "a=1 b=0", True),
    ("sc store, sc store", "x.sc=1; y.sc=1 | a=y.sc; b=x.sc", "a=1 b=0", False),
    # One location.
    ("CoRR", "x=1 | a=x; b=x", "a=1 b=0", False),
    ("CoWW", "x=1; x=2 |", "X=1", False),
    ("CoRW", "x=1 | a=x; x=2", "a=1 X=1", False),
    ("CoWR", "x=1; a=x | x=2", "a=0", False),
    ("CoRR of two", "x=1 | x=2 | a=x; b=x | c=x; d=x", "a=1 b=2 c=2 d=1",
     False),
    ("additions", "a+x | b+x", "a=0 b=0", False),
    ("additions, sum", "a+x | b+x", "X=1", False),
    # C++20 and ARMv8 forbid these; RC11, and so the machine, allows more.
    ("Z6.U", "x.sc=1; y.rel=1 | a+y.sc; b=y | y.sc=3; c=x.sc",
     "a=1 b=3 c=0", True),
    ("IRIW, sc loads alone",
     "x.rel=1 | y.rel=1 | a=x.sc; b=y.sc | c=y.sc; d=x.sc",
     "a=1 b=0 c=1 d=0", True),
]

# What the machine does otherwise than C11, and why that does no harm.
OTHERWISE = {
    "LB": "no load is delayed beyond a store (the head of weak.pml)",
}

ORDERS = {LOAD: {"sc": 5}, STORE: {"sc": 6}, ADD: {"sc": 7}, FENCE: {}}


def step_of(text, registers):
    """The four numbers of one step."""
    if text == "fence":
        return FENCE, 0, 0, 0
    step = re.fullmatch(r"(?:([a-d])([=+]))?([xy])(?:\.(\w+))?(?:=(\d))?", text)
    if not step or bool(step[2]) == bool(step[5]):
        raise ValueError(f"no step: {text}")
    what = STORE if step[5] else LOAD if step[2] == "=" else ADD
    order = {**MODES, **ORDERS[what]}[step[4] or ""]
    if step[1]:
        registers.add(step[1])
    last = int(step[5]) if step[5] else "abcd".index(step[1])
    return what, "xy".index(step[3]), order, last


def program(threads):
    """The environment's form of the threads."""
    registers = set()
    return " | ".join(
        " ".join(f"{number}" for step in thread.split(";") if step.strip()
                 for number in step_of(step.strip(), registers))
        for thread in threads.split("|"))


def is_seen(outcome, output):
    """Whether some end of a run was the outcome."""
    wanted = {"abcdXY".index(name): int(value) for name, value in
              (term.split("=") for term in outcome.split())}
    ends = [[int(number) for number in line.split()[1:]]
            for line in output.splitlines() if line.startswith("end ")]
    if not ends:
        raise RuntimeError("no run came to its end")
    return any(all(end[place] == value for place, value in wanted.items())
               for end in ends)
