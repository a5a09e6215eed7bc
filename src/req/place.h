/* SPDX-License-Identifier: MIT */
/*
 * The place of a request in the order of its inode's requests (order.h)
 */
#ifndef UAIO_REQ_PLACE_H
#define UAIO_REQ_PLACE_H

#include <stdbool.h>
#include <stdint.h>

enum uaio_order {
	UAIO_ORDER_NONE,        /* no place: neither waits nor is waited for */
	UAIO_ORDER_READ_DIRECT, /* O_DIRECT; waits for ordered writes */
	UAIO_ORDER_READ,        /* through the page cache */
	UAIO_ORDER_WRITE_INPLACE,   /* O_DIRECT, inside the file */
	UAIO_ORDER_WRITE,           /* an ordered write, or at the position */
	UAIO_ORDER_WRITE_EXCLUSIVE, /* an ordered write that waits for all */
	UAIO_ORDER_WRITE_RETURNED,  /* only syncs still wait for this write */
	UAIO_ORDER_SYNC,            /* waits for all writes; not waited for */
};

/*
 * A range of bytes in a file: of a read, the bytes that it reads; of a write,
 * the bytes whose earlier readers it has to wait for (empty if there is no such
 * reader).
 */
struct uaio_range {
	uint64_t begin;
	uint64_t end;
};

static inline bool uaio_ranges_meet(const struct uaio_range *a,
				    const struct uaio_range *b)
{
	return a->begin < b->end && b->begin < a->end;
}

/* Return: whether every later request on the inode waits for such a request. */
static inline bool uaio_order_is_ordered(enum uaio_order order)
{
	return order == UAIO_ORDER_WRITE || order == UAIO_ORDER_WRITE_EXCLUSIVE;
}

static inline bool uaio_order_is_write(enum uaio_order order)
{
	return uaio_order_is_ordered(order) ||
	       order == UAIO_ORDER_WRITE_INPLACE ||
	       order == UAIO_ORDER_WRITE_RETURNED;
}

/* Return: whether the device executes it, at a time of its own (I5). */
static inline bool uaio_order_is_direct(enum uaio_order order)
{
	return order == UAIO_ORDER_READ_DIRECT ||
	       order == UAIO_ORDER_WRITE_INPLACE;
}

#endif /* UAIO_REQ_PLACE_H */
