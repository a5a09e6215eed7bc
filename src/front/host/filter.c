/* SPDX-License-Identifier: MIT */
/*
 * Filters of system calls that the host installs: what they would end the
 * process for, or refuse, the engine is not to call any more. It is told before
 * the filter is there, and goes on without those calls if it is refused.
 */
#include "front/host/host.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/calls.h"
#include "base/symver.h"
#include "base/sys.h"
#include "engine/engine.h"

static int (*next_prctl)(int, ...);

void uaio_host_load_filter(void)
{
	uaio_host_find("prctl", &next_prctl);
}

/* A child of vfork() has our memory, but its filter is its own. */
static void tell(bool has_program, const void *program)
{
	if (!uaio_engine_is_owner())
		return;
	/* What probes for this or that facility gives none. */
	if (!has_program || program)
		uaio_calls_filter(program);
}

static void look_at_prctl(long option, long mode, long program)
{
	if (option == PR_SET_SECCOMP)
		tell(mode == SECCOMP_MODE_FILTER, (const void *)program);
}

/* The strict mode takes neither flags nor a program: who gives some probes. */
static void look_at_seccomp(const long a[6])
{
	if (a[0] == SECCOMP_SET_MODE_FILTER)
		tell(true, (const void *)a[2]);
	else if (a[0] == SECCOMP_SET_MODE_STRICT && !a[1] && !a[2])
		tell(false, NULL);
}

long uaio_host_raw_filter(long nr, const long a[6])
{
	if (nr == SYS_prctl)
		look_at_prctl(a[0], a[1], a[2]);
	else
		look_at_seccomp(a);
	return uaio_sys6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

UAIO_EXPORT int prctl(int option, ...);

/* All arguments are of the width of a pointer, whatever they are. */
int prctl(int option, ...)
{
	unsigned long a[4];
	va_list args;

	va_start(args, option);
	for (unsigned i = 0; i < 4; i++)
		a[i] = va_arg(args, unsigned long);
	va_end(args);
	look_at_prctl(option, (long)a[0], (long)a[1]);
	if (!next_prctl)
		return (int)uaio_host_error(
			uaio_sys6(SYS_prctl, option, (long)a[0], (long)a[1],
				  (long)a[2], (long)a[3], 0));
	return next_prctl(option, a[0], a[1], a[2], a[3]);
}
