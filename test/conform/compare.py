#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare.py --conform PROGRAM --uaio PROGRAM [GROUP | ROW]...

Runs the rows on the kernel and under `uaio run --`, by libaio's functions and
by syscall(2), and compares them field by field. A difference fails unless its
row names the reason; a reason whose difference is gone fails too.

--set NAME=VALUE   for the library's environment
--on FILESYSTEM    make a small file system of that type and use it

Exit status: 0, 1 with differences, 77 where there is nothing to ask: no AIO
in this kernel, or no right to mount.
"""
import argparse
import os
import shlex
import subprocess
import sys
import tempfile

DOORS = {"libaio": [], "syscall": ["--raw"]}
SKIPPED = 77
IMAGE_MB = 320  # the least that mkfs.xfs takes, and some


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


def reasons(conform, wanted):
    """Why a row differs on purpose: {(group, row): reason}."""
    rows = run([conform, "--list", *wanted])
    return {row: fields[0] for row, fields in rows.items() if fields[0]}


def is_own_fault(field):
    """A row that did not come to its end on the kernel says nothing."""
    return field.startswith("broken=") or field in (
        "ended=deadline",
        "ended=SIGALRM",
    )


def differences(kernel, uaio):
    """The fields that differ, as pairs of texts; empty if none does."""
    pairs = []
    for i in range(max(len(kernel), len(uaio))):
        mine = kernel[i] if i < len(kernel) else "(nothing)"
        theirs = uaio[i] if i < len(uaio) else "(nothing)"
        if mine != theirs:
            pairs.append((mine, theirs))
        if mine.split("=")[0] != theirs.split("=")[0]:
            break  # from here on the fields are not the same observations
    return pairs


def quietly(*command):
    return subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode


def mount_and_run_again(file_system):
    """Runs this again inside a mount namespace, on a new file system.

    The mount goes with the namespace, and the loop device with the mount.
    """
    again = [arg for arg in sys.argv if arg != "--on=" + file_system]
    again.insert(0, sys.executable)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
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
            env={**os.environ, "CONFORM_DIR": top},
        ).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--conform", required=True)
    parser.add_argument("--uaio", required=True)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--on")
    parser.add_argument("wanted", nargs="*")
    args = parser.parse_args()
    if args.on:
        return mount_and_run_again(args.on)

    # meson points LD_LIBRARY_PATH at what it built: the library would be held
    # against itself.
    plain = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
    env = {**plain, **dict(pair.split("=", 1) for pair in args.set)}
    under_uaio = [args.uaio, "run", "--"]
    for command, is_ours in (([], False), (under_uaio, True)):
        library = subprocess.check_output(
            [*command, args.conform, "--library"], text=True, env=plain
        )
        if ("libuaio" in os.path.basename(library)) != is_ours:
            sys.exit(f"compare.py: {command} runs on {library}")

    probe = run([args.conform, "a handle is a page's address"], plain)
    if any("ENOSYS" in f or "EPERM" in f for fs in probe.values() for f in fs):
        print("the kernel has no AIO here")
        return SKIPPED

    explained = reasons(args.conform, args.wanted)
    compared = skipped = failed = 0
    seen = set()
    for door, flags in DOORS.items():
        rows = [args.conform, *flags, *args.wanted]
        kernel = run(rows, plain)
        uaio = run([*under_uaio, *rows], env)
        for row, fields in kernel.items():
            name = f"{row[0]}: {row[1]} (by {door})"
            if any(field.startswith("skip=") for field in fields):
                print(f"skipped: {name}: {fields[-1]}")
                skipped += 1
                continue
            compared += 1
            if any(map(is_own_fault, fields)):
                print(f"BROKEN: {name}: {' '.join(fields)}")
                failed += 1
                continue
            pairs = differences(fields, uaio.get(row, []))
            if not pairs:
                continue
            seen.add(row)
            known = row in explained
            failed += not known
            print(f"{'differs on purpose' if known else 'DIFFERS'}: {name}")
            for mine, theirs in pairs:
                print(f"    kernel {mine}    uaio {theirs}")
            if known:
                print(f"    because {explained[row]}")
    # A reason need not hold on every file system.
    for row in explained.keys() - seen if "CONFORM_DIR" not in plain else ():
        print(f"NO LONGER DIFFERS: {row[0]}: {row[1]}: {explained[row]}")
        failed += 1
    if not compared:
        print("no row was compared")
        failed += 1
    print(f"{compared} compared, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
