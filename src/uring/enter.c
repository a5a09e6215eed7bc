/* SPDX-License-Identifier: MIT */
/*
 * io_uring_enter: submit, then wait
 *
 * Tested by test-uring.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "uring/abi.h"
#include "uring/calls.h"
#include "uring/cq.h"
#include "uring/ring.h"
#include "uring/share.h"
#include "uring/sq.h"
#include "uring/table.h"

enum {
	NS_PER_S = 1000000000,
	NS_PER_US = 1000,
	SIGSET_BYTES = 8, /* size of the kernel's sigset_t */
};

/* How long and under which signal mask a call waits. */
struct waiting {
	int64_t deadline_ns;
	int64_t min_wait_ns;
	uint64_t mask; /* the address of a signal mask, or 0 */
	uint32_t mask_bytes;
};

/*
 * Return: how many nanoseconds the ring's clock is ahead of CLOCK_MONOTONIC, the clock
 * by which threads sleep.
 */
static int64_t lead_of(const struct uaio_uring *ring)
{
	/* relaxed: a client that sets the clock in another thread orders both calls */
	int clock = (int)load_relaxed(&ring->clock);

	return likely(clock == CLOCK_MONOTONIC)
		       ? 0
		       : uaio_now_of(clock) - uaio_now_ns();
}

static int64_t deadline_of(const struct uaio_uring *ring,
			   const struct __kernel_timespec *ts, bool is_absolute)
{
	int64_t ns;

	if (__builtin_mul_overflow(ts->tv_sec, (int64_t)NS_PER_S, &ns) ||
	    __builtin_add_overflow(ns, (int64_t)ts->tv_nsec, &ns))
		return ts->tv_sec < 0 ? 1 : UAIO_FOREVER;
	if (is_absolute ? __builtin_sub_overflow(ns, lead_of(ring), &ns)
			: __builtin_add_overflow(ns, uaio_now_ns(), &ns))
		return ns < 0 ? UAIO_FOREVER : 1;
	return ns > 0 ? ns : 1;
}

/*
 * Read the wait's arguments from the ring's memory region (memmap.h).
 * Return: 0; -EINVAL: the ring has IOPOLL, or an argument is invalid; -EFAULT: the
 * arguments are outside the region.
 */
static int read_registered_arg(const struct uaio_uring *ring,
			       const struct uaio_uring_enter *call,
			       struct waiting *ret)
{
	struct uaio_uring_reg_wait arg;

	/*
	 * As in the kernel, waits on a ring with IOPOLL cannot have their arguments in
	 * a region.
	 */
	if (ring->setup & IORING_SETUP_IOPOLL || call->arg_bytes != sizeof(arg))
		return -EINVAL;
	if (uaio_uring_region_read(&ring->region, (uintptr_t)call->arg, &arg) <
	    0)
		return -EFAULT;
	if (arg.flags & ~(uint32_t)UAIO_URING_REG_WAIT_TIMES)
		return -EINVAL;
	ret->mask = arg.sigmask;
	ret->mask_bytes = arg.sigmask_bytes;
	ret->min_wait_ns = (int64_t)arg.min_wait_us * NS_PER_US;
	if (arg.flags & UAIO_URING_REG_WAIT_TIMES)
		ret->deadline_ns = deadline_of(
			ring, &arg.time, call->flags & IORING_ENTER_ABS_TIMER);
	return 0;
}

/*
 * Read the wait's arguments.
 * Return: 0; -EINVAL: an argument is invalid; -EFAULT: the arguments cannot be read.
 */
static int read_arg(const struct uaio_uring *ring,
		    const struct uaio_uring_enter *call, struct waiting *ret)
{
	struct uaio_uring_wait_arg arg;
	struct __kernel_timespec ts;

	*ret = (struct waiting){ .deadline_ns = UAIO_FOREVER };
	if (!(call->flags & IORING_ENTER_EXT_ARG)) {
		ret->mask = (uintptr_t)call->arg;
		ret->mask_bytes = (uint32_t)call->arg_bytes;
		return 0;
	}
	if (call->flags & IORING_ENTER_EXT_ARG_REG)
		return read_registered_arg(ring, call, ret);
	if (call->arg_bytes != sizeof(arg))
		return -EINVAL;
	if (uaio_uring_copy_in(&arg, (uintptr_t)call->arg, sizeof(arg)) < 0)
		return -EFAULT;
	ret->mask = arg.sigmask;
	ret->mask_bytes = arg.sigmask_bytes;
	ret->min_wait_ns = (int64_t)arg.min_wait_us * NS_PER_US;
	if (!arg.timeout)
		return 0;
	if (uaio_uring_copy_in(&ts, arg.timeout, sizeof(ts)) < 0)
		return -EFAULT;
	ret->deadline_ns =
		deadline_of(ring, &ts, call->flags & IORING_ENTER_ABS_TIMER);
	return 0;
}

/*
 * Move overflowed completions into the ring, and try the requests that wait for their
 * files to be ready.
 */
static void freshen(struct uaio_uring *ring, bool waits)
{
	if (unlikely(load_relaxed(&ring->first_over)))
		uaio_uring_flush_overflow(ring);
	uaio_queue_run(&ring->queue, waits);
}

/* Wait until `need` (cq.h) is met. Return: 0, or the error of uaio_queue_wait(). */
static int await(struct uaio_uring *ring, uint64_t need,
		 const struct uaio_wait *wait)
{
	int64_t span_ns = 0;
	int ret = 0;

	while (!uaio_uring_is_met(ring, need) && ret == 0) {
		freshen(ring, true);
		if (uaio_uring_is_met(ring, need))
			break;
		if (uaio_uring_is_shared(ring))
			ret = uaio_uring_share_wait(ring, need, wait, &span_ns);
		else
			ret = uaio_queue_wait(&ring->queue, ring->generation,
					      need, wait);
	}
	if (unlikely(load_relaxed(&ring->first_over)))
		uaio_uring_flush_overflow(ring);
	return ret;
}

/*
 * Wait at most min_ns until `need` is met. If no completion has arrived by then, and
 * the wait has a deadline, wait until this deadline for one completion.
 */
static int await_twice(struct uaio_uring *ring, uint64_t need, int64_t min_ns,
		       const struct uaio_wait *wait)
{
	const uint32_t tail = uaio_uring_tail(ring);
	struct uaio_wait first = *wait;
	int ret;

	first.deadline_ns = uaio_now_ns() + min_ns;
	if (first.deadline_ns > wait->deadline_ns)
		first.deadline_ns = wait->deadline_ns;
	ret = await(ring, need, &first);
	if (ret != -ETIMEDOUT || wait->deadline_ns == UAIO_FOREVER ||
	    uaio_uring_unread(ring) || uaio_uring_tail(ring) != tail)
		return ret;
	need = uaio_uring_progress_of(uaio_uring_timeouts_of(need), tail + 1);
	return await(ring, need, wait);
}

/*
 * Return: whether the ring's memory, where the client reads the tail, already has the
 * tail that ended the wait (cq.h, I5).
 */
static bool is_shown(const struct uaio_uring *ring)
{
	/*
	 * relaxed: the client itself acquires the tail before it reads completions
	 */
	return load_relaxed(&ring->mem.rings->cq_tail) == uaio_uring_tail(ring);
}

/*
 * Wait until the posting thread has written the new tail to the ring, where the client
 * reads it.
 */
static void have_shown(struct uaio_uring *ring)
{
	if (likely(is_shown(ring)))
		return;
	uaio_queue_lock(&ring->queue);
	uaio_queue_unlock(&ring->queue);
}

/*
 * Wait for nr completions. The caller uses the ring (ring.h, I4).
 * Return: 0; -ETIME, -EINTR, -ENOMEM; -EINVAL, -EFAULT: the signal mask is invalid;
 * -EBADF: the ring was closed.
 */
static int wait_for(struct uaio_uring *ring, uint32_t nr,
		    const struct waiting *waiting)
{
	struct uaio_wait wait = { .deadline_ns = waiting->deadline_ns };
	/* As in the kernel, timeouts that completed before the wait do not end it. */
	const uint64_t need = uaio_uring_need_of(ring, nr);
	uint64_t mask;
	int ret;

	freshen(ring, nr);
	if (uaio_uring_is_met(ring, need))
		return 0;
	if (waiting->mask) {
		if (waiting->mask_bytes != SIGSET_BYTES)
			return -EINVAL;
		if (uaio_uring_copy_in(&mask, waiting->mask, sizeof(mask)) < 0)
			return -EFAULT;
		wait.mask = &mask;
		wait.mask_bytes = SIGSET_BYTES;
	}
	ret = waiting->min_wait_ns
		      ? await_twice(ring, need, waiting->min_wait_ns, &wait)
		      : await(ring, need, &wait);
	if (ret == 0 || uaio_uring_unread(ring))
		return 0;
	return ret == -ETIMEDOUT ? -ETIME : ret == -EINVAL ? -EBADF : ret;
}

static int find(const struct uaio_uring_enter *call,
		struct uaio_uring **ret_ring)
{
	struct uaio_uring *ring;

	if (call->flags & IORING_ENTER_REGISTERED_RING) {
		if (call->fd >= UAIO_URING_RINGFDS_MAX ||
		    !uaio_uring_knows_thread())
			return -EINVAL;
		ring = uaio_uring_registered(call->fd);
		if (!ring)
			return -EBADF;
	} else {
		ring = uaio_uring_find(call->fd);
		if (unlikely(!ring))
			return sys_fcntl((int)call->fd, F_GETFD, 0) < 0
				       ? -EBADF
				       : -EOPNOTSUPP;
	}
	if (unlikely(!uaio_uring_is_here(ring)))
		ring = uaio_uring_adopt(call->fd, ring);
	if (unlikely(!ring))
		return -EOPNOTSUPP;
	*ret_ring = ring;
	return 0;
}

/*
 * Return: whether the descriptor of the call still belongs to `ring`. The caller holds
 * or uses the ring (ring.h, I2, I4).
 */
static bool is_still(const struct uaio_uring_enter *call,
		     const struct uaio_uring *ring)
{
	return call->flags & IORING_ENTER_REGISTERED_RING ||
	       uaio_uring_is_still(call->fd, ring);
}

static bool is_anothers(const struct uaio_uring *ring)
{
	const void *owner = load_relaxed(&ring->owner);

	return owner && owner != &uaio_entry;
}

/*
 * Submit all entries, in place of the kernel's SQPOLL thread. Continue after errors and
 * invalid indices. Another thread may add more entries meanwhile.
 */
static void submit_all(struct uaio_uring *ring)
{
	const uint32_t first = ring->sq_head;
	uint32_t before;

	do {
		before = ring->sq_head;
		(void)uaio_uring_submit(ring, UINT32_MAX);
	} while (ring->sq_head != before &&
		 ring->sq_head - first < ring->sq_entries);
}

/*
 * Submit the entries of the ring. The caller holds the ring (ring.h, I2).
 * Return: what io_uring_enter() returns if it does not wait.
 */
static long submit(struct uaio_uring *ring, const struct uaio_uring_enter *call)
{
	if (uaio_uring_is_shared(ring))
		uaio_uring_share_look(ring);
	if (unlikely(ring->setup & IORING_SETUP_SQPOLL)) {
		submit_all(ring);
		return call->to_submit;
	}
	return uaio_uring_submit(ring, call->to_submit);
}

/* Return: how many completions the call waits for. */
static uint32_t min_of(const struct uaio_uring *ring,
		       const struct uaio_uring_enter *call)
{
	/*
	 * relaxed: while another thread resizes the ring, the old or the new size will
	 * do
	 */
	const uint32_t nr_entries = load_relaxed(&ring->cq_entries);

	return call->min_complete < nr_entries ? call->min_complete
					       : nr_entries;
}

/*
 * Wait for completions. The caller uses the ring (ring.h, I4).
 * Return: the argument `submitted`; if that is 0, the result of the wait.
 */
static __attribute__((noinline)) long
get_events(struct uaio_uring *ring, const struct uaio_uring_enter *call,
	   long submitted)
{
	struct waiting waiting;
	int ret = 0;

	if (uaio_uring_is_shared(ring))
		uaio_uring_share_look(ring);
	if (ring->setup & IORING_SETUP_DEFER_TASKRUN && is_anothers(ring))
		ret = -EEXIST;
	if (ret == 0)
		ret = read_arg(ring, call, &waiting);
	if (ret == 0)
		ret = wait_for(ring, min_of(ring, call), &waiting);
	have_shown(ring);
	return submitted ? submitted : ret;
}

/*
 * Return: whether the call may return at once: it needs no wait, and need not try the
 * requests that wait for their files.
 */
static bool is_satisfied(const struct uaio_uring *ring,
			 const struct uaio_uring_enter *call)
{
	return call->min_complete && !call->arg &&
	       !load_relaxed(&ring->first_over) &&
	       uaio_uring_unread_at_most(ring) >= min_of(ring, call) &&
	       is_shown(ring);
}

long uaio_uring_do_enter(const struct uaio_uring_enter *call)
{
	bool submits, waits = call->flags & IORING_ENTER_GETEVENTS;
	struct uaio_uring *ring;
	long ret;

	if (unlikely(call->flags & ~(uint32_t)UAIO_URING_ENTER_FLAGS))
		return -EINVAL;
	ret = find(call, &ring);
	if (unlikely(ret < 0))
		return ret;
	if (unlikely(load_relaxed(&ring->is_disabled)))
		return -EBADFD;
	/* relaxed: a hint */
	if (waits && call->min_complete && !load_relaxed(&ring->has_waited))
		store_relaxed(&ring->has_waited, 1);
	submits = call->to_submit || ring->setup & IORING_SETUP_SQPOLL;
	if (submits) {
		/*
		 * With SQPOLL any thread may make this call, because in the kernel the
		 * SQPOLL thread would submit.
		 */
		if (unlikely(is_anothers(ring)) &&
		    !(ring->setup & IORING_SETUP_SQPOLL))
			return -EEXIST;
		if (unlikely(!uaio_uring_hold(ring)))
			return -EBADF;
		if (unlikely(!is_still(call, ring))) {
			uaio_uring_release(ring);
			return -EBADF;
		}
		ret = submit(ring, call);
		waits = waits && ret == call->to_submit &&
			!is_satisfied(ring, call);
	}
	if (waits && !uaio_uring_use(ring)) {
		waits = false;
		ret = ret ? ret : -EBADF;
	}
	if (submits)
		uaio_uring_release(ring);
	if (waits) {
		if (submits || is_still(call, ring))
			ret = get_events(ring, call, ret);
		else
			ret = -EBADF;
		uaio_uring_unuse(ring);
	}
	return ret;
}
