/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sleep.h"
#include "options/config.h"
#include "aio/aio.h"
#include "aio/ctx.h"
#include "aio/ringmem.h"
#include "base/uaddr.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES };

static struct uaio_ring_map *ring_of(uint64_t handle)
{
	return (struct uaio_ring_map *)(uintptr_t)handle;
}

/* Check that every call refuses the handle. */
static void assert_misses(uint64_t handle)
{
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, 0, NULL, 0, 0);
	struct iocb *iocbs[] = { &iocb };
	struct timespec zero = { 0, 0 };
	struct uaio_event event;

	assert_int_equal(uaio_aio_submit(handle, 1, iocbs), -EINVAL);
	assert_int_equal(uaio_aio_submit(handle, 0, iocbs), -EINVAL);
	assert_int_equal(uaio_aio_getevents(handle, 0, 1, &event, &zero),
			 -EINVAL);
	assert_int_equal(uaio_aio_getevents(handle, 1, 1, &event, NULL),
			 -EINVAL);
	assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINVAL);
	assert_int_equal(uaio_aio_destroy(handle), -EINVAL);
}

static void assert_hits(uint64_t handle)
{
	assert_int_equal(uaio_aio_submit(handle, 0, NULL), 0);
}

static void values_that_are_no_handle_are_refused(void **state)
{
	uint64_t handle = unit_context(10);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t values[] = {
		0,
		1,
		~0ull,
		~0ull << 12,
		1ull << 63,
		1ull << 47,
		4096,
		(uintptr_t)page,
		(uintptr_t)page + 8,
		(uintptr_t)&handle,
		handle + 1,
		handle + 4,
		handle + 4096,
		handle - 4096,
		handle + (1 << 20),
	};

	(void)state;
	/* Make the page look like a ring; it is unmapped below. */
	memcpy(page, ring_of(handle), 64);
	for (unsigned i = 0; i < NR_ELEMENTS(values); i++)
		assert_misses(values[i]);
	munmap(page, 4096);
	assert_misses((uintptr_t)page);
	unit_destroy(handle);
	assert_misses(handle);
}

static void an_overwritten_id_never_leads_to_another_context(void **state)
{
	uint64_t handle = unit_context(10), other = unit_context(10);
	uint32_t id = ring_of(handle)->id, nr = ring_of(handle)->nr;
	uint32_t ids[] = {
		0,        nr - 1,         nr,       nr + 1,
		~0u,      ~0u - 1,        1u << 31, ring_of(other)->id,
		1u << 24, (1u << 24) - 1,
	};

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(ids); i++) {
		if (ids[i] == id)
			continue;
		ring_of(handle)->id = ids[i];
		assert_misses(handle);
		assert_hits(other);
	}
	ring_of(handle)->id = id;
	assert_hits(handle);
	unit_destroy(handle);
	unit_destroy(other);
}

static void an_overwritten_id_does_not_cancel_in_another_ring(void **state)
{
	uint64_t handle = unit_context(10), other = unit_context(10);
	uint32_t id = ring_of(handle)->id;
	struct iocb iocb;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	iocb = unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
	assert_int_equal(unit_submit(other, &iocb), 1);
	ring_of(handle)->id = ring_of(other)->id;
	assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINVAL);
	assert_false(uaio_aio_is_empty(handle));
	ring_of(handle)->id = id;
	assert_int_equal(uaio_aio_cancel(other, &iocb), -EINPROGRESS);
	unit_destroy(handle);
	unit_destroy(other);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void the_lowest_free_id_is_used_again(void **state)
{
	uint64_t handles[3], again;
	uint32_t id;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		handles[i] = unit_context(10);
	id = ring_of(handles[1])->id;
	unit_destroy(handles[1]);
	assert_misses(handles[1]);
	again = unit_context(10);
	assert_int_equal(ring_of(again)->id, id);
	if (again != handles[1])
		assert_misses(handles[1]);
	unit_destroy(handles[0]);
	unit_destroy(handles[2]);
	assert_hits(again);
	unit_destroy(again);
}

/*
 * A context's handle is the address of its ring. The handle of a destroyed context
 * must be refused, unless a new context's ring got that address.
 */
static void an_old_handle_is_never_served_by_a_new_context(void **state)
{
	uint64_t small = unit_context(1), large;

	(void)state;
	unit_destroy(small);
	large = unit_context(1000);
	if (large != small)
		assert_misses(small);
	assert_hits(large);
	unit_destroy(large);
}

static void the_quota_is_charged_as_asked_and_given_back(void **state)
{
	uint64_t a = 0, b = 0, c = 0;
	struct uaio_counters before, after;

	(void)state;
	uaio_config.max_nr = 100;
	assert_int_equal(uaio_aio_setup(60, &a), 0);
	assert_int_equal(uaio_aio_setup(40, &b), 0);
	uaio_counters_read(&before);
	assert_int_equal(uaio_aio_setup(1, &c), -EAGAIN);
	assert_int_equal(c, 0);
	uaio_counters_read(&after);
	assert_int_equal(after.nr_contexts, before.nr_contexts);
	assert_int_equal(after.table_bytes, before.table_bytes);
	assert_int_equal(after.ring_bytes, before.ring_bytes);
	unit_destroy(b);
	b = 0;
	assert_int_equal(uaio_aio_setup(41, &b), -EAGAIN);
	assert_int_equal(uaio_aio_setup(40, &b), 0);
	unit_destroy(a);
	unit_destroy(b);
	b = 0;
	assert_int_equal(uaio_aio_setup(101, &b), -EAGAIN);
	assert_int_equal(uaio_aio_setup(100, &b), 0);
	unit_destroy(b);
	uaio_config.max_nr = 0;
}

/* Set up rings of several sizes; before each ring, let each system call fail once. */
static int setups_with_failures(void)
{
	static const uint32_t sizes[] = { 1, 1, 100, 20000, 200000 };
	uint64_t handles[NR_ELEMENTS(sizes)], handle;
	unsigned nr_failures = 0;

	uaio_calls_load("all");
	uaio_config.max_nr = 1000000;
	for (unsigned i = 0; i < NR_ELEMENTS(sizes); i++) {
		struct uaio_counters before = { 0 }, after;

		for (unsigned n = 1;; n++) {
			long ret;

			if (uaio_engine_is_up())
				uaio_counters_read(&before);
			handle = 0;
			unit_fail_nth(n, true);
			ret = uaio_aio_setup(sizes[i], &handle);
			if (!unit_has_failed() || ret == 0) {
				unit_fail_nth(0, true);
				if (ret != 0)
					return 1;
				if (!unit_has_failed())
					break;
				if (uaio_aio_destroy(handle) != 0)
					return 2;
				continue;
			}
			unit_fail_nth(0, true);
			nr_failures++;
			if (ret != -ENOMEM || handle)
				return 3;
			if (!uaio_engine_is_up())
				continue;
			uaio_counters_read(&after);
			if (after.nr_contexts != before.nr_contexts ||
			    after.ring_bytes != before.ring_bytes)
				return 4;
		}
		handles[i] = handle;
	}
	for (unsigned i = 0; i < NR_ELEMENTS(sizes); i++)
		if (uaio_aio_destroy(handles[i]) != 0)
			return 5;
	/* The failed calls must not have used up any quota. */
	handle = 0;
	if (uaio_aio_setup(1000000, &handle) != 0)
		return 6;
	return nr_failures < 5 ? 7 : 0;
}

static void a_setup_that_fails_anywhere_leaves_nothing(void **state)
{
	(void)state;
	/*
	 * The library is not started in this child, so system calls of its start fail,
	 * too.
	 */
	assert_int_equal(unit_in_child(setups_with_failures), 0);
}

static pthread_barrier_t barrier;

static long destroy_at_once(void *arg)
{
	pthread_barrier_wait(&barrier);
	return uaio_aio_destroy(*(uint64_t *)arg);
}

static void of_two_destroyers_one_succeeds(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(2000); i++) {
		uint64_t handle = unit_context(1 + i % 100);
		struct unit_thread a, b;
		long first, second;

		pthread_barrier_init(&barrier, NULL, 2);
		unit_thread_start(&a, destroy_at_once, &handle);
		unit_thread_start(&b, destroy_at_once, &handle);
		first = unit_thread_join(&a);
		second = unit_thread_join(&b);
		assert_int_equal(first + second, -EINVAL);
		assert_true(first == 0 || second == 0);
		pthread_barrier_destroy(&barrier);
	}
}

static long wait_for_one(void *arg)
{
	struct uaio_event event;

	return uaio_aio_getevents(*(uint64_t *)arg, 1, 1, &event, NULL);
}

static void a_sleeper_is_woken_by_destroy(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(200); i++) {
		uint64_t handle = unit_context(10);
		struct unit_thread threads[3];

		for (unsigned j = 0; j < 3; j++)
			unit_thread_start(&threads[j], wait_for_one, &handle);
		/* In every second round, destroy the context only once the threads sleep. */
		if (i % 2)
			for (unsigned j = 0; j < 3; j++)
				unit_await_sleep(&threads[j]);
		unit_destroy(handle);
		for (unsigned j = 0; j < 3; j++)
			assert_int_equal(unit_thread_join(&threads[j]),
					 -EINVAL);
	}
}

static long destroy(void *arg)
{
	return uaio_aio_destroy(*(uint64_t *)arg);
}

static void destroy_returns_after_the_last_request_in_flight(void **state)
{
	enum { NR = 8 };
	int fd = unit_numbered_file(true, NR);
	static char buffers[NR][SIZE];
	struct iocb iocbs[NR];
	struct unit_thread thread;
	uint64_t handle = unit_context(NR);

	(void)state;
	uaio_config.force_worker = true;
	unit_gate_close(fd);
	for (unsigned i = 0; i < NR; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, fd, buffers[i], SIZE,
				     i * SIZE);
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	unit_gate_await(NR);
	unit_thread_start(&thread, destroy, &handle);
	for (unsigned i = 0; i < NR; i++) {
		unit_await_sleep(&thread);
		assert_misses(handle);
		unit_gate_pass(i);
	}
	assert_int_equal(unit_thread_join(&thread), 0);
	/* After io_destroy the library must not write to the buffers. */
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(buffers[i][0], i);
	memset(buffers, 'p', sizeof(buffers));
	unit_gate_open();
	unit_close(fd);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(buffers[i][SIZE - 1], 'p');
	uaio_config.force_worker = false;
}

static void the_quota_is_back_before_destroy_waits(void **state)
{
	int fd = unit_numbered_file(true, 1);
	uint64_t handle, next = 0;
	struct unit_thread thread;
	char buffer[SIZE];
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffer, SIZE, 0);

	(void)state;
	uaio_config.max_nr = 100;
	uaio_config.force_worker = true;
	handle = unit_context(100);
	unit_gate_close(fd);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	unit_gate_await(1);
	unit_thread_start(&thread, destroy, &handle);
	unit_await_sleep(&thread);
	assert_int_equal(uaio_aio_setup(100, &next), 0);
	unit_gate_open();
	assert_int_equal(unit_thread_join(&thread), 0);
	unit_destroy(next);
	unit_close(fd);
	uaio_config.force_worker = false;
	uaio_config.max_nr = 0;
}

static void requests_queued_at_destroy_are_not_lost(void **state)
{
	enum { NR = 8 };
	int fd = unit_file(true);
	struct iocb iocbs[NR];
	struct unit_thread thread;
	uint64_t handle = unit_context(NR);
	char block[SIZE];

	(void)state;
	uaio_config.force_worker = true;
	memset(block, 'w', SIZE);
	unit_gate_close(fd);
	for (unsigned i = 0; i < NR; i++) {
		iocbs[i] =
			unit_iocb(IOCB_CMD_PWRITE, fd, block, SIZE, i * SIZE);
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	unit_gate_await(1);
	unit_thread_start(&thread, destroy, &handle);
	unit_await_sleep(&thread);
	unit_gate_open();
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), NR * SIZE);
	unit_close(fd);
	uaio_config.force_worker = false;
}

/*
 * How many contexts a test creates. A build with the list of bench/ctx-index.c defines a
 * smaller number, because it finds contexts by searching the list.
 */
#ifndef MANY_CONTEXTS
#define MANY_CONTEXTS 65536
#endif

static void many_contexts_of_one_event_take_little(void **state)
{
	enum { NR = MANY_CONTEXTS };
	static uint64_t handles[NR];
	struct uaio_counters before, after;
	unsigned nr = unit_rounds(NR);
	clock_t start = clock();

	(void)state;
	uaio_counters_read(&before);
	for (unsigned i = 0; i < nr; i++)
		handles[i] = unit_context(1);
	uaio_counters_read(&after);
	assert_int_equal(after.nr_contexts - before.nr_contexts, nr);
	/*
	 * Each ring takes one page, as in the kernel; the test allows two. The
	 * structures that find a context by its handle must be small.
	 */
	assert_true(after.ring_bytes - before.ring_bytes <=
		    nr * 2ull * uaio_page_bytes());
	assert_true(after.index_bytes <= nr * 4ull + 65536);
	assert_true(after.table_bytes <= nr * 4 * sizeof(void *) + 2048);
	for (unsigned i = 0; i < nr; i += 997)
		assert_hits(handles[i]);
	for (unsigned i = 0; i < nr; i++)
		unit_destroy(handles[i]);
	assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
}

static uint64_t resident_bytes(void)
{
	unsigned long total, resident;
	FILE *file = fopen("/proc/self/statm", "r");

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &total, &resident), 2);
	fclose(file);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* In each cycle the table grows to 256 slots, and is emptied. */
static void growing_again_and_again_takes_no_more_memory(void **state)
{
	enum { NR = 65 };
	struct uaio_counters first, last;
	uint64_t handles[NR], resident = 0;
	unsigned nr_cycles = unit_rounds(100000 / NR);

	(void)state;
	for (unsigned cycle = 0; cycle < nr_cycles; cycle++) {
		for (unsigned i = 0; i < NR; i++)
			handles[i] = unit_context(1);
		uaio_counters_read(&last);
		if (cycle == 0)
			first = last;
		if (cycle == nr_cycles / 10)
			resident = resident_bytes();
		for (unsigned i = 0; i < NR; i++)
			unit_destroy(handles[i]);
	}
	assert_int_equal(last.table_bytes, first.table_bytes);
	assert_int_equal(last.index_bytes, first.index_bytes);
	assert_int_equal(last.ring_bytes, first.ring_bytes);
	/*
	 * Stacks may grow, but by less than 1 MiB. A leak of one page for each 100
	 * contexts would exceed this limit.
	 */
	assert_true(resident_bytes() < resident + (1 << 20));
}

/* A request submitted during io_destroy is refused, or accepted and completed. */
static uint32_t stop; /* atomic */

struct parking {
	uint64_t handle;
	int fd;
};

static long submit_reads_that_wait(void *arg)
{
	struct parking *parking = arg;
	static char byte;
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, parking->fd, &byte, 1, 0);
	long ret;

	pthread_barrier_wait(&barrier);
	do
		ret = unit_submit(parking->handle, &iocb);
	while (ret == 1);
	return ret;
}

static void destroy_ends_while_reads_of_a_pipe_are_submitted(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(300); i++) {
		struct unit_thread thread;
		struct parking parking;
		int ends[2];

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		parking = (struct parking){ unit_context(1000), ends[0] };
		pthread_barrier_init(&barrier, NULL, 2);
		unit_thread_start(&thread, submit_reads_that_wait, &parking);
		pthread_barrier_wait(&barrier);
		for (unsigned j = 0; j < i % 50; j++)
			sched_yield();
		unit_destroy(parking.handle);
		assert_in_set((unsigned long)unit_thread_join(&thread),
			      ((unsigned long[]){ (unsigned long)-EINVAL,
						  (unsigned long)-EAGAIN }),
			      2);
		pthread_barrier_destroy(&barrier);
		unit_close(ends[0]);
		unit_close(ends[1]);
	}
}

static long feed_bytes(void *arg)
{
	char byte = 0;

	while (!load_relaxed(&stop))
		if (write(*(int *)arg, &byte, 1) != 1)
			break;
	return 0;
}

/*
 * During io_destroy the fallback thread, a thread of the library, attempts to execute
 * the reads; most of these attempts fail with EAGAIN.
 */
static void destroy_ends_while_reads_of_a_pipe_are_being_tried(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	for (unsigned i = 0; i < unit_rounds(100); i++) {
		enum { NR = 100 };
		uint64_t handle = unit_context(NR);
		struct unit_thread thread;
		struct iocb iocbs[NR];
		static char bytes[NR];
		int ends[2];

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		for (unsigned j = 0; j < NR; j++) {
			iocbs[j] = unit_iocb(IOCB_CMD_PREAD, ends[0], &bytes[j],
					     1, 0);
			assert_int_equal(unit_submit(handle, &iocbs[j]), 1);
		}
		store_relaxed(&stop, 0);
		unit_thread_start(&thread, feed_bytes, &ends[1]);
		for (unsigned j = 0; j < i % 50; j++)
			sched_yield();
		unit_destroy(handle);
		store_relaxed(&stop, 1);
		/* Closing the reading end ends a write that waits for room. */
		unit_close(ends[0]);
		assert_int_equal(unit_thread_join(&thread), 0);
		unit_close(ends[1]);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(growing_again_and_again_takes_no_more_memory),
		UNIT_TEST(values_that_are_no_handle_are_refused),
		UNIT_TEST(an_overwritten_id_never_leads_to_another_context),
		UNIT_TEST(an_overwritten_id_does_not_cancel_in_another_ring),
		UNIT_TEST(the_lowest_free_id_is_used_again),
		UNIT_TEST(an_old_handle_is_never_served_by_a_new_context),
		UNIT_TEST(the_quota_is_charged_as_asked_and_given_back),
		UNIT_TEST(of_two_destroyers_one_succeeds),
		UNIT_TEST(a_sleeper_is_woken_by_destroy),
		UNIT_TEST(destroy_returns_after_the_last_request_in_flight),
		UNIT_TEST(the_quota_is_back_before_destroy_waits),
		UNIT_TEST(requests_queued_at_destroy_are_not_lost),
		UNIT_TEST(many_contexts_of_one_event_take_little),
		UNIT_TEST(destroy_ends_while_reads_of_a_pipe_are_submitted),
		UNIT_TEST(destroy_ends_while_reads_of_a_pipe_are_being_tried),
	};
	int nr_failed;

	/*
	 * argv[1]: a pattern of tests to skip. The indexes of bench/ctx-index.c do not
	 * read the id in a ring, so tests that overwrite this id are skipped there.
	 */
	if (argc == 2)
		cmocka_set_skip_filter(argv[1]);
	/* Run this first: its child of fork() must start the library itself. */
	const struct CMUnitTest fresh[] = {
		UNIT_TEST(a_setup_that_fails_anywhere_leaves_nothing),
	};

	nr_failed = cmocka_run_group_tests(fresh, NULL, NULL);
	return nr_failed + cmocka_run_group_tests(tests, unit_engine, NULL);
}
