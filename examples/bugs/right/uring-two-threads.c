/* SPDX-License-Identifier: MIT */
/*
 * No bug: one thread submits a read; another thread reaps the completion and frees the
 * buffer.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4096, ROUNDS = 50 };

static struct io_uring ring;

static void *reap(void *arg)
{
	struct io_uring_cqe *cqe;

	for (int i = 0; i < ROUNDS; i++) {
		if (io_uring_wait_cqe(&ring, &cqe) || cqe->res != 4)
			return arg;
		free(io_uring_cqe_get_data(cqe));
		io_uring_cqe_seen(&ring, cqe);
	}
	return NULL;
}

int main(void)
{
	struct io_uring_sqe *sqe;
	pthread_t thread;
	void *failed;
	int ends[2];

	if (pipe(ends) || io_uring_queue_init(64, &ring, 0) ||
	    pthread_create(&thread, NULL, reap, &ring))
		return 1;
	for (int i = 0; i < ROUNDS; i++) {
		char *buffer = malloc(BUFFER_BYTES);

		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_read(sqe, ends[0], buffer, 4, 0);
		io_uring_sqe_set_data(sqe, buffer);
		io_uring_submit(&ring);
		if (write(ends[1], "text", 4) != 4)
			return 1;
	}
	pthread_join(thread, &failed);
	io_uring_queue_exit(&ring);
	return failed != NULL;
}
