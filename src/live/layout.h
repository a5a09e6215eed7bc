/* SPDX-License-Identifier: MIT */
/*
 * The page: counts of a process's requests, for other processes to read
 *
 * The page is a file in memory that the process maps and writes, and that `uaio stat`
 * reads. All offsets and sizes are fixed here, and the page itself contains the names
 * of what it counts. So a tool can read pages of other versions of the library.
 *
 *   0x00000  identity: the page's process; immutable once `is_ready` is set
 *   0x00100  control: words that a tool writes, to ask for a trace
 *   0x00200  gauges of the process
 *   0x00400  names
 *   0x01000  unused
 *   0x08000  blocks: the counts of one thread each; the last block is shared by all
 *            further threads. A block with `pid` 0 is unused, and may be beyond the
 *            end of the file.
 *
 *   I1  All counts are aligned words of 64 bits (gauges of 32), written by relaxed stores
 *       or additions. Each word is consistent; two words may be from different moments.
 *   I2  The process reads from the page only the counts that it adds to, the owners of
 *       blocks, and the requests of tools. So another process that writes to the page
 *       can falsify counts or start a trace, but can do no other harm.
 *   I3  The counts of a block only grow. How many requests are in a state (struct
 *       uaio_live_stays) is the difference of two sums, and may be slightly wrong if
 *       the sums change meanwhile.
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
	UAIO_LIVE_NAME = 16, /* bytes of a name, with terminator */
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
 * A histogram of times in cycles (uaio_cycles()). Each power of two has 16 buckets, so
 * a value is known to within 6 %; values below 32 are exact. The last bucket also
 * counts all larger values.
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

/* Whether the process still uses the page. */
enum uaio_live_state {
	UAIO_LIVE_ON,
	UAIO_LIVE_LEAVING, /* about to end, or to execute another program */
};

struct uaio_live_identity {
	char magic[8];
	uint32_t version;  /* UAIO_LIVE_VERSION */
	uint32_t is_ready; /* atomic: the rest of the identity is valid */
	int32_t pid;       /* in the process's own namespace */
	uint32_t uid;
	uint64_t pid_namespace;   /* inode number; 0: unknown */
	uint64_t born_ns;         /* CLOCK_BOOTTIME: creation of the page */
	uint64_t born_real_ns;    /* CLOCK_REALTIME: creation of the page */
	uint32_t state;           /* atomic: enum uaio_live_state */
	uint32_t nr_ops, nr_ways; /* how many of each have a name */
	uint32_t nr_directs, nr_times, nr_faults;
	uint32_t block_bytes; /* used bytes of a block */
	char comm[UAIO_LIVE_NAME];
	/*
	 * atomic; CLOCK_REALTIME: when a tool first read the page after the process had
	 * ended; or 0
	 */
	uint64_t read_ns;
	uint32_t nr_stays; /* how many have a name */
};

/* Requests of tools to the process. */
struct uaio_live_control {
	uint64_t words[31]; /* trace/ask.h has their layout */
	/*
	 * atomic; in cycles of uaio_cycles(): until this time all requests are timed,
	 * instead of a sample (req/sample.h)
	 */
	uint64_t timed_until;
};

/*
 * In which states requests in flight are, such as waiting for a worker: how many
 * requests have entered and left each state (a stay). A request may enter and leave a
 * state on different threads, so only the sums over all threads tell how many are in
 * it.
 */
struct uaio_live_stays {
	uint64_t nr_begun[UAIO_LIVE_STAYS];
	uint64_t nr_ended[UAIO_LIVE_STAYS];
};

struct uaio_live_gauges {
	/* requests that were not inline: the sum of the peaks of all existing queues */
	uint32_t queues_peaks;
	uint32_t peak_in_flight; /* the largest queues_peaks so far */
	/*
	 * threads of the library: how many exist, were ever started, existed at the
	 * same time at most
	 */
	uint32_t nr_threads;
	uint32_t nr_threads_ever;
	uint32_t peak_threads;
	uint32_t spare;
	uint64_t nr_setups;  /* contexts and rings that were created */
	uint64_t nr_wakeups; /* waiting threads woken for completions */
	struct uaio_live_stays stays; /* of threads that had no block then */
	uint64_t nr_rings;            /* of nr_setups: rings of io_uring */
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
 * Counts of one thread, which only this thread writes; or of all threads without a
 * block of their own.
 */
struct uaio_live_block {
	int32_t owner; /* atomic: thread id; -1: shared, by atomic additions */
	int32_t pid;   /* atomic; 0: unused */
	/* atomic: a tool may want a trace (trace/ask.h); tools write it, too */
	uint32_t is_traced;
	uint32_t spare;
	uint64_t nr_completed; /* requests that were not executed inline */
	uint64_t nr_accepted[UAIO_LIVE_OPS][UAIO_LIVE_WAYS];
	uint64_t nr_direct[UAIO_LIVE_DIRECTS];
	uint64_t nr_faults[UAIO_LIVE_FAULTS];
	struct uaio_live_stays stays;
	/*
	 * A histogram for each time that has a name. The last histogram is for requests
	 * that were executed inline and alone in their call: they count for every time
	 * except the waits.
	 */
	struct uaio_hist hists[UAIO_LIVE_TIMES + 1];
	uint64_t nr_submits; /* calls in which a request was accepted */
	/* calls that were timed; each counts for 16 in the histograms (req/sample.h) */
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
 * Return: whether the identity is valid. If so, its version says whether the caller can
 * read the rest.
 */
static inline bool uaio_live_is_ready(const struct uaio_live_page *page)
{
	/* [MB:live-ready] acquire: pairs with uaio_live_publish(). */
	return load_acquire(&page->identity.is_ready);
}

#endif /* UAIO_LIVE_LAYOUT_H */
