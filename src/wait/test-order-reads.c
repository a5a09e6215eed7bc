/* SPDX-License-Identifier: MIT */
/*
 * A read must not see a write that was submitted after the read, whether the read is
 * still queued or a worker is executing it. A write that changes none of the read's
 * bytes must not wait for the read.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "options/config.h"
#include "file/file.h"
#include "file/inspect.h"
#include "aio/handle.h"
#include "unit.h"

enum { NR_BLOCKS = 16, SIZE = UNIT_KEY_BYTES, LONG = 4 * SIZE };

/*
 * The test's gate (a hook that stops system calls) knows a request by its first block,
 * the key.
 */
static struct {
	int fd;
	/* another descriptor of the same file */
	int other;
	uint64_t handle;
	uint64_t other_handle;
	struct iocb iocbs[32];
	char buffers[32][LONG];
	unsigned nr;
} test;

static int start(void **state)
{
	char path[32];
	int ret = unit_setup(state);

	test.nr = 0;
	test.fd = unit_numbered_file(false, NR_BLOCKS);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", test.fd);
	test.other = open(path, O_RDWR | O_CLOEXEC);
	assert_true(test.other >= 0);
	test.handle = unit_context(32);
	test.other_handle = unit_context(32);
	unit_gate_close(test.fd);
	return ret;
}

static int stop(void **state)
{
	unit_gate_open();
	unit_destroy(test.handle);
	unit_destroy(test.other_handle);
	unit_close(test.fd);
	unit_close(test.other);
	uaio_config.force_worker = false;
	return unit_teardown(state);
}

#define READ_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

static struct iocb *submit_to(uint64_t handle, unsigned opcode, int fd,
			      unsigned block, unsigned bytes)
{
	struct iocb *iocb = &test.iocbs[test.nr];
	char *buffer = test.buffers[test.nr++];

	memset(buffer, 'w', LONG);
	*iocb = unit_iocb(opcode, fd, bytes ? buffer : NULL, bytes,
			  block * SIZE);
	assert_int_equal(unit_submit(handle, iocb), 1);
	return iocb;
}

/*
 * Submit a read, which the test's gate stops in a worker's system call.
 * Return: its buffer.
 */
static char *read_held(unsigned block, unsigned bytes)
{
	char *buffer = test.buffers[test.nr];

	uaio_config.force_worker = true;
	submit_to(test.handle, IOCB_CMD_PREAD, test.fd, block, bytes);
	uaio_config.force_worker = false;
	unit_gate_await_key(block);
	return buffer;
}

/*
 * Submit a write.
 * Return: whether the submitting thread executed it (inline).
 */
static bool is_written(unsigned block, unsigned bytes)
{
	uint64_t before = unit_nr_inline();

	submit_to(test.handle, IOCB_CMD_PWRITE, test.fd, block, bytes);
	return unit_nr_inline() > before;
}

static void assert_is_old(const char *buffer, unsigned block, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		assert_int_equal(buffer[i], (char)(block + i / SIZE));
}

static void reap_all(unsigned nr)
{
	struct io_event events[32];

	assert_int_equal(unit_reap(test.handle, nr, events), nr);
}

static void a_write_over_a_read_waits_for_its_data(void **state)
{
	static const struct {
		unsigned block, bytes;
		bool waits;
	} writes[] = {
		{ 4, LONG, true },         { 7, LONG, true },
		{ 1, LONG, true },         { 5, SIZE, true },
		{ 2, 2 * SIZE, false },    { 8, LONG, false },
		{ 2, 2 * SIZE + 1, true }, { NR_BLOCKS, SIZE, false },
	};

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(writes); i++) {
		char *buffer = read_held(4, LONG);
		char was[LONG];

		assert_int_equal(pread(test.other, was, LONG, 4 * SIZE), LONG);
		assert_int_equal(is_written(writes[i].block, writes[i].bytes),
				 !writes[i].waits);
		unit_gate_open();
		reap_all(2);
		assert_memory_equal(buffer, was, LONG);
		unit_gate_close(test.fd);
	}
}

static void a_write_waits_through_other_descriptors_and_contexts(void **state)
{
	char *buffer = read_held(4, LONG);
	uint64_t before = unit_nr_inline();

	(void)state;
	submit_to(test.other_handle, IOCB_CMD_PWRITE, test.other, 5, SIZE);
	assert_int_equal(unit_nr_inline(), before);
	unit_gate_open();
	assert_int_equal(unit_reap_one(test.other_handle), SIZE);
	assert_int_equal(unit_reap_one(test.handle), LONG);
	assert_is_old(buffer, 4, LONG);
}

/*
 * Workers execute the read and the writes. A write to the read's bytes must begin after
 * the read has returned.
 */
static void only_writes_of_the_bytes_of_a_read_wait(void **state)
{
	(void)state;
	read_held(4, LONG);
	uaio_config.force_worker = true;
	submit_to(test.handle, IOCB_CMD_PWRITE, test.fd, 8, SIZE);
	unit_gate_await_key(8);
	unit_gate_pass(8);
	submit_to(test.handle, IOCB_CMD_PWRITE, test.fd, 6, SIZE);
	submit_to(test.handle, IOCB_CMD_PWRITE, test.fd, 9, SIZE);
	assert_int_equal(unit_gate_began(6), -1);
	unit_gate_pass(4);
	unit_gate_await_key(6);
	assert_true(unit_gate_ended(4) >= 0);
	assert_int_equal(unit_gate_began(9), -1);
	unit_gate_open();
	reap_all(4);
	assert_true(unit_gate_began(9) > unit_gate_ended(6));
}

/* A write that extends the file must wait for a read that reaches past the end. */
static void an_extending_write_waits_for_a_read_over_the_end(void **state)
{
	static const unsigned blocks[] = { NR_BLOCKS, NR_BLOCKS + 9 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(blocks); i++) {
		struct io_event events[2];

		assert_int_equal(ftruncate(test.fd, NR_BLOCKS * SIZE), 0);
		read_held(NR_BLOCKS - 2, LONG);
		assert_false(is_written(blocks[i], SIZE));
		unit_gate_open();
		assert_int_equal(unit_reap(test.handle, 2, events), 2);
		assert_int_equal(events[0].res, 2 * SIZE);
		assert_int_equal(events[1].res, SIZE);
		unit_gate_close(test.fd);
	}
}

static void an_append_waits_for_a_read_over_the_end_only(void **state)
{
	struct io_event events[3];
	uint64_t before = unit_nr_inline();
	int flags = fcntl(test.other, F_GETFL);

	(void)state;
	assert_int_equal(fcntl(test.other, F_SETFL, flags | O_APPEND), 0);
	read_held(0, LONG);
	submit_to(test.handle, IOCB_CMD_PWRITE, test.other, 0, SIZE);
	assert_int_equal(unit_nr_inline(), before + 1);
	read_held(NR_BLOCKS, LONG);
	submit_to(test.handle, IOCB_CMD_PWRITE, test.other, 0, SIZE);
	assert_int_equal(unit_nr_inline(), before + 1);
	unit_gate_pass(NR_BLOCKS);
	unit_gate_open();
	assert_int_equal(unit_reap(test.handle, 3, events), 3);
	reap_all(1);
	assert_is_old(test.buffers[0], 0, LONG);
}

/*
 * The test's gate stops the system call of a read. A write must wait for the read, and
 * other requests for that write.
 */
static void requests_wait_for_a_write_that_waits_for_a_read(void **state)
{
	(void)state;
	read_held(4, LONG);
	assert_false(is_written(5, SIZE));
	submit_to(test.handle, IOCB_CMD_FSYNC, test.fd, 0, 0);
	submit_to(test.handle, IOCB_CMD_PREAD, test.fd, 12, SIZE);
	assert_int_equal(unit_gate_began(12), -1);
	assert_int_equal(unit_gate_began(UNIT_KEY_SYNC), -1);
	unit_gate_pass(4);
	unit_gate_await_key(5);
	unit_gate_pass(5);
	unit_gate_await_key(12);
	unit_gate_await_key(UNIT_KEY_SYNC);
	unit_gate_open();
	reap_all(4);
	assert_true(is_written(5, SIZE));
	reap_all(1);
}

static unsigned nr_begun(unsigned key)
{
	const struct unit_call *log;
	unsigned nr = unit_gate_log(&log), nr_begun = 0;

	for (unsigned i = 0; i < nr; i++)
		nr_begun += log[i].key == key && !log[i].is_end;
	return nr_begun;
}

/*
 * The first write waits for one read, the second for another. The writes must run in
 * order.
 */
static void writes_that_wait_for_reads_keep_their_order(void **state)
{
	(void)state;
	read_held(0, SIZE);
	read_held(4, SIZE);
	assert_false(is_written(4, SIZE));
	assert_false(is_written(0, SIZE));
	unit_gate_pass(0);
	reap_all(1);
	assert_int_equal(nr_begun(0), 1);
	unit_gate_pass(4);
	unit_gate_open();
	reap_all(3);
	assert_int_equal(nr_begun(0), 2);
}

/*
 * The only worker is busy with another read, so the read to be cancelled is still
 * queued.
 */
static void cancelling_a_read_starts_the_write_that_waits(void **state)
{
	struct iocb *read;
	struct io_event events[4];

	(void)state;
	uaio_wq_limit_workers(UAIO_BOUNDED, 1);
	read_held(0, SIZE);
	uaio_config.force_worker = true;
	read = submit_to(test.handle, IOCB_CMD_PREAD, test.fd, 4, SIZE);
	uaio_config.force_worker = false;
	assert_false(is_written(4, SIZE));
	assert_int_equal(uaio_ctx_cancel(test.handle, (uintptr_t)read),
			 -EINPROGRESS);
	assert_int_equal(unit_reap(test.handle, 1, events), 1);
	assert_int_equal(events[0].res, -ECANCELED);
	unit_gate_open();
	reap_all(2);
	uaio_wq_limit_workers(UAIO_BOUNDED, 32);
}

/*
 * The program closes the descriptor of a write, which waits for a read by another
 * descriptor. The read must be executed before the write.
 */
static void closing_the_writers_descriptor_makes_the_read_first(void **state)
{
	char *buffer;

	(void)state;
	uaio_wq_limit_workers(UAIO_BOUNDED, 1);
	read_held(0, SIZE);
	uaio_config.force_worker = true;
	buffer = test.buffers[test.nr];
	submit_to(test.handle, IOCB_CMD_PREAD, test.fd, 4, SIZE);
	uaio_config.force_worker = false;
	submit_to(test.handle, IOCB_CMD_PWRITE, test.other, 4, SIZE);
	unit_gate_pass(0);
	unit_gate_open();
	unit_close(test.other);
	test.other = dup(test.fd);
	reap_all(3);
	assert_is_old(buffer, 4, SIZE);
	uaio_wq_limit_workers(UAIO_BOUNDED, 32);
}

/*
 * The test's gate stops the call of the only worker, so the exiting thread must execute
 * queued requests.
 */
static int leave_with_a_write_behind_a_read(void)
{
	int fd = unit_numbered_file(false, NR_BLOCKS);
	char old[SIZE], now[SIZE];

	test.nr = 0;
	test.handle = unit_context(32);
	test.fd = unit_numbered_file(false, NR_BLOCKS);
	unit_gate_close(test.fd);
	uaio_wq_limit_workers(UAIO_BOUNDED, 1);
	read_held(0, SIZE);
	assert_int_equal(pread(fd, old, SIZE, 3 * SIZE), SIZE);
	uaio_config.force_worker = true;
	submit_to(test.handle, IOCB_CMD_PREAD, fd, 3, SIZE);
	uaio_config.force_worker = false;
	submit_to(test.handle, IOCB_CMD_PWRITE, fd, 3, SIZE);
	assert_int_equal(pread(fd, now, SIZE, 3 * SIZE), SIZE);
	assert_memory_equal(now, old, SIZE);
	uaio_engine_exiting();
	assert_int_equal(pread(fd, now, SIZE, 3 * SIZE), SIZE);
	assert_memory_equal(now, test.buffers[2], SIZE);
	assert_memory_equal(test.buffers[1], old, SIZE);
	return 0;
}

static int engine_and_leave(void)
{
	assert_int_equal(unit_engine(NULL), 0);
	return leave_with_a_write_behind_a_read();
}

static void leaving_executes_the_read_that_a_write_waits_for(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(engine_and_leave), 0);
}

static unsigned nr_statx;

static bool count_statx(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	nr_statx += nr == SYS_statx;
	return false;
}

/*
 * If a seccomp filter may kill the process for statx(), the library must not call it.
 */
static void the_size_of_a_remote_file_needs_no_optional_call(void **state)
{
	const struct uaio_call_set all = uaio_calls;
	struct uaio_file file = { .flags = UAIO_FILE_F_REMOTE };
	int fd = unit_numbered_file(true, 1);
	uint64_t size = 0;

	(void)state;
	nr_statx = 0;
	unit_hook(count_statx);
	uaio_call_forbid(UAIO_CALL_STATX);
	assert_int_equal(uaio_size_of(&file, fd, &size), 0);
	uaio_calls = all;
	unit_hook(NULL);
	assert_int_equal(nr_statx, 0);
	assert_int_equal(size, SIZE);
	unit_close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		READ_TEST(a_write_over_a_read_waits_for_its_data),
		READ_TEST(a_write_waits_through_other_descriptors_and_contexts),
		READ_TEST(only_writes_of_the_bytes_of_a_read_wait),
		READ_TEST(an_extending_write_waits_for_a_read_over_the_end),
		READ_TEST(an_append_waits_for_a_read_over_the_end_only),
		READ_TEST(requests_wait_for_a_write_that_waits_for_a_read),
		READ_TEST(writes_that_wait_for_reads_keep_their_order),
		READ_TEST(cancelling_a_read_starts_the_write_that_waits),
		READ_TEST(closing_the_writers_descriptor_makes_the_read_first),
		UNIT_TEST(leaving_executes_the_read_that_a_write_waits_for),
		UNIT_TEST(the_size_of_a_remote_file_needs_no_optional_call),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
