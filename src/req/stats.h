/* SPDX-License-Identifier: MIT */
/*
 * Statistics: how many requests were executed where, and how long they took
 *
 * Statistics are on if the process has a page of shared memory that other processes
 * read (live/live.h), or will write a report (--stats, --stats-json). Each thread
 * counts in its own block by plain additions, and a report adds up the blocks. The
 * blocks are in the page, or in memory with the same layout.
 *
 *   I1  Only its owner writes a block, so no addition is lost. The accesses are atomic and
 *       relaxed, so a reader may miss the latest additions. Threads for which there is no
 *       block use one shared block, and add to it by locked instructions.
 *   I2  Blocks are never freed. If the owner of a block has exited, a thread that needs a
 *       block takes it over, with its counts.
 *   I3  A block contains the id of the process for which it counts. A child of fork() finds
 *       that its thread's block has the parent's id, and takes another block.
 *   I4  A request is counted as accepted before it can complete, and as complete before
 *       the client can see its event.
 *
 * All requests are counted, but only some are timed (sample.h). Times are in cycles of
 * uaio_cycles(). The cycle counters of two processors may differ a little; a negative
 * difference is counted as 0.
 *
 * Context: any thread that has entered the library (entry.h).
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
	/* the request waited until its file was ready */
	UAIO_WAY_PARKED,
	/* a worker executed the request */
	UAIO_WAY_QUEUED,
	UAIO_NR_WAYS,
};

enum uaio_time {
	/*
	 * duration of a whole call of io_submit or io_uring_enter, with all its
	 * requests
	 */
	UAIO_TIME_SUBMIT,
	/*
	 * from a request's submission to the start of its execution; not for inline
	 * requests
	 */
	UAIO_TIME_WAIT,
	/*
	 * like UAIO_TIME_WAIT, for a read that waited until its data was in the page
	 * cache (page.h)
	 */
	UAIO_TIME_PAGES,
	/* duration of the system call that executes a request */
	UAIO_TIME_SERVICE,
	/* from the beginning of the submitting call to the request's completion */
	UAIO_TIME_TOTAL,
	UAIO_NR_TIMES,
	/*
	 * Used for an inline request that was alone in its submitting call: its single
	 * duration counts as SUBMIT, SERVICE and TOTAL.
	 */
	UAIO_TIME_ALONE = UAIO_NR_TIMES,
	UAIO_NR_HISTS,
};

/*
 * Counts besides those of enum uaio_way, mainly of O_DIRECT requests. A request may
 * count in both enums.
 */
enum uaio_direct_count {
	/* requests that were cut into segments (split.h) */
	UAIO_DIRECT_CUT,
	/* segments of these requests */
	UAIO_DIRECT_SEGMENTS,
	/* misaligned requests that were executed through an aligned copy (bounce.h) */
	UAIO_DIRECT_BOUNCED,
	/* requests that the kernel's own AIO executed (native.h) */
	UAIO_DIRECT_KERNEL,
	/*
	 * requests, also buffered ones, that the kernel's io_uring executed (driver.h)
	 */
	UAIO_DIRECT_URING,
	UAIO_NR_DIRECT_COUNTS,
};

/*
 * For what a request in flight waits. UAIO_STAY_NONE: for nothing; it is being
 * executed, or moves between two states.
 */
enum uaio_stay {
	UAIO_STAY_QUEUED, /* for a worker */
	/* the request waits until its file is ready */
	UAIO_STAY_PARKED,
	/* until a time */
	UAIO_STAY_TIMED,
	/*
	 * the request waits for other requests, or until its data is in the page cache
	 */
	UAIO_STAY_WAITING,
	/* the request waits until the kernel's AIO or io_uring has executed it */
	UAIO_STAY_KERNEL,
	UAIO_NR_STAYS,
	UAIO_STAY_NONE = UAIO_NR_STAYS,
};

/*
 * Called each time the library starts, also in a child of fork(): reset all counts.
 */
void uaio_stats_init(void);

static_assert((int)UAIO_NR_OPS <= (int)UAIO_LIVE_OPS &&
		      (int)UAIO_NR_WAYS <= (int)UAIO_LIVE_WAYS &&
		      (int)UAIO_NR_DIRECT_COUNTS <= (int)UAIO_LIVE_DIRECTS &&
		      (int)UAIO_NR_FAULT_KINDS <= (int)UAIO_LIVE_FAULTS &&
		      (int)UAIO_NR_STAYS <= (int)UAIO_LIVE_STAYS &&
		      (int)UAIO_NR_HISTS <= (int)UAIO_LIVE_TIMES + 1,
	      "they fit into the page");

/* Names that the JSON report and the tools print. */
extern const char *const uaio_way_names[UAIO_NR_WAYS];
extern const char *const uaio_time_names[UAIO_NR_TIMES];
extern const char *const uaio_direct_names[UAIO_NR_DIRECT_COUNTS];
extern const char *const uaio_stay_names[UAIO_NR_STAYS];

extern _Thread_local struct uaio_live_block *uaio_stats_of_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
/* the process whose requests are counted; set only when the library starts */
extern int uaio_stats_pid;

/*
 * Gauges (current values) of the process, in its page of shared memory if it has one.
 * The pointer is set only when the library starts.
 */
extern struct uaio_live_gauges *uaio_stats_gauges;

struct uaio_live_block *uaio_stats_get(void);

/* Return: the calling thread's block; NULL if statistics are off. */
static inline struct uaio_live_block *uaio_stats_mine(void)
{
	struct uaio_live_block *mine;

	if (likely(!uaio_config.has_stats))
		return NULL;
	mine = uaio_stats_of_thread;
	/* relaxed: the pid does not change after the thread has got its block */
	return likely(mine && load_relaxed(&mine->pid) == uaio_stats_pid)
		       ? mine
		       : uaio_stats_get();
}

/* Add nr to a count. Takes a locked instruction only in the shared block (I1). */
static inline void uaio_stats_add(struct uaio_live_block *block,
				  uint64_t *count, uint64_t nr)
{
	if (unlikely(load_relaxed(&block->owner) < 0))
		add_relaxed(count, nr);
	else
		store_relaxed(count, load_relaxed(count) + nr);
}

/* Add the duration from start to end to a histogram, nr times. */
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

/* Return: whether a tool may want records of the requests of the block's thread. */
static inline bool uaio_stats_is_traced(const struct uaio_live_block *block)
{
	/* relaxed: only a hint, set by a tool or by this process */
	return unlikely(load_relaxed(&block->is_traced));
}

/* Return: the index of a block; the shared block has the last index. */
unsigned uaio_stats_place(const struct uaio_live_block *block);

/*
 * Called when a queue has more requests in flight than ever before. Each queue counts
 * its own peak, so that threads which submit to different queues do not write to the
 * same memory. The peak of the process is the greatest value that the sum of its open
 * queues' peaks has had.
 */
void uaio_stats_queue_peaks(void);
/*
 * Called when a queue ends. peak: the greatest number of requests of the queue that
 * were in flight at the same time.
 */
void uaio_stats_queue_ends(uint32_t peak);

/*
 * Count that nr requests, which waited for `from`, now wait for `to`. Never assigns a
 * block to the thread, because this may allocate memory. So the function may be called
 * under any lock.
 */
void uaio_stats_moved(enum uaio_stay from, enum uaio_stay to, uint64_t nr);

static inline void uaio_stats_move(enum uaio_stay from, enum uaio_stay to,
				   uint64_t nr)
{
	if (from != to && uaio_config.has_stats)
		uaio_stats_moved(from, to, nr);
}

/* The sums over the blocks of all threads. Times are in nanoseconds. */
struct uaio_stats_sum {
	uint64_t nr_submits;
	uint64_t nr_accepted;
	uint64_t nr_completed;
	/* how many io_urings were ever set up */
	uint64_t nr_rings;
	uint64_t nr_by_way[UAIO_NR_OPS][UAIO_NR_WAYS];
	uint64_t nr_direct[UAIO_NR_DIRECT_COUNTS];
	uint64_t nr_faults[UAIO_NR_FAULT_KINDS];
	/*
	 * how many requests now wait, by enum uaio_stay; exact only if no request
	 * begins or ends a wait meanwhile
	 */
	int64_t nr_there[UAIO_NR_STAYS];
	/*
	 * greatest number of requests in flight at the same time, inline requests
	 * excluded
	 */
	uint32_t peak_in_flight;
	/* threads that the library has created */
	uint32_t nr_threads;
	/* greatest number of library threads at the same time */
	uint32_t peak_threads;
	struct uaio_time_sum {
		uint64_t nr;
		uint64_t p50, p99, p999, max;
	} times[UAIO_NR_TIMES];
};

/* Thread-safety: one thread at a time calls this. */
void uaio_stats_sum(struct uaio_stats_sum *ret_sum);

#endif /* UAIO_REQ_STATS_H */
