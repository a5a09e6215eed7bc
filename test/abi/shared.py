# SPDX-License-Identifier: MIT
"""What the cases of this folder share. A case gets the arguments: the library, the
golden list of its symbols, and programs to run.
"""
import glob
import os
import re
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helpers"))
import cases  # noqa: E402
from cases import Skip, case, environment, expect  # noqa: E402, F401

TIMEOUT_S = 60


def run(*command, env=None, status=0):
    """Returns what a command prints; its exit status must be the one given."""
    done = subprocess.run(command, env=env or environment(), text=True,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=TIMEOUT_S)
    if done.returncode != status:
        raise AssertionError(f"{command}: status {done.returncode}\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout


def parts_of_libc():
    """The libraries that glibc has beside libc.so.6. Before 2.34, that of threads was one
    of these."""
    version = os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")
    return [] if tuple(map(int, version)) >= (2, 34) else [
        "libdl.so.2", "libpthread.so.0", "librt.so.1"]


def debian_libaio():
    """The libaio of this machine, by its path."""
    for path in sorted(glob.glob("/usr/lib/*/libaio.so.1*")
                       + glob.glob("/usr/lib*/libaio.so.1*")):
        if "uaio" not in os.path.realpath(path):
            return path
    raise Skip("no libaio.so.1 on this machine: apt-get install libaio1")


def exported(path):
    """The dynamic symbols that a library defines, each with its version."""
    names = []
    for line in run("readelf", "-W", "--dyn-syms", path).splitlines():
        fields = line.split()
        if re.match(r"\d+:", line.strip()) and len(fields) >= 8 \
                and fields[6] != "UND":
            names.append(fields[7])
    return sorted(names)


def main():
    cases.main(("library", "uaio", "golden", "census", "elsewhere", "links"))
