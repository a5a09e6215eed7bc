/* SPDX-License-Identifier: MIT */
/*
 * The pages of other processes (live/layout.h): finding them, and adding up what is
 * in them
 *
 * The pages of the calling user are found in /dev/shm, and in that of each process
 * whose root can be entered, so those of containers, too; the superuser finds those of
 * all users. A folder or a file that is not its user's alone is passed over.
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
	uint64_t nr, p50, p99, p999, max; /* nanoseconds */
};

/* What the page of a process said at a moment. */
struct uaio_page {
	int pid; /* as this process sees it; that of the page if it is gone */
	bool is_running;
	char path[PATH_MAX];
	struct uaio_live_identity identity;
	struct uaio_live_gauges gauges;
	struct uaio_live_names names;

	/* sums over the threads */
	uint64_t nr_accepted, nr_completed, nr_submits;
	uint64_t
		nr_sampled; /* calls of which each stands for 16 in the times */
	uint64_t nr_by_way[UAIO_LIVE_OPS][UAIO_LIVE_WAYS];
	uint64_t nr_direct[UAIO_LIVE_DIRECTS];
	uint64_t nr_faults[UAIO_LIVE_FAULTS];
	uint64_t nr_in_flight; /* accepted, not inline, and not complete */
	/* where the requests in flight are */
	uint64_t nr_there[UAIO_LIVE_STAYS];
	uint64_t nr_executing; /* in flight, and nowhere of these */
	struct uaio_page_time times[UAIO_LIVE_TIMES];
	struct uaio_hist total; /* of the times "total", in cycles */
};

struct uaio_pages {
	unsigned nr, nr_room;
	struct uaio_page *pages; /* owns */
	bool is_of_running;
	unsigned nr_foreign; /* of another version of the library */
};

/*
 * Read all: first those of processes that run, then the others, of both the newest
 * last. If is_of_running is set, only the former.
 * Return: 0, or -ENOMEM.
 */
int uaio_pages_read(struct uaio_pages *ret, bool is_of_running);
void uaio_pages_free(struct uaio_pages *pages);

/*
 * The user has seen the page of a process that is gone: note when, and remove the file
 * if that was an hour ago.
 */
void uaio_page_seen(const struct uaio_page *page);

/* Return: how many requests are there now; 0: the process knows no such place. */
uint64_t uaio_page_there(const struct uaio_page *page, const char *name);

/* Return: the process id that text is; -1: it is none. */
int uaio_pages_pid(const char *text);

/*
 * Ask the process to take the times of all requests during the next ns, rather than of
 * some. Nothing happens if its page may not be written to.
 */
void uaio_page_time_all(const struct uaio_page *page, uint64_t ns);

/* Return: nanoseconds. */
uint64_t uaio_pages_ns(uint64_t cycles);

#endif /* UAIO_TOOL_COMMON_PAGES_H */
