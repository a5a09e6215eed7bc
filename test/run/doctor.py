# SPDX-License-Identifier: MIT
"""uaio doctor: what works on a machine, what does not, and why."""
import os

from diagnosis import LEVELS, behind, doctor
from harness import NOBODY, Skip, case, expect, main

KERNEL_AIO = ["io_setup", "io_destroy", "io_submit", "io_cancel",
              "io_getevents", "io_pgetevents"]
URING = ["io_uring_setup", "io_uring_enter", "io_uring_register"]


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root, to mount files over those of /proc and /sys")


def with_files(tool, files):
    """A command runs with other files in the place of some of the system's."""
    need_root()
    mounts = []
    for number, (path, text) in enumerate(files.items()):
        own = tool.write(f"file{number}", text)
        mounts.append(f"mount --bind {own} {path}")
    return ("unshare", "--mount", "sh", "-e", "-c",
            "\n".join(mounts) + '\nexec "$@"', "sh")


@case("the doctor says the same to people and to scripts, and its status")
def _(tool):
    report = doctor(tool)
    outcome = tool.exec(tool.uaio, "doctor")
    expect(outcome.status, LEVELS.index(report.object["level"]), "status")
    expect(outcome.err, "", "messages")
    lines = outcome.out.splitlines()
    for finding in report.findings:
        if finding["subject"] in ("memory.max", "pids.max", "fs.aio-max-nr"):
            continue  # what is used of them changes
        start = f"{finding['level']}  {finding['subject']}"
        if not any(line.startswith(start) and line.endswith(finding["text"])
                   for line in lines):
            raise AssertionError(f"no line of {finding}:\n{outcome.story}")
    if "\033" in outcome.out:
        raise AssertionError("colours, and no terminal")


@case("the doctor has a line for each call, limit and interface")
def _(tool):
    report = doctor(tool)
    for subject in KERNEL_AIO + URING + [
            "kernel", "filters", "fs.aio-max-nr", "memlock", "nofile",
            "nproc", "pids.max", "memory.max", "library", "kernel AIO",
            "io_uring", "POSIX AIO", "direct I/O"]:
        report.of(subject)


@case("the doctor tells a call that a filter refuses, and that uaio serves")
def _(tool):
    for error in ("EPERM", "ENOSYS", "EACCES"):
        report = doctor(tool, before=behind(
            tool, f"{error}:{','.join(URING)},io_pgetevents"))
        for call in URING + ["io_pgetevents"]:
            report.expect(call, "WARN", "seccomp", error, "filter")
        for call in KERNEL_AIO[:-1]:
            report.expect(call, "PASS")
        report.expect("io_uring", "PASS", words="uaio run serves it")
        report.expect("kernel AIO", "PASS")
        report.expect("POSIX AIO", "PASS")


@case("the doctor survives a filter that ends the program for a call")
def _(tool):
    for action in ("kill", "trap"):
        report = doctor(tool, before=behind(
            tool, f"{action}:{','.join(URING + KERNEL_AIO)}"))
        for call in URING + KERNEL_AIO:
            report.expect(call, "WARN", "seccomp", words="SIGSYS")
        report.expect("kernel AIO", "PASS")
        report.expect("io_uring", "PASS")
        report.expect("direct I/O", "WARN", "seccomp", words="threads")


@case("the doctor fails an interface whose needed call is refused")
def _(tool):
    report = doctor(tool, before=behind(tool, "EPERM:memfd_create"))
    report.expect("io_uring", "FAIL", "seccomp", "ENOSYS")
    report.expect("filters", "WARN", "seccomp", words="memfd_create")
    report.expect("kernel AIO", "PASS")


@case("the doctor tells how much of the quota of kernel AIO is used up")
def _(tool):
    files = {"/proc/sys/fs/aio-max-nr": "65536\n",
             "/proc/sys/fs/aio-nr": "65537\n"}
    report = doctor(tool, before=with_files(tool, files) +
                    behind(tool, "EAGAIN:io_setup"))
    report.expect("fs.aio-max-nr", "WARN", "quota", "EAGAIN",
                  words="65537 events of kernel AIO are taken, of 65536")
    report.expect("kernel AIO", "PASS")


@case("the doctor tells io_uring switched off by sysctl from a filter")
def _(tool):
    path = "/proc/sys/kernel/io_uring_disabled"
    if not os.path.exists(path):
        raise Skip("Linux before 6.6")
    denied = behind(tool, "EPERM:io_uring_setup")
    doctor(tool, before=with_files(tool, {path: "2\n"}) + denied).expect(
        "io_uring_setup", "WARN", "sysctl", "EPERM",
        words="kernel.io_uring_disabled is 2")
    # Root may make rings in spite of 1; others, who are not in the group, not.
    doctor(tool, before=with_files(tool, {path: "1\n"}) + denied).expect(
        "io_uring_setup", "WARN", "seccomp", "EPERM")
    uaio = tool.copy_tool("tool")
    denied = (tool.copy(tool.args.filter, "filter"), *denied[1:])
    doctor(tool, uaio=uaio, before=with_files(tool, {path: "1\n"}) + (
        "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
        "--no-new-privs") + denied).expect(
            "io_uring_setup", "WARN", "sysctl", "EPERM", "io_uring_group")


@case("the doctor warns of limits that are too low")
def _(tool):
    doctor(tool, before=("prlimit", "--nofile=12")).expect(
        "nofile", "WARN", "limit", words="12 descriptors")
    need_root()
    uaio = tool.copy_tool("tool")
    doctor(tool, uaio=uaio, before=(
        "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
        "prlimit", "--nproc=200:200")).expect(
            "nproc", "WARN", "limit", words="200 processes")


@case("the doctor warns of a control group that is nearly full")
def _(tool):
    need_root()
    for folder, limit, current in (
            ("", "pids.max", "pids.current"),
            ("pids/", "pids.max", "pids.current"),
            ("", "memory.max", "memory.current"),
            ("memory/", "memory.limit_in_bytes", "memory.usage_in_bytes")):
        tool.write(f"groups/{folder}{limit}", "1048576\n"
                   if "memory" in limit else "300\n")
        tool.write(f"groups/{folder}{current}", "4096\n"
                   if "memory" in limit else "290\n")
    report = doctor(tool, before=(
        "unshare", "--mount", "sh", "-e", "-c",
        f"mount --bind {tool.path('groups')} /sys/fs/cgroup\nexec \"$@\"",
        "sh"))
    report.expect("pids.max", "WARN", "cgroup", words="10 processes")
    report.expect("memory.max", "PASS", words="1 MiB, 4 KiB of them used")


@case("the doctor fails where there is no library")
def _(tool):
    report = doctor(tool, uaio=tool.args.uaio_nowhere)
    report.expect("library", "FAIL", "library", words="libuaio.so.0")


@case("the doctor fails where the library cannot be loaded")
def _(tool):
    uaio = tool.copy_tool("tool")
    with open(tool.path("tool/libuaio.so.0"), "w") as file:
        file.write("no library")
    doctor(tool, uaio=uaio).expect("library", "FAIL", "library",
                                   words="libuaio.so.0")


@case("the doctor fails where no child can be made, and says so once")
def _(tool):
    report = doctor(tool, before=behind(tool, "EAGAIN:clone,clone3,fork,vfork"))
    report.expect("calls", "FAIL", "limit", "EAGAIN")
    report.expect("library", "FAIL", "limit")
    for call in KERNEL_AIO + URING:
        expect([finding for finding in report.findings
                if finding["subject"] == call], [], call)


@case("the doctor tells of options that the environment sets")
def _(tool):
    def option(variable, value):
        return doctor(tool, env={variable: value})

    option("UAIO_MAX_NR", "70").expect("option", "PASS",
                                       words="UAIO_MAX_NR=70 is set")
    option("UAIO_VERBOSE", "yes").expect("option", "PASS")
    option("UAIO_URING", "never").expect("option", "WARN", "option",
                                         words="left to the kernel")
    option("UAIO_POSIX", "off").expect("option", "WARN", "option",
                                       words="left to the C library")
    option("UAIO_STRICT", "maybe").expect("option", "FAIL", "option",
                                          words="maybe")
    # What the library can serve does not depend on them.
    option("UAIO_FAULT", "any:eio").expect(
        "option", "WARN", "option", words="on purpose").expect(
            "kernel AIO", "PASS").expect("POSIX AIO", "PASS")


@case("the doctor leaves no counts and no statistics of its own")
def _(tool):
    need_root()
    outcome = tool.exec(
        "unshare", "--mount", "sh", "-c",
        'mount -t tmpfs none /dev/shm && "$0" doctor >/dev/null; '
        'find /dev/shm -type f', tool.uaio,
        env={"UAIO_STATS_JSON": os.path.join(tool.scratch, "stats")})
    outcome.expect(out="")
    expect(os.path.exists(os.path.join(tool.scratch, "stats")), False,
           "statistics")


@case("the doctor refuses what it does not know in one line")
def _(tool):
    outcome = tool.exec(tool.uaio, "doctor", "--nonsense")
    expect((outcome.status, outcome.out), (2, ""), "status and output")
    expect(tool.exec(tool.uaio, "doctor", "--help").status, 0, "--help")


main()
