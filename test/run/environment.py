# SPDX-License-Identifier: MIT
"""The loader's variables, and where the library is found."""
import os

from harness import behind_mount, case, expect, main


def loader_variables(outcome):
    outcome.expect()
    lines = (line.partition("=") for line in outcome.out.splitlines())
    found = {name: value for name, _, value in lines}
    return found.get("LD_PRELOAD"), found.get("LD_LIBRARY_PATH")


@case("the library is loaded into the program")
def _(tool):
    tool.exec(tool.args.target).expect(out="none\n")
    tool.run(tool.args.target).expect(out="libuaio.so.0\n")


@case("the library is loaded into what the program starts")
def _(tool):
    tool.run("sh", "-c", f"{tool.args.target}; {tool.args.target}").expect(
        out="libuaio.so.0\n" * 2)


@case("a program linked with libaio gets the library in its place")
def _(tool):
    for name in ("libaio.so.1", "libaio.so.1t64"):
        tool.run("sh", "-c",
                 f'LD_PRELOAD="$LD_PRELOAD {name}" exec {tool.args.target}'
                 ).expect(out="libuaio.so.0\n")


@case("without variables of the loader only ours are set")
def _(tool):
    for env in ({}, {"LD_PRELOAD": "", "LD_LIBRARY_PATH": ""}):
        expect(loader_variables(tool.run("env", env=env)),
               (tool.library, tool.lib_dir), env)


@case("what is in the variables of the loader is kept behind ours")
def _(tool):
    for preload, path, kept_preload in (
        ("libm.so.6", "/tmp", "libm.so.6"),
        ("libm.so.6 libdl.so.2", "/tmp::/usr", "libm.so.6:libdl.so.2"),
        (" libm.so.6:", "/tmp:", "libm.so.6"),
    ):
        env = {"LD_PRELOAD": preload, "LD_LIBRARY_PATH": path}
        expect(loader_variables(tool.run("env", env=env)),
               (f"{tool.library}:{kept_preload}", f"{tool.lib_dir}:{path}"),
               env)


@case("a run inside a run adds nothing to the variables of the loader")
def _(tool):
    inner = f"{tool.uaio} run -- {tool.uaio} run -- env"
    expect(loader_variables(tool.run("sh", "-c", inner, env={
        "LD_PRELOAD": "libm.so.6", "LD_LIBRARY_PATH": "/tmp"})),
           (f"{tool.library}:libm.so.6", f"{tool.lib_dir}:/tmp"), "nested")


@case("the library of another build is replaced")
def _(tool):
    other = os.path.dirname(tool.copy_tool("other"))
    preload = f"{other}/libuaio.so.0"
    got, _ = loader_variables(tool.run("env", env={"LD_PRELOAD": preload}))
    expect(got, tool.library, "LD_PRELOAD")
    tool.exec(f"{other}/uaio", "run", tool.uaio, "run",
              tool.args.target).expect(out="libuaio.so.0\n")


@case("a library that is not there is refused in one line that says where")
def _(tool):
    outcome = tool.exec(tool.args.uaio_nowhere, "run", "true")
    outcome.expect_refusal(
        2, os.path.realpath(os.path.dirname(tool.args.uaio_nowhere)),
        "/nonexistent/lib", "run make")


@case("a library directory that LD_PRELOAD cannot hold is refused")
def _(tool):
    for name in ("a b", "a:b", "a;b", "a$b"):
        uaio = tool.copy_tool(name)
        tool.exec(uaio, "run", "true").expect_refusal(
            2, f"'{os.path.realpath(tool.path(name))}'", "LD_PRELOAD")


@case("a link to uaio finds the library beside the file it points to")
def _(tool):
    link = tool.path("uaio")
    os.symlink(tool.uaio, link)
    tool.exec(link, "run", tool.args.target).expect(out="libuaio.so.0\n")


@case("a library that the loader would ignore is refused, and nothing runs")
def _(tool):
    uaio = tool.copy_tool("other")
    library = tool.path("other/libuaio.so.0")
    marker = tool.path("marker")
    with open(library, "rb") as file:
        whole = file.read()

    def refuse(*words, before=()):
        for verb in ("run", "trace", "check"):
            options = ["-o", "/dev/null"] if verb == "trace" else []
            outcome = tool.exec(*before, uaio, verb, *options, "--", "mkdir", marker)
            expect(outcome.status, 2, outcome.story)
            for word in (f"{os.path.realpath(library)} cannot be loaded: ", *words):
                expect(word in outcome.err, True, outcome.story)
        expect(os.path.exists(marker), False, "the command ran")

    for text in (b"", b"junk\n" * 1000, whole[:100], whole[:4096], whole[:len(whole) // 2]):
        with open(library, "wb") as file:
            file.write(text)
        refuse("damaged", "run make")
    with open(library, "wb") as file:
        file.write(whole)
    tool.exec(uaio, "run", "true").expect()
    folder = tool.path("other")
    refuse("not permitted", "noexec", before=behind_mount(
        "--bind", folder, folder, "&& mount -o remount,bind,noexec", folder,
        "&& mount --bind", tool.uaio, f"{folder}/uaio"))


@case("a library that the user may not read is refused with that cause")
def _(tool):
    uaio = tool.copy_tool("other")
    os.chmod(tool.path("other/libuaio.so.0"), 0)
    before = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    tool.exec(*before, uaio, "run", "true").expect_refusal(
        2, "other/libuaio.so.0: Permission denied")


main()
