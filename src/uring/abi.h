/* SPDX-License-Identifier: MIT */
/*
 * The kernel's ABI of io_uring, as far as the header of an older kernel lacks it
 *
 * Names and values are the kernel's.
 */
#ifndef UAIO_URING_ABI_H
#define UAIO_URING_ABI_H

#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <stdint.h>

/* io_uring_params.flags */
#ifndef IORING_SETUP_NO_MMAP
#define IORING_SETUP_NO_MMAP (1u << 14)
#define IORING_SETUP_REGISTERED_FD_ONLY (1u << 15)
#endif
#ifndef IORING_SETUP_NO_SQARRAY
#define IORING_SETUP_NO_SQARRAY (1u << 16)
#endif
#ifndef IORING_SETUP_CQE_MIXED
#define IORING_SETUP_CQE_MIXED (1u << 18)
#endif
#ifndef IORING_SETUP_HYBRID_IOPOLL
#define IORING_SETUP_HYBRID_IOPOLL (1u << 17)
#endif

/* io_uring_params.features */
#ifndef IORING_FEAT_REG_REG_RING
#define IORING_FEAT_REG_REG_RING (1u << 13)
#endif
#ifndef IORING_FEAT_RECVSEND_BUNDLE
#define IORING_FEAT_RECVSEND_BUNDLE (1u << 14)
#endif
#ifndef IORING_FEAT_MIN_TIMEOUT
#define IORING_FEAT_MIN_TIMEOUT (1u << 15)
#endif

#ifndef IORING_FEAT_NO_IOWAIT
#define IORING_FEAT_NO_IOWAIT (1u << 17)
#endif

/* io_uring_enter() */
#ifndef IORING_ENTER_ABS_TIMER
#define IORING_ENTER_ABS_TIMER (1u << 5)
#endif
#ifndef IORING_ENTER_EXT_ARG_REG
#define IORING_ENTER_EXT_ARG_REG (1u << 6)
#endif
#ifndef IORING_ENTER_NO_IOWAIT
#define IORING_ENTER_NO_IOWAIT (1u << 7)
#endif

/* io_uring_register(), as a flag of its opcode */
#ifndef IORING_REGISTER_USE_REGISTERED_RING
#define IORING_REGISTER_USE_REGISTERED_RING (1u << 31)
#endif

/* io_uring_register(): of 6.12 */
enum { IORING_REGISTER_CLONE_BUFFERS_ = 30 };
#define IORING_REGISTER_CLONE_BUFFERS IORING_REGISTER_CLONE_BUFFERS_
#ifndef IORING_REGISTER_SRC_REGISTERED
#define IORING_REGISTER_SRC_REGISTERED (1u << 0)
#define IORING_REGISTER_DST_REPLACE (1u << 1)
#endif

/* io_uring_sqe.len of IORING_OP_NOP, and its nop_flags (rw_flags) */
#ifndef IORING_NOP_INJECT_RESULT
#define IORING_NOP_INJECT_RESULT (1u << 0)
#endif

#ifndef IORING_NOP_FILE
#define IORING_NOP_FILE (1u << 1)
#define IORING_NOP_FIXED_FILE (1u << 2)
#define IORING_NOP_FIXED_BUFFER (1u << 3)
#endif
#ifndef IORING_NOP_TW
#define IORING_NOP_TW (1u << 4)
#endif
#ifndef IORING_NOP_CQE32
#define IORING_NOP_CQE32 (1u << 5)
#endif

/* io_uring_sqe.opcode: of 6.7, 6.8, 6.9, 6.15 and 6.16 */
enum {
	IORING_OP_READ_MULTISHOT_ = 49,
	IORING_OP_WAITID_ = 50,
	IORING_OP_FUTEX_WAIT_ = 51,
	IORING_OP_FUTEX_WAKE_ = 52,
	IORING_OP_FUTEX_WAITV_ = 53,
	IORING_OP_FIXED_FD_INSTALL_ = 54,
	IORING_OP_FTRUNCATE_ = 55,
	IORING_OP_EPOLL_WAIT_ = 59,
	IORING_OP_READV_FIXED_ = 60,
	IORING_OP_WRITEV_FIXED_ = 61,
	IORING_OP_PIPE_ = 62,
};
#define IORING_OP_READ_MULTISHOT IORING_OP_READ_MULTISHOT_
#define IORING_OP_WAITID IORING_OP_WAITID_
#define IORING_OP_EPOLL_WAIT IORING_OP_EPOLL_WAIT_
#define IORING_OP_FUTEX_WAIT IORING_OP_FUTEX_WAIT_
#define IORING_OP_FUTEX_WAKE IORING_OP_FUTEX_WAKE_
#define IORING_OP_FUTEX_WAITV IORING_OP_FUTEX_WAITV_
#define IORING_OP_FIXED_FD_INSTALL IORING_OP_FIXED_FD_INSTALL_
#define IORING_OP_FTRUNCATE IORING_OP_FTRUNCATE_
#define IORING_OP_READV_FIXED IORING_OP_READV_FIXED_
#define IORING_OP_WRITEV_FIXED IORING_OP_WRITEV_FIXED_
#define IORING_OP_PIPE IORING_OP_PIPE_

/* io_uring_sqe.install_fd_flags (rw_flags) */
#ifndef IORING_FIXED_FD_NO_CLOEXEC
#define IORING_FIXED_FD_NO_CLOEXEC (1u << 0)
#endif

/*
 * io_uring_cqe.flags: there is more of the buffer; it is none, and only takes its place;
 * it takes two places
 */
enum {
	UAIO_URING_CQE_F_BUF_MORE = 1 << 4,
	UAIO_URING_CQE_F_SKIP = 1 << 5,
	UAIO_URING_CQE_F_32 = 1 << 15,
};

/* io_uring_buf_reg, two members of which have other names in each header: of Linux 7.1 */
enum { UAIO_URING_PBUF_MMAP = 1, UAIO_URING_PBUF_INC = 2 };

struct uaio_uring_buf_reg {
	uint64_t ring_addr;
	uint32_t ring_entries;
	uint16_t bgid;
	uint16_t flags;
	uint32_t min_left;
	uint32_t resv[5];
};
_Static_assert(sizeof(struct uaio_uring_buf_reg) ==
		       sizeof(struct io_uring_buf_reg),
	       "as the kernel's");

/* Where such arrays are mapped. The number of a group is in some of the bits. */
#ifndef IORING_OFF_PBUF_RING
#define IORING_OFF_PBUF_RING 0x80000000ull
#define IORING_OFF_PBUF_SHIFT 16
#endif
enum {
	UAIO_URING_MMAP_GROUPS = 1 << 11,
	UAIO_URING_ARRAY_ENTRIES_MAX = 32768,
};

/* Of 6.8 */
enum { IORING_REGISTER_PBUF_STATUS_ = 26 };
#define IORING_REGISTER_PBUF_STATUS IORING_REGISTER_PBUF_STATUS_

struct uaio_uring_buf_status {
	uint32_t buf_group;
	uint32_t head;
	uint32_t resv[8];
};
/* io_uring_sqe.ioprio of operations of sockets */
#ifndef IORING_SEND_ZC_REPORT_USAGE
#define IORING_SEND_ZC_REPORT_USAGE (1u << 3)
#endif
#ifndef IORING_RECVSEND_BUNDLE
#define IORING_RECVSEND_BUNDLE (1u << 4)
#endif
#ifndef IORING_SEND_VECTORIZED
#define IORING_SEND_VECTORIZED (1u << 5)
#endif
#ifndef IORING_NOTIF_USAGE_ZC_COPIED
#define IORING_NOTIF_USAGE_ZC_COPIED (1u << 31)
#endif
#ifndef IORING_ACCEPT_DONTWAIT
#define IORING_ACCEPT_DONTWAIT (1u << 1)
#endif
#ifndef IORING_ACCEPT_POLL_FIRST
#define IORING_ACCEPT_POLL_FIRST (1u << 2)
#endif

/* io_uring_sqe.uring_cmd_flags */
#ifndef IORING_URING_CMD_FIXED
#define IORING_URING_CMD_FIXED (1u << 0)
#endif

/* io_uring_sqe.opcode: of 6.11 */
enum { IORING_OP_BIND_ = 56, IORING_OP_LISTEN_ = 57 };
#define IORING_OP_BIND IORING_OP_BIND_
#define IORING_OP_LISTEN IORING_OP_LISTEN_

/* io_uring_sqe.timeout_flags */
#ifndef IORING_TIMEOUT_MULTISHOT
#define IORING_TIMEOUT_MULTISHOT (1u << 6)
#endif

/* io_uring_sqe.msg_ring_flags: the completion's flags are given, too */
#ifndef IORING_MSG_RING_FLAGS_PASS
#define IORING_MSG_RING_FLAGS_PASS (1u << 1)
#endif

/* Opcodes of io_uring_register(), as numbers: newer headers have an enum. */
enum {
	UAIO_URING_REGISTER_CLOCK = 29,
	UAIO_URING_REGISTER_SEND_MSG_RING = 31,
	UAIO_URING_REGISTER_RESIZE_RINGS = 33,
	UAIO_URING_REGISTER_MEM_REGION = 34,
	UAIO_URING_REGISTER_QUERY = 35,
	UAIO_URING_REGISTER_LAST = 36, /* of 6.18 */
};

/* Of these a kernel knows, newer than the header: LAST is the header's. */
enum {
	UAIO_URING_OPS_MAX = 256, /* an opcode is a byte */
	UAIO_URING_OP_LAST = 63,  /* of 6.18 */
	UAIO_URING_SQ_ENTRIES_MAX = 32768,
	UAIO_URING_CQ_ENTRIES_MAX = 2 * UAIO_URING_SQ_ENTRIES_MAX,
	UAIO_URING_FILES_MAX = 1 << 20,
	UAIO_URING_BUFFERS_MAX = 1 << 14,
	UAIO_URING_RINGFDS_MAX = 16,
	UAIO_URING_REGISTER_END = 36, /* above those of io_uring_register */
};

/* struct io_uring_getevents_arg; older headers call its third member pad. */
struct uaio_uring_wait_arg {
	uint64_t sigmask;
	uint32_t sigmask_bytes;
	uint32_t min_wait_us;
	uint64_t timeout; /* struct __kernel_timespec */
};

/* What some of these are about. */

struct uaio_uring_clock {
	uint32_t id; /* CLOCK_* */
	uint32_t resv[3];
};

struct uaio_uring_query {
	uint64_t next; /* the address of another, or 0 */
	uint64_t data;
	uint32_t about; /* UAIO_URING_QUERY_* */
	uint32_t bytes; /* of data */
	int32_t result;
	uint32_t resv[3];
};

enum {
	UAIO_URING_QUERY_OPS = 0,
	UAIO_URING_QUERY_LAST = 1, /* of 6.18 */
};

struct uaio_uring_query_ops {
	uint32_t nr_ops;
	uint32_t nr_registers;
	uint64_t features;
	uint64_t setup_flags;
	uint64_t enter_flags;
	uint64_t sqe_flags;
	uint32_t nr_queries;
	uint32_t pad;
};

/* Where a region is mapped that the client does not give. */
#define UAIO_URING_OFF_REGION 0x20000000ull

enum { UAIO_URING_REGION_GIVEN = 1 }; /* uaio_uring_region_desc.flags */
enum { UAIO_URING_REGION_WAITS = 1 }; /* uaio_uring_region_reg.flags */

struct uaio_uring_region_desc {
	uint64_t addr;
	uint64_t bytes;
	uint32_t flags;
	uint32_t id;
	uint64_t map_offset; /* ours to write */
	uint64_t resv[4];
};

struct uaio_uring_region_reg {
	uint64_t desc; /* the address of one */
	uint64_t flags;
	uint64_t resv[2];
};

enum {
	UAIO_URING_REG_WAIT_TIMES = 1
}; /* the next struct's flags: it has a time */

/* What waits have in a region, with IORING_ENTER_EXT_ARG_REG. */
struct uaio_uring_reg_wait {
	struct __kernel_timespec time;
	uint32_t min_wait_us;
	uint32_t flags;
	uint64_t sigmask;
	uint32_t sigmask_bytes;
	uint32_t pad[3];
	uint64_t pad2[2];
};

#endif /* UAIO_URING_ABI_H */
