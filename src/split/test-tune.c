/* SPDX-License-Identifier: MIT */
/*
 * Tests how many segments the library executes at once, for files with invented
 * timings.
 */
#undef NDEBUG
#include "options/config.h"
#include "file/file.h"
#include "split/tune.h"
#include "unit.h"

enum {
	READ = false,
	WRITE = true,
	MIB = 1 << 20,
	UNTOUCHED = 4,
	/*
	 * After this many requests each way was measured: UNTOUCHED whole requests, four
	 * with few segments at once, and four with many.
	 */
	FIRST_LOOKS = UNTOUCHED + 8,
};

/* the tests use only its member `tuning` */
static struct uaio_file file;

/* The file's time for 1 MiB, in us: whole, in a few segments at once, in many. */
struct speed {
	unsigned whole, few, many;
};

static unsigned us_of(const struct speed *speed, unsigned at_once)
{
	return at_once == 1   ? speed->whole
	       : at_once < 24 ? speed->few
			      : speed->many;
}

/*
 * Execute a request.
 * Return: how many segments the library chose to execute at once.
 */
static unsigned execute(bool is_write, uint64_t bytes,
			const struct speed *speed)
{
	struct uaio_trial trial;
	unsigned at_once = uaio_tune_begin(&file, is_write, bytes, &trial);

	trial.start_ns -=
		(int64_t)(us_of(speed, at_once) * (bytes / MIB)) * 1000;
	uaio_tune_end(&trial, (int64_t)bytes);
	return at_once;
}

/*
 * Execute nr requests.
 * Return: for how many of them the library chose at_once segments at once.
 */
static unsigned count(bool is_write, uint64_t bytes, const struct speed *speed,
		      unsigned nr, unsigned at_once)
{
	unsigned nr_so = 0;

	while (nr--)
		nr_so += execute(is_write, bytes, speed) == at_once;
	return nr_so;
}

static void begin(void)
{
	if (file.tuning)
		uaio_tuning_put(file.tuning);
	file.tuning = NULL;
}

static void each_way_is_tried_before_one_is_chosen(void **state)
{
	const struct speed speed = { 1000, 1000, 1000 };
	unsigned nr[25] = { 0 };

	(void)state;
	begin();
	assert_int_equal(count(READ, 4 * MIB, &speed, UNTOUCHED, 1), UNTOUCHED);
	for (int i = UNTOUCHED; i < FIRST_LOOKS; i++)
		nr[execute(READ, 4 * MIB, &speed)]++;
	assert_int_equal(nr[4], 4);
	assert_int_equal(nr[24], 4);
}

static void segments_have_to_be_a_tenth_faster(void **state)
{
	static const struct {
		struct speed speed;
		unsigned at_once;
	} cases[] = {
		{ { 1000, 1000, 1000 }, 1 }, { { 1000, 920, 920 }, 1 },
		{ { 1000, 800, 800 }, 4 },   { { 1000, 800, 760 }, 4 },
		{ { 1000, 800, 500 }, 24 },  { { 1000, 1200, 500 }, 24 },
		{ { 1000, 2000, 3000 }, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin();
		(void)count(READ, 4 * MIB, &cases[i].speed, FIRST_LOOKS, 0);
		/*
		 * For one of these requests, the library may try another number of
		 * segments.
		 */
		assert_in_range(count(READ, 4 * MIB, &cases[i].speed, 30,
				      cases[i].at_once),
				29, 30);
	}
}

static void one_mib_has_few_segments_only(void **state)
{
	const struct speed speed = { 1000, 100, 10 };

	(void)state;
	begin();
	(void)count(READ, MIB, &speed, FIRST_LOOKS, 0);
	assert_int_equal(count(READ, MIB, &speed, 1000, 24), 0);
}

static void other_ways_are_tried_ever_more_rarely(void **state)
{
	const struct speed speed = { 1000, 100, 5000 };

	(void)state;
	begin();
	(void)count(READ, MIB, &speed, FIRST_LOOKS, 0);
	assert_in_range(count(READ, MIB, &speed, 1000, 4), 990, 998);
	(void)count(READ, MIB, &speed, 10000, 0);
	assert_in_range(count(READ, MIB, &speed, 10000, 4), 9990, 9999);
}

static void a_change_is_noticed(void **state)
{
	const struct speed before = { 1000, 1000, 1000 };
	const struct speed slow_whole = { 9000, 3000, 1000 };
	const struct speed fast_whole = { 100, 3000, 1000 };

	(void)state;
	begin();
	(void)count(READ, 4 * MIB, &before, 100, 0);
	(void)count(READ, 4 * MIB, &slow_whole, 10000, 0);
	assert_in_range(count(READ, 4 * MIB, &slow_whole, 100, 24), 98, 100);
	(void)count(READ, 4 * MIB, &fast_whole, 30000, 0);
	assert_in_range(count(READ, 4 * MIB, &fast_whole, 100, 1), 98, 100);
}

static void reads_writes_and_sizes_are_measured_separately(void **state)
{
	const struct speed cut = { 1000, 100, 1000 };
	const struct speed whole = { 100, 1000, 1000 };

	(void)state;
	begin();
	for (int i = 0; i < FIRST_LOOKS; i++) {
		(void)execute(READ, MIB, &cut);
		(void)execute(READ, 64 * MIB, &whole);
		(void)execute(WRITE, MIB, &whole);
	}
	assert_in_range(count(READ, MIB, &cut, 30, 4), 29, 30);
	assert_in_range(count(READ, 64 * MIB, &whole, 30, 1), 29, 30);
	assert_in_range(count(WRITE, MIB, &whole, 30, 1), 29, 30);
}

/* The requests of these trials never end, so the trials have no times. */
static void a_trial_that_never_ends_does_not_count(void **state)
{
	const struct speed speed = { 1000, 100, 1000 };
	struct uaio_trial trial;

	(void)state;
	begin();
	for (int i = 0; i < 100; i++)
		(void)uaio_tune_begin(&file, READ, MIB, &trial);
	(void)count(READ, MIB, &speed, FIRST_LOOKS, 0);
	assert_in_range(count(READ, MIB, &speed, 30, 4), 29, 30);
}

static void a_number_set_by_the_option_is_used(void **state)
{
	const struct speed speed = { 1, 1000, 1000 };

	(void)state;
	begin();
	uaio_config.segments = 7;
	assert_int_equal(count(READ, MIB, &speed, 100, 7), 100);
	uaio_config.segments = 1;
	assert_int_equal(count(WRITE, MIB, &speed, 100, 1), 100);
	uaio_config.segments = 0;
	assert_null(file.tuning);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(each_way_is_tried_before_one_is_chosen),
		UNIT_TEST(segments_have_to_be_a_tenth_faster),
		UNIT_TEST(one_mib_has_few_segments_only),
		UNIT_TEST(other_ways_are_tried_ever_more_rarely),
		UNIT_TEST(a_change_is_noticed),
		UNIT_TEST(reads_writes_and_sizes_are_measured_separately),
		UNIT_TEST(a_trial_that_never_ends_does_not_count),
		UNIT_TEST(a_number_set_by_the_option_is_used),
	};

	uaio_tuning_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
