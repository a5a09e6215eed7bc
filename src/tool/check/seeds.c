/* SPDX-License-Identifier: MIT */
#include "tool/check/seeds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "options/faults.h"
#include "tool/check/shrink.h"
#include "tool/tool.h"

enum {
	SHRINK_RUNS_MAX = 400,
	CONFIRM_RUNS = 3,
	/* a failure's message shows at most this many changes */
	SHOWN_MAX = 20,
};

/*
 * The time limit of a run: LIMIT_LEAST_NS plus LIMIT_TIMES the time of the run without
 * faults. A run that takes longer is considered stuck.
 */
static const int64_t LIMIT_LEAST_NS = INT64_C(60000000000);
enum { LIMIT_TIMES = 20 };

struct search {
	const struct uaio_seeds *seeds;
	struct uaio_seeds_outcome plain;
	/*
	 * number of runs without faults after the failing run, and how many of them
	 * differ in status or reports from `plain`
	 */
	unsigned nr_plain, nr_plain_differ;
	int64_t limit_ns;
	/* number of requests that the faults of all seeds have changed so far */
	uint64_t nr_changes;

	/* The failing seed. `text` is the --fault text of its run, without the seed. */
	const char *text;
	uint64_t seed;
	/*
	 * outcome of the first failing run, without duplicate changes
	 * (uaio_changes_unite())
	 */
	struct uaio_seeds_outcome failure;
	/* number of runs that repeated all or some changes of the failing run */
	unsigned nr_runs;
	/*
	 * the search ended early, so the failure might also happen with fewer changes
	 * to requests
	 */
	bool is_cut;
	int stopped_by; /* signal that stopped the search; 0: none */
	int error;      /* exit status after a message; 0: no error */
};

/* Progress */

static __attribute__((format(printf, 2, 3))) void
show(const struct search *search, const char *format, ...)
{
	FILE *to = search->seeds->to;
	va_list args;

	if (!search->seeds->shows_progress)
		return;
	fputs("\r\033[K", to);
	va_start(args, format);
	vfprintf(to, format, args);
	va_end(args);
	fflush(to);
}

static void show_nothing(const struct search *search)
{
	show(search, "%s", "");
}

/* Running */

static void free_outcome(struct uaio_seeds_outcome *outcome)
{
	uaio_changes_free(&outcome->changes);
	free(outcome->output);
	*outcome = (struct uaio_seeds_outcome){ .status = 0 };
}

/*
 * Return: whether the run failed: it was killed, has reports, or has another status
 * than the run without faults.
 */
static bool has_failed(const struct search *search,
		       const struct uaio_seeds_outcome *outcome)
{
	return outcome->is_late || outcome->nr_reports ||
	       outcome->status != search->plain.status;
}

/*
 * Run the command.
 * Return: false if a signal stopped the run, or the command could not be run; true
 * otherwise, also if the run reached its time limit. The caller frees the changes in
 * *ret.
 */
static bool run(struct search *search, const char *faults, bool wants_stacks,
		struct uaio_seeds_outcome *ret)
{
	const struct uaio_seeds *seeds = search->seeds;

	*ret = (struct uaio_seeds_outcome){ .status = 0 };
	search->error = seeds->run(seeds->arg, faults, search->limit_ns,
				   wants_stacks, ret);
	if (ret->stopped_by)
		search->stopped_by = ret->stopped_by;
	return !search->error && !ret->stopped_by;
}

/*
 * Write the --fault text for a seed if the user gave none. Kinds of faults, frequency
 * and delay differ from seed to seed.
 */
void uaio_seeds_mix(uint64_t seed, char ret_text[UAIO_SEEDS_MIX_MAX])
{
	/*
	 * "any" means most operations on an open file; the other four operations are
	 * not among these.
	 */
	static const char *const reordered[] = { "any", "nop", "openat",
						 "close", "statx" };
	static const char *const chances[] = { "0.5", "0.1", "0.02" };
	static const char *const times[] = { "1ms", "5ms" };
	uint64_t n = seed - 1;
	const char *chance = chances[n / 3 % 3], *time = times[n / 9 % 2];
	bool has_orders = n % 3 != 1, has_shorts = n % 3 != 0;
	size_t len = 0;

	for (size_t i = 0;
	     has_orders && i < sizeof(reordered) / sizeof(reordered[0]); i++)
		len += (size_t)snprintf(
			ret_text + len, UAIO_SEEDS_MIX_MAX - len,
			"%s:reorder=%s@p=%s ", reordered[i], time, chance);
	if (has_orders)
		len += (size_t)snprintf(ret_text + len,
					UAIO_SEEDS_MIX_MAX - len,
					"any:defer=%s@p=%s ", time, chance);
	(void)snprintf(ret_text + len, UAIO_SEEDS_MIX_MAX - len, "%s%s",
		       has_shorts ? "any:short@p=" : "any:delay=20ms@p=0.01",
		       has_shorts ? chance : "");
}

/* Shrinking */

/*
 * Write a --fault text that makes only some changes of the failing run. `items` has the
 * indices of these changes.
 * Return: the result of uaio_faults_chosen().
 */
static int choose(const struct search *search, const size_t *items, size_t nr,
		  bool is_exact, char **ret)
{
	return uaio_faults_chosen(search->text, search->seed,
				  &search->failure.changes, items, nr, is_exact,
				  ret);
}

static enum uaio_shrink_answer ask(void *arg, const size_t *items, size_t nr)
{
	struct search *search = arg;
	struct uaio_seeds_outcome outcome;
	enum uaio_shrink_answer answer = UAIO_SHRINK_PASSES;
	char *text;

	search->is_cut = search->nr_runs == SHRINK_RUNS_MAX;
	if (search->is_cut)
		return UAIO_SHRINK_STOP;
	/*
	 * If the `nr` changes have too many request numbers for a --fault text, the run
	 * is impossible. Then report that it passes, so that the search keeps more
	 * changes.
	 */
	if (choose(search, items, nr, false, &text))
		return UAIO_SHRINK_PASSES;
	search->nr_runs++;
	show(search,
	     "uaio: check: seed %" PRIu64 " fails; run %u, with %zu changes",
	     search->seed, search->nr_runs, nr);
	search->is_cut = !run(search, text, false, &outcome);
	if (search->is_cut)
		answer = UAIO_SHRINK_STOP;
	else if (has_failed(search, &outcome))
		answer = UAIO_SHRINK_FAILS;
	free_outcome(&outcome);
	free(text);
	return answer;
}

/* Print a word, quoted for the shell. */
static void print_word(FILE *to, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-./=:,+@%^";

	if (*word && !word[strspn(word, plain)]) {
		fputs(word, to);
		return;
	}
	putc('\'', to);
	for (; *word; word++)
		if (*word == '\'')
			fputs("'\\''", to);
		else
			putc(*word, to);
	putc('\'', to);
}

static void print_command(FILE *to, const struct search *search,
			  const char *faults)
{
	fputs("uaio check --fault ", to);
	print_word(to, faults);
	fputs(" --", to);
	for (char **word = search->seeds->argv; *word; word++) {
		putc(' ', to);
		print_word(to, *word);
	}
}

static void print_outcome(FILE *to, const struct uaio_seeds_outcome *outcome,
			  int64_t limit_ns)
{
	if (outcome->is_late)
		fprintf(to, "it has not ended after %.0f s",
			(double)limit_ns / 1e9);
	else if (WIFSIGNALED(outcome->status))
		fprintf(to, "it is ended by signal %d (%s)",
			WTERMSIG(outcome->status),
			strsignal(WTERMSIG(outcome->status)));
	else
		fprintf(to, "its exit status is %d",
			WEXITSTATUS(outcome->status));
	if (outcome->nr_reports)
		fprintf(to, ", with %" PRIu64 " report%s", outcome->nr_reports,
			outcome->nr_reports > 1 ? "s" : "");
}

/* Print how the run failed, and how the run without faults ended. */
static void print_failure(FILE *to, const struct search *search,
			  const struct uaio_seeds_outcome *shown)
{
	fprintf(to, "seed %" PRIu64 " fails: ", search->seed);
	print_outcome(to, shown, search->limit_ns);
	fputs("; without changes, ", to);
	print_outcome(to, &search->plain, search->limit_ns);
}

/*
 * Call the caller's tell_failed() with a text that says how the run failed, and a
 * command that repeats the failure.
 */
static void tell_program(const struct search *search, const char *faults,
			 const struct uaio_seeds_outcome *shown)
{
	char *what = NULL, *command = NULL;
	size_t len;
	FILE *to = open_memstream(&what, &len);

	if (!to)
		return;
	print_failure(to, search, shown);
	fclose(to);
	to = open_memstream(&command, &len);
	if (to) {
		print_command(to, search, faults);
		fclose(to);
	}
	if (what && command)
		search->seeds->tell_failed(what, command);
	free(what);
	free(command);
}

/* Print the lines of text, each indented by four columns. */
static void print_lines(FILE *to, const char *text)
{
	for (const char *end; *text; text = end) {
		end = strchrnul(text, '\n');
		fprintf(to, "    %.*s\n", (int)(end - text), text);
		end += *end == '\n';
	}
}

static void print_changes(FILE *to, const struct uaio_changes *changes)
{
	bool has_pids = false;

	for (size_t i = 1; i < changes->nr; i++)
		has_pids |= changes->all[i].pid != changes->all[0].pid;
	for (size_t i = 0; i < changes->nr && i < SHOWN_MAX; i++) {
		fputs("    ", to);
		uaio_change_print(to, &changes->all[i]);
		if (has_pids)
			fprintf(to, ", in process %d", changes->all[i].pid);
		putc('\n', to);
		if (changes->all[i].stack)
			print_lines(to, changes->all[i].stack);
	}
	if (changes->nr > SHOWN_MAX)
		fprintf(to, "    and %zu more\n", changes->nr - SHOWN_MAX);
}

/*
 * Repeat a run CONFIRM_RUNS times, with the faults of the failing run, or with none
 * (""). If a signal stops a run, or the command cannot be run, make no more runs.
 * Return: how many of these runs failed. *ret_nr: how many runs were complete. *ret:
 * the outcome of the last run that failed.
 */
static unsigned repeat(struct search *search, const char *faults,
		       unsigned *ret_nr, struct uaio_seeds_outcome *ret)
{
	struct uaio_seeds_outcome outcome;
	unsigned nr_failed = 0;

	*ret = (struct uaio_seeds_outcome){ .status = 0 };
	for (*ret_nr = 0; *ret_nr < CONFIRM_RUNS && !search->stopped_by;
	     ++*ret_nr) {
		bool has_ended;

		show(search, "uaio: check: seed %" PRIu64 " fails; %s %u/%u",
		     search->seed, *faults ? "again" : "without changes",
		     *ret_nr + 1, CONFIRM_RUNS);
		has_ended = run(search, faults, *faults, &outcome);
		if (has_ended && has_failed(search, &outcome)) {
			nr_failed++;
			free_outcome(ret);
			*ret = outcome;
		} else {
			free_outcome(&outcome);
		}
		if (!has_ended)
			break;
	}
	show_nothing(search);
	return nr_failed;
}

/*
 * Repeat the run without faults. If a repetition differs from `plain`, the faults may
 * not be the cause of the failure.
 */
static void repeat_plain(struct search *search)
{
	struct uaio_seeds_outcome last;

	search->nr_plain_differ = repeat(search, "", &search->nr_plain, &last);
	free_outcome(&last);
}

/*
 * Print how many of the changes to requests the failure needs. nr: that number; 0:
 * unknown.
 */
static void print_needed(const struct search *search, size_t nr,
			 unsigned nr_failed, unsigned nr_runs)
{
	FILE *to = search->seeds->to;
	size_t all = search->failure.changes.nr;

	if (!all)
		fputs("  No request was changed: it does not always end in "
		      "the same way.\n",
		      to);
	else if (search->nr_plain_differ)
		fprintf(to,
			"  It depends on chance: of %u more runs without "
			"changes, %u ended otherwise, too. The changes were:\n",
			search->nr_plain, search->nr_plain_differ);
	else if (nr)
		fprintf(to,
			"  It needs %s%zu of %zu changes, and failed in %u of "
			"%u runs with %s alone:\n",
			search->is_cut ? "at most " : "", nr, all, nr_failed,
			nr_runs, nr == 1 ? "that" : "those");
	else if (search->stopped_by)
		fputs("  The search was stopped. The changes were:\n", to);
	else
		fprintf(to,
			"  It depends on chance, too: it failed in %u of %u "
			"other runs, with such changes:\n",
			nr_failed, nr_runs);
}

/*
 * Report a failure: how the run failed, which changes the failure needs, and how to
 * repeat the failure.
 */
static void tell(struct search *search, const char *faults, size_t nr)
{
	FILE *to = search->seeds->to;
	struct uaio_seeds_outcome last;
	unsigned nr_runs, nr_failed = repeat(search, faults, &nr_runs, &last);
	const struct uaio_seeds_outcome *shown =
		nr_failed ? &last : &search->failure;

	fputs("uaio: check: ", to);
	print_failure(to, search, shown);
	putc('\n', to);
	print_needed(search, nr, nr_failed, nr_runs);
	print_changes(to, &shown->changes);
	if (shown->output && *shown->output) {
		fputs("  What it printed:\n", to);
		print_lines(to, shown->output);
	}
	fputs("  To run it again:\n    ", to);
	print_command(to, search, faults);
	putc('\n', to);
	if (search->seeds->tell_failed)
		tell_program(search, faults, shown);
	free_outcome(&last);
}

/*
 * Find which changes the failure needs.
 * Return: how many changes; 0 if a run with all changes did not fail again, or if runs
 * without faults differ from each other. *ret: the indices of these changes, which the
 * caller frees.
 */
static size_t shrink(struct search *search, size_t **ret)
{
	size_t nr = search->failure.changes.nr;

	*ret = calloc(nr ? nr : 1, sizeof(**ret));
	if (!*ret)
		return 0;
	if (search->nr_plain_differ || search->stopped_by)
		return 0;
	for (size_t i = 0; i < nr; i++)
		(*ret)[i] = i;
	nr = nr && ask(search, *ret, nr) == UAIO_SHRINK_FAILS
		     ? uaio_shrink(*ret, nr, ask, search)
		     : 0;
	show_nothing(search);
	return nr;
}

/*
 * Examine and report a failed run. `text` is the run's --fault text without the seed.
 */
static void examine(struct search *search, const char *text, uint64_t seed)
{
	size_t *items, nr;
	char *faults = NULL;

	search->text = text;
	search->seed = seed;
	repeat_plain(search);
	nr = shrink(search, &items);
	/*
	 * If the needed changes are unknown, or too many for a --fault text, report the
	 * seed instead of the changes.
	 */
	if ((!nr || choose(search, items, nr, true, &faults)) &&
	    uaio_faults_seeded(text, seed, &faults))
		faults = NULL;
	if (faults)
		tell(search, faults, nr);
	free(faults);
	free(items);
}

/* Seeds */

/*
 * Run the command with a seed; examine a failure.
 * Return: whether to try the next seed.
 */
static bool try_seed(struct search *search, uint64_t seed, bool *ret_has_failed)
{
	const struct uaio_seeds *seeds = search->seeds;
	char mix[UAIO_SEEDS_MIX_MAX], *faults = NULL;
	const char *text = seeds->faults;

	if (!text) {
		uaio_seeds_mix(seed, mix);
		text = mix;
	}
	show(search, "uaio: check: seed %" PRIu64 " of %" PRIu64, seed,
	     seeds->first + seeds->nr - 1);
	if (uaio_faults_seeded(text, seed, &faults))
		search->error = uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM));
	else if (run(search, faults, false, &search->failure)) {
		search->nr_changes += search->failure.changes.nr;
		uaio_changes_unite(&search->failure.changes);
		*ret_has_failed = has_failed(search, &search->failure);
		if (*ret_has_failed)
			examine(search, text, seed);
	}
	free_outcome(&search->failure);
	free(faults);
	return !search->error && !search->stopped_by && !*ret_has_failed;
}

static void set_limit(struct search *search)
{
	search->limit_ns = search->seeds->limit_ns;
	if (!search->limit_ns)
		search->limit_ns =
			LIMIT_LEAST_NS + LIMIT_TIMES * search->plain.time_ns;
}

/* Report that no seed has failed. */
static void tell_none(const struct search *search, uint64_t nr_tried)
{
	if (search->stopped_by)
		fprintf(search->seeds->to,
			"uaio: check: stopped after %" PRIu64 " seeds\n",
			nr_tried);
	else if (!search->nr_changes)
		fprintf(search->seeds->to,
			"uaio: check: nothing was changed: the command has no "
			"asynchronous requests of these kinds\n");
	else
		fprintf(search->seeds->to,
			"uaio: check: none of %" PRIu64 " seeds fails, with "
			"%" PRIu64 " changes\n",
			nr_tried, search->nr_changes);
}

int uaio_check_seeds(const struct uaio_seeds *seeds, int *ret_status,
		     bool *ret_has_failed)
{
	struct search search = { .seeds = seeds };
	uint64_t seed = seeds->first, nr_tried = 0;
	bool goes_on;

	*ret_has_failed = false;
	goes_on = run(&search, NULL, false, &search.plain);
	*ret_status = search.plain.status;
	/*
	 * If the run without faults has caused reports, stop: the user must fix the
	 * reported errors first.
	 */
	if (!goes_on || search.plain.nr_reports) {
		*ret_has_failed = search.plain.nr_reports;
		free_outcome(&search.plain);
		return search.error;
	}
	set_limit(&search);
	while (goes_on && nr_tried < seeds->nr) {
		goes_on = try_seed(&search, seed++, ret_has_failed);
		nr_tried += !search.stopped_by;
	}
	show_nothing(&search);
	if (!search.error && !*ret_has_failed)
		tell_none(&search, nr_tried);
	if (search.stopped_by)
		*ret_status = search.stopped_by;
	free_outcome(&search.plain);
	return search.error;
}
