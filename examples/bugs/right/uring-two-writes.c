/* SPDX-License-Identifier: MIT */
/*
 * No bug: two writes in flight use one buffer, which they do not change. Two reads in
 * flight fill the two halves of one block.
 *
 * expect: nothing
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

enum { HALF_BYTES = 2048 };

static char text[] = "text", drain[4096];

int main(void)
{
	char *block = malloc(2 * HALF_BYTES);
	int full[2], empty[2];
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	if (!block || pipe(full) || pipe(empty) ||
	    fcntl(full[1], F_SETPIPE_SZ, sizeof(drain)) < 0 ||
	    write(full[1], drain, sizeof(drain)) != sizeof(drain) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	for (int i = 0; i < 2; i++) {
		io_uring_prep_write(io_uring_get_sqe(&ring), full[1], text,
				    sizeof(text), 0);
		io_uring_prep_read(io_uring_get_sqe(&ring), empty[0],
				   block + i * HALF_BYTES, HALF_BYTES, 0);
	}
	io_uring_submit(&ring);
	if (read(full[0], drain, sizeof(drain)) < 0)
		return 1;
	close(empty[1]);
	for (int i = 0; i < 4; i++) {
		if (io_uring_wait_cqe(&ring, &cqe) || cqe->res < 0)
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	free(block);
	io_uring_queue_exit(&ring);
	return 0;
}
