# SPDX-License-Identifier: MIT
"""What can be set is in the manual, and what is in the manual can be set."""
import os
import re
import subprocess

from tree import Finding, Source

OPTIONS = "src/options/options.c"
RUN_PAGE = "man/uaio-run.1.scd"
BENCH_SCRIPT = "bench/run.py"
BENCH_TOOL = "src/tool/bench/bench.c"
BENCH_PAGE = "man/uaio-bench.1.scd"
TOOL = "src/tool/main.c"
TOOL_PAGE = "man/uaio.1.scd"
REPORT = "src/options/operations.c"
STATS_PAGE = "man/uaio-stats.5.scd"
# Of every command, not of the table.
COMMON = {"--help", "--version"}


def _first_lines(text, pattern):
    """Each name a pattern finds, with the line it is on first."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(pattern, line):
            found.setdefault(name, number)
    return found


def _is_current(tree, tool):
    """Whether the built tool is newer than all it is made of."""
    if not os.access(tool, os.X_OK):
        return False
    built = os.stat(tool).st_mtime
    return all(os.stat(tree.full(path)).st_mtime <= built
               for path in tree.c_files("src/tool", "src/options", "src/base"))


def _help(tree):
    """The options that `uaio run --help` shows, or None without a build."""
    tool = os.path.join(tree.build, "uaio")
    if not _is_current(tree, tool):
        return None
    done = subprocess.run([tool, "run", "--help"], capture_output=True,
                          text=True, timeout=60)
    # One option, or a short and a long one, at the start of a line.
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z][\w-]*)", done.stdout, re.M))


def _check_options(tree):
    findings = []
    text = tree.read(OPTIONS)
    page = tree.read(RUN_PAGE)
    table = {f"--{name}": line for name, line in _first_lines(
        text, r'\.name = "([\w-]+)"').items()}
    shown = _help(tree)
    told = {}
    for number, line in enumerate(page.splitlines(), 1):
        if re.match(r"\*-", line):  # an option's own paragraph
            for name in re.findall(r"\*(--[a-z][\w-]*)", line):
                told[name] = number
    known = set(table) | COMMON if shown is None else shown
    for name in sorted(known | set(table)):
        if name not in told:
            findings.append(Finding(
                OPTIONS, table.get(name, 1), f"{name} is not in {RUN_PAGE}: "
                f"add a paragraph that starts with *{name}*"))
    for name, number in told.items():
        if name not in known:
            findings.append(Finding(
                RUN_PAGE, number, f"{name} is not in the tool's --help: drop "
                f"it, or add a row to {OPTIONS}"))
    for name, line in _first_lines(text, r'"(UAIO_\w+)"').items():
        if name not in page:
            findings.append(Finding(
                OPTIONS, line, f"{name} is not in {RUN_PAGE}: name it behind "
                "its option"))
    return findings


def _paragraphs(page, pattern):
    """The names with which paragraphs of a page start, and their lines."""
    return {name: number for number, line in enumerate(page.splitlines(), 1)
            if re.match(pattern, line)
            for name in re.findall(pattern, line)}


def _compare(names, told, path, page):
    findings = [Finding(path, line, f"{name} is not in {page}: add a paragraph "
                        f"that starts with *{name}*")
                for name, line in names.items() if name not in told]
    return findings + [
        Finding(page, line, f"{name} is not in {path}: drop it")
        for name, line in told.items() if name not in names]


def _check_bench(tree):
    """The script takes the options, the tool shows them, the page tells."""
    page = tree.read(BENCH_PAGE)
    script = _first_lines(tree.read(BENCH_SCRIPT), r'add_argument\("(--[\w-]+)"')
    shown = _first_lines(tree.read(BENCH_TOOL),
                         r'^\t *"  (?:-\w, )?(--[\w-]+)')
    script["--help"] = shown.get("--help", 1)  # argparse has it by itself
    told = {name: number for number, line in enumerate(page.splitlines(), 1)
            if line.startswith("*-")
            for name in re.findall(r"\*(--[a-z][\w-]*)", line)}
    rows = _first_lines(tree.read("bench/fio.py"), r'^    Job\("([\w-]+)"')
    rows |= _first_lines(tree.read(BENCH_SCRIPT),
                         r'^    "([\w-]+)": (?:Part\(|\[)')
    in_rows = page.partition("\n# ROWS\n")
    start = in_rows[0].count("\n") + 1
    rows_told = {name: start + number for name, number in _paragraphs(
        in_rows[2].partition("\n# ")[0], r"^\*([\w-]+)\*$").items()}
    return (_compare(script, told, BENCH_SCRIPT, BENCH_PAGE)
            + _compare(shown, told, BENCH_TOOL, BENCH_PAGE)
            + _compare(rows, rows_told, BENCH_SCRIPT, BENCH_PAGE))


def _check_subcommands(tree):
    names = _first_lines(tree.read(TOOL), r'^\t\{ "(\w+)", "')
    section = tree.read(TOOL_PAGE).partition("\n# SUBCOMMANDS\n")
    start = section[0].count("\n") + 1
    told = {name: start + number for name, number in _paragraphs(
        section[2].partition("\n# ")[0], r"^\*(\w+)\*").items()}
    return _compare(names, told, TOOL, TOOL_PAGE)


def _check_getenv(tree):
    findings = []
    pages = "".join(tree.read(path) for path in tree.paths()
                    if path.startswith("man/") and path.endswith(".scd"))
    for path in tree.c_files("src"):
        source = Source(tree.read(path))
        for match in re.finditer(r"\b(?:secure_)?getenv\s*\(", source.code):
            named = re.match(r'\s*"(\w+)"', source.text[match.end():])
            if named and not re.search(rf"\b{named[1]}\b", pages):
                findings.append(Finding(
                    path, source.line(match.start()),
                    f"{named[1]} is in no page of man/: describe it in "
                    "ENVIRONMENT"))
    return findings


def _check_operations(tree):
    """The page of the statistics names each operation that they count."""
    told = set(re.findall(r"\*([\w\\]+)\*", tree.read(STATS_PAGE)))
    names = _first_lines(tree.read(REPORT), r'\[UAIO_OP_\w+\] = "(\w+)"')
    return [Finding(REPORT, line, f"{name} is not in {STATS_PAGE}: name it "
                    "among the requests")
            for name, line in names.items()
            if name.replace("_", "\\_") not in told]


def check(tree):
    return (_check_operations(tree) + _check_options(tree) + _check_bench(tree)
            + _check_subcommands(tree) + _check_getenv(tree))
