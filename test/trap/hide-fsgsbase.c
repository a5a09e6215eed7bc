/* SPDX-License-Identifier: MIT */
/*
 * A preloaded library that hides HWCAP2_FSGSBASE. The program then runs as on a machine
 * without the instructions rdgsbase and wrgsbase.
 */
#include <dlfcn.h>
#include <sys/auxv.h>

enum { HAS_FSGSBASE = 1 << 1 }; /* a bit of getauxval(AT_HWCAP2) */

unsigned long getauxval(unsigned long type)
{
	static unsigned long (*next)(unsigned long type);

	if (!next)
		next = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT,
							       "getauxval");
	return type == AT_HWCAP2 ? next(type) & ~(unsigned long)HAS_FSGSBASE
				 : next(type);
}
