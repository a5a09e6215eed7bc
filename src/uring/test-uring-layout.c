/* SPDX-License-Identifier: MIT */
/*
 * Rings whose entries have double size (SQE128, CQE32), and rings in the client's
 * memory.
 */
#undef NDEBUG
#include <fcntl.h>
#include <sys/syscall.h>

#include "base/uaddr.h"
#include "uring/memmap.h"
#include "test-uring-held.h"

static const uint32_t sizes[] = {
	0,
	IORING_SETUP_SQE128,
	IORING_SETUP_CQE32,
	IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
};

#define NR_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Write and read more blocks of a file than the ring has entries. */
static void work(struct uring *client)
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
	struct uring client;

	(void)state;
	for (unsigned i = 0; i < NR_SIZES; i++) {
		client_open(&client, 4,
			    (struct io_uring_params){ .flags = sizes[i] });
		work(&client);
		client_close(&client);
	}
}

/* Return: the second half of the oldest unconsumed completion. Does not consume it. */
static const uint64_t *behind(const struct uring *client)
{
	uint32_t head = load_relaxed(client->cq_head);

	return (const uint64_t *)&client
		->cqes[(head & (client->params.cq_entries - 1)) * 2 + 1];
}

static void completions_have_something_behind_them(void **state)
{
	struct uring client;

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
	/*
	 * The ring has few slots, so most completions have come through the overflow
	 * list.
	 */
	for (uint64_t i = 1; i < 20; i++) {
		while (!unread(&client))
			assert_int_equal(enter(&client, 0, 1), 0);
		assert_int_equal(behind(&client)[0], i % 2 ? i + 100 : 0);
		assert_int_equal(behind(&client)[1], i % 2 ? i + 200 : 0);
		assert_got(&client, i, 0);
	}
	client_close(&client);
}

/* The client's memory */

#define PAGE uaio_page_bytes()
#define GIVEN_BYTES (4 * PAGE)

static void *given(int flags)
{
	void *at = mmap(NULL, GIVEN_BYTES, PROT_READ | PROT_WRITE,
			flags | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	memset(at, 0xff, GIVEN_BYTES);
	return at;
}

/* Make a ring in this memory: first the submission entries, then the rings. */
static long try_in(struct uring *client, char *memory, uint32_t cq_entries,
		   uint32_t flags)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_NO_MMAP | flags,
		.cq_entries = cq_entries,
	};
	long fd;

	*uaio_uring_sqes_addr(&params) = (uintptr_t)memory;
	*uaio_uring_rings_addr(&params) = (uintptr_t)memory + PAGE;
	fd = uaio_uring_setup(4, &params);
	if (fd >= 0)
		uring_at(client, (int)fd, &params, memory + PAGE, memory);
	return fd;
}

static void open_in(struct uring *client, char *memory, uint32_t flags)
{
	assert_true(try_in(client, memory, 0, flags) >= 0);
}

static void a_ring_in_memory_of_the_clients(void **state)
{
	static const int kinds[] = { MAP_SHARED, MAP_PRIVATE };
	struct uring client;

	(void)state;
	for (unsigned i = 0; i < 2 * NR_SIZES; i++) {
		void *memory = given(kinds[i % 2]);

		open_in(&client, memory, sizes[i / 2]);
		work(&client);
		unit_close(client.fd);
		assert_int_equal(munmap(memory, GIVEN_BYTES), 0);
	}
}

static void shared_memory_may_be_unmapped(void **state)
{
	char *memory = given(MAP_SHARED), *other;
	int ends[2];
	struct uring client;
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	other = mremap(memory, 0, GIVEN_BYTES, MREMAP_MAYMOVE);
	assert_ptr_not_equal(other, MAP_FAILED);
	open_in(&client, memory, 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 1);
	submit(&client, 0);
	assert_int_equal(munmap(memory, GIVEN_BYTES), 0);
	assert_int_equal(write(ends[1], "a", 1), 1);
	uring_at(&client, client.fd, &client.params, other + PAGE, other);
	assert_got(&client, 1, 1);
	work(&client);
	unit_close(client.fd);
	assert_int_equal(munmap(other, GIVEN_BYTES), 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * The client gives the library memory that consists of two mappings. mremap() can
 * duplicate only the first, so the library must use the client's own mappings.
 */
static void memory_of_two_mappings(void **state)
{
	const uint32_t nr = (uint32_t)(PAGE / sizeof(struct io_uring_cqe));
	char *memory = given(MAP_SHARED);
	struct uring client;

	(void)state;
	assert_ptr_equal(mmap(memory + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 memory + 2 * PAGE);
	assert_true(try_in(&client, memory, nr, IORING_SETUP_CQSIZE) >= 0);
	for (uint64_t i = 0; i < 2 * nr + 88; i++) {
		put(&client, IORING_OP_NOP, -1, i);
		submit(&client, 1);
		assert_got(&client, i, 0);
	}
	unit_close(client.fd);
	assert_int_equal(munmap(memory, GIVEN_BYTES), 0);
}

/*
 * Close a ring in the client's memory while a worker executes its request. The
 * completion must not be written to that memory.
 */
static void close_with_a_request(void *memory)
{
	struct uring client;
	int from[2], to[2];

	assert_int_equal(pipe2(from, O_CLOEXEC) | pipe2(to, O_CLOEXEC), 0);
	store_relaxed(&is_in_tee, 0);
	store_relaxed(&may_go, 0);
	unit_hook(hold_tee);
	open_in(&client, memory, 0);
	put(&client, IORING_OP_TEE, to[1], 1)->splice_fd_in = from[0];
	client.sqes[0].len = 1;
	/*
	 * IOSQE_ASYNC: a worker makes the system call, and hold_tee() blocks the
	 * worker.
	 */
	client.sqes[0].flags = IOSQE_ASYNC;
	assert_int_equal(write(from[1], "a", 1), 1);
	submit(&client, 0);
	unit_await(is_true, &is_in_tee);
	unit_close(client.fd);
	memset(memory, 0x55, GIVEN_BYTES);
	store_relaxed(&may_go, 1);
	unit_await(is_freed, NULL);
	unit_hook(NULL);
	for (unsigned i = 0; i < 2; i++) {
		unit_close(from[i]);
		unit_close(to[i]);
	}
	for (unsigned i = 0; i < GIVEN_BYTES; i++)
		assert_int_equal(((const char *)memory)[i], 0x55);
}

static void a_ring_that_is_closed_leaves_the_memory_alone(void **state)
{
	static const int kinds[] = { MAP_SHARED, MAP_PRIVATE };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		void *memory = given(kinds[i]);

		close_with_a_request(memory);
		assert_int_equal(munmap(memory, GIVEN_BYTES), 0);
	}
}

static void what_is_no_memory_is_refused(void **state)
{
	char *memory = given(MAP_SHARED);
	struct uring client;

	(void)state;
	assert_int_equal(try_in(&client, memory + 64, 0, 0), -EINVAL);
	assert_int_equal(try_in(&client, (char *)(-2 * PAGE), 0, 0), -EFAULT);
	assert_int_equal(munmap(memory + PAGE, PAGE), 0);
	assert_int_equal(try_in(&client, memory, 0, 0), -EFAULT);
	assert_int_equal(munmap(memory, GIVEN_BYTES), 0);
	client.params = (struct io_uring_params){
		.flags = IORING_SETUP_REGISTERED_FD_ONLY
	};
	assert_int_equal(uaio_uring_setup(4, &client.params), -EINVAL);
}

static void a_ring_without_a_descriptor(void **state)
{
	const uint32_t flags =
		IORING_ENTER_REGISTERED_RING | IORING_ENTER_GETEVENTS;
	char *memory = given(MAP_SHARED);
	struct io_uring_rsrc_update update = { .offset = 0 };
	struct uring client;

	(void)state;
	assert_int_equal(
		try_in(&client, memory, 0, IORING_SETUP_REGISTERED_FD_ONLY), 0);
	put(&client, IORING_OP_NOP, -1, 1);
	assert_int_equal(tell(&client), 1);
	assert_int_equal(uaio_uring_enter(0, 1, 1, flags, NULL, 0), 1);
	assert_int_equal(unread(&client), 1);
	/* The ring has no descriptor: it ends when it leaves its registered slot. */
	assert_int_equal(
		uaio_uring_register(0,
				    IORING_UNREGISTER_RING_FDS |
					    IORING_REGISTER_USE_REGISTERED_RING,
				    &update, 1),
		1);
	assert_int_equal(uaio_uring_enter(0, 1, 1, flags, NULL, 0), -EBADF);
	assert_int_equal(munmap(memory, GIVEN_BYTES), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(entries_of_each_size),
		UNIT_TEST(completions_have_something_behind_them),
		UNIT_TEST(a_ring_in_memory_of_the_clients),
		UNIT_TEST(shared_memory_may_be_unmapped),
		UNIT_TEST(memory_of_two_mappings),
		UNIT_TEST(a_ring_that_is_closed_leaves_the_memory_alone),
		UNIT_TEST(what_is_no_memory_is_refused),
		UNIT_TEST(a_ring_without_a_descriptor),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
