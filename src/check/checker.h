/* SPDX-License-Identifier: MIT */
/*
 * Checkers in the process: AddressSanitizer (asan.c), MemorySanitizer (msan.c), or
 * memcheck of valgrind (memcheck.c): what they know of memory, and what they learn of
 * requests
 *
 * AddressSanitizer has a shadow memory: one byte for each granule, which is 8 bytes of memory.
 * Its value 0 means that the program may use all 8 bytes; 1 to 7, that it may use only the
 * first 1 to 7 bytes; other values (poison), that it may use none.
 *
 *   A1  While a request is in flight, memory that the kernel may write is poisoned, so the
 *       sanitizer reports each access by the program. A granule is not poisoned if it also has
 *       bytes which the program may use.
 *   A2  When the request completes, only granules that still have this value are restored, as
 *       the program may have freed the others meanwhile.
 *   A3  The shadow changes under the lock of rank CHECK. System calls of the library and
 *       accesses of the kernel do not depend on it.
 *
 * tsan.c informs ThreadSanitizer, and helgrind.c informs helgrind and drd of valgrind, in
 * which order requests and the program use memory.
 *
 * The library is not linked to a sanitizer. It looks up a sanitizer's functions when
 * loaded. Functions that notify a checker do nothing if it is not in the process.
 *
 * Tested by test/run/checkers.py.
 */
#ifndef UAIO_CHECK_CHECKER_H
#define UAIO_CHECK_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uaio_check_part;
struct uaio_sqe;

/* What is wrong with a piece of memory. */
enum uaio_memory {
	UAIO_MEMORY_GOOD,
	UAIO_MEMORY_UNADDRESSABLE, /* the program must not use a byte of it */
	UAIO_MEMORY_UNINITIALISED, /* a byte of it was never written */
};

/* Called when the library is loaded. */
void uaio_memcheck_init(void);

bool uaio_memcheck_is_here(void);

/*
 * Have memcheck check a piece of memory that the kernel writes or reads. memcheck reports
 * an error, and continues.
 * Return: what is wrong; and the address of the first such byte.
 */
enum uaio_memory uaio_memcheck_look(uintptr_t at, size_t bytes, bool is_written,
				    uintptr_t *ret_byte);

/* Forbid accesses to part while a request is in flight, if the kernel writes it. */
void uaio_memcheck_protect(struct uaio_check_part *part);
/* Return: whether the program has freed the memory since uaio_memcheck_protect(). */
bool uaio_memcheck_has_ended(const struct uaio_check_part *part);
/*
 * Allow accesses to part again, and restore its V bits (memcheck's record of which bits are
 * initialised).
 */
void uaio_memcheck_unprotect(struct uaio_check_part *part);
/* The kernel has written this memory: mark it as initialised. */
void uaio_memcheck_initialised(uintptr_t at, size_t bytes);

/* Called when the library is loaded. */
void uaio_msan_init(void);

bool uaio_msan_is_here(void);

/* Return: the first byte of a piece of memory that is not initialised; or 0. */
uintptr_t uaio_msan_find(uintptr_t at, size_t bytes);

/* Have MemorySanitizer report the memory, which usually ends the process. */
void uaio_msan_report(uintptr_t at, size_t bytes);

/*
 * The calling thread submits sqe. Mark memory other than buffers that the kernel will write,
 * such as addresses and events, as initialised. Only called if the sanitizer is in the
 * process.
 */
void uaio_msan_submit(const struct uaio_sqe *sqe);

/* The kernel has written this memory: mark it as initialised. */
void uaio_msan_initialised(uintptr_t at, size_t bytes);

/* The calling thread is about to call a function of the program with nr arguments. */
void uaio_msan_call(size_t nr);

/* Called when the library is loaded. */
void uaio_asan_init(void);

bool uaio_asan_is_here(void);

/* Return: the address of any function of the sanitizer; or 0 if it is not in the process. */
uintptr_t uaio_asan_function(void);

/* Return: the first byte of a piece of memory that the program must not use; or 0. */
uintptr_t uaio_asan_find(uintptr_t at, size_t bytes);

/* Poison the memory of a request in flight, if the kernel writes it. */
void uaio_asan_poison(struct uaio_check_part *part);
void uaio_asan_unpoison(struct uaio_check_part *part);

/*
 * Have the sanitizer report the byte at `at`, which the program must not use. The call at pc
 * submitted the request. The report may end the process.
 */
void uaio_asan_report(uintptr_t pc, uintptr_t at, size_t bytes,
		      bool is_written);

/*
 * uaio_tsan_load(): called when the library is loaded; uaio_tsan_init(): each time the engine
 * starts.
 */
void uaio_tsan_load(void);
void uaio_tsan_init(void);

bool uaio_tsan_is_here(void);

/*
 * The calling thread submits a request. tail: as for uaio_check_submit(); writes: the request
 * sends data.
 */
void uaio_tsan_submit(uintptr_t tail, bool writes);

/*
 * The request of sqe begins to use its memory. stack: the number of the call stack that
 * submits it. The sanitizer may report a race, and end the process. Return: the number of the
 * request's fiber (to the sanitizer a thread of its own, which stands for the request).
 */
uint32_t uaio_tsan_begin(const struct uaio_sqe *sqe, uint32_t stack);

/* The completion of the request on the fiber is about to be posted. */
void uaio_tsan_end(uint32_t fiber, uintptr_t tail);

/* A request that reads data completes: the data may be what another request has written. */
void uaio_tsan_carry(uintptr_t tail);

/* The request on the fiber, submitted by the calling thread, was refused. */
void uaio_tsan_refuse(uint32_t fiber);

/* Return: whether the report is about a request. *ret_at: a byte that both accesses use. */
bool uaio_tsan_get_race(void *report, uintptr_t *ret_at);

/* uaio_check_pass() and uaio_check_notified(), for ThreadSanitizer. */
void uaio_tsan_pass(uintptr_t from, uintptr_t to);
void uaio_tsan_notified(void);

/* helgrind or drd of valgrind (helgrind.c) */

struct uaio_check_record;

/* Called when the library is loaded. */
void uaio_helgrind_init(void);

/* Return: the name of the tool in the process; or NULL. */
const char *uaio_helgrind_name(void);

/* Like uaio_tsan_submit(). */
void uaio_helgrind_submit(uintptr_t tail, bool writes);
/* The request of sqe begins to use its memory. The tool may report a race. */
void uaio_helgrind_begin(const struct uaio_sqe *sqe);
/* The completion of the request is about to be posted. Like uaio_tsan_end(). */
void uaio_helgrind_end_locked(const struct uaio_check_record *record,
			      bool reads);
void uaio_helgrind_pass(uintptr_t from, uintptr_t to);
void uaio_helgrind_notified(void);
/* From now on the tool reports no race on this memory, until the memory is freed. */
void uaio_helgrind_untrack(uintptr_t at, size_t bytes);

/* Return: whether a checker that finds data races is in the process. */
static inline bool uaio_checker_has_threads(void)
{
	return uaio_tsan_is_here() || uaio_helgrind_name();
}

/*
 * Forbid, and later allow again, that the program uses memory which a request in flight
 * writes.
 */
static inline void uaio_checker_take(struct uaio_check_part *part)
{
	uaio_asan_poison(part);
	uaio_memcheck_protect(part);
}

static inline void uaio_checker_give_back(struct uaio_check_part *part)
{
	uaio_memcheck_unprotect(part);
	uaio_asan_unpoison(part);
}

#endif /* UAIO_CHECK_CHECKER_H */
