/* SPDX-License-Identifier: MIT */
/*
 * Reports memory that the program frees or unmaps to uaio-check(1), which looks for requests in
 * flight that still use it
 *
 * Context: any thread. Calls in a signal handler that interrupted the library are not checked.
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

/* Report a request in flight that uses some of the memory. Return: whether there is one. */
bool uaio_host_memory_ends_slowly(enum uaio_check_end end, const void *at,
				  size_t bytes);

/* The program has mapped fd at this address. Only called under uaio-check. Keeps errno. */
void uaio_host_memory_begins(const void *at, int fd, int64_t offset);

/* The program frees or unmaps memory. Report requests in flight that use it. */
static inline void uaio_host_memory_ends(enum uaio_check_end end,
					 const void *at, size_t bytes)
{
	if (unlikely(uaio_config.is_examined))
		(void)uaio_host_memory_ends_slowly(end, at, bytes);
}

/* The program calls aio_return() for aiocb. */
void uaio_host_returned(const struct aiocb *aiocb);

#endif /* UAIO_HOST_MEMORY_H */
