/* SPDX-License-Identifier: MIT */
#include "proc/entry.h"

#include "proc/handlers.h"

_Thread_local struct uaio_entry uaio_entry
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

int (*uaio_set_cancel_type)(int type, int *ret_old) = pthread_setcanceltype;

void uaio_defer_cancellation(void)
{
	(void)uaio_set_cancel_type(PTHREAD_CANCEL_DEFERRED, NULL);
}

void uaio_enter_unusually(void)
{
	const bool is_async = uaio_entry.is_async;

	if (is_async)
		uaio_defer_cancellation();
	/*
	 * Reset the state of a wait. It is still set if this thread runs a handler that
	 * interrupted the wait and was not deferred. It is also still set if an earlier
	 * handler left the wait by siglongjmp().
	 */
	uaio_entry.depth = 1;
	uaio_entry_barrier();
	/*
	 * Defer cancellation again: a handler that ran before depth was set may have
	 * restored the client's cancellation type.
	 */
	if (is_async)
		uaio_defer_cancellation();
	uaio_entry.is_asleep = 0;
	uaio_entry.must_wake = 0;
}

void uaio_leave_unusually(void)
{
	/*
	 * Restore the client's cancellation type first: the deferred handlers that run
	 * next need it, and may not return.
	 */
	if (uaio_entry.is_async)
		(void)uaio_set_cancel_type(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	if (uaio_entry.has_deferred)
		uaio_handlers_run();
}
