/* SPDX-License-Identifier: MIT */
/*
 * Tested by test-uring-setup.c, test-uring.c and test-uring-register.c.
 */
#include "uring/uring.h"

#include <errno.h>
#include <fcntl.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/table.h"
#include "op/op.h"
#include "check/check.h"
#include "ready/ready.h"
#include "life/door.h"
#include "life/life.h"
#include "uring/bell.h"
#include "uring/calls.h"
#include "uring/cq.h"
#include "uring/kbuf.h"
#include "uring/note.h"
#include "uring/ring.h"
#include "uring/rsrc.h"
#include "uring/share.h"
#include "uring/table.h"

/* Undo uaio_uring_make(), which returned fd. */
static void unmake(uint32_t fd, const struct io_uring_params *params)
{
	if (params->flags & IORING_SETUP_REGISTERED_FD_ONLY) {
		uaio_uring_unregister_place(fd);
	} else {
		(void)sys_close((int)fd);
		uaio_uring_tab_closed(fd, fd);
	}
}

static long make(struct io_uring_params *params)
{
	long ret;

	uaio_uring_tab_sweep();
	ret = uaio_uring_make(params);
	/*
	 * Open the fallback thread's descriptors now: when a request first waits, the
	 * program may have no free descriptor.
	 */
	if (ret >= 0)
		uaio_fallback_reserve();
	return ret;
}

long uaio_uring_setup(uint32_t nr_entries, struct io_uring_params *params)
{
	struct io_uring_params own;
	long ret;

	if (uaio_uring_copy_in(&own, (uintptr_t)params, sizeof(own)) < 0)
		return -EFAULT;
	ret = uaio_uring_check_params(nr_entries, &own);
	if (ret < 0)
		return ret;
	if (uaio_table_is_other())
		return -EOPNOTSUPP;
	if (!uaio_enter())
		return -EAGAIN;
	ret = uaio_engine_start();
	if (ret == 0)
		ret = make(&own);
	if (ret >= 0 &&
	    uaio_uring_copy_out((uintptr_t)params, &own, sizeof(own)) < 0) {
		unmake((uint32_t)ret, &own);
		ret = -EFAULT;
	}
	uaio_leave();
	return ret;
}

long uaio_uring_enter(uint32_t fd, uint32_t to_submit, uint32_t min_complete,
		      uint32_t flags, const void *arg, size_t arg_bytes)
{
	const struct uaio_uring_enter call = {
		.fd = fd,
		.to_submit = to_submit,
		.min_complete = min_complete,
		.flags = flags,
		.arg = arg,
		.arg_bytes = arg_bytes,
	};
	long ret;

	if (uaio_table_is_other())
		return -EOPNOTSUPP;
	if (unlikely(!uaio_enter()))
		return -EAGAIN;
	ret = uaio_uring_do_enter(&call);
	uaio_leave();
	return ret;
}

struct uaio_uring *uaio_uring_named(uint32_t fd, bool is_registered,
				    long *ret_error)
{
	struct uaio_uring *ring;

	if (is_registered) {
		*ret_error = fd >= UAIO_URING_RINGFDS_MAX ||
					     !uaio_uring_knows_thread()
				     ? -EINVAL
				     : -EBADF;
		ring = uaio_uring_registered(fd);
	} else {
		ring = uaio_uring_ask(fd);
		*ret_error = ring || sys_fcntl((int)fd, F_GETFD, 0) >= 0
				     ? -EOPNOTSUPP
				     : -EBADF;
	}
	if (likely(!ring || uaio_uring_is_here(ring)))
		return ring;
	return is_registered ? NULL : uaio_uring_adopt(fd, ring);
}

/* io_uring_register() with the descriptor -1, which needs no ring. */
static long do_register_blindly(uint32_t opcode, void *arg, uint32_t nr_args)
{
	switch (opcode) {
	case IORING_REGISTER_SEND_MSG_RING:
		return uaio_uring_send_blindly(arg, nr_args);
	case IORING_REGISTER_QUERY: return uaio_uring_query(arg, nr_args);
	default: return -EINVAL;
	}
}

static long do_register(uint32_t fd, uint32_t opcode, void *arg,
			uint32_t nr_args)
{
	bool is_registered = opcode & IORING_REGISTER_USE_REGISTERED_RING;
	struct uaio_uring *ring;
	long ret;

	opcode &= ~IORING_REGISTER_USE_REGISTERED_RING;
	if (fd == UINT32_MAX)
		return do_register_blindly(opcode, arg, nr_args);
	ring = uaio_uring_named(fd, is_registered, &ret);
	if (!ring)
		return ret;
	if (opcode == IORING_REGISTER_SYNC_CANCEL) {
		ret = uaio_uring_check_register(ring, opcode);
		if (ret < 0)
			return ret;
		if (!uaio_uring_use(ring))
			return -EBADF;
		ret = is_registered || uaio_uring_is_still(fd, ring)
			      ? uaio_uring_sync_cancel(ring, arg, nr_args)
			      : -EBADF;
		uaio_uring_unuse(ring);
		return ret;
	}
	if (!uaio_uring_hold(ring))
		return -EBADF;
	if (is_registered || uaio_uring_is_still(fd, ring))
		ret = uaio_uring_do_register(ring, opcode, arg, nr_args);
	else
		ret = -EBADF;
	/*
	 * relaxed: this thread needs to see only the timeouts that it has marked
	 * itself. The call may have posted completions of tags, which timeouts with a
	 * count also count.
	 */
	if (unlikely(load_relaxed(&ring->nr_reached)))
		uaio_uring_end_reached(ring);
	uaio_uring_release(ring);
	return ret;
}

long uaio_uring_register(uint32_t fd, uint32_t opcode, void *arg,
			 uint32_t nr_args)
{
	long ret;

	if ((opcode & ~IORING_REGISTER_USE_REGISTERED_RING) >=
	    UAIO_URING_REGISTER_END)
		return -EINVAL;
	if (uaio_table_is_other())
		return -EOPNOTSUPP;
	if (!uaio_enter())
		return -EAGAIN;
	ret = do_register(fd, opcode, arg, nr_args);
	uaio_leave();
	return ret;
}

bool uaio_uring_owns(uint32_t fd, bool is_registered)
{
	if (likely(!uaio_uring_tab_is_used()))
		return false;
	if (!is_registered)
		return uaio_uring_find(fd) != NULL;
	/*
	 * A thread's slot for registered rings may belong to a ring of the library or
	 * of the kernel. If the process has rings of the kernel, find out which
	 * (tctx.c).
	 */
	return uaio_uring_knows_thread() &&
	       (likely(!uaio_uring_has_kernels()) || uaio_uring_registered(fd));
}

bool uaio_uring_may_complete(uint32_t fd, bool is_registered)
{
	struct uaio_uring *ring = NULL;

	if (likely(!uaio_uring_tab_is_used()))
		return false;
	if (!is_registered)
		ring = uaio_uring_find(fd);
	else if (uaio_uring_knows_thread() && fd < UAIO_URING_RINGFDS_MAX)
		ring = uaio_uring_registered(fd);
	/*
	 * relaxed, all: the caller needs only a guess. The thread sees the requests
	 * that it has submitted itself.
	 */
	if (!ring || !uaio_uring_is_here(ring) ||
	    !load_relaxed(&uaio_ready_home(&ring->queue.group.ready)
				   ->ready.nr_parked))
		return false;
	if (!load_relaxed(&ring->has_waited))
		return true;
	store_relaxed(&ring->has_waited, 0);
	return false;
}

bool uaio_uring_owns_message(uint32_t fd, uint32_t opcode, const void *arg)
{
	struct io_uring_sqe sqe;

	if (likely(fd != UINT32_MAX) || !uaio_uring_tab_is_used() ||
	    (opcode & ~IORING_REGISTER_USE_REGISTERED_RING) !=
		    IORING_REGISTER_SEND_MSG_RING)
		return false;
	return uaio_uring_copy_in(&sqe, (uintptr_t)arg, sizeof(sqe)) < 0 ||
	       uaio_uring_find((uint32_t)sqe.fd);
}

bool uaio_uring_has_rings(void)
{
	return uaio_uring_tab_is_used();
}

bool uaio_uring_is_known(int fd)
{
	return fd >= 0 && uaio_uring_known((uint32_t)fd);
}

void uaio_uring_closing(int fd)
{
	if (!uaio_uring_is_known(fd) || !uaio_enter())
		return;
	uaio_uring_tab_closing((uint32_t)fd);
	uaio_leave();
}

int64_t uaio_uring_map_offset(int fd, int64_t offset)
{
	bool is_cq = offset == (int64_t)IORING_OFF_CQ_RING;
	const struct uaio_uring *ring;

	if ((!is_cq && offset != (int64_t)IORING_OFF_SQES) || fd < 0 ||
	    !uaio_uring_tab_is_used())
		return offset;
	ring = uaio_uring_ask((uint32_t)fd);
	if (!ring)
		return offset;
	return is_cq ? (int64_t)IORING_OFF_SQ_RING : ring->mem.sqes_off;
}

void uaio_uring_note_mapped(int fd, const void *at, int64_t offset)
{
	struct uaio_uring *ring;

	if (offset != (int64_t)IORING_OFF_SQ_RING || !uaio_uring_tab_is_used())
		return;
	ring = uaio_uring_ask((uint32_t)fd);
	if (ring)
		/*
		 * relaxed: race detectors use this value as an address (sink.h), and do
		 * not access the memory there
		 */
		store_relaxed(&ring->seen_at, (uintptr_t)at);
}

/* Tables of the functions by which the core calls this front-end */

static const struct uaio_op_door op_door = {
	.pick = uaio_uring_pick,
	.picked = uaio_uring_picked,
	.picked_bytes = uaio_uring_picked_bytes,
	.keep = uaio_uring_keep_rest,
	.has_rest = uaio_uring_has_rest,
	.is_last = uaio_uring_is_last,
	.has_begun = uaio_uring_has_begun,
	.pick_pieces = uaio_uring_pick_pieces,
	.picked_pieces = uaio_uring_picked_pieces,
	.goes_on = uaio_uring_bundle_goes_on,
	.land = uaio_uring_land,
};

/* The table for `uaio check`: some of these functions also report to check/. */
static const struct uaio_op_door checked_op_door = {
	.pick = uaio_uring_checked_pick,
	.picked = uaio_uring_checked_picked,
	.picked_bytes = uaio_uring_picked_bytes,
	.keep = uaio_uring_checked_keep_rest,
	.has_rest = uaio_uring_has_rest,
	.is_last = uaio_uring_is_last,
	.has_begun = uaio_uring_has_begun,
	.pick_pieces = uaio_uring_checked_pick_pieces,
	.picked_pieces = uaio_uring_checked_picked_pieces,
	.goes_on = uaio_uring_bundle_goes_on,
	.land = uaio_uring_land,
	.submitted = uaio_uring_checked_submitted,
};

static void load(void)
{
	uaio_uring_regrings_init();
}

static int start(void)
{
	uaio_urings_init();
	uaio_uring_tab_init();
	uaio_uring_cq_init();
	uaio_uring_bells_init();
	uaio_uring_notes_init();
	uaio_uring_rsrcs_init();
	uaio_uring_kbufs_init();
	uaio_uring_regrings_forget();
	uaio_op_door = uaio_check_is_on() ? &checked_op_door : &op_door;
	return 0;
}

static const struct uaio_door door = {
	.first_call = "io_uring_setup",
	.load = load,
	.start = start,
	.count = uaio_urings_count,
	.closed = uaio_uring_tab_closed,
	.forks = uaio_urings_fork,
	.yield = uaio_uring_bell_yield,
	.has_ring = uaio_uring_tab_has,
};

UAIO_DOOR(door);
