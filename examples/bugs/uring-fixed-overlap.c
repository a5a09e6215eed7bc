/* SPDX-License-Identifier: MIT */
/*
 * The bug: two fixed reads into one registered buffer are in flight, and the second
 * begins inside the range of the first.
 * To mend it: begin the second read at buffer + 2 * BLOCK_BYTES, because the first
 * fills two blocks.
 *
 * expect: overlap-in-flight
 */
#include <liburing.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096 };

static char buffer[4 * BLOCK_BYTES];

int main(void)
{
	struct iovec whole = { buffer, sizeof(buffer) };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int first[2], second[2];

	if (pipe(first) || pipe(second) || io_uring_queue_init(4, &ring, 0) ||
	    io_uring_register_buffers(&ring, &whole, 1))
		return 1;
	io_uring_prep_read_fixed(io_uring_get_sqe(&ring), first[0], buffer,
				 2 * BLOCK_BYTES, 0, 0);
	io_uring_prep_read_fixed(io_uring_get_sqe(&ring), second[0],
				 buffer + BLOCK_BYTES, BLOCK_BYTES, 0, 0);
	io_uring_submit(&ring); /* expect: submitted */
	close(first[1]);
	close(second[1]);
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&ring, &cqe))
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return 0;
}
