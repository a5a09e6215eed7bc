/* SPDX-License-Identifier: MIT */
/*
 * A thread that sleeps in its own poll() executes requests whose files become ready
 * meanwhile. If the thread is preempted, the fallback thread may execute such a request
 * first. So the test counts over many rounds which of the two threads executes the
 * requests, and repeats the count several times.
 */
#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "base/sys.h"
#include "ready/attend.h"
#include "ready/ready.h"
#include "aio/ctx.h"
#include "ready/test-ready.h"

static struct iocb poll_with(int event)
{
	struct iocb iocb = unit_iocb(IOCB_CMD_POLL, ends[0],
				     (void *)(uintptr_t)POLLIN, 0, 0);

	if (event >= 0) {
		iocb.aio_flags = IOCB_FLAG_RESFD;
		iocb.aio_resfd = (uint32_t)event;
	}
	return iocb;
}

static void take_byte(void)
{
	char byte;

	assert_int_equal(read(ends[0], &byte, 1), 1);
}

static uint64_t count_of(int event)
{
	uint64_t count = 0;

	if (read(event, &count, sizeof(count)) < 0)
		assert_int_equal(errno, EAGAIN);
	return count;
}

/* Sleep until the eventfd is readable, as a front-end does for its client. */
static void sleep_for(int event)
{
	struct pollfd pfds[2] = { { .fd = event, .events = POLLIN } };
	struct uaio_attend attend;

	while (uaio_attend_begin(&attend)) {
		assert_int_equal(attend.nr, 1);
		pfds[1] = (struct pollfd){ .fd = attend.fds[0],
					   .events = POLLIN };
		assert_in_range(poll(pfds, 2, -1), 1, 2);
		uaio_attend_end(&attend, pfds[1].revents != 0);
	}
	/*
	 * If the thread had no queue to serve, it now waits for the eventfd alone. The
	 * eventfd is readable, or another thread is about to write it.
	 */
	assert_int_equal(poll(pfds, 1, -1), 1);
}

/* Which requests make a thread serve the queue in its sleep */

static void only_who_has_parked_with_an_eventfd_attends(void **state)
{
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct iocb plain, told;
	struct uaio_attend attend;

	(void)state;
	uaio_attended = 0;
	open_pipe(4);
	plain = poll_with(-1);
	told = poll_with(event);
	assert_int_equal(unit_submit(handle, &plain), 1);
	assert_false(uaio_attend_may());
	assert_int_equal(unit_submit(handle, &told), 1);
	assert_true(uaio_attend_may());
	assert_true(uaio_attend_begin(&attend));
	/* The call below makes the thread stop leading. */
	uaio_attend_end(&attend, 0);
	put_text("x");
	sleep_for(event);
	assert_int_equal(unit_reap_one(handle), POLLIN);
	assert_int_equal(unit_reap_one(handle), POLLIN);
	assert_int_equal(count_of(event), 1);
	/* No request is parked any more. */
	assert_false(uaio_attend_begin(&attend));
	close_pipe();
	assert_false(uaio_attend_begin(&attend));
	unit_close(event);
}

static long attend_in_vain(void *arg)
{
	struct uaio_attend attend;

	(void)arg;
	uaio_attend_note(&uaio_ctx_find(handle)->queue);
	if (!uaio_attend_begin(&attend))
		return 0;
	uaio_attend_end(&attend, 0);
	return 1;
}

static void one_thread_at_a_time_attends(void **state)
{
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct unit_thread thread;
	struct uaio_attend attend;
	struct iocb told;

	(void)state;
	open_pipe(4);
	told = poll_with(event);
	assert_int_equal(unit_submit(handle, &told), 1);
	assert_true(uaio_attend_may());
	assert_true(uaio_attend_begin(&attend));
	unit_thread_start(&thread, attend_in_vain, NULL);
	assert_int_equal(unit_thread_join(&thread), 0);
	uaio_attend_end(&attend, 0);
	unit_thread_start(&thread, attend_in_vain, NULL);
	assert_int_equal(unit_thread_join(&thread), 1);
	close_pipe();
	unit_close(event);
}

/* Which thread executes the request */

enum { ROUNDS = 200, TRIES = 10 };

static long put_when_told(void *arg)
{
	int go = *(int *)arg;
	uint64_t count;

	for (unsigned i = 0; i < ROUNDS; i++) {
		if (read(go, &count, sizeof(count)) != sizeof(count) ||
		    write(ends[1], "x", 1) != 1)
			return -1;
	}
	return 0;
}

/*
 * In each of many rounds submit a poll of a pipe, and have another thread write to the
 * pipe.
 * Return: in how many rounds the fallback thread executed the poll.
 */
static uint64_t play(void)
{
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int go = eventfd(0, EFD_CLOEXEC);
	struct uaio_ready_counters before, after;
	struct unit_thread thread;
	struct iocb told;

	open_pipe(4);
	told = poll_with(event);
	uaio_ready_count(&before);
	unit_thread_start(&thread, put_when_told, &go);
	for (unsigned i = 0; i < ROUNDS; i++) {
		assert_int_equal(unit_submit(handle, &told), 1);
		assert_int_equal(write(go, &(uint64_t){ 1 }, 8), 8);
		sleep_for(event);
		assert_int_equal(count_of(event), 1);
		assert_int_equal(unit_reap_one(handle), POLLIN);
		take_byte();
	}
	assert_int_equal(unit_thread_join(&thread), 0);
	uaio_ready_count(&after);
	close_pipe();
	unit_close(event);
	unit_close(go);
	return after.nr_by_fallback - before.nr_by_fallback;
}

static void the_thread_that_sleeps_executes_the_request(void **state)
{
	uint64_t nr = ROUNDS;

	(void)state;
	for (unsigned i = 0; i < TRIES && nr > ROUNDS / 10; i++)
		nr = play();
	assert_in_range(nr, 0, ROUNDS / 10);
}

/*
 * A poll request completes with the event that the epoll reports, without a call of
 * poll()
 */

static uint32_t nr_polls; /* atomic: calls of poll() on the pipe */

static bool count_polls(long nr, const long args[6], long *ret_res)
{
	(void)ret_res;
	if (nr == SYS_ppoll && args[1] == 1 &&
	    is_end(0, ((const struct pollfd *)args[0])->fd))
		add_relaxed(&nr_polls, 1);
	return false;
}

static void a_poll_is_answered_by_what_the_epoll_says(void **state)
{
	unsigned nr_unasked = 0;
	struct iocb plain;
	char byte;

	(void)state;
	open_pipe(4);
	plain = poll_with(-1);
	for (unsigned i = 0; i < 100; i++) {
		struct iocb read_one = read_of_byte(&byte);
		struct timespec zero = { 0 };
		struct uaio_event event;

		assert_int_equal(unit_submit(handle, &plain), 1);
		/* The call below adds the pipe to the epoll. */
		assert_int_equal(
			uaio_aio_getevents(handle, 1, 1, &event, &zero), 0);
		store_relaxed(&nr_polls, 0);
		unit_hook(count_polls);
		put_text("x");
		assert_int_equal(unit_reap_one(handle), POLLIN);
		unit_hook(NULL);
		nr_unasked += !load_relaxed(&nr_polls);
		assert_int_equal(unit_submit(handle, &read_one), 1);
		assert_int_equal(unit_reap_one(handle), 1);
	}
	/*
	 * If the fallback thread takes the event from the epoll first, which may
	 * happen, the library calls poll() for the request. So the test requires only
	 * that some requests need no call of poll().
	 */
	assert_true(nr_unasked > 0);
	close_pipe();
}

/*
 * If an edge (an event that the epoll reports) came before the poll was submitted, it
 * must not complete the poll.
 */
static void a_poll_is_not_answered_by_an_older_edge(void **state)
{
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct iocb plain;

	(void)state;
	open_pipe(4);
	plain = poll_with(event);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(unit_submit(handle, &plain), 1);
		put_text("x");
		sleep_for(event);
		assert_int_equal(count_of(event), 1);
		assert_int_equal(unit_reap_one(handle), POLLIN);
		put_text("y");
		take_byte();
		take_byte();
	}
	close_pipe();
	unit_close(event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(only_who_has_parked_with_an_eventfd_attends),
		UNIT_TEST(one_thread_at_a_time_attends),
		UNIT_TEST(the_thread_that_sleeps_executes_the_request),
		UNIT_TEST(a_poll_is_answered_by_what_the_epoll_says),
		UNIT_TEST(a_poll_is_not_answered_by_an_older_edge),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
