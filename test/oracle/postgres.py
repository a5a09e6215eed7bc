#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""postgres.py BUILD SCENARIO: PostgreSQL 18 with a ring of io_uring for each connection.

Its postmaster makes all rings, and its processes use them. The kernel charges each to
RLIMIT_MEMLOCK, so PostgreSQL does not start with 1 000 connections, as a user who is not
root, under a limit that is common. SCENARIO:

    refused     without the library: PostgreSQL says why it does not start
    usual       under 8 MiB, most rings are the kernel's and the rest the library's
    small       under 256 KiB, nearly all are the library's
    checked     with a tenth of the connections, all are the library's; for checked.py

What is in the tables is known by sums. PostgreSQL is of a newer Debian, in a root of
its own (tools/fetch-postgresql), and has a mount and process namespace of its own.
"""
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # leave the source tree clean
import sandbox  # noqa: E402

KIB = 1 << 10
LIMITS = {"refused": 8192 * KIB, "usual": 8192 * KIB, "small": 256 * KIB,
          "checked": 256 * KIB}
BIN = "/usr/lib/postgresql/18/bin/"
FOLDER = "/srv"
LIBRARY = "libuaio.so.0"
CHECK = "libuaio-check.so"  # it is loaded before the other, as `uaio check` does
REPORTS = f"{FOLDER}/reports"
DEADLINE = 300
SCENARIO = sys.argv[2] if len(sys.argv) > 2 else None
CONNECTIONS = 100 if SCENARIO == "checked" else 1000
CLIENTS = CONNECTIONS * 95 // 100  # a few are reserved
# A transaction fails if all buffers are pinned: each may have an index, a table, its
# map and another version of its row pinned at once.
PINNED_MAX = 8 * CONNECTIONS
FILES_MIN = 3 * CONNECTIONS  # each process has a descriptor for each ring
SCALE = 8  # 100 MiB, more than shared_buffers
ROWS = SCALE * 100_000
REFUSED = "could not setup io_uring queue: Cannot allocate memory"
CONFIGURATION = f"""
io_method = io_uring
max_connections = {CONNECTIONS}
listen_addresses = ''
unix_socket_directories = '{FOLDER}'
shared_buffers = {PINNED_MAX * 8}kB
dynamic_shared_memory_type = mmap
fsync = off
autovacuum = off
"""


class Failed(Exception):
    pass


def users_end():
    """Let the user ids of this namespace end below that one."""
    with open("/proc/self/uid_map") as rows:
        ends = [int(first) + int(nr) for first, _, nr in map(str.split, rows)]
    return min(max(ends), 1 << 31)


class Server:
    """The root, as seen by a user of its own."""

    def __init__(self, box, limit):
        self.root = box.fetch("postgresql")
        self.limit = limit
        # Nobody else's rings are charged to that user, nor another run's.
        self.user = random.randrange(20_000, users_end())
        self.log = os.path.join(box.dir, "log")
        work = box.folder("work")
        for folder in "/proc", "/dev":
            self.bind(folder, folder)
        self.bind(work, FOLDER)
        for library in (LIBRARY, CHECK):
            shutil.copy(os.path.join(box.build, library), work)
        if SCENARIO == "checked":
            box.folder("work/reports")
            self.bind(os.environ["UAIO_CHECK"], REPORTS)
        passwd = os.path.join(box.dir, "passwd")
        with open(passwd, "w") as file:
            file.write(f"postgres:x:{self.user}:{self.user}::{FOLDER}:/bin/sh\n")
        self.bind(passwd, "/etc/passwd")
        os.chown(work, self.user, self.user)
        for path in box.dir, passwd, *(os.path.join(work, each) for each in (LIBRARY, CHECK)):
            os.chmod(path, 0o755)
        self.data = os.path.join(work, "data")
        self.child = None

    def bind(self, source, target):
        subprocess.run(["mount", "--bind", source, self.root + target],
                       check=True)

    def become_user(self):
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (self.limit, self.limit))
        os.chroot(self.root)
        os.chdir(FOLDER)
        os.setgroups([])
        os.setresgid(self.user, self.user, self.user)
        os.setresuid(self.user, self.user, self.user)

    def popen(self, program, *arguments, env=None, **options):
        return subprocess.Popen(
            [BIN + program, *arguments], env={"PATH": "/usr/bin", **(env or {})},
            stdin=subprocess.DEVNULL,
            preexec_fn=self.become_user, **options)

    def run(self, program, *arguments):
        child = self.popen(program, *arguments, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = child.communicate(timeout=DEADLINE)[0]
        if child.returncode:
            raise Failed(f"{program}: status {child.returncode}\n"
                         f"{output[-3000:]}\n{self.said()[-3000:]}")
        return output

    def initialize(self):
        self.run("initdb", "-D", f"{FOLDER}/data", "--auth=trust", "--no-sync",
                 "--locale=C", "--username=postgres")
        with open(os.path.join(self.data, "postgresql.conf"), "a") as file:
            file.write(CONFIGURATION)

    def start(self, env=None):
        """Return: whether it is ready for clients; if not, it has ended."""
        with open(self.log, "w") as log:
            self.child = self.popen("postgres", "-D", f"{FOLDER}/data", env=env,
                                    stdout=log, stderr=log)
        until = time.monotonic() + DEADLINE
        while "ready to accept connections" not in self.said():
            if self.child.poll() is not None:
                return False
            if time.monotonic() > until:
                raise Failed(f"it does not start:\n{self.said()}")
            time.sleep(0.1)
        return True

    def stop(self):
        self.child.send_signal(signal.SIGINT)
        if self.child.wait(DEADLINE):
            raise Failed(self.said()[-3000:])

    def said(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def query(self, query):
        return self.run("psql", "-h", FOLDER, "-X", "-A", "-t", "-c", query,
                        "postgres").strip()

    def bench(self, *arguments):
        return self.run("pgbench", "-h", FOLDER, *arguments, "postgres")


def expect(wanted, actual, what):
    if wanted != actual:
        raise Failed(f"{what}: {actual}, and not {wanted}")


def use(server):
    """Read and write rows by nearly as many connections as there may be."""
    server.bench("-i", "-q", "-s", str(SCALE))
    for kind, clients, transactions in ("-S", CLIENTS, 4), ("-N", CLIENTS, 2):
        output = server.bench("-n", kind, "-c", str(clients), "-j", "2",
                              "-t", str(transactions))
        nr = clients * transactions
        if f"actually processed: {nr}/{nr}" not in output:
            raise Failed(output)
    # The table does not fit into the server's memory: it is read by requests.
    expect(f"{ROWS}|{ROWS * (ROWS + 1) // 2}",
           server.query("select count(*), sum(aid) from pgbench_accounts"),
           "rows and the sum of their numbers")
    expect("t", server.query(
        "select (select sum(abalance) from pgbench_accounts) = "
        "(select sum(delta) from pgbench_history)"), "the sums agree")
    expect(str(CLIENTS * 2),
           server.query("select count(*) from pgbench_history"), "transactions")


def check_report(server, is_small):
    """The postmaster has made all rings, and no other process reports any."""
    found = re.findall(r"  rings: (\d+) by the kernel, (\d+) by uaio: "
                       "RLIMIT_MEMLOCK", server.said())
    if len(found) != 1:
        raise Failed(f"{len(found)} reports of rings in:\n"
                     f"{server.said()[-5000:]}")
    kernels, ours = (int(number) for number in found[0])
    reads = sum(int(number) for number in
                re.findall(r"^  pread +(\d+)", server.said(), re.M))
    print(f"{kernels} rings by the kernel, {ours} by uaio; {reads} reads")
    if kernels + ours < CONNECTIONS or not ours:
        raise Failed("not all rings were made")
    if is_small and (kernels > 100 or reads < 100):
        raise Failed("the library has made too little")


def why_not():
    """Return: why it cannot be tried on this machine; or None."""
    version = tuple(int(part) for part in
                    re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
    if os.geteuid() != 0:
        return "chroot needs root"
    if (5, 12) <= version < (6, 14):
        return "this kernel does not charge rings to RLIMIT_MEMLOCK"
    if not sandbox.Sandbox.has_kernel_uring():
        return "the kernel has no io_uring for this process"
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < FILES_MIN:
        return "too few descriptors may be open"
    return None


def main():
    why = why_not()
    if why:
        print(why)
        return sandbox.SKIP
    box = sandbox.Sandbox(sys.argv[1])
    scenario = sys.argv[2]
    server = Server(box, LIMITS[scenario])
    server.initialize()
    if scenario == "refused":
        if server.start() or REFUSED not in server.said():
            raise Failed(server.said())
        return 0
    env = {"LD_PRELOAD": f"{FOLDER}/{LIBRARY}", "UAIO_STATS": "1"}
    if scenario == "checked":
        env = {"LD_PRELOAD": f"{FOLDER}/{CHECK}:{FOLDER}/{LIBRARY}", "UAIO_STATS": "1",
               "UAIO_CHECK": REPORTS, "UAIO_URING": "always"}
    if not server.start(env):
        raise Failed(server.said())
    use(server)
    server.stop()
    if scenario != "checked":
        check_report(server, scenario == "small")
    return 0


if __name__ == "__main__":
    sys.exit(main())
