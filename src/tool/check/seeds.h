/* SPDX-License-Identifier: MIT */
/*
 * `uaio check --seeds`: runs of a command in which requests complete late, in other orders
 * and in part, by seed; which of these changes a failure needs
 *
 * A run fails if the command ends otherwise than without changes, does not end, or has a
 * report. The first seed with a run that fails ends the search. Then fewer and fewer of
 * its changes are made (shrink.h), and what is left is printed as an option of --fault.
 *
 * Tested by test-seeds.c and test/run/check_seeds.py.
 */
#ifndef UAIO_TOOL_CHECK_SEEDS_H
#define UAIO_TOOL_CHECK_SEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tool/check/changes.h"

/* What became of a run. */
struct uaio_seeds_outcome {
	int status;   /* of the command, as waitpid() has it */
	bool is_late; /* it did not end within the limit, and was killed */
	int stopped_by; /* a signal with which the user wants all to end; 0: none */
	uint64_t nr_reports;
	int64_t time_ns;
	struct uaio_changes changes; /* owns */
	char *output; /* owns: the end of what the command has printed; or NULL */
};

/*
 * Run the command.
 * @faults: for --fault of `uaio run`; NULL: none, and the user sees what the command prints.
 * @limit_ns: it is killed after that; 0: never.
 * @wants_stacks: of each change that is named by itself.
 * Return: 0; or the exit status after a message. *ret is zeroed before.
 */
typedef int uaio_seeds_run_fn(void *arg, const char *faults, int64_t limit_ns,
			      bool wants_stacks,
			      struct uaio_seeds_outcome *ret);

struct uaio_seeds {
	uint64_t first, nr; /* which seeds */
	const char *
		faults; /* the user's for each; NULL: late, reordered and short */
	int64_t limit_ns; /* of a run; 0: it follows from the run without changes */
	char **argv;      /* the command, to be printed */
	FILE *to;         /* what is said goes there */
	bool shows_progress; /* to is a terminal */
	uaio_seeds_run_fn *run;
	void *arg;
	/* Called for the seed that fails: how, and what runs it again. NULL: nobody asks. */
	void (*tell_failed)(const char *what, const char *command);
};

/* Write the faults of a seed, if the user has not asked for others. */
enum { UAIO_SEEDS_MIX_MAX = 512 };
void uaio_seeds_mix(uint64_t seed, char ret_text[UAIO_SEEDS_MIX_MAX]);

/*
 * Return: 0 with *ret_status, the command's without changes or of the signal that has ended
 * the search, as waitpid() has it, and whether a seed failed; or the exit status after a
 * message.
 */
int uaio_check_seeds(const struct uaio_seeds *seeds, int *ret_status,
		     bool *ret_has_failed);

#endif /* UAIO_TOOL_CHECK_SEEDS_H */
