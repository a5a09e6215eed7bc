#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write results as a page with tables and plots.

The page is one file, DIR/index.html: it needs no other, no script and no network.
"""
from __future__ import annotations

import argparse
import atexit
import importlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from reading import Unreadable, read

INDEX = "index.html"
RESULTS = "results.jsonl"
HOW_TO_GET = ("no python3 here has matplotlib: "
              "apt-get install python3-matplotlib")
NEEDED = "matplotlib.backends.backend_svg"


# --- which interpreter can draw ---------------------------------------------


def interpreter() -> str | None:
    """Return: the first Python interpreter with Matplotlib. Debian's Matplotlib need not
    belong to the python3 that is found first."""
    for python in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
        if not Path(python).exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [python, "-B", "-c", f"import {NEEDED}"],
                stdin=subprocess.DEVNULL, capture_output=True,
                env=os.environ | {"MPLCONFIGDIR": folder})
        if done.returncode == 0:
            return python
    return None


def write(python: str, files: list[Path], folder: Path) -> int:
    """Write the report with that interpreter. Return: its exit status."""
    return subprocess.run(
        [python, "-B", str(Path(__file__).resolve()),
         *(str(file.resolve()) for file in files), "--dir",
         str(folder.resolve())], stdin=subprocess.DEVNULL).returncode


def can_draw() -> bool:
    """Whether this interpreter can draw. Matplotlib's own files go into a temporary
    directory, which ends with this process."""
    folder = tempfile.mkdtemp(prefix="uaio-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["MPLCONFIGDIR"] = folder
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        importlib.import_module(NEEDED)
    except ImportError:
        return False
    return True


# --- the command ------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """An argument parser whose error messages are one line, like the command's."""

    def error(self, message: str) -> None:
        self.exit(2, f"uaio: bench: {message}\n")


def arguments(parser: Parser) -> argparse.Namespace:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE",
                        help="what --json or --report wrote")
    parser.add_argument("--dir", type=Path, required=True, metavar="DIR",
                        help=f"where {INDEX} is written")
    args = parser.parse_args()
    for file in args.files:
        if not file.exists():
            parser.error(f"no such file: {file}")
    return args


def main() -> int:
    parser = Parser(prog="report.py", description=__doc__.splitlines()[0])
    args = arguments(parser)
    try:
        results = read(args.files)
        if not can_draw():
            python = interpreter() or parser.error(HOW_TO_GET)
            return write(python, args.files, args.dir)
        sections = importlib.import_module("sections")
        args.dir.mkdir(parents=True, exist_ok=True)
        (args.dir / INDEX).write_text(sections.report(results),
                                      encoding="utf-8")
    except Unreadable as why:
        parser.error(str(why))
    except OSError as why:
        parser.error(f"{why.filename}: {why.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
