/* SPDX-License-Identifier: MIT */
/*
 * Calls that a handler of the program's makes on its alternate stack (sigaltstack)
 *
 * The kernel tells by the stack pointer whether a thread is on that stack. While the
 * library is executed the thread is on another, so the next handler with SA_ONSTACK
 * would be given the alternate stack from its top, and overwrite the one that has made
 * the call. So the thread has no alternate stack meanwhile:
 *
 *   I1  While the library is executed for a thread that was on its alternate stack, the
 *       kernel has none for it (record->is_off_alternate), and a signal that comes is
 *       noted on the library's stack (signal.h).
 *   I2  All signals are blocked from before the thread leaves the alternate stack until
 *       the kernel has none, and from before the kernel has it until the thread is on
 *       it again: entry.S, and uaio_trap_deliver.
 *
 * Where that stack is, each handler is told when it is called (entry.S notes it in the
 * record). If it is another by now, what is done here is done in vain, and undone.
 *
 * A thread may have no stack when it makes its last call: a detached thread of musl
 * unmaps its own and calls exit, a thread of Go leaves its own to others. The signal of
 * the trap, if the place of that call is new, needs memory for its frame:
 *
 *   I3  A thread that unmaps the stack it is on, or gives up its alternate stack while
 *       all its signals are blocked, is lent an alternate stack, the far end of the
 *       library's. It is taken back before the thread unblocks a signal, and the
 *       program does not see it.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_ALTERNATE_H
#define UAIO_TRAP_ALTERNATE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "trap/thread.h"

typedef void uaio_trap_handler_fn(int sig, siginfo_t *info, void *context);

struct uaio_trap_call {
	uaio_trap_handler_fn *handler;
	siginfo_t *info;
	void *context;
	uint64_t mask; /* of alternate.c */
	int sig;
};

typedef void uaio_trap_on_stack_fn(struct uaio_trap_thread *self,
				   const struct uaio_trap_call *call);

/* Call function(self, call) with another stack. Context: any fs. */
void uaio_trap_call_on(struct uaio_trap_thread *self,
		       const struct uaio_trap_call *call, uint64_t stack,
		       uaio_trap_on_stack_fn *function)
	__attribute__((visibility("hidden")));

/* In the library: the kernel has no alternate stack from now on; and has it again. */
void uaio_trap_leave_alternate(struct uaio_trap_thread *self);
void uaio_trap_return_alternate(struct uaio_trap_thread *self);

/* The thread has unmapped [addr, addr + bytes). */
void uaio_trap_lend_if_unmapped(struct uaio_trap_thread *self, uint64_t addr,
				uint64_t bytes);

/* The system call sigaltstack. Return: false if the kernel is to answer it. */
bool uaio_trap_sigaltstack(struct uaio_trap_thread *self, const long a[6],
			   long *ret);

/* The thread is about to unblock signals: it has no lent stack from now on. */
void uaio_trap_take_back(struct uaio_trap_thread *self);

/* A handler is about to be called that entry.S does not call. Context: any fs. */
void uaio_trap_note_alternate(struct uaio_trap_thread *self,
			      const void *context);

/*
 * Call a handler at once, from the library, on the alternate stack, below the handler
 * that made the call. Context: any fs; is_off_alternate.
 */
void uaio_trap_call_on_alternate(struct uaio_trap_thread *self,
				 uaio_trap_handler_fn *handler, int sig,
				 siginfo_t *info, void *context);

#endif /* UAIO_TRAP_ALTERNATE_H */
