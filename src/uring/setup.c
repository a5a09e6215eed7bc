/* SPDX-License-Identifier: MIT */
/*
 * io_uring_setup: checks arguments in the kernel's order, and chooses the sizes of a
 * ring; also resizes rings
 *
 * Tested by test-uring-setup.c and test-uring-resize.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "uring/abi.h"
#include "uring/calls.h"
#include "uring/cq.h"
#include "uring/ring.h"
#include "uring/share.h"
#include "uring/table.h"

static int check_flags(uint32_t flags)
{
	const uint32_t no_sqpoll = IORING_SETUP_COOP_TASKRUN |
				   IORING_SETUP_TASKRUN_FLAG |
				   IORING_SETUP_DEFER_TASKRUN;

	if (flags & ~(uint32_t)UAIO_URING_SETUP_FLAGS)
		return -EINVAL;
	if (flags & IORING_SETUP_SQPOLL && flags & no_sqpoll)
		return -EINVAL;
	if (flags & IORING_SETUP_TASKRUN_FLAG &&
	    !(flags & (IORING_SETUP_COOP_TASKRUN | IORING_SETUP_DEFER_TASKRUN)))
		return -EINVAL;
	if (flags & IORING_SETUP_REGISTERED_FD_ONLY &&
	    !(flags & IORING_SETUP_NO_MMAP))
		return -EINVAL;
	if (flags & IORING_SETUP_CQE_MIXED && flags & IORING_SETUP_CQE32)
		return -EINVAL;
	if (flags & IORING_SETUP_HYBRID_IOPOLL &&
	    !(flags & IORING_SETUP_IOPOLL))
		return -EINVAL;
	return flags & IORING_SETUP_DEFER_TASKRUN &&
			       !(flags & IORING_SETUP_SINGLE_ISSUER)
		       ? -EINVAL
		       : 0;
}

/* Return: n rounded up to a power of two; n is at most 2^31. */
static uint32_t power_from(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

/* Return: 0; -EOVERFLOW: the ring is too small for a 32-byte completion. */
static int check_cq_entries(const struct io_uring_params *params)
{
	return params->flags & IORING_SETUP_CQE_MIXED && params->cq_entries < 2
		       ? -EOVERFLOW
		       : 0;
}

/*
 * If *nr is above max, set it to max.
 * Return: 0; -EINVAL: *nr is 0, or above max without IORING_SETUP_CLAMP.
 */
static int limit(uint32_t *nr, uint32_t max, uint32_t flags)
{
	if (!*nr)
		return -EINVAL;
	if (*nr <= max)
		return 0;
	*nr = max;
	return flags & IORING_SETUP_CLAMP ? 0 : -EINVAL;
}

/*
 * Choose the ring's sizes from params.
 * Return: 0; -EINVAL: a size is 0 or too large, or the CQ is smaller than the SQ;
 * -EOVERFLOW: IORING_SETUP_CQE_MIXED with room for fewer than 2 completions.
 */
static int choose_sizes(struct io_uring_params *params, uint32_t nr_entries)
{
	int ret = limit(&nr_entries, UAIO_URING_SQ_ENTRIES_MAX, params->flags);

	if (ret < 0)
		return ret;
	params->sq_entries = power_from(nr_entries);
	if (!(params->flags & IORING_SETUP_CQSIZE)) {
		params->cq_entries = 2 * params->sq_entries;
		return 0;
	}
	ret = limit(&params->cq_entries, UAIO_URING_CQ_ENTRIES_MAX,
		    params->flags);
	if (ret < 0)
		return ret;
	params->cq_entries = power_from(params->cq_entries);
	return params->cq_entries < params->sq_entries
		       ? -EINVAL
		       : check_cq_entries(params);
}

/* Return: whether this thread may run on processor nr. */
static bool is_processor(uint32_t nr)
{
	uint64_t mask[64] = { 0 };
	int bytes = sys_sched_getaffinity(0, sizeof(mask), mask);

	if (bytes < 0)
		return nr == 0;
	return nr < 64 * sizeof(mask) / 8 && mask[nr / 64] >> nr % 64 & 1;
}

/*
 * Check IORING_SETUP_ATTACH_WQ and IORING_SETUP_SQ_AFF. They change nothing: rings of
 * the library share workers anyway, and the library emulates SQPOLL.
 */
static int check_offload(const struct io_uring_params *params)
{
	const uint32_t flags = params->flags;

	if (flags & IORING_SETUP_ATTACH_WQ) {
		struct uaio_uring *other = uaio_uring_ask(params->wq_fd);

		/* Only check wq_fd: the library's rings share workers anyway. */
		if (!other && !uaio_uring_is_kernels_ring(params->wq_fd))
			return sys_fcntl((int)params->wq_fd, F_GETFD, 0) < 0
				       ? -ENXIO
				       : -EINVAL;
		if (other && flags & IORING_SETUP_SQPOLL &&
		    !(other->setup & IORING_SETUP_SQPOLL))
			return -EINVAL;
	}
	if (!(flags & IORING_SETUP_SQ_AFF))
		return 0;
	return flags & IORING_SETUP_SQPOLL &&
			       is_processor(params->sq_thread_cpu)
		       ? 0
		       : -EINVAL;
}

int uaio_uring_check_params(uint32_t nr_entries, struct io_uring_params *params)
{
	static const uint32_t zero[3];
	int ret;

	if (memcmp(params->resv, zero, sizeof(params->resv)))
		return -EINVAL;
	ret = check_flags(params->flags);
	if (ret == 0)
		ret = choose_sizes(params, nr_entries);
	return ret;
}

int uaio_uring_make(struct io_uring_params *params)
{
	struct uaio_uring *ring;
	int ret = check_offload(params);

	if (ret < 0)
		return ret;
	ret = uaio_uring_new(params, &ring);
	if (ret < 0)
		return ret;
	uaio_uring_meet_thread();
	params->features = UAIO_URING_FEATURES;
	return ret;
}

/*
 * Resizing a ring (IORING_REGISTER_RESIZE_RINGS)
 *
 * As in the kernel, the ring keeps its descriptor, its requests and its unread entries,
 * and the client maps the ring again. The memory stays in place (memmap.h, I6): entries
 * are copied out, and written back to their slots in the ring of the new size.
 *
 *   I1  The thread holds the ring, so no thread submits meanwhile. It holds the queue's
 *       lock for each change, so no thread posts meanwhile. The ring has
 *       IORING_SETUP_DEFER_TASKRUN, so only this thread waits for its completions.
 *   I2  The resize is done completely or not at all; but on failure the client's params
 *       may already have the new sizes.
 */

enum {
	ASKED = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
	/* flags of the ring that a resize does not change */
	KEPT = IORING_SETUP_NO_SQARRAY | IORING_SETUP_SQE128 |
	       IORING_SETUP_CQE32 | IORING_SETUP_CQE_MIXED,
};

/*
 * The entries of the SQ or CQ ring, from `first` to `end` - 1. Each has `bytes` bytes.
 */
struct entries {
	char *at;
	size_t bytes;
	uint32_t old_mask, new_mask;
	uint32_t first, end;
};

/*
 * Move all entries to their slots in the ring of the new size. `copy` is memory for a
 * copy of them.
 */
static void move(const struct entries *entries, char *copy)
{
	const uint32_t nr = entries->end - entries->first;
	const size_t bytes = entries->bytes;

	for (uint32_t i = 0; i < nr; i++)
		memcpy(copy + i * bytes,
		       entries->at +
			       ((entries->first + i) & entries->old_mask) *
				       bytes,
		       bytes);
	for (uint32_t i = 0; i < nr; i++)
		memcpy(entries->at +
			       ((entries->first + i) & entries->new_mask) *
				       bytes,
		       copy + i * bytes, bytes);
}

static bool do_fit(const struct entries *entries)
{
	return entries->end - entries->first <= entries->new_mask + 1;
}

static struct entries submissions(const struct uaio_uring *ring,
				  const struct io_uring_params *params)
{
	const uint32_t shift = ring->mem.sqe_shift;

	return (struct entries){
		.at = (char *)ring->mem.sqes,
		.bytes = sizeof(struct io_uring_sqe) << shift,
		.old_mask = ring->sq_entries - 1,
		.new_mask = params->sq_entries - 1,
		.first = ring->sq_head,
		/*
		 * relaxed: if another thread of the client stores this word, the client
		 * orders that store and this call
		 */
		.end = load_relaxed(&ring->mem.rings->sq_tail),
	};
}

static struct entries completions(const struct uaio_uring *ring,
				  const struct io_uring_params *params)
{
	const uint32_t shift = ring->mem.cqe_shift;

	return (struct entries){
		.at = (char *)ring->mem.rings->cqes,
		.bytes = sizeof(struct io_uring_cqe) << shift,
		.old_mask = ring->cq_entries - 1,
		.new_mask = params->cq_entries - 1,
		/*
		 * relaxed: if another thread of the client stores this word, the client
		 * orders that store and this call
		 */
		.first = load_relaxed(&ring->mem.rings->cq_head),
		.end = uaio_uring_tail(ring),
	};
}

/*
 * Resize. Caller holds the queue's lock. Return: 0; -EOVERFLOW: the entries of the ring
 * do not fit into the new sizes.
 */
static int resize_locked(struct uaio_uring *ring,
			 const struct io_uring_params *params, char *copy)
{
	const struct entries sqes = submissions(ring, params);
	const struct entries cqes = completions(ring, params);

	if (!do_fit(&sqes) || !do_fit(&cqes) ||
	    !uaio_uring_may_move_cqes(ring, cqes.new_mask))
		return -EOVERFLOW;
	move(&sqes, copy);
	move(&cqes, copy);
	uaio_uring_mem_resize(&ring->mem, params);
	/* relaxed, both: threads without the lock need only a guess */
	store_relaxed(&ring->sq_entries, params->sq_entries);
	store_relaxed(&ring->cq_entries, params->cq_entries);
	return 0;
}

/*
 * Resize the ring.
 * Return: 0; -ENOMEM; -EOVERFLOW: the entries of the ring do not fit.
 */
static int resize(struct uaio_uring *ring, const struct io_uring_params *params)
{
	const size_t sqes_bytes =
		(params->sq_entries * sizeof(struct io_uring_sqe))
		<< ring->mem.sqe_shift;
	const size_t cqes_bytes =
		(params->cq_entries * sizeof(struct io_uring_cqe))
		<< ring->mem.cqe_shift;
	const size_t bytes = sqes_bytes > cqes_bytes ? sqes_bytes : cqes_bytes;
	char *copy = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS);
	bool is_shared;
	int ret;

	if (sys_is_map_error(copy))
		return -ENOMEM;
	uaio_queue_lock(&ring->queue);
	is_shared = uaio_uring_is_shared(ring);
	if (unlikely(is_shared))
		uaio_uring_share_begin(ring);
	ret = resize_locked(ring, params, copy);
	if (unlikely(is_shared))
		uaio_uring_share_end(ring);
	uaio_queue_unlock(&ring->queue);
	(void)sys_munmap(copy, bytes);
	return ret;
}

/* Read the client's params, and choose the sizes. Return: 0, or the error of params. */
static int read_params(const struct uaio_uring *ring, const void *arg,
		       struct io_uring_params *ret_params)
{
	/*
	 * With NO_MMAP the ring is in the client's memory, which has no room for a
	 * larger ring.
	 */
	if (!(ring->setup & IORING_SETUP_DEFER_TASKRUN) ||
	    ring->setup & IORING_SETUP_NO_MMAP)
		return -EINVAL;
	if (uaio_uring_copy_in(ret_params, (uintptr_t)arg,
			       sizeof(*ret_params)) < 0)
		return -EFAULT;
	if (ret_params->flags & ~(uint32_t)ASKED)
		return -EINVAL;
	ret_params->flags |= ring->setup & KEPT;
	/*
	 * With IORING_FEAT_SINGLE_MMAP, clients map both new rings by one mmap() at
	 * IORING_OFF_SQ_RING. Without this flag they would also map IORING_OFF_CQ_RING,
	 * where the library's file has no completions (host/mmap.c).
	 */
	ret_params->features |= IORING_FEAT_SINGLE_MMAP;
	return choose_sizes(ret_params, ret_params->sq_entries);
}

long uaio_uring_resize(struct uaio_uring *ring, void *arg, uint32_t nr)
{
	struct io_uring_params params;
	struct uaio_uring_mem resized;
	int ret;

	if (!arg || nr != 1)
		return -EINVAL;
	ret = read_params(ring, arg, &params);
	if (ret < 0)
		return ret;
	if (!uaio_uring_mem_has_room(&ring->mem, &params))
		return -ENOMEM;
	resized = uaio_uring_mem_resized(&ring->mem, &params);
	uaio_uring_mem_tell(&resized, &params);
	if (uaio_uring_copy_out((uintptr_t)arg, &params, sizeof(params)) < 0)
		return -EFAULT;
	return resize(ring, &params);
}
