/* SPDX-License-Identifier: MIT */
#include "proc/entry.h"

#include "proc/handlers.h"

_Thread_local struct uaio_entry uaio_entry
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

int (*uaio_set_cancel_type)(int type, int *ret_old) = pthread_setcanceltype;

void uaio_enter_unusually(void)
{
	if (uaio_entry.is_async)
		(void)uaio_set_cancel_type(PTHREAD_CANCEL_DEFERRED, NULL);
	/* A handler that was not deferred may run in a wait, or have left one. */
	uaio_entry.depth = 1;
	uaio_entry_barrier();
	uaio_entry.is_asleep = 0;
	uaio_entry.must_wake = 0;
}

void uaio_leave_unusually(void)
{
	/* First, since a handler may not return; it then has the client's type. */
	if (uaio_entry.is_async)
		(void)uaio_set_cancel_type(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	if (uaio_entry.has_deferred)
		uaio_handlers_run();
}
