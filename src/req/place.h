/* SPDX-License-Identifier: MIT */
/* How a request is ordered among the requests of its inode (order.h) */
#ifndef UAIO_REQ_PLACE_H
#define UAIO_REQ_PLACE_H

#include <stdbool.h>
#include <stdint.h>

enum uaio_order {
	UAIO_ORDER_NONE, /* waits for no request, and none waits for it */
	UAIO_ORDER_READ_DIRECT, /* an O_DIRECT read; waits for ordered writes */
	UAIO_ORDER_READ,        /* a read through the page cache */
	/* an O_DIRECT write that does not extend the file */
	UAIO_ORDER_WRITE_INPLACE,
	/* an ordered write (order.h, I1), or any request at the file position */
	UAIO_ORDER_WRITE,
	/* an ordered write that waits for all requests */
	UAIO_ORDER_WRITE_EXCLUSIVE,
	/* a write that has returned: only syncs wait for it */
	UAIO_ORDER_WRITE_RETURNED,
	/* a sync: waits for all writes; no request waits for it */
	UAIO_ORDER_SYNC,
};

/*
 * A range of bytes of a file. For a read: the bytes to read. For a write: the bytes whose
 * earlier readers it must wait for; empty if there is no such reader.
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

/* Return: whether every later request on the inode waits for requests of this order. */
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

/*
 * Return: whether the device executes the request after the call has submitted it, so that the
 * time of its execution is not known (order.h, I5).
 */
static inline bool uaio_order_is_direct(enum uaio_order order)
{
	return order == UAIO_ORDER_READ_DIRECT ||
	       order == UAIO_ORDER_WRITE_INPLACE;
}

#endif /* UAIO_REQ_PLACE_H */
