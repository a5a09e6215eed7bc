/* SPDX-License-Identifier: MIT */
/*
 * `uaio check --seeds`: runs a command with many seeds. The seed of a run decides which
 * requests complete late, reordered or short. These effects on requests are called
 * changes. If a run fails, the tool finds out which changes the failure needs.
 *
 * The tool first runs the command without faults. A later run fails if the command does
 * not end, causes an error report, or has another exit status than without faults. The
 * search ends with the first seed whose run fails. The tool then repeats the run
 * without faults. If this run has another outcome than the first one, the failure
 * depends on chance. Otherwise the tool runs the command with fewer and fewer of this
 * seed's changes (shrink.h), and prints the remaining ones as a --fault option.
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
	bool is_late; /* the command was killed at its time limit */
	/* the signal with which the user stopped the tool; 0: none */
	int stopped_by;
	uint64_t nr_reports;
	int64_t time_ns;
	struct uaio_changes changes; /* owns */
	/* owned by this struct: the end of the command's output; or NULL */
	char *output;
};

/*
 * Run the command once. The caller has zeroed *ret.
 * @faults: argument of --fault for `uaio run`; "": no faults; NULL: no faults, and the
 * user sees the command's output.
 * @limit_ns: the time after which to kill the command; 0: never.
 * @wants_stacks: also find the stack that submitted each changed request, if @faults
 * names the request's number.
 * Return: 0, or the exit status after a message.
 */
typedef int uaio_seeds_run_fn(void *arg, const char *faults, int64_t limit_ns,
			      bool wants_stacks,
			      struct uaio_seeds_outcome *ret);

struct uaio_seeds {
	uint64_t first, nr; /* the first seed, and how many seeds */
	const char *
		/*
		 * the user's faults, used with each seed; NULL: the tool makes
		 * completions late, reordered and short
		 */
		faults;
	/* time limit of each run; 0: the tool derives it from the run without faults */
	int64_t limit_ns;
	char **argv;         /* the command, also printed in messages */
	FILE *to;            /* where messages go */
	bool shows_progress; /* `to` is a terminal */
	uaio_seeds_run_fn *run;
	void *arg;
	/*
	 * Called for the failing seed; this member may be NULL. what: a text that says
	 * how the run failed; command: a command that repeats the failure.
	 */
	void (*tell_failed)(const char *what, const char *command);
};

/* Write the --fault text that the tool uses for a seed if the user gave none. */
enum { UAIO_SEEDS_MIX_MAX = 512 };
void uaio_seeds_mix(uint64_t seed, char ret_text[UAIO_SEEDS_MIX_MAX]);

/*
 * Try the seeds until one fails.
 * Return: 0, or the exit status after a message. *ret_status: the status of the run
 * without faults, as from waitpid(). If a signal stopped the search, *ret_status says
 * that this signal ended the run. *ret_has_failed: whether a run has failed.
 */
int uaio_check_seeds(const struct uaio_seeds *seeds, int *ret_status,
		     bool *ret_has_failed);

#endif /* UAIO_TOOL_CHECK_SEEDS_H */
