/* SPDX-License-Identifier: MIT */
/*
 * IORING_CQE_F_SOCK_NONEMPTY: by this flag, the completion of a receive reports that
 * the socket has more data
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "differences.h"
#include "sockets.h"
#include "uring.h"

enum { GROUP = 5, BUFFERS = 8, BYTES = 10, HEAD = 16 };

static char data[256], got[256], memory[BUFFERS][BYTES + HEAD];

enum kind { TCP, STREAM, DGRAM, SEQPACKET, UDP, NR_KINDS };

static const char *const names[NR_KINDS] = { "tcp", "stream", "dgram",
					     "seqpacket", "udp" };

static void udp_pair(int fds[2])
{
	struct sockaddr_in first, second;

	fds[0] = bound_inet(SOCK_DGRAM, &first);
	fds[1] = bound_inet(SOCK_DGRAM, &second);
	REQUIRE(connect(fds[0], (void *)&second, sizeof(second)) == 0);
	REQUIRE(connect(fds[1], (void *)&first, sizeof(first)) == 0);
}

static void connected(enum kind kind, int fds[2])
{
	static const int types[] = { [STREAM] = SOCK_STREAM,
				     [DGRAM] = SOCK_DGRAM,
				     [SEQPACKET] = SOCK_SEQPACKET };

	if (kind == TCP)
		tcp_pair(fds);
	else if (kind == UDP)
		udp_pair(fds);
	else
		pair_of(types[kind], fds);
}

static void note_hint(const char *key, const struct io_uring_cqe *cqe)
{
	char text[64];

	snprintf(text, sizeof(text), "%s%d%s%s", cqe->res < 0 ? "-" : "",
		 cqe->res < 0 ? -cqe->res : cqe->res,
		 cqe->flags & IORING_CQE_F_SOCK_NONEMPTY ? ",nonempty" : "",
		 cqe->flags & IORING_CQE_F_MORE ? ",more" : "");
	note_text(key, text);
}

static void take_hint(const char *name, const char *key, struct uring *ring)
{
	struct io_uring_cqe cqe;
	char whole[64];

	snprintf(whole, sizeof(whole), "%s.%s", name, key);
	if (uring_wait(ring, 1) && uring_take(ring, &cqe))
		note_hint(whole, &cqe);
	else
		note_text(whole, "none");
}

/* The operation that receives from the socket. */
enum way { RECV, RECVMSG, READ, NR_WAYS };

static void submit(struct uring *ring, enum way way, int fd, size_t len,
		   uint32_t flags)
{
	static struct iovec iov;
	static struct msghdr msg;
	struct io_uring_sqe *sqe;

	if (way == RECVMSG) {
		iov = (struct iovec){ got, len };
		msg = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 };
		sqe = sqe_rw(ring, IORING_OP_RECVMSG, fd, &msg, 1, 0);
	} else {
		sqe = sqe_rw(ring,
			     way == READ ? IORING_OP_READ : IORING_OP_RECV, fd,
			     got, len, 0);
	}
	sqe->msg_flags = flags;
	REQUIRE(uring_submit(ring) == 1);
}

static void receive(const char *name, const char *key, struct uring *ring,
		    enum way way, int fd, size_t len, uint32_t flags)
{
	submit(ring, way, fd, len, flags);
	take_hint(name, key, ring);
}

/*
 * Receives from a socket that contains fewer bytes than the receive asks for, just as
 * many, or more.
 */
static void receives_from(enum kind kind, enum way way)
{
	const char *name = names[kind];
	struct uring ring = new_uring(8, 0);
	int fds[2];

	connected(kind, fds);
	send_bytes(fds[1], data, 10);
	receive(name, "less", &ring, way, fds[0], 100, 0);
	send_bytes(fds[1], data, 10);
	receive(name, "as_much", &ring, way, fds[0], 10, 0);
	send_bytes(fds[1], data, 10);
	send_bytes(fds[1], data, 10);
	receive(name, "more", &ring, way, fds[0], 10, 0);
	receive(name, "then", &ring, way, fds[0], 4, 0);
	receive(name, "nothing", &ring, way, fds[0], 10,
		way == READ ? RWF_NOWAIT : MSG_DONTWAIT);
	/* Now submit a receive that waits until data arrives. */
	submit(&ring, way, fds[0], 10, 0);
	send_bytes(fds[1], data, 10);
	take_hint(name, "waited", &ring);
	submit(&ring, way, fds[0], 10, 0);
	send_bytes(fds[1], data, 20);
	take_hint(name, "waited.more", &ring);
}

static void receives(void)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++)
		receives_from(kind, RECV);
}

static void messages(void)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++)
		receives_from(kind, RECVMSG);
}

static void reads(void)
{
	for (enum kind kind = 0; kind < SEQPACKET; kind++)
		receives_from(kind, READ);
}

static void with_flags(void)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++) {
		const char *name = names[kind];
		struct uring ring = new_uring(8, 0);
		int fds[2];

		connected(kind, fds);
		send_bytes(fds[1], data, 20);
		receive(name, "peek", &ring, RECV, fds[0], 10, MSG_PEEK);
		receive(name, "peek.all", &ring, RECV, fds[0], 20, MSG_PEEK);
		receive(name, "peek.less", &ring, RECV, fds[0], 30, MSG_PEEK);
		receive(name, "trunc", &ring, RECV, fds[0], 10, MSG_TRUNC);
		send_bytes(fds[1], data, 10);
		send_bytes(fds[1], data, 10);
		send_bytes(fds[1], data, 10);
		receive(name, "all", &ring, RECV, fds[0], 10, MSG_WAITALL);
		receive(name, "none", &ring, RECV, fds[0], 0, 0);
		receive(name, "dontwait", &ring, RECV, fds[0], 5, MSG_DONTWAIT);
	}
}

/*
 * The data that a receive with MSG_WAITALL requests arrives in two parts. For the
 * second receive, more data arrives than it requests.
 */
static void all_in_parts(void)
{
	for (enum kind kind = TCP; kind <= STREAM; kind++) {
		const char *name = names[kind];
		struct uring ring = new_uring(8, 0);
		int fds[2];

		connected(kind, fds);
		send_bytes(fds[1], data, 10);
		submit(&ring, RECV, fds[0], 20, MSG_WAITALL);
		send_bytes(fds[1], data, 10);
		take_hint(name, "as_much", &ring);
		send_bytes(fds[1], data, 10);
		submit(&ring, RECV, fds[0], 20, MSG_WAITALL);
		send_bytes(fds[1], data, 20);
		take_hint(name, "more", &ring);
	}
}

static void ends(void)
{
	for (enum kind kind = TCP; kind <= STREAM; kind++) {
		const char *name = names[kind];
		struct uring ring = new_uring(8, 0);
		int fds[2];

		connected(kind, fds);
		send_bytes(fds[1], data, 20);
		REQUIRE(shutdown(fds[1], SHUT_WR) == 0);
		receive(name, "more", &ring, RECV, fds[0], 10, 0);
		receive(name, "as_much", &ring, RECV, fds[0], 10, 0);
		receive(name, "end", &ring, RECV, fds[0], 10, 0);
		receive(name, "again", &ring, RECVMSG, fds[0], 10, 0);
		connected(kind, fds);
		send_bytes(fds[1], data, 10);
		REQUIRE(shutdown(fds[1], SHUT_WR) == 0);
		receive(name, "less", &ring, RECV, fds[0], 100, 0);
	}
}

static struct io_uring_sqe *selecting(struct uring *ring, int op, int fd)
{
	struct io_uring_sqe *sqe = sqe_of(ring, op, fd);

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	return sqe;
}

static void provide(struct uring *ring, size_t bytes)
{
	for (int i = 0; i < BUFFERS; i++)
		uring_provide(ring, GROUP, memory[i], bytes, i, 1);
}

static void selected(void)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++) {
		const char *name = names[kind];
		struct uring ring = new_uring(8, 0);
		int fds[2];

		connected(kind, fds);
		provide(&ring, BYTES);
		send_bytes(fds[1], data, 5);
		(void)selecting(&ring, IORING_OP_RECV, fds[0]);
		REQUIRE(uring_submit(&ring) == 1);
		take_hint(name, "less", &ring);
		send_bytes(fds[1], data, 10);
		send_bytes(fds[1], data, 10);
		(void)selecting(&ring, IORING_OP_RECV, fds[0]);
		REQUIRE(uring_submit(&ring) == 1);
		take_hint(name, "more", &ring);
		(void)selecting(&ring, IORING_OP_RECV, fds[0]);
		REQUIRE(uring_submit(&ring) == 1);
		take_hint(name, "as_much", &ring);
	}
}

static void many_shots(void)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++) {
		const char *name = names[kind];
		struct uring ring = new_uring(8, 0);
		int fds[2];

		connected(kind, fds);
		provide(&ring, BYTES);
		send_bytes(fds[1], data, 10);
		send_bytes(fds[1], data, 10);
		send_bytes(fds[1], data, 5);
		selecting(&ring, IORING_OP_RECV, fds[0])->ioprio =
			IORING_RECV_MULTISHOT;
		REQUIRE(uring_submit(&ring) == 1);
		take_hint(name, "first", &ring);
		take_hint(name, "second", &ring);
		take_hint(name, "less", &ring);
		send_bytes(fds[1], data, 10);
		take_hint(name, "as_much", &ring);
		REQUIRE(kind == DGRAM || kind == UDP ||
			shutdown(fds[1], SHUT_WR) == 0);
		if (kind != DGRAM && kind != UDP)
			take_hint(name, "end", &ring);
	}
}

/*
 * All data has arrived before the first shot (completion) of a multishot receive. The
 * first shot returns only a part of the data. The other part follows an urgent mark, or
 * is less than SO_RCVLOWAT, so the library's epoll reports no edge for it.
 */
static void shots_of_parts(void)
{
	static const struct {
		const char *key;
		size_t first, second;
		int low, has_mark;
	} cases[] = {
		{ "as_much", 10, 10, 1, 1 },
		{ "less", 5, 10, 1, 1 },
		{ "few", 10, 5, 15, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct uring ring = new_uring(8, 0);
		struct io_uring_cqe cqe;
		size_t nr = 0;
		int fds[2];

		connected(TCP, fds);
		REQUIRE(setsockopt(fds[0], SOL_SOCKET, SO_RCVLOWAT,
				   &cases[i].low, sizeof(int)) == 0);
		provide(&ring, BYTES);
		send_bytes(fds[1], data, cases[i].first);
		REQUIRE(!cases[i].has_mark ||
			send(fds[1], data, 1, MSG_OOB) == 1);
		send_bytes(fds[1], data, cases[i].second);
		selecting(&ring, IORING_OP_RECV, fds[0])->ioprio =
			IORING_RECV_MULTISHOT;
		REQUIRE(uring_submit(&ring) == 1);
		while (nr < cases[i].first + cases[i].second &&
		       uring_wait(&ring, 1) && uring_take(&ring, &cqe) &&
		       cqe.res > 0)
			nr += (size_t)cqe.res;
		note(cases[i].key, (long)nr);
	}
}

/*
 * When no provided buffer is left, a multishot receive ends with ENOBUFS. This last
 * completion lacks IORING_CQE_F_SOCK_NONEMPTY.
 */
static void no_room_for_more(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	uring_provide(&ring, GROUP, memory[0], BYTES, 0, 1);
	send_bytes(fds[1], data, 20);
	selecting(&ring, IORING_OP_RECV, fds[0])->ioprio =
		IORING_RECV_MULTISHOT;
	REQUIRE(uring_submit(&ring) == 1);
	take_hint("cqe", "first", &ring);
	take_hint("cqe", "last", &ring);
}

/*
 * A multishot RECVMSG: each message fills one buffer, after a header of 16 bytes.
 */
static void many_messages(void)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++) {
		const char *name = names[kind];
		struct uring ring = new_uring(8, 0);
		struct msghdr msg = { 0 };
		struct io_uring_sqe *sqe;
		int fds[2];

		connected(kind, fds);
		provide(&ring, BYTES + HEAD);
		send_bytes(fds[1], data, 10);
		send_bytes(fds[1], data, 10);
		send_bytes(fds[1], data, 5);
		sqe = selecting(&ring, IORING_OP_RECVMSG, fds[0]);
		sqe->ioprio = IORING_RECV_MULTISHOT;
		sqe->addr = (uintptr_t)&msg;
		sqe->len = 1;
		REQUIRE(uring_submit(&ring) == 1);
		take_hint(name, "first", &ring);
		take_hint(name, "second", &ring);
		take_hint(name, "less", &ring);
		send_bytes(fds[1], data, 10);
		take_hint(name, "as_much", &ring);
	}
}

/*
 * Several receives wait, each on its own socket. Then each socket gets fewer bytes than
 * its receive asks for, as many, or more.
 */
static void many_at_once(void)
{
	enum { NR = 9 };

	for (enum kind kind = TCP; kind <= STREAM; kind++) {
		struct uring ring = new_uring(16, 0);
		struct io_uring_cqe cqe, cqes[NR] = { 0 };
		int fds[NR][2];
		char key[32];

		for (int i = 0; i < NR; i++) {
			connected(kind, fds[i]);
			sqe_rw(&ring, IORING_OP_RECV, fds[i][0], got, 10, 0)
				->user_data = (uint64_t)i;
		}
		REQUIRE(uring_submit(&ring) == NR);
		for (int i = 0; i < NR; i++)
			send_bytes(fds[i][1], data,
				   i % 3 ? (size_t)(i % 3) * 10 : 5);
		for (int i = 0; i < NR; i++) {
			REQUIRE(uring_wait(&ring, 1) &&
				uring_take(&ring, &cqe) && cqe.user_data < NR);
			cqes[cqe.user_data] = cqe;
		}
		for (int i = 0; i < NR; i++) {
			snprintf(key, sizeof(key), "%s.%d", names[kind], i);
			note_hint(key, &cqes[i]);
		}
	}
}

/*
 * Each receive returns all data of its socket, whose peer has shut down sending. Prints
 * whether the completion nevertheless has IORING_CQE_F_SOCK_NONEMPTY.
 */
static void shut_at_once(void)
{
	enum { NR = 4 };
	struct uring ring = new_uring(16, 0);
	int fds[NR][2];

	for (int i = 0; i < NR; i++) {
		connected(STREAM, fds[i]);
		submit(&ring, RECV, fds[i][0], 10, 0);
	}
	for (int i = 0; i < NR; i++) {
		send_bytes(fds[i][1], data, 10);
		REQUIRE(shutdown(fds[i][1], SHUT_WR) == 0);
	}
	for (int i = 0; i < NR; i++)
		take_hint(names[STREAM], "shut", &ring);
}

/*
 * Two receives wait on one socket: the second gets the data that the first leaves.
 */
static void two_of_one_socket(void)
{
	for (enum kind kind = TCP; kind <= STREAM; kind++) {
		struct uring ring = new_uring(16, 0);
		char key[32];
		int fds[2];

		connected(kind, fds);
		submit(&ring, RECV, fds[0], 10, 0);
		submit(&ring, RECV, fds[0], 10, 0);
		send_bytes(fds[1], data, 20);
		for (int i = 0; i < 2; i++) {
			snprintf(key, sizeof(key), "two.%d", i);
			take_hint(names[kind], key, &ring);
		}
	}
}

/*
 * The socket has 20 bytes, but only the first 15 bytes of the receive's buffer are
 * accessible.
 */
static void memory_ends(struct uring *ring)
{
	char *pages = pages_of(8192, PROT_READ | PROT_WRITE);
	int fds[2];

	REQUIRE(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
	pair_of(SOCK_STREAM, fds);
	send_bytes(fds[1], data, 10);
	send_bytes(fds[1], data, 10);
	sqe_rw(ring, IORING_OP_RECV, fds[0], pages + 4096 - 15, 100, 0);
	uring_submit(ring);
	take_hint("memory", "ends", ring);
}

/*
 * A receive does not return all data of the socket: the remaining data follows an
 * urgent mark, or was sent with descriptors.
 */
static void parts_of_a_stream(void)
{
	struct uring ring = new_uring(8, 0);
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { data, 10 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control.room) };
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&control.head), &fds[1], sizeof(int));
	REQUIRE(sendmsg(fds[1], &msg, 0) == 10);
	REQUIRE(sendmsg(fds[1], &msg, 0) == 10);
	receive("descriptors", "first", &ring, RECV, fds[0], 100, 0);
	receive("descriptors", "second", &ring, RECV, fds[0], 100, 0);
	tcp_pair(fds);
	send_bytes(fds[1], data, 10);
	REQUIRE(send(fds[1], data, 1, MSG_OOB) == 1);
	send_bytes(fds[1], data, 10);
	receive("mark", "before", &ring, RECV, fds[0], 100, 0);
	receive("mark", "byte", &ring, RECV, fds[0], 1, MSG_OOB);
	receive("mark", "after", &ring, RECV, fds[0], 100, 0);
	memory_ends(&ring);
}

#define END                                                \
	{ "tcp.as_much=10,nonempty", "tcp.as_much=10" },   \
		{ "tcp.end=0,nonempty", "tcp.end=0" },     \
		{ "tcp.again=0,nonempty", "tcp.again=0" }, \
	{                                                  \
		"tcp.less=10,nonempty", "tcp.less=10"      \
	}
#define LAST_SHOT                                 \
	{                                         \
		"tcp.end=0,nonempty", "tcp.end=0" \
	}
#define PARTS                                                        \
	{ "descriptors.first=10,nonempty", "descriptors.first=10" }, \
		{ "memory.ends=10,nonempty", "memory.ends=10" },     \
		{ "mark.before=10,nonempty", "mark.before=10" },     \
	{                                                            \
		"mark.byte=1,nonempty", "mark.byte=1"                \
	}

const struct row rows_uring_hint[] = {
	ROW("less, as much or more is there to be received", receives),
	ROW("the hint of messages", messages),
	ROW("the hint of reads", reads),
	ROW("receives with flags", with_flags),
	ROW("MSG_WAITALL, and there is more", all_in_parts),
	ROW_DIFFERS("more before the end", ends, differs_ring_hint, END),
	ROW("more than a selected buffer holds", selected),
	ROW_DIFFERS("more than a shot has received", many_shots,
		    differs_ring_hint, LAST_SHOT),
	ROW("more behind a mark than a shot has received", shots_of_parts),
	ROW("more than there are buffers for", no_room_for_more),
	ROW("more than one of many messages", many_messages),
	ROW("less, as much or more for many that wait", many_at_once),
	ROW("as much for many that wait, and no more to come", shut_at_once),
	ROW("as much for two that wait for one socket", two_of_one_socket),
	ROW_DIFFERS("more behind a mark, descriptors or the end of memory",
		    parts_of_a_stream, differs_ring_hint, PARTS),
	NO_ROW,
};
