/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() grows its buffer by realloc() while a receive into it is in flight.
 * The bytes arrive in the old memory, which was freed.
 * To mend it: grow the buffer after the completion of one receive, before submitting
 * the next.
 *
 * expect: freed-in-flight
 */
#include <liburing.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { SMALL_BYTES = 2048, LARGE_BYTES = 1 << 20 };

int main(void)
{
	char *larger, *buffer = malloc(SMALL_BYTES);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (!buffer || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_recv(io_uring_get_sqe(&ring), ends[0], buffer + 64,
			   SMALL_BYTES - 64, 0);
	io_uring_submit(&ring);                /* expect: submitted */
	larger = realloc(buffer, LARGE_BYTES); /* expect: now */
	if (!larger)
		return 1;
	if (send(ends[1], "late", 4, 0) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	free(larger);
	return 0;
}
