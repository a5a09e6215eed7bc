/* SPDX-License-Identifier: MIT */
/*
 * The table of operations, a row for each. To add an operation:
 *
 *   op.h        name it in enum uaio_op
 *   optab.c     add its row: name, class, which arguments are copied; prep, which
 *               refuses it, and run, which makes the system call
 *   rows.h      declare prep and run; define them in a file of op/, and add that
 *               to src/meson.build
 *   a door      translate the client's number (kernel AIO's: aio/iocb.c)
 *   statistics  its name: life/report.c and include/stats.schema.json
 *
 * Only a new class of operations on files needs a column in issue/policy.c.
 *
 * Tested by test-op.c and test-call.c.
 */
#include "op/rows.h"

#include <assert.h>

const struct uaio_op_def uaio_optab[] = {
	[UAIO_OP_READ] = {
		.name = "read",
		.class = UAIO_CLASS_READ,
		.breaks = UAIO_BREAKS_BY_LESS,
		.prep = uaio_rw_prep,
		.run = uaio_rw_run_read,
	},
	[UAIO_OP_READV] = {
		.name = "readv",
		.class = UAIO_CLASS_READ,
		.is_vectored = true,
		.breaks = UAIO_BREAKS_BY_LESS,
		.prep = uaio_rw_prep,
		.run = uaio_rw_run_readv,
	},
	[UAIO_OP_WRITE] = {
		.name = "write",
		.class = UAIO_CLASS_WRITE,
		.breaks = UAIO_BREAKS_BY_LESS,
		.prep = uaio_rw_prep,
		.run = uaio_rw_run_write,
	},
	[UAIO_OP_WRITEV] = {
		.name = "writev",
		.class = UAIO_CLASS_WRITE,
		.is_vectored = true,
		.breaks = UAIO_BREAKS_BY_LESS,
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
		.is_empty = true,
		.prep = uaio_nop_prep,
		.run = uaio_nop_run,
	},
	[UAIO_OP_OPENAT] = {
		.name = "openat",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_PATH,
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
	[UAIO_OP_FALLOCATE] = {
		.name = "fallocate",
		.class = UAIO_CLASS_RESIZE,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_fallocate_prep,
		.run = uaio_fallocate_run,
	},
	[UAIO_OP_FTRUNCATE] = {
		.name = "ftruncate",
		.class = UAIO_CLASS_RESIZE,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_ftruncate_prep,
		.run = uaio_ftruncate_run,
	},
	[UAIO_OP_SYNC_FILE_RANGE] = {
		.name = "sync_file_range",
		.class = UAIO_CLASS_SYNC,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_sync_prep,
		.run = uaio_sync_run_range,
	},
	[UAIO_OP_FADVISE] = {
		.name = "fadvise",
		.class = UAIO_CLASS_ABOUT,
		.prep = uaio_nop_prep,
		.run = uaio_fadvise_run,
	},
	[UAIO_OP_FGETXATTR] = {
		.name = "fgetxattr",
		.class = UAIO_CLASS_ABOUT,
		.copies = UAIO_COPIES_ARGS,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_getxattr_prep,
		.run = uaio_fgetxattr_run,
	},
	[UAIO_OP_FSETXATTR] = {
		.name = "fsetxattr",
		.class = UAIO_CLASS_ABOUT,
		.copies = UAIO_COPIES_ARGS,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_setxattr_prep,
		.run = uaio_fsetxattr_run,
	},
	[UAIO_OP_MADVISE] = {
		.name = "madvise",
		.class = UAIO_CLASS_CALL,
		.has_no_file = true,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_nop_prep,
		.run = uaio_madvise_run,
	},
	[UAIO_OP_OPENAT2] = {
		.name = "openat2",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_ARGS,
		.has_no_file = true,
		.prep = uaio_openat2_prep,
		.run = uaio_openat2_run,
	},
	[UAIO_OP_CLOSE] = {
		.name = "close",
		.class = UAIO_CLASS_CALL,
		.has_no_file = true,
		.is_closing = true,
		.prep = uaio_nop_prep,
		.run = uaio_close_run,
	},
	[UAIO_OP_STATX] = {
		.name = "statx",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_ARGS,
		.has_no_file = true,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_statx_prep,
		.run = uaio_statx_run,
	},
	[UAIO_OP_RENAMEAT] = {
		.name = "renameat",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_ARGS,
		.has_no_file = true,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_paths_prep,
		.run = uaio_renameat_run,
	},
	[UAIO_OP_UNLINKAT] = {
		.name = "unlinkat",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_PATH,
		.has_no_file = true,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_unlinkat_prep,
		.run = uaio_unlinkat_run,
	},
	[UAIO_OP_MKDIRAT] = {
		.name = "mkdirat",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_PATH,
		.has_no_file = true,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_mkdirat_prep,
		.run = uaio_mkdirat_run,
	},
	[UAIO_OP_SYMLINKAT] = {
		.name = "symlinkat",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_ARGS,
		.has_no_file = true,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_paths_prep,
		.run = uaio_symlinkat_run,
	},
	[UAIO_OP_LINKAT] = {
		.name = "linkat",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_ARGS,
		.has_no_file = true,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_paths_prep,
		.run = uaio_linkat_run,
	},
	[UAIO_OP_GETXATTR] = {
		.name = "getxattr",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_ARGS,
		.has_no_file = true,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_getxattr_prep,
		.run = uaio_getxattr_run,
	},
	[UAIO_OP_SETXATTR] = {
		.name = "setxattr",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_ARGS,
		.has_no_file = true,
		.breaks = UAIO_BREAKS_NEVER,
		.prep = uaio_setxattr_prep,
		.run = uaio_setxattr_run,
	},
	[UAIO_OP_SPLICE] = {
		.name = "splice",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_ARGS,
		.has_no_file = true,
		.has_ends = true,
		.breaks = UAIO_BREAKS_BY_LESS,
		.prep = uaio_splice_prep,
		.run = uaio_splice_run,
	},
	[UAIO_OP_TEE] = {
		.name = "tee",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_ARGS,
		.has_no_file = true,
		.has_ends = true,
		.breaks = UAIO_BREAKS_BY_LESS,
		.prep = uaio_splice_prep,
		.run = uaio_tee_run,
	},
	[UAIO_OP_EPOLL_CTL] = {
		.name = "epoll_ctl",
		.class = UAIO_CLASS_CALL,
		.copies = UAIO_COPIES_ARGS,
		.has_no_file = true,
		.never_blocks = true,
		.prep = uaio_epoll_ctl_prep,
		.run = uaio_epoll_ctl_run,
	},
	[UAIO_OP_CALLED] = {
		.name = "called",
		.class = UAIO_CLASS_CALL,
		.has_no_file = true,
		.never_blocks = true,
		.prep = uaio_called_prep,
		.run = uaio_called_run,
	},
};
static_assert(sizeof(uaio_optab) / sizeof(uaio_optab[0]) == UAIO_NR_OPS,
	      "a row for each operation");
