# SPDX-License-Identifier: MIT
"""uaio top: what processes are doing, as tables and on a terminal."""
import os
import re
import signal
import subprocess
import sys

from harness import Skip, case, expect, main
from reader import Reader
from screen import Screen

ROW = re.compile(r" *(\d+) (.{10}) +(\d+) +(\d+|-) +(\d+|-)"
                 r" +([\d.]+|-) +([\d.]+|-)" + 5 * r" +(\d+)")
HEAD = re.compile(r"\d\d:\d\d:\d\d: 1 process, (\d+) requests/s, 2 in flight, "
                  r"(1 thread|\d\d+ threads|[02-9] threads); in [\d.]+ s"
                  r"(; times sampled 1 in 16)?")
# Reads 1100 files in turn, without end.
MANY = """
import ctypes, os, resource, struct, sys
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(1200, limit[1]), limit[1]))
lib = ctypes.CDLL(None)
context = ctypes.c_void_p()
buffer = ctypes.create_string_buffer(512)
events = ctypes.create_string_buffer(32)
lists = []
for i in range(1100):
    name = f"{sys.argv[1]}.{i}"
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    os.unlink(name)
    iocb = ctypes.create_string_buffer(struct.pack(
        "<QIIHhIQQqQII", 0, 0, 0, 0, 0, fd, ctypes.addressof(buffer), 512, 0,
        0, 0, 0))
    lists.append((iocb, (ctypes.c_void_p * 1)(ctypes.addressof(iocb))))
if lib.io_setup(8, ctypes.byref(context)):
    sys.exit("no context")
print("ready", flush=True)
while True:
    for _, list in lists:
        if lib.io_submit(context, 1, list) != 1:
            sys.exit("not submitted")
        if lib.io_getevents(context, 1, 1, events, None) != 1:
            sys.exit("no event")
"""

COLUMNS = ("    PID NAME       DOORS    REQ/S INL%  P50 us  P99 us FLIGHT"
           "  QUE  PRK  KRN THR")


@case("uaio top prints what a process does in each interval")
def _(tool):
    with Reader(tool, 1, goes_on=True, parked=2) as reader:
        outcome = tool.exec(tool.uaio, "top", "-b", "-n", "2", "-d", "0.1",
                            str(reader.pid)).expect()
        tables = outcome.out.split("\n\n")
        expect([len(tables), tables.pop()], [3, ""], outcome.out)
        for table in tables:
            head, columns, row = table.split("\n")
            expect(HEAD.fullmatch(head) is not None, True, head)
            expect(columns, COLUMNS, "the columns")
            expect(int(ROW.fullmatch(row)[1]), reader.pid, row)
        top = subprocess.Popen(
            [tool.uaio, "top", "-b", "-d", "0.1", str(reader.pid)],
            stdout=subprocess.PIPE, text=True)
        try:
            # However busy the machine is, it makes some in some interval.
            for line in top.stdout:
                row = ROW.fullmatch(line.rstrip("\n"))
                if row and int(row[4]) > 0:
                    break
        finally:
            top.kill()
            top.wait()
        expect([row[3], row[5]], ["1", "100"], line)
        expect(0 < float(row[6]) <= float(row[7]), True, line)
        expect(row.groups()[7:11], ("2", "0", "2", "0"), line)


THING = re.compile(r" *(\d+) (.{10}) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)"
                   r" +(\d+) (.+)")


@case("uaio top prints what is done with each file and each context")
def _(tool):
    with Reader(tool, 1, goes_on=True, parked=2) as reader:
        for what, name in (("file", r"/.*python.*"), ("ring", r"aio 1")):
            top = subprocess.Popen(
                [tool.uaio, "top", "-b", "-d", "0.1", "--by", what,
                 str(reader.pid)], stdout=subprocess.PIPE, text=True)
            columns = None
            try:
                # However busy the machine is, it makes some in some interval.
                for line in top.stdout:
                    row = THING.fullmatch(line.rstrip("\n"))
                    if line.startswith("    PID"):
                        columns = line.rstrip("\n")
                    if row and int(row[3]) > 0:
                        break
            finally:
                top.kill()
                top.wait()
                top.stdout.close()
            expect(columns, "    PID NAME          REQ/S     MB/S  P50 us  "
                   "P99 us ERR% " + what.upper(), "the columns")
            expect(int(row[1]), reader.pid, line)
            expect(re.fullmatch(name, row[8]) is not None, True, line)
            expect(float(row[4]) >= 0, True, line)
            expect(0 < float(row[5]) <= float(row[6]), True, line)
            expect(row[7], "0", line)
        # It has ended two views that were killed, and this one ends.
        outcome = tool.exec(tool.uaio, "top", "-b", "-n", "1", "-d", "0.1",
                            "-y", "file", str(reader.pid)).expect()
        expect(re.search(r"; in [\d.]+ s; \d+ lost, 0 not traced\n",
                         outcome.out) is not None, True, outcome.out)


@case("uaio top counts files that are too many together")
def _(tool):
    program = tool.write("many", MANY, 0o755)
    process = subprocess.Popen(
        [tool.uaio, "run", "--", sys.executable, program, tool.path("f")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    top = None
    try:
        expect(process.stdout.readline(), b"ready\n", "the program")
        top = subprocess.Popen(
            [tool.uaio, "top", "-b", "-d", "0.1", "-y", "file",
             str(process.pid)], stdout=subprocess.PIPE, text=True)
        for line in top.stdout:
            if line.endswith(" (others)\n"):
                break
        expect(line.split()[0], "-", "whose they are")
    finally:
        for other in (top, process):
            if other:
                other.kill()
                other.wait()
                other.stdout.close()
        process.stdin.close()


@case("uaio top shows processes on the terminal, and gives it back")
def _(tool):
    with Reader(tool, 1, goes_on=True) as reader, Screen(tool, "-d", "3600") as screen:
        name = b"%d python" % reader.pid
        screen.wait_for(rb"PID NAME .*" + name + rb".*q quit  v by process  s sort: requests/s"
                        rb"  space pause  \+/- every 3600.0 s")
        for view, column in (b"ring", b"RING"), (b"file", b"FILE"), (b"process", b"FLIGHT"):
            screen.press(b"v")
            screen.wait_for(column + rb".*" + view)
        screen.press(b"s")
        screen.wait_for(rb"p99")
        screen.press(b" ")
        screen.wait_for(rb"paused")
        screen.press(b"q")
        screen.expect_end(0)


@case("uaio top follows the size of the terminal")
def _(tool):
    with Screen(tool, "-d", "3600") as screen:
        # It moves to the last line, for the keys, or for what it leaves free above.
        for rows, columns in ((24, 80), (40, 120), (5, 20)):
            screen.resize(rows, columns)
            screen.wait_for(rb"\x1b\[%d[;d]" % rows)
        screen.press(b"q")
        screen.expect_end(0)


@case("a signal that ends uaio top gives the terminal back")
def _(tool):
    for number in (signal.SIGTERM, signal.SIGHUP):
        with Screen(tool) as screen:
            screen.wait_for(rb"q quit")
            screen.process.send_signal(number)
            screen.expect_end(-number)
    with Screen(tool) as screen:
        screen.wait_for(rb"q quit")
        screen.press(b"\x03")
        screen.expect_end(-signal.SIGINT)


@case("what uaio top is not told rightly it says in one line")
def _(tool):
    for arguments, word in (
            (["x"], "x: expected a process id"),
            (["-n", "0"], "--number=0: expected"),
            (["-d", "0.01"], "--delay=0.01: expected"),
            (["-d", "nan"], "--delay=nan: expected"),
            (["-s", "x"], "--sort=x: expected"),
            (["-y", "x"], "--by=x: expected process, ring or file"),
            ([], "uaio top -b")):
        tool.exec(tool.uaio, "top", *arguments).expect_refusal(2, word)
    tool.exec(tool.uaio, "top", "-b", str(os.getpid())).expect_refusal(
        1, f"{os.getpid()}: no counts")


@case("without its live view uaio top says how to get that")
def _(tool):
    alone = tool.copy(tool.args.uaio_nowhere, "alone/uaio")
    tool.exec(alone, "top").expect_refusal(2, "libncurses-dev", "top -b")
    tool.exec(alone, "top", "-b", "-n", "1", "-d", "0.1").expect(out=None)


main(is_alone=True)
