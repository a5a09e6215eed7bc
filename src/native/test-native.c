/* SPDX-License-Identifier: MIT */
/* Direct requests that the kernel executes by itself (native.h) */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/sleep.h"
#include "proc/ownfd.h"
#include "test-kernel.h"

static void a_batch_is_one_call(void **state)
{
	struct iocb *list[8];

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		list[i] = prepared(i & 1 ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD, i);
	assert_int_equal(uaio_aio_submit(test.handle, 8, list), 8);
	assert_int_equal(kernel.nr_submits, 1);
	assert_int_equal(kernel.nr_taken, 8);
	for (unsigned i = 0; i < 8; i++)
		execute();
	reap(8);
	for (unsigned i = 0; i < 8; i += 2)
		assert_block(test.buffers[i], i);
	assert_int_equal(kernel.nr_setups, 1);
}

/* One submission queries the file's size only once, for all of its requests. */
static void a_sync_comes_after_writes_that_end_together(void **state)
{
	struct io_event events[5];
	struct iocb *list[5], sync;
	unsigned nr_sizes, nr_times;

	(void)state;
	submit(IOCB_CMD_PWRITE, 0);
	execute();
	reap(1);
	nr_sizes = load_relaxed(&kernel.nr_sizes);
	nr_times = load_relaxed(&kernel.nr_times);
	for (unsigned i = 0; i < 4; i++)
		list[i] =
			prepared(i == 1 ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE, i);
	sync = unit_iocb(IOCB_CMD_FSYNC, test.direct, NULL, 0, 0);
	list[4] = &sync;
	assert_int_equal(uaio_aio_submit(test.handle, 5, list), 5);
	assert_int_equal(load_relaxed(&kernel.nr_sizes), nr_sizes + 1);
	/*
	 * No request has queried the file's times, which show whether a write must also
	 * write the inode.
	 */
	assert_int_equal(load_relaxed(&kernel.nr_times), nr_times);
	assert_int_equal(kernel.nr_taken, 4);
	for (unsigned i = 0; i < 4; i++)
		execute();
	assert_int_equal(unit_reap(test.handle, 5, events), 5);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(events[i].res, SIZE);
	assert_int_equal(events[4].obj, (uintptr_t)&sync);
	assert_int_equal(events[4].res, 0);
}

/*
 * The second write extends the file, and is executed at once. So the library must query
 * the size again for the third write, which then is inside the file.
 */
static void a_file_that_grows_in_a_call_is_asked_again(void **state)
{
	static const unsigned blocks[] = { 0, NR_BLOCKS, NR_BLOCKS, 1 };
	struct iocb *list[NR_ELEMENTS(blocks)];
	unsigned nr_sizes = load_relaxed(&kernel.nr_sizes);

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(blocks); i++)
		list[i] = prepared(IOCB_CMD_PWRITE, blocks[i]);
	assert_int_equal(
		uaio_aio_submit(test.handle, NR_ELEMENTS(blocks), list),
		NR_ELEMENTS(blocks));
	/*
	 * Three queries: the second write also queries the size, to see whether it must
	 * wait for the first.
	 */
	assert_int_equal(load_relaxed(&kernel.nr_sizes), nr_sizes + 3);
	assert_int_equal(kernel.nr_taken, 3);
	for (unsigned i = 0; i < 3; i++)
		execute();
	reap(NR_ELEMENTS(blocks));
}

/*
 * The ring's eventfd must wake the waiter. The waiter then must not read the eventfd by
 * which other threads wake it, as this read would fail with EAGAIN.
 */
static void a_waiter_sleeps_until_the_kernel_is_done(void **state)
{
	struct unit_thread thread;
	unsigned nr_vain = load_relaxed(&kernel.nr_vain);

	(void)state;
	for (unsigned i = 0; i < unit_rounds(50); i++) {
		test.nr = 0;
		submit(IOCB_CMD_PREAD, 3);
		submit(IOCB_CMD_PWRITE, 4);
		start_reaping(&thread, 2);
		if (i & 1)
			unit_await_sleep(&thread);
		execute();
		execute();
		unit_thread_join(&thread);
		assert_block(test.buffers[0], 3);
	}
	assert_int_equal(load_relaxed(&kernel.nr_vain), nr_vain);
}

/*
 * A waiter that sleeps before anything is submitted must wake when the requests are
 * complete.
 */
static void a_waiter_learns_of_what_is_submitted_later(void **state)
{
	struct unit_thread thread;

	(void)state;
	start_reaping(&thread, 2);
	unit_await_sleep(&thread);
	submit(IOCB_CMD_PREAD, 1);
	submit(IOCB_CMD_PREAD, 2);
	execute();
	execute();
	unit_thread_join(&thread);
}

static bool has_event(void *arg)
{
	(void)arg;
	return !uaio_aio_is_empty(test.handle);
}

static void a_client_that_does_not_call_finds_its_events(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		submit(IOCB_CMD_PREAD, i);
		execute();
		unit_await(has_event, NULL);
		reap(1);
	}
}

static void what_is_given_back_goes_to_a_worker(void **state)
{
	(void)state;
	kernel.gives_back = true;
	for (unsigned i = 0; i < 8; i++) {
		submit(IOCB_CMD_PREAD, i);
		reap(1);
		assert_block(test.buffers[i], i);
	}
	/*
	 * After the kernel has handed back eight requests in a row, the library
	 * submits only one request in 32 to the kernel.
	 */
	assert_int_equal(kernel.nr_submits, 8);
	for (unsigned i = 0; i < 16; i++) {
		submit(IOCB_CMD_PREAD, 2);
		reap(1);
	}
	assert_int_equal(kernel.nr_submits, 8);
}

static void a_file_that_cannot_is_asked_once(void **state)
{
	(void)state;
	kernel.submit_error = -EOPNOTSUPP;
	for (unsigned i = 0; i < 3; i++) {
		submit(IOCB_CMD_PREAD, i);
		reap(1);
		assert_block(test.buffers[i], i);
	}
	assert_int_equal(kernel.nr_submits, 1);
}

static void what_the_kernel_has_no_room_for_goes_to_workers(void **state)
{
	struct iocb *list[4];

	(void)state;
	kernel.submit_error = -EAGAIN;
	kernel.nr_more = 2;
	for (unsigned i = 0; i < 4; i++)
		list[i] = prepared(IOCB_CMD_PREAD, i);
	assert_int_equal(uaio_aio_submit(test.handle, 4, list), 4);
	reap(2);
	assert_int_equal(kernel.nr_taken, 2);
	execute();
	execute();
	reap(2);
	for (unsigned i = 0; i < 4; i++)
		assert_block(test.buffers[i], i);
}

static void a_filter_that_comes_later_ends_it(void **state)
{
	int64_t since = uaio_now_ns();

	(void)state;
	submit(IOCB_CMD_PREAD, 0);
	kernel.submit_error = -EPERM;
	submit(IOCB_CMD_PREAD, 1);
	reap(1);
	submit(IOCB_CMD_PREAD, 2);
	reap(1);
	/* The library tries the kernel again only after a second. */
	assert_in_range(kernel.nr_submits, 2,
			2 + (uaio_now_ns() - since) / 1000000000);
	/* The first request, which the kernel has, still completes. */
	execute();
	reap(1);
	for (unsigned i = 0; i < 3; i++)
		assert_block(test.buffers[i], i);
}

static long destroy(void *arg)
{
	(void)arg;
	unit_destroy(test.handle);
	return 0;
}

static void destroying_waits_for_the_kernel(void **state)
{
	struct unit_thread thread;

	(void)state;
	submit(IOCB_CMD_PWRITE, 5);
	unit_thread_start(&thread, destroy, NULL);
	unit_await_sleep(&thread);
	execute();
	unit_thread_join(&thread);
	test.handle = unit_context(32);
	submit(IOCB_CMD_PREAD, 6);
	execute();
	reap(1);
	/* The next context has used the same ring. */
	assert_int_equal(kernel.nr_setups, 1);
	assert_int_equal(kernel.nr_destroys, 0);
}

static long close_direct(void *arg)
{
	(void)arg;
	unit_close(test.direct);
	return 0;
}

static void closing_waits_for_the_kernel(void **state)
{
	struct unit_thread thread;

	(void)state;
	submit(IOCB_CMD_PREAD, 7);
	submit(IOCB_CMD_PWRITE, 8);
	unit_thread_start(&thread, close_direct, NULL);
	unit_await_sleep(&thread);
	execute();
	execute();
	unit_thread_join(&thread);
	reap(2);
	assert_block(test.buffers[0], 7);
	test.direct = -1;
}

/*
 * A thread is closing the descriptor when the kernel hands the request back. A worker
 * must still execute it on that descriptor.
 */
static void what_is_given_back_late_is_not_lost(void **state)
{
	struct unit_thread thread;
	char bytes[SIZE];

	(void)state;
	submit(IOCB_CMD_PWRITE, 8);
	unit_thread_start(&thread, close_direct, NULL);
	unit_await_sleep(&thread);
	end_with(-EAGAIN);
	unit_thread_join(&thread);
	reap(1);
	assert_int_equal(pread(test.fd, bytes, SIZE, 8 * SIZE), SIZE);
	assert_memory_equal(bytes, test.buffers[0], SIZE);
	test.direct = -1;
}

static sigjmp_buf to_client;

static void leave_by_a_jump(int signal)
{
	(void)signal;
	siglongjmp(to_client, 1);
}

static long wait_and_jump(void *arg)
{
	struct io_event event;

	(void)arg;
	if (sigsetjmp(to_client, 1) == 0)
		(void)unit_reap(test.handle, 1, &event);
	submit(IOCB_CMD_PREAD, 1);
	execute();
	unit_await(has_event, NULL);
	return 0;
}

/*
 * A thread sleeps in the epoll of its context, as the context's leader (ready.h). It
 * leaves this sleep by siglongjmp(). Then it submits a request, and must get the
 * completion.
 */
static void a_thread_that_jumped_out_of_its_sleep_submits(void **state)
{
	struct sigaction action = { .sa_handler = leave_by_a_jump }, old;
	struct unit_thread thread;

	(void)state;
	/* Sanitizers do not support siglongjmp() out of a signal handler. */
	if (UNIT_IS_SANITIZED)
		return;
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	submit(IOCB_CMD_PREAD, 0);
	unit_thread_start(&thread, wait_and_jump, NULL);
	unit_await_sleep(&thread);
	assert_int_equal(pthread_kill(thread.id, SIGUSR1), 0);
	unit_thread_join(&thread);
	execute();
	reap(2);
	assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

/*
 * The program closes the library's eventfd, then opens a file of its own at the same
 * descriptor. The library must not close that file.
 */
static void a_lost_eventfd_ends_it(void **state)
{
	int fd;

	(void)state;
	submit(IOCB_CMD_PREAD, 0);
	fd = (int)kernel.taken[0].iocb.aio_resfd;
	execute();
	reap(1);
	assert_int_equal(close(fd), 0);
	kernel.submit_error = -EBADF;
	for (unsigned i = 1; i < 4; i++) {
		submit(IOCB_CMD_PREAD, i);
		reap(1);
		assert_block(test.buffers[i], i);
	}
	assert_int_equal(kernel.nr_submits, 2);
	assert_int_equal(dup2(test.fd, fd), fd);
	unit_destroy(test.handle);
	assert_int_equal(fcntl(fd, F_GETFD), 0);
	assert_int_equal(close(fd), 0);
	test.handle = unit_context(32);
}

/*
 * Here EBADF means that the program has closed the request's own descriptor. So later
 * requests must still be submitted.
 */
static void a_client_s_descriptor_that_is_lost_ends_nothing(void **state)
{
	(void)state;
	submit(IOCB_CMD_PREAD, 0);
	execute();
	kernel.submit_error = -EBADF;
	submit(IOCB_CMD_PREAD, 1);
	kernel.submit_error = 0;
	submit(IOCB_CMD_PREAD, 2);
	execute();
	reap(3);
	assert_int_equal(kernel.nr_submits, 3);
}

/*
 * The kernel may hand back a request, or execute only part: some devices do not support
 * RWF_NOWAIT, and a kernel may stop where it would wait.
 */
static void
what_the_kernel_has_not_executed_whole_goes_to_a_worker(void **state)
{
	static const int64_t results[] = { SIZE / 2, 1, -EOPNOTSUPP };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		submit(i == 1 ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD, i);
		end_with(results[i]);
		reap(1);
	}
	assert_block(test.buffers[0], 0);
	assert_block(test.buffers[2], 2);
	/* After EOPNOTSUPP no request of the file is submitted to the kernel. */
	submit(IOCB_CMD_PREAD, 3);
	reap(1);
	assert_int_equal(kernel.nr_submits, 3);
}

static void the_program_may_have_the_eventfd_s_number(void **state)
{
	int fd;

	(void)state;
	submit(IOCB_CMD_PREAD, 0);
	fd = (int)kernel.taken[0].iocb.aio_resfd;
	assert_int_equal(uaio_own_fd_yield(fd), 0);
	assert_int_equal(close(fd), 0);
	submit(IOCB_CMD_PREAD, 1);
	assert_int_not_equal(kernel.taken[1].iocb.aio_resfd, fd);
	/*
	 * The real kernel keeps a reference to the eventfd. The simulated kernel writes
	 * to a descriptor, so give it the eventfd's new descriptor.
	 */
	kernel.taken[0].iocb.aio_resfd = kernel.taken[1].iocb.aio_resfd;
	execute();
	execute();
	reap(2);
	/*
	 * This EBADF is about the request's own descriptor: the library must find that
	 * its eventfd is still open, at its new descriptor.
	 */
	kernel.submit_error = -EBADF;
	submit(IOCB_CMD_PREAD, 2);
	reap(1);
	kernel.submit_error = 0;
	submit(IOCB_CMD_PREAD, 3);
	assert_int_equal(kernel.nr_taken, 1);
	execute();
	reap(1);
}

static void a_ring_that_is_refused_is_asked_for_later(void **state)
{
	int64_t since = uaio_now_ns();

	(void)state;
	kernel.setup_error = -EAGAIN;
	for (unsigned i = 0; i < 3; i++) {
		submit(IOCB_CMD_PREAD, i);
		reap(1);
		assert_block(test.buffers[i], i);
	}
	/* io_setup is called once, and again after each second. */
	assert_in_range(kernel.nr_setups, 1,
			1 + (uaio_now_ns() - since) / 1000000000);
	assert_int_equal(kernel.nr_submits, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NATIVE_TEST(a_batch_is_one_call),
		NATIVE_TEST(a_sync_comes_after_writes_that_end_together),
		NATIVE_TEST(a_file_that_grows_in_a_call_is_asked_again),
		NATIVE_TEST(a_waiter_sleeps_until_the_kernel_is_done),
		NATIVE_TEST(a_waiter_learns_of_what_is_submitted_later),
		NATIVE_TEST(a_client_that_does_not_call_finds_its_events),
		NATIVE_TEST(what_is_given_back_goes_to_a_worker),
		NATIVE_TEST(a_file_that_cannot_is_asked_once),
		NATIVE_TEST(what_the_kernel_has_no_room_for_goes_to_workers),
		NATIVE_TEST(destroying_waits_for_the_kernel),
		NATIVE_TEST(closing_waits_for_the_kernel),
		NATIVE_TEST(what_is_given_back_late_is_not_lost),
		NATIVE_TEST(a_thread_that_jumped_out_of_its_sleep_submits),
		NATIVE_TEST(a_lost_eventfd_ends_it),
		NATIVE_TEST(a_client_s_descriptor_that_is_lost_ends_nothing),
		NATIVE_TEST(
			what_the_kernel_has_not_executed_whole_goes_to_a_worker),
		NATIVE_TEST(the_program_may_have_the_eventfd_s_number),
		NATIVE_TEST(a_filter_that_comes_later_ends_it),
		NATIVE_TEST(a_ring_that_is_refused_is_asked_for_later),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
