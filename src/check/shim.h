/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of libuaio-check.so, the library that interposes functions of the I/O
 * interfaces
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
 * Make helgrind and drd ignore this atomic variable. Each tool knows one of the two requests
 * used here.
 */
static inline void uaio_shim_hide(const void *at, size_t bytes)
{
	if (!uaio_shim_has_valgrind)
		return;
	uaio_valgrind_ask(UAIO_HELGRIND_UNTRACK, (uintptr_t)at, bytes, 0);
	uaio_valgrind_ask(UAIO_DRD_UNTRACK, (uintptr_t)at, bytes, 0);
}

/* Return: the function of this name in libuaio.so. The result is kept in a static variable. */
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

/* The beginning of struct io_uring, as libuaio.so fills it in. */
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

/* From MemorySanitizer; NULL if it is not in the process. */
extern void __msan_unpoison(const void *at, size_t bytes) __attribute__((weak));

/* A function has written memory of the program: mark it as initialised. */
static inline void uaio_shim_hand(const void *at, size_t bytes)
{
	if (&__msan_unpoison)
		__msan_unpoison(at, bytes);
}

#endif /* UAIO_CHECK_SHIM_H */
