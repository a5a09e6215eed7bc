/* SPDX-License-Identifier: MIT */
/*
 * uaio top: reads the options, takes samples of the processes' pages (pages.h), and
 * formats the lines of the tables
 *
 * Tested by test/run/top.py.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "live/hist.h"
#include "tool/tool.h"
#include "tool/top/top.h"

static const char *const sorts[UAIO_TOP_NR_SORTS] = {
	[UAIO_TOP_BY_RATE] = "rate",       [UAIO_TOP_BY_P99] = "p99",
	[UAIO_TOP_BY_FLIGHT] = "flight",   [UAIO_TOP_BY_PID] = "pid",
	[UAIO_TOP_BY_THREADS] = "threads", [UAIO_TOP_BY_NAME] = "name",
};

const char *const uaio_top_views[UAIO_TOP_NR_VIEWS] = {
	[UAIO_TOP_PROCESSES] = "process",
	[UAIO_TOP_RINGS] = "ring",
	[UAIO_TOP_FILES] = "file",
};

/* Options */

static void print_help(void)
{
	puts("usage: uaio top [option...] [pid...]\n"
	     "\n"
	     "Shows periodically the requests of processes that use the "
	     "library.\n"
	     "\n"
	     "  -b, --batch          print tables, and ask for no terminal\n"
	     "  -n, --number N       end after so many tables\n"
	     "  -d, --delay SECONDS  the interval between two, from 0.1 to "
	     "3600; usually 2\n"
	     "  -y, --by WHAT        process (the usual), ring (or context) or "
	     "file\n"
	     "  -s, --sort KEY       rate (the usual), p99, flight, threads, "
	     "pid or name\n"
	     "  -h, --help           show this");
}

static bool read_number(const char *text, unsigned *ret)
{
	char *end;
	long number = strtol(text, &end, 10);

	*ret = (unsigned)number;
	return *text && !*end && number > 0 && number <= INT32_MAX;
}

static bool read_delay(const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return *text && !*end && *ret >= 0.1 && *ret <= 3600;
}

static bool read_view(const char *text, enum uaio_top_view *ret)
{
	for (unsigned i = 0; i < UAIO_TOP_NR_VIEWS; i++)
		if (!strcmp(text, uaio_top_views[i])) {
			*ret = i;
			return true;
		}
	return false;
}

static bool read_sort(const char *text, enum uaio_top_sort *ret)
{
	for (unsigned i = 0; i < UAIO_TOP_NR_SORTS; i++)
		if (!strcmp(text, sorts[i])) {
			*ret = i;
			return true;
		}
	return false;
}

static int diag_value(const char *option, const char *expected)
{
	return uaio_diag(EXIT_REFUSED, "top: %s=%s: expected %s", option,
			 optarg, expected);
}

/* Return: -1 if the command must go on; otherwise the exit status. */
static int read_flag(int flag, struct uaio_top *ret)
{
	switch (flag) {
	case 'b': ret->is_batch = true; return -1;
	case 'n':
		return read_number(optarg, &ret->nr_tables)
			       ? -1
			       : diag_value("--number", "a number from 1");
	case 'd':
		return read_delay(optarg, &ret->delay_s)
			       ? -1
			       : diag_value("--delay",
					    "seconds, from 0.1 to 3600");
	case 's':
		return read_sort(optarg, &ret->sort)
			       ? -1
			       : diag_value("--sort",
					    "rate, p99, flight, threads, pid "
					    "or name");
	case 'y':
		return read_view(optarg, &ret->view)
			       ? -1
			       : diag_value("--by", "process, ring or file");
	case 'h': print_help(); return EXIT_SUCCESS;
	default: return EXIT_REFUSED;
	}
}

static int read_pids(int nr, char **texts, struct uaio_top *ret)
{
	ret->pids = calloc((size_t)nr + 1, sizeof(*ret->pids));
	if (!ret->pids)
		return uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM));
	for (int i = 0; i < nr; i++) {
		ret->pids[i] = uaio_pages_pid(texts[i]);
		if (ret->pids[i] < 0)
			return uaio_diag(EXIT_REFUSED,
					 "top: %s: expected a process id",
					 texts[i]);
	}
	ret->nr_pids = (unsigned)nr;
	return -1;
}

int uaio_top_options(int argc, char **argv, struct uaio_top *ret)
{
	static const struct option flags[] = {
		{ "batch", no_argument, NULL, 'b' },
		{ "number", required_argument, NULL, 'n' },
		{ "delay", required_argument, NULL, 'd' },
		{ "sort", required_argument, NULL, 's' },
		{ "by", required_argument, NULL, 'y' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int flag, status = -1;

	*ret = (struct uaio_top){ .delay_s = 2 };
	while (status < 0 &&
	       (flag = uaio_flags_next(argc, argv, "bn:d:s:y:h", flags)) != -1)
		status = read_flag(flag, ret);
	return status >= 0 ? status
			   : read_pids(argc - optind, argv + optind, ret);
}

/* The differences between two samples of the pages */

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

enum { SAMPLED_EVERY = 16 }; /* live/layout.h: nr_sampled */

/*
 * Return: by how much a count has grown; 0 if it is smaller, as the process may write
 * any number to its page.
 */
static uint64_t grown(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

/*
 * Return: the page that the process had in the sample `before`; a page of zeros if the
 * process was not in this sample.
 */
static const struct uaio_page *find_before(const struct uaio_top *top,
					   const struct uaio_page *page)
{
	static const struct uaio_page none;

	for (unsigned i = 0; i < top->before.nr; i++) {
		const struct uaio_page *before = &top->before.pages[i];

		if (before->identity.born_ns == page->identity.born_ns &&
		    before->pid == page->pid)
			return before;
	}
	return &none;
}

/*
 * name: a way to execute requests, for example "inline".
 * Return: how many requests of the interval were executed in this way.
 */
static uint64_t nr_of_way(const struct uaio_page *before,
			  const struct uaio_page *now, const char *name)
{
	uint64_t nr = 0;

	for (unsigned way = 0; way < now->identity.nr_ways; way++) {
		if (strcmp(now->names.ways[way], name))
			continue;
		for (unsigned op = 0; op < now->identity.nr_ops; op++)
			nr += grown(before->nr_by_way[op][way],
				    now->nr_by_way[op][way]);
	}
	return nr;
}

static void compare_times(struct uaio_top_row *row,
			  const struct uaio_hist *before,
			  const struct uaio_hist *now)
{
	struct uaio_hist hist = { .max = now->max };

	for (unsigned i = 0; i < UAIO_NR_BUCKETS; i++)
		hist.buckets[i] = grown(before->buckets[i], now->buckets[i]);
	row->nr_times = uaio_hist_nr(&hist);
	if (!row->nr_times)
		return;
	row->p50 = uaio_pages_ns(uaio_hist_quantile(&hist, row->nr_times, 500));
	row->p99 = uaio_pages_ns(uaio_hist_quantile(&hist, row->nr_times, 990));
}

static void fill_row(const struct uaio_top *top, const struct uaio_page *page,
		     struct uaio_top_row *ret)
{
	const struct uaio_page *before = find_before(top, page);

	*ret = (struct uaio_top_row){
		.pid = page->pid,
		.comm = page->identity.comm,
		.nr_doors = page->gauges.nr_setups,
		.nr_in_flight = page->nr_in_flight,
		.nr_threads = page->gauges.nr_threads,
		.nr_queued = uaio_page_there(page, "queued"),
		.nr_parked = uaio_page_there(page, "parked"),
		.nr_kernel = uaio_page_there(page, "kernel"),
	};
	if (top->seconds == 0)
		return;
	/*
	 * `uaio top` asks the process to time all its calls. Until the process does so,
	 * it times samples: 1 call in 16, which stands for 16 calls. An interval may
	 * have calls of both kinds. Set is_sampled if the samples stand for more than
	 * half of all calls.
	 */
	ret->is_sampled = grown(before->nr_sampled, page->nr_sampled) *
				  (2 * SAMPLED_EVERY) >
			  grown(before->nr_submits, page->nr_submits);
	ret->nr_accepted = grown(before->nr_accepted, page->nr_accepted);
	ret->rate = (double)ret->nr_accepted / top->seconds;
	ret->nr_inline = nr_of_way(before, page, "inline");
	compare_times(ret, &before->total, &page->total);
}

static bool is_wanted(const struct uaio_top *top, int pid)
{
	for (unsigned i = 0; i < top->nr_pids; i++)
		if (top->pids[i] == pid)
			return true;
	return !top->nr_pids;
}

static enum uaio_top_sort sorted_by;

/* For qsort(): by the column `sorted_by`; if equal, by process id. */
static int compare(const void *a, const void *b)
{
	const struct uaio_top_row *left = a, *right = b;
	int order = 0;

	switch (sorted_by) {
	case UAIO_TOP_BY_RATE:
		order = (left->rate < right->rate) - (left->rate > right->rate);
		break;
	case UAIO_TOP_BY_P99:
		order = (left->p99 < right->p99) - (left->p99 > right->p99);
		break;
	case UAIO_TOP_BY_FLIGHT:
		order = (left->nr_in_flight < right->nr_in_flight) -
			(left->nr_in_flight > right->nr_in_flight);
		break;
	case UAIO_TOP_BY_THREADS:
		order = (left->nr_threads < right->nr_threads) -
			(left->nr_threads > right->nr_threads);
		break;
	case UAIO_TOP_BY_NAME: order = strcmp(left->comm, right->comm); break;
	default: break;
	}
	return order ? order
		     : (left->pid > right->pid) - (left->pid < right->pid);
}

/* Tables of files and rings */

static int compare_things(const void *a, const void *b)
{
	const struct uaio_top_thing *left = a, *right = b;
	int order = 0;

	switch (sorted_by) {
	case UAIO_TOP_BY_P99:
		order = (left->p99 < right->p99) - (left->p99 > right->p99);
		break;
	case UAIO_TOP_BY_PID: break;
	case UAIO_TOP_BY_NAME: order = strcmp(left->what, right->what); break;
	default: order = (left->nr < right->nr) - (left->nr > right->nr);
	}
	if (!order)
		order = (left->pid > right->pid) - (left->pid < right->pid);
	return order ? order : strcmp(left->what, right->what);
}

void uaio_top_sort(struct uaio_top *top)
{
	sorted_by = top->sort;
	if (top->nr_rows)
		qsort(top->rows, top->nr_rows, sizeof(*top->rows), compare);
	if (top->nr_things)
		qsort(top->things, top->nr_things, sizeof(*top->things),
		      compare_things);
}

static const char *comm_of(const struct uaio_top *top, int pid)
{
	for (unsigned i = 0; i < top->now.nr; i++)
		if (top->now.pages[i].pid == pid)
			return top->now.pages[i].identity.comm;
	return "";
}

static void fill_thing(const struct uaio_top *top,
		       const struct uaio_watch_row *row,
		       struct uaio_top_thing *ret)
{
	const double seconds = top->seconds > 0 ? top->seconds : 1;
	const uint64_t nr = uaio_hist_nr(&row->hist);

	*ret = (struct uaio_top_thing){
		.pid = row->pid,
		.comm = comm_of(top, row->pid),
		.nr = row->nr,
		.nr_errors = row->nr_errors,
		.rate = (double)row->nr / seconds,
		.megabytes = (double)row->bytes / 1e6 / seconds,
		.p50 = uaio_hist_quantile(&row->hist, nr, 500),
		.p99 = uaio_hist_quantile(&row->hist, nr, 990),
	};
	(void)snprintf(ret->what, sizeof(ret->what), "%s", row->what);
}

static bool wants(const void *arg, int pid)
{
	return is_wanted(arg, pid);
}

/* Return: 0, or -ENOMEM. */
static int watch(struct uaio_top *top)
{
	const struct uaio_watch_row *rows;
	uint64_t nr_lost;

	free(top->things);
	top->things = NULL;
	top->nr_things = 0;
	if (top->watch && top->watched != top->view) {
		uaio_watch_free(top->watch);
		top->watch = NULL;
	}
	if (top->view == UAIO_TOP_PROCESSES)
		return 0;
	if (!top->watch) {
		top->watch = uaio_watch_new(top->view == UAIO_TOP_FILES);
		top->watched = top->view;
		top->nr_lost = 0;
	}
	if (!top->watch)
		return -ENOMEM;
	uaio_watch_attach(top->watch, &top->now, wants, top);
	nr_lost = uaio_watch_lost(top->watch);
	top->nr_lost_now = grown(top->nr_lost, nr_lost);
	top->nr_lost = nr_lost;
	rows = uaio_watch_rows(top->watch, &top->nr_things);
	top->things = calloc(top->nr_things + 1, sizeof(*top->things));
	if (!top->things)
		return -ENOMEM;
	for (unsigned i = 0; i < top->nr_things; i++)
		fill_thing(top, &rows[i], &top->things[i]);
	uaio_watch_begin(top->watch);
	return 0;
}

int uaio_top_patience(const struct uaio_top *top)
{
	/*
	 * Count the records every 5 ms: at a million requests a second, a thread fills
	 * its lane (its part of the ring of the trace) in 16 ms.
	 */
	return top->watch ? 5 : -1;
}

void uaio_top_count(struct uaio_top *top)
{
	if (top->watch)
		uaio_watch_count(top->watch);
}

int uaio_top_sample(struct uaio_top *top)
{
	uint64_t before_ns = top->now_ns;
	struct uaio_pages pages;

	if (uaio_pages_read(&pages, true) < 0)
		return -ENOMEM;
	uaio_pages_free(&top->before);
	top->before = top->now;
	top->now = pages;
	top->now_ns = now_ns();
	if (before_ns)
		top->seconds = (double)(top->now_ns - before_ns) / 1e9;
	free(top->rows);
	top->nr_rows = 0;
	top->rows = calloc(pages.nr + 1, sizeof(*top->rows));
	if (!top->rows)
		return -ENOMEM;
	for (unsigned i = 0; i < pages.nr; i++) {
		if (!is_wanted(top, pages.pages[i].pid))
			continue;
		fill_row(top, &pages.pages[i], &top->rows[top->nr_rows++]);
		/*
		 * Let the process time all calls for twice the interval, because the
		 * next sample may be late.
		 */
		uaio_page_time_all(&pages.pages[i],
				   (uint64_t)(2e9 * top->delay_s));
	}
	if (watch(top) < 0)
		return -ENOMEM;
	uaio_top_sort(top);
	return 0;
}

int uaio_top_begin(struct uaio_top *top)
{
	if (uaio_top_sample(top) < 0)
		return uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM));
	for (unsigned i = 0; i < top->nr_pids; i++) {
		unsigned at = 0;

		while (at < top->nr_rows && top->rows[at].pid != top->pids[i])
			at++;
		if (at == top->nr_rows)
			return uaio_diag(EXIT_FAILURE,
					 "top: %d: no counts of such a running "
					 "process; does it use the library, "
					 "without --live=off, as this user?",
					 top->pids[i]);
	}
	return 0;
}

void uaio_top_free(struct uaio_top *top)
{
	uaio_pages_free(&top->before);
	uaio_pages_free(&top->now);
	uaio_watch_free(top->watch);
	free(top->things);
	free(top->rows);
	free(top->pids);
}

/* Lines */

void uaio_top_head(const struct uaio_top *top, char ret_line[UAIO_TOP_LINE])
{
	uint64_t in_flight = 0, threads = 0;
	double rate = 0;
	bool is_sampled = false;
	time_t now = time(NULL);
	char clock[16] = "", interval[32] = "", traced[64] = "";
	struct tm tm;

	for (unsigned i = 0; i < top->nr_rows; i++) {
		in_flight += top->rows[i].nr_in_flight;
		threads += top->rows[i].nr_threads;
		rate += top->rows[i].rate;
		is_sampled |= top->rows[i].is_sampled;
	}
	if (localtime_r(&now, &tm))
		(void)strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	if (top->seconds > 0)
		(void)snprintf(interval, sizeof(interval), "; in %.1f s",
			       top->seconds);
	if (top->watch)
		(void)snprintf(traced, sizeof(traced),
			       "; %" PRIu64 " lost, %u not traced",
			       top->nr_lost_now,
			       uaio_watch_refused(top->watch));
	(void)snprintf(ret_line, UAIO_TOP_LINE,
		       "%s: %u process%s, %.0f requests/s, %" PRIu64
		       " in flight, %" PRIu64 " thread%s%s%s%s",
		       clock, top->nr_rows, top->nr_rows == 1 ? "" : "es", rate,
		       in_flight, threads, threads == 1 ? "" : "s", interval,
		       is_sampled ? "; times sampled 1 in 16" : "", traced);
}

const char *uaio_top_columns(const struct uaio_top *top)
{
	if (top->watched == UAIO_TOP_FILES && top->watch)
		return "    PID NAME          REQ/S     MB/S  P50 us  P99 us "
		       "ERR% FILE";
	if (top->watch)
		return "    PID NAME          REQ/S     MB/S  P50 us  P99 us "
		       "ERR% RING";
	return "    PID NAME       DOORS    REQ/S INL%  P50 us  P99 us FLIGHT "
	       " QUE  PRK  KRN THR";
}

static void share(char ret[8], uint64_t nr, uint64_t of)
{
	if (of)
		(void)snprintf(ret, 8, "%.0f", 100 * (double)nr / (double)of);
	else
		(void)snprintf(ret, 8, "-");
}

static void microseconds(char ret[24], uint64_t nr, uint64_t ns)
{
	if (nr)
		(void)snprintf(ret, 24, "%.1f", (double)ns / 1000);
	else
		(void)snprintf(ret, 24, "-");
}

static void line_of_thing(const struct uaio_top_thing *thing,
			  char ret_line[UAIO_TOP_LINE])
{
	char errors[8], times[2][24], pid[16] = "-";

	if (thing->pid)
		(void)snprintf(pid, sizeof(pid), "%d", thing->pid);
	share(errors, thing->nr_errors, thing->nr);
	microseconds(times[0], thing->nr, thing->p50);
	microseconds(times[1], thing->nr, thing->p99);
	(void)snprintf(ret_line, UAIO_TOP_LINE,
		       "%7s %-10.10s %8.0f %8.1f %7s %7s %4s %s", pid,
		       thing->comm, thing->rate, thing->megabytes, times[0],
		       times[1], errors, thing->what);
}

unsigned uaio_top_nr_lines(const struct uaio_top *top)
{
	return top->watch ? top->nr_things : top->nr_rows;
}

static void line_of_process(const struct uaio_top *top,
			    const struct uaio_top_row *row,
			    char ret_line[UAIO_TOP_LINE])
{
	char rate[24] = "-", share_inline[8], times[2][24];

	if (top->seconds > 0)
		(void)snprintf(rate, sizeof(rate), "%.0f", row->rate);
	share(share_inline, row->nr_inline, row->nr_accepted);
	microseconds(times[0], row->nr_times, row->p50);
	microseconds(times[1], row->nr_times, row->p99);
	(void)snprintf(ret_line, UAIO_TOP_LINE,
		       "%7d %-10.10s %5" PRIu64 " %8s %4s %7s %7s %6" PRIu64
		       " %4" PRIu64 " %4" PRIu64 " %4" PRIu64 " %3" PRIu32,
		       row->pid, row->comm, row->nr_doors, rate, share_inline,
		       times[0], times[1], row->nr_in_flight, row->nr_queued,
		       row->nr_parked, row->nr_kernel, row->nr_threads);
}

void uaio_top_line(const struct uaio_top *top, unsigned at,
		   char ret_line[UAIO_TOP_LINE])
{
	if (top->watch)
		line_of_thing(&top->things[at], ret_line);
	else
		line_of_process(top, &top->rows[at], ret_line);
}
