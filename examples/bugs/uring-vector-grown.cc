/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() appends to a vector whose memory a receive in flight fills, and the
 * vector moves to new memory. To mend it: append after the completion, or receive into a
 * vector that the program does not change before the completion.
 *
 * expect: freed-in-flight
 * with address: touched-in-flight
 */
#include <liburing.h>
#include <sys/socket.h>
#include <vector>

int main()
{
	std::vector<char> buffer(2048);
	io_uring ring;
	io_uring_cqe *cqe;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_recv(io_uring_get_sqe(&ring), ends[0], &buffer[64],
			   buffer.size() - 64, 0);
	io_uring_submit(&ring); /* expect: submitted */
	buffer.push_back('\n'); /* expect: now */
	if (send(ends[1], "late", 4, 0) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
}
