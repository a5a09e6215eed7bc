/* SPDX-License-Identifier: MIT */
/*
 * The state of a test case while its steps run. The threads of stream-calls.c use this
 * state, too.
 */
#ifndef STREAM_PLAY_H
#define STREAM_PLAY_H

#include <linux/aio_abi.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "ring.h"
#include "stream.h"

enum { REQUESTS_MAX = 8 };

/* What a request does: read, write or poll. */
enum way { READS, WRITES, POLLS, NR_WAYS };

struct stream_request {
	enum way way;
	int fd;
	uint32_t flags;
	size_t nbytes;
	char *buf;
	struct iovec pieces[4];
	int nr_pieces;

	struct iocb cb;
	bool is_done;
	long res;

	/*
	 * With --calls, a thread executes this request by a system call. When the call
	 * has returned, the thread posts `made` and sets `is_made`.
	 */
	sem_t made;
	atomic_bool is_made;
};

struct play {
	const struct stream_kind *kind;
	struct ends ends;
	struct stream_request requests[REQUESTS_MAX];
	size_t nr_requests;
	/*
	 * concurrent requests may get the data in any order, so do not print what they
	 * got
	 */
	bool is_order_open;

	aio_context_t ctx;
	int completions; /* an eventfd, signalled by each completion */
	uint64_t first_data;

	/*
	 * numbers of bytes written to ends.peer, written to ends.own, and read from
	 * ends.peer
	 */
	size_t nr_in, nr_out, nr_taken;
	/*
	 * number of reads from ends.peer that returned other bytes than those written
	 * to ends.own
	 */
	long nr_wrong;
	bool is_own_closed;
	/*
	 * read end of the pipe that the step REUSE_OWN created; -1 without such a step
	 */
	int other;
	pid_t watcher;
	int watcher_end;
};

/*
 * Functions of stream-calls.c, which executes the requests by system calls (--calls). One
 * thread executes all requests that read, another all that write, and a third all that
 * poll.
 */

/* Hand the request over to the thread that executes requests of its kind (enum way). */
void calls_give(struct play *play, struct stream_request *request);
bool calls_is_done(struct stream_request *request);
/* Return: whether the request's system call returned within `ms` milliseconds. */
bool calls_await(struct stream_request *request, long ms);
/* Return: the ID of the thread that executes requests of this kind. */
pid_t calls_thread(enum way way);
/*
 * Wait until each of the three threads sleeps in a system call, or has no request left.
 */
void calls_settle(struct play *play);

#endif
