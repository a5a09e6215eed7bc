/* SPDX-License-Identifier: MIT */
/*
 * Registered buffers: clones of another ring's buffers, and vectored requests on
 * buffers.
 */
#undef NDEBUG
#include <sys/uio.h>

#define RING_ENTRIES 16
#include "test-uring.h"

static int32_t rw_fixed(uint8_t opcode, int fd, const void *at, uint32_t len,
			uint16_t place)
{
	put_rw(&client, opcode, fd, at, len, 0, 1)->buf_index = place;
	return made(&client);
}

struct clone {
	uint32_t src_fd, flags, src_off, dst_off, nr, pad[3];
};

static long cloned(const struct uring *to, struct clone what)
{
	return uaio_uring_register((uint32_t)to->fd,
				   IORING_REGISTER_CLONE_BUFFERS, &what, 1);
}

static void buffers_of_another_ring_are_registered(void **state)
{
	int fd = unit_numbered_file(true, 2);
	char block[2 * SIZE];
	struct iovec iovs[2] = { { block, SIZE }, { block + SIZE, SIZE } };
	struct uring other;
	struct clone what = { .src_fd = (uint32_t)client.fd };

	(void)state;
	client_open(&other, 4, (struct io_uring_params){ 0 });
	assert_int_equal(cloned(&other, what), -ENXIO);
	assert_int_equal(reg(IORING_REGISTER_BUFFERS, iovs, 2), 0);
	assert_int_equal(cloned(&other, what), 0);
	assert_int_equal(cloned(&other, what), -EBUSY);
	assert_int_equal(reg(IORING_UNREGISTER_BUFFERS, NULL, 0), 0);
	/* Clone the buffer back, to another slot. */
	what.src_fd = (uint32_t)other.fd;
	what.src_off = what.nr = 1;
	what.dst_off = 5;
	assert_int_equal(cloned(&client, what), 0);
	assert_int_equal(
		rw_fixed(IORING_OP_READ_FIXED, fd, block + SIZE, SIZE, 5),
		SIZE);
	assert_int_equal(rw_fixed(IORING_OP_READ_FIXED, fd, block, SIZE, 5),
			 -EFAULT);
	what.flags = IORING_REGISTER_DST_REPLACE;
	what.src_off = 0;
	what.dst_off = 9;
	assert_int_equal(cloned(&client, what), 0);
	assert_int_equal(rw_fixed(IORING_OP_READ_FIXED, fd, block, SIZE, 9),
			 SIZE);
	assert_int_equal(
		rw_fixed(IORING_OP_READ_FIXED, fd, block + SIZE, SIZE, 5),
		SIZE);
	client_close(&other);
	assert_int_equal(cloned(&client, what), -EBADF);
	unit_close(fd);
}

/* Two rings clone each other's buffers while the buffers change. */
static struct uring pair[2];
static char piece[SIZE];

static long clone_all_the_time(void *arg)
{
	struct uring *own = arg, *other = &pair[own == pair];
	struct iovec iov = { piece, sizeof(piece) };
	struct clone what = { .src_fd = (uint32_t)other->fd,
			      .flags = IORING_REGISTER_DST_REPLACE };

	for (unsigned i = unit_rounds(5000); i; i--) {
		long ret = cloned(own, what);

		assert_true(ret == 0 || ret == -ENXIO);
		if (i % 5 == 0)
			(void)uaio_uring_register((uint32_t)own->fd,
						  IORING_UNREGISTER_BUFFERS,
						  NULL, 0);
		ret = uaio_uring_register((uint32_t)own->fd,
					  IORING_REGISTER_BUFFERS, &iov, 1);
		assert_true(ret == 0 || ret == -EBUSY);
		put_rw(own, IORING_OP_READ_FIXED, -1, piece, SIZE, 0, 1);
		submit(own, 1);
		assert_got(own, 1, -EBADF);
	}
	return 0;
}

static void rings_get_each_others_buffers(void **state)
{
	struct unit_thread threads[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		client_open(&pair[i], 4, (struct io_uring_params){ 0 });
	for (unsigned i = 0; i < 2; i++)
		unit_thread_start(&threads[i], clone_all_the_time, &pair[i]);
	for (unsigned i = 0; i < 2; i++)
		(void)unit_thread_join(&threads[i]);
	for (unsigned i = 0; i < 2; i++)
		client_close(&pair[i]);
}

static int32_t vectors_fixed(uint8_t opcode, int fd, const struct iovec *iovs,
			     uint32_t nr)
{
	put_rw(&client, opcode, fd, iovs, nr, 0, 1);
	return made(&client);
}

static void vectors_are_within_their_buffer(void **state)
{
	int fd = unit_numbered_file(true, 2);
	char block[2 * SIZE];
	struct iovec all = { block, sizeof(block) };
	struct iovec iovs[2] = { { block + SIZE, SIZE }, { block, SIZE } };

	(void)state;
	assert_int_equal(vectors_fixed(IORING_OP_READV_FIXED, fd, iovs, 2),
			 -EFAULT);
	assert_int_equal(reg(IORING_REGISTER_BUFFERS, &all, 1), 0);
	memset(block, 'w', sizeof(block));
	assert_int_equal(vectors_fixed(IORING_OP_READV_FIXED, fd, iovs, 1),
			 SIZE);
	assert_int_equal(block[0], 'w');
	assert_int_equal(block[SIZE], 0);
	assert_int_equal(vectors_fixed(IORING_OP_WRITEV_FIXED, fd, iovs, 2),
			 2 * SIZE);
	iovs[1].iov_len = sizeof(block) + 1;
	assert_int_equal(vectors_fixed(IORING_OP_WRITEV_FIXED, fd, iovs, 2),
			 -EFAULT);
	iovs[1].iov_len = 0;
	assert_int_equal(vectors_fixed(IORING_OP_READV_FIXED, fd, iovs, 2),
			 -EFAULT);
	iovs[1].iov_len = ~0ul;
	assert_int_equal(vectors_fixed(IORING_OP_READV_FIXED, fd, iovs, 2),
			 -EINVAL);
	unit_close(fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(buffers_of_another_ring_are_registered),
		RING_TEST(rings_get_each_others_buffers),
		RING_TEST(vectors_are_within_their_buffer),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
