# SPDX-License-Identifier: MIT
"""The library and its tests for aarch64, cross-built, and Debian's root for them."""
import fcntl
import os
import subprocess

PACKAGES = ("fio", "stress-ng", "libaio-dev", "liburing-dev", "libcmocka-dev",
            "libseccomp-dev", "python3", "busybox-static", "e2fsprogs",
            "util-linux", "mount", "grep", "strace")
CROSS = """[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', '{root}']
[built-in options]
c_args = ['--sysroot={root}']
c_link_args = ['--sysroot={root}']
[properties]
sys_root = '{root}'
pkg_config_libdir = '{root}/usr/lib/aarch64-linux-gnu/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""


def fetch(build, source, suite, name, *packages):
    """A root of Debian's for arm64, fetched if it is not there."""
    folder = os.path.join(build, "anywhere", name)
    done = subprocess.run(
        [f"{source}/tools/fetch-root", suite + ":arm64", *packages, folder],
        stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def fetch_root(build, source):
    """The root that the build is made for."""
    return fetch(build, source, "bookworm", "arm", *PACKAGES)


def make(build, source, *targets):
    """Build targets, or all. Return: where they are."""
    home = os.path.join(build, "anywhere")
    made = os.path.join(home, "arm-build")
    os.makedirs(home, exist_ok=True)
    # Without our own library, which the tests' runner has for the loader.
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("UAIO_", "LD_"))}

    def run(*command):
        done = subprocess.run(command, cwd=source, env=env, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise AssertionError(f"{command}\n{done.stdout}")

    with open(os.path.join(home, "arm.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        root = fetch_root(build, source)
        cross = os.path.join(home, "arm.ini")
        # The build is configured anew when this file is written.
        if not os.path.exists(cross):
            with open(cross, "w") as file:
                file.write(CROSS.format(root=root))
        # Ninja configures anew when a file of meson's has changed.
        if not os.path.exists(f"{made}/build.ninja"):
            run(f"{source}/tools/configure", made, "--cross-file", cross,
                "-Dtests=enabled", "-Db_lto=false", "-Doptimization=2")
        run("ninja", "-C", made, *targets)
    return made
