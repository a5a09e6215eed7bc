# SPDX-License-Identifier: MIT
"""The Debian packages of the tree as it is, built once for all tests of them."""
import fcntl
import glob
import hashlib
import os
import shutil
import subprocess

from harness import Skip, expect


def files_of(source):
    """What the packages are made of, committed or not."""
    listed = subprocess.run(
        ["git", "-C", source, "-c", "safe.directory=*", "ls-files", "-z",
         "--cached", "--others", "--exclude-standard", "--", ":/",
         ":!/test", ":!/bench", ":!/.ci"],
        check=True, capture_output=True).stdout.decode()
    return [name for name in sorted(listed.split("\0"))
            if name and os.path.exists(os.path.join(source, name))]


def digest_of(source, names):
    digest = hashlib.sha256()
    for name in names:
        digest.update(name.encode() + b"\0")
        with open(os.path.join(source, name), "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def copy(source, names, place):
    shutil.rmtree(place, ignore_errors=True)
    for name in names:
        path = os.path.join(place, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy2(os.path.join(source, name), path)


def build(place, log):
    # What it is built with is installed: the network is not asked.
    alone = ["unshare", "--net"] if os.geteuid() == 0 else []
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("DEB_", "MAKE", "UAIO_", "LD_", "MALLOC_"))}
    with open(log, "w") as said:
        status = subprocess.run(
            [*alone, "dpkg-buildpackage", "-us", "-uc", "-b"], cwd=place,
            env={**env, "DEB_BUILD_OPTIONS": "noautodbgsym"},
            stdin=subprocess.DEVNULL, stdout=said, stderr=said).returncode
    if status:
        with open(log) as said:
            raise AssertionError("dpkg-buildpackage:\n"
                                 + "".join(said.readlines()[-30:]))


def debs(tool):
    """Return: the folder with the packages."""
    if not shutil.which("dpkg-buildpackage") or not shutil.which("dh"):
        raise Skip("debhelper is not installed")
    place = os.path.join(tool.args.build, "debian")
    os.makedirs(place, exist_ok=True)
    names = files_of(tool.args.source)
    digest = digest_of(tool.args.source, names)
    stamp = os.path.join(place, "built")
    # Another test may be building it.
    with open(os.path.join(place, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(stamp):
            with open(stamp) as file:
                for_digest, status = file.read().split()
            if for_digest == digest:
                expect(status, "built", f"the last try, see {place}/log")
                return place
            os.unlink(stamp)
        for old in glob.glob(os.path.join(place, "*_*")):
            os.unlink(old)
        copy(tool.args.source, names, os.path.join(place, "source"))
        status = "failed"
        try:
            build(os.path.join(place, "source"), os.path.join(place, "log"))
            status = "built"
        finally:
            shutil.rmtree(os.path.join(place, "source"))
            with open(stamp, "w") as file:
                file.write(f"{digest} {status}")
    return place
