/* SPDX-License-Identifier: MIT */
/*
 * The runs of `uaio check --seeds`. The user sees what the command prints without changes;
 * of a run with changes its end is kept, to be shown if it has failed.
 *
 * Tested by test/run/check_seeds.py.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool/check/check.h"
#include "tool/check/seeds.h"
#include "tool/tool.h"

enum { OUTPUT_MAX = 4096 };

struct runs {
	char **argv;
	uaio_check_report_fn *report;
	const uint64_t *nr_errors;
	int output; /* owns: a file without a name, for what is printed */
};

static int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Return: the last lines that were printed; the caller frees them. NULL: none. */
static char *read_output(int fd)
{
	off_t end = lseek(fd, 0, SEEK_END), at = 0;
	char *text = calloc(1, OUTPUT_MAX + 1), *line;
	ssize_t nr;

	if (end > OUTPUT_MAX)
		at = end - OUTPUT_MAX;
	nr = text ? pread(fd, text, OUTPUT_MAX, at) : -1;
	if (nr < 0) {
		free(text);
		return NULL;
	}
	line = at ? strchr(text, '\n') : NULL;
	if (line)
		memmove(text, line + 1, strlen(line + 1) + 1);
	return text;
}

static int run(void *arg, const char *faults, int64_t limit_ns,
	       struct uaio_seeds_outcome *ret)
{
	const struct runs *runs = arg;
	struct uaio_check_files files = { .report = runs->report };
	const struct uaio_check_how how = {
		.faults = faults,
		.limit_ns = limit_ns,
		.output = faults ? runs->output : -1,
	};
	struct uaio_check_run done = { .status = 0 };
	uint64_t nr_errors = *runs->nr_errors;
	int64_t start_ns = now_ns();
	int status;

	if (faults && (ftruncate(runs->output, 0) < 0 ||
		       lseek(runs->output, 0, SEEK_SET) < 0))
		return uaio_diag(EXIT_REFUSED, "check: %s", strerror(errno));
	status = uaio_check_follow(&done, &files, runs->argv, &how);
	if (status)
		return status;
	ret->status = done.status;
	ret->is_late = done.is_late;
	ret->stopped_by = done.stopped_by;
	ret->nr_reports = *runs->nr_errors - nr_errors;
	ret->time_ns = now_ns() - start_ns;
	status = uaio_changes_read(done.dir, &ret->changes);
	uaio_check_remove(done.dir);
	if (status)
		return uaio_diag(EXIT_REFUSED, "check: %s", strerror(-status));
	if (faults)
		ret->output = read_output(runs->output);
	/* It was not executed, and has said why. */
	return done.is_refused ? WEXITSTATUS(done.status) : 0;
}

int uaio_check_run_seeds(const struct uaio_check_seeds *seeds, char **argv,
			 uaio_check_report_fn *report,
			 const uint64_t *nr_errors, int *ret_status,
			 bool *ret_has_failed)
{
	FILE *output = tmpfile();
	struct runs runs = {
		.argv = argv,
		.report = report,
		.nr_errors = nr_errors,
	};
	const struct uaio_seeds search = {
		.first = seeds->first,
		.nr = seeds->nr,
		.faults = seeds->faults,
		.limit_ns = seeds->limit_ns,
		.argv = argv,
		.to = stderr,
		.shows_progress = isatty(STDERR_FILENO),
		.run = run,
		.arg = &runs,
	};
	int status;

	if (!output)
		return uaio_diag(EXIT_REFUSED, "check: %s", strerror(errno));
	runs.output = fileno(output);
	status = uaio_check_seeds(&search, ret_status, ret_has_failed);
	fclose(output);
	return status;
}
