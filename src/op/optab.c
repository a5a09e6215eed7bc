/* SPDX-License-Identifier: MIT */
/* Tested by test-op.c. */
#include "op/rows.h"

#include <assert.h>

const struct uaio_op_def uaio_optab[] = {
	[UAIO_OP_READ] = {
		.name = "read",
		.class = UAIO_CLASS_READ,
		.prep = uaio_rw_prep,
		.run = uaio_rw_run_read,
	},
	[UAIO_OP_READV] = {
		.name = "readv",
		.class = UAIO_CLASS_READ,
		.is_vectored = true,
		.prep = uaio_rw_prep,
		.run = uaio_rw_run_readv,
	},
	[UAIO_OP_WRITE] = {
		.name = "write",
		.class = UAIO_CLASS_WRITE,
		.prep = uaio_rw_prep,
		.run = uaio_rw_run_write,
	},
	[UAIO_OP_WRITEV] = {
		.name = "writev",
		.class = UAIO_CLASS_WRITE,
		.is_vectored = true,
		.prep = uaio_rw_prep,
		.run = uaio_rw_run_writev,
	},
	[UAIO_OP_FSYNC] = {
		.name = "fsync",
		.class = UAIO_CLASS_SYNC,
		.prep = uaio_sync_prep,
		.run = uaio_sync_run_fsync,
	},
	[UAIO_OP_FDSYNC] = {
		.name = "fdsync",
		.class = UAIO_CLASS_SYNC,
		.prep = uaio_sync_prep,
		.run = uaio_sync_run_fdsync,
	},
	[UAIO_OP_POLL] = {
		.name = "poll",
		.class = UAIO_CLASS_POLL,
		.prep = uaio_poll_prep,
		.run = uaio_poll_run,
	},
	[UAIO_OP_NOP] = {
		.name = "nop",
		.class = UAIO_CLASS_CALL,
		.has_no_file = true,
		.never_blocks = true,
		.prep = uaio_nop_prep,
		.run = uaio_nop_run,
	},
	[UAIO_OP_OPENAT] = {
		.name = "openat",
		.class = UAIO_CLASS_CALL,
		.has_path = true,
		.has_no_file = true,
		.prep = uaio_openat_prep,
		.run = uaio_openat_run,
	},
	[UAIO_OP_TIMER] = {
		.name = "timer",
		.class = UAIO_CLASS_TIMER,
		.has_no_file = true,
		.prep = uaio_timer_prep,
		.run = uaio_timer_run,
	},
	[UAIO_OP_LINK_TIMER] = {
		.name = "link timer",
		.class = UAIO_CLASS_TIMER,
		.has_no_file = true,
		.prep = uaio_timer_prep,
		.run = uaio_timer_run,
	},
};
static_assert(sizeof(uaio_optab) / sizeof(uaio_optab[0]) == UAIO_NR_OPS,
	      "a row for each operation");
