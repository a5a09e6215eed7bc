/* SPDX-License-Identifier: MIT */
/*
 * Completion sink: where completions go
 *
 * What a door does with the completions of a queue (queue.h), and what it says of
 * those it has: a table of functions. Each completion goes through it, also one
 * that is there before the submitting call returns. The core touches nothing of a
 * request's client after its completion was taken in.
 *
 * A request may carry a word of its door's. The core knows nothing of it but 0,
 * which is none, and gives it back with each completion.
 */
#ifndef UAIO_ENGINE_SINK_H
#define UAIO_ENGINE_SINK_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_queue;

struct uaio_completion {
	uint64_t data; /* the request's, as is key */
	uint64_t key;
	int64_t res;
	uint64_t word;
};

/* Completions that are posted together. */
struct uaio_post {
	const struct uaio_completion *completions;
	unsigned nr;
	bool is_inline; /* made inside the submitting call */
	uint64_t words; /* those of all, ORed: 0 if none has one */
};

struct uaio_sink {
	/*
	 * Take the completions in: make them visible, then tell those who are
	 * told by other means than waiting in the queue. From any thread, with
	 * the queue's lock held.
	 */
	void (*post)(struct uaio_queue *queue, const struct uaio_post *post);

	/*
	 * Let go of the words of completions that were taken in, if there are
	 * any. Called without locks; the queue may be gone.
	 */
	void (*drop_words)(const struct uaio_post *post);

	/*
	 * Return: how many completions are there that nobody has reaped. A
	 * thread that asks without the lock gets a guess.
	 */
	uint32_t (*nr_unreaped)(const struct uaio_queue *queue);
};

#endif /* UAIO_ENGINE_SINK_H */
