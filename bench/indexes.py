# SPDX-License-Identifier: MIT
"""uaio with its contexts in another index (ctx-index.c), and what proves it.

    list   libuaio-list.so: with the list that kernel AIO had
    radix  libuaio-radix.so: with the radix tree it was offered

Such a library says which it is, and how many contexts were put there, into a
file to which every process that it is in appends a line.
"""
from __future__ import annotations

import json
from pathlib import Path

from harness import Disproved, VariantFailed
from programs import Programs

LIST, RADIX = "list", "radix"
INDEXES = (LIST, RADIX)


def environment_of(programs: Programs, index: str,
                   report: Path) -> dict[str, str]:
    """Return: the environment in which a program uses that library."""
    library = programs.places.helpers / f"libuaio-{index}.so"
    if not library.exists():
        raise VariantFailed(f"{library} is not there: it was not built, or is "
                            "not installed")
    return {"LD_PRELOAD": str(library)} | reporting(report)


def reporting(report: Path) -> dict[str, str]:
    """Return: the environment in which a library with another index reports itself."""
    return {"UAIO_INDEX": str(report), "UAIO_COUNTERS": "/dev/null"}


def said_of_index(report: Path) -> list[dict]:
    """Return: what each process has reported."""
    try:
        return [json.loads(line) for line in report.read_text().splitlines()]
    except FileNotFoundError:
        return []


def prove_index(who: str, said: list[dict], contexts: int) -> str:
    """Check which index a variant had. Raises Disproved if its index is not the one of
    its name, or if contexts were missing in it."""
    found = {each["index"] for each in said}
    if found != {who} & {*INDEXES}:
        raise Disproved(f"{who}: contexts were in a "
                        f"{' and a '.join(sorted(found)) or 'table'}")
    if not found:
        return "no other index than the table"
    put = sum(each["put"] for each in said)
    if put < contexts:
        raise Disproved(f"{who}: {put} of {contexts} contexts were put there")
    return f"{put} contexts in a {who}"
