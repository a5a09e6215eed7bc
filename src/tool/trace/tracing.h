/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of `uaio trace`
 *
 *   trace.c      options, the traced command, and the end of the trace
 *   follow.c     traces running processes (attach.h)
 *   records.c    takes records from the ring (trace/ring.h)
 *   filenames.c  finds the names of the files
 *   filter.c     selects records by the user's options
 *   lines.c      writes a line per record
 *   chrome.c     writes a file for trace viewers
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

/*
 * A record with its process and the name of its file. Times are in ns since the trace
 * began.
 */
struct uaio_traced {
	const struct uaio_trace_record *record;
	uint32_t pid, tid;
	int64_t submitted_ns, started_ns, ended_ns;
	const char *file; /* name; "" if unknown */
};

/*
 * The next two functions return how long a request waited for the system call that
 * executed it, and how long the call took.
 */
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

/*
 * Create a ring for records in shared memory.
 * Return: its file descriptor; -errno if the memory cannot be made or mapped.
 */
int uaio_records_open(struct uaio_trace_ring **ret_ring);

typedef void uaio_traced_fn(const struct uaio_traced *traced, void *arg);

/*
 * Take all records from the ring, and call @each for each one. Records of one lane (a
 * thread's part of the ring) come in order. Lanes of ended threads become free.
 *
 * Return: how many records there were.
 */
uint64_t uaio_records_take(struct uaio_trace_ring *ring, uaio_traced_fn *each,
			   void *arg);

/* Return: the time of CLOCK_MONOTONIC. */
int64_t uaio_trace_now_ns(void);

/*
 * Return: how many records were lost so far, because a lane was full or all lanes were
 * in use.
 */
uint64_t uaio_records_lost(struct uaio_trace_ring *ring);

/* trace.c */

/* Write what each output file has before the first record, such as column titles. */
void uaio_trace_begin(void);

/*
 * Take all records from the ring and write those that the options select.
 * Return: how many records were taken.
 */
uint64_t uaio_trace_write(struct uaio_trace_ring *ring);

/*
 * If @nr_lost has grown since the last call, write how many more records were lost.
 */
void uaio_trace_tell_lost(uint64_t nr_lost);

/*
 * Flush the output after taking @nr_taken records: at once if there were none,
 * otherwise only if the last flush was some time ago.
 *
 * Return: false if writing to all output files has failed.
 */
bool uaio_trace_flush(uint64_t nr_taken);

/* Return: whether a signal has told the tracer to end. */
bool uaio_trace_is_stopped(void);

/*
 * Sleep until it is time to read the ring again. After many records the sleep is
 * shorter.
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

/*
 * A process has written the name of a file to its trace: keep the name. number: the
 * number by which the process's records refer to the file (trace/ring.h I6).
 */
void uaio_filename_is(uint32_t pid, uint64_t number, const char *name);

/* Return: the name kept for the file with this number, or NULL. */
const char *uaio_filename_of(uint32_t pid, uint64_t number);

/*
 * Look up the descriptor in /proc.
 * Return: the name of its file. If the descriptor is closed: the name that the last
 * look-up found, or "".
 */
const char *uaio_filename(uint32_t pid, int fd, int64_t now_ns);

/* filter.c */

struct uaio_trace_filter {
	uint64_t ops;     /* a bit for each operation; 0: any operation */
	const char *file; /* a pattern for the name; NULL: any file */
	bool is_errors_only;
	/*
	 * only requests that took longer than this from submission to completion; 0:
	 * all
	 */
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
