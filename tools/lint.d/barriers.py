# SPDX-License-Identifier: MIT
"""Memory order: every ordered access is tagged, paired and explained.

An access that is not relaxed has [MB:tag] in a comment of its own statement or
above it in the same paragraph (lines without a blank one between, or the end of
a block). A tag names a pair: it has a side that releases and one that acquires,
and a heading in the document, and a row in the table of what x86-64 gives for free, which
counts its accesses and says by what their orders are argued.
"""
import re

from tree import Finding, Source, is_test

ATOMICS = "src/base/atomic.h"
DOCUMENT = "doc/memory-model.md"
TAG = re.compile(r"\[MB:([a-z0-9-]+)\](?:\s|\*)*(\w+)?")
ORDER = re.compile(r"__ATOMIC_(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST|CONSUME)\b")
ROW = re.compile(r"^\| `([a-z0-9-]+)` \| (\d+) \| (\d+) \| (\d+) \| (.*) \|$", re.M)
MODEL = re.compile(r"`(\w+)\.pml`")
WORDS = {"acquire", "release", "acq_rel", "seq_cst"}
ACQUIRES = {"acquire", "acq_rel", "seq_cst"}
RELEASES = {"release", "acq_rel", "seq_cst"}

FORBIDDEN = [
    # In assembly it has another meaning.
    (re.compile(r"(?<!asm )(?<!asm__ )\b(__)?volatile\b"),
     "volatile orders nothing: use the accesses of base/atomic.h"),
    (re.compile(r"\b_Atomic\b|\batomic_\w+\s*\(|\bmemory_order_\w+"),
     "accesses to _Atomic types hide their order: use base/atomic.h"),
    (re.compile(r"\b__sync_\w+"),
     "__sync builtins have no order in their name: use base/atomic.h"),
    (re.compile(r"\b__atomic_(?:thread|signal)_fence\b"),
     "fences are far from what they order: put the order on an access"),
]


def ordered_names(text):
    """The accesses of base/atomic.h that have an order: name -> order."""
    names = {}
    text = text.replace("\\\n", " ")
    for name, body in re.findall(r"^#define (\w+)\(.*?\)(.*)$", text, re.M):
        orders = ORDER.findall(body)
        if orders:
            names[name] = orders[0].lower()  # the order of success
    return names


class Access:
    def __init__(self, path, line, what, order):
        self.path, self.line, self.what, self.order = path, line, what, order
        self.tags = {}  # tag -> the order its comment says, or None

    def kind(self):
        """A load, a store or both: 0, 1, 2."""
        return (0 if "load" in self.what else
                1 if "store" in self.what else 2)

    def place(self):
        return f"{self.path}:{self.line}"


def _tags(comments):
    return {tag: word if word in WORDS else None
            for comment in comments for tag, word in TAG.findall(comment.text)}


def _comments_of(source, start, end):
    """Those in the statement and to the end of its last line."""
    after = source.text.find("\n", end)
    after = len(source.text) if after < 0 else after
    return [c for c in source.comments if start <= c.start < after]


def _comment_above(source, first_line):
    """Tags of the nearest tagged comment above, in the same paragraph."""
    ends = {source.line(c.end - 1): c for c in source.comments}
    line = first_line - 1
    while line > 0:
        text = source.line_text(line).strip()
        if not text or text.startswith("}"):
            break
        comment = ends.get(line)
        if comment:
            tags = _tags([comment])
            if tags:
                return comment, tags
            line = source.line(comment.start)
        line -= 1
    return None, {}


def _accesses(path, source, names):
    """Every ordered access of a file, with its tags and used comments."""
    known = "|".join(sorted(names)) or r"\Z."
    pattern = re.compile(rf"\b({known})\s*\(|{ORDER.pattern}")
    seen = set()
    for match in pattern.finditer(source.code):
        start, end = source.statement(match.start())
        if match[1]:
            what, order = match[1], names[match[1]]
        else:
            what, order = match[0], match[2].lower()
            if start in seen:
                continue  # of one exchange the order of failure
            seen.add(start)
        access = Access(path, source.line(match.start()), what, order)
        used = _comments_of(source, start, end)
        access.tags = _tags(used)
        if not access.tags:
            first = len(source.code[:match.start()]) - len(
                source.code[start:match.start()].lstrip())
            for line in (access.line, source.line(first)):
                comment, tags = _comment_above(source, line)
                if tags:
                    used, access.tags = [comment], tags
                    # Said of the first access of the paragraph.
                    access.tags = dict.fromkeys(tags)
                    break
        yield access, used


def _check_file(path, source, names, pairs):
    findings = []
    for pattern, text in FORBIDDEN:
        for match in pattern.finditer(source.code):
            findings.append(Finding(path, source.line(match.start()), text))
    attached = set()
    for access, comments in _accesses(path, source, names):
        attached.update(comment.start for comment in comments)
        if not access.tags:
            findings.append(Finding(
                path, access.line, f"{access.what}: say what it orders and "
                f"what it pairs with, /* [MB:tag] {access.order}: ... */"))
        for tag, word in access.tags.items():
            pairs.setdefault(tag, []).append(access)
            if word and word != access.order:
                findings.append(Finding(
                    path, access.line, f"[MB:{tag}] says {word}, the access "
                    f"is {access.order}: correct one of them"))
    for comment in source.comments:
        if comment.start not in attached:
            for tag in _tags([comment]):
                findings.append(Finding(
                    path, source.line(comment.start), f"[MB:{tag}] heads no "
                    "ordered access: move it there, or drop it"))
    return findings


def _check_pairs(pairs):
    findings = []
    for tag, accesses in sorted(pairs.items()):
        orders = [access.order for access in accesses]
        first = accesses[0]
        if len(accesses) < 2:
            text = "has one side only: tag its partner"
        elif not RELEASES.intersection(orders):
            text = "has no side that releases: tag it, or relax these"
        elif not ACQUIRES.intersection(orders):
            text = "has no side that acquires: tag it, or relax these"
        else:
            continue
        findings.append(Finding(first.path, first.line, f"[MB:{tag}] {text}"))
    return findings


def _check_document(tree, pairs):
    findings, told = [], {}
    lines = tree.read(DOCUMENT).splitlines() if tree.exists(DOCUMENT) else []
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            for tag, _ in TAG.findall(line):
                told[tag] = number
    for tag, accesses in sorted(pairs.items()):
        if tag not in told:
            findings.append(Finding(
                accesses[0].path, accesses[0].line,
                f"[MB:{tag}] has no heading in {DOCUMENT}: add it"))
    for tag, number in told.items():
        if tag not in pairs:
            findings.append(Finding(
                DOCUMENT, number,
                f"[MB:{tag}] is not in the code any more: drop it"))
    return findings


def _check_table(tree, pairs):
    """The table of what x86-64 gives for free."""
    text = tree.read(DOCUMENT) if tree.exists(DOCUMENT) else ""
    findings, rows = [], {row[0]: row for row in ROW.findall(text)}
    for tag, accesses in sorted(pairs.items()):
        kinds = [access.kind() for access in accesses]
        counts = tuple(f"{kinds.count(kind)}" for kind in range(3))
        row = rows.get(tag)
        if not row or row[1:4] != counts:
            findings.append(Finding(
                DOCUMENT, 1, f"the table has to say | `{tag}` | "
                f"{' | '.join(counts)} | and by what that is argued |"))
        for model in MODEL.findall(row[4]) if row else ():
            if not tree.exists(f"test/model/{model}.pml"):
                findings.append(Finding(
                    DOCUMENT, 1, f"[MB:{tag}]: there is no {model}.pml"))
    for tag in rows.keys() - pairs.keys():
        findings.append(Finding(
            DOCUMENT, 1, f"the table has {tag}, which is no tag: drop it"))
    return findings


def check(tree):
    findings, pairs = [], {}
    names = ordered_names(tree.read(ATOMICS))
    for path in tree.c_files("src", "include"):
        if path != ATOMICS and not is_test(path):
            source = Source(tree.read(path))
            findings += _check_file(path, source, names, pairs)
    return (findings + _check_pairs(pairs) + _check_document(tree, pairs) +
            _check_table(tree, pairs))
