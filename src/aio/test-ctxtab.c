/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "aio/ctxtab.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "unit.h"

static struct uaio_ctxtab table;

/* Any address will do as a context, because the table never reads contexts. */
static struct uaio_ctx *context(uint64_t nr)
{
	return (struct uaio_ctx *)(uintptr_t)(nr + 1);
}

static int start(void **state)
{
	uaio_ctxtab_init(&table);
	return unit_setup(state);
}

static int stop(void **state)
{
	for (unsigned i = 0; i < UAIO_CTXTAB_SEGMENTS; i++)
		if (table.segments[i])
			munmap(table.segments[i],
			       (i ? 3u << 2 * i : 4) * sizeof(void *));
	return unit_teardown(state);
}

#define TABLE_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

static uint32_t add(struct uaio_ctx *ctx)
{
	uint32_t id;

	assert_int_equal(uaio_ctxtab_free_id_locked(&table, &id), 0);
	assert_null(uaio_ctxtab_find(&table, id));
	uaio_ctxtab_set_locked(&table, id, ctx);
	return id;
}

static const struct {
	uint32_t nr;
	uint32_t slots;
} sizes[] = { { 1, 4 },   { 4, 4 },   { 5, 16 },   { 16, 16 },
	      { 17, 64 }, { 64, 64 }, { 65, 256 }, { 257, 1024 } };

static void the_table_grows_fourfold_when_it_is_full(void **state)
{
	uint32_t nr = 0;

	(void)state;
	assert_int_equal(uaio_ctxtab_bytes(&table), 0);
	for (unsigned i = 0; i < NR_ELEMENTS(sizes); i++) {
		for (; nr < sizes[i].nr; nr++)
			assert_int_equal(add(context(nr)), nr);
		assert_int_equal(table.nr, sizes[i].slots);
		assert_int_equal(uaio_ctxtab_bytes(&table), 8 * sizes[i].slots);
		for (uint32_t id = 0; id < nr; id++)
			assert_ptr_equal(uaio_ctxtab_find(&table, id),
					 context(id));
		for (uint32_t id = nr; id < 5000; id++)
			assert_null(uaio_ctxtab_find(&table, id));
	}
}

static void the_tables_size_does_not_depend_on_addresses(void **state)
{
	(void)state;
	for (unsigned shift = 4; shift < 48; shift += 4)
		add((struct uaio_ctx *)(1ull << shift));
	assert_int_equal(uaio_ctxtab_bytes(&table), 8 * 16);
	for (unsigned shift = 12; shift < 48; shift++)
		add((struct uaio_ctx *)(1ull << shift | 1ull << 11));
	assert_int_equal(uaio_ctxtab_bytes(&table), 8 * 64);
}

static void any_id_may_be_looked_up(void **state)
{
	static const uint32_t ids[] = { 0,       3,   4,       1 << 20,
					1 << 24, ~0u, ~0u - 1, 1u << 31 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(ids); i++)
		assert_null(uaio_ctxtab_find(&table, ids[i]));
	add(context(0));
	for (unsigned i = 1; i < NR_ELEMENTS(ids); i++)
		assert_null(uaio_ctxtab_find(&table, ids[i]));
}

static void the_lowest_free_id_is_given_out(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		add(context(i));
	uaio_ctxtab_set_locked(&table, 17, NULL);
	uaio_ctxtab_set_locked(&table, 2, NULL);
	uaio_ctxtab_set_locked(&table, 9, NULL);
	assert_int_equal(add(context(2)), 2);
	assert_int_equal(add(context(9)), 9);
	assert_int_equal(add(context(17)), 17);
	assert_int_equal(add(context(20)), 20);
}

static void an_id_that_is_not_used_stays_free(void **state)
{
	uint32_t id;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(uaio_ctxtab_free_id_locked(&table, &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(add(context(0)), 0);
	assert_int_equal(add(context(1)), 1);
}

static void a_table_that_cannot_grow_goes_on_as_it_is(void **state)
{
	uint32_t id = 77;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		add(context(i));
	unit_hook(unit_refuse_memory);
	assert_int_equal(uaio_ctxtab_free_id_locked(&table, &id), -ENOMEM);
	assert_int_equal(id, 77);
	assert_int_equal(table.nr, 4);
	uaio_ctxtab_set_locked(&table, 1, NULL);
	assert_int_equal(add(context(1)), 1);
	unit_hook(NULL);
	assert_int_equal(add(context(4)), 4);
}

static uint32_t nr_published; /* atomic */
static uint32_t is_full;      /* atomic */

static long look_up_all(void *arg)
{
	(void)arg;
	do {
		uint32_t published = load_acquire(&nr_published);

		for (uint32_t id = 0; id < published; id++)
			if (uaio_ctxtab_find(&table, id) != context(id))
				return -1;
		/*
		 * The next ids may be added at any moment: for such an id,
		 * uaio_ctxtab_find() may return NULL or the id's own context, but no
		 * other one.
		 */
		for (uint32_t id = published; id < published + 8; id++) {
			struct uaio_ctx *ctx = uaio_ctxtab_find(&table, id);

			if (ctx && ctx != context(id))
				return -2;
		}
	} while (!load_acquire(&is_full));
	return 0;
}

static void growing_disturbs_no_reader(void **state)
{
	enum { NR = 3 };
	struct unit_thread threads[NR];

	(void)state;
	store_relaxed(&nr_published, 0);
	store_relaxed(&is_full, 0);
	for (unsigned i = 0; i < NR; i++)
		unit_thread_start(&threads[i], look_up_all, NULL);
	for (unsigned i = 0; i < unit_rounds(20000); i++) {
		add(context(i));
		store_release(&nr_published, i + 1);
	}
	store_release(&is_full, 1);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(unit_thread_join(&threads[i]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLE_TEST(the_table_grows_fourfold_when_it_is_full),
		TABLE_TEST(the_tables_size_does_not_depend_on_addresses),
		TABLE_TEST(any_id_may_be_looked_up),
		TABLE_TEST(the_lowest_free_id_is_given_out),
		TABLE_TEST(an_id_that_is_not_used_stays_free),
		TABLE_TEST(a_table_that_cannot_grow_goes_on_as_it_is),
		TABLE_TEST(growing_disturbs_no_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
