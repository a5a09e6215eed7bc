/* SPDX-License-Identifier: MIT */
/*
 * `uaio check --seeds`: runs a command with many seeds, each of which makes requests
 * complete late, reordered or short; then finds which of these changes a failure needs
 *
 * A run fails if the command ends differently than without changes, does not end, or
 * has a report. The search for seeds ends with the first seed whose run fails. Then the
 * tool repeats the run with fewer and fewer of this seed's changes (shrink.h), and
 * prints the changes that are left as a --fault option.
 *
 * Tested by test-seeds.c and test/run/check_seeds.py.
 */
#ifndef UAIO_TOOL_CHECK_SEEDS_H
#define UAIO_TOOL_CHECK_SEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tool/check/changes.h"

/* The outcome of a run. */
struct uaio_seeds_outcome {
	int status;   /* status of the command, as from waitpid() */
	bool is_late; /* the command exceeded its time limit, and was killed */
	/* the signal by which the user stops the whole search; 0: none */
	int stopped_by;
	uint64_t nr_reports;
	int64_t time_ns;
	struct uaio_changes changes; /* owns */
	char *output; /* owns: the end of the command's output; or NULL */
};

/*
 * Run the command. @faults: argument of --fault for `uaio run`; NULL: none, and the
 * user sees the command's output. @limit_ns: after which time to kill the command; 0:
 * never. @wants_stacks: record the stack of each change with its own number. *ret is
 * zeroed.
 * Return: 0; or the exit status after a message.
 */
typedef int uaio_seeds_run_fn(void *arg, const char *faults, int64_t limit_ns,
			      bool wants_stacks,
			      struct uaio_seeds_outcome *ret);

struct uaio_seeds {
	uint64_t first, nr; /* the first seed, and how many seeds */
	const char *
		/* the user's faults, for each seed; NULL: late, reordered and short */
		faults;
	/* time limit of each run; 0: derived from the run without changes */
	int64_t limit_ns;
	char **argv;         /* the command, for printing */
	FILE *to;            /* where messages go */
	bool shows_progress; /* `to` is a terminal */
	uaio_seeds_run_fn *run;
	void *arg;
	/*
	 * Called for the failing seed: the failure, and how to repeat it. May be NULL.
	 */
	void (*tell_failed)(const char *what, const char *command);
};

/* Write the default faults of a seed. */
enum { UAIO_SEEDS_MIX_MAX = 512 };
void uaio_seeds_mix(uint64_t seed, char ret_text[UAIO_SEEDS_MIX_MAX]);

/*
 * Search for a failing seed.
 * Return: 0; or the exit status after a message. *ret_status: from waitpid() for the
 * run without changes, or the signal that stopped the search. *ret_has_failed: whether
 * a seed failed.
 */
int uaio_check_seeds(const struct uaio_seeds *seeds, int *ret_status,
		     bool *ret_has_failed);

#endif /* UAIO_TOOL_CHECK_SEEDS_H */
