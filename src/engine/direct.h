/* SPDX-License-Identifier: MIT */
/*
 * Direct requests made in segments
 *
 * A large read or write of a file opened with O_DIRECT is cut where that pays
 * (width.h): at multiples of 64 pages of the file. The segments are made in
 * parallel, by who runs the request, the starter, and by works of its own that
 * are queued beside it; each of them has a slot and takes one segment after the
 * other.
 *
 *   I1  The starter has a reference, and so has each slot that was queued. Who
 *       drops the last one completes the request; that may be before the
 *       starter is back from starting.
 *   I2  Of the slots [0, nr_slots) are valid and written before they are read.
 *       All others are neither: only what is in front of them is cleared.
 *   I3  Segments are given out in the order of the file. Once one is short or
 *       has failed, none behind it is begun any more, and the result is what
 *       is in front of the first such one; its error, if that is nothing.
 *   I4  Nobody waits for a slot that is queued: the starter goes on until
 *       nothing is left to give out, and takes back what still is.
 *
 * What a request in one piece promises and one in segments could not is never
 * cut: where it extends the file, appends, is synchronous or atomic, or is not
 * aligned (which the kernel refuses, or not, as a whole).
 */
#ifndef UAIO_ENGINE_DIRECT_H
#define UAIO_ENGINE_DIRECT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/atomic.h"
#include "base/slab.h"
#include "wq/wq.h"
#include "engine/width.h"

struct uaio_req;

enum {
	UAIO_SEGMENT_PAGES = 64,
	UAIO_SEGMENT_BYTES = UAIO_SEGMENT_PAGES * 4096,
	UAIO_DIRECT_SLOTS = 64,
	/* Of less there would be one and a rest. */
	UAIO_DIRECT_BYTES_MIN = 2 * UAIO_SEGMENT_BYTES,
};

/* Who makes segments, and the one that is being made. */
struct uaio_slot {
	struct uaio_work work;      /* but for the starter's */
	struct uaio_direct *direct; /* shares (ref) */
	uint64_t begin;             /* in the request's bytes */
	uint32_t bytes;
};

struct uaio_direct {
	struct uaio_slab_node node;

	/* cleared; immutable once slots are queued */
	struct uaio_req *req; /* RUNNING, and ours */
	uint64_t bytes;       /* in all */
	uint64_t first_bytes; /* up to the first border */
	uint32_t nr_segments;
	uint32_t nr_slots;
	struct uaio_trial trial;

	/* cleared; atomic */
	uint32_t refs;
	uint32_t next;     /* the segment to be given out */
	uint32_t nr_begun; /* slots that were queued and run */
	uint64_t stop;     /* what was short or failed first; or 0 */

	/* not cleared, see I2 */
	struct uaio_slot slots[UAIO_DIRECT_SLOTS];
};

enum { UAIO_DIRECT_CLEARED = offsetof(struct uaio_direct, slots) };

static_assert(UAIO_DIRECT_CLEARED <= 128, "what is cleared of each is little");
static_assert(offsetof(struct uaio_direct, slots) +
			      sizeof(((struct uaio_direct *)0)->slots) ==
		      sizeof(struct uaio_direct),
	      "what is not cleared comes last");

/* A new one. The slab's own member comes to no harm: it is nobody's now. */
static inline void uaio_direct_clear(struct uaio_direct *direct)
{
	memset(direct, 0, UAIO_DIRECT_CLEARED);
}

/* So many who make segments, each with a reference; nobody else has it yet. */
static inline void uaio_direct_begin(struct uaio_direct *direct,
				     uint32_t nr_slots)
{
	direct->nr_slots = nr_slots;
	/* relaxed: they are told of it by who queues them */
	store_relaxed(&direct->refs, nr_slots);
	for (uint32_t i = 0; i < nr_slots; i++) {
		struct uaio_slot *slot = &direct->slots[i];

		slot->direct = direct;
		list_init(&slot->work.link);
		slot->work.may_block = true;
		slot->work.is_part = true;
		slot->work.is_public = false;
		slot->work.slot = NULL;
	}
}

/* From nothing. */
void uaio_direct_init(void);

/*
 * Return: a descriptor of req in so many slots, of bytes from off in the file;
 * its references are those of all slots. NULL if memory is refused.
 */
struct uaio_direct *uaio_direct_new(struct uaio_req *req, uint64_t bytes,
				    int64_t off, unsigned nr_slots);

/*
 * Make a RUNNING request of a worker's, if it is one for here, and complete it.
 * Return: false if it is made as any other.
 */
bool uaio_direct_make(struct uaio_req *req, struct uaio_worker *worker);

/* work, which is a segment's: run by worker; and refused by the queue. */
void uaio_direct_run(struct uaio_work *work, struct uaio_worker *worker);
void uaio_direct_refuse(struct uaio_work *work);
/* Those of works that are segments': nobody is to wait for the others (I4). */
void uaio_direct_refuse_all(struct list *works);

#endif /* UAIO_ENGINE_DIRECT_H */
