/* SPDX-License-Identifier: MIT */
/*
 * Locks in memory that processes share, each of which may be killed while it holds one
 *
 * A lock is a word: the thread id of its holder, or 0. The kernel looks at the word when
 * the holder ends, and frees it (robust futexes): a thread has one list of such words
 * registered, most often by its C library, and one place for a word that it is about to
 * take or to let go. Only that place is used, for as long as the lock is held. So
 * there is nothing in the shared memory that the library relies on, which may be a
 * client's to write.
 *
 *   I1  The place is set before the word is, and cleared after it. So a holder that ends,
 *       at whatever instruction, leaves a word that is free.
 *   I2  The place is the C library's. If it has a word there, it was interrupted, and
 *       ours is not put there; if a signal handler takes one of the C library's locks,
 *       ours goes. Then, and where the kernel does not tell where the place is, a
 *       holder that ends leaves the word as it is.
 *   I3  Who finds the same holder there for PATIENCE_NS goes on, and has the lock. So a
 *       word that is spoilt keeps nobody for ever; a holder that was only slow then posts
 *       beside it.
 *
 * Tested by test-uring-share.c and test-uring-death.c.
 */
#ifndef UAIO_PROC_ROBUST_H
#define UAIO_PROC_ROBUST_H

#include <stdint.h>

/* The thread holds no other such lock, and does not sleep for long while it has one. */
void uaio_robust_lock(uint32_t *word);
void uaio_robust_unlock(uint32_t *word);

#endif /* UAIO_PROC_ROBUST_H */
