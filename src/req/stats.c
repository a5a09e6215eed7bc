/* SPDX-License-Identifier: MIT */
#include "req/stats.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "proc/thread.h"

/*
 * We are not told when a thread dies. Instead a thread that needs a block looks at
 * so many existing ones for one whose owner has died.
 */
enum { NR_LOOKED_AT = 8 };

static struct {
	/* atomic */
	struct uaio_stats *blocks; /* pushed to, nothing removed */
	struct uaio_stats *cursor; /* where to look next for a dead owner */
	uint32_t nr_in_flight;
	uint32_t peak_in_flight;
} all;

/*
 * For threads that got no memory for a block. Several may count here at a time, so
 * additions may be lost.
 */
static struct uaio_stats spare;

_Thread_local struct uaio_stats *uaio_stats_of_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
int uaio_stats_pid;

void uaio_stats_init(void)
{
	memset(&all, 0, sizeof(all));
	memset(&spare, 0, sizeof(spare));
	uaio_stats_pid = sys_getpid();
}

/* blocks */

static struct uaio_stats *steal(int me)
{
	/* relaxed: blocks are complete when listed, and are never removed */
	struct uaio_stats *block = load_relaxed(&all.cursor);

	for (unsigned i = 0; i < NR_LOOKED_AT; i++) {
		int owner;

		if (!block)
			/* [MB:stats] acquire: the block. Pairs with list(). */
			block = load_acquire(&all.blocks);
		if (!block)
			return NULL;
		owner = load_relaxed(&block->owner);
		if (sys_tgkill(uaio_stats_pid, owner, 0) == -ESRCH &&
		    cas_relaxed(&block->owner, &owner, me))
			return block;
		block = block->next;
		store_relaxed(&all.cursor, block);
	}
	return NULL;
}

static void list(struct uaio_stats *block)
{
	struct uaio_stats *first = load_relaxed(&all.blocks);

	do
		block->next = first;
	/* [MB:stats] release: the block. Pairs with steal(), uaio_stats_sum(). */
	while (!cas_release(&all.blocks, &first, block));
}

static struct uaio_stats *allocate(void)
{
	void *memory =
		sys_mmap(NULL, sizeof(struct uaio_stats),
			 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);

	return sys_is_map_error(memory) ? NULL : memory;
}

struct uaio_stats *uaio_stats_get(void)
{
	struct uaio_stats *block = uaio_stats_of_thread;
	int me = sys_gettid();

	if (!block)
		block = steal(me);
	if (block && block->pid == uaio_stats_pid)
		return uaio_stats_of_thread = block;
	/* A block that was inherited has the counts of the parent (I3). */
	if (block)
		memset(block, 0, sizeof(*block));
	else
		block = allocate();
	if (!block)
		return &spare;
	block->owner = me;
	block->pid = uaio_stats_pid;
	list(block);
	return uaio_stats_of_thread = block;
}

/* gauges */

static void raise_peak(uint32_t *peak, uint32_t nr)
{
	uint32_t old = load_relaxed(peak);

	while (nr > old && !cas_relaxed(peak, &old, nr))
		;
}

void uaio_stats_in_flight(void)
{
	raise_peak(&all.peak_in_flight, add_relaxed(&all.nr_in_flight, 1) + 1);
}

void uaio_stats_landed(void)
{
	sub_relaxed(&all.nr_in_flight, 1);
}

/* adding up */

static uint64_t ns_of(uint64_t cycles)
{
	uint64_t rate;

	/* It is known a millisecond after the engine has started. */
	while (!(rate = uaio_cycles_per_us()))
		;
	return cycles / rate * 1000 + cycles % rate * 1000 / rate;
}

/* Return: the value in the middle of the bucket. */
static uint64_t bucket_value(unsigned bucket)
{
	unsigned octave = bucket >> UAIO_HIST_SUB_BITS, shift;

	if (octave < 2)
		return bucket;
	shift = octave - 1;
	bucket -= shift << UAIO_HIST_SUB_BITS;
	return ((uint64_t)bucket << shift) + (1ull << shift >> 1);
}

/* Return: the value that permille of the nr values do not exceed. */
static uint64_t quantile(const struct uaio_hist *hist, uint64_t nr,
			 unsigned permille)
{
	/* Rounded up, so at least 1; in two parts, so without overflow. */
	uint64_t rank =
		nr / 1000 * permille + (nr % 1000 * permille + 999) / 1000;
	uint64_t below = 0, value;
	unsigned i = 0;

	for (; i < UAIO_NR_BUCKETS - 1; i++) {
		below += hist->buckets[i];
		if (below >= rank)
			break;
	}
	value = bucket_value(i);
	return value < hist->max ? value : hist->max;
}

static void add_hist(struct uaio_hist *to, const struct uaio_hist *from)
{
	uint64_t max = load_relaxed(&from->max);

	if (max > to->max)
		to->max = max;
	for (unsigned i = 0; i < UAIO_NR_BUCKETS; i++)
		to->buckets[i] += load_relaxed(&from->buckets[i]);
}

static void add_block(struct uaio_stats_sum *sum, struct uaio_hist *hists,
		      const struct uaio_stats *block)
{
	sum->nr_completed += load_relaxed(&block->nr_completed);
	for (unsigned op = 0; op < UAIO_NR_OPS; op++)
		for (unsigned way = 0; way < UAIO_NR_WAYS; way++)
			sum->nr_by_way[op][way] +=
				load_relaxed(&block->nr_accepted[op][way]);
	for (unsigned i = 0; i < UAIO_NR_DIRECT_COUNTS; i++)
		sum->nr_direct[i] += load_relaxed(&block->nr_direct[i]);
	for (unsigned i = 0; i < UAIO_NR_FAULT_KINDS; i++)
		sum->nr_faults[i] += load_relaxed(&block->nr_faults[i]);
	for (unsigned time = 0; time < UAIO_NR_HISTS; time++)
		add_hist(&hists[time], &block->hists[time]);
}

static void sum_time(struct uaio_time_sum *sum, const struct uaio_hist *hist)
{
	for (unsigned i = 0; i < UAIO_NR_BUCKETS; i++)
		sum->nr += hist->buckets[i];
	if (!sum->nr)
		return;
	sum->p50 = ns_of(quantile(hist, sum->nr, 500));
	sum->p99 = ns_of(quantile(hist, sum->nr, 990));
	sum->p999 = ns_of(quantile(hist, sum->nr, 999));
	sum->max = ns_of(hist->max);
}

void uaio_stats_sum(struct uaio_stats_sum *ret_sum)
{
	static struct uaio_hist hists[UAIO_NR_HISTS];
	/* [MB:stats] acquire: the blocks. Pairs with list(). */
	const struct uaio_stats *block = load_acquire(&all.blocks);
	struct uaio_thread_counts threads;

	uaio_threads_count(&threads);
	*ret_sum = (struct uaio_stats_sum){
		.peak_in_flight = load_relaxed(&all.peak_in_flight),
		.nr_threads = threads.nr_ever,
		.peak_threads = threads.peak,
	};
	memset(hists, 0, sizeof(hists));
	add_block(ret_sum, hists, &spare);
	for (; block; block = block->next)
		add_block(ret_sum, hists, block);
	for (unsigned op = 0; op < UAIO_NR_OPS; op++)
		for (unsigned way = 0; way < UAIO_NR_WAYS; way++)
			ret_sum->nr_accepted += ret_sum->nr_by_way[op][way];
	/* Inline requests are counted only once, when they are accepted. */
	for (unsigned op = 0; op < UAIO_NR_OPS; op++)
		ret_sum->nr_completed +=
			ret_sum->nr_by_way[op][UAIO_WAY_INLINE];
	add_hist(&hists[UAIO_TIME_SUBMIT], &hists[UAIO_TIME_ALONE]);
	add_hist(&hists[UAIO_TIME_SERVICE], &hists[UAIO_TIME_ALONE]);
	add_hist(&hists[UAIO_TIME_TOTAL], &hists[UAIO_TIME_ALONE]);
	for (unsigned time = 0; time < UAIO_NR_TIMES; time++)
		sum_time(&ret_sum->times[time], &hists[time]);
	ret_sum->nr_submits = ret_sum->times[UAIO_TIME_SUBMIT].nr;
}
