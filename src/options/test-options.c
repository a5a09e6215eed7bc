/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "base/calls.h"
#include "options/names.h"
#include "options/options.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/* An option of kind COUNT, whose bounds have different numbers of digits. */
static const struct uaio_option count = {
	.name = "some-count",
	.variable = "UAIO_SOME_COUNT",
	.kind = UAIO_OPTION_COUNT,
	.min = 3,
	.max = 120,
	.placeholder = "N",
	.help = "",
};

static const struct uaio_option whole_range = {
	.kind = UAIO_OPTION_COUNT,
	.max = UINT64_MAX,
};

static const struct uaio_option on_off = {
	.name = "some-switch",
	.variable = "UAIO_SOME_SWITCH",
	.kind = UAIO_OPTION_SWITCH,
	.help = "",
};

static const struct uaio_option file = {
	.name = "some-file",
	.variable = "UAIO_SOME_FILE",
	.kind = UAIO_OPTION_FILE,
	.placeholder = "[=FILE]",
	.bare = "-",
	.help = "",
};

static const struct uaio_option counts = {
	.name = "some-counts",
	.variable = "UAIO_SOME_COUNTS",
	.kind = UAIO_OPTION_COUNTS,
	.min = 0,
	.max = 120,
	.placeholder = "N[,M]",
	.help = "",
};

static const struct uaio_option number = {
	.name = "some-number",
	.variable = "UAIO_SOME_NUMBER",
	.kind = UAIO_OPTION_NUMBER,
	.min = (uint64_t)-20,
	.max = 19,
	.placeholder = "N",
	.help = "",
};

static const struct uaio_option cpus = {
	.name = "some-cpus",
	.variable = "UAIO_SOME_CPUS",
	.kind = UAIO_OPTION_CPUS_LIST,
	.placeholder = "LIST",
	.help = "",
};

static const struct uaio_option word = {
	.name = "some-word",
	.variable = "UAIO_SOME_WORD",
	.kind = UAIO_OPTION_WORD,
	.words = (const char *const[]){ "one", "two", "three", NULL },
	.placeholder = "WHICH",
	.help = "",
};

static const struct uaio_option bare_word = {
	.name = "some-bare-word",
	.variable = "UAIO_SOME_BARE_WORD",
	.kind = UAIO_OPTION_WORD,
	.words = (const char *const[]){ "zero", "one", "two", NULL },
	.placeholder = "[=WHICH]",
	.bare = "two",
	.help = "",
};

#define COUNTS(first, second) ((first) + 1ull + (((second) + 1ull) << 32))
#define NUMBER(number) ((uint64_t)((number) + 20 + 1))

static const struct {
	const struct uaio_option *opt;
	const char *text;
	int expected;
	uint64_t value;
} rows[] = {
	{ &on_off, "0", 0, 0 },
	{ &on_off, "no", 0, 0 },
	{ &on_off, "off", 0, 0 },
	{ &on_off, "1", 0, 1 },
	{ &on_off, "yes", 0, 1 },
	{ &on_off, "on", 0, 1 },
	{ &on_off, "", -EINVAL, 0 },
	{ &on_off, "2", -EINVAL, 0 },
	{ &on_off, "ye", -EINVAL, 0 },
	{ &on_off, "yess", -EINVAL, 0 },
	{ &on_off, " on", -EINVAL, 0 },
	{ &on_off, "ON", -EINVAL, 0 },
	{ &count, "3", 0, 3 },
	{ &count, "0042", 0, 42 },
	{ &count, "120", 0, 120 },
	{ &count, "2", -EINVAL, 0 },
	{ &count, "121", -EINVAL, 0 },
	{ &count, "1200", -EINVAL, 0 },
	{ &count, "", -EINVAL, 0 },
	{ &count, "-4", -EINVAL, 0 },
	{ &count, "+4", -EINVAL, 0 },
	{ &count, " 4", -EINVAL, 0 },
	{ &count, "4 ", -EINVAL, 0 },
	{ &count, "4k", -EINVAL, 0 },
	{ &count, "0x10", -EINVAL, 0 },
	{ &count, "abc", -EINVAL, 0 },
	{ &count, "18446744073709551620", -EINVAL, 0 },
	{ &whole_range, "18446744073709551615", 0, UINT64_MAX },
	{ &whole_range, "18446744073709551616", -EINVAL, 0 },
	{ &file, "x", 0, 1 },
	{ &file, "-", 0, 1 },
	{ &file, "/a/b.%p.100%%", 0, 1 },
	{ &file, "off", 0, 0 },
	{ &file, "", -EINVAL, 0 },
	{ &file, "%", -EINVAL, 0 },
	{ &file, "a%d", -EINVAL, 0 },
	{ &counts, "0", 0, COUNTS(0, -1) },
	{ &counts, "120", 0, COUNTS(120, -1) },
	{ &counts, "0,0", 0, COUNTS(0, 0) },
	{ &counts, "7,120", 0, COUNTS(7, 120) },
	{ &counts, "", -EINVAL, 0 },
	{ &counts, ",", -EINVAL, 0 },
	{ &counts, "1,", -EINVAL, 0 },
	{ &counts, ",1", -EINVAL, 0 },
	{ &counts, "1,2,3", -EINVAL, 0 },
	{ &counts, "1;2", -EINVAL, 0 },
	{ &counts, "1, 2", -EINVAL, 0 },
	{ &counts, "121", -EINVAL, 0 },
	{ &counts, "1,121", -EINVAL, 0 },
	{ &counts, "-1", -EINVAL, 0 },
	{ &counts, "1,-1", -EINVAL, 0 },
	{ &counts, "0000000000000000000000000000000000001", -EINVAL, 0 },
	{ &number, "-20", 0, NUMBER(-20) },
	{ &number, "-1", 0, NUMBER(-1) },
	{ &number, "0", 0, NUMBER(0) },
	{ &number, "-0", 0, NUMBER(0) },
	{ &number, "19", 0, NUMBER(19) },
	{ &number, "-21", -EINVAL, 0 },
	{ &number, "20", -EINVAL, 0 },
	{ &number, "", -EINVAL, 0 },
	{ &number, "-", -EINVAL, 0 },
	{ &number, "--1", -EINVAL, 0 },
	{ &number, "+1", -EINVAL, 0 },
	{ &number, "4294967295", -EINVAL, 0 },
	{ &number, "-4294967296", -EINVAL, 0 },
	{ &number, "1,1", -EINVAL, 0 },
	{ &cpus, "0", 0, 1 },
	{ &cpus, "0-2,5", 0, 1 },
	{ &cpus, "8191", 0, 1 },
	{ &cpus, "", -EINVAL, 0 },
	{ &cpus, ",", -EINVAL, 0 },
	{ &cpus, "0,", -EINVAL, 0 },
	{ &cpus, "-1", -EINVAL, 0 },
	{ &cpus, "1-", -EINVAL, 0 },
	{ &cpus, "2-1", -EINVAL, 0 },
	{ &cpus, "1-2-3", -EINVAL, 0 },
	{ &cpus, "8192", -EINVAL, 0 },
	{ &cpus, "0-8192", -EINVAL, 0 },
	{ &cpus, "all", -EINVAL, 0 },
	{ &cpus, "0x1", -EINVAL, 0 },
	{ &word, "one", 0, 0 },
	{ &word, "two", 0, 1 },
	{ &word, "three", 0, 2 },
	{ &word, "", -EINVAL, 0 },
	{ &word, "0", -EINVAL, 0 },
	{ &word, "on", -EINVAL, 0 },
	{ &word, "onetwo", -EINVAL, 0 },
	{ &word, "One", -EINVAL, 0 },
	{ &bare_word, "zero", 0, 0 },
	{ &bare_word, "one", 0, 1 },
	{ &bare_word, "two", 0, 2 },
	{ &bare_word, "0", 0, 0 },
	{ &bare_word, "off", 0, 0 },
	{ &bare_word, "1", 0, 2 },
	{ &bare_word, "yes", 0, 2 },
	{ &bare_word, "2", -EINVAL, 0 },
	{ &bare_word, "", -EINVAL, 0 },
	{ &uaio_options[UAIO_OPTION_URING], "auto", 0, UAIO_URING_AUTO },
	{ &uaio_options[UAIO_OPTION_URING], "always", 0, UAIO_URING_ALWAYS },
	{ &uaio_options[UAIO_OPTION_URING], "never", 0, UAIO_URING_NEVER },
	{ &uaio_options[UAIO_OPTION_MAX_NR], "0", 0, 0 },
	{ &uaio_options[UAIO_OPTION_MAX_NR], "4294967295", 0, UINT32_MAX },
	{ &uaio_options[UAIO_OPTION_MAX_NR], "4294967296", -EINVAL, 0 },
};

static void a_value_is_accepted_or_refused_as_its_kind_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(rows); i++) {
		uint64_t value = 77;
		int r = uaio_option_parse(rows[i].opt, rows[i].text, &value);

		if (r != rows[i].expected)
			fail_msg("\"%s\" gives %d, not %d", rows[i].text, r,
				 rows[i].expected);
		assert_int_equal(value, r ? 77 : rows[i].value);
	}
}

static bool is_variable_of(const char *variable, const char *name)
{
	if (strncmp(variable, "UAIO_", 5))
		return false;
	for (variable += 5; *name; variable++, name++) {
		char c = *name == '-' ? '_' : (char)(*name - 'a' + 'A');

		if (*variable != c)
			return false;
	}
	return !*variable;
}

static void every_option_has_the_variable_of_its_name(void **state)
{
	(void)state;
	for (int i = 0; i < UAIO_NR_OPTIONS; i++) {
		const struct uaio_option *opt = &uaio_options[i];

		assert_non_null(opt->name);
		assert_non_null(opt->variable);
		assert_true(is_variable_of(opt->variable, opt->name));
		for (int j = 0; j < i; j++)
			assert_string_not_equal(opt->name,
						uaio_options[j].name);
	}
}

static void every_option_can_be_shown_in_the_help(void **state)
{
	(void)state;
	for (int i = 0; i < UAIO_NR_OPTIONS; i++) {
		const struct uaio_option *opt = &uaio_options[i];

		assert_non_null(opt->help);
		assert_true(*opt->help && strlen(opt->help) <= 40);
		if (opt->kind == UAIO_OPTION_COUNT ||
		    opt->kind == UAIO_OPTION_COUNTS) {
			assert_non_null(opt->placeholder);
			assert_true(opt->min < opt->max);
		}
	}
}

/*
 * An option that is not given has the value 0. So if the user gives the text "0", it
 * must either mean the same as no option, or be stored as a value other than 0. An
 * option of kind WORD is not tested: its value 0 is the first word, the default.
 */
static void zero_is_a_value_of_every_option(void **state)
{
	(void)state;
	for (int i = 0; i < UAIO_NR_OPTIONS; i++) {
		uint64_t value = 1;

		if (uaio_options[i].kind == UAIO_OPTION_WORD)
			continue;
		if (uaio_options[i].kind > UAIO_OPTION_FILE) {
			assert_int_equal(uaio_option_parse(&uaio_options[i],
							   "0", &value),
					 0);
			assert_int_not_equal(value, 0);
			continue;
		}

		assert_int_equal(
			uaio_option_parse(&uaio_options[i], "0", &value), 0);
		assert_int_equal(value, 0);
	}
}

static void a_count_that_is_not_given_is_the_usual_one(void **state)
{
	const struct uaio_option *workers = &uaio_options[UAIO_OPTION_WORKERS];
	static const struct {
		const char *text;
		int counts[2];
	} given[] = {
		{ NULL, { 292, 256 } },
		{ "0", { 0, 256 } },
		{ "7", { 7, 256 } },
		{ "7,0", { 7, 0 } },
		{ "4096,4095", { 4096, 4095 } },
	};

	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(given); i++) {
		uint64_t value = 0;

		if (given[i].text)
			assert_int_equal(uaio_option_parse(workers,
							   given[i].text,
							   &value),
					 0);
		for (int j = 0; j < 2; j++)
			assert_int_equal(uaio_option_count(UAIO_OPTION_WORKERS,
							   value, j),
					 given[i].counts[j]);
	}
}

static void a_number_comes_back_with_its_sign(void **state)
{
	int got = 77;

	(void)state;
	assert_false(uaio_option_number(&number, 0, &got));
	assert_int_equal(got, 77);
	for (int i = -20; i < 20; i++) {
		char text[8];
		uint64_t value;

		snprintf(text, sizeof(text), "%d", i);
		assert_int_equal(uaio_option_parse(&number, text, &value), 0);
		assert_true(uaio_option_number(&number, value, &got));
		assert_int_equal(got, i);
	}
}

static unsigned count_cpus(const struct uaio_cpus *set)
{
	unsigned nr = 0;

	for (size_t i = 0; i < NR_ELEMENTS(set->words); i++)
		nr += (unsigned)__builtin_popcountl(set->words[i]);
	return nr;
}

static bool has_cpu(const struct uaio_cpus *set, unsigned cpu)
{
	unsigned bits = 8 * sizeof(set->words[0]);

	return set->words[cpu / bits] >> cpu % bits & 1;
}

static void a_list_of_processors_has_those_it_names(void **state)
{
	struct uaio_cpus set, allowed;

	(void)state;
	assert_int_equal(uaio_option_cpus("0-2,5,63-65,5,8191", &set), 0);
	assert_int_equal(count_cpus(&set), 8);
	for (unsigned cpu = 63; cpu <= 65; cpu++)
		assert_true(has_cpu(&set, cpu));
	assert_true(has_cpu(&set, 0) && has_cpu(&set, 1) && has_cpu(&set, 2) &&
		    has_cpu(&set, 5) && has_cpu(&set, 8191));

	assert_int_equal(uaio_option_cpus("2-64", &allowed), 0);
	assert_true(uaio_cpus_cut(&set, &allowed));
	assert_int_equal(count_cpus(&set), 4);
	assert_true(has_cpu(&set, 2) && has_cpu(&set, 5) && has_cpu(&set, 63) &&
		    has_cpu(&set, 64));
	assert_int_equal(uaio_option_cpus("3", &allowed), 0);
	assert_false(uaio_cpus_cut(&set, &allowed));

	/*
	 * If the text is no list of processors, uaio_option_cpus() does not change the
	 * set.
	 */
	assert_int_equal(uaio_option_cpus("7", &set), 0);
	assert_int_equal(uaio_option_cpus("1,x", &set), -EINVAL);
	assert_true(has_cpu(&set, 7) && count_cpus(&set) == 1);
}

static void fixed_workers_fit_if_they_are_no_more_than_workers(void **state)
{
	static const struct {
		const char *workers, *fixed;
		bool fit;
	} given[] = {
		{ "4", "4", true },      { "4", "5", false },
		{ "4", "0,16", true },   { "4,3", "4,3", true },
		{ "4,3", "4,4", false }, { "0,0", "0,0", true },
		{ NULL, "16,16", true }, { "4", NULL, true },
		{ "0,0", NULL, true },
	};

	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(given); i++) {
		uint64_t workers = 0, fixed = 0;

		if (given[i].workers)
			uaio_option_parse(&uaio_options[UAIO_OPTION_WORKERS],
					  given[i].workers, &workers);
		if (given[i].fixed)
			uaio_option_parse(&uaio_options[UAIO_OPTION_FIXED],
					  given[i].fixed, &fixed);
		assert_int_equal(uaio_option_fixed_fit(workers, fixed),
				 given[i].fit);
	}
}

static void a_path_means_the_same_everywhere(void **state)
{
	char buf[UAIO_OPTION_PATH_MAX], dir[PATH_MAX], wanted[2 * PATH_MAX];

	(void)state;
	assert_non_null(getcwd(dir, sizeof(dir)));
	uaio_option_absolute(&file, "a.%p", buf);
	snprintf(wanted, sizeof(wanted), "%s/a.%%p", dir);
	assert_string_equal(buf, wanted);
	uaio_option_absolute(&file, "/a.%p", buf);
	assert_string_equal(buf, "/a.%p");
	uaio_option_absolute(&file, "-", buf);
	assert_string_equal(buf, "-");
	uaio_option_absolute(&file, "yes", buf);
	assert_string_equal(buf, "-");
}

static void a_path_has_the_process_id_and_percent_signs(void **state)
{
	char buf[UAIO_OPTION_PATH_MAX], text[UAIO_OPTION_PATH_MAX];

	(void)state;
	assert_int_equal(uaio_option_path("/a%p/%%p.%p", 4194304, buf), 0);
	assert_string_equal(buf, "/a4194304/%p.4194304");
	memset(text, 'x', sizeof(text));
	strcpy(text + sizeof(text) - 20, "%p%p%p%p%p%p%p%p");
	assert_int_equal(uaio_option_path(text, 4194304, buf), -ENAMETOOLONG);
}

static void a_complaint_names_name_value_and_what_is_accepted(void **state)
{
	char buf[UAIO_OPTION_COMPLAINT_MAX];

	(void)state;
	uaio_option_complaint(&uaio_options[UAIO_OPTION_MAX_NR], "UAIO_MAX_NR",
			      "abc", buf, sizeof(buf));
	assert_string_equal(buf, "uaio: UAIO_MAX_NR=abc: expected a number "
				 "from 0 to 4294967295");
	uaio_option_complaint(&uaio_options[UAIO_OPTION_STRICT], "--strict", "",
			      buf, sizeof(buf));
	assert_string_equal(buf, "uaio: --strict=: expected yes, no, on, off, "
				 "1 or 0");
	uaio_option_complaint(&uaio_options[UAIO_OPTION_WORKERS], "--workers",
			      "1,", buf, sizeof(buf));
	assert_string_equal(buf, "uaio: --workers=1,: expected a number from 0 "
				 "to 4096, or two as in 2,1");
	uaio_option_complaint(&uaio_options[UAIO_OPTION_NICE], "--nice", "20",
			      buf, sizeof(buf));
	assert_string_equal(buf, "uaio: --nice=20: expected a number from -20 "
				 "to 19");
	uaio_option_complaint(&uaio_options[UAIO_OPTION_URING], "--uring", "on",
			      buf, sizeof(buf));
	assert_string_equal(buf, "uaio: --uring=on: expected auto, always or "
				 "never");
	uaio_option_complaint(&uaio_options[UAIO_OPTION_CPUS], "--cpus", "x",
			      buf, sizeof(buf));
	assert_string_equal(buf, "uaio: --cpus=x: expected numbers of "
				 "processors, as in 0-2,5");
}

static void a_complaint_is_one_line_whatever_the_value(void **state)
{
	char text[1000], buf[UAIO_OPTION_COMPLAINT_MAX];

	(void)state;
	memset(text, '\n', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	uaio_option_complaint(&whole_range, "UAIO_A_QUITE_LONG_VARIABLE", text,
			      buf, sizeof(buf));
	assert_null(strchr(buf, '\n'));
	assert_non_null(strstr(buf, "...: expected"));
	assert_non_null(strstr(buf, " to 18446744073709551615"));
}

static void a_complaint_is_cut_to_the_room_there_is(void **state)
{
	char buf[9];

	(void)state;
	memset(buf, 'x', sizeof(buf));
	uaio_option_complaint(&on_off, "--some-switch", "?", buf, 8);
	assert_string_equal(buf, "uaio: -");
	assert_int_equal(buf[8], 'x');
}

static const char *best_of(const char *typed)
{
	static const char *const known[] = { "run", "stat", "stats", "trace" };
	struct uaio_like like = { .name = typed };

	for (size_t i = 0; i < NR_ELEMENTS(known); i++)
		uaio_like_compare(&like, known[i]);
	return like.best;
}

static void the_nearest_of_the_known_names_is_found(void **state)
{
	char text[256];

	(void)state;
	assert_string_equal(best_of("stat"), "stat");
	assert_string_equal(best_of("sta"), "stat");
	assert_string_equal(best_of("statss"), "stats");
	assert_string_equal(best_of("trase"), "trace");
	assert_string_equal(best_of("runn"), "run");
	/*
	 * No known name is similar: each has more than two mistakes, or more mistakes
	 * than half the number of typed characters.
	 */
	assert_null(best_of("tracking"));
	assert_null(best_of("rxy"));
	assert_null(best_of("x"));
	assert_null(best_of(""));
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_null(best_of(text));
}

static void what_uaio_run_tells_the_library_is_a_valid_word(void **state)
{
	struct uaio_call_set some = { { 1, 2 } };
	char text[UAIO_CALLS_WORD_MAX];

	(void)state;
	uaio_calls_word(3, &some, text);
	assert_true(uaio_calls_word_is_valid(text));
	assert_true(uaio_calls_word_is_valid("all"));
	assert_true(uaio_calls_word_is_valid(""));
	assert_false(uaio_calls_word_is_valid("foo"));
	assert_false(uaio_calls_word_is_valid("1:2:"));
	assert_false(uaio_calls_word_is_valid("1:2:3g"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_value_is_accepted_or_refused_as_its_kind_says),
		cmocka_unit_test(every_option_has_the_variable_of_its_name),
		cmocka_unit_test(every_option_can_be_shown_in_the_help),
		cmocka_unit_test(zero_is_a_value_of_every_option),
		cmocka_unit_test(a_count_that_is_not_given_is_the_usual_one),
		cmocka_unit_test(a_number_comes_back_with_its_sign),
		cmocka_unit_test(a_list_of_processors_has_those_it_names),
		cmocka_unit_test(
			fixed_workers_fit_if_they_are_no_more_than_workers),
		cmocka_unit_test(a_path_means_the_same_everywhere),
		cmocka_unit_test(a_path_has_the_process_id_and_percent_signs),
		cmocka_unit_test(
			a_complaint_names_name_value_and_what_is_accepted),
		cmocka_unit_test(a_complaint_is_one_line_whatever_the_value),
		cmocka_unit_test(a_complaint_is_cut_to_the_room_there_is),
		cmocka_unit_test(the_nearest_of_the_known_names_is_found),
		cmocka_unit_test(
			what_uaio_run_tells_the_library_is_a_valid_word),
	};

	uaio_calls_load("all");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
