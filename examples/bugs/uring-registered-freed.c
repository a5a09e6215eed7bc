/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() frees a registered buffer while a fixed read into it is in flight.
 * Registration keeps the pages in memory, but malloc() may return the block again.
 * To mend it: reap the read's completion, unregister the buffer, and then free it.
 *
 * expect: freed-in-flight
 */
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 8192 };

int main(void)
{
	struct iovec buffer = { malloc(BUFFER_BYTES), BUFFER_BYTES };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (!buffer.iov_base || pipe(ends) ||
	    io_uring_queue_init(4, &ring, 0) ||
	    io_uring_register_buffers(&ring, &buffer, 1))
		return 1;
	io_uring_prep_read_fixed(io_uring_get_sqe(&ring), ends[0],
				 (char *)buffer.iov_base + 4096, 4096, 0, 0);
	io_uring_submit(&ring); /* expect: submitted */
	free(buffer.iov_base);  /* expect: now */
	if (write(ends[1], "late", 4) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
