# SPDX-License-Identifier: MIT
"""--fault: faults on purpose, as a user asks for them."""
import json

from harness import case, expect, main

REQUESTS = 34  # of client.c
ENGINES = "libaio", "posixaio", "io_uring"
FORM = "OPERATION:FAULT, as in write:eio@p=0.01"


def fio(tool, engine, faults, *job):
    """Reads and writes a small file, and may be told of errors."""
    options = [option for fault in faults for option in ("--fault", fault)]
    return tool.run(
        "--uring=always", "--stats", *options, "--", "fio", "--name=job",
        f"--filename={tool.path('file')}", f"--ioengine={engine}",
        "--bs=4k", "--size=1m", "--iodepth=16", *job)


@case("a fault that makes no sense is refused in one line with the right form")
def _(tool):
    for fault, words in (
        ("write", (FORM, "'write'")),
        ("", (FORM,)),
        ("wrte:eio", ("an operation such as read, write,", "'wrte'")),
        ("called:eio", ("an operation such as", "'called'")),
        ("timer:eio", ("other than timers", "'timer'")),
        ("write:eioo", ("delay=TIME", "such as eio", "'eioo'")),
        ("write:", ("such as eio", "''")),
        ("fsync:short", ("short for pread", "'short'")),
        ("read:delay", ("delay=5ms", "'delay'")),
        ("read:delay=5", ("ns, us, ms or s", "'delay=5'")),
        ("read:delay=0ms", ("delay=5ms",)),
        ("read:reorder=4000s", ("up to 3600s",)),
        ("read:eio@p=0", ("more than 0, at most 1", "'p=0'")),
        ("read:eio@p=1.1", ("more than 0, at most 1",)),
        ("read:eio@p=1e-3", ("more than 0, at most 1",)),
        ("read:eio@every=0", ("1 or more", "'every=0'")),
        ("read:eio@seed=-1", ("a number", "'seed=-1'")),
        ("read:eio@path=", ("a pattern", "'path='")),
        ("read:eio@only=", ("as in only=3+17-20", "'only='")),
        ("read:eio@only=0", ("256 numbers from 1",)),
        ("read:eio@only=3+", ("256 numbers from 1", "'only=3+'")),
        ("read:eio@only=4-3", ("256 numbers from 1",)),
        ("read:eio@only=" + "+".join(["1"] * 257), ("up to 256",)),
        ("read:eio@q=1", ("p=, seed=, after=", "'q=1'")),
        ("read:eio@", ("p=, seed=, after=",)),
        (";".join(["read:eio"] * 17), ("at most 16",)),
        ("read:eio write:x\ny", ("such as eio", "'x'")),
    ):
        tool.run("--fault", fault, "true").expect_refusal(
            2, "--fault=", "expected", *words)
    # The one that is wrong is shown.
    tool.run("--fault=read:eio", "--fault=write:x", "true").expect_refusal(
        2, "--fault=write:x:")
    tool.run("true", env={"UAIO_FAULT": "x"}).expect_refusal(2, "UAIO_FAULT=x")


@case("faults that are asked for in several options are made side by side")
def _(tool):
    tool.run("--fault=read:eio", "--fault", "write:short;fsync:delay=1s",
             "--fault=any:reorder", "sh", "-c", 'echo "$UAIO_FAULT"').expect(
                 out="read:eio write:short;fsync:delay=1s any:reorder\n")
    tool.run("--fault=read:eio", "--fault=off", "sh", "-c",
             'echo "$UAIO_FAULT"').expect(out="off\n")


@case("the report says loudly what was made on purpose")
def _(tool):
    path = tool.path("stats.json")
    outcome = tool.run(
        "--fault", "any:delay=1us@every=2 any:reorder=1us@count=3", "--stats",
        f"--stats-json={path}", "--", tool.args.client, "return")
    outcome.expect(err=None)
    line = ("  FAULTS ON PURPOSE: error 0, short 0, delay 17, reorder 3, defer 0; "
            "results and times are not the files' own\n")
    expect(line in outcome.err, True, outcome.err)
    with open(path) as file:
        stats = json.load(file)
    expect(stats["faults"],
           {"error": 0, "short": 0, "delay": 17, "reorder": 3, "defer": 0}, "faults")
    expect((stats["accepted"], stats["completed"]), (REQUESTS, REQUESTS),
           "requests")
    outcome = tool.run("--stats", "--", tool.args.client, "return")
    expect("FAULTS" in outcome.err, False, "of a run without faults")


@case("data are whole through every interface, in whatever order they come")
def _(tool):
    for engine in ENGINES:
        outcome = fio(
            tool, engine,
            ("any:reorder", "write:delay=2ms@p=0.1", "read:defer=2ms@p=0.1"),
            "--rw=randrw", "--verify=crc32c", "--verify_fatal=1",
            "--verify_state_save=0", "--fsync=20")
        outcome.expect(out=None, err=None)
        expect("FAULTS ON PURPOSE: error 0, short 0, " in outcome.err, True,
               outcome.story)
        expect("reorder 0," in outcome.err, False, outcome.story)
        # Of the other interfaces a request begins when it is submitted.
        expect("defer 0;" in outcome.err, engine != "io_uring", outcome.story)


@case("a program is told of an error through every interface")
def _(tool):
    for engine in ENGINES:
        for operation in "read", "write":
            # It is one of 256, and no other can end the job.
            outcome = fio(tool, engine,
                          (f"{operation}:enospc@after=9,count=1",),
                          f"--rw={operation}")
            expect((outcome.status != 0,
                    "No space left on device" in outcome.story,
                    "FAULTS ON PURPOSE: error 1, " in outcome.err),
                   (True, True, True), outcome.story)


@case("a program that goes on after a short transfer loses nothing")
def _(tool):
    text = "".join(f"line {i}\n" for i in range(100000))
    source, target = tool.write("source", text), tool.path("target")
    tool.run("--fault=any:short", "--fault=any:reorder", "--",
             tool.args.example_filter, source, target, "cat").expect()
    with open(target) as file:
        expect(file.read() == text, True, "the copy")


main()
