/* SPDX-License-Identifier: MIT */
/*
 * Children of fork(), while their parent uses rings. The children have the rings'
 * memory and descriptors, and may end in any way.
 */
#undef NDEBUG
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "test-uring.h"

enum { NR_THREADS = 2, BLOCKS = 4 };

static uint32_t is_over; /* atomic */
static int numbered;

/*
 * Through a ring, read a block, write to a pipe and read from the pipe. Check the data.
 */
static void work_once(struct uring *client, const int ends[2], unsigned i)
{
	char block[SIZE] = "", in = (char)i, out = 0;
	unsigned seen = 0;

	put_rw(client, IORING_OP_READ, numbered, block, SIZE,
	       (int64_t)(i % BLOCKS) * SIZE, 0)
		->flags = i % 2 ? IOSQE_ASYNC : 0;
	put_rw(client, IORING_OP_READ, ends[0], &out, 1, -1, 1);
	put_rw(client, IORING_OP_WRITE, ends[1], &in, 1, -1, 2);
	submit(client, 0);
	for (unsigned nr = 0; nr < 3; nr++) {
		struct io_uring_cqe cqe = get(client);

		assert_in_range(cqe.user_data, 0, 2);
		assert_int_equal(cqe.res, cqe.user_data ? 1 : SIZE);
		seen |= 1u << cqe.user_data;
	}
	assert_int_equal(seen, 7);
	assert_int_equal(block[0], i % BLOCKS);
	assert_int_equal(block[SIZE - 1], i % BLOCKS);
	assert_int_equal(in, out);
	assert_none(client);
}

static long work_until_over(void *arg)
{
	struct uring *client = arg;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (unsigned i = 0; !load_relaxed(&is_over); i++)
		work_once(client, ends, i);
	unit_close(ends[0]);
	unit_close(ends[1]);
	return 0;
}

static struct uring clients[NR_THREADS];
static struct unit_thread threads[NR_THREADS];

static int start(void **state)
{
	int ret = unit_setup(state);

	if (ret < 0)
		return ret;
	numbered = unit_numbered_file(true, BLOCKS);
	store_relaxed(&is_over, 0);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		client_open(&clients[i], 4, (struct io_uring_params){ 0 });
		unit_thread_start(&threads[i], work_until_over, &clients[i]);
	}
	return 0;
}

static int stop(void **state)
{
	store_relaxed(&is_over, 1);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		(void)unit_thread_join(&threads[i]);
		client_close(&clients[i]);
	}
	unit_close(numbered);
	return unit_teardown(state);
}

#define FORK_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

/*
 * In a child: take the parent's rings over by a first call on each ring (share.h).
 * Submit nothing, because the parent submits meanwhile. The child must not affect the
 * parent's requests and registered resources.
 */
static int ask_of_parents(void)
{
	for (unsigned i = 0; i < NR_THREADS; i++) {
		uint32_t fd = (uint32_t)clients[i].fd;

		if (!uaio_uring_owns(fd, false))
			return 1;
		if (enter(&clients[i], 0, 0) != 0)
			return 2;
		if (uaio_uring_register(fd, IORING_UNREGISTER_FILES, NULL, 0) !=
		    -ENXIO)
			return 3;
	}
	return 0;
}

static int work_in_child(void)
{
	struct uring own;
	int ends[2], ret;

	ret = ask_of_parents();
	if (ret)
		return ret;
	client_open(&own, 4, (struct io_uring_params){ 0 });
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (unsigned i = 0; i < 20; i++)
		work_once(&own, ends, i);
	unit_close(ends[0]);
	unit_close(ends[1]);
	client_close(&own);
	return ask_of_parents();
}

static int work_and_close(void)
{
	int ret = work_in_child();

	/*
	 * A child takes a parent's ring over when it first uses the ring (share.h).
	 * Here the child closes the rings without using them.
	 */
	for (unsigned i = 0; i < NR_THREADS; i++)
		unit_close(clients[i].fd);
	return ret;
}

static void children_of_a_process_at_work_have_rings_of_their_own(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(50); i++) {
		assert_int_equal(unit_in_child(work_and_close), 0);
		unit_restart_alarm();
	}
}

/*
 * In a child: work until the parent kills this process. If a check fails, the child
 * ends in another way than by SIGKILL, and the parent notices.
 */
static void be_killed(int begun)
{
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	for (bool is_first = true;; is_first = false) {
		if (work_in_child())
			_exit(1);
		if (is_first)
			assert_int_equal(write(begun, "b", 1), 1);
	}
}

static void a_child_that_is_killed_leaves_the_rings_alone(void **state)
{
	int begun[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(begun, O_CLOEXEC), 0);
	for (unsigned i = 0; i < unit_rounds(50); i++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (pid == 0)
			be_killed(begun[1]);
		/*
		 * In odd rounds kill the child once it has done some work, in even
		 * rounds at any moment.
		 */
		if (i % 2)
			assert_int_equal(read(begun[0], &byte, 1), 1);
		else
			usleep(i % 10 * 300);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGKILL);
		unit_restart_alarm();
	}
	unit_close(begun[0]);
	unit_close(begun[1]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FORK_TEST(
			children_of_a_process_at_work_have_rings_of_their_own),
		FORK_TEST(a_child_that_is_killed_leaves_the_rings_alone),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
