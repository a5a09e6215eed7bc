/* SPDX-License-Identifier: MIT */
/*
 * uaio trace: shared by its files
 *
 *   trace.c      options, the traced command, and the end
 *   follow.c     running processes (attach.h)
 *   records.c    taking records from the ring (trace/ring.h)
 *   filenames.c  the names of descriptors
 *   filter.c     which records the options select
 *   lines.c      output: a line per record
 *   chrome.c     output: a file for trace viewers
 *
 * Tested by test/run/trace.py.
 */
#ifndef UAIO_TOOL_TRACE_TRACING_H
#define UAIO_TOOL_TRACE_TRACING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/ring.h"

extern const char *const uaio_door_names[UAIO_NR_DOORS];
extern const char *const uaio_by_names[UAIO_NR_BYS];

/* A record, its process and its file's name. Times are in ns since the trace began. */
struct uaio_traced {
	const struct uaio_trace_record *record;
	uint32_t pid, tid;
	int64_t submitted_ns, started_ns, ended_ns;
	const char *file; /* the file's name; "" if unknown */
};

/* How long the request waited for its system call, and how long the call took. */
static inline int64_t uaio_traced_wait(const struct uaio_traced *traced)
{
	int64_t until =
		traced->record->started ? traced->started_ns : traced->ended_ns;

	return until > traced->submitted_ns ? until - traced->submitted_ns : 0;
}

static inline int64_t uaio_traced_service(const struct uaio_traced *traced)
{
	return traced->record->started && traced->ended_ns > traced->started_ns
		       ? traced->ended_ns - traced->started_ns
		       : 0;
}

/* records.c */

/* Create the ring. Return: its file descriptor, or -errno. */
int uaio_records_open(struct uaio_trace_ring **ret_ring);

typedef void uaio_traced_fn(const struct uaio_traced *traced, void *arg);

/*
 * Take all records from the ring, and call @each for every one. Records of one lane
 * (one thread's part of the ring) are passed in order. Frees lanes whose threads have
 * ended.
 *
 * Return: the number of records.
 */
uint64_t uaio_records_take(struct uaio_trace_ring *ring, uaio_traced_fn *each,
			   void *arg);

/* Return: the time of CLOCK_MONOTONIC. */
int64_t uaio_trace_now_ns(void);

/*
 * Return: how many records were lost so far, because a lane was full or none was free.
 */
uint64_t uaio_records_lost(struct uaio_trace_ring *ring);

/* trace.c */

/* Write the output's beginning. */
void uaio_trace_begin(void);

/* Write all records of the ring. Return: the number of records. */
uint64_t uaio_trace_write(struct uaio_trace_ring *ring);

/* Report the lost records if @nr_lost has grown since the last call. */
void uaio_trace_tell_lost(uint64_t nr_lost);

/*
 * Flush the output after @nr_taken records were written: at once if that is 0,
 * otherwise only periodically.
 *
 * Return: false if no output is left, because writing has failed.
 */
bool uaio_trace_flush(uint64_t nr_taken);

/* Return: whether a signal has asked the trace to end. */
bool uaio_trace_is_stopped(void);

/*
 * Sleep until the ring is to be read again. The sleep is shorter if many records were
 * read.
 */
void uaio_trace_nap(uint64_t nr_taken);

/* follow.c */

enum { UAIO_FOLLOWED_MAX = 64 };

/*
 * Trace the processes until all have ended, or a signal stops the trace.
 *
 * Return: the exit status; *ret_lost: the number of lost records.
 */
int uaio_follow(const int *pids, unsigned nr, uint64_t *ret_lost);

/* filenames.c */

/* Note the name that a process has written to its trace for a file's number. */
void uaio_filename_is(uint32_t pid, uint64_t number, const char *name);

/* Return: the name noted for this number, or NULL. */
const char *uaio_filename_of(uint32_t pid, uint64_t number);

/* Return: the name of the file that fd is, or last was, in the process; or "". */
const char *uaio_filename(uint32_t pid, int fd, int64_t now_ns);

/* filter.c */

struct uaio_trace_filter {
	uint64_t ops;     /* a bit for each operation; 0: any operation */
	const char *file; /* a pattern for the name; NULL: any file */
	bool is_errors_only;
	/* only requests that took longer from submission to completion */
	int64_t slower_ns;
};

bool uaio_trace_filter_passes(const struct uaio_trace_filter *filter,
			      const struct uaio_traced *traced);

/* lines.c */

void uaio_lines_begin(FILE *to);
void uaio_line(FILE *to, const struct uaio_traced *traced);
void uaio_line_lost(FILE *to, uint64_t nr);

/* chrome.c */

void uaio_chrome_begin(FILE *to);
void uaio_chrome(FILE *to, const struct uaio_traced *traced);
void uaio_chrome_end(FILE *to, uint64_t nr_lost);

#endif /* UAIO_TOOL_TRACE_TRACING_H */
