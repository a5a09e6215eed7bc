/* SPDX-License-Identifier: MIT */
/*
 * A thread (the victim) parks a request and is stopped after each of its instructions in
 * turn. While the victim is stopped, another thread (the intruder) makes the file ready,
 * closes it, cancels the request, or closes its queue. Or the victim cancels the request,
 * and the intruder parks it.
 */
#undef NDEBUG
#include "flow/flow.h"

#include <errno.h>

#include "proc/entry.h"
#include "req/req.h"
#include "ready/ready.h"
#include "ready/timer.h"
#include "flow/cancel.h"
#include "flow/test-chain.h"

enum { FIRST = 1, PARKED = 2, NR_EVENTS = 4 };

static const int64_t LONG_NS = 600000 * 1000000ll;

/*
 * A read in another context, which waits for its file. Without this read, the library
 * would not run its fallback thread, which executes requests whose files become ready
 * (ready/fallback.c).
 */
static struct {
	int ends[2];
	uint64_t handle;
	char byte;
} other;

static struct uaio_req *req; /* RUNNING, before uaio_req_park() */
static uint64_t old;         /* handle of the context of req */

/*
 * A hook for prctl(2), by which each new thread of the library sets its name. The hook
 * lets the new thread, for example the fallback thread, execute code that has
 * breakpoints.
 */
static bool let_step(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr == SYS_prctl)
		unit_let_step();
	return false;
}

static void begin(void)
{
	/*
	 * Destroying the context `first` below leaves a gap in the memory for rings, and
	 * the ring of the context under test gets this gap. A context's handle is the
	 * address of its ring. The ring that replace_queue() makes is too long for the gap,
	 * so the new context gets another handle than the old.
	 */
	uint64_t first = unit_context(NR_EVENTS);
	struct iocb iocb;

	unit_hook(let_step);
	assert_int_equal(pipe2(other.ends, O_CLOEXEC), 0);
	other.handle = unit_context(1);
	iocb = unit_iocb(IOCB_CMD_PREAD, other.ends[0], &other.byte, 1, 0);
	assert_int_equal(unit_submit(other.handle, &iocb), 1);
	unit_destroy(first);
}

static void end(void)
{
	unit_destroy(other.handle);
	unit_close(other.ends[0]);
	unit_close(other.ends[1]);
}

static void open_empty_pipe(void)
{
	open_pipe(NR_EVENTS);
	old = handle;
}

/* What the intruder does while the victim is stopped: */

static long feed_and_reap(void *arg)
{
	(void)arg;
	put_text("x");
	return unit_reap_one(handle);
}

/* Only reap: the byte was written to the pipe before. */
static long just_reap(void *arg)
{
	(void)arg;
	return unit_reap_one(handle);
}

static long close_feed_and_reap(void *arg)
{
	(void)arg;
	unit_close(ends[0]);
	put_text("x");
	return unit_reap_one(handle);
}

/* Return: as uaio_ctx_cancel_one(). */
static long cancel_parked(void *arg)
{
	(void)arg;
	return cancel(PARKED);
}

static bool is_parked_key(const struct uaio_cancel_aim *aim,
			  const struct uaio_sqe *sqe,
			  const struct uaio_file *file)
{
	(void)aim;
	(void)file;
	return sqe->key == PARKED;
}

/*
 * Cancel with ends_unparked set (cancel.h): a request that is about to be parked ends
 * as cancelled instead, although the call returns -EALREADY for it.
 */
static long end_parked(void *arg)
{
	static const struct uaio_cancel_aim aim = {
		.is_meant = is_parked_key,
		.is_one = true,
		.ends_unparked = true,
	};
	struct uaio_ctx *ctx;
	long ret;

	(void)arg;
	assert_true(uaio_enter());
	ctx = uaio_ctx_find(handle);
	ret = uaio_queue_cancel_meant(&ctx->queue, &aim, NULL);
	uaio_leave();
	return ret;
}

/* Destroy the context, and reuse the memory of its queue for another context. */
static long replace_queue(void *arg)
{
	(void)arg;
	unit_destroy(handle);
	handle = unit_context(1000);
	return 0;
}

/* Check that the queue has no more events and no parked requests. */
static void assert_nothing_left(void)
{
	const struct uaio_ready *ready =
		&uaio_ctx_find(handle)->queue.group.ready;

	unit_assert_no_more(handle);
	assert_int_equal(load_relaxed(&ready->nr_parked), 0);
}

static void finish(void)
{
	assert_nothing_left();
	close_pipe();
}

static void finish_closed(void)
{
	assert_nothing_left();
	unit_destroy(handle);
	unit_close(ends[1]);
}

/* Victim 1: a thread that owns a RUNNING request parks it by uaio_req_park(). */

static void make_prepped(const struct uaio_sqe *sqe)
{
	struct uaio_submission submission;
	bool has_file = !uaio_optab[sqe->op].has_no_file;

	assert_true(uaio_enter());
	assert_int_equal(uaio_submission_begin(&submission, old, 1), 1);
	assert_int_equal(
		uaio_req_new(&submission.batch.by, NULL, sqe, true, &req), 0);
	req->next = has_file ? UAIO_NEXT_WAIT_FILE : UAIO_NEXT_WAIT_TIME;
	uaio_submission_end(&submission, 1);
	/*
	 * Choose the queue's home now (the epoll that watches its parked requests), so that
	 * uaio_req_park() need not. Victim 2 chooses the home while it parks.
	 */
	assert_int_equal(uaio_ready_expect(req->group), 0);
	uaio_ready_unexpect(req->group);
	uaio_leave();
}

static void make_running(const struct uaio_sqe *sqe)
{
	make_prepped(sqe);
	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_RUNNING);
}

/*
 * Make the read a multishot request: only such a request is marked by a canceller while
 * RUNNING.
 */
static void make_running_read(void)
{
	struct uaio_sqe sqe;

	open_empty_pipe();
	sqe = rw(UAIO_OP_READ, ends[0], 1, 0);
	sqe.is_multishot = true;
	sqe.data = sqe.key = PARKED;
	make_running(&sqe);
}

static void make_running_read_of_what_is_there(void)
{
	make_running_read();
	put_text("x");
}

static void make_running_timer(int64_t ns)
{
	struct uaio_sqe sqe = timer(UAIO_OP_TIMER, ns, 0);

	open_empty_pipe();
	sqe.data = sqe.key = PARKED;
	make_running(&sqe);
	req->sqe.is_multishot = true;
	req->until_ns = uaio_timer_due(&sqe, uaio_now_ns());
}

static void make_running_timer_that_is_due(void)
{
	make_running_timer(0);
}

static void make_running_timer_for_long(void)
{
	make_running_timer(LONG_NS);
}

/*
 * Park req as a worker does.
 * Return: as for uaio_req_park().
 */
static long park(void *arg)
{
	int ret;

	(void)arg;
	assert_true(uaio_enter());
	ret = uaio_req_park(req);
	if (ret < 0)
		uaio_req_complete(req, uaio_req_cancelled_res(req));
	uaio_leave();
	return ret;
}

static void check_got(long victims, long intruders)
{
	assert_int_equal(victims, 0);
	assert_int_equal(intruders, 1);
	finish();
}

static void check_got_closed(long victims, long intruders)
{
	assert_int_equal(victims, 0);
	assert_int_equal(intruders, 1);
	finish_closed();
}

/*
 * Either the intruder marked the request, and it was not parked; or the request was parked,
 * and the intruder cancelled it.
 */
static void check_cancelled(long victims, long intruders)
{
	assert_true((victims == -ECANCELED && intruders < 0) ||
		    (victims == 0 && intruders >= 0));
	assert_int_equal(unit_reap_one(handle), -ECANCELED);
	finish();
}

static void check_replaced(long victims, long intruders)
{
	assert_true(victims == -ECANCELED || victims == 0);
	assert_int_equal(intruders, 0);
	finish();
}

static void check_timed(long victims, long intruders)
{
	assert_int_equal(victims, 0);
	assert_int_equal(intruders, -ETIME);
	finish();
}

/*
 * Victim 2: a submission whose last request is parked. If there are two requests, the first
 * completes at once, and the last, which is linked to it, starts.
 */

static long submit_to_old(struct uaio_sqe *sqes, unsigned nr)
{
	struct uaio_submission submission;
	struct uaio_chain chain;
	long ret;

	assert_true(uaio_enter());
	ret = uaio_submission_begin(&submission, old, nr);
	if (ret > 0) {
		uaio_chain_begin(&chain, &submission.batch);
		for (unsigned i = 0; i < nr; i++) {
			sqes[i].data = sqes[i].key = PARKED + 1 + i - nr;
			assert_int_equal(add(&submission, &chain, &sqes[i]), 0);
		}
		uaio_chain_end(&chain);
		uaio_submission_end(&submission, nr);
	}
	uaio_leave();
	return ret;
}

static long submit_read(void *arg)
{
	struct uaio_sqe sqe = rw(UAIO_OP_READ, ends[0], 1, 0);

	(void)arg;
	return submit_to_old(&sqe, 1);
}

static long submit_chain(void *arg)
{
	struct uaio_sqe sqes[] = {
		nop(UAIO_LINK),
		rw(UAIO_OP_READ, ends[0], 1, 0),
	};

	(void)arg;
	return submit_to_old(sqes, 2);
}

/* Submit a read that waits, and a linked timer that has already expired. */
static long submit_with_timer(void *arg)
{
	struct uaio_sqe sqes[] = {
		rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
		timer(UAIO_OP_LINK_TIMER, 0, 0),
	};

	(void)arg;
	return submit_to_old(sqes, 2);
}

/*
 * Check that all requests are complete: the parked request with the result res, the
 * other request, if any, with 0.
 */
static void check_last(long victims, int64_t res)
{
	struct io_event events[2];

	assert_int_equal(unit_reap(handle, victims, events), victims);
	for (long i = 0; i < victims; i++)
		assert_int_equal((int64_t)events[i].res,
				 events[i].data == PARKED ? res : 0);
	finish();
}

/*
 * The intruder has reaped the events of all the victim's requests. Its return value is
 * 2 for two events. For one event it is the result of the read, which is 1. In both
 * cases the value is the number of requests.
 */
static void check_submitted(long victims, long intruders)
{
	assert_int_equal(intruders, victims);
	finish();
}

/*
 * Write a byte, and reap two events.
 * Return: how many events were reaped.
 */
static long feed_and_reap_two(void *arg)
{
	(void)arg;
	put_text("x");
	return reap_two(NULL);
}

/*
 * Either the intruder cancelled the request, or it came too early to find the request:
 * then cancel the request now.
 */
static void check_submit_cancelled(long victims, long intruders)
{
	assert_true(intruders >= 0 || cancel(PARKED) >= 0);
	check_last(victims, -ECANCELED);
}

/*
 * There are three correct outcomes. The intruder cancelled the request. Or it got
 * -EALREADY, and the request ends without being parked. Or it came too early to find
 * the request: then cancel the request now.
 */
static void check_submit_ended(long victims, long intruders)
{
	assert_true(intruders >= 0 || intruders == -EALREADY ||
		    cancel(PARKED) >= 0);
	check_last(victims, -ECANCELED);
}

static void check_submit_replaced(long victims, long intruders)
{
	assert_true(victims > 0 || victims == -EINVAL);
	assert_int_equal(intruders, 0);
	finish();
}

static long feed(void *arg)
{
	(void)arg;
	put_text("x");
	return 0;
}

/*
 * Victim 3: a canceller with ends_unparked set. The intruder parks the request without
 * the queue's lock, as a starter does, or a thread that repeats a timer.
 */

static void expect_parking(void)
{
	assert_true(uaio_enter());
	assert_int_equal(uaio_ready_expect_req(req), 0);
	uaio_leave();
}

static void make_read_to_park(void)
{
	struct uaio_sqe sqe;

	open_empty_pipe();
	sqe = rw(UAIO_OP_READ, ends[0], 1, 0);
	sqe.data = sqe.key = PARKED;
	make_prepped(&sqe);
	expect_parking();
}

static void make_timer_to_park(void)
{
	struct uaio_sqe sqe = timer(UAIO_OP_TIMER, LONG_NS, 0);

	open_empty_pipe();
	sqe.data = sqe.key = PARKED;
	make_prepped(&sqe);
	req->until_ns = uaio_timer_due(&sqe, uaio_now_ns());
	expect_parking();
}

static void make_timer_to_repeat(void)
{
	make_running_timer_for_long();
	expect_parking();
}

/* Return: whether the request was parked. If not, it is complete. */
static long park_alone(void *arg)
{
	enum uaio_req_state from = uaio_req_state(req);
	bool parks;

	(void)arg;
	assert_true(uaio_enter());
	parks = uaio_ready_park(req, from);
	if (!parks) {
		if (from == UAIO_REQ_PREPPED)
			uaio_req_move(req, from, UAIO_REQ_RUNNING);
		uaio_req_complete(req, uaio_req_cancelled_res(req));
	}
	uaio_leave();
	return parks;
}

/*
 * Either the victim cancelled the parked request, or the victim's mark kept the request
 * from being parked.
 */
static void check_parked_or_marked(long victims, long intruders)
{
	assert_int_equal(victims, intruders ? 1 : -EALREADY);
	assert_int_equal(unit_reap_one(handle), -ECANCELED);
	finish();
}

/*
 * Three outcomes are correct: the timer cancelled the read; the completed read cancelled
 * the timer; or the read completed just before the timer could cancel it.
 */
static void check_one_ended_the_other(long victims, long intruders)
{
	struct io_event events[2];
	int64_t res[2];

	(void)intruders;
	assert_int_equal(victims, 2);
	assert_int_equal(unit_reap(handle, 2, events), 2);
	for (unsigned i = 0; i < 2; i++)
		res[events[i].data - FIRST] = (int64_t)events[i].res;
	if (res[0] != 1 || res[1] != -EALREADY)
		assert_true(res[1] == -ETIME ||
			    (res[0] == 1 && res[1] == -ECANCELED));
	assert_true(res[0] == 1 || res[0] == -ECANCELED);
	finish();
}

static void step(void (*prepare)(void), unit_step_fn *victim,
		 unit_step_fn *intruder, void (*check)(long, long))
{
	const struct unit_stepping stepping = {
		.victim = victim,
		.intruder = intruder,
		.prepare = prepare,
		.check = check,
		.nr_min = 100,
		/*
		 * A submission has many more instructions than park() or end_parked().
		 * So stop it only after every 11th instruction.
		 */
		.stride = victim == park || victim == end_parked ? 1 : 11,
	};

	unit_step_through(&stepping);
}

static void what_gets_ready_meanwhile_is_found(void **state)
{
	(void)state;
	begin();
	step(make_running_read, park, feed_and_reap, check_got);
	step(make_running_read_of_what_is_there, park, just_reap, check_got);
	step(make_running_timer_that_is_due, park, just_reap, check_timed);
	step(open_empty_pipe, submit_read, feed_and_reap, check_submitted);
	step(open_empty_pipe, submit_chain, feed_and_reap_two, check_submitted);
	step(open_empty_pipe, submit_with_timer, feed,
	     check_one_ended_the_other);
	end();
}

static void a_descriptor_may_be_closed_meanwhile(void **state)
{
	(void)state;
	begin();
	step(make_running_read, park, close_feed_and_reap, check_got_closed);
	end();
}

static void what_is_cancelled_meanwhile_does_not_wait(void **state)
{
	(void)state;
	begin();
	step(make_running_read, park, cancel_parked, check_cancelled);
	step(make_running_timer_for_long, park, cancel_parked, check_cancelled);
	step(open_empty_pipe, submit_read, cancel_parked,
	     check_submit_cancelled);
	step(open_empty_pipe, submit_chain, cancel_parked,
	     check_submit_cancelled);
	step(open_empty_pipe, submit_read, end_parked, check_submit_ended);
	step(open_empty_pipe, submit_chain, end_parked, check_submit_ended);
	end();
}

static void what_parks_while_it_is_cancelled_does_not_wait(void **state)
{
	(void)state;
	begin();
	step(make_read_to_park, end_parked, park_alone, check_parked_or_marked);
	step(make_timer_to_park, end_parked, park_alone,
	     check_parked_or_marked);
	step(make_timer_to_repeat, end_parked, park_alone,
	     check_parked_or_marked);
	end();
}

static void a_queue_may_go_away_meanwhile(void **state)
{
	(void)state;
	begin();
	step(make_running_read, park, replace_queue, check_replaced);
	step(make_running_timer_for_long, park, replace_queue, check_replaced);
	step(open_empty_pipe, submit_read, replace_queue,
	     check_submit_replaced);
	step(open_empty_pipe, submit_chain, replace_queue,
	     check_submit_replaced);
	step(open_empty_pipe, submit_with_timer, replace_queue,
	     check_submit_replaced);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(what_gets_ready_meanwhile_is_found),
		UNIT_TEST(a_descriptor_may_be_closed_meanwhile),
		UNIT_TEST(what_is_cancelled_meanwhile_does_not_wait),
		UNIT_TEST(what_parks_while_it_is_cancelled_does_not_wait),
		UNIT_TEST(a_queue_may_go_away_meanwhile),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
