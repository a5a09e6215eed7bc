# SPDX-License-Identifier: MIT
"""uaio doctor: programs, and files and directories."""
import os
import re
import struct
import sys

from diagnosis import behind, doctor
from harness import Skip, behind_mount, build, case, expect, main

DENIED = "EPERM:io_uring_setup,io_uring_enter,io_uring_register"

# A function that calls io_uring_setup by an instruction of its own.
INLINE = """
__attribute__((noinline)) long own_setup(void *params)
{
	long ret;

	asm volatile("movl $425, %%eax\\n\\tsyscall"
		     : "=a"(ret) : "D"(1), "S"(params) : "rcx", "r11", "memory");
	return ret;
}
"""


def user_of(function):
    """Build a program that calls the function only if it is run with an argument."""
    return (f"int {function}();\n"
            f"int main(int nr, char **words)\n"
            f"{{ return nr > 1 ? {function}(words) : 0; }}\n")


@case("the doctor tells which interfaces a program uses, and that they are served")
def _(tool):
    program = build(tool, "aio", user_of("io_submit"), "-laio")
    doctor(tool, program).expect(
        "kernel AIO", "PASS", section=program,
        words="functions of libaio in aio: uaio run serves them").expect(
            "program", "PASS", section=program)
    program = build(tool, "posix", user_of("aio_read64"))
    doctor(tool, program).expect(
        "POSIX AIO", "PASS", section=program, words="in posix: uaio run")
    program = build(tool, "ring", user_of("io_uring_queue_init"), "-luring")
    doctor(tool, program, before=behind(tool, DENIED)).expect(
        "io_uring", "PASS", section=program,
        words="functions of liburing in ring: uaio run serves them")
    program = build(tool, "any", user_of("syscall"))
    doctor(tool, program).expect(
        "interfaces", "PASS", section=program, words="syscall(2)")
    program = build(tool, "none", user_of("getpid"))
    doctor(tool, program).expect(
        "interfaces", "WARN", "program", section=program)


@case("the doctor finds instructions that call io_uring")
def _(tool):
    if os.uname().machine != "x86_64":
        raise Skip("they are found on x86-64")
    text = INLINE + user_of("own_setup").partition("\n")[2]
    program = build(tool, "inline", text)
    doctor(tool, program, before=behind(tool, DENIED)).expect(
        "io_uring", "PASS", section=program,
        words="1 instruction in inline that calls it: uaio run serves them")
    # Where memory must not be written and executed, they cannot be changed.
    mdwe = [sys.executable, "-c", """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):
    sys.exit("no PR_SET_MDWE")
os.execvp(sys.argv[1], sys.argv[1:])
"""]
    doctor(tool, program, before=[*mdwe, *behind(tool, DENIED)]).expect(
        "io_uring", "WARN", "seccomp", section=program,
        words="1 instruction in inline that calls it: not served")
    doctor(tool, program, before=mdwe).expect(
        "io_uring", "PASS", section=program,
        words="--uring=always cannot serve them")
    program = build(tool, "static", text, "-static")
    doctor(tool, program, before=behind(tool, DENIED)).expect(
        "program", "WARN", "program", section=program,
        words="statically linked").expect(
            "io_uring", "PASS", section=program,
            words="1 instruction in static that calls it: uaio run --trap "
                  "serves them")
    doctor(tool, program, before=behind(tool, "EPERM:prctl")).expect(
        "program", "FAIL", "program", section=program,
        words="statically linked").expect(
            "io_uring", "FAIL", "program", section=program,
            words="1 instruction in static")
    program = build(tool, "static-none", user_of("getpid"), "-static")
    doctor(tool, program).expect("interfaces", "PASS", section=program,
                                 words="uaio run --trap --stats")


@case("the doctor tells of a program what is served as the environment sets it")
def _(tool):
    if os.uname().machine != "x86_64":
        raise Skip("its instructions are of x86-64")
    text = (INLINE + INLINE.replace("$425", "$206").replace("own", "aio") +
            user_of("own_setup").partition("\n")[2] +
            "int aio_read(); int use(void) { return aio_read() + aio_setup(0); }")
    program = build(tool, "inline", text)

    def expect_of(subject, level, words, cause=None, of=program, before=(),
                  **settings):
        env = {f"UAIO_{name}": value for name, value in settings.items()}
        doctor(tool, of, env=env, before=before).expect(
            subject, level, cause, section=of, words=words)

    denied = behind(tool, DENIED)
    site = "1 instruction in inline that calls it: "
    expect_of("io_uring", "PASS", site + "uaio run serves them, as UAIO_URING",
              URING="always")
    expect_of("io_uring", "FAIL", site + "not served, as UAIO_URING=never",
              "option", before=denied, URING="never")
    expect_of("io_uring", "WARN", site + "not served, as UAIO_NO_PATCH is set",
              "option", before=denied, NO_PATCH="1")
    expect_of("POSIX AIO", "PASS", "the C library's own", POSIX="off")
    # What is trapped without another option.
    expect_of("kernel AIO", "WARN", "the calls reach the kernel", "program")
    for when in "auto", "always":
        expect_of("kernel AIO", "PASS", site + "uaio run serves them",
                  TRAP=when)
        expect_of("io_uring", "PASS", site + "uaio run serves them",
                  before=denied, TRAP=when, NO_PATCH="1")
    static = build(tool, "static", text, "-static")
    expect_of("program", "PASS", "uaio run has the trap for it", of=static,
              TRAP="auto")


@case("the doctor finds calls of io_uring in code without tables for unwinding")
def _(tool):
    if os.uname().machine != "x86_64":
        raise Skip("they are found on x86-64")
    bare = ["-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-s"]
    text = INLINE + user_of("own_setup").partition("\n")[2]
    for name, options in (("bare", []), ("bare-moved", ["-pie", "-fPIE"]),
                          ("bare-fixed", ["-no-pie", "-fno-pie"])):
        program = build(tool, name, text, *bare, *options)
        doctor(tool, program, before=behind(tool, DENIED)).expect(
            "io_uring", "PASS", section=program,
            words=f"1 instruction in {name} that calls it: uaio run serves")
        # And so it is.
        outcome = tool.exec(tool.uaio, "run", "--uring=always", "--verbose",
                            program)
        if "1 come here, 0 cannot be changed" not in outcome.err:
            raise AssertionError(f"{name}: {outcome.err}")
    # Nothing in the program leads to the instruction.
    text = ('asm(".text\\n mov $425, %eax\\n syscall\\n ret\\n");\n'
            + user_of("getpid"))
    program = build(tool, "unnamed", text, *bare)
    doctor(tool, program, before=behind(tool, DENIED)).expect(
        "io_uring", "WARN", "program", section=program,
        words="1 instruction in unnamed that calls it cannot be changed")


@case("the doctor warns of instructions that call kernel AIO")
def _(tool):
    if os.uname().machine != "x86_64":
        raise Skip("they are found on x86-64")
    text = (INLINE + user_of("own_setup").partition("\n")[2]).replace(
        "$425", "$206")
    program = build(tool, "inline", text)
    doctor(tool, program).expect(
        "kernel AIO", "WARN", "program", section=program,
        words="1 instruction in inline that calls it")


@case("the doctor looks at the libraries that a program needs")
def _(tool):
    library = build(tool, "libused.so", user_of("lio_listio").replace(
        "main", "used"), "-shared", "-fPIC", "-Wl,-soname,libused.so")
    program = build(tool, "user", user_of("used"), library,
                    f"-Wl,-rpath,{tool.scratch}", "-Wl,--no-as-needed")
    doctor(tool, program).expect(
        "POSIX AIO", "PASS", section=program, words="in libused.so")
    os.unlink(library)
    doctor(tool, program).expect(
        "libraries", "FAIL", "program", section=program, words="libused.so")


@case("the doctor looks at what interprets a script")
def _(tool):
    program = build(tool, "posix", user_of("aio_read"))
    script = tool.write("script", f"#!{program}\n")
    doctor(tool, script).expect("POSIX AIO", "PASS", section=script,
                                words="in posix")


@case("the doctor fails a program that the library cannot be loaded into")
def _(tool):
    program = tool.copy(tool.args.target, "program")
    with open(program, "rb") as file:
        image = bytearray(file.read())
    for offset, form, value, words in (
            (4, "B", 1, "64-bit"), (18, "<H", 0xf3, "another processor")):
        changed = bytearray(image)
        struct.pack_into(form, changed, offset, value)
        with open(program, "wb") as file:
            file.write(changed)
        doctor(tool, program).expect("program", "FAIL", "program",
                                     section=program, words=words)
    doctor(tool, "no-such-command").expect(
        "program", "FAIL", "program", section="no-such-command",
        words="not found")


@case("the doctor looks at a program for musl, and at its libraries")
def _(tool):
    library = build(tool, "libused.so", user_of("aio_read").replace(
        "main", "used"), "-shared", "-fPIC", "-Wl,-soname,libused.so",
        compiler="musl-gcc")
    musl = build(tool, "musl", user_of("used"), library,
                 f"-Wl,-rpath,{tool.scratch}", "-Wl,--no-as-needed",
                 compiler="musl-gcc")
    doctor(tool, musl).expect(
        "program", "PASS", section=musl, words="can be loaded into it").expect(
        "POSIX AIO", "PASS", section=musl, words="in libused.so")


@case("the doctor fails a setuid program")
def _(tool):
    program = tool.copy_setuid()
    doctor(tool, program).expect("program", "FAIL", "program",
                                 section=program, words="is setuid")


@case("the doctor takes a program with a sanitizer for one")
def _(tool):
    program = build(tool, "address", user_of("getpid"), "-fsanitize=address")
    doctor(tool, program).expect("sanitizer", "PASS", section=program,
                                 words="address")


@case("the doctor survives a damaged program")
def _(tool):
    with open(tool.args.client, "rb") as file:
        image = file.read()
    program = tool.path("program")
    # Each eight bytes of the headers, and of what they lead to, point anywhere.
    for at in [*range(16, 64, 8), *range(64, 640, 56)]:
        changed = bytearray(image)
        changed[at:at + 8] = b"\xfe\xff\xff\xff\xff\xff\xff\x7f"
        with open(program, "wb") as file:
            file.write(changed)
        os.chmod(program, 0o755)
        outcome = tool.exec(tool.uaio, "doctor", program)
        if outcome.status not in (0, 1, 2):
            raise AssertionError(f"changed at {at}:\n{outcome.story}")


@case("the doctor tells what a file system does, and leaves nothing there")
def _(tool):
    work = tool.path("place")
    os.mkdir(work)
    for path in (work, tool.write("place/file", "text", mode=0o644)):
        report = doctor(tool, path)
        for subject in ("file system", "fsync", "O_DIRECT", "RWF_NOWAIT",
                        "alignment"):
            report.of(subject, path)
        expect("unknown" in report.of("file system", path)["text"], False,
               "whether the type is unknown")
        expect(set(os.listdir(work)) - {"file"}, set(), "files left")
    doctor(tool, "--path", tool.args.uaio).of("file system", tool.args.uaio)
    doctor(tool, "/dev/shm").expect("file system", "PASS", section="/dev/shm",
                                    words="tmpfs").expect(
        "RWF_NOWAIT", "PASS", section="/dev/shm")
    doctor(tool, "--path", "/nowhere").expect(
        "path", "FAIL", "filesystem", section="/nowhere")
    doctor(tool, "/proc").expect("fsync", "WARN", "filesystem", "ENOENT",
                                 section="/proc")


@case("the doctor tells a missing interpreter, and a damaged program, as they are")
def _(tool):
    script = tool.write("script", "#!/nonexistent/x\n")
    lines = tool.exec(tool.uaio, "doctor", script).out
    expect(re.search(r"FAIL  program .*/nonexistent/x \(which .*: No such file or directory\n"
                     r" +fix: install that file", lines) is not None, True, lines)
    with open(tool.args.target, "rb") as file:
        whole = file.read()
    program = tool.copy(tool.args.target, "cut")
    os.truncate(program, len(whole) // 4)
    lines = tool.exec(tool.uaio, "doctor", program).out
    expect(re.search(r"WARN  interfaces .*damaged", lines) is not None, True, lines)


@case("the doctor without /proc tries the library all the same")
def _(tool):
    outcome = tool.exec(*behind_mount("-t", "tmpfs", "none", "/proc"), tool.uaio, "doctor")
    expect("cannot be loaded" in outcome.out, False, outcome.story)
    expect(f"PASS  library           {tool.lib_dir}\n" in outcome.out, True, outcome.story)


main()
