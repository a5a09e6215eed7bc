/* SPDX-License-Identifier: MIT */
/*
 * The runs of `uaio check --seeds`. The run without faults uses the terminal for its
 * output. For each other run, only the end of the output is kept, and is shown if the
 * run fails.
 *
 * Tested by test/run/check_seeds.py.
 */
#include <errno.h>
#include <inttypes.h>
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

/* A request that a fault has changed, and the call stack of its submission. */
struct place {
	unsigned fault; /* index of the fault in the --fault text, from 1 */
	uint64_t number;
	int pid;
	char *stack; /* owns */
};

enum { PLACES_MAX = 64 };

struct runs {
	char **argv;
	uaio_check_report_fn *report;
	bool has_hints;

	/* State of the current run. */
	bool wants_stacks;
	unsigned nr_places;
	struct place places[PLACES_MAX];
	const uint64_t *nr_errors;
	int output; /* borrowed: an unnamed file for the command's output */
};

static int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/*
 * Return: the last lines of the output, which the caller frees; NULL on an error.
 */
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

static void take_place(struct runs *runs, struct uaio_report *report)
{
	struct place *place = &runs->places[runs->nr_places];
	size_t len;
	FILE *to;

	if (!runs->wants_stacks || runs->nr_places == PLACES_MAX ||
	    sscanf(report->what ? report->what : "", "%u %" SCNu64,
		   &place->fault, &place->number) != 2)
		return;
	place->pid = report->pid;
	uaio_check_symbolize(report);
	to = uaio_check_memory(open_memstream(&place->stack, &len));
	uaio_check_print_stack(to, "submitted here",
			       &report->stacks[UAIO_CHECK_SUBMITTED]);
	if (!fclose(to))
		runs->nr_places++;
}

static void take_report(struct uaio_report *report, void *arg)
{
	struct runs *runs = arg;

	if (!strcmp(report->kind, UAIO_CHECK_CHANGE))
		take_place(runs, report);
	else
		runs->report(report, NULL);
}

/*
 * For each stack in runs->places, find the change of the same request, and move the
 * stack to this change. Free the stacks whose change is not found.
 */
static void put_places(struct runs *runs, struct uaio_changes *changes)
{
	for (unsigned i = 0; i < runs->nr_places; i++) {
		struct place *place = &runs->places[i];

		for (size_t k = 0; k < changes->nr; k++) {
			struct uaio_change *change = &changes->all[k];

			if (change->fault + 1 != place->fault ||
			    change->number != place->number ||
			    change->pid != place->pid || change->stack)
				continue;
			change->stack = place->stack;
			place->stack = NULL;
			break;
		}
		free(place->stack);
	}
	runs->nr_places = 0;
}

static int run(void *arg, const char *faults, int64_t limit_ns,
	       bool wants_stacks, struct uaio_seeds_outcome *ret)
{
	struct runs *runs = arg;
	struct uaio_check_files files = { .report = take_report, .arg = runs };
	const struct uaio_check_how how = {
		.faults = faults,
		.has_hints = runs->has_hints,
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
	runs->wants_stacks = wants_stacks;
	status = uaio_check_follow(&done, &files, runs->argv, &how);
	if (status)
		return status;
	ret->status = done.status;
	ret->is_late = done.is_late;
	ret->stopped_by = done.stopped_by;
	ret->nr_reports = *runs->nr_errors - nr_errors;
	ret->time_ns = now_ns() - start_ns;
	status = uaio_changes_read(done.dir, &ret->changes);
	put_places(runs, &ret->changes);
	uaio_check_remove(done.dir);
	if (status)
		return uaio_diag(EXIT_REFUSED, "check: %s", strerror(-status));
	if (done.has_lost)
		return EXIT_REFUSED;
	if (faults)
		ret->output = read_output(runs->output);
	/*
	 * If the command was not executed, a message has said why: return the status of
	 * this failure.
	 */
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
		.has_hints = seeds->has_hints,
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
		.tell_failed = seeds->tell_failed,
	};
	int status;

	if (!output)
		return uaio_diag(EXIT_REFUSED, "check: %s", strerror(errno));
	runs.output = fileno(output);
	status = uaio_check_seeds(&search, ret_status, ret_has_failed);
	fclose(output);
	return status;
}
