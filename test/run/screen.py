# SPDX-License-Identifier: MIT
"""uaio top on a terminal."""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios

from harness import Skip, expect

DEADLINE_S = 300  # only for what hangs


class Screen:
    """uaio top on a terminal of its own. It is killed at the end of the block."""

    def __init__(self, tool, *arguments, rows=24, columns=80, uaio=None):
        if not uaio and not os.path.exists(
                os.path.join(tool.lib_dir, "uaio-top")):
            raise Skip("it is built without ncurses")
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self.process = subprocess.Popen(
            [uaio or tool.uaio, "top", *arguments], stdin=self.slave,
            stdout=self.slave, env={"TERM": "xterm", "PATH": "/bin:/usr/bin"},
            preexec_fn=self.enter)

    def enter(self):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, pattern):
        """Read until the pattern appears, and forget what came before its end."""
        while not (found := re.search(pattern, self.seen, re.S)):
            self.read()
        self.seen = self.seen[found.end():]
        return found

    def read(self):
        signal.alarm(DEADLINE_S)
        self.seen += os.read(self.master, 65536)
        signal.alarm(0)

    def press(self, keys):
        os.write(self.master, keys)

    def expect_end(self, status):
        # It leaves the screen that full-screen programs have.
        self.wait_for(rb"\x1b\[\?1049l")
        expect(self.process.wait(), status, "exit status")
        expect(termios.tcgetattr(self.slave), self.before, "the terminal")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)
