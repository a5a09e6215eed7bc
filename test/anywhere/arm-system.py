#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""arm-system.py BUILD SUITE[:FLAVOUR] TEST...: tests of this tree on a kernel for arm64.

Debian's kernel of that suite and flavour, for example trixie:16k whose pages have
16384 bytes, is booted by qemu-system-aarch64 with Debian's arm64 root (cross.py) and what
arm-init mounts. There are `uaio doctor`, fio by three interfaces (arm-guest.py) and what is
asked for: TEST is the sentence of a test, or @SUITE for all of a suite. A
test that says that this kernel has not what it needs is skipped, and listed.
"""
import fcntl
import lzma
import os
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # leave the source tree clean
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "kernels"))
import cross  # noqa: E402
import guests  # noqa: E402

# Those that these need, they name.
MODULES = ("crc32c_generic", "9p", "9pnet_virtio", "virtio_blk", "ext4", "overlay", "loop")
SOURCE = os.path.realpath(os.path.join(HERE, "..", ".."))
FOLDERS = ("bin", "dev", "layers", "modules", "proc", "root", "sys")
DEADLINE = 6000
PRODUCT = ("libuaio.so.0", "libaio.so.1", "libaio.so.1t64", "uaio", "bench/deny-aio",
           "test/unit/patch-module.so")
PYTHON = "/usr/bin/python3"
SLOWNESS = 30  # of the emulator, on a busy machine
ENGINES = ("libaio", "io_uring", "posixaio")


def read_module(path):
    with open(path, "rb") as file:
        data = file.read()
    return lzma.decompress(data) if path.endswith(".xz") else data


def modules(root):
    """MODULES and what they need, each after what it needs: [(name, content)]."""
    paths, loaded = {}, {}
    for top, _, files in os.walk(os.path.join(root, "usr", "lib", "modules")):
        for file in files:
            name, dot, _ = file.partition(".ko")
            if dot:
                paths[name.replace("-", "_")] = os.path.join(top, file)

    def add(name):
        if name in loaded or name not in paths:  # not there: in the kernel
            return
        content = read_module(paths[name])
        needs = re.search(rb"\0depends=([^\0]*)\0", content).group(1).decode()
        for need in needs.replace("-", "_").split(","):
            add(need)
        loaded[name] = content

    for name in MODULES:
        add(name)
    return loaded.items()


def make_first_root(place, kernel_root, root):
    """What the kernel unpacks into memory: arm-init, and what that needs."""
    top = os.path.join(place, "first")
    shutil.rmtree(top, ignore_errors=True)
    for folder in FOLDERS:
        os.makedirs(os.path.join(top, folder))
    for i, (name, content) in enumerate(modules(kernel_root)):
        with open(os.path.join(top, "modules", f"{i:02}-{name}.ko"), "wb") as file:
            file.write(content)
    shutil.copy(os.path.join(root, "bin", "busybox"), os.path.join(top, "bin"))
    shutil.copy(os.path.join(HERE, "arm-init"), os.path.join(top, "init"))
    archive = os.path.join(place, "first.cpio")
    with open(archive, "wb") as file:
        subprocess.run("find . | cpio --quiet -o -H newc", shell=True, check=True,
                       cwd=top, stdout=file)
    return archive


def share(path, tag, *options):
    return ["-virtfs", ",".join((f"local,path={path}", f"mount_tag={tag}",
                                 "security_model=none", "multidevs=remap", *options))]


def boot(build, kernel, root, orders):
    """Run the guest to its end. Return: its results, and the end of its console."""
    suite, _, flavour = kernel.partition(":")
    name = "-".join(filter(None, ("arm64", flavour)))
    kernel_root = cross.fetch(build, SOURCE, suite, f"{suite}-{name}",
                              "linux-image-" + name)
    place = os.path.join(build, "anywhere", f"{suite}-{name}")
    [image] = [file for file in os.listdir(os.path.join(kernel_root, "boot"))
               if file.startswith("vmlinu")]
    first = make_first_root(place, kernel_root, root)
    results = os.path.join(place, "results")
    guests.give(results, orders)
    disk = os.path.join(place, "disk")
    guests.make_disk(disk)
    lines, console = guests.run_to_end([
        # The emulator goes with this process.
        "setpriv", "--pdeathsig", "KILL", "qemu-system-aarch64",
        "-M", "virt", "-cpu", "neoverse-n1", "-smp", "2", "-m", "2G", "-accel",
        "tcg,thread=multi", "-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio",
        "-monitor", "none", "-kernel", os.path.join(kernel_root, "boot", image),
        "-initrd", first,
        "-append", f"console=ttyAMA0 quiet panic=-1 SOURCE={SOURCE} "
        f"BUILD={orders['build']}",
        "-drive", f"file={disk},format=raw,cache=unsafe,if=none,id=disk",
        "-device", "virtio-blk-pci,drive=disk",
        *share(root, "root", "readonly=on"), *share(SOURCE, "source", "readonly=on"),
        *share(orders["build"], "build", "readonly=on"), *share(results, "results"),
    ], DEADLINE, results)
    os.unlink(disk)
    return lines, console


def needed(made, tests):
    """What these tests are called with that is made by the build."""
    words = {word for test in tests for word in test["cmd"]}
    return sorted(os.path.relpath(word, made) for word in words
                  if word.startswith(made + "/") and not os.path.isdir(word))


def fio(made, engine):
    return {
        "name": f"fio by {engine}",
        "cmd": [PYTHON, "-B", os.path.join(HERE, "arm-guest.py"), made, engine],
        "env": {}, "workdir": None, "timeout": 60, "is_parallel": True,
    }


def main():
    build, kernel, *wanted = sys.argv[1:]
    build = os.path.realpath(build)
    root = cross.fetch_root(build, SOURCE)
    made = cross.make(build, SOURCE, "build.ninja")  # whose list of tests is read
    tests = [guests.doctor(made), *(fio(made, engine) for engine in ENGINES),
             *guests.chosen(made, wanted)]
    cross.make(build, SOURCE, *PRODUCT, *needed(made, tests))
    for test in tests:
        test["timeout"] *= SLOWNESS
        if os.path.basename(test["cmd"][0]).startswith("python"):
            test["cmd"][0] = PYTHON
    environment = {"PATH": "/usr/sbin:/usr/bin", "HOME": "/tmp", "TMPDIR": "/tmp",
                   "SANDBOX_IMAGES": "/tmp"}
    lock = open(os.path.join(build, "anywhere", "arm-system.lock"), "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    start = time.monotonic()
    lines, console = boot(build, kernel, root, {
        "build": made, "tests": tests, "environment": environment})
    if lines:
        kernel = f"Linux {lines[0]['release']}, pages of {lines[0]['page']} bytes"
    return guests.conclude(kernel, tests, lines, console, start)


if __name__ == "__main__":
    sys.exit(main())
