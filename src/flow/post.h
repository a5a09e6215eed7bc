/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing a queue (queue.h), and posting its completions: giving them
 * to its sink, and waking the waiters that they are enough for
 */
#ifndef UAIO_FLOW_POST_H
#define UAIO_FLOW_POST_H

#include "req/queue.h"

/* Initialise a queue that is closed and has no requests. */
void uaio_queue_init(struct uaio_queue *queue, const struct uaio_sink *sink);
/* The queue is closed, and all its requests are complete. */
void uaio_queue_fini(struct uaio_queue *queue);

/* Begin a generation. The caller holds the queue's lock. */
void uaio_queue_open_locked(struct uaio_queue *queue);

/*
 * End the generation: tell all waiters to look again, and cancel the requests that
 * may wait for ever. Others may still be pending when this returns.
 */
void uaio_queue_close(struct uaio_queue *queue);

/*
 * The calling thread, which opens the queue, is its maker: the calls of its requests are
 * made as that thread makes them, whoever submits (uaio_queue_submitter()). Without memory
 * each thread submits for itself. The end of that: the queue has no requests any more.
 */
void uaio_queue_keep_maker(struct uaio_queue *queue);
void uaio_queue_drop_maker(struct uaio_queue *queue);

/*
 * Give completions to the sink, of requests that completed when they were
 * submitted, and wake the waiters that they are enough for. If no others are
 * outstanding, the queue may be gone when this returns.
 */
void uaio_queue_post(struct uaio_queue *queue, const struct uaio_post *post);

/*
 * The same for requests that were created (flow.h). What a drain held and may
 * start now is appended to ret_startable (drain.h).
 */
void uaio_queue_post_late(struct uaio_queue *queue,
			  const struct uaio_post *post,
			  struct list *ret_startable);

/*
 * Give the sink a completion with UAIO_COMPLETION_MORE, if it has room (sink.h).
 * The caller owns the request, which keeps the queue.
 * Return: whether it had room.
 */
bool uaio_queue_post_more(struct uaio_queue *queue,
			  const struct uaio_completion *completion);

/*
 * uaio_queue_post() for a thread with another descriptor table (table.h): it uses no
 * descriptor itself, except where the sink does.
 */
void uaio_queue_post_parted(struct uaio_queue *queue,
			    const struct uaio_post *post);

#endif /* UAIO_FLOW_POST_H */
