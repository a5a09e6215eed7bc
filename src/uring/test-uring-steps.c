/* SPDX-License-Identifier: MIT */
/*
 * While a thread executes a system call on a ring, the test stops this thread after
 * each instruction. Each time, a second thread checks the ring's memory.
 */
#undef NDEBUG
#include <fcntl.h>
#include <sys/syscall.h>

#include "uring/bell.h"
#include "uring/cancel.h"
#include "test-uring.h"

enum { MINE = 7, OTHER = 9 };

static struct uring client, other;
static int null;

static void open_with_a_submission(void)
{
	client_open(&client, 1, (struct io_uring_params){ 0 });
	put(&client, IORING_OP_NOP, -1, MINE);
	assert_int_equal(tell(&client), 1);
}

static long enter_once(void *arg)
{
	(void)arg;
	return enter(&client, 1, 0);
}

/*
 * When the head is past a submission, the client may overwrite this submission: the
 * library must not read it again
 */

static long put_another_if_there_is_room(void *arg)
{
	(void)arg;
	if (load_acquire(client.sq_head))
		put(&client, 250, -1, OTHER);
	return 0;
}

static void check_the_first_was_taken(long victims, long intruders)
{
	assert_int_equal(victims, 1);
	assert_int_equal(intruders, 0);
	assert_got(&client, MINE, 0);
	assert_none(&client);
	client_close(&client);
}

static void a_submission_is_copied_before_its_place_is_free(void **state)
{
	const struct unit_stepping stepping = {
		.victim = enter_once,
		.intruder = put_another_if_there_is_room,
		.prepare = open_with_a_submission,
		.check = check_the_first_was_taken,
		.nr_min = 100,
	};

	(void)state;
	unit_step_through(&stepping);
}

/*
 * When the tail is past a completion, the client may read this completion: the library
 * must have written all of it
 */

static uint64_t seen; /* user_data of the completion that was seen; or 0 */

static long look_at_completions(void *arg)
{
	(void)arg;
	seen = unread(&client) ? client.cqes[0].user_data : 0;
	return unread(&client);
}

static void check_what_was_seen(long victims, long intruders)
{
	assert_int_equal(victims, 1);
	if (intruders && seen)
		assert_int_equal(seen, MINE);
	assert_true(!intruders || seen);
	check_the_first_was_taken(victims, 0);
}

static void a_completion_is_there_before_it_is_told(void **state)
{
	const struct unit_stepping stepping = {
		.victim = enter_once,
		.intruder = look_at_completions,
		.prepare = open_with_a_submission,
		.check = check_what_was_seen,
		.nr_min = 100,
	};

	(void)state;
	unit_step_through(&stepping);
}

/*
 * While a call moves overflowed completions into the ring, either the ring or the flag
 * IORING_SQ_CQ_OVERFLOW shows a completion
 */

static void open_with_an_overflow(void)
{
	const struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE,
		.cq_entries = 1,
	};

	client_open(&client, 1, params);
	for (uint64_t i = 0; i < 2; i++) {
		put(&client, IORING_OP_NOP, -1, i ? MINE : OTHER);
		submit(&client, 0);
	}
	assert_got(&client, OTHER, 0);
}

static long flush(void *arg)
{
	(void)arg;
	return uaio_uring_enter((uint32_t)client.fd, 0, 0,
				IORING_ENTER_GETEVENTS, NULL, 0);
}

/*
 * Return: whether a completion is lost: the ring has no completion, and
 * IORING_SQ_CQ_OVERFLOW is not set.
 */
static long look_for_overflow(void *arg)
{
	uint32_t flags = load_relaxed(client.sq_flags);

	(void)arg;
	seen = unread(&client) ? client.cqes[0].user_data : MINE;
	return !unread(&client) && !(flags & IORING_SQ_CQ_OVERFLOW);
}

static void check_overflow(long victims, long intruders)
{
	assert_int_equal(intruders, 0);
	assert_int_equal(seen, MINE);
	check_the_first_was_taken(victims + 1, 0);
}

static void what_has_overflowed_is_told_of_all_the_time(void **state)
{
	const struct unit_stepping stepping = {
		.victim = flush,
		.intruder = look_for_overflow,
		.prepare = open_with_an_overflow,
		.check = check_overflow,
		.nr_min = 100,
	};

	(void)state;
	unit_step_through(&stepping);
}

/*
 * While io_uring_enter() looks up its ring, another thread closes this ring. A new
 * ring, with another descriptor, then uses the same struct uaio_uring. The call must
 * not submit the new ring's entries
 */

static long make_another_of_it(void *arg)
{
	(void)arg;
	uring_unmap(&client);
	/* dup2() closes the ring: its descriptor is another file now. */
	unit_dup2(null, client.fd);
	client_open(&other, 1, (struct io_uring_params){ 0 });
	put(&other, IORING_OP_NOP, -1, OTHER);
	(void)tell(&other);
	return 0;
}

static void check_the_other(long victims, long intruders)
{
	assert_int_equal(intruders, 0);
	assert_true(victims == 1 || victims == -EBADF ||
		    victims == -EOPNOTSUPP);
	assert_int_equal(unread(&other), 0);
	assert_int_equal(enter(&other, 1, 0), 1);
	assert_got(&other, OTHER, 0);
	client_close(&other);
	unit_close(client.fd);
}

static void a_ring_is_not_mistaken_for_the_one_before(void **state)
{
	const struct unit_stepping stepping = {
		.victim = enter_once,
		.intruder = make_another_of_it,
		.prepare = open_with_a_submission,
		.check = check_the_other,
		.nr_min = 100,
	};

	(void)state;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	unit_step_through(&stepping);
	unit_close(null);
}

/*
 * A bell (the eventfd polled in place of a ring, bell.h) is readable while its ring has
 * a completion. To settle a bell is to make it readable exactly if its ring has
 * completions: afterwards it does not report a completion that the client has consumed
 */

static int bell;

static void open_with_a_bell(void)
{
	struct uaio_uring_bell polled;

	open_with_a_submission();
	polled = uaio_uring_bell_get(client.fd);
	bell = polled.fd;
	uaio_uring_bell_put(polled.ring);
	assert_int_not_equal(bell, client.fd);
}

static bool is_rung(void)
{
	struct pollfd pfd = { .fd = bell, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

/*
 * Settle the bell: make it readable exactly if its ring has completions.
 * Return: false if the ring has a completion but the bell is not readable; else true.
 */
static long look_at_bell(void *arg)
{
	const bool is_there = unread(&client);

	(void)arg;
	uaio_uring_bells_settle();
	return !is_there || is_rung();
}

static void check_it_was_rung(long victims, long intruders)
{
	assert_int_equal(intruders, 1);
	assert_true(is_rung());
	check_the_first_was_taken(victims, 0);
}

static void a_bell_is_rung_when_a_completion_is_seen(void **state)
{
	const struct unit_stepping stepping = {
		.victim = enter_once,
		.intruder = look_at_bell,
		.prepare = open_with_a_bell,
		.check = check_it_was_rung,
		.nr_min = 100,
	};

	(void)state;
	unit_step_through(&stepping);
}

/*
 * Consume a completion, then settle the bell. Return: whether there was a completion.
 */
static long take_and_settle(void *arg)
{
	const bool is_there = unread(&client);

	(void)arg;
	if (is_there)
		assert_got(&client, MINE, 0);
	uaio_uring_bells_settle();
	return is_there;
}

static void check_it_is_true(long victims, long intruders)
{
	assert_int_equal(victims, 1);
	assert_int_equal(is_rung(), !intruders);
	if (!intruders)
		assert_got(&client, MINE, 0);
	assert_none(&client);
	client_close(&client);
}

static void a_bell_does_not_tell_of_what_was_taken(void **state)
{
	const struct unit_stepping stepping = {
		.victim = enter_once,
		.intruder = take_and_settle,
		.prepare = open_with_a_bell,
		.check = check_it_is_true,
		.nr_min = 100,
	};

	(void)state;
	unit_step_through(&stepping);
}

/*
 * A thread changes the user_data of a linked poll. Meanwhile another thread makes the
 * poll ready, or cancels it. The poll ends once, with the right user_data, and the
 * linked request follows it
 */

enum { POLL = 1, LINKED, UPDATE, CHANGED };

static int ends[2];

/*
 * A hook for prctl(2), by which the library's new thread sets its name. The thread may
 * execute code that has breakpoints.
 */
static bool let_step(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr == SYS_prctl)
		unit_let_step();
	return false;
}

static void open_with_an_update(void)
{
	struct io_uring_sqe *sqe;

	unit_hook(let_step);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	client_open(&client, 4, (struct io_uring_params){ 0 });
	sqe = put(&client, IORING_OP_POLL_ADD, ends[0], POLL);
	sqe->poll32_events = POLLIN;
	sqe->flags = IOSQE_IO_LINK;
	put(&client, IORING_OP_NOP, -1, LINKED);
	submit(&client, 0);
	sqe = put(&client, IORING_OP_POLL_REMOVE, -1, UPDATE);
	sqe->addr = POLL;
	sqe->off = CHANGED;
	sqe->len = IORING_POLL_UPDATE_USER_DATA;
	assert_int_equal(tell(&client), 1);
}

/* poll: the user_data with which the poll ends; res: its result. */
static void check_the_update(int32_t update, uint64_t poll, int32_t res)
{
	bool is_first = true;

	for (unsigned i = 0; i < 3; i++) {
		struct io_uring_cqe cqe = get(&client);

		if (cqe.user_data == UPDATE) {
			assert_int_equal(cqe.res, update);
			is_first = false;
		} else if (cqe.user_data == LINKED) {
			assert_int_equal(cqe.res, res < 0 ? res : 0);
			assert_int_equal(poll, 0);
		} else {
			assert_int_equal(cqe.user_data, poll);
			assert_int_equal(cqe.res, res);
			/* No poll ends with the new user_data before the update. */
			assert_true(poll == POLL || !is_first);
			poll = 0;
		}
	}
	assert_none(&client);
	client_close(&client);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/* Return: the result of the update, which has been posted. */
static int32_t result_of_update(void)
{
	uint32_t nr = uring_ready(&client);

	for (uint32_t i = 0; i < nr; i++)
		if (client.cqes[i].user_data == UPDATE)
			return client.cqes[i].res;
	fail();
	return 0;
}

static long make_it_ready(void *arg)
{
	(void)arg;
	assert_int_equal(write(ends[1], "x", 1), 1);
	return flush(arg);
}

static void check_it_fired(long victims, long intruders)
{
	int32_t update = result_of_update();

	assert_int_equal(victims, 1);
	assert_int_equal(intruders, 0);
	assert_true(!update || update == -ENOENT || update == -EALREADY);
	check_the_update(update, update ? POLL : CHANGED, POLLIN);
}

static void a_poll_fires_while_it_is_changed(void **state)
{
	const struct unit_stepping stepping = {
		.victim = enter_once,
		.intruder = make_it_ready,
		.prepare = open_with_an_update,
		.check = check_it_fired,
		.nr_min = 100,
		.stride = 9,
	};

	(void)state;
	unit_step_through(&stepping);
}

static long cancel_it(void *arg)
{
	const struct uaio_uring_aim aim = { .user_data = POLL };

	(void)arg;
	return uaio_uring_cancel(uaio_uring_find((uint32_t)client.fd), &aim);
}

/*
 * If the poll had its new user_data already, the canceller has not found it. Otherwise
 * the poll ends as cancelled, whether or not it was updated before.
 */
static void check_it_was_cancelled(long victims, long intruders)
{
	int32_t update = result_of_update();
	bool is_ready = intruders == -ENOENT;

	assert_int_equal(victims, 1);
	assert_true(!intruders || intruders == -ENOENT ||
		    intruders == -EALREADY);
	assert_true(!update || update == -ENOENT || update == -EALREADY);
	if (is_ready) {
		assert_int_equal(update, 0);
		assert_int_equal(write(ends[1], "x", 1), 1);
	}
	check_the_update(update, update ? POLL : CHANGED,
			 is_ready ? POLLIN : -ECANCELED);
}

static void a_poll_is_cancelled_while_it_is_changed(void **state)
{
	const struct unit_stepping stepping = {
		.victim = enter_once,
		.intruder = cancel_it,
		.prepare = open_with_an_update,
		.check = check_it_was_cancelled,
		.nr_min = 100,
		.stride = 9,
	};

	(void)state;
	unit_step_through(&stepping);
}

/* The ring is closed while a thread changes its poll: the ring is freed */

static long close_it(void *arg)
{
	(void)arg;
	unit_close(client.fd);
	return 0;
}

static bool is_freed(void *arg)
{
	struct uaio_counters counters;

	(void)arg;
	/* The next ring frees the closed one. */
	client_open(&other, 1, (struct io_uring_params){ 0 });
	client_close(&other);
	uaio_counters_read(&counters);
	return !counters.nr_contexts;
}

static void check_it_is_freed(long victims, long intruders)
{
	assert_true(victims == 1 || victims == -EBADF ||
		    victims == -EOPNOTSUPP);
	assert_int_equal(intruders, 0);
	uring_unmap(&client);
	unit_close(ends[0]);
	unit_close(ends[1]);
	unit_await(is_freed, NULL);
}

static void a_ring_is_closed_while_its_poll_is_changed(void **state)
{
	const struct unit_stepping stepping = {
		.victim = enter_once,
		.intruder = close_it,
		.prepare = open_with_an_update,
		.check = check_it_is_freed,
		.nr_min = 100,
		.stride = 9,
	};

	(void)state;
	unit_step_through(&stepping);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(a_submission_is_copied_before_its_place_is_free),
		UNIT_TEST(a_completion_is_there_before_it_is_told),
		UNIT_TEST(what_has_overflowed_is_told_of_all_the_time),
		UNIT_TEST(a_ring_is_not_mistaken_for_the_one_before),
		UNIT_TEST(a_bell_is_rung_when_a_completion_is_seen),
		UNIT_TEST(a_bell_does_not_tell_of_what_was_taken),
		UNIT_TEST(a_poll_fires_while_it_is_changed),
		UNIT_TEST(a_poll_is_cancelled_while_it_is_changed),
		UNIT_TEST(a_ring_is_closed_while_its_poll_is_changed),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
