/* SPDX-License-Identifier: MIT */
/*
 * Calls of the program's that come to the library, brk among them
 *
 * What the library has to know of is answered by the operations (trap.h), as
 * syscall(2) is in a program of our C library. The rest is what the trap itself has
 * to know of: signals, threads, the registers gs and fs, and the path of the program.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_CALL_H
#define UAIO_TRAP_CALL_H

#include <stdint.h>

#include "trap/trap.h"

/* exe: the path of the program; NULL if it is not known. Both stay where they are. */
void uaio_trap_calls_begin(const struct uaio_trap_ops *ops, const char *exe);

/* heap.c: the program's heap (brk) */

/* Set memory aside. Without any, no heap grows, and malloc does without. */
void uaio_trap_heap_begin(void);

/* In a child of fork(). */
void uaio_trap_heap_forget_lock(void);

/* The system call brk. */
uint64_t uaio_trap_brk(uint64_t end);

#endif /* UAIO_TRAP_CALL_H */
