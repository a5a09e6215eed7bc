/* SPDX-License-Identifier: MIT */
/*
 * io_uring in doc/differences.md: each operation, flag and call, in one table
 */
#include <stdio.h>

#include "document.h"

/* What a thing is here: as in the kernel, or how it differs, or what it is answered. */
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
		       "example, EOPNOTSUPP" },
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
	{ "EPOLL_WAIT", "as the kernel" },
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
	  "as the kernel, but that a request keeps its place among those of "
	  "its "
	  "socket, and that a receive goes by neither MSG_OOB nor "
	  "SO_RCVLOWAT" },
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
	{ "SETUP_SQE_MIXED SETUP_SQ_REWIND, operations from NOP128 on, calls "
	  "from ZCRX_CTRL on",
	  "not there: EINVAL, as in Linux 6.18" },
};

void print_uring(void)
{
	printf("\n## io_uring, part by part\n\n| | here |\n|---|---|\n");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		printf("| %s | %s |\n", parts[i].names, parts[i].what);
}
