/* SPDX-License-Identifier: MIT */
/*
 * The bug: a copying program reads the next block into a buffer while a write of the
 * buffer is in flight, so that wrong bytes are written.
 * To mend it: read the next block into a second buffer, or after the write's
 * completion.
 *
 * expect: overlap-in-flight
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096 };

static char block[BLOCK_BYTES], drain[BLOCK_BYTES];

int main(void)
{
	int source = open("/dev/zero", O_RDONLY);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int target[2];

	if (source < 0 || pipe(target) ||
	    fcntl(target[1], F_SETPIPE_SZ, BLOCK_BYTES) < 0 ||
	    write(target[1], drain, BLOCK_BYTES) != BLOCK_BYTES || /* full */
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_write(io_uring_get_sqe(&ring), target[1], block,
			    BLOCK_BYTES, 0);
	io_uring_submit(&ring); /* expect: other */
	io_uring_prep_read(io_uring_get_sqe(&ring), source, block, BLOCK_BYTES,
			   0);
	io_uring_submit(&ring); /* expect: submitted */
	if (read(target[0], drain, BLOCK_BYTES) < 0)
		return 1;
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&ring, &cqe))
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return 0;
}
