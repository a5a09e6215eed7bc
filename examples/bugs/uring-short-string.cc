/* SPDX-License-Identifier: MIT */
/*
 * The bug: greet() submits a send of a std::string of its own; a short string
 * lies in the object itself, and so on the stack of greet().
 * To mend it: keep the string in an object that lives until the send's
 * completion.
 *
 * expect: stack-in-flight
 */
#include <liburing.h>
#include <string>
#include <sys/socket.h>

static char filler[4096];

static void greet(io_uring *ring, int fd)
{
	std::string hello = "hello";

	io_uring_prep_send(io_uring_get_sqe(ring), fd, hello.data(),
			   hello.size(), 0);
	io_uring_submit(ring); /* expect: submitted */
}

int main()
{
	io_uring ring;
	io_uring_cqe *cqe;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	while (send(ends[0], filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	greet(&ring, ends[0]);
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
}
