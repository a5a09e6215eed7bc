/* SPDX-License-Identifier: MIT */
/*
 * Queue: what the core knows of a kernel AIO context, an io_uring, or POSIX AIO as a whole
 *
 * A queue consists of a group of requests (req.h), the threads that wait for completions
 * (waiter.h), one of which may be the leader (the thread that polls files for the queue:
 * lead.h), and the sink that receives the completions (sink.h). A front-end (kernel AIO,
 * io_uring or POSIX AIO) embeds a queue in each object that clients submit to, for example a
 * context of kernel AIO. The core does not know that object.
 *
 *   I1  The memory of a queue is never used for anything else (slab.h). So a thread that wakes
 *       up may still read the queue, even if the queue was closed meanwhile.
 *   I2  A queue is open from uaio_queue_open_locked() until uaio_queue_close(). This period is
 *       one generation, with its own number. The number changes under the queue's lock at both
 *       ends. So a thread that compares the number under the lock never waits, or is the
 *       leader, in a later generation than the one it was called for.
 *   I3  The queue's lock is its group's lock. The core calls post() of the sink with this lock
 *       held, so posts do not overlap. A waiter checks the sink and registers as a sleeper
 *       under this lock, so no completion is posted in between.
 *   I4  A front-end closes a queue after it has submitted the last request to it. The
 *       front-end frees the queue after the last completion of each of these requests.
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
 * Which threads try the parked requests of a queue, as bits. A thread that parks a request
 * tests all of these bits by one load (ready.h, I6).
 */
enum uaio_keeper {
	/*
	 * A leader sleeps, or will sleep, in the queue's epoll. Changes under the group's
	 * lock.
	 */
	UAIO_LEADER = 1,
	/*
	 * The queue is on the list of the fallback thread (the library's thread that serves
	 * queues without a leader). Changes under the fallback thread's lock.
	 */
	UAIO_LIST = 2,
	/*
	 * The fallback thread watches the queue's epoll. Changes under the fallback thread's
	 * lock.
	 */
	UAIO_ADOPTER = 4,
};

/* What readiness (ready.h) keeps for each queue. No other module uses this struct. */
struct uaio_ready {
	struct uaio_poller poller;
	/*
	 * atomic; borrows: the group that serves this queue's parked requests; it outlives
	 * this queue, see commons.c
	 */
	struct uaio_group *home;

	/* atomic */
	/* requests parked, about to be parked, being tried, or executed but not completed */
	uint32_t nr_parked;
	uint32_t nr_pins; /* threads that keep the queue from being freed */
	/*
	 * how often threads of the program (not the fallback thread) have completed parked
	 * requests
	 */
	uint32_t nr_attended;
	uint32_t keepers;    /* bits of enum uaio_keeper */
	uint32_t nr_waiters; /* threads of the program that sleep for events */
	uint32_t is_closing; /* no more requests may be parked */
	/* when the first request in `timed` expires; written under lock */
	int64_t next_ns;

	struct uaio_lock lock; /* rank READY */

	/* under lock: lists of struct uaio_watch */
	struct list watches;
	/* watches (a watch: a file that requests wait for) whose requests must be tried */
	struct list kicked;
	/* watches on which requests were parked since the last look; newest first */
	struct list fresh;
	/* watches that were looked at, but are not yet in the epoll */
	struct list unarmed;
	/* watches that the epoll refuses at present, or may refuse */
	struct list refused;
	struct list personal; /* idle watches whose file is PERSONAL */
	bool is_draining;     /* a thread tries the kicked watches */
	struct heap timed;    /* requests that expire, soonest first: timer.h */

	/* under the fallback thread's lock */
	struct list in_listed;
	struct list in_adopted;
	uint32_t nr_served; /* uses of the queue by the fallback thread */
	bool is_urgent; /* the fallback thread must serve the queue at once */
	/* only for the fallback thread: nr_attended when it last looked */
	uint32_t seen_attended;
	uint32_t seen_parks;
	uint32_t nr_idle_looks; /* in a row; nothing was parked or completed */

	/* atomic */
	/* a counter that changes with each request that is parked */
	uint32_t nr_parks;
	uint32_t has_kicked;   /* written under lock; only a hint without it */
	uint32_t has_personal; /* written under lock; only a hint without it */
	/* the queue's epoll lacked a file, so its silence proves nothing: watch.c */
	uint32_t is_deceived;
	/*
	 * the thread that last stored the queue, to attend to it in its next sleep (attend.h)
	 */
	const void *attender;
};

/* Return: whether the queue is served by any of these keepers; relaxed. */
static inline bool uaio_ready_has(const struct uaio_ready *ready,
				  uint32_t keepers)
{
	return load_relaxed(&ready->keepers) & keepers;
}

/*
 * Keep the queue from being freed. The caller holds a ticket or a lock, which keeps the queue
 * until the pin is taken. A thread with a pin does not sleep, except while it waits for the
 * kernel to accept a request, or for threads that do (native.h).
 */
static inline void uaio_ready_pin(struct uaio_ready *ready)
{
	/* relaxed: the caller's ticket or lock keeps the queue until later */
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
	/* requests ever created: compared with nr_queued (drain.h) */
	uint32_t nr_made;
	uint32_t peak; /* the most that were in flight at a time */
	struct list requests;
	struct uaio_req *free;    /* owns */
	struct uaio_index *index; /* owns; NULL: none (index.h) */
	uint32_t drained;         /* atomic; 0: nothing is drained (drain.c) */
	struct list held; /* by link: chains that a drain holds, in order */

	struct uaio_ready ready;
	struct uaio_native *native; /* atomic; owns; NULL: none (native.h) */

	/* under page.c's lock */
	struct list paged;
	/* atomic: requests PAGED (waiting for pages), or tried while PAGED */
	uint32_t nr_paged;
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
	/* statistics: requests that completed inside their submission */
	uint64_t nr_inline;
	uint64_t nr_queued;  /* statistics: completed later */
	uint64_t nr_wakeups; /* statistics: waiters woken */
	bool wants_act;      /* set by the front-end: see sink.h */
	/* atomic: the queue's number in traces, while the queue is open */
	uint16_t number;

	/*
	 * Set by the front-end, immutable while the queue is open. is_makers: requests are
	 * executed with the credentials of the thread that made the queue, by the workers of
	 * crew (a set of workers with the same credentials); otherwise with the credentials of
	 * the submitter.
	 */
	bool is_makers;
	uint16_t crew;
	uint32_t identity;
	/*
	 * uaio_engine_start_nr() when the queue was made: the maker is known only to that
	 * process
	 */
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
 * The queue to which a thread submits, and which threads make the system calls; decided once
 * for all requests of a submission. A thread with its own descriptor table always makes the
 * calls itself (issue/parted.c).
 */
struct uaio_submitter {
	struct uaio_queue *queue; /* borrows */
	/*
	 * the workers of the queue's maker make the calls, as the submitting thread has other
	 * credentials
	 */
	bool is_maker;
};

/*
 * Return: queue, and whether requests of the calling thread need the workers of the queue's
 * maker.
 */
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

/* Take the queue's lock. It also protects the front-end's data that its sink uses. */
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
