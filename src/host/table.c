/* SPDX-License-Identifier: MIT */
/*
 * unshare(2), close_range(2) and clone(2), which give a thread its own descriptor table
 *
 * If only the library's threads share the calling thread's descriptor table, unshare()
 * does not copy the table. This is as in the kernel, where unshare() does not copy a
 * table that no other thread uses.
 *
 * Tested by test/host/tables.c.
 */
#include "host/host.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "base/newer.h"
#include "base/symver.h"
#include "base/sys.h"
#include "proc/table.h"

long uaio_host_raw_unshare(int flags)
{
	const long args[3] = { flags };

	if (!(flags & CLONE_FILES))
		return uaio_sys6(SYS_unshare, flags, 0, 0, 0, 0, 0);
	if (!uaio_table_is_only_mine())
		return uaio_table_part(SYS_unshare, args);
	return uaio_sys6(SYS_unshare, flags & ~CLONE_FILES, 0, 0, 0, 0, 0);
}

/*
 * close_range() is called only for its flag CLOSE_RANGE_UNSHARE, and closes nothing:
 * the range contains only ~0u, which is never an open descriptor.
 */
long uaio_host_part(void)
{
	const long args[3] = { ~0u, ~0u, CLOSE_RANGE_UNSHARE };

	return uaio_table_is_only_mine()
		       ? 0
		       : uaio_table_part(SYS_close_range, args);
}

/*
 * The next definition of clone(), usually the C library's; NULL until it is first
 * needed.
 */
static int (*next_clone)(int (*)(void *), void *, int, void *, ...);

UAIO_EXPORT int clone(int (*act)(void *), void *stack, int flags, void *arg,
		      ...);

/*
 * Return: whether clone() with these flags makes a thread with its own descriptor
 * table.
 */
static bool is_parting(int flags)
{
	return flags & CLONE_THREAD && !(flags & CLONE_FILES);
}

int clone(int (*act)(void *), void *stack, int flags, void *arg, ...)
{
	void *parent_tid, *tls, *child_tid;
	va_list args;

	/*
	 * If the caller has passed fewer arguments, as its flags allow, va_arg() returns
	 * arbitrary values for the missing ones. The next clone() ignores these values.
	 */
	va_start(args, arg);
	parent_tid = va_arg(args, void *);
	tls = va_arg(args, void *);
	child_tid = va_arg(args, void *);
	va_end(args);
	if (!next_clone)
		uaio_host_find("clone", &next_clone);
	if (is_parting(flags) && uaio_table_expect() < 0)
		return (int)uaio_host_error(-ENOMEM);
	return next_clone(act, stack, flags, arg, parent_tid, tls, child_tid);
}
