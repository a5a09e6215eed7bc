# SPDX-License-Identifier: MIT
"""The library for aarch64, cross-built, under qemu-user.

The emulator answers ENOSYS to kernel AIO and to io_uring. UNIT names the unit tests of
what depends on the processor. Most others are not there because they play the answers to
calls that qemu 7.2 lacks (preadv2, pwritev2, openat2, epoll_pwait2, futex_waitv), trace
their threads, or look at signal masks, which the emulator keeps by itself. It orders
memory accesses as this machine does.
"""
import os
import re

import cross
import released
from harness import case, expect, main

LIBRARY = "libuaio.so.0"
# Names of unit tests, and what they are called with.
UNIT = (
    ("patch",),
    ("patch", "thread"),
    ("process",),
    ("lock",),
    ("eventcount",),
    ("cycles",),
    ("sleep",),
    ("vdso",),
    ("slab",),
    ("ringmem",),
    ("ring",),
    ("ctxtab",),
    ("uring",),
    ("uring-pages",),
    ("uring-region",),
    ("uring-timeout",),
    ("uring-resize",),
    ("posix",),
    ("queue",),
    ("order",),
)


class Root:
    """A root directory for arm64, which the first test makes and later tests find."""

    def __init__(self, tool):
        self.tool = tool
        # Without our own library, which the tests' runner has for the loader.
        self.env = {name: "" for name in os.environ
                    if name.startswith(("UAIO_", "LD_"))}
        self.root = cross.fetch_root(tool.args.build, tool.args.source)

    def exec(self, *command, **options):
        return self.tool.exec(*command, env=self.env, **options).expect(
            out=None, err=None)

    def emulate(self, *command, page=None, library=None):
        size = ("-p", str(page)) if page else ()
        return self.tool.exec(
            "qemu-aarch64-static", *size, "-L", self.root,
            *(("-E", f"LD_PRELOAD={library}", "-E", "UAIO_STATS=1")
              if library else ()), *command, env=self.env,
            cwd=self.tool.scratch)


class Arm(Root):
    """A root with the cross-built library, which the first test makes, too."""

    def __init__(self, tool):
        super().__init__(tool)
        self.build = cross.make(
            tool.args.build, tool.args.source, LIBRARY, "uaio",
            "test/unit/patch-module.so",
            *{f"test/unit/unit-test-{name}" for name, *_ in UNIT})

    def emulate(self, *command, loads=True, **options):
        return super().emulate(
            *command, library=f"{self.build}/{LIBRARY}" if loads else None,
            **options)

    def compile(self, source, name, *flags):
        program = self.tool.path(name)
        self.exec("aarch64-linux-gnu-gcc", f"--sysroot={self.root}", "-O2",
                  "-pthread", "-o", program,
                  os.path.join(self.tool.args.source, source), *flags)
        return program


def counts(outcome):
    """Return: the requests and rings that the reports mention."""
    return (sum(map(int, re.findall(r"\]: (\d+) requests?", outcome.err))),
            sum(map(int, re.findall(r"(\d+) rings?", outcome.err))))


@case("fio for aarch64 is served by all three interfaces, and verifies its data")
def _(tool):
    arm = Arm(tool)
    for engine in ("libaio", "io_uring", "posixaio"):
        done = arm.emulate(
            f"{arm.root}/usr/bin/fio", "--name=job", f"--ioengine={engine}",
            "--rw=randrw", "--size=2m", "--bs=4k", "--iodepth=16",
            "--verify=crc32c", "--fallocate=none", "--filename=" +
            tool.path("file"))
        expect(done.status, 0, done.story)
        # 512 blocks are written or read, and those that were written are verified.
        if counts(done)[0] < 512 or "err= 0" not in done.out:
            raise AssertionError(done.story)


@case("a release's tarball serves fio of Debian for aarch64")
def _(tool):
    arm = Root(tool)
    top = tool.path("release")
    released.unpack(
        released.find(released.release(tool.args.build, tool.args.source),
                      "*-aarch64.tar.gz"), top)
    said = arm.emulate(f"{top}/bin/uaio", "--version")
    said.expect(out=None)
    expect("for aarch64, glibc 2.17" in said.out, True, said.story)
    for engine in ("libaio", "io_uring", "posixaio"):
        done = arm.emulate(
            f"{arm.root}/usr/bin/fio", "--thread", "--name=job",
            f"--ioengine={engine}", "--rw=randwrite", "--size=2m", "--bs=4k",
            "--iodepth=16", "--verify=crc32c", "--fallocate=none",
            "--filename=" + tool.path("file"), library=f"{top}/lib/{LIBRARY}")
        expect(done.status, 0, done.story)
        # Each of 512 blocks is written and read.
        expect(counts(done), (1024, engine == "io_uring"), done.story)


@case("liburing's programs for aarch64 are served, linked to it either way")
def _(tool):
    arm = Arm(tool)
    for name, flag in (("static", "-l:liburing.a"), ("shared", "-luring")):
        program = arm.compile("test/uring/linked.c", name, flag)
        refused = arm.emulate(program, loads=False)
        if refused.status == 0:
            raise AssertionError("the emulator has io_uring: " + refused.story)
        for page in (None, 65536):
            done = arm.emulate(program, page=page)
            done.expect(out="all waits ended\n", err=None)
            expect(counts(done), (4, 1), done.story)


@case("a program for aarch64, its threads and its children are served")
def _(tool):
    arm = Arm(tool)
    done = arm.emulate(arm.compile("test/run/stranger.c", "stranger"))
    done.expect(out="".join(f"{by}: served\n" for by in (
        "main", "thread", "child", "ring", "aio_read", "callback")), err=None)


@case("a program for musl on aarch64 is served by the library for glibc")
def _(tool):
    arm = Arm(tool)
    root = cross.fetch(tool.args.build, tool.args.source, "bookworm", "arm-musl",
                       "musl-dev")
    libraries = f"{root}/usr/lib/aarch64-linux-musl"
    compiler = arm.exec("aarch64-linux-gnu-gcc", "-print-file-name=include")
    program = tool.path("stranger")
    # The compiler's own functions for atomic accesses are for glibc.
    arm.exec("aarch64-linux-gnu-gcc", "-O2", "-mno-outline-atomics", "-fPIE",
             "-pie", "-nostdinc", "-nostdlib", "-isystem",
             f"{root}/usr/include/aarch64-linux-musl", "-isystem",
             compiler.out.strip(), "-o", program, f"{libraries}/Scrt1.o",
             f"{libraries}/crti.o",
             os.path.join(tool.args.source, "test/run/stranger.c"),
             f"-L{libraries}", "-lc", f"{libraries}/crtn.o",
             "-Wl,--dynamic-linker=/lib/ld-musl-aarch64.so.1")
    arm.root = root
    done = arm.emulate(program)
    done.expect(out="".join(f"{by}: served\n" for by in (
        "main", "thread", "child", "ring", "aio_read", "callback")), err=None)


@case("stress-ng for aarch64 finishes its operations on kernel AIO and io_uring")
def _(tool):
    arm = Arm(tool)
    done = arm.emulate(f"{arm.root}/usr/bin/stress-ng", "--aio", "1",
                       "--aio-ops", "50", "--io-uring", "1", "--io-uring-ops",
                       "50", "--temp-path", tool.scratch, "--timeout", "600")
    expect(done.status, 0, done.story)
    if counts(done)[0] < 100 or counts(done)[1] != 1:
        raise AssertionError(done.story)


@case("the tool for aarch64 knows what its machine lacks, and refuses --trap")
def _(tool):
    arm = Arm(tool)
    program = arm.compile("test/uring/linked.c", "static", "-l:liburing.a")
    done = arm.emulate(f"{arm.build}/uaio", "doctor", program, loads=False)
    for word in ("an emulator of another processor", "on aarch64",
                 "io_uring"):
        if word not in done.out:
            raise AssertionError(f"no {word}: {done.story}")
    program = arm.compile("test/run/target.c", "target", "-D_GNU_SOURCE",
                          "-static")
    for option, advice in (
            ("--trap", "start it without --trap, and use a dynamic build"),
            ("--trap=off", "use a dynamic build of it\n")):
        done = arm.emulate(f"{arm.build}/uaio", "run", option, "--", program,
                           loads=False)
        done.expect_refusal(2, advice)


@case("the unit tests of what depends on the processor pass on aarch64")
def _(tool):
    arm = Arm(tool)
    for name, *arguments in UNIT:
        done = arm.tool.exec(
            "qemu-aarch64-static", "-L", arm.root,
            f"{arm.build}/test/unit/unit-test-{name}", *arguments, env=arm.env,
            cwd=tool.scratch)
        expect(done.status, 0, f"{name}: {done.story}")


main()
