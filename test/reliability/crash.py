#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""crash.py BUILD [uaio|kernel] [--seed S] [--seconds N]: what was reported durable stays.

A client writes records to a file system that loses what was not synced
(crash-server.c), and notes which of them were reported durable (crash-client.c). It is
killed with a random write or sync, before or after that is carried out, or a moment
later; the file system fails at the same time, or only after the client's requests are
answered. Then each record that was reported durable has to be there, or a newer one. The
next client goes on with what is left.

The clients use kernel AIO, io_uring and POSIX AIO, buffered and with O_DIRECT, on the file
and on a loop device over it, by the library with each of its backends in turn; or by the
kernel and the C library, which proves the test.
"""
import argparse
import ctypes
import itertools
import mmap
import os
import random
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # leave the source tree clean
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "oracle"))
import sandbox  # noqa: E402

DEADLINE_S = 60  # of a round, which takes some 30 ms
FRESH_EVERY = 12  # rounds, on average: then the file is empty, and grows

# Also of the library, some of the time: the client's thread executes nothing.
OPTIONS = (), (), ("--force-worker",)
DOORS = "kernel AIO", "io_uring", "POSIX AIO"  # enum crash_door
BACKENDS = "auto", "threads", "aio", "io_uring"
SLOTS, SLOT_BYTES, WRITE_SLOTS = 64, 4096, 8
RECORD = struct.Struct(f"={SLOT_BYTES // 8}Q")
DEPTH_MAX = 12
END_AT_MAX = 128
END_AFTER_US_MAX = 3000
ENDS = 3  # enum crash_end

MNT_DETACH = 2
MS_NOSUID_NODEV = 2 | 4
SILENT_MAX = 100
"""How many clients may report nothing, one after another."""
LIVE_FILES_MAX = 1024  # src/live/live.h limits their number
LIBC = ctypes.CDLL(None, use_errno=True)


class Lost(Exception):
    """Something that must not happen; the text says what."""


class State(ctypes.Structure):
    """struct crash_state"""
    _fields_ = [
        *((name, ctypes.c_uint32) for name in (
            "seed", "door", "open_flags", "depth", "is_uncached", "writes_back",
            "write_bytes", "end", "end_at", "end_after_us", "is_power_on",
            "has_ended", "bytes", "pid", "version", "nr_requests",
            "nr_kernel_aio", "nr_io_uring")),
        ("submitted", ctypes.c_uint32 * SLOTS),
        ("reported", ctypes.c_uint32 * SLOTS),
        ("image", ctypes.c_ubyte * (SLOTS * SLOT_BYTES)),
    ]


def succeed(result, what):
    if result:
        raise OSError(ctypes.get_errno(), what)


class Mounted:
    """The file system, with the server that answers for it.

    The client writes to `target`: its file, or a loop device over that, of which the
    kernel executes more requests by itself.
    """

    def __init__(self, place, program, state, is_device):
        device = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
        self.place = place.encode()
        succeed(LIBC.mount(
            b"crash", self.place, b"fuse", ctypes.c_ulong(MS_NOSUID_NODEV),
            f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()),
            "mount")
        self.server = subprocess.Popen([program, state, str(device)],
                                       stdin=subprocess.PIPE,
                                       pass_fds=[device])
        os.close(device)
        self.target, self.loop = os.path.join(place, "records"), None
        if is_device:
            with open(self.target, "r+b", buffering=0) as records:
                self.loop = sandbox.attach_loop(records)
            self.target = self.loop.name

    def end(self):
        if self.loop:
            self.loop.close()
        self.server.stdin.close()
        status = self.server.wait()
        succeed(LIBC.umount2(self.place, MNT_DETACH), "umount")
        if status:
            raise Lost(f"the file system ends with {status}")


class Kills:
    """All rounds, and their counts."""

    def __init__(self, box, way, seed):
        self.box, self.way, self.seed = box, way, seed
        self.server, self.client = (
            os.path.join(box.build, "test", "reliability", name)
            for name in ("crash-server", "crash-client"))
        # The pages of counts that killed processes leave are no concern of others.
        box.mount_tmpfs("/dev/shm")
        self.place = box.folder("records")
        self.path = os.path.join(box.dir, "state")
        with open(self.path, "w+b") as file:
            file.truncate(ctypes.sizeof(State))
            self.memory = mmap.mmap(file.fileno(), ctypes.sizeof(State))
        self.state = State.from_buffer(self.memory)
        self.nr = self.nr_lost = self.nr_reported = 0
        self.nr_requests = self.nr_kernel_aio = self.nr_io_uring = 0
        self.ways = list(itertools.product(*self.choices()))
        random.Random(seed).shuffle(self.ways)

    def choices(self):
        """The choices for a round: front-ends, backends, flags of the descriptors, and
        whether the descriptors are of a device."""
        doors = list(range(len(DOORS)))
        if self.way == "kernel":
            doors = [door for door, is_there in zip(doors, (
                self.box.has_kernel_aio(), self.box.has_kernel_uring(), True))
                if is_there]
        return (doors, BACKENDS if self.way == "uaio" else (None,),
                (0, os.O_DIRECT), (False, True))

    def plan(self):
        """Choose the next round. Return: whether it is on a device, the options of the
        library, and a description."""
        chance = random.Random(f"{self.seed} {self.nr}")
        door, backend, flags, is_device = self.ways[self.nr % len(self.ways)]
        state = self.state
        if not chance.randrange(FRESH_EVERY):
            ctypes.memset(ctypes.addressof(state), 0, ctypes.sizeof(State))
        if is_device:
            state.bytes = SLOTS * SLOT_BYTES
        state.seed = chance.getrandbits(32)
        state.door = door
        state.open_flags = flags | chance.choice(
            (0, 0, 0, 0, os.O_DSYNC, os.O_SYNC))
        state.depth = chance.randint(1, DEPTH_MAX)
        state.is_uncached = chance.randrange(2)
        state.writes_back = chance.randrange(2)
        state.write_bytes = SLOT_BYTES * chance.choice((1, 3, WRITE_SLOTS))
        state.end = chance.randrange(ENDS)
        # Early as often as late.
        state.end_at = int(END_AT_MAX ** chance.random())
        state.end_after_us = chance.randrange(END_AFTER_US_MAX)
        state.is_power_on = chance.randrange(2)
        state.has_ended = state.pid = 0
        state.nr_requests = state.nr_kernel_aio = state.nr_io_uring = 0
        options = (f"--backend={backend}", "--uring=always",
                   *chance.choice(OPTIONS)) if backend else ()
        return is_device, options, (
            f"kill {self.nr + 1}: {DOORS[door]}, {shlex.join(options) or self.way}, "
            f"{'device' if is_device else 'file'}, flags {state.open_flags:#o}, "
            f"uncached {state.is_uncached}, writes back {state.writes_back}, "
            f"end {state.end} at {state.end_at}, power on {state.is_power_on}")

    def run(self):
        """One round."""
        is_device, options, words = self.plan()
        signal.alarm(DEADLINE_S)
        try:
            mounted = Mounted(self.place, self.server, self.path, is_device)
            command = [self.client, self.path, mounted.target]
            if options:
                command = self.box.uaio(*command, options=options)
            self.live_and_die(command)
            mounted.end()
            signal.alarm(0)
            self.nr += 1
            self.check()
        except Lost as what:
            raise Lost(f"{words}: {what}") from None

    def live_and_die(self, command):
        """Run the client, which has to be killed."""
        with tempfile.TemporaryFile(dir=self.box.dir) as log:
            status = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                      stdout=log, stderr=log).wait()
            log.seek(0)
            if status != -signal.SIGKILL:
                raise Lost(f"the client ends with {status}: "
                           f"{log.read().decode(errors='replace').strip()}")

    def version_of(self, slot):
        """Return: the version of the record in the image; 0 if there is none. If a write
        was in flight, the record may have words of several versions: return the
        oldest."""
        if (slot + 1) * SLOT_BYTES > self.state.bytes:
            return 0
        begin = State.image.offset + slot * SLOT_BYTES
        record = self.memory[begin:begin + SLOT_BYTES]
        words = {*RECORD.unpack(record)}
        versions = [word >> 32 for word in words]
        if any(word and word & 0xffffffff != slot for word in words) or \
                max(versions) > self.state.submitted[slot]:
            raise Lost(f"slot {slot} has what was never written there: "
                       f"{record[:16].hex()}")
        return min(versions)

    def check(self):
        """Check that what was reported durable is there. The next round starts from what
        is there."""
        state, complaints = self.state, []
        for slot in range(SLOTS):
            there, reported = self.version_of(slot), state.reported[slot]
            if there < reported:
                complaints.append(f"slot {slot} has version {there}, and "
                                  f"{reported} was reported durable")
            # What has survived has to survive the next time.
            state.reported[slot] = there
            self.nr_reported += reported > 0
        self.nr_requests += state.nr_requests
        self.nr_kernel_aio += state.nr_kernel_aio
        self.nr_io_uring += state.nr_io_uring
        self.nr_lost += len(complaints)
        if complaints:
            raise Lost("; ".join(complaints))

    def check_left(self):
        """Check the limit on what killed processes leave in memory."""
        nr = sum(len(files) for _, _, files in os.walk("/dev/shm"))
        if nr > LIVE_FILES_MAX:
            raise Lost(f"{nr} files are left in /dev/shm")
        if not self.nr_reported:
            raise Lost("nothing was reported durable")


def run_for(kills, seconds):
    def is_late(*_):
        raise Lost(f"the client lives after {DEADLINE_S} s")

    signal.signal(signal.SIGALRM, is_late)
    end = time.monotonic() + seconds
    # A client that is killed at once has reported nothing.
    while time.monotonic() < end or (not kills.nr_reported and
                                     kills.nr < SILENT_MAX):
        kills.run()
    kills.check_left()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", metavar="BUILD")
    parser.add_argument("way", nargs="?", default="uaio",
                        choices=("uaio", "kernel"))
    parser.add_argument("--seed", type=int, default=None, metavar="S")
    parser.add_argument("--seconds", type=float, default=2, metavar="N")
    args = parser.parse_args()
    box = sandbox.Sandbox(args.build)
    if not box.is_private or not os.path.exists("/dev/fuse"):
        print("no file system can be mounted")
        return sandbox.SKIP
    seed = time.time_ns() % 1000000007 if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    kills = Kills(box, args.way, seed)
    failed = False
    try:
        run_for(kills, args.seconds)
    except Lost as what:
        failed = True
        replay = shlex.join(["python3", "-B", sys.argv[0], args.build, args.way,
                             "--seed", str(seed), "--seconds",
                             str(args.seconds)])
        print(f"failed: {what}\nreplay: {replay}", file=sys.stderr, flush=True)
    print(f"{kills.nr_requests} requests, of which the kernel's AIO executed "
          f"{kills.nr_kernel_aio} and its io_uring {kills.nr_io_uring}")
    print(f"counted {kills.nr} kills: {kills.nr_lost} lost", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
