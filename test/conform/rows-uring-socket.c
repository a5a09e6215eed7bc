/* SPDX-License-Identifier: MIT */
/* Requests on sockets: they wait, data arrives in parts, and connections end */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pty.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "differences.h"
#include "sockets.h"
#include "streams.h"
#include "uring.h"

/* Flags that older headers lack. */
#define ACCEPT_DONTWAIT (1u << 1)

enum { LARGE = 4 << 20, PART = 64 << 10 };

static char data[LARGE], got[LARGE];

static struct io_uring_sqe *recv_of(struct uring *ring, int fd, size_t len,
				    uint32_t flags)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_RECV, fd, got, len, 0);

	sqe->msg_flags = flags;
	return sqe;
}

static struct io_uring_sqe *send_of(struct uring *ring, int fd, size_t len,
				    uint32_t flags)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_SEND, fd, data, len, 0);

	sqe->msg_flags = flags;
	return sqe;
}

static void drain_socket(int fd, size_t len)
{
	/* Repeat after EINTR: the kernel's io_uring may interrupt this recv(). */
	while (len) {
		ssize_t part = recv(fd, got, len, 0);

		REQUIRE(part > 0);
		len -= (size_t)part;
	}
}

/* A receive completes at once if there is data, otherwise when data arrives. */
static void receives(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
	char key[32];

	for (size_t i = 0; i < 3; i++) {
		struct uring ring = new_uring(8, 0);
		int fds[2];

		pair_of(types[i], fds);
		send_bytes(fds[1], data, 10);
		recv_of(&ring, fds[0], 4, 0);
		snprintf(key, sizeof(key), "there.%zu", i);
		try_sqe(key, &ring);
		recv_of(&ring, fds[0], 100, 0);
		note_result("submit", uring_submit(&ring));
		if (types[i] != SOCK_STREAM)
			send_bytes(fds[1], data, 20);
		snprintf(key, sizeof(key), "waits.%zu", i);
		note_in_order(key, &ring, 1);
	}
}

static void ends(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	recv_of(&ring, fds[0], 10, 0);
	note_result("submit", uring_submit(&ring));
	note_ready("waits", &ring);
	shutdown(fds[1], SHUT_WR);
	note_in_order("end", &ring, 1);
	recv_of(&ring, fds[0], 10, 0);
	try_sqe("again", &ring);
	close(fds[1]);
	send_of(&ring, fds[0], 10, 0);
	try_sqe("send", &ring);
}

static void own_shutdown(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int fds[2];

	tcp_pair(fds);
	recv_of(&ring, fds[0], 10, 0);
	note_result("submit", uring_submit(&ring));
	sqe = sqe_of(&ring, IORING_OP_SHUTDOWN, fds[0]);
	sqe->len = SHUT_RDWR;
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
	sqe = sqe_of(&ring, IORING_OP_SHUTDOWN, fds[0]);
	sqe->len = 7;
	try_sqe("bad_how", &ring);
}

static void reset(void)
{
	const struct linger none = { .l_onoff = 1, .l_linger = 0 };
	struct uring ring = new_uring(8, 0);
	int fds[2];

	tcp_pair(fds);
	recv_of(&ring, fds[0], 10, 0);
	note_result("submit", uring_submit(&ring));
	setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fds[1]);
	note_in_order("cqe", &ring, 1);
	send_of(&ring, fds[0], 10, 0);
	try_sqe("send", &ring);
}

static void all_of_it(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	tcp_pair(fds);
	recv_of(&ring, fds[0], 100, MSG_WAITALL);
	note_result("submit", uring_submit(&ring));
	send_bytes(fds[1], data, 40);
	note("before", uring_settle(&ring));
	send_bytes(fds[1], data, 70);
	note_in_order("cqe", &ring, 1);
	recv_of(&ring, fds[0], 100, MSG_WAITALL);
	note_result("submit", uring_submit(&ring));
	send_bytes(fds[1], data, 5);
	shutdown(fds[1], SHUT_WR);
	note_in_order("less", &ring, 1);
}

/* A short receive breaks its chain only with MSG_WAITALL. */
static void parts_in_chains(void)
{
	for (uint32_t flags = 0; flags <= MSG_WAITALL; flags += MSG_WAITALL) {
		struct uring ring = new_uring(8, 0);
		int fds[2];

		tcp_pair(fds);
		send_bytes(fds[1], data, 5);
		shutdown(fds[1], SHUT_WR);
		recv_of(&ring, fds[0], 100, flags)->flags = IOSQE_IO_LINK;
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_result("submit", uring_submit(&ring));
		note_cqes(flags ? "waitall" : "plain", &ring, 2);
	}
}

static void sends_all(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	tcp_pair(fds);
	send_of(&ring, fds[0], LARGE, MSG_WAITALL);
	note_result("submit", uring_submit(&ring));
	drain_socket(fds[1], LARGE);
	note_in_order("cqe", &ring, 1);
}

static void does_not_wait(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	recv_of(&ring, fds[0], 10, MSG_DONTWAIT);
	try_sqe("recv", &ring);
	fill_stream(fds[0], PART);
	send_of(&ring, fds[0], PART, MSG_DONTWAIT);
	try_sqe("send", &ring);
	send_of(&ring, fds[0], 10, 0);
	note_result("submit", uring_submit(&ring));
	note_ready("waits", &ring);
	close(fds[1]);
	note_in_order("cqe", &ring, 1);
}

/* Neither O_NONBLOCK nor a socket's timeouts end a request that waits. */
static void o_nonblock_and_timeouts(void)
{
	const struct timeval soon = { .tv_usec = 1000 };
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM | SOCK_NONBLOCK, fds);
	setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	recv_of(&ring, fds[0], 10, 0);
	note_result("submit", uring_submit(&ring));
	usleep(20000);
	note("before", uring_settle(&ring));
	send_bytes(fds[1], data, 3);
	note_in_order("recv", &ring, 1);
	REQUIRE(fcntl(fds[0], F_SETFL, 0) == 0);
	sqe_rw(&ring, IORING_OP_READ, fds[0], got, 10, 0);
	note_result("submit", uring_submit(&ring));
	usleep(20000);
	note("before", uring_settle(&ring));
	send_bytes(fds[1], data, 4);
	note_in_order("read", &ring, 1);
}

/* The first of two receives gets the first byte, though F_SETFL comes between them. */
static void receives_in_order(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	sqe_rw(&ring, IORING_OP_RECV, fds[0], got, 1, 0);
	note_result("submit", uring_submit(&ring));
	REQUIRE(fcntl(fds[0], F_SETFL, fcntl(fds[0], F_GETFL)) == 0);
	send_bytes(fds[1], "A", 1);
	sqe_rw(&ring, IORING_OP_RECV, fds[0], got + 1, 1, 0);
	note_result("submit", uring_submit(&ring));
	send_bytes(fds[1], "B", 1);
	note_cqes("cqe", &ring, 2);
	note_text("got", got);
}

static void peeks(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_DGRAM, fds);
	send_bytes(fds[1], data, 50);
	recv_of(&ring, fds[0], 10, MSG_PEEK);
	try_sqe("peek", &ring);
	recv_of(&ring, fds[0], 10, MSG_PEEK | MSG_TRUNC);
	try_sqe("trunc", &ring);
	recv_of(&ring, fds[0], 100, 0);
	try_sqe("then", &ring);
	recv_of(&ring, fds[0], 10, MSG_OOB);
	try_sqe("oob", &ring);
}

/* SENDTO, SENDMSG and RECVMSG */

static void to_an_address(void)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address, other;
	int to = bound_inet(SOCK_DGRAM, &address);
	int from = bound_inet(SOCK_DGRAM, &other);
	struct io_uring_sqe *sqe;

	sqe = send_of(&ring, from, 30, 0);
	sqe->addr2 = (uintptr_t)&address;
	sqe->addr_len = sizeof(address);
	try_sqe("send", &ring);
	note("got", recv(to, got, 100, 0));
	sqe = send_of(&ring, from, 30, 0);
	sqe->addr2 = (uintptr_t)&address;
	sqe->addr_len = 200;
	try_sqe("long", &ring);
	sqe = send_of(&ring, from, 30, 0);
	sqe->addr2 = 1;
	sqe->addr_len = sizeof(address);
	try_sqe("bad", &ring);
	send_of(&ring, from, 30, 0);
	try_sqe("without", &ring);
}

static void messages(void)
{
	struct iovec iov[2] = { { data, 10 }, { data + 10, 20 } };
	struct iovec into[2] = { { got, 5 }, { got + 5, 10 } };
	struct sockaddr_in address, other, sender = { 0 };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	struct uring ring = new_uring(8, 0);
	int to = bound_inet(SOCK_DGRAM, &address);
	int from = bound_inet(SOCK_DGRAM, &other);
	struct msghdr in = { .msg_iov = into, .msg_iovlen = 2 };

	memset(data, 'x', 30);
	msg.msg_name = &address;
	msg.msg_namelen = sizeof(address);
	in.msg_name = &sender;
	in.msg_namelen = sizeof(sender);
	sqe_rw(&ring, IORING_OP_RECVMSG, to, &in, 1, 0);
	note_result("submit", uring_submit(&ring));
	/*
	 * Change the header, which must have no effect: the kernel has already read it.
	 */
	in.msg_iov = NULL;
	in.msg_namelen = 7;
	sqe_rw(&ring, IORING_OP_SENDMSG, from, &msg, 1, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
	note("namelen", in.msg_namelen);
	note("flags", in.msg_flags);
	note("controllen", (long)in.msg_controllen);
	note("is_sender", sender.sin_port == other.sin_port);
	msg.msg_iovlen = 2000;
	sqe_rw(&ring, IORING_OP_SENDMSG, from, &msg, 1, 0);
	try_sqe("many", &ring);
	msg.msg_iovlen = 2;
	msg.msg_iov = (void *)1;
	sqe_rw(&ring, IORING_OP_SENDMSG, from, &msg, 1, 0);
	try_sqe("bad_iov", &ring);
	msg.msg_iov = iov;
	iov[0].iov_len = (size_t)-1;
	sqe_rw(&ring, IORING_OP_SENDMSG, from, &msg, 1, 0);
	try_sqe("negative", &ring);
	iov[0].iov_len = 10;
	msg.msg_namelen = (socklen_t)-1;
	sqe_rw(&ring, IORING_OP_SENDMSG, from, &msg, 1, 0);
	try_sqe("negative_name", &ring);
	msg.msg_namelen = 1000;
	sqe_rw(&ring, IORING_OP_SENDMSG, from, &msg, 1, 0);
	try_sqe("long_name", &ring);
}

/*
 * Receives of data do not report the socket's errors. Receives with MSG_ERRQUEUE do not
 * return data.
 */
static void errors_and_data(void)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address, closed;
	int fd = bound_inet(SOCK_DGRAM, &address), one = 1, other;
	struct iovec iov = { got, 5 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	other = bound_inet(SOCK_DGRAM, &closed);
	close(other);
	REQUIRE(setsockopt(fd, SOL_IP, IP_RECVERR, &one, sizeof(one)) == 0);
	sqe_rw(&ring, IORING_OP_RECVMSG, fd, &msg, 1, 0)->msg_flags =
		MSG_ERRQUEUE;
	note_result("submit", uring_submit(&ring));
	note("waits", uring_settle(&ring));
	recv_of(&ring, fd, 10, 0);
	note_result("submit", uring_submit(&ring));
	REQUIRE(sendto(fd, data, 7, 0, (void *)&address, sizeof(address)) == 7);
	note_in_order("data", &ring, 1);
	REQUIRE(sendto(fd, data, 3, 0, (void *)&closed, sizeof(closed)) == 3);
	note_in_order("error", &ring, 1);
	note("flags", msg.msg_flags);
	REQUIRE(sendto(fd, data, 2, 0, (void *)&closed, sizeof(closed)) == 2);
	sqe_rw(&ring, IORING_OP_RECVMSG, fd, &msg, 1, 0)->msg_flags =
		MSG_ERRQUEUE;
	try_sqe("there", &ring);
}

static void descriptors(void)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} out = { 0 }, in = { 0 };
	struct iovec iov = { data, 1 }, into = { got, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct msghdr header = { .msg_iov = &into, .msg_iovlen = 1 };
	struct uring ring = new_uring(8, 0);
	int fds[2], passed[2], fd;

	pair_of(SOCK_STREAM, fds);
	REQUIRE(pipe(passed) == 0);
	out.head.cmsg_len = CMSG_LEN(sizeof(int));
	out.head.cmsg_level = SOL_SOCKET;
	out.head.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&out.head), &passed[1], sizeof(int));
	msg.msg_control = &out;
	msg.msg_controllen = sizeof(out.room);
	header.msg_control = &in;
	header.msg_controllen = sizeof(in.room);
	sqe_rw(&ring, IORING_OP_RECVMSG, fds[0], &header, 1, 0);
	note_result("submit", uring_submit(&ring));
	sqe_rw(&ring, IORING_OP_SENDMSG, fds[1], &msg, 1, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
	note("controllen", (long)header.msg_controllen);
	memcpy(&fd, CMSG_DATA(&in.head), sizeof(int));
	note("writes", write(fd, "abc", 3));
	note("reads", read(passed[0], got, 10));
}

/* A received message, with or without room for control data. */
struct received {
	struct msghdr header;
	struct iovec iov;
	union {
		struct cmsghdr head;
		char room[64];
	} control;
};

static struct io_uring_sqe *recvmsg_of(struct uring *ring, int fd,
				       struct received *into, size_t room,
				       uint32_t flags)
{
	struct io_uring_sqe *sqe;

	memset(into, 0, sizeof(*into));
	into->iov = (struct iovec){ got, 100 };
	into->header.msg_iov = &into->iov;
	into->header.msg_iovlen = 1;
	into->header.msg_control = room ? &into->control : NULL;
	into->header.msg_controllen = room;
	sqe = sqe_rw(ring, IORING_OP_RECVMSG, fd, &into->header, 1, 0);
	sqe->msg_flags = flags;
	return sqe;
}

/*
 * Prints msg_controllen and msg_flags of the received message. Closes the descriptor
 * that the message carries.
 */
static void note_message(const char *key, const struct received *message)
{
	const struct cmsghdr *head = &message->control.head;
	char text[64];

	snprintf(text, sizeof(text), "controllen:%zu,flags:%#x",
		 (size_t)message->header.msg_controllen,
		 (unsigned)message->header.msg_flags);
	note_text(key, text);
	if (message->header.msg_controllen >= CMSG_LEN(sizeof(int))) {
		int fd;

		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
		note("closed", close(fd));
	}
}

/* Sends some bytes together with a descriptor. */
static void put_with_fd(int fd, size_t len)
{
	struct received out = { .iov = { data, len } };

	out.header.msg_iov = &out.iov;
	out.header.msg_iovlen = 1;
	out.header.msg_control = &out.control;
	out.header.msg_controllen = CMSG_SPACE(sizeof(int));
	out.control.head.cmsg_len = CMSG_LEN(sizeof(int));
	out.control.head.cmsg_level = SOL_SOCKET;
	out.control.head.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&out.control.head), &fd, sizeof(int));
	REQUIRE(sendmsg(fd, &out.header, 0) == (ssize_t)len);
}

/*
 * A RECVMSG with MSG_WAITALL and space for control data completes with the first data,
 * because later data could have other control data.
 */
static void all_of_messages(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
	static const uint32_t flags[] = { MSG_WAITALL, MSG_WAITALL | MSG_PEEK };
	struct received message;

	for (size_t i = 0; i < 4; i++) {
		struct uring ring = new_uring(8, 0);
		const uint32_t asked = flags[i / 2];
		int fds[2];

		pair_of(types[i % 2], fds);
		recvmsg_of(&ring, fds[0], &message, sizeof(message.control),
			   asked);
		note_result("submit", uring_submit(&ring));
		note("before", uring_settle(&ring));
		put_with_fd(fds[1], 5);
		note_in_order("waited", &ring, 1);
		note_message("waited", &message);
		put_with_fd(fds[1], 7);
		send_bytes(fds[1], data, 9);
		for (int j = 0; j < 2; j++) {
			recvmsg_of(&ring, fds[0], &message,
				   sizeof(message.control), asked);
			try_sqe("there", &ring);
			note_message("there", &message);
		}
		recvmsg_of(&ring, fds[0], &message, sizeof(message.control),
			   asked)
			->flags = IOSQE_ASYNC;
		note_result("submit", uring_submit(&ring));
		send_bytes(fds[1], data, 5);
		note_in_order("async", &ring, 1);
		note_message("async", &message);
	}
}

/*
 * A short RECVMSG with MSG_WAITALL and space for control data does not break its chain.
 */
static void messages_in_chains(void)
{
	static const struct {
		const char *key;
		size_t room;
		uint32_t flags;
		bool has_fd;
	} tries[] = {
		{ "some", 64, 0, true },
		{ "all", 64, MSG_WAITALL, true },
		{ "none", 64, MSG_WAITALL, false },
		{ "no_pointer", 0, MSG_WAITALL, false },
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct uring ring = new_uring(8, 0);
		struct received message;
		int fds[2];

		pair_of(SOCK_STREAM, fds);
		if (tries[i].has_fd)
			put_with_fd(fds[1], 5);
		else
			send_bytes(fds[1], data, 5);
		recvmsg_of(&ring, fds[0], &message, tries[i].room,
			   tries[i].flags)
			->flags = IOSQE_IO_LINK;
		if (!tries[i].room)
			message.header.msg_controllen = 64;
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_result("submit", uring_submit(&ring));
		note_cqes(tries[i].key, &ring, 2);
	}
}

/* Requests that accept and open connections */

static struct io_uring_sqe *accept_of(struct uring *ring, int fd,
				      uint32_t flags)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_ACCEPT, fd);

	sqe->ioprio = (uint16_t)flags;
	return sqe;
}

/* Waits for the oldest completion. Return: its result. */
static int take_result(struct uring *ring)
{
	struct io_uring_cqe cqe;

	REQUIRE(uring_wait(ring, 1) && uring_take(ring, &cqe));
	return cqe.res;
}

static void accepts_from(int flags)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address, peer = { 0 };
	socklen_t len = sizeof(peer);
	int fd = listening(flags, &address), other, got_fd;
	struct io_uring_sqe *sqe = accept_of(&ring, fd, 0);

	sqe->addr = (uintptr_t)&peer;
	sqe->addr2 = (uintptr_t)&len;
	sqe->accept_flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
	note_result("submit", uring_submit(&ring));
	note_ready("waits", &ring);
	other = call(&address);
	got_fd = take_result(&ring);
	note("accepted", got_fd >= 0);
	note("family", peer.sin_family);
	note("len", len);
	note("cloexec", fcntl(got_fd, F_GETFD));
	note("nonblock", !!(fcntl(got_fd, F_GETFL) & O_NONBLOCK));
	send_bytes(other, data, 10);
	recv_of(&ring, got_fd, 10, 0);
	try_sqe("recv", &ring);
	accept_of(&ring, fd, ACCEPT_DONTWAIT);
	try_sqe("dontwait", &ring);
	accept_of(&ring, fd, ACCEPT_DONTWAIT)->flags = IOSQE_ASYNC;
	try_sqe("dontwait.async", &ring);
	for (int i = 0; i < 2; i++) {
		(void)call(&address);
		accept_of(&ring, fd, ACCEPT_DONTWAIT)->flags =
			i ? IOSQE_ASYNC : 0;
		note_result("submit", uring_submit(&ring));
		note("dontwait.there", take_result(&ring) >= 0);
	}
	(void)call(&address);
	accept_of(&ring, fd, 0);
	note_result("submit", uring_submit(&ring));
	note("at_once", take_result(&ring) >= 0);
}

static void accepts(void)
{
	accepts_from(0);
}

static void accepts_nonblock(void)
{
	accepts_from(SOCK_NONBLOCK);
}

/*
 * Connections arrive while the process has no free descriptor, then one. The first
 * accept is submitted before the descriptor table is full, or after (is_late).
 */
static void accepts_without_room(uint32_t flags, bool is_late)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	struct rlimit limit;
	int fd = listening(0, &address), callers[3], last = -1;

	for (int i = 0; i < 3; i++)
		callers[i] = socket(AF_INET, SOCK_STREAM, 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	try_sqe("nop", &ring);
	/* The kernel applies the limit of the time at which the accept is submitted. */
	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = 200;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	if (!is_late) {
		(void)accept_of(&ring, fd, flags);
		note_result("submit", uring_submit(&ring));
	}
	for (int i; (i = dup(fd)) >= 0;)
		last = i;
	REQUIRE(errno == EMFILE && last > 0);
	for (int i = 0; i < 3; i++)
		REQUIRE(connect(callers[i], (void *)&address,
				sizeof(address)) == 0);
	if (is_late) {
		(void)accept_of(&ring, fd, flags);
		note_result("submit", uring_submit(&ring));
	}
	note("full", take_result(&ring));
	close(0);
	(void)accept_of(&ring, fd, flags);
	note_result("again", uring_submit(&ring));
	note("one_free", take_result(&ring));
	if (flags)
		note("full_again", take_result(&ring));
	close(fd);
	note("closed", fcntl(fd, F_GETFD));
}

static void accepts_before_it_is_full(void)
{
	accepts_without_room(0, false);
}

static void accepts_after_it_is_full(void)
{
	accepts_without_room(0, true);
}

static void accepts_many_without_room(void)
{
	accepts_without_room(IORING_ACCEPT_MULTISHOT, false);
}

/* No descriptor is free, and a terminal that was open before is read and written. */
static void terminal_without_room(void)
{
	struct uring ring = new_uring(8, 0);
	struct rlimit limit;
	int master, slave;

	REQUIRE(openpty(&master, &slave, NULL, NULL, NULL) == 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	try_sqe("nop", &ring);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = (rlim_t)slave + 1;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	sqe_rw(&ring, IORING_OP_READ, slave, got, 10, -1);
	note_result("submit", uring_submit(&ring));
	REQUIRE(write(master, "abc\n", 4) == 4);
	note("slave", take_result(&ring));
	sqe_rw(&ring, IORING_OP_READ, master, got, 3, -1);
	try_sqe("master", &ring);
	sqe_rw(&ring, IORING_OP_WRITE, slave, "ab", 2, -1);
	try_sqe("write", &ring);
}

static struct io_uring_cqe take_one(struct uring *ring)
{
	struct io_uring_cqe cqe = { 0 };

	REQUIRE(uring_wait(ring, 1) && uring_take(ring, &cqe));
	return cqe;
}

/*
 * Return: the result of the cancel request. *ret_end: the last completion of the
 * request `target`.
 */
static int cancel_one(struct uring *ring, uint64_t target,
		      struct io_uring_cqe *ret_end)
{
	struct io_uring_cqe cqe;
	int res = 0;

	sqe_of(ring, IORING_OP_ASYNC_CANCEL, -1)->addr = target;
	REQUIRE(uring_submit(ring) == 1);
	for (int i = 0; i < 2; i++) {
		cqe = take_one(ring);
		if (cqe.user_data == target)
			*ret_end = cqe;
		else
			res = cqe.res;
	}
	return res;
}

static void accepts_again(int flags)
{
	enum { TRIES = 100 };
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	struct io_uring_cqe cqe;
	int fd = listening(flags, &address), res;
	uint64_t target;

	(void)call(&address);
	target = accept_of(&ring, fd, IORING_ACCEPT_MULTISHOT)->user_data;
	note_result("submit", uring_submit(&ring));
	for (int i = 0; i < 4; i++) {
		cqe = take_one(&ring);
		note("accepted", cqe.res >= 0);
		note("flags", cqe.flags);
		(void)call(&address);
	}
	(void)take_one(&ring);
	res = cancel_one(&ring, target, &cqe);
	/*
	 * EALREADY: at this moment a worker of the library may be posting the
	 * completion for a connection. Then submit a new accept, and cancel that one.
	 */
	for (int i = 0; res == -EALREADY && i < TRIES; i++) {
		(void)call(&address);
		target = accept_of(&ring, fd, IORING_ACCEPT_MULTISHOT)
				 ->user_data;
		REQUIRE(uring_submit(&ring) == 1);
		(void)take_one(&ring);
		res = cancel_one(&ring, target, &cqe);
	}
	note_result("cancel", res);
	note_result("cancelled", cqe.res);
	note("flags", cqe.flags);
}

static void multishot_accepts(void)
{
	accepts_again(0);
}

static void multishot_accepts_nonblock(void)
{
	accepts_again(SOCK_NONBLOCK);
}

/* Five connections arrive, but the completion ring has only two entries. */
static void accepts_into_a_full_ring(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE,
					  .cq_entries = 2 };
	struct uring ring = new_uring_of(2, &params);
	struct sockaddr_in address;
	int fd = listening(SOCK_NONBLOCK, &address);

	accept_of(&ring, fd, IORING_ACCEPT_MULTISHOT);
	note_result("submit", uring_submit(&ring));
	for (int i = 0; i < 5; i++)
		(void)call(&address);
	for (int i = 0; i < 2; i++) {
		struct io_uring_cqe cqe;

		REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
		note("flags", cqe.flags);
		note("accepted", cqe.res >= 0);
	}
}

/*
 * The completion ring has overflowed before the accept. So the multishot accept ends
 * after its first shot (completion).
 */
static void accepts_into_an_overflowed_ring(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE,
					  .cq_entries = 2 };
	struct uring ring = new_uring_of(2, &params);
	struct sockaddr_in address;
	struct io_uring_cqe cqe;
	int fd = listening(SOCK_NONBLOCK, &address);

	for (int i = 0; i < 3; i++) {
		(void)call(&address);
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_result("submit", uring_submit(&ring));
	}
	accept_of(&ring, fd, IORING_ACCEPT_MULTISHOT);
	note_result("submit", uring_submit(&ring));
	note("there", uring_settle(&ring));
	for (int i = 0; i < 3; i++) {
		REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
		note_result("nop", cqe.res);
	}
	/*
	 * Wait for the accept's completion, unless it was posted together with the last
	 * no-op's completion.
	 */
	REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
	note("flags", cqe.flags);
	note("accepted", cqe.res >= 0);
	note("left", uring_settle(&ring));
}

/*
 * Accepts with ACCEPT_DONTWAIT: first while a connection is pending, then while none
 * is.
 */
static void accepts_what_is_there_from(int flags)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	int fd = listening(flags, &address);

	(void)call(&address);
	accept_of(&ring, fd, ACCEPT_DONTWAIT);
	note_result("submit", uring_submit(&ring));
	note("there", take_result(&ring) >= 0);
	accept_of(&ring, fd, ACCEPT_DONTWAIT);
	try_sqe("none", &ring);
	(void)call(&address);
	accept_of(&ring, fd, ACCEPT_DONTWAIT)->flags = IOSQE_ASYNC;
	note_result("submit", uring_submit(&ring));
	note("async", take_result(&ring) >= 0);
	accept_of(&ring, fd, ACCEPT_DONTWAIT)->flags = IOSQE_ASYNC;
	note_result("submit", uring_submit(&ring));
	note_in_order("async.none", &ring, 1);
}

static void accepts_what_is_there(void)
{
	accepts_what_is_there_from(0);
}

static void accepts_what_is_there_nonblock(void)
{
	accepts_what_is_there_from(SOCK_NONBLOCK);
}

/* Waits for all shots (completions) of a multishot accept, and prints each. */
static void note_shots(const char *key, struct uring *ring)
{
	struct io_uring_cqe cqe;

	do {
		REQUIRE(uring_wait(ring, 1) && uring_take(ring, &cqe));
		note(key, cqe.res >= 0 ? 0 : cqe.res);
		note("has_more", !!(cqe.flags & IORING_CQE_F_MORE));
	} while (cqe.flags & IORING_CQE_F_MORE);
}

static void accepts_all_that_are_there_from(int flags)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	int fd = listening(flags, &address);

	for (int i = 0; i < 3; i++)
		(void)call(&address);
	accept_of(&ring, fd, IORING_ACCEPT_MULTISHOT | ACCEPT_DONTWAIT);
	note_result("submit", uring_submit(&ring));
	note_shots("there", &ring);
	accept_of(&ring, fd, IORING_ACCEPT_MULTISHOT | ACCEPT_DONTWAIT);
	note_result("submit", uring_submit(&ring));
	note_shots("none", &ring);
}

static void accepts_all_that_are_there(void)
{
	accepts_all_that_are_there_from(0);
}

static void accepts_all_that_are_there_nonblock(void)
{
	accepts_all_that_are_there_from(SOCK_NONBLOCK);
}

static void accept_mistakes(void)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	int fd = bound_inet(SOCK_STREAM, &address), fds[2];

	accept_of(&ring, fd, 0);
	try_sqe("not_listening", &ring);
	pair_of(SOCK_DGRAM, fds);
	accept_of(&ring, fds[0], 0);
	try_sqe("datagram", &ring);
	REQUIRE(pipe(fds) == 0);
	accept_of(&ring, fds[0], 0);
	try_sqe("pipe", &ring);
	recv_of(&ring, fds[0], 10, 0);
	try_sqe("recv_pipe", &ring);
}

static struct io_uring_sqe *connect_of(struct uring *ring, int fd,
				       const struct sockaddr_in *address)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_CONNECT, fd);

	sqe->addr = (uintptr_t)address;
	sqe->addr2 = sizeof(*address);
	return sqe;
}

static void connects_from(int flags)
{
	struct sockaddr_in address, nobody;
	struct uring ring = new_uring(8, 0);
	int fd = listening(0, &address);
	int gone = bound_inet(SOCK_STREAM, &nobody), own;

	close(gone);
	own = socket(AF_INET, SOCK_STREAM | flags, 0);
	(void)connect_of(&ring, own, &address);
	try_sqe("connect", &ring);
	note("flags", !!(fcntl(own, F_GETFL) & O_NONBLOCK));
	note("is_there", accept(fd, NULL, NULL) >= 0);
	(void)connect_of(&ring, own, &address);
	try_sqe("again", &ring);
	connect_of(&ring, own, &address)->flags = IOSQE_ASYNC;
	note_result("submit", uring_submit(&ring));
	note_in_order("async_again", &ring, 1);
	own = socket(AF_INET, SOCK_STREAM | flags, 0);
	(void)connect_of(&ring, own, &nobody);
	try_sqe("refused", &ring);
	own = socket(AF_INET, SOCK_STREAM | flags, 0);
	connect_of(&ring, own, &nobody)->flags = IOSQE_ASYNC;
	note_result("submit", uring_submit(&ring));
	note_in_order("async_refused", &ring, 1);
	own = socket(AF_INET, SOCK_STREAM | flags, 0);
	connect_of(&ring, own, &address)->flags = IOSQE_ASYNC;
	note_result("submit", uring_submit(&ring));
	note_in_order("async", &ring, 1);
}

static void connects(void)
{
	connects_from(0);
}

static void connects_nonblock(void)
{
	connects_from(SOCK_NONBLOCK);
}

/* Connects to a socket whose backlog only has room for two connections. */
static void connects_to_a_full_one(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), fds[3], i;
	struct uring ring = new_uring(8, 0);
	socklen_t len = sizeof(address);
	struct io_uring_sqe *sqe;

	REQUIRE(bind(fd, (void *)&address, sizeof(sa_family_t)) == 0);
	REQUIRE(getsockname(fd, (void *)&address, &len) == 0);
	REQUIRE(listen(fd, 1) == 0);
	for (i = 0; i < 3; i++) {
		fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		sqe = sqe_of(&ring, IORING_OP_CONNECT, fds[i]);
		sqe->addr = (uintptr_t)&address;
		sqe->addr2 = len;
	}
	note_result("submit", uring_submit(&ring));
	REQUIRE(uring_wait(&ring, 2));
	note_ready("before", &ring);
	REQUIRE(accept(fd, NULL, NULL) >= 0);
	note_cqes("cqe", &ring, 3);
}

static void makes_sockets(void)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address = loopback();
	struct io_uring_sqe *sqe;
	int fd;

	sqe = sqe_of(&ring, IORING_OP_SOCKET, AF_INET);
	sqe->off = SOCK_STREAM | SOCK_CLOEXEC;
	note_result("submit", uring_submit(&ring));
	fd = take_result(&ring);
	note("cloexec", fcntl(fd, F_GETFD));
	sqe = sqe_of(&ring, OP_BIND, fd);
	sqe->addr = (uintptr_t)&address;
	sqe->addr2 = sizeof(address);
	try_sqe("bind", &ring);
	sqe = sqe_of(&ring, OP_LISTEN, fd);
	sqe->len = 5;
	try_sqe("listen", &ring);
	sqe = sqe_of(&ring, OP_BIND, fd);
	sqe->addr = (uintptr_t)&address;
	sqe->addr2 = sizeof(address);
	try_sqe("bind_again", &ring);
	sqe = sqe_of(&ring, IORING_OP_SOCKET, 77);
	sqe->off = SOCK_STREAM;
	try_sqe("family", &ring);
	sqe = sqe_of(&ring, IORING_OP_SOCKET, AF_INET);
	sqe->off = SOCK_STREAM;
	sqe->len = IPPROTO_UDP;
	try_sqe("protocol", &ring);
}

static void commands(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int fds[2], value = 0, one = 1;

	tcp_pair(fds);
	send_bytes(fds[1], data, 33);
	drain_socket(fds[0], 3);
	sqe_of(&ring, IORING_OP_URING_CMD, fds[0])->cmd_op = 0;
	try_sqe("inq", &ring);
	sqe = sqe_of(&ring, IORING_OP_URING_CMD, fds[0]);
	sqe->cmd_op = 3;
	sqe->addr = SOL_SOCKET | (uint64_t)SO_KEEPALIVE << 32;
	sqe->file_index = sizeof(one);
	sqe->addr3 = (uintptr_t)&one;
	try_sqe("set", &ring);
	sqe = sqe_of(&ring, IORING_OP_URING_CMD, fds[0]);
	sqe->cmd_op = 2;
	sqe->addr = SOL_SOCKET | (uint64_t)SO_KEEPALIVE << 32;
	sqe->file_index = sizeof(value);
	sqe->addr3 = (uintptr_t)&value;
	try_sqe("get", &ring);
	note("value", value);
	sqe = sqe_of(&ring, IORING_OP_URING_CMD, fds[0]);
	sqe->cmd_op = 2;
	sqe->addr = IPPROTO_TCP | 1ull << 32;
	sqe->file_index = sizeof(value);
	sqe->addr3 = (uintptr_t)&value;
	try_sqe("get_tcp", &ring);
	sqe_of(&ring, IORING_OP_URING_CMD, fds[0])->cmd_op = 77;
	try_sqe("unknown", &ring);
}

/* Cancelling requests that wait */
static void cancelled(void)
{
	struct uring ring = new_uring(16, 0);
	struct sockaddr_in address;
	int fd = listening(0, &address), fds[2];
	struct io_uring_sqe *sqe;

	tcp_pair(fds);
	accept_of(&ring, fd, 0);
	recv_of(&ring, fds[0], 10, 0);
	recv_of(&ring, fds[0], 10, MSG_WAITALL);
	note_result("submit", uring_submit(&ring));
	sqe = sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1);
	sqe->cancel_flags = IORING_ASYNC_CANCEL_ANY;
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 4);
	send_bytes(fds[1], data, 4);
	recv_of(&ring, fds[0], 10, 0);
	try_sqe("then", &ring);
}

static void with_a_timeout(void)
{
	struct __kernel_timespec soon = SPAN_SOON;
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int fds[2];

	tcp_pair(fds);
	recv_of(&ring, fds[0], 10, 0)->flags = IOSQE_IO_LINK;
	sqe = sqe_of(&ring, IORING_OP_LINK_TIMEOUT, -1);
	sqe->addr = (uintptr_t)&soon;
	sqe->len = 1;
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
}

static void closed_meanwhile(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	tcp_pair(fds);
	recv_of(&ring, fds[0], 10, 0);
	note_result("submit", uring_submit(&ring));
	close(fds[0]);
	send_bytes(fds[1], data, 10);
	note_in_order("cqe", &ring, 1);
}

static void in_a_chain(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	tcp_pair(fds);
	memset(data, 'a', 10);
	send_of(&ring, fds[0], 10, 0)->flags = IOSQE_IO_LINK;
	recv_of(&ring, fds[1], 4, 0)->flags = IOSQE_IO_LINK;
	recv_of(&ring, fds[1], 6, MSG_WAITALL)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_SHUTDOWN, fds[0])->len = SHUT_WR;
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 4);
	recv_of(&ring, fds[1], 10, 0);
	try_sqe("end", &ring);
}

/*
 * A zero-copy send over TCP: once the data has been received, the kernel posts the
 * notification that it no longer uses the sender's memory.
 */
static void does_not_copy(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	tcp_pair(fds);
	sqe_rw(&ring, IORING_OP_SEND_ZC, fds[0], data, 100, 0);
	note_result("submit", uring_submit(&ring));
	drain_socket(fds[1], 100);
	note_in_order("cqe", &ring, 2);
	pair_of(SOCK_STREAM, fds);
	sqe_rw(&ring, IORING_OP_SEND_ZC, fds[0], data, 100, 0);
	note_result("submit", uring_submit(&ring));
	note_in_order("unix", &ring, 2);
	/*
	 * A zero-copy send that never began, because its chain was broken: its
	 * completion lacks CQE_F_MORE, and a notification still follows.
	 */
	recv_of(&ring, -1, 10, 0)->flags = IOSQE_IO_LINK;
	sqe_rw(&ring, IORING_OP_SEND_ZC, fds[0], data, 100, 0);
	note_result("submit", uring_submit(&ring));
	note_in_order("cut", &ring, 3);
}

static void fixed_places(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2], places[4] = { -1, -1, -1, -1 };
	struct sockaddr_in address;
	int fd = listening(0, &address);
	struct io_uring_sqe *sqe;

	(void)call(&address);
	(void)call(&address);
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_FILES, places, 4) == 0);
	sqe = accept_of(&ring, fd, 0);
	sqe->file_index = 3;
	try_sqe("accept", &ring);
	sqe = accept_of(&ring, fd, IORING_ACCEPT_MULTISHOT);
	sqe->file_index = (uint32_t)-1;
	note_result("submit", uring_submit(&ring));
	note_in_order("again", &ring, 1);
	sqe = sqe_of(&ring, IORING_OP_SOCKET, AF_UNIX);
	sqe->off = SOCK_STREAM;
	sqe->file_index = (uint32_t)-1;
	try_sqe("socket", &ring);
	tcp_pair(fds);
	sqe = send_of(&ring, 2, 10, 0);
	sqe->flags = IOSQE_FIXED_FILE;
	try_sqe("send", &ring);
}

/*
 * In a chain, requests use the socket that an earlier request of this chain opened in a
 * slot. If the slot is empty or the file is no socket, they fail.
 */
static void made_in_a_chain(void)
{
	struct uring ring = new_uring(8, 0);
	int places[4] = { -1, -1, -1, -1 };
	struct sockaddr_in address;
	int fd = listening(0, &address), ends[2];
	struct io_uring_sqe *sqe;

	REQUIRE(uring_register(ring.fd, IORING_REGISTER_FILES, places, 4) == 0);
	sqe = sqe_of(&ring, IORING_OP_SOCKET, AF_INET);
	sqe->off = SOCK_STREAM;
	sqe->file_index = 1;
	sqe->flags = IOSQE_IO_LINK;
	sqe = sqe_rw(&ring, IORING_OP_CONNECT, 0, &address, 0, sizeof(address));
	sqe->flags = IOSQE_IO_LINK | IOSQE_FIXED_FILE;
	send_of(&ring, 0, 10, 0)->flags = IOSQE_FIXED_FILE;
	note_result("submit", uring_submit(&ring));
	note_cqes("calls", &ring, 3);
	sqe = accept_of(&ring, fd, 0);
	sqe->file_index = 2;
	sqe->flags = IOSQE_IO_LINK;
	recv_of(&ring, 1, 10, 0)->flags = IOSQE_IO_LINK | IOSQE_FIXED_FILE;
	recv_of(&ring, 3, 10, 0)->flags = IOSQE_FIXED_FILE;
	note_result("submit", uring_submit(&ring));
	note_cqes("called", &ring, 3);
	REQUIRE(pipe(ends) == 0);
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
	recv_of(&ring, ends[0], 10, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("pipe", &ring, 2);
}

/*
 * A multishot accept with IOSQE_ASYNC: the submitting thread does not try the request;
 * a worker executes it from the start.
 */
static void goes_on_elsewhere(void)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	int fd = listening(0, &address);

	(void)call(&address);
	accept_of(&ring, fd, IORING_ACCEPT_MULTISHOT | ACCEPT_DONTWAIT)->flags =
		IOSQE_ASYNC;
	note_result("submit", uring_submit(&ring));
	note_in_order("first", &ring, 1);
	(void)call(&address);
	note_in_order("second", &ring, 1);
}

const struct row rows_uring_socket[] = {
	ROW("receives of data that is there, and that arrives", receives),
	ROW("the other side ends", ends),
	ROW("a socket is shut down while it waits", own_shutdown),
	ROW("a connection is reset while it waits", reset),
	ROW("MSG_WAITALL, and the data arrives in parts", all_of_it),
	ROW("less than all ends a chain", parts_in_chains),
	ROW("a send sends all data, however long it takes", sends_all),
	ROW("a request does not wait", does_not_wait),
	ROW("O_NONBLOCK and timeouts of a socket", o_nonblock_and_timeouts),
	ROW("receives keep their order after fcntl(F_SETFL)",
	    receives_in_order),
	ROW("peeks, and what is not there", peeks),
	ROW("datagrams to an address", to_an_address),
	ROW("messages, and mistakes in them", messages),
	ROW("errors and data of a socket", errors_and_data),
	ROW("descriptors in messages", descriptors),
	ROW("MSG_WAITALL, with room for control data", all_of_messages),
	ROW("messages with control data in chains", messages_in_chains),
	ROW("connections are accepted", accepts),
	ROW("connections are accepted, O_NONBLOCK", accepts_nonblock),
	ROW("one request accepts many", multishot_accepts),
	ROW("one request accepts many, O_NONBLOCK", multishot_accepts_nonblock),
	ROW("one request accepts more than the ring holds",
	    accepts_into_a_full_ring),
	ROW_DIFFERS("one request accepts into a ring that has overflowed",
		    accepts_into_an_overflowed_ring, differs_ring_hint,
		    { "flags=4", "flags=0" }),
	ROW("one that is there is accepted", accepts_what_is_there),
	ROW("one that is there is accepted, O_NONBLOCK",
	    accepts_what_is_there_nonblock),
	ROW("a multishot accept accepts all pending connections",
	    accepts_all_that_are_there),
	ROW("a multishot accept accepts all pending connections, O_NONBLOCK",
	    accepts_all_that_are_there_nonblock),
	ROW("a connection is accepted, and no descriptor is left",
	    accepts_before_it_is_full),
	ROW("an accept begins, and no descriptor is left",
	    accepts_after_it_is_full),
	ROW("one request accepts many, and no descriptor is left",
	    accepts_many_without_room),
	ROW("a terminal is used, and no descriptor is left",
	    terminal_without_room),
	ROW("accepts that fail", accept_mistakes),
	ROW("connections are made", connects),
	ROW("connections are made, O_NONBLOCK", connects_nonblock),
	ROW("a connection waits for its turn", connects_to_a_full_one),
	ROW("sockets are made", makes_sockets),
	ROW("commands of sockets", commands),
	ROW("requests of sockets are cancelled", cancelled),
	ROW("a timeout ends a receive", with_a_timeout),
	ROW("a socket is closed while it waits", closed_meanwhile),
	ROW("requests of sockets in a chain", in_a_chain),
	ROW("a chain makes its sockets", made_in_a_chain),
	ROW("a worker accepts many", goes_on_elsewhere),
	ROW("a zero-copy send", does_not_copy),
	ROW("sockets go to places of the table", fixed_places),
	NO_ROW,
};
