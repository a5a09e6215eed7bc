/* SPDX-License-Identifier: MIT */
/*
 * Programs that have the trap: static ones and those of another C library, into which no
 * library can be loaded, and any others whose own instructions make system calls
 *
 * The library is loaded into a program of ours, which then becomes the other program: it
 * maps it, and its loader, as the kernel would (image.h), and goes to its beginning. A
 * dynamic program of glibc so has a C library beside the library's. From then on each
 * of the program's system calls raises SIGSYS (syscall user dispatch), and comes to a
 * slot of the place that made it (site.h). A slot makes the call as it is, or calls
 * the library (call.c), with another stack, and as another thread of the C
 * library's: its donor (thread.h). The place is changed where that is safe, so that
 * the signal is raised once.
 *
 *   I1  While the library is executed on a thread of the program's, no handler of
 *       the program's is (signal.h).
 *   I2  A thread of the program's has the trap from its first instruction to its
 *       last; a child of fork() and vfork(), too. A program that it executes is given
 *       it anew, if that can be (exec.h).
 *   I3  A call of which the library need not know is made by the program's thread
 *       with the program's registers: it waits, is interrupted and goes on as ever.
 *
 * x86-64 only, Linux 5.11.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_TRAP_H
#define UAIO_TRAP_TRAP_H

#include <stdbool.h>

struct uaio_trap_ops {
	/* A system call of those that the library answers; as the system call. */
	long (*call)(long nr, const long args[6]);
	/* Return: whether a call that polls concerns the library. */
	bool (*polls)(void);
	/* The process is about to end. */
	void (*exiting)(void);
};

struct uaio_trap_start {
	const char *path; /* of the program */
	char **argv;
	char **envp;
	const struct uaio_trap_ops *ops; /* stays where it is */
};

/*
 * Become the program. The caller is the only thread of the program's.
 * Return: only if that cannot be; the cause, to be shown with the path.
 */
const char *uaio_trap_become(const struct uaio_trap_start *start);

#endif /* UAIO_TRAP_TRAP_H */
