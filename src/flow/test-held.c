/* SPDX-License-Identifier: MIT */
/*
 * Tests held requests (they wait in a chain or behind a drain, and have not started) when
 * the process exits, executes another program, or forks. Of these requests, an exit waits
 * only for those that start when an accepted write completes.
 */
#undef NDEBUG
#include "flow/gate.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "flow/test-chain.h"

static uint32_t leaver_tid; /* atomic */
static uint32_t has_left;   /* atomic */

/*
 * A hook for FUTEX_WAKE. A thread that has woken the leaving thread (in exit or exec) waits
 * here until the leaving thread has ended or sleeps again.
 */
static bool linger(long nr, const long args[6], long *ret_res)
{
	uint32_t tid = load_acquire(&leaver_tid);

	if (nr != SYS_futex || (args[1] & FUTEX_CMD_MASK) != FUTEX_WAKE ||
	    !tid || tid == (uint32_t)gettid())
		return false;
	*ret_res = uaio_sys_raw(nr, args[0], args[1], args[2], args[3], args[4],
				args[5]);
	while (!unit_is_asleep(tid))
		sched_yield();
	return true;
}

static long end(void *arg)
{
	(void)arg;
	assert_true(uaio_enter());
	store_release(&leaver_tid, (uint32_t)gettid());
	uaio_gate_end();
	store_release(&has_left, 1);
	uaio_leave();
	return 0;
}

static struct uaio_sqe write_block(int fd, unsigned i, uint8_t links)
{
	struct uaio_sqe sqe = rw(UAIO_OP_WRITE, fd, SIZE, links);

	sqe.off = i * SIZE;
	sqe.is_async = true;
	return sqe;
}

static int finish_chain(void)
{
	struct unit_thread leaver;
	int fd;

	assert_int_equal(unit_engine(NULL), 0);
	fd = unit_numbered_file(false, 4);
	handle = unit_context(8);
	unit_gate_close(fd);
	unit_hook(linger);
	SUBMIT(write_block(fd, 0, UAIO_LINK), write_block(fd, 1, UAIO_LINK),
	       nop(UAIO_LINK_HARD), write_block(fd, 2, 0),
	       write_block(fd, 3, UAIO_DRAIN));
	unit_gate_await_key(0);
	unit_thread_start(&leaver, end, NULL);
	unit_await_sleep(&leaver);
	for (unsigned i = 0; i < 3; i++) {
		unit_gate_pass(i);
		unit_gate_await_key(i + 1);
		assert_false(load_acquire(&has_left));
	}
	unit_gate_pass(3);
	assert_int_equal(unit_thread_join(&leaver), 0);
	assert_true(unit_gate_ended(3) >= 0);
	return 0;
}

static void an_end_awaits_what_accepted_writes_let_start(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(finish_chain), 0);
}

static int leave_behind(void)
{
	char found[SIZE];
	int fd;

	assert_int_equal(unit_engine(NULL), 0);
	fd = unit_numbered_file(false, 2);
	memset(bytes, 'w', sizeof(bytes));
	open_pipe(8);
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK), write_block(fd, 0, 0));
	SUBMIT_FROM(3, write_block(fd, 1, UAIO_DRAIN),
		    rw(UAIO_OP_FSYNC, fd, 0, 0));
	assert_int_equal(end(NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pread(fd, found, SIZE, i * SIZE), SIZE);
		assert_int_equal(found[0], i);
	}
	return 0;
}

static void an_end_awaits_nothing_that_waits_for_a_stream(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(leave_behind), 0);
}

static void what_is_held_goes_on_when_an_exec_has_failed(void **state)
{
	int fd = unit_numbered_file(true, 2);

	(void)state;
	open_pipe(8);
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
	       write_block(fd, 0, UAIO_LINK), write_block(fd, 1, 0));
	SUBMIT_FROM(4, nop(UAIO_DRAIN));
	assert_true(uaio_enter());
	assert_true(uaio_gate_leave());
	uaio_gate_stay();
	uaio_leave();
	expect_nothing();
	put_text("x");
	EXPECT({ 1, 1 }, { 2, SIZE }, { 3, SIZE }, { 4, 0 });
	unit_close(fd);
	close_pipe();
}

static long submit_chain(void *arg)
{
	int fd = *(int *)arg;

	SUBMIT(rw(UAIO_OP_WRITE, fd, SIZE, UAIO_LINK), nop(0));
	return 0;
}

/*
 * A chain that began during an exec could lose its write. So the submitting thread waits at
 * the gate (gate.h) until the exec has failed.
 */
static void a_chain_waits_at_the_gate_before_it_begins(void **state)
{
	struct unit_thread submitter;
	int fd = unit_numbered_file(true, 1);

	(void)state;
	handle = unit_context(8);
	assert_true(uaio_enter());
	assert_true(uaio_gate_leave());
	/*
	 * Count a request as pending, so that threads at the gate continue to wait
	 * (gate.h, I4).
	 */
	uaio_gate_delay();
	uaio_leave();
	unit_thread_start(&submitter, submit_chain, &fd);
	unit_await_sleep(&submitter);
	expect_nothing();
	assert_true(uaio_enter());
	uaio_gate_delay_over();
	uaio_gate_stay();
	uaio_leave();
	assert_int_equal(unit_thread_join(&submitter), 0);
	EXPECT({ 1, SIZE }, { 2, 0 });
	unit_destroy(handle);
	unit_close(fd);
}

static long submit_write(void *arg)
{
	SUBMIT(write_block(*(int *)arg, 0, 0));
	return 0;
}

/*
 * A thread that has waited at the gate for long continues. It executes its write
 * itself, since an exec, which may still happen, would lose a queued write.
 */
static void who_waits_at_the_gate_for_long_executes_its_writes(void **state)
{
	struct unit_thread submitter;
	int fd = unit_numbered_file(false, 1);
	char found[SIZE];

	(void)state;
	handle = unit_context(8);
	memset(bytes, 'w', sizeof(bytes));
	uaio_gate_have_patience(1);
	assert_true(uaio_enter());
	assert_true(uaio_gate_leave());
	uaio_leave();
	unit_thread_start(&submitter, submit_write, &fd);
	assert_int_equal(unit_thread_join(&submitter), 0);
	assert_int_equal(pread(fd, found, SIZE, 0), SIZE);
	assert_int_equal(found[0], 'w');
	assert_true(uaio_gate_is_closed());
	assert_true(uaio_enter());
	/* This thread calls exec again, like a signal handler that interrupts an exec. */
	assert_false(uaio_gate_leave());
	uaio_gate_stay();
	uaio_leave();
	assert_false(uaio_gate_is_closed());
	EXPECT({ 1, SIZE });
	uaio_gate_have_patience(1000000000);
	unit_destroy(handle);
	unit_close(fd);
}

/*
 * A child of fork() has none of the parent's requests. It starts the library again,
 * and has chains of its own.
 */
static int have_nothing(void)
{
	int fd;

	assert_int_equal(unit_engine(NULL), 0);
	fd = unit_numbered_file(true, 1);
	open_pipe(8);
	SUBMIT(nop(0));
	EXPECT({ 1, 0 });
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
	       rw(UAIO_OP_WRITE, fd, SIZE, 0), nop(UAIO_DRAIN), nop(0));
	expect_nothing();
	put_text("x");
	EXPECT({ 1, 1 }, { 2, SIZE }, { 3, 0 }, { 4, 0 });
	unit_close(fd);
	close_pipe();
	return end(NULL) ? 1 : 0;
}

static void a_child_has_none_of_its_parent_s(void **state)
{
	int fd = unit_numbered_file(true, 1);
	char found[SIZE];

	(void)state;
	open_pipe(8);
	memset(bytes, 'w', sizeof(bytes));
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
	       rw(UAIO_OP_WRITE, fd, SIZE, UAIO_LINK), nop(0));
	SUBMIT_FROM(4, rw(UAIO_OP_FSYNC, fd, 0, UAIO_DRAIN), nop(0));
	assert_int_equal(unit_in_child(have_nothing), 0);
	assert_int_equal(pread(fd, found, SIZE, 0), SIZE);
	assert_int_equal(found[0], 0);
	expect_nothing();
	put_text("x");
	EXPECT({ 1, 1 }, { 2, SIZE }, { 3, 0 }, { 4, 0 }, { 5, 0 });
	assert_int_equal(pread(fd, found, SIZE, 0), SIZE);
	assert_int_equal(found[0], 'w');
	unit_close(fd);
	close_pipe();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(an_end_awaits_what_accepted_writes_let_start),
		UNIT_TEST(an_end_awaits_nothing_that_waits_for_a_stream),
		UNIT_TEST(what_is_held_goes_on_when_an_exec_has_failed),
		UNIT_TEST(a_chain_waits_at_the_gate_before_it_begins),
		UNIT_TEST(who_waits_at_the_gate_for_long_executes_its_writes),
		UNIT_TEST(a_child_has_none_of_its_parent_s),
	};

	return cmocka_run_group_tests_name("held", tests, unit_engine, NULL);
}
