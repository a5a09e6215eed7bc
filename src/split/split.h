/* SPDX-License-Identifier: MIT */
/*
 * Executes large direct requests in segments
 *
 * A large direct (O_DIRECT) read or write is cut into segments, at multiples of 64
 * pages of the file, if this was measured to be faster (tune.h). Requests that the
 * kernel's own AIO executes (native.h) are not cut. Several runners execute the
 * segments at the same time; each runner executes one segment after the other. One
 * runner, the starter, is the worker that dequeued the request. The other runners are
 * work items, which the starter queues for other workers.
 *
 *   I1  Each runner, including the starter, has a reference to the struct uaio_split of
 *       the request. The thread that drops the last reference completes the request.
 *   I2  Only the runners [0, nr_runners) are used, and they are written before they are
 *       read. So only the members before the array `runners` are cleared.
 *   I3  Runners take the segments in the order of the file. After a short or failed
 *       segment they take no more. Of such segments, the first in the file determines the
 *       request's result: the number of bytes up to the end of this segment's data. If the
 *       segment has failed, and the number is 0, the result is the segment's error.
 *   I4  No thread waits for a runner that is still queued: when no segment is left, the
 *       starter removes the queued runners from the work queue.
 *
 * A request is not cut if one system call guarantees something that several calls would
 * not. So it is not cut if it extends the file, appends, is synchronous or atomic, or
 * is misaligned (the kernel accepts or refuses a misaligned request as a whole).
 */
#ifndef UAIO_SPLIT_SPLIT_H
#define UAIO_SPLIT_SPLIT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/atomic.h"
#include "base/slab.h"
#include "wq/wq.h"
#include "split/tune.h"

struct uaio_req;

enum {
	UAIO_SEGMENT_PAGES = 64,
	UAIO_SEGMENT_BYTES = UAIO_SEGMENT_PAGES * 4096,
	UAIO_SPLIT_RUNNERS = 64,
	/*
	 * A shorter request has only one whole segment and a rest, so it is not cut.
	 */
	UAIO_SPLIT_BYTES_MIN = 2 * UAIO_SEGMENT_BYTES,
};

/* A runner, which executes segments, and its current segment. */
struct uaio_segment_runner {
	/*
	 * not used by the runner of the worker that dequeued the request, as this
	 * runner is not queued
	 */
	struct uaio_work work;
	struct uaio_split *split; /* shares (ref) */
	/* where the segment begins, in bytes from the start of the request */
	uint64_t begin;
	uint32_t bytes;
};

struct uaio_split {
	struct uaio_slab_node node;

	/*
	 * uaio_split_clear() clears the members before `runners` (I2). The members up
	 * to `trial` do not change once runners are queued.
	 */
	/* a RUNNING request: the last runner completes it */
	struct uaio_req *req;
	uint64_t bytes; /* of the request */
	/*
	 * how long the first segment is: up to the first multiple of 64 pages of the
	 * file
	 */
	uint64_t first_bytes;
	uint32_t nr_segments;
	uint32_t nr_runners;
	struct uaio_trial trial;

	/* cleared; atomic */
	uint32_t refs;
	/* index of the first segment that no runner has taken */
	uint32_t next;
	/* how many queued runners have begun, or were refused by the work queue */
	uint32_t nr_begun;
	/*
	 * of the segments that were short or failed, the first in the file: its index
	 * plus 1 in the upper half, its result in the lower half; 0: none
	 */
	uint64_t stop;

	/* not cleared: I2 */
	struct uaio_segment_runner runners[UAIO_SPLIT_RUNNERS];
};

enum { UAIO_SPLIT_CLEARED = offsetof(struct uaio_split, runners) };

static_assert(UAIO_SPLIT_CLEARED <= 128, "what is cleared of each is little");
static_assert(offsetof(struct uaio_split, runners) +
			      sizeof(((struct uaio_split *)0)->runners) ==
		      sizeof(struct uaio_split),
	      "what is not cleared comes last");

/*
 * Clear a struct that was just taken from the slab. This also clears the slab's list
 * node, which the slab uses only for free structs.
 */
static inline void uaio_split_clear(struct uaio_split *split)
{
	memset(split, 0, UAIO_SPLIT_CLEARED);
}

/*
 * Initialise the first nr_runners runners. Called before any other thread knows the
 * struct.
 */
static inline void uaio_split_begin(struct uaio_split *split,
				    uint32_t nr_runners)
{
	split->nr_runners = nr_runners;
	/* relaxed: the runners see the count, since they are queued after this */
	store_relaxed(&split->refs, nr_runners);
	for (uint32_t i = 0; i < nr_runners; i++) {
		struct uaio_segment_runner *runner = &split->runners[i];

		runner->split = split;
		list_init(&runner->work.link);
		runner->work.may_block = true;
		runner->work.is_part = true;
		runner->work.is_patient = false;
		runner->work.is_public = runner->work.is_held = false;
		runner->work.slot = NULL;
	}
}

/*
 * Called each time the library starts, also in a child of fork(): reset the module.
 */
void uaio_split_init(void);

/*
 * Create the struct uaio_split of req, which is `bytes` bytes long and begins at offset
 * off of the file. It gets at most nr_runners runners, each with a reference.
 * Return: the struct; NULL if there is no memory.
 */
struct uaio_split *uaio_split_new(struct uaio_req *req, uint64_t bytes,
				  int64_t off, unsigned nr_runners);

/*
 * If req, which is RUNNING, is a large direct request that may be cut, execute it on
 * this worker and complete it, in segments if that is faster.
 * Return: false if req is no such request; then nothing was done.
 */
bool uaio_split_execute(struct uaio_req *req, struct uaio_worker *worker);

/*
 * uaio_split_run(): execute a runner's work item on a worker. uaio_split_refuse(): end
 * a runner whose work item the work queue has refused.
 */
void uaio_split_run(struct uaio_work *work, struct uaio_worker *worker);
void uaio_split_refuse(struct uaio_work *work);
/*
 * items: work items that the work queue has refused. Remove the work items of runners
 * from this list, and end these runners, so that their requests can complete.
 */
void uaio_split_refuse_all(struct list *items);

#endif /* UAIO_SPLIT_SPLIT_H */
