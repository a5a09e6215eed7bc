/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program gives back, for uaio-check(1)
 *
 * Context: any thread. A handler that has interrupted the library is not checked.
 *
 * Tested by test-check.c.
 */
#ifndef UAIO_HOST_MEMORY_H
#define UAIO_HOST_MEMORY_H

#include <stddef.h>

#include "base/check.h"
#include "options/config.h"
#include "check/check.h"

struct aiocb;

/* Return: whether a request in flight has some of the memory, which is reported. */
bool uaio_host_memory_ends_slowly(enum uaio_check_end end, const void *at,
				  size_t bytes);

/* The program gives memory back: requests in flight must not have it. */
/* A part of a file was mapped, where requests are examined. Keeps errno. */
void uaio_host_memory_begins(const void *at, int fd, int64_t offset);

static inline void uaio_host_memory_ends(enum uaio_check_end end,
					 const void *at, size_t bytes)
{
	if (unlikely(uaio_config.is_examined))
		(void)uaio_host_memory_ends_slowly(end, at, bytes);
}

/* The program asks for the result of an aiocb. */
void uaio_host_returned(const struct aiocb *aiocb);

#endif /* UAIO_HOST_MEMORY_H */
