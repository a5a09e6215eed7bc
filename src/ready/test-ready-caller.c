/* SPDX-License-Identifier: MIT */
/*
 * Tests which threads execute requests that wait for a pipe. Threads that submit or
 * wait must execute them. The fallback thread serves only clients that make no calls,
 * and otherwise sleeps. The test compares counters of the library and of the kernel.
 */
#undef NDEBUG
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <stdio.h>

#include "ready/ready.h"
#include "base/newer.h"
#include "ready/test-ready.h"

enum {
	ROUNDS = 2000,
	/*
	 * If a thread is preempted between two of its calls, the fallback thread may
	 * execute its request. The test allows this once for each thread in SELDOM
	 * rounds.
	 */
	SELDOM = 100,
	LOOK_NS = 4000000,
	TRIES = 10,
};

/*
 * Run the function `try`, which returns NULL or what was wrong. If the fallback thread
 * has executed one request, it may execute more soon after. So repeat `try` until it
 * succeeds.
 */
static void assert_mostly(const char *(*try)(void))
{
	const char *breach = NULL;

	for (unsigned i = 0; i < TRIES; i++) {
		breach = try();
		if (!breach)
			return;
		printf("%s\n", breach);
	}
	fail_msg("%s", breach);
}

/*
 * Two threads send a byte back and forth through two pipes. Each uses its own context.
 */
struct player {
	uint64_t handle;
	int in, out;
	unsigned nr_rounds;
	bool begins;
};

static long strike(struct player *player, char byte)
{
	struct iocb iocb = unit_iocb(IOCB_CMD_PWRITE, player->out, &byte, 1, 0);

	if (unit_submit(player->handle, &iocb) != 1)
		return -EIO;
	return unit_reap_one(player->handle) == 1 ? 0 : -EIO;
}

static long play(void *arg)
{
	struct player *player = arg;

	for (unsigned i = 0; i < player->nr_rounds; i++) {
		char byte = 0;
		struct iocb iocb =
			unit_iocb(IOCB_CMD_PREAD, player->in, &byte, 1, 0);

		if (player->begins && strike(player, (char)i))
			return -1;
		if (unit_submit(player->handle, &iocb) != 1 ||
		    unit_reap_one(player->handle) != 1 || byte != (char)i)
			return -2;
		if (!player->begins && strike(player, (char)i))
			return -3;
	}
	return 0;
}

struct work {
	struct uaio_ready_counters counters;
	/* voluntary sleeps of the library's threads, counted by the kernel */
	uint64_t nr_sleeps;
};

static void note(struct work *ret)
{
	uaio_ready_count(&ret->counters);
	(void)unit_engine_threads(&ret->nr_sleeps);
}

/* Run both threads for nr_rounds, and measure the work of the library. */
static void play_game(unsigned nr_rounds, struct work *ret)
{
	struct player players[2] = { { 0 }, { 0 } };
	struct unit_thread threads[2];
	struct work before;
	int pipes[2][2];
	uint64_t *to = (uint64_t *)&ret->counters;
	const uint64_t *from = (const uint64_t *)&before.counters;

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
	for (unsigned i = 0; i < 2; i++)
		players[i] = (struct player){
			.handle = unit_context(4),
			.in = pipes[i][0],
			.out = pipes[!i][1],
			.nr_rounds = nr_rounds,
			.begins = i == 0,
		};
	note(&before);
	for (unsigned i = 0; i < 2; i++)
		unit_thread_start(&threads[i], play, &players[i]);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(unit_thread_join(&threads[i]), 0);
	note(ret);
	for (unsigned i = 0; i < sizeof(ret->counters) / sizeof(*to); i++)
		to[i] -= from[i];
	ret->nr_sleeps -= before.nr_sleeps;
	for (unsigned i = 0; i < 2; i++) {
		unit_destroy(players[i].handle);
		unit_close(pipes[i][0]);
		unit_close(pipes[i][1]);
	}
	printf("%u rounds: %lu parked, %lu by callers, %lu by the engine's "
	       "thread, which woke %lu times and slept %lu, %lu tries, %lu "
	       "sleeps in epoll, %lu events, %lu armed\n",
	       nr_rounds, (unsigned long)ret->counters.nr_parked,
	       (unsigned long)ret->counters.nr_by_caller,
	       (unsigned long)ret->counters.nr_by_fallback,
	       (unsigned long)ret->counters.nr_fallback_wakes,
	       (unsigned long)ret->nr_sleeps,
	       (unsigned long)ret->counters.nr_tries,
	       (unsigned long)ret->counters.nr_sleeps,
	       (unsigned long)ret->counters.nr_events,
	       (unsigned long)ret->counters.nr_arms);
}

static const char *play_by_those_who_wait(void)
{
	unsigned nr = unit_rounds(ROUNDS);
	uint64_t seldom = 1 + 2 * nr / SELDOM;
	int64_t since = uaio_now_ns();
	struct work work;

	play_game(nr, &work);
	/*
	 * Allow the fallback thread one more wake-up in each LOOK_NS: it wakes at
	 * intervals, and whenever a thread was preempted.
	 */
	seldom += (uint64_t)(uaio_now_ns() - since) / LOOK_NS;
	/*
	 * At least one of the two reads in a round is parked: each thread writes only
	 * after its read has completed.
	 */
	assert_in_range(work.counters.nr_parked, nr / 2, 2 * nr);
	assert_int_equal(work.counters.nr_by_caller +
				 work.counters.nr_by_fallback,
			 work.counters.nr_parked);
	return work.counters.nr_by_fallback > seldom      ? "made by the thread"
	       : work.counters.nr_fallback_wakes > seldom ? "it comes awake"
	       : work.nr_sleeps > seldom                  ? "it sleeps"
	       /* A file is added to the epoll once, not for each request. */
	       : work.counters.nr_arms > seldom + 4 ? "armed"
						    : NULL;
}

static void a_ping_pong_is_executed_by_those_who_wait(void **state)
{
	(void)state;
	assert_mostly(play_by_those_who_wait);
}

static void requests_of_callers_that_do_not_run_are_executed(void **state)
{
	const struct uaio_ready_tuning tuning = { .caller_runs = false,
						  .delays_kick = true };
	const struct uaio_ready_tuning usual = { true, true };
	unsigned nr = unit_rounds(ROUNDS / 4);
	struct work work;

	(void)state;
	uaio_ready_tune(&tuning);
	play_game(nr, &work);
	uaio_ready_tune(&usual);
	assert_in_range(work.counters.nr_parked, nr / 2, 2 * nr);
	assert_int_equal(work.counters.nr_by_caller, 0);
	assert_int_equal(work.counters.nr_by_fallback, work.counters.nr_parked);
	/*
	 * Callers execute no requests here, so each parked request must wake the
	 * fallback thread.
	 */
	assert_true(work.counters.nr_fallback_wakes >= nr / 2);
}

static void requests_on_a_ready_file_are_not_parked_or_armed(void **state)
{
	struct uaio_ready_counters before, after;
	char byte = 'x';

	(void)state;
	open_pipe(4);
	uaio_ready_count(&before);
	for (unsigned i = 0; i < 100; i++) {
		struct iocb iocbs[2] = {
			unit_iocb(IOCB_CMD_PWRITE, ends[1], &byte, 1, 0),
			read_of_byte(&byte),
		};

		for (unsigned k = 0; k < 2; k++) {
			assert_int_equal(unit_submit(handle, &iocbs[k]), 1);
			assert_int_equal(unit_reap_one(handle), 1);
		}
	}
	uaio_ready_count(&after);
	assert_memory_equal(&before, &after, sizeof(after));
	close_pipe();
}

static const char *reap_what_has_got_ready(void)
{
	struct uaio_ready_counters before, after;
	unsigned nr = unit_rounds(ROUNDS), seldom = 1 + nr / SELDOM;

	open_pipe(4);
	uaio_ready_count(&before);
	for (unsigned i = 0; i < nr; i++) {
		char byte;
		struct iocb iocb = read_of_byte(&byte);

		assert_int_equal(unit_submit(handle, &iocb), 1);
		put_text("x");
		assert_int_equal(unit_reap_one(handle), 1);
	}
	uaio_ready_count(&after);
	assert_int_equal(after.nr_parked - before.nr_parked, nr);
	close_pipe();
	return after.nr_by_fallback - before.nr_by_fallback > seldom
		       ? "made by the thread"
	       : after.nr_fallback_wakes - before.nr_fallback_wakes > seldom
		       ? "it comes awake"
	       : after.nr_sleeps - before.nr_sleeps > seldom ? "slept for"
	       : after.nr_arms - before.nr_arms > seldom     ? "armed"
							     : NULL;
}

/*
 * The byte is in the pipe before the thread begins to wait. So the thread need not
 * sleep, and the library need not add the pipe to the epoll.
 */
static void what_has_got_ready_is_executed_before_any_sleep(void **state)
{
	(void)state;
	assert_mostly(reap_what_has_got_ready);
}

/*
 * Several waiters sleep when the file becomes ready. Only one of them must wake, and
 * execute the requests that can be executed.
 */
enum { NR_SLEEPERS = 4, NR_EVENTS = 100 };

static uint32_t nr_taken; /* atomic */

static long take_events(void *arg)
{
	char byte;
	struct iocb iocb = read_of_byte(&byte);
	long nr = 0;

	(void)arg;
	for (; load_acquire(&nr_taken) < NR_EVENTS; nr++) {
		struct io_event event;

		if (unit_submit(handle, &iocb) != 1 ||
		    unit_reap(handle, 1, &event) != 1)
			return -1;
		add_acquire(&nr_taken, 1);
	}
	return nr;
}

static bool has_taken(void *arg)
{
	return load_acquire(&nr_taken) >= *(uint32_t *)arg;
}

static const char *feed_those_who_wait(void)
{
	struct unit_thread threads[NR_SLEEPERS];
	struct uaio_ready_counters before, after;

	open_pipe(NR_SLEEPERS + 1);
	store_relaxed(&nr_taken, 0);
	for (unsigned i = 0; i < NR_SLEEPERS; i++)
		unit_thread_start(&threads[i], take_events, NULL);
	for (unsigned i = 0; i < NR_SLEEPERS; i++)
		unit_await_sleep(&threads[i]);
	uaio_ready_count(&before);
	for (uint32_t i = 0; i < NR_EVENTS - 1;) {
		put_text("x");
		i++;
		unit_await(has_taken, &i);
		for (unsigned k = 0; k < NR_SLEEPERS; k++)
			unit_await_sleep(&threads[k]);
	}
	uaio_ready_count(&after);
	for (unsigned i = 0; i < NR_SLEEPERS; i++)
		put_text("x");
	for (unsigned i = 0; i < NR_SLEEPERS; i++)
		assert_true(unit_thread_join(&threads[i]) >= 0);
	close_pipe();
	return after.nr_events - before.nr_events > 2 * NR_EVENTS ? "events"
	       : after.nr_sleeps - before.nr_sleeps > 2 * NR_EVENTS
		       ? "slept for"
	       /*
	        * For each byte, one read call succeeds. Two more fail with EAGAIN: the
	        * woken thread tries the next parked request, and then the request that
	        * it submits next.
	        */
	       : after.nr_tries - before.nr_tries > 4 * NR_EVENTS ? "tries"
	       : after.nr_by_fallback - before.nr_by_fallback >
			       1 + NR_EVENTS / 10
		       ? "made by the thread"
		       : NULL;
}

static void one_of_the_waiters_executes_what_gets_ready(void **state)
{
	(void)state;
	assert_mostly(feed_those_who_wait);
}

/*
 * The first thread, which sleeps in the epoll, stops waiting. The second thread waits
 * as well. It must now execute the read, and not leave it to the fallback thread.
 */
static long wait_briefly(void *arg)
{
	struct timespec moment = { 0, 2000000 };
	struct uaio_event event;

	(void)arg;
	return uaio_aio_getevents(handle, 1, 1, &event, &moment);
}

static const char *leave_to_who_sleeps_on(void)
{
	enum { NR = 40 };
	struct uaio_ready_counters before, after;

	open_pipe(4);
	uaio_ready_count(&before);
	for (unsigned i = 0; i < NR; i++) {
		struct unit_thread first, second;
		char byte;

		submit_read_of_byte(&byte);
		unit_thread_start(&first, wait_briefly, NULL);
		unit_await_sleep(&first);
		unit_thread_start(&second, reap_one, NULL);
		unit_await_sleep(&second);
		assert_int_equal(unit_thread_join(&first), 0);
		unit_await_sleep(&second);
		put_text("x");
		assert_int_equal(unit_thread_join(&second), 1);
	}
	uaio_ready_count(&after);
	close_pipe();
	return after.nr_by_fallback - before.nr_by_fallback > NR / 4
		       ? "made by the thread"
		       : NULL;
}

static void a_waiter_that_sleeps_on_takes_over(void **state)
{
	(void)state;
	assert_mostly(leave_to_who_sleeps_on);
}

/*
 * With IP_RECVERR a socket keeps an error until the program reads its error queue.
 * poll() reports the error; read() does not consume it. The library must not try a read
 * again and again because of the error.
 */
static void no_request_is_tried_again_for_an_error_that_is_kept(void **state)
{
	enum { WAITS = 40, FEW = 10 };
	struct timespec moment = { 0, 2000000 };
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct pollfd told = { .events = POLLIN };
	struct uaio_ready_counters before, after;
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), peer, is_on = 1;
	struct uaio_event event;
	struct iocb iocb;
	char byte;

	(void)state;
	open_pipe(1);
	peer = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(peer, (void *)&address, sizeof(address)), 0);
	assert_int_equal(getsockname(peer, (void *)&address, &size), 0);
	assert_int_equal(connect(fd, (void *)&address, sizeof(address)), 0);
	assert_int_equal(
		setsockopt(fd, IPPROTO_IP, IP_RECVERR, &is_on, sizeof(is_on)),
		0);
	assert_int_equal(close(peer), 0);
	/*
	 * No socket receives this datagram. So the socket gets two errors: the next
	 * read() returns one, and the other stays in the socket's error queue.
	 */
	assert_int_equal(write(fd, "x", 1), 1);
	told.fd = fd;
	assert_int_equal(poll(&told, 1, 10000), 1);
	assert_int_equal(read(fd, &byte, 1), -1);
	assert_int_equal(errno, ECONNREFUSED);

	iocb = unit_iocb(IOCB_CMD_PREAD, fd, &byte, 1, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	uaio_ready_count(&before);
	for (unsigned i = 0; i < WAITS; i++)
		assert_int_equal(
			uaio_aio_getevents(handle, 1, 1, &event, &moment), 0);
	uaio_ready_count(&after);
	assert_int_equal(poll(&told, 1, 0), 1);
	assert_in_range(after.nr_tries - before.nr_tries, 0, FEW);
	/*
	 * The parked read must still complete when its file becomes ready: here input
	 * ends.
	 */
	assert_int_equal(shutdown(fd, SHUT_RD), 0);
	assert_int_equal(unit_reap_one(handle), 0);
	close_pipe();
	unit_close(fd);
}

static struct {
	/* writing to this pipe wakes the thread that sleeps */
	int out;
	unsigned nr_sleeps, nr_timed;
} sleeper;

/* Write the byte just as the thread goes to sleep. */
static bool wake_sleeper(long nr, const long args[6], long *ret_res)
{
	(void)ret_res;
	if (nr != SYS_epoll_pwait2 || gettid() != getpid())
		return false;
	sleeper.nr_timed += args[3] != 0;
	if (!sleeper.nr_sleeps++)
		assert_int_equal(write(sleeper.out, "x", 1), 1);
	return false;
}

/*
 * Submit a read, and wait for its event with timeout.
 * Return: how many of the thread's sleeps in the epoll had a timeout.
 */
static unsigned nr_timed_of(const struct timespec *timeout)
{
	struct uaio_event event;
	struct iocb iocb;
	char byte;

	iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	sleeper.out = ends[1];
	sleeper.nr_sleeps = sleeper.nr_timed = 0;
	unit_hook(wake_sleeper);
	assert_int_equal(uaio_aio_getevents(handle, 1, 1, &event, timeout), 1);
	unit_hook(NULL);
	assert_true(sleeper.nr_sleeps);
	return sleeper.nr_timed;
}

static const char *wait_for_ever(void)
{
	return nr_timed_of(NULL) ? "a thread was woken to look again" : NULL;
}

/*
 * A wait without a time limit must sleep without a timeout. For a timeout, even of
 * centuries, the kernel sets up a timer, which takes time.
 */
static void a_thread_that_waits_for_ever_has_no_timer(void **state)
{
	const struct timespec long_time = { .tv_sec = 1000 };

	(void)state;
	open_pipe(1);
	assert_mostly(wait_for_ever);
	assert_true(nr_timed_of(&long_time));
	close_pipe();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_ping_pong_is_executed_by_those_who_wait),
		UNIT_TEST(requests_of_callers_that_do_not_run_are_executed),
		UNIT_TEST(requests_on_a_ready_file_are_not_parked_or_armed),
		UNIT_TEST(what_has_got_ready_is_executed_before_any_sleep),
		UNIT_TEST(one_of_the_waiters_executes_what_gets_ready),
		UNIT_TEST(a_waiter_that_sleeps_on_takes_over),
		UNIT_TEST(no_request_is_tried_again_for_an_error_that_is_kept),
		UNIT_TEST(a_thread_that_waits_for_ever_has_no_timer),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
