/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() frees the msghdr of a recvmsg right after its submission. When the
 * recvmsg completes, the kernel stores msg_flags and msg_controllen in the msghdr.
 * To mend it: free the msghdr after the completion. (The msghdr of a sendmsg may be
 * freed after the submission.)
 *
 * expect: freed-in-flight
 */
#include <liburing.h>
#include <stdlib.h>
#include <sys/socket.h>

static char text[64];
static struct iovec vector = { text, sizeof(text) };

int main(void)
{
	struct msghdr *header = calloc(1, sizeof(*header));
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (!header || socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	header->msg_iov = &vector;
	header->msg_iovlen = 1;
	io_uring_prep_recvmsg(io_uring_get_sqe(&ring), ends[0], header, 0);
	io_uring_submit(&ring); /* expect: submitted */
	free(header);           /* expect: now */
	if (send(ends[1], "late", 4, 0) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
