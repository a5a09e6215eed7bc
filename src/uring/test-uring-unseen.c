/* SPDX-License-Identifier: MIT */
/*
 * A client, for example one with a statically linked liburing, closes a ring by its own
 * system call instruction. The library does not see this call. The next file at that
 * descriptor is not a ring. In this test close() and dup2() are not interposed either.
 */
#undef NDEBUG
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define RING_ENTRIES 8
#include "test-uring.h"
#include "uring/bell.h"
#include "uring/table.h"

enum { NR_BUFS = 8 };

static int ends[2]; /* a pipe; ends[0] was the descriptor of a ring before */
static char buffer[8];

/*
 * Return: the descriptor of a new ring, which the library knows, and which nobody maps.
 */
static int new_ring(void)
{
	struct io_uring_params params = { 0 };
	int fd = (int)uaio_uring_setup(4, &params);

	assert_true(fd >= 0);
	return fd;
}

static void put_pipe_at(int fd)
{
	int reader;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	reader = ends[0];
	assert_int_equal(dup2(reader, fd), fd);
	assert_int_equal(close(reader), 0);
	ends[0] = fd;
}

static void close_pipe(void)
{
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static uint64_t nr_rings(void)
{
	struct uaio_counters counters;

	uaio_counters_read(&counters);
	return counters.nr_contexts;
}

static void a_file_at_its_descriptor_is_registered(void **state)
{
	int32_t fd = new_ring();

	(void)state;
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_FILES, &fd, 1),
			 -EBADF);
	put_pipe_at(fd);
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_FILES, &fd, 1),
			 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	put_rw(&client, IORING_OP_READ, 0, buffer, 1, 0, 1)->flags =
		IOSQE_FIXED_FILE;
	submit(&client, 1);
	assert_got(&client, 1, 1);
	close_pipe();
}

static void a_file_at_its_descriptor_is_polled_itself(void **state)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC), fd = new_ring();
	struct uaio_uring_bell bell;

	(void)state;
	put_pipe_at(fd);
	assert_int_equal(uaio_uring_epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event),
			 1);
	close_pipe();
	fd = new_ring();
	put_pipe_at(fd);
	bell = uaio_uring_bell_get(fd);
	assert_null(bell.ring);
	assert_int_equal(bell.fd, fd);
	close_pipe();
	unit_close(epoll);
}

/* Return: the descriptor of a ring that a request has polled. */
static int polled_ring(void)
{
	int fd = new_ring();

	put(&client, IORING_OP_POLL_ADD, fd, 1)->poll32_events = POLLIN;
	submit(&client, 0);
	put(&client, IORING_OP_POLL_REMOVE, -1, 2)->addr = 1;
	submit(&client, 2);
	assert_got_both(&client, 1, -ECANCELED, 2, 0);
	return fd;
}

static void what_was_looked_up_as_a_ring_is_looked_up_again(void **state)
{
	(void)state;
	put_pipe_at(polled_ring());
	put(&client, IORING_OP_POLL_ADD, ends[0], 1)->poll32_events = POLLIN;
	submit(&client, 0);
	assert_none(&client);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_got(&client, 1, POLLIN);
	put_rw(&client, IORING_OP_READ, ends[0], buffer, 8, 0, 2);
	submit(&client, 1);
	assert_got(&client, 2, 1);
	close_pipe();
}

/*
 * A request after a drain starts only when the drain is complete, and then looks up its
 * file again.
 */
static void what_starts_later_is_looked_up_again(void **state)
{
	int fd = polled_ring(), others[2];

	(void)state;
	assert_int_equal(pipe2(others, O_CLOEXEC), 0);
	put_rw(&client, IORING_OP_READ, others[0], buffer, 1, 0, 1);
	put(&client, IORING_OP_NOP, -1, 2)->flags = IOSQE_IO_DRAIN;
	put(&client, IORING_OP_POLL_ADD, fd, 3)->poll32_events = POLLIN;
	submit(&client, 0);
	put_pipe_at(fd);
	assert_int_equal(write(others[1], "x", 1), 1);
	assert_got(&client, 1, 1);
	assert_got(&client, 2, 0);
	assert_none(&client);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_got(&client, 3, POLLIN);
	close_pipe();
	unit_close(others[0]);
	unit_close(others[1]);
}

static void what_has_its_descriptor_is_spliced_and_closed(void **state)
{
	struct io_uring_sqe *sqe;
	int others[2];

	(void)state;
	put_pipe_at(new_ring());
	assert_int_equal(pipe2(others, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], "xy", 2), 2);
	sqe = put(&client, IORING_OP_SPLICE, others[1], 1);
	sqe->splice_fd_in = ends[0];
	sqe->splice_off_in = sqe->off = UINT64_MAX;
	sqe->len = 2;
	submit(&client, 1);
	assert_got(&client, 1, 2);
	put(&client, IORING_OP_CLOSE, ends[0], 2);
	submit(&client, 1);
	assert_got(&client, 2, 0);
	assert_int_equal(fcntl(ends[0], F_GETFD), -1);
	unit_close(ends[1]);
	unit_close(others[0]);
	unit_close(others[1]);
}

static void it_is_no_ring_to_calls_of_io_uring(void **state)
{
	struct io_uring_params params = { .flags = IORING_SETUP_ATTACH_WQ };
	struct io_uring_rsrc_update update = { .offset = UINT32_MAX };
	int fd = new_ring();

	(void)state;
	put_pipe_at(fd);
	assert_int_equal(uaio_uring_register((uint32_t)fd,
					     IORING_UNREGISTER_FILES, NULL, 0),
			 -EOPNOTSUPP);
	update.data = (uint32_t)fd;
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_RING_FDS, &update,
					     1),
			 -EOPNOTSUPP);
	params.wq_fd = (uint32_t)fd;
	assert_int_equal(uaio_uring_setup(4, &params), -EINVAL);
	close_pipe();
}

static void rings_that_are_closed_are_freed(void **state)
{
	enum { NR = 100 };
	uint64_t before = nr_rings();
	int fds[NR];

	(void)state;
	for (unsigned i = 0; i < NR; i++)
		fds[i] = new_ring();
	assert_int_equal(nr_rings(), before + NR);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(close(fds[i]), 0);
	/*
	 * If a new ring gets the descriptor of an old ring, the old ring is freed. The
	 * same call also checks some other slots of the table (the sweep; table.h, I4),
	 * and frees other old rings.
	 */
	for (unsigned i = 0; i < NR / 4; i++)
		fds[i] = new_ring();
	assert_int_equal(nr_rings(), before + NR / 4);
	for (unsigned i = 0; i < NR / 4; i++)
		unit_close(fds[i]);
	assert_int_equal(nr_rings(), before);
}

static void a_ring_that_is_open_survives_the_sweeps(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 32; i++)
		unit_close(new_ring());
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 1);
	assert_got(&client, 1, 0);
}

/*
 * The library must not map memory of another file, which now has the ring's descriptor.
 */
static void what_a_client_maps_is_not_mapped_from_another_file(void **state)
{
	static const char text[] = "the client's";
	struct io_uring_buf_reg reg = {
		.ring_entries = NR_BUFS,
		.bgid = 0,
		.flags = IOU_PBUF_RING_MMAP,
	};
	const off_t at = (off_t)IORING_OFF_PBUF_RING;
	int first = new_ring(), second = dup(first), file = unit_file(true);
	char back[sizeof(text)];

	(void)state;
	assert_int_equal(ftruncate(file, at + 4096), 0);
	assert_int_equal(pwrite(file, text, sizeof(text), at), sizeof(text));
	assert_int_equal(dup2(file, first), first);
	assert_int_equal(uaio_uring_register((uint32_t)second,
					     IORING_REGISTER_PBUF_RING, &reg,
					     1),
			 0);
	assert_int_equal(pread(file, back, sizeof(back), at), sizeof(back));
	assert_string_equal(back, text);
	unit_close(first);
	unit_close(second);
	unit_close(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RING_TEST(a_file_at_its_descriptor_is_registered),
		RING_TEST(a_file_at_its_descriptor_is_polled_itself),
		RING_TEST(what_was_looked_up_as_a_ring_is_looked_up_again),
		RING_TEST(what_starts_later_is_looked_up_again),
		RING_TEST(what_has_its_descriptor_is_spliced_and_closed),
		RING_TEST(it_is_no_ring_to_calls_of_io_uring),
		RING_TEST(rings_that_are_closed_are_freed),
		RING_TEST(a_ring_that_is_open_survives_the_sweeps),
		RING_TEST(what_a_client_maps_is_not_mapped_from_another_file),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
