# SPDX-License-Identifier: MIT
"""uaio trace --pid: a trace of a process that runs already."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import time

from harness import NOBODY, TIMEOUT_S, Skip, build, case, expect, main
from reader import PROGRAM, Reader

# A reader whose input is a byte, and then goes over to another reader.
GOES_OVER = """
import os, sys
code = os.environ["READER"]
exec(code.replace("sys.stdin.read()", "os.read(0, 1); os.execv("
                  "sys.executable, [sys.executable, '-c', code, *sys.argv[1:]])"))
"""


# Reads, 32 at a time, until its input ends.
FAST = r"""
#include <fcntl.h>
#include <libaio.h>
#include <poll.h>
#include <unistd.h>

enum { NR = 32 };

int main(int argc, char **argv)
{
	static char buffer[512];
	struct pollfd input = { .fd = 0, .events = POLLIN };
	struct iocb iocbs[NR], *list[NR];
	struct io_event events[NR];
	io_context_t context = NULL;
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;

	if (fd < 0 || io_setup(NR, &context))
		return 1;
	for (int i = 0; i < NR; i++) {
		io_prep_pread(&iocbs[i], fd, buffer, sizeof(buffer), 0);
		list[i] = &iocbs[i];
	}
	for (int is_told = 0; poll(&input, 1, 0) == 0; is_told = 1) {
		if (io_submit(context, NR, list) != NR ||
		    io_getevents(context, NR, NR, events, NULL) != NR)
			return 1;
		if (!is_told && write(1, "r", 1) != 1)
			return 1;
	}
	return 0;
}
"""


class Tracer:
    """uaio trace -p. If it still runs at the end of the block, it is killed."""

    def __init__(self, tool, *arguments, **options):
        self.path = tool.path("lines")
        self.process = subprocess.Popen(
            [tool.uaio, "trace", "-o", self.path, *arguments],
            stderr=subprocess.PIPE, text=True, **options)

    def lines(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path) as file:
            text = file.read()
        # The last line may be half written.
        return [line for line in text[:text.rfind("\n") + 1].splitlines()
                if not line.startswith("#")]

    def wait_for_lines(self, more_than=0):
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.lines()) <= more_than and time.monotonic() < deadline:
            expect(self.process.poll(), None, "the tracer")
            time.sleep(0.01)
        expect(len(self.lines()) > more_than, True, "a line")
        return self.lines()

    def end(self, number=signal.SIGINT):
        """End the tracer. Return: what it printed."""
        self.process.send_signal(number)
        expect(self.process.wait(TIMEOUT_S), 0, "exit status")
        return self.process.stderr.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


def rings_of(pid):
    with open(f"/proc/{pid}/maps") as file:
        return sum("memfd:uaio-trace" in line for line in file)


def wait_until(is_so, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
    expect(is_so(), True, what)


def expect_reads(lines, pid):
    for line in lines:
        expect(re.search(rf" {pid} aio +pread +0 +512 +512 .* inline .*python",
                         line) is not None, True, line)


@case("a process is traced from when that is asked for until it is enough")
def _(tool):
    with Reader(tool, 1, goes_on=True) as reader:
        for number in (signal.SIGINT, signal.SIGTERM):
            # To name a process twice is to name it once.
            with Tracer(tool, *["-p", str(reader.pid)] * 2) as tracer:
                expect_reads(tracer.wait_for_lines(), reader.pid)
                expect(rings_of(reader.pid), 1, "rings")
                tracer.end(number)
            wait_until(lambda: rings_of(reader.pid) == 0, "no ring is left")


@case("a trace that cannot be written ends, and fails")
def _(tool):
    with Reader(tool, 1, goes_on=True) as reader:
        tool.exec(tool.uaio, "trace", "-o", "/dev/full", "-p", str(reader.pid)
                  ).expect_refusal(1, "cannot write: No space left on device")


@case("a trace that nobody reads any more ends, however much the process does")
def _(tool):
    # So many and so fast that a record always waits to be read.
    program = build(tool, "fast", FAST, "-laio")
    with contextlib.ExitStack() as stack:
        pids = ""
        for _ in range(4):
            fast = stack.enter_context(subprocess.Popen(
                [tool.uaio, "run", "--", program, "/dev/zero"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            expect(fast.stdout.read(1), b"r", "a process")
            pids += f" -p {fast.pid}"
        said = tool.exec("sh", "-c", f"{tool.uaio} trace{pids} 2>&1 | head -n 2")
        expect(len(said.out.splitlines()), 2, "lines")


@case("a process has several tracers at once, and no more than it can have")
def _(tool):
    pid = "--pid"
    with Reader(tool, 1, goes_on=True) as reader:
        tracers = []
        try:
            for i in range(4):
                tracers.append(Tracer(tool, pid, str(reader.pid)))
                # Once the file is unlinked, the same path belongs to another file.
                tracers[-1].wait_for_lines()
                os.rename(tracers[-1].path, f"{tracers[-1].path}.{i}")
                tracers[-1].path += f".{i}"
            tool.exec(tool.uaio, "trace", pid, str(reader.pid)).expect_refusal(
                1, "as many tracers")
            tracers[0].end()
            tracers[1].process.kill()
            tracers[1].process.wait()
            wait_until(lambda: rings_of(reader.pid) == 2, "two are left")
            for tracer in tracers[2:]:
                tracer.wait_for_lines(len(tracer.lines()))
            # Now there is room for other tracers again.
            with Tracer(tool, pid, str(reader.pid)) as tracer:
                tracer.wait_for_lines()
                tracer.end()
        finally:
            for tracer in tracers:
                tracer.__exit__()


@case("a process that does nothing is traced from its next request on")
def _(tool):
    with Reader(tool, 1) as reader, Tracer(tool, "-p", str(reader.pid)) as tracer:
        line = tracer.process.stderr.readline()
        expect(line, f"uaio: trace: {reader.pid} makes no requests now, and is "
               "traced from the next one on\n", "what it says")
        reader.end()
        # The process has made no request, and has ended.
        expect(tracer.process.wait(TIMEOUT_S), 0, "exit status")


# A reader whose parked reads end when its input has a byte.
FINISHES = PROGRAM.replace("sys.stdin.read()", """
os.read(0, 1)
nr = int(sys.argv[3])
os.write(struct.unpack_from("<I", parked, 20)[0] + 1, bytes(nr))
for _ in range(nr):
    if lib.io_getevents(context, 1, 1, events, None) != 1:
        sys.exit("no event")
sys.stdin.read()
""")


@case("a request that was submitted untimed is traced, with dashes for its times")
def _(tool):
    nr = 64
    # Of requests after the first 1024 one in 16 is timed: src/req/sample.h.
    with subprocess.Popen(
            [tool.uaio, "run", "--", sys.executable, "-c", FINISHES, "1024",
             "off", str(nr)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True) as process:
        expect(process.stdout.readline(), "ready\n", "the program")
        with Tracer(tool, "-p", str(process.pid)) as tracer:
            line = tracer.process.stderr.readline()
            expect("traced from the next one on" in line, True, line)
            process.stdin.write("x")
            process.stdin.flush()
            lines = tracer.wait_for_lines(nr - 1)
            process.stdin.close()
            expect(tracer.process.wait(TIMEOUT_S), 0, "exit status")
    times = [tuple(line.split()[7:9]) for line in lines]
    expect(len(times), nr, "lines")
    expect(times.count(("-", "-")), nr - nr // 16, str(times))
    for wait, service in set(times) - {("-", "-")}:
        expect(float(wait) > 0 and float(service) < float(wait), True,
               f"{wait} {service}")


@case("a trace of a process ends when the process does")
def _(tool):
    for number in (None, signal.SIGKILL):
        with Reader(tool, 1, goes_on=True) as reader, \
                Tracer(tool, "-p", str(reader.pid)) as tracer:
            tracer.wait_for_lines()
            if number:
                os.kill(reader.pid, number)
                reader.process.wait()
            else:
                reader.end()
            expect(tracer.process.wait(TIMEOUT_S), 0, "exit status")
        if number:
            tool.exec(tool.uaio, "stat", str(reader.pid)).expect(out=None)


@case("a process that executes another program is traced on")
def _(tool):
    process = subprocess.Popen(
        [tool.uaio, "run", "--", sys.executable, "-c", GOES_OVER, "1", "on",
         "0"], env=dict(os.environ, READER=PROGRAM), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
    try:
        expect(process.stdout.readline(), b"ready\n", "the first program")
        with Tracer(tool, "-p", str(process.pid)) as tracer:
            tracer.wait_for_lines()
            process.stdin.write(b"x")
            process.stdin.flush()
            expect(process.stdout.readline(), b"ready\n", "the second program")
            tracer.wait_for_lines(len(tracer.lines()) + 100)
            tracer.end()
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@case("the superuser traces processes of others, and nobody else does")
def _(tool):
    if os.getuid():
        raise Skip("only root can become another user")
    copy = tool.copy_tool("tool")
    with Reader(tool, 1, goes_on=True) as reader:
        tool.exec(copy, "trace", "-p", str(reader.pid), user=NOBODY).expect(
            status=1, out="", err=None)
    other = Reader(tool, 1, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
                   "--clear-groups", goes_on=True, uaio=copy,
                   python="/usr/bin/python3")
    with other as reader, Tracer(tool, "-p", str(reader.pid)) as tracer:
        expect_reads(tracer.wait_for_lines(), reader.pid)
        tracer.end()


@case("what is asked of uaio trace --pid is refused in one line")
def _(tool):
    for arguments, words in (
        (("-p", "x"), ("x: expected a process id",)),
        (("-p", "1", "true"), ("true", "together")),
        ((), ("which command",)),
    ):
        tool.exec(tool.uaio, "trace", *arguments).expect_refusal(2, *words)
    tool.exec(tool.uaio, "trace", "-p", str(os.getpid())).expect_refusal(
        1, f"{os.getpid()}: no counts")
    with Reader(tool, 1, options=("--live=off",)) as reader:
        tool.exec(tool.uaio, "trace", "-p", str(reader.pid)).expect_refusal(
            1, "--live=off")


main(is_alone=True)
