# SPDX-License-Identifier: MIT
"""The faults of test/mutants: what they are, and where in src/ they go."""
import functools
import os
import re
from typing import NamedTuple

from tree import Finding

FOLDER = "test/mutants/"
BUILDS = ("plain", "asan", "tsan")
_FILE = re.compile(r"([\w.-]+\.[chS]):")
_WORD = re.compile(r"\w+|[^\w\s]")
_COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"
# What may be between two words of C, and what has to be between two names.
_SPACE = rf"(?:\s|{_COMMENT})*"
_GAP = rf"(?:\s|{_COMMENT})+"


class Edit(NamedTuple):
    file: str  # its base name
    old: str
    new: str


class Mutant(NamedTuple):
    name: str
    path: str
    line: int
    sentence: str
    test: str
    build: str
    edits: list


def _read_one(name, path, line, lines):
    head, said, edits = {"build": "plain"}, [], []
    for text in lines:
        file = _FILE.fullmatch(text)
        if file:
            edits.append(Edit(file[1], "", ""))
        elif edits and text == "..":
            edits.append(Edit(edits[-1].file, "", ""))
        elif edits and text[:1] in ("-", "+", " "):
            file, old, new = edits.pop()
            mark, text = text[0], text[1:] + "\n"
            edits.append(Edit(file, old + text * (mark != "+"),
                              new + text * (mark != "-")))
        elif text.startswith(("test: ", "build: ")):
            key, value = text.split(": ", 1)
            head[key] = value
        elif text:
            said.append(text)
    is_whole = "test" in head and said and edits and head["build"] in BUILDS \
        and all(_WORD.search(edit.old) for edit in edits)
    return Mutant(name, path, line, " ".join(said), head.get("test"),
                  head["build"], edits) if is_whole else \
        Finding(path, line, f"{name}: expected a sentence, 'test: ...', "
                "perhaps 'build: tsan' or 'build: asan', and 'FILE:' with "
                "lines after '-', '+' and ' '")


def read(path, text):
    """The faults of a file, with a Finding for each that cannot be read."""
    parts, found = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("== "):
            parts.append((line[3:], path, number, []))
        elif parts:
            parts[-1][3].append(line)
    for part in parts:
        found.append(_read_one(*part))
    return found


def read_all(tree):
    return [mutant for path in tree.paths()
            if path.startswith(FOLDER) and path.endswith(".txt")
            for mutant in read(path, tree.read(path))]


@functools.cache
def pattern(old):
    """Finds C text however its lines are broken, and whatever it says."""
    words = _WORD.findall(re.sub(_COMMENT, " ", old))
    parts = [re.escape(words[0])]
    for before, after in zip(words, words[1:]):
        is_name = before[-1].isalnum() or before[-1] == "_"
        are_names = is_name and (after[0].isalnum() or after[0] == "_")
        parts += [_GAP if are_names else _SPACE, re.escape(after)]
    first = r"(?<!\w)" if re.match(r"\w", words[0]) else ""
    last = r"(?!\w)" if re.match(r"\w", words[-1]) else ""
    return re.compile(first + "".join(parts) + last)


class Sources:
    """The files of src/ that a fault may be in."""

    def __init__(self, tree):
        self.texts = {path: tree.read(path) for path in tree.paths()
                      if path.startswith("src/")
                      and path.endswith((".c", ".h", ".S"))}

    def find(self, old, file=None):
        """Where the text is: of each place the path, start and end."""
        return [(path, match.start(), match.end())
                for path, text in self.texts.items()
                if file in (None, os.path.basename(path))
                for match in pattern(old).finditer(text)]

    def place(self, edit):
        """The only place of an edit; or None, and what to do about it."""
        here = self.find(edit.old, edit.file)
        if len(here) == 1:
            return here[0], None
        if here:
            return None, (f"its text is {len(here)} times in {edit.file}: "
                          "give more of it")
        elsewhere = {at[0] for at in self.find(edit.old)}
        return None, (f"its text is 0 times in {edit.file}: "
                      + (f"it is in {', '.join(sorted(elsewhere))}"
                         if elsewhere else
                         "make the same fault in today's code"))


def is_test(name, texts):
    """Whether a test has that name, or one that is made of its beginning."""
    parts = name.partition(" (")
    name = re.escape(parts[0] + parts[1]) if parts[1] else \
        re.escape(name).replace("'", r"\\?'") + "['\"]"
    return any(re.search("['\"]" + name, text) for text in texts)


def check(tree):
    """Each fault can still be made, and the test that finds it is there."""
    findings, sources = [], Sources(tree)
    tests = [tree.read(path) for path in tree.paths()
             if os.path.basename(path) == "meson.build"
             or path.startswith("test/") and path.endswith(".py")]
    for mutant in read_all(tree):
        if isinstance(mutant, Finding):
            findings.append(mutant)
            continue
        wrong = [sources.place(edit)[1] for edit in mutant.edits]
        if not is_test(mutant.test, tests):
            wrong.append(f"there is no test '{mutant.test}': name one that "
                         "finds the fault")
        findings += [Finding(mutant.path, mutant.line,
                             f"{mutant.name}: {said}")
                     for said in wrong if said]
    return findings
