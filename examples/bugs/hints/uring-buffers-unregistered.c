/* SPDX-License-Identifier: MIT */
/*
 * The mistake: main() unregisters a buffer while a read into it is in flight. This does
 * not end the read, which still writes to the buffer.
 *
 * expect: buffers-unregistered-in-flight
 */
#include <liburing.h>
#include <unistd.h>

int main(void)
{
	static char buffer[4096];
	struct iovec iov = { buffer, sizeof(buffer) };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (io_uring_queue_init(8, &ring, 0) < 0 || pipe(ends) < 0 ||
	    io_uring_register_buffers(&ring, &iov, 1) < 0)
		return 1;
	io_uring_prep_read_fixed(io_uring_get_sqe(&ring), ends[0], buffer,
				 sizeof(buffer), 0, 0);
	io_uring_submit(&ring);             /* expect: submitted */
	io_uring_unregister_buffers(&ring); /* expect: now */
	/* Right: first consume the completion, then unregister the buffer. */
	if (write(ends[1], "x", 1) != 1 || io_uring_wait_cqe(&ring, &cqe) < 0)
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
