/* SPDX-License-Identifier: MIT */
#include "req/stats.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "trace/listen.h"
#include "trace/trace.h"
#include "live/live.h"
#include "proc/thread.h"

/*
 * A thread that needs a block checks this many blocks for an owner that has exited.
 */
enum { NR_LOOKED_AT = 8 };

/* The last block is shared by all threads that have no block of their own. */
enum { SHARED = UAIO_LIVE_BLOCKS - 1, ANY_THREAD = -1 };
static_assert(SHARED == 64, "a bit for each of the others");
static_assert((int)SHARED == (int)UAIO_TRACE_OWN_LANES,
	      "a lane for each of them");
static_assert(sizeof(struct uaio_trace_ask) <=
		      offsetof(struct uaio_live_control, timed_until),
	      "there is room for it");

static struct {
	/* atomic */
	/*
	 * the memory of the blocks, laid out like the page of shared memory
	 * (live/layout.h); NULL: not allocated yet
	 */
	char *area;
	/* bitmap of the blocks; a bit is set if its block has, or had, an owner */
	uint64_t taken;
	/* number of blocks that are taken, or could not be allocated */
	uint32_t nr_asked_for;
	/* the block at which the next search for an owner that has exited begins */
	uint32_t cursor;
	uint32_t shares; /* enum sharing */
} all;

/*
 * Whether there is memory for the shared block, which counts for threads without a
 * block of their own.
 */
enum sharing { UNKNOWN, SHARED_HERE, SHARED_NOWHERE };

/*
 * A thread counts in `spare` if memory is refused for its own block and for the shared
 * block. own_gauges is used if the process has no page of shared memory (live/live.h).
 */
static struct uaio_live_block spare;
static struct uaio_live_gauges own_gauges;

struct uaio_live_gauges *uaio_stats_gauges = &own_gauges;

_Thread_local struct uaio_live_block *uaio_stats_of_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
int uaio_stats_pid;

const char *const uaio_way_names[UAIO_NR_WAYS] = {
	[UAIO_WAY_INLINE] = "inline",
	[UAIO_WAY_PARKED] = "parked",
	[UAIO_WAY_QUEUED] = "queued",
};

const char *const uaio_time_names[UAIO_NR_TIMES] = {
	[UAIO_TIME_SUBMIT] = "submit",   [UAIO_TIME_WAIT] = "queue_wait",
	[UAIO_TIME_PAGES] = "page_wait", [UAIO_TIME_SERVICE] = "service",
	[UAIO_TIME_TOTAL] = "total",
};

const char *const uaio_direct_names[UAIO_NR_DIRECT_COUNTS] = {
	[UAIO_DIRECT_CUT] = "cut",         [UAIO_DIRECT_SEGMENTS] = "segments",
	[UAIO_DIRECT_BOUNCED] = "bounced", [UAIO_DIRECT_KERNEL] = "kernel_aio",
	[UAIO_DIRECT_URING] = "io_uring",
};

const char *const uaio_stay_names[UAIO_NR_STAYS] = {
	[UAIO_STAY_QUEUED] = "queued", [UAIO_STAY_PARKED] = "parked",
	[UAIO_STAY_TIMED] = "timed",   [UAIO_STAY_WAITING] = "waiting",
	[UAIO_STAY_KERNEL] = "kernel",
};

/* the page */

static void name(char (*to)[UAIO_LIVE_NAME], const char *const *from,
		 unsigned nr, uint32_t *ret_nr)
{
	for (unsigned i = 0; i < nr; i++)
		(void)snprintf(to[i], UAIO_LIVE_NAME, "%s", from[i]);
	*ret_nr = nr;
}

static void name_all(struct uaio_live_page *page)
{
	struct uaio_live_identity *identity = &page->identity;
	struct uaio_live_names *names = &page->names;

	name(names->ops, uaio_op_names, UAIO_NR_OPS, &identity->nr_ops);
	name(names->ways, uaio_way_names, UAIO_NR_WAYS, &identity->nr_ways);
	name(names->times, uaio_time_names, UAIO_NR_TIMES, &identity->nr_times);
	name(names->directs, uaio_direct_names, UAIO_NR_DIRECT_COUNTS,
	     &identity->nr_directs);
	name(names->faults, uaio_fault_names, UAIO_NR_FAULT_KINDS,
	     &identity->nr_faults);
	name(names->stays, uaio_stay_names, UAIO_NR_STAYS, &identity->nr_stays);
}

static struct uaio_live_page *open_page(void)
{
	struct uaio_live_page *page =
		uaio_config.has_live ? uaio_live_open() : NULL;

	if (page) {
		name_all(page);
		uaio_live_publish(page);
	}
	return page;
}

void uaio_stats_init(void)
{
	struct uaio_live_page *page;

	memset(&all, 0, sizeof(all));
	memset(&spare, 0, sizeof(spare));
	memset(&own_gauges, 0, sizeof(own_gauges));
	uaio_sampler = (struct uaio_sampler){ 0 };
	spare.owner = ANY_THREAD;
	spare.is_traced = uaio_trace_is_on();
	uaio_stats_pid = spare.pid = sys_getpid();
	page = open_page();
	all.area = (char *)page;
	uaio_listen_to(page ? (struct uaio_trace_ask *)(void *)&page->control
			    : NULL);
	uaio_stats_gauges = page ? &page->gauges : &own_gauges;
	uaio_threads_tell(page ? (struct uaio_thread_counts *)(void *)&page
					  ->gauges.nr_threads
			       : NULL);
	/*
	 * Without a report, a page of shared memory or a trace nobody can read the
	 * counts, so do not count.
	 */
	if (uaio_config.has_live || uaio_trace_is_on())
		uaio_config.has_stats =
			uaio_config.has_report || page || uaio_trace_is_on();
}

/* blocks */

/*
 * Return: the memory of the blocks, laid out like the page of shared memory
 * (live/layout.h); NULL: there is no memory.
 */
static char *area(void)
{
	/*
	 * relaxed: a thread that sees this pointer sees memory that the kernel has
	 * cleared, so no store must be ordered before it
	 */
	char *here = load_relaxed(&all.area), *mine;

	if (here)
		return here;
	mine = sys_mmap(NULL, UAIO_LIVE_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	if (sys_is_map_error(mine))
		return NULL;
	if (cas_relaxed(&all.area, &here, mine))
		return mine;
	(void)sys_munmap(mine, UAIO_LIVE_BYTES);
	return here;
}

static struct uaio_live_block *block_at(unsigned place)
{
	return (struct uaio_live_block
			*)(void *)(load_relaxed(&all.area) +
				   UAIO_LIVE_BLOCKS_AT +
				   (size_t)place * UAIO_LIVE_BLOCK_BYTES);
}

unsigned uaio_stats_place(const struct uaio_live_block *block)
{
	return block == &spare ? SHARED
			       : (unsigned)(((const char *)block -
					     load_relaxed(&all.area) -
					     UAIO_LIVE_BLOCKS_AT) /
					    UAIO_LIVE_BLOCK_BYTES);
}

static bool is_taken(unsigned place)
{
	return load_relaxed(&all.taken) >> place & 1;
}

static struct uaio_live_block *steal(int me)
{
	uint32_t nr = load_relaxed(&all.nr_asked_for), at;

	for (unsigned i = 0; i < NR_LOOKED_AT && i < nr; i++) {
		struct uaio_live_block *block;
		int owner;

		at = add_relaxed(&all.cursor, 1) % nr;
		if (!is_taken(at))
			continue;
		block = block_at(at);
		owner = load_relaxed(&block->owner);
		if (owner > 0 &&
		    sys_tgkill(uaio_stats_pid, owner, 0) == -ESRCH &&
		    cas_relaxed(&block->owner, &owner, me))
			return block;
	}
	return NULL;
}

/*
 * Assign the block to owner: from now on the block's counts are part of the sums.
 */
static struct uaio_live_block *take(struct uaio_live_block *block, int owner)
{
	store_relaxed(&block->owner, owner);
	store_relaxed(&block->is_traced,
		      uaio_trace_is_on() || uaio_listen_is_asked());
	store_relaxed(&block->pid, uaio_stats_pid);
	return block;
}

static struct uaio_live_block *take_free(int me)
{
	uint32_t place = load_relaxed(&all.nr_asked_for);
	struct uaio_live_block *block;

	do
		if (place >= SHARED)
			return NULL;
	while (!cas_relaxed(&all.nr_asked_for, &place, place + 1));
	if (uaio_live_page() && !uaio_live_block(place)) {
		/*
		 * The page of shared memory has no memory left, so no thread can get a
		 * further block.
		 */
		store_relaxed(&all.nr_asked_for, SHARED);
		return NULL;
	}
	block = take(block_at(place), me);
	or_relaxed(&all.taken, 1ull << place);
	return block;
}

static struct uaio_live_block *share(void)
{
	if (load_relaxed(&all.shares) == UNKNOWN) {
		bool is_here = !uaio_live_page() || uaio_live_block(SHARED);

		if (is_here)
			(void)take(block_at(SHARED), ANY_THREAD);
		store_relaxed(&all.shares,
			      is_here ? SHARED_HERE : SHARED_NOWHERE);
	}
	return load_relaxed(&all.shares) == SHARED_HERE ? block_at(SHARED)
							: &spare;
}

struct uaio_live_block *uaio_stats_get(void)
{
	struct uaio_live_block *block = NULL;
	int me = sys_gettid();

	if (!area())
		return &spare;
	block = steal(me);
	if (!block)
		block = take_free(me);
	if (!block)
		block = share();
	return uaio_stats_of_thread = block;
}

/* gauges */

static void raise_peak(uint32_t *peak, uint32_t nr)
{
	uint32_t old = load_relaxed(peak);

	while (nr > old && !cas_relaxed(peak, &old, nr))
		;
}

void uaio_stats_queue_peaks(void)
{
	uint32_t *peaks = &uaio_stats_gauges->queues_peaks;

	raise_peak(&uaio_stats_gauges->peak_in_flight,
		   add_relaxed(peaks, 1) + 1);
}

void uaio_stats_queue_ends(uint32_t peak)
{
	uint32_t *peaks = &uaio_stats_gauges->queues_peaks;
	uint32_t old = load_relaxed(peaks);

	/*
	 * The counts of a child of fork() begin at 0, but the child also ends queues of
	 * its parent: do not go below 0.
	 */
	while (!cas_relaxed(peaks, &old, old > peak ? old - peak : 0))
		;
}

static void add_anywhere(uint64_t *count, uint64_t nr, bool is_mine)
{
	if (likely(is_mine))
		store_relaxed(count, load_relaxed(count) + nr);
	else
		add_relaxed(count, nr);
}

void uaio_stats_moved(enum uaio_stay from, enum uaio_stay to, uint64_t nr)
{
	struct uaio_live_block *mine = uaio_stats_of_thread;
	struct uaio_live_stays *stays = &uaio_stats_gauges->stays;
	bool is_mine = likely(mine) &&
		       load_relaxed(&mine->pid) == uaio_stats_pid &&
		       load_relaxed(&mine->owner) != ANY_THREAD;

	if (is_mine)
		stays = &mine->stays;
	if (to != UAIO_STAY_NONE)
		add_anywhere(&stays->nr_begun[to], nr, is_mine);
	if (from != UAIO_STAY_NONE)
		add_anywhere(&stays->nr_ended[from], nr, is_mine);
}

/* adding up */

static uint64_t ns_of(uint64_t cycles)
{
	uint64_t rate;

	/*
	 * In the first millisecond after the library has started, the rate is unknown:
	 * wait.
	 */
	while (!(rate = uaio_cycles_per_us()))
		;
	return cycles / rate * 1000 + cycles % rate * 1000 / rate;
}

static void add_stays(struct uaio_stats_sum *sum,
		      const struct uaio_live_stays *stays)
{
	for (unsigned i = 0; i < UAIO_NR_STAYS; i++)
		sum->nr_there[i] +=
			(int64_t)(load_relaxed(&stays->nr_begun[i]) -
				  load_relaxed(&stays->nr_ended[i]));
}

static void add_block(struct uaio_stats_sum *sum, struct uaio_hist *hists,
		      const struct uaio_live_block *block)
{
	sum->nr_submits += load_relaxed(&block->nr_submits);
	sum->nr_completed += load_relaxed(&block->nr_completed);
	for (unsigned op = 0; op < UAIO_NR_OPS; op++)
		for (unsigned way = 0; way < UAIO_NR_WAYS; way++)
			sum->nr_by_way[op][way] +=
				load_relaxed(&block->nr_accepted[op][way]);
	for (unsigned i = 0; i < UAIO_NR_DIRECT_COUNTS; i++)
		sum->nr_direct[i] += load_relaxed(&block->nr_direct[i]);
	for (unsigned i = 0; i < UAIO_NR_FAULT_KINDS; i++)
		sum->nr_faults[i] += load_relaxed(&block->nr_faults[i]);
	add_stays(sum, &block->stays);
	for (unsigned time = 0; time < UAIO_NR_HISTS; time++)
		uaio_hist_add(&hists[time], &block->hists[time]);
}

static void sum_time(struct uaio_time_sum *sum, const struct uaio_hist *hist)
{
	sum->nr = uaio_hist_nr(hist);
	if (!sum->nr)
		return;
	sum->p50 = ns_of(uaio_hist_quantile(hist, sum->nr, 500));
	sum->p99 = ns_of(uaio_hist_quantile(hist, sum->nr, 990));
	sum->p999 = ns_of(uaio_hist_quantile(hist, sum->nr, 999));
	sum->max = ns_of(hist->max);
}

void uaio_stats_sum(struct uaio_stats_sum *ret_sum)
{
	static struct uaio_hist hists[UAIO_NR_HISTS];
	struct uaio_thread_counts threads;

	uaio_threads_count(&threads);
	*ret_sum = (struct uaio_stats_sum){
		.peak_in_flight =
			load_relaxed(&uaio_stats_gauges->peak_in_flight),
		.nr_rings = load_relaxed(&uaio_stats_gauges->nr_rings),
		.nr_threads = threads.nr_ever,
		.peak_threads = threads.peak,
	};
	memset(hists, 0, sizeof(hists));
	add_stays(ret_sum, &uaio_stats_gauges->stays);
	add_block(ret_sum, hists, &spare);
	for (unsigned i = 0; i < SHARED; i++)
		if (is_taken(i))
			add_block(ret_sum, hists, block_at(i));
	if (load_relaxed(&all.shares) == SHARED_HERE)
		add_block(ret_sum, hists, block_at(SHARED));
	for (unsigned op = 0; op < UAIO_NR_OPS; op++)
		for (unsigned way = 0; way < UAIO_NR_WAYS; way++)
			ret_sum->nr_accepted += ret_sum->nr_by_way[op][way];
	/*
	 * An inline request was counted only as accepted: count it as completed here.
	 */
	for (unsigned op = 0; op < UAIO_NR_OPS; op++)
		ret_sum->nr_completed +=
			ret_sum->nr_by_way[op][UAIO_WAY_INLINE];
	uaio_hist_add(&hists[UAIO_TIME_SUBMIT], &hists[UAIO_TIME_ALONE]);
	uaio_hist_add(&hists[UAIO_TIME_SERVICE], &hists[UAIO_TIME_ALONE]);
	uaio_hist_add(&hists[UAIO_TIME_TOTAL], &hists[UAIO_TIME_ALONE]);
	for (unsigned time = 0; time < UAIO_NR_TIMES; time++)
		sum_time(&ret_sum->times[time], &hists[time]);
}
