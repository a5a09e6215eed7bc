# SPDX-License-Identifier: MIT
"""Programs with another C library, or with a sanitizer, that inherit the library."""
import glob
import os

from harness import Skip, build, case, expect, main

SERVED = "".join(f"{by}: served\n" for by in
                 ("main", "thread", "child", "ring", "aio_read",
                  "callback"))


def stranger(tool, name, *flags, **options):
    path = os.path.join(tool.args.source, "test/run/stranger.c")
    with open(path) as file:
        return build(tool, name, file.read(), "-pthread", *flags, **options)


@case("a program for musl that a shell starts is served, and says nothing")
def _(tool):
    program = stranger(tool, "musl", compiler="musl-gcc")
    script = f"{program}; exec {program}"
    tool.run("--uring=always", "sh", "-c", script).expect(out=2 * SERVED)
    # Its own threads and its exit are seen: the last of its reports is whole.
    outcome = tool.run("--uring=always", "--stats", "sh", "-c", script)
    outcome.expect(out=2 * SERVED, err=None)
    expect(outcome.err.count("uaio: musl["), 4, "reports of two and a child each")
    expect(outcome.err.count("5 requests in 5 calls"), 2, "of main and thread")


@case("uaio run starts a program for musl, and its children have the library")
def _(tool):
    program = stranger(tool, "musl", compiler="musl-gcc")
    tool.run("--uring=always", program).expect(out=SERVED)
    for loader in glob.glob("/lib/ld-musl-*.so.1"):
        tool.run("--uring=always", loader, program).expect(out=SERVED)
    other = stranger(tool, "glibc")
    for command in (program, other), (other, program), (program, program):
        tool.run("--uring=always", *command).expect(out=2 * SERVED)


# Calls of io_uring by instructions of which two cross an aligned word.
ACROSS = """
long setup(void);
asm(".text\\n.type setup, @function\\nsetup:\\n"
    " .p2align 3\\n .cfi_startproc\\n"
    " .rept 5\\n nop\\n .endr\\n mov $426, %eax\\n syscall\\n"
    " .rept 2\\n nop\\n .endr\\n mov $426, %eax\\n syscall\\n"
    " .rept 1\\n nop\\n .endr\\n mov $425, %eax\\n syscall\\n"
    " ret\\n.cfi_endproc\\n.size setup, . - setup\\n");
int main(int nr, char **words) { return nr > 1 ? setup() : 0; }
"""


@case("each instruction of a program for musl that calls io_uring is changed")
def _(tool):
    if os.uname().machine != "x86_64":
        raise Skip("these are instructions of x86-64")
    program = build(tool, "across", ACROSS, compiler="musl-gcc")
    outcome = tool.run("--uring=always", "--verbose", program)
    if "3 come here, 0 cannot be changed" not in outcome.err:
        raise AssertionError(outcome.story)


@case("a program with a sanitizer is served, and its runtime says nothing")
def _(tool):
    for kind in ("address", "undefined", "thread"):
        program = stranger(tool, kind, f"-fsanitize={kind}", "-g")
        tool.run("--uring=always", program).expect(out=SERVED)
        tool.run("--uring=always", "sh", "-c", f"exec {program}").expect(out=SERVED)


@case("a sanitizer keeps the options that it is given")
def _(tool):
    for variable, option in (("ASAN_OPTIONS", "verify_asan_link_order"),
                             ("TSAN_OPTIONS", "die_after_fork")):
        def options(given):
            env = {} if given is None else {variable: given}
            return tool.run("sh", "-c", f"echo ${variable}", env=env).expect(
                out=None).out

        expect(options(None), f"{option}=0\n", "none given")
        expect(options("verbosity=0"), f"verbosity=0:{option}=0\n", "another")
        expect(options(f"{option}=1"), f"{option}=1\n", "the same")


main()
