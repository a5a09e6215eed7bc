/* SPDX-License-Identifier: MIT */
/*
 * The intended differences of the library from the kernel and from glibc
 *
 * These are the chapters of doc/differences.md. Each test case refers to the differences
 * that it shows. If no test case refers to a difference, printing the document fails,
 * because nothing then shows that the difference exists. The exceptions are the
 * differences in not_shown, which no test case can show.
 */
#include "differences.h"

const struct difference differs_quota = {
	.title = "io_setup has no system-wide quota",
	.text = "io_setup does not fail with EAGAIN because of "
		"`fs.aio-max-nr`: a context takes only a few KiB of the "
		"process's own memory. The kernel's `fs.aio-nr` does not count "
		"uaio's contexts. `UAIO_MAX_NR` sets a limit for this process "
		"alone.\n"
		"If a program opens `/proc/sys/fs/aio-nr` by the C library, it "
		"reads the number of its own events. In `aio-max-nr` it reads "
		"UAIO_MAX_NR, or 2147483647 if that is not set. Other ways to "
		"open these files give the kernel's values.",
	.unless = "UAIO_MAX_NR=65536",
};

const struct difference differs_sync_error = {
	.title = "FSYNC of a file that cannot be synced fails in the event",
	.text = "An FSYNC request for a file in `/proc` has EINVAL in its "
		"event; in the kernel, io_submit returns EINVAL. The library "
		"finds the error only when a worker calls fsync(2). Check both "
		"the result of io_submit and the event.",
};

const struct difference differs_terminal_poll = {
	.title = "A terminal can be polled before it is ready",
	.text = "A POLL request for a terminal is accepted; the kernel refuses "
		"it with EINVAL. A terminal has several wait queues, and "
		"kernel AIO can wait for only one. The library waits by "
		"poll(2) or epoll(7), which wait for all.",
};

const struct difference differs_flag_refused = {
	.title = "An unsupported flag is found by trying the request",
	.text = "If a file does not support a request's `aio_rw_flags`, the "
		"request may fail with another error than in the kernel, such "
		"as EBADF. io_submit may return EOPNOTSUPP where the kernel "
		"has it in the event. The kernel checks flags first, but the "
		"library must try the request. A request of 0 bytes is not "
		"tried, and succeeds.\n"
		"These files support `RWF_NOWAIT`: pipes since Linux 6.4, "
		"sockets since 6.5, timerfds and signalfds since 6.10. Before "
		"Linux 6.5, kernel AIO refuses a write of 0 bytes with "
		"`RWF_NOWAIT` to a socket (EOPNOTSUPP); with uaio it succeeds.",
};

const struct difference differs_strict = {
	.title = "Unmapped addresses fault unless UAIO_STRICT is set",
	.text = "A pointer to unmapped memory raises SIGSEGV in the calling "
		"thread; the kernel returns EFAULT. This holds for pointers to "
		"iocbs, lists of iocbs, iovecs, event arrays and timeouts. A "
		"pointer to an unmapped signal mask may go unnoticed. A check "
		"of each pointer would cost a system call. NULL, kernel "
		"addresses and bad data buffers still give EFAULT. With "
		"`UAIO_STRICT=1`, all bad pointers give EFAULT.",
	.unless = "UAIO_STRICT=1",
};

const struct difference differs_poll_bits = {
	.title = "A POLL that waited reports only the bits requested",
	.text = "If a POLL request had to wait, its event has only the poll "
		"bits that the program requested. A wake-up without any of "
		"these bits does not complete the request. The kernel also "
		"reports other bits of the driver's wake-up; the library sees "
		"only what poll(2) reports after the wake-up. Test the bits "
		"that you requested, not the whole result. The event may come "
		"a moment after the wake-up, so an io_getevents that does not "
		"wait may miss it.",
};

const struct difference differs_poll_order = {
	.title = "POLLs woken at once complete in the order of submission",
	.text = "If one wake-up completes several POLL requests for a file, "
		"their events come in the order of submission. In the kernel, "
		"the event of the last submitted request comes first. Neither "
		"order is promised: identify events by their `data`.",
};

const struct difference differs_not_blocked = {
	.title = "io_submit does not wait for pipes, sockets and terminals",
	.text = "If a pipe, socket or terminal is not ready, io_submit returns "
		"at once, and the library executes the request when the file "
		"is ready. The kernel blocks inside io_submit. While the "
		"request waits, io_cancel can cancel it (EINPROGRESS, then "
		"ECANCELED in the event), io_destroy ends it, and the process "
		"can exit.\n"
		"io_cancel may also cancel a read or write of a regular file "
		"that no thread has begun. For these requests the kernel's "
		"io_cancel returns EINVAL: expect both results.",
};

const struct difference differs_fifo_packets = {
	.title = "A FIFO opened by its path is read as a stream",
	.text = "If a writer puts a FIFO into packet mode (O_DIRECT by fcntl), "
		"a read may return several packets as one. The library reads a "
		"FIFO that was opened by its path by vmsplice(2), which never "
		"blocks, but hides packet boundaries. To keep packets apart, "
		"use a seqpacket socket or pipe2(O_DIRECT).",
};

const struct difference differs_signals = {
	.title = "SIGXFSZ and SIGPIPE are not raised for a thread's writes",
	.text = "A write may fail with EPIPE or EFBIG without raising SIGPIPE "
		"or SIGXFSZ. If io_submit executes the write itself, the "
		"signal is raised as in the kernel. A write that had to wait "
		"raises no SIGPIPE. A write executed by a library thread "
		"raises no SIGXFSZ, because library threads block that signal. "
		"Check the error in the event.",
};

const struct difference differs_signals_direct = {
	.title = "SIGXFSZ is not raised for a thread's direct writes",
	.text = "An O_DIRECT write beyond RLIMIT_FSIZE fails with EFBIG, but "
		"raises no SIGXFSZ, if a library thread executes or submits "
		"it: that thread blocks the signal. This happens where kernel "
		"AIO is refused, and with `UAIO_BACKEND=threads` or "
		"`UAIO_BACKEND=io_uring`.",
	.with = "UAIO_BACKEND=threads UAIO_BACKEND=io_uring",
};

const struct difference differs_segments = {
	.title = "Direct I/O in segments keeps the bytes before an error",
	.text = "If part of a large O_DIRECT request fails, the event has the "
		"number of bytes before that part; if there are none, the "
		"event has the error. The kernel does so on btrfs; on ext4 and "
		"XFS it reports only the error. Such failures are due to bad "
		"memory, a full file system, or an RLIMIT_FSIZE in the middle "
		"of a block. The reason is that the library may split the "
		"request into segments, where that is faster. After a short "
		"count, submit the rest again: the new request reports the "
		"error.\n"
		"If a file is truncated during a large O_DIRECT request, some "
		"segments of the request may see the old size, and others the "
		"new size. `UAIO_SEGMENTS=1` turns segments off.",
	.with = "UAIO_SEGMENTS=8",
};

const struct difference differs_tail = {
	.title = "The ring's tail is not read back",
	.text = "If a program overwrites the tail of a kernel AIO ring, the "
		"library ignores the new value. The kernel's io_getevents uses "
		"the new value until the kernel posts the next event. A "
		"program may move only the head.",
};

const struct difference differs_head = {
	.title = "A wrong head can make the ring look full",
	.text = "If a program moves the head of a kernel AIO ring past the "
		"tail, io_submit may fail with EAGAIN until the head is right "
		"again. The library always computes free slots from the head; "
		"the kernel reads the head only when no slot is left. Move the "
		"head only over existing events.",
};

const struct difference differs_ring_memory = {
	.title = "A ring's memory belongs to the library",
	.text = "After io_destroy, the pages of a kernel AIO ring stay mapped. "
		"After mremap(2), pages also stay mapped at the old address. A "
		"context is the address of a ring, which the library reads to "
		"check the context. So the library reuses ring memory, but "
		"never unmaps it. Unused slots may hold events of an older "
		"context: read only from the head to the tail.",
};

const struct difference differs_threads = {
	.title = "The process has threads and descriptors of the library",
	.text = "The library starts threads when a request first has to wait; "
		"they block all signals. The library also opens close-on-exec "
		"descriptors, from 512 up where RLIMIT_NOFILE allows. Some of "
		"these are duplicates for requests whose pipe or socket the "
		"program has closed.\n"
		"close(2) of a library descriptor fails with EBADF, and "
		"close_range(2) skips the descriptor. dup2(2) onto a library "
		"descriptor works, because the library moves its own file "
		"first. dup2 fails with EBUSY while a call uses the "
		"descriptor: an io_pgetevents that sleeps with a signal mask, "
		"or a read that blocks a thread.\n"
		"If main() ends by pthread_exit, the process ends when the "
		"library's threads have been idle for five to ten seconds. "
		"While the library has threads, setns(2) to a mount or user "
		"namespace, and unshare(2) with CLONE_NEWUSER, fail with "
		"EINVAL. Call setns and unshare before the first request that "
		"waits, or ten seconds after the last request has ended.",
};

static const struct difference differs_locked = {
	.title = "RLIMIT_MEMLOCK also counts the library's memory",
	.text = "After mlockall(MCL_FUTURE), every mapping counts against "
		"RLIMIT_MEMLOCK. If this limit is too low and the process "
		"lacks CAP_IPC_LOCK, io_setup and io_uring_setup fail with "
		"ENOMEM. The library maps 5.5 MiB for the first context, and a "
		"stack for each thread; kernel AIO maps a few KiB.",
};

const struct difference differs_table_full = {
	.title = "Closing a stream under a request needs a free descriptor",
	.text = "If the program closes a pipe or socket while a request waits "
		"for it, the library makes a duplicate, on which the request "
		"continues. If the descriptor table is full, the request fails "
		"with EBADF. Raise RLIMIT_NOFILE, or close pipes and sockets "
		"only after their requests.",
};

const struct difference differs_killed = {
	.title = "Death by a signal loses incomplete writes",
	.text = "If a signal kills the process, accepted writes and syncs "
		"whose events are not posted may be lost. The kernel executes "
		"such requests inside io_submit, or hands them to the disk "
		"there. Wait for the events of data that must not be lost.\n"
		"exit and exec first finish accepted writes and syncs of "
		"regular files. Signals to the thread that calls exec stay "
		"pending meanwhile.\n"
		"Direct writes to FUSE and network file systems go to kernel "
		"AIO, also those of io_uring and POSIX AIO. If the process is "
		"killed during such a write, it ends only when the server has "
		"answered. With `--backend=threads` it ends at once.",
};

const struct difference differs_ring_file = {
	.title = "An io_uring's memory is a file",
	.text = "An io_uring's memory is a file, to which RLIMIT_FSIZE "
		"applies. If this limit is less than the ring needs, "
		"io_uring_setup fails with ENOMEM, without SIGXFSZ. If the "
		"limit is below 257 MiB, the submission entries are not at the "
		"offset IORING_OFF_SQES, and only the C library's mmap() finds "
		"them.",
};

const struct difference differs_ring_hint = {
	.title = "SOCK_NONEMPTY does not report the end of a TCP connection",
	.text = "In the kernel, IORING_CQE_F_SOCK_NONEMPTY also reports that "
		"the peer has shut down a TCP connection; here it does not. "
		"The library sets the flag only for unread bytes, and only "
		"after a receive that filled its buffer or peeked. An accept "
		"does not set the flag. Nor does a receive that stops at "
		"urgent data, before bytes with descriptors, or at "
		"inaccessible memory. After receives that complete together, "
		"the library sets the flag if poll(2) reports bytes; poll(2) "
		"ignores fewer than SO_RCVLOWAT. To detect these cases would "
		"cost system calls. Without the flag, receive or accept again.",
};

const struct difference differs_ring_first = {
	.title = "A receive or accept that polls first keeps its place",
	.text = "A receive or accept with IORING_RECVSEND_POLL_FIRST keeps its "
		"place among the requests of its socket. It waits for older "
		"requests, and later requests wait for it. In the kernel it "
		"begins after the requests submitted with it, and delays no "
		"other. A send with the flag begins after them here, too, but "
		"it delays later sends.\n"
		"A receive with the flag ignores SO_RCVLOWAT, and a receive "
		"with MSG_OOB does not poll first. A receive fails at once on "
		"a descriptor that is no socket, is not open for reading, or "
		"refuses a flag of the read. Multishot requests with "
		"IOSQE_ASYNC also poll first, by the same rules.",
};

const struct difference differs_ring_commands = {
	.title = "URING_CMD works on sockets only",
	.text = "IORING_OP_URING_CMD on a device, such as a disk or /dev/null, "
		"fails with EOPNOTSUPP: drivers accept commands only from the "
		"kernel's io_uring.",
};

const struct difference differs_ring_calls = {
	.title = "read, write and lseek of a ring's descriptor succeed",
	.text = "read, write and lseek on an io_uring's descriptor act on the "
		"file that holds the ring's memory; in the kernel these calls "
		"fail. io_uring requests on the descriptor fail as in the "
		"kernel.",
};

const struct difference differs_ring_mapped = {
	.title = "A mapping does not keep a ring alive",
	.text = "When the process that made an io_uring closes its last "
		"descriptor of the ring, the ring's requests are cancelled, "
		"and waiting threads get EBADF. In the kernel, threads wait "
		"on, and the ring lives while it is mapped. A descriptor in "
		"another process or in a socket message also keeps the "
		"kernel's ring. Here, a descriptor above 4095 keeps the ring "
		"only if the library has seen it in a call.",
};

const struct difference differs_ring_polled = {
	.title = "A poll of a ring reports POLLIN and POLLOUT, once",
	.text = "If a request polls an io_uring for POLLRDNORM or POLLWRNORM, "
		"its result has POLLIN or POLLOUT instead. A multishot poll of "
		"a ring ends with its first completion; in the kernel it ends "
		"with its second if the ring was ready at first. If a "
		"completion lacks IORING_CQE_F_MORE, submit the poll again: no "
		"event is missed.",
};

const struct difference differs_ring_child = {
	.title = "A child of fork submits to its parent's ring for itself",
	.text = "After fork, parent and child both see the completions of an "
		"io_uring, and may take turns to submit, as in the kernel. But "
		"neither process can cancel the other's requests. When a "
		"process ends, its waiting requests end without a completion. "
		"Its accepted writes are executed first, unless a signal kills "
		"it. In the kernel, waiting requests outlive the process, and "
		"the other process sees their completions (ECANCELED, or the "
		"result of a timeout).\n"
		"If processes share an io_uring whose completion ring is full, "
		"each process keeps the completions of its own requests. If a "
		"process ends before there is room, the completions that it "
		"keeps are lost, and IORING_SQ_CQ_OVERFLOW stays set. In the "
		"kernel the ring keeps all completions. Make the completion "
		"ring large enough, or let the child wait until "
		"IORING_SQ_CQ_OVERFLOW is clear.\n"
		"After fork, the child can use an io_uring's registered "
		"buffers, without their tags. It cannot use the registered "
		"files, provided buffers or eventfd of its parent. If the "
		"child polls the ring by an epoll, it must add the ring to the "
		"epoll again.\n"
		"If processes share an io_uring, a thread that waits in "
		"io_uring_enter sees another process's completions within 50 "
		"ms. A wait that began before the fork does not see these "
		"completions, nor do epoll_wait, poll and select. So parent "
		"and child may take turns, or the parent may hand the ring "
		"over to the child, as daemons do.",
};

const struct difference differs_ring_sent = {
	.title = "A ring's descriptor can be sent by a Unix socket",
	.text = "An io_uring's descriptor can be sent by a Unix socket; the "
		"kernel refuses that since Linux 6.7 (EINVAL). The descriptor "
		"works in the process that made the ring, and in its children. "
		"In any other process, even one on uaio, io_uring calls on the "
		"descriptor fail with EOPNOTSUPP.",
};

static const struct difference differs_ring_duplicate = {
	.title = "Before Linux 6.10, CANCEL_FD does not find duplicates",
	.text = "Before Linux 6.10, IORING_ASYNC_CANCEL_FD does not find "
		"requests that were submitted on a duplicate of the "
		"descriptor; in the kernel it does. To compare descriptors, "
		"the library needs fcntl(2) with F_DUPFD_QUERY, which is new "
		"in Linux 6.10.",
};

const struct difference differs_ring_overflow = {
	.title = "A multishot poll may go on where completions overflow",
	.text = "If the completion ring is full when a multishot poll is "
		"woken, the kernel ends the poll. In the library, the poll "
		"goes on if the program consumes completions before the "
		"library posts the poll's completion.",
};

const struct difference differs_ring_personality = {
	.title = "A personality must match the thread's credentials",
	.text = "A submission with a personality fails with EACCES if its "
		"thread's credentials (users, groups, capabilities) differ "
		"from the registered credentials. The kernel executes the "
		"request with the registered credentials. In user space a "
		"thread cannot use credentials that it has given up.",
};

const struct difference differs_ring_futexes = {
	.title = "FUTEX_WAIT needs a full mask; FUTEX_WAITV takes 126 futexes",
	.text = "FUTEX_WAIT with a mask that lacks a bit, and FUTEX_WAITV for "
		"127 or 128 futexes, fail with EINVAL. The library waits by "
		"futex_waitv(2), which has no mask and takes 128 futexes. Two "
		"of these are the library's own, by which it ends the wait.",
};

static const struct difference differs_ring_limited = {
	.title = "Rings of the kernel and of the library side by side",
	.text = "If the kernel refuses an io_uring because of a limit such as "
		"RLIMIT_MEMLOCK, the library makes the ring. So a process may "
		"have kernel rings and library rings. They work together only "
		"in part:\n"
		"- IORING_OP_MSG_RING from one kind to the other fails with "
		"EBADFD.\n"
		"- Buffers cannot be cloned from one kind to the other.\n"
		"- io_uring_register on one kind cannot register a ring of the "
		"other (IORING_REGISTER_RING_FDS).\n"
		"- If a request of a kernel ring polls a library ring "
		"(POLL_ADD), it completes at once.\n"
		"If a thread registers rings of both kinds, a ring may get "
		"another slot than in the kernel, but no slot that is in use. "
		"`--uring=always` makes all rings the library's.",
};

#define CHAPTER(...) ((const struct difference *const[]){ __VA_ARGS__, NULL })

static const struct difference differs_time = {
	.title = "Some calls take less time, some writes more",
	.text = "io_destroy takes microseconds; in the kernel it takes about "
		"20 ms. For a read outside the page cache, the kernel's "
		"io_submit waits, but the library's does not. A later buffered "
		"write to the same bytes waits for the read, so the event of "
		"the write may come later.",
};

static const struct difference differs_cold_read = {
	.title = "Accepted requests may take effect after io_submit",
	.text = "io_submit returns before the library executes an O_DIRECT "
		"request or a read outside the page cache. So an accepted "
		"write may be invisible to read(2), mappings, io_uring and "
		"other processes. An accepted read may see the changes of a "
		"later write(2) or ftruncate(2). To avoid both, wait for the "
		"event. AIO requests of one file take effect in the order of "
		"submission (`doc/design.md`, *Order*).",
};

const struct difference differs_low_water = {
	.title = "A read of a stream socket does not wait for SO_RCVLOWAT",
	.text = "A read request for a stream socket returns the bytes that are "
		"there, even if they are fewer than SO_RCVLOWAT. read(2) waits "
		"for SO_RCVLOWAT bytes, or for all requested bytes if that is "
		"less. To honour it would cost a system call for every short "
		"read. POLL requests honour it, as poll(2) does; an io_uring "
		"receive that polls first does not.",
};

static const struct difference differs_stream_held = {
	.title = "A peer may see a close microseconds after the event",
	.text = "If the program closes a pipe or socket under a waiting "
		"request, the library keeps a duplicate of the descriptor for "
		"the request. So the peer may see the close microseconds after "
		"the request's event. In the kernel the peer sees the close "
		"before the event. If the order matters, complete or cancel "
		"requests before the close.",
};

static const struct difference differs_closing = {
	.title = "Closing a file may wait for a device that does not answer",
	.text = "close(2), and dup2(2) onto a descriptor, wait until the "
		"file's requests have begun, because the library executes "
		"requests on the program's descriptor. The wait is usually "
		"short. But it lasts until the device answers in these cases:\n"
		"- A sync, or a buffered or extending write, is queued behind "
		"an unanswered write.\n"
		"- The process has more requests than workers.\n"
		"- A large direct request is executed in segments.\n"
		"- `/proc` is not mounted.",
};

static const struct difference differs_thread_signals = {
	.title =
		"A signal to one thread is read from a signalfd by that thread",
	.text = "A read of a signalfd may miss a signal that pthread_kill sent "
		"to the submitting thread. A thread reads only signals to "
		"itself or to the process, and another thread may execute the "
		"read. The submitting thread executes it if it alone waits for "
		"the context, by io_getevents, or by epoll_wait or poll on the "
		"context's eventfd (IOCB_FLAG_RESFD). Signals to the process "
		"are always found.",
};

static const struct difference differs_shutdown = {
	.title = "A shutdown may reach a waiting write late",
	.text = "A write that waits for space in a Unix stream socket may "
		"report EPIPE late. If the program shuts the socket down, or "
		"the peer does so with SHUT_RD, the write waits until there is "
		"space or the peer closes. epoll(7) does not report such a "
		"shutdown. In the kernel, a blocked write(2) returns at once.",
};

static const struct difference differs_handlers = {
	.title = "Some signal handlers are not deferred",
	.text = "If a signal arrives during a library call, its handler runs "
		"when the call returns, as in the kernel. The handler may make "
		"any call, and leave by siglongjmp. If the call is a close() "
		"that must first execute queued requests, the handler runs "
		"after these requests.\n"
		"Some signal handlers interrupt a library call at once:\n"
		"- handlers of SIGABRT and of faults (SIGSEGV, SIGBUS, SIGFPE, "
		"SIGILL, SIGTRAP, SIGSYS);\n"
		"- handlers that the program installs by its own rt_sigaction "
		"system call;\n"
		"- all handlers where a sandbox refuses rt_tgsigqueueinfo, and "
		"on processors other than x86-64.\n"
		"In a handler that interrupted a library call, AIO calls fail "
		"with EAGAIN, unless the interrupted call was asleep. _exit "
		"and exec do not wait for requests in such a handler. A child "
		"that the handler forks must not return from the handler. If "
		"the handler leaves by siglongjmp, it leaves the interrupted "
		"call's locks held.\n"
		"Do not submit requests in a signal handler that interrupted "
		"malloc: a request that needs a new thread calls "
		"pthread_create, which calls malloc.\n"
		"A deferred real-time signal is delivered after later signals "
		"of the same number to the same thread.",
};

static const struct difference differs_realtime = {
	.title =
		"A real-time client that never sleeps needs a second processor",
	.text = "If a real-time thread polls for events without sleeping, and "
		"the library's threads have no other processor, events come "
		"late. The library's threads have an ordinary policy, and "
		"cannot run meanwhile; the kernel completes requests by "
		"interrupt. If io_getevents has found nothing for 10 ms, it "
		"sleeps now and then for up to 100 us. If the program only "
		"reads the ring, it gets events once a second, when the kernel "
		"runs ordinary threads.",
};

static const struct difference differs_vfork = {
	.title = "A child of vfork cannot make AIO calls",
	.text = "A child of vfork must not make AIO calls: the child runs in "
		"its parent's memory, and the library takes it for the parent. "
		"The child's close, dup2, exec and _exit work as usual. In the "
		"kernel the child may use AIO; POSIX allows it only exec and "
		"_exit.",
};

static const struct difference differs_blocking_device = {
	.title = "A read of a device without RWF_NOWAIT may block a thread",
	.text = "Some devices lack RWF_NOWAIT, such as a pseudoterminal's "
		"master or a serial line. If someone else takes the bytes "
		"first, a read of such a device blocks a library thread, and "
		"io_destroy waits for the thread. The kernel would block in "
		"io_submit.\n"
		"Other terminals, such as a pseudoterminal's slave, are "
		"reopened by the library through `/proc` with O_NONBLOCK, so "
		"that no thread waits. If reopening is refused (TIOCEXCL, "
		"another user's terminal, no `/proc`), a read may block a "
		"library thread. A noncanonical read of more than one byte or "
		"with a time (VMIN, VTIME) may block a thread in any case.\n"
		"If the process is in the background when a line arrives at a "
		"terminal, the read fails with EIO, or SIGTTIN stops the "
		"process. In the same case read(2) goes on.",
};

static const struct difference differs_old_fashion = {
	.title = "Before Linux 6.9, files that kernel AIO refuses work",
	.text = "Before Linux 6.9, the library accepts requests that kernel "
		"AIO refuses, such as reads of `/proc/self/status` or "
		"`/proc/kmsg`, and writes to `/dev/full`. User space can "
		"recognise such files only since 6.9. While the library "
		"executes a read that never returns, as of `/proc/kmsg`, close "
		"and io_destroy do not return.",
};

static const struct difference differs_unseen = {
	.title = "Calls that do not go through the C library are not seen",
	.text = "System calls by a program's own `syscall` instructions bypass "
		"the library. Some language runtimes and all static programs "
		"make such calls. Kernel AIO calls of this kind reach the "
		"kernel. If a close or dup2 of this kind replaces the file of "
		"a waiting request, the request fails with EBADF. On FUSE and "
		"network file systems, the request may be executed on the new "
		"file. The library sees syscall(2), and under `uaio run "
		"--trap` all system calls.",
};

static const struct difference differs_code = {
	.title = "Code of the program is changed where io_uring is served",
	.text = "The library replaces `syscall` instructions for io_uring by "
		"jumps, which a program that reads its own code finds. The "
		"loader's _dl_debug_state gets a jump, too, by which the "
		"library learns of objects loaded later. `--no-patch` and "
		"`--uring=never` turn this off. The library maps pages for an "
		"object's jumps, which stay mapped when the object is "
		"unloaded. A replaced call needs a few KiB of stack, and "
		"debuggers cannot show its callers.",
};

/* POSIX AIO, compared with glibc's */

const struct difference differs_posix_reused = {
	.title = "A POSIX AIO request stays with its file",
	.text = "A queued POSIX AIO write goes into the file that was open "
		"when it was submitted. glibc writes into whatever file has "
		"the descriptor by then.",
};

const struct difference differs_posix_duplex = {
	.title = "A write does not wait behind a read of the same socket",
	.text = "A POSIX AIO write to a socket does not wait for an earlier "
		"read. glibc executes a descriptor's requests one after "
		"another, so two programs may wait for each other for ever. "
		"Here each direction of a pipe, socket or terminal has its own "
		"order. `doc/design.md` (*Order*) says which requests of a "
		"file wait.",
};

const struct difference differs_posix_crowd = {
	.title = "Waiting requests do not delay others",
	.text = "Twenty POSIX AIO reads of empty pipes do not delay other "
		"requests, because a waiting read occupies no thread. In glibc "
		"each read occupies one of twenty threads (see aio_init).",
};

const struct difference differs_posix_cancelled = {
	.title = "aio_cancel cancels requests that wait for their file",
	.text = "aio_cancel cancels a request that waits for its file, such as "
		"a read of an empty pipe. glibc cannot cancel a request that a "
		"thread has begun. If a cancelled write to a pipe has already "
		"written some bytes, it completes with that number of bytes.",
};

const struct difference differs_posix_timeout = {
	.title = "aio_suspend refuses an invalid timeout",
	.text = "aio_suspend fails with EINVAL if `tv_nsec` is negative, or "
		"1000000000 or more. glibc returns EAGAIN at once for a "
		"negative value, and aborts the process (SIGABRT) for the "
		"others.",
};

const struct difference differs_posix_restart = {
	.title = "Any signal handler ends aio_suspend and lio_listio",
	.text = "aio_suspend and lio_listio fail with EINTR after any signal "
		"handler, as POSIX says. In glibc, calls without a timeout "
		"continue after a handler with SA_RESTART. A program whose "
		"requests send signals must expect EINTR.",
};

const struct difference differs_posix_limit = {
	.title = "SIGXFSZ is raised if RLIMIT_FSIZE is set after the first "
		 "request",
	.text = "If the program sets RLIMIT_FSIZE after its first request, an "
		"aio_write beyond the limit may raise SIGXFSZ in the caller, "
		"as write(2) does. If the limit is set before the first "
		"request, library threads execute all file writes. They block "
		"the signal, as glibc's threads do. The library does not "
		"notice a later limit.",
};

const struct difference differs_posix_mistakes = {
	.title = "Of two errors, the other may be reported",
	.text = "A POSIX AIO request with two errors may report another one "
		"than in glibc: EFAULT for its buffer instead of EINVAL for "
		"its file. The library may try a call that checks the buffer "
		"first.",
};

const struct difference differs_posix_opcode = {
	.title = "lio_listio refuses an unknown opcode",
	.text = "lio_listio refuses a list member with an unknown opcode "
		"(EINVAL). glibc executes a request with another opcode "
		"instead, and reports success.",
};

const struct difference differs_posix_signal = {
	.title = "A signal that cannot be queued does not change the result",
	.text = "If RLIMIT_SIGPENDING prevents a notification by signal, the "
		"POSIX AIO request keeps its result, and the signal comes "
		"without its value. glibc replaces the result by EAGAIN and "
		"sends nothing.",
};

const struct difference differs_posix_joinable = {
	.title = "A thread that calls a function is always detached",
	.text = "A thread that runs a SIGEV_THREAD function is detached, even "
		"if `sigev_notify_attributes` makes it joinable, which is the "
		"default. glibc keeps the stack of each joinable thread for "
		"ever, as nobody knows which thread to join. Other attributes "
		"apply.",
};

static const struct difference differs_posix_fork = {
	.title = "A child of fork can use POSIX AIO",
	.text = "A child of fork can make POSIX AIO requests of its own, and "
		"has none of its parent's. In glibc a child's requests never "
		"complete if the parent has a thread for POSIX AIO.",
};

static const struct difference differs_posix_exit = {
	.title = "Writes of POSIX AIO outlive exit",
	.text = "Accepted POSIX AIO writes are executed before the process "
		"exits or executes another program. glibc drops queued writes.",
};

static const struct difference differs_posix_sync = {
	.title = "aio_fsync comes after all earlier writes",
	.text = "aio_fsync comes after all earlier writes of its file, because "
		"`aio_reqprio` is checked but has no effect. glibc executes "
		"aio_fsync before writes with a priority above 0.",
};

static const struct difference differs_posix_poll = {
	.title = "aio_error and aio_return make no system call",
	.text = "aio_error and aio_return only read memory. glibc takes a "
		"lock, for which a program that polls competes with glibc's "
		"threads.",
};

static const struct difference differs_posix_versions = {
	.title = "dlvsym finds glibc's functions",
	.text = "dlvsym, and dlsym with the handle of `libc.so.6` or "
		"`librt.so.1`, find glibc's POSIX AIO functions. The library's "
		"functions have no symbol version, so that programs of any age "
		"bind to them. If glibc's aio_read made a request, wait for it "
		"by glibc's aio_suspend.",
};

/* Each chapter starts with what a program would notice most. */
const struct chapter chapters[] = {
	{ "Lost data or completions, and crashes",
	  CHAPTER(&differs_killed, &differs_strict, &differs_ring_child,
		  &differs_cold_read, &differs_unseen, &differs_handlers,
		  &differs_vfork, &differs_segments, &differs_fifo_packets,
		  &differs_ring_mapped, &differs_table_full) },
	{ "Longer waits",
	  CHAPTER(&differs_closing, &differs_blocking_device, &differs_shutdown,
		  &differs_thread_signals, &differs_realtime,
		  &differs_old_fashion, &differs_not_blocked,
		  &differs_low_water, &differs_stream_held, &differs_time) },
	{ "Other errors, and calls that succeed",
	  CHAPTER(&differs_ring_file, &differs_locked,
		  &differs_ring_personality, &differs_ring_futexes,
		  &differs_ring_commands, &differs_ring_limited,
		  &differs_ring_duplicate, &differs_ring_sent,
		  &differs_ring_calls, &differs_flag_refused,
		  &differs_sync_error, &differs_terminal_poll,
		  &differs_quota) },
	{ "Other results, signals and orders",
	  CHAPTER(&differs_signals, &differs_signals_direct, &differs_poll_bits,
		  &differs_poll_order, &differs_ring_hint, &differs_ring_polled,
		  &differs_ring_overflow, &differs_ring_first, &differs_head,
		  &differs_tail) },
	{ "Threads, descriptors and memory",
	  CHAPTER(&differs_threads, &differs_ring_memory, &differs_code) },
	{ "POSIX AIO, compared with glibc",
	  CHAPTER(&differs_posix_limit, &differs_posix_restart,
		  &differs_posix_versions, &differs_posix_cancelled,
		  &differs_posix_mistakes, &differs_posix_opcode,
		  &differs_posix_timeout, &differs_posix_joinable,
		  &differs_posix_reused, &differs_posix_exit,
		  &differs_posix_fork, &differs_posix_duplex,
		  &differs_posix_crowd, &differs_posix_sync,
		  &differs_posix_signal, &differs_posix_poll) },
	{ NULL, NULL },
};

const struct difference *const *const not_shown =
	CHAPTER(&differs_time, &differs_ring_overflow, &differs_ring_limited,
		&differs_ring_duplicate, &differs_cold_read,
		&differs_stream_held, &differs_thread_signals, &differs_closing,
		&differs_shutdown, &differs_handlers, &differs_realtime,
		&differs_vfork, &differs_blocking_device, &differs_old_fashion,
		&differs_unseen, &differs_locked, &differs_code,
		&differs_posix_fork, &differs_posix_exit, &differs_posix_sync,
		&differs_posix_poll, &differs_posix_versions);
