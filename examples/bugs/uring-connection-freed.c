/* SPDX-License-Identifier: MIT */
/*
 * The bug: a server frees a connection when its receive reports the end of the stream.
 * A send of the same connection is still in flight.
 * To mend it: count the requests of a connection, and free the connection when the
 * last of them has completed.
 *
 * expect: freed-in-flight
 */
#include <liburing.h>
#include <stdlib.h>
#include <sys/socket.h>

struct connection {
	char question[4096];
	char answer[4096];
};

static char filler[4096];

int main(void)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (!connection || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	while (send(ends[0], filler, sizeof(filler), MSG_DONTWAIT) > 0)
		; /* fill the socket's buffer, so that the send below waits */
	io_uring_prep_send(io_uring_get_sqe(&ring), ends[0], connection->answer,
			   sizeof(connection->answer), 0);
	io_uring_submit(&ring); /* expect: submitted */
	io_uring_prep_recv(io_uring_get_sqe(&ring), ends[0],
			   connection->question, sizeof(connection->question),
			   0);
	io_uring_submit(&ring);
	shutdown(ends[1], SHUT_WR);
	if (io_uring_wait_cqe(&ring, &cqe) || cqe->res != 0)
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	free(connection); /* expect: now */
	while (recv(ends[1], filler, sizeof(filler), MSG_DONTWAIT) > 0)
		; /* the client reads now, so the send continues */
	if (io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
