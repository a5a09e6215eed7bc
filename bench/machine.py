# SPDX-License-Identifier: MIT
"""Where everything is, and what machine it is measured on."""
from __future__ import annotations

import datetime
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


# --- where everything is ----------------------------------------------------


@dataclass(frozen=True)
class Places:
    """The command, programs and libraries of this directory, in a build tree or where
    they are installed."""

    uaio: Path
    helpers: Path

    @classmethod
    def of_build(cls, build: Path) -> Places:
        return cls(build / "uaio", build / "bench")


# --- the machine ------------------------------------------------------------


def file_system_of(path: Path) -> str:
    """The type of the file system a path is on, as its mount table says."""
    best, kind = "", "unknown"
    where = str(path.resolve())
    try:
        mounts = Path("/proc/self/mounts").read_text()
    except OSError:
        return kind
    for line in mounts.splitlines():
        _, mount, this_kind = line.split()[:3]
        mount = mount.replace("\\040", " ")
        inside = where == mount or where.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, this_kind
    return kind


def first_line(argv: list[str]) -> str:
    """Return: the first line that a command prints; "" if it cannot be run."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.partition("\n")[0].strip()


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return os.uname().machine


def _package(name: str) -> str:
    """Return: the version of a Debian package; "" if it is not installed."""
    return first_line(["dpkg-query", "-W", "-f=${Version}\n", name])


def machine_facts() -> dict:
    """The facts about the machine that each row records."""
    here = str(Path(__file__).resolve().parent)
    return {
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": os.uname().release,
        "fio": first_line(["fio", "--version"]).removeprefix("fio-"),
        "libaio": _package("libaio1*"),
        "liburing": _package("liburing2"),
        "commit": first_line(["git", "-C", here, "describe", "--always",
                              "--dirty", "--abbrev=12", "--exclude=*"]),
        "date": datetime.datetime.now(datetime.timezone.utc)
                .isoformat(timespec="seconds"),
        "load": os.getloadavg()[0],
    }
