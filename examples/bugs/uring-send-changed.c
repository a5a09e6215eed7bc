/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() formats the next line into a buffer while a send of the buffer is in
 * flight, so that the second line is sent twice.
 * To mend it: change the buffer after the send's completion, or use one buffer for
 * each send in flight.
 *
 * expect: changed-in-flight
 */
#include <liburing.h>
#include <string.h>
#include <sys/socket.h>

static char line[64], filler[4096];

int main(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	while (send(ends[0], filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	strcpy(line, "the first line\n");
	io_uring_prep_send(io_uring_get_sqe(&ring), ends[0], line, strlen(line),
			   0);
	io_uring_submit(&ring);            /* expect: submitted */
	strcpy(line, "the second line\n"); /* the bug */
	while (recv(ends[1], filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	if (io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
