/* SPDX-License-Identifier: MIT */
/*
 * segments-fail: the library executes a direct request in segments, some of which fail
 * or are short. The result must be the bytes before the first failed or short segment,
 * plus the bytes of that segment. If this sum is 0, the result must be that segment's
 * error.
 */
#undef NDEBUG
#include "segments.h"

#include <unistd.h>

/*
 * Let each segment fail, once with each fault. Each time, limit the segments in flight
 * to another number.
 */
static void fail_each_segment(const struct shape *of)
{
	static const unsigned counts[] = { 2, 4, 16, 3, 64 };
	unsigned n = 0;

	for (unsigned segment = 0; segment < NR_SEGMENTS; segment++)
		for (unsigned i = 0; i < NR_FAULTS; i++) {
			set_at_once(counts[n++ % NR_ELEMENTS(counts)]);
			make_with_fault(of, segment, &faults[i]);
		}
}

static void a_read_ends_at_the_first_segment_with_a_fault(void **state)
{
	(void)state;
	fail_each_segment(&shapes[0]);
}

static void so_does_one_of_many_vectors(void **state)
{
	(void)state;
	fail_each_segment(&shapes[1]);
}

static void a_write_ends_at_the_first_segment_with_a_fault(void **state)
{
	(void)state;
	fail_each_segment(&shapes[2]);
}

static void so_does_a_write_of_many_vectors(void **state)
{
	(void)state;
	fail_each_segment(&shapes[3]);
}

static void without_faults_all_of_it_is_made(void **state)
{
	(void)state;
	for (unsigned at_once = 1; at_once <= 64;
	     at_once += at_once < 5 ? 1 : 7)
		for (unsigned i = 0; i < NR_SHAPES; i++) {
			unsigned nr = slowfs_nr_done(fs, shapes[i].op);

			set_at_once(at_once);
			submit(&shapes[i]);
			items_await_rest();
			nr = slowfs_nr_done(fs, shapes[i].op) - nr;
			assert_executed(BYTES);
			assert_int_equal(nr, at_once > 1 ? NR_SEGMENTS
							 : NR_CALLS_WHOLE);
			if (shapes[i].op == SLOWFS_WRITE)
				fill_file();
		}
}

/* The file ends inside a segment, so all later segments read nothing. */
static void a_read_ends_at_the_end_of_the_file(void **state)
{
	static const uint64_t ends[] = {
		OFF,
		OFF + PAGE,
		OFF + FIRST,
		OFF + FIRST + 5 * SEGMENT + 1000,
		OFF + BYTES - 8,
	};

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(ends); i++) {
		struct io_event event;

		assert_int_equal(ftruncate(fd, (off_t)ends[i]), 0);
		set_at_once(4);
		submit(&shapes[i % 2]);
		assert_int_equal(unit_reap(handle, 1, &event), 1);
		assert_int_equal(event.res, ends[i] - OFF);
		assert_memory(event.res);
		fill_file();
	}
}

/*
 * Two segments of one request fail
 */

static void release_segment(enum slowfs_op op, unsigned segment,
			    unsigned nr_left)
{
	slowfs_release_at(fs, op, (uint64_t)(OFF + border(segment)));
	await_busy(nr_left);
}

/*
 * Four segments are in flight. First the segment `first` fails, then the segment
 * `second`, which may be earlier in the file.
 */
static void fail_two(const struct shape *of, unsigned first, unsigned second,
		     const struct slowfs_fault *of_first,
		     const struct slowfs_fault *of_second)
{
	const struct slowfs_fault *counts =
		first < second ? of_first : of_second;
	unsigned nr_done = slowfs_nr_done(fs, of->op);

	set_at_once(4);
	slowfs_hold(fs, of->op);
	prepare(of);
	fault_segment(first, of_first);
	fault_segment(second, of_second);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	slowfs_await(fs, of->op, 4);
	release_segment(of->op, first, 3);
	assert_no_more();
	release_segment(of->op, second, 2);
	assert_no_more();
	slowfs_release(fs, of->op);
	items_await_rest();
	/* After the first failure, no other segment may have been started. */
	assert_int_equal(slowfs_nr_done(fs, of->op), nr_done + 4);
	assert_executed(result_of(first < second ? first : second, counts));
	if (of->op == SLOWFS_WRITE)
		fill_file();
}

static void of_two_faults_the_first_in_the_file_counts(void **state)
{
	static const unsigned pairs[][2] = { { 0, 1 }, { 1, 0 }, { 0, 3 },
					     { 3, 0 }, { 1, 3 }, { 3, 1 },
					     { 2, 3 }, { 3, 2 } };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(pairs); i++)
		for (unsigned j = 0; j < NR_FAULTS; j++)
			fail_two(&shapes[(i + j) % 2], pairs[i][0], pairs[i][1],
				 &faults[j], &faults[(j + 1 + i) % NR_FAULTS]);
}

static void so_it_does_of_a_write(void **state)
{
	(void)state;
	if (!are_writes_parallel())
		skip();
	fail_two(&shapes[2], 3, 1, &faults[0], &faults[4]);
	fail_two(&shapes[3], 1, 3, &faults[4], &faults[0]);
	fail_two(&shapes[2], 2, 0, &faults[0], &faults[4]);
	fail_two(&shapes[3], 0, 2, &faults[4], &faults[0]);
}

static int run(void)
{
	const struct CMUnitTest tests[] = {
		SEGMENTS_TEST(without_faults_all_of_it_is_made),
		SEGMENTS_TEST(a_read_ends_at_the_first_segment_with_a_fault),
		SEGMENTS_TEST(so_does_one_of_many_vectors),
		SEGMENTS_TEST(a_write_ends_at_the_first_segment_with_a_fault),
		SEGMENTS_TEST(so_does_a_write_of_many_vectors),
		SEGMENTS_TEST(a_read_ends_at_the_end_of_the_file),
		SEGMENTS_TEST(of_two_faults_the_first_in_the_file_counts),
		SEGMENTS_TEST(so_it_does_of_a_write),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

int main(void)
{
	return segments_main(run);
}
