/* SPDX-License-Identifier: MIT */
/* Tested by test/run/check.py. */
#include "tool/check/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/options.h"
#include "tool/common/library.h"
#include "tool/tool.h"

enum { ERROR_STATUS = 99 };

/* A file that the user has named; closed: fd is -1. */
struct output {
	const char *path; /* NULL: the standard error */
	int fd;
	bool has_failed;
};

static struct {
	struct output output, json;
	struct uaio_suppressions suppressions;
	struct uaio_check_places places;
	uint64_t nr_errors, nr_shown, nr_suppressed;
	int exit_status;
	bool is_verbose;
} check = {
	.output.fd = STDERR_FILENO,
	.json.fd = -1,
	.exit_status = ERROR_STATUS,
};

/* options */

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
	     "  --verbose            say what was checked, even if there was "
	     "no error\n"
	     "  -h, --help           show this\n"
	     "\n"
	     "The status is that of the command, or N if there was an error.");
}

enum { JSON = 256, SUPPRESSIONS, STATUS, VERBOSE };

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

static int set_option(int c)
{
	switch (c) {
	case 'o': check.output.path = optarg; return 0;
	case JSON: check.json.path = optarg; return 0;
	case SUPPRESSIONS:
		return uaio_suppressions_read(&check.suppressions, optarg);
	case STATUS: return set_status(optarg);
	case VERBOSE: check.is_verbose = true; return 0;
	default: return EXIT_REFUSED;
	}
}

/*
 * Return: 0 with the command at argv[optind]; -1 if there is nothing left to do, with the
 * exit status in *ret_status.
 */
static int read_flags(int argc, char **argv, int *ret_status)
{
	static const struct option flags[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "json", required_argument, NULL, JSON },
		{ "suppressions", required_argument, NULL, SUPPRESSIONS },
		{ "exit-status", required_argument, NULL, STATUS },
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
	if (optind < argc)
		return 0;
	*ret_status = uaio_diag(EXIT_REFUSED,
				"check: which command? See uaio check --help");
	return -1;
}

/* output */

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

/* In one piece, where it can be: the command may write to the same terminal. */
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

/* reports */

/* Show a report of a place that is new. */
static int judge(struct uaio_report *report)
{
	int verdict = UAIO_CHECK_SHOWN;

	/* A report that is only counted needs no names, which take long. */
	if (check.places.nr < UAIO_CHECK_PLACES_MAX || check.suppressions.nr) {
		uaio_check_symbolize(report);
		verdict = uaio_suppressions_find(&check.suppressions, report);
	}
	if (!uaio_check_places_add(&check.places, report, verdict) ||
	    verdict != UAIO_CHECK_SHOWN)
		return verdict;
	check.nr_shown++;
	print(&check.output, report, uaio_check_print);
	print(&check.json, report, uaio_check_print_json);
	return verdict;
}

static void take_report(struct uaio_report *report, void *arg)
{
	const struct uaio_check_place *place =
		uaio_check_places_find(&check.places, report);
	int verdict = place ? place->verdict : judge(report);

	(void)arg;
	if (verdict == UAIO_CHECK_SHOWN) {
		check.nr_errors++;
		return;
	}
	check.suppressions.all[verdict].nr++;
	check.nr_suppressed++;
}

/* the end */

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

static void say_sums(const struct uaio_check_sums *sums)
{
	uaio_diag(0,
		  "check: %" PRIu64 " request%s of %" PRIu64
		  " process%s, %" PRIu64
		  " with memory of the program; checker in the process: %s%s",
		  sums->nr_requests, plural(sums->nr_requests),
		  sums->nr_processes, sums->nr_processes == 1 ? "" : "es",
		  sums->nr_checked, *sums->checkers ? sums->checkers : "none",
		  check.nr_errors ? "" : "; no error");
}

static void say_end(const struct uaio_check_run *run,
		    const struct uaio_check_sums *sums)
{
	if (check.nr_errors)
		say_errors();
	say_suppressed();
	if (run->is_refused)
		return;
	if (run->leaves_some)
		uaio_diag(0, "check: the command has ended; processes of it "
			     "run on, unchecked");
	if (check.is_verbose)
		say_sums(sums);
	else if (!sums->nr_requests && !check.nr_errors && !check.nr_suppressed)
		uaio_diag(0, "check: nothing was checked: no process said that "
			     "it made a request (uaio doctor COMMAND says "
			     "what can be served)");
}

static void say_missing(const char *dir)
{
	char path[PATH_MAX + sizeof(UAIO_CHECK_LIBRARY)];

	(void)snprintf(path, sizeof(path), "%s/" UAIO_CHECK_LIBRARY, dir);
	if (access(path, R_OK))
		uaio_diag(0,
			  "check: %s is not there: memory that is freed in "
			  "flight is not seen",
			  path);
}

int uaio_check_main(int argc, char **argv)
{
	struct uaio_check_files files = { .report = take_report };
	struct uaio_check_run run = { 0 };
	char dir[PATH_MAX];
	int status;

	if (read_flags(argc, argv, &status) < 0)
		return status;
	status = uaio_library_find(dir);
	if (!status)
		status = open_output(&check.output);
	if (!status)
		status = open_output(&check.json);
	if (!status)
		say_missing(dir);
	if (!status)
		status = uaio_check_follow(&run, &files, argv + optind, NULL);
	if (status)
		return status;
	uaio_check_remove(run.dir);
	say_end(&run, &files.sums);
	uaio_suppressions_free(&check.suppressions);
	free(check.places.all);
	return check.nr_errors && check.exit_status
		       ? check.exit_status
		       : uaio_check_end_as(run.status);
}
