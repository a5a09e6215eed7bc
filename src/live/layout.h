/* SPDX-License-Identifier: MIT */
/*
 * The page: what a process shows others of its requests
 *
 * A file in memory that the process maps and writes, and that `uaio stat` reads.
 * Offsets and sizes are fixed and stand here, so that a tool reads the pages of other
 * versions of the library; names stand in the page itself.
 *
 *   0x00000  identity: whose page it is; immutable once `is_ready` is set
 *   0x00100  control: words that a tool writes, to ask for a trace
 *   0x00200  gauges of the process
 *   0x00400  names
 *   0x01000  not used yet
 *   0x08000  blocks: the counts of one thread each, the last one those of all threads
 *            beyond that. One whose `pid` is 0 is not in use, and may be beyond the
 *            end of the file.
 *
 *   I1  All counts are aligned words of 64 bits (gauges of 32), written by relaxed
 *       stores or additions. Each word is right by itself; two words may be of
 *       different moments.
 *   I2  Of the page the process reads the counts that it adds to, of a block whose it
 *       is, and what tools ask for. What others write there may make its counts wrong,
 *       or have it traced, and nothing else.
 *   I3  The counts of a block only ever grow. How many requests are somewhere now is
 *       the difference of two sums, which may be off by what goes on meanwhile.
 *   I4  A member of the page that is added takes room that was zero. If one changes its
 *       place or its meaning, or a block its size, UAIO_LIVE_VERSION changes, and a tool
 *       does not read the page; in every version the identity begins with `magic`,
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
	UAIO_LIVE_NAME = 16, /* bytes of a name, with its end */
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
 * A histogram: each power of two has 16 buckets, so a value is known to 6 % at worst;
 * below 32 it is exact. The last bucket holds everything longer. In cycles of
 * uaio_cycles().
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

/* Whether the process goes on with the page. */
enum uaio_live_state {
	UAIO_LIVE_ON,
	UAIO_LIVE_LEAVING, /* it is about to end, or to execute another program */
};

struct uaio_live_identity {
	char magic[8];
	uint32_t version;  /* UAIO_LIVE_VERSION */
	uint32_t is_ready; /* atomic: the rest of the identity is there */
	int32_t pid;       /* as the process sees it */
	uint32_t uid;
	uint64_t pid_namespace;   /* its inode; 0: not known */
	uint64_t born_ns;         /* CLOCK_BOOTTIME: the page was made */
	uint64_t born_real_ns;    /* CLOCK_REALTIME, at the same moment */
	uint32_t state;           /* atomic: enum uaio_live_state */
	uint32_t nr_ops, nr_ways; /* so many have a name */
	uint32_t nr_directs, nr_times, nr_faults;
	uint32_t block_bytes; /* what is in use of a block */
	char comm[UAIO_LIVE_NAME];
	/* atomic; written by tools, CLOCK_REALTIME: the end was read; 0: not yet */
	uint64_t read_ns;
	uint32_t nr_stays; /* so many have a name */
};

/* What a tool asks of the process. */
struct uaio_live_control {
	uint64_t words[31]; /* trace/ask.h has their layout */
	/*
	 * atomic; in cycles of uaio_cycles(): until then the times of all requests are
	 * taken, not only of some (req/sample.h)
	 */
	uint64_t timed_until;
};

/*
 * Where requests in flight are: so many have begun to be there, and so many have ended
 * it. One may end it on another thread, so only the sums over all threads tell how many
 * are there.
 */
struct uaio_live_stays {
	uint64_t nr_begun[UAIO_LIVE_STAYS];
	uint64_t nr_ended[UAIO_LIVE_STAYS];
};

struct uaio_live_gauges {
	/* of requests that were not inline: the peaks of the queues that live, added up */
	uint32_t queues_peaks;
	uint32_t peak_in_flight; /* the most that this has been */
	/* the library's own: alive, ever started, most at a time */
	uint32_t nr_threads;
	uint32_t nr_threads_ever;
	uint32_t peak_threads;
	uint32_t spare;
	uint64_t nr_setups;  /* contexts and rings, ever */
	uint64_t nr_wakeups; /* threads that waited for completions, woken */
	struct uaio_live_stays stays; /* of threads that had no block then */
	uint64_t nr_rings;            /* of nr_setups, io_uring's */
};

struct uaio_live_names {
	char ways[UAIO_LIVE_WAYS][UAIO_LIVE_NAME];
	char directs[UAIO_LIVE_DIRECTS][UAIO_LIVE_NAME];
	char faults[UAIO_LIVE_FAULTS][UAIO_LIVE_NAME];
	char times[UAIO_LIVE_TIMES][UAIO_LIVE_NAME];
	char ops[UAIO_LIVE_OPS][UAIO_LIVE_NAME];
	char stays[UAIO_LIVE_STAYS][UAIO_LIVE_NAME];
};

/* Counts: those of one thread, which alone writes them, or of all others. */
struct uaio_live_block {
	int32_t owner; /* atomic: thread id; -1: any thread, by locked additions */
	int32_t pid; /* atomic; 0: not in use */
	/* atomic: a tool may ask for a trace (trace/ask.h); set by tools, too */
	uint32_t is_traced;
	uint32_t spare;
	uint64_t nr_completed; /* requests that were not inline */
	uint64_t nr_accepted[UAIO_LIVE_OPS][UAIO_LIVE_WAYS];
	uint64_t nr_direct[UAIO_LIVE_DIRECTS];
	uint64_t nr_faults[UAIO_LIVE_FAULTS];
	struct uaio_live_stays stays;
	/*
	 * Of each time that has a name. The next one is of requests that were inline
	 * and alone in their call: they count for each time but the waits.
	 */
	struct uaio_hist hists[UAIO_LIVE_TIMES + 1];
	uint64_t nr_submits; /* calls in which a request was accepted */
	/* calls whose times stand for those of 16 in the histograms (req/sample.h) */
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

/* Return: whether the identity is there; then the version says whether to read on. */
static inline bool uaio_live_is_ready(const struct uaio_live_page *page)
{
	/* [MB:live-ready] acquire: pairs with uaio_live_publish(). */
	return load_acquire(&page->identity.is_ready);
}

#endif /* UAIO_LIVE_LAYOUT_H */
