# SPDX-License-Identifier: MIT
"""A copy of the tree in which faults are made, and programs run in it."""
import ctypes
import fcntl
import filecmp
import os
import shutil
import signal
import subprocess
import sys

import mutants
from tree import Tree

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


class Trouble(Exception):
    """Why a fault cannot be said to be found; what to do about it."""


class Copy:
    def __init__(self, root):
        self.root = root
        self.faulty = {}  # texts as they were, by path

    def full(self, path):
        return os.path.join(self.root, path)

    def sync(self, tree):
        """Become the tree; what is the same already is left alone."""
        paths = set(tree.paths())
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.root) not in paths:
                    os.unlink(path)
        for path in paths:
            to = self.full(path)
            if os.path.exists(to) and filecmp.cmp(tree.full(path), to, False):
                continue
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(tree.full(path), to)

    def apply(self, mutant):
        places, wrong = mutants.Sources(Tree(self.root)).places(mutant)
        if wrong:
            raise Trouble(f"does not apply: {wrong[0][1]}")
        for at, new in places:
            with open(self.full(at.path), encoding="utf-8") as file:
                text = file.read()
            self.faulty.setdefault(at.path, text)
            self.write(at.path, text[:at.start] + new + text[at.end:])

    def revert(self):
        while self.faulty:
            self.write(*self.faulty.popitem())

    def write(self, path, text):
        with open(self.full(path), "w", encoding="utf-8") as file:
            file.write(text)


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def kill_orphans():
    """Kill the children that the kernel gave to us when their own parents ended."""
    children = f"/proc/self/task/{os.getpid()}/children"
    while True:
        with open(children, encoding="ascii") as file:
            for pid in map(int, file.read().split()):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def call(*args, cwd=None):
    """Run a program that ends when we do. Returns its status and output.

    meson test stops a test by SIGTERM. A test with a fault may block this signal and
    outlive meson test, so what is left then is killed here."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    with subprocess.Popen(args, cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          errors="replace", preexec_fn=die_with_parent
                          ) as child:
        try:
            output = child.communicate()[0]
        except BaseException:
            child.terminate()  # meson test ends its tests, too
            child.wait()
            raise
    kill_orphans()
    return child.returncode, output


def lock(folder, program):
    """One at a time works in a folder, until it ends."""
    os.makedirs(folder, exist_ok=True)
    try:
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"{program}: another one is at work in {folder}")


def end_in_order():
    """Signals raise an exception, which stops what is running."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
