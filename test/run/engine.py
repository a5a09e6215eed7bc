# SPDX-License-Identifier: MIT
"""engine.py ENGINE ROOT BASE DEBS BUILD SOURCE SCRATCH: deploy on a container engine.

ENGINE is docker or podman, of the Debian packages that are unpacked in ROOT. The engine
runs in mount, process, network and cgroup namespaces of its own and keeps all its files
in memory, so that nothing is left whatever ends it. A shell there executes the commands
of doc/deploy.md, and this program compares what they print with the document. It does
not execute `make`, `apt-get` and `dpkg-buildpackage`, but copies the files that they
make; nor Compose, Kubernetes and systemd.

The program ends when its standard input does. Its exit status is 3 where the machine
does not let the engine start.
"""
import fcntl
import glob
import os
import re
import resource
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import yaml

from page import is_printed, typed, unpack_image

ENGINE, ROOT, BASE, DEBS, BUILD, SOURCE, SCRATCH = sys.argv[1:8]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PLACE = "/root/uaio"  # what the user has cloned, in the root
START_S = 120  # for the engine
RUN_S = 300  # for a command
GROUP = "uaio-engine."
NOT_STARTED = 3
BY_OTHERS = "make", "apt-get", "dpkg-buildpackage"

# Containers have no network, as the document needs none, and no limits of their own, as
# the machine may refuse these. The engines' own defaults decide all else.
DAEMON = ("dockerd --storage-driver=overlay2 --bridge=none --iptables=false "
          "--ip6tables=false --group=0")
CONFIGURATION = """
[containers]
netns = "none"
pids_limit = 0
cgroups = "no-conmon"
default_ulimits = ["nofile={0}:{0}", "nproc={1}:{1}"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""
# The package podman-docker has such a command. Podman's configuration says nothing of the
# network of a build.
DOCKER_OF_PODMAN = """#!/bin/sh
case $1 in
build) shift; exec podman build --network=none "$@" ;;
*) exec podman "$@" ;;
esac
"""

PROGRAMS = {"docker": "dockerd", "podman": "podman"}
WORDS = {"EPERM": "Operation not permitted", "ENOSYS": "Function not implemented"}


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


def fail(text):
    sys.exit(f"engine: {text}")


class NotStarted(Exception):
    """The machine does not let the engine start."""

    # An engine that fails for another reason is a fault of this test.
    REASONS = re.compile("permi|denied|support|mount|cgroup|overlay|seccomp|"
                         "device|space|memory|controller")

    def __init__(self, reason):
        if not self.REASONS.search(reason):
            fail(f"{ENGINE} does not start: {reason}")
        super().__init__(reason)


#
# outside: the control group, which no namespace removes
#

def remove_group(path):
    """Return: whether it is gone, with the groups that the engine made below it."""
    try:
        with open(f"{path}/cgroup.kill", "w") as file:
            file.write("1")
    except OSError:
        pass  # Linux before 5.14, where the end of the namespace kills them
    end = time.monotonic() + START_S
    while True:
        for below, _, _ in os.walk(path, topdown=False):
            try:
                os.rmdir(below)
            except OSError:
                pass  # a process is still ending
        if not os.path.exists(path):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.05)


def take_group(path):
    """Return: a lock on the group, which is removed by the holder alone; None if the
    group is gone or has another holder."""
    lock = None
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(path)
        return lock
    except OSError:
        if lock is not None:
            os.close(lock)
        return None


def make_group():
    """Make a group below this process's own, without controllers, since the document
    sets no limits. Return: its path and its lock."""
    tree = os.path.join(SCRATCH, "cgroup")
    os.mkdir(tree)
    run("mount", "-t", "cgroup2", "cgroup2", tree)
    with open("/proc/self/cgroup") as file:
        own = tree + re.search("^0::(.*)$", file.read(), re.M)[1]
    # A test that was killed together with this program left its group.
    for old in glob.glob(f"{own}/{GROUP}*"):
        lock = take_group(old)
        if lock is not None:
            remove_group(old)
            os.close(lock)
    while True:
        path = tempfile.mkdtemp(prefix=GROUP, dir=own)
        lock = take_group(path)
        if lock is not None:
            os.mkdir(f"{path}/init")
            return path, lock


def outside():
    """Start the engine in its namespaces, and kill these when the input ends."""
    try:
        group, lock = make_group()
    except (OSError, TypeError, subprocess.CalledProcessError) as error:
        print(f"no group of processes can be made here: {error}")
        return NOT_STARTED

    def join():
        with open(f"{group}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))

    child = subprocess.Popen(
        ["unshare", "--cgroup", "--mount", "--pid", "--net", "--ipc", "--uts",
         "--mount-proc", "--fork", "--kill-child", sys.executable, "-B", *sys.argv, "inside"],
        stdin=subprocess.DEVNULL, preexec_fn=join)
    try:
        select.select([sys.stdin, os.pidfd_open(child.pid)], [], [])
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
        return child.wait()
    finally:
        if not remove_group(group):
            print(f"engine: {group} cannot be removed")
        os.close(lock)


#
# inside
#

class Engine:
    """The root that the engine runs in, and a shell there."""

    def __init__(self):
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", SCRATCH)
        self.root = self.folder("root")
        layers = self.folder("upper"), self.folder("work")
        self.mount("-t", "overlay", "overlay", "-o",
                   "lowerdir={},upperdir={},workdir={}".format(ROOT, *layers))
        self.mount("-t", "proc", "proc", at="/proc")
        # The machine's settings are not an engine's to change.
        self.mount("--bind", self.root + "/proc/sys", at="/proc/sys")
        self.mount("-o", "remount,bind,ro", at="/proc/sys")
        self.mount("-t", "sysfs", "sysfs", at="/sys")
        self.mount("-t", "cgroup2", "cgroup2", at="/sys/fs/cgroup")
        self.mount("--rbind", "/dev", at="/dev")
        for place in "/dev/shm", "/run", "/tmp", "/var/tmp":
            self.mount("-t", "tmpfs", "tmpfs", at=place)
        for place in "/var/lib/docker", "/var/lib/containers":
            self.mount("--bind", self.folder(os.path.basename(place)), at=place)
        # cgroups(7): only groups without children have processes.
        with open(self.root + "/sys/fs/cgroup/init/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
        self.cwd = PLACE
        os.makedirs(self.root + PLACE)
        self.holder = self.hold()

    @staticmethod
    def folder(name):
        path = os.path.join(SCRATCH, name)
        os.mkdir(path)
        return path

    def mount(self, *arguments, at=""):
        os.makedirs(self.root + at, exist_ok=True)
        try:
            run("mount", *arguments, self.root + at, text=True,
                stderr=subprocess.PIPE)
        except subprocess.CalledProcessError as error:
            raise NotStarted(error.stderr) from error

    def hold(self):
        """Start a process whose root it is. runc calls pivot_root(2), which needs a
        root that is not changed by chroot(2)."""
        holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c",
             "cd $0 && pivot_root . . && umount -l . && cd / && echo && exec cat",
             self.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not holder.stdout.readline():
            fail("the root cannot be entered")
        return holder

    def command(self, text):
        return ["nsenter", "--mount", f"--target={self.holder.pid}", "--",
                "env", "-i", f"PATH={PATH}", "HOME=/root",
                "sh", "-c", f"cd {self.cwd} && {text}"]

    def start(self, text, log):
        with open(log, "w") as file:
            return subprocess.Popen(self.command(f"exec {text}"), stdout=file,
                                    stdin=subprocess.DEVNULL, stderr=file)

    def run(self, text, stdin=subprocess.DEVNULL):
        """Return: the exit status, standard output and standard error."""
        done = subprocess.run(
            self.command(text), stdin=stdin, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", timeout=RUN_S)
        return done.returncode, done.stdout, done.stderr

    def expect(self, text, printed="...\n", status=0):
        found, out, err = self.run(text)
        if found != status or not is_printed(printed, out, err):
            fail(f"{text}: status {found}\n{out}{err}"
                 f"--- but it should be {status}, and\n{printed}")

    def write(self, path, text, mode=0o644):
        path = self.root + path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)


def start_docker(engine):
    log = os.path.join(SCRATCH, "log")
    daemon = engine.start(DAEMON, log)
    end = time.monotonic() + START_S
    while engine.run("docker version")[0]:
        if daemon.poll() is not None or time.monotonic() > end:
            with open(log) as file:
                raise NotStarted(file.read()[-2000:])
        time.sleep(0.1)


def start_podman(engine):
    engine.write("/etc/containers/containers.conf",
                 CONFIGURATION.format(*(resource.getrlimit(limit)[1] for limit in (
                     resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))))
    engine.write("/usr/local/bin/docker", DOCKER_OF_PODMAN, 0o755)


def make(engine):
    """What `make` leaves in the tree, and dpkg-buildpackage above it."""
    tree = engine.root + PLACE
    shutil.copytree(os.path.join(SOURCE, "examples/deploy"),
                    f"{tree}/examples/deploy")
    os.makedirs(f"{tree}/build")
    shutil.copy(os.path.join(BUILD, "libuaio.so.0"), f"{tree}/build")
    for path in glob.glob(os.path.join(DEBS, "*.deb")):
        shutil.copy(path, os.path.dirname(tree))


def import_image(engine):
    image = engine.folder("image")
    unpack_image(image, BASE)
    tar = subprocess.Popen(["tar", "-C", image, "-c", "."],
                           stdout=subprocess.PIPE)
    status, out, err = engine.run("docker import - my-image", stdin=tar.stdout)
    tar.stdout.close()
    if tar.wait() or status:
        raise NotStarted(f"docker import: {out}{err}")
    shutil.rmtree(image)


def try_container(engine):
    """Start a container that has nothing of uaio, under the engine's filter."""
    status, out, err = engine.run(
        "docker run --rm my-image grep Seccomp: /proc/self/status")
    if status:
        raise NotStarted(f"docker run: {out}{err}")
    if out.split() != ["Seccomp:", "2"]:
        fail(f"the engine has no filter: {out}{err}")


def start():
    engine = Engine()
    {"docker": start_docker, "podman": start_podman}[ENGINE](engine)
    make(engine)
    import_image(engine)
    try_container(engine)
    return engine


#
# the document
#

def answer_of_document(text, version):
    """What this version answers to io_uring, by the document's table."""
    rows = re.findall(r"^\| *([^|]*?) *\| *([^|]*?) *\| *([^|]*?) *\|$",
                      text, re.M)
    name = ""
    for engine, profile, answer in rows:
        name = engine or name
        found = re.match(r"(\d+)\.(\d+)( and later)?", profile)
        if not name.lower().startswith(ENGINE) or not found:
            continue
        first = int(found[1]), int(found[2])
        if version == first or found[3] and version > first:
            return answer
    return fail(f"the table has no {ENGINE} {version}")


def answer(engine):
    """What the engine answers to io_uring, in a container that has nothing of uaio."""
    status, out, err = engine.run(
        "docker run --rm my-image fio --name=try --ioengine=io_uring --size=8m")
    if not status:
        return "allowed"
    for name, words in WORDS.items():
        if f"func=io_queue_init, error={words}" in out + err:
            return name
    return fail(f"fio: {out}{err}")


def for_answer(command, printed, given):
    """The document shows EPERM, the answer of a current Docker."""
    if given != "allowed":
        for name, words in (("EPERM", given), (WORDS["EPERM"], WORDS[given])):
            printed = printed.replace(name, words)
        return command, printed
    # Programs have the kernel's io_uring, unless uaio is told otherwise.
    command = command.replace("docker run ", "docker run -e UAIO_URING=always ")
    if " my-image " in command:
        return command, "...\n"
    printed = re.sub(r"^WARN  (io_uring_\w+) +EPERM.*\n.*\n",
                     r"PASS  \1 allowed\n", printed, flags=re.M)
    return command, re.sub(r"^(PASS  io_uring .*)uaio run serves \w+$", r"\1...",
                           printed, flags=re.M)


def wait_for_requests(engine, container):
    end = time.monotonic() + RUN_S
    while True:
        status, out, err = engine.run(f"docker exec {container} uaio stat")
        if re.search("completed [1-9]", out):
            return
        if time.monotonic() > end:
            fail(f"{container} makes no requests: {status} {out}{err}")
        time.sleep(0.1)


def document(engine):
    with open(os.path.join(SOURCE, "doc/deploy.md")) as file:
        text = file.read()
    _, out, _ = engine.run(f"{PROGRAMS[ENGINE]} --version")
    version = tuple(map(int, re.search(r"version (\d+)\.(\d+)", out).groups()))
    given = answer(engine)
    print(f"{out.strip()}: io_uring is {given}", flush=True)
    if given != answer_of_document(text, version):
        fail("the table says otherwise")
    failed = nr = 0
    for command, printed in typed(text):
        if command.startswith(BY_OTHERS):
            continue
        if command.startswith("cd "):
            engine.cwd = os.path.join(engine.cwd, command[3:])
            continue
        nr += 1
        command, printed = for_answer(command, printed, given)
        status, out, err = engine.run(command)
        if command.startswith("docker build "):
            # Each engine reports a build in its own words.
            if status:
                fail(f"{command}: {out}{err}")
        elif not is_printed(printed, out, err):
            print(f"$ {command}\n{out}{err}--- but the document has:\n{printed}")
            failed += 1
        if named := re.search(" -d .*--name ([a-z]+) ", command):
            wait_for_requests(engine, named[1])
    if failed or nr < 8:
        fail(f"{failed} of {nr} commands print something else")
    silent(engine)
    compose(engine, given)


def silent(engine):
    """uaio prints nothing in a program that makes no requests."""
    for option in "", "-e UAIO_STATS=yes ":
        engine.expect(f"docker run --rm {option}my-image-on-uaio ls /usr/local/lib",
                      "libuaio.so.0\n")
    # All engines allow kernel AIO.
    for image in "my-image", "my-image-on-uaio":
        engine.expect(f"docker run --rm {image} fio --name=try --ioengine=libaio "
                      "--size=8m --output=/dev/null", "")


def compose(engine, given):
    """Run the example's service, with the options that stand for its settings."""
    with open(os.path.join(SOURCE, "examples/deploy/compose.yaml")) as file:
        service = yaml.safe_load(file)["services"]["app"]
    if service.pop("build") != {"context": ".", "dockerfile": "Dockerfile"}:
        fail("compose: not the image of two lines")
    command = shlex.join(service.pop("command"))
    options = ["--read-only"] if service.pop("read_only") else []
    options += [f"--tmpfs={place}" for place in service.pop("tmpfs")]
    options += [f"--security-opt={text}" for text in service.pop("security_opt")]
    if service:
        fail(f"compose: what is {service}?")
    image = " ".join(["docker run --rm", *options, "{} my-image-on-uaio", command])
    engine.expect(image.format(""), "")
    env = "-e UAIO_STATS=yes"
    if given == "allowed":
        if "requests" in "".join(engine.run(image.format(env))[1:]):
            fail("the kernel's io_uring is allowed, and not used")
        env += " -e UAIO_URING=always"
    engine.expect(image.format(env), "uaio: fio[1]: 2048 requests ...\n...\n")


def inside():
    try:
        engine = start()
    except NotStarted as reason:
        print(f"{ENGINE} does not start on this machine: {reason}")
        return NOT_STARTED
    document(engine)
    return 0


sys.exit(inside() if sys.argv[8:] else outside())
