# SPDX-License-Identifier: MIT
"""release.py BUILD SOURCE SCENARIO: the files that `make dist` makes.

They are made from the working tree, once for all scenarios. Each scenario installs
some of them in a root of another Debian, which it does not change, by the line of
README.md. It runs programs there with a filter that refuses the kernel's interfaces:
fio verifies what it wrote, and the library's counts prove that the library has served it.
"""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.realpath(__file__))
for folder in ("oracle", "run"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
sys.dont_write_bytecode = True  # leave the source tree clean
import released  # noqa: E402
import sandbox  # noqa: E402
import ways  # noqa: E402
from musl_root import SERVED  # noqa: E402

GLIBC = (2, 17)
DEADLINE = 300
MIB = 4
BLOCKS = MIB << 8  # of 4 KiB
PATH = "/srv:/usr/sbin:/usr/bin:/sbin:/bin"
# What fio's engine uses; the filter for it; and the library's count of it.
ENGINES = {
    "libaio": ((), "contexts"),
    "io_uring": (("--uring",), "rings"),
    "posixaio": ((), None),
}
NR_FILES = 300  # Node's
PACKAGES = {
    "bullseye": ("fio", "tar", "gzip", "libstdc++6"),
    "bookworm": ("fio", "tar", "gzip", "libstdc++6", "apt", "dpkg", "diffutils",
                 "libc-bin", "python3-venv"),
    "trixie": ("fio", "tar", "gzip", "libstdc++6"),
    "sid": ("fio", "tar", "gzip", "libstdc++6"),
    "podman": ("podman", "mount"),
}
# Not of the suite of that name.
SUITES = {"podman": "bookworm"}


class Context:
    def __init__(self, build, source):
        # Before all else: it executes this program again, in namespaces.
        self.box = sandbox.Sandbox(build)
        self.build = os.path.abspath(build)
        self.source = os.path.abspath(source)
        self.kept = os.path.join(self.build, "anywhere")
        os.makedirs(self.kept, exist_ok=True)

    def tool(self, *command):
        """Return: the standard output of a script of tools/."""
        return subprocess.run(
            [os.path.join(self.source, "tools", command[0]), *command[1:]],
            check=True, stdout=subprocess.PIPE, text=True).stdout

    def release(self):
        """The folder of a release of the working tree."""
        return released.release(self.build, self.source)

    def file(self, pattern):
        return released.find(self.release(), pattern)

    def root(self, suite):
        """A root of that suite, which the caller may change."""
        below = self.tool("fetch-root", SUITES.get(suite, suite), *PACKAGES[suite],
                          os.path.join(self.kept, suite)).strip()
        root, *layers = [self.box.folder(f"{suite}-{name}")
                         for name in ("root", "upper", "work")]
        subprocess.run(
            ["mount", "-t", "overlay", "overlay", "-o",
             f"lowerdir={below},upperdir={layers[0]},workdir={layers[1]}",
             root], check=True)
        subprocess.run(["mount", "-t", "proc", "proc", root + "/proc"],
                       check=True)
        for folder in ("/tmp", "/usr/local"):
            os.makedirs(root + folder, exist_ok=True)
        for device in ("null", "urandom"):
            path = f"{root}/dev/{device}"
            open(path, "w").close()
            subprocess.run(["mount", "--bind", "/dev/" + device, path],
                           check=True)
        return root


def run(*command, status=0, env=None):
    done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=DEADLINE, env={
                              "PATH": os.environ["PATH"], "HOME": "/srv",
                              **(env or {})})
    assert done.returncode == status, \
        f"{' '.join(command)}: status {done.returncode}\n{done.stdout}"
    return done.stdout


def serve(context, root, uaio, denied, *command, env=None):
    """Run a program in the root by the command there, with the kernel's interfaces
    refused. Return: what it prints, and the library's counts."""
    said = run(os.path.join(context.build, "bench", "deny-aio"), *denied, "--",
               "chroot", root, uaio, "run", "--stats-json=/srv/stats", "--",
               *command, env={"PATH": PATH, **(env or {})})
    with open(root + "/srv/stats") as file:
        # A child ends before its parent.
        stats = json.loads(file.read().splitlines()[-1])
    os.unlink(root + "/srv/stats")
    print(command[0], {name: stats[name]
                       for name in ("contexts", "rings", "completed")})
    return said, stats


def serve_fio(context, root, uaio, engines=tuple(ENGINES)):
    """fio in the root, with each of its engines, by the command there."""
    for engine in engines:
        denied, count = ENGINES[engine]
        _, stats = serve(
            context, root, uaio, denied, "fio", "--thread", "--name=job",
            "--filename=/srv/file", f"--size={MIB}m", "--bs=4k",
            "--rw=randwrite", "--iodepth=16", "--verify=crc32c",
            "--verify_fatal=1", f"--ioengine={engine}")
        assert stats["completed"] == 2 * BLOCKS, "requests of fio"
        assert not count or stats[count] == 1, f"no {count}"
        os.unlink(root + "/srv/file")


def bind(path, root, name):
    to = os.path.join(root, "srv", name)
    open(to, "w").close()
    subprocess.run(["mount", "--bind", path, to], check=True)


def serve_programs(context, root, uaio):
    """Node, which uses io_uring, and a program of all interfaces, in the root. They are
    the same files in all roots, too."""
    [node] = glob.glob(os.path.join(context.box.fetch("pypi"), ways.NODE))
    bind(node, root, "node")
    for name in ("test/oracle/node.mjs", "test/run/stranger.c"):
        shutil.copy(os.path.join(context.source, name), root + "/srv")
    work = os.path.join(os.path.dirname(context.release()), "dist-work")
    zig = context.tool("fetch-zig", os.path.join(work, "zig")).strip()
    run(zig, "cc", "-target", f"x86_64-linux-gnu.{GLIBC[0]}.{GLIBC[1]}",
        "-O2", "-fno-sanitize=all", "-o", root + "/srv/stranger",
        root + "/srv/stranger.c", "-lpthread", "-lrt", env={f"ZIG_{what}_CACHE_DIR": os.path.join(work, "zig-cache")
                     for what in ("GLOBAL", "LOCAL")})
    with open(root + "/etc/hosts", "w") as file:
        file.write("127.0.0.1 localhost\n")
    os.mkdir(root + "/srv/files")
    said, stats = serve(context, root, uaio, ("--uring",), "node",
                        "/srv/node.mjs", "/srv/files", str(NR_FILES),
                        env={"UV_USE_IO_URING": "1"})
    assert said == f"{NR_FILES} files\n", said
    assert stats["rings"] and stats["completed"] >= 3 * NR_FILES, "Node's requests"
    said, _ = serve(context, root, uaio, ("--uring",), "stranger")
    assert said == SERVED, said


def extract(path, to):
    os.makedirs(to, exist_ok=True)
    with tarfile.open(path) as tar:
        tar.extractall(to)


def line_of_readme(context, word):
    """Return: the line of README.md under "Install" that begins with the word."""
    with open(os.path.join(context.source, "README.md")) as file:
        section = file.read().split("\n## Install\n")[1].split("\n## ")[0]
    line = re.search(rf"^    ({word} .*)$", section, re.M)[1]
    print("$ " + line)
    return line


def install(context, root, word):
    """Type the line of README.md, in the root, where the files of the release are."""
    shutil.copytree(context.release(), root + "/srv/dist")
    run("chroot", root, "sh", "-c",
        "export PATH=/srv/venv/bin:$PATH; cd /srv/dist && " +
        line_of_readme(context, word))
    shutil.rmtree(root + "/srv/dist")


def elf_files(top):
    for folder, _, names in os.walk(top):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield os.path.relpath(path, top), path


def newer_than_floor(path):
    return [f"{name}@GLIBC_{version}" for name, version in re.findall(
        r"UND (\S+)@GLIBC_([0-9.]+)",
        run("readelf", "-W", "--dyn-syms", path))
        if tuple(map(int, version.split("."))) > GLIBC]


def check_library(context, path):
    dynamic = run("readelf", "-Wd", path)
    assert "[libuaio.so.0]" in dynamic, "soname"
    flags = re.search(r"\(FLAGS_1\) +Flags: (.*)", dynamic)[1].split()
    assert {"NOW", "NODELETE"} <= set(flags), flags
    assert "STATIC_TLS" in dynamic and "TEXTREL" not in dynamic, dynamic
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert {re.sub(r"\.so.*", "", name) for name in needed} <= {
        "libc", "libpthread", "libdl", "librt", "ld-linux-aarch64",
        "ld-linux-x86-64"}, needed
    with open(os.path.join(context.source, "test/abi/symbols.golden")) as file:
        golden = {line.strip() for line in file
                  if line.strip() and not line.startswith(("#", "LIBAIO_"))}
    exported = {found[1] for found in re.finditer(
        r"(?:GLOBAL|WEAK) +DEFAULT +(?!UND)\w+ (\S+)",
        run("readelf", "-W", "--dyn-syms", path))}
    assert exported == golden, exported ^ golden


def symbols(context):
    for arch in ("x86_64", "aarch64"):
        top = context.box.folder(arch)
        extract(context.file(f"*-{arch}.tar.gz"), top)
        top = os.path.join(top, os.listdir(top)[0])
        found = dict(elf_files(top))
        assert set(found) >= {"bin/uaio", "lib/libuaio.so.0",
                              "lib/uaio/uaio-dynamic"}, found
        for name, path in found.items():
            newer = newer_than_floor(path)
            assert not newer, f"{arch}: {name} needs {newer}"
        segments = run("readelf", "-Wld", found["bin/uaio"])
        assert "INTERP" not in segments and "NEEDED" not in segments, segments
        check_library(context, found["lib/libuaio.so.0"])


def tarball(context, suite):
    root = context.root(suite)
    install(context, root, "tar")
    serve_fio(context, root, "/usr/local/bin/uaio")
    serve_programs(context, root, "/usr/local/bin/uaio")


def tool(context):
    root = context.root("bookworm")
    extract(context.file("*-x86_64.tar.gz"), root + "/opt")
    uaio = glob.glob(root + "/opt/*/bin/uaio")[0].removeprefix(root)
    version = run("chroot", root, uaio, "--version").splitlines()
    print(version)
    assert re.fullmatch(r"uaio \d+\.\d+\.\d+", version[0]), version
    assert version[1].startswith("for x86_64, glibc 2.17"), version
    assert re.fullmatch("of commit [0-9a-f]{12}", version[2]), version
    said = run("chroot", root, uaio, "doctor", "fio")
    print(said)
    for line in ("program", "kernel AIO", "io_uring", "POSIX AIO"):
        assert re.search(rf"^PASS  {line}", said, re.M), line
    # The C library's own static program.
    said = run("chroot", root, uaio, "run", "--trap", "ldconfig", "--version")
    assert said.startswith("ldconfig"), said


def deb(context):
    root = context.root("bookworm")
    # The root's packages were unpacked: dpkg knows of none.
    os.makedirs(root + "/var/lib/dpkg/info", exist_ok=True)
    os.makedirs(root + "/var/lib/dpkg/updates", exist_ok=True)
    with open(root + "/var/lib/dpkg/status", "w") as file:
        file.write("Package: libc6\nStatus: install ok installed\n"
                   "Architecture: amd64\nVersion: 2.17\n"
                   "Maintainer: nobody\nDescription: unpacked\n")
    install(context, root, "apt")
    serve_fio(context, root, "/usr/bin/uaio")
    # The loader finds it by its name alone.
    run("chroot", root, "env", "LD_PRELOAD=libuaio.so.0", "UAIO_STATS=/srv/said",
        "fio", "--version")
    assert not run("chroot", root, "env", "LD_PRELOAD=libuaio.so.0",
                   "true"), "the loader's complaint"


def blob(layout, described):
    path = f"{layout}/blobs/" + described["digest"].replace(":", "/")
    with open(path, "rb") as file:
        data = file.read()
    assert "sha256:" + hashlib.sha256(data).hexdigest() == \
        described["digest"] and len(data) == described["size"], path
    return path


def read(layout, described):
    with open(blob(layout, described)) as file:
        return json.load(file)


def image(context):
    layout = context.box.folder("layout")
    extract(context.file("*-oci.tar"), layout)
    with open(layout + "/oci-layout") as file:
        assert json.load(file)["imageLayoutVersion"] == "1.0.0"
    with open(layout + "/index.json") as file:
        index = read(layout, json.load(file)["manifests"][0])
    images = {entry["platform"]["architecture"]: read(layout, entry)
              for entry in index["manifests"]}
    assert set(images) == {"amd64", "arm64"}, images
    for manifest in images.values():
        read(layout, manifest["config"])
        blob(layout, manifest["layers"][0])
    root = context.root("bookworm")
    extract(copied_by_podman(context), root)
    serve_fio(context, root, "/usr/local/bin/uaio")


def copied_by_podman(context):
    """Podman builds an image of the line for a Dockerfile alone. Return: the image, as
    a tar file of a root."""
    root = context.root("podman")
    for kind, name in (("tmpfs", "run"), ("tmpfs", "tmp"), ("tmpfs", "var/tmp"),
                       ("tmpfs", "var/lib/containers"),
                       ("tmpfs", "dev/shm"), ("sysfs", "sys"),
                       ("cgroup2", "sys/fs/cgroup")):
        os.makedirs(os.path.join(root, name), exist_ok=True)
        run("mount", "-t", kind, kind, os.path.join(root, name))
    install(context, root, "podman")
    with open(root + "/srv/Dockerfile", "w") as file:
        file.write("FROM scratch\n" + line_of_readme(context, "COPY") + "\n")
    run("chroot", root, "sh", "-c", "cd /srv && podman build --tag=made . && "
        "podman create --name=made made nothing && "
        "podman export --output=made.tar made")
    return root + "/srv/made.tar"


def wheel(context):
    root = context.root("bookworm")
    run("chroot", root, "python3", "-m", "venv", "/srv/venv")
    install(context, root, "pip")
    serve_fio(context, root, "/srv/venv/bin/uaio")
    # pip for musl takes the same file.
    shutil.copy(context.file("*x86_64.whl"), root + "/srv")
    run("chroot", root, "/srv/venv/bin/pip", "download", "--no-index",
        "--find-links=/srv", "--only-binary=:all:", "--dest=/srv/taken",
        "--platform=musllinux_1_2_x86_64", "uaio")


def again(context):
    folder = context.box.folder("again") if context.box.is_private else \
        os.path.join(context.kept, "again")
    first = context.release()
    released.make_dist(context.source, folder, released.revision(context.build))
    sums = [open(os.path.join(path, "SHA256SUMS")).read()
            for path in (first, folder + "/dist")]
    print(sums[0])
    assert sums[0] == sums[1], sums[1]


def main():
    build, source, scenario = sys.argv[1:]
    if os.geteuid():
        print("only root can enter another root")
        sys.exit(sandbox.SKIP)
    context = Context(build, source)
    name, _, suite = scenario.partition("-")
    globals()[name](context, *([suite] if suite else []))


main()
