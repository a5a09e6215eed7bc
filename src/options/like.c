/* SPDX-License-Identifier: MIT */
/*
 * Finds the known name that is most similar to a mistyped one. Tested by
 * test-options.c.
 */
#include "options/names.h"

#include <stddef.h>
#include <string.h>

enum {
	/* length of the longest known name */
	KNOWN_MAX = 40,
	FEW_MISTAKES = 2,
};

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/*
 * Return: how many characters must be inserted, removed or changed to turn a into b. b
 * is at most KNOWN_MAX characters long.
 */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[KNOWN_MAX + 1];
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

void uaio_like_compare(struct uaio_like *like, const char *known)
{
	size_t len = strlen(like->name), known_len = strlen(known);
	unsigned mistakes;

	/*
	 * A name that is longer than all known names by more than FEW_MISTAKES cannot
	 * be similar.
	 */
	if (len > KNOWN_MAX + FEW_MISTAKES || known_len > KNOWN_MAX)
		return;
	mistakes = distance(like->name, known);
	if (mistakes > FEW_MISTAKES || 2 * mistakes > len ||
	    (like->best && mistakes >= like->mistakes))
		return;
	like->best = known;
	like->mistakes = mistakes;
}
