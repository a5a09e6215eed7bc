/* SPDX-License-Identifier: MIT */
/*
 * Context table: from the id in a ring's header to the context
 *
 * A directory of segments of 4, 12, 48, 192, ... slots, so that the table has
 * 4, 16, 64, 256, ... in all. Segments are never moved and never freed, so
 * growing disturbs no reader; 8 bytes a slot, whatever the handles are.
 *
 *   I1  A slot holds NULL or a context; contexts are never unmapped (slab.h),
 *       so what a slot held may always be read.
 *   I2  A slot is filled last of all in setup and emptied first in destroy.
 *   I3  The lowest free id is used.
 *
 * There is no grace period to get wrong: a reader that comes late finds a
 * context that is dead or has another handle, and sees that after it has
 * taken a reference (ctx.c).
 *
 * Exclusion        find  add  remove	X: under the table's lock
 *         find      -     -     -	-: free to run at the same time
 *         add       -     X     X
 *         remove    -     X     X
 */
#ifndef UAIO_ENGINE_CTXTAB_H
#define UAIO_ENGINE_CTXTAB_H

#include <stddef.h>
#include <stdint.h>

struct uaio_ctx;

enum { UAIO_CTXTAB_SEGMENTS = 12 }; /* 4^12 = 16 M contexts */

struct uaio_ctxtab {
	/* atomic; owns: filled under the lock, never changed after */
	struct uaio_ctx **segments[UAIO_CTXTAB_SEGMENTS];

	/* atomic, written under the lock */
	uint32_t nr; /* slots */

	/* under the lock */
	uint32_t lowest_free; /* no free id is lower */
};

/* From nothing. */
void uaio_ctxtab_init(struct uaio_ctxtab *tab);

/*
 * Find a free id, growing the table if there is none. Nothing is taken yet.
 * Return: 0, or -ENOMEM.
 */
int uaio_ctxtab_free_id_locked(struct uaio_ctxtab *tab, uint32_t *ret_id);

/* Publish ctx under id, or empty the slot with NULL. */
void uaio_ctxtab_set_locked(struct uaio_ctxtab *tab, uint32_t id,
			    struct uaio_ctx *ctx);

/*
 * Return: what the slot holds, or NULL; id may be any value.
 * Context: any thread, wait-free.
 */
struct uaio_ctx *uaio_ctxtab_find(const struct uaio_ctxtab *tab, uint32_t id);

/* Return: bytes of all segments. */
size_t uaio_ctxtab_bytes(const struct uaio_ctxtab *tab);

#endif /* UAIO_ENGINE_CTXTAB_H */
