/* SPDX-License-Identifier: MIT */
#include "engine/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/check.h"
#include "base/cycles.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "engine/bounce.h"
#include "engine/extent.h"
#include "engine/page.h"
#include "engine/stats.h"
#include "engine/trust.h"

enum {
	/*
	 * Asking the page cache costs a 1 KiB read 100 ns of 480. After so
	 * many reads in a row that did not wait, plain reads are made; at 64
	 * the asking is lost in the noise if a file is cold now and then.
	 */
	STREAK_HITS = 64,
	/*
	 * A cached read of 64 KiB takes 10 us here, the fastest disk 50 us: a
	 * plain read that took this long has met the disk.
	 */
	SLOW_READ_US = 20,
	/*
	 * From here on reading all of it again on a worker costs more (200 us)
	 * than waiting for a page that is being read in just now.
	 */
	LONG_READ_BYTES = 1 << 20,
	/*
	 * A cold read of 64 KiB takes 70 us of processor time if its pages are
	 * waited for, 95 by a worker of its own; of 256 KiB 250 either way, and
	 * workers copy beside the client.
	 */
	PAGED_BYTES_MAX = 128 << 10,
	/*
	 * A buffered write that takes this long, and as much again for each
	 * MiB it has, waits for writeback: a MiB takes 0.3 to 0.7 ms here.
	 */
	SLOW_WRITE_US = 1000,
	/*
	 * One slow write may be the scheduler's doing; after so many in a row
	 * that really slept, the file's writes go to workers for a while.
	 */
	SLOW_WRITES = 2,
	SLOW_WRITES_NS = 100000000,
};

static int64_t run(const struct uaio_file *file, const struct uaio_sqe *sqe,
		   uint32_t extra_flags, struct uaio_outcome *ret)
{
	int64_t res;

	ret->start = uaio_stats_now();
	res = uaio_optab[sqe->op].run(sqe, sqe->fd,
				      uaio_file_has(file, UAIO_FILE_F_STREAM),
				      extra_flags);
	ret->end = uaio_stats_now();
	return res;
}

/* A plain call. Return: how long it took, in cycles. */
static uint64_t run_timed(const struct uaio_file *file,
			  const struct uaio_sqe *sqe, struct uaio_outcome *ret)
{
	ret->start = uaio_cycles();
	ret->res = uaio_optab[sqe->op].run(
		sqe, sqe->fd, uaio_file_has(file, UAIO_FILE_F_STREAM), 0);
	ret->end = uaio_cycles();
	return ret->end - ret->start;
}

/* Made here, whatever it takes: it does not wait for a device. */
static enum uaio_issue try_here(struct uaio_file *file,
				const struct uaio_sqe *sqe,
				struct uaio_outcome *ret)
{
	ret->res = run(file, sqe, 0, ret);
	return UAIO_ISSUE_DONE;
}

static enum uaio_issue to_worker(struct uaio_file *file,
				 const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret)
{
	(void)file;
	(void)sqe;
	(void)ret;
	return UAIO_ISSUE_RETRY_WORKER;
}

/* Requests that may be made inline when nothing ordered is pending. */
static bool is_busy(const struct uaio_inode *inode)
{
	return uaio_config.force_worker || !inode || uaio_inode_is_busy(inode);
}

/* The same for a write, unless it is to be made elsewhere anyway. */
static bool begin_inline(struct uaio_file *file, struct uaio_inode *inode,
			 const struct uaio_sqe *sqe)
{
	return !uaio_config.force_worker && inode &&
	       uaio_begin_inline(file, inode, sqe);
}

static enum uaio_issue try_memory_read(struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	if (unlikely(is_busy(load_relaxed(&file->inode))))
		return UAIO_ISSUE_RETRY_WORKER;
	return try_here(file, sqe, ret);
}

static enum uaio_issue try_memory_write(struct uaio_file *file,
					const struct uaio_sqe *sqe,
					struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);

	if (unlikely(!begin_inline(file, inode, sqe)))
		return UAIO_ISSUE_RETRY_WORKER;
	ret->res = run(file, sqe, 0, ret);
	uaio_inode_end_inline(inode);
	return UAIO_ISSUE_DONE;
}

/*
 * Return: whether nearly all of the range is in the page cache. False where the
 * kernel, older than 6.5, cannot tell.
 */
static bool is_mostly_cached(const struct uaio_sqe *sqe)
{
	enum { PAGE = 4096 };
	const uint64_t range[2] = { (uint64_t)sqe->off, uaio_sqe_bytes(sqe) };
	enum { CACHED, DIRTY, WRITEBACK, EVICTED, RECENTLY_EVICTED, NR };
	uint64_t nr[NR];

	if (sys_cachestat(sqe->fd, range, nr) < 0)
		return false;
	return nr[CACHED] >= range[1] / PAGE / 16 * 15;
}

static bool may_wait(const struct uaio_sqe *sqe, int64_t got)
{
	return uaio_sqe_bytes(sqe) >= LONG_READ_BYTES &&
	       !uaio_config.never_block &&
	       (got >= LONG_READ_BYTES || is_mostly_cached(sqe));
}

/*
 * Read on from where a read stopped that got less than asked: at the end of the
 * file, at a page that was evicted, or at one that only a read which may wait
 * can use (a large page written in parts: seen on ext4). A long read that is
 * nearly all there, or has got much already, goes on and may wait, as in the
 * kernel: a worker would have to read all of it again.
 * Return: the whole result, or -EAGAIN: not all is cached.
 */
static int64_t read_on(const struct uaio_file *file, const struct uaio_sqe *sqe,
		       int64_t got, struct uaio_outcome *ret)
{
	enum { IOVS_HERE = 64 };
	struct iovec iov[IOVS_HERE];
	struct uaio_sqe rest = *sqe;
	int64_t res = got;

	if (uaio_optab[sqe->op].is_vectored && sqe->len > IOVS_HERE)
		return -EAGAIN;
	if (uaio_optab[sqe->op].is_vectored) {
		memcpy(iov, sqe->iov, sqe->len * sizeof(*iov));
		uaio_iovs_cut(iov, sqe->len);
		rest.iov = iov;
	}
	while (res > 0) {
		uaio_sqe_advance(&rest, iov, (uint64_t)res);
		if (!uaio_sqe_bytes(&rest))
			return got;
		res = run(file, &rest, RWF_NOWAIT, ret);
		if (res == -EAGAIN && may_wait(sqe, got))
			res = run(file, &rest, 0, ret);
		if (res > 0)
			got += res;
	}
	/* An error after some bytes is for the next read to find. */
	return res == -EAGAIN ? -EAGAIN : got;
}

int64_t uaio_read_cached(const struct uaio_file *file,
			 const struct uaio_sqe *sqe, struct uaio_outcome *ret)
{
	int64_t res = run(file, sqe, RWF_NOWAIT, ret);

	if (res > 0 && (uint64_t)res < uaio_sqe_bytes(sqe))
		return read_on(file, sqe, res, ret);
	if (res == -EAGAIN && may_wait(sqe, 0))
		return run(file, sqe, 0, ret);
	return res;
}

/* Not cached. */
static enum uaio_issue start_pages(const struct uaio_file *file,
				   const struct uaio_sqe *sqe)
{
	const struct uaio_inode *inode = load_relaxed(&file->inode);
	uint64_t bytes = uaio_sqe_bytes(sqe);

	if (!inode || sqe->ioprio || bytes > PAGED_BYTES_MAX ||
	    !uaio_page_start(inode, sqe, bytes))
		return UAIO_ISSUE_RETRY_WORKER;
	return UAIO_ISSUE_RETRY_PAGE;
}

/* The page cache cannot be asked. */
static enum uaio_issue try_trusted_read(struct uaio_file *file,
					const struct uaio_sqe *sqe,
					struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);
	struct uaio_trust *trust = inode ? uaio_trust_find(file, inode) : NULL;
	struct uaio_trial_read trial;
	uint64_t took;

	/* What is read in the older way may wait for ever. */
	if (!trust || sqe->ioprio || uaio_file_has(file, UAIO_FILE_F_OLD_READ))
		return UAIO_ISSUE_RETRY_WORKER;
	uaio_trust_begin(trust, &trial);
	took = run_timed(file, sqe, ret);
	uaio_trust_end(trust, inode, &trial, sqe, took);
	return UAIO_ISSUE_DONE;
}

static enum uaio_issue ask_page_cache(struct uaio_file *file,
				      const struct uaio_sqe *sqe,
				      struct uaio_outcome *ret)
{
	int64_t res;

	/* relaxed throughout: advice */
	if (load_relaxed(&file->nowait_refused))
		return try_trusted_read(file, sqe, ret);
	res = uaio_read_cached(file, sqe, ret);
	if (res == -EOPNOTSUPP) {
		store_relaxed(&file->nowait_refused, 1);
		return try_trusted_read(file, sqe, ret);
	}
	if (res == -EAGAIN) {
		store_relaxed(&file->hit_streak, 0);
		return start_pages(file, sqe);
	}
	/* Where the cycle counter's rate is still unknown, go on asking. */
	if (load_relaxed(&file->hit_streak) < STREAK_HITS - 1 ||
	    uaio_cycles_per_us())
		store_relaxed(&file->hit_streak,
			      load_relaxed(&file->hit_streak) + 1);
	ret->res = res;
	return UAIO_ISSUE_DONE;
}

/* Cached reads: asked for first, then taken for granted while they are fast. */
static enum uaio_issue try_cached_read(struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	/* The entry may be another file's by now (file.h I2): look once. */
	const struct uaio_inode *inode = load_relaxed(&file->inode);

	if (unlikely(sqe->off == UAIO_OFF_POSITION || is_busy(inode) ||
		     uaio_is_held_up(file, inode, sqe)))
		return UAIO_ISSUE_RETRY_WORKER;
	if (load_relaxed(&file->hit_streak) < STREAK_HITS ||
	    uaio_config.never_block)
		return ask_page_cache(file, sqe, ret);

	if (unlikely(run_timed(file, sqe, ret) >
		     SLOW_READ_US * uaio_cycles_per_us()))
		store_relaxed(&file->hit_streak, 0);
	return UAIO_ISSUE_DONE;
}

uint64_t uaio_nr_sleeps(void)
{
	struct rusage usage;

	if (sys_getrusage(&usage) < 0)
		return 0;
	return (uint64_t)usage.ru_nvcsw;
}

/*
 * A write took long. Whether it slept or was merely preempted the clock cannot
 * tell, so from the first suspicion on the sleeps of each are counted.
 */
static void judge_slow_write(struct uaio_inode *inode, bool has_slept)
{
	uint32_t nr_slow = load_relaxed(&inode->nr_slow);

	if (nr_slow && !has_slept) {
		store_relaxed(&inode->nr_slow, 0);
		return;
	}
	store_relaxed(&inode->nr_slow, nr_slow + 1);
	if (nr_slow + 1 >= SLOW_WRITES)
		store_relaxed(&inode->slow_until_ns,
			      uaio_now_ns() + SLOW_WRITES_NS);
}

static bool is_slow(struct uaio_inode *inode)
{
	int64_t until = load_relaxed(&inode->slow_until_ns);

	if (likely(!until))
		return false;
	if (uaio_now_ns() < until)
		return true;
	store_relaxed(&inode->slow_until_ns, 0);
	store_relaxed(&inode->nr_slow, 0);
	return false;
}

/* O_SYNC in any form waits for the disk, every time. */
static bool is_sync_write(const struct uaio_file *file,
			  const struct uaio_sqe *sqe)
{
	return uaio_file_has(file, UAIO_FILE_F_SYNC) ||
	       sqe->rw_flags & (RWF_DSYNC | RWF_SYNC);
}

static uint64_t slow_write_us(const struct uaio_sqe *sqe)
{
	return SLOW_WRITE_US * (1 + (uaio_sqe_bytes(sqe) >> 20));
}

/* Buffered writes: made here while they are fast. */
static enum uaio_issue try_cached_write(struct uaio_file *file,
					const struct uaio_sqe *sqe,
					struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);
	uint64_t took, rate, sleeps = 0;
	bool is_suspect;

	if (unlikely(!inode || is_sync_write(file, sqe) || is_slow(inode) ||
		     !begin_inline(file, inode, sqe)))
		return UAIO_ISSUE_RETRY_WORKER;

	is_suspect = load_relaxed(&inode->nr_slow);
	if (unlikely(is_suspect))
		sleeps = uaio_nr_sleeps();
	took = run_timed(file, sqe, ret);
	uaio_inode_end_inline(inode);
	rate = uaio_cycles_per_us();
	if (unlikely(rate && took > SLOW_WRITE_US * rate) &&
	    took > slow_write_us(sqe) * rate)
		judge_slow_write(inode,
				 is_suspect && uaio_nr_sleeps() != sleeps);
	return UAIO_ISSUE_DONE;
}

enum uaio_issue uaio_done_unless_bounced(const struct uaio_file *file,
					 const struct uaio_sqe *sqe,
					 struct uaio_outcome *ret)
{
	if (likely(!uaio_may_bounce(file, sqe, ret->res)))
		return UAIO_ISSUE_DONE;
	ret->res = 0; /* bytes done */
	return UAIO_ISSUE_RETRY_WORKER;
}

/*
 * Direct writes wait for the device. Those that surely extend the file are made
 * here: so the kernel does, before io_submit returns, and clients count on it.
 */
static enum uaio_issue try_direct_write(struct uaio_file *file,
					const struct uaio_sqe *sqe,
					struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);
	struct uaio_range range;

	if (sqe->off == UAIO_OFF_POSITION ||
	    !uaio_is_extending(file, sqe, &range) ||
	    !begin_inline(file, inode, sqe))
		return UAIO_ISSUE_RETRY_WORKER;
	ret->res = run(file, sqe, 0, ret);
	uaio_inode_end_inline(inode);
	return uaio_done_unless_bounced(file, sqe, ret);
}

/* Complete without a system call. */
static void refuse(struct uaio_outcome *ret, int64_t res)
{
	ret->res = res;
	ret->start = ret->end = uaio_stats_now();
}

static bool is_at_bad_offset(const struct uaio_file *file,
			     const struct uaio_sqe *sqe)
{
	return sqe->off > 0 && uaio_file_has(file, UAIO_FILE_F_SOCKET);
}

/*
 * Reads that found nothing when they were submitted, and something when their
 * client asked for events a moment later: after some of them they are tried then
 * only, but for one now and then. run.c says when that is over.
 */
enum { MISSES = 16, TRY_EVERY = 16 };

static bool is_in_vain(struct uaio_lane *lane)
{
	/* relaxed: advice */
	uint32_t nr = load_relaxed(&lane->nr_misses);

	if (likely(nr < MISSES))
		return false;
	nr = nr + 1 < MISSES + TRY_EVERY ? nr + 1 : MISSES;
	store_relaxed(&lane->nr_misses, nr);
	return nr != MISSES;
}

static void note_try(struct uaio_lane *lane, bool was_in_vain)
{
	/* relaxed: advice */
	uint32_t nr = load_relaxed(&lane->nr_misses);

	if (!was_in_vain && nr)
		store_relaxed(&lane->nr_misses, 0);
	else if (was_in_vain && nr < MISSES)
		store_relaxed(&lane->nr_misses, nr + 1);
}

/*
 * O_NONBLOCK is the open file's, which other processes may share; and ioctl()
 * sets it, too. So it is not remembered: who would have to wait asks.
 */
static bool may_not_wait(const struct uaio_file *file, int fd)
{
	int open_flags = sys_fcntl(fd, F_GETFL, 0);

	if (unlikely(open_flags < 0))
		return uaio_file_has(file, UAIO_FILE_F_NONBLOCK);
	return open_flags & O_NONBLOCK;
}

/*
 * A socket may have a time that its reads or writes wait at most, which any
 * process that shares it may set. Return: until when; 0: for ever.
 */
static int64_t time_limit(const struct uaio_file *file,
			  const struct uaio_sqe *sqe)
{
	bool is_write = uaio_optab[sqe->op].class == UAIO_CLASS_WRITE;
	struct timeval limit = { 0 };
	uint32_t size = sizeof(limit);

	if (!uaio_file_has(file, UAIO_FILE_F_SOCKET) ||
	    sys_getsockopt(sqe->fd, SOL_SOCKET,
			   is_write ? SO_SNDTIMEO : SO_RCVTIMEO, &limit,
			   &size) < 0 ||
	    (!limit.tv_sec && !limit.tv_usec))
		return 0;
	/* Centuries are for ever. */
	if (limit.tv_sec > INT32_MAX)
		return 0;
	return uaio_now_ns() + limit.tv_sec * 1000000000ll +
	       limit.tv_usec * 1000ll;
}

/*
 * Make as much of a stream request as does not wait. Return: whether it was
 * tried; -EAGAIN or what is less than it asked for then leaves the rest to do.
 */
static bool try_at_once(struct uaio_file *file, struct uaio_lane *lane,
			const struct uaio_sqe *sqe, struct uaio_outcome *ret)
{
	bool is_read = uaio_optab[sqe->op].class == UAIO_CLASS_READ;

	/* relaxed: requests of this thread are counted, others' have no order */
	if (uaio_config.force_worker || load_relaxed(&lane->nr) ||
	    (is_read && is_in_vain(lane)))
		return false;
	ret->edges = uaio_file_edges(file);
	ret->res = run(file, sqe, RWF_NOWAIT, ret);
	if (is_read)
		note_try(lane, ret->res == -EAGAIN);
	if (ret->res != -EOPNOTSUPP)
		return true;
	ret->edges = 0; /* not tried: it may be ready */
	return false;
}

static bool is_whole(const struct uaio_sqe *sqe, int64_t res)
{
	if (uaio_optab[sqe->op].class == UAIO_CLASS_READ || res < 0)
		return res != -EAGAIN;
	return (uint64_t)res >= uaio_sqe_bytes(sqe);
}

/* Streams: what is possible now; the rest when the file is ready. */
static enum uaio_issue try_stream(struct uaio_file *file,
				  const struct uaio_sqe *sqe,
				  struct uaio_outcome *ret)
{
	bool is_write = uaio_optab[sqe->op].class == UAIO_CLASS_WRITE;
	struct uaio_lane *lane =
		&file->lanes[is_write ? UAIO_LANE_WRITE : UAIO_LANE_READ];
	bool was_tried;

	if (unlikely(sqe->off > 0) && uaio_is_misplaced(file, sqe))
		return uaio_try_anew(sqe, ret);
	if (unlikely(is_at_bad_offset(file, sqe))) {
		refuse(ret, -ESPIPE);
		return UAIO_ISSUE_DONE;
	}
	was_tried = try_at_once(file, lane, sqe, ret);
	if (was_tried && is_whole(sqe, ret->res))
		return UAIO_ISSUE_DONE;
	if (unlikely(may_not_wait(file, sqe->fd)))
		return was_tried ? UAIO_ISSUE_DONE : try_here(file, sqe, ret);
	if (!was_tried || ret->res < 0)
		ret->res = 0; /* bytes done */
	ret->until_ns = time_limit(file, sqe);
	return UAIO_ISSUE_RETRY_READY;
}

static enum uaio_issue try_poll(struct uaio_file *file,
				const struct uaio_sqe *sqe,
				struct uaio_outcome *ret)
{
	ret->edges = uaio_file_edges(file);
	ret->res = run(file, sqe, 0, ret);
	if (ret->res != -EAGAIN)
		return UAIO_ISSUE_DONE;
	ret->res = 0;
	return UAIO_ISSUE_RETRY_READY;
}

int uaio_try_flags(struct uaio_file *file, const struct uaio_sqe *sqe,
		   struct uaio_outcome *ret)
{
	if (unlikely(is_at_bad_offset(file, sqe)))
		refuse(ret, -ESPIPE);
	else
		ret->res = run(file, sqe, 0, ret);
	/*
	 * A flag the file cannot honour is refused when it is submitted. Disk
	 * file systems can honour RWF_NOWAIT in general, and where they do not
	 * for a write they say so in the event.
	 */
	if (ret->res != -EOPNOTSUPP)
		return 0;
	return sqe->rw_flags & RWF_NOWAIT &&
			       (uaio_file_kind(file) == UAIO_KIND_CACHED ||
				uaio_file_kind(file) == UAIO_KIND_DIRECT)
		       ? 0
		       : -EOPNOTSUPP;
}

uaio_try_fn *const uaio_policy[UAIO_NR_KINDS][UAIO_NR_CLASSES] = {
	[UAIO_KIND_MEMORY] = {
		[UAIO_CLASS_READ] = try_memory_read,
		[UAIO_CLASS_WRITE] = try_memory_write,
		[UAIO_CLASS_SYNC] = to_worker,
		[UAIO_CLASS_POLL] = try_poll,
	},
	[UAIO_KIND_CACHED] = {
		[UAIO_CLASS_READ] = try_cached_read,
		[UAIO_CLASS_WRITE] = try_cached_write,
		[UAIO_CLASS_SYNC] = to_worker,
		[UAIO_CLASS_POLL] = try_poll,
	},
	[UAIO_KIND_DIRECT] = {
		[UAIO_CLASS_READ] = to_worker,
		[UAIO_CLASS_WRITE] = try_direct_write,
		[UAIO_CLASS_SYNC] = to_worker,
		[UAIO_CLASS_POLL] = try_poll,
	},
	[UAIO_KIND_STREAM] = {
		[UAIO_CLASS_READ] = try_stream,
		[UAIO_CLASS_WRITE] = try_stream,
		[UAIO_CLASS_SYNC] = try_here,
		[UAIO_CLASS_POLL] = try_poll,
	},
	[UAIO_KIND_DEVICE] = {
		[UAIO_CLASS_READ] = try_stream,
		[UAIO_CLASS_WRITE] = try_stream,
		[UAIO_CLASS_SYNC] = try_here,
		[UAIO_CLASS_POLL] = try_poll,
	},
};
