/* SPDX-License-Identifier: MIT */
/*
 * Buffered requests, and writes that extend a file, wait for older direct requests to
 * the same bytes. Requests to other bytes do not wait.
 *
 * The test's gate stops the system calls of workers. The test sets the backend to
 * threads, whatever UAIO_BACKEND says, so that workers execute the requests.
 * test/host/native-order.c tests direct requests that the kernel executes.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "options/config.h"
#include "aio/handle.h"
#include "unit.h"

enum { NR_BLOCKS = 16, SIZE = UNIT_KEY_BYTES, LONG = 4 * SIZE };

/*
 * The test's gate (a hook that stops system calls) knows a request by its key: its
 * first block.
 */
static struct {
	int fd;
	/* the same file, made to look as if opened with O_DIRECT */
	int direct;
	uint64_t handle;
	struct iocb iocbs[32];
	char buffers[32][LONG];
	unsigned nr;
} test;

static bool pretend_direct_on_disk(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_fcntl && args[1] == F_GETFL && args[0] == test.direct) {
		*ret_res = O_RDWR | O_DIRECT;
		return true;
	}
	if (nr != SYS_fstatfs)
		return false;
	*ret_res = unit_say_ext4(args);
	return true;
}

static void begin(void)
{
	char path[32];

	uaio_config.backend = UAIO_BACKEND_THREADS;
	test.nr = 0;
	test.fd = unit_numbered_file(false, NR_BLOCKS);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", test.fd);
	test.direct = open(path, O_RDWR | O_CLOEXEC);
	assert_true(test.direct >= 0);
	test.handle = unit_context(32);
	unit_hook(pretend_direct_on_disk);
	unit_gate_close(test.direct);
}

static int start(void **state)
{
	int ret = unit_setup(state);

	begin();
	return ret;
}

static int stop(void **state)
{
	unit_gate_open();
	unit_destroy(test.handle);
	unit_hook(NULL);
	unit_close(test.fd);
	unit_close(test.direct);
	return unit_teardown(state);
}

#define DIRECT_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

/*
 * Submit a request, whose buffer is first filled with a letter of its own.
 * Return: the buffer.
 */
static char *submit(int fd, unsigned opcode, unsigned block, unsigned bytes)
{
	struct iocb *iocb = &test.iocbs[test.nr];
	char *buffer = test.buffers[test.nr];

	memset(buffer, (int)('A' + test.nr++), LONG);
	*iocb = unit_iocb(opcode, fd, buffer, bytes, block * SIZE);
	assert_int_equal(unit_submit(test.handle, iocb), 1);
	return buffer;
}

/*
 * Submit a direct request, which the gate stops in a worker's system call.
 * Return: its buffer.
 */
static char *held(unsigned opcode, unsigned block)
{
	char *buffer = submit(test.direct, opcode, block, LONG);

	unit_gate_await_key(block);
	return buffer;
}

static void reap(unsigned nr)
{
	struct io_event events[32];

	assert_int_equal(unit_reap(test.handle, nr, events), nr);
	for (unsigned i = 0; i < nr; i++)
		assert_true(events[i].res > 0);
}

static void assert_file(unsigned block, const char *bytes)
{
	char now[SIZE];

	assert_int_equal(pread(test.fd, now, SIZE, block * SIZE), SIZE);
	assert_memory_equal(now, bytes, SIZE);
}

static void a_write_comes_after_a_direct_one_of_its_bytes(void **state)
{
	static const unsigned blocks[] = { 4, 1, 7, 5 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(blocks); i++) {
		uint64_t before = unit_nr_inline();
		char *later;

		held(IOCB_CMD_PWRITE, 4);
		later = submit(test.fd, IOCB_CMD_PWRITE, blocks[i], LONG);
		assert_int_equal(unit_nr_inline(), before);
		unit_gate_open();
		reap(2);
		assert_file(blocks[i], later);
		assert_file(blocks[i] + 3, later);
		unit_gate_close(test.direct);
	}
}

static void a_read_comes_after_a_direct_write_of_its_bytes(void **state)
{
	char *written = held(IOCB_CMD_PWRITE, 4);
	uint64_t before = unit_nr_inline();
	char *read = submit(test.fd, IOCB_CMD_PREAD, 5, LONG);

	(void)state;
	assert_int_equal(unit_nr_inline(), before);
	unit_gate_open();
	reap(2);
	assert_memory_equal(read, written, 3 * SIZE);
}

static void a_direct_read_sees_no_write_that_came_after_it(void **state)
{
	char was[LONG], *read = held(IOCB_CMD_PREAD, 4);
	uint64_t before = unit_nr_inline();

	(void)state;
	assert_int_equal(pread(test.fd, was, LONG, 4 * SIZE), LONG);
	submit(test.fd, IOCB_CMD_PWRITE, 6, LONG);
	assert_int_equal(unit_nr_inline(), before);
	unit_gate_open();
	reap(2);
	assert_memory_equal(read, was, LONG);
}

static void an_extending_write_waits_for_a_read_over_the_end(void **state)
{
	struct io_event events[2];
	uint64_t before = unit_nr_inline();

	(void)state;
	held(IOCB_CMD_PREAD, NR_BLOCKS - 2);
	submit(test.direct, IOCB_CMD_PWRITE, NR_BLOCKS, SIZE);
	assert_int_equal(unit_nr_inline(), before);
	unit_gate_open();
	assert_int_equal(unit_reap(test.handle, 2, events), 2);
	assert_int_equal(events[0].res, 2 * SIZE);
	assert_int_equal(events[1].res, SIZE);
}

/*
 * The test's gate stops direct requests. The following requests must complete
 * meanwhile: they must not wait for the direct requests.
 */
static void other_requests_do_not_wait_for_direct_ones(void **state)
{
	(void)state;
	held(IOCB_CMD_PWRITE, 4);
	submit(test.fd, IOCB_CMD_PWRITE, 0, LONG);
	submit(test.fd, IOCB_CMD_PREAD, 8, LONG);
	reap(2);
	held(IOCB_CMD_PREAD, 8);
	submit(test.fd, IOCB_CMD_PREAD, 9, LONG);
	submit(test.direct, IOCB_CMD_PWRITE, NR_BLOCKS, SIZE);
	reap(2);
	/* Direct requests must not wait for each other either. */
	submit(test.direct, IOCB_CMD_PWRITE, 4, LONG);
	submit(test.direct, IOCB_CMD_PREAD, 4, LONG);
	submit(test.direct, IOCB_CMD_PWRITE, 8, LONG);
	unit_gate_await(5);
	unit_gate_open();
	reap(5);
}

static void no_request_waits_after_the_direct_event_was_seen(void **state)
{
	enum { ROUNDS = 500 };

	(void)state;
	unit_gate_open();
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t before;

		test.nr = 0;
		submit(test.direct, i % 2 ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE, 4,
		       LONG);
		reap(1);
		before = unit_nr_inline();
		submit(test.fd, IOCB_CMD_PWRITE, 4, LONG);
		assert_int_equal(unit_nr_inline(), before + 1);
		reap(1);
	}
}

static void cancelling_a_direct_request_starts_what_waits_for_it(void **state)
{
	struct io_event events[3];

	(void)state;
	uaio_wq_limit_workers(UAIO_BOUNDED, 1);
	held(IOCB_CMD_PREAD, 0);
	submit(test.direct, IOCB_CMD_PREAD, 8, LONG);
	submit(test.fd, IOCB_CMD_PWRITE, 8, SIZE);
	assert_int_equal(
		uaio_ctx_cancel(test.handle, (uintptr_t)&test.iocbs[1]),
		-EINPROGRESS);
	assert_int_equal(unit_reap(test.handle, 1, events), 1);
	assert_int_equal(events[0].res, -ECANCELED);
	unit_gate_open();
	reap(2);
	uaio_wq_limit_workers(UAIO_BOUNDED, 32);
}

/*
 * The test's gate stops the call of the only worker, so the exiting thread must
 * execute queued requests.
 */
static int engine_and_leave(void)
{
	char *written;

	assert_int_equal(unit_engine(NULL), 0);
	begin();
	uaio_wq_limit_workers(UAIO_BOUNDED, 1);
	held(IOCB_CMD_PREAD, 0);
	/*
	 * The test's gate stops calls on the first file. Use another file from now
	 * on, whose calls are not stopped.
	 */
	unit_hook(NULL);
	test.fd = unit_numbered_file(false, NR_BLOCKS);
	test.direct = unit_numbered_file(false, NR_BLOCKS);
	assert_int_equal(dup3(test.fd, test.direct, O_CLOEXEC), test.direct);
	unit_hook(pretend_direct_on_disk);
	submit(test.direct, IOCB_CMD_PREAD, 8, LONG);
	written = submit(test.fd, IOCB_CMD_PWRITE, 8, LONG);
	uaio_engine_exiting();
	assert_file(8, written);
	return 0;
}

static void leaving_executes_the_direct_read_a_write_waits_for(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(engine_and_leave), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DIRECT_TEST(a_write_comes_after_a_direct_one_of_its_bytes),
		DIRECT_TEST(a_read_comes_after_a_direct_write_of_its_bytes),
		DIRECT_TEST(a_direct_read_sees_no_write_that_came_after_it),
		DIRECT_TEST(an_extending_write_waits_for_a_read_over_the_end),
		DIRECT_TEST(other_requests_do_not_wait_for_direct_ones),
		DIRECT_TEST(no_request_waits_after_the_direct_event_was_seen),
		DIRECT_TEST(
			cancelling_a_direct_request_starts_what_waits_for_it),
		UNIT_TEST(leaving_executes_the_direct_read_a_write_waits_for),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
