/* SPDX-License-Identifier: MIT */
/*
 * The program's heap (brk)
 *
 * The process has one heap, and our C library's malloc uses it. Two would each cut
 * what the other has. So the program has one of its own, in memory that is set aside.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_HEAP_H
#define UAIO_TRAP_HEAP_H

#include <stdint.h>

/* Set memory aside. Without any, no heap grows, and malloc does without. */
void uaio_trap_heap_begin(void);

/* In a child of fork(). */
void uaio_trap_heap_forget_lock(void);

/* The system call brk. */
uint64_t uaio_trap_brk(uint64_t end);

#endif /* UAIO_TRAP_HEAP_H */
