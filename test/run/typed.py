# SPDX-License-Identifier: MIT
"""What newcomers type, and are told to type instead."""
import os

from harness import Skip, case, expect, main


@case("a value that was given as a word of its own is told how to give")
def _(tool):
    for option, word in (("--stats", "foo.txt"), ("--strict", "on"),
                         ("--bounce", "0")):
        tool.run(option, word, "true").expect_refusal(
            127, f"{word}: command not found", f"{option}={word})")
    # The file may be there, or its path may be given.
    there = tool.write("there", "", mode=0o644)
    tool.run("--stats", there, "true").expect_refusal(
        126, "Permission denied", f"--stats={there})")
    # What cannot be the value, or follows something else, is only not found.
    for arguments in (("--strict", "foo.txt"), ("--stats", "--", "foo.txt"),
                      ("--stats", "--max-nr", "1", "foo.txt"), ("foo.txt",)):
        outcome = tool.run(*arguments)
        outcome.expect(127, err="uaio: foo.txt: command not found\n")


@case("who types uaio bench where it is not installed is told where it is")
def _(tool):
    uaio = tool.copy_tool("alone")
    for arguments in ((), ("hot-read",), ("--quick",)):
        tool.exec(uaio, "bench", *arguments).expect_refusal(
            2, "run.py is not there", "in the source of uaio run make bench")


@case("a mistyped subcommand or option is told what was meant")
def _(tool):
    for words, meant in (
            (("stta",), "did you mean stat?"), (("doctro",), "doctor?"),
            (("--verison",), "did you mean --version?"),
            (("help", "runn"), "did you mean run?"),
            (("run", "--stat", "true"), "did you mean --stats?"),
            (("run", "--bounse=1", "true"), "did you mean --bounce?"),
            (("doctor", "--jsn"), "did you mean --json?"),
            (("top", "--bye", "file"), "did you mean --by?")):
        tool.exec(tool.uaio, *words).expect_refusal(2, meant)
    # Nothing is like these.
    for words in (("x",), ("run", "--" + 70 * "s", "true"), ("-" + 70 * "v",)):
        outcome = tool.exec(tool.uaio, *words).expect_refusal(2, "see uaio ")
        expect("did you mean" in outcome.err, False, outcome.story)


@case("a nonsense value of UAIO_CALLS is told of")
def _(tool):
    for value in ("foo", "ALL", "1:2", "1:2:x", ":1:1", "1:2:3 "):
        said = f"uaio: UAIO_CALLS={value}: expected all, or what uaio run sets\n"
        tool.run("true", env={"UAIO_CALLS": value}).expect(2, err=said)
        tool.exec("true", env={"UAIO_CALLS": value, "LD_PRELOAD": tool.library}
                  ).expect(err=said)
    for value in ("all", "", "1:2:0af"):
        tool.run("true", env={"UAIO_CALLS": value}).expect()
        tool.exec("true", env={"UAIO_CALLS": value, "LD_PRELOAD": tool.library}
                  ).expect()


@case("a command in quotes is told to be written without")
def _(tool):
    tool.run("fio --name=x").expect_refusal(
        127, "fio --name=x: command not found", "uaio run -- fio --name=x)")
    tool.run("fio x | tee y").expect_refusal(127, "uaio run -- sh -c")
    # A command may have such a name.
    tool.write("two words", "#!/bin/sh\necho here\n")
    tool.run("two words", env={"PATH": tool.scratch + ":/usr/bin:/bin"}
             ).expect(out="here\n")


@case("a forgotten run is told of")
def _(tool):
    tool.exec(tool.uaio, "env", "--help").expect_refusal(
        2, "env: no such subcommand", "uaio run -- env ...)")
    tool.exec(tool.uaio, "true").expect_refusal(2, "uaio run -- true)")
    outcome = tool.exec(tool.uaio, "fly")
    outcome.expect(2, err="uaio: fly: no such subcommand; see uaio help\n")


@case("an option that is none is told where the options are")
def _(tool):
    for command in ("run", "doctor", "stat", "top", "trace", "check"):
        where = f"see uaio {command} --help"
        for option in ("--no-such", "-Z"):
            tool.exec(tool.uaio, command, option).expect(
                2, err=f"uaio: {command}: {option}: no such option; {where}\n")
        tool.exec(tool.uaio, command, "--help=x").expect_refusal(
            2, "--help takes no value", where)
    for words in (("run", "--nice"), ("doctor", "--path"), ("trace", "-p"),
                  ("trace", "--slower"), ("top", "-n"), ("top", "--by")):
        tool.exec(tool.uaio, *words).expect(
            2, err=f"uaio: {words[0]}: {words[1]}: its value is missing; see "
                   f"uaio {words[0]} --help\n")


@case("an option of uaio run is told where to type it")
def _(tool):
    for command in ("trace", "check"):
        tool.exec(tool.uaio, command, "--uring=always", "true").expect_refusal(
            2, f"uaio {command} -- uaio run --uring=always ...)")
    tool.exec(tool.uaio, "doctor", "--trap", "true").expect_refusal(
        2, "one of uaio run: uaio run --trap ...)")


@case("the option -v is told what it could mean")
def _(tool):
    tool.exec(tool.uaio, "-v").expect_refusal(2, "-v: no such option", "-V",
                                              "--verbose")
    tool.run("-v", "true").expect_refusal(2, "-v: no such option", "-V",
                                          "--verbose")
    tool.exec(tool.uaio, "-x").expect_refusal(2, "-x: no such option",
                                              "uaio help")


@case("a variable that nothing reads is told of once")
def _(tool):
    said = ("uaio: UAIO_STAT: no such variable, it has no effect; did you "
            "mean UAIO_STATS?\n")
    twice = ("sh", "-c", f"{tool.args.target}; {tool.args.target}")
    env = {"UAIO_STAT": "yes"}
    # What it starts says nothing, and a run inside it neither.
    tool.run(*twice, env=env).expect(err=said, out="libuaio.so.0\n" * 2)
    tool.run(tool.uaio, "run", *twice, env=env).expect(
        err=said, out="libuaio.so.0\n" * 2)
    # The library by itself says it where it is loaded.
    loaded = {"LD_PRELOAD": tool.library, "LD_LIBRARY_PATH": tool.lib_dir}
    tool.exec("true", env={**env, **loaded}).expect(err=said)
    # Nothing is like this one.
    unlike = {"UAIO_FOOT_BALL": "", **loaded}
    tool.exec("true", env=unlike).expect(
        err="uaio: UAIO_FOOT_BALL: no such variable, it has no effect; see "
            "uaio run --help\n")


@case("a variable of somebody else's that is named like ours can be ignored")
def _(tool):
    env = {"UAIO_HOME": "/", "UAIO_B": "", "UAIO_IGNORED": "UAIO_B UAIO_HOME"}
    tool.run("true", env=env).expect()
    tool.exec("true", env={**env, "LD_PRELOAD": tool.library}).expect()
    # Those that are told of are added, and the list is passed on.
    env["UAIO_C"] = ""
    outcome = tool.run("sh", "-c", "echo $UAIO_IGNORED", env=env)
    outcome.expect(out="UAIO_B UAIO_HOME UAIO_C\n", err=None)
    expect(outcome.err.count("\n"), 1, "lines of UAIO_C alone")


@case("variables that are no options are known")
def _(tool):
    for variable in ("UAIO_CALLS", "UAIO_COUNTERS", "UAIO_IGNORED"):
        tool.run("true", env={variable: ""}).expect()


@case("uaio finds its library where there is no /proc")
def _(tool):
    if os.geteuid():
        raise Skip("only root can hide /proc")
    uaio = tool.copy_tool("moved")
    tool.exec("unshare", "--mount", "sh", "-c",
              'mount -t tmpfs none /proc && exec "$0" run true',
              uaio).expect()


main()
