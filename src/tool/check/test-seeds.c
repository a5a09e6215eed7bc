/* SPDX-License-Identifier: MIT */
/*
 * Tests the search for a failing seed, with a made-up command that fails if certain
 * requests are changed
 */
#undef NDEBUG
#include "tool/check/seeds.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "options/faults.h"
#include "tool/check/shrink.h"

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/* Shrinking */

struct needed {
	const size_t *items;
	size_t nr;
	unsigned nr_asked, stops_after;
};

static bool has(const size_t *items, size_t nr, size_t item)
{
	while (nr--)
		if (items[nr] == item)
			return true;
	return false;
}

static enum uaio_shrink_answer ask(void *arg, const size_t *items, size_t nr)
{
	struct needed *needed = arg;
	enum uaio_shrink_answer answer = UAIO_SHRINK_FAILS;

	assert_true(nr > 0);
	for (size_t i = 1; i < nr; i++)
		assert_true(items[i - 1] < items[i]);
	for (size_t i = 0; i < needed->nr; i++)
		if (!has(items, nr, needed->items[i]))
			answer = UAIO_SHRINK_PASSES;
	return ++needed->nr_asked == needed->stops_after ? UAIO_SHRINK_STOP
							 : answer;
}

enum { NR_ITEMS = 1000 };

static size_t shrink(struct needed *needed, size_t items[NR_ITEMS])
{
	for (size_t i = 0; i < NR_ITEMS; i++)
		items[i] = i;
	return uaio_shrink(items, NR_ITEMS, ask, needed);
}

static void what_is_needed_is_left(void **state)
{
	static const size_t all[] = { 17, 18, 400, 999 };
	size_t items[NR_ITEMS];

	(void)state;
	for (size_t nr = 1; nr <= NR_ELEMENTS(all); nr++) {
		struct needed needed = { .items = all, .nr = nr };

		assert_int_equal(shrink(&needed, items), nr);
		assert_memory_equal(items, all, nr * sizeof(*items));
		/*
		 * If only one change is needed, each run that fails halves the list of
		 * changes, so few runs suffice.
		 */
		assert_true(nr > 1 ? needed.nr_asked < 200
				   : needed.nr_asked <= 20);
	}
	items[0] = 5;
	assert_int_equal(uaio_shrink(items, 1, ask, NULL), 1);
	assert_int_equal(uaio_shrink(items, 0, ask, NULL), 0);
}

static void what_has_failed_is_left_when_it_is_stopped(void **state)
{
	static const size_t all[] = { 17, 999 };
	struct needed needed = { .items = all, .nr = 2, .stops_after = 10 };
	size_t items[NR_ITEMS], nr;

	(void)state;
	nr = shrink(&needed, items);
	assert_int_equal(needed.nr_asked, 10);
	assert_true(nr < NR_ITEMS && has(items, nr, 17) && has(items, nr, 999));
}

/* Tests of changes, and of --fault texts that repeat them */

static void add(struct uaio_changes *changes, int pid, const char *line)
{
	assert_int_equal(uaio_changes_add(changes, pid, line), 0);
}

static void only_whole_lines_are_changes(void **state)
{
	static const char *const bad[] = {
		"",
		"change",
		"change\t1\t2\tshort\t1 of 2\tpread\t3",
		"change\t0\t2\tshort\t1 of 2\tpread\t3\t/x",
		"change\t17\t2\tshort\t1 of 2\tpread\t3\t/x",
		"change\t1\t0\tshort\t1 of 2\tpread\t3\t/x",
		"change\t1\t-2\tshort\t1 of 2\tpread\t3\t/x",
		"change\t1\t2x\tshort\t1 of 2\tpread\t3\t/x",
		"chang\t1\t2\tshort\t1 of 2\tpread\t3\t/x",
	};
	struct uaio_changes changes = { .nr = 0 };

	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(bad); i++)
		assert_int_equal(uaio_changes_add(&changes, 1, bad[i]),
				 -EINVAL);
	assert_int_equal(changes.nr, 0);
	add(&changes, 7, "change\t2\t30\tshort\t1 of 2\tpread\t3\t/x y");
	assert_int_equal(changes.all[0].fault, 1);
	assert_int_equal(changes.all[0].number, 30);
	assert_string_equal(changes.all[0].path, "/x y");
	uaio_changes_free(&changes);
}

static void assert_sentence(const char *line, const char *expected)
{
	struct uaio_changes changes = { .nr = 0 };
	char *text;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	add(&changes, 1, line);
	uaio_change_print(to, &changes.all[0]);
	fclose(to);
	assert_string_equal(text, expected);
	free(text);
	uaio_changes_free(&changes);
}

static void a_change_is_told_in_a_sentence(void **state)
{
	(void)state;
	assert_sentence("change\t1\t2\tshort\t1 of 20\tpread\t3\t/x",
			"short of request 2, pread on descriptor 3 (/x): it "
			"moves 1 of 20 bytes");
	assert_sentence("change\t1\t2\terror\tEIO\tpread\t-\t/x",
			"error of request 2, pread (/x): it ends with EIO");
	assert_sentence("change\t1\t2\treorder\t1500000\tnop\t-\t-",
			"reorder of request 2, nop: it completes 1.500 ms "
			"late");
	assert_sentence("change\t1\t2\tdefer\t5000000\tpread\t3\t/x",
			"defer of request 2, pread on descriptor 3 (/x): it "
			"begins 5.000 ms late");
}

static void assert_chosen(const char *text, const struct uaio_changes *changes,
			  const size_t *items, size_t nr, bool is_exact,
			  const char *expected)
{
	struct uaio_faults faults = { .nr = 0 };
	char *chosen, complaint[96];

	assert_int_equal(uaio_faults_chosen(text, 9, changes, items, nr,
					    is_exact, &chosen),
			 0);
	assert_string_equal(chosen, expected);
	assert_int_equal(uaio_faults_parse(chosen, &faults, complaint,
					   sizeof(complaint)),
			 0);
	free(chosen);
}

static void the_text_names_what_is_chosen(void **state)
{
	static const char text[] = "any:short@p=0.5,path=/x ;nop:delay=1ms";
	static const unsigned numbers[] = { 8, 3, 4, 4, 11 };
	struct uaio_changes changes = { .nr = 0 };
	char line[64], *seeded;

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(numbers); i++) {
		(void)snprintf(line, sizeof(line),
			       "change\t1\t%u\tshort\t1 of 2\tpread\t3\t/x",
			       numbers[i]);
		add(&changes, (int)i, line);
	}
	add(&changes, 1, "change\t2\t5\tdelay\t1\tnop\t-\t-");
	uaio_changes_sort(&changes);
	uaio_changes_unite(&changes);
	/*
	 * Once united, the changes of all processes are those of requests 3, 4, 8 and
	 * 11 (first fault) and of request 5 (second fault).
	 */
	assert_int_equal(changes.nr, 5);
	assert_int_equal(changes.all[1].pid, 2);
	assert_chosen(text, &changes, (size_t[]){ 0, 1, 2 }, 3, false,
		      "any:short@p=0.5,path=/x,seed=9,only=3-8");
	assert_chosen(text, &changes, (size_t[]){ 0, 1, 2 }, 3, true,
		      "any:short@path=/x,seed=9,only=3-4+8");
	assert_chosen(text, &changes, (size_t[]){ 0, 2, 3, 4 }, 4, false,
		      "any:short@p=0.5,path=/x,seed=9,only=3+8-11 "
		      "nop:delay=1ms@seed=9,only=5");
	assert_chosen("any:short@only=1-9 nop:delay=1ms", &changes,
		      (size_t[]){ 0, 1, 2, 4 }, 4, false,
		      "any:short@seed=9,only=3-4+8 "
		      "nop:delay=1ms@seed=9,only=5");
	assert_chosen(text, &changes, (size_t[]){ 4 }, 1, true,
		      "nop:delay=1ms@seed=9,only=5");
	assert_int_equal(
		uaio_faults_seeded("any:short@p=1,seed=3 nop:eio", 9, &seeded),
		0);
	assert_string_equal(seeded, "any:short@p=1,seed=9 nop:eio@seed=9");
	free(seeded);
	uaio_changes_free(&changes);
}

static void more_numbers_than_may_be_named_are_refused(void **state)
{
	enum { NR = 2 * UAIO_FAULT_RANGES_MAX + 2 };
	struct uaio_changes changes = { .nr = 0 };
	size_t items[NR / 2];
	char line[64], *text;

	(void)state;
	for (unsigned i = 0; i < NR; i++) {
		(void)snprintf(line, sizeof(line),
			       "change\t1\t%u\tshort\t1 of 2\tpread\t3\t/x",
			       i + 1);
		add(&changes, 1, line);
		items[i / 2] = i;
	}
	assert_int_equal(uaio_faults_chosen("any:short", 1, &changes, items,
					    NR / 2, true, &text),
			 -E2BIG);
	assert_int_equal(uaio_faults_chosen("any:short", 1, &changes, items,
					    NR / 2 - 1, true, &text),
			 0);
	free(text);
	uaio_changes_free(&changes);
}

static void each_seed_has_faults_that_can_be_asked_for(void **state)
{
	char text[UAIO_SEEDS_MIX_MAX], complaint[96], *seeded;

	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct uaio_faults faults = { .nr = 0 };

		uaio_seeds_mix(seed, text);
		assert_int_equal(uaio_faults_seeded(text, seed, &seeded), 0);
		assert_int_equal(uaio_faults_parse(seeded, &faults, complaint,
						   sizeof(complaint)),
				 0);
		assert_int_equal(faults.faults[faults.nr - 1].seed, seed);
		free(seeded);
	}
}

/* The search */

/*
 * A made-up command that makes nr_requests requests. The command fails if all requests
 * in `needs` are changed.
 */
struct made_up {
	unsigned nr_requests;
	/* numbers of the requests whose change makes the command fail; 0: no request */
	uint64_t needs[2];
	struct uaio_seeds_outcome fails; /* how it fails */
	uint64_t plain_reports;
	unsigned
		/* if not 0: the command fails only in the run with this number */
		only_once;
	unsigned stopped; /* the run in which a signal arrives; 0: no run */
	/*
	 * if not 0: even without faults, the command fails in the run with this number
	 */
	unsigned plain_fails;

	/* What the search has done so far. */
	unsigned nr_runs;
	char *last; /* owns: --fault text of the last run */
};

static bool is_changed(const struct uaio_faults *faults, unsigned i, uint64_t n)
{
	const struct uaio_fault *fault = &faults->faults[i];
	uint64_t chance = (n * 2654435761u + fault->seed * 97) % 1000;
	bool is_among = !fault->nr_only;

	for (unsigned k = 0; k < fault->nr_only; k++)
		is_among |= n >= faults->ranges[fault->only + k].first &&
			    n <= faults->ranges[fault->only + k].last;
	return is_among && chance * (UAIO_FAULT_CERTAIN / 1000) < fault->chance;
}

/*
 * Write the changes that the faults would make.
 * Return: whether these make the command fail.
 */
static bool make_changes(const struct made_up *command,
			 const struct uaio_faults *faults,
			 struct uaio_changes *changes)
{
	unsigned nr_needed = 0, nr_found = 0;
	char line[96];

	for (unsigned k = 0; k < NR_ELEMENTS(command->needs); k++)
		nr_needed += command->needs[k] != 0;
	for (unsigned i = 0; i < faults->nr; i++)
		for (uint64_t n = 1; n <= command->nr_requests; n++) {
			if (!is_changed(faults, i, n))
				continue;
			(void)snprintf(
				line, sizeof(line),
				"change\t%u\t%u\t%s\t1 of 2\tpread\t3\t/x",
				i + 1, (unsigned)n,
				uaio_fault_names[faults->faults[i].kind]);
			add(changes, 1, line);
			nr_found +=
				faults->faults[i].kind == UAIO_FAULT_SHORT &&
				(n == command->needs[0] ||
				 n == command->needs[1]);
		}
	return nr_needed && nr_found == nr_needed;
}

static int run_made_up(void *arg, const char *text, int64_t limit_ns,
		       bool wants_stacks, struct uaio_seeds_outcome *ret)
{
	struct made_up *command = arg;
	struct uaio_faults faults = { .nr = 0 };
	struct uaio_changes changes = { .nr = 0 };
	char complaint[96];
	bool fails = false;

	assert_true(!text == !limit_ns);
	free(command->last);
	command->last = strdup(text ? text : "");
	command->nr_runs++;
	if (command->nr_runs == command->stopped)
		ret->stopped_by = SIGINT;
	if (!text || !*text) {
		ret->nr_reports = command->plain_reports;
		if (command->nr_runs == command->plain_fails)
			*ret = command->fails;
		return 0;
	}
	assert_int_equal(
		uaio_faults_parse(text, &faults, complaint, sizeof(complaint)),
		0);
	fails = make_changes(command, &faults, &changes);
	if (command->only_once)
		fails = command->nr_runs == command->only_once;
	if (fails && command->nr_runs != command->stopped)
		*ret = command->fails;
	if (fails)
		ret->output = strdup("one\ntwo");
	if (wants_stacks && changes.nr)
		changes.all[0].stack = strdup("  here:\n    #0\n");
	ret->changes = changes;
	return 0;
}

/* Return: the messages that the search has printed, which the caller frees. */
static char *search(struct made_up *command, const char *faults, uint64_t nr,
		    bool *ret_has_failed)
{
	char *said, *argv[] = { (char[]){ "./a b" }, (char[]){ "-x'" }, NULL };
	size_t len;
	int status, expected = 0;
	struct uaio_seeds seeds = {
		.first = 1,
		.nr = nr,
		.faults = faults,
		.argv = argv,
		.to = open_memstream(&said, &len),
		.run = run_made_up,
		.arg = command,
	};

	assert_int_equal(uaio_check_seeds(&seeds, &status, ret_has_failed), 0);
	if (command->plain_fails == 1)
		expected = command->fails.status;
	if (command->stopped)
		expected = SIGINT;
	assert_int_equal(status, expected);
	fclose(seeds.to);
	return said;
}

static void the_change_that_a_failure_needs_is_told(void **state)
{
	struct made_up command = {
		.nr_requests = 500,
		.needs = { 123 },
		.fails = { .status = 3 << 8, .nr_reports = 2 },
	};
	bool has_failed;
	char *said = search(&command, NULL, 100, &has_failed);

	(void)state;
	assert_true(has_failed);
	assert_non_null(strstr(said, " fails: its exit status is 3, with 2 "
				     "reports; without changes, its exit "
				     "status is 0\n  It needs 1 of "));
	assert_non_null(strstr(said, " changes, and failed in 3 of 3 runs with "
				     "that alone:\n    short of request 123, "
				     "pread on descriptor 3 (/x): it moves 1 "
				     "of 2 bytes\n"
				     "      here:\n        #0\n"
				     "  What it printed:\n    one\n    two\n"
				     "  To run it again:\n    uaio check "
				     "--fault any:short@seed="));
	assert_non_null(strstr(said, ",only=123 -- './a b' '-x'\\'''\n"));
	assert_non_null(strstr(command.last, ",only=123"));
	assert_null(strstr(command.last, "p="));
	free(command.last);
	free(said);
}

static void the_user_may_have_own_faults(void **state)
{
	struct made_up command = {
		.nr_requests = 40,
		.needs = { 7, 30 },
		.fails = { .status = SIGSEGV },
	};
	bool has_failed;
	char *said =
		search(&command, "nop:eio any:short@min=1", 100, &has_failed);

	(void)state;
	assert_true(has_failed);
	assert_non_null(strstr(said, "seed 1 fails: it is ended by signal 11"));
	assert_non_null(strstr(said, "--fault any:short@min=1,seed=1,only=7+30 "
				     "-- "));
	free(command.last);
	free(said);
}

static void a_failure_by_chance_is_told_as_one(void **state)
{
	struct made_up command = {
		.nr_requests = 40,
		.only_once = 3,
		.fails = { .is_late = true },
	};
	bool has_failed;
	char *said = search(&command, NULL, 100, &has_failed);

	(void)state;
	assert_true(has_failed);
	assert_non_null(strstr(said, "seed 2 fails: it has not ended after 60 "
				     "s;"));
	assert_non_null(strstr(said, "chance, too: it failed in 0 of 3"));
	assert_non_null(strstr(said, "--fault any:short@p=0.5,seed=2 -- "));
	free(command.last);
	free(said);
}

static void runs_without_changes_that_differ_are_told_as_chance(void **state)
{
	/*
	 * Of the four runs without faults, one differs: run 1, with which the tool
	 * compares all runs, or run 4, one of the three repetitions of run 1.
	 */
	static const struct {
		unsigned fails, nr;
	} odd[] = { { 1, 3 }, { 4, 1 } };

	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(odd); i++) {
		struct made_up command = {
			.nr_requests = 40,
			.needs = { odd[i].fails == 1 ? 0 : 7 },
			.fails = { .status = 1 << 8 },
			.plain_fails = odd[i].fails,
		};
		bool has_failed;
		char *said = search(&command, "any:short", 100, &has_failed);
		char expected[96];

		(void)snprintf(expected, sizeof(expected),
			       "  It depends on chance: of 3 more runs without "
			       "changes, %u ended otherwise, too.",
			       odd[i].nr);
		assert_true(has_failed);
		assert_non_null(strstr(said, expected));
		assert_null(strstr(said, "It needs"));
		assert_non_null(strstr(said, "--fault any:short@seed=1 -- "));
		/* four runs without faults, and four with the seed */
		assert_int_equal(command.nr_runs, 8);
		free(command.last);
		free(said);
	}
}

static void a_signal_ends_the_search(void **state)
{
	struct made_up command = { .nr_requests = 40, .stopped = 4 };
	bool has_failed;
	char *said = search(&command, NULL, 100, &has_failed);

	(void)state;
	assert_false(has_failed);
	assert_int_equal(command.nr_runs, 4);
	assert_non_null(strstr(said, "stopped after 2 seeds"));
	free(said);
	free(command.last);
	/*
	 * A signal arrives while the tool tries fewer changes. The tool reports what it
	 * has found until then.
	 */
	command = (struct made_up){
		.nr_requests = 500,
		.needs = { 7, 300 },
		.fails = { .status = 1 << 8 },
		.stopped = 20,
	};
	said = search(&command, "any:short", 100, &has_failed);
	assert_true(has_failed);
	assert_int_equal(command.nr_runs, 20);
	assert_non_null(strstr(said, "It needs at most "));
	assert_non_null(strstr(said, " and failed in 0 of 0 runs"));
	free(said);
	free(command.last);
}

static void it_is_told_that_none_has_failed(void **state)
{
	struct made_up command = { .nr_requests = 40 };
	bool has_failed;
	char *said = search(&command, NULL, 12, &has_failed);

	(void)state;
	assert_false(has_failed);
	assert_int_equal(command.nr_runs, 13);
	assert_non_null(strstr(said, "none of 12 seeds fails, with "));
	free(said);
	free(command.last);
	command = (struct made_up){ .nr_requests = 0 };
	said = search(&command, NULL, 12, &has_failed);
	assert_false(has_failed);
	assert_non_null(strstr(said, "nothing was changed"));
	free(said);
	free(command.last);
	/* The run without faults has a report, so no seed is tried. */
	command = (struct made_up){ .plain_reports = 1 };
	said = search(&command, NULL, 12, &has_failed);
	assert_true(has_failed);
	assert_int_equal(command.nr_runs, 1);
	assert_string_equal(said, "");
	free(said);
	free(command.last);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_needed_is_left),
		cmocka_unit_test(what_has_failed_is_left_when_it_is_stopped),
		cmocka_unit_test(only_whole_lines_are_changes),
		cmocka_unit_test(a_change_is_told_in_a_sentence),
		cmocka_unit_test(the_text_names_what_is_chosen),
		cmocka_unit_test(more_numbers_than_may_be_named_are_refused),
		cmocka_unit_test(each_seed_has_faults_that_can_be_asked_for),
		cmocka_unit_test(the_change_that_a_failure_needs_is_told),
		cmocka_unit_test(the_user_may_have_own_faults),
		cmocka_unit_test(a_failure_by_chance_is_told_as_one),
		cmocka_unit_test(
			runs_without_changes_that_differ_are_told_as_chance),
		cmocka_unit_test(a_signal_ends_the_search),
		cmocka_unit_test(it_is_told_that_none_has_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
