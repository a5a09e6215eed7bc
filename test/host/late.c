/* SPDX-License-Identifier: MIT */
/*
 * late: a shared library whose destructor runs after the destructors of all preloaded
 * libraries. It lets a program submit I/O at that time.
 */
#include "late.h"

#include <stddef.h>

void (*late_hook)(void);

__attribute__((destructor)) static void run_late(void)
{
	if (late_hook)
		late_hook();
}
