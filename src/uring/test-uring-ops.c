/* SPDX-License-Identifier: MIT */
/* Operations on files, and polls, alone and in chains. */
#undef NDEBUG
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define RING_ENTRIES 16
#include "test-uring.h"

static void files_are_read_written_and_synced(void **state)
{
	int fd = unit_numbered_file(false, 3);
	char one[SIZE], two[2 * SIZE];
	struct iovec iov[2] = { { two, SIZE }, { two + SIZE, SIZE } };

	(void)state;
	put_rw(&client, IORING_OP_READ, fd, one, SIZE, 2 * SIZE, 1);
	submit(&client, 1);
	assert_got(&client, 1, SIZE);
	assert_int_equal(one[0], 2);
	put_rw(&client, IORING_OP_READV, fd, iov, 2, 0, 2);
	submit(&client, 1);
	assert_got(&client, 2, 2 * SIZE);
	assert_int_equal(two[SIZE], 1);
	memset(two, 'w', sizeof(two));
	put_rw(&client, IORING_OP_WRITEV, fd, iov, 2, SIZE, 3);
	submit(&client, 1);
	assert_got(&client, 3, 2 * SIZE);
	put_rw(&client, IORING_OP_WRITE, fd, one, SIZE, 0, 4);
	submit(&client, 1);
	assert_got(&client, 4, SIZE);
	assert_int_equal(pread(fd, two, 2 * SIZE, 0), 2 * SIZE);
	assert_int_equal(two[0], 2);
	assert_int_equal(two[SIZE], 'w');
	put(&client, IORING_OP_FSYNC, fd, 5);
	put(&client, IORING_OP_FSYNC, fd, 6)->fsync_flags =
		IORING_FSYNC_DATASYNC;
	submit(&client, 2);
	assert_got_both(&client, 5, 0, 6, 0);
	unit_close(fd);
}

static void minus_one_is_the_files_own_position(void **state)
{
	int fd = unit_numbered_file(true, 3);
	char block[SIZE];

	(void)state;
	assert_int_equal(lseek(fd, SIZE, SEEK_SET), SIZE);
	for (int i = 1; i < 3; i++) {
		put_rw(&client, IORING_OP_READ, fd, block, SIZE, -1, 1);
		submit(&client, 1);
		assert_got(&client, 1, SIZE);
		assert_int_equal(block[0], i);
	}
	put_rw(&client, IORING_OP_READ, fd, block, SIZE, -1, 1);
	submit(&client, 1);
	assert_got(&client, 1, 0);
	unit_close(fd);
}

static void mistakes_have_the_kernels_answers(void **state)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char byte = 0;

	(void)state;
	put_rw(&client, IORING_OP_READ, fd, &byte, 1, 0, 1);
	put_rw(&client, IORING_OP_READ, 12345, &byte, 1, 0, 2);
	put_rw(&client, IORING_OP_WRITE, fd, &byte, 1, -2, 3);
	put(&client, IORING_OP_READ, 0, 4)->flags = IOSQE_FIXED_FILE;
	put_rw(&client, IORING_OP_READ_FIXED, fd, &byte, 1, 0, 5);
	put_rw(&client, IORING_OP_WRITE, fd, &byte, 1, 0, 6)->rw_flags = 1
									 << 20;
	submit(&client, 6);
	assert_got(&client, 1, -EBADF);
	assert_got(&client, 2, -EBADF);
	assert_got(&client, 3, -EINVAL);
	assert_got(&client, 4, -EBADF);
	assert_got(&client, 5, -EFAULT);
	assert_got(&client, 6, -EOPNOTSUPP);
	put(&client, IORING_OP_FSYNC, fd, 1)->addr = 1;
	submit(&client, 1);
	assert_got(&client, 1, -EINVAL);
	put(&client, IORING_OP_FSYNC, fd, 1)->off = (uint64_t)-1;
	submit(&client, 1);
	assert_got(&client, 1, -EINVAL);
	put(&client, IORING_OP_NOP, fd, 1)->flags = IOSQE_BUFFER_SELECT;
	submit(&client, 1);
	assert_got(&client, 1, -EOPNOTSUPP);
	put(&client, IORING_OP_NOP, fd, 1)->personality = 1;
	submit(&client, 1);
	assert_got(&client, 1, -EINVAL);
	unit_close(fd);
}

static void what_waits_completes_when_it_can(void **state)
{
	enum { RWF_NOSIGNAL_ = 0x100 };
	struct io_uring_cqe cqe;
	int ends[2];
	char byte = 0;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 1);
	submit(&client, 0);
	assert_none(&client);
	assert_int_equal(write(ends[1], "a", 1), 1);
	assert_got(&client, 1, 1);
	assert_int_equal(byte, 'a');
	/*
	 * A read of a pipe waits for data even with O_NONBLOCK, unless RWF_NOWAIT is
	 * set.
	 */
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 2);
	submit(&client, 0);
	assert_none(&client);
	assert_int_equal(write(ends[1], "b", 1), 1);
	assert_got(&client, 2, 1);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 3)->rw_flags =
		RWF_NOWAIT;
	submit(&client, 1);
	assert_got(&client, 3, -EAGAIN);
	/*
	 * Some kernels do not know RWF_NOSIGNAL. Submission must not block there,
	 * either.
	 */
	assert_int_equal(fcntl(ends[0], F_SETFL, 0), 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 4)->rw_flags =
		RWF_NOSIGNAL_;
	submit(&client, 0);
	assert_int_equal(write(ends[1], "c", 1), 1);
	cqe = get(&client);
	assert_true(cqe.res == 1 || cqe.res == -EOPNOTSUPP);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void what_no_ring_can_do_is_refused_behind_the_file(void **state)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 1)->rw_flags =
		RWF_HIPRI;
	submit(&client, 1);
	assert_got(&client, 1, -EINVAL);
	/* No buffers were provided, so there is none to select. */
	put_rw(&client, IORING_OP_READ, ends[0], NULL, 1, -1, 2)->flags =
		IOSQE_BUFFER_SELECT;
	put_rw(&client, IORING_OP_READ, -1, NULL, 1, -1, 3)->flags =
		IOSQE_BUFFER_SELECT;
	put_rw(&client, IORING_OP_READV, ends[0], &iov, 1, -1, 4)->flags =
		IOSQE_BUFFER_SELECT;
	submit(&client, 3);
	assert_got(&client, 2, -ENOBUFS);
	assert_got(&client, 3, -EBADF);
	assert_got(&client, 4, -ENOBUFS);
	put_rw(&client, IORING_OP_READV, ends[0], &iov, 2, -1, 5)->flags =
		IOSQE_BUFFER_SELECT;
	submit(&client, 1);
	assert_got(&client, 5, -EINVAL);
	put_rw(&client, IORING_OP_WRITE, ends[1], &byte, 1, -1, 6)->flags =
		IOSQE_BUFFER_SELECT;
	submit(&client, 1);
	assert_got(&client, 6, -EOPNOTSUPP);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void polls_tell_once_or_each_time(void **state)
{
	struct io_uring_cqe cqe;
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put(&client, IORING_OP_POLL_ADD, ends[0], 1)->poll32_events = POLLIN;
	submit(&client, 0);
	assert_none(&client);
	assert_int_equal(write(ends[1], "a", 1), 1);
	assert_got(&client, 1, POLLIN);
	assert_int_equal(read(ends[0], &byte, 1), 1);

	struct io_uring_sqe *sqe = put(&client, IORING_OP_POLL_ADD, ends[0], 2);

	sqe->poll32_events = POLLIN;
	sqe->len = IORING_POLL_ADD_MULTI;
	submit(&client, 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(write(ends[1], "a", 1), 1);
		cqe = get(&client);
		assert_cqe(&cqe, 2, POLLIN, IORING_CQE_F_MORE);
		assert_int_equal(read(ends[0], &byte, 1), 1);
	}
	put(&client, IORING_OP_POLL_REMOVE, -1, 3)->addr = 2;
	submit(&client, 2);
	assert_got_both(&client, 2, -ECANCELED, 3, 0);
	put(&client, IORING_OP_POLL_REMOVE, -1, 3)->addr = 2;
	submit(&client, 1);
	assert_got(&client, 3, -ENOENT);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void a_poll_is_changed_without_a_word(void **state)
{
	struct io_uring_sqe *sqe;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put(&client, IORING_OP_POLL_ADD, ends[1], 1)->poll32_events = POLLPRI;
	submit(&client, 0);
	assert_none(&client);
	sqe = put(&client, IORING_OP_POLL_REMOVE, -1, 2);
	sqe->addr = 1;
	sqe->off = 11;
	sqe->len = IORING_POLL_UPDATE_USER_DATA | IORING_POLL_UPDATE_EVENTS;
	sqe->poll32_events = POLLOUT;
	submit(&client, 2);
	assert_got_both(&client, 2, 0, 11, POLLOUT);
	put(&client, IORING_OP_POLL_REMOVE, -1, 3)->len =
		IORING_POLL_UPDATE_EVENTS;
	submit(&client, 1);
	assert_got(&client, 3, -ENOENT);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void linked_requests_run_in_order_or_not_at_all(void **state)
{
	int fd = unit_file(false), ends[2];
	char in = 'x', out = 0;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	/* A write and a read are linked to a read that waits. */
	put_rw(&client, IORING_OP_READ, ends[0], &in, 1, -1, 1)->flags =
		IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_WRITE, fd, &in, 1, 0, 2)->flags =
		IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_READ, fd, &out, 1, 0, 3);
	submit(&client, 0);
	assert_none(&client);
	assert_int_equal(write(ends[1], "q", 1), 1);
	assert_got(&client, 1, 1);
	assert_got(&client, 2, 1);
	assert_got(&client, 3, 1);
	assert_int_equal(out, 'q');
	/*
	 * A short read breaks a chain of IOSQE_IO_LINK, but not one of
	 * IOSQE_IO_HARDLINK.
	 */
	put_rw(&client, IORING_OP_READ, fd, &in, 1, 100, 1)->flags =
		IOSQE_IO_LINK;
	put(&client, IORING_OP_NOP, -1, 2);
	submit(&client, 2);
	assert_got(&client, 1, 0);
	assert_got(&client, 2, -ECANCELED);
	put_rw(&client, IORING_OP_READ, fd, &in, 1, 100, 1)->flags =
		IOSQE_IO_HARDLINK;
	put(&client, IORING_OP_NOP, -1, 2);
	submit(&client, 2);
	assert_got(&client, 1, 0);
	assert_got(&client, 2, 0);
	/* An invalid request cancels the whole chain. */
	put(&client, IORING_OP_NOP, -1, 1)->flags = IOSQE_IO_LINK;
	put(&client, 200, -1, 2)->flags = IOSQE_IO_LINK;
	put(&client, IORING_OP_NOP, -1, 3);
	submit(&client, 3);
	assert_got(&client, 1, -ECANCELED);
	assert_got(&client, 2, -EINVAL);
	assert_got(&client, 3, -ECANCELED);
	unit_close(ends[0]);
	unit_close(ends[1]);
	unit_close(fd);
}

static void a_drain_waits_for_all_before_it(void **state)
{
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 1);
	put(&client, IORING_OP_NOP, -1, 2)->flags = IOSQE_IO_DRAIN;
	put(&client, IORING_OP_NOP, -1, 3);
	submit(&client, 0);
	assert_none(&client);
	assert_int_equal(write(ends[1], "q", 1), 1);
	assert_got(&client, 1, 1);
	assert_got(&client, 2, 0);
	assert_got(&client, 3, 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void successes_may_be_skipped(void **state)
{
	int fd = unit_numbered_file(true, 1);
	char block[2 * SIZE];

	(void)state;
	put(&client, IORING_OP_NOP, -1, 1)->flags = IOSQE_CQE_SKIP_SUCCESS;
	put_rw(&client, IORING_OP_READ, fd, block, SIZE, 0, 2)->flags =
		IOSQE_CQE_SKIP_SUCCESS;
	put_rw(&client, IORING_OP_READ, fd, block, 2 * SIZE, 0, 3)->flags =
		IOSQE_CQE_SKIP_SUCCESS;
	put_rw(&client, IORING_OP_READ, 12345, block, 1, 0, 4)->flags =
		IOSQE_CQE_SKIP_SUCCESS;
	submit(&client, 2);
	assert_got_both(&client, 3, SIZE, 4, -EBADF);
	assert_none(&client);
	/*
	 * Drains count completions, so they are refused once CQE_SKIP_SUCCESS was used.
	 */
	put(&client, IORING_OP_NOP, -1, 1)->flags = IOSQE_IO_DRAIN;
	submit(&client, 1);
	assert_got(&client, 1, -EOPNOTSUPP);
	unit_close(fd);
}

/* Put a chain: a failing request, two no-ops and a timeout. */
static void put_broken_chain(uint8_t first_flags, uint8_t flags)
{
	static const struct __kernel_timespec ts = { .tv_sec = 600 };

	put_rw(&client, IORING_OP_READ, 12345, NULL, 1, 0, 1)->flags =
		first_flags | IOSQE_IO_LINK;
	put(&client, IORING_OP_NOP, -1, 2)->flags = flags | IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_LINK_TIMEOUT, -1, &ts, 1, 0, 3)->flags =
		flags | IOSQE_IO_LINK;
	put(&client, IORING_OP_NOP, -1, 4);
}

static void what_breaks_a_chain_says_whether_the_rest_is_told(void **state)
{
	(void)state;
	put_broken_chain(IOSQE_CQE_SKIP_SUCCESS, 0);
	submit(&client, 1);
	assert_got(&client, 1, -EBADF);
	assert_none(&client);
	put_broken_chain(0, IOSQE_CQE_SKIP_SUCCESS);
	submit(&client, 4);
	assert_got(&client, 1, -EBADF);
	assert_got(&client, 2, -ECANCELED);
	assert_got(&client, 3, -ECANCELED);
	assert_got(&client, 4, -ECANCELED);
	assert_none(&client);
}

static void asynchronous_requests_are_executed_elsewhere(void **state)
{
	int fd = unit_numbered_file(true, 1);
	char block[SIZE];

	(void)state;
	put(&client, IORING_OP_NOP, -1, 1)->flags = IOSQE_ASYNC;
	put_rw(&client, IORING_OP_READ, fd, block, SIZE, 0, 2)->flags =
		IOSQE_ASYNC;
	submit(&client, 2);
	assert_got_both(&client, 1, 0, 2, SIZE);
	unit_close(fd);
}

/*
 * An IOSQE_ASYNC read with an offset waits without a worker, because a worker's read
 * could not be interrupted.
 */
static void a_socket_has_no_offset_though_it_is_not_tried(void **state)
{
	char block[SIZE];
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	put_rw(&client, IORING_OP_READ, fds[0], block, SIZE, 1, 1)->flags =
		IOSQE_ASYNC;
	submit(&client, 1);
	assert_got(&client, 1, -ESPIPE);
	unit_close(fds[0]);
	unit_close(fds[1]);
}

static void files_are_opened(void **state)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe cqe;

	(void)state;
	sqe = put_rw(&client, IORING_OP_OPENAT, AT_FDCWD, "/dev/null", 0, 0, 1);
	sqe->open_flags = O_RDONLY | O_CLOEXEC;
	submit(&client, 1);
	cqe = get(&client);
	assert_true(cqe.res >= 0);
	unit_close(cqe.res);
	put_rw(&client, IORING_OP_OPENAT, AT_FDCWD, "/nowhere/at/all", 0, 0, 2);
	submit(&client, 1);
	assert_got(&client, 2, -ENOENT);
	put_rw(&client, IORING_OP_OPENAT, AT_FDCWD, NULL, 0, 0, 3);
	submit(&client, 1);
	assert_got(&client, 3, -EFAULT);
}

static void results_are_injected(void **state)
{
	struct io_uring_sqe *sqe;

	(void)state;
	for (int res = -3; res < 4; res++) {
		sqe = put(&client, IORING_OP_NOP, -1, 1);
		sqe->rw_flags = IORING_NOP_INJECT_RESULT;
		sqe->len = (uint32_t)res;
		submit(&client, 1);
		assert_got(&client, 1, res);
	}
}

static void a_read_need_not_wait_for_a_write_before_it(void **state)
{
	int fd = unit_numbered_file(false, 4);
	char in[SIZE], out[SIZE];

	(void)state;
	memset(in, 'n', sizeof(in));
	unit_gate_close(fd);
	put_rw(&client, IORING_OP_WRITE, fd, in, SIZE, 0, 1)->flags =
		IOSQE_ASYNC;
	submit(&client, 0);
	unit_gate_await_key(0);
	put(&client, IORING_OP_FSYNC, fd, 2)->flags = IOSQE_ASYNC;
	submit(&client, 0);
	unit_gate_await_key(UNIT_KEY_SYNC);
	put_rw(&client, IORING_OP_READ, fd, out, SIZE, SIZE, 3)->flags =
		IOSQE_ASYNC;
	submit(&client, 0);
	/* The write, the fsync and the read are executed at the same time. */
	unit_gate_await_key(1);
	unit_gate_open();
	for (int i = 0; i < 3; i++)
		assert_true(get(&client).res >= 0);
	assert_int_equal(out[0], 1);
	unit_close(fd);
}

/* Refuse RWF_NOWAIT, as ext4 does for buffered writes. */
static bool refuse_nowait(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_fstatfs)
		*ret_res = unit_say_ext4(args);
	else if (nr == SYS_pwritev2 && args[5] & RWF_NOWAIT)
		*ret_res = -EOPNOTSUPP;
	else
		return false;
	return true;
}

static void a_write_that_may_not_wait_is_to_be_made_again(void **state)
{
	static const char byte = 'x';
	int fd;

	(void)state;
	unit_hook(refuse_nowait);
	fd = unit_file(false);
	put_rw(&client, IORING_OP_WRITE, fd, &byte, 1, 0, 1)->rw_flags =
		RWF_NOWAIT;
	submit(&client, 1);
	assert_got(&client, 1, -EAGAIN);
	put_rw(&client, IORING_OP_WRITE, fd, &byte, 1, 0, 1);
	submit(&client, 1);
	assert_got(&client, 1, 1);
	unit_hook(NULL);
	unit_close(fd);
}

/* Check that bytes written to one end of a registered pipe arrive at the other end. */
static void pass_a_byte(int from, int to)
{
	char byte = 'a', got = 0;

	put_rw(&client, IORING_OP_WRITE, to, &byte, 1, 0, 1)->flags =
		IOSQE_FIXED_FILE;
	submit(&client, 1);
	assert_got(&client, 1, 1);
	put_rw(&client, IORING_OP_READ, from, &got, 1, 0, 2)->flags =
		IOSQE_FIXED_FILE;
	submit(&client, 1);
	assert_got(&client, 2, 1);
	assert_int_equal(got, byte);
}

static void pipes_have_numbers_or_places(void **state)
{
	int none[3] = { -1, -1, -1 }, ends[2] = { -1, -1 };
	char byte = 'a';

	(void)state;
	put_rw(&client, IORING_OP_PIPE, 0, ends, 0, 0, 1)->rw_flags =
		O_CLOEXEC | O_NONBLOCK;
	submit(&client, 1);
	assert_got(&client, 1, 0);
	assert_int_equal(write(ends[1], &byte, 1), 1);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(read(ends[0], &byte, 1), -1);
	unit_close(ends[0]);
	unit_close(ends[1]);
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_FILES, none, 3),
			 0);
	put_rw(&client, IORING_OP_PIPE, 0, ends, 0, 0, 1)->file_index = 2;
	submit(&client, 1);
	assert_got(&client, 1, 0);
	assert_int_equal(ends[0], 1);
	assert_int_equal(ends[1], 2);
	pass_a_byte(1, 2);
	/* The second end of the pipe finds no free slot, so the first end is closed, too. */
	put_rw(&client, IORING_OP_PIPE, 0, ends, 0, 0, 1)->file_index = 3;
	submit(&client, 1);
	assert_got(&client, 1, -EINVAL);
	put_rw(&client, IORING_OP_READ, 2, &byte, 1, 0, 1)->flags =
		IOSQE_FIXED_FILE;
	submit(&client, 1);
	assert_got(&client, 1, -EBADF);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(files_are_read_written_and_synced),
		RING_TEST(minus_one_is_the_files_own_position),
		RING_TEST(mistakes_have_the_kernels_answers),
		RING_TEST(what_waits_completes_when_it_can),
		RING_TEST(what_no_ring_can_do_is_refused_behind_the_file),
		RING_TEST(polls_tell_once_or_each_time),
		RING_TEST(a_poll_is_changed_without_a_word),
		RING_TEST(linked_requests_run_in_order_or_not_at_all),
		RING_TEST(a_drain_waits_for_all_before_it),
		RING_TEST(successes_may_be_skipped),
		RING_TEST(what_breaks_a_chain_says_whether_the_rest_is_told),
		RING_TEST(asynchronous_requests_are_executed_elsewhere),
		RING_TEST(a_socket_has_no_offset_though_it_is_not_tried),
		RING_TEST(files_are_opened),
		RING_TEST(results_are_injected),
		RING_TEST(a_read_need_not_wait_for_a_write_before_it),
		RING_TEST(a_write_that_may_not_wait_is_to_be_made_again),
		RING_TEST(pipes_have_numbers_or_places),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
