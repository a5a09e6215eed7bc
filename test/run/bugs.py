# SPDX-License-Identifier: MIT
"""examples/bugs: `uaio check` says of each program what its comments expect."""
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess

from harness import Skip, case, expect, main

AT_ONCE = 4  # some wait for half a second
FOUND = 99  # the exit status of `uaio check` after a report
KINDS_MIN = 9
HINTS_MIN = 8
RIGHT_MIN = 19
# What else checks memory, by the option of the compiler, or the command.
CHECKERS = {
    "address": ("-fsanitize=address", {"ASAN_OPTIONS": "detect_leaks=0"}, ()),
    "valgrind": (None, {}, ("valgrind", "-q", "--error-exitcode=99")),
}


class Example:
    """A program of examples/bugs, and what its comments say about it."""

    def __init__(self, source, program):
        self.name = os.path.basename(source)
        self.source = source
        self.program = program
        self.kind, self.lines, self.alone = None, {}, []
        self.kind_with_address = None  # with AddressSanitizer in the program
        self.kind_with_thread = None  # with ThreadSanitizer
        self.tries = 1  # more where a busy machine may be late for the mistake
        with open(source) as file:
            for number, line in enumerate(file, 1):
                for what in re.findall(r"\bexpect: ([\w-]+)", line):
                    if what in ("now", "submitted", "other"):
                        self.lines[what] = number
                    else:
                        expect(self.kind, None, f"{source}: the first kind")
                        self.kind = what
                self.alone += re.findall(r"\balone: (\w+)", line)
                for kind in re.findall(r"\bwith address: ([\w-]+)", line):
                    self.kind_with_address = kind
                for kind in re.findall(r"\bwith thread: ([\w-]+)", line):
                    self.kind_with_thread = kind
                for tries in re.findall(r"\btries: (\d+)", line):
                    self.tries = int(tries)
        assert self.kind, f"{source} does not say what to expect"
        self.kind_with_address = self.kind_with_address or self.kind
        if self.kind == "nothing" and self.kind_with_address == "nothing":
            self.kind_with_thread = self.kind_with_thread or self.kind

    def is_at(self, frames, line):
        """Return: whether a frame is at this line of the source."""
        return any(os.path.basename(frame["file"] or "") == self.name and
                   frame["line"] == line for frame in frames)

    def check_hints(self, tool):
        """Run it with --hints, and without. Return: what is wrong, or None."""
        path = tool.path(f"{os.path.basename(self.program)}.json")
        without = tool.exec(tool.uaio, "check", "--", self.program)
        for _ in range(self.tries):
            outcome = tool.exec(tool.uaio, "check", "--hints", "--json", path, "--",
                                self.program)
            with open(path) as file:
                reports = [json.loads(line) for line in file]
            if reports:
                break
        is_found = self.kind != "nothing"
        is_right = (
            (without.status, without.err, outcome.status) == (0, "", 0)
            and [(report["kind"], report["severity"]) for report in reports]
            == [(self.kind, "hint")] * is_found
            and ("check: 1 hint at 1 place" in outcome.err) == is_found
            and all(self.is_at(report["stacks"][stack], line) for report in reports
                    for stack, line in self.lines.items()))
        return None if is_right else f"{self.name}: {reports}\n{without.story}\n{outcome.story}"

    def check(self, tool, sanitizer=None):
        """Run it under uaio check, with or without a sanitizer in it. Return: what is
        wrong with the reports, or None."""
        kind = {"address": self.kind_with_address, "thread": self.kind_with_thread,
                "memory": self.kind, None: self.kind}[sanitizer]
        program, env = self.program, {}
        if sanitizer:
            program = sanitized(tool, self, f"-fsanitize={sanitizer}")
            env = {"ASAN_OPTIONS": "detect_leaks=0"}
        path = tool.path(f"{os.path.basename(program)}.json")
        for _ in range(self.tries):
            outcome = tool.exec(tool.uaio, "check", "--json", path, "--", program, env=env)
            with open(path) as file:
                reports = [json.loads(line) for line in file]
            if reports:
                break
        wanted = [] if kind == "nothing" else [kind]
        kinds = [report["kind"] for report in reports]
        problem = None
        if kinds != wanted:
            problem = f"reports {kinds}, not {wanted}"
        elif outcome.status != (FOUND if wanted else 0):
            problem = f"exit status {outcome.status}"
        elif not wanted and outcome.err and sanitizer != "address":
            problem = "is not silent"
        elif wanted:
            # What a sanitizer has found has its stack in the sanitizer's own report.
            missed = [f"{stack} at line {line}" for stack, line in self.lines.items()
                      if (kind == self.kind or stack == "submitted")
                      and not self.is_at(reports[0]["stacks"][stack], line)]
            if missed:
                problem = "the report lacks " + " and ".join(missed)
        return problem and f"{self.name}: {problem}\n{outcome.story}"


def examples(tool, has_hints=False):
    """The examples of this directory that can be built here."""
    folder = os.path.join(tool.args.source, "examples", "bugs")
    found = []
    for source in sorted(glob.glob(f"{folder}/**/*.c*", recursive=True)):
        stem = os.path.splitext(os.path.relpath(source, folder))[0]
        program = os.path.join(tool.args.bugs, stem.replace(os.sep, "-"))
        if os.path.exists(program) and stem.startswith("hints/") == has_hints:
            found.append(Example(source, program))
    return found


def for_all(function, things):
    """Call function for each example, and fail if a call returns a text."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        problems = [problem for problem in pool.map(function, things) if problem]
    if problems:
        raise AssertionError(f"{len(problems)} programs:\n" + "\n".join(problems))


@case("uaio check finds each bug of the gallery at its line, and nothing else")
def _(tool):
    gallery = examples(tool)
    kinds = {example.kind for example in gallery} - {"nothing"}
    expect(len(kinds) >= KINDS_MIN, True, f"kinds: {kinds}")
    for_all(lambda example: example.check(tool), gallery)


@case("uaio check --hints finds what each program of the hints does, and no error")
def _(tool):
    gallery = examples(tool, has_hints=True)
    expect(len(gallery) >= HINTS_MIN, True, "programs with hints")
    for_all(lambda example: example.check_hints(tool), gallery)


@case("a hint is left out by a suppression")
def _(tool):
    [example] = [each for each in examples(tool, has_hints=True)
                 if each.kind == "user-data-freed"]
    known = tool.path("known")
    with open(known, "w") as file:
        file.write("user-data-freed:main\n")
    outcome = tool.exec(tool.uaio, "check", "--hints", "--suppressions", known, "--",
                        example.program)
    outcome.expect(0, err=None)
    expect(("HINT" in outcome.err, "suppressed 1 time" in outcome.err), (False, True),
           outcome.story)


def has_uring(tool):
    return tool.exec(os.path.join(tool.args.bugs, "right-uring-cancelled")).status == 0


@case("the programs of the gallery end by themselves on the kernel, with status 0")
def _(tool):
    gallery = [example for example in examples(tool)
               if not os.path.basename(example.program).startswith(("uring", "right-uring"))
               or has_uring(tool)]

    def run(example):
        outcome = tool.exec(example.program)
        return outcome.story if outcome.status or outcome.err else None

    for_all(run, gallery)


def sanitized(tool, example, option):
    """The program, built with a sanitizer."""
    program = tool.path(os.path.basename(example.program) + option.replace("=", "-"))
    compiler = "c++" if example.name.endswith(".cc") else "cc"
    if option == "-fsanitize=memory":
        compiler = "clang"  # gcc has none
    library = {"uring": ["-luring"], "aio": ["-laio"]}
    interface = re.sub("^right-", "", os.path.basename(example.program)).split("-")[0]
    tool.exec(compiler, "-g", option, "-o", program, example.source,
              *library.get(interface, [])).expect(out=None, err=None)
    return program


@case("AddressSanitizer and valgrind alone do not find the bugs of the gallery",
      suite="stress")
def _(tool):
    if not has_uring(tool):
        raise Skip("the kernel has no io_uring for this user")

    def run(example):
        found = []
        for checker, (option, env, command) in CHECKERS.items():
            program = sanitized(tool, example, option) if option else example.program
            outcome = tool.exec(*command, program, env=env)
            if outcome.status:
                found.append(checker)
        # Some of glibc's threads make their call after the mistake, others before.
        more = set(found) - set(example.alone)
        return f"{example.name}: found by {more}" if more else None

    for_all(run, [example for example in examples(tool)
                  if example.kind_with_address != "nothing"])


@case("with AddressSanitizer in them, uaio check finds the bugs of the gallery, and more",
      suite="client")
def _(tool):
    gallery = examples(tool)
    kinds = {example.kind_with_address for example in gallery}
    expect({"unaddressable", "touched-in-flight"} <= kinds, True, f"kinds: {kinds}")
    for_all(lambda example: example.check(tool, "address"), gallery)


@case("with ThreadSanitizer in them, uaio check finds the races of the gallery, and no other",
      suite="client")
def _(tool):
    gallery = [example for example in examples(tool) if example.kind_with_thread]
    kinds = {example.kind_with_thread for example in gallery}
    expect(kinds, {"race-in-flight", "nothing"}, "kinds")
    for_all(lambda example: example.check(tool, "thread"), gallery)


@case("with MemorySanitizer in them, uaio check says nothing of the gallery's right programs",
      suite="client")
def _(tool):
    if not shutil.which("clang"):
        raise Skip("there is no clang")
    gallery = [example for example in examples(tool) if example.kind == "nothing"
               and os.path.basename(example.program).startswith("right-")]
    expect(len(gallery) >= RIGHT_MIN, True, "right programs")
    for_all(lambda example: example.check(tool, "memory"), gallery)


@case("uaio check finds the bugs of the gallery's programs in Rust", suite="client")
def _(tool):
    source = tool.args.source
    folder = subprocess.run(
        [os.path.join(source, "tools", "fetch-crate"), "bugs/rust",
         os.path.join(tool.args.build, "test", "oracle", "crate-bugs")],
        stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    gallery = [
        Example(path, os.path.join(folder, os.path.splitext(os.path.basename(path))[0]))
        for path in sorted(glob.glob(os.path.join(source, "examples/bugs/rust/*-*.rs")))]
    expect(len(gallery) > 3, True, "programs in Rust")
    for_all(lambda example: example.check(tool), gallery)


main()
