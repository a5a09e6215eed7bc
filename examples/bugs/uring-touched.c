/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() looks at the buffer of a read that is in flight, and may see the old
 * byte or the new one.
 * To mend it: look at the buffer after reaping the read's completion.
 * AddressSanitizer in the program finds this bug (cc -fsanitize=address).
 *
 * What `uaio check` reports (README.md explains these lines):
 * expect: nothing
 * with address: touched-in-flight
 * with thread: race-in-flight
 */
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4096 };

int main(void)
{
	char *buffer = calloc(1, BUFFER_BYTES);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2], first;

	if (!buffer || pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], buffer,
			   BUFFER_BYTES, 0);
	io_uring_submit(&ring); /* expect: submitted */
	first = buffer[0];      /* the bug */
	if (write(ends[1], "late", 4) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	free(buffer);
	io_uring_queue_exit(&ring);
	return first;
}
