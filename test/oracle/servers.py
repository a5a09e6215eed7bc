#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""servers.py BUILD KIND WAY SERVER [CONNECTIONS]: a server of io_uring under load.

KIND is echo or http. SERVER is a program, as those of C beside this, or one of
RUNTIMES below. So many connections are open at a time (2000), in rounds. Most
clients ask and are answered, byte by byte what is due; some reset the connection in
between, some say all and that they have before they read, and some do not read for a
while. After each round the server has the descriptors of none of them, and its memory
does not grow. WAY: UringClient in ways.py.
"""
import os
import random
import re
import resource
import select
import socket
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # leave the source tree clean
import ways  # noqa: E402

NR_CONNECTIONS = 2000
NR_ROUNDS = 4
MOST_ROUNDS = 24
DEADLINE = 300  # seconds, of a round
STALLED = 0.5  # seconds that some do not read
PIECE = 16 << 10
# What is buffered for those that do not read. With less TCP may go on by its timers
# alone when they read again.
LITTLE = 16 << 10
# Memory is flat if it grows by at most so much in so many rounds: that much a C library,
# or a pool, may keep. A pool grows whenever more comes at once than ever before, but not
# in every round, as memory does that is lost.
FLAT_ROUNDS = 3
GROWTH_KIB = 16 << 10
NODE_SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "server.mjs")
FEW = 32  # descriptors: what a server, and the library, may have more after a round
AT_ONCE = 1000  # connections on their way: a server's backlog is 4096
EVENTS = select.EPOLLIN | select.EPOLLOUT
NOISE = random.Random(17).randbytes(1 << 20)


class Echo:
    """What an echo client sends, and what it must receive."""

    SIZES = 1, 100, 1500, 5000, 20000
    LARGE = 200_000

    @staticmethod
    def question(rng, size):
        at = rng.randrange(len(NOISE) - size)
        said = NOISE[at:at + size]
        return said, said


class Http:
    SIZES = 0, 1, 100, 5000, 60000
    LARGE = 300_000

    @staticmethod
    def question(_, size):
        body = bytes((size * 7 + i) % 251 for i in range(251))
        return (f"GET /{size} HTTP/1.1\r\nHost: here\r\n\r\n".encode(),
                f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
                + (body * (size // 251 + 1))[:size])


PROTOCOLS = {"echo": Echo, "http": Http}

HABITS = ["asks"] * 7 + ["resets", "stalls", "half-closes"]


class Connection:
    """A client. It sends a question when the previous answer has arrived, or all
    questions at once, and compares the answers."""

    def __init__(self, protocol, rng, address, habits):
        self.habit = rng.choice(habits)
        self.socket = socket.socket(type=socket.SOCK_STREAM)
        self.socket.setblocking(False)
        sizes = rng.choices(protocol.SIZES, k=4)
        if self.habit == "stalls":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LITTLE)
            sizes = [protocol.LARGE]
        self.talk = [protocol.question(rng, size) for size in sizes]
        if self.habit == "half-closes":
            self.talk = [tuple(map(b"".join, zip(*self.talk)))]
        self.to_say = self.due = b""
        self.resumes = None
        self.is_connected = self.has_said_all = False
        self.socket.connect_ex(address)

    def ask(self):
        self.to_say, self.due = map(memoryview, self.talk.pop(0))
        if self.habit == "stalls":
            self.resumes = time.monotonic() + STALLED

    def step(self):
        """Do everything that is possible without waiting. Return: whether the client has
        finished."""
        if not self.is_connected:
            error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise ways.Failed(f"no connection: {os.strerror(error)}")
            self.is_connected = True
            self.ask()
        self.say()
        return self.hear()

    def say(self):
        while self.to_say:
            try:
                nr = self.socket.send(self.to_say[:PIECE])
            except BlockingIOError:
                return
            self.to_say = self.to_say[nr:]
        if self.habit == "half-closes" and not self.has_said_all:
            self.socket.shutdown(socket.SHUT_WR)
        self.has_said_all = True

    def hear(self):
        if self.resumes and time.monotonic() < self.resumes:
            return False
        while True:
            try:
                heard = self.socket.recv(PIECE)
            except BlockingIOError:
                return False
            if not heard:
                if self.habit == "half-closes" and not self.due:
                    return True
                raise ways.Failed(f"a client that {self.habit} misses "
                                  f"{len(self.due)} bytes")
            if heard != self.due[:len(heard)]:
                raise ways.Failed(f"a client that {self.habit} hears what is "
                                  "not due")
            self.due = self.due[len(heard):]
            if self.habit == "resets" and len(self.talk) < 3:
                return True  # the answer is on its way
            if not self.due and self.habit != "half-closes":
                if not self.talk:
                    return True
                self.ask()
                self.say()

    def close(self):
        if self.habit == "resets":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                   struct.pack("ii", 1, 0))
        self.socket.close()


class Load:
    """A round. All connections are made before the first one is closed."""

    def __init__(self, protocol, rng, nr, port, habits):
        self.protocol, self.rng, self.habits = protocol, rng, habits
        self.port, self.to_come = port, nr
        self.epoll = select.epoll()
        self.there, self.over = {}, []
        self.nr_on_their_way = 0
        self.ends = time.monotonic() + DEADLINE

    def begin(self):
        while self.to_come and self.nr_on_their_way < AT_ONCE:
            self.to_come -= 1
            self.nr_on_their_way += 1
            # An address has no more ports than some 28 000.
            address = f"127.0.0.{self.to_come % 50 + 1}", self.port
            new = Connection(self.protocol, self.rng, address, self.habits)
            self.there[new.socket.fileno()] = new
            self.epoll.register(new.socket, EVENTS | select.EPOLLET)

    def step(self, connection):
        was_connected = connection.is_connected
        if connection.step():
            fd = connection.socket.fileno()
            self.epoll.unregister(fd)
            del self.there[fd]
            self.over.append(connection)
        self.nr_on_their_way -= connection.is_connected and not was_connected

    def run(self):
        while self.there or self.to_come:
            self.begin()
            for fd, _ in self.epoll.poll(0.1):
                self.step(self.there[fd])
            for connection in list(self.there.values()):
                if connection.resumes and \
                        connection.resumes < time.monotonic():
                    connection.resumes = None
                    self.step(connection)
            if time.monotonic() > self.ends:
                raise ways.Failed(f"{len(self.there)} clients wait, of them "
                                  f"{[c.habit for c in self.there.values()][:9]}")
        for connection in self.over:
            connection.close()
        self.epoll.close()


def memory_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"RssAnon:\s*(\d+)", status.read())[1])


def name_of(pid):
    """Return: the server's name in the statistics."""
    with open(f"/proc/{pid}/comm") as comm:
        return comm.read().strip()


def descriptors_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def wait_for_descriptors(server, most):
    """Wait until the server has closed its descriptors, some time after its clients."""
    ends = time.monotonic() + DEADLINE
    while descriptors_of(server.pid) > most:
        if time.monotonic() > ends or server.poll() is not None:
            raise ways.Failed("the server keeps descriptors: "
                              f"{descriptors_of(server.pid)}")
        time.sleep(0.01)


# Requests of a connection, at least: it is accepted, and its bytes come and go. Node uses
# epoll for these, and tells it of each connection by a request.
REQUESTS, REQUESTS_OF = 3, {"node": 1}


def is_flat(memory):
    """Return: whether the last rounds added no more memory than allowed."""
    if len(memory) < NR_ROUNDS:
        return False
    first, *others = memory[-FLAT_ROUNDS:]
    return max(others) <= first + GROWTH_KIB


def load(server, protocol, port, nr, habits):
    """Return: how many rounds there were."""
    rng = random.Random(nr)
    memory = []
    descriptors = descriptors_of(server.pid)
    while not is_flat(memory):
        if len(memory) == MOST_ROUNDS:
            raise ways.Failed(f"the server's memory grows: {memory} KiB")
        start = time.monotonic()
        Load(protocol, rng, nr, port, habits).run()
        wait_for_descriptors(server, descriptors + FEW)
        memory.append(memory_of(server.pid))
        print(f"{nr} connections: {time.monotonic() - start:.1f} s, then "
              f"{descriptors_of(server.pid)} descriptors, {memory[-1]} KiB",
              flush=True)
    return len(memory)


def raise_limit(nr):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = nr + 1000
    if os.geteuid() == 0:
        most = max(most, wanted)
    if wanted > most:
        raise ways.Missing(f"a limit of {wanted} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def on_crate(name, program):
    def command(client, kind):
        folder = client.fetched("crate", name)
        return [os.path.join(folder, program), kind]
    return command


# Memory that does not depend on when it is collected and compiled; nothing in /tmp, where
# machines in other process namespaces meet, and only the port on the standard output.
JAVA_OPTIONS = ["-Xms128m", "-Xmx128m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xlog:disable",
                "-XX:MaxDirectMemorySize=1g"]  # what thousands that stall are due


def netty(client, kind):
    folder = client.fetched("netty")
    return [ways.find("java"), *JAVA_OPTIONS, f"-Djava.io.tmpdir={client.place}",
            "-cp", f"{folder}/*:{folder}", "Server", kind]


# As little as may be that is there until somebody collects it.
NODE_OPTIONS = ["--max-semi-space-size=1", "--max-old-space-size=256"]


def node(client, kind):
    return ["env", "UV_USE_IO_URING=1", client.in_venv(ways.NODE), *NODE_OPTIONS,
            NODE_SERVER, kind, client.place]


RUNTIMES = {
    "netty": netty,
    "node": node,
    "tokio-uring": on_crate("tokio-uring", "tokio-server"),
}


def serve(kind):
    def run(client, server, nr=str(NR_CONNECTIONS)):
        nr = int(os.path.basename(nr))  # ways.main() takes it for a path
        raise_limit(nr)
        name = os.path.basename(server)
        command = RUNTIMES[name](client, kind) if name in RUNTIMES else [server]
        server = subprocess.Popen(
            client.wrap(*command), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, cwd=client.place,
            env={**os.environ, **client.env()})
        client.at_end(server.kill)
        port = server.stdout.readline()
        if not port:
            raise ways.Failed(f"the server exits with {server.wait()}")
        comm = name_of(server.pid)
        # On the kernel's io_uring and a busy machine, Netty leaves 1 to 4 of 10 000
        # connections open that their clients have half closed.
        habits = HABITS[:-1] if (name, client.way) == ("netty", "kernel") else HABITS
        try:
            nr_rounds = load(server, PROTOCOLS[kind], int(port), nr, habits)
        except (OSError, ways.Failed) as why:
            raise ways.Failed(f"{why}; the server: {server.poll()}") from None
        server.stdin.close()
        if server.wait(DEADLINE) != 0:
            raise ways.Failed(f"the server exits with {server.returncode}")
        client.prove(comm, REQUESTS_OF.get(name, REQUESTS) * nr * nr_rounds)
    return run


if __name__ == "__main__":
    sys.exit(ways.main(__doc__, {kind: serve(kind) for kind in PROTOCOLS},
                       ways.UringClient))
