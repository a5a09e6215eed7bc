/* SPDX-License-Identifier: MIT */
/*
 * Functions by which the program sets signal handlers, and pthread_setcanceltype()
 *
 * If a signal interrupts the library, the program's handler runs only when the thread
 * leaves the library (proc/handlers.h). For its own handlers the library calls the next
 * definitions of these functions, which defer nothing.
 *
 * Tested by test/host/jumps.c.
 */
#include "host/host.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/symver.h"
#include "proc/entry.h"
#include "proc/handlers.h"

/*
 * Declared here: <signal.h> declares some of these functions only for certain
 * standards.
 */
UAIO_EXPORT int sigaction(int sig, const struct sigaction *action,
			  struct sigaction *ret_old);
UAIO_EXPORT int __sigaction(int sig, const struct sigaction *action,
			    struct sigaction *ret_old);
UAIO_EXPORT uaio_signal_handler_fn *signal(int sig,
					   uaio_signal_handler_fn *handler);
UAIO_EXPORT uaio_signal_handler_fn *bsd_signal(int sig,
					       uaio_signal_handler_fn *handler);
UAIO_EXPORT uaio_signal_handler_fn *ssignal(int sig,
					    uaio_signal_handler_fn *handler);
UAIO_EXPORT uaio_signal_handler_fn *
sysv_signal(int sig, uaio_signal_handler_fn *handler);
UAIO_EXPORT uaio_signal_handler_fn *
__sysv_signal(int sig, uaio_signal_handler_fn *handler);
UAIO_EXPORT uaio_signal_handler_fn *sigset(int sig,
					   uaio_signal_handler_fn *handler);
UAIO_EXPORT int pthread_setcanceltype(int type, int *ret_old);

/* Next definitions of these functions (RTLD_NEXT); NULL until the library is loaded. */
static struct {
	uaio_sigaction_fn *sigaction;
	uaio_signal_fn *signal;
	uaio_signal_fn *sigset;
	int (*pthread_setcanceltype)(int, int *);
} next;

void uaio_host_load_sigaction(void)
{
	uaio_host_find("sigaction", &next.sigaction);
	uaio_host_find("signal", &next.signal);
	uaio_host_find("sigset", &next.sigset);
	uaio_host_find("pthread_setcanceltype", &next.pthread_setcanceltype);
	uaio_set_cancel_type = next.pthread_setcanceltype;
}

/*
 * ThreadSanitizer interposes these functions, to defer handlers itself. So with
 * ThreadSanitizer, they are not defined here.
 */
#ifndef __SANITIZE_THREAD__

int sigaction(int sig, const struct sigaction *action,
	      struct sigaction *ret_old)
{
	return uaio_handlers_sigaction(UAIO_HOST_NEXT(sigaction), sig, action,
				       ret_old);
}

int __sigaction(int sig, const struct sigaction *action,
		struct sigaction *ret_old)
{
	return sigaction(sig, action, ret_old);
}

uaio_signal_handler_fn *signal(int sig, uaio_signal_handler_fn *handler)
{
	return uaio_handlers_signal(UAIO_HOST_NEXT(signal), sig, handler);
}

uaio_signal_handler_fn *bsd_signal(int sig, uaio_signal_handler_fn *handler)
{
	return signal(sig, handler);
}

uaio_signal_handler_fn *ssignal(int sig, uaio_signal_handler_fn *handler)
{
	return signal(sig, handler);
}

/*
 * A handler set by sysv_signal() runs once; then the signal's action is reset
 * (SA_RESETHAND). So call the library's sigaction(), which resets the action when the
 * program's handler runs. If the kernel reset the action, it would do so too early:
 * when it calls the library's own handler, which may have to defer the program's
 * handler.
 */
uaio_signal_handler_fn *sysv_signal(int sig, uaio_signal_handler_fn *handler)
{
	struct sigaction action = { .sa_handler = handler }, old;

	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	action.sa_flags = (int)SA_RESETHAND | SA_NODEFER;
	return sigaction(sig, &action, &old) < 0 ? SIG_ERR : old.sa_handler;
}

uaio_signal_handler_fn *__sysv_signal(int sig, uaio_signal_handler_fn *handler)
{
	return sysv_signal(sig, handler);
}

uaio_signal_handler_fn *sigset(int sig, uaio_signal_handler_fn *handler)
{
	return uaio_handlers_signal(UAIO_HOST_NEXT(sigset), sig, handler);
}

int pthread_setcanceltype(int type, int *ret_old)
{
	int ret = UAIO_HOST_NEXT(pthread_setcanceltype)(type, ret_old);

	/*
	 * Record the cancellation type: the library restores it when this thread leaves
	 * the library. (The thread may be inside the library now, if a signal handler
	 * that the library has not deferred calls this function.)
	 */
	if (ret == 0)
		uaio_entry.is_async = type == PTHREAD_CANCEL_ASYNCHRONOUS;
	return ret;
}

#endif
