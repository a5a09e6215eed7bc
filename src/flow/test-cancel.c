/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "wq/wq.h"
#include "aio/aio.h"
#include "aio/handle.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES, NR = 40 };

static char buffers[NR][SIZE];

static void a_request_never_submitted_is_not_found(void **state)
{
	uint64_t handle = unit_context(4);
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, 0, NULL, 0, 0);

	(void)state;
	assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINVAL);
	assert_int_equal(uaio_aio_cancel(handle, NULL), -EFAULT);
	unit_assert_no_more(handle);
	unit_destroy(handle);
}

static void a_complete_request_is_not_found(void **state)
{
	int fd = unit_numbered_file(true, 1);
	uint64_t handle = unit_context(4);
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffers[0], SIZE, 0);

	(void)state;
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINVAL);
	assert_int_equal(unit_reap_one(handle), SIZE);
	assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINVAL);
	unit_assert_no_more(handle);
	unit_destroy(handle);
	unit_close(fd);
}

/*
 * One device may use at most SHARE workers. The test's gate holds the system calls of
 * all these workers. So the last requests stay queued, and can be cancelled.
 */
static void queued_requests_are_cancelled_running_ones_are_not(void **state)
{
	int fd = unit_numbered_file(true, NR);
	uint64_t handle = unit_context(NR);
	struct io_event events[NR];
	struct iocb iocbs[NR];
	enum { LIMIT = 32, SHARE = LIMIT * 7 / 8 };
	unsigned nr_cancelled = 0;

	(void)state;
	uaio_wq_limit_workers(UAIO_BOUNDED, LIMIT);
	uaio_config.force_worker = true;
	unit_gate_close(fd);
	for (unsigned i = 0; i < NR; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, fd, buffers[i], SIZE,
				     i * SIZE);
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	unit_gate_await(SHARE);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(uaio_aio_cancel(handle, &iocbs[i]),
				 unit_gate_began(i) >= 0 ? -EINVAL
							 : -EINPROGRESS);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(uaio_aio_cancel(handle, &iocbs[i]), -EINVAL);
	unit_gate_open();
	assert_int_equal(unit_reap(handle, NR, events), NR);
	for (unsigned i = 0; i < NR; i++) {
		assert_true((int64_t)events[i].res == SIZE ||
			    (int64_t)events[i].res == -ECANCELED);
		nr_cancelled += (int64_t)events[i].res == -ECANCELED;
	}
	assert_int_equal(nr_cancelled, NR - SHARE);
	unit_assert_no_more(handle);
	for (unsigned i = 0; i < NR; i++)
		if (unit_gate_began(i) < 0)
			nr_cancelled--;
	assert_int_equal(nr_cancelled, 0);
	uaio_config.force_worker = false;
	unit_destroy(handle);
	unit_close(fd);
}

static void a_handle_of_another_context_finds_nothing(void **state)
{
	uint64_t handle = unit_context(4), other = unit_context(4);
	struct iocb iocb;
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(uaio_aio_cancel(other, &iocb), -EINVAL);
	unit_assert_no_more(other);
	assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINPROGRESS);
	assert_int_equal(unit_reap_one(handle), -ECANCELED);
	unit_destroy(handle);
	unit_destroy(other);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

struct cancelling {
	uint64_t handle;
	struct iocb *iocb;
};

static pthread_barrier_t barrier;

static long cancel_at_once(void *arg)
{
	struct cancelling *cancelling = arg;

	pthread_barrier_wait(&barrier);
	return uaio_aio_cancel(cancelling->handle, cancelling->iocb);
}

/*
 * Two threads cancel a read of an empty pipe while a byte arrives. Exactly one thread ends
 * the read.
 */
static void of_all_threads_that_end_a_request_one_does(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(1000); i++) {
		struct cancelling cancelling = { unit_context(4), NULL };
		struct unit_thread a, b;
		struct iocb iocb;
		long first, second;
		int64_t res;
		int ends[2];
		char byte;

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
		cancelling.iocb = &iocb;
		assert_int_equal(unit_submit(cancelling.handle, &iocb), 1);
		pthread_barrier_init(&barrier, NULL, 3);
		unit_thread_start(&a, cancel_at_once, &cancelling);
		unit_thread_start(&b, cancel_at_once, &cancelling);
		pthread_barrier_wait(&barrier);
		assert_int_equal(write(ends[1], "x", 1), 1);
		first = unit_thread_join(&a);
		second = unit_thread_join(&b);
		res = unit_reap_one(cancelling.handle);
		if (res == -ECANCELED)
			assert_int_equal(first + second, -EINPROGRESS - EINVAL);
		else
			assert_int_equal(first + second, -2 * EINVAL);
		assert_true(res == 1 || res == -ECANCELED);
		unit_assert_no_more(cancelling.handle);
		unit_destroy(cancelling.handle);
		unit_close(ends[0]);
		unit_close(ends[1]);
		pthread_barrier_destroy(&barrier);
	}
}

/* Tests of the functions of uaio.h */

static int cancel_one(uint64_t handle, const struct iocb *iocb)
{
	return uaio_ctx_cancel_one(handle, (uintptr_t)iocb);
}

static void a_wrong_context_is_told_from_a_wrong_request(void **state)
{
	uint64_t handle = unit_context(4);
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, 0, NULL, 0, 0);
	int fd = unit_numbered_file(true, 1);

	(void)state;
	assert_int_equal(cancel_one(handle, &iocb), -ENOENT);
	assert_int_equal(cancel_one(handle, NULL), -ENOENT);
	assert_int_equal(uaio_ctx_cancel_all(handle), -ENOENT);
	assert_int_equal(uaio_ctx_cancel_fd(handle, fd), -ENOENT);
	assert_int_equal(uaio_ctx_cancel_fd(handle, -1), -ENOENT);
	assert_int_equal(uaio_ctx_cancel_fd(handle, 1 << 20), -ENOENT);

	/*
	 * A request that is complete is not found by a canceller, whether or not its event
	 * was reaped.
	 */
	iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffers[0], SIZE, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(cancel_one(handle, &iocb), -ENOENT);
	assert_int_equal(uaio_ctx_cancel_fd(handle, fd), -ENOENT);
	assert_int_equal(unit_reap_one(handle), SIZE);
	assert_int_equal(uaio_ctx_cancel_all(handle), -ENOENT);
	unit_assert_no_more(handle);
	unit_destroy(handle);

	assert_int_equal(cancel_one(handle, &iocb), -EINVAL);
	assert_int_equal(uaio_ctx_cancel_all(handle), -EINVAL);
	assert_int_equal(uaio_ctx_cancel_fd(handle, fd), -EINVAL);
	assert_int_equal(uaio_ctx_cancel_all(1), -EINVAL);
	unit_close(fd);
}

static void parked_requests_are_found_by_their_descriptor(void **state)
{
	uint64_t handle = unit_context(8);
	struct iocb reads[3], poll, later;
	int ends[2], others[2], fd;
	struct io_event events[2];
	char bytes[4];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fd = ends[0];
	for (unsigned i = 0; i < 3; i++) {
		reads[i] = unit_iocb(IOCB_CMD_PREAD, fd, &bytes[i], 1, 0);
		assert_int_equal(unit_submit(handle, &reads[i]), 1);
	}
	poll = unit_iocb(IOCB_CMD_POLL, fd, (void *)(uintptr_t)POLLIN, 0, 0);
	assert_int_equal(unit_submit(handle, &poll), 1);
	assert_int_equal(cancel_one(handle, &reads[1]), 0);
	assert_int_equal(unit_reap_one(handle), -ECANCELED);
	assert_int_equal(cancel_one(handle, &poll), 0);
	assert_int_equal(unit_reap_one(handle), 0);

	/* The descriptor now refers to another pipe, on which there are no requests. */
	unit_close(fd);
	assert_int_equal(pipe2(others, O_CLOEXEC), 0);
	assert_int_equal(others[0], fd);
	assert_int_equal(uaio_ctx_cancel_fd(handle, fd), -ENOENT);
	later = unit_iocb(IOCB_CMD_PREAD, fd, &bytes[3], 1, 0);
	assert_int_equal(unit_submit(handle, &later), 1);
	assert_int_equal(uaio_ctx_cancel_fd(handle, fd), 1);
	assert_int_equal(unit_reap(handle, 1, events), 1);
	assert_int_equal(events[0].obj, (uintptr_t)&later);
	assert_int_equal(uaio_ctx_cancel_fd(handle, fd), -ENOENT);

	/* The reads on the first pipe are still pending. */
	assert_int_equal(uaio_ctx_cancel_all(handle), 2);
	assert_int_equal(unit_reap(handle, 2, events), 2);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal((int64_t)events[i].res, -ECANCELED);
	unit_assert_no_more(handle);
	unit_close(others[0]);
	unit_close(others[1]);
	unit_close(ends[1]);
	unit_destroy(handle);
}

static void a_write_that_is_cut_reports_what_was_written(void **state)
{
	enum { BYTES = 1 << 20 };
	uint64_t handle = unit_context(4);
	char *bytes = calloc(1, BYTES);
	struct iocb iocb;
	int64_t res;
	int ends[2];

	(void)state;
	assert_non_null(bytes);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	iocb = unit_iocb(IOCB_CMD_PWRITE, ends[1], bytes, BYTES, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(uaio_ctx_cancel_all(handle), 1);
	res = unit_reap_one(handle);
	assert_in_range(res, 1, BYTES - 1);
	assert_int_equal(read(ends[0], bytes, BYTES), res);
	unit_assert_no_more(handle);
	unit_destroy(handle);
	unit_close(ends[0]);
	unit_close(ends[1]);
	free(bytes);
}

/*
 * A hook that stops a thread when it reads the pipe, except the test's own thread.
 */
static struct {
	int fd;
	int tid;
	uint32_t is_trying; /* atomic */
	uint32_t goes_on;   /* atomic */
} trial;

static bool hold_trial(long nr, const long args[6], long *ret_res)
{
	if ((nr != SYS_read && nr != SYS_readv && nr != SYS_preadv2) ||
	    args[0] != trial.fd || gettid() == trial.tid)
		return false;
	store_release(&trial.is_trying, 1);
	while (!load_acquire(&trial.goes_on))
		sched_yield();
	/* the try fails, as if another thread had read the byte */
	*ret_res = -EAGAIN;
	return true;
}

static bool is_trying(void *arg)
{
	(void)arg;
	return load_acquire(&trial.is_trying);
}

static long cancel_all(void *arg)
{
	const uint64_t *handle = arg;

	return uaio_ctx_cancel_all(*handle);
}

/*
 * A thread tries the read, and the try fails with EAGAIN. Meanwhile another thread
 * cancels the read. The canceller must wait for the result of the try. If it assumed
 * that the try executes the read, the read would continue to wait.
 */
static void a_request_being_tried_is_cancelled_if_it_has_to_wait(void **state)
{
	uint64_t handle = unit_context(4);
	struct unit_thread canceller;
	struct iocb iocb;
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	store_relaxed(&trial.is_trying, 0);
	store_relaxed(&trial.goes_on, 0);
	trial.fd = ends[0];
	trial.tid = gettid();
	unit_hook(hold_trial);
	iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(write(ends[1], "x", 1), 1);
	unit_await(is_trying, NULL);

	unit_thread_start(&canceller, cancel_all, &handle);
	unit_await_sleep(&canceller);
	store_release(&trial.goes_on, 1);
	assert_int_equal(unit_thread_join(&canceller), 1);
	assert_int_equal(unit_reap_one(handle), -ECANCELED);
	unit_assert_no_more(handle);
	unit_hook(NULL);
	unit_destroy(handle);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_request_never_submitted_is_not_found),
		UNIT_TEST(a_complete_request_is_not_found),
		UNIT_TEST(queued_requests_are_cancelled_running_ones_are_not),
		UNIT_TEST(a_handle_of_another_context_finds_nothing),
		UNIT_TEST(of_all_threads_that_end_a_request_one_does),
		UNIT_TEST(a_wrong_context_is_told_from_a_wrong_request),
		UNIT_TEST(parked_requests_are_found_by_their_descriptor),
		UNIT_TEST(a_write_that_is_cut_reports_what_was_written),
		UNIT_TEST(a_request_being_tried_is_cancelled_if_it_has_to_wait),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
