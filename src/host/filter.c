/* SPDX-License-Identifier: MIT */
/*
 * prctl(2) and seccomp(2), by which the program installs a seccomp filter
 *
 * The filter may make some of the library's system calls fail, or kill the process for
 * them. So the functions here report the filter to the library before it is installed.
 * From then on the library does without those calls, even if installing the filter
 * fails.
 *
 * Tested by test/sandbox/filters.py.
 */
#include "host/host.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/calls.h"
#include "base/symver.h"
#include "base/sys.h"
#include "proc/process.h"

static int (*next_prctl)(int, ...);
static uint32_t has_filter; /* atomic: for uaio_host_has_filter() */

bool uaio_host_has_filter(void)
{
	/* relaxed: a thread that has the filter also sees the store before it */
	return load_relaxed(&has_filter);
}

void uaio_host_load_filter(void)
{
	uaio_host_find("prctl", &next_prctl);
}

/*
 * Report a filter to the library. In a child of vfork() do nothing: the child's filter
 * does not apply to the parent, whose memory the child uses.
 */
static void tell(bool has_program, const void *program)
{
	if (!uaio_engine_is_owner())
		return;
	/*
	 * A NULL filter installs nothing: the program only tests whether the kernel has
	 * seccomp.
	 */
	if (has_program && !program)
		return;
	/* relaxed: see uaio_host_has_filter() */
	store_relaxed(&has_filter, 1);
	uaio_calls_filter(program);
}

static void look_at_prctl(long option, long mode, long program)
{
	if (option == PR_SET_SECCOMP)
		tell(mode == SECCOMP_MODE_FILTER, (const void *)program);
}

/*
 * Strict mode takes no flags and no filter. If the program passes either, the call
 * fails and changes nothing.
 */
static void look_at_seccomp(const long a[6])
{
	if (a[0] == SECCOMP_SET_MODE_FILTER)
		tell(true, (const void *)a[2]);
	else if (a[0] == SECCOMP_SET_MODE_STRICT && !a[1] && !a[2])
		tell(false, NULL);
}

long uaio_host_raw_filter(long nr, const long a[6])
{
	const int change = uaio_host_change_of(nr, a);

	if (nr == SYS_prctl)
		look_at_prctl(a[0], a[1], a[2]);
	else
		look_at_seccomp(a);
	return uaio_host_raw_changing(nr, a, change);
}

UAIO_EXPORT int prctl(int option, ...);

/* prctl(2) has arguments of various types. Each is read as a long. */
int prctl(int option, ...)
{
	long a[6] = { option };
	va_list args;
	int change;

	va_start(args, option);
	for (unsigned i = 1; i < 5; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	change = uaio_host_change_of(SYS_prctl, a);
	look_at_prctl(option, a[1], a[2]);
	if (!next_prctl || change != UAIO_HOST_NO_CHANGE)
		return (int)uaio_host_error(
			uaio_host_raw_changing(SYS_prctl, a, change));
	return next_prctl(option, a[1], a[2], a[3], a[4]);
}
