/* SPDX-License-Identifier: MIT */
/*
 * Functions that the io_uring servers of this directory share. They open a listening
 * socket, prepare SQEs and handle completions. If a call fails, each function ends the
 * process with status 1.
 *
 * A server prints its port, and serves until its standard input ends.
 */
#ifndef UAIO_TEST_SERVE_H
#define UAIO_TEST_SERVE_H

#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUIRE(is_so) ((is_so) ? (void)0 : serve_fail(#is_so, __LINE__))

enum { SERVE_ENTRIES = 4096, SERVE_SEND_BYTES = 32 << 10 };

_Noreturn static inline void serve_fail(const char *what, int line)
{
	fprintf(stderr, "line %d: %s does not hold, errno %d\n", line, what,
		errno);
	exit(1);
}

/*
 * Return: a socket that listens at a port of the kernel's choice. Its connections have
 * small send buffers, so that sends soon block if the client does not read.
 */
static inline int serve_listen(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int bytes = SERVE_SEND_BYTES;
	socklen_t len = sizeof(address);

	REQUIRE(fd >= 0);
	REQUIRE(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) ==
		0);
	REQUIRE(bind(fd, (void *)&address, sizeof(address)) == 0);
	REQUIRE(listen(fd, SERVE_ENTRIES) == 0);
	REQUIRE(getsockname(fd, (void *)&address, &len) == 0);
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

/* Return: how many descriptors the process may have. */
static inline size_t serve_nr_fds(void)
{
	struct rlimit limit;

	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	return limit.rlim_cur;
}

/*
 * If the submission queue is full, submit the prepared SQEs first.
 * Return: the next free SQE.
 */
static inline struct io_uring_sqe *serve_sqe(struct io_uring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	while (!sqe) {
		REQUIRE(io_uring_submit(ring) >= 0);
		sqe = io_uring_get_sqe(ring);
	}
	return sqe;
}

/* Return: user data that contains the kind of the request and its descriptor. */
static inline uint64_t serve_data(unsigned int what, int fd)
{
	return (uint64_t)what << 32 | (uint32_t)fd;
}

/*
 * Submit, wait for completions, and call take() for each of them, until take() returns
 * another value than 0.
 */
static inline void serve(struct io_uring *ring,
			 int (*take)(const struct io_uring_cqe *cqe))
{
	struct io_uring_cqe *cqe, copy;
	int is_over = 0;

	while (!is_over) {
		int ret = io_uring_submit_and_wait(ring, 1);

		REQUIRE(ret >= 0 || ret == -EINTR || ret == -EBUSY);
		while (!is_over && io_uring_peek_cqe(ring, &cqe) == 0) {
			copy = *cqe;
			io_uring_cqe_seen(ring, cqe);
			is_over = take(&copy);
		}
	}
}

#endif /* UAIO_TEST_SERVE_H */
