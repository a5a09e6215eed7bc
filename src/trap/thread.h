/* SPDX-License-Identifier: MIT */
/*
 * The program's threads
 *
 * Each has a record, to which its register gs points: the C library of the program,
 * and Go, use fs. While the library is executed on the thread, fs is that of another
 * thread, the record's donor, which exists for that and sleeps. So the thread has
 * thread-local variables of our C library. The donor's stack is the one on which the
 * library is executed.
 *
 *   I1  A record belongs to one thread at a time, and to another one only when the
 *       kernel says that the first one is gone.
 *   I2  The main thread's donor is itself: what it was before it became the program.
 *   I3  A child of vfork() has its parent's record: its parent sleeps until it is gone.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_THREAD_H
#define UAIO_TRAP_THREAD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "trap/state.h"

enum { UAIO_TRAP_STACK_BYTES = 512 << 10 }; /* of a donor */

struct uaio_trap_thread {
	struct uaio_trap_thread *self;
	const uint8_t *served; /* which numbers come to the library */
	void (*entry)(void);
	uint64_t rsp, fs; /* the program's, while the library is executed */
	uint64_t stack;   /* the library's */
	uint64_t donor;   /* its fs */
	uint8_t selector; /* the kernel reads it */
	uint8_t is_inside;
	uint8_t is_pending;       /* all signals are blocked: see signal.h */
	uint8_t is_off_alternate; /* the library was entered from that stack */
	uint64_t target;          /* where it goes from the library */
	uint64_t mask, first_mask;
	uint64_t nr;   /* of the call, all of rax */
	uint64_t pass; /* the target that makes the call as it is */
	uint64_t ret;  /* where the program goes on behind clone */
	uint64_t child_mask;
	uint64_t dispatch, offset, length; /* arguments of prctl */
	uint64_t saved[5];
	/* The alternate stack, when a handler was called last. */
	uint64_t alternate_low, alternate_bytes;
	uint64_t entry_mask; /* if is_off_alternate: the thread's before */

	/*
	 * of signal.c: where the library's stack begins if no handler is called from it;
	 * and if one is, where the program's stack was then; else 0
	 */
	uint64_t top, nested_below;

	/* of thread.c */
	struct uaio_trap_thread *next; /* of all records, under the lock */
	uint32_t tid;     /* atomic: whose it is; 0: nobody's; or TAKEN */
	uint32_t is_born; /* atomic: the donor is there */
	/* Whose child its next call may be of, by vfork() or another way; 0: nobody's. */
	int vforking_pid, forking_pid;
	bool is_process; /* with the program's memory, by clone */
	bool inherits;   /* it has yet to take over its creator's identity */
	bool is_lent;    /* it may have a stack that it was lent: alternate.c */
	uint32_t identity, domain; /* its creator's: identity.h */
	stack_t alternate; /* of signal.c, if is_off_alternate: the program's */

	long executed
		[5]; /* of exec.c: arguments of a call that is made again */
};

static inline struct uaio_trap_thread *uaio_trap_self(void)
{
	struct uaio_trap_thread *self;

	__asm__ volatile("rdgsbase %0" : "=r"(self));
	return self;
}

/*
 * The first record, of the caller. Return: NULL if there is no memory.
 */
struct uaio_trap_thread *uaio_trap_first_thread(void);

/*
 * Arguments of clone, in the library: arrange for it. *ret_target: where the thread
 * goes to make the call.
 * Return: 0 or -errno.
 */
long uaio_trap_clone(struct uaio_trap_thread *self, uint64_t flags,
		     uint64_t stack_end);

/* What each call does first: it may be the first one in a child of fork(). */
void uaio_trap_look(struct uaio_trap_thread *self);

/* fork(), with what the C library does about it. */
long uaio_trap_fork(struct uaio_trap_thread *self, uint64_t flags,
		    int *parent_tid, int *child_tid);

/*
 * This thread ends with *code. Return: whether it is the program's last; then *code is
 * what the process ends with.
 */
bool uaio_trap_exit(struct uaio_trap_thread *self, long *code);

/* Return: whether the program has no other thread. Context: any fs. */
bool uaio_trap_is_alone(void);

/* Return: the process that the records are about. */
int uaio_trap_pid(void);

#endif /* UAIO_TRAP_THREAD_H */
