/* SPDX-License-Identifier: MIT */
/*
 * Tests drains. Completions come in the same order as from the kernel's io_uring, with
 * one exception. In the kernel, a held request that is cancelled completes only after the
 * drain.
 */
#undef NDEBUG
#include "flow/drain.h"

#include <errno.h>

#include "flow/post.h"
#include "flow/test-chain.h"

static struct uaio_sqe read_pipe(uint8_t links)
{
	return rw(UAIO_OP_READ, ends[0], 1, links);
}

static void a_drain_waits_for_all_before_and_all_after_for_it(void **state)
{
	(void)state;
	open_pipe(8);
	SUBMIT(read_pipe(0), nop(0), nop(UAIO_DRAIN), nop(0));
	EXPECT({ 2, 0 });
	SUBMIT_FROM(5, nop(0));
	expect_nothing();
	put_text("x");
	EXPECT({ 1, 1 }, { 3, 0 }, { 4, 0 }, { 5, 0 });
	/* The drain (request 3) is complete, so new requests do not wait for it. */
	SUBMIT(read_pipe(0), nop(0));
	EXPECT({ 2, 0 });
	put_text("x");
	EXPECT({ 1, 1 });
	close_pipe();
}

static void what_is_after_a_drain_waits_while_it_runs(void **state)
{
	(void)state;
	open_pipe(8);
	SUBMIT(read_pipe(UAIO_DRAIN), nop(0), nop(0), nop(UAIO_DRAIN), nop(0));
	expect_nothing();
	put_text("x");
	EXPECT({ 1, 1 }, { 2, 0 }, { 3, 0 }, { 4, 0 }, { 5, 0 });
	SUBMIT(timer(UAIO_OP_TIMER, MS, 0), nop(UAIO_DRAIN),
	       timer(UAIO_OP_TIMER, MS, UAIO_DRAIN), nop(0));
	EXPECT({ 1, -ETIME }, { 2, 0 }, { 3, -ETIME }, { 4, 0 });
	close_pipe();
}

static void a_drain_among_a_chain_drains_the_chain(void **state)
{
	(void)state;
	open_pipe(8);
	for (unsigned i = 0; i < 2; i++) {
		uint8_t first = i ? 0 : UAIO_DRAIN, second = i ? UAIO_DRAIN : 0;

		SUBMIT(read_pipe(0), nop(UAIO_LINK | first), read_pipe(second),
		       nop(0));
		expect_nothing();
		put_text("x");
		EXPECT({ 1, 1 }, { 2, 0 });
		expect_nothing();
		put_text("x");
		EXPECT({ 3, 1 }, { 4, 0 });
	}
	close_pipe();
}

static void a_long_row_of_drains_is_no_deep_one(void **state)
{
	enum { NR = 2000 };
	static struct uaio_sqe sqes[NR];
	struct io_event event;

	(void)state;
	handle = unit_context(NR);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < NR; i++) {
			sqes[i] = nop(UAIO_DRAIN);
			sqes[i].is_async = round;
		}
		submit(sqes, NR, 0);
		for (unsigned i = 0; i < NR; i++) {
			assert_int_equal(unit_reap(handle, 1, &event), 1);
			assert_int_equal(event.data, i);
		}
	}
	unit_destroy(handle);
}

static void what_is_held_can_be_cancelled(void **state)
{
	(void)state;
	open_pipe(8);
	/*
	 * Once the drain (request 2) is cancelled, request 4 does not wait for request 1.
	 */
	SUBMIT(read_pipe(0), nop(UAIO_DRAIN), nop(0), nop(0));
	assert_int_equal(cancel(3), 0);
	EXPECT({ 3, -ECANCELED });
	expect_nothing();
	assert_int_equal(cancel(2), 0);
	EXPECT({ 2, -ECANCELED }, { 4, 0 });
	expect_nothing();
	put_text("x");
	EXPECT({ 1, 1 });
	/*
	 * Cancelling request 3 also cancels request 4, which is linked to it, but not the
	 * drain (request 2) before it.
	 */
	SUBMIT(read_pipe(0), nop(UAIO_LINK | UAIO_DRAIN), nop(UAIO_LINK),
	       nop(0), nop(0));
	assert_int_equal(cancel(3), 0);
	EXPECT({ 3, -ECANCELED }, { 4, -ECANCELED });
	expect_nothing();
	put_text("x");
	EXPECT({ 1, 1 }, { 2, 0 }, { 5, 0 });
	SUBMIT(read_pipe(0), nop(UAIO_LINK | UAIO_DRAIN), nop(0), nop(0));
	assert_int_equal(cancel(1), 0);
	EXPECT({ 1, -ECANCELED }, { 2, 0 }, { 3, 0 }, { 4, 0 });
	close_pipe();
}

static void a_mistake_does_not_wait(void **state)
{
	(void)state;
	open_pipe(8);
	SUBMIT(read_pipe(0), nop(UAIO_DRAIN), timer(UAIO_OP_TIMER, -1, 0),
	       rw(UAIO_OP_READ, 999, 1, 0));
	EXPECT({ 3, -EINVAL });
	expect_nothing();
	put_text("x");
	EXPECT({ 1, 1 }, { 2, 0 }, { 4, -EBADF });
	close_pipe();
}

static void closing_waits_for_nothing_that_is_held(void **state)
{
	int fd = unit_numbered_file(true, 1);

	(void)state;
	open_pipe(8);
	SUBMIT(read_pipe(0), rw(UAIO_OP_WRITE, fd, SIZE, UAIO_DRAIN),
	       rw(UAIO_OP_READ, fd, SIZE, 0));
	unit_close(fd);
	put_text("x");
	EXPECT({ 1, 1 }, { 2, -EBADF }, { 3, -EBADF });
	for (unsigned i = 0; i < 50; i++) {
		SUBMIT(read_pipe(0), read_pipe(UAIO_DRAIN), nop(0),
		       read_pipe(UAIO_LINK), nop(UAIO_DRAIN));
		close_pipe();
		open_pipe(8);
	}
	close_pipe();
}

/*
 * A request leaves its queue's list of requests (its group) before the library posts
 * its completion. A drain waits until the library has posted it.
 */
static void a_drain_waits_until_what_was_before_is_posted(void **state)
{
	const struct uaio_sqe first = { .op = UAIO_OP_NOP,
					.fd = -1,
					.data = 1 };
	struct uaio_completion completion = { .data = 1 };
	struct uaio_post post = { .completions = &completion, .nr = 1 };
	struct uaio_submission submission;
	struct list startable;
	struct uaio_queue *queue;
	struct uaio_req *req;

	(void)state;
	list_init(&startable);
	handle = unit_context(8);
	assert_true(uaio_enter());
	assert_int_equal(uaio_submission_begin(&submission, handle, 1), 1);
	queue = submission.batch.by.queue;
	req = uaio_req_new_held(&submission.batch.by, &first);
	assert_non_null(req);
	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_RUNNING);
	uaio_submission_end(&submission, 1);
	uaio_lock(&queue->group.lock, UAIO_RANK_GROUP);
	uaio_req_leave_locked(req, true);
	uaio_unlock(&queue->group.lock, UAIO_RANK_GROUP);
	uaio_leave();

	SUBMIT_FROM(2, nop(UAIO_DRAIN), nop(0));
	expect_nothing();
	assert_true(uaio_enter());
	uaio_queue_post_late(queue, &post, &startable);
	uaio_req_start_all(&startable);
	uaio_leave();
	EXPECT({ 1, 0 }, { 2, 0 }, { 3, 0 });
	unit_destroy(handle);
}

static long write_all(void *arg)
{
	unsigned nr = *(unsigned *)arg;

	for (unsigned i = 0; i < nr; i++) {
		stay_away_us(i % 16);
		assert_int_equal(write(ends[1], "x", 1), 1);
	}
	return 0;
}

/* Each read completes at about the time when the drain behind it is submitted. */
static void a_drain_may_meet_the_end_of_what_was_before(void **state)
{
	unsigned nr = unit_rounds(2000);
	struct unit_thread thread;

	(void)state;
	open_pipe(8);
	unit_thread_start(&thread, write_all, &nr);
	for (unsigned i = 0; i < nr; i++) {
		SUBMIT(read_pipe(0));
		SUBMIT_FROM(2, nop(UAIO_DRAIN));
		SUBMIT_FROM(3, nop(0));
		EXPECT({ 1, 1 }, { 2, 0 }, { 3, 0 });
	}
	assert_int_equal(unit_thread_join(&thread), 0);
	close_pipe();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_drain_waits_for_all_before_and_all_after_for_it),
		UNIT_TEST(what_is_after_a_drain_waits_while_it_runs),
		UNIT_TEST(a_drain_among_a_chain_drains_the_chain),
		UNIT_TEST(a_long_row_of_drains_is_no_deep_one),
		UNIT_TEST(what_is_held_can_be_cancelled),
		UNIT_TEST(a_mistake_does_not_wait),
		UNIT_TEST(closing_waits_for_nothing_that_is_held),
		UNIT_TEST(a_drain_waits_until_what_was_before_is_posted),
		UNIT_TEST(a_drain_may_meet_the_end_of_what_was_before),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
