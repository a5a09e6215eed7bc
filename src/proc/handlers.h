/* SPDX-License-Identifier: MIT */
/*
 * Deferring the program's signal handlers until the thread has left the library
 *
 * A system call is atomic to signals: a handler runs before the call or after it, or
 * ends the sleep of the call. A call of the library must behave likewise, since a
 * handler may itself call the library, and may leave by siglongjmp(), setcontext(), an
 * exception or pthread_exit().
 *
 *   I1  While the library is started, the kernel calls a handler of the library instead
 *       of the program's. If the thread is not inside the library, this handler calls
 *       the program's handler at once.
 *   I2  If the thread is inside, the program's handler is deferred: the library's handler
 *       blocks all signals, queues the signal to the thread again, and returns. The
 *       thread restores its signal mask when it has left the library and holds no lock.
 *       Then the kernel delivers the signal with its siginfo_t, on the stack and with the
 *       mask that the program's sigaction() specified.
 *   I3  A deferred handler ends a wait (uaio_step_out_to(), uaio_sleep_inside_begin())
 *       with EINTR, even if the signal arrives just before the thread sleeps
 *       (base/sleepcall.S).
 *   I4  Signals of faults (such as SIGSEGV) and SIGABRT are never deferred or blocked.
 *   I5  sigaction() and signal() return the handlers that the program has set, not the
 *       library's.
 *
 * A handler is not deferred if the program installs it by its own rt_sigaction system
 * call. No handler is deferred where a sandbox refuses rt_tgsigqueueinfo, or on
 * processors other than x86-64. If a program runs under the trap (trap/trap.h),
 * trap/signal.h defers its handlers.
 *
 * Context: async-signal-safe, like sigaction().
 *
 * Tested by test/host/jumps.c.
 */
#ifndef UAIO_PROC_HANDLERS_H
#define UAIO_PROC_HANDLERS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

typedef int uaio_sigaction_fn(int sig, const struct sigaction *action,
			      struct sigaction *ret_old);
typedef void uaio_signal_handler_fn(int sig);
typedef uaio_signal_handler_fn *uaio_signal_fn(int sig,
					       uaio_signal_handler_fn *handler);

/*
 * Called when the library starts: from now on defer the handlers that the program has
 * set.
 */
void uaio_handlers_start(void);

/*
 * Called in a child of fork(): free the lock, which a thread of the parent may have
 * held.
 */
void uaio_handlers_forget(void);

/* Return: all signals except those of I4, in the kernel's format. */
uint64_t uaio_handlers_deferrable(void);

/*
 * Return: whether the signal has a handler that may run while a thread is inside the
 * library, because the handler is not deferred.
 */
bool uaio_handlers_may_interrupt(int sig);

/* Run the deferred handlers. Context: the thread has left the library. */
void uaio_handlers_run(void);

/*
 * Do what the program's call of sigaction() asks for. set: the C library's sigaction().
 */
int uaio_handlers_sigaction(uaio_sigaction_fn *set, int sig,
			    const struct sigaction *action,
			    struct sigaction *ret_old);

/*
 * Do what the program's call of signal() or a similar function asks for. set: the C
 * library's function.
 */
uaio_signal_handler_fn *uaio_handlers_signal(uaio_signal_fn *set, int sig,
					     uaio_signal_handler_fn *handler);

#endif /* UAIO_PROC_HANDLERS_H */
