/* SPDX-License-Identifier: MIT */
/*
 * System calls of the program that the library answers, including brk
 *
 * Calls that concern the library go to struct uaio_trap_ops (trap.h), which serves them
 * like a syscall(2) of a program that has the library preloaded. The other calls
 * concern the trap itself: signals, threads, the registers gs and fs, and the path of
 * the program.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_CALL_H
#define UAIO_TRAP_CALL_H

#include <stdint.h>

#include "trap/trap.h"

/*
 * exe: the path of the program; NULL if unknown. Neither argument may be moved or freed
 * later.
 */
void uaio_trap_calls_begin(const struct uaio_trap_ops *ops, const char *exe);

/* heap.c: the program's heap (brk) */

/*
 * Reserve memory for the heap. Without this memory brk() fails, and malloc() uses
 * mmap().
 */
void uaio_trap_heap_begin(void);

/* Called in a child of fork(). */
void uaio_trap_heap_forget_lock(void);

/* The system call brk. */
uint64_t uaio_trap_brk(uint64_t end);

#endif /* UAIO_TRAP_CALL_H */
