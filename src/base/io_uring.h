/* SPDX-License-Identifier: MIT */
/*
 * The kernel's ABI of io_uring, up to Linux 6.18
 *
 * Names and values are the kernel's; io_uring_enter(2), io_uring_setup(2) and
 * io_uring_register(2) document them. The installed <linux/io_uring.h> may be older or
 * newer than this file, and has renamed members and constants over time. So no file of
 * the library includes the installed header. This file also defines the installed
 * header's include guard, so that header adds nothing if it is included later.
 *
 * test/abi/uring-abi.py compares this file with the installed header.
 */
#ifndef UAIO_BASE_IO_URING_H
#define UAIO_BASE_IO_URING_H

#ifdef LINUX_IO_URING_H
#error "the kernel's header of io_uring is included before ours"
#endif
#define LINUX_IO_URING_H

#include <linux/time_types.h>
#include <stdint.h>

/*
 * Submissions
 */

struct io_uring_sqe {
	uint8_t opcode;
	uint8_t flags; /* IOSQE_* */
	uint16_t ioprio;
	int32_t fd;
	union {
		uint64_t off;
		uint64_t addr2;
		struct {
			uint32_t cmd_op;
			uint32_t __pad1;
		};
	};
	union {
		uint64_t addr;
		uint64_t splice_off_in;
	};
	uint32_t len;
	union {
		uint32_t rw_flags;
		uint32_t fsync_flags;
		uint16_t poll_events;
		uint32_t poll32_events;
		uint32_t sync_range_flags;
		uint32_t msg_flags;
		uint32_t timeout_flags;
		uint32_t accept_flags;
		uint32_t cancel_flags;
		uint32_t open_flags;
		uint32_t statx_flags;
		uint32_t fadvise_advice;
		uint32_t splice_flags;
		uint32_t rename_flags;
		uint32_t unlink_flags;
		uint32_t hardlink_flags;
		uint32_t xattr_flags;
		uint32_t msg_ring_flags;
		uint32_t uring_cmd_flags;
		uint32_t waitid_flags;
		uint32_t futex_flags;
		uint32_t install_fd_flags;
		uint32_t nop_flags;
		uint32_t pipe_flags;
	};
	uint64_t user_data;
	union {
		uint16_t buf_index;
		uint16_t buf_group;
	} __attribute__((packed));
	uint16_t personality;
	union {
		int32_t splice_fd_in;
		uint32_t file_index;
		uint32_t optlen;
		struct {
			uint16_t addr_len;
			uint16_t __pad3[1];
		};
	};
	union {
		struct {
			uint64_t addr3;
			uint64_t __pad2[1];
		};
		uint64_t optval;
		/* 80 bytes if the ring has IORING_SETUP_SQE128, else 16 */
		uint8_t cmd[0];
	};
};
_Static_assert(sizeof(struct io_uring_sqe) == 64, "as the kernel's");

/* io_uring_sqe.flags */
#define IOSQE_FIXED_FILE (1u << 0)
#define IOSQE_IO_DRAIN (1u << 1)
#define IOSQE_IO_LINK (1u << 2)
#define IOSQE_IO_HARDLINK (1u << 3)
#define IOSQE_ASYNC (1u << 4)
#define IOSQE_BUFFER_SELECT (1u << 5)
#define IOSQE_CQE_SKIP_SUCCESS (1u << 6)

/* io_uring_sqe.opcode */
enum {
	IORING_OP_NOP = 0,
	IORING_OP_READV = 1,
	IORING_OP_WRITEV = 2,
	IORING_OP_FSYNC = 3,
	IORING_OP_READ_FIXED = 4,
	IORING_OP_WRITE_FIXED = 5,
	IORING_OP_POLL_ADD = 6,
	IORING_OP_POLL_REMOVE = 7,
	IORING_OP_SYNC_FILE_RANGE = 8,
	IORING_OP_SENDMSG = 9,
	IORING_OP_RECVMSG = 10,
	IORING_OP_TIMEOUT = 11,
	IORING_OP_TIMEOUT_REMOVE = 12,
	IORING_OP_ACCEPT = 13,
	IORING_OP_ASYNC_CANCEL = 14,
	IORING_OP_LINK_TIMEOUT = 15,
	IORING_OP_CONNECT = 16,
	IORING_OP_FALLOCATE = 17,
	IORING_OP_OPENAT = 18,
	IORING_OP_CLOSE = 19,
	IORING_OP_FILES_UPDATE = 20,
	IORING_OP_STATX = 21,
	IORING_OP_READ = 22,
	IORING_OP_WRITE = 23,
	IORING_OP_FADVISE = 24,
	IORING_OP_MADVISE = 25,
	IORING_OP_SEND = 26,
	IORING_OP_RECV = 27,
	IORING_OP_OPENAT2 = 28,
	IORING_OP_EPOLL_CTL = 29,
	IORING_OP_SPLICE = 30,
	IORING_OP_PROVIDE_BUFFERS = 31,
	IORING_OP_REMOVE_BUFFERS = 32,
	IORING_OP_TEE = 33,
	IORING_OP_SHUTDOWN = 34,
	IORING_OP_RENAMEAT = 35,
	IORING_OP_UNLINKAT = 36,
	IORING_OP_MKDIRAT = 37,
	IORING_OP_SYMLINKAT = 38,
	IORING_OP_LINKAT = 39,
	IORING_OP_MSG_RING = 40,
	IORING_OP_FSETXATTR = 41,
	IORING_OP_SETXATTR = 42,
	IORING_OP_FGETXATTR = 43,
	IORING_OP_GETXATTR = 44,
	IORING_OP_SOCKET = 45,
	IORING_OP_URING_CMD = 46,
	IORING_OP_SEND_ZC = 47,
	IORING_OP_SENDMSG_ZC = 48,
	IORING_OP_READ_MULTISHOT = 49,
	IORING_OP_WAITID = 50,
	IORING_OP_FUTEX_WAIT = 51,
	IORING_OP_FUTEX_WAKE = 52,
	IORING_OP_FUTEX_WAITV = 53,
	IORING_OP_FIXED_FD_INSTALL = 54,
	IORING_OP_FTRUNCATE = 55,
	IORING_OP_BIND = 56,
	IORING_OP_LISTEN = 57,
	IORING_OP_RECV_ZC = 58,
	IORING_OP_EPOLL_WAIT = 59,
	IORING_OP_READV_FIXED = 60,
	IORING_OP_WRITEV_FIXED = 61,
	IORING_OP_PIPE = 62,
};

/*
 * Flags of single operations. The flags are in rw_flags or another member of that union
 * of io_uring_sqe, unless a comment names another member.
 */

#define IORING_FSYNC_DATASYNC (1u << 0)
/* in io_uring only, in addition to the flags of splice(2) */
#define SPLICE_F_FD_IN_FIXED (1u << 31)
#define IORING_URING_CMD_FIXED (1u << 0)
#define IORING_FIXED_FD_NO_CLOEXEC (1u << 0)
/* value of io_uring_sqe.file_index */
#define IORING_FILE_INDEX_ALLOC (~0u)

#define IORING_TIMEOUT_ABS (1u << 0)
#define IORING_TIMEOUT_UPDATE (1u << 1)
#define IORING_TIMEOUT_BOOTTIME (1u << 2)
#define IORING_TIMEOUT_REALTIME (1u << 3)
#define IORING_LINK_TIMEOUT_UPDATE (1u << 4)
#define IORING_TIMEOUT_ETIME_SUCCESS (1u << 5)
#define IORING_TIMEOUT_MULTISHOT (1u << 6)
#define IORING_TIMEOUT_CLOCK_MASK \
	(IORING_TIMEOUT_BOOTTIME | IORING_TIMEOUT_REALTIME)
#define IORING_TIMEOUT_UPDATE_MASK \
	(IORING_TIMEOUT_UPDATE | IORING_LINK_TIMEOUT_UPDATE)

/* flags in io_uring_sqe.len */
#define IORING_POLL_ADD_MULTI (1u << 0)
#define IORING_POLL_UPDATE_EVENTS (1u << 1)
#define IORING_POLL_UPDATE_USER_DATA (1u << 2)
#define IORING_POLL_ADD_LEVEL (1u << 3)

#define IORING_ASYNC_CANCEL_ALL (1u << 0)
#define IORING_ASYNC_CANCEL_FD (1u << 1)
#define IORING_ASYNC_CANCEL_ANY (1u << 2)
#define IORING_ASYNC_CANCEL_FD_FIXED (1u << 3)
#define IORING_ASYNC_CANCEL_USERDATA (1u << 4)
#define IORING_ASYNC_CANCEL_OP (1u << 5)

/* flags in io_uring_sqe.ioprio */
#define IORING_RECVSEND_POLL_FIRST (1u << 0)
#define IORING_RECV_MULTISHOT (1u << 1)
#define IORING_RECVSEND_FIXED_BUF (1u << 2)
#define IORING_SEND_ZC_REPORT_USAGE (1u << 3)
#define IORING_RECVSEND_BUNDLE (1u << 4)
#define IORING_SEND_VECTORIZED (1u << 5)
#define IORING_ACCEPT_MULTISHOT (1u << 0)
#define IORING_ACCEPT_DONTWAIT (1u << 1)
#define IORING_ACCEPT_POLL_FIRST (1u << 2)

#define IORING_NOP_INJECT_RESULT (1u << 0)
#define IORING_NOP_FILE (1u << 1)
#define IORING_NOP_FIXED_FILE (1u << 2)
#define IORING_NOP_FIXED_BUFFER (1u << 3)
#define IORING_NOP_TW (1u << 4)
#define IORING_NOP_CQE32 (1u << 5)

#define IORING_MSG_RING_CQE_SKIP (1u << 0)
#define IORING_MSG_RING_FLAGS_PASS (1u << 1)
/* values of io_uring_sqe.addr */
enum { IORING_MSG_DATA = 0, IORING_MSG_SEND_FD = 1 };

/*
 * Completions
 */

struct io_uring_cqe {
	uint64_t user_data;
	int32_t res;
	uint32_t flags; /* IORING_CQE_F_* */
	/* with IORING_SETUP_CQE32 two more 64-bit words follow */
};

#define IORING_CQE_F_BUFFER (1u << 0)
#define IORING_CQE_F_MORE (1u << 1)
#define IORING_CQE_F_SOCK_NONEMPTY (1u << 2)
#define IORING_CQE_F_NOTIF (1u << 3)
#define IORING_CQE_F_BUF_MORE (1u << 4)
#define IORING_CQE_F_SKIP (1u << 5)
#define IORING_CQE_F_32 (1u << 15)

enum { IORING_CQE_BUFFER_SHIFT = 16 };

/*
 * flag in io_uring_cqe.res of a zero-copy send's notification: the kernel has copied
 * the data
 */
#define IORING_NOTIF_USAGE_ZC_COPIED (1u << 31)

/*
 * io_uring_setup()
 */

struct io_sqring_offsets {
	uint32_t head;
	uint32_t tail;
	uint32_t ring_mask;
	uint32_t ring_entries;
	uint32_t flags;
	uint32_t dropped;
	uint32_t array;
	uint32_t resv1;
	uint64_t user_addr;
};

struct io_cqring_offsets {
	uint32_t head;
	uint32_t tail;
	uint32_t ring_mask;
	uint32_t ring_entries;
	uint32_t overflow;
	uint32_t cqes;
	uint32_t flags;
	uint32_t resv1;
	uint64_t user_addr;
};

struct io_uring_params {
	uint32_t sq_entries;
	uint32_t cq_entries;
	uint32_t flags; /* IORING_SETUP_* */
	uint32_t sq_thread_cpu;
	uint32_t sq_thread_idle;
	uint32_t features; /* IORING_FEAT_* */
	uint32_t wq_fd;
	uint32_t resv[3];
	struct io_sqring_offsets sq_off;
	struct io_cqring_offsets cq_off;
};
_Static_assert(sizeof(struct io_uring_params) == 120, "as the kernel's");

#define IORING_SETUP_IOPOLL (1u << 0)
#define IORING_SETUP_SQPOLL (1u << 1)
#define IORING_SETUP_SQ_AFF (1u << 2)
#define IORING_SETUP_CQSIZE (1u << 3)
#define IORING_SETUP_CLAMP (1u << 4)
#define IORING_SETUP_ATTACH_WQ (1u << 5)
#define IORING_SETUP_R_DISABLED (1u << 6)
#define IORING_SETUP_SUBMIT_ALL (1u << 7)
#define IORING_SETUP_COOP_TASKRUN (1u << 8)
#define IORING_SETUP_TASKRUN_FLAG (1u << 9)
#define IORING_SETUP_SQE128 (1u << 10)
#define IORING_SETUP_CQE32 (1u << 11)
#define IORING_SETUP_SINGLE_ISSUER (1u << 12)
#define IORING_SETUP_DEFER_TASKRUN (1u << 13)
#define IORING_SETUP_NO_MMAP (1u << 14)
#define IORING_SETUP_REGISTERED_FD_ONLY (1u << 15)
#define IORING_SETUP_NO_SQARRAY (1u << 16)
#define IORING_SETUP_HYBRID_IOPOLL (1u << 17)
#define IORING_SETUP_CQE_MIXED (1u << 18)

#define IORING_FEAT_SINGLE_MMAP (1u << 0)
#define IORING_FEAT_NODROP (1u << 1)
#define IORING_FEAT_SUBMIT_STABLE (1u << 2)
#define IORING_FEAT_RW_CUR_POS (1u << 3)
#define IORING_FEAT_CUR_PERSONALITY (1u << 4)
#define IORING_FEAT_FAST_POLL (1u << 5)
#define IORING_FEAT_POLL_32BITS (1u << 6)
#define IORING_FEAT_SQPOLL_NONFIXED (1u << 7)
#define IORING_FEAT_EXT_ARG (1u << 8)
#define IORING_FEAT_NATIVE_WORKERS (1u << 9)
#define IORING_FEAT_RSRC_TAGS (1u << 10)
#define IORING_FEAT_CQE_SKIP (1u << 11)
#define IORING_FEAT_LINKED_FILE (1u << 12)
#define IORING_FEAT_REG_REG_RING (1u << 13)
#define IORING_FEAT_RECVSEND_BUNDLE (1u << 14)
#define IORING_FEAT_MIN_TIMEOUT (1u << 15)
#define IORING_FEAT_RW_ATTR (1u << 16)
#define IORING_FEAT_NO_IOWAIT (1u << 17)

/* offsets for mmap() */
#define IORING_OFF_SQ_RING 0ull
#define IORING_OFF_CQ_RING 0x8000000ull
#define IORING_OFF_SQES 0x10000000ull
#define IORING_OFF_PBUF_RING 0x80000000ull
#define IORING_OFF_PBUF_SHIFT 16

/* IORING_SQ_*: flags in the submission ring; IORING_CQ_*: in the completion ring */
#define IORING_SQ_NEED_WAKEUP (1u << 0)
#define IORING_SQ_CQ_OVERFLOW (1u << 1)
#define IORING_SQ_TASKRUN (1u << 2)
#define IORING_CQ_EVENTFD_DISABLED (1u << 0)

/*
 * io_uring_enter()
 */

#define IORING_ENTER_GETEVENTS (1u << 0)
#define IORING_ENTER_SQ_WAKEUP (1u << 1)
#define IORING_ENTER_SQ_WAIT (1u << 2)
#define IORING_ENTER_EXT_ARG (1u << 3)
#define IORING_ENTER_REGISTERED_RING (1u << 4)
#define IORING_ENTER_ABS_TIMER (1u << 5)
#define IORING_ENTER_EXT_ARG_REG (1u << 6)
#define IORING_ENTER_NO_IOWAIT (1u << 7)

struct io_uring_getevents_arg {
	uint64_t sigmask;
	uint32_t sigmask_sz;
	uint32_t min_wait_usec;
	uint64_t ts;
};

/*
 * io_uring_register()
 */

enum {
	IORING_REGISTER_BUFFERS = 0,
	IORING_UNREGISTER_BUFFERS = 1,
	IORING_REGISTER_FILES = 2,
	IORING_UNREGISTER_FILES = 3,
	IORING_REGISTER_EVENTFD = 4,
	IORING_UNREGISTER_EVENTFD = 5,
	IORING_REGISTER_FILES_UPDATE = 6,
	IORING_REGISTER_EVENTFD_ASYNC = 7,
	IORING_REGISTER_PROBE = 8,
	IORING_REGISTER_PERSONALITY = 9,
	IORING_UNREGISTER_PERSONALITY = 10,
	IORING_REGISTER_RESTRICTIONS = 11,
	IORING_REGISTER_ENABLE_RINGS = 12,
	IORING_REGISTER_FILES2 = 13,
	IORING_REGISTER_FILES_UPDATE2 = 14,
	IORING_REGISTER_BUFFERS2 = 15,
	IORING_REGISTER_BUFFERS_UPDATE = 16,
	IORING_REGISTER_IOWQ_AFF = 17,
	IORING_UNREGISTER_IOWQ_AFF = 18,
	IORING_REGISTER_IOWQ_MAX_WORKERS = 19,
	IORING_REGISTER_RING_FDS = 20,
	IORING_UNREGISTER_RING_FDS = 21,
	IORING_REGISTER_PBUF_RING = 22,
	IORING_UNREGISTER_PBUF_RING = 23,
	IORING_REGISTER_SYNC_CANCEL = 24,
	IORING_REGISTER_FILE_ALLOC_RANGE = 25,
	IORING_REGISTER_PBUF_STATUS = 26,
	IORING_REGISTER_NAPI = 27,
	IORING_UNREGISTER_NAPI = 28,
	IORING_REGISTER_CLOCK = 29,
	IORING_REGISTER_CLONE_BUFFERS = 30,
	IORING_REGISTER_SEND_MSG_RING = 31,
	IORING_REGISTER_ZCRX_IFQ = 32,
	IORING_REGISTER_RESIZE_RINGS = 33,
	IORING_REGISTER_MEM_REGION = 34,
	IORING_REGISTER_QUERY = 35,
};
/* flag that is ORed into the opcode of io_uring_register() */
#define IORING_REGISTER_USE_REGISTERED_RING (1u << 31)

struct io_uring_rsrc_register {
	uint32_t nr;
	uint32_t flags; /* IORING_RSRC_REGISTER_SPARSE */
	uint64_t resv2;
	uint64_t data __attribute__((aligned(8)));
	uint64_t tags __attribute__((aligned(8)));
};
#define IORING_RSRC_REGISTER_SPARSE (1u << 0)

struct io_uring_rsrc_update {
	uint32_t offset;
	uint32_t resv;
	uint64_t data __attribute__((aligned(8)));
};

struct io_uring_rsrc_update2 {
	uint32_t offset;
	uint32_t resv;
	uint64_t data __attribute__((aligned(8)));
	uint64_t tags __attribute__((aligned(8)));
	uint32_t nr;
	uint32_t resv2;
};
/*
 * in an update of registered files, in place of a descriptor: keep the slot's file
 */
#define IORING_REGISTER_FILES_SKIP (-2)

struct io_uring_probe_op {
	uint8_t op;
	uint8_t resv;
	uint16_t flags; /* IO_URING_OP_SUPPORTED */
	uint32_t resv2;
};

struct io_uring_probe {
	uint8_t last_op;
	uint8_t ops_len;
	uint16_t resv;
	uint32_t resv2[3];
	struct io_uring_probe_op ops[];
};
#define IO_URING_OP_SUPPORTED (1u << 0)

struct io_uring_restriction {
	uint16_t opcode; /* IORING_RESTRICTION_* */
	union {
		uint8_t register_op;
		uint8_t sqe_op;
		uint8_t sqe_flags;
	};
	uint8_t resv;
	uint32_t resv2[3];
};
enum {
	IORING_RESTRICTION_REGISTER_OP = 0,
	IORING_RESTRICTION_SQE_OP = 1,
	IORING_RESTRICTION_SQE_FLAGS_ALLOWED = 2,
	IORING_RESTRICTION_SQE_FLAGS_REQUIRED = 3,
	IORING_RESTRICTION_LAST = 4,
};

struct io_uring_buf {
	uint64_t addr;
	uint32_t len;
	uint16_t bid;
	uint16_t resv;
};

/* The member `tail` overlaps `resv` of the first struct io_uring_buf. */
struct io_uring_buf_ring {
	union {
		struct {
			uint64_t resv1;
			uint32_t resv2;
			uint16_t resv3;
			uint16_t tail;
		};
		struct {
			struct {
			} empty;
			struct io_uring_buf bufs[];
		};
	};
};
_Static_assert(sizeof(struct io_uring_buf_ring) == 16, "as the kernel's");

struct io_uring_buf_reg {
	uint64_t ring_addr;
	uint32_t ring_entries;
	uint16_t bgid;
	uint16_t flags;    /* IOU_PBUF_RING_* */
	uint32_t min_left; /* since Linux 7.1 */
	uint32_t resv[5];
};
_Static_assert(sizeof(struct io_uring_buf_reg) == 40, "as the kernel's");
enum { IOU_PBUF_RING_MMAP = 1, IOU_PBUF_RING_INC = 2 };

struct io_uring_buf_status {
	uint32_t buf_group;
	uint32_t head;
	uint32_t resv[8];
};

struct io_uring_sync_cancel_reg {
	uint64_t addr;
	int32_t fd;
	uint32_t flags; /* IORING_ASYNC_CANCEL_* */
	struct __kernel_timespec timeout;
	uint8_t opcode;
	uint8_t pad[7];
	uint64_t pad2[3];
};

struct io_uring_file_index_range {
	uint32_t off;
	uint32_t len;
	uint64_t resv;
};

struct io_uring_clone_buffers {
	uint32_t src_fd;
	uint32_t flags; /* IORING_REGISTER_SRC_REGISTERED, _DST_REPLACE */
	uint32_t src_off;
	uint32_t dst_off;
	uint32_t nr;
	uint32_t pad[3];
};
#define IORING_REGISTER_SRC_REGISTERED (1u << 0)
#define IORING_REGISTER_DST_REPLACE (1u << 1)

/* The header that a multishot RECVMSG writes at the start of a buffer. */
struct io_uring_recvmsg_out {
	uint32_t namelen;
	uint32_t controllen;
	uint32_t payloadlen;
	uint32_t flags;
};

/* only declared, as parameter types of functions */
struct io_uring_napi;
struct io_uring_clock_register;
struct io_uring_mem_region_reg;
struct io_uring_reg_wait;

#endif /* UAIO_BASE_IO_URING_H */
