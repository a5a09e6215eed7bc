/* SPDX-License-Identifier: MIT */
/*
 * uaio top: shows what processes do in each interval. Each process publishes its counts
 * in its page (pages.h), so the command compares two samples of the pages
 *
 * `uaio top --batch` prints tables (top.c). Without --batch, the command executes the
 * program uaio-top, which shows the tables on the terminal (screen.c). `uaio top
 * --batch` and uaio-top read the same options and show the same lines (sample.c).
 *
 * Tested by test/run/top.py.
 */
#ifndef UAIO_TOOL_TOP_TOP_H
#define UAIO_TOOL_TOP_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/common/pages.h"

/*
 * watch.c: traces processes, and counts their requests by file, or by context or ring
 */

enum {
	UAIO_WATCH_ROWS = 1024,
	UAIO_WATCH_WHAT = 256,
	UAIO_WATCH_PROCESSES = 64,
};

struct uaio_watch_row {
	int pid;
	/* name of the file, or of the context or ring */
	char what[UAIO_WATCH_WHAT];
	uint64_t nr, nr_errors;
	uint64_t bytes; /* bytes read and written */
	/* the times from submission to completion, in ns */
	struct uaio_hist hist;
};

struct uaio_watch;

/* Return: a new struct, or NULL if there is no memory. */
struct uaio_watch *uaio_watch_new(bool is_by_file);
void uaio_watch_free(struct uaio_watch *watch);

/*
 * Trace each process of @pages that is not traced yet and for which is_wanted() returns
 * true. Stop tracing processes that have ended.
 */
void uaio_watch_attach(struct uaio_watch *watch, const struct uaio_pages *pages,
		       bool (*is_wanted)(const void *arg, int pid),
		       const void *arg);

/*
 * Count the records that the traced processes have written. Call this every few
 * milliseconds, because the ring to which a process writes its records is small.
 */
void uaio_watch_count(struct uaio_watch *watch);

/* Return: the rows of the interval, not sorted; *ret_nr: their number. */
const struct uaio_watch_row *uaio_watch_rows(struct uaio_watch *watch,
					     unsigned *ret_nr);
/* Begin a new interval, without rows. */
void uaio_watch_begin(struct uaio_watch *watch);

/*
 * Return: how many records were lost so far, because the ring for a process's records
 * was full.
 */
uint64_t uaio_watch_lost(const struct uaio_watch *watch);

/* Return: the number of processes that cannot be traced. */
unsigned uaio_watch_refused(const struct uaio_watch *watch);

enum {
	UAIO_TOP_LINE = 512, /* size of a line in bytes, with the NUL */
};

enum uaio_top_sort {
	UAIO_TOP_BY_RATE,
	UAIO_TOP_BY_P99,
	UAIO_TOP_BY_FLIGHT,
	UAIO_TOP_BY_THREADS,
	UAIO_TOP_BY_PID,
	UAIO_TOP_BY_NAME,
	UAIO_TOP_NR_SORTS,
};

/* What each line of the table is about. */
enum uaio_top_view {
	UAIO_TOP_PROCESSES,
	/* rings of io_uring, contexts of kernel AIO, and POSIX AIO as one row */
	UAIO_TOP_RINGS,
	UAIO_TOP_FILES,
	UAIO_TOP_NR_VIEWS,
};

extern const char *const uaio_top_views[UAIO_TOP_NR_VIEWS];

/* A row of the table of processes: what a process did in the interval. */
struct uaio_top_row {
	int pid;
	const char *comm; /* borrows: from the process's page */
	uint64_t nr_doors, nr_accepted;
	uint64_t nr_inline;
	bool is_sampled; /* the process timed only 1 call in 16 */
	double rate;     /* requests per second */
	uint64_t nr_times, p50,
		/*
		 * how many requests were timed, and percentiles of their times, in ns
		 */
		p99;
	uint32_t nr_threads;
	uint64_t nr_in_flight, nr_queued, nr_parked,
		/*
		 * requests in flight: all of them; and how many are queued, are parked
		 * until their file is ready, or are in the kernel
		 */
		nr_kernel;
};

/* A row of the table of files or rings: requests of the interval. */
struct uaio_top_thing {
	int pid; /* 0: several processes share the row */
	/*
	 * borrowed from a page; "": the process has ended, or several processes share
	 * the row
	 */
	const char *comm;
	char what[UAIO_WATCH_WHAT];
	double rate, megabytes; /* requests and megabytes, per second */
	uint64_t nr, nr_errors, p50, p99; /* percentiles in ns */
};

struct uaio_top {
	/* Options. */
	enum uaio_top_view view;
	double delay_s;
	unsigned nr_tables; /* 0: no limit */
	bool is_batch;
	enum uaio_top_sort sort;
	unsigned nr_pids; /* 0: all processes */
	int *pids;        /* owns */

	/* The interval lasts from the sample `before` to the sample `now`. */
	struct uaio_pages before, now; /* owns */
	uint64_t now_ns; /* CLOCK_MONOTONIC, when the pages were read */
	/* length of the interval; 0: there was only one sample */
	double seconds;
	unsigned nr_rows;
	struct uaio_top_row *rows; /* owns; sorted */

	/*
	 * The members up to `nr_lost_now` are used only for tables of files or rings.
	 */
	struct uaio_watch *watch; /* owns; NULL: none */
	/* whether `watch` counts by file or by ring */
	enum uaio_top_view watched;
	uint64_t nr_lost,
		nr_lost_now; /* records lost so far, and in this interval */
	unsigned nr_things;
	struct uaio_top_thing *things; /* owns; sorted */
};

/*
 * Read the options.
 * Return: -1: go on, and the caller later frees *ret. Otherwise the exit status.
 */
int uaio_top_options(int argc, char **argv, struct uaio_top *ret);

/*
 * Take the first sample, and check that each process that the user named has a page.
 * Return: 0, or the exit status after a message.
 */
int uaio_top_begin(struct uaio_top *top);

/*
 * Take a sample: this ends the interval and begins the next one.
 * Return: 0, or -ENOMEM.
 */
int uaio_top_sample(struct uaio_top *top);

/*
 * Return: the time in ms after which uaio_top_count() must be called again; -1 if it
 * need not be called.
 */
int uaio_top_patience(const struct uaio_top *top);
void uaio_top_count(struct uaio_top *top);

/* Sort the rows after the sort key has changed. */
void uaio_top_sort(struct uaio_top *top);

void uaio_top_free(struct uaio_top *top);

/*
 * Write the table's lines, without newlines. With usual numbers a line has at most 80
 * columns.
 */
void uaio_top_head(const struct uaio_top *top, char ret_line[UAIO_TOP_LINE]);
const char *uaio_top_columns(const struct uaio_top *top);
unsigned uaio_top_nr_lines(const struct uaio_top *top);
void uaio_top_line(const struct uaio_top *top, unsigned at,
		   char ret_line[UAIO_TOP_LINE]);

#endif /* UAIO_TOOL_TOP_TOP_H */
