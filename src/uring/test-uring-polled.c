/* SPDX-License-Identifier: MIT */
/*
 * A thread waits in one ring, with a request that polls another ring. A completion of
 * the other ring wakes the thread.
 */
#undef NDEBUG
#include <fcntl.h>
#include <linux/time_types.h>

#include "test-uring.h"

enum { POLL = 1, MINE = 7, LINKED = 8, CANCELS = 9, UPDATES = 10 };

static const struct io_uring_params plain;

/* A request of the ring `client` polls the ring `polled`. */
static struct uring client, polled;

static struct io_uring_sqe *put_poll(void)
{
	struct io_uring_sqe *sqe =
		put(&client, IORING_OP_POLL_ADD, polled.fd, POLL);

	sqe->poll32_events = POLLIN;
	return sqe;
}

static void nop(struct uring *ring)
{
	put(ring, IORING_OP_NOP, -1, MINE);
	submit(ring, 0);
}

static void open_both(void)
{
	client_open(&client, 4, plain);
	client_open(&polled, 4, plain);
}

static void close_both(void)
{
	client_close(&polled);
	client_close(&client);
}

static void assert_told(void)
{
	assert_got(&client, POLL, POLLIN);
	assert_got(&polled, MINE, 0);
}

/*
 * The polled ring gets a completion before or while the client sleeps: by a timeout, a
 * pipe, a worker or a submission of another thread
 */

enum kind { BY_TIME, BY_PIPE, BY_WORKER, BY_OTHER, NR_KINDS };

static int ends[2], null;
static uint32_t nr_asked, nr_helped, is_over; /* atomic */

/* What the second thread does in a round of this kind. */
static void help(enum kind kind)
{
	if (kind == BY_PIPE)
		assert_int_equal(write(ends[1], "x", 1), 1);
	else if (kind == BY_OTHER)
		nop(&polled);
}

static long help_always(void *arg)
{
	uint32_t nr_done = 0;

	while (!load_relaxed(&is_over)) {
		uint32_t asked = load_acquire(&nr_asked);

		if (nr_done == asked)
			(void)uaio_sleep(&nr_asked, asked, UAIO_FOREVER);
		for (; nr_done < asked; nr_done++) {
			help(nr_done % NR_KINDS);
			store_release(&nr_helped, nr_done + 1);
			uaio_wake(&nr_helped, 1);
		}
	}
	return (long)(uintptr_t)arg;
}

static void ask_for_help(void)
{
	store_release(&nr_asked, load_relaxed(&nr_asked) + 1);
	uaio_wake(&nr_asked, 1);
}

/*
 * Wait until the second thread is done: only one thread at a time may use the polled
 * ring.
 */
static void await_help(void)
{
	uint32_t nr;

	while ((nr = load_acquire(&nr_helped)) != load_relaxed(&nr_asked))
		(void)uaio_sleep(&nr_helped, nr, UAIO_FOREVER);
}

/*
 * Begin a round: submit to the polled ring.
 * Return: the result that the submission's completion must have.
 */
static int begin(enum kind kind, uint32_t round)
{
	static struct __kernel_timespec span;
	static char byte;

	span.tv_nsec = round / NR_KINDS % 64 * 2000;
	if (kind == BY_TIME)
		put_rw(&polled, IORING_OP_TIMEOUT, -1, &span, 1, 0, MINE);
	else if (kind == BY_PIPE)
		put_rw(&polled, IORING_OP_READ, ends[0], &byte, 1, 0, MINE);
	else if (kind == BY_WORKER)
		put_rw(&polled, IORING_OP_READ, null, &byte, 1, 0, MINE)
			->flags = IOSQE_ASYNC;
	else
		return 0;
	submit(&polled, 0);
	return kind == BY_TIME ? -ETIME : kind == BY_PIPE;
}

static void a_sleeper_hears_of_whatever_ends_in_another_ring(void **state)
{
	struct unit_thread helper;

	(void)state;
	open_both();
	assert_int_equal(pipe(ends), 0);
	null = open("/dev/null", O_RDONLY);
	store_relaxed(&nr_asked, 0);
	store_relaxed(&nr_helped, 0);
	store_relaxed(&is_over, 0);
	unit_thread_start(&helper, help_always, NULL);
	for (uint32_t round = 0; round < unit_rounds(4000); round++) {
		const bool is_early = round / (64 * NR_KINDS) % 2;
		const int res = begin(round % NR_KINDS, round);

		if (is_early)
			ask_for_help();
		put_poll();
		submit(&client, 0);
		if (!is_early)
			ask_for_help();
		assert_got(&client, POLL, POLLIN);
		/*
		 * When the poll completes, the polled ring's completion can be read.
		 */
		assert_int_equal(unread(&polled), 1);
		assert_got(&polled, MINE, res);
		await_help();
		if (round % 64 == 0)
			unit_restart_alarm();
	}
	store_relaxed(&is_over, 1);
	ask_for_help();
	assert_int_equal(unit_thread_join(&helper), 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
	unit_close(null);
	close_both();
}

/* Polls of all kinds */

static void rings_that_poll_each_other_come_to_rest(void **state)
{
	(void)state;
	open_both();
	for (int i = 0; i < 2; i++) {
		const uint32_t multi = i ? IORING_POLL_ADD_MULTI : 0;
		struct io_uring_sqe *sqe;

		put_poll()->len = multi;
		submit(&client, 0);
		sqe = put(&polled, IORING_OP_POLL_ADD, client.fd, POLL);
		sqe->poll32_events = POLLIN;
		sqe->len = multi;
		submit(&polled, 0);
		assert_int_equal(unread(&client) + unread(&polled), 0);
		nop(&client);
		assert_got(&client, MINE, 0);
		assert_got(&polled, POLL, POLLIN);
		assert_got(&client, POLL, POLLIN);
		assert_none(&client);
		assert_none(&polled);
	}
	close_both();
}

static void a_ring_that_polls_itself_waits(void **state)
{
	(void)state;
	open_both();
	put(&client, IORING_OP_POLL_ADD, client.fd, POLL)->poll32_events =
		POLLIN;
	submit(&client, 0);
	assert_none(&client);
	nop(&client);
	assert_got(&client, MINE, 0);
	assert_got(&client, POLL, POLLIN);
	assert_none(&client);
	close_both();
}

static void a_poll_of_a_chain_waits(void **state)
{
	static struct __kernel_timespec soon = { .tv_nsec = 1 };

	(void)state;
	open_both();
	put_poll()->flags = IOSQE_IO_LINK;
	put(&client, IORING_OP_NOP, -1, LINKED);
	submit(&client, 0);
	assert_none(&client);
	nop(&polled);
	assert_told();
	assert_got(&client, LINKED, 0);
	put_poll()->flags = IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 0, LINKED);
	submit(&client, 0);
	assert_got_both(&client, POLL, -ECANCELED, LINKED, -ETIME);
	close_both();
}

static void a_poll_is_cancelled_by_the_rings_number(void **state)
{
	int second;

	(void)state;
	open_both();
	second = dup(polled.fd);
	for (int i = 0; i < 2; i++) {
		put_poll();
		put(&client, IORING_OP_ASYNC_CANCEL, i ? second : polled.fd,
		    CANCELS)
			->cancel_flags = IORING_ASYNC_CANCEL_FD;
		submit(&client, 0);
		assert_got_both(&client, POLL, -ECANCELED, CANCELS, 0);
	}
	unit_close(second);
	close_both();
}

static void a_poll_outlives_its_ring(void **state)
{
	(void)state;
	open_both();
	put_poll();
	submit(&client, 0);
	client_close(&polled);
	assert_none(&client);
	put(&client, IORING_OP_POLL_REMOVE, -1, CANCELS)->addr = POLL;
	submit(&client, 0);
	assert_got_both(&client, POLL, -ECANCELED, CANCELS, 0);
	client_close(&client);
}

static void update(uint32_t events)
{
	struct io_uring_sqe *sqe =
		put(&client, IORING_OP_POLL_REMOVE, -1, UPDATES);

	sqe->addr = POLL;
	sqe->len = IORING_POLL_UPDATE_EVENTS;
	sqe->poll32_events = events;
	submit(&client, 0);
	assert_got(&client, UPDATES, 0);
}

/* An updated poll still polls the bell, an eventfd, in place of the ring. */
static void an_updated_poll_waits_for_its_ring(void **state)
{
	(void)state;
	open_both();
	put_poll()->poll32_events = POLLPRI;
	submit(&client, 0);
	nop(&polled);
	assert_got(&polled, MINE, 0);
	/* The completion is consumed. */
	update(POLLIN);
	assert_none(&client);
	for (int i = 0; i < 4; i++)
		put(&polled, IORING_OP_NOP, -1, MINE);
	assert_int_equal(tell(&polled), 4);
	/* The submission queue is full. */
	update(POLLOUT);
	assert_none(&client);
	update(POLLWRNORM);
	assert_none(&client);
	assert_int_equal(enter(&polled, 4, 0), 4);
	update(POLLRDNORM);
	assert_got(&client, POLL, POLLIN);
	for (int i = 0; i < 4; i++)
		assert_got(&polled, MINE, 0);
	close_both();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(a_sleeper_hears_of_whatever_ends_in_another_ring),
		UNIT_TEST(rings_that_poll_each_other_come_to_rest),
		UNIT_TEST(a_ring_that_polls_itself_waits),
		UNIT_TEST(a_poll_of_a_chain_waits),
		UNIT_TEST(a_poll_is_cancelled_by_the_rings_number),
		UNIT_TEST(a_poll_outlives_its_ring),
		UNIT_TEST(an_updated_poll_waits_for_its_ring),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
