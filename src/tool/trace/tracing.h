/* SPDX-License-Identifier: MIT */
/*
 * uaio trace: what its files share
 *
 *   trace.c      options, the command that is traced, and the end
 *   follow.c     processes that run already (attach.h)
 *   records.c    the ring (trace/ring.h): taking records out of it
 *   filenames.c  the names of descriptors
 *   filter.c     which records the options select
 *   lines.c      a line for each record
 *   chrome.c     a file for trace viewers
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

/* A record, and all that is known of it. Times are in ns since the trace began. */
struct uaio_traced {
	const struct uaio_trace_record *record;
	uint32_t pid, tid;
	int64_t submitted_ns, started_ns, ended_ns;
	const char *file; /* "": not known */
};

/* How long it waited until it was executed, and how long that took. */
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

/* Make the ring. Return: its descriptor; or -errno. */
int uaio_records_open(struct uaio_trace_ring **ret_ring);

typedef void uaio_traced_fn(const struct uaio_traced *traced, void *arg);

/*
 * Take what is in the ring, and give it to each, in the order of a lane; free lanes
 * whose threads are gone.
 * Return: how many there were.
 */
uint64_t uaio_records_take(struct uaio_trace_ring *ring, uaio_traced_fn *each,
			   void *arg);

/* Return: the time of CLOCK_MONOTONIC. */
int64_t uaio_trace_now_ns(void);

/* Return: how many records found no room, or no lane, so far. */
uint64_t uaio_records_lost(struct uaio_trace_ring *ring);

/* trace.c */

/* Begin to write. */
void uaio_trace_begin(void);

/* Take what is in the ring, and write it. Return: how many records there were. */
uint64_t uaio_trace_write(struct uaio_trace_ring *ring);

/* So many records were lost so far. */
void uaio_trace_tell_lost(uint64_t nr_lost);

/*
 * Called each time, with how many records there were: what was written is to be seen, at
 * once if there were none, and now and then if there are always some.
 * Return: whether something is still written.
 */
bool uaio_trace_flush(uint64_t nr_taken);

/* Return: whether the user wants it to end. */
bool uaio_trace_is_stopped(void);

/* Let processes write meanwhile, until there is more than those records that were taken. */
void uaio_trace_nap(uint64_t nr_taken);

/* follow.c */

enum { UAIO_FOLLOWED_MAX = 64 };

/*
 * Trace the processes until they have ended, or the user has enough.
 * Return: the exit status; *ret_lost: how many records were lost.
 */
int uaio_follow(const int *pids, unsigned nr, uint64_t *ret_lost);

/* filenames.c */

/* The process has told that the file with this number has this name. */
void uaio_filename_is(uint32_t pid, uint64_t number, const char *name);

/* Return: the name of the file with this number; NULL: it is not known. */
const char *uaio_filename_of(uint32_t pid, uint64_t number);

/* Return: the name of what fd is in that process now, or was; or "". */
const char *uaio_filename(uint32_t pid, int fd, int64_t now_ns);

/* filter.c */

struct uaio_trace_filter {
	uint64_t ops;     /* a bit for each; 0: any */
	const char *file; /* a pattern; NULL: any */
	bool is_errors_only;
	int64_t slower_ns; /* only what took longer, from its submission on */
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
