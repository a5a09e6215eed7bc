/* SPDX-License-Identifier: MIT */
/*
 * No bug: after a completion has returned a provided buffer, main() changes the buffer
 * and provides it again.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <string.h>
#include <unistd.h>

enum { GROUP = 7 };

static char buffer[4096];

static int reap(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int result;

	io_uring_submit(ring);
	if (io_uring_wait_cqe(ring, &cqe))
		return -1;
	result = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return result;
}

int main(void)
{
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	int ends[2];

	if (pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	for (int i = 0; i < 3; i++) {
		memset(buffer, i, sizeof(buffer));
		io_uring_prep_provide_buffers(io_uring_get_sqe(&ring), buffer,
					      sizeof(buffer), 1, GROUP, 0);
		if (reap(&ring) < 0 || write(ends[1], "text", 4) != 4)
			return 1;
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_read(sqe, ends[0], NULL, sizeof(buffer), 0);
		io_uring_sqe_set_flags(sqe, IOSQE_BUFFER_SELECT);
		sqe->buf_group = GROUP;
		if (reap(&ring) != 4)
			return 1;
	}
	io_uring_queue_exit(&ring);
	return 0;
}
