/* SPDX-License-Identifier: MIT */
/*
 * The mistake: main() writes to a file, and never checks whether the write has failed.
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
	/* Right: first call io_uring_wait_cqe(), and check cqe->res. */
	io_uring_queue_exit(&ring); /* expect: now */
	return 0;
}
