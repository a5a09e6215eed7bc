/* SPDX-License-Identifier: MIT */
/*
 * Tests of the engine through the "door", a front-end of the tests (door.h), whose ABI
 * differs from kernel AIO and io_uring
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/entry.h"
#include "client.h"

static long wait_for(void *arg)
{
	const uint32_t *nr = arg;

	return door_enter(door, *nr, UAIO_FOREVER);
}

static void what_is_cached_is_there_when_it_was_submitted(void **state)
{
	int fd = unit_numbered_file(true, 3);
	char first[SIZE], second[2 * SIZE];
	struct iovec iov[2] = { { second, SIZE }, { second + SIZE, SIZE } };

	(void)state;
	put_tagged(rw(DOOR_READ, fd, first, SIZE, 2 * SIZE), 1);
	put_tagged(rw(DOOR_READV, fd, iov, 2, 0), 2);
	put_tagged(rw(DOOR_WRITE, fd, first, SIZE, 0), 3);
	put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 4);
	assert_int_equal(enter(0), 4);
	assert_got(1, SIZE);
	assert_got(2, 2 * SIZE);
	assert_got(3, SIZE);
	assert_got(4, 0);
	assert_int_equal(first[0], 2);
	assert_int_equal(second[SIZE], 1);
	put_tagged(rw(DOOR_SYNC, fd, NULL, 0, 0), 5);
	assert_int_equal(enter(1), 1);
	assert_got(5, 0);
	unit_close(fd);
}

static void mistakes_are_answered_in_their_place(void **state)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char byte = 0;

	(void)state;
	put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 1);
	put_tagged(rw(DOOR_NR_WHATS, fd, &byte, 1, 0), 2);
	put_tagged(rw(DOOR_READ, 12345, &byte, 1, 0), 3);
	put_tagged(rw(DOOR_READ, fd, &byte, 1, 0), 4);
	put_tagged(rw(DOOR_CANCEL, -1, NULL, 0, 99), 5);
	put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 6);
	assert_int_equal(enter(0), 6);
	assert_got(1, 0);
	assert_got(2, -EINVAL);
	assert_got(3, -EBADF);
	assert_got(4, -EBADF);
	assert_got(5, -ENOENT);
	assert_got(6, 0);
	unit_close(fd);
}

static void no_more_is_taken_in_than_can_be_answered(void **state)
{
	unsigned nr_taken = 0;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned j = 0; j < DOOR_NR_SQES; j++)
			put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0),
				   i * DOOR_NR_SQES + j);
		if (i < 2)
			nr_taken += (unsigned)enter(0);
	}
	assert_int_equal(nr_taken, DOOR_NR_CQES);
	assert_int_equal(enter(0), 0);
	for (unsigned i = 0; i < 3 * DOOR_NR_SQES; i++) {
		if (i == DOOR_NR_CQES)
			assert_int_equal(enter(0), DOOR_NR_SQES - 10);
		assert_got(i, 0);
		if (i == 9)
			assert_int_equal(enter(0), 10);
	}
}

static void cold_reads_are_made_when_their_pages_are_there(void **state)
{
	enum { NR = 4 };
	static char buffers[NR][PAGE];
	uint64_t seen = 0;

	(void)state;
	cold_hold(cold_bits(NR));
	for (unsigned i = 0; i < NR; i++)
		put_tagged(rw(DOOR_READ, cold.fd, buffers[i], PAGE,
			      (int64_t)i * PAGE),
			   i);
	assert_int_equal(enter(0), NR);
	assert_int_equal(nr_unread(), 0);
	cold_await_blocked(1);
	/*
	 * The third read must complete while a worker is blocked in another read.
	 */
	cold_come(cold_bit(2));
	await_got(2, PAGE);
	cold_let(cold_bits(NR));
	while (nr_unread() < NR - 1)
		assert_int_equal(enter(NR - 1), 0);
	for (unsigned i = 0; i < NR - 1; i++) {
		struct door_cqe cqe = get();

		assert_int_equal(cqe.res, PAGE);
		seen |= cold_bit((unsigned)cqe.tag);
	}
	assert_int_equal(seen, cold_bits(NR) & ~cold_bit(2));
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(buffers[i][PAGE - 1], i + 1);
}

static void the_file_itself_wakes_who_waits(void **state)
{
	struct unit_thread thread = { .function = NULL };
	uint32_t nr = 2;
	char bytes[2];
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_tagged(rw(DOOR_READ, ends[0], bytes, 1, 0), 1);
	put_tagged(rw(DOOR_READ, ends[0], bytes + 1, 1, 0), 2);
	put_tagged((struct door_sqe){ .what = DOOR_POLL,
				      .fd = ends[0],
				      .size = POLLHUP },
		   3);
	assert_int_equal(enter(0), 3);
	unit_thread_start(&thread, wait_for, &nr);
	unit_await_sleep(&thread);
	assert_int_equal(write(ends[1], "a", 1), 1);
	assert_int_equal(write(ends[1], "b", 1), 1);
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_got(1, 1);
	assert_got(2, 1);
	assert_memory_equal(bytes, "ab", 2);
	unit_close(ends[1]);
	await_got(3, POLLHUP);
	unit_close(ends[0]);
}

static void nobody_has_to_wait_for_what_gets_ready(void **state)
{
	char byte;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_tagged(rw(DOOR_READ, ends[0], &byte, 1, 0), 1);
	assert_int_equal(enter(0), 1);
	assert_int_equal(write(ends[1], "a", 1), 1);
	/*
	 * The completion must be posted although the client makes no call: it only reads
	 * the ring's tail in memory.
	 */
	while (!nr_unread())
		sched_yield();
	assert_got(1, 1);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void what_waits_is_cancelled_by_its_tag(void **state)
{
	char bytes[2];
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_tagged(rw(DOOR_READ, ends[0], bytes, 1, 0), 1);
	put_tagged(rw(DOOR_READ, ends[0], bytes + 1, 1, 0), 2);
	put_tagged(rw(DOOR_CANCEL, -1, NULL, 0, 1), 3);
	put_tagged((struct door_sqe){ .what = DOOR_POLL,
				      .fd = ends[0],
				      .size = POLLIN },
		   4);
	put_tagged(rw(DOOR_CANCEL, -1, NULL, 0, 4), 5);
	assert_int_equal(enter(0), 5);
	assert_got(1, -ECANCELED);
	assert_got(3, 0);
	assert_got(4, -ECANCELED);
	assert_got(5, 0);
	assert_int_equal(write(ends[1], "a", 1), 1);
	await_got(2, 1);
	assert_int_equal(bytes[1], 'a');
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void timers_end_whether_anybody_waits_or_not(void **state)
{
	static const int64_t MS = 1000000;
	int64_t since = uaio_now_ns();

	(void)state;
	put_tagged(rw(DOOR_TIMER, -1, NULL, 0, 600000 * MS), 1);
	put_tagged(rw(DOOR_TIMER, -1, NULL, 0, 2 * MS), 2);
	assert_int_equal(enter(1), 2);
	assert_got(2, -ETIME);
	put_tagged(rw(DOOR_TIMER, -1, NULL, 0, MS), 3);
	assert_int_equal(enter(0), 1);
	while (!nr_unread())
		sched_yield();
	assert_got(3, -ETIME);
	assert_true(uaio_now_ns() - since >= 3 * MS);
	put_tagged(rw(DOOR_CANCEL, -1, NULL, 0, 1), 4);
	assert_int_equal(enter(0), 1);
	assert_got(1, -ECANCELED);
	assert_got(4, 0);
	/*
	 * This timer remains until stop() closes the door, which must cancel the timer.
	 */
	put_tagged(rw(DOOR_TIMER, -1, NULL, 0, 600000 * MS), 5);
	assert_int_equal(enter(0), 1);
}

static struct door_sqe linked(struct door_sqe sqe, uint32_t options)
{
	sqe.options = options;
	return sqe;
}

static void what_is_linked_starts_when_its_turn_comes(void **state)
{
	static const int64_t MS = 1000000;
	int fd = unit_numbered_file(true, 1);
	char bytes[2][2 * SIZE];
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_tagged(linked(rw(DOOR_READ, ends[0], bytes[0], 1, 0), DOOR_LINK),
		   1);
	put_tagged(linked(rw(DOOR_LINK_TIMER, -1, NULL, 0, 600000 * MS),
			  DOOR_LINK),
		   2);
	/*
	 * The second read of this chain is short, so the rest of the chain must be
	 * cancelled.
	 */
	put_tagged(linked(rw(DOOR_READ, fd, bytes[1], 2 * SIZE, 0), DOOR_LINK),
		   3);
	put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 4);
	put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 5);
	assert_int_equal(enter(1), 5);
	assert_got(5, 0);
	assert_int_equal(write(ends[1], "a", 1), 1);
	await_got(1, 1);
	await_got(2, -ECANCELED);
	await_got(3, SIZE);
	await_got(4, -ECANCELED);
	put_tagged(
		linked(rw(DOOR_READ, ends[0], bytes[0], 1, 0), DOOR_LINK_HARD),
		6);
	put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 7);
	put_tagged(rw(DOOR_CANCEL, -1, NULL, 0, 6), 8);
	assert_int_equal(enter(3), 3);
	assert_got(6, -ECANCELED);
	assert_got(7, 0);
	assert_got(8, 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
	unit_close(fd);
}

static void a_drain_has_the_door_to_itself(void **state)
{
	char bytes[2];
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_tagged(rw(DOOR_READ, ends[0], &bytes[0], 1, 0), 1);
	put_tagged(linked(rw(DOOR_NOP, -1, NULL, 0, 0), DOOR_DRAIN), 2);
	put_tagged(rw(DOOR_READ, ends[0], &bytes[1], 1, 0), 3);
	assert_int_equal(enter(0), 3);
	put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 4);
	assert_int_equal(enter(0), 1);
	assert_int_equal(nr_unread(), 0);
	assert_int_equal(write(ends[1], "a", 1), 1);
	await_got(1, 1);
	await_got(2, 0);
	await_got(4, 0);
	assert_int_equal(write(ends[1], "b", 1), 1);
	await_got(3, 1);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void closing_a_door_cancels_what_may_wait_for_ever(void **state)
{
	char byte;
	int ends[2];
	uint32_t nr = 1;
	struct unit_thread thread = { .function = NULL };

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_tagged(rw(DOOR_READ, ends[0], &byte, 1, 0), 1);
	nr = 2;
	assert_int_equal(enter(0), 1);
	unit_thread_start(&thread, wait_for, &nr);
	unit_await_sleep(&thread);
	assert_int_equal(door_close(door), 0);
	assert_int_equal(unit_thread_join(&thread), -EINVAL);
	assert_got(1, -ECANCELED);
	door = NULL;
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void a_request_stays_with_its_file(void **state)
{
	int old[2], new[2];
	char bytes[2];

	(void)state;
	assert_int_equal(pipe2(old, O_CLOEXEC), 0);
	assert_int_equal(pipe2(new, O_CLOEXEC), 0);
	put_tagged(rw(DOOR_READ, old[0], bytes, 1, 0), 1);
	assert_int_equal(enter(0), 1);
	unit_dup2(new[0], old[0]);
	put_tagged(rw(DOOR_READ, old[0], bytes + 1, 1, 0), 2);
	assert_int_equal(enter(0), 1);
	assert_int_equal(write(new[1], "n", 1), 1);
	await_got(2, 1);
	assert_int_equal(write(old[1], "o", 1), 1);
	await_got(1, 1);
	assert_memory_equal(bytes, "on", 2);
	for (unsigned i = 0; i < 2; i++) {
		unit_close(old[i]);
		unit_close(new[i]);
	}
}

/*
 * dup2() replaces a descriptor on which accepted writes wait for a worker. The library
 * must execute these writes before it replaces the descriptor.
 */
static void a_write_is_made_before_its_number_is_closed(void **state)
{
	int fd = unit_numbered_file(true, 1), other = dup(fd), on_disk;
	char text[SIZE], found[SIZE] = "";

	(void)state;
	on_disk = unit_file(false);
	memset(text, 'w', SIZE);
	for (unsigned i = 0; i < 2; i++) {
		put_tagged(
			rw(DOOR_WRITE, on_disk, text, SIZE, (int64_t)i * SIZE),
			i);
		put_tagged(rw(DOOR_SYNC, on_disk, NULL, 0, 0), 2 + i);
	}
	assert_int_equal(enter(0), 4);
	unit_dup2(fd, on_disk);
	while (nr_unread() < 4)
		assert_int_equal(enter(4), 0);
	for (unsigned i = 0; i < 4; i++) {
		struct door_cqe cqe = get();

		assert_int_equal(cqe.res, cqe.tag < 2 ? SIZE : 0);
	}
	/*
	 * `other` is the file to which dup2() made on_disk refer. The writes must not
	 * have gone to this file.
	 */
	assert_int_equal(pread(other, found, SIZE, 0), SIZE);
	assert_int_equal(found[0], 0);
	unit_close(fd);
	unit_close(other);
	unit_close(on_disk);
}

static void arguments_outlive_the_call(void **state)
{
	char path[] = "/dev/null", bytes[2];
	struct iovec iov[2] = { { bytes, 1 }, { bytes + 1, 1 } };
	struct door_cqe cqe;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_tagged(rw(DOOR_READV, ends[0], iov, 2, 0), 1);
	put_tagged(rw(DOOR_OPEN, AT_FDCWD, path, sizeof(path),
		      O_RDONLY | O_CLOEXEC),
		   2);
	assert_int_equal(enter(0), 2);
	memset(path, '?', sizeof(path));
	memset(iov, 0, sizeof(iov));
	while (!nr_unread())
		assert_int_equal(enter(1), 0);
	cqe = get();
	assert_int_equal(cqe.tag, 2);
	assert_true(cqe.res >= 0);
	unit_close(cqe.res);
	assert_int_equal(write(ends[1], "ab", 2), 2);
	await_got(1, 2);
	assert_memory_equal(bytes, "ab", 2);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/* Runs in a child of fork(), which cannot use its parent's door. */
static int use_after_fork(const int ends[2])
{
	char byte = 0;

	if (door_enter(door, 0, 0) != -EBADF || door_close(door) != -EBADF)
		return 1;
	if (door_open(&door, &rings) < 0)
		return 2;
	put_tagged(rw(DOOR_READ, ends[0], &byte, 1, 0), 1);
	if (enter(0) != 1 || nr_unread())
		return 3;
	if (write(ends[1], "c", 1) != 1 || enter(1) != 0 || byte != 'c')
		return 4;
	return door_close(door) ? 5 : 0;
}

static void a_child_has_doors_of_its_own(void **state)
{
	int ends[2], status;
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_tagged(rw(DOOR_READ, ends[0], &byte, 1, 0), 1);
	assert_int_equal(enter(0), 1);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int own[2];

		_exit(pipe(own) ? 9 : use_after_fork(own));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(write(ends[1], "p", 1), 1);
	await_got(1, 1);
	assert_int_equal(byte, 'p');
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * When the thread `leaver` sleeps, open the gate, so that the worker's sync proceeds. The
 * test has closed the gate by unit_gate_close().
 */
static long let_go(void *arg)
{
	const struct unit_thread *leaver = arg;

	unit_await_sleep(leaver);
	unit_gate_open();
	return 0;
}

static long leave(void *arg)
{
	(void)arg;
	uaio_engine_exiting();
	return 0;
}

static int leave_with_a_write_under_way(void)
{
	struct unit_thread leaver = { .function = NULL }, other = leaver;
	int fd = unit_file(false), ends[2];
	char text[2 * SIZE], found[2 * SIZE] = "", byte;

	if (door_open(&door, &rings) < 0 || pipe(ends) < 0)
		return 1;
	memset(text, 'e', sizeof(text));
	unit_gate_close(fd);
	put_tagged(rw(DOOR_SYNC, fd, NULL, 0, 0), 1);
	if (enter(0) != 1)
		return 2;
	unit_gate_await(1);
	put_tagged(rw(DOOR_WRITE, fd, text, SIZE, 0), 2);
	put_tagged(rw(DOOR_SYNC, fd, NULL, 0, 0), 3);
	/* Closing the door must cancel this read. */
	put_tagged(rw(DOOR_READ, ends[0], &byte, 1, 0), 4);
	if (enter(0) < 1)
		return 3;
	unit_thread_start(&leaver, leave, NULL);
	unit_thread_start(&other, let_go, &leaver);
	(void)unit_thread_join(&leaver);
	(void)unit_thread_join(&other);
	if (pread(fd, found, SIZE, 0) != SIZE || memcmp(found, text, SIZE))
		return 4;
	return 0;
}

static void what_was_accepted_is_written_before_the_end(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(leave_with_a_write_under_way), 0);
}

static int start_cold(void **state)
{
	int ret = cold_start(state);

	return ret < 0 ? ret : door_open(&door, &rings);
}

static int stop_cold(void **state)
{
	assert_int_equal(door_close(door), 0);
	return cold_stop(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DOOR_TEST(what_is_cached_is_there_when_it_was_submitted),
		DOOR_TEST(mistakes_are_answered_in_their_place),
		DOOR_TEST(no_more_is_taken_in_than_can_be_answered),
		cmocka_unit_test_setup_teardown(
			cold_reads_are_made_when_their_pages_are_there,
			start_cold, stop_cold),
		DOOR_TEST(the_file_itself_wakes_who_waits),
		DOOR_TEST(nobody_has_to_wait_for_what_gets_ready),
		DOOR_TEST(what_waits_is_cancelled_by_its_tag),
		DOOR_TEST(timers_end_whether_anybody_waits_or_not),
		DOOR_TEST(what_is_linked_starts_when_its_turn_comes),
		DOOR_TEST(a_drain_has_the_door_to_itself),
		DOOR_TEST(closing_a_door_cancels_what_may_wait_for_ever),
		DOOR_TEST(a_request_stays_with_its_file),
		DOOR_TEST(a_write_is_made_before_its_number_is_closed),
		DOOR_TEST(arguments_outlive_the_call),
		DOOR_TEST(a_child_has_doors_of_its_own),
		UNIT_TEST(what_was_accepted_is_written_before_the_end),
	};

	return cmocka_run_group_tests_name("door", tests, unit_engine, NULL);
}
