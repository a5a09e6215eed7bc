/* SPDX-License-Identifier: MIT */
/*
 * Context table: finds the context by the id in a ring's header
 *
 * The table consists of segments with 4, 12, 48, 192, ... slots. So it has 4, 16, 64, 256,
 * ... slots in all. Segments never move and are never freed, so readers may run while the
 * table grows. A slot takes 8 bytes, whatever the handles are.
 *
 *   I1  A slot holds NULL or a context. Contexts are never unmapped (slab.h), so a context
 *       that was once in a slot may always be read.
 *   I2  io_setup fills the slot when the context is ready for use. io_destroy empties the
 *       slot before it closes the context's queue.
 *   I3  io_setup uses the lowest free id.
 *
 * A thread may find a context just before another thread destroys the context, or before
 * io_setup reuses it with another handle. The first thread notices this when it compares
 * the handle, after it has taken a reference (ctx.h, I3). So, unlike with RCU, no thread
 * has to wait for readers.
 *
 * Pairs of calls that the table's lock keeps apart (X), or that may run concurrently (-).
 * uaio_ctxtab_set_locked() adds or removes a context:
 *                   find  add  remove
 *         find      -     -     -
 *         add       -     X     X
 *         remove    -     X     X
 */
#ifndef UAIO_AIO_CTXTAB_H
#define UAIO_AIO_CTXTAB_H

#include <stddef.h>
#include <stdint.h>

struct uaio_ctx;

enum { UAIO_CTXTAB_SEGMENTS = 12 }; /* 4^12: room for 16 million contexts */

struct uaio_ctxtab {
	/*
	 * atomic: the segments, which the table owns; each pointer is set once, under
	 * the lock
	 */
	struct uaio_ctx **segments[UAIO_CTXTAB_SEGMENTS];

	/* atomic; written only under the table's lock */
	uint32_t nr; /* how many slots all segments have */

	/* under the lock */
	uint32_t lowest_free; /* all ids below this one are in use */
};

/* Make `tab` an empty table, whatever it contained. */
void uaio_ctxtab_init(struct uaio_ctxtab *tab);

/*
 * Find the lowest free id, and grow the table if no id is free. The id is not reserved.
 * Return: 0, or -ENOMEM.
 */
int uaio_ctxtab_free_id_locked(struct uaio_ctxtab *tab, uint32_t *ret_id);

/*
 * Store ctx, or NULL, in the slot of id. From then on uaio_ctxtab_find() returns this
 * value.
 */
void uaio_ctxtab_set_locked(struct uaio_ctxtab *tab, uint32_t id,
			    struct uaio_ctx *ctx);

/*
 * Return: the context in the slot, or NULL. id may be any value.
 * Context: any thread, wait-free.
 */
struct uaio_ctx *uaio_ctxtab_find(const struct uaio_ctxtab *tab, uint32_t id);

/* Return: how many bytes the table's segments take. */
size_t uaio_ctxtab_bytes(const struct uaio_ctxtab *tab);

#endif /* UAIO_AIO_CTXTAB_H */
