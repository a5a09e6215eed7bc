/* SPDX-License-Identifier: MIT */
/*
 * No bug: a multishot receive fills provided buffers. When a completion returns a
 * buffer, main() changes it and provides it again.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <string.h>
#include <sys/socket.h>

enum { GROUP = 7, BUFFERS = 4, BUFFER_BYTES = 64, ROUNDS = 20 };

static char buffers[BUFFERS][BUFFER_BYTES];

static void provide(struct io_uring *ring, char *first, int nr, int number)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_provide_buffers(sqe, first, BUFFER_BYTES, nr, GROUP,
				      number);
	io_uring_sqe_set_flags(sqe, IOSQE_CQE_SKIP_SUCCESS);
	io_uring_submit(ring);
}

int main(void)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2], number;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(8, &ring, 0))
		return 1;
	provide(&ring, buffers[0], BUFFERS, 0);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_recv_multishot(sqe, ends[0], NULL, 0, 0);
	io_uring_sqe_set_flags(sqe, IOSQE_BUFFER_SELECT);
	sqe->buf_group = GROUP;
	io_uring_submit(&ring);
	for (int i = 0; i < ROUNDS; i++) {
		if (send(ends[1], "text", 4, 0) != 4 ||
		    io_uring_wait_cqe(&ring, &cqe) || cqe->res != 4)
			return 1;
		number = (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
		io_uring_cqe_seen(&ring, cqe);
		memset(buffers[number], 0, BUFFER_BYTES);
		provide(&ring, buffers[number], 1, number);
	}
	shutdown(ends[1], SHUT_WR);
	if (io_uring_wait_cqe(&ring, &cqe) || cqe->res != 0)
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
