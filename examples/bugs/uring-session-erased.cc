/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() erases a session from its table when the client hangs up,
 * and so deletes the buffer of a read in flight.
 * To mend it: let each request own its buffer, as by a std::shared_ptr that is
 * released at the completion.
 *
 * expect: freed-in-flight
 */
#include <liburing.h>
#include <map>
#include <memory>
#include <unistd.h>

struct session {
	char question[4096];
};

int main()
{
	std::map<int, std::unique_ptr<session>> sessions;
	io_uring ring;
	io_uring_cqe *cqe;
	int ends[2];

	if (pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	sessions[ends[0]] = std::make_unique<session>();
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0],
			   sessions[ends[0]]->question, sizeof(session), 0);
	io_uring_submit(&ring);  /* expect: submitted */
	sessions.erase(ends[0]); /* expect: now */
	close(ends[1]);
	if (io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
}
