/* SPDX-License-Identifier: MIT */
/*
 * Completion sink: where completions go
 *
 * What a door does with the completions of a queue (queue.h), and what it says of
 * those it has: a table of functions, all called with the queue's lock held. The
 * core touches nothing of a request's client after its last completion was taken
 * in.
 */
#ifndef UAIO_ENGINE_SINK_H
#define UAIO_ENGINE_SINK_H

#include "engine/ring.h"

struct uaio_file;
struct uaio_queue;

/* Events that are posted together. */
struct uaio_post {
	const struct uaio_event *events;
	unsigned nr;
	unsigned nr_inline;      /* of them, made inside io_submit */
	struct uaio_file *resfd; /* borrows: to be signalled, or NULL */
	unsigned nr_resfd;       /* by how much */
};

struct uaio_sink {
	/*
	 * Take in events, all final: make them visible, then signal whoever is
	 * told of them by other means than waiting in the queue.
	 */
	void (*post)(struct uaio_queue *queue, const struct uaio_post *post);

	/*
	 * Return: how many completions are there that nobody has reaped. Those
	 * who look out for them without the lock get a guess.
	 */
	uint32_t (*nr_unreaped)(const struct uaio_queue *queue);
};

#endif /* UAIO_ENGINE_SINK_H */
