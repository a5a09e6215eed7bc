/* SPDX-License-Identifier: MIT */
/*
 * No mistake: this program resembles the other programs in this directory, but is
 * right. Its reads overlap, and its two writes of one range are linked. It reaps all
 * completions before it frees memory, unregisters buffers, or closes the file and the
 * ring.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BYTES = 4096 };

static int take(struct io_uring *ring, int nr)
{
	struct io_uring_cqe *cqe;

	for (; nr; nr--) {
		if (io_uring_wait_cqe(ring, &cqe) < 0 || cqe->res < 0)
			return -1;
		io_uring_cqe_seen(ring, cqe);
	}
	return 0;
}

int main(void)
{
	static char buffers[2][BYTES];
	struct iovec iov = { buffers, sizeof(buffers) };
	char *name = malloc(100);
	FILE *file = tmpfile();
	struct io_uring_sqe *sqe;
	struct io_uring ring;

	if (!name || !file || io_uring_queue_init(8, &ring, 0) < 0 ||
	    io_uring_register_buffers(&ring, &iov, 1) < 0)
		return 1;
	for (int i = 0; i < 2; i++) {
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_write(sqe, fileno(file), buffers[i], BYTES, i);
		sqe->flags |= i ? 0 : IOSQE_IO_LINK;
		io_uring_sqe_set_data(sqe, name);
	}
	io_uring_submit(&ring);
	if (take(&ring, 2) < 0)
		return 1;
	for (int i = 0; i < 2; i++)
		io_uring_prep_read_fixed(io_uring_get_sqe(&ring), fileno(file),
					 buffers[i], BYTES, i, 0);
	io_uring_submit(&ring);
	if (take(&ring, 2) < 0)
		return 1;
	free(name);
	io_uring_unregister_buffers(&ring);
	fclose(file);
	io_uring_queue_exit(&ring);
	return 0;
}
