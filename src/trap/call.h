/* SPDX-License-Identifier: MIT */
/*
 * System calls of the program that the library answers, including brk
 *
 * Calls that concern the library go to the operations of trap.h, as syscall(2) does in
 * a program of the library's C library. The others concern the trap itself: signals,
 * threads, the registers gs and fs, and the path of the program.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_CALL_H
#define UAIO_TRAP_CALL_H

#include <stdint.h>

#include "trap/trap.h"

/* exe: the path of the program; NULL if unknown. Neither argument may move. */
void uaio_trap_calls_begin(const struct uaio_trap_ops *ops, const char *exe);

/* heap.c: the program's heap (brk) */

/* Reserve memory for the heap. Without it brk() fails, and malloc() uses mmap(). */
void uaio_trap_heap_begin(void);

/* In a child of fork(). */
void uaio_trap_heap_forget_lock(void);

/* The system call brk. */
uint64_t uaio_trap_brk(uint64_t end);

#endif /* UAIO_TRAP_CALL_H */
