# SPDX-License-Identifier: MIT
"""uaio bench: fio's jobs, depth and scale run, and what they print is what ran."""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

from benchmark import (bench_of, disproved_of, expect_form, expect_lines, expect_proofs,
                       import_of_bench, path_of, results_of, rows_of,
                       tables_of)
from harness import Skip, case, expect, main

JOB = "hot-read"
ENGINES = ("kernel", "uaio", "counted", "io_uring", "floor", "posixaio", "psync")
SINGLE = ("rate", "cpu", "switches")
LATENCIES = ("submission", "completion", "cdf")
COLUMNS = {"submission": [50, 99, 99.9], "completion": [50, 99, 99.9]}
DEPTHS = [1, 16]  # of --quick
DEPTH_ENGINES = ("kernel", "uaio", "io_uring")
MANY_WORKERS = {"uaio, 4 workers", "uaio, 16 workers"}
DEADLINE_S = 400
OWN_THREADS, OWN_URING = "uaio, backend threads", "uaio, backend io_uring"
THREADS = "32 threads"
PLAIN = {"psync", THREADS}
"""They submit nothing."""


def key(row):
    return row["title"], row["subject"], row["peer"]


def need_fio():
    if not shutil.which("fio"):
        raise Skip("no fio")


def expect_honest(tool, name, excused=()):
    """Run a part as it is. Its rows must be in order, and none disproved. Return: its
    tables."""
    outcome, rows = bench_of(tool, name, excused)
    disproved = disproved_of(rows)
    expect(disproved - set(excused), set(), outcome.story)
    outcome.expect(status=1 if disproved else 0, out=None)
    expect_form([row for row in rows if row["verdict"] != "disproved"], name,
                key)
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")
    return tables_of(tool)


def measured_in(table, engines, columns=None):
    """The tables that were measured under the first columns, or all. For the others a
    reason must be given."""
    for engine in engines:
        expect(all(table["lines"][engine][:columns]), engine not in table["notes"],
               f"{table['name']}: {engine}, or why it is not there")
    return [engine for engine in engines if engine not in table["notes"]]


@case("uaio bench measures a job of fio with every engine")
def _(tool):
    need_fio()
    tables = expect_honest(tool, JOB)
    expect(set(tables), {f"{JOB}.{name}" for name in (*SINGLE, *LATENCIES)},
           "tables")
    engines = measured_in(tables[f"{JOB}.rate"], ENGINES)
    expect({"uaio", "counted", "floor", "psync"} <= set(engines), True,
           f"{tables[f'{JOB}.rate']['notes']}: engines that need nothing of the"
           " machine")
    for name in SINGLE:
        expect_lines(tables[f"{JOB}.{name}"], engines, name == "switches")
    submitting = [engine for engine in engines if engine != "psync"]
    expect_lines(tables[f"{JOB}.submission"], submitting)
    expect(tables[f"{JOB}.submission"]["lines"]["psync"], [[], [], []],
           "psync's submissions")
    for name in LATENCIES[1:]:
        expect_lines(tables[f"{JOB}.{name}"], engines)
    for name, columns in COLUMNS.items():
        expect(tables[f"{JOB}.{name}"]["columns"], columns, name)
    cdf = tables[f"{JOB}.cdf"]
    expect((cdf["plot"], cdf["columns"][0], cdf["columns"][-1]),
           ("cdf", 1, 99.9), "the plot")
    for engine in engines:
        values = sum(cdf["lines"][engine], [])
        expect(values, sorted(values), f"{engine}: per cents in order")
    for engine in ("uaio", "counted", "floor"):
        expect("counted" in (cdf["proofs"][engine] or ""), True,
               f"{engine} is proven: {cdf['proofs']}")


@case("uaio bench measures throughput against depth")
def _(tool):
    need_fio()
    tables = expect_honest(tool, "depth")
    expect(set(tables), {"depth.hot", "depth.direct"}, "tables")
    for table in tables.values():
        expect(table["columns"], DEPTHS, table["name"])
        expect_lines(table, measured_in(table, DEPTH_ENGINES))
        for engine in measured_in(table, ("posixaio", "psync"), 1):
            expect([len(values) for values in table["lines"][engine]],
                   [1] + [0] * (len(DEPTHS) - 1), f"{engine} at depth 1 only")
    expect("counted" in (tables["depth.hot"]["proofs"]["uaio"] or ""), True,
           "uaio is proven")


@case("uaio bench measures throughput against threads")
def _(tool):
    # Whether all the workers there may be are started is the machine's doing.
    tables = expect_honest(tool, "scale", MANY_WORKERS)
    expect(set(tables), {"scale.hot", "scale.direct", *(
        f"scale.{work}_{figure}" for work in ("nop", "read", "pipe", "echo")
        for figure in ("rate", "cpu"))}, "tables")
    cpus = len(os.sched_getaffinity(0))
    for table in tables.values():
        expect(table["columns"][:2] + table["columns"][-1:], [1, 2, 2 * cpus],
               "threads")
        measured = measured_in(table, table["lines"])
        expect_lines(table, measured)
        for name in measured:
            expect(bool(table["proofs"][name]), True, f"{name} is proven")
    expect({"uaio, 1 context", "uaio, a context each"}
           <= set(tables["scale.hot"]["lines"]), True, "contexts of uaio")
    expect("uaio, 1 worker" in tables["scale.direct"]["lines"], True,
           "one worker")


# --- what proves an engine --------------------------------------------------


def said_of_engine(engine, **more):
    return {"engines": {engine}, "submitted": 1000, "mapped": set(),
            "served": 1000} | more


TRUTHS = {
    "kernel": said_of_engine("libaio", mapped={"/[aio]"}),
    "io_uring": said_of_engine("io_uring", mapped={"[io_uring]"}),
    "posixaio": said_of_engine("posixaio"),
    "psync": said_of_engine("psync", submitted=0),
    THREADS: said_of_engine("psync", submitted=0),
    **{name: said_of_engine("libaio")
       for name in ("uaio", "counted", "floor", OWN_THREADS)},
    OWN_URING: said_of_engine("libaio", mapped={"[io_uring]"}),
}
ENGINE_LIES = (
    *((name, {"engines": {other}}) for name, said in TRUTHS.items()
      for other in ("libaio", "io_uring", "posixaio", "psync")
      if other not in said["engines"]),
    *((name, {"engines": said["engines"] | {"null"}})
      for name, said in TRUTHS.items()),
    *((name, {"submitted": 0}) for name in TRUTHS if name not in PLAIN),
    *((name, {"submitted": 1000}) for name in PLAIN),
    *((name, {"mapped": {ring}}) for name in ("posixaio", *PLAIN)
      for ring in ("/[aio]", "[io_uring]")),
    *((name, {"served": 999}) for name in ("uaio", "counted", "floor", OWN_THREADS,
                                         OWN_URING)),
)


def prove_engine(tool, fio, name, said):
    """The proof for 1000 I/Os, given what was seen and counted."""
    folder = Path(tool.scratch)
    variant = fio.variants(fio.Bench(fio.Places(folder, folder), folder,
                                     folder))[name]
    done = fio.Finished(0, "", "", 1, 1, 0, 0, said["mapped"])
    result = fio.FioResult(done, 1000, 1000, 1000, said["engines"],
                           {"slat": {"N": said["submitted"]}})
    report = folder / "counters"
    if name == "floor":
        report.write_bytes(bytes(64) + struct.pack("Q", said["served"]))
    else:
        report.write_text(json.dumps({"comm": "fio", "pid": 1,
                                      "requests": said["served"]}) + "\n")
    fio.prove_engine(variant, result)
    return fio.prove(variant, done, report, 1000)


@case("an engine is proven by what it did and no other")
def _(tool):
    fio = import_of_bench(tool, "fio")
    expect_proofs(fio, lambda name, said: prove_engine(tool, fio, name, said),
                  TRUTHS, ENGINE_LIES)
    for name in ("kernel", "io_uring"):
        expect(prove_engine(tool, fio, name, TRUTHS[name] | {"mapped": set()}),
               None, f"{name} whose ring nobody saw")


def said_of_scale(work, contexts, ours, workers=0, rings=0):
    return {"work": work, "threads": 4, "contexts": contexts, "requests": 1000,
            "rings_of_kernel_aio": rings,
            "added_threads": workers + 1 if workers else 0,
            "counted": {"requests": 1000, "contexts": contexts,
                        "inline": 0 if workers else 1000,
                        "worker": 1000 if workers else 0} if ours else None}


SCALES = {
    "kernel, 1 context": said_of_scale("hot", 1, False, rings=1),
    "kernel, a context each": said_of_scale("hot", 4, False, rings=4),
    "uaio, 1 context": said_of_scale("hot", 1, True),
    "uaio, a context each": said_of_scale("hot", 4, True),
    "kernel": said_of_scale("direct", 4, False, rings=4),
    "uaio, 1 worker": said_of_scale("direct", 4, True, 1),
    "uaio, 4 workers": said_of_scale("direct", 4, True, 4),
    "uaio, 16 workers": said_of_scale("direct", 4, True, 16),
}
SCALE_LIES = (
    *((name, {what: other[what] for what in other if what != "work"})
      for name, said in SCALES.items() for other in SCALES.values()
      if other is not said and other["work"] == said["work"]),
    *((name, {"rings_of_kernel_aio": 2}) for name in SCALES),
    *((name, {"counted": None}) for name in SCALES if name.startswith("uaio")),
    *((name, {"counted": SCALES[name]["counted"] | {"requests": 999}})
      for name in SCALES if name.startswith("uaio")),
    *((name, {"counted": SCALES[name]["counted"] | {"inline": 0}})
      for name in ("uaio, 1 context", "uaio, a context each")),
    *((name, {"counted": SCALES[name]["counted"] | {"worker": 0}})
      for name in SCALES if "worker" in name),
)


@case("threads, contexts and workers are proven by their counters and no others")
def _(tool):
    scale = import_of_bench(tool, "scale")
    expect_proofs(scale.fio, scale.proof_of, SCALES, SCALE_LIES)
    expect([scale.thread_counts(cpus) for cpus in (1, 2, 3, 8)],
           [[1, 2], [1, 2, 4], [1, 2, 3, 4, 6], [1, 2, 4, 8, 16]],
           "threads by processors")


# --- a fio that says what it is told ----------------------------------------

SIDE = {"total_ios": 1000, "iops": 5000.0, "io_bytes": 4096000,
        "slat_ns": {"N": 1000, "mean": 500.0},
        "clat_ns": {"N": 1000, "mean": 900.0}}
FIO = """#!/bin/sh
for word; do
    case $word in
    --version) echo fio-3.0; exit;;
    --output=*) output=${word#*=};;
    --ioengine=*) engine=${word#*=};;
    esac
done
case " $FAILS " in
*" $engine "*) eval "echo \\"\\$SAYS_$engine\\"" >&2; exit 1;;
esac
[ -z "$output" ] || echo "$*" >>"$SAID.options"
[ -z "$output" ] || sed "s/ENGINE/${LIE:-$engine}/" "$SAID" >"$output"
"""


def bench_on_fio(tool, side, job="direct-read-32", places=(), **env):
    """Run a job with a fio that does nothing but print this."""
    said = {"jobs": [{"error": 0, "job options": {"ioengine": "ENGINE"}} | side]}
    path = tool.path("rows.jsonl")
    fio = tool.write("bin/fio", FIO)
    outcome = tool.exec(
        tool.uaio, "bench", "--quick", "--pairs", "1", "--dir", tool.scratch,
        "--json", path, *places, job,
        env={"PATH": f"{os.path.dirname(fio)}:{os.environ['PATH']}",
             "SAID": tool.write("said", json.dumps(said))} | env)
    return outcome, tables_of(tool), rows_of(path)


NO_LATENCY = {name: SIDE[name] for name in ("total_ios", "iops", "io_bytes")}
DIRECT_ENGINES = {"kernel", "uaio", "io_uring", "posixaio", OWN_THREADS, OWN_URING,
                  *PLAIN}
# What fio says, and who did not do that: psync submits nothing.
INCOMPLETE = (({"read": SIDE, "write": SIDE}, set()),
              ({"mixed": NO_LATENCY}, set()),
              ({"mixed": SIDE}, PLAIN),
              ({"mixed": SIDE | {"slat_ns": {"N": 0}}},
               DIRECT_ENGINES - PLAIN))


@case("what fio does not say of latencies is left empty")
def _(tool):
    for side, disproved in INCOMPLETE:
        outcome, tables, rows = bench_on_fio(tool, side)
        outcome.expect(status=1 if disproved else 0, out=None)
        rate = tables["direct-read-32.rate"]
        expect(set(rate["notes"]), disproved, "disproved")
        expect_lines(rate, DIRECT_ENGINES - disproved)
        for name in LATENCIES:
            for columns in tables[f"direct-read-32.{name}"]["lines"].values():
                expect(any(columns), False, f"{name}: {columns}")
        for row in rows:
            is_disproved = {row["subject"], row["peer"]} & disproved
            expect(row["verdict"],
                   "disproved" if is_disproved else "unproven", row["title"])


@case("every engine runs with the same options of fio")
def _(tool):
    bench_on_fio(tool, INCOMPLETE[0][0])[0].expect(out=None)
    with open(tool.path("said.options")) as file:
        runs = [line.split() for line in file]
    engines = [word for words in runs for word in words
               if word.startswith("--ioengine=")]
    expect(set(engines), {f"--ioengine={engine}" for engine in (
        "libaio", "io_uring", "posixaio", "psync")}, "engines")
    plain = {tuple(word for word in words if word not in engines)
             for words in runs if "--numjobs=32" not in words}
    expect(plain, {(*runs[0][1:],)}, "options of each")
    expect({set(runs[0][1:]) <= set(words) for words in runs}, {True},
           "32 threads have the same, and some besides")
    expect("--time_based" in runs[0], True, f"a job that lasts a time: {runs[0]}")
    # But a fixed amount of work, of which some make a part.
    fio = import_of_bench(tool, "fio")
    many = fio.job_named("many-tmpfs")
    expect([many.loops_of(engine) for engine in ("libaio", "psync")],
           [many.loops] * 2, "passes")
    expect(0 < many.loops_of("posixaio") < many.loops, True, "passes of glibc")


@case("a fio that runs another engine than it was told fails the benchmark")
def _(tool):
    outcome, tables, _ = bench_on_fio(tool, {"mixed": SIDE}, LIE="sync")
    expect(outcome.status, 1, outcome.story)
    for table in tables.values():
        expect(table["is_disproved"], True, table["name"])
        expect(set(table["notes"]), set(table["lines"]), table["name"])
        expect(all("fio ran sync" in why for why in table["notes"].values()),
               True, f"{table['notes']}")


@case("a peer that is not there is left out and the benchmark says what to install")
def _(tool):
    outcome, tables, rows = bench_on_fio(
        tool, {"read": SIDE, "write": SIDE}, FAILS="libaio io_uring",
        SAYS_libaio="fio: libaio.so.1: cannot open shared object file",
        SAYS_io_uring="fio: engine io_uring not loadable")
    outcome.expect(out=None)
    table = tables["direct-read-32.rate"]
    expect_lines(table, ("posixaio", "psync"))
    for engine, words in (("kernel", "apt-get install libaio1"),
                          ("io_uring", "not loadable"),
                          ("io_uring", "apt-get install fio")):
        expect(words in table["notes"][engine], True, f"{table['notes']}")
    expect({row["verdict"] for row in rows}, {"not measured"}, outcome.story)
    # And where the floor was not installed.
    _, tables, _ = bench_on_fio(tool, {"mixed": NO_LATENCY}, JOB,
                                ("--helpers", tool.scratch))
    expect("libfloor.so is not there" in tables[f"{JOB}.rate"]["notes"]["floor"],
           True, "the floor")
    # And where there is no fio at all.
    path = tool.path("rows.jsonl")
    outcome = tool.exec(
        tool.uaio, "bench", "--quick", "--dir", tool.scratch, "--json", path,
        JOB, "depth", env=path_of(tool, "python3"))
    outcome.expect(out=None)
    rows = results_of(path)["row"]
    expect({row["name"] for row in rows}, {JOB, "depth"}, outcome.story)
    for row in rows:
        expect("apt-get install fio" in row["note"], True, row["title"])


# --- variants that are not in every round ------------------------------------


@case("a ratio is of one round where a variant is not in all of them")
def _(tool):
    rows = import_of_bench(tool, "rows")
    harness = sys.modules["harness"]
    runs = {"kernel": 0, "uaio": 0, "psync": 0}

    def measure_one(name, figure):
        runs[name] += 1
        return harness.Sample({"I/O": figure(runs[name] - 1)}, "seen")

    series = harness.alternate(
        {"kernel": lambda: measure_one("kernel", lambda run: 10.0 + run // 2),
         "uaio": lambda: measure_one("uaio", lambda run: 100.0 + run),
         "psync": lambda: measure_one("psync", lambda run: 1000.0 + 3 * run)},
        harness.Rounds(8, 1, frozenset({"psync"})), "kernel",
        harness.Progress(), "rounds")
    # The first round is not measured; psync has not been in it.
    expect(runs, {"kernel": 18, "uaio": 9, "psync": 3}, "runs")
    for ours, theirs, values, peers in (
            ("uaio", "kernel", range(101, 109), range(11, 19)),
            ("uaio", "psync", (101, 104, 107), (1000, 1003, 1006)),
            ("psync", "kernel", (1000, 1003, 1006), (11, 14, 17))):
        row = rows.row_of(series, ours, theirs, "I/O", name="", title="",
                          unit="")
        expect((row.subject_values, row.peer_values),
               ([*values], [*peers]), f"{ours} and {theirs}")
    control = rows.control_of(series, "kernel", "I/O")
    expect((control.min, control.max), (1, 1), "of two runs in a round")
    table = rows.Table("", "", "", "", [1])
    table.add("psync", [series["psync"]], ["I/O"])
    expect(table.lines["psync"], [[1000, 1003, 1006]], "line of a table")


# --- ctrl-C -----------------------------------------------------------------


def processes_of(word):
    """The ids of processes that have this word in their command line."""
    found = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(word in each for each in words):
            found[name] = words
    return found


def interrupt(tool, bench):
    """Press ctrl-C after the first round of a job. In a round, psync comes after
    posixaio: so the first round is over when posixaio is seen after psync. Return: the
    directories in which fio had files."""
    folders = set()
    deadline = time.monotonic() + DEADLINE_S
    for engine in ("psync", "posixaio"):
        while not (runs := [words for words
                            in processes_of(tool.scratch).values()
                            if words[0] == "fio" and "--rw=randread" in words
                            and f"--ioengine={engine}" in words
                            and "--numjobs=32" not in words]):
            expect(time.monotonic() < deadline and bench.poll() is None, True,
                   f"fio runs by {engine}")
            time.sleep(0.01)  # leave the processor to them
        folders |= {word.partition("=")[2] for words in runs for word in words
                    if word.startswith("--directory=")}
    bench.send_signal(signal.SIGINT)
    return folders


@case("ctrl-C in a job of fio leaves no file and no process and tells what there is")
def _(tool):
    need_fio()
    path = tool.path("rows.jsonl")
    with subprocess.Popen(
            (tool.uaio, "bench", "--quick", "--pairs", "1000", "--dir",
             ".", "--json", path, "direct-read-32", "nop"), cwd=tool.scratch,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bench:
        try:
            folders = interrupt(tool, bench)
            out, err = bench.communicate(timeout=DEADLINE_S)
        finally:
            bench.kill()
    story = f"{bench.returncode}\n{out}{err}"
    expect(bench.returncode, 130, story)
    expect("interrupted; the above is what was measured" in err, True, story)
    expect(bool(folders), True, "folders of fio's files")
    expect([folder for folder in folders if os.path.exists(folder)], [],
           "folders left behind")
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")
    expect(processes_of(tool.scratch), {}, "processes left behind")
    results = results_of(path)
    expect({row["name"] for row in results["row"]}, {"direct-read-32"}, story)
    table = tables_of(tool)["direct-read-32.rate"]
    for engine in ("uaio", "psync"):
        expect(bool(table["lines"][engine][0]), True, f"{engine}: {table}")
    expect("throughput, I/O/s" in out, True, story)
    # Nothing of it is in the way of the next.
    expect(tool.exec(tool.uaio, "bench", "--quick", "--dir", tool.scratch,
                     "--json", path, "scale").status in (0, 1), True, "again")
    expect(bool(tables_of(tool)["scale.hot"]["lines"]), True, "again")


if __name__ == "__main__":
    main()
