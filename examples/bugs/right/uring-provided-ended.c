/* SPDX-License-Identifier: MIT */
/*
 * No bug: main() frees a provided buffer after a completion has returned the buffer, or
 * after a request has removed it. At the end main() frees the remaining buffers, which
 * no request can select any more. main() also changes a provided buffer while no
 * request in flight can select it.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GROUP = 2, NR = 3, BUFFER_BYTES = 4096 };

static struct io_uring ring;

static int reap(void)
{
	struct io_uring_cqe *cqe;
	int result;

	io_uring_submit(&ring);
	if (io_uring_wait_cqe(&ring, &cqe))
		return -1;
	result = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return result;
}

static int provide(char *at, unsigned short id)
{
	io_uring_prep_provide_buffers(io_uring_get_sqe(&ring), at, BUFFER_BYTES,
				      1, GROUP, id);
	return reap();
}

static int read_one(int fd)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	io_uring_prep_read(sqe, fd, NULL, BUFFER_BYTES, 0);
	io_uring_sqe_set_flags(sqe, IOSQE_BUFFER_SELECT);
	sqe->buf_group = GROUP;
	return reap();
}

int main(void)
{
	char *buffers[NR];
	int ends[2];

	if (pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < NR; i++) {
			buffers[i] = malloc(BUFFER_BYTES);
			if (!buffers[i] ||
			    provide(buffers[i], (unsigned short)i) < 0)
				return 1;
			memset(buffers[i], turn, BUFFER_BYTES);
		}
		if (write(ends[1], "text", 4) != 4 || read_one(ends[0]) != 4)
			return 1;
		free(buffers[0]);
		if (turn == 2)
			break;
		io_uring_prep_remove_buffers(io_uring_get_sqe(&ring), NR,
					     GROUP);
		if (reap() != NR - 1)
			return 1;
		free(buffers[1]);
		free(buffers[2]);
	}
	free(buffers[1]);
	free(buffers[2]);
	io_uring_queue_exit(&ring);
	return 0;
}
