/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() frees the message while a read into it is in flight.
 * To mend it: reap the read's completion before freeing the message.
 *
 * expect: freed-in-flight
 */
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

struct message {
	char head[64];
	char text[4032];
};

int main(void)
{
	struct message *message = malloc(sizeof(*message));
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (!message || pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], message->text,
			   sizeof(message->text), 0);
	io_uring_submit(&ring); /* expect: submitted */
	free(message);          /* expect: now */
	/*
	 * The write lets the read complete: four bytes arrive in the freed memory.
	 */
	if (write(ends[1], "late", 4) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
