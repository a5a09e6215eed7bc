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

struct uaio_sink;

struct uaio_sink_ops {
	/*
	 * Take in nr events, all final. Called without locks; may be the last
	 * thing that happens to the sink.
	 */
	void (*post)(struct uaio_sink *sink, const struct uaio_event *events,
		     unsigned nr);
};

struct uaio_sink {
	const struct uaio_sink_ops *ops; /* immutable */
};

#endif /* UAIO_ENGINE_SINK_H */
