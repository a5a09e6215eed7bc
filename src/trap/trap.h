/* SPDX-License-Identifier: MIT */
/*
 * The trap: brings the library to programs that a preloaded library does not reach:
 * static programs, programs of another C library, and programs whose own instructions
 * make system calls
 *
 * The process of the command `uaio`, with the library loaded, becomes the program: it
 * maps the program and the program's loader as the kernel would (image.h), and jumps to
 * the entry point. So the process of a dynamic glibc program has two C libraries: the
 * library's and the program's. From then on each system call of the program raises
 * SIGSYS (syscall user dispatch). The handler of SIGSYS continues the thread at the
 * slot of the instruction (site.h). A slot either makes the call unchanged or calls the
 * library (call.c). The library then runs on another stack, with the thread-local
 * variables of a donor thread (thread.h). Where this is safe, the library patches the
 * instruction into a jump, so that it raises the signal only once.
 *
 *   I1  While a thread of the program executes the library, no signal handler of the
 *       program runs in this thread, except after a fault of the library (signal.h, I3).
 *   I2  System calls of the program's threads are trapped from the first
 *       instruction to the last, also in a child of fork() and vfork(). If the process
 *       executes another program, this program runs under the trap, too, if possible
 *       (exec.h).
 *   I3  If a call does not concern the library, the program's thread makes the call with
 *       the program's registers. So the call blocks, is interrupted and restarts as
 *       usual.
 *
 * Needs an x86-64 processor and Linux 5.11.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_TRAP_H
#define UAIO_TRAP_TRAP_H

#include <stdbool.h>

struct uaio_trap_ops {
	/*
	 * Serve a system call of the program.
	 * Return: its result; a negative error number if it fails.
	 */
	long (*call)(long nr, const long args[6]);
	/*
	 * Return: whether the library must serve this thread's polling call (poll,
	 * select, epoll_wait). False if the process never made a ring, and the thread
	 * has no requests to execute.
	 */
	bool (*polls)(void);
	/* Called just before the process ends. */
	void (*exiting)(void);
};

struct uaio_trap_start {
	/* the path of the program's file */
	const char *path;
	char **argv;
	char **envp;
	/* the caller must not move or free *ops later */
	const struct uaio_trap_ops *ops;
};

/*
 * Let this process become the program. The caller is the only thread of the process.
 * Returns only on failure: the cause, which the caller prints with the path.
 */
const char *uaio_trap_become(const struct uaio_trap_start *start);

#endif /* UAIO_TRAP_TRAP_H */
