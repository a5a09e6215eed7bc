/* SPDX-License-Identifier: MIT */
#include "options/variables.h"

#include <stdio.h>
#include <string.h>

#include "options/names.h"
#include "options/options.h"

enum {
	NAME_MAX_SHOWN = 40,
};

/*
 * Environment variables that the library or the command uses, but that have no option.
 */
static const char *const others[] = {
	"UAIO_CALLS",          UAIO_CHECK_VARIABLE,   "UAIO_COUNTERS",
	UAIO_RUN_PID_VARIABLE, "UAIO_TRACE",          "UAIO_TRAP_CHILD",
	"UAIO_TRAP_PROGRAM",   UAIO_IGNORED_VARIABLE, UAIO_CHECK_HINTS_VARIABLE,
};
enum {
	NR_OTHERS = sizeof(others) / sizeof(others[0]),
	NR_KNOWN = UAIO_NR_OPTIONS + NR_OTHERS,
};

static const char *known(int i)
{
	return i < UAIO_NR_OPTIONS ? uaio_options[i].variable
				   : others[i - UAIO_NR_OPTIONS];
}

static bool is_name(const char *name, const char *text, size_t len)
{
	return strlen(name) == len && !memcmp(name, text, len);
}

static bool is_among(const char *list, const char *name, size_t len)
{
	while (list && *list) {
		size_t item = strcspn(list, " ");

		if (item == len && !memcmp(list, name, len))
			return true;
		list += item + strspn(list + item, " ");
	}
	return false;
}

size_t uaio_variable_unknown(const char *entry, const char *ignored)
{
	size_t len = strcspn(entry, "=");

	if (strncmp(entry, "UAIO_", strlen("UAIO_")) || !entry[len])
		return 0;
	for (int i = 0; i < NR_KNOWN; i++)
		if (is_name(known(i), entry, len))
			return 0;
	return is_among(ignored, entry, len) ? 0 : len;
}

void uaio_variable_complaint(const char *entry, size_t name, char *buf)
{
	char shown[NAME_MAX_SHOWN + 1];
	struct uaio_like like = { .name = shown };

	(void)snprintf(shown, sizeof(shown), "%.*s", (int)name, entry);
	for (char *c = shown; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	for (int i = 0; i < NR_KNOWN; i++)
		uaio_like_compare(&like, known(i));
	(void)snprintf(buf, UAIO_VARIABLE_COMPLAINT_MAX,
		       "uaio: %s: no such variable, it has no effect; %s%s%s",
		       shown,
		       like.best ? "did you mean " : "see uaio run --help",
		       like.best ? like.best : "", like.best ? "?" : "");
}
