/* SPDX-License-Identifier: MIT */
/*
 * One request uses what another request of its submission changes; the first of the two
 * has IOSQE_ASYNC. In the kernel, the worker that executes it needs the ring's lock,
 * which the submitting thread holds until its call ends.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sockets.h"
#include "uring-places.h"

/*
 * No-ops between the two requests of a test case. While these execute, a worker has
 * time to begin the first request too early.
 */
enum { BETWEEN = 4000, GROUP = 6 };

/* Opcodes that the headers of Debian 12 lack. */
enum { OP_FIXED_FD_INSTALL = 54, OP_READ_MULTISHOT = 49 };

static char data[100];

static struct uring ring_of_many(void)
{
	struct uring ring = new_uring(BETWEEN + 4, 0);

	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	return ring;
}

static long update_of(const struct uring *ring, uint32_t slot, int32_t fd)
{
	struct io_uring_rsrc_update update = { .offset = slot,
					       .data = (uintptr_t)&fd };

	return uring_register(ring->fd, IORING_REGISTER_FILES_UPDATE, &update,
			      1);
}

static void put_between(struct uring *ring, struct io_uring_sqe *first)
{
	first->flags |= IOSQE_ASYNC;
	for (unsigned i = 0; i < BETWEEN; i++)
		sqe_of(ring, IORING_OP_NOP, -1)->flags = IOSQE_CQE_SKIP_SUCCESS;
}

static struct io_uring_sqe *put_socket(struct uring *ring)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_SOCKET, AF_UNIX);

	sqe->off = SOCK_STREAM;
	sqe->file_index = IORING_FILE_INDEX_ALLOC;
	return sqe;
}

/* Submits the requests. Prints the results of nr requests. */
static void note_results(const char *key, struct uring *ring, uint32_t nr)
{
	uring_submit(ring);
	note_cqes(key, ring, nr);
}

static void takes_slots(void)
{
	for (unsigned i = 0; i < 5; i++) {
		struct uring ring = ring_of_many();
		struct io_uring_sqe *sqe;
		struct sockaddr_in address;
		int32_t fds[1] = { open("/dev/zero", O_RDONLY) };
		int listener = listening(0, &address);

		REQUIRE(call(&address) >= 0);
		if (i == 0)
			sqe = put_socket(&ring);
		else if (i == 1)
			sqe = open_of(&ring, "/dev/null", O_RDONLY, ANY);
		else if (i == 2)
			sqe = sqe_of(&ring, IORING_OP_ACCEPT, listener);
		else if (i == 3)
			sqe = sqe_rw(&ring, IORING_OP_FILES_UPDATE, -1, fds, 1,
				     -1u);
		else
			sqe = open_of(&ring, "new", O_RDWR | O_CREAT, ANY);
		if (i == 2)
			sqe->file_index = IORING_FILE_INDEX_ALLOC;
		put_between(&ring, sqe);
		put_socket(&ring);
		note_results("slot", &ring, 2);
		if (i == 3)
			note("chosen", fds[0]);
	}
}

/* The second request replaces or removes the file of the slot that the first uses. */
static void uses_a_slot(void)
{
	for (unsigned i = 0; i < 10; i++) {
		struct uring ring = ring_of_many();
		int32_t zero = open("/dev/zero", O_RDONLY);
		int32_t fds[1] = { i & 1 ? -1 : open("/dev/null", O_RDONLY) };
		struct io_uring_sqe *sqe;

		REQUIRE(update_of(&ring, 0, zero) == 1);
		if (i / 2 == 0)
			sqe = read_of(&ring, 0);
		else if (i / 2 == 1)
			sqe = close_of(&ring, 0);
		else if (i / 2 == 2)
			sqe = sqe_of(&ring, OP_FIXED_FD_INSTALL, 0);
		else if (i / 2 == 3)
			sqe = sqe_of(&ring, IORING_OP_FSYNC, 0);
		else
			sqe = sqe_poll(&ring, 0, 0);
		if (i / 2 != 1)
			sqe->flags |= IOSQE_FIXED_FILE;
		put_between(&ring, sqe);
		sqe_rw(&ring, IORING_OP_FILES_UPDATE, -1, fds, 1, 0);
		note_results("used", &ring, 2);
		read_at("then", &ring, 0);
	}
}

/* The first request changes the slot that the second uses. */
static void changes_a_slot(void)
{
	for (unsigned i = 0; i < 4; i++) {
		struct uring ring = ring_of_many();
		int32_t zero = open("/dev/zero", O_RDONLY);
		int32_t fds[1] = { i & 1 ? -1 : open("/dev/null", O_RDONLY) };

		REQUIRE(update_of(&ring, 0, zero) == 1);
		put_between(&ring, i & 2 ? close_of(&ring, 0)
					 : sqe_rw(&ring, IORING_OP_FILES_UPDATE,
						  -1, fds, 1, 0));
		read_of(&ring, 0);
		note_results("changed", &ring, 2);
		read_at("then", &ring, 0);
	}
}

/* The second request removes or provides the only buffer of the first's group. */
static void selects_a_buffer(void)
{
	for (unsigned i = 0; i < 12; i++) {
		struct uring ring = ring_of_many();
		const bool removes = i & 1;
		struct io_uring_sqe *sqe;
		int fds[2];

		pair_of(SOCK_STREAM, fds);
		send_bytes(fds[1], "abc", 3);
		uring_provide(&ring, GROUP + !removes, data, 10, 0, 1);
		sqe = sqe_of(&ring,
			     i / 2 == 0   ? IORING_OP_RECV
			     : i / 2 == 1 ? IORING_OP_READ
			     : i / 2 == 2 ? IORING_OP_RECV
			     : i / 2 == 3 ? OP_READ_MULTISHOT
			     : i / 2 == 4 ? IORING_OP_SEND
					  : IORING_OP_RECV,
			     fds[0]);
		sqe->flags = IOSQE_BUFFER_SELECT;
		sqe->buf_group = GROUP;
		if (i / 2 == 2)
			sqe->ioprio = IORING_RECV_MULTISHOT;
		if (i / 2 == 5)
			sqe->ioprio = IORING_RECVSEND_POLL_FIRST;
		put_between(&ring, sqe);
		sqe = sqe_of(&ring,
			     removes ? IORING_OP_REMOVE_BUFFERS
				     : IORING_OP_PROVIDE_BUFFERS,
			     1);
		sqe->buf_group = GROUP;
		if (!removes) {
			sqe->addr = (uintptr_t)data;
			sqe->len = 10;
			sqe->off = 3;
		}
		note_results("selected", &ring, 2);
	}
}

/*
 * The first request is to cancel or remove the second. TIMEOUT_REMOVE is left out: in
 * the kernel it does not need the ring's lock, and so finds a later timeout only by
 * chance.
 */
static void finds_a_request(void)
{
	for (unsigned i = 0; i < 3; i++) {
		struct uring ring = ring_of_many();
		struct io_uring_sqe *sqe;
		int fds[2];

		pair_of(SOCK_STREAM, fds);
		sqe = sqe_of(&ring,
			     i == 1 ? IORING_OP_POLL_REMOVE
				    : IORING_OP_ASYNC_CANCEL,
			     i == 2 ? fds[0] : -1);
		if (i == 2)
			sqe->cancel_flags = IORING_ASYNC_CANCEL_FD;
		else
			sqe->addr = sqe->user_data + BETWEEN + 1;
		put_between(&ring, sqe);
		sqe_poll(&ring, fds[0], 0);
		note_results("found", &ring, 2);
	}
}

/* The second request replaces or removes the file that the first sends to a ring. */
static void sends_a_file(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct uring ring = ring_of_many(), other = ring_of_many();
		int32_t zero = open("/dev/zero", O_RDONLY);
		int32_t fds[1] = { i & 1 ? -1 : open("/dev/null", O_RDONLY) };
		struct io_uring_sqe *sqe;

		REQUIRE(update_of(&ring, 0, zero) == 1);
		sqe = sqe_of(&ring, IORING_OP_MSG_RING, other.fd);
		sqe->addr = IORING_MSG_SEND_FD;
		sqe->addr3 = 0;
		sqe->file_index = 1;
		put_between(&ring, sqe);
		sqe_rw(&ring, IORING_OP_FILES_UPDATE, -1, fds, 1, 0);
		note_results("sent", &ring, 2);
		read_at("there", &other, 0);
	}
}

const struct row rows_uring_async[] = {
	ROW("a worker's request takes a slot", takes_slots),
	ROW("a worker's request uses a slot that changes", uses_a_slot),
	ROW("a worker's request changes a slot that is used", changes_a_slot),
	ROW("a worker's request selects a buffer that changes",
	    selects_a_buffer),
	ROW("a worker's request is to find a later one", finds_a_request),
	ROW("a worker's request sends a file whose slot changes", sends_a_file),
	NO_ROW,
};
