/* SPDX-License-Identifier: MIT */
/*
 * Bundles: requests that use several provided buffers at once (kbuf.h)
 *
 * The library selects the same buffers as the kernel. If the group is a list (kbuf.h),
 * it selects one buffer. If the group is an array, it selects enough buffers for the
 * bytes that a receive may get, or all buffers if the array has fewer. If neither the
 * number of available bytes nor a limit of that number is known, it selects nr_had
 * buffers: one at first, and later as many as an earlier attempt needed (kbuf.h). If
 * the bytes that a receive may get end inside the last of several buffers, this last
 * buffer is not selected, unless the array is incremental (IOU_PBUF_RING_INC).
 *
 *   I1  A receive whose system call does not block holds the lock of the ring's buffer
 *       groups from pick_to_receive() to received() (kbuf.h, I1). It consumes only the
 *       buffers that it fills.
 *   I2  A send consumes all its buffers when it selects them. If the system call
 *       does not send all bytes, the request keeps the vectors of the remaining bytes
 *       in `rest`, for the next call. A receive with MSG_WAITALL does the same until it
 *       has received all bytes.
 *
 * Tested by test-uring-bundle.c.
 */
#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/slab.h"
#include "op/sock.h"
#include "uring/kbuf.h"
#include "uring/note.h"
#include "uring/ring.h"
#include "uring/sq.h"

/* The vectors of a bundle that are still to be sent or received. */
struct uaio_uring_rest {
	struct uaio_slab_node node;
	struct uaio_pieces pieces;
};

static struct uaio_slab rests;

void uaio_uring_bundles_init(void)
{
	uaio_slab_init(&rests, sizeof(struct uaio_uring_rest), 65536);
}

/* Selecting buffers. The caller holds the lock of the ring's buffer groups. */

static void add_piece(struct uaio_pieces *pieces, uint64_t addr, uint32_t len)
{
	pieces->iov[pieces->nr++] =
		(struct iovec){ (void *)(uintptr_t)addr, len };
	pieces->bytes += len;
}

/* Select only the next buffer. */
static void choose_one(const struct uaio_sqe *sqe,
		       struct uaio_uring_choice *choice, uint64_t max,
		       struct uaio_pieces *ret)
{
	if (max && choice->len > max && !uaio_uring_is_send(sqe))
		choice->len = (uint32_t)max;
	choice->uses_up = (choice->of->array ? uaio_uring_array_nr(choice->of)
					     : choice->of->nr) == 1;
	add_piece(ret, choice->addr, choice->len);
}

/*
 * In a bundle, the kernel checks a buffer's address only when it uses this buffer. But
 * the library's system call checks the addresses of all vectors before it begins. So
 * replace an address that cannot be user memory by NULL: the call then fails only at
 * that vector.
 */
static void hide_nowhere(struct uaio_pieces *pieces)
{
	for (unsigned i = 0; i < pieces->nr; i++) {
		struct iovec *iov = &pieces->iov[i];

		if (unlikely(uaio_uring_check_range((uintptr_t)iov->iov_base,
						    iov->iov_len) < 0))
			iov->iov_base = NULL;
	}
}

/*
 * Return: how many buffers of len bytes are needed for `bytes` bytes; at most
 * UAIO_PIECES_MAX.
 */
static unsigned nr_for(uint64_t bytes, uint32_t len)
{
	uint64_t nr = bytes / len + (bytes % len != 0);

	return nr < UAIO_PIECES_MAX ? (unsigned)nr : UAIO_PIECES_MAX;
}

/*
 * Select the next buffers of an array, for max bytes. If max is 0, the number of bytes
 * is unknown: select choice->nr_had buffers.
 * Return: 0 or -ENOBUFS.
 */
static int choose_some(struct uaio_uring_choice *choice, uint64_t max,
		       struct uaio_pieces *ret)
{
	struct uaio_uring_group *group = choice->of;
	struct uaio_uring_choice next = *choice;
	bool grows;
	unsigned there = uaio_uring_array_nr(group), nr = choice->nr_had, i = 0;

	if (!there || (max && !choice->len))
		return -ENOBUFS;
	if (max)
		nr = nr_for(max, choice->len);
	if (nr > there)
		nr = there;
	grows = max && nr > choice->nr_had;
	if (!max)
		max = INT_MAX;
	for (;;) {
		if (next.len > max && !group->is_incremental) {
			choice->is_cut = true;
			if (i)
				break;
		}
		if (next.len > max)
			next.len = (uint32_t)max;
		add_piece(ret, next.addr, next.len);
		max -= next.len;
		if (!max)
			break;
		if (++i == nr || !uaio_uring_array_look(group, i, &next))
			break;
	}
	if (ret->nr > 1)
		hide_nowhere(ret);
	if (grows)
		choice->nr_had = (uint16_t)ret->nr;
	/*
	 * As in the kernel, the array does not count as used up if its last buffer ends
	 * exactly after max bytes.
	 */
	choice->uses_up = i == there;
	return 0;
}

/* Select buffers; at most one if is_one. Return: 0, -ENOENT or -ENOBUFS. */
static int choose_locked(const struct uaio_sqe *sqe,
			 struct uaio_uring_note *note, uint64_t max,
			 bool is_one, struct uaio_pieces *ret)
{
	struct uaio_uring_choice *choice = &note->choice;
	uint16_t first_bid = choice->bid;
	int res = 0;

	ret->nr = 0;
	ret->bytes = 0;
	choice->is_cut = choice->uses_up = false;
	if (!choice->is_added)
		uaio_uring_tell_none(note);
	choice->of = uaio_uring_group_find(choice->ring, choice->group);
	if (!choice->of)
		return uaio_uring_no_group(sqe);
	if (!uaio_uring_look(choice->of, choice))
		return -ENOBUFS;
	if (choice->of->array && !is_one)
		res = choose_some(choice, max, ret);
	else
		choose_one(sqe, choice, max, ret);
	/*
	 * If one completion covers two receives, it names the first buffer of the first
	 * receive.
	 */
	if (choice->is_added)
		choice->bid = first_bid;
	if (res == 0 && sqe->call_flags & MSG_WAITALL)
		note->expected = (uint32_t)ret->bytes +
				 (choice->is_added ? note->expected : 0);
	return res;
}

/*
 * Consume `bytes` bytes of the pieces, and the buffers that held them. takes_all: also
 * consume later buffers of length 0. takes_all has no effect on an incremental group,
 * because there the kernel stops at a buffer of length 0.
 */
static void use_locked(struct uaio_uring_note *note,
		       const struct uaio_pieces *pieces, uint64_t bytes,
		       bool takes_all)
{
	struct uaio_uring_group *group = note->choice.of;
	bool is_used_up = true;

	takes_all = takes_all && !group->is_incremental;
	for (unsigned i = 0; i < pieces->nr && (bytes || takes_all); i++) {
		struct uaio_uring_choice next = note->choice;
		uint64_t part = pieces->iov[i].iov_len;

		if (!uaio_uring_look(group, &next))
			break;
		/*
		 * The client's array may list one incremental buffer twice. So do not
		 * trust the piece's length: an earlier piece may have used a part of
		 * the buffer, and next.len is what is left.
		 */
		if (group->is_incremental)
			part = next.len;
		if (part > bytes)
			part = bytes;
		bytes -= part;
		next.room = next.len;
		is_used_up = uaio_uring_use_up(group, &next, (uint32_t)part);
		if (!is_used_up)
			break;
	}
	uaio_uring_tell_buffer(note, is_used_up);
	note->choice.is_last |= note->choice.uses_up;
}

/* The part of a bundle that is still to be sent or received */

int uaio_uring_prep_own_bundle(struct uaio_uring_entry *entry)
{
	int ret = uaio_uring_prep_select(entry);
	struct uaio_uring_choice *choice;

	if (ret < 0)
		return ret;
	choice = &entry->note->choice;
	choice->is_own = true;
	choice->addr = entry->raw.addr;
	choice->len = entry->raw.len;
	return 0;
}

void uaio_uring_bundle_drop(struct uaio_uring_choice *choice)
{
	if (choice->rest)
		uaio_slab_put(&rests, choice->rest);
	choice->rest = NULL;
}

static void copy_pieces(struct uaio_pieces *to, const struct uaio_pieces *from,
			uint64_t skipped)
{
	to->nr = 0;
	to->bytes = 0;
	for (unsigned i = 0; i < from->nr; i++) {
		uint64_t len = from->iov[i].iov_len;

		if (len > skipped)
			add_piece(to,
				  (uintptr_t)from->iov[i].iov_base + skipped,
				  (uint32_t)(len - skipped));
		skipped -= len < skipped ? len : skipped;
	}
}

/*
 * Keep the vectors for the request's next system call, without their first `skipped`
 * bytes.
 * Return: false if memory is refused.
 */
static bool keep(struct uaio_uring_choice *choice,
		 const struct uaio_pieces *pieces, uint64_t skipped)
{
	if (!choice->rest)
		choice->rest = uaio_slab_get(&rests);
	if (!choice->rest)
		return false;
	/*
	 * `pieces` may be the array of `rest` itself: then the remaining pieces move to
	 * its front.
	 */
	copy_pieces(&choice->rest->pieces, pieces, skipped);
	choice->state = UAIO_URING_KEPT;
	return true;
}

static void let_go(struct uaio_uring_choice *choice)
{
	uaio_uring_bundle_drop(choice);
	choice->state = UAIO_URING_NOT_CHOSEN;
}

/*
 * A system call has returned res: keep the vectors of the bytes that were not sent or
 * received, for the request's next system call.
 * Return: res; -ENOMEM if memory is refused and no byte was sent or received.
 */
static int64_t keep_rest(struct uaio_uring_choice *choice,
			 const struct uaio_pieces *pieces, int64_t res)
{
	if (keep(choice, pieces, res > 0 ? (uint64_t)res : 0))
		return res;
	let_go(choice);
	return res > 0 ? res : -ENOMEM;
}

/*
 * Sends
 */

/*
 * Select the client's own memory, for a bundle without provided buffers. As in the
 * kernel, only the request's first system call gets this memory; later calls of the
 * request get none.
 */
static int pick_own(struct uaio_uring_note *note, struct uaio_pieces *ret)
{
	struct uaio_uring_choice *choice = &note->choice;

	ret->nr = 0;
	ret->bytes = 0;
	if (!choice->has_begun && choice->len)
		add_piece(ret, choice->addr, choice->len);
	choice->has_begun = true;
	note->expected = (uint32_t)ret->bytes;
	return 0;
}

static int pick_to_send(const struct uaio_sqe *sqe,
			struct uaio_uring_note *note, struct uaio_pieces *ret)
{
	struct uaio_uring_choice *choice = &note->choice;
	/* The length limits only the first send of a request. */
	uint64_t max = sqe->len && !choice->has_begun ? sqe->len : INT_MAX;
	int res;

	/*
	 * As in the kernel, a bundle with IOSQE_ASYNC fails once its socket is ready:
	 * see prep_send_bundle().
	 */
	if (sqe->is_async)
		return -ECANCELED;
	if (choice->is_own)
		return pick_own(note, ret);
	uaio_uring_groups_lock(choice->ring);
	res = choose_locked(sqe, note, max, false, ret);
	if (res == 0) {
		choice->has_begun = true;
		use_locked(note, ret, ret->bytes, true);
	}
	uaio_uring_groups_unlock(choice->ring);
	return res;
}

static int64_t sent(struct uaio_uring_choice *choice,
		    const struct uaio_pieces *pieces, int64_t res, bool keeps)
{
	if (res != -EAGAIN && !keeps) {
		let_go(choice);
		return res;
	}
	/*
	 * As in the kernel, a request makes no further send after one that had to wait.
	 */
	choice->is_last = true;
	return keep_rest(choice, pieces, res);
}

/*
 * Receives
 */

/* Return: the lower of two limits, where 0 means no limit. */
static uint64_t least(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static int pick_to_receive(const struct uaio_sqe *sqe,
			   struct uaio_uring_note *note, uint64_t known,
			   bool may_block, struct uaio_pieces *ret)
{
	struct uaio_uring_choice *choice = &note->choice;
	uint64_t max = known;
	int res;

	if (!known)
		max = sqe->len || choice->known < 2 ? sqe->len : choice->known;
	max = least(max, choice->left);
	choice->known = 0;
	uaio_uring_groups_lock(choice->ring);
	res = choose_locked(sqe, note, max, may_block, ret);
	choice->is_last |= res < 0 && choice->is_added;
	if (res == 0 && !may_block) {
		/*
		 * This thread keeps the lock of the buffer groups until
		 * uaio_uring_picked_pieces() (I1).
		 */
		choice->state = UAIO_URING_TRYING;
		return 0;
	}
	if (res == 0) {
		use_locked(note, ret, ret->bytes, true);
		choice->state = UAIO_URING_KEPT;
	}
	uaio_uring_groups_unlock(choice->ring);
	return res;
}

static int64_t received(struct uaio_uring_note *note,
			const struct uaio_pieces *pieces, int64_t res,
			bool keeps)
{
	struct uaio_uring_choice *choice = &note->choice;
	bool was_trying = choice->state == UAIO_URING_TRYING,
	     ends = choice->is_added && res <= 0 && res != -EAGAIN;

	/*
	 * As in the kernel, the request ends if a second receive for one completion
	 * fails or gets nothing.
	 */
	choice->is_last |= ends;
	if (was_trying) {
		/*
		 * If vectors are kept for the request's next system call, all their
		 * buffers count as used.
		 */
		choice->state = UAIO_URING_NOT_CHOSEN;
		keeps = keeps && keep(choice, pieces, (uint64_t)res);
		if (res > 0)
			use_locked(note, pieces,
				   keeps ? pieces->bytes : (uint64_t)res,
				   false);
		else if (ends && res < 0 && choice->of->is_incremental)
			note->cqe_flags |= IORING_CQE_F_BUF_MORE;
		uaio_uring_groups_unlock(choice->ring);
	} else if (res == -EAGAIN || keeps) {
		res = keep_rest(choice, pieces, res);
	} else {
		let_go(choice);
	}
	uaio_uring_count_bytes(choice, res);
	return res;
}

bool uaio_uring_bundle_goes_on(const struct uaio_sqe *sqe, uint64_t bytes,
			       uint64_t known)
{
	struct uaio_uring_note *note = uaio_uring_note_of(sqe->word);
	struct uaio_uring_choice *choice = &note->choice;
	bool is_capped = sqe->is_multishot && sqe->len && bytes >= sqe->len;

	choice->known = known < INT_MAX ? (uint32_t)known : INT_MAX;
	note->cqe_flags &= ~(uint32_t)IORING_CQE_F_SOCK_NONEMPTY;
	if (known)
		note->cqe_flags |= IORING_CQE_F_SOCK_NONEMPTY;
	choice->is_added = known > 1 && bytes && !choice->is_added &&
			   !choice->is_last && !choice->is_cut && !is_capped;
	return choice->is_added;
}

/* Functions that the core calls through struct uaio_op_door (op.h) */

int uaio_uring_pick_pieces(const struct uaio_sqe *sqe, uint64_t known,
			   bool may_block, struct uaio_pieces *ret_pieces)
{
	struct uaio_uring_note *note = uaio_uring_note_of(sqe->word);

	if (note->choice.rest) {
		copy_pieces(ret_pieces, &note->choice.rest->pieces, 0);
		return 0;
	}
	if (uaio_uring_is_send(sqe))
		return pick_to_send(sqe, note, ret_pieces);
	return pick_to_receive(sqe, note, known, may_block, ret_pieces);
}

int64_t uaio_uring_picked_pieces(const struct uaio_sqe *sqe,
				 const struct uaio_pieces *pieces, int64_t res,
				 bool keeps)
{
	struct uaio_uring_note *note = uaio_uring_note_of(sqe->word);

	return uaio_uring_is_send(sqe) ? sent(&note->choice, pieces, res, keeps)
				       : received(note, pieces, res, keeps);
}
