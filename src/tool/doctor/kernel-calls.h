/* SPDX-License-Identifier: MIT */
/*
 * What the system answers to the calls of kernel AIO and of io_uring
 *
 * Each call is made in a form that has no effect, by a child (children.h). Two are
 * then made in earnest, because some limits are looked at only then, and what they
 * made is given back.
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

/* Of a call that has no answer: it was not tried. */
enum { UAIO_UNTRIED = -1 };

struct uaio_answers {
	/* An errno; 0: the kernel took it; UAIO_UNTRIED. */
	int errors[UAIO_NR_ANSWERS];
	int signals[UAIO_NR_ANSWERS]; /* that ended the child; 0: none */
	/* Of a context for one event, and of a ring for one request. */
	int aio_error, uring_error;
};

/* The call's name. */
const char *uaio_answer_name(enum uaio_answer_id id);

/* The Linux that first had it, as 100 * major + minor. */
int uaio_answer_since(enum uaio_answer_id id);

/* Return: 0, or -errno if no child can be had. */
int uaio_answers_read(struct uaio_answers *ret_answers);

#endif /* UAIO_TOOL_DOCTOR_KERNEL_CALLS_H */
