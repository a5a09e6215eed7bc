/* SPDX-License-Identifier: MIT */
/*
 * The page: what a process shows others of its requests
 *
 * A file in memory that the process maps and writes, and that `uaio stat` and
 * `uaio top` map and read. Offsets and sizes are fixed and stand here, so that a tool
 * reads the pages of other versions of the library; names stand in the page itself.
 *
 *   0x00000  identity: whose page it is; immutable once `is_ready` is set
 *   0x00100  control: words that a tool may write, the only ones that the process
 *            reads. All zero: nothing is asked for.
 *   0x00200  gauges of the process
 *   0x00400  names
 *   0x01000  a row for each queue: a context, a ring, POSIX AIO
 *   0x03000  a row for each open file
 *   0x08000  blocks: the counts of one thread each, the last one those of all threads
 *            beyond that. One whose `pid` is 0 is not in use, and may be beyond the
 *            end of the file.
 *
 *   I1  All counts are aligned words of 64 bits (gauges of 32), written by relaxed
 *       stores or additions. Each word is right by itself; two words may be of
 *       different moments.
 *   I2  A row is in use while its `use` is odd, and is another queue's or file's when
 *       `use` has changed. A reader reads `use` before and after the rest.
 *   I3  Of the page the process reads the control words, the counts that it adds to, and
 *       of a block, whose it is. What others write there may make its counts wrong, and
 *       have it traced; nothing else.
 *   I4  A block, and a row of the closed queues (row 0), only ever grows.
 *   I5  A member that is added takes room that was zero; if one changes its meaning,
 *       UAIO_LIVE_VERSION changes, and a tool does not read the page.
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
enum { UAIO_LIVE_VERSION = 1 };

enum {
	UAIO_LIVE_NAME = 16, /* bytes of a name, with its end */
	UAIO_LIVE_OPS = 64,
	UAIO_LIVE_WAYS = 4,
	UAIO_LIVE_STATES = 16,
	UAIO_LIVE_TIMES = 6,
	UAIO_LIVE_DIRECTS = 8,
	UAIO_LIVE_FAULTS = 8,

	UAIO_LIVE_QUEUES_AT = 0x1000,
	UAIO_LIVE_QUEUES = 64,
	UAIO_LIVE_FILES_AT = 0x3000,
	UAIO_LIVE_FILES = 64,
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
	uint64_t pid_namespace; /* its inode; 0: not known */
	uint64_t born_ns;       /* CLOCK_BOOTTIME: the page was made */
	uint64_t born_real_ns;  /* CLOCK_REALTIME, at the same moment */
	uint32_t state;         /* atomic: enum uaio_live_state */
	uint32_t nr_ops, nr_ways, nr_states; /* so many have a name */
	uint32_t nr_directs, nr_times, nr_faults;
	uint32_t
		file_sample; /* one of so many inline requests counts for a file */
	char comm[UAIO_LIVE_NAME];
	char library[UAIO_LIVE_NAME]; /* its version */
	/* atomic; written by tools, CLOCK_REALTIME: the end was read; 0: not yet */
	uint64_t read_ns;
};

/*
 * What a tool may ask of the process. A tool writes `asker` (its process id) by a
 * compare-and-exchange from 0 first, and 0 last; if that process is gone, another may
 * take its place. The words belong to `trace`, and are 0 while nobody traces.
 */
struct uaio_live_control {
	uint32_t asker; /* atomic */
	uint32_t trace; /* atomic: what is to be traced; 0: nothing */
	uint64_t words[31];
};

struct uaio_live_gauges {
	uint32_t nr_in_flight; /* requests that were not inline */
	uint32_t peak_in_flight;
	uint32_t
		nr_threads; /* the library's own: alive, ever started, at most */
	uint32_t nr_threads_ever;
	uint32_t peak_threads;
	uint32_t nr_queues; /* open now, with those that have no row */
	uint64_t nr_setups; /* contexts and rings, ever */
};

struct uaio_live_names {
	char states[UAIO_LIVE_STATES][UAIO_LIVE_NAME];
	char ways[UAIO_LIVE_WAYS][UAIO_LIVE_NAME];
	char directs[UAIO_LIVE_DIRECTS][UAIO_LIVE_NAME];
	char faults[UAIO_LIVE_FAULTS][UAIO_LIVE_NAME];
	char times[UAIO_LIVE_TIMES][UAIO_LIVE_NAME];
	char ops[UAIO_LIVE_OPS][UAIO_LIVE_NAME];
};

/* Row 0 is that of all queues that are closed, or had no row of their own. */
struct uaio_live_queue {
	uint32_t use; /* atomic, see I2 */
	char door[12];
	uint64_t id; /* a descriptor, or the address of a ring */
	uint64_t nr_inline, nr_late; /* requests complete: in the call, later */
	uint64_t nr_wakeups;         /* waiters woken */
	uint32_t nr_in[UAIO_LIVE_STATES]; /* requests in each state now */
	uint64_t spare[2];
};

/* Row 0 is that of all files that are closed, or had no row of their own. */
struct uaio_live_file {
	uint32_t use; /* atomic, see I2 */
	int32_t fd;
	uint64_t dev, ino;
	uint64_t
		nr_inline; /* estimated: file_sample for each that was counted */
	uint64_t inline_bytes;
	uint64_t nr_late; /* exact */
	uint64_t late_bytes;
	uint64_t spare;
};

/* Counts: those of one thread, which alone writes them, or of all others. */
struct uaio_live_block {
	int32_t owner; /* atomic: thread id; -1: any thread, by locked additions */
	int32_t pid;           /* atomic; 0: not in use */
	uint64_t nr_completed; /* requests that were not inline */
	uint64_t nr_accepted[UAIO_LIVE_OPS][UAIO_LIVE_WAYS];
	uint64_t nr_direct[UAIO_LIVE_DIRECTS];
	uint64_t nr_faults[UAIO_LIVE_FAULTS];
	/*
	 * Of each time that has a name. The next one is of requests that were inline
	 * and alone in their call: they count for each time but the waits.
	 */
	struct uaio_hist hists[UAIO_LIVE_TIMES + 1];
};

struct uaio_live_page {
	alignas(0x100) struct uaio_live_identity identity;
	alignas(0x100) struct uaio_live_control control;
	alignas(0x100) struct uaio_live_gauges gauges;
	alignas(0x400) struct uaio_live_names names;
	alignas(0x1000) struct uaio_live_queue queues[UAIO_LIVE_QUEUES];
	alignas(0x1000) struct uaio_live_file files[UAIO_LIVE_FILES];
};

static_assert(offsetof(struct uaio_live_page, control) == 0x100 &&
		      offsetof(struct uaio_live_page, gauges) == 0x200 &&
		      offsetof(struct uaio_live_page, names) == 0x400 &&
		      offsetof(struct uaio_live_page, queues) ==
			      UAIO_LIVE_QUEUES_AT &&
		      offsetof(struct uaio_live_page, files) ==
			      UAIO_LIVE_FILES_AT &&
		      sizeof(struct uaio_live_page) <= UAIO_LIVE_BLOCKS_AT,
	      "as it stands above");
static_assert(sizeof(struct uaio_live_control) == 0x100 &&
		      sizeof(struct uaio_live_queue) == 128 &&
		      sizeof(struct uaio_live_file) == 64 &&
		      offsetof(struct uaio_live_block, hists) == 2192 &&
		      sizeof(struct uaio_live_block) <= UAIO_LIVE_BLOCK_BYTES,
	      "tools of other versions read it");

/* Return: whether the identity is there; then the version says whether to read on. */
static inline bool uaio_live_is_ready(const struct uaio_live_page *page)
{
	/* [MB:live-ready] acquire: pairs with uaio_live_publish(). */
	return load_acquire(&page->identity.is_ready);
}

#endif /* UAIO_LIVE_LAYOUT_H */
