/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "aio/handle.h"
#include "unit.h"

/*
 * Workers execute all requests, and the test's gate stops their system calls. The gate
 * knows a request by its key: its block in the file.
 */
enum { NR_BLOCKS = 32, SIZE = UNIT_KEY_BYTES };

static struct {
	int fd;
	uint64_t handle;
	struct iocb iocbs[64];
	unsigned nr;
	char buffers[64][SIZE];
} test;

/* the file looks as if opened with O_DIRECT */
static bool is_direct;
/* the file looks as if on a disk */
static bool is_on_disk;

static bool pretend_direct(long nr, const long args[6], long *ret_res)
{
	if (nr != SYS_fcntl || args[1] != F_GETFL || args[0] != test.fd)
		return false;
	*ret_res = uaio_sys_raw(nr, args[0], args[1], 0, 0, 0, 0) | O_DIRECT;
	return true;
}

static bool pretend_disk(long nr, const long args[6], long *ret_res)
{
	if (pretend_direct(nr, args, ret_res))
		return true;
	if (nr != SYS_fstatfs)
		return false;
	*ret_res = unit_say_ext4(args);
	return true;
}

static void begin(void)
{
	uaio_config.force_worker = true;
	test.fd = unit_numbered_file(!is_on_disk, NR_BLOCKS);
	test.handle = unit_context(64);
	test.nr = 0;
	if (is_direct)
		unit_hook(pretend_disk);
	unit_gate_close(test.fd);
}

static struct iocb *submit(unsigned opcode, unsigned key)
{
	struct iocb *iocb = &test.iocbs[test.nr];
	bool is_sync = opcode == IOCB_CMD_FSYNC || opcode == IOCB_CMD_FDSYNC;

	*iocb = unit_iocb(opcode, test.fd,
			  is_sync ? NULL : test.buffers[test.nr],
			  is_sync ? 0 : SIZE, is_sync ? 0 : key * SIZE);
	test.nr++;
	assert_int_equal(unit_submit(test.handle, iocb), 1);
	return iocb;
}

static void write_block(unsigned key)
{
	submit(IOCB_CMD_PWRITE, key);
}

static void read_block(unsigned key)
{
	submit(IOCB_CMD_PREAD, key);
}

static void sync_file(void)
{
	submit(IOCB_CMD_FSYNC, 0);
}

static void pass(unsigned key)
{
	unit_gate_await_key(key);
	unit_gate_pass(key);
}

static void end(void)
{
	struct io_event events[64];

	unit_gate_open();
	assert_int_equal(unit_reap(test.handle, test.nr, events), test.nr);
	unit_destroy(test.handle);
	unit_close(test.fd);
	uaio_config.force_worker = false;
	is_direct = is_on_disk = false;
}

/*
 * Check that both requests have run, and that the first returned before the second
 * began.
 */
static void assert_before(unsigned first, unsigned second)
{
	assert_true(unit_gate_ended(first) >= 0);
	assert_true(unit_gate_began(second) > unit_gate_ended(first));
}

/* Complete requests on another file, to give workers time to run. */
static void let_others_run(void)
{
	int fd = unit_numbered_file(true, 1);
	uint64_t handle = unit_context(1);
	char buffer[SIZE];
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffer, SIZE, 0);

	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(unit_submit(handle, &iocb), 1);
		assert_int_equal(unit_reap_one(handle), SIZE);
	}
	unit_destroy(handle);
	unit_close(fd);
}

static void writes_are_executed_one_at_a_time_in_order(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 8; i++)
		write_block(i);
	for (unsigned i = 0; i < 8; i++) {
		unit_gate_await_key(i);
		let_others_run();
		assert_int_equal(unit_gate_began(i + 1), -1);
		unit_gate_pass(i);
	}
	end();
	for (unsigned i = 0; i < 7; i++)
		assert_before(i, i + 1);
}

static void writes_through_two_descriptors_are_ordered_too(void **state)
{
	char path[32];
	int other;

	(void)state;
	begin();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", test.fd);
	other = open(path, O_RDWR | O_CLOEXEC);
	assert_true(other >= 0);
	write_block(0);
	test.iocbs[1] =
		unit_iocb(IOCB_CMD_PREAD, other, test.buffers[1], SIZE, 0);
	test.nr = 2;
	memset(test.buffers[0], 'x', SIZE);
	assert_int_equal(unit_submit(test.handle, &test.iocbs[1]), 1);
	unit_gate_await_key(0);
	let_others_run();
	pass(0);
	end();
	assert_memory_equal(test.buffers[1], test.buffers[0], SIZE);
	unit_close(other);
}

static void reads_wait_behind_a_write_and_run_together_after_it(void **state)
{
	(void)state;
	begin();
	write_block(0);
	read_block(1);
	read_block(2);
	unit_gate_await_key(0);
	let_others_run();
	assert_int_equal(unit_gate_began(1), -1);
	assert_int_equal(unit_gate_began(2), -1);
	unit_gate_pass(0);
	unit_gate_await(2);
	end();
	assert_before(0, 1);
	assert_before(0, 2);
}

static void reads_with_no_write_before_them_run_together(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 8; i++)
		read_block(i);
	unit_gate_await(8);
	end();
}

static void a_sync_waits_for_all_writes_before_it(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 3; i++)
		write_block(i);
	sync_file();
	write_block(3);
	for (unsigned i = 0; i < 3; i++) {
		unit_gate_await_key(i);
		let_others_run();
		assert_int_equal(unit_gate_began(UNIT_KEY_SYNC), -1);
		unit_gate_pass(i);
	}
	unit_gate_await_key(UNIT_KEY_SYNC);
	end();
	assert_before(2, UNIT_KEY_SYNC);
}

static void direct_writes_in_place_and_reads_run_together(void **state)
{
	(void)state;
	is_direct = true;
	begin();
	for (unsigned i = 0; i < 4; i++)
		write_block(i);
	for (unsigned i = 4; i < 8; i++)
		read_block(i);
	unit_gate_await(8);
	end();
}

static void a_sync_waits_for_direct_writes_in_any_order(void **state)
{
	static const unsigned orders[][3] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
		{ 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(orders); i++) {
		is_direct = true;
		begin();
		for (unsigned key = 0; key < 3; key++)
			write_block(key);
		sync_file();
		unit_gate_await(3);
		for (unsigned j = 0; j < 3; j++) {
			let_others_run();
			assert_int_equal(unit_gate_began(UNIT_KEY_SYNC), -1);
			pass(orders[i][j]);
		}
		unit_gate_await_key(UNIT_KEY_SYNC);
		end();
		for (unsigned key = 0; key < 3; key++)
			assert_before(key, UNIT_KEY_SYNC);
	}
}

static void later_requests_wait_for_an_extending_direct_write(void **state)
{
	(void)state;
	is_direct = true;
	begin();
	write_block(0);
	write_block(NR_BLOCKS + 2);
	write_block(1);
	read_block(2);
	unit_gate_await(2);
	let_others_run();
	assert_int_equal(unit_gate_began(1), -1);
	assert_int_equal(unit_gate_began(2), -1);
	unit_gate_pass(NR_BLOCKS + 2);
	unit_gate_await_key(1);
	unit_gate_await_key(2);
	end();
}

static void a_direct_write_in_place_waits_behind_an_ordered_one(void **state)
{
	(void)state;
	is_direct = true;
	begin();
	write_block(NR_BLOCKS);
	write_block(0);
	sync_file();
	unit_gate_await_key(NR_BLOCKS);
	let_others_run();
	assert_int_equal(unit_gate_began(0), -1);
	pass(NR_BLOCKS);
	unit_gate_await_key(0);
	let_others_run();
	assert_int_equal(unit_gate_began(UNIT_KEY_SYNC), -1);
	end();
	assert_before(0, UNIT_KEY_SYNC);
}

/*
 * Check that no request of the file is queued or running, by submitting a read. Only if
 * there is none, the submitting thread executes the read inline.
 */
static void assert_idle(void)
{
	struct iocb iocb =
		unit_iocb(IOCB_CMD_PREAD, test.fd, test.buffers[0], SIZE, 0);
	uint64_t before = unit_nr_inline();

	uaio_config.force_worker = false;
	assert_int_equal(unit_submit(test.handle, &iocb), 1);
	assert_int_equal(unit_nr_inline(), before + 1);
	assert_int_equal(unit_reap_one(test.handle), SIZE);
	uaio_config.force_worker = true;
}

/*
 * Writes, reads and syncs wait for each other. In each round a different request is
 * cancelled, and all other requests must complete.
 */
static void cancelling_a_request_that_waits_stalls_no_other(void **state)
{
	enum { NR = 7 };

	(void)state;
	for (unsigned victim = 1; victim < NR; victim++) {
		struct io_event events[NR];
		struct iocb *iocbs[NR];
		unsigned nr_cancelled = 0;

		begin();
		for (unsigned i = 0; i < NR; i++)
			iocbs[i] = submit(i % 3 == 1   ? IOCB_CMD_PREAD
					  : i % 3 == 2 ? IOCB_CMD_FDSYNC
						       : IOCB_CMD_PWRITE,
					  i);
		unit_gate_await_key(0);
		assert_int_equal(
			uaio_ctx_cancel(test.handle, (uintptr_t)iocbs[victim]),
			-EINPROGRESS);
		unit_gate_open();
		assert_int_equal(unit_reap(test.handle, NR, events), NR);
		for (unsigned i = 0; i < NR; i++)
			if (events[i].obj == (uintptr_t)iocbs[victim]) {
				assert_int_equal(events[i].res, -ECANCELED);
				nr_cancelled++;
			}
		assert_int_equal(nr_cancelled, 1);
		assert_idle();
		test.nr = 0;
		end();
	}
}

/*
 * While a worker executes a write, a read of the file must not be executed inline (by
 * the submitting thread). When both requests are complete, a read must be executed
 * inline again.
 */
static void
requests_are_executed_inline_again_when_the_file_is_idle(void **state)
{
	struct uaio_counters before, after;

	(void)state;
	begin();
	write_block(0);
	unit_gate_await_key(0);
	uaio_config.force_worker = false;
	uaio_counters_read(&before);
	read_block(1);
	uaio_counters_read(&after);
	assert_int_equal(after.nr_inline, before.nr_inline);
	unit_gate_open();
	assert_int_equal(unit_reap(test.handle, 2, (struct io_event[2]){}), 2);
	test.nr = 0;
	uaio_counters_read(&before);
	read_block(1);
	uaio_counters_read(&after);
	assert_int_equal(after.nr_inline, before.nr_inline + 1);
	end();
}

/*
 * The hook stops the worker when the write's event is in the ring, but the eventfd is
 * not signalled yet. A client that looks at the ring in memory sees the event at once.
 * The client's next read must then be executed inline.
 */
static struct {
	int resfd;
	uint32_t is_signalled; /* atomic */
	uint32_t goes_on;      /* atomic */
} stopping;

static bool stop_at_signal(long nr, const long args[6], long *ret_res)
{
	(void)ret_res;
	if (nr == SYS_write && (int)args[0] == stopping.resfd) {
		store_release(&stopping.is_signalled, 1);
		while (!load_acquire(&stopping.goes_on))
			sched_yield();
	}
	return false;
}

static bool is_signalled(void *arg)
{
	(void)arg;
	return load_acquire(&stopping.is_signalled);
}

static long read_first(void *arg)
{
	return unit_submit(test.handle, arg);
}

static void a_file_is_idle_when_the_event_of_its_write_is_seen(void **state)
{
	struct iocb iocbs[2];
	struct unit_thread thread;
	uint64_t before;

	(void)state;
	begin();
	unit_gate_open();
	before = unit_nr_inline();
	stopping.resfd = eventfd(0, EFD_CLOEXEC);
	store_relaxed(&stopping.is_signalled, 0);
	store_relaxed(&stopping.goes_on, 0);
	unit_hook(stop_at_signal);
	iocbs[0] =
		unit_iocb(IOCB_CMD_PWRITE, test.fd, test.buffers[0], SIZE, 0);
	iocbs[0].aio_flags = IOCB_FLAG_RESFD;
	iocbs[0].aio_resfd = (uint32_t)stopping.resfd;
	assert_int_equal(unit_submit(test.handle, &iocbs[0]), 1);
	unit_await(is_signalled, NULL);

	/*
	 * The thread first decides to execute the read inline. After that it needs a
	 * lock that the worker holds, so it sleeps.
	 */
	uaio_config.force_worker = false;
	iocbs[1] = unit_iocb(IOCB_CMD_PREAD, test.fd, test.buffers[1], SIZE, 0);
	unit_thread_start(&thread, read_first, &iocbs[1]);
	unit_await_sleep(&thread);
	store_release(&stopping.goes_on, 1);
	assert_int_equal(unit_thread_join(&thread), 1);
	assert_int_equal(unit_reap(test.handle, 2, (struct io_event[2]){}), 2);
	assert_int_equal(unit_nr_inline(), before + 1);
	unit_hook(NULL);
	unit_close(stopping.resfd);
	end();
}

/*
 * A read with RWF_NOWAIT must not overtake a write: it must see the written data, or
 * fail.
 */
static void a_read_that_may_not_wait_does_not_overtake(void **state)
{
	struct io_event events[2];
	struct iocb iocb;

	(void)state;
	is_on_disk = true;
	begin();
	memset(test.buffers[0], 'a', SIZE);
	write_block(0);
	unit_gate_await_key(0);
	iocb = unit_iocb(IOCB_CMD_PREAD, test.fd, test.buffers[1], SIZE, 0);
	iocb.aio_rw_flags = 8 /* RWF_NOWAIT */;
	assert_int_equal(unit_submit(test.handle, &iocb), 1);
	unit_gate_open();
	assert_int_equal(unit_reap(test.handle, 2, events), 2);
	for (int i = 0; i < 2; i++)
		if (events[i].obj == (uintptr_t)&iocb &&
		    events[i].res != -EAGAIN)
			assert_memory_equal(test.buffers[1], test.buffers[0],
					    SIZE);
	test.nr = 0;
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(writes_are_executed_one_at_a_time_in_order),
		UNIT_TEST(writes_through_two_descriptors_are_ordered_too),
		UNIT_TEST(reads_wait_behind_a_write_and_run_together_after_it),
		UNIT_TEST(reads_with_no_write_before_them_run_together),
		UNIT_TEST(a_sync_waits_for_all_writes_before_it),
		UNIT_TEST(direct_writes_in_place_and_reads_run_together),
		UNIT_TEST(a_sync_waits_for_direct_writes_in_any_order),
		UNIT_TEST(later_requests_wait_for_an_extending_direct_write),
		UNIT_TEST(a_direct_write_in_place_waits_behind_an_ordered_one),
		UNIT_TEST(cancelling_a_request_that_waits_stalls_no_other),
		UNIT_TEST(
			requests_are_executed_inline_again_when_the_file_is_idle),
		UNIT_TEST(a_file_is_idle_when_the_event_of_its_write_is_seen),
		UNIT_TEST(a_read_that_may_not_wait_does_not_overtake),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
