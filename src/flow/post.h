/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing a queue (queue.h). Posting completions: passing them to the queue's
 * sink, and waking the threads that now have enough completions.
 */
#ifndef UAIO_FLOW_POST_H
#define UAIO_FLOW_POST_H

#include "req/queue.h"

/* Initialise a queue that is closed and has no requests. */
void uaio_queue_init(struct uaio_queue *queue, const struct uaio_sink *sink);
/* Release the memory of a queue that is closed, and whose requests are complete. */
void uaio_queue_fini(struct uaio_queue *queue);

/* Open the queue: a new generation of it begins. The caller holds the queue's lock. */
void uaio_queue_open_locked(struct uaio_queue *queue);

/*
 * Close the queue, which ends its generation: wake all waiters, and cancel the requests
 * that may wait for ever. Other requests may still be pending when this returns.
 */
void uaio_queue_close(struct uaio_queue *queue);

/*
 * The calling thread becomes the maker of the queue that it opens. As in io_uring,
 * workers execute the queue's requests with the credentials of the maker, whichever
 * thread submits (uaio_queue_submitter()). If all crews are in use, workers use the
 * credentials of the submitters instead. uaio_queue_drop_maker() undoes this, when the
 * queue has no more requests.
 */
void uaio_queue_keep_maker(struct uaio_queue *queue);
void uaio_queue_drop_maker(struct uaio_queue *queue);

/*
 * Give the sink the completions of requests that completed inside their submission, and
 * wake the waiters that now have enough completions. If no other requests are outstanding,
 * the queue may be freed when this returns.
 */
void uaio_queue_post(struct uaio_queue *queue, const struct uaio_post *post);

/*
 * Give the sink the completions of requests that uaio_req_new() created, and wake the
 * waiters that now have enough completions. Requests that a drain held and that may start
 * now are appended to ret_startable (drain.h).
 */
void uaio_queue_post_late(struct uaio_queue *queue,
			  const struct uaio_post *post,
			  struct list *ret_startable);

/*
 * Give the sink an intermediate completion (UAIO_COMPLETION_MORE), if it has room (sink.h).
 * The caller owns the request, which keeps the queue from being freed.
 * Return: whether the sink had room.
 */
bool uaio_queue_post_more(struct uaio_queue *queue,
			  const struct uaio_completion *completion);

/*
 * As uaio_queue_post(), for a thread with its own descriptor table (table.h). In such a
 * thread the library's descriptors are not valid, so another thread wakes the waiters.
 */
void uaio_queue_post_parted(struct uaio_queue *queue,
			    const struct uaio_post *post);

#endif /* UAIO_FLOW_POST_H */
