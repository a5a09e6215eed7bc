/* SPDX-License-Identifier: MIT */
/* How a request is ordered among the requests on the same inode (order.h) */
#ifndef UAIO_REQ_PLACE_H
#define UAIO_REQ_PLACE_H

#include <stdbool.h>
#include <stdint.h>

enum uaio_order {
	/* the request waits for no request, and no request waits for it */
	UAIO_ORDER_NONE,
	/* a read with O_DIRECT, which waits for ordered writes */
	UAIO_ORDER_READ_DIRECT,
	/* a read through the page cache */
	UAIO_ORDER_READ,
	/* an O_DIRECT write that does not extend the file */
	UAIO_ORDER_WRITE_INPLACE,
	/*
	 * an ordered write (order.h, I1), or any read or write at the file's own
	 * position
	 */
	UAIO_ORDER_WRITE,
	/* an ordered write that also waits for all earlier requests */
	UAIO_ORDER_WRITE_EXCLUSIVE,
	/* a write whose system call has returned: only syncs still wait for it */
	UAIO_ORDER_WRITE_RETURNED,
	/*
	 * a sync, which waits for all earlier writes; no request waits for a sync
	 */
	UAIO_ORDER_SYNC,
};

/*
 * A range of bytes of a file. For a read: the bytes to read. For a write: the bytes
 * that the write changes (extent.h). A write of these bytes waits until earlier reads
 * have read them. The range is empty if no request depends on these bytes.
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

/*
 * Return: whether each later request on the inode waits for requests that have this
 * order.
 */
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
 * Return: whether the system call only hands the request to the device. So it is not
 * known when the device executes the request (order.h, I5).
 */
static inline bool uaio_order_is_direct(enum uaio_order order)
{
	return order == UAIO_ORDER_READ_DIRECT ||
	       order == UAIO_ORDER_WRITE_INPLACE;
}

#endif /* UAIO_REQ_PLACE_H */
