/* SPDX-License-Identifier: MIT */
/*
 * The program's signals, and the stacks on which its handlers run
 *
 * For each signal that the program handles, the kernel calls uaio_trap_signal. If the
 * thread is outside the library, uaio_trap_signal jumps to the program's handler.
 * Inside the library the handler must wait: the library blocks all signals, sends the
 * signal to the thread again, and marks the thread's record as pending. When the thread
 * leaves the library, uaio_trap_deliver (entry.S) restores the thread's mask. So the
 * kernel calls the handler before the program continues, as after a system call. If the
 * thread sleeps in the library, or is about to sleep, the sleep returns -EINTR
 * (base/sleepcall.h).
 *
 *   I1  SIGSYS is never blocked, because the kernel kills a process that makes a
 *       trapped call while SIGSYS is blocked. So the library removes SIGSYS from masks
 *       that the program sets.
 *   I2  While all signals are blocked for a pending handler, record->mask is the
 *       program's mask. The program's mask may block the pending signals, if they arrived
 *       during a wait that has its own mask. So the kernel delivers these signals under
 *       first_mask, which is the program's mask without them.
 *   I3  If the library causes a fault, the program's handler runs at once. System calls
 *       of that handler use the library's stack below the part in use (record->stack).
 *       The library uses its whole stack again when the handler has returned. It also
 *       does so when the program makes a call from outside the handler, which the stack
 *       pointer shows.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_SIGNAL_H
#define UAIO_TRAP_SIGNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "trap/thread.h"

/*
 * Marks a function that may run while fs has the program's value. Such a function uses
 * no thread-local variables, no stack protector and no sanitizers, and calls no
 * functions of the C library. The attribute needs gcc 11.
 */
#if __has_attribute(no_stack_protector)
#define FOREIGN __attribute__((no_stack_protector, no_sanitize("all")))
#else
#define FOREIGN \
	__attribute__((optimize("no-stack-protector"), no_sanitize("all")))
#endif

static const uint64_t UAIO_TRAP_SIGSYS_BIT = 1ull << 30;

/* Return: whether the mask blocks all signals that the program is able to block. */
static inline bool uaio_trap_is_all(uint64_t mask)
{
	return !~(mask | UAIO_TRAP_SIGSYS_BIT | 1ull << (SIGKILL - 1) |
		  1ull << (SIGSTOP - 1));
}

/*
 * Install the handler for SIGSYS.
 * Return: 0, or the error of rt_sigaction(2).
 */
long uaio_trap_signals_begin(void);

/*
 * Called while nested_below is not 0: a fault in the library has called a handler (I3).
 * Return: whether this handler makes the current system call. False if the handler has
 * ended by siglongjmp(), so that code outside the handler makes the call.
 */
bool uaio_trap_is_nested(const struct uaio_trap_thread *self);

/* Block all signals until this thread leaves the library. */
void uaio_trap_block(struct uaio_trap_thread *self);

/* Serve the program's system calls rt_sigaction and rt_sigprocmask. */
long uaio_trap_sigaction(const long a[6]);
long uaio_trap_sigprocmask(struct uaio_trap_thread *self, const long a[6]);

/*
 * Called in a child of fork(): free the lock of signal.c, which another thread may have
 * held.
 */
void uaio_trap_forget_lock(void);

/*
 * alternate.c: system calls that handlers make on the alternate stack; and alternate
 * stacks that the library lends to threads without a stack
 */

typedef void uaio_trap_handler_fn(int sig, siginfo_t *info, void *context);

struct uaio_trap_call {
	uaio_trap_handler_fn *handler;
	siginfo_t *info;
	void *context;
	uint64_t mask; /* for alternate.c: the handler's mask */
	int sig;
};

typedef void uaio_trap_on_stack_fn(struct uaio_trap_thread *self,
				   const struct uaio_trap_call *call);

/*
 * Switch to another stack and call function(self, call) there.
 * Context: fs may have the program's value.
 */
void uaio_trap_call_on(struct uaio_trap_thread *self,
		       const struct uaio_trap_call *call, uint64_t stack,
		       uaio_trap_on_stack_fn *function)
	__attribute__((visibility("hidden")));

/*
 * Called inside the library. uaio_trap_leave_alternate() disables the alternate stack
 * in the kernel; uaio_trap_return_alternate() enables this stack again, and blocks all
 * signals.
 */
void uaio_trap_leave_alternate(struct uaio_trap_thread *self);
void uaio_trap_return_alternate(struct uaio_trap_thread *self);

/*
 * Called when the thread has unmapped [addr, addr + bytes). If the thread's stack was
 * in this range, lend the thread an alternate stack.
 */
void uaio_trap_lend_if_unmapped(struct uaio_trap_thread *self, uint64_t addr,
				uint64_t bytes);

/*
 * Serve the program's system call sigaltstack.
 * Return: false if the kernel must serve this call.
 */
bool uaio_trap_sigaltstack(struct uaio_trap_thread *self, const long a[6],
			   long *ret);

/*
 * Take back the alternate stack that the library has lent to the thread (alternate.c,
 * I3). Called when the thread is about to unblock signals.
 */
void uaio_trap_take_back(struct uaio_trap_thread *self);

/*
 * Record where the alternate stack is. Called before C code calls a handler; entry.S
 * itself records this when it calls a handler.
 * Context: fs may have the program's value.
 */
void uaio_trap_note_alternate(struct uaio_trap_thread *self,
			      const void *context);

/*
 * Called inside the library, during a system call that a handler made on the alternate
 * stack. Calls another handler at once on that stack, below the frame of the first
 * handler.
 * Context: is_off_alternate is set; fs may have the program's value.
 */
void uaio_trap_call_on_alternate(struct uaio_trap_thread *self,
				 uaio_trap_handler_fn *handler, int sig,
				 siginfo_t *info, void *context);

#endif /* UAIO_TRAP_SIGNAL_H */
