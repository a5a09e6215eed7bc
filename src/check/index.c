/* SPDX-License-Identifier: MIT */
/*
 * Index: finds the memory of requests by address
 *
 * A piece is a range of memory that a request uses, such as a vector. If a piece has
 * few pages, it is in the bucket of its first page. So a search visits the buckets of
 * the searched pages and of a few pages before them. Large pieces are in a separate
 * list. Counters, which are read without the lock, show whether a piece may be near a
 * page. For most calls of free() the counters show that no piece is near, and no search
 * is needed.
 *
 * Tested by test-check.c.
 */
#include "base/atomic.h"
#include "base/check.h"
#include "check/checkint.h"

enum {
	PAGE_BITS = 12,
	BUCKETS = 4096,
	/* a piece with more pages than this is large */
	SMALL_PAGES = 16,
	/* a search for this number of pages, or more, visits all buckets */
	MANY_PAGES = 256,
};

static struct {
	struct list buckets[BUCKETS];
	struct list large;
	uint32_t nr_large; /* atomic */
	/*
	 * Counters, atomic: how many pieces have a page that belongs to this slot. Many
	 * pages share a slot.
	 */
	uint32_t nr_near[BUCKETS];
} pieces;

void uaio_check_index_init(void)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		list_init(&pieces.buckets[i]);
		store_relaxed(&pieces.nr_near[i], 0);
	}
	list_init(&pieces.large);
	store_relaxed(&pieces.nr_large, 0);
}

static uintptr_t page_of(uintptr_t at)
{
	return at >> PAGE_BITS;
}

static uintptr_t last_page_of(uintptr_t at, size_t bytes)
{
	return page_of(at + bytes - 1);
}

static bool is_large(const struct uaio_check_part *part)
{
	return last_page_of(part->at, part->bytes) - page_of(part->at) >=
	       SMALL_PAGES;
}

/*
 * relaxed: the program must order a free of the memory after the submission, so the
 * thread that frees the memory sees the counters.
 */
static void count(const struct uaio_check_part *part, uint32_t by)
{
	if (is_large(part)) {
		add_relaxed(&pieces.nr_large, by);
		return;
	}
	for (uintptr_t page = page_of(part->at);
	     page <= last_page_of(part->at, part->bytes); page++)
		add_relaxed(&pieces.nr_near[page % BUCKETS], by);
}

void uaio_check_index_add(struct uaio_check_part *part)
{
	list_add_tail(is_large(part)
			      ? &pieces.large
			      : &pieces.buckets[page_of(part->at) % BUCKETS],
		      &part->in_index);
	count(part, 1);
}

void uaio_check_index_remove(struct uaio_check_part *part)
{
	list_remove(&part->in_index);
	count(part, UINT32_MAX);
}

static struct uaio_check_part *find_in(struct list *list, uintptr_t at,
				       size_t bytes,
				       uaio_check_found_fn *function,
				       const void *arg)
{
	list_for_each_safe (pos, list) {
		struct uaio_check_part *part =
			container_of(pos, struct uaio_check_part, in_index);

		if (part->at < at + bytes && at < part->at + part->bytes &&
		    function(arg, part))
			return part;
	}
	return NULL;
}

struct uaio_check_part *uaio_check_index_find(uintptr_t at, size_t bytes,
					      uaio_check_found_fn *function,
					      const void *arg)
{
	struct uaio_check_part *part;
	uintptr_t first = page_of(at), last;

	if (!bytes)
		return NULL;
	last = last_page_of(at, bytes);
	first -= first < SMALL_PAGES ? first : SMALL_PAGES - 1;
	if (last - first >= MANY_PAGES) {
		first = 0;
		last = BUCKETS - 1;
	}
	part = find_in(&pieces.large, at, bytes, function, arg);
	for (; !part && first <= last; first++)
		part = find_in(&pieces.buckets[first % BUCKETS], at, bytes,
			       function, arg);
	return part;
}

bool uaio_check_index_may_have(uintptr_t at, size_t bytes)
{
	uintptr_t first = page_of(at), last;

	if (!bytes)
		return false;
	last = last_page_of(at, bytes);
	if (load_relaxed(&pieces.nr_large) || last - first >= MANY_PAGES)
		return true;
	for (; first <= last; first++)
		if (load_relaxed(&pieces.nr_near[first % BUCKETS]))
			return true;
	return false;
}
