/* SPDX-License-Identifier: MIT */
/*
 * The bug: start_read() submits a read into a local array and returns. The read then
 * writes into the stack of functions called later.
 * To mend it: keep the buffer in memory that is valid until the completion: in the
 * caller, in static memory, or on the heap.
 *
 * expect: stack-in-flight
 */
#include <liburing.h>
#include <unistd.h>

static void start_read(struct io_uring *ring, int fd)
{
	char area[64 << 10];

	/*
	 * The read fills only the start of the array, at the lowest addresses of the
	 * stack frame. No later call uses the stack so deeply, so this example does not
	 * crash.
	 */
	io_uring_prep_read(io_uring_get_sqe(ring), fd, area, 64, 0);
	io_uring_submit(ring); /* expect: submitted */
}

int main(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	start_read(&ring, ends[0]);
	io_uring_prep_write(io_uring_get_sqe(&ring), ends[1], "late", 4, 0);
	io_uring_submit(&ring); /* expect: now */
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&ring, &cqe))
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return 0;
}
