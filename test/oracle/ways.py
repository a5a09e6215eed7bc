# SPDX-License-Identifier: MIT
"""The ways to run a program, and the proof that it ran in one.

    kernel    on the kernel's AIO
    uaio      under `uaio run`
    denied    under `uaio run`, with the kernel's AIO answered ENOSYS

A program that finds no AIO may well do its work without, so that it succeeds
says nothing of where its requests ran. The library's own statistics do:
Client.prove() is the one place that knows how they are had.
"""
import atexit
import os
import shutil
import subprocess
import sys

import sandbox

class Failed(Exception):
    """A program did something else than it should; the text says what."""


class Missing(Exception):
    """A program that is not installed."""


def find(program):
    """The path of a program, also where only root's PATH leads."""
    path = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")
    if not path:
        raise Missing(program)
    return os.path.abspath(path)


class Client:
    """Runs programs in one of the ways, in a folder on a disk."""

    WAYS = ("kernel", "uaio", "denied")
    WITHOUT = "kernel"  # the way in which there is no uaio

    def __init__(self, build, way, size=512 << 20):
        self.box = sandbox.Sandbox(build)
        self.way = way
        self.place = self.box.ext4("place", size) if self.box.is_private \
            else self.box.folder("place")
        self.stats = os.path.join(self.box.dir, "stats")

    @staticmethod
    def at_end(undo):
        """Call it when this process ends, by SIGTERM too."""
        atexit.register(undo)

    def path(self, name):
        return os.path.join(self.place, name)

    def fetched(self, name):
        """The folder of a client that the distribution has not."""
        try:
            return self.box.fetch(name)
        except subprocess.CalledProcessError:
            raise Failed(f"tools/fetch-{name} failed: above it says why") from None

    def wrap(self, *command):
        return {"kernel": lambda *plain: list(plain), "uaio": self.box.uaio,
                "denied": self.box.uaio_only}[self.way](*command)

    def env(self):
        return {"UAIO_STATS_JSON": self.stats, "LC_ALL": "C"}

    def run(self, *command, deadline=120, stdin=None):
        """Run it in this way to its end, which must be a success.

        Return: what it printed.
        """
        status, output = sandbox.run(
            self.wrap(find(command[0]), *command[1:]), deadline,
            cwd=self.place, env=self.env(), stdin=stdin)
        if status != 0:
            ending = "hangs" if status is None else f"exits with {status}"
            raise Failed(f"{' '.join(command)}\n{ending}:\n{output[-3000:]}")
        return output

    def prove(self, name, at_least, parked=0, count="completed"):
        """Demand that the processes of that name which have ended since the
        last proof had so many requests on uaio, and so many of them parked;
        none at all without uaio."""
        counted = [line for line in self._reports() if line["comm"] == name]
        requests = sum(line[count] for line in counted)
        if self.way == self.WITHOUT:
            if counted:
                raise Failed(f"{name} ran on uaio")
            return
        if requests < at_least:
            raise Failed(f"{name}: {requests} requests ran on uaio, "
                         f"not {at_least} or more")
        waited = sum(ways["parked"] for line in counted
                     for ways in line["requests"].values())
        if waited < parked:
            raise Failed(f"{name}: {waited} requests were parked on uaio, "
                         f"not {parked} or more")
        print(f"{name}: {requests} requests on uaio", flush=True)

    def _reports(self):
        found = self.box.reports(self.stats)
        for line in found:
            by_way = sum(sum(ways.values())
                         for ways in line["requests"].values())
            if not line["completed"] <= line["accepted"] == by_way:
                raise Failed(f"statistics that do not add up: {line}")
        return found


class UringClient(Client):
    """Programs of io_uring: on the kernel's, or on uaio where that is refused, by
    a container engine's default filter, an error, or a filter that kills. So there
    is no way but through uaio."""

    WAYS = ("kernel", "CONTAINER", "EPERM", "ENOSYS", "KILL")

    def wrap(self, *command):
        if self.way == "kernel":
            return list(command)
        return self.box.deny_uring(self.way, *self.box.uaio(*command))


class PosixClient(Client):
    """Programs of POSIX AIO: on the C library's, on uaio, and on uaio under a
    container engine's default filter."""

    WAYS = ("glibc", "uaio", "CONTAINER")
    WITHOUT = "glibc"

    def wrap(self, *command):
        if self.way == "glibc":
            return list(command)
        if self.way == "uaio":
            return self.box.uaio(*command)
        return self.box.deny_uring(self.way, *self.box.uaio(*command))


class NativeClient(Client):
    """Programs on uaio with the kernel's AIO behind it: as it is, and under a
    container engine's default filter, which refuses io_uring and not AIO."""

    WAYS = ("aio", "CONTAINER")
    WITHOUT = None

    def wrap(self, *command):
        command = self.box.uaio(
            *command, options=["--backend=aio", "--uring=always"])
        return command if self.way == "aio" else \
            self.box.deny_uring(self.way, *command)

    def prove(self, name, at_least, share):
        """Demand so many requests, and that the kernel executed this share."""
        counted = [line for line in self._reports() if line["comm"] == name]
        requests = sum(line["completed"] for line in counted)
        native = sum(line["direct"]["kernel_aio"] for line in counted)
        if requests < at_least:
            raise Failed(f"{name}: {requests} requests ran on uaio, "
                         f"not {at_least} or more")
        if self.box.has_kernel_aio() and native < requests * share:
            raise Failed(f"{name}: the kernel executed {native} of {requests}")
        print(f"{name}: {requests} requests, {native} by the kernel", flush=True)


def main(usage, scenarios, kind=Client):
    """PROGRAM BUILD SCENARIO WAY: run scenarios[SCENARIO](client)."""
    try:
        build, scenario, way, *arguments = sys.argv[1:]
        run = scenarios[scenario]
        kind.WAYS.index(way)
    except (ValueError, KeyError):
        print(usage, file=sys.stderr)
        return 2
    try:
        # Programs run in another folder than this one.
        arguments = [os.path.abspath(each) for each in arguments]
        run(kind(build, way), *arguments)
    except Failed as why:
        print(why, flush=True)
        return 1
    except Missing as program:
        print(f"{program} is not installed")
        return sandbox.SKIP
    return 0
