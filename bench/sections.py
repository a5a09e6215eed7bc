# SPDX-License-Identifier: MIT
"""The chapters of the report, in order. Each has an idea, the tables that its authors
posted, and our own tables. The comparison of fio on each engine is a chapter, too.

A layout lists the tables that have a fixed place. Every other table comes after those
of its part, or at the end.
"""
from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import remarks
from fio import JOBS
from page import (Identifiers, Markup, details, element, grid, image, join,
                  page, paragraph)
from plots import can_draw, draw
from reading import ReadRow, ReadTable, Results
from rows import ENOUGH_PAIRS, Spread, short, times
from seeds import (BYTES, CONTEXTS, DIRECT, ONE_CONTEXT, PROFILE, SCALE,
                   SWITCHES, WORKERS, Posted, Seed)

JOB_TABLES = ("rate", "cpu", "switches", "submission", "completion", "cdf")


@dataclass(frozen=True)
class Section:
    """A chapter. It lists its tables by the first words of their names, and its rows by
    their names."""

    title: str
    parts: tuple[str, ...]
    layout: tuple[str | Posted, ...]
    seed: Seed | None = None
    about: str = ""


SECTIONS = (
    Section("Contexts: list, radix tree, table",
            ("contexts", "lookup", "index", "requests", "index-jobs"),
            (SCALE, ONE_CONTEXT, "contexts.jobs", "contexts.jobs_cpu",
             "contexts.index", "contexts.threads", PROFILE, "contexts.share",
             "contexts.request", "contexts.lookup", BYTES,
             "contexts.bytes_dense", "contexts.bytes_sparse"), CONTEXTS),
    Section("Context switches: who retries", ("pipe",),
            (*SWITCHES.posted, "pipe.switches_per_s", "pipe.switches",
             "pipe.wakes", "pipe.rate", "pipe.trips", "pipe.event",
             "pipe.event_hot", "pipe.tries"), SWITCHES),
    Section("Workers with lists of their own", ("nop",),
            (*WORKERS.posted, "nop.items", "nop.contended", "nop.late",
             "nop.wakes"), WORKERS),
    Section("Direct requests: what is cleared", ("dio",),
            (*DIRECT.posted, "dio.setup_ns", "dio.setup_instructions",
             "dio.setup_cleared", "dio.reads", "dio.cut", "dio.slow",
             "dio.slow_cut"), DIRECT),
    Section("What is replaced, where there is least to win", ("replaces",), (),
            about="The same libaio program runs on kernel AIO and on uaio. For comparison, "
            "it runs with as many plain threads, or with an epoll, instead of "
            "requests."),
    Section("io_uring", ("uring",),
            ("uring.rate", "uring.cpu", "uring.workers_rate",
             "uring.workers_cpu"),
            about="The same io_uring program runs on the kernel's io_uring and on "
            "uaio. For comparison, it makes a plain system call for each "
            "request."),
    Section("A server of io_uring", ("echo",),
            ("echo.rate", "echo.cpu", "echo.switches"),
            about="The same echo server runs on the kernel's io_uring and on uaio; another "
            "one uses epoll. The clients are another process."),
    *(Section(f"Servers of io_uring: {title}", (f"servers-{name}",),
              tuple(f"servers-{name}.{figure}" for figure in (
                  "rate", "cpu", "p50", "p99", "calls", "switches", "memory",
                  "clients")),
              about="The same server runs on the kernel's io_uring, on uaio where io_uring "
              "is refused, and on epoll. One thread of another process runs all "
              "clients. Each client waits for an answer before its next request.")
      for name, title in (("tokio", "tokio-uring"), ("netty", "Netty"),
                          ("node", "Node"))),
    Section("Programs that no library can be loaded into", ("trap",), (),
            about="A static program makes system calls without the trap and under "
            "`uaio run --trap`. A third variant only turns syscall user dispatch "
            "on, which slows down every system call."),
    Section("POSIX AIO", ("posix",),
            ("posix.rate", "posix.cpu", "posix.fio_rate", "posix.fio_cpu"),
            about="The same POSIX AIO program, and the same fio, run on glibc and on uaio; "
            "for comparison, libaio runs on uaio. glibc executes each request in a "
            "thread. On an idle second processor this thread runs beside the program, "
            "so compare the CPU time, too."),
    Section("Throughput against depth", ("depth",),
            ("depth.hot", "depth.direct"),
            about="An unmodified fio keeps the given number of requests in flight."),
    Section("Scale: threads, contexts, workers", ("scale", "lines"),
            ("scale.hot", "scale.direct", "scale.nop_cpu", "scale.read_cpu",
             "scale.pipe_cpu", "scale.echo_cpu", SCALE),
            about="We measured only with the processors of this machine. The table of 1 to "
            "32 cores below was posted by others, for the kernel's list and radix tree "
            "on their machine."),
    Section("Growth: an operation among n others", ("growth",),
            ("growth.exponents",),
            about="The processor time of an operation while n others of its kind exist, on "
            "the kernel and on uaio."),
    Section("Memory of a context, and the cost of being loaded",
            ("memory", "load"), ()),
)
JOBS_TITLE = "The peers: one unmodified fio"
REST_TITLE = "Further tables"


# --- tables -----------------------------------------------------------------


def _name(column: str | float) -> str:
    return column if isinstance(column, str) else f"{column:g}"


def _cell(values: Sequence[float]) -> Markup:
    """A cell: the median, and below it the least and the greatest value."""
    spread = Spread.of(list(values))
    if not spread:
        return Markup("–")
    if spread.min == spread.max:
        return Markup(short(spread.median))
    return Markup(short(spread.median)
                  + " " + element("span", f"{short(spread.min)}–"
                                  f"{short(spread.max)}", class_="range"))


def _numbers(table: ReadTable, caption: str = "") -> Markup:
    head = [f"{table.across}" if len(table.columns) > 1 else "",
            *map(_name, table.columns), *([""] if table.words else [])]
    return grid(caption, head, [
        [variant, *(_cell(values) for values in line),
         *([table.words.get(variant, "")] if table.words else [])]
        for variant, line in table.lines.items()])


def _plot(table: ReadTable) -> Markup:
    if not can_draw(table):
        return Markup("")
    drawn = image(draw(table), f"{table.title}, {table.unit}")
    return element("figure", element("div", drawn, class_="wide"))


def _table(table: ReadTable, identifiers: Identifiers) -> Markup:
    """A table: its name, its plot, its figures, and why some are missing."""
    where = f" ({table.file_system})" if table.file_system else ""
    return element(
        "section", element("h3", f"{table.title}, {table.unit}{where}",
                           id=identifiers.of(table.name)),
        _plot(table), _numbers(table),
        paragraph(remarks.doubts(table), "small"),
        paragraph([f"{text.rstrip('.')}." for text in table.beside],
                  "small"))


def _posted(posted: Posted) -> Markup:
    return join([grid(f"As posted: {posted.title}", posted.head, posted.lines,
                      "posted"), element("p", posted.note, class_="small")])


# --- rows -------------------------------------------------------------------


def _ratio(spread: Spread | None, unit: str = "") -> Markup:
    if not spread:
        return Markup("–")
    form = short if unit else times
    unit = f" {unit}" if unit else ""
    least, most = form(spread.min), form(spread.max)
    text = Markup(f"{form(spread.median)}{unit} ")
    return Markup(text + element("span", f"{least}–{most}", class_="range")) \
        if least != most else text


def _verdict(row: ReadRow) -> Markup:
    """The verdict, with the reason if the goal is neither met nor missed."""
    said = row.verdict()
    why = {"too few pairs": f"{row.pairs()} of {ENOUGH_PAIRS}",
           "too noisy here": f"control {row.control.median:.2f}"
           if row.control else ""}.get(said, "")
    if row.note:
        why = row.note
    class_ = {"met": "met", "missed": "missed",
              "disproved": "disproved"}.get(said, "doubt")
    told = element("span", said, class_=class_)
    return Markup(f"{told} {element('span', why, class_='range')}") if why \
        else told


def _control(row: ReadRow) -> str:
    return f"{row.control.median:.2f}" if row.control else "–"


def _goal_line(row: ReadRow) -> list[str]:
    own = row.is_own()
    beside = row.subject if own else f"{row.subject} : {row.peer}"
    return [row.title, beside, f"{row.goal}{f' {row.unit}' if own else ''}",
            _ratio(row.measured(), row.unit if own else ""), _control(row),
            _verdict(row)]


GOAL_HEAD = ("work", "what", "goal", "measured", "control", "verdict")


def _goals(results: Results) -> Markup:
    """Every row with a goal, by chapter."""
    lines: list[Markup] = []
    chapters = [(section.title, section.parts) for section in SECTIONS]
    named = {part for _, parts in chapters for part in parts}
    jobs = tuple(dict.fromkeys(row.name for row in results.rows
                               if row.name not in named))
    for title, parts in [(JOBS_TITLE, jobs), *chapters]:
        rows = [row for row in results.rows_of(*parts) if row.goal]
        if not rows:
            continue
        lines.append(element("tr", element("th", title, scope="rowgroup",
                                           colspan="6"), class_="group"))
        for row in rows:
            first, *rest, verdict = _goal_line(row)
            lines.append(element(
                "tr", element("th", first, scope="row"),
                element("td", rest[0]),
                *(element("td", text, class_="figure") for text in rest[1:]),
                element("td", verdict)))
    if not lines:
        return paragraph(["No row of these results has a goal."])
    head = element("thead", element("tr", *(
        element("th", text, scope="col",
                class_="figure" if 1 < number < 5 else "")
        for number, text in enumerate(GOAL_HEAD))))
    return element("div", element("table", head, element("tbody", *lines)),
                   class_="wide")


ROW_HEAD = ("row", "peer", "peer's", "subject's", "subject ÷ peer", "control",
            "goal", "verdict")


def _rows(rows: Sequence[ReadRow]) -> Markup:
    """All rows, folded up, as most of them are in a table, too."""
    if not rows:
        return Markup("")

    def one(values: list[float]) -> str:
        spread = Spread.of(values)
        return short(spread.median) if spread else "–"

    lines = [[f"{row.title}, {row.unit}", row.peer or "–",
              one(row.peer_values), one(row.subject_values),
              _ratio(row.ratio()), _control(row),
              str(row.goal) if row.goal else "–", _verdict(row)]
             for row in rows]
    return details(f"every row: {len(rows)}", grid("", ROW_HEAD, lines))


# --- chapters ---------------------------------------------------------------


def _idea(section: Section) -> Markup:
    parts = []
    if section.seed:
        parts.append(element("p", section.seed.idea + " "
                             + "; ".join(map(str, section.seed.patches)) + ".",
                             class_="idea"))
    if section.about:
        parts.append(element("p", section.about, class_="idea"))
    return join(parts)


def _chapter(section: Section, results: Results,
             identifiers: Identifiers) -> Markup:
    own = [table for table in results.tables if table.part() in section.parts]
    placed = {name: table for name in section.layout
              if isinstance(name, str) and (table := results.table(name))}
    blocks, missing = [], []
    for item in section.layout:
        if isinstance(item, Posted):
            blocks.append(_posted(item))
        elif item in placed:
            blocks.append(_table(placed[item], identifiers))
        else:
            missing.append(item)
    blocks += [_table(table, identifiers) for table in own
               if not any(table is other for other in placed.values())]
    rows = results.rows_of(*section.parts)
    told = f"Not in these results: {', '.join(missing)}." if missing and own \
        else "" if own or rows else "Not in these results."
    return element(
        "section", element("h2", section.title,
                           id=identifiers.of(section.title)),
        _idea(section), *blocks,
        element("p", told, class_="small") if told else "", _rows(rows))


# --- jobs of fio ------------------------------------------------------------


def _job_parts(results: Results) -> list[str]:
    """The jobs that have results, in their order, followed by other jobs of their kind."""
    taken = {part for section in SECTIONS for part in section.parts}
    known = [job.name for job in JOBS]
    there = [each.part() for each in results.tables
             if each.name.rpartition(".")[2] in JOB_TABLES]
    there += [row.name for row in results.rows if row.name in known]
    there = [part for part in dict.fromkeys(there) if part not in taken]
    return sorted(there, key=lambda part: known.index(part)
                  if part in known else len(known))


def _of_kernel(table: ReadTable | None, engine: str) -> str:
    if not table or not table.columns:
        return "–"
    if engine == "kernel":
        return "1"
    return _ratio(Spread.of(table.ratios(engine, "kernel", table.columns[0])))


def _side_by_side(job: dict[str, ReadTable]) -> Markup:
    """Everything of each engine in a line: the medians."""
    columns: list[tuple[str, ReadTable, str | float]] = []
    for name, words in (("cpu", "CPU, us per I/O"),
                        ("switches", "switches per I/O")):
        if name in job and job[name].columns:
            columns.append((words, job[name], job[name].columns[0]))
    for name in ("submission", "completion"):
        if name in job:
            columns += [(f"{name} p{_name(column)}, {job[name].unit}",
                         job[name], column) for column in job[name].columns]
    rate = job.get("rate")
    engines = dict.fromkeys(engine for table in job.values()
                            for engine in table.lines)

    def middle(table: ReadTable, engine: str, column: str | float) -> str:
        values = table.values(engine, column)
        return short(statistics.median(values)) if values else "–"

    lines = [[engine, middle(rate, engine, rate.columns[0])
              if rate and rate.columns else "–", _of_kernel(rate, engine),
              *(middle(table, engine, column)
                for _, table, column in columns)] for engine in engines]
    return grid("", ["", "I/O/s", "× kernel",
                     *(words for words, _, _ in columns)], lines)


def _job(part: str, results: Results, identifiers: Identifiers) -> Markup:
    job = {table.name.rpartition(".")[2]: table for table in results.tables
           if table.part() == part}
    rows = results.rows_of(part)
    title = next((each.title for each in JOBS if each.name == part), part)
    parts = [element("h3", f"{part}: {title}", id=identifiers.of(part))]
    if job:
        parts += [_side_by_side({name: job[name] for name in JOB_TABLES
                                 if name in job and name != "cdf"})]
    parts += [element("div", *(_plot(job[name]) for name in ("rate", "cdf")
                               if name in job), class_="pair"),
              paragraph(dict.fromkeys(text for table in job.values()
                                      for text in remarks.doubts(table)),
                        "small")]
    if job:
        parts.append(details("with the least and the greatest values", *(
            join([_numbers(table, f"{table.title}, {table.unit}"),
                  paragraph(remarks.doubts(table), "small")])
            for table in results.tables if table.part() == part)))
    return element("section", *parts, _rows(rows))


def _jobs(results: Results, identifiers: Identifiers) -> Markup:
    parts = _job_parts(results)
    jobs = [_job(part, results, identifiers) for part in parts]
    return element(
        "section", element("h2", JOBS_TITLE, id=identifiers.of(JOBS_TITLE)),
        element("p", "The same fio runs with the same options on each engine in turn. "
                "kernel is libaio on kernel AIO; uaio is the same program on uaio. CPU "
                "time and context switches are those of all threads and processes of "
                "fio.",
                class_="idea"),
        *(jobs or [paragraph(["Not in these results."])]))


def _rest(results: Results, identifiers: Identifiers) -> Markup:
    """Tables and rows that no chapter names."""
    taken = {part for section in SECTIONS for part in section.parts} \
        | set(_job_parts(results))
    tables = [table for table in results.tables if table.part() not in taken]
    rows = [row for row in results.rows if row.name not in taken]
    if not tables and not rows:
        return Markup("")
    return element(
        "section", element("h2", REST_TITLE, id=identifiers.of(REST_TITLE)),
        *(_table(table, identifiers) for table in tables), _rows(rows))


# --- what it was measured on ------------------------------------------------


def _about_run(machine: dict, results: Results) -> list[str]:
    rows = [row for row in results.rows if row.machine == machine]
    tables = [table for table in results.tables if table.machine == machine]
    systems = dict.fromkeys(each.file_system for each in [*rows, *tables]
                            if each.file_system)
    rounds = [row.pairs() for row in rows if row.subject_values] \
        + [table.rounds() for table in tables if table.rounds()]
    parts = dict.fromkeys([table.part() for table in tables]
                          + [row.name for row in rows])
    least, most = (min(rounds), max(rounds)) if rounds else (0, 0)
    load = machine.get("load")
    return [str(machine.get("date", "")).replace("T", " "), ", ".join(parts),
            f"{machine.get('cpus', '?')} × {machine.get('cpu', '?')}",
            f"Linux {machine.get('kernel', '?')}", ", ".join(systems) or "–",
            machine.get("commit") or "–", machine.get("fio") or "missing",
            machine.get("libaio") or "missing",
            machine.get("liburing") or "missing",
            f"{least}" if least == most else f"{least} to {most}",
            "–" if load is None else f"{load:.2f}"]


FACTS = ("date", "measured", "processors", "kernel", "file systems",
         "uaio at commit", "fio", "libaio", "liburing", "rounds",
         "load when it began")


def _machines(results: Results) -> Markup:
    runs = [_about_run(machine, results) for machine in results.machines()]
    if not runs:
        return paragraph(["These results are empty."])
    head = [""] + ["here"] * (len(runs) == 1) + [
        f"run {number}" for number in range(1, len(runs) + 1)
        if len(runs) > 1]
    return grid("", head, [[fact, *values] for fact, *values
                           in zip(FACTS, *runs)], words=len(head))


METHOD = ("Variants run in turn, one round after another; the first round is "
          "discarded. A figure is the median of the rounds, beside their least and "
          "greatest value. A ratio is the median of the ratios of each round. The "
          "control compares a peer with itself in the same rounds. If its median is "
          "outside of 0.95–1.05, or there are fewer than 9 rounds, no goal counts as "
          "met or missed. Counters prove which code a variant ran. Compare the ratios: "
          "the absolute figures hold for this machine only.")


def report(results: Results) -> str:
    """The page."""
    identifiers = Identifiers()
    chapters = [_chapter(section, results, identifiers)
                for section in SECTIONS]
    jobs = _jobs(results, identifiers)
    rest = _rest(results, identifiers)
    titles = [section.title for section in SECTIONS[:4]] + [JOBS_TITLE] \
        + [section.title for section in SECTIONS[4:]] \
        + ([REST_TITLE] if rest else [])
    links: Iterable[Markup] = (
        element("li", element("a", title, href=f"#{Identifiers().of(title)}"))
        for title in titles)
    return page(
        "uaio, measured", element("h1", "uaio, measured"),
        element("nav", element("ul", *links)),
        _machines(results), element("p", METHOD, class_="small"),
        element("h2", "What was promised", id=identifiers.of("goals")),
        paragraph([remarks.of_goals(results.rows),
                   remarks.of_control(results.rows)]),
        _goals(results), *chapters[:4], jobs, *chapters[4:], rest)
