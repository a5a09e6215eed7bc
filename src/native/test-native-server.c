/* SPDX-License-Identifier: MIT */
/*
 * Direct requests on a file server. Workers submit them, because the kernel may wait
 * for the server inside io_submit. The kernel's results are final.
 */
#include "file/file.h"
#include "wq/wq.h"
#include "native/test-kernel.h"
#include "posix/posix.h"

static struct uaio_file *file;

static int start_remote(void **state)
{
	int ret = start(state);

	assert_int_equal(uaio_file_get(test.direct, &file), 0);
	store_relaxed(&file->flags,
		      load_relaxed(&file->flags) | UAIO_FILE_F_REMOTE);
	return ret;
}

static int stop_remote(void **state)
{
	uaio_file_put(file);
	return stop(state);
}

static void assert_only_workers_submitted(unsigned nr)
{
	assert_int_equal(load_relaxed(&kernel.nr_waits), nr);
	assert_int_equal(load_relaxed(&kernel.nr_waits_of_clients), 0);
	assert_int_equal(kernel.nr_submits, nr);
}

static void workers_submit_reads_and_writes_in_place(void **state)
{
	char block[SIZE], expected[SIZE];

	(void)state;
	submit(IOCB_CMD_PREAD, 3);
	submit(IOCB_CMD_PWRITE, 4);
	await_taken(2);
	execute();
	execute();
	reap(2);
	assert_block(test.buffers[0], 3);
	assert_int_equal(pread(test.fd, block, SIZE, 4 * SIZE), SIZE);
	memset(expected, 'w', SIZE);
	assert_memory_equal(block, expected, SIZE);
	assert_only_workers_submitted(2);
}

static void requests_with_the_kernel_occupy_no_worker(void **state)
{
	int was_allowed = uaio_wq_limit_workers(UAIO_BOUNDED, 1);

	(void)state;
	for (unsigned i = 0; i < NR_BLOCKS; i++)
		submit(i % 2 ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE, i);
	await_taken(NR_BLOCKS);
	for (unsigned i = 0; i < NR_BLOCKS; i++)
		execute();
	reap(NR_BLOCKS);
	assert_only_workers_submitted(NR_BLOCKS);
	uaio_wq_limit_workers(UAIO_BOUNDED, was_allowed);
}

/* While a worker's io_submit() waits, the client's own call must return. */
static void a_call_that_waits_keeps_no_client(void **state)
{
	(void)state;
	store_release(&kernel.is_held, 1);
	submit(IOCB_CMD_PREAD, 1);
	submit(IOCB_CMD_PREAD, 2);
	let_go(&kernel.is_held);
	await_taken(2);
	execute();
	execute();
	reap(2);
	assert_only_workers_submitted(2);
}

static void reap_result(int64_t res)
{
	struct io_event event;

	assert_int_equal(unit_reap(test.handle, 1, &event), 1);
	assert_int_equal((int64_t)event.res, res);
}

static void its_answer_is_the_result(void **state)
{
	static const int64_t results[] = { EAGAIN_RESULT, -EIO, 100, 0 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(results); i++) {
		submit(IOCB_CMD_PREAD, i);
		await_taken(1);
		end_with(results[i]);
		reap_result(results[i]);
	}
	assert_only_workers_submitted(NR_ELEMENTS(results));
}

/*
 * With kernel AIO a write with RWF_DSYNC might complete before it has reached the disk.
 */
static void synchronous_writes_are_plain_calls(void **state)
{
	(void)state;
	prepared(IOCB_CMD_PWRITE, 3)->aio_rw_flags = RWF_DSYNC;
	assert_int_equal(unit_submit(test.handle, &test.iocbs[0]), 1);
	reap(1);
	assert_only_workers_submitted(0);
}

/*
 * A killed process ends only when the server has answered the requests that kernel AIO
 * has. Clients of io_uring and POSIX AIO do not expect that. So for these clients,
 * workers submit only writes to kernel AIO. Workers execute reads by plain calls, which
 * a signal interrupts.
 */
static void only_writes_of_other_doors_are_submitted(void **state)
{
	static char buffer[SIZE];
	struct aiocb aiocb = {
		.aio_fildes = test.direct,
		.aio_buf = buffer,
		.aio_nbytes = SIZE,
		.aio_offset = 6 * SIZE,
		.aio_sigevent.sigev_notify = SIGEV_NONE,
	};
	const struct aiocb *list = &aiocb;

	(void)state;
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	assert_int_equal(uaio_posix_suspend(&list, 1, NULL), 0);
	assert_int_equal(aiocb.__return_value, SIZE);
	assert_block(buffer, 6);
	assert_only_workers_submitted(0);
	assert_int_equal(uaio_posix_write(&aiocb), 0);
	await_taken(1);
	execute();
	assert_int_equal(uaio_posix_suspend(&list, 1, NULL), 0);
	assert_int_equal(aiocb.__return_value, SIZE);
	assert_only_workers_submitted(1);
}

static void a_file_closes_while_its_requests_are_with_the_kernel(void **state)
{
	(void)state;
	submit(IOCB_CMD_PREAD, 5);
	await_taken(1);
	uaio_file_put(file);
	unit_close(test.direct);
	test.direct = -1;
	execute();
	reap(1);
	assert_block(test.buffers[0], 5);
}

#define SERVER_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start_remote, stop_remote)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVER_TEST(workers_submit_reads_and_writes_in_place),
		SERVER_TEST(requests_with_the_kernel_occupy_no_worker),
		SERVER_TEST(a_call_that_waits_keeps_no_client),
		SERVER_TEST(its_answer_is_the_result),
		SERVER_TEST(synchronous_writes_are_plain_calls),
		SERVER_TEST(only_writes_of_other_doors_are_submitted),
		cmocka_unit_test_setup_teardown(
			a_file_closes_while_its_requests_are_with_the_kernel,
			start_remote, stop),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
