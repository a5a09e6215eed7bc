/* SPDX-License-Identifier: MIT */
/*
 * One list of all contexts, newest first. A lookup walks the list without a lock until
 * it finds the handle. Inserting puts a context first, removing unlinks it.
 *
 * A lookup finds every context that stays in the list (I2 of contextindex.h), for these
 * reasons: from any entry, a reader reaches all entries that were inserted before it. A
 * removed entry keeps its link to the next entry. If the memory of a removed entry is
 * used again, it becomes the newest entry, whose link leads to all others.
 */
#include "contextindex.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/slab.h"

struct entry {
	struct uaio_slab_node node;

	/* atomic, written under the lock */
	struct entry *next;
	uint64_t handle;
	void *context;
};

enum { BATCH_BYTES = 65536 };

static struct {
	struct entry *newest; /* atomic, written under the lock */

	/* under the lock */
	/* owns: an entry that reserve() has allocated for the next insert; or NULL */
	struct entry *spare;
	size_t nr;
	struct uaio_slab entries;
} list;

void list_index_init(void)
{
	list.newest = list.spare = NULL;
	list.nr = 0;
	uaio_slab_init(&list.entries, sizeof(struct entry), BATCH_BYTES);
}

int list_index_reserve(void)
{
	if (!list.spare)
		list.spare = uaio_slab_get(&list.entries);
	return list.spare ? 0 : -ENOMEM;
}

void list_index_insert(uint64_t handle, void *context)
{
	struct entry *entry = list.spare;

	UAIO_CHECK(entry);
	list.spare = NULL;
	list.nr++;
	/*
	 * The entry's memory may have held an entry that was removed, and a reader may
	 * still read it. Store the context before the handle, so that a reader that
	 * finds the handle also finds the context. Store the link before the entry
	 * becomes visible.
	 */
	store_release(&entry->context, context);
	store_release(&entry->handle, handle);
	store_release(&entry->next, load_relaxed(&list.newest));
	store_release(&list.newest, entry);
}

void list_index_remove(uint64_t handle)
{
	struct entry **link = &list.newest, *entry;

	/*
	 * relaxed: links and handles are written only under the lock, which the caller
	 * holds
	 */
	while ((entry = load_relaxed(link)) &&
	       load_relaxed(&entry->handle) != handle)
		link = &entry->next;
	UAIO_CHECK(entry);
	store_release(link, load_relaxed(&entry->next));
	list.nr--;
	uaio_slab_put(&list.entries, entry);
}

void *list_index_find(uint64_t handle)
{
	struct entry *entry = load_acquire(&list.newest);

	while (entry && load_acquire(&entry->handle) != handle)
		entry = load_acquire(&entry->next);
	return entry ? load_acquire(&entry->context) : NULL;
}

size_t list_index_bytes(void)
{
	return list.nr * sizeof(struct entry);
}

const struct contextindex list_index = CONTEXTINDEX(list_index, "list");
