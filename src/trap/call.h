/* SPDX-License-Identifier: MIT */
/*
 * System calls of the program that the library answers, among them brk
 *
 * System calls that concern AIO go to struct uaio_trap_ops (trap.h), which serves them
 * like a syscall(2) of a program that has preloaded the library. Other system calls
 * that the library answers concern the trap itself: signals, threads, the registers gs
 * and fs, and the program's path.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_CALL_H
#define UAIO_TRAP_CALL_H

#include <stdint.h>

#include "trap/trap.h"

/*
 * Called before the program starts: prepare to answer its system calls. exe: the path
 * of the program; NULL if unknown. The caller may not move or free *ops or *exe later.
 */
void uaio_trap_calls_begin(const struct uaio_trap_ops *ops, const char *exe);

/* heap.c: the heap (brk) of the program */

/*
 * Reserve memory for the program's heap. If there is no memory, brk() fails and the
 * program's malloc() uses mmap().
 */
void uaio_trap_heap_begin(void);

/*
 * Called in a child of fork(): free the heap's lock, which another thread may have
 * held.
 */
void uaio_trap_heap_forget_lock(void);

/* The system call brk of the program: set the end of its heap. */
uint64_t uaio_trap_brk(uint64_t end);

#endif /* UAIO_TRAP_CALL_H */
