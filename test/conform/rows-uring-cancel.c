/* SPDX-License-Identifier: MIT */
/*
 * Cancelling requests by each key and with each flag, and the results of the cancel
 * requests
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "uring.h"
#include "streams.h"

enum {
	ALL = IORING_ASYNC_CANCEL_ALL,
	FD = IORING_ASYNC_CANCEL_FD,
	ANY = IORING_ASYNC_CANCEL_ANY,
	FIXED = IORING_ASYNC_CANCEL_FD_FIXED,
	USERDATA = IORING_ASYNC_CANCEL_USERDATA,
	OP = IORING_ASYNC_CANCEL_OP,
};

static struct __kernel_timespec never;
static char buf[64];
static int quiet[2], other[2];

static struct uring prepare(void)
{
	never = SPAN_NEVER;
	REQUIRE(pipe(quiet) == 0 && pipe(other) == 0);
	return new_uring(16, 0);
}

static uint64_t poll_of(struct uring *ring, int fd)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_POLL_ADD, fd);

	sqe->poll32_events = POLLIN;
	return sqe->user_data;
}

static uint64_t timeout(struct uring *ring)
{
	return sqe_rw(ring, IORING_OP_TIMEOUT, -1, &never, 1, 0)->user_data;
}

static struct io_uring_sqe *cancel(struct uring *ring, uint64_t target, int fd,
				   uint32_t flags)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_ASYNC_CANCEL, fd);

	sqe->addr = target;
	sqe->cancel_flags = flags;
	return sqe;
}

static void kinds(void)
{
	struct uring ring = prepare();
	uint64_t target;

	target = poll_of(&ring, quiet[0]);
	uring_submit(&ring);
	cancel(&ring, target, -1, 0);
	note_result("poll", uring_submit(&ring));
	note_cqes("poll", &ring, 2);
	target = timeout(&ring);
	uring_submit(&ring);
	cancel(&ring, target, -1, 0);
	note_result("timeout", uring_submit(&ring));
	note_cqes("timeout", &ring, 2);
	target = sqe_rw(&ring, IORING_OP_READ, quiet[0], buf, 1, 0)->user_data;
	uring_submit(&ring);
	cancel(&ring, target, -1, 0);
	note_result("read", uring_submit(&ring));
	note_cqes("read", &ring, 2);
	cancel(&ring, target, -1, 0);
	try_sqe("again", &ring);
}

static void one_of_some(void)
{
	struct uring ring = prepare();
	int i;

	for (i = 0; i < 3; i++) {
		poll_of(&ring, quiet[0]);
		ring.sqes[i].user_data = 77;
	}
	uring_submit(&ring);
	cancel(&ring, 77, -1, 0);
	note_result("one", uring_submit(&ring));
	note("ready", uring_wait(&ring, 2));
	*ring.cq_head = *ring.cq_tail;
	cancel(&ring, 77, -1, ALL);
	note_result("all", uring_submit(&ring));
	note("ready", uring_wait(&ring, 3));
	*ring.cq_head = *ring.cq_tail;
	cancel(&ring, 77, -1, ALL);
	try_sqe("all_of_none", &ring);
}

static void by_descriptor(void)
{
	struct uring ring = prepare();

	poll_of(&ring, quiet[0]);
	poll_of(&ring, other[0]);
	poll_of(&ring, quiet[0]);
	uring_submit(&ring);
	cancel(&ring, 0, quiet[0], FD | ALL);
	note_result("all", uring_submit(&ring));
	note_cqes("all", &ring, 3);
	cancel(&ring, 0, quiet[0], FD);
	try_sqe("none", &ring);
	cancel(&ring, 0, 77777, FD);
	try_sqe("closed", &ring);
}

/*
 * This test case prints nothing before Linux 6.10. On such kernels uaio cannot query
 * whether two descriptors share an open file (F_DUPFD_QUERY), so uaio treats the two as
 * different files.
 */
static void by_duplicate(void)
{
	enum { DUPFD_QUERY = 1027 };
	struct uring ring = prepare();
	int again = open("/dev/null", O_RDONLY);

	if (fcntl(again, DUPFD_QUERY, again) != 1)
		return;
	poll_of(&ring, quiet[0]);
	poll_of(&ring, other[0]);
	uring_submit(&ring);
	cancel(&ring, 0, other[1], FD);
	try_sqe("other_end", &ring);
	cancel(&ring, 0, again, FD);
	try_sqe("other_file", &ring);
	cancel(&ring, 0, dup(other[0]), FD);
	note_result("duplicate", uring_submit(&ring));
	note_cqes("duplicate", &ring, 2);
	again = dup(quiet[0]);
	close(quiet[0]);
	cancel(&ring, 0, again, FD | ALL);
	note_result("closed", uring_submit(&ring));
	note_cqes("closed", &ring, 2);
}

static void by_fixed_file(void)
{
	struct uring ring = prepare();
	struct io_uring_sqe *sqe;
	int32_t fds[2] = { quiet[0], -1 };

	REQUIRE(uring_register(ring.fd, IORING_REGISTER_FILES, fds, 2) == 0);
	poll_of(&ring, 0);
	ring.sqes[0].flags = IOSQE_FIXED_FILE;
	uring_submit(&ring);
	cancel(&ring, 0, 1, FD | FIXED);
	try_sqe("empty", &ring);
	cancel(&ring, 0, 2, FD | FIXED);
	try_sqe("beyond", &ring);
	cancel(&ring, 0, 0, FIXED);
	try_sqe("fixed_alone", &ring);
	sqe = cancel(&ring, 0, 0, FD);
	sqe->flags = IOSQE_FIXED_FILE;
	note_result("by_flag", uring_submit(&ring));
	note_cqes("by_flag", &ring, 2);
	poll_of(&ring, 0);
	ring.sqes[(ring.prepared - 1) & ring.sq_mask].flags = IOSQE_FIXED_FILE;
	uring_submit(&ring);
	cancel(&ring, 0, 0, FD | FIXED);
	note_result("right", uring_submit(&ring));
	note_cqes("right", &ring, 2);
}

static void anything(void)
{
	struct uring ring = prepare();
	uint64_t target;

	cancel(&ring, 0, -1, ANY);
	try_sqe("none", &ring);
	poll_of(&ring, quiet[0]);
	timeout(&ring);
	poll_of(&ring, other[0]);
	uring_submit(&ring);
	cancel(&ring, 0, -1, ANY | ALL);
	note_result("all", uring_submit(&ring));
	note_cqes("all", &ring, 4);
	cancel(&ring, 0, -1, ANY | ALL);
	try_sqe("all_of_none", &ring);
	target = poll_of(&ring, quiet[0]);
	timeout(&ring);
	poll_of(&ring, other[0]);
	uring_submit(&ring);
	cancel(&ring, target, -1, ANY | USERDATA);
	note_result("whatever", uring_submit(&ring));
	note_cqes("whatever", &ring, 4);
}

static void by_operation(void)
{
	struct uring ring = prepare();

	poll_of(&ring, quiet[0]);
	timeout(&ring);
	uring_submit(&ring);
	cancel(&ring, 0, -1, OP | ALL)->len = IORING_OP_READ;
	try_sqe("none", &ring);
	cancel(&ring, 0, -1, OP | ALL)->len = IORING_OP_POLL_ADD;
	note_result("polls", uring_submit(&ring));
	note_cqes("polls", &ring, 2);
	cancel(&ring, 0, -1, OP | ALL)->len = 200;
	try_sqe("unknown", &ring);
	cancel(&ring, 0, -1, OP)->len = IORING_OP_TIMEOUT;
	note_result("timeout", uring_submit(&ring));
	note_cqes("timeout", &ring, 2);
}

static void keys_together(void)
{
	struct uring ring = prepare();
	uint64_t target = poll_of(&ring, quiet[0]);

	uring_submit(&ring);
	cancel(&ring, target + 1000, quiet[0], FD | USERDATA);
	try_sqe("other_user_data", &ring);
	cancel(&ring, target, other[0], FD | USERDATA);
	try_sqe("other_file", &ring);
	cancel(&ring, target, quiet[0], FD | USERDATA | OP)->len =
		IORING_OP_READ;
	try_sqe("other_operation", &ring);
	cancel(&ring, target, quiet[0], FD | USERDATA | OP)->len =
		IORING_OP_POLL_ADD;
	note_result("right", uring_submit(&ring));
	note_cqes("right", &ring, 2);
}

static void fields(void)
{
	struct uring ring = prepare();
	uint64_t target = poll_of(&ring, quiet[0]);
	struct io_uring_sqe *sqe;
	char key[32];
	int i;

	uring_submit(&ring);
	for (i = 0; i < 8; i++) {
		sqe = cancel(&ring, target + 1000, -1, 0);
		if (i == 0)
			sqe->off = 1;
		else if (i == 1)
			sqe->splice_fd_in = 1;
		else if (i == 2)
			sqe->len = 1;
		else if (i == 3)
			sqe->ioprio = 1;
		else if (i == 4)
			sqe->flags = IOSQE_FIXED_FILE;
		else if (i == 5)
			sqe->flags = IOSQE_BUFFER_SELECT;
		else if (i == 6)
			sqe->cancel_flags = FD | ANY;
		else
			sqe->cancel_flags = 1u << 6;
		snprintf(key, sizeof(key), "spoilt_%d", i);
		try_sqe(key, &ring);
	}
}

static void in_chain(void)
{
	struct uring ring = prepare();
	uint64_t first = poll_of(&ring, quiet[0]), second;

	ring.sqes[0].flags = IOSQE_IO_LINK;
	second = sqe_of(&ring, IORING_OP_NOP, -1)->user_data;
	uring_submit(&ring);
	cancel(&ring, second, -1, 0);
	try_sqe("second", &ring);
	cancel(&ring, first, -1, 0);
	note_result("first", uring_submit(&ring));
	note_cqes("first", &ring, 3);
}

static void linked_timeout(void)
{
	struct uring ring = prepare();
	uint64_t target;

	poll_of(&ring, quiet[0]);
	ring.sqes[0].flags = IOSQE_IO_LINK;
	target = sqe_rw(&ring, IORING_OP_LINK_TIMEOUT, -1, &never, 1, 0)
			 ->user_data;
	uring_submit(&ring);
	cancel(&ring, target, -1, 0);
	try_sqe("timeout", &ring);
	cancel(&ring, ring.sqes[0].user_data, -1, 0);
	note_result("request", uring_submit(&ring));
	note_cqes("request", &ring, 3);
}

static void of_itself(void)
{
	struct uring ring = prepare();
	struct io_uring_sqe *sqe = cancel(&ring, 0, -1, 0);

	sqe->addr = sqe->user_data;
	try_sqe("itself", &ring);
	cancel(&ring, 0, -1, OP | ALL)->len = IORING_OP_ASYNC_CANCEL;
	try_sqe("by_operation", &ring);
}

static void of_other_ring(void)
{
	struct uring ring = prepare(), second = new_uring(8, 0);
	uint64_t target = poll_of(&ring, quiet[0]);

	uring_submit(&ring);
	cancel(&second, target, -1, 0);
	try_sqe("other_ring", &second);
	cancel(&second, 0, -1, ANY | ALL);
	try_sqe("all", &second);
	note_ready("left", &ring);
}

/*
 * Prints the order of completions: the cancel request must complete before the request
 * that it cancels.
 */
static void in_their_order(void)
{
	struct uring ring = prepare();
	uint64_t target;

	for (int i = 0; i < 16; i++) {
		target = poll_of(&ring, quiet[0]);
		uring_submit(&ring);
		cancel(&ring, target, -1, 0);
		uring_submit(&ring);
		note_in_order("poll", &ring, 2);
		target = poll_of(&ring, quiet[0]);
		uring_submit(&ring);
		sqe_of(&ring, IORING_OP_POLL_REMOVE, -1)->addr = target;
		uring_submit(&ring);
		note_in_order("poll_remove", &ring, 2);
		target = timeout(&ring);
		uring_submit(&ring);
		cancel(&ring, target, -1, 0);
		uring_submit(&ring);
		note_in_order("timeout", &ring, 2);
		target = timeout(&ring);
		uring_submit(&ring);
		sqe_of(&ring, IORING_OP_TIMEOUT_REMOVE, -1)->addr = target;
		uring_submit(&ring);
		note_in_order("timeout_remove", &ring, 2);
		target = sqe_rw(&ring, IORING_OP_READ, quiet[0], buf, 1, 0)
				 ->user_data;
		uring_submit(&ring);
		cancel(&ring, target, -1, 0);
		uring_submit(&ring);
		note_in_order("read", &ring, 2);
	}
	target = poll_of(&ring, quiet[0]);
	sqe_of(&ring, IORING_OP_NOP, -1);
	cancel(&ring, target, -1, 0);
	note_result("submit", uring_submit(&ring));
	note_in_order("together", &ring, 3);
	/*
	 * Here the cancel request is the second of three requests in a chain. The third
	 * request must not start before the cancel request has completed.
	 */
	target = timeout(&ring);
	uring_submit(&ring);
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
	cancel(&ring, target, -1, 0)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("chain", &ring, 4);
}

static void skipped(void)
{
	struct uring ring = prepare();
	uint64_t target = poll_of(&ring, quiet[0]);

	uring_submit(&ring);
	cancel(&ring, target, -1, 0)->flags = IOSQE_CQE_SKIP_SUCCESS;
	note_result("cancel", uring_submit(&ring));
	note_cqes("cqe", &ring, 1);
	cancel(&ring, target, -1, 0)->flags = IOSQE_CQE_SKIP_SUCCESS;
	note_result("again", uring_submit(&ring));
	note_cqes("again", &ring, 1);
}

/*
 * Test cases that cancel a request which blocks in a worker. They print only whether
 * the request fails, because its error depends on whether the worker already blocks.
 */

static void note_end(const char *key, struct uring *ring, uint64_t target)
{
	struct io_uring_cqe cqe;

	uring_submit(ring);
	cancel(ring, target, -1, 0);
	note_result(key, uring_submit(ring));
	if (uring_find(ring, target, &cqe))
		note_text(key, cqe.res < 0 ? "fails" : "succeeds");
}

static struct io_uring_sqe *splice_of(struct uring *ring, int opcode, int from,
				      int to)
{
	struct io_uring_sqe *sqe = sqe_of(ring, opcode, to);

	sqe->splice_fd_in = from;
	sqe->len = 8;
	if (opcode == IORING_OP_SPLICE)
		sqe->off = sqe->splice_off_in = (uint64_t)-1;
	return sqe;
}

/* Return: the write end of a full pipe. */
static int full_pipe(void)
{
	int ends[2];

	REQUIRE(pipe(ends) == 0);
	fill_stream(ends[1], 4096);
	return ends[1];
}

static void spliced(void)
{
	struct uring ring = prepare();
	struct io_uring_sqe *sqe;
	int sockets[2], streams[2], full = full_pipe();

	REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, streams) == 0);
	fill_stream(streams[1], 4096);
	sqe = splice_of(&ring, IORING_OP_SPLICE, quiet[0], other[1]);
	note_end("from_pipe", &ring, sqe->user_data);
	sqe = splice_of(&ring, IORING_OP_TEE, quiet[0], other[1]);
	note_end("tee", &ring, sqe->user_data);
	sqe = splice_of(&ring, IORING_OP_SPLICE, sockets[0], other[1]);
	note_end("from_socket", &ring, sqe->user_data);
	/* A splice from a socket ignores SPLICE_F_NONBLOCK, so it blocks. */
	sqe = splice_of(&ring, IORING_OP_SPLICE, sockets[0], other[1]);
	sqe->splice_flags = SPLICE_F_NONBLOCK;
	note_end("from_socket.nonblock", &ring, sqe->user_data);
	REQUIRE(write(quiet[1], "12345678", 8) == 8);
	sqe = splice_of(&ring, IORING_OP_SPLICE, quiet[0], full);
	note_end("to_full_pipe", &ring, sqe->user_data);
	sqe = splice_of(&ring, IORING_OP_SPLICE, quiet[0], streams[1]);
	note_end("to_full_socket", &ring, sqe->user_data);
	sqe = splice_of(&ring, IORING_OP_TEE, quiet[0], full);
	note_end("tee_to_full_pipe", &ring, sqe->user_data);
	note_result("left", read(quiet[0], buf, sizeof(buf)));
}

static void read_by_a_thread(void)
{
	struct uring ring = prepare();
	struct io_uring_sqe *sqe =
		sqe_rw(&ring, IORING_OP_READ, quiet[0], buf, 1, 0);

	/* Read an empty pipe with RWF_NOAPPEND, which has no effect on a read. */
	sqe->flags = IOSQE_ASYNC;
	sqe->rw_flags = 0x20;
	note_end("noappend", &ring, sqe->user_data);
}

/*
 * Cancelling by io_uring_register(2) (IORING_REGISTER_SYNC_CANCEL)
 */

static long cancel_now(const struct uring *ring,
		       const struct io_uring_sync_cancel_reg *reg)
{
	return uring_register(ring->fd, IORING_REGISTER_SYNC_CANCEL, reg, 1);
}

static void synchronously(void)
{
	struct uring ring = prepare();
	struct io_uring_sync_cancel_reg reg = {
		.timeout = { -1, -1 },
		.fd = -1,
	};

	reg.addr = poll_of(&ring, quiet[0]);
	poll_of(&ring, other[0]);
	timeout(&ring);
	uring_submit(&ring);
	note_result("one", cancel_now(&ring, &reg));
	note_cqes("one", &ring, 1);
	note_result("again", cancel_now(&ring, &reg));
	reg = (struct io_uring_sync_cancel_reg){ .timeout = { -1, -1 },
						 .fd = other[0],
						 .flags = FD };
	note_result("by_descriptor", cancel_now(&ring, &reg));
	note_cqes("by_descriptor", &ring, 1);
	reg.flags = ANY | ALL;
	note_result("all", cancel_now(&ring, &reg));
	note_cqes("all", &ring, 1);
	note_result("all_of_none", cancel_now(&ring, &reg));
}

/* With ANY, the kernel ignores keys. But FD keeps it from searching for timeouts. */
static void synchronously_anything(void)
{
	struct uring ring = prepare();
	struct io_uring_sync_cancel_reg reg = {
		.timeout = { -1, -1 },
		.fd = other[0],
		.flags = ANY | FD,
	};

	poll_of(&ring, quiet[0]);
	poll_of(&ring, other[0]);
	timeout(&ring);
	uring_submit(&ring);
	note_result("descriptor", cancel_now(&ring, &reg));
	note_cqes("descriptor", &ring, 2);
	poll_of(&ring, quiet[0]);
	uring_submit(&ring);
	reg.flags = ANY | OP;
	note_result("operation", cancel_now(&ring, &reg));
	note_cqes("operation", &ring, 2);
	reg.fd = 77777;
	reg.flags = ANY | FD;
	note_result("closed", cancel_now(&ring, &reg));
}

/* The call of a thread that does not own the ring */
static struct {
	struct uring ring;
	struct io_uring_sync_cancel_reg reg;
	long ret;
} owned;

static void *cancel_elsewhere(void *arg)
{
	owned.ret = cancel_now(&owned.ring, &owned.reg);
	return arg;
}

static void synchronously_elsewhere(void)
{
	pthread_t thread;

	(void)prepare();
	owned.ring = new_uring(8, IORING_SETUP_SINGLE_ISSUER);
	owned.reg = (struct io_uring_sync_cancel_reg){
		.timeout = { -1, -1 },
		.fd = -1,
		.addr = poll_of(&owned.ring, quiet[0]),
	};
	uring_submit(&owned.ring);
	REQUIRE(!pthread_create(&thread, NULL, cancel_elsewhere, NULL));
	REQUIRE(!pthread_join(thread, NULL));
	note_result("elsewhere", owned.ret);
	note("ends", uring_settle(&owned.ring));
	note_result("here", cancel_now(&owned.ring, &owned.reg));
	note_cqes("here", &owned.ring, 1);
}

static void synchronous_arguments(void)
{
	struct uring ring = prepare();
	const uint32_t opcode = IORING_REGISTER_SYNC_CANCEL;
	struct io_uring_sync_cancel_reg reg = { .timeout = { -1, -1 },
						.fd = 77777,
						.addr = 7777 };

	note_result("null", uring_register(ring.fd, opcode, NULL, 1));
	note_result("nr_0", uring_register(ring.fd, opcode, &reg, 0));
	note_result("nr_2", uring_register(ring.fd, opcode, &reg, 2));
	note_result("kernel",
		    uring_register(ring.fd, opcode, KERNEL_ADDRESS, 1));
	note_result("none", cancel_now(&ring, &reg));
	reg.flags = FD;
	note_result("closed", cancel_now(&ring, &reg));
	reg.flags = FD | FIXED;
	note_result("no_table", cancel_now(&ring, &reg));
	reg.flags = 1u << 8;
	note_result("flag", cancel_now(&ring, &reg));
	reg.flags = 0;
	memset(reg.pad, 1, sizeof(reg.pad));
	note_result("pad", cancel_now(&ring, &reg));
}

const struct row rows_uring_cancel[] = {
	ROW("a poll, a timeout and a read are cancelled", kinds),
	ROW("one of some is cancelled, or all", one_of_some),
	ROW("cancelling by descriptor", by_descriptor),
	ROW("cancelling by another descriptor of the file", by_duplicate),
	ROW("cancelling by fixed file", by_fixed_file),
	ROW("cancelling anything", anything),
	ROW("cancelling by operation", by_operation),
	ROW("cancelling by several keys", keys_together),
	ROW("cancelling, field by field", fields),
	ROW("cancelling in a chain", in_chain),
	ROW("cancelling a linked timeout", linked_timeout),
	ROW("a cancellation does not meet itself", of_itself),
	ROW("a cancellation stays on its ring", of_other_ring),
	ROW("a cancel request with CQE_SKIP_SUCCESS", skipped),
	ROW("a cancel request completes before its target", in_their_order),
	ROW("cancelling a splice that waits", spliced),
	ROW("cancelling a read in a thread, with a flag", read_by_a_thread),
	ROW("cancelling by io_uring_register", synchronously),
	ROW("cancelling anything by io_uring_register", synchronously_anything),
	ROW("cancelling by io_uring_register in another thread",
	    synchronously_elsewhere),
	ROW("cancelling by io_uring_register, argument by argument",
	    synchronous_arguments),
	NO_ROW,
};
