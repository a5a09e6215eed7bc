/* SPDX-License-Identifier: MIT */
/*
 * Statistics: how many requests went which way, and how long they took
 *
 * On where there is a page that others may read (live/live.h), and where a report is
 * asked for (--stats, --stats-json). Each thread counts in a block of its own with
 * plain additions; who reports, or reads the page, adds the blocks up. The blocks lie
 * in the page, or in memory laid out like it.
 *
 *   I1  Only its owner writes a block, so no addition is lost. The accesses are
 *       atomic and relaxed for the sake of those that read, which may miss what
 *       happens meanwhile. Threads for which there is no block share one, by locked
 *       additions.
 *   I2  Blocks are never freed. If the owner of a block has died, the block with
 *       its counts goes to a thread that needs one.
 *   I3  A block counts for the process whose id it has. A child of fork() finds
 *       the block of its thread stale, and takes one of its own.
 *   I4  A request is counted as accepted before it can complete, and as
 *       complete before its event can be seen.
 *
 * Times are taken of some requests only (sample.h), counts are of all. Times are in
 * cycles of uaio_cycles(). The counters of two processors may differ
 * a little; a negative difference is taken as 0.
 *
 * Context: any thread that has entered (entry.h).
 */
#ifndef UAIO_REQ_STATS_H
#define UAIO_REQ_STATS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/cycles.h"
#include "options/config.h"
#include "options/faults.h"
#include "live/hist.h"
#include "live/layout.h"
#include "op/op.h"
#include "req/sample.h"

/* Which way a request went. */
enum uaio_way {
	UAIO_WAY_INLINE, /* executed inside io_submit */
	UAIO_WAY_PARKED, /* waited until its file was ready */
	UAIO_WAY_QUEUED, /* handed to a worker thread */
	UAIO_NR_WAYS,
};

enum uaio_time {
	UAIO_TIME_SUBMIT, /* all requests of one call of io_submit */
	UAIO_TIME_WAIT,   /* of a request not inline, until it is executed */
	UAIO_TIME_PAGES, /* the same of one that waited for its pages: page.h */
	UAIO_TIME_SERVICE, /* of the system call that executes a request */
	UAIO_TIME_TOTAL,   /* from the first request of the call to the event */
	UAIO_NR_TIMES,
	/*
	 * Of an inline request that was the only one of its call: counts as
	 * each of these times but the waits.
	 */
	UAIO_TIME_ALONE = UAIO_NR_TIMES,
	UAIO_NR_HISTS,
};

/* Counts of O_DIRECT requests, in addition to their way. */
enum uaio_direct_count {
	UAIO_DIRECT_CUT,      /* requests executed in segments */
	UAIO_DIRECT_SEGMENTS, /* segments of those */
	UAIO_DIRECT_BOUNCED,  /* requests executed through a copy */
	UAIO_DIRECT_KERNEL,   /* requests that kernel AIO executed: native.h */
	UAIO_DIRECT_URING, /* the same of io_uring, not O_DIRECT only: driver.h */
	UAIO_NR_DIRECT_COUNTS,
};

/*
 * Where a request that is in flight waits. One that is nowhere of these is being
 * executed, or is on its way from one to another.
 */
enum uaio_stay {
	UAIO_STAY_QUEUED,  /* for a worker */
	UAIO_STAY_PARKED,  /* for its file to be ready */
	UAIO_STAY_TIMED,   /* for its time to come */
	UAIO_STAY_WAITING, /* for other requests, or its pages */
	UAIO_STAY_KERNEL, /* with the kernel's AIO or io_uring, or lined up for it */
	UAIO_NR_STAYS,
	UAIO_STAY_NONE = UAIO_NR_STAYS,
};

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_stats_init(void);

static_assert((int)UAIO_NR_OPS <= (int)UAIO_LIVE_OPS &&
		      (int)UAIO_NR_WAYS <= (int)UAIO_LIVE_WAYS &&
		      (int)UAIO_NR_DIRECT_COUNTS <= (int)UAIO_LIVE_DIRECTS &&
		      (int)UAIO_NR_FAULT_KINDS <= (int)UAIO_LIVE_FAULTS &&
		      (int)UAIO_NR_STAYS <= (int)UAIO_LIVE_STAYS &&
		      (int)UAIO_NR_HISTS <= (int)UAIO_LIVE_TIMES + 1,
	      "they fit into the page");

/* As the line of JSON and tools call them. */
extern const char *const uaio_way_names[UAIO_NR_WAYS];
extern const char *const uaio_time_names[UAIO_NR_TIMES];
extern const char *const uaio_direct_names[UAIO_NR_DIRECT_COUNTS];
extern const char *const uaio_stay_names[UAIO_NR_STAYS];

extern _Thread_local struct uaio_live_block *uaio_stats_of_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
extern int uaio_stats_pid; /* immutable while the engine is up */

/* Of the process, for others to read; constant while the engine is up. */
extern struct uaio_live_gauges *uaio_stats_gauges;

struct uaio_live_block *uaio_stats_get(void);

/* Return: the calling thread's block; NULL where statistics are off. */
static inline struct uaio_live_block *uaio_stats_mine(void)
{
	struct uaio_live_block *mine;

	if (likely(!uaio_config.has_stats))
		return NULL;
	mine = uaio_stats_of_thread;
	/* relaxed: written once, before this thread had it */
	return likely(mine && load_relaxed(&mine->pid) == uaio_stats_pid)
		       ? mine
		       : uaio_stats_get();
}

/* A locked instruction is needed only where others count there, too (I1). */
static inline void uaio_stats_add(struct uaio_live_block *block,
				  uint64_t *count, uint64_t nr)
{
	if (unlikely(load_relaxed(&block->owner) < 0))
		add_relaxed(count, nr);
	else
		store_relaxed(count, load_relaxed(count) + nr);
}

/* Count nr times, all from start to end. */
static inline void uaio_stats_time(struct uaio_live_block *stats,
				   enum uaio_time time, uint64_t start,
				   uint64_t end, uint64_t nr)
{
	struct uaio_hist *hist = &stats->hists[time];
	uint64_t length = end > start ? end - start : 0;

	uaio_stats_add(stats, &hist->buckets[uaio_hist_bucket(length)], nr);
	if (length > load_relaxed(&hist->max))
		store_relaxed(&hist->max, length);
}

static inline void uaio_stats_direct(enum uaio_direct_count what, uint64_t nr)
{
	struct uaio_live_block *stats = uaio_stats_mine();

	if (unlikely(stats))
		uaio_stats_add(stats, &stats->nr_direct[what], nr);
}

/* Return: whether somebody may want records of what the thread does. */
static inline bool uaio_stats_is_traced(const struct uaio_live_block *block)
{
	/* relaxed: a tool has set it, or this process */
	return unlikely(load_relaxed(&block->is_traced));
}

/* Return: the number of a block; that of a block which threads share is the last. */
unsigned uaio_stats_place(const struct uaio_live_block *block);

/*
 * A queue has one request more in flight than ever before. Each queue counts its own, so
 * threads that submit to different queues write nothing in common. The peak of a process
 * is what the peaks of its queues add up to, at most at a time.
 */
void uaio_stats_queue_peaks(void);
/* A queue ends, of which at most `peak` requests were in flight at a time. */
void uaio_stats_queue_ends(uint32_t peak);

/*
 * Requests, so many, have moved. It takes no block for the thread, and so may be called
 * under any lock.
 */
void uaio_stats_moved(enum uaio_stay from, enum uaio_stay to, uint64_t nr);

static inline void uaio_stats_move(enum uaio_stay from, enum uaio_stay to,
				   uint64_t nr)
{
	if (from != to && uaio_config.has_stats)
		uaio_stats_moved(from, to, nr);
}

/* The sum over the blocks of all threads. Times are in nanoseconds. */
struct uaio_stats_sum {
	uint64_t nr_submits;
	uint64_t nr_accepted;
	uint64_t nr_completed;
	uint64_t nr_rings; /* set up, ever */
	uint64_t nr_by_way[UAIO_NR_OPS][UAIO_NR_WAYS];
	uint64_t nr_direct[UAIO_NR_DIRECT_COUNTS];
	uint64_t nr_faults[UAIO_NR_FAULT_KINDS];
	int64_t nr_there[UAIO_NR_STAYS]; /* now; right when nothing goes on */
	uint32_t peak_in_flight;         /* of requests that were not inline */
	uint32_t nr_threads;   /* threads that the engine has created */
	uint32_t peak_threads; /* most of them at a time */
	struct uaio_time_sum {
		uint64_t nr;
		uint64_t p50, p99, p999, max;
	} times[UAIO_NR_TIMES];
};

/* Thread-safety: one thread at a time. */
void uaio_stats_sum(struct uaio_stats_sum *ret_sum);

#endif /* UAIO_REQ_STATS_H */
