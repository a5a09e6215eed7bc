# SPDX-License-Identifier: MIT
"""uaio check: the command, and what it makes of reports.

Most of the commands here write their reports themselves, so that they are always the
same.
"""
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import subprocess

from harness import TIMEOUT_S, Skip, behind_mount, build, case, environment, expect, main

SUMMARY = "begun\\nsummary\\trequests 3\\tchecked 2\\tby none\\n"


def report(kind="freed-in-flight", offset=0x10, what="it was freed"):
    """A report, for the shell's printf."""
    return (f"report\\t{kind}\\nwhat\\t{what}\\nthread\\t7\\tworker\\n"
            "request\\tREAD\\tfd=5 address=0x1000 bytes=4096\\n"
            "stack\\tnow\\n"
            f"frame\\t0x1010\\t/no/program\\t0x{offset:x}\\tdrop+0x10\\t-\\n"
            "stack\\tsubmitted\\n"
            "frame\\t0x2010\\t/no/program\\t0x2010\\tsubmit+0x20\\t-\\nend\\n")


def write(*texts, pid="$$"):
    """A line for the shell: it writes these where a process has its reports."""
    return "".join(f"printf '{text}' >>\"$UAIO_CHECK/{pid}\"; " for text in texts)


def check(tool, script, *options, **more):
    """Runs a script under uaio check."""
    return tool.exec(tool.uaio, "check", *options, "--", "sh", "-c", script, **more)


def expect_words(outcome, *words):
    for word in words:
        if word not in outcome.err:
            raise AssertionError(f"no {word!r}:\n{outcome.story}")


def hang_up_by_default():
    """Restore the default for SIGHUP, which nohup, for example, may have set to be
    ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@case("uaio check passes on how the command ends, and says nothing if all is well")
def _(tool):
    done = write(SUMMARY)
    for status in (0, 1, 2, 99, 127, 255):
        check(tool, f"{done} exit {status}").expect(status)
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGUSR1):
        check(tool, f"{done} kill -{number.value} $$",
              preexec_fn=hang_up_by_default).expect(-number)
    check(tool, done + "cat; echo $0 $*", "--exit-status=5").expect(out="sh\n")


@case("a command that nothing was checked of is told of")
def _(tool):
    expect_words(check(tool, "true").expect(err=None), "nothing was checked")
    # Not if the command could not be executed at all.
    for words, status in ((("no-such-command",), 127), ((tool.scratch,), 126),
                          ((tool.args.static_target,), 2)):
        outcome = tool.exec(tool.uaio, "check", *words)
        outcome.expect(status, err=None)
        expect("nothing was checked" in outcome.err, False, outcome.story)
        expect_words(outcome, "uaio: " + words[0])


@case("an error gives a status of its own")
def _(tool):
    script = write(report())
    check(tool, script).expect(99, err=None)
    check(tool, script + "exit 3").expect(99, err=None)
    check(tool, script + "kill -TERM $$").expect(99, err=None)
    check(tool, script + "exit 3", "--exit-status", "7").expect(7, err=None)
    check(tool, script + "exit 3", "--exit-status=0").expect(3, err=None)
    for value in ("", "256", "-1", "1x"):
        tool.exec(tool.uaio, "check", f"--exit-status={value}", "true"
                  ).expect_refusal(2, f"--exit-status={value}:", "0 to 255")


@case("a report says what happened, where, against which rule, and what helps")
def _(tool):
    outcome = check(tool, write(report(what="it was\\033[1m freed")) + "echo $$")
    outcome.expect(99, out=None, err=None)
    expect_words(
        outcome, f"=={outcome.out.strip()}==ERROR: uaio check: freed-in-flight "
        "(thread 7 worker)\n", "\nit was?[1m freed\n",
        "freed here:\n    #0 0x1010 in drop+0x10 (/no/program+0x10)\n",
        "submitted here:\n    #0 0x2010 in submit+0x20 (/no/program+0x2010)\n",
        "request: READ fd=5 address=0x1000 bytes=4096\n",
        "\nrule:    The memory of a request stays valid",
        "\nhelp:    Free the memory", "uaio: check: 1 error at 1 place\n")
    expect([line for line in outcome.err.splitlines() if len(line) > 80], [], "long")
    outcome = check(tool, write(report(what=" ".join(["nine-of-9"] * 20))))
    expect_words(outcome.expect(99, err=None),
                 "\n" + 2 * (" ".join(["nine-of-9"] * 8) + "\n") + "nine-of-9 ")
    # A stack is shown once, and up to main().
    stack = ("frame\\t0x1\\t-\\t0\\t-\\tin main /m.c:1\\n"
             "frame\\t0x2\\t-\\t0\\t-\\tin start /s.c:1\\n")
    outcome = check(tool, write("report\\taiocb-in-flight\\nstack\\tnow\\n" + stack
                                + "stack\\tsubmitted\\n" + stack + "end\\n"))
    expect_words(outcome.expect(99, err=None),
                 "\n  submitted again here:\n    #0 0x1 in main /m.c:1\nrule:")
    # Without what a sanitizer calls for free().
    stack = ("frame\\t0x1\\t/libtsan.so.2\\t0x1\\t-\\t-\\n"
             "frame\\t0x2\\t-\\t0\\t-\\tin __interceptor_free /t.cpp:1\\n"
             "frame\\t0x3\\t-\\t0\\t-\\tin drop /s.c:7\\n")
    outcome = check(tool, write("report\\tfreed-in-flight\\nstack\\tnow\\n" + stack
                                + "end\\n") * 2)
    expect_words(outcome.expect(99, err=None), "2 errors at 1 place",
                 "freed here:\n    #0 0x3 in drop /s.c:7\nrule:")
    # What the command does not know.
    outcome = check(tool, write("report\\tof-the-future\\nwhat\\tx\\nsome\\tthing\\nend\\n"))
    expect_words(outcome.expect(99, err=None), "uaio check: of-the-future\nx\n")


@case("each place is shown once, whatever process it was, and each error is counted")
def _(tool):
    other = report(offset=0x20)
    script = write(report(), report(), other) + "for i in 1 2 3; do (:; " + \
        write(report(), other, pid="$((100000+i))") + ") & done; wait; " + \
        "sh -c '" + write(report()).replace("'", "'\\''") + "'"
    outcome = check(tool, script).expect(99, err=None)
    expect(outcome.err.count("==ERROR: uaio check"), 2, outcome.story)
    expect_words(outcome, "uaio: check: 10 errors at 2 places\n")


@case("a report is shown while the command runs")
def _(tool):
    with subprocess.Popen(
            [tool.uaio, "check", "sh", "-c", write(report()) + "read line; exit 4"],
            env=environment(TMPDIR=tool.scratch), stdin=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True) as process:
        line = ""
        while "help:" not in line:
            line = process.stderr.readline()
            expect(line != "", True, "the end of the report")
        expect(process.poll(), None, "status before its end")
        process.stdin.write("\n")
        process.stdin.close()
        process.stderr.read()
        expect(process.wait(TIMEOUT_S), 99, "status")


@case("a report that its process did not finish is shown as it is")
def _(tool):
    cut = report()[:report().index("stack\\tsubmitted")]
    outcome = check(tool, write(cut) + "kill -KILL $$").expect(99, err=None)
    expect_words(outcome, "it was freed", "drop+0x10", "which is not complete.",
                 "1 error at 1 place")


@case("a signal that is sent to uaio check reaches the command")
def _(tool):
    script = write(SUMMARY) + ("trap 'echo got it; exit 3' USR1; echo ready; "
                               "while :; do :; done")
    with subprocess.Popen([tool.uaio, "check", "sh", "-c", script],
                          env=environment(TMPDIR=tool.scratch), text=True,
                          stdout=subprocess.PIPE) as process:
        expect(process.stdout.readline(), "ready\n", "the script says")
        process.send_signal(signal.SIGUSR1)
        expect(process.stdout.readline(), "got it\n", "the trap says")
        expect(process.wait(TIMEOUT_S), 3, "status")
    with subprocess.Popen([tool.uaio, "check", "sh", "-c", "echo ready; read line"],
                          env=environment(TMPDIR=tool.scratch), text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        expect(process.stdout.readline(), "ready\n", "the script says")
        process.terminate()
        expect(process.wait(TIMEOUT_S), -signal.SIGTERM, "status")


@case("an interrupt from the terminal reaches the checked command once")
def _(tool):
    script = write(SUMMARY) + (
        "trap 'n=x$n' INT; trap 'u=u' USR1; echo ready; until [ \"$n\" ]; do :; done; "
        "echo first; until [ \"$u\" ]; do :; done; echo n=$n; exit 5")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(tool.uaio, [tool.uaio, "check", "sh", "-c", script],
                  environment(TMPDIR=tool.scratch))
    said = b""

    def await_word(word):
        nonlocal said
        while word not in said:
            expect(bool(select.select([terminal], [], [], TIMEOUT_S)[0]), True, said)
            said += os.read(terminal, 4096)

    try:
        await_word(b"ready")
        os.write(terminal, b"\x03")
        await_word(b"first")
        # A second interrupt would be passed on before it.
        os.kill(pid, signal.SIGUSR1)
        await_word(b"n=x\r")
        expect(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5, "status")
        pid = None
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
        os.close(terminal)


@case("the checked command has the signals that it would have without")
def _(tool):
    show = "grep -E '^Sig(Blk|Ign)' /proc/self/status; " + write(SUMMARY)

    def change():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})

    env = {"UAIO_CHECK": tool.scratch}
    plain = tool.exec("sh", "-c", show, preexec_fn=change, env=env).expect(out=None).out
    expect(plain == tool.exec("sh", "-c", show, preexec_fn=hang_up_by_default, env=env).out,
           False, "the change shows")
    check(tool, show, preexec_fn=change).expect(out=plain)


@case("the checked command has the library for it in front, and so have its children")
def _(tool):
    if not shutil.which("cc"):
        raise Skip("needs a C compiler")
    uaio = tool.copy_tool("both")
    shim = build(tool, "both/libuaio-check.so", "", "-shared", "-fPIC")
    want = f"{os.path.realpath(shim)}:{os.path.dirname(os.path.realpath(uaio))}/libuaio.so.0"
    for script in ("env", f"{uaio} run env", f"{uaio} check {uaio} run env"):
        outcome = tool.exec(uaio, "check", "sh", "-c", script, env={"UAIO_URING": "never"})
        outcome.expect(out=None, err=None)
        lines = outcome.out.splitlines()
        expect([line for line in lines if line.startswith("LD_PRELOAD=")],
               [f"LD_PRELOAD={want}"], script)
        expect("UAIO_URING=always" in lines, True, outcome.story)
    # A program that runs an unchecked one must not pass the setting on.
    outcome = tool.exec(uaio, "check", "env", "-u", "UAIO_CHECK", uaio, "run", "env")
    expect(f"LD_PRELOAD={want.split(':')[1]}\n" in outcome.out, True, outcome.story)
    os.unlink(shim)
    outcome = tool.exec(uaio, "check", "sh", "-c", write(SUMMARY))
    outcome.expect_refusal(0, "both/libuaio-check.so is not there")


OF_VERSIONS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
	static const char *const versions[] = { "LIBAIO_0.1", "LIBAIO_0.4" };
	Dl_info info;

	for (int i = 0; i < 2; i++)
		if (dladdr(dlvsym(RTLD_DEFAULT, "io_getevents", versions[i]), &info))
			puts(info.dli_fname);
	return 0;
}
"""


@case("a program of libaio 0.1 has that library's io_getevents under uaio check, too")
def _(tool):
    outcome = tool.exec(tool.uaio, "check", build(tool, "versions", OF_VERSIONS, "-ldl"))
    outcome.expect(0, out=None, err=None)
    expect([os.path.basename(line) for line in outcome.out.split()],
           ["libuaio.so.0", "libuaio-check.so"], outcome.story)


@case("the directory of the reports is gone at the end, whatever is in it")
def _(tool):
    mess = ("cd \"$UAIO_CHECK\"; mkfifo 5; ln -s /dev/zero 6; echo x >7; "
            "echo y >.hidden; ln -s . 8; head -c 300000 /dev/zero >9; pwd >&3; ")
    for script in (mess + write(SUMMARY), mess + write(SUMMARY) + "kill -KILL $$"):
        with open(tool.path("where"), "w") as where:
            outcome = check(tool, "exec 3>" + tool.path("where") + "; " + script,
                            env={"TMPDIR": tool.scratch})
            expect(outcome.err, "", outcome.story)
        with open(where.name) as file:
            place = file.read().strip()
        expect(os.path.dirname(place), os.path.realpath(tool.scratch), "where it was")
        expect(os.path.exists(place), False, place)


@case("reports go to the files that were named")
def _(tool):
    text, objects = tool.path("text"), tool.path("objects")
    with open(text, "w") as file:
        file.write("an old one\n")
    outcome = check(tool, write(report(), report(), report("overlap-in-flight")),
                    "-o", text, "--json", objects)
    outcome.expect(99, err=f"uaio: check: 3 errors at 2 places: see {text}\n")
    with open(text) as file:
        said = file.read()
    expect((said.count("==ERROR"), "old" in said), (2, False), said)
    with open(objects) as file:
        kinds = [json.loads(line)["kind"] for line in file]
    expect(kinds, ["freed-in-flight", "overlap-in-flight"], "kinds")
    for option in ("--output", "--json"):
        tool.exec(tool.uaio, "check", option, tool.path("no/file"), "true"
                  ).expect_refusal(2, tool.path("no/file"), "No such file")
    outcome = check(tool, write(report()), "-o", "/dev/full").expect(99, err=None)
    expect_words(outcome, "uaio: check: cannot write: No space left on device\n")


@case("each JSON object of uaio check is as the schema has it")
def _(tool):
    import jsonschema

    path = tool.path("objects")
    script = write(report(what="\\303\\244 \\377 \\\\ \" &"),
                   report("aiocb-in-flight")[:60], "\\nend\\n",
                   "report\\toverlap-in-flight\\nrequest\\tREAD\\tbytes=07 x y= =z\\n"
                   "other\\tWRITE\\nstack\\tother\\nframe\\t1\\nend\\n",
                   "report\\tstack-in-flight\\nwh")
    check(tool, script, "--json", path).expect(99, err=None)
    with open(tool.args.check_schema) as file:
        validator = jsonschema.Draft7Validator(json.load(file))
    with open(path) as file:
        objects = [json.loads(line) for line in file]
    for found in objects:
        validator.validate(found)
    first = objects[0]
    expect(first["what"], 'ä ? \\ " &', "the text")
    expect(first["request"], {"operation": "READ", "fd": 5, "address": "0x1000",
                              "bytes": 4096}, "request")
    expect(first["stacks"]["now"],
           [{"pc": "0x1010", "module": "/no/program", "offset": "0x10",
             "function": "drop+0x10", "file": None, "line": None}], "stack")
    expect([found["complete"] for found in objects], [True, True, True, False],
           "whether they are complete")
    expect((objects[2]["request"], objects[2]["other"]),
           ({"operation": "READ", "bytes": "07", "y": ""}, {"operation": "WRITE"}),
           "of an odd report")


@case("what a file of suppressions names is not shown, and is counted")
def _(tool):
    path = tool.write("known", "# of a library\nfreed-in-flight:dr*\n*:nowhere\n")
    outcome = check(tool, write(report(), report()), "--suppressions", path)
    outcome.expect(
        0, err=f"uaio: check: suppressed 2 times by {path}:2: freed-in-flight:dr*\n")
    outcome = check(tool, write(report(), report("stack-in-flight")),
                    f"--suppressions={path}").expect(99, err=None)
    expect_words(outcome, "1 error at 1 place", "suppressed 1 time by", "stack-in-flight")
    more = tool.write("more", "stack-in-flight:program\n")
    outcome = check(tool, write(report(), report("stack-in-flight")),
                    f"--suppressions={path}", f"--suppressions={more}")
    outcome.expect(0, err=None)
    wrong = tool.write("wrong", "freed-in-fligth:x\n")
    tool.exec(tool.uaio, "check", "--suppressions", wrong, "true").expect_refusal(
        2, f"{wrong}:1: no such kind")
    tool.exec(tool.uaio, "check", "--suppressions=/no/file", "true").expect_refusal(
        2, "/no/file", "No such file")


PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int find(struct dl_phdr_info *info, size_t size, void *base)
{
	*(ElfW(Addr) *)base = info->dlpi_addr;
	return 1; /* the program is the first */
}

static __attribute__((noinline)) void tell(void)
{
	char *pc = __builtin_return_address(0);
	char path[4096], own[4096] = "";
	ElfW(Addr) base;

	dl_iterate_phdr(find, &base);
	readlink("/proc/self/exe", own, sizeof(own) - 1);
	snprintf(path, sizeof(path), "%s/%d", getenv("UAIO_CHECK"), getpid());
	FILE *file = fopen(path, "a");
	fprintf(file, "report\tfreed-in-flight\nwhat\tx\nstack\tnow\n"
		"frame\t%p\t%s\t0x%lx\t-\t-\nend\n", pc, own, pc - (char *)base);
	fclose(file);
}

static inline __attribute__((always_inline)) void inlined(void)
{
	tell(); /* THE CALL */
	puts("done");
}

int main(void)
{
	inlined(); /* THE CALLER */
	puts("end");
}
"""


@case("a report has functions, files and lines, where addr2line finds them")
def _(tool):
    if not shutil.which("cc") or not shutil.which("addr2line"):
        raise Skip("needs a C compiler and addr2line")
    lines = PROGRAM.splitlines()
    call, caller = [next(nr for nr, line in enumerate(lines, 1) if mark in line)
                    for mark in ("THE CALL */", "THE CALLER")]
    for flags in (("-pie", "-fPIE"), ("-no-pie", "-fno-PIE")):
        program = build(tool, "program", PROGRAM, "-O0", "-g", *flags)
        path = tool.path("objects")
        outcome = check(tool, program, "--json", path).expect(99, "done\nend\n", None)
        with open(path) as file:
            found = json.loads(file.read())["stacks"]["now"]
        expect([(frame["function"], os.path.basename(frame["file"]), frame["line"])
                for frame in found],
               [("inlined", "program.c", call), ("main", "program.c", caller)],
               outcome.story)
        expect_words(outcome, f"in inlined {tool.path('program.c')}:{call}\n    #1 ")
    # What strip leaves, and without addr2line.
    shutil.copy(program, tool.path("bare"))
    tool.exec("strip", tool.path("bare")).expect(out=None)
    outcome = check(tool, tool.path("bare")).expect(99, None, None)
    expect_words(outcome, f"({tool.path('bare')}+0x")
    sh = shutil.which("sh")
    os.symlink(sh, tool.path("sh"))
    outcome = check(tool, program, env={"PATH": tool.scratch}).expect(99, None, None)
    expect_words(outcome, f"({program}+0x")


@case("verbose says what was checked")
def _(tool):
    script = write(SUMMARY) + "sh -c '" + write(SUMMARY).replace("'", "'\\''") + "'"
    check(tool, script, "--verbose").expect(
        err="uaio: check: 6 requests of 2 processes, 4 with memory of the program; "
            "checker in the process: none; no error\n")


@case("processes that the command leaves behind are told of")
def _(tool):
    outcome = check(tool, write(SUMMARY) + "exec 2>&- </dev/null; sleep 3600 >&- & "
                    "echo $!")
    os.kill(int(outcome.out), signal.SIGKILL)
    outcome.expect(out=None, err=None)
    expect_words(outcome, "processes of it run on, unchecked")
    # Reports of processes that end right afterwards are read, too.
    outcome = check(tool, "(while kill -0 $$ 2>&-; do :; done; "
                    f"{write(report(), pid=5)}) &")
    outcome.expect(99, err=None)


@case("uaio check without a command is refused")
def _(tool):
    for words in ((), ("--",), ("--verbose",)):
        tool.exec(tool.uaio, "check", *words).expect_refusal(2, "which command")


@case("each kind of error and of hint is in the manual and in doc/check.md")
def _(tool):
    def text(*path):
        with open(os.path.join(tool.args.source, *path)) as file:
            return file.read()

    kinds = re.findall(r'^\t\t"([a-z-]+)",$', text("src/tool/check/kinds.c"), re.M)
    hints = re.findall(r'^\t\t\.name = "([a-z-]+)",$', text("src/tool/check/kinds.c"), re.M)
    expect((len(kinds) > 5, len(hints) > 5), (True, True), f"{kinds} {hints}")
    for section, names in ("KINDS", kinds), ("HINTS", hints):
        told = re.findall(r"^\*([a-z-]+)\*$", text("man/uaio-check.1.scd").partition(
            f"\n# {section}")[2].partition("\n# ")[0], re.M)
        expect(told, names, f"{section} of the manual")
    expect(re.findall(r"^### ([a-z-]+)$", text("doc/check.md"), re.M), kinds + hints,
           "kinds of doc/check.md")


@case("a command whose reports cannot be written is not run")
def _(tool):
    folder = tool.path("folder")
    os.mkdir(folder)
    program = os.path.join(tool.args.bugs, "aio-read-freed")
    marker = tool.path("marker")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    for options in ([], ["--verbose"], ["--seeds=2"]):
        check = [tool.uaio, "check", *options, "--", "sh", "-c", f"mkdir {marker}; {program}"]
        for words, before, error in (
                (["-t", "tmpfs", "-o", "size=4k", "none", folder], [], "No space left"),
                (["-t", "tmpfs", "-o", "nr_inodes=2", "none", folder], [], "No space left"),
                (["-t", "tmpfs", "none", "/proc"], [], "mount /proc")):
            tool.exec(*behind_mount(*words), *before, *check, env={"TMPDIR": folder}
                      ).expect_refusal(2, folder, error)
        tool.exec(*check, env={"TMPDIR": folder}, preexec_fn=limit).expect_refusal(
            2, folder, "File too large: raise ulimit -f")
    expect(os.path.exists(marker), False, "the command ran")


@case("a report that could not be written is told of, and is no success")
def _(tool):
    program = os.path.join(tool.args.bugs, "aio-read-freed")
    for options in ([], ["--verbose"], ["--seeds=2"]):
        outcome = tool.exec(
            tool.uaio, "check", *options, "--", "sh", "-c", f"ulimit -f 0; exec {program}")
        expect_words(outcome.expect(2, out=None, err=None), "a process could not write a report")
        expect("no error" in outcome.err, False, outcome.story)


@case("a low limit of file sizes ends neither the command nor uaio check")
def _(tool):
    size = 8192

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    # The reports on standard error are longer than the limit.
    reports = "".join(write(report(offset=0x100 + i), pid=1000 + i) for i in range(20))
    path = tool.path("reports")
    outcome = check(tool, reports + "exit 3", "-o", path, preexec_fn=limit)
    expect_words(outcome.expect(99, err=None), "check: cannot write: File too large",
                 "20 errors at 20 places")
    expect(os.path.getsize(path), size, "bytes in it")
    check(tool, write(SUMMARY) + "exit 3", preexec_fn=limit).expect(3, err=None)
    outcome = check(tool, "true", "--verbose")
    expect_words(outcome.expect(err=None), "nothing was checked")
    expect("no error" in outcome.err, False, outcome.story)


main()
