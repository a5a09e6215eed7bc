/* SPDX-License-Identifier: MIT */
/*
 * io_uring_setup: checks, in the kernel's order
 *
 * Tested by test-uring-setup.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/sys.h"
#include "base/uaddr.h"
#include "uring/calls.h"
#include "uring/ring.h"
#include "uring/served.h"
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

/* Return: 0; -EOVERFLOW: one of two places has no room in it. */
static int check_cq_entries(const struct io_uring_params *params)
{
	return params->flags & IORING_SETUP_CQE_MIXED && params->cq_entries < 2
		       ? -EOVERFLOW
		       : 0;
}

/* Cut nr, where that is allowed. Return: 0 or -EINVAL. */
static int limit(uint32_t *nr, uint32_t max, uint32_t flags)
{
	if (!*nr)
		return -EINVAL;
	if (*nr <= max)
		return 0;
	*nr = max;
	return flags & IORING_SETUP_CLAMP ? 0 : -EINVAL;
}

int uaio_uring_choose_sizes(struct io_uring_params *params, uint32_t nr_entries)
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

/* Return: whether the processor exists and is in use. */
static bool is_processor(uint32_t nr)
{
	uint64_t mask[64] = { 0 };
	int bytes = sys_sched_getaffinity(0, sizeof(mask), mask);

	if (bytes < 0)
		return nr == 0;
	return nr < 64 * sizeof(mask) / 8 && mask[nr / 64] >> nr % 64 & 1;
}

/* The thread that polls, which there is none of, and the rings that share one. */
static int check_offload(const struct io_uring_params *params)
{
	const uint32_t flags = params->flags;

	if (flags & IORING_SETUP_ATTACH_WQ) {
		struct uaio_uring *other = uaio_uring_ask(params->wq_fd);

		/* The library's rings share workers anyway. */
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
		ret = uaio_uring_choose_sizes(params, nr_entries);
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
