/* SPDX-License-Identifier: MIT */
/*
 * Direct requests that are executed in segments
 *
 * A large direct read or write is cut into segments, at multiples of 64 pages of the file, if
 * this was measured to be faster (tune.h). Requests that the kernel's own AIO executes
 * (native.h) are not cut. Several runners execute the segments at the same time; each runner
 * executes one segment after the other. The worker that got the request is one of the runners,
 * the starter. The other runners are work items, which the starter queues for other workers.
 *
 *   I1  Each runner, including the starter, has a reference to the descriptor (struct
 *       uaio_split). The thread that drops the last one completes the request.
 *   I2  Runners [0, nr_runners) are valid, and are written before they are read. The other
 *       elements of the array are never read. So only the members before `runners` are
 *       cleared.
 *   I3  Runners take the segments in the order of the file. After a short or failed
 *       segment runners take no more. The first such segment in the file determines the
 *       result: the bytes up to the end of its data; if these are 0, its error.
 *   I4  No thread waits for a runner that is still queued: when no segment is left, the
 *       starter removes the queued runners from the work queue.
 *
 * A request is not cut if one call guarantees what several calls could not: if the request
 * extends the file, appends, is synchronous or atomic, or is misaligned (the kernel accepts or
 * refuses such a request as a whole).
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
	/* A shorter request would have only one whole segment and a rest. */
	UAIO_SPLIT_BYTES_MIN = 2 * UAIO_SEGMENT_BYTES,
};

/* A runner, and the segment that it executes now. */
struct uaio_segment_runner {
	struct uaio_work work;    /* the starter does not use it */
	struct uaio_split *split; /* shares (ref) */
	uint64_t begin;           /* from the start of the request */
	uint32_t bytes;
};

struct uaio_split {
	struct uaio_slab_node node;

	/* cleared; immutable once runners are queued */
	struct uaio_req *req; /* RUNNING: the last runner completes it */
	uint64_t bytes;       /* of the request */
	uint64_t first_bytes; /* up to the first multiple of 64 pages */
	uint32_t nr_segments;
	uint32_t nr_runners;
	struct uaio_trial trial;

	/* cleared; atomic */
	uint32_t refs;
	uint32_t next;     /* the first segment that no runner has taken */
	uint32_t nr_begun; /* queued runners that have begun or were refused */
	/* the first short or failed segment in the file, and its result; or 0 */
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
 * Clear a descriptor just taken from the slab. This also clears the slab's node, which is
 * not used while the descriptor is out of the slab.
 */
static inline void uaio_split_clear(struct uaio_split *split)
{
	memset(split, 0, UAIO_SPLIT_CLEARED);
}

/* Initialise nr_runners runners, before any other thread knows the descriptor. */
static inline void uaio_split_begin(struct uaio_split *split,
				    uint32_t nr_runners)
{
	split->nr_runners = nr_runners;
	/* relaxed: queueing publishes the count to the runners */
	store_relaxed(&split->refs, nr_runners);
	for (uint32_t i = 0; i < nr_runners; i++) {
		struct uaio_segment_runner *runner = &split->runners[i];

		runner->split = split;
		list_init(&runner->work.link);
		runner->work.may_block = true;
		runner->work.is_part = true;
		runner->work.is_public = runner->work.is_held = false;
		runner->work.slot = NULL;
	}
}

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_split_init(void);

/*
 * Create the descriptor of req, which has `bytes` bytes from off in the file, with at most
 * nr_runners runners. Each runner has a reference.
 * Return: the descriptor, or NULL if there is no memory.
 */
struct uaio_split *uaio_split_new(struct uaio_req *req, uint64_t bytes,
				  int64_t off, unsigned nr_runners);

/*
 * If a RUNNING request is a large direct one, execute it on a worker, and have it completed.
 * Return: false if it is not: nothing was done.
 */
bool uaio_split_execute(struct uaio_req *req, struct uaio_worker *worker);

/* Run a runner's work item on a worker; or, if the work queue has refused the item, end it. */
void uaio_split_run(struct uaio_work *work, struct uaio_worker *worker);
void uaio_split_refuse(struct uaio_work *work);
/* Remove the work items of runners from items, and end them as refused (needed for I4). */
void uaio_split_refuse_all(struct list *items);

#endif /* UAIO_SPLIT_SPLIT_H */
