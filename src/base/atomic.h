/* SPDX-License-Identifier: MIT */
/*
 * Atomic accesses, the order in their name
 *
 * Once two threads may touch an integer or a pointer, it is accessed through
 * these and nothing else. There is no default order and no volatile: each
 * access says which order the code relies on. The compiler's builtins are used
 * rather than _Atomic types because the completion ring is memory that clients
 * see as plain integers.
 *
 * An access that is not relaxed carries a tag in the comment above it,
 * [MB:name], and names its partner; the tags are listed in
 * doc/memory-model.md and checked by tools/lint.
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

/* On failure the current value is stored to *expected. */
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
 * A relaxed load of memory that may by now have another use, in which others
 * write it by plain stores. The value is only a hint: the caller has to verify
 * what it leads to. The thread sanitizer would call that a race, so the load is
 * hidden from it.
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
