/* SPDX-License-Identifier: MIT */
/*
 * Pages: the memory in which each process publishes its counts (live/layout.h). Finds
 * the pages of other processes, and sums their counts
 *
 * Pages of the calling user are found in /dev/shm, and in the /dev/shm of each process
 * whose root can be entered, which includes containers. The superuser finds the pages
 * of all users. Directories and files that other users could have written are skipped.
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

/* A copy of a process's page. */
struct uaio_page {
	/*
	 * the process id as seen by this process; if the process has ended, the id in
	 * the page
	 */
	int pid;
	bool is_running;
	char path[PATH_MAX];
	struct uaio_live_identity identity;
	struct uaio_live_gauges gauges;
	struct uaio_live_names names;

	/* Sums over the threads. */
	uint64_t nr_accepted, nr_completed, nr_submits;
	/* number of timed calls, each of which stands for 16 calls */
	uint64_t nr_sampled;
	uint64_t nr_by_way[UAIO_LIVE_OPS][UAIO_LIVE_WAYS];
	uint64_t nr_direct[UAIO_LIVE_DIRECTS];
	uint64_t nr_faults[UAIO_LIVE_FAULTS];
	/* accepted, not executed inline, and not complete */
	uint64_t nr_in_flight;
	/* Requests in flight, by where they are in the library. */
	uint64_t nr_there[UAIO_LIVE_STAYS];
	uint64_t
		nr_executing; /* requests in flight that are in none of these */
	struct uaio_page_time times[UAIO_LIVE_TIMES];
	struct uaio_hist total; /* histogram of the times "total", in cycles */
};

struct uaio_pages {
	unsigned nr, nr_room;
	struct uaio_page *pages; /* owns */
	bool is_of_running;
	unsigned
		nr_foreign; /* number of pages of another version of the library */
};

/*
 * Read all pages: those of running processes first, then those of ended ones, each
 * group with the newest last. If is_of_running is set, read only those of running
 * processes.
 * Return: 0, or -ENOMEM.
 */
int uaio_pages_read(struct uaio_pages *ret, bool is_of_running);
void uaio_pages_free(struct uaio_pages *pages);

/*
 * The user was shown the page of an ended process. Note the time in the page; if a time
 * was noted more than an hour ago, remove the page's file.
 */
void uaio_page_seen(const struct uaio_page *page);

/*
 * Return: how many requests are now in the state `name`; 0 if the process has no such
 * state.
 */
uint64_t uaio_page_there(const struct uaio_page *page, const char *name);

/* Return: the text as a process id; -1 if it is not one. */
int uaio_pages_pid(const char *text);

/*
 * Have the process time all its requests during the next ns nanoseconds, instead of 1
 * in 16. Does nothing if its page cannot be written.
 */
void uaio_page_time_all(const struct uaio_page *page, uint64_t ns);

/* Return: cycles in nanoseconds. */
uint64_t uaio_pages_ns(uint64_t cycles);

#endif /* UAIO_TOOL_COMMON_PAGES_H */
