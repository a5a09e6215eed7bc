/* SPDX-License-Identifier: MIT */
/* Tested by test/run/status.py. */
#include "tool/tool.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

int uaio_diag(int status, const char *format, ...)
{
	char line[3 * PATH_MAX]; /* room for two paths and some words */
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);

	for (char *c = line; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
	fprintf(stderr, "uaio: %s\n", line);
	return status;
}
