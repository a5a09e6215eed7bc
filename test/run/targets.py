# SPDX-License-Identifier: MIT
"""Programs that the library can, or cannot, be put in front of."""
import errno
import os
import shutil
import struct

from harness import NOBODY, Skip, case, expect, main


def edit(path, change):
    with open(path, "rb") as file:
        image = bytearray(file.read())
    change(image)
    with open(path, "wb") as file:
        file.write(image)


def change_loader(image, loader):
    """Names another loader in a 64-bit little-endian program."""
    table, = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    for at in range(table, table + size * count, size):
        kind, _, offset = struct.unpack_from("<IIQ", image, at)
        length, = struct.unpack_from("<Q", image, at + 32)
        if kind == 3:  # PT_INTERP
            image[offset:offset + length] = loader.encode().ljust(length, b"\0")
            return
    raise AssertionError("no PT_INTERP")


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root, to make programs of another user")


def need_setuid(tool):
    need_root()
    if os.statvfs(tool.scratch).f_flag & os.ST_NOSUID:
        raise Skip(f"{tool.scratch} is on a nosuid mount")


def as_nobody(*more):
    return ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
            "--clear-groups", *more)


@case("a static program is refused")
def _(tool):
    tool.exec(tool.args.static_target).expect(out="none\n")
    tool.run(tool.args.static_target).expect_refusal(
        2, tool.args.static_target, "statically linked", "dynamic build")


@case("the loader run as a command is not taken for a static program")
def _(tool):
    with open(tool.args.target, "rb") as file:
        image = file.read()
    start = image.index(b"/ld-linux-")
    start = image.rindex(b"\0", 0, start) + 1
    loader = image[start:image.index(b"\0", start)].decode()
    tool.run(loader, tool.args.target).expect(out="libuaio.so.0\n")


@case("a program for another processor is refused")
def _(tool):
    program = tool.copy(tool.args.target, "program")
    edit(program, lambda image: struct.pack_into("<H", image, 18, 0xf3))
    tool.run(program).expect_refusal(2, program, "another processor")


@case("a 32-bit program is refused")
def _(tool):
    program = tool.copy(tool.args.target, "program")
    edit(program, lambda image: struct.pack_into("B", image, 4, 1))
    tool.run(program).expect_refusal(2, program, "64-bit")


@case("a program for another C library is refused")
def _(tool):
    program = tool.copy(tool.args.target, "program")
    loader = "/system/bin/linker64"
    edit(program, lambda image: change_loader(image, loader))
    tool.run(program).expect_refusal(2, program, loader, "glibc")


@case("a loader that leads to one of another C library is refused")
def _(tool):
    program = tool.copy(tool.args.target, "program")
    tool.write("linker64", "")
    os.symlink("linker64", tool.path("ld.so"))
    edit(program, lambda image: change_loader(image, "./ld.so"))
    tool.run("./program", cwd=tool.scratch).expect_refusal(2, "glibc")


@case("a program whose loader is missing gives 127 and names the loader")
def _(tool):
    program = tool.copy(tool.args.target, "program")
    edit(program, lambda image: change_loader(image, "/no/loader"))
    tool.run(program).expect_refusal(127, program, "/no/loader", "No such")
    edit(program, lambda image: change_loader(image, "/ld-musl-arm.so.1"))
    tool.run(program).expect_refusal(127, program, "/ld-musl-arm", "No such")


@case("a damaged program is left to the exec")
def _(tool):
    program = tool.copy(tool.args.target, "program")
    os.truncate(program, 64)  # only the header is left
    plain = tool.exec("env", program).status
    expect(tool.run(program).status, plain, "status")


@case("a script runs with the library in its interpreter")
def _(tool):
    script = tool.write("script", f"#! {tool.args.target} -x\n")
    tool.run(script).expect(out="libuaio.so.0\n")
    outer = tool.write("outer", f"#!{script}\n")
    tool.run(outer).expect(out="libuaio.so.0\n")


@case("a script without an interpreter is run by the shell")
def _(tool):
    script = tool.write("script", 'echo "$0 $1"; exit 4\n')
    tool.run(script, "x").expect(status=4, out=f"{script} x\n")


@case("a script with a static interpreter is refused")
def _(tool):
    script = tool.write("script", f"#!{tool.args.static_target}\n")
    outer = tool.write("outer", f"#!{script} -x\n")
    for path in (script, outer):
        tool.run(path).expect_refusal(
            2, f"{tool.args.static_target} (which interprets {path})",
            "statically linked")


@case("a script with a missing interpreter gives 127 and names it")
def _(tool):
    script = tool.write("script", "#!/no/such\r\n")
    tool.run(script).expect_refusal(127, "/no/such?", script, "No such")


@case("a script with a closed interpreter gives 126 and names it")
def _(tool):
    closed = tool.write("closed", "", mode=0o644)
    script = tool.write("script", f"#!{closed}\n")
    tool.run(script).expect_refusal(126, closed, script, "Permission denied")


@case("a script that is its own interpreter ends in an error")
def _(tool):
    path = tool.path("script")
    tool.write("script", f"#!{path}\n")
    tool.run(path).expect_refusal(126, path, os.strerror(errno.ELOOP))


@case("a program that may not be read is run")
def _(tool):
    need_root()
    uaio = tool.copy_tool("tool")
    program = tool.copy(tool.args.target, "program", mode=0o711)
    tool.exec(*as_nobody(), uaio, "run", program).expect(out="libuaio.so.0\n")


@case("a setuid program is refused to a user who would gain by it")
def _(tool):
    if os.geteuid() != 0:
        program = shutil.which("su")
        if not program:
            raise Skip("needs root, or su")
        tool.run(program).expect_refusal(2, program, "is setuid")
        return
    need_setuid(tool)
    uaio = tool.copy_tool("tool")
    program = tool.copy(tool.args.target, "program", mode=0o4755)
    tool.exec(*as_nobody(), program).expect(out="none\n")
    tool.exec(*as_nobody(), uaio, "run", program).expect_refusal(
        2, program, "is setuid", "ignores LD_PRELOAD", "sudo uaio run")


@case("a setgid program is refused to a user who would gain by it")
def _(tool):
    need_setuid(tool)
    uaio = tool.copy_tool("tool")
    program = tool.copy(tool.args.target, "program", mode=0o2755)
    tool.exec(*as_nobody(), uaio, "run", program).expect_refusal(
        2, program, "is setgid")


@case("a setuid program works for its owner and where the bit is ignored")
def _(tool):
    need_setuid(tool)
    uaio = tool.copy_tool("tool")
    program = tool.copy(tool.args.target, "program", mode=0o4755)
    tool.run(program).expect(out="libuaio.so.0\n")
    tool.exec(*as_nobody("--no-new-privs"), uaio, "run", program).expect(
        out="libuaio.so.0\n")
    os.chmod(program, 0o2745)  # setgid without execution by the group
    tool.exec(*as_nobody(), uaio, "run", program).expect(
        out="libuaio.so.0\n")


@case("a setuid program of another user is refused to root")
def _(tool):
    need_setuid(tool)
    program = tool.copy(tool.args.target, "program")
    os.chown(program, NOBODY, NOBODY)
    os.chmod(program, 0o4755)
    tool.exec(program).expect(out="none\n")
    tool.run(program).expect_refusal(2, program, "is setuid")


@case("a script with the setuid bit gains nothing and works")
def _(tool):
    need_setuid(tool)
    uaio = tool.copy_tool("tool")
    target = tool.copy(tool.args.target, "target")
    script = tool.write("script", f"#!{target}\n", mode=0o4755)
    tool.exec(*as_nobody(), uaio, "run", script).expect(out="libuaio.so.0\n")


@case("a program with file capabilities is refused to a user and not to root")
def _(tool):
    need_setuid(tool)
    uaio = tool.copy_tool("tool")
    program = tool.copy(tool.args.target, "program")
    sys_time = 1 << 25
    for flags, permitted in ((1, sys_time), (0, sys_time), (1, 0)):
        value = struct.pack("<5I", 0x02000000 | flags, permitted, 0, 0, 0)
        try:
            os.setxattr(program, "security.capability", value)
        except OSError as error:
            raise Skip(f"file capabilities: {error}") from error
        tool.run(program).expect(out="libuaio.so.0\n")
        tool.exec(*as_nobody(), uaio, "run", program).expect_refusal(
            2, program, "has file capabilities")
    # Nothing is given that the bounding set does not have.
    value = struct.pack("<5I", 0x02000000, sys_time, 0, 0, 0)
    os.setxattr(program, "security.capability", value)
    tool.exec(*as_nobody("--bounding-set=-sys_time"), uaio, "run",
              program).expect(out="libuaio.so.0\n")


@case("a caller whose effective user is not the real one is refused")
def _(tool):
    need_root()
    for flag in (f"--euid={NOBODY}", f"--egid={NOBODY}"):
        uaio = tool.copy_tool("tool")
        tool.exec("setpriv", flag, "--clear-groups", uaio, "run",
                  "true").expect_refusal(2, "effective id", "real")


@case("a script whose first line names no interpreter is run by the shell")
def _(tool):
    for line in ("#!", "#! ", "#! \t "):
        script = tool.write("script", f"{line}\necho said by {tool.scratch}\n")
        for options in ((), ("--trap=off",), ("--trap=auto",)):
            tool.run(*options, "--", script).expect(out=f"said by {tool.scratch}\n")


main()
