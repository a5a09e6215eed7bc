/* SPDX-License-Identifier: MIT */
/*
 * The program's signals, and the stacks that its handlers have
 *
 * In place of each handler of the program's the kernel calls uaio_trap_signal. On a
 * thread that is not inside the library this goes to the program's handler at once.
 * On a thread that is, the handler must wait: the signal is sent to the thread once
 * more, all signals are blocked, and the record says that it is pending. When the
 * thread leaves the library, it has its mask again (uaio_trap_deliver), and so the
 * handler is called just before the program goes on, as behind a system call. A
 * sleep of the library's ends, or does not begin (base/sleepcall.h), with -EINTR.
 *
 *   I1  SIGSYS is never blocked: the kernel ends a process that makes a call
 *       meanwhile. So it is taken out of the masks that the program gives.
 *   I2  While all signals are blocked for that, record->mask is the program's mask;
 *       first_mask is it without the signal, which the mask of a wait has let in.
 *   I3  A fault in the library is told at once. Calls of that handler have the library's
 *       stack from below what is in use there (record->stack), until it returns, or a
 *       call comes from elsewhere on the program's stack.
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
 * A function that may run with the program's fs: it has no thread-local variable, no guard
 * of the stack, no sanitizer and no call of the C library. gcc has the first attribute
 * from its version 11 on.
 */
#if __has_attribute(no_stack_protector)
#define FOREIGN __attribute__((no_stack_protector, no_sanitize("all")))
#else
#define FOREIGN \
	__attribute__((optimize("no-stack-protector"), no_sanitize("all")))
#endif

static const uint64_t UAIO_TRAP_SIGSYS_BIT = 1ull << 30;

/* Return: whether a mask has all signals that the program can block. */
static inline bool uaio_trap_is_all(uint64_t mask)
{
	return !~(mask | UAIO_TRAP_SIGSYS_BIT | 1ull << (SIGKILL - 1) |
		  1ull << (SIGSTOP - 1));
}

/* The trap can be raised from now on. Return: 0 or -errno. */
long uaio_trap_signals_begin(void);

/*
 * Return: whether the handler of a fault in the library has made the call that the thread
 * is in; if it was left by siglongjmp(), the program has. nested_below is not 0.
 */
bool uaio_trap_is_nested(const struct uaio_trap_thread *self);

/* Block all signals until the thread leaves the library. */
void uaio_trap_block(struct uaio_trap_thread *self);

/* The system calls rt_sigaction and rt_sigprocmask. */
long uaio_trap_sigaction(const long a[6]);
long uaio_trap_sigprocmask(struct uaio_trap_thread *self, const long a[6]);

/* In a child of fork(). */
void uaio_trap_forget_lock(void);

/* alternate.c: calls that a handler makes on its alternate stack; a stack that is lent */

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

#endif /* UAIO_TRAP_SIGNAL_H */
