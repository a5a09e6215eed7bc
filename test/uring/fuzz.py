#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fuzz.py --fuzz PROGRAM --uaio COMMAND [--worlds N] [--first N] [--seed S...]

The kernel's io_uring and the library's are given the same random requests (fuzz.c),
world by world. What they make of each is compared line by line: results and flags, the
memory, and what is in files, pipes and sockets at the end. A difference that no rule
below names is a fault.

Some of what a line says depends on how long a thread took to come, so a world that
differs is played again, with more patience, before it counts. What a world has found
becomes a row of test/conform: the world itself is another one as soon as requests are
drawn in another order.

A seed may have a kind before it, as in skip:1. The worlds of such a seed have what others
have not: of `skip`, requests with IOSQE_CQE_SKIP_SUCCESS, of which `silent` says that they
have ended and have no completion; of `disabled`, a ring that is so at first, and restrictions.
"""
import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

PATIENCES_US = [3000, 60000, 500000, 500000, 3000000]
DEADLINE_S = 1200
CHUNK = 100  # worlds of one process

# What the places in a world are (fuzz-world.c).
FILES = range(4)
DRAGGED = (2, 3)  # appended to; direct
PIPES = range(6, 10)
PAIRS = range(10, 18)  # sockets, of which each is connected with its neighbour
EVENTFDS = (23, 24)
EPOLLS = (25, 26)
ARENA = 1 << 18
READS = (1, 4, 22, 60)
RW = READS + (2, 5, 23, 61)
# What a thread of the kernel's executes, always or where it would have to wait.
SLOW_OPS = RW + (3, 8, 17, 18, 19, 21, 24, 25, 28, 30, 33, 34, 35, 36, 37, 38, 39, 41, 42, 43,
                 44, 55)
VECTORED = (1, 2, 60, 61)
SENDS = (9, 26, 47, 48)
SOCKET_OPS = (9, 10, 13, 16, 26, 27, 34, 46, 47, 48, 56, 57)


class Request:
    """A request of a line: what was submitted, and the results of the kernel and of the
    library."""

    def __init__(self, text, theirs, ours, before):
        words = text.split()
        fields = dict(zip(words[::2], words[1::2]))
        self.opcode = int(fields['op'])
        self.flags = int(fields['flags'], 0)
        self.fd = int(fields['fd'])
        self.rw_flags = int(fields['rw'], 0)
        self.ioprio = int(fields['ioprio'], 0)
        self.bytes = int(fields['len'], 0)
        self.addr = fields['addr']
        self.off = fields['off']
        self.is_fixed = bool(self.flags & 1)
        self.is_open = False  # its chain goes on to the end of the submission
        self.is_drained = bool(self.flags & 2) or (bool(before) and before.is_drained)
        # Whether one before it in its chain is executed by a thread of the kernel's.
        self.is_after_thread = bool(before) and bool(before.flags & 0xc) and (
            before.is_after_thread or bool(before.flags & 0x10) or
            before.opcode in SLOW_OPS)
        self.is_linked = bool(before) and bool(before.flags & 0xc)
        self.theirs = theirs
        self.ours = ours


# The errors that say what is wrong with a request.
MISTAKES = {'EINVAL', 'EBADF', 'EFAULT', 'EOPNOTSUPP', 'ENOTSOCK', 'ESPIPE', 'ERANGE',
            'ENOBUFS', 'EISDIR', 'ENOENT', 'E2BIG', 'ENOPROTOOPT', 'ENOTDIR', 'EPERM',
            'EDESTADDRREQ', 'ENOTCONN', 'EACCES', 'EXDEV', 'ENODATA', 'EOVERFLOW', 'ENXIO', 'EADDRINUSE',
            'EAFNOSUPPORT', 'EISCONN', 'EPROTONOSUPPORT', 'ENOTEMPTY', 'EEXIST', 'EBUSY',
            'ELOOP', 'ENODEV', 'ENOMEM', 'EPROTOTYPE', 'ESOCKTNOSUPPORT', 'EALREADY', 'EDOM',
            'ENAMETOOLONG', 'EFBIG', 'EPIPE', 'EBADFD'}


def is_mistake(result):
    return result.split(':')[0] in MISTAKES


def is_success(result):
    """One that is told of, or not, as a request with IOSQE_CQE_SKIP_SUCCESS asks for"""
    return result[0].isdigit() or result == 'silent'


def is_never_tried(request):
    """It is to be polled first, and must not wait."""
    both = (request.theirs, request.ours)
    poll_first = 4 if request.opcode == 13 else 1
    return request.opcode in SOCKET_OPS and bool(request.ioprio & poll_first) and (
        any(one.startswith('EAGAIN:') for one in both) and
        any(is_mistake(one) for one in both))


def two_mistakes(request):
    """A request with more than one mistake is refused for another of them"""
    return is_never_tried(request) or (
        is_mistake(request.theirs) and is_mistake(request.ours) and
        request.theirs.split(':')[1:] == request.ours.split(':')[1:])


def broken_chain(request):
    """A mistake is found before the one before it in a chain ends, or after"""
    both = {request.theirs.split(':')[0], request.ours.split(':')[0]}
    return 'ECANCELED' in both and bool(both & MISTAKES)


def read_of_an_epoll(request):
    """A read or write of an epoll, which fails: the kernel waits until it is ready"""
    return request.opcode in RW and (request.fd in EPOLLS or request.is_fixed) and (
        request.theirs == 'waits' and is_mistake(request.ours))


def write_of_an_eventfd(request):
    """A write to an eventfd that is full: the kernel waits"""
    return request.opcode in (2, 23, 5, 61) and (
        request.fd in EVENTFDS or request.is_fixed) and (
        request.theirs == 'waits' and re.match('EINVAL|EAGAIN|EFAULT', request.ours))


def is_bundle(request):
    return request.opcode == 26 and bool(request.ioprio & 16)


def fails_on_an_epoll(request):
    return request.opcode in RW and (request.fd in EPOLLS or request.is_fixed) and (
        request.ours == 'waits' and is_mistake(request.theirs))


def by_a_thread(request):
    """The last of its chain is linked to nothing, or it is, or comes after, a drain: a thread
    of the kernel's executes it, which does not wait for a file that is O_NONBLOCK or an epoll,
    nor after POLL_FIRST; sends all to any other; waits for data before it begins with many
    shots; chooses twice; and makes no bundle of sends, which it finds when their socket is
    ready"""
    if not request.is_drained and not request.is_open:
        return False
    has_many = request.opcode == 49 or (request.opcode in (10, 27) and request.ioprio & 2)
    if is_bundle(request) and request.theirs in ('waits', 'ECANCELED:0'):
        return True
    if has_many and request.theirs == 'waits':
        return is_mistake(request.ours)
    if fails_on_an_epoll(request):
        return True
    return request.theirs.startswith('EAGAIN:') or (
        request.opcode in RW + SENDS + (13,) and request.theirs == 'waits') or (
        request.opcode in RW and bool(request.flags & 0x20) and
        request.theirs.startswith('ENOBUFS') and request.ours == 'waits')


def removes_late(request):
    """What comes behind a drain may remove buffers that are provided behind it; with IOSQE_ASYNC
    a thread of the kernel's is too early for those, and ours is not"""
    is_by_thread = bool(request.flags & 0x10)
    found, missed = ((request.ours, request.theirs) if is_by_thread else
                     (request.theirs, request.ours))
    return request.opcode == 32 and request.is_drained and (
        missed.startswith('ENOENT:') and found[0].isdigit())


def repeats(request):
    """A timeout that repeats ends when there is no room: after how often is a matter of time"""
    return request.opcode == 11 and bool(request.rw_flags & 0x40) and all(
        len(both) > 1 and all(one.startswith('ETIME:') for one in both)
        for both in (request.theirs.split('+'), request.ours.split('+')))


def uses_in_a_thread(request):
    """A thread of the kernel's uses as much of a buffer as it asks for, and not as it reads"""
    return request.opcode in RW + (10, 27) and bool(request.flags & 0x20) and (
        request.is_drained or request.is_open) and (
        request.theirs.split(':')[0] == request.ours.split(':')[0])


def after_a_thread(request):
    """What comes after a request that a thread executes is executed by the same thread, which
    does not wait for a file that is O_NONBLOCK, nor for the events of an epoll; writes all to
    any other; and makes no bundle of sends"""
    writes_all = request.opcode in (2, 5, 23, 61) + SENDS and (
        request.theirs == 'waits' and request.ours[0].isdigit())
    return request.is_after_thread and (
        request.theirs.startswith('EAGAIN:') or writes_all or fails_on_an_epoll(request) or (
            is_bundle(request) and request.theirs in ('waits', 'ECANCELED:0')))


def is_many_in_a_thread(request):
    return bool(request.flags & 0x10) and (
        request.opcode == 49 or (request.opcode in (10, 27) and bool(request.ioprio & 2)) or (
            request.opcode == 13 and bool(request.ioprio & 1)))


def poll_first(request):
    """What is to be polled first, and is no socket, or not open for reading, or has a flag that
    its file does not know, fails at once, as does a receive of urgent data: the kernel waits"""
    is_urgent = request.opcode in (10, 27) and bool(request.rw_flags & 1)
    is_many = is_many_in_a_thread(request) or (
        is_bundle(request) and bool(request.flags & 0x10))
    if is_many and request.theirs == 'waits':
        if request.opcode == 49 and request.rw_flags:
            return request.ours.split(':')[0] in ('EOPNOTSUPP', 'EINVAL')
        return request.ours.split(':')[0] in ('ENOTSOCK', 'EBADF')
    return request.opcode in SOCKET_OPS and bool(request.ioprio & 5) and (
        request.theirs == 'waits' and (request.ours.startswith('ENOTSOCK:') or (
            is_urgent and is_mistake(request.ours))))


def no_bytes(request):
    """A read or write of no bytes succeeds, whatever flags it has"""
    return request.opcode in RW and (request.bytes == 0 or request.opcode in VECTORED) and (
        bool(request.rw_flags) and request.ours in ('0:0', 'silent') and (
            is_mistake(request.theirs) or request.theirs == 'EAGAIN:0'))


def counts(request):
    """A timeout that counts the completions of its own submission: in the kernel it ends, or
    goes on waiting. Behind another in a chain it starts there before that, or others of the
    submission, are told of, or after"""
    if request.opcode != 11 or request.off == '0':
        return False
    return (request.theirs == 'waits' and request.ours in ('0:0', 'silent')) or (
        request.is_linked and request.theirs in ('0:0', 'silent') and request.ours == 'waits')


def memory_of_nobody(request):
    """A buffer of an array cannot be memory: that is found before the wait, or after"""
    return request.opcode == 10 and bool(request.flags & 0x20) and (
        request.theirs == 'waits' and request.ours.startswith('EFAULT'))


def write_with_flags(request):
    """A write with RWF_NOWAIT is refused where the kernel may make it, or for that and not for
    a mistake, or the other way round; and one to an eventfd with any of these flags is"""
    both = (request.theirs, request.ours)
    if request.opcode not in (2, 23, 5, 61):
        return False
    if request.rw_flags & 8 and 'EAGAIN:0' in both and any(is_mistake(one) for one in both):
        return True
    # What is linked to it may wait, where it is made.
    may_wait = bool(request.flags & 0xc) and request.theirs == 'waits'
    return (bool(request.rw_flags & 8) or (
        request.fd in EVENTFDS and bool(request.rw_flags))) and (
        (may_wait or re.match('[0-9EA]|silent', request.theirs) is not None) and
        re.match('EAGAIN|EOPNOTSUPP', request.ours) is not None)


def fails_with_a_buffer(request):
    """What fails in the kernel may have used up the buffer that it chose"""
    theirs, ours = request.theirs.split(':'), request.ours.split(':')
    return request.opcode in RW + (10, 27) and bool(request.flags & 0x20) and (
        is_mistake(theirs[0]) and is_mistake(ours[0]) and
        bool(int(theirs[1], 0) & 1) and ours[1] == '0')


def nowait_in_a_thread(request):
    """A thread of the kernel's does not mind RWF_NOWAIT: of a request with IOSQE_ASYNC, of what
    by_a_thread() and after_a_thread() name"""
    return request.opcode in RW and bool(request.rw_flags & 8) and (
        request.ours.startswith('EAGAIN:') and
        (bool(request.flags & 0x10) or request.is_drained or request.is_open or
         request.is_after_thread))


def opens_a_path(request):
    """A file that is opened straight into the table is used there, which O_PATH is not"""
    return request.opcode in (18, 28) and (
        request.theirs == '0:0' and request.ours == 'EBADF:0')


def late_mistake(request):
    """A mistake breaks a chain before it begins, or when its request does"""
    both = (request.theirs, request.ours)
    return bool(request.flags & 0xc) and 'ECANCELED:0' in both and (
        any(not one.startswith('E') for one in both))


def reaches_out(request):
    """Its memory ends before it; of a RECVMSG that cannot be told, whose memory is not in its
    line"""
    if request.opcode == 10:
        return True
    where = re.match(r'arena\+(0x[0-9a-f]+)$', request.addr)
    return bool(where) and int(where[1], 0) + request.bytes > ARENA


def leaves_more(request):
    """A receive that ends at a mark, of which marked_by() says where there may be one, or
    where its memory does, does not tell that there is more behind it"""
    theirs, ours = request.theirs.split(':'), request.ours.split(':')
    return request.opcode in (10, 27) and (
        theirs[0] == ours[0] and theirs[0].isdigit() and len(ours) == 2 and
        int(theirs[1], 0) == int(ours[1], 0) | 4)


def stops_in_a_thread(request):
    """A bundle that has sent nothing in a thread of the kernel's ends with the mark by which the
    kernel stops many shots"""
    return request.opcode == 26 and bool(request.flags & 0x10) and (
        bool(request.ioprio & 0x10) and
        (request.theirs, request.ours) == ('ECANCELED:0', '0:0'))


def waits_for_errors(request):
    """A receive of errors (MSG_ERRQUEUE) from a socket that is hung up: the kernel gives up when
    it has tried so often"""
    return request.opcode in (10, 27) and bool(request.rw_flags & 0x2000) and (
        request.theirs.split(':')[0] == 'EAGAIN' and request.ours == 'waits')


def overflows(request):
    """A timeout with many shots that come faster than its client takes them: in the kernel it
    ends when the ring is full. Here they come later, and the client keeps up"""
    return request.opcode == 11 and bool(request.rw_flags & 0x40) and (
        request.theirs.startswith('ETIME:0x2+') and request.ours == 'waits')


def at_position(request):
    """A read or write at a position that was_moved() before"""
    return request.opcode in RW and request.off == '0xffffffffffffffff' and (
        request.fd in FILES or request.is_fixed)


GOING_ON = [two_mistakes, broken_chain]  # nothing was done
ENDING = [read_of_an_epoll, write_of_an_eventfd, by_a_thread, late_mistake, poll_first,
          after_a_thread, opens_a_path, write_with_flags, nowait_in_a_thread, no_bytes,
          counts, memory_of_nobody, fails_with_a_buffer, repeats,
          removes_late, stops_in_a_thread, waits_for_errors, overflows]


def result_of(line):
    return re.split(r' mem | \| ', line)[0].split()[1:]


def has_drain(line):
    return any(int(flags, 0) & 2 for flags in re.findall(r' flags (0x[0-9a-f]+) ', line))


def requests_of(theirs, ours, is_drained):
    """Return: the requests of a line; None if the line does not show them."""
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
    requests, before = [], None
    for text, their, our in zip(texts, mine, other):
        before = Request(text, their, our, before)
        # The kernel is in no hurry to find that there is no drain any more.
        before.is_drained |= is_drained
        requests.append(before)
    for request in reversed(requests if len(requests) == len(texts) else []):
        if not request.flags & 0xc:
            break
        request.is_open = True
    return requests


def stops_elsewhere(theirs, ours):
    """A submission ends at a mistake that is found at once, and not at one found later; or
    goes on, and what it goes on to waits"""
    mine, other, nr = result_of(theirs), result_of(ours), theirs.count(' | op ')
    if ['waits'] in (mine, other):
        ended = other if mine == ['waits'] else mine
        return len(ended) < nr and is_mistake(ended[-1])
    last = min(len(mine), len(other)) - 1
    return len(mine) != len(other) and is_mistake(mine[last]) and is_mistake(other[last])


def cancels_another(requests):
    """A cancellation finds what was submitted with it before that has ended, or after"""
    differing = [request for request in requests if request.theirs != request.ours]
    return bool(differing) and len(requests) > 1 and (
        any(request.opcode == 14 for request in requests)) and all(
        request.opcode == 14 or any(
            one.startswith('ECANCELED:') or one == 'waits'
            for one in (request.theirs, request.ours))
        for request in differing)


WRITES = (2, 5, 17, 23, 30, 55, 61)  # and what else changes a file


def overtakes(requests):
    """A read of a file is made before or after a write that was submitted with it, to which
    it is not linked: the kernel gives to a thread what needs room on the disk. At the end of
    its file a read does not mind that it has no memory"""
    def may_change(one, request):
        same = one.is_fixed or request.is_fixed or (
            one.fd in FILES and request.fd in FILES and (one.fd == 2) == (request.fd == 2))
        return one.opcode in WRITES and same and is_success(one.ours)

    chains = [0]
    for one in requests[:-1]:
        chains.append(chains[-1] + (not one.flags & 0xc))
    for chain, request in zip(chains, requests):
        if request.theirs == request.ours:
            continue
        both = {request.theirs, request.ours}
        if request.opcode not in READS or not (
                all(is_success(one) for one in both) or both == {'0:0', 'EFAULT:0'}) or not any(
                    may_change(one, request) for other, one in zip(chains, requests)
                    if other != chain):
            return False
    return any(request.theirs != request.ours for request in requests)


def outruns(requests):
    """A read or receive that must not wait, and what was submitted with it and moves bytes to
    it: of these the one that comes first has IOSQE_ASYNC, and is given to a thread, so that in
    the kernel it comes second"""
    def moves_to(other, one):
        return other.opcode in WRITES + SENDS and (
            other.is_fixed or one.is_fixed or other.fd == one.fd ^ 1)

    def is_overtaken(place, one):
        if one.theirs == 'EAGAIN:0' and is_success(one.ours):
            return any(before.flags & 0x10 and moves_to(before, one)
                       for before in requests[:place])
        return one.ours == 'EAGAIN:0' and is_success(one.theirs) and bool(one.flags & 0x10) and (
            any(moves_to(behind, one) for behind in requests[place + 1:]))

    differing = [(place, one) for place, one in enumerate(requests) if one.theirs != one.ours]
    return bool(differing) and all(
        one.opcode in READS + (10, 27) and is_overtaken(place, one) for place, one in differing)


def times_out(requests):
    """A linked timeout of no time, and the request before it, which a thread of the kernel's
    executes: the one or the other comes first; and what comes behind them goes on, or not"""
    is_open = False
    for one, timer in zip(requests, requests[1:] + [None]):
        is_open &= one.is_linked
        if timer and timer.opcode == 15 and timer.is_linked and (
                one.is_after_thread or one.flags & 0x10 or one.opcode in SLOW_OPS) and (
                timer.theirs != timer.ours) and (
                {timer.theirs, timer.ours} <= {'ETIME:0', 'ENOENT:0', 'ECANCELED:0'}):
            is_open = True
        if one.theirs != one.ours and not is_open:
            return False
    return any(one.theirs != one.ours for one in requests)


def reaches_over(theirs, ours):
    return theirs.split()[1:] == '0 | register 22'.split() and ours.split()[1] == '-12'


def is_register(theirs, ours):
    """A table with more than one mistake is refused for another of them; and an array to be
    mapped that reaches into another"""
    if 'register' not in theirs or 'register' not in ours:
        return False
    if reaches_over(theirs, ours):
        return True
    # Of a ring that is disabled or restricted, that is what a call says.
    if '-13' in (theirs.split()[1], ours.split()[1]):
        return False
    return all(int(line.split()[1]) < 0 for line in (theirs, ours))


def is_position(theirs, ours, before):
    """A read at a file's position, or a write there to one that is appended to, met memory
    that cannot be used, or a direct one was completed by the device: it has moved the
    position here, and not in the kernel"""
    one, two = theirs.split(), ours.split()
    return '.end fd' in theirs and '.end fd' in ours and was_moved(before) and (
        one[2] == two[2] and int(one[2]) in FILES and one[5:] == two[5:])


def was_moved(before):
    """Return: whether there was such a request: see is_position()."""
    return any(
        int(flags, 0) & 1 or int(fd) in (FILES if int(opcode) in READS else DRAGGED)
        for line in before for opcode, flags, fd in re.findall(
            r' op (1|2|4|5|22|23|60|61) flags (\S+) fd (\S+) [^|]* off 0xf{16} ', line))


def raced(theirs, ours, before):
    """Two of one submission, which are not linked, change the size of a file"""
    resizes, writes = (re.compile(f' op ({ops}) ') for ops in ('17|55', '2|5|23|30|61'))
    return '.end path' in theirs and '.end path' in ours and (
        theirs.split()[:4] == ours.split()[:4]) and any(
        resizes.search(line) and (writes.search(line) or len(resizes.findall(line)) > 1)
        for line in before)


def not_appended(theirs, ours, before):
    """A write with RWF_NOAPPEND at the position of a file that is appended to, which
    was_moved() before"""
    return '.end path ./b ' in theirs and '.end path ./b ' in ours and was_moved(before) and (
        any(int(flags, 0) & 0x20 and (int(bits, 0) & 1 or fd == '2')
            for line in before for bits, fd, flags in re.findall(
                r' op (?:2|5|23|61) flags (\S+) fd (\S+) [^|]* rw (\S+) [^|]* off 0xf{16} ',
                line)))


def spliced(request):
    """A pipe that was_spliced() before: by splice(2) it loses RWF_NOWAIT, in the kernel's
    io_uring not. So a worker writes more to it than there is room for, and waits"""
    return request.opcode in RW and (request.fd in PIPES or request.is_fixed) and (
        request.ours == 'waits' or (
            bool(request.rw_flags & 8) and request.ours == 'EOPNOTSUPP:0'))


def marked_by(line):
    """Return: the descriptors to which urgent data (MSG_OOB) may have been sent; None for
    any."""
    found = set()
    texts, results = line.split(' | ')[1:], result_of(line)
    for text, result in zip(texts, results):
        sent = re.match(r'op (?:9|26|47|48) flags (\S+) fd (\S+) .* rw (\S+) ', text)
        if sent and int(sent[3], 0) & 1 and result[0] not in 'E0':
            place = int(sent[2])
            found.add(None if int(sent[1], 0) & 1 or place > PAIRS[-1] else place ^ 1)
    return found


def was_spliced(before):
    return any(re.search(r' \| op (30|33) ', line) for line in before)


LINES = [stops_elsewhere, cancels_another, overtakes, outruns, times_out, is_register, is_position, raced,
         not_appended]
BESIDES = [at_position, spliced, uses_in_a_thread, leaves_more]


class Tally:
    def __init__(self):
        self.nr_worlds = self.nr_requests = self.nr_again = 0
        self.rules = {rule.__name__: 0 for rule in GOING_ON + ENDING + LINES + BESIDES}
        self.rules['varies'] = 0

    def add(self, other):
        self.nr_worlds += other.nr_worlds
        self.nr_requests += other.nr_requests
        self.nr_again += other.nr_again
        for name, nr in other.rules.items():
            self.rules[name] += nr


def compare(theirs, ours, tally):
    """Return: what is wrong in a world (scenario), or None."""
    is_drained, has_one, marked = False, False, set()
    for line, other in zip(theirs, ours):
        marked |= marked_by(line)
        nr = line.count(' | op ')
        is_drained |= has_one
        has_one = has_drain(line)
        if line == other:
            tally.nr_requests += nr
            continue
        if is_register(line, other):
            tally.rules['is_register'] += 1
            if reaches_over(line, other):
                return None
            continue
        rule = next((rule for rule in (is_position, raced, not_appended)
                     if rule(line, other, theirs)), None)
        if rule:
            tally.rules[rule.__name__] += 1
            continue
        requests = requests_of(line, other, is_drained)
        if requests is not None and stops_elsewhere(line, other):
            tally.rules['stops_elsewhere'] += 1
            return None
        if cancels_another(requests or []):
            tally.rules['cancels_another'] += 1
            return None
        if overtakes(requests or []):
            tally.rules['overtakes'] += 1
            return None
        rule = next((rule for rule in (outruns, times_out) if rule(requests or [])), None)
        if rule:
            tally.rules[rule.__name__] += 1
            return None
        if any(uses_in_a_thread(request) for request in requests or []):
            tally.rules['uses_in_a_thread'] += 1
            return None
        requests = [one for one in requests or [] if one.theirs != one.ours]
        if not requests:
            return f'kernel: {line}\nours:   {other}'
        if any(at_position(request) for request in requests) and was_moved(theirs):
            tally.rules['at_position'] += 1
            return None
        if any(spliced(request) for request in requests) and was_spliced(theirs):
            tally.rules['spliced'] += 1
            return None
        if all(leaves_more(one) and (reaches_out(one) or marked & (
                {None} if one.is_fixed else {None, one.fd})) for one in requests):
            tally.rules['leaves_more'] += 1
            tally.nr_requests += nr
            continue
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

    def play(self, seed, worlds, patience_us):
        """Return: the results of play_one() in both ways, which run at the same time."""
        with concurrent.futures.ThreadPoolExecutor(len(self.ways)) as pool:
            return list(pool.map(
                lambda way: self.play_one(way, seed, worlds, patience_us), self.ways))

    @staticmethod
    def play_one(way, seed, worlds, patience_us):
        """Return: the lines of each world."""
        lines, left = {world: [] for world in worlds}, list(worlds)
        while left:
            command = way + [str(seed), str(patience_us)] + [f'{one}-{one}' for one in left]
            with tempfile.TemporaryDirectory(prefix='uaio-fuzz-') as folder:
                done = Player.run(command, folder)
            for line in done.stdout.splitlines():
                lines[int(line.split('.')[0])].append(line)
            if done.returncode == 0:
                break
            died_in = next((world for world in left
                            if lines[world][-1:] != [f'{world}.over']), left[-1])
            lines[died_in].append(
                f'{died_in}.died {done.returncode}: {done.stderr.strip()[-200:]}')
            left = left[left.index(died_in) + 1:]
        return lines

    @staticmethod
    def run(command, folder):
        """Return: what the run has printed. A run that hangs is killed, and counts as
        dead."""
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.PIPE, start_new_session=True) as process:
            try:
                out, err = process.communicate(timeout=DEADLINE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
            return subprocess.CompletedProcess(command, process.returncode, out, err)

    def chunk(self, seed, worlds):
        """Run some worlds. Run those that differ again, each time with more patience.
        Return: a tally, and what is wrong."""
        tally, left = Tally(), worlds
        plays = {world: [] for world in worlds}
        tally.nr_worlds = len(worlds)
        for patience_us in PATIENCES_US:
            if patience_us != PATIENCES_US[0]:
                tally.nr_again += len(left)
            sides = self.play(seed, left, patience_us) if left else []
            for world in left[:]:
                plays[world].append([side[world] for side in sides])
                once = Tally()
                if self.fault_of(*plays[world][-1], once) is None:
                    tally.add(once)
                    del plays[world]
            left = list(plays)
        faults = [self.varied(plays[world], tally) for world in left]
        return tally, [(f'{seed}/{world}', fault)
                       for world, fault in zip(left, faults) if fault]

    @staticmethod
    def fault_of(theirs, ours, tally):
        if not theirs or not ours:
            return f'the kernel has {len(theirs)} lines, ours {len(ours)}'
        return compare(theirs, ours, tally)

    def varied(self, plays, tally):
        """A world has differed each time. The kernel's own results may vary: then each of
        the library's must be one of these. Return: what is wrong; or None."""
        for theirs, _ in plays[1:]:
            for _, ours in plays[1:]:
                once = Tally()
                if self.fault_of(theirs, ours, once) is None:
                    once.rules['varies'] += 1
                    tally.add(once)
                    return None
        return self.fault_of(*plays[-1], Tally())


def chunks_of(options):
    end = options.first + options.worlds
    for seed in options.seed:
        for first in range(options.first, end, CHUNK):
            yield seed, list(range(first, min(first + CHUNK, end)))


class Progress:
    """A line on a terminal that says how far it is; elsewhere nothing."""

    def __init__(self, total):
        self.total, self.start, self.width = total, time.monotonic(), 0

    def seconds(self):
        return time.monotonic() - self.start

    def show(self, text):
        if sys.stderr.isatty():
            sys.stderr.write('\r' + text.ljust(self.width))
            sys.stderr.flush()
            self.width = len(text)

    def tell(self, seed, tally, nr_faults):
        left = self.seconds() * (self.total - tally.nr_worlds) / tally.nr_worlds
        self.show(f'seed {seed}: {tally.nr_worlds} of {self.total} worlds, '
                  f'{tally.nr_requests} requests, {nr_faults} differences; '
                  f'{left:.0f} s to go')

    def clear(self):
        self.show('')
        self.show('')


def play_all(options, tally):
    """Return: the differences, which are printed as they are found."""
    player, faults = Player(options.fuzz, options.uaio), []
    progress = Progress(len(options.seed) * options.worlds)
    chunks = list(chunks_of(options))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        parts = pool.map(lambda chunk: player.chunk(*chunk), chunks)
        for (seed, _), (part, found) in zip(chunks, parts):
            tally.add(part)
            faults += found
            for world, fault in found[:max(0, options.most - len(faults) + len(found))]:
                progress.clear()
                print(f'seed {seed}, world {world.split("/")[1]}:\n{fault}', flush=True)
            progress.tell(seed, tally, len(faults))
    progress.clear()
    print(f'{tally.nr_worlds} worlds in {progress.seconds():.0f} s, '
          f'{tally.nr_again} of them played again')
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    parser.add_argument('--fuzz', required=True)
    parser.add_argument('--uaio', required=True)
    parser.add_argument('--seed', default=['1'], nargs='+',
                        help='one after the other, each with or without a kind: 1, skip:1')
    parser.add_argument('--worlds', type=int, default=0, help='of each seed')
    parser.add_argument('--first', type=int, default=1, help='the first world')
    # A world spends most of its time with waiting.
    parser.add_argument('--jobs', type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument('--most', type=int, default=20, help='differences that are told')
    options = parser.parse_args()
    tally = Tally()
    faults = play_all(options, tally)
    for name, nr in tally.rules.items():
        print(f'{nr:8d} {name}')
    if faults:
        print('seed/world of each difference: ' + ' '.join(world for world, _ in faults))
    print(f'{tally.nr_requests} requests compared, {len(faults)} differences '
          'that no rule names')
    return 1 if faults or not tally.nr_requests else 0


if __name__ == '__main__':
    sys.exit(main())
