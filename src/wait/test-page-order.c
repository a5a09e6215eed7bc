/* SPDX-License-Identifier: MIT */
/*
 * Writes submitted after cold reads (of pages that are not cached) of the same file;
 * statistics of cold reads
 */
#undef NDEBUG
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "options/config.h"
#include "req/stats.h"
#include "aio/handle.h"
#include "cold.h"

static char buffers[NR_PAGES][PAGE];
static struct iocb iocbs[NR_PAGES];
static char written[PAGE];
static uint64_t handle;

static int start(void **state)
{
	int ret = cold_start(state);

	handle = unit_context(NR_PAGES);
	return ret;
}

static int stop(void **state)
{
	unit_destroy(handle);
	return cold_stop(state);
}

#define COLD_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

static void read_cold(unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		memset(buffers[i], 0, PAGE);
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, cold.fd, buffers[i], PAGE,
				     (int64_t)i * PAGE);
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	cold_await_blocked(1);
}

/*
 * Submit a write of a page.
 * Return: whether the submitting thread executed it (inline).
 */
static bool is_written(unsigned page, struct iocb *iocb)
{
	struct uaio_counters before, after;

	memset(written, 0xff, PAGE);
	*iocb = unit_iocb(IOCB_CMD_PWRITE, cold.fd, written, PAGE,
			  (int64_t)page * PAGE);
	uaio_counters_read(&before);
	assert_int_equal(unit_submit(handle, iocb), 1);
	uaio_counters_read(&after);
	return after.nr_inline > before.nr_inline;
}

static void assert_old(unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		for (unsigned j = 0; j < PAGE; j++)
			assert_int_equal((unsigned char)buffers[i][j], i + 1);
}

/*
 * A write to the page that a worker reads, or to a page whose read waits, must wait. A
 * write to another page must not wait.
 */
static void a_write_over_a_cold_read_waits_for_its_page(void **state)
{
	enum { NR = 4 };

	(void)state;
	for (unsigned page = 0; page <= NR; page++) {
		struct io_event events[NR + 1];
		struct iocb write;

		cold_go();
		cold_hold(cold_bits(NR));
		read_cold(NR);
		assert_int_equal(is_written(page, &write), page == NR);
		/* All pages arrive. */
		cold_come(cold_bits(NR));
		cold_let(cold_bits(NR));
		assert_int_equal(unit_reap(handle, NR + 1, events), NR + 1);
		assert_old(NR);
		for (unsigned i = 0; i <= NR; i++)
			assert_int_equal(events[i].res, PAGE);
		/* Restore the file for the next round. */
		memset(written, (int)page + 1, PAGE);
		assert_int_equal(
			pwrite(cold.fd, written, PAGE, (int64_t)page * PAGE),
			PAGE);
	}
}

static void cancelling_a_cold_read_starts_the_write_that_waits(void **state)
{
	struct io_event events[3];
	struct iocb write;

	(void)state;
	cold_hold(cold_bits(2));
	read_cold(2);
	assert_false(is_written(1, &write));
	assert_int_equal(uaio_ctx_cancel(handle, (uintptr_t)&iocbs[1]),
			 -EINPROGRESS);
	assert_int_equal(unit_reap(handle, 2, events), 2);
	assert_int_equal(events[0].res, -ECANCELED);
	assert_int_equal(events[1].res, PAGE);
	cold_let(cold_bits(2));
	assert_int_equal(unit_reap(handle, 1, events), 1);
}

/*
 * Only the oldest cold read is queued for a worker. So the statistics count only the
 * waiting time of this read as time in the work queue.
 */
static void waiting_for_pages_is_not_waiting_in_a_queue(void **state)
{
	enum { NR = 4 };
	struct uaio_stats_sum before, after;
	struct io_event events[NR];

	(void)state;
	uaio_config.has_stats = true;
	uaio_stats_sum(&before);
	cold_hold(cold_bits(NR));
	read_cold(NR);
	cold_come(cold_bits(NR));
	cold_let(cold_bits(NR));
	assert_int_equal(unit_reap(handle, NR, events), NR);
	uaio_stats_sum(&after);
	uaio_config.has_stats = false;
	assert_int_equal(after.times[UAIO_TIME_PAGES].nr -
				 before.times[UAIO_TIME_PAGES].nr,
			 NR - 1);
	assert_int_equal(after.times[UAIO_TIME_WAIT].nr -
				 before.times[UAIO_TIME_WAIT].nr,
			 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		COLD_TEST(a_write_over_a_cold_read_waits_for_its_page),
		COLD_TEST(cancelling_a_cold_read_starts_the_write_that_waits),
		COLD_TEST(waiting_for_pages_is_not_waiting_in_a_queue),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
