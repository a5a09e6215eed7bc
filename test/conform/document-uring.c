/* SPDX-License-Identifier: MIT */
/* io_uring in doc/differences.md: one table of each operation, flag and call */
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
	  "as the kernel, but needs a free descriptor for a moment, else "
	  "EMFILE" },
	{ "POLL_ADD POLL_REMOVE",
	  "as the kernel; a multishot poll may go on after completions "
	  "overflow" },
	{ "TIMEOUT TIMEOUT_REMOVE LINK_TIMEOUT ASYNC_CANCEL", "as the kernel" },
	{ "SEND RECV SENDMSG RECVMSG",
	  "as the kernel, but CQE_F_SOCK_NONEMPTY does not report that a TCP "
	  "peer has shut down" },
	{ "SEND_ZC SENDMSG_ZC",
	  "data is copied; the notification comes at once, and reports the "
	  "copy if IORING_SEND_ZC_REPORT_USAGE is set" },
	{ "ACCEPT CONNECT SHUTDOWN SOCKET BIND LISTEN",
	  "as the kernel; CONNECT sets O_NONBLOCK on the socket for a moment" },
	{ "URING_CMD",
	  "on sockets: SIOCINQ, SIOCOUTQ, GETSOCKOPT with SOL_SOCKET, "
	  "SETSOCKOPT. Others fail with EOPNOTSUPP; instead of TX_TIMESTAMP, "
	  "use RECVMSG with MSG_ERRQUEUE" },
	{ "PROVIDE_BUFFERS REMOVE_BUFFERS", "as the kernel" },
	{ "MSG_RING",
	  "as the kernel to rings of this process; EBADFD to other rings" },
	{ "FUTEX_WAKE", "as the kernel" },
	{ "FUTEX_WAIT FUTEX_WAITV",
	  "as the kernel, but each waiting request needs a thread, and waits "
	  "only from when limits allow the thread. More than 126 futexes, or a "
	  "mask that lacks a bit: EINVAL" },
	{ "WAITID",
	  "as the kernel, but a waiting request needs a thread. Except for the "
	  "exit of one given child, changes may be reported up to 50 ms late. "
	  "__WNOTHREAD without P_PID or P_PIDFD: EINVAL" },
	{ "EPOLL_WAIT",
	  "as the kernel, but a request linked after one with IOSQE_ASYNC "
	  "waits; in the kernel it fails with EAGAIN" },
	{ "RECV_ZC", "EINVAL: needs a network card's queue" },
	{ "**Flags of a submission**", "" },
	{ "FIXED_FILE IO_DRAIN IO_LINK IO_HARDLINK ASYNC BUFFER_SELECT "
	  "CQE_SKIP_SUCCESS",
	  "as the kernel" },
	{ "IORING_RECV_MULTISHOT IORING_ACCEPT_MULTISHOT "
	  "IORING_ACCEPT_DONTWAIT IORING_RECVSEND_FIXED_BUF "
	  "IORING_SEND_ZC_REPORT_USAGE",
	  "as the kernel" },
	{ "IORING_RECVSEND_POLL_FIRST IORING_ACCEPT_POLL_FIRST",
	  "as the kernel, except for the order among a socket's requests, "
	  "MSG_OOB and SO_RCVLOWAT: see *A receive or accept that polls first "
	  "keeps its place*" },
	{ "IORING_RECVSEND_BUNDLE IORING_FEAT_RECVSEND_BUNDLE",
	  "as the kernel, except CQE_F_SOCK_NONEMPTY after a TCP peer's "
	  "shutdown. With MSG_WAITALL, incremental buffers are filled in "
	  "order; in the kernel they are not" },
	{ "IORING_SEND_VECTORIZED", "as the kernel" },
	{ "personality",
	  "must match the submitting thread's credentials; else EACCES" },
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
	  "as the kernel, except for duplicates of a descriptor before Linux "
	  "6.10" },
	{ "MSG_DATA MSG_SEND_FD MSG_RING_CQE_SKIP MSG_RING_FLAGS_PASS",
	  "as the kernel" },
	{ "URING_CMD_FIXED", "as the kernel: no socket command uses it" },
	{ "URING_CMD_MULTISHOT RW_ATTR_FLAG_PI", "EINVAL: for devices only" },
	{ "**Flags of a completion**", "" },
	{ "CQE_F_BUFFER CQE_F_BUF_MORE CQE_F_MORE CQE_F_NOTIF CQE_F_SKIP "
	  "CQE_F_32",
	  "as the kernel" },
	{ "CQE_F_SOCK_NONEMPTY", "see SEND and RECV" },
	{ "NOTIF_USAGE_ZC_COPIED",
	  "always set if IORING_SEND_ZC_REPORT_USAGE is" },
	{ "CQE_F_TSTAMP_HW", "never set: see URING_CMD" },
	{ "**Flags and features of a ring**", "" },
	{ "SQ_CQ_OVERFLOW CQ_EVENTFD_DISABLED", "as the kernel" },
	{ "SQ_NEED_WAKEUP", "always set with SQPOLL" },
	{ "SQ_TASKRUN", "never set: completions need no call of the program" },
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
	  "accepted, but no thread polls: each submission needs a call with "
	  "SQ_WAKEUP" },
	{ "IOPOLL HYBRID_IOPOLL", "accepted, but no device is polled" },
	{ "IORING_FEAT_RW_ATTR",
	  "not set; a read or write with attributes, for devices that check "
	  "data, fails with EINVAL" },
	{ "**io_uring_enter**", "" },
	{ "GETEVENTS SQ_WAKEUP SQ_WAIT EXT_ARG EXT_ARG_REG ABS_TIMER "
	  "REGISTERED_RING",
	  "as the kernel" },
	{ "NO_IOWAIT",
	  "accepted, without effect: waiting threads never count as iowait" },
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
	  "as the kernel, but up to 16 entries are read ahead; if the array is "
	  "unmapped, only these remain" },
	{ "PERSONALITY", "see *personality* above" },
	{ "IOWQ_AFF IOWQ_MAX_WORKERS", "apply to all rings of the process" },
	{ "CLOCK",
	  "as the kernel, but a relative wait by CLOCK_BOOTTIME does not count "
	  "the machine's sleep" },
	{ "RESIZE_RINGS",
	  "as the kernel, but old mappings show the new ring; EINVAL with "
	  "NO_MMAP; ENOMEM with a low RLIMIT_FSIZE" },
	{ "MEM_REGION, with MEM_REGION_TYPE_USER, MEM_REGION_REG_WAIT_ARG and "
	  "REG_WAIT_TS",
	  "as the kernel, but memory of the program is used in place. Memory "
	  "of the ring, up to 1.5 GiB: ENOMEM with a low RLIMIT_FSIZE or "
	  "NO_MMAP" },
	{ "QUERY", "as the kernel; the answers describe the library" },
	{ "NAPI", "EINVAL: only the kernel can poll network cards" },
	{ "ZCRX_IFQ", "EINVAL: needs a network card's queue" },
	{ "**What is newer than Linux 6.18**", "" },
	{ "PBUF_RING with min_left", "as Linux 7.1" },
	{ "SETUP_SQE_MIXED SETUP_SQ_REWIND, operations from NOP128 on, calls "
	  "from ZCRX_CTRL on",
	  "EINVAL, as in Linux 6.18" },
};

/* Differences that do not fit into the table, worst first. */
static const char *const others[] = {
	"If the program unmaps a registered buffer (IORING_REGISTER_BUFFERS), "
	"a waiting request fails with EFAULT, or writes into what is mapped "
	"there later. The library keeps only the buffer's address; the kernel "
	"keeps the memory. Cancel requests before you unmap a buffer.",
	"If the program unmaps an io_uring in its own memory "
	"(`IORING_SETUP_NO_MMAP`) before it closes the ring, the process gets "
	"SIGSEGV. The kernel keeps such memory; the library keeps it only if "
	"it is MAP_SHARED. An mmap of the descriptor of such a ring fails with "
	"EPERM.",
	"If one thread unmaps what a submission points to while another "
	"submits it, the process may get SIGSEGV. In the kernel the request "
	"fails with EFAULT.",
	"If a process that shares an io_uring is killed, the others go on, and "
	"each of their requests completes once. The killed process's "
	"submissions complete at most once if the library had accepted them. "
	"Another process submits the rest, perhaps the end of a chain without "
	"its beginning. In the kernel, an io_uring_enter that has begun "
	"finishes, and its requests complete. IORING_SQ_CQ_OVERFLOW may stay "
	"set. If a parent is killed while it resizes the ring, its child may "
	"lose completions.",
	"A multishot receive may leave bytes in the socket until more arrive, "
	"in these cases:\n"
	"  - SO_RCVLOWAT is set after the receive's first completion filled "
	"the buffer.\n"
	"  - TCP_ULP (TLS) is set after a completion that did not fill the "
	"buffer.\n"
	"  - The socket is a stream other than TCP and Unix.",
	"If the program unmaps an array of provided buffers "
	"(IORING_REGISTER_PBUF_RING), requests find only the entries that were "
	"read ahead, up to 16. The kernel keeps the array; the library reads "
	"it in place. Do not change an entry that you have provided, or "
	"withdraw it by decreasing the tail: the library may not notice. "
	"Unregister an incremental array before you unmap it: the library "
	"checks its memory only once for up to 64 requests.",
	"If the program unmaps a memory region of its own "
	"(IORING_REGISTER_MEM_REGION), a wait with arguments in the region "
	"fails with EFAULT; the kernel keeps the memory. A region in the "
	"ring's memory can be mapped before it is registered.",
	"With IOSQE_ASYNC, these requests cannot be cancelled (EALREADY):\n"
	"  - a read of an eventfd without O_NONBLOCK;\n"
	"  - a write that does not fit into a pipe from which data was "
	"spliced;\n"
	"  - a splice or tee, if the library has no free descriptor, or if "
	"someone else takes the socket's bytes first.",
	"An accept on a socket without O_NONBLOCK blocks a worker, and cannot "
	"be cancelled, if another process or thread takes the connection "
	"first.",
	"A receive with MSG_ERRQUEUE from a socket that is hung up waits for "
	"an error; in the kernel it fails with EAGAIN after 128 attempts.",
	"A read or write request on an io_uring's descriptor fails at once; in "
	"the kernel it waits until the ring is ready.",
	"A write request with RWF_* flags to an eventfd fails with EOPNOTSUPP, "
	"or with EAGAIN if the eventfd is full and O_NONBLOCK. If such a "
	"request writes 0 bytes, it succeeds.",
	"io_uring calls of a thread with its own descriptor table "
	"(`unshare(CLONE_FILES)`) fail with EOPNOTSUPP.",
	"OPENAT into the table of registered files needs a free descriptor for "
	"a moment (else EMFILE). When the library closes that descriptor, the "
	"process loses its record locks on the file (fcntl). With O_PATH, the "
	"request fails with EBADF.",
	"If RLIMIT_FSIZE is below 2176 MiB, an io_uring cannot become larger "
	"(ENOMEM). Its memory then has no room for a memory region (ENOMEM) or "
	"mapped arrays of provided buffers (EINVAL). A ring with "
	"`IORING_SETUP_NO_MMAP` never has room for them, and any resize of it "
	"fails with EINVAL.",
	"After a resize (IORING_REGISTER_RESIZE_RINGS), an old mapping shows "
	"the new ring; in the kernel it shows the abandoned old ring. The "
	"resize reports the offset of the index array, which Linux 6.18 omits, "
	"and sets neither IORING_SQ_NEED_WAKEUP nor IORING_SQ_TASKRUN. A "
	"resize fails with EOVERFLOW if a 32-byte completion would wrap around "
	"the new ring's end.",
	"Arrays of provided buffers that the program maps (IOU_PBUF_RING_MMAP) "
	"are 64 KiB apart. An array fails with ENOMEM if it has more than 4096 "
	"entries and overlaps another array, or if its group is above 2047. "
	"The memory can be mapped even if no array is registered.",
	"If a program maps IORING_OFF_CQ_RING by its own `syscall` "
	"instruction, it gets empty memory. Map at IORING_OFF_SQ_RING "
	"(IORING_FEAT_SINGLE_MMAP), or use the C library's mmap() or "
	"syscall().",
	"A message (IORING_OP_MSG_RING) reaches the process's rings, and those "
	"of its parent that it uses after fork; to other rings it fails with "
	"EBADFD. A message reaches a ring with `IORING_SETUP_DEFER_TASKRUN` at "
	"once; in the kernel, at the next call of the ring's thread.",
	"A cancellation may fail with ENOENT just before the request's "
	"completion appears. After the cancellation, the program may reuse the "
	"request's memory even so.",
	"A request with several errors may report another of these errors than "
	"in the kernel, and report it earlier or later. A failed read or "
	"receive uses up no selected buffer; in the kernel it may use one up.",
	"Workers of the kernel execute these requests; the library executes "
	"them like any others:\n"
	"  - drained requests (IOSQE_IO_DRAIN);\n"
	"  - requests linked after a request with IOSQE_ASYNC;\n"
	"  - chains whose last submission in a call has IOSQE_IO_LINK.\n"
	"\n"
	"  A kernel worker does not wait for O_NONBLOCK files or an epoll's "
	"events, ignores RWF_NOWAIT, and writes all to a blocking pipe or "
	"socket. A bundle of sends fails there with ECANCELED.",
	"If one call submits a drained request, PROVIDE_BUFFERS after it, and "
	"then REMOVE_BUFFERS with IOSQE_ASYNC, the latter removes the provided "
	"buffers. In the kernel REMOVE_BUFFERS is executed before "
	"PROVIDE_BUFFERS.",
	"A bundle (IORING_RECVSEND_BUNDLE) with IOSQE_ASYNC that sends nothing "
	"has the result 0; in the kernel, ECANCELED.",
	"A bundle that receives with MSG_WAITALL selects all its buffers when "
	"it begins to wait. The kernel selects one buffer at a time, and puts "
	"bytes into the wrong places of incremental buffers.",
	"A send with IOSQE_BUFFER_SELECT selects its buffers at its first "
	"attempt, after older sends of its socket; in the kernel, at once.",
	"A receive with MSG_WAITALL whose message was cut (MSG_TRUNC, "
	"MSG_CTRUNC) does not break its chain; in the kernel it does.",
	"If a request at the file position meets bad memory, it moves the "
	"position by the bytes that it transferred. This holds for reads, for "
	"writes to an O_APPEND file, and for direct reads and writes. In the "
	"kernel, a direct request that the device completes later leaves the "
	"position.",
	"If a program only reads its completion ring, a completion appears a "
	"moment after the file is ready, when a library thread posts it. In "
	"the kernel the call that makes the file ready, such as a write(2) to "
	"a pipe, posts it. With a shared liburing, repeat io_uring_peek_cqe() "
	"or io_uring_peek_batch_cqe(): these calls usually post the "
	"completion.",
	"An epoll reports an io_uring as writable even if its submission queue "
	"is full; `poll` and `select` do not. An epoll accepts a ring once, by "
	"whatever descriptor.",
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
	"The library polls an io_uring by a descriptor of its own. If the "
	"program replaces this descriptor, an epoll that has the ring reports "
	"the ring until it ends. The epoll can then neither change nor remove "
	"the ring (ENOENT).",
	"If an io_uring that is in any epoll has had a completion, a multishot "
	"poll of an epoll ends with its next completion. In the kernel the "
	"poll ends only after a ring in the polled epoll has made that epoll "
	"ready.",
	"If another thread completes the TIMEOUT request that ends a wait, the "
	"wait may return before requests linked to the timeout have begun.",
	"If a call submits a timeout of a few nanoseconds and waits, the "
	"timeout ends the wait. In the kernel it expires before the wait "
	"begins, which then goes on.",
	"A multishot timeout can be cancelled, however fast it is. In the "
	"kernel, a very fast timeout on a ring with "
	"`IORING_SETUP_DEFER_TASKRUN` may not be found, and repeats until the "
	"ring is full.",
	"If a poll's completion reaches a timeout's count, an update of this "
	"poll that is linked to the timeout fails with EALREADY. In the kernel "
	"the update succeeds.",
	"A NOP with IORING_NOP_FILE looks up its file when it is submitted, "
	"even in a chain.",
	"IORING_REGISTER_IOWQ_MAX_WORKERS and IORING_REGISTER_IOWQ_AFF act on "
	"the workers of all rings of the process. IORING_REGISTER_IOWQ_AFF "
	"accepts only processors that the process had at its start; a worker "
	"moves before its next work item.",
	"A full ring with `IORING_SETUP_CQE_MIXED` keeps unread completions; "
	"Linux 6.18 may overwrite one with padding.",
	"inotify and fanotify do not report direct reads and writes that the "
	"library hands to kernel AIO. With the kernel's io_uring and glibc's "
	"POSIX AIO, such requests are reported. With `--backend=threads` or "
	"`--backend=io_uring`, the library's are reported, too.",
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
