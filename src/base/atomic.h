/* SPDX-License-Identifier: MIT */
/*
 * Macros for atomic accesses; their names contain the memory order
 *
 * Two threads may use the same integer or pointer at the same time only by these
 * macros. There is no default order and no volatile: each access names the order that
 * the code relies on. The macros use the compiler's builtins instead of _Atomic types,
 * because programs see the completion ring as plain integers.
 *
 * If an access is not relaxed, the comment above it has a tag, [MB:name], and names the
 * access with which it pairs. doc/memory-model.md lists the tags, and tools/lint checks
 * them.
 */
#ifndef UAIO_BASE_ATOMIC_H
#define UAIO_BASE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#define load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define load_seq_cst(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define store_seq_cst(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)

#define xchg_acquire(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define xchg_acqrel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define xchg_release(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELEASE)

#define add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define add_acquire(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQUIRE)
#define add_release(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELEASE)
#define add_seq_cst(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)
#define sub_seq_cst(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_SEQ_CST)
#define sub_acqrel(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_ACQ_REL)
#define sub_release(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELEASE)
#define sub_relaxed(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELAXED)
#define and_relaxed(p, v) __atomic_fetch_and((p), (v), __ATOMIC_RELAXED)
#define and_seq_cst(p, v) __atomic_fetch_and((p), (v), __ATOMIC_SEQ_CST)
#define or_seq_cst(p, v) __atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST)
#define or_acqrel(p, v) __atomic_fetch_or((p), (v), __ATOMIC_ACQ_REL)
#define or_relaxed(p, v) __atomic_fetch_or((p), (v), __ATOMIC_RELAXED)

/*
 * If *p differs from *expected, the macro copies *p to *expected, and evaluates to
 * false.
 */
#define cas_acquire(p, expected, v)                              \
	__atomic_compare_exchange_n((p), (expected), (v), false, \
				    __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)
#define cas_release(p, expected, v)                              \
	__atomic_compare_exchange_n((p), (expected), (v), false, \
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define cas_relaxed(p, expected, v)                              \
	__atomic_compare_exchange_n((p), (expected), (v), false, \
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define cas_seq_cst(p, expected, v)                              \
	__atomic_compare_exchange_n((p), (expected), (v), false, \
				    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)

/*
 * Load a number, such as an id, from an object whose memory may have been reused for
 * another object. Another thread may be initialising that other object by plain stores.
 * So the number is only a hint: if the caller looks something up by the number, it must
 * check what it has found. The load is relaxed, and hidden from ThreadSanitizer, which
 * would report a race.
 */
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize_thread, noinline, unused)) static uint32_t
#else
static inline uint32_t
#endif
load_hint(const uint32_t *p)
{
	return load_relaxed(p);
}

#endif /* UAIO_BASE_ATOMIC_H */
