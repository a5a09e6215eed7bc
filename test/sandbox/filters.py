#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""filters.py BUILD SOURCE CLIENT WHAT: the library behind filters of calls.

What must come of each is in the tables of doc/sandboxes.md, which are read
here: behind a filter for an optional call the client ends as it does without,
but for errors that the call's row names; behind one for a needed call no data is
wrong and nothing hangs. WHAT is

    optional  each optional call, by each action, installed in each way
    needed    each needed call, the same
    real      filters that are in use
    complete  without a filter: all calls that are made are in the tables
"""
import collections
import os
import re
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True  # leave the source tree clean
sys.path.append(os.path.join(os.path.dirname(__file__), "..", "oracle"))
import sandbox  # noqa: E402

DOC = "doc/sandboxes.md"
DEADLINE = 60
SIGSYS = 31
WRONG = 2
ACTIONS = ("EPERM", "ENOSYS", "kill")
# By the program itself: for its thread, for all, after some requests.
INSIDE = ("prctl", "seccomp", "late")

# Of any program, at its start and its end, and of the client and the tool.
STARTING = """
    access alarm arch_prctl brk execve exit_group getrandom mmap munmap mprotect
    pread64 prlimit64 read readlink set_robust_list set_tid_address rseq uname
    wait4 getuid geteuid getgid getegid rt_sigaction rt_sigreturn fstat
    newfstatat statfs setrlimit getxattr
    """.split()
OF_CLIENT = """
    mknodat unlink memfd_create pipe2 pipe socketpair fork vfork
    restart_syscall
    """.split()
# Without these no program is loaded.
LOADING = {"openat", "read", "close", "mmap", "munmap", "mprotect", "fstat",
           "newfstatat", "pread64", "readlink",
           "prlimit64"}

# systemd.exec(5), SystemCallFilter=~@resources
RESOURCES = """
    ioprio_set mbind migrate_pages move_pages sched_setaffinity sched_setattr
    sched_setparam sched_setscheduler set_mempolicy setpriority setrlimit
    """.split()
# qemu(1), -sandbox with obsolete, elevateprivileges, spawn, resourcecontrol
QEMU = """
    reboot swapon swapoff syslog mount umount2 kexec_load afs_syscall
    create_module get_kernel_syms getpmsg nfsservctl query_module security
    setuid setgid setpgid setsid setreuid setregid setresuid setresgid setfsuid
    setfsgid vfork execve execveat getpriority setpriority sched_setparam
    sched_setscheduler sched_setaffinity unshare setns
    """.split()
# OpenSSH's list for the process that nobody trusts yet, and what programs with
# threads and with files make.
OPENSSH = """
    brk clock_gettime close exit exit_group futex getpid gettid getpgid
    getrandom getuid gettimeofday madvise mmap mprotect mremap munmap nanosleep
    poll ppoll pselect6 read rt_sigprocmask shutdown time write
    writev
    """.split()
THREADS = """
    clone clone3 set_robust_list rseq rt_sigaction wait4 restart_syscall
    """.split()
FILES = """
    pread64 pwrite64 readv preadv pwritev fsync fdatasync fcntl fstat newfstatat
    """.split()

Row = collections.namedtuple("Row", "table calls errors is_usual")


def rows_of(path):
    """The rows of the tables under their headings."""
    with open(path) as doc:
        lines = doc.read().splitlines()
    table = None
    for line in lines:
        if line.startswith("## "):
            table = line[3:].lower()
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if table in ("needed", "optional") and len(cells) == 2:
            calls = re.findall(r"`(\w+)`", cells[0])
            errors = set(re.findall(r"\bE[A-Z]+\b", cells[1]))
            if calls:
                yield Row(table, calls, errors, "(usual)" in cells[0])


class Client:
    """The client, run in folders of its own."""

    def __init__(self, box, program):
        self.box = box
        self.program = program
        self.place = box.ext4("place", 512 << 20) if box.is_private else \
            box.folder("place")
        self.nr = 0

    def run(self, when, filtered, tool=True):
        self.nr += 1
        folder = os.path.join(self.place, str(self.nr))
        os.mkdir(folder)
        # The C library opens a file, to count processors, when it happens to
        # give a thread memory of its own to allocate from.
        env = {"MALLOC_ARENA_MAX": "1"}
        inner = [self.program, when, *filtered]
        if when.startswith("before"):
            inner = [self.program, "none"]
        if tool:
            inner = self.box.uaio(*inner)
        else:
            inner = ["env", "LD_PRELOAD=" + os.path.join(self.box.build,
                                                         "libuaio.so"), *inner]
        if when.startswith("before"):
            inner = [self.program, "before", *filtered, *inner]
        status, output = sandbox.run(inner, DEADLINE, cwd=folder, env=env)
        if any(name.startswith("core") for name in os.listdir(folder)):
            status, output = WRONG, output + "A killed process left a core file.\n"
        subprocess.run(["rm", "-r", folder], check=True)
        return status, output


def complaint(status, output, errors, may_be_killed):
    """Return: what is wrong with how the client ended, or None."""
    if status is None:
        return "hangs"
    if status in (-SIGSYS, 128 + SIGSYS):
        return None if may_be_killed else "killed"
    if status != 0:
        return f"status {status}"
    for line in output.splitlines():
        what, _, came = line.partition(": ")
        if came != "ok" and came not in errors:
            return f"{what}: {came}"
    return None


def report(failures):
    for failure in failures:
        print(failure)
    return 1 if failures else 0


def each(jobs):
    """Run the clients, several at a time. Return: the complaints."""
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        return [text for text in pool.map(lambda job: job(), jobs) if text]


def optional_job(client, row, call, action, when, tool):
    def job():
        status, output = client.run(when, [f"{action}:{call}"], tool)
        killed = action == "kill" and row.is_usual and not tool
        # Without the tool all but the usual ones are missing at once.
        errors = row.errors if tool else row.errors | {"EOPNOTSUPP"}
        text = complaint(status, output, errors, killed)
        how = when if tool else f"{when}, without the tool"
        return f"{call} {action} ({how}): {text}\n{output}" if text else None
    return job


def test_optional(client, rows):
    jobs = []
    for row in rows:
        if row.table != "optional":
            continue
        for call in row.calls:
            for action in ACTIONS:
                ways = [(when, True) for when in INSIDE]
                if call not in LOADING:
                    ways += [("before", True), ("before", False)]
                jobs += [optional_job(client, row, call, action, *way)
                         for way in ways]
    return report(each(jobs))


def needed_job(client, call, action, when):
    def job():
        status, output = client.run(when, [f"{action}:{call}"])
        if status is None:
            return f"{call} {action} ({when}): hangs\n{output}"
        if status == WRONG:
            return f"{call} {action} ({when}): wrong data\n{output}"
        return None
    return job


def test_needed(client, rows):
    # A program may live without these, or with an error for them.
    lives = {call for row in rows if row.table == "needed"
             for call in row.calls if "futex" not in row.calls}
    jobs = [needed_job(client, call, action, when)
            for call in sorted(lives - {"exit_group", "exit", "rt_sigreturn"})
            for action in ACTIONS for when in INSIDE]
    return report(each(jobs))


def real_filters():
    """Return, for each real filter: its name, the filter, the errors it may cause, and
    whether only the program itself can install it."""
    for action in ("EPERM", "kill"):
        yield (f"systemd, {action}", f"{action}:{','.join(RESOURCES)}", {},
               False)
        yield f"qemu, {action}", f"{action}:{','.join(QEMU)}", {}, True
        listed = ",".join(OPENSSH + THREADS + FILES)
        yield (f"openssh, {action}", f"{action}!{listed}",
               {"EOPNOTSUPP", "EAGAIN"}, True)


def test_real(client):
    # Nothing may be killed but the children of the tool, which limit their core files.
    limit = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))

    def job(name, filtered, errors, when):
        def run():
            status, output = client.run(when, [filtered])
            text = complaint(status, output, errors, False)
            return f"{name} ({when}): {text}\n{output}" if text else None
        return run
    return report(each([
        job(name, filtered, errors, when)
        for name, filtered, errors, is_inside in real_filters()
        for when in INSIDE + (() if is_inside else ("before",))]))


def test_complete(client, rows):
    if subprocess.call(["which", "strace"], stdout=subprocess.DEVNULL):
        print("no strace here")
        return sandbox.SKIP
    known = {call for row in rows for call in row.calls}
    seen = set()
    for options in ([], ["--bounce", "--strict", "--cpus", "0", "--nice", "1",
                         "--stats-json=s"], ["--force-worker"]):
        trace = os.path.join(client.place, "trace")
        command = client.box.uaio(client.program, "none")
        command[2:2] = options
        status, output = sandbox.run(
            ["strace", "-f", "-o", trace, *command], DEADLINE,
            cwd=client.place)
        text = complaint(status, output, set(), False)
        if text:
            return report([f"under strace: {text}\n{output}"])
        with open(trace) as lines:
            seen |= set(re.findall(r"^\d+ +(\w+)\(", lines.read(), re.M))
    missing = seen - known - set(STARTING) - set(OF_CLIENT)
    return report([f"{call} is made, and in no table of {DOC}: if it can be "
                   f"done without it is one for src/base/calls.h"
                   for call in sorted(missing)])


def main():
    build, source, program, what = sys.argv[1:]
    rows = list(rows_of(os.path.join(source, DOC)))
    assert {row.table for row in rows} == {"needed", "optional"}
    program = os.path.abspath(program)
    client = Client(sandbox.Sandbox(build), program)
    status, output = client.run("none", [])
    text = complaint(status, output, set(), False)
    if text:
        print(f"without a filter: {text}\n{output}")
        return 1
    return {"optional": lambda: test_optional(client, rows),
            "needed": lambda: test_needed(client, rows),
            "real": lambda: test_real(client),
            "complete": lambda: test_complete(client, rows)}[what]()


if __name__ == "__main__":
    sys.exit(main())
