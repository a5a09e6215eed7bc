/* SPDX-License-Identifier: MIT */
/*
 * The library libuaio-check.so, which `uaio check` loads before this one, interposes the
 * allocator (check/shim.c). It calls what it finds in a variable of its own.
 */
#include "host/memory.h"

#include <aio.h>
#include <errno.h>

#include "proc/entry.h"
#include "proc/process.h"
#include "posix/posix.h"
#include "host/host.h"

/* The variable, if that library is there. */
extern bool (*uaio_check_freed)(const void *at, size_t bytes)
	__attribute__((weak));

bool uaio_host_memory_ends_slowly(enum uaio_check_end end, const void *at,
				  size_t bytes)
{
	bool is_in_flight;

	if (!uaio_engine_is_up() ||
	    !uaio_check_may_have((uintptr_t)at, bytes) || !uaio_enter())
		return false;
	is_in_flight = uaio_check_memory_ends(end, (uintptr_t)at, bytes);
	uaio_leave();
	return is_in_flight;
}

static bool freed(const void *at, size_t bytes)
{
	return uaio_host_memory_ends_slowly(UAIO_CHECK_FREED, at, bytes);
}

void uaio_host_returned(const struct aiocb *aiocb)
{
	if (!uaio_engine_is_up() || uaio_posix_error(aiocb) == EINPROGRESS ||
	    !uaio_enter())
		return;
	uaio_check_returned((uintptr_t)aiocb);
	uaio_leave();
}

void uaio_host_load_memory(void)
{
	if (&uaio_check_freed && uaio_config.is_examined)
		uaio_check_freed = freed;
}
