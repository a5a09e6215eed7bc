/* SPDX-License-Identifier: MIT */
/*
 * A row that is being played: what its steps share with the thread that makes
 * its calls
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

	/* of a call: set, and posted, by the thread that made it */
	sem_t made;
	atomic_bool is_made;
};

struct play {
	const struct stream_kind *kind;
	struct ends ends;
	struct stream_request requests[REQUESTS_MAX];
	size_t nr_requests;
	bool is_order_open; /* which of them got what is */

	aio_context_t ctx;
	int completions; /* an eventfd */
	uint64_t first_data;

	size_t nr_in, nr_out, nr_taken; /* bytes, each way */
	long nr_wrong; /* pieces taken that were not as given */
	bool is_own_closed;
	int other; /* reader of the pipe that took the number, or -1 */
	pid_t watcher;
	int watcher_end;
};

/*
 * stream-calls.c: the requests of each way are the calls of a thread
 */

void calls_give(struct play *play, struct stream_request *request);
bool calls_is_done(struct stream_request *request);
/* Return: false if it is not made in time. */
bool calls_await(struct stream_request *request, long ms);
/* Return: the thread that makes those of that way. */
pid_t calls_thread(enum way way);
/* Waits until each thread sleeps in a call or has made all of its own. */
void calls_settle(struct play *play);

#endif
