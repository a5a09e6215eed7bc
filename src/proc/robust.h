/* SPDX-License-Identifier: MIT */
/*
 * Locks in memory that processes share. Each process may be killed while it holds a
 * lock
 *
 * A lock is a word: its holder's thread id, or 0. When a thread ends, the kernel goes
 * through the thread's registered list of words, and frees those that the thread holds
 * (robust futexes). A thread can register only one list, and usually its C library has
 * registered one. The list has a slot, list_op_pending, for a word that the thread is
 * about to lock or unlock. The library uses only this slot, for as long as it holds the
 * lock. So it needs no list in the shared memory, which a client may be able to write.
 *
 *   I1  The slot is set before the word is locked, and cleared after the word is
 *       unlocked. So if a holder ends, at any instruction, the kernel frees the word.
 *   I2  The slot belongs to the C library. If the slot is in use, a signal handler has
 *       interrupted the C library and called this library, which then does not set the
 *       slot. If a signal handler takes a robust lock of the C library, the C library
 *       overwrites the slot. In these cases, and if the system refuses to report the
 *       list, the word stays locked when its holder ends.
 *   I3  A thread that sees the same holder for PATIENCE_NS takes the lock. So a
 *       corrupted word blocks no thread for ever; but if the holder was only slow, both
 *       threads then write to the shared memory at the same time.
 *
 * Tested by test-uring-share.c and test-uring-death.c.
 */
#ifndef UAIO_PROC_ROBUST_H
#define UAIO_PROC_ROBUST_H

#include <stdint.h>

/*
 * Lock and unlock the word. Context: the thread holds no other robust lock, and does
 * not sleep for long while it holds this one.
 */
void uaio_robust_lock(uint32_t *word);
void uaio_robust_unlock(uint32_t *word);

#endif /* UAIO_PROC_ROBUST_H */
