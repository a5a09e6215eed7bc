/* SPDX-License-Identifier: MIT */
/*
 * The mistake: main() closes a pipe while a read of the pipe is in flight. The read
 * goes on, and may wait for ever. The next file that main() opens gets the same
 * descriptor.
 *
 * expect: descriptor-closed-in-flight
 */
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	static char buffer[64];
	int ends[2];

	if (io_uring_queue_init(8, &ring, 0) < 0 || pipe(ends) < 0)
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], buffer,
			   sizeof(buffer), 0);
	io_uring_submit(&ring); /* expect: submitted */
	close(ends[0]);         /* expect: now */
	/* Right: first cancel the read and consume its completion, then close. */
	if (write(ends[1], "x", 1) != 1 || io_uring_wait_cqe(&ring, &cqe) < 0)
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
