/* SPDX-License-Identifier: MIT */
#include "uring/cq.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "options/config.h"
#include "file/file.h"
#include "op/op.h"
#include "check/hint.h"
#include "flow/post.h"
#include "ready/waiter.h"
#include "uring/bell.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/share.h"

struct uaio_uring_overflow {
	struct uaio_slab_node node;
	struct uaio_uring_overflow *next;
	struct io_uring_cqe cqe;
	uint64_t extra[2];
};

/*
 * The second half of a 32-byte completion, if the request does not set this half.
 */
static const uint64_t no_extra[2];

static struct uaio_slab slab; /* for overflowed completions */

void uaio_uring_cq_init(void)
{
	uaio_slab_init(&slab, sizeof(struct uaio_uring_overflow), 16384);
}

/* Return: how many slots of the ring a completion occupies. */
static inline uint32_t nr_places(const struct uaio_uring *ring,
				 const struct io_uring_cqe *cqe)
{
	return unlikely(cqe->flags & IORING_CQE_F_32) &&
			       ring->setup & IORING_SETUP_CQE_MIXED
		       ? 2
		       : 1;
}

/*
 * Return: how many slots are free if the tail is `tail`. Caller holds the queue's lock.
 */
static uint32_t room(const struct uaio_uring *ring, uint32_t tail)
{
	/*
	 * [MB:uring-cq] acquire: the client has read the slots before its head. Pairs
	 * with the client.
	 */
	uint32_t nr = tail - load_acquire(&ring->mem.rings->cq_head);

	return nr < ring->cq_entries ? ring->cq_entries - nr : 0;
}

static void publish(struct uaio_uring *ring, uint32_t tail)
{
	/*
	 * relaxed: `progress` must change before the tail (cq.h, I4); the release store
	 * below and the queue's lock ensure this order
	 */
	store_relaxed(&ring->progress,
		      uaio_uring_progress_of(ring->nr_timeouts, tail));
	/*
	 * [MB:uring-cq] release: write the completions before the tail. Pairs with the
	 * client.
	 */
	store_release(&ring->mem.rings->cq_tail, tail);
}

/* Append a completion to the overflow list. Return: false if it is lost. */
static bool overflow(struct uaio_uring *ring, const struct io_uring_cqe *cqe,
		     const uint64_t extra[2])
{
	struct uaio_uring_rings *rings = ring->mem.rings;
	struct uaio_uring_overflow *over = uaio_slab_get(&slab);

	/*
	 * relaxed, both: nobody reads other memory because of these words: cq_overflow
	 * is a count, and sq_flags a hint for the client
	 */
	if (!over) {
		add_relaxed(&rings->cq_overflow, 1);
		return false;
	}
	over->cqe = *cqe;
	memcpy(over->extra, extra, sizeof(over->extra));
	over->next = NULL;
	if (ring->last_over) {
		ring->last_over->next = over;
	} else {
		/*
		 * relaxed, both: first_over tells other threads, as a hint, whether the
		 * list is empty; nr_over is a count
		 */
		store_relaxed(&ring->first_over, over);
		add_relaxed(&rings->nr_over, 1);
	}
	ring->last_over = over;
	or_relaxed(&rings->sq_flags, IORING_SQ_CQ_OVERFLOW);
	return true;
}

/* Write a completion to the slot at `tail`. Return: the tail after it. */
static inline uint32_t put_there(struct uaio_uring *ring, uint32_t tail,
				 const struct io_uring_cqe *cqe,
				 const uint64_t extra[2])
{
	const uint32_t nr = nr_places(ring, cqe);
	struct io_uring_cqe *at =
		&ring->mem.rings->cqes[(tail & (ring->cq_entries - 1))
				       << ring->mem.cqe_shift];

	*at = *cqe;
	if (unlikely(ring->mem.cqe_shift) || unlikely(nr > 1))
		memcpy(at + 1, extra, 2 * sizeof(*extra));
	return tail + nr;
}

/*
 * Find two adjacent free slots at *tail. If two slots would wrap around the end of the
 * ring, first put a filler (IORING_CQE_F_SKIP) into the last slot.
 * Return: whether there are two such slots.
 */
static __attribute__((noinline)) bool find_room_for_two(struct uaio_uring *ring,
							uint32_t *tail)
{
	static const struct io_uring_cqe none = {
		.flags = IORING_CQE_F_SKIP,
	};
	const uint32_t last = ring->cq_entries - 1;

	if ((*tail & last) == last && room(ring, *tail))
		*tail = put_there(ring, *tail, &none, no_extra);
	return (*tail & last) != last && room(ring, *tail) > 1;
}

/*
 * Return: whether there is room for a completion at *tail. If the completion needs a
 * filler before it, write the filler and advance *tail.
 */
static inline bool find_room(struct uaio_uring *ring, uint32_t *tail,
			     const struct io_uring_cqe *cqe)
{
	return likely(nr_places(ring, cqe) == 1)
		       ? room(ring, *tail)
		       : find_room_for_two(ring, tail);
}

/* Post a completion to the ring or the overflow list. Return: false if it is lost. */
static inline bool put(struct uaio_uring *ring, uint32_t *tail,
		       const struct io_uring_cqe *cqe, const uint64_t extra[2])
{
	if (unlikely(ring->first_over) || unlikely(!find_room(ring, tail, cqe)))
		return overflow(ring, cqe, extra);
	*tail = put_there(ring, *tail, cqe, extra);
	return true;
}

static void signal_eventfd(struct uaio_uring *ring, bool by_worker)
{
	/* relaxed: the kernel, too, reads the flags without ordering */
	if (load_relaxed(&ring->mem.rings->cq_flags) &
		    IORING_CQ_EVENTFD_DISABLED ||
	    (ring->is_eventfd_async && !by_worker))
		return;
	uaio_file_signal(ring->eventfd, 1);
}

/*
 * Write all completions of a post. The ring has room for them.
 * Return: false if a completion has flags: then it may not be the last completion of
 * its request, or IOSQE_CQE_SKIP_SUCCESS may hide it from the client. In that case the
 * caller writes all completions again by put_each().
 */
static bool put_all(struct uaio_uring *ring, uint32_t tail,
		    const struct uaio_post *post)
{
	struct io_uring_cqe *cqes = ring->mem.rings->cqes;
	const uint32_t mask = ring->cq_entries - 1;
	uint32_t flags = 0;

	for (unsigned i = 0; i < post->nr; i++) {
		const struct uaio_completion *completion =
			&post->completions[i];
		struct io_uring_cqe *cqe = &cqes[(tail + i) & mask];

		cqe->user_data = completion->data;
		cqe->res = completion->res;
		cqe->flags = 0;
		flags |= completion->flags;
	}
	return !flags;
}

static const uint64_t *extra_of(const struct uaio_completion *completion)
{
	return uaio_uring_note_of(completion->word)->extra;
}

/* Write each completion that the client is to see. Return: the tail after them. */
static __attribute__((noinline)) uint32_t
put_each(struct uaio_uring *ring, uint32_t tail, const struct uaio_post *post,
	 uint32_t *ret_nr_last, uint32_t *ret_nr_told)
{
	uint32_t nr_last = 0, nr_told = 0;

	for (unsigned i = 0; i < post->nr; i++) {
		const struct uaio_completion *completion =
			&post->completions[i];
		bool has_more = completion->flags & UAIO_COMPLETION_MORE;
		struct io_uring_cqe cqe = {
			.user_data = completion->data,
			.res = completion->res,
			.flags = has_more ? IORING_CQE_F_MORE : 0,
		};

		nr_last += !has_more;
		if (likely(!(completion->word | completion->flags)) ||
		    uaio_uring_is_told(ring, completion, &cqe)) {
			(void)put(ring, &tail, &cqe,
				  completion->word ? extra_of(completion)
						   : no_extra);
			nr_told++;
		}
		/*
		 * The second completion of a zero-copy send follows even if the client
		 * does not get the first one, because an earlier request broke the
		 * chain.
		 */
		if (unlikely(uaio_uring_notice_of(completion, &cqe))) {
			(void)put(ring, &tail, &cqe, no_extra);
			nr_told++;
		}
	}
	*ret_nr_last = nr_last;
	*ret_nr_told = nr_told;
	return tail;
}

/* What begin_locked() passes to end_locked(). */
struct posting {
	bool is_shared;
	bool by_worker;
	uint32_t tail; /* the tail before the post */
};

/* Begin a post. Return: the tail. Caller holds the queue's lock until end_locked(). */
static inline uint32_t begin_locked(struct uaio_uring *ring,
				    struct posting *ret_posting)
{
	ret_posting->is_shared = uaio_uring_is_shared(ring);
	if (unlikely(ret_posting->is_shared))
		uaio_uring_share_begin(ring);
	return ret_posting->tail = uaio_uring_tail(ring);
}

/*
 * Publish the post. nr_told: how many completions the client gets, overflowed ones
 * included.
 */
static inline void end_locked(struct uaio_uring *ring,
			      const struct posting *posting, uint32_t tail,
			      uint32_t nr_told)
{
	if (unlikely(ring->bell >= 0) && nr_told)
		uaio_uring_bell_expect_locked(ring);
	/*
	 * relaxed: submitters read cq_events without the lock (sq.c). The tail is
	 * published afterwards. So if a client submits a timeout after it has seen
	 * completions of this post, the timeout does not count them.
	 */
	store_relaxed(&ring->cq_events,
		      ring->cq_events + nr_told - ring->nr_uncounted);
	ring->nr_uncounted = 0;
	publish(ring, tail);
	if (unlikely(posting->is_shared))
		uaio_uring_share_end(ring);
	if (unlikely(heap_first(&ring->counting)))
		uaio_uring_find_reached_locked(ring);
	/*
	 * The eventfd signals an overflowed completion when it is moved into the ring.
	 */
	if (unlikely(ring->eventfd) && tail != posting->tail)
		signal_eventfd(ring, posting->by_worker);
	if (unlikely(ring->bell >= 0) && nr_told)
		uaio_uring_bell_ring_locked(ring);
}

static bool is_read_or_write(uint64_t opcode)
{
	const struct uaio_uring_row *row = uaio_uring_row_of((unsigned)opcode);

	return row && uaio_optab[row->op].class <= UAIO_CLASS_WRITE &&
	       !uaio_optab[row->op].is_of_socket;
}

/*
 * For IORING_REGISTER_EVENTFD_ASYNC: the kernel then signals the eventfd only if a
 * worker completes a request. The library's workers have executed the requests of this
 * post. In the kernel, the submitter completes requests of a broken chain, and failed
 * reads and writes; a worker completes other requests.
 * Return: whether a worker of the kernel would complete any of these requests.
 */
static bool ends_by_worker(const struct uaio_post *post)
{
	for (unsigned i = 0; i < post->nr; i++) {
		const struct uaio_completion *each = &post->completions[i];

		if (!(each->flags & UAIO_COMPLETION_CUT) &&
		    (each->res >= 0 || !is_read_or_write(each->key)))
			return true;
	}
	return false;
}

static void post(struct uaio_queue *queue, const struct uaio_post *post)
{
	struct uaio_uring *ring = container_of(queue, struct uaio_uring, queue);
	struct posting posting = {
		.by_worker =
			post->by_worker && (likely(!ring->is_eventfd_async) ||
					    ends_by_worker(post)),
	};
	uint32_t tail = begin_locked(ring, &posting);
	uint32_t nr_last = post->nr, nr_told = post->nr;

	if (likely(!(post->words | ring->mem.cqe_shift)) &&
	    likely(!ring->first_over) && likely(room(ring, tail) >= post->nr) &&
	    likely(put_all(ring, tail, post)))
		tail += nr_told;
	else
		tail = put_each(ring, tail, post, &nr_last, &nr_told);
	ring->nr_done += nr_last;
	end_locked(ring, &posting, tail, nr_told);
}

int uaio_uring_post_message(struct uaio_uring *ring,
			    const struct io_uring_cqe *cqe)
{
	struct uaio_wakeups wakeups = { 0 };
	struct posting posting = { 0 };
	bool is_there;
	uint32_t tail;

	uaio_queue_lock(&ring->queue);
	tail = begin_locked(ring, &posting);
	is_there = put(ring, &tail, cqe, no_extra);
	end_locked(ring, &posting, tail, 1);
	uaio_waiters_collect_locked(&ring->queue, &wakeups);
	uaio_queue_unlock(&ring->queue);
	uaio_wakeups_deliver(&wakeups);
	/*
	 * relaxed: if the post reached the count of a timeout, this thread itself has
	 * marked the timeout (timeout.c, I2)
	 */
	if (unlikely(load_relaxed(&ring->nr_reached)))
		uaio_uring_end_reached(ring);
	return is_there ? 0 : -EOVERFLOW;
}

static bool has_room(struct uaio_queue *queue)
{
	enum { NR_SHORT = 1024 };
	struct uaio_uring *ring = container_of(queue, struct uaio_uring, queue);
	/*
	 * relaxed: if another process fills the ring after this load, the completion
	 * goes to the overflow list
	 */
	bool has_some =
		!ring->first_over &&
		room(ring, uaio_uring_is_shared(ring)
				   ? load_relaxed(&ring->mem.rings->cq_tail)
				   : uaio_uring_tail(ring));

	if (unlikely(!has_some))
		/* relaxed: a guess */
		store_relaxed(&ring->nr_short, (uint32_t)NR_SHORT);
	return has_some;
}

/*
 * Return: whether the wait may end. One overflowed completion suffices: the waiting
 * thread moves it into the ring.
 */
static bool is_met(const struct uaio_queue *queue, uint64_t need)
{
	const struct uaio_uring *ring =
		container_of(queue, struct uaio_uring, queue);

	return uaio_uring_is_met(ring, need) || load_relaxed(&ring->first_over);
}

static bool has_unread(const struct uaio_queue *queue)
{
	const struct uaio_uring *ring =
		container_of(queue, struct uaio_uring, queue);

	return uaio_uring_unread(ring) || load_relaxed(&ring->first_over);
}

static uintptr_t tail(const struct uaio_queue *queue)
{
	const struct uaio_uring *ring =
		container_of(queue, struct uaio_uring, queue);
	/*
	 * relaxed: race detectors use this value as an address (sink.h), and do not
	 * access the memory there
	 */
	uintptr_t seen_at = load_relaxed(&ring->seen_at);

	return (seen_at ? seen_at : (uintptr_t)ring->mem.rings) +
	       offsetof(struct uaio_uring_rings, cq_tail);
}

const struct uaio_sink uaio_uring_sink = {
	.door = UAIO_DOOR_URING,
	.post = post,
	.has_room = has_room,
	.drop_words = uaio_uring_notes_drop,
	.act = uaio_uring_act,
	.starts = uaio_uring_starts,
	.cancelled = uaio_uring_cancelled,
	.is_met = is_met,
	.has_unreaped = has_unread,
	.tail = tail,
	.get_fixed = uaio_uring_get_fixed,
	.polled = uaio_uring_polled,
	.polled_again = uaio_uring_polled_again,
};

/*
 * The overflow list is empty: clear IORING_SQ_CQ_OVERFLOW, unless other processes have
 * overflowed completions.
 */
static void have_none_over(struct uaio_uring *ring)
{
	struct uaio_uring_rings *rings = ring->mem.rings;

	if (!ring->last_over)
		return;
	ring->last_over = NULL;
	/*
	 * relaxed, both: nr_over and sq_flags are hints. They change under the queue's
	 * lock; in a shared ring also under the lock `posting`
	 */
	if (sub_relaxed(&rings->nr_over, 1) == 1)
		and_relaxed(&rings->sq_flags, ~(uint32_t)IORING_SQ_CQ_OVERFLOW);
}

void uaio_uring_flush_overflow(struct uaio_uring *ring)
{
	struct uaio_wakeups wakeups = { 0 };
	uint32_t tail, old_tail;
	bool is_shared;

	uaio_queue_lock(&ring->queue);
	is_shared = uaio_uring_is_shared(ring);
	if (unlikely(is_shared))
		uaio_uring_share_begin(ring);
	tail = old_tail = uaio_uring_tail(ring);
	while (ring->first_over &&
	       find_room(ring, &tail, &ring->first_over->cqe)) {
		struct uaio_uring_overflow *over = ring->first_over;

		tail = put_there(ring, tail, &over->cqe, over->extra);
		store_relaxed(&ring->first_over, over->next);
		uaio_slab_put(&slab, over);
	}
	if (unlikely(ring->bell >= 0) && tail != old_tail)
		uaio_uring_bell_expect_locked(ring);
	publish(ring, tail);
	if (!ring->first_over)
		have_none_over(ring);
	if (unlikely(is_shared))
		uaio_uring_share_end(ring);
	if (unlikely(ring->eventfd) && tail != old_tail)
		signal_eventfd(ring, false);
	/*
	 * Edge-triggered epolls need another edge for the completions that moved into
	 * the ring.
	 */
	if (unlikely(ring->bell >= 0) && tail != old_tail)
		uaio_uring_bell_ring_locked(ring);
	uaio_waiters_collect_locked(&ring->queue, &wakeups);
	uaio_queue_unlock(&ring->queue);
	uaio_wakeups_deliver(&wakeups);
	if (unlikely(uaio_config.is_examined) && tail != old_tail)
		uaio_hint_overflowed();
}

bool uaio_uring_may_move_cqes(const struct uaio_uring *ring, uint32_t new_mask)
{
	const struct io_uring_cqe *cqes = ring->mem.rings->cqes;
	const uint32_t end = uaio_uring_tail(ring);
	/*
	 * relaxed: a client that stores the head in another thread orders that store
	 * and this call
	 */
	uint32_t at = load_relaxed(&ring->mem.rings->cq_head);

	if (!(ring->setup & IORING_SETUP_CQE_MIXED))
		return true;
	/* The client can write any head: refuse one beyond the tail. */
	if (end - at > ring->cq_entries)
		return false;
	while ((int32_t)(end - at) > 0) {
		uint32_t nr =
			nr_places(ring, &cqes[at & (ring->cq_entries - 1)]);

		if (nr > 1 && (at & new_mask) == new_mask)
			return false;
		at += nr;
	}
	return true;
}

void uaio_uring_drop_overflow(struct uaio_uring *ring)
{
	bool is_shared = ring->last_over && uaio_uring_is_shared(ring);
	struct uaio_uring_overflow *over;

	while ((over = ring->first_over)) {
		ring->first_over = over->next;
		uaio_slab_put(&slab, over);
	}
	if (unlikely(is_shared))
		uaio_uring_share_begin(ring);
	have_none_over(ring);
	if (unlikely(is_shared))
		uaio_uring_share_end(ring);
}

void uaio_uring_answer_by(struct uaio_uring *ring, struct uaio_uring_note *note,
			  uint64_t user_data, int32_t res)
{
	const struct uaio_completion completion = {
		.data = user_data,
		.res = res,
		.word = (uintptr_t)note,
	};
	const struct uaio_post post = {
		.completions = &completion,
		.nr = 1,
		.is_inline = true,
		.words = completion.word,
	};

	uaio_queue_post(&ring->queue, &post);
}

void uaio_uring_answer(struct uaio_uring *ring, uint64_t user_data, int32_t res)
{
	uaio_uring_answer_by(ring, NULL, user_data, res);
}
