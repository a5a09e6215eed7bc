# SPDX-License-Identifier: MIT
"""The README of each room, and the files that lie there.

A folder in a room has a section of the room's README, with a heading that begins
with `folder/`; the table there has the files by their names alone.

Rows of WALKS are `| number | function | file in src/ | ... |`: the function is defined
in that file.
"""
import re

from tree import Finding

SOURCE = re.compile(r"(src/\w+)/((?:\w+/)?(?!test-)[\w-]+\.[chS])")
INSTALLED = {"uaio.h"}
WALKS = "doc/design.md"
HOP = re.compile(r"\| \d+ \| `(\w+)` \| `([\w/-]+\.c)` \|")
NAME = re.compile(r"`([\w-]+\.[chS])`")
SECTION = re.compile(r"#+ (?:`(\w+/)`)?")


def _stem(name):
    return name.rsplit(".", 1)[0]


def _named(text):
    """(line, whether it is in a table, path in the room) of each name."""
    folder = ""
    for number, line in enumerate(text.splitlines(), 1):
        section = SECTION.match(line)
        if section:
            folder = section[1] or ""
        for name in NAME.findall(line):
            if name not in INSTALLED:
                yield number, line.startswith("|"), folder + name


def _findings(page, text, names):
    named = list(_named(text))
    stems = {_stem(name) for _, _, name in named}
    for name in sorted(names):
        # A source and its header go by either name.
        if _stem(name) not in stems:
            yield Finding(page, 1, f"does not say what {name} does")
    for number, is_row, name in named:
        if is_row and name not in names:
            yield Finding(page, number, f"{name} is not there")


def _hops(tree):
    """What is wrong with the walks of requests."""
    for number, line in enumerate(tree.read(WALKS).splitlines(), 1):
        hop = HOP.match(line)
        if not hop:
            continue
        path = f"src/{hop[2]}"
        # A definition begins its line, or follows the line of its type.
        if not tree.exists(path) or not re.search(
                rf"^[\w *()]*\b{hop[1]}\([^;]*\n?[^;]*\)\s*\{{",
                tree.read(path), re.M):
            yield Finding(WALKS, number, f"{path} does not define {hop[1]}()")


def check(tree):
    rooms, findings = {}, list(_hops(tree))
    for path in tree.paths():
        source = SOURCE.fullmatch(path)
        if source:
            rooms.setdefault(source[1], set()).add(source[2])
    for room, names in rooms.items():
        page = f"{room}/README.md"
        if tree.exists(page):
            findings += _findings(page, tree.read(page), names)
        else:
            findings.append(Finding(page, 1, "does not exist: say what the "
                                    "room is for, and what each file does"))
    return findings
