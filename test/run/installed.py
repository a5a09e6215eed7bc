# SPDX-License-Identifier: MIT
"""The tree that `meson install` makes."""
import os

from benchmark import path_of
from harness import case, expect, main


def install(tool, name):
    root = tool.path(name)
    tool.exec(tool.args.meson, "install", "-C", tool.args.build,
              "--no-rebuild", "--quiet", "--destdir", root).expect(err=None)
    return root


def expect_loaded_from(tool, root):
    uaio = root + tool.args.bindir + "/uaio"
    lib_dir = os.path.realpath(root + tool.args.libdir + "/uaio")
    tool.exec(uaio, "run", tool.args.target).expect(out="libuaio.so.0\n")
    outcome = tool.exec(uaio, "run", "sh", "-c", "echo $LD_PRELOAD")
    outcome.expect(out=f"{lib_dir}/libuaio.so.0\n")
    outcome = tool.exec(uaio, "check", "sh", "-c", "echo $LD_PRELOAD")
    outcome.expect(out=f"{lib_dir}/libuaio-check.so:{lib_dir}/libuaio.so.0\n",
                   err=None)


@case("make builds the library and the tool and nothing else")
def _(tool):
    build = tool.args.build
    # What is said to no make that this one runs under.
    make = tool.exec("env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "make",
                     "--no-print-directory", "-n", "-C", tool.args.source,
                     f"BUILD={build}").expect(out=None)
    expect(make.out, f"ninja -C {build} --quiet product\n", "what make does")
    listing = tool.exec("ninja", "-C", build, "-t", "inputs",
                        "product").expect(out=None)
    made = {line.split("/")[0] for line in listing.out.splitlines()
            if line and line[0] not in "/." and " " not in line}
    expect({"uaio.p", "libuaio.so.0.p"} <= made, True, "the product is made")
    folders = {"test", "bench", "examples", "man"}
    expect(sorted(made & folders), [], "what is made beside")


@case("an installed tree works where it is and where it is moved to")
def _(tool):
    root = install(tool, "one")
    expect_loaded_from(tool, root)
    os.rename(root, tool.path("two"))
    expect_loaded_from(tool, tool.path("two"))


@case("an installed benchmark works where it is and where it is moved to")
def _(tool):
    root = install(tool, "one")
    os.rename(root, tool.path("two"))
    root = tool.path("two")
    uaio = root + tool.args.bindir + "/uaio"
    tool.exec(uaio, "bench", "no-such-row").expect_refusal(2, "no such row")
    # Neither fio nor a profiler: dio has other parts, which take their time.
    env = path_of(tool, "python3")
    for row, *arguments in (("nop", "single", "1", "1", "1"),
                            ("pipe", "pipe", "plain", "1"),
                            ("dio", "prefix", "64"),
                            ("index", "dense", "1", "1"),
                            ("lookup", "1")):
        found = [os.path.join(folder, row) for folder, _, names in os.walk(root)
                 if folder.endswith("/uaio/bench") and row in names]
        expect(len(found), 1, f"installed programs named {row}")
        # Only it tells what it was; the row is measured in the build tree.
        tool.exec(found[0], *arguments).expect(out=None)
        os.rename(found[0], found[0] + ".away")
        outcome = tool.exec(uaio, "bench", "--quick", "--pairs", "1", row,
                            env=env)
        outcome.expect(out=None)
        expect(f"{os.path.realpath(found[0])} is not there" in outcome.out,
               True, f"where {row} is looked for: {outcome.story}")


@case("an installed benchmark has its slow file system")
def _(tool):
    root = install(tool, "one")
    found = [os.path.join(folder, "with-slowfs")
             for folder, _, names in os.walk(root)
             if folder.endswith("/uaio/bench") and "with-slowfs" in names]
    expect(len(found), 1, "installed programs named with-slowfs")
    tool.exec(found[0]).expect(status=125, out="", err=None)


@case("an installed benchmark has its program of many threads")
def _(tool):
    root = install(tool, "one")
    found = [os.path.join(folder, "scale") for folder, _, names in os.walk(root)
             if folder.endswith("/uaio/bench") and "scale" in names]
    expect(len(found), 1, "installed programs named scale")
    tool.exec(found[0]).expect(status=2, out="", err=None)
    os.rename(found[0], found[0] + ".away")
    outcome = tool.exec(root + tool.args.bindir + "/uaio", "bench", "--quick",
                        "scale")
    outcome.expect(out=None)
    expect(f"{os.path.realpath(found[0])} is not there" in outcome.out, True,
           outcome.story)


@case("the installed links are named as libaio is and lead to the library")
def _(tool):
    lib_dir = install(tool, "root") + tool.args.libdir + "/uaio"
    for name, target in (("libaio.so.1", "libuaio.so.0"),
                         ("libaio.so.1t64", "libuaio.so.0"),
                         ("libuaio.so.0", "../libuaio.so.0")):
        expect(os.readlink(f"{lib_dir}/{name}"), target, name)
        expect(os.path.exists(f"{lib_dir}/{name}"), True, name)


main()
