/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() closes the descriptor of a read in flight, as if this ended the
 * read, and frees the buffer. But close() cancels no request.
 * To mend it: cancel the read by io_uring_prep_cancel(), and reap its completion
 * before free().
 *
 * expect: freed-in-flight
 */
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4096 };

int main(void)
{
	char *buffer = malloc(BUFFER_BYTES);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (!buffer || pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], buffer,
			   BUFFER_BYTES, 0);
	io_uring_submit(&ring); /* expect: submitted */
	close(ends[0]);
	free(buffer);   /* expect: now */
	close(ends[1]); /* closing the pipe's write end completes the read */
	if (io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
