/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() frees the page while a read of a file into it is in flight. The read
 * takes little time and has usually ended by then, but main() can know this only from
 * the read's completion.
 * To mend it: reap the read's completion before freeing the page.
 *
 * What `uaio check` reports. A run may miss the mistake, so the test makes up to
 * `tries` runs (README.md):
 * expect: freed-in-flight
 * tries: 8
 */
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

int main(void)
{
	char *page = calloc(1, PAGE_BYTES);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	FILE *file = tmpfile();

	if (!page || !file || io_uring_queue_init(4, &ring, 0) ||
	    write(fileno(file), page, PAGE_BYTES) != PAGE_BYTES)
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), fileno(file), page,
			   PAGE_BYTES, 0);
	io_uring_submit(&ring); /* expect: submitted */
	free(page);             /* expect: now */
	if (io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
