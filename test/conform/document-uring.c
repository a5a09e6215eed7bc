/* SPDX-License-Identifier: MIT */
/* io_uring in doc/differences.md: one table of each operation, flag and call */
#include <stdio.h>

#include "document.h"

/* What the library does for each name: as the kernel, or how it differs. */
static const struct {
	const char *names, *what;
} parts[] = {
	{ "**Operations**", "" },
	{ "NOP READ READV READ_FIXED READV_FIXED WRITE WRITEV WRITE_FIXED "
	  "WRITEV_FIXED READ_MULTISHOT",
	  "as the kernel" },
	{ "FSYNC SYNC_FILE_RANGE FALLOCATE FTRUNCATE FADVISE MADVISE "
	  "FGETXATTR FSETXATTR GETXATTR SETXATTR",
	  "as the kernel" },
	{ "OPENAT OPENAT2 CLOSE STATX RENAMEAT UNLINKAT MKDIRAT SYMLINKAT "
	  "LINKAT SPLICE TEE PIPE EPOLL_CTL",
	  "as the kernel" },
	{ "FILES_UPDATE FIXED_FD_INSTALL, and what OPENAT, OPENAT2, ACCEPT, "
	  "SOCKET and PIPE put into the table",
	  "as the kernel, but that a file has a number of the process for a "
	  "moment: EMFILE where there is none left" },
	{ "POLL_ADD POLL_REMOVE",
	  "as the kernel; a multishot poll may go on where completions "
	  "overflow" },
	{ "TIMEOUT TIMEOUT_REMOVE LINK_TIMEOUT ASYNC_CANCEL", "as the kernel" },
	{ "SEND RECV SENDMSG RECVMSG",
	  "as the kernel, but that the end of a TCP connection is no more to "
	  "receive" },
	{ "SEND_ZC SENDMSG_ZC",
	  "copied, which the second completion says that asks for it, and at "
	  "once" },
	{ "ACCEPT CONNECT SHUTDOWN SOCKET BIND LISTEN",
	  "as the kernel. A socket that is not O_NONBLOCK is so for a moment "
	  "while CONNECT is made" },
	{ "URING_CMD", "of sockets: SIOCINQ, SIOCOUTQ, GETSOCKOPT with "
		       "SOL_SOCKET, SETSOCKOPT; else, with TX_TIMESTAMP for "
		       "example, EOPNOTSUPP: RECVMSG with MSG_ERRQUEUE "
		       "receives such timestamps" },
	{ "PROVIDE_BUFFERS REMOVE_BUFFERS", "as the kernel" },
	{ "MSG_RING",
	  "as the kernel, to rings of this process; to others EBADFD" },
	{ "FUTEX_WAKE", "as the kernel" },
	{ "FUTEX_WAIT FUTEX_WAITV",
	  "as the kernel, and each has a thread while it waits; more than 126 "
	  "futexes, or a mask of fewer than all bits: EINVAL. One whose thread "
	  "the limits refuse does not wait until it has one" },
	{ "WAITID",
	  "as the kernel, and each has a thread while it waits. What is not "
	  "the end of one child is looked for up to every 50 ms. "
	  "__WNOTHREAD without P_PID or P_PIDFD: EINVAL" },
	{ "EPOLL_WAIT",
	  "as the kernel; but one that is linked behind a request with "
	  "IOSQE_ASYNC waits: "
	  "the kernel's answers EAGAIN, as the same thread executes it" },
	{ "RECV_ZC", "not there: EINVAL. It is a network card's" },
	{ "**Flags of a submission**", "" },
	{ "FIXED_FILE IO_DRAIN IO_LINK IO_HARDLINK ASYNC BUFFER_SELECT "
	  "CQE_SKIP_SUCCESS",
	  "as the kernel" },
	{ "IORING_RECV_MULTISHOT IORING_ACCEPT_MULTISHOT "
	  "IORING_ACCEPT_DONTWAIT "
	  "IORING_RECVSEND_FIXED_BUF IORING_SEND_ZC_REPORT_USAGE",
	  "as the kernel" },
	{ "IORING_RECVSEND_POLL_FIRST IORING_ACCEPT_POLL_FIRST",
	  "as the kernel, but that a receive or an accept keeps its place "
	  "among those that are submitted with it, and any request that of "
	  "those of its socket that come later; and that a receive goes by "
	  "neither MSG_OOB nor SO_RCVLOWAT" },
	{ "IORING_RECVSEND_BUNDLE IORING_FEAT_RECVSEND_BUNDLE",
	  "as the kernel. That the other side of a TCP connection has shut it "
	  "down is no more to receive. With MSG_WAITALL incremental buffers "
	  "have their bytes in order. A SEND that selects no buffer has one "
	  "completion" },
	{ "IORING_SEND_VECTORIZED", "as the kernel" },
	{ "personality",
	  "that of a thread with the same credentials; else EACCES" },
	{ "**Flags of an operation**", "" },
	{ "NOP_INJECT_RESULT NOP_FILE NOP_FIXED_FILE NOP_FIXED_BUFFER NOP_TW "
	  "NOP_CQE32 FSYNC_DATASYNC SPLICE_F_FD_IN_FIXED FILE_INDEX_ALLOC "
	  "FIXED_FD_NO_CLOEXEC",
	  "as the kernel" },
	{ "TIMEOUT_ABS TIMEOUT_UPDATE TIMEOUT_BOOTTIME TIMEOUT_REALTIME "
	  "TIMEOUT_ETIME_SUCCESS TIMEOUT_MULTISHOT LINK_TIMEOUT_UPDATE",
	  "as the kernel" },
	{ "POLL_ADD_MULTI POLL_ADD_LEVEL POLL_UPDATE_EVENTS "
	  "POLL_UPDATE_USER_DATA",
	  "as the kernel" },
	{ "ASYNC_CANCEL_ALL ASYNC_CANCEL_ANY ASYNC_CANCEL_USERDATA "
	  "ASYNC_CANCEL_OP ASYNC_CANCEL_FD ASYNC_CANCEL_FD_FIXED",
	  "as the kernel, but that before Linux 6.10 a duplicate of a "
	  "descriptor may cancel nothing" },
	{ "MSG_DATA MSG_SEND_FD MSG_RING_CQE_SKIP MSG_RING_FLAGS_PASS",
	  "as the kernel" },
	{ "URING_CMD_FIXED", "as the kernel: no command of sockets uses it" },
	{ "URING_CMD_MULTISHOT RW_ATTR_FLAG_PI",
	  "not there: EINVAL. They are for commands and reads of devices" },
	{ "**What a completion says**", "" },
	{ "CQE_F_BUFFER CQE_F_BUF_MORE CQE_F_MORE CQE_F_NOTIF CQE_F_SKIP "
	  "CQE_F_32",
	  "as the kernel" },
	{ "CQE_F_SOCK_NONEMPTY", "see SEND and RECV" },
	{ "NOTIF_USAGE_ZC_COPIED", "always, where that is asked for" },
	{ "CQE_F_TSTAMP_HW", "never: see URING_CMD" },
	{ "**What a ring says**", "" },
	{ "SQ_CQ_OVERFLOW CQ_EVENTFD_DISABLED", "as the kernel" },
	{ "SQ_NEED_WAKEUP", "always, with SQPOLL" },
	{ "SQ_TASKRUN", "never: no completion waits for a call" },
	{ "FEAT_SINGLE_MMAP FEAT_NODROP FEAT_SUBMIT_STABLE FEAT_RW_CUR_POS "
	  "FEAT_CUR_PERSONALITY FEAT_FAST_POLL FEAT_POLL_32BITS "
	  "FEAT_SQPOLL_NONFIXED FEAT_EXT_ARG FEAT_NATIVE_WORKERS "
	  "FEAT_RSRC_TAGS FEAT_CQE_SKIP FEAT_LINKED_FILE FEAT_REG_REG_RING "
	  "FEAT_MIN_TIMEOUT FEAT_NO_IOWAIT",
	  "as the kernel" },
	{ "**io_uring_setup**", "" },
	{ "CQSIZE CLAMP SUBMIT_ALL R_DISABLED SINGLE_ISSUER DEFER_TASKRUN "
	  "COOP_TASKRUN TASKRUN_FLAG NO_SQARRAY SQE128 CQE32 CQE_MIXED NO_MMAP "
	  "REGISTERED_FD_ONLY ATTACH_WQ",
	  "as the kernel" },
	{ "SQPOLL SQ_AFF",
	  "without a thread: each submission asks to be woken for" },
	{ "IOPOLL HYBRID_IOPOLL", "taken, and no device is polled" },
	{ "IORING_FEAT_RW_ATTR",
	  "not set, and a read or write with attributes is refused, EINVAL: in "
	  "the kernel they are for devices that check data" },
	{ "**io_uring_enter**", "" },
	{ "GETEVENTS SQ_WAKEUP SQ_WAIT EXT_ARG EXT_ARG_REG ABS_TIMER "
	  "REGISTERED_RING",
	  "as the kernel" },
	{ "NO_IOWAIT",
	  "taken: a thread that waits here is never counted as one that waits "
	  "for a disk" },
	{ "**io_uring_register**", "" },
	{ "FILES FILES2 FILES_UPDATE FILES_UPDATE2 FILE_ALLOC_RANGE BUFFERS "
	  "BUFFERS2 BUFFERS_UPDATE CLONE_BUFFERS, with tags, "
	  "RSRC_REGISTER_SPARSE, REGISTER_FILES_SKIP, "
	  "REGISTER_SRC_REGISTERED, REGISTER_DST_REPLACE",
	  "as the kernel" },
	{ "RESTRICTION_REGISTER_OP RESTRICTION_SQE_OP "
	  "RESTRICTION_SQE_FLAGS_ALLOWED RESTRICTION_SQE_FLAGS_REQUIRED "
	  "REGISTER_USE_REGISTERED_RING",
	  "as the kernel" },
	{ "EVENTFD EVENTFD_ASYNC PROBE ENABLE_RINGS RESTRICTIONS RING_FDS "
	  "SYNC_CANCEL SEND_MSG_RING",
	  "as the kernel" },
	{ "PBUF_RING PBUF_STATUS, with PBUF_RING_MMAP and PBUF_RING_INC",
	  "as the kernel; up to 16 buffers are read ahead; an array that is "
	  "not mapped "
	  "any more is empty after these" },
	{ "PERSONALITY", "as above" },
	{ "IOWQ_AFF IOWQ_MAX_WORKERS", "for all rings of the process" },
	{ "CLOCK", "as the kernel, but that a wait for a span of time by "
		   "CLOCK_BOOTTIME does not count what the machine sleeps "
		   "through" },
	{ "RESIZE_RINGS",
	  "as the kernel, but that it tells where the array is, that an old "
	  "mapping is one of the new rings, and that a ring in memory of the "
	  "client's (NO_MMAP) is refused, EINVAL; where a limit on the size "
	  "of files keeps a ring's file small it may only become smaller "
	  "(ENOMEM). A completion of two places that would go around the end "
	  "of the new ring: EOVERFLOW" },
	{ "MEM_REGION, with MEM_REGION_TYPE_USER, MEM_REGION_REG_WAIT_ARG "
	  "and REG_WAIT_TS",
	  "as the kernel, but that memory of the client's is looked at where "
	  "it is; memory of the ring's, up to 1.5 GiB, not with NO_MMAP or a "
	  "low limit on the size of files: ENOMEM" },
	{ "QUERY", "as the kernel, of what is here" },
	{ "NAPI",
	  "not there: EINVAL. It has a thread that waits poll network cards, "
	  "and here that thread sleeps" },
	{ "ZCRX_IFQ", "not there: EINVAL. It is a network card's" },
	{ "**What is newer than Linux 6.18**", "" },
	{ "PBUF_RING with min_left", "as Linux 7.1" },
	{ "SETUP_SQE_MIXED SETUP_SQ_REWIND, operations from NOP128 on, calls "
	  "from ZCRX_CTRL on",
	  "not there: EINVAL, as in Linux 6.18" },
};

/* Paragraphs that do not fit into the table. */
static const char *const others[] = {
	"A ring's descriptor can be sent by a Unix socket, which the kernel "
	"refuses from Linux 6.7 on (EINVAL). Another process that gets one "
	"so has no ring: EOPNOTSUPP.",
	"A child of fork() that uses its parent's rings has requests of its "
	"own: it cannot cancel its parent's, nor use the files that it "
	"registered, nor does it hear of its parent's completions at once. "
	"In the kernel all of that is the ring's.",
	"A process that shares a ring and is killed, at any instruction, "
	"leaves it whole: the others go on at once, and nothing of theirs "
	"is lost or told twice. Of its own, each submission that the "
	"library had taken is told at most once, and what was not taken is "
	"the next one's to submit, perhaps the end of a chain without its "
	"beginning. In the kernel a call that has begun comes to its end, "
	"and what it submitted is told. The flag IORING_SQ_CQ_OVERFLOW may "
	"stay. One process may lose completions that it had not taken: a "
	"child that looks on while its parent resizes the ring and is "
	"killed.",
	"When the last descriptor of a ring is closed in the process that "
	"made it, the ring ends, even if another process has one, or one is "
	"under way in a socket. Descriptors of which the library has not "
	"been told are found if they are below 4096. A thread that waits "
	"meanwhile gets EBADF; in the kernel it waits on.",
	"That the other side of a TCP connection has shut it down is no "
	"more to receive (IORING_CQE_F_SOCK_NONEMPTY). The socket is asked "
	"for bytes, and only if a receive has filled its memory, or peeks: "
	"what ends at a mark, before descriptors, or where its memory does, "
	"does not tell. Those that have waited and complete together are "
	"polled for it: fewer "
	"bytes than SO_RCVLOWAT do not tell. A multishot receive polls, "
	"too, unless SO_RCVLOWAT is set when its first shot fills its "
	"memory: if it is set later, bytes that a shot leaves wait until "
	"that number is there. On TCP, a shot that takes less than there "
	"was room for is the last until more arrives: if a program sets "
	"TCP_ULP (TLS) after the first such shot, a record that a shot "
	"leaves waits until then. A stream of another kind than "
	"TCP's and Unix's, of which the kernel does not say whether it has "
	"more, may do so here. An accept does not tell whether more "
	"connections wait: that would take a call for each connection.",
	"Where a client makes no call, but looks at its ring, a request that "
	"waited for a file completes a moment after the file is ready: a "
	"thread of the library posts the completion. In the kernel the call "
	"that makes the file ready, as a write(2) to a pipe by the same "
	"thread, posts the completion before it returns. Functions of "
	"liburing's that look (io_uring_peek_cqe(), io_uring_peek_batch_cqe()) "
	"post it here, unless another thread is about to, or they find the "
	"ring empty for the first time after a wait. The library does not "
	"see those of a liburing that is linked statically.",
	"A multishot poll of an epoll ends with its next completion when a "
	"ring that is in any epoll has had a completion; in the kernel when "
	"a ring in that epoll has made it ready.",
	"A registered buffer (IORING_REGISTER_BUFFERS) is its address. A "
	"request that still waits when the program unmaps the buffer writes "
	"into what is mapped there later, or has EFAULT. In the kernel it "
	"writes into the memory that was registered. A second mapping could "
	"hold that memory only if it is shared (MAP_SHARED). The kernel "
	"duplicates no private mapping (mremap(2)), as malloc() returns, so "
	"each "
	"request would have to be copied. Cancel what waits before a buffer is "
	"unmapped.",
	"SEND_ZC copies, and its second completion comes at once.",
	"A receive of errors (MSG_ERRQUEUE) from a socket that is hung up "
	"waits for one. The kernel gives up with EAGAIN when it has tried 128 "
	"times.",
	"A bundle with IOSQE_ASYNC that sends nothing has the result 0. In the "
	"kernel it is ECANCELED, by which the kernel itself marks where many "
	"shots stop.",
	"The completions of a ring are mapped at IORING_OFF_SQ_RING, with the "
	"submission ring (IORING_FEAT_SINGLE_MMAP, which a resize reports as "
	"well). The C library's mmap() and syscall() also map them at "
	"IORING_OFF_CQ_RING. A client that ignores the feature, and maps "
	"there by an instruction of its own, gets empty memory: the library's "
	"ring is a file in memory, and no file has a page at two offsets.",
	"Kernel AIO, to which the library gives direct reads and writes "
	"(`--backend`), reports no access or modification to inotify and "
	"fanotify; the kernel's io_uring and POSIX AIO do. With "
	"`--backend=threads` or `--backend=io_uring` they are reported.",
	"A message that is cut (MSG_TRUNC, MSG_CTRUNC) does not end its chain, "
	"though all of it was asked for (MSG_WAITALL); in the kernel it does.",
	"A bundle that waits for all (MSG_WAITALL) uses its buffers when it "
	"begins to wait; in the kernel one at a time, and incremental ones "
	"of an array in the wrong places.",
	"A send of selected buffers has them when it is tried for the first "
	"time, which is after older sends of its socket that wait. In the "
	"kernel it has them at once, and waits beside the others.",
	"CONNECT sets O_NONBLOCK for the moment of the call, if the socket "
	"has it not; where a socket that listens has it not, a worker "
	"accepts when it is ready, and if another process or thread is "
	"faster, waits in the call for the next, which no cancellation "
	"ends.",
	"A thread with a descriptor table of its own gets EOPNOTSUPP.",
	"A thread that is cancelled in a wait keeps the memory of its ring "
	"until the process ends.",
	"`IORING_SETUP_IOPOLL` and `HYBRID_IOPOLL` are accepted, and the "
	"device is not polled.",
	"A ring that is resized stays where it is in its file, so an old "
	"mapping of it is one of the new rings; in the kernel it is of the "
	"old rings, to which nothing comes any more. The call tells where "
	"the array of indices is, which the kernel's of 6.18 leaves out, "
	"and asks for no call afterwards (`IORING_SQ_NEED_WAKEUP`, "
	"`IORING_SQ_TASKRUN`). A ring in memory of the client's is not "
	"resized: EINVAL. A ring whose file a limit (RLIMIT_FSIZE) keeps "
	"small, below 2176 MiB, becomes smaller only: ENOMEM. Nor does a "
	"ring become so small that a completion of two places would go "
	"around its end: EOVERFLOW.",
	"The memory region of a ring (IORING_REGISTER_MEM_REGION), if it is "
	"the client's, is looked at where the client has it: if it is "
	"unmapped, a wait fails with EFAULT. In the kernel it stays. Memory "
	"of the ring's there is not where its file is small, or with "
	"`IORING_SETUP_NO_MMAP`: ENOMEM. It is there to be mapped before it "
	"is registered.",
	"A wait that a timeout ends, by its time or its count, may end before "
	"what is linked to the timeout has begun, if another thread than the "
	"one that waits has ended it.",
	"A wait for a span of time by CLOCK_BOOTTIME "
	"(IORING_REGISTER_CLOCK) does not count the time in which the "
	"machine sleeps.",
	"Where a ring with `IORING_SETUP_CQE_MIXED` is full, the kernel of "
	"6.18 may fill up a place that its client has not read.",
	"What a submission points to is looked for by a system call and "
	"then read. If another thread unmaps it between the two, the "
	"process gets SIGSEGV; in the kernel, EFAULT.",
	"A ring needs a limit on the size of files (RLIMIT_FSIZE) in which "
	"its memory fits: else ENOMEM. If that is below 257 MiB, only a "
	"client that calls the C library's mmap finds the submissions.",
	"An epoll says of a ring that it is ready for writing even if the "
	"submission queue is full; `poll` and `select` do not. One epoll "
	"takes a ring once, by whatever number. A child of fork() that "
	"polls its parent's ring finds it always ready until it has called "
	"io_uring on it. A `poll` of more than 1024 descriptors, and a "
	"`select` of numbers above 4095 or of more than 256 rings, find "
	"rings always ready; a `poll` also those of whose number the "
	"library has not been told (by `dup`, or by a socket) until a call "
	"of io_uring or `epoll_ctl` has named it, and a request that polls "
	"a ring (IORING_OP_POLL_ADD) if the library can have no descriptor "
	"for it.",
	"A ring with `IORING_SETUP_DEFER_TASKRUN` is ready as soon as a "
	"request of it has ended; in the kernel a poll that waits hears of "
	"it when the ring's thread next asks.",
	"A ring is polled by a descriptor of the library's. If the program "
	"puts a file of its own at that number, the library takes another. "
	"An epoll that has the ring then tells of it until the ring ends: "
	"there it can neither be changed nor removed (ENOENT).",
	"A thread that is cancelled in a call that polls a ring, or leaves "
	"that call by siglongjmp(), keeps the ring's memory until the process "
	"ends.",
	"A timeout of a few nanoseconds that is submitted by the call that "
	"waits ends the wait. In the kernel it has ended before the wait "
	"begins, which then goes on.",
	"A timeout that repeats (IORING_TIMEOUT_MULTISHOT) is cancelled, "
	"however fast it does. In the kernel one that has always just ended "
	"when its client looks, on a ring with IORING_SETUP_DEFER_TASKRUN, "
	"is not found, and goes on until the ring is full.",
	"An update of a poll that the poll's own completion starts, behind a "
	"timeout that counts completions, is answered by EALREADY, and the "
	"poll goes on as it was. In the kernel it is updated.",
	"IORING_REGISTER_IOWQ_MAX_WORKERS and IORING_REGISTER_IOWQ_AFF are "
	"for the workers of all rings of the process, and the second for "
	"processors that the process had when it was loaded. A worker goes "
	"there when it next takes a work item.",
	"A file that is opened straight into the table has a number of the "
	"process's for a moment: EMFILE if none is free, or if the library "
	"can have none for it to stay. When that is closed, the process "
	"loses its record locks on the file (fcntl). With O_PATH: EBADF.",
	"An array of provided buffers (IORING_REGISTER_PBUF_RING) is looked "
	"at where the client has it: if it is unmapped, there is no buffer "
	"in it but what was read before. In the kernel it stays. Of an "
	"incremental one the library asks once, for up to 64 requests that "
	"it executes together, whether it may be written: unregister it "
	"before it is unmapped. Up to 16 "
	"of its buffers are read before they are used, and what remains of "
	"an incremental one is remembered: that a client changes one which "
	"it has given, or takes it back by its tail, is not seen.",
	"Arrays of provided buffers that clients map (IOU_PBUF_RING_MMAP) "
	"are in the ring's memory, 64 KiB apart: one that has more than "
	"4096 entries and reaches into another is refused, and so is one of "
	"a group above 2047, which no client can map (ENOMEM). The memory "
	"is there to be mapped whether there is an array or not. Where a "
	"limit on the size of files (RLIMIT_FSIZE) is below 2176 MiB, or "
	"the ring in memory of the client's, there are none: EINVAL.",
	"A child of fork() has none of the buffers that were provided to "
	"its parent's ring.",
	"A message (IORING_OP_MSG_RING) reaches the rings of the process, "
	"and those of its parent's that it has taken over: to another "
	"process's ring it is EBADFD, also if that ring's descriptor came "
	"by a socket. One to a ring with `IORING_SETUP_DEFER_TASKRUN` is "
	"there at once, and not when its thread next asks.",
	"A ring in memory of the client's (`IORING_SETUP_NO_MMAP`) that is "
	"not a shared mapping (MAP_SHARED) is used where it is: if it is "
	"unmapped before the ring has been closed, the process gets "
	"SIGSEGV. In the kernel its pages stay. An mmap of such a ring's "
	"descriptor fails with EPERM, and no array of provided buffers can "
	"be mapped by it.",
	"A submission that names a personality is refused (EACCES) unless "
	"the thread has its credentials just then.",
	"A cancellation may find no such request (ENOENT) just before the "
	"request's completion is there, if another thread completes it. Its "
	"memory is its client's again even so.",
	"A worker that waits in a call which nothing can interrupt is not "
	"cancelled: EALREADY. That is so, with IOSQE_ASYNC, for a read of "
	"an eventfd that is not O_NONBLOCK; for a write to a pipe that was "
	"spliced from, of more than it has room for; and for a splice or "
	"tee if the library can have no more descriptors, or if somebody "
	"else takes the bytes of its socket first.",
	"Where a request has more than one mistake, another of them may be "
	"its result than in the kernel, and be found before the submission "
	"of others goes on, or after. A read or receive that fails may have "
	"used up the buffer that it chose there, and say which, and not "
	"here.",
	"A receive or an accept that polls first (POLL_FIRST) keeps its "
	"place among those of its socket; in the kernel it begins behind "
	"what is submitted with it, as a send does here, too, and holds up "
	"no other, as any does here. A receive takes what "
	"there is, whatever SO_RCVLOWAT says, and one with MSG_OOB does not "
	"poll first. What is no socket, or not open for reading, or has a "
	"flag of a read that its file refuses, fails at once. All that is so "
	"of a request with many shots and IOSQE_ASYNC, "
	"too, which polls first.",
	"A read or write of a ring fails at once; in the kernel it waits "
	"until that is ready. A write with RWF_* flags to an eventfd is "
	"EOPNOTSUPP, and one to an eventfd that is full and O_NONBLOCK "
	"EAGAIN; one of no bytes succeeds whatever its flags.",
	"The last submission of a call that is linked to nothing is "
	"executed as any other, and so is a drain, and what comes behind a "
	"request with IOSQE_ASYNC. In the kernel a thread executes these, "
	"and does not wait for a file that is O_NONBLOCK or for the events "
	"of an epoll, nor mind RWF_NOWAIT, and writes all to a pipe or "
	"socket that is not O_NONBLOCK. It makes no bundle of sends "
	"(ECANCELED, when its socket is ready). With IOSQE_ASYNC "
	"REMOVE_BUFFERS finds what is provided by the first request behind a "
	"drain, submitted before it by the same call; in the kernel its "
	"thread comes before that.",
	"A read at a file's position, and a write there to a file that is "
	"O_APPEND, which meet memory that cannot be used, move the position "
	"by what they have done; so does a direct read or write, which in "
	"the kernel leaves it if the device completes it later.",
	"IORING_NOP_FILE looks for its file when it is submitted, also in a "
	"chain.",
};

void print_uring(void)
{
	printf("\n## io_uring, part by part\n\n| | here |\n|---|---|\n");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		printf("| %s | %s |\n", parts[i].names, parts[i].what);
	printf("\n### io_uring, beside its parts\n\n");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		printf("- %s\n", others[i]);
}
