# SPDX-License-Identifier: MIT
"""The row growth: how the cost of an operation grows with the number of others of its
kind, on the kernel and on uaio.

growth.c is an ordinary program. It measures the processor time of an operation among n
others, for several n. The exponent e of cost ~ n^e is that of the larger n, where what
does not depend on n is the smaller part.
"""
from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness import Sample, Series, VariantFailed, alternate
from programs import Programs
from proof import Check, prove
from rows import Goal, Row, Table, control_of, row_of

KERNEL, GLIBC, UAIO = "kernel", "glibc", "uaio"
POWERS = (1, 10, 100, 1000, 10_000)
PAIRS = (1, 10, 100, 1000, 5000, 10_000)
"""Of what takes two descriptors each: the limit is 20 000 in places."""
FAR = (*POWERS, 100_000)
OPERATIONS, QUICK_OPERATIONS = 500, 10
QUICK_MOST = 100
FITTED_FROM = 100
"""The least n that an exponent is of, where there are two of that or more."""
EXCEEDS = 0.1
"""How much greater than the peer's an exponent is that is called greater."""
GOAL = Goal(1.0, at_least=False)
BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Operation:
    """A row of growth.c."""

    name: str
    title: str
    sizes: tuple[int, ...] = POWERS
    peer: str = KERNEL
    has_ring: bool = True


ALL = (
    Operation("cancel-newest", "cancel a poll, newest first", FAR),
    Operation("cancel-random", "cancel a poll, at random", FAR),
    Operation("poll-update", "update a poll", FAR),
    Operation("poll-remove", "remove a poll", FAR),
    Operation("timeout-remove", "remove a timeout"),
    Operation("cancel-fd", "cancel a poll by descriptor"),
    Operation("cancel-reads", "cancel a read of one pipe", FAR),
    Operation("one-pipe", "complete a read of one pipe"),
    Operation("pipes", "complete reads of pipes, at random", PAIRS),
    Operation("eventfds", "complete reads of eventfds, newest first"),
    Operation("first-read", "first read of each eventfd"),
    Operation("ring-make", "make and close a ring"),
    Operation("epoll-beside", "epoll_wait beside rings", PAIRS),
    Operation("poll-beside", "poll beside rings", PAIRS),
    Operation("select-beside", "select beside rings", PAIRS),
    Operation("nop-epoll", "a no-op, told by an epoll of rings", PAIRS),
    Operation("rings-pipes", "a pipe each of rings in an epoll",
              (1, 2, 4, 8, 16, 100, 1000)),
    Operation("files-update", "update a registered file"),
    Operation("buffers-register", "register a buffer", (*POWERS, 16_384)),
    Operation("buffers-read", "read into a registered buffer",
              (*POWERS, 16_384)),
    Operation("threads", "a no-op by each of n threads", POWERS[:-1]),
    Operation("aio-read", "kernel AIO: a read beside polls"),
    Operation("aio-cancel", "kernel AIO: io_cancel, at random"),
    Operation("lio-listio", "a read of a lio_listio of n", peer=GLIBC,
              has_ring=False),
    Operation("posix-suspend", "aio_suspend beside reads", peer=GLIBC,
              has_ring=False),
    Operation("posix-cancel", "aio_cancel, at random", peer=GLIBC,
              has_ring=False),
)


def exponent_of(costs: dict[int, float]) -> float | None:
    """Return: the slope of the straight line that is nearest to the logarithms."""
    points = [(math.log(n), math.log(cost)) for n, cost in costs.items()
              if cost > 0 and n >= FITTED_FROM]
    if len(points) < 2:
        points = [(math.log(n), math.log(cost)) for n, cost in costs.items()
                  if cost > 0]
    if len(points) < 2:
        return None
    return statistics.linear_regression(*zip(*points)).slope


def figure_at(n: int) -> str:
    return f"ns at {n}"


# --- measuring --------------------------------------------------------------


def sizes_of(operation: Operation, is_quick: bool) -> tuple[int, ...]:
    return tuple(n for n in operation.sizes
                 if n <= QUICK_MOST or not is_quick)


def sample_of(operation: Operation, variant: str, said: list[dict]) -> Sample:
    """Return: the figures of one run, up to the first n that is too large for it."""
    there = [each for each in said if "ns" in each]
    if not there:
        raise VariantFailed(said[-1]["error"] if said else "nothing was said")
    is_ours = variant == UAIO
    proof = prove([
        Check("libuaio mapped" if is_ours else "libuaio not mapped",
              all(each["has_library"] == is_ours for each in there)),
        Check("a ring of the kernel's" if operation.has_ring and not is_ours
              else "no ring of the kernel's",
              all(each["has_kernel_ring"] == (operation.has_ring and not is_ours)
                  for each in there))],
        f"{operation.name}: {variant}", there[-1],
        ("has_library", "has_kernel_ring"))
    costs = {each["n"]: each["ns"] for each in there}
    exponent = exponent_of(costs)
    return Sample({**{figure_at(n): cost for n, cost in costs.items()},
                   **({} if exponent is None else {"exponent": exponent})},
                  proof)


def _measure(programs: Programs, operation: Operation, variant: str) -> Sample:
    """One run, for all n."""
    said = programs.output(
        "growth", [operation.name, QUICK_OPERATIONS if programs.is_quick
                   else OPERATIONS, *sizes_of(operation, programs.is_quick)],
        [str(programs.places.uaio), "run", "--uring=always", "--"]
        if variant == UAIO else [])
    return sample_of(operation, variant,
                     [json.loads(line) for line in said.splitlines()])


# --- what is told -----------------------------------------------------------


def bars_of(costs: Sequence[float | None], low: float, high: float) -> str:
    """A small plot in one line: a block for each n, on a logarithmic scale of at least a
    decade."""
    scale = max(math.log10(high / low), 1.0)
    return "".join(" " if not cost else BLOCKS[min(
        len(BLOCKS) - 1, int(math.log10(cost / low) / scale * len(BLOCKS)))]
        for cost in costs)


def plot_of(table: Table) -> str:
    medians = {variant: [table.median(variant, n) for n in table.columns]
               for variant in table.lines}
    known = [cost for line in medians.values() for cost in line if cost]
    if not known:
        return ""
    width = len(table.columns)
    return "  ".join(f"{bars_of(line, min(known), max(known)):{width}}"
                     for line in medians.values())


@dataclass
class Growth:
    """The result for one operation."""

    operation: Operation
    table: Table
    row: Row
    exponents: dict[str, list[float]]
    largest: int | None

    def excess(self) -> float | None:
        ours, theirs = (self.exponents[name] for name
                        in (UAIO, self.operation.peer))
        return statistics.median(ours) - statistics.median(theirs) \
            if ours and theirs else None

    def verdict(self) -> str:
        excess = self.excess()
        grows = excess is not None and excess > EXCEEDS
        return self.row.verdict() + (", grows faster" if grows else "")

    def line(self) -> list[list[float]]:
        ratio = [ours / theirs for ours, theirs in zip(
            self.row.subject_values, self.row.peer_values) if theirs]
        return [self.exponents[self.operation.peer], self.exponents[UAIO],
                [] if self.largest is None else [float(self.largest)], ratio]

    def named(self) -> str:
        """A sentence, if the exponent is larger than the peer's."""
        excess = self.excess()
        if excess is None or excess <= EXCEEDS:
            return ""
        theirs, ours = (statistics.median(self.exponents[name])
                        for name in (self.operation.peer, UAIO))
        return (f"grows faster than with {self.operation.peer}: "
                f"{self.operation.title}: n^{ours:.2f}, not n^{theirs:.2f}")


def growth_of(operation: Operation, sizes: Sequence[int],
              series: dict[str, Series]) -> Growth:
    """Return: the result of all rounds of an operation."""
    peer = operation.peer
    table = Table(f"growth.{operation.name}", operation.title,
                  "ns", "n", [*sizes], plot="lines",
                  logarithmic="xy")
    for variant in (peer, UAIO):
        table.add(variant, [series[variant]], [*map(figure_at, sizes)])
    largest = max((n for n in sizes if all(
        table.median(variant, n) is not None for variant in (peer, UAIO))),
        default=None)
    figure = figure_at(largest or sizes[-1])
    row = row_of(series, UAIO, peer, figure, name="growth", unit="ns",
                 title=f"{operation.title}, n={largest or '–'}", goal=GOAL,
                 control=control_of(series, peer, figure))
    return Growth(operation, table, row,
                  {name: [] if series[name].failure
                   else series[name].values("exponent")
                   for name in (peer, UAIO)}, largest)


def summary_of(every: list[Growth]) -> Table:
    """A line for each operation."""
    table = Table("growth.exponents",
                  "Growth: cost ~ n^e, and the ratio at the largest n",
                  "processor time", "", ["the peer's e", "uaio's e", "largest n", "ratio"])
    for each in every:
        title = each.operation.title
        table.lines[title] = each.line()
        table.proofs[title] = each.row.proofs.get(UAIO)
        table.words[title] = f"{plot_of(each.table)}  {each.verdict()}"
    table.beside = [sentence for each in every if (sentence := each.named())]
    if not table.beside:
        table.beside = [f"No exponent exceeds its peer's by {EXCEEDS:g}."]
    return table


def growth_results(programs: Programs) -> list[Row | Table]:
    every = []
    for operation in ALL:
        series = alternate(
            {name: lambda name=name, operation=operation: _measure(
                programs, operation, name) for name in (operation.peer, UAIO)},
            programs.rounds, operation.peer, programs.progress,
            f"growth: {operation.title}")
        every.append(growth_of(
            operation, sizes_of(operation, programs.is_quick), series))
    return [*(each.table for each in every), summary_of(every),
            *(each.row for each in every)]
