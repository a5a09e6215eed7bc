#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""builds.py BUILD SOURCE COMPILER [SUITE [MESON-SUITE...]]: it builds without a warning.

Without SUITE, the library and the tool are built here, as hardened for processors of
today. With it, they are built in a root of that suite of Debian, with its headers, C
library, compilers and Meson, in each way of WAYS. Then the tests are built, too, without
optimisation, and those of each MESON-SUITE are run there.
"""
import os
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77

# Debian's packages for the product and its tests. No script of theirs runs.
PACKAGES = """gcc clang libc6-dev meson ninja-build pkg-config scdoc systemtap-sdt-dev
libncurses-dev python3 libcmocka-dev libseccomp-dev libaio-dev liburing-dev binutils
diffutils sed grep findutils tar gzip util-linux mount e2fsprogs git""".split()

V3 = "-march=x86-64-v3"
V3_OLDER = "-march=haswell"  # has all of it, by an older name
HARDENED = ["-Doptimization=2", "-Dc_args=-D_FORTIFY_SOURCE=3"]
UNOPTIMIZED = ["-Doptimization=0"]
WAYS = {
    "O0": UNOPTIMIZED,
    "O3": ["-Doptimization=3"],
    "hardened": HARDENED,
    "v3": [f"-Dc_args={V3}"],
    "ndebug": ["-Db_ndebug=true"],
}

# In namespaces of its own: whatever ends it leaves no mount and no process behind.
ENTER = """
set -e
root=$1 source=$2
shift 2
mount --bind "$root" "$root"
mount --bind "$source" "$root/srv/source"
mount -o remount,ro,bind "$root/srv/source"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
cd /
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \\
    CC="$CC" chroot "$root" "$@"
"""


class Here:
    def __init__(self, source, folder):
        self.source, self.folder = source, folder

    def run(self, compiler, *command):
        # Without the library that the tests' runner may have for the loader.
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("UAIO_", "LD_", "MAKE", "MESON", "NINJA"))}
        return subprocess.run(command, env={**env, "CC": compiler}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)

    def clean(self, folder):
        shutil.rmtree(folder, ignore_errors=True)


class Root(Here):
    """A root of another Debian, which is kept for the next run."""

    def __init__(self, build, source, suite):
        fetched = subprocess.run(
            [os.path.join(source, "tools/fetch-root"), suite, *PACKAGES,
             os.path.join(build, "roots", suite)],
            stdout=subprocess.PIPE, text=True)
        if fetched.returncode:
            sys.exit(f"the root of {suite} cannot be had")
        self.root, self.outside = fetched.stdout.split()[-1], source
        for name in ("srv/source", "sys", "tmp"):
            os.makedirs(os.path.join(self.root, name), exist_ok=True)
        super().__init__("/srv/source", "/srv")

    def run(self, compiler, *command):
        return super().run(
            compiler, "setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid",
            "--fork", "--kill-child", "sh", "-c", ENTER, "sh", self.root, self.outside,
            *command)

    def clean(self, folder):
        super().clean(self.root + folder)


FAILURES = ": error: ", "ERROR: ", " FAIL ", " TIMEOUT "


def must(done, what):
    if done.returncode:
        lines = done.stdout.splitlines()
        said = [line for line in lines if any(word in line for word in FAILURES)]
        print("\n".join((said or lines)[-30:]))
        sys.exit(f"{what}: failed")
    return done.stdout


def build(place, compiler, name, options, targets, and_then=None):
    folder = os.path.join(place.folder, f"{compiler}-{name}")
    place.clean(folder)
    try:
        must(place.run(compiler, "meson", "setup", folder, place.source,
                       "-Dwerror=true", "-Db_lto=false", "-Dbench=false", *options),
             f"{compiler}, {name}: meson")
        must(place.run(compiler, "ninja", "-k0", "-C", folder, *targets),
             f"{compiler}, {name}: ninja")
        if and_then:
            and_then(folder)
    finally:
        place.clean(folder)
    print(f"{compiler}, {name}: built without a warning", flush=True)


def knows_v3(place, compiler):
    return place.run(compiler, compiler, V3, "-x", "c", "-fsyntax-only",
                     "/dev/null").returncode == 0


def with_v3(place, compiler, options):
    if os.uname().machine != "x86_64":
        return None
    march = V3 if knows_v3(place, compiler) else V3_OLDER
    return [option.replace(V3, march) for option in options]


def main():
    build_dir, source, compiler, *rest = sys.argv[1:]
    if not rest:
        if not shutil.which(compiler):
            print(f"there is no {compiler}")
            return SKIPPED
        with tempfile.TemporaryDirectory(prefix="builds-", dir=build_dir) as folder:
            here = Here(source, folder)
            options = with_v3(here, compiler, [f"{HARDENED[1]} {V3}"]) or HARDENED
            build(here, compiler, "hardened", ["-Dtests=disabled", HARDENED[0], *options],
                  ["product"])
        return 0
    if os.geteuid():
        print("only root can enter another root")
        return SKIPPED
    suite, *suites = rest
    root = Root(build_dir, source, suite)
    for name, options in WAYS.items():
        options = with_v3(root, compiler, options) if name == "v3" else options
        if options:
            build(root, compiler, name, ["-Dtests=disabled", *options], ["product"])

    def run_tests(folder):
        if suites:
            # lint wants the tools of one Debian, and a clone.
            must(root.run(compiler, "meson", "test", "-C", folder, "--no-suite", "lint",
                          *(word for name in suites for word in ("--suite", name))),
                 f"{compiler}: the tests")

    build(root, compiler, "tests", ["-Dtests=enabled", *UNOPTIMIZED], [],
          run_tests)
    return 0


if __name__ == "__main__":
    sys.exit(main())
