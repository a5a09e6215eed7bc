/* SPDX-License-Identifier: MIT */
/*
 * Whether the library serves requests on this machine
 *
 * The doctor executes this command once more for each interface, with the library
 * preloaded, and the new process makes a request. If the command is static, the doctor
 * executes its dynamic build.
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
	UAIO_SERVED_TRAP, /* processor and kernel have what the trap needs */
	UAIO_NR_SERVED,
};

enum { UAIO_SERVED_WHY_MAX = 512 };

struct uaio_served {
	int is_tried; /* if 0, the other members mean nothing */
	struct {
		int is_served;
		int error;                     /* an errno, or 0 */
		int signal;                    /* that ended the child, or 0 */
		char why[UAIO_SERVED_WHY_MAX]; /* more about the error, or empty */
	} doors[UAIO_NR_SERVED];
};

/* dir: the library's directory. Return: 0, or -errno if no child can be forked. */
int uaio_served_read(const char *dir, struct uaio_served *ret_served);

/* argv[0] of the process that makes a request. */
#define UAIO_SERVED_TRY "uaio doctor: try"

/* Make a request, in the new process. Return: its exit status: 0, or an errno. */
int uaio_served_try_main(char *const *argv);

#endif /* UAIO_TOOL_DOCTOR_SERVED_H */
