/* SPDX-License-Identifier: MIT */
/*
 * No bug: a read is in flight in the parent process. A child frees its own copy of the
 * buffer.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	char *buffer = malloc(4096);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2], status;
	pid_t child;

	if (!buffer || pipe(ends) || io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], buffer, 4096, 0);
	io_uring_submit(&ring);
	child = fork();
	if (child == 0) {
		free(buffer);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		return 1;
	if (write(ends[1], "text", 4) != 4 || io_uring_wait_cqe(&ring, &cqe) ||
	    cqe->res != 4)
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	free(buffer);
	io_uring_queue_exit(&ring);
	return 0;
}
