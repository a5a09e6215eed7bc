/* SPDX-License-Identifier: MIT */
/*
 * The intended differences, one entry for each decision
 *
 * These are the chapters of doc/differences.md. Each row (test case) refers to the
 * differences that it shows. The last chapter has differences that no row can show. If no
 * row refers to a difference of another chapter, printing the document fails, because
 * nothing then shows that the difference exists.
 */
#include "differences.h"

const struct difference differs_quota = {
	.title = "There is no quota",
	.text = "A context here costs a few KiB of the process's own memory, "
		"so `fs.aio-max-nr` is neither asked nor used up, and "
		"`/proc/sys/fs/aio-nr` does not count it. A program that opens "
		"these two files for reading by the C library finds "
		"2147483647 events, or UAIO_MAX_NR, and those of its own "
		"contexts. By its own system calls, under another path or by "
		"io_uring it finds the kernel's numbers.\n"
		"A program that must meet the limit sets `UAIO_MAX_NR`: then "
		"the kernel's rules hold, for this process alone.",
	.unless = "UAIO_MAX_NR=65536",
};

const struct difference differs_sync_error = {
	.title = "A regular file that cannot be synced says so in the event",
	.text = "Such files are in `/proc`. The kernel sees that there is no "
		"fsync operation when the request is submitted; in user space "
		"only fsync(2) itself tells, and a worker calls it. The error "
		"is the same: look for it in both places.",
};

const struct difference differs_terminal_poll = {
	.title = "A terminal can be polled before it is ready",
	.text = "Kernel AIO cannot wait on files with more than one wait queue "
		"and refuses to; poll(2) and epoll(7), which do so here, can.",
};

const struct difference differs_flag_refused = {
	.title = "A flag that the file cannot honour is found by trying",
	.text = "The kernel knows which `aio_rw_flags` an open file can "
		"honour, "
		"and refuses others before any other mistake. Here the request "
		"has to be tried. If it has a second mistake, as a write to a "
		"file open for reading, that may be the one reported; and what "
		"a file system refuses only in the event is refused by "
		"io_submit. Such a request fails either way. One for no bytes "
		"is not tried, and succeeds.\n"
		"Which files honour `RWF_NOWAIT` depends on the kernel: "
		"pipes do since Linux 6.4, sockets since 6.5, and timerfds and "
		"signalfds since 6.10. On an older kernel kernel AIO refuses "
		"a write of no bytes to a socket with `RWF_NOWAIT` "
		"(EOPNOTSUPP), and here the write succeeds.",
};

const struct difference differs_strict = {
	.title = "Unmapped addresses fault unless UAIO_STRICT is set",
	.text = "An iocb, list, event array or timeout in memory that is not "
		"mapped is a fault in the caller, as with any other library: "
		"looking first would cost a system call each. "
		"Addresses that no program can have (NULL, the kernel's half) "
		"are EFAULT at no cost, and buffers are left to the kernel.\n"
		"`UAIO_STRICT=1` makes all of them EFAULT, for programs that "
		"count on it and to find the mistake.",
	.unless = "UAIO_STRICT=1",
};

const struct difference differs_poll_bits = {
	.title = "A POLL that waited reports what it was asked for",
	.text = "The kernel reports all bits of the driver's wake-up, some "
		"without looking at what was asked; user space sees only what "
		"poll(2) says then, of the events asked for. Test the bits you "
		"asked for, do not compare the whole result, and do not count "
		"on a wake-up that carries none of them. The event may come a "
		"moment after the wake-up, while a thread of the library "
		"executes the request: an io_getevents that does not wait then "
		"finds nothing yet.",
};

const struct difference differs_poll_order = {
	.title = "POLLs of one file that are woken at once come in the order "
		 "of submission",
	.text = "In the kernel the last submitted comes first. Neither is "
		"promised: tell events apart by their `data`.",
};

const struct difference differs_not_blocked = {
	.title = "io_submit does not wait for pipes, sockets and terminals",
	.text = "The kernel reads and writes them inside io_submit, for as "
		"long as it takes. Here the request is accepted, and carried "
		"out when the file is ready. So it can be cancelled "
		"(io_cancel returns EINPROGRESS, and the event has "
		"ECANCELED), io_destroy ends it, and it does not keep a "
		"process from exiting.\n"
		"The same io_cancel may succeed for a read or write of a "
		"regular file that a thread has not begun yet, where the "
		"kernel says EINVAL. Programs must expect both.",
};

const struct difference differs_fifo_packets = {
	.title = "A FIFO opened by its path is read as a stream",
	.text = "A writer may put a FIFO into packet mode with "
		"fcntl(F_SETFL, O_DIRECT); the one call that reads a FIFO "
		"without waiting does not see where a packet ends. Use a "
		"seqpacket socket, or pipe2(O_DIRECT), whose packets keep "
		"their ends.",
};

const struct difference differs_signals = {
	.title = "SIGXFSZ and SIGPIPE are not raised for a thread's writes",
	.text = "Where io_submit executes a write itself, they are raised as "
		"in the kernel. One that has to wait gets EPIPE later and "
		"raises "
		"nothing, in whichever thread; one that a thread of the "
		"library "
		"executes gets EFBIG, and the signal stays with that thread, "
		"blocked. The error in the event is what to look at; programs "
		"that ignore these signals see no difference.",
};

const struct difference differs_signals_direct = {
	.title = "SIGXFSZ is not raised for a thread's direct writes",
	.text = "Where the kernel's own AIO is refused, or with "
		"`UAIO_BACKEND=threads` or `io_uring`, a direct write that is "
		"in place is executed, or submitted, by a thread of the "
		"library. If it is beyond RLIMIT_FSIZE it gets EFBIG, and the "
		"signal stays with that thread, blocked.",
	.with = "UAIO_BACKEND=threads UAIO_BACKEND=io_uring",
};

const struct difference differs_segments = {
	.title = "Direct I/O in segments keeps what is in front of a mistake",
	.text = "A large direct request may be executed in segments, where "
		"that "
		"is faster. If one of them fails, because memory is not there, "
		"the file system is full, or RLIMIT_FSIZE leaves less than a "
		"block of it, the event has the bytes in front of it, and the "
		"error only if there are none. On ext4 and XFS the kernel "
		"reports the error alone, and may have transferred some of the "
		"bytes; on btrfs it reports bytes, too. Ask again for what is "
		"missing, as after any short count: that gives the error.\n"
		"Each segment is a request of its own to the file: of a "
		"truncate at the same time it may be that some see it and "
		"others do not. With `UAIO_SEGMENTS=1` no request is cut.",
	.with = "UAIO_SEGMENTS=8",
};

const struct difference differs_tail = {
	.title = "The ring's tail is not read back",
	.text = "A client may move the head, to reap by itself. The tail is "
		"the completer's to write; the kernel believes for a while "
		"what a client wrote there, uaio keeps its own.",
};

const struct difference differs_head = {
	.title = "A head out of place can fill the ring",
	.text = "The kernel counts free places apart from the ring and looks "
		"at the head only when it has run out of them; here they are "
		"what the head says, so that clients which reap by themselves "
		"get them back at once. If a head makes the ring look full "
		"io_submit says EAGAIN until it is put right. Move the head "
		"over events that are there and nowhere else.",
};

const struct difference differs_ring_memory = {
	.title = "A ring's memory belongs to the library",
	.text = "Rings are used again and never unmapped, so that a stale "
		"handle can always be looked at and is EINVAL. Their pages "
		"stay after io_destroy, and at the old address when a ring "
		"was moved; slots that have held no event of this context may "
		"hold an older one's of the same process. Read slots from the "
		"head to the tail and no others.",
};

const struct difference differs_threads = {
	.title = "There are threads and descriptors",
	.text = "Threads are started when a request first has to wait, none "
		"before; they block all signals. The descriptors of the "
		"library, and the duplicates on which requests of streams go "
		"on when their number is closed, have numbers from 512 up, "
		"where the limit allows, and are closed on exec. close(2) says "
		"EBADF of them and ranges step over them; dup2(2) onto one "
		"works, but for EBUSY while that number is in a call: an "
		"io_pgetevents that sleeps with a signal mask, a read that "
		"keeps a thread. A main that ends by pthread_exit ends the "
		"process when the threads have been idle for five to ten "
		"seconds. While there is a thread, the kernel refuses what it "
		"grants only to a process of one thread: setns(2) to a mount "
		"or user namespace, and unshare(2) with CLONE_NEWUSER "
		"(EINVAL). Make such a call before the first request that has "
		"to wait, or ten seconds after the last one has ended.",
};

static const struct difference differs_locked = {
	.title = "Where memory is locked, the library's counts",
	.text = "After mlockall(MCL_FUTURE) the kernel charges all that a "
		"process maps to RLIMIT_MEMLOCK, unless it has CAP_IPC_LOCK. "
		"The library maps 5.5 MiB for the first context, and the "
		"stack of each thread that it starts; the kernel's own AIO "
		"maps a ring of a few KiB. Beyond the limit io_setup fails "
		"with ENOMEM. So does io_uring_setup, where the library makes "
		"the ring.",
};

const struct difference differs_table_full = {
	.title = "Closing a stream under a request needs a free descriptor",
	.text = "A request belongs to the open file it was submitted on. When "
		"its number is closed it goes on with a duplicate; if the "
		"table of descriptors is full there can be none, and the event "
		"has EBADF. Raise RLIMIT_NOFILE, or close streams after their "
		"requests.",
};

const struct difference differs_killed = {
	.title = "Death by a signal loses what is not complete",
	.text = "However a process ends itself, and before an exec, accepted "
		"writes and syncs of regular files are finished first; during "
		"such an exec signals of the thread that makes it are held "
		"back. A signal that kills gives no time to: requests whose "
		"event has not been posted may not have happened. The kernel "
		"executes those writes inside io_submit or has handed them to "
		"the disk. Wait for the events of what must "
		"not be lost. Direct writes inside a file on FUSE or a network "
		"file system are made by the kernel's AIO: a client of "
		"io_uring or POSIX AIO that is killed ends once the server has "
		"answered them, as a client of kernel AIO does; with "
		"`--backend=threads` at once.",
};

const struct difference differs_ring_file = {
	.title = "The memory of a ring of io_uring is a file",
	.text = "Where RLIMIT_FSIZE is less than the ring needs, "
		"io_uring_setup returns ENOMEM, and raises no SIGXFSZ. Where "
		"it is less than 257 MiB, the submissions are not at the "
		"offset that clients know, and an mmap that is made without "
		"the C library does not find them.",
};

const struct difference differs_ring_hint = {
	.title = "The end of a TCP connection is no more to receive",
	.text = "In the kernel IORING_CQE_F_SOCK_NONEMPTY is also set in each "
		"completion of a receive from a TCP socket that the other side "
		"has shut down. Here the socket is asked for bytes, and only "
		"if a receive has filled its memory, or peeks: that what was "
		"received ends at a mark (urgent data), before bytes that "
		"have descriptors, or where its memory does, is not told "
		"either; nor by an accept, that "
		"more connections wait. Sockets whose receives complete "
		"together are polled, which does not tell of fewer bytes than "
		"SO_RCVLOWAT. A client that does not see the flag receives, or "
		"accepts, again, and finds out by that.",
};

const struct difference differs_ring_first = {
	.title = "A request that polls first keeps its place",
	.text = "In the kernel one with IORING_RECVSEND_POLL_FIRST begins "
		"behind what is submitted with it, and holds up no other of "
		"its socket. Here a send does the first, and a receive does "
		"not: requests on one direction of a socket are executed one "
		"after the other, the oldest first, and one that waits to be "
		"polled keeps its place. A receive of urgent data alone "
		"(MSG_OOB) is tried at once.",
};

const struct difference differs_ring_commands = {
	.title = "Commands of io_uring are those of sockets",
	.text = "URING_CMD on a device, such as a disk or /dev/null, is "
		"EOPNOTSUPP: a driver takes commands from the kernel's "
		"io_uring only.",
};

const struct difference differs_ring_calls = {
	.title = "A ring's descriptor is a file in memory",
	.text = "read, write and lseek of a ring's descriptor act on that "
		"file, which holds the ring, instead of failing: no program "
		"does that on purpose. Requests of io_uring on it fail as in "
		"the kernel.",
};

const struct difference differs_ring_mapped = {
	.title = "A mapping does not keep a ring",
	.text = "When the last descriptor of a ring is closed its requests are "
		"cancelled, also while its memory is still mapped. In the "
		"kernel a mapping keeps the ring like a descriptor.",
};

const struct difference differs_ring_polled = {
	.title = "A poll of a ring tells of POLLIN and POLLOUT, once",
	.text = "A request that polls a ring and asks for POLLRDNORM or "
		"POLLWRNORM is told by POLLIN or POLLOUT. One with many shots "
		"ends with its first completion; in the kernel it has one more "
		"if the ring was ready at first, and ends with the next. A "
		"client that submits it again when a completion says that no "
		"more come misses nothing.",
};

const struct difference differs_ring_child = {
	.title = "A child of fork submits to its parent's ring for itself",
	.text = "Parent and child see the completions of both in the ring's "
		"memory, and one at a time may submit, as in the kernel. But "
		"each process has only its own requests: it can cancel no "
		"others, and they end with their process, without a "
		"completion; accepted writes are made first, unless it is "
		"killed. In the kernel those that wait stay when their process "
		"has ended, and are cancelled when their file is ready, or "
		"timeouts end at their time, and the others hear of that. Here "
		"nobody is left who knows of them.\n"
		"A completion that finds no room in the completion ring is "
		"kept "
		"by the process that made the request. If that process ends "
		"before there is room, the completion is lost, and the flag "
		"IORING_SQ_CQ_OVERFLOW stays. In the kernel the ring keeps the "
		"completion. Make the completion ring large enough, or have "
		"the "
		"child stay until the flag is gone.\n"
		"In the child there are the parent's registered buffers, "
		"without their tags, but neither its registered files nor its "
		"eventfd, and "
		"an epoll has to be told of the ring again.\n"
		"A thread that waits in io_uring_enter for a completion of the "
		"other process learns of it within 50 ms; one that waited "
		"there before the fork does not, nor does one that sleeps in "
		"epoll_wait, poll or select. So programs that hand over to a "
		"child (daemon) work, and so do those that take turns.",
};

const struct difference differs_ring_sent = {
	.title = "A ring's descriptor can be sent by a Unix socket",
	.text = "From Linux 6.7 on the kernel refuses that. Here it is a "
		"descriptor of the ring in the process that made the ring, and "
		"in a child of that one. Another process has no ring by it, "
		"though it runs on uaio as well: EOPNOTSUPP, as of any other "
		"file. When the process that made the ring has closed its "
		"last, the ring ends, wherever else there are descriptors.",
};

static const struct difference differs_ring_duplicate = {
	.title = "Before Linux 6.10 another descriptor cancels nothing",
	.text = "IORING_ASYNC_CANCEL_FD finds the requests that were submitted "
		"on that number, and those on a duplicate of it only where "
		"fcntl(2) has F_DUPFD_QUERY. In the kernel it always does.",
};

const struct difference differs_ring_overflow = {
	.title = "A multishot poll may go on where completions overflow",
	.text = "In the kernel a completion of a multishot poll that does not "
		"fit into the ring is its last. Here that is so if it is made "
		"while the ring is full; if it is made when the client has "
		"taken some, the poll goes on.",
};

const struct difference differs_ring_personality = {
	.title = "A personality is no other than the thread's own",
	.text = "A submission that names a personality is refused with EACCES "
		"if the thread that submits it has other credentials (users, "
		"groups, capabilities) than the one that registered the "
		"personality. In the kernel the request is executed with "
		"those. In user space no call can be made with credentials "
		"that the thread has given up.",
};

const struct difference differs_ring_futexes = {
	.title = "A wait on a futex is by all bits, and on 126 at most",
	.text = "FUTEX_WAIT with a mask of fewer bits than all, and "
		"FUTEX_WAITV for 127 or 128 futexes, are refused with EINVAL. "
		"Such a wait is a thread's call on the client's futexes and on "
		"two of ours, by which it can be ended: futex_waitv(2), which "
		"takes 128 and no mask.",
};

static const struct difference differs_ring_limited = {
	.title = "Rings of the kernel's and of the library's side by side",
	.text = "Where a limit such as RLIMIT_MEMLOCK refuses a ring, the "
		"library makes it. IORING_OP_MSG_RING between it and a ring "
		"of the kernel's fails with EBADFD. Buffers cannot be cloned "
		"from one to the other, nor can a call on one register the "
		"other. A POLL_ADD in a ring of the kernel's on a ring of the "
		"library's completes at once. A thread whose 16 registered "
		"rings are of both kinds may get another slot than in the "
		"kernel, and none that is in use. `--uring=always` makes all "
		"rings the library's.",
};

#define CHAPTER(...) ((const struct difference *const[]){ __VA_ARGS__, NULL })

static const struct difference differs_time = {
	.title = "Time",
	.text = "io_destroy takes microseconds; the kernel waits a grace "
		"period of about 20 ms. A read that is not in the page cache "
		"is executed after io_submit has returned; the kernel makes "
		"io_submit wait for it. A buffered write whose bytes such a "
		"read is still to read waits for that read, and so may have "
		"its event later.",
};

static const struct difference differs_cold_read = {
	.title = "A cold read may see what is done beside io_submit",
	.text = "Requests of a file take effect in the order of submission, as "
		"`doc/design.md` says under *Order*. But a buffered read that "
		"is not in the page cache is executed when its pages are "
		"there, "
		"and a thread executes an O_DIRECT request. A buffered write "
		"waits for such a read of its bytes. Something else may read "
		"or change the file before the event: read(2), write(2), a "
		"mapping, ftruncate(2), io_uring, another process. It may see "
		"the file without the write, and the read may see its change. "
		"Wait for the event first.",
};

const struct difference differs_low_water = {
	.title = "A read of a stream socket does not wait for SO_RCVLOWAT",
	.text = "It takes what is there, as one with O_NONBLOCK does. "
		"read(2) waits until there are as many bytes as that option "
		"says, or as were asked for. Asking for the option would cost "
		"every read of a socket that gets less than it asked for. A "
		"POLL goes by the option, where poll(2) does; a receive of "
		"io_uring that polls first does not.",
};

static const struct difference differs_stream_held = {
	.title = "A closed stream may be held for microseconds more",
	.text = "When the number of a pipe or socket is closed while a request "
		"waits on it, the kernel lets the file go before the event can "
		"be seen. Here it is kept as a duplicate for the request, and "
		"the thread that made that may be about to let it go. A "
		"program that relies on the other end seeing the close at once "
		"must complete or cancel its requests first.",
};

static const struct difference differs_closing = {
	.title = "Closing a file may wait for a device that does not answer",
	.text = "The kernel's requests hold the open file. Here they are "
		"executed on the program's number, so closing or replacing it "
		"waits until "
		"each has begun: a moment. It waits for the device where one "
		"cannot begin: a buffered or extending write, or a sync, "
		"behind a write of the same file that is not answered; more "
		"requests than there may be workers; a large direct request "
		"that is executed in segments; and where `/proc` is not "
		"mounted.",
};

static const struct difference differs_thread_signals = {
	.title =
		"A signal to one thread is read from a signalfd by that thread",
	.text = "The kernel's read looks at the signals of the thread that "
		"submits, which is in io_submit meanwhile. Here whoever tries "
		"the read looks at its own. A thread that submitted it, and "
		"waits for events alone, or in an epoll_wait or poll beside "
		"an eventfd (IOCB_FLAG_RESFD), finds what was sent to it by "
		"pthread_kill, as soon as it does. One that waits beside "
		"another thread for the same context, or makes no call and "
		"looks at its ring, may not, until it does so; and a thread "
		"that only waits may find its own for another's read. Signals "
		"to the process are found by all.",
};

static const struct difference differs_shutdown = {
	.title = "A shutdown may reach a waiting write late",
	.text = "epoll(7) does not tell when a Unix stream socket that is full "
		"is shut for writing, by its own side or by the other's "
		"SHUT_RD. A write that waits for room is told EPIPE when there "
		"is some, or the other end closes; write(2) would be woken at "
		"once.",
};

static const struct difference differs_handlers = {
	.title = "Some signal handlers are not deferred",
	.text = "A handler that interrupts a call of the library runs when "
		"that call returns, as in the kernel. It may then make any "
		"call, and leave by siglongjmp. A close() that first makes "
		"queued requests of its file defers the handler until they "
		"are made. Not deferred are handlers of "
		"SIGABRT and of faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL, "
		"SIGTRAP, SIGSYS); those that the program installs by its own "
		"rt_sigaction system call; and all handlers where a sandbox "
		"refuses rt_tgsigqueueinfo, and on other processors than "
		"x86-64. AIO calls of such a handler get EAGAIN, unless the "
		"interrupted call was asleep. There _exit and exec wait for "
		"nothing, and a child that the handler forks must not return "
		"from it. A handler that leaves such a call by siglongjmp "
		"leaves what the call holds. A request that needs a new "
		"thread calls pthread_create, which calls malloc: not from a "
		"handler that interrupted malloc. A signal that is deferred "
		"goes behind real-time signals of its number that were sent "
		"to the same thread since.",
};

static const struct difference differs_realtime = {
	.title =
		"A real-time client that never sleeps needs a second processor",
	.text = "The kernel completes requests by interrupt; here a thread "
		"does it, with an ordinary scheduling policy. A client with a "
		"real-time policy that looks for events without waiting, on "
		"the only processor that the threads may use, keeps them from "
		"running. io_getevents notices that after 10 ms; while it is "
		"called in vain it then sleeps now and then for up to 100 us. "
		"A client that only looks at the ring, and makes no call, is "
		"not helped: its events come when the kernel lets ordinary "
		"threads run, once a second.",
};

static const struct difference differs_vfork = {
	.title = "A child of vfork cannot make AIO calls",
	.text = "It runs in its parent's memory, where the library would take "
		"it for the parent; asking each time would cost a system call. "
		"Closing, dup2, exec and _exit are the child's own. The kernel "
		"allows AIO there; POSIX allows a child of vfork nothing but "
		"exec and _exit.",
};

static const struct difference differs_blocking_device = {
	.title = "A read of a device without RWF_NOWAIT takes a thread",
	.text = "The masters of pseudoterminals, serial lines and some other "
		"character devices know no read that does not block. When "
		"such a device is ready a thread reads from it; if somebody "
		"else took what was there it waits, and io_destroy with it. "
		"The kernel would wait in io_submit.\n"
		"Other terminals are opened a second time through `/proc`, "
		"with O_NONBLOCK, so that no thread waits; where that is "
		"refused (TIOCEXCL, another user's, no `/proc`) and for reads "
		"without lines that want more than one byte or have a time "
		"(VMIN, VTIME), it is as above. If the process has gone to the "
		"background by the time its line comes, the read ends with "
		"-EIO, or SIGTTIN stops the process; a read(2) that waits goes "
		"on.",
};

static const struct difference differs_old_fashion = {
	.title = "On Linux before 6.9 files that kernel AIO refuses work",
	.text = "The kernel knows two ways in which a driver may offer "
		"reading and writing, and its AIO refuses files that have "
		"only the older (`/proc/self/status`, `/proc/kmsg`, writes to "
		"`/dev/full`). Since Linux 6.9 a program can tell these files "
		"apart without reading anything, and uaio refuses them, too. "
		"Before 6.9 uaio executes the requests; while one that never "
		"ends is executed, as a read of `/proc/kmsg`, close and "
		"io_destroy do not return.",
};

static const struct difference differs_unseen = {
	.title = "Calls that do not go through the C library are not seen",
	.text = "A `syscall` instruction of the program's own, as some "
		"language runtimes use it, reaches the kernel: calls of "
		"kernel AIO are then the kernel's (those of io_uring may be "
		"changed: see below), and the library does not notice a close "
		"or dup2. A request that waits on such a number gets EBADF if "
		"the number has become another file by then; on FUSE and on "
		"file systems of the network it may be executed on that file. "
		"Calls through syscall(2) are seen. A static program has "
		"nothing else than such instructions; under `uaio run --trap` "
		"all of them are seen.",
};

static const struct difference differs_code = {
	.title = "Code of the program is changed where io_uring is served",
	.text = "Unless `--uring=never` is given, the "
		"places at which objects call io_uring by their own "
		"`syscall` instruction become jumps into the library; and the "
		"loader's empty function for debuggers (_dl_debug_state), by "
		"which it learns of objects that are loaded later. A program "
		"that reads its own code sees that. `--no-patch` turns it "
		"off. Each object with such places has a page or more for "
		"its jumps, which stay when it is unloaded. Such a call needs "
		"a few KiB of the caller's stack, and a debugger sees no "
		"callers behind it.",
};

/* POSIX AIO, compared with glibc's */

const struct difference differs_posix_reused = {
	.title = "A request of POSIX AIO stays with its file",
	.text = "glibc executes what is queued on the number, whatever that is "
		"by "
		"then: a write that waits for its turn goes into the file that "
		"was opened after its own was closed.",
};

const struct difference differs_posix_duplex = {
	.title = "A write does not wait behind a read of the same socket",
	.text = "glibc executes the requests of a descriptor one after "
		"another: "
		"a write behind a read that waits is not made, and two "
		"programs "
		"may wait for each other's answer for ever. Here each "
		"direction "
		"of a pipe, socket or terminal has an order of its own, and "
		"requests of a file wait for others only where they must "
		"(`doc/design.md`, *Order*).",
};

const struct difference differs_posix_crowd = {
	.title = "Requests that wait hold up no others",
	.text = "glibc has twenty threads, unless aio_init says otherwise, and "
		"a "
		"read of an empty pipe keeps one. Here it keeps none.",
};

const struct difference differs_posix_cancelled = {
	.title = "aio_cancel ends what waits for its file",
	.text = "In glibc a request that a thread has begun cannot be "
		"cancelled, "
		"even if it waits for an empty pipe. Here it can. A write to a "
		"full pipe of which a part is made is complete with that part.",
};

const struct difference differs_posix_timeout = {
	.title = "aio_suspend refuses a timeout that is none",
	.text = "glibc ends the process (SIGABRT) for nanoseconds of a second "
		"and "
		"more, and takes less than 0 for a time that is past. Here "
		"both "
		"are EINVAL.",
};

const struct difference differs_posix_restart = {
	.title = "A handler ends aio_suspend and lio_listio in any case",
	.text = "glibc's go on, without a timeout, if the handler has "
		"SA_RESTART. "
		"Here they return EINTR, as POSIX says: a program whose "
		"requests "
		"send signals has to expect it.",
};

const struct difference differs_posix_limit = {
	.title = "SIGXFSZ is raised if RLIMIT_FSIZE is set after the first "
		 "request",
	.text = "glibc's threads block signals, and so do the library's, which "
		"make all writes of files if there is a limit at the first "
		"request. A limit that the program sets later is not noticed: "
		"where aio_write makes a write itself, the calling thread gets "
		"the signal, as with write(2).",
};

const struct difference differs_posix_mistakes = {
	.title = "Of two mistakes the other may be reported",
	.text = "A file that cannot be read or written at all may be asked by "
		"a "
		"call that looks at the buffer first.",
};

const struct difference differs_posix_opcode = {
	.title = "lio_listio refuses an unknown opcode",
	.text = "glibc makes a request of it, whichever the bits say, and "
		"reports "
		"success. Here the member has EINVAL.",
};

const struct difference differs_posix_signal = {
	.title = "A signal that cannot be queued leaves the result",
	.text = "If more signals are pending than RLIMIT_SIGPENDING allows, "
		"glibc "
		"puts EAGAIN in the place of the result of a read or write "
		"that "
		"was made, and sends nothing. Here the result stays, and the "
		"signal is sent without its value.",
};

const struct difference differs_posix_joinable = {
	.title = "A thread that calls a function need not be joined",
	.text = "With attributes (`sigev_notify_attributes`) that leave "
		"threads to "
		"be joined, which is the default, glibc keeps the stack of "
		"each "
		"such thread for ever, as nobody knows which to join. Here "
		"they "
		"are detached; all other attributes are as the program has "
		"them.",
};

static const struct difference differs_posix_fork = {
	.title = "A child of fork can use POSIX AIO",
	.text = "In glibc a child of a process with a thread for POSIX AIO "
		"waits "
		"for that thread, which it does not have. Here it starts "
		"afresh; its parent's requests are its parent's.",
};

static const struct difference differs_posix_exit = {
	.title = "Writes of POSIX AIO outlive exit",
	.text = "glibc leaves what is queued when the process exits or "
		"executes "
		"another program: of 64 MiB nothing may be on the file. Here "
		"writes that were accepted are made first.",
};

static const struct difference differs_posix_sync = {
	.title = "aio_fsync comes after all writes before it",
	.text = "glibc sorts the requests of a descriptor by `aio_reqprio`, "
		"and so "
		"executes aio_fsync before writes with a priority above 0. "
		"Here "
		"a priority is checked, and has no effect.",
};

static const struct difference differs_posix_poll = {
	.title = "aio_error and aio_return make no system call",
	.text = "glibc takes a lock, for which a program that polls competes "
		"with "
		"the threads that do the work.",
};

static const struct difference differs_posix_versions = {
	.title = "dlvsym finds glibc's functions",
	.text = "The library's functions have no version, so that programs of "
		"any "
		"age bind to them. dlvsym, and dlsym with the handle of "
		"`libc.so.6` or `librt.so.1`, find the C library's own. "
		"Requests "
		"made by these are glibc's: wait for them by these.",
};

const struct chapter chapters[] = {
	{ "What is accepted",
	  CHAPTER(&differs_quota, &differs_sync_error, &differs_terminal_poll,
		  &differs_flag_refused, &differs_strict, &differs_ring_file,
		  &differs_ring_calls, &differs_ring_hint, &differs_ring_first,
		  &differs_ring_commands, &differs_ring_child,
		  &differs_ring_sent, &differs_ring_polled,
		  &differs_ring_personality, &differs_ring_futexes) },
	{ "What requests report",
	  CHAPTER(&differs_ring_mapped, &differs_not_blocked,
		  &differs_poll_bits, &differs_poll_order,
		  &differs_fifo_packets, &differs_low_water, &differs_signals,
		  &differs_signals_direct, &differs_segments) },
	{ "The ring",
	  CHAPTER(&differs_tail, &differs_head, &differs_ring_memory) },
	{ "Descriptors and threads",
	  CHAPTER(&differs_threads, &differs_table_full) },
	{ "The end of a process", CHAPTER(&differs_killed) },
	{ "POSIX AIO, compared with glibc",
	  CHAPTER(&differs_posix_reused, &differs_posix_duplex,
		  &differs_posix_crowd, &differs_posix_cancelled,
		  &differs_posix_timeout, &differs_posix_restart,
		  &differs_posix_limit, &differs_posix_mistakes,
		  &differs_posix_opcode, &differs_posix_signal,
		  &differs_posix_joinable) },
	{ NOT_OBSERVABLE,
	  CHAPTER(&differs_time, &differs_ring_overflow, &differs_ring_limited,
		  &differs_ring_duplicate, &differs_cold_read,
		  &differs_stream_held, &differs_thread_signals,
		  &differs_closing, &differs_shutdown, &differs_handlers,
		  &differs_realtime, &differs_vfork, &differs_blocking_device,
		  &differs_old_fashion, &differs_unseen, &differs_locked,
		  &differs_code, &differs_posix_fork, &differs_posix_exit,
		  &differs_posix_sync, &differs_posix_poll,
		  &differs_posix_versions) },
	{ NULL, NULL },
};
