/* SPDX-License-Identifier: MIT */
/*
 * Completion sink: where completions go
 *
 * A table of functions by which a door receives the completions of a queue
 * (queue.h), and tells how many it holds. Every completion goes through the
 * sink, including those of requests that complete inside the submitting call.
 * After the sink has received the completion of a request, the core touches no
 * memory of that request's client.
 *
 * A request may carry a word that belongs to its door. The core gives it back
 * with each completion, and does not interpret it, except that 0 means no word.
 */
#ifndef UAIO_REQ_SINK_H
#define UAIO_REQ_SINK_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_queue;
struct uaio_sqe;

struct uaio_completion {
	uint64_t data; /* copied from the request, as is key */
	uint64_t key;
	int64_t res;
	uint64_t word;
};

/* Completions that are posted together. */
struct uaio_post {
	const struct uaio_completion *completions;
	unsigned nr;
	bool is_inline; /* the requests completed inside the submitting call */
	uint64_t words; /* the words of all, ORed: 0 if none has one */
};

struct uaio_sink {
	/*
	 * Receive completions: make them visible to the client, then notify it
	 * by whatever means the door has (the core itself wakes the queue's
	 * waiters). Called by any thread, with the queue's lock held.
	 */
	void (*post)(struct uaio_queue *queue, const struct uaio_post *post);

	/*
	 * Release what the words of posted completions refer to. Called after
	 * post(), if post->words is not 0, without locks; the queue may be gone
	 * by then.
	 */
	void (*drop_words)(const struct uaio_post *post);

	/*
	 * Return: how many completions the client has not reaped yet. Without
	 * the queue's lock this is a guess.
	 */
	uint32_t (*nr_unreaped)(const struct uaio_queue *queue);

	/*
	 * Return: the result of a request that was cancelled before anything of
	 * it was done. NULL: -ECANCELED.
	 */
	int64_t (*cancelled)(const struct uaio_sqe *sqe);
};

#endif /* UAIO_REQ_SINK_H */
