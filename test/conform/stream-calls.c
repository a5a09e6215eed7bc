/* SPDX-License-Identifier: MIT */
/*
 * Executes the requests of stream.h as calls of read(2), write(2) and poll(2) (option
 * --calls). One thread makes all reads, another all writes, a third all polls, each in
 * the order of submission. The results are the reference for the library.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "conform.h"
#include "stream-play.h"

/* For each kind of call (enum way), the thread that makes these calls. */
static struct caller {
	pthread_t thread;
	pid_t tid; /* 0: the thread does not exist yet */
	sem_t given;
	struct stream_request *queue[REQUESTS_MAX];
	size_t nr_given;
	atomic_size_t nr_made;
	atomic_bool is_in_call;
	sem_t begun;
} callers[NR_WAYS];

static long poll_for(const struct stream_request *request)
{
	struct pollfd slot = {
		.fd = request->fd,
		.events = (short)request->nbytes,
	};

	return poll(&slot, 1, -1) < 0 ? -1 : slot.revents;
}

static long make_call(const struct stream_request *request)
{
	const struct iovec *pieces = request->pieces;
	int nr = request->nr_pieces;

	if (request->way == POLLS)
		return poll_for(request);
	if (request->way == WRITES) {
		if (request->flags)
			return pwritev2(request->fd, pieces, nr, -1,
					(int)request->flags);
		return nr > 1 ? writev(request->fd, pieces, nr)
			      : write(request->fd, request->buf,
				      request->nbytes);
	}
	if (request->flags)
		return preadv2(request->fd, pieces, nr, -1,
			       (int)request->flags);
	return nr > 1 ? readv(request->fd, pieces, nr)
		      : read(request->fd, request->buf, request->nbytes);
}

/*
 * Blocks all signals in this thread: a signal would interrupt the call, but it would
 * not interrupt the request for which the call stands.
 */
static void *make_calls(void *arg)
{
	struct caller *caller = arg;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	caller->tid = gettid();
	sem_post(&caller->begun);
	for (size_t i = 0;; i++) {
		struct stream_request *request;

		sem_wait(&caller->given);
		request = caller->queue[i];
		atomic_store(&caller->is_in_call, true);
		request->res = make_call(request);
		if (request->res < 0)
			request->res = -errno;
		/*
		 * request->fd is a duplicate. It has kept the file open until the call
		 * returned, as a request of kernel AIO does.
		 */
		close(request->fd);
		atomic_store(&request->is_made, true);
		atomic_fetch_add(&caller->nr_made, 1);
		atomic_store(&caller->is_in_call, false);
		sem_post(&request->made);
	}
	return NULL;
}

void calls_give(struct play *play, struct stream_request *request)
{
	struct caller *caller = &callers[request->way];

	(void)play;
	if (!caller->tid) {
		sem_init(&caller->given, 0, 0);
		sem_init(&caller->begun, 0, 0);
		REQUIRE(!pthread_create(&caller->thread, NULL, make_calls,
					caller));
		sem_wait(&caller->begun);
	}
	request->fd = dup(request->fd);
	sem_init(&request->made, 0, 0);
	caller->queue[caller->nr_given++] = request;
	sem_post(&caller->given);
}

pid_t calls_thread(enum way way)
{
	return callers[way].tid;
}

bool calls_is_done(struct stream_request *request)
{
	return atomic_load(&request->is_made);
}

bool calls_await(struct stream_request *request, long ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	while (!calls_is_done(request))
		if (sem_clockwait(&request->made, CLOCK_MONOTONIC, &until) &&
		    errno == ETIMEDOUT)
			return false;
	return true;
}

static bool is_asleep(pid_t tid)
{
	char path[64], text[512] = "", *state;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	stat = fopen(path, "r");
	REQUIRE(stat && fgets(text, sizeof(text), stat));
	fclose(stat);
	/*
	 * The thread's state comes after its name, which is in brackets and may hold
	 * any character.
	 */
	state = strrchr(text, ')');
	return state && !strncmp(state, ") S", 3);
}

void calls_settle(struct play *play)
{
	struct caller *caller;

	(void)play;
	for (caller = callers; caller < callers + NR_WAYS; caller++)
		while (atomic_load(&caller->nr_made) != caller->nr_given &&
		       !(atomic_load(&caller->is_in_call) &&
			 is_asleep(caller->tid)))
			sched_yield();
}
