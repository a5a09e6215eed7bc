/* SPDX-License-Identifier: MIT */
/*
 * Other checkers in the process: AddressSanitizer (asan.c), MemorySanitizer (msan.c)
 * and memcheck of valgrind (memcheck.c). The library asks them about memory, and tells
 * them about requests.
 *
 * AddressSanitizer has a shadow memory, with one byte for each granule (8 bytes of
 * memory). If the shadow byte is 0, the program may use all 8 bytes; if it is 1 to 7,
 * only the first 1 to 7 bytes; if it has another value (poison), none.
 *
 *   A1  While a request is in flight, the memory that the kernel may write is poisoned.
 *       So the sanitizer reports each access by the program. But if the program may use
 *       bytes of the last granule that come after this memory, that granule is not
 *       poisoned.
 *   A2  When the request completes, the library restores only granules whose shadow is
 *       still what the library has set. The program may have freed the memory of the
 *       other granules meanwhile.
 *   A3  The shadow changes under the lock of rank CHECK. The poison hinders neither the
 *       kernel nor the library's system calls.
 *
 * The library tells ThreadSanitizer (tsan.c), and helgrind and drd of valgrind
 * (helgrind.c), in which order requests and the program use memory.
 *
 * The library is not linked to a sanitizer. When it is loaded, it looks up the
 * functions of a sanitizer in the process. Functions that notify a checker do nothing
 * if this checker is not in the process.
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

/* What a checker has found out about a piece of memory. */
enum uaio_memory {
	UAIO_MEMORY_GOOD,
	/* the memory contains a byte that the program must not use */
	UAIO_MEMORY_UNADDRESSABLE,
	/* the memory contains a byte that the program has never written */
	UAIO_MEMORY_UNINITIALISED,
};

/* Called when the library is loaded: find out whether the process runs under memcheck. */
void uaio_memcheck_init(void);

bool uaio_memcheck_is_here(void);

/*
 * Have memcheck check a piece of memory that the kernel will write or read. If memcheck
 * finds an error, it reports the error and continues.
 * Return: what is wrong with the memory. *ret_byte: the first unaddressable or
 * uninitialised byte.
 */
enum uaio_memory uaio_memcheck_look(uintptr_t at, size_t bytes, bool is_written,
				    uintptr_t *ret_byte);

/*
 * If the kernel writes this part (piece of memory of a request), forbid the program to
 * access the memory while the request is in flight.
 */
void uaio_memcheck_protect(struct uaio_check_part *part);
/*
 * Return: whether the program has freed the memory since uaio_memcheck_protect() was
 * called.
 */
bool uaio_memcheck_has_ended(const struct uaio_check_part *part);
/*
 * The request is complete: allow the program to access the memory of this part (piece
 * of the request's memory) again. Restore memcheck's record of which bits are
 * initialised (the V bits).
 */
void uaio_memcheck_unprotect(struct uaio_check_part *part);
/* The kernel has written this memory: mark it as initialised. */
void uaio_memcheck_initialised(uintptr_t at, size_t bytes);

/* Called when the library is loaded: look up MemorySanitizer's functions. */
void uaio_msan_init(void);

bool uaio_msan_is_here(void);

/*
 * Return: the address of the first byte that is not initialised; 0: all are
 * initialised.
 */
uintptr_t uaio_msan_find(uintptr_t at, size_t bytes);

/*
 * Have MemorySanitizer report that this memory is not initialised. This usually ends
 * the process.
 */
void uaio_msan_report(uintptr_t at, size_t bytes);

/*
 * The calling thread submits sqe. The kernel will also write memory that is no data
 * buffer, such as addresses and events: mark this memory as initialised. Called only if
 * MemorySanitizer is in the process.
 */
void uaio_msan_submit(const struct uaio_sqe *sqe);

/* The kernel has written this memory: mark it as initialised. */
void uaio_msan_initialised(uintptr_t at, size_t bytes);

/*
 * The calling thread is about to call a function of the program with nr arguments,
 * which the sanitizer should treat as initialised.
 */
void uaio_msan_call(size_t nr);

/* Called when the library is loaded: look up AddressSanitizer's functions. */
void uaio_asan_init(void);

bool uaio_asan_is_here(void);

/*
 * Return: the address of some function of AddressSanitizer, by which stack.c finds the
 * sanitizer's address range; 0 if the sanitizer is not in the process.
 */
uintptr_t uaio_asan_function(void);

/*
 * Return: the address of the first byte that the program must not use; 0: there is
 * none.
 */
uintptr_t uaio_asan_find(uintptr_t at, size_t bytes);

/*
 * uaio_asan_poison(): poison the memory of a request in flight, if the kernel writes
 * it. uaio_asan_unpoison(): undo this.
 */
void uaio_asan_poison(struct uaio_check_part *part);
void uaio_asan_unpoison(struct uaio_check_part *part);

/*
 * Have the sanitizer report the byte at `at`, which the program must not use. The
 * program's call at pc has submitted a request that uses this byte. The report may end
 * the process.
 */
void uaio_asan_report(uintptr_t pc, uintptr_t at, size_t bytes,
		      bool is_written);

/*
 * uaio_tsan_load(): called when the library is loaded; looks up the sanitizer's
 * functions. uaio_tsan_init(): called each time the library starts; marks the fibers
 * (uaio_tsan_begin()) of a parent process as unused.
 */
void uaio_tsan_load(void);
void uaio_tsan_init(void);

bool uaio_tsan_is_here(void);

/*
 * The calling thread submits a request. `tail`: as in uaio_check_submit(), the address of
 * the word that the program reads to find completions. `writes`: whether the request
 * writes data to a file or socket.
 */
void uaio_tsan_submit(uintptr_t tail, bool writes);

/*
 * The request of sqe begins to use its memory. `stack`: the number of the call stack that
 * submits the request. ThreadSanitizer may report a race, and end the process.
 * Return: the number of the request's fiber. The sanitizer treats the fiber as a
 * thread, which stands for the request.
 */
uint32_t uaio_tsan_begin(const struct uaio_sqe *sqe, uint32_t stack);

/*
 * The completion of the request that uses this fiber is about to be posted: order what
 * the request did before what the thread does that gets the completion. Free the fiber.
 */
void uaio_tsan_end(uint32_t fiber, uintptr_t tail);

/*
 * A request that reads data completes. Another request may have written this data, so
 * order all requests that wrote data before the thread that gets this completion (T4 of
 * tsan.c).
 */
void uaio_tsan_carry(uintptr_t tail);

/*
 * The request that uses this fiber was refused when the calling thread submitted it:
 * order what the request did before what this thread does next. Free the fiber.
 */
void uaio_tsan_refuse(uint32_t fiber);

/*
 * Return: whether the sanitizer's report is about a request. *ret_at: a byte of memory
 * that both threads of the race access.
 */
bool uaio_tsan_get_race(void *report, uintptr_t *ret_at);

/* The ThreadSanitizer parts of uaio_check_pass() and uaio_check_notified(). */
void uaio_tsan_pass(uintptr_t from, uintptr_t to);
void uaio_tsan_notified(void);

/* helgrind.c: passes requests to helgrind or drd, which are tools of valgrind */

struct uaio_check_record;

/* Called when the library is loaded: find out whether helgrind or drd is there. */
void uaio_helgrind_init(void);

/* Return: "helgrind" or "drd", if the process runs under this tool; or NULL. */
const char *uaio_helgrind_name(void);

/* Like uaio_tsan_submit(). */
void uaio_helgrind_submit(uintptr_t tail, bool writes);
/*
 * Access the memory of sqe's request in place of the kernel. helgrind or drd may report
 * a race.
 */
void uaio_helgrind_begin(const struct uaio_sqe *sqe);
/*
 * The request's completion is about to be posted: order the request before what the
 * program does after it gets the completion.
 */
void uaio_helgrind_end_locked(const struct uaio_check_record *record,
			      bool reads);
void uaio_helgrind_pass(uintptr_t from, uintptr_t to);
void uaio_helgrind_notified(void);
/*
 * From now on helgrind or drd reports no race on this memory, until the memory is
 * freed.
 */
void uaio_helgrind_untrack(uintptr_t at, size_t bytes);

/* Return: whether ThreadSanitizer, helgrind or drd is in the process. */
static inline bool uaio_checker_has_threads(void)
{
	return uaio_tsan_is_here() || uaio_helgrind_name();
}

/*
 * uaio_checker_take(): forbid that the program uses memory which a request in flight
 * writes. uaio_checker_give_back(): allow it again.
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
