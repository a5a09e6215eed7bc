/* SPDX-License-Identifier: MIT */
/*
 * Direct requests that are executed in segments
 *
 * A large read or write of a file opened with O_DIRECT which the kernel's own AIO
 * does not get (native.h) is cut into segments, at multiples of 64 pages of the file,
 * where that was measured to be faster (tune.h). Several runners execute the segments
 * at the same time, each one segment after the other. One runner is the starter, the worker that executes
 * the request; each of the others is a work item, which the starter queues.
 *
 *   I1  Each runner has a reference, the starter too. The thread that drops the
 *       last one completes the request, whether it is the starter or not.
 *   I2  Runners [0, nr_runners) are valid, and are written before they are read.
 *       The others are never read: only what lies before the runners is cleared.
 *   I3  Runners take the segments in the order of the file. A runner that sees
 *       that a segment was short or has failed takes no more. The result is the
 *       number of bytes before the end of the first such segment's data or, if
 *       that is none, its error.
 *   I4  No thread waits for a runner that is still queued: the starter goes on
 *       until no segment is left, and takes the queued runners back.
 *
 * A request is not cut if one call makes a promise for it that several calls
 * could not keep: if it extends the file, appends, is synchronous or atomic, or
 * is misaligned (the kernel accepts or refuses such a request as a whole).
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
	/* A shorter request would be one whole segment and a rest. */
	UAIO_SPLIT_BYTES_MIN = 2 * UAIO_SEGMENT_BYTES,
};

/* One that executes segments, and the segment that it executes now. */
struct uaio_segment_runner {
	struct uaio_work work;    /* not used by the starter */
	struct uaio_split *split; /* shares (ref) */
	uint64_t begin;           /* from the start of the request */
	uint32_t bytes;
};

struct uaio_split {
	struct uaio_slab_node node;

	/* cleared; immutable once runners are queued */
	struct uaio_req *req; /* RUNNING: ours to complete */
	uint64_t bytes;       /* of the request */
	uint64_t first_bytes; /* up to the first multiple of 64 pages */
	uint32_t nr_segments;
	uint32_t nr_runners;
	struct uaio_trial trial;

	/* cleared; atomic */
	uint32_t refs;
	uint32_t next;     /* the first segment that no runner has taken */
	uint32_t nr_begun; /* queued runners that have begun or were refused */
	uint64_t stop;     /* first short or failed segment, and result; or 0 */

	/* not cleared, see I2 */
	struct uaio_segment_runner runners[UAIO_SPLIT_RUNNERS];
};

enum { UAIO_SPLIT_CLEARED = offsetof(struct uaio_split, runners) };

static_assert(UAIO_SPLIT_CLEARED <= 128, "what is cleared of each is little");
static_assert(offsetof(struct uaio_split, runners) +
			      sizeof(((struct uaio_split *)0)->runners) ==
		      sizeof(struct uaio_split),
	      "what is not cleared comes last");

/*
 * Clear a descriptor that was just taken from the slab. This clears the slab's
 * node too, which does no harm while the descriptor is out of the slab.
 */
static inline void uaio_split_clear(struct uaio_split *split)
{
	memset(split, 0, UAIO_SPLIT_CLEARED);
}

/* Set up nr_runners runners, before any other thread knows the descriptor. */
static inline void uaio_split_begin(struct uaio_split *split,
				    uint32_t nr_runners)
{
	split->nr_runners = nr_runners;
	/* relaxed: queueing publishes it to the runners */
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

/* Set up, whatever was there before: a forked child calls it again. */
void uaio_split_init(void);

/*
 * Describe how req, of so many bytes from off in the file, is executed by at
 * most nr_runners runners. Each of them has a reference.
 * Return: the descriptor, or NULL if there is no memory.
 */
struct uaio_split *uaio_split_new(struct uaio_req *req, uint64_t bytes,
				  int64_t off, unsigned nr_runners);

/*
 * Execute a RUNNING request on a worker and see to its completion, if it is a
 * large direct one.
 * Return: false if it is not: nothing was done.
 */
bool uaio_split_execute(struct uaio_req *req, struct uaio_worker *worker);

/* work is a runner's: a worker runs it; the queue has refused it. */
void uaio_split_run(struct uaio_work *work, struct uaio_worker *worker);
void uaio_split_refuse(struct uaio_work *work);
/* Remove from items those that are runners', as if refused; needed for I4. */
void uaio_split_refuse_all(struct list *items);

#endif /* UAIO_SPLIT_SPLIT_H */
