# SPDX-License-Identifier: MIT
"""uaio check --seeds: a failure that only other orders or short transfers show."""
import os
import re
import shlex
import shutil

from harness import case, expect, main

# Late enough that nothing else on a busy machine is as late.
LATE = "any:delay=200ms@p=0.1"
ATTEMPTS = 8


def check(tool, *arguments, **options):
    return tool.exec(tool.uaio, "check", *arguments, **options)


def check_mistake(tool, *arguments):
    """On a loaded machine, threads may end two requests in any order. Then a program with
    a mistake fails without a change, too, and the command says so, whichever run it was."""
    for _ in range(ATTEMPTS):
        outcome = check(tool, *arguments)
        if "It depends on chance" not in outcome.err:
            break
    return outcome


def replay(tool, outcome):
    """Run the command that is printed, and expect the same failure."""
    found = re.search(r"\n    uaio (check --fault .*)\n", outcome.err)
    expect(bool(found), True, outcome.story)
    again = tool.exec(tool.uaio, *shlex.split(found[1]))
    expect((again.status, "is wrong" in again.out), (1, True), again.story)


def expect_found(outcome, kind, function="read_pair"):
    outcome.expect(status=99, err=None)
    expect(re.findall(r"its exit status is (\d)", outcome.err), ["1", "0"],
           outcome.story)
    expect(bool(re.search(r"It needs 1 of \d+ changes, and failed in 3 of 3",
                          outcome.err)), True, outcome.story)
    expect(len(re.findall(rf"\n    {kind} of request \d+, pread on descriptor "
                          r"\d+ \(/memfd:orders", outcome.err)), 1,
           outcome.story)
    expect("\n      submitted here:\n        #0 0x" in outcome.err, True,
           outcome.story)
    if shutil.which("addr2line"):
        expect(bool(re.search(rf" in {function} .*/orders\.c:\d+\n", outcome.err)),
               True, outcome.story)
    expect("  What it printed:\n    byte " in outcome.err, True,
           outcome.story)


@case("a program that takes a short read for a whole one fails with one short read")
def _(tool):
    outcome = check(tool, "--seeds", "20", "--", tool.args.orders, "short")
    expect_found(outcome, "short")
    replay(tool, outcome)


@case("a program that counts on the order of completions fails with one late read")
def _(tool):
    outcome = check_mistake(tool, "--seeds=20", "--fault", LATE, "--",
                            tool.args.orders, "order")
    expect_found(outcome, "delay")
    replay(tool, outcome)


@case("a program that takes what it cancels for complete fails with one request deferred")
def _(tool):
    # Only of the reads that are cancelled, so that nobody waits for one to begin.
    outcome = check_mistake(tool, "--seeds=20", "--fault", "read:defer=60s@after=32,p=0.4",
                            "--", tool.args.orders, "cancel")
    expect_found(outcome, "defer", "read_or_cancel")
    expect(": it begins 60000.000 ms late" in outcome.err, True, outcome.story)
    replay(tool, outcome)


@case("the seed that fails is a JSON object of the schema, whose command fails again")
def _(tool):
    import json
    import jsonschema
    path = tool.path("seed.jsonl")
    check(tool, "--seeds", "20", "--json", path, "--", tool.args.orders,
          "short").expect(status=99, err=None)
    with open(tool.args.check_schema) as file:
        validator = jsonschema.Draft7Validator(json.load(file))
    with open(path) as file:
        objects = [json.loads(line) for line in file]
    expect([found["kind"] for found in objects], ["seed-failed"], str(objects))
    expect(list(validator.iter_errors(objects[0])), [], str(objects))
    command = shlex.split(objects[0]["command"])
    expect(command[0], "uaio", str(command))
    again = tool.exec(tool.uaio, *command[1:])
    expect(again.status, 1, again.story)


@case("a program without such mistakes fails with no seed")
def _(tool):
    outcome = check(tool, "--seeds", "9", "--", tool.args.orders)
    outcome.expect(out="", err=None)
    expect(bool(re.fullmatch(
        r"uaio: check: none of 9 seeds fails, with \d+ changes\n",
        outcome.err)), True, outcome.story)


@case("the one seed that is asked for is tried")
def _(tool):
    outcome = check(tool, "--seed=2", "--", tool.args.orders, "short")
    expect_found(outcome, "short")
    expect("seed 2 fails" in outcome.err, True, outcome.story)


@case("a command that does not end with some seed is ended, with what it started")
def _(tool):
    script = '[ -z "$UAIO_FAULT" ] || { sleep 1000 & sleep 1000; }'
    read, write = os.pipe()
    outcome = check(tool, "--seeds=3", "--timeout=1", "--", "sh", "-c", script,
                    pass_fds=(write,))
    outcome.expect(status=99, err=None)
    expect("it has not ended after 1 s; without changes, its exit status is 0"
           in outcome.err, True, outcome.story)
    # The pipe ends when all that have inherited it have ended.
    os.close(write)
    expect(os.read(read, 1), b"", "from what was started")
    os.close(read)
    expect("No request was changed" in outcome.err, True, outcome.story)


@case("faults of several options, or of the variable, are those of the seeds")
def _(tool):
    command = "--", tool.args.orders, "short"
    for arguments, env in (
        (("--fault=nop:eio", "--fault", "read:short@after=3,count=1"), {}),
        ((), {"UAIO_FAULT": "nop:eio read:short@after=3,count=1"}),
    ):
        outcome = check(tool, "--seeds=2", *arguments, *command, env=env)
        outcome.expect(status=99, err=None)
        expect("\n    uaio check --fault read:short@seed=1,only=4 -- "
               in outcome.err, True, outcome.story)
    # Without seeds they are made in the one run.
    check(tool, "--fault=nop:eio", "--fault=read:short", *command).expect(
        status=1, err=None)


@case("what makes no sense with seeds is refused in one line")
def _(tool):
    for arguments, words in (
        (("--seeds=0",), ("--seeds=0", "a number from 1")),
        (("--seeds=x",), ("--seeds=x", "a number from 1")),
        (("--seed=-1",), ("--seed=-1", "a number from 1")),
        (("--seeds=3", "--seed=4"), ("--seeds", "--seed")),
        (("--timeout=3",), ("--timeout", "--seeds")),
        (("--seeds=3", "--timeout=0"), ("--timeout=0", "seconds")),
        (("--seeds=3", "--fault=write:x"), ("--fault=write:x", "expected")),
        (("--fault=nop:eio",) * 17, ("at most 16",)),
        (("--fault=off:x",), ("--fault=off:x", "expected")),
    ):
        check(tool, *arguments, "--", "true").expect_refusal(2, *words)


main()
