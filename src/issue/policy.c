/* SPDX-License-Identifier: MIT */
/* The table of the policy (policy.h), and its functions for regular files. */
#include "issue/policy.h"

#include <errno.h>
#include <linux/fs.h>

#include "base/check.h"
#include "base/cycles.h"
#include "options/config.h"
#include "proc/thread.h"
#include "file/inspect.h"
#include "req/stats.h"
#include "wait/page.h"
#include "wait/trust.h"
#include "split/bounce.h"
#include "flow/kernel.h"
#include "issue/extent.h"
#include "issue/submit.h"

enum {
	/*
	 * Querying the page cache (RWF_NOWAIT) takes 100 of the 480 ns of a 1 KiB read.
	 * So after this many reads in a row that did not wait, reads are made without the
	 * query. After a read that waited, the next 64 reads query again; the cost of
	 * this can hardly be measured.
	 */
	STREAK_HITS = 64,
	/*
	 * On the machine measured, a read of 64 KiB takes 10 us if it is cached, and 50
	 * us from the fastest disk. So a plain read that took longer than this waited
	 * for the disk.
	 */
	SLOW_READ_US = 20,
	/*
	 * Longest read, in bytes, that waits for its pages. A read of 64 KiB that is not
	 * cached takes 70 us of processor time if it waits for its pages
	 * (UAIO_NEXT_WAIT_PAGES). It takes 95 us on a worker. A read of 256 KiB takes 250
	 * us either way, but workers copy in parallel with the client.
	 */
	PAGED_BYTES_MAX = 128 << 10,
	/*
	 * A buffered write that takes longer than this time, plus this time for each MiB,
	 * has waited for writeback. A MiB takes 0.3 to 0.7 ms on the machine measured.
	 */
	SLOW_WRITE_US = 1000,
};

static enum uaio_next to_worker(struct uaio_file *file,
				const struct uaio_sqe *sqe,
				struct uaio_outcome *ret)
{
	(void)file;
	(void)sqe;
	(void)ret;
	return UAIO_NEXT_WORKER;
}

/*
 * Return: whether requests of the inode must be queued instead of being executed inline
 * (order.h, I2).
 */
static bool is_busy(const struct uaio_inode *inode)
{
	return uaio_config.force_worker || !inode || uaio_inode_is_busy(inode);
}

/* Return: whether the request may be executed inline although its inode is busy. */
static bool may_pass(const struct uaio_inode *inode, const struct uaio_sqe *sqe)
{
	return uaio_sqe_rules(sqe)->has_no_order &&
	       sqe->off != UAIO_OFF_POSITION && inode &&
	       !uaio_config.force_worker;
}

/* Return: whether the request must be queued because of other requests of the inode. */
static bool is_kept(const struct uaio_inode *inode, const struct uaio_sqe *sqe)
{
	return unlikely(is_busy(inode)) && !may_pass(inode, sqe);
}

/*
 * Return: whether a write may be executed inline. If so, the caller makes the call, then
 * calls uaio_inode_end_inline().
 */
static bool begin_inline(struct uaio_file *file, struct uaio_inode *inode,
			 const struct uaio_sqe *sqe)
{
	return !uaio_config.force_worker && inode &&
	       uaio_begin_inline(file, inode, sqe);
}

bool uaio_is_misplaced(const struct uaio_file *file, const struct uaio_sqe *sqe)
{
	return !sqe->is_fixed && uaio_is_replaced(file, sqe->fd);
}

int uaio_look_up_again(int fd, struct uaio_file **ret_file)
{
	int ret;

	if (uaio_is_replaced(*ret_file, fd)) {
		uaio_file_closed(fd);
		ret = uaio_file_open(fd, ret_file);
		if (ret < 0)
			return ret;
	}
	return uaio_file_has(*ret_file, UAIO_FILE_F_PATH) ? -EBADF : 0;
}

enum uaio_next uaio_try_reopened(const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret)
{
	struct uaio_file *file;
	enum uaio_next next;
	int error;

	uaio_file_closed(sqe->fd);
	error = uaio_file_open(sqe->fd, &file);
	*ret = (struct uaio_outcome){ .res = error };
	if (error < 0) {
		ret->start = ret->end = uaio_sample_now();
		return UAIO_NEXT_DONE;
	}
	next = uaio_policy[uaio_file_kind(file)][uaio_optab[sqe->op].class](
		file, sqe, ret);
	/*
	 * The program may reopen the descriptor again before the library creates the
	 * request. The request would then compare this file's count of edges (events of
	 * an epoll) with another file's. So let the request count as not tried.
	 */
	ret->edges = 0;
	return next;
}

/*
 * The program may have replaced the file of the descriptor by a pipe without the library
 * seeing it. A call with an offset then fails with ESPIPE. A call at the file position
 * would make the submitting thread wait for the pipe.
 * Return: whether the kernel says that the descriptor now refers to another file.
 */
static inline bool is_replaced_at_position(const struct uaio_file *file,
					   const struct uaio_sqe *sqe)
{
	return unlikely(sqe->off == UAIO_OFF_POSITION) &&
	       unlikely(uaio_is_misplaced(file, sqe));
}

static enum uaio_next try_memory_read(struct uaio_file *file,
				      const struct uaio_sqe *sqe,
				      struct uaio_outcome *ret)
{
	if (is_replaced_at_position(file, sqe))
		return uaio_try_reopened(sqe, ret);
	if (is_kept(load_relaxed(&file->inode), sqe))
		return UAIO_NEXT_WORKER;
	return uaio_try_here(sqe, ret);
}

static enum uaio_next try_memory_write(struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);

	if (is_replaced_at_position(file, sqe))
		return uaio_try_reopened(sqe, ret);
	if (unlikely(!begin_inline(file, inode, sqe)))
		return UAIO_NEXT_WORKER;
	ret->res = uaio_call(sqe, 0, ret);
	uaio_inode_end_inline(inode);
	return UAIO_NEXT_DONE;
}

/*
 * The bytes of this read are not in the page cache: start reading their pages, or leave the
 * request to a worker.
 */
static enum uaio_next start_pages(const struct uaio_file *file,
				  const struct uaio_sqe *sqe)
{
	const struct uaio_inode *inode = load_relaxed(&file->inode);
	uint64_t bytes = uaio_sqe_bytes(sqe);

	if (!inode || unlikely(uaio_kernel_takes(file, sqe)) || sqe->ioprio ||
	    bytes > PAGED_BYTES_MAX || !uaio_page_start(inode, sqe, bytes))
		return UAIO_NEXT_WORKER;
	return UAIO_NEXT_WAIT_PAGES;
}

/*
 * The file refuses RWF_NOWAIT, so the library cannot ask whether the bytes are in the page
 * cache. Make a plain read if earlier plain reads were fast (trust.h).
 */
static enum uaio_next try_trusted_read(struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);
	struct uaio_trust *trust = inode ? uaio_trust_find(file, inode) : NULL;
	struct uaio_trial_read trial;
	uint64_t took;

	/*
	 * UAIO_FILE_F_OLD_READ: the file's driver has no read_iter, and a read may wait
	 * for ever: leave it to a worker.
	 */
	if (!trust || sqe->ioprio || uaio_file_has(file, UAIO_FILE_F_OLD_READ))
		return UAIO_NEXT_WORKER;
	uaio_trust_begin(trust, &trial);
	took = uaio_call_timed(sqe, ret);
	uaio_trust_end(trust, inode, &trial, sqe, took);
	return UAIO_NEXT_DONE;
}

bool uaio_is_streaking(const struct uaio_file *file)
{
	/* relaxed: a heuristic */
	return load_relaxed(&file->hit_streak) >= STREAK_HITS &&
	       !uaio_config.never_block;
}

void uaio_note_cached(struct uaio_file *file, bool is_hit)
{
	/* relaxed: a heuristic */
	uint32_t nr = load_relaxed(&file->hit_streak);

	if (!is_hit)
		store_relaxed(&file->hit_streak, 0);
	/*
	 * After a streak of STREAK_HITS reads, the library no longer queries the page
	 * cache, and uaio_judge_read() times each read by the cycle counter. While the
	 * counter's rate is unknown, reads cannot be timed. So the streak then stays
	 * shorter than STREAK_HITS.
	 */
	else if (nr < STREAK_HITS - 1 || uaio_cycles_per_us())
		store_relaxed(&file->hit_streak, nr + 1);
}

void uaio_judge_read(struct uaio_file *file, uint64_t took)
{
	/* relaxed: a heuristic */
	if (unlikely(took > SLOW_READ_US * uaio_cycles_per_us()))
		store_relaxed(&file->hit_streak, 0);
}

static enum uaio_next ask_page_cache(struct uaio_file *file,
				     const struct uaio_sqe *sqe,
				     struct uaio_outcome *ret)
{
	int64_t res;

	/* relaxed, in this function: nowait_refused is only a hint */
	if (load_relaxed(&file->nowait_refused))
		return try_trusted_read(file, sqe, ret);
	res = uaio_read_cached(sqe, ret);
	if (res == UAIO_OP_BLOCKS) {
		store_relaxed(&file->nowait_refused, 1);
		return try_trusted_read(file, sqe, ret);
	}
	if (res == -EAGAIN) {
		uaio_note_cached(file, false);
		return start_pages(file, sqe);
	}
	uaio_note_cached(file, true);
	ret->res = res;
	return UAIO_NEXT_DONE;
}

/*
 * A buffered read first queries the page cache, except after a streak of reads that found
 * all their pages there.
 */
static enum uaio_next try_cached_read(struct uaio_file *file,
				      const struct uaio_sqe *sqe,
				      struct uaio_outcome *ret)
{
	/*
	 * Load the pointer only once, as the entry may be reused for another file (file.h,
	 * I2).
	 */
	const struct uaio_inode *inode = load_relaxed(&file->inode);

	if (unlikely(sqe->off == UAIO_OFF_POSITION || is_busy(inode) ||
		     uaio_is_held_up(file, inode, sqe)) &&
	    !may_pass(inode, sqe))
		return UAIO_NEXT_WORKER;
	if (!uaio_is_streaking(file))
		return ask_page_cache(file, sqe, ret);
	uaio_judge_read(file, uaio_call_timed(sqe, ret));
	return UAIO_NEXT_DONE;
}

/*
 * Return: whether the write is synchronous (O_SYNC, O_DSYNC or a flag), and so waits for
 * the disk every time.
 */
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

bool uaio_trial_write_begin(const struct uaio_file *file,
			    struct uaio_inode *inode,
			    const struct uaio_sqe *sqe,
			    struct uaio_trial_write *ret)
{
	if (unlikely(is_sync_write(file, sqe) || uaio_inode_is_slow(inode)))
		return false;
	ret->is_suspect = load_relaxed(&inode->nr_slow);
	ret->nr_sleeps =
		unlikely(ret->is_suspect) ? uaio_thread_nr_sleeps() : 0;
	return true;
}

void uaio_trial_write_end(struct uaio_inode *inode, const struct uaio_sqe *sqe,
			  const struct uaio_trial_write *trial, uint64_t took)
{
	uint64_t rate = uaio_cycles_per_us();

	if (unlikely(rate && took > SLOW_WRITE_US * rate) &&
	    took > slow_write_us(sqe) * rate)
		uaio_inode_judge_slow(inode, trial->is_suspect &&
						     uaio_thread_nr_sleeps() !=
							     trial->nr_sleeps);
}

/* A buffered write is executed in this thread as long as writes of its inode are fast. */
static enum uaio_next try_cached_write(struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);
	struct uaio_trial_write trial;
	uint64_t took;

	if (is_replaced_at_position(file, sqe))
		return uaio_try_reopened(sqe, ret);
	if (unlikely(!inode ||
		     !uaio_trial_write_begin(file, inode, sqe, &trial) ||
		     !begin_inline(file, inode, sqe)))
		return UAIO_NEXT_WORKER;
	took = uaio_call_timed(sqe, ret);
	uaio_inode_end_inline(inode);
	uaio_trial_write_end(inode, sqe, &trial, took);
	return UAIO_NEXT_DONE;
}

enum uaio_next uaio_done_unless_bounced(const struct uaio_file *file,
					const struct uaio_sqe *sqe,
					struct uaio_outcome *ret)
{
	if (likely(!uaio_may_bounce(file, sqe, ret->res)))
		return UAIO_NEXT_DONE;
	ret->res = 0; /* bytes done */
	return UAIO_NEXT_WORKER;
}

/*
 * An O_DIRECT write waits for the device, so it goes to a worker. If it surely extends the
 * file, it is executed here: the kernel completes such a write before io_submit returns,
 * and clients rely on that.
 */
static enum uaio_next try_direct_write(struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);
	struct uaio_range range;

	if (sqe->off == UAIO_OFF_POSITION ||
	    !uaio_is_extending(file, sqe, &ret->file_end, &range) ||
	    !begin_inline(file, inode, sqe))
		return UAIO_NEXT_WORKER;
	ret->res = uaio_call(sqe, 0, ret);
	uaio_inode_end_inline(inode);
	return uaio_done_unless_bounced(file, sqe, ret);
}

/* For requests about attributes and advice: execute them here if they do not block. */
static enum uaio_next try_about(struct uaio_file *file,
				const struct uaio_sqe *sqe,
				struct uaio_outcome *ret)
{
	if (is_kept(load_relaxed(&file->inode), sqe))
		return UAIO_NEXT_WORKER;
	ret->res = uaio_call(sqe, RWF_NOWAIT, ret);
	if (ret->res != UAIO_OP_BLOCKS)
		return UAIO_NEXT_DONE;
	ret->res = 0;
	return UAIO_NEXT_WORKER;
}

/* As try_about(), for files in memory, whose attributes are in memory too. */
static enum uaio_next try_memory_about(struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	if (is_kept(load_relaxed(&file->inode), sqe))
		return UAIO_NEXT_WORKER;
	return uaio_try_here(sqe, ret);
}

int uaio_try_flags(struct uaio_file *file, uint32_t file_flags,
		   const struct uaio_sqe *sqe, struct uaio_outcome *ret)
{
	ret->on = file_flags & UAIO_RWF_ON;
	if (!unlikely(uaio_refuses_offset(file_flags, sqe, ret)))
		ret->res = uaio_call(sqe, 0, ret);
	/*
	 * EOPNOTSUPP: the file cannot honour a flag. As in the kernel, the submission is
	 * refused. Exception: if a disk file system refuses RWF_NOWAIT, the kernel
	 * accepts the request and reports the error in the event. So does this function.
	 */
	if (ret->res != -EOPNOTSUPP)
		return 0;
	if (!(sqe->rw_flags & RWF_NOWAIT) ||
	    (uaio_file_kind(file) != UAIO_KIND_CACHED &&
	     uaio_file_kind(file) != UAIO_KIND_DIRECT))
		return -EOPNOTSUPP;
	if (uaio_sqe_rules(sqe)->fails_busy_writes &&
	    !load_relaxed(&file->nowait_refused) &&
	    uaio_optab[sqe->op].class == UAIO_CLASS_WRITE)
		ret->res = -EAGAIN;
	return 0;
}

uaio_try_fn *const uaio_policy[UAIO_NR_KINDS][UAIO_POLICY_COLUMNS] = {
	[UAIO_KIND_MEMORY] = {
		[UAIO_CLASS_READ] = try_memory_read,
		[UAIO_CLASS_WRITE] = try_memory_write,
		[UAIO_CLASS_RESIZE] = to_worker,
		[UAIO_CLASS_SYNC] = to_worker,
		[UAIO_CLASS_ABOUT] = try_memory_about,
		[UAIO_CLASS_POLL] = uaio_try_poll,
	},
	[UAIO_KIND_CACHED] = {
		[UAIO_CLASS_READ] = try_cached_read,
		[UAIO_CLASS_WRITE] = try_cached_write,
		[UAIO_CLASS_RESIZE] = to_worker,
		[UAIO_CLASS_SYNC] = to_worker,
		[UAIO_CLASS_ABOUT] = try_about,
		[UAIO_CLASS_POLL] = uaio_try_poll,
	},
	[UAIO_KIND_DIRECT] = {
		[UAIO_CLASS_READ] = to_worker,
		[UAIO_CLASS_WRITE] = try_direct_write,
		[UAIO_CLASS_RESIZE] = to_worker,
		[UAIO_CLASS_SYNC] = to_worker,
		[UAIO_CLASS_ABOUT] = try_about,
		[UAIO_CLASS_POLL] = uaio_try_poll,
	},
	[UAIO_KIND_STREAM] = {
		[UAIO_CLASS_READ] = uaio_try_stream,
		[UAIO_CLASS_WRITE] = uaio_try_stream,
		[UAIO_CLASS_RESIZE] = uaio_try_on_stream,
		[UAIO_CLASS_SYNC] = uaio_try_on_stream,
		[UAIO_CLASS_ABOUT] = uaio_try_on_stream,
		[UAIO_CLASS_POLL] = uaio_try_poll,
	},
	[UAIO_KIND_DEVICE] = {
		[UAIO_CLASS_READ] = uaio_try_stream,
		[UAIO_CLASS_WRITE] = uaio_try_stream,
		[UAIO_CLASS_RESIZE] = uaio_try_on_stream,
		[UAIO_CLASS_SYNC] = uaio_try_on_stream,
		[UAIO_CLASS_ABOUT] = uaio_try_on_stream,
		[UAIO_CLASS_POLL] = uaio_try_poll,
	},
};

/*
 * The flags of sqe forbid the library to leave sqe to a worker. But the system call might
 * block the submitting thread.
 * Return: whether the request may wait until its stream is ready. If the kernel refuses
 * a flag after this wait, the request fails.
 */
static bool may_wait(const struct uaio_file *file, const struct uaio_sqe *sqe)
{
	return uaio_sqe_rules(sqe)->waits_for_nonblock &&
	       !(sqe->rw_flags & RWF_NOWAIT) &&
	       uaio_file_has(file, UAIO_FILE_F_STREAM);
}

enum uaio_next uaio_issue_flags(struct uaio_file *file,
				const struct uaio_sqe *sqe, int *ret_error,
				struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	struct uaio_inode *inode = load_relaxed(&file->inode);
	uint32_t flags;

	*ret_error = 0;
	if (!uaio_has_odd_flags(op, sqe) || may_wait(file, sqe))
		return uaio_policy[uaio_file_kind(file)][op->class](file, sqe,
								    ret);
	if ((unlikely(!uaio_file_read_flags(file, sqe->fd, &flags)) &&
	     !sqe->is_fixed) ||
	    is_replaced_at_position(file, sqe))
		return uaio_try_reopened(sqe, ret);
	if (!inode || uaio_begin_inline(file, inode, sqe)) {
		*ret_error = uaio_try_flags(file, flags, sqe, ret);
		if (inode)
			uaio_inode_end_inline(inode);
		return uaio_done_unless_bounced(file, sqe, ret);
	}
	/*
	 * Requests that are queued on the inode must be executed before this one. So a
	 * worker executes this request later; with RWF_NOWAIT this request fails.
	 */
	if (!(sqe->rw_flags & RWF_NOWAIT))
		return UAIO_NEXT_WORKER;
	ret->res = -EAGAIN;
	ret->start = ret->end = uaio_sample_now();
	return UAIO_NEXT_DONE;
}
