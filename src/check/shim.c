/* SPDX-License-Identifier: MIT */
/*
 * libuaio-check.so, which `uaio check` loads before libuaio.so
 *
 * libuaio-check.so interposes the functions that free memory, and notifies libuaio.so
 * before the allocator gets the memory. If a request in flight uses the memory,
 * libuaio-check.so does not free it, so the program continues without harm. A program
 * that is not checked does not load this library, and has no overhead. A program that
 * is linked to its own allocator does not call these functions. In a program with a
 * sanitizer, the sanitizer notifies libuaio.so instead (host/memory.c).
 *
 * Tested by test-check.c.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/*
 * libuaio.so sets this pointer when it is loaded; atomic. The function returns whether
 * a request in flight uses some of the memory. If so, it has reported this.
 */
EXPORT bool (*uaio_check_freed)(const void *at, size_t bytes);

/*
 * libuaio.so sets this pointer when it is loaded. The function finds the request that a
 * report of ThreadSanitizer is about.
 */
EXPORT void (*uaio_check_hears)(void *report);

/*
 * ThreadSanitizer calls this function for each race, unless the sanitizer is linked
 * statically into the program.
 */
EXPORT void __tsan_on_report(void *report);

void __tsan_on_report(void *report)
{
	void (*raced)(void *) =
		__atomic_load_n(&uaio_check_hears, __ATOMIC_RELAXED);

	if (raced)
		raced(report);
}

static struct {
	void (*free)(void *);
	void *(*realloc)(void *, size_t);
	/*
	 * NULL if malloc_usable_size() is in another library than free(), so belongs to
	 * another allocator
	 */
	size_t (*usable_size)(void *);
} next;

/*
 * True while this thread is in dlsym(), which may call free(): then free() must not
 * call dlsym() again. Accesses are atomic: the compiler assumes that dlsym() calls no
 * function of this file, and would remove plain stores.
 */
static _Thread_local bool is_looking __attribute__((tls_model("initial-exec")));

/* Return: whether two functions are in the same library. */
static bool are_together(void *one, void *other)
{
	Dl_info its, others;

	return one && other && dladdr(one, &its) && dladdr(other, &others) &&
	       its.dli_fbase == others.dli_fbase;
}

static void find_next(void)
{
	if (next.free || __atomic_load_n(&is_looking, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&is_looking, true, __ATOMIC_RELAXED);
	*(void **)&next.realloc = dlsym(RTLD_NEXT, "realloc");
	*(void **)&next.usable_size = dlsym(RTLD_NEXT, "malloc_usable_size");
	*(void **)&next.free = dlsym(RTLD_NEXT, "free");
	if (!are_together((void *)next.free, (void *)next.usable_size))
		next.usable_size = NULL;
	__atomic_store_n(&is_looking, false, __ATOMIC_RELAXED);
}

__attribute__((constructor)) static void load(void)
{
	find_next();
}

/* Return: the usable size of a block, or 1 if usable_size is NULL. */
static size_t bytes_of(void *at)
{
	return next.usable_size ? next.usable_size(at) : 1;
}

/*
 * Return: whether a request in flight uses the memory. If so, free() and realloc() of
 * this file never free the memory.
 */
static bool is_in_flight(void *at)
{
	bool (*freed)(const void *, size_t) =
		__atomic_load_n(&uaio_check_freed, __ATOMIC_RELAXED);

	return freed && freed(at, bytes_of(at));
}

EXPORT void free(void *at)
{
	find_next();
	if (at && next.free && !is_in_flight(at))
		next.free(at);
}

EXPORT void *realloc(void *at, size_t bytes)
{
	size_t old_bytes;
	void *now;

	find_next();
	if (!next.realloc)
		return NULL;
	if (!at || !is_in_flight(at) || !next.usable_size)
		return next.realloc(at, bytes);
	now = bytes ? malloc(bytes) : NULL;
	old_bytes = bytes_of(at);
	if (now)
		memcpy(now, at, bytes < old_bytes ? bytes : old_bytes);
	return now;
}

EXPORT void *reallocarray(void *at, size_t nr, size_t bytes)
{
	size_t sum;

	if (!__builtin_mul_overflow(nr, bytes, &sum))
		return realloc(at, sum);
	errno = ENOMEM;
	return NULL;
}
