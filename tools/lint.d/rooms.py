# SPDX-License-Identifier: MIT
"""The README of each room, and the files that lie there."""
import os
import re

from tree import Finding

SOURCE = re.compile(r"src/\w+/(?!test-)[\w-]+\.[chS]")
INSTALLED = {"uaio.h"}
NAME = re.compile(r"`([\w-]+\.[chS])`")


def _stem(name):
    return name.rsplit(".", 1)[0]


def _findings(page, text, names):
    named = {_stem(name) for name in NAME.findall(text)}
    for name in sorted(names):
        # A source and its header go by either name.
        if _stem(name) not in named:
            yield Finding(page, 1, f"does not say what {name} does")
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("|"):
            for name in sorted(set(NAME.findall(line)) - names - INSTALLED):
                yield Finding(page, number, f"{name} is not there")


def check(tree):
    rooms, findings = {}, []
    for path in tree.paths():
        if SOURCE.fullmatch(path):
            folder, name = os.path.split(path)
            rooms.setdefault(folder, set()).add(name)
    for folder, names in rooms.items():
        page = f"{folder}/README.md"
        if tree.exists(page):
            findings += _findings(page, tree.read(page), names)
        else:
            findings.append(Finding(page, 1, "does not exist: say what the "
                                    "room is for, and what each file does"))
    return findings
