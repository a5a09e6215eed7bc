/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "aio/aio.h"
#include "ready/test-ready.h"

static void a_read_waits_for_the_writer(void **state)
{
	char buffer[8];
	struct iocb iocb;

	(void)state;
	open_pipe(4);
	iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], buffer, sizeof(buffer), 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	put_text("abc");
	assert_int_equal(unit_reap_one(handle), 3);
	assert_memory_equal(buffer, "abc", 3);
	close_pipe();
}

static void reads_are_served_in_order(void **state)
{
	enum { NR = 50 };
	char bytes[NR], all[NR];
	struct io_event events[NR];
	struct iocb iocbs[NR];

	(void)state;
	for (unsigned round = 0; round < unit_rounds(100); round++) {
		open_pipe(NR);
		for (unsigned i = 0; i < NR; i++) {
			iocbs[i] = unit_iocb(IOCB_CMD_PREAD, ends[0], &bytes[i],
					     1, 0);
			iocbs[i].aio_data = i;
			assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
		}
		for (unsigned i = 0; i < NR; i++) {
			all[i] = (char)i;
			assert_int_equal(write(ends[1], &all[i], 1), 1);
		}
		assert_int_equal(unit_reap(handle, NR, events), NR);
		assert_memory_equal(bytes, all, NR);
		close_pipe();
	}
}

static void a_write_waits_for_room_and_is_executed_in_full(void **state)
{
	enum { BYTES = 1 << 20 };
	static char out[BYTES], in[BYTES];
	struct iocb iocb;
	ssize_t got = 0;

	(void)state;
	open_pipe(4);
	for (unsigned i = 0; i < BYTES; i++)
		out[i] = (char)(i * 7 >> 3);
	iocb = unit_iocb(IOCB_CMD_PWRITE, ends[1], out, BYTES, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	while (got < BYTES) {
		ssize_t part = read(ends[0], in + got, (size_t)(BYTES - got));

		assert_true(part > 0);
		got += part;
	}
	assert_int_equal(unit_reap_one(handle), BYTES);
	assert_memory_equal(in, out, BYTES);
	close_pipe();
}

static void the_end_of_the_writer_ends_a_read(void **state)
{
	char byte;
	struct iocb iocb;

	(void)state;
	open_pipe(4);
	iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	unit_close(ends[1]);
	assert_int_equal(unit_reap_one(handle), 0);
	store_relaxed(&ends[1], dup(ends[0]));
	close_pipe();
}

static void a_poll_reports_what_became_ready(void **state)
{
	struct iocb iocb;

	(void)state;
	open_pipe(4);
	iocb = unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	put_text("x");
	assert_int_equal(unit_reap_one(handle), POLLIN);
	iocb.aio_fildes = (uint32_t)ends[1];
	iocb.aio_buf = POLLOUT;
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(unit_reap_one(handle), POLLOUT);
	close_pipe();
}

static void a_parked_request_is_cancelled_with_one_event(void **state)
{
	char byte;
	struct iocb iocb;

	(void)state;
	open_pipe(4);
	for (unsigned i = 0; i < 100; i++) {
		iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
		assert_int_equal(unit_submit(handle, &iocb), 1);
		assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINPROGRESS);
		assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINVAL);
		assert_int_equal(unit_reap_one(handle), -ECANCELED);

		iocb = unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
		assert_int_equal(unit_submit(handle, &iocb), 1);
		assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINPROGRESS);
		assert_int_equal(unit_reap_one(handle), 0);
	}
	/* The library must not have a request any more that consumes this byte. */
	put_text("x");
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close_pipe();
}

static void destroy_does_not_wait_for_files_that_are_never_ready(void **state)
{
	static char bytes[100];
	struct iocb iocb;

	(void)state;
	open_pipe(100);
	for (unsigned i = 0; i < 100; i++) {
		iocb = i % 2 ? unit_iocb(IOCB_CMD_PREAD, ends[0], &bytes[i], 1,
					 0)
			     : unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN,
					 0, 0);
		assert_int_equal(unit_submit(handle, &iocb), 1);
	}
	close_pipe();
}

static void a_closed_descriptor_leaves_its_requests_their_file(void **state)
{
	char bytes[4];
	struct io_event events[4];
	struct iocb iocb;
	int other;

	(void)state;
	for (unsigned round = 0; round < unit_rounds(300); round++) {
		open_pipe(4);
		for (unsigned i = 0; i < 4; i++) {
			iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &bytes[i], 1,
					 0);
			assert_int_equal(unit_submit(handle, &iocb), 1);
		}
		/* The descriptor now refers to a file that is always ready. */
		other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		unit_dup2(other, ends[0]);
		put_text("abcd");
		assert_int_equal(unit_reap(handle, 4, events), 4);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(events[i].res, 1);
		assert_memory_equal(bytes, "abcd", 4);
		unit_close(other);
		close_pipe();
	}
}

enum { NR_EPOLL_PWAIT2 = 441 };

/*
 * A thread has added the pipe to the epoll, and is about to sleep there; the hook stops
 * it. Meanwhile the pipe's descriptor is closed, and reused for a file that is ready.
 * The poll must not report that file's events.
 */
static struct {
	uint32_t is_armed;  /* atomic */
	uint32_t is_known;  /* atomic */
	uint32_t has_begun; /* atomic */
	uint32_t may_go_on; /* atomic */
} interval;

static bool hold_poll(long nr, const long args[6], long *ret_res)
{
	uint32_t armed = 1;

	(void)ret_res;
	/*
	 * Now the epoll contains the pipe. The hook stops the next thread that waits in
	 * an epoll.
	 */
	if (nr == SYS_epoll_ctl && is_end(0, args[2]))
		store_relaxed(&interval.is_known, 1);
	if (nr != NR_EPOLL_PWAIT2 || !load_relaxed(&interval.is_known) ||
	    !__atomic_compare_exchange_n(&interval.is_armed, &armed, 0, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return false;
	store_release(&interval.has_begun, 1);
	while (!load_acquire(&interval.may_go_on))
		(void)uaio_sys_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	return false;
}

static void arm_interval(void)
{
	store_relaxed(&interval.is_known, 0);
	store_relaxed(&interval.has_begun, 0);
	store_relaxed(&interval.may_go_on, 0);
	store_release(&interval.is_armed, 1);
	unit_hook(hold_poll);
}

static void a_poll_never_reports_another_files_events(void **state)
{
	struct timespec moment = { 0, 100000000 };
	struct uaio_event event;
	struct iocb iocb;
	int ready;

	(void)state;
	open_pipe(4);
	ready = eventfd(1, EFD_CLOEXEC);
	arm_interval();
	iocb = unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	unit_await(unit_is_set, &interval.has_begun);
	unit_dup2(ready, ends[0]);
	store_release(&interval.may_go_on, 1);
	assert_int_equal(uaio_aio_getevents(handle, 1, 1, &event, &moment), 0);
	put_text("x");
	assert_int_equal(unit_reap_one(handle), POLLIN);
	unit_close(ready);
	close_pipe();
}

static void a_poll_survives_the_end_of_its_number(void **state)
{
	struct timespec moment = { 0, 100000000 };
	struct uaio_event event;
	struct iocb iocb;

	(void)state;
	open_pipe(4);
	arm_interval();
	iocb = unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	unit_await(unit_is_set, &interval.has_begun);
	unit_close(ends[0]);
	store_release(&interval.may_go_on, 1);
	assert_int_equal(uaio_aio_getevents(handle, 1, 1, &event, &moment), 0);
	put_text("x");
	assert_int_equal(unit_reap_one(handle), POLLIN);
	store_relaxed(&ends[0], dup(ends[1]));
	close_pipe();
}

/*
 * A thread submits a poll, which wakes the fallback thread. When the thread then waits
 * for events, it tries the poll itself. Meanwhile the fallback thread decides which
 * files to add to the epoll. The delay before the wait varies, so that in some rounds
 * both happen at the same time.
 */
static uint32_t looker; /* atomic: thread id */

static bool look_long(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr == SYS_ppoll && load_relaxed(&looker) == (uint32_t)sys_gettid())
		for (int64_t end = uaio_now_ns() + 3000; uaio_now_ns() < end;)
			;
	return false;
}

static long await_poll(void *arg)
{
	static unsigned delay_ns;
	int64_t end;

	if (unit_submit(handle, arg) != 1)
		return -1;
	store_relaxed(&looker, (uint32_t)sys_gettid());
	delay_ns = (delay_ns + 37) % 40000;
	for (end = uaio_now_ns() + delay_ns; uaio_now_ns() < end;)
		;
	return unit_reap_one(handle);
}

static void a_stream_that_a_caller_tried_is_watched_again(void **state)
{
	struct unit_thread waiter;
	struct iocb iocb;
	int64_t start;
	char byte;

	(void)state;
	open_pipe(4);
	iocb = unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
	unit_hook(look_long);
	for (unsigned i = 0; i < unit_rounds(5000); i++) {
		store_relaxed(&looker, 0);
		unit_thread_start(&waiter, await_poll, &iocb);
		/*
		 * The sleeping thread no longer tries the poll itself, so its epoll
		 * must report the byte.
		 */
		unit_await_sleep(&waiter);
		start = uaio_now_ns();
		put_text("x");
		assert_int_equal(unit_thread_join(&waiter), POLLIN);
		/*
		 * If the epoll did not report the byte, only the fallback thread would
		 * find it: while idle, it tries the poll every five seconds.
		 */
		assert_true(uaio_now_ns() - start < 4000000000);
		assert_int_equal(read(ends[0], &byte, 1), 1);
	}
	unit_hook(NULL);
	close_pipe();
}

/*
 * The data for an older read has arrived, but the thread that executes this read is
 * stopped before its read call. Then a younger read is submitted, which must get the
 * data that follow those of the older read.
 */
static struct {
	/* atomic: the only thread that the hook does not stop */
	uint32_t tid;
	uint32_t is_held; /* atomic */
	uint32_t goes_on; /* atomic */
} trying;

static bool hold_try(long nr, const long args[6], long *ret_res)
{
	uint32_t tid = load_relaxed(&trying.tid);

	(void)ret_res;
	if (nr != SYS_preadv2 || !is_end(0, args[0]) ||
	    tid == (uint32_t)gettid())
		return false;
	store_release(&trying.is_held, 1);
	while (!load_acquire(&trying.goes_on))
		sched_yield();
	return false;
}

static bool is_trying(void *arg)
{
	(void)arg;
	return load_acquire(&trying.is_held);
}

static void
a_read_that_could_be_executed_waits_behind_an_older_one(void **state)
{
	char bytes[2] = "";
	struct io_event events[2];
	struct iocb iocbs[2];

	(void)state;
	open_pipe(4);
	store_relaxed(&trying.is_held, 0);
	store_relaxed(&trying.goes_on, 0);
	store_relaxed(&trying.tid, (uint32_t)gettid());
	for (unsigned i = 0; i < 2; i++)
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, ends[0], &bytes[i], 1, 0);
	assert_int_equal(unit_submit(handle, &iocbs[0]), 1);
	unit_hook(hold_try);
	put_text("ab");
	unit_await(is_trying, NULL);
	assert_int_equal(unit_submit(handle, &iocbs[1]), 1);
	store_release(&trying.goes_on, 1);
	assert_int_equal(unit_reap(handle, 2, events), 2);
	assert_memory_equal(bytes, "ab", 2);
	unit_hook(NULL);
	close_pipe();
}

static void many_parked_requests_are_all_served(void **state)
{
	enum { NR = 3000 };
	static char bytes[NR];
	static struct io_event events[NR];
	struct iocb iocb;

	(void)state;
	open_pipe(NR);
	for (unsigned i = 0; i < NR; i++) {
		iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &bytes[i], 1, 0);
		assert_int_equal(unit_submit(handle, &iocb), 1);
	}
	assert_int_equal(write(ends[1], bytes, NR), NR);
	assert_int_equal(unit_reap(handle, NR, events), NR);
	close_pipe();
}

/* Both reads and writes wait on one end of a socket pair. */
static void both_directions_of_a_socket_wait_apart(void **state)
{
	enum { BYTES = 1 << 20 };
	static char out[BYTES], in[BYTES];
	struct io_event events[2];
	struct iocb receive, send;
	ssize_t got = 0;
	int fds[2];

	(void)state;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	set_ends(fds);
	handle = unit_context(4);
	receive = unit_iocb(IOCB_CMD_PREAD, ends[0], in, 5, 0);
	send = unit_iocb(IOCB_CMD_PWRITE, ends[0], out, BYTES, 0);
	assert_int_equal(unit_submit(handle, &receive), 1);
	assert_int_equal(unit_submit(handle, &send), 1);
	while (got < BYTES)
		got += read(ends[1], out, (size_t)(BYTES - got));
	assert_int_equal(unit_reap_one(handle), BYTES);
	put_text("hello");
	assert_int_equal(unit_reap(handle, 1, events), 1);
	assert_int_equal(events[0].res, 5);
	assert_memory_equal(in, "hello", 5);
	close_pipe();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_read_waits_for_the_writer),
		UNIT_TEST(reads_are_served_in_order),
		UNIT_TEST(a_write_waits_for_room_and_is_executed_in_full),
		UNIT_TEST(the_end_of_the_writer_ends_a_read),
		UNIT_TEST(a_poll_reports_what_became_ready),
		UNIT_TEST(a_parked_request_is_cancelled_with_one_event),
		UNIT_TEST(destroy_does_not_wait_for_files_that_are_never_ready),
		UNIT_TEST(a_closed_descriptor_leaves_its_requests_their_file),
		UNIT_TEST(a_poll_never_reports_another_files_events),
		UNIT_TEST(a_poll_survives_the_end_of_its_number),
		UNIT_TEST(a_stream_that_a_caller_tried_is_watched_again),
		UNIT_TEST(
			a_read_that_could_be_executed_waits_behind_an_older_one),
		UNIT_TEST(many_parked_requests_are_all_served),
		UNIT_TEST(both_directions_of_a_socket_wait_apart),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
