/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() frees the second of two blocks while a vectored read into both is in
 * flight.
 * To mend it: free both blocks after the read's completion.
 *
 * expect: freed-in-flight
 */
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096 };

int main(void)
{
	struct iovec blocks[2] = {
		{ malloc(BLOCK_BYTES), BLOCK_BYTES },
		{ malloc(BLOCK_BYTES), BLOCK_BYTES },
	};
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (!blocks[0].iov_base || !blocks[1].iov_base || pipe(ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_readv(io_uring_get_sqe(&ring), ends[0], blocks, 2, 0);
	io_uring_submit(&ring);   /* expect: submitted */
	free(blocks[1].iov_base); /* expect: now */
	if (write(ends[1], "late", 4) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	free(blocks[0].iov_base);
	io_uring_queue_exit(&ring);
	return 0;
}
