/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() unmaps a buffer that is in a buffer ring. A multishot receive
 * selects this buffer, and fails with EFAULT.
 * To mend it: unregister the buffer ring before unmapping its buffers.
 *
 * expect: provided-freed
 */
#include <liburing.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { GROUP = 5, NR = 8, PAGE = 4096 };

static void *pages(size_t nr)
{
	void *at = mmap(NULL, nr * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

int main(void)
{
	struct io_uring_buf_ring *buffers = pages(1);
	struct io_uring_buf_reg registration = { .ring_entries = NR,
						 .bgid = GROUP };
	char *pool = pages(NR);
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	int ends[2];

	if (!buffers || !pool || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	registration.ring_addr = (unsigned long)buffers;
	if (io_uring_register_buf_ring(&ring, &registration, 0))
		return 1;
	for (int i = 0; i < NR; i++)
		io_uring_buf_ring_add(buffers, pool + (size_t)i * PAGE, PAGE,
				      (unsigned short)i, NR - 1, i);
	io_uring_buf_ring_advance(buffers, NR);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_recv_multishot(sqe, ends[0], NULL, 0, 0);
	io_uring_sqe_set_flags(sqe, IOSQE_BUFFER_SELECT);
	sqe->buf_group = GROUP;
	io_uring_submit(&ring);          /* expect: submitted */
	munmap(pool, (size_t)NR * PAGE); /* expect: now */
	if (send(ends[1], "late", 4, 0) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
