# SPDX-License-Identifier: MIT
"""uaio stat: what a process does, read by another while it does it."""
import glob
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

from harness import NOBODY, SKIPPED, Skip, case, expect, main
from reader import Reader

REQUESTS = 12
# Words in the page: src/live/layout.h
PLACES = {
    "version": (8, "<I"),
    "pid": (16, "<i"),
    "born_real_ns": (40, "<Q"),
    "state": (48, "<I"),
    "block_bytes": (72, "<I"),
    "read_ns": (96, "<Q"),
}
READ_NS_AT = PLACES["read_ns"][0]

class Victim(Reader):
    """A process that may be killed. Its pages are removed at the end of the block."""

    def __init__(self, tool, *before, options=(), **kinds):
        super().__init__(tool, REQUESTS, *before, options=options, **kinds)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        for path in pages_of(self.pid):
            os.unlink(path)


def pages_of(pid):
    found = []
    for path in glob.glob(f"/dev/shm/uaio.{os.getuid()}/*"):
        try:
            with open(path, "rb") as file:
                head = file.read(20)
        except FileNotFoundError:  # of another test
            continue
        if len(head) == 20 and struct.unpack("<16xi", head)[0] == pid:
            found.append(path)
    return found


def line_of(tool, pid):
    return json.loads(tool.exec(tool.uaio, "stat", "--json", str(pid))
                      .expect().out)


def need_root():
    if os.getuid():
        raise Skip("only root can become another user, or mount")


def expect_none(tool, pid, uaio=None, **options):
    outcome = tool.exec(uaio or tool.uaio, "stat", str(pid), **options)
    expect([outcome.status, outcome.out], [1, ""], "of a process without page")


@case("uaio stat tells what a process has done so far")
def _(tool):
    import jsonschema  # not every machine that only builds has it

    with Victim(tool) as victim:
        line = line_of(tool, victim.pid)
        with open(tool.args.schema) as file:
            schema = json.load(file)
        jsonschema.Draft7Validator(schema).validate(line)
        expect(set(line), set(schema["properties"]), "members")
        expect([line["pid"], line["state"], line["contexts"], line["rings"]],
               [victim.pid, "running", 1, 0], "which process it is")
        expect([line["accepted"], line["completed"], line["in_flight"]],
               [REQUESTS, REQUESTS, 0], "requests")
        expect(line["ns"]["total"]["count"], REQUESTS, "times")
        text = tool.exec(tool.uaio, "stat", str(victim.pid)).expect().out
        expect(f"[{victim.pid}]: running, {REQUESTS} requests, completed "
               f"{REQUESTS}, 1 context\n" in text, True, text)
        victim.end()
        expect_none(tool, victim.pid)
        expect(pages_of(victim.pid), [], "pages that it has left")


FIRST, EVERY = 1024, 16  # src/req/sample.h


@case("uaio stat says that times are sampled, and counts all requests")
def _(tool):
    for nr, sampled in (FIRST, 0), (FIRST + 40 * EVERY, 40):
        with Reader(tool, nr) as reader:
            line = line_of(tool, reader.pid)
            expect([line["submits"], line["accepted"], line["completed"],
                    line["ns"]["total"]["count"], line["sampled"]],
                   [nr, nr, nr, nr, sampled], f"of {nr} requests")
            text = tool.exec(tool.uaio, "stat", str(reader.pid)).expect().out
            expect("  times: sampled 1 in 16\n" in text, sampled > 0, text)
            text = tool.exec(tool.uaio, "stat", "--openmetrics",
                             str(reader.pid)).expect().out
            expect(re.search(r"^uaio_sampled_calls_total\{[^}]*\} (\d+)$", text,
                             re.M)[1], str(sampled), "for scrapers")


@case("all requests are timed while uaio top looks, and where a report is made")
def _(tool):
    nr = FIRST + 2 * EVERY
    with Reader(tool, nr, options=("--stats-json=report",)) as reader:
        expect(line_of(tool, reader.pid)["sampled"], 0, "with a report")
    with Reader(tool, nr, goes_on=True) as reader:
        top = subprocess.Popen(
            [tool.uaio, "top", "-b", "-d", "0.2", str(reader.pid)],
            stdout=subprocess.PIPE, text=True)
        is_sampled = True
        try:
            # Until there are two runs in an interval, of which none is sampled.
            for line in top.stdout:
                if " requests/s, " in line:
                    is_sampled = "; times sampled 1 in 16" in line
                elif line.lstrip().startswith(f"{reader.pid} "):
                    rate = line[24:33].strip()
                    if not is_sampled and rate not in ("-", "0") and \
                            int(rate) * 0.2 >= 2 * EVERY:
                        break
        finally:
            top.kill()
            top.wait()
            top.stdout.close()
        expect(is_sampled, False, "the last interval")
        sampled = line_of(tool, reader.pid)["sampled"]
        expect(sampled >= 2, True, "before that")
        # Once no reader looks any more, times are sampled again.
        while line_of(tool, reader.pid)["sampled"] == sampled:
            time.sleep(0.01)


@case("uaio stat tells where the requests in flight are")
def _(tool):
    with Victim(tool, parked=3) as victim:
        line = line_of(tool, victim.pid)
        expect(line["in_flight"], 3, "in flight")
        expect(line["now"], {"executing": 0, "queued": 0, "parked": 3,
                             "timed": 0, "waiting": 0, "kernel": 0}, "where")
        text = tool.exec(tool.uaio, "stat", str(victim.pid)).expect().out
        expect("\n  in flight 3 (parked 3), at most 3; threads " in text, True,
               text)
        text = tool.exec(tool.uaio, "stat", "--openmetrics",
                         str(victim.pid)).expect().out
        for where, nr in line["now"].items():
            sample = re.search(r"^uaio_requests_now\{[^}]*where=\"" + where +
                               r"\"\} (\d+)$", text, re.M)
            expect(int(sample[1]), nr, where)
        victim.kill()
        expect(set(line_of(tool, victim.pid)["now"].values()), {0},
               "of one that is gone")


@case("uaio stat tells of requests that a fault makes late that they are timed")
def _(tool):
    # Those that came before go unharmed.
    late = f"--fault=pread:delay=3600s@after={REQUESTS}"
    with Victim(tool, options=(late,), unawaited=2, parked=1) as victim:
        line = line_of(tool, victim.pid)
        expect(line["in_flight"], 3, "in flight")
        expect(line["now"], {"executing": 0, "queued": 0, "parked": 1,
                             "timed": 2, "waiting": 0, "kernel": 0}, "where")
        victim.kill()


class Held:
    """A process with four requests, some of which are held in a known state."""

    def __init__(self, tool, place, *options):
        self.process = subprocess.Popen(
            [tool.uaio, "run", *options, "--", tool.args.held, place],
            cwd=tool.scratch, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)
        self.pid = self.process.pid

    def await_word(self, word):
        line = self.process.stdout.readline()
        if line != f"{word}\n":
            self.process.stdin.close()
            if self.process.wait() == SKIPPED:
                raise Skip(line.strip())
            raise AssertionError(f"{line!r}, not {word}")

    def let_go(self):
        self.process.stdin.write("x")
        self.process.stdin.flush()
        self.await_word("done")

    def __enter__(self):
        self.await_word("held")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


NOWHERE = dict.fromkeys(("executing", "queued", "parked", "timed", "waiting",
                         "kernel"), 0)


def expect_places(tool, place, *options, **wanted):
    with Held(tool, place, *options) as held:
        line = line_of(tool, held.pid)
        expect(line["now"], {**NOWHERE, **wanted}, f"where: {place}")
        expect(line["in_flight"], sum(wanted.values()), "in flight")
        text = tool.exec(tool.uaio, "stat", str(held.pid)).expect().out
        for where, nr in wanted.items():
            expect(f"{where} {nr}" in text.splitlines()[1], True, text)
        text = tool.exec(tool.uaio, "top", "-b", "-n", "1", "-d", "0.1",
                         str(held.pid)).expect().out
        # What is in flight, queued, parked and with the kernel.
        expect([int(nr) for nr in text.split()[-5:-1]],
               [sum(wanted.values())] + [
                   wanted.get(where, 0)
                   for where in ("queued", "parked", "kernel")], text)
        held.let_go()
        line = line_of(tool, held.pid)
        expect([line["now"], line["in_flight"], line["completed"]],
               [NOWHERE, 0, 4], "when they are complete")


@case("uaio stat tells of requests that wait for a worker, and of the one that it executes")
def _(tool):
    need_root()
    expect_places(tool, "worker", "--backend=threads", "--workers=1",
                  executing=1, queued=3)


@case("uaio stat tells of requests that wait for older ones of their file")
def _(tool):
    need_root()
    # Else the first is made inside io_submit.
    expect_places(tool, "order", "--backend=threads", "--force-worker",
                  executing=1, waiting=3)


@case("uaio stat tells of requests that wait in a chain or behind a drain")
def _(tool):
    for place in ("links", "drain"):
        expect_places(tool, place, "--uring=always", parked=1, waiting=3)


@case("uaio stat tells of requests that the kernel executes")
def _(tool):
    need_root()
    for backend in ("aio", "io_uring"):
        expect_places(tool, "kernel", f"--backend={backend}", kernel=4)


@case("a process that is killed leaves its counts, until they were read")
def _(tool):
    with Victim(tool) as victim:
        victim.kill()
        for _ in range(2):
            line = line_of(tool, victim.pid)
            expect([line["state"], line["accepted"]], ["ended", REQUESTS],
                   "what it has left")
        path, = pages_of(victim.pid)
        with open(path, "r+b") as file:
            file.seek(READ_NS_AT)
            expect(struct.unpack("<Q", file.read(8))[0] > 0, True,
                   "when it was read")
            # Pretend that this was long ago.
            file.seek(READ_NS_AT)
            file.write(struct.pack("<Q", 1))
        expect(line_of(tool, victim.pid)["accepted"], REQUESTS, "a last time")
        expect(pages_of(victim.pid), [], "pages after that")


@case("a process that is killed has ended before its parent waits for it")
def _(tool):
    with Victim(tool) as victim:
        os.kill(victim.pid, signal.SIGKILL)
        os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)
        expect(line_of(tool, victim.pid)["state"], "ended", "not waited for")
        top = tool.exec(tool.uaio, "top", "-b", "-n", "1", "-d", "0.1",
                        str(victim.pid))
        top.expect_refusal(1, f"{victim.pid}: no counts")


# Has a ring and a second thread, ends the first, and says so.
HEADLESS = """
import ctypes, os, sys, threading
lib = ctypes.CDLL(None)
if lib.syscall(425, 4, ctypes.create_string_buffer(120)) < 0:
    sys.exit("no ring")
first = threading.get_native_id()

def go_on():
    while True:
        with open(f"/proc/self/task/{first}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "Z":
                break
    print("ready", flush=True)
    sys.stdin.read()

threading.Thread(target=go_on).start()
lib.syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # exit
"""


@case("a process whose first thread alone has ended is running")
def _(tool):
    with subprocess.Popen(
            [tool.uaio, "run", "--uring=always", "--", sys.executable, "-c",
             HEADLESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True) as process:
        try:
            expect(process.stdout.readline(), "ready\n", "the program")
            line = line_of(tool, process.pid)
            expect([line["state"], line["rings"]], ["running", 1], "its page")
        finally:
            process.kill()
            process.wait()
            for path in pages_of(process.pid):
                os.unlink(path)


# Runs the command where /dev/shm has only the pages of a folder, and no other
# process is seen.
AMONG_PAGES = """
mount -t tmpfs none /dev/shm
mkdir -m 700 /dev/shm/uaio.0
cp "$0"/* /dev/shm/uaio.0
exec "$@"
"""


def among_pages(tool, folder, *command):
    need_root()
    return tool.exec("unshare", "--mount", "--pid", "--fork", "--mount-proc",
                     "sh", "-euc", AMONG_PAGES, folder, *command)


def variant(page, **words):
    page = bytearray(page)
    for name, value in words.items():
        at, form = PLACES[name]
        struct.pack_into(form, page, at, value)
    return page


@case("of processes that have ended the last ten are shown, a line each")
def _(tool):
    with Victim(tool) as victim:
        victim.kill()
        path, = pages_of(victim.pid)
        with open(path, "rb") as file:
            page = file.read()
    folder = tool.path("pages")
    os.mkdir(folder)
    left = {str(pid): {"pid": pid, "born_real_ns": pid * 10**9, "state": 1}
            for pid in range(1, 14)}
    left["old"] = {"version": 1}
    left["odd"] = {"block_bytes": 8}
    # Not long ago: it stays, whatever other tools look at it meanwhile.
    left["seen"] = dict(left["13"], read_ns=time.time_ns())
    del left["13"]
    for name, words in enumerate(left.values()):
        with open(f"{folder}/{name}", "wb") as file:
            file.write(variant(page, **words))
    note = "uaio: stat: 2 of another version of uaio\n"
    text = among_pages(tool, folder, tool.uaio, "stat").expect(err=note).out
    lines = text.splitlines()
    expect(lines.pop(), "and 3 more: uaio stat --ended", "the last line")
    form = re.compile(r"[^ ]+\[(\d+)\]: ended, 12 requests, began "
                      r"[-0-9]+ [:0-9]+(, first seen ended [-0-9]+ [:0-9]+)?")
    matches = [form.fullmatch(line) for line in lines]
    expect(all(matches), True, text)
    expect([int(match[1]) for match in matches], list(range(4, 14)), text)
    expect([bool(match[2]) for match in matches], 9 * [False] + [True], text)
    for options, pids in ([("--ended",), range(1, 14)], [("2",), [2]]):
        text = among_pages(tool, folder, tool.uaio, "stat", *options
                           ).expect(err="" if options[0] == "2" else note).out
        full = re.findall(r"\[(\d+)\]: ended, .*\n  in flight", text)
        expect([int(pid) for pid in full], list(pids), text)


@case("of all processes, first those that run are shown")
def _(tool):
    with Victim(tool) as killed, Victim(tool) as running:
        killed.kill()
        text = tool.exec(tool.uaio, "stat").expect(err=None).out
        before, _ = text.split(f"[{running.pid}]: running, ")
        expect(": ended, " in before, False, text)


@case("a process that is to keep no counts keeps none")
def _(tool):
    with Victim(tool, options=("--live=off",)) as victim:
        expect_none(tool, victim.pid)
        expect(pages_of(victim.pid), [], "pages")


@case("users do not see each other's counts")
def _(tool):
    need_root()
    with Victim(tool) as victim:
        expect_none(tool, victim.pid, tool.copy_tool("tool"), user=NOBODY)
        path, = pages_of(victim.pid)
        for name in (path, os.path.dirname(path)):
            expect(os.stat(name).st_mode & 0o077, 0, f"rights to {name}")


@case("a process in a container is seen from outside it")
def _(tool):
    need_root()
    script = 'mount -t tmpfs none /dev/shm && exec "$0" "$@"'
    with Victim(tool, "unshare", "--pid", "--fork", "--mount-proc",
                "--kill-child", "sh", "-c", script) as victim:
        with open(f"/proc/{victim.pid}/task/{victim.pid}/children") as file:
            inner = int(file.read())
        line = line_of(tool, inner)
        expect([line["state"], line["accepted"]], ["running", REQUESTS],
               "seen from outside")


@case("what scrapers read has their syntax")
def _(tool):
    parse = ("import sys; from prometheus_client.openmetrics import parser\n"
             "for family in parser.text_string_to_metric_families("
             "sys.stdin.read()):\n"
             "    for sample in family.samples:\n"
             "        print(sample.name, sample.labels.get('way', '-'),"
             " float(sample.value))\n")
    with Victim(tool) as victim:
        text = tool.exec(tool.uaio, "stat", "--openmetrics",
                         str(victim.pid)).expect().out
        # The parser is a package of the distribution, and so for its Python.
        done = subprocess.run(["/usr/bin/python3", "-c", parse], input=text,
                              text=True, check=True, stdout=subprocess.PIPE)
        samples = done.stdout.splitlines()
        for wanted in (f"uaio_requests_total inline {REQUESTS}.0",
                       "uaio_running - 1.0",
                       f"uaio_completed_total - {REQUESTS}.0"):
            expect(wanted in samples, True, f"{wanted} in {samples}")


@case("where there is nothing to show, uaio stat says so")
def _(tool):
    need_root()
    for options, said in (
            ([], "uaio: stat: no process of this user has counts: uaio run "
                 "starts programs that do\n"),
            (["--json"], ""), (["--openmetrics"], "")):
        tool.exec("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh",
                  "-euc", 'mount -t tmpfs none /dev/shm; exec "$@"', "sh",
                  tool.uaio, "stat", *options).expect(err=said, out=None)


@case("what uaio stat is not told rightly it says in one line")
def _(tool):
    for pid in ("x", "0", "-1", "1.5"):
        tool.exec(tool.uaio, "stat", "--", pid).expect_refusal(2, pid)


main(is_alone=True)
