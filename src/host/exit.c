/* SPDX-License-Identifier: MIT */
/*
 * _exit and _Exit, which end the process without running destructors
 *
 * Tested by test/host/leaving.c.
 */
#include "host/host.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/symver.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/table.h"
#include "life/life.h"

void uaio_host_exiting(void)
{
	(void)uaio_table_is_other();
	/*
	 * In a signal handler that interrupted the library: let the process end at
	 * once, without waiting for requests.
	 */
	if (!uaio_enter())
		return;
	uaio_engine_exiting();
	uaio_leave();
}

UAIO_EXPORT void _exit(int status) __attribute__((noreturn));
UAIO_EXPORT void _Exit(int status) __attribute__((noreturn));

void _exit(int status)
{
	uaio_host_exiting();
	for (;;)
		(void)uaio_sys6(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

void _Exit(int status)
{
	_exit(status);
}
