/* SPDX-License-Identifier: MIT */
/*
 * Large direct requests: the kernel executes them whole. If it must cut them for the
 * device, workers submit them.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "file/file.h"
#include "file/inspect.h"
#include "test-kernel.h"

enum {
	LARGE = 1 << 20,
	/* requests of at least this size are large */
	LEAST = 512 << 10,
	/* The file has NR pieces of LARGE bytes, then a piece of REST bytes */
	NR = 4,
	REST = LARGE / 2 + 100,
};

static char bytes[NR][LARGE] __attribute__((aligned(4096)));
static char written[LARGE] __attribute__((aligned(4096)));
static struct iocb iocbs[NR];

static char byte_at(uint64_t off)
{
	return (char)(off / 4096 * 7 + off % 4096);
}

static void fill_file(void)
{
	for (unsigned i = 0; i < NR; i++) {
		for (uint64_t j = 0; j < LARGE; j++)
			written[j] = byte_at((uint64_t)i * LARGE + j);
		assert_int_equal(
			pwrite(test.fd, written, LARGE, (off_t)i * LARGE),
			LARGE);
	}
	for (uint64_t j = 0; j < REST; j++)
		written[j] = byte_at((uint64_t)NR * LARGE + j);
	assert_int_equal(pwrite(test.fd, written, REST, (off_t)NR * LARGE),
			 REST);
}

static int start_large(void **state)
{
	int ret = start(state);

	fill_file();
	return ret;
}

static int stop_large(void **state)
{
	uaio_config.segments = 0;
	uaio_config.bounces = false;
	return stop(state);
}

static void submit_read(unsigned i, uint64_t off, size_t nr_bytes)
{
	memset(bytes[i], '.', LARGE);
	iocbs[i] = unit_iocb(IOCB_CMD_PREAD, test.direct, bytes[i], nr_bytes,
			     (int64_t)off);
	assert_int_equal(unit_submit(test.handle, &iocbs[i]), 1);
}

/* Submit a read of piece i of the file. */
static void submit_large(unsigned i)
{
	submit_read(i, (uint64_t)i * LARGE, LARGE);
}

static void assert_read(unsigned i, uint64_t off, size_t nr_bytes)
{
	for (size_t j = 0; j < nr_bytes; j++)
		if (bytes[i][j] != byte_at(off + j))
			fail_msg("byte %zu of request %u", j, i);
}

static void reap_result(int64_t res)
{
	struct io_event event;

	assert_int_equal(unit_reap(test.handle, 1, &event), 1);
	assert_int_equal(event.res, res);
}

static void reap_large(unsigned i)
{
	reap_result(LARGE);
	assert_read(i, (uint64_t)i * LARGE, LARGE);
}

/*
 * Wait until the kernel has nr requests.
 * Return: whether the newest request was submitted without RWF_NOWAIT, so that the
 * kernel may wait.
 */
static bool may_wait_for(unsigned nr)
{
	await_taken(nr);
	return may_wait(&kernel.taken[nr - 1].iocb);
}

static void execute_large(unsigned i)
{
	assert_int_equal(kernel.taken[0].iocb.aio_nbytes, LARGE);
	execute();
	reap_large(i);
}

static void it_is_one_request_of_the_kernel_s(void **state)
{
	(void)state;
	submit_large(0);
	assert_int_equal(kernel.nr_taken, 1);
	assert_false(may_wait_for(1));
	execute_large(0);
	assert_int_equal(kernel.nr_submits, 1);
	assert_int_equal(kernel.nr_waits, 0);
}

static void a_write_is_one_too(void **state)
{
	(void)state;
	memset(written, 'w', LARGE);
	iocbs[0] =
		unit_iocb(IOCB_CMD_PWRITE, test.direct, written, LARGE, LARGE);
	assert_int_equal(unit_submit(test.handle, &iocbs[0]), 1);
	assert_int_equal(kernel.nr_taken, 1);
	assert_int_equal(kernel.taken[0].iocb.aio_nbytes, LARGE);
	execute();
	reap_result(LARGE);
	assert_int_equal(pread(test.fd, bytes[0], LARGE, LARGE), LARGE);
	assert_memory_equal(bytes[0], written, LARGE);
}

static void vectors_are_one_too(void **state)
{
	struct iovec iov[2] = { { bytes[0], LEAST }, { bytes[1], LEAST } };

	(void)state;
	iocbs[0] = unit_iocb(IOCB_CMD_PREADV, test.direct, iov, 2, 0);
	assert_int_equal(unit_submit(test.handle, &iocbs[0]), 1);
	assert_int_equal(kernel.nr_taken, 1);
	assert_int_equal(kernel.taken[0].iocb.aio_lio_opcode, IOCB_CMD_PREADV);
	end_with(LARGE);
	reap_result(LARGE);
	assert_int_equal(kernel.nr_submits, 1);
}

/* The kernel gets all requests at once, not one after the other. */
static void a_worker_submits_what_has_to_be_cut(void **state)
{
	(void)state;
	kernel.whole_max = LEAST;
	for (unsigned i = 0; i < NR; i++) {
		submit_large(i);
		assert_true(may_wait_for(i + 1));
	}
	for (unsigned i = 0; i < NR; i++)
		execute_large(i);
	assert_int_equal(kernel.nr_waits, NR);
	/*
	 * After two large requests were handed back, clients no longer submit with
	 * RWF_NOWAIT.
	 */
	assert_int_equal(kernel.nr_submits, NR + 2);
}

static void a_client_asks_for_a_large_one_now_and_then(void **state)
{
	unsigned nr_asked = 0;

	(void)state;
	kernel.whole_max = LEAST;
	for (unsigned i = 0; i < 80; i++) {
		unsigned nr_submits = kernel.nr_submits;

		submit_large(0);
		assert_true(may_wait_for(1));
		nr_asked += kernel.nr_submits - nr_submits == 2;
		execute_large(0);
	}
	assert_int_equal(nr_asked, 4);
}

static void small_ones_go_on_while_large_ones_are_cut(void **state)
{
	(void)state;
	kernel.whole_max = LEAST;
	for (unsigned i = 0; i < 20; i++) {
		submit_large(0);
		assert_true(may_wait_for(1));
		execute_large(0);
		submit_read(1, SIZE, SIZE);
		assert_false(may_wait_for(1));
		execute();
		reap_result(SIZE);
	}
	/*
	 * The small requests, which succeed, do not make the library try large ones
	 * again.
	 */
	assert_in_range(kernel.nr_submits, 40 + 2, 40 + 3);
}

static void large_ones_go_on_while_small_ones_wait(void **state)
{
	(void)state;
	kernel.gives_back = true;
	for (unsigned i = 0; i < 8; i++) {
		submit_read(1, SIZE, SIZE);
		reap_result(SIZE);
	}
	kernel.gives_back = false;
	submit_large(0);
	assert_false(may_wait_for(1));
	execute_large(0);
}

static void the_least_is_large(void **state)
{
	(void)state;
	kernel.gives_back = true;
	submit_read(0, 0, LEAST - SIZE);
	reap_result(LEAST - SIZE);
	assert_int_equal(kernel.nr_waits, 0);
	submit_read(0, 0, LEAST);
	assert_true(may_wait_for(1));
	execute();
	reap_result(LEAST);
}

/*
 * The errors in the array mean, in this order: the quota is used up, a seccomp filter
 * is installed, or the device does not support AIO.
 */
static void what_a_worker_is_refused_it_executes(void **state)
{
	static const int errors[] = { -EAGAIN, -EINVAL, -EOPNOTSUPP };

	(void)state;
	kernel.whole_max = LEAST;
	for (unsigned i = 0; i < 3; i++) {
		kernel.waits_error = errors[i];
		submit_large(i);
		reap_large(i);
		assert_int_equal(kernel.nr_waits, i + 1);
	}
	submit_large(3);
	reap_large(3);
	assert_int_equal(kernel.nr_waits, 3);
}

/*
 * The library does not know whether the file supports RWF_NOWAIT. If the file does
 * not, an io_submit call without RWF_NOWAIT might wait for each piece of the request.
 * So workers execute the request by plain system calls.
 */
static void
no_worker_asks_for_a_file_that_is_not_known_to_take_any(void **state)
{
	(void)state;
	kernel.submit_error = -EAGAIN;
	submit_large(0);
	reap_large(0);
	assert_int_equal(kernel.nr_waits, 0);
	assert_int_equal(kernel.nr_submits, 1);
}

static void a_file_that_cannot_is_asked_once(void **state)
{
	(void)state;
	kernel.submit_error = -EOPNOTSUPP;
	for (unsigned i = 0; i < NR; i++) {
		submit_large(i);
		reap_large(i);
	}
	assert_int_equal(kernel.nr_waits, 0);
	assert_int_equal(kernel.nr_submits, 1);
}

/*
 * The kernel would send the pieces of a large request to the file server one after the
 * other. So workers execute the request by plain system calls.
 */
static void large_requests_of_a_server_are_left_to_workers(void **state)
{
	struct uaio_file *file;

	(void)state;
	assert_int_equal(uaio_file_get(test.direct, &file), 0);
	store_relaxed(&file->flags,
		      load_relaxed(&file->flags) | UAIO_FILE_F_REMOTE);
	submit_read(1, SIZE, SIZE);
	await_taken(1);
	execute();
	reap_result(SIZE);
	submit_large(0);
	reap_large(0);
	uaio_file_put(file);
	assert_int_equal(kernel.nr_submits, 1);
	/* Of the two requests, a worker has submitted the small one. */
	assert_int_equal(kernel.nr_waits, 1);
}

static void segments_that_are_asked_for_are_made(void **state)
{
	(void)state;
	uaio_config.segments = 4;
	submit_read(1, SIZE, SIZE);
	await_taken(1);
	execute();
	reap_result(SIZE);
	submit_large(0);
	reap_large(0);
	assert_int_equal(kernel.nr_submits, 1);
	assert_int_equal(kernel.nr_waits, 0);
}

static void one_segment_is_the_whole(void **state)
{
	(void)state;
	uaio_config.segments = 1;
	submit_large(0);
	await_taken(1);
	execute_large(0);
}

static void threads_alone_execute_it_where_told_so(void **state)
{
	(void)state;
	uaio_config.backend = UAIO_BACKEND_THREADS;
	submit_large(0);
	reap_large(0);
	assert_int_equal(kernel.nr_setups, 0);
}

/*
 * Short results
 */

/*
 * atomic: how many read calls were made for requests that the kernel did not execute
 */
static unsigned nr_calls;

static bool count_calls(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_pread64 || nr == SYS_preadv2 || nr == SYS_preadv)
		add_relaxed(&nr_calls, 1);
	return play(nr, args, ret_res);
}

static void begin_counting(void)
{
	nr_calls = 0;
	unit_hook(count_calls);
}

static void a_read_up_to_the_end_is_not_read_again(void **state)
{
	(void)state;
	begin_counting();
	submit_read(0, (uint64_t)NR * LARGE, LARGE);
	await_taken(1);
	execute();
	reap_result(REST);
	assert_read(0, (uint64_t)NR * LARGE, REST);
	assert_int_equal(bytes[0][REST], '.');
	assert_int_equal(load_relaxed(&nr_calls), 0);
	/*
	 * The short read does not count as handed back, so the next large request is
	 * submitted.
	 */
	submit_large(1);
	assert_false(may_wait_for(1));
	execute_large(1);
}

static void a_read_that_ended_before_is_read_again(void **state)
{
	(void)state;
	begin_counting();
	submit_large(0);
	end_with(SIZE);
	assert_true(may_wait_for(1));
	execute_large(0);
	/*
	 * The kernel's read returns one byte too few, as if the file had grown since
	 * the read. The library must read the missing byte.
	 */
	submit_read(0, (uint64_t)NR * LARGE, LARGE);
	await_taken(1);
	end_with(REST - 1);
	assert_true(may_wait_for(1));
	execute();
	reap_result(REST);
	assert_int_equal(load_relaxed(&nr_calls), 0);
}

/*
 * The file has shrunk since the read. The result was right at the time of the read, and
 * must stay.
 */
static void a_file_that_shrinks_has_been_read(void **state)
{
	(void)state;
	submit_read(0, (uint64_t)NR * LARGE, LARGE);
	await_taken(1);
	execute();
	pthread_mutex_lock(&kernel.lock);
	assert_int_equal(ftruncate(test.fd, LARGE), 0);
	pthread_mutex_unlock(&kernel.lock);
	reap_result(REST);
}

/*
 * After a short write, the library always writes the rest, even if the file ends where
 * the write ended.
 */
static void a_write_that_ended_before_is_made_again(void **state)
{
	(void)state;
	memset(written, 'w', LARGE);
	iocbs[0] = unit_iocb(IOCB_CMD_PWRITE, test.direct, written, LARGE, 0);
	assert_int_equal(unit_submit(test.handle, &iocbs[0]), 1);
	await_taken(1);
	assert_int_equal(ftruncate(test.fd, 0), 0);
	end_with(SIZE);
	assert_true(may_wait_for(1));
	execute();
	reap_result(LARGE);
}

/*
 * By now the descriptor refers to another file. So the library cannot query where the
 * read's file ends.
 */
static void the_end_of_another_file_is_not_asked_for(void **state)
{
	int other = unit_numbered_file(false, 1);

	(void)state;
	submit_large(2);
	await_taken(1);
	assert_int_equal(dup2(other, test.direct), test.direct);
	end_with(SIZE);
	reap_result(-EBADF);
	unit_close(other);
}

static void a_device_s_end_is_left_to_a_worker(void **state)
{
	struct uaio_file *file;

	(void)state;
	assert_int_equal(uaio_file_get(test.direct, &file), 0);
	store_relaxed(&file->dev, UINT64_MAX);
	assert_false(uaio_ends_by(file, test.direct, UINT64_MAX));
	uaio_file_put(file);
}

/*
 * The kernel has refused the misaligned request, and would do so again. So a worker
 * executes the request through an aligned buffer (bounce.h).
 */
static void what_is_bounced_is_not_asked_of_the_kernel_again(void **state)
{
	(void)state;
	uaio_config.bounces = true;
	submit_large(0);
	await_taken(1);
	end_with(-EINVAL);
	reap_large(0);
	assert_int_equal(kernel.nr_waits, 0);
	assert_int_equal(kernel.nr_submits, 1);
}

/*
 * Closing
 */

static long close_direct(void *arg)
{
	(void)arg;
	unit_close(test.direct);
	return 0;
}

static bool has_waits(void *nr)
{
	return load_relaxed(&kernel.nr_waits) == (uintptr_t)nr;
}

static void closing_waits_for_a_worker_s_read(void **state)
{
	struct unit_thread thread;

	(void)state;
	kernel.whole_max = LEAST;
	kernel.is_held = 1;
	submit_large(0);
	unit_await(has_waits, (void *)1);
	unit_thread_start(&thread, close_direct, NULL);
	unit_await_sleep(&thread);
	let_go(&kernel.is_held);
	/* The simulated kernel (take()) asserts that the descriptor is still open. */
	await_taken(1);
	execute();
	unit_thread_join(&thread);
	reap_large(0);
	test.direct = -1;
}

static void a_sync_and_a_write_are_as_after_a_small_one(void **state)
{
	struct io_event events[2];
	struct iocb sync;

	(void)state;
	kernel.whole_max = LEAST;
	memset(written, 'w', LARGE);
	sync = unit_iocb(IOCB_CMD_FSYNC, test.direct, NULL, 0, 0);
	iocbs[0] = unit_iocb(IOCB_CMD_PWRITE, test.direct, written, LARGE, 0);
	assert_int_equal(unit_submit(test.handle, &iocbs[0]), 1);
	assert_int_equal(unit_submit(test.handle, &sync), 1);
	assert_true(may_wait_for(1));
	assert_true(uaio_aio_is_empty(test.handle));
	execute();
	assert_int_equal(unit_reap(test.handle, 2, events), 2);
	assert_int_equal(events[0].obj, (uintptr_t)&iocbs[0]);
	assert_int_equal(events[0].res, LARGE);
	assert_int_equal(events[1].obj, (uintptr_t)&sync);
}

#define LARGE_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start_large, stop_large)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LARGE_TEST(it_is_one_request_of_the_kernel_s),
		LARGE_TEST(a_write_is_one_too),
		LARGE_TEST(vectors_are_one_too),
		LARGE_TEST(a_worker_submits_what_has_to_be_cut),
		LARGE_TEST(a_client_asks_for_a_large_one_now_and_then),
		LARGE_TEST(small_ones_go_on_while_large_ones_are_cut),
		LARGE_TEST(large_ones_go_on_while_small_ones_wait),
		LARGE_TEST(the_least_is_large),
		LARGE_TEST(what_a_worker_is_refused_it_executes),
		LARGE_TEST(
			no_worker_asks_for_a_file_that_is_not_known_to_take_any),
		LARGE_TEST(a_file_that_cannot_is_asked_once),
		LARGE_TEST(large_requests_of_a_server_are_left_to_workers),
		LARGE_TEST(segments_that_are_asked_for_are_made),
		LARGE_TEST(one_segment_is_the_whole),
		LARGE_TEST(threads_alone_execute_it_where_told_so),
		LARGE_TEST(a_read_up_to_the_end_is_not_read_again),
		LARGE_TEST(a_read_that_ended_before_is_read_again),
		LARGE_TEST(a_file_that_shrinks_has_been_read),
		LARGE_TEST(a_write_that_ended_before_is_made_again),
		LARGE_TEST(the_end_of_another_file_is_not_asked_for),
		LARGE_TEST(a_device_s_end_is_left_to_a_worker),
		LARGE_TEST(what_is_bounced_is_not_asked_of_the_kernel_again),
		LARGE_TEST(closing_waits_for_a_worker_s_read),
		LARGE_TEST(a_sync_and_a_write_are_as_after_a_small_one),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
