#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare.py --conform PROGRAM --uaio PROGRAM [GROUP | ROW]...

Runs the rows on the kernel and under `uaio run --`, by libaio's functions and
by syscall(2), and compares them field by field. A difference fails unless the
row's own table names it, field by field; one that is named there and gone
fails too.

--set NAME=VALUE   for the library's environment; takes away the differences
                   that the table says it does, and brings others
--calls            the reference is the program itself with --calls: requests
                   that kernel AIO cannot make, as calls in a thread
--uring            the rows are of io_uring: by syscall(2) alone, and uaio is told
                   to answer though the kernel would
--posix            the rows are of POSIX AIO: the reference is the C library's
--native BACKEND   uaio has that backend; by its statistics the kernel executed
                   requests
--twice            the kernel in uaio's place: whether the rows say the same again
--on FILESYSTEM    make a small file system of that type and use it

Exit status: 0, 1 with differences, 77 where there is nothing to ask: no AIO or
no io_uring in this kernel, or an old one, or no right to mount.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase

DOORS = {"libaio": [], "syscall": ["--raw"]}
URING_DOORS = {"io_uring": []}
POSIX_DOORS = {"POSIX AIO": []}
SKIPPED = 77
IMAGE_MB = 320  # the least that mkfs.xfs takes, and some
NOTHING = "(nothing)"
COUNTERS = {"aio": "kernel_aio", "io_uring": "io_uring"}
"""What the statistics call the requests of a backend."""


def run(command, env=None):
    """The rows a run printed: {(group, row): [field, ...]} in their order."""
    # A crash of the program itself shows as rows that are missing.
    out = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, errors="replace", env=env
    ).stdout
    rows = {}
    for line in out.splitlines():
        group, row, *fields = line.split("\t")
        rows[group, row] = fields
    return rows


def meant(conform, wanted, settings, file_system):
    """The intended differences: {(group, row): (title, [(kernel, uaio)])}."""
    differs = {}
    listed = subprocess.check_output([conform, "--list", *wanted], text=True)
    for line in listed.splitlines():
        group, row, title, unless, with_it, only_on, *pairs = line.split("\t")
        is_set = not with_it or not set(with_it.split()).isdisjoint(settings)
        if unless not in settings and is_set \
                and only_on in ("", file_system):
            differs[group, row] = title, list(zip(pairs[::2], pairs[1::2]))
    return differs


def is_own_fault(field):
    """Whether the row did not finish on the kernel: then it says nothing about uaio."""
    return field.startswith("broken=") or field in (
        "ended=deadline",
        "ended=SIGALRM",
    )


def differences(kernel, uaio):
    """The fields that differ, as pairs of texts; empty if none does."""
    pairs = []
    for i in range(max(len(kernel), len(uaio))):
        mine = kernel[i] if i < len(kernel) else NOTHING
        theirs = uaio[i] if i < len(uaio) else NOTHING
        if mine != theirs:
            pairs.append((mine, theirs))
        if mine.split("=")[0] != theirs.split("=")[0]:
            break  # from here on the fields are not the same observations
    return pairs


def is_match(pair, pattern):
    return all(map(fnmatchcase, pair, pattern))


def judge(kernel, uaio, patterns, may_be_gone=False):
    """Judge a row. Return: the verdict, and the pairs of fields on which it is based.

    patterns are the intended pairs; None: no difference is intended."""
    if any(field.startswith("skip=") for field in kernel):
        return "skipped", []
    if any(map(is_own_fault, kernel)):
        return "BROKEN", []
    pairs = differences(kernel, uaio)
    if patterns is None:
        return ("DIFFERS" if pairs else "same"), pairs
    if not pairs and may_be_gone:
        return "same", []
    others = [pair for pair in pairs
              if not any(is_match(pair, pattern) for pattern in patterns)]
    if others:
        return "DIFFERS OTHERWISE", others
    gone = [pattern for pattern in patterns
            if not any(is_match(pair, pattern) for pair in pairs)]
    if gone:
        return "NO LONGER DIFFERS", gone
    return "differs on purpose", pairs


def report(name, verdict, pairs, kernel, title):
    if verdict == "same":
        return
    print(f"{verdict}: {name}")
    if verdict in ("skipped", "BROKEN"):
        print(f"    {' '.join(kernel)}")
    for mine, theirs in pairs:
        print(f"    reference {mine}    uaio {theirs}")
    if title:
        print(f"    because: {title}")


def quietly(*command):
    return subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode


def is_writable(folder):
    return os.access(folder, os.W_OK)


def mount_and_run_again(file_system):
    """Runs this again inside a mount namespace, on a new file system.

    The mount goes with the namespace, and the loop device with the mount.
    Its bytes are in memory if possible: disks are slow at what rows do.
    """
    again = [arg for arg in sys.argv if arg != "--on=" + file_system]
    again.insert(0, sys.executable)
    place = next(filter(is_writable, ("/dev/shm", "/var/tmp")))
    with tempfile.TemporaryDirectory(dir=place) as top:
        mount = ["mount", "-t", file_system, file_system, top]
        if file_system != "tmpfs":
            image = os.path.join(top, "image")
            with open(image, "wb") as disk:
                disk.truncate(IMAGE_MB << 20)
            if quietly("mkfs." + file_system, image) != 0:
                print("no mkfs." + file_system)
                return SKIPPED
            mount = ["mount", "-o", "loop", image, top]
        if quietly("unshare", "--mount", "--", *mount) != 0:
            print(f"cannot mount {file_system}")
            return SKIPPED
        both = f"{shlex.join(mount)} && exec {shlex.join(again)}"
        return subprocess.run(
            ["unshare", "--mount", "--", "sh", "-c", both],
            env={**os.environ, "CONFORM_DIR": top, "CONFORM_ON": file_system},
        ).returncode


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--conform", required=True)
    parser.add_argument("--uaio", required=True)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--on")
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--uring", action="store_true")
    parser.add_argument("--posix", action="store_true")
    parser.add_argument("--native", choices=COUNTERS)
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("wanted", nargs="*")
    return parser.parse_args()


def check_libraries(conform, under_uaio, env):
    """Check that each side runs the intended library (or none)."""
    for command, is_ours in (([], False), (under_uaio, True)):
        library = subprocess.check_output(
            [*command, conform, "--library"], text=True, env=env
        )
        if ("libuaio" in os.path.basename(library)) != is_ours:
            sys.exit(f"compare.py: {command} runs on {library}")


def run_all(conform, under_uaio, wanted, by_calls, doors, plain, env):
    """Run everything by each front-end: {front-end: (the reference's rows, uaio's rows)}."""
    # All at once: on the kernel each row waits most of its time, until its
    # context is gone.
    with ThreadPoolExecutor() as pool:
        runs = {}
        calls = by_calls and pool.submit(run, [conform, "--calls", *wanted],
                                         plain)
        for door, flags in doors.items():
            rows = [conform, *flags, *wanted]
            runs[door] = (calls or pool.submit(run, rows, plain),
                          pool.submit(run, [*under_uaio, *rows], env))
        return {door: (reference.result(), uaio.result())
                for door, (reference, uaio) in runs.items()}


def has_kernel_aio(conform, is_uring, env):
    probe = run([conform, "the words of a new ring" if is_uring else
                 "a handle is a page's address"], env)
    return not any("ENOSYS" in field or "EPERM" in field
                   for fields in probe.values() for field in fields)


def has_newest_uring(conform, env):
    """Whether the kernel's io_uring is as new as that of Linux 6.18, which a flag shows."""
    return not any(field == "cqe_mixed=EINVAL" for fields in
                   run([conform, "each flag of a setup alone"], env).values()
                   for field in fields)


def native_requests(path, backend):
    """How many requests the kernel has executed, by the statistics of all processes."""
    try:
        with open(path) as lines:
            return sum(json.loads(line)["direct"][COUNTERS[backend]]
                       for line in lines)
    except FileNotFoundError:
        return 0


def main():
    args = arguments()
    if args.on:
        return mount_and_run_again(args.on)
    if "UAIO_BACKEND" in os.environ:  # that it is there is a setting
        args.set.append("UAIO_BACKEND=" + os.environ["UAIO_BACKEND"])
    if not args.native:
        return compare(args, {})
    args.set.append("UAIO_BACKEND=" + args.native)
    with tempfile.TemporaryDirectory() as folder:
        stats = os.path.join(folder, "stats")
        status = compare(args, {"UAIO_STATS_JSON": stats})
        nr = native_requests(stats, args.native)
    if status == SKIPPED:
        return status
    print(f"{nr} requests by the kernel")
    return status if nr else 1


def compare(args, more_env):

    # meson points LD_LIBRARY_PATH at what it built: the library would be held
    # against itself.
    plain = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
    env = {**plain, **dict(pair.split("=", 1) for pair in args.set), **more_env}
    under_uaio = [args.uaio, "run", "--"]
    if args.uring:
        under_uaio.insert(2, "--uring=always")
    if args.twice:
        under_uaio = []
    else:
        check_libraries(args.conform, under_uaio, plain)
    if not args.calls and not args.posix and not has_kernel_aio(args.conform, args.uring, plain):
        print(f"the kernel has no {'io_uring' if args.uring else 'AIO'} here")
        return SKIPPED
    if args.uring and not has_newest_uring(args.conform, plain):
        print("the kernel's io_uring is older than that of Linux 6.18, which is served")
        return SKIPPED

    file_system = plain.get("CONFORM_ON")
    differs = meant(args.conform, args.wanted, args.set, file_system)
    # A difference need not show on every file system.
    may_be_gone = file_system not in (None, "ext4")
    compared = skipped = 0
    failures = []
    doors = URING_DOORS if args.uring else POSIX_DOORS if args.posix else DOORS
    answers = run_all(args.conform, under_uaio, args.wanted, args.calls,
                      doors, plain, env)
    for door, (kernel, uaio) in answers.items():
        for row, fields in kernel.items():
            title, patterns = differs.get(row, (None, None))
            verdict, pairs = judge(fields, uaio.get(row, []), patterns,
                                   may_be_gone)
            compared += verdict != "skipped"
            skipped += verdict == "skipped"
            what = (f"{row[0]}: {row[1]} (by {door})", verdict, pairs, fields,
                    title)
            if verdict.isupper():
                failures.append(what)
            else:
                report(*what)
    # At the end: a log is often cut to its last lines.
    for what in failures:
        report(*what)
    print(f"{compared} compared, {len(failures)} failed, {skipped} skipped")
    if not compared:
        print("no row was compared")
    return 1 if failures or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
