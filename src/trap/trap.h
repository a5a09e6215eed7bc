/* SPDX-License-Identifier: MIT */
/*
 * The system-call trap, for programs into which no library can be loaded: static
 * programs, programs of another C library, and programs whose own instructions make
 * system calls
 *
 * `uaio`, with the library loaded, becomes the program: it maps the program and the
 * program's loader as the kernel would (image.h), and jumps to the entry point. So a
 * dynamic glibc program gets a C library of its own beside the library's. From then on
 * each system call of the program raises SIGSYS (syscall user dispatch). The handler
 * continues the thread at the slot of the instruction (site.h). A slot either makes the
 * call unchanged or calls the library (call.c), which runs on another stack, with the
 * thread-local variables of a donor thread (thread.h). Where this is safe, the library
 * replaces the instruction by a jump, so that the instruction raises the signal only
 * once.
 *
 *   I1  While a program thread executes the library, it executes no signal handler of
 *       the program (signal.h).
 *   I2  System calls of a program thread are trapped from its first instruction to its
 *       last, also in a child of fork() and vfork(). A program that it executes gets
 *       the trap, too, if possible (exec.h).
 *   I3  A call that does not concern the library is made by the program's thread with
 *       the program's registers. So it blocks, is interrupted and restarts as usual.
 *
 * x86-64 only, Linux 5.11.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_TRAP_H
#define UAIO_TRAP_TRAP_H

#include <stdbool.h>

struct uaio_trap_ops {
	/* Serve a system call by the library. Return: the result, or -errno. */
	long (*call)(long nr, const long args[6]);
	/* Return: whether polling calls concern the library now. */
	bool (*polls)(void);
	/* Called before the process ends. */
	void (*exiting)(void);
};

struct uaio_trap_start {
	const char *path; /* path of the program */
	char **argv;
	char **envp;
	const struct uaio_trap_ops *ops; /* must not be moved or freed */
};

/*
 * Become the program. The caller is the process's only thread. Returns only on failure:
 * the cause, to be shown with the path.
 */
const char *uaio_trap_become(const struct uaio_trap_start *start);

#endif /* UAIO_TRAP_TRAP_H */
