# SPDX-License-Identifier: MIT
"""The files under examination, and C text split into code and comments."""
import bisect
import os
import re
import subprocess
from typing import NamedTuple


class Finding(NamedTuple):
    path: str
    line: int
    text: str  # what is wrong, and what to do

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}"


class Tree:
    def __init__(self, root, build=None):
        self.root = os.path.realpath(root)
        self.build = os.path.join(self.root, build or "build")
        self._paths = None

    def paths(self):
        """All files that git has or would add; without git, all there are."""
        if self._paths is None:
            self._paths = sorted(self._from_git() or self._from_disk())
        return self._paths

    def _from_git(self):
        if not os.path.exists(os.path.join(self.root, ".git")):
            return None
        done = subprocess.run(
            ["git", "-C", self.root, "-c", f"safe.directory={self.root}",
             "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, text=True)
        return [path for path in set(done.stdout.split("\0"))
                if path and os.path.isfile(self.full(path))]

    def _from_disk(self):
        for folder, subfolders, names in os.walk(self.root):
            here = os.path.relpath(folder, self.root)
            subfolders[:] = [
                name for name in subfolders
                if name not in (".git", "__pycache__")
                and not (here == "." and name.startswith("build"))]
            for name in names:
                yield os.path.normpath(os.path.join(here, name))

    def c_files(self, *folders):
        for path in self.paths():
            if path.endswith((".c", ".h")) and path.startswith(
                    tuple(folder + "/" for folder in folders)):
                yield path

    def full(self, path):
        return os.path.join(self.root, path)

    def exists(self, path):
        return os.path.isfile(self.full(path))

    def read(self, path):
        with open(self.full(path), encoding="utf-8", errors="replace") as file:
            return file.read()


class Comment(NamedTuple):
    start: int
    end: int  # after the last character
    text: str


_TOKEN = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""",
    re.DOTALL | re.VERBOSE)


class Source:
    """A C file. In `code` comments and strings are blanked, offsets kept."""

    def __init__(self, text):
        self.text = text
        self.comments = []
        self._starts = [0]
        self._starts += [m.end() for m in re.finditer("\n", text)]
        self.code = _TOKEN.sub(self._blank, text)

    def _blank(self, match):
        token = match[0]
        if token.startswith(("/*", "//")):
            self.comments.append(Comment(match.start(), match.end(), token))
        return re.sub(r"[^\n]", " ", token)

    def line(self, offset):
        return bisect.bisect_right(self._starts, offset)

    def offset(self, line):
        return self._starts[line - 1]

    def line_text(self, line):
        end = self.text.find("\n", self.offset(line))
        return self.text[self.offset(line):end if end >= 0 else None]

    def statement(self, at):
        """Start and end of the statement, or head of one, around an offset."""
        start = end = at
        while start > 0 and self.code[start - 1] not in ";{}":
            start -= 1
        while end < len(self.code) and self.code[end] not in ";{}":
            end += 1
        return start, end


def blank_directives(code):
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda match: re.sub(r"[^\n]", " ", match[0]), code,
                  flags=re.MULTILINE)


def is_test(path):
    return os.path.basename(path).startswith("test-")
