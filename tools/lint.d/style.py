# SPDX-License-Identifier: MIT
"""Format, words and what is tested where."""
import os
import re
import shutil
import subprocess

from tree import Finding, is_test


def check_format(tree):
    if not shutil.which("clang-format"):
        return [Finding(".clang-format", 1, "clang-format is missing: apt-get "
                        "install --no-install-recommends clang-format")]
    files = [*tree.c_files("src", "include", "test", "bench"),
             *(path for path in tree.paths() if path.endswith(".cc"))]
    done = subprocess.run(
        ["clang-format", "--dry-run", "--Werror", "--style=file", *files],
        cwd=tree.root, capture_output=True, text=True)
    lines = {}
    for path, line in re.findall(r"^([^\s:]+):(\d+):\d+: error:", done.stderr,
                                 re.M):
        lines.setdefault(path, int(line))
    findings = [Finding(path, line, "not in the project's format: "
                        f"clang-format -i {path}")
                for path, line in lines.items()]
    if done.returncode and not findings:
        findings = [Finding(".clang-format", 1, done.stderr.strip())]
    return findings


# Brackets keep the patterns from finding themselves.
WORDS = [
    (r"\b(?:TOD[O]|FIXM[E]|XX[X])\b",
     "do it now, or write down as a fact what is not done"),
    (r"\.\./share[d]\b|(?<!\w)/wor[k]/|(?<![\w)])\.librar[y]\b",
     "is outside the project, which stands alone: say it here"),
]
# A document of ours is named by its path from the root, or lies beside.
DOCUMENT = re.compile(r"(?<![\w/.~-])((?:[\w-]+/)*[\w-]+\.md)\b")
# A source of ours in a document, or in a comment, has its path from the root.
PATH = re.compile(r"(?<![\w./*-])"
                  r"((?:src|test|tools)/(?:[\w-]+/)*[\w-]+\.(?:[chS]|py))\b")

# Of a function of the library or the command, from its { to its }.
FUNCTION_LINES = 60

# Pages that a newcomer reads whole, and the words they may have.
LENGTHS = {"README.md": 600, "CHANGELOG.md": 900}


def _document_exists(tree, path, name):
    return any(tree.exists(os.path.join(folder, name))
               for folder in ("", os.path.dirname(path)))


def _names(path, line):
    """The files of ours that a line names."""
    return DOCUMENT.findall(line) + (
        PATH.findall(line) if path.endswith((".md", ".c", ".h", ".S")) else [])


def check_words(tree):
    findings = []
    for path in tree.paths():
        text = tree.read(path)
        words, limit = len(text.split()), LENGTHS.get(path)
        if limit and words > limit:
            findings.append(Finding(path, 1, f"{words} words, and no more than "
                                    f"{limit} are read: move some to doc/"))
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, text in WORDS:
                match = re.search(pattern, line)
                if match:
                    findings.append(Finding(path, number,
                                            f'"{match[0]}": {text}'))
                    break
            else:
                for name in _names(path, line):
                    if not _document_exists(tree, path, name):
                        findings.append(Finding(
                            path, number, f"{name} does not exist: write it, "
                            "or name another"))
    return findings


def check_tested(tree):
    """A source of the rooms has its test beside it or says what tests it."""
    findings, paths = [], set(tree.paths())
    for path in sorted(paths):
        folder, name = os.path.split(path)
        if not re.fullmatch(r"src/(?:\w+/)+(?!test-)[\w-]+\.c", path) \
                or f"{folder}/test-{name}" in paths:
            continue
        texts = [tree.read(place) for place in (path, path[:-1] + "h")
                 if place in paths]
        if not any("Tested by " in text.replace("\n * ", " ")
                   for text in texts):
            findings.append(Finding(
                path, 1, f"has no test-{name} beside it: say in its head, or "
                "in its header's, what it is \"Tested by\""))
    return findings


def check_length(tree):
    """Functions; in our format { and } of no other thing begin a line."""
    findings = []
    for path in tree.c_files("src"):
        if is_test(path):
            continue
        begin = 0
        for number, line in enumerate(tree.read(path).splitlines(), 1):
            if line == "{":
                begin = number
            elif line == "}" and number - begin >= FUNCTION_LINES:
                findings.append(Finding(
                    path, begin, f"a function of {number - begin + 1} lines, "
                    f"and no more than {FUNCTION_LINES} are read at once: "
                    "split it"))
    return findings
