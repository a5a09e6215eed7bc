/* SPDX-License-Identifier: MIT */
/* Polls, single and multishot: results, removing and updating. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "uring.h"

static struct io_uring_sqe *poll_of(struct uring *ring, int fd, uint32_t mask,
				    uint32_t flags)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_POLL_ADD, fd);

	sqe->poll32_events = mask;
	sqe->len = flags;
	return sqe;
}

static struct io_uring_sqe *removal(struct uring *ring, uint64_t target,
				    uint32_t flags)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_POLL_REMOVE, -1);

	sqe->addr = target;
	sqe->len = flags;
	return sqe;
}

static void new_pipe(int fds[2])
{
	REQUIRE(pipe2(fds, O_NONBLOCK) == 0);
}

static void put(int fd)
{
	REQUIRE(write(fd, "x", 1) == 1);
}

static void get(int fd)
{
	char byte;

	REQUIRE(read(fd, &byte, 1) == 1);
}

static void ready_at_once(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	new_pipe(fds);
	poll_of(&ring, fds[1], POLLOUT, 0);
	try_sqe("writer", &ring);
	poll_of(&ring, fds[1], POLLIN | POLLOUT, 0);
	try_sqe("writer_both", &ring);
	put(fds[1]);
	poll_of(&ring, fds[0], POLLIN | POLLPRI | POLLRDNORM, 0);
	try_sqe("reader", &ring);
	close(fds[1]);
	poll_of(&ring, fds[0], POLLIN, 0);
	try_sqe("hung_up", &ring);
	poll_of(&ring, fds[0], 0, 0);
	try_sqe("hung_up_unasked", &ring);
}

static void gets_ready(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	new_pipe(fds);
	poll_of(&ring, fds[0], POLLIN, 0);
	note_result("submit", uring_submit(&ring));
	note_ready("waits", &ring);
	put(fds[1]);
	note_in_order("cqe", &ring, 1);
	put(fds[1]);
	uring_enter(ring.fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0);
	note_ready("once", &ring);
}

static void error_is_told(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	new_pipe(fds);
	poll_of(&ring, fds[1], POLLERR, 0);
	note_result("submit", uring_submit(&ring));
	close(fds[0]);
	note_in_order("cqe", &ring, 1);
	poll_of(&ring, fds[1], 0, 0);
	try_sqe("unasked", &ring);
}

static void upper_bits(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	new_pipe(fds);
	put(fds[1]);
	poll_of(&ring, fds[0], EPOLLIN | EPOLLEXCLUSIVE, 0);
	try_sqe("exclusive", &ring);
	poll_of(&ring, fds[0], EPOLLIN | EPOLLONESHOT, 0);
	try_sqe("oneshot", &ring);
	poll_of(&ring, fds[0], EPOLLIN | EPOLLET, 0);
	try_sqe("edge", &ring);
	poll_of(&ring, fds[0], EPOLLIN | EPOLLRDHUP | EPOLLWAKEUP, 0);
	try_sqe("wakeup", &ring);
}

static void flag_bits(void)
{
	struct uring ring;
	char key[32];
	int bit, fds[2];

	for (bit = 0; bit < 32; bit++) {
		ring = new_uring(8, 0);
		new_pipe(fds);
		put(fds[1]);
		poll_of(&ring, fds[0], POLLIN, 1u << bit);
		snprintf(key, sizeof(key), "bit_%d", bit);
		try_sqe(key, &ring);
		close(ring.fd);
	}
}

static void multishot(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	new_pipe(fds);
	poll_of(&ring, fds[0], POLLIN, IORING_POLL_ADD_MULTI);
	note_result("submit", uring_submit(&ring));
	note_ready("waits", &ring);
	put(fds[1]);
	note_in_order("first", &ring, 1);
	get(fds[0]);
	put(fds[1]);
	note_in_order("second", &ring, 1);
	close(fds[1]);
	note_in_order("hung_up", &ring, 1);
}

static void multishot_ready(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	new_pipe(fds);
	put(fds[1]);
	poll_of(&ring, fds[0], POLLIN, IORING_POLL_ADD_MULTI);
	note_result("submit", uring_submit(&ring));
	note_in_order("first", &ring, 1);
	put(fds[1]);
	note_in_order("second", &ring, 1);
}

static void multishot_level(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	new_pipe(fds);
	put(fds[1]);
	poll_of(&ring, fds[0], POLLIN,
		IORING_POLL_ADD_MULTI | IORING_POLL_ADD_LEVEL);
	note_result("multi_level", uring_submit(&ring));
	note_in_order("cqe", &ring, 1);
	poll_of(&ring, fds[0], POLLIN, IORING_POLL_ADD_LEVEL);
	try_sqe("level", &ring);
}

static void multishot_skips(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	new_pipe(fds);
	put(fds[1]);
	poll_of(&ring, fds[0], POLLIN, IORING_POLL_ADD_MULTI)->flags =
		IOSQE_CQE_SKIP_SUCCESS;
	note_result("submit", uring_submit(&ring));
	note_in_order("cqe", &ring, uring_settle(&ring));
	poll_of(&ring, fds[0], POLLIN, IORING_POLL_ADD_MULTI)->flags =
		IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("linked", uring_submit(&ring));
	note_cqes("linked", &ring, 1);
}

static void removed(void)
{
	struct uring ring = new_uring(8, 0);
	uint64_t target;
	int fds[2];

	new_pipe(fds);
	target = poll_of(&ring, fds[0], POLLIN, 0)->user_data;
	note_result("submit", uring_submit(&ring));
	removal(&ring, target, 0);
	note_result("remove", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
	removal(&ring, target, 0);
	try_sqe("again", &ring);
	target = poll_of(&ring, fds[0], POLLIN, IORING_POLL_ADD_MULTI)
			 ->user_data;
	note_result("multishot", uring_submit(&ring));
	removal(&ring, target, 0);
	note_result("remove", uring_submit(&ring));
	note_cqes("multishot", &ring, 2);
}

static void removed_from_link(void)
{
	struct uring ring = new_uring(8, 0);
	uint64_t target;
	int fds[2];

	new_pipe(fds);
	poll_of(&ring, fds[0], POLLIN, 0)->flags = IOSQE_IO_LINK;
	target = ring.sqes[0].user_data;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	removal(&ring, target, 0);
	note_result("remove", uring_submit(&ring));
	note_cqes("cqe", &ring, 3);
}

static void removal_fields(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	uint64_t target;
	int fds[2], i;

	new_pipe(fds);
	for (i = 0; i < 8; i++) {
		target = poll_of(&ring, fds[0], POLLIN, 0)->user_data;
		uring_submit(&ring);
		sqe = removal(&ring, target, 0);
		if (i == 0)
			sqe->ioprio = 1;
		else if (i == 1)
			sqe->off = 1;
		else if (i == 2)
			sqe->poll32_events = POLLIN;
		else if (i == 3)
			sqe->buf_index = 1;
		else if (i == 4)
			sqe->splice_fd_in = 1;
		else if (i == 5)
			sqe->len = IORING_POLL_ADD_MULTI;
		else if (i == 6)
			sqe->len = 1u << 4;
		else
			sqe->flags = IOSQE_FIXED_FILE;
		try_sqe("spoilt", &ring);
	}
}

static void other_mask(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	uint64_t target;
	int fds[2];

	new_pipe(fds);
	target = poll_of(&ring, fds[1], POLLIN, 0)->user_data;
	note_result("submit", uring_submit(&ring));
	sqe = removal(&ring, target, IORING_POLL_UPDATE_EVENTS);
	sqe->poll32_events = POLLOUT;
	note_result("update", uring_submit(&ring));
	note_in_order("cqe", &ring, 2);
}

static void other_user_data(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	struct io_uring_cqe cqe;
	uint64_t target;
	int fds[2];

	new_pipe(fds);
	target = poll_of(&ring, fds[0], POLLIN, 0)->user_data;
	note_result("submit", uring_submit(&ring));
	sqe = removal(&ring, target, IORING_POLL_UPDATE_USER_DATA);
	sqe->off = 7777;
	try_sqe("update", &ring);
	put(fds[1]);
	REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
	note("user_data", (long)cqe.user_data);
	note("res", cqe.res);
}

static void both_at_once(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	struct io_uring_cqe cqe;
	uint64_t target;
	int fds[2];

	new_pipe(fds);
	target = poll_of(&ring, fds[0], POLLPRI, IORING_POLL_ADD_MULTI)
			 ->user_data;
	note_result("submit", uring_submit(&ring));
	sqe = removal(&ring, target,
		      IORING_POLL_UPDATE_USER_DATA | IORING_POLL_UPDATE_EVENTS |
			      IORING_POLL_ADD_MULTI);
	sqe->off = 7777;
	sqe->poll32_events = POLLIN;
	try_sqe("update", &ring);
	put(fds[1]);
	REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
	note("user_data", (long)cqe.user_data);
	note_cqe("cqe", &cqe);
}

/* Update the poll with this user_data, and wait for the update's completion. */
static void wait_for_update(struct uring *ring, uint64_t target)
{
	struct io_uring_sqe *sqe =
		removal(ring, target, IORING_POLL_UPDATE_EVENTS);

	sqe->poll32_events = POLLIN | POLLRDHUP;
	note_result("update", uring_submit(ring));
	note_in_order("update", ring, 1);
}

static void update_keeps_link(uint8_t link)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	uint64_t target;
	char byte;
	int fds[2];

	new_pipe(fds);
	target = sqe_poll(&ring, fds[0], link)->user_data;
	sqe_rw(&ring, IORING_OP_READ, fds[0], &byte, 1, 0);
	note_result("submit", uring_submit(&ring));
	wait_for_update(&ring, target);
	put(fds[1]);
	note_in_order("cqe", &ring, 2);
	/* This update makes the poll ready. */
	sqe = poll_of(&ring, fds[1], POLLPRI, 0);
	sqe->flags = link;
	target = sqe->user_data;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	removal(&ring, target, IORING_POLL_UPDATE_EVENTS)->poll32_events =
		POLLOUT;
	note_result("update", uring_submit(&ring));
	note_in_order("ready", &ring, 3);
}

static void update_of_linked(void)
{
	update_keeps_link(IOSQE_IO_LINK);
	update_keeps_link(IOSQE_IO_HARDLINK);
}

static void update_of_linked_multishot(void)
{
	struct uring ring = new_uring(8, 0);
	uint64_t target;
	int fds[2];

	new_pipe(fds);
	target = poll_of(&ring, fds[0], POLLIN, IORING_POLL_ADD_MULTI)
			 ->user_data;
	ring.sqes[0].flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	wait_for_update(&ring, target);
	put(fds[1]);
	note_in_order("cqe", &ring, 1);
	removal(&ring, target, 0);
	note_result("remove", uring_submit(&ring));
	note_cqes("removed", &ring, 3);
}

/* A poll has a linked timeout, and is updated. `fires`: the poll ends first. */
static void update_keeps_timeout(bool fires)
{
	struct __kernel_timespec soon = SPAN_SOON, never = SPAN_NEVER;
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	uint64_t target, timeout;
	int fds[2];

	new_pipe(fds);
	target = sqe_poll(&ring, fds[0], IOSQE_IO_LINK)->user_data;
	sqe = sqe_rw(&ring, IORING_OP_LINK_TIMEOUT, -1, &never, 1, 0);
	sqe->flags = IOSQE_IO_LINK;
	timeout = sqe->user_data;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	wait_for_update(&ring, target);
	if (fires) {
		put(fds[1]);
		note_cqes("fires", &ring, 3);
		return;
	}
	sqe = sqe_of(&ring, IORING_OP_TIMEOUT_REMOVE, -1);
	sqe->addr = timeout;
	sqe->addr2 = (uintptr_t)&soon;
	sqe->timeout_flags = IORING_TIMEOUT_UPDATE | IORING_LINK_TIMEOUT_UPDATE;
	note_result("expire", uring_submit(&ring));
	note_cqes("expires", &ring, 4);
}

static void update_of_limited(void)
{
	update_keeps_timeout(true);
	update_keeps_timeout(false);
}

static void update_keeps_file(void)
{
	struct uring ring = new_uring(8, 0);
	uint64_t value = 41, target;
	int32_t table[1], none = -1;
	struct io_uring_rsrc_register reg = { .nr = 1,
					      .data = (uintptr_t)table,
					      .tags = (uintptr_t)&value };
	struct io_uring_rsrc_update unset = { .data = (uintptr_t)&none };
	struct io_uring_cqe cqe;
	int i, fds[2];

	new_pipe(fds);
	table[0] = fds[0];
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_FILES2, &reg,
			       sizeof(reg)) == 0);
	target = sqe_poll(&ring, 0, IOSQE_FIXED_FILE)->user_data;
	note_result("submit", uring_submit(&ring));
	wait_for_update(&ring, target);
	note_result("unset",
		    uring_register(ring.fd, IORING_REGISTER_FILES_UPDATE,
				   &unset, 1));
	note_ready("in_use", &ring);
	put(fds[1]);
	for (i = 0; i < 2; i++) {
		REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
		note(cqe.user_data == value ? "tag" : "poll", cqe.res);
	}
}

static void updates_by_workers(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	uint64_t target;
	int fds[2];

	new_pipe(fds);
	target = poll_of(&ring, fds[0], POLLIN, 0)->user_data;
	note_result("submit", uring_submit(&ring));
	for (int i = 0; i < 4; i++) {
		sqe = removal(&ring, target, IORING_POLL_UPDATE_EVENTS);
		sqe->poll32_events = POLLIN;
		sqe->flags = IOSQE_ASYNC;
	}
	note_result("updates", uring_submit(&ring));
	note_cqes("updates", &ring, 4);
	removal(&ring, target, 0)->flags = IOSQE_ASYNC;
	note_result("remove", uring_submit(&ring));
	note_cqes("removed", &ring, 2);
}

static void update_of_none(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;

	sqe = removal(&ring, 7777, IORING_POLL_UPDATE_EVENTS);
	sqe->poll32_events = POLLIN;
	try_sqe("events", &ring);
	sqe = removal(&ring, 7777, IORING_POLL_UPDATE_USER_DATA);
	sqe->off = 1;
	try_sqe("user_data", &ring);
	sqe = poll_of(&ring, -1, POLLIN, IORING_POLL_UPDATE_EVENTS);
	try_sqe("by_add", &ring);
}

static void closed_meanwhile(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	new_pipe(fds);
	poll_of(&ring, fds[0], POLLIN, 0);
	note_result("submit", uring_submit(&ring));
	close(fds[0]);
	put(fds[1]);
	note_in_order("cqe", &ring, 1);
}

static void two_of_one(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	new_pipe(fds);
	poll_of(&ring, fds[0], POLLIN, 0);
	poll_of(&ring, fds[0], POLLIN, 0);
	note_result("submit", uring_submit(&ring));
	put(fds[1]);
	note_cqes("cqe", &ring, 2);
}

/*
 * A cancel request is linked to a timeout that counts one completion. The first
 * completion of a multishot poll ends the timeout. Then the cancel request starts and
 * finds the poll, which is still in flight.
 */
static void cancelled_by_its_completion(void)
{
	struct uring ring = new_uring(8, 0);
	struct __kernel_timespec never = SPAN_NEVER;
	struct io_uring_sqe *sqe;
	uint64_t target;
	int fds[2];

	new_pipe(fds);
	target = poll_of(&ring, fds[0], POLLIN, IORING_POLL_ADD_MULTI)
			 ->user_data;
	sqe = sqe_rw(&ring, IORING_OP_TIMEOUT, -1, &never, 1, 1);
	sqe->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1)->addr = target;
	note_result("submit", uring_submit(&ring));
	put(fds[1]);
	note_cqes("cqe", &ring, 4);
}

const struct row rows_uring_poll[] = {
	ROW("a poll of what is ready", ready_at_once),
	ROW("a poll of what gets ready", gets_ready),
	ROW("a poll tells errors", error_is_told),
	ROW("the upper bits of a poll's mask", upper_bits),
	ROW("each flag of a poll", flag_bits),
	ROW("a multishot poll goes on", multishot),
	ROW("a multishot poll of what is ready", multishot_ready),
	ROW("a poll by level", multishot_level),
	ROW("a multishot poll that is not to be told, or linked",
	    multishot_skips),
	ROW("a poll is removed", removed),
	ROW("a poll is removed from a chain", removed_from_link),
	ROW("a poll's removal, field by field", removal_fields),
	ROW("a poll gets another mask", other_mask),
	ROW("a poll gets another user_data", other_user_data),
	ROW("a poll gets another mask and user_data", both_at_once),
	ROW("an update of a poll keeps what is linked to it", update_of_linked),
	ROW("an update of a multishot poll keeps what is linked to it",
	    update_of_linked_multishot),
	ROW("an update of a poll keeps its linked timeout", update_of_limited),
	ROW("an update of a poll keeps its registered file", update_keeps_file),
	ROW("workers update one poll", updates_by_workers),
	ROW("an update of a poll that is none", update_of_none),
	ROW("a poll of what is closed meanwhile", closed_meanwhile),
	ROW("two polls of one file", two_of_one),
	ROW("a completion of a poll starts what cancels the poll",
	    cancelled_by_its_completion),
	NO_ROW,
};
