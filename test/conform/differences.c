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
		"`fs.aio-max-nr`: a context takes a few KiB of the process's "
		"own memory. The kernel's `fs.aio-nr` does not count uaio's "
		"contexts. `UAIO_MAX_NR` sets a limit for the process.\n"
		"A program that opens `/proc/sys/fs/aio-nr` by the C library "
		"reads the number of events of its own contexts. In "
		"`aio-max-nr` it reads UAIO_MAX_NR, or 2147483647 if that is "
		"not set.",
	.unless = "UAIO_MAX_NR=65536",
};

const struct difference differs_sync_error = {
	.title = "FSYNC of a file that cannot be synced fails in the event",
	.text = "An FSYNC request for a file in `/proc` has EINVAL in its "
		"event; in the kernel, io_submit returns EINVAL. Check both "
		"the result of io_submit and the event.",
};

const struct difference differs_terminal_poll = {
	.title = "A terminal can be polled before it is ready",
	.text = "The library accepts a POLL request for a terminal; the kernel "
		"refuses it with EINVAL, because a terminal has several wait "
		"queues.",
};

const struct difference differs_flag_refused = {
	.title = "An unsupported flag may give another error",
	.text = "If a file does not support a request's `aio_rw_flags`, the "
		"request may fail with another error than in the kernel, such "
		"as EBADF. io_submit may return EOPNOTSUPP where the kernel "
		"has it in the event. A request of 0 bytes with such a flag "
		"succeeds.",
};

const struct difference differs_strict = {
	.title = "Unmapped addresses fault unless UAIO_STRICT is set",
	.text = "If a call gets a pointer to unmapped memory, the calling "
		"thread gets SIGSEGV; in the kernel the call fails with "
		"EFAULT. This holds for pointers to iocbs, lists of iocbs, "
		"iovecs, event arrays and timeouts. A pointer to an unmapped "
		"signal mask may go unnoticed. NULL, kernel addresses and bad "
		"data buffers still give EFAULT. With `UAIO_STRICT=1`, all bad "
		"pointers give EFAULT, at the cost of a system call for each "
		"check.",
	.unless = "UAIO_STRICT=1",
};

const struct difference differs_poll_bits = {
	.title = "A POLL that waited reports only the bits requested",
	.text = "If a POLL request had to wait, its event has only the poll "
		"bits that the program requested. The kernel also reports "
		"other bits of the device driver's wake-up. Test the bits that "
		"you requested, not the whole result. The event may come a "
		"moment after the wake-up, so an io_getevents that does not "
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
		"at once, and the request waits. The kernel blocks inside "
		"io_submit. While the request waits, io_cancel can cancel it "
		"(EINPROGRESS, then ECANCELED in the event), io_destroy ends "
		"it, and the process can exit.\n"
		"What the program itself writes while a write request waits "
		"comes before or inside the request's data, and shutdown(2) "
		"cuts off what is not written yet. Wait for the event before "
		"you use such a descriptor by other calls.\n"
		"io_cancel may also cancel a read or write of a regular file "
		"that no thread has begun. The kernel's io_cancel returns "
		"EINVAL for such requests, so expect both results.",
};

const struct difference differs_fifo_packets = {
	.title = "A FIFO opened by its path is read as a stream",
	.text = "If the program has opened a FIFO by its path, the library "
		"reads the FIFO by vmsplice(2), which hides packet boundaries. "
		"So if a writer puts the FIFO into packet mode (O_DIRECT by "
		"fcntl), a read may return several packets as one. To keep "
		"packets apart, use a seqpacket socket or pipe2(O_DIRECT).",
};

const struct difference differs_signals = {
	.title = "Some writes raise no SIGPIPE or SIGXFSZ",
	.text = "A write may fail with EPIPE or EFBIG without raising SIGPIPE "
		"or SIGXFSZ, so check the error in the event. A write that "
		"io_submit executes itself raises the signal as in the kernel. "
		"A write that had to wait raises no SIGPIPE. A write that a "
		"library thread executes raises no SIGXFSZ, because library "
		"threads block that signal.",
};

const struct difference differs_signals_direct = {
	.title = "Direct writes by library threads raise no SIGXFSZ",
	.text = "A direct write beyond RLIMIT_FSIZE fails with EFBIG, but "
		"raises no SIGXFSZ, if a library thread executes or submits "
		"it. This happens where kernel AIO is refused, and with "
		"`UAIO_BACKEND=threads` or `UAIO_BACKEND=io_uring`.",
	.with = "UAIO_BACKEND=threads UAIO_BACKEND=io_uring",
};

const struct difference differs_segments = {
	.title = "Direct I/O in segments keeps the bytes before an error",
	.text = "If part of a large direct request fails, the event has the "
		"number of bytes before that part. Only if there are none, the "
		"event has the error. Submit the rest again: the new request "
		"reports the error. The kernel, too, reports the bytes on "
		"btrfs, but only the error on ext4 and XFS. A part may fail "
		"because of bad memory, a full file system, or an RLIMIT_FSIZE "
		"inside a block.\n"
		"The library may execute a large direct request in segments. "
		"If the file is truncated meanwhile, some segments may see the "
		"old size, and others the new size. `UAIO_SEGMENTS=1` turns "
		"segments off.",
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
		"again. Move the head only over existing events.",
};

const struct difference differs_ring_memory = {
	.title = "A ring's memory belongs to the library",
	.text = "After io_destroy, the pages of a kernel AIO ring stay mapped. "
		"If the program has moved the ring by mremap(2), the pages at "
		"the old address stay mapped, too. The library reuses these "
		"pages, but never unmaps them. Unused slots may hold events of "
		"an older context: read only from the head to the tail.",
};

const struct difference differs_threads = {
	.title = "The process has threads and descriptors of the library",
	.text = "When a request first has to wait, the library starts threads, "
		"which block all signals. The library also opens close-on-exec "
		"descriptors, from 512 up where RLIMIT_NOFILE allows. Some are "
		"duplicates for requests whose pipe or socket the program has "
		"closed.\n"
		"close(2) of a library descriptor fails with EBADF, and "
		"close_range(2) skips the descriptor. dup2(2) onto a library "
		"descriptor works, because the library first moves its own "
		"file. dup2 fails with EBUSY while an io_pgetevents with a "
		"signal mask, or a read that blocks a thread, uses the "
		"descriptor.\n"
		"If main() ends by pthread_exit, the process ends only when "
		"the library threads end, after five to ten idle seconds.\n"
		"While library threads exist, setns(2) to a mount or user "
		"namespace, and unshare(2) with CLONE_NEWUSER, fail with "
		"EINVAL. Call them before the first request that waits, or ten "
		"seconds after the last request has ended.",
};

static const struct difference differs_locked = {
	.title = "RLIMIT_MEMLOCK also counts the library's memory",
	.text = "After mlockall(MCL_FUTURE), every mapping counts against "
		"RLIMIT_MEMLOCK. If this limit is too low and the process "
		"lacks CAP_IPC_LOCK, io_setup and io_uring_setup fail with "
		"ENOMEM. The library maps 5.5 MiB for the first context, and a "
		"stack for each library thread; kernel AIO maps a few KiB.",
};

static const struct difference differs_no_offset = {
	.title = "Files without offsets refuse kernel AIO and io_uring",
	.text = "A FUSE server may open a file with FOPEN_NONSEEKABLE or "
		"FOPEN_STREAM. pread and pwrite then fail with ESPIPE, and so "
		"do requests of kernel AIO and io_uring that have an offset; "
		"the "
		"kernel passes the offset to the server. POSIX AIO uses read "
		"and "
		"write instead, as glibc does.",
};

const struct difference differs_table_full = {
	.title = "Some requests on streams need a free descriptor",
	.text = "If the program closes a pipe or socket that a request waits "
		"for, the library makes a duplicate, on which the request "
		"continues. If the descriptor table is full, the request fails "
		"with EBADF. Raise RLIMIT_NOFILE, or close pipes and sockets "
		"only after their requests.\n"
		"With a full descriptor table, two kinds of requests that "
		"would "
		"have to wait fail with EMFILE instead: a SPLICE or TEE, and a "
		"CONNECT to a Unix socket whose backlog is full. Also, close "
		"may "
		"wait for a request that a worker executes: if another process "
		"has taken the connection or input for which the worker began, "
		"close returns when the next comes.",
};

const struct difference differs_killed = {
	.title = "Death by a signal loses incomplete writes",
	.text = "A signal that kills the process may lose accepted writes and "
		"syncs whose events are not posted yet. The kernel executes "
		"such requests inside io_submit, or hands them to the disk "
		"there. Wait for the events of data that must not be lost.\n"
		"exit and exec first finish accepted writes and syncs of "
		"regular files. Until then, signals to the thread that calls "
		"exec stay pending.\n"
		"Direct writes below 512 KiB on FUSE and network file systems "
		"go to kernel AIO, also those of io_uring and POSIX AIO. If a "
		"signal kills the process during such a write, the process "
		"ends only when the server has answered. With "
		"`--backend=threads` it ends at once.",
};

const struct difference differs_ring_file = {
	.title = "An io_uring's memory is a file",
	.text = "An io_uring's memory is a memfd, to which RLIMIT_FSIZE "
		"applies. If this limit is less than the ring needs, "
		"io_uring_setup fails with ENOMEM, without SIGXFSZ. If the "
		"limit is below 257 MiB, only the C library's mmap() can map "
		"the submission entries at IORING_OFF_SQES; the program's own "
		"system call cannot.",
};

const struct difference differs_ring_hint = {
	.title = "IORING_CQE_F_SOCK_NONEMPTY is set less often",
	.text = "The library sets IORING_CQE_F_SOCK_NONEMPTY less often than "
		"the kernel. Without the flag, receive or accept again. In "
		"these cases the library does not set the flag:\n"
		"- The peer has shut down a TCP connection, and no bytes are "
		"unread.\n"
		"- The request is an accept.\n"
		"- A receive returned less than its buffer holds, although "
		"bytes are left. For example, it stopped at urgent data, "
		"before bytes with descriptors, or at inaccessible memory. "
		"A receive with MSG_PEEK sets the flag.\n"
		"- Several receives completed together, and fewer bytes than "
		"SO_RCVLOWAT are unread.",
};

const struct difference differs_ring_first = {
	.title = "A receive or accept that polls first keeps its place",
	.text = "A receive or accept with IORING_RECVSEND_POLL_FIRST waits for "
		"older requests of its socket, and later ones wait for it. In "
		"the kernel, such a request begins after all others of the "
		"same call, and no request waits for it. In the library, too, "
		"a send with the flag begins after all others, but later sends "
		"wait for it.\n"
		"A receive with IORING_RECVSEND_POLL_FIRST does not poll first "
		"if it has MSG_OOB. It fails at once if its descriptor is no "
		"socket, is not open for reading, or does not support a flag "
		"of the request. These rules also hold for multishot requests "
		"with IOSQE_ASYNC.",
};

const struct difference differs_ring_commands = {
	.title = "URING_CMD works on sockets only",
	.text = "IORING_OP_URING_CMD on a device, such as a disk or "
		"`/dev/null`, fails with EOPNOTSUPP.",
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
		"descriptor of the ring, the library cancels the ring's "
		"requests. Threads that wait on the ring get EBADF. The kernel "
		"keeps a ring that is mapped, or whose descriptor another "
		"process or a socket message has. Keep a descriptor open. A "
		"duplicate descriptor above 4095 keeps the ring only if an "
		"earlier call used that duplicate.",
};

const struct difference differs_ring_polled = {
	.title = "A poll of a ring reports POLLIN and POLLOUT, once",
	.text = "If a request polls an io_uring for POLLRDNORM or POLLWRNORM, "
		"its result has POLLIN or POLLOUT instead. A multishot poll of "
		"a ring ends with its first completion. In the kernel it may "
		"end with its second. If a completion lacks IORING_CQE_F_MORE, "
		"submit the poll again: no event is missed.",
};

const struct difference differs_ring_child = {
	.title = "A child of fork submits to its parent's ring for itself",
	.text = "After fork, parent and child may take turns to submit to an "
		"io_uring, and both see all completions, as in the kernel. A "
		"daemon's parent may hand its ring over to the child. These "
		"points differ:\n"
		"- A process can cancel only requests that it submitted "
		"itself.\n"
		"- When a process ends, its waiting requests end without a "
		"completion. In the kernel they outlive the process, and the "
		"other process sees their completions. Accepted writes are "
		"executed first, unless a signal kills the process.\n"
		"- If the completion ring is full, each process keeps further "
		"completions of its own requests. They are lost if the process "
		"ends before the ring has room, and IORING_SQ_CQ_OVERFLOW "
		"stays set. Make the ring large enough, or let the child wait "
		"until the flag is clear.\n"
		"- The child can use registered buffers, without their tags, "
		"but no registered files, provided buffers or registered "
		"eventfd.\n"
		"- If the child waits for its own completions by an epoll, it "
		"must add the ring to the epoll again.\n"
		"- A thread in io_uring_enter sees the other process's "
		"completions within 50 ms. A wait that began before the fork "
		"does not see them, nor do epoll_wait, poll and select.",
};

const struct difference differs_ring_sent = {
	.title = "A ring's descriptor can be sent by a Unix socket",
	.text = "An io_uring's descriptor can be sent by a Unix socket; the "
		"kernel refuses that since Linux 6.7 (EINVAL). The descriptor "
		"works in the process that made the ring, and in its children. "
		"In any other process, io_uring calls on the descriptor fail "
		"with EOPNOTSUPP.",
};

static const struct difference differs_ring_duplicate = {
	.title = "Before Linux 6.10, CANCEL_FD does not find duplicates",
	.text = "Before Linux 6.10, which added F_DUPFD_QUERY, the library's "
		"IORING_ASYNC_CANCEL_FD does not find requests that were "
		"submitted on a duplicate of the descriptor. The kernel's "
		"does.",
};

const struct difference differs_ring_overflow = {
	.title = "A multishot poll may survive a full completion ring",
	.text = "If the completion ring is full when a multishot poll is "
		"woken, the kernel ends the poll. In the library, the poll "
		"goes on if the program consumes completions before the "
		"library posts the poll's completion.",
};

const struct difference differs_ring_personality = {
	.title = "A personality must match the thread's credentials",
	.text = "A submission with a personality fails with EACCES if the "
		"submitting thread's credentials (users, groups, capabilities) "
		"differ from the registered ones. The kernel executes the "
		"request with the registered credentials.",
};

const struct difference differs_ring_futexes = {
	.title = "FUTEX_WAIT needs a full mask; FUTEX_WAITV takes 126 futexes",
	.text = "FUTEX_WAIT with a mask that lacks a bit, and FUTEX_WAITV for "
		"127 or 128 futexes, fail with EINVAL. The kernel accepts "
		"both.",
};

static const struct difference differs_ring_limited = {
	.title = "Rings of the kernel and of the library side by side",
	.text = "If the kernel refuses an io_uring because of a limit such as "
		"RLIMIT_MEMLOCK, the library makes the ring. So a process may "
		"have both kernel rings and library rings, which work together "
		"only in part:\n"
		"- IORING_OP_MSG_RING between a kernel ring and a library ring "
		"fails with EBADFD.\n"
		"- Buffers cannot be cloned between a kernel ring and a "
		"library ring.\n"
		"- A ring of one kind cannot register a ring of the other kind "
		"(IORING_REGISTER_RING_FDS).\n"
		"- If a request of a kernel ring polls a library ring "
		"(POLL_ADD), the poll completes at once, even if the library "
		"ring is empty.\n"
		"- If a thread registers rings of both kinds, a ring may get "
		"another slot than in the kernel, but never a slot in use.\n"
		"With `--uring=always`, the library makes all rings.",
};

#define CHAPTER(...) ((const struct difference *const[]){ __VA_ARGS__, NULL })

static const struct difference differs_time = {
	.title = "A buffered write may wait for an earlier read",
	.text = "If a read request is outside the page cache, a later buffered "
		"write to the same bytes waits for it. So the write's event "
		"may come late. In the kernel, io_submit executes the read "
		"before it returns.",
};

static const struct difference differs_cold_read = {
	.title = "Accepted requests may take effect after io_submit",
	.text = "io_submit returns before these requests take effect: direct "
		"requests, reads outside the page cache, and writes that are "
		"synchronous (O_SYNC, O_DSYNC, RWF_DSYNC) or go to a FUSE file "
		"or a slow one. So read(2), mappings, io_uring and other "
		"processes may not see an accepted write yet. A later write(2) "
		"or ftruncate(2) may take effect first. An accepted read may "
		"see the changes of a later write(2) or ftruncate(2). Wait for "
		"the event to avoid all this. Among AIO requests on one file, "
		"the library keeps the kernel's order (`doc/design.md`, "
		"*Order*).\n"
		"Until the event, do not change, unmap or protect the buffer "
		"either. The kernel has copied a buffered write, and holds the "
		"memory of a direct request, when io_submit returns. The "
		"library may still read the buffer later, write to other "
		"memory that is mapped there, or report EFAULT.",
};

const struct difference differs_low_water = {
	.title = "A read of a stream socket does not wait for SO_RCVLOWAT",
	.text = "A read request for a stream socket returns the bytes that are "
		"there, even if they are fewer than SO_RCVLOWAT. read(2) waits "
		"for SO_RCVLOWAT bytes, or for all requested bytes if that is "
		"less. POLL requests honour SO_RCVLOWAT, as poll(2) does. An "
		"io_uring receive with IORING_RECVSEND_POLL_FIRST ignores "
		"SO_RCVLOWAT.",
};

static const struct difference differs_stream_held = {
	.title = "A peer may see a close microseconds after the event",
	.text = "If the program closes a pipe or socket under a waiting "
		"request, the library keeps a duplicate until the request "
		"ends. So the peer may see the close microseconds after the "
		"request's event; in the kernel, before the event. If the "
		"order matters, complete or cancel requests before the close.",
};

static const struct difference differs_closing = {
	.title = "Closing a file may wait for a device that does not answer",
	.text = "close(2) of a regular file, and dup2(2) onto its descriptor, "
		"wait until the library has begun to execute the file's "
		"requests, because the requests use that descriptor. The wait "
		"is usually short. It may last until the device answers in "
		"these cases:\n"
		"- A sync, or a buffered or extending write, is queued behind "
		"a write that the device has not answered.\n"
		"- All workers are busy, as the process has more requests than "
		"workers.\n"
		"- The library executes a large direct request of the file in "
		"segments.\n"
		"- `/proc` is not mounted, so the library cannot see that a "
		"call has begun.",
};

static const struct difference differs_thread_signals = {
	.title = "A read of a signalfd may miss a signal to one thread",
	.text = "A read of a signalfd may miss a signal that pthread_kill sent "
		"to the submitting thread, because another thread may execute "
		"the read. That thread finds only signals to itself or to the "
		"process. The submitting thread executes the read if it alone "
		"waits for the context, by io_getevents, or by epoll_wait or "
		"poll on the context's eventfd (IOCB_FLAG_RESFD).",
};

static const struct difference differs_once = {
	.title = "An event that a file reports only once may be lost",
	.text = "Some files report an event to only one poll: PSI triggers, "
		"perf events, mountinfo and files of sysctl. A POLL request on "
		"such a file may miss the event. So may epoll_wait, in a "
		"thread that has a waiting request with an eventfd "
		"(IOCB_FLAG_RESFD).",
};

static const struct difference differs_shutdown = {
	.title = "A shutdown may reach a waiting write late",
	.text = "A write request that waits for space in a Unix stream socket "
		"may report EPIPE late. If the program shuts down its side, or "
		"the peer uses SHUT_RD, the request waits until there is "
		"space, or the peer closes. In the kernel, a blocked write(2) "
		"returns at once.",
};

static const struct difference differs_handlers = {
	.title = "Some signal handlers interrupt library calls",
	.text = "If a signal arrives during a library call, its handler runs "
		"when the call returns, as in the kernel. The handler may make "
		"any call, and leave by siglongjmp. If the call is a close() "
		"that must first execute queued requests, the handler runs "
		"after these requests.\n"
		"These handlers run at once instead, and interrupt the library "
		"call:\n"
		"- handlers of SIGABRT and of faults (SIGSEGV, SIGBUS, SIGFPE, "
		"SIGILL, SIGTRAP, SIGSYS);\n"
		"- handlers that the program installs by its own rt_sigaction "
		"system call;\n"
		"- all handlers, if a sandbox refuses rt_tgsigqueueinfo, or "
		"the processor is not x86-64.\n"
		"In a handler that interrupted a library call, _exit and exec "
		"do not wait for requests. AIO calls there fail with EAGAIN, "
		"unless the interrupted call was asleep. A child that the "
		"handler forks must not return from it. If the handler leaves "
		"by siglongjmp, the library's locks stay held, so later AIO "
		"calls may hang.\n"
		"Do not submit requests in a handler that interrupted malloc: "
		"a request may need a new thread, and pthread_create calls "
		"malloc.\n"
		"If several real-time signals of one number are pending, one "
		"that arrived during a library call is delivered last, even if "
		"it was sent first.",
};

static const struct difference differs_realtime = {
	.title =
		"A real-time thread that never sleeps needs a second processor",
	.text = "If a real-time thread polls for events without sleeping, and "
		"library threads have no other processor, events come late. "
		"Library threads have an ordinary policy, and cannot run "
		"meanwhile. After io_getevents has found nothing for 10 ms, it "
		"sleeps now and then for up to 100 us. A program that only "
		"reads the ring in memory gets events once a second, when the "
		"kernel lets ordinary threads run.",
};

static const struct difference differs_vfork = {
	.title = "A child of vfork cannot make AIO calls",
	.text = "A child of vfork runs in its parent's memory, so the library "
		"takes it for the parent. The child must not make AIO calls: "
		"the kernel would allow them, but POSIX forbids them. Its "
		"close, dup2, exec and _exit work as usual.",
};

static const struct difference differs_blocking_device = {
	.title = "A read of a device without RWF_NOWAIT may block a thread",
	.text = "Some devices lack RWF_NOWAIT, such as a pseudoterminal's "
		"master or a serial line. A worker reads such a device when it "
		"has input. If someone else takes the input first, the worker "
		"blocks, and io_destroy waits for it. The kernel would block "
		"in io_submit.\n"
		"The library reopens ordinary terminals through `/proc` with "
		"O_NONBLOCK, so that no worker blocks. A worker may still "
		"block in these cases:\n"
		"- The terminal cannot be reopened: it is exclusive (TIOCEXCL) "
		"or another user's, or `/proc` is not mounted.\n"
		"- The terminal is in noncanonical mode, with VMIN above 1 or "
		"with VTIME.\n"
		"If a terminal's input arrives while the process is in the "
		"background, a waiting read request fails with EIO, or SIGTTIN "
		"stops the process. In the kernel, a read(2) that began in the "
		"foreground goes on.",
};

static const struct difference differs_old_fashion = {
	.title = "Before Linux 6.9, files that kernel AIO refuses work",
	.text = "Before Linux 6.9, the library cannot find out which files "
		"kernel AIO refuses. So it accepts reads of "
		"`/proc/self/status` or `/proc/kmsg`, and writes to "
		"`/dev/full`. While the library executes a read that never "
		"returns, as of `/proc/kmsg`, close and io_destroy do not "
		"return.",
};

static const struct difference differs_unseen = {
	.title = "Calls that do not go through the C library are not seen",
	.text = "Static programs and some language runtimes make system calls "
		"by their own `syscall` instructions. The library replaces "
		"those instructions that call io_uring, but does not see the "
		"other calls:\n"
		"- Kernel AIO calls by the program's own instructions reach "
		"the kernel.\n"
		"- If a close or dup2 by such an instruction replaces the file "
		"of a waiting request, the request fails with EBADF. On FUSE "
		"and network file systems, the request may be executed on the "
		"new file.\n"
		"The library sees calls by syscall(2). With `uaio run --trap` "
		"it sees all system calls.",
};

static const struct difference differs_code = {
	.title = "Code of the program is changed where io_uring is served",
	.text = "The library replaces the program's `syscall` instructions for "
		"io_uring by jumps, so a program that reads its own code finds "
		"jumps. It also changes the loader's _dl_debug_state. "
		"`--no-patch` or `--uring=never` prevents both changes. Memory "
		"for the jumps of a shared object stays mapped when the "
		"program unloads the object. A replaced call needs a few KiB "
		"of stack, and debuggers cannot show its callers.",
};

/* POSIX AIO, compared with glibc's */

const struct difference differs_posix_reused = {
	.title = "A POSIX AIO request stays with its file",
	.text = "A queued POSIX AIO write goes into the file that was open "
		"when it was submitted. glibc writes into the file that has "
		"the descriptor later.",
};

const struct difference differs_posix_duplex = {
	.title = "A write does not wait behind a read of the same socket",
	.text = "A POSIX AIO write to a socket does not wait for an earlier "
		"read. glibc executes a descriptor's requests one after "
		"another, so two programs may wait for each other for ever.",
};

const struct difference differs_posix_crowd = {
	.title = "Waiting requests do not delay others",
	.text = "Twenty POSIX AIO reads of empty pipes do not delay other "
		"requests. In glibc each waiting read occupies one of twenty "
		"threads.",
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
		"negative value, and aborts the process (SIGABRT) for a too "
		"large one.",
};

const struct difference differs_posix_restart = {
	.title = "Any signal handler ends aio_suspend and lio_listio",
	.text = "aio_suspend and lio_listio fail with EINTR after any signal "
		"handler, as POSIX says. In glibc, calls without a timeout "
		"continue after a handler with SA_RESTART. If requests send "
		"signals, expect EINTR.",
};

const struct difference differs_posix_limit = {
	.title = "SIGXFSZ is raised if RLIMIT_FSIZE is set after the first "
		 "request",
	.text = "If the program sets RLIMIT_FSIZE after its first request, an "
		"aio_write beyond the limit may raise SIGXFSZ in the caller, "
		"as write(2) does. If the program sets the limit earlier, no "
		"signal is raised, as in glibc.",
};

const struct difference differs_posix_mistakes = {
	.title = "A request with two errors may report another one",
	.text = "If a POSIX AIO request has two errors, uaio may report "
		"another one than glibc. An example is EFAULT for the buffer "
		"instead of EINVAL for the file.",
};

const struct difference differs_posix_opcode = {
	.title = "lio_listio refuses an unknown opcode",
	.text = "lio_listio refuses a list member with an unknown opcode "
		"(EINVAL). glibc executes another operation instead, and "
		"reports success.",
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
		"default. Other attributes apply. glibc keeps the stack of "
		"each joinable thread for ever.",
};

static const struct difference differs_posix_versions = {
	.title = "dlvsym finds glibc's functions",
	.text = "dlvsym, and dlsym with the handle of `libc.so.6` or "
		"`librt.so.1`, find glibc's POSIX AIO functions, not the "
		"library's. A program that made a request by glibc's aio_read "
		"must also wait for it by glibc's aio_suspend.",
};

static const struct difference differs_posix_priority = {
	.title = "aio_reqprio is checked, but does not order requests",
	.text = "Requests on one descriptor begin in the order of submission. "
		"In "
		"glibc a waiting request of higher priority goes first.",
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
		  &differs_thread_signals, &differs_once, &differs_realtime,
		  &differs_old_fashion, &differs_not_blocked,
		  &differs_low_water, &differs_stream_held, &differs_time) },
	{ "Other errors, and calls that succeed",
	  CHAPTER(&differs_ring_file, &differs_locked, &differs_no_offset,
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
		  &differs_posix_reused, &differs_posix_duplex,
		  &differs_posix_crowd, &differs_posix_priority,
		  &differs_posix_signal) },
	{ NULL, NULL },
};

const struct difference *const *const not_shown = CHAPTER(
	&differs_time, &differs_ring_overflow, &differs_ring_limited,
	&differs_ring_duplicate, &differs_cold_read, &differs_stream_held,
	&differs_thread_signals, &differs_once, &differs_closing,
	&differs_shutdown, &differs_handlers, &differs_realtime, &differs_vfork,
	&differs_blocking_device, &differs_old_fashion, &differs_unseen,
	&differs_locked, &differs_no_offset, &differs_code,
	&differs_posix_versions, &differs_posix_priority);
