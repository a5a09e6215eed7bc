/* SPDX-License-Identifier: MIT */
/* Requests that an injected fault starts late (flow/defer.h). */
#undef NDEBUG
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "options/config.h"
#include "options/faults.h"
#include "issue/fault.h"
#include "test-uring.h"

/* A delay longer than any test. */
#define FOR_EVER "3600s"

static struct uring client;
static int ends[2]; /* the two ends of a pipe */
static int file;
static char buffer[2];

static void have(const char *text)
{
	char expected[96];

	uaio_faults = (struct uaio_faults){ .nr = 0 };
	uaio_config.has_faults = uaio_config.is_examined = *text;
	if (*text)
		assert_int_equal(uaio_faults_parse(text, &uaio_faults, expected,
						   sizeof(expected)),
				 0);
	uaio_fault_init();
}

static int start(void **state)
{
	int ret = unit_setup(state);

	if (ret < 0)
		return ret;
	client_open(&client, 16, (struct io_uring_params){ 0 });
	file = unit_file(true);
	if (pwrite(file, "file", 4, 0) != 4)
		return -1;
	buffer[0] = buffer[1] = '-';
	return pipe2(ends, O_CLOEXEC);
}

static int stop(void **state)
{
	have("");
	client_close(&client);
	unit_close(ends[0]);
	unit_close(ends[1]);
	if (file >= 0)
		unit_close(file);
	return unit_teardown(state);
}

#define RING_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

static struct io_uring_sqe *put_read(int fd, uint64_t nr)
{
	return put_rw(&client, IORING_OP_READ, fd, &buffer[nr - 1], 1, 0, nr);
}

static void put_cancel(uint64_t target, int fd, uint32_t flags)
{
	struct io_uring_sqe *sqe = put(&client, IORING_OP_ASYNC_CANCEL, fd, 99);

	sqe->addr = target;
	sqe->cancel_flags = flags;
}

static void assert_results(int32_t cancel, int32_t read)
{
	for (unsigned i = 0; i < 2; i++) {
		struct io_uring_cqe cqe = get(&client);

		assert_int_equal(cqe.res, cqe.user_data == 99 ? cancel : read);
	}
	assert_none(&client);
}

static void a_cancellation_finds_it_before_it_begins(void **state)
{
	char byte;

	(void)state;
	assert_int_equal(write(ends[1], "p", 1), 1);
	have("read:defer=" FOR_EVER);
	for (unsigned i = 0; i < 2; i++) {
		put_read(i ? file : ends[0], 1);
		submit(&client, 0);
		assert_none(&client);
		put_cancel(1, -1, 0);
		submit(&client, 2);
		assert_results(0, -ECANCELED);
		/* Cancel by IORING_ASYNC_CANCEL_ANY. */
		put_read(i ? file : ends[0], 1);
		put_cancel(0, -1, IORING_ASYNC_CANCEL_ANY);
		submit(&client, 2);
		assert_results(1, -ECANCELED);
		/* Cancel by descriptor. */
		put_read(i ? file : ends[0], 1);
		submit(&client, 0);
		put_cancel(0, i ? file : ends[0], IORING_ASYNC_CANCEL_FD);
		submit(&client, 2);
		assert_results(0, -ECANCELED);
	}
	assert_int_equal(buffer[0], '-');
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(byte, 'p');
}

static void a_cancellation_that_is_too_late_does_not_find_it(void **state)
{
	(void)state;
	have("");
	put_read(file, 1);
	submit(&client, 1);
	put_cancel(1, -1, 0);
	submit(&client, 2);
	assert_results(-ENOENT, 1);
}

static void it_begins_when_its_time_is_over(void **state)
{
	(void)state;
	assert_int_equal(write(ends[1], "p", 1), 1);
	have("read:defer=1ms");
	put_read(ends[0], 1);
	put_read(file, 2);
	submit(&client, 2);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(get(&client).res, 1);
	assert_int_equal(buffer[0], 'p');
	assert_int_equal(buffer[1], 'f');
}

static void it_waits_for_its_stream_after_that(void **state)
{
	(void)state;
	have("read:defer=1ms");
	put_read(ends[0], 1);
	submit(&client, 0);
	assert_int_equal(write(ends[1], "p", 1), 1);
	submit(&client, 1);
	assert_int_equal(get(&client).res, 1);
	assert_int_equal(buffer[0], 'p');
}

static void the_order_of_a_stream_stays(void **state)
{
	(void)state;
	assert_int_equal(write(ends[1], "pq", 2), 2);
	have("read:defer=" FOR_EVER "@only=1");
	put_read(ends[0], 1);
	submit(&client, 0);
	assert_none(&client);
	put_read(ends[0], 2);
	submit(&client, 2);
	(void)get(&client);
	(void)get(&client);
	assert_int_equal(buffer[0], 'p');
	assert_int_equal(buffer[1], 'q');
}

static void a_linked_timeout_finds_it(void **state)
{
	struct __kernel_timespec soon = { .tv_nsec = 1000 };
	struct io_uring_sqe *sqe;

	(void)state;
	have("read:defer=" FOR_EVER);
	put_read(file, 1)->flags = IOSQE_IO_LINK;
	sqe = put(&client, IORING_OP_LINK_TIMEOUT, -1, 99);
	sqe->addr = (uintptr_t)&soon;
	sqe->len = 1;
	submit(&client, 2);
	assert_results(-ETIME, -ECANCELED);
	assert_int_equal(buffer[0], '-');
}

static void its_file_may_be_closed_meanwhile(void **state)
{
	(void)state;
	have("read:defer=1ms");
	put_read(file, 2);
	submit(&client, 0);
	unit_close(file);
	file = -1;
	submit(&client, 1);
	assert_int_equal(get(&client).res, 1);
	assert_int_equal(buffer[1], 'f');
}

static void a_fixed_file_is_as_any_other(void **state)
{
	int fds[] = { file, ends[0] };

	(void)state;
	assert_int_equal(write(ends[1], "p", 1), 1);
	assert_int_equal(
		uring_register(client.fd, IORING_REGISTER_FILES, fds, 2), 0);
	have("read:defer=" FOR_EVER "@count=2 read:defer=1ms@after=2");
	for (int i = 0; i < 2; i++) {
		put_read(i, 1)->flags = IOSQE_FIXED_FILE;
		submit(&client, 0);
		put_cancel(1, -1, 0);
		submit(&client, 2);
		assert_results(0, -ECANCELED);
	}
	for (int i = 0; i < 2; i++) {
		put_read(i, 1)->flags = IOSQE_FIXED_FILE;
		submit(&client, 1);
		assert_int_equal(get(&client).res, 1);
		assert_int_equal(buffer[0], i ? 'p' : 'f');
	}
}

static void a_ring_is_closed_without_it(void **state)
{
	(void)state;
	have("read:defer=" FOR_EVER);
	put_read(file, 1);
	put_read(ends[0], 2);
	submit(&client, 0);
	client_close(&client);
	client_open(&client, 16, (struct io_uring_params){ 0 });
}

static void what_keeps_an_order_is_not_deferred(void **state)
{
	(void)state;
	have("any:defer=" FOR_EVER " nop:defer=" FOR_EVER);
	(void)put_rw(&client, IORING_OP_WRITE, file, "w", 1, 0, 1);
	(void)put(&client, IORING_OP_NOP, -1, 2);
	submit(&client, 2);
	assert_int_equal(get(&client).res + get(&client).res, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RING_TEST(a_cancellation_finds_it_before_it_begins),
		RING_TEST(a_cancellation_that_is_too_late_does_not_find_it),
		RING_TEST(it_begins_when_its_time_is_over),
		RING_TEST(it_waits_for_its_stream_after_that),
		RING_TEST(the_order_of_a_stream_stays),
		RING_TEST(a_linked_timeout_finds_it),
		RING_TEST(its_file_may_be_closed_meanwhile),
		RING_TEST(a_fixed_file_is_as_any_other),
		RING_TEST(a_ring_is_closed_without_it),
		RING_TEST(what_keeps_an_order_is_not_deferred),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
