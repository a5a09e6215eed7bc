/* SPDX-License-Identifier: MIT */
/*
 * The io_uring ABI beyond base/io_uring.h: limits, structs that old kernel headers
 * lack, and the flags that the library supports
 */
#ifndef UAIO_URING_ABI_H
#define UAIO_URING_ABI_H

#include <linux/time_types.h>
#include <stdint.h>

#include "base/io_uring.h"

enum {
	UAIO_URING_MMAP_GROUPS = 1 << 11,
	UAIO_URING_ARRAY_ENTRIES_MAX = 32768,
};

/*
 * Limits of Linux 6.18. The installed header may be older, so its IORING_OP_LAST may be
 * lower.
 */
enum {
	UAIO_URING_OPS_MAX = 256, /* an opcode is a byte */
	UAIO_URING_OP_LAST = 63,  /* in Linux 6.18 */
	UAIO_URING_SQ_ENTRIES_MAX = 32768,
	UAIO_URING_CQ_ENTRIES_MAX = 2 * UAIO_URING_SQ_ENTRIES_MAX,
	UAIO_URING_FILES_MAX = 1 << 20,
	UAIO_URING_BUFFERS_MAX = 1 << 14,
	UAIO_URING_RINGFDS_MAX = 16,
	/* greater than all opcodes of io_uring_register() */
	UAIO_URING_REGISTER_END = 36,
};

/*
 * Like struct io_uring_getevents_arg, whose third member is called pad in older
 * headers.
 */
struct uaio_uring_wait_arg {
	uint64_t sigmask;
	uint32_t sigmask_bytes;
	uint32_t min_wait_us;
	uint64_t timeout; /* struct __kernel_timespec */
};

/* Argument structs of io_uring_register(), which older kernel headers lack. */

struct uaio_uring_clock {
	uint32_t id; /* CLOCK_* */
	uint32_t resv[3];
};

struct uaio_uring_query {
	uint64_t next; /* address of the next query; or 0 */
	uint64_t data;
	uint32_t about; /* UAIO_URING_QUERY_* */
	uint32_t bytes; /* size of the data */
	int32_t result;
	uint32_t resv[3];
};

enum {
	UAIO_URING_QUERY_OPS = 0,
	UAIO_URING_QUERY_LAST = 1, /* in Linux 6.18 */
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

/*
 * The mmap() offset of a memory region (IORING_REGISTER_MEM_REGION) that is part of the
 * ring's file.
 */
#define UAIO_URING_OFF_REGION 0x20000000ull

/* uaio_uring_region_desc.flags: the client provides the memory */
enum { UAIO_URING_REGION_GIVEN = 1 };
/*
 * uaio_uring_region_reg.flags: the region holds arguments of io_uring_enter() waits
 */
enum { UAIO_URING_REGION_WAITS = 1 };

struct uaio_uring_region_desc {
	uint64_t addr;
	uint64_t bytes;
	uint32_t flags;
	uint32_t id;
	uint64_t map_offset; /* written by the library */
	uint64_t resv[4];
};

struct uaio_uring_region_reg {
	uint64_t desc; /* the address of a struct uaio_uring_region_desc */
	uint64_t flags;
	uint64_t resv[2];
};

enum {
	UAIO_URING_REG_WAIT_TIMES = 1
}; /* uaio_uring_reg_wait.flags: the client has set the member `time` */

/*
 * The arguments of one wait, which the client keeps in a memory region. With
 * IORING_ENTER_EXT_ARG_REG the client passes io_uring_enter() their offset in the
 * region.
 */
struct uaio_uring_reg_wait {
	struct __kernel_timespec time;
	uint32_t min_wait_us;
	uint32_t flags;
	uint64_t sigmask;
	uint32_t sigmask_bytes;
	uint32_t pad[3];
	uint64_t pad2[2];
};

/* The supported flags, which the library reports to clients. It refuses all others. */
enum {
	/* bits of io_uring_params.features */
	UAIO_URING_FEATURES =
		IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP |
		IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_RW_CUR_POS |
		IORING_FEAT_CUR_PERSONALITY | IORING_FEAT_FAST_POLL |
		IORING_FEAT_POLL_32BITS | IORING_FEAT_SQPOLL_NONFIXED |
		IORING_FEAT_EXT_ARG | IORING_FEAT_NATIVE_WORKERS |
		IORING_FEAT_RSRC_TAGS | IORING_FEAT_CQE_SKIP |
		IORING_FEAT_LINKED_FILE | IORING_FEAT_REG_REG_RING |
		IORING_FEAT_RECVSEND_BUNDLE | IORING_FEAT_MIN_TIMEOUT |
		IORING_FEAT_NO_IOWAIT,
	/* bits of io_uring_params.flags */
	UAIO_URING_SETUP_FLAGS =
		IORING_SETUP_IOPOLL | IORING_SETUP_SQPOLL |
		IORING_SETUP_SQ_AFF | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP |
		IORING_SETUP_ATTACH_WQ | IORING_SETUP_R_DISABLED |
		IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
		IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SINGLE_ISSUER |
		IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SQE128 |
		IORING_SETUP_CQE32 | IORING_SETUP_NO_MMAP |
		IORING_SETUP_REGISTERED_FD_ONLY | IORING_SETUP_NO_SQARRAY |
		IORING_SETUP_HYBRID_IOPOLL | IORING_SETUP_CQE_MIXED,
	/* flags of io_uring_enter() */
	UAIO_URING_ENTER_FLAGS =
		IORING_ENTER_GETEVENTS | IORING_ENTER_SQ_WAKEUP |
		IORING_ENTER_SQ_WAIT | IORING_ENTER_EXT_ARG |
		IORING_ENTER_REGISTERED_RING | IORING_ENTER_ABS_TIMER |
		IORING_ENTER_NO_IOWAIT | IORING_ENTER_EXT_ARG_REG,
	/* flags of a submission */
	UAIO_URING_SQE_FLAGS = IOSQE_FIXED_FILE | IOSQE_IO_DRAIN |
			       IOSQE_IO_LINK | IOSQE_IO_HARDLINK | IOSQE_ASYNC |
			       IOSQE_BUFFER_SELECT | IOSQE_CQE_SKIP_SUCCESS,
};

#endif /* UAIO_URING_ABI_H */
