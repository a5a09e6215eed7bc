# SPDX-License-Identifier: MIT
"""Who may call what, where the rooms of src/ do not say it.

Which rooms a room may use the compiler knows: src/README.md. Tests that lie
beside the file they test may include and call anything.
"""
import re

from tree import Finding, Source, is_test

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


# The folders of the command, whose headers a file may include besides its own.
TOOL_FOLDER = re.compile(r"(?:src/)?tool/(\w+)/.*")
TOOL_USES = {"top": {"common", "trace"}, "common": set()}


def _is_apart(path, header):
    """Whether a file of the command and a header are of two subcommands."""
    here, there = TOOL_FOLDER.fullmatch(path), TOOL_FOLDER.fullmatch(header)
    return here and there and here[1] != there[1] and \
        there[1] not in TOOL_USES.get(here[1], {"common"})


def check_includes(tree):
    """Headers beside a file are found by half their path, too."""
    findings = []
    for path in tree.c_files("src"):
        if is_test(path):
            continue
        source = Source(tree.read(path))
        findings += [
            Finding(path, source.line(match.start(1)),
                    f'"{match[1]}" is not found: write its path from src/, or '
                    "<> for a header of the system")
            for match in INCLUDE.finditer(source.text)
            if "./" in match[1] or not (tree.exists(f"src/{match[1]}") or
                                        tree.exists(f"include/{match[1]}"))]
        findings += [
            Finding(path, source.line(match.start(1)),
                    f'"{match[1]}" is another subcommand\'s: move what both '
                    "need to src/tool/common")
            for match in INCLUDE.finditer(source.text)
            if _is_apart(path, match[1])]
    return findings


# System calls by number outside base/sys.h and base/asked.h, what is listed in
# base/calls.c and tool/doctor/kernel-calls.c, host, and trap: each happens in one place,
# at which its meaning is. newer.h defines those that old headers lack.
NUMBERS = {
    ("src/base/newer.h", "SYS_close_range"),
    ("src/base/newer.h", "SYS_epoll_pwait2"),
    ("src/base/sleep.c", "SYS_futex"),
    ("src/base/sleepcall.h", "SYS_ppoll"),
    ("src/base/sleepcall.h", "SYS_preadv2"),
    ("src/base/sleepcall.h", "SYS_pwritev2"),
    ("src/patch/patch.c", "SYS_io_uring_enter"),
    ("src/tool/common/secure.c", "SYS_capget"),
    ("src/tool/trace/attach.c", "SYS_pidfd_open"),
    ("src/tool/trace/records.c", "SYS_memfd_create"),
    ("src/tool/doctor/filesystem.c", "SYS_preadv2"),
    ("src/tool/doctor/filesystem.c", "SYS_statx"),
    ("src/tool/doctor/served.c", "SYS_io_uring_setup"),
}

# Functions of the C library that are system calls: they set errno, may be
# cancellation points, and are where others interpose.
WRAPPERS = """
accept bind close close_range connect copy_file_range dup dup2 dup3 epoll_create
epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd fallocate fcntl fdatasync
fstat fstatat fstatfs fsync ftruncate futex getpid getrusage gettid io_setup
ioctl kill lseek madvise mlock mmap mremap munmap nanosleep open openat poll
posix_fadvise ppoll prctl pread pread64 preadv preadv2 pwrite pwrite64 pwritev
pwritev2 read readahead readlink readlinkat readv recv recvmsg sched_getaffinity
sched_setaffinity select send sendmsg signalfd sleep splice stat statx
sync_file_range syscall tgkill timerfd_create timerfd_settime usleep waitid
waitpid write writev
""".split()


class Rule:
    def __init__(self, pattern, text, applies):
        self.pattern = re.compile(pattern)
        self.text = text
        self.applies = applies


def _in(*folders):
    return lambda path, name: path.startswith(
        tuple(f"src/{folder}/" for folder in folders))


def _but_in(*folders):
    return lambda path, name: not _in(*folders)(path, name)


RULES = [
    Rule(r"\b(uaio_lock)\s*\(",
         "what stands in front of the C library holds no lock: let the engine "
         "do it", _in("host")),
    # identity.c stands in front of those that create threads.
    Rule(r"\b(uaio_thread_start|pthread_create|thrd_create|pthread_mutex_lock)"
         r"\s*\(",
         "a front-end has no thread: let the engine have it",
         lambda path, name: _in("aio", "host")(path, name)
         and not path.endswith("host/identity.c")),
    Rule(r"\b(sys_futex)\s*\(",
         "only base/sleep.c makes futex calls: use uaio_sleep(), uaio_wake()",
         lambda path, name: path not in (
             "src/base/sleep.c", "src/base/sys.h")),
    Rule(r"\b(pthread_(?:mutex|cond|rwlock|spin|barrier)_\w+|sem_\w+|mtx_\w+|"
         r"cnd_\w+)\s*\(",
         "nothing but base/lock.h and base/eventcount.h sleeps or wakes: use "
         "those", _but_in("tool")),
    Rule(r"\b((?:SYS|__NR)_\w+)\b",
         "system calls are made in base/sys.h: add a function there, or list "
         "this one use in tools/lint.d/calls.py",
         lambda path, name: path not in (
             "src/base/sys.h", "src/base/asked.h", "src/base/calls.c",
             "src/tool/doctor/kernel-calls.c")
         and not path.startswith(("src/host/", "src/trap/"))
         and (path, name) not in NUMBERS),
    # Behind a type it is another function of that name.
    Rule(r"(?<![\w.>])(?:(?<!\w )|(?<=return )|(?<=else ))(" +
         "|".join(WRAPPERS) + r")\s*\(",
         "system calls go through base/sys.h: call sys_...() from there",
         _but_in("host", "tool")),
]


def check_calls(tree):
    findings = []
    for path in tree.c_files("src"):
        if is_test(path):
            continue
        source = Source(tree.read(path))
        for rule in RULES:
            for match in rule.pattern.finditer(source.code):
                if rule.applies(path, match[1]):
                    findings.append(Finding(
                        path, source.line(match.start(1)),
                        f"{match[1]}: {rule.text}"))
    return findings
