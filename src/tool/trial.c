/* SPDX-License-Identifier: MIT */
#include "tool/trial.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/calls.h"

/* Memory that the parent shares with the children that try, one by one. */
struct trial {
	int next; /* atomic: next call to try; -1: set the core limit */
	struct uaio_call_set calls; /* that may be made */
};

/*
 * Try the calls that are left. The core limit comes first, so that a child that
 * is killed leaves no core file; setting it may itself kill the child.
 * relaxed throughout: each reader has waited for the end of the process that
 * wrote
 */
static void go_on(struct trial *trial)
{
	static const struct rlimit none;

	if (load_relaxed(&trial->next) < 0) {
		store_relaxed(&trial->next, 0);
		(void)setrlimit(RLIMIT_CORE, &none);
	}
	while (load_relaxed(&trial->next) < UAIO_NR_CALLS) {
		int call = add_relaxed(&trial->next, 1);

		if (uaio_call_try((enum uaio_call)call))
			uaio_call_set_add(&trial->calls, (unsigned)call);
	}
}

/*
 * Fork children until all calls have been tried: each child goes on after the
 * call that killed the one before it.
 * Return: false if no child can be had, or one did not try anything.
 */
static bool try_all(struct trial *trial)
{
	store_relaxed(&trial->next, -1);
	while (load_relaxed(&trial->next) < UAIO_NR_CALLS) {
		int seen = load_relaxed(&trial->next);
		pid_t pid = fork();

		if (pid < 0)
			return false;
		if (pid == 0) {
			go_on(trial);
			_exit(0);
		}
		if (waitpid(pid, NULL, 0) < 0 ||
		    load_relaxed(&trial->next) == seen)
			return false;
	}
	return true;
}

int uaio_trial_set(void)
{
	const char *word = getenv(UAIO_CALLS_VARIABLE);
	int nr_filters = uaio_calls_nr_filters(), ret = 0;
	char text[UAIO_CALLS_WORD_MAX];
	struct trial *trial;

	if (nr_filters <= 0 || (word && !strcmp(word, "all")))
		return 0;
	trial = mmap(NULL, sizeof(*trial), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (trial == MAP_FAILED)
		return -errno;
	if (try_all(trial)) {
		uaio_calls_word(nr_filters, &trial->calls, text);
		if (setenv(UAIO_CALLS_VARIABLE, text, 1) < 0)
			ret = -errno;
	}
	(void)munmap(trial, sizeof(*trial));
	return ret;
}
