# SPDX-License-Identifier: MIT
"""Options and their variables."""
import os
import re

from harness import case, expect, main

SHOW = ("env",)


def variables(outcome):
    """The UAIO_ variables in the output of env, but the one that is always set."""
    outcome.expect()
    lines = (line.partition("=") for line in outcome.out.splitlines())
    return {name: value for name, _, value in lines
            if name.startswith("UAIO_") and name != "UAIO_RUN_PID"}


@case("an option reaches the program as its variable")
def _(tool):
    for arguments, wanted in (
        ((), {}),
        (("--max-nr", "70"), {"UAIO_MAX_NR": "70"}),
        (("--max-nr=71",), {"UAIO_MAX_NR": "71"}),
        (("--strict",), {"UAIO_STRICT": "1"}),
        (("--strict=off",), {"UAIO_STRICT": "off"}),
        (("--never-block", "--force-worker=yes"),
         {"UAIO_NEVER_BLOCK": "1", "UAIO_FORCE_WORKER": "yes"}),
        (("--max-nr=1", "--max-nr=2", "--"), {"UAIO_MAX_NR": "2"}),
        (("--workers", "4,8", "--fixed=2", "--max-items=16,0"),
         {"UAIO_WORKERS": "4,8", "UAIO_FIXED": "2",
          "UAIO_MAX_ITEMS": "16,0"}),
        (("--nice", "-5"), {"UAIO_NICE": "-5"}),
        (("--uring", "always", "--no-patch"),
         {"UAIO_URING": "always", "UAIO_NO_PATCH": "1"}),
    ):
        expect(variables(tool.run(*arguments, *SHOW)), wanted, arguments)


@case("every option in the help is accepted and sets the variable beside it")
def _(tool):
    rows = re.findall(r"^  (--[\w-]+)(\S*) +([A-Z]\S*)? +(UAIO_\w+) ",
                      tool.run("--help").out, re.M)
    expect(len(rows) >= 12, True, "rows in the help")
    for flag, optional, placeholder, variable in rows:
        expect(variable, "UAIO_" + flag[2:].upper().replace("-", "_"), flag)
        value = "1"
        if placeholder == "FILE":
            value = tool.path("statistics")
        elif placeholder == "LIST":
            value = str(min(os.sched_getaffinity(0)))
        elif placeholder == "ON|OFF":
            value = "off"
        elif placeholder == "WHEN":
            value = "never"
        elif placeholder == "SPEC":
            value = "read:eio"
        elif placeholder == "WHICH":
            value = "aio"
        elif optional == "[=WHEN]":
            value = "auto"
        elif optional:
            value = "-"
        outcome = tool.run(f"{flag}={value}" if placeholder else flag, *SHOW)
        outcome.err = ""  # some say something there
        expect(variables(outcome), {variable: value}, flag)


@case("options of the program are left to the program")
def _(tool):
    for separator in ((), ("--",)):
        tool.run(*separator, "printf", "%s\n", "--strict", "--help").expect(
            out="--strict\n--help\n")


@case("a variable that is set already reaches the program and an option wins")
def _(tool):
    env = {"UAIO_MAX_NR": "5", "UAIO_STRICT": "yes"}
    expect(variables(tool.run(*SHOW, env=env)), env, "without an option")
    expect(variables(tool.run("--max-nr=6", *SHOW, env=env)),
           {"UAIO_MAX_NR": "6", "UAIO_STRICT": "yes"}, "with an option")


@case("a nonsense value of an option is refused in one line that helps")
def _(tool):
    marker = tool.path("marker")
    for arguments, words in (
        (("--max-nr", "abc"), ("--max-nr=abc", "0 to 4294967295")),
        (("--max-nr=",), ("--max-nr=:", "0 to 4294967295")),
        (("--max-nr=4294967296",), ("--max-nr=4294967296", "to 4294967295")),
        (("--uring=sometimes",), ("--uring=sometimes", "auto, always or never")),
        (("--posix=never",), ("--posix=never", "on or off")),
        (("--strict=maybe",), ("--strict=maybe", "yes, no, on, off, 1 or 0")),
        (("--max-nr", "a\nb"), ("--max-nr=a?b",)),
        (("--workers=4097",), ("--workers=4097:", "0 to 4096", "2,1")),
        (("--workers=-1",), ("--workers=-1:", "0 to 4096")),
        (("--fixed=1,17",), ("--fixed=1,17:", "0 to 16")),
        (("--max-items=1,2,3",), ("--max-items=1,2,3:", "0 to 1024")),
        (("--cpus=2-1",), ("--cpus=2-1:", "0-2,5")),
        (("--nice=20",), ("--nice=20:", "-20 to 19")),
    ):
        tool.run(*arguments, "mkdir", marker).expect_refusal(2, *words)
    tool.exec("test", "!", "-e", marker).expect()


@case("a value that was forgotten is not taken from what follows")
def _(tool):
    marker = tool.path("marker")
    for arguments in (("--stats-json", "--"), ("--stats-json", "--verbose"),
                      ("--max-nr", "--"), ("--cpus", "--strict", "--")):
        tool.run(*arguments, "mkdir", marker).expect_refusal(
            2, f"{arguments[0]}: ", f"before '{arguments[1]}'")
    tool.exec("test", "!", "-e", marker).expect()
    expect(os.path.exists("--"), False, "a file of that name")
    # After an equals sign it is a value.
    name = tool.path("--")
    tool.run(f"--stats-json={name}", "true").expect()
    expect(os.path.exists(name), True, "a file of that name")


@case("a nonsense value of a variable is refused in one line that helps")
def _(tool):
    for variable, value, accepted in (
        ("UAIO_MAX_NR", "-1", "0 to 4294967295"),
        ("UAIO_STRICT", "2", "yes, no, on, off, 1 or 0"),
        ("UAIO_VERBOSE", "", "yes, no, on, off, 1 or 0"),
        ("UAIO_WORKERS", "2,", "0 to 4096"),
        ("UAIO_CPUS", "", "0-2,5"),
        ("UAIO_NICE", "-21", "-20 to 19"),
    ):
        tool.run("true", env={variable: value}).expect_refusal(
            2, f"{variable}={value}:", accepted)


@case("more fixed workers than workers are refused in one line")
def _(tool):
    for arguments, env, value in (
        (("--workers=2", "--fixed=3"), {}, "3"),
        (("--workers=4,1", "--fixed=4,2"), {}, "4,2"),
        (("--workers=2",), {"UAIO_FIXED": "16"}, "16"),
    ):
        tool.run(*arguments, "true", env=env).expect_refusal(
            2, f"--fixed={value}:", "no more fixed workers than workers")
    tool.run("--workers=3", "--fixed=3,16", "true").expect()
    # The library by itself says it, too, and goes on.
    env = {"LD_PRELOAD": tool.library, "UAIO_WORKERS": "2", "UAIO_FIXED": "3"}
    tool.exec("true", env=env).expect(
        err="uaio: UAIO_FIXED=3: expected no more fixed workers than workers\n")


@case("processors of which none may be used are refused in one line")
def _(tool):
    allowed = os.sched_getaffinity(0)
    absent = max(allowed) + 1
    tool.run(f"--cpus={absent}-8191", "true").expect_refusal(
        2, f"--cpus={absent}-8191:", "none of these")
    # Of several, one is enough; and an inherited mask is what counts.
    some = f"{min(allowed)},{absent}"
    for options, env in ((("--cpus", some), {}), ((), {"UAIO_CPUS": some})):
        tool.run(*options, "true", env=env).expect(
            err=f"uaio: --cpus={some}: the command may not use processor "
                f"{absent} and is run without it\n")
    tool.run(f"--cpus={min(allowed)}", "true").expect()
    if len(allowed) > 1:
        tool.exec("taskset", "-c", str(min(allowed)), tool.uaio, "run",
                  f"--cpus={max(allowed)}", "true").expect_refusal(
                      2, f"--cpus={max(allowed)}:", "none of these")


@case("a nonsense value of a variable is no matter where an option wins")
def _(tool):
    tool.run("--max-nr=1", "true", env={"UAIO_MAX_NR": "x"}).expect()


@case("an unknown option and a missing value are refused")
def _(tool):
    tool.run("--no-such", "true").expect_refusal(2, "--no-such")
    tool.run("--max-nr").expect_refusal(2, "--max-nr")


@case("a run of nothing is refused")
def _(tool):
    for arguments in ((), ("--strict",), ("--",)):
        tool.run(*arguments).expect_refusal(2, "which command")


@case("verbose names the program and the library in one line")
def _(tool):
    program = tool.copy(tool.args.target, "program")
    line = (f"uaio: run: {program} with {tool.library} in front of "
            "libaio.so.1, libaio.so.1t64 and syscall(2)\n")
    for options in (
        {"arguments": ("--verbose",), "env": {}},
        {"arguments": (), "env": {"UAIO_VERBOSE": "on"}},
    ):
        outcome = tool.run(*options["arguments"], "program",
                           env={"PATH": tool.scratch, **options["env"]})
        outcome.expect(out="libuaio.so.0\n", err=None)
        expect([said for said in outcome.err.splitlines(True)
                if said.startswith("uaio: run: ")], [line], options)


@case("the help fits 80 columns and goes to the standard output")
def _(tool):
    for arguments in (("run", "--help"), ("run", "-h"), ("help", "run"),
                      ("help",), ("--help",)):
        outcome = tool.exec(tool.uaio, *arguments).expect()
        expect("usage:" in outcome.out, True, f"usage from {arguments}")
        expect([line for line in outcome.out.splitlines() if len(line) > 80],
               [], f"too long in {arguments}")


@case("the version is the same wherever it is asked for")
def _(tool):
    first = tool.exec(tool.uaio, "--version").expect().out
    expect(bool(re.fullmatch(r"uaio \d+\.\d+\.\d+\n"
                             r"for [a-z0-9_]+, (glibc [0-9.]+|musl)\n", first)),
           True, first)
    tool.run("--version").expect(out=first)


@case("uaio alone shows the usage and an unknown subcommand is refused")
def _(tool):
    outcome = tool.exec(tool.uaio).expect(status=2, out="", err=None)
    expect("usage:" in outcome.err, True, "usage")
    tool.exec(tool.uaio, "fly").expect_refusal(2, "fly", "uaio help")
    tool.exec(tool.uaio, "help", "fly").expect_refusal(2, "fly")


@case("an output that cannot be written is told of, and is no success")
def _(tool):
    for words in (("--help",), ("--version",), ("help", "run"), ("stat", "--openmetrics"),
                  ("stat", "--help"), ("doctor",), ("doctor", "--json"),
                  ("doctor", "--help"), ("top", "--help"), ("run", "--help"), ("run", "--version"),
                  ("top", "-b", "-n", "1", "-d", "0.1"), ("trace", "--help"), ("check", "--help")):
        for redirection, error in ((">/dev/full", "No space left on device"),
                                   (">&-", "Bad file descriptor")):
            tool.exec("sh", "-c", f'"$@" {redirection}', "sh", tool.uaio, *words
                      ).expect_refusal(2, error)


main()
