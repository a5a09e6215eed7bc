/* SPDX-License-Identifier: MIT */
/*
 * The known name that is most like a mistyped one
 *
 * Tested by test-options.c and test/run/typed.py.
 */
#ifndef UAIO_OPTIONS_LIKE_H
#define UAIO_OPTIONS_LIKE_H

struct uaio_like {
	const char *name;  /* what was typed */
	const char *best;  /* the known name that is most like it, or NULL */
	unsigned mistakes; /* by which the two differ */
};

/*
 * Compare @like->name with a known name. It becomes the best if it differs by fewer
 * mistakes than the best before, by no more than two, and by no more than half of what
 * was typed. A mistake is a character that was put in, left out or changed.
 */
void uaio_like_compare(struct uaio_like *like, const char *known);

#endif /* UAIO_OPTIONS_LIKE_H */
