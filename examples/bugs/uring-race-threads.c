/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() submits a read and then notifies another thread, which looks at the
 * buffer while the read is in flight. The lock orders the two threads, but not the
 * read.
 * To mend it: reap the completion before notifying the other thread.
 * ThreadSanitizer in the program finds this bug (cc -fsanitize=thread).
 *
 * What `uaio check` reports (README.md explains these lines):
 * expect: nothing
 * with address: touched-in-flight
 * with thread: race-in-flight
 */
#include <liburing.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static bool is_submitted;
static char first;

static void *look(void *buffer)
{
	pthread_mutex_lock(&lock);
	while (!is_submitted)
		pthread_cond_wait(&told, &lock);
	pthread_mutex_unlock(&lock);
	first = *(char *)buffer; /* the bug */
	return NULL;
}

int main(void)
{
	char *buffer = calloc(1, BUFFER_BYTES);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	pthread_t thread;
	int ends[2];

	if (!buffer || pipe(ends) || io_uring_queue_init(4, &ring, 0) ||
	    pthread_create(&thread, NULL, look, buffer))
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], buffer,
			   BUFFER_BYTES, 0);
	io_uring_submit(&ring); /* expect: submitted */
	pthread_mutex_lock(&lock);
	is_submitted = true;
	pthread_cond_signal(&told);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	if (write(ends[1], "late", 4) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	free(buffer);
	io_uring_queue_exit(&ring);
	return first;
}
