/* SPDX-License-Identifier: MIT */
/*
 * uaio top: shows what processes do in an interval, by the difference between two
 * samples of their pages (pages.h)
 *
 * `uaio top --batch` prints tables (top.c). Without --batch the command executes the
 * program uaio-top, which shows them on the terminal (screen.c). Both use the same
 * options and lines (sample.c).
 *
 * Tested by test/run/top.py.
 */
#ifndef UAIO_TOOL_TOP_TOP_H
#define UAIO_TOOL_TOP_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/common/pages.h"

/* watch.c: counts requests by file, or by context or ring, from traces */

enum {
	UAIO_WATCH_ROWS = 1024,
	UAIO_WATCH_WHAT = 256,
	UAIO_WATCH_PROCESSES = 64,
};

struct uaio_watch_row {
	int pid;
	char what[UAIO_WATCH_WHAT]; /* the file, or the context or ring */
	uint64_t nr, nr_errors;
	uint64_t bytes; /* bytes read and written */
	/* histogram of the times from submission to completion in ns */
	struct uaio_hist hist;
};

struct uaio_watch;

/* Return: NULL if there is no memory. */
struct uaio_watch *uaio_watch_new(bool is_by_file);
void uaio_watch_free(struct uaio_watch *watch);

/*
 * Attach to each new process of @pages for which is_wanted() returns true. Free the
 * memory that is kept for ended processes.
 */
void uaio_watch_attach(struct uaio_watch *watch, const struct uaio_pages *pages,
		       bool (*is_wanted)(const void *arg, int pid),
		       const void *arg);

/*
 * Count the records that processes have written to their traces. Call every few
 * milliseconds.
 */
void uaio_watch_count(struct uaio_watch *watch);

/* Return: the rows of the interval, unsorted; their number is in *ret_nr. */
const struct uaio_watch_row *uaio_watch_rows(struct uaio_watch *watch,
					     unsigned *ret_nr);
/* Begin a new interval, without rows. */
void uaio_watch_begin(struct uaio_watch *watch);

/* Return: the number of records lost so far. */
uint64_t uaio_watch_lost(const struct uaio_watch *watch);

/* Return: the number of processes that cannot be traced. */
unsigned uaio_watch_refused(const struct uaio_watch *watch);

enum {
	UAIO_TOP_LINE = 512, /* bytes, including the NUL */
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

/* What a line describes. */
enum uaio_top_view {
	UAIO_TOP_PROCESSES,
	UAIO_TOP_RINGS, /* rings, contexts of kernel AIO, and POSIX AIO as one row */
	UAIO_TOP_FILES,
	UAIO_TOP_NR_VIEWS,
};

extern const char *const uaio_top_views[UAIO_TOP_NR_VIEWS];

/* A process's activity in the interval. */
struct uaio_top_row {
	int pid;
	const char *comm; /* points into the process's page */
	uint64_t nr_doors, nr_accepted;
	uint64_t nr_inline;
	bool is_sampled; /* only 1 call in 16 was timed */
	double rate;     /* requests per second */
	uint64_t nr_times, p50,
		p99; /* percentiles of the requests' total time, in nanoseconds */
	uint32_t nr_threads;
	uint64_t nr_in_flight, nr_queued, nr_parked,
		nr_kernel; /* how many of the requests in flight are where */
};

/* Activity on a file or a ring in the interval. */
struct uaio_top_thing {
	int pid; /* 0: the row is of several processes */
	/* points into a page; "": several processes, or an ended one */
	const char *comm;
	char what[UAIO_WATCH_WHAT];
	double rate, megabytes; /* requests and megabytes per second */
	uint64_t nr, nr_errors, p50, p99; /* p50 and p99 in nanoseconds */
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

	/* The interval, from the earlier sample of the pages to the present one. */
	struct uaio_pages before, now; /* owns */
	uint64_t now_ns; /* CLOCK_MONOTONIC, when the pages were read */
	double seconds;  /* 0: the pages were read only once */
	unsigned nr_rows;
	struct uaio_top_row *rows; /* owns; sorted */

	/* The members for tables of files or rings: what is being traced. */
	struct uaio_watch *watch;   /* owns; NULL: none */
	enum uaio_top_view watched; /* how `watch` counts: files or rings */
	uint64_t nr_lost,
		nr_lost_now; /* lost records: before the interval, and in it */
	unsigned nr_things;
	struct uaio_top_thing *things; /* owns; sorted */
};

/*
 * Read the options. Return: -1 to continue, and the caller then frees *ret; or the exit
 * status.
 */
int uaio_top_options(int argc, char **argv, struct uaio_top *ret);

/*
 * Read the pages for the first time, and check that each process that the user named
 * has a page. Return: 0, or the exit status after a message.
 */
int uaio_top_begin(struct uaio_top *top);

/* End the interval, and begin the next one. Return: 0, or -ENOMEM. */
int uaio_top_sample(struct uaio_top *top);

/* Return: within how many milliseconds to call uaio_top_count(); -1: no limit. */
int uaio_top_patience(const struct uaio_top *top);
void uaio_top_count(struct uaio_top *top);

/* Sort the rows again. */
void uaio_top_sort(struct uaio_top *top);

void uaio_top_free(struct uaio_top *top);

/* The lines of a table, without newlines. Usual numbers fit into 80 columns. */
void uaio_top_head(const struct uaio_top *top, char ret_line[UAIO_TOP_LINE]);
const char *uaio_top_columns(const struct uaio_top *top);
unsigned uaio_top_nr_lines(const struct uaio_top *top);
void uaio_top_line(const struct uaio_top *top, unsigned at,
		   char ret_line[UAIO_TOP_LINE]);

#endif /* UAIO_TOOL_TOP_TOP_H */
