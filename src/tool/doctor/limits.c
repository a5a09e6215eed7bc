/* SPDX-License-Identifier: MIT */
/* Adds findings about limits. Tested by test-judge.c. */
#include <errno.h>
#include <stdio.h>

#include "options/options.h"
#include "tool/doctor/machine.h"

enum {
	NUMBER_MAX = 32,
	/* Number of free descriptors that the library and a small program need. */
	FREE_FILES_MIN = 32,
	/*
	 * RING_BYTES: memory that Linux 6.18 counts against RLIMIT_MEMLOCK for a ring
	 * with RING_ENTRIES entries, a usual number.
	 */
	RING_ENTRIES = 128,
	RING_BYTES = 16 << 10,
};

static const char *in_bytes(unsigned long long bytes, char text[NUMBER_MAX])
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB",
					     "TiB" };
	unsigned unit = 0;

	while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	while (unit < 4 && bytes >= 10 * 1024ull) {
		bytes /= 1024;
		unit++;
	}
	(void)snprintf(text, NUMBER_MAX, "%llu %s", bytes, units[unit]);
	return text;
}

static const char *limit_text(const struct rlimit *limit, bool is_bytes,
			      char text[NUMBER_MAX])
{
	if (limit->rlim_cur == RLIM_INFINITY)
		return "unlimited";
	if (is_bytes)
		return in_bytes(limit->rlim_cur, text);
	(void)snprintf(text, NUMBER_MAX, "%llu",
		       (unsigned long long)limit->rlim_cur);
	return text;
}

/*
 * Judge fs.aio-max-nr. If io_setup() fails for another reason than this limit, another
 * finding says so.
 */
static void judge_quota(const struct uaio_machine *machine,
			struct uaio_findings *findings)
{
	long long taken = machine->aio_nr, max = machine->aio_max_nr;
	struct uaio_finding *finding;

	if (max < 0 || taken < 0) {
		uaio_find(findings, UAIO_PASS, "fs.aio-max-nr",
			  "not known: /proc/sys/fs has none");
		return;
	}
	if (taken < max && (machine->answers.aio_error != EAGAIN ||
			    machine->answers.errors[UAIO_ANSWER_IO_SETUP])) {
		uaio_find(findings, UAIO_PASS, "fs.aio-max-nr",
			  "%lld events of kernel AIO, %lld of them taken", max,
			  taken);
		return;
	}
	finding = uaio_find(findings, UAIO_WARN, "fs.aio-max-nr",
			    "used up: %lld events of kernel AIO are taken, of "
			    "%lld that there may be; io_setup fails with "
			    "EAGAIN",
			    taken, max);
	finding->error = EAGAIN;
	uaio_finding_fix(finding, "quota",
			 "start programs that use kernel AIO by uaio run, "
			 "which takes no events; or sysctl fs.aio-max-nr=%lld",
			 2 * (taken > max ? taken : max));
}

/*
 * Return: whether the kernel counts the memory of an io_uring ring against
 * RLIMIT_MEMLOCK.
 */
static bool charges_rings(const struct uaio_machine *machine)
{
	int version = uaio_machine_version(machine);

	return machine->memlock.rlim_cur != RLIM_INFINITY &&
	       !machine->is_memlock_exempt && uaio_machine_has_uring(machine) &&
	       version && (version < 512 || version >= 614);
}

static void judge_memlock(const struct uaio_machine *machine,
			  struct uaio_findings *findings)
{
	char text[NUMBER_MAX];
	const char *limit = limit_text(&machine->memlock, true, text);
	struct uaio_finding *finding;

	if (machine->answers.uring_error == ENOMEM) {
		finding = uaio_find(findings, UAIO_WARN, "memlock",
				    "%s (ulimit -l): the kernel's "
				    "io_uring_setup fails with ENOMEM",
				    limit);
		finding->error = ENOMEM;
		uaio_finding_fix(finding, "limit",
				 "uaio run, which locks no memory; or raise "
				 "the limit");
	} else if (charges_rings(machine)) {
		uaio_find(findings, UAIO_PASS, "memlock",
			  "%s (ulimit -l): about %llu rings of %d entries by "
			  "the kernel for all processes of this user; uaio "
			  "run serves those beyond, and locks no memory",
			  limit,
			  (unsigned long long)machine->memlock.rlim_cur /
				  RING_BYTES,
			  RING_ENTRIES);
	} else {
		uaio_find(findings, UAIO_PASS, "memlock",
			  "%s (ulimit -l); uaio locks no memory", limit);
	}
}

static void judge_nofile(const struct uaio_machine *machine,
			 struct uaio_findings *findings)
{
	char text[NUMBER_MAX];
	const char *limit = limit_text(&machine->nofile, false, text);
	struct uaio_finding *finding;

	if (machine->nr_open_files < 0 ||
	    machine->nofile.rlim_cur == RLIM_INFINITY ||
	    machine->nofile.rlim_cur >=
		    (rlim_t)machine->nr_open_files + FREE_FILES_MIN) {
		uaio_find(findings, UAIO_PASS, "nofile",
			  "%s descriptors (ulimit -n)", limit);
		return;
	}
	finding = uaio_find(findings, UAIO_WARN, "nofile",
			    "%s descriptors (ulimit -n), of which %lld are "
			    "open here: too few for a program and the library",
			    limit, machine->nr_open_files);
	uaio_finding_fix(finding, "limit", "raise it: ulimit -n 1024");
}

/*
 * Warn that only nr more threads can be created, fewer than the library may need for
 * blocking calls.
 */
static void warn_of_threads(struct uaio_findings *findings, const char *subject,
			    const char *cause, long long nr)
{
	int workers = uaio_option_count(UAIO_OPTION_WORKERS, 0, 0);
	struct uaio_finding *finding = uaio_find(
		findings, UAIO_WARN, subject,
		"%lld processes and threads may be added, fewer than the %d "
		"that slow calls may hold",
		nr, workers);

	uaio_finding_fix(finding, cause,
			 "raise the limit, or set uaio run --workers "
			 "below it");
}

static void judge_nproc(const struct uaio_machine *machine,
			struct uaio_findings *findings)
{
	char text[NUMBER_MAX];
	int workers = uaio_option_count(UAIO_OPTION_WORKERS, 0, 0);

	if (!machine->is_nproc_exempt &&
	    machine->nproc.rlim_cur < (rlim_t)workers)
		warn_of_threads(findings, "nproc", "limit",
				(long long)machine->nproc.rlim_cur);
	else
		uaio_find(findings, UAIO_PASS, "nproc",
			  "%s processes and threads (ulimit -u)%s",
			  limit_text(&machine->nproc, false, text),
			  machine->is_nproc_exempt
				  ? ", which this user is exempt from"
				  : "");
}

static void judge_groups(const struct uaio_machine *machine,
			 struct uaio_findings *findings)
{
	long long left = machine->pids_max - machine->pids_current;
	char max[NUMBER_MAX], current[NUMBER_MAX];

	if (machine->pids_max == LLONG_MAX)
		uaio_find(findings, UAIO_PASS, "pids.max",
			  "no limit by a control group");
	else if (left < uaio_option_count(UAIO_OPTION_WORKERS, 0, 0))
		warn_of_threads(findings, "pids.max", "cgroup", left);
	else
		uaio_find(findings, UAIO_PASS, "pids.max",
			  "%lld processes and threads, %lld of them there",
			  machine->pids_max, machine->pids_current);
	if (machine->memory_max == LLONG_MAX)
		uaio_find(findings, UAIO_PASS, "memory.max",
			  "no limit by a control group");
	else
		uaio_find(
			findings, UAIO_PASS, "memory.max",
			"%s, %s of them used, the page cache included",
			in_bytes((unsigned long long)machine->memory_max, max),
			in_bytes((unsigned long long)machine->memory_current,
				 current));
}

void uaio_machine_judge_limits(const struct uaio_machine *machine,
			       struct uaio_findings *findings)
{
	judge_quota(machine, findings);
	judge_memlock(machine, findings);
	judge_nofile(machine, findings);
	judge_nproc(machine, findings);
	judge_groups(machine, findings);
}
