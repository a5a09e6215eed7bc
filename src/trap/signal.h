/* SPDX-License-Identifier: MIT */
/*
 * The program's signals, and the stacks of its handlers
 *
 * The kernel calls uaio_trap_signal instead of each handler of the program. If the
 * thread is outside the library, uaio_trap_signal jumps to the program's handler.
 * Inside the library the handler must wait: the library sends the signal to the thread
 * again, blocks all signals, and marks the thread's record as pending. When the thread
 * leaves the library, uaio_trap_deliver (entry.S) restores the thread's mask. So the
 * kernel calls the handler before the program continues, as after a system call. If the
 * thread sleeps in the library, or is about to sleep, the sleep returns -EINTR
 * (base/sleepcall.h).
 *
 *   I1  SIGSYS is never blocked, because the kernel kills a process that makes a
 *       trapped call while SIGSYS is blocked. So the library removes SIGSYS from masks
 *       that the program sets.
 *   I2  While all signals are blocked for a pending handler, record->mask is the
 *       program's mask. first_mask is this mask without the pending signal, because the
 *       signal may have arrived during a wait with its own mask.
 *   I3  A fault inside the library calls the program's handler at once. System calls of
 *       that handler use the library's stack below the part in use (record->stack),
 *       until the handler returns, or the program makes a call from outside the
 *       handler, as seen by its stack pointer.
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
 * Marks a function that may run with the program's fs: it uses no thread-local
 * variables, no stack protector, no sanitizers, and calls no functions of the C
 * library. The attribute needs gcc 11.
 */
#if __has_attribute(no_stack_protector)
#define FOREIGN __attribute__((no_stack_protector, no_sanitize("all")))
#else
#define FOREIGN \
	__attribute__((optimize("no-stack-protector"), no_sanitize("all")))
#endif

static const uint64_t UAIO_TRAP_SIGSYS_BIT = 1ull << 30;

/* Return: whether a mask blocks all signals that the program can block. */
static inline bool uaio_trap_is_all(uint64_t mask)
{
	return !~(mask | UAIO_TRAP_SIGSYS_BIT | 1ull << (SIGKILL - 1) |
		  1ull << (SIGSTOP - 1));
}

/* Install the SIGSYS handler. Return: 0 or -errno. */
long uaio_trap_signals_begin(void);

/*
 * Return: whether the current call was made by the handler of a fault in the library
 * (I3), rather than by the program after the handler left by siglongjmp(). nested_below
 * is not 0.
 */
bool uaio_trap_is_nested(const struct uaio_trap_thread *self);

/* Block all signals until the thread leaves the library. */
void uaio_trap_block(struct uaio_trap_thread *self);

/* The system calls rt_sigaction and rt_sigprocmask. */
long uaio_trap_sigaction(const long a[6]);
long uaio_trap_sigprocmask(struct uaio_trap_thread *self, const long a[6]);

/* Called in a child of fork(). */
void uaio_trap_forget_lock(void);

/*
 * alternate.c: system calls that handlers make on the alternate stack; stacks that are
 * lent to threads
 */

typedef void uaio_trap_handler_fn(int sig, siginfo_t *info, void *context);

struct uaio_trap_call {
	uaio_trap_handler_fn *handler;
	siginfo_t *info;
	void *context;
	uint64_t mask; /* used by alternate.c */
	int sig;
};

typedef void uaio_trap_on_stack_fn(struct uaio_trap_thread *self,
				   const struct uaio_trap_call *call);

/* Call function(self, call) on another stack. Context: any value of fs. */
void uaio_trap_call_on(struct uaio_trap_thread *self,
		       const struct uaio_trap_call *call, uint64_t stack,
		       uaio_trap_on_stack_fn *function)
	__attribute__((visibility("hidden")));

/* Inside the library: take the alternate stack from the kernel, and return it. */
void uaio_trap_leave_alternate(struct uaio_trap_thread *self);
void uaio_trap_return_alternate(struct uaio_trap_thread *self);

/* The thread has unmapped [addr, addr + bytes). */
void uaio_trap_lend_if_unmapped(struct uaio_trap_thread *self, uint64_t addr,
				uint64_t bytes);

/* The system call sigaltstack. Return: false if the kernel is to serve this call. */
bool uaio_trap_sigaltstack(struct uaio_trap_thread *self, const long a[6],
			   long *ret);

/* Take back a lent stack, because the thread is about to unblock signals. */
void uaio_trap_take_back(struct uaio_trap_thread *self);

/*
 * Note the alternate stack for a handler that entry.S does not call. Context: any value
 * of fs.
 */
void uaio_trap_note_alternate(struct uaio_trap_thread *self,
			      const void *context);

/*
 * Call a handler at once, from inside the library, on the alternate stack, below the
 * handler that made the system call. Context: any value of fs; is_off_alternate is set.
 */
void uaio_trap_call_on_alternate(struct uaio_trap_thread *self,
				 uaio_trap_handler_fn *handler, int sig,
				 siginfo_t *info, void *context);

#endif /* UAIO_TRAP_SIGNAL_H */
