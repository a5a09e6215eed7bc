/* SPDX-License-Identifier: MIT */
/* Tested by test/run/check.py. */
#include "tool/check/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/faults.h"
#include "options/options.h"
#include "tool/common/library.h"
#include "tool/tool.h"

enum { ERROR_STATUS = 99 };

/* An output file that the user has named; fd is -1 while the file is not open. */
struct output {
	const char *path; /* NULL: standard error */
	int fd;
	bool has_failed;
};

static struct {
	struct output output, json;
	struct uaio_suppressions suppressions;
	struct uaio_check_places places;
	struct uaio_check_seeds seeds;
	uint64_t nr_errors, nr_shown, nr_suppressed, nr_hints, nr_hints_shown;
	int exit_status;
	bool is_verbose;
} check = {
	.output.fd = STDERR_FILENO,
	.json.fd = -1,
	.exit_status = ERROR_STATUS,
};

/* Options */

static void print_help(void)
{
	puts("usage: uaio check [option...] [--] command [argument...]\n"
	     "\n"
	     "Runs the command as uaio run --uring=always does, and reports "
	     "wrong uses of\n"
	     "kernel AIO, io_uring and POSIX AIO: memory that is freed, "
	     "changed "
	     "or used twice\n"
	     "while a request uses it, and the like. uaio-check(1) has the "
	     "list.\n"
	     "\n"
	     "  -o, --output FILE    write the reports to FILE, not to the "
	     "standard error\n"
	     "  --json FILE          write them to FILE, too, a JSON object a "
	     "line\n"
	     "  --suppressions FILE  leave out what FILE names: lines "
	     "KIND:PATTERN\n"
	     "  --exit-status N      the status if there was an error; 99 "
	     "without this option\n"
	     "  --fault SPEC         make faults, as uaio run does: "
	     "uaio-fault(7)\n"
	     "  --seeds N            run the command N times more, with late, "
	     "reordered, deferred\n"
	     "                       and short requests, until it fails; say "
	     "what it needs to fail\n"
	     "  --seed K             the same for seed K alone\n"
	     "  --timeout SECONDS    of each such run; then it has failed\n"
	     "  --hints              report also what is allowed, and seldom "
	     "meant; no error\n"
	     "  --verbose            say what was checked, even if there was "
	     "no error\n"
	     "  -h, --help           show this\n"
	     "\n"
	     "The status is that of the command, or N if there was an error or "
	     "a seed failed.");
}

enum {
	JSON = 256,
	SUPPRESSIONS,
	STATUS,
	VERBOSE,
	FAULT,
	SEEDS,
	SEED,
	TIMEOUT,
	HINTS,
};

static int set_status(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value > 255)
		return uaio_diag(EXIT_REFUSED,
				 "--exit-status=%s: expected a number from 0 "
				 "to 255",
				 text);
	check.exit_status = (int)value;
	return 0;
}

/* Return: whether text is a number from 1 to max. */
static bool read_count(const char *text, uint64_t max, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *ret &&
	       *ret <= max;
}

static int set_seeds(bool is_one, const char *text)
{
	uint64_t number;

	if (!read_count(text, UINT32_MAX, &number))
		return uaio_diag(EXIT_REFUSED,
				 "--%s=%s: expected a number from 1",
				 is_one ? "seed" : "seeds", text);
	if (check.seeds.nr)
		return uaio_diag(EXIT_REFUSED,
				 "check: --seeds and --seed: give one of them");
	check.seeds.first = is_one ? number : 1;
	check.seeds.nr = is_one ? 1 : number;
	return 0;
}

static int set_timeout(const char *text)
{
	uint64_t seconds;

	if (!read_count(text, 1000000, &seconds))
		return uaio_diag(EXIT_REFUSED,
				 "--timeout=%s: expected seconds, from 1",
				 text);
	check.seeds.limit_ns = (int64_t)seconds * 1000000000;
	return 0;
}

/*
 * Add the faults in `text` to those of earlier options. given_as: the option or
 * variable that has the text, for messages.
 */
static int add_faults(const char *given_as, const char *text)
{
	const struct uaio_option *option = &uaio_options[UAIO_OPTION_FAULT];
	char line[UAIO_OPTION_COMPLAINT_MAX], *both;
	uint64_t value;

	if (uaio_option_parse(option, text, &value)) {
		uaio_option_complaint(option, given_as, text, line,
				      sizeof(line));
		fprintf(stderr, "%s\n", line);
		return EXIT_REFUSED;
	}
	if (value && check.seeds.faults) {
		/* Nothing frees this text before the tool exits. */
		if (asprintf(&both, "%s %s", check.seeds.faults, text) < 0)
			return uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM));
		text = both;
		if (uaio_option_parse(option, text, &value))
			return uaio_diag(EXIT_REFUSED,
					 "--fault: at most %d faults",
					 UAIO_FAULTS_MAX);
	}
	check.seeds.faults = value ? text : NULL;
	return 0;
}

/*
 * With --seeds, take the faults from UAIO_FAULT, unless the option --fault gives some.
 * Unset UAIO_FAULT, because the first run must be without faults.
 */
static int take_variable(void)
{
	const char *variable = uaio_options[UAIO_OPTION_FAULT].variable;
	char *text = getenv(variable);

	if (!check.seeds.nr || !text)
		return 0;
	text = check.seeds.faults ? NULL : strdup(text);
	(void)unsetenv(variable);
	return text ? add_faults(variable, text) : 0;
}

static int set_option(int c)
{
	switch (c) {
	case FAULT: return add_faults("--fault", optarg);
	case SEEDS: return set_seeds(false, optarg);
	case SEED: return set_seeds(true, optarg);
	case TIMEOUT: return set_timeout(optarg);
	case 'o': check.output.path = optarg; return 0;
	case JSON: check.json.path = optarg; return 0;
	case SUPPRESSIONS:
		return uaio_suppressions_read(&check.suppressions, optarg);
	case STATUS: return set_status(optarg);
	case HINTS: check.seeds.has_hints = true; return 0;
	case VERBOSE: check.is_verbose = true; return 0;
	default: return EXIT_REFUSED;
	}
}

/*
 * Return: 0: the command is at argv[optind]. -1: there is nothing to do, and
 * *ret_status is the exit status.
 */
static int read_flags(int argc, char **argv, int *ret_status)
{
	static const struct option flags[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "json", required_argument, NULL, JSON },
		{ "suppressions", required_argument, NULL, SUPPRESSIONS },
		{ "exit-status", required_argument, NULL, STATUS },
		{ "fault", required_argument, NULL, FAULT },
		{ "seeds", required_argument, NULL, SEEDS },
		{ "seed", required_argument, NULL, SEED },
		{ "timeout", required_argument, NULL, TIMEOUT },
		{ "hints", no_argument, NULL, HINTS },
		{ "verbose", no_argument, NULL, VERBOSE },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = uaio_flags_next(argc, argv, "+ho:", flags)) != -1) {
		*ret_status = 0;
		if (c == 'h')
			print_help();
		else
			*ret_status = set_option(c);
		if (c == 'h' || *ret_status)
			return -1;
	}
	if (optind < argc && (check.seeds.nr || !check.seeds.limit_ns))
		return 0;
	*ret_status = uaio_diag(
		EXIT_REFUSED,
		optind < argc ? "check: --timeout is for --seeds and --seed"
			      : "check: which command? See uaio check --help");
	return -1;
}

/* Output */

static int open_output(struct output *output)
{
	if (!output->path)
		return 0;
	output->fd = open(output->path,
			  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (output->fd < 0)
		return uaio_diag(EXIT_REFUSED, "check: %s: %s", output->path,
				 strerror(errno));
	return 0;
}

/*
 * Write the text by a single system call if possible. Otherwise the command's output
 * on the same terminal might appear between its parts.
 */
static void put(struct output *output, const char *text, size_t len)
{
	while (len && !output->has_failed) {
		ssize_t nr = write(output->fd, text, len);

		if (nr < 0 && errno == EINTR)
			continue;
		if (nr <= 0) {
			output->has_failed = true;
			(void)uaio_diag(0, "check: cannot write: %s",
					strerror(errno));
			return;
		}
		text += nr;
		len -= (size_t)nr;
	}
}

static void print(struct output *output, const struct uaio_report *report,
		  void (*print_report)(FILE *to,
				       const struct uaio_report *report))
{
	char *text = NULL;
	size_t len;
	FILE *to;

	if (output->fd < 0)
		return;
	to = uaio_check_memory(open_memstream(&text, &len));
	print_report(to, report);
	if (fclose(to) == 0)
		put(output, text, len);
	free(text);
}

static void print_seed(const char *what, const char *command)
{
	char *text = NULL;
	size_t len;
	FILE *to;

	if (check.json.fd < 0)
		return;
	to = uaio_check_memory(open_memstream(&text, &len));
	uaio_check_print_seed_json(to, what, command);
	if (fclose(to) == 0)
		put(&check.json, text, len);
	free(text);
}

/* Reports */

static bool is_hint(const struct uaio_report *report)
{
	const struct uaio_check_kind *kind = uaio_check_kind_find(report->kind);

	return kind && kind->is_hint;
}

/*
 * Called for the first report from a place (uaio_check_place_of()): show the report, or
 * suppress it.
 * Return: the verdict (struct uaio_check_place).
 */
static int judge(struct uaio_report *report, uint64_t hash)
{
	int verdict = UAIO_CHECK_SHOWN;

	/*
	 * Finding symbols takes long, so do it only if the report may be shown, or
	 * compared with suppressions. Once the table of places is full, new reports
	 * are only counted.
	 */
	if (check.places.nr < UAIO_CHECK_PLACES_MAX || check.suppressions.nr) {
		uaio_check_symbolize(report);
		verdict = uaio_suppressions_find(&check.suppressions, report);
	}
	if (!uaio_check_places_add(&check.places, hash, verdict) ||
	    verdict != UAIO_CHECK_SHOWN)
		return verdict;
	if (is_hint(report))
		check.nr_hints_shown++;
	else
		check.nr_shown++;
	print(&check.output, report, uaio_check_print);
	print(&check.json, report, uaio_check_print_json);
	return verdict;
}

static void take_report(struct uaio_report *report, void *arg)
{
	const uint64_t hash = uaio_check_place_of(report);
	const struct uaio_check_place *place;
	int verdict;

	(void)arg;
	if (!strcmp(report->kind, UAIO_CHECK_CHANGE))
		return;
	place = uaio_check_places_find(&check.places, hash);
	verdict = place ? place->verdict : judge(report, hash);
	if (verdict == UAIO_CHECK_SHOWN) {
		if (is_hint(report))
			check.nr_hints++;
		else
			check.nr_errors++;
		return;
	}
	check.suppressions.all[verdict].nr++;
	check.nr_suppressed++;
}

/* The end of the run: the summary */

static const char *plural(uint64_t nr)
{
	return nr == 1 ? "" : "s";
}

static void say_errors(void)
{
	uaio_diag(0, "check: %" PRIu64 " error%s at %" PRIu64 " place%s%s%s%s",
		  check.nr_errors, plural(check.nr_errors), check.nr_shown,
		  plural(check.nr_shown),
		  check.places.nr == UAIO_CHECK_PLACES_MAX
			  ? ", and others that are not shown"
			  : "",
		  check.output.path ? ": see " : "",
		  check.output.path ? check.output.path : "");
}

static void say_hints(void)
{
	if (check.nr_hints)
		uaio_diag(0, "check: %" PRIu64 " hint%s at %" PRIu64 " place%s",
			  check.nr_hints, plural(check.nr_hints),
			  check.nr_hints_shown, plural(check.nr_hints_shown));
}

static void say_suppressed(void)
{
	for (unsigned i = 0; i < check.suppressions.nr; i++) {
		const struct uaio_suppression *suppression =
			&check.suppressions.all[i];

		if (suppression->nr)
			uaio_diag(0,
				  "check: suppressed %" PRIu64
				  " time%s by %s:%u: %s:%s",
				  suppression->nr, plural(suppression->nr),
				  suppression->file, suppression->line,
				  suppression->kind, suppression->pattern);
	}
}

static void say_sums(const struct uaio_check_run *run,
		     const struct uaio_check_sums *sums)
{
	uaio_diag(0,
		  "check: %" PRIu64 " request%s of %" PRIu64
		  " process%s, %" PRIu64
		  " with memory of the program; checker in the process: %s%s",
		  sums->nr_requests, plural(sums->nr_requests),
		  sums->nr_processes, sums->nr_processes == 1 ? "" : "es",
		  sums->nr_checked, *sums->checkers ? sums->checkers : "none",
		  check.nr_errors || run->has_lost || !sums->nr_processes
			  ? ""
			  : "; no error");
	if (sums->nr_processes > sums->nr_ended)
		uaio_diag(0,
			  "check: %" PRIu64 " of them ended by a signal or "
			  "an exec, and are not counted",
			  sums->nr_processes - sums->nr_ended);
}

static void say_end(const struct uaio_check_run *run,
		    const struct uaio_check_sums *sums)
{
	if (check.nr_errors)
		say_errors();
	say_hints();
	say_suppressed();
	if (run->is_refused)
		return;
	if (run->leaves_some)
		uaio_diag(0, "check: the command has ended; processes of it "
			     "run on, unchecked");
	if (check.is_verbose)
		say_sums(run, sums);
	if (!sums->nr_processes && !check.nr_errors && !check.nr_hints &&
	    !check.nr_suppressed && !run->has_lost)
		uaio_diag(0, "check: nothing was checked: no process said that "
			     "it made a request (uaio doctor COMMAND says "
			     "what can be served)");
}

static void say_missing(const char *dir)
{
	char path[PATH_MAX + sizeof(UAIO_CHECK_LIBRARY)];

	(void)snprintf(path, sizeof(path), "%s/" UAIO_CHECK_LIBRARY, dir);
	if (uaio_library_try(path))
		uaio_diag(0,
			  "check: %s is not there, or cannot be loaded: memory "
			  "that is freed in flight is not seen",
			  path);
}

/*
 * Run the command once.
 * Return: 0, and *ret_status is the command's status; or an exit status after a
 * message.
 */
static int run_once(char **argv, int *ret_status)
{
	struct uaio_check_files files = { .report = take_report };
	const struct uaio_check_how how = { .faults = check.seeds.faults,
					    .has_hints = check.seeds.has_hints,
					    .output = -1 };
	struct uaio_check_run run = { 0 };
	int status = uaio_check_follow(&run, &files, argv, &how);

	if (status)
		return status;
	uaio_check_remove(run.dir);
	say_end(&run, &files.sums);
	*ret_status = run.status;
	return run.has_lost && !check.nr_errors ? EXIT_REFUSED : 0;
}

static int run_seeds(char **argv, int *ret_status, bool *ret_has_failed)
{
	int status;

	check.seeds.tell_failed = print_seed;
	status = uaio_check_run_seeds(&check.seeds, argv, take_report,
				      &check.nr_errors, ret_status,
				      ret_has_failed);

	if (status)
		return status;
	if (check.nr_errors)
		say_errors();
	say_hints();
	say_suppressed();
	return 0;
}

int uaio_check_main(int argc, char **argv)
{
	bool has_failed = false;
	char dir[PATH_MAX];
	int status, ended;

	if (read_flags(argc, argv, &status) < 0)
		return status;
	argv += optind;
	uaio_check_ignore_xfsz();
	status = take_variable();
	if (!status)
		status = uaio_library_find(dir);
	if (!status)
		status = open_output(&check.output);
	if (!status)
		status = open_output(&check.json);
	if (!status)
		say_missing(dir);
	if (!status)
		status = check.seeds.nr ? run_seeds(argv, &ended, &has_failed)
					: run_once(argv, &ended);
	if (status)
		return status;
	uaio_suppressions_free(&check.suppressions);
	free(check.places.all);
	return (check.nr_errors || has_failed) && check.exit_status
		       ? check.exit_status
		       : uaio_check_end_as(ended);
}
