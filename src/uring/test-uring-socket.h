/* SPDX-License-Identifier: MIT */
/* Shared by tests of requests on sockets: pairs, connections and provided buffers. */
#ifndef TEST_URING_SOCKET_H
#define TEST_URING_SOCKET_H

#include <netinet/in.h>
#include <sys/socket.h>

#define RING_ENTRIES 64
#include "test-uring.h"

enum { GROUP = 3, BUFFERS = 16, BYTES = 64 };

#define CQE_OF(bid)                                \
	(IORING_CQE_F_BUFFER | IORING_CQE_F_MORE | \
	 (uint32_t)(bid) << IORING_CQE_BUFFER_SHIFT)

static char memory[BUFFERS][BYTES];

static inline void pair_of(int fds[2])
{
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static inline void close_pair(const int fds[2])
{
	unit_close(fds[0]);
	unit_close(fds[1]);
}

/* Return: a socket that listens on the loopback interface. */
static inline int listener(int flags, struct sockaddr_in *ret_address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	socklen_t len = sizeof(*ret_address);

	assert_true(fd >= 0);
	*ret_address = (struct sockaddr_in){ .sin_family = AF_INET };
	ret_address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (void *)ret_address, len), 0);
	assert_int_equal(getsockname(fd, (void *)ret_address, &len), 0);
	assert_int_equal(listen(fd, 128), 0);
	return fd;
}

/* Make a TCP connection: fds[0] is the accepted side. */
static inline void connection_of(int fds[2])
{
	struct sockaddr_in address;
	int listening = listener(0, &address);

	fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fds[1], (void *)&address, sizeof(address)), 0);
	fds[0] = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fds[0] >= 0);
	close(listening);
}

static inline void put_receive(struct uring *of, int fd, uint64_t user_data)
{
	struct io_uring_sqe *sqe = put(of, IORING_OP_RECV, fd, user_data);

	sqe->ioprio = IORING_RECV_MULTISHOT;
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
}

static inline void provide(struct uring *of, uint32_t bid, int nr)
{
	struct io_uring_sqe *sqe = put_rw(of, IORING_OP_PROVIDE_BUFFERS, nr,
					  memory[bid], BYTES, bid, 0);

	sqe->buf_group = GROUP;
	submit(of, 1);
	assert_true(get(of).res >= 0);
}

/*
 * Make a pair of sockets, provide buffers, and start a multishot receive on fds[0].
 */
static inline void pair_that_receives(int fds[2])
{
	pair_of(fds);
	provide(&client, 0, BUFFERS);
	put_receive(&client, fds[0], 1);
	submit(&client, 0);
}

/* Wait until nr completions are in the ring. Makes no io_uring call. */
static inline void await_unread(const struct uring *of, uint32_t nr)
{
	uint32_t word = 0;

	while (unread(of) < nr)
		(void)uaio_sleep(&word, 0, uaio_now_ns() + 1000000);
}

/*
 * Cancel all requests on fd. Check that this cancels the request with this user_data,
 * or no request if user_data is 0.
 */
static inline void cancel_on(int fd, uint64_t user_data)
{
	struct io_uring_sqe *sqe = put(&client, IORING_OP_ASYNC_CANCEL, fd, 9);

	sqe->cancel_flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL;
	submit(&client, 1);
	assert_got(&client, 9, user_data ? 1 : 0);
	if (user_data)
		assert_got(&client, user_data, -ECANCELED);
}

static inline bool is_quiet(void *arg)
{
	(void)arg;
	return unit_is_quiet(0) && unit_is_quiet(0);
}

#endif /* TEST_URING_SOCKET_H */
