/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() frees the result of a statx that is linked to a read, while the read
 * still waits for its data.
 * To mend it: free the memory of each request of a chain after that request's own
 * completion.
 *
 * expect: freed-in-flight
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char text[64];

int main(void)
{
	struct statx *about = malloc(sizeof(*about));
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (!about || pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read(sqe, ends[0], text, sizeof(text), 0);
	io_uring_sqe_set_flags(sqe, IOSQE_IO_LINK);
	io_uring_prep_statx(io_uring_get_sqe(&ring), AT_FDCWD, "/", 0,
			    STATX_SIZE, about);
	io_uring_submit(&ring); /* expect: submitted */
	free(about);            /* expect: now */
	/*
	 * The read ends with 0 bytes. A short read fails its chain, so the statx is
	 * cancelled.
	 */
	close(ends[1]);
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&ring, &cqe))
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return 0;
}
