/* SPDX-License-Identifier: MIT */
/*
 * Mistakes in requests, which random tests (test/uring/fuzz.py) once made. The test
 * cases show when a mistake is found, whether the call also submits the later requests,
 * and which buffers the failed request uses up.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sockets.h"
#include "uring.h"
#include "streams.h"

/* Names that older headers lack. */
#define SETSOCKOPT 3
#define RECVSEND_BUNDLE (1 << 4)

enum { GROUP = 7, NR_BUFFERS = 16, BYTES = 16, LARGE = 1 << 20 };

static char memory[NR_BUFFERS][BYTES], data[LARGE];

static int listener_of(int domain)
{
	struct sockaddr_in inet = { .sin_family = AF_INET };
	sa_family_t local = AF_UNIX;
	int fd = socket(domain, SOCK_STREAM, 0);

	inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	REQUIRE(fd >= 0);
	if (domain == AF_UNIX)
		REQUIRE(bind(fd, (void *)&local, sizeof(local)) == 0);
	else
		REQUIRE(bind(fd, (void *)&inet, sizeof(inet)) == 0);
	REQUIRE(listen(fd, 4) == 0);
	return fd;
}

/*
 * Submits the prepared requests. Prints how many of them are accepted, and the results
 * of nr requests.
 */
static void note_call(const char *key, struct uring *ring, uint32_t nr)
{
	char text[64];

	snprintf(text, sizeof(text), "%s.taken", key);
	note_result(text, uring_submit(ring));
	note_cqes(key, ring, nr);
	/*
	 * Drop the requests that were not accepted, so that the next call does not submit
	 * them.
	 */
	*ring->sq_tail = ring->prepared = *ring->sq_head;
}

/*
 * Requests with invalid addresses of memory
 */

static const struct {
	const char *key;
	uint64_t addr;
	uint32_t len;
	bool is_possible;
} places[] = {
	{ "last", ~UINT64_C(0), 64, false },
	{ "last.empty", ~UINT64_C(0), 0, false },
	{ "kernel", UINT64_C(1) << 63, 64, false },
	{ "kernel.empty", UINT64_C(1) << 63, 0, false },
	{ "null", 0, 4, true },
	{ "null.empty", 0, 0, true },
};

static void moves_at_any_place(int opcode, bool is_vector, int nr)
{
	struct uring ring = new_uring(8, 0);
	int fd = open(".", O_PATH);

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct iovec iovs[2] = {
			{ (void *)(uintptr_t)places[i].addr, places[i].len },
			{ data, 1 },
		};
		struct io_uring_sqe *sqe = sqe_of(&ring, opcode, fd);

		sqe->addr = is_vector ? (uintptr_t)iovs : places[i].addr;
		sqe->len = is_vector ? (uint32_t)nr : places[i].len;
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_call(places[i].key, &ring, places[i].is_possible ? 2 : 1);
	}
}

static void memory_of_nobody(void)
{
	static const int opcodes[] = { IORING_OP_READ, IORING_OP_WRITE,
				       IORING_OP_SEND, IORING_OP_RECV };

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++)
		moves_at_any_place(opcodes[i], false, 0);
}

static void vectors_of_nobody(void)
{
	for (int nr = 1; nr <= 2; nr++) {
		moves_at_any_place(IORING_OP_READV, true, nr);
		moves_at_any_place(IORING_OP_WRITEV, true, nr);
	}
}

static void messages_of_nobody(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = open(".", O_PATH);

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		for (int k = 0; k < 2; k++) {
			struct iovec iov = { (void *)(uintptr_t)places[i].addr,
					     places[i].len };
			struct msghdr msg = { .msg_iov = &iov,
					      .msg_iovlen = 1 };
			struct io_uring_sqe *sqe = sqe_of(
				&ring,
				k ? IORING_OP_SENDMSG : IORING_OP_RECVMSG, fd);

			sqe->addr = (uintptr_t)&msg;
			sqe->len = 1;
			sqe_of(&ring, IORING_OP_NOP, -1);
			note_call(places[i].key, &ring,
				  places[i].is_possible ? 2 : 1);
		}
}

/*
 * SETSOCKOPT reads only as many bytes as the option needs, even if optlen is larger. So
 * the memory after these bytes may be inaccessible.
 */
static void values_over_the_end(void)
{
	struct uring ring = new_uring(8, 0);
	char *page = pages_of(4096, PROT_READ | PROT_WRITE);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	memset(page, 0, 4096);
	for (unsigned before = 0; before <= 8; before += 4) {
		struct io_uring_sqe *sqe =
			sqe_of(&ring, IORING_OP_URING_CMD, fd);
		char key[32];

		sqe->off = SETSOCKOPT;
		sqe->addr = SOL_SOCKET | (uint64_t)SO_REUSEADDR << 32;
		sqe->file_index = 16;
		sqe->addr3 = (uintptr_t)page + 4096 - before;
		snprintf(key, sizeof(key), "%u_there", before);
		try_sqe(key, &ring);
	}
}

/* Mistakes in chains, and how many requests the submitting call accepts */

static void mistakes_of_a_file(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", 4096, O_RDWR), fds[2];
	struct io_uring_sqe *sqe;

	pair_of(SOCK_STREAM, fds);
	sqe = sqe_rw(&ring, IORING_OP_READ, fd, data, 8, 0);
	sqe->flags = IOSQE_IO_HARDLINK;
	sqe->rw_flags = 0x10000;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_call("flag", &ring, 2);
	sqe = sqe_rw(&ring, IORING_OP_READ, fd, data, 8, (uint64_t)-2);
	sqe->flags = IOSQE_IO_HARDLINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_call("offset", &ring, 2);
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
	sqe_rw(&ring, IORING_OP_READ, fd, data, 8, (uint64_t)-2);
	note_call("offset.second", &ring, 2);
	sqe = sqe_rw(&ring, IORING_OP_READ, fds[0], data, 8, 0);
	sqe->flags = IOSQE_IO_LINK;
	sqe->rw_flags = RWF_NOWAIT;
	sqe_rw(&ring, IORING_OP_READ, fd, data, 8, (uint64_t)-2);
	note_call("offset.behind_one_that_fails", &ring, 2);
	sqe = sqe_rw(&ring, IORING_OP_WRITE, fd, (void *)(intptr_t)-1, 8, 0);
	sqe->flags = IOSQE_IO_HARDLINK;
	sqe_rw(&ring, IORING_OP_READ, fds[0], data, 8, 0);
	note_call("memory", &ring, 2);
}

static void attributes(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", 4096, O_RDWR);
	struct io_uring_sqe *sqe;

	for (int k = 0; k < 2; k++) {
		sqe = sqe_rw(&ring, IORING_OP_FSETXATTR, fd, "user.x",
			     k ? XATTR_SIZE_MAX + 1 : 4, (uintptr_t)data);
		sqe->xattr_flags = k ? 0 : 4;
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_call(k ? "size" : "flag", &ring, 1);
	}
	for (int k = 0; k < 2; k++) {
		sqe_rw(&ring, k ? IORING_OP_FSETXATTR : IORING_OP_FGETXATTR,
		       open(".", O_PATH), NULL, 4, (uintptr_t)data);
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_call(k ? "name.set" : "name.get", &ring, 1);
	}
}

static void flags_of_newer_kernels(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", 4096, O_RDWR);

	for (unsigned flag = 0x40; flag <= 0x100; flag *= 2) {
		char key[32];

		snprintf(key, sizeof(key), "hipri_%#x", flag);
		sqe_rw(&ring, IORING_OP_WRITE, fd, data, 8, 0)->rw_flags =
			(int)(RWF_HIPRI | flag);
		try_sqe(key, &ring);
	}
}

/* Requests that must not wait for their file, because they have a mistake */

static void sockets_that_listen(void)
{
	static const int opcodes[] = { IORING_OP_SEND, IORING_OP_RECV };
	struct uring ring = new_uring(8, 0);

	for (int k = 0; k < 8; k++) {
		int fd = listener_of(k & 1 ? AF_INET : AF_UNIX);
		struct io_uring_sqe *sqe =
			sqe_rw(&ring, opcodes[k >> 1 & 1], fd, data, 1, 0);
		char key[32];

		sqe->flags = k & 4 ? IOSQE_ASYNC : 0;
		sqe->msg_flags = MSG_NOSIGNAL;
		snprintf(key, sizeof(key), "%s.%s%s", k & 2 ? "recv" : "send",
			 k & 1 ? "inet" : "unix", k & 4 ? ".async" : "");
		try_sqe(key, &ring);
	}
	for (int k = 0; k < 2; k++) {
		int fd = listener_of(k ? AF_INET : AF_UNIX);
		struct io_uring_sqe *sqe =
			sqe_rw(&ring, IORING_OP_SEND, fd, data, 1, 0);

		sqe->ioprio = RECVSEND_BUNDLE;
		sqe->msg_flags = MSG_NOSIGNAL;
		try_sqe(k ? "bundle.inet" : "bundle.unix", &ring);
	}
	sqe_rw(&ring, IORING_OP_SEND_ZC, listener_of(AF_UNIX), data, 1, 0)
		->ioprio = IORING_RECVSEND_POLL_FIRST;
	REQUIRE(uring_submit(&ring) == 1);
	note_in_order("no_zc", &ring, 2);
	sqe_of(&ring, IORING_OP_ACCEPT, socket(AF_INET, SOCK_STREAM, 0))
		->flags = IOSQE_ASYNC;
	try_sqe("accept.async", &ring);
}

/*
 * Two requests wait on a listening socket: an accept, and a send with
 * IORING_RECVSEND_POLL_FIRST. Later sends, receives, reads and writes on the socket
 * must not wait for these two requests.
 */
static void behind_what_waits_to_listen(void)
{
	static const int opcodes[] = { IORING_OP_SEND, IORING_OP_RECV,
				       IORING_OP_READ, IORING_OP_WRITE };
	struct uring ring = new_uring(8, 0);

	for (int k = 0; k < 2; k++) {
		int fd = listener_of(k ? AF_INET : AF_UNIX);

		sqe_of(&ring, IORING_OP_ACCEPT, fd);
		sqe_rw(&ring, IORING_OP_SEND, fd, data, 1, 0)->ioprio =
			IORING_RECVSEND_POLL_FIRST;
		REQUIRE(uring_submit(&ring) == 2);
		/* Leave out a write to an INET socket, which would raise SIGPIPE. */
		for (int i = 0; i < 4 - k; i++) {
			struct io_uring_sqe *sqe =
				sqe_rw(&ring, opcodes[i], fd, data, 1, 0);
			char key[32];

			if (i == 0)
				sqe->msg_flags = MSG_NOSIGNAL;
			snprintf(key, sizeof(key), "%s.%d", k ? "inet" : "unix",
				 i);
			try_sqe(key, &ring);
		}
	}
}

static void splice_of_one_that_listens(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe = sqe_of(&ring, IORING_OP_SPLICE, fds[1]);
	sqe->splice_fd_in = listener_of(AF_INET);
	sqe->splice_off_in = sqe->off = (uint64_t)-1;
	sqe->len = 100;
	try_sqe("splice", &ring);
}

static void polls_once(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	sqe = sqe_of(&ring, IORING_OP_POLL_ADD, fds[0]);
	sqe->poll32_events = EPOLLOUT | EPOLLONESHOT;
	sqe->len = IORING_POLL_ADD_MULTI;
	try_sqe("once", &ring);
}

static void epoll_in_a_thread(void)
{
	struct epoll_event event = { .events = EPOLLIN }, got[4];
	struct uring ring = new_uring(8, 0);
	int epoll = epoll_create1(0), fds[2];
	struct io_uring_sqe *sqe;

	REQUIRE(pipe(fds) == 0);
	REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &event) == 0);
	sqe_rw(&ring, OP_EPOLL_WAIT, epoll, got, 4, 0)->flags = IOSQE_ASYNC;
	REQUIRE(uring_submit(&ring) == 1);
	sqe = sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1);
	sqe->cancel_flags = IORING_ASYNC_CANCEL_ANY;
	REQUIRE(uring_submit(&ring) == 1);
	note_cqes("cancelled", &ring, 2);
	sqe_rw(&ring, OP_EPOLL_WAIT, epoll, got, 4, 0)->flags = IOSQE_ASYNC;
	REQUIRE(uring_submit(&ring) == 1);
	REQUIRE(write(fds[1], data, 1) == 1);
	note_cqes("ready", &ring, 1);
}

/* A waitid writes to its result address even if the process has no children. */
static void no_children(void)
{
	struct uring ring = new_uring(8, 0);
	siginfo_t info;
	struct io_uring_sqe *sqe;

	for (int k = 0; k < 4; k++) {
		char key[32];

		memset(&info, 0xff, sizeof(info));
		sqe = sqe_of(&ring, OP_WAITID, 0);
		sqe->len = P_ALL;
		sqe->file_index = k & 1 ? WEXITED | WNOHANG : WEXITED;
		sqe->off = k & 2 ? 4096 : (uintptr_t)&info;
		snprintf(key, sizeof(key), "%s%s", k & 2 ? "no_memory" : "none",
			 k & 1 ? ".nohang" : "");
		try_sqe(key, &ring);
		note("signo", info.si_signo);
	}
}

/* Invalid options of waitid are found when the wait begins, not at submission. */
static void options_of_a_wait(void)
{
	static const uint32_t options[] = { 0, ~0u, 1u << 29, 4 };
	struct uring ring = new_uring(8, 0);

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		struct io_uring_sqe *sqe = sqe_of(&ring, OP_WAITID, 0);
		char key[32];

		sqe->len = P_ALL;
		sqe->file_index = options[i];
		sqe->flags = IOSQE_IO_HARDLINK;
		sqe_of(&ring, IORING_OP_NOP, -1);
		snprintf(key, sizeof(key), "options.%zu", i);
		note_call(key, &ring, 2);
	}
}

/*
 * Requests that select a provided buffer and have a mistake
 */

static void provide(struct uring *ring)
{
	sqe_rw(ring, IORING_OP_PROVIDE_BUFFERS, NR_BUFFERS, memory, BYTES, 0)
		->buf_group = GROUP;
	try_sqe("provide", ring);
}

/* Registers the buffers as an array. Return: the array. */
static struct io_uring_buf *set_array(const struct uring *ring)
{
	struct io_uring_buf_reg reg = { .ring_entries = NR_BUFFERS * 2,
					.bgid = GROUP };
	struct io_uring_buf_ring *array =
		(void *)pages_of(4096, PROT_READ | PROT_WRITE);

	reg.ring_addr = (uintptr_t)array;
	REQUIRE(uring_register(ring->fd, IORING_REGISTER_PBUF_RING, &reg, 1) ==
		0);
	for (uint16_t i = 0; i < NR_BUFFERS; i++) {
		struct io_uring_buf *buf = (struct io_uring_buf *)array + i;

		buf->addr = (uintptr_t)memory[i];
		buf->len = BYTES;
		buf->bid = i;
	}
	__atomic_store_n(&array->tail, NR_BUFFERS, __ATOMIC_RELEASE);
	return (struct io_uring_buf *)array;
}

static struct io_uring_sqe *chooses(struct uring *ring, int opcode, int fd,
				    uint32_t len, uint8_t flags)
{
	struct io_uring_sqe *sqe = sqe_rw(ring, opcode, fd, NULL, len, 0);

	sqe->flags = IOSQE_BUFFER_SELECT | flags;
	sqe->buf_group = GROUP;
	sqe->msg_flags = MSG_NOSIGNAL;
	return sqe;
}

/* A failed send uses up the buffer that it selected. A failed receive does not. */
static void sends_that_fail(struct uring *ring)
{
	int full[2], gone[2];

	pair_of(SOCK_STREAM, full);
	pair_of(SOCK_STREAM, gone);
	close(gone[1]);
	fill_stream(full[0], 4096);
	for (uint8_t flags = 0; flags <= IOSQE_ASYNC; flags += IOSQE_ASYNC) {
		chooses(ring, IORING_OP_SEND, gone[0], 4, flags);
		try_sqe("gone", ring);
		chooses(ring, IORING_OP_SEND, full[0], 4, flags)->msg_flags |=
			MSG_DONTWAIT;
		try_sqe("full", ring);
		chooses(ring, IORING_OP_SEND, full[1], 4, flags);
		try_sqe("sent", ring);
		chooses(ring, IORING_OP_RECV, gone[0], 4, flags);
		try_sqe("end", ring);
		chooses(ring, IORING_OP_RECV, socket(AF_INET, SOCK_STREAM, 0),
			4, flags);
		try_sqe("unconnected", ring);
	}
}

static void sends_that_fail_list(void)
{
	struct uring ring = new_uring(8, 0);

	provide(&ring);
	sends_that_fail(&ring);
}

static void sends_that_fail_array(void)
{
	struct uring ring = new_uring(8, 0);

	(void)set_array(&ring);
	sends_that_fail(&ring);
}

/* The first buffer of an array is at address NULL. */
static void buffer_at_null(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	set_array(&ring)[0].addr = 0;
	pair_of(SOCK_STREAM, fds);
	REQUIRE(send(fds[1], data, 8, 0) == 8);
	chooses(&ring, IORING_OP_RECV, fds[0], 4, 0);
	try_sqe("recv", &ring);
	chooses(&ring, IORING_OP_READ, fds[0], 4, 0)->msg_flags = 0;
	try_sqe("read", &ring);
}

static void empty_buffer(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	set_array(&ring)[0].len = 0;
	pair_of(SOCK_STREAM, fds);
	chooses(&ring, IORING_OP_SEND, fds[0], 4, 0);
	try_sqe("send", &ring);
}

/*
 * No buffer is provided. With IOSQE_ASYNC, a single receive selects its buffer at once,
 * but a multishot receive only when there is data.
 */
static void none_in_a_thread(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	chooses(&ring, IORING_OP_RECV, fds[0], 0, IOSQE_ASYNC);
	try_sqe("one", &ring);
	chooses(&ring, IORING_OP_READ, fds[0], 4, IOSQE_ASYNC)->msg_flags = 0;
	try_sqe("read", &ring);
	chooses(&ring, IORING_OP_RECV, fds[0], 0, 0)->ioprio =
		IORING_RECV_MULTISHOT;
	try_sqe("many.at_once", &ring);
	chooses(&ring, IORING_OP_RECV, fds[0], 0, IOSQE_ASYNC)->ioprio =
		IORING_RECV_MULTISHOT;
	REQUIRE(uring_submit(&ring) == 1);
	note_ready("many", &ring);
	REQUIRE(send(fds[1], data, 8, 0) == 8);
	note_cqes("many.data", &ring, 1);
}

/* A multishot receive with a limit over INT_MAX ends after its first shot (completion). */
static void limit_below_zero(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	provide(&ring);
	sqe = chooses(&ring, IORING_OP_RECV, fds[0], 0, 0);
	sqe->ioprio = IORING_RECV_MULTISHOT;
	sqe->file_index = UINT32_MAX;
	REQUIRE(uring_submit(&ring) == 1);
	REQUIRE(send(fds[1], data, 4, 0) == 4);
	note_cqes("shot", &ring, 1);
}

const struct row rows_uring_mistakes[] = {
	ROW("memory that cannot be a client's", memory_of_nobody),
	ROW("vectors of such memory", vectors_of_nobody),
	ROW("messages of such memory", messages_of_nobody),
	ROW("a value that reaches over the end", values_over_the_end),
	ROW("a file's error is a result in a chain", mistakes_of_a_file),
	ROW("mistakes with attributes end a call", attributes),
	ROW("HIPRI with flags of newer kernels", flags_of_newer_kernels),
	ROW("sockets that listen do nothing else", sockets_that_listen),
	ROW("sockets that listen do nothing else, whatever waits there",
	    behind_what_waits_to_listen),
	ROW("a socket that listens is not spliced", splice_of_one_that_listens),
	ROW("a multishot poll with EPOLLONESHOT", polls_once),
	ROW("an epoll is waited for, IOSQE_ASYNC", epoll_in_a_thread),
	ROW("nobody is waited for", no_children),
	ROW("options of a wait for a child", options_of_a_wait),
	ROW("sends that fail, buffers of a list", sends_that_fail_list),
	ROW("sends that fail, buffers of an array", sends_that_fail_array),
	ROW("a buffer at NULL", buffer_at_null),
	ROW("an empty buffer", empty_buffer),
	ROW("no buffer, IOSQE_ASYNC", none_in_a_thread),
	ROW("a multishot receive with a limit over INT_MAX", limit_below_zero),
	NO_ROW,
};
