/* SPDX-License-Identifier: MIT */
/*
 * No bug: the buffers are on the stack of main(). Functions that main() calls submit
 * the reads and reap the completions.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <unistd.h>

static void start(struct io_uring *ring, int fd, char *line, unsigned bytes)
{
	io_uring_prep_read(io_uring_get_sqe(ring), fd, line, bytes, 0);
	io_uring_submit(ring);
}

static void start_deep(struct io_uring *ring, int fd, char *line,
		       unsigned bytes, int depth)
{
	char room[512];

	room[0] = 0;
	if (depth > room[0])
		start_deep(ring, fd, line, bytes, depth - 1);
	else
		start(ring, fd, line, bytes);
}

static int finish(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int result;

	if (io_uring_wait_cqe(ring, &cqe))
		return -1;
	result = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return result;
}

int main(void)
{
	struct io_uring ring;
	char lines[2][64];
	int ends[2];

	if (pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	start_deep(&ring, ends[0], lines[0], 5, 10);
	start(&ring, ends[0], lines[1], 5);
	if (write(ends[1], "line\nline\n", 10) != 10)
		return 1;
	if (finish(&ring) != 5 || finish(&ring) != 5)
		return 1;
	io_uring_queue_exit(&ring);
	return 0;
}
