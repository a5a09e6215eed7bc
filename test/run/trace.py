# SPDX-License-Identifier: MIT
"""uaio trace: a line for each request, and a file for viewers."""
import json
import os
import re
import resource
import signal
import subprocess
import time

from harness import TIMEOUT_S, Skip, case, expect, main

REQUESTS = 34  # of one round of client.c
OPERATIONS = {"pread": 23, "pwrite": 10, "fdsync": 1}
COLUMNS = ("seconds", "thread", "door", "operation", "offset", "length",
           "result", "wait", "service", "by", "file")


def trace(tool, *arguments, **options):
    """Run uaio trace. Return: its outcome, and the lines that it wrote."""
    path = tool.path("lines")
    outcome = tool.exec(tool.uaio, "trace", "-o", path, *arguments, **options)
    with open(path) as file:
        text = file.read().splitlines()
    expect(text[0].startswith("#"), True, "a head")
    return outcome, [dict(zip(COLUMNS, line.split(None, 10)))
                     for line in text[1:] if not line.startswith("#")]


def count(lines, column):
    counts = {}
    for line in lines:
        counts[line[column]] = counts.get(line[column], 0) + 1
    return counts


@case("a trace has one line for each request, and says what it was")
def _(tool):
    outcome, lines = trace(tool, "--", tool.args.client, "return")
    outcome.expect()
    expect(len(lines), REQUESTS, "lines")
    expect(count(lines, "operation"), OPERATIONS, "operations")
    expect(count(lines, "door"), {"aio": REQUESTS}, "doors")
    expect(count(lines, "by")["inline"], 30, "inside io_submit")
    expect(count(lines, "by")["worker"], 1, "the fdsync")
    expect(count(lines, "length")["512"], 30, "reads and writes of the file")
    expect(count(lines, "result")["1"], 3, "reads of the pipe")
    for line in lines:
        for column in "seconds", "wait", "service":
            expect(float(line[column]) >= 0, True, line)
    times = [float(line["seconds"]) for line in lines if line["by"] == "inline"]
    expect(times, sorted(times), "the time of a thread's requests")


@case("the exit status of a traced command is its own")
def _(tool):
    for script, status in (("exit 3", 3), ("kill -TERM $$", 128 + 15)):
        outcome, lines = trace(tool, "--", "sh", "-c", script)
        outcome.expect(status=status)
        expect(lines, [], script)
    trace(tool, "no-such-command")[0].expect_refusal(127, "no-such-command")


@case("a trace takes in children, and programs that follow")
def _(tool):
    outcome, lines = trace(tool, "--", tool.args.client, "fork")
    outcome.expect()
    expect(len(lines), 2 * REQUESTS, "of a parent and a child")
    inline = [line for line in lines if line["by"] == "inline"]
    expect(sorted(count(inline, "thread").values()), [30, 30], "threads")
    # One that its parent does not wait for.
    outcome, lines = trace(tool, "--", tool.args.client, "daemon")
    outcome.expect()
    expect(len(lines), REQUESTS, "of a daemon")
    # The second has the lane of the first, whose thread it is.
    client = tool.args.client
    outcome, lines = trace(
        tool, "--", "sh", "-c", f"'{client}' return; exec '{client}' return")
    outcome.expect()
    expect(len(lines), 2 * REQUESTS, "of two programs")


@case("a trace leaves out what is not asked for")
def _(tool):
    client = tool.args.client, "return"
    for options, nr in (
        (("--op=pwrite",), 10),
        (("--op", "write,fdsync"), 11),
        (("--op=any",), REQUESTS),
        (("--file=/nowhere/*",), 0),
        (("--errors",), 0),
        (("--slower=3600s",), 0),
        (("--slower", "1ns"), REQUESTS),
    ):
        outcome, lines = trace(tool, *options, "--", *client)
        outcome.expect()
        expect(len(lines), nr, options)


class Kept:
    """A traced client that waits, once it has written to files."""

    def __init__(self, tool, files, *options):
        self.path = tool.path("lines")
        self.files = files
        self.tracer = subprocess.Popen(
            (tool.uaio, "trace", "-o", self.path, *options, "--",
             tool.args.client, "keep", *files), stdin=subprocess.PIPE)

    def await_lines(self):
        """Wait for a line of the last file. Return: the lines."""
        text = ""
        deadline = time.monotonic() + TIMEOUT_S
        while self.files[-1] not in text and time.monotonic() < deadline:
            time.sleep(0.01)
            text = self.text()
        return self.lines(text)

    def text(self):
        if not os.path.exists(self.path):
            return ""
        with open(self.path) as file:
            return file.read()

    def lines(self, text):
        return [dict(zip(COLUMNS, line.split(None, 10)))
                for line in text.splitlines()[1:]]

    def end(self):
        """End the client. Return: the exit status of the tracer, and all lines."""
        self.tracer.stdin.close()
        status = self.tracer.wait(TIMEOUT_S)
        lines = self.lines(self.text())
        os.unlink(self.path)
        return status, lines


@case("a trace names the files that are open")
def _(tool):
    files = tool.path("first.db"), tool.path("second.log")
    for options, wanted in (((), files), (("--file=*.log",), files[1:])):
        kept = Kept(tool, files, *options)
        kept.await_lines()
        status, lines = kept.end()
        expect(status, 0, "status")
        expect([line["file"] for line in lines], list(wanted), options)


@case("a trace names the files of a program that has ended")
def _(tool):
    # It ends at once, and all of its files have gone with it.
    for mode, programs in (("return", 1), ("fork", 2), ("daemon", 1)):
        outcome, lines = trace(tool, "--", tool.args.client, mode)
        outcome.expect()
        kinds = count([{"file": re.sub(r"\[\d+\]", "[]", line["file"])}
                       for line in lines], "file")
        expect(kinds, {"/memfd:client (deleted)": 31 * programs,
                       "pipe:[]": 3 * programs}, mode)


@case("a program that is killed leaves the lines of what it did")
def _(tool):
    files = tool.path("first.db"), tool.path("second.log")
    kept = Kept(tool, files)
    # The client has one thread, whose id is its own.
    os.kill(int(kept.await_lines()[-1]["thread"]), signal.SIGKILL)
    status, lines = kept.end()
    expect(status, 128 + signal.SIGKILL, "status")
    expect([line["file"] for line in lines], list(files), "files")


@case("a program that dies leaves the lines of what it did")
def _(tool):
    # It has an error that it does not expect, and aborts.
    env = {"UAIO_FAULT": "fdsync:enospc"}
    outcome, lines = trace(tool, "--", tool.args.client, "return", env=env)
    outcome.expect(status=128 + signal.SIGABRT, err=None)
    expect(len(lines), 31, "lines")
    expect(lines[-1]["operation"], "fdsync", "the last")
    expect(lines[-1]["result"], "ENOSPC", "the last")
    outcome, lines = trace(tool, "--errors", "--", tool.args.client, "return",
                           env=env)
    expect([line["result"] for line in lines], ["ENOSPC"], "errors")


@case("a traced program goes on when its tracer is killed")
def _(tool):
    done = tool.path("done")
    ready = tool.path("ready")
    script = (f"'{tool.args.client}' return; echo >'{ready}'; read line; "
              f"'{tool.args.client}' return; echo $? >'{done}.new'; "
              f"mv '{done}.new' '{done}'")
    tracer = subprocess.Popen(
        (tool.uaio, "trace", "-o", tool.path("lines"), "--", "sh", "-c",
         script), stdin=subprocess.PIPE)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while not os.path.exists(ready) and time.monotonic() < deadline:
            time.sleep(0.01)
        tracer.kill()
        tracer.wait()
        tracer.stdin.write(b"\n")
        tracer.stdin.close()
        while not os.path.exists(done) and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        tracer.kill()
    with open(done) as file:
        expect(file.read(), "0\n", "the exit status of the program")


def expect_apart(events):
    """Check that the slices of each thread do not overlap."""
    ends = {}
    slices = [event for event in events if event["ph"] == "X"]
    for event in sorted(slices, key=lambda event: event["ts"]):
        key = event["pid"], event["tid"]
        # To the nanosecond that is printed, in microseconds.
        expect(event["ts"] >= ends.get(key, 0) - 0.0005, True, event)
        ends[key] = event["ts"] + event["dur"]
    return slices


@case("a trace for viewers is JSON whose events fit into each other")
def _(tool):
    path = tool.path("trace.json")
    for engine, env in (("libaio", {}), ("io_uring", {"UAIO_URING": "always"}),
                        ("posixaio", {"UAIO_FORCE_WORKER": "1"})):
        tool.exec(
            tool.uaio, "trace", "--chrome", path, "--", "fio", "--name=job",
            f"--filename={tool.path('file')}", f"--ioengine={engine}",
            "--rw=randrw", "--bs=4k", "--size=1m", "--iodepth=16",
            "--fsync=16", "--numjobs=2", env=env).expect(out=None)
        with open(path) as file:
            whole = json.load(file)
        events = whole["traceEvents"]
        expect(whole["otherData"]["lost"], "0", "lost")
        begun = {event["id"]: event for event in events if event["ph"] == "b"}
        ended = {event["id"]: event for event in events if event["ph"] == "e"}
        expect(len(begun) >= 2 * 256, True, f"{len(begun)} requests")
        expect(set(begun), set(ended), "what began and what ended")
        for number, event in begun.items():
            expect(ended[number]["ts"] >= event["ts"], True, event)
            expect(ended[number]["name"], event["name"], event)
        slices = expect_apart(events)
        expect({event["args"]["by"] for event in slices} <=
               {"inline", "waiter", "worker", "ready"}, True, "by whom")


@case("a trace that makes no sense is refused in one line")
def _(tool):
    for arguments, words in (
        ((), ("which command",)),
        (("--op=reed", "true"), ("--op=reed", "such as read")),
        (("--op=read,", "true"), ("--op=read,", "commas")),
        (("--slower=5", "true"), ("--slower=5", "such as 5ms")),
        (("--no-such", "true"), ("--no-such",)),
        (("-o", "/nonexistent/file", "true"), ("/nonexistent/file", "No such")),
        (("--chrome=/nonexistent/file", "true"), ("/nonexistent/file",)),
    ):
        tool.exec(tool.uaio, "trace", *arguments).expect_refusal(2, *words)
    expect("usage:" in tool.exec(tool.uaio, "trace", "--help").expect().out,
           True, "usage")


@case("a low limit of file sizes is told of, and ends neither the tool nor the command")
def _(tool):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    tool.exec(tool.uaio, "trace", "-o", tool.path("lines"), "--", "true", preexec_fn=limit
              ).expect_refusal(2, "File too large: raise ulimit -f")


@case("the lines and the file for viewers need a file each")
def _(tool):
    path = tool.path("lines")
    os.symlink(path, tool.path("link"))
    for other in (path, tool.path("link")):
        tool.exec(tool.uaio, "trace", "-o", path, "--chrome", other, "true").expect_refusal(
            2, path, "need a file each")


@case("a trace or faults of a program whose io_uring is the kernel's say so")
def _(tool):
    command = ["fio", "--name=job", "--ioengine=io_uring", "--size=4k", "--rw=read", "--thread",
               "--filename=/dev/zero", "--output=/dev/null"]
    if tool.exec(*command).status:
        raise Skip("no fio, or the kernel refuses io_uring")
    said = "uaio: library: not served: io_uring is the kernel's"
    for words, times in ((("trace", "-o", "/dev/null"), 1), (("run", "--fault=read:eio"), 1),
                         (("run",), 0), (("trace", "-o", "/dev/null", "--", tool.uaio, "run",
                                          "--uring=always"), 0)):
        outcome = tool.exec(tool.uaio, *words, "--", *command).expect(out=None, err=None)
        expect(outcome.err.count(said), times, outcome.story)


main()
