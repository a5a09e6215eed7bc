/* SPDX-License-Identifier: MIT */
/*
 * Timeouts, some of which complete after a number of completions
 *
 *   I1  A timeout with a count is in the ring's heap `counting` until its count is
 *       reached, then in the list `reached` until it completes. All this time its note
 *       (note.h) exists. The timeout enters the heap before it is submitted. It counts
 *       completions from the beginning of the submitting call, because the kernel posts
 *       the completions of a call at its end. This also holds for a timeout that is the
 *       first request of a chain. A timeout later in a chain, or after a drain, enters
 *       the heap when it starts, and does not count earlier completions.
 *   I2  The thread that posts the completion which reaches a timeout's count marks the
 *       timeout, under the queue's lock. A thread without locks then completes marked
 *       timeouts by cancelling them: after the post (uaio_uring_act()), or for inline
 *       completions at the end of the submitting call. If a timeout is marked before it
 *       waits, its submitter completes it at the end of the call, or the thread that
 *       starts it does. (The marking thread searches the queue's waiting requests. It
 *       finds nothing if the submitter adds the timeout to these requests only later.
 *       But the submitter adds it under the queue's lock, and so sees nr_reached
 *       afterwards.)
 *   I3  A completion checks only the first timeout of the heap. The queue's index by
 *       user_data finds a timeout whose count is reached. So neither the check nor the
 *       search costs more if many other timeouts count.
 *
 * Tested by test-uring-timeout.c.
 */
#include <errno.h>

#include "base/check.h"
#include "req/sink.h"
#include "flow/cancel.h"
#include "ready/timer.h"
#include "uring/calls.h"
#include "uring/cancel.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/sq.h"

static struct uaio_uring_timeout *counting_at(const struct heap_node *node)
{
	return container_of(node, struct uaio_uring_timeout, in_counting);
}

/*
 * Return: whether timeout a reaches its count before b. If both reach it together, the
 * older one comes first.
 */
static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
	const struct uaio_uring_timeout *one = counting_at(a);
	const struct uaio_uring_timeout *other = counting_at(b);
	int64_t diff =
		(int64_t)(one->from + one->count - other->from - other->count);

	return diff ? diff < 0 : one->number < other->number;
}

void uaio_uring_uncount_locked(struct uaio_uring *ring,
			       struct uaio_uring_timeout *timeout)
{
	if (!timeout->is_listed)
		return;
	timeout->is_listed = false;
	/*
	 * relaxed, all: only written under the queue's lock, which the caller holds
	 */
	if (!load_relaxed(&timeout->is_reached)) {
		heap_remove(&ring->counting, &timeout->in_counting, is_before);
		return;
	}
	list_remove(&timeout->in_reached);
	store_relaxed(&ring->nr_reached, ring->nr_reached - 1);
}

void uaio_uring_count(struct uaio_uring *ring,
		      struct uaio_uring_timeout *timeout, uint64_t from)
{
	uaio_queue_lock(&ring->queue);
	timeout->from = from;
	timeout->number = ring->nr_counted++;
	timeout->is_listed = true;
	heap_add(&ring->counting, &timeout->in_counting, is_before);
	/*
	 * Completions that this timeout counts may already be posted: check its count
	 * now.
	 */
	uaio_uring_find_reached_locked(ring);
	uaio_queue_unlock(&ring->queue);
}

void uaio_uring_starts(struct uaio_queue *queue, const struct uaio_sqe *sqe)
{
	struct uaio_uring *ring = container_of(queue, struct uaio_uring, queue);
	struct uaio_uring_timeout *timeout =
		uaio_uring_timeout_of(uaio_uring_note_of(sqe->word));
	bool has_from;

	if (!timeout || !timeout->counts)
		return;
	has_from = timeout->has_from && !(sqe->links & UAIO_DRAIN);
	/* relaxed: a completion that is posted just now may count or not */
	uaio_uring_count(ring, timeout,
			 has_from ? timeout->from
				  : load_relaxed(&ring->cq_events));
}

void uaio_uring_uncount(struct uaio_uring *ring,
			struct uaio_uring_timeout *timeout)
{
	uaio_queue_lock(&ring->queue);
	uaio_uring_uncount_locked(ring, timeout);
	uaio_queue_unlock(&ring->queue);
}

void uaio_uring_find_reached_locked(struct uaio_uring *ring)
{
	struct heap_node *first;

	while ((first = heap_first(&ring->counting))) {
		struct uaio_uring_timeout *timeout = counting_at(first);

		if ((int64_t)(ring->cq_events - timeout->from -
			      timeout->count) < 0)
			return;
		heap_remove(&ring->counting, first, is_before);
		list_add_tail(&ring->reached, &timeout->in_reached);
		/*
		 * relaxed, both: threads that read these values without the lock read
		 * them again under it
		 */
		store_relaxed(&timeout->is_reached, 1);
		store_relaxed(&ring->nr_reached, ring->nr_reached + 1);
		ring->queue.wants_act = true;
	}
}

static bool is_reached_timeout(const struct uaio_sqe *sqe)
{
	const struct uaio_uring_timeout *timeout =
		sqe->op == UAIO_OP_TIMER
			? uaio_uring_timeout_of(uaio_uring_note_of(sqe->word))
			: NULL;

	return timeout && load_relaxed(&timeout->is_reached);
}

int64_t uaio_uring_cancelled(const struct uaio_sqe *sqe)
{
	/* A reached count is a success, so linked requests are executed. */
	return is_reached_timeout(sqe) ? 0 : -ECANCELED;
}

/*
 * Return: whether sqe is the timeout that `aim` describes. Caller holds the queue's
 * lock.
 */
static bool is_reached(const struct uaio_cancel_aim *aim,
		       const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	(void)file;
	return sqe->data == aim->key && is_reached_timeout(sqe);
}

/*
 * Move the first timeout of the list `reached` to its end, so that the next call
 * returns another timeout.
 * Return: whether the list has a timeout; *ret_data: the user_data of the moved
 * timeout.
 */
static bool next_reached(struct uaio_uring *ring, uint64_t *ret_data)
{
	struct list *node;

	uaio_queue_lock(&ring->queue);
	node = list_pop(&ring->reached);
	if (node) {
		list_add_tail(&ring->reached, node);
		*ret_data = container_of(node, struct uaio_uring_timeout,
					 in_reached)
				    ->data;
	}
	uaio_queue_unlock(&ring->queue);
	return node;
}

/*
 * Complete each timeout that is in the list `reached` when this function is called.
 */
static void end_those(struct uaio_uring *ring)
{
	struct uaio_cancel_aim aim = {
		.is_meant = is_reached,
		.by = UAIO_INDEX_DATA,
		.ends_unparked = true,
	};

	/*
	 * relaxed: an old count does no harm, because a thread that marks a timeout
	 * calls uaio_uring_end_reached() itself
	 */
	for (uint32_t nr = load_relaxed(&ring->nr_reached);
	     nr && next_reached(ring, &aim.key); nr--)
		(void)uaio_queue_cancel_meant(&ring->queue, &aim, NULL);
}

/*
 * Return: whether this thread is to complete the timeouts in `reached`. If another
 * thread completes timeouts just now, it also completes the timeouts that this thread
 * has marked.
 */
static bool begins_ending(struct uaio_uring *ring)
{
	bool begins;

	uaio_queue_lock(&ring->queue);
	begins = !ring->is_ending;
	ring->is_ending = true;
	ring->queue.wants_act = !begins;
	uaio_queue_unlock(&ring->queue);
	return begins;
}

/*
 * Return: whether timeouts were marked while this thread completed others. Then this
 * thread must complete them, too.
 */
static bool goes_on_ending(struct uaio_uring *ring)
{
	bool goes_on;

	uaio_queue_lock(&ring->queue);
	goes_on = ring->queue.wants_act;
	ring->queue.wants_act = false;
	ring->is_ending = goes_on;
	uaio_queue_unlock(&ring->queue);
	return goes_on;
}

/*
 * A completed timeout may start requests whose completions mark further timeouts. Only
 * the outermost call completes these timeouts, so that this does not recurse.
 */
void uaio_uring_end_reached(struct uaio_uring *ring)
{
	if (!begins_ending(ring))
		return;
	do
		end_those(ring);
	while (goes_on_ending(ring));
}

void uaio_uring_act(struct uaio_queue *queue)
{
	struct uaio_uring *ring = container_of(queue, struct uaio_uring, queue);

	/*
	 * relaxed: this thread need only see the marks that it has set; each other
	 * thread completes the timeouts that it has marked
	 */
	if (load_relaxed(&ring->nr_reached))
		uaio_uring_end_reached(ring);
}

/*
 * Submissions
 */

/* All checks below are in the order in which the kernel makes them. */

static int read_time(uint64_t addr, int64_t *ret_ns)
{
	struct __kernel_timespec ts;

	if (uaio_uring_copy_in(&ts, addr, sizeof(ts)) < 0)
		return -EFAULT;
	if (ts.tv_sec < 0 || ts.tv_nsec < 0)
		return -EINVAL;
	if (__builtin_mul_overflow(ts.tv_sec, INT64_C(1000000000), ret_ns) ||
	    __builtin_add_overflow(*ret_ns, ts.tv_nsec, ret_ns))
		*ret_ns = INT64_MAX;
	return 0;
}

static uint32_t timer_flags_of(uint32_t flags)
{
	return (flags & IORING_TIMEOUT_ABS ? UAIO_TIMER_ABSOLUTE : 0) |
	       (flags & IORING_TIMEOUT_BOOTTIME ? UAIO_TIMER_BOOTTIME : 0) |
	       (flags & IORING_TIMEOUT_REALTIME ? UAIO_TIMER_REALTIME : 0) |
	       (flags & IORING_TIMEOUT_ETIME_SUCCESS ? UAIO_TIMER_SUCCEEDS : 0);
}

static int prep_any_timeout(struct uaio_uring_entry *entry, bool is_linked)
{
	const struct io_uring_sqe *raw = &entry->raw;
	const uint32_t flags = raw->timeout_flags;
	int ret;

	if (raw->buf_index || raw->len != 1 || raw->splice_fd_in ||
	    raw->addr3 || raw->__pad2[0] || (raw->off && is_linked))
		return -EINVAL;
	if (flags & ~(IORING_TIMEOUT_ABS | IORING_TIMEOUT_CLOCK_MASK |
		      IORING_TIMEOUT_ETIME_SUCCESS | IORING_TIMEOUT_MULTISHOT))
		return -EINVAL;
	if ((flags & IORING_TIMEOUT_CLOCK_MASK) == IORING_TIMEOUT_CLOCK_MASK)
		return -EINVAL;
	/*
	 * Only relative timeouts can repeat. The kernel ignores the flag MULTISHOT in
	 * linked timeouts.
	 */
	if (flags & IORING_TIMEOUT_MULTISHOT && flags & IORING_TIMEOUT_ABS)
		return -EINVAL;
	ret = read_time(raw->addr, &entry->sqe.time_ns);
	if (ret < 0)
		return ret;
	entry->sqe.timer_flags = timer_flags_of(flags);
	if (!uaio_uring_note_for(entry))
		return -ENOMEM;
	entry->note->kind = UAIO_URING_NOTE_TIMEOUT;
	entry->note->timeout = (struct uaio_uring_timeout){
		.is_linked = is_linked,
		.succeeds = flags & IORING_TIMEOUT_ETIME_SUCCESS,
	};
	return 0;
}

int uaio_uring_prep_timeout(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	/* only 32 bits of the count, as in the kernel */
	const uint32_t count = (uint32_t)raw->off;
	int ret = prep_any_timeout(entry, false);

	if (ret < 0)
		return ret;
	if (raw->timeout_flags & IORING_TIMEOUT_MULTISHOT) {
		entry->sqe.is_multishot = true;
		entry->sqe.len = count; /* how often to repeat; 0: for ever */
	} else if (count) {
		entry->note->timeout.counts = true;
		entry->note->timeout.count = count;
		entry->note->timeout.data = raw->user_data;
	}
	return 0;
}

int uaio_uring_prep_link_timeout(struct uaio_uring_entry *entry)
{
	return prep_any_timeout(entry, true);
}

int uaio_uring_prep_timeout_remove(struct uaio_uring_entry *entry)
{
	const uint32_t flags = entry->raw.timeout_flags;
	const struct io_uring_sqe *raw = &entry->raw;
	int64_t time_ns;
	int ret;

	if (raw->flags & IOSQE_FIXED_FILE || raw->buf_index || raw->len ||
	    raw->splice_fd_in || raw->addr3 || raw->__pad2[0])
		return -EINVAL;
	if (!(flags & IORING_TIMEOUT_UPDATE_MASK))
		return flags ? -EINVAL
			     : uaio_uring_call_for(entry,
						   UAIO_URING_TIMEOUT_REMOVE);
	/* An update cannot change the timeout's clock. */
	if (flags & ~(IORING_TIMEOUT_UPDATE_MASK | IORING_TIMEOUT_ABS))
		return -EINVAL;
	ret = read_time(raw->addr2, &time_ns);
	if (ret < 0)
		return ret;
	/*
	 * As in the kernel, LINK_TIMEOUT_UPDATE without TIMEOUT_UPDATE removes an
	 * unlinked timeout.
	 */
	ret = uaio_uring_call_for(entry, flags & IORING_TIMEOUT_UPDATE
						 ? UAIO_URING_TIMEOUT_UPDATE
						 : UAIO_URING_TIMEOUT_REMOVE);
	if (ret == 0)
		entry->note->change.time_ns = time_ns;
	return ret;
}

/*
 * Changing a timeout
 */

struct by_time {
	struct uaio_timer_aim aim;
	struct uaio_uring *ring;
	bool is_linked;
};

/*
 * Return: whether sqe is the timeout that `aim` describes. Caller holds the queue's
 * lock.
 */
static bool is_timeout(const struct uaio_timer_aim *aim,
		       const struct uaio_sqe *sqe)
{
	const struct by_time *by = container_of(aim, const struct by_time, aim);
	struct uaio_uring_timeout *timeout;

	if (sqe->data != aim->data ||
	    (sqe->op == UAIO_OP_LINK_TIMER) != by->is_linked)
		return false;
	/* An updated timeout no longer counts completions. */
	timeout = uaio_uring_timeout_of(uaio_uring_note_of(sqe->word));
	if (timeout && !load_relaxed(&timeout->is_reached))
		uaio_uring_uncount_locked(by->ring, timeout);
	return true;
}

int uaio_uring_update_timeout(struct uaio_uring *ring,
			      const struct uaio_uring_change *change)
{
	const struct by_time by = {
		.aim = { .is_meant = is_timeout,
			 .data = change->aim.user_data,
			 .time_ns = change->time_ns,
			 .is_absolute =
				 change->aim.flags & IORING_TIMEOUT_ABS },
		.ring = ring,
		.is_linked = change->aim.flags & IORING_LINK_TIMEOUT_UPDATE,
	};

	return uaio_timer_change(&ring->queue, &by.aim);
}
