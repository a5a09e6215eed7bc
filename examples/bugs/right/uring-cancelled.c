/* SPDX-License-Identifier: MIT */
/*
 * No bug: main() cancels the read, reaps the completions of the read and of the cancel
 * request, and then frees the buffer.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4096 };

int main(void)
{
	char *buffer = malloc(BUFFER_BYTES);
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (!buffer || pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read(sqe, ends[0], buffer, BUFFER_BYTES, 0);
	io_uring_sqe_set_data(sqe, buffer);
	io_uring_submit(&ring);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_cancel(sqe, buffer, 0);
	io_uring_sqe_set_data(sqe, NULL);
	io_uring_submit(&ring);
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&ring, &cqe))
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	free(buffer);
	io_uring_queue_exit(&ring);
	return 0;
}
