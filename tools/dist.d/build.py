# SPDX-License-Identifier: MIT
"""Building for a processor: a tree as it is below /usr/local.

    bin/uaio                 static
    lib/libuaio.so.0         for glibc
    lib/uaio/                links to it, and uaio-dynamic, the command for glibc
    lib/uaio/musl/           uaio-dynamic, the command for musl
"""
import glob
import os
import shutil
import subprocess

import tree as trees

ARCHES = ("x86_64", "aarch64")
GLIBC = "2.17"

# What comes with <sys/sdt.h>, for all processors: systemtap-sdt-dev.
SDT_HEADERS = ("sdt.h", "sdt-config.h")

CROSS = """[binaries]
c = ['{tools}/zig-cc', '{zig}', '{target}']
ar = ['{tools}/zig-ar', '{zig}']
strip = ['true']
pkgconfig = ['false']

[built-in options]
# Zig keeps frame pointers, by default.
c_args = ['-isystem', '{include}', '-fomit-frame-pointer']
c_link_args = ['-s']

[host_machine]
system = 'linux'
cpu_family = '{arch}'
cpu = '{arch}'
endian = 'little'
"""


def run(*command, **more):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **more)
    if done.returncode:
        raise SystemExit(f"dist: {' '.join(command)}:\n{done.stdout}")
    return done.stdout


def include(release):
    """The headers for all processors that Zig does not bring."""
    folder = os.path.join(release.work, "include")
    multiarch = run("gcc", "-print-multiarch").strip()
    os.makedirs(os.path.join(folder, "sys"), exist_ok=True)
    for name in SDT_HEADERS:
        found = [path for path in (f"/usr/include/{multiarch}/sys/{name}",
                                   f"/usr/include/sys/{name}")
                 if os.path.exists(path)]
        if not found:
            raise SystemExit(f"dist: there is no <sys/{name}>: install "
                             "systemtap-sdt-dev")
        shutil.copy(found[0], os.path.join(folder, "sys", name))
    return folder


def configure(release, zig, arch, kind, target, lto):
    folder = os.path.join(release.work, f"{arch}-{kind}")
    cross = folder + ".ini"
    with open(cross, "w") as file:
        file.write(CROSS.format(
            tools=os.path.join(release.source, "tools"), zig=zig,
            target=target, arch=arch, include=include(release)))
    shutil.rmtree(folder, ignore_errors=True)
    run("meson", "setup", folder, release.source, "--cross-file", cross,
        "--prefix=/usr/local", "--libdir=lib", "-Dtests=disabled",
        "-Dbench=false", "-Dncurses=disabled", f"-Db_lto={lto}",
        "-Db_pie=true",
        f"-Dbuilt-for={arch}, glibc {GLIBC} and newer",
        f"-Drevision={release.commit[:12]}")
    return folder


def tree(release, zig, arch):
    """Build all for a processor. Return: the entries below /usr/local."""
    cache = os.path.join(release.work, "zig-cache")
    os.environ.update(ZIG_GLOBAL_CACHE_DIR=cache, ZIG_LOCAL_CACHE_DIR=cache)
    glibc = configure(release, zig, arch, "glibc",
                      f"{arch}-linux-gnu.{GLIBC}", "true")
    run("ninja", "-C", glibc, "installation")
    top = os.path.join(release.work, f"{arch}-tree")
    shutil.rmtree(top, ignore_errors=True)
    run("meson", "install", "-C", glibc, "--no-rebuild", "--destdir", top)
    top = os.path.join(top, "usr/local")
    os.rename(os.path.join(top, "bin/uaio"),
              os.path.join(top, "lib/uaio/uaio-dynamic"))

    os.mkdir(os.path.join(top, "lib/uaio/musl"))
    # Its objects are linked twice, the second time by hand.
    static = configure(release, zig, arch, "static", f"{arch}-linux-musl",
                       "false")
    run("ninja", "-C", static, "uaio")
    shutil.copy(os.path.join(static, "uaio"), os.path.join(top, "bin/uaio"))
    # The same objects.
    run(os.path.join(release.source, "tools/zig-cc"), zig,
        f"{arch}-linux-musl", "-dynamic", "-pie", "-s", "-o",
        os.path.join(top, "lib/uaio/musl/uaio-dynamic"),
        *sorted(glob.glob(os.path.join(static, "uaio.p/*.o"))),
        os.path.join(static, "libversion.a"))
    return trees.read(top)
