/* SPDX-License-Identifier: MIT */
/*
 * The bug: provide() puts a local array into a buffer ring, and returns. A receive
 * selects the array, and overwrites what is on the stack by then.
 * To mend it: provide memory that stays valid, such as an array of main() or memory
 * from malloc().
 *
 * expect: provided-freed
 */
#include <liburing.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { GROUP = 9, NR = 4, BUFFER_BYTES = 16384 };

static struct io_uring_buf_ring *buffers;

static void provide(struct io_uring *ring, int fd)
{
	char local[BUFFER_BYTES];
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_buf_ring_add(buffers, local, BUFFER_BYTES, 0, NR - 1, 0);
	io_uring_buf_ring_advance(buffers, 1);
	io_uring_prep_recv(sqe, fd, NULL, 0, 0);
	io_uring_sqe_set_flags(sqe, IOSQE_BUFFER_SELECT);
	sqe->buf_group = GROUP;
	io_uring_submit(ring); /* expect: submitted */
}

int main(void)
{
	struct io_uring_buf_reg registration = { .ring_entries = NR,
						 .bgid = GROUP };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (posix_memalign((void **)&buffers, 4096, 4096) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	registration.ring_addr = (unsigned long)buffers;
	if (io_uring_register_buf_ring(&ring, &registration, 0))
		return 1;
	io_uring_buf_ring_init(buffers);
	provide(&ring, ends[0]);
	if (send(ends[1], "late", 4, 0) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	free(buffers);
	return 0;
}
