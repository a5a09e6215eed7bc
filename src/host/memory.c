/* SPDX-License-Identifier: MIT */
/*
 * Connects libuaio.so with libuaio-check.so, which `uaio check` loads first
 *
 * libuaio-check.so interposes functions that free memory (check/shim.c), and calls the
 * functions to which its variables point. This file sets these variables.
 */
#include "host/memory.h"

#include <aio.h>
#include <dlfcn.h>
#include <errno.h>

#include "proc/entry.h"
#include "proc/process.h"
#include "uring/uring.h"
#include "posix/posix.h"
#include "host/host.h"

/*
 * Variables in libuaio-check.so. If that library is not loaded, their addresses are
 * NULL.
 */
extern bool (*uaio_check_freed)(const void *at, size_t bytes)
	__attribute__((weak));

extern void (*uaio_check_hears)(void *report) __attribute__((weak));

bool uaio_host_memory_ends_slowly(enum uaio_check_end end, const void *at,
				  size_t bytes)
{
	bool is_in_flight;

	if (end == UAIO_CHECK_UNMAPPED)
		uaio_check_unmapped();
	if (!uaio_engine_is_up() ||
	    !uaio_check_may_have((uintptr_t)at, bytes) || !uaio_enter())
		return false;
	is_in_flight = uaio_check_memory_ends(end, (uintptr_t)at, bytes);
	uaio_leave();
	return is_in_flight;
}

void uaio_host_memory_begins(const void *at, int fd, int64_t offset)
{
	uaio_check_mapped();
	uaio_uring_note_mapped(fd, at, offset);
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

/*
 * A sanitizer has its own allocator, which calls a hook for each free(). If the program
 * frees memory that was never allocated, the sanitizer reports that itself, so
 * hear_free() ignores such memory.
 */
static struct {
	int (*is_allocated)(const void *at);
	size_t (*get_bytes)(const void *at);
} sanitizer;

static void hear_malloc(const void *at, size_t bytes)
{
	(void)at;
	(void)bytes;
}

static void hear_free(const void *at)
{
	if (at && sanitizer.is_allocated(at))
		(void)freed(at, sanitizer.get_bytes(at));
}

/*
 * Return: whether a sanitizer is in the process, and has accepted the hooks for malloc
 * and free.
 */
static bool ask_sanitizer(void)
{
	int (*install)(void (*)(const void *, size_t), void (*)(const void *));

	*(void **)&install = dlsym(RTLD_DEFAULT,
				   "__sanitizer_install_malloc_and_free_hooks");
	*(void **)&sanitizer.is_allocated =
		dlsym(RTLD_DEFAULT, "__sanitizer_get_ownership");
	*(void **)&sanitizer.get_bytes =
		dlsym(RTLD_DEFAULT, "__sanitizer_get_allocated_size");
	return install && sanitizer.is_allocated && sanitizer.get_bytes &&
	       install(hear_malloc, hear_free);
}

void uaio_host_load_memory(void)
{
	if (uaio_config.is_examined && !ask_sanitizer() && &uaio_check_freed)
		uaio_check_freed = freed;
	if (uaio_config.is_examined && &uaio_check_hears)
		uaio_check_hears = uaio_check_raced;
}
