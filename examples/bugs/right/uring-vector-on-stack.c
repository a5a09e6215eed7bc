/* SPDX-License-Identifier: MIT */
/*
 * No bug: start() overwrites the local iovec and msghdr of its requests after the
 * submission, in which the kernel has copied them. The text to which they point stays
 * valid.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <sys/socket.h>
#include <string.h>

static char text[] = "text", filler[4096];

static void start(struct io_uring *ring, int fd)
{
	struct iovec vector = { text, sizeof(text) };
	struct msghdr header = { .msg_iov = &vector, .msg_iovlen = 1 };

	io_uring_prep_sendmsg(io_uring_get_sqe(ring), fd, &header, 0);
	io_uring_prep_writev(io_uring_get_sqe(ring), fd, &vector, 1, 0);
	io_uring_submit(ring);
	memset(&vector, 0, sizeof(vector));
	memset(&header, 0, sizeof(header));
}

int main(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	while (send(ends[0], filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	start(&ring, ends[0]);
	io_uring_prep_nop(io_uring_get_sqe(&ring));
	io_uring_submit(&ring);
	while (recv(ends[1], filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	for (int i = 0; i < 3; i++) {
		if (io_uring_wait_cqe(&ring, &cqe) || cqe->res < 0)
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return 0;
}
