/* SPDX-License-Identifier: MIT */
/*
 * IORING_RECVSEND_POLL_FIRST and IORING_ACCEPT_POLL_FIRST: requests that wait until
 * their socket is ready before they are tried for the first time
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "differences.h"
#include "sockets.h"
#include "streams.h"
#include "uring.h"

/* Flags that older headers lack. */
enum { ACCEPT_DONTWAIT = 1 << 1, ACCEPT_POLL_FIRST = 1 << 2 };

enum { GROUP = 5, PART = 4096 };

static char data[PART], got[PART];

static struct io_uring_sqe *recv_of(struct uring *ring, int fd, size_t len,
				    uint32_t flags)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_RECV, fd, got, len, 0);

	sqe->ioprio = IORING_RECVSEND_POLL_FIRST;
	sqe->msg_flags = flags;
	return sqe;
}

static struct io_uring_sqe *send_of(struct uring *ring, int fd, size_t len,
				    uint32_t flags)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_SEND, fd, data, len, 0);

	sqe->ioprio = IORING_RECVSEND_POLL_FIRST;
	sqe->msg_flags = flags;
	return sqe;
}

static struct io_uring_sqe *accept_of(struct uring *ring, int fd,
				      uint32_t flags)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_ACCEPT, fd);

	sqe->ioprio = (uint16_t)(ACCEPT_POLL_FIRST | flags);
	return sqe;
}

/*
 * Submits a request and prints its result. If the request waits, prints "waits" and
 * cancels it.
 */
static void note_end(const char *key, struct uring *ring)
{
	struct io_uring_cqe cqe;
	char name[64];

	REQUIRE(uring_submit(ring) == 1);
	snprintf(name, sizeof(name), "%s.ready", key);
	/*
	 * For an accept, do not print how many completions have arrived so far: a
	 * worker may execute the accept, and then it completes later.
	 */
	if (!strstr(key, "accept"))
		note_ready(name, ring);
	while (!uring_settle(ring) && !others_sleep())
		;
	if (!uring_settle(ring)) {
		note_text(key, "waits");
		sqe_of(ring, IORING_OP_ASYNC_CANCEL, -1)->cancel_flags =
			IORING_ASYNC_CANCEL_ANY;
		REQUIRE(uring_submit(ring) == 1);
		REQUIRE(uring_wait(ring, 2));
		while (uring_take(ring, &cqe))
			;
		return;
	}
	REQUIRE(uring_take(ring, &cqe));
	if (cqe.res >= 0 && strstr(key, "accept"))
		cqe.res = 0;
	note_cqe(key, &cqe);
	while (uring_take(ring, &cqe))
		;
}

static void receives(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
	char key[32];

	for (size_t i = 0; i < 4; i++) {
		struct uring ring = new_uring(8, 0);
		int fds[2];

		if (i < 3)
			pair_of(types[i], fds);
		else
			tcp_pair(fds);
		send_bytes(fds[1], data, 10);
		recv_of(&ring, fds[0], 100, 0);
		snprintf(key, sizeof(key), "there.%zu", i);
		note_end(key, &ring);
		send_bytes(fds[1], data, 10);
		recv_of(&ring, fds[0], 100, 0)->flags = IOSQE_ASYNC;
		snprintf(key, sizeof(key), "async.%zu", i);
		REQUIRE(uring_submit(&ring) == 1);
		note_in_order(key, &ring, 1);
		recv_of(&ring, fds[0], 0, 0);
		snprintf(key, sizeof(key), "none.%zu", i);
		note_end(key, &ring);
		recv_of(&ring, fds[0], 100, 0);
		snprintf(key, sizeof(key), "waits.%zu", i);
		REQUIRE(uring_submit(&ring) == 1);
		note_ready("waits", &ring);
		send_bytes(fds[1], data, 20);
		note_in_order(key, &ring, 1);
	}
}

/*
 * In the kernel, a receive with IORING_RECVSEND_POLL_FIRST starts after a later receive
 * without this flag. In uaio the two receives start in the order of submission.
 */
static void order(void)
{
	static char first[4], second[4];
	struct uring ring = new_uring(8, 0);
	int fds[2];

	memcpy(data, "abcdefgh", 8);
	pair_of(SOCK_STREAM, fds);
	send_bytes(fds[1], data, 8);
	recv_of(&ring, fds[0], 4, 0)->addr = (uintptr_t)first;
	sqe_rw(&ring, IORING_OP_RECV, fds[0], second, 4, 0);
	REQUIRE(uring_submit(&ring) == 2);
	note_cqes("cqe", &ring, 2);
	note("first", first[0]);
	note("second", second[0]);
}

/*
 * A send with IORING_RECVSEND_POLL_FIRST is submitted first, then two sends without
 * this flag. The first one must send its message last.
 */
static void order_of_sends(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	memcpy(data, "abcdefgh", 8);
	pair_of(SOCK_SEQPACKET, fds);
	send_of(&ring, fds[0], 1, 0);
	sqe_rw(&ring, IORING_OP_SEND, fds[0], data, 2, 0);
	sqe_rw(&ring, IORING_OP_WRITE, fds[0], data, 3, 0);
	REQUIRE(uring_submit(&ring) == 3);
	note_cqes("cqe", &ring, 3);
	for (int i = 0; i < 3; i++)
		note("bytes", recv(fds[1], got, sizeof(got), MSG_DONTWAIT));
}

/* Fills a socket until poll() reports no room, although some is left. */
static void fill(const int fds[2])
{
	fill_stream(fds[0], PART);
	for (int i = 0; i < 3; i++)
		REQUIRE(recv(fds[1], got, PART, MSG_WAITALL) == PART);
}

/*
 * A send with IORING_RECVSEND_POLL_FIRST does not delay a later send without this flag.
 */
static void held_up(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	fill(fds);
	send_of(&ring, fds[0], 100, 0);
	sqe_rw(&ring, IORING_OP_SEND, fds[0], data, 100, 0);
	REQUIRE(uring_submit(&ring) == 2);
	note("plain", uring_settle(&ring));
	drain_stream(fds[1]);
	note_cqes("cqe", &ring, 2);
}

/*
 * A cancel request in the same submission must find the send with
 * IORING_RECVSEND_POLL_FIRST.
 */
static void cancelled_at_once(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	fill(fds);
	send_of(&ring, fds[0], 100, 0);
	sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1)->cancel_flags =
		IORING_ASYNC_CANCEL_ANY;
	REQUIRE(uring_submit(&ring) == 2);
	note_cqes("cqe", &ring, 2);
}

static void does_not_wait(void)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	int fds[2], fd = listening(0, &address);

	pair_of(SOCK_STREAM, fds);
	send_bytes(fds[1], data, 10);
	recv_of(&ring, fds[0], 100, MSG_DONTWAIT);
	note_end("recv", &ring);
	recv_of(&ring, fds[0], 100, MSG_DONTWAIT)->flags = IOSQE_ASYNC;
	REQUIRE(uring_submit(&ring) == 1);
	note_in_order("recv.async", &ring, 1);
	send_of(&ring, fds[0], 100, MSG_DONTWAIT);
	note_end("send", &ring);
	accept_of(&ring, fd, ACCEPT_DONTWAIT);
	note_end("accept", &ring);
	(void)call(&address);
	accept_of(&ring, fd, ACCEPT_DONTWAIT);
	note_end("accept.there", &ring);
}

/*
 * Sends with IORING_RECVSEND_POLL_FIRST, on sockets with and without room. While there
 * is room for only a few bytes, poll() does not report POLLOUT.
 */
static void sends(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	send_of(&ring, fds[0], 100, 0);
	note_end("room", &ring);
	REQUIRE(recv(fds[1], got, sizeof(got), 0) == 100);
	fill(fds);
	sqe_rw(&ring, IORING_OP_SEND, fds[0], data, 100, 0);
	note_end("plain", &ring);
	send_of(&ring, fds[0], 100, 0);
	note_end("little", &ring);
	send_of(&ring, fds[0], 0, 0);
	note_end("nothing", &ring);
	send_of(&ring, fds[0], 100, 0);
	REQUIRE(uring_submit(&ring) == 1);
	note_ready("waits", &ring);
	close(fds[1]);
	note_in_order("broken", &ring, 1);
	send_of(&ring, fds[0], 100, 0);
	note_end("again", &ring);
}

static void errors(void)
{
	const struct linger none = { .l_onoff = 1, .l_linger = 0 };
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	int fds[2], fd;

	fd = listening(0, &address);
	recv_of(&ring, fd, 10, 0);
	note_end("listening.recv", &ring);
	send_of(&ring, fd, 10, 0);
	note_end("listening.send", &ring);
	fd = bound_inet(SOCK_STREAM, &address);
	recv_of(&ring, fd, 10, 0);
	note_end("alone.recv", &ring);
	send_of(&ring, fd, 10, 0);
	note_end("alone.send", &ring);
	accept_of(&ring, fd, 0);
	note_end("alone.accept", &ring);
	fd = bound_inet(SOCK_DGRAM, &address);
	accept_of(&ring, fd, 0);
	note_end("udp.accept", &ring);
	send_of(&ring, fd, 10, 0);
	note_end("udp.send", &ring);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	recv_of(&ring, fd, 10, 0);
	note_end("unix.recv", &ring);
	send_of(&ring, fd, 10, 0);
	note_end("unix.send", &ring);
	accept_of(&ring, fd, 0);
	note_end("unix.accept", &ring);
	tcp_pair(fds);
	setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fds[1]);
	recv_of(&ring, fds[0], 10, 0);
	note_end("reset.recv", &ring);
	send_of(&ring, fds[0], 10, 0);
	note_end("reset.send", &ring);
	pair_of(SOCK_STREAM, fds);
	REQUIRE(shutdown(fds[0], SHUT_RDWR) == 0);
	recv_of(&ring, fds[0], 10, 0);
	note_end("shut.recv", &ring);
	send_of(&ring, fds[0], 10, 0);
	note_end("shut.send", &ring);
}

static void urgent(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	recv_of(&ring, fds[0], 10, MSG_OOB);
	note_end("stream", &ring);
	pair_of(SOCK_DGRAM, fds);
	recv_of(&ring, fds[0], 10, MSG_OOB);
	note_end("dgram", &ring);
}

static void low_water(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2], low = 10;

	tcp_pair(fds);
	REQUIRE(setsockopt(fds[0], SOL_SOCKET, SO_RCVLOWAT, &low,
			   sizeof(low)) == 0);
	send_bytes(fds[1], data, 4);
	recv_of(&ring, fds[0], 100, 0);
	note_end("few", &ring);
	/*
	 * Print only whether the receive completes. Its result may be 4 or 14 in the
	 * library, because it depends on when the library polls the socket.
	 */
	recv_of(&ring, fds[0], 100, 0);
	REQUIRE(uring_submit(&ring) == 1);
	send_bytes(fds[1], data, 4);
	send_bytes(fds[1], data, 10);
	note("enough", uring_wait(&ring, 1));
}

static struct io_uring_sqe *shots_of(struct uring *ring, int fd)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_RECV, fd);

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	sqe->ioprio = IORING_RECV_MULTISHOT | IORING_RECVSEND_POLL_FIRST;
	return sqe;
}

static void many_shots(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	/* The first two multishot receives find no provided buffer. */
	shots_of(&ring, fds[0]);
	REQUIRE(uring_submit(&ring) == 1);
	note("no_buffer.waits", uring_settle(&ring));
	send_bytes(fds[1], data, 10);
	note_in_order("no_buffer", &ring, 1);
	shots_of(&ring, fds[0]);
	note_end("no_buffer.there", &ring);
	uring_provide(&ring, GROUP, got, 10, 0, 4);
	shots_of(&ring, fds[0]);
	REQUIRE(uring_submit(&ring) == 1);
	note_ready("ready", &ring);
	note_in_order("there", &ring, 1);
	send_bytes(fds[1], data, 10);
	note_in_order("then", &ring, 1);
	shutdown(fds[1], SHUT_WR);
	note_in_order("end", &ring, 1);
}

/* A single receive that selects a provided buffer. */
static void selects(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	shots_of(&ring, fds[0])->ioprio = IORING_RECVSEND_POLL_FIRST;
	note_end("no_buffer", &ring);
	send_bytes(fds[1], data, 10);
	shots_of(&ring, fds[0])->ioprio = IORING_RECVSEND_POLL_FIRST;
	note_end("no_buffer.there", &ring);
	uring_provide(&ring, GROUP, got, 10, 0, 4);
	shots_of(&ring, fds[0])->ioprio = IORING_RECVSEND_POLL_FIRST;
	note_end("there", &ring);
}

static void accepts_from(int flags)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	struct io_uring_cqe cqe;
	int fd = listening(flags, &address);

	accept_of(&ring, fd, 0);
	note_end("accept.nobody", &ring);
	(void)call(&address);
	accept_of(&ring, fd, 0);
	REQUIRE(uring_submit(&ring) == 1);
	REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
	note("accept.there", cqe.res >= 0);
	accept_of(&ring, fd, IORING_ACCEPT_MULTISHOT);
	REQUIRE(uring_submit(&ring) == 1);
	note("many.waits", uring_settle(&ring));
	(void)call(&address);
	REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
	note("many", cqe.res >= 0);
	note("many.flags", cqe.flags);
}

static void accepts(void)
{
	accepts_from(0);
}

static void accepts_nonblock(void)
{
	accepts_from(SOCK_NONBLOCK);
}

/* Prints an accept's result and flags, but not the number of the new descriptor. */
static void note_accepted(const char *key, struct uring *ring)
{
	struct io_uring_cqe cqe;

	for (bool goes_on = true; goes_on;) {
		while (!uring_settle(ring) && !others_sleep())
			;
		goes_on = uring_settle(ring) && uring_take(ring, &cqe);
		if (!goes_on) {
			note_text(key, "waits");
			break;
		}
		if (cqe.res >= 0)
			cqe.res = 0;
		note_cqe(key, &cqe);
		goes_on = cqe.flags & IORING_CQE_F_MORE;
	}
}

/*
 * A multishot accept with IOSQE_ASYNC. A Unix socket does not report whether it has
 * further connections. On such a socket the request ends after the first connection.
 */
static void accepts_aside(void)
{
	struct uring ring = new_uring(8, 0);

	for (unsigned i = 0; i < 8; i++) {
		const int nonblock = i & 1 ? SOCK_NONBLOCK : 0;
		struct sockaddr_in address;
		struct sockaddr_un local = { .sun_family = AF_UNIX };
		socklen_t bytes = sizeof(local);
		int fd = i & 2 ? socket(AF_UNIX, SOCK_STREAM | nonblock, 0)
			       : listening(nonblock, &address);
		struct io_uring_sqe *sqe = accept_of(
			&ring, fd, IORING_ACCEPT_MULTISHOT | ACCEPT_DONTWAIT);

		if (i & 2)
			REQUIRE(bind(fd, (void *)&local, sizeof(sa_family_t)) ==
					0 &&
				getsockname(fd, (void *)&local, &bytes) == 0 &&
				listen(fd, 4) == 0);
		sqe->flags = IOSQE_ASYNC;
		if (i & 4)
			sqe->ioprio &= (uint16_t)~ACCEPT_POLL_FIRST;
		REQUIRE(uring_submit(&ring) == 1);
		note_accepted("nobody", &ring);
		if (i & 2)
			REQUIRE(connect(socket(AF_UNIX, SOCK_STREAM, 0),
					(void *)&local, bytes) == 0);
		else
			(void)call(&address);
		REQUIRE(uring_wait(&ring, 1));
		note_accepted("one", &ring);
		sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1)->cancel_flags =
			IORING_ASYNC_CANCEL_ANY;
		note_result("cancel", uring_submit_wait(&ring, 1));
		uring_wait(&ring, i & 2 ? 1 : 2);
		*ring.cq_head = *ring.cq_tail;
		close(fd);
	}
}

static void messages(void)
{
	struct iovec iov = { got, 10 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	int fds[2], fd = listening(0, &address);

	pair_of(SOCK_STREAM, fds);
	sqe_rw(&ring, IORING_OP_SENDMSG, fds[0], &msg, 1, 0)->ioprio =
		IORING_RECVSEND_POLL_FIRST;
	note_end("send", &ring);
	sqe_rw(&ring, IORING_OP_RECVMSG, fds[1], &msg, 1, 0)->ioprio =
		IORING_RECVSEND_POLL_FIRST;
	note_end("recv", &ring);
	sqe_rw(&ring, IORING_OP_RECVMSG, fds[1], &msg, 1, 0)->ioprio =
		IORING_RECVSEND_POLL_FIRST;
	note_end("waits", &ring);
	sqe_rw(&ring, IORING_OP_RECVMSG, fd, &msg, 1, 0)->ioprio =
		IORING_RECVSEND_POLL_FIRST;
	note_end("listening", &ring);
}

static void in_a_chain(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	send_bytes(fds[1], data, 10);
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
	recv_of(&ring, fds[0], 10, 0)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("there", &ring, 3);
	recv_of(&ring, fds[0], 10, MSG_DONTWAIT)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("dontwait", &ring, 2);
}

#define ORDER                             \
	{ "first=101", "first=97" },      \
	{                                 \
		"second=97", "second=101" \
	}
#define LOW_WATER                         \
	{ "few.ready=0", "few.ready=1" }, \
	{                                 \
		"few=waits", "few=4"      \
	}
#define URGENT                                        \
	{ "stream.ready=0", "stream.ready=1" },       \
		{ "stream=waits", "stream=EINVAL" },  \
		{ "dgram.ready=0", "dgram.ready=1" }, \
	{                                             \
		"dgram=waits", "dgram=EOPNOTSUPP"     \
	}

const struct row rows_uring_first[] = {
	ROW("a receive polls first", receives),
	ROW_DIFFERS("one that polls first begins behind another", order,
		    differs_ring_first, ORDER),
	ROW("a send that polls first begins behind others", order_of_sends),
	ROW("a send that polls first holds up none of its submission", held_up),
	ROW("a send that polls first is cancelled at once", cancelled_at_once),
	ROW("one that polls first must not wait", does_not_wait),
	ROW("a send polls first", sends),
	ROW("failing requests poll first", errors),
	ROW_DIFFERS("a receive of urgent data polls first", urgent,
		    differs_ring_first, URGENT),
	ROW_DIFFERS("a receive polls first, and SO_RCVLOWAT", low_water,
		    differs_low_water, LOW_WATER),
	ROW("a multishot receive polls first", many_shots),
	ROW("a receive that selects polls first", selects),
	ROW("an accept polls first", accepts),
	ROW("an accept polls first, O_NONBLOCK", accepts_nonblock),
	ROW("a multishot accept polls first, and must not wait", accepts_aside),
	ROW("messages poll first", messages),
	ROW("one that polls first, in a chain", in_a_chain),
	NO_ROW,
};
