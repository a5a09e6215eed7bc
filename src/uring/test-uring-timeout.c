/* SPDX-License-Identifier: MIT */
/*
 * Timeouts that expire, timeouts that count completions, repeated timeouts, and linked
 * timeouts.
 */
#undef NDEBUG
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "uring/cq.h"
#include "uring/ring.h"
#include "uring/table.h"
#define RING_ENTRIES 16
#include "test-uring.h"

static const struct __kernel_timespec soon = { .tv_nsec = 1000000 };
static const struct __kernel_timespec late = { .tv_sec = 1000 };

static struct io_uring_sqe *put_timeout(const struct __kernel_timespec *ts,
					uint64_t count, uint32_t flags,
					uint64_t user_data)
{
	struct io_uring_sqe *sqe = put_rw(&client, IORING_OP_TIMEOUT, -1, ts, 1,
					  (int64_t)count, user_data);

	sqe->timeout_flags = flags;
	return sqe;
}

static void a_timeout_ends_at_its_time_by_any_clock(void **state)
{
	static const struct {
		uint32_t flags;
		clockid_t clock;
	} rows[] = {
		{ 0, CLOCK_MONOTONIC },
		{ IORING_TIMEOUT_BOOTTIME, CLOCK_BOOTTIME },
		{ IORING_TIMEOUT_REALTIME, CLOCK_REALTIME },
	};
	struct __kernel_timespec at;
	struct timespec now;

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(rows); i++) {
		int64_t start = uaio_now_ns();

		put_timeout(&soon, 0, rows[i].flags, 1);
		submit(&client, 1);
		assert_got(&client, 1, -ETIME);
		assert_true(uaio_now_ns() - start >= soon.tv_nsec);
		assert_int_equal(clock_gettime(rows[i].clock, &now), 0);
		at = (struct __kernel_timespec){ .tv_sec = now.tv_sec,
						 .tv_nsec = now.tv_nsec };
		put_timeout(&at, 0, rows[i].flags | IORING_TIMEOUT_ABS, 2);
		submit(&client, 1);
		assert_got(&client, 2, -ETIME);
	}
}

static void mistakes_have_the_kernels_answers(void **state)
{
	static const struct __kernel_timespec bad = { .tv_sec = -1 };
	static const struct {
		const struct __kernel_timespec *ts;
		uint32_t flags;
		uint32_t len;
		int32_t res;
	} rows[] = {
		{ &soon, 0, 0, -EINVAL },
		{ &soon, 0, 2, -EINVAL },
		{ &bad, 0, 1, -EINVAL },
		{ NULL, 0, 1, -EFAULT },
		{ &soon, 1u << 20, 1, -EINVAL },
		{ &soon, IORING_TIMEOUT_CLOCK_MASK, 1, -EINVAL },
		{ &soon, IORING_TIMEOUT_UPDATE, 1, -EINVAL },
		{ &soon, IORING_TIMEOUT_MULTISHOT | IORING_TIMEOUT_ABS, 1,
		  -EINVAL },
	};

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(rows); i++) {
		put_timeout(rows[i].ts, 0, rows[i].flags, i)->len = rows[i].len;
		submit(&client, 1);
		assert_got(&client, i, rows[i].res);
	}
	/* A linked timeout without a previous request is invalid. */
	put_rw(&client, IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 0, 9);
	submit(&client, 1);
	assert_got(&client, 9, -EINVAL);
}

static void a_timeout_ends_after_so_many_completions(void **state)
{
	int ends[2];
	char byte;

	(void)state;
	put_timeout(&late, 2, 0, 1);
	submit(&client, 0);
	put(&client, IORING_OP_NOP, -1, 2);
	submit(&client, 0);
	assert_got(&client, 2, 0);
	assert_none(&client);
	put(&client, IORING_OP_NOP, -1, 3);
	submit(&client, 2);
	assert_got(&client, 3, 0);
	assert_got(&client, 1, 0);
	/* A timeout does not count the completions of other timeouts. */
	put_timeout(&late, 1, 0, 1);
	put_timeout(&soon, 0, 0, 2);
	submit(&client, 1);
	assert_got(&client, 2, -ETIME);
	assert_none(&client);
	put(&client, IORING_OP_NOP, -1, 3);
	submit(&client, 2);
	assert_got(&client, 3, 0);
	assert_got(&client, 1, 0);
	/* A timeout also counts a completion that another thread posts. */
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_timeout(&late, 1, 0, 4);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 5)->flags =
		IOSQE_ASYNC;
	submit(&client, 0);
	assert_none(&client);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_got(&client, 5, 1);
	assert_got(&client, 4, 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void counts_that_end_together_end_in_their_order(void **state)
{
	static const unsigned counts[] = { 3, 2, 3, 1 };
	static const unsigned order[] = { 3, 1, 0, 2 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(counts); i++)
		put_timeout(&late, counts[i], 0, i);
	submit(&client, 0);
	for (unsigned i = 0; i < 3; i++)
		put(&client, IORING_OP_NOP, -1, 10 + i);
	submit(&client, 7);
	for (unsigned i = 0; i < 3; i++)
		assert_got(&client, 10 + i, 0);
	for (unsigned i = 0; i < NR_ELEMENTS(order); i++)
		assert_got(&client, order[i], 0);
}

/*
 * A timeout counts one completion, and a request that cancels a multishot poll is
 * linked to the timeout. A completion of the poll ends the timeout. The thread that
 * posts this completion also executes the cancelling request, and must not deadlock
 * with itself.
 */
static void a_completion_starts_what_cancels_its_request(void **state)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe cqe;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	sqe = put(&client, IORING_OP_POLL_ADD, ends[0], 1);
	sqe->poll32_events = POLLIN;
	sqe->len = IORING_POLL_ADD_MULTI;
	put_timeout(&late, 1, 0, 2)->flags = IOSQE_IO_LINK;
	put(&client, IORING_OP_ASYNC_CANCEL, -1, 3)->addr = 1;
	submit(&client, 0);
	assert_none(&client);
	assert_int_equal(write(ends[1], "x", 1), 1);
	cqe = get(&client);
	assert_cqe(&cqe, 1, POLLIN, IORING_CQE_F_MORE);
	assert_got(&client, 2, 0);
	assert_got(&client, 3, 0);
	assert_got(&client, 1, -ECANCELED);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * The completion of a poll ends a counting timeout, to which an update of this poll is
 * linked. The update finds that the poll has ended.
 */
static void a_completion_starts_what_updates_its_request(void **state)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe cqe;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	sqe = put(&client, IORING_OP_POLL_ADD, ends[0], 1);
	sqe->poll32_events = POLLIN;
	sqe->len = IORING_POLL_ADD_MULTI;
	put_timeout(&late, 1, 0, 2)->flags = IOSQE_IO_LINK;
	sqe = put(&client, IORING_OP_POLL_REMOVE, -1, 3);
	sqe->addr = 1;
	sqe->len = IORING_POLL_UPDATE_EVENTS | IORING_POLL_ADD_MULTI;
	sqe->poll32_events = POLLIN;
	submit(&client, 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(write(ends[1], "x", 1), 1);
		cqe = get(&client);
		assert_cqe(&cqe, 1, POLLIN, IORING_CQE_F_MORE);
		if (i == 0) {
			assert_got(&client, 2, 0);
			assert_got(&client, 3, -EALREADY);
		}
	}
	put(&client, IORING_OP_ASYNC_CANCEL, -1, 4)->addr = 1;
	submit(&client, 1);
	assert_got_both(&client, 1, -ECANCELED, 4, 0);
	assert_none(&client);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * The end of each timeout starts the request whose completion ends the next timeout. If
 * the worker ended the timeouts by nested calls, its stack would overflow.
 */
static void a_worker_ends_thousands_of_timeouts(void **state)
{
	enum { NR = 2000 };
	struct uring big;

	(void)state;
	client_open(&big, 4 * NR, (struct io_uring_params){ 0 });
	for (unsigned i = 0; i < NR; i++) {
		put_rw(&big, IORING_OP_TIMEOUT, -1, &late, 1, i + 1, i)->flags =
			IOSQE_IO_LINK;
		put(&big, IORING_OP_NOP, -1, NR + i);
	}
	submit(&big, 0);
	put(&big, IORING_OP_NOP, -1, 2 * NR)->flags = IOSQE_ASYNC;
	submit(&big, 0);
	for (unsigned i = 0; i < 2 * NR + 1; i++)
		assert_int_equal(get(&big).res, 0);
	assert_none(&big);
	client_close(&big);
}

/*
 * The library posts the tag of a registered file (rsrc.h) as a completion after the
 * last request that used the file. A timeout counts this completion, too.
 */
static void a_tag_that_is_posted_late_is_counted(void **state)
{
	int ends[2];
	static char byte;
	int32_t fd;
	uint64_t tag = 3;
	struct io_uring_rsrc_register set = { .nr = 1,
					      .data = (uintptr_t)&fd,
					      .tags = (uintptr_t)&tag };
	struct io_uring_rsrc_update2 update = { .data = (uintptr_t)&fd,
						.tags = (uintptr_t)&tag,
						.nr = 1 };

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fd = ends[0];
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_FILES2, &set,
					     sizeof(set)),
			 0);
	put_rw(&client, IORING_OP_READ, 0, &byte, 1, -1, 1)->flags =
		IOSQE_FIXED_FILE;
	submit(&client, 0);
	fd = -1;
	tag = 0;
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_FILES_UPDATE2,
					     &update, sizeof(update)),
			 1);
	put_timeout(&late, 2, 0, 2);
	submit(&client, 0);
	assert_none(&client);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_got(&client, 1, 1);
	assert_got(&client, 3, 0);
	assert_got(&client, 2, 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * A timeout in a chain starts when the poll before it has completed, and counts two
 * completions from then on.
 */
static void in_a_chain_a_timeout_counts_from_its_start(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (int breaks = 0; breaks < 2; breaks++) {
		struct io_uring_sqe *sqe =
			put(&client, IORING_OP_POLL_ADD, ends[0], 1);

		sqe->poll32_events = POLLIN;
		sqe->flags = IOSQE_IO_LINK;
		put_timeout(&late, 2, 0, 2);
		put(&client, IORING_OP_NOP, -1, 3);
		put(&client, IORING_OP_NOP, -1, 4);
		submit(&client, 2);
		assert_got(&client, 3, 0);
		assert_got(&client, 4, 0);
		assert_none(&client);
		if (breaks) {
			put(&client, IORING_OP_ASYNC_CANCEL, -1, 5)->addr = 1;
			submit(&client, 3);
			assert_got(&client, 5, 0);
			assert_got(&client, 1, -ECANCELED);
			assert_got(&client, 2, -ECANCELED);
			continue;
		}
		assert_int_equal(write(ends[1], "x", 1), 1);
		assert_got(&client, 1, POLLIN);
		assert_none(&client);
		put(&client, IORING_OP_NOP, -1, 5);
		submit(&client, 1);
		assert_got(&client, 5, 0);
		assert_none(&client);
		put(&client, IORING_OP_NOP, -1, 6);
		submit(&client, 2);
		assert_got(&client, 6, 0);
		assert_got(&client, 2, 0);
		assert_int_equal(read(ends[0], &(char){ 0 }, 1), 1);
	}
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static struct uaio_sink sink;

/*
 * Called instead of uaio_uring_sink.starts(). This function also posts the completion
 * that the timeout counts, before the timeout waits and can be cancelled.
 */
static void start_and_complete(struct uaio_queue *queue,
			       const struct uaio_sqe *sqe)
{
	struct uaio_uring *ring = container_of(queue, struct uaio_uring, queue);

	uaio_uring_sink.starts(queue, sqe);
	uaio_queue_lock(queue);
	ring->nr_taken++;
	uaio_queue_unlock(queue);
	uaio_uring_answer(ring, 3, 0);
}

static void a_timeout_that_is_due_before_it_waits_ends(void **state)
{
	struct uaio_uring *ring = uaio_uring_find((uint32_t)client.fd);
	struct io_uring_sqe *sqe;
	int ends[2];

	(void)state;
	sink = uaio_uring_sink;
	sink.starts = start_and_complete;
	ring->queue.sink = &sink;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	sqe = put(&client, IORING_OP_POLL_ADD, ends[0], 1);
	sqe->poll32_events = POLLIN;
	sqe->flags = IOSQE_IO_LINK;
	put_timeout(&late, 1, 0, 2);
	submit(&client, 0);
	/*
	 * ThreadSanitizer does not know that the pipe orders this thread and the one
	 * that posts. So order them by a lock as well.
	 */
	uaio_queue_lock(&ring->queue);
	uaio_queue_unlock(&ring->queue);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_got(&client, 1, POLLIN);
	assert_got(&client, 3, 0);
	assert_int_equal(unread(&client), 1);
	assert_got(&client, 2, 0);
	/*
	 * Leave the test's sink in the ring: other threads may use it until the ring
	 * ends.
	 */
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void a_timeout_may_count_as_a_success(void **state)
{
	(void)state;
	put_timeout(&soon, 0, 0, 1)->flags = IOSQE_IO_LINK;
	put(&client, IORING_OP_NOP, -1, 2);
	submit(&client, 2);
	assert_got(&client, 1, -ETIME);
	assert_got(&client, 2, -ECANCELED);
	put_timeout(&soon, 0, IORING_TIMEOUT_ETIME_SUCCESS, 1)->flags =
		IOSQE_IO_LINK;
	put(&client, IORING_OP_NOP, -1, 2);
	submit(&client, 2);
	assert_got(&client, 1, -ETIME);
	assert_got(&client, 2, 0);
}

static void a_timeout_may_come_again_and_again(void **state)
{
	static const struct __kernel_timespec at_once = { 0 };
	struct io_uring_cqe cqe;

	(void)state;
	put_timeout(&at_once, 3, IORING_TIMEOUT_MULTISHOT, 1);
	submit(&client, 0);
	for (int i = 0; i < 3; i++) {
		cqe = get(&client);
		assert_cqe(&cqe, 1, -ETIME, i < 2 ? IORING_CQE_F_MORE : 0);
	}
	put_timeout(&soon, 3, IORING_TIMEOUT_MULTISHOT, 1);
	submit(&client, 0);
	for (int i = 0; i < 3; i++) {
		cqe = get(&client);
		assert_cqe(&cqe, 1, -ETIME, i < 2 ? IORING_CQE_F_MORE : 0);
	}
	assert_none(&client);
	client_close(&client);
	/*
	 * The ring needs room for the completions that are posted while this thread
	 * does not run.
	 */
	client_open(&client, 16,
		    (struct io_uring_params){ .flags = IORING_SETUP_CQSIZE,
					      .cq_entries = 32768 });
	put_timeout(&soon, 0, IORING_TIMEOUT_MULTISHOT, 2);
	submit(&client, 0);
	for (int i = 0; i < 5; i++) {
		cqe = get(&client);
		assert_cqe(&cqe, 2, -ETIME, IORING_CQE_F_MORE);
	}
	put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 3)->addr = 2;
	submit(&client, 0);
	do
		cqe = get(&client);
	while (cqe.flags & IORING_CQE_F_MORE);
	if (cqe.user_data == 2) {
		assert_cqe(&cqe, 2, -ECANCELED, 0);
		assert_got(&client, 3, 0);
	} else {
		assert_cqe(&cqe, 3, 0, 0);
		assert_got(&client, 2, -ECANCELED);
	}
}

static void fields_that_timeouts_do_not_have_are_0(void **state)
{
	(void)state;
	put_timeout(&soon, 0, 0, 1)->addr3 = 1;
	submit(&client, 1);
	assert_got(&client, 1, -EINVAL);
	put_timeout(&soon, 0, 0, 1)->__pad2[0] = 1;
	submit(&client, 1);
	assert_got(&client, 1, -EINVAL);
	put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 2)->addr3 = 1;
	submit(&client, 1);
	assert_got(&client, 2, -EINVAL);
	put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 2)->__pad2[0] = 1;
	submit(&client, 1);
	assert_got(&client, 2, -EINVAL);
}

static void timeouts_are_removed_and_changed(void **state)
{
	struct io_uring_sqe *sqe;

	(void)state;
	put_timeout(&late, 0, 0, 1);
	put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 2)->addr = 1;
	submit(&client, 2);
	assert_got_both(&client, 1, -ECANCELED, 2, 0);
	put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 2)->addr = 1;
	submit(&client, 1);
	assert_got(&client, 2, -ENOENT);
	put_timeout(&late, 5, 0, 3);
	submit(&client, 0);
	sqe = put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 4);
	sqe->addr = 3;
	sqe->addr2 = (uintptr_t)&soon;
	sqe->timeout_flags = IORING_TIMEOUT_UPDATE;
	submit(&client, 2);
	assert_got_both(&client, 4, 0, 3, -ETIME);
	sqe = put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 4);
	sqe->addr = 3;
	sqe->addr2 = (uintptr_t)&soon;
	sqe->timeout_flags = IORING_TIMEOUT_UPDATE;
	submit(&client, 1);
	assert_got(&client, 4, -ENOENT);
}

static void a_timeout_that_is_updated_keeps_its_clock(void **state)
{
	struct __kernel_timespec at;
	struct io_uring_sqe *sqe;
	struct timespec now;

	(void)state;
	put_timeout(&late, 0, IORING_TIMEOUT_REALTIME, 1);
	submit(&client, 0);
	sqe = put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 2);
	sqe->addr = 1;
	sqe->addr2 = (uintptr_t)&soon;
	sqe->timeout_flags = IORING_TIMEOUT_UPDATE | IORING_TIMEOUT_REALTIME;
	submit(&client, 1);
	assert_got(&client, 2, -EINVAL);
	/*
	 * An update keeps the timeout's clock. By CLOCK_REALTIME this time has come; by
	 * the other clocks it is far in the future.
	 */
	assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
	at = (struct __kernel_timespec){ .tv_sec = now.tv_sec,
					 .tv_nsec = now.tv_nsec };
	sqe = put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 2);
	sqe->addr = 1;
	sqe->addr2 = (uintptr_t)&at;
	sqe->timeout_flags = IORING_TIMEOUT_UPDATE | IORING_TIMEOUT_ABS;
	submit(&client, 2);
	assert_got_both(&client, 2, 0, 1, -ETIME);
}

static void a_linked_timeout_cancels_or_is_cancelled(void **state)
{
	static const int results[] = { 0, -ECANCELED, -ETIME, 0 };
	struct io_uring_sqe *sqe;
	uint32_t got = 0;
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 1)->flags =
		IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 0, 2);
	submit(&client, 2);
	assert_got_both(&client, 1, -ECANCELED, 2, -ETIME);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 1)->flags =
		IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_LINK_TIMEOUT, -1, &late, 1, 0, 2);
	submit(&client, 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_got_both(&client, 1, 1, 2, -ECANCELED);
	/* Update a linked timeout while its request waits. */
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 1)->flags =
		IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_LINK_TIMEOUT, -1, &late, 1, 0, 2);
	submit(&client, 0);
	sqe = put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 3);
	sqe->addr = 2;
	sqe->addr2 = (uintptr_t)&soon;
	sqe->timeout_flags = IORING_LINK_TIMEOUT_UPDATE | IORING_TIMEOUT_UPDATE;
	submit(&client, 3);
	/* The completions arrive in any order. */
	for (int i = 0; i < 3; i++) {
		struct io_uring_cqe cqe = get(&client);

		assert_in_range(cqe.user_data, 1, 3);
		assert_false(got & 1u << cqe.user_data);
		got |= 1u << cqe.user_data;
		assert_int_equal(cqe.res, results[cqe.user_data]);
	}
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static bool is_quiet(void *arg)
{
	(void)arg;
	return unit_is_quiet(0) && unit_is_quiet(0);
}

static struct {
	int ends[2];       /* of a pipe */
	int64_t due_ns;    /* the timeout's deadline */
	uint32_t is_armed; /* atomic */
} taken;

/*
 * Hook of system calls: when epoll_wait() has returned an event, but before the library
 * handles it, read the byte that made the pipe ready, and let the timeout expire.
 */
static bool take_and_wait(long nr, const long args[6], long *ret_res)
{
	enum { NR_EPOLL_PWAIT2 = 441 };
	uint32_t word = 0;
	char byte;

	if ((nr != SYS_epoll_pwait && nr != NR_EPOLL_PWAIT2) ||
	    !xchg_acqrel(&taken.is_armed, 0))
		return false;
	(void)!write(taken.ends[1], "x", 1);
	*ret_res = unit_make_call(nr, args);
	(void)!read(taken.ends[0], &byte, 1);
	while (uaio_now_ns() < taken.due_ns)
		(void)uaio_sleep(&word, 0, taken.due_ns);
	return true;
}

/*
 * A thread has an old event for a file, whose byte was read meanwhile. Before the
 * thread handles the event, an expired timeout starts a linked poll of this file. The
 * poll must not report the old event.
 */
static void a_linked_poll_is_not_answered_by_what_was_taken_before(void **state)
{
	enum { FIRST, TIMEOUT, LINKED, AFTER_NS = 20000000 };
	struct __kernel_timespec at = { .tv_nsec = AFTER_NS };
	struct io_uring_sqe *sqe;
	uint64_t got;

	(void)state;
	assert_int_equal(pipe2(taken.ends, O_CLOEXEC), 0);
	put(&client, IORING_OP_POLL_ADD, taken.ends[0], FIRST)->poll32_events =
		POLLIN;
	sqe = put_timeout(&at, 0, IORING_TIMEOUT_ETIME_SUCCESS, TIMEOUT);
	sqe->flags = IOSQE_IO_LINK;
	put(&client, IORING_OP_POLL_ADD, taken.ends[0], LINKED)->poll32_events =
		POLLIN;
	submit(&client, 0);
	taken.due_ns = uaio_now_ns() + AFTER_NS;
	store_release(&taken.is_armed, 1);
	unit_hook(take_and_wait);
	do {
		got = get(&client).user_data;
		assert_int_not_equal(got, LINKED);
	} while (got != TIMEOUT);
	unit_await(is_quiet, NULL);
	unit_hook(NULL);
	while (unread(&client))
		assert_int_equal(get(&client).user_data, FIRST);
	assert_int_equal(write(taken.ends[1], "y", 1), 1);
	while (get(&client).user_data != LINKED)
		;
	unit_close(taken.ends[0]);
	unit_close(taken.ends[1]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(a_timeout_ends_at_its_time_by_any_clock),
		RING_TEST(mistakes_have_the_kernels_answers),
		RING_TEST(a_timeout_ends_after_so_many_completions),
		RING_TEST(counts_that_end_together_end_in_their_order),
		RING_TEST(a_completion_starts_what_cancels_its_request),
		RING_TEST(a_completion_starts_what_updates_its_request),
		RING_TEST(a_worker_ends_thousands_of_timeouts),
		RING_TEST(a_tag_that_is_posted_late_is_counted),
		RING_TEST(in_a_chain_a_timeout_counts_from_its_start),
		RING_TEST(a_timeout_that_is_due_before_it_waits_ends),
		RING_TEST(a_timeout_may_count_as_a_success),
		RING_TEST(a_timeout_may_come_again_and_again),
		RING_TEST(fields_that_timeouts_do_not_have_are_0),
		RING_TEST(timeouts_are_removed_and_changed),
		RING_TEST(a_timeout_that_is_updated_keeps_its_clock),
		RING_TEST(a_linked_timeout_cancels_or_is_cancelled),
		RING_TEST(
			a_linked_poll_is_not_answered_by_what_was_taken_before),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
