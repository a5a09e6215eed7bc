/* SPDX-License-Identifier: MIT */
/*
 * A list of the rings that clients have moved by mremap()
 *
 * Tested by test/conform/rows-ring.c and test/abi/passthrough.c.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "base/uaddr.h"
#include "aio/ctx.h"
#include "aio/handle.h"
#include "aio/ringmem.h"

struct uaio_moved {
	struct uaio_slab_node node;
	struct uaio_moved *next;
	struct uaio_ctx *ctx;
	uint64_t handle; /* the ring's present address */
	/*
	 * the ring's original memory; the entry owns it while the ring is elsewhere
	 */
	void *home;
};

static struct {
	struct uaio_slab slab;
	uint32_t nr; /* atomic: how many rings are in the list */

	/* changes under the lock of the context table */
	struct uaio_moved *first;
} list;

void uaio_moved_init(void)
{
	memset(&list, 0, sizeof(list));
	uaio_slab_init(&list.slab, sizeof(struct uaio_moved), 4096);
}

static struct uaio_moved **find_locked(uint64_t handle)
{
	struct uaio_moved **link = &list.first;

	while (*link && (*link)->handle != handle)
		link = &(*link)->next;
	return link;
}

__attribute__((noinline)) struct uaio_ctx *uaio_moved_find(uint64_t handle)
{
	struct uaio_ctx *ctx;
	struct uaio_moved *moved;

	/*
	 * relaxed: a client that passes the address of a moved ring has learnt it after
	 * the ring was counted
	 */
	if (!load_relaxed(&list.nr))
		return NULL;
	uaio_ctxs_lock();
	moved = *find_locked(handle);
	/* Read the entry under the lock: afterwards it may be reused for another ring. */
	ctx = moved ? moved->ctx : NULL;
	uaio_ctxs_unlock();
	/*
	 * No reference is needed: contexts are never unmapped, and the caller compares the
	 * handle (ctx.h, I3).
	 */
	return ctx;
}

struct uaio_ctx *uaio_moved_take_locked(uint64_t handle,
					struct uaio_moved **ret_moved)
{
	struct uaio_moved **link = find_locked(handle);

	*ret_moved = *link;
	if (!*link)
		return NULL;
	*link = (*link)->next;
	store_relaxed(&list.nr, load_relaxed(&list.nr) - 1);
	return (*ret_moved)->ctx;
}

void uaio_moved_bring_home(struct uaio_ctx *ctx, struct uaio_moved *moved)
{
	(void)sys_madvise(ctx->ring.map,
			  (size_t)ctx->ring.nr_pages * uaio_page_bytes(),
			  MADV_DONTNEED);
	store_relaxed(&ctx->ring.map, (struct uaio_ring_map *)moved->home);
	uaio_slab_put(&list.slab, moved);
}

/*
 * Move a ring by copying it. The old memory stays mapped, with an id that no lookup
 * accepts. A thread in io_submit may still read the head in the old memory without a
 * lock. That head no longer changes, so it is never ahead of the real head. So the
 * thread may find too little room in the ring, but never too much.
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
	/*
	 * relaxed: a thread that needs the ring's new address holds the table's lock,
	 * reap_lock or the queue's lock. Other threads may still use the old address,
	 * because the old memory stays mapped.
	 */
	store_relaxed(&ctx->ring.map, map);
	store_relaxed(&ctx->handle, (uintptr_t)map);
	store_relaxed(&old->id, UINT32_MAX);
	uaio_queue_unlock(&ctx->queue);
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	return (int64_t)new_addr;
}

/*
 * Return: the context whose ring is at `old`, if `old_bytes` and `new_bytes` are the
 * ring's size. Otherwise NULL, with the error in *ret_error.
 */
static struct uaio_ctx *movable_locked(uint64_t old, size_t old_bytes,
				       size_t new_bytes, int64_t *ret_error)
{
	struct uaio_moved *moved = *find_locked(old);
	struct uaio_ctx *ctx = moved                        ? moved->ctx
			       : uaio_ringmem_contains(old) ? uaio_ctx_find(old)
							    : NULL;

	*ret_error = -EINVAL;
	if (!ctx || load_relaxed(&ctx->handle) != old)
		return NULL;
	/*
	 * The ring can only be moved as a whole. If it is to grow, the kernel's error is
	 * -EFAULT.
	 */
	if (new_bytes > old_bytes)
		*ret_error = -EFAULT;
	if (old_bytes != (size_t)ctx->ring.nr_pages * uaio_page_bytes() ||
	    new_bytes != old_bytes)
		return NULL;
	return ctx;
}

/*
 * Store the ring's new address in the ring's entry of the list. If the ring has no
 * entry yet, add the entry `unused` for it.
 * Return: the ring's entry.
 */
static struct uaio_moved *note_move_locked(struct uaio_moved *unused,
					   struct uaio_ctx *ctx, uint64_t old,
					   uint64_t addr)
{
	struct uaio_moved *moved = *find_locked(old);

	if (moved) {
		moved->handle = addr;
		return moved;
	}
	unused->ctx = ctx;
	unused->handle = addr;
	unused->home = (void *)(uintptr_t)old;
	unused->next = list.first;
	list.first = unused;
	/* relaxed: the client learns the ring's new address only after this store */
	store_relaxed(&list.nr, load_relaxed(&list.nr) + 1);
	return unused;
}

/* Round up to whole pages, as mremap() does. A size near 2^64 wraps around to 0. */
static size_t whole_pages(size_t bytes)
{
	const size_t page = uaio_page_bytes();

	return (bytes + page - 1) & ~(page - 1);
}

bool uaio_ctx_mremap(uint64_t old, size_t old_bytes, size_t new_bytes,
		     int flags, uint64_t new_addr, int64_t *ret_addr)
{
	struct uaio_moved *moved, *used = NULL;
	struct uaio_ctx *ctx;
	bool is_ring;

	/*
	 * relaxed: a client that passes the address of a moved ring has seen the move, so
	 * this thread sees the ring counted in list.nr
	 */
	if (!uaio_ringmem_contains(old) && !load_relaxed(&list.nr))
		return false;
	moved = uaio_slab_get(&list.slab);
	uaio_ctxs_lock();
	is_ring = uaio_ringmem_contains(old) || *find_locked(old);
	ctx = movable_locked(old, whole_pages(old_bytes),
			     whole_pages(new_bytes), ret_addr);
	if (!moved)
		*ret_addr = -ENOMEM;
	else if (ctx && !(flags & MREMAP_FIXED))
		/* without MREMAP_FIXED a ring does not move, as in the kernel */
		*ret_addr = (int64_t)old;
	else if (ctx)
		*ret_addr = move_ring_locked(ctx, new_addr);
	if (moved && ctx && *ret_addr > 0 && (uint64_t)*ret_addr != old)
		used = note_move_locked(moved, ctx, old, (uint64_t)*ret_addr);
	uaio_ctxs_unlock();
	if (moved && moved != used)
		uaio_slab_put(&list.slab, moved);
	return is_ring;
}

bool uaio_ctx_munmap(uint64_t addr)
{
	bool is_ring;

	/*
	 * relaxed: a client that passes the address of a moved ring has seen the move, so
	 * this thread sees the ring counted in list.nr
	 */
	if (!uaio_ringmem_contains(addr) && !load_relaxed(&list.nr))
		return false;
	uaio_ctxs_lock();
	is_ring = uaio_ringmem_contains(addr) || *find_locked(addr);
	/*
	 * The memory of a ring stays mapped (ringmem.h). Only its handle becomes invalid.
	 */
	if (is_ring)
		store_relaxed(&((struct uaio_ring_map *)(uintptr_t)addr)->id,
			      UINT32_MAX);
	uaio_ctxs_unlock();
	return is_ring;
}
