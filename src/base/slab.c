/* SPDX-License-Identifier: MIT */
#include "base/slab.h"

#include <sys/mman.h>

#include "base/atomic.h"
#include "base/sys.h"

#ifdef UAIO_TESTING
uint64_t uaio_slabs_nr_out;
#endif

/* Count the objects in use. Tests check that no object is leaked. */
static inline void count(uint64_t nr)
{
#ifdef UAIO_TESTING
	/* relaxed: no other data depends on the count */
	add_relaxed(&uaio_slabs_nr_out, nr);
#else
	(void)nr;
#endif
}

void uaio_slab_init(struct uaio_slab *slab, size_t object_bytes,
		    size_t batch_bytes)
{
	*slab = (struct uaio_slab){
		.object_bytes = object_bytes,
		.batch_bytes = batch_bytes,
	};
}

static bool map_batch_locked(struct uaio_slab *slab)
{
	char *batch = sys_mmap(NULL, slab->batch_bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS);

	if (sys_is_map_error(batch))
		return false;
	slab->fresh = batch;
	slab->fresh_end = batch + slab->batch_bytes;
	slab->mapped_bytes += slab->batch_bytes;
	return true;
}

void *uaio_slab_get(struct uaio_slab *slab)
{
	struct uaio_slab_node *node;

	uaio_lock(&slab->lock, UAIO_RANK_SLAB);
	node = slab->free;
	if (node) {
		slab->free = load_relaxed(&node->next);
	} else if ((size_t)(slab->fresh_end - slab->fresh) >=
			   slab->object_bytes ||
		   map_batch_locked(slab)) {
		node = (struct uaio_slab_node *)(void *)slab->fresh;
		slab->fresh += slab->object_bytes;
	}
	if (node)
		slab->nr_out++;
	uaio_unlock(&slab->lock, UAIO_RANK_SLAB);
	count(node != NULL);
	return node;
}

void uaio_slab_put(struct uaio_slab *slab, void *object)
{
	struct uaio_slab_node *node = object;

	uaio_lock(&slab->lock, UAIO_RANK_SLAB);
	/* relaxed: only threads that hold the slab's lock follow this pointer */
	store_relaxed(&node->next, slab->free);
	slab->free = node;
	slab->nr_out--;
	uaio_unlock(&slab->lock, UAIO_RANK_SLAB);
	count((uint64_t)-1);
}
