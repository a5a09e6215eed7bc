# SPDX-License-Identifier: MIT
"""The files of a release for tests, which `make dist` makes: once for all of them, and
again only if git has another working tree.
"""
import fcntl
import glob
import os
import shutil
import subprocess


def _git(source, *command, **options):
    return subprocess.run(["git", "-C", source, *command], check=True,
                          stdout=subprocess.PIPE, text=True, **options).stdout.strip()


def _changes(source, folder):
    """A commit of what was changed, or nothing. Its index is a copy: any other command of
    git may have locked the index."""
    index = os.path.join(folder, "index")
    shutil.copyfile(os.path.join(
        source, _git(source, "rev-parse", "--git-path", "index")), index)
    return _git(source, "stash", "create", env={**os.environ, "GIT_INDEX_FILE": index})


def make_dist(source, folder, revision):
    """Type `make dist`. Without a revision it takes the newest commit."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("MAKE")}
    subprocess.run(
        ["make", "-C", source, "dist", "BUILD=" + folder,
         *(["REVISION=" + revision] if revision else [])],
        check=True, stdout=subprocess.DEVNULL, env=env)


def _folder(build):
    return os.path.join(os.path.abspath(build), "anywhere", "release")


def _read(path):
    """The trees of the release and of the newest commit, and the revision."""
    try:
        with open(path) as file:
            return file.read().split("\n")
    except FileNotFoundError:
        return [None] * 3


def revision(build):
    """What the release was made of: a commit of what was changed, or nothing."""
    return _read(os.path.join(_folder(build), "made"))[2]


def release(build, source):
    """The folder of a release of the working tree."""
    folder = _folder(build)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        changed = _changes(source, folder)
        now = [_git(source, "rev-parse", (changed or "HEAD") + "^{tree}"),
               _git(source, "rev-parse", "HEAD")]
        made = os.path.join(folder, "made")
        if _read(made)[:2] != now:
            make_dist(source, folder, changed)
            with open(made, "w") as file:
                file.write("\n".join([*now, changed]))
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
