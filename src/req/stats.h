/* SPDX-License-Identifier: MIT */
/*
 * Statistics: where requests were executed, and how long they took
 *
 * On if the process has a page that others may read (live/live.h), or will write a report
 * (--stats, --stats-json). Each thread counts in its own block by plain additions. To report
 * the statistics, the blocks are added up. They lie in the page, or in memory with the same
 * layout.
 *
 *   I1  Only its owner writes a block, so no addition is lost. The accesses are atomic and
 *       relaxed; a reader may miss the latest ones. Threads for which there is no block share
 *       one, and add to it by locked instructions.
 *   I2  Blocks are never freed. If the owner of a block has exited, a thread that needs a
 *       block continues with the dead thread's block and its counts.
 *   I3  A block counts for the process whose id it has. A child of fork() finds that its
 *       thread's block has the parent's id, and takes another block.
 *   I4  A request is counted as accepted before it can complete, and as complete before
 *       its event can be seen.
 *
 * All requests are counted, but only some are timed (sample.h). Times are in cycles of
 * uaio_cycles(). The counters of two processors may differ a little; a negative
 * difference is counted as 0.
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

/* How a request was executed. */
enum uaio_way {
	UAIO_WAY_INLINE, /* executed inside io_submit */
	UAIO_WAY_PARKED, /* waited until its file was ready */
	UAIO_WAY_QUEUED, /* handed to a worker thread */
	UAIO_NR_WAYS,
};

enum uaio_time {
	/* of the whole call of io_submit or io_uring_enter, for all its requests */
	UAIO_TIME_SUBMIT,
	/* from submission to the start of its execution, unless inline */
	UAIO_TIME_WAIT,
	/* like UAIO_TIME_WAIT, for a request that waited for its pages (page.h) */
	UAIO_TIME_PAGES,
	UAIO_TIME_SERVICE, /* of the system call that executes a request */
	/* from the beginning of the submitting call to the completion */
	UAIO_TIME_TOTAL,
	UAIO_NR_TIMES,
	/*
	 * For an inline request that was alone in its call: its single time counts as SUBMIT,
	 * SERVICE and TOTAL.
	 */
	UAIO_TIME_ALONE = UAIO_NR_TIMES,
	UAIO_NR_HISTS,
};

/* Counts of O_DIRECT requests, which enum uaio_way does not distinguish. */
enum uaio_direct_count {
	UAIO_DIRECT_CUT,      /* requests executed in segments */
	UAIO_DIRECT_SEGMENTS, /* segments of cut requests */
	UAIO_DIRECT_BOUNCED,  /* requests executed through a copy */
	/* requests that the kernel's own AIO executed: native.h */
	UAIO_DIRECT_KERNEL,
	/* requests, also buffered ones, that the kernel's io_uring executed: driver.h */
	UAIO_DIRECT_URING,
	UAIO_NR_DIRECT_COUNTS,
};

/*
 * Where a request in flight waits (its "stay"). UAIO_STAY_NONE: it is being executed, or is on
 * its way.
 */
enum uaio_stay {
	UAIO_STAY_QUEUED,  /* for a worker */
	UAIO_STAY_PARKED,  /* for its file to be ready */
	UAIO_STAY_TIMED,   /* until its time comes */
	UAIO_STAY_WAITING, /* for other requests, or its pages */
	/* in the kernel's AIO or io_uring, or queued for it */
	UAIO_STAY_KERNEL,
	UAIO_NR_STAYS,
	UAIO_STAY_NONE = UAIO_NR_STAYS,
};

/* Called each time the engine starts, also in a child of fork(): resets all counts. */
void uaio_stats_init(void);

static_assert((int)UAIO_NR_OPS <= (int)UAIO_LIVE_OPS &&
		      (int)UAIO_NR_WAYS <= (int)UAIO_LIVE_WAYS &&
		      (int)UAIO_NR_DIRECT_COUNTS <= (int)UAIO_LIVE_DIRECTS &&
		      (int)UAIO_NR_FAULT_KINDS <= (int)UAIO_LIVE_FAULTS &&
		      (int)UAIO_NR_STAYS <= (int)UAIO_LIVE_STAYS &&
		      (int)UAIO_NR_HISTS <= (int)UAIO_LIVE_TIMES + 1,
	      "they fit into the page");

/* Names, as in the JSON report and in the output of tools. */
extern const char *const uaio_way_names[UAIO_NR_WAYS];
extern const char *const uaio_time_names[UAIO_NR_TIMES];
extern const char *const uaio_direct_names[UAIO_NR_DIRECT_COUNTS];
extern const char *const uaio_stay_names[UAIO_NR_STAYS];

extern _Thread_local struct uaio_live_block *uaio_stats_of_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
/* the process whose requests are counted; constant while the engine is up */
extern int uaio_stats_pid;

/* Gauges of the process, in its page if it has one; constant while the engine is up. */
extern struct uaio_live_gauges *uaio_stats_gauges;

struct uaio_live_block *uaio_stats_get(void);

/* Return: the calling thread's block; NULL if statistics are off. */
static inline struct uaio_live_block *uaio_stats_mine(void)
{
	struct uaio_live_block *mine;

	if (likely(!uaio_config.has_stats))
		return NULL;
	mine = uaio_stats_of_thread;
	/* relaxed: constant since the thread got its block */
	return likely(mine && load_relaxed(&mine->pid) == uaio_stats_pid)
		       ? mine
		       : uaio_stats_get();
}

/* Add to a count; a locked instruction is needed only in the shared block (I1). */
static inline void uaio_stats_add(struct uaio_live_block *block,
				  uint64_t *count, uint64_t nr)
{
	if (unlikely(load_relaxed(&block->owner) < 0))
		add_relaxed(count, nr);
	else
		store_relaxed(count, load_relaxed(count) + nr);
}

/* Add nr times to a histogram, each the time from start to end. */
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

/* Return: whether a tool may want records of the thread's requests. */
static inline bool uaio_stats_is_traced(const struct uaio_live_block *block)
{
	/* relaxed: only a hint, set by a tool or by this process */
	return unlikely(load_relaxed(&block->is_traced));
}

/* Return: the index of a block; the shared block has the last one. */
unsigned uaio_stats_place(const struct uaio_live_block *block);

/*
 * Called when a queue has more requests in flight than ever before. Each queue keeps its own
 * peak, so that threads which submit to different queues do not write to common memory. The
 * peak of the process is the greatest sum of its queues' peaks.
 */
void uaio_stats_queue_peaks(void);
/*
 * Called when a queue ends. peak: the most requests of the queue that were in flight at a
 * time.
 */
void uaio_stats_queue_ends(uint32_t peak);

/*
 * Count that nr requests have moved from one state of waiting to another. Does not create a
 * block for the thread, so it may be called under any lock.
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
	uint64_t nr_rings; /* rings ever set up */
	uint64_t nr_by_way[UAIO_NR_OPS][UAIO_NR_WAYS];
	uint64_t nr_direct[UAIO_NR_DIRECT_COUNTS];
	uint64_t nr_faults[UAIO_NR_FAULT_KINDS];
	/* requests that wait there now; exact only while no request moves */
	int64_t nr_there[UAIO_NR_STAYS];
	uint32_t peak_in_flight; /* of requests that were not executed inline */
	uint32_t nr_threads;     /* threads that the engine has created */
	uint32_t peak_threads;   /* the most library threads at a time */
	struct uaio_time_sum {
		uint64_t nr;
		uint64_t p50, p99, p999, max;
	} times[UAIO_NR_TIMES];
};

/* Thread-safety: one thread at a time. */
void uaio_stats_sum(struct uaio_stats_sum *ret_sum);

#endif /* UAIO_REQ_STATS_H */
