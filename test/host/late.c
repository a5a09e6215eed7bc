/* SPDX-License-Identifier: MIT */
/*
 * late: a library whose destructor runs after those of all preloaded libraries, for a
 * program that then still submits I/O
 */
#include "late.h"

#include <stddef.h>

void (*late_hook)(void);

__attribute__((destructor)) static void run_late(void)
{
	if (late_hook)
		late_hook();
}
