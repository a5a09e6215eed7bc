# SPDX-License-Identifier: MIT
"""The Debian packages: what is in them, and how they are made."""
import glob
import os
import re
import shutil

from debs import debs
from harness import Skip, case, expect, main
from screen import Screen


def deb(tool, name):
    found = glob.glob(os.path.join(debs(tool), f"{name}_*.deb"))
    expect(len(found), 1, f"packages named {name}")
    return found[0]


def unpack(tool, *names):
    for name in names:
        tool.exec("dpkg-deb", "-x", deb(tool, name), tool.path("")).expect()
    return tool.path("usr")


@case("the Debian packages build without a network and lintian is content")
def _(tool):
    if not shutil.which("lintian"):
        raise Skip("lintian is not installed")
    changes = glob.glob(os.path.join(debs(tool), "*.changes"))
    expect(len(changes), 1, "changes")
    tool.exec("lintian", "--fail-on", "error,warning", *changes).expect(
        out="", err=None)
    for name in os.listdir(os.path.join(tool.args.source, "debian")):
        expect("overrides" in name, False, name)


@case("doc/deploy.md installs all that the Debian packages are built with")
def _(tool):
    with open(os.path.join(tool.args.source, "debian/control")) as file:
        needed = re.search(r"^Build-Depends: (.*?)^\S", file.read(), re.M | re.S)[1]
    needed = set(re.findall(r"(\S+?)(?:-compat \(.*\))?,?\s+", needed))
    # Debian's policy lets packages leave it out; dpkg-buildpackage demands it.
    needed.add("build-essential")
    with open(os.path.join(tool.args.source, "doc/deploy.md")) as file:
        typed = re.search(r"^\$ apt-get install \S+ (.*)$", file.read(), re.M)[1]
    with open(os.path.join(tool.args.source, "tools/need")) as file:
        by_make = re.search(r'^\tbuild\) +echo "(.*)"', file.read(), re.M)[1]
    expect(needed - set(typed.split()) - set(by_make.split()), set(), "missing")


@case("a program of the packages works where they are unpacked")
def _(tool):
    usr = unpack(tool, "uaio", "libuaio0")
    tool.exec(f"{usr}/bin/uaio", "run", tool.args.target).expect(
        out="libuaio.so.0\n")
    outcome = tool.exec(f"{usr}/bin/uaio", "run", "--stats",
                        tool.args.client).expect(err=None)
    expect("34 requests" in outcome.err, True, outcome.err)


@case("the loader finds a packaged library by its name alone")
def _(tool):
    usr = unpack(tool, "libuaio0")
    libs = glob.glob(f"{usr}/lib/*/libuaio.so.0")
    expect(len(libs), 1, "where the loader looks")
    # As ld.so.conf has the folder once it is installed.
    env = {"LD_PRELOAD": "libuaio.so.0", "UAIO_STATS": "yes",
           "LD_LIBRARY_PATH": os.path.dirname(libs[0])}
    outcome = tool.exec(tool.args.client, env=env).expect(err=None)
    expect("34 requests" in outcome.err, True, outcome.err)


@case("the live view of uaio top is a package, and uaio does without")
def _(tool):
    usr = unpack(tool, "uaio", "libuaio0")
    outcome = tool.exec(f"{usr}/bin/uaio", "top")
    outcome.expect_refusal(2, "uaio top -b", "package uaio-top")
    control = tool.exec("dpkg-deb", "-f", deb(tool, "uaio")).expect().out
    expect("ncurses" in control, False, control)
    unpack(tool, "uaio-top")
    depends = tool.exec("dpkg-deb", "-f", deb(tool, "uaio-top"),
                        "Depends").expect().out
    expect("libncursesw" in depends, True, depends)
    with Screen(tool, uaio=f"{usr}/bin/uaio") as screen:
        screen.wait_for(rb"q quit")
        screen.press(b"q")
        screen.expect_end(0)


@case("each subcommand of a packaged uaio has a page of the manual")
def _(tool):
    usr = unpack(tool, "uaio", "libuaio0")
    usage = tool.exec(f"{usr}/bin/uaio", "help").expect().out
    names = re.findall(r"^  uaio ([a-z]+) ", usage, re.M)
    expect("run" in names, True, usage)
    for name in set(names) - {"help"}:
        page = f"{usr}/share/man/man1/uaio-{name}.1.gz"
        expect(os.path.exists(page), True, page)


@case("what a package is to link with the library links with it")
def _(tool):
    usr = unpack(tool, "libuaio-dev", "libuaio0")
    source = tool.write("use.c", '#include <stdio.h>\n#include <uaio.h>\n'
                        'int main(void) { struct uaio_counters c;\n'
                        'return uaio_get_counters(&c); }\n')
    paths = glob.glob(f"{usr}/lib/*/pkgconfig")
    flags = tool.exec("pkg-config", "--define-variable=prefix=" + usr,
                      "--cflags", "--libs", "uaio",
                      env={"PKG_CONFIG_PATH": paths[0],
                           "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1",
                           "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}).expect().out
    use = tool.path("use")
    tool.exec("cc", "-o", use, source, *flags.split()).expect()
    tool.exec(use, env={"LD_LIBRARY_PATH": os.path.dirname(paths[0])}).expect()


main()
