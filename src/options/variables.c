/* SPDX-License-Identifier: MIT */
#include "options/variables.h"

#include <stdio.h>
#include <string.h>

#include "options/options.h"

enum {
	NAME_MAX_SHOWN = 40,
	FEW_MISTAKES = 2,
};

/* Those that are no option. */
static const char *const others[] = {
	"UAIO_CALLS",          "UAIO_COUNTERS",   UAIO_RUN_PID_VARIABLE,
	"UAIO_TRACE",          "UAIO_TRAP_CHILD", "UAIO_TRAP_PROGRAM",
	UAIO_IGNORED_VARIABLE,
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

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/*
 * Return: how many characters have to be put in, left out or changed to make
 * one name of the other.
 */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NAME_MAX_SHOWN + 1];
	size_t len = strlen(b);

	for (unsigned j = 0; j <= len; j++)
		row[j] = j;
	for (unsigned i = 0; a[i]; i++) {
		unsigned diagonal = row[0]++;

		for (unsigned j = 0; j < len; j++) {
			unsigned changed = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			row[j + 1] =
				least(changed, least(row[j], row[j + 1]) + 1);
		}
	}
	return row[len];
}

/* Return: the known variable that is most like this one, or NULL. */
static const char *nearest(const char *name)
{
	unsigned best = FEW_MISTAKES + 1;
	const char *found = NULL;

	for (int i = 0; i < NR_KNOWN; i++) {
		unsigned mistakes = distance(name, known(i));

		if (mistakes < best) {
			best = mistakes;
			found = known(i);
		}
	}
	return found;
}

void uaio_variable_complaint(const char *entry, size_t name, char *buf)
{
	char shown[NAME_MAX_SHOWN + 1];
	const char *like;

	(void)snprintf(shown, sizeof(shown), "%.*s", (int)name, entry);
	for (char *c = shown; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	like = nearest(shown);
	(void)snprintf(buf, UAIO_VARIABLE_COMPLAINT_MAX,
		       "uaio: %s: no such variable, it has no effect; %s%s%s",
		       shown, like ? "did you mean " : "see uaio run --help",
		       like ? like : "", like ? "?" : "");
}
