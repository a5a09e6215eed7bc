/* SPDX-License-Identifier: MIT */
/*
 * The bug: say() submits a send of a local array, and returns while the send waits,
 * because the socket is full.
 * To mend it: format the line in memory that stays valid until the send's completion,
 * for instance in the connection.
 *
 * expect: stack-in-flight
 */
#include <liburing.h>
#include <stdio.h>
#include <sys/socket.h>

static char filler[4096];

static void say(struct io_uring *ring, int fd, int number)
{
	char line[64];
	int bytes = snprintf(line, sizeof(line), "%d seconds\n", number);

	io_uring_prep_send(io_uring_get_sqe(ring), fd, line, bytes, 0);
	io_uring_submit(ring); /* expect: submitted */
}

int main(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	while (send(ends[0], filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	say(&ring, ends[0], 7);
	io_uring_prep_nop(io_uring_get_sqe(&ring));
	io_uring_submit(&ring); /* expect: now */
	while (recv(ends[1], filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&ring, &cqe))
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return 0;
}
