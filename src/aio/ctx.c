/* SPDX-License-Identifier: MIT */
#include "aio/ctx.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
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
	uint32_t nr_moved; /* atomic: contexts on the list */

	/* under lock */
	struct uaio_lock lock; /* rank TABLE */
	uint64_t quota_used;   /* sum of the live contexts' max_reqs */
	uint64_t nr_ctxs;
	struct moved *moved; /* rings that clients have moved */
	/* statistics of contexts that were freed */
	uint64_t nr_inline;
	uint64_t nr_queued;
	uint64_t nr_wakeups;
	uint64_t nr_setups;
} ctxs;

/* A ring that its client has moved elsewhere with mremap(). */
struct moved {
	struct uaio_slab_node node;
	struct moved *next;
	struct uaio_ctx *ctx;
	uint64_t handle; /* where it is now */
	void *home;      /* owns: its place in our memory, unused meanwhile */
};

static struct uaio_slab moved_slab;

static struct moved **find_moved_locked(uint64_t handle)
{
	struct moved **link = &ctxs.moved;

	while (*link && (*link)->handle != handle)
		link = &(*link)->next;
	return link;
}

static struct uaio_ctx *find_elsewhere(uint64_t handle)
{
	struct uaio_ctx *ctx;
	struct moved *moved;

	uaio_lock(&ctxs.lock, UAIO_RANK_TABLE);
	moved = *find_moved_locked(handle);
	/* Read under the lock: after it the note may be reused. */
	ctx = moved ? moved->ctx : NULL;
	uaio_unlock(&ctxs.lock, UAIO_RANK_TABLE);
	/* The context's memory stays (slab.h), and the caller verifies (I3). */
	return ctx;
}

struct uaio_ctx *uaio_ctx_find(uint64_t handle)
{
	const struct uaio_ring_map *map =
		(const struct uaio_ring_map *)(uintptr_t)handle;

	if (likely(uaio_ringmem_contains(handle)))
		/*
		 * The id may be any value: the client can write it, and behind
		 * an outdated handle may be the middle of another ring.
		 */
		return uaio_ctxtab_find(&ctxs.table, load_hint(&map->id));
	/* relaxed: counted before the client knows the new address */
	if (load_relaxed(&ctxs.nr_moved))
		return find_elsewhere(handle);
	return NULL;
}

/*
 * The sink
 */

static void take_in(struct uaio_queue *queue, const struct uaio_post *post)
{
	struct uaio_ctx *ctx = container_of(queue, struct uaio_ctx, queue);

	uaio_ring_push(&ctx->ring, post->completions, post->nr);
	/* [MB:done] release: tail before count. Pairs with uaio_ctx_room(). */
	store_release(&ctx->nr_done, load_relaxed(&ctx->nr_done) + post->nr);
	/*
	 * A thread that reads the eventfd must find the events, so the signal
	 * comes after the push; a thread that is woken for the events must find
	 * the eventfd signalled, so it comes before the wake-up.
	 */
	if (unlikely(post->words))
		uaio_resfd_signal(post);
	/* relaxed: ordered by the lock, see is_drained() */
	if (unlikely(load_relaxed(&ctx->tickets) & UAIO_TICKETS_DEAD))
		uaio_ctx_wake_destroyer(ctx);
}

static inline uint32_t nr_unread(const struct uaio_queue *queue)
{
	return uaio_ring_unread(
		&container_of(queue, struct uaio_ctx, queue)->ring);
}

/* A need is a number of events, which never exceeds what the ring can hold. */
static bool is_met(const struct uaio_queue *queue, uint64_t need)
{
	return nr_unread(queue) >= need;
}

static bool has_unread(const struct uaio_queue *queue)
{
	return nr_unread(queue);
}

static const struct uaio_sink ring_sink = {
	.door = UAIO_DOOR_AIO,
	.post = take_in,
	.drop_words = uaio_resfd_drop,
	.is_met = is_met,
	.has_unreaped = has_unread,
	.cancelled = uaio_iocb_cancelled,
};

/*
 * Setting up
 */

static uint32_t capacity_of(uint32_t nr)
{
	/*
	 * The kernel gives slots to processors in batches, and slots that do
	 * not fill a batch stay unused. Clients can count the slots, so we
	 * leave the same number unused.
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
	/* relaxed: read only by threads that enter after publication */
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

	uaio_lock(&ctxs.lock, UAIO_RANK_TABLE);
	nr = ctxs.quota_used;
	uaio_unlock(&ctxs.lock, UAIO_RANK_TABLE);
	return nr;
}

/* Return: 0, -EAGAIN over quota, -ENOMEM. */
static int publish(struct uaio_ctx *ctx, uint32_t nr_events)
{
	uint64_t handle = (uintptr_t)ctx->ring.map;
	uint64_t quota = uaio_config.max_nr;
	uint32_t id;
	int ret = 0;

	uaio_lock(&ctxs.lock, UAIO_RANK_TABLE);
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
	/* relaxed: readers hold the lock or a ticket */
	store_relaxed(&ctx->handle, handle);
	/* A generation begins with a ticket that has already ended. */
	uaio_queue_lock(&ctx->queue);
	uaio_queue_open_locked(&ctx->queue);
	store_relaxed(&ctx->nr_done, load_relaxed(&ctx->nr_done) + 1);
	uaio_queue_unlock(&ctx->queue);
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	/*
	 * [MB:tickets] release: members before number. Pairs with
	 * uaio_ctx_take_tickets().
	 */
	store_release(&ctx->tickets,
		      (load_relaxed(&ctx->tickets) + UAIO_TICKET) &
			      ~UAIO_TICKETS_DEAD);
	uaio_ctxtab_set_locked(&ctxs.table, id, ctx);
	store_relaxed(&ctx->ring.map->id, id);
out:
	uaio_unlock(&ctxs.lock, UAIO_RANK_TABLE);
	return ret;
}

int uaio_ctx_setup(uint32_t nr_events, uint64_t *ret_handle)
{
	uint32_t nr_pages = nr_events ? uaio_ring_pages(nr_events) : 0;
	struct uaio_ctx *ctx;
	uint64_t handle;
	int ret;

	/*
	 * Doubled in 32 bits, as in the kernel, such a number may wrap around
	 * and pass as a small one; the kernel then refuses it by its quota.
	 */
	if (nr_pages && nr_events > INT32_MAX)
		return -EAGAIN;

	if (!nr_pages)
		return -EINVAL;
	ctx = new_ctx(nr_pages);
	if (!ctx)
		return -ENOMEM;
	/* Once published, another thread may destroy the context. */
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
 * Make the context unreachable and return its quota.
 * Return: the context, to the one caller that must destroy it; NULL to others.
 */
static struct uaio_ctx *claim(uint64_t handle, struct moved **ret_moved)
{
	struct moved **link, *moved = NULL;
	struct uaio_ctx *ctx;

	uaio_lock(&ctxs.lock, UAIO_RANK_TABLE);
	link = find_moved_locked(handle);
	if (*link) {
		moved = *link;
		ctx = moved->ctx;
		*link = moved->next;
		store_relaxed(&ctxs.nr_moved, load_relaxed(&ctxs.nr_moved) - 1);
	} else if (uaio_ringmem_contains(handle)) {
		ctx = uaio_ctx_find(handle);
		/*
		 * relaxed: a handle is set under this lock too, and before it
		 * is cleared the context has left the table
		 */
		if (ctx && (load_relaxed(&ctx->handle) != handle ||
			    uaio_ctxtab_find(&ctxs.table, ctx->id) != ctx))
			ctx = NULL;
	} else {
		ctx = NULL;
	}
	if (ctx) {
		/* [MB:tickets] acq_rel: later CASes fail, earlier ones count. */
		or_acqrel(&ctx->tickets, UAIO_TICKETS_DEAD);
		uaio_ctxtab_set_locked(&ctxs.table, ctx->id, NULL);
		ctxs.quota_used -= ctx->max_reqs;
		ctxs.nr_ctxs--;
	}
	uaio_unlock(&ctxs.lock, UAIO_RANK_TABLE);
	*ret_moved = moved;
	return ctx;
}

static bool is_drained(struct uaio_ctx *ctx)
{
	uint64_t taken = load_relaxed(&ctx->tickets) / UAIO_TICKET;
	bool drained;

	/*
	 * Each number is read under the lock under which it changes: a thread
	 * that changes it after our look finds DEAD set, and wakes us.
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

/* Put a moved ring back. Where it was moved to stays mapped, but empty. */
static void bring_home(struct uaio_ctx *ctx, struct moved *moved)
{
	(void)sys_madvise(ctx->ring.map,
			  (size_t)ctx->ring.nr_pages * uaio_page_bytes(),
			  MADV_DONTNEED);
	store_relaxed(&ctx->ring.map, (struct uaio_ring_map *)moved->home);
	uaio_slab_put(&moved_slab, moved);
}

int uaio_ctx_destroy(uint64_t handle)
{
	struct moved *moved;
	struct uaio_ctx *ctx = claim(handle, &moved);

	if (!ctx)
		return -EINVAL;
	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	store_relaxed(&ctx->handle, 0);
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	uaio_queue_close(&ctx->queue);
	wait_until_drained(ctx);

	uaio_lock(&ctxs.lock, UAIO_RANK_TABLE);
	ctxs.nr_inline += ctx->queue.nr_inline;
	ctxs.nr_queued += ctx->queue.nr_queued;
	ctxs.nr_wakeups += ctx->queue.nr_wakeups;
	uaio_unlock(&ctxs.lock, UAIO_RANK_TABLE);
	if (moved)
		bring_home(ctx, moved);
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
		/* relaxed: without a ticket nothing is done to the context */
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

	/* First: ending the batch may take long if no thread can be created. */
	if (unlikely(nr_unused)) {
		uaio_batch_post(&submission->batch);
		uaio_ctx_return_tickets(submission->ctx, nr_unused);
	}
	uaio_batch_end(&submission->batch);
}

void uaio_ctx_return_tickets(struct uaio_ctx *ctx, unsigned nr)
{
	uaio_queue_lock(&ctx->queue);
	/* [MB:done] release: as in take_in(). */
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
	/* relaxed: ordered by the lock, see is_drained() */
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

/*
 * The ring is copied rather than moved: a submitter may still read the head at
 * the old address, without a lock, and must find a head that is not ahead of
 * the real one. The old memory stays mapped, with an id that no lookup accepts.
 */
static int64_t move_ring_locked(struct uaio_ctx *ctx, uint64_t new_addr)
{
	size_t bytes = (size_t)ctx->ring.nr_pages * uaio_page_bytes();
	struct uaio_ring_map *map, *old = ctx->ring.map;

	map = sys_mmap((void *)(uintptr_t)new_addr, bytes,
		       PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
	if (sys_is_map_error(map))
		return (int64_t)(intptr_t)map;
	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	uaio_queue_lock(&ctx->queue);
	memcpy(map, old, bytes);
	/* relaxed: readers hold a lock, or accept the old value */
	store_relaxed(&ctx->ring.map, map);
	store_relaxed(&ctx->handle, (uintptr_t)map);
	store_relaxed(&old->id, UINT32_MAX);
	uaio_queue_unlock(&ctx->queue);
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	return (int64_t)new_addr;
}

/*
 * Return: the context whose ring is at old and has old_bytes, if new_bytes are
 * as many; or NULL, with the error in ret_error.
 */
static struct uaio_ctx *movable_locked(uint64_t old, size_t old_bytes,
				       size_t new_bytes, int64_t *ret_error)
{
	struct moved *moved = *find_moved_locked(old);
	struct uaio_ctx *ctx = moved                        ? moved->ctx
			       : uaio_ringmem_contains(old) ? uaio_ctx_find(old)
							    : NULL;

	*ret_error = -EINVAL;
	if (!ctx || load_relaxed(&ctx->handle) != old)
		return NULL;
	/* A ring moves as a whole. The kernel refuses growing with -EFAULT. */
	if (new_bytes > old_bytes)
		*ret_error = -EFAULT;
	if (old_bytes != (size_t)ctx->ring.nr_pages * uaio_page_bytes() ||
	    new_bytes != old_bytes)
		return NULL;
	return ctx;
}

/* Note the ring's new address. Return: its note, which may be unused. */
static struct moved *note_move_locked(struct moved *unused,
				      struct uaio_ctx *ctx, uint64_t old,
				      uint64_t addr)
{
	struct moved *moved = *find_moved_locked(old);

	if (moved) {
		moved->handle = addr;
		return moved;
	}
	unused->ctx = ctx;
	unused->handle = addr;
	unused->home = (void *)(uintptr_t)old;
	unused->next = ctxs.moved;
	ctxs.moved = unused;
	/* relaxed: the client learns the address later */
	store_relaxed(&ctxs.nr_moved, load_relaxed(&ctxs.nr_moved) + 1);
	return unused;
}

/* As the kernel rounds the sizes of mremap(): to whole pages, or to 0 from the last. */
static size_t whole_pages(size_t bytes)
{
	const size_t page = uaio_page_bytes();

	return (bytes + page - 1) & ~(page - 1);
}

bool uaio_ctx_mremap(uint64_t old, size_t old_bytes, size_t new_bytes,
		     int flags, uint64_t new_addr, int64_t *ret_addr)
{
	struct moved *moved, *used = NULL;
	struct uaio_ctx *ctx;
	bool is_ring;

	/* relaxed: a client knows its rings' addresses */
	if (!uaio_ringmem_contains(old) && !load_relaxed(&ctxs.nr_moved))
		return false;
	moved = uaio_slab_get(&moved_slab);
	uaio_lock(&ctxs.lock, UAIO_RANK_TABLE);
	is_ring = uaio_ringmem_contains(old) || *find_moved_locked(old);
	ctx = movable_locked(old, whole_pages(old_bytes),
			     whole_pages(new_bytes), ret_addr);
	if (!moved)
		*ret_addr = -ENOMEM;
	else if (ctx && !(flags & MREMAP_FIXED))
		*ret_addr = (int64_t)old; /* it moves only if told to */
	else if (ctx)
		*ret_addr = move_ring_locked(ctx, new_addr);
	if (moved && ctx && *ret_addr > 0 && (uint64_t)*ret_addr != old)
		used = note_move_locked(moved, ctx, old, (uint64_t)*ret_addr);
	uaio_unlock(&ctxs.lock, UAIO_RANK_TABLE);
	if (moved && moved != used)
		uaio_slab_put(&moved_slab, moved);
	return is_ring;
}

bool uaio_ctx_munmap(uint64_t addr)
{
	bool is_ring;

	/* relaxed: a client knows its rings' addresses */
	if (!uaio_ringmem_contains(addr) && !load_relaxed(&ctxs.nr_moved))
		return false;
	uaio_lock(&ctxs.lock, UAIO_RANK_TABLE);
	is_ring = uaio_ringmem_contains(addr) || *find_moved_locked(addr);
	/* The memory stays (ringmem.h), but the handle becomes invalid. */
	if (is_ring)
		store_relaxed(&((struct uaio_ring_map *)(uintptr_t)addr)->id,
			      UINT32_MAX);
	uaio_unlock(&ctxs.lock, UAIO_RANK_TABLE);
	return is_ring;
}

/*
 * The door
 */

static void load(void)
{
	/* Asked for now, because the C library opens a file to find it. */
	(void)uaio_ring_events_per_cpus();
}

static int start(void)
{
	memset(&ctxs, 0, sizeof(ctxs));
	uaio_ctxtab_init(&ctxs.table);
	uaio_slab_init(&ctxs.slab, sizeof(struct uaio_ctx), 65536);
	uaio_slab_init(&moved_slab, sizeof(struct moved), 4096);
	return uaio_ringmem_init();
}

static void count(struct uaio_counters *counters)
{
	counters->context_bytes += sizeof(struct uaio_ctx);
	counters->index_bytes += uaio_ringmem_index_bytes();
	counters->ring_bytes += uaio_ringmem_nr_pages() * uaio_page_bytes();
	uaio_lock(&ctxs.lock, UAIO_RANK_TABLE);
	counters->nr_contexts += ctxs.nr_ctxs;
	counters->nr_setups += ctxs.nr_setups;
	counters->nr_inline += ctxs.nr_inline;
	counters->nr_worker += ctxs.nr_queued;
	counters->nr_wakeups += ctxs.nr_wakeups;
	counters->table_bytes += uaio_ctxtab_bytes(&ctxs.table);
	/* relaxed: the table grows under the lock held */
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
	uaio_unlock(&ctxs.lock, UAIO_RANK_TABLE);
}

static const struct uaio_door door = {
	.first_call = "io_setup",
	.load = load,
	.start = start,
	.count = count,
};

UAIO_DOOR(door);
