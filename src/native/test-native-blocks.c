/* SPDX-License-Identifier: MIT */
/*
 * The kernel hands back direct writes for which it would have to find free blocks. A
 * worker submits them again, without RWF_NOWAIT, and waits inside io_submit.
 */
#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <unistd.h>

#include "base/newer.h"
#include "base/sleep.h"
#include "proc/ownfd.h"
#include "test-kernel.h"

static void assert_written(unsigned first, unsigned nr)
{
	char bytes[SIZE], expected[SIZE];

	memset(expected, 'w', SIZE);
	for (unsigned i = first; i < first + nr; i++) {
		assert_int_equal(pread(test.fd, bytes, SIZE, (off_t)i * SIZE),
				 SIZE);
		assert_memory_equal(bytes, expected, SIZE);
	}
}

static void assert_unwritten(unsigned block)
{
	char bytes[SIZE];

	assert_int_equal(pread(test.fd, bytes, SIZE, (off_t)block * SIZE),
			 SIZE);
	assert_block(bytes, block);
}

static bool has_waits(void *nr)
{
	return load_relaxed(&kernel.nr_waits) == (uintptr_t)nr;
}

/* Wait until nr io_submit calls without RWF_NOWAIT have begun. */
static void await_waits(unsigned nr)
{
	unit_await(has_waits, (void *)(uintptr_t)nr);
}

/*
 * A read that stays with the simulated kernel. So a write of the same file is not the
 * file's only request.
 */
static struct {
	struct iocb iocb;
	char buffer[SIZE];
	struct taken taken;
	bool is_begun;
} beside;

static void begin_beside(void)
{
	beside.iocb =
		unit_iocb(IOCB_CMD_PREAD, test.direct, beside.buffer, SIZE, 0);
	assert_int_equal(unit_submit(test.handle, &beside.iocb), 1);
	assert_int_equal(kernel.nr_taken, 1);
	beside.taken = kernel.taken[0];
	store_release(&kernel.nr_taken, 0);
	kernel.nr_submits = 0;
	beside.is_begun = true;
}

static void end_beside(void)
{
	struct io_event event;

	pthread_mutex_lock(&kernel.lock);
	complete_locked(&beside.taken, SIZE);
	pthread_mutex_unlock(&kernel.lock);
	assert_int_equal(unit_reap(test.handle, 1, &event), 1);
	assert_int_equal(event.obj, (uintptr_t)&beside.iocb);
	beside.is_begun = false;
}

static int start_giving_back(void **state)
{
	int ret = start(state);

	kernel.gives_writes_back = true;
	/*
	 * If the kernel hands back a write, never_block makes clients leave the write
	 * to a worker.
	 */
	uaio_config.never_block = true;
	begin_beside();
	return ret;
}

static int end_and_stop(void **state)
{
	if (beside.is_begun)
		end_beside();
	uaio_config.never_block = false;
	return stop(state);
}

/* A thread that calls act, and then sets is_over */
struct doer {
	struct unit_thread thread;
	void (*act)(void);
	uint32_t is_over; /* atomic */
};

static long act(void *arg)
{
	struct doer *doer = arg;

	doer->act();
	store_release(&doer->is_over, 1);
	return 0;
}

static void begin(struct doer *doer, void (*act_of_it)(void))
{
	doer->act = act_of_it;
	doer->is_over = 0;
	unit_thread_start(&doer->thread, act, doer);
	unit_await_sleep(&doer->thread);
	assert_false(load_acquire(&doer->is_over));
}

static void a_worker_submits_it(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_BLOCKS; i++) {
		submit(IOCB_CMD_PWRITE, i);
		await_taken(1);
		execute();
		reap(1);
	}
	assert_written(0, NR_BLOCKS);
	assert_int_equal(kernel.nr_waits, NR_BLOCKS);
	/*
	 * After the kernel has handed back eight writes in a row, clients submit only
	 * few further writes with RWF_NOWAIT.
	 */
	assert_int_equal(kernel.nr_submits, NR_BLOCKS + 8);
}

/*
 * Complete one write after another until the client's own thread submits without
 * RWF_NOWAIT.
 */
static void let_clients_wait(void)
{
	uaio_config.never_block = false;
	kernel.clients_wait = true;
	while (!load_relaxed(&kernel.nr_waits_of_clients)) {
		test.nr = 0;
		submit(IOCB_CMD_PWRITE, 0);
		await_taken(1);
		execute();
		reap(1);
	}
}

static void the_client_submits_it_where_that_is_fast(void **state)
{
	struct iocb *list[NR_BLOCKS];
	unsigned nr_waits;

	(void)state;
	let_clients_wait();
	test.nr = 0;
	nr_waits = load_relaxed(&kernel.nr_waits);
	assert_int_equal(load_relaxed(&kernel.nr_waits_of_clients), 1);
	for (unsigned i = 0; i < NR_BLOCKS; i++)
		list[i] = prepared(IOCB_CMD_PWRITE, i);
	assert_int_equal(uaio_aio_submit(test.handle, NR_BLOCKS, list),
			 NR_BLOCKS);
	/* One call of the client submits all writes. */
	assert_int_equal(load_relaxed(&kernel.nr_waits), nr_waits + 1);
	assert_int_equal(load_relaxed(&kernel.nr_waits_of_clients), 2);
	assert_int_equal(load_relaxed(&kernel.nr_taken), NR_BLOCKS);
	for (unsigned i = 0; i < NR_BLOCKS; i++)
		execute();
	reap(NR_BLOCKS);
	assert_written(0, NR_BLOCKS);
}

/*
 * Btrfs syncs the file within the call that submits a synchronous write: there a worker
 * must submit such a write, not the client's thread.
 */
static void the_client_submits_it_unless_that_syncs_the_file(void **state)
{
	static const uint32_t types[] = { EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,
					  BTRFS_SUPER_MAGIC };

	(void)state;
	let_clients_wait();
	for (unsigned i = 0; i < NR_ELEMENTS(types); i++) {
		unsigned nr = load_relaxed(&kernel.nr_waits_of_clients);

		store_relaxed(&kernel.fs_type, types[i]);
		test.nr = 0;
		prepared(IOCB_CMD_PWRITE, 3)->aio_rw_flags = RWF_DSYNC;
		assert_int_equal(unit_submit(test.handle, &test.iocbs[0]), 1);
		await_taken(1);
		assert_int_equal(load_relaxed(&kernel.nr_waits_of_clients),
				 nr + (types[i] != BTRFS_SUPER_MAGIC));
		execute();
		reap(1);
	}
	store_relaxed(&kernel.fs_type, 0);
}

/*
 * After several slow calls by a client, workers must submit the writes for some time.
 */
static void workers_submit_it_where_that_was_slow(void **state)
{
	uint32_t nr_of_workers;

	(void)state;
	let_clients_wait();
	kernel.slow_us = 20000;
	nr_of_workers = load_relaxed(&kernel.nr_waits) -
			load_relaxed(&kernel.nr_waits_of_clients);
	while (load_relaxed(&kernel.nr_waits) -
		       load_relaxed(&kernel.nr_waits_of_clients) ==
	       nr_of_workers) {
		test.nr = 0;
		submit(IOCB_CMD_PWRITE, 1);
		await_taken(1);
		execute();
		reap(1);
	}
	assert_true(load_relaxed(&kernel.nr_waits_of_clients) >= 3);
	assert_written(1, 1);
}

static void what_the_client_submits_in_vain_is_executed(void **state)
{
	/*
	 * EPERM comes last in the array, because the library submits no request for
	 * one second after EPERM.
	 */
	static const int errors[] = { -EAGAIN, -EINVAL, -EBADF, -EPERM };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		store_relaxed(&kernel.nr_waits_of_clients, 0);
		kernel.waits_error = 0;
		let_clients_wait();
		test.nr = 0;
		kernel.waits_error = errors[i];
		submit(IOCB_CMD_PWRITE, i);
		reap(1);
		assert_written(i, 1);
	}
}

/*
 * A worker submits a write to kernel AIO only so that other writes of the file need not
 * wait. This write is its file's only request, so a worker executes it by a plain call.
 */
static void one_that_is_alone_is_executed(void **state)
{
	(void)state;
	end_beside();
	submit(IOCB_CMD_PWRITE, 0);
	reap(1);
	assert_written(0, 1);
	assert_int_equal(kernel.nr_waits, 0);
}

static void many_are_with_the_kernel_together(void **state)
{
	struct iocb *list[NR_BLOCKS];

	(void)state;
	for (unsigned i = 0; i < NR_BLOCKS; i++)
		list[i] = prepared(IOCB_CMD_PWRITE, i);
	assert_int_equal(uaio_aio_submit(test.handle, NR_BLOCKS, list),
			 NR_BLOCKS);
	await_taken(NR_BLOCKS);
	for (unsigned i = 0; i < NR_BLOCKS; i++)
		execute();
	reap(NR_BLOCKS);
	assert_written(0, NR_BLOCKS);
}

static void a_waiter_sleeps_until_it_is_done(void **state)
{
	struct unit_thread thread;

	(void)state;
	for (unsigned i = 0; i < unit_rounds(50); i++) {
		test.nr = 0;
		start_reaping(&thread, 2);
		if (i & 1)
			unit_await_sleep(&thread);
		submit(IOCB_CMD_PWRITE, 3);
		submit(IOCB_CMD_PWRITE, 4);
		await_taken(2);
		execute();
		execute();
		unit_thread_join(&thread);
	}
}

/*
 * The errors in the array mean, in this order: the quota is used up, a seccomp filter
 * is installed, or the device does not support AIO.
 */
static void what_the_kernel_refuses_is_executed(void **state)
{
	static const int errors[] = { -EAGAIN, -EINVAL, -EOPNOTSUPP };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		kernel.waits_error = errors[i];
		submit(IOCB_CMD_PWRITE, i);
		reap(1);
		assert_int_equal(kernel.nr_waits, i + 1);
	}
	assert_written(0, 3);
}

static void a_filter_that_comes_meanwhile_ends_it(void **state)
{
	(void)state;
	kernel.is_held = 1;
	submit(IOCB_CMD_PWRITE, 0);
	await_waits(1);
	kernel.waits_error = kernel.submit_error = -EPERM;
	let_go(&kernel.is_held);
	reap(1);
	submit(IOCB_CMD_PWRITE, 1);
	reap(1);
	assert_written(0, 2);
}

static int64_t result_of_one(void)
{
	struct io_event event;

	assert_int_equal(unit_reap(test.handle, 1, &event), 1);
	return event.res;
}

/*
 * The kernel's call was allowed to wait, so its result is final, unless it is EAGAIN.
 */
static void its_results_are_the_kernel_s(void **state)
{
	static const int64_t results[] = { SIZE / 2, 0, -EIO, -ENOSPC };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		submit(IOCB_CMD_PWRITE, i);
		await_taken(1);
		end_with(results[i]);
		assert_int_equal(result_of_one(), results[i]);
		assert_unwritten(i);
	}
	submit(IOCB_CMD_PWRITE, 4);
	await_taken(1);
	end_with(-EAGAIN);
	reap(1);
	assert_written(4, 1);
	assert_int_equal(kernel.nr_waits, 5);
}

static void close_direct(void)
{
	unit_close(test.direct);
}

static void destroy(void)
{
	unit_destroy(test.handle);
}

/*
 * Call act_of_it in another thread while a worker is at the beginning of io_submit().
 * Later the simulated kernel (take()) asserts that the descriptor is still open.
 */
static void act_beside_a_call(void (*act_of_it)(void))
{
	struct doer doer;

	kernel.is_held = 1;
	submit(IOCB_CMD_PWRITE, 5);
	await_waits(1);
	end_beside();
	begin(&doer, act_of_it);
	let_go(&kernel.is_held);
	await_taken(1);
	execute();
	unit_thread_join(&doer.thread);
}

static void closing_waits_for_the_call(void **state)
{
	(void)state;
	act_beside_a_call(close_direct);
	reap(1);
	assert_written(5, 1);
	test.direct = -1;
}

/*
 * The kernel hands a request back while another thread closes its descriptor. No worker
 * may submit it again.
 */
static void none_is_submitted_once_its_file_is_closed(void **state)
{
	struct doer closer;

	(void)state;
	kernel.gives_writes_back = false;
	submit(IOCB_CMD_PWRITE, 5);
	begin(&closer, close_direct);
	end_with(-EAGAIN);
	reap(1);
	assert_written(5, 1);
	assert_int_equal(load_relaxed(&kernel.nr_waits), 0);
	end_beside();
	unit_thread_join(&closer.thread);
	test.direct = -1;
}

/*
 * The client gets its event before the worker's io_submit() returns. The client may close
 * the file at once. But io_destroy must wait for the worker.
 */
static void it_may_be_complete_before_the_call_is_over(void **state)
{
	struct doer destroyer;

	(void)state;
	kernel.is_held_after = 1;
	submit(IOCB_CMD_PWRITE, 6);
	await_taken(1);
	execute();
	reap(1);
	assert_written(6, 1);
	end_beside();
	close_direct();
	begin(&destroyer, destroy);
	let_go(&kernel.is_held_after);
	unit_thread_join(&destroyer.thread);
	test.direct = -1;
	test.handle = unit_context(32);
}

static void destroying_waits_for_the_kernel(void **state)
{
	(void)state;
	act_beside_a_call(destroy);
	assert_written(5, 1);
	test.handle = unit_context(32);
}

static void a_sync_waits_for_it(void **state)
{
	struct io_event events[2];
	struct iocb sync;

	(void)state;
	sync = unit_iocb(IOCB_CMD_FSYNC, test.direct, NULL, 0, 0);
	submit(IOCB_CMD_PWRITE, 8);
	assert_int_equal(unit_submit(test.handle, &sync), 1);
	await_taken(1);
	assert_true(uaio_aio_is_empty(test.handle));
	execute();
	assert_int_equal(unit_reap(test.handle, 2, events), 2);
	assert_int_equal(events[0].obj, (uintptr_t)&test.iocbs[0]);
	assert_int_equal(events[1].obj, (uintptr_t)&sync);
}

static struct {
	int fd;
	/* how long uaio_own_fd_yield() took */
	int64_t ns;
} number;

static void yield_number(void)
{
	int64_t since = uaio_now_ns();

	assert_int_equal(uaio_own_fd_yield(number.fd), 0);
	number.ns = uaio_now_ns() - since;
}

/*
 * The program wants the eventfd's descriptor number for itself. The library must wait
 * until workers' calls that may use the eventfd have ended. If a call lasts, the
 * library must wait only for a second: by then the kernel has certainly looked up the
 * descriptor.
 */
static void
the_eventfd_s_number_is_the_program_s_when_calls_are_over(void **state)
{
	struct doer doer;
	bool was_over;

	(void)state;
	submit(IOCB_CMD_PWRITE, 9);
	await_taken(1);
	number.fd = (int)kernel.taken[0].iocb.aio_resfd;
	kernel.is_held = 1;
	submit(IOCB_CMD_PWRITE, 10);
	await_waits(2);
	doer.act = yield_number;
	doer.is_over = 0;
	unit_thread_start(&doer.thread, act, &doer);
	unit_await_sleep(&doer.thread);
	was_over = load_acquire(&doer.is_over);
	let_go(&kernel.is_held);
	await_taken(2);
	unit_thread_join(&doer.thread);
	assert_true(!was_over || number.ns >= 1000000000);
	assert_int_equal(kernel.taken[1].iocb.aio_resfd, number.fd);
	assert_int_equal(close(number.fd), 0);
	submit(IOCB_CMD_PWRITE, 11);
	await_taken(3);
	assert_int_not_equal(kernel.taken[2].iocb.aio_resfd, number.fd);
	/*
	 * The real kernel keeps a reference to the eventfd. The simulated kernel writes
	 * to a descriptor, so give it the eventfd's new descriptor.
	 */
	for (unsigned i = 0; i < 2; i++)
		kernel.taken[i].iocb.aio_resfd = kernel.taken[2].iocb.aio_resfd;
	beside.taken.iocb.aio_resfd = kernel.taken[2].iocb.aio_resfd;
	for (unsigned i = 0; i < 3; i++)
		execute();
	reap(3);
	assert_written(9, 3);
}

#define BLOCKS_TEST(function)                                        \
	cmocka_unit_test_setup_teardown(function, start_giving_back, \
					end_and_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BLOCKS_TEST(a_worker_submits_it),
		BLOCKS_TEST(the_client_submits_it_where_that_is_fast),
		BLOCKS_TEST(the_client_submits_it_unless_that_syncs_the_file),
		BLOCKS_TEST(workers_submit_it_where_that_was_slow),
		BLOCKS_TEST(what_the_client_submits_in_vain_is_executed),
		BLOCKS_TEST(one_that_is_alone_is_executed),
		BLOCKS_TEST(many_are_with_the_kernel_together),
		BLOCKS_TEST(a_waiter_sleeps_until_it_is_done),
		BLOCKS_TEST(what_the_kernel_refuses_is_executed),
		BLOCKS_TEST(a_filter_that_comes_meanwhile_ends_it),
		BLOCKS_TEST(its_results_are_the_kernel_s),
		BLOCKS_TEST(closing_waits_for_the_call),
		BLOCKS_TEST(none_is_submitted_once_its_file_is_closed),
		BLOCKS_TEST(it_may_be_complete_before_the_call_is_over),
		BLOCKS_TEST(destroying_waits_for_the_kernel),
		BLOCKS_TEST(a_sync_waits_for_it),
		BLOCKS_TEST(
			the_eventfd_s_number_is_the_program_s_when_calls_are_over),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
