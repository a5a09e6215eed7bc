/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/sleep.h"
#include "aio/aio.h"
#include "aio/ctx.h"
#include "unit.h"

/*
 * Completions come one at a time, from polls of eventfds. Each poll completes when the
 * test writes its eventfd, and never before.
 */
enum { NR_SOURCES = 40 };

static struct {
	uint64_t handle;
	int fds[NR_SOURCES];
	struct iocb iocbs[NR_SOURCES];
	unsigned nr;
} sources;

static void start_sources(unsigned nr)
{
	sources.handle = unit_context(NR_SOURCES);
	sources.nr = nr;
	for (unsigned i = 0; i < nr; i++) {
		sources.fds[i] = eventfd(0, EFD_CLOEXEC);
		assert_true(sources.fds[i] >= 0);
		sources.iocbs[i] = unit_iocb(IOCB_CMD_POLL, sources.fds[i],
					     (void *)POLLIN, 0, 0);
		assert_int_equal(unit_submit(sources.handle, &sources.iocbs[i]),
				 1);
	}
}

static void stop_sources(void)
{
	unit_destroy(sources.handle);
	for (unsigned i = 0; i < sources.nr; i++)
		unit_close(sources.fds[i]);
}

static uint64_t nr_posted(void)
{
	struct uaio_counters counters;

	uaio_counters_read(&counters);
	return counters.nr_requests;
}

static uint64_t nr_wakeups(void)
{
	struct uaio_counters counters;

	uaio_counters_read(&counters);
	return counters.nr_wakeups;
}

static bool are_posted(void *arg)
{
	return nr_posted() >= *(uint64_t *)arg;
}

/* Complete the poll of eventfd i. Returns when its event has been posted. */
static void complete(unsigned i)
{
	uint64_t one = 1, want = nr_posted() + 1;

	assert_int_equal(write(sources.fds[i], &one, sizeof(one)), sizeof(one));
	unit_await(are_posted, &want);
}

struct waiting {
	long min_nr;
	long nr;
	struct timespec *timeout;
	sigset_t *mask;
};

static long get_events(void *arg)
{
	struct waiting *waiting = arg;
	struct uaio_event events[NR_SOURCES * 4];
	struct uaio_aio_sigset set = { waiting->mask, 8 };

	return uaio_aio_pgetevents(sources.handle, waiting->min_nr, waiting->nr,
				   events, waiting->timeout,
				   waiting->mask ? &set : NULL);
}

static void only_the_last_completion_needed_wakes_a_waiter(void **state)
{
	struct waiting waiting = { .min_nr = 5, .nr = 8 };
	struct unit_thread thread;
	uint64_t before;

	(void)state;
	start_sources(6);
	before = nr_wakeups();
	unit_thread_start(&thread, get_events, &waiting);
	unit_await_sleep(&thread);
	for (unsigned i = 0; i < 4; i++)
		complete(i);
	assert_int_equal(nr_wakeups(), before);
	complete(4);
	assert_int_equal(unit_thread_join(&thread), 5);
	assert_int_equal(nr_wakeups(), before + 1);
	stop_sources();
}

static void events_already_there_count_and_no_thread_sleeps(void **state)
{
	struct waiting waiting = { .min_nr = 3, .nr = 8 };

	(void)state;
	start_sources(3);
	for (unsigned i = 0; i < 3; i++)
		complete(i);
	assert_int_equal(get_events(&waiting), 3);
	stop_sources();
}

static void two_waiters_are_woken_each_for_what_it_needs(void **state)
{
	struct waiting two = { .min_nr = 2, .nr = 2 };
	struct waiting four = { .min_nr = 4, .nr = 4 };
	struct unit_thread a, b;

	(void)state;
	start_sources(6);
	unit_thread_start(&a, get_events, &two);
	unit_thread_start(&b, get_events, &four);
	unit_await_sleep(&a);
	unit_await_sleep(&b);
	for (unsigned i = 0; i < 6; i++)
		complete(i);
	assert_int_equal(unit_thread_join(&a), 2);
	assert_int_equal(unit_thread_join(&b), 4);
	stop_sources();
}

/*
 * More threads sleep than the array of wake-ups holds (UAIO_WAKEUPS_MAX). The hook
 * pauses after each FUTEX_WAKE, so that the woken thread runs before the next one is
 * woken.
 */
static uint32_t nr_futex_waits; /* atomic */

static bool pause_after_wake(long nr, const long args[6], long *ret_res)
{
	const struct timespec moment = { 0, 500000 };

	if (nr != SYS_futex)
		return false;
	if ((args[1] & 127) == 9 /* FUTEX_WAIT_BITSET */)
		add_relaxed(&nr_futex_waits, 1);
	if ((args[1] & 127) != 1 /* FUTEX_WAKE */)
		return false;
	*ret_res = uaio_sys_raw(nr, args[0], args[1], args[2], args[3], args[4],
				args[5]);
	(void)uaio_sys_raw(SYS_nanosleep, (long)&moment, 0, 0, 0, 0, 0);
	return true;
}

static void any_number_of_sleepers_is_woken(void **state)
{
	enum { NR = 40 };
	struct waiting waiting = { .min_nr = NR_SOURCES, .nr = NR_SOURCES };
	struct unit_thread threads[NR];

	(void)state;
	start_sources(0);
	for (unsigned i = 0; i < NR; i++)
		unit_thread_start(&threads[i], get_events, &waiting);
	for (unsigned i = 0; i < NR; i++)
		unit_await_sleep(&threads[i]);
	unit_hook(pause_after_wake);
	unit_destroy(sources.handle);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(unit_thread_join(&threads[i]), -EINVAL);
}

static long submit_polls_of_ready_file(void *arg)
{
	int fd = *(int *)arg;
	long nr = 0;

	while (nr < 3000) {
		struct iocb iocb =
			unit_iocb(IOCB_CMD_POLL, fd, (void *)POLLIN, 0, 0);
		long ret = unit_submit(sources.handle, &iocb);

		if (ret == 1)
			nr++;
		else if (ret != -EAGAIN)
			return ret;
	}
	return nr;
}

static void a_minimum_beyond_the_capacity_is_reached(void **state)
{
	static struct uaio_event events[3000];
	struct unit_thread thread;
	int fd = eventfd(1, EFD_CLOEXEC);

	(void)state;
	sources.handle = unit_context(1);
	unit_thread_start(&thread, submit_polls_of_ready_file, &fd);
	assert_int_equal(
		uaio_aio_getevents(sources.handle, 3000, 3000, events, NULL),
		3000);
	assert_int_equal(unit_thread_join(&thread), 3000);
	unit_destroy(sources.handle);
	unit_close(fd);
}

static void a_wait_ends_when_its_time_is_over(void **state)
{
	struct timespec timeout = { 0, 20000000 };
	struct waiting waiting = { .min_nr = 2, .nr = 2, .timeout = &timeout };
	int64_t start;

	(void)state;
	start_sources(2);
	complete(0);
	start = uaio_now_ns();
	assert_int_equal(get_events(&waiting), 1);
	assert_true(uaio_now_ns() - start >= 20000000);
	start = uaio_now_ns();
	assert_int_equal(get_events(&waiting), 0);
	assert_true(uaio_now_ns() - start >= 20000000);
	stop_sources();
}

static void a_masked_wait_ends_when_its_time_is_over(void **state)
{
	struct timespec timeout = { 0, 20000000 };
	sigset_t mask;
	struct waiting waiting = { 1, 1, &timeout, &mask };
	int64_t start;

	(void)state;
	sigemptyset(&mask);
	start_sources(1);
	start = uaio_now_ns();
	assert_int_equal(get_events(&waiting), 0);
	assert_true(uaio_now_ns() - start >= 20000000);
	stop_sources();
}

static uint32_t nr_signals; /* atomic */

static void count_signal(int signal)
{
	(void)signal;
	add_relaxed(&nr_signals, 1);
}

static void handle_signal(int flags)
{
	struct sigaction action = { .sa_handler = count_signal,
				    .sa_flags = flags };

	store_relaxed(&nr_signals, 0);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static void a_signal_ends_a_wait(int flags, sigset_t *mask)
{
	struct waiting waiting = { .min_nr = 1, .nr = 1, .mask = mask };
	struct unit_thread thread;

	start_sources(1);
	handle_signal(flags);
	unit_thread_start(&thread, get_events, &waiting);
	unit_await_sleep(&thread);
	assert_int_equal(pthread_kill(thread.id, SIGUSR1), 0);
	assert_int_equal(unit_thread_join(&thread), -EINTR);
	assert_int_equal(load_relaxed(&nr_signals), 1);
	stop_sources();
}

static void a_signal_handler_ends_a_wait(void **state)
{
	(void)state;
	a_signal_ends_a_wait(0, NULL);
}

static void a_handler_that_restarts_calls_ends_a_wait_too(void **state)
{
	(void)state;
	a_signal_ends_a_wait(SA_RESTART, NULL);
}

static void a_masked_wait_ends_likewise(void **state)
{
	sigset_t mask;

	(void)state;
	sigemptyset(&mask);
	a_signal_ends_a_wait(SA_RESTART, &mask);
}

static void events_are_not_lost_to_a_signal(void **state)
{
	struct waiting waiting = { .min_nr = 3, .nr = 3 };
	struct unit_thread thread;

	(void)state;
	start_sources(3);
	handle_signal(SA_RESTART);
	unit_thread_start(&thread, get_events, &waiting);
	unit_await_sleep(&thread);
	complete(0);
	complete(1);
	/*
	 * The thread may be executing polls, and a signal ends only a sleep: wait until
	 * it sleeps.
	 */
	unit_await_sleep(&thread);
	assert_int_equal(pthread_kill(thread.id, SIGUSR1), 0);
	assert_int_equal(unit_thread_join(&thread), 2);
	stop_sources();
}

static void block(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
}

static bool is_blocked(int signal)
{
	sigset_t set;

	pthread_sigmask(SIG_SETMASK, NULL, &set);
	return sigismember(&set, signal);
}

static void unblock_all(void)
{
	sigset_t set;

	sigemptyset(&set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

/*
 * The signal is pending, and only the mask of the wait unblocks it. So the thread may
 * handle it only during the wait.
 */
static void the_mask_holds_during_the_wait_only(void **state)
{
	sigset_t mask;
	struct waiting waiting = { .min_nr = 1, .nr = 1, .mask = &mask };

	(void)state;
	sigemptyset(&mask);
	start_sources(1);
	handle_signal(0);
	block(SIGUSR1);
	raise(SIGUSR1);
	assert_int_equal(load_relaxed(&nr_signals), 0);
	assert_int_equal(get_events(&waiting), -EINTR);
	assert_int_equal(load_relaxed(&nr_signals), 1);
	assert_true(is_blocked(SIGUSR1));
	unblock_all();
	stop_sources();
}

/*
 * The mask also unblocks the signal if the call does not sleep, whether there are
 * events or not.
 */
static void the_mask_lets_signals_in_though_nobody_sleeps(void **state)
{
	struct timespec zero = { 0, 0 };
	sigset_t mask;
	struct waiting waiting = { 1, 1, &zero, &mask };

	(void)state;
	sigemptyset(&mask);
	start_sources(1);
	block(SIGUSR1);
	handle_signal(0);
	raise(SIGUSR1);
	assert_int_equal(get_events(&waiting), -EINTR);
	assert_int_equal(load_relaxed(&nr_signals), 1);
	complete(0);
	raise(SIGUSR1);
	assert_int_equal(get_events(&waiting), 1);
	assert_int_equal(load_relaxed(&nr_signals), 2);
	assert_true(is_blocked(SIGUSR1));
	unblock_all();
	stop_sources();
}

static void a_signal_the_mask_blocks_waits_until_after(void **state)
{
	struct timespec timeout = { 0, 20000000 };
	sigset_t mask;
	struct waiting waiting = { 1, 1, &timeout, &mask };

	(void)state;
	sigfillset(&mask);
	start_sources(1);
	handle_signal(0);
	block(SIGUSR1);
	raise(SIGUSR1);
	assert_int_equal(get_events(&waiting), 0);
	assert_int_equal(load_relaxed(&nr_signals), 0);
	unblock_all();
	assert_int_equal(load_relaxed(&nr_signals), 1);
	stop_sources();
}

static bool refuse_eventfd(long nr, const long args[6], long *ret_res)
{
	(void)args;
	*ret_res = -EMFILE;
	return nr == SYS_eventfd2;
}

static void a_masked_wait_works_without_a_descriptor(void **state)
{
	sigset_t mask;
	struct waiting waiting = { .min_nr = 1, .nr = 1, .mask = &mask };
	struct unit_thread thread;

	(void)state;
	sigemptyset(&mask);
	start_sources(1);
	unit_hook(refuse_eventfd);
	unit_thread_start(&thread, get_events, &waiting);
	unit_await_sleep(&thread);
	complete(0);
	assert_int_equal(unit_thread_join(&thread), 1);
	handle_signal(0);
	/*
	 * The hook refuses eventfds, so the waiter sleeps for short slices. The signal
	 * is unblocked only within a slice, and must be delivered there.
	 */
	block(SIGUSR1);
	unit_thread_start(&thread, get_events, &waiting);
	unit_await_sleep(&thread);
	assert_int_equal(pthread_kill(thread.id, SIGUSR1), 0);
	assert_int_equal(unit_thread_join(&thread), -EINTR);
	unblock_all();
	stop_sources();
}

static void a_masked_waiter_is_woken_by_destroy(void **state)
{
	sigset_t mask;
	struct waiting waiting = { .min_nr = 1, .nr = 1, .mask = &mask };
	struct unit_thread thread;

	(void)state;
	sigemptyset(&mask);
	start_sources(1);
	unit_thread_start(&thread, get_events, &waiting);
	unit_await_sleep(&thread);
	stop_sources();
	/*
	 * The waiter finds no context (-EINVAL), or returns one event: destroying the
	 * context may complete its poll before the waiter checks.
	 */
	assert_in_set((unsigned long)unit_thread_join(&thread),
		      ((unsigned long[]){ (unsigned long)-EINVAL, 1 }), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(only_the_last_completion_needed_wakes_a_waiter),
		UNIT_TEST(events_already_there_count_and_no_thread_sleeps),
		UNIT_TEST(two_waiters_are_woken_each_for_what_it_needs),
		UNIT_TEST(a_minimum_beyond_the_capacity_is_reached),
		UNIT_TEST(a_wait_ends_when_its_time_is_over),
		UNIT_TEST(a_masked_wait_ends_when_its_time_is_over),
		UNIT_TEST(a_signal_handler_ends_a_wait),
		UNIT_TEST(a_handler_that_restarts_calls_ends_a_wait_too),
		UNIT_TEST(a_masked_wait_ends_likewise),
		UNIT_TEST(events_are_not_lost_to_a_signal),
		UNIT_TEST(the_mask_holds_during_the_wait_only),
		UNIT_TEST(the_mask_lets_signals_in_though_nobody_sleeps),
		UNIT_TEST(a_signal_the_mask_blocks_waits_until_after),
		UNIT_TEST(a_masked_wait_works_without_a_descriptor),
		UNIT_TEST(a_masked_waiter_is_woken_by_destroy),
		UNIT_TEST(any_number_of_sleepers_is_woken),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
