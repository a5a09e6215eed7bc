/* SPDX-License-Identifier: MIT */
#include "uring/ring.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "proc/robust.h"
#include "file/file.h"
#include "wq/wq.h"
#include "check/check.h"
#include "check/hint.h"
#include "req/req.h"
#include "req/stats.h"
#include "ready/waiter.h"
#include "flow/cancel.h"
#include "flow/post.h"
#include "life/life.h"
#include "uring/bell.h"
#include "uring/calls.h"
#include "uring/cancel.h"
#include "uring/cq.h"
#include "uring/share.h"
#include "uring/table.h"
#include "uaio.h"

static struct {
	struct uaio_slab slab;

	/*
	 * First of the list of all rings. Atomic. A child of fork() keeps the list,
	 * because it has the same descriptors.
	 */
	struct uaio_uring *all;

	/* Under lock. */
	struct uaio_lock lock; /* rank TABLE */
	struct uaio_uring *dead;
	uint64_t nr_setups;
	uint64_t nr_open;
	/* Statistics of rings that were freed. */
	uint64_t nr_inline;
	uint64_t nr_queued;
	uint64_t nr_wakeups;
} rings;

static void lock(void)
{
	uaio_lock(&rings.lock, UAIO_RANK_TABLE);
}

static void unlock(void)
{
	uaio_unlock(&rings.lock, UAIO_RANK_TABLE);
}

void uaio_urings_init(void)
{
	uaio_slab_init(&rings.slab, sizeof(struct uaio_uring), 65536);
	rings.lock = (struct uaio_lock){ 0 };
	rings.dead = NULL;
	rings.nr_setups = rings.nr_open = 0;
	rings.nr_inline = rings.nr_queued = rings.nr_wakeups = 0;
}

bool uaio_uring_is_here(const struct uaio_uring *ring)
{
	/*
	 * [MB:uring-epoch] acquire: load `epoch` before the ring's members, in case
	 * this process took the ring over. Pairs with uaio_uring_tab_adopt().
	 */
	return uaio_engine_is_up() &&
	       load_acquire(&ring->epoch) == uaio_engine_start_nr();
}

/* The word `submit` */

bool uaio_uring_hold_slowly(struct uaio_uring *ring)
{
	uint32_t word = load_relaxed(&ring->submit), next;

	for (;;) {
		if (word & UAIO_URING_DEAD)
			return false;
		if (!(word & UAIO_URING_HELD)) {
			/* [MB:uring-submit] acquire: as in uaio_uring_hold(). */
			if (cas_acquire(&ring->submit, &word,
					word | UAIO_URING_HELD))
				return true;
			continue;
		}
		next = word | UAIO_URING_WAITED;
		/* relaxed: WAITED publishes nothing; the CAS above acquires the ring */
		if (word != next && !cas_relaxed(&ring->submit, &word, next))
			continue;
		(void)uaio_sleep_outside(&ring->submit, next, UAIO_FOREVER);
		word = load_relaxed(&ring->submit);
	}
}

static void bury(void);

/*
 * For uaio check.
 * Return: the record (check/) of an unfinished request that will write memory; or 0.
 */
static uint32_t record_in_flight(struct uaio_group *group)
{
	uint32_t record = 0;

	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	list_for_each (pos, &group->requests) {
		const struct uaio_req *req =
			container_of(pos, struct uaio_req, in_group);

		if (req->fault && !req->late.held && req->late.record &&
		    uaio_check_is_written(req->late.record))
			record = req->late.record;
	}
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	return record;
}

/* For uaio check: report unsubmitted SQEs and unread CQEs of a ring that ends. */
static __attribute__((noinline)) void look_at_rest(struct uaio_uring *ring)
{
	uint32_t nr_sqes, nr_cqes;

	if (uaio_uring_is_shared(ring))
		return;
	/* relaxed, all: a guess if some thread still uses the ring */
	nr_sqes = load_relaxed(&ring->mem.rings->sq_tail) - ring->sq_head;
	nr_cqes = uaio_uring_unread(ring);
	uaio_hint_ring_ends(nr_sqes <= ring->sq_entries ? nr_sqes : 0, nr_cqes);
}

/* Close the queue, and add the ring to the list of dead rings. */
static void end(struct uaio_uring *ring)
{
	if (unlikely(uaio_config.is_examined))
		look_at_rest(ring);
	if (ring->setup & IORING_SETUP_NO_MMAP) {
		uaio_queue_lock(&ring->queue);
		uaio_uring_mem_retire(&ring->mem);
		uaio_queue_unlock(&ring->queue);
	}
	if (unlikely(uaio_config.is_examined))
		uaio_check_say_closed(record_in_flight(&ring->queue.group));
	uaio_queue_close(&ring->queue);
	(void)uaio_queue_cancel_all(&ring->queue);
	uaio_uring_bell_silence(ring);
	uaio_uring_rsrc_fini(ring);
	uaio_uring_groups_fini(ring);
	lock();
	ring->next_dead = rings.dead;
	rings.dead = ring;
	unlock();
}

void uaio_uring_release_slowly(struct uaio_uring *ring, uint32_t word)
{
	do
		/* relaxed: the queue's lock protects the list `owed` */
		while (word & UAIO_URING_OWES)
			if (cas_relaxed(&ring->submit, &word,
					word & ~UAIO_URING_OWES)) {
				uaio_uring_rsrc_drop_owed(ring);
				word = load_relaxed(&ring->submit);
			}
	/* [MB:uring-submit] release: as in uaio_uring_release(). */
	while (!cas_release(&ring->submit, &word, word & UAIO_URING_DEAD));
	if (word & UAIO_URING_WAITED)
		uaio_wake(&ring->submit, INT_MAX);
	if (word & UAIO_URING_DEAD) {
		end(ring);
		bury();
	}
}

bool uaio_uring_use(struct uaio_uring *ring)
{
	/*
	 * [MB:uring-users] seq_cst: increment nr_users, then check DEAD. Pairs with
	 * uaio_uring_die() and is_over().
	 */
	add_seq_cst(&ring->nr_users, 1);
	if (likely(!(load_seq_cst(&ring->submit) & UAIO_URING_DEAD)))
		return true;
	uaio_uring_unuse(ring);
	return false;
}

void uaio_uring_unuse(struct uaio_uring *ring)
{
	/*
	 * [MB:uring-users] seq_cst: decrement nr_users after this thread's last access
	 * to the ring. Pairs with uaio_uring_die() and is_over().
	 */
	sub_seq_cst(&ring->nr_users, 1);
	/* relaxed: a thread that sets DEAD after this load frees dead rings itself */
	if (unlikely(load_relaxed(&ring->submit) & UAIO_URING_DEAD))
		bury();
}

/* The end of a ring */

static bool is_over(struct uaio_uring *ring)
{
	bool is_over;

	/* [MB:uring-users] seq_cst: load after DEAD is set. Pairs with uaio_uring_use(). */
	if (load_seq_cst(&ring->nr_users))
		return false;
	uaio_queue_lock(&ring->queue);
	is_over = ring->nr_done == ring->nr_taken;
	uaio_queue_unlock(&ring->queue);
	return is_over;
}

static void free_ring(struct uaio_uring *ring)
{
	lock();
	rings.nr_inline += ring->queue.nr_inline;
	rings.nr_queued += ring->queue.nr_queued;
	rings.nr_wakeups += ring->queue.nr_wakeups;
	rings.nr_open--;
	ring->is_counted = false;
	unlock();
	uaio_queue_drop_maker(&ring->queue);
	uaio_uring_drop_overflow(ring);
	/* Free buffer groups again: requests after end() may have provided buffers. */
	uaio_uring_groups_fini(ring);
	if (ring->eventfd)
		uaio_file_put(ring->eventfd);
	ring->eventfd = NULL;
	uaio_uring_bell_fini(ring);
	uaio_uring_tab_forget(ring);
	uaio_uring_forget_personalities(ring);
	uaio_uring_region_fini(&ring->region);
	uaio_queue_fini(&ring->queue);
	uaio_uring_mem_fini(&ring->mem);
	/* A struct that was taken over is from the parent's slab: do not reuse it. */
	if (!ring->is_inherited)
		uaio_slab_put(&rings.slab, ring);
}

static struct uaio_uring *take_over(void)
{
	struct uaio_uring **link, *ring;

	lock();
	for (link = &rings.dead; (ring = *link); link = &ring->next_dead)
		if (is_over(ring))
			break;
	if (ring)
		*link = ring->next_dead;
	unlock();
	return ring;
}

static void bury(void)
{
	struct uaio_uring *ring;

	while ((ring = take_over()))
		free_ring(ring);
}

void uaio_uring_die(struct uaio_uring *ring)
{
	/*
	 * [MB:uring-users] seq_cst: set DEAD, then check users. Pairs with
	 * uaio_uring_use().
	 */
	uint32_t word = add_seq_cst(&ring->submit, UAIO_URING_DEAD);

	UAIO_CHECK(!(word & UAIO_URING_DEAD));
	/* A thread that holds the ring calls end() when it releases the ring. */
	if (!(word & UAIO_URING_HELD))
		end(ring);
	bury();
}

/* The beginning of a ring */

/* Add a ring with a new struct to the list of all rings. */
static void enlist(struct uaio_uring *ring)
{
	struct uaio_uring *first = load_relaxed(&rings.all);

	do
		ring->next = first;
	/* [MB:uring-all] release: pairs with uaio_uring_first(). */
	while (!cas_release(&rings.all, &first, ring));
}

static void fill(struct uaio_uring *ring, const struct io_uring_params *params)
{
	bool is_disabled = params->flags & IORING_SETUP_R_DISABLED;
	bool is_owned = params->flags & IORING_SETUP_SINGLE_ISSUER;

	ring->setup = params->flags;
	/* relaxed, both: the release store into the table publishes these */
	store_relaxed(&ring->sq_entries, params->sq_entries);
	store_relaxed(&ring->cq_entries, params->cq_entries);
	ring->is_inherited = false;
	/* relaxed: the release store into the table publishes this */
	store_relaxed(&ring->witness, -1);
	ring->nr_forks = load_relaxed(&uaio_process_nr_forks);
	/* relaxed, all: the release store into the table publishes these */
	store_relaxed(&ring->is_disabled, is_disabled);
	store_relaxed(&ring->owner,
		      is_owned && !is_disabled ? &uaio_entry : NULL);
	store_relaxed(&ring->progress, 0);
	ring->sq_head = ring->nr_timeouts = 0;
	store_relaxed(&ring->cq_events, 0);
	ring->called.call = uaio_uring_called;
	heap_init(&ring->counting);
	ring->nr_counted = 0;
	list_init(&ring->reached);
	store_relaxed(&ring->nr_reached, 0);
	ring->nr_uncounted = 0;
	ring->is_ending = false;
	store_relaxed(&ring->nr_short, 0);
	ring->nr_taken = ring->nr_done = 0;
	ring->sleepers = NULL;
	ring->is_without_drains = ring->was_drained = false;
	ring->checks_each_sqe = ring->setup & IORING_SETUP_IOPOLL ||
				load_relaxed(&ring->is_restricted);
	ring->max_workers[0] = ring->max_workers[1] = 0;
	ring->first_over = ring->last_over = NULL;
	ring->eventfd = NULL;
	ring->is_eventfd_async = false;
	uaio_uring_bell_init(ring);
	store_relaxed(&ring->has_waited, 0);
	uaio_uring_rsrc_init(ring);
	uaio_uring_groups_init(ring);
	uaio_queue_init(&ring->queue, &uaio_uring_sink);
	uaio_queue_lock(&ring->queue);
	uaio_queue_open_locked(&ring->queue);
	ring->generation = ring->queue.generation;
	uaio_queue_unlock(&ring->queue);
}

/* Copy the parent's registered buffers: the child has the same addresses. */
static void take_over_buffers(struct uaio_uring *ring,
			      const struct uaio_uring_table *old)
{
	if (!old->nr || uaio_uring_table_new(ring, &ring->buffers, old->nr) < 0)
		return;
	for (uint32_t i = 0; i < old->nr; i++) {
		const struct uaio_uring_rsrc *rsrc = old->entries[i];

		if (rsrc)
			(void)uaio_uring_table_put_buffer(ring, i, rsrc->base,
							  rsrc->bytes, 0);
	}
}

void uaio_uring_take_over(struct uaio_uring *ring)
{
	static const char parents;
	const struct io_uring_params params = {
		.flags = ring->setup,
		.sq_entries = ring->sq_entries,
		.cq_entries = ring->cq_entries,
	};
	const struct uaio_uring_table buffers = ring->buffers;
	bool is_disabled = load_relaxed(&ring->is_disabled);
	bool is_owned = load_relaxed(&ring->owner);

	/* Reset the queue: during fork(), threads of the parent may have been changing it. */
	memset(&ring->queue, 0, sizeof(ring->queue));
	fill(ring, &params);
	/* relaxed, all: the release store to `epoch` publishes these */
	store_relaxed(&ring->is_disabled, is_disabled);
	store_relaxed(&ring->owner, is_owned ? &parents : NULL);
	store_relaxed(&ring->nr_users, 0);
	store_relaxed(&ring->submit, 0);
	ring->is_inherited = true;
	ring->nr_forks--; /* makes the ring shared from the start (share.h, I1) */
	take_over_buffers(ring, &buffers);
}

/* Count a ring in the statistics of this process. */
static void count_in(struct uaio_uring *ring)
{
	lock();
	rings.nr_open++;
	ring->is_counted = true;
	unlock();
}

/*
 * Add a new ring to the table, or to a slot of this thread.
 * Return: its descriptor or slot; -errno: no memory or slot, so the ring has ended.
 */
static int make_known(struct uaio_uring *ring, int fd)
{
	bool is_nameless = fd == UAIO_URING_NO_FD;
	int ret = uaio_uring_tab_add(
		is_nameless ? UAIO_URING_TAB_NO_FD : (uint32_t)fd, ring);

	if (ret < 0) {
		if (!is_nameless)
			(void)sys_close(fd);
		uaio_uring_die(ring);
		return ret;
	}
	if (!is_nameless)
		return fd;
	ret = uaio_uring_register_new(ring);
	if (ret < 0)
		uaio_uring_let_go(ring);
	return ret;
}

int uaio_uring_new(struct io_uring_params *params, struct uaio_uring **ret_ring)
{
	struct uaio_uring *ring;
	int fd;

	bury();
	ring = uaio_slab_get(&rings.slab);
	if (!ring)
		return -ENOMEM;
	fd = uaio_uring_mem_init(&ring->mem, params);
	if (fd < 0) {
		uaio_slab_put(&rings.slab, ring);
		return fd;
	}
	/* A reused struct is already on the list. */
	if (!load_relaxed(&ring->epoch))
		enlist(ring);
	store_relaxed(&ring->epoch, uaio_engine_start_nr());
	ring->restrictions = (struct uaio_uring_restrictions){ 0 };
	store_relaxed(&ring->is_restricted, 0);
	store_relaxed(&ring->clock, CLOCK_MONOTONIC);
	store_relaxed(&ring->seen_at,
		      params->flags & IORING_SETUP_NO_MMAP
			      ? (uintptr_t)*uaio_uring_rings_addr(params)
			      : 0);
	uaio_uring_region_init(&ring->region);
	fill(ring, params);
	/* As the kernel's SQPOLL thread would, use the ring maker's credentials. */
	if (params->flags & IORING_SETUP_SQPOLL)
		uaio_queue_keep_maker(&ring->queue);
	lock();
	rings.nr_setups++;
	add_relaxed(&uaio_stats_gauges->nr_setups, 1);
	add_relaxed(&uaio_stats_gauges->nr_rings, 1);
	rings.nr_open++;
	ring->is_counted = true;
	unlock();
	/*
	 * [MB:uring-users] release: from here on the struct is the new ring. Pairs with
	 * uaio_uring_use() in a thread that found an earlier ring in the struct.
	 */
	store_release(&ring->submit, 0);
	/* Write params now: after make_known() any thread may close the ring. */
	uaio_uring_mem_tell(&ring->mem, params);
	/* No SQPOLL thread exists, so clients must make a call to submit. */
	if (params->flags & IORING_SETUP_SQPOLL)
		store_relaxed(&ring->mem.rings->sq_flags,
			      IORING_SQ_NEED_WAKEUP);
	*ret_ring = ring;
	return make_known(ring, fd);
}

struct uaio_uring *uaio_uring_first(void)
{
	/* [MB:uring-all] acquire: load the head before the ring's members. Pairs with enlist(). */
	return load_acquire(&rings.all);
}

void uaio_urings_fork(void)
{
	/* Wait for posts that began before fork() made the ring shared (share.h). */
	for (struct uaio_uring *ring = uaio_uring_first(); ring;
	     ring = ring->next)
		if (uaio_uring_is_here(ring)) {
			uaio_queue_lock(&ring->queue);
			uaio_queue_unlock(&ring->queue);
		}
}

void uaio_urings_count(struct uaio_counters *counters)
{
	lock();
	counters->nr_setups += rings.nr_setups;
	counters->nr_contexts += rings.nr_open;
	counters->nr_inline += rings.nr_inline;
	counters->nr_worker += rings.nr_queued;
	counters->nr_wakeups += rings.nr_wakeups;
	for (struct uaio_uring *ring = uaio_uring_first(); ring;
	     ring = ring->next) {
		if (!ring->is_counted || !uaio_uring_is_here(ring))
			continue;
		uaio_queue_lock(&ring->queue);
		counters->nr_inline += ring->queue.nr_inline;
		counters->nr_worker += ring->queue.nr_queued;
		counters->nr_wakeups += ring->queue.nr_wakeups;
		uaio_queue_unlock(&ring->queue);
	}
	unlock();
}

/*
 * Rings that several processes use
 */

enum {
	LOOK_NS_MIN = 1000000,
	LOOK_NS_MAX = 50000000,
};

struct uaio_uring *uaio_uring_adopt(uint32_t fd, struct uaio_uring *ring)
{
	if (uaio_engine_start() < 0)
		return NULL;
	if (uaio_uring_tab_adopt(fd, ring))
		count_in(ring);
	/* Another thread may have taken the ring over through another descriptor. */
	ring = uaio_uring_find(fd);
	return ring && uaio_uring_is_here(ring) ? ring : NULL;
}

/* Read the tail from the ring's memory, because other processes may have posted. */
static void catch_up_locked(struct uaio_uring *ring)
{
	/* relaxed, both: ordered by `posting`; without this lock, only a guess */
	uint32_t tail = load_relaxed(&ring->mem.rings->cq_tail);

	store_relaxed(&ring->progress,
		      uaio_uring_progress_of(ring->nr_timeouts, tail));
}

void uaio_uring_share_look(struct uaio_uring *ring)
{
	uaio_queue_lock(&ring->queue);
	catch_up_locked(ring);
	uaio_queue_unlock(&ring->queue);
}

/*
 * The parent, which owns the ring, may have resized it in place: read the new size. A
 * client may have overwritten this size, so check it.
 */
static void look_at_size_locked(struct uaio_uring *ring)
{
	/* relaxed: ordered by the lock `posting` */
	uint32_t nr = load_relaxed(&ring->mem.rings->cq_entries);

	if (likely(nr == ring->cq_entries) || !ring->is_inherited ||
	    !(ring->setup & IORING_SETUP_DEFER_TASKRUN))
		return;
	if (nr && !(nr & (nr - 1)) &&
	    uaio_uring_mem_has_completions(&ring->mem, nr))
		/* relaxed: threads without the lock need only a guess */
		store_relaxed(&ring->cq_entries, nr);
}

void uaio_uring_share_begin(struct uaio_uring *ring)
{
	uaio_robust_lock(&ring->mem.rings->posting);
	catch_up_locked(ring);
	look_at_size_locked(ring);
}

void uaio_uring_share_end(struct uaio_uring *ring)
{
	uaio_robust_unlock(&ring->mem.rings->posting);
}

int uaio_uring_share_wait(struct uaio_uring *ring, uint64_t need,
			  const struct uaio_wait *wait, int64_t *span_ns)
{
	struct uaio_wait first = *wait;
	int ret;

	*span_ns = *span_ns ? 2 * *span_ns : LOOK_NS_MIN;
	if (*span_ns > LOOK_NS_MAX)
		*span_ns = LOOK_NS_MAX;
	first.deadline_ns = uaio_now_ns() + *span_ns;
	if (first.deadline_ns >= wait->deadline_ns)
		return uaio_queue_wait(&ring->queue, ring->generation, need,
				       wait);
	ret = uaio_queue_wait(&ring->queue, ring->generation, need, &first);
	uaio_uring_share_look(ring);
	return ret == -ETIMEDOUT ? 0 : ret;
}
