/* SPDX-License-Identifier: MIT */
/*
 * Tries of what may end the process, made by children one after the other
 *
 * Behind a filter of system calls, or in a library that is loaded for the first
 * time, a try may end in a signal. So a child makes it; the next child goes on
 * behind the try that ended the one before.
 *
 * Tested by test/sandbox/filters.py and test/run/doctor.py.
 */
#ifndef UAIO_TOOL_COMMON_CHILDREN_H
#define UAIO_TOOL_COMMON_CHILDREN_H

#include <stddef.h>

struct uaio_tries {
	unsigned nr;
	/* Makes try number i, in a child, and stores what it learns in memory. */
	void (*make)(void *memory, unsigned i);
	/* Try i ended its child by this signal; or NULL. In the parent. */
	void (*died)(void *memory, unsigned i, int signal);
	unsigned seconds; /* until SIGALRM ends a child; 0: it is not ended */
};

/* Return: zeroed memory that is shared with children, or NULL. */
void *uaio_shared_new(size_t bytes);
void uaio_shared_free(void *memory, size_t bytes);

/*
 * Make all tries. memory: from uaio_shared_new().
 * Return: 0, or -errno if no child can be had, or -EIO if one did not try anything.
 */
int uaio_tries_make(const struct uaio_tries *tries, void *memory);

#endif /* UAIO_TOOL_COMMON_CHILDREN_H */
