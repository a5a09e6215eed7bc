# SPDX-License-Identifier: MIT
"""A process on the library that makes requests, and says when it has."""
import subprocess
import sys

from harness import expect

# Reads so often, has reads of an empty pipe, and of a file, says so, reads on if it is to, some
# hundred times a second, and ends when its input does.
PROGRAM = """
import ctypes, os, select, struct, sys
lib = ctypes.CDLL(None)
context = ctypes.c_void_p()
file = open(sys.executable, "rb")
buffer = ctypes.create_string_buffer(512)
events = ctypes.create_string_buffer(32)
iocb = ctypes.create_string_buffer(struct.pack(
    "<QIIHhIQQqQII", 0, 0, 0, 0, 0, file.fileno(),
    ctypes.addressof(buffer), 512, 0, 0, 0, 0))
list = (ctypes.c_void_p * 1)(ctypes.addressof(iocb))

def read():
    if lib.io_submit(context, 1, list) != 1:
        sys.exit("not submitted")
    if lib.io_getevents(context, 1, 1, events, None) != 1:
        sys.exit("no event")

if lib.io_setup(8, ctypes.byref(context)):
    sys.exit("no context")
for _ in range(int(sys.argv[1])):
    read()
parked = struct.pack(
    "<QIIHhIQQqQII", 0, 0, 0, 0, 0, os.pipe()[0],
    ctypes.addressof(buffer), 1, 0, 0, 0, 0)
for _ in range(int(sys.argv[3])):
    one = ctypes.create_string_buffer(parked)
    if lib.io_submit(context, 1, (ctypes.c_void_p * 1)(ctypes.addressof(one))) != 1:
        sys.exit("not submitted")
for _ in range(int((sys.argv[4:] or [0])[0])):
    if lib.io_submit(context, 1, list) != 1:
        sys.exit("not submitted")
print("ready", flush=True)
while sys.argv[2] == "on" and not select.select([0], [], [], 0.001)[0]:
    read()
sys.stdin.read()
"""


class Reader:
    """A process that has made this many requests. It is killed at the end of the block."""

    def __init__(self, tool, requests, *before, goes_on=False, parked=0,
                 unawaited=0, options=(), uaio=None, python=sys.executable):
        self.process = subprocess.Popen(
            [*before, uaio or tool.uaio, "run", *options, "--", python, "-c",
             PROGRAM, str(requests), "on" if goes_on else "off", str(parked),
             str(unawaited)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def __enter__(self):
        expect(self.process.stdout.readline(), "ready\n", "the reader")
        return self

    def end(self):
        self.process.stdin.close()
        self.process.wait()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()
