/* SPDX-License-Identifier: MIT */
#include "engine/direct.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/thread.h"
#include "engine/align.h"
#include "engine/req.h"
#include "engine/stats.h"
#include "engine/width.h"

enum {
	IOVS_MAX = 1024, /* as many as a request may have */

	RWF_NOAPPEND_ = 0x20, /* newer than the headers of many a machine */

	/* direct->stop: the segment, and below it its result. */
	STOP_SHIFT = 32,
	STOP_IS_ERROR = 1u << 31,
};

static struct uaio_slab slab;

void uaio_direct_init(void)
{
	uaio_slab_init(&slab, sizeof(struct uaio_direct), 65536);
	uaio_widths_init();
}

/*
 * Cutting
 */

struct uaio_direct *uaio_direct_new(struct uaio_req *req, uint64_t bytes,
				    int64_t off, unsigned nr_slots)
{
	struct uaio_direct *direct = uaio_slab_get(&slab);
	uint64_t in_first = (uint64_t)off % UAIO_SEGMENT_BYTES;

	if (!direct)
		return NULL;
	uaio_direct_clear(direct);
	direct->req = req;
	direct->bytes = bytes;
	direct->first_bytes = UAIO_SEGMENT_BYTES - in_first;
	direct->nr_segments =
		(uint32_t)((in_first + bytes + UAIO_SEGMENT_BYTES - 1) /
			   UAIO_SEGMENT_BYTES);
	uaio_direct_begin(direct, nr_slots < direct->nr_segments
					  ? nr_slots
					  : direct->nr_segments);
	return direct;
}

/* Return: where a segment begins, in the request's bytes. */
static uint64_t begin_of(const struct uaio_direct *direct, uint32_t segment)
{
	return !segment ? 0
			: direct->first_bytes +
				  (uint64_t)(segment - 1) * UAIO_SEGMENT_BYTES;
}

static void fill_slot(struct uaio_slot *slot, uint32_t segment)
{
	const struct uaio_direct *direct = slot->direct;
	uint64_t end = begin_of(direct, segment + 1);

	slot->begin = begin_of(direct, segment);
	if (end > direct->bytes)
		end = direct->bytes;
	slot->bytes = (uint32_t)(end - slot->begin);
}

/* Return: the number of vectors that are the part [begin, begin + bytes). */
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
 * Making
 */

/*
 * What was submitted to its place goes there, also if O_APPEND is set meanwhile,
 * through a duplicate or by another process. (RWF_NOAPPEND; Linux 6.9 knows it.)
 */
static int64_t make_write(struct uaio_req *req, struct uaio_sqe *part)
{
	static uint32_t is_unknown; /* atomic: the kernel knows no NOAPPEND */
	int64_t res;

	/* relaxed: who does not know it yet finds out */
	if (unlikely(load_relaxed(&is_unknown)))
		return uaio_req_make_part(req, part);
	part->rw_flags = RWF_NOAPPEND_;
	res = uaio_req_make_part(req, part);
	if (likely(res != -EOPNOTSUPP))
		return res;
	part->rw_flags = 0; /* as was asked: requests with flags are not cut */
	res = uaio_req_make_part(req, part);
	if (res != -EOPNOTSUPP)
		store_relaxed(&is_unknown, 1);
	return res;
}

static int64_t make_segment(const struct uaio_slot *slot)
{
	struct uaio_req *req = slot->direct->req;
	struct iovec iov[IOVS_MAX]; /* not cleared, either */
	struct uaio_sqe part = req->sqe;

	part.off += (int64_t)slot->begin;
	if (uaio_optab[part.op].is_vectored) {
		part.len = cut_iovs(&req->sqe, slot->begin, slot->bytes, iov);
		part.iov = iov;
	} else {
		part.buf = (char *)part.buf + slot->begin;
		part.len = slot->bytes;
	}
	return uaio_optab[part.op].class == UAIO_CLASS_WRITE
		       ? make_write(req, &part)
		       : uaio_req_make_part(req, &part);
}

/* The first in the file is what counts, whenever it is found. */
static void note_stop(struct uaio_direct *direct, uint32_t segment, int64_t res)
{
	uint64_t seen = 0;
	uint64_t stop =
		(uint64_t)(segment + 1) << STOP_SHIFT |
		(res < 0 ? STOP_IS_ERROR | (uint32_t)-res : (uint32_t)res);

	/* relaxed: the last reference is dropped after it */
	while (!cas_relaxed(&direct->stop, &seen, stop))
		if (seen && seen < stop)
			return;
}

/* Return: whether there was a segment to be given out, which slot has now. */
static bool take_segment(struct uaio_slot *slot, uint32_t *ret_segment)
{
	struct uaio_direct *direct = slot->direct;

	/* relaxed, both: each has what it is given for itself */
	if (load_relaxed(&direct->stop))
		return false;
	*ret_segment = add_relaxed(&direct->next, 1);
	if (*ret_segment >= direct->nr_segments)
		return false;
	fill_slot(slot, *ret_segment);
	return true;
}

static void make_segments(struct uaio_slot *slot)
{
	int ioprio = slot->direct->req->sqe.ioprio, old_ioprio = -1;
	uint32_t segment;

	if (unlikely(ioprio))
		old_ioprio = uaio_thread_take_ioprio(ioprio);
	while (take_segment(slot, &segment)) {
		int64_t res = make_segment(slot);

		if (res != slot->bytes)
			note_stop(slot->direct, segment, res);
	}
	if (unlikely(ioprio))
		uaio_thread_give_ioprio(old_ioprio);
}

/*
 * Completing
 */

static int64_t result_of(const struct uaio_direct *direct)
{
	/* relaxed: behind the last reference */
	uint64_t stop = load_relaxed(&direct->stop);
	uint32_t res = (uint32_t)stop;
	uint64_t begin;

	if (likely(!stop))
		return (int64_t)direct->bytes;
	begin = begin_of(direct, (uint32_t)(stop >> STOP_SHIFT) - 1);
	if (!(res & STOP_IS_ERROR))
		return (int64_t)(begin + res);
	return begin ? (int64_t)begin
		     : -(int64_t)(res & ~(uint32_t)STOP_IS_ERROR);
}

static void count(const struct uaio_direct *direct)
{
	uint32_t nr = load_relaxed(&direct->next);

	uaio_stats_direct(UAIO_DIRECT_CUT, 1);
	uaio_stats_direct(UAIO_DIRECT_SEGMENTS,
			  nr < direct->nr_segments ? nr : direct->nr_segments);
}

/* worker: whose reference it was, or NULL. */
static void put(struct uaio_direct *direct, struct uaio_worker *worker)
{
	struct uaio_req *req = direct->req;
	int64_t res;

	/* [MB:direct] release: what was made and noted. Pairs with the load. */
	if (sub_release(&direct->refs, 1) != 1)
		return;
	/* [MB:direct] acquire: what all have made and noted. */
	UAIO_CHECK(load_acquire(&direct->refs) == 0);
	res = result_of(direct);
	count(direct);
	uaio_width_tell(&direct->trial, res);
	uaio_slab_put(&slab, direct);
	uaio_req_complete_by(req, res, false, worker);
}

void uaio_direct_run(struct uaio_work *work, struct uaio_worker *worker)
{
	struct uaio_slot *slot = container_of(work, struct uaio_slot, work);
	struct uaio_direct *direct = slot->direct;

	add_relaxed(&direct->nr_begun, 1);
	make_segments(slot);
	uaio_wq_returned(worker);
	put(direct, worker);
}

void uaio_direct_refuse(struct uaio_work *work)
{
	struct uaio_slot *slot = container_of(work, struct uaio_slot, work);

	add_relaxed(&slot->direct->nr_begun, 1);
	put(slot->direct, NULL);
}

void uaio_direct_refuse_all(struct list *works)
{
	list_for_each_safe (pos, works) {
		struct uaio_work *work =
			container_of(pos, struct uaio_work, link);

		if (likely(!work->is_part))
			continue;
		list_remove(pos);
		uaio_direct_refuse(work);
	}
}

/*
 * Starting
 */

static void queue_slots(struct uaio_direct *direct)
{
	struct uaio_kick kick;

	uaio_kick_init(&kick);
	for (uint32_t i = 1; i < direct->nr_slots; i++)
		uaio_wq_add(UAIO_BOUNDED, &direct->slots[i].work, &kick);
	uaio_req_kick(&kick);
}

/* Slots that nobody came to: nothing is left for them (I4). */
static void take_back(struct uaio_direct *direct)
{
	for (uint32_t i = 1; i < direct->nr_slots; i++) {
		/* relaxed: a guess; those that have begun are not found */
		if (load_relaxed(&direct->nr_begun) == direct->nr_slots - 1)
			return;
		if (uaio_wq_cancel(UAIO_BOUNDED, &direct->slots[i].work))
			uaio_direct_refuse(&direct->slots[i].work);
	}
}

/* The starter's part. Its request may be complete, and gone, when it is done. */
static void make_cut(struct uaio_direct *direct, struct uaio_worker *worker)
{
	queue_slots(direct);
	make_segments(&direct->slots[0]);
	take_back(direct);
	uaio_wq_returned(worker);
	put(direct, worker);
}

static void make_whole(struct uaio_req *req, const struct uaio_trial *trial,
		       struct uaio_worker *worker)
{
	int ioprio = req->sqe.ioprio, old_ioprio = -1;
	int64_t res;

	if (unlikely(ioprio))
		old_ioprio = uaio_thread_take_ioprio(ioprio);
	res = uaio_req_make_by(req, worker);
	if (unlikely(ioprio))
		uaio_thread_give_ioprio(old_ioprio);
	uaio_width_tell(trial, res);
	uaio_wq_returned(worker);
	uaio_req_complete_by(req, res, false, worker);
}

/* Whether it is in place was asked when it was submitted; files shrink. */
static bool is_in_place(const struct uaio_file *file, int fd, uint64_t end)
{
	struct stat st;

	return file->flags & UAIO_FILE_F_BLOCKDEV ||
	       (sys_fstat(fd, &st) == 0 && end <= (uint64_t)st.st_size);
}

/* A piece begins in a buffer where one begins in the file, and ends so. */
static bool is_aligned(struct uaio_alignment alignment,
		       const struct uaio_sqe *sqe, uint64_t bytes)
{
	/* Where anything is taken it is not direct I/O that is made of it. */
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
	return *ret_bytes >= UAIO_DIRECT_BYTES_MIN;
}

bool uaio_direct_make(struct uaio_req *req, struct uaio_worker *worker)
{
	bool is_write = uaio_optab[req->sqe.op].class == UAIO_CLASS_WRITE;
	struct uaio_direct *direct = NULL;
	struct uaio_trial trial;
	uint64_t bytes;
	unsigned width;

	if (likely(!is_large(req, &bytes)) || !may_be_cut(req, is_write, bytes))
		return false;
	if (unlikely(uaio_config.has_stats))
		req->started = uaio_cycles();
	width = uaio_width_of(req->file, is_write, bytes, &trial);
	if (width > 1)
		direct = uaio_direct_new(req, bytes, req->sqe.off, width);
	if (direct) {
		direct->trial = trial;
		make_cut(direct, worker);
	} else {
		make_whole(req, &trial, worker);
	}
	return true;
}
