/* SPDX-License-Identifier: MIT */
/*
 * Tests requests on sockets with a time limit. Each request ends when its limit
 * expires, or earlier for another reason. In both cases no request may be left in the
 * heap of timers.
 */
#undef NDEBUG
#include "ready/timer.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/sleep.h"
#include "aio/ctx.h"
#include "ready/test-ready.h"

static int pair[2];

static bool has_times(void)
{
	const struct uaio_queue *queue = &uaio_ctx_find(handle)->queue;

	return load_relaxed(&queue->group.ready.next_ns) != UAIO_FOREVER;
}

static void open_pair(unsigned ms)
{
	const struct timeval limit = { ms / 1000, ms % 1000 * 1000 };

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit,
				    sizeof(limit)),
			 0);
	handle = unit_context(64);
}

static void close_pair(void)
{
	assert_false(has_times());
	unit_destroy(handle);
	unit_close(pair[0]);
	unit_close(pair[1]);
}

static struct iocb read_of(char *byte)
{
	return unit_iocb(IOCB_CMD_PREAD, pair[0], byte, 1, 0);
}

static void requests_that_nobody_reaps_end_too(void **state)
{
	char bytes[2];
	struct iocb iocbs[] = { read_of(&bytes[0]), read_of(&bytes[1]) };

	(void)state;
	open_pair(20);
	for (unsigned i = 0; i < 20; i++) {
		int64_t since = uaio_now_ns();

		iocbs[0].aio_fildes = iocbs[1].aio_fildes = (uint32_t)pair[0];
		assert_int_equal(unit_submit(handle, &iocbs[0]), 1);
		assert_int_equal(unit_submit(handle, &iocbs[1]), 1);
		assert_int_equal(take_from_ring(handle), -EAGAIN);
		assert_int_equal(take_from_ring(handle), -EAGAIN);
		assert_true(uaio_now_ns() - since >= 20000000);
	}
	close_pair();
}

static void requests_that_end_otherwise_leave_no_timer(void **state)
{
	struct io_event event;
	char bytes[3];
	struct iocb iocbs[3];

	(void)state;
	open_pair(600000);
	for (unsigned i = 0; i < 3; i++) {
		iocbs[i] = read_of(&bytes[i]);
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	assert_true(has_times());
	assert_int_equal(write(pair[1], "x", 1), 1);
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal((int64_t)event.res, 1);
	assert_int_equal(uaio_aio_cancel(handle, &iocbs[1]), -EINPROGRESS);
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal((int64_t)event.res, -ECANCELED);
	assert_true(has_times());
	assert_int_equal(uaio_aio_cancel(handle, &iocbs[2]), -EINPROGRESS);
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	close_pair();
}

static void timers_that_end_during_tries_end_requests_once(void **state)
{
	enum { NR = 32 };
	static char bytes[NR];
	struct io_event events[NR];
	unsigned nr_read = 0, nr_over = 0, nr_written = 0;

	(void)state;
	open_pair(1);
	for (unsigned round = 0; round < unit_rounds(200); round++) {
		for (unsigned i = 0; i < NR; i++) {
			struct iocb iocb = read_of(&bytes[i]);

			assert_int_equal(unit_submit(handle, &iocb), 1);
			if (i % 2)
				nr_written += write(pair[1], "x", 1) == 1;
		}
		assert_int_equal(unit_reap(handle, NR, events), NR);
		for (unsigned i = 0; i < NR; i++) {
			nr_read += (int64_t)events[i].res == 1;
			nr_over += (int64_t)events[i].res == -EAGAIN;
		}
	}
	assert_int_equal(nr_read + nr_over, unit_rounds(200) * NR);
	assert_true(nr_read <= nr_written);
	close_pair();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(requests_that_nobody_reaps_end_too),
		UNIT_TEST(requests_that_end_otherwise_leave_no_timer),
		UNIT_TEST(timers_that_end_during_tries_end_requests_once),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
