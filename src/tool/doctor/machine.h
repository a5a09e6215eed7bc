/* SPDX-License-Identifier: MIT */
/*
 * What the doctor knows of the machine
 *
 * The facts are gathered in one place (machine.c) and judged in another (judge.c),
 * so that the judgement can be tested with facts of machines that are not at hand.
 *
 * Tested by test-judge.c and test/run/doctor.py.
 */
#ifndef UAIO_TOOL_DOCTOR_MACHINE_H
#define UAIO_TOOL_DOCTOR_MACHINE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "base/calls.h"
#include "options/options.h"
#include "tool/doctor/findings.h"

/*
 * served.c: whether the library serves requests on this machine
 *
 * The doctor executes this command once more for each interface, with the library
 * preloaded, and the new process makes a request. If the command is static, the doctor
 * executes its dynamic build.
 */

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

/*
 * kernel-calls.c: what the kernel answers to the system calls of kernel AIO and io_uring
 *
 * A child (children.h) makes each call with arguments that have no effect. It then makes
 * a context and a ring, because the kernel checks some limits only then, and destroys
 * them.
 */

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

/* machine.c */

/* Of a number that could not be read, and of a control group without a limit. */
enum { UAIO_UNKNOWN = -1 };

struct uaio_machine {
	struct utsname name;
	char arch[32]; /* /proc/sys/kernel/arch; empty: not there */

	/* filters of system calls */
	int nr_filters;               /* or UAIO_UNKNOWN */
	struct uaio_call_set allowed; /* of the library's optional calls */
	bool has_allowed;             /* they were tried */

	/* the calls of kernel AIO and io_uring */
	struct uaio_answers answers;
	int tries_error; /* an errno: no child could be had; or 0 */

	/* sysctl, or UAIO_UNKNOWN */
	long long aio_nr, aio_max_nr;
	long long uring_disabled;
	bool may_ring_when_1; /* is in io_uring_group, or has CAP_SYS_ADMIN */

	/* limits */
	struct rlimit memlock, nofile, nproc;
	bool is_memlock_exempt;
	bool is_nproc_exempt;
	long long nr_open_files;

	/* control groups: of all that this process is in, the least that is left */
	long long pids_max, pids_current;
	long long memory_max, memory_current;

	/* the library */
	char library[PATH_MAX];       /* its directory; empty: not found */
	char complaint[3 * PATH_MAX]; /* why it cannot be used */
	struct uaio_served served;

	/* what the environment sets; 0 also of what is wrong there */
	uint64_t options[UAIO_NR_OPTIONS];
};

/* Who serves the rings of a program that `uaio run` starts here. */
enum uaio_ring_server {
	UAIO_RINGS_OURS,
	UAIO_RINGS_KERNELS,
	UAIO_RINGS_NOBODYS, /* they are left to the kernel, which refuses them */
};

/* Gather the facts. */
void uaio_machine_read(struct uaio_machine *ret_machine);

/* judge.c */

/* Add what they mean. */
void uaio_machine_judge(const struct uaio_machine *machine,
			struct uaio_findings *findings);

/* Its part about sysctl, limits and control groups. */
void uaio_machine_judge_limits(const struct uaio_machine *machine,
			       struct uaio_findings *findings);

/*
 * Return: whether the kernel gives this process rings of io_uring. A limit may still
 * refuse some, which uaio serves.
 */
bool uaio_machine_has_uring(const struct uaio_machine *machine);

enum uaio_ring_server
uaio_machine_ring_server(const struct uaio_machine *machine);

/* Return: the kernel's version, as 100 * major + minor; 0 if it is not known. */
int uaio_machine_version(const struct uaio_machine *machine);

/* cgroups.c */

/*
 * Of a controller's limit and its use, find the group that has the least left.
 * *ret_max is LLONG_MAX and *ret_current 0 if no group has a limit.
 * Return: whether a file of that name was found.
 */
bool uaio_cgroups_least(const char *controller, const char *max_name,
			const char *current_name, long long *ret_max,
			long long *ret_current);

/* call-names.c */

/* Return: the name of the system call. */
const char *uaio_call_name(enum uaio_call call);

#endif /* UAIO_TOOL_DOCTOR_MACHINE_H */
