/* SPDX-License-Identifier: MIT */
/* Rings of which the memory is laid out otherwise, or is the client's. */
#undef NDEBUG
#include <fcntl.h>

#include "test-uring.h"

static const uint32_t sizes[] = {
	0,
	IORING_SETUP_SQE128,
	IORING_SETUP_CQE32,
	IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
};

#define NR_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Write and read blocks of a file, more often than the ring has places. */
static void work(struct client *client)
{
	int fd = unit_file(true);
	char to[SIZE], from[SIZE];

	for (uint64_t i = 1; i < 40; i++) {
		memset(to, (int)i, SIZE);
		put_rw(client, IORING_OP_WRITE, fd, to, SIZE, 0, i)->flags =
			IOSQE_IO_LINK;
		put_rw(client, IORING_OP_READ, fd, from, SIZE, 0, i + 100);
		submit(client, 2);
		assert_got(client, i, SIZE);
		assert_got(client, i + 100, SIZE);
		assert_memory_equal(to, from, SIZE);
	}
	unit_close(fd);
}

static void entries_of_each_size(void **state)
{
	struct client client;

	(void)state;
	for (unsigned i = 0; i < NR_SIZES; i++) {
		client_open(&client, 4,
			    (struct io_uring_params){ .flags = sizes[i] });
		work(&client);
		client_close(&client);
	}
}

/* What is behind the oldest completion; it stays there. */
static const uint64_t *behind(const struct client *client)
{
	uint32_t head =
		load_relaxed(sq_word(client, client->params.cq_off.head));

	return (const uint64_t *)&cqes(
		client)[(head & (client->params.cq_entries - 1)) * 2 + 1];
}

static void completions_have_something_behind_them(void **state)
{
	struct client client;

	(void)state;
	client_open(&client, 2,
		    (struct io_uring_params){ .flags = IORING_SETUP_CQE32 });
	for (uint64_t i = 1; i < 20; i++) {
		struct io_uring_sqe *sqe = put(&client, IORING_OP_NOP, -1, i);

		if (i % 2) {
			sqe->rw_flags = IORING_NOP_CQE32;
			sqe->off = i + 100;
			sqe->addr = i + 200;
		}
		submit(&client, 0);
	}
	/* Most of them have overflowed. */
	for (uint64_t i = 1; i < 20; i++) {
		while (!unread(&client))
			assert_int_equal(enter(&client, 0, 1), 0);
		assert_int_equal(behind(&client)[0], i % 2 ? i + 100 : 0);
		assert_int_equal(behind(&client)[1], i % 2 ? i + 200 : 0);
		assert_got(&client, i, 0);
	}
	client_close(&client);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(entries_of_each_size),
		UNIT_TEST(completions_have_something_behind_them),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
