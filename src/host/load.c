/* SPDX-License-Identifier: MIT */
/*
 * The library's constructor and destructor, and the functions of uaio.h that read the
 * library's counters
 *
 * Loading the library creates no thread and allocates no memory. The library does both
 * later, when the program creates its first context or ring.
 *
 * Tested by test/abi/links.c and test/host/leaving.c.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/libc.h"
#include "base/symver.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "life/life.h"
#include "host/host.h"
#include "uaio.h"

#if defined(__aarch64__)

/*
 * On aarch64, libgcc's code for atomic accesses calls __getauxval(). glibc exports this
 * function; musl exports it only as getauxval().
 */
unsigned long __getauxval(unsigned long type)
	__attribute__((visibility("hidden"), used));

unsigned long __getauxval(unsigned long type)
{
	return getauxval(type);
}

#endif

__attribute__((constructor)) static void load(void)
{
	uaio_engine_load();
	uaio_host_load();
	uaio_host_load_exec();
	uaio_host_load_spawn();
	uaio_host_load_filter();
	uaio_host_load_identity();
	uaio_host_load_poll();
	uaio_host_load_ringpoll();
	uaio_host_load_select();
	uaio_host_load_memory();
	uaio_host_load_mmap();
	uaio_host_load_quota();
	uaio_host_load_sigaction();
	uaio_host_load_uring();
	uaio_libc_at_quick_exit(uaio_host_exiting);
}

__attribute__((destructor)) static void unload(void)
{
	uaio_host_exiting();
}

UAIO_EXPORT int uaio_get_counters(struct uaio_counters *ret_counters)
{
	memset(ret_counters, 0, sizeof(*ret_counters));
	if (uaio_engine_is_up() && uaio_enter()) {
		uaio_counters_read(ret_counters);
		uaio_leave();
	}
	return 0;
}
