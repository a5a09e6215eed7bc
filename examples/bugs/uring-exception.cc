/* SPDX-License-Identifier: MIT */
/*
 * The bug: an exception leaves a function between the submission of a read and
 * its completion, and so destroys the buffer.
 * To mend it: have an object whose destructor cancels the read and reaps its
 * completion, declared after the buffer.
 *
 * expect: freed-in-flight
 */
#include <liburing.h>
#include <stdexcept>
#include <unistd.h>
#include <vector>

static void read_question(io_uring *ring, int fd)
{
	std::vector<char> question(4096);

	io_uring_prep_read(io_uring_get_sqe(ring), fd, question.data(),
			   question.size(), 0);
	io_uring_submit(ring); /* expect: submitted */
	throw std::runtime_error("another connection failed");
} /* expect: now */

int main()
{
	io_uring ring;
	io_uring_cqe *cqe;
	int ends[2];

	if (pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	try {
		read_question(&ring, ends[0]);
	} catch (const std::runtime_error &) {
	}
	close(ends[1]);
	if (io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
}
