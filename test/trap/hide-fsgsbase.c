/* SPDX-License-Identifier: MIT */
/*
 * To be preloaded: a C library that says of the machine what one without rdgsbase and
 * wrgsbase would say
 */
#include <dlfcn.h>
#include <sys/auxv.h>

enum { HAS_FSGSBASE = 1 << 1 }; /* of AT_HWCAP2 */

unsigned long getauxval(unsigned long type)
{
	static unsigned long (*next)(unsigned long type);

	if (!next)
		next = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT,
							       "getauxval");
	return type == AT_HWCAP2 ? next(type) & ~(unsigned long)HAS_FSGSBASE
				 : next(type);
}
