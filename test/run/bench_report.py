# SPDX-License-Identifier: MIT
"""The report of uaio bench: that it is a page which needs nothing else, has all
there is, and says nothing that is not so."""
import base64
import html.parser
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import xml.etree.ElementTree as xml

import made_up
from benchmark import import_of_bench
from harness import case, expect, main

DRAWN = "data:image/svg+xml;base64,"
NAMES = re.compile(r'xmlns(?::\w+)?="[^"]*"|<!DOCTYPE svg[^>]*>')
LOADS = {"script", "link", "iframe", "img", "object", "embed", "base", "image"}
VOID = {"meta", "img"}
DEADLINE_S = 400


# --- what a page has to be --------------------------------------------------


class Balanced(html.parser.HTMLParser):
    """Checks that each element is closed, as browsers require."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        expect(tag in VOID, True, f"<{tag}/>")

    def handle_endtag(self, tag):
        expect(self.open and self.open.pop(), tag, "what is ended")


def plain(tag):
    return tag.rpartition("}")[2]


def expect_no_link(root, ids):
    """Check that the page has nothing that could load something or lead elsewhere."""
    for each in root.iter():
        expect(plain(each.tag) in LOADS, False, each.tag)
        styles = [each.text or ""] if plain(each.tag) == "style" else []
        for key, value in each.attrib.items():
            key = plain(key)
            expect(key.startswith("on"), False, f"{each.tag}: {key}")
            expect("//" in value, False, f"{key}={value!r}: a link")
            if key in ("href", "src", "action", "data"):
                expect(value[:1] == "#" and value[1:] in ids, True,
                       f"{each.tag}: {key}={value!r}")
            styles.append(value)
        for style in styles:
            expect("@import" in style, False, style[:200])
            for target in re.findall(r"url\(([^)]*)\)", style):
                expect(target[:1] == "#" and target[1:] in ids, True,
                       f"url({target})")


def expect_drawing(svg):
    """Check that the drawing needs no other file."""
    text = svg.decode()
    root = xml.fromstring(text)
    expect(plain(root.tag), "svg", "what is drawn")
    expect(re.findall("https?:.{,60}", NAMES.sub("", text)), [], "links")
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    expect(len(ids), len(set(ids)), "ids that differ")
    expect_no_link(root, set(ids))


def expect_page(text, results):
    """Check the page. Return: its words."""
    parser = Balanced()
    parser.feed(text)
    expect(parser.open, [], "elements left open")
    doctype, _, rest = text.partition("\n")
    expect(doctype, "<!DOCTYPE html>", "the first line")
    root = xml.fromstring(rest)
    # A drawing is in the page itself; all else is looked at as it is.
    for image in root.iter("img"):
        source = image.attrib.pop("src")
        expect(source.startswith(DRAWN), True, source[:80])
        expect_drawing(base64.b64decode(source[len(DRAWN):], validate=True))
        expect(bool(image.attrib.pop("alt")), True, "words for a drawing")
        expect(image.attrib, {}, "of a drawing")
        image.tag = "drawing"
    expect(re.findall("https?:.{,60}", text), [], "links")
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    expect(len(ids), len(set(ids)), "ids that differ")
    expect_no_link(root, set(ids))
    words = " ".join("".join(root.itertext()).split())
    for line in results:
        for what in (line["title"], line.get("note"), line.get("across")):
            expect(" ".join((what or "").split()) in words, True,
                   f"{what!r} on the page")
        for variant in (*line.get("lines", ()), *line.get("notes", {}).values()):
            expect(variant in words, True, f"{variant!r} on the page")
    for wrong in ("None", "nan", " inf"):
        expect(re.search(rf"\b{wrong.strip()}\b", words), None, wrong)
    return words


def drawings_of(text):
    return re.findall(r'<img alt="([^"]*)"', text)


# --- making one -------------------------------------------------------------


def write_report(tool, *files, python=sys.executable, **options):
    return tool.exec(python, "-B", tool.args.source + "/bench/report.py",
                     *files, "--dir", tool.path("page"), **options)


def report_of(tool, *made):
    """Make the page of these results, each from its own file. Return: the page and its
    words."""
    files = [each.write(tool.path(f"{number}.jsonl"))
             for number, each in enumerate(made)]
    write_report(tool, *files).expect(out="")
    with open(tool.path("page/index.html")) as file:
        text = file.read()
    lines = [line for each in made for line in each.lines]
    return text, expect_page(text, lines)


def one_table(rounds=9, **figures):
    """A table of made-up reads per second, by variant."""
    made = made_up.MadeUp(rounds)
    made.table("hot-read.rate", "hot reads", "I/O/s", "job", ["hot"],
               {name: [figure] for name, figure in figures.items()},
               plot="bars")
    return made


# --- tests ------------------------------------------------------------------


@case("a report has all there is and needs nothing else")
def _(tool):
    made = made_up.complete()
    made.table("unheard-of.figures", "what nobody planned", "I/O/s", "x",
               ["a", "b"], {"left": [1, 2], "right": [2, None]}, plot="bars")
    made.row("unheard-of", "a row that nobody planned")
    text, words = report_of(tool, made)
    drawn = drawings_of(text)
    for line in made.lines:
        if line.get("plot"):
            expect(any(label.startswith(line["title"]) for label in drawn),
                   True, f"a plot of {line['name']}")
    # What their authors posted, and what has to be known of it.
    for figure in ("109376", "16408", "83.66", "58892", "59404", "32.51", "7384",
                   "150 %", "600 000", "360 000", "30 or so", "40w–50w",
                   "about 160w", "1911242", "1116776", "transposed", "−0.5 %",
                   "+0.6 %"):
        expect(figure in words, True, f"the posted {figure}")
    expect("Of 25 goals" in words, True, "how many goals there are")


def with_holes():
    made = made_up.MadeUp(9)
    made.table("nop.items", "no-ops", "1/s", "depth", [1, 10, 128],
               {"io_uring": [None, None, None], "single": [1e5, None, 3e5],
                "round-robin": [None, 2e5, None]}, plot="lines",
               logarithmic="xy", notes={"io_uring": "forbidden here",
                                        "single": "not at 10"})
    made.table("hot-read.cdf", "latency", "us", "per cent", [50, 99],
               {"uaio": [1, None], "kernel": [None, None]}, plot="cdf")
    made.table("hot-read.completion", "latency", "us", "per cent", [50, 99],
               {"uaio": [None, 3]}, plot="")
    return made


def disproved():
    made = one_table(uaio=None, kernel=100)
    made.lines[0] |= {"is_disproved": True, "notes": {"uaio": "it was not"},
                      "proofs": {"uaio": None, "kernel": None}}
    made.row("hot-read", "hot reads", verdict="disproved",
             goal=made_up.at_least(1), note="uaio: not what it says")
    return made


def of_nothing():
    made = made_up.MadeUp(9)
    for plot in ("bars", "lines", "cdf"):
        made.table(f"depth.{plot}", f"all is nothing, {plot}", "I/O/s", "depth",
                   [1, 50], {"uaio": [0, 0], "kernel": [0, 0]}, plot=plot,
                   logarithmic="xy")
    made.table("pipe.switches_per_s", "switches", "1/s", "", ["4 KiB"],
               {"kernel": [1000], "plain": [0]}, plot="bars",
               logarithmic="y", beside=["as posted"])
    made.table("depth.empty", "no columns", "I/O/s", "depth", [], {},
               plot="lines")
    return made


@case("a report of results with something missing says what is missing")
def _(tool):
    _, words = report_of(tool, with_holes(), disproved(), of_nothing())
    for said in ("io_uring was not measured: forbidden here.", "disproved",
                 "single was not measured everywhere: not at 10.",
                 "Not proven to be what it is called: kernel.",
                 "Nothing of it was measured.", "as posted"):
        expect(said in words, True, said)
    made = made_up.MadeUp(1)
    made_up._nop(made)
    text, words = report_of(tool, made)
    expect("One round only: it shows no spread." in words, True,
           "that there is but one round")
    expect(len(drawings_of(text)), 1, "plots")
    report_of(tool, made)
    with open(tool.path("page/index.html")) as again:
        expect(again.read() == text, True, "the same results, the same page")
    _, words = report_of(tool, made_up.MadeUp())
    expect("These results are empty." in words, True, "that there is nothing")


@case("a report of several files has the machine of each")
def _(tool):
    first, second = one_table(uaio=1, kernel=2), one_table(uaio=3, psync=4)
    second.lines[0]["title"] = "read once more"
    second.lines[0]["machine"] = made_up.MACHINE | {
        "kernel": "7.1.2", "date": "2026-12-24T00:00:00+00:00", "load": 3.5}
    _, words = report_of(tool, first, second)
    for said in ("6.18.0", "7.1.2", "2026-12-24", "3.50", "psync"):
        expect(said in words, True, said)


@case("a report refuses in one line what are no results")
def _(tool):
    for text in ("{", '{"kind": "row"}', '{"kind": "poem"}', "[]", "7",
                 '{"kind": "table", "name": "x"}', "\udcff"):
        with open(tool.path("bad"), "w", errors="surrogateescape") as file:
            file.write(text)
        write_report(tool, tool.path("bad")).expect_refusal(2, "bad")
    write_report(tool, tool.path("none")).expect_refusal(2, "none")
    expect(os.path.exists(tool.path("page/index.html")), False, "a page")


# --- remarks ----------------------------------------------------------------


@case("what is said of goals and of the control is true of the rows")
def _(tool):
    remarks = import_of_bench(tool, "remarks")
    reading = sys.modules["reading"]

    def expect_said(rows, goals):
        made = made_up.MadeUp()
        for verdict, of_control in rows:
            made.row("x", f"{verdict} work", goal=made_up.at_least(2),
                     verdict=verdict, control=of_control)
        rows = reading.read([pathlib.Path(made.write(tool.path("said")))]).rows
        expect(remarks.of_goals(rows), goals, "of the goals")
        controls = [line["control"] for line in made.lines if line["control"]]
        said = remarks.of_control(rows)
        expect(bool(said), bool(controls), f"{said!r}: of the control")
        for key, choose in (("min", min), ("max", max)):
            for each in (key, "median"):
                if controls:
                    bound = choose(control[each] for control in controls)
                    expect(f"{bound:.2f}" in said, True,
                           f"{said!r}: the {key} of each {each}")

    expect_said([], "")
    expect_said([("met", 1.0)], "The one goal: met.")
    expect_said([("met", 1.0), ("missed", 1.2), ("too noisy here", 0.9)],
                "Of 3 goals: 1 met, 1 missed, 1 too noisy to tell.")
    expect_said([("not measured", None), ("disproved", None)],
                "Of 2 goals: 1 disproved, 1 not measured.")


def exact(ours, theirs):
    made = made_up.MadeUp()
    made.table("x.rate", "work", "I/O/s", "job", ["job"],
               {"uaio": [0], "kernel": [0]})
    made.lines[0]["lines"] = {"uaio": [ours], "kernel": [theirs]}
    return made


@case("a ratio is of two variants in one round")
def _(tool):
    reading = import_of_bench(tool, "reading")

    def expect_ratios(ours, theirs, wanted):
        made = exact(ours, theirs).write(tool.path("ratios"))
        table = reading.read([pathlib.Path(made)]).table("x.rate")
        expect(table.ratios("uaio", "kernel", "job"), wanted,
               f"{ours} to {theirs}")

    expect_ratios([2, 3, 4], [1, 3, 8], [2, 1, 0.5])
    # One that takes part in every third round was in the first and the fourth.
    expect_ratios([2, 0, 0, 6, 0], [1, 2], [2, 3])
    expect_ratios([4, 9], [2, 0, 0, 3, 0, 0], [2, 3])
    expect_ratios([1, 2, 3, 4], [1, 2, 3], [])  # which rounds, nobody knows
    expect_ratios([1, 2], [0, 4], [0.5])
    expect_ratios([], [1, 2], [])


# --- as a part of the benchmark ---------------------------------------------


def expect_results(folder):
    expect(sorted(os.listdir(folder)), ["index.html", "results.jsonl"],
           "what is written")
    with open(folder + "/results.jsonl") as file:
        results = [json.loads(line) for line in file]
    with open(folder + "/index.html") as file:
        expect_page(file.read(), results)
    return results


@case("uaio bench writes a report of what it measured")
def _(tool):
    page = tool.path("a/page")
    outcome = tool.exec(tool.uaio, "bench", "--quick", "--dir", tool.scratch,
                        "--report", page, "load").expect(out=None)
    expect(outcome.out.splitlines()[-1], f"report: {page}/index.html",
           "the last line")
    titles = [row["title"] for row in expect_results(page)]
    expect("added by uaio run" in titles, True, f"{titles}: the rows")
    expect(os.listdir(tool.scratch), ["a"], "files left behind")


@case("a benchmark that is interrupted has a report of what there is")
def _(tool):
    child = subprocess.Popen(
        (tool.uaio, "bench", "--pairs", "1000000", "--dir", tool.scratch,
         "--report", tool.path("page"), "load"), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while "verdict" not in child.stdout.readline():  # nothing is sooner
            expect(child.poll(), None, "status before it was interrupted")
        os.killpg(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=DEADLINE_S)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    expect(child.returncode, 130, f"status\n{out}{err}")
    expect_results(tool.path("page"))
    expect(os.listdir(tool.scratch), ["page"], "files left behind")


@case("without what draws plots nothing is measured for a report")
def _(tool):
    tool.write("without/matplotlib/__init__.py", "raise ImportError\n")
    env = {"PYTHONPATH": tool.path("without"), "PYTHONDONTWRITEBYTECODE": "1"}
    words = ("matplotlib", "apt-get install python3-matplotlib")
    tool.exec(tool.uaio, "bench", "--quick", "--dir", tool.scratch, "--report",
              tool.path("page"), "load", env=env).expect_refusal(2, *words)
    made_up.MadeUp().write(tool.path("no.jsonl"))
    write_report(tool, tool.path("no.jsonl"), env=env).expect_refusal(2, *words)
    expect(sorted(os.listdir(tool.scratch)), ["no.jsonl", "without"],
           "what was made")


@case("a report is drawn by another python3 where the first cannot")
def _(tool):
    # An interpreter that finds none of the packages of the system.
    tool.write("bare/pyvenv.cfg",
               f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n"
               "include-system-site-packages = false\n")
    os.makedirs(tool.path("bare/bin"))
    bare = tool.path("bare/bin/python3")
    os.symlink(os.path.realpath(sys.executable), bare)
    tool.exec(bare, "-c", "import matplotlib").expect(
        status=1, out=None, err=None)
    made = one_table(uaio=2, kernel=1)
    write_report(tool, made.write(tool.path("one.jsonl")),
                 python=bare).expect(out="")
    with open(tool.path("page/index.html")) as file:
        expect(len(drawings_of(file.read())), 1, "plots")


# --- doc/benchmarks.md -------------------------------------------------------


README = "README.md"
DOCUMENT = "doc/benchmarks.md"
PICTURES = ("doc/benchmarks.svg", "doc/benchmarks-dark.svg")
WRITTEN = (README, DOCUMENT, *PICTURES)


def benchmarks(tool, *arguments, **options):
    return tool.exec(sys.executable, "-B",
                     tool.args.source + "/bench/benchmarks.py", *arguments,
                     **options)


def copy_of_ours(tool):
    """Write what is made of results in a directory of its own. Return: the options for
    that."""
    for name in WRITTEN:
        with open(f"{tool.args.source}/{name}") as file:
            tool.write("top/" + name, file.read())
    return "--top", tool.path("top")


def text_of(tool, name):
    with open(tool.path("top/" + name)) as file:
        return file.read()


def expect_no_benchmarks(tool, status, *arguments):
    outcome = benchmarks(tool, *arguments)
    expect((outcome.status, outcome.err.count("\n")), (status, 1),
           outcome.story)


@case("the figures in doc/benchmarks.md are those of its results")
def _(tool):
    benchmarks(tool, "--check").expect(out=None)
    there = copy_of_ours(tool)
    ours = text_of(tool, README)
    complete = made_up.complete()
    full = complete.write(tool.path("full.jsonl"))
    few = one_table(uaio=2, kernel=1).write(tool.path("few.jsonl"))
    for results in (few, full):
        expect_no_benchmarks(tool, 1, results, "--check", *there)
        benchmarks(tool, results, *there,
                   env={"PYTHONHASHSEED": "1"}).expect(out="")
        benchmarks(tool, results, "--check", *there,
                   env={"PYTHONHASHSEED": "2"}).expect(out="")
    between = re.compile(r"(<!-- figures -->\n).*?<!-- end", re.S)
    expect(between.sub(r"\1<!-- end", text_of(tool, README)),
           between.sub(r"\1<!-- end", ours), "what stands around the figures")
    made = text_of(tool, DOCUMENT)
    rates = next(line["lines"] for line in complete.lines
                 if line["name"] == "hot-read.rate")
    for figure in ("2026-11-20", "1 KiB hot read, depth 1", *(
            f"{statistics.median(rates[engine][0]) / 1e3:.0f} k"
            for engine in ("kernel", "uaio", "io_uring", "posixaio"))):
        expect(figure in made, True, figure)
    posix = re.search(r"## POSIX AIO\n.*?(?=\n## |\Z)", made, re.S)
    for line in ("requests a second | glibc | uaio | libaio on uaio | pread",
                 "aio_suspend, depth 1 | ", "I/O a second | glibc | uaio",
                 "fio, hot read | "):
        expect(bool(posix) and f"| {line}" in posix[0], True, line)
    for name, before in ((DOCUMENT, ".*"), (README, "<!-- figures -->.*?")):
        right = text_of(tool, name)
        wrong = re.sub(rf"(?s)({before}\d\.)\d", r"\1x", right, count=1)
        expect(wrong != right, True, f"a figure in {name}")
        tool.write("top/" + name, wrong)
        expect_no_benchmarks(tool, 1, full, "--check", *there)
        tool.write("top/" + name, right)
    tool.write("top/" + README, ours.replace("<!-- figures -->", ""))
    expect_no_benchmarks(tool, 2, full, *there)


@case("the figures in the picture are those of its results")
def _(tool):
    there = copy_of_ours(tool)
    few = one_table(uaio=2, kernel=1).write(tool.path("few.jsonl"))
    benchmarks(tool, few, *there).expect(out="")
    for name in PICTURES:
        right = text_of(tool, name)
        wrong = re.sub(r'd="M [0-9.]+', 'd="M 1', right, count=1)
        expect(wrong != right, True, f"{name}: something moved")
        tool.write("top/" + name, wrong)
        expect_no_benchmarks(tool, 1, few, "--check", *there)
        # Another Matplotlib draws in another way, but not another figure.
        other = re.sub("Matplotlib [0-9.]+", "Matplotlib 9.9", wrong)
        expect(other != wrong, True, f"{name}: what drew it")
        tool.write("top/" + name, other)
        benchmarks(tool, few, "--check", *there).expect(out="")
        false = re.sub(r"uaio \d", "uaio 7", other)
        expect(false != other, True, f"{name}: a figure in words")
        tool.write("top/" + name, false)
        expect_no_benchmarks(tool, 1, few, "--check", *there)
        tool.write("top/" + name, right)


@case("a picture for README.md is complete in itself, whatever was measured")
def _(tool):
    for number, made in enumerate((made_up.complete(), one_table(
            uaio=2, kernel=1), of_nothing(), with_holes(), made_up.MadeUp())):
        top = f"{number}/"
        for name in WRITTEN:
            tool.write(top + name, "<!-- figures -->\n<!-- end of figures -->")
        benchmarks(tool, made.write(tool.path("some.jsonl")), "--top",
                   tool.path(top)).expect(out="")
        for name in WRITTEN:
            with open(tool.path(top + name), "rb") as file:
                text = file.read()
            for wrong in (b"None", b"nan", b" inf"):
                expect(re.search(rb"\b%s\b" % wrong.strip(), text), None,
                       f"{name}: {wrong}")
            if name.endswith(".svg") and number < 2:
                expect_drawing(text)


if __name__ == "__main__":
    main()
