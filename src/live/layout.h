/* SPDX-License-Identifier: MIT */
/*
 * The page: counts of a process's requests, which other processes can read
 *
 * The page is a file in a tmpfs. The process maps and writes it; `uaio stat` reads it.
 * All offsets and sizes are fixed here, and the page itself contains the names of what
 * it counts. So a tool can read pages of other versions of the library.
 *
 *   0x00000  identity: the process that owns the page; immutable once `is_ready` is set
 *   0x00100  control: words that a tool writes, to ask for a trace
 *   0x00200  gauges of the process
 *   0x00400  names
 *   0x01000  unused
 *   0x08000  blocks: each has the counts of one thread; all further threads share the
 *            last block. A block with `pid` 0 is unused, and may be beyond the end of
 *            the file.
 *
 *   I1  All counts are aligned words of 64 bits (gauges: 32), written by relaxed stores
 *       or additions. Each word is consistent; two words may be from different moments.
 *   I2  From the page the process reads only the counts that it adds to, the owners of
 *       blocks, and the requests of tools. So another process that writes to the page
 *       can falsify counts or start a trace, but can do no other harm.
 *   I3  The counts of a block only grow. The number of requests in a state (struct
 *       uaio_live_stays) is the difference of two sums. If the sums change while they are
 *       read, this number may be slightly wrong.
 *   I4  A new member of the page uses bytes that were zero before. If a member moves or
 *       changes its meaning, or a block changes its size, UAIO_LIVE_VERSION changes,
 *       and a tool refuses the page. In every version the identity begins with `magic`,
 *       `version` and `is_ready`.
 */
#ifndef UAIO_LIVE_LAYOUT_H
#define UAIO_LIVE_LAYOUT_H

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

#define UAIO_LIVE_MAGIC "uaiolive"
enum { UAIO_LIVE_VERSION = 6 };

enum {
	/* size of a name in bytes, with its null byte */
	UAIO_LIVE_NAME = 16,
	UAIO_LIVE_OPS = 64,
	UAIO_LIVE_WAYS = 4,
	UAIO_LIVE_TIMES = 6,
	UAIO_LIVE_DIRECTS = 8,
	UAIO_LIVE_FAULTS = 8,
	UAIO_LIVE_STAYS = 8,

	UAIO_LIVE_BLOCKS_AT = 0x8000,
	UAIO_LIVE_BLOCK_BYTES = 0xa000,
	UAIO_LIVE_BLOCKS = 65,
	UAIO_LIVE_BYTES =
		UAIO_LIVE_BLOCKS_AT + UAIO_LIVE_BLOCKS * UAIO_LIVE_BLOCK_BYTES,
};

/*
 * A histogram of times, in cycles of uaio_cycles(). Each value below 32 has its own
 * bucket. From 32 on, each power of two has 16 buckets, so a value is known to within
 * 6%. The last bucket also counts all larger values.
 */
enum {
	UAIO_HIST_SUB_BITS = 4,
	UAIO_HIST_MAX_BIT = 43,
	UAIO_NR_BUCKETS = (UAIO_HIST_MAX_BIT - UAIO_HIST_SUB_BITS + 2)
			  << UAIO_HIST_SUB_BITS,
};

struct uaio_hist {
	uint64_t max;
	uint64_t buckets[UAIO_NR_BUCKETS];
};

/* Whether the process will continue to write the page (its counts). */
enum uaio_live_state {
	UAIO_LIVE_ON,
	/* the process is about to end, or to execute another program */
	UAIO_LIVE_LEAVING,
};

struct uaio_live_identity {
	char magic[8];
	uint32_t version; /* UAIO_LIVE_VERSION */
	/* atomic: set once all other members of the identity are valid */
	uint32_t is_ready;
	/* as seen in the process's own pid namespace */
	int32_t pid;
	uint32_t uid;
	/* inode number of the namespace; 0: unknown */
	uint64_t pid_namespace;
	/* when the page was created (CLOCK_BOOTTIME) */
	uint64_t born_ns;
	/* when the page was created (CLOCK_REALTIME) */
	uint64_t born_real_ns;
	uint32_t state; /* atomic: enum uaio_live_state */
	/* how many entries of struct uaio_live_names are used */
	uint32_t nr_ops, nr_ways;
	uint32_t nr_directs, nr_times, nr_faults;
	/* how many bytes of each block (counts of one thread) are used */
	uint32_t block_bytes;
	char comm[UAIO_LIVE_NAME];
	/*
	 * atomic: when a tool first read the page after the process had ended
	 * (CLOCK_REALTIME); 0: not yet
	 */
	uint64_t read_ns;
	/* how many entries of `stays` in struct uaio_live_names are used */
	uint32_t nr_stays;
};

/* What tools ask of the process. */
struct uaio_live_control {
	/* laid out as struct uaio_trace_ask */
	uint64_t words[31];
	/*
	 * atomic; a time in cycles of uaio_cycles(): until then the process measures
	 * the times of all requests, instead of a sample (req/sample.h)
	 */
	uint64_t timed_until;
};

/*
 * For each state of a request in flight, such as waiting for a worker: how many
 * requests have entered and left it. A request may enter a state on one thread and
 * leave it on another. So only the difference of the sums over all threads is the
 * number of requests in a state.
 */
struct uaio_live_stays {
	uint64_t nr_begun[UAIO_LIVE_STAYS];
	uint64_t nr_ended[UAIO_LIVE_STAYS];
};

struct uaio_live_gauges {
	/*
	 * The sum of the peaks of all existing queues. A queue's peak is the greatest
	 * number of its requests that were in flight at the same time. Requests executed
	 * inline do not count.
	 */
	uint32_t queues_peaks;
	/* largest value of queues_peaks so far */
	uint32_t peak_in_flight;
	/*
	 * threads of the library: how many exist now, how many were ever started, and
	 * the largest number at the same time
	 */
	uint32_t nr_threads;
	uint32_t nr_threads_ever;
	uint32_t peak_threads;
	uint32_t spare;
	/* how many contexts and rings were created */
	uint64_t nr_setups;
	/* how often a thread that waited for completions was woken */
	uint64_t nr_wakeups;
	/*
	 * counted here by threads that had no block of their own
	 */
	struct uaio_live_stays stays;
	/* how many of nr_setups are rings of io_uring */
	uint64_t nr_rings;
};

struct uaio_live_names {
	char ways[UAIO_LIVE_WAYS][UAIO_LIVE_NAME];
	char directs[UAIO_LIVE_DIRECTS][UAIO_LIVE_NAME];
	char faults[UAIO_LIVE_FAULTS][UAIO_LIVE_NAME];
	char times[UAIO_LIVE_TIMES][UAIO_LIVE_NAME];
	char ops[UAIO_LIVE_OPS][UAIO_LIVE_NAME];
	char stays[UAIO_LIVE_STAYS][UAIO_LIVE_NAME];
};

/*
 * A block: the counts of one thread, which only this thread writes. The last block has
 * the counts of all threads that have no block of their own.
 */
struct uaio_live_block {
	/* atomic: thread id; -1: the shared block, changed by atomic additions */
	int32_t owner;
	int32_t pid; /* atomic; 0: unused */
	/* atomic: set by a tool that may want a trace (trace/ask.h) */
	uint32_t is_traced;
	uint32_t spare;
	/* requests that completed, but were not executed inline */
	uint64_t nr_completed;
	uint64_t nr_accepted[UAIO_LIVE_OPS][UAIO_LIVE_WAYS];
	uint64_t nr_direct[UAIO_LIVE_DIRECTS];
	uint64_t nr_faults[UAIO_LIVE_FAULTS];
	struct uaio_live_stays stays;
	/*
	 * One histogram for each time in struct uaio_live_names, and one more. The last
	 * is for inline requests that were the only request of their submitting call.
	 * Such a request never waits, and its other times all have one value. So tools
	 * add the last histogram to the others, except to the histograms of waiting
	 * times.
	 */
	struct uaio_hist hists[UAIO_LIVE_TIMES + 1];
	/* submitting calls that accepted at least one request */
	uint64_t nr_submits;
	/*
	 * submitting calls that were timed; each counts as 16 in the histograms
	 * (req/sample.h)
	 */
	uint64_t nr_sampled;
};

struct uaio_live_page {
	alignas(0x100) struct uaio_live_identity identity;
	alignas(0x100) struct uaio_live_control control;
	alignas(0x100) struct uaio_live_gauges gauges;
	alignas(0x400) struct uaio_live_names names;
};

static_assert(offsetof(struct uaio_live_page, control) == 0x100 &&
		      offsetof(struct uaio_live_page, gauges) == 0x200 &&
		      offsetof(struct uaio_live_page, names) == 0x400 &&
		      sizeof(struct uaio_live_page) <= 0x1000,
	      "as it stands above");
static_assert(sizeof(struct uaio_live_control) == 0x100 &&
		      offsetof(struct uaio_live_block, hists) == 2328 &&
		      sizeof(struct uaio_live_block) <= UAIO_LIVE_BLOCK_BYTES,
	      "tools of other versions read it");

/*
 * Return: whether the identity is valid. If so, the identity's member `version` shows
 * whether the caller can read the rest of the page.
 */
static inline bool uaio_live_is_ready(const struct uaio_live_page *page)
{
	/* [MB:live-ready] acquire: pairs with uaio_live_publish(). */
	return load_acquire(&page->identity.is_ready);
}

#endif /* UAIO_LIVE_LAYOUT_H */
