/* SPDX-License-Identifier: MIT */
/*
 * Tests of multishot polls, which complete more than once, submitted through the tests'
 * own front-end (the "door")
 */
#undef NDEBUG
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc/entry.h"
#include "client.h"

static int ends[2];

static int start_pipe(void **state)
{
	int ret = start(state);

	return ret < 0 ? ret : pipe2(ends, O_CLOEXEC);
}

static int stop_pipe(void **state)
{
	for (unsigned i = 0; i < 2; i++)
		if (ends[i] >= 0)
			unit_close(ends[i]);
	return stop(state);
}

#define PIPE_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start_pipe, stop_pipe)

static struct door_sqe repeated_poll(int fd, uint32_t events)
{
	return (struct door_sqe){
		.what = DOOR_POLL,
		.fd = fd,
		.size = events,
		.options = DOOR_REPEATEDLY,
	};
}

static void write_byte(void)
{
	assert_int_equal(write(ends[1], "a", 1), 1);
}

static void drain(void)
{
	char bytes[4096];

	assert_true(read(ends[0], bytes, sizeof(bytes)) > 0);
}

/*
 * Waits for the next completion, which must have this tag, this result and the flag
 * DOOR_MORE.
 */
static void await_more(uint64_t tag, int32_t res)
{
	struct door_cqe cqe;

	while (!nr_unread())
		assert_true(enter(1) >= 0);
	cqe = get();
	assert_int_equal(cqe.tag, tag);
	assert_int_equal(cqe.res, res);
	assert_int_equal(cqe.flags, DOOR_MORE);
}

/* Cancels the poll. Its next completion must be the last one. */
static void cancel_silent(uint64_t tag)
{
	put_tagged(rw(DOOR_CANCEL, -1, NULL, 0, (int64_t)tag), 99);
	assert_int_equal(enter(0), 1);
	assert_got(tag, -ECANCELED);
	assert_got(99, 0);
	assert_int_equal(nr_unread(), 0);
}

static void a_poll_tells_of_each_edge_until_it_is_cancelled(void **state)
{
	(void)state;
	put_tagged(repeated_poll(ends[0], POLLIN), 1);
	assert_int_equal(enter(0), 1);
	assert_int_equal(nr_unread(), 0);
	for (unsigned i = 0; i < 20; i++) {
		write_byte();
		await_more(1, POLLIN);
		/*
		 * New data must complete the poll again, even if the client has not
		 * read the older data.
		 */
		write_byte();
		await_more(1, POLLIN);
		drain();
	}
	cancel_silent(1);
	write_byte();
	put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 2);
	assert_int_equal(enter(1), 1);
	assert_got(2, 0);
	assert_int_equal(nr_unread(), 0);
}

static void what_is_ready_at_first_is_told_once(void **state)
{
	(void)state;
	write_byte();
	put_tagged(repeated_poll(ends[0], POLLIN), 1);
	assert_int_equal(enter(0), 1);
	await_more(1, POLLIN);
	cancel_silent(1);
	/*
	 * By now the library's epoll watches the file, and has reported the first data
	 * as an edge. Each new poll must still report the unread data, then new data.
	 */
	for (unsigned i = 0; i < 20; i++) {
		if (i % 2)
			write_byte();
		put_tagged(repeated_poll(ends[0], POLLIN), 2);
		assert_int_equal(enter(0), 1);
		await_more(2, POLLIN);
		write_byte();
		await_more(2, POLLIN);
		cancel_silent(2);
	}
}

static void others_on_the_file_are_served_meanwhile(void **state)
{
	(void)state;
	put_tagged(repeated_poll(ends[0], POLLIN), 1);
	put_tagged((struct door_sqe){ .what = DOOR_POLL,
				      .fd = ends[0],
				      .size = POLLIN },
		   2);
	assert_int_equal(enter(0), 2);
	write_byte();
	while (nr_unread() < 2)
		assert_true(enter(2) >= 0);
	for (unsigned i = 0, seen = 0; i < 2; i++) {
		struct door_cqe cqe = get();

		assert_int_equal(cqe.res, 1);
		assert_int_equal(cqe.flags, cqe.tag == 1 ? DOOR_MORE : 0);
		assert_false(seen & 1u << cqe.tag);
		seen |= 1u << cqe.tag;
	}
	write_byte();
	await_more(1, POLLIN);
	cancel_silent(1);
}

/*
 * A multishot poll is submitted as a drain. As in the kernel, the requests that were
 * submitted after the poll wait for the poll's last completion.
 */
static void behind_a_drain_it_tells_when_its_turn_comes(void **state)
{
	struct door_sqe poll = repeated_poll(ends[0], POLLIN);
	int others[2];
	char byte;

	(void)state;
	poll.options |= DOOR_DRAIN;
	assert_int_equal(pipe2(others, O_CLOEXEC), 0);
	put_tagged(rw(DOOR_READ, others[0], &byte, 1, 0), 1);
	put_tagged(poll, 2);
	put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 3);
	assert_int_equal(enter(0), 3);
	write_byte();
	assert_int_equal(enter(0), 0);
	assert_int_equal(nr_unread(), 0);
	assert_int_equal(write(others[1], "a", 1), 1);
	await_got(1, 1);
	for (unsigned i = 0; i < 20; i++) {
		await_more(2, POLLIN);
		write_byte();
	}
	await_more(2, POLLIN);
	put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 4);
	assert_int_equal(enter(0), 1);
	assert_int_equal(nr_unread(), 0);
	put_tagged(rw(DOOR_CANCEL, -1, NULL, 0, 2), 5);
	assert_int_equal(enter(0), 1);
	assert_got(2, -ECANCELED);
	await_got(3, 0);
	await_got(4, 0);
	await_got(5, 0);
	unit_close(others[0]);
	unit_close(others[1]);
}

/*
 * The first poll has reported the data in the pipe. Then a second poll, for POLLHUP, is
 * submitted, so the next thread that enters the library tries both polls. The first poll
 * must not complete again, because no new data came.
 */
static void a_try_without_an_edge_tells_nothing(void **state)
{
	(void)state;
	put_tagged(repeated_poll(ends[0], POLLIN), 1);
	assert_int_equal(enter(0), 1);
	write_byte();
	await_more(1, POLLIN);
	put_tagged((struct door_sqe){ .what = DOOR_POLL,
				      .fd = ends[0],
				      .size = POLLHUP },
		   2);
	assert_int_equal(enter(0), 1);
	for (unsigned i = 0; i < 3; i++)
		(void)door_wait(door, 1, 0);
	assert_int_equal(nr_unread(), 0);
	cancel_silent(2);
	cancel_silent(1);
}

static void a_hang_up_is_told_and_does_not_end_it(void **state)
{
	(void)state;
	put_tagged(repeated_poll(ends[0], POLLIN), 1);
	assert_int_equal(enter(0), 1);
	unit_close(ends[1]);
	ends[1] = -1;
	await_more(1, POLLHUP);
	cancel_silent(1);
}

static void it_stays_with_its_file_when_the_descriptor_is_closed(void **state)
{
	(void)state;
	put_tagged(repeated_poll(ends[0], POLLIN), 1);
	assert_int_equal(enter(0), 1);
	unit_close(ends[0]);
	ends[0] = -1;
	for (unsigned i = 0; i < 3; i++) {
		write_byte();
		await_more(1, POLLIN);
	}
	cancel_silent(1);
}

static void it_ends_when_there_is_no_room(void **state)
{
	unsigned nr = 0;
	struct door_cqe cqe;

	(void)state;
	put_tagged(repeated_poll(ends[0], POLLIN), 1);
	assert_int_equal(enter(0), 1);
	while (nr_unread() < DOOR_NR_CQES) {
		uint32_t nr_before = nr_unread();

		write_byte();
		while (nr_unread() == nr_before)
			assert_true(enter(nr_before + 1) >= 0);
		assert_int_equal(nr_unread(), nr_before + 1);
	}
	/* The poll has ended, so no poll can report this new data. */
	write_byte();
	do {
		cqe = get();
		assert_int_equal(cqe.tag, 1);
		assert_int_equal(cqe.res, POLLIN);
		nr++;
	} while (cqe.flags & DOOR_MORE);
	assert_int_equal(nr, DOOR_NR_CQES);
	assert_int_equal(nr_unread(), 0);
	put_tagged(repeated_poll(ends[0], POLLIN), 2);
	assert_int_equal(enter(0), 1);
	await_more(2, POLLIN);
	cancel_silent(2);
}

static uint32_t nr_refused; /* atomic */

static bool refuse_to_arm(long nr, const long args[6], long *ret_res)
{
	if (nr != SYS_epoll_ctl || args[1] == EPOLL_CTL_DEL)
		return false;
	add_relaxed(&nr_refused, 1);
	*ret_res = -ENOSPC;
	return true;
}

static struct door_sqe async_poll(int fd, uint32_t events)
{
	struct door_sqe sqe = repeated_poll(fd, events);

	sqe.options = DOOR_ASYNC;
	return sqe;
}

/*
 * Three polls wait on one file: the first was tried and found no data, and the second
 * was left to a worker. When the third has to wait, the library cannot add the file to
 * its epoll (ENOSPC). New data must still complete all three polls.
 */
static void a_file_that_the_epoll_refused_is_armed_later(void **state)
{
	bool goes_on = false;

	(void)state;
	for (unsigned i = 0, seen = 0; i < 10; i++, seen = 0) {
		put_tagged((struct door_sqe){ .what = DOOR_POLL,
					      .fd = ends[0],
					      .size = POLLIN },
			   1);
		assert_int_equal(enter(0), 1);
		assert_int_equal(door_wait(door, 1, uaio_now_ns() + 1000000),
				 -ETIMEDOUT);
		put_tagged(async_poll(ends[0], POLLIN), 2);
		put_tagged(repeated_poll(ends[0], POLLIN), 3);
		store_relaxed(&nr_refused, 0);
		unit_hook(refuse_to_arm);
		assert_int_equal(enter(0), 2);
		unit_hook(NULL);
		assert_true(load_relaxed(&nr_refused));
		write_byte();
		while (seen != (1u << 1 | 1u << 2 | 1u << 3)) {
			struct door_cqe cqe;

			while (!nr_unread())
				assert_true(enter(1) >= 0);
			cqe = get();
			assert_int_equal(cqe.res, POLLIN);
			seen |= 1u << cqe.tag;
			goes_on =
				cqe.tag == 3 ? cqe.flags == DOOR_MORE : goes_on;
		}
		drain();
		if (goes_on)
			cancel_silent(3);
	}
}

static void a_file_that_is_always_ready_is_told_of_once(void **state)
{
	int fd = unit_numbered_file(true, 1);

	(void)state;
	put_tagged(repeated_poll(fd, POLLIN), 1);
	put_tagged(repeated_poll(fd, POLLPRI), 2);
	assert_int_equal(enter(0), 2);
	while (nr_unread() < 2)
		assert_true(enter(2) >= 0);
	for (unsigned i = 0; i < 2; i++) {
		struct door_cqe cqe = get();

		assert_int_equal(cqe.res, cqe.tag == 1 ? POLLIN : -EINVAL);
		assert_int_equal(cqe.flags, 0);
	}
	unit_close(fd);
}

static void closing_the_door_ends_it(void **state)
{
	(void)state;
	put_tagged(repeated_poll(ends[0], POLLIN), 1);
	assert_int_equal(enter(0), 1);
	write_byte();
	await_more(1, POLLIN);
	assert_int_equal(door_close(door), 0);
	assert_got(1, -ECANCELED);
	assert_int_equal(nr_unread(), 0);
	door = NULL;
}

static long wait_for(void *arg)
{
	const uint32_t *nr = arg;

	return door_wait(door, *nr, UAIO_FOREVER);
}

/*
 * Writes nr bytes; each byte but the first is written after the completion for the
 * previous one.
 */
static void write_and_see(uint32_t nr)
{
	for (uint32_t i = 1; i <= nr; i++) {
		write_byte();
		while (nr_unread() < i)
			sched_yield();
		assert_int_equal(nr_unread(), i);
	}
}

static void each_edge_is_told_once_whoever_tells(void **state)
{
	struct unit_thread thread = { .function = NULL };
	uint32_t nr = 40;

	(void)state;
	put_tagged(repeated_poll(ends[0], POLLIN), 1);
	assert_int_equal(enter(0), 1);
	/*
	 * No thread waits, so the library's fallback thread polls and posts the
	 * completions.
	 */
	write_and_see(nr);
	for (uint32_t i = 0; i < nr; i++)
		await_more(1, POLLIN);
	/*
	 * The second thread waits for all nr completions. It is the leader, which polls
	 * for all threads and posts the completions.
	 */
	unit_thread_start(&thread, wait_for, &nr);
	unit_await_sleep(&thread);
	write_and_see(nr);
	assert_int_equal(unit_thread_join(&thread), 0);
	for (uint32_t i = 0; i < nr; i++)
		await_more(1, POLLIN);
	cancel_silent(1);
}

/*
 * Two doors poll the same pipe, each through its own epoll. Each must report new data.
 */
static void two_doors_are_told_of_the_same_edge(void **state)
{
	struct door *doors[2] = { door };
	struct door_rings *both[2] = { rings };

	(void)state;
	assert_int_equal(door_open(&doors[1], &both[1]), 0);
	for (unsigned i = 0; i < 2; i++) {
		door = doors[i];
		rings = both[i];
		put_tagged(repeated_poll(ends[0], POLLIN), i);
		assert_int_equal(enter(0), 1);
	}
	for (unsigned n = 0; n < 20; n++) {
		write_byte();
		for (unsigned i = 0; i < 2; i++) {
			door = doors[(i + n) % 2];
			rings = both[(i + n) % 2];
			await_more((i + n) % 2, POLLIN);
		}
	}
	for (unsigned i = 2; i-- > 0;) {
		door = doors[i];
		rings = both[i];
		cancel_silent(i);
	}
	assert_int_equal(door_close(doors[1]), 0);
}

enum { NR_BYTES = 3000 };

static long write_all(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < NR_BYTES; i++) {
		if (write(ends[1], "a", 1) != 1)
			return -1;
		if (i % 64 == 0)
			sched_yield();
	}
	return 0;
}

static uint32_t is_over; /* atomic */

/*
 * Wait for short times, so that the leader (the waiting thread that polls for all
 * threads) changes often.
 */
static long come_and_go(void *arg)
{
	(void)arg;
	while (!load_relaxed(&is_over))
		(void)door_wait(door, 1, uaio_now_ns() + 200000);
	return 0;
}

/*
 * The client reads all data after each completion, then waits again. No new data may go
 * unreported.
 */
static void no_edge_is_lost(void **state)
{
	struct unit_thread writer = { .function = NULL }, other = writer;
	unsigned nr_read = 0;
	char bytes[256];

	(void)state;
	store_relaxed(&is_over, 0);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	put_tagged(repeated_poll(ends[0], POLLIN), 1);
	assert_int_equal(enter(0), 1);
	unit_thread_start(&other, come_and_go, NULL);
	unit_thread_start(&writer, write_all, NULL);
	while (nr_read < NR_BYTES) {
		struct door_cqe cqe;
		ssize_t nr;

		while (!nr_unread())
			assert_true(enter(1) >= 0);
		cqe = get();
		assert_int_equal(cqe.tag, 1);
		assert_int_equal(cqe.res, POLLIN);
		/*
		 * The kernel did not schedule this thread for a while, so the ring
		 * became full, which ended the poll.
		 */
		if (!(cqe.flags & DOOR_MORE)) {
			put_tagged(repeated_poll(ends[0], POLLIN), 1);
			assert_int_equal(enter(0), 1);
		}
		while ((nr = read(ends[0], bytes, sizeof(bytes))) > 0)
			nr_read += (unsigned)nr;
	}
	assert_int_equal(nr_read, NR_BYTES);
	store_relaxed(&is_over, 1);
	assert_int_equal(unit_thread_join(&writer), 0);
	assert_int_equal(unit_thread_join(&other), 0);
}

static void it_has_one_last_completion_however_it_is_cancelled(void **state)
{
	struct unit_thread writer = { .function = NULL };
	char bytes[4096];

	(void)state;
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	unit_thread_start(&writer, write_all, NULL);
	for (unsigned i = 1; i <= 200; i++) {
		unsigned nr_more = 0, nr_last = 0;
		bool is_full = false;
		struct door_cqe cqe;

		put_tagged(repeated_poll(ends[0], POLLIN), i);
		put_tagged(rw(DOOR_CANCEL, -1, NULL, 0, i), 1000);
		if (i % 2)
			assert_int_equal(enter(0), 2);
		else
			assert_int_equal(enter(2), 2);
		for (;;) {
			while (!nr_unread())
				assert_true(enter(1) >= 0);
			cqe = get();
			if (cqe.tag == 1000)
				break;
			assert_int_equal(cqe.tag, i);
			assert_int_equal(nr_last, 0);
			/*
			 * If the kernel did not schedule this thread for a while, the
			 * ring may be full. Then the poll ends with POLLIN, not with
			 * ECANCELED.
			 */
			is_full |= !(cqe.flags & DOOR_MORE) &&
				   nr_more == DOOR_NR_CQES - 2;
			if (!(cqe.flags & DOOR_MORE) && !is_full)
				assert_int_equal(cqe.res, -ECANCELED);
			nr_more += !!(cqe.flags & DOOR_MORE);
			nr_last += !(cqe.flags & DOOR_MORE);
		}
		if (!is_full)
			assert_int_equal(cqe.res, 0);
		assert_int_equal(nr_last, 1);
		(void)!read(ends[0], bytes, sizeof(bytes));
	}
	assert_int_equal(unit_thread_join(&writer), 0);
	assert_int_equal(nr_unread(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PIPE_TEST(a_poll_tells_of_each_edge_until_it_is_cancelled),
		PIPE_TEST(what_is_ready_at_first_is_told_once),
		PIPE_TEST(others_on_the_file_are_served_meanwhile),
		PIPE_TEST(behind_a_drain_it_tells_when_its_turn_comes),
		PIPE_TEST(a_try_without_an_edge_tells_nothing),
		PIPE_TEST(a_hang_up_is_told_and_does_not_end_it),
		PIPE_TEST(it_stays_with_its_file_when_the_descriptor_is_closed),
		PIPE_TEST(it_ends_when_there_is_no_room),
		PIPE_TEST(a_file_that_the_epoll_refused_is_armed_later),
		DOOR_TEST(a_file_that_is_always_ready_is_told_of_once),
		PIPE_TEST(closing_the_door_ends_it),
		PIPE_TEST(each_edge_is_told_once_whoever_tells),
		PIPE_TEST(two_doors_are_told_of_the_same_edge),
		PIPE_TEST(no_edge_is_lost),
		PIPE_TEST(it_has_one_last_completion_however_it_is_cancelled),
	};

	return cmocka_run_group_tests_name("door multi", tests, unit_engine,
					   NULL);
}
