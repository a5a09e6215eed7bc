/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "proc/entry.h"
#include "op/op.h"
#include "issue/submit.h"
#include "life/life.h"
#include "aio/aio.h"
#include "aio/ctx.h"
#include "aio/handle.h"
#include "aio/iocb.h"
#include "threads.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES, NR = 1000 };

/* io_event.obj of the event of request 0 */
static const uint64_t OBJ = 0xabcdef0000000000;

static struct uaio_sqe nop(unsigned i, bool is_async)
{
	return (struct uaio_sqe){
		.op = UAIO_OP_NOP,
		.is_async = is_async,
		.fd = -1,
		.data = i,
		.key = OBJ + i,
	};
}

static struct uaio_sqe rw(enum uaio_op op, int fd, char *buffer)
{
	return (struct uaio_sqe){
		.op = (uint8_t)op,
		.is_async = true,
		.fd = fd,
		.buf = buffer,
		.len = SIZE,
	};
}

/* Submit all no-ops in one call. */
static void submit_nops(uint64_t handle, unsigned nr, bool is_async)
{
	struct uaio_submission submission;

	assert_true(uaio_enter());
	assert_int_equal(uaio_submission_begin(&submission, handle, nr), nr);
	for (unsigned i = 0; i < nr; i++) {
		struct uaio_sqe sqe = nop(i, is_async);

		assert_int_equal(uaio_batch_add(&submission.batch, NULL, &sqe),
				 0);
	}
	uaio_submission_end(&submission, nr);
	uaio_leave();
}

static int cancel(uint64_t handle, unsigned i)
{
	int ret;

	assert_true(uaio_enter());
	ret = uaio_ctx_cancel(handle, OBJ + i);
	uaio_leave();
	return ret;
}

/* Return: how many events can be reaped without waiting. */
static long look(uint64_t handle, struct io_event *events, long nr)
{
	struct timespec zero = { 0 };

	return uaio_aio_getevents(handle, 0, nr, (void *)events, &zero);
}

/*
 * Reap the events of the no-ops [0, nr). Check that each no-op has one correct event, and
 * that there are no other events.
 */
static void assert_one_event_each(uint64_t handle, unsigned nr)
{
	static struct io_event events[NR];
	bool seen[NR] = { false };

	assert_int_equal(unit_reap(handle, nr, events), nr);
	for (unsigned i = 0; i < nr; i++) {
		assert_true(events[i].data < nr && !seen[events[i].data]);
		seen[events[i].data] = true;
		assert_true(events[i].obj == OBJ + events[i].data);
		assert_int_equal(events[i].res, 0);
	}
	assert_int_equal(look(handle, events, 1), 0);
}

static void a_no_op_is_executed_in_the_submitting_call(void **state)
{
	struct uaio_counters before, after;
	uint64_t handle = unit_context(NR);

	(void)state;
	uaio_counters_read(&before);
	submit_nops(handle, NR, false);
	uaio_counters_read(&after);
	assert_int_equal(after.nr_inline - before.nr_inline, NR);
	assert_int_equal(after.nr_worker, before.nr_worker);
	assert_one_event_each(handle, NR);
	unit_destroy(handle);
}

static void workers_execute_each_no_op_once(void **state)
{
	struct uaio_counters before, after;
	uint64_t handle = unit_context(NR);

	(void)state;
	uaio_counters_read(&before);
	for (unsigned round = 0; round < unit_rounds(200); round++) {
		/* Submit a number of no-ops from 1 to 1000. */
		unsigned nr = 1 + round * 997 % NR;

		submit_nops(handle, nr, true);
		assert_one_event_each(handle, nr);
		before.nr_worker += nr;
	}
	uaio_counters_read(&after);
	assert_int_equal(after.nr_worker, before.nr_worker);
	assert_int_equal(after.nr_inline, before.nr_inline);
	unit_destroy(handle);
}

static void a_no_op_signals_its_eventfd(void **state)
{
	uint64_t handle = unit_context(2), count;
	int fd = eventfd(0, EFD_CLOEXEC);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct uaio_sqe sqe = nop(i, i);

		assert_int_equal(uaio_resfd_get(fd, &sqe.word), 0);
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		/* read() waits until the worker has completed the no-op. */
		assert_int_equal(read(fd, &count, sizeof(count)),
				 sizeof(count));
		assert_int_equal(count, 1);
	}
	assert_one_event_each(handle, 2);
	unit_destroy(handle);
	unit_close(fd);
}

/*
 * Requests on a file in memory and on a ready pipe are executed inline, unless they ask for
 * a worker.
 */
static void a_request_that_asks_for_a_worker_gets_one(void **state)
{
	static const char text[SIZE] = "text";
	int fd = unit_numbered_file(true, 1), ends[2];
	struct uaio_counters before, after;
	uint64_t handle = unit_context(1);
	char buffer[SIZE];
	struct uaio_sqe sqe;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	uaio_counters_read(&before);

	sqe = rw(UAIO_OP_WRITE, fd, (char *)text);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_int_equal(unit_reap_one(handle), SIZE);
	sqe = rw(UAIO_OP_READ, fd, buffer);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_int_equal(unit_reap_one(handle), SIZE);
	assert_memory_equal(buffer, text, SIZE);

	memset(buffer, 0, SIZE);
	sqe = rw(UAIO_OP_WRITE, ends[1], (char *)text);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_int_equal(unit_reap_one(handle), SIZE);
	sqe = rw(UAIO_OP_READ, ends[0], buffer);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_int_equal(unit_reap_one(handle), SIZE);
	assert_memory_equal(buffer, text, SIZE);

	sqe = (struct uaio_sqe){
		.op = UAIO_OP_POLL,
		.is_async = true,
		.fd = ends[1],
		.events = 4 /* POLLOUT */,
	};
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_int_equal(unit_reap_one(handle), 4);

	uaio_counters_read(&after);
	assert_int_equal(after.nr_worker - before.nr_worker, 5);
	assert_int_equal(after.nr_inline, before.nr_inline);
	unit_destroy(handle);
	unit_close(fd);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * The only worker executes a read, and the test's gate stops its system call. So later
 * requests stay queued.
 * Return: the file that is read.
 */
static int hold_the_worker(uint64_t handle, char *buffer)
{
	int fd = unit_numbered_file(true, 1);
	struct uaio_sqe sqe = rw(UAIO_OP_READ, fd, buffer);

	sqe.data = 99;
	unit_gate_close(fd);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	unit_gate_await(1);
	return fd;
}

static int cancel_some(void)
{
	enum { NR_NOPS = 5 };
	struct io_event events[NR_NOPS + 1];
	char buffer[SIZE];
	uint64_t handle;
	unsigned seen = 0;

	/* allow two threads: the manager, which creates workers (wq.h), and one worker */
	unit_allow_threads(2);
	if (unit_engine(NULL) < 0)
		return 1;
	handle = unit_context(NR_NOPS + 1);
	(void)hold_the_worker(handle, buffer);
	submit_nops(handle, NR_NOPS, true);
	if (cancel(handle, NR_NOPS) != -EINVAL)
		return 2;
	/*
	 * Cancel the middle request, then the first, then the last. A second attempt does not
	 * find the request.
	 */
	for (unsigned i = 0; i < 3; i++) {
		static const unsigned which[] = { 2, 0, 4 };

		if (cancel(handle, which[i]) != -EINPROGRESS ||
		    cancel(handle, which[i]) != -EINVAL)
			return 3;
		if (look(handle, events, NR_NOPS) != 1 ||
		    events[0].data != which[i] ||
		    events[0].obj != OBJ + which[i] ||
		    (int64_t)events[0].res != -ECANCELED)
			return 4;
	}
	unit_gate_open();
	if (unit_reap(handle, 3, events) != 3)
		return 5;
	for (unsigned i = 0; i < 3; i++)
		seen |= events[i].data == 1 && events[i].res == 0       ? 1
			: events[i].data == 3 && events[i].res == 0     ? 2
			: events[i].data == 99 && events[i].res == SIZE ? 4
									: 0;
	if (seen != 7 || look(handle, events, 1) != 0)
		return 6;
	return uaio_aio_destroy(handle) ? 7 : 0;
}

static void a_queued_no_op_is_cancelled_once(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(cancel_some), 0);
}

/*
 * A thread that closes a file, or ends the process, searches the work queue. It finds
 * no-ops there, which have no file.
 */
static int look_through_no_ops(void)
{
	static const char text[SIZE] = "text";
	char buffer[SIZE], found[SIZE];
	uint64_t handle;
	int fds[2];

	unit_allow_threads(1);
	if (unit_engine(NULL) < 0)
		return 1;
	handle = unit_context(16);
	(void)hold_the_worker(handle, buffer);
	submit_nops(handle, 5, true);
	for (unsigned i = 0; i < 2; i++) {
		struct uaio_sqe sqe;

		fds[i] = unit_numbered_file(true, 1);
		sqe = rw(UAIO_OP_WRITE, fds[i], (char *)text);
		if (unit_submit_sqe(handle, &sqe))
			return 2;
		if (i == 0) {
			int other = dup(fds[0]);

			unit_close(fds[0]);
			fds[0] = other;
		} else {
			uaio_engine_exiting();
		}
		if (pread(fds[i], found, SIZE, 0) != SIZE ||
		    memcmp(found, text, SIZE))
			return 3;
	}
	return 0;
}

static void closing_and_leaving_pass_over_no_ops(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(look_through_no_ops), 0);
}

static int work_without_threads(void)
{
	uint64_t handle;

	unit_allow_threads(0);
	if (unit_engine(NULL) < 0)
		return 1;
	handle = unit_context(NR);
	for (unsigned i = 0; i < 10; i++) {
		submit_nops(handle, NR, true);
		assert_one_event_each(handle, NR);
	}
	return uaio_aio_destroy(handle) ? 2 : 0;
}

static void no_ops_are_executed_where_no_thread_can_be_had(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(work_without_threads), 0);
}

static void a_context_is_not_gone_before_its_no_ops(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(100); i++) {
		uint64_t handle = unit_context(64);

		submit_nops(handle, 64, true);
		unit_destroy(handle);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_no_op_is_executed_in_the_submitting_call),
		UNIT_TEST(workers_execute_each_no_op_once),
		UNIT_TEST(a_no_op_signals_its_eventfd),
		UNIT_TEST(a_request_that_asks_for_a_worker_gets_one),
		UNIT_TEST(a_queued_no_op_is_cancelled_once),
		UNIT_TEST(closing_and_leaving_pass_over_no_ops),
		UNIT_TEST(no_ops_are_executed_where_no_thread_can_be_had),
		UNIT_TEST(a_context_is_not_gone_before_its_no_ops),
	};

	return cmocka_run_group_tests_name("nop", tests, unit_engine, NULL);
}
