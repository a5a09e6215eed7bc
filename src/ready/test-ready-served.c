/* SPDX-License-Identifier: MIT */
/*
 * Tests how soon a request's event is posted after its pipe has become ready. If a
 * thread waits in io_getevents() or io_pgetevents(), it gets the event at once. If two
 * threads wait, each gets its own event at once. A client may also look only at its
 * event ring in memory, or wait only for an eventfd. Then the fallback thread (a thread
 * of the library) executes the request, so the event may come later.
 */
#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "ready/test-ready.h"

enum {
	ROUNDS = 15,
	/*
	 * Limit for a thread that waits in io_getevents(): it executes the request
	 * itself. If an idle fallback thread had to execute the request, this could
	 * take 5 s.
	 */
	AT_ONCE_MS = 500,
	/*
	 * number of rounds if no thread waits in io_getevents(); few, as each round may
	 * take long
	 */
	SLOW_ROUNDS = 5,
	/* limit for these rounds, if the fallback thread executes the request */
	LATER_MS = 2000,
};

/* Files that are ready before the request is submitted */

static int execute_what_is_ready(void)
{
	struct uaio_counters counters;
	char byte = 'x';

	if (unit_engine(NULL) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return 1;
	handle = unit_context(4);
	for (unsigned i = 0; i < 100; i++) {
		struct iocb iocbs[3] = {
			unit_iocb(IOCB_CMD_PWRITE, ends[1], &byte, 1, 0),
			unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0),
			read_of_byte(&byte),
		};

		for (unsigned k = 0; k < 3; k++)
			if (unit_submit(handle, &iocbs[k]) != 1 ||
			    take_from_ring(handle) != 1)
				return 2;
	}
	uaio_counters_read(&counters);
	if (counters.nr_inline != 300 || counters.nr_worker)
		return 3;
	if (unit_engine_threads(NULL))
		return 4;
	return 0;
}

static void
what_is_ready_is_executed_by_the_submitter_without_a_thread(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(execute_what_is_ready), 0);
}

/* The times that a test has measured in its rounds */

static struct times times;

static void begin(void)
{
	times.nr = 0;
	open_pipe(4);
}

static void end(void)
{
	assert_median_below_ms(&times, AT_ONCE_MS);
	close_pipe();
}

static void submit_two_reads(char bytes[2])
{
	submit_read_of_byte(&bytes[0]);
	submit_read_of_byte(&bytes[1]);
}

static void start_asleep(struct unit_thread *thread, long (*function)(void *),
			 void *arg)
{
	unit_thread_start(thread, function, arg);
	unit_await_sleep(thread);
}

/*
 * Write text while the thread sleeps, and measure the time until the thread has
 * returned.
 */
static void wake(struct unit_thread *thread, const char *text, long ret)
{
	int64_t since = uaio_now_ns();

	put_text(text);
	assert_int_equal(unit_thread_join(thread), ret);
	add_time(&times, since);
}

/* Threads that sleep in io_getevents() or io_pgetevents() */

struct waiting {
	uint64_t handle;
	const sigset_t *mask;
	struct timespec *timeout;
};

static long wait_for_one(void *arg)
{
	struct waiting *waiting = arg;
	struct uaio_aio_sigset set = { waiting->mask, 8 };
	struct uaio_event event;
	long ret;

	ret = uaio_aio_pgetevents(waiting->handle, 1, 1, &event,
				  waiting->timeout,
				  waiting->mask ? &set : NULL);
	return ret == 1 ? event.res : ret;
}

static void serve_sleepers(const sigset_t *mask)
{
	begin();
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct waiting waiting = { handle, mask, NULL };
		struct unit_thread thread;
		char byte;

		submit_read_of_byte(&byte);
		start_asleep(&thread, wait_for_one, &waiting);
		wake(&thread, "x", 1);
	}
	end();
}

static void a_waiter_asleep_is_served_at_once(void **state)
{
	(void)state;
	serve_sleepers(NULL);
}

static void a_masked_waiter_asleep_is_served_at_once(void **state)
{
	sigset_t mask;

	(void)state;
	sigemptyset(&mask);
	serve_sleepers(&mask);
}

/*
 * The thread begins to wait some time after the submission, when the fallback thread
 * checks the request only rarely. In odd rounds the byte is in the pipe before the
 * thread begins to wait, in even rounds it comes afterwards.
 */
static void a_waiter_that_comes_late_is_served_at_once(void **state)
{
	static const int64_t aways_us[] = { 0, 500, 2000, 10000, 30000 };

	(void)state;
	begin();
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct waiting waiting = { .handle = handle };
		struct unit_thread thread;
		int64_t since;
		char byte;

		submit_read_of_byte(&byte);
		stay_away_us(aways_us[i % NR_ELEMENTS(aways_us)]);
		if (i % 2) {
			put_text("x");
			since = uaio_now_ns();
			assert_int_equal(unit_reap_one(handle), 1);
			add_time(&times, since);
		} else {
			start_asleep(&thread, wait_for_one, &waiting);
			wake(&thread, "x", 1);
		}
	}
	end();
}

static void a_waiter_for_two_is_served_with_the_second(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct unit_thread thread;
		char bytes[2];

		submit_two_reads(bytes);
		if (i % 2)
			put_text("a");
		start_asleep(&thread, reap_two, NULL);
		if (i % 2 == 0) {
			put_text("a");
			unit_await_sleep(&thread);
		}
		wake(&thread, "b", 2);
		assert_memory_equal(bytes, "ab", 2);
	}
	end();
}

/*
 * A thread sleeps in io_getevents(), while the context has no request, or only a poll
 * of another pipe, which stays empty. Then the test's thread submits a request to the
 * same context. The event of the new request must wake the sleeping thread.
 */
static void a_request_submitted_beside_a_sleeper_wakes_it(void **state)
{
	int others[2];
	sigset_t mask;

	(void)state;
	assert_int_equal(pipe2(others, O_CLOEXEC), 0);
	sigemptyset(&mask);
	for (unsigned kind = 0; kind < 4; kind++) {
		struct iocb other = unit_iocb(IOCB_CMD_POLL, others[0],
					      (void *)POLLIN, 0, 0);

		begin();
		if (kind & 1)
			assert_int_equal(unit_submit(handle, &other), 1);
		for (unsigned i = 0; i < ROUNDS; i++) {
			struct waiting waiting = { .handle = handle };
			struct unit_thread thread;
			char byte;

			waiting.mask = kind & 2 ? &mask : NULL;
			start_asleep(&thread, wait_for_one, &waiting);
			submit_read_of_byte(&byte);
			if (i % 2)
				unit_await_sleep(&thread);
			wake(&thread, "x", 1);
		}
		end();
	}
	unit_close(others[0]);
	unit_close(others[1]);
}

/* Clients that call no function of the library after submitting */

/*
 * The client waits for the eventfd fd. If fd is -1, the client looks at its event ring in
 * memory instead.
 */
static void serve_who_makes_no_call(int fd)
{
	struct pollfd slot = { .fd = fd, .events = POLLIN };

	times.nr = 0;
	for (unsigned i = 0; i < SLOW_ROUNDS; i++) {
		struct iocb iocb;
		uint64_t count;
		int64_t since;
		char byte;

		/* each round has a pipe that the library has not seen */
		open_pipe(4);
		iocb = read_of_byte(&byte);
		iocb.aio_flags = fd < 0 ? 0 : IOCB_FLAG_RESFD;
		iocb.aio_resfd = fd < 0 ? 0 : (uint32_t)fd;
		assert_int_equal(unit_submit(handle, &iocb), 1);
		/*
		 * In odd rounds, let the fallback thread try the request first, without
		 * success.
		 */
		if (i % 2)
			stay_away_us(5000);
		since = uaio_now_ns();
		put_text("x");
		if (fd >= 0) {
			assert_int_equal(poll(&slot, 1, -1), 1);
			add_time(&times, since);
			assert_int_equal(read(fd, &count, 8), 8);
			assert_int_equal(count, 1);
		}
		assert_int_equal(take_from_ring(handle), 1);
		if (fd < 0)
			add_time(&times, since);
		close_pipe();
	}
	assert_median_below_ms(&times, LATER_MS);
}

static void a_client_that_only_looks_at_its_ring_is_served(void **state)
{
	(void)state;
	serve_who_makes_no_call(-1);
}

static void a_client_that_only_looks_at_its_eventfd_is_served(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	(void)state;
	serve_who_makes_no_call(fd);
	unit_close(fd);
}

/* Two waiters */

struct served {
	struct waiting waiting;
	uint32_t is_over; /* atomic */
};

static long wait_and_tell(void *arg)
{
	struct served *served = arg;
	long ret = wait_for_one(&served->waiting);

	store_release(&served->is_over, 1);
	return ret;
}

static bool is_one_over(void *arg)
{
	struct served *served = arg;

	return load_acquire(&served[0].is_over) ||
	       load_acquire(&served[1].is_over);
}

static void each_of_two_waiters_has_one_event(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct served served[2] = { { .waiting.handle = handle },
					    { .waiting.handle = handle } };
		struct unit_thread threads[2];
		unsigned other;
		char bytes[2];
		int64_t since;

		for (unsigned k = 0; k < 2; k++) {
			submit_read_of_byte(&bytes[k]);
			start_asleep(&threads[k], wait_and_tell, &served[k]);
		}
		since = uaio_now_ns();
		put_text("a");
		unit_await(is_one_over, served);
		add_time(&times, since);
		/*
		 * The first thread has returned. The second is still asleep, but must
		 * wake and return too.
		 */
		other = load_acquire(&served[0].is_over);
		assert_int_equal(unit_thread_join(&threads[!other]), 1);
		unit_await_sleep(&threads[other]);
		assert_false(load_acquire(&served[other].is_over));
		wake(&threads[other], "b", 1);
		assert_memory_equal(bytes, "ab", 2);
	}
	end();
}

static void a_waiter_is_served_after_another_gave_up(void **state)
{
	struct timespec moment = { 0, 3000000 };

	(void)state;
	begin();
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct waiting brief = { handle, NULL, &moment };
		struct waiting waiting = { .handle = handle };
		struct unit_thread first, second;
		char byte;

		submit_read_of_byte(&byte);
		start_asleep(&first, wait_for_one, &brief);
		unit_thread_start(&second, wait_for_one, &waiting);
		assert_int_equal(unit_thread_join(&first), 0);
		unit_await_sleep(&second);
		wake(&second, "x", 1);
	}
	end();
}

/*
 * Two contexts have reads of one socket. No thread waits for the context with the older
 * read, but that read must complete first.
 */
static void the_older_read_of_another_context_is_served_first(void **state)
{
	uint64_t idle;

	(void)state;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	handle = unit_context(4);
	idle = unit_context(4);
	times.nr = 0;
	for (unsigned i = 0; i < SLOW_ROUNDS; i++) {
		struct served served = { .waiting.handle = handle };
		struct unit_thread thread;
		char bytes[2] = "";
		struct iocb iocb = read_of_byte(&bytes[0]);

		assert_int_equal(unit_submit(idle, &iocb), 1);
		submit_read_of_byte(&bytes[1]);
		start_asleep(&thread, wait_and_tell, &served);
		if (i % 2) {
			put_text("a");
			assert_int_equal(take_from_ring(idle), 1);
			unit_await_sleep(&thread);
			assert_false(unit_is_set(&served.is_over));
		}
		wake(&thread, i % 2 ? "b" : "ab", 1);
		if (i % 2 == 0)
			assert_int_equal(take_from_ring(idle), 1);
		assert_memory_equal(bytes, "ab", 2);
	}
	unit_destroy(idle);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(
			what_is_ready_is_executed_by_the_submitter_without_a_thread),
		UNIT_TEST(a_waiter_asleep_is_served_at_once),
		UNIT_TEST(a_masked_waiter_asleep_is_served_at_once),
		UNIT_TEST(a_waiter_that_comes_late_is_served_at_once),
		UNIT_TEST(a_waiter_for_two_is_served_with_the_second),
		UNIT_TEST(a_request_submitted_beside_a_sleeper_wakes_it),
		UNIT_TEST(a_client_that_only_looks_at_its_ring_is_served),
		UNIT_TEST(a_client_that_only_looks_at_its_eventfd_is_served),
		UNIT_TEST(each_of_two_waiters_has_one_event),
		UNIT_TEST(a_waiter_is_served_after_another_gave_up),
		UNIT_TEST(the_older_read_of_another_context_is_served_first),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
