/* SPDX-License-Identifier: MIT */
/*
 * Queue: what the core knows of a client's context, ring or POSIX AIO
 *
 * A queue consists of a group of requests (req.h), the threads that wait for completions
 * (waiter.h), one of which may be the leader (lead.h), and the sink that receives the
 * completions (sink.h). A door embeds a queue in each object that clients submit to, for
 * example a context of kernel AIO. The core does not know that object.
 *
 *   I1  The memory of a queue is never used for anything else (slab.h). So a thread that
 *       slept may read the queue even if it was closed meanwhile.
 *   I2  A queue is open from uaio_queue_open_locked() until uaio_queue_close(). This
 *       period is one generation, with its own number. The number changes under the
 *       queue's lock at both ends. A thread that compares the number under the lock never
 *       waits or leads in a later generation than it was called for.
 *   I3  The queue's lock is its group's lock. The core calls post() of the sink with this
 *       lock held, so posts do not overlap. No completion is posted between a waiter's
 *       look at the sink and its registration as a sleeper.
 *   I4  A door closes a queue after it has submitted the last request to it. The door
 *       frees the queue after the last completion of each of these requests.
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
 * Who tries the parked requests of a queue, as bits: a thread that parks a request tests
 * all of them in one load (ready.h, I6).
 */
enum uaio_keeper {
	/* A leader sleeps in the queue's epoll, or will. Under the group's lock. */
	UAIO_LEADER = 1,
	/* The fallback thread has it on its list. Under the fallback thread's lock. */
	UAIO_LIST = 2,
	/* The fallback thread watches its epoll. Under the fallback thread's lock. */
	UAIO_ADOPTER = 4,
};

/* What readiness (ready.h) keeps for each queue. No other room uses it. */
struct uaio_ready {
	struct uaio_poller poller;
	/* atomic; borrows: the home outlives this queue, see commons.c */
	struct uaio_group *home;

	/* atomic */
	/* requests parked, about to be, being tried, or executed but not completed */
	uint32_t nr_parked;
	uint32_t nr_pins; /* threads that keep the queue from being freed */
	/* times that a thread of the program completed parked requests */
	uint32_t nr_attended;
	uint32_t keepers;    /* bits of enum uaio_keeper */
	uint32_t nr_waiters; /* threads of the program that sleep for events */
	uint32_t is_closing; /* no more requests may be parked */
	/* when the first of timed expires; written under lock */
	int64_t next_ns;

	struct uaio_lock lock; /* rank READY */

	/* under lock: lists of struct uaio_watch */
	struct list watches;
	struct list kicked; /* watches whose wait queues must be tried */
	/* watches parked on since the last look; newest first */
	struct list fresh;
	struct list unarmed; /* watches looked at, but not yet in the epoll */
	/* watches that the epoll refuses now, or in doubt */
	struct list refused;
	struct list personal; /* idle watches whose file is PERSONAL */
	bool is_draining;     /* a thread tries the kicked watches */
	struct heap timed;    /* requests that expire, soonest first: timer.h */

	/* under the fallback thread's lock */
	struct list in_listed;
	struct list in_adopted;
	uint32_t nr_served; /* uses of the queue by the fallback thread */
	bool is_urgent; /* the fallback thread must serve the queue at once */
	/* only for the fallback thread */
	uint32_t seen_attended;
	uint32_t seen_parks;

	/* atomic */
	uint32_t nr_parks;     /* changes with each request that is parked */
	uint32_t has_kicked;   /* written under lock; only a hint without it */
	uint32_t has_personal; /* written under lock; only a hint without it */
	uint32_t is_deceived;  /* the queue's epoll lacked a file: watch.c */
	/* the thread that last noted the queue for its next sleep (attend.h) */
	const void *attender;
};

/* Return: whether any of these keepers serves the queue; relaxed. */
static inline bool uaio_ready_has(const struct uaio_ready *ready,
				  uint32_t keepers)
{
	return load_relaxed(&ready->keepers) & keepers;
}

/*
 * Keep the queue from being freed. The caller holds something else that keeps the queue
 * until the pin is taken: a ticket or a lock. A thread with a pin does not sleep, except
 * while it waits for the kernel to accept a request, or for threads that do (native.h).
 */
static inline void uaio_ready_pin(struct uaio_ready *ready)
{
	/* relaxed: the caller gives up what keeps the queue only later */
	add_relaxed(&ready->nr_pins, 1);
}

static inline void uaio_ready_unpin(struct uaio_ready *ready)
{
	/* [MB:pin] release: after our last access. Pairs with await_pins(). */
	sub_release(&ready->nr_pins, 1);
}

/* The requests of a queue; free ones are kept for reuse. */
struct uaio_group {
	struct uaio_lock lock; /* rank GROUP */

	/* under lock */
	uint32_t nr_made; /* requests ever created: compared with nr_queued */
	uint32_t peak;    /* the most that were in flight at a time */
	struct list requests;
	struct uaio_req *free;    /* owns */
	struct uaio_index *index; /* owns; NULL: none (index.h) */
	uint32_t drained;         /* atomic; 0: nothing is drained (drain.c) */
	struct list held; /* by link: chains that a drain holds, in order */

	struct uaio_ready ready;
	struct uaio_native *native; /* atomic; owns; NULL: none (native.h) */

	/* under page.c's lock */
	struct list paged;
	uint32_t nr_paged; /* atomic: requests PAGED, or tried while PAGED */
};

struct uaio_queue {
	/* atomic: immutable while the queue is open */
	const struct uaio_sink *sink;

	struct uaio_group group;

	/* under group.lock */
	struct list waiters;        /* struct uaio_waiter */
	struct uaio_waiter *leader; /* borrows; NULL: none (lead.h) */
	uint64_t nr_leads;          /* how often a leader woke */
	uint64_t generation;        /* atomic: odd while the queue is open */
	uint64_t nr_inline;         /* statistics: completed while submitted */
	uint64_t nr_queued;         /* statistics: completed later */
	uint64_t nr_wakeups;        /* statistics: waiters woken */
	bool wants_act;             /* set by the door: see sink.h */
	uint16_t number; /* atomic: for traces, while the queue is open */

	/*
	 * Set by the door, immutable while the queue is open. is_makers: requests execute with the credentials of the thread that made the
	 * queue, on workers of crew; otherwise with the credentials of the submitter.
	 */
	bool is_makers;
	uint16_t crew;
	uint32_t identity;
	/* of the process of the thread that made the queue */
	uint32_t start_nr;
};

static inline struct uaio_queue *uaio_queue_of(struct uaio_group *group)
{
	return container_of(group, struct uaio_queue, group);
}

/* Return: the address where the client sees completions; 0: none. */
static inline uintptr_t uaio_queue_tail(const struct uaio_queue *queue)
{
	/* relaxed: a closed queue keeps its sink */
	const struct uaio_sink *sink = load_relaxed(&queue->sink);

	return sink->tail ? sink->tail(queue) : 0;
}

/*
 * The queue to which a thread submits, and who makes the calls: decided once for all requests
 * of a submission. A thread with its own descriptor table always makes them itself
 * (issue/parted.c).
 */
struct uaio_submitter {
	struct uaio_queue *queue; /* borrows */
	/* the queue maker's workers make the calls, as the thread has another identity */
	bool is_maker;
};

/* Return: queue, and whether the thread needs workers of the queue's maker. */
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

/* The lock also protects data of the door that its sink uses. */
static inline void uaio_queue_lock(struct uaio_queue *queue)
{
	uaio_lock(&queue->group.lock, UAIO_RANK_GROUP);
}

static inline void uaio_queue_unlock(struct uaio_queue *queue)
{
	uaio_unlock(&queue->group.lock, UAIO_RANK_GROUP);
}

/* Return: whether the queue's generation with this number has ended. */
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
