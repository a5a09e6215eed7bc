/* SPDX-License-Identifier: MIT */
/*
 * The mistake: main() submits two writes to a file, and the second begins inside the
 * range of the first. Which bytes the file then has is undefined. If a worker executes
 * the first write, that write may have ended before the second is submitted. Such a run
 * does not show the mistake.
 *
 * What `uaio check --hints` reports. A run may miss the mistake, so the test makes up
 * to `tries` runs (../README.md):
 * expect: file-ranges-overlap
 * tries: 20
 */
#include <liburing.h>
#include <stdio.h>
#include <unistd.h>

enum { BYTES = 4096 };

int main(void)
{
	static char one[BYTES], other[BYTES];
	FILE *file = tmpfile();
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	if (!file || io_uring_queue_init(8, &ring, 0) < 0)
		return 1;
	io_uring_prep_write(io_uring_get_sqe(&ring), fileno(file), one, BYTES,
			    0);
	/* Right: write at offset BYTES, or link this write to the first. */
	io_uring_prep_write(io_uring_get_sqe(&ring), fileno(file), other, BYTES,
			    BYTES - 1);
	io_uring_submit(&ring); /* expect: submitted */
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&ring, &cqe) < 0 || cqe->res != BYTES)
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return 0;
}
