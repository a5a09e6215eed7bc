/* SPDX-License-Identifier: MIT */
/*
 * Queue: how the core sees a client
 *
 * A queue consists of a group of requests (req.h), the threads that wait for
 * their completions (waiter.h), one of which may be the leader (lead.h), and the
 * sink that receives the completions (sink.h). A door embeds a queue in each
 * object that its clients submit to (a context of kernel AIO, for example); the
 * core does not know what that object is.
 *
 *   I1  The memory of a queue remains a queue for ever (slab.h). So a thread that
 *       slept may look at the queue even if it was closed meanwhile.
 *   I2  A queue is open from uaio_queue_open_locked() until uaio_queue_close().
 *       That period is one generation, which has a number of its own. The number
 *       changes under the queue's lock at both ends: a thread that compares it
 *       under that lock never waits, and never leads, in another generation than
 *       the one it was called for.
 *   I3  The queue's lock is its group's lock. The sink is called with this lock
 *       held, so it receives one post at a time, and no completion comes between
 *       the moment when a waiter looks at the sink and the moment when the waiter
 *       is registered to sleep.
 *   I4  A door closes a queue after it has submitted the last request to it, and
 *       frees it after each of these requests has had its last completion.
 */
#ifndef UAIO_REQ_QUEUE_H
#define UAIO_REQ_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "proc/identity.h"
#include "proc/poller.h"
#include "proc/process.h"
#include "req/sink.h"

struct uaio_group;
struct uaio_index;
struct uaio_native;
struct uaio_req;
struct uaio_waiter;

/*
 * What looks after the requests that are parked in a queue, as bits: a thread
 * that parks looks at all of them at once (ready.h, I6).
 */
enum uaio_keeper {
	/* A leader sleeps in the epoll, or is about to. Under the group's lock. */
	UAIO_LEADER = 1,
	/* The fallback thread, which has it on its list. Under that one's lock. */
	UAIO_LIST = 2,
	/* The same, which watches its epoll. Under that lock, too. */
	UAIO_ADOPTER = 4,
};

/*
 * The state that readiness (ready.h) keeps for each queue. Only readiness uses
 * its members.
 */
struct uaio_ready {
	struct uaio_poller poller;
	/* atomic; borrows: it outlives this, see commons.c */
	struct uaio_group *home;

	/* atomic */
	/* requests parked, about to be, being tried, or noted (ready/done.c) */
	uint32_t nr_parked;
	uint32_t nr_pins;     /* threads that keep it from going away */
	uint32_t nr_attended; /* how often a client's thread completed some */
	uint32_t keepers;     /* enum uaio_keeper */
	uint32_t nr_waiters;  /* threads that sleep for events in any way */
	uint32_t is_closing;  /* no more requests may be parked */
	int64_t next_ns; /* when the first of timed ends; written under lock */

	struct uaio_lock lock; /* rank READY */

	/* under lock: lists of struct uaio_watch */
	struct list watches;
	struct list kicked;   /* their wait queues are to be tried */
	struct list fresh;    /* parked on since the last look; newest first */
	struct list unarmed;  /* looked at, but not yet in the epoll */
	struct list refused;  /* refused by the epoll now, or in doubt */
	struct list personal; /* idle ones whose file is PERSONAL */
	bool is_draining;     /* a thread tries the kicked ones */
	struct heap timed;    /* requests with a time, by that: timer.h */

	/* under the fallback thread's lock */
	struct list in_listed;
	struct list in_adopted;
	uint32_t nr_served; /* the fallback thread is using it */
	bool is_urgent;     /* the fallback thread is to serve it at once */
	/* the fallback thread's */
	uint32_t seen_attended;
	uint32_t seen_parks;

	/* atomic */
	uint32_t nr_parks;     /* changes with each request that is parked */
	uint32_t has_kicked;   /* written under lock: a guess without it */
	uint32_t has_personal; /* likewise */
	uint32_t is_deceived;  /* its epoll lacked a file: watch.c */
	const void
		*attender; /* that of the thread that is to lead (attend.h) */
};

/* Return: whether any of these keepers looks after it; relaxed. */
static inline bool uaio_ready_has(const struct uaio_ready *ready,
				  uint32_t keepers)
{
	return load_relaxed(&ready->keepers) & keepers;
}

/*
 * Keep the group from going away. The caller has something that keeps it until
 * the pin is taken: a ticket, a lock. A thread that holds a pin does not sleep, but
 * where it waits for the kernel to take a request, or for threads that do (native.h).
 */
static inline void uaio_ready_pin(struct uaio_ready *ready)
{
	/* relaxed: what keeps the group meanwhile is given up later */
	add_relaxed(&ready->nr_pins, 1);
}

static inline void uaio_ready_unpin(struct uaio_ready *ready)
{
	/* [MB:pin] release: after our last touch. Pairs with await_pins(). */
	sub_release(&ready->nr_pins, 1);
}

/*
 * The requests of one queue. Cancelling and closing the queue go through them;
 * free requests are kept for reuse.
 */
struct uaio_group {
	struct uaio_lock lock; /* rank GROUP */

	/* under lock */
	uint32_t nr_made; /* requests, ever: compared with nr_queued */
	uint32_t peak;    /* the most of them that were in flight at a time */
	struct list requests;
	struct uaio_req *free;    /* owns */
	struct uaio_index *index; /* owns: see index.h; or NULL */
	uint32_t drained;         /* atomic; drain.c: 0 if nothing is drained */
	struct list held; /* by link: chains that a drain holds, in order */

	struct uaio_ready ready;
	struct uaio_native *native; /* atomic; owns: see native.h; or NULL */

	/* under page.c's lock */
	struct list paged;
	uint32_t nr_paged; /* atomic: requests PAGED, or being tried there */
};

struct uaio_queue {
	/* atomic: immutable while open */
	const struct uaio_sink *sink;

	struct uaio_group group;

	/* under group.lock */
	struct list waiters;        /* struct uaio_waiter */
	struct uaio_waiter *leader; /* borrows: or NULL (lead.h) */
	uint64_t nr_leads;          /* how often a leader was awake */
	uint64_t generation;        /* atomic: odd while the queue is open */
	uint64_t nr_inline;         /* statistics: completed when submitted */
	uint64_t nr_queued;         /* statistics: completed later */
	uint64_t nr_wakeups;        /* statistics: waiters woken */
	bool wants_act;             /* the door's: see sink.h */
	uint16_t number; /* atomic: for traces, from when it is opened */

	/*
	 * The door's, immutable while open: its requests are made as the thread
	 * that made the queue, whose crew is kept; or as the thread that submits them.
	 */
	bool is_makers;
	uint16_t crew;
	uint32_t identity;
	uint32_t start_nr; /* of the process in which that thread is */
};

/* Return: the queue that the group belongs to; each group belongs to one. */
static inline struct uaio_queue *uaio_queue_of(struct uaio_group *group)
{
	return container_of(group, struct uaio_queue, group);
}

/* Return: the address of what the client sees completions at; 0: the sink has none. */
static inline uintptr_t uaio_queue_tail(const struct uaio_queue *queue)
{
	/* relaxed: a queue that goes away keeps a sink */
	const struct uaio_sink *sink = load_relaxed(&queue->sink);

	return sink->tail ? sink->tail(queue) : 0;
}

/*
 * Where a thread submits, and who makes the calls. A submission decides that once, for all
 * of its requests. Of a thread with another descriptor table its door has decided before:
 * it makes them itself (issue/parted.c).
 */
struct uaio_submitter {
	struct uaio_queue *queue; /* borrows */
	/* The workers of the queue's maker, whose identity is not the thread's. */
	bool is_maker;
};

/* Return: what the calling thread is for the queue. */
static inline struct uaio_submitter
uaio_queue_submitter(struct uaio_queue *queue)
{
	struct uaio_submitter by = { .queue = queue };

	if (likely(!uaio_identities_are_many()) || !queue->is_makers ||
	    queue->start_nr != uaio_engine_start_nr())
		return by;
	uaio_identity_check();
	by.is_maker = queue->identity != uaio_identity_mine();
	return by;
}

/* A door may keep data of its own, which its sink uses, under this lock. */
static inline void uaio_queue_lock(struct uaio_queue *queue)
{
	uaio_lock(&queue->group.lock, UAIO_RANK_GROUP);
}

static inline void uaio_queue_unlock(struct uaio_queue *queue)
{
	uaio_unlock(&queue->group.lock, UAIO_RANK_GROUP);
}

/* Return: whether that generation of the queue has ended. */
static inline bool uaio_queue_is_over_locked(const struct uaio_queue *queue,
					     uint64_t generation)
{
	return queue->generation != generation;
}

static inline bool uaio_queue_is_open_locked(const struct uaio_queue *queue)
{
	return queue->generation & 1;
}

#endif /* UAIO_REQ_QUEUE_H */
