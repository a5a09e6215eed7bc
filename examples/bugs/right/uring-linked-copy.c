/* SPDX-License-Identifier: MIT */
/*
 * No bug: a read, and a write that is linked to it, use one buffer. The write begins
 * after the read has ended.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <unistd.h>

static char buffer[4];

int main(void)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int source[2], target[2];

	if (pipe(source) || pipe(target) || io_uring_queue_init(4, &ring, 0))
		return 1;
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read(sqe, source[0], buffer, sizeof(buffer), 0);
	io_uring_sqe_set_flags(sqe, IOSQE_IO_LINK);
	io_uring_prep_write(io_uring_get_sqe(&ring), target[1], buffer,
			    sizeof(buffer), 0);
	io_uring_submit(&ring);
	if (write(source[1], "text", 4) != 4)
		return 1;
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&ring, &cqe) || cqe->res != 4)
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return 0;
}
