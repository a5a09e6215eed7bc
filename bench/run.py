#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure uaio against its peers and print what was promised and what is.

README.md says what each row is and how a verdict is reached.
"""
from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import sys
import tempfile
from pathlib import Path

import dio
import fio
import nop
import pipe
import programs
from harness import (ENOUGH_PAIRS, ROW_HEAD, ROW_RIGHT, ROW_WIDTHS, Places,
                     Progress, Row, VariantFailed, alternate, cleanup,
                     file_system_of, machine_facts, print_lines, print_rows,
                     write_rows)

PROGRAMS = {
    "nop": nop.nop_rows,
    "pipe": pipe.pipe_rows,
    "dio": dio.dio_rows,
    "lookup": programs.lookup_rows,
    "contexts": programs.contexts_rows,
    "memory": programs.memory_rows,
    "load": programs.load_rows,
}
QUICK_PAIRS = 2
QUICK = {"many-tmpfs": {"loops": 5}, "many-disk": {"loops": 3}, "cold-read-32": {"size": "64m"},
         "direct-read-32": {"size": "64m"}, "direct-write-32": {"size": "64m"}}
"""What --quick makes smaller, to see that everything runs."""


class Parser(argparse.ArgumentParser):
    """Complains as the command does: in one line."""

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


def arguments() -> argparse.Namespace:
    names = [*(job.name for job in fio.JOBS), *PROGRAMS]
    parser = parser_of(names)
    args = parser.parse_args()
    unknown = set(args.names) - set(names)
    if unknown:
        parser.error(f"no such row: {' '.join(sorted(unknown))}")
    args.names = args.names or names
    if args.pairs is None:
        args.pairs = QUICK_PAIRS if args.quick else ENOUGH_PAIRS
    if args.pairs < 1:
        parser.error("--pairs must be at least 1")
    args.places = places_of(args, parser)
    if not set(args.names) <= set(PROGRAMS) and not shutil.which("fio"):
        parser.error("fio is not installed")
    args.dir = args.dir or args.build or Path(
        os.environ.get("TMPDIR", "/var/tmp"))
    if not args.dir.is_dir():
        parser.error(f"no such directory: {args.dir}")
    if args.json:
        try:
            args.json.write_text("")
        except OSError as why:
            parser.error(f"--json {args.json}: {why.strerror}")
    return args


def fio_rows(bench: fio.Bench, job: fio.Job, pairs: int,
             progress: Progress) -> list[Row]:
    if job.on_tmpfs and file_system_of(programs.TMPFS) != "tmpfs":
        return [Row(name=job.name, title=job.title, figure="I/O", unit="I/O/s",
                    peer="kernel", note=f"no tmpfs on {programs.TMPFS}")]
    progress.show(f"{job.name}: laying out its files")
    try:
        fio.lay_out(bench, job)
    except VariantFailed as why:
        return [Row(name=job.name, title=job.title, figure="I/O", unit="I/O/s",
                    peer="kernel", note=str(why))]
    known = fio.variants(bench)
    series = alternate(
        {name: lambda name=name: fio.measure(bench, job, known[name])
         for name in fio.peers_of(job)},
        pairs, "kernel", progress, job.name)
    return fio.rows_of(bench, job, series)


def main() -> int:
    args = arguments()
    progress = Progress()
    machine = machine_facts()
    bench = fio.Bench(
        places=args.places,
        disk_dir=cleanup.temp_dir(args.dir),
        tmpfs_dir=cleanup.temp_dir(programs.TMPFS if programs.TMPFS.is_dir()
                                   else Path(tempfile.gettempdir())),
        runtime_s=1.0 if args.quick else 3.0)
    print(f"uaio {machine['commit'] or 'of an unknown commit'}   "
          f"fio {machine['fio'] or 'missing'}   {machine['cpus']} CPUs "
          f"({machine['cpu']})   Linux {machine['kernel']}   "
          f"{file_system_of(bench.disk_dir)} and tmpfs   {machine['date']}",
          flush=True)

    print_lines([ROW_HEAD], ROW_WIDTHS, ROW_RIGHT)
    rows: list[Row] = []
    wanted = programs.Programs(
        args.places, bench.disk_dir, args.pairs, args.quick, progress)
    for name in args.names:
        if name in PROGRAMS:
            new = PROGRAMS[name](wanted)
        else:
            job = fio.job_named(name)
            if args.quick:
                job = dataclasses.replace(job, **QUICK.get(name, {}))
            new = fio_rows(bench, job, args.pairs, progress)
        print_rows(new)
        rows += new
        if args.json:
            write_rows(args.json, rows, machine)
    return 1 if any(row.is_disproved for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
