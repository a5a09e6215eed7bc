/* SPDX-License-Identifier: MIT */
/*
 * No bug: read_line() reads into a local array, and reaps the completion before it
 * returns.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <unistd.h>

static int read_line(struct io_uring *ring, const int *ends)
{
	struct io_uring_cqe *cqe;
	char line[64];
	int bytes;

	io_uring_prep_read(io_uring_get_sqe(ring), ends[0], line, sizeof(line),
			   0);
	io_uring_submit(ring);
	if (write(ends[1], "line\n", 5) != 5 || io_uring_wait_cqe(ring, &cqe))
		return -1;
	bytes = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return bytes;
}

int main(void)
{
	struct io_uring ring;
	int ends[2];

	if (pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	for (int i = 0; i < 3; i++) {
		if (read_line(&ring, ends) != 5)
			return 1;
	}
	io_uring_queue_exit(&ring);
	return 0;
}
