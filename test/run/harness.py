# SPDX-License-Identifier: MIT
"""What the tests of `uaio run` share.

A test gets a Tool, whose `scratch` directory is gone afterwards, whatever
happens: the tests make setuid programs, which must not outlive them.
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helpers"))
import cases  # noqa: E402
from cases import SKIPPED, Skip, case, environment, expect  # noqa: E402, F401

NOBODY = 65534
TIMEOUT_S = 600
SCRATCH = "HARNESS_SCRATCH"  # set where a test is alone


class Outcome:
    def __init__(self, command, done):
        self.status = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        self.story = f"{command}\nstatus {self.status}\n{self.out}{self.err}"

    def expect(self, status=0, out=None, err=""):
        """Check the outcome. With err=None, stderr is not checked."""
        for actual, wanted in (
            (self.status, status), (self.out, out), (self.err, err)
        ):
            if wanted is not None and actual != wanted:
                raise AssertionError(f"not {wanted!r}:\n{self.story}")
        return self

    def expect_refusal(self, status, *words):
        """One line on stderr with each of the words, nothing on stdout."""
        if (
            self.status != status
            or self.out
            or self.err.count("\n") != 1
            or not self.err.startswith("uaio: ")
            or not all(word in self.err for word in words)
        ):
            raise AssertionError(
                f"not {status} and one line with {words}:\n{self.story}"
            )
        return self


class Tool:
    def __init__(self, args, scratch):
        self.args = args
        self.uaio = args.uaio
        self.lib_dir = os.path.realpath(os.path.dirname(args.library))
        self.library = os.path.join(self.lib_dir, "libuaio.so.0")
        self.scratch = scratch

    def exec(self, *command, env=None, **options):
        """Runs a command, without the tester's own UAIO_ and LD_ variables."""
        try:
            done = subprocess.run(
                command, env=environment(**(env or {})), timeout=TIMEOUT_S, errors="replace",
                stdin=subprocess.DEVNULL, capture_output=True, **options,
            )
        except subprocess.TimeoutExpired as late:
            said = (late.stdout or b"") + (late.stderr or b"")
            raise AssertionError(
                f"{command} runs for over {TIMEOUT_S} s:\n"
                f"{said.decode(errors='replace')}") from None
        return Outcome(command, done)

    def run(self, *arguments, **options):
        return self.exec(self.uaio, "run", *arguments, **options)

    def path(self, name):
        return os.path.join(self.scratch, name)

    def write(self, name, text, mode=0o755):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def copy(self, source, name, mode=0o755):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copyfile(source, path)
        os.chmod(path, mode)
        return path

    def copy_setuid(self):
        """A program that gains the rights of another user."""
        if os.geteuid() != 0:
            raise Skip("needs root, to make a program of another user")
        program = self.copy(self.args.target, "program")
        os.chown(program, NOBODY, NOBODY)
        os.chmod(program, 0o4755)
        return program

    def copy_tool(self, directory):
        """uaio and the library, where other users can reach them."""
        self.copy(self.args.library, f"{directory}/libuaio.so.0")
        return self.copy(self.args.uaio, f"{directory}/uaio")


def build(tool, name, text, *flags, compiler="cc"):
    """Compiles a program or a library."""
    source = tool.write(f"{name}.c", text)
    program = tool.path(name)
    tool.exec(compiler, "-O2", "-o", program, source, *flags).expect(
        out=None, err=None)
    return program


def behind_mount(*mount):
    """Return: the words before a command that runs where mount(8) has mounted this.
    Skips if this user may not mount."""
    others = [] if os.getuid() == 0 else ["--map-root-user"]
    words = ["unshare", "--mount", *others, "sh", "-c", 'mount %s && exec "$@"' % " ".join(mount),
             "sh"]
    if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("this user may not mount")
    return words


def _guard(parent_lives, scratch):
    """Removes scratch when the other end of the pipe is closed."""
    os.setsid()  # what kills the test and its group leaves this one
    os.read(parent_lives, 1)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(os.path.exists(scratch))


def _be_alone(scratch):
    """Run this test where it sees its own processes and /dev/shm only, if this user may
    mount. The pages of ended processes lie in /dev/shm under the numbers of whatever PID
    namespace they were in: one may have the number of a process of the test.

    Return: the status of the test; None: it has not run."""
    others = [] if os.getuid() == 0 else ["--map-current-user", "--keep-caps"]
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
             *others, "sh", "-c",
             'mount -t tmpfs -o mode=1777 none /dev/shm && exec "$@"', "sh"]
    if subprocess.run([*alone, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        return None
    return subprocess.run([*alone, sys.executable, "-B", *sys.argv],
                          env={**os.environ, SCRATCH: scratch}).returncode


def _run(function, args, is_alone):
    if SCRATCH in os.environ:
        function(Tool(args, os.environ[SCRATCH]))
        return
    scratch = tempfile.mkdtemp(prefix="uaio-run-")
    parent_lives, alive = os.pipe()
    guard = os.fork()
    if guard == 0:
        os.close(alive)
        _guard(parent_lives, scratch)
    os.close(parent_lives)
    os.chmod(scratch, 0o755)  # for tests that go on as nobody
    try:
        status = _be_alone(scratch) if is_alone else None
        if status is None:
            function(Tool(args, scratch))
        elif status != 0:
            sys.exit(status)
    finally:
        os.close(alive)
        expect(os.waitpid(guard, 0)[1], 0, "status of the removal")


def main(is_alone=False):
    cases.main(
        ("uaio", "uaio-nowhere", "library", "target", "static-target", "client", "held",
         "filter", "example-filter", "bugs", "orders", "schema", "doctor-schema",
         "check-schema"),
        ("meson", "build", "source", "bindir", "libdir"),
        lambda function, args: _run(function, args, is_alone))
