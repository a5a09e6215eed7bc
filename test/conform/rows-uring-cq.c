/* SPDX-License-Identifier: MIT */
/*
 * Completions that are skipped, that overflow the ring, or that signal an eventfd
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"

/* Prepares a request that fails inside io_uring_enter. */
static struct io_uring_sqe *fails(struct uring *ring)
{
	static char byte;

	return sqe_rw(ring, IORING_OP_READ, -1, &byte, 1, 0);
}

static struct uring small_ring(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE,
					  .cq_entries = 2 };

	return new_uring_of(2, &params);
}

static void nops(struct uring *ring, int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		sqe_of(ring, IORING_OP_NOP, -1);
		note_result("submit", uring_submit(ring));
	}
}

static void overflow(void)
{
	struct uring ring = small_ring();
	struct io_uring_cqe cqe;

	nops(&ring, 5);
	note_rings("full", &ring);
	uring_take(&ring, &cqe);
	note_rings("one_taken", &ring);
	note_result("enter", uring_enter(ring.fd, 0, 0, 0, NULL, 0));
	note_rings("entered", &ring);
	note_result("get", uring_enter(ring.fd, 0, 0, IORING_ENTER_GETEVENTS,
				       NULL, 0));
	note_rings("flushed", &ring);
	note_in_order("nop", &ring, 4);
	note_rings("all", &ring);
}

static void overflow_and_submit(void)
{
	struct uring ring = small_ring();
	struct io_uring_cqe cqe;

	nops(&ring, 4);
	uring_take(&ring, &cqe);
	uring_take(&ring, &cqe);
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_rings("then", &ring);
	note_in_order("nop", &ring, 3);
}

static void overflow_and_wait(void)
{
	struct uring ring = small_ring();

	nops(&ring, 4);
	note_result("wait_3", uring_enter(ring.fd, 0, 3, IORING_ENTER_GETEVENTS,
					  NULL, 0));
	note_rings("then", &ring);
	note_in_order("nop", &ring, 4);
	note_rings("end", &ring);
}

static void tail_overwritten(void)
{
	struct uring ring = new_uring(4, 0);

	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	*ring.cq_tail = 1000;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note("tail", *ring.cq_tail);
}

static void skip_of_success(void)
{
	struct uring ring = new_uring(8, 0);

	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_CQE_SKIP_SUCCESS;
	sqe_of(&ring, IORING_OP_NOP, -1);
	fails(&ring)->flags = IOSQE_CQE_SKIP_SUCCESS;
	note_result("submit", uring_submit(&ring));
	note_in_order("cqe", &ring, 2);
	note_rings("rings", &ring);
}

static void skip_in_link(void)
{
	struct uring ring = new_uring(8, 0);

	sqe_of(&ring, IORING_OP_NOP, -1)->flags =
		IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("success", uring_submit(&ring));
	note_in_order("success", &ring, 1);
	fails(&ring)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1)->flags =
		IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("failure", uring_submit(&ring));
	note_in_order("failure", &ring, uring_settle(&ring));
	note_rings("rings", &ring);
}

static void skip_first_fails(void)
{
	struct uring ring = new_uring(8, 0);

	fails(&ring)->flags = IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_CQE_SKIP_SUCCESS;
	note_result("submit", uring_submit(&ring));
	note_in_order("cqe", &ring, uring_settle(&ring));
}

static void skip_then_drain(void)
{
	struct uring ring = new_uring(8, 0);

	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_CQE_SKIP_SUCCESS;
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_DRAIN;
	note_result("submit", uring_submit(&ring));
	note_in_order("cqe", &ring, uring_settle(&ring));
	sqe_of(&ring, IORING_OP_NOP, -1)->flags =
		IOSQE_IO_DRAIN | IOSQE_CQE_SKIP_SUCCESS;
	note_result("both", uring_submit(&ring));
	note_in_order("both", &ring, uring_settle(&ring));
}

static void user_data(void)
{
	static const uint64_t values[] = { 0, 1, -1ull, 1ull << 63 };
	struct uring ring = new_uring(8, 0);
	struct io_uring_cqe cqe;
	size_t i;

	for (i = 0; i < 4; i++)
		sqe_of(&ring, IORING_OP_NOP, -1)->user_data = values[i];
	uring_submit(&ring);
	for (i = 0; i < 4; i++)
		note("same",
		     uring_take(&ring, &cqe) && cqe.user_data == values[i]);
}

static void in_order(void)
{
	struct uring ring = new_uring(8, 0);
	int file = file_of("f", 4096, O_RDWR);
	static char buf[64];
	int i;

	for (i = 0; i < 8; i++) {
		if (i % 2)
			sqe_of(&ring, IORING_OP_NOP, -1);
		else
			sqe_rw(&ring, IORING_OP_READ, file, buf, 8, 0);
	}
	note_result("submit", uring_submit(&ring));
	note_in_order("cqe", &ring, 8);
}

/*
 * The ring's eventfd (IORING_REGISTER_EVENTFD)
 */

static long read_count(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) != sizeof(count))
		return -errno;
	return (long)count;
}

static long set_eventfd(const struct uring *ring, uint32_t opcode, int fd)
{
	return uring_register(ring->fd, opcode, &fd, 1);
}

static void eventfd_counts(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = eventfd(0, EFD_NONBLOCK);

	note_result("register",
		    set_eventfd(&ring, IORING_REGISTER_EVENTFD, fd));
	note_result("none", read_count(fd));
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_result("one", read_count(fd));
	/*
	 * How often the kernel signals the eventfd for the next two requests differs.
	 * So print only whether the eventfd was signalled.
	 */
	sqe_of(&ring, IORING_OP_NOP, -1);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note("some", read_count(fd) > 0);
	*ring.cq_flags |= IORING_CQ_EVENTFD_DISABLED;
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_result("disabled", read_count(fd));
	*ring.cq_flags = 0;
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_result("enabled", read_count(fd));
	note_result(
		"unregister",
		uring_register(ring.fd, IORING_UNREGISTER_EVENTFD, NULL, 0));
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_result("gone", read_count(fd));
}

/*
 * Waits until the eventfd is signalled, which may happen after the completion is
 * visible.
 * Return: the eventfd's count.
 */
static long await_count(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, PATIENCE_MS) == 1 ? read_count(fd) : -ETIMEDOUT;
}

/* Waits until the eventfd has counted nr signals. Return: their number. */
static long await_counts(int fd, long nr)
{
	long sum = 0, count;

	while (sum < nr) {
		count = await_count(fd);
		if (count < 0)
			return count;
		sum += count;
	}
	return sum;
}

/*
 * An eventfd of IORING_REGISTER_EVENTFD_ASYNC is only signalled for completions by workers.
 */
static void eventfd_async(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = eventfd(0, EFD_NONBLOCK), file = file_of("f", 1, O_RDWR);
	int fds[2], sockets[2];
	char byte;

	REQUIRE(pipe(fds) == 0);
	note_result("register",
		    set_eventfd(&ring, IORING_REGISTER_EVENTFD_ASYNC, fd));
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_result("inline", read_count(fd));
	sqe_of(&ring, IORING_OP_POLL_ADD, fds[0])->poll32_events = POLLIN;
	uring_submit(&ring);
	note_result("waits", read_count(fd));
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_cqes("cqe", &ring, 2);
	note_result("later", read_count(fd));
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_ASYNC;
	uring_submit(&ring);
	note_result("worker", await_count(fd));
	sqe_rw(&ring, IORING_OP_READ, fds[0], &byte, 1, 0)->flags = IOSQE_ASYNC;
	uring_submit(&ring);
	note_result("read", await_count(fd));
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_FSYNC, file);
	uring_submit(&ring);
	note_result("chain", await_count(fd));
	note_cqes("cqe", &ring, 4);
	/*
	 * The worker executes the request with IOSQE_ASYNC and the next one of its
	 * chain, so both signal the eventfd.
	 */
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_ASYNC | IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_result("chain_of_worker", await_counts(fd, 2));
	note_cqes("cqe", &ring, 2);
	/*
	 * Requests that could complete at once, but are executed by a worker because of
	 * IOSQE_ASYNC
	 */
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
	sqe_rw(&ring, IORING_OP_SEND, sockets[0], &byte, 1, 0)->flags =
		IOSQE_ASYNC;
	uring_submit(&ring);
	note_result("send", await_count(fd));
	sqe_rw(&ring, IORING_OP_RECV, sockets[1], &byte, 1, 0)->flags =
		IOSQE_ASYNC;
	uring_submit(&ring);
	note_result("recv", await_count(fd));
	sqe_rw(&ring, IORING_OP_SEND, sockets[0], NULL, 1, 0)->flags =
		IOSQE_ASYNC;
	uring_submit(&ring);
	note_result("fault", await_count(fd));
	note_cqes("cqe", &ring, 3);
	/*
	 * A read or write that fails in a worker does not signal the eventfd. The
	 * requests that this failure cancels do not signal it, either.
	 */
	sqe_rw(&ring, IORING_OP_READ, open(".", O_RDONLY), &byte, 1, 0)->flags =
		IOSQE_ASYNC | IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_cqes("cut", &ring, 2);
	sqe_rw(&ring, IORING_OP_WRITE, open("/dev/full", O_WRONLY), &byte, 1, 0)
		->flags = IOSQE_ASYNC;
	uring_submit(&ring);
	note_cqes("full", &ring, 1);
	/*
	 * Other operations that fail in a worker signal the eventfd, but requests that
	 * the failure cancels do not.
	 */
	sqe_rw(&ring, IORING_OP_OPENAT, AT_FDCWD, "none", 0, 0)->flags =
		IOSQE_ASYNC | IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_cqes("open", &ring, 2);
	note_result("opens", await_count(fd));
	note_result("no_more", read_count(fd));
}

static void eventfd_arguments(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = eventfd(0, EFD_NONBLOCK), file = file_of("f", 1, O_RDWR);
	int two[2] = { fd, fd };
	const uint32_t set = IORING_REGISTER_EVENTFD;
	const uint32_t unset = IORING_UNREGISTER_EVENTFD;

	note_result("unset_none", uring_register(ring.fd, unset, NULL, 0));
	note_result("unset_arg", uring_register(ring.fd, unset, &fd, 0));
	note_result("unset_nr", uring_register(ring.fd, unset, NULL, 1));
	note_result("nr_0", uring_register(ring.fd, set, &fd, 0));
	note_result("nr_2", uring_register(ring.fd, set, two, 2));
	note_result("null", uring_register(ring.fd, set, NULL, 1));
	note_result("file", set_eventfd(&ring, set, file));
	note_result("closed", set_eventfd(&ring, set, 77777));
	note_result("right", set_eventfd(&ring, set, fd));
	note_result("twice", set_eventfd(&ring, set, fd));
	note_result("other",
		    set_eventfd(&ring, IORING_REGISTER_EVENTFD_ASYNC, fd));
	note_result("unset", uring_register(ring.fd, unset, NULL, 0));
	note_result("unset_again", uring_register(ring.fd, unset, NULL, 0));
}

static void eventfd_closed(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = eventfd(0, EFD_NONBLOCK), same = dup(fd);

	set_eventfd(&ring, IORING_REGISTER_EVENTFD, fd);
	close(fd);
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_result("counted", read_count(same));
}

static void eventfd_overflow(void)
{
	struct uring ring = small_ring();
	int fd = eventfd(0, EFD_NONBLOCK);

	set_eventfd(&ring, IORING_REGISTER_EVENTFD, fd);
	nops(&ring, 2);
	note("two", read_count(fd) > 0);
	nops(&ring, 1);
	note("overflown", read_count(fd) > 0);
}

const struct row rows_uring_cq[] = {
	ROW("completions that overflow are kept", overflow),
	ROW("a submission while completions overflow", overflow_and_submit),
	ROW("waiting for completions that have overflowed", overflow_and_wait),
	ROW("a tail that the client overwrites", tail_overwritten),
	ROW("CQE_SKIP_SUCCESS on a request that succeeds", skip_of_success),
	ROW("CQE_SKIP_SUCCESS in a chain", skip_in_link),
	ROW("CQE_SKIP_SUCCESS on the first of a chain, which fails",
	    skip_first_fails),
	ROW("CQE_SKIP_SUCCESS before a drain", skip_then_drain),
	ROW("completions return user_data unchanged", user_data),
	ROW("requests that need not wait complete in order", in_order),
	ROW("an eventfd counts completions", eventfd_counts),
	ROW("an eventfd for completions that come later", eventfd_async),
	ROW("registering an eventfd, argument by argument", eventfd_arguments),
	ROW("an eventfd that is closed still counts", eventfd_closed),
	ROW("an eventfd and overflow", eventfd_overflow),
	NO_ROW,
};
