/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "contextindex.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "unit.h"

enum {
	NR_DENSE = 300,
	NR_SPARSE = 100,
	NR = NR_DENSE + NR_SPARSE,
	NODE_SLOTS_BITS = 6,
	PAGE_SHIFT = 12,
};

struct context {
	uint64_t handle;
	/*
	 * the value ~handle. A plain store sets it before the context is inserted, so a
	 * thread that finds the context must see it.
	 */
	uint64_t written;
	bool is_in;
};

static struct context contexts[NR];
static struct uaio_lock lock;

static const struct contextindex *const indexes[] = { &list_index,
						      &radix_index };

/*
 * Return: handle number i. The first handles lie side by side; the following ones are
 * powers of two; the rest are scattered.
 */
static uint64_t handle_of(unsigned i)
{
	uint64_t x = i;

	if (i < NR_DENSE)
		return 0x7f1200345000 + ((uint64_t)i << PAGE_SHIFT);
	i -= NR_DENSE;
	if (i < 64 - PAGE_SHIFT)
		return 1ull << (PAGE_SHIFT + i);
	x *= 0x9e3779b97f4a7c15u;
	return (x ^ x >> 29) >> PAGE_SHIFT << PAGE_SHIFT;
}

static void begin(const struct contextindex *index)
{
	index->init();
	for (unsigned i = 0; i < NR; i++)
		contexts[i] = (struct context){ .handle = handle_of(i) };
	assert_int_equal(index->bytes(), 0);
}

static void put(const struct contextindex *index, struct context *context)
{
	uaio_lock(&lock, UAIO_RANK_TABLE);
	assert_int_equal(index->reserve(), 0);
	context->is_in = true;
	index->insert(context->handle, context);
	uaio_unlock(&lock, UAIO_RANK_TABLE);
}

static void take(const struct contextindex *index, struct context *context)
{
	uaio_lock(&lock, UAIO_RANK_TABLE);
	index->remove(context->handle);
	context->is_in = false;
	uaio_unlock(&lock, UAIO_RANK_TABLE);
}

/*
 * find() may return any context for an unknown handle, so compare the context's handle.
 */
static struct context *find(const struct contextindex *index, uint64_t handle)
{
	struct context *found = index->find(handle);

	if (found) {
		assert_true(found >= contexts && found < contexts + NR);
		if (found->handle == handle)
			return found;
	}
	return NULL;
}

static void expect_all(const struct contextindex *index)
{
	for (unsigned i = 0; i < NR; i++) {
		struct context *context = &contexts[i];
		uint64_t handle = context->handle;

		assert_ptr_equal(find(index, handle),
				 context->is_in ? context : NULL);
		assert_null(find(index, handle + 8));
		assert_null(find(index, ~handle));
	}
	assert_null(find(index, 0));
}

static unsigned next_random(uint64_t *x, unsigned below)
{
	*x = *x * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(*x >> 33) % below;
}

static void what_is_there_is_found_and_nothing_else(void **state)
{
	(void)state;
	for (unsigned n = 0; n < NR_ELEMENTS(indexes); n++) {
		const struct contextindex *index = indexes[n];
		uint64_t x = 1;

		begin(index);
		expect_all(index);
		for (unsigned round = 0; round < unit_rounds(200); round++) {
			for (unsigned i = 0; i < 40; i++) {
				struct context *context =
					&contexts[next_random(&x, NR)];

				if (context->is_in)
					take(index, context);
				else
					put(index, context);
			}
			expect_all(index);
		}
		for (unsigned i = 0; i < NR; i++)
			if (contexts[i].is_in)
				take(index, &contexts[i]);
		expect_all(index);
		assert_int_equal(index->bytes(), 0);
	}
}

/*
 * Return: how many nodes a tree of this height needs for the contexts whose is_in is
 * true.
 */
static size_t nr_nodes(unsigned height)
{
	size_t nr = 0;

	for (unsigned level = 1; level <= height; level++) {
		for (unsigned i = 0; i < NR; i++) {
			unsigned shift = PAGE_SHIFT + level * NODE_SLOTS_BITS;
			unsigned j;

			if (!contexts[i].is_in)
				continue;
			for (j = 0; j < i; j++)
				if (contexts[j].is_in &&
				    (shift > 63 ||
				     contexts[i].handle >> shift ==
					     contexts[j].handle >> shift))
					break;
			nr += j == i;
		}
	}
	return nr;
}

static void a_tree_has_the_nodes_that_its_keys_need(void **state)
{
	size_t node_bytes;

	(void)state;
	begin(&radix_index);
	contexts[0].handle = 5 << PAGE_SHIFT;
	contexts[1].handle = 1ull << 63;
	put(&radix_index, &contexts[0]);
	node_bytes = radix_index.bytes();
	assert_in_range(node_bytes, 64 * sizeof(void *),
			64 * sizeof(void *) + 64);
	put(&radix_index, &contexts[1]);
	/*
	 * A page number has 52 bits, so the tree has 9 levels of 6 bits. The two keys
	 * share only the root: the other 8 levels have two nodes each, 17 in all.
	 */
	assert_int_equal(radix_index.bytes(), 17 * node_bytes);
	take(&radix_index, &contexts[0]);
	assert_int_equal(radix_index.bytes(), 9 * node_bytes);
	take(&radix_index, &contexts[1]);
	assert_int_equal(radix_index.bytes(), 0);

	begin(&radix_index);
	for (unsigned i = NR; i-- > 0;)
		put(&radix_index, &contexts[i]);
	assert_int_equal(radix_index.bytes(), nr_nodes(9) * node_bytes);
	for (unsigned i = 0; i < NR; i += 3)
		take(&radix_index, &contexts[i]);
	assert_int_equal(radix_index.bytes(), nr_nodes(9) * node_bytes);
}

/*
 * Insert contexts one by one, from the lowest key on. After each insertion, the tree
 * must have exactly the levels that its largest key needs.
 */
static void a_tree_grows_with_the_greatest_key(void **state)
{
	size_t node_bytes = 0;
	unsigned height = 1;

	(void)state;
	begin(&radix_index);
	for (unsigned i = NR_DENSE; i < NR_DENSE + 64 - PAGE_SHIFT; i++) {
		uint64_t page = contexts[i].handle >> PAGE_SHIFT;

		while (page >> height * NODE_SLOTS_BITS)
			height++;
		put(&radix_index, &contexts[i]);
		if (!node_bytes)
			node_bytes = radix_index.bytes();
		assert_int_equal(radix_index.bytes(),
				 nr_nodes(height) * node_bytes);
		expect_all(&radix_index);
	}
}

static bool refuse_memory(long nr, const long args[6], long *ret_res)
{
	(void)args;
	*ret_res = -ENOMEM;
	return nr == SYS_mmap;
}

static void an_index_without_memory_stays_as_it_is(void **state)
{
	(void)state;
	for (unsigned n = 0; n < NR_ELEMENTS(indexes); n++) {
		begin(indexes[n]);
		unit_hook(refuse_memory);
		assert_int_equal(indexes[n]->reserve(), -ENOMEM);
		unit_hook(NULL);
		expect_all(indexes[n]);
		put(indexes[n], &contexts[NR - 1]);
		expect_all(indexes[n]);
	}
}

/* interleavings */

enum {
	NR_NEIGHBOURS = 7,
	/*
	 * While a lookup runs, the test removes context GOES. The contexts beside GOES
	 * in the list, and those in the same node of the tree, must still be found.
	 */
	GOES = 4,
	/*
	 * Removing GOES_TOO frees all nodes of a branch of the tree. Inserting
	 * COMES_HIGH uses these nodes again.
	 */
	GOES_TOO = NR_DENSE + 30,
	COMES_HIGH = NR_DENSE + 64 - PAGE_SHIFT - 1,
};

static const struct contextindex *stepped;

static long look_for_all(void *arg)
{
	(void)arg;
	for (unsigned i = 1; i < NR_NEIGHBOURS; i += 2)
		if (stepped->find(handle_of(i)) != &contexts[i])
			return -1;
	return 0;
}

/*
 * Remove GOES and GOES_TOO, and insert COMES_HIGH, which uses the memory of GOES_TOO
 * again. Nothing uses the memory of GOES again.
 */
static long change_all(void *arg)
{
	(void)arg;
	take(stepped, &contexts[GOES]);
	take(stepped, &contexts[GOES_TOO]);
	put(stepped, &contexts[COMES_HIGH]);
	return 0;
}

static void step_through(long (*victim)(void *), long (*intruder)(void *))
{
	unsigned nr = 0;

	begin(stepped);
	for (unsigned n = 0; n <= nr; n++) {
		long rets[2];

		for (unsigned i = 0; i < NR; i++)
			if (contexts[i].is_in)
				take(stepped, &contexts[i]);
		for (unsigned i = 0; i < NR_NEIGHBOURS; i++)
			put(stepped, &contexts[i]);
		put(stepped, &contexts[GOES_TOO]);
		nr = unit_interleave(n, victim, intruder, NULL, rets);
		assert_int_equal(rets[0], 0);
		assert_int_equal(rets[1], 0);
	}
	if (UNIT_CAN_STEP)
		assert_true(nr > 20);
}

static void what_stays_is_found_between_two_instructions(void **state)
{
	(void)state;
	for (unsigned n = 0; n < NR_ELEMENTS(indexes); n++) {
		stepped = indexes[n];
		step_through(change_all, look_for_all);
		step_through(look_for_all, change_all);
	}
}

/* threads */

/*
 * What writers do to a context while readers look up all contexts. They leave it in the
 * index, insert it once, or insert and remove it repeatedly. Only some of the first
 * NR_DENSE contexts stay. Any other would keep the tree at its greatest height, so
 * readers would not see the tree grow and shrink.
 */
enum role { STAYS, COMES, CHURNS };

static enum role role_of(unsigned i)
{
	if (i % 4 == 0 && i < NR_DENSE)
		return STAYS;
	return i % 4 == 1 ? COMES : CHURNS;
}

static struct {
	const struct contextindex *index;
	uint32_t is_over; /* atomic */
	/* atomic; how often readers have looked up all contexts */
	uint32_t nr_reads;
} meeting;

static long read_all(void *arg)
{
	(void)arg;
	do {
		for (unsigned i = 0; i < NR; i++) {
			uint64_t handle = handle_of(i);
			struct context *found = meeting.index->find(handle);

			if (found &&
			    (found < contexts || found >= contexts + NR))
				return -1;
			if (role_of(i) == STAYS && found != &contexts[i])
				return -2;
			if (role_of(i) == COMES && found == &contexts[i] &&
			    found->written != ~handle)
				return -3;
		}
		add_relaxed(&meeting.nr_reads, 1);
	} while (!load_acquire(&meeting.is_over));
	return 0;
}

/* Each writer inserts and removes contexts that no other writer uses. */
enum { NR_WRITERS = 2, NR_READERS = 2 };

static long churn(void *arg)
{
	unsigned own = (unsigned)(uintptr_t)arg;
	uint64_t x = own;

	for (unsigned round = 0; round < unit_rounds(4000); round++) {
		unsigned i = next_random(&x, NR / 4) * 4;
		struct context *context = &contexts[i + 2 + own];

		if (context->is_in)
			take(meeting.index, context);
		else
			put(meeting.index, context);
		if (round % 32 == 0 && own == 0 && !contexts[i + 1].is_in) {
			contexts[i + 1].written = ~contexts[i + 1].handle;
			put(meeting.index, &contexts[i + 1]);
		}
	}
	return 0;
}

static void meet(const struct contextindex *index)
{
	struct unit_thread readers[NR_READERS], writers[NR_WRITERS];

	begin(index);
	meeting.index = index;
	store_relaxed(&meeting.is_over, 0);
	for (unsigned i = 0; i < NR; i++)
		if (role_of(i) == STAYS)
			put(index, &contexts[i]);
	for (unsigned t = 0; t < NR_READERS; t++)
		unit_thread_start(&readers[t], read_all, NULL);
	for (unsigned t = 0; t < NR_WRITERS; t++)
		unit_thread_start(&writers[t], churn, (void *)(uintptr_t)t);
	for (unsigned t = 0; t < NR_WRITERS; t++)
		assert_int_equal(unit_thread_join(&writers[t]), 0);
	store_release(&meeting.is_over, 1);
	for (unsigned t = 0; t < NR_READERS; t++)
		assert_int_equal(unit_thread_join(&readers[t]), 0);
	expect_all(index);
	for (unsigned i = 0; i < NR; i++)
		if (contexts[i].is_in)
			take(index, &contexts[i]);
	assert_int_equal(index->bytes(), 0);
}

static void what_stays_is_found_whatever_comes_and_goes(void **state)
{
	(void)state;
	for (unsigned n = 0; n < NR_ELEMENTS(indexes); n++)
		for (unsigned round = 0; round < 20; round++)
			meet(indexes[n]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(what_is_there_is_found_and_nothing_else),
		UNIT_TEST(a_tree_has_the_nodes_that_its_keys_need),
		UNIT_TEST(a_tree_grows_with_the_greatest_key),
		UNIT_TEST(an_index_without_memory_stays_as_it_is),
		UNIT_TEST(what_stays_is_found_between_two_instructions),
		UNIT_TEST(what_stays_is_found_whatever_comes_and_goes),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
