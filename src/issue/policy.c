/* SPDX-License-Identifier: MIT */
/* Where a request is executed: see policy.h. */
#include "issue/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/check.h"
#include "base/cycles.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/thread.h"
#include "op/sock.h"
#include "req/stats.h"
#include "wait/page.h"
#include "wait/trust.h"
#include "split/bounce.h"
#include "flow/kernel.h"
#include "issue/extent.h"

enum {
	/*
	 * To ask the page cache takes 100 of the 480 ns of a 1 KiB read. So
	 * after this many reads in a row that did not wait, reads are made
	 * without asking. At 64 the cost of asking is lost in the noise, even
	 * if a file is cold now and then.
	 */
	STREAK_HITS = 64,
	/*
	 * A cached read of 64 KiB takes 10 us here, one from the fastest disk
	 * 50 us: a plain read that took this long waited for the disk.
	 */
	SLOW_READ_US = 20,
	/*
	 * A cold read of 64 KiB takes 70 us of processor time if it waits for
	 * its pages (RETRY_PAGE), and 95 us on a worker. At 256 KiB it is 250
	 * either way, and workers copy in parallel with the client.
	 */
	PAGED_BYTES_MAX = 128 << 10,
	/*
	 * A buffered write that took this long, and as much again for each MiB
	 * of it, waited for writeback: a MiB takes 0.3 to 0.7 ms here.
	 */
	SLOW_WRITE_US = 1000,
};

/* Execute it here, however long it takes: it does not wait for a device. */
static enum uaio_next try_here(struct uaio_file *file,
			       const struct uaio_sqe *sqe,
			       struct uaio_outcome *ret)
{
	ret->res = uaio_call(file, sqe, 0, ret);
	return UAIO_NEXT_DONE;
}

static enum uaio_next to_worker(struct uaio_file *file,
				const struct uaio_sqe *sqe,
				struct uaio_outcome *ret)
{
	(void)file;
	(void)sqe;
	(void)ret;
	return UAIO_NEXT_WORKER;
}

/* Return: whether a request must be queued rather than be inline (order.h, I2). */
static bool is_busy(const struct uaio_inode *inode)
{
	return uaio_config.force_worker || !inode || uaio_inode_is_busy(inode);
}

/* The same, which is busy. Return: whether a request need not mind that. */
static bool may_pass(const struct uaio_inode *inode, const struct uaio_sqe *sqe)
{
	return sqe->is_unordered && sqe->off != UAIO_OFF_POSITION && inode &&
	       !uaio_config.force_worker;
}

/*
 * Return: whether a write may be executed inline. If so, the caller ends it with
 * uaio_inode_end_inline().
 */
static bool begin_inline(struct uaio_file *file, struct uaio_inode *inode,
			 const struct uaio_sqe *sqe)
{
	return !uaio_config.force_worker && inode &&
	       uaio_begin_inline(file, inode, sqe);
}

/*
 * A stream refuses an offset (ESPIPE), but not a request at the position: where the
 * descriptor has become a pipe unseen, its call would wait, with the client's ring held.
 * Return: whether the kernel says that it has become another file.
 */
static inline bool is_elsewhere(const struct uaio_file *file,
				const struct uaio_sqe *sqe)
{
	return unlikely(sqe->off == UAIO_OFF_POSITION) &&
	       unlikely(uaio_is_misplaced(file, sqe));
}

static enum uaio_next try_memory_read(struct uaio_file *file,
				      const struct uaio_sqe *sqe,
				      struct uaio_outcome *ret)
{
	if (is_elsewhere(file, sqe))
		return uaio_try_reopened(sqe, ret);
	if (unlikely(is_busy(load_relaxed(&file->inode))) &&
	    !may_pass(load_relaxed(&file->inode), sqe))
		return UAIO_NEXT_WORKER;
	return try_here(file, sqe, ret);
}

static enum uaio_next try_memory_write(struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);

	if (is_elsewhere(file, sqe))
		return uaio_try_reopened(sqe, ret);
	if (unlikely(!begin_inline(file, inode, sqe)))
		return UAIO_NEXT_WORKER;
	ret->res = uaio_call(file, sqe, 0, ret);
	uaio_inode_end_inline(inode);
	return UAIO_NEXT_DONE;
}

/* The data are not cached: start reading the pages, or leave it to a worker. */
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

/* The file refuses RWF_NOWAIT, so the page cache cannot be asked (trust.h). */
static enum uaio_next try_trusted_read(struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);
	struct uaio_trust *trust = inode ? uaio_trust_find(file, inode) : NULL;
	struct uaio_trial_read trial;
	uint64_t took;

	/* A driver with the older read function may wait for ever. */
	if (!trust || sqe->ioprio || uaio_file_has(file, UAIO_FILE_F_OLD_READ))
		return UAIO_NEXT_WORKER;
	uaio_trust_begin(trust, &trial);
	took = uaio_call_timed(file, sqe, ret);
	uaio_trust_end(trust, inode, &trial, sqe, took);
	return UAIO_NEXT_DONE;
}

static enum uaio_next ask_page_cache(struct uaio_file *file,
				     const struct uaio_sqe *sqe,
				     struct uaio_outcome *ret)
{
	int64_t res;

	/* relaxed throughout: advice */
	if (load_relaxed(&file->nowait_refused))
		return try_trusted_read(file, sqe, ret);
	res = uaio_read_cached(file, sqe, ret);
	if (res == UAIO_OP_BLOCKS) {
		store_relaxed(&file->nowait_refused, 1);
		return try_trusted_read(file, sqe, ret);
	}
	if (res == -EAGAIN) {
		store_relaxed(&file->hit_streak, 0);
		return start_pages(file, sqe);
	}
	/* As long as the cycle counter's rate is unknown, go on asking. */
	if (load_relaxed(&file->hit_streak) < STREAK_HITS - 1 ||
	    uaio_cycles_per_us())
		store_relaxed(&file->hit_streak,
			      load_relaxed(&file->hit_streak) + 1);
	ret->res = res;
	return UAIO_NEXT_DONE;
}

/*
 * Buffered reads: first the page cache is asked; after a streak of hits it is not,
 * as long as the reads are fast.
 */
static enum uaio_next try_cached_read(struct uaio_file *file,
				      const struct uaio_sqe *sqe,
				      struct uaio_outcome *ret)
{
	/* The entry may become another file's (file.h I2): load it once. */
	const struct uaio_inode *inode = load_relaxed(&file->inode);

	if (unlikely(sqe->off == UAIO_OFF_POSITION || is_busy(inode) ||
		     uaio_is_held_up(file, inode, sqe)) &&
	    !may_pass(inode, sqe))
		return UAIO_NEXT_WORKER;
	if (load_relaxed(&file->hit_streak) < STREAK_HITS ||
	    uaio_config.never_block)
		return ask_page_cache(file, sqe, ret);

	if (unlikely(uaio_call_timed(file, sqe, ret) >
		     SLOW_READ_US * uaio_cycles_per_us()))
		store_relaxed(&file->hit_streak, 0);
	return UAIO_NEXT_DONE;
}

/* A synchronous write, in any form, waits for the disk every time. */
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

/* Buffered writes: executed here while they are fast. */
static enum uaio_next try_cached_write(struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);
	uint64_t took, rate, sleeps = 0;
	bool is_suspect;

	if (is_elsewhere(file, sqe))
		return uaio_try_reopened(sqe, ret);
	if (unlikely(!inode || is_sync_write(file, sqe) ||
		     uaio_inode_is_slow(inode) ||
		     !begin_inline(file, inode, sqe)))
		return UAIO_NEXT_WORKER;

	is_suspect = load_relaxed(&inode->nr_slow);
	if (unlikely(is_suspect))
		sleeps = uaio_thread_nr_sleeps();
	took = uaio_call_timed(file, sqe, ret);
	uaio_inode_end_inline(inode);
	rate = uaio_cycles_per_us();
	if (unlikely(rate && took > SLOW_WRITE_US * rate) &&
	    took > slow_write_us(sqe) * rate)
		uaio_inode_judge_slow(
			inode, is_suspect && uaio_thread_nr_sleeps() != sleeps);
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
 * O_DIRECT writes wait for the device, so they go to workers. Those that surely
 * extend the file are executed here, because the kernel completes them before
 * io_submit returns, and clients count on that.
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
	ret->res = uaio_call(file, sqe, 0, ret);
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
 * Some clients submit reads that find nothing yet, but that complete when the
 * client asks for events a moment later. After MISSES of these in a row, reads are
 * not tried at submission, except for one now and then. run.c resets the count
 * where that does not pay.
 */
enum { MISSES = 16, TRY_EVERY = 16 };

static bool is_in_vain(struct uaio_waitq *waitq)
{
	/* relaxed: advice */
	uint32_t nr = load_relaxed(&waitq->nr_misses);

	if (likely(nr < MISSES))
		return false;
	nr = nr + 1 < MISSES + TRY_EVERY ? nr + 1 : MISSES;
	store_relaxed(&waitq->nr_misses, nr);
	return nr != MISSES;
}

static void note_try(struct uaio_waitq *waitq, bool was_in_vain)
{
	/* relaxed: advice */
	uint32_t nr = load_relaxed(&waitq->nr_misses);

	if (!was_in_vain && nr)
		store_relaxed(&waitq->nr_misses, 0);
	else if (was_in_vain && nr < MISSES)
		store_relaxed(&waitq->nr_misses, nr + 1);
}

/*
 * Return: whether the file is O_NONBLOCK, so that the request must not wait. Other
 * processes that share the open file may change that, and so may ioctl(). So it is
 * not remembered, but asked for each request that would have to wait.
 */
static bool may_not_wait(const struct uaio_file *file, int fd)
{
	int open_flags = sys_fcntl(fd, F_GETFL, 0);

	if (unlikely(open_flags < 0))
		return uaio_file_has(file, UAIO_FILE_F_NONBLOCK);
	return open_flags & O_NONBLOCK;
}

/* Return: whether a request waits all the same, as calls need not block. */
static bool can_be_patient(const struct uaio_file *file,
			   const struct uaio_sqe *sqe)
{
	uint32_t old = uaio_optab[sqe->op].class == UAIO_CLASS_READ
			       ? UAIO_FILE_F_OLD_READ
			       : UAIO_FILE_F_OLD_WRITE;

	return sqe->is_patient && uaio_file_kind(file) == UAIO_KIND_STREAM &&
	       !uaio_file_has(file, old);
}

/*
 * Return: when the request stops waiting; 0: never. A socket may have a timeout
 * for its reads or writes, which any process that shares it may set.
 */
static __attribute__((noinline)) int64_t
time_limit_of_socket(const struct uaio_sqe *sqe)
{
	bool is_write = uaio_optab[sqe->op].class == UAIO_CLASS_WRITE;
	struct timeval limit = { 0 };
	uint32_t size = sizeof(limit);

	if (sys_getsockopt(sqe->fd, SOL_SOCKET,
			   is_write ? SO_SNDTIMEO : SO_RCVTIMEO, &limit,
			   &size) < 0 ||
	    (!limit.tv_sec && !limit.tv_usec))
		return 0;
	/* Decades are for ever. */
	if (limit.tv_sec > INT32_MAX)
		return 0;
	return uaio_now_ns() + limit.tv_sec * 1000000000ll +
	       limit.tv_usec * 1000ll;
}

static int64_t time_limit(const struct uaio_file *file,
			  const struct uaio_sqe *sqe)
{
	/* One that is patient is for its client to end. */
	return uaio_file_has(file, UAIO_FILE_F_SOCKET) && !sqe->is_patient
		       ? time_limit_of_socket(sqe)
		       : 0;
}

/* Return: whether what waits there may wait on a socket that listens. */
static bool may_wait_to_listen(struct uaio_file *file,
			       const struct uaio_waitq *waitq)
{
	bool may;

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	/* One that is being tried is its thread's. */
	may = waitq->is_running;
	if (!may && !list_is_empty(&waitq->parked))
		may = !uaio_sock_may_pass(
			&container_of(waitq->parked.next, struct uaio_req, link)
				 ->sqe);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	return may;
}

/*
 * Return: whether a request is tried whatever waits before it, as it fails at once. Most
 * often no system call has to tell.
 */
static __attribute__((noinline)) bool passes(struct uaio_file *file,
					     const struct uaio_waitq *waitq,
					     const struct uaio_sqe *sqe)
{
	return uaio_file_has(file, UAIO_FILE_F_SOCKET) &&
	       uaio_sock_may_pass(sqe) && may_wait_to_listen(file, waitq) &&
	       uaio_sock_option(sqe->fd, SO_ACCEPTCONN) == 1;
}

/*
 * Execute as much of a stream request as is possible without waiting.
 * Return: whether it was tried. If so, and ret->res is -EAGAIN or a short count,
 * there is more to do.
 */
static bool try_at_once(struct uaio_file *file, struct uaio_waitq *waitq,
			const struct uaio_sqe *sqe, bool passes_all,
			struct uaio_outcome *ret)
{
	bool is_read = uaio_optab[sqe->op].class == UAIO_CLASS_READ;

	/*
	 * relaxed: this thread sees the requests that it has parked itself, and
	 * those of other threads have no order with this one
	 */
	if (uaio_config.force_worker)
		return false;
	if (likely(!passes_all) &&
	    (load_relaxed(&waitq->nr) ? !passes(file, waitq, sqe)
				      : is_read && is_in_vain(waitq)))
		return false;
	ret->edges = uaio_file_edges(file);
	ret->res = uaio_call(file, sqe, uaio_nowait_flags(file), ret);
	if (is_read)
		note_try(waitq, ret->res == -EAGAIN);
	if (ret->res != UAIO_OP_BLOCKS)
		return true;
	ret->edges = 0; /* not tried: it may be ready */
	return false;
}

/* It must not wait for its file; a worker makes a call that cannot be told so. */
static enum uaio_next try_now(struct uaio_file *file,
			      const struct uaio_sqe *sqe,
			      struct uaio_outcome *ret)
{
	ret->res = uaio_call(file, sqe, RWF_NOWAIT, ret);
	if (ret->res != UAIO_OP_BLOCKS)
		return UAIO_NEXT_DONE;
	if (uaio_optab[sqe->op].tries->fails_at_once(sqe, sqe->fd))
		return try_here(file, sqe, ret);
	ret->res = 0;
	return UAIO_NEXT_WORKER;
}

/*
 * Execute what is possible now, and leave the rest for when the file is ready. Operations
 * of sockets wait whatever the socket is, and however long its own timeouts are, as
 * io_uring's do.
 */
static enum uaio_next try_or_wait(struct uaio_file *file,
				  struct uaio_waitq *waitq,
				  const struct uaio_sqe *sqe, bool passes_all,
				  struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	bool was_tried = try_at_once(file, waitq, sqe, passes_all, ret);

	if (was_tried && uaio_sqe_is_whole(sqe, sqe->fd, ret->res))
		return UAIO_NEXT_DONE;
	if (unlikely(ret->res == UAIO_OP_BLOCKS) &&
	    op->tries->fails_at_once(sqe, sqe->fd))
		return try_here(file, sqe, ret);
	/* One that is patient need not ask the file: a call for each message. */
	if (!op->is_of_socket && !can_be_patient(file, sqe) &&
	    unlikely(may_not_wait(file, sqe->fd)))
		return was_tried ? UAIO_NEXT_DONE : try_here(file, sqe, ret);
	if (!was_tried || ret->res < 0)
		ret->res = 0; /* bytes done */
	if (!op->is_of_socket)
		ret->until_ns = time_limit(file, sqe);
	return UAIO_NEXT_WAIT_FILE;
}

/*
 * Return: whether the file of a request that is not to be tried is polled before a thread
 * makes the call. The kernel polls each file but one that is O_NONBLOCK.
 */
static bool can_wait_first(const struct uaio_file *file,
			   const struct uaio_sqe *sqe)
{
	if (sqe->rw_flags & ~(uint32_t)UAIO_RWF_PATIENT ||
	    uaio_config.force_worker)
		return false;
	/* A worker makes the call on other files that it may block on. */
	return can_be_patient(file, sqe) || (uaio_rw_can_only_poll(sqe, file) &&
					     !may_not_wait(file, sqe->fd));
}

static struct uaio_waitq *waitq_of(struct uaio_file *file,
				   const struct uaio_sqe *sqe)
{
	if (uaio_optab[sqe->op].class == UAIO_CLASS_WRITE)
		return &file->waitqs[UAIO_WAITQ_WRITE];
	return unlikely(uaio_sock_reads_errors(sqe))
		       ? &file->waitqs[UAIO_WAITQ_ERRORS]
		       : &file->waitqs[UAIO_WAITQ_READ];
}

/* Begin it as its operation says. */
static enum uaio_next begin_on_stream(struct uaio_file *file,
				      const struct uaio_sqe *sqe,
				      uint32_t edges, struct uaio_outcome *ret)
{
	enum uaio_first first = uaio_optab[sqe->op].tries->first(sqe, sqe->fd);

	switch (first) {
	case UAIO_FIRST_NOW: return try_now(file, sqe, ret);
	case UAIO_FIRST_HERE: return try_here(file, sqe, ret);
	case UAIO_FIRST_WORKER: return UAIO_NEXT_WORKER;
	case UAIO_FIRST_WAIT: return UAIO_NEXT_WAIT_FILE;
	case UAIO_FIRST_LOOKED: ret->edges = edges; return UAIO_NEXT_WAIT_FILE;
	case UAIO_FIRST_ASIDE:
		if (!can_wait_first(file, sqe))
			return UAIO_NEXT_WORKER;
		ret->until_ns = time_limit(file, sqe);
		return UAIO_NEXT_WAIT_FILE;
	case UAIO_FIRST_ASIDE_TRIED:
		if (!can_wait_first(file, sqe))
			return UAIO_NEXT_WORKER;
		break;
	default: break;
	}
	return try_or_wait(file, waitq_of(file, sqe), sqe,
			   first == UAIO_FIRST_PASS, ret);
}

/* Streams: execute what is possible now, and the rest when the file is ready. */
static enum uaio_next try_stream(struct uaio_file *file,
				 const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	uint32_t edges = uaio_file_edges(file);
	enum uaio_next next;

	if (unlikely(sqe->off > 0) && !op->is_of_socket) {
		if (uaio_is_misplaced(file, sqe))
			return sqe->is_async ? UAIO_NEXT_WORKER
					     : uaio_try_reopened(sqe, ret);
		if (is_at_bad_offset(file, sqe) && !sqe->polls_first) {
			refuse(ret, -ESPIPE);
			return UAIO_NEXT_DONE;
		}
	}
	next = begin_on_stream(file, sqe, edges, ret);
	if (likely(next != UAIO_NEXT_DONE || ret->res >= 0) ||
	    likely(!op->tries->waits_to_end(sqe, file, sqe->fd, false,
					    ret->res)))
		return next;
	/* poll() has said that the file is not ready. */
	*ret = (struct uaio_outcome){ .edges = edges };
	return UAIO_NEXT_WAIT_FILE;
}

enum uaio_next uaio_send_untried(struct uaio_file *file,
				 const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret)
{
	return uaio_optab[sqe->op].class > UAIO_CLASS_WRITE ||
			       uaio_file_kind(file) < UAIO_KIND_STREAM
		       ? UAIO_NEXT_WORKER
		       : try_stream(file, sqe, ret);
}

static enum uaio_next try_poll(struct uaio_file *file,
			       const struct uaio_sqe *sqe,
			       struct uaio_outcome *ret)
{
	/* The epoll says what is ready now: ready.h I10. */
	if (unlikely(sqe->is_multishot))
		return UAIO_NEXT_WAIT_FILE;
	ret->edges = uaio_file_edges(file);
	ret->res = uaio_call(file, sqe, 0, ret);
	if (ret->res != -EAGAIN)
		return UAIO_NEXT_DONE;
	ret->res = 0;
	return UAIO_NEXT_WAIT_FILE;
}

/* Quick questions and advice are answered here. */
static enum uaio_next try_about(struct uaio_file *file,
				const struct uaio_sqe *sqe,
				struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);

	if ((!is_busy(inode) || may_pass(inode, sqe)) &&
	    (ret->res = uaio_call(file, sqe, RWF_NOWAIT, ret)) !=
		    UAIO_OP_BLOCKS)
		return UAIO_NEXT_DONE;
	ret->res = 0;
	return UAIO_NEXT_WORKER;
}

/* Attributes of files in memory are in memory. */
static enum uaio_next try_memory_about(struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	const struct uaio_inode *inode = load_relaxed(&file->inode);

	if (is_busy(inode) && !may_pass(inode, sqe))
		return UAIO_NEXT_WORKER;
	return try_here(file, sqe, ret);
}

int uaio_try_flags(struct uaio_file *file, const struct uaio_sqe *sqe,
		   struct uaio_outcome *ret)
{
	if (unlikely(is_at_bad_offset(file, sqe)))
		refuse(ret, -ESPIPE);
	else
		ret->res = uaio_call(file, sqe, 0, ret);
	/*
	 * If the file cannot honour a flag, the submission is refused. Disk file
	 * systems can honour RWF_NOWAIT in general; where they refuse it for one
	 * write, the kernel says so in the event.
	 */
	if (ret->res != -EOPNOTSUPP)
		return 0;
	if (!(sqe->rw_flags & RWF_NOWAIT) ||
	    (uaio_file_kind(file) != UAIO_KIND_CACHED &&
	     uaio_file_kind(file) != UAIO_KIND_DIRECT))
		return -EOPNOTSUPP;
	if (sqe->is_again && !load_relaxed(&file->nowait_refused) &&
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
		[UAIO_CLASS_POLL] = try_poll,
	},
	[UAIO_KIND_CACHED] = {
		[UAIO_CLASS_READ] = try_cached_read,
		[UAIO_CLASS_WRITE] = try_cached_write,
		[UAIO_CLASS_RESIZE] = to_worker,
		[UAIO_CLASS_SYNC] = to_worker,
		[UAIO_CLASS_ABOUT] = try_about,
		[UAIO_CLASS_POLL] = try_poll,
	},
	[UAIO_KIND_DIRECT] = {
		[UAIO_CLASS_READ] = to_worker,
		[UAIO_CLASS_WRITE] = try_direct_write,
		[UAIO_CLASS_RESIZE] = to_worker,
		[UAIO_CLASS_SYNC] = to_worker,
		[UAIO_CLASS_ABOUT] = try_about,
		[UAIO_CLASS_POLL] = try_poll,
	},
	[UAIO_KIND_STREAM] = {
		[UAIO_CLASS_READ] = try_stream,
		[UAIO_CLASS_WRITE] = try_stream,
		[UAIO_CLASS_RESIZE] = try_here,
		[UAIO_CLASS_SYNC] = try_here,
		[UAIO_CLASS_ABOUT] = try_here,
		[UAIO_CLASS_POLL] = try_poll,
	},
	[UAIO_KIND_DEVICE] = {
		[UAIO_CLASS_READ] = try_stream,
		[UAIO_CLASS_WRITE] = try_stream,
		[UAIO_CLASS_RESIZE] = try_here,
		[UAIO_CLASS_SYNC] = try_here,
		[UAIO_CLASS_ABOUT] = try_here,
		[UAIO_CLASS_POLL] = try_poll,
	},
};
