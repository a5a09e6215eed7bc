# SPDX-License-Identifier: MIT
"""The faults of test/mutants: what they are, and where in src/ they go."""
import functools
import os
import re
from typing import NamedTuple

from tree import Finding, Source, blank_directives

FOLDER = "test/mutants/"
BUILDS = ("plain", "asan", "tsan")
_HEAD = re.compile(r"(test|build): (.+)")
_NAME = re.compile(r"([\w-]+): (.+)")
_EDIT = re.compile(r"\s+([\w./-]+\.[chS]) (\w+): (.+)")
_ARROW = re.compile(r"\s->(?:\s|$)")
_WORD = re.compile(r"\w+|[^\w\s]")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:[^\n]*\\\n)*[^\n]*",
                    re.MULTILINE)
# In assembly, a macro, or what stands behind a label up to the next.
_ASSEMBLY = re.compile(
    r"^[ \t]*\.macro[ \t]+(\w+).*?^[ \t]*\.endm"
    r"|^([A-Za-z_]\w*):.*?(?=^[A-Za-z_]\w*:|\Z)", re.MULTILINE | re.DOTALL)


class Edit(NamedTuple):
    file: str  # its base name, or more of the end of its path
    item: str  # the function, type, variable or macro that is changed
    old: str
    new: str
    line: int = 0


class Mutant(NamedTuple):
    name: str
    path: str
    line: int
    sentence: str
    test: str
    build: str
    edits: list


class Place(NamedTuple):
    path: str
    start: int
    end: int


#
# the files that describe faults
#

def _paragraphs(text):
    """Number and text of each line, with those that continue it."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if found and line[:1].isspace() and not _EDIT.fullmatch(line):
            found[-1][1] += "\n" + line
        elif line and not line.startswith("#"):
            found.append([number, line])
    return found


def _edit(said, number):
    parts = _ARROW.split(said[3])
    is_whole = len(parts) == 2 and _WORD.search(parts[0])
    return Edit(said[1], said[2], parts[0].strip(), parts[1].strip(),
                number) if is_whole else None


def read(path, text):
    """The faults of a file, with a Finding for each that cannot be read."""
    found, head, mutant = [], {}, None

    def wrong(number, said):
        found.append(Finding(path, number, said))

    for number, line in _paragraphs(text):
        edit = re.fullmatch(_EDIT.pattern, line, re.DOTALL)
        key = _HEAD.fullmatch(line)
        name = re.fullmatch(_NAME.pattern, line, re.DOTALL)
        if key and key[1] == "test":
            head = {"test": key[2], "build": "plain"}
        elif key and head and key[2] in BUILDS:
            head["build"] = key[2]
        elif name and head and not key:
            mutant = Mutant(name[1], path, number, " ".join(name[2].split()),
                            **head, edits=[])
            found.append(mutant)
        elif edit and mutant:
            edit = _edit(edit, number)
            if edit:
                mutant.edits.append(edit)
            else:
                wrong(number, "expected 'FILE ITEM: OLD -> NEW', with one "
                      "arrow between blanks")
        else:
            wrong(number, "expected 'test: ...', perhaps 'build: tsan' or "
                  "'build: asan', then 'NAME: a sentence', and below each, "
                  "indented, 'FILE ITEM: OLD -> NEW'")
    for mutant in list(found):
        if isinstance(mutant, Mutant) and not mutant.edits:
            wrong(mutant.line, f"{mutant.name}: changes nothing: give it "
                  "'FILE ITEM: OLD -> NEW'")
    return found


def read_all(tree):
    return [mutant for path in tree.paths()
            if path.startswith(FOLDER) and path.endswith(".txt")
            for mutant in read(path, tree.read(path))]


#
# where faults go
#

@functools.cache
def pattern(old):
    """Finds C text without comments, however its lines are broken."""
    words = _WORD.findall(old)
    parts = [re.escape(words[0])]
    for before, after in zip(words, words[1:]):
        are_names = re.match(r"\w", before) and re.match(r"\w", after)
        parts += [r"\s+" if are_names else r"\s*", re.escape(after)]
    first = r"(?<!\w)" if re.match(r"\w", words[0]) else ""
    last = r"(?!\w)" if re.match(r"\w", words[-1]) else ""
    return re.compile(first + "".join(parts) + last)


def definitions(code):
    """Name, start and end of what C text defines, comments left out.

    What has two names is given twice: `static struct s { ... } v = { ... };`.
    """
    for match in _MACRO.finditer(code):
        yield match[1], match.start(), match.end()
    code = blank_directives(code)
    depth, start, names, last, before = 0, None, [], "", ""
    is_body = False
    for match in _WORD.finditer(code):
        word = match[0]
        if start is None:
            start, names, is_body = match.start(), [], False
        if not depth and word in ("{", "="):
            names.append(last)
            is_body = word == "{" and before == ")"
        depth += (word in "([{") - (word in ")]}")
        if word == "}" and code[match.start() - 1] == "\n":
            depth = 0  # whatever was between #if and #else
        if not depth and (word == ";" or word == "}" and is_body):
            for name in dict.fromkeys(names):
                yield name, start, match.end()
            start = None
        if not depth and re.match(r"\w", word):
            last = word
        before = word


class Sources:
    """The files of src/ that a fault may be in."""

    def __init__(self, tree):
        self.texts = {path: tree.read(path) for path in tree.paths()
                      if path.startswith("src/")
                      and path.endswith((".c", ".h", ".S"))}
        self._code, self._items = {}, {}

    def code(self, path):
        """The text, with blanks for comments."""
        if path not in self._code:
            text = self.texts[path]
            for start, end, said in Source(text).comments:
                text = text[:start] + re.sub(r"[^\n]", " ", said) + text[end:]
            self._code[path] = text
        return self._code[path]

    def items(self, path, name):
        """Start and end of what has that name in a file."""
        if path not in self._items:
            found = self._items[path] = {}
            for item, start, end in self._all_items(path):
                found.setdefault(item, []).append((start, end))
        return self._items[path].get(name, [])

    def _all_items(self, path):
        if path.endswith(".S"):
            for match in _ASSEMBLY.finditer(self.code(path)):
                yield match[1] or match[2], match.start(), match.end()
        else:
            yield from definitions(Source(self.texts[path]).code)

    def holders(self, name):
        return [path for path in self.texts
                if name in self.texts[path] and self.items(path, name)]

    def place(self, edit):
        """The only place of an edit; or None, and what to do about it."""
        paths = [path for path in self.texts
                 if f"/{path}".endswith(f"/{edit.file}")
                 and self.items(path, edit.item)]
        if len(paths) > 1:
            return None, (f"{edit.item} is in {' and '.join(paths)}: name the "
                          f"folder, as in '{paths[0][len('src/'):]}'")
        if not paths:
            elsewhere = self.holders(edit.item)
            return None, (f"no file {edit.file} of src/ defines {edit.item}"
                          + (f": it is in {', '.join(elsewhere)}"
                             if elsewhere else ""))
        here = [Place(paths[0], match.start(), match.end())
                for start, end in self.items(paths[0], edit.item)
                for match in pattern(edit.old).finditer(
                    self.code(paths[0]), start, end)]
        if len(here) == 1:
            return here[0], None
        old = " ".join(edit.old.split())
        return None, (f"'{old}' is {len(here)} times in {edit.item} of "
                      f"{paths[0]}: " + ("give more of it" if here else
                                         "make the same fault in today's code"))

    def places(self, mutant):
        """The places of its edits, the last first, and what is wrong."""
        found, wrong = [], []
        for edit in mutant.edits:
            at, said = self.place(edit)
            if said:
                wrong.append((edit.line, said))
            else:
                found.append((at, edit.new))
        found.sort(reverse=True)
        for (after, _), (at, _) in zip(found, found[1:]):
            if at.path == after.path and at.end > after.start:
                wrong.append((mutant.line, "its places overlap"))
        return found, wrong


#
# the check
#

def is_test(name, texts):
    """Whether a test has that name, or one that is made of its beginning."""
    parts = name.partition(" (")
    name = re.escape(parts[0] + parts[1]) if parts[1] else \
        re.escape(name).replace("'", r"\\?'") + "['\"]"
    return any(re.search("['\"]" + name, text) for text in texts)


def check(tree):
    """Each fault can still be made, and the test that finds it is there."""
    findings, sources, names = [], Sources(tree), set()
    tests = [tree.read(path) for path in tree.paths()
             if os.path.basename(path) == "meson.build"
             or path.startswith("test/") and path.endswith(".py")]
    for mutant in read_all(tree):
        if isinstance(mutant, Finding):
            findings.append(mutant)
            continue
        wrong = sources.places(mutant)[1]
        if not is_test(mutant.test, tests):
            wrong.append((mutant.line, f"there is no test '{mutant.test}': "
                          "name one that finds the fault"))
        if mutant.name in names:
            wrong.append((mutant.line, "another fault has that name"))
        names.add(mutant.name)
        findings += [Finding(mutant.path, line, f"{mutant.name}: {said}")
                     for line, said in wrong]
    return findings
