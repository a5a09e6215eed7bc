/* SPDX-License-Identifier: MIT */
/*
 * Shared by the source files of libuaio-check.so, which interposes functions that free
 * memory or do I/O
 */
#ifndef UAIO_CHECK_SHIM_H
#define UAIO_CHECK_SHIM_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check/valgrind.h"

#define EXPORT __attribute__((visibility("default")))

extern bool uaio_shim_has_valgrind; /* defined in taken.c */

/*
 * Make helgrind and drd ignore this atomic variable. Each tool has its own client
 * request for this; the other tool ignores that client request.
 */
static inline void uaio_shim_hide(const void *at, size_t bytes)
{
	if (!uaio_shim_has_valgrind)
		return;
	uaio_valgrind_ask(UAIO_HELGRIND_UNTRACK, (uintptr_t)at, bytes, 0);
	uaio_valgrind_ask(UAIO_DRD_UNTRACK, (uintptr_t)at, bytes, 0);
}

/*
 * The function of this name in libuaio.so. dlsym() finds it once, and a static variable
 * keeps the result.
 */
#define NEXT(name)                                                        \
	({                                                                \
		static __typeof__(&(name)) next;                          \
		__typeof__(&(name)) found =                               \
			__atomic_load_n(&next, __ATOMIC_RELAXED);         \
                                                                          \
		if (!found) {                                             \
			uaio_shim_hide(&next, sizeof(next));              \
			*(void **)&found = dlsym(RTLD_NEXT, #name);       \
			__atomic_store_n(&next, found, __ATOMIC_RELAXED); \
		}                                                         \
		found;                                                    \
	})

/* The first members of struct io_uring, with the layout that libuaio.so uses. */
struct ring {
	struct {
		void *words[7], *sqes;
		uint32_t head, tail;
		size_t bytes;
		void *ring;
		uint32_t mask, nr_entries, unused[2];
	} sq;
	struct {
		uint32_t *head, *tail;
		void *words[5];
		size_t bytes;
		void *ring;
		uint32_t mask, nr_entries, unused[2];
	} cq;
	uint32_t flags;
	int fds[2];
	uint32_t unused[3];
};

/* A function of MemorySanitizer; NULL if the sanitizer is not in the process. */
extern void __msan_unpoison(const void *at, size_t bytes) __attribute__((weak));

/*
 * A function has written this memory of the program: tell MemorySanitizer that the
 * memory is initialised.
 */
static inline void uaio_shim_hand(const void *at, size_t bytes)
{
	if (&__msan_unpoison)
		__msan_unpoison(at, bytes);
}

#endif /* UAIO_CHECK_SHIM_H */
