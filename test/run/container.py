# SPDX-License-Identifier: MIT
"""container.py PART BASE DEBS BUILD SOURCE SCRATCH: deploy as a user would.

Runs in mount and process namespaces of its own, so that nothing of it is left
whatever ends it. An image is an overlay over the minimal Debian of BASE, to which
fio has been added: `my-image`.
"""
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

import yaml

from page import is_printed, typed, unpack_image

PART, BASE, DEBS, BUILD, SOURCE, SCRATCH = sys.argv[1:]
EXAMPLES = os.path.join(SOURCE, "examples/deploy")
TREE = os.path.join(SCRATCH, "uaio")  # what the user has cloned
CONTEXT = os.path.join(TREE, "examples/deploy")  # what `docker build` is given
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOBODY = 65534
RUN_S = 300  # a command of a container


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


def fail(text):
    sys.exit(f"container: {text}")


class Image:
    """A root, and what a Dockerfile says about its processes."""

    def __init__(self, below=None):
        number = len(os.listdir(SCRATCH))
        self.root = os.path.join(SCRATCH, f"image-{number}")
        self.env = dict(below.env) if below else {"PATH": PATH}
        self.entrypoint = list(below.entrypoint) if below else []
        os.makedirs(self.root)
        if below:
            upper, work = self.root + ".upper", self.root + ".work"
            os.makedirs(upper)
            os.makedirs(work)
            run("mount", "-t", "overlay", "overlay", "-o",
                f"lowerdir={below.root},upperdir={upper},workdir={work}",
                self.root)

    def mount(self):
        for name in ("proc", "sys", "dev", "tmp"):
            os.makedirs(os.path.join(self.root, name), exist_ok=True)
        run("mount", "-t", "proc", "proc", self.root + "/proc")
        run("mount", "--rbind", "/sys", self.root + "/sys")
        run("mount", "--rbind", "/dev", self.root + "/dev")
        # With pages of this machine's processes `uaio stat` would tell of them.
        run("mount", "-t", "tmpfs", "tmpfs", self.root + "/dev/shm")

    def command(self, command, env=(), uid=0, entrypoint=None):
        """The command under the filter of a container engine."""
        if entrypoint is None:
            entrypoint = self.entrypoint
        env = {**self.env, "HOME": "/", **dict(env)}
        user = ["setpriv", f"--reuid={uid}", f"--regid={uid}",
                "--clear-groups", "--no-new-privs"] if uid else []
        return [os.path.join(BUILD, "bench/deny-aio"), "--container", "--",
                "chroot", self.root, *user, "env", "-i",
                *(f"{name}={value}" for name, value in env.items()),
                *entrypoint, *command]

    def start(self, command, **options):
        """A process that goes on, and ends with this one."""
        return subprocess.Popen(
            self.command(command, **options), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")

    def run(self, command, **options):
        """Return: what was printed, and the exit status."""
        done = subprocess.run(
            self.command(command, **options), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd="/", timeout=RUN_S)
        return done.stdout, done.returncode


def my_image():
    """The user's own: a minimal Debian with fio, and nothing of uaio."""
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", SCRATCH)
    # PID 1 has it as a root here, where `uaio stat` looks, too.
    run("mount", "-t", "tmpfs", "tmpfs", "/dev/shm")
    os.makedirs(CONTEXT)
    image = Image()
    unpack_image(image.root, BASE)
    for name in os.listdir(EXAMPLES):
        shutil.copy(os.path.join(EXAMPLES, name), CONTEXT)
    return image


def make():
    """What `make` leaves in the tree, and dpkg-buildpackage above it."""
    os.makedirs(os.path.join(TREE, "build"))
    shutil.copy(os.path.join(BUILD, "libuaio.so.0"),
                os.path.join(TREE, "build"))
    for path in glob.glob(os.path.join(DEBS, "*.deb")):
        shutil.copy(path, SCRATCH)


def fill_context():
    shutil.copy(os.path.join(BUILD, "libuaio.so.0"), CONTEXT)
    for path in glob.glob(os.path.join(DEBS, "*.deb")):
        shutil.copy(path, CONTEXT)


def instructions(path):
    with open(path) as file:
        text = file.read().replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, rest.strip()


def copy(image, words):
    *sources, to = words
    place = image.root + to
    if to.endswith("/"):
        os.makedirs(place, exist_ok=True)
    for source in sources:
        found = glob.glob(os.path.join(CONTEXT, source))
        if not found:
            fail(f"COPY: no {source}")
        for path in found:
            shutil.copy(path, place)


def build(images, path, context):
    """Executes a Dockerfile, of which no instruction is left out."""
    if os.path.realpath(context) != os.path.realpath(CONTEXT):
        fail(f"{context} is not the folder of the example")
    image = None
    for name, rest in instructions(path):
        if name == "FROM":
            image = Image(images[rest])
            image.mount()
        elif name == "COPY":
            copy(image, rest.split())
        elif name == "RUN":
            said, status = image.run(["sh", "-c", rest], entrypoint=[])
            if status:
                fail(f"RUN {rest}: {said}")
        elif name == "ENV":
            image.env.update(word.split("=", 1) for word in shlex.split(rest))
        elif name == "ENTRYPOINT":
            image.entrypoint = json.loads(rest)
        else:
            fail(f"{path}: {name}?")
    return image


#
# the document
#

class Shell:
    """A shell that types what the document does; of Docker only the used part of `build`,
    `run`, `exec` and `kill`."""

    def __init__(self, images):
        self.images = images
        self.containers = {}  # by name: the image, and the process that goes on
        self.cwd = TREE

    def build(self, words):
        options = {"-f": "Dockerfile"}
        while words[0].startswith("-"):
            options[words[0]] = words[1]
            words = words[2:]
        self.images[options["-t"]] = build(
            self.images, os.path.join(self.cwd, options["-f"]),
            os.path.join(self.cwd, *words))
        return "", 0

    def run(self, words):
        env, entrypoint, container = {}, None, None
        while words[0].startswith("-"):
            option = words.pop(0)
            if option == "-e":
                name, _, value = words.pop(0).partition("=")
                env[name] = value
            elif option == "--entrypoint":
                entrypoint = [words.pop(0)]
            elif option == "--name":
                container = words.pop(0)
            elif option not in ("--rm", "-d"):
                fail(f"docker run {option}?")
        image = self.images[words[0]]
        if not container:
            return image.run(words[1:], env=env, entrypoint=entrypoint)
        process = image.start(words[1:], env=env, entrypoint=entrypoint)
        self.containers[container] = image, process
        # Until its first request is complete: it has a page before.
        while not re.search("completed [1-9]", image.run(
                ["uaio", "stat"], entrypoint=[])[0]):
            if process.poll() is not None:
                fail(f"{container} has ended")
            time.sleep(0.01)
        return "the id\n", 0

    def exec(self, words):
        return self.containers[words[0]][0].run(words[1:], entrypoint=[])

    def kill(self, words):
        image, process = self.containers.pop(words[0])
        process.kill()
        process.wait()
        for place in glob.glob(image.root + "/dev/shm/uaio.*"):
            shutil.rmtree(place)
        return words[0] + "\n", 0

    def execute(self, command):
        words = shlex.split(command)
        if words[0] == "docker":
            return getattr(self, words[1])(words[2:])
        if words[0] in ("make", "apt-get", "dpkg-buildpackage"):
            return "", 0  # make() has what they leave
        if words[0] == "cd":
            self.cwd = os.path.join(self.cwd, words[1])
            return "", 0
        done = subprocess.run(["sh", "-c", command], cwd=self.cwd, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout, done.returncode


def document():
    shell = Shell({"my-image": my_image()})
    shell.images["my-image"].mount()
    make()
    failed = nr = 0
    with open(os.path.join(SOURCE, "doc/deploy.md")) as file:
        text = file.read()
    for command, printed in typed(text):
        said, _ = shell.execute(command)
        nr += 1
        if not is_printed(printed, said):
            print(f"$ {command}\n{said}--- but the document has:\n{printed}")
            failed += 1
    if failed or nr < 8:
        fail(f"{failed} of {nr} commands print something else")


#
# the other examples
#

def expect_report(image, command, env=(), **options):
    """Check that the library served fio's io_uring, which the filter refuses. The
    examples themselves ask for no report: each process of a service would write its
    own."""
    env = dict(env)
    said, status = image.run(command, env=env, **options)
    if status or "uaio: " in said:
        fail(f"status {status}, or a word of the library's:\n{said}")
    env["UAIO_STATS"] = "yes"
    said, status = image.run(command, env=env, **options)
    if status or not re.search(r"uaio: fio\[\d+\]: 2048 requests", said):
        fail(f"status {status}, and no report:\n{said}")


def compose():
    images = {"my-image": my_image()}
    fill_context()
    with open(os.path.join(EXAMPLES, "compose.yaml")) as file:
        service = yaml.safe_load(file)["services"]["app"]
    image = build(images, os.path.join(CONTEXT, service["build"]["dockerfile"]),
                  os.path.join(CONTEXT, service["build"]["context"]))
    for place in service["tmpfs"]:
        os.makedirs(image.root + place)
        run("mount", "-t", "tmpfs", "tmpfs", image.root + place)
    if service["read_only"]:
        run("mount", "-o", "remount,ro", image.root)
    if service.get("environment"):
        fail("what is set for the service?")
    expect_report(image, service["command"])


def volumes(image, container, places):
    for volume in container["volumeMounts"]:
        place = image.root + volume["mountPath"]
        os.makedirs(place)
        run("mount", "--bind", places[volume["name"]], place)
        if volume.get("readOnly"):
            run("mount", "-o", "remount,bind,ro", place)
    if container["securityContext"]["readOnlyRootFilesystem"]:
        run("mount", "-o", "remount,ro", image.root)


def kubernetes():
    base = my_image()
    fill_context()
    images = {"my-image": base}
    images["my-image-on-uaio"] = build(
        images, os.path.join(CONTEXT, "Dockerfile"), CONTEXT)
    with open(os.path.join(EXAMPLES, "kubernetes.yaml")) as file:
        spec = yaml.safe_load(file)["spec"]
    uid = spec["securityContext"]["runAsUser"]
    places = {}
    for volume in spec["volumes"]:
        places[volume["name"]] = os.path.join(SCRATCH, "v-" + volume["name"])
        os.makedirs(places[volume["name"]])
        os.chmod(places[volume["name"]], 0o777)
    for container in spec["initContainers"] + spec["containers"]:
        image = Image(images[container["image"]])
        image.mount()
        volumes(image, container, places)
        env = {each["name"]: each["value"] for each in container.get("env", [])}
        if container in spec["containers"]:
            expect_report(image, container["command"], env=env, uid=uid)
            continue
        said, status = image.run(container["command"], env=env, uid=uid)
        if status:
            fail(said)


def calls_of(group):
    """The system calls of a group of systemd's, which may hold others."""
    said = run("systemd-analyze", "syscall-filter", group, capture_output=True,
               text=True).stdout
    for name in re.findall(r"^ +([@\w]+)$", said, re.M):
        yield from calls_of(name) if name.startswith("@") else [name]


def is_allowed(call, filters):
    """Return: whether these SystemCallFilter= lines allow the call. The first line says
    whether calls in no list are refused."""
    allowed = filters[0].startswith("~")
    for text in filters:
        for word in text.lstrip("~").split():
            if call in (calls_of(word) if word.startswith("@") else [word]):
                allowed = not text.startswith("~")
    return allowed


def systemd():
    base = my_image()
    fill_context()
    image = build({"my-image": base},
                  os.path.join(CONTEXT, "Dockerfile.package"), CONTEXT)
    units = os.path.join(SCRATCH, "units")
    os.makedirs(f"{units}/example.service.d")
    shutil.copy(f"{EXAMPLES}/example.service", units)
    shutil.copy(f"{EXAMPLES}/uaio.conf", f"{units}/example.service.d")
    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
         f"{units}/example.service"], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    if said.returncode or "uaio.conf" in said.stdout:
        fail(f"systemd-analyze verify: {said.stdout}")
    lines = []
    for path in f"{units}/example.service", f"{units}/example.service.d/uaio.conf":
        with open(path) as file:
            lines += [line.strip().split("=", 1) for line in file
                      if "=" in line and not line.startswith("#")]
    env = dict(value.split("=", 1) for name, value in lines
               if name == "Environment")
    command = [value for name, value in lines if name == "ExecStart"]
    filters = [value for name, value in lines if name == "SystemCallFilter"]
    for call, is_needed in (("io_uring_setup", False), ("io_setup", False),
                            ("memfd_create", True)):
        if is_allowed(call, filters) != is_needed:
            fail(f"{filters}: {call}")
    expect_report(image, shlex.split(command[0]), env=env, uid=NOBODY,
                  entrypoint=[])


{"document": document, "compose": compose, "kubernetes": kubernetes,
 "systemd": systemd}[PART]()
