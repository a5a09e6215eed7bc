/* SPDX-License-Identifier: MIT */
/*
 * The bug: two reads in flight use one buffer, so that the second message overwrites
 * the first.
 * To mend it: give each request in flight a buffer of its own.
 *
 * expect: overlap-in-flight
 */
#include <liburing.h>
#include <unistd.h>

static char buffer[4096];

int main(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int first[2], second[2];

	if (pipe(first) || pipe(second) || io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), first[0], buffer,
			   sizeof(buffer), 0);
	io_uring_submit(&ring); /* expect: other */
	io_uring_prep_read(io_uring_get_sqe(&ring), second[0], buffer,
			   sizeof(buffer), 0);
	io_uring_submit(&ring); /* expect: submitted */
	if (write(first[1], "one", 3) != 3 || write(second[1], "two", 3) != 3)
		return 1;
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&ring, &cqe))
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return 0;
}
