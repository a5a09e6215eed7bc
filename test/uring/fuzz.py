#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fuzz.py --fuzz PROGRAM --uaio COMMAND [--seeds FILE] [--worlds N] [--seed S]

The kernel's io_uring and the library's are given the same random requests (fuzz.c),
world by world. What they make of each is compared line by line: results and flags, the
memory, and what is in files, pipes and sockets at the end. A difference that no rule
below names is a fault.

Some of what a line says depends on how long a thread took to come, so a world that
differs is played again, with more patience, before it counts. Worlds that have found
something are in fuzz-seeds.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

PATIENCES_US = [5000, 300000, 3000000]
DEADLINE_S = 1200
CHUNK = 200  # worlds of one process

# What the places in a world are (fuzz-world.c).
PIPES = range(6, 10)
EVENTFDS = (23, 24)
EPOLLS = (25, 26)
RW = (1, 2, 4, 5, 22, 23, 60, 61)
SOCKET_OPS = (9, 10, 13, 16, 26, 27, 34, 46, 56, 57)


class Request:
    """One of a line: what was asked, what the kernel answered, what we did."""

    def __init__(self, text, theirs, ours, is_last):
        words = text.split()
        fields = dict(zip(words[::2], words[1::2]))
        self.opcode = int(fields['op'])
        self.flags = int(fields['flags'], 0)
        self.fd = int(fields['fd'])
        self.rw_flags = int(fields['rw'], 0)
        self.ioprio = int(fields['ioprio'], 0)
        self.bytes = int(fields['len'], 0)
        self.is_fixed = bool(self.flags & 1)
        self.is_last = is_last
        self.theirs = theirs
        self.ours = ours


# The errors that say what is wrong with a request.
MISTAKES = {'EINVAL', 'EBADF', 'EFAULT', 'EOPNOTSUPP', 'ENOTSOCK', 'ESPIPE', 'ERANGE', 'ENOBUFS',
            'EISDIR', 'ENOENT', 'E2BIG', 'ENOPROTOOPT', 'ENOTDIR', 'EPERM', 'EDESTADDRREQ',
            'ENOTCONN', 'EACCES', 'EXDEV', 'ENODATA', 'EOVERFLOW', 'ENXIO', 'EADDRINUSE',
            'EAFNOSUPPORT', 'EISCONN', 'EPROTONOSUPPORT', 'ENOTEMPTY', 'EEXIST', 'EBUSY',
            'ELOOP', 'ENODEV', 'ENOMEM', 'EPROTOTYPE', 'ESOCKTNOSUPPORT', 'EALREADY', 'EDOM', 'ENAMETOOLONG', 'EFBIG',
            'EPIPE', 'EBADFD'}


def is_mistake(result):
    return result.split(':')[0] in MISTAKES


def is_never_tried(request):
    """It is to be polled first, and must not wait."""
    both = (request.theirs, request.ours)
    return request.opcode in SOCKET_OPS and bool(request.ioprio & 1) and (
        'EAGAIN:0' in both and any(is_mistake(one) for one in both))


def two_mistakes(request):
    """A request with more than one mistake is refused for another of them"""
    return is_never_tried(request) or (
        is_mistake(request.theirs) and is_mistake(request.ours))


def broken_chain(request):
    """A mistake is found before the one before it in a chain ends, or after"""
    both = {request.theirs.split(':')[0], request.ours.split(':')[0]}
    return 'ECANCELED' in both and bool(both & MISTAKES)


def read_of_an_epoll(request):
    """A read or write of an epoll, which fails: the kernel waits until it is ready"""
    return request.opcode in RW and (request.fd in EPOLLS or request.is_fixed) and (
        request.theirs == 'waits' and is_mistake(request.ours))


def write_of_an_eventfd(request):
    """A write to an eventfd that is full, or of no bytes: the kernel waits, or does nothing"""
    return request.opcode in (2, 23, 5, 61) and (
        request.fd in EVENTFDS or request.is_fixed) and (
        request.theirs in ('waits', '0:0') and re.match('EINVAL|EAGAIN|EFAULT', request.ours))


def open_chain(request):
    """The last of a submission is linked to nothing: a thread of the kernel's executes it,
    which does not wait for a file that is O_NONBLOCK, nor after POLL_FIRST"""
    return request.is_last and bool(request.flags & 0xc) and (
        request.theirs.startswith('EAGAIN:') or
        (request.opcode in (1, 2, 5, 13, 22, 23, 60, 61) and request.theirs == 'waits'))


def poll_first(request):
    """What is to be polled first fails at once: the kernel waits until the file is ready"""
    return request.opcode in SOCKET_OPS and bool(request.ioprio & 5) and (
        request.theirs == 'waits' and is_mistake(request.ours))


def accepts_in_a_thread(request):
    """With IOSQE_ASYNC a socket that does not listen is asked when it is ready"""
    return request.opcode == 13 and bool(request.flags & 0x10) and (
        is_mistake(request.theirs) and request.ours == 'waits')


def socket_has_more(request):
    """A completion does not say that a socket has more to receive"""
    theirs, ours = request.theirs.split(':'), request.ours.split(':')
    return request.opcode in (10, 13, 27) and theirs[0] == ours[0] and (
        len(theirs) == len(ours) == 2 and int(theirs[1], 0) == int(ours[1], 0) | 4)


def no_bytes(request):
    """A read or write of no bytes succeeds, whatever else is wrong with it; or not"""
    return request.opcode in RW and request.bytes == 0 and (
        '0:0' in (request.theirs, request.ours) and
        (is_mistake(request.theirs) or is_mistake(request.ours)))


def selects_in_a_thread(request):
    """With IOSQE_ASYNC a buffer is chosen when the file is ready, and not at once"""
    return request.flags & 0x30 == 0x30 and request.ours == 'waits' and (
        request.theirs.startswith('ENOBUFS'))


def write_with_flags(request):
    """A write with RWF_NOWAIT is refused where the kernel may make it; and to an eventfd
    with any of these flags"""
    return request.opcode in (2, 23, 5, 61) and (
        bool(request.rw_flags & 8) or (request.fd in EVENTFDS and bool(request.rw_flags))) and (
        re.match('[0-9EA]', request.theirs) and re.match('EAGAIN|EOPNOTSUPP', request.ours)
        is not None)


def late_mistake(request):
    """A mistake breaks a chain before it begins, or when its request does"""
    both = (request.theirs, request.ours)
    return bool(request.flags & 0xc) and 'ECANCELED:0' in both and (
        any(not one.startswith('E') for one in both))


GOING_ON = [two_mistakes, broken_chain, socket_has_more]  # nothing was done
ENDING = [read_of_an_epoll, write_of_an_eventfd, open_chain, late_mistake, poll_first,
          selects_in_a_thread, write_with_flags, no_bytes,
          accepts_in_a_thread]


def result_of(line):
    return re.split(r' mem | \| ', line)[0].split()[1:]


def requests_of(theirs, ours):
    """Return: the requests of a line that differ; None if that cannot be said."""
    texts = theirs.split(' | ')[1:]
    mine, other = result_of(theirs), result_of(ours)
    if texts != ours.split(' | ')[1:] or '.end' in theirs or 'register' in theirs:
        return None
    if mine == ['waits']:
        mine = mine * len(other)
    if other == ['waits']:
        other = other * len(mine)
    if not 0 < len(mine) <= len(texts) or not 0 < len(other) <= len(texts):
        return None
    lasts = [False] * (len(texts) - 1) + [True]
    return [Request(*four) for four in zip(texts, mine, other, lasts) if four[1] != four[2]]


def stops_elsewhere(theirs, ours):
    """A submission ends at a mistake that is found at once, and not at one found later"""
    mine, other = result_of(theirs), result_of(ours)
    last = min(len(mine), len(other)) - 1
    return len(mine) != len(other) and is_mistake(mine[last]) and is_mistake(other[last])


def cancels_another(theirs, ours):
    """A cancellation finds what was submitted with it before that has ended, or after"""
    return ' | op 14 ' in theirs and theirs.count(' | op ') > 1 and ours.count(' | op ') > 1


def is_register(theirs, ours):
    """A table with more than one mistake is refused for another of them"""
    if 'register' not in theirs or 'register' not in ours:
        return False
    return all(int(line.split()[1]) < 0 for line in (theirs, ours))


def is_position(theirs, ours, before):
    """A write at the position of a file that met memory which cannot be read: it has
    moved the position here, and not in the kernel"""
    one, two = theirs.split(), ours.split()
    wrote = any(re.search(r' \| op (1|2|5|23|61) ', line) for line in before)
    return '.end fd' in theirs and '.end fd' in ours and wrote and (
        one[2] == two[2] and int(one[2]) < 4 and one[5:] == two[5:])


LINES = [stops_elsewhere, cancels_another, is_register, is_position]


class Tally:
    def __init__(self):
        self.nr_worlds = self.nr_requests = self.nr_again = 0
        self.rules = {rule.__name__: 0 for rule in GOING_ON + ENDING + LINES}

    def add(self, other):
        self.nr_worlds += other.nr_worlds
        self.nr_requests += other.nr_requests
        self.nr_again += other.nr_again
        for name, nr in other.rules.items():
            self.rules[name] += nr


def compare(theirs, ours, tally):
    """Return: what is wrong in a world, or None."""
    for line, other in zip(theirs, ours):
        nr = line.count(' | op ')
        if line == other:
            tally.nr_requests += nr
            continue
        if is_register(line, other):
            tally.rules['is_register'] += 1
            continue
        if is_position(line, other, theirs):
            tally.rules['is_position'] += 1
            continue
        requests = requests_of(line, other)
        rule = next((rule for rule in (stops_elsewhere, cancels_another)
                     if requests is not None and rule(line, other)), None)
        if rule:
            tally.rules[rule.__name__] += 1
            return None
        if not requests:
            return f'kernel: {line}\nours:   {other}'
        if any(rule(request) for rule in ENDING for request in requests):
            for rule in ENDING:
                tally.rules[rule.__name__] += any(rule(request) for request in requests)
            return None
        for request in requests:
            rule = next((rule for rule in GOING_ON if rule(request)), None)
            if rule is None:
                return f'kernel: {line}\nours:   {other}'
            tally.rules[rule.__name__] += 1
        tally.nr_requests += nr
        # What was refused for its memory may have used a part of it.
        if line.split(' mem ')[1][:16] != other.split(' mem ')[1][:16]:
            return None
    if len(theirs) != len(ours):
        return f'the kernel has {len(theirs)} lines, ours {len(ours)}, after {theirs[-1:]}'
    return None


class Player:
    def __init__(self, fuzz, uaio):
        fuzz, uaio = os.path.abspath(fuzz), os.path.abspath(uaio)
        self.ways = [[fuzz], [uaio, 'run', '--uring=always', '--', fuzz]]

    def play(self, way, seed, first, last, patience_us):
        """Return: the lines of each world."""
        command = self.ways[way] + [str(what) for what in (seed, first, last, patience_us)]
        with tempfile.TemporaryDirectory(prefix='uaio-fuzz-') as folder:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                                  timeout=DEADLINE_S, check=False)
        worlds = {}
        for line in done.stdout.splitlines():
            worlds.setdefault(int(line.split('.')[0]), []).append(line)
        if done.returncode:
            number = max(worlds, default=first - 1)
            worlds.setdefault(number, []).append(
                f'{number}.died {done.returncode}: {done.stderr.strip()[-200:]}')
        return worlds

    def fault_of(self, seed, world, tally):
        """A world has differed: again, with more patience. Return: what is wrong, or None."""
        fault = None
        for patience_us in PATIENCES_US[1:]:
            tally.nr_again += 1
            again = Tally()
            sides = [self.play(way, seed, world, world, patience_us) for way in (0, 1)]
            fault = compare(sides[0].get(world, []), sides[1].get(world, []), again)
            if fault is None:
                tally.add(again)
                return None
        return f'seed {seed}, world {world}:\n{fault}'

    def chunk(self, seed, first, last):
        tally, faults = Tally(), []
        sides = [self.play(way, seed, first, last, PATIENCES_US[0]) for way in (0, 1)]
        for world in range(first, last + 1):
            once = Tally()
            tally.nr_worlds += 1
            if compare(sides[0].get(world, []), sides[1].get(world, []), once) is None and (
                    world in sides[0] and world in sides[1]):
                tally.add(once)
                continue
            fault = self.fault_of(seed, world, tally)
            if fault:
                faults.append(fault)
        return tally, faults


def chunks_of(options):
    if options.seeds:
        with open(options.seeds, encoding='utf-8') as file:
            for line in file:
                words = line.split('#')[0].split()
                if words:
                    yield int(words[0]), int(words[1]), int(words[1])
    for first in range(1, options.worlds + 1, CHUNK):
        yield options.seed, first, min(first + CHUNK - 1, options.worlds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    parser.add_argument('--fuzz', required=True)
    parser.add_argument('--uaio', required=True)
    parser.add_argument('--seeds')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--worlds', type=int, default=0)
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--most', type=int, default=20, help='faults that are told')
    options = parser.parse_args()
    player, tally, faults = Player(options.fuzz, options.uaio), Tally(), []
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for part, found in pool.map(lambda chunk: player.chunk(*chunk), chunks_of(options)):
            tally.add(part)
            faults += found
            for fault in found[:max(0, options.most - len(faults) + len(found))]:
                print(fault, flush=True)
    seconds = time.monotonic() - start
    print(f'{tally.nr_worlds} worlds, {tally.nr_requests} requests in {seconds:.0f} s: '
          f'{len(faults)} faults; {tally.nr_again} played again')
    for name, nr in tally.rules.items():
        print(f'{nr:8d} {name}')
    return 1 if faults or not tally.nr_requests else 0


if __name__ == '__main__':
    sys.exit(main())
