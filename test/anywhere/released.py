# SPDX-License-Identifier: MIT
"""The files that `make dist` makes, for tests: once for all of them, and again only if
git has another working tree.
"""
import fcntl
import glob
import os
import subprocess


def _state(source):
    """What git has of the working tree, as a text."""
    def git(*command):
        return subprocess.run(
            ["git", "-C", source, *command], check=True,
            stdout=subprocess.PIPE, text=True).stdout.strip()

    commit = git("stash", "create") or git("rev-parse", "HEAD")
    return (git("rev-parse", commit + "^{tree}") + " " +
            git("rev-parse", "HEAD"))


def release(build, source):
    """The folder of a release of the working tree."""
    folder = os.path.join(os.path.abspath(build), "anywhere", "release")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        now = _state(source)
        made = os.path.join(folder, "made")
        if not os.path.exists(made) or open(made).read() != now:
            subprocess.run(
                [os.path.join(source, "tools", "dist"), "--working-tree",
                 folder], check=True, stdout=subprocess.DEVNULL)
            with open(made, "w") as file:
                file.write(now)
    return os.path.join(folder, "dist")


def find(folder, pattern):
    found = glob.glob(os.path.join(folder, pattern))
    assert len(found) == 1, f"{pattern}: {found}"
    return found[0]


def unpack(path, to):
    """As `tar --strip-components=1` does."""
    os.makedirs(to, exist_ok=True)
    subprocess.run(["tar", "-C", to, "--strip-components=1", "-xf", path],
                   check=True)
