/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() frees the buffers that it has provided to a ring. A read then
 * selects one of them, and writes to freed memory.
 * To mend it: remove the buffers (io_uring_prep_remove_buffers) before freeing them.
 *
 * expect: provided-freed
 */
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

enum { GROUP = 3, NR = 2, BUFFER_BYTES = 2048 };

int main(void)
{
	char *pool = malloc(BUFFER_BYTES + NR * BUFFER_BYTES);
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	int ends[2];

	if (!pool || pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_provide_buffers(io_uring_get_sqe(&ring),
				      pool + BUFFER_BYTES, BUFFER_BYTES, NR,
				      GROUP, 0);
	io_uring_submit(&ring); /* expect: submitted */
	if (io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	free(pool); /* expect: now */
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read(sqe, ends[0], NULL, BUFFER_BYTES, 0);
	io_uring_sqe_set_flags(sqe, IOSQE_BUFFER_SELECT);
	sqe->buf_group = GROUP;
	io_uring_submit(&ring);
	if (write(ends[1], "late", 4) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
