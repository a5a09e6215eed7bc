# SPDX-License-Identifier: MIT
"""uaio bench dio: that it runs, and that what it prints is what ran."""
import os
import select
import shutil
import signal
import subprocess
import sys

from benchmark import (bench_of, bench_on_answers, expect_form, expect_lines,
                       expect_proofs, import_of_bench, path_of, rows_of,
                       tables_of)
from harness import Skip, case, expect, main

SET_UPS = ("whole", "prefix", "malloc")
READS = ("1 MiB, depth 1", "16 MiB, depth 4")  # of --quick
SLOW = "16 MiB by calls of 128 KiB"
WIDTHS = {"whole": 1, "4 wide": 4, "8 wide": 8, "16 wide": 16, "64 wide": 64}
PAIRS = (("uaio", "kernel"), ("uaio", "io_uring"), ("whole", "kernel"),
         ("8 wide", "kernel"), ("8 wide", "whole"))
DEADLINE_MS = 30_000


def key(row):
    return row["title"], row["peer"]


def expect_measured(rows, keys):
    by_key = {key(row): row for row in rows}
    for wanted in keys:
        row = by_key[wanted]
        if wanted[1] and not row["peer_values"]:
            # What the machine forbids.
            expect(wanted[1] in ("kernel", "io_uring")
                   and f"{wanted[1]}: " in row["note"], True, str(wanted))
            continue
        expect(row["note"], "", str(wanted))
        expect(len(row["subject_values"]), 1, str(wanted))
        if row["figure"] != "saved":
            expect(row["subject_values"][0] > 0, True, str(wanted))


def expect_set_up_rows(rows, has_profiler):
    keys = [("set-up of a request: prefix", peer)
            for peer in ("whole", "malloc")]
    keys += [(f"cleared: {name}", None) for name in SET_UPS]
    if has_profiler:
        keys += [("the same: prefix", peer) for peer in ("whole", "malloc")]
    expect_measured(rows, keys)
    by_key = {key(row): row for row in rows}
    cleared = {name: by_key[f"cleared: {name}", None]["subject_values"][0]
               for name in SET_UPS}
    expect(cleared["prefix"] <= 128 < 4096 < cleared["whole"], True,
           f"{cleared}: bytes cleared")
    if has_profiler:
        row = by_key["the same: prefix", "whole"]
        expect(row["verdict"], "met", "fewer instructions with a prefix")
    else:
        expect("no valgrind" in by_key["the same: prefix", "whole"]["note"],
               True, "why no instructions are counted")


def expect_set_up_tables(tables, has_profiler):
    for name in ("ns", "cleared", *(["instructions"] if has_profiler else [])):
        expect_lines(tables[f"dio.setup_{name}"], SET_UPS)


def expect_read_tables(tables, has_slow):
    names = ("uaio", "whole", "8 wide")
    expect_lines(tables["dio.reads"], names)
    expect(tables["dio.reads"]["columns"], [*READS], "what is read")
    expect_lines(tables["dio.cut"], ("uaio",), True)
    if has_slow:
        expect_lines(tables["dio.slow"], ("uaio", "4 wide", "64 wide", "whole"))
        expect_lines(tables["dio.slow_cut"], ("uaio",), True)


@case("uaio bench measures direct I/O and writes rows that can be read")
def _(tool):
    outcome, rows = bench_of(tool, "dio")
    outcome.expect(out=None)
    expect_form(rows, "dio", key)
    expect_set_up_rows(rows, shutil.which("valgrind"))
    tables = tables_of(tool)
    expect_set_up_tables(tables, shutil.which("valgrind"))
    notes = "\n".join(row["note"] for row in rows)
    if "direct reads: uaio" in {row["title"] for row in rows}:
        expect("fio is not" in notes or "no disk" in notes, True, notes)
    else:
        expect_measured(rows, [
            *((f"{read}: {name}", peer) for read in READS
              for name, peer in PAIRS), (f"{READS[0]}: uaio", "psync"),
            ("saved of a 1 MiB read: prefix", None)])
        expect("of one 1 MiB read" in outcome.out, True, "what it means")
        expect_read_tables(tables, "no slow file system" not in notes)
    if "no slow file system" not in notes and shutil.which("fio"):
        expect_measured(rows, [
            (f"{SLOW}: uaio", "whole"), (f"{SLOW}: uaio", "kernel"),
            *((f"{SLOW}: {name}", "whole")
              for name in ("4 wide", "16 wide", "64 wide"))])
    for text in ("2.6.32", "lost 0.5 %", "0.6 % back"):
        expect(text in outcome.out, True, f"the figure {text} beside ours")
    expect(os.listdir(tool.scratch), ["rows.jsonl"], "files left behind")


# What dio says of each variant where all is as it should be.
def said_of(name):
    said = dict(variant=name, ns=50.0, requests=0, struct_bytes=4192,
                slots_bytes=4096, cleared_bytes=96, most_cleared_bytes=96,
                slots=4, slots_written=4, most_written_beyond=0,
                slab_bytes=65536)
    if name == "whole":
        said |= dict(ns=100.0, cleared_bytes=4192, most_cleared_bytes=4192,
                     slots_written=64, most_written_beyond=63)
    if name == "malloc":
        said["slab_bytes"] = 0
    return said


@case("each way to set up a direct request is proven by what it initialised")
def _(tool):
    descriptor = import_of_bench(tool, "descriptor")
    expect_proofs(
        descriptor, descriptor.proof_of,
        {name: said_of(name) for name in SET_UPS},
        (*((name, said_of(other)) for name in SET_UPS for other in SET_UPS
           if name != other),
         ("whole", {"cleared_bytes": 4191}),
         *((name, lie) for name in ("prefix", "malloc") for lie in (
             {"cleared_bytes": 104, "most_cleared_bytes": 104},
             {"cleared_bytes": 88, "most_cleared_bytes": 88},
             {"cleared_bytes": 136, "most_cleared_bytes": 136,
              "struct_bytes": 4232},
             {"most_cleared_bytes": 4192},
             {"slots_written": 5},
             {"slots_written": 3},
             {"most_written_beyond": 1}))))


# What the library and the slow file system say of a run, likewise.
def counted_of(name, is_slow, ios=100, per_request=64):
    said = dict(ios=ios, bytes=per_request << 18)
    width = WIDTHS.get(name, 16 if name == "uaio" else 1)
    if name in WIDTHS or name == "uaio":
        cut = {"whole": 0, "uaio": ios - 10}.get(name, ios)
        said |= dict(requests=ios, native=0, cut=cut,
                     segments=cut * per_request)
    if is_slow:
        said |= dict(call_bytes=1 << 20, at_once=width,
                     reads=ios * (per_request << 18 >> 20))
    return said


NOT_WHOLE = [name for name in WIDTHS if name != "whole"]
LIES = (
    *((name, {"requests": 99}) for name in ("uaio", *WIDTHS)),
    ("whole", {"cut": 1, "segments": 64}),
    ("whole", {"segments": 64}),
    ("uaio", {"cut": 0, "segments": 0}),
    ("uaio", {"cut": 0, "segments": 0, "native": 80}),
    ("uaio", {"native": 11}),
    ("uaio", {"cut": 101, "segments": 101 * 64}),
    ("uaio", {"segments": 90}),
    *((name, {"cut": 99, "segments": 99 * 64}) for name in NOT_WHOLE),
    *((name, {"cut": 0, "segments": 0}) for name in NOT_WHOLE),
    *((name, {"segments": 100}) for name in NOT_WHOLE),
)
SLOW_LIES = (
    *((name, {"reads": 1599}) for name in ("kernel", "uaio", *WIDTHS)),
    *((name, {"at_once": 2}) for name in ("kernel", "whole")),
    *((name, {"at_once": 1}) for name in ("uaio", *NOT_WHOLE)),
    *((name, {"at_once": WIDTHS[name] + 1}) for name in NOT_WHOLE),
)


@case("each way to make a direct request is proven by how many were cut")
def _(tool):
    dio = import_of_bench(tool, "dio")
    names = ("uaio", *WIDTHS)
    expect_proofs(dio.fio, dio.proof_of,
                  {name: counted_of(name, False) for name in names}, LIES)
    expect_proofs(dio.fio, dio.proof_of,
                  {name: counted_of(name, True)
                   for name in ("kernel", *names)}, (*LIES, *SLOW_LIES))
    # The kernel's own AIO may have them all, or but for some at the start.
    for native in (90, 100):
        dio.proof_of("uaio", counted_of("whole", False) | {"native": native})
    # Too few to have been tried in each way.
    dio.proof_of("uaio", counted_of("whole", True, ios=5))


def bench_set_up(tool, swapped):
    """The row with answers of variants, some of which did what another does."""
    shutil.rmtree(tool.path("path"), ignore_errors=True)
    return bench_on_answers(
        tool, "dio", "$1",
        {name: said_of(swapped.get(name, name)) | {"variant": name}
         for name in SET_UPS}, path_of(tool, "cat"))


@case("set-ups with their labels transposed fail the benchmark")
def _(tool):
    outcome, rows = bench_set_up(tool, {})
    outcome.expect(out=None)
    expect_form(rows, "dio", key)
    expect_set_up_rows(rows, False)
    expect_set_up_tables(tables_of(tool), False)
    expect("fio is not installed" in outcome.out, True, outcome.story)
    swapped = {"whole": "prefix", "prefix": "whole"}
    outcome, rows = bench_set_up(tool, swapped)
    expect(outcome.status, 1, f"status with labels transposed\n{outcome.story}")
    for row in rows:
        if row["title"].startswith(("set-up", "cleared")):
            expect(row["verdict"] == "disproved",
                   bool({row["subject"], row["peer"]} & set(swapped)),
                   row["title"])


SWAPS_WIDTHS = """#!/bin/sh
for word; do
	shift
	case $word in
	--segments=1) word=--segments=8 ;;
	--segments=8) word=--segments=1 ;;
	esac
	set -- "$@" "$word"
done
exec "{uaio}" "$@"
"""


@case("a number of segments that the library was not given fails the benchmark")
def _(tool):
    path = tool.path("rows.jsonl")
    liar = tool.write("uaio", SWAPS_WIDTHS.format(uaio=tool.uaio))
    outcome = tool.exec(
        sys.executable, "-B", tool.args.source + "/bench/run.py", "--uaio",
        liar, "--helpers", tool.scratch, "--quick", "--pairs", "1", "--dir",
        tool.scratch, "--json", path, "dio")
    rows = [row for row in rows_of(path) if row["title"].startswith(READS)]
    if not rows:
        raise Skip(outcome.out)
    expect(outcome.status, 1, f"status with widths swapped\n{outcome.story}")
    for row in rows:
        expect(row["verdict"] == "disproved",
               bool({row["subject"], row["peer"]} & {"whole", "8 wide"}),
               f"{key(row)}: {row['verdict']} {row['note']}")


RUN_AND_WAIT = """
import subprocess, sys
subprocess.run(sys.argv[1:])
"""


@case("of a benchmark that is killed no slow file system is left")
def _(tool):
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        raise Skip("only root may mount it, and with /dev/fuse")
    folder = tool.path("slow")
    bench = subprocess.Popen(
        [sys.executable, "-c", RUN_AND_WAIT,
         os.path.dirname(tool.uaio) + "/bench/with-slowfs", "0", "0", folder,
         "sh", "-c", "echo there >$0/file && cat $0/file && cat /proc/mounts"
         " && echo $$ && exec sleep 1000", folder],
        stdout=subprocess.PIPE, text=True)
    lines = [bench.stdout.readline()]
    while lines[-1] and not lines[-1].strip().isdigit():
        lines.append(bench.stdout.readline())
    expect(lines[0], "there\n", "what was written to it")
    expect(any(folder in line for line in lines), True, "mounted where it is")
    with open("/proc/mounts") as mounts:
        expect(folder in mounts.read(), False, "mounted here")
    command = os.pidfd_open(int(lines[-1]))
    bench.send_signal(signal.SIGKILL)
    bench.wait()
    poll = select.poll()
    poll.register(command, select.POLLIN)
    ended = len(poll.poll(DEADLINE_MS))
    if not ended:
        signal.pidfd_send_signal(command, signal.SIGKILL)
    expect(ended, 1, "its command ended with it")
    # The end of the last who has it is that of the pipe.
    expect(bench.stdout.read(), "", "more of it")
    expect(os.listdir(folder), [], "what is in the folder")


if __name__ == "__main__":
    main()
