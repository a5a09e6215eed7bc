/* SPDX-License-Identifier: MIT */
/*
 * Completion sink: where completions go
 *
 * A table of functions by which a door receives the completions of a queue
 * (queue.h), and tells whether they are what a waiter needs. Every completion goes through the
 * sink, including those of requests that complete inside the submitting call:
 * flow/post.c calls post() under the queue's lock, and wakes waiters after that. Kernel
 * AIO's post() (aio/ctx.c) puts events into the ring from which the client takes them.
 * After the sink has received the last completion of a request, the core touches
 * no memory of that request's client.
 *
 * A request may carry a word that belongs to its door. The core gives it back
 * with each completion, and does not interpret it, except that 0 means no word.
 *
 *   I1  A request has exactly one last completion. Before that it may have any
 *       number with the flag MORE, each posted by the thread that owns the
 *       request (req.h), so they come in order.
 *   I2  The door has room for the last completion of each request that it has
 *       submitted. For one with MORE the core asks first (has_room). If there is
 *       none, the request ends: what it had to say is its last completion. So
 *       nothing is dropped, nothing waits for a client that does not reap, and the
 *       client sees by the missing flag that it has to submit the request anew.
 */
#ifndef UAIO_REQ_SINK_H
#define UAIO_REQ_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/ring.h"

struct uaio_file;
struct uaio_queue;
struct uaio_sqe;

/* Of uaio_completion.flags. */
enum {
	UAIO_COMPLETION_MORE = 1u << 0, /* the request has others to come */
	/* The request did not start, as another has broken its chain. */
	UAIO_COMPLETION_CUT = 1u << 1,
	UAIO_COMPLETION_QUIET = 1u
				<< 2, /* the same, and by a UAIO_LINK_QUIET */
	/* It has received, and its socket has more. */
	UAIO_COMPLETION_LEAVES = 1u << 3,
	/* Of a chain, or behind a drain: it had a mistake, or no file to work on. */
	UAIO_COMPLETION_UNBEGUN = 1u << 4,
};

struct uaio_completion {
	uint64_t data; /* copied from the request, as is key */
	uint64_t key;
	int32_t res;
	uint32_t flags; /* UAIO_COMPLETION_* */
	uint64_t word;
};

/* Completions that are posted together. */
struct uaio_post {
	const struct uaio_completion *completions;
	unsigned nr;
	bool is_inline; /* the requests completed inside the submitting call */
	bool by_worker; /* workers executed them, or their client had asked for that */
	uint64_t words; /* the words of all, ORed: 0 if none has one */
};

struct uaio_sink {
	uint8_t door; /* enum uaio_door_id, for traces */

	/*
	 * Receive completions: make them visible to the client, then notify it
	 * by whatever means the door has (the core itself wakes the queue's
	 * waiters). Called by any thread, with the queue's lock held.
	 */
	void (*post)(struct uaio_queue *queue, const struct uaio_post *post);

	/*
	 * Return: whether the door can receive a completion with MORE now. Called
	 * just before post(), under the same lock. NULL: the door submits no
	 * request that has such completions.
	 */
	bool (*has_room)(struct uaio_queue *queue);

	/*
	 * Release what the words of posted completions refer to. Called after
	 * post(), if post->words is not 0, without locks; the queue may be gone
	 * by then. Not called for completions with MORE.
	 */
	void (*drop_words)(const struct uaio_post *post);

	/*
	 * What the door has to do because of completions that it was given, and
	 * cannot do under the lock: cancel, for example. Called after a post during
	 * which it has set queue->wants_act; not after one of inline completions.
	 * The queue is pinned. NULL: it never sets that.
	 */
	void (*act)(struct uaio_queue *queue);

	/*
	 * A timer starts that was held in a chain or by a drain, and has a word:
	 * what the door counts for it counts from now on. Called without locks; act()
	 * is called once the timer waits. NULL: the door counts nothing.
	 */
	void (*starts)(struct uaio_queue *queue, const struct uaio_sqe *sqe);

	/*
	 * Return: whether a waiter with this need has enough. What the number
	 * says is for the door to choose: how many completions have to be unreaped,
	 * for example. Without the queue's lock this is a guess.
	 */
	bool (*is_met)(const struct uaio_queue *queue, uint64_t need);

	/*
	 * A thread that waited with this need does not come back: it has ended, in
	 * the wait or after a handler had left it. Called without locks. NULL: the
	 * door keeps nothing for a need.
	 */
	void (*forget)(struct uaio_queue *queue, uint64_t need);

	/*
	 * Return: the address of what the client sees completions at, for sanitizers of
	 * threads. NULL: that is the data of each request.
	 */
	uintptr_t (*tail)(const struct uaio_queue *queue);

	/* Return: whether the client has completions to reap; a guess, as above. */
	bool (*has_unreaped)(const struct uaio_queue *queue);

	/*
	 * Return: the result of a request that was cancelled before anything of
	 * it was done. NULL: -ECANCELED.
	 */
	int64_t (*cancelled)(const struct uaio_sqe *sqe);

	/*
	 * Return: the file that the door has fixed at place, with a reference;
	 * NULL: none is. Called for requests of chains (chain.h), when they are
	 * submitted and again when they start, and for those with two ends (args.h),
	 * when they start; by any thread, without locks. NULL: the door adds no such
	 * request.
	 */
	struct uaio_file *(*get_fixed)(struct uaio_queue *queue, int place);

	/*
	 * A poll of a chain starts, of a file that is a door's own (UAIO_FILE_F_RING).
	 * Return: the file to poll in its place, with a reference, for which sqe has
	 * been changed; NULL: there is none. Called by any thread, without locks. NULL:
	 * the door has none such.
	 */
	struct uaio_file *(*polled)(struct uaio_sqe *sqe);
};

#endif /* UAIO_REQ_SINK_H */
