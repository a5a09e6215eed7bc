/* SPDX-License-Identifier: MIT */
/*
 * Tells the checks of uaio-check(1) which memory the program frees or unmaps. The
 * checks look for requests in flight that still use this memory.
 *
 * Context: any thread. In a signal handler that interrupted the library, the functions
 * check nothing.
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

/*
 * The program gives up the memory at the address `at`; `end` says how, for example by
 * free(). If a request in flight uses some of this memory, report that.
 * Return: whether a request uses it.
 */
bool uaio_host_memory_ends_slowly(enum uaio_check_end end, const void *at,
				  size_t bytes);

/*
 * The program has mapped fd at this address. If fd is a ring, this is recorded for
 * ThreadSanitizer. Only called under uaio-check; keeps errno.
 */
void uaio_host_memory_begins(const void *at, int fd, int64_t offset);

/*
 * The program frees or unmaps memory: report each request in flight that uses it.
 */
static inline void uaio_host_memory_ends(enum uaio_check_end end,
					 const void *at, size_t bytes)
{
	if (unlikely(uaio_config.is_examined))
		(void)uaio_host_memory_ends_slowly(end, at, bytes);
}

/*
 * The program calls aio_return() for this aiocb: report a second call for one request.
 */
void uaio_host_returned(const struct aiocb *aiocb);

#endif /* UAIO_HOST_MEMORY_H */
