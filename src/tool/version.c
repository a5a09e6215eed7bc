/* SPDX-License-Identifier: MIT */
/* Tested by test/run/options.py and test/anywhere/release.py. */
#include <stdio.h>

#include "tool/tool.h"

void uaio_version_print(void)
{
	puts("uaio " UAIO_VERSION "\n"
	     "for " UAIO_BUILT_FOR);
	if (UAIO_REVISION[0])
		puts("of commit " UAIO_REVISION);
}
