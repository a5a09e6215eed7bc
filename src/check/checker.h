/* SPDX-License-Identifier: MIT */
/*
 * Checkers of memory that the program has: AddressSanitizer (asan.c), MemorySanitizer
 * (msan.c), or memcheck of valgrind (memcheck.c). What they know of memory, and what they are
 * told of requests
 *
 * AddressSanitizer has a shadow: a byte for each 8 bytes of memory, a granule. 0 says that the
 * program may use all of them, 1 to 7 so many of the first, and another value none.
 *
 *   A1  While a request is in flight, what the kernel may write is poisoned, so that the
 *       sanitizer reports a program that touches it, where it does. A granule of which the
 *       program may use other bytes stays as it is.
 *   A2  Only what is as we have set it becomes again what it was: the program may have
 *       given the memory back meanwhile.
 *   A3  The shadow changes under the lock of rank CHECK. The kernel's calls, and ours,
 *       do not go by it.
 *
 * tsan.c tells ThreadSanitizer, and helgrind.c tells helgrind and drd of valgrind, in which
 * order requests and the program use memory.
 *
 * The library is not linked to a sanitizer. It looks for the functions of one when it
 * comes up.
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
	UAIO_MEMORY_UNADDRESSABLE, /* a byte is not the program's to use */
	UAIO_MEMORY_UNINITIALISED, /* a byte was never written */
};

/* Called when the library is loaded. */
void uaio_memcheck_init(void);

bool uaio_memcheck_is_here(void);

/*
 * Have memcheck look at a piece of memory, which the kernel writes or reads. It reports what
 * is wrong, and goes on.
 * Return: what is wrong, with its first byte.
 */
enum uaio_memory uaio_memcheck_look(uintptr_t at, size_t bytes, bool is_written,
				    uintptr_t *ret_byte);

/* A request in flight has it. Nothing if the kernel only reads it. */
void uaio_memcheck_protect(struct uaio_check_part *part);
/* Return: whether the program has given back its memory since then. */
bool uaio_memcheck_has_ended(const struct uaio_check_part *part);
/* It is the program's again, as it was. */
void uaio_memcheck_unprotect(struct uaio_check_part *part);
/* The kernel has written the memory. Nothing if memcheck is not here. */
void uaio_memcheck_initialised(uintptr_t at, size_t bytes);

/* Called when the library is loaded. */
void uaio_msan_init(void);

bool uaio_msan_is_here(void);

/* Return: the first byte that was not initialised, in a piece of memory; or 0. */
uintptr_t uaio_msan_find(uintptr_t at, size_t bytes);

/* Have MemorySanitizer report it, which mostly ends the process. */
void uaio_msan_report(uintptr_t at, size_t bytes);

/*
 * The sanitizer is here, and the calling thread submits sqe. What the kernel will write
 * beside the buffers is initialised from now on: addresses, events and the like.
 */
void uaio_msan_submit(const struct uaio_sqe *sqe);

/* The kernel has written the memory. Nothing if the sanitizer is not here. */
void uaio_msan_initialised(uintptr_t at, size_t bytes);

/*
 * The calling thread is about to call a function of the program with nr arguments, which
 * are initialised. Nothing if the sanitizer is not here.
 */
void uaio_msan_call(size_t nr);

/* Called when the library is loaded. */
void uaio_asan_init(void);

bool uaio_asan_is_here(void);

/* Return: where a function of its own is; or 0. */
uintptr_t uaio_asan_function(void);

/* Return: the first byte that the program may not use, in a piece of memory; or 0. */
uintptr_t uaio_asan_find(uintptr_t at, size_t bytes);

/* A request in flight has it. Nothing if the kernel only reads it. */
void uaio_asan_poison(struct uaio_check_part *part);
void uaio_asan_unpoison(struct uaio_check_part *part);

/*
 * Have the sanitizer report that the caller, whose call is at pc, has the kernel read or
 * write a piece of memory of which the program may not use at. It may end the process.
 */
void uaio_asan_report(uintptr_t pc, uintptr_t at, size_t bytes,
		      bool is_written);

/* Called when the library is loaded; and each time the engine starts. */
void uaio_tsan_load(void);
void uaio_tsan_init(void);

bool uaio_tsan_is_here(void);

/*
 * The calling thread submits a request. tail: the address of what its client sees
 * completions at; writes: the kernel reads the program's memory. Nothing if the sanitizer
 * is not here.
 */
void uaio_tsan_submit(uintptr_t tail, bool writes);

/*
 * The request of sqe begins to use its memory. stack: the number of the stack of calls that
 * submits it. The sanitizer may report a race, and end the process.
 * Return: the number of its fiber.
 */
uint32_t uaio_tsan_begin(const struct uaio_sqe *sqe, uint32_t stack);

/* The completion of the request that has the fiber is about to be posted. */
void uaio_tsan_end(uint32_t fiber, uintptr_t tail);

/*
 * The completion of a request is about to be posted, which may have read what another
 * request has written.
 */
void uaio_tsan_carry(uintptr_t tail);

/* The request that has the fiber was refused; the calling thread has submitted it. */
void uaio_tsan_refuse(uint32_t fiber);

/*
 * Return: whether the sanitizer's report is of a race with a request, with a byte that both
 * accesses have.
 */
bool uaio_tsan_get_race(void *report, uintptr_t *ret_at);

/* What uaio_check_pass() and uaio_check_notified() tell it. */
void uaio_tsan_pass(uintptr_t from, uintptr_t to);
void uaio_tsan_notified(void);

/*
 * helgrind or drd of valgrind (helgrind.c). Without them, the functions do nothing.
 */

struct uaio_check_record;

/* Called when the library is loaded. */
void uaio_helgrind_init(void);

/* Return: which of them is here; or NULL. */
const char *uaio_helgrind_name(void);

/* As uaio_tsan_submit(). */
void uaio_helgrind_submit(uintptr_t tail, bool writes);
/* The request of sqe begins to use its memory. The tool may report a race. */
void uaio_helgrind_begin(const struct uaio_sqe *sqe);
/* The completion of the request is about to be posted. As uaio_tsan_end(). */
void uaio_helgrind_end_locked(const struct uaio_check_record *record,
			      bool reads);
void uaio_helgrind_pass(uintptr_t from, uintptr_t to);
void uaio_helgrind_notified(void);
/* From now on, the tool reports no race of this memory, until it is freed. */
void uaio_helgrind_untrack(uintptr_t at, size_t bytes);

/* Return: whether a checker of threads is here. */
static inline bool uaio_checker_has_threads(void)
{
	return uaio_tsan_is_here() || uaio_helgrind_name();
}

/*
 * Of whichever is here: the program must not touch the memory that a request in flight
 * writes to; and may again.
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
