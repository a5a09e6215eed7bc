/* SPDX-License-Identifier: MIT */
/*
 * What the library has of the ABI of io_uring besides base/io_uring.h: limits, and names
 * of its own for what few calls are about
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
