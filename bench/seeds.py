# SPDX-License-Identifier: MIT
"""The patches to Linux from which the ideas are, and the figures their authors
posted with them: to be shown beside ours. The machines were others."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Posted:
    """A table of the patch's authors. The figures are as they posted them."""

    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    note: str = ""
    """What has to be known of it, in our words."""


@dataclass(frozen=True)
class Patch:
    title: str
    author: str
    when: str

    def __str__(self) -> str:
        return f"“{self.title}”, {self.author}, {self.when}"


@dataclass(frozen=True)
class Seed:
    patches: tuple[Patch, ...]
    idea: str
    posted: tuple[Posted, ...]


CORES = ("cores", "1", "2", "4", "8", "16", "32")

SCALE = Posted(
    "512 jobs on 512 contexts, ms, by cores (2013)", CORES,
    (("list, ms", "109376", "69119", "35682", "22671", "19724", "16408"),
     ("%rsd", "0.69", "1.15", "1.17", "1.21", "1.71", "1.43"),
     ("radix tree, ms", "73651", "41748", "23028", "16766", "15232", "13787"),
     ("%rsd", "1.19", "0.98", "0.69", "1.13", "0.72", "0.75"),
     ("radix in % of list", "66.12", "65.59", "66.63", "72.31", "77.26",
      "83.66")),
    "fio: rw=randrw size=256k iodepth=1 blocksize=1024 numjobs=512 thread "
    "loops=100, EXT2 on a RAM disk, two sockets of 8 cores, means of 10 runs. "
    "The last line does not follow from the others: 2 cores would be 60.40. "
    "It is as it was posted.")

ONE_CONTEXT = Posted(
    "1 job on one context, ms (2013)", ("", "ms", "%rsd", "of list"),
    (("list", "58892", "0.91", ""), ("radix tree", "59404", "0.81", "100.87 %")),
    "The same with size=100m numjobs=1. A reviewer saw about 1.5 % less "
    "throughput with the radix tree, which is why there came to be a table; "
    "no figures were posted for the table itself.")

PROFILE = Posted(
    "where the processors were, 512 jobs, list (2013)", ("function", "% of time"),
    (("lookup_ioctx", "32.51"), ("__lock_acquire", "9.19"),
     ("lock_release", "4.40"), ("sched_clock_local", "4.19"),
     ("local_clock", "3.86"), ("native_sched_clock", "3.68"),
     ("sched_clock_cpu", "3.08"), ("lock_release_holdtime", "2.64"),
     ("memcpy", "2.60"), ("lock_acquired", "2.33"), ("lock_acquire", "2.25"),
     ("do_io_submit", "1.84")),
    "Up to 30 % of the time went into finding the context; the kernel was one "
    "with lock debugging.")

POSTED_BYTES = 7384

BYTES = Posted(
    "memory of one context in the worst case (2013)", ("", "bytes"),
    (("radix tree: 13 nodes of 568", f"{POSTED_BYTES}"),
     ("the least of the rest: a page and the structure", "4928"),
     ("said to be", "300 % more")),
    "7384 more than 4928 is 150 % more, which makes 2.5 times as much. And "
    "nodes of 568 bytes have 64 slots, of which 9 levels reach all of an "
    "address; 13 levels are of nodes of 16 slots, which are smaller. So 7384 "
    "stands here as what was posted.")

CONTEXTS = Seed(
    (Patch("aio: convert the ioctx list to radix tree", "Octavian Purdila",
           "April and May 2013"),
     Patch("aio: convert the ioctx list to table lookup v3",
           "Benjamin LaHaise", "30 July 2013")),
    "A process with many contexts had them in a list, which each call walked. A "
    "radix tree made that shorter; then the id in the ring's own header became "
    "the index of a table, and finding a context one access.",
    (SCALE, ONE_CONTEXT, PROFILE, BYTES))

SWITCHES = Seed(
    (Patch("aio-workqueue-context-switch-reduction", "Chris Mason, Suparna Bhattacharya",
           "August 2004"),),
    "What had to wait for a pipe was retried by a kernel thread, which had to be "
    "woken for each. Who submits or waits can do it instead, and the thread be "
    "started with a delay.",
    (Posted("context switches of pipetest (2004)", ("", "a second"),
            (("Linux 2.6, a worker retries", "about 600 000"),
             ("who submits or waits retries", "360 000"),
             ("and the worker comes with a delay", "as Linux 2.4"),
             ("Linux 2.4 (SuSE)", "30 or so")),
            "Linux 2.6 was about 40 % slower than 2.4 at it, and as fast "
            "afterwards. It was tried with pipetest only, and its machine was "
            "not named."),))

WORKERS = Seed(
    (Patch("io-wq: implement fixed worker logic", "Hao Xu",
           "24 November 2021, four more versions up to June 2022"),),
    "The workers of io_uring took from one list under one lock. Fixed workers get "
    "lists of their own, filled in turn, and take all that is in them at once.",
    (Posted("no-ops through workers, as first posted (2021)",
            ("3 fixed workers of 4", "as posted", "a second"),
            (("before", "40w–50w", "400 000–500 000"),
             ("fixed workers", "about 100w", "1 000 000"),
             ("and works taken in batches", "about 160w", "1 600 000")),
            "w is 10 000. Of a fio read with one list 40 to 50 % was contention "
            "for its lock. No machine was named."),
     Posted("200 000 times 100 no-ops, 3 workers on processors 1 to 3, versions "
            "2 to 5 (2022)",
            ("", "run", "us", "a second", "called in v2, v3, v4", "in v5"),
            (("fixed workers", "1", "10464397", "1911242", "normal", "fixed"),
             ("", "2", "9610976", "2080954", "normal", "fixed"),
             ("", "3", "9807361", "2039284", "normal", "fixed"),
             ("normal workers", "1", "17314274", "1155116", "fixed", "normal"),
             ("", "2", "17016942", "1175299", "fixed", "normal"),
             ("", "3", "17908684", "1116776", "fixed", "normal")),
            "Three of these postings had the two labels transposed, which the "
            "author said when he was asked, and the last has them right: so "
            "fixed workers were 1.75 times as fast (called about 2 times). In "
            "our own measurements counters say which variant ran.")))

DIRECT = Seed(
    (Patch("aio: Don't zero out the pages array inside struct dio",
           "Jeff Moyer", "30 October 2009"),),
    "The descriptor of a direct request is mostly an array of pages, which needs "
    "not be cleared: it goes to the end, and only what is in front of it is.",
    (Posted("a database benchmark, by Intel (2009)", ("", "throughput"),
            (("all of it cleared, since 2007", "−0.5 %"),
             ("only the front cleared", "+0.6 %")),
            "The second is what the patch gained, after the loss. In 2007 no "
            "stable difference had been seen for 256 KiB reads at 340 MB/s."),))
