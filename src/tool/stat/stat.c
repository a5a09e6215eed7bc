/* SPDX-License-Identifier: MIT */
/*
 * uaio stat: prints the counts of processes. Each process publishes its counts in a
 * file, its page (pages.h)
 *
 * Tested by test/run/live.py.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool/common/pages.h"
#include "tool/tool.h"

static const char *state_of(const struct uaio_page *page)
{
	return page->is_running ? "running" : "ended";
}

/* Output for people */

static void print_us(uint64_t ns)
{
	printf(" %10" PRIu64 ".%" PRIu64, ns / 1000, ns % 1000 / 100);
}

static void print_ops(const struct uaio_page *page)
{
	printf("  %-15s", "requests");
	for (unsigned way = 0; way < page->identity.nr_ways; way++)
		printf(" %12s", page->names.ways[way]);
	puts("");
	for (unsigned op = 0; op < page->identity.nr_ops; op++) {
		uint64_t sum = 0;

		for (unsigned way = 0; way < page->identity.nr_ways; way++)
			sum += page->nr_by_way[op][way];
		if (!sum)
			continue;
		printf("  %-15s", page->names.ops[op]);
		for (unsigned way = 0; way < page->identity.nr_ways; way++)
			printf(" %12" PRIu64, page->nr_by_way[op][way]);
		puts("");
	}
}

/*
 * Print the name of a measured time, such as queue_wait, with blanks for underscores.
 * The library's report at a program's end shows the names in the same way.
 */
static void print_time_name(const char *name)
{
	char shown[UAIO_LIVE_NAME];

	(void)snprintf(shown, sizeof(shown), "%s", name);
	for (char *at = shown; (at = strchr(at, '_')); at++)
		*at = ' ';
	printf("  %-15s", shown);
}

static void print_times(const struct uaio_page *page)
{
	printf("  %-15s %12s %12s %12s %12s\n", "time in us", "p50", "p99",
	       "p99.9", "max");
	for (unsigned i = 0; i < page->identity.nr_times; i++) {
		const struct uaio_page_time *time = &page->times[i];

		if (!time->nr)
			continue;
		print_time_name(page->names.times[i]);
		print_us(time->p50);
		print_us(time->p99);
		print_us(time->p999);
		print_us(time->max);
		puts("");
	}
	if (page->nr_sampled)
		puts("  times: sampled 1 in 16");
}

/* If there are requests in flight, print how many are in which state. */
static void print_stays(const struct uaio_page *page)
{
	const char *separator = " (";

	for (unsigned i = 0; i < page->identity.nr_stays; i++) {
		if (!page->nr_there[i])
			continue;
		printf("%s%s %" PRIu64, separator, page->names.stays[i],
		       page->nr_there[i]);
		separator = ", ";
	}
	if (page->nr_executing)
		printf("%sexecuting %" PRIu64, separator, page->nr_executing);
	if (separator[0] == ',' || page->nr_executing)
		putchar(')');
}

/* Print a number and a noun, which is plural unless the number is 1. */
static void print_number(const char *before, uint64_t nr, const char *noun)
{
	printf("%s%" PRIu64 " %s%s", before, nr, noun, nr == 1 ? "" : "s");
}

/*
 * Return: how many rings the process has set up. The process may write any number to
 * its page, so the result is at most nr_setups, the number of all rings and contexts.
 */
static uint64_t nr_rings(const struct uaio_page *page)
{
	const struct uaio_live_gauges *gauges = &page->gauges;

	return gauges->nr_rings < gauges->nr_setups ? gauges->nr_rings
						    : gauges->nr_setups;
}

static uint64_t nr_contexts(const struct uaio_page *page)
{
	return page->gauges.nr_setups - nr_rings(page);
}

static void print_head(const struct uaio_page *page)
{
	const uint64_t contexts = nr_contexts(page), rings = nr_rings(page);

	printf("%s[%d]: %s", page->identity.comm, page->pid, state_of(page));
	print_number(", ", page->nr_accepted, "request");
	printf(", completed %" PRIu64, page->nr_completed);
	if (contexts || !rings)
		print_number(", ", contexts, "context");
	if (rings)
		print_number(contexts ? " and " : ", ", rings, "ring");
	puts("");
}

static void print_block(const struct uaio_page *page)
{
	print_head(page);
	printf("  in flight %" PRIu64, page->nr_in_flight);
	print_stays(page);
	printf(", at most %" PRIu32 "; threads %" PRIu32 ", at most %" PRIu32
	       "\n",
	       page->gauges.peak_in_flight, page->gauges.nr_threads,
	       page->gauges.peak_threads);
	print_ops(page);
	print_times(page);
}

static void print_moment(const char *what, uint64_t real_ns)
{
	time_t seconds = (time_t)(real_ns / 1000000000);
	char text[32];
	struct tm tm;

	if (localtime_r(&seconds, &tm) &&
	    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
		printf(", %s %s", what, text);
}

/*
 * The page of an ended process remains only if the process was killed. So the page does
 * not contain the time of the end. Print when the process began, and when the user was
 * first shown that it had ended.
 */
static void print_ended(const struct uaio_page *page)
{
	printf("%s[%d]: ended", page->identity.comm, page->pid);
	print_number(", ", page->nr_accepted, "request");
	print_moment("began", page->identity.born_real_ns);
	if (page->identity.read_ns)
		print_moment("first seen ended", page->identity.read_ns);
	puts("");
}

/*
 * Print running processes in full. Print one line for each of the SHOWN newest ended
 * processes. Leave out older ones, because a program that is killed repeatedly leaves
 * many pages.
 */
static void print_overview(const struct uaio_pages *pages)
{
	enum { SHOWN = 10 };
	unsigned nr_running = 0, first;

	if (!pages->nr && !pages->nr_foreign)
		(void)uaio_diag(0, "stat: no process of this user has counts: "
				   "uaio run starts programs that do");
	while (nr_running < pages->nr && pages->pages[nr_running].is_running)
		print_block(&pages->pages[nr_running++]);
	first = pages->nr - nr_running > SHOWN ? pages->nr - SHOWN : nr_running;
	for (unsigned i = first; i < pages->nr; i++) {
		print_ended(&pages->pages[i]);
		uaio_page_seen(&pages->pages[i]);
	}
	if (first > nr_running)
		printf("and %u more: uaio stat --ended\n", first - nr_running);
}

/* JSON output: one object of stats.schema.json per line */

static void json_numbers(const char (*names)[UAIO_LIVE_NAME],
			 const uint64_t *numbers, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		printf("%s\"%s\": %" PRIu64, i ? ", " : "", names[i],
		       numbers[i]);
}

static void print_json(const struct uaio_page *page)
{
	printf("{\"schema\": 2, \"pid\": %d, \"comm\": \"%s\", "
	       "\"state\": \"%s\", \"contexts\": %" PRIu64
	       ", \"rings\": %" PRIu64 ", \"submits\": %" PRIu64
	       ", \"accepted\": %" PRIu64 ", \"completed\": %" PRIu64
	       ", \"wakeups\": %" PRIu64 ", \"in_flight\": %" PRIu64
	       ", \"peak_in_flight\": %" PRIu32
	       ", \"now\": {\"executing\": %" PRIu64,
	       page->pid, page->identity.comm, state_of(page),
	       nr_contexts(page), nr_rings(page), page->nr_submits,
	       page->nr_accepted, page->nr_completed, page->gauges.nr_wakeups,
	       page->nr_in_flight, page->gauges.peak_in_flight,
	       page->nr_executing);
	for (unsigned i = 0; i < page->identity.nr_stays; i++)
		printf(", \"%s\": %" PRIu64, page->names.stays[i],
		       page->nr_there[i]);
	printf("}, \"threads\": {\"now\": %" PRIu32 ", \"started\": %" PRIu32
	       ", \"peak\": %" PRIu32 "}, \"requests\": {",
	       page->gauges.nr_threads, page->gauges.nr_threads_ever,
	       page->gauges.peak_threads);
	for (unsigned op = 0; op < page->identity.nr_ops; op++) {
		printf("%s\"%s\": {", op ? ", " : "", page->names.ops[op]);
		json_numbers(page->names.ways, page->nr_by_way[op],
			     page->identity.nr_ways);
		printf("}");
	}
	printf("}, \"direct\": {");
	json_numbers(page->names.directs, page->nr_direct,
		     page->identity.nr_directs);
	printf("}, \"faults\": {");
	json_numbers(page->names.faults, page->nr_faults,
		     page->identity.nr_faults);
	printf("}, \"ns\": {");
	for (unsigned i = 0; i < page->identity.nr_times; i++) {
		const struct uaio_page_time *time = &page->times[i];

		printf("%s\"%s\": {\"count\": %" PRIu64 ", \"p50\": %" PRIu64
		       ", \"p99\": %" PRIu64 ", \"p99.9\": %" PRIu64
		       ", \"max\": %" PRIu64 "}",
		       i ? ", " : "", page->names.times[i], time->nr, time->p50,
		       time->p99, time->p999, time->max);
	}
	printf("}, \"sampled\": %" PRIu64 "}\n", page->nr_sampled);
}

/* OpenMetrics 1.0 output */

static void print_labels(const struct uaio_page *page)
{
	printf("pid=\"%d\",comm=\"%s\"", page->pid, page->identity.comm);
}

static void head(const char *name, const char *type, const char *help)
{
	printf("# TYPE uaio_%s %s\n# HELP uaio_%s %s\n", name, type, name,
	       help);
}

static void one_number(const struct uaio_page *page, const char *name,
		       uint64_t number)
{
	printf("uaio_%s{", name);
	print_labels(page);
	printf("} %" PRIu64 "\n", number);
}

static void each_request(const struct uaio_page *page)
{
	for (unsigned op = 0; op < page->identity.nr_ops; op++)
		for (unsigned way = 0; way < page->identity.nr_ways; way++) {
			if (!page->nr_by_way[op][way])
				continue;
			printf("uaio_requests_total{");
			print_labels(page);
			printf(",operation=\"%s\",way=\"%s\"} %" PRIu64 "\n",
			       page->names.ops[op], page->names.ways[way],
			       page->nr_by_way[op][way]);
		}
}

static void one_quantile(const struct uaio_page *page, const char *time,
			 const char *quantile, uint64_t ns)
{
	printf("uaio_time_seconds{");
	print_labels(page);
	printf(",time=\"%s\",quantile=\"%s\"} %" PRIu64 ".%09" PRIu64 "\n",
	       time, quantile, ns / 1000000000, ns % 1000000000);
}

static void each_time(const struct uaio_page *page)
{
	for (unsigned i = 0; i < page->identity.nr_times; i++) {
		const struct uaio_page_time *time = &page->times[i];

		if (!time->nr)
			continue;
		one_quantile(page, page->names.times[i], "0.5", time->p50);
		one_quantile(page, page->names.times[i], "0.99", time->p99);
		one_quantile(page, page->names.times[i], "0.999", time->p999);
		printf("uaio_time_seconds_count{");
		print_labels(page);
		printf(",time=\"%s\"} %" PRIu64 "\n", page->names.times[i],
		       time->nr);
	}
}

static void each_up(const struct uaio_page *page)
{
	one_number(page, "running", page->is_running);
}

static void each_completed(const struct uaio_page *page)
{
	one_number(page, "completed_total", page->nr_completed);
}

static void each_sampled(const struct uaio_page *page)
{
	one_number(page, "sampled_calls_total", page->nr_sampled);
}

static void each_in_flight(const struct uaio_page *page)
{
	one_number(page, "in_flight", page->nr_in_flight);
}

static void one_stay(const struct uaio_page *page, const char *name,
		     uint64_t nr)
{
	printf("uaio_requests_now{");
	print_labels(page);
	printf(",where=\"%s\"} %" PRIu64 "\n", name, nr);
}

static void each_stay(const struct uaio_page *page)
{
	for (unsigned i = 0; i < page->identity.nr_stays; i++)
		one_stay(page, page->names.stays[i], page->nr_there[i]);
	one_stay(page, "executing", page->nr_executing);
}

static void each_thread(const struct uaio_page *page)
{
	one_number(page, "threads", page->gauges.nr_threads);
}

static void print_metrics(const struct uaio_page *pages, unsigned nr,
			  const bool *is_wanted)
{
	static const struct {
		const char *name, *type, *help;
		void (*each)(const struct uaio_page *page);
	} metrics[] = {
		{ "running", "gauge",
		  "1 while the process runs, 0 once it has ended.", each_up },
		{ "requests", "counter",
		  "Requests accepted, by operation and the way they went.",
		  each_request },
		{ "completed", "counter", "Requests completed.",
		  each_completed },
		{ "in_flight", "gauge",
		  "Requests accepted and not complete, but those inline.",
		  each_in_flight },
		{ "requests_now", "gauge",
		  "Of the requests in flight, those that are there.",
		  each_stay },
		{ "threads", "gauge", "Threads of the library.", each_thread },
		{ "time_seconds", "summary",
		  "How long requests took; sampled 1 in 16 if "
		  "uaio_sampled_calls_total is not 0.",
		  each_time },
		{ "sampled_calls", "counter",
		  "Calls of which each stands for 16 in uaio_time_seconds.",
		  each_sampled },
	};

	for (unsigned i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
		head(metrics[i].name, metrics[i].type, metrics[i].help);
		for (unsigned at = 0; at < nr; at++)
			if (is_wanted[at])
				metrics[i].each(&pages[at]);
	}
	puts("# EOF");
}

/* The command */

enum format { FOR_PEOPLE, AS_JSON, AS_METRICS };

struct wish {
	enum format format;
	bool has_ended; /* print ended processes in full */
	bool has_pids;
};

static void print_help(void)
{
	puts("usage: uaio stat [option...] [pid...]\n"
	     "\n"
	     "Prints counts of the requests of processes that use the library, "
	     "and the last counts\n"
	     "of processes that were killed.\n"
	     "\n"
	     "  --ended        those that have ended in full, too, and all of "
	     "them\n"
	     "  --json         a line of JSON for each process\n"
	     "  --openmetrics  for Prometheus and its like\n"
	     "  -h, --help     show this");
}

/* Return: -1 if the command must go on; otherwise the exit status. */
static int read_flags(int argc, char **argv, struct wish *ret)
{
	static const struct option flags[] = {
		{ "ended", no_argument, NULL, 'e' },
		{ "json", no_argument, NULL, 'j' },
		{ "openmetrics", no_argument, NULL, 'o' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = uaio_flags_next(argc, argv, "h", flags)) != -1) {
		switch (c) {
		case 'e': ret->has_ended = true; break;
		case 'j': ret->format = AS_JSON; break;
		case 'o': ret->format = AS_METRICS; break;
		case 'h': print_help(); return EXIT_SUCCESS;
		default: return EXIT_REFUSED;
		}
	}
	ret->has_pids = optind < argc;
	return -1;
}

/*
 * Set is_wanted for the pages of a process; pid 0: for all pages.
 * Return: how many pages these are.
 */
static unsigned mark(const struct uaio_pages *pages, int pid, bool *is_wanted)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < pages->nr; i++)
		if (!pid || pages->pages[i].pid == pid) {
			is_wanted[i] = true;
			nr++;
		}
	return nr;
}

static int mark_all(const struct uaio_pages *pages, int argc, char **argv,
		    bool *is_wanted)
{
	int status = EXIT_SUCCESS;

	if (optind == argc)
		(void)mark(pages, 0, is_wanted);
	for (int i = optind; i < argc; i++) {
		int pid = uaio_pages_pid(argv[i]);

		if (pid < 0)
			return uaio_diag(EXIT_REFUSED,
					 "stat: %s: expected a process id",
					 argv[i]);
		if (!mark(pages, pid, is_wanted))
			status = uaio_diag(
				EXIT_FAILURE,
				"stat: %d: no counts of such a process; does "
				"it "
				"use the library, without --live=off, as this "
				"user?",
				pid);
	}
	return status;
}

static void print_all(const struct uaio_pages *pages, const bool *is_wanted,
		      enum format format)
{
	if (format == AS_METRICS)
		print_metrics(pages->pages, pages->nr, is_wanted);
	for (unsigned i = 0; i < pages->nr; i++) {
		if (!is_wanted[i])
			continue;
		if (format == FOR_PEOPLE)
			print_block(&pages->pages[i]);
		if (format == AS_JSON)
			print_json(&pages->pages[i]);
		uaio_page_seen(&pages->pages[i]);
	}
}

static void print_wanted(const struct uaio_pages *pages, const bool *is_wanted,
			 const struct wish *wish)
{
	if (wish->format == FOR_PEOPLE && !wish->has_ended && !wish->has_pids)
		print_overview(pages);
	else
		print_all(pages, is_wanted, wish->format);
}

int uaio_stat_main(int argc, char **argv)
{
	struct wish wish = { 0 };
	int status = read_flags(argc, argv, &wish);
	struct uaio_pages pages;
	bool *is_wanted;

	if (status >= 0)
		return status;
	is_wanted = uaio_pages_read(&pages, false) < 0
			    ? NULL
			    : calloc(pages.nr + 1, sizeof(*is_wanted));
	if (!is_wanted)
		return uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM));
	status = mark_all(&pages, argc, argv, is_wanted);
	if (status != EXIT_REFUSED)
		print_wanted(&pages, is_wanted, &wish);
	/*
	 * If a process that the user has named was not found, perhaps another version
	 * of uaio wrote its page, which this version cannot read.
	 */
	if (pages.nr_foreign && (!wish.has_pids || status == EXIT_FAILURE))
		(void)uaio_diag(0, "stat: %u of another version of uaio",
				pages.nr_foreign);
	free(is_wanted);
	uaio_pages_free(&pages);
	return status;
}
