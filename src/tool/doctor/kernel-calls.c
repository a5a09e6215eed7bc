/* SPDX-License-Identifier: MIT */
/*
 * Finds out what the kernel answers to system calls. Tested by test/run/doctor.py.
 */
#include "tool/doctor/machine.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io_uring.h"
#include "base/sys.h"
#include "tool/common/children.h"

enum {
	/*
	 * seconds after which the doctor gives an attempt up: a seccomp filter may
	 * leave the decision to another process, which may never answer
	 */
	PATIENCE_S = 30,
	TRY_AIO = UAIO_NR_ANSWERS,
	TRY_URING,
	NR_TRIES,
};

/*
 * System calls with arguments that have no effect, and the error that the kernel
 * normally returns for these arguments.
 */
static const struct {
	const char *name;
	int since;
	int error;
	long nr;
	long args[6];
} calls[UAIO_NR_ANSWERS] = {
	[UAIO_ANSWER_IO_SETUP] = { "io_setup",
				   205,
				   EFAULT,
				   SYS_io_setup,
				   { 1 } },
	[UAIO_ANSWER_IO_DESTROY] = { "io_destroy",
				     205,
				     EINVAL,
				     SYS_io_destroy,
				     { 0 } },
	[UAIO_ANSWER_IO_SUBMIT] = { "io_submit",
				    205,
				    EINVAL,
				    SYS_io_submit,
				    { 0, 1 } },
	[UAIO_ANSWER_IO_CANCEL] = { "io_cancel",
				    205,
				    EFAULT,
				    SYS_io_cancel,
				    { 0 } },
	[UAIO_ANSWER_IO_GETEVENTS] = { "io_getevents",
				       205,
				       EINVAL,
				       SYS_io_getevents,
				       { 0 } },
	[UAIO_ANSWER_IO_PGETEVENTS] = { "io_pgetevents",
					418,
					EINVAL,
					SYS_io_pgetevents,
					{ 0 } },
	[UAIO_ANSWER_URING_SETUP] = { "io_uring_setup",
				      501,
				      EFAULT,
				      SYS_io_uring_setup,
				      { 1 } },
	[UAIO_ANSWER_URING_ENTER] = { "io_uring_enter",
				      501,
				      EBADF,
				      SYS_io_uring_enter,
				      { -1 } },
	[UAIO_ANSWER_URING_REGISTER] = { "io_uring_register",
					 501,
					 EBADF,
					 SYS_io_uring_register,
					 { -2, IORING_REGISTER_PROBE } },
};

const char *uaio_answer_name(enum uaio_answer_id id)
{
	return calls[id].name;
}

int uaio_answer_since(enum uaio_answer_id id)
{
	return calls[id].since;
}

static int error_of(long ret)
{
	return ret < 0 ? (int)-ret : 0;
}

static void try_aio(struct uaio_answers *answers)
{
	unsigned long context = 0;

	answers->aio_error = error_of(
		uaio_sys6(SYS_io_setup, 1, (long)&context, 0, 0, 0, 0));
	if (!answers->aio_error)
		(void)uaio_sys6(SYS_io_destroy, (long)context, 0, 0, 0, 0, 0);
}

static void try_uring(struct uaio_answers *answers)
{
	struct io_uring_params params;
	long fd;

	memset(&params, 0, sizeof(params));
	fd = uaio_sys6(SYS_io_uring_setup, 1, (long)&params, 0, 0, 0, 0);
	answers->uring_error = error_of(fd);
	if (fd >= 0)
		(void)close((int)fd);
}

static void try_one(void *memory, unsigned i)
{
	struct uaio_answers *answers = memory;
	const long *a;

	if (i == TRY_AIO) {
		try_aio(answers);
	} else if (i == TRY_URING) {
		try_uring(answers);
	} else {
		a = calls[i].args;
		answers->errors[i] = error_of(uaio_sys6(
			calls[i].nr, a[0], a[1], a[2], a[3], a[4], a[5]));
		if (answers->errors[i] == calls[i].error)
			answers->errors[i] = 0;
	}
}

static void note_death(void *memory, unsigned i, int signal)
{
	struct uaio_answers *answers = memory;

	if (i < UAIO_NR_ANSWERS)
		answers->signals[i] = signal;
}

int uaio_answers_read(struct uaio_answers *ret_answers)
{
	static const struct uaio_tries tries = {
		.nr = NR_TRIES,
		.make = try_one,
		.died = note_death,
		.seconds = PATIENCE_S,
	};
	struct uaio_answers *answers = uaio_shared_new(sizeof(*answers));
	int ret = -ENOMEM;

	if (answers) {
		memset(answers->errors, UAIO_UNTRIED, sizeof(answers->errors));
		answers->aio_error = answers->uring_error = UAIO_UNTRIED;
		ret = uaio_tries_make(&tries, answers);
		*ret_answers = *answers;
	}
	uaio_shared_free(answers, sizeof(*answers));
	return ret;
}
