/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() closes the ring while a read is in flight. It then cannot know when
 * the read no longer uses the buffer.
 * To mend it: cancel the read, reap its completion, and then call
 * io_uring_queue_exit().
 *
 * expect: ring-closed-in-flight
 */
#include <liburing.h>
#include <unistd.h>

static char buffer[4096];

int main(void)
{
	struct io_uring ring;
	int ends[2];

	if (pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], buffer,
			   sizeof(buffer), 0);
	io_uring_submit(&ring);     /* expect: submitted */
	io_uring_queue_exit(&ring); /* expect: now */
	return 0;
}
