/* SPDX-License-Identifier: MIT */
/*
 * Signal handlers of the program that wait until the library has been left
 *
 * A system call is atomic to signals: a handler runs before it, after it, or ends
 * its sleep. A call of the library has to be the same, since a handler may leave
 * by siglongjmp(), setcontext(), an exception or pthread_exit(), and may itself
 * call the library.
 *
 *   I1  While the library is up, the kernel calls a handler of ours in place of the
 *       program's. If the thread is not inside the library, our handler calls the
 *       program's at once.
 *   I2  If the thread is inside, the handler is deferred: our handler queues the
 *       signal to the thread again, blocks all signals, and returns. The thread
 *       restores its signal mask when it has left the library and holds nothing.
 *       Then the kernel delivers the signal with its siginfo_t, on the stack and
 *       with the mask that the program's sigaction() asked for.
 *   I3  A wait (uaio_step_out_to()) ends for a deferred handler with EINTR, also
 *       if the signal comes just before the thread sleeps (base/sleepcall.S).
 *   I4  Signals of faults (SIGSEGV and its like) and SIGABRT are the program's
 *       own at all times, and are not blocked.
 *   I5  sigaction() and signal() show the program what it has set.
 *
 * Not deferred are handlers that the program installs by its own rt_sigaction
 * system call, and all handlers where the sandbox refuses rt_tgsigqueueinfo or the
 * processor is no x86-64. A program under the trap has trap/signal.h instead.
 *
 * Context: async-signal-safe, as sigaction() is.
 *
 * Tested by test/host/jumps.c.
 */
#ifndef UAIO_PROC_HANDLERS_H
#define UAIO_PROC_HANDLERS_H

#include <signal.h>
#include <stdint.h>

typedef int uaio_sigaction_fn(int sig, const struct sigaction *action,
			      struct sigaction *ret_old);
typedef void uaio_signal_handler_fn(int sig);
typedef uaio_signal_handler_fn *uaio_signal_fn(int sig,
					       uaio_signal_handler_fn *handler);

/* The library comes up: the handlers that there are can be deferred from now on. */
void uaio_handlers_start(void);

/* In a child of fork(): another thread of the parent may have held the lock. */
void uaio_handlers_forget(void);

/* Return: all signals but those of I4, as the kernel's set. */
uint64_t uaio_handlers_deferrable(void);

/* Run the deferred handlers. The thread has left the library. */
void uaio_handlers_run(void);

/* sigaction(), of which set is the C library's. */
int uaio_handlers_sigaction(uaio_sigaction_fn *set, int sig,
			    const struct sigaction *action,
			    struct sigaction *ret_old);

/* The same for signal() and its like. */
uaio_signal_handler_fn *uaio_handlers_signal(uaio_signal_fn *set, int sig,
					     uaio_signal_handler_fn *handler);

#endif /* UAIO_PROC_HANDLERS_H */
