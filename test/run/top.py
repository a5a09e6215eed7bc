# SPDX-License-Identifier: MIT
"""uaio top: what processes are doing, as tables and on a terminal."""
import os
import re
import signal
import subprocess

from harness import Skip, case, expect, main
from reader import Reader
from screen import Screen

ROW = re.compile(r" *(\d+) (.{10}) +(\d+) +(\d+|-) +(\d+|-)"
                 r" +([\d.]+|-) +([\d.]+|-)" + 5 * r" +(\d+)")
HEAD = re.compile(r"\d\d:\d\d:\d\d: 1 process, (\d+) requests/s, 2 in flight, "
                  r"\d+ threads; in [\d.]+ s")
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


@case("uaio top shows processes on the terminal, and gives it back")
def _(tool):
    with Reader(tool, 1, goes_on=True) as reader, Screen(tool, "-d", "3600") as screen:
        name = b"%d python" % reader.pid
        screen.wait_for(rb"PID NAME .*" + name + rb".*q quit  s sort: requests/s"
                        rb"  space pause  \+/- every 3600.0 s")
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
            ([], "uaio top -b")):
        tool.exec(tool.uaio, "top", *arguments).expect_refusal(2, word)
    tool.exec(tool.uaio, "top", "-b", str(os.getpid())).expect_refusal(
        1, f"{os.getpid()}: no counts")


@case("without its live view uaio top says how to get that")
def _(tool):
    alone = tool.copy(tool.args.uaio_nowhere, "alone/uaio")
    tool.exec(alone, "top").expect_refusal(2, "libncurses-dev", "top -b")
    tool.exec(alone, "top", "-b", "-n", "1", "-d", "0.1").expect(out=None)


main()
