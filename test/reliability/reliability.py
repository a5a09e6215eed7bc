#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""reliability.py --build BUILD [ROW...]: try hard what may lose something, and count.

Each row runs one program of the build for --seconds, with one --seed for all. The
table shows this run beside the ledger, which is the sum of all runs that --record has
added to it. --page writes doc/reliability.md from the ledger. A row that fails prints
the command that repeats it, and the exit status is 1 after all rows have run.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent
LEDGER = SOURCE / "test" / "reliability" / "ledger.jsonl"
PAGE = SOURCE / "doc/reliability.md"
COUNTED = re.compile(r"^counted (\d+) (.*): (\d+) lost$")
GRACE_S = 600
"""A program that hangs ends itself long before."""
UAIO = "./uaio run --uring=always --"
"""For a program that makes its calls to the kernel."""
PYTHON = f"{shlex.quote(sys.executable)} -B"


@dataclass(frozen=True)
class Row:
    name: str
    tried: str
    command: str
    """It is run in the build directory, with {source}, {seed} and {seconds} filled in."""

    def argv(self, seed: int, seconds: int) -> list[str]:
        return shlex.split(self.command.format(source=SOURCE, seed=seed, seconds=seconds))


def torture(kind: str) -> str:
    return f"test/torture/torture {kind} {{seconds}} {{seed}}"


def own(program: str) -> str:
    return f"{program} --seed {{seed}} --seconds {{seconds}}"


HERE = "test/reliability"
ROWS = [
    Row("rings", "Threads submit to shared rings of io_uring, while others replace "
        "descriptors, send signals, fork, cancel threads and jump out of calls.",
        own(f"{UAIO} {HERE}/rings")),
    Row("bytes", "io_uring moves streams: buffer rings, bundles, incremental buffers, "
        "zero-copy sends, splices. Each byte is compared.", own(f"{UAIO} {HERE}/bytes")),
    Row("files", "All interfaces read and write shared files on thirteen file systems, "
        "while processes end in seven ways.",
        own(f"{PYTHON} {{source}}/{HERE}/files.py .")),
    Row("crash", "Clients are killed; what was not synced is dropped. What was reported "
        "durable must be there.", own(f"{PYTHON} {{source}}/{HERE}/crash.py . uaio")),
    Row("wakes", "Threads sleep without a timeout in every way, while they are stopped, "
        "traced and starved.", own(f"{UAIO} {HERE}/wakes")),
    Row("soak", "A server of ten thousand sockets stays as small and as fast as it was.",
        own(f"{UAIO} {HERE}/soak")),
    Row("reads", "Each byte of a submission is read once, or is checked by the kernel after "
        "the second read. So the program cannot change it after the check.",
        own(f"{PYTHON} {{source}}/test/uring/once.py --fuzz test/uring/fuzz-calls --uaio ./uaio")),
    Row("identities", "Threads change their ids, capabilities, groups, directory or Landlock "
        "domain between requests. The kernel's results are compared.",
        own(f"{PYTHON} {{source}}/test/identity/identity.py --build . "
            "--client test/identity/identity-client --own-calls test/identity/identity-own")),
    Row("limits", "A client runs with few descriptors, threads, bytes or directories, drawn at "
        "random. No byte is wrong, and no client hangs or is killed.",
        own(f"{PYTHON} {{source}}/{HERE}/limits.py .")),
    Row("calls", "Each system call of the library fails once with each error.",
        own(f"{HERE}/fail-each")),
    Row("contexts", "Kernel AIO: contexts come and go under requests.",
        torture("contexts")),
    Row("ordering", "Kernel AIO: a read returns the newest write, whichever way both went.",
        torture("ordering")),
    Row("descriptors", "File descriptors are closed and reused under requests.",
        torture("churn")),
    Row("streams", "Pipes and sockets fill and empty while readers are cancelled.",
        torture("streams")),
    Row("sharing", "Many contexts read one stream; each byte is read once.",
        torture("sharing")),
    Row("waiters", "Threads wait for events while others leave.", torture("waiters")),
    Row("blocks", "Misaligned direct writes keep what shares their blocks.",
        torture("blocks")),
    Row("reaping", "Threads take events by calls and from the ring.",
        torture("reaping")),
]


@dataclass(frozen=True)
class Outcome:
    row: Row
    count: int
    unit: str
    lost: int
    seconds: float
    failure: str
    """What the program printed last, where it failed."""


def run(row: Row, build: Path, seed: int, seconds: int) -> Outcome:
    begun = time.monotonic()
    try:
        done = subprocess.run(row.argv(seed, seconds), cwd=build, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=seconds + GRACE_S,
                              errors="replace")
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as why:
        status, output = -1, f"no end after {why.timeout} s"
    took = time.monotonic() - begun
    found = [match for line in output.splitlines() if (match := COUNTED.match(line))]
    if not found:
        return Outcome(row, 0, "", 0, took, output[-2000:] or f"status {status}")
    count, unit, lost = found[-1].groups()
    fails = status or int(lost) or not int(count)
    return Outcome(row, int(count), unit, int(lost), took, output[-2000:] if fails else "")


def read_ledger() -> list[dict]:
    if not LEDGER.exists():
        return []
    return [json.loads(line) for line in LEDGER.read_text().splitlines()]


def commit() -> str:
    """Return: the commit, with a "+" if the tree had changes."""
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(SOURCE), *words], text=True,
                              stdout=subprocess.PIPE, check=True).stdout.strip()
    return git("rev-parse", "--short=12", "HEAD") + "+" * bool(
        git("status", "--porcelain", "--untracked-files=no"))


def record(outcomes: list[Outcome], seed: int) -> None:
    name = commit()
    with open(LEDGER, "a", encoding="utf-8") as file:
        for each in outcomes:
            file.write(json.dumps({
                "row": each.row.name, "date": time.strftime("%Y-%m-%d"),
                "commit": name, "seed": seed, "seconds": round(each.seconds),
                "count": each.count, "unit": each.unit, "lost": each.lost,
                "failed": bool(each.failure)}) + "\n")


def short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 10 * size or (unit != "k" and number >= size):
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"


def sums(ledger: list[dict], row: Row) -> tuple[int, int, int, int]:
    """Sums over all runs of a row: their number, its count, what was lost, what failed."""
    runs = [each for each in ledger if each["row"] == row.name]
    return (len(runs), sum(each["count"] for each in runs),
            sum(each["lost"] for each in runs), sum(each["failed"] for each in runs))


LINE = "{:<12} {:>10} {:<14} {:>5} {:>8}   {:>6} {:>10} {:>5} {:>7}"


def print_head() -> None:
    print(LINE.format("row", "this run", "", "lost", "seconds",
                      "runs", "in all", "lost", "failed"))


def print_outcome(each: Outcome, ledger: list[dict]) -> None:
    runs, count, lost, failed = sums(ledger, each.row)
    print(LINE.format(each.row.name, short(each.count), each.unit,
                      "FAIL" if each.failure else each.lost, round(each.seconds),
                      runs, short(count), lost, failed), flush=True)


MISSING = [
    "The program `rings` failed in one run of the table, and in other runs on a busy machine. The\n"
    "cause was two defects. Both are corrected, and each has a test:", "",
    "- If another thread closed the descriptor of a read or write during submission, the request\n"
    "  could use the file position instead of its offset (`src/file/test-stale.c`).",
    "- A thread with asynchronous cancellation could end while it held the lock of a ring, if a"
    "\n  signal handler had called the library meanwhile (`src/proc/test-entry.c`).", "",
    "## What has no row", "",
    "The table does not show how many bugs the library has. `make check-mutants` inserts known "
    "bugs,\nand `make sample-mutants` random bugs. Each needs a build of its own, so neither has a "
    "row.\n`doc/testing.md` says how many of them the tests find.",
    "", "All runs were made on one x86-64 machine with two processors, beside other work.",
]


def page(ledger: list[dict]) -> str:
    lines = ["<!-- Written by `make reliability PAGE=1`. -->", "# Reliability", "",
             "Each row is a program that tries to make uaio lose data, requests or "
             "wake-ups. The program\ncounts its work and the losses. `make reliability` "
             "runs every row on your machine in half an\nhour. The figures "
             "are sums over the runs in `test/reliability/ledger.jsonl`.", "",
             "| row | what is tried | runs | counted | lost | failed runs | newest: date, "
             "commit, seed |", "|---|---|--:|--:|--:|--:|---|"]
    for row in ROWS:
        runs, count, lost, failed = sums(ledger, row)
        if not runs:
            lines.append(f"| {row.name} | {row.tried} | 0 | – | – | – | – |")
            continue
        mine = [each for each in ledger if each["row"] == row.name]
        newest, unit = mine[-1], max(each["unit"] for each in mine)
        lines.append(f"| {row.name} | {row.tried} | {runs} | {short(count)} {unit} "
                     f"| {lost} | {failed} | {newest['date']}, {newest['commit']}, "
                     f"{newest['seed']} |")
    return "\n".join([*lines, "", *MISSING]) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make reliability", description=__doc__.splitlines()[0])
    names = [row.name for row in ROWS]
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=100, help="of each row")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1000 % 2**31)
    parser.add_argument("--record", action="store_true", help="add this run to the ledger")
    parser.add_argument("--page", action="store_true", help="write doc/reliability.md")
    parser.add_argument("rows", nargs="*", metavar="ROW", choices=[*names, []],
                        help=" ".join(names))
    args = parser.parse_args()
    args.build = args.build.resolve()
    args.rows = [row for row in ROWS if row.name in (args.rows or names)]
    return args


def main() -> int:
    args = arguments()
    ledger, outcomes = read_ledger(), []
    print(f"seed {args.seed}, {args.seconds} s a row", flush=True)
    print_head()
    for row in args.rows:
        if sys.stderr.isatty():
            print(f"{row.name} …", end="\r", file=sys.stderr, flush=True)
        outcomes.append(run(row, args.build, args.seed, args.seconds))
        print_outcome(outcomes[-1], ledger)
        if outcomes[-1].failure:
            print(outcomes[-1].failure.rstrip(), f"replay: cd {args.build} && " + shlex.join(
                row.argv(args.seed, args.seconds)), sep="\n", flush=True)
    if args.record:
        record(outcomes, args.seed)
    if args.page:
        PAGE.write_text(page(read_ledger()), encoding="utf-8")
    return 1 if any(each.failure for each in outcomes) else 0


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
