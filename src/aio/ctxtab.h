/* SPDX-License-Identifier: MIT */
/*
 * Context table: finds the context by the id in a ring's header
 *
 * The table consists of segments with 4, 12, 48, 192, ... slots, so that it has 4, 16, 64,
 * 256, ... slots in all. Segments never move and are never freed, so readers may run while the
 * table grows. A slot takes 8 bytes, whatever the handles are.
 *
 *   I1  A slot holds NULL or a context. Contexts are never unmapped (slab.h), so a context
 *       that was once in a slot may always be read.
 *   I2  Setup fills the slot as one of its last steps; destroy empties it first.
 *   I3  Setup uses the lowest free id.
 *
 * The table needs no grace period (as RCU has): a late reader may find a context that is dead
 * or has another handle. It notices this once it has taken a reference (ctx.h, I3).
 *
 * Exclusion        find  add  remove	X: under the table's lock
 *         find      -     -     -	-: may run concurrently
 *         add       -     X     X
 *         remove    -     X     X
 */
#ifndef UAIO_AIO_CTXTAB_H
#define UAIO_AIO_CTXTAB_H

#include <stddef.h>
#include <stdint.h>

struct uaio_ctx;

enum { UAIO_CTXTAB_SEGMENTS = 12 }; /* 4^12 = 16 M contexts */

struct uaio_ctxtab {
	/* atomic; owns; set once, under the lock */
	struct uaio_ctx **segments[UAIO_CTXTAB_SEGMENTS];

	/* atomic, written under the lock */
	uint32_t nr; /* slots in all segments */

	/* under the lock */
	uint32_t lowest_free; /* no free id is lower */
};

/* Make tab an empty table. Its old contents are ignored. */
void uaio_ctxtab_init(struct uaio_ctxtab *tab);

/*
 * Find the lowest free id, and grow the table if no id is free. The id is not reserved.
 * Return: 0, or -ENOMEM.
 */
int uaio_ctxtab_free_id_locked(struct uaio_ctxtab *tab, uint32_t *ret_id);

/* Publish ctx under id; NULL empties the slot. */
void uaio_ctxtab_set_locked(struct uaio_ctxtab *tab, uint32_t id,
			    struct uaio_ctx *ctx);

/*
 * Return: the context in the slot, or NULL. id may be any value.
 * Context: any thread, wait-free.
 */
struct uaio_ctx *uaio_ctxtab_find(const struct uaio_ctxtab *tab, uint32_t id);

/* Return: the bytes of all segments. */
size_t uaio_ctxtab_bytes(const struct uaio_ctxtab *tab);

#endif /* UAIO_AIO_CTXTAB_H */
