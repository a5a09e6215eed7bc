/* SPDX-License-Identifier: MIT */
/*
 * Reports to check/, for uaio-check(1), which provided buffers a ring has, and which of
 * these buffers requests select
 *
 * Only called under uaio check: without it, the function table of the io_uring
 * front-end has the functions of kbuf.c and bundle.c.
 *
 * Tested by test/run/bugs.py and test-check.c.
 */
#include <errno.h>
#include <sys/uio.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/uaddr.h"
#include "op/args.h"
#include "op/op.h"
#include "check/check.h"
#include "uring/kbuf.h"
#include "uring/note.h"
#include "uring/ring.h"
#include "uring/sq.h"

/* The buffers of a group. The caller holds the lock of the groups. */

/* Buffers of a list that are adjacent and of equal length. */
struct row {
	uint64_t addr;
	uint32_t len;
};

static struct uaio_check_buffer of_row(const void *arg, unsigned i)
{
	const struct row *row = arg;

	return (struct uaio_check_buffer){
		.at = row->addr + (uint64_t)i * row->len,
		.bytes = row->len,
	};
}

/* Consecutive entries of an array, which may wrap around its end. */
struct entries {
	const struct uaio_uring_group *group;
	unsigned first;
};

static struct uaio_check_buffer of_entries(const void *arg, unsigned i)
{
	const struct entries *entries = arg;
	const struct io_uring_buf *buf =
		(struct io_uring_buf *)entries->group->array +
		((entries->first + i) & entries->group->mask);

	/* relaxed, both: ordered by the acquire load of the tail */
	return (struct uaio_check_buffer){
		.at = load_relaxed(&buf->addr),
		.bytes = load_relaxed(&buf->len),
	};
}

static bool may_read(const struct uaio_uring_group *group, size_t bytes)
{
	return group->own_bytes ||
	       uaio_can_read((uintptr_t)group->array, bytes);
}

/*
 * Tell check/ which buffers the client has added to an array since the last call of
 * this function.
 */
static void note_new(struct uaio_uring_group *group)
{
	struct uaio_check_provided *provided = &group->provided;
	const struct entries entries = { group, provided->from + provided->nr };
	const size_t nr_places = group->mask + (size_t)1;
	unsigned nr;

	if (!may_read(group, sizeof(struct io_uring_buf)))
		return;
	/*
	 * [MB:uring-sq] acquire: load the tail before the buffers. Pairs with the
	 * client.
	 */
	nr = (uint16_t)(load_acquire(&group->array->tail) - entries.first);
	if (nr && nr + provided->nr <= nr_places &&
	    may_read(group, nr_places * sizeof(struct io_uring_buf)))
		uaio_check_provide(provided, nr, of_entries, &entries);
}

/*
 * Tell check/ which buffers requests have used since the last call of this function.
 * *ret_ended: a used buffer whose memory the program has freed.
 */
static void note_used(struct uaio_uring_group *group,
		      struct uaio_check_ended *ret_ended)
{
	struct uaio_check_provided *provided = &group->provided;
	uint32_t nr = provided->nr > group->nr ? provided->nr - group->nr : 0;

	if (group->array)
		nr = (uint16_t)(group->head - provided->from);
	uaio_check_provided_used(provided, nr, ret_ended);
	if (group->array)
		provided->from = group->head;
	if (group->is_begun)
		uaio_check_provided_begun(provided, group->rest.addr,
					  ret_ended);
}

void uaio_uring_check_provided(struct uaio_uring_group *group,
			       const struct uaio_uring_choice *what,
			       uint32_t nr)
{
	const struct row row = { what->addr, what->len };

	uaio_check_provide(&group->provided, nr, of_row, &row);
}

void uaio_uring_check_removed(struct uaio_uring_group *group)
{
	struct uaio_check_ended ended;

	/*
	 * Ignore `ended`: no request has used these buffers, because REMOVE_BUFFERS has
	 * removed them.
	 */
	note_used(group, &ended);
}

/*
 * Requests that select buffers. The caller holds the lock of the groups only in the
 * state TRYING.
 */

/*
 * Report to check/ the added and used buffers of the request's group. res: the result
 * of the system call that was to fill the selected buffers; or 0.
 */
static void note_group(const struct uaio_sqe *sqe, int64_t res)
{
	const struct uaio_uring_choice *choice =
		&uaio_uring_note_of(sqe->word)->choice;
	struct uaio_check_ended ended = { .bytes = 0 };
	struct uaio_uring_group *group;

	/*
	 * In the state TRYING this thread already holds the lock, and no buffer is used
	 * yet. With is_own the request uses no provided buffers.
	 */
	if (choice->state == UAIO_URING_TRYING || choice->is_own)
		return;
	uaio_uring_groups_lock(choice->ring);
	group = uaio_uring_group_find(choice->ring, choice->group);
	if (group && group->array)
		note_new(group);
	if (group)
		note_used(group, &ended);
	/* The buffer's memory is not mapped, so the buffer is not used up. */
	if (group && res == -EFAULT)
		uaio_check_provided_failed(&group->provided, &ended);
	uaio_uring_groups_unlock(choice->ring);
	if (ended.bytes)
		uaio_check_say_chosen(&ended, sqe);
}

/* Tell MemorySanitizer that the kernel has written res bytes to these vectors. */
static void note_received(const struct uaio_sqe *sqe, const struct iovec *iov,
			  unsigned nr, int64_t res)
{
	for (unsigned i = 0; i < nr && res > 0 && !uaio_uring_is_send(sqe);
	     i++) {
		size_t bytes = iov[i].iov_len < (uint64_t)res ? iov[i].iov_len
							      : (size_t)res;

		uaio_check_written((uintptr_t)iov[i].iov_base, bytes);
		res -= (int64_t)bytes;
	}
}

/*
 * Tell MemorySanitizer that the kernel has written the control data and the address of
 * a message.
 */
static void note_message(const struct uaio_args *args)
{
	uaio_check_written((uintptr_t)args->control, args->control_bytes);
	uaio_check_written((uintptr_t)args->sender, args->sender_bytes);
	uaio_check_written((uintptr_t)args->out, sizeof(struct uaio_msghdr));
}

/* Tell MemorySanitizer that this call has filled a buffer, or a part of it. */
static void note_filled(const struct uaio_sqe *sqe, int64_t res)
{
	const struct uaio_uring_choice *choice =
		&uaio_uring_note_of(sqe->word)->choice;
	const struct iovec iov = { (void *)(uintptr_t)choice->addr,
				   choice->len };

	if (choice->state == UAIO_URING_NOT_CHOSEN)
		return;
	note_received(sqe, &iov, 1, res);
	/*
	 * A multishot RECVMSG stores control data and address in the selected buffer,
	 * not in the memory that args names.
	 */
	if (res >= 0 && sqe->op == UAIO_OP_RECVMSG && !sqe->is_multishot)
		note_message(sqe->args);
}

void uaio_uring_checked_submitted(const struct uaio_sqe *sqe)
{
	/*
	 * Check the kind: requests that open a file into the table also get here,
	 * because they set by_door, too. Their notes are of another kind.
	 */
	if (sqe->word &&
	    uaio_uring_note_of(sqe->word)->kind == UAIO_URING_NOTE_CHOICE)
		note_group(sqe, 0);
}

int uaio_uring_checked_pick(const struct uaio_sqe *sqe, uint64_t max,
			    bool may_block, struct iovec *ret_iov)
{
	int ret;

	uaio_check_look_at_stack();
	ret = uaio_uring_pick(sqe, max, may_block, ret_iov);
	if (ret == 0)
		note_group(sqe, 0);
	return ret;
}

void uaio_uring_checked_picked(const struct uaio_sqe *sqe, int64_t res)
{
	note_filled(sqe, res);
	uaio_uring_picked(sqe, res);
	note_group(sqe, res);
}

void uaio_uring_checked_keep_rest(const struct uaio_sqe *sqe, int64_t res)
{
	note_filled(sqe, res);
	uaio_uring_keep_rest(sqe, res);
	note_group(sqe, 0);
}

int uaio_uring_checked_pick_pieces(const struct uaio_sqe *sqe, uint64_t known,
				   bool may_block,
				   struct uaio_pieces *ret_pieces)
{
	int ret;

	uaio_check_look_at_stack();
	ret = uaio_uring_pick_pieces(sqe, known, may_block, ret_pieces);
	if (ret == 0)
		note_group(sqe, 0);
	return ret;
}

int64_t uaio_uring_checked_picked_pieces(const struct uaio_sqe *sqe,
					 const struct uaio_pieces *pieces,
					 int64_t res, bool keeps)
{
	int64_t ret;

	note_received(sqe, pieces->iov, pieces->nr, res);
	ret = uaio_uring_picked_pieces(sqe, pieces, res, keeps);
	note_group(sqe, res);
	return ret;
}
