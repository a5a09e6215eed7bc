/* SPDX-License-Identifier: MIT */
#include "aio/ctx.h"

#include <errno.h>
#include <string.h>

#include "base/uaddr.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/table.h"
#include "req/stats.h"
#include "ready/waiter.h"
#include "flow/post.h"
#include "life/door.h"
#include "aio/ctxtab.h"
#include "aio/handle.h"
#include "aio/iocb.h"
#include "aio/ringmem.h"
#include "uaio.h"

static struct {
	struct uaio_ctxtab table;
	struct uaio_slab slab;

	/* under lock */
	struct uaio_lock lock; /* rank TABLE */
	uint64_t quota_used;   /* sum of the live contexts' max_reqs */
	uint64_t nr_ctxs;
	/* sums over the destroyed contexts; nr_setups counts all contexts ever created */
	uint64_t nr_inline;
	uint64_t nr_queued;
	uint64_t nr_wakeups;
	uint64_t nr_setups;
} ctxs;

void uaio_ctxs_lock(void)
{
	uaio_lock(&ctxs.lock, UAIO_RANK_TABLE);
}

void uaio_ctxs_unlock(void)
{
	uaio_unlock(&ctxs.lock, UAIO_RANK_TABLE);
}

/*
 * Each system call of kernel AIO finds its context here, so the function has to be
 * fast: flatten makes the compiler also inline uaio_ringmem_contains(). The brackets
 * around the name keep a macro of bench/ctx-index.c from renaming this definition.
 */
__attribute__((flatten)) struct uaio_ctx *(uaio_ctx_find)(uint64_t handle)
{
	const struct uaio_ring_map *map =
		(const struct uaio_ring_map *)(uintptr_t)handle;

	if (likely(uaio_ringmem_contains(handle)))
		/*
		 * The caller verifies the context, because the id is only a hint: the
		 * client can write any value into the ring, and an outdated handle may
		 * point into the middle of another ring.
		 */
		return uaio_ctxtab_find(&ctxs.table, load_hint(&map->id));
	return uaio_moved_find(handle);
}

/* The sink */

static void take_in(struct uaio_queue *queue, const struct uaio_post *post)
{
	struct uaio_ctx *ctx = container_of(queue, struct uaio_ctx, queue);

	uaio_ring_push(&ctx->ring, post->completions, post->nr);
	/*
	 * [MB:done] release: write the ring's tail before nr_done. Pairs with
	 * uaio_ctx_room().
	 */
	store_release(&ctx->nr_done, load_relaxed(&ctx->nr_done) + post->nr);
	/*
	 * Signal the eventfd after the push: a thread that reads the eventfd must find the
	 * events. Signal it before the wake-up: a thread that was woken for the events must
	 * find the eventfd signalled.
	 */
	if (unlikely(post->words))
		uaio_resfd_signal(post);
	/*
	 * relaxed: this thread holds the queue's lock. io_destroy sets DEAD before it
	 * reads nr_done under this lock. So either io_destroy sees the new nr_done, or
	 * this load sees DEAD.
	 */
	if (unlikely(load_relaxed(&ctx->tickets) & UAIO_TICKETS_DEAD))
		uaio_ctx_wake_destroyer(ctx);
}

static inline uint32_t nr_unread(const struct uaio_queue *queue)
{
	return uaio_ring_unread(
		&container_of(queue, struct uaio_ctx, queue)->ring);
}

/*
 * Return: whether the ring has at least the `need` events for which a thread waits. The
 * waiting thread never asks for more events than the ring can hold.
 */
static bool is_met(const struct uaio_queue *queue, uint64_t need)
{
	return nr_unread(queue) >= need;
}

static bool has_unread(const struct uaio_queue *queue)
{
	return nr_unread(queue);
}

static uintptr_t tail(const struct uaio_queue *queue)
{
	/*
	 * relaxed: only race detectors use this value. They use it as an address
	 * (sink.h), but do not access the memory there.
	 */
	return load_relaxed(
		&container_of(queue, struct uaio_ctx, queue)->handle);
}

static const struct uaio_sink ring_sink = {
	.door = UAIO_DOOR_AIO,
	.post = take_in,
	.drop_words = uaio_resfd_drop,
	.is_met = is_met,
	.has_unreaped = has_unread,
	.tail = tail,
	.cancelled = uaio_iocb_cancelled,
};

/* Setting up */

static uint32_t capacity_of(uint32_t nr)
{
	/*
	 * The kernel gives slots to processors in batches. Slots that do not fill a batch
	 * stay unused. Clients can count how many requests fit, so the library leaves the
	 * same number of slots unused.
	 */
	uint32_t batch = (nr - 1) / uaio_ring_events_per_cpus();

	return batch > 1 ? (nr - 1) / batch * batch : nr - 1;
}

static struct uaio_ctx *new_ctx(uint32_t nr_pages)
{
	struct uaio_ctx *ctx = uaio_slab_get(&ctxs.slab);

	if (!ctx)
		return NULL;
	if (uaio_ring_init(&ctx->ring, nr_pages) < 0) {
		uaio_slab_put(&ctxs.slab, ctx);
		return NULL;
	}
	/*
	 * relaxed: publish() makes capacity visible to threads that find this context. A
	 * thread that found an earlier context in this memory may also read `capacity`,
	 * but then its compare-and-exchange of `tickets` fails.
	 */
	store_relaxed(&ctx->capacity, capacity_of(ctx->ring.nr));
	uaio_queue_init(&ctx->queue, &ring_sink);
	return ctx;
}

static void free_ctx(struct uaio_ctx *ctx)
{
	uaio_queue_fini(&ctx->queue);
	uaio_ring_fini(&ctx->ring);
	uaio_slab_put(&ctxs.slab, ctx);
}

uint64_t uaio_ctx_nr_events(void)
{
	uint64_t nr;

	uaio_ctxs_lock();
	nr = ctxs.quota_used;
	uaio_ctxs_unlock();
	return nr;
}

/*
 * Make the context visible to other threads.
 * Return: 0; -EAGAIN if the quota is exceeded; -ENOMEM if the table of contexts cannot
 * grow.
 */
static int publish(struct uaio_ctx *ctx, uint32_t nr_events)
{
	uint64_t handle = (uintptr_t)ctx->ring.map;
	uint64_t quota = uaio_config.max_nr;
	uint32_t id;
	int ret = 0;

	uaio_ctxs_lock();
	if (quota && ctxs.quota_used + nr_events > quota)
		ret = -EAGAIN;
	else
		ret = uaio_ctxtab_free_id_locked(&ctxs.table, &id);
	if (ret < 0)
		goto out;
	ctxs.quota_used += nr_events;
	ctxs.nr_ctxs++;
	ctxs.nr_setups++;
	add_relaxed(&uaio_stats_gauges->nr_setups, 1);
	ctx->id = id;
	ctx->max_reqs = nr_events;
	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	/*
	 * relaxed: a thread that relies on the handle holds the table's lock, reap_lock
	 * or a ticket, each of which orders its load of the handle
	 */
	store_relaxed(&ctx->handle, handle);
	/*
	 * Publishing takes one ticket and ends it at once. So `tickets` gets a value that
	 * it never had. If a thread read `tickets` when this memory was an earlier
	 * context, its compare-and-exchange fails.
	 */
	uaio_queue_lock(&ctx->queue);
	uaio_queue_open_locked(&ctx->queue);
	store_relaxed(&ctx->nr_done, load_relaxed(&ctx->nr_done) + 1);
	uaio_queue_unlock(&ctx->queue);
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	/*
	 * [MB:tickets] release: write the other members before `tickets`. Pairs with
	 * uaio_ctx_take_tickets().
	 */
	store_release(&ctx->tickets,
		      (load_relaxed(&ctx->tickets) + UAIO_TICKET) &
			      ~UAIO_TICKETS_DEAD);
	uaio_ctxtab_set_locked(&ctxs.table, id, ctx);
	store_relaxed(&ctx->ring.map->id, id);
out:
	uaio_ctxs_unlock();
	return ret;
}

int uaio_ctx_setup(uint32_t nr_events, uint64_t *ret_handle)
{
	uint32_t nr_pages = nr_events ? uaio_ring_pages(nr_events) : 0;
	struct uaio_ctx *ctx;
	uint64_t handle;
	int ret;

	/*
	 * The number of slots is doubled in 32 bits, as in the kernel. So a very large
	 * nr_events may wrap around to a small number of slots. Then the kernel does
	 * not return EINVAL, but EAGAIN, because nr_events exceeds its quota.
	 */
	if (nr_pages && nr_events > INT32_MAX)
		return -EAGAIN;

	if (!nr_pages)
		return -EINVAL;
	ctx = new_ctx(nr_pages);
	if (!ctx)
		return -ENOMEM;
	/*
	 * Read the handle now: as soon as the context is published, another thread may
	 * destroy it.
	 */
	handle = (uintptr_t)ctx->ring.map;
	ret = publish(ctx, nr_events);
	if (ret < 0) {
		free_ctx(ctx);
		return ret;
	}
	*ret_handle = handle;
	return 0;
}

/*
 * Remove the context from the table, so that no thread finds it, and give back its share
 * of the quota.
 * Return: the context, for the one caller that is to destroy it; NULL for all others.
 */
static struct uaio_ctx *claim(uint64_t handle, struct uaio_moved **ret_moved)
{
	struct uaio_ctx *ctx;

	uaio_ctxs_lock();
	ctx = uaio_moved_take_locked(handle, ret_moved);
	if (!ctx && uaio_ringmem_contains(handle)) {
		ctx = uaio_ctx_find(handle);
		/*
		 * relaxed: io_setup sets the handle under the table's lock, which this
		 * thread holds. io_destroy may not have cleared the handle yet, so also
		 * check that the context is in the table.
		 */
		if (ctx && (load_relaxed(&ctx->handle) != handle ||
			    uaio_ctxtab_find(&ctxs.table, ctx->id) != ctx))
			ctx = NULL;
	}
	if (ctx) {
		/*
		 * [MB:tickets] acq_rel: a thread that takes a ticket from now on sees
		 * DEAD, or its compare-and-exchange fails because `tickets` has changed.
		 * is_drained() counts the tickets taken earlier.
		 */
		or_acqrel(&ctx->tickets, UAIO_TICKETS_DEAD);
		uaio_ctxtab_set_locked(&ctxs.table, ctx->id, NULL);
		ctxs.quota_used -= ctx->max_reqs;
		ctxs.nr_ctxs--;
	}
	uaio_ctxs_unlock();
	return ctx;
}

static bool is_drained(struct uaio_ctx *ctx)
{
	uint64_t taken = load_relaxed(&ctx->tickets) / UAIO_TICKET;
	bool drained;

	/*
	 * This function reads nr_users under reap_lock, and nr_done under the queue's
	 * lock. A thread that changes either number afterwards finds DEAD set, and wakes
	 * the destroying thread.
	 */
	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	drained = ctx->nr_users == 0;
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	uaio_queue_lock(&ctx->queue);
	drained = drained && load_relaxed(&ctx->nr_done) == taken;
	uaio_queue_unlock(&ctx->queue);
	return drained;
}

static void wait_until_drained(struct uaio_ctx *ctx)
{
	for (;;) {
		/* [MB:drain] acquire: pairs with uaio_ctx_wake_destroyer(). */
		uint32_t key = load_acquire(&ctx->drain);

		if (is_drained(ctx))
			return;
		(void)uaio_sleep_outside(&ctx->drain, key, UAIO_FOREVER);
	}
}

__attribute__((noinline)) void uaio_ctx_wake_destroyer(struct uaio_ctx *ctx)
{
	/* [MB:drain] release: pairs with wait_until_drained(). */
	__atomic_fetch_add(&ctx->drain, 1, __ATOMIC_RELEASE);
	uaio_wake(&ctx->drain, 1);
}

int uaio_ctx_destroy(uint64_t handle)
{
	struct uaio_moved *moved;
	struct uaio_ctx *ctx = claim(handle, &moved);

	if (!ctx)
		return -EINVAL;
	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	store_relaxed(&ctx->handle, 0);
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	uaio_queue_close(&ctx->queue);
	wait_until_drained(ctx);

	uaio_ctxs_lock();
	ctxs.nr_inline += ctx->queue.nr_inline;
	ctxs.nr_queued += ctx->queue.nr_queued;
	ctxs.nr_wakeups += ctx->queue.nr_wakeups;
	uaio_ctxs_unlock();
	if (moved)
		uaio_moved_bring_home(ctx, moved);
	free_ctx(ctx);
	return 0;
}

long uaio_submission_begin(struct uaio_submission *submission, uint64_t handle,
			   long nr)
{
	struct uaio_ctx *ctx = uaio_ctx_find(handle);
	long room;

	if (!ctx)
		return -EINVAL;
	if (nr == 0)
		/*
		 * relaxed: an io_submit of 0 requests only checks the handle, and does
		 * not use the context
		 */
		return load_relaxed(&ctx->handle) == handle ? 0 : -EINVAL;
	room = uaio_ctx_take_tickets(ctx, handle, nr);
	if (room > 0) {
		submission->ctx = ctx;
		submission->nr_tickets = (uint32_t)room;
		uaio_batch_begin(&submission->batch, &ctx->queue);
	}
	return room;
}

void uaio_submission_end(struct uaio_submission *submission,
			 uint32_t nr_accepted)
{
	uint32_t nr_unused = submission->nr_tickets - nr_accepted;

	/*
	 * Return the unused tickets first, because other threads may need these slots,
	 * and uaio_batch_end() may take long: if no worker can be created, it executes
	 * requests itself.
	 */
	if (unlikely(nr_unused)) {
		uaio_batch_post(&submission->batch);
		uaio_ctx_return_tickets(submission->ctx, nr_unused);
	}
	uaio_batch_end(&submission->batch);
}

void uaio_ctx_return_tickets(struct uaio_ctx *ctx, unsigned nr)
{
	uaio_queue_lock(&ctx->queue);
	/* [MB:done] release: pairs with uaio_ctx_room(). */
	store_release(&ctx->nr_done, load_relaxed(&ctx->nr_done) + nr);
	uaio_queue_unlock(&ctx->queue);
	if (load_relaxed(&ctx->tickets) & UAIO_TICKETS_DEAD)
		uaio_ctx_wake_destroyer(ctx);
}

struct uaio_ctx *uaio_ctx_use(uint64_t handle)
{
	struct uaio_ctx *ctx = uaio_ctx_find(handle);

	if (!ctx)
		return NULL;
	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	if (load_relaxed(&ctx->handle) == handle)
		ctx->nr_users++;
	else
		handle = 0;
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	return handle ? ctx : NULL;
}

void uaio_ctx_unuse(struct uaio_ctx *ctx)
{
	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	ctx->nr_users--;
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	/*
	 * relaxed: this thread held reap_lock. io_destroy sets DEAD before it reads
	 * nr_users under this lock. So either io_destroy sees the new nr_users, or this
	 * load sees DEAD.
	 */
	if (load_relaxed(&ctx->tickets) & UAIO_TICKETS_DEAD)
		uaio_ctx_wake_destroyer(ctx);
}

bool uaio_ctx_is_empty(uint64_t handle)
{
	struct uaio_ctx *ctx = uaio_ctx_use(handle);
	bool is_empty;

	if (!ctx)
		return false;
	is_empty = uaio_ring_unread(&ctx->ring) == 0;
	uaio_ctx_unuse(ctx);
	return is_empty;
}

/* The front-end */

static void load(void)
{
	/*
	 * Count the processors already when the library is loaded: the C library opens
	 * a file to count them, which a seccomp filter may forbid later.
	 */
	(void)uaio_ring_events_per_cpus();
}

static int start(void)
{
	memset(&ctxs, 0, sizeof(ctxs));
	uaio_ctxtab_init(&ctxs.table);
	uaio_slab_init(&ctxs.slab, sizeof(struct uaio_ctx), 65536);
	uaio_moved_init();
	return uaio_ringmem_init();
}

static void count(struct uaio_counters *counters)
{
	counters->context_bytes += sizeof(struct uaio_ctx);
	counters->index_bytes += uaio_ringmem_index_bytes();
	counters->ring_bytes += uaio_ringmem_nr_pages() * uaio_page_bytes();
	uaio_ctxs_lock();
	counters->nr_contexts += ctxs.nr_ctxs;
	counters->nr_setups += ctxs.nr_setups;
	counters->nr_inline += ctxs.nr_inline;
	counters->nr_worker += ctxs.nr_queued;
	counters->nr_wakeups += ctxs.nr_wakeups;
	counters->table_bytes += uaio_ctxtab_bytes(&ctxs.table);
	/* relaxed: the table grows only under its lock, which this thread holds */
	for (uint32_t id = 0; id < load_relaxed(&ctxs.table.nr); id++) {
		struct uaio_ctx *ctx = uaio_ctxtab_find(&ctxs.table, id);

		if (!ctx)
			continue;
		uaio_queue_lock(&ctx->queue);
		counters->nr_inline += ctx->queue.nr_inline;
		counters->nr_worker += ctx->queue.nr_queued;
		counters->nr_wakeups += ctx->queue.nr_wakeups;
		uaio_queue_unlock(&ctx->queue);
	}
	uaio_ctxs_unlock();
}

static const struct uaio_door door = {
	.first_call = "io_setup",
	.load = load,
	.start = start,
	.count = count,
};

UAIO_DOOR(door);
