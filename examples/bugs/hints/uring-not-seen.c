/* SPDX-License-Identifier: MIT */
/*
 * Writes to a file, and never looks whether that has failed.
 *
 * expect: completion-not-seen
 */
#include <liburing.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	FILE *file = tmpfile();
	struct io_uring ring;

	if (!file || io_uring_queue_init(8, &ring, 0) < 0)
		return 1;
	io_uring_prep_write(io_uring_get_sqe(&ring), fileno(file), "x", 1, 0);
	io_uring_submit_and_wait(&ring, 1);
	/* Right: io_uring_wait_cqe(), and a look at cqe->res. */
	io_uring_queue_exit(&ring); /* expect: now */
	return 0;
}
