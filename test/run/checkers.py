# SPDX-License-Identifier: MIT
"""uaio check, of programs that have a checker in them, or that run under one."""
import re

import shutil

from harness import Skip, case, expect, main


def built(tool):
    """The program, with AddressSanitizer."""
    program = tool.path("asan")
    outcome = tool.exec("cc", "-g", "-O1", "-fsanitize=address", "-o", program,
                        tool.args.source + "/test/run/asan.c")
    if outcome.status:
        raise Skip("the compiler has no AddressSanitizer")
    alone = tool.exec(program, "right")
    if alone.status:
        raise Skip("AddressSanitizer does not run here")
    return program


def check(tool, program, name, *options, **env):
    return tool.exec(tool.uaio, "check", *options, "--", program, name, env=env)


# What is done wrongly; what each of the two says; and the functions of the stack.
WRONG = {
    "freed": ("heap-use-after-free", "unaddressable", "read_into"),
    "short": ("heap-buffer-overflow", "unaddressable", "read_into"),
    "sent": ("heap-buffer-overflow", "unaddressable", "sent"),
    "touched": ("use-after-poison", "touched-in-flight", "read_into"),
    "cleared": ("use-after-poison", "touched-in-flight", "read_into"),
}


def expect_both(outcome, asan, ours, function):
    """Check that the sanitizer's report and, below it, uaio's report are there, each
    once."""
    reports = re.findall("ERROR: (.*?)[ \n]", outcome.err.replace("uaio check", "uaio-check"))
    expect(reports, ["AddressSanitizer:", "uaio-check:"], outcome.story)
    theirs, below = outcome.err.split("ERROR: uaio check: ")
    for text, words in ((theirs, (asan, "asan.c:")), (below, (ours, function, "rule:"))):
        for word in words:
            expect(word in text, True, f"{word}: {outcome.story}")


@case("AddressSanitizer reports wrong memory of requests, and uaio check which request")
def _(tool):
    program = built(tool)
    for name, (asan, ours, function) in WRONG.items():
        outcome = check(tool, program, name).expect(99, err=None)
        expect_both(outcome, asan, ours, function)


@case("memory that requests in flight have is the program's again when they are complete")
def _(tool):
    program = built(tool)
    check(tool, program, "right").expect(0)
    # No report without uaio check, of the right program or of others.
    tool.run(program, "right").expect(0)
    tool.run(program, "touched").expect(0)


@case("memory that is mapped where a request has some is the program's to use")
def _(tool):
    outcome = check(tool, built(tool), "mapped").expect(99, err=None)
    expect(re.findall("ERROR: (.*?)[ \n]", outcome.err), ["uaio"], outcome.story)
    expect("unmapped-in-flight" in outcome.err, True, outcome.story)


@case("a program goes on after AddressSanitizer's report if it is to")
def _(tool):
    program = tool.path("recovering")
    built(tool)
    tool.exec("cc", "-g", "-O1", "-fsanitize=address", "-fsanitize-recover=address",
              "-o", program, tool.args.source + "/test/run/asan.c").expect(err=None)
    for name in ("touched", "cleared"):
        outcome = check(tool, program, name, ASAN_OPTIONS="halt_on_error=0")
        outcome.expect(99, err=None)
        expect("1 error at 1 place" in outcome.err, True, outcome.story)


@case("what is freed in flight is reported by the allocator of AddressSanitizer")
def _(tool):
    outcome = check(tool, built(tool), "free").expect(99, err=None)
    reported = re.findall("#0 .*", outcome.err)
    expect(len(reported), 2, outcome.story)
    expect(re.search("#[01] .* free_in_flight .*asan.c", outcome.err) is not None, True,
           outcome.story)
    expect("freed-in-flight" in outcome.err, True, outcome.story)


@case("memcheck reports wrong memory of requests, and uaio check which request")
def _(tool):
    if not shutil.which("valgrind"):
        raise Skip("there is no valgrind")
    program = tool.path("plain")
    tool.exec("cc", "-g", "-O1", "-o", program,
              tool.args.source + "/test/run/asan.c").expect(err=None)
    if tool.exec("valgrind", "--quiet", program, "right").status:
        raise Skip("valgrind does not run here")
    wrong = {
        "freed": ("bytes inside a block of size 100 free'd", "unaddressable", "read_into"),
        "short": ("bytes after a block of size 99 alloc'd", "unaddressable", "read_into"),
        "sent": ("bytes after a block of size 20 alloc'd", "unaddressable", "sent"),
        "raw": ("Uninitialised byte(s) found", "uninitialised", "raw"),
    }
    for name, (memcheck, ours, function) in wrong.items():
        outcome = tool.exec(tool.uaio, "check", "--", "valgrind", "--quiet", program, name)
        outcome.expect(99, err=None)
        expect(outcome.err.count("ERROR: uaio check: "), 1, outcome.story)
        theirs, below = outcome.err.split("ERROR: uaio check: ")
        for text, words in ((theirs, memcheck), (below, ours), (below, f" in {function} ")):
            expect(words in text, True, f"{words}: {outcome.story}")
    # valgrind says that it does not know all calls of the kernel.
    for name in ("right", "kept", "neighbours"):
        outcome = tool.exec(tool.uaio, "check", "--", "valgrind", "--quiet", program, name)
        expect(re.findall("^==.*", outcome.expect(0, err=None).err, re.M), [],
               outcome.story)


@case("memcheck reports a program that uses memory of a read in flight, and where")
def _(tool):
    if not shutil.which("valgrind"):
        raise Skip("there is no valgrind")
    program = tool.path("plain")
    tool.exec("cc", "-g", "-O1", "-o", program,
              tool.args.source + "/test/run/asan.c").expect(err=None)
    wrong = {
        "touched": ("Invalid read of size 1", "touched (asan.c:", 0),
        "cleared": ("Invalid write of size", "cleared (asan.c:", 0),
        # Behind a short read is what was there, which was not initialised.
        "unfilled": ("depends on uninitialised value", "use_byte (asan.c:", 0),
        "free": ("bytes before a block of size 100 free'd", "freed-in-flight", 99),
        "beside": ("1,499 bytes inside a block of size 5,000 free'd", "freed-in-flight", 99),
    }
    for name, (*words, status) in wrong.items():
        outcome = tool.exec(tool.uaio, "check", "--", "valgrind", "--quiet", program, name)
        outcome.expect(status, err=None)
        for word in words:
            expect(word in outcome.err, True, f"{word}: {outcome.story}")
        expect("Syscall param" in outcome.err, False, outcome.story)


@case("MemorySanitizer knows what requests have written, and reports what they cannot send")
def _(tool):
    program = tool.path("msan")
    if not shutil.which("clang") or tool.exec(
            "clang", "-g", "-O1", "-fsanitize=memory", "-o", program,
            tool.args.source + "/test/run/asan.c").status:
        raise Skip("there is no compiler with MemorySanitizer")
    # The C library's requests, of which the sanitizer sees nothing, are wrong to it.
    alone = tool.exec(program, "filled")
    if "MemorySanitizer: use-of-uninitialized-value" not in alone.err:
        raise Skip("MemorySanitizer does not run here")
    for name in ("filled", "right"):
        check(tool, program, name).expect(0)
    # What was not written is no error of a request.
    outcome = check(tool, program, "unfilled").expect(1, err=None)
    expect("MemorySanitizer: use-of-uninitialized-value" in outcome.err, True, outcome.story)
    expect("ERROR: uaio check" in outcome.err, False, outcome.story)
    outcome = check(tool, program, "raw").expect(99, err=None)
    for words in ("MemorySanitizer: use-of-uninitialized-value",
                  "ERROR: uaio check: uninitialised", " in raw "):
        expect(words in outcome.err, True, f"{words}: {outcome.story}")


@case("MemorySanitizer knows what io_uring, kernel AIO and liburing hand to a program")
def _(tool):
    program = tool.path("handed")
    if not shutil.which("clang") or tool.exec(
            "clang", "-g", "-O1", "-fsanitize=memory", "-o", program,
            tool.args.source + "/test/run/handed.c", "-luring", "-pthread").status:
        raise Skip("there is no compiler with MemorySanitizer")
    for name in ("rings", "events", "provided", "message", "chosen", "peer", "function"):
        outcome = check(tool, program, name).expect(0, err=None)
        expect(outcome.err, "", f"{name}: {outcome.story}")
    # What was not received is not initialised.
    outcome = check(tool, program, "behind").expect(1, err=None)
    expect(re.search("MemorySanitizer: use-of-uninitialized-value\n +#0 .* in behind ",
                     outcome.err) is not None, True, outcome.story)
    expect("ERROR: uaio check" in outcome.err, False, outcome.story)


# A program of several threads, and its one bug that each checker finds: how it is built, by
# what it is run, the bug, and what the checker says and uaio check. The last two are of
# valgrind, and report alone: what another thread does, or the request where it is submitted.
FOUR = {
    "AddressSanitizer": ("cc -fsanitize=address", (), "freed",
                         "ERROR: AddressSanitizer: heap-use-after-free", "unaddressable"),
    "ThreadSanitizer": ("cc -fsanitize=thread", (), "race",
                        "WARNING: ThreadSanitizer: data race", "race-in-flight"),
    "MemorySanitizer": ("clang -fsanitize=memory", (), "raw",
                        "WARNING: MemorySanitizer: use-of-uninitialized-value",
                        "uninitialised"),
    "memcheck": ("cc", ("valgrind", "--quiet"), "raw", "Uninitialised byte(s) found",
                 "uninitialised"),
    "helgrind": ("cc", ("valgrind", "--quiet", "--tool=helgrind", "--error-exitcode=88"),
                 "race", "Possible data race", None),
    "drd": ("cc", ("valgrind", "--quiet", "--tool=drd", "--error-exitcode=88"),
            "race", "Conflicting ", None),
}
# As in most containers.
DENIED = "EPERM:io_uring_setup,io_uring_enter,io_uring_register"


def built_for(tool, checker):
    """The command that runs the program while io_uring is denied."""
    compiler, runner, *_ = FOUR[checker]
    program = tool.path("checked")
    if not shutil.which(compiler.split()[0]) or runner and not shutil.which(runner[0]):
        raise Skip(f"there is no {checker}")
    tool.exec(*compiler.split(), "-g", "-O1", "-o", program,
              tool.args.source + "/test/run/checked.c", "-luring", "-pthread").expect(err=None)
    return (tool.args.filter, "before", DENIED, tool.uaio, "check", "--", *runner, program)


def said_by(outcome):
    """The lines of the checker's report and of uaio's. valgrind prints that it does not
    know all system calls."""
    return [line for line in outcome.err.split("\n") if line and not line.startswith("--")]


def expect_bug_alone(tool, checker):
    *_, bug, theirs, ours = FOUR[checker]
    command = built_for(tool, checker)
    right = tool.exec(*command, "right").expect(0, err=None)
    expect(said_by(right), [], right.story)
    wrong = tool.exec(*command, bug).expect(99 if ours else 88, err=None)
    expect(wrong.err.count(theirs), 1, wrong.story)
    expect(re.findall("ERROR: uaio check: ([a-z-]+)", wrong.err), [ours] if ours else [],
           wrong.story)
    if not ours:
        expect(re.search(r"by .*: race \(checked.c:|: touch \(checked.c:", wrong.err)
               is not None, True, wrong.story)


for CHECKER in FOUR:
    if FOUR[CHECKER][-1]:
        @case(f"{CHECKER} finds the bug of a program with threads where io_uring is denied, "
              "and no other")
        def _(tool, checker=CHECKER):
            expect_bug_alone(tool, checker)


@case("helgrind finds a race with a request of another thread, and no other")
def _(tool):
    expect_bug_alone(tool, "helgrind")


@case("drd finds a race with a request of another thread, and no other")
def _(tool):
    expect_bug_alone(tool, "drd")


@case("ThreadSanitizer reports memory that is used before the completion is taken")
def _(tool):
    program = tool.path("races")
    tool.exec("cc", "-g", "-O1", "-fsanitize=thread", "-o", program,
              tool.args.source + "/test/run/races.c", "-luring", "-pthread").expect(err=None)
    with open(tool.args.source + "/test/run/races.c") as file:
        lines = file.read().split("\n")
    # The lines of the submission and of the program's access, of each bug.
    lines_of = {(bug, what): str(number) for number, line in enumerate(lines, 1)
                for bugs, what in re.findall(r"/\* ([a-z, ]+): ([a-z]+) \*/", line)
                for bug in bugs.split(", ")}
    for bug in ("touched", "complete", "posix"):
        outcome = check(tool, program, bug).expect(99, err=None)
        expect(outcome.err.count("WARNING: ThreadSanitizer: data race"), 1, outcome.story)
        expect(outcome.err.count("ERROR: uaio check: race-in-flight"), 1, outcome.story)
        theirs, below = outcome.err.split("ERROR: uaio check: ")
        expect(f"races.c:{lines_of[bug, 'access']} " in theirs, True, outcome.story)
        for text in (theirs, below):
            expect(re.search(rf"races.c:{lines_of[bug, 'submission']}\b", text) is not None,
                   True, outcome.story)
    # The sanitizer's reports that no request has a part in.
    for bug, kind in (("unlocked", "unlock of an unlocked mutex"), ("threads", "data race")):
        outcome = check(tool, program, bug).expect(66, err=None)
        expect(outcome.err.count(f"WARNING: ThreadSanitizer: {kind}"), 1, outcome.story)
        for wrong in ("ERROR: uaio check", "CHECK failed"):
            expect(wrong in outcome.err, False, outcome.story)
    for right in ("waited", "peeked", "handed", "carried", "mapped", "linked", "message",
                  "forked", "beside", "callback", "listed", "cancelled"):
        outcome = check(tool, program, right).expect(0, err=None)
        expect(outcome.err, "", f"{right}: {outcome.story}")


main()
