/* SPDX-License-Identifier: MIT */
/*
 * Tests cases where several threads work on the requests of one pipe at the same time
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/uaddr.h"
#include "ready/ready.h"
#include "aio/aio.h"
#include "aio/ctx.h"
#include "ready/test-ready.h"

enum { NR_EPOLL_PWAIT2 = 441 };

/*
 * State of a test's hook, which stops a thread at the first system call of a certain
 * kind.
 */
static struct {
	uint32_t is_armed; /* atomic */
	uint32_t is_held;  /* atomic */
	uint32_t goes_on;  /* atomic */
	/*
	 * atomic: hold_read() counts the sleeps of this thread, and stops only other
	 * threads; jump_with_events() acts on this thread only
	 */
	uint32_t tid;
	/* atomic: how often thread tid has slept in an epoll */
	uint32_t nr_sleeps;
} held;

static void arm_held(uaio_sys_hook_fn *hook)
{
	store_relaxed(&held.is_held, 0);
	store_relaxed(&held.goes_on, 0);
	store_relaxed(&held.nr_sleeps, 0);
	store_release(&held.is_armed, 1);
	unit_hook(hook);
}

static void hold(void)
{
	uint32_t armed = 1;

	if (!__atomic_compare_exchange_n(&held.is_armed, &armed, 0, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return;
	store_release(&held.is_held, 1);
	while (!load_acquire(&held.goes_on))
		(void)uaio_sys_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static struct iocb poll_of(int fd, unsigned events)
{
	return unit_iocb(IOCB_CMD_POLL, fd, (void *)(uintptr_t)events, 0, 0);
}

static uint32_t nr_looks; /* atomic */

/*
 * Stop the library's second poll() for POLLPRI, which it calls for the second poll
 * request. The pipe is readable, so the epoll does not report POLLPRI.
 */
static bool hold_second_look(long nr, const long args[6], long *ret_res)
{
	const struct pollfd *slot = (const struct pollfd *)args[0];

	(void)ret_res;
	if (nr == SYS_ppoll && args[1] == 1 && is_end(0, slot->fd) &&
	    slot->events & POLLPRI && add_relaxed(&nr_looks, 1) == 1)
		hold();
	return false;
}

static void a_poll_is_cancelled_while_the_next_is_looked_at(void **state)
{
	struct iocb first, next, last;
	struct io_event events[2];

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		open_pipe(4);
		first = next = poll_of(ends[0], POLLPRI);
		last = poll_of(ends[0], POLLIN);
		assert_int_equal(unit_submit(handle, &first), 1);
		assert_int_equal(unit_submit(handle, &next), 1);
		assert_int_equal(unit_submit(handle, &last), 1);
		store_relaxed(&nr_looks, 0);
		arm_held(hold_second_look);
		put_text("x");
		unit_await(unit_is_set, &held.is_held);
		assert_int_equal(uaio_aio_cancel(handle, &first), -EINPROGRESS);
		store_release(&held.goes_on, 1);
		assert_int_equal(unit_reap(handle, 2, events), 2);
		unit_hook(NULL);
		close_pipe();
	}
}

static void a_poll_is_looked_at_behind_many_that_wait_on(void **state)
{
	enum { NR = 200 };
	struct iocb iocb;

	(void)state;
	open_pipe(NR + 1);
	iocb = poll_of(ends[0], POLLPRI);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(unit_submit(handle, &iocb), 1);
	iocb = poll_of(ends[0], POLLIN);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	put_text("x");
	assert_int_equal(unit_reap_one(handle), POLLIN);
	close_pipe();
}

/*
 * Stop the fallback thread when it has taken an event from the epoll, before it stores
 * the event.
 */
static bool hold_taken(long nr, const long args[6], long *ret_res)
{
	if (nr != SYS_epoll_pwait)
		return false;
	*ret_res = unit_make_call(nr, args);
	if (*ret_res > 0)
		hold();
	return true;
}

static bool is_quiet(void *arg)
{
	(void)arg;
	return unit_is_quiet(0) && unit_is_quiet(0);
}

/*
 * The byte that caused the event was read before the second poll was submitted: the
 * event must not complete that poll.
 */
static void an_event_taken_before_a_poll_looks_does_not_answer_it(void **state)
{
	struct timespec zero = { 0, 0 };
	struct iocb iocb;
	struct uaio_event none;
	struct io_event events[2];
	char byte;

	(void)state;
	open_pipe(4);
	iocb = poll_of(ends[0], POLLIN);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	unit_await(is_quiet, NULL);
	arm_held(hold_taken);
	put_text("x");
	unit_await(unit_is_set, &held.is_held);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	store_release(&held.goes_on, 1);
	unit_await(is_quiet, NULL);
	unit_hook(NULL);
	assert_int_equal(uaio_aio_getevents(handle, 0, 1, &none, &zero), 0);
	put_text("y");
	assert_int_equal(unit_reap(handle, 2, events), 2);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(events[i].res, POLLIN);
	close_pipe();
}

static bool is_drained(void *arg)
{
	struct pollfd slot = { .fd = ends[0], .events = POLLIN };

	(void)arg;
	return poll(&slot, 1, 0) == 0;
}

/*
 * The leader (the waiter that sleeps in the epoll) waits for one more event, but no
 * request of its context is parked. Meanwhile requests of another context become ready
 * on the same pipe. These requests must not keep the leader awake.
 */
static void a_leader_sleeps_while_requests_of_others_get_ready(void **state)
{
	enum { NR = 50 };
	char bytes[NR], byte;
	struct unit_thread waiter;
	struct iocb iocb;
	uint64_t other;

	(void)state;
	open_pipe(4);
	other = unit_context(NR);
	iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	for (unsigned i = 0; i < NR; i++) {
		iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &bytes[i], 1, 0);
		assert_int_equal(unit_submit(other, &iocb), 1);
	}
	unit_thread_start(&waiter, reap_two, NULL);
	unit_await_sleep(&waiter);
	put_text("x");
	for (unsigned i = 0; i < NR; i++) {
		put_text("y");
		unit_await(is_drained, NULL);
	}
	unit_await_sleep(&waiter);
	iocb = poll_of(ends[1], POLLOUT);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(unit_thread_join(&waiter), 2);
	unit_destroy(other);
	close_pipe();
}

/*
 * Two contexts have reads of one pipe. While a first thread tries these reads, a second
 * thread gets the same event of the pipe, and leaves all the reads to the first thread.
 * If the first thread stops before the last read, that read must still complete.
 */
enum { NR_OF_ONE_RUN = 64 };

static bool hold_read(long nr, const long args[6], long *ret_res)
{
	if (load_relaxed(&held.tid) != (uint32_t)gettid()) {
		if (nr == SYS_preadv2 && is_end(0, args[0]))
			hold();
		return false;
	}
	if (nr != NR_EPOLL_PWAIT2)
		return false;
	if (load_acquire(&held.is_held))
		add_relaxed(&held.nr_sleeps, 1);
	*ret_res = uaio_sys_raw(nr, args[0], args[1], args[2], args[3], args[4],
				args[5]);
	while (!load_acquire(&held.is_held))
		(void)uaio_sys_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	return true;
}

static uint64_t second;

static long reap_second(void *arg)
{
	(void)arg;
	store_relaxed(&held.tid, (uint32_t)gettid());
	return unit_reap_one(second);
}

static long reap_run(void *arg)
{
	static struct io_event events[NR_OF_ONE_RUN];

	(void)arg;
	return unit_reap(handle, NR_OF_ONE_RUN, events);
}

static bool sleeps_again(void *arg)
{
	return load_acquire((uint32_t *)arg) >= 1;
}

static void a_queue_sees_what_a_run_of_another_leaves_over(void **state)
{
	static char bytes[NR_OF_ONE_RUN + 1];
	struct unit_thread waiters[2];
	struct iocb iocb;

	(void)state;
	open_pipe(NR_OF_ONE_RUN);
	second = unit_context(4);
	for (unsigned i = 0; i <= NR_OF_ONE_RUN; i++) {
		iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &bytes[i], 1, 0);
		assert_int_equal(
			unit_submit(i < NR_OF_ONE_RUN ? handle : second, &iocb),
			1);
	}
	unit_thread_start(&waiters[0], reap_run, NULL);
	unit_await_sleep(&waiters[0]);
	store_relaxed(&held.tid, 0);
	arm_held(hold_read);
	unit_thread_start(&waiters[1], reap_second, NULL);
	unit_await_sleep(&waiters[1]);
	assert_int_equal(write(ends[1], bytes, sizeof(bytes)), sizeof(bytes));
	unit_await(unit_is_set, &held.is_held);
	unit_await(sleeps_again, &held.nr_sleeps);
	unit_await_sleep(&waiters[1]);
	store_release(&held.goes_on, 1);
	assert_int_equal(unit_thread_join(&waiters[0]), NR_OF_ONE_RUN);
	assert_int_equal(unit_thread_join(&waiters[1]), 1);
	unit_hook(NULL);
	unit_destroy(second);
	close_pipe();
}

/*
 * The pipe has one page, which is nearly full. When the large write is cancelled, there
 * is room for the small write, but the epoll does not report that.
 */
static void
a_small_write_is_executed_when_the_one_before_is_cancelled(void **state)
{
	enum { FREE = 96, PAGE_MAX = 65536 };
	static char bytes[PAGE_MAX];
	const size_t page = uaio_page_bytes();
	struct iocb large, small;
	struct io_event events[2];

	(void)state;
	open_pipe(4);
	assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, (int)page), page);
	assert_int_equal(write(ends[1], bytes, page - FREE), page - FREE);
	large = unit_iocb(IOCB_CMD_PWRITE, ends[1], bytes, 2 * FREE, 0);
	small = unit_iocb(IOCB_CMD_PWRITE, ends[1], bytes, FREE / 2, 0);
	assert_int_equal(unit_submit(handle, &large), 1);
	assert_int_equal(unit_submit(handle, &small), 1);
	assert_int_equal(uaio_aio_cancel(handle, &large), -EINPROGRESS);
	assert_int_equal(unit_reap(handle, 2, events), 2);
	/* The events may come in either order. */
	assert_int_equal(events[0].res + events[1].res, FREE / 2 - ECANCELED);
	close_pipe();
}

static bool refuse_to_poll(long nr, const long args[6], long *ret_res)
{
	*ret_res = -EPERM;
	return nr == SYS_epoll_ctl && is_end(0, args[2]);
}

/*
 * If the epoll refuses a file, a worker executes the requests on the file, except
 * polls: a poll stays parked.
 */
static void a_poll_of_an_unpollable_file_holds_up_nobody(void **state)
{
	struct uaio_ready_counters before, after;
	struct timespec moment = { 0, 20000000 };
	struct uaio_event event;
	struct iocb iocb;

	(void)state;
	open_pipe(4);
	unit_hook(refuse_to_poll);
	uaio_ready_count(&before);
	iocb = poll_of(ends[0], POLLPRI);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(uaio_aio_getevents(handle, 1, 1, &event, &moment), 0);
	uaio_ready_count(&after);
	assert_in_range(after.nr_tries - before.nr_tries, 0, 10);
	assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINPROGRESS);
	assert_int_equal(unit_reap_one(handle), 0);
	unit_hook(NULL);
	close_pipe();
}

static sigjmp_buf home;

static void jump(int signal)
{
	(void)signal;
	siglongjmp(home, 1);
}

static long jump_and_look(void *arg)
{
	static const struct timespec zero;
	struct io_event event;
	struct uaio_event got;

	(void)arg;
	if (!sigsetjmp(home, 1))
		return unit_reap(handle, 1, &event);
	store_release(&held.is_held, 1);
	while (uaio_aio_getevents(handle, 1, 1, &got, &zero) == 0)
		sched_yield();
	return got.res;
}

/*
 * Start a thread that sleeps until the pipe has a byte. It will leave the sleep by
 * siglongjmp().
 */
static void start_jumper(struct unit_thread *jumper, long (*function)(void *),
			 uaio_sys_hook_fn *hook)
{
	static char byte;

	/* Sanitizers do not support siglongjmp() out of a signal handler. */
	if (UNIT_IS_SANITIZED)
		skip();
	open_pipe(4);
	submit_read_of_byte(&byte);
	unit_hook(hook);
	unit_thread_start(jumper, function, NULL);
	unit_await_sleep(jumper);
}

static void serve_jumper(struct unit_thread *jumper)
{
	put_text("x");
	assert_int_equal(unit_thread_join(jumper), 1);
	unit_hook(NULL);
	close_pipe();
}

static void a_thread_that_jumped_out_finds_events_by_looking(void **state)
{
	const struct sigaction action = { .sa_handler = jump };
	struct sigaction old;
	struct unit_thread waiter;

	(void)state;
	store_relaxed(&held.is_held, 0);
	start_jumper(&waiter, jump_and_look, NULL);
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	assert_int_equal(
		tgkill(getpid(), (pid_t)load_relaxed(&waiter.tid), SIGUSR1), 0);
	unit_await(unit_is_set, &held.is_held);
	assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
	serve_jumper(&waiter);
}

/*
 * Call siglongjmp() when the system call has returned with events, as a signal handler
 * might at that moment.
 */
static bool jump_with_events(long nr, const long args[6], long *ret_res)
{
	if (nr != NR_EPOLL_PWAIT2 ||
	    load_relaxed(&held.tid) != (uint32_t)gettid())
		return false;
	*ret_res = uaio_sys_raw(nr, args[0], args[1], args[2], args[3], args[4],
				args[5]);
	if (*ret_res > 0)
		siglongjmp(home, 1);
	return true;
}

static long jump_with_events_and_look(void *arg)
{
	store_relaxed(&held.tid, (uint32_t)gettid());
	return jump_and_look(arg);
}

static void events_are_not_lost_with_the_thread_told_of_them(void **state)
{
	struct unit_thread waiter;

	(void)state;
	start_jumper(&waiter, jump_with_events_and_look, jump_with_events);
	serve_jumper(&waiter);
}

/*
 * A thread looks for events without sleeping, and finds the same file ready every time.
 * It must also complete a request on another file, which becomes ready once.
 */
static void a_request_is_seen_beside_one_that_is_always_ready(void **state)
{
	static const struct timespec zero;
	struct uaio_event event = { .data = 0 };
	struct iocb rare, often;
	char bytes[2];
	int others[2];

	(void)state;
	open_pipe(4);
	assert_int_equal(pipe2(others, O_CLOEXEC), 0);
	rare = unit_iocb(IOCB_CMD_PREAD, others[0], &bytes[0], 1, 0);
	rare.aio_data = 1;
	often = unit_iocb(IOCB_CMD_PREAD, ends[0], &bytes[1], 1, 0);
	for (unsigned i = 0; event.data == 0; i++) {
		if (i == 100)
			assert_int_equal(unit_submit(handle, &rare), 1);
		if (i == 200)
			assert_int_equal(write(others[1], "x", 1), 1);
		assert_int_equal(unit_submit(handle, &often), 1);
		put_text("y");
		while (uaio_aio_getevents(handle, 1, 1, &event, &zero) == 0)
			sched_yield();
	}
	assert_int_equal(unit_reap_one(handle), 1);
	unit_close(others[0]);
	unit_close(others[1]);
	close_pipe();
}

/*
 * A leader is preempted for so long that another waiter considers it lost. That waiter
 * must not sleep in the same epoll, as two threads there would consume each other's
 * wake-ups.
 */
static struct {
	/* atomic: the leader, which is delayed */
	uint32_t tid;
	uint32_t nr_others; /* atomic: sleeps of other threads in an epoll */
} slow;

static bool hold_leader(long nr, const long args[6], long *ret_res)
{
	static const struct timespec moment = { 0, 1000000 };
	uint32_t is_due = 1;

	(void)args;
	(void)ret_res;
	if (nr != NR_EPOLL_PWAIT2)
		return false;
	if (load_relaxed(&slow.tid) != (uint32_t)gettid()) {
		add_relaxed(&slow.nr_others, 1);
		return false;
	}
	if (!cas_acquire(&held.is_armed, &is_due, 0))
		return false;
	store_release(&held.is_held, 1);
	while (!load_acquire(&held.goes_on))
		(void)uaio_sys_raw(SYS_nanosleep, (long)&moment, 0, 0, 0, 0, 0);
	return false;
}

static long reap_one_slowly(void *arg)
{
	(void)arg;
	store_relaxed(&slow.tid, (uint32_t)gettid());
	return unit_reap_one(handle);
}

/*
 * Return: whether UAIO_LEADER was cleared, or another thread sleeps in the epoll.
 */
static bool is_taken_for_lost(void *arg)
{
	struct uaio_ctx *ctx = uaio_ctx_find(handle);

	(void)arg;
	return !uaio_ready_has(&ctx->queue.group.ready, UAIO_LEADER) ||
	       load_relaxed(&slow.nr_others) > 0;
}

static void a_leader_that_is_taken_for_lost_learns_of_its_event(void **state)
{
	struct unit_thread leader, other;
	char bytes[3];

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		open_pipe(4);
		submit_read_of_byte(&bytes[0]);
		arm_held(hold_leader);
		store_relaxed(&slow.nr_others, 0);
		unit_thread_start(&leader, reap_one_slowly, NULL);
		unit_await(unit_is_set, &held.is_held);
		unit_thread_start(&other, reap_two, NULL);
		unit_await(is_taken_for_lost, NULL);
		unit_await_sleep(&other);
		put_text("x");
		unit_await(is_drained, NULL);
		unit_await_sleep(&other);
		store_release(&held.goes_on, 1);
		assert_int_equal(unit_thread_join(&leader), 1);
		submit_read_of_byte(&bytes[1]);
		submit_read_of_byte(&bytes[2]);
		put_text("yz");
		assert_int_equal(unit_thread_join(&other), 2);
		unit_hook(NULL);
		close_pipe();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_poll_is_cancelled_while_the_next_is_looked_at),
		UNIT_TEST(a_poll_is_looked_at_behind_many_that_wait_on),
		UNIT_TEST(
			an_event_taken_before_a_poll_looks_does_not_answer_it),
		UNIT_TEST(a_leader_sleeps_while_requests_of_others_get_ready),
		UNIT_TEST(a_queue_sees_what_a_run_of_another_leaves_over),
		UNIT_TEST(
			a_small_write_is_executed_when_the_one_before_is_cancelled),
		UNIT_TEST(a_poll_of_an_unpollable_file_holds_up_nobody),
		UNIT_TEST(a_thread_that_jumped_out_finds_events_by_looking),
		UNIT_TEST(events_are_not_lost_with_the_thread_told_of_them),
		UNIT_TEST(a_request_is_seen_beside_one_that_is_always_ready),
		UNIT_TEST(a_leader_that_is_taken_for_lost_learns_of_its_event),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
