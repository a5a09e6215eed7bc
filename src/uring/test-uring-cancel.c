/* SPDX-License-Identifier: MIT */
/* Cancelling requests by each criterion that IORING_ASYNC_CANCEL_* offers. */
#undef NDEBUG
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sys.h"
#include "flow/cancel.h"
#include "uring/note.h"
#include "uring/ring.h"
#include "uring/table.h"
#include "test-uring-held.h"
#include "test-uring.h"

static struct uring client;
static int a[2], b[2]; /* pipes, both empty */
static char byte;

static int start(void **state)
{
	int ret = unit_setup(state);

	if (ret < 0)
		return ret;
	client_open(&client, 16, (struct io_uring_params){ 0 });
	return pipe2(a, O_CLOEXEC) | pipe2(b, O_CLOEXEC);
}

static int stop(void **state)
{
	client_close(&client);
	for (int i = 0; i < 2; i++) {
		unit_close(a[i]);
		unit_close(b[i]);
	}
	return unit_teardown(state);
}

#define RING_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

enum { CANCELLED = -ECANCELED };

static struct io_uring_sqe *put_read(int fd, uint64_t user_data)
{
	return put_rw(&client, IORING_OP_READ, fd, &byte, 1, -1, user_data);
}

static struct io_uring_sqe *put_cancel(uint64_t target, int fd, uint32_t flags)
{
	struct io_uring_sqe *sqe = put(&client, IORING_OP_ASYNC_CANCEL, fd, 99);

	sqe->addr = target;
	sqe->cancel_flags = flags;
	return sqe;
}

/*
 * Submit the prepared entries. Check that the cancelling request has the result res,
 * and that the nr requests in `targets` complete as cancelled.
 */
static void assert_cancelled(int32_t res, unsigned nr, const uint64_t *targets)
{
	bool is_told = false;
	uint64_t seen = 0;

	submit(&client, nr + 1);
	for (unsigned i = 0; i < nr + 1; i++) {
		struct io_uring_cqe cqe = get(&client);

		if (cqe.user_data == 99) {
			assert_int_equal(cqe.res, res);
			is_told = true;
		} else {
			assert_int_equal(cqe.res, CANCELLED);
			seen |= 1ull << cqe.user_data;
		}
	}
	assert_true(is_told);
	for (unsigned i = 0; i < nr; i++)
		assert_true(seen >> targets[i] & 1);
	assert_none(&client);
}

#define ASSERT_CANCELLED(res, ...)                                        \
	assert_cancelled(res, NR_ELEMENTS(((uint64_t[]){ __VA_ARGS__ })), \
			 (uint64_t[]){ __VA_ARGS__ })

static void by_user_data(void **state)
{
	(void)state;
	put_read(a[0], 1);
	put_read(a[0], 2);
	put_read(b[0], 3);
	submit(&client, 0);
	put_cancel(2, -1, 0);
	ASSERT_CANCELLED(0, 2);
	put_cancel(2, -1, 0);
	assert_cancelled(-ENOENT, 0, NULL);
	put_cancel(3, -1, IORING_ASYNC_CANCEL_ALL);
	ASSERT_CANCELLED(1, 3);
	put_cancel(3, -1, IORING_ASYNC_CANCEL_ALL);
	assert_cancelled(0, 0, NULL);
	put_cancel(0, -1, IORING_ASYNC_CANCEL_ANY);
	ASSERT_CANCELLED(1, 1);
}

static void what_has_not_begun_is_not_found(void **state)
{
	(void)state;
	put_read(a[0], 1)->flags = IOSQE_IO_LINK;
	put_read(b[0], 2);
	submit(&client, 0);
	put_cancel(2, -1, 0);
	assert_cancelled(-ENOENT, 0, NULL);
	put_cancel(2, -1, IORING_ASYNC_CANCEL_ALL);
	assert_cancelled(0, 0, NULL);
	/*
	 * A linked timeout completes with its request, and only the request counts as
	 * cancelled.
	 */
	put_cancel(0, -1, IORING_ASYNC_CANCEL_ANY);
	ASSERT_CANCELLED(1, 1, 2);
}

/*
 * IOSQE_ASYNC reads of pipes wait without a worker, because a worker's read could not
 * be cancelled.
 */
static void what_is_asynchronous(void **state)
{
	(void)state;
	put_read(a[0], 1)->flags = IOSQE_ASYNC;
	put_read(a[0], 2)->flags = IOSQE_ASYNC;
	put_read(b[0], 3)->flags = IOSQE_ASYNC;
	submit(&client, 0);
	put_cancel(2, -1, 0);
	ASSERT_CANCELLED(0, 2);
	assert_int_equal(write(b[1], "b", 1), 1);
	assert_got(&client, 3, 1);
	assert_int_equal(byte, 'b');
	put_cancel(0, -1, IORING_ASYNC_CANCEL_ANY);
	ASSERT_CANCELLED(1, 1);
}

static void by_file(void **state)
{
	(void)state;
	put_read(a[0], 1);
	put_read(a[0], 2);
	put_read(b[0], 3);
	submit(&client, 0);
	put_cancel(0, b[0], IORING_ASYNC_CANCEL_FD);
	ASSERT_CANCELLED(0, 3);
	put_cancel(0, a[0], IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL);
	ASSERT_CANCELLED(2, 1, 2);
	put_cancel(0, 12345, IORING_ASYNC_CANCEL_FD);
	assert_cancelled(-EBADF, 0, NULL);
	put_cancel(0, 0, IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_FD_FIXED);
	assert_cancelled(-EBADF, 0, NULL);
}

/*
 * Cancel by a duplicate of the descriptor. Before Linux 6.10 (F_DUPFD_QUERY) the
 * library does not recognise the duplicate, so the test uses the descriptor itself.
 */
static void by_another_descriptor(void **state)
{
	bool is_known = sys_is_duplicate(a[0], a[0]) > 0;
	int again = dup(a[0]);

	(void)state;
	put_read(b[0], 1);
	put_read(a[0], 2);
	submit(&client, 0);
	put_cancel(0, a[1], IORING_ASYNC_CANCEL_FD);
	assert_cancelled(-ENOENT, 0, NULL);
	put_cancel(0, is_known ? again : a[0], IORING_ASYNC_CANCEL_FD);
	ASSERT_CANCELLED(0, 2);
	put_cancel(0, b[0], IORING_ASYNC_CANCEL_FD);
	ASSERT_CANCELLED(0, 1);
	unit_close(again);
}

static uint32_t is_in_write; /* atomic */

static bool hold_write(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr != SYS_pwrite64 && nr != SYS_pwritev2)
		return false;
	store_relaxed(&is_in_write, 1);
	while (!load_relaxed(&may_go))
		sched_yield();
	return false;
}

/*
 * While a worker executes a write, cancel another write that waits. The cancelling
 * request names a duplicate of the other write's descriptor.
 */
static void what_waits_behind_what_is_executed(void **state)
{
	int fd = unit_numbered_file(true, 1), again = dup(fd);

	(void)state;
	store_relaxed(&may_go, 0);
	store_relaxed(&is_in_write, 0);
	unit_hook(hold_write);
	put_rw(&client, IORING_OP_WRITE, fd, &byte, 1, 0, 1)->flags =
		IOSQE_ASYNC;
	submit(&client, 0);
	while (!load_relaxed(&is_in_write))
		sched_yield();
	put_rw(&client, IORING_OP_WRITE, again, &byte, 1, 0, 2)->flags =
		IOSQE_ASYNC;
	submit(&client, 0);
	if (sys_is_duplicate(again, fd) > 0) {
		put_cancel(0, fd, IORING_ASYNC_CANCEL_FD);
		ASSERT_CANCELLED(0, 2);
		store_relaxed(&may_go, 1);
		assert_got(&client, 1, 1);
	} else {
		store_relaxed(&may_go, 1);
		assert_got_both(&client, 1, 1, 2, 1);
	}
	unit_close(fd);
	unit_close(again);
}

static void by_registered_file(void **state)
{
	(void)state;
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_FILES, a, 2),
			 0);
	put_rw(&client, IORING_OP_READ, 0, &byte, 1, -1, 1)->flags =
		IOSQE_FIXED_FILE;
	put_read(b[0], 2);
	submit(&client, 0);
	put_cancel(0, 0, IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_FD_FIXED);
	ASSERT_CANCELLED(0, 1);
	put_cancel(0, -1, IORING_ASYNC_CANCEL_ANY);
	ASSERT_CANCELLED(1, 2);
}

static void by_operation(void **state)
{
	(void)state;
	put_read(a[0], 1);
	put(&client, IORING_OP_POLL_ADD, b[0], 2)->poll32_events = POLLIN;
	submit(&client, 0);
	put_cancel(0, -1, IORING_ASYNC_CANCEL_OP)->len = IORING_OP_POLL_ADD;
	ASSERT_CANCELLED(0, 2);
	put_cancel(0, -1, IORING_ASYNC_CANCEL_OP | IORING_ASYNC_CANCEL_ALL)
		->len = IORING_OP_READ;
	ASSERT_CANCELLED(1, 1);
}

static void mistakes_have_the_kernels_answers(void **state)
{
	(void)state;
	put_cancel(0, -1, 1u << 20);
	assert_cancelled(-EINVAL, 0, NULL);
	put_cancel(0, -1, IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ANY);
	assert_cancelled(-EINVAL, 0, NULL);
	put_cancel(0, -1, 0)->off = 1;
	assert_cancelled(-EINVAL, 0, NULL);
}

static void at_once_by_a_call(void **state)
{
	struct io_uring_sync_cancel_reg what = { .addr = 1,
						 .timeout = { -1, -1 } };
	uint32_t fd = (uint32_t)client.fd;

	(void)state;
	put_read(a[0], 1);
	submit(&client, 0);
	assert_int_equal(
		uaio_uring_register(fd, IORING_REGISTER_SYNC_CANCEL, &what, 1),
		0);
	assert_got(&client, 1, CANCELLED);
	assert_int_equal(
		uaio_uring_register(fd, IORING_REGISTER_SYNC_CANCEL, &what, 1),
		-ENOENT);
	what.pad[3] = 1;
	assert_int_equal(
		uaio_uring_register(fd, IORING_REGISTER_SYNC_CANCEL, &what, 1),
		-EINVAL);
	assert_int_equal(
		uaio_uring_register(fd, IORING_REGISTER_SYNC_CANCEL, &what, 2),
		-EINVAL);
}

static void put_splice(int in, int out, uint32_t bytes)
{
	struct io_uring_sqe *sqe =
		put_rw(&client, IORING_OP_SPLICE, out, NULL, bytes, -1, 1);

	sqe->splice_fd_in = in;
	sqe->splice_off_in = ~0ull;
}

/*
 * A splice has filled a socket, and the worker that executes the splice waits for room.
 * If the splice is cancelled, its result is the number of bytes moved so far. The pipe
 * holds more than 16 buffers, which the kernel would send as one message.
 */
static void a_splice_has_moved_a_part(void **state)
{
	enum { BYTES = 131072 };
	static char bytes[BYTES];
	struct pollfd room = { .events = POLLOUT };
	int pair[2], size = 4096;
	struct io_uring_cqe cqe;

	(void)state;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(
		setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)),
		0);
	assert_true(fcntl(a[1], F_SETPIPE_SZ, BYTES) >= BYTES);
	assert_int_equal(write(a[1], bytes, BYTES), BYTES);
	put_splice(a[0], pair[1], BYTES);
	submit(&client, 0);
	room.fd = pair[1];
	while (poll(&room, 1, 0) == 1)
		sched_yield();
	put_cancel(1, -1, 0);
	submit(&client, 2);
	cqe = get(&client);
	if (cqe.user_data == 99)
		cqe = get(&client);
	assert_int_equal(cqe.user_data, 1);
	assert_in_range(cqe.res, 1, BYTES - 1);
	assert_int_equal(recv(pair[0], bytes, BYTES, MSG_DONTWAIT), cqe.res);
	assert_int_equal(read(a[0], bytes, BYTES), BYTES - cqe.res);
	unit_close(pair[0]);
	unit_close(pair[1]);
}

/*
 * When a ring ends, its waiting splice closes its files: writing to the pipe then
 * fails.
 */
static void a_splice_ends_with_its_ring(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct pollfd broken;
		int pair[2];

		assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
		put_splice(pair[0], b[1], 8);
		submit(&client, 0);
		client_close(&client);
		unit_close(pair[0]);
		broken = (struct pollfd){ .fd = pair[1] };
		assert_int_equal(poll(&broken, 1, -1), 1);
		unit_close(pair[1]);
		unit_await(is_freed, NULL);
		client_open(&client, 16, (struct io_uring_params){ 0 });
	}
}

static uint32_t is_over; /* atomic */

static long keep_cancelling(void *arg)
{
	struct uaio_uring *ring = arg;
	const struct uaio_uring_aim aim = { .user_data = 1 };

	while (!load_relaxed(&is_over))
		(void)uaio_uring_cancel(ring, &aim);
	return 0;
}

/*
 * A splice is cancelled just as it completes. The cancelling thread must not end
 * another splice, which waits and has reused the first splice's memory.
 */
static void a_splice_that_just_ends_is_cancelled(void **state)
{
	struct uaio_uring *ring = uaio_uring_find((uint32_t)client.fd);
	struct unit_thread thread;
	int c[2], d[2];

	(void)state;
	assert_int_equal(pipe2(c, O_CLOEXEC) | pipe2(d, O_CLOEXEC), 0);
	store_relaxed(&is_over, 0);
	unit_thread_start(&thread, keep_cancelling, ring);
	for (unsigned i = 0; i < unit_rounds(300); i++) {
		char bytes[2];
		unsigned nr = 0;

		assert_int_equal(write(a[1], "x", 1), 1);
		put_splice(a[0], b[1], 1);
		submit(&client, 0);
		put_splice(c[0], d[1], 1);
		client.sqes[(client.prepared - 1) & 15].user_data = 2;
		submit(&client, 1);
		assert_int_equal(write(c[1], "x", 1), 1);
		while (nr < 2) {
			struct io_uring_cqe cqe = get(&client);

			nr++;
			if (cqe.user_data == 2)
				assert_int_equal(cqe.res, 1);
			else if (cqe.res == 1)
				assert_int_equal(read(b[0], bytes, 1), 1);
			else
				assert_int_equal(read(a[0], bytes, 1), 1);
		}
		assert_int_equal(read(d[0], bytes, 1), 1);
	}
	store_relaxed(&is_over, 1);
	(void)unit_thread_join(&thread);
	for (unsigned i = 0; i < 2; i++) {
		unit_close(c[i]);
		unit_close(d[i]);
	}
}

/*
 * An accept with IORING_ACCEPT_DONTWAIT fails with EAGAIN if no connection is pending,
 * also on a worker.
 */
static void an_accept_that_must_not_wait_does_not(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(sa_family_t);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;

	(void)state;
	assert_int_equal(bind(fd, (void *)&address, len), 0);
	assert_int_equal(listen(fd, 4), 0);
	len = sizeof(address);
	assert_int_equal(getsockname(fd, (void *)&address, &len), 0);
	for (unsigned i = 0; i < 4; i++) {
		bool is_there = i >= 2;
		struct io_uring_sqe *sqe =
			put(&client, IORING_OP_ACCEPT, fd, 1);
		struct io_uring_cqe cqe;

		sqe->ioprio = IORING_ACCEPT_DONTWAIT;
		sqe->flags = i % 2 ? IOSQE_ASYNC : 0;
		peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (is_there)
			assert_int_equal(connect(peer, (void *)&address, len),
					 0);
		submit(&client, 1);
		cqe = get(&client);
		if (is_there) {
			assert_true(cqe.res >= 0);
			unit_close(cqe.res);
		} else {
			assert_int_equal(cqe.res, -EAGAIN);
		}
		unit_close(peer);
	}
	unit_close(fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(by_user_data),
		RING_TEST(what_has_not_begun_is_not_found),
		RING_TEST(what_is_asynchronous),
		RING_TEST(by_file),
		RING_TEST(by_another_descriptor),
		RING_TEST(what_waits_behind_what_is_executed),
		RING_TEST(by_registered_file),
		RING_TEST(by_operation),
		RING_TEST(mistakes_have_the_kernels_answers),
		RING_TEST(at_once_by_a_call),
		RING_TEST(a_splice_has_moved_a_part),
		RING_TEST(a_splice_ends_with_its_ring),
		RING_TEST(a_splice_that_just_ends_is_cancelled),
		RING_TEST(an_accept_that_must_not_wait_does_not),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
