# SPDX-License-Identifier: MIT
"""Results of `uaio bench` that nobody measured, for what is made of them."""
import json
import math
import random
import statistics

MACHINE = {
    "cpu": "Made-up Processor <9> & more", "cpus": 2, "kernel": "6.18.0",
    "fio": "3.33", "libaio": "0.3.113-4", "liburing": "2.3-3",
    "commit": "0123456789ab", "date": "2026-11-20T10:11:12+00:00",
    "load": 0.25,
}
CONTEXTS = [1, 4, 16, 64, 256, 1024, 4096, 16384]
DEPTHS = [1, 10, 128, 1024]
PERCENTS = [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9]
ENGINES = {"kernel": 1.0, "uaio": 1.6, "io_uring": 1.2, "posixaio": 0.3,
           "psync": 1.9, "floor": 1.8}
JOBS = {
    "many-tmpfs": "512 jobs, 1 KiB random rw, tmpfs",
    "many-disk": "512 jobs, 1 KiB random rw, disk",
    "hot-read": "1 KiB hot read, depth 1", "hot-write": "1 KiB hot write, depth 1",
    "hot-read-32": "1 KiB hot read, depth 32",
    "cold-read-32": "4 KiB cold read, depth 32",
    "direct-read-32": "4 KiB O_DIRECT read, depth 32",
    "direct-write-32": "4 KiB O_DIRECT write, depth 32",
}


class MadeUp:
    """Made-up rounds whose figures differ by a few per cent, always in the same way."""

    def __init__(self, rounds=9, seed=1):
        self.rounds = rounds
        self.random = random.Random(seed)
        self.lines = []

    def values(self, middle):
        return [middle * self.random.uniform(0.96, 1.04)
                for _ in range(self.rounds)]

    def table(self, name, title, unit, across, columns, lines, plot="",
              logarithmic="", **more):
        """`lines`: for each variant its figures, of which None is a hole."""
        self.lines.append({
            "kind": "table", "name": name, "title": title, "unit": unit,
            "across": across, "columns": columns,
            "lines": {variant: [[] if middle is None else self.values(middle)
                                for middle in line]
                      for variant, line in lines.items()},
            "proofs": {variant: "counted" for variant in lines}, "notes": {},
            "plot": plot, "logarithmic": logarithmic, "file_system": "",
            "is_disproved": False, "machine": MACHINE} | more)

    def curve(self, name, title, unit, across, columns, functions, **more):
        self.table(name, title, unit, across, columns,
                   {variant: [function(column) for column in columns]
                    for variant, function in functions.items()},
                   plot=more.pop("plot", "lines"), **more)

    def row(self, name, title, figure="figure", unit="1/s", subject="uaio",
            peer="kernel", ours=150.0, theirs=100.0, goal=None, verdict="met",
            control=1.0, **more):
        mine, other = self.values(ours), self.values(theirs) if peer else []
        ratios = [a / b for a, b in zip(mine, other)]

        def spread(values):
            return {"median": statistics.median(values), "min": min(values),
                    "max": max(values)} if values else None

        self.lines.append({
            "kind": "row", "name": name, "title": title, "figure": figure,
            "unit": unit, "subject": subject, "peer": peer or None,
            "pairs": self.rounds, "subject_values": mine,
            "peer_values": other, "ratio": spread(ratios),
            "control": spread(self.values(control)) if control else None,
            "goal": goal, "verdict": verdict if goal else "no goal",
            "proofs": {subject: "counted"}, "cpu_s_per_io": None, "note": "",
            "file_system": "ext4", "machine": MACHINE} | more)

    def write(self, path):
        with open(path, "w") as file:
            for line in self.lines:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        return path


def at_least(bound, of="ratio"):
    return {"bound": bound, "at_least": True, "of": of}


def at_most(bound, of="subject"):
    return {"bound": bound, "at_least": False, "of": of}


def _contexts(made):
    finding = {"table": lambda n: 2.1, "list": lambda n: 1.3 + 0.9 * n,
               "radix": lambda n: 3 + 1.6 * math.log2(n)}
    made.curve("contexts.index", "time to find one of so many contexts", "ns",
               "contexts", CONTEXTS, finding, logarithmic="xy")
    made.curve("contexts.threads", "the same by threads, 1024 contexts", "ns",
               "threads", [1, 2], finding, logarithmic="")
    for name, radix in (("dense", 30), ("sparse", 5000)):
        made.curve(f"contexts.bytes_{name}", f"bytes of index, {name} handles",
                   "B", "contexts", CONTEXTS,
                   {"table": lambda n: 8 + 48 / n, "list": lambda n: 16,
                    "radix": lambda n, most=radix: most + 600 / n},
                   logarithmic="xy")
    made.curve("contexts.lookup", "io_submit of nothing", "ns", "contexts",
               CONTEXTS, {"uaio": lambda n: 9.0,
                          "kernel": lambda n: 120 + 4 * math.log2(n)},
               logarithmic="x")
    turns = [1, 16, 64, 512]
    made.curve("contexts.request", "a read by contexts in turn", "ns",
               "contexts", turns, {
                   "uaio": lambda n: 400, "list": lambda n: 400 + n,
                   "radix": lambda n: 410 + math.log2(n),
                   "kernel": lambda n: 900}, logarithmic="x")
    made.curve("contexts.share", "part of a read that finds its context", "%",
               "contexts", turns, {"uaio": lambda n: 0.9,
                                   "list": lambda n: 0.5 + n / 10,
                                   "radix": lambda n: 2}, logarithmic="x")
    columns = ["512 jobs", "1 job"]
    made.table("contexts.jobs", "the fio job of 2013", "I/O/s", "jobs", columns,
               {"table": [1.9e6, 8e5], "list": [1.1e6, 8.05e5],
                "radix": [1.8e6, 7.9e5], "kernel": [1e6, 4.7e5]}, plot="bars")
    made.table("contexts.jobs_cpu", "CPU time of the fio job of 2013", "us",
               "jobs", columns,
               {"table": [1.0, 1.2], "list": [1.7, 1.2], "radix": [1.1, 1.2],
                "kernel": [2.0, 2.1]})


NOP = {"io_uring": (1.1e5, 3.3e5, 1.21e6, 2.13e6),
       "single": (7.3e5, 1.68e6, 1.74e6, 1.83e6),
       "single+batches": (8.3e5, 2.75e6, 3.86e6, 3.19e6),
       "round-robin": (2e4, 3.7e5, 7.4e5, 1.14e6),
       "packed": (6e5, 1.95e6, 1.9e6, None),
       "packed+batches": (None, 1.7e6, 1e6, None)}


def _nop(made):
    made.table("nop.items", "no-ops through workers", "1/s", "depth", DEPTHS,
               {name: list(line) for name, line in NOP.items()},
               plot="lines", logarithmic="xy")
    ours = [name for name in NOP if name != "io_uring"]
    for name, title, unit in (
            ("contended", "acquisitions that had to wait", "%"),
            ("late", "work items late, with a worker asleep", "%"),
            ("wakes", "wake-ups for each work", "each")):
        made.table(f"nop.{name}", title, unit, "depth", DEPTHS, {
            variant: [0 if variant.startswith("packed") else 7.5] * 4
            for variant in ours})


POSIX = ("glibc", "uaio", "uaio, libaio", "pread")

PIPE = {"io_uring": (2.71, 1e-5, 18), "io_uring+deferred": (3.14, 5e-6, 9),
        "kernel": (3.62, 8e-6, 15), "threads": (3.19, 1.6e-3, 2600),
        "plain": (5.1, 0, 0), "worker-for-each": (0.056, 0.99, 27000),
        "caller-runs": (1.24, 0.059, 35000),
        "caller-runs+delayed-kick": (2.87, 7e-5, 108)}


def _pipe(made):
    for number, (name, title, unit) in enumerate((
            ("rate", "4 KiB through a pipe", "GB/s"),
            ("switches", "context switches", "each"),
            ("switches_per_s", "context switches", "1/s"))):
        made.table(f"pipe.{name}", title, unit, "block", ["4 KiB"],
                   {variant: [line[number]] for variant, line in PIPE.items()},
                   plot="bars" if name == "rate" else "")
    made.table("pipe.wakes", "wake-ups of the fallback thread", "each", "block",
               ["4 KiB"], {"worker-for-each": [0.99], "caller-runs": [0.1],
                           "caller-runs+delayed-kick": [0]})
    made.table("pipe.trips", "round trips", "1/s", "processes",
               ["anywhere", "1 processor", "2 processors"],
               {"io_uring": [1.4e5, 1.46e5, 1.6e4],
                "io_uring+deferred": [1.7e5, 1.75e5, 1.6e4],
                "plain": [2.8e5, 2.85e5, None],
                "caller-runs+delayed-kick": [1.3e5, 1.3e5, 1.6e4]},
               plot="bars")
    for name in ("event", "event_hot"):
        made.curve(f"pipe.{name}", "one of so many sockets is ready", "ns",
                   "parked", [10, 100, 1000, 10000],
                   {"io_uring": lambda n: 900 + n / 20,
                    "plain": lambda n: 600 + n / 20,
                    "caller-runs+delayed-kick": lambda n: 1000 + n / 15},
                   logarithmic="x")
    made.table("pipe.tries", "tries for an event", "each", "parked",
               [10, 100, 1000, 10000], {"caller-runs+delayed-kick": [2] * 4})


def _dio(made):
    for name, title, unit, figures in (
            ("setup_ns", "set-up of a request", "ns", (77.1, 52.6, 54.1)),
            ("setup_instructions", "instructions of it", "instr.",
             (613, 101, 373)),
            ("setup_cleared", "bytes cleared", "B", (4192, 96, 96))):
        made.table(f"dio.{name}", title, unit, "request", ["1 MiB"], {
            variant: [figure] for variant, figure
            in zip(("whole", "prefix", "malloc"), figures)},
            plot="bars" if name == "setup_ns" else "")
    reads = [f"{mib} MiB, depth {depth}" for mib in (1, 16)
             for depth in (1, 4)]
    made.table("dio.reads", "O_DIRECT reads", "GB/s", "reads", reads, {
        "uaio": [0.66, 0.67, 0.75, 0.58], "whole": [0.68, 0.74, 0.72, 0.52],
        "8 wide": [0.79, 0.70, 0.64, 0.70],
        "kernel": [0.73, 0.75, 0.62, 0.55],
        "io_uring": [0.81, 0.79, 0.68, 0.69],
        "plain": [0.85, None, 0.55, None]}, plot="bars", file_system="ext4")
    made.table("dio.cut", "of 100 requests uaio cut", "%", "reads", reads,
               {"uaio": [24, 33, 24, 42]})
    made.table("dio.slow", "16 MiB of a file that takes 5 ms a call", "ms",
               "calls", ["calls of 128 KiB", "calls of 1 MiB"], {
                   "whole": [692, 92], "kernel": [748, 100], "uaio": [81, 31],
                   "4 wide": [187, 95], "16 wide": [52, 29],
                   "64 wide": [29, 19]}, plot="bars")


def _jobs(made):
    for job, title in JOBS.items():
        about = {"file_system": "tmpfs" if job == "many-tmpfs" else "ext4"}
        made.table(f"{job}.rate", title, "I/O/s", "job", [title],
                   {name: [5e5 * factor] for name, factor in ENGINES.items()},
                   plot="bars", **about)
        for name, unit in (("cpu", "us"), ("switches", "each")):
            made.table(f"{job}.{name}", f"{name} per I/O", unit, "job", [title],
                       {engine: [2 / factor if name == "cpu" else 0]
                        for engine, factor in ENGINES.items()}, **about)
        for name in ("submission", "completion"):
            made.table(f"{job}.{name}", f"{name} latency", "us", "per cent",
                       [50, 99, 99.9],
                       {engine: [1 / factor, 9 / factor, 80 / factor]
                        for engine, factor in ENGINES.items()}, **about)
        made.curve(f"{job}.cdf", "completion latency", "us", "per cent",
                   PERCENTS,
                   {engine: lambda p, factor=factor:
                    (1 + 20 * (p / 100) ** 9) / factor
                    for engine, factor in ENGINES.items()}, plot="cdf",
                   **about)


def _posix(made):
    works = ["aio_suspend, depth 1", "LIO_WAIT, 32"]
    for name, columns, variants in (
            ("", works, POSIX), ("fio_", ["fio, hot read"], POSIX[:3])):
        for figure, unit in (("rate", "1/s"), ("cpu", "us")):
            made.table(f"posix.{name}{figure}", f"POSIX AIO: {figure}", unit,
                       "work", columns,
                       {variant: [1e5 * n + 12e3 if figure == "rate"
                                  else 9 / n for _ in columns]
                        for n, variant in enumerate(variants, 1)})
    made.row("posix", works[0], "request", "1/s", peer="glibc", ours=212e3,
             theirs=112e3, goal=at_least(1.5))


def _depths(made):
    for name in ("hot", "direct"):
        made.curve(f"depth.{name}", f"{name} reads by depth", "I/O/s", "depth",
                   [1, 2, 4, 8, 16, 32, 64],
                   {engine: lambda depth, factor=factor:
                    1e5 * factor * depth / (1 + depth / 8)
                    for engine, factor in ENGINES.items()
                    if engine != "floor"}, logarithmic="x")
    threads = [1, 2, 3, 4]
    made.curve("scale.hot", "hot reads by threads", "I/O/s", "threads", threads,
               {"uaio, 1 context": lambda n: 5e5,
                "uaio, a context each": lambda n: 5e5 * min(n, 2),
                "kernel": lambda n: 3e5 * min(n, 2)})
    made.curve("scale.direct", "direct reads by threads", "I/O/s", "threads",
               threads, {**{f"uaio, {workers} workers":
                            lambda n, workers=workers: 1e4 * min(n, workers)
                            for workers in (1, 2, 4)},
                         "kernel": lambda n: 2e4 * min(n, 3)})


def _rows(made):
    for job, title in JOBS.items():
        made.row(job, title, "I/O", "I/O/s", goal=at_least(1.05))
        made.row(job, title, "I/O", "I/O/s", peer="io_uring", theirs=149.0)
        made.row(job, title, "I/O", "I/O/s", peer="floor", theirs=170.0,
                 goal=at_least(0.92), verdict="missed")
    made.row("nop", "no-ops, depth 10: single+batches", "items",
             subject="single+batches", peer="io_uring", ours=2.75e6,
             theirs=3.3e5, goal=at_least(6), verdict="too noisy here",
             control=1.14)
    made.row("pipe", "pipe: caller-runs+delayed-kick", "GB/s", "GB/s",
             subject="caller-runs+delayed-kick", peer="io_uring", ours=2.87,
             theirs=2.71, goal=at_least(1.25), verdict="missed")
    made.row("pipe", "switches: caller-runs+delayed-kick", "switches", "each",
             subject="caller-runs+delayed-kick", peer="", ours=7e-5,
             goal=at_most(0.001), control=None)
    made.row("dio", "set-up of a request: prefix", "set-up", "ns",
             subject="prefix", peer="whole", ours=52.6, theirs=77.1,
             goal=at_most(0.95, "ratio"))
    made.row("dio", "saved of a 1 MiB read: prefix", "saved", "%",
             subject="prefix", peer="", ours=0.0013, control=None)
    made.row("lookup", "find one of 16384: uaio", "lookup", "ns", peer="one of 1",
             ours=2.2, theirs=2.1, goal=at_most(1.3, "ratio"))
    made.row("memory", "context, used, of 1000", "memory", "B", peer="",
             ours=4800, goal=at_most(8192), control=None)
    made.row("load", "added by uaio run", "added", "ms", peer="", ours=1.2,
             goal=at_most(5))
    made.row("requests", "a read by one of 512", "request", "ns", peer="list",
             goal=at_most(1.01, "ratio"), verdict="not measured",
             subject_values=[], peer_values=[], ratio=None, pairs=0,
             note="list: no such library")


def complete(rounds=9):
    """A table for each known name, and rows with each verdict."""
    made = MadeUp(rounds)
    for part in (_contexts, _nop, _pipe, _dio, _jobs, _posix, _depths, _rows):
        part(made)
    return made
