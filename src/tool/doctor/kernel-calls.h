/* SPDX-License-Identifier: MIT */
/*
 * What the kernel answers to the system calls of kernel AIO and io_uring
 *
 * A child (children.h) makes each call with arguments that have no effect. It then makes
 * a context and a ring, because the kernel checks some limits only then, and destroys
 * them.
 *
 * Tested by test/run/doctor.py.
 */
#ifndef UAIO_TOOL_DOCTOR_KERNEL_CALLS_H
#define UAIO_TOOL_DOCTOR_KERNEL_CALLS_H

enum uaio_answer_id {
	UAIO_ANSWER_IO_SETUP,
	UAIO_ANSWER_IO_DESTROY,
	UAIO_ANSWER_IO_SUBMIT,
	UAIO_ANSWER_IO_CANCEL,
	UAIO_ANSWER_IO_GETEVENTS,
	UAIO_ANSWER_IO_PGETEVENTS,
	UAIO_ANSWER_URING_SETUP,
	UAIO_ANSWER_URING_ENTER,
	UAIO_ANSWER_URING_REGISTER,
	UAIO_NR_ANSWERS,
};

/* The error of a call that was not tried. */
enum { UAIO_UNTRIED = -1 };

struct uaio_answers {
	/* An errno; 0: the call succeeded; or UAIO_UNTRIED. */
	int errors[UAIO_NR_ANSWERS];
	int signals
		[UAIO_NR_ANSWERS]; /* the signal that killed the child, or 0 */
	/* An errno of making a context for one event, and a ring for one request. */
	int aio_error, uring_error;
};

/* The call's name. */
const char *uaio_answer_name(enum uaio_answer_id id);

/* The first version of Linux with the call, as 100 * major + minor. */
int uaio_answer_since(enum uaio_answer_id id);

/* Return: 0, or -errno if no child can be forked. */
int uaio_answers_read(struct uaio_answers *ret_answers);

#endif /* UAIO_TOOL_DOCTOR_KERNEL_CALLS_H */
