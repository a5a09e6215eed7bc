/* SPDX-License-Identifier: MIT */
/* Differences that random requests once found (test/uring/fuzz.py). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "uring.h"

enum { OP_READ_MULTISHOT = 49 };

static char buf[100000];

/*
 * Submits the prepared requests. If the last one waits, prints "waits" and cancels it;
 * otherwise prints its completion.
 */
static void note_waits(const char *key, struct uring *ring)
{
	const struct io_uring_sqe *sqe =
		&ring->sqes[(ring->prepared - 1) & ring->sq_mask];
	struct io_uring_sync_cancel_reg reg = { .addr = sqe->user_data,
						.timeout = { -1, -1 } };
	struct io_uring_cqe cqe;
	char text[64];

	note_result(key, uring_submit(ring));
	if (uring_settle(ring)) {
		snprintf(text, sizeof(text), "%s.at_once", key);
		uring_take(ring, &cqe);
		note_cqe(text, &cqe);
		return;
	}
	uring_register(ring->fd, IORING_REGISTER_SYNC_CANCEL, &reg, 1);
	if (uring_find(ring, reg.addr, &cqe))
		note_text(key, "waits");
}

/* Return: the write end of a pipe that has room for a part of `buf` only. */
static int part_full(int flags, int *ret_reader)
{
	int ends[2];

	REQUIRE(pipe2(ends, O_NONBLOCK) == 0);
	REQUIRE(write(ends[1], buf, 40000) == 40000);
	REQUIRE(fcntl(ends[1], F_SETFL, flags) == 0);
	*ret_reader = ends[0];
	return ends[1];
}

/*
 * Only a part of the data fits into the pipe; the kernel decides how much. O_NONBLOCK
 * and IOSQE_ASYNC decide whether a write then returns, or waits until all bytes are
 * written.
 */
static void writes_of_a_part(void)
{
	struct uring ring = new_uring(4, 0);
	struct iovec iov[2] = { { buf, 30000 }, { buf, 60000 } };

	for (unsigned i = 0; i < 8; i++) {
		int reader, pipe = part_full(i & 1 ? O_NONBLOCK : 0, &reader);
		struct io_uring_sqe *sqe =
			i & 2 ? sqe_rw(&ring, IORING_OP_WRITEV, pipe, iov, 2,
				       (uint64_t)-1)
			      : sqe_rw(&ring, IORING_OP_WRITE, pipe, buf, 90000,
				       (uint64_t)-1);
		struct io_uring_cqe cqe;

		sqe->flags = i & 4 ? IOSQE_ASYNC : 0;
		uring_submit(&ring);
		if (uring_find(&ring, sqe->user_data, &cqe))
			note_result("written", cqe.res);
		close(reader);
		close(pipe);
	}
}

static void patient_reads(void)
{
	struct uring ring = new_uring(4, 0);
	int event = eventfd(0, EFD_NONBLOCK);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

	sqe_rw(&ring, IORING_OP_READ, event, buf, 8, 0);
	note_waits("eventfd", &ring);
	sqe_rw(&ring, IORING_OP_READ, timer, buf, 8, 0);
	note_waits("timerfd", &ring);
}

/*
 * If the kernel finds an invalid argument before it starts a request, the submitting
 * call stops after that request.
 */
static void early_mistakes(void)
{
	struct uring ring = new_uring(4, 0);

	sqe_rw(&ring, IORING_OP_WRITE, 77777, buf, 1, 0)->ioprio = 0xffff;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("priority", uring_submit(&ring));
	note_cqes("priority", &ring, 1);
	uring_submit(&ring);
	uring_wait(&ring, 1);
	*ring.cq_head = *ring.cq_tail;
	sqe_rw(&ring, IORING_OP_MKDIRAT, AT_FDCWD, "", 0700, 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("path", uring_submit(&ring));
	note_cqes("path", &ring, 1);
}

static struct io_uring_sqe *command(struct uring *ring, int fd, uint32_t what)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_URING_CMD, fd);

	sqe->cmd_op = what;
	return sqe;
}

static void local_sockets(void)
{
	struct uring ring = new_uring(4, 0);
	int pair[2], lone = socket(AF_UNIX, SOCK_STREAM, 0), dgrams[2];
	struct io_uring_sqe *sqe;

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM, 0, dgrams) == 0);
	command(&ring, pair[0], 0);
	try_sqe("inq", &ring);
	command(&ring, pair[0], 1);
	try_sqe("outq", &ring);
	sqe = sqe_rw(&ring, IORING_OP_SEND, pair[0], buf, 1, 0);
	sqe->ioprio = IORING_RECVSEND_POLL_FIRST;
	sqe->msg_flags = MSG_DONTWAIT;
	try_sqe("poll_first.dontwait", &ring);
	sqe = sqe_rw(&ring, IORING_OP_ACCEPT, dgrams[0], NULL, 0, 0);
	sqe->ioprio = 2; /* DONTWAIT */
	try_sqe("accept.dontwait.no_listener", &ring);
	sqe = sqe_rw(&ring, IORING_OP_READ, pair[0], buf, 1, 3);
	sqe->flags = IOSQE_ASYNC;
	sqe->rw_flags = 0x8; /* RWF_NOWAIT */
	try_sqe("read.offset.flag", &ring);
	/* RWF_HIPRI and RWF_NOAPPEND */
	sqe_rw(&ring, IORING_OP_READ, pair[0], buf, 1, 0)->rw_flags = 0x21;
	try_sqe("read.hipri", &ring);
	sqe = sqe_of(&ring, IORING_OP_SPLICE, part_full(O_NONBLOCK, &lone));
	sqe->splice_fd_in = pair[0];
	sqe->off = sqe->splice_off_in = (uint64_t)-1;
	sqe->len = 8;
	sqe->splice_flags = SPLICE_F_NONBLOCK;
	try_sqe("splice.nonblock", &ring);
}

static void cancelling_by_a_path(void)
{
	struct uring ring = new_uring(4, 0);
	struct io_uring_sync_cancel_reg reg = {
		.fd = open(".", O_PATH),
		.flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL,
		.timeout = { -1, -1 },
	};

	note_result(
		"register",
		uring_register(ring.fd, IORING_REGISTER_SYNC_CANCEL, &reg, 1));
}

/*
 * Requests that complete during a submission count for a later timeout of the same
 * submission, even if that timeout is in a chain.
 */
static void counts_in_a_chain(void)
{
	struct __kernel_timespec never = SPAN_NEVER;
	struct uring ring = new_uring(8, 0);

	for (int is_second = 0; is_second < 2; is_second++) {
		sqe_rw(&ring, IORING_OP_READ, 77777, buf, 1, 0);
		if (is_second)
			sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
		sqe_rw(&ring, IORING_OP_TIMEOUT, -1, &never, 1, 1)->flags =
			IOSQE_IO_LINK;
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_result("submit", uring_submit(&ring));
		note("ready", uring_settle(&ring));
		/*
		 * If the timeout is the second request of the chain, it still waits for
		 * one completion. This no-op provides that completion.
		 */
		if (is_second) {
			sqe_of(&ring, IORING_OP_NOP, -1);
			uring_submit(&ring);
		}
		note_cqes("cqe", &ring, is_second ? 5 : 3);
	}
}

/*
 * Prints whether a request completes before a byte is written to `writer`, and how it
 * completes after that.
 */
static void note_until(const char *key, struct uring *ring, int writer)
{
	note_result(key, uring_submit(ring));
	note("before", uring_settle(ring));
	REQUIRE(write(writer, buf, 1) == 1);
	note_cqes(key, ring, 1);
}

/*
 * With IOSQE_ASYNC, even an invalid multishot request waits for data before it fails.
 */
static void shots_by_a_worker(void)
{
	struct uring ring = new_uring(4, 0);
	const uint64_t value = 1;
	struct io_uring_sqe *sqe;
	int pair[2], ends[2], event;

	for (int flags = 0; flags < 2; flags++) {
		const int nonblock = flags ? O_NONBLOCK : 0;

		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | nonblock, 0, pair) ==
			0);
		REQUIRE(pipe2(ends, nonblock) == 0);
		sqe = sqe_rw(&ring, IORING_OP_ACCEPT, pair[0], NULL, 0, 0);
		sqe->ioprio = 1; /* MULTISHOT */
		sqe->flags = IOSQE_ASYNC;
		note_until("accept", &ring, pair[1]);
		sqe = sqe_rw(&ring, OP_READ_MULTISHOT, ends[0], NULL, 0, 0);
		sqe->flags = IOSQE_ASYNC | IOSQE_BUFFER_SELECT;
		sqe->buf_group = 7;
		note_until("no_group", &ring, ends[1]);
		REQUIRE(read(ends[0], buf, 1) == 1);
		uring_provide(&ring, 7, buf, 10, 3, 1);
		sqe = sqe_rw(&ring, OP_READ_MULTISHOT, ends[0], NULL, 0, 5);
		sqe->flags = IOSQE_ASYNC | IOSQE_BUFFER_SELECT;
		sqe->buf_group = 7;
		note_until("at_an_offset", &ring, ends[1]);
		/* An eventfd needs a buffer of eight bytes; this buffer has four. */
		event = eventfd(0, nonblock);
		uring_provide(&ring, 8 + flags, buf, 4, 1, 1);
		sqe = sqe_rw(&ring, OP_READ_MULTISHOT, event, NULL, 0, 0);
		sqe->flags = IOSQE_ASYNC | IOSQE_BUFFER_SELECT;
		sqe->buf_group = (uint16_t)(8 + flags);
		note_result("too_short", uring_submit(&ring));
		note("before", uring_settle(&ring));
		REQUIRE(write(event, &value, sizeof(value)) == sizeof(value));
		note_cqes("too_short", &ring, 1);
	}
}

/* Prepares a request that provides three buffers. */
static struct io_uring_sqe *provides(struct uring *ring, int group)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_PROVIDE_BUFFERS, 3, buf, 10, 0);

	sqe->buf_group = (uint16_t)group;
	return sqe;
}

static struct io_uring_sqe *removes(struct uring *ring, int group)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_REMOVE_BUFFERS, 2);

	sqe->buf_group = (uint16_t)group;
	return sqe;
}

/*
 * Two kinds of requests start only at the end of their submission. One is the second
 * request of a chain. The other is the first request that is submitted once a drain is
 * complete; the requests submitted after this one start at once.
 */
static void starts_at_the_end(void)
{
	struct uring ring = new_uring(8, 0);

	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
	provides(&ring, 5);
	removes(&ring, 5);
	note_result("chain", uring_submit(&ring));
	note_cqes("chain", &ring, 3);
	for (int is_refused = 0; is_refused < 2; is_refused++) {
		struct io_uring_sqe *sqe = sqe_of(&ring, IORING_OP_NOP, -1);

		/*
		 * In the second round, this no-op has a mistake and is refused.
		 * Nevertheless the no-op must act as a drain for the next submission.
		 */
		if (is_refused)
			sqe->rw_flags = 1 << 30;
		sqe->flags = IOSQE_IO_DRAIN;
		note_result("drain", uring_submit(&ring));
		note_cqes("drain", &ring, 1);
		/*
		 * A request that is refused does not count as the first request after
		 * the drain.
		 */
		sqe_of(&ring, IORING_OP_NOP, -1)->rw_flags = 1 << 30;
		note_result("mistake", uring_submit(&ring));
		note_cqes("mistake", &ring, 1);
		provides(&ring, 6 + is_refused);
		removes(&ring, 6 + is_refused);
		note_result("behind", uring_submit(&ring));
		note_cqes("behind", &ring, 2);
		provides(&ring, 8 + is_refused);
		removes(&ring, 8 + is_refused);
		note_result("next", uring_submit(&ring));
		note_cqes("next", &ring, 2);
	}
}

/*
 * The second request of a chain starts only after the futex waits of the same
 * submission have begun. The submitting call must return although these waits do not
 * end.
 */
static void waits_before_a_chain(void)
{
	static uint32_t word, other;
	struct uring ring = new_uring(8, 0);
	uint32_t *const words[] = { &word, &other };

	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	for (int i = 0; i < 2; i++) {
		struct io_uring_sqe *sqe =
			sqe_rw(&ring, OP_FUTEX_WAIT, 2 | 128, words[i], 0, 0);

		sqe->addr3 = UINT32_MAX;
	}
	note_result("submit", uring_submit(&ring));
	note("ready", uring_settle(&ring));
	for (int i = 0; i < 2; i++) {
		struct io_uring_sqe *sqe =
			sqe_rw(&ring, OP_FUTEX_WAKE, 2 | 128, words[i], 0, 1);

		sqe->addr3 = UINT32_MAX;
	}
	note_result("wake", uring_submit(&ring));
	note_cqes("cqe", &ring, 6);
}

/*
 * A read checks the address of the provided buffer that it selects, even if the read
 * and the buffer have 0 bytes.
 */
static void buffers_nowhere(void)
{
	struct uring ring = new_uring(4, 0);
	struct io_uring_buf_ring *array = aligned_alloc(4096, 4096);
	struct buf_reg reg = { .ring_addr = (uintptr_t)array,
			       .ring_entries = 4,
			       .bgid = 9 };
	int ends[2];

	REQUIRE(pipe(ends) == 0 && write(ends[1], buf, 8) == 8);
	memset(array, 0, 4096);
	for (int i = 0; i < 2; i++)
		array->bufs[i] = (struct io_uring_buf){ .addr = 1ull << 63,
							.len = i ? 0 : 8,
							.bid = 1 };
	array->tail = 2;
	note_result(
		"register",
		uring_register(ring.fd, IORING_REGISTER_PBUF_RING, &reg, 1));
	for (int i = 0; i < 2; i++) {
		struct io_uring_sqe *sqe = sqe_rw(&ring, IORING_OP_READ,
						  ends[0], NULL, i ? 0 : 8, 0);

		sqe->flags = IOSQE_BUFFER_SELECT;
		sqe->buf_group = 9;
		try_sqe("read", &ring);
	}
}

/*
 * If a file has no fsync, the request fails and its chain goes on. If the descriptor is
 * bad (EBADF), the chain is broken.
 */
static void syncs_in_a_chain(void)
{
	struct uring ring = new_uring(4, 0);
	int ends[2], fds[4];

	REQUIRE(pipe(ends) == 0);
	fds[0] = ends[1];
	fds[1] = eventfd(0, 0);
	fds[2] = ring.fd;
	fds[3] = open(".", O_PATH);
	for (unsigned i = 0; i < 8; i++) {
		struct io_uring_sqe *sqe =
			sqe_of(&ring, IORING_OP_FSYNC, fds[i / 2]);

		sqe->fsync_flags = i & 1 ? IORING_FSYNC_DATASYNC : 0;
		sqe->flags = IOSQE_IO_LINK;
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_result("submit", uring_submit(&ring));
		note_cqes("cqe", &ring, 2);
	}
}

/*
 * Submits, then prints the completion that appears in the ring without a further system
 * call.
 */
static void note_unasked(const char *key, struct uring *ring)
{
	const struct timespec moment = { .tv_nsec = MS };
	struct io_uring_cqe cqe;

	note_result(key, uring_submit(ring));
	for (int i = 0; i < PATIENCE_MS && !uring_ready(ring); i++)
		nanosleep(&moment, NULL);
	if (uring_take(ring, &cqe))
		note_cqe(key, &cqe);
	else
		note_text(key, "waits");
}

/*
 * Reads of fewer bytes than the file accepts, reads of a listening socket, and empty
 * writes must not wait for their file, which may never become ready.
 */
static void reads_of_nothing(void)
{
	static struct iovec none;
	struct uring ring = new_uring(8, 0);
	int pair[2], event = eventfd(0, 0);
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	const struct sockaddr any = { .sa_family = AF_UNIX };

	REQUIRE(bind(listener, &any, sizeof(sa_family_t)) == 0 &&
		listen(listener, 4) == 0);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	for (unsigned flags = 0; flags <= IOSQE_ASYNC; flags += IOSQE_ASYNC) {
		sqe_rw(&ring, IORING_OP_READ, pair[0], buf, 0, 0)->flags =
			(uint8_t)flags;
		note_unasked("read", &ring);
		sqe_rw(&ring, IORING_OP_READV, pair[0], &none, 1, 0)->flags =
			(uint8_t)flags;
		note_unasked("readv", &ring);
		sqe_rw(&ring, IORING_OP_READ, event, buf, 7, 0)->flags =
			(uint8_t)flags;
		note_unasked("eventfd", &ring);
		sqe_rw(&ring, IORING_OP_READ, open(".", O_RDONLY), buf, 0, 0)
			->flags = (uint8_t)flags;
		note_unasked("folder", &ring);
		sqe_rw(&ring, IORING_OP_READ, listener, buf, 9, 0)->flags =
			(uint8_t)flags;
		note_unasked("listener", &ring);
	}
	for (unsigned flags = 0; flags <= IOSQE_ASYNC; flags += IOSQE_ASYNC) {
		sqe_rw(&ring, IORING_OP_WRITE, event, buf, 0, 0)->flags =
			(uint8_t)flags;
		note_unasked("write", &ring);
		sqe_rw(&ring, IORING_OP_WRITEV, event, &none, 1, 0)->flags =
			(uint8_t)flags;
		note_unasked("writev", &ring);
		/* A timerfd cannot be written. */
		sqe_rw(&ring, IORING_OP_WRITE, timer, buf, 0, 0)->flags =
			(uint8_t)flags;
		note_unasked("timerfd", &ring);
	}
	/* A read of no bytes does not wait for an earlier read that waits. */
	sqe_rw(&ring, IORING_OP_READ, pair[0], buf, 1, 0);
	uring_submit(&ring);
	sqe_rw(&ring, IORING_OP_READ, pair[0], buf, 0, 0);
	note_unasked("behind", &ring);
}

/* Reads of a directory into a provided buffer of 0 bytes. */
static void nothing_of_a_folder(void)
{
	struct uring ring = new_uring(4, 0);
	struct io_uring_buf_ring *array = aligned_alloc(4096, 4096);
	struct buf_reg reg = { .ring_addr = (uintptr_t)array,
			       .ring_entries = 4,
			       .bgid = 9 };
	int fd = open(".", O_RDONLY);

	memset(array, 0, 4096);
	for (int i = 0; i < 2; i++)
		array->bufs[i].addr = (uintptr_t)buf;
	array->tail = 2;
	note_result(
		"register",
		uring_register(ring.fd, IORING_REGISTER_PBUF_RING, &reg, 1));
	for (int i = 0; i < 2; i++) {
		struct io_uring_sqe *sqe =
			sqe_rw(&ring, IORING_OP_READ, fd, NULL, 8, 0);

		sqe->flags = IOSQE_BUFFER_SELECT | (i ? IOSQE_ASYNC : 0);
		sqe->buf_group = 9;
		try_sqe("read", &ring);
	}
}

/*
 * With IOSQE_ASYNC, a request selects or removes buffers only after all requests of its
 * submission have started.
 */
static void chooses_at_the_end(void)
{
	struct uring ring = new_uring(8, 0);
	int pair[2], file = open("file", O_RDWR | O_CREAT, 0600);

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	REQUIRE(write(pair[1], buf, 20) == 20 && write(file, buf, 20) == 20);
	for (int i = 0; i < 4; i++) {
		struct io_uring_sqe *sqe =
			i == 3 ? removes(&ring, 20 + i)
			       : sqe_rw(&ring,
					i ? IORING_OP_READ : IORING_OP_RECV,
					i == 2 ? file : pair[0], NULL, 5, 0);

		sqe->flags = IOSQE_ASYNC | (i == 3 ? 0 : IOSQE_BUFFER_SELECT);
		sqe->buf_group = (uint16_t)(20 + i);
		provides(&ring, 20 + i);
		note_result("submit", uring_submit(&ring));
		note_cqes("cqe", &ring, 2);
	}
}

/*
 * With IOSQE_ASYNC, multishot requests wait even if they have a flag against waiting,
 * such as MSG_DONTWAIT.
 */
static void shots_that_must_not_wait(void)
{
	struct uring ring = new_uring(8, 0);
	struct msghdr msg = { .msg_iovlen = 0 };
	int pair[2];

	uring_provide(&ring, 7, buf, 100, 0, 8);
	for (int i = 0; i < 4; i++) {
		struct io_uring_sqe *sqe;

		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
		if (i & 1) {
			sqe_of(&ring, IORING_OP_NOP, -1)->flags =
				IOSQE_IO_DRAIN;
			uring_submit(&ring);
			note_cqes("drain", &ring, 1);
		}
		sqe = sqe_rw(&ring, IORING_OP_RECVMSG, pair[0], &msg, 1, 0);
		sqe->flags = IOSQE_BUFFER_SELECT | (i & 1 ? 0 : IOSQE_ASYNC);
		sqe->ioprio =
			(uint16_t)(IORING_RECV_MULTISHOT |
				   (i & 2 ? IORING_RECVSEND_POLL_FIRST : 0));
		sqe->msg_flags = MSG_DONTWAIT;
		sqe->buf_group = 7;
		note_until("recvmsg", &ring, pair[1]);
		close(pair[1]);
		note_cqes("end", &ring, 1);
	}
}

const struct row rows_uring_random[] = {
	ROW("a write to a pipe with room for a part ends with that",
	    writes_of_a_part),
	ROW("a read of an eventfd or timerfd waits, O_NONBLOCK or not",
	    patient_reads),
	ROW("a priority or path that is wrong ends the submission",
	    early_mistakes),
	ROW("sockets of the machine's own", local_sockets),
	ROW("cancelling by a descriptor that is open for no operation",
	    cancelling_by_a_path),
	ROW("the first of a chain counts what its submission completes",
	    counts_in_a_chain),
	ROW("with many shots and IOSQE_ASYNC a mistake waits, too",
	    shots_by_a_worker),
	ROW("what is behind a drain, or the first of a chain, starts at the "
	    "end",
	    starts_at_the_end),
	ROW("a wait for a futex is before a chain", waits_before_a_chain),
	ROW("a read checks the address of its array's buffer first",
	    buffers_nowhere),
	ROW("a sync that its file refuses breaks no chain", syncs_in_a_chain),
	ROW("a read of no bytes does not wait", reads_of_nothing),
	ROW("a read of a directory into a buffer of no bytes",
	    nothing_of_a_folder),
	ROW("a request with IOSQE_ASYNC selects its buffer at the end",
	    chooses_at_the_end),
	ROW("a multishot request with IOSQE_ASYNC waits against its flags",
	    shots_that_must_not_wait),
	NO_ROW,
};
