/* SPDX-License-Identifier: MIT */
/*
 * uaio top: what processes do in an interval, as the difference of their pages
 * (pages.h) at its ends
 *
 * `uaio top --batch` prints tables (top.c). Without --batch the command executes the
 * program uaio-top, which shows them on the terminal (screen.c). Both read the same
 * options, and get the same lines (sample.c).
 *
 * Tested by test/run/top.py.
 */
#ifndef UAIO_TOOL_TOP_TOP_H
#define UAIO_TOOL_TOP_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/common/pages.h"

/*
 * watch.c: what processes do by file, or by context or ring: counted from traces of them
 */

enum {
	UAIO_WATCH_ROWS = 1024,
	UAIO_WATCH_WHAT = 256,
	UAIO_WATCH_PROCESSES = 64,
};

struct uaio_watch_row {
	int pid;
	char what[UAIO_WATCH_WHAT]; /* the file, or the context or ring */
	uint64_t nr, nr_errors;
	uint64_t bytes;        /* read and written */
	struct uaio_hist hist; /* of ns from submission to end */
};

struct uaio_watch;

/* Return: NULL if there is no memory. */
struct uaio_watch *uaio_watch_new(bool is_by_file);
void uaio_watch_free(struct uaio_watch *watch);

/*
 * Attach to each process of @pages that is_wanted() accepts and that is new. Free what is
 * held for processes that have ended.
 */
void uaio_watch_attach(struct uaio_watch *watch, const struct uaio_pages *pages,
		       bool (*is_wanted)(const void *arg, int pid),
		       const void *arg);

/* Count the records that processes have written. Call this every few milliseconds. */
void uaio_watch_count(struct uaio_watch *watch);

/* Return: the rows of the interval, unsorted, with their number in *ret_nr. */
const struct uaio_watch_row *uaio_watch_rows(struct uaio_watch *watch,
					     unsigned *ret_nr);
/* Begin a new interval, without rows. */
void uaio_watch_begin(struct uaio_watch *watch);

/* Return: the number of records lost so far. */
uint64_t uaio_watch_lost(const struct uaio_watch *watch);

/* Return: the number of processes that cannot be traced. */
unsigned uaio_watch_refused(const struct uaio_watch *watch);

enum {
	UAIO_TOP_LINE = 512, /* bytes of a line, with its end */
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

/* What a line is of. */
enum uaio_top_view {
	UAIO_TOP_PROCESSES,
	UAIO_TOP_RINGS, /* contexts of kernel AIO as well, and POSIX AIO as one */
	UAIO_TOP_FILES,
	UAIO_TOP_NR_VIEWS,
};

extern const char *const uaio_top_views[UAIO_TOP_NR_VIEWS];

/* What a process has done in the interval. */
struct uaio_top_row {
	int pid;
	const char *comm; /* of the page */
	uint64_t nr_doors, nr_accepted;
	uint64_t nr_inline;
	bool is_sampled; /* the times are those of 1 call in 16 */
	double rate;     /* requests a second */
	uint64_t nr_times, p50,
		p99; /* of all the time they took; nanoseconds */
	uint32_t nr_threads;
	uint64_t nr_in_flight, nr_queued, nr_parked,
		nr_kernel; /* of those in flight */
};

/* What was done with a file or a ring in the interval. */
struct uaio_top_thing {
	int pid;          /* 0: several */
	const char *comm; /* of a page; "": it is several, or gone */
	char what[UAIO_WATCH_WHAT];
	double rate, megabytes;           /* a second */
	uint64_t nr, nr_errors, p50, p99; /* nanoseconds */
};

struct uaio_top {
	/* the options */
	enum uaio_top_view view;
	double delay_s;
	unsigned nr_tables; /* 0: without end */
	bool is_batch;
	enum uaio_top_sort sort;
	unsigned nr_pids; /* 0: all */
	int *pids;        /* owns */

	/* the interval: from the page before to this one */
	struct uaio_pages before, now; /* owns */
	uint64_t now_ns;               /* CLOCK_MONOTONIC: those were read */
	double seconds;                /* 0: they were read only once */
	unsigned nr_rows;
	struct uaio_top_row *rows; /* owns; sorted */

	/* of files or rings: what is traced now */
	struct uaio_watch *watch;   /* owns; NULL: nothing */
	enum uaio_top_view watched; /* by what it is counted */
	uint64_t nr_lost,
		nr_lost_now; /* records: before, and in the interval */
	unsigned nr_things;
	struct uaio_top_thing *things; /* owns; sorted */
};

/* Return: -1 to go on, or the exit status. Then the caller frees what there is. */
int uaio_top_options(int argc, char **argv, struct uaio_top *ret);

/*
 * Read the pages a first time, and look for each process that was asked for.
 * Return: 0, or the exit status after a message.
 */
int uaio_top_begin(struct uaio_top *top);

/* The interval ends, and the next one begins. Return: 0, or -ENOMEM. */
int uaio_top_sample(struct uaio_top *top);

/* Return: how many milliseconds may pass until uaio_top_count() is to be called; -1: any. */
int uaio_top_patience(const struct uaio_top *top);
void uaio_top_count(struct uaio_top *top);

/* Sort the rows again. */
void uaio_top_sort(struct uaio_top *top);

void uaio_top_free(struct uaio_top *top);

/* The lines of a table, without newlines. With usual numbers they have 80 columns. */
void uaio_top_head(const struct uaio_top *top, char ret_line[UAIO_TOP_LINE]);
const char *uaio_top_columns(const struct uaio_top *top);
unsigned uaio_top_nr_lines(const struct uaio_top *top);
void uaio_top_line(const struct uaio_top *top, unsigned at,
		   char ret_line[UAIO_TOP_LINE]);

#endif /* UAIO_TOOL_TOP_TOP_H */
