/* SPDX-License-Identifier: MIT */
/*
 * The bug: io_uring_wait_cqe_timeout() times out, and main() frees the buffer. But the
 * read is still in flight.
 * To mend it: cancel the read by io_uring_prep_cancel(), reap its completion, and then
 * free the buffer.
 *
 * expect: freed-in-flight
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4096 };

int main(void)
{
	struct __kernel_timespec patience = { .tv_nsec = 10 * 1000 * 1000 };
	char *buffer = malloc(BUFFER_BYTES);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (!buffer || pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], buffer,
			   BUFFER_BYTES, 0);
	io_uring_submit(&ring); /* expect: submitted */
	if (io_uring_wait_cqe_timeout(&ring, &cqe, &patience) != -ETIME)
		return 1;
	free(buffer);   /* expect: now */
	close(ends[1]); /* ends the read */
	if (io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
