/* SPDX-License-Identifier: MIT */
/*
 * Locks in memory shared by processes, each of which may be killed while it holds one
 *
 * A lock is a word: its holder's thread id, or 0. When the holder ends, the kernel looks
 * at the word and frees it (robust futexes). A thread has one registered list of such
 * words, usually its C library's. The list has a slot, list_op_pending, for a word that
 * the thread is about to lock or unlock. The library uses only this slot, for as long as it holds the
 * lock. So it relies on nothing in the shared memory, which a client may be able to
 * write.
 *
 *   I1  The slot is set before the word, and cleared after it. So a holder that ends at
 *       any instruction leaves a free word.
 *   I2  The slot belongs to the C library. If it is in use, the C library was
 *       interrupted, and the library does not set it. If a signal handler takes a lock of
 *       the C library, that replaces the library's entry. In these cases, and where the
 *       kernel does not report the list, a holder that ends leaves the word locked.
 *   I3  A thread that sees the same holder for PATIENCE_NS takes the lock. So a corrupted
 *       word blocks no thread for ever; but a holder that was only slow then posts at the
 *       same time.
 *
 * Tested by test-uring-share.c and test-uring-death.c.
 */
#ifndef UAIO_PROC_ROBUST_H
#define UAIO_PROC_ROBUST_H

#include <stdint.h>

/* Context: the thread holds no other such lock, and does not sleep for long meanwhile. */
void uaio_robust_lock(uint32_t *word);
void uaio_robust_unlock(uint32_t *word);

#endif /* UAIO_PROC_ROBUST_H */
