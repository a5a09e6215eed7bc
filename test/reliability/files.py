#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""files.py BUILD [--seed S] [--seconds N] [--kernel] [--on PLACE] [--options WORDS]

Runs the program `files` of the build on file systems that the script makes, one after
another, in the order and with the options of `uaio run` that the seed says. The run is
divided into turns of some seconds, at least two; each turn has a new file system. With
--kernel the kernel serves the program, which proves that the program demands no more
than Linux promises. With --on all turns are on one place.
"""
import argparse
import os
import random
import re
import shlex
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # leave the source tree clean
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "oracle"))
import sandbox  # noqa: E402

TURN_S = 12
GRACE_S = 240
"""The program ends itself long before, if a request does not end."""
UNMOUNT_S = 60
DISK_BYTES = 320 << 20  # the least that mkfs.xfs takes, and some

# file system, options of mkfs, options of mount
DISKS = {
    "ext4": ("ext4", [], ""),
    "ext4-bigalloc": ("ext4", ["-O", "bigalloc", "-C", "16384"], ""),
    "ext4-no-journal": ("ext4", ["-O", "^has_journal"], ""),
    "ext4-data-journal": ("ext4", [], "data=journal"),
    "ext4-1k": ("ext4", ["-b", "1024"], ""),
    "xfs": ("xfs", [], ""),
    "btrfs-compress": ("btrfs", [], "compress-force=lzo"),
    "btrfs-nodatacow": ("btrfs", [], "nodatacow"),
}
# The program mounts these itself.
FUSE = {"fuse": "plain", "fuse-cached": "cached", "fuse-async": "async"}
PLACES = [*DISKS, *FUSE, "overlay", "tmpfs"]
# XFS locks the inode, and the server of FUSE executes one call at a time.
KEEP_APART = ["xfs", "fuse", "fuse-async"]

# What decides by whom requests are executed, and in which order.
OPTIONS = ["", "--force-worker", "--never-block", "--backend=threads", "--backend=aio",
           "--backend=io_uring", "--force-worker --workers=1", "--force-worker --backend=threads"]

COUNTED = re.compile(r"^(\d+) processes .*\ncounted (\d+) cells: 0 lost$", re.M)


class Failed(Exception):
    pass


def make_place(box, place):
    """A folder of an empty file system."""
    if not box.is_private:
        return box.folder(place)
    if place == "overlay":
        path = box.overlay(place, DISK_BYTES)
        if not path:
            raise Failed("overlayfs cannot be mounted")
        return path
    if place not in DISKS:
        return box.tmpfs(place)
    fs, make, options = DISKS[place]
    return box.new_fs(fs, place, DISK_BYTES, make=make, options=options)


def unmount(path):
    """Unmount. A process or request that still uses the file system counts as left
    behind."""
    end = time.monotonic() + UNMOUNT_S
    while True:
        done = subprocess.run(["umount", path], stderr=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode == 0:
            return
        if time.monotonic() > end:
            raise Failed(f"something is left in use: {done.stderr.strip()}")
        time.sleep(0.05)


def what_failed(output):
    """What the program has said about that, or None."""
    found = re.search(r"^failed: (.*)$", output, re.M)
    return found and found[1]


def turn(box, args, place, options, seed, seconds):
    """Return: how many processes ended with writes in flight, and how many cells were
    checked."""
    path = make_place(box, place)
    command = [os.path.join(box.build, "test", "reliability", "files"),
               "--seed", str(seed), "--seconds", f"{seconds:.2f}"]
    if place in FUSE:
        command += ["--fuse", FUSE[place]]
    if place in KEEP_APART:
        command += ["--keeps-apart"]
    if not args.kernel:
        command = box.uaio(*command, options=["--uring=always", *options.split()])
    status, output = sandbox.run(command, seconds + GRACE_S, cwd=path)
    counted = COUNTED.search(output)
    if status != 0 or not counted:
        raise Failed(what_failed(output) or f"status {status} after {output!r}"[-2000:])
    if box.is_private:
        unmount(path)
        if place == "overlay":
            unmount(path + "-layers")
    return int(counted[1]), int(counted[2])


def draw_turns(chance, args, is_private):
    """Draw each place once before any place comes again."""
    places = [args.on] if args.on else PLACES[:] if is_private else ["folder"]
    while True:
        chance.shuffle(places)
        for place in places:
            options = chance.choice(OPTIONS)
            if args.options is not None or args.kernel:
                options = args.options or ""
            yield place, options


def replay(args, place, options, seed, seconds):
    words = ["python3", "-B", os.path.relpath(__file__), args.build, "--on", place,
             "--seed", str(seed), "--seconds", str(round(2 * seconds + 1))]
    words += ["--kernel"] if args.kernel else [f"--options={options}"]
    return shlex.join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--kernel", action="store_true")
    parser.add_argument("--on", choices=[*PLACES, "folder"])
    parser.add_argument("--options")
    args = parser.parse_args()
    box = sandbox.Sandbox(args.build)
    box.images = box.dir  # in memory
    begun = time.monotonic()
    seed = time.time_ns() if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    nr_turns = max(2, round(args.seconds / TURN_S))
    turns = draw_turns(random.Random(seed), args, box.is_private)
    nr_checked = 0
    for index in range(nr_turns):
        place, options = next(turns)
        left = args.seconds - (time.monotonic() - begun)
        seconds = max(0.5, left / (nr_turns - index) - 0.35)
        try:
            nr_left, nr = turn(box, args, place, options, seed + index, seconds)
        except (Failed, OSError, subprocess.CalledProcessError) as why:
            print(f"failed: on {place} {options}: {why}".replace(" :", ":"),
                  file=sys.stderr)
            print("replay:", replay(args, place, options, seed + index, seconds),
                  file=sys.stderr)
            return 1
        print(f"{place} {options}: {nr} cells, {nr_left} processes ended".replace(" :", ":"),
              flush=True)
        nr_checked += nr
    print(f"counted {nr_checked} cells: 0 lost")
    return 0 if nr_checked else 1


if __name__ == "__main__":
    sys.exit(main())
