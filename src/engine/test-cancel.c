/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "engine/config.h"
#include "front/libaio/aio.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES, NR = 40 };

static char buffers[NR][SIZE];

static void assert_no_more(uint64_t handle)
{
	struct timespec zero = { 0, 0 };
	struct uaio_event event;

	assert_int_equal(uaio_aio_getevents(handle, 0, 1, &event, &zero), 0);
}

static void what_was_never_submitted_is_not_found(void **state)
{
	uint64_t handle = unit_context(4);
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, 0, NULL, 0, 0);

	(void)state;
	assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINVAL);
	assert_int_equal(uaio_aio_cancel(handle, NULL), -EFAULT);
	assert_no_more(handle);
	unit_destroy(handle);
}

static void what_is_complete_is_not_found(void **state)
{
	int fd = unit_numbered_file(true, 1);
	uint64_t handle = unit_context(4);
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffers[0], SIZE, 0);

	(void)state;
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINVAL);
	assert_int_equal(unit_reap_one(handle), SIZE);
	assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINVAL);
	assert_no_more(handle);
	unit_destroy(handle);
	unit_close(fd);
}

/* All workers are held, so the last requests are queued. */
static void what_is_queued_is_cancelled_what_runs_is_not(void **state)
{
	int fd = unit_numbered_file(true, NR);
	uint64_t handle = unit_context(NR);
	struct io_event events[NR];
	struct iocb iocbs[NR];
	unsigned nr_cancelled = 0;

	(void)state;
	uaio_config.force_worker = true;
	unit_gate_close(fd);
	for (unsigned i = 0; i < NR; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, fd, buffers[i], SIZE,
				     i * SIZE);
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	unit_gate_await(32);
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
	assert_int_equal(nr_cancelled, NR - 32);
	assert_no_more(handle);
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
	assert_no_more(other);
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

/* A byte comes in while two threads cancel the read that waits for it. */
static void of_all_who_end_a_request_one_does(void **state)
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
		assert_no_more(cancelling.handle);
		unit_destroy(cancelling.handle);
		unit_close(ends[0]);
		unit_close(ends[1]);
		pthread_barrier_destroy(&barrier);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(what_was_never_submitted_is_not_found),
		UNIT_TEST(what_is_complete_is_not_found),
		UNIT_TEST(what_is_queued_is_cancelled_what_runs_is_not),
		UNIT_TEST(a_handle_of_another_context_finds_nothing),
		UNIT_TEST(of_all_who_end_a_request_one_does),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
