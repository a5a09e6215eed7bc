/* SPDX-License-Identifier: MIT */
/*
 * The mistake: main() frees a connection while a poll request has its address as
 * user_data. The thread that consumes the completion gets a pointer to freed memory.
 *
 * expect: user-data-freed
 */
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

struct connection {
	int fd;
	char name[100];
};

int main(void)
{
	struct connection *connection = malloc(sizeof(*connection));
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	int ends[2];

	if (!connection || io_uring_queue_init(8, &ring, 0) < 0 ||
	    pipe(ends) < 0)
		return 1;
	connection->fd = ends[0];
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_poll_add(sqe, connection->fd, POLLIN);
	io_uring_sqe_set_data(sqe, connection);
	io_uring_submit(&ring); /* expect: submitted */
	free(connection);       /* expect: now */
	/*
	 * Right: first remove the poll and consume its completion, then free the
	 * connection.
	 */
	if (write(ends[1], "x", 1) != 1 || io_uring_wait_cqe(&ring, &cqe) < 0)
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
