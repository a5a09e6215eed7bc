/* SPDX-License-Identifier: MIT */
#include "split/split.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/thread.h"
#include "req/req.h"
#include "req/stats.h"
#include "split/align.h"
#include "split/whole.h"
#include "split/tune.h"

enum {
	/* how many vectors a request may have at most */
	IOVS_MAX = 1024,

	/* value of RWF_NOAPPEND, which older headers lack */
	RWF_NOAPPEND_ = 0x20,

	/*
	 * Layout of split->stop: in the upper half the index of a segment plus 1, in
	 * the lower half the result of that segment.
	 */
	STOP_SHIFT = 32,
	STOP_IS_ERROR = 1u << 31,
};

static struct uaio_slab slab;

void uaio_split_init(void)
{
	uaio_slab_init(&slab, sizeof(struct uaio_split), 65536);
	uaio_tuning_init();
}

/*
 * Cutting
 */

struct uaio_split *uaio_split_new(struct uaio_req *req, uint64_t bytes,
				  int64_t off, unsigned nr_runners)
{
	struct uaio_split *split = uaio_slab_get(&slab);
	uint64_t in_first = (uint64_t)off % UAIO_SEGMENT_BYTES;

	if (!split)
		return NULL;
	uaio_split_clear(split);
	split->req = req;
	split->bytes = bytes;
	split->first_bytes = UAIO_SEGMENT_BYTES - in_first;
	split->nr_segments =
		(uint32_t)((in_first + bytes + UAIO_SEGMENT_BYTES - 1) /
			   UAIO_SEGMENT_BYTES);
	uaio_split_begin(split, nr_runners < split->nr_segments
					? nr_runners
					: split->nr_segments);
	return split;
}

/*
 * Return: where the segment begins: its distance in bytes from the start of the
 * request.
 */
static uint64_t begin_of(const struct uaio_split *split, uint32_t segment)
{
	return !segment ? 0
			: split->first_bytes +
				  (uint64_t)(segment - 1) * UAIO_SEGMENT_BYTES;
}

static void fill_runner(struct uaio_segment_runner *runner, uint32_t segment)
{
	const struct uaio_split *split = runner->split;
	uint64_t end = begin_of(split, segment + 1);

	runner->begin = begin_of(split, segment);
	if (end > split->bytes)
		end = split->bytes;
	runner->bytes = (uint32_t)(end - runner->begin);
}

/*
 * Store in ret_iov the vectors of the bytes [begin, begin + bytes) of the request.
 * Return: how many vectors these are.
 */
static unsigned cut_iovs(const struct uaio_sqe *sqe, uint64_t begin,
			 uint64_t bytes, struct iovec ret_iov[IOVS_MAX])
{
	unsigned nr = 0;

	for (uint64_t i = 0; i < sqe->len && bytes; i++) {
		const struct iovec *from = &sqe->iov[i];
		uint64_t part;

		if (begin >= from->iov_len) {
			begin -= from->iov_len;
			continue;
		}
		part = from->iov_len - begin;
		if (part > bytes)
			part = bytes;
		ret_iov[nr].iov_base = (char *)from->iov_base + begin;
		ret_iov[nr++].iov_len = part;
		bytes -= part;
		begin = 0;
	}
	return nr;
}

/*
 * Executing
 */

/*
 * Write with RWF_NOAPPEND (since Linux 6.9), so that the data go to their offset even
 * if the file has O_APPEND. A duplicate descriptor may have set O_APPEND after the
 * submission.
 */
static int64_t execute_write(struct uaio_req *req, struct uaio_sqe *part)
{
	/* atomic; 1: the kernel does not know RWF_NOAPPEND */
	static uint32_t is_unknown;
	int64_t res;

	/* relaxed: a thread that still loads 0 gets the error by its own call */
	if (unlikely(load_relaxed(&is_unknown)))
		return uaio_req_execute_part(req, part);
	part->rw_flags = RWF_NOAPPEND_;
	res = uaio_req_execute_part(req, part);
	if (likely(res != -EOPNOTSUPP))
		return res;
	/* restore rw_flags, which was 0: a request with RWF_* flags is never cut */
	part->rw_flags = 0;
	res = uaio_req_execute_part(req, part);
	if (res != -EOPNOTSUPP)
		store_relaxed(&is_unknown, 1);
	return res;
}

static int64_t execute_segment(const struct uaio_segment_runner *runner)
{
	struct uaio_req *req = runner->split->req;
	/* not initialised, as initialising would write 16 KiB for each segment */
	struct iovec iov[IOVS_MAX];
	struct uaio_sqe part = req->sqe;
	struct uaio_former_call call;
	int64_t res;

	part.off += (int64_t)runner->begin;
	if (uaio_optab[part.op].is_vectored) {
		part.len =
			cut_iovs(&req->sqe, runner->begin, runner->bytes, iov);
		part.iov = iov;
	} else {
		part.buf = (char *)part.buf + runner->begin;
		part.len = runner->bytes;
	}
	if (unlikely(uaio_req_begin_call(req, &call) < 0))
		return -ECANCELED;
	res = uaio_optab[part.op].class == UAIO_CLASS_WRITE
		      ? execute_write(req, &part)
		      : uaio_req_execute_part(req, &part);
	uaio_former_end(&call);
	return res;
}

/*
 * Record that a segment was short or has failed. Of such segments, the first in the
 * file determines the request's result.
 */
static void note_stop(struct uaio_split *split, uint32_t segment, int64_t res)
{
	uint64_t seen = 0;
	uint64_t stop =
		(uint64_t)(segment + 1) << STOP_SHIFT |
		(res < 0 ? STOP_IS_ERROR | (uint32_t)-res : (uint32_t)res);

	/* relaxed: put() publishes the value when it drops the reference */
	while (!cas_relaxed(&split->stop, &seen, stop))
		if (seen && seen < stop)
			return;
}

/*
 * Take the next segment for this runner.
 * Return: false if no segment is left to execute.
 */
static bool take_segment(struct uaio_segment_runner *runner,
			 uint32_t *ret_segment)
{
	struct uaio_split *split = runner->split;

	/*
	 * relaxed: runners pass no data to each other through `stop` and `next`
	 */
	if (load_relaxed(&split->stop))
		return false;
	*ret_segment = add_relaxed(&split->next, 1);
	if (*ret_segment >= split->nr_segments)
		return false;
	fill_runner(runner, *ret_segment);
	return true;
}

static void execute_segments(struct uaio_segment_runner *runner)
{
	int ioprio = runner->split->req->sqe.ioprio, old_ioprio = -1;
	uint32_t segment;

	if (unlikely(ioprio))
		old_ioprio = uaio_thread_take_ioprio(ioprio);
	while (take_segment(runner, &segment)) {
		int64_t res = execute_segment(runner);

		if (res != runner->bytes)
			note_stop(runner->split, segment, res);
	}
	if (unlikely(ioprio))
		uaio_thread_give_ioprio(old_ioprio);
}

/*
 * Completing
 */

static int64_t result_of(const struct uaio_split *split)
{
	/*
	 * relaxed: put() has ordered this load, by an acquire after the last reference
	 * was dropped
	 */
	uint64_t stop = load_relaxed(&split->stop);
	uint32_t res = (uint32_t)stop;
	uint64_t begin;

	if (likely(!stop))
		return (int64_t)split->bytes;
	begin = begin_of(split, (uint32_t)(stop >> STOP_SHIFT) - 1);
	if (!(res & STOP_IS_ERROR))
		return (int64_t)(begin + res);
	return begin ? (int64_t)begin
		     : -(int64_t)(res & ~(uint32_t)STOP_IS_ERROR);
}

static void count(const struct uaio_split *split)
{
	uint32_t nr = load_relaxed(&split->next);

	uaio_stats_direct(UAIO_DIRECT_CUT, 1);
	uaio_stats_direct(UAIO_DIRECT_SEGMENTS,
			  nr < split->nr_segments ? nr : split->nr_segments);
}

/*
 * Drop the reference of a runner. When the last reference is dropped, complete the
 * request. worker: the worker that executed the runner, or NULL.
 */
static void put(struct uaio_split *split, struct uaio_worker *worker)
{
	struct uaio_req *req = split->req;
	int64_t res;

	/*
	 * [MB:split] release: publishes this runner's data and split->stop. Pairs with
	 * the load below.
	 */
	if (sub_release(&split->refs, 1) != 1)
		return;
	/*
	 * [MB:split] acquire: this thread sees the data and split->stop of all runners.
	 */
	UAIO_CHECK(load_acquire(&split->refs) == 0);
	res = result_of(split);
	count(split);
	uaio_tune_end(&split->trial, res);
	uaio_slab_put(&slab, split);
	uaio_flow->complete(req, res, worker);
}

void uaio_split_run(struct uaio_work *work, struct uaio_worker *worker)
{
	struct uaio_segment_runner *runner =
		container_of(work, struct uaio_segment_runner, work);
	struct uaio_split *split = runner->split;

	add_relaxed(&split->nr_begun, 1);
	execute_segments(runner);
	uaio_wq_returned(worker);
	put(split, worker);
}

void uaio_split_refuse(struct uaio_work *work)
{
	struct uaio_segment_runner *runner =
		container_of(work, struct uaio_segment_runner, work);

	add_relaxed(&runner->split->nr_begun, 1);
	put(runner->split, NULL);
}

void uaio_split_refuse_all(struct list *items)
{
	list_for_each_safe (pos, items) {
		struct uaio_work *work =
			container_of(pos, struct uaio_work, link);

		if (likely(!work->is_part))
			continue;
		list_remove(pos);
		uaio_split_refuse(work);
	}
}

/*
 * Starting
 */

static void queue_runners(struct uaio_split *split)
{
	struct uaio_handover handover;

	uaio_handover_init(&handover);
	for (uint32_t i = 1; i < split->nr_runners; i++) {
		struct uaio_work *work = &split->runners[i].work;

		work->device = split->req->work.device;
		work->crew = split->req->work.crew;
		uaio_wq_add(UAIO_BOUNDED, work, &handover);
	}
	uaio_flow->handover(&handover);
}

/* No segment is left: remove the runners that are still queued (I4). */
static void take_back(struct uaio_split *split)
{
	for (uint32_t i = 1; i < split->nr_runners; i++) {
		/*
		 * relaxed: an old count only causes needless calls, as uaio_wq_cancel()
		 * does not cancel a runner that has begun
		 */
		if (load_relaxed(&split->nr_begun) == split->nr_runners - 1)
			return;
		if (uaio_wq_cancel(UAIO_BOUNDED, &split->runners[i].work))
			uaio_split_refuse(&split->runners[i].work);
	}
}

/*
 * Execute segments of the request on this worker, which dequeued the request. Meanwhile
 * other workers execute other segments. After this function the request may be complete
 * and freed.
 */
static void execute_cut(struct uaio_split *split, struct uaio_worker *worker)
{
	queue_runners(split);
	execute_segments(&split->runners[0]);
	take_back(split);
	uaio_wq_returned(worker);
	put(split, worker);
}

static void execute_whole(struct uaio_req *req, const struct uaio_trial *trial,
			  struct uaio_worker *worker)
{
	int ioprio = req->sqe.ioprio, old_ioprio = -1;
	int64_t res;

	if (unlikely(ioprio))
		old_ioprio = uaio_thread_take_ioprio(ioprio);
	res = uaio_req_execute_by(req, worker);
	if (unlikely(ioprio))
		uaio_thread_give_ioprio(old_ioprio);
	uaio_tune_end(trial, res);
	uaio_wq_returned(worker);
	uaio_flow->complete(req, res, worker);
}

/*
 * Return: whether the write does not extend the file. The file may have become shorter
 * since the submission.
 */
static bool is_in_place(const struct uaio_file *file, int fd, uint64_t end)
{
	struct stat st;

	return file->flags & UAIO_FILE_F_BLOCKDEV ||
	       (sys_fstat(fd, &st) == 0 && end <= (uint64_t)st.st_size);
}

/*
 * A border between two segments is a position both in the file and in memory. So the
 * offset alignment and the memory alignment must both hold there.
 */
static bool is_aligned(struct uaio_alignment alignment,
		       const struct uaio_sqe *sqe, uint64_t bytes)
{
	/*
	 * An alignment of 1 means that the kernel does not use direct I/O for this
	 * file.
	 */
	if (alignment.offset == 1)
		return false;
	if (alignment.offset < alignment.memory)
		alignment.offset = alignment.memory;
	return uaio_is_aligned(&alignment, sqe) &&
	       !(bytes & (alignment.offset - 1));
}

static bool may_be_cut(const struct uaio_req *req, bool is_write,
		       uint64_t bytes)
{
	const struct uaio_sqe *sqe = &req->sqe;
	struct uaio_alignment alignment;
	bool may;
	int fd;

	if (sqe->rw_flags ||
	    (is_write &&
	     (req->order != UAIO_ORDER_WRITE_INPLACE ||
	      req->file->flags & (UAIO_FILE_F_APPEND | UAIO_FILE_F_SYNC))))
		return false;
	fd = uaio_file_use(req->file);
	uaio_alignment_of(req->file, fd, &alignment);
	may = is_aligned(alignment, sqe, bytes) &&
	      (!is_write ||
	       is_in_place(req->file, fd, (uint64_t)sqe->off + bytes));
	uaio_file_unuse(req->file);
	return may;
}

static bool is_large(const struct uaio_req *req, uint64_t *ret_bytes)
{
	enum uaio_op_class class = uaio_optab[req->sqe.op].class;

	if (!req->file || req->file->kind != UAIO_KIND_DIRECT ||
	    (class != UAIO_CLASS_READ && class != UAIO_CLASS_WRITE))
		return false;
	*ret_bytes = uaio_sqe_bytes(&req->sqe);
	if (*ret_bytes > UAIO_RW_BYTES_MAX)
		*ret_bytes = UAIO_RW_BYTES_MAX;
	return *ret_bytes >= UAIO_SPLIT_BYTES_MIN;
}

bool uaio_split_execute(struct uaio_req *req, struct uaio_worker *worker)
{
	bool is_write = uaio_optab[req->sqe.op].class == UAIO_CLASS_WRITE;
	struct uaio_split *split = NULL;
	struct uaio_trial trial;
	uint64_t bytes;
	unsigned at_once;

	if (likely(!is_large(req, &bytes)) || !may_be_cut(req, is_write, bytes))
		return false;
	uaio_req_note_start(req);
	at_once = uaio_tune_begin(req->file, is_write, bytes, &trial);
	if (at_once > 1)
		split = uaio_split_new(req, bytes, req->sqe.off, at_once);
	if (split) {
		split->trial = trial;
		execute_cut(split, worker);
	} else {
		execute_whole(req, &trial, worker);
	}
	return true;
}
