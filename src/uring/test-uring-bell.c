/* SPDX-License-Identifier: MIT */
/*
 * Bells: a ring's bell is the eventfd that is polled in place of the ring (bell.h).
 * Each post rings the bell. To settle a bell is to make the eventfd readable exactly if
 * its ring has completions; threads do this before they poll.
 */
#undef NDEBUG
#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>

#include "base/lock.h"
#include "proc/ownfd.h"
#include "uring/bell.h"
#include "test-uring.h"

static const struct io_uring_params plain;

static struct uring client;

/* Return: the bell's descriptor, without a reference that keeps the bell open. */
static int bell_of(int fd)
{
	struct uaio_uring_bell bell = uaio_uring_bell_get(fd);

	uaio_uring_bell_put(bell.ring);
	return bell.fd;
}

static bool is_full(int fd)
{
	struct uaio_uring_bell bell = uaio_uring_bell_get(fd);

	uaio_uring_bell_put(bell.ring);
	return bell.is_full;
}

static bool is_rung(int bell)
{
	struct pollfd pfd = { .fd = bell, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

static int add(int epoll, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = 7 };

	return uaio_uring_epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/*
 * Poll without settling the bells, like a thread that is asleep when the bell rings.
 * Return: the events of the one ready descriptor; 0 if none is ready.
 */
static uint32_t told_asleep(int epoll, int timeout_ms)
{
	struct epoll_event events[2];
	int nr;

	nr = epoll_wait(epoll, events, 2, timeout_ms);
	assert_in_range(nr, 0, 1);
	if (nr == 0)
		return 0;
	assert_int_equal(events[0].data.u64, 7);
	return events[0].events;
}

/*
 * Settle the bells, so that each is readable exactly if its ring has completions. Then
 * poll, like a thread that begins to sleep.
 * Return: the events of the one ready descriptor; 0 if none is ready.
 */
static uint32_t told(int epoll, int timeout_ms)
{
	uaio_uring_bells_settle();
	return told_asleep(epoll, timeout_ms);
}

static void nop(void)
{
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 0);
}

static void a_bell_is_rung_while_there_are_completions(void **state)
{
	int bell;

	(void)state;
	client_open(&client, 4, plain);
	bell = bell_of(client.fd);
	assert_int_not_equal(bell, client.fd);
	assert_false(is_rung(bell));
	nop();
	nop();
	assert_true(is_rung(bell));
	assert_got(&client, 1, 0);
	assert_int_equal(bell_of(client.fd), bell);
	assert_true(is_rung(bell));
	assert_got(&client, 1, 0);
	uaio_uring_bells_settle();
	assert_false(is_rung(bell));
	nop();
	assert_true(is_rung(bell));
	client_close(&client);
}

static void a_bell_made_late_is_rung(void **state)
{
	(void)state;
	client_open(&client, 4, plain);
	nop();
	assert_true(is_rung(bell_of(client.fd)));
	client_close(&client);
}

static void a_completion_without_room_rings(void **state)
{
	struct io_uring_params small = {
		.flags = IORING_SETUP_CQSIZE,
		.cq_entries = 4,
	};
	uint32_t *head;
	int bell;

	(void)state;
	client_open(&client, 4, small);
	bell = bell_of(client.fd);
	for (int i = 0; i < 5; i++)
		nop();
	head = client.cq_head;
	store_release(head, 4);
	uaio_uring_bells_settle();
	assert_true(is_rung(bell));
	assert_int_equal(enter(&client, 0, 1), 0);
	assert_got(&client, 1, 0);
	uaio_uring_bells_settle();
	assert_false(is_rung(bell));
	client_close(&client);
}

static void what_overflowed_is_an_edge_when_it_is_there(void **state)
{
	struct io_uring_params small = {
		.flags = IORING_SETUP_CQSIZE,
		.cq_entries = 4,
	};
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	(void)state;
	client_open(&client, 4, small);
	assert_int_equal(add(epoll, client.fd, EPOLLIN | EPOLLET), 0);
	for (int i = 0; i < 5; i++)
		nop();
	assert_int_equal(told(epoll, 0), EPOLLIN);
	for (int i = 0; i < 4; i++)
		assert_got(&client, 1, 0);
	assert_int_equal(told(epoll, 0), 0);
	assert_int_equal(uaio_uring_enter((uint32_t)client.fd, 0, 0,
					  IORING_ENTER_GETEVENTS, NULL, 0),
			 0);
	assert_int_equal(told_asleep(epoll, 0), EPOLLIN);
	assert_got(&client, 1, 0);
	assert_int_equal(told(epoll, 0), 0);
	client_close(&client);
	unit_close(epoll);
}

static void a_client_that_moves_its_head_back_is_told(void **state)
{
	uint32_t *head;
	int bell;

	(void)state;
	client_open(&client, 4, plain);
	bell = bell_of(client.fd);
	nop();
	assert_got(&client, 1, 0);
	uaio_uring_bells_settle();
	assert_false(is_rung(bell));
	head = client.cq_head;
	store_release(head, 0);
	assert_true(is_rung(bell_of(client.fd)));
	client_close(&client);
}

enum { NR_IDLE = 64 };

/*
 * Settle the bells, as a thread does before it polls. Return: how many due rings
 * (bell.h, I6) there were.
 */
static uint32_t nr_settled(void)
{
	uint32_t nr = load_relaxed(&uaio_uring_bells_nr_settled);

	uaio_uring_bells_settle();
	return load_relaxed(&uaio_uring_bells_nr_settled) - nr;
}

/*
 * Rings 5, 9 and 7 of many get a completion each. The client first consumes the
 * completion of ring 9. Before polling, a thread settles only the bells of these three:
 * it makes each readable exactly if its ring still has a completion.
 */
static void only_rings_with_completions_are_settled(void **state)
{
	static const int order[] = { 5, 9, 7 };
	static struct uring rings[NR_IDLE];
	int bells[NR_IDLE];

	(void)state;
	for (int i = 0; i < NR_IDLE; i++) {
		client_open(&rings[i], 4, plain);
		bells[i] = bell_of(rings[i].fd);
	}
	assert_int_equal(nr_settled(), 0);
	for (int i = 0; i < 3; i++) {
		put(&rings[order[i]], IORING_OP_NOP, -1, 1);
		submit(&rings[order[i]], 0);
		assert_int_equal(nr_settled(), i + 1);
	}
	assert_got(&rings[9], 1, 0);
	assert_int_equal(nr_settled(), 3);
	assert_false(is_rung(bells[9]));
	assert_int_equal(nr_settled(), 2);
	assert_true(is_rung(bells[5]) && is_rung(bells[7]));
	assert_got(&rings[5], 1, 0);
	/* Closing a ring removes it from the list of due rings (bell.h, I6). */
	client_close(&rings[7]);
	assert_int_equal(nr_settled(), 1);
	assert_int_equal(nr_settled(), 0);
	assert_false(is_rung(bells[5]));
	for (int i = 0; i < NR_IDLE; i++)
		if (i != 7)
			client_close(&rings[i]);
	assert_int_equal(nr_settled(), 0);
}

static int post_to_the_parents_ring(void)
{
	nop();
	return 0;
}

/*
 * Other processes do not ring a shared ring's bell, so each thread settles the bell
 * before it sleeps: it makes the bell readable exactly if the ring has completions.
 */
static void a_shared_ring_is_always_settled(void **state)
{
	static struct uring later;
	int bell;

	(void)state;
	client_open(&client, 4, plain);
	bell = bell_of(client.fd);
	assert_int_equal(nr_settled(), 0);
	assert_int_equal(unit_in_child(post_to_the_parents_ring), 0);
	assert_false(is_rung(bell));
	assert_int_equal(nr_settled(), 1);
	assert_true(is_rung(bell));
	assert_got(&client, 1, 0);
	client_open(&later, 4, plain);
	(void)bell_of(later.fd);
	for (int i = 0; i < 3; i++)
		assert_int_equal(nr_settled(), 1);
	assert_false(is_rung(bell));
	client_close(&client);
	assert_int_equal(nr_settled(), 0);
	client_close(&later);
}

static void each_post_is_an_edge(void **state)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	(void)state;
	client_open(&client, 8, plain);
	assert_int_equal(add(epoll, client.fd, EPOLLIN | EPOLLET), 0);
	assert_int_equal(add(epoll, client.fd, EPOLLIN), -EEXIST);
	assert_int_equal(told(epoll, 0), 0);
	for (int i = 0; i < 3; i++) {
		nop();
		assert_int_equal(told(epoll, -1), EPOLLIN);
		assert_int_equal(told(epoll, 0), 0);
	}
	for (int i = 0; i < 3; i++)
		assert_got(&client, 1, 0);
	assert_int_equal(told(epoll, 0), 0);
	nop();
	assert_int_equal(told(epoll, -1), EPOLLIN);
	assert_int_equal(
		uaio_uring_epoll_ctl(epoll, EPOLL_CTL_DEL, client.fd, NULL), 0);
	assert_int_equal(
		uaio_uring_epoll_ctl(epoll, EPOLL_CTL_DEL, client.fd, NULL),
		-ENOENT);
	nop();
	assert_int_equal(told(epoll, 0), 0);
	client_close(&client);
	unit_close(epoll);
}

static void a_full_ring_has_no_room_for_submissions(void **state)
{
	(void)state;
	client_open(&client, 4, plain);
	assert_false(is_full(client.fd));
	for (int i = 0; i < 4; i++)
		put(&client, IORING_OP_NOP, -1, 1);
	assert_int_equal(tell(&client), 4);
	assert_true(is_full(client.fd));
	assert_int_equal(enter(&client, 4, 0), 4);
	assert_false(is_full(client.fd));
	client_close(&client);
}

static void a_bell_goes_with_its_ring(void **state)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), ends[2], second;
	static char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	client_open(&client, 4, plain);
	assert_int_equal(add(epoll, client.fd, EPOLLIN), 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 1);
	submit(&client, 0);
	nop();
	second = dup(client.fd);
	uring_unmap(&client);
	unit_close(client.fd);
	assert_int_equal(told(epoll, -1), EPOLLIN);
	unit_close(second);
	assert_int_equal(told(epoll, 0), 0);
	assert_int_equal(load_relaxed(&uaio_uring_bells.nr), 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
	unit_close(epoll);
}

/*
 * A ring is closed while a thread polls its bell. The bell stays open, but silent,
 * until no thread polls it.
 */
static void a_bell_that_is_polled_stays_when_its_ring_goes(void **state)
{
	struct uaio_uring_bell bell;

	(void)state;
	client_open(&client, 4, plain);
	bell = uaio_uring_bell_get(client.fd);
	nop();
	assert_true(is_rung(bell.fd));
	client_close(&client);
	/* Making a ring frees the rings that no thread uses. */
	client_open(&client, 4, plain);
	assert_true(uaio_ownfd_has(bell.fd));
	assert_false(is_rung(bell.fd));
	client_close(&client);
	uaio_uring_bell_put(bell.ring);
	assert_false(uaio_ownfd_has(bell.fd));
	assert_int_equal(fcntl(bell.fd, F_GETFD), -1);
}

static void a_bell_moves_where_the_program_wants_its_number(void **state)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), bell;

	(void)state;
	client_open(&client, 4, plain);
	assert_int_equal(add(epoll, client.fd, EPOLLIN), 0);
	bell = bell_of(client.fd);
	assert_int_equal(uaio_uring_bell_yield(bell + 1), -ENOENT);
	assert_int_equal(uaio_own_fd_yield(bell), 0);
	assert_false(uaio_ownfd_has(bell));
	assert_int_equal(dup2(STDERR_FILENO, bell), bell);
	assert_int_not_equal(bell_of(client.fd), bell);
	assert_false(is_rung(bell_of(client.fd)));
	assert_int_equal(told(epoll, 0), 0);
	nop();
	assert_true(is_rung(bell_of(client.fd)));
	assert_int_equal(told(epoll, -1), EPOLLIN);
	assert_got(&client, 1, 0);
	assert_int_equal(told(epoll, 0), 0);
	client_close(&client);
	assert_int_equal(close(bell), 0);
	unit_close(epoll);
}

static void what_is_no_ring_has_no_bell(void **state)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	client_open(&client, 4, plain);
	assert_int_equal(bell_of(ends[0]), ends[0]);
	assert_int_equal(bell_of(-1), -1);
	assert_int_equal(add(epoll, ends[0], EPOLLIN), 1);
	assert_int_equal(add(epoll, -1, EPOLLIN), 1);
	/* epoll_ctl() fails as in the kernel, with the kernel's errors. */
	assert_int_equal(add(ends[0], client.fd, EPOLLIN), -EINVAL);
	assert_int_equal(add(9999, client.fd, EPOLLIN), -EBADF);
	client_close(&client);
	unit_close(ends[0]);
	unit_close(ends[1]);
	unit_close(epoll);
}

/* A child of fork() */

static int parents_epoll;

static int in_child(void)
{
	/*
	 * The parent's ring got this completion before fork(). Ring memory is shared,
	 * so the child can consume the completion.
	 */
	assert_got(&client, 1, 0);
	uaio_uring_bells_settle();
	if (bell_of(client.fd) != client.fd ||
	    add(parents_epoll, client.fd, EPOLLIN) != 1)
		return 1;
	client_open(&client, 4, plain);
	uaio_uring_bells_settle();
	if (is_rung(bell_of(client.fd)))
		return 2;
	nop();
	if (!is_rung(bell_of(client.fd)))
		return 3;
	return 0;
}

static void a_child_leaves_its_parents_bell_alone(void **state)
{
	int bell;

	(void)state;
	client_open(&client, 4, plain);
	parents_epoll = epoll_create1(EPOLL_CLOEXEC);
	bell = bell_of(client.fd);
	assert_int_equal(add(parents_epoll, client.fd, EPOLLIN), 0);
	nop();
	assert_int_equal(unit_in_child(in_child), 0);
	assert_true(is_rung(bell));
	assert_int_equal(told(parents_epoll, 0), 0);
	nop();
	assert_int_equal(told(parents_epoll, -1), EPOLLIN);
	client_close(&client);
	unit_close(parents_epoll);
}

/*
 * Some threads consume completions while others settle bells (make each readable
 * exactly if its ring has completions): no waiting thread misses its wake-up
 */

enum { NR_TAKERS = 3 };

static struct uaio_lock client_lock;
static uint32_t nr_to_get, nr_got; /* atomic */
static int common_epoll;

static void take_all(void)
{
	uaio_lock(&client_lock, UAIO_RANK_TABLE);
	while (unread(&client)) {
		(void)get(&client);
		add_relaxed(&nr_got, 1);
	}
	uaio_unlock(&client_lock, UAIO_RANK_TABLE);
}

static bool has_all(void)
{
	return load_relaxed(&nr_got) == load_relaxed(&nr_to_get);
}

static long take(void *arg)
{
	(void)arg;
	while (!has_all()) {
		if (told(common_epoll, -1))
			take_all();
	}
	return 0;
}

static long settle_always(void *arg)
{
	(void)arg;
	while (!has_all())
		uaio_uring_bells_settle();
	return 0;
}

static void no_completion_is_slept_through(uint32_t events)
{
	struct unit_thread taker, settler;

	client_open(&client, 4, plain);
	common_epoll = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(add(common_epoll, client.fd, events), 0);
	store_relaxed(&nr_got, 0);
	store_relaxed(&nr_to_get, unit_rounds(2000));
	unit_thread_start(&taker, take, NULL);
	unit_thread_start(&settler, settle_always, NULL);
	for (uint32_t i = 0; i < load_relaxed(&nr_to_get); i++) {
		put(&client, IORING_OP_NOP, -1, 1)->flags =
			i % 2 ? IOSQE_ASYNC : 0;
		submit(&client, 0);
		/*
		 * Wait until this completion is consumed. Otherwise two completions
		 * might wake only one consumer.
		 */
		while (load_relaxed(&nr_got) <= i)
			sched_yield();
		if (i % 64 == 0)
			unit_restart_alarm();
	}
	assert_int_equal(unit_thread_join(&taker), 0);
	assert_int_equal(unit_thread_join(&settler), 0);
	client_close(&client);
	unit_close(common_epoll);
}

static void no_completion_is_slept_through_by_level(void **state)
{
	(void)state;
	no_completion_is_slept_through(EPOLLIN);
}

static void no_completion_is_slept_through_by_edge(void **state)
{
	(void)state;
	no_completion_is_slept_through(EPOLLIN | EPOLLET);
}

static uint32_t is_over; /* atomic */

static long poll_whatever_is_there(void *arg)
{
	const int *fd = arg;

	while (!load_relaxed(&is_over)) {
		(void)bell_of(load_relaxed(fd));
		uaio_uring_bells_settle();
	}
	return 0;
}

static void rings_go_while_they_are_polled(void **state)
{
	struct unit_thread threads[NR_TAKERS];
	int number;

	(void)state;
	client_open(&client, 4, plain);
	store_relaxed(&number, client.fd);
	client_close(&client);
	store_relaxed(&is_over, 0);
	for (int i = 0; i < NR_TAKERS; i++)
		unit_thread_start(&threads[i], poll_whatever_is_there, &number);
	for (unsigned i = 0; i < unit_rounds(500); i++) {
		client_open(&client, 4, plain);
		/*
		 * The ring's descriptor may differ in each round: a bell that another
		 * thread is making may have the lowest descriptor for a moment.
		 */
		store_relaxed(&number, client.fd);
		put(&client, IORING_OP_NOP, -1, 1)->flags = IOSQE_ASYNC;
		submit(&client, 1);
		client_close(&client);
		unit_restart_alarm();
	}
	store_relaxed(&is_over, 1);
	for (int i = 0; i < NR_TAKERS; i++)
		assert_int_equal(unit_thread_join(&threads[i]), 0);
	/*
	 * A thread that was settling bells may have kept the rings that were closed
	 * last. The library frees them when it makes a ring.
	 */
	client_open(&client, 4, plain);
	client_close(&client);
	assert_int_equal(load_relaxed(&uaio_uring_bells.nr), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(a_bell_is_rung_while_there_are_completions),
		UNIT_TEST(a_bell_made_late_is_rung),
		UNIT_TEST(what_overflowed_is_an_edge_when_it_is_there),
		UNIT_TEST(a_completion_without_room_rings),
		UNIT_TEST(a_client_that_moves_its_head_back_is_told),
		UNIT_TEST(only_rings_with_completions_are_settled),
		UNIT_TEST(a_shared_ring_is_always_settled),
		UNIT_TEST(each_post_is_an_edge),
		UNIT_TEST(a_full_ring_has_no_room_for_submissions),
		UNIT_TEST(a_bell_goes_with_its_ring),
		UNIT_TEST(a_bell_that_is_polled_stays_when_its_ring_goes),
		UNIT_TEST(a_bell_moves_where_the_program_wants_its_number),
		UNIT_TEST(what_is_no_ring_has_no_bell),
		UNIT_TEST(a_child_leaves_its_parents_bell_alone),
		UNIT_TEST(no_completion_is_slept_through_by_level),
		UNIT_TEST(no_completion_is_slept_through_by_edge),
		UNIT_TEST(rings_go_while_they_are_polled),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
