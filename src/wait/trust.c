/* SPDX-License-Identifier: MIT */
#include "wait/trust.h"

#include "base/check.h"
#include "base/cycles.h"
#include "options/config.h"
#include "proc/thread.h"
#include "file/file.h"
#include "op/op.h"

enum {
	/*
	 * Size of the hash table of devices. Of two devices with the same hash, the
	 * table keeps the one that was used last.
	 */
	NR_DEVICES = 64,
	/*
	 * At first this many fast reads in a row are needed for trust. The number
	 * doubles each time that trust ends, at most MAX_ENDED times.
	 */
	FAST_READS = 64,
	MAX_ENDED = 10,
	/*
	 * A read is slow if it takes longer than a limit: SLOW_READ_US, and another
	 * SLOW_READ_US for each 64 KiB that it reads. (On the development machine, a
	 * cached read of 64 KiB takes 10 us, a read from the fastest disk 50 us.)
	 */
	SLOW_READ_US = 20,
	SLOW_READ_SHIFT = 16,
	/*
	 * Each end of trust doubles the number of fast reads that are needed
	 * (FAST_READS). Once FORGIVE_AFTER times that number of fast reads have been
	 * counted, the number is halved.
	 */
	FORGIVE_AFTER = 32,
};

static struct device {
	/* atomic: the device number; 0: slot unused */
	uint64_t dev;
	struct uaio_trust trust;
} devices[NR_DEVICES];

/* relaxed throughout: hints (I4) */
void uaio_trust_init(void)
{
	for (unsigned i = 0; i < NR_DEVICES; i++) {
		store_relaxed(&devices[i].dev, 0);
		uaio_trust_forget(&devices[i].trust);
	}
}

static uint32_t nr_needed(const struct uaio_trust *trust)
{
	return FAST_READS << load_relaxed(&trust->nr_ended);
}

static bool is_given(const struct uaio_trust *trust)
{
	return load_relaxed(&trust->nr_fast) >= nr_needed(trust);
}

/*
 * Return: the trust of the file's device; NULL for a block device, and for a file
 * system whose server may never answer (I1 of trust.h).
 */
static struct uaio_trust *device_of(const struct uaio_file *file,
				    const struct uaio_inode *inode)
{
	uint64_t dev = load_relaxed(&inode->dev);
	struct device *device =
		&devices[(dev * 0x9e3779b97f4a7c15 >> 32) % NR_DEVICES];

	/*
	 * Block devices support RWF_NOWAIT, so they need no trust. Their inode has no
	 * device number.
	 */
	if (uaio_file_has(file, UAIO_FILE_F_REMOTE) || dev == UINT64_MAX)
		return NULL;
	if (load_relaxed(&device->dev) != dev) {
		uaio_trust_forget(&device->trust);
		store_relaxed(&device->dev, dev);
	}
	return &device->trust;
}

struct uaio_trust *uaio_trust_find(const struct uaio_file *file,
				   struct uaio_inode *inode)
{
	struct uaio_trust *device;

	if (unlikely(uaio_config.never_block || !uaio_cycles_per_us()))
		return NULL;
	if (likely(is_given(&inode->trust)))
		return &inode->trust;
	if (load_relaxed(&inode->trust.nr_ended))
		return NULL;
	device = device_of(file, inode);
	return device && is_given(device) ? device : NULL;
}

void uaio_trust_begin(const struct uaio_trust *trust,
		      struct uaio_trial_read *ret_read)
{
	ret_read->is_close = load_relaxed(&trust->nr_close);
	if (unlikely(ret_read->is_close))
		ret_read->nr_sleeps = uaio_thread_nr_sleeps();
}

/*
 * Return: 0 if the read was fast; else its time divided by the limit for a fast read.
 */
static uint32_t slowness(const struct uaio_sqe *sqe, uint64_t cycles)
{
	uint64_t slow = SLOW_READ_US * uaio_cycles_per_us() *
			(1 + (uaio_sqe_bytes(sqe) >> SLOW_READ_SHIFT));
	uint64_t times = slow ? cycles / slow : UINT32_MAX;

	return times < UINT32_MAX / FAST_READS ? (uint32_t)times
					       : UINT32_MAX / FAST_READS;
}

static void end_trust(struct uaio_trust *trust)
{
	uint32_t nr_ended = load_relaxed(&trust->nr_ended);

	store_relaxed(&trust->nr_fast, 0);
	store_relaxed(&trust->nr_close, 0);
	if (nr_ended < MAX_ENDED)
		store_relaxed(&trust->nr_ended, nr_ended + 1);
}

/*
 * Count a fast read. Counts above FAST_READS matter only after trust has ended, so
 * until then the count stops there.
 */
static void count_fast(struct uaio_trust *trust)
{
	uint32_t nr_fast = load_relaxed(&trust->nr_fast) + 1;
	uint32_t nr_ended = load_relaxed(&trust->nr_ended);

	if (!nr_ended && nr_fast > FAST_READS)
		return;
	if (nr_ended && nr_fast > nr_needed(trust) * FORGIVE_AFTER) {
		store_relaxed(&trust->nr_ended, nr_ended - 1);
		nr_fast = FAST_READS << (nr_ended - 1);
	}
	store_relaxed(&trust->nr_fast, nr_fast);
}

/*
 * Decrement the number of reads that are still to be checked closely (I2). If two
 * threads do so at the same time, one decrement may be lost.
 */
static void count_close(struct uaio_trust *trust)
{
	uint32_t nr_close = load_relaxed(&trust->nr_close);

	if (nr_close)
		store_relaxed(&trust->nr_close, nr_close - 1);
}

/*
 * A read was slow. If reads are not checked closely yet, check the next reads closely
 * (I2).
 * Return: whether this read was checked closely, and the thread has slept in it. If
 * not, the thread may only have been preempted.
 */
static bool has_waited(struct uaio_trust *trust,
		       const struct uaio_trial_read *read, uint32_t times)
{
	if (read->is_close)
		return uaio_thread_nr_sleeps() != read->nr_sleeps;
	store_relaxed(&trust->nr_close, times * FAST_READS);
	return false;
}

void uaio_trust_end(struct uaio_trust *trust, struct uaio_inode *inode,
		    const struct uaio_trial_read *read,
		    const struct uaio_sqe *sqe, uint64_t cycles)
{
	uint32_t times = slowness(sqe, cycles);

	if (likely(!times)) {
		count_fast(trust);
		if (unlikely(trust != &inode->trust))
			count_fast(&inode->trust);
		if (unlikely(read->is_close))
			count_close(trust);
		return;
	}
	if (has_waited(trust, read, times)) {
		end_trust(trust);
		if (trust != &inode->trust)
			end_trust(&inode->trust);
	}
}

bool uaio_trust_is_sought(const struct uaio_file *file,
			  const struct uaio_sqe *sqe)
{
	return load_relaxed(&file->nowait_refused) &&
	       uaio_optab[sqe->op].class == UAIO_CLASS_READ &&
	       file->kind == UAIO_KIND_CACHED;
}

static void count_worker_read(struct uaio_trust *trust, bool is_fast)
{
	if (is_fast)
		count_fast(trust);
	else
		store_relaxed(&trust->nr_fast, 0);
}

void uaio_trust_tell(struct uaio_file *file, const struct uaio_trial_read *read,
		     const struct uaio_sqe *sqe, uint64_t cycles)
{
	struct uaio_trust *trust = &file->inode->trust;
	struct uaio_trust *device = device_of(file, file->inode);
	uint32_t times = uaio_cycles_per_us() ? slowness(sqe, cycles) : 0;

	/*
	 * While the rate of the cycle counter is unknown, the library cannot tell
	 * whether a read was fast.
	 */
	if (!uaio_cycles_per_us() || (times && !has_waited(trust, read, times)))
		return;
	if (!times && read->is_close)
		count_close(trust);
	/*
	 * If the inode has trust of its own, its reads do not count for the trust of
	 * its device.
	 */
	if (device && load_relaxed(&trust->nr_fast) < FAST_READS)
		count_worker_read(device, !times);
	count_worker_read(trust, !times);
}
