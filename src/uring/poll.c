/* SPDX-License-Identifier: MIT */
/*
 * Polls and epoll operations: adding, removing and changing
 *
 * Tested by test-uring-ops.c, test-uring-cancel.c and test-uring-calls.c.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "flow/cancel.h"
#include "uring/cancel.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/sq.h"

/* All checks below are in the order in which the kernel makes them. */

/*
 * Return: the events of poll(2) in the submission's poll32_events. The upper half has
 * flags of epoll, which say how the kernel should wait.
 */
static uint64_t events_of(const struct io_uring_sqe *raw)
{
	return raw->poll32_events & 0xffff;
}

int uaio_uring_prep_poll_add(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->buf_index || raw->off || raw->addr ||
	    raw->len & ~IORING_POLL_ADD_MULTI)
		return -EINVAL;
	if (raw->len & IORING_POLL_ADD_MULTI &&
	    raw->flags & IOSQE_CQE_SKIP_SUCCESS)
		return -EINVAL;
	if (!uaio_uring_note_for(entry))
		return -ENOMEM;
	entry->sqe.events = events_of(raw);
	/* EPOLLONESHOT makes even a multishot poll report once. */
	entry->sqe.is_multishot = raw->len & IORING_POLL_ADD_MULTI &&
				  !(raw->poll32_events & EPOLLONESHOT);
	return 0;
}

int uaio_uring_prep_poll_remove(struct uaio_uring_entry *entry)
{
	const uint32_t updates =
		IORING_POLL_UPDATE_EVENTS | IORING_POLL_UPDATE_USER_DATA;
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->buf_index || raw->splice_fd_in ||
	    raw->len & ~(updates | IORING_POLL_ADD_MULTI) ||
	    raw->len == IORING_POLL_ADD_MULTI)
		return -EINVAL;
	if (!(raw->len & IORING_POLL_UPDATE_USER_DATA) && raw->off)
		return -EINVAL;
	if (!(raw->len & IORING_POLL_UPDATE_EVENTS) && raw->poll32_events)
		return -EINVAL;
	return uaio_uring_call_for(entry, raw->len & updates
						  ? UAIO_URING_POLL_UPDATE
						  : UAIO_URING_POLL_REMOVE);
}

/*
 * Changing a poll
 */

int uaio_uring_update_poll(struct uaio_uring *ring,
			   struct uaio_uring_change *change)
{
	const uint32_t flags = change->aim.flags;
	const struct uaio_poll_change polls = {
		.data = change->aim.user_data,
		.new_data = change->new_data,
		.events = change->events,
		.sets_data = flags & IORING_POLL_UPDATE_USER_DATA,
		.sets_events = flags & IORING_POLL_UPDATE_EVENTS,
	};
	int ret;

	list_init(&change->changed);
	ret = uaio_queue_change_poll(&ring->queue, &polls, &change->changed);
	change->has_changed = ret == 0;
	return ret;
}

/*
 * Epolls
 */

int uaio_uring_prep_epoll_ctl(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);

	if (raw->buf_index || raw->splice_fd_in)
		return -EINVAL;
	args->what = raw->len;
	args->fd = (int)raw->off;
	args->in = uaio_uring_pointer(raw->addr);
	return 0;
}

int uaio_uring_prep_epoll_wait(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->off || raw->rw_flags || raw->buf_index || raw->splice_fd_in)
		return -EINVAL;
	entry->sqe.off = UAIO_OFF_POSITION;
	entry->sqe.buf = uaio_uring_pointer(raw->addr);
	entry->sqe.len = raw->len;
	return 0;
}
