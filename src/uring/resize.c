/* SPDX-License-Identifier: MIT */
/*
 * Other sizes for a ring that there is (IORING_REGISTER_RESIZE_RINGS)
 *
 * As in the kernel the ring keeps its descriptor, its requests and what it has not
 * handed on, and its client maps it again. Its memory stays where it is (memmap.h, I6):
 * what is in the rings is taken out and put in anew, in the places of the new sizes.
 *
 *   I1  The thread holds the ring, so nobody submits meanwhile; and it has the queue's
 *       lock while it changes anything, so nobody posts. Waits are the thread's own: the
 *       ring is one with IORING_SETUP_DEFER_TASKRUN.
 *   I2  Either all of it is done or nothing, but that the client is told the sizes.
 *
 * Tested by test-uring-resize.c.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/sys.h"
#include "uring/calls.h"
#include "uring/register.h"
#include "uring/ring.h"
#include "uring/share.h"

enum {
	ASKED = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
	/* what stays of a ring's flags */
	KEPT = IORING_SETUP_NO_SQARRAY | IORING_SETUP_SQE128 |
	       IORING_SETUP_CQE32 | IORING_SETUP_CQE_MIXED,
};

/* One of the two rings: entries from first to end, so many bytes each. */
struct entries {
	char *at;
	size_t bytes;
	uint32_t old_mask, new_mask;
	uint32_t first, end;
};

/* Put all entries in their new places, by way of a copy. */
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
		/* relaxed: the client orders its own calls */
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
		/* relaxed: the client orders its own calls */
		.first = load_relaxed(&ring->mem.rings->cq_head),
		.end = uaio_uring_tail(ring),
	};
}

/* Under the queue's lock. Return: 0; -EOVERFLOW: the new rings are too small. */
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
	/* relaxed, both: guesses without the lock */
	store_relaxed(&ring->sq_entries, params->sq_entries);
	store_relaxed(&ring->cq_entries, params->cq_entries);
	return 0;
}

/* Return: 0; -ENOMEM, -EOVERFLOW. */
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

/* Read what the client asks for, and choose the sizes. Return: 0 or -errno. */
static int read_params(const struct uaio_uring *ring, const void *arg,
		       struct io_uring_params *ret_params)
{
	/* Memory of the client's would have to be let go while it is looked at. */
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
	 * A client goes by this when it maps the new rings: without the feature it would
	 * map the completions at IORING_OFF_CQ_RING, where our file has none (mmap.c).
	 */
	ret_params->features |= IORING_FEAT_SINGLE_MMAP;
	return uaio_uring_choose_sizes(ret_params, ret_params->sq_entries);
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
