/* SPDX-License-Identifier: MIT */
/*
 * No bug: main() grows its buffer after one receive has completed, and before it
 * submits the next one.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <stdlib.h>
#include <sys/socket.h>

int main(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	char *buffer = NULL;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	for (size_t bytes = 64; bytes <= 1 << 20; bytes *= 4) {
		buffer = realloc(buffer, bytes);
		if (!buffer)
			return 1;
		io_uring_prep_recv(io_uring_get_sqe(&ring), ends[0], buffer,
				   bytes, 0);
		io_uring_submit(&ring);
		if (send(ends[1], "text", 4, 0) != 4 ||
		    io_uring_wait_cqe(&ring, &cqe) || cqe->res != 4)
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	free(buffer);
	io_uring_queue_exit(&ring);
	return 0;
}
