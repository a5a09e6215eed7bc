#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cut.py --conform PROGRAM --uaio PROGRAM [ROW]...

Runs rows of large direct requests under `uaio run --segments 8`, all of
them in workers, and asks the statistics how many of the requests were made in
segments. What those report is compare.py's business.

Exit status: 0, 1, or 77 where there is no direct I/O.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

SKIPPED = 77

# The requests of each row that are cut; all others are made in one piece.
CUT = {
    "large direct reads": 4,
    "large direct writes in place": 5,
    "large direct reads that meet the end of the file": 15,
    "very large direct requests": 3,
    "direct reads of more than a request may have": 2,
    "large direct requests at offsets out of range": 0,
    "large direct requests in pieces": 9,
    "large direct requests with empty pieces": 4,
    "large direct reads in pieces that meet the end": 3,
    "large direct requests and holes": 6,
    "large direct requests on room allocated before": 4,
    # All but the request that is refused at submission.
    "large direct writes stop at RLIMIT_FSIZE": 3,
    "large direct writes when the file system gets full": 3,
    "large direct requests with bad buffers": 16,
    "large direct requests on a block device": 7,
    "large direct requests in the wrong direction": 0,
    "many large direct requests in flight": 32,
    # All but the read at the end.
    "large direct writes that extend the file": 1,
    "large direct writes over an end within a block": 0,
    "large direct writes in pieces that extend the file": 0,
    # All but the write in place at the end.
    "large direct writes that append": 1,
    # All but one read.
    "large direct writes that are durable": 1,
    # Those with RWF_HIPRI, which AIO ignores.
    "large direct requests with RWF flags": 2,
    "large direct requests with RWF_NOWAIT": 0,
    # All but those that are aligned to a block.
    "large direct reads that are misaligned": 1,
    "large direct writes that are misaligned": 1,
    "large direct requests with a piece misaligned": 0,
}


def count_cut(conform, uaio, row, width):
    """The requests of the row that were cut, and what the row noted."""
    with tempfile.NamedTemporaryFile("r") as stats:
        out = subprocess.run(
            [uaio, "run", "--segments", width,
             f"--stats-json={stats.name}", "--", conform, row],
            env={**os.environ, "UAIO_FORCE_WORKER": "1"},
            stdout=subprocess.PIPE, text=True, check=True).stdout
        return sum(json.loads(line)["direct"]["cut"] for line in stats), out


def check(conform, uaio, row):
    """A complaint, "" if there is none, or None: the row cannot be run."""
    nr_cut, noted = count_cut(conform, uaio, row, "8")
    if "\tskip=" in noted:
        print(f"skipped: {noted.strip()}")
        return None
    if nr_cut != CUT[row]:
        return f"{row}: {nr_cut} requests were cut, not {CUT[row]}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--conform", required=True)
    parser.add_argument("--uaio", required=True)
    parser.add_argument("rows", nargs="*", default=list(CUT))
    args = parser.parse_args()
    said = [check(args.conform, args.uaio, row) for row in args.rows]
    whole, _ = count_cut(args.conform, args.uaio, "large direct reads", "1")
    if whole:
        said.append(f"{whole} requests were cut that are to be whole")
    failed = [text for text in said if text]
    print("\n".join(failed))
    print(f"{len(said) - len(failed)} passed, {len(failed)} failed")
    if all(text is None for text in said):
        return SKIPPED
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
