/* SPDX-License-Identifier: MIT */
/* Rings that a child of fork() shares with its parent. */
#undef NDEBUG
#include "uring/share.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "uring/memmap.h"
#include "test-uring.h"

enum { NR = 24 };

static struct uring client;
static char buffer[SIZE];

static int start(void **state)
{
	int ret = unit_setup(state);

	if (ret == 0)
		client_open(&client, 64, (struct io_uring_params){ 0 });
	return ret;
}

static int stop(void **state)
{
	client_close(&client);
	return unit_teardown(state);
}

static pid_t begin(int (*act)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(act());
	return pid;
}

static void end(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	assert_int_equal(status, 0);
}

/*
 * Return: whether the next completion has these values. A child returns this result to
 * its parent, because it cannot use the test's assertions.
 */
static bool is_next(uint64_t user_data, int32_t res)
{
	struct io_uring_cqe cqe = get(&client);

	return cqe.user_data == user_data && cqe.res == res;
}

/*
 * A child submits its own requests to its parent's ring. The parent's requests do not
 * complete in the child
 */

static int ends[2], file;

static int submit_in_child(void)
{
	struct io_uring_sqe *sqe;

	put(&client, IORING_OP_NOP, -1, 2);
	put(&client, IORING_OP_NOP, -1, 3)->flags = IOSQE_ASYNC;
	if (enter(&client, tell(&client), 2) != 2 || !is_next(2, 0) ||
	    !is_next(3, 0))
		return 1;
	/*
	 * The child can use the parent's registered buffers, but not its registered
	 * files.
	 */
	sqe = put_rw(&client, IORING_OP_READ_FIXED, file, buffer, SIZE, SIZE,
		     4);
	sqe->buf_index = 0;
	put_rw(&client, IORING_OP_READ, 0, buffer, SIZE, 0, 5)->flags =
		IOSQE_FIXED_FILE;
	if (enter(&client, tell(&client), 1) != 2 || !is_next(4, SIZE) ||
	    !is_next(5, -EBADF) || buffer[0] != 1)
		return 2;
	put(&client, IORING_OP_ASYNC_CANCEL, -1, 6)->addr = 1;
	return enter(&client, tell(&client), 1) == 1 && is_next(6, -ENOENT) ? 0
									    : 3;
}

static void a_child_submits_for_itself(void **state)
{
	struct iovec iov = { buffer, SIZE };

	(void)state;
	file = unit_numbered_file(true, 2);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_BUFFERS, &iov, 1),
			 0);
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_FILES, &file, 1),
			 0);
	put(&client, IORING_OP_POLL_ADD, ends[0], 1)->poll32_events = POLLIN;
	submit(&client, 0);
	end(begin(submit_in_child));
	catch_up(&client);
	put_rw(&client, IORING_OP_READ, 0, buffer, SIZE, 0, 7)->flags =
		IOSQE_FIXED_FILE;
	submit(&client, 1);
	assert_got(&client, 7, SIZE);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_got(&client, 1, POLLIN);
	assert_none(&client);
	unit_close(ends[0]);
	unit_close(ends[1]);
	unit_close(file);
}

/* A child uses the ring after its parent has ended */

static int orphaned[2], result[2];

static int go_on(void)
{
	char byte;

	/*
	 * read() returns 0 when the parent has ended, and its end of the pipe is
	 * closed.
	 */
	close(orphaned[1]);
	if (read(orphaned[0], &byte, 1) != 0)
		return 1;
	put(&client, IORING_OP_NOP, -1, 2)->flags = IOSQE_ASYNC;
	byte = enter(&client, tell(&client), 1) == 1 && is_next(2, 0) ? 'y'
								      : 'n';
	return write(result[1], &byte, 1) != 1;
}

static int leave_it_to_a_child(void)
{
	client_open(&client, 8, (struct io_uring_params){ 0 });
	put(&client, IORING_OP_POLL_ADD, ends[0], 1)->poll32_events = POLLIN;
	if (enter(&client, tell(&client), 0) != 1)
		return 1;
	(void)begin(go_on);
	return 0;
}

static void a_child_goes_on_without_its_parent(void **state)
{
	const struct uring own = client;
	char byte;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(orphaned), 0);
	assert_int_equal(pipe(result), 0);
	end(begin(leave_it_to_a_child));
	unit_close(orphaned[1]);
	assert_int_equal(read(result[0], &byte, 1), 1);
	assert_int_equal(byte, 'y');
	client = own;
	unit_close(orphaned[0]);
	for (int i = 0; i < 2; i++) {
		unit_close(ends[i]);
		unit_close(result[i]);
	}
}

/*
 * Parent and child post to one ring at the same time, from workers. Each completion
 * arrives once
 */

static uint32_t nr_rounds;
static int there[2], back[2];

static void put_nops(uint64_t first)
{
	catch_up(&client);
	for (unsigned i = 0; i < NR; i++)
		put(&client, IORING_OP_NOP, -1, first + i)->flags = IOSQE_ASYNC;
}

static int submit_each_round(void)
{
	char byte;

	for (uint32_t i = 0; i < nr_rounds; i++) {
		if (read(there[0], &byte, 1) != 1)
			return 1;
		put_nops(NR);
		if (enter(&client, tell(&client), 0) != NR)
			return 2;
		if (write(back[1], &byte, 1) != 1)
			return 3;
	}
	/* When the child ends, its waiting request ends, too. */
	return read(there[0], &byte, 1) != 1;
}

static void processes_post_side_by_side(void **state)
{
	bool is_there[2 * NR];
	struct io_uring_cqe cqe;
	char byte = 0;
	pid_t pid;

	(void)state;
	nr_rounds = 200;
	assert_int_equal(pipe(there), 0);
	assert_int_equal(pipe(back), 0);
	pid = begin(submit_each_round);
	for (uint32_t i = 0; i < nr_rounds; i++) {
		memset(is_there, 0, sizeof(is_there));
		put_nops(0);
		submit(&client, 0);
		assert_int_equal(write(there[1], &byte, 1), 1);
		assert_int_equal(read(back[0], &byte, 1), 1);
		for (unsigned n = 0; n < 2 * NR; n++) {
			cqe = get(&client);
			assert_int_equal(cqe.res, 0);
			assert_true(cqe.user_data < 2 * NR);
			assert_false(is_there[cqe.user_data]);
			is_there[cqe.user_data] = true;
		}
	}
	assert_int_equal(write(there[1], &byte, 1), 1);
	end(pid);
	for (int i = 0; i < 2; i++) {
		unit_close(there[i]);
		unit_close(back[i]);
	}
}

/* While this process waits for the lock `posting`, another process posts */

static uint32_t *posting(void)
{
	return sq_word(&client, offsetof(struct uaio_uring_rings, posting));
}

static bool is_others_turn;

static bool post_as_the_other(long nr, const long args[6], long *ret_res)
{
	uint32_t *tail = client.cq_tail;

	(void)args;
	(void)ret_res;
	if (nr != SYS_futex || !is_others_turn)
		return false;
	is_others_turn = false;
	client.cqes[load_relaxed(tail)].user_data = 2;
	client.cqes[load_relaxed(tail)].res = 22;
	store_relaxed(tail, load_relaxed(tail) + 1);
	store_release(posting(), 0);
	return false;
}

static int do_nothing(void)
{
	return 0;
}

static void processes_take_turns_to_post(void **state)
{
	(void)state;
	end(begin(do_nothing));
	store_relaxed(posting(), 1);
	is_others_turn = true;
	unit_hook(post_as_the_other);
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 0);
	unit_hook(NULL);
	assert_int_equal(unread(&client), 2);
	assert_got(&client, 2, 22);
	assert_got(&client, 1, 0);
}

/*
 * A process can post although a killed process owned the lock `posting`, or the client
 * has overwritten the lock.
 */
static void a_process_that_was_killed_keeps_no_other_from_posting(void **state)
{
	(void)state;
	end(begin(do_nothing));
	store_relaxed(posting(), 77);
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 1);
	assert_got(&client, 1, 0);
	put(&client, IORING_OP_NOP, -1, 2);
	submit(&client, 1);
	assert_got(&client, 2, 0);
}

/* how many children to kill; the program's argument replaces this default */
static unsigned nr_kills = 200;

/*
 * Submit all published entries, also those that the killed process has published but
 * not submitted.
 */
static void submit_all(void)
{
	uint32_t nr;

	(void)tell(&client);
	nr = client.prepared - load_acquire(client.sq_head);
	assert_int_equal(enter(&client, nr, 1), nr);
}

/*
 * In a child: submit until killed. A byte in the pipe tells the parent that the child
 * has begun.
 */
static int submit_until_killed(void)
{
	bool has_told = false;

	for (;;) {
		put(&client, IORING_OP_NOP, -1, 1);
		put(&client, IORING_OP_NOP, -1, 2)->flags = IOSQE_ASYNC;
		if (enter(&client, tell(&client), 2) != 2)
			return 1;
		while (unread(&client))
			(void)get(&client);
		if (!has_told && write(ends[1], "b", 1) != 1)
			return 2;
		has_told = true;
	}
}

/*
 * Kill a child at any moment. The ring works for the parent and for the next child;
 * only completions of the killed child may be missing.
 */
static void children_are_killed_at_any_instant(void **state)
{
	char byte;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	for (unsigned i = 0; i < nr_kills; i++) {
		pid_t pid = begin(submit_until_killed);
		uint64_t until;
		int status;

		assert_int_equal(read(ends[0], &byte, 1), 1);
		/* Wait up to 200 us, a few iterations of the child's loop. */
		until = (uint64_t)uaio_now_ns() + i * 7919 % 200000;
		while ((uint64_t)uaio_now_ns() < until)
			;
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		catch_up(&client);
		put(&client, IORING_OP_NOP, -1, 1000 + i);
		submit_all();
		while (get(&client).user_data != 1000 + i)
			;
		while (unread(&client))
			(void)get(&client);
	}
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * Parent and child each have more completions than the ring holds. When one process has
 * moved its own overflowed completions into the ring, IORING_SQ_CQ_OVERFLOW stays set,
 * because the other process still has some
 */

static bool tells_of_overflow(void)
{
	return load_relaxed(client.sq_flags) & IORING_SQ_CQ_OVERFLOW;
}

static int overflow_and_wait(void)
{
	char byte = 0;

	for (unsigned i = 0; i < 3; i++) {
		for (unsigned k = 0; k < client.params.sq_entries; k++)
			put(&client, IORING_OP_NOP, -1, i);
		(void)enter(&client, tell(&client), 0);
	}
	if (write(back[1], &byte, 1) != 1 || read(there[0], &byte, 1) != 1)
		return 1;
	for (unsigned k = 0; k < client.params.sq_entries; k++)
		if (!is_next(2, 0))
			return 2;
	return 0;
}

static void one_overflow_does_not_hide_another(void **state)
{
	char byte = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(there), 0);
	assert_int_equal(pipe(back), 0);
	pid = begin(overflow_and_wait);
	assert_int_equal(read(back[0], &byte, 1), 1);
	catch_up(&client);
	put(&client, IORING_OP_NOP, -1, 3);
	submit(&client, 0);
	assert_true(tells_of_overflow());
	for (unsigned k = 0; k < client.params.cq_entries; k++)
		(void)get(&client);
	assert_got(&client, 3, 0);
	assert_true(tells_of_overflow());
	assert_int_equal(write(there[1], &byte, 1), 1);
	end(pid);
	assert_false(tells_of_overflow());
	for (int i = 0; i < 2; i++) {
		unit_close(there[i]);
		unit_close(back[i]);
	}
}

/*
 * In a child: post to the parent's ring. The parent forked while its workers posted
 * completions, and the child must not overwrite these.
 */
static int post_at_once(void)
{
	catch_up(&client);
	put(&client, IORING_OP_NOP, -1, 100);
	return enter(&client, tell(&client), 0) != 1;
}

static void a_process_forks_while_it_posts(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(100); i++) {
		const uint64_t all = (UINT64_C(1) << NR) - 1;
		uint64_t seen = 0;
		unsigned nr_of_child = 0;

		put_nops(0);
		submit(&client, 0);
		end(begin(post_at_once));
		for (unsigned k = 0; k < NR + 1; k++) {
			struct io_uring_cqe cqe = get(&client);

			nr_of_child += cqe.user_data == 100;
			seen |= cqe.user_data < NR ? 1u << cqe.user_data : 0;
		}
		assert_int_equal(seen, all);
		assert_int_equal(nr_of_child, 1);
		/* A ring is shared after a fork, so each round needs a new ring. */
		client_close(&client);
		client_open(&client, 64, (struct io_uring_params){ 0 });
	}
}

#define RING_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(a_child_submits_for_itself),
		RING_TEST(a_child_goes_on_without_its_parent),
		RING_TEST(processes_post_side_by_side),
		RING_TEST(processes_take_turns_to_post),
		RING_TEST(
			a_process_that_was_killed_keeps_no_other_from_posting),
		RING_TEST(children_are_killed_at_any_instant),
		RING_TEST(one_overflow_does_not_hide_another),
		RING_TEST(a_process_forks_while_it_posts),
	};

	if (argc > 1)
		nr_kills = (unsigned)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
