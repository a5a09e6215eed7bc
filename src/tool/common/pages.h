/* SPDX-License-Identifier: MIT */
/*
 * Reads the pages of other processes, and sums their counts. A page is a file in which
 * a process publishes its counts (live/layout.h)
 *
 * The calling user's pages are in /dev/shm. A process in a container may have another
 * /dev/shm, which is found by the process's root directory, if this directory is
 * accessible. The superuser finds the pages of all users. Directories and files that
 * other users could have written are skipped.
 *
 * Tested by test/run/live.py.
 */
#ifndef UAIO_TOOL_COMMON_PAGES_H
#define UAIO_TOOL_COMMON_PAGES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "live/layout.h"

struct uaio_page_time {
	uint64_t nr, p50, p99, p999, max; /* in nanoseconds */
};

/* A copy of a process's page, and sums of its counts. */
struct uaio_page {
	/*
	 * the process's id in this tool's PID namespace; if the process has ended, the
	 * id in the page
	 */
	int pid;
	bool is_running;
	char path[PATH_MAX];
	struct uaio_live_identity identity;
	struct uaio_live_gauges gauges;
	struct uaio_live_names names;

	/* Sums over the process's threads. */
	uint64_t nr_accepted, nr_completed, nr_submits;
	/*
	 * number of submitting calls that were timed while the process timed only 1 of
	 * 16 such calls
	 */
	uint64_t nr_sampled;
	uint64_t nr_by_way[UAIO_LIVE_OPS][UAIO_LIVE_WAYS];
	uint64_t nr_direct[UAIO_LIVE_DIRECTS];
	uint64_t nr_faults[UAIO_LIVE_FAULTS];
	/*
	 * Number of accepted requests that are not complete. Requests that the
	 * submitting call executes are not counted.
	 */
	uint64_t nr_in_flight;
	/* Requests in flight, by the state in which they wait in the library. */
	uint64_t nr_there[UAIO_LIVE_STAYS];
	/* requests in flight that are in none of the states of nr_there */
	uint64_t nr_executing;
	struct uaio_page_time times[UAIO_LIVE_TIMES];
	/* histogram of the requests' total time, in cycles */
	struct uaio_hist total;
};

struct uaio_pages {
	unsigned nr, nr_room;
	struct uaio_page *pages; /* owns */
	bool is_of_running;
	unsigned
		/* pages that another version of the library wrote */
		nr_foreign;
};

/*
 * Read all pages; if is_of_running is set, only those of running processes. Sort the
 * pages: first the running processes, from the oldest to the newest; then the ended
 * processes, from the oldest to the newest.
 * Return: 0, or -ENOMEM.
 */
int uaio_pages_read(struct uaio_pages *ret, bool is_of_running);
void uaio_pages_free(struct uaio_pages *pages);

/*
 * Call this after showing the user the page of an ended process. The first call writes
 * the current time to the page. A call more than an hour after that time removes the
 * page's file.
 */
void uaio_page_seen(const struct uaio_page *page);

/*
 * Return: how many requests are now in the state called `name`; 0 if there is no such
 * state.
 */
uint64_t uaio_page_there(const struct uaio_page *page, const char *name);

/*
 * Return: the process id that is written in the text; -1 if the text is not a process
 * id.
 */
int uaio_pages_pid(const char *text);

/*
 * Make the process measure the time of all its requests, not 1 in 16, for the next ns
 * nanoseconds. Does nothing if the process's page cannot be written.
 */
void uaio_page_time_all(const struct uaio_page *page, uint64_t ns);

/* Convert a number of the processor's cycles to nanoseconds. */
uint64_t uaio_pages_ns(uint64_t cycles);

#endif /* UAIO_TOOL_COMMON_PAGES_H */
