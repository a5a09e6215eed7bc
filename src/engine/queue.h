/* SPDX-License-Identifier: MIT */
/*
 * Queue: what a client is to the core
 *
 * A group of requests (req.h); the threads that wait for their completions
 * (wait.h), one of which may lead (lead.h); and the sink that takes the
 * completions in (sink.h). A door embeds a queue in each object that its clients
 * submit to, and alone knows what that object is.
 *
 *   I1  The memory of a queue stays a queue for ever (slab.h), so a thread that
 *       slept may look at it whatever has become of it meanwhile.
 *   I2  A queue is open from uaio_queue_open() until uaio_queue_close(), which is
 *       one generation with a number of its own. The number changes under the
 *       queue's lock at both ends: a thread that compares it under that lock
 *       never waits, and never leads, in another generation than it was asked
 *       to.
 *   I3  The queue's lock is its group's. The sink is called with it held, so
 *       completions are taken in one post at a time, and no completion comes
 *       between a waiter's look at the sink and its sleep.
 *   I4  A door closes a queue once it hands it no more requests, and frees it
 *       once every request that it has handed it has had its last completion.
 */
#ifndef UAIO_ENGINE_QUEUE_H
#define UAIO_ENGINE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "engine/req.h"
#include "engine/sink.h"

struct uaio_waiter;

struct uaio_queue {
	/* atomic: immutable while open */
	const struct uaio_sink *sink;

	struct uaio_group group;

	/* under group.lock */
	struct list waiters;        /* struct uaio_waiter */
	struct uaio_waiter *leader; /* borrows: or NULL (lead.h) */
	uint64_t nr_leads;          /* how often a leader was awake */
	uint64_t generation;        /* atomic: odd while it is open */
	uint64_t nr_inline;         /* statistics: completed when submitted */
	uint64_t nr_queued;         /* statistics: went another way */
	uint64_t nr_wakeups;        /* statistics: waiters woken */
};

/* Return: the queue of a group; every group is of one. */
static inline struct uaio_queue *uaio_queue_of(struct uaio_group *group)
{
	return container_of(group, struct uaio_queue, group);
}

/* For what a door keeps under the queue's lock, with what its sink does. */
static inline void uaio_queue_lock(struct uaio_queue *queue)
{
	uaio_lock(&queue->group.lock, UAIO_RANK_GROUP);
}

static inline void uaio_queue_unlock(struct uaio_queue *queue)
{
	uaio_unlock(&queue->group.lock, UAIO_RANK_GROUP);
}

/* A queue that is not open, and has no requests. */
void uaio_queue_init(struct uaio_queue *queue, const struct uaio_sink *sink);
/* All requests have ended. */
void uaio_queue_fini(struct uaio_queue *queue);

/* A generation begins, under the queue's lock. */
void uaio_queue_open_locked(struct uaio_queue *queue);

/*
 * The generation ends: all waiters are told to look again, and what may wait for
 * ever is completed as cancelled.
 */
void uaio_queue_close(struct uaio_queue *queue);

/* Return: whether that generation is over. */
static inline bool uaio_queue_is_over_locked(const struct uaio_queue *queue,
					     uint64_t generation)
{
	return queue->generation != generation;
}

static inline bool uaio_queue_is_open_locked(const struct uaio_queue *queue)
{
	return queue->generation & 1;
}

/*
 * Hand completions to the sink, and wake the waiters for whom they are enough.
 * If they are the last that are owed, the queue may be gone when this returns.
 */
void uaio_queue_post(struct uaio_queue *queue, const struct uaio_post *post);

/*
 * The same by a thread with another descriptor table, which touches nothing that
 * has a number but what the sink does.
 */
void uaio_queue_post_parted(struct uaio_queue *queue,
			    const struct uaio_post *post);

#endif /* UAIO_ENGINE_QUEUE_H */
