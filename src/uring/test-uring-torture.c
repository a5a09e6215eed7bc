/* SPDX-License-Identifier: MIT */
/*
 * Random operations of all kinds, linked, drained and cancelled at random
 *
 * Each submission gets one last completion, with its own user_data, whatever happens. A
 * failing test prints its seed.
 */
#undef NDEBUG
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "test-uring.h"

enum { NR_IDS = 1 << 16, IN_FLIGHT_MAX = 64 };

static struct uring client;
static int ends[2], file;
static char bytes[64];
static uint64_t seed;
static uint8_t
	state_of[NR_IDS]; /* indexed by user_data; 1: submitted; 2: completed */
static uint32_t next_id, nr_pending;

static const struct __kernel_timespec soon = { .tv_nsec = 50000 };
static const struct __kernel_timespec late = { .tv_sec = 1000 };

static uint32_t any(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

static uint64_t some_id(void)
{
	uint32_t back = any(IN_FLIGHT_MAX) + 1;

	return back < next_id ? next_id - back : 0;
}

static void put_file_op(void)
{
	static const uint8_t ops[] = { IORING_OP_READ, IORING_OP_WRITE,
				       IORING_OP_READ_FIXED,
				       IORING_OP_WRITE_FIXED };
	uint8_t op = ops[any(NR_ELEMENTS(ops))];
	bool is_fixed = any(2);
	bool is_write = op == IORING_OP_WRITE || op == IORING_OP_WRITE_FIXED;
	uint32_t which =
		any(2); /* 0: use the file; 1: use an end of the pipe */
	int fd = which ? ends[is_write] : file;

	if (is_fixed)
		fd = which ? 1 + is_write : 0;
	put_rw(&client, op, fd, bytes + any(32), any(32),
	       which ? -1 : (int64_t)any(100), next_id)
		->flags = is_fixed ? IOSQE_FIXED_FILE : 0;
}

static void put_timeout(uint8_t op)
{
	struct io_uring_sqe *sqe =
		put_rw(&client, op, -1, any(4) ? &soon : &late, 1, 0, next_id);

	if (op == IORING_OP_TIMEOUT && any(2))
		sqe->off = any(4);
	if (op == IORING_OP_TIMEOUT && any(4) == 0)
		sqe->timeout_flags = IORING_TIMEOUT_MULTISHOT;
	if (any(4) == 0)
		sqe->timeout_flags |= IORING_TIMEOUT_ETIME_SUCCESS;
}

static void put_on_other(void)
{
	static const uint8_t ops[] = { IORING_OP_ASYNC_CANCEL,
				       IORING_OP_POLL_REMOVE,
				       IORING_OP_TIMEOUT_REMOVE };
	uint8_t op = ops[any(NR_ELEMENTS(ops))];
	struct io_uring_sqe *sqe = put(&client, op, ends[0], next_id);

	sqe->addr = some_id();
	if (op == IORING_OP_ASYNC_CANCEL && any(8) == 0)
		sqe->cancel_flags = IORING_ASYNC_CANCEL_FD;
	if (op == IORING_OP_POLL_REMOVE && any(2)) {
		sqe->len = IORING_POLL_UPDATE_EVENTS;
		sqe->poll32_events = any(2) ? POLLIN : POLLPRI;
	}
	if (op == IORING_OP_TIMEOUT_REMOVE && any(2)) {
		sqe->timeout_flags = IORING_TIMEOUT_UPDATE |
				     (any(2) ? IORING_LINK_TIMEOUT_UPDATE : 0);
		sqe->addr2 = (uintptr_t)(any(2) ? &soon : &late);
	}
}

static void put_any(bool is_last)
{
	static const uint8_t flags[] = { IOSQE_IO_LINK, IOSQE_IO_LINK,
					 IOSQE_IO_HARDLINK, IOSQE_ASYNC,
					 IOSQE_IO_DRAIN };
	uint32_t place = client.prepared & (client.params.sq_entries - 1);
	struct io_uring_sqe *sqe = &client.sqes[place];

	switch (any(8)) {
	case 0: put(&client, IORING_OP_NOP, -1, next_id); break;
	case 1: put(&client, IORING_OP_FSYNC, file, next_id); break;
	case 2:
		put(&client, IORING_OP_POLL_ADD, ends[any(2)], next_id)
			->poll32_events = any(2) ? POLLIN : POLLPRI;
		sqe->len = any(3) ? 0 : IORING_POLL_ADD_MULTI;
		break;
	case 3: put_timeout(IORING_OP_TIMEOUT); break;
	case 4: put_timeout(IORING_OP_LINK_TIMEOUT); break;
	case 5: put_on_other(); break;
	default: put_file_op();
	}
	if (any(3) == 0)
		sqe->flags |= flags[any(NR_ELEMENTS(flags))];
	if (any(200) == 0)
		sqe->opcode = 250;
	/*
	 * Mostly clear the link flags of the last submission of a call. If they stay
	 * set, the end of the call ends the chain.
	 */
	if (is_last && any(8))
		sqe->flags &= (uint8_t) ~(IOSQE_IO_LINK | IOSQE_IO_HARDLINK);
	state_of[next_id++] = 1;
	nr_pending++;
}

static void take_all(void)
{
	while (unread(&client)) {
		struct io_uring_cqe cqe = get(&client);

		assert_true(cqe.user_data < next_id);
		assert_int_equal(state_of[cqe.user_data], 1);
		if (cqe.flags & IORING_CQE_F_MORE)
			continue;
		state_of[cqe.user_data] = 2;
		nr_pending--;
	}
}

/* Cancel by a system call, because a drain might hold a cancelling submission. */
static void cancel_all(void)
{
	struct io_uring_sync_cancel_reg what = {
		.flags = IORING_ASYNC_CANCEL_ANY,
		.timeout = { -1, -1 },
	};

	(void)uaio_uring_register((uint32_t)client.fd,
				  IORING_REGISTER_SYNC_CANCEL, &what, 1);
}

/* Make the pipe readable or empty; requests may be reading and writing it. */
static void stir(void)
{
	char block[256];

	if (any(2))
		(void)!write(ends[1], block, any(64));
	else
		(void)!read(ends[0], block, sizeof(block));
}

static void drain_all(void)
{
	for (unsigned i = 0; nr_pending; i++) {
		char block[4096];

		/*
		 * Repeat: when a request is cancelled, requests that waited for it may
		 * start. Then these must be cancelled, too.
		 */
		if (i % 16 == 0)
			cancel_all();
		(void)!read(ends[0], block, sizeof(block));
		(void)uaio_uring_enter((uint32_t)client.fd, 0, 0,
				       IORING_ENTER_GETEVENTS, NULL, 0);
		take_all();
		if (nr_pending)
			usleep(100);
	}
}

static void run(void)
{
	unsigned rounds = unit_rounds(3000);

	for (unsigned i = 0; i < rounds && next_id < NR_IDS - 8000; i++) {
		uint32_t nr = 1 + any(6);

		if (nr_pending + nr > IN_FLIGHT_MAX) {
			drain_all();
			unit_restart_alarm();
		}
		for (uint32_t j = 0; j < nr; j++)
			put_any(j == nr - 1);
		submit(&client, 0);
		if (any(4) == 0)
			stir();
		take_all();
	}
	drain_all();
	for (uint32_t i = 0; i < next_id; i++)
		assert_int_equal(state_of[i], 2);
}

static void every_submission_has_one_last_completion(void **state)
{
	struct iovec iov = { bytes, sizeof(bytes) };
	int fds[3];

	(void)state;
	seed = (uint64_t)uaio_now_ns();
	print_message("seed %llu\n", (unsigned long long)seed);
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	file = unit_numbered_file(false, 2);
	client_open(
		&client, 64,
		(struct io_uring_params){ .flags = IORING_SETUP_SUBMIT_ALL });
	fds[0] = file;
	fds[1] = ends[0];
	fds[2] = ends[1];
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_FILES, fds, 3),
			 0);
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_BUFFERS, &iov, 1),
			 0);
	run();
	client_close(&client);
	unit_close(ends[0]);
	unit_close(ends[1]);
	unit_close(file);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(every_submission_has_one_last_completion),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
