/* SPDX-License-Identifier: MIT */
/*
 * Whether the library serves, here and now
 *
 * A child loads the library and makes a request through each of its doors. Where
 * something is missing that the library needs, this shows it.
 *
 * Tested by test/run/doctor.py.
 */
#ifndef UAIO_TOOL_SERVED_H
#define UAIO_TOOL_SERVED_H

enum uaio_served_id {
	UAIO_SERVED_LOADED,
	UAIO_SERVED_AIO,
	UAIO_SERVED_URING,
	UAIO_SERVED_POSIX,
	UAIO_SERVED_TRAP, /* what the trap needs is there */
	UAIO_NR_SERVED,
};

enum { UAIO_SERVED_WHY_MAX = 512 };

struct uaio_served {
	int is_tried; /* all else is unknown if not */
	struct {
		int is_served;
		int error;                     /* an errno, or 0 */
		int signal;                    /* that ended the child, or 0 */
		char why[UAIO_SERVED_WHY_MAX]; /* more; may be empty */
	} doors[UAIO_NR_SERVED];
};

/* path: of the library. Return: 0, or -errno if no child can be had. */
int uaio_served_read(const char *path, struct uaio_served *ret_served);

#endif /* UAIO_TOOL_SERVED_H */
