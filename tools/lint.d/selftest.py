# SPDX-License-Identifier: MIT
"""Each mistake planted in a copy of the tree must be found, and where it is.

What the tree has of findings already does not matter: a new one is demanded.
"""
import os
import re
import shutil
import stat
import tempfile
from typing import Callable, NamedTuple

from tree import Tree

SPDX = "/* SPDX-License-Identifier: MIT */\n"
DOC = "doc/memory-model.md"
PAGE = "man/uaio-run.1.scd"

# To keep this file free of what it plants.
SLASH = "/"
LATER = "TO" + "DO"
GONE = "GONE" + ".md"


class Planting(NamedTuple):
    check: str
    sentence: str
    path: str
    line: int | None
    function: Callable
    is_alone: bool
    """It may change other files than a new one of its own."""


PLANTINGS = []


def plant(check, sentence, path, line, is_alone=True):
    """Registers a planting: a function of a Copy, and what it must lead to."""

    def register(function):
        PLANTINGS.append(Planting(check, sentence, path, line, function, is_alone))
        return function

    return register


class Copy:
    def __init__(self, root):
        self.root = root

    def full(self, path):
        return os.path.join(self.root, path)

    def read(self, path):
        with open(self.full(path), encoding="utf-8") as file:
            return file.read()

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.full(path)), exist_ok=True)
        with open(self.full(path), "w", encoding="utf-8") as file:
            file.write(text)

    def append(self, path, text):
        self.write(path, self.read(path) + text)


def file_with(check, sentence, path, *lines, line="last"):
    """A new file; the mistake is in its last line if not told otherwise."""
    text = SPDX + "".join(part + "\n" for part in lines)
    if line == "last":
        line = len(lines) + 1
    is_new = "planted" in path
    path = path.replace("planted.", f"planted{len(PLANTINGS)}.")
    plant(check, sentence, path, line, not is_new)(lambda copy: copy.write(path, text))


for sentence, name in (
    ("a header is named by half its path", "ring.h"),
    ("a header is named by a way around its room", "../op/op.h"),
    ("a header does not exist", "op/planted.h"),
):
    file_with("includes", sentence, "src/req/planted.c",
              f'#include "{name}"')

for sentence, path, name in (
    ("a subcommand includes a header of another", "run", "doctor/machine.h"),
    ("what subcommands share includes a header of one", "common",
     "trace/tracing.h"),
):
    file_with("includes", sentence, f"src/tool/{path}/planted.c",
              f'#include "tool/{name}"')

for sentence, path, line in (
    ("what stands in front of the C library takes a lock",
     "src/host/planted.c",
     "uaio_lock(&lock, rank);"),
    ("a front-end starts a thread", "src/aio/planted.c",
     "uaio_thread_start(main, arg);"),
    ("a futex call outside base/sleep.c", "src/req/planted.c",
     "sys_futex(word, op, 1, NULL, 0);"),
    ("a condition variable", "src/req/planted.c",
     "pthread_cond_wait(&cond, &mutex);"),
    ("a system call by number", "src/req/planted.c",
     "uaio_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0);"),
    ("a system call by the C library", "src/op/planted.c",
     "return read(fd, buf, len);"),
    ("a system call by the C library in a condition", "src/req/planted.c",
     "if (fsync(fd) < 0)"),
):
    file_with("calls", sentence, path, line)

for sentence, lines in (
    ("an ordered access without a tag", ["", "store_release(&a, 1);"]),
    ("an order spelled out without a tag",
     ["", "__atomic_store_n(&a, 1, __ATOMIC_RELEASE);"]),
    ("a tag that is a blank line away",
     ["/* [MB:lock] release: too far. */", "a = 1;", "",
      "store_release(&a, 1);"]),
    ("a tag in another function",
     ["/* [MB:lock] release: elsewhere. */", "f();", "}",
      "store_release(&a, 1);"]),
    ("a tag with one side", ["/* [MB:planted] release: alone. */",
                             "store_release(&a, 1);"]),
    ("a comment that names another order",
     ["/* [MB:lock] acquire: not so. */", "store_release(&a, 1);"]),
    ("a tag that heads nothing", ["/* [MB:lock] release: of nothing. */"]),
    ("volatile", ["static volatile int flag;"]),
    ("an _Atomic type", ["static _Atomic int flag;"]),
    ("a call of stdatomic.h", ["atomic_store(&flag, 1);"]),
    ("a __sync builtin", ["__sync_synchronize();"]),
    ("a fence", ["__atomic_thread_fence(order);"]),
):
    file_with("barriers", sentence, "src/req/planted.c", *lines)
# The pair is complete; what is missing is told of its first access.
file_with("barriers", "a tag that is not explained", "src/req/planted.c",
          "load_acquire(&a); /* [MB:planted] acquire: first. */", "",
          "/* [MB:planted] release: second. */", "store_release(&a, 1);",
          line=2)


@plant("barriers", "a tag with two sides that both release",
       "src/req/planted.c", 3)
def _(copy):
    one = "\n/* [MB:planted] release: both. */\nstore_release(&a, 1);\n"
    copy.write("src/req/planted.c", SPDX.rstrip() + one * 2)
    copy.append(DOC, "\n## [MB:planted]\n")


@plant("barriers", "a heading without an access", DOC, None)
def _(copy):
    copy.append(DOC, "\n## [MB:planted]\n")


@plant("barriers", "a table that counts an access too few", DOC, 1)
def _(copy):
    copy.write(DOC, copy.read(DOC).replace("| `chunk` | 1 |", "| `chunk` | 0 |"))


@plant("barriers", "a table that names a model which does not exist", DOC, 1)
def _(copy):
    copy.write(DOC, copy.read(DOC).replace("`weak_lock.pml` |", "`gone.pml` |"))


file_with("steps", "a step that the model does not have",
          "src/req/planted.c", "/* [step: PLANTED] */")


@plant("steps", "a step that the code does not have", "test/model/wq.pml", None)
def _(copy):
    copy.append("test/model/wq.pml", "/* [step: PLANTED] */\n")


FAULT = ("\ntest: a list keeps its order\nplanted: A rule.\n"
         "    list.h list: struct list { ->\n")
for sentence, line, text in (
    ("a fault whose text is not in its item", 4,
     FAULT.replace("struct list", "struct planted")),
    ("a fault whose text is in another item of its file", 4,
     FAULT.replace("struct list {", "list_init")),
    ("a fault whose text is twice in its item", 4,
     FAULT.replace("struct list {", "struct list")),
    ("a fault in a file that is not there", 4, FAULT.replace("list.h", "no.h")),
    ("a fault in an item that two files define", 4,
     FAULT.replace("list.h list: struct list {", "cancel.c is_meant: bool")),
    ("a fault that does not say what it becomes", 4, FAULT.replace(" ->", "")),
    ("a fault that makes two of one arrow", 4, FAULT.replace(">", "> a -> b")),
    ("a fault that changes one place twice", 3,
     FAULT + "    list.h list: list { -> a {\n"),
    ("a fault that changes nothing", 3, FAULT.partition("    ")[0]),
    ("a fault with the name of another", 4,
     FAULT.replace("planted: A", "planted: A rule.\nplanted: A")),
    ("a fault whose test is not there", 3, FAULT.replace("keeps", "loses")),
    ("a fault that names no test", 2, FAULT.replace("test: ", "")),
    ("a fault of an unknown build", 3,
     FAULT.replace("planted: ", "build: no\nplanted: ")),
):
    name = f"planted{len(PLANTINGS)}"
    plant("mutants", sentence, f"test/mutants/{name}.txt", line, False)(
        lambda copy, name=name, text=text: copy.write(
            f"test/mutants/{name}.txt", "#" + re.sub("planted", name, text)))


def build_tool(copy, option):
    path = copy.full("build/uaio")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\necho '  --{option}  planted'\n")
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


@plant("manual", "an option of --help that no page has",
       "src/options/options.c", None)
def _(copy):
    build_tool(copy, "planted-option")


@plant("manual", "an option of a page that --help does not have", PAGE, None)
def _(copy):
    copy.append(PAGE, "\n*--planted-option*\n")


@plant("manual", "an option of the table that no page has",
       "src/options/options.c", None)
def _(copy):
    copy.append("src/options/options.c", '.name = "planted-option",\n')


@plant("manual", "a variable of the table that no page has",
       "src/options/options.c", None)
def _(copy):
    copy.append("src/options/options.c", '.variable = "UAIO_PLANTED",\n')


@plant("manual", "an option of the benchmark that no page has",
       "bench/run.py", None)
def _(copy):
    copy.append("bench/run.py", 'parser.add_argument("--planted-option")\n')


@plant("manual", "an option that the tool shows and the benchmark has not",
       "src/tool/bench/bench.c", None)
def _(copy):
    copy.append("src/tool/bench/bench.c", '\t     "  --planted-option  no\\n"\n')


@plant("manual", "a row of the benchmark that no page has",
       "bench/run.py", None)
def _(copy):
    copy.append("bench/run.py", '    "planted": Part(nop.planted, 1, 1),\n')


@plant("manual", "an operation that the page of the statistics has not",
       "src/options/operations.c", None)
def _(copy):
    copy.append("src/options/operations.c", '[UAIO_OP_PLANTED] = "planted",\n')


@plant("manual", "a subcommand that no page has", "src/tool/main.c", None)
def _(copy):
    copy.append("src/tool/main.c", '\t{ "planted", "", "", NULL },\n')


file_with("manual", "a variable that is read and in no page",
          "src/req/planted.c",
          'text = secure_getenv(', '\t"UAIO_PLANTED");', line=2)

file_with("format", "an indent of spaces", "src/req/planted.c",
          "int f(void)", "{", "    return 1;", line=None)
file_with("format", "two statements in a line of a test",
          "test/abi/planted.c", "int a; int b;", line=None)

for sentence, text in (
    ("a note of what is to be done", f"/* {LATER}: later */"),
    ("a path of somebody's machine", f"/* see {SLASH}work{SLASH}a.c */"),
    ("a folder outside the project", f"/* see ..{SLASH}shared{SLASH}a */"),
    ("a document that does not exist", f"/* see {GONE} */"),
    ("a source that does not exist", "/* see src/req/gone.c */"),
):
    file_with("words", sentence, "src/req/planted.c", text)

file_with("words", "a first page that is too long", "README.md",
          *["word"] * 601, line=1)

file_with("length", "a function that is too long", "src/req/planted.c",
          "int f(void)", "{", *["\tg();"] * 59, "}", line=3)

for path in ("src/req/planted.c", "src/tool/run/planted.c"):
    file_with("tested", f"a source that does not say what tests it: {path}",
              path, "int planted;", line=1)

for sentence, path, page in (
    ("a file that its room does not list", "src/req/planted.c", "src/req/README.md"),
    ("a file in a folder of a room that its room does not list",
     "src/tool/run/planted.c", "src/tool/README.md"),
    ("a room without a page", "src/planted/planted.c", "src/planted" + SLASH + "README.md"),
):
    plant("rooms", sentence, page, 1)(
        lambda copy, path=path: copy.write(path, SPDX))


@plant("rooms", "a file that is listed and not there", "src/req/README.md", None)
def _(copy):
    copy.append("src/req/README.md", "| `planted.c` | |\n")


@plant("rooms", "a file that is listed in another folder than its own",
       "src/tool/README.md", None)
def _(copy):
    copy.append("src/tool/README.md", "\n## `stat/`\n\n| `run.c` | |\n")


@plant("rooms", "a hop whose function is not in its file", "doc/design.md", None)
def _(copy):
    copy.append("doc/design.md", "\n| 1 | `planted` | `flow/send.c` | |\n")


def find(tree, checks, plantings, baseline):
    """Plants mistakes for one check in a copy. Returns what was found anew."""
    check = plantings[0].check
    if check not in baseline:
        baseline[check] = set(checks[check](tree))
    with tempfile.TemporaryDirectory(prefix="uaio-lint-") as root:
        for name in tree.paths():
            os.makedirs(os.path.dirname(os.path.join(root, name)),
                        exist_ok=True)
            shutil.copyfile(tree.full(name), os.path.join(root, name))
        for planting in plantings:
            planting.function(Copy(root))
        return set(checks[check](Tree(root))) - baseline[check]


def is_met(planting, found):
    return any(each.path == planting.path and planting.line in (None, each.line)
               for each in found)


def run(tree, checks):
    results, baseline = [], {}
    # The baseline is that of a copy: nothing is built there.
    tree = Tree(tree.root, "no-build")
    met = []
    # New files go into one copy. Where one hides the mistake of another, each is alone.
    for check in checks:
        together = [each for each in PLANTINGS
                    if each.check == check and not each.is_alone]
        if together:
            found = find(tree, checks, together, baseline)
            met += [each for each in together if is_met(each, found)]
    for planting in PLANTINGS:
        found = set()
        is_ok = planting in met
        if not is_ok:
            found = find(tree, checks, [planting], baseline)
            is_ok = is_met(planting, found)
        print(f"{'ok' if is_ok else 'FAIL':4}  {planting.check}: {planting.sentence}",
              flush=True)
        if not is_ok:
            print("not found; what was found anew:")
            for each in sorted(found):
                print(f"  {each}")
        results.append(is_ok)
    missing = set(checks) - {planting.check for planting in PLANTINGS}
    for name in sorted(missing):
        print(f"FAIL  {name}: nothing is planted for it")
        results.append(False)
    return results
