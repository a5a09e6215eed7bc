/* SPDX-License-Identifier: MIT */
/* Tested by test/run/status.py. */
#include "tool/tool.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

/* Buffer that receives the messages instead of stderr; or NULL. */
static char *into;
static size_t into_len;

void uaio_diag_into(char *buf, size_t len)
{
	into = buf;
	into_len = len;
}

int uaio_diag(int status, const char *format, ...)
{
	char line[3 * PATH_MAX]; /* enough for two paths and some words */
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);

	for (char *c = line; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
	if (into)
		snprintf(into, into_len, "%s", line);
	else
		fprintf(stderr, "uaio: %s\n", line);
	return status;
}
