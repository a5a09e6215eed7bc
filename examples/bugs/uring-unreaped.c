/* SPDX-License-Identifier: MIT */
/*
 * The bug: poll() reports that the ring has a completion, and main() looks at the
 * buffer without reaping this completion. Only a program that has read the tail of the
 * completion queue, as io_uring_peek_cqe() does, is sure to see the bytes that the
 * kernel wrote before.
 * To mend it: call io_uring_peek_cqe() first.
 * ThreadSanitizer in the program finds this bug (cc -fsanitize=thread).
 *
 * What `uaio check` reports (README.md explains these lines):
 * expect: nothing
 * with thread: race-in-flight
 */
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4096 };

int main(void)
{
	char *buffer = calloc(1, BUFFER_BYTES);
	struct pollfd waits = { .events = POLLIN };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2], first;

	if (!buffer || pipe(ends) || io_uring_queue_init(4, &ring, 0) ||
	    write(ends[1], "text", 4) != 4)
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], buffer,
			   BUFFER_BYTES, 0);
	io_uring_submit(&ring); /* expect: submitted */
	waits.fd = ring.ring_fd;
	if (poll(&waits, 1, -1) != 1)
		return 1;
	first = buffer[0]; /* the bug */
	if (io_uring_peek_cqe(&ring, &cqe) || cqe->res != 4)
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	free(buffer);
	io_uring_queue_exit(&ring);
	return first != 't';
}
