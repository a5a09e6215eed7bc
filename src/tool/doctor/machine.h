/* SPDX-License-Identifier: MIT */
/*
 * Facts about the machine, for the doctor
 *
 * machine.c gathers the facts and judge.c judges them, so that tests can judge the
 * facts of other machines.
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
 * For each interface the doctor executes this command again with the library preloaded,
 * and the new process makes a request. If the command is static, the doctor executes
 * its dynamic build.
 */

enum uaio_served_id {
	UAIO_SERVED_LOADED,
	UAIO_SERVED_AIO,
	UAIO_SERVED_URING,
	UAIO_SERVED_POSIX,
	UAIO_SERVED_TRAP, /* the processor and the kernel support the trap */
	UAIO_NR_SERVED,
};

enum { UAIO_SERVED_WHY_MAX = 512 };

struct uaio_served {
	int is_tried; /* if 0, the other members are invalid */
	struct {
		int is_served;
		int error;  /* an errno, or 0 */
		int signal; /* the signal that killed the child, or 0 */
		/* details of the error, or empty */
		char why[UAIO_SERVED_WHY_MAX];
	} doors[UAIO_NR_SERVED];
};

/* dir: the library's directory. Return: 0, or -errno if no child can be forked. */
int uaio_served_read(const char *dir, struct uaio_served *ret_served);

/* argv[0] of the process that makes a request. */
#define UAIO_SERVED_TRY "uaio doctor: try"

/* Make a request in the new process. Return: its exit status: 0, or an errno. */
int uaio_served_try_main(char *const *argv);

/*
 * kernel-calls.c: the kernel's answers to the system calls of kernel AIO and io_uring
 *
 * A child (children.h) makes each call with arguments that have no effect. Then the
 * child makes a context and a ring, because the kernel checks some limits only then,
 * and destroys both.
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

/* A value in place of an errno: the call was not tried. */
enum { UAIO_UNTRIED = -1 };

struct uaio_answers {
	/* An errno; 0 on success; or UAIO_UNTRIED. */
	int errors[UAIO_NR_ANSWERS];
	int signals
		[UAIO_NR_ANSWERS]; /* the signal that killed the child, or 0 */
	/*
	 * The errno of making a context for one event, and of making a ring for one
	 * request.
	 */
	int aio_error, uring_error;
};

/* The call's name. */
const char *uaio_answer_name(enum uaio_answer_id id);

/* The first Linux version that has the call, as 100 * major + minor. */
int uaio_answer_since(enum uaio_answer_id id);

/* Return: 0, or -errno if no child can be forked. */
int uaio_answers_read(struct uaio_answers *ret_answers);

/* machine.c */

/* A number that could not be read, or a control group without a limit. */
enum { UAIO_UNKNOWN = -1 };

struct uaio_machine {
	struct utsname name;
	char arch[32]; /* from /proc/sys/kernel/arch; empty if missing */

	/* Seccomp filters. */
	int nr_filters; /* or UAIO_UNKNOWN */
	/* which of the system calls that the library can do without are allowed */
	struct uaio_call_set allowed;
	bool has_allowed; /* the calls were tried */

	/* System calls of kernel AIO and io_uring. */
	struct uaio_answers answers;
	int tries_error; /* an errno if no child could be forked; or 0 */

	/* From sysctl, or UAIO_UNKNOWN. */
	long long aio_nr, aio_max_nr;
	long long uring_disabled;
	/* the process is in io_uring_group, or has CAP_SYS_ADMIN */
	bool may_ring_when_1;

	/* Limits. */
	struct rlimit memlock, nofile, nproc;
	bool is_memlock_exempt;
	bool is_nproc_exempt;
	long long nr_open_files;

	/* Control groups: from the group of this process with the least left. */
	long long pids_max, pids_current;
	long long memory_max, memory_current;

	/* The library. */
	char library[PATH_MAX];       /* its directory; empty: not found */
	char complaint[3 * PATH_MAX]; /* why the library cannot be used */
	struct uaio_served served;

	/* Options in the environment; 0 for invalid values. */
	uint64_t options[UAIO_NR_OPTIONS];
};

/* Which implementation serves the rings of a program under `uaio run`. */
enum uaio_ring_server {
	UAIO_RINGS_OURS,
	UAIO_RINGS_KERNELS,
	/* the library leaves the calls to the kernel, which refuses them */
	UAIO_RINGS_NOBODYS,
};

/* Gather the facts. */
void uaio_machine_read(struct uaio_machine *ret_machine);

/* judge.c and limits.c */

/* Add findings about the machine. */
void uaio_machine_judge(const struct uaio_machine *machine,
			struct uaio_findings *findings);

/* Add findings about sysctl, limits and control groups. */
void uaio_machine_judge_limits(const struct uaio_machine *machine,
			       struct uaio_findings *findings);

/*
 * Return: whether the kernel allows this process rings of io_uring. A limit may still
 * refuse some of them, which uaio then serves.
 */
bool uaio_machine_has_uring(const struct uaio_machine *machine);

enum uaio_ring_server
uaio_machine_ring_server(const struct uaio_machine *machine);

/* Return: the kernel's version as 100 * major + minor; 0 if unknown. */
int uaio_machine_version(const struct uaio_machine *machine);

/* cgroups.c */

/*
 * Find the group of this process that has the least left of a limit. If no group has a
 * limit, *ret_max is LLONG_MAX and *ret_current 0. Return: whether a file of that name
 * was found.
 */
bool uaio_cgroups_least(const char *controller, const char *max_name,
			const char *current_name, long long *ret_max,
			long long *ret_current);

/* call-names.c */

/* Return: the name of the system call. */
const char *uaio_call_name(enum uaio_call call);

#endif /* UAIO_TOOL_DOCTOR_MACHINE_H */
