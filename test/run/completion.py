# SPDX-License-Identifier: MIT
"""Completion in each shell offers what the command takes."""
import os
import re
import shutil

from harness import Skip, case, expect, main

BASH = r"""
. "$0"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_uaio
printf '%s\n' "${COMPREPLY[@]}"
"""

# What the functions of the completion system are called with.
ZSH = r"""
file=$1
shift
_arguments() { print -rl -- "$@" }
compadd() { shift; print -rl -- "$@" }
words=("$@") CURRENT=$#
source $file
"""

OPTIONS = re.compile(r"^  (?:-\w, )?(--[a-z-]+)", re.M)


def script(tool, name):
    return os.path.join(tool.args.source, "completion", name)


def ask(tool, shell, *command):
    if not shutil.which(shell):
        raise Skip(f"{shell} is not installed")
    path = os.path.dirname(tool.uaio) + ":" + os.environ["PATH"]
    outcome = tool.exec(shell, *command, cwd=tool.scratch,
                        env={"PATH": path, "HOME": tool.scratch})
    outcome.expect(err=None)
    return outcome.out.splitlines()


def bash(tool, *words):
    return ask(tool, "bash", "--norc", "-c", BASH,
               script(tool, "uaio.bash"), *words)


def zsh(tool, *words):
    return ask(tool, "zsh", "-f", "-c", ZSH, "zsh", script(tool, "uaio.zsh"),
               *words)


def fish(tool, line):
    said = ask(tool, "fish", "--no-config", "-c",
               f"source {script(tool, 'uaio.fish')}; complete -C '{line}'")
    return [offered.split("\t")[0] for offered in said]


def subcommands(tool):
    usage = tool.exec(tool.uaio, "help").expect().out
    found = re.findall(r"^  uaio ([a-z]+) ", usage, re.M)
    expect("run" in found, True, usage)
    return found


def options(tool, subcommand):
    found = OPTIONS.findall(tool.exec(tool.uaio, subcommand, "--help"
                                      ).expect().out)
    expect("--help" in found, True, subcommand)
    return sorted(found)


def words_of_options(tool):
    """The words of run's options that take a list of words, as uaio itself prints them."""
    found = {}
    for option in options(tool, "run"):
        said = tool.run(f"{option}=?").err
        words = re.search(r": expected ([a-z0-9_, ]+ or [a-z0-9_]+)$", said)
        if words and not words[1].startswith(("a ", "numbers")):
            found[option] = re.split(", | or ", words[1])
    expect(found["--uring"], ["auto", "always", "never"], "--uring")
    return found


@case("bash offers each subcommand, option and value")
def _(tool):
    expect(sorted(bash(tool, "uaio", "")),
           sorted([*subcommands(tool), "--help", "--version"]), "subcommands")
    for name in set(subcommands(tool)) - {"help"}:
        expect(sorted(bash(tool, "uaio", name, "--")), options(tool, name), name)
    for option, words in words_of_options(tool).items():
        expect(bash(tool, "uaio", "run", option, "="), words, option)
        first = [word for word in words if word.startswith(words[0][0])]
        expect(bash(tool, "uaio", "run", option, "=", words[0][0]), first,
               option)


@case("bash tells the options of uaio trace from the command")
def _(tool):
    tool.write("bin/a-command", "#!/bin/sh\n")
    os.environ["PATH"] = tool.path("bin") + ":" + os.environ["PATH"]
    tool.write("a-file", "")
    for before in ((), ("--errors",), ("-o", "a-file"), ("--output", "a-file")):
        expect(set(bash(tool, "uaio", "trace", *before, "a-comm")),
               {"a-command"}, before)
    for option in "-o", "--chrome":
        expect(bash(tool, "uaio", "trace", option, "a-f"), ["a-file"], option)


@case("bash tells the options of uaio run from the command")
def _(tool):
    tool.write("bin/a-command", "#!/bin/sh\n")
    os.environ["PATH"] = tool.path("bin") + ":" + os.environ["PATH"]
    tool.write("a-file", "")
    for before in ((), ("--",), ("--strict",), ("--workers", "4"),
                   ("--workers", "=", "4"), ("--stats", "--verbose")):
        expect(set(bash(tool, "uaio", "run", *before, "a-comm")),
               {"a-command"}, before)
        # What is behind the command is its own.
        expect(bash(tool, "uaio", "run", *before, "a-command", "a-f"),
               ["a-file"], before)
        expect(bash(tool, "uaio", "run", *before, "a-command", "--ver"), [""],
               before)
    # The values of these are files, and not the command.
    for words in (("--stats-json", "a-f"), ("--stats", "=", "a-f")):
        expect(bash(tool, "uaio", "run", *words), ["a-file"], words)
    expect(bash(tool, "uaio", "run", "--max-nr", ""), [""], "a number")


@case("zsh offers each subcommand, option and value")
def _(tool):
    expect(sorted(zsh(tool, "uaio", "")),
           sorted([*subcommands(tool), "--help", "--version"]), "subcommands")
    for name in set(subcommands(tool)) - {"help"}:
        said = zsh(tool, "uaio", name, "--")
        found = sorted(re.match("--[a-z-]+", line)[0] for line in said
                       if line.startswith("--"))
        expect(found, options(tool, name), name)
    said = zsh(tool, "uaio", "run", "--")
    words = {}
    for line in said:
        taken = re.fullmatch(r"(--[a-z-]+)=.*:value:\((.*)\)", line)
        if taken:
            words[taken[1]] = taken[2].split()
    # The values of switches are not offered: their name is enough.
    wanted = {option: taken for option, taken in words_of_options(tool).items()
              if "1" not in taken}
    expect(words, wanted, "words")
    expect([line.endswith(":_files") for line in said
            if line.startswith("--stats")], [True, True], "files")


@case("fish offers each subcommand, option and value")
def _(tool):
    expect(sorted(fish(tool, "uaio ")),
           sorted([*subcommands(tool), "--help", "--version"]), "subcommands")
    for name in set(subcommands(tool)) - {"help"}:
        expect(sorted(fish(tool, f"uaio {name} --")), options(tool, name), name)
    for option, words in words_of_options(tool).items():
        expect(sorted(fish(tool, f"uaio run {option}=")),
               sorted(f"{option}={word}" for word in words), option)


main()
