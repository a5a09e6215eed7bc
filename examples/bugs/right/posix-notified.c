/* SPDX-License-Identifier: MIT */
/*
 * No bug: the notification function of a read (SIGEV_THREAD) calls aio_return(), and
 * then frees the aiocb with its buffer.
 *
 * expect: nothing
 */
#include <aio.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

struct job {
	struct aiocb request;
	char buffer[64];
};

static sem_t is_done;
static ssize_t sum;

static void finish(union sigval value)
{
	struct job *job = value.sival_ptr;

	sum += aio_return(&job->request);
	free(job);
	sem_post(&is_done);
}

int main(void)
{
	int ends[2];

	if (pipe(ends) || sem_init(&is_done, 0, 0))
		return 1;
	for (int i = 0; i < 10; i++) {
		struct job *job = calloc(1, sizeof(*job));

		if (!job)
			return 1;
		job->request.aio_fildes = ends[0];
		job->request.aio_buf = job->buffer;
		job->request.aio_nbytes = sizeof(job->buffer);
		job->request.aio_sigevent.sigev_notify = SIGEV_THREAD;
		job->request.aio_sigevent.sigev_notify_function = finish;
		job->request.aio_sigevent.sigev_value.sival_ptr = job;
		if (aio_read(&job->request) || write(ends[1], "text", 4) != 4)
			return 1;
		while (sem_wait(&is_done))
			;
	}
	return sum != 40;
}
