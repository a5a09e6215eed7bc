/* SPDX-License-Identifier: MIT */
/*
 * The program's threads
 *
 * Each thread has a record, whose address is in register gs, because fs belongs to the
 * program's C library, or to Go. While the thread executes the library, fs has the
 * value of another thread, the record's donor, which exists only for this purpose and
 * sleeps. So the library finds thread-local variables of its own C library. It runs on
 * the donor's stack.
 *
 *   I1  A record belongs to one thread at a time. Another thread reuses the record only
 *       after the kernel has reported that the first thread is gone.
 *   I2  The main thread is its own donor, with the fs that it had before it became the
 *       program.
 *   I3  A child of vfork() uses its parent's record, because its parent sleeps
 *       meanwhile.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_THREAD_H
#define UAIO_TRAP_THREAD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "trap/state.h"

enum { UAIO_TRAP_STACK_BYTES = 512 << 10 }; /* size of a donor's stack */

struct uaio_trap_thread {
	struct uaio_trap_thread *self;
	const uint8_t *served; /* which system calls the library serves */
	void (*entry)(void);
	/* the program's rsp and fs, while the thread executes the library */
	uint64_t rsp, fs;
	uint64_t stack;   /* the library's stack */
	uint64_t donor;   /* the donor's fs */
	uint8_t selector; /* read by the kernel: whether to trap system calls */
	uint8_t is_inside;
	/* all signals are blocked for a pending handler: signal.h */
	uint8_t is_pending;
	/* the library was entered from the alternate stack */
	uint8_t is_off_alternate;
	uint64_t target; /* where the thread continues after the library */
	uint64_t mask, first_mask;
	uint64_t nr; /* number of the system call, all 64 bits of rax */
	/* address of code that makes the call unchanged, as a value for `target` */
	uint64_t pass;
	uint64_t ret; /* where the program continues after clone */
	uint64_t child_mask;
	uint64_t dispatch, offset, length; /* arguments of prctl() */
	uint64_t saved[5];
	/* The alternate stack at the time of the latest call of a handler. */
	uint64_t alternate_low, alternate_bytes;
	/* the thread's mask before it entered the library, if is_off_alternate */
	uint64_t entry_mask;

	/*
	 * For signal.c: the top of the library's stack; and, while a handler of a fault
	 * in the library runs (I3 of signal.h), the program's stack pointer when the
	 * fault happened, else 0.
	 */
	uint64_t top, nested_below;

	/* Members of thread.c, unless said otherwise. */
	/* in the list of all records; under the lock */
	struct uaio_trap_thread *next;
	/* atomic: the thread that owns the record; 0: none; or TAKEN */
	uint32_t tid;
	uint32_t is_born; /* atomic: the donor exists */
	/*
	 * The process that has just called vfork(), or fork(), so that the next call
	 * with this record may come from its child; 0: none.
	 */
	int vforking_pid, forking_pid;
	/* the owner is a process made by clone(), which shares the program's memory */
	bool is_process;
	bool inherits; /* the thread must still take over the identity of its creator */
	bool is_lent; /* the thread may have a lent stack: alternate.c */
	uint32_t identity,
		domain; /* of the thread's creator: proc/identity.h */
	/* for signal.c, if is_off_alternate: the program's alternate stack */
	stack_t alternate;

	long executed[5]; /* for exec.c: arguments of a repeated call */
};

static inline struct uaio_trap_thread *uaio_trap_self(void)
{
	struct uaio_trap_thread *self;

	__asm__ volatile("rdgsbase %0" : "=r"(self));
	return self;
}

/* Make the first record, for the caller. Return: NULL if memory is refused. */
struct uaio_trap_thread *uaio_trap_first_thread(void);

/*
 * Prepare clone() with these arguments, inside the library. Sets self->target to the
 * code that makes the call.
 * Return: 0 or -errno.
 */
long uaio_trap_clone(struct uaio_trap_thread *self, uint64_t flags,
		     uint64_t stack_end);

/*
 * Called first in each system call, because it may be the first call in a child of
 * fork().
 */
void uaio_trap_look(struct uaio_trap_thread *self);

/* Call the C library's fork(), with its handlers. */
long uaio_trap_fork(struct uaio_trap_thread *self, uint64_t flags,
		    int *parent_tid, int *child_tid);

/*
 * The thread ends with *code.
 * Return: whether it is the last thread of the program; then *code becomes the exit
 * status of the process.
 */
bool uaio_trap_exit(struct uaio_trap_thread *self, long *code);

/* Return: whether the program has a single thread. Context: any value of fs. */
bool uaio_trap_is_alone(void);

/* Return: the pid of the process that owns the records. */
int uaio_trap_pid(void);

#endif /* UAIO_TRAP_THREAD_H */
