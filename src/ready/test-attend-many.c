/* SPDX-License-Identifier: MIT */
/*
 * A thread that sleeps in its own poll() serves all queues in which it has parked
 * requests with an eventfd. Some tests stop the fallback thread meanwhile, so that it
 * cannot help. Then a lost wake-up makes the test hang.
 */
#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "base/sleepcall.h"
#include "proc/entry.h"
#include "ready/attend.h"
#include "ready/ready.h"
#include "aio/ctx.h"
#include "ready/test-ready.h"

/*
 * A context, a pipe, a read of one byte from the pipe, and the eventfd that signals the
 * read's completion.
 */
struct desk {
	uint64_t handle;
	int ends[2];
	int event;
	char byte;
	/* atomic: the read is submitted, and the pipe not yet written */
	uint32_t is_in_flight;
};

enum { NR = 8, NR_MOST = UAIO_ATTENDED_MAX + 4 };

static struct desk desks[NR_MOST];
static unsigned nr_desks;

/*
 * Skip the test if the library cannot make signal handlers end a sleep; a thread then
 * serves only one queue in its sleep.
 */
static void need_many(void)
{
	if (!uaio_sleep_ends_for_handlers())
		skip();
}

static void set_up(unsigned nr)
{
	need_many();
	nr_desks = nr;
	for (unsigned i = 0; i < nr; i++) {
		desks[i] = (struct desk){ .handle = unit_context(4) };
		assert_int_equal(pipe2(desks[i].ends, O_CLOEXEC), 0);
		desks[i].event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	}
}

static void take_down(void)
{
	for (unsigned i = 0; i < nr_desks; i++) {
		if (desks[i].handle)
			unit_destroy(desks[i].handle);
		unit_close(desks[i].ends[0]);
		unit_close(desks[i].ends[1]);
		unit_close(desks[i].event);
	}
}

static struct iocb read_with(struct desk *desk)
{
	struct iocb iocb =
		unit_iocb(IOCB_CMD_PREAD, desk->ends[0], &desk->byte, 1, 0);

	iocb.aio_flags = IOCB_FLAG_RESFD;
	iocb.aio_resfd = (uint32_t)desk->event;
	return iocb;
}

static void submit(struct desk *desk)
{
	struct iocb iocb = read_with(desk);

	assert_int_equal(unit_submit(desk->handle, &iocb), 1);
	store_release(&desk->is_in_flight, 1);
}

static void submit_all(void)
{
	for (unsigned i = 0; i < nr_desks; i++)
		submit(&desks[i]);
}

static void feed(struct desk *desk)
{
	assert_int_equal(write(desk->ends[1], "x", 1), 1);
}

/*
 * Return: whether the read of this desk (struct desk) has completed; if so, this call
 * has taken the read's event.
 */
static bool reaps(struct desk *desk)
{
	uint64_t count;

	if (read(desk->event, &count, sizeof(count)) < 0) {
		assert_int_equal(errno, EAGAIN);
		return false;
	}
	assert_int_equal(count, 1);
	assert_int_equal(unit_reap_one(desk->handle), 1);
	return true;
}

/*
 * Sleep once, as a front-end does for a client that polls the eventfds of the first nr
 * elements of desks[].
 * Return: how many queues the thread has served in the sleep.
 */
static unsigned sleep_once(unsigned nr)
{
	struct pollfd pfds[NR_MOST + UAIO_ATTENDED_MAX];
	struct uaio_attend attend = { .nr = 0 };
	bool attends = uaio_attend_begin(&attend);
	uint32_t ready = 0;

	for (unsigned i = 0; i < nr; i++)
		pfds[i] = (struct pollfd){ .fd = desks[i].event,
					   .events = POLLIN };
	for (unsigned i = 0; attends && i < attend.nr; i++)
		pfds[nr + i] = (struct pollfd){ .fd = attend.fds[i],
						.events = POLLIN };
	assert_true(poll(pfds, nr + (attends ? attend.nr : 0), -1) > 0);
	if (!attends)
		return 0;
	for (unsigned i = 0; i < attend.nr; i++)
		ready |= (uint32_t)(pfds[nr + i].revents != 0) << i;
	uaio_attend_end(&attend, ready);
	return attend.nr;
}

static void serve(struct desk *desk)
{
	while (!reaps(desk))
		assert_true(sleep_once(nr_desks) > 0);
}

static bool is_led(const struct desk *desk)
{
	struct uaio_queue *queue;
	bool is_so;

	if (!desk->handle)
		return false;
	queue = &uaio_ctx_find(desk->handle)->queue;
	uaio_queue_lock(queue);
	is_so = queue->leader;
	assert_int_equal(uaio_ready_has(&queue->group.ready, UAIO_LEADER),
			 is_so);
	uaio_queue_unlock(queue);
	return is_so;
}

static unsigned nr_led(void)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < nr_desks; i++)
		nr += is_led(&desks[i]);
	return nr;
}

/* Which queues */

static void a_thread_serves_each_queue_that_it_has_parked_in(void **state)
{
	(void)state;
	set_up(NR);
	hold_fallback_thread(desks[0].handle);
	submit_all();
	for (unsigned i = 0; i < 100 * NR; i++) {
		feed(&desks[i % NR]);
		serve(&desks[i % NR]);
		submit(&desks[i % NR]);
	}
	let_fallback_thread_go();
	take_down();
}

/*
 * A thread may have parked requests in more queues than it can serve in a sleep. Then
 * it serves at least the queue in which it parked the latest request.
 */
static void the_queue_parked_in_last_has_a_place(void **state)
{
	struct desk *desk = &desks[NR_MOST - 1];

	(void)state;
	set_up(NR_MOST);
	hold_fallback_thread(desks[0].handle);
	submit_all();
	for (unsigned i = 0; i < 100; i++) {
		feed(desk);
		serve(desk);
		submit(desk);
	}
	let_fallback_thread_go();
	take_down();
}

static void queues_beyond_those_are_served_all_the_same(void **state)
{
	(void)state;
	set_up(NR_MOST);
	submit_all();
	for (unsigned i = 0; i < NR_MOST; i++) {
		feed(&desks[i]);
		while (!reaps(&desks[i]))
			assert_in_range(sleep_once(nr_desks), 0,
					UAIO_ATTENDED_MAX);
	}
	take_down();
}

static long submit_another(void *arg)
{
	submit(arg);
	return 0;
}

static void attend_once(unsigned nr_expected)
{
	struct uaio_attend attend = { .nr = 0 };

	assert_int_equal(uaio_attend_begin(&attend), nr_expected > 0);
	assert_int_equal(attend.nr, nr_expected);
	assert_int_equal(nr_led(), nr_expected);
	uaio_attend_end(&attend, 0);
	assert_int_equal(nr_led(), 0);
}

/*
 * If another thread parks a request in a queue, this thread leaves that queue to the
 * other thread for one sleep. If the other thread does not sleep, this thread leads the
 * queue again.
 */
static void a_queue_is_served_by_the_last_thread_that_has_parked(void **state)
{
	struct unit_thread thread;

	(void)state;
	set_up(3);
	submit_all();
	attend_once(3);
	for (unsigned i = 0; i < 3; i++) {
		unit_thread_start(&thread, submit_another, &desks[1]);
		assert_int_equal(unit_thread_join(&thread), 0);
		attend_once(2);
		attend_once(3);
		attend_once(3);
	}
	take_down();
}

static long attend_to_what_it_has_noted(void *arg)
{
	(void)arg;
	submit(&desks[0]);
	submit(&desks[2]);
	attend_once(2);
	return 0;
}

static void a_queue_that_another_thread_has_led_is_led_again(void **state)
{
	struct unit_thread thread;

	(void)state;
	set_up(3);
	submit_all();
	attend_once(3);
	unit_thread_start(&thread, attend_to_what_it_has_noted, NULL);
	assert_int_equal(unit_thread_join(&thread), 0);
	attend_once(1);
	attend_once(3);
	take_down();
}

static void a_queue_that_is_opened_again_is_another(void **state)
{
	(void)state;
	set_up(3);
	submit_all();
	attend_once(3);
	for (unsigned i = 0; i < 3; i++) {
		unit_destroy(desks[1].handle);
		desks[1].handle = 0;
		attend_once(2);
		desks[1].handle = unit_context(4);
		attend_once(2);
		submit(&desks[1]);
		attend_once(3);
	}
	take_down();
}

/*
 * If a queue had no event for long, the thread leads it only in every 16th sleep.
 */
static void quiet_queues_are_led_now_and_then(void **state)
{
	struct uaio_attend attend;
	unsigned nr = 0;

	(void)state;
	set_up(3);
	submit_all();
	for (unsigned i = 0; i < 16; i++)
		attend_once(3);
	for (unsigned i = 0; i < 1600; i++) {
		if (!uaio_attend_begin(&attend))
			continue;
		assert_int_equal(attend.nr, 3);
		uaio_attend_end(&attend, 0);
		nr++;
	}
	assert_in_range(nr, 90, 200);
	submit(&desks[1]);
	while (uaio_attend_begin(&attend) && attend.nr == 3)
		uaio_attend_end(&attend, 0);
	assert_int_equal(attend.nr, 1);
	uaio_attend_end(&attend, 0);
	take_down();
}

static long attend_to_one(void *arg)
{
	(void)arg;
	submit_all();
	attend_once(1);
	submit(&desks[0]);
	attend_once(1);
	return 0;
}

/*
 * The thread serves only one queue, because a signal handler may delay the thread for
 * long, or leave the sleep by siglongjmp().
 */
static void a_sleep_that_handlers_do_not_end_has_one_queue(void **state)
{
	const uint8_t *(*stop_of)(void) = uaio_sleep_stop_of;
	struct unit_thread thread;

	(void)state;
	set_up(3);
	store_relaxed(&uaio_sleep_stop_of, NULL);
	unit_thread_start(&thread, attend_to_one, NULL);
	assert_int_equal(unit_thread_join(&thread), 0);
	store_relaxed(&uaio_sleep_stop_of, stop_of);
	take_down();
}

/* Sleeps that do not return */

static void a_handler_that_sleeps_or_submits_ends_the_sleep_before(void **state)
{
	struct uaio_attend outer, inner;

	(void)state;
	set_up(3);
	submit_all();
	assert_true(uaio_attend_begin(&outer));
	assert_int_equal(nr_led(), 3);
	assert_true(uaio_attend_begin(&inner));
	assert_int_equal(inner.nr, 3);
	/*
	 * The order of these calls is as if a signal handler had left the inner sleep
	 * by siglongjmp(), and the outer sleep then returned. The outer call of
	 * uaio_attend_end() must not end the inner sleep.
	 */
	uaio_attend_end(&outer, 7);
	assert_int_equal(nr_led(), 3);
	uaio_attend_end(&inner, 0);
	assert_int_equal(nr_led(), 0);
	assert_true(uaio_attend_begin(&outer));
	submit(&desks[0]);
	assert_int_equal(nr_led(), 0);
	uaio_attend_end(&outer, 7);
	take_down();
}

static void a_poll_that_does_not_sleep_ends_the_sleep_before(void **state)
{
	struct uaio_attend attend;

	(void)state;
	set_up(3);
	submit_all();
	assert_true(uaio_attend_begin(&attend));
	assert_int_equal(nr_led(), 3);
	uaio_attend_awake();
	assert_int_equal(nr_led(), 0);
	uaio_attend_end(&attend, 7);
	take_down();
}

static long end_in_a_sleep(void *arg)
{
	struct uaio_attend attend;

	(void)arg;
	submit_all();
	assert_true(uaio_attend_begin(&attend));
	assert_int_equal(nr_led(), nr_desks);
	pthread_exit(NULL);
}

static void a_thread_that_ends_in_its_sleep_leads_no_more(void **state)
{
	struct unit_thread thread;

	(void)state;
	set_up(3);
	unit_thread_start(&thread, end_in_a_sleep, NULL);
	(void)unit_thread_join(&thread);
	assert_int_equal(nr_led(), 0);
	for (unsigned i = 0; i < nr_desks; i++) {
		feed(&desks[i]);
		assert_int_equal(unit_reap_one(desks[i].handle), 1);
	}
	take_down();
}

/* What happens to the queues when a thread's sleep ends */

/*
 * Condition for unit_await(): the queue is off the fallback thread's list. If that
 * thread adopted the queue (watches its epoll) before this thread became the leader, it
 * removes the queue from its list a little later.
 */
static bool is_off_the_list(void *arg)
{
	const struct desk *desk = arg;

	return !uaio_ready_has(&uaio_ctx_find(desk->handle)->queue.group.ready,
			       UAIO_LIST);
}

static void
a_queue_that_the_fallback_thread_has_left_is_left_to_it(void **state)
{
	struct uaio_attend attend;

	(void)state;
	set_up(3);
	submit_all();
	assert_true(uaio_attend_begin(&attend));
	for (unsigned i = 0; i < nr_desks; i++)
		unit_await(is_off_the_list, &desks[i]);
	uaio_attend_end(&attend, 0);
	for (unsigned i = 0; i < nr_desks; i++) {
		feed(&desks[i]);
		while (!reaps(&desks[i]))
			(void)poll(&(struct pollfd){ .fd = desks[i].event,
						     .events = POLLIN },
				   1, -1);
	}
	take_down();
}

static long submit_timer(void *arg)
{
	enum { SOON_NS = 50000000 };
	struct uaio_sqe sqe = {
		.op = UAIO_OP_TIMER, .time_ns = SOON_NS, .data = 1, .key = 1
	};

	(void)arg;
	return unit_submit_sqe(desks[0].handle, &sqe);
}

/*
 * Another thread sets a timer, so only the sleeping leader knows of the timer. The
 * fallback thread has the queue on its list.
 */
static void a_timer_set_in_a_sleep_is_left_to_the_fallback_thread(void **state)
{
	struct uaio_attend attend;
	struct unit_thread thread;

	(void)state;
	set_up(1);
	hold_fallback_thread(desks[0].handle);
	submit_all();
	assert_true(uaio_attend_begin(&attend));
	unit_thread_start(&thread, submit_timer, NULL);
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_true(uaio_ready_has(
		&uaio_ctx_find(desks[0].handle)->queue.group.ready, UAIO_LIST));
	uaio_attend_end(&attend, 1);
	let_fallback_thread_go();
	unit_await(has_unread, &desks[0].handle);
	take_down();
}

/*
 * What other threads do while a thread prepares its sleep, sleeps, or ends its sleep
 */

static void set_up_two(void)
{
	set_up(2);
}

/*
 * Submit the read of a desk (a context, a pipe and an eventfd).
 * Return: whether the desk's context still exists.
 */
static bool submits(struct desk *desk)
{
	struct iocb iocb = read_with(desk);
	long ret = unit_submit(desk->handle, &iocb);

	assert_true(ret == 1 || ret == -EINVAL);
	return ret == 1;
}

static long attend_to_the_second(void *arg)
{
	struct io_event event;

	(void)arg;
	submit_all();
	while (!has_unread(&desks[1].handle))
		(void)sleep_once(2);
	return unit_reap(desks[1].handle, 1, &event);
}

static long attend_to_the_first(void *arg)
{
	(void)arg;
	submit(&desks[0]);
	(void)submits(&desks[1]);
	while (!reaps(&desks[0]))
		(void)sleep_once(1);
	return 1;
}

static long feed_the_second(void *arg)
{
	(void)arg;
	feed(&desks[1]);
	return 0;
}

/*
 * The additional read has no eventfd, so its submitter will not serve the queue in a
 * sleep.
 */
static long park_one_more_and_feed(void *arg)
{
	static char byte;
	struct iocb iocb =
		unit_iocb(IOCB_CMD_PREAD, desks[1].ends[0], &byte, 1, 0);

	(void)arg;
	assert_int_equal(unit_submit(desks[1].handle, &iocb), 1);
	feed(&desks[1]);
	feed(&desks[1]);
	return 0;
}

static long destroy_the_second_and_feed(void *arg)
{
	(void)arg;
	unit_destroy(desks[1].handle);
	feed(&desks[0]);
	return 0;
}

static void check(long victims, long intruders)
{
	assert_int_equal(victims, 1);
	assert_int_equal(intruders, 0);
	take_down();
}

static void check_destroyed(long victims, long intruders)
{
	desks[1].handle = 0;
	check(victims, intruders);
}

static void step(unit_step_fn *victim, unit_step_fn *intruder,
		 void (*check_it)(long, long))
{
	const struct unit_stepping stepping = {
		.victim = victim,
		.intruder = intruder,
		.prepare = set_up_two,
		.check = check_it,
		.nr_min = 1000,
		.stride = 101,
	};

	unit_step_through(&stepping);
}

static void what_comes_meanwhile_ends_the_sleep(void **state)
{
	static char byte;

	(void)state;
	need_many();
	/*
	 * This read stays parked throughout, so the fallback thread exists, and the
	 * test can stop it.
	 */
	open_pipe(1);
	submit_read_of_byte(&byte);
	hold_fallback_thread(handle);
	step(attend_to_the_second, feed_the_second, check);
	step(attend_to_the_second, park_one_more_and_feed, check);
	step(attend_to_the_first, destroy_the_second_and_feed, check_destroyed);
	let_fallback_thread_go();
	close_pipe();
}

/* Several threads serve the same queues, and take them from each other */

static struct {
	uint32_t nr_to_submit, nr_to_reap; /* atomic */
	uint32_t is_over;                  /* atomic */
} race;

static long feed_all(void *arg)
{
	(void)arg;
	while (!load_acquire(&race.is_over)) {
		for (unsigned i = 0; i < NR; i++)
			if (xchg_acquire(&desks[i].is_in_flight, 0))
				feed(&desks[i]);
		sched_yield();
	}
	return 0;
}

/*
 * End the race: make the eventfd of the last element of desks[] readable. This wakes
 * all threads, and keeps them from sleeping.
 */
static void end_race(void)
{
	store_release(&race.is_over, 1);
	assert_int_equal(write(desks[NR].event, &(uint64_t){ 1 }, 8), 8);
}

/*
 * This thread has taken the event of a read: it submits the next read of the same pipe.
 */
static void go_on_with(struct desk *desk)
{
	if ((int32_t)sub_relaxed(&race.nr_to_submit, 1) > 0)
		submit(desk);
	if (sub_relaxed(&race.nr_to_reap, 1) == 1)
		end_race();
}

static long attend_to_all(void *arg)
{
	long nr = 0;

	(void)arg;
	while (!load_acquire(&race.is_over)) {
		for (unsigned i = 0; i < NR; i++) {
			if (!reaps(&desks[i]))
				continue;
			go_on_with(&desks[i]);
			nr++;
		}
		(void)sleep_once(NR + 1);
	}
	return nr;
}

static void threads_that_take_queues_from_each_other_lose_nothing(void **state)
{
	enum { NR_THREADS = 3 };
	const unsigned nr = unit_rounds(20000);
	struct unit_thread threads[NR_THREADS], feeder;
	long nr_reaped = 0;

	(void)state;
	set_up(NR + 1);
	store_relaxed(&race.is_over, 0);
	store_relaxed(&race.nr_to_submit, nr - NR);
	store_relaxed(&race.nr_to_reap, nr);
	for (unsigned i = 0; i < NR; i++)
		submit(&desks[i]);
	for (unsigned i = 0; i < NR_THREADS; i++)
		unit_thread_start(&threads[i], attend_to_all, NULL);
	unit_thread_start(&feeder, feed_all, NULL);
	for (unsigned i = 0; i < NR_THREADS; i++)
		nr_reaped += unit_thread_join(&threads[i]);
	assert_int_equal(unit_thread_join(&feeder), 0);
	assert_int_equal(nr_reaped, nr);
	take_down();
}

/*
 * Only one thread runs, as the fallback thread is stopped. So a lost wake-up makes the
 * test hang.
 */
static void one_thread_needs_no_other(void **state)
{
	const unsigned nr = unit_rounds(10000);
	struct unit_thread feeder;

	(void)state;
	set_up(NR + 1);
	store_relaxed(&race.is_over, 0);
	store_relaxed(&race.nr_to_submit, nr - NR);
	store_relaxed(&race.nr_to_reap, nr);
	hold_fallback_thread(desks[0].handle);
	for (unsigned i = 0; i < NR; i++)
		submit(&desks[i]);
	unit_thread_start(&feeder, feed_all, NULL);
	assert_int_equal(attend_to_all(NULL), nr);
	assert_int_equal(unit_thread_join(&feeder), 0);
	let_fallback_thread_go();
	take_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_thread_serves_each_queue_that_it_has_parked_in),
		UNIT_TEST(the_queue_parked_in_last_has_a_place),
		UNIT_TEST(queues_beyond_those_are_served_all_the_same),
		UNIT_TEST(a_queue_is_served_by_the_last_thread_that_has_parked),
		UNIT_TEST(
			a_handler_that_sleeps_or_submits_ends_the_sleep_before),
		UNIT_TEST(a_queue_that_another_thread_has_led_is_led_again),
		UNIT_TEST(a_queue_that_is_opened_again_is_another),
		UNIT_TEST(quiet_queues_are_led_now_and_then),
		UNIT_TEST(a_sleep_that_handlers_do_not_end_has_one_queue),
		UNIT_TEST(a_poll_that_does_not_sleep_ends_the_sleep_before),
		UNIT_TEST(a_thread_that_ends_in_its_sleep_leads_no_more),
		UNIT_TEST(
			a_queue_that_the_fallback_thread_has_left_is_left_to_it),
		UNIT_TEST(
			a_timer_set_in_a_sleep_is_left_to_the_fallback_thread),
		UNIT_TEST(what_comes_meanwhile_ends_the_sleep),
		UNIT_TEST(
			threads_that_take_queues_from_each_other_lose_nothing),
		UNIT_TEST(one_thread_needs_no_other),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
