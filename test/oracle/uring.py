#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uring.py BUILD PROGRAM WAY [ARGUMENT...]: unmodified programs of io_uring.

What they wrote is looked at by themselves and from outside. Ways: UringClient in
ways.py. MariaDB is database.py's.
"""
import filecmp
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # leave the source tree clean
import programs  # noqa: E402
import sandbox  # noqa: E402
import ways  # noqa: E402

MIB = programs.MIB
NR_FILES = 10_000
FEW_FILES = 300
COPIED = 8 * MIB
DEADLINE = 60
NODE_DEADLINE = 600  # 15 s where nothing else runs

# fio

DIRECT = ["--direct=1", "--bsrange=4k-64k"]
BUFFERED = ["--bsrange=512-64k"]
VERIFY = ["--verify=crc32c", "--verify_fatal=1", "--randseed=11"]
FIO_KINDS = {
    "plain": [],
    "fixedbufs": ["--fixedbufs"],
    "registerfiles": ["--registerfiles"],
    "sqthread_poll": ["--sqthread_poll"],
    "all": ["--fixedbufs", "--registerfiles", "--sqthread_poll"],
    "vectors": ["--nonvectored=0"],
    "async": ["--force_async=4"],
    "hipri": ["--hipri"],
}


def fio(kind):
    def run(client):
        for io in BUFFERED, DIRECT:
            if kind == "hipri" and io is BUFFERED:
                continue  # polling is for direct requests
            for depth in 1, 32:
                for rw in "write", "randwrite":
                    fio_job(client, kind, rw, depth, io)
    return run


def fio_job(client, kind, rw, depth, io):
    client.run("fio", "--name=job", "--ioengine=io_uring", "--size=4m",
               f"--rw={rw}", f"--iodepth={depth}", *FIO_KINDS[kind], *io,
               *VERIFY)
    client.prove("fio", 2 * (4 * MIB // (64 << 10)))
    os.unlink(client.path("job.0.0"))


# QEMU


def qemu_io(client):
    programs.qemu_io(client, "io_uring")


def qemu_img(client):
    programs.qemu_img(client, "io_uring")


# plocate, which has a group's privilege: a copy has not


def plocate(client):
    tree, database = client.path("tree"), client.path("db")
    paths = [os.path.join(tree, str(i % 100), f"thing-{i}")
             for i in range(NR_FILES)]
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w"):
            pass
    subprocess.run([ways.find("updatedb.plocate"), "-l", "0", "-U", tree,
                    "-o", database], check=True)
    program = client.path("plocate")
    shutil.copyfile(ways.find("plocate"), program)
    os.chmod(program, 0o755)
    for path in paths[:1000]:
        os.unlink(path)
    # What is there still is asked of the file system, file by file.
    output = client.run(program, "-e", "-d", database, "thing-")
    if sorted(output.splitlines()) != sorted(paths[1000:]):
        raise ways.Failed(f"{len(output.splitlines())} paths are found")
    client.prove("plocate", NR_FILES)


# What is not in Debian: node, caio and liburing's bindings


def node(client, script, number=NR_FILES):
    os.mkdir(client.path("files"))
    output = client.run("env", "UV_USE_IO_URING=1", client.in_venv(ways.NODE), script,
                        client.path("files"), str(number), deadline=NODE_DEADLINE)
    if output != f"{number} files\n":
        raise ways.Failed(output)
    client.prove("node", 3 * number)


def node_few(client, script):
    node(client, script, FEW_FILES)


def caio(client, script):
    copy(client, script, 4 * 2 * (COPIED // (8 << 10)))


def liburing(client, script):
    copy(client, script, 3 * (COPIED // (16 << 10)))


def tigerbeetle(client, script):
    for trap in "off", "always":
        output = client.run(client.in_venv("bin/python"), "-I", script,
                            env={"UAIO_TRAP": trap})
        if output != "2 messages of 512 bytes\n":
            raise ways.Failed(output)
        # For each a connect, a receive and a close, and a timer between them.
        client.prove("python", 7)


def copy(client, script, at_least):
    source, target = client.path("source"), client.path("target")
    programs.write_noise(source, COPIED)
    # Isolated: beside the script there are modules that it is not to find.
    client.run(client.in_venv("bin/python"), "-I", script, source, target)
    client.prove("python", at_least)
    if not filecmp.cmp(source, target, False):
        raise ways.Failed("the copy is not the same")


# The own tests of crates, each in a process of its own: some look at a descriptor that
# they have closed, which another thread might have opened again

# Of each crate: what is left out, for it needs no io_uring, or looks at a file in the
# folder of its own source, or fails on the kernel, too; and of each program how many
# tests, and how many requests at least they make together.
MONOIO_LEFT_OUT = re.compile(
    r"\S+ ((?!uring_)"  # on epoll, or whatever there is
    r"|uring_(create_directory_with_permission_issue"  # root has all permissions
    r"|rename_file_without_permission"
    r"|cancel_(read|select)|connect_timeout_dst"  # of hosts on the Internet
    # SO_REUSEPORT of a Unix socket, which Linux 6.18 refuses.
    r"|zero_copy_for_uds|accept_read_write|shutdown)$)")
# An executor of glommio sleeps for good if its timer for preemption expires before the
# executor runs its first task. The tests left out for this set a short timer. The default
# is 100 ms: a busy machine stops a thread for longer, and any test can hang, on the
# kernel, too. Therefore a few tests may hang once and be run again.
MAY_HANG = {"glommio": 3}
GLOMMIO_LEFT_OUT = re.compile(
    r"glommio ((?!channels::(local|shared)_channel|executor::test|iou::registrar"
    r"|io::(buffered|dma)_file|net::|timer::)"  # no io_uring, or a matter of time
    r"|executor::test::(test_(dynamic_shares|shares_\w+|spin|no_spin|runtime_stats)"
    r"|task_(optimized|with_latency)\w+|blocking_function\w*)$"  # of time
    # Not of io_uring.
    r"|executor::test::(blocking_pool_invalid\w+|bind_to_cpu\w+|create_fail_to_bind"
    r"|local_executor_unset_when_panic|spawn_\w+"
    r"|executor_(inception|invalid\w+|pool_builder_\w+))$"
    r"|net::udp_socket::tests::udp_unconnected_(peek|recv|send)$"
    # It gives two executors 100 ms to bind, or they receive nothing and it hangs.
    r"|net::udp_socket::tests::multi_executor_bind_works$"
    r"|io::dma_file::test::(is_same_file|cancellation_\w+|per_queue_stats)$"  # of time
    r"|net::tcp_socket::tests::tcp_connect_timeout_error$"  # of a host on the Internet
    r"|timer::(?!\w+::test::basic_timer_(works|rearm_(future|pending))))")  # of time
# What reads with polling, for which a loop device has no queue: not on the kernel.
POLLS = {"glommio": re.compile(
    r"io::dma_file::test::(copy_file_range|dup|file_many_reads\w*|mirror_\w+"
    r"|resize_dma_buf|send_file_across_threads)$")}
CRATES = {
    "tokio-uring": (re.compile("buf |tokio-server |tokio_uring .*slab_list::"), {
        "driver": (3, 1000),
        "fixed_buf": (4, 16),
        "fs_directory": (2, 2),
        "fs_file": (15, 30),
        "runtime": (2, 0),
        "tokio_uring": (9, 1),
    }),
    "compio": (re.compile("net_cmsg |fs_file metadata$"), {
        "fs_buffer_pool": (2, 2),
        "fs_file": (7, 15),
        "fs_utils": (8, 8),
        "net_buffer_pool": (4, 8),
        "net_poll": (1, 1),
        "net_split": (3, 6),
        "net_tcp_accept": (5, 10),
        "net_tcp_connect": (10, 10),
        "net_udp": (3, 6),
        "net_unix_stream": (2, 4),
    }),
    "monoio": (MONOIO_LEFT_OUT, {
        "buf_writter": (1, 1),
        "fs_create_dir": (8, 100),
        "fs_file": (8, 20),
        "fs_metadata": (3, 3),
        "fs_rename": (4, 4),
        "fs_unlink": (2, 2),
        "tcp_accept": (5, 20),
        "tcp_connect": (8, 20),
        "tcp_echo": (3, 1000),
        "tcp_into_split": (3, 3),
        "tcp_split": (1, 1),
        "udp": (4, 16),
        "uds_cred": (1, 1),
        "uds_split": (1, 1),
        "unix_datagram": (2, 2),
        "unix_seqpacket": (1, 1),
        "zero_copy": (1, 1),
    }),
    "glommio": (GLOMMIO_LEFT_OUT, {
        "glommio": (188, 1000),
    }),
}
SERVERS = {"built", "tokio-server"}


def crate(name):
    left_out, programs_due = CRATES[name]

    def run(client):
        folder = client.fetched("crate", name)
        nr_run = {}
        nr_hung = 0
        for program in sorted(set(os.listdir(folder)) - SERVERS):
            path = os.path.join(folder, program)
            listed = subprocess.check_output([path, "--list"], text=True)
            tests = [test for test in re.findall("^(.*): test$", listed, re.M)
                     if not left_out.match(f"{program} {test}")]
            for test in tests:
                if client.way == "kernel" and polls(name, test):
                    continue
                try:
                    crate_test(client, path, test)
                except ways.Hung:
                    nr_hung += 1
                    if nr_hung > MAY_HANG.get(name, 0):
                        raise
                    print(f"{test} hangs and is run again", flush=True)
                    crate_test(client, path, test)
            if tests:
                nr_run[program] = len(tests)
                client.prove(program, programs_due[program][1])
        if nr_run != {each: nr for each, (nr, _) in programs_due.items()}:
            raise ways.Failed(f"tests that were run: {nr_run}")
    return run


def polls(name, test):
    return name in POLLS and POLLS[name].match(test)


def crate_test(client, program, test):
    command = ["env", "TMPDIR=" + client.place, program, "--exact", test]
    client.run(*command)
    if client.way != "kernel":
        return
    status, _ = sandbox.run(client.box.deny_uring("ENOSYS", *command),
                            DEADLINE, cwd=client.place)
    if status == 0:
        raise ways.Failed(f"{test} passes without io_uring: it proves nothing")


# A filter, without uaio: does it refuse what the others are run without?


def refused(client):
    for engine, is_refused in ("io_uring", True), ("libaio", False):
        status, output = sandbox.run(
            client.box.deny_uring(client.way, ways.find("fio"), "--name=job",
                                  f"--ioengine={engine}", "--size=64k",
                                  "--rw=write"),
            DEADLINE, cwd=client.place)
        if (status != 0) != is_refused or \
                ("Operation not permitted" in output) != is_refused:
            raise ways.Failed(f"{engine}: {status}\n{output}")


PROGRAMS = {
    **{"fio-" + kind: fio(kind) for kind in FIO_KINDS},
    "qemu-io": qemu_io,
    "qemu-img": qemu_img,
    "plocate": plocate,
    "node": node,
    "node-few": node_few,
    "caio": caio,
    "liburing": liburing,
    "tigerbeetle": tigerbeetle,
    **{name: crate(name) for name in CRATES},
    "refused": refused,
}

if __name__ == "__main__":
    sys.exit(ways.main(__doc__, PROGRAMS, ways.UringClient))
