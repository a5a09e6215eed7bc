/* SPDX-License-Identifier: MIT */
/*
 * The facts about a machine that the doctor gathers and judges
 *
 * machine.c gathers the facts and judge.c judges them, so that tests can judge made-up
 * facts.
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
 * served.c: finds out whether the library serves requests on this machine
 *
 * For each interface the doctor executes this command again, with the library
 * preloaded, and the new process makes one request. If this command is static, the
 * doctor executes its dynamic build.
 */

enum uaio_served_id {
	UAIO_SERVED_LOADED,
	UAIO_SERVED_AIO,
	UAIO_SERVED_URING,
	UAIO_SERVED_POSIX,
	/* the trap, which the processor and the kernel must support */
	UAIO_SERVED_TRAP,
	UAIO_NR_SERVED,
};

enum { UAIO_SERVED_WHY_MAX = 512 };

struct uaio_served {
	int is_tried; /* 0: the members below are not valid */
	struct {
		int is_served;
		int error;  /* an errno; 0: none */
		int signal; /* signal that killed the child; 0: none */
		/* a message of the loader; may be empty */
		char why[UAIO_SERVED_WHY_MAX];
	} doors[UAIO_NR_SERVED];
};

/*
 * Try each interface of the library in the directory dir.
 * Return: 0, or -errno if no child can be forked.
 */
int uaio_served_read(const char *dir, struct uaio_served *ret_served);

/* argv[0] of the new process that makes a request. */
#define UAIO_SERVED_TRY "uaio doctor: try"

/*
 * main() of the new process that makes a request: argv says which request.
 * Return: the exit status: 0, or an errno.
 */
int uaio_served_try_main(char *const *argv);

/*
 * kernel-calls.c: finds out what the kernel answers to the system calls of kernel AIO
 * and io_uring
 *
 * A child process (children.h) makes each call with arguments that have no effect. Then
 * it creates a context and a ring, for which the kernel checks more limits, and
 * destroys both.
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

/* In place of an errno: the call was not tried. */
enum { UAIO_UNTRIED = -1 };

struct uaio_answers {
	/* An errno, 0 or UAIO_UNTRIED. 0: the call is not denied. */
	int errors[UAIO_NR_ANSWERS];
	int signals
		[UAIO_NR_ANSWERS]; /* signal that killed the child; 0: none */
	/*
	 * The errno of creating a context for one event, and of creating a ring for one
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

/* In place of a number that could not be read. */
enum { UAIO_UNKNOWN = -1 };

struct uaio_machine {
	struct utsname name;
	char arch[32]; /* from /proc/sys/kernel/arch; may be empty */

	/* Seccomp filters. */
	int nr_filters; /* or UAIO_UNKNOWN */
	/*
	 * which of the system calls of base/calls.h are allowed; the library also works
	 * without these calls
	 */
	struct uaio_call_set allowed;
	bool has_allowed; /* whether `allowed` is valid */

	/* What the kernel answers to the calls of kernel AIO and io_uring. */
	struct uaio_answers answers;
	int tries_error; /* errno if no child could be forked; or 0 */

	/* From /proc/sys; UAIO_UNKNOWN if missing. */
	long long aio_nr, aio_max_nr;
	long long uring_disabled;
	/*
	 * if io_uring_disabled is 1, the process still may create rings: it is in
	 * io_uring_group, or has CAP_SYS_ADMIN
	 */
	bool may_ring_when_1;

	/* Limits. */
	struct rlimit memlock, nofile, nproc, fsize;
	bool is_memlock_exempt;
	bool is_nproc_exempt;
	long long nr_open_files;

	/*
	 * Limit and present use of one control group. Of all groups that limit this
	 * process, this group has the smallest difference between limit and use.
	 */
	long long pids_max, pids_current;
	long long memory_max, memory_current;

	/* The library. */
	/* the library's directory; empty: no library was found */
	char library[PATH_MAX];
	char complaint[3 * PATH_MAX]; /* why no library can be used */
	struct uaio_served served;

	/* Values of the options in the environment; 0 if a value is invalid. */
	uint64_t options[UAIO_NR_OPTIONS];
};

/*
 * Who makes the io_uring rings of a program under `uaio run`: uaio, the kernel, or
 * nobody.
 */
enum uaio_ring_server {
	UAIO_RINGS_OURS,
	UAIO_RINGS_KERNELS,
	/* UAIO_URING=never is set, but the kernel denies rings */
	UAIO_RINGS_NOBODYS,
};

/* Gather the facts. */
void uaio_machine_read(struct uaio_machine *ret_machine);

/* judge.c and limits.c */

/* Add all findings about the machine and uaio. */
void uaio_machine_judge(const struct uaio_machine *machine,
			struct uaio_findings *findings);

/* Add the findings about sysctl, limits and control groups. */
void uaio_machine_judge_limits(const struct uaio_machine *machine,
			       struct uaio_findings *findings);

/*
 * Return: whether the kernel lets this process create io_uring rings. A limit may still
 * prevent some rings, which uaio then serves.
 */
bool uaio_machine_has_uring(const struct uaio_machine *machine);

enum uaio_ring_server
uaio_machine_ring_server(const struct uaio_machine *machine);

/* Return: the kernel's version as 100 * major + minor; 0 if unknown. */
int uaio_machine_version(const struct uaio_machine *machine);

/* cgroups.c */

/*
 * Of the control groups that limit this process, find the one with the smallest
 * difference between limit and present use. If none has a limit, *ret_max is LLONG_MAX
 * and *ret_current 0. max_name and current_name: the names of the files with a group's
 * limit and use.
 * Return: whether any group has a file max_name.
 */
bool uaio_cgroups_least(const char *controller, const char *max_name,
			const char *current_name, long long *ret_max,
			long long *ret_current);

/* call-names.c */

/* Return: the name of a system call. */
const char *uaio_call_name(enum uaio_call call);

#endif /* UAIO_TOOL_DOCTOR_MACHINE_H */
