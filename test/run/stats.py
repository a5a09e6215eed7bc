# SPDX-License-Identifier: MIT
"""--stats and --stats-json: what a process says about its requests."""
import json
import os
import re
import sys

from harness import Skip, case, expect, main

REQUESTS = 34  # of one round of client.c
WAYS = {
    "pread": {"inline": 20, "parked": 3, "queued": 0},
    "pwrite": {"inline": 10, "parked": 0, "queued": 0},
    "fdsync": {"inline": 0, "parked": 0, "queued": 1},
}
NOTHING = {"inline": 0, "parked": 0, "queued": 0}


def lines(tool, *command, **options):
    """The objects that a run of the client leaves behind."""
    path = tool.path("stats.json")
    tool.run(f"--stats-json={path}", "--", tool.args.client, *command,
             **options).expect()
    with open(path) as file:
        found = [json.loads(line) for line in file]
    os.unlink(path)
    return found


def only_line(tool, *command, **options):
    found = lines(tool, *command, **options)
    expect(len(found), 1, "lines")
    return found[0]


def expect_rounds(line, rounds, what):
    for op, ways in line["requests"].items():
        wanted = {way: rounds * nr
                  for way, nr in WAYS.get(op, NOTHING).items()}
        expect(ways, wanted, f"{what}: {op}")
    for name in ("accepted", "completed", "submits"):
        expect(line[name], rounds * REQUESTS, f"{what}: {name}")
    expect(line["contexts"], rounds, what)
    for time, count in (("submit", 34), ("queue_wait", 4), ("service", 34),
                        ("total", 34)):
        expect(line["ns"][time]["count"], rounds * count, f"{what}: {time}")


@case("statistics count every request once, however the process ends")
def _(tool):
    for ending in ("return", "exit", "_exit", "_Exit", "quick_exit",
                   "exit_group", "handler", "daemon"):
        line = only_line(tool, ending)
        expect_rounds(line, 1, ending)
        expect(line["comm"], "run-client", ending)


@case("statistics count every request once, where another program follows")
def _(tool):
    for ending, comms in (("execv", ["run-client", "true"]),
                          ("failing-exec", ["run-client", "run-client"])):
        found = lines(tool, ending)
        expect([line["comm"] for line in found], comms, ending)
        expect_rounds(found[0], 1, ending)
        # After an exec that fails the end says everything once more.
        expect(found[1]["accepted"], REQUESTS if comms[1] == comms[0] else 0,
               ending)


@case("statistics have the schema that is installed with them")
def _(tool):
    import jsonschema  # not every machine that only builds has it

    with open(tool.args.schema) as file:
        schema = json.load(file)
    validator = jsonschema.Draft7Validator(schema)
    for ending in ("return", "nothing"):
        line = only_line(tool, ending)
        validator.validate(line)
        # Nothing is in the line that the schema does not tell of.
        only_stat = {"state", "in_flight", "now", "sampled"}  # of uaio stat, see live.py
        expect(set(line), set(schema["properties"]) - only_stat, "members")
        del line["ns"]["total"]["p99.9"]
        expect(validator.is_valid(line), False, "a line without its p99.9")


@case("times are plausible and in order")
def _(tool):
    line = only_line(tool, "return")
    # Nothing of it is read from a disk.
    expect(line["ns"].pop("page_wait"),
           dict.fromkeys(("count", "p50", "p99", "p99.9", "max"), 0), "pages")
    for name, time in line["ns"].items():
        values = [time[p] for p in ("p50", "p99", "p99.9", "max")]
        expect(values, sorted(values), name)
        expect(values[0] > 0, True, name)
        expect(values[-1] < 60e9, True, name)
    expect(line["ns"]["total"]["max"] >= line["ns"]["service"]["max"], True,
           "a request lasts longer than its system call")
    expect(line["peak_in_flight"], 1, "one at a time")
    expect(1 <= line["threads"]["peak"] <= line["threads"]["started"], True,
           "threads")


@case("threads that have ended are counted")
def _(tool):
    expect_rounds(only_line(tool, "threads"), 21, "threads")


@case("a child that makes requests speaks for itself alone")
def _(tool):
    found = lines(tool, "fork")
    expect(len(found), 2, "processes that made requests")
    expect(found[0]["pid"] != found[1]["pid"], True, "process ids")
    for line in found:
        expect_rounds(line, 1, line["pid"])


@case("requests that are made by workers are counted as such")
def _(tool):
    line = only_line(tool, "return", env={"UAIO_FORCE_WORKER": "1"})
    expect(line["requests"]["pread"],
           {"inline": 0, "parked": 3, "queued": 20}, "preads")
    expect(line["completed"], REQUESTS, "completed")
    expect(line["ns"]["queue_wait"]["count"], REQUESTS, "queue waits")


@case("the block of statistics goes to the standard error")
def _(tool):
    for options, env in ((("--stats",), {}), ((), {"UAIO_STATS": "yes"}),
                         (("--stats=-",), {})):
        outcome = tool.run(*options, "--", tool.args.client, env=env)
        outcome.expect(out="", err=None)
        first = outcome.err.splitlines()[0]
        wanted = (r"uaio: run-client\[\d+\]: 34 requests in 34 calls, "
                  r"1 context")
        expect(bool(re.fullmatch(wanted, first)), True, first)
        rows = dict(line.split(None, 1)
                    for line in outcome.err.splitlines()[3:6])
        expect([rows["pread"].split(), rows["pwrite"].split(),
                rows["fdsync"].split()],
               [["20", "3", "0"], ["10", "0", "0"], ["0", "0", "1"]], "rows")
        for name in ("submit", "queue wait", "service", "total"):
            expect(len(re.findall(rf"^  {name} +(?:\d+\.\d ?\s*){{4}}$",
                                  outcome.err, re.M)), 1, name)
        expect(max(map(len, outcome.err.splitlines())) <= 80, True, "width")


@case("a process that made no request says so in one line")
def _(tool):
    outcome = tool.run("--stats", "--", tool.args.client, "nothing")
    outcome.expect(err=None)
    # In the order in which the linker put them.
    calls = re.fullmatch(
        r"uaio: run-client\[\d+\]: made no (\w+), (\w+) or (\w+) call; "
        r"programs that it starts are named if they make one\n",
        outcome.err)
    expect(sorted(calls.groups()) if calls else outcome.err,
           ["aio_read", "io_setup", "io_uring_setup"], "what it did not call")
    tool.run("--stats=no", "--", tool.args.client).expect()


@case("requests of POSIX AIO are told of, which need no context")
def _(tool):
    outcome = tool.run("--stats", "--", tool.args.client, "posix")
    outcome.expect(err=None)
    wanted = r"uaio: run-client\[\d+\]: 10 requests in 10 calls, 0 contexts"
    first = outcome.err.splitlines()[0]
    expect(bool(re.fullmatch(wanted, first)), True, first)
    line = only_line(tool, "posix")
    expect([line["accepted"], line["completed"], line["contexts"]],
           [10, 10, 0], "the line of JSON")
    expect(line["requests"]["pwrite"]["inline"], 10, "writes")


@case("statistics go to the file of the process, wherever it goes")
def _(tool):
    os.mkdir(tool.path("here"))
    for name in ("plain", "of.%p.100%%"):
        tool.run(f"--stats-json={name}", "--", tool.args.client, "elsewhere",
                 cwd=tool.path("here")).expect()
    names = sorted(os.listdir(tool.path("here")))
    expect(len(names), 2, names)
    expect(names[1], "plain", "the relative path")
    with open(tool.path("here/" + names[0])) as file:
        line = json.load(file)
    expect(names[0], f"of.{line['pid']}.100%", "the process id")


@case("two runs share a file of statistics")
def _(tool):
    path = tool.path("both")
    for _ in range(2):
        tool.run(f"--stats={path}", f"--stats-json={path}.json", "--",
                 tool.args.client).expect()
    with open(path) as file:
        expect(len(re.findall("^uaio: ", file.read(), re.M)), 2, "blocks")
    with open(path + ".json") as file:
        expect(len(file.readlines()), 2, "lines")


@case("a file that takes the number of the standard error is left alone")
def _(tool):
    path = tool.path("data")
    tool.run("--stats", "--", tool.args.client, "reuse", path).expect()
    expect(os.path.getsize(path), 0, "bytes in it")


@case("a file of statistics that cannot be written is refused at the start")
def _(tool):
    marker = tool.path("marker")
    for option in ("--stats=/nonexistent/x", "--stats-json=/nonexistent/x",
                   f"--stats={tool.scratch}", "--stats=a%d"):
        tool.run(option, "--", "mkdir", marker).expect_refusal(
            2, option.split("=")[1])
    expect(os.path.exists(marker), False, "the command ran")


@case("a file of statistics that cannot be written at the end is told of")
def _(tool):
    outcome = tool.exec(
        tool.args.client, env={"LD_PRELOAD": tool.library,
                               "LD_LIBRARY_PATH": tool.lib_dir,
                               "UAIO_STATS_JSON": "/nonexistent/x"})
    outcome.expect(
        err="uaio: cannot write statistics to /nonexistent/x: "
            "No such file or directory\n")


@case("statistics that cannot be written are told of once a process")
def _(tool):
    # Its exec fails, so that it reports twice.
    outcome = tool.exec(
        tool.args.client, "failing-exec",
        env={"LD_PRELOAD": tool.library, "LD_LIBRARY_PATH": tool.lib_dir,
             "UAIO_STATS_JSON": "/nonexistent/x"})
    outcome.expect(
        err="uaio: cannot write statistics to /nonexistent/x: "
            "No such file or directory\n")


@case("one of a thing is not called some things")
def _(tool):
    outcome = tool.run("--stats", "--", tool.args.client, "one")
    outcome.expect(err=None)
    first = outcome.err.splitlines()[0]
    expect(first.partition("]: ")[2], "1 request in 1 call, 1 context", first)


# Has a context, and closes its standard error twice over, as a stream.
CLOSES = """
import ctypes, sys
lib = ctypes.CDLL(None)
if lib.io_setup(8, ctypes.byref(ctypes.c_void_p())):
    sys.exit("no context")
lib.fclose(ctypes.c_void_p.in_dll(lib, "stderr"))
"""


@case("a program that closes its standard error at its end is reported on, once")
def _(tool):
    for command, said in (
            (("ls", "-d", "/"), "made no "), (("cat", "/dev/null"), "made no "),
            ((sys.executable, "-c", CLOSES), "0 requests in 0 calls, 1 context")):
        outcome = tool.run("--stats", "--", *command).expect(err=None)
        expect(re.findall(r"^uaio: .*\[\d+\]: " + said, outcome.err, re.M) != [],
               True, outcome.story)
        expect(outcome.err.count("uaio: "), 1, outcome.story)
        # A file is not the standard error.
        path = tool.path("stats.json")
        tool.run(f"--stats-json={path}", "--", *command).expect()
        with open(path) as file:
            expect(len(file.readlines()), 1, "lines in a file")
        os.unlink(path)


# Sets up so many contexts and so many rings.
SETUPS = """
import ctypes, sys
lib = ctypes.CDLL(None)
for _ in range(int(sys.argv[1])):
    if lib.io_setup(8, ctypes.byref(ctypes.c_void_p())):
        sys.exit("no context")
for _ in range(int(sys.argv[2])):
    if lib.syscall(425, 4, ctypes.create_string_buffer(120)) < 0:
        sys.exit("no ring")
"""


@case("contexts and rings are called what they are")
def _(tool):
    for contexts, rings, said in (
            (1, 0, "1 context"), (0, 1, "1 ring"), (2, 3, "2 contexts and 3 rings"),
            (0, 2, "2 rings")):
        path = tool.path("setups.json")
        outcome = tool.run("--uring=always", "--stats", f"--stats-json={path}",
                           "--", sys.executable, "-c", SETUPS, str(contexts),
                           str(rings)).expect(err=None)
        first = outcome.err.splitlines()[0]
        expect(first.partition("]: ")[2], f"0 requests in 0 calls, {said}",
               first)
        with open(path) as file:
            line = json.load(file)
        expect([line["contexts"], line["rings"]], [contexts, rings], said)
        os.unlink(path)


@case("without /proc a process has the name by which it was started")
def _(tool):
    if os.geteuid():
        raise Skip("only root can hide /proc")
    outcome = tool.exec(
        "unshare", "--mount", "sh", "-c",
        f'mount -t tmpfs none /proc && exec "{tool.args.client}"',
        env={"LD_PRELOAD": tool.library, "LD_LIBRARY_PATH": tool.lib_dir,
             "UAIO_STATS": "yes"})
    outcome.expect(err=None)
    blocks = re.findall(r"^uaio: (.*)\[\d+\]: ", outcome.err, re.M)
    expect(blocks[-1], "run-client", outcome.err)


@case("statistics beyond the limit of files' sizes do not end the process")
def _(tool):
    size = 65536
    path = tool.write("stats.json", " " * size)
    outcome = tool.exec(
        "prlimit", f"--fsize={size}", tool.args.client,
        env={"LD_PRELOAD": tool.library, "LD_LIBRARY_PATH": tool.lib_dir,
             "UAIO_STATS_JSON": path})
    outcome.expect(err=f"uaio: cannot write statistics to {path}: "
                       "File too large\n")
    expect(os.path.getsize(path), size, "bytes in it")


@case("statistics for a FIFO wait for no reader, and one that is there gets them")
def _(tool):
    path = tool.path("fifo")
    os.mkfifo(path)
    for option in ("--stats", "--stats-json"):
        tool.run(f"{option}={path}", "--", tool.args.client).expect(
            err=f"uaio: cannot write statistics to {path}: No such device or address\n")
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        tool.run(f"{option}={path}", "--", tool.args.client).expect()
        said = os.read(reader, 1 << 16).decode()
        os.close(reader)
        expect("run-client" in said, True, said)


@case("a file of statistics that a variable names is refused with that name")
def _(tool):
    tool.run("true", env={"UAIO_STATS": "/nonexistent/x"}).expect_refusal(
        2, "UAIO_STATS=/nonexistent/x: No such file")


main()
