#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""trap.py --uaio PROGRAM --filter PROGRAM --clients DIR [SENTENCE]

Programs under the trap, on io_uring and kernel AIO where the kernel refuses both. With
--list it prints the names of a suite's tests, one a line.
"""
import concurrent.futures
import contextlib
import errno
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, "..", "helpers"))
from cases import Skip, case, environment, main  # noqa: E402

DEADLINE = 300
REFUSED = ("io_uring_setup,io_uring_enter,io_uring_register,io_setup,io_submit,"
           "io_getevents,io_destroy,io_cancel")

# A static program of glibc at fixed addresses and one at any, one of musl, one that
# musl's loader starts, and one that glibc's does.
STATIC = ("static", "static-pie", "musl")
UNLOADABLE = STATIC + ("musl-dynamic",)
KINDS = UNLOADABLE + ("dynamic",)
CLIENTS = tuple(f"client-{kind}" for kind in KINDS)
NOBODY = 65534


def trap_for(program):
    """The flag that runs the client under the trap: some clients could load the library."""
    name = os.path.basename(program)
    is_loadable = name.endswith("-dynamic") and "musl" not in name
    return "--trap=always" if is_loadable else "--trap"


class Trap:
    def __init__(self, args, scratch):
        self.args = args
        self.scratch = scratch
        self.file = os.path.join(scratch, "file")
        with open(self.file, "wb") as file:
            file.write(os.urandom(64 << 10))

    def client(self, name):
        return os.path.join(self.args.clients, name)

    def exec(self, *command, **env):
        # The filter's program makes a file where it is started.
        return subprocess.run(command, env=environment(**env), timeout=DEADLINE,
                              text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, cwd=self.scratch)

    def refused(self, *command, refuse="EPERM", **env):
        """Behind a filter that refuses the kernel's io_uring and AIO."""
        return self.exec(self.args.filter, "before", f"{refuse}:{REFUSED}",
                         *command, **env)

    def run(self, *command, refuse="EPERM", options=(), **env):
        return self.refused(self.args.uaio, "run", trap_for(command[0]),
                            *options, *command, refuse=refuse, **env)

    def copy(self, name, mode=0o755):
        """A copy of a client, to be changed."""
        path = os.path.join(self.scratch, f"copy of {name}")
        shutil.copyfile(self.client(name), path)
        os.chmod(path, mode)
        return path

    def execute(self, kind, way, *command, **env):
        """What a program under the trap executes, in one of the ways of execs.c."""
        program = self.client(f"execs-{kind}")
        return self.exec(self.args.uaio, "run", trap_for(program), program,
                         way, *command, **env)

    def expect_as_without(self, way, *command, kinds=KINDS, **env):
        """Check that program and caller see what they see without the trap."""
        for kind in kinds:
            done = self.execute(kind, way, *command, **env)
            wanted = self.exec(self.client(f"execs-{kind}"), way, *command,
                               **env)
            if (done.returncode, done.stdout, done.stderr) != \
                    (wanted.returncode, wanted.stdout, wanted.stderr):
                raise AssertionError(f"{kind} {way}: {done}\nnot {wanted}")

    def expect(self, what, lines, *more, status=0, clients=CLIENTS, **options):
        for name in clients:
            done = self.run(self.client(name), what, self.file, *more,
                            **options)
            if (done.returncode, done.stderr) != (status, "") or \
                    done.stdout.splitlines() != lines:
                raise AssertionError(
                    f"{name} {what}: status {done.returncode}\n{done.stdout}"
                    f"{done.stderr}")


@case("a program that no library can be loaded into reads a file by io_uring")
def _(trap):
    for refuse in ("EPERM", "ENOSYS"):
        trap.expect("read", ["read: 0 of 200 parts are wrong"], refuse=refuse)


@case("without the trap, it is refused, and the message names the trap")
def _(trap):
    # Into one for musl the library can be loaded.
    for kind in STATIC:
        done = trap.exec(trap.args.uaio, "run", trap.client(f"client-{kind}"),
                         "read", trap.file)
        assert done.returncode == 2 and not done.stdout, done
        assert done.stderr.count("\n") == 1, done
        assert done.stderr.rstrip().endswith("--trap"), done


@case("without rdgsbase there is no trap, and one line says so")
def _(trap):
    hide = trap.client("hide-fsgsbase.so")
    for kind in KINDS:
        program = trap.client(f"client-{kind}")
        done = trap.exec(trap.args.uaio, "run", trap_for(program), program,
                         "read", trap.file, LD_PRELOAD=hide)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert done.stderr.count("\n") == 1, done
        assert "--trap: the kernel or the processor has no rdgsbase" \
            in done.stderr, done


@case("a program under the trap reads a file by kernel AIO")
def _(trap):
    trap.expect("aio", ["aio: 512 bytes, data 7, right"])


@case("threads under the trap read at once, and handlers of signals run as theirs")
def _(trap):
    trap.expect("threads", ["threads: 0 parts are wrong, 0 handlers with "
                            "another's variables"])


@case("a signal interrupts a wait under the trap, behind its handler")
def _(trap):
    trap.expect("interrupt", ["interrupt: 0 handlers with another's variables",
                              "interrupt: then 1 byte: x"])


@case("a program under the trap may block every signal")
def _(trap):
    trap.expect("blocked", ["blocked: 0 of 3 parts are wrong",
                            "thread: 0 of 3 parts are wrong",
                            "thread: SIGUSR1 blocked",
                            "blocked: handler waits",
                            "blocked: in the handler 0 of 3 parts are wrong; "
                            "now open"])


@case("a child of fork under the trap has rings of its own")
def _(trap):
    trap.expect("fork", ["parent: 0 of 10 parts are wrong",
                         "child: 0 of 10 parts are wrong",
                         "fork: status 5",
                         "parent: 0 of 10 parts are wrong"])


@case("a thread and a process by the system call clone alone are served under the trap")
def _(trap):
    trap.expect("clone", ["clone: in the thread 0 of 10 parts are wrong",
                          "clone: in the process, status 0",
                          "clone: in the process with this memory, "
                          "status 0"] * 2 + [
                          "clone: 0 of 3 parts are wrong"])


@case("threads under the trap end without a stack")
def _(trap):
    trap.expect("unmapped", [
        "unmapped: a detached thread has ended",
        "unmapped: a thread that unmaps its stack has ended",
        "unmapped: a thread without its stack has ended",
        "unmapped: it was it, and then none, none; the handler is on the stack",
    ] * 2 + ["unmapped: 0 of 3 parts are wrong"])


@case("a handler makes calls under the trap, though the call it interrupts blocks all else")
def _(trap):
    trap.expect("masked", ["masked: ppoll -1 pselect -1 epoll_pwait -1 "
                           "sigsuspend -1, 4 handlers"] * 2
                + ["masked: enter fails, 2 handlers, blocked 1 1"] * 2)


@case("a handler on an alternate stack makes calls under the trap, and others come below it")
def _(trap):
    trap.expect("alternate", [
        "alternate: 0 came too early, ppoll -1 enter -1 sigsuspend -1, "
        "then 0 of 3 parts are wrong",
        "alternate: on it, 4 came below, 0 bytes changed",
        "alternate: while it ticks 0 parts are wrong, 0 bytes changed",
        "alternate: then as it was, 0 of 3 parts are wrong",
        "alternate: on it, 2 came below, 0 bytes changed"] * 2 + [
        "alternate: 0 handlers with another's variables"])


@case("a handler of a fault in the library makes calls under the trap, and returns")
def _(trap):
    trap.expect("fault", [
        "fault: on the stack 3 faults, 0 calls failed, 0 parts are wrong",
        "fault: on another 3 faults, 0 calls failed, 0 parts are wrong",
        "then: 0 of 3 parts are wrong"])


@case("the vector registers are empty at the start under the trap, and as they were after calls")
def _(trap):
    calls = "vectors: in 3 calls, 0 wrong, 0 bytes changed"
    trap.expect("vectors", [calls, "vectors: at the start 0 bytes are not zero"],
                clients=CLIENTS[:len(STATIC)])
    # Here a loader has run before.
    for name in CLIENTS[len(STATIC):]:
        done = trap.run(trap.client(name), "vectors", trap.file)
        assert done.stdout.startswith(calls + "\n"), done


@case("a static program of liburing under the trap prints what it does on the kernel")
def _(trap):
    program = trap.client("liburing-static")
    wanted = trap.exec(program, trap.file)
    if wanted.stdout.startswith("refused"):
        raise Skip("the kernel has no io_uring here")
    done = trap.run(program, trap.file)
    assert wanted.returncode == 0 and wanted.stdout.count("\n") == 8, wanted
    assert (done.returncode, done.stdout, done.stderr) == \
        (0, wanted.stdout, wanted.stderr), (done, wanted)


@case("uaio check finds errors of a static program under the trap")
def _(trap):
    done = trap.refused(trap.args.uaio, "check", trap.client("two-reads-static"),
                        UAIO_TRAP="auto")
    if done.returncode != 99 or done.stderr.count("==ERROR") != 1 or \
            "uaio check: overlap-in-flight" not in done.stderr:
        raise AssertionError(done)


@case("a program under the trap ends with its last thread")
def _(trap):
    trap.expect("end", ["last thread: 0 of 10 parts are wrong"])


@case("a program under the trap has a heap of its own")
def _(trap):
    trap.expect("heap", ["heap: 0 are wrong"])


@case("code of a file is changed under the trap, and none that the program makes")
def _(trap):
    trap.expect("code", [
        f"code: {what}: 0 wrong, {seen}" for what, seen in (
            ("of a file", "changed"), ("shared", "as it was"),
            ("that may be written", "as it was"),
            ("that was made writable", "as it was"),
            ("where a file was", "as it was"),
            ("at the end of a file", "as it was"))])


@case("with --trap, a dynamic program has the trap if its instructions may make any call")
def _(trap):
    wanted = "vectors: in 3 calls, 0 wrong, 0 bytes changed\n"
    program = trap.client("client-dynamic")
    for flag, is_served in (("--trap", True), ("--trap=auto", True),
                            ("--trap=off", False)):
        done = trap.refused(trap.args.uaio, "run", flag, program, "vectors",
                            trap.file)
        assert done.stdout.startswith(wanted) == is_served, (flag, done)
    for value, is_served in (("1", True), ("always", True), ("0", False)):
        done = trap.refused(trap.args.uaio, "run", program, "vectors",
                            trap.file, UAIO_TRAP=value)
        assert done.stdout.startswith(wanted) == is_served, (value, done)
    # It may have the register, unlike under the trap.
    program = trap.client("execs-dynamic")
    done = trap.exec(trap.args.uaio, "run", "--trap", program, "gs")
    assert done.stdout == trap.exec(program, "gs").stdout, done


@case("without a trap to be had, --trap is for static programs alone, and refuses them")
def _(trap):
    for kind in KINDS:
        done = trap.exec(trap.args.filter, "before", "EPERM:prctl",
                         trap.args.uaio, "run", "--trap",
                         trap.client(f"client-{kind}"), "read", trap.file)
        assert done.returncode == (2 if kind in UNLOADABLE else 0), done
    done = trap.exec(trap.args.filter, "before", "EPERM:prctl", trap.args.uaio,
                     "run", "--trap=always", trap.client("client-dynamic"),
                     "read", trap.file)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert "no syscall user dispatch" in done.stderr, done


@case("a program under the trap has its name, its arguments and its environment")
def _(trap):
    for name in CLIENTS:
        client = trap.client(name)
        done = trap.run(client, "show", trap.file, "more", SHOWN="yes")
        wanted = [f"exe {os.path.realpath(client)}", f"name {name[:15]}",
                  f"argument {client}", "argument show",
                  f"argument {trap.file}", "argument more",
                  "variable SHOWN=yes"]
        assert (done.returncode, done.stderr) == (0, ""), done
        assert sorted(done.stdout.splitlines()) == sorted(wanted), done


@case("a program under the trap starts others three ways, and goes on")
def _(trap):
    shell = ["/bin/sh", "-c", "exit 3"]
    trap.expect("exec", ["spawn: status 3", "fork: status 3",
                         "vfork: status 3", "after: 0 of 3 parts are wrong"],
                *shell)


@case("what a program under the trap executes has the trap, whatever both are")
def _(trap):
    for kind in KINDS:
        child = (trap.client(f"client-{kind}"), "read", trap.file)
        served = "read: 0 of 200 parts are wrong"
        trap.expect("exec", [served, "spawn: status 0",
                             served, "fork: status 0",
                             served, "vfork: status 0",
                             "after: 0 of 3 parts are wrong"], *child)


@case("a program under the trap executes others by each call, and they theirs")
def _(trap):
    for kind in KINDS:
        for child in KINDS:
            program = trap.client(f"execs-{child}")
            name = os.path.basename(program)
            for way in ("execve", "execveat", "relative", "spawn", "vfork"):
                done = trap.execute(kind, way, program, "execve", program,
                                    "state")
                seen = (f"state: {program}, 2 arguments, user {os.geteuid()}, "
                        "mask 0, library there\nexecve: status 3\n"
                        f"{way}: status 0\n")
                assert (done.stdout, done.stderr) == (seen, ""), (name, done)


@case("a child of a child of the trap has the library, if it is for this C library")
def _(trap):
    for kind in UNLOADABLE:
        done = trap.execute(kind, "execve", "/usr/bin/env")
        wanted = f"LD_PRELOAD={os.path.dirname(trap.args.uaio)}/libuaio.so"
        assert wanted in done.stdout, done
        assert "UAIO_TRAP_" not in done.stdout, done


@case("with --trap=always, what the program executes has the trap, and does not see it")
def _(trap):
    program = trap.client("execs-dynamic")
    done = trap.execute("dynamic", "execve", program, "execve", "/usr/bin/env")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "UAIO_TRAP=always" in done.stdout.splitlines(), done
    assert "UAIO_TRAP_" not in done.stdout, done
    assert "libuaio" not in done.stdout, done


@case("what cannot have the trap is executed as without, and so is what is refused")
def _(trap):
    for child in UNLOADABLE:
        program = trap.client(f"execs-{child}")
        # With an environment of its own, and others that are wrong.
        ways = ["no-environment", "null-environment", "bad-environment",
                "bad-variable", "bad-path"]
        # musl's loader acts upon the rest, with and without the trap.
        if child != "musl-dynamic":
            ways += ["descriptor", "no-trap", "loader-variable", "filter",
                     "memory", "descriptors"]
        for way in ways:
            trap.expect_as_without(way, program, "state")
    for way in ("execve", "spawn", "vfork"):
        for path in ("/no/such/file", "/", trap.file, "/dev/null"):
            trap.expect_as_without(way, path, "state")


@case("a file that is no program for this machine is executed as without the trap")
def _(trap):
    program = trap.copy("execs-static", mode=0o644)
    trap.expect_as_without("execve", program, "state")
    os.chmod(program, 0o755)
    script = os.path.join(trap.scratch, "script")
    with open(script, "w") as file:
        file.write("#!/no/such/interpreter\n")
    os.chmod(script, 0o755)
    trap.expect_as_without("execve", script, "state")
    # The machine; the type; the number of program headers; where they are.
    for at, word in ((18, b"\xb7\0"), (16, b"\1\0"), (56, b"\0\0"),
                     (32, b"\xff\xff")):
        program = trap.copy("execs-static")
        with open(program, "r+b") as file:
            file.seek(at)
            file.write(word)
        trap.expect_as_without("execve", program, "state")


@case("a program that gains rights, or is in another root, is executed as without the trap")
def _(trap):
    if os.geteuid() != 0:
        raise Skip("needs root, to make a program of another user")
    os.chmod(trap.scratch, 0o755)
    for child in UNLOADABLE:
        program = trap.copy(f"execs-{child}")
        if child != "musl-dynamic":
            trap.expect_as_without("root", program, "state")
        os.chown(program, NOBODY, NOBODY)
        os.chmod(program, 0o4755)
        trap.expect_as_without("execve", program, "state",
                               kinds=STATIC)


def want_executable_stack(path):
    """Change the file's program header that says so (PT_GNU_STACK)."""
    with open(path, "r+b") as file:
        elf = file.read(64)
        at, = struct.unpack_from("<Q", elf, 32)
        bytes_each, number = struct.unpack_from("<HH", elf, 54)
        for i in range(number):
            file.seek(at + i * bytes_each)
            if struct.unpack("<I", file.read(4))[0] == 0x6474e551:
                file.write(struct.pack("<I", 7))
                return
    raise AssertionError(f"{path} has no such header")


@case("a program that wants to execute its stack is refused, and as a child as without")
def _(trap):
    for kind in KINDS:
        program = trap.copy(f"execs-{kind}")
        want_executable_stack(program)
        done = trap.exec(trap.args.uaio, "run",
                         trap_for(trap.client(f"execs-{kind}")), program,
                         "state")
        assert (done.returncode, done.stdout) == (2, ""), done
        assert done.stderr == (f"uaio: {program}: --trap: it wants to execute "
                               "code on its stack\n"), done
        if kind in STATIC:
            trap.expect_as_without("execve", program, "state")


@case("a program whose variables are all zero at first is mapped under the trap")
def _(trap):
    # mov byte [0x602808], 3; movzx edi, byte [0x602808]; mov eax, exit_group; syscall
    code = bytes.fromhex("c604250828600003 0fb63c2508286000 b8e7000000 0f05")
    headers = 64 + 2 * 56
    size = headers + len(code)
    elf = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1,
                      0x400000 + headers, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    for flags, offset, address, in_file, in_memory in (
            (5, 0, 0x400000, size, size), (6, 0x808, 0x602808, 0, 1)):
        elf += struct.pack("<IIQQQQQQ", 1, flags, offset, address, address,
                           in_file, in_memory, 4096)
    path = os.path.join(trap.scratch, "zeros")
    with open(path, "wb") as file:
        file.write(elf + code)
    os.chmod(path, 0o755)
    for command in (path,), (trap.args.uaio, "run", "--trap", path):
        done = trap.exec(*command)
        assert (done.returncode, done.stdout, done.stderr) == (3, "", ""), done


@case("the register gs is not a program's under the trap, and it is told so")
def _(trap):
    for kind in KINDS:
        program = trap.client(f"execs-{kind}")
        done = trap.exec(trap.args.uaio, "run", trap_for(program), program, "gs")
        assert done.stdout == ("gs: set Invalid argument, base 0, instructions "
                               "hidden\n"), done


@case("a program that is executed while signals come has the mask of the one before")
def _(trap):
    for kind in KINDS:
        program = trap.client(f"execs-{kind}")
        for way in ("signals", "signals-no-trap"):
            done = trap.execute(kind, way, program)
            assert done.stdout == "signals: 0 of 50 have another mask\n", done


@case("a program that is killed under the trap leaves nothing behind")
def _(trap):
    for name in CLIENTS:
        reader, writer = os.pipe()
        child = subprocess.Popen(
            [trap.args.uaio, "run", trap_for(name), "--uring=always",
             trap.client(name), "forever", trap.file],
            env=environment(), stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, pass_fds=[writer])
        os.close(writer)
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGKILL)
        assert child.wait(DEADLINE) == -signal.SIGKILL
        # Nobody else has the pipe: it is over.
        assert os.read(reader, 1) == b""
        os.close(reader)
        child.stdout.close()


# A program that loads a library while it runs, and what the library read.
LOADS = """
import ctypes, sys
with open(sys.argv[2], "rb") as file:
    got = ctypes.create_string_buffer(4096)
    done = ctypes.CDLL(sys.argv[1]).own_read(file.fileno(), got, len(got))
    print(done, got.raw == file.read(len(got)))
"""


@case("a library without unwind tables is served, with the trap and without")
def _(trap):
    library = trap.client("own.so")
    assert "eh_frame" not in trap.exec("readelf", "-SW", library).stdout
    program = (sys.executable, "-I", "-c", LOADS, library, trap.file)
    done = trap.refused(*program)
    assert done.stdout == f"{-errno.EPERM} False\n", done
    for option in "--trap=off", "--trap=always":
        done = trap.refused(trap.args.uaio, "run", option, "--stats", *program)
        assert (done.returncode, done.stdout) == (0, "4096 True\n"), done
        assert ": 1 request in " in done.stderr, done
        assert ", 1 ring\n" in done.stderr, done


@case("a ring that would be entered by calls which cannot be changed needs the trap")
def _(trap):
    program = trap.client("kept")
    done = trap.refused(trap.args.uaio, "run", "--verbose", program, trap.file)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert "no ring: Operation not permitted" in done.stderr, done
    assert "0 come here, 1 cannot be changed" in done.stderr, done
    done = trap.refused(trap.args.uaio, "doctor", program)
    assert "1 instruction in kept that calls it cannot be changed" in \
        done.stdout, done
    for option in "--trap", "--trap=always":
        done = trap.refused(trap.args.uaio, "run", option, program, trap.file)
        assert done.stdout == "entered: 1, read: 4096, right: 1\n", done


GO = ("client-go",)


@case("a program of Go under the trap reads in goroutines while garbage is collected",
      suite="client")
def _(trap):
    trap.expect("goroutines", ["goroutines: 0 of 1600 parts are wrong"],
                clients=GO)


@case("Go's runtime under the trap stops a thread that waits in io_uring_enter",
      suite="client")
def _(trap):
    trap.expect("preempt", ["preempt: 1 byte: x"], clients=GO)


@case("a program of Go under the trap reads a file by kernel AIO", suite="client")
def _(trap):
    trap.expect("aio", ["aio: 1 event, 512 bytes, data 7, right: true"],
                clients=GO)


@case("what Go executes under the trap has the trap, and Go has it as a child",
      suite="client")
def _(trap):
    served = "read: 0 of 200 parts are wrong"
    for kind in KINDS:
        trap.expect("exec", [served, "exec: status 0, then 512 bytes"],
                    trap.client(f"client-{kind}"), "read", trap.file,
                    clients=GO)
    child = (trap.client(*GO), "goroutines", trap.file)
    served = "goroutines: 0 of 1600 parts are wrong"
    trap.expect("exec", [served, "spawn: status 0", served, "fork: status 0",
                         served, "vfork: status 0",
                         "after: 0 of 3 parts are wrong"], *child)


@contextlib.contextmanager
def go_server(trap, *options):
    """The address of the server of Go with C, which ends with the block."""
    with subprocess.Popen(
            [trap.args.filter, "before", f"EPERM:{REFUSED}", trap.args.uaio,
             "run", *options, "--stats", trap.client("server-go")],
            env=environment(), text=True, cwd=trap.scratch,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE) as server:
        try:
            yield server, server.stdout.readline().strip()
        finally:
            server.kill()


@case("a server of Go with C, which is dynamic, serves files by io_uring under the trap",
      suite="client")
def _(trap):
    data, parts, threads = os.urandom(600_001), 147, 8
    url = None

    def fetch(_):
        with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
            return answer.read()

    for option in ("--trap", "--trap=always"):
        with go_server(trap, option) as (server, address):
            url = f"http://{address}{trap.scratch}/served"
            urllib.request.urlopen(
                urllib.request.Request(url, data, method="PUT"),
                timeout=DEADLINE).close()
            with open(f"{trap.scratch}/served", "rb") as file:
                assert file.read() == data
            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                assert all(got == data for got in pool.map(fetch, range(threads)))
            server.stdin.close()
            said = server.stderr.read()
            assert server.wait(DEADLINE) == 0, said
            wanted = f"{(threads + 1) * parts} requests in "
            assert wanted in said and f", {threads + 1} rings" in said, said


@case("without the trap, a server of Go with C is refused io_uring", suite="client")
def _(trap):
    with go_server(trap, "--trap=off") as (server, address):
        try:
            urllib.request.urlopen(f"http://{address}{trap.file}",
                                   timeout=DEADLINE).close()
        except (OSError, urllib.error.URLError):
            pass
        assert "operation not permitted" in server.stdout.read()


# How a program of Zig is built. Of the dynamic ones all calls of io_uring can be changed,
# but for those of the third: their number is an argument of a function.
BARE = ("-fstrip", "-fno-unwind-tables")
ZIG = {
    "static": ("-OReleaseFast", *BARE),
    "static-debug": ("-ODebug",),
    "dynamic": ("-OReleaseSafe", *BARE, "-lc"),
    "dynamic-fast": ("-OReleaseFast", *BARE, "-lc"),
    "dynamic-debug": ("-ODebug", "-lc"),
}
ZIG_COPIED = 600_001
ZIG_RINGS = 4
# A read and a write for each part, and an fsync by each ring.
ZIG_REQUESTS = 2 * (ZIG_COPIED // 4096 + 1) + ZIG_RINGS


def zig_program(trap, kind):
    """Build it, for any processor; the compiler is fetched by the first that wants it."""
    fetched = subprocess.run(
        [os.path.join(HERE, "..", "..", "tools", "fetch-zig"), trap.args.zig],
        text=True, stdout=subprocess.PIPE)
    assert fetched.returncode == 0, "tools/fetch-zig failed: above it says why"
    cache = os.path.join(trap.args.clients, "zig-cache")
    program = os.path.join(trap.scratch, f"copy-{kind}")
    done = trap.exec(fetched.stdout.strip(), "build-exe", *ZIG[kind],
                     "-mcpu=baseline", f"-femit-bin={program}",
                     os.path.join(HERE, "copy.zig"),
                     ZIG_GLOBAL_CACHE_DIR=cache, ZIG_LOCAL_CACHE_DIR=cache)
    assert done.returncode == 0, done
    return program


def zig_copy(trap, program, *options):
    """Run the program. Return: its output, and whether the copy is equal."""
    source, target = (os.path.join(trap.scratch, name)
                      for name in ("source", "target"))
    data = os.urandom(ZIG_COPIED)
    with open(source, "wb") as file:
        file.write(data)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)
    done = trap.refused(trap.args.uaio, "run", *options, "--stats", program,
                        source, target)
    if not os.path.exists(target):
        return done, False
    with open(target, "rb") as file:
        return done, file.read() == data


def expect_zig_served(trap, program, *options):
    done, is_same = zig_copy(trap, program, *options)
    assert (done.returncode, done.stdout, is_same) == (0, "", True), done
    assert f": {ZIG_REQUESTS} requests in " in done.stderr, done
    assert f", {ZIG_RINGS} rings\n" in done.stderr, done
    assert f"  completed {ZIG_REQUESTS}, " in done.stderr, done


@case("a program of Zig, static or dynamic, copies a file by io_uring under the trap",
      suite="client")
def _(trap):
    for kind in ZIG:
        program = zig_program(trap, kind)
        for option in ("--trap", "--trap=always"):
            expect_zig_served(trap, program, option)


@case("without the trap, a program of Zig is served if it is dynamic and optimized",
      suite="client")
def _(trap):
    for kind in ("dynamic", "dynamic-fast"):
        expect_zig_served(trap, zig_program(trap, kind))
    done, _ = zig_copy(trap, zig_program(trap, "dynamic-debug"))
    assert (done.returncode, "PermissionDenied" in done.stderr) == (1, True), done
    done, _ = zig_copy(trap, zig_program(trap, "static"))
    assert done.returncode == 2 and done.stderr.endswith("--trap\n"), done


def call(function, args):
    with tempfile.TemporaryDirectory(prefix="uaio-trap-") as scratch:
        function(Trap(args, scratch))


main(("uaio", "filter", "clients", "zig"), call=call)
