# SPDX-License-Identifier: MIT
"""What the oracles share: a place of their own, and the ways to run a client.

The place is a private mount and PID namespace. File systems are mounted
from files that have no name, on loop devices that clear themselves, so that
whatever ends a test, SIGKILL too, leaves no mount, loop device, file or
process behind. The place has its own /tmp and /dev/shm: programs name files
there by process IDs, and processes in other PID namespaces have the same IDs.
Without root there is no such place, only a folder that is removed at the end;
then tests that need a file system of their own are skipped.
"""
import atexit
import ctypes
import errno
import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

SKIP = 77

# What a mkfs wants, to make one in what is no device.
FORCE = {"ext4": "-F"}

# The number of the call; io_destroy is the next.
IO_SETUP = {"x86_64": 206, "aarch64": 0}
IO_URING_SETUP = 425

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 1 << 14, 1 << 18
PR_SET_PDEATHSIG = 1

LOOP_SET_AUTOCLEAR = 4
LOOP_CONFIGURE = 0x4C0A
LOOP_CTL_GET_FREE = 0x4C82


class Sandbox:
    """A folder to work in, and uaio's build as seen from there."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.images = os.environ.get("SANDBOX_IMAGES", self.build)
        self.is_private = os.geteuid() == 0
        hide_from_loader(self.build)
        if self.is_private:
            enter_namespaces()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        mount_point = os.path.join(self.build, "test", "oracle", "work")
        os.makedirs(mount_point, exist_ok=True)
        if self.is_private:
            self.mount_tmpfs(mount_point)
            self.dir = mount_point
            self.hide_files_of_others()
        else:
            self.dir = tempfile.mkdtemp(dir=mount_point)
            atexit.register(shutil.rmtree, self.dir, ignore_errors=True)

    def hide_files_of_others(self):
        """Mount an empty /tmp and /dev/shm, except above what this test reads there."""
        for shared in "/tmp", "/dev/shm":
            if not any(os.path.join(path, "").startswith(shared + "/") for path in
                       (self.build, self.images)):
                self.mount_tmpfs(shared)

    def folder(self, name):
        path = os.path.join(self.dir, name)
        os.makedirs(path, exist_ok=True)
        return path

    def mount(self, name, fs, image, options=""):
        """Mount the file system in the open file `image` as folder `name`."""
        path = self.folder(name)
        loop = attach_loop(image)
        subprocess.run(["mount", "-t", fs, *(["-o", options] if options else []),
                        loop.name, path], check=True)
        loop.close()
        image.close()
        return path

    def new_fs(self, fs, name, size, in_memory=False, make=(), options=""):
        """A new file system of `size` bytes, on disk or wholly in memory, by the
        options `make` of mkfs and `options` of mount."""
        image = tempfile.TemporaryFile(
            dir=self.dir if in_memory else self.images)
        image.truncate(size)
        make_fs(image, "mkfs." + fs, "-q", FORCE.get(fs, "-f"), *make)
        return self.mount(name, fs, image, options)

    def ext4(self, name, size, in_memory=False):
        return self.new_fs("ext4", name, size, in_memory)

    def overlay(self, name, size):
        """An overlay whose layers are on ext4; None if overlays are not available."""
        below = self.ext4(name + "-layers", size)
        layers = {layer: os.path.join(below, layer)
                  for layer in ("lower", "upper", "work")}
        for path in layers.values():
            os.mkdir(path)
        path = self.folder(name)
        done = subprocess.run(
            ["mount", "-t", "overlay", "overlay", "-o", ",".join(
                f"{layer}dir={path}" for layer, path in layers.items()), path],
            check=False)
        return None if done.returncode else path

    def tmpfs(self, name):
        path = self.folder(name)
        self.mount_tmpfs(path)
        return path

    @staticmethod
    def mount_tmpfs(path):
        mount("tmpfs", path, 0)

    def uaio(self, *command, options=()):
        return [os.path.join(self.build, "uaio"), "run", *options, "--",
                *command]

    @staticmethod
    def has_kernel_aio():
        """Whether the kernel has AIO for this process."""
        libc = ctypes.CDLL(None)
        context = ctypes.c_ulong()
        if libc.syscall(IO_SETUP[os.uname().machine], 1, ctypes.byref(context)):
            return False
        libc.syscall(IO_SETUP[os.uname().machine] + 1, context)
        return True

    @staticmethod
    def has_kernel_uring():
        """Whether the kernel has io_uring for this process."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall(IO_URING_SETUP, 1, None)
        return ctypes.get_errno() == errno.EFAULT

    def has_backend(self, backend):
        """Whether the kernel has what that --backend needs."""
        return self.has_kernel_uring() if backend == "io_uring" else \
            self.has_kernel_aio()

    @staticmethod
    def reports(path):
        """The counts of the processes that have ended since the last call."""
        try:
            with open(path) as lines:
                found = [json.loads(line) for line in lines]
            os.unlink(path)
        except FileNotFoundError:
            found = []
        return found

    def deny_aio(self, *command):
        """`command` with the kernel's own AIO answered ENOSYS."""
        return [os.path.join(self.build, "bench", "deny-aio"), "--", *command]

    def deny_uring(self, error, *command):
        """`command` with io_uring denied by that error. KILL kills the process that calls
        io_uring. CONTAINER denies all that a container engine's default filter denies."""
        how = ["--container"] if error == "CONTAINER" else \
            ["--uring", "--errno", error]
        return [os.path.join(self.build, "bench", "deny-aio"), *how, "--",
                *command]

    def fetch(self, tool, *names):
        """The folder of what tools/fetch-TOOL makes of these names, made if it is
        not there."""
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                              "..", "..")
        return subprocess.run(
            [os.path.join(source, "tools", "fetch-" + tool), *names,
             os.path.join(self.build, "test", "oracle", "-".join([tool, *names]))],
            stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def uaio_only(self, *command, options=()):
        """Run the command on uaio with the kernel's AIO denied, so that a fallback to the
        kernel fails."""
        return self.deny_aio(*self.uaio(*command, options=options))


def call(name, *args):
    """Call that function of the C library, which returns -1 on failure."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc[name](*args)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def mount(fs, path, flags):
    call("mount", fs.encode(), path.encode(), fs.encode(), flags, None)


def enter_namespaces():
    """Continue in a child that has mount, PID and IPC namespaces of its own.

    The parent waits, and ends as the child does. If the parent dies, the kernel kills the
    child, which is the first process of its PID namespace, and with it all others.
    """
    call("unshare", CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)
    child = os.fork()
    if child:
        wait_like(child)
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    mount("none", "/", MS_REC | MS_PRIVATE)
    mount("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def wait_like(child):
    """Wait for the child. Exit with its status, or with 128 + the signal that ended it."""
    # The terminal and Meson send these to the child, too.
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, signal.SIG_IGN)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(status if status >= 0 else 128 - status)


def hide_from_loader(folder):
    """Take uaio's libaio.so.1, which meson test adds, off the library search path:
    otherwise programs that should use the kernel would use uaio."""
    paths = os.environ.pop("LD_LIBRARY_PATH", "").split(":")
    paths = [p for p in paths if p and os.path.realpath(p) !=
             os.path.realpath(folder)]
    if paths:
        os.environ["LD_LIBRARY_PATH"] = ":".join(paths)


def make_fs(image, *command):
    path = f"/proc/self/fd/{image.fileno()}"
    subprocess.run([*command, path], pass_fds=[image.fileno()], check=True,
                   stdout=subprocess.DEVNULL)


def attach_loop(image):
    """A loop device on the open file, which clears itself when last closed."""
    # struct loop_config: fd, block size, struct loop_info64, reserved.
    info = struct.pack("=5Q4I64s64s32s2Q", 0, 0, 0, 0, 0, 0, 0, 0,
                       LOOP_SET_AUTOCLEAR, b"", b"", b"", 0, 0)
    config = struct.pack("=2I", image.fileno(), 0) + info + bytes(64)
    with open("/dev/loop-control", "rb") as control:
        while True:
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            loop = open(f"/dev/loop{number}", "r+b", buffering=0)
            try:
                fcntl.ioctl(loop, LOOP_CONFIGURE, config)
                return loop
            except OSError as error:
                loop.close()
                if error.errno != errno.EBUSY:  # else somebody was faster
                    raise


def run(command, deadline, cwd=None, env=None, stdin=None):
    """Run to the end, or to the deadline: (status, output of both streams).

    The status is None when the deadline passed. Output goes through a file,
    so that a descendant that lives on cannot hold us up. `stdin` names a file.
    """
    with tempfile.TemporaryFile() as log, open(stdin or os.devnull) as source:
        child = subprocess.Popen(
            command, cwd=cwd, env={**os.environ, **(env or {})},
            stdin=source, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True)
        try:
            status = child.wait(deadline)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        log.seek(0)
        return status, log.read().decode(errors="replace")
