/* SPDX-License-Identifier: MIT */
/*
 * The bug: say_farewell() sends a message from a buffer that hang_up() has freed.
 * To mend it: free the buffer after the send's completion.
 * AddressSanitizer in the program finds this bug (cc -fsanitize=address).
 *
 * What `uaio check` reports (README.md explains these lines):
 * expect: nothing
 * with address: unaddressable
 */
#include <liburing.h>
#include <stdlib.h>
#include <sys/socket.h>

static char *message;

static void hang_up(void)
{
	free(message);
}

static void say_farewell(struct io_uring *ring, int fd)
{
	io_uring_prep_send(io_uring_get_sqe(ring), fd, message, 64, 0);
	io_uring_submit(ring); /* expect: submitted */
}

int main(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	message = calloc(1, 64);
	if (!message || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	hang_up();
	say_farewell(&ring, ends[0]);
	if (io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
