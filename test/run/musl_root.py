# SPDX-License-Identifier: MIT
"""A root that has musl and no other C library, as Alpine has, and programs for it.

They run behind a filter that refuses the kernel's AIO and io_uring.
"""
import fcntl
import glob
import os
import shutil

from harness import Skip, build, expect

SERVED = "".join(f"{by}: served\n" for by in
                 ("main", "thread", "child", "ring", "aio_read", "callback"))
REFUSED = ("EPERM:io_uring_setup,io_uring_enter,io_uring_register,io_setup,"
           "io_submit,io_getevents,io_destroy,io_cancel")

# Sets variables and executes a program: the root has no env(1).
WITH = """#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	while (*++argv && strchr(*argv, '='))
		putenv(*argv);
	return argc > 1 ? execv(*argv, argv) : 1;
}
"""

# What libaio is, for a program to be linked with.
LIBAIO = """#include <errno.h>
#include <unistd.h>
static int answer(long ret) { return ret < 0 ? -errno : (int)ret; }
int io_setup(int a, void *b) { return answer(syscall(206, a, b)); }
int io_destroy(void *a) { return answer(syscall(207, a)); }
int io_getevents(void *a, long b, long c, void *d, void *e)
{ return answer(syscall(208, a, b, c, d, e)); }
int io_submit(void *a, long b, void *c) { return answer(syscall(209, a, b, c)); }
int io_cancel(void *a, void *b, void *c) { return answer(syscall(210, a, b, c)); }
int io_queue_init(int a, void *b) { return io_setup(a, b); }
int io_queue_release(void *a) { return io_destroy(a); }
"""


def built_for_musl(tool):
    """The build directory of the library and the command for musl."""
    where = os.path.join(tool.args.build, "musl")
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(tool.args.build, "musl.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tool.exec(os.path.join(tool.args.source, "tools/configure"), where,
                  "-Dbench=false", "-Db_lto=false", "-Dtests=disabled",
                  env={"CC": "musl-gcc"}, cwd=tool.args.source).expect(
            out=None, err=None)
        done = tool.exec("ninja", "-C", where)
        done.expect(out=None, err=None)
        expect("warning:" in done.out, False, f"warnings:\n{done.out}")
    return where


def fio(tool):
    """fio, of the distribution's source, for musl; its directory."""
    where = os.path.join(tool.args.build, "musl-fio")
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(os.path.join(where, "built")):
            return where
        headers = os.path.join(built_for_musl(tool), "kernel-headers")
        tool.exec(os.path.join(tool.args.source, "tools/fetch-source"), "fio",
                  where).expect(out=None, err=None)
        library = build(tool, "libaio.so", LIBAIO, "-shared", "-fPIC",
                        "-Wl,-soname,libaio.so.1", compiler="musl-gcc")
        shutil.copy(library, os.path.join(where, "libaio.so"))
        shutil.copy("/usr/include/libaio.h", where)
        source = os.path.join(where, "unpacked")
        tool.exec("./configure", "--cc=musl-gcc", "--disable-native",
                  "--disable-shm", "--disable-numa", "--disable-http",
                  f"--extra-cflags=-w -idirafter {headers} -idirafter {where} "
                  f"-L{where}", cwd=source).expect(out=None, err=None)
        tool.exec("make", f"-j{os.cpu_count()}", "fio", f"LDFLAGS=-L{where}",
                  cwd=source).expect(
            out=None, err=None)
        shutil.copy(os.path.join(source, "fio"), where)
        shutil.rmtree(source)
        with open(os.path.join(where, "built"), "w"):
            pass
    return where


class Root:
    def __init__(self, tool):
        loaders = glob.glob("/lib/ld-musl-*.so.1")
        if os.geteuid() != 0:
            raise Skip("needs root, for chroot(2)")
        if not loaders:
            raise Skip("musl is not installed")
        self.tool = tool
        self.path = tool.path("root")
        for name in ("lib", "bin", "proc", "tmp"):
            os.makedirs(os.path.join(self.path, name))
        self.put(loaders[0], "lib")
        self.put(build(tool, "with", WITH, "-static", compiler="musl-gcc"), "bin")
        stranger = os.path.join(tool.args.source, "test/run/stranger.c")
        with open(stranger) as file:
            self.put(build(tool, "stranger", file.read(), "-pthread",
                           compiler="musl-gcc"), "bin")

    def put(self, path, where):
        shutil.copy(os.path.realpath(path),
                    os.path.join(self.path, where, os.path.basename(path)))

    def run(self, *command, **options):
        # /proc is mounted as containers have it, and is gone with the command.
        return self.tool.exec(
            "unshare", "--mount", "sh", "-e", "-c",
            'mount --bind /proc "$0/proc"\nexec "$@"', self.path,
            self.tool.args.filter, "before", REFUSED,
            shutil.which("chroot"), self.path, "/bin/with", *command,
            cwd=self.tool.scratch, **options)

    def put_fio(self):
        where = fio(self.tool)
        self.put(os.path.join(where, "fio"), "bin")
        shutil.copy(os.path.join(where, "libaio.so"),
                    os.path.join(self.path, "lib/libaio.so.1"))

    def run_stranger(self, *way):
        """A program that uses each interface, and executes itself once more."""
        outcome = self.run(*way, "/bin/stranger", "/bin/stranger")
        return outcome.expect(out=2 * SERVED, err=None)

    def run_doctor(self, uaio):
        """The command finds that the library serves all."""
        outcome = self.run(uaio, "doctor").expect(1, out=None)  # of the filter
        for line in ("library", "kernel AIO", "io_uring", "POSIX AIO"):
            if f"PASS  {line} " not in outcome.out:
                raise AssertionError(f"{line} does not pass:\n{outcome.story}")

    def run_fio(self, engine, *way):
        """fio writes and verifies; the library has served all that it asked for."""
        outcome = self.run(
            *way, "/bin/fio", "--name=job", f"--ioengine={engine}",
            "--directory=/tmp", "--size=4m", "--bs=4k", "--iodepth=16",
            "--rw=randwrite", "--thread", "--numjobs=2", "--verify=crc32c",
            "--output-format=terse")
        outcome.expect(out=None, err=None)
        # Two jobs write 1024 blocks each, and read them again.
        expect("4096 requests" in outcome.err, True, outcome.story)
