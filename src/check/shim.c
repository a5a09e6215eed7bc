/* SPDX-License-Identifier: MIT */
/*
 * libuaio-check.so: `uaio check` loads it before libuaio.so
 *
 * It interposes the functions by which a program gives memory back, and tells libuaio.so
 * before the memory is the allocator's. What a request in flight has is not freed, so that
 * the program goes on as if it had not made the mistake. This is a library of its own, as no other program is
 * to pay for that. A program whose allocator is linked into it does not come here, and one
 * that runs a sanitizer has that tell instead (host/memory.c).
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
 * libuaio.so writes it, if it is there; atomic. The function returns whether a request in
 * flight has some of the memory, after it has reported that.
 */
EXPORT bool (*uaio_check_freed)(const void *at, size_t bytes);

/* libuaio.so writes it, if it is there. The function reads a report of ThreadSanitizer. */
EXPORT void (*uaio_check_hears)(void *report);

/* ThreadSanitizer calls it, unless the sanitizer is linked into the program. */
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
	size_t (*usable_size)(void *); /* NULL: free() is another library's */
} next;

/*
 * The loader's own memory may be freed while it looks. atomic: dlsym() is declared to call
 * nothing in this file, so that the compiler would leave a plain store out.
 */
static _Thread_local bool is_looking __attribute__((tls_model("initial-exec")));

/* Return: whether two functions are of one library. */
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

/* Return: how many bytes the program has at least. */
static size_t bytes_of(void *at)
{
	return next.usable_size ? next.usable_size(at) : 1;
}

/* Return: whether the memory is the kernel's still. It is kept then, for good. */
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
