/* SPDX-License-Identifier: MIT */
/*
 * The bug: a read is submitted for more bytes than its buffer has, so that it
 * overwrites the memory after the buffer.
 * To mend it: pass the size of the buffer to the read.
 * AddressSanitizer in the program finds this bug (cc -fsanitize=address).
 *
 * What `uaio check` reports (README.md explains these lines):
 * expect: nothing
 * with address: unaddressable
 */
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
	unsigned *number = malloc(sizeof(*number));
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (!number || pipe(ends) || write(ends[1], "12345678", 8) != 8 ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	/*
	 * sizeof(number) is the size of the pointer, 8 bytes; the memory has only 4.
	 */
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], number,
			   sizeof(number), 0);
	io_uring_submit(&ring); /* expect: submitted */
	if (io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	free(number);
	io_uring_queue_exit(&ring);
	return 0;
}
