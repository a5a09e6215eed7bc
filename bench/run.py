#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure uaio against its peers and print what was promised and what is.

README.md says what each row is and how a verdict is reached.
"""
from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import contexts
import depth
import dio
import echo
import fio
import growth
import indexjobs
import jobs
import lines
import nop
import pipe
import posixaio
import programs
import replaces
import report
import scale
import servers
import tracing
import trap
import uring
from harness import Progress, Rounds, VariantFailed, cleanup
from machine import Places, file_system_of, machine_facts
from rows import (ENOUGH_PAIRS, ROW_HEAD, ROW_RIGHT, ROW_WIDTHS, Row, Table,
                  print_lines, print_rows, print_tables, write_results)

@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the benchmarks that can be named on the command line."""

    measure: Callable[[programs.Programs], list[Row | Table]]
    round_s: float
    """About what a round of it takes, for the time left; and of --quick."""
    quick_s: float

    def expected_s(self, rounds: Rounds, is_quick: bool) -> float:
        return self.quick_s if is_quick else self.round_s * (
            rounds.measured + rounds.warm_up)


PARTS = {
    **{job.name: Part(functools.partial(jobs.job_results, job=job), 14, 5)
       for job in fio.JOBS},
    "depth": Part(depth.depth_results, 20, 7),
    "scale": Part(scale.scale_results, 10, 3),
    "lines": Part(lines.lines_results, 5, 30),
    "growth": Part(growth.growth_results, 40, 12),
    "nop": Part(nop.nop_results, 18, 6),
    "pipe": Part(pipe.pipe_results, 30, 8),
    "dio": Part(dio.dio_results, 90, 12),
    "replaces": Part(replaces.replaces_results, 14, 16),
    "uring": Part(uring.uring_results, 25, 22),
    "echo": Part(echo.echo_results, 12, 4),
    "servers-tokio": Part(servers.results_of("tokio"), 24, 6),
    "servers-netty": Part(servers.results_of("netty"), 30, 12),
    "servers-node": Part(servers.results_of("node"), 40, 12),
    "trap": Part(trap.trap_results, 2, 2),
    "posix": Part(posixaio.posix_results, 60, 20),
    "lookup": Part(contexts.lookup_results, 4, 2),
    "index": Part(contexts.index_results, 4, 2),
    "requests": Part(contexts.requests_results, 5, 3),
    "index-jobs": Part(indexjobs.index_jobs_results, 16, 7),
    "memory": Part(contexts.memory_results, 0.1, 1),
    "trace": Part(tracing.trace_results, 8, 5),
    "load": Part(programs.load_results, 1, 1),
}
GROUPS = {
    "fio": [job.name for job in fio.JOBS],
    "servers": ["servers-tokio", "servers-netty", "servers-node"],
    "contexts": ["lookup", "index", "requests", "index-jobs", "memory"],
}
"""Names for several parts."""
QUICK_PAIRS = 1


class Parser(argparse.ArgumentParser):
    """An argument parser whose error messages are one line, like the command's."""

    def error(self, message: str) -> None:
        self.exit(2, f"uaio: bench: {message}\n")


def parser_of(names: list[str]) -> Parser:
    parser = Parser(prog="uaio bench", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true",
                        help="short runs, too few for a verdict")
    parser.add_argument("--pairs", type=int, metavar="N",
                        help="measured rounds (default: "
                             f"{ENOUGH_PAIRS}, quick {QUICK_PAIRS})")
    parser.add_argument("--json", type=Path, metavar="FILE",
                        help="write the rows, one JSON object a line")
    parser.add_argument("--report", type=Path, metavar="DIR",
                        help="write the results as a page, "
                             f"DIR/{report.INDEX}, and DIR/{report.RESULTS}")
    parser.add_argument("--dir", type=Path, metavar="DIR",
                        help="where the files on disk are made (default: the "
                             "build directory, or $TMPDIR, or /var/tmp)")
    parser.add_argument("names", nargs="*", metavar="name",
                        help=" ".join(names) + " (default: all)")
    # Where everything is, which the command knows: either, or both others.
    for option in ("--build", "--uaio", "--helpers"):
        parser.add_argument(option, type=Path, help=argparse.SUPPRESS)
    return parser


def places_of(args: argparse.Namespace, parser: Parser) -> Places:
    if args.build:
        places = Places.of_build(args.build.resolve())
    elif args.uaio and args.helpers:
        places = Places(args.uaio.resolve(), args.helpers.resolve())
    else:
        parser.error("--build is missing")
    if not places.uaio.exists():
        parser.error(f"{places.uaio} does not exist; build it first")
    return places


def parts_of(names: list[str], parser: Parser) -> list[str]:
    """Return: the named parts, each once, in their usual order."""
    unknown = set(names) - set(PARTS) - set(GROUPS)
    if unknown:
        parser.error(f"no such row: {' '.join(sorted(unknown))}")
    wanted = {part for name in names for part in GROUPS.get(name, [name])}
    return [part for part in PARTS if part in (wanted or PARTS)]


def arguments() -> argparse.Namespace:
    parser = parser_of([*GROUPS, *PARTS])
    args = parser.parse_args()
    args.names = parts_of(args.names, parser)
    if args.pairs is None:
        args.pairs = QUICK_PAIRS if args.quick else ENOUGH_PAIRS
    if args.pairs < 1:
        parser.error("--pairs must be at least 1")
    args.places = places_of(args, parser)
    args.dir = args.dir or args.build or Path(
        os.environ.get("TMPDIR", "/var/tmp"))
    # The programs run in other directories, so make these paths absolute.
    args.dir = args.dir.resolve()
    if not args.dir.is_dir():
        parser.error(f"no such directory: {args.dir}")
    args.drawer = None
    if args.report:
        args.drawer = report.interpreter() or parser.error(report.HOW_TO_GET)
    args.files = [file for file in (args.json, args.report
                                    and args.report / report.RESULTS) if file]
    try:
        if args.report:
            args.report.mkdir(parents=True, exist_ok=True)
        for file in args.files:
            file.write_text("")
    except OSError as why:
        parser.error(f"{why.filename}: {why.strerror}")
    return args


def programs_of(args: argparse.Namespace,
                progress: Progress) -> programs.Programs:
    in_memory = programs.TMPFS if programs.TMPFS.is_dir() \
        else Path(tempfile.gettempdir())
    return programs.Programs(
        places=args.places,
        disk_dir=cleanup.temp_dir(args.dir),
        tmpfs_dir=cleanup.temp_dir(in_memory),
        rounds=Rounds(args.pairs, warm_up=0 if args.quick else 1),
        is_quick=args.quick,
        progress=progress)


def print_machine(machine: dict, wanted: programs.Programs) -> None:
    versions = [f"{name} {machine[name] or 'missing'}"
                for name in ("fio", "libaio", "liburing")]
    print(f"uaio {machine['commit'] or 'of an unknown commit'}   "
          f"{'   '.join(versions)}   {machine['cpus']} CPUs "
          f"({machine['cpu']})   Linux {machine['kernel']}   "
          f"{file_system_of(wanted.disk_dir)} and "
          f"{file_system_of(wanted.tmpfs_dir)}   {machine['date']}",
          flush=True)


def measure(args: argparse.Namespace, wanted: programs.Programs,
            write: Callable[[list[Row | Table]], None]) -> list[Row | Table]:
    """Measure all parts in turn. After each part, the results so far are printed and
    written."""
    results: list[Row | Table] = []
    print_lines([ROW_HEAD], ROW_WIDTHS, ROW_RIGHT)
    for name in args.names:
        wanted.progress.enter(name)
        try:
            new = PARTS[name].measure(wanted)
        except VariantFailed as why:
            new = [Row(name=name, title=name, figure=name, unit="", peer="",
                       note=str(why))]
        wanted.progress.clear()
        print_tables([each for each in new if isinstance(each, Table)])
        print_rows([each for each in new if isinstance(each, Row)])
        results += new
        write(results)
        if cleanup.is_interrupted:
            break
    return results


def write_report(args: argparse.Namespace) -> bool:
    """The page of what there is, where one is wanted."""
    if not args.report:
        return True
    if report.write(args.drawer, [args.report / report.RESULTS], args.report):
        return False
    print(f"report: {args.report / report.INDEX}", flush=True)
    return True


def main() -> int:
    args = arguments()
    machine = machine_facts()
    wanted = programs_of(args, Progress())
    print_machine(machine, wanted)
    wanted.progress.begin({
        name: PARTS[name].expected_s(wanted.rounds, args.quick)
        for name in args.names})
    cleanup.may_finish = True

    def write(results: list[Row | Table]) -> None:
        for file in args.files:
            write_results(file, results, machine)

    results = measure(args, wanted, write)
    is_reported = write_report(args)
    if cleanup.is_interrupted:
        print("uaio: bench: interrupted; the above is what was measured",
              file=sys.stderr)
        return 128 + signal.SIGINT
    if not is_reported:
        return 2
    return 1 if any(each.is_disproved for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
