/* SPDX-License-Identifier: MIT */
#include "aio/ctxtab.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/sys.h"

static_assert(1ull << 2 * UAIO_CTXTAB_SEGMENTS <= UINT32_MAX,
	      "an id fits 32 bits");

void uaio_ctxtab_init(struct uaio_ctxtab *tab)
{
	memset(tab, 0, sizeof(*tab));
}

/*
 * Segment 0 has the ids 0 to 3, segment 1 the ids 4 to 15, segment 2 the ids 16 to 63,
 * ...
 */
static unsigned segment_of(uint32_t id)
{
	return id < 4 ? 0 : (unsigned)(31 - __builtin_clz(id)) / 2;
}

static uint32_t first_id(unsigned segment)
{
	return segment ? 1u << 2 * segment : 0;
}

static uint32_t nr_slots(unsigned segment)
{
	return (1u << 2 * (segment + 1)) - first_id(segment);
}

static struct uaio_ctx **slot_of(const struct uaio_ctxtab *tab, uint32_t id)
{
	unsigned segment = segment_of(id);

	/*
	 * relaxed: the caller has loaded nr by an acquire, or holds the table's lock, so it
	 * sees the segment's address
	 */
	return load_relaxed(&tab->segments[segment]) + id - first_id(segment);
}

struct uaio_ctx *uaio_ctxtab_find(const struct uaio_ctxtab *tab, uint32_t id)
{
	/*
	 * [MB:ctxtab-nr] acquire: this thread sees the segment's address. Pairs with
	 * grow_locked().
	 */
	if (id >= load_acquire(&tab->nr))
		return NULL;
	/*
	 * [MB:ctxtab-slot] acquire: this thread sees the context's members. Pairs with
	 * uaio_ctxtab_set_locked().
	 */
	return load_acquire(slot_of(tab, id));
}

static size_t segment_bytes(unsigned segment)
{
	return nr_slots(segment) * sizeof(struct uaio_ctx *);
}

static int grow_locked(struct uaio_ctxtab *tab)
{
	uint32_t nr = load_relaxed(&tab->nr);
	unsigned segment = nr ? segment_of(nr) : 0;
	struct uaio_ctx **slots;

	if (segment == UAIO_CTXTAB_SEGMENTS)
		return -ENOMEM;
	slots = sys_mmap(NULL, segment_bytes(segment), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(slots))
		return -ENOMEM;
	/* relaxed: the store to `nr` below publishes the segment */
	store_relaxed(&tab->segments[segment], slots);
	/*
	 * [MB:ctxtab-nr] release: write the segment's address before `nr`. Pairs with
	 * uaio_ctxtab_find().
	 */
	store_release(&tab->nr, nr + nr_slots(segment));
	return 0;
}

int uaio_ctxtab_free_id_locked(struct uaio_ctxtab *tab, uint32_t *ret_id)
{
	uint32_t id = tab->lowest_free;

	/*
	 * relaxed: slots are only written under the table's lock, which the caller
	 * holds
	 */
	while (id < load_relaxed(&tab->nr) && load_relaxed(slot_of(tab, id)))
		id++;
	tab->lowest_free = id;
	if (id >= load_relaxed(&tab->nr)) {
		int ret = grow_locked(tab);

		if (ret < 0)
			return ret;
	}
	*ret_id = id;
	return 0;
}

void uaio_ctxtab_set_locked(struct uaio_ctxtab *tab, uint32_t id,
			    struct uaio_ctx *ctx)
{
	if (!ctx && id < tab->lowest_free)
		tab->lowest_free = id;
	/*
	 * [MB:ctxtab-slot] release: write the context's members before its slot. Pairs with
	 * uaio_ctxtab_find().
	 */
	store_release(slot_of(tab, id), ctx);
}

size_t uaio_ctxtab_bytes(const struct uaio_ctxtab *tab)
{
	return load_relaxed(&tab->nr) * sizeof(struct uaio_ctx *);
}
