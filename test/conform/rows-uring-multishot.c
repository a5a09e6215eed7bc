/* SPDX-License-Identifier: MIT */
/* Multishot receives: one request fills several provided buffers. */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sockets.h"
#include "uring.h"

enum { GROUP = 7, BUFFERS = 8, BYTES = 256, ENTRIES = 8 };

static char memory[BUFFERS][BYTES], data[8192];
static struct io_uring_buf_ring *array;

/* Provides nr buffers as a list: memory[first] and the elements after it. */
static void provide(struct uring *ring, int first, int nr)
{
	uring_provide(ring, GROUP, memory[first], BYTES, first, nr);
}

/* Registers an empty array of buffers as the group GROUP. */
static void set_array(const struct uring *ring)
{
	struct io_uring_buf_reg reg = { .ring_entries = ENTRIES,
					.bgid = GROUP };

	array = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(array != MAP_FAILED);
	reg.ring_addr = (uintptr_t)array;
	REQUIRE(uring_register(ring->fd, IORING_REGISTER_PBUF_RING, &reg, 1) ==
		0);
}

static void append(int bid)
{
	uint16_t tail = array->tail;
	struct io_uring_buf *buf =
		(struct io_uring_buf *)array + (tail & (ENTRIES - 1));

	buf->addr = (uintptr_t)memory[bid];
	buf->len = BYTES;
	buf->bid = (uint16_t)bid;
	__atomic_store_n(&array->tail, (uint16_t)(tail + 1), __ATOMIC_RELEASE);
}

static struct io_uring_sqe *receive(struct uring *ring, int fd, uint32_t how)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_RECV, fd);

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	sqe->ioprio = (uint16_t)how;
	return sqe;
}

/* Prints the next completion, and checks that there is no other. */
static void note_next(const char *key, struct uring *ring)
{
	struct io_uring_cqe cqe;

	REQUIRE(uring_wait(ring, 1) && uring_take(ring, &cqe));
	note_cqe(key, &cqe);
	note("left", uring_settle(ring));
}

static void once(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	receive(&ring, fds[0], 0);
	try_sqe("none", &ring);
	provide(&ring, 0, 3);
	receive(&ring, fds[0], 0);
	note_result("submit", uring_submit(&ring));
	send_bytes(fds[1], data, 10);
	note_next("waited", &ring);
	send_bytes(fds[1], data, 20);
	receive(&ring, fds[0], 0)->len = 5;
	try_sqe("less", &ring);
	receive(&ring, fds[0], 0);
	try_sqe("rest", &ring);
	receive(&ring, fds[0], 0);
	try_sqe("used_up", &ring);
}

static void goes_on_from(bool is_list)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	if (is_list) {
		provide(&ring, 0, 3);
	} else {
		set_array(&ring);
		for (int i = 0; i < 3; i++)
			append(i);
	}
	send_bytes(fds[1], data, 10);
	receive(&ring, fds[0], IORING_RECV_MULTISHOT);
	note_result("submit", uring_submit(&ring));
	note_next("there", &ring);
	send_bytes(fds[1], data, 20);
	note_next("comes", &ring);
	send_bytes(fds[1], data, 300);
	REQUIRE(uring_wait(&ring, 2));
	note_in_order("more", &ring, 2);
	if (is_list) {
		provide(&ring, 0, 3);
	} else {
		append(0);
		append(1);
	}
	receive(&ring, fds[0], IORING_RECV_MULTISHOT);
	note_result("submit", uring_submit(&ring));
	note_next("again", &ring);
	close(fds[1]);
	note_next("end", &ring);
}

static void list(void)
{
	goes_on_from(true);
}

static void ring_of_buffers(void)
{
	goes_on_from(false);
}

static void number_is_replaced(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2], others[2];

	pair_of(SOCK_STREAM, fds);
	pair_of(SOCK_STREAM, others);
	provide(&ring, 0, 4);
	receive(&ring, fds[0], IORING_RECV_MULTISHOT);
	note_result("submit", uring_submit(&ring));
	send_bytes(fds[1], data, 10);
	note_next("before", &ring);
	REQUIRE(dup2(others[0], fds[0]) == fds[0]);
	send_bytes(others[1], data, 30);
	send_bytes(fds[1], data, 20);
	note_next("after", &ring);
	note_result("other", recv(fds[0], data, sizeof(data), MSG_DONTWAIT));
	close(fds[1]);
	note_next("end", &ring);
}

static void many_at_once(void)
{
	struct uring ring = new_uring(32, 0);
	int fds[2], i;

	pair_of(SOCK_SEQPACKET, fds);
	provide(&ring, 0, 8);
	for (i = 0; i < 8; i++)
		send_bytes(fds[1], data, 10 + (size_t)i);
	receive(&ring, fds[0], IORING_RECV_MULTISHOT);
	note_result("submit", uring_submit(&ring));
	/* The ninth completion has -ENOBUFS, because there are only eight buffers. */
	note_in_order("cqe", &ring, 9);
	send_bytes(fds[1], data, 5);
	note("left", uring_settle(&ring));
}

static void full_ring(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE,
					  .cq_entries = 2 };
	struct uring ring = new_uring_of(2, &params);
	int fds[2], i;

	pair_of(SOCK_SEQPACKET, fds);
	provide(&ring, 0, 8);
	for (i = 0; i < 5; i++)
		send_bytes(fds[1], data, 10 + (size_t)i);
	receive(&ring, fds[0], IORING_RECV_MULTISHOT);
	note_result("submit", uring_submit(&ring));
	for (i = 0; i < 3; i++) {
		struct io_uring_cqe cqe;

		REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
		note_cqe("cqe", &cqe);
	}
}

/*
 * Waits until all earlier requests have ended. Consumes no completion, so that the ring
 * stays full. To notice the end, submits a write to a pipe with IOSQE_IO_DRAIN: the
 * write is executed only after the earlier requests have ended.
 */
static void await_end(struct uring *ring)
{
	struct pollfd pfd = { .events = POLLIN };
	int ends[2];

	REQUIRE(pipe(ends) == 0);
	sqe_rw(ring, IORING_OP_WRITE, ends[1], data, 1, 0)->flags =
		IOSQE_IO_DRAIN;
	note_result("submit", uring_submit(ring));
	pfd.fd = ends[0];
	REQUIRE(poll(&pfd, 1, PATIENCE_MS) == 1);
}

/*
 * The completion ring has overflowed before the receive begins. So the multishot
 * receive ends after one shot (completion), which follows the earlier completions.
 */
static void overflowed(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE,
					  .cq_entries = 2 };
	struct uring ring = new_uring_of(2, &params);
	int fds[2];

	pair_of(SOCK_SEQPACKET, fds);
	provide(&ring, 0, BUFFERS);
	send_bytes(fds[1], data, 10);
	send_bytes(fds[1], data, 11);
	for (int i = 0; i < 3; i++) {
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_result("submit", uring_submit(&ring));
	}
	receive(&ring, fds[0], IORING_RECV_MULTISHOT);
	note_result("submit", uring_submit(&ring));
	await_end(&ring);
	note_in_order("cqe", &ring, 5);
	note("left", uring_settle(&ring));
	receive(&ring, fds[0], 0);
	try_sqe("next", &ring);
}

static void cancelled(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	uint64_t target;
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	provide(&ring, 0, 3);
	target = receive(&ring, fds[0], IORING_RECV_MULTISHOT)->user_data;
	note_result("submit", uring_submit(&ring));
	send_bytes(fds[1], data, 10);
	note_next("comes", &ring);
	sqe = sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1);
	sqe->addr = target;
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
	receive(&ring, fds[0], 0);
	note_result("submit", uring_submit(&ring));
	send_bytes(fds[1], data, 10);
	note_next("next", &ring);
}

static void mistakes(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	provide(&ring, 0, 3);
	receive(&ring, fds[0], IORING_RECV_MULTISHOT)->flags = 0;
	try_sqe("unselected", &ring);
	receive(&ring, fds[0], IORING_RECV_MULTISHOT)->msg_flags = MSG_WAITALL;
	try_sqe("waitall", &ring);
	receive(&ring, fds[0], IORING_RECV_MULTISHOT)->addr2 = 1;
	try_sqe("addr2", &ring);
	receive(&ring, fds[0], IORING_RECV_MULTISHOT)->msg_flags = MSG_DONTWAIT;
	try_sqe("dontwait", &ring);
}

static void limited(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	provide(&ring, 0, 8);
	send_bytes(fds[1], data, 20);
	receive(&ring, fds[0], IORING_RECV_MULTISHOT)->len = 8;
	note_result("submit", uring_submit(&ring));
	REQUIRE(uring_wait(&ring, 3));
	note_in_order("cqe", &ring, 3);
}

static void note_message(const char *key, struct uring *ring,
			 const struct sockaddr_in *from)
{
	const struct io_uring_recvmsg_out *out;
	const struct sockaddr_in *name;
	struct io_uring_cqe cqe;

	REQUIRE(uring_wait(ring, 1) && uring_take(ring, &cqe));
	note_cqe(key, &cqe);
	if (cqe.res < (int)sizeof(*out))
		return;
	out = (const void *)memory[cqe.flags >> IORING_CQE_BUFFER_SHIFT];
	name = (const void *)(out + 1);
	note("namelen", out->namelen);
	note("controllen", out->controllen);
	note("payloadlen", out->payloadlen);
	note("flags", out->flags);
	note("is_sender", name->sin_port == from->sin_port);
}

/*
 * Receives datagrams with space for the sender's address. The address itself comes
 * after the header in each buffer, so any pointer will do for `name`.
 */
static void messages_of(void *name)
{
	struct msghdr msg = { .msg_name = name,
			      .msg_namelen = sizeof(struct sockaddr_in),
			      .msg_controllen = 32 };
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address, other;
	int to = bound_inet(SOCK_DGRAM, &address),
	    from = bound_inet(SOCK_DGRAM, &other);
	struct io_uring_sqe *sqe;

	provide(&ring, 0, 4);
	sqe = sqe_rw(&ring, IORING_OP_RECVMSG, to, &msg, 1, 0);
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	sqe->ioprio = IORING_RECV_MULTISHOT;
	note_result("submit", uring_submit(&ring));
	REQUIRE(connect(from, (void *)&address, sizeof(address)) == 0);
	send_bytes(from, data, 30);
	note_message("first", &ring, &other);
	send_bytes(from, data, 1000);
	note_message("cut", &ring, &other);
	send_bytes(from, data, 0);
	note_message("empty", &ring, &other);
}

static void messages(void)
{
	struct sockaddr_in name;

	messages_of(&name);
}

static void messages_without_a_name(void)
{
	messages_of(NULL);
}

static void small_buffers(void)
{
	struct msghdr msg = { .msg_controllen = BYTES };
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address, other;
	int to = bound_inet(SOCK_DGRAM, &address),
	    from = bound_inet(SOCK_DGRAM, &other);
	struct io_uring_sqe *sqe;

	provide(&ring, 0, 4);
	sqe = sqe_rw(&ring, IORING_OP_RECVMSG, to, &msg, 1, 0);
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	sqe->ioprio = IORING_RECV_MULTISHOT;
	REQUIRE(connect(from, (void *)&address, sizeof(address)) == 0);
	send_bytes(from, data, 30);
	note_result("submit", uring_submit(&ring));
	note_message("cqe", &ring, &other);
}

/*
 * In each buffer, msg_controllen reserves space before the message's data. The value
 * must be valid.
 */
static void long_heads(void)
{
	static const size_t lengths[] = { BYTES,         INT_MAX - 16,
					  INT_MAX,       1ul + INT_MAX,
					  UINT32_MAX,    1ul + UINT32_MAX,
					  (size_t)-1000, (size_t)-16,
					  (size_t)-1 };
	struct msghdr msg = { .msg_name = NULL };
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	char key[32];
	int fds[2];

	pair_of(SOCK_DGRAM, fds);
	provide(&ring, 0, 8);
	send_bytes(fds[1], data, 30);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		msg.msg_controllen = lengths[i];
		sqe = sqe_rw(&ring, IORING_OP_RECVMSG, fds[0], &msg, 1, 0);
		sqe->flags = IOSQE_BUFFER_SELECT;
		sqe->buf_group = GROUP;
		sqe->ioprio = IORING_RECV_MULTISHOT;
		snprintf(key, sizeof(key), "%#zx", lengths[i]);
		try_sqe(key, &ring);
	}
}

static void one_message(void)
{
	struct iovec iov = { NULL, 20 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int fds[2];

	pair_of(SOCK_DGRAM, fds);
	provide(&ring, 0, 4);
	send_bytes(fds[1], data, 30);
	sqe = sqe_rw(&ring, IORING_OP_RECVMSG, fds[0], &msg, 1, 0);
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	try_sqe("cqe", &ring);
	note("flags", msg.msg_flags);
	msg.msg_iovlen = 2;
	sqe = sqe_rw(&ring, IORING_OP_RECVMSG, fds[0], &msg, 1, 0);
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	try_sqe("two", &ring);
}

static void sends_from(bool is_list)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	if (is_list) {
		provide(&ring, 0, 2);
	} else {
		set_array(&ring);
		append(0);
		append(1);
	}
	memset(memory[0], 'x', BYTES);
	sqe = sqe_of(&ring, IORING_OP_SEND, fds[0]);
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	try_sqe("whole", &ring);
	sqe = sqe_of(&ring, IORING_OP_SEND, fds[0]);
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	sqe->len = 10;
	try_sqe("part", &ring);
	sqe = sqe_of(&ring, IORING_OP_SEND, fds[0]);
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	try_sqe("none", &ring);
	note("got", recv(fds[1], data, sizeof(data), 0));
	note("is_it", data[0] == 'x' && data[BYTES - 1] == 'x');
}

static void sends(void)
{
	sends_from(true);
}

static void sends_of_array(void)
{
	sends_from(false);
}

static void tells_of_each(void)
{
	struct uring ring = new_uring(8, 0);
	struct __kernel_timespec soon = SPAN_SOON;
	struct io_uring_sqe *sqe;
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	provide(&ring, 0, 4);
	receive(&ring, fds[0], IORING_RECV_MULTISHOT)->flags |=
		IOSQE_CQE_SKIP_SUCCESS;
	send_bytes(fds[1], data, 10);
	note_result("submit", uring_submit(&ring));
	note_next("first", &ring);
	send_bytes(fds[1], data, 10);
	note_next("second", &ring);
	close(fds[1]);
	note("left", uring_settle(&ring));
	sqe = sqe_of(&ring, IORING_OP_TIMEOUT, -1);
	sqe->addr = (uintptr_t)&soon;
	sqe->len = 1;
	sqe->off = 2;
	sqe->timeout_flags =
		IORING_TIMEOUT_MULTISHOT | IORING_TIMEOUT_ETIME_SUCCESS;
	sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
	note_result("submit", uring_submit(&ring));
	note_next("time", &ring);
}

static void sends_to_from(bool is_list)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address, other;
	int to = bound_inet(SOCK_DGRAM, &address),
	    from = bound_inet(SOCK_DGRAM, &other);

	if (is_list) {
		provide(&ring, 0, 2);
	} else {
		set_array(&ring);
		append(0);
		append(1);
	}
	memset(memory[0], 'x', BYTES);
	for (int i = 0; i < 3; i++) {
		struct io_uring_sqe *sqe = sqe_of(&ring, IORING_OP_SEND, from);

		sqe->flags = IOSQE_BUFFER_SELECT;
		sqe->buf_group = GROUP;
		sqe->addr2 = (uintptr_t)&address;
		sqe->addr_len = sizeof(address);
		sqe->len = i ? 10 : 0;
		try_sqe("sent", &ring);
		note("got", recv(to, data, sizeof(data), MSG_DONTWAIT));
		note("is_it", data[0] == 'x');
	}
}

static void sends_to(void)
{
	sends_to_from(true);
}

static void sends_to_of_array(void)
{
	sends_to_from(false);
}

const struct row rows_uring_multishot[] = {
	ROW("a receive selects a buffer", once),
	ROW("one request receives until there are no buffers, of a list", list),
	ROW("one request receives until there are no buffers, of an array",
	    ring_of_buffers),
	ROW("a multishot receive, and its descriptor is replaced",
	    number_is_replaced),
	ROW("one request receives many at once", many_at_once),
	ROW("one request receives more than the ring holds", full_ring),
	ROW("one request receives into a ring that has overflowed", overflowed),
	ROW("one request that receives is cancelled", cancelled),
	ROW("mistakes of one that receives again", mistakes),
	ROW("one request receives so many bytes each time", limited),
	ROW("one request receives messages", messages),
	ROW("one request receives messages, also without a name",
	    messages_without_a_name),
	ROW("a buffer is too small for a message's head", small_buffers),
	ROW("the header of a message is too long", long_heads),
	ROW("a message goes to a selected buffer", one_message),
	ROW("a send selects a buffer, of a list", sends),
	ROW("a send selects a buffer, of an array", sends_of_array),
	ROW("a send to an address selects a buffer, of a list", sends_to),
	ROW("a send to an address selects a buffer, of an array",
	    sends_to_of_array),
	ROW("a multishot receive posts each completion, whatever is skipped",
	    tells_of_each),
	NO_ROW,
};
