/* SPDX-License-Identifier: MIT */
/*
 * Tests that a request waits for the same stream until it completes. That holds even if
 * the program forks, closes the stream's descriptor, or reuses the descriptor for
 * another stream.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/sleep.h"
#include "proc/entry.h"
#include "file/file.h"
#include "ready/test-ready.h"

enum { AT_ONCE_MS = 500 };

/* another pipe, which may get the descriptor of the first */
static int others[2];

/* A thread that takes events, and sleeps whenever there are none. */
enum { NR_SLOTS = 8 };

static struct {
	struct unit_thread thread;
	uint32_t nr_done; /* atomic */
	char bytes[NR_SLOTS];
	int64_t res[NR_SLOTS];
} reaper;

enum { QUIT = 1000 };

static long reap(void *arg)
{
	(void)arg;
	for (;;) {
		struct io_event event;

		if (unit_reap(handle, 1, &event) != 1)
			return -1;
		if (event.data == QUIT)
			return 0;
		reaper.res[event.data] = (int64_t)event.res;
		add_seq_cst(&reaper.nr_done, 1);
	}
}

static bool are_done(void *arg)
{
	return load_acquire(&reaper.nr_done) >= *(uint32_t *)arg;
}

static void submit_read(int fd, unsigned slot)
{
	struct iocb iocb =
		unit_iocb(IOCB_CMD_PREAD, fd, &reaper.bytes[slot], 1, 0);

	iocb.aio_data = slot;
	assert_int_equal(unit_submit(handle, &iocb), 1);
}

static void start_reaper(void)
{
	store_relaxed(&reaper.nr_done, 0);
	unit_thread_start(&reaper.thread, reap, NULL);
}

/*
 * Make the reaper thread end: submit a read from /dev/zero, which completes at once.
 * The data of its event are QUIT.
 */
static void stop_reaper(void)
{
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct iocb iocb;
	char byte;

	iocb = unit_iocb(IOCB_CMD_PREAD, zero, &byte, 1, 0);
	iocb.aio_data = QUIT;
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(unit_thread_join(&reaper.thread), 0);
	unit_close(zero);
}

static void open_both(bool are_sockets)
{
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(
			are_sockets ? socketpair(AF_UNIX,
						 SOCK_STREAM | SOCK_CLOEXEC, 0,
						 i ? others : ends)
				    : pipe2(i ? others : ends, O_CLOEXEC),
			0);
}

/*
 * What happens to the pipe's descriptor. After REPLACED and USED_AGAIN, later reads by
 * that descriptor are reads of the other pipe.
 */
enum fate { CLOSED, ZERO, REPLACED, USED_AGAIN, NR_FATES };

static void befall(enum fate fate)
{
	int copy;

	switch (fate) {
	case CLOSED: unit_close(ends[0]); break;
	case ZERO:
		copy = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		unit_dup2(copy, ends[0]);
		unit_close(copy);
		break;
	case REPLACED: unit_dup2(others[0], ends[0]); break;
	default:
		copy = dup(others[0]);
		assert_true(copy > ends[0]);
		unit_close(ends[0]);
		/*
		 * dup() returns the lowest unused descriptor, which is the one just
		 * closed.
		 */
		assert_int_equal(dup(others[0]), ends[0]);
		unit_close(copy);
	}
}

/*
 * Two reads wait for one pipe. Then the pipe's descriptor is closed, and perhaps reused
 * for another file.
 */
static void live_through(enum fate fate, bool is_armed, bool is_other_first)
{
	bool has_heir = fate >= REPLACED;
	uint32_t want = has_heir ? 4 : 2;

	store_relaxed(&reaper.nr_done, 0);
	memset(reaper.bytes, 0, sizeof(reaper.bytes));
	submit_read(ends[0], 0);
	submit_read(ends[0], 1);
	if (is_armed)
		unit_await_sleep(&reaper.thread);
	befall(fate);
	if (has_heir) {
		submit_read(ends[0], 2);
		submit_read(ends[0], 3);
		if (is_other_first)
			assert_int_equal(write(others[1], "34", 2), 2);
	}
	put_text("12");
	if (has_heir && !is_other_first)
		assert_int_equal(write(others[1], "34", 2), 2);
	unit_await(are_done, &want);
	assert_memory_equal(reaper.bytes, has_heir ? "1234" : "12", want);
	for (unsigned i = 0; i < want; i++)
		assert_int_equal(reaper.res[i], 1);
}

static void parked_requests_stay_with_their_stream(void **state)
{
	struct times times = { 0 };
	unsigned nr = unit_rounds(3000);

	(void)state;
	handle = unit_context(NR_SLOTS);
	start_reaper();
	for (unsigned i = 0; i < nr; i++) {
		enum fate fate = i % NR_FATES;
		int64_t since;

		open_both(i & 16);
		since = uaio_now_ns();
		live_through(fate, i & 4, i & 8);
		if (times.nr < NR_ELEMENTS(times.ns))
			add_time(&times, since);
		if (fate != CLOSED)
			unit_close(ends[0]);
		unit_close(ends[1]);
		unit_close(others[0]);
		unit_close(others[1]);
	}
	stop_reaper();
	assert_median_below_ms(&times, AT_ONCE_MS);
	unit_destroy(handle);
}

/*
 * A stream has two descriptors, and one is closed. The requests must complete as long
 * as the other descriptor is open.
 */
static void a_stream_with_two_numbers_is_one_stream(void **state)
{
	(void)state;
	handle = unit_context(NR_SLOTS);
	start_reaper();
	for (unsigned i = 0; i < unit_rounds(300); i++) {
		uint32_t want = 2;
		int copy;

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		copy = dup(ends[0]);
		store_relaxed(&reaper.nr_done, 0);
		submit_read(ends[0], 0);
		if (i & 1)
			unit_await_sleep(&reaper.thread);
		submit_read(copy, 1);
		unit_close(i & 2 ? copy : ends[0]);
		put_text("ab");
		unit_await(are_done, &want);
		/*
		 * Two requests by different descriptors may complete in either order.
		 */
		assert_int_equal(reaper.bytes[0] + reaper.bytes[1], 'a' + 'b');
		unit_close(i & 2 ? ends[0] : copy);
		unit_close(ends[1]);
	}
	stop_reaper();
	unit_destroy(handle);
}

/*
 * First all descriptors of the stream are closed, then those of its other end. The
 * parked reads must complete as read(2) would.
 */
static void the_end_of_the_peer_is_told_after_the_number_is_gone(void **state)
{
	(void)state;
	handle = unit_context(NR_SLOTS);
	start_reaper();
	for (unsigned i = 0; i < unit_rounds(300); i++) {
		uint32_t want = 2;

		open_both(i & 1);
		store_relaxed(&reaper.nr_done, 0);
		submit_read(ends[0], 0);
		submit_read(ends[0], 1);
		if (i & 2)
			unit_await_sleep(&reaper.thread);
		unit_close(ends[0]);
		unit_close(ends[1]);
		unit_await(are_done, &want);
		assert_int_equal(reaper.res[0], 0);
		assert_int_equal(reaper.res[1], 0);
		unit_close(others[0]);
		unit_close(others[1]);
	}
	stop_reaper();
	unit_destroy(handle);
}

/*
 * When all requests that waited for a stream are complete, the library must not keep
 * the stream open.
 */
static void a_stream_nobody_waits_for_is_let_go(void **state)
{
	(void)state;
	handle = unit_context(NR_SLOTS);
	start_reaper();
	for (unsigned i = 0; i < unit_rounds(100); i++) {
		uint32_t want = 1;

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		store_relaxed(&reaper.nr_done, 0);
		submit_read(ends[0], 0);
		unit_await_sleep(&reaper.thread);
		if (i & 1)
			unit_close(ends[0]);
		put_text("x");
		unit_await(are_done, &want);
		if (!(i & 1))
			unit_close(ends[0]);
		/*
		 * Now nobody must have the reading end open, not even the library. Then
		 * poll() of the writing end reports POLLERR, at once or soon.
		 */
		assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
		for (;;) {
			struct pollfd slot = { .fd = ends[1] };

			assert_true(poll(&slot, 1, 10) >= 0);
			if (slot.revents & POLLERR)
				break;
		}
		unit_close(ends[1]);
	}
	stop_reaper();
	unit_destroy(handle);
}

/* Processes */

static long wait_for_one(void *arg)
{
	return unit_reap_one(arg ? *(uint64_t *)arg : handle);
}

/*
 * The child completes reads from its own pipe, then writes a byte for the parent's
 * read.
 */
static int live_as_child(void)
{
	uint64_t context;
	struct iocb iocb;
	char byte;

	if (unit_engine(NULL) < 0)
		return 1;
	context = unit_context(4);
	for (unsigned i = 0; i < 20; i++) {
		iocb = unit_iocb(IOCB_CMD_PREAD, others[0], &byte, 1, 0);
		if (unit_submit(context, &iocb) != 1)
			return 2;
		if (write(others[1], "x", 1) != 1)
			return 3;
		/*
		 * In the first two rounds the child only looks at its ring in memory,
		 * so the fallback thread must execute the read.
		 */
		if ((i < 2 ? take_from_ring(context)
			   : unit_reap_one(context)) != 1)
			return 4;
	}
	/*
	 * The child closes its copy of the pipe's reading end. The parent's read must go on
	 * waiting all the same.
	 */
	unit_close(ends[0]);
	if (write(ends[1], "c", 1) != 1)
		return 5;
	unit_destroy(context);
	return 0;
}

static void parent_and_child_wait_for_their_own_requests(void **state)
{
	enum { ROUNDS = 10 };

	(void)state;
	/*
	 * Sanitizers do not support a child that starts threads after fork() in a
	 * process with threads.
	 */
	if (UNIT_IS_SANITIZED)
		skip();
	open_both(false);
	handle = unit_context(4);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct unit_thread waiter;
		char bytes[2] = "";
		int64_t since;

		for (unsigned k = 0; k < 2; k++)
			submit_read_of_byte(&bytes[k]);
		unit_thread_start(&waiter, wait_for_one, NULL);
		unit_await_sleep(&waiter);
		assert_int_equal(unit_in_child(live_as_child), 0);
		assert_int_equal(unit_thread_join(&waiter), 1);
		since = uaio_now_ns();
		put_text("p");
		assert_int_equal(unit_reap_one(handle), 1);
		assert_true(uaio_now_ns() - since < 4000000000);
		assert_memory_equal(bytes, "cp", 2);
	}
	unit_close(others[0]);
	unit_close(others[1]);
	close_pipe();
}

/*
 * The parent has closed a stream, and has no requests for it any more, but a child has
 * the stream open. Data that arrives in this stream must not wake a thread that sleeps
 * in the same context.
 */
static void a_stream_that_only_a_child_has_open_wakes_nobody(void **state)
{
	enum { WRITES = 50, FEW = 10 };
	struct unit_thread waiter;
	struct iocb iocb;
	uint64_t before;
	char byte;
	pid_t pid;
	int status;

	(void)state;
	open_both(false);
	handle = unit_context(NR_SLOTS);
	/*
	 * First a thread sleeps until the stream is ready. For this sleep the library
	 * adds the stream to the epoll.
	 */
	iocb = read_of_byte(&byte);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	unit_thread_start(&waiter, wait_for_one, NULL);
	unit_await_sleep(&waiter);
	put_text("x");
	assert_int_equal(unit_thread_join(&waiter), 1);

	iocb.aio_fildes = (uint32_t)others[0];
	assert_int_equal(unit_submit(handle, &iocb), 1);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* When the parent closes the last writing end, the child ends. */
		(void)close(ends[1]);
		(void)close(others[1]);
		while (read(ends[0], &byte, 1) == 1)
			;
		_exit(0);
	}
	unit_close(ends[0]);
	unit_thread_start(&waiter, wait_for_one, NULL);
	unit_await_sleep(&waiter);
	before = unit_thread_sleeps(&waiter);
	for (unsigned i = 0; i < WRITES; i++) {
		put_text("x");
		unit_await_sleep(&waiter);
	}
	unit_close(ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_in_range(unit_thread_sleeps(&waiter) - before, 0, FEW);
	assert_int_equal(write(others[1], "x", 1), 1);
	assert_int_equal(unit_thread_join(&waiter), 1);
	unit_destroy(handle);
	unit_close(others[0]);
	unit_close(others[1]);
}

static int end_with_a_thousand(void)
{
	enum { NR = 1000 };
	static char bytes[NR];
	struct unit_thread waiter;
	int64_t since;

	if (unit_engine(NULL) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return 1;
	handle = unit_context(NR);
	for (unsigned i = 0; i < NR; i++) {
		struct iocb iocb = read_of_byte(&bytes[i]);

		if (unit_submit(handle, &iocb) != 1)
			return 2;
	}
	unit_thread_start(&waiter, wait_for_one, NULL);
	unit_await_sleep(&waiter);
	since = uaio_now_ns();
	if (!uaio_enter())
		return 3;
	uaio_engine_exiting();
	uaio_leave();
	return uaio_now_ns() - since < 10000000000 ? 0 : 4;
}

static void a_process_ends_at_once_whatever_waits(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(end_with_a_thousand), 0);
}

/*
 * A regular file is always ready. Nevertheless a poll of it may be parked if its
 * descriptor referred to a stream just before. The poll must not leave the file's count
 * of running calls (nr_using) above 0: a thread that closes the file would wait for
 * ever.
 */
static uint32_t is_ready; /* atomic */

static bool not_ready_once(long nr, const long args[6], long *ret_res)
{
	const struct pollfd *slot = (const struct pollfd *)args[0];

	if (nr != SYS_ppoll || args[1] != 1 || slot->fd != others[0] ||
	    xchg_acquire(&is_ready, 1))
		return false;
	*ret_res = 0;
	return true;
}

static void a_poll_of_a_regular_file_leaves_nothing_in_use(void **state)
{
	struct iocb iocb;

	(void)state;
	handle = unit_context(4);
	others[0] = unit_numbered_file(false, 1);
	store_relaxed(&is_ready, 0);
	unit_hook(not_ready_once);
	iocb = unit_iocb(IOCB_CMD_POLL, others[0], (void *)POLLIN, 0, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(unit_reap_one(handle), POLLIN);
	unit_hook(NULL);
	assert_int_equal(load_relaxed(&uaio_file_find(others[0])->nr_using), 0);
	unit_destroy(handle);
	unit_close(others[0]);
}

/* Return: a new message queue, which exists until its descriptors are closed. */
static int open_queue(void)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	char name[64];
	mqd_t queue;

	(void)snprintf(name, sizeof(name), "/uaio-ready-file-%d", getpid());
	queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600,
			&attr);
	assert_true(queue >= 0);
	assert_int_equal(mq_unlink(name), 0);
	return queue;
}

/*
 * For the kernel a POSIX message queue is a regular file. But unlike other regular
 * files, it is not always ready.
 */
static void polls_of_a_queue_wait_on_when_its_number_is_gone(void **state)
{
	(void)state;
	handle = unit_context(4);
	for (unsigned i = 0; i < 8; i++) {
		int queue = open_queue(), copy = dup(queue);
		struct unit_thread waiter;
		struct iocb iocb;

		for (unsigned k = 0; k <= i % 2; k++) {
			iocb = unit_iocb(IOCB_CMD_POLL, queue, (void *)POLLIN,
					 0, 0);
			assert_int_equal(unit_submit(handle, &iocb), 1);
		}
		if (i & 2) {
			unit_thread_start(&waiter, wait_for_one, NULL);
			unit_await_sleep(&waiter);
		}
		unit_close(queue);
		if (i & 4)
			/*
			 * /dev/zero, which is always ready, gets the queue's descriptor
			 * number: the polls must not complete.
			 */
			assert_int_equal(open("/dev/zero", O_RDONLY), queue);
		assert_false(has_unread(&handle));
		assert_int_equal(mq_send(copy, "", 1, 0), 0);
		if (i & 2)
			assert_int_equal(unit_thread_join(&waiter), POLLIN);
		for (unsigned k = i & 2 ? 1 : 0; k <= i % 2; k++)
			assert_int_equal(unit_reap_one(handle), POLLIN);
		if (i & 4)
			unit_close(queue);
		unit_close(copy);
	}
	unit_destroy(handle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_process_ends_at_once_whatever_waits),
		UNIT_TEST(parked_requests_stay_with_their_stream),
		UNIT_TEST(a_stream_with_two_numbers_is_one_stream),
		UNIT_TEST(the_end_of_the_peer_is_told_after_the_number_is_gone),
		UNIT_TEST(a_stream_nobody_waits_for_is_let_go),
		UNIT_TEST(parent_and_child_wait_for_their_own_requests),
		UNIT_TEST(a_stream_that_only_a_child_has_open_wakes_nobody),
		UNIT_TEST(a_poll_of_a_regular_file_leaves_nothing_in_use),
		UNIT_TEST(polls_of_a_queue_wait_on_when_its_number_is_gone),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
