/* SPDX-License-Identifier: MIT */
/*
 * index PLACES THREADS N: measures three indexes of N kernel AIO contexts, outside of
 * the library. The indexes are the library's table; the list, which the library used
 * earlier; and the radix tree, which was only proposed (contextindex.h).
 *
 * PLACES says at which addresses the contexts' handles are:
 *
 *   dense    side by side, where the library puts its rings
 *   sparse   as in the kernel developers' discussion of 2013 about a radix tree: each
 *            handle is 16 times the previous one (0x4000, 0x40000 ...
 *            0x400000000000, the last that is a possible address); all further
 *            handles are pseudorandom pages below 2^47
 *
 * The table finds a context by the id in the context's ring, as in the library. All
 * rings are where the library puts them, whatever PLACES says. So PLACES does not
 * change the table's figure.
 *
 * Each thread looks up the handles of the hot set (handles.h). If an index returns a
 * wrong context, the program ends with an error. The program prints a line for each
 * index: the index's name, nanoseconds per lookup, and bytes of the whole index.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contextindex.h"
#include "aio/ctxtab.h"
#include "aio/ring.h"
#include "aio/ringmem.h"
#include "handles.h"

enum {
	PAGE_SHIFT = 12,
	ADDRESS_BITS = 47,
	FIRST_BIT = 14, /* the first sparse handle is 0x4000 */
	STEP_BITS = 4,
	NR_STEPS = (ADDRESS_BITS - 1 - FIRST_BIT) / STEP_BITS + 1,
	THREADS_MAX = 1024,
	CHECKED = 1024,
};

/* A context with only the members that a lookup uses. */
struct context {
	uint64_t handle;
	struct uaio_ring_map *ring;
};

static struct context *contexts;
static struct uaio_ctxtab table;

static void fail(const char *what, int error)
{
	fprintf(stderr, "index: %s: %s\n", what, strerror(error));
	exit(1);
}

/* places */

/* A fixed pseudorandom sequence, so that every run measures the same handles. */
static uint64_t scattered(uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return x >> (64 - ADDRESS_BITS) >> PAGE_SHIFT << PAGE_SHIFT;
}

static uint64_t sparse(size_t i)
{
	return i < NR_STEPS ? UINT64_C(1) << (FIRST_BIT + STEP_BITS * i)
			    : scattered(i);
}

static void make_contexts(size_t nr, bool is_sparse)
{
	contexts = calloc(nr, sizeof(*contexts));
	if (!contexts || uaio_ringmem_init() < 0)
		fail("contexts", ENOMEM);
	for (size_t i = 0; i < nr; i++) {
		contexts[i].ring = uaio_ringmem_get(1);
		if (!contexts[i].ring)
			fail("a ring", ENOMEM);
		contexts[i].handle =
			is_sparse ? sparse(i) : (uintptr_t)contexts[i].ring;
	}
}

/* The library's table, called in the same way as by aio/ctx.c. */

static void table_insert(struct context *context)
{
	uint32_t id;

	if (uaio_ctxtab_free_id_locked(&table, &id) < 0)
		fail("the table", ENOMEM);
	uaio_ctxtab_set_locked(&table, id, (struct uaio_ctx *)(void *)context);
	context->ring->id = id;
}

static const struct context *table_find(const struct uaio_ring_map *ring)
{
	if (!uaio_ringmem_contains((uintptr_t)ring))
		return NULL;
	return (void *)uaio_ctxtab_find(&table, load_hint(&ring->id));
}

static size_t table_bytes(void)
{
	return uaio_ctxtab_bytes(&table) + uaio_ringmem_index_bytes();
}

/* looking up */

struct hot_set {
	struct context contexts[HOT];
};

/* If a lookup found a wrong context, end the program. */
static void check(const struct context *found, const struct context *wanted)
{
	if (!found || found->handle != wanted->handle)
		fail("a handle leads elsewhere", EPROTO);
}

static void look_up_table(void *arg)
{
	const struct hot_set *hot = arg;

	for (size_t i = 0; i < HOT; i++)
		check(table_find(hot->contexts[i].ring), &hot->contexts[i]);
}

static void look_up_list(void *arg)
{
	const struct hot_set *hot = arg;

	for (size_t i = 0; i < HOT; i++)
		check(list_index_find(hot->contexts[i].handle),
		      &hot->contexts[i]);
}

static void look_up_radix(void *arg)
{
	const struct hot_set *hot = arg;

	for (size_t i = 0; i < HOT; i++)
		check(radix_index_find(hot->contexts[i].handle),
		      &hot->contexts[i]);
}

struct looker {
	pthread_t thread;
	pthread_barrier_t *start;
	round_fn *look_up;
	struct hot_set hot;
	double ns;
};

static void *look(void *arg)
{
	struct looker *looker = arg;

	pthread_barrier_wait(looker->start);
	looker->ns = time_rounds(looker->look_up, &looker->hot, HOT);
	return NULL;
}

/* Return: nanoseconds per lookup, the mean of all threads. */
static double time_lookups(round_fn *look_up, size_t nr, unsigned nr_threads)
{
	struct looker *lookers = calloc(nr_threads, sizeof(*lookers));
	pthread_barrier_t start;
	double sum_ns = 0;

	if (!lookers)
		fail("threads", ENOMEM);
	pthread_barrier_init(&start, NULL, nr_threads);
	for (unsigned t = 0; t < nr_threads; t++) {
		lookers[t].start = &start;
		lookers[t].look_up = look_up;
		for (size_t i = 0; i < HOT; i++)
			lookers[t].hot.contexts[i] = contexts[hot_index(i, nr)];
		errno = pthread_create(&lookers[t].thread, NULL, look,
				       &lookers[t]);
		if (errno)
			fail("a thread", errno);
	}
	for (unsigned t = 0; t < nr_threads; t++) {
		pthread_join(lookers[t].thread, NULL);
		sum_ns += lookers[t].ns;
	}
	pthread_barrier_destroy(&start);
	free(lookers);
	return sum_ns / nr_threads;
}

static void fill(const struct contextindex *index, size_t nr)
{
	index->init();
	for (size_t i = 0; i < nr; i++) {
		if (index->reserve() < 0)
			fail(index->name, ENOMEM);
		index->insert(contexts[i].handle, &contexts[i]);
	}
	/*
	 * With many contexts check only CHECKED of them, because a lookup in a list is
	 * slow.
	 */
	for (size_t i = 0; i < nr; i += 1 + nr / CHECKED)
		check(index->find(contexts[i].handle), &contexts[i]);
}

static void measure(size_t nr, unsigned nr_threads)
{
	uaio_ctxtab_init(&table);
	for (size_t i = 0; i < nr; i++)
		table_insert(&contexts[i]);
	for (size_t i = 0; i < nr; i++)
		check(table_find(contexts[i].ring), &contexts[i]);
	fill(&list_index, nr);
	fill(&radix_index, nr);
	printf("table %.2f %zu\n", time_lookups(look_up_table, nr, nr_threads),
	       table_bytes());
	printf("list %.2f %zu\n", time_lookups(look_up_list, nr, nr_threads),
	       list_index_bytes());
	printf("radix %.2f %zu\n", time_lookups(look_up_radix, nr, nr_threads),
	       radix_index_bytes());
}

int main(int argc, char **argv)
{
	bool is_sparse = argc == 4 && !strcmp(argv[1], "sparse");
	size_t nr, nr_threads;

	if (argc != 4 || (!is_sparse && strcmp(argv[1], "dense"))) {
		fputs("usage: index dense|sparse THREADS N\n", stderr);
		return 2;
	}
	nr_threads = count_argument(argv[2]);
	nr = count_argument(argv[3]);
	if (nr_threads > THREADS_MAX) {
		fputs("index: too many threads\n", stderr);
		return 2;
	}
	make_contexts(nr, is_sparse);
	measure(nr, (unsigned)nr_threads);
	free(contexts);
	return 0;
}
