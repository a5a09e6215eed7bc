/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() increases the number in a record's header while a write of the
 * record is in flight.
 * To mend it: copy the header for each write, or change it after the write's
 * completion.
 *
 * expect: changed-in-flight
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

static struct head {
	unsigned number, bytes;
} head = { 1, 4 };
static char text[] = "text", drain[4096];

int main(void)
{
	struct iovec record[2] = { { &head, sizeof(head) }, { text, 4 } };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, sizeof(drain)) < 0 ||
	    write(ends[1], drain, sizeof(drain)) != sizeof(drain) || /* full */
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_writev(io_uring_get_sqe(&ring), ends[1], record, 2, 0);
	io_uring_submit(&ring); /* expect: submitted */
	head.number++;          /* the bug */
	if (read(ends[0], drain, sizeof(drain)) < 0 ||
	    io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
