/* SPDX-License-Identifier: MIT */
/*
 * What is registered with a ring: files and buffers
 *
 * A table of a ring has an entry in each place that is not empty. An entry may have a
 * tag: when it has left its table, and no request uses it any more, a completion with
 * the tag as user_data says so.
 *
 *   I1  The table has a reference to each of its entries, and a request has one to
 *       each entry with a tag that it uses, until its last completion is posted.
 *   I2  An entry with a tag owes a completion: it counts in nr_taken of its ring
 *       (ring.h), so that the ring stays.
 *
 * Tables are of the thread that holds the ring, which changes them under the queue's
 * lock, for uaio_uring_get_fixed().
 *
 * Tested by test-uring-register.c.
 */
#ifndef UAIO_URING_RSRC_H
#define UAIO_URING_RSRC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slab.h"

struct uaio_file;
struct uaio_queue;
struct uaio_uring;

struct uaio_uring_rsrc {
	struct uaio_slab_node node;

	/* immutable */
	struct uaio_uring *ring; /* borrows (I2) */
	uint64_t tag;
	struct uaio_file *file; /* shares (ref): of a file */
	uint64_t base, bytes;   /* of a buffer: the client's memory */

	uint32_t refs; /* atomic */
};

struct uaio_uring_table {
	struct uaio_uring_rsrc **entries; /* owns; NULL: none is registered */
	uint32_t nr;
};

void uaio_uring_rsrcs_init(void);
/* Around each life of a ring. */
void uaio_uring_rsrc_init(struct uaio_uring *ring);
void uaio_uring_rsrc_fini(struct uaio_uring *ring);

/* Return: 0 or -ENOMEM. */
int uaio_uring_table_new(struct uaio_uring *ring,
			 struct uaio_uring_table *table, uint32_t nr);
/* Empty the table and free it. */
void uaio_uring_table_free(struct uaio_uring *ring,
			   struct uaio_uring_table *table);

/*
 * Put an entry in an empty place. file is given to the entry.
 * Return: 0 or -ENOMEM: then the caller keeps it.
 */
int uaio_uring_table_put_file(struct uaio_uring *ring, uint32_t place,
			      struct uaio_file *file, uint64_t tag);
int uaio_uring_table_put_buffer(struct uaio_uring *ring, uint32_t place,
				uint64_t base, uint64_t bytes, uint64_t tag);
/* Empty a place. */
void uaio_uring_table_empty(struct uaio_uring_table *table, uint32_t place);

/* Return: what is in a place; NULL: nothing, or there is no such place. */
static inline struct uaio_uring_rsrc *
uaio_uring_table_at(const struct uaio_uring_table *table, uint32_t place)
{
	return place < table->nr ? table->entries[place] : NULL;
}

/* A function of struct uaio_sink. */
struct uaio_file *uaio_uring_get_fixed(struct uaio_queue *queue, int place);

void uaio_uring_rsrc_get(struct uaio_uring_rsrc *rsrc);
void uaio_uring_rsrc_put(struct uaio_uring_rsrc *rsrc);

#endif /* UAIO_URING_RSRC_H */
