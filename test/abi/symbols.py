# SPDX-License-Identifier: MIT
"""What the library exports, needs and asks of the loader."""
import glob
import re

from shared import (Skip, case, debian_libaio, exported, expect, main, parts_of_libc,
                   run)

# The oldest C library that is supported.
GLIBC = (2, 34)
# Bytes of the static TLS space that the loader reserves for libraries loaded later. They
# all share it.
TLS_BYTES_MAX = 144


def dynamic(args):
    return run("readelf", "-Wd", args.library)


def segment(args, name):
    """The fields of a program header after its name, or None."""
    found = re.search(rf"^ +{name} +(.*)$",
                      run("readelf", "-Wl", args.library), re.M)
    return found and found[1].split()


@case("the library exports what the golden list has, no more and no less")
def _(args):
    with open(args.golden) as file:
        golden = [line.strip() for line in file
                  if line.strip() and not line.startswith("#")]
    expect(golden, sorted(golden), "the golden list, sorted")
    actual = exported(args.library)
    lines = [f"add the line    {name}" for name in actual
             if name not in golden]
    lines += [f"is not exported {name}" for name in golden
              if name not in actual]
    if lines:
        raise AssertionError(f"{args.golden}:\n  " + "\n  ".join(lines))


@case("libaio's names have the versions of the libaio of this machine")
def _(args):
    ours = [name for name in exported(args.library)
            if name.startswith(("io_", "LIBAIO_"))
            and not name.startswith("io_uring_")]
    expect(ours, exported(debian_libaio()), "names and versions")


@case("the library needs libc and nothing else")
def _(args):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic(args))
    loaders = [name for name in needed if name.startswith("ld-linux")]
    expect([name for name in needed if name not in loaders + parts_of_libc()],
           ["libc.so.6"], "needed libraries")


@case("the library asks nothing of libc that is newer than 2.34")
def _(args):
    newer = []
    for name, major, minor in re.findall(
            r"UND (\S+)@GLIBC_(\d+)\.(\d+)",
            run("readelf", "-W", "--dyn-syms", args.library)):
        if (int(major), int(minor)) > GLIBC:
            newer.append(f"{name}@GLIBC_{major}.{minor}")
    expect(newer, [], "symbols of a newer libc")


@case("the library asks nothing of libc that musl has not")
def _(args):
    loaders = glob.glob("/lib/ld-musl-*.so.1")
    if not loaders:
        raise Skip("musl is not installed")
    theirs = run("nm", "-D", "--defined-only", loaders[0]).split()
    # Functions that may be missing there are imported weakly: base/libc.h.
    expect([line.split()[1] for line in
            run("nm", "-D", "--undefined-only", args.library).splitlines()
            if line.split()[0] == "U"
            and line.split()[1].split("@")[0] not in theirs], [],
           "symbols that no program for musl would start with")


@case("the library is never unloaded and bound when it is loaded")
def _(args):
    flags = re.search(r"\(FLAGS_1\) +Flags: (.*)$", dynamic(args), re.M)
    expect({"NOW", "NODELETE"} - set(flags[1].split() if flags else ()), set(),
           "flags that are missing")
    expect(re.findall(r"\(SONAME\).*\[(.*)\]", dynamic(args)),
           ["libuaio.so.0"], "its name")


@case("the library takes at most 144 bytes of static thread-local storage")
def _(args):
    tls = segment(args, "TLS")
    size = int(tls[4], 16) if tls else 0
    print(f"{size} bytes")
    assert size <= TLS_BYTES_MAX, f"{size} bytes"
    # With the initial-exec model a first access never allocates.
    assert not tls or "STATIC_TLS" in dynamic(args), "not initial-exec"
    relocations = run("readelf", "-Wr", args.library)
    assert "DTPMOD" not in relocations, "dynamic thread-local storage"
    assert "TLSDESC" not in relocations, "dynamic thread-local storage"


@case("the library asks for no executable stack")
def _(args):
    stack = segment(args, "GNU_STACK")
    assert stack, "no PT_GNU_STACK: the loader makes the stack executable"
    expect(stack[5], "RW", "rights of the stack")


@case("valgrind can read the library's symbols")
def _(args):
    # The loader wants each section in memory that is mapped from the file.
    segments = re.findall(r"^ +LOAD +(\S+ +\S+ +\S+ +\S+)",
                          run("readelf", "-Wl", args.library), re.M)
    assert segments, "no segments"
    expect([line for line in segments if not int(line.split()[3], 16)], [],
           "segments of which nothing is in the file")


@case("the library has no relocations in its code")
def _(args):
    assert "TEXTREL" not in dynamic(args), "DT_TEXTREL"
    assert segment(args, "GNU_RELRO"), "no PT_GNU_RELRO"


main()
