/* SPDX-License-Identifier: MIT */
/*
 * mremap(2) and munmap(2), which may concern the event ring of a kernel AIO context
 *
 * A context's handle is the address of its ring. Some programs move the ring, and use the
 * new address as the handle. A program may also unmap the ring; afterwards the library
 * must not access the ring.
 *
 * Tested by test/conform/rows-ring.c.
 */
#include "host/host.h"

#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/newer.h"
#include "base/symver.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "aio/handle.h"
#include "host/memory.h"

long uaio_host_raw_mremap(void *old, unsigned long old_bytes,
			  unsigned long new_bytes, int flags, void *new_addr)
{
	int64_t addr;
	bool is_ring;

	if (uaio_engine_is_up() && uaio_enter()) {
		is_ring = uaio_ctx_mremap((uintptr_t)old, old_bytes, new_bytes,
					  flags, (uintptr_t)new_addr, &addr);
		uaio_leave();
		if (is_ring)
			return addr;
	}
	uaio_host_memory_ends(UAIO_CHECK_UNMAPPED, old, old_bytes);
	return (long)sys_mremap(old, old_bytes, new_bytes, flags, new_addr);
}

UAIO_EXPORT void *mremap(void *old, size_t old_bytes, size_t new_bytes,
			 int flags, ...);

void *mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, ...)
{
	void *new_addr = NULL;
	va_list args;

	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) {
		va_start(args, flags);
		new_addr = va_arg(args, void *);
		va_end(args);
	}
	return (void *)uaio_host_error(uaio_host_raw_mremap(
		old, old_bytes, new_bytes, flags, new_addr));
}

long uaio_host_raw_munmap(void *addr, unsigned long bytes)
{
	bool is_ring;

	if (uaio_engine_is_up() && uaio_enter()) {
		is_ring = uaio_ctx_munmap((uintptr_t)addr);
		uaio_leave();
		if (is_ring)
			return 0;
	}
	uaio_host_memory_ends(UAIO_CHECK_UNMAPPED, addr, bytes);
	return sys_munmap(addr, bytes);
}

UAIO_EXPORT int munmap(void *addr, size_t bytes);

int munmap(void *addr, size_t bytes)
{
	return (int)uaio_host_error(uaio_host_raw_munmap(addr, bytes));
}
