/* SPDX-License-Identifier: MIT */
/*
 * Queue: the part of a kernel AIO context, an io_uring or POSIX AIO that the core uses
 *
 * A queue consists of three parts. The first is a group of requests (req.h). The second
 * are the threads that wait for completions (waiter.h). One of them may be the leader,
 * which polls files for the queue (lead.h). The third is the sink, which receives the
 * completions (sink.h). A front-end (kernel AIO, io_uring or POSIX AIO) embeds a queue
 * in each object to which clients submit, for example a context of kernel AIO. The core
 * does not know that object.
 *
 *   I1  The memory of a queue is never used for anything else (slab.h). So a thread that
 *       wakes up may still read the queue, even if the queue was closed meanwhile.
 *   I2  A queue is open from uaio_queue_open_locked() until uaio_queue_close(). This
 *       period is one generation, with its own number. The number changes under the
 *       queue's lock at both ends. A thread compares the number under the lock. So a
 *       thread stops waiting, and being the leader, when the generation in which its
 *       call began ends.
 *   I3  The queue's lock is the member `lock` of its group. The core calls post() of
 *       the sink with this lock held, so posts do not overlap. A waiting thread checks
 *       the sink and registers as a sleeper under this lock, so no completion is posted
 *       in between.
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
 * Bits that say which threads try the parked requests of a queue (requests that wait
 * for their file). A thread that parks a request tests all bits by one load (ready.h,
 * I6).
 */
enum uaio_keeper {
	/*
	 * A leader sleeps, or will sleep, in the queue's epoll. The bit changes under
	 * the queue's lock.
	 */
	UAIO_LEADER = 1,
	/*
	 * The queue is on the list of the fallback thread, the library's thread that
	 * serves queues without a leader. The bit changes under the fallback thread's
	 * lock.
	 */
	UAIO_LIST = 2,
	/*
	 * The fallback thread watches the queue's epoll. The bit changes under the
	 * fallback thread's lock.
	 */
	UAIO_ADOPTER = 4,
};

/*
 * Data that the module ready (ready.h) keeps for each queue. No other module uses this
 * struct.
 */
struct uaio_ready {
	struct uaio_poller poller;
	/*
	 * atomic; borrows: the group whose epoll watches files for this queue. This is
	 * the queue's own group, or the commons (commons.c), which outlives the queue
	 */
	struct uaio_group *home;

	/* atomic */
	/*
	 * number of requests that are parked, about to be parked, being tried, or
	 * executed and not yet completed
	 */
	uint32_t nr_parked;
	/* number of threads that keep the queue from being freed */
	uint32_t nr_pins;
	/*
	 * how often threads of the program have completed parked requests: tells the
	 * fallback thread whether the program attends to the queue itself
	 */
	uint32_t nr_attended;
	uint32_t keepers; /* bits of enum uaio_keeper */
	/* number of the program's threads that sleep until events arrive */
	uint32_t nr_waiters;
	/* if set: the queue is being closed, and no request may be parked any more */
	uint32_t is_closing;
	/* when the earliest request in `timed` expires; written under `lock` */
	int64_t next_ns;

	struct uaio_lock lock; /* rank READY */

	/*
	 * under lock: lists of struct uaio_watch; a watch is a file for which requests
	 * of this queue wait
	 */
	struct list watches;
	/* watches whose requests must be tried now */
	struct list kicked;
	/*
	 * watches on which requests were parked since a thread last checked this list;
	 * newest first
	 */
	struct list fresh;
	/*
	 * watches whose requests a thread has tried, and whose file must still be added
	 * to the epoll
	 */
	struct list unarmed;
	/* watches whose file the epoll now refuses, or may refuse */
	struct list refused;
	/*
	 * watches that are not kicked, fresh, unarmed or refused, and whose file may be
	 * ready for one thread but not for another (UAIO_FILE_F_PERSONAL)
	 */
	struct list personal;
	/* a thread is trying the requests of the kicked watches */
	bool is_draining;
	/* requests with a timeout, by expiry time (timer.h) */
	struct heap timed;

	/* nodes in two lists of the fallback thread, under that thread's lock */
	struct list in_listed;
	struct list in_adopted;
	/*
	 * above 0 while the fallback thread works in this queue; a thread that closes
	 * the queue waits for 0
	 */
	uint32_t nr_served;
	/* the fallback thread must serve this queue at once */
	bool is_urgent;
	/*
	 * only for the fallback thread: nr_attended and nr_parks when that thread last
	 * looked at the queue
	 */
	uint32_t seen_attended;
	uint32_t seen_parks;
	/*
	 * how often in a row the fallback thread found that nothing was parked or
	 * completed
	 */
	uint32_t nr_idle_looks;

	/* atomic */
	/* a counter that changes with each request that is parked */
	uint32_t nr_parks;
	/*
	 * whether `kicked` is not empty; written under lock; without the lock only a
	 * hint
	 */
	uint32_t has_kicked;
	/*
	 * whether the queue has ever had a watch of a PERSONAL file; written under
	 * lock; without the lock only a hint
	 */
	uint32_t has_personal;
	/*
	 * The program has closed a descriptor without the library's knowledge. So an
	 * entry of the epoll no longer proves to which file its descriptor refers
	 * (watch.c).
	 */
	uint32_t is_deceived;
	/*
	 * a hint: the thread that shall lead this queue during its next poll() or
	 * epoll_wait() (attend.h)
	 */
	const void *attender;
};

/*
 * Return: whether one of the given keepers (enum uaio_keeper) serves the queue. The
 * load is relaxed.
 */
static inline bool uaio_ready_has(const struct uaio_ready *ready,
				  uint32_t keepers)
{
	return load_relaxed(&ready->keepers) & keepers;
}

/*
 * Keep the queue from being freed, by a pin. At the call, a lock or a ticket of the
 * caller must still keep the queue. (A ticket is the right to post one event,
 * aio/ctx.h.) A thread with a pin does not sleep, with two exceptions. It may wait
 * until the kernel accepts a request, or for another thread that waits for the kernel
 * (native.h).
 */
static inline void uaio_ready_pin(struct uaio_ready *ready)
{
	/*
	 * relaxed: until other threads see the new count, the caller's lock or ticket
	 * keeps the queue
	 */
	add_relaxed(&ready->nr_pins, 1);
}

static inline void uaio_ready_unpin(struct uaio_ready *ready)
{
	/*
	 * [MB:pin] release: after this thread's last access to the queue. Pairs with
	 * await_pins().
	 */
	sub_release(&ready->nr_pins, 1);
}

/* The requests of a queue, and unused struct uaio_req for reuse. */
struct uaio_group {
	struct uaio_lock lock; /* rank GROUP */

	/* under lock */
	/*
	 * how many requests were ever created. In flight are all of these except
	 * nr_queued completed ones and those that a drain holds (drain.h).
	 */
	uint32_t nr_made;
	/* the greatest number of requests that were in flight at the same time */
	uint32_t peak;
	struct list requests;
	struct uaio_req *free; /* owns */
	/* owns; NULL: the group has no index (index.h) */
	struct uaio_index *index;
	/*
	 * atomic: how many requests wait for a drain; one bit says that a drain runs
	 * (drain.c)
	 */
	uint32_t drained;
	/*
	 * chains that wait for a drain, in order of submission; the first request of
	 * each chain is linked by `link`
	 */
	struct list held;

	struct uaio_ready ready;
	/*
	 * atomic; owns; NULL: the group has no context of the kernel's AIO (native.h)
	 */
	struct uaio_native *native;

	/* under page.c's lock */
	struct list paged;
	/*
	 * atomic: number of requests that are PAGED (wait for pages of the page cache)
	 */
	uint32_t nr_paged;
};

struct uaio_queue {
	/* atomic: does not change while the queue is open */
	const struct uaio_sink *sink;

	struct uaio_group group;

	/* under group.lock */
	struct list waiters; /* struct uaio_waiter */
	/* borrows; NULL: the queue has no leader (lead.h) */
	struct uaio_waiter *leader;
	/* how often a leader of this queue was woken */
	uint64_t nr_leads;
	/* atomic: the generation's number, odd while the queue is open */
	uint64_t generation;
	/* statistics: requests that completed inside the submitting call */
	uint64_t nr_inline;
	uint64_t nr_queued;  /* statistics: completed later */
	uint64_t nr_wakeups; /* statistics: waiters woken */
	/* set by the front-end so that the core calls act() of its sink (sink.h) */
	bool wants_act;
	/*
	 * atomic: the number that stands for the queue in traces, while the queue is
	 * open
	 */
	uint16_t number;

	/*
	 * Set by the front-end, immutable while the queue is open. If is_makers is set,
	 * the workers of `crew` execute the requests with the credentials of the
	 * queue's maker, the thread that made the queue. (A crew is a set of workers
	 * with the same credentials.) Otherwise requests are executed with the
	 * credentials of their submitter.
	 */
	bool is_makers;
	uint16_t crew;
	uint32_t identity;
	/*
	 * uaio_engine_start_nr() when the queue was made. In a child of fork() the
	 * function returns another value; there uaio_queue_drop_maker() leaves the crew
	 * alone
	 */
	uint32_t start_nr;
};

static inline struct uaio_queue *uaio_queue_of(struct uaio_group *group)
{
	return container_of(group, struct uaio_queue, group);
}

/* Return: the address at which the client sees that completions exist; 0: none. */
static inline uintptr_t uaio_queue_tail(const struct uaio_queue *queue)
{
	/*
	 * relaxed: the queue keeps its sink (the functions that post completions) after
	 * it is closed
	 */
	const struct uaio_sink *sink = load_relaxed(&queue->sink);

	return sink->tail ? sink->tail(queue) : 0;
}

/*
 * To which queue a thread submits, and which threads make the system calls. This is
 * decided once for all requests of a submission. A thread with its own descriptor table
 * always makes the calls itself (issue/parted.c).
 */
struct uaio_submitter {
	struct uaio_queue *queue; /* borrows */
	/*
	 * The workers of the queue's maker make the system calls, because the
	 * submitting thread has other credentials than the maker.
	 */
	bool is_maker;
};

/*
 * Return: the queue, and whether requests of the calling thread must be executed by the
 * workers of the queue's maker.
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

/*
 * Acquire the queue's lock. It also protects the data of the front-end that the sink
 * uses.
 */
static inline void uaio_queue_lock(struct uaio_queue *queue)
{
	uaio_lock(&queue->group.lock, UAIO_RANK_GROUP);
}

static inline void uaio_queue_unlock(struct uaio_queue *queue)
{
	uaio_unlock(&queue->group.lock, UAIO_RANK_GROUP);
}

/* Return: whether the generation with this number has ended. */
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
