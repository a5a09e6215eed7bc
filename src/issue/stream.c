/* SPDX-License-Identifier: MIT */
/*
 * The policy's functions for streams and devices: execute at once what is possible, and the
 * rest when the file is ready. The row of each operation says how to try it (struct
 * uaio_op_tries). Tested by test-policy.c and src/ready/test-ready*.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/check.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "op/sock.h"
#include "req/req.h"
#include "req/stats.h"
#include "issue/policy.h"

bool uaio_refuses_offset(uint32_t file_flags, const struct uaio_sqe *sqe,
			 struct uaio_outcome *ret)
{
	if (likely(sqe->off <= 0) || !(file_flags & UAIO_FILE_F_SOCKET))
		return false;
	ret->res = -ESPIPE;
	ret->start = ret->end = uaio_sample_now();
	return true;
}

/*
 * Some clients submit reads for which data arrives only a moment later, when the client
 * waits for events. So after MISSES tries in a row that found no data, only one read in
 * TRY_EVERY is tried at submission. ready/run.c resets the count of MISSES if no waiting
 * thread of the client executes such a read.
 */
enum { MISSES = 16, TRY_EVERY = 16 };

static bool is_try_skipped(struct uaio_waitq *waitq)
{
	/* relaxed: a heuristic */
	uint32_t nr = load_relaxed(&waitq->nr_misses);

	if (likely(nr < MISSES))
		return false;
	nr = nr + 1 < MISSES + TRY_EVERY ? nr + 1 : MISSES;
	store_relaxed(&waitq->nr_misses, nr);
	return nr != MISSES;
}

static void note_try(struct uaio_waitq *waitq, bool found_nothing)
{
	/* relaxed: a heuristic */
	uint32_t nr = load_relaxed(&waitq->nr_misses);

	if (!found_nothing && nr)
		store_relaxed(&waitq->nr_misses, 0);
	else if (found_nothing && nr < MISSES)
		store_relaxed(&waitq->nr_misses, nr + 1);
}

/*
 * Return: whether the file is O_NONBLOCK, so that the request must not wait. The flag is
 * queried for each request that would have to wait, and not cached. Other processes that
 * share the open file may change the flag, and so may ioctl().
 */
static bool may_not_wait(const struct uaio_file *file, int fd)
{
	int open_flags = sys_fcntl(fd, F_GETFL, 0);

	if (unlikely(open_flags < 0))
		return load_relaxed(&file->is_nonblock);
	return open_flags & O_NONBLOCK;
}

/* Return: whether a request waits for its file even if the file is O_NONBLOCK. */
static bool waits_despite_nonblock(const struct uaio_file *file,
				   const struct uaio_sqe *sqe)
{
	uint32_t old = uaio_optab[sqe->op].class == UAIO_CLASS_READ
			       ? UAIO_FILE_F_OLD_READ
			       : UAIO_FILE_F_OLD_WRITE;

	return uaio_sqe_rules(sqe)->waits_for_nonblock &&
	       uaio_file_kind(file) == UAIO_KIND_STREAM &&
	       !uaio_file_has(file, old);
}

/*
 * Return: the time at which the request stops waiting; 0: never. A socket may have a
 * timeout for reads or writes, which any process that shares the socket may set.
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
	/* Treat a timeout of decades as none. */
	if (limit.tv_sec > INT32_MAX)
		return 0;
	return uaio_now_ns() + limit.tv_sec * 1000000000ll +
	       limit.tv_usec * 1000ll;
}

static int64_t time_limit(const struct uaio_file *file,
			  const struct uaio_sqe *sqe)
{
	/*
	 * io_uring ignores the timeouts of sockets (ignores_timeouts): its requests wait
	 * until the client ends them.
	 */
	return uaio_file_has(file, UAIO_FILE_F_SOCKET) &&
			       !uaio_sqe_rules(sqe)->ignores_timeouts
		       ? time_limit_of_socket(sqe)
		       : 0;
}

/*
 * Return: whether to try a request on a socket now, although earlier requests of its
 * wait queue still wait. True if the request would fail at once (struct uaio_op_tries).
 */
static __attribute__((noinline)) bool passes(struct uaio_file *file,
					     const struct uaio_waitq *waitq,
					     const struct uaio_sqe *sqe)
{
	struct uaio_sqe waiting;
	bool is_tried, waits;

	if (!uaio_file_has(file, UAIO_FILE_F_SOCKET))
		return false;
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	/*
	 * A thread that tries the parked requests owns them, so this thread must not read
	 * them.
	 */
	is_tried = waitq->is_running;
	waits = !is_tried && !list_is_empty(&waitq->parked);
	if (waits)
		waiting =
			container_of(waitq->parked.next, struct uaio_req, link)
				->sqe;
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	return (is_tried || waits) &&
	       uaio_optab[sqe->op].tries->passes(sqe, waits ? &waiting : NULL,
						 sqe->fd);
}

/*
 * Execute as much of a stream request as is possible without waiting.
 * Return: whether the request was tried. If ret->res is then -EAGAIN or a short count, the
 * rest remains to be done.
 */
static bool try_at_once(struct uaio_file *file, struct uaio_waitq *waitq,
			const struct uaio_sqe *sqe, bool passes_all,
			struct uaio_outcome *ret)
{
	bool is_read = uaio_optab[sqe->op].class == UAIO_CLASS_READ;

	if (uaio_config.force_worker)
		return false;
	/*
	 * relaxed: this load sees at least the requests that this thread has parked. It
	 * may miss requests that other threads are just parking, but those have no order
	 * with this request.
	 */
	if (likely(!passes_all) &&
	    (load_relaxed(&waitq->nr) ? !passes(file, waitq, sqe)
				      : is_read && is_try_skipped(waitq)))
		return false;
	ret->edges = uaio_file_edges(file);
	ret->res = uaio_call(sqe, RWF_NOWAIT, ret);
	if (is_read)
		note_try(waitq, ret->res == -EAGAIN);
	if (ret->res != UAIO_OP_BLOCKS)
		return true;
	/* no call was made, so the request counts as not tried */
	ret->edges = 0;
	return false;
}

/*
 * Issue a request that must not wait for its file. If the operation has only a blocking
 * call, a worker makes it.
 */
static enum uaio_next try_now(const struct uaio_sqe *sqe,
			      struct uaio_outcome *ret)
{
	ret->res = uaio_call(sqe, RWF_NOWAIT, ret);
	if (ret->res != UAIO_OP_BLOCKS)
		return UAIO_NEXT_DONE;
	if (uaio_optab[sqe->op].tries->fails_at_once(sqe, sqe->fd))
		return uaio_try_here(sqe, ret);
	ret->res = 0;
	return UAIO_NEXT_WORKER;
}

/*
 * Execute at once what is possible, and the rest when the file is ready. As in io_uring,
 * operations of sockets wait even if the socket is O_NONBLOCK or has a timeout.
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
		return uaio_try_here(sqe, ret);
	/* Query O_NONBLOCK last, because the query takes a system call. */
	if (!op->is_of_socket && !waits_despite_nonblock(file, sqe) &&
	    unlikely(may_not_wait(file, sqe->fd)))
		return was_tried ? UAIO_NEXT_DONE : uaio_try_here(sqe, ret);
	if (!was_tried || ret->res < 0)
		ret->res = 0; /* bytes done */
	if (!op->is_of_socket)
		ret->until_ns = time_limit(file, sqe);
	return UAIO_NEXT_WAIT_FILE;
}

/*
 * Return: whether a request that is not tried at submission parks until poll() says
 * that its file is ready. (The kernel, too, polls every file that is not O_NONBLOCK.)
 */
static bool can_wait_first(const struct uaio_file *file,
			   const struct uaio_sqe *sqe)
{
	if (sqe->rw_flags & ~(uint32_t)UAIO_RWF_PATIENT ||
	    uaio_config.force_worker)
		return false;
	/* If the file cannot be polled and is not O_NONBLOCK, a worker makes the call. */
	return waits_despite_nonblock(file, sqe) ||
	       (uaio_rw_can_only_poll(sqe, file) &&
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

/* Begin a request on a stream as the operation's row in the table says. */
static enum uaio_next begin_on_stream(struct uaio_file *file,
				      const struct uaio_sqe *sqe,
				      uint32_t edges, struct uaio_outcome *ret)
{
	enum uaio_first first = uaio_optab[sqe->op].tries->first(sqe, sqe->fd);

	switch (first) {
	case UAIO_FIRST_NOW: return try_now(sqe, ret);
	case UAIO_FIRST_HERE: return uaio_try_here(sqe, ret);
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

/*
 * Check that the request's descriptor is a stream. The submitter has no reference to the
 * entry `file`, so by now the entry may describe the stream of another descriptor. The
 * request's own descriptor may be a regular file. The call for streams must not write to
 * such a file, because that call ignores the offset. *ret_flags: the flags of the entry
 * (UAIO_FILE_F_*).
 * Return: whether the descriptor is a stream, and `file` is still its entry.
 */
static inline bool is_on_stream(const struct uaio_file *file,
				const struct uaio_sqe *sqe, uint32_t *ret_flags)
{
	bool is_read = uaio_file_read_flags(file, sqe->fd, ret_flags);

	return (is_read || sqe->is_fixed) &&
	       uaio_file_kind(file) >= UAIO_KIND_STREAM;
}

enum uaio_next uaio_try_on_stream(struct uaio_file *file,
				  const struct uaio_sqe *sqe,
				  struct uaio_outcome *ret)
{
	uint32_t flags;

	return likely(is_on_stream(file, sqe, &flags))
		       ? uaio_try_here(sqe, ret)
		       : uaio_try_reopened(sqe, ret);
}

enum uaio_next uaio_try_stream(struct uaio_file *file,
			       const struct uaio_sqe *sqe,
			       struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	uint32_t edges = uaio_file_edges(file), flags;
	enum uaio_next next;

	if (unlikely(!is_on_stream(file, sqe, &flags)))
		return sqe->is_async ? UAIO_NEXT_WORKER
				     : uaio_try_reopened(sqe, ret);
	ret->on = flags & UAIO_RWF_ON;
	if (unlikely(sqe->off > 0) && !op->is_of_socket) {
		if (uaio_is_misplaced(file, sqe))
			return sqe->is_async ? UAIO_NEXT_WORKER
					     : uaio_try_reopened(sqe, ret);
		if (!sqe->polls_first && uaio_refuses_offset(flags, sqe, ret))
			return UAIO_NEXT_DONE;
	}
	next = begin_on_stream(file, sqe, edges, ret);
	if (likely(next != UAIO_NEXT_DONE || ret->res >= 0) ||
	    likely(!op->tries->waits_to_end(sqe, file, sqe->fd, false,
					    ret->res)))
		return next;
	/* poll() has reported that the file is not ready. */
	*ret = (struct uaio_outcome){ .edges = edges };
	return UAIO_NEXT_WAIT_FILE;
}

enum uaio_next uaio_try_poll(struct uaio_file *file, const struct uaio_sqe *sqe,
			     struct uaio_outcome *ret)
{
	/*
	 * A multishot poll is not tried here. If the file is ready already, epoll
	 * reports this as soon as the file is added to it (ready.h, I10).
	 */
	if (unlikely(sqe->is_multishot))
		return UAIO_NEXT_WAIT_FILE;
	ret->edges = uaio_file_edges(file);
	ret->res = uaio_call(sqe, 0, ret);
	if (ret->res != -EAGAIN)
		return UAIO_NEXT_DONE;
	ret->res = 0;
	return UAIO_NEXT_WAIT_FILE;
}

enum uaio_next uaio_send_untried(struct uaio_file *file,
				 const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret)
{
	return uaio_optab[sqe->op].class > UAIO_CLASS_WRITE ||
			       uaio_file_kind(file) < UAIO_KIND_STREAM
		       ? UAIO_NEXT_WORKER
		       : uaio_try_stream(file, sqe, ret);
}
