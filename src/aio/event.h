/* SPDX-License-Identifier: MIT */
/* The event of one request, as the client reads it: struct io_event. */
#ifndef UAIO_AIO_EVENT_H
#define UAIO_AIO_EVENT_H

#include <assert.h>
#include <stdint.h>

struct uaio_event {
	uint64_t data;
	uint64_t obj;
	int64_t res;
	int64_t res2;
};

static_assert(sizeof(struct uaio_event) == 32, "kernel ABI");

#endif /* UAIO_AIO_EVENT_H */
