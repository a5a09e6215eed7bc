/* SPDX-License-Identifier: MIT */
/* io_uring in doc/differences.md: one table of all operations, flags and calls */
#include <stdio.h>

#include "document.h"

/*
 * What the library does for each name of io_uring's interface: "as the kernel", or how
 * it differs.
 */
static const struct {
	const char *names, *what;
} parts[] = {
	{ "**Operations**", "" },
	{ "NOP READ READV READ_FIXED READV_FIXED WRITE WRITEV WRITE_FIXED "
	  "WRITEV_FIXED READ_MULTISHOT",
	  "as the kernel" },
	{ "FSYNC SYNC_FILE_RANGE FALLOCATE FTRUNCATE FADVISE MADVISE FGETXATTR "
	  "FSETXATTR GETXATTR SETXATTR",
	  "as the kernel" },
	{ "OPENAT OPENAT2 CLOSE STATX RENAMEAT UNLINKAT MKDIRAT SYMLINKAT "
	  "LINKAT SPLICE TEE PIPE EPOLL_CTL",
	  "as the kernel" },
	{ "FILES_UPDATE FIXED_FD_INSTALL, and OPENAT, OPENAT2, ACCEPT, SOCKET "
	  "and PIPE into registered files",
	  "as the kernel, but fails with EMFILE if no descriptor is free" },
	{ "POLL_ADD POLL_REMOVE",
	  "as the kernel, but a multishot poll may go on after completions "
	  "overflow, and EPOLLEXCLUSIVE has no effect" },
	{ "TIMEOUT TIMEOUT_REMOVE LINK_TIMEOUT ASYNC_CANCEL", "as the kernel" },
	{ "SEND RECV SENDMSG RECVMSG",
	  "as the kernel, but CQE_F_SOCK_NONEMPTY is set less often" },
	{ "SEND_ZC SENDMSG_ZC",
	  "copies the data; the notification comes at once" },
	{ "ACCEPT CONNECT SHUTDOWN SOCKET BIND LISTEN",
	  "as the kernel, but CONNECT sets O_NONBLOCK on the socket for a "
	  "moment" },
	{ "URING_CMD",
	  "sockets: SIOCINQ, SIOCOUTQ, GETSOCKOPT (SOL_SOCKET), SETSOCKOPT. "
	  "Others: EOPNOTSUPP. Instead of TX_TIMESTAMP, use RECVMSG with "
	  "MSG_ERRQUEUE" },
	{ "PROVIDE_BUFFERS REMOVE_BUFFERS", "as the kernel" },
	{ "MSG_RING", "as the kernel, but EBADFD to rings of other processes" },
	{ "FUTEX_WAKE", "as the kernel" },
	{ "FUTEX_WAIT FUTEX_WAITV",
	  "as the kernel, but a wait occupies a worker; 126 futexes at most; "
	  "full masks" },
	{ "WAITID",
	  "as the kernel, but occupies a worker, and may report changes 50 ms "
	  "late" },
	{ "EPOLL_WAIT",
	  "as the kernel, but waits if linked after IOSQE_ASYNC (kernel: "
	  "EAGAIN)" },
	{ "RECV_ZC", "EINVAL: only the kernel has a network card's queue" },
	{ "**Flags of a submission**", "" },
	{ "FIXED_FILE IO_DRAIN IO_LINK IO_HARDLINK ASYNC BUFFER_SELECT "
	  "CQE_SKIP_SUCCESS",
	  "as the kernel" },
	{ "IORING_RECV_MULTISHOT IORING_ACCEPT_MULTISHOT "
	  "IORING_ACCEPT_DONTWAIT IORING_RECVSEND_FIXED_BUF "
	  "IORING_SEND_ZC_REPORT_USAGE",
	  "as the kernel" },
	{ "IORING_RECVSEND_POLL_FIRST IORING_ACCEPT_POLL_FIRST",
	  "see *A receive or accept that polls first keeps its place*" },
	{ "IORING_RECVSEND_BUNDLE IORING_FEAT_RECVSEND_BUNDLE",
	  "as the kernel, but CQE_F_SOCK_NONEMPTY and buffers with MSG_WAITALL "
	  "differ: see below" },
	{ "IORING_SEND_VECTORIZED", "as the kernel" },
	{ "personality",
	  "EACCES if it differs from the submitting thread's credentials" },
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
	  "as the kernel, but before Linux 6.10 CANCEL_FD finds no "
	  "duplicates" },
	{ "MSG_DATA MSG_SEND_FD MSG_RING_CQE_SKIP MSG_RING_FLAGS_PASS",
	  "as the kernel" },
	{ "URING_CMD_FIXED", "as the kernel: no socket command uses it" },
	{ "URING_CMD_MULTISHOT RW_ATTR_FLAG_PI",
	  "EINVAL: only devices support them" },
	{ "**Flags of a completion**", "" },
	{ "CQE_F_BUFFER CQE_F_BUF_MORE CQE_F_MORE CQE_F_NOTIF CQE_F_SKIP "
	  "CQE_F_32",
	  "as the kernel" },
	{ "CQE_F_SOCK_NONEMPTY",
	  "set less often: see *IORING_CQE_F_SOCK_NONEMPTY is set less "
	  "often*" },
	{ "NOTIF_USAGE_ZC_COPIED",
	  "always set if IORING_SEND_ZC_REPORT_USAGE is set" },
	{ "CQE_F_TSTAMP_HW", "never set: see URING_CMD" },
	{ "**Flags and features of a ring**", "" },
	{ "SQ_CQ_OVERFLOW CQ_EVENTFD_DISABLED", "as the kernel" },
	{ "SQ_NEED_WAKEUP", "always set with SQPOLL" },
	{ "SQ_TASKRUN",
	  "never set: completions appear without a call of the program" },
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
	  "accepted, but no thread polls: each submission needs io_uring_enter "
	  "with SQ_WAKEUP" },
	{ "IOPOLL HYBRID_IOPOLL", "accepted, but no device is polled" },
	{ "IORING_FEAT_RW_ATTR",
	  "not set: a read or write with attributes (data integrity) fails "
	  "with EINVAL" },
	{ "**io_uring_enter**", "" },
	{ "GETEVENTS SQ_WAKEUP SQ_WAIT EXT_ARG EXT_ARG_REG ABS_TIMER "
	  "REGISTERED_RING",
	  "as the kernel" },
	{ "NO_IOWAIT",
	  "accepted without effect: waiting threads never count as iowait" },
	{ "**io_uring_register**", "" },
	{ "FILES FILES2 FILES_UPDATE FILES_UPDATE2 FILE_ALLOC_RANGE BUFFERS "
	  "BUFFERS2 BUFFERS_UPDATE CLONE_BUFFERS, with tags, "
	  "RSRC_REGISTER_SPARSE, REGISTER_FILES_SKIP, REGISTER_SRC_REGISTERED, "
	  "REGISTER_DST_REPLACE",
	  "as the kernel" },
	{ "RESTRICTION_REGISTER_OP RESTRICTION_SQE_OP "
	  "RESTRICTION_SQE_FLAGS_ALLOWED RESTRICTION_SQE_FLAGS_REQUIRED "
	  "REGISTER_USE_REGISTERED_RING",
	  "as the kernel" },
	{ "EVENTFD EVENTFD_ASYNC PROBE ENABLE_RINGS RESTRICTIONS RING_FDS "
	  "SYNC_CANCEL SEND_MSG_RING",
	  "as the kernel" },
	{ "PBUF_RING PBUF_STATUS, with PBUF_RING_MMAP and PBUF_RING_INC",
	  "as the kernel, but the library reads up to 16 entries ahead" },
	{ "PERSONALITY", "see *personality* in this table" },
	{ "IOWQ_AFF IOWQ_MAX_WORKERS",
	  "act on the workers of all rings of the process" },
	{ "CLOCK",
	  "as the kernel, but a relative wait by CLOCK_BOOTTIME does not count "
	  "suspended time" },
	{ "RESIZE_RINGS",
	  "as the kernel, but old mappings show the new ring; EINVAL with "
	  "NO_MMAP" },
	{ "MEM_REGION, with MEM_REGION_TYPE_USER, MEM_REGION_REG_WAIT_ARG and "
	  "REG_WAIT_TS",
	  "as the kernel, but at most 1.5 GiB in the ring; ENOMEM with "
	  "NO_MMAP" },
	{ "QUERY",
	  "as the kernel; the answers describe the library, not the kernel" },
	{ "NAPI", "EINVAL: only the kernel can poll network cards" },
	{ "ZCRX_IFQ", "EINVAL: only the kernel has a network card's queue" },
	{ "**What is newer than Linux 6.18**", "" },
	{ "PBUF_RING with min_left", "as in Linux 7.1" },
	{ "SETUP_SQE_MIXED SETUP_SQ_REWIND, operations from NOP128 on, calls "
	  "from ZCRX_CTRL on",
	  "EINVAL, as in Linux 6.18" },
};

/* Differences that do not fit into the table, worst first. */
static const char *const others[] = {
	"If the program unmaps a registered buffer (IORING_REGISTER_BUFFERS), "
	"a waiting request fails with EFAULT, or uses what is mapped there "
	"later. If the program protects the buffer by mprotect, requests fail "
	"with EFAULT. The kernel keeps the memory. Cancel requests before you "
	"unmap or protect their buffer.",
	"When a thread ends, requests that it has submitted go on waiting. So "
	"a "
	"receive may take data from its socket and write to memory that the "
	"thread has freed. In the kernel such a request ends with ECANCELED. "
	"Cancel requests before their thread ends.",
	"If the program unmaps an io_uring in its own memory "
	"(`IORING_SETUP_NO_MMAP`) before it closes the ring, the process gets "
	"SIGSEGV. The library keeps such memory only if it is MAP_SHARED; the "
	"kernel always does. An mmap of such a ring's descriptor fails with "
	"EPERM.",
	"If one thread unmaps what a submission points to while another "
	"submits it, the process may get SIGSEGV. In the kernel the request "
	"fails with EFAULT.",
	"If a process that shares an io_uring is killed, the other processes "
	"go on, and each of their requests completes once. The killed "
	"process's submissions complete at most once. Another process submits "
	"those that the library had not accepted, perhaps the end of a chain "
	"without its beginning. IORING_SQ_CQ_OVERFLOW may stay set. If a "
	"parent is killed while it resizes the ring, its child may lose "
	"completions. In the kernel, an io_uring_enter that has begun "
	"finishes, and its requests complete.",
	"A multishot receive may leave bytes in the socket until more arrive, "
	"in these cases:\n"
	"  - The program sets SO_RCVLOWAT after the receive's first completion "
	"filled the buffer.\n"
	"  - The program sets TCP_ULP (TLS) after a completion that did not "
	"fill the buffer.\n"
	"  - The socket is a stream other than TCP and Unix.",
	"The library reads an array of provided buffers "
	"(IORING_REGISTER_PBUF_RING) in place, up to 16 entries ahead. If the "
	"program unmaps the array, requests find only the entries already "
	"read; the kernel keeps the array. Unregister an incremental array "
	"before you unmap it. Do not change or withdraw a provided entry: the "
	"library may not notice.",
	"If the program unmaps a memory region of its own "
	"(IORING_REGISTER_MEM_REGION), a wait with arguments in the region "
	"fails with EFAULT. The kernel keeps the memory.",
	"With IOSQE_ASYNC, these requests cannot be cancelled (EALREADY):\n"
	"  - a read of an eventfd without O_NONBLOCK;\n"
	"  - a write that does not fit into a pipe from which data was "
	"spliced;\n"
	"  - a splice or tee, if the library has no free descriptor, or if "
	"someone else takes the socket's bytes first.",
	"If another process or thread takes the connection first, an accept on "
	"a socket without O_NONBLOCK blocks a worker, and cannot be cancelled.",
	"A receive with MSG_ERRQUEUE from a socket that is hung up waits for "
	"an error. In the kernel it fails with EAGAIN after 128 attempts.",
	"A read or write request on an io_uring's descriptor fails at once; in "
	"the kernel it waits until the ring is ready.",
	"A write request with RWF_* flags to an eventfd fails with EOPNOTSUPP, "
	"or with EAGAIN if the eventfd is full and O_NONBLOCK. A write of 0 "
	"bytes succeeds.",
	"io_uring calls of a thread with its own descriptor table "
	"(`unshare(CLONE_FILES)`) fail with EOPNOTSUPP.",
	"OPENAT into the table of registered files needs a free descriptor for "
	"a moment, else it fails with EMFILE. When the library closes that "
	"descriptor, the process loses its record locks on the file (fcntl). "
	"With O_PATH, the request fails with EBADF.",
	"If RLIMIT_FSIZE is below 2176 MiB, an io_uring cannot grow (ENOMEM). "
	"It also has no room for a memory region (ENOMEM) or mapped arrays of "
	"provided buffers (EINVAL). A ring with `IORING_SETUP_NO_MMAP` never "
	"has room for them, and cannot be resized (EINVAL).",
	"After a resize (IORING_REGISTER_RESIZE_RINGS), an old mapping shows "
	"the new ring; in the kernel, the old one. The resize reports the "
	"offset of the index array, which Linux 6.18 omits. It sets neither "
	"IORING_SQ_NEED_WAKEUP nor IORING_SQ_TASKRUN. A resize fails with "
	"EOVERFLOW if a 32-byte completion would wrap around the new ring's "
	"end.",
	"Arrays of provided buffers that the program maps (IOU_PBUF_RING_MMAP) "
	"are 64 KiB apart. Registering an array fails with ENOMEM if it has "
	"more than 4096 entries and overlaps another array, or if its group is "
	"above 2047. The memory for arrays, and for a memory region, can be "
	"mapped before they are registered.",
	"If a program maps IORING_OFF_CQ_RING by its own `syscall` "
	"instruction, it gets empty memory. Map at IORING_OFF_SQ_RING "
	"(IORING_FEAT_SINGLE_MMAP), or use the C library's mmap() or "
	"syscall().",
	"A message (IORING_OP_MSG_RING) can be sent to the process's rings, "
	"and to its parent's rings that the process has used after fork. To "
	"other rings it fails with EBADFD. A message reaches a ring with "
	"`IORING_SETUP_DEFER_TASKRUN` at once; in the kernel, at the next call "
	"of the ring's thread.",
	"A cancellation may fail with ENOENT just before the request's "
	"completion appears. Even so, the program may reuse the request's "
	"memory after the cancellation.",
	"A request with several errors may report another one than in the "
	"kernel, or report it earlier or later. A failed read or receive uses "
	"up no provided buffer; in the kernel it may use one up.",
	"A kernel worker lets a request fail with EAGAIN if an O_NONBLOCK file "
	"is not ready, or an epoll has no event. It ignores RWF_NOWAIT, writes "
	"all bytes to a blocking pipe or socket, and lets a bundle of sends "
	"fail with ECANCELED. The library does none of this. The kernel "
	"executes in a worker:\n"
	"  - requests with IOSQE_IO_DRAIN, and requests submitted after such a "
	"request;\n"
	"  - requests linked after one with IOSQE_ASYNC;\n"
	"  - chains that a call leaves unfinished: its last submission has "
	"IOSQE_IO_LINK.",
	"A call may submit a request with IOSQE_IO_DRAIN, then "
	"PROVIDE_BUFFERS, then REMOVE_BUFFERS with IOSQE_ASYNC. The library "
	"executes them in this order, so the provided buffers are removed. In "
	"the kernel, REMOVE_BUFFERS is executed before PROVIDE_BUFFERS, and "
	"fails with ENOENT.",
	"A request with IOSQE_ASYNC and IOSQE_FIXED_FILE uses the file that "
	"its slot has when the request is submitted. Other requests with "
	"IOSQE_ASYNC may take or change a slot, and a multishot receive may "
	"select a buffer, before the submitting call ends. In the kernel, a "
	"worker begins these requests after the call, so they find what "
	"later requests of the call have changed.",
	"A bundle (IORING_RECVSEND_BUNDLE) with IOSQE_ASYNC that sends nothing "
	"has the result 0; in the kernel, ECANCELED.",
	"A bundle that receives with MSG_WAITALL selects all its buffers when "
	"it begins to wait. The kernel selects one buffer at a time, and puts "
	"bytes into the wrong places of incremental buffers.",
	"A send with IOSQE_BUFFER_SELECT selects its buffers when it is first "
	"attempted, after older sends of its socket. In the kernel it selects "
	"them at submission.",
	"If a message of a receive with MSG_WAITALL is cut (MSG_TRUNC, "
	"MSG_CTRUNC), the receive does not break its chain; in the kernel it "
	"does.",
	"If a request at the file position meets bad memory, it moves the "
	"position by the bytes that it transferred. This holds for reads, for "
	"writes to an O_APPEND file, and for direct requests. In the kernel, a "
	"direct request that the device completes later leaves the position "
	"unchanged.",
	"If a program only reads its completion ring, a completion appears a "
	"moment after the file is ready, when a library thread posts it. In "
	"the kernel, the call that makes the file ready posts it, such as a "
	"write(2) to a pipe. With a shared liburing, io_uring_peek_cqe() and "
	"io_uring_peek_batch_cqe() usually post the completion: repeat them.",
	"An epoll reports an io_uring as writable even if its submission queue "
	"is full; `poll` and `select` do not. An epoll accepts a ring only "
	"once, even by another descriptor.",
	"In these cases a poll always reports an io_uring as ready:\n"
	"  - A `poll` has more than 1024 descriptors.\n"
	"  - A `select` has more than 256 rings, or a descriptor above 4095.\n"
	"  - A child of fork polls the ring before its first io_uring call on "
	"it.\n"
	"  - IORING_OP_POLL_ADD polls the ring, and the library has no free "
	"descriptor for it.\n"
	"  - A `poll` has a descriptor (made by `dup`, or from a socket) that "
	"no io_uring call or `epoll_ctl` has used yet.",
	"A ring with `IORING_SETUP_DEFER_TASKRUN` is ready for poll as soon as "
	"a request completes. In the kernel, a waiting poll is woken at the "
	"ring thread's next call.",
	"In an epoll, an eventfd of the library stands for an io_uring. If the "
	"program replaces this eventfd (dup2), the epoll reports the ring "
	"until the ring ends. epoll_ctl can then neither change nor remove the "
	"ring (ENOENT).",
	"A multishot poll of an epoll may end early. If meanwhile any io_uring "
	"that is in any epoll has had a completion, the poll's next completion "
	"is its last. In the kernel, the poll ends early only if a ring in the "
	"polled epoll has made that epoll ready.",
	"If another thread completes the TIMEOUT request that ends a wait, the "
	"wait may return before requests linked to the timeout have begun.",
	"If a call submits a timeout of a few nanoseconds and waits, the "
	"timeout ends the wait. In the kernel the timeout expires before the "
	"wait begins, and the wait goes on.",
	"A multishot timeout can always be cancelled. In the kernel, a very "
	"fast one on a ring with `IORING_SETUP_DEFER_TASKRUN` may not be "
	"found, and repeats until the ring is full.",
	"An update of a poll may be linked to a TIMEOUT with a count. If a "
	"completion of this poll reaches the count, the update fails with "
	"EALREADY; in the kernel it succeeds.",
	"A FUTEX_WAIT, FUTEX_WAITV, WAITID, SPLICE or TEE request that must "
	"wait occupies a worker, which `--workers` and "
	"`IORING_REGISTER_IOWQ_MAX_WORKERS` do not count, up to 4096. If the "
	"system refuses a further thread, the request does not begin to wait. "
	"WAITID reports the exit of one given child at once, "
	"other changes up to 50 ms late. WAITID with __WNOTHREAD, but without "
	"P_PID or P_PIDFD, fails with EINVAL.",
	"A SPLICE from a pipe of more than 16 pages sends to a Unix socket "
	"until about SO_SNDBUF bytes are unread. The kernel may send up to 64 "
	"KiB more.",
	"A NOP with IORING_NOP_FILE looks up its file when it is submitted, "
	"even in a chain; in the kernel, when it starts.",
	"IORING_REGISTER_IOWQ_AFF accepts only processors that the process had "
	"at its start; a worker moves to them before its next request.",
	"A full ring with `IORING_SETUP_CQE_MIXED` keeps unread completions; "
	"Linux 6.18 may overwrite one with padding.",
	"inotify and fanotify do not report direct reads and writes that the "
	"library hands to kernel AIO. They report such requests of the "
	"kernel's io_uring, of glibc's POSIX AIO, and of the library with "
	"`--backend=threads` or `--backend=io_uring`.",
	"If a thread is cancelled (pthread_cancel) while it waits for an "
	"io_uring or polls it, the ring's memory stays allocated until the "
	"process ends. The same happens if a thread leaves such a poll by "
	"siglongjmp().",
};

void print_uring(void)
{
	printf("\n## io_uring, part by part\n\n| name | uaio |\n|---|---|\n");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		printf("| %s | %s |\n", parts[i].names, parts[i].what);
	printf("\n### io_uring, beside its parts\n\n");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		printf("- %s\n", others[i]);
}
