#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write doc/benchmarks.md and its picture from a file of results, and what
README.md has of them between the lines `<!-- figures -->` and
`<!-- end of figures -->`.

With --check nothing is written: they must be what the file gives. A picture is
compared by its words where another Matplotlib drew it.
"""
from __future__ import annotations

import argparse
import importlib
import re
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import picture
import remarks
import report
from fio import JOBS, OWN_THREADS, OWN_URING, THREADS, Job
from picture import Half, is_fair
from reading import ReadTable, Results, Unreadable, read
from rows import short, times

HERE = Path(__file__).resolve().parent
WIDTH = 80
NONE = "–"

DOCUMENT, README = "doc/benchmarks.md", "README.md"
PICTURES = {"doc/benchmarks.svg": picture.LIGHT,
            "doc/benchmarks-dark.svg": picture.DARK}
MARKED = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.S)
SHOWN = """<picture>
<source media="(prefers-color-scheme: dark)" srcset="{0}benchmarks-dark.svg">
<img alt="I/O a second of uaio, io_uring and glibc's AIO beside kernel AIO"
src="{0}benchmarks.svg">
</picture>
"""


# --- Markdown ---------------------------------------------------------------


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |".replace("|  |", "| |")

    return "\n".join([line(head), "|---" + "|--:" * (len(head) - 1) + "|",
                      *map(line, lines)])


def _prose(*texts: str) -> str:
    return textwrap.fill(" ".join(text for text in texts if text), WIDTH,
                         break_on_hyphens=False, break_long_words=False)


def _section(title: str, *blocks: str) -> str:
    """Return: the lines of the section; none if its last block has no figures."""
    return "\n\n".join([f"## {title}", *blocks]) if blocks[-1] else ""


# --- cells ------------------------------------------------------------------


def _median(table: ReadTable | None, variant: str,
            column: str | float | None = None) -> str:
    if not table or not table.columns or not is_fair(table, variant):
        return NONE
    values = table.values(
        variant, table.columns[0] if column is None else column)
    return short(statistics.median(values)) if values else NONE


def _ratio(table: ReadTable | None, variant: str, peer: str,
           column: str | float | None = None) -> str:
    if not table or not table.columns or not is_fair(table, peer):
        return NONE
    half = Half.of(table.ratios(
        variant, peer, table.columns[0] if column is None else column))
    return str(half) if half else NONE


# --- where and when ---------------------------------------------------------


def _machine(machines: Sequence[dict]) -> str:
    """Return: each machine once. Runs of other days may have used other machines."""
    return " and ".join(dict.fromkeys(
        f"{one.get('cpus')} × {one.get('cpu')}, "
        f"Linux {str(one.get('kernel')).partition('-')[0]}"
        for one in machines))


def _when(machines: Sequence[dict]) -> str:
    """The days and the commits."""
    days = dict.fromkeys(str(each.get("date"))[:10] for each in machines)
    commits = sorted({str(each.get("commit")) for each in machines})
    return (f"{' and '.join(days)} at commit{'s' * (len(commits) > 1)} "
            f"{' and '.join(commits)}")


# --- parts ------------------------------------------------------------------


ENGINES = {"kernel": "kernel AIO", "uaio": "uaio", "io_uring": "io_uring",
           "posixaio": "POSIX AIO"}


def _jobs(results: Results, figure: str) -> list[tuple[Job, ReadTable]]:
    return [(job, table) for job in JOBS
            if (table := results.table(f"{job.name}.{figure}"))]


def _throughput(results: Results) -> str:
    lines = []
    for job, table in _jobs(results, "rate"):
        lines.append([
            job.title, *(_median(table, engine) for engine in ENGINES),
            *(_ratio(table, "uaio", peer) for peer in ("kernel", "io_uring"))])
    return _table(["I/O a second", *ENGINES.values(), "uaio : kernel AIO",
                   "uaio : io_uring"], lines) if lines else ""


BACKENDS = {"kernel": "kernel AIO", "io_uring": "io_uring", THREADS: THREADS,
            OWN_THREADS: "uaio, threads", OWN_URING: "uaio, io_uring",
            "uaio": "uaio"}


def _backends(results: Results) -> str:
    """Direct I/O, by backend."""
    lines = [[job.title, *(_median(table, name) for name in BACKENDS),
              _ratio(table, OWN_THREADS, THREADS),
              _ratio(table, "uaio", "kernel"), _ratio(table, "uaio", "io_uring")]
             for job, table in _jobs(results, "rate")
             if OWN_THREADS in table.lines]
    return _table(["I/O a second", *BACKENDS.values(), "uaio, threads : 32 threads",
                   "uaio : kernel AIO", "uaio : io_uring"],
                  lines) if lines else ""


def _cost(results: Results) -> str:
    late = {job.name: table for job, table in _jobs(results, "cdf")}
    three = [*ENGINES][:3]
    lines = [[job.title, *(_median(table, engine) for engine in three),
              *(_median(late.get(job.name), engine, 99) for engine in three)]
             for job, table in _jobs(results, "cpu")]
    return _table(["", *(f"CPU, {ENGINES[engine]}" for engine in three),
                   *(f"99 %, {ENGINES[engine]}" for engine in three)],
                  lines) if lines else ""


def _depths(results: Results) -> str:
    tables = [table for name in ("hot", "direct")
              if (table := results.table(f"depth.{name}"))]
    if not tables:
        return ""
    columns = tables[0].columns
    return _table(["at a time", *(f"{column:g}" for column in columns)], [
        [f"{table.title}, uaio : {ENGINES[peer]}",
         *(_ratio(table, "uaio", peer, column) for column in columns)]
        for table in tables for peer in ("kernel", "io_uring")])


URINGS = {"io_uring": "io_uring", "io_uring+deferred": "DEFER_TASKRUN",
          "uaio": "uaio", "plain": "plain calls"}
BY_WORKERS = {"uaio, one list": "one list", "uaio, private lists": "own lists"}


def _uring(results: Results) -> str:
    """Requests, workers, and the cost for programs without rings."""
    rate, workers = (results.table(f"uring.{name}")
                     for name in ("rate", "workers_rate"))
    if not rate or not workers:
        return ""
    rows = {row.title: row for row in results.rows_of("uring")}
    idle = [[title.removeprefix("idle "), *(
        short(statistics.median(values)) if values else NONE
        for values in (row.peer_values, row.subject_values))]
        for title, row in rows.items() if title.startswith("idle ")]
    added = [[title.split()[2], short(statistics.median(row.subject_values))]
             for title, row in rows.items()
             if title.startswith("added to ") and row.subject_values]
    return "\n\n".join((
        _table(["requests a second", *URINGS.values(), "uaio : io_uring"],
               [[f"{column}", *(_median(rate, name, column)
                                for name in URINGS),
                 _ratio(rate, "uaio", "io_uring", column)]
                for column in rate.columns]),
        _table(["no-ops by 4 workers, a second", "io_uring",
                *(f"uaio, {words}" for words in BY_WORKERS.values()),
                *(f"{words} : io_uring" for words in BY_WORKERS.values())],
               [[f"{column}", *(_median(workers, name, column) for name in
                                ("io_uring", *BY_WORKERS)),
                 *(_ratio(workers, name, "io_uring", column)
                   for name in BY_WORKERS)] for column in workers.columns]),
        _table(["idle, with a ring, % of a processor", "io_uring", "uaio"],
               idle),
        _table(["added to a call in a program without a ring", "ns"], added)))


ECHOES = {"io_uring": "io_uring", "io_uring+deferred": "DEFER_TASKRUN",
          "uaio": "uaio", "epoll": "epoll"}


def _echo(results: Results) -> str:
    """Messages a second, and what one costs the server."""
    tables = [(table, what) for word, what in (
        ("rate", "messages a second"), ("cpu", "CPU us per message"),
        ("switches", "context switches per message"))
        if (table := results.table(f"echo.{word}"))]
    return "\n\n".join(
        _table([what, *ECHOES.values(), *(f"uaio : {peer}" for peer in (
            "io_uring", "epoll"))],
            [[f"{column}", *(_median(table, name, column) for name in ECHOES),
              *(_ratio(table, "uaio", peer, column)
                for peer in ("io_uring", "epoll"))]
             for column in table.columns])
        for table, what in tables)


SERVERS = {"tokio": "tokio-uring", "netty": "Netty", "node": "Node"}
TRANSPORTS = ("io_uring", "uaio", "epoll")


SERVERS_PROFILE = """\
If a server receives into an incremental buffer ring, as Netty's does, uaio is
clearly slower than the kernel's io_uring, because uaio makes more system calls.
With 1000 connections, an echo takes 2 calls on epoll, and 5 on uaio:

- two recvfrom, of which one finds nothing
- one sendto
- one futex call, which checks whether the program's memory is writable
- one epoll_ctl, which checks whether the descriptor still is the same socket"""


def _servers(results: Results, *figures: str) -> list[tuple[str, str, list[ReadTable]]]:
    """The table of servers: the meaning of each line, its column, and the tables with its
    figures."""
    return [(f"{title}, {column}", column, tables)
            for name, title in SERVERS.items()
            if all(tables := [results.table(f"servers-{name}.{figure}")
                              for figure in figures])
            for column in tables[0].columns]


def _runtimes(results: Results) -> str:
    """The versions of the runtimes."""
    found = [rate.beside[0] for name in SERVERS
             if (rate := results.table(f"servers-{name}.rate")) and rate.beside]
    return f"Versions: {'; '.join(found)}." if found else ""


def _served(results: Results) -> str:
    """Rates, and the processor time and latency of a request."""
    rates = [[title, *(_median(rate, name, column) for name in TRANSPORTS),
              *(_ratio(rate, "uaio", peer, column)
                for peer in ("io_uring", "epoll")),
              *(_median(clients, name, column) for name in ("io_uring", "uaio"))]
             for title, column, [rate, clients] in _servers(
                 results, "rate", "clients")]
    blocks = [_table(["requests a second", *TRANSPORTS, "uaio : io_uring",
                      "uaio : epoll", "clients %, io_uring", "clients %, uaio"],
                     rates)]
    for head, words, figures in (
            ("of a request", ("CPU us", "system calls", "switches"),
             ("cpu", "calls", "switches")),
            ("", ("50 %, ms", "99 %, ms", "MiB"), ("p50", "p99", "memory"))):
        blocks.append(_table(
            [head, *(f"{word}, {name}" for word in words
                     for name in TRANSPORTS)],
            [[title, *(_median(table, name, column) for table in tables
                       for name in TRANSPORTS)]
             for title, column, tables in _servers(results, *figures)]))
    return "\n\n".join(blocks) if rates else ""


def _trap(results: Results) -> str:
    """What the trap adds to a call."""
    lines = [[row.title, short(half.median),
              f"{short(half.low)}–{short(half.high)}"]
             for row in results.rows_of("trap")
             if (half := Half.of(row.subject_values))]
    return _table(["under `uaio run --trap`", "ns", "middle half"],
                  lines) if lines else ""


def _trace(results: Results) -> str:
    """The rate of a program that is traced."""
    lines = []
    for row in results.rows_of("trace"):
        ratio = Half.of([a / b for a, b in zip(
            row.subject_values, row.peer_values) if b])
        if ratio:
            lines.append([row.title,
                          *(short(statistics.median(values)) for values in (
                              row.peer_values, row.subject_values)),
                          str(ratio)])
    return _table(["fio, I/O a second", "not traced", "traced",
                   "traced : not traced"], lines) if lines else ""


POSIX = {"glibc": "glibc", "uaio": "uaio", "uaio, libaio": "libaio on uaio",
         "pread": "pread"}


def _posix(results: Results) -> str:
    """Rates and processor times."""
    blocks = []
    for name in ("", "fio_"):
        rate, cpu = (results.table(f"posix.{name}{figure}")
                     for figure in ("rate", "cpu"))
        if not rate or not cpu:
            return ""
        there = [variant for variant in POSIX if variant in rate.lines]
        what = "I/O" if name else "requests"
        blocks += [_table(
            [head, *(POSIX[each] for each in there), "uaio : glibc"],
            [[f"{column}", *(_median(table, each, column) for each in there),
              _ratio(table, "uaio", "glibc", column)]
             for column in table.columns])
            for head, table in ((f"{what} a second", rate),
                                ("CPU time, us", cpu))]
    return "\n\n".join(blocks)


def _machine_of(results: Results, name: str) -> str:
    """Name the machine if the results are not all from the same one."""
    rate = results.table(name)
    if not rate or _machine([rate.machine]) == _machine(results.machines()):
        return ""
    return f"Measured on {_machine([rate.machine])}."


PIPES = {"kernel": "kernel AIO, its write submitted first",
         "caller-runs+delayed-kick": "uaio", "io_uring": "io_uring",
         "io_uring+deferred": "io_uring, DEFER_TASKRUN",
         "threads": "two threads without AIO"}


def _pipes(results: Results) -> str:
    rate, trips = (results.table(f"pipe.{name}") for name in ("rate", "trips"))
    if not rate:
        return ""
    return _table(
        ["", "GB/s", "round trips a second, one processor", "two"],
        [[words, _median(rate, name),
          *(_median(trips, name, place)
            for place in ("1 processor", "2 processors"))]
         for name, words in PIPES.items() if name in rate.lines])


READS = {"kernel": "kernel AIO", "io_uring": "io_uring", "psync": "pread",
         "uaio": "uaio", "whole": "N = 1",
         **{f"{width} wide": f"N = {width}" for width in (4, 8, 16, 64)}}


def _large(results: Results) -> str:
    """Large direct reads, and those of a slow file system."""
    tables = [table for name in ("reads", "slow")
              if (table := results.table(f"dio.{name}"))]
    return "\n\n".join(
        _table([f"{table.title}, {table.unit}",
                *(words for name, words in READS.items()
                  if name in table.lines)],
               [[f"{column}", *(_median(table, name, column) for name in READS
                                if name in table.lines)]
                for column in table.columns]) for table in tables)


def _size(results: Results) -> str:
    lines = []
    for title, row in (
            ("memory of a used context, bytes", "context, used"),
            ("time that `uaio run` adds to a program's start, ms", "added"),
            ("threads before the first request", "threads")):
        found = [each for each in results.rows_of("memory", "load")
                 if each.title.startswith(row) and each.subject_values]
        lines += [[title, NONE, short(each.measured().median)]
                  for each in found[-1:]]
    lookup = results.table("contexts.lookup")
    if lookup and lookup.columns:
        most = lookup.columns[-1]
        lines.append([f"io_submit of no requests, with {most:g} contexts, ns",
                      *(_median(lookup, engine, most)
                        for engine in ("kernel", "uaio"))])
    return _table(["", "kernel AIO", "uaio"], lines) if lines else ""


# --- all of it --------------------------------------------------------------


def document(results: Results, note: str) -> str:
    machines = results.machines()
    if not machines:
        return "# Benchmarks\n\nNot measured.\n"
    parts = (
        "<!-- Written by `make benchmarks`. -->\n# Benchmarks",
        _prose("`make demo` compares uaio with kernel AIO on your machine in a minute. "
               "`make bench` measures the figures below, and more, in an hour; `uaio "
               "bench NAME` measures one part of them. `bench/README.md` says how, and "
               "how each variant proves which code it ran."),
        _prose(f"The figures were measured on {_when(machines)}; the code is newer. "
               f"{note} Machine: {_machine(machines)}. "
               f"{remarks.of_control(results.rows)} Brackets contain the middle half "
               "of the rounds."),
        SHOWN.format("").rstrip(),
        _section("One fio on each engine",
                 _prose("An unmodified fio runs with the same options on each engine. "
                        "POSIX AIO is glibc's. A dash means that an engine was not "
                        "measured, or did less work than the others. If uaio : kernel "
                        "AIO is below 1 and your program may use kernel AIO, use "
                        "kernel AIO."),
                 _throughput(results)),
        _section("What a request costs",
                 _prose("CPU is the processor time of fio per I/O, in us, with all its "
                        "threads and processes. 99 % is the time, in us, within which "
                        "99 % of the I/Os completed."),
                 _cost(results)),
        _section("Few and many at a time", _depths(results)),
        _section("io_uring where it is refused",
                 _prose("One program, which makes io_uring's three system calls "
                        "itself, runs on the kernel's io_uring and, by "
                        "`--uring=always`, on uaio. Its requests are no-ops, or 4 KiB "
                        "reads from the page cache. The column DEFER_TASKRUN "
                        "shows rings with this flag, the kernel's fastest. Plain "
                        "calls are `pread`, or `getppid` for a no-op.",
                        _machine_of(results, "uring.rate")), _uring(results)),
        _section("A server of io_uring where it is refused",
                 _prose("A server echoes messages of 64 bytes, on the kernel's "
                        "io_uring and on uaio; another server uses epoll. The clients "
                        "are another process, connected by TCP over the loopback "
                        "device.",
                        _machine_of(results, "echo.rate")),
                 _echo(results)),
        _section("Servers of io_uring where it is refused",
                 _prose("Servers on three runtimes have 1000 or 10 000 connections. "
                        "Each runs on the kernel's io_uring; on uaio, where io_uring "
                        "fails with EPERM; and on epoll. The servers on epoll use "
                        "tokio without tokio-uring, Netty's default transport, and "
                        "Node with UV_USE_IO_URING=0.",
                        _runtimes(results),
                        "Node uses io_uring only for files, and always epoll for "
                        "sockets. A request is a message of 64 bytes, which the server "
                        "sends back, or an HTTP GET of 100 to 163 bytes. Each client "
                        "waits for an answer before its next request, so the mean "
                        "latency is the number of clients divided by the rate. One "
                        "thread runs all clients and compares every byte. If this "
                        "thread uses more than 90 % of its processor, it, not the "
                        "server, limits the rate; compare the server's CPU time then. "
                        "Memory does not include pages of files.",
                        _machine_of(results, "servers-tokio.rate")),
                 SERVERS_PROFILE, _served(results)),
        _section("Programs that no library can be loaded into",
                 _prose("A static program makes system calls under `uaio run --trap`. "
                        "Rows *added* show how much longer a call takes than without "
                        "the trap. A call that the library executes is compared with "
                        "`syscall(2)` in a program that loads the library. *At a jump*: "
                        "the library has replaced the `syscall` instruction by a jump. "
                        "*A place that stays*: the instruction is not replaced, so it "
                        "raises a signal."),
                 _trap(results)),
        _section("Traced programs",
                 _prose("fio runs under `uaio trace`, which writes a line for each "
                        "request or, with `--errors`, only for requests that fail."),
                 _trace(results)),
        _section("POSIX AIO",
                 _prose("The same POSIX AIO program reads 4 KiB from the page cache on "
                        "glibc and on uaio. The last two tables show fio's posixaio. "
                        "glibc executes each request in a thread. On an idle second "
                        "processor this thread runs beside the program, so compare the "
                        "CPU time, too.",
                        _machine_of(results, "posix.rate")),
                 _posix(results)),
        _section("Pipes",
                 _prose("GB/s: one thread moves 4 KiB at a time through a pipe. Round "
                        "trips: two processes send 64 bytes to each other and back."),
                 _pipes(results)),
        _section("Small O_DIRECT requests",
                 _prose("uaio executes small direct requests by kernel AIO where that "
                        "is allowed. The columns *uaio, threads* and *uaio, io_uring* "
                        "show `--backend=threads` and `--backend=io_uring`. The column "
                        "*32 threads* shows threads that call pread or pwrite, which "
                        "need no asynchronous I/O of the kernel.",
                        _machine_of(results, "direct-read-32.rate")),
                 _backends(results)),
        _section("Large O_DIRECT reads",
                 _prose("On a disk, uaio hands large reads whole to kernel AIO where "
                        "that is allowed. Elsewhere it executes reads of 512 KiB and "
                        "more in parallel segments. It measures how many segments are "
                        "fastest on the file; `uaio run --segments=N` sets their "
                        "number. The second table is of a FUSE file, whose server "
                        "takes 5 ms for each call."),
                 _large(results)),
        _section("Memory and start", _size(results)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _range(results: Results, kind: str) -> str:
    """The range of the medians of one kind of work, relative to kernel AIO."""
    there = [half.median for work in picture.WORKS if work.kind == kind
             and (half := picture.beside(results, work, "uaio"))]
    if not there:
        return NONE
    least, most = times(min(there)), times(max(there))
    return least if least == most else f"{least} to {most}"


def summary(results: Results) -> str:
    """The part of README.md between the marks."""
    return SHOWN.format("doc/") + "\n" + _prose(
        f"uaio does {_range(results, picture.CACHE)} times as many I/Os a second as "
        f"kernel AIO in the page cache, "
        f"{_range(results, picture.MISS)} times when reads miss it, and "
        f"{_range(results, picture.DIRECT)} times with small O_DIRECT requests: "
        f"[{DOCUMENT}]({DOCUMENT}).") + "\n"


def _footnote(results: Results, note: str) -> str:
    """The note below the picture."""
    works = [(work, engine) for work in picture.WORKS
             for engine in picture.ENGINES]
    rounds = [len(values) for work, engine in works
              if (values := picture.ratios(results, work, engine))]
    machines = [table.machine for table in (
        results.table(work.table) for work in picture.WORKS) if table]
    many = f"{min(rounds)} to {max(rounds)}" \
        if min(rounds) < max(rounds) else f"{rounds[0]}"
    return "\n".join(text for text in (
        f"Median and middle half of {many} rounds. {_machine(machines)}.",
        f"Measured on {_when(machines)}.", note) if text)


class Refused(Exception):
    """A file cannot be written; the text says why."""


def made(results: Results, note: str,
         readme: str) -> Iterator[tuple[str, str]]:
    """Return: each file to write, with its text. Pictures take longest, so they come
    last."""
    if len(MARKED.findall(readme)) != 1:
        raise Refused(f"{README} has not one place for figures")
    yield DOCUMENT, document(results, note)
    yield README, MARKED.sub(lambda match: match[1] + (
        summary(results) if results.tables else "") + match[2], readme)
    if any(picture.ratios(results, work, "uaio") for work in picture.WORKS):
        below = _footnote(results, note)
        for name, theme in PICTURES.items():
            yield name, picture.draw(results, theme, below).decode()


CREATOR, WORDS = (re.compile(rf"<dc:{name}>.*?</dc:{name}>", re.S)
                  for name in ("creator", "description"))


def _is_same(name: str, old: str, new: str) -> bool:
    """Whether only the words are equal: another version of Matplotlib draws differently."""
    if name in PICTURES and CREATOR.findall(old) != CREATOR.findall(new):
        return WORDS.findall(old) == WORDS.findall(new)
    return old == new


def _check(top: Path, files: Iterable[tuple[str, str]], results: Path) -> int:
    for name, text in files:
        if not _is_same(name, (top / name).read_text(), text):
            print(f"benchmarks: {name} is not of {results}: make benchmarks",
                  file=sys.stderr)
            return 1
    return 0


def _newest() -> Path | None:
    return max((HERE / "results").glob("*.jsonl"), default=None)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="?", type=Path, default=_newest(),
                        help="default: the last of bench/results")
    parser.add_argument("--top", type=Path, default=HERE.parent,
                        help=f"where {README} and doc/ are")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if not report.can_draw():
        python = report.interpreter()
        if python:
            return subprocess.run([python, "-B", __file__,
                                   *sys.argv[1:]]).returncode
        print(f"benchmarks: {report.HOW_TO_GET}", file=sys.stderr)
        return 2
    try:
        said = args.results.with_suffix(".txt")
        note = " ".join(said.read_text().split()) if said.exists() else ""
        files = made(read([args.results]), note,
                     (args.top / README).read_text())
        if args.check:
            return _check(args.top, files, args.results)
        for name, text in files:
            (args.top / name).write_text(text)
    except (OSError, Refused, Unreadable) as why:
        print(f"benchmarks: {why}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
