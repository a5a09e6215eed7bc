# SPDX-License-Identifier: MIT
"""MariaDB in one of the ways of ways.py: a data directory and its server.

InnoDB reads and writes pages by libaio where io_setup succeeds, or by io_uring,
where it is built so; else it says so in its log and uses threads of its own. That
log is looked at in every run.
"""
import os
import pwd
import re
import signal
import subprocess
import time

import ways

START_S = 120
SOCKET = "socket"  # in the data directory: a full path may be too long

OPTIONS = [
    "--no-defaults", "--skip-grant-tables", "--skip-networking",
    "--innodb-use-native-aio=1",
    # Small, so that pages come and go all the time.
    "--innodb-buffer-pool-size=8M", "--innodb-log-file-size=16M",
    f"--socket={SOCKET}", "--pid-file=pid",
]
# Versions that can use io_uring too would; others do not know the option.
AIO_OPTION = "--loose-innodb-linux-aio=aio"
NATIVE = {
    False: re.compile(r"InnoDB: Using (Linux native AIO|libaio)"),
    True: re.compile(r"InnoDB: Using (liburing|io_uring)"),
}
NOT_NATIVE = {
    False: re.compile(r"falling back|liburing|io_uring"),
    True: re.compile(r"falling back|libaio|Linux native AIO"),
}


class Database:
    """A new data directory, and how mariadbd is started on it."""

    def __init__(self, client, flush_method="O_DIRECT"):
        self.client = client
        self.is_uring = isinstance(client, ways.UringClient)
        self.folder = client.path("data")
        os.mkdir(self.folder)
        user = pwd.getpwuid(os.getuid()).pw_name
        chosen = [] if self.is_uring else [AIO_OPTION]
        self.options = [*OPTIONS, *chosen, f"--datadir={self.folder}", f"--user={user}",
                        f"--tmpdir={client.place}",
                        f"--innodb-flush-method={flush_method}"]

    def bootstrap(self, statements):
        """Run statements without a server; each must fit a line."""
        script = self.client.path("script.sql")
        with open(script, "w") as file:
            for statement in statements:
                file.write(f"{' '.join(statement.split())};\n")
        log = self.client.run("mariadbd", *self.options, "--bootstrap",
                              stdin=script)
        demand_native(log, self.is_uring)

    def start(self):
        return Server(self)

    def check_pages(self):
        """Every page of every table has the checksum it should, says a
        program that knows no server."""
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if name.endswith(".ibd"):
                    subprocess.run([ways.find("innochecksum"),
                                    os.path.join(folder, name)], check=True)


def demand_native(log, is_uring):
    if not NATIVE[is_uring].search(log) or NOT_NATIVE[is_uring].search(log):
        raise ways.Failed(f"InnoDB did not use native AIO:\n{log}")


class Server:
    """mariadbd on its socket, from its start to its end of whatever kind."""

    def __init__(self, database):
        self.client, self.folder = database.client, database.folder
        self.log_path = self.client.path("log")
        with open(self.log_path, "w") as log:
            self.child = subprocess.Popen(
                self.client.wrap(ways.find("mariadbd"), *database.options),
                cwd=self.client.place, start_new_session=True,
                env={**os.environ, **self.client.env()},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.client.at_end(self._end)
        self._wait_until_ready()
        demand_native(self.log(), database.is_uring)
        with open(os.path.join(self.folder, "pid")) as file:
            self.pid = int(file.read())

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def _wait_until_ready(self):
        deadline = time.monotonic() + START_S
        while "ready for connections" not in self.log():
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise ways.Failed(f"mariadbd does not start:\n{self.log()}")
            time.sleep(0.05)

    def shell(self, **streams):
        """The command-line client: statements in, rows out as lines."""
        return subprocess.Popen(
            [ways.find("mariadb"), "--no-defaults", f"--socket={SOCKET}",
             "--protocol=socket", "--batch", "--skip-column-names",
             "--unbuffered"], cwd=self.folder, **streams)

    def query(self, statement):
        """Return: its rows, as tuples of text."""
        shell = self.shell(stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
        output, _ = shell.communicate(statement, timeout=START_S)
        if shell.returncode != 0:
            raise ways.Failed(f"{statement}\n{output}\n{self.log()}")
        return [tuple(line.split("\t")) for line in output.splitlines()]

    def check_tables(self, *tables):
        """Not EXTENDED: that warns of rows deleted and not yet purged."""
        for table, _, kind, text in self.query(
                f"CHECK TABLE {', '.join(tables)}"):
            if (kind, text) != ("status", "OK"):
                raise ways.Failed(f"{table}: {kind}: {text}\n{self.log()}")

    def kill(self):
        """Kill the server at any moment, as the out-of-memory killer does."""
        os.kill(self.pid, signal.SIGKILL)
        self.child.wait(START_S)

    def shut_down(self):
        self.query("SHUTDOWN")
        if self.child.wait(START_S) != 0:
            raise ways.Failed(f"mariadbd ends badly:\n{self.log()}")

    def _end(self):
        """End the server in any state, and leave no process behind."""
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
