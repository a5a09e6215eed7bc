#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""programs.py BUILD PROGRAM WAY [ARGUMENT...]: unmodified programs on uaio.

What they wrote is read back by themselves, and looked at from outside: they
could be wrong in the same way both times. Ways: see ways.py.
"""
import filecmp
import hashlib
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # leave the source tree clean
import ways  # noqa: E402

DEADLINE = 60
MIB = 1 << 20
PART = 128 << 10  # of what is written, so much is read at a time
QEMU_REQUESTS = 16
COMM_BYTES = 15  # of its name, the kernel keeps of a process
CALLS = {"x86_64": {"io_submit": 209, "read": 0},
         "aarch64": {"io_submit": 2, "read": 63}}


def stress_ng(client):
    """Writes, reads, vectors and polls of O_DIRECT files, some of them refused,
    one at a time and many. It fails when a call or a request does, and when
    one is lost; versions that compare data do so for --verify, 0.15 does not."""
    for requests in 1, 16, 128:
        output = client.run(
            "stress-ng", "--aiol", "1", "--verify", "--aiol-ops", "300",
            "--aiol-requests", str(requests), "--temp-path", client.place)
        if "successful run completed" not in output:
            raise ways.Failed(output)
        # Two thirds of what it counts as operations are batches of requests.
        client.prove("stress-ng-aiol", 200 * requests)
    client.prove_backend()


def qemu_io(client, aio="native"):
    """Patterns by requests in flight together, read back by the same process and, in
    parts that the library may leave to the kernel, by another; a ring that qemu
    reaps itself."""
    image = client.path("image")
    with open(image, "wb") as file:
        file.truncate(64 * MIB)
    extents = [(i * 3 * MIB, (i % 4 + 1) * 256 << 10, 0x11 + i)
               for i in range(16)]
    parts = [(at, PART, byte) for start, length, byte in extents
             for at in range(start, start + length, PART)]
    qemu_io_run(client, aio, image, ("aio_write", extents), ("aio_read", extents))
    qemu_io_run(client, aio, image, ("aio_read", parts))
    client.prove_backend()
    with open(image, "rb") as file:
        data = file.read()
    expected = bytearray(len(data))
    for start, length, byte in extents:
        expected[start:start + length] = bytes([byte]) * length
    if data != expected:
        raise ways.Failed("the image is not what was written to it")


def qemu_io_run(client, aio, image, *batches):
    commands = []
    for command, extents in batches:
        commands += [f"{command} -q -P {byte} {start} {length}"
                     for start, length, byte in extents]
        commands.append("aio_flush")
    output = client.run("qemu-io", "-i", aio, "--nocache", "-f", "raw",
                        *(word for each in commands for word in ("-c", each)),
                        image)
    # qemu-io prints what does not match, and exits with 0 nevertheless.
    if output:
        raise ways.Failed(output)
    client.prove("qemu-io", sum(len(extents) for _, extents in batches))


def qemu_system(client):
    """Run a whole virtual machine monitor behind all of libvirt's filters of system
    calls, which kill. The virtual machine has no processor: only its monitor writes
    and reads the disk, with many requests in flight. It must end by `quit`."""
    image, script = client.path("disk"), client.path("script")
    with open(image, "wb") as file:
        file.truncate(QEMU_REQUESTS * MIB)
    with open(script, "w") as file:
        file.writelines(json.dumps(command) + "\n"
                        for command in qemu_script())
    output = client.run(
        "qemu-system-x86_64", "-machine", "none", "-nodefaults",
        "-display", "none", "-accel", "tcg", "-m", "16",
        "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,"
        "resourcecontrol=deny",
        "-blockdev", f"driver=file,filename={image},aio=native,"
        "cache.direct=on,node-name=disk", "-qmp", "stdio", stdin=script)
    check_replies(output)
    client.prove("qemu-system-x86", (1 + MIB // PART) * QEMU_REQUESTS)
    client.prove_backend()
    if read(image) != b"".join(bytes([i + 1]) * MIB
                               for i in range(QEMU_REQUESTS)):
        raise ways.Failed("the disk is not what was written to it")


def qemu_script():
    """The commands for the monitor. A synchronous read waits for its data, so that
    everything is done before the end. aio_flush waits for the requests in flight. The
    reads are of parts that the library may leave to the kernel."""
    def io(command):
        return {"execute": "human-monitor-command", "arguments": {
            "command-line": f'qemu-io disk "{command}"'}}

    extents = [f"{i + 1} {i}M 1M" for i in range(QEMU_REQUESTS)]
    parts = [f"{at // MIB + 1} {at} {PART}"
             for at in range(0, QEMU_REQUESTS * MIB, PART)]
    return [{"execute": "qmp_capabilities"},
            *(io(f"aio_write -q -P {extent}") for extent in extents),
            io("aio_flush"),
            *(io(f"read -q -P {part}") for part in parts),
            {"execute": "quit"}]


def check_replies(output):
    """Check that each command was answered without an error message. Data that does not
    match is reported between the answers."""
    if any(not line.startswith("{") for line in output.splitlines()):
        raise ways.Failed(output)
    replies = [json.loads(line) for line in output.splitlines()]
    answers = [reply["return"] for reply in replies if "return" in reply]
    if any("error" in reply for reply in replies) or \
            any(answers) or len(answers) != len(qemu_script()):
        raise ways.Failed(output)


def qemu_img(client, aio="native"):
    """An image to another format and back; then writes at full depth."""
    file = f"file.driver=file,file.aio={aio},file.cache.direct=on"

    def image(kind, name):
        return f"driver={kind},{file},file.filename={client.path(name)}"

    def convert(source, target):
        client.run("qemu-img", "convert", "-n", "-W", "-m", "16", "-t", "none",
                   "-T", "none", "--image-opts", "--target-image-opts",
                   source, target)
        client.prove("qemu-img", 32)

    write_noise(client.path("disk"), 64 * MIB)
    client.run("qemu-img", "create", "-q", "-f", "qcow2",
               client.path("qcow2"), str(64 * MIB))
    client.run("qemu-img", "create", "-q", "-f", "raw", client.path("back"),
               str(64 * MIB))
    convert(image("raw", "disk"), image("qcow2", "qcow2"))
    convert(image("qcow2", "qcow2"), image("raw", "back"))
    if not filecmp.cmp(client.path("disk"), client.path("back"), False):
        raise ways.Failed("the image that came back is not the one that left")
    client.run("qemu-img", "bench", "-i", aio, "-t", "none", "-f", "raw",
               "-w", "--pattern=0x5a", "-c", "16000", "-d", "64", "-s", "4096",
               client.path("back"))
    client.prove("qemu-img", 16000)
    client.prove_backend()
    with open(client.path("back"), "rb") as back:
        if back.read(16000 * 4096).strip(b"\x5a"):
            raise ways.Failed("not every block was written")


def copy(client, program):
    """examples/copy.cc: files of awkward lengths, and one that is not there."""
    for length in 0, 1, 4096, 5 * MIB + 123:
        write_noise(client.path("from"), length)
        client.run(program, client.path("from"), client.path("to"))
        client.prove("copy", length // (256 << 10) * 2)
        if not filecmp.cmp(client.path("from"), client.path("to"), False):
            raise ways.Failed(f"a copy of {length} bytes is not the same")
    refuse(client, program, client.path("missing"), client.path("to"))


def checksum(client, program):
    """examples/checksum.py: the same digest as by plain reads."""
    for length in 0, 1, 4096, 5 * MIB + 123:
        write_noise(client.path("file"), length)
        with open(client.path("file"), "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        output = client.run(sys.executable, program, client.path("file"))
        client.prove(os.path.basename(sys.executable)[:COMM_BYTES],
                     length // (128 << 10))
        if output != f"{digest}  {client.path('file')}\n":
            raise ways.Failed(f"of {length} bytes: {output}, not {digest}")
    refuse(client, sys.executable, program, client.path("missing"))


def filter_file(client, program):
    """examples/filter.c: a command's output is the file's, in capitals. On the
    kernel, which waits for a pipe in io_submit, it must hang: else it would
    be no example of what only uaio can do."""
    upper = "tr", "a-z", "A-Z"
    if client.way == "kernel":
        write_noise(client.path("from"), 4096)
        hang_in_submit(client, program, client.path("from"),
                       client.path("to"), *upper)
        return
    for length in 0, 1, 4096, 5 * MIB + 123:
        write_noise(client.path("from"), length)
        data = read(client.path("from"))
        client.run(program, client.path("from"), client.path("to"), *upper)
        client.prove("filter", length // (64 << 10) * 4, parked=1)
        if read(client.path("to")) != data.upper():
            raise ways.Failed(f"{length} bytes are not as they should be")
    # A command that does not read all of its input.
    client.run(program, client.path("from"), client.path("to"),
               "head", "-c", "100000")
    client.prove("filter", 2, parked=1)
    if read(client.path("to")) != data[:100000]:
        raise ways.Failed("the beginning is not as it should be")
    refuse(client, program, client.path("missing"), client.path("to"), *upper)


def hang_in_submit(client, program, *arguments):
    """Check that the program waits in io_submit for its child, which in turn waits for
    input from the program. Then kill the program; the child finds the end of its
    input."""
    with subprocess.Popen([program, *arguments], cwd=client.place,
                          env={**os.environ, **client.env()}) as process:
        try:
            end = time.monotonic() + DEADLINE
            # In io_submit it may wait for the disk, too, but not for ever.
            while not stays_in_submit(process):
                if time.monotonic() > end:
                    raise ways.Failed("goes on after a while in io_submit")
        finally:
            process.kill()
    client.prove(os.path.basename(program), 0)
    print("waits for ever in io_submit")


def stays_in_submit(process):
    """Return: whether the program and its child, once both sleep, sleep on for a second."""
    await_submit(process)
    pids = process.pid, child_of(process.pid)
    before = [switches_of(pid) for pid in pids]
    time.sleep(1)
    return [switches_of(pid) for pid in pids] == before


def await_submit(process):
    """Wait until the program is in io_submit and its child in read()."""
    calls = CALLS[os.uname().machine]
    end = time.monotonic() + DEADLINE
    while not (child := child_of(process.pid)) or \
            call_of(process.pid) != calls["io_submit"] or \
            call_of(child) != calls["read"]:
        if process.poll() is not None:
            raise ways.Failed(f"ends with {process.returncode}")
        if time.monotonic() > end:
            raise ways.Failed("does not wait in io_submit")
        time.sleep(0.01)


def child_of(pid):
    """A child of that process, which has one thread; None if it has none."""
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        return next(iter(children.read().split()), None)


def call_of(pid):
    """The number of the system call the process sleeps in; None if it runs."""
    try:
        with open(f"/proc/{pid}/syscall") as file:
            word = file.read().split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(word) if word != "running" else None


def switches_of(pid):
    """The process's context switches: the count does not change while it sleeps."""
    with open(f"/proc/{pid}/status") as status:
        return [line for line in status if "ctxt_switches" in line]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def refuse(client, *command):
    """An example that cannot do its work must print the reason, in one line."""
    try:
        client.run(*command)
    except ways.Failed as failed:
        said = str(failed).splitlines()
        if said[1] == "exits with 1:" and len(said) == 3 and \
                "No such file or directory" in said[2]:
            return
        raise
    raise ways.Failed(f"{' '.join(command)} succeeds")


def write_noise(path, length):
    """Write a file whose parts all differ, so that misplaced data is noticed."""
    with open(path, "wb") as file:
        file.write(hashlib.shake_128(b"noise").digest(length))
        os.fsync(file.fileno())


PROGRAMS = {
    "stress-ng": stress_ng,
    "qemu-io": qemu_io,
    "qemu-img": qemu_img,
    "qemu-system": qemu_system,
    "copy": copy,
    "checksum": checksum,
    "filter": filter_file,
}

if __name__ == "__main__":
    sys.exit(ways.main(__doc__, PROGRAMS))
