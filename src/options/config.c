/* SPDX-License-Identifier: MIT */
#include "options/config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/calls.h"
#include "base/signals.h"
#include "options/options.h"
#include "options/variables.h"

struct uaio_config uaio_config;
struct uaio_faults uaio_faults;
char uaio_check_directory[UAIO_CHECK_DIRECTORY_MAX];
bool uaio_check_hints;

static void say(char *line)
{
	size_t len = strlen(line);

	line[len] = '\n';
	(void)uaio_write_text(STDERR_FILENO, line, len + 1);
}

/*
 * Return: the value of the environment variable of an option. If its text is invalid,
 * report this once, and return the default.
 */
static uint64_t value_of(enum uaio_option_id id)
{
	const struct uaio_option *option = &uaio_options[id];
	const char *text = secure_getenv(option->variable);
	char line[UAIO_OPTION_COMPLAINT_MAX + 1];
	uint64_t value = 0;

	if (text && uaio_option_parse(option, text, &value) < 0) {
		uaio_option_complaint(option, option->variable, text, line,
				      UAIO_OPTION_COMPLAINT_MAX);
		say(line);
	}
	return value;
}

/*
 * Report environment variables that are probably mistyped. If the program gains
 * privileges (AT_SECURE), the library ignores all its variables, so report nothing.
 */
static void check_names(void)
{
	const char *ignored = secure_getenv(UAIO_IGNORED_VARIABLE);

	if (getauxval(AT_SECURE))
		return;
	for (char **entry = environ; entry && *entry; entry++) {
		size_t name = uaio_variable_unknown(*entry, ignored);
		char line[UAIO_VARIABLE_COMPLAINT_MAX + 1];

		if (!name)
			continue;
		uaio_variable_complaint(*entry, name, line);
		say(line);
	}
}

/*
 * Fixed workers stay when idle. If the user asks for more fixed workers than there may be
 * workers, ignore the option --fixed.
 */
static void check_fixed(void)
{
	const char *variable = uaio_options[UAIO_OPTION_FIXED].variable;
	char line[UAIO_OPTION_COMPLAINT_MAX + 1];

	if (uaio_option_fixed_fit(uaio_config.workers, uaio_config.fixed))
		return;
	uaio_option_complaint_of(variable, secure_getenv(variable),
				 UAIO_OPTION_FIXED_EXPECTED, line,
				 UAIO_OPTION_COMPLAINT_MAX);
	say(line);
	uaio_config.fixed = 0;
}

/*
 * If the value of UAIO_CALLS is invalid, report this. With an invalid value the library
 * behaves as if the variable were unset (base/calls.h, I2): under a seccomp filter it
 * makes only the system calls that any program makes.
 */
static void check_calls(void)
{
	const char *word = secure_getenv(UAIO_CALLS_VARIABLE);
	char line[UAIO_OPTION_COMPLAINT_MAX + 1];

	if (!word || uaio_calls_word_is_valid(word))
		return;
	uaio_option_complaint_of(UAIO_CALLS_VARIABLE, word,
				 UAIO_OPTION_CALLS_EXPECTED, line,
				 UAIO_OPTION_COMPLAINT_MAX);
	say(line);
}

static void load_threads(void)
{
	const struct uaio_option *cpus = &uaio_options[UAIO_OPTION_CPUS];

	if (value_of(UAIO_OPTION_CPUS))
		uaio_config.has_cpus =
			uaio_option_cpus(secure_getenv(cpus->variable),
					 &uaio_config.cpus) == 0;
	uaio_config.has_nice = uaio_option_number(
		&uaio_options[UAIO_OPTION_NICE], value_of(UAIO_OPTION_NICE),
		&uaio_config.nice);
}

/* value_of() has already checked the text, so parsing cannot fail. */
static void load_faults(void)
{
	const char *variable = uaio_options[UAIO_OPTION_FAULT].variable;

	uaio_config.has_faults = value_of(UAIO_OPTION_FAULT) &&
				 uaio_faults_parse(secure_getenv(variable),
						   &uaio_faults, NULL, 0) == 0;
	uaio_config.is_examined =
		uaio_config.has_faults || *uaio_check_directory;
}

/*
 * Only `uaio check` sets the variable UAIO_CHECK, to a path that fits into the buffer.
 * So a longer value is ignored.
 */
static void load_check(void)
{
	const char *directory = secure_getenv(UAIO_CHECK_VARIABLE);

	if (directory && strlen(directory) < sizeof(uaio_check_directory))
		strcpy(uaio_check_directory, directory);
	uaio_check_hints = *uaio_check_directory &&
			   secure_getenv(UAIO_CHECK_HINTS_VARIABLE);
}

void uaio_config_load(void)
{
	uaio_config = (struct uaio_config){
		.max_nr = value_of(UAIO_OPTION_MAX_NR),
		.never_block = value_of(UAIO_OPTION_NEVER_BLOCK),
		.force_worker = value_of(UAIO_OPTION_FORCE_WORKER),
		.is_strict = value_of(UAIO_OPTION_STRICT),
		.bounces = value_of(UAIO_OPTION_BOUNCE),
		.segments = (unsigned)value_of(UAIO_OPTION_SEGMENTS),
		.uring = (enum uaio_uring_when)value_of(UAIO_OPTION_URING),
		.posix = (enum uaio_posix_when)value_of(UAIO_OPTION_POSIX),
		.backend = (enum uaio_backend)value_of(UAIO_OPTION_BACKEND),
		.is_patch_off = value_of(UAIO_OPTION_NO_PATCH),
		.is_verbose = value_of(UAIO_OPTION_VERBOSE),
		.has_report = value_of(UAIO_OPTION_STATS) |
			      value_of(UAIO_OPTION_STATS_JSON),
		/*
		 * If --stats-json is given without --verbose and --stats, do not report
		 * unserved calls, as a program then reads the library's output.
		 */
		.says_lost = value_of(UAIO_OPTION_VERBOSE) |
			     value_of(UAIO_OPTION_STATS),
		.has_live = value_of(UAIO_OPTION_LIVE) == UAIO_LIVE_YES,
		.workers = value_of(UAIO_OPTION_WORKERS),
		.fixed = value_of(UAIO_OPTION_FIXED),
		.max_items = value_of(UAIO_OPTION_MAX_ITEMS),
	};
	uaio_config.has_stats = uaio_config.has_report;
	check_names();
	check_calls();
	check_fixed();
	load_threads();
	load_check();
	load_faults();
	if (uaio_config.is_verbose) {
		char line[] = "uaio: library: libaio, the six AIO calls of "
			      "syscall(2) and what moves rings or closes "
			      "descriptors are interposed\0";
		say(line);
	}
}
