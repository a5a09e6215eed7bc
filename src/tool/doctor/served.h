/* SPDX-License-Identifier: MIT */
/*
 * Whether the library serves, here and now
 *
 * For each door of the library, this command is executed once more with the library
 * preloaded, as programs are, and makes a request. A dynamic build of it is executed if
 * the command is static.
 *
 * Tested by test/run/doctor.py and test/run/musl.py.
 */
#ifndef UAIO_TOOL_DOCTOR_SERVED_H
#define UAIO_TOOL_DOCTOR_SERVED_H

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

/* dir: of the library. Return: 0, or -errno if no child can be had. */
int uaio_served_read(const char *dir, struct uaio_served *ret_served);

/* argv[0] of the process that makes a request. */
#define UAIO_SERVED_TRY "uaio doctor: try"

/* In that process. Return: its exit status: 0, or an errno. */
int uaio_served_try_main(char *const *argv);

#endif /* UAIO_TOOL_DOCTOR_SERVED_H */
