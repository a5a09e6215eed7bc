/* SPDX-License-Identifier: MIT */
/*
 * Completion sink: where events go
 *
 * What a front-end hands the engine along with requests. The engine posts each
 * request's event to its sink, from any thread, and touches nothing of the
 * request's client after that.
 */
#ifndef UAIO_ENGINE_SINK_H
#define UAIO_ENGINE_SINK_H

#include "engine/ring.h"

struct uaio_file;
struct uaio_sink;

/* Events that are posted together. */
struct uaio_post {
	const struct uaio_event *events;
	unsigned nr;
	unsigned nr_inline;      /* of them, made inside io_submit */
	struct uaio_file *resfd; /* borrows: to be signalled, or NULL */
	unsigned nr_resfd;       /* by how much */
};

struct uaio_sink_ops {
	/*
	 * Take in events, all final: make them visible, then signal, then wake
	 * who waits. Called without locks; may be the last thing that happens
	 * to the sink.
	 */
	void (*post)(struct uaio_sink *sink, const struct uaio_post *post);
};

struct uaio_sink {
	const struct uaio_sink_ops *ops; /* immutable */
};

#endif /* UAIO_ENGINE_SINK_H */
