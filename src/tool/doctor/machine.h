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
#include "tool/doctor/kernel-calls.h"
#include "tool/doctor/served.h"

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
