/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "life/life.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "options/config.h"
#include "options/options.h"
#include "wq/wq.h"
#include "unit.h"

static void assert_workers(int bounded, int unbounded)
{
	int now[] = { -1, -1 };

	assert_int_equal(uaio_limits_set_workers(now), 0);
	assert_int_equal(now[UAIO_WQ_BOUNDED], bounded);
	assert_int_equal(now[UAIO_WQ_UNBOUNDED], unbounded);
	/*
	 * The work queue must have the same limits. The argument -1 changes nothing and
	 * returns the limit.
	 */
	assert_int_equal(uaio_wq_limit_workers(UAIO_BOUNDED, -1), bounded);
	assert_int_equal(uaio_wq_limit_workers(UAIO_UNBOUNDED, -1), unbounded);
}

static void assert_fixed(struct uaio_wq_fixed bounded,
			 struct uaio_wq_fixed unbounded)
{
	const struct uaio_wq_fixed_limits ask = { -1, -1 };
	const struct uaio_wq_fixed wanted[] = { bounded, unbounded };
	struct uaio_wq_fixed now[] = { { -1, -1 }, { -1, -1 } };

	assert_int_equal(uaio_limits_set_fixed(now), 0);
	for (int i = 0; i < 2; i++) {
		struct uaio_wq_fixed_limits queue;

		assert_int_equal(now[i].nr_workers, wanted[i].nr_workers);
		assert_int_equal(now[i].max_items, wanted[i].max_items);
		assert_int_equal(uaio_wq_limit_fixed(i, &ask, &queue), 0);
		assert_int_equal(queue.nr_workers, wanted[i].nr_workers);
		assert_int_equal(queue.max_items, wanted[i].max_items);
	}
}

static void set_workers(int bounded, int unbounded)
{
	int max_workers[] = { bounded, unbounded };

	assert_int_equal(uaio_limits_set_workers(max_workers), 0);
}

static void set_fixed(struct uaio_wq_fixed bounded,
		      struct uaio_wq_fixed unbounded)
{
	struct uaio_wq_fixed fixed[] = { bounded, unbounded };

	assert_int_equal(uaio_limits_set_fixed(fixed), 0);
}

#define FIXED(nr_workers, max_items) \
	((struct uaio_wq_fixed){ nr_workers, max_items })

/* Set the limits that hold by default. */
static void set_usual(void)
{
	set_fixed(FIXED(0, 64), FIXED(0, 64));
	set_workers(292, 256);
}

static void the_limits_are_the_defaults_at_first(void **state)
{
	(void)state;
	assert_workers(292, 256);
	assert_fixed(FIXED(0, 64), FIXED(0, 64));
}

static void options_and_queue_accept_the_same_limits(void **state)
{
	(void)state;
	assert_int_equal(uaio_options[UAIO_OPTION_WORKERS].max,
			 UAIO_WQ_WORKERS_MAX);
	assert_int_equal(uaio_options[UAIO_OPTION_FIXED].max,
			 UAIO_WQ_FIXED_MAX);
	assert_int_equal(uaio_options[UAIO_OPTION_MAX_ITEMS].max,
			 UAIO_WQ_ITEMS_MAX);
}

static void setting_returns_old_limits_and_minus_one_keeps_one(void **state)
{
	int workers[] = { 5, -1 };
	struct uaio_wq_fixed fixed[] = { { -1, 7 }, { 3, -1 } };

	(void)state;
	assert_int_equal(uaio_limits_set_workers(workers), 0);
	assert_int_equal(workers[0], 292);
	assert_int_equal(workers[1], 256);
	assert_workers(5, 256);
	set_workers(-1, UAIO_WQ_WORKERS_MAX);
	assert_workers(5, UAIO_WQ_WORKERS_MAX);

	assert_int_equal(uaio_limits_set_fixed(fixed), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fixed[i].nr_workers, 0);
		assert_int_equal(fixed[i].max_items, 64);
	}
	assert_fixed(FIXED(0, 7), FIXED(3, 64));
	set_fixed(FIXED(5, -1), FIXED(-1, INT_MAX));
	assert_fixed(FIXED(5, 7), FIXED(3, UAIO_WQ_ITEMS_MAX));
	set_usual();
	assert_workers(292, 256);
	assert_fixed(FIXED(0, 64), FIXED(0, 64));
}

/*
 * In each pair of limits one is invalid. The call must change neither limit.
 */
static void limits_that_are_refused_change_nothing(void **state)
{
	static const int workers[][2] = {
		{ 7, -2 },      { -2, 7 }, { INT_MIN, 7 }, { 7, 4097 },
		{ INT_MAX, 7 }, { 7, 2 },  { 1, 7 },       { 0, -1 },
	};
	static const struct uaio_wq_fixed fixed[][2] = {
		{ { 1, 1 }, { -2, 1 } },      { { 1, -2 }, { 1, 1 } },
		{ { 17, 1 }, { 1, 1 } },      { { 1, 1 }, { 17, -1 } },
		{ { 11, -1 }, { 1, 1 } },     { { 1, 1 }, { 13, -1 } },
		{ { INT_MAX, 1 }, { 1, 1 } }, { { 1, 1 }, { 1, INT_MIN } },
	};

	(void)state;
	set_workers(10, 12);
	set_fixed(FIXED(2, 20), FIXED(3, 30));
	for (unsigned i = 0; i < NR_ELEMENTS(workers); i++) {
		int asked[] = { workers[i][0], workers[i][1] };

		assert_int_equal(uaio_limits_set_workers(asked), -EINVAL);
		assert_memory_equal(asked, workers[i], sizeof(asked));
		assert_workers(10, 12);
	}
	for (unsigned i = 0; i < NR_ELEMENTS(fixed); i++) {
		struct uaio_wq_fixed asked[] = { fixed[i][0], fixed[i][1] };

		assert_int_equal(uaio_limits_set_fixed(asked), -EINVAL);
		assert_memory_equal(asked, fixed[i], sizeof(asked));
		assert_fixed(FIXED(2, 20), FIXED(3, 30));
	}
	set_workers(2, 3);
	set_usual();
}

/* In a child of fork() the library is not started. */
static int set_before_the_engine_is_up(void)
{
	int too_few[] = { 0, 4 };

	assert(!uaio_engine_is_up());
	set_workers(3, 4);
	set_fixed(FIXED(1, 8), FIXED(-1, 9));
	assert_int_equal(uaio_limits_set_workers(too_few), -EINVAL);
	assert(!uaio_engine_is_up());
	assert_int_equal(uaio_engine_start(), 0);
	assert_workers(3, 4);
	assert_fixed(FIXED(1, 8), FIXED(0, 9));
	return 0;
}

static int have_what_the_parent_set(void)
{
	int now[] = { -1, -1 };

	assert_int_equal(uaio_limits_set_workers(now), 0);
	assert_true(now[0] == 6 && now[1] == 7);
	assert_int_equal(uaio_engine_start(), 0);
	assert_workers(6, 7);
	assert_fixed(FIXED(2, 3), FIXED(4, 5));
	return 0;
}

static void limits_set_early_hold_once_the_engine_is_up(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(set_before_the_engine_is_up), 0);
	/* The limits that the child has set do not affect this process. */
	assert_workers(292, 256);
}

static void limits_outlast_a_fork(void **state)
{
	(void)state;
	set_workers(6, 7);
	set_fixed(FIXED(2, 3), FIXED(4, 5));
	assert_int_equal(unit_in_child(have_what_the_parent_set), 0);
	set_usual();
}

/* No function has set limits in this process yet, so the options determine them. */
static int take_the_options(void)
{
	static const struct {
		enum uaio_option_id id;
		const char *text;
		uint64_t *value;
	} given[] = {
		{ UAIO_OPTION_WORKERS, "9", &uaio_config.workers },
		{ UAIO_OPTION_FIXED, "2,1", &uaio_config.fixed },
		{ UAIO_OPTION_MAX_ITEMS, "0,5", &uaio_config.max_items },
	};

	for (unsigned i = 0; i < NR_ELEMENTS(given); i++)
		assert_int_equal(uaio_option_parse(&uaio_options[given[i].id],
						   given[i].text,
						   given[i].value),
				 0);
	assert_int_equal(uaio_engine_start(), 0);
	assert_workers(9, 256);
	assert_fixed(FIXED(2, 0), FIXED(1, 5));
	return 0;
}

static void until_limits_are_set_the_options_hold(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(take_the_options), 0);
}

static pthread_barrier_t barrier;

/*
 * Set equal limits for both accounts (kinds of work) many times, while other threads do
 * so, too. Each call also returns the old limits, which must be equal for both
 * accounts.
 */
static long set_pairs(void *arg)
{
	const int *first = arg;

	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 2000; i++) {
		int nr = *first + i % 50, workers[] = { nr, nr };
		int refused[] = { nr + 1, -2 };
		struct uaio_wq_fixed fixed[] = { { i % 16, i }, { i % 16, i } };

		assert(uaio_limits_set_workers(workers) == 0);
		assert(workers[0] == workers[1]);
		assert(uaio_limits_set_workers(refused) == -EINVAL);
		assert(uaio_limits_set_fixed(fixed) == 0);
		assert(fixed[0].nr_workers == fixed[1].nr_workers);
		assert(fixed[0].max_items == fixed[1].max_items);
	}
	return 0;
}

static void threads_that_set_limits_see_no_half_set_ones(void **state)
{
	static int firsts[] = { 100, 200, 300 };
	struct unit_thread threads[3];

	(void)state;
	set_workers(100, 100);
	pthread_barrier_init(&barrier, NULL, 3);
	for (unsigned i = 0; i < 3; i++)
		unit_thread_start(&threads[i], set_pairs, &firsts[i]);
	for (unsigned i = 0; i < 3; i++)
		unit_thread_join(&threads[i]);
	pthread_barrier_destroy(&barrier);
	set_usual();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/*
		 * this test must be the first: it needs a process that has set no
		 * limits
		 */
		UNIT_TEST(until_limits_are_set_the_options_hold),
		UNIT_TEST(the_limits_are_the_defaults_at_first),
		UNIT_TEST(limits_set_early_hold_once_the_engine_is_up),
		UNIT_TEST(options_and_queue_accept_the_same_limits),
		UNIT_TEST(setting_returns_old_limits_and_minus_one_keeps_one),
		UNIT_TEST(limits_that_are_refused_change_nothing),
		UNIT_TEST(limits_outlast_a_fork),
		UNIT_TEST(threads_that_set_limits_see_no_half_set_ones),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
