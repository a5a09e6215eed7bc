/* SPDX-License-Identifier: MIT */
/*
 * Polls and epoll operations: adding, removing and changing
 *
 * Tested by test-uring-ops.c, test-uring-cancel.c and test-uring-calls.c.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "base/check.h"
#include "file/file.h"
#include "flow/cancel.h"
#include "issue/submit.h"
#include "uring/cancel.h"
#include "uring/cq.h"
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

struct by_update {
	struct uaio_cancel_aim aim;
	struct uaio_uring *ring;
	uint64_t user_data;
	struct found {
		struct uaio_sqe sqe;
		struct uaio_file *file; /* shares (ref); or NULL */
		bool skips;
	} * found;
};

/*
 * Return: whether sqe is the poll to change. If so, copy the poll to update->found.
 * Caller holds the queue's lock.
 */
static bool is_poll(const struct uaio_cancel_aim *aim,
		    const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const struct by_update *update =
		container_of(aim, const struct by_update, aim);
	struct uaio_file *own = (struct uaio_file *)(uintptr_t)file;

	if (sqe->op != UAIO_OP_POLL || sqe->data != update->user_data ||
	    update->found->file || !own || !uaio_file_try_get(own))
		return false;
	update->found->sqe = *sqe;
	update->found->file = own;
	update->found->skips = uaio_uring_note_of(sqe->word)->skips;
	update->ring->updating = uaio_uring_note_of(sqe->word);
	return true;
}

/* Return: whether this thread may now change a poll. Only one thread at a time may. */
static bool begin_update(struct uaio_uring *ring)
{
	bool is_free;

	uaio_queue_lock(&ring->queue);
	is_free = !ring->is_updating;
	ring->is_updating = true;
	uaio_queue_unlock(&ring->queue);
	return is_free;
}

/*
 * End the change of a poll. Return: whether note.c has left out the cancelled poll's
 * completion.
 */
static bool end_update(struct uaio_uring *ring)
{
	bool was_hidden;

	uaio_queue_lock(&ring->queue);
	was_hidden = ring->was_hidden;
	ring->was_hidden = ring->is_updating = false;
	ring->updating = NULL;
	uaio_queue_unlock(&ring->queue);
	return was_hidden;
}

static void submit_again(struct uaio_uring *ring, const struct found *found)
{
	struct uaio_uring_note *note = uaio_uring_note_new();
	struct uaio_sqe sqe = found->sqe;
	struct uaio_batch batch;
	int ret = -ENOMEM;

	sqe.links = 0;
	sqe.word = (uintptr_t)note;
	if (note) {
		note->skips = found->skips;
		uaio_batch_begin(&batch, &ring->queue);
		ret = uaio_batch_add_fixed(&batch, found->file, &sqe);
		uaio_batch_end(&batch);
		if (ret < 0)
			uaio_uring_note_free(note);
	}
	if (ret < 0)
		uaio_uring_answer(ring, sqe.data, ret);
}

int uaio_uring_update_poll(struct uaio_uring *ring,
			   const struct uaio_uring_change *change)
{
	struct found found = { .file = NULL };
	const struct by_update update = {
		.aim = { .is_meant = is_poll,
			 .by = UAIO_INDEX_DATA,
			 .key = change->aim.user_data,
			 .is_one = true,
			 .marks_none = true },
		.ring = ring,
		.user_data = change->aim.user_data,
		.found = &found,
	};
	bool was_hidden;
	int ret;

	if (!begin_update(ring))
		return -EALREADY;
	ret = uaio_queue_cancel_meant(&ring->queue, &update.aim, NULL);
	was_hidden = end_update(ring);
	if (ret < 0 && was_hidden)
		/*
		 * Another thread has cancelled the poll meanwhile. note.c has left out
		 * its completion, so post it now.
		 */
		uaio_uring_answer(ring, found.sqe.data, -ECANCELED);
	if (ret >= 0) {
		if (change->aim.flags & IORING_POLL_UPDATE_EVENTS)
			found.sqe.events = change->events;
		if (change->aim.flags & IORING_POLL_UPDATE_USER_DATA)
			found.sqe.data = change->new_data;
		submit_again(ring, &found);
	}
	if (found.file)
		uaio_file_put(found.file);
	return ret > 0 ? 0 : ret;
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
