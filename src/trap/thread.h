/* SPDX-License-Identifier: MIT */
/*
 * The program's threads
 *
 * Each thread of the program has a record. The record's address is in register gs,
 * because fs belongs to the program's C library, or to Go. Each record also has a
 * donor: a thread of the library that only sleeps. While the program's thread executes
 * the library, fs has the donor's value, so that the library finds the thread-local
 * variables of its own C library. The program's thread then runs on the donor's stack.
 *
 *   I1  A record belongs to one thread at a time. Another thread reuses the record only
 *       after the kernel has reported that the first thread is gone.
 *   I2  The main thread is its own donor. While it executes the library, fs has the
 *       value that it had before the program started.
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

/*
 * size in bytes of the stack of a donor, on which the program's thread executes the
 * library
 */
enum { UAIO_TRAP_STACK_BYTES = 512 << 10 };

enum uaio_trap_pending {
	UAIO_TRAP_DEFERRED = 1, /* a handler of the program waits to be run */
	UAIO_TRAP_BLOCKED, /* the library has blocked the signals before a call */
};

struct uaio_trap_thread {
	struct uaio_trap_thread *self;
	/*
	 * borrowed: uaio_trap_served, which says which system calls the library serves
	 */
	const uint8_t *served;
	void (*entry)(void);
	/* rsp and fs of the program, while the thread executes the library */
	uint64_t rsp, fs;
	uint64_t stack; /* the library's stack */
	uint64_t donor; /* the donor's fs */
	/* read by the kernel: whether the thread's system calls are trapped */
	uint8_t selector;
	uint8_t is_inside;
	/*
	 * not 0: all signals are blocked, and `mask` is the program's mask (signal.h).
	 * It is enum uaio_trap_pending.
	 */
	uint8_t is_pending;
	/* the thread was on its alternate stack when it entered the library */
	uint8_t is_off_alternate;
	/* where the thread continues when it leaves the library */
	uint64_t target;
	uint64_t mask, first_mask;
	/* number of the system call: all 64 bits of rax */
	uint64_t nr;
	/* a value for `target`: address of code that makes the call unchanged */
	uint64_t pass;
	/* where the program continues after clone() */
	uint64_t ret;
	/* the program's mask at clone(), with which parent and child continue */
	uint64_t child_mask;
	uint64_t dispatch, offset, length; /* arguments of prctl() */
	uint64_t saved[5];
	/* Where the alternate stack was when a handler was last called. */
	uint64_t alternate_low, alternate_bytes;
	/*
	 * if is_off_alternate: the signal mask that the thread had before it entered
	 * the library
	 */
	uint64_t entry_mask;
	/* if is_pending: the signals whose handlers wait to be run */
	uint64_t let_in;

	/*
	 * For signal.c. top: the top of the library's stack. nested_below: the
	 * program's stack pointer at the time of a fault in the library, while the
	 * program's handler for this fault runs (signal.h, I3); otherwise 0.
	 */
	uint64_t top, nested_below;

	/*
	 * The next members belong to thread.c, unless a comment names another file.
	 */
	/* next record in the list of all records; under the lock of thread.c */
	struct uaio_trap_thread *next;
	/*
	 * atomic: TAKEN while a thread owns the record. The ending thread stores its id
	 * here; the record is free once the kernel reports that this thread is gone.
	 * The main thread's record has the thread's id from the start.
	 */
	uint32_t tid;
	/*
	 * atomic: set once the donor (a thread of the library that only sleeps) has
	 * filled in this record
	 */
	uint32_t is_born;
	/*
	 * vforking_pid: id of the process that has just called vfork() with this
	 * record; 0: none. forking_pid: likewise, for fork(). The next system call with
	 * this record may come from the child of this process.
	 */
	int vforking_pid, forking_pid;
	/*
	 * the owner is not a thread of the program, but a process that shares its
	 * memory
	 */
	bool is_process;
	/* the thread has yet to take over its creator's identity */
	bool inherits;
	/* the library may have lent the thread an alternate stack (alternate.c, I3) */
	bool is_lent;
	/*
	 * identity of the thread's creator, and this identity's domain
	 * (proc/identity.h)
	 */
	uint32_t identity, domain;
	/*
	 * for alternate.c, if is_off_alternate: the alternate stack of the program
	 */
	stack_t alternate;

	/* for exec.c: the arguments of a call that is to be repeated */
	long executed[5];
};

static inline struct uaio_trap_thread *uaio_trap_self(void)
{
	struct uaio_trap_thread *self;

	__asm__ volatile("rdgsbase %0" : "=r"(self));
	return self;
}

/*
 * Make the record of the calling thread, the program's first.
 * Return: NULL if memory is refused.
 */
struct uaio_trap_thread *uaio_trap_first_thread(void);

/*
 * Called inside the library for a clone() with these arguments: prepare the child, and
 * set self->target to the code that makes the call.
 * Return: 0; -EINVAL if a new thread gets no stack; -EAGAIN: there is no memory for a
 * record, or the caller is a child of vfork() or another process that shares the
 * program's memory.
 */
long uaio_trap_clone(struct uaio_trap_thread *self, uint64_t flags,
		     uint64_t stack_end);

/*
 * Called at the beginning of each system call that the library serves. If this call is
 * the first one in a child of fork(), adapt the record to the child.
 */
void uaio_trap_look(struct uaio_trap_thread *self);

/* Call fork() of the C library, with its handlers (pthread_atfork()). */
long uaio_trap_fork(struct uaio_trap_thread *self, uint64_t flags,
		    int *parent_tid, int *child_tid);

/*
 * Called when the thread ends with exit code *code.
 * Return: whether it is the program's last thread; if so, *code becomes the exit status
 * of the process.
 */
bool uaio_trap_exit(struct uaio_trap_thread *self, long *code);

/*
 * Return: whether the program has only one thread.
 * Context: fs may have the program's value.
 */
bool uaio_trap_is_alone(void);

/* Return: the id of the process that owns the records. */
int uaio_trap_pid(void);

#endif /* UAIO_TRAP_THREAD_H */
