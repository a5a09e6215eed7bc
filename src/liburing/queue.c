/* SPDX-License-Identifier: MIT */
/* Submits requests, and waits for completions. Tested by test/uring/library.c. */
#include "liburing/liburing.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/check.h"
#include "host/host.h"

/* size of the signal set that the kernel uses */
enum { SIGSET_BYTES = 8 };

/* The user_data of timeout requests that this file itself submits. */
static const uint64_t OUR_TIMEOUT = UINT64_MAX;

struct __kernel_timespec;

UAIO_EXPORT int io_uring_enter2(unsigned fd, unsigned to_submit,
				unsigned min_complete, unsigned flags,
				sigset_t *mask, size_t bytes);
UAIO_EXPORT int io_uring_enter(unsigned fd, unsigned to_submit,
			       unsigned min_complete, unsigned flags,
			       sigset_t *mask);
UAIO_EXPORT int io_uring_submit(struct uaio_liburing *ring);
UAIO_EXPORT int io_uring_submit_and_wait(struct uaio_liburing *ring,
					 unsigned nr);
UAIO_EXPORT int io_uring_submit_and_get_events(struct uaio_liburing *ring);
UAIO_EXPORT int io_uring_get_events(struct uaio_liburing *ring);
UAIO_EXPORT int __io_uring_sqring_wait(struct uaio_liburing *ring);
UAIO_EXPORT int __io_uring_get_cqe(struct uaio_liburing *ring,
				   struct io_uring_cqe **ret_cqe,
				   unsigned to_submit, unsigned nr,
				   sigset_t *mask);
UAIO_EXPORT unsigned io_uring_peek_batch_cqe(struct uaio_liburing *ring,
					     struct io_uring_cqe **ret_cqes,
					     unsigned nr);
UAIO_EXPORT int io_uring_wait_cqes(struct uaio_liburing *ring,
				   struct io_uring_cqe **ret_cqe, unsigned nr,
				   struct __kernel_timespec *timeout,
				   sigset_t *mask);
UAIO_EXPORT int io_uring_wait_cqe_timeout(struct uaio_liburing *ring,
					  struct io_uring_cqe **ret_cqe,
					  struct __kernel_timespec *timeout);
UAIO_EXPORT int io_uring_wait_cqes_min_timeout(
	struct uaio_liburing *ring, struct io_uring_cqe **ret_cqe, unsigned nr,
	struct __kernel_timespec *timeout, unsigned min_us, sigset_t *mask);
UAIO_EXPORT int io_uring_submit_and_wait_timeout(
	struct uaio_liburing *ring, struct io_uring_cqe **ret_cqe, unsigned nr,
	struct __kernel_timespec *timeout, sigset_t *mask);
UAIO_EXPORT int io_uring_submit_and_wait_min_timeout(
	struct uaio_liburing *ring, struct io_uring_cqe **ret_cqe, unsigned nr,
	struct __kernel_timespec *timeout, unsigned min_us, sigset_t *mask);
UAIO_EXPORT int io_uring_submit_and_wait_reg(struct uaio_liburing *ring,
					     struct io_uring_cqe **ret_cqe,
					     unsigned nr, int reg_index);
UAIO_EXPORT int io_uring_set_iowait(struct uaio_liburing *ring, bool is_on);

static long enter(unsigned fd, unsigned to_submit, unsigned min_complete,
		  unsigned flags, const void *arg, size_t bytes)
{
	return uaio_host_uring_enter((const long[6]){
		fd, to_submit, min_complete, flags, (long)arg, (long)bytes });
}

int io_uring_enter2(unsigned fd, unsigned to_submit, unsigned min_complete,
		    unsigned flags, sigset_t *mask, size_t bytes)
{
	return (int)enter(fd, to_submit, min_complete, flags, mask, bytes);
}

int io_uring_enter(unsigned fd, unsigned to_submit, unsigned min_complete,
		   unsigned flags, sigset_t *mask)
{
	return (int)enter(fd, to_submit, min_complete, flags, mask,
			  SIGSET_BYTES);
}

int uaio_liburing_enter(const struct uaio_liburing *ring, uint32_t to_submit,
			uint32_t min_complete, uint32_t flags, const void *arg,
			size_t arg_bytes)
{
	flags |= ring->int_flags & UAIO_LIBURING_OF_ENTER;
	return (int)enter((unsigned)ring->enter_fd, to_submit, min_complete,
			  flags, arg, arg_bytes);
}

/*
 * The submission queue
 */

/*
 * Publish the prepared SQEs.
 * Return: how many SQEs are not yet consumed by the kernel, or by the library.
 */
static uint32_t show(struct uaio_liburing *ring)
{
	struct uaio_liburing_sq *sq = &ring->sq;
	uint32_t tail = sq->sqe_tail;

	if (sq->sqe_head != tail) {
		sq->sqe_head = tail;
		if (ring->flags & IORING_SETUP_SQPOLL)
			/*
			 * [MB:liburing-wakeup] seq_cst: the SQEs are written before
			 * this store. After it, needs_call() reads the flag
			 * NEED_WAKEUP. Pairs with needs_call().
			 */
			store_seq_cst(sq->ktail, tail);
		else
			/*
			 * [MB:liburing-sq] release: publishes the SQEs. Pairs with the
			 * acquire of the kernel, or of uaio_uring_submit().
			 */
			store_release(sq->ktail, tail);
	}
	/*
	 * relaxed: the number may be outdated at once, as an SQPOLL thread consumes
	 * SQEs
	 */
	return tail - load_relaxed(sq->khead);
}

/*
 * Return: whether io_uring_enter() must be called to submit nr SQEs. The flags for that
 * call are added to *flags.
 */
static bool needs_call(const struct uaio_liburing *ring, uint32_t nr,
		       uint32_t *flags)
{
	if (!nr)
		return false;
	if (!(ring->flags & IORING_SETUP_SQPOLL))
		return true;
	/*
	 * [MB:liburing-wakeup] seq_cst: this load of the flag comes after the store of
	 * the tail. Pairs with show().
	 */
	if (!(load_seq_cst(ring->sq.kflags) & IORING_SQ_NEED_WAKEUP))
		return false;
	*flags |= IORING_ENTER_SQ_WAKEUP;
	return true;
}

/*
 * Return: whether there may be completions that only a system call moves into the ring.
 */
static bool hides_cqes(const struct uaio_liburing *ring)
{
	const uint32_t hidden = IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN;

	return ring->flags & IORING_SETUP_IOPOLL ||
	       /*
	        * relaxed: the flags only decide whether to make the system call, which
	        * reads them again
	        */
	       load_relaxed(ring->sq.kflags) & hidden;
}

static int submit(struct uaio_liburing *ring, uint32_t nr_wait, bool gets)
{
	uint32_t nr = show(ring), flags = 0;
	bool needs = needs_call(ring, nr, &flags);

	if (gets || nr_wait || hides_cqes(ring)) {
		flags |= IORING_ENTER_GETEVENTS;
		needs = true;
	}
	return needs ? uaio_liburing_enter(ring, nr, nr_wait, flags, NULL,
					   SIGSET_BYTES)
		     : (int)nr;
}

int io_uring_submit(struct uaio_liburing *ring)
{
	return submit(ring, 0, false);
}

int io_uring_submit_and_wait(struct uaio_liburing *ring, unsigned nr)
{
	return submit(ring, nr, false);
}

int io_uring_submit_and_get_events(struct uaio_liburing *ring)
{
	return submit(ring, 0, true);
}

int io_uring_get_events(struct uaio_liburing *ring)
{
	return uaio_liburing_enter(ring, 0, 0, IORING_ENTER_GETEVENTS, NULL,
				   SIGSET_BYTES);
}

int __io_uring_sqring_wait(struct uaio_liburing *ring)
{
	return uaio_liburing_enter(ring, 0, 0, IORING_ENTER_SQ_WAIT, NULL,
				   SIGSET_BYTES);
}

int io_uring_set_iowait(struct uaio_liburing *ring, bool is_on)
{
	if (!(ring->features & U_FEAT_NO_IOWAIT))
		return -EOPNOTSUPP;
	if (is_on)
		ring->int_flags &= (uint8_t)~UAIO_LIBURING_NO_IOWAIT;
	else
		ring->int_flags |= UAIO_LIBURING_NO_IOWAIT;
	return 0;
}

/*
 * The completion queue
 */

static uint32_t nr_ready(const struct uaio_liburing_cq *cq)
{
	/*
	 * [MB:liburing-cq] acquire: the CQEs before the tail are visible. Pairs with
	 * the poster, which is the kernel or the library.
	 */
	return load_acquire(cq->ktail) - load_relaxed(cq->khead);
}

/* Return: the CQE n positions after the head. */
static struct io_uring_cqe *cqe_at(const struct uaio_liburing *ring, uint32_t n)
{
	uint32_t at = (load_relaxed(ring->cq.khead) + n) & ring->cq.mask;

	return &ring->cq.cqes[ring->flags & IORING_SETUP_CQE32 ? 2 * at : at];
}

/*
 * Return: how many slots of the ring the CQE fills: 1, or 2 for a large CQE
 * (IORING_CQE_F_32) of a CQE_MIXED ring.
 */
static uint32_t nr_slots(const struct io_uring_cqe *cqe)
{
	return cqe->flags & U_CQE_F_32 ? 2 : 1;
}

static void advance(struct uaio_liburing_cq *cq, uint32_t nr)
{
	/*
	 * [MB:liburing-cq] release: this thread has read the CQE. Pairs with the next
	 * poster.
	 */
	store_release(cq->khead, load_relaxed(cq->khead) + nr);
}

/*
 * Find the first CQE for the program, and count the ready slots from this CQE on. If
 * CQEs of this file's own timeouts, or padding (IORING_CQE_F_SKIP), come first, consume
 * them.
 * Return: 0 with *ret_cqe, which is NULL if there is no CQE; or the error with which
 * such a timeout has completed.
 */
static int peek(struct uaio_liburing *ring, struct io_uring_cqe **ret_cqe,
		uint32_t *ret_nr)
{
	bool has_timeouts = !(ring->features & IORING_FEAT_EXT_ARG);
	struct io_uring_cqe *cqe;
	uint32_t nr;
	int res;

	while ((nr = nr_ready(&ring->cq))) {
		bool fills;

		cqe = cqe_at(ring, 0);
		fills = cqe->flags & U_CQE_F_SKIP;
		if (likely(!fills &&
			   (!has_timeouts || cqe->user_data != OUR_TIMEOUT))) {
			*ret_cqe = cqe;
			*ret_nr = nr;
			return 0;
		}
		res = fills ? 0 : cqe->res;
		advance(&ring->cq, nr_slots(cqe));
		if (res < 0)
			return res;
	}
	*ret_cqe = NULL;
	*ret_nr = 0;
	return 0;
}

/*
 * Called when the program finds its CQ empty and does not wait. The program's last
 * system call, such as a write to a pipe, may have made a request ready. The kernel
 * would have completed this request by now. In a ring of the library, a thread of the
 * library would complete it only later. So this thread enters the ring to complete it.
 * A ring with DEFER_TASKRUN does not need this: there requests complete only when the
 * program itself calls io_uring_enter().
 */
static void complete_what_is_ready(const struct uaio_liburing *ring)
{
	bool is_registered = ring->int_flags & UAIO_LIBURING_OF_ENTER;

	if (!(ring->flags & IORING_SETUP_DEFER_TASKRUN) &&
	    uaio_host_uring_may_complete(ring->enter_fd, is_registered))
		(void)uaio_liburing_enter(ring, 0, 0, IORING_ENTER_GETEVENTS,
					  NULL, SIGSET_BYTES);
}

/* Arguments of an io_uring_enter() call that submits and waits. */
struct wait {
	uint32_t nr_submit;
	uint32_t nr_wait;
	uint32_t flags; /* flags of io_uring_enter() */
	/* the wait has a timeout */
	bool has_time;
	const void *arg;
	size_t arg_bytes;
};

/*
 * Return: whether io_uring_enter() must be called: to submit, to wait for completions,
 * or to move overflowed ones into the ring. *ret_flags: the flags of this call.
 */
static bool is_call_due(const struct uaio_liburing *ring,
			const struct wait *wait, uint32_t nr, bool fetches,
			uint32_t *ret_flags)
{
	bool waits = wait->nr_wait > nr || fetches;

	*ret_flags = waits ? IORING_ENTER_GETEVENTS | wait->flags : 0;
	return needs_call(ring, wait->nr_submit, ret_flags) || waits;
}

/*
 * Submit, and get the first CQE.
 * Return: how many SQEs the first io_uring_enter() call submitted; 0 if there was no
 * call; or -errno. On an error or a timeout *ret_cqe is NULL.
 */
static int get_cqe(struct uaio_liburing *ring, struct io_uring_cqe **ret_cqe,
		   struct wait wait)
{
	struct io_uring_cqe *cqe = NULL;
	uint32_t nr, flags;
	bool has_called = false, is_empty;
	int ret = 0, called, error;

	if (!wait.nr_wait && !wait.nr_submit && !nr_ready(&ring->cq))
		complete_what_is_ready(ring);
	for (;;) {
		error = peek(ring, &cqe, &nr);
		if (error < 0) {
			cqe = NULL;
			ret = error;
			break;
		}
		is_empty = !cqe && !wait.nr_wait && !wait.nr_submit;
		if (is_empty && (has_called || !hides_cqes(ring))) {
			ret = ret ? ret : -EAGAIN;
			break;
		}
		if (!is_call_due(ring, &wait, nr, is_empty, &flags))
			break;
		if (has_called && wait.has_time) {
			if (!cqe && !ret)
				ret = -ETIME;
			break;
		}
		called = uaio_liburing_enter(ring, wait.nr_submit, wait.nr_wait,
					     flags, wait.arg, wait.arg_bytes);
		if (called < 0) {
			ret = called;
			break;
		}
		wait.nr_submit -= (uint32_t)called;
		if (!has_called)
			ret = called;
		has_called = true;
		if (cqe)
			break;
	}
	if (ret_cqe)
		*ret_cqe = cqe;
	return ret;
}

int __io_uring_get_cqe(struct uaio_liburing *ring,
		       struct io_uring_cqe **ret_cqe, unsigned to_submit,
		       unsigned nr, sigset_t *mask)
{
	return get_cqe(ring, ret_cqe,
		       (struct wait){ .nr_submit = to_submit,
				      .nr_wait = nr,
				      .arg = mask,
				      .arg_bytes = SIGSET_BYTES });
}

/*
 * A CQE that fills two slots counts as one. Padding (IORING_CQE_F_SKIP) counts, too,
 * because the program later advances the head over all CQEs that it got here.
 */
unsigned io_uring_peek_batch_cqe(struct uaio_liburing *ring,
				 struct io_uring_cqe **ret_cqes, unsigned nr)
{
	uint32_t ready = nr_ready(&ring->cq), slot = 0, i = 0;

	if (!ready) {
		if (hides_cqes(ring))
			(void)io_uring_get_events(ring);
		else
			complete_what_is_ready(ring);
		ready = nr_ready(&ring->cq);
	}
	while (i < nr && slot < ready) {
		ret_cqes[i] = cqe_at(ring, slot);
		slot += nr_slots(ret_cqes[i++]);
	}
	return i;
}

/* Waiting with a timeout */

/* With IORING_FEAT_EXT_ARG: io_uring_enter() itself takes the timeout. */
static int wait_with_arg(struct uaio_liburing *ring,
			 struct io_uring_cqe **ret_cqe, struct wait wait,
			 const struct __kernel_timespec *timeout,
			 uint32_t min_us, const sigset_t *mask)
{
	const struct io_uring_getevents_arg arg = {
		.sigmask = (uintptr_t)mask,
		.sigmask_sz = SIGSET_BYTES,
		.min_wait_usec = min_us,
		.ts = (uintptr_t)timeout,
	};

	wait.flags = IORING_ENTER_EXT_ARG;
	wait.has_time = timeout;
	wait.arg = &arg;
	wait.arg_bytes = sizeof(arg);
	return get_cqe(ring, ret_cqe, wait);
}

static bool has_room(const struct uaio_liburing_sq *sq)
{
	/*
	 * [MB:liburing-sq] acquire: the SQEs before the head have been read. Pairs with
	 * the kernel or the library, which consumes the SQEs.
	 */
	return sq->sqe_tail - load_acquire(sq->khead) < sq->nr_entries;
}

/*
 * On older kernels (without IORING_FEAT_EXT_ARG): prepare and publish a timeout request
 * that also completes once nr requests have completed.
 * Return: how many SQEs to submit now, the timeout included; or -errno.
 */
static int prepare_timeout(struct uaio_liburing *ring, uint32_t nr,
			   const struct __kernel_timespec *timeout)
{
	struct uaio_liburing_sq *sq = &ring->sq;
	struct io_uring_sqe *sqe;
	int ret;

	if (!has_room(sq)) {
		ret = io_uring_submit(ring);
		if (ret < 0)
			return ret;
		if (!has_room(sq))
			return -EAGAIN;
	}
	sqe = (struct io_uring_sqe *)((char *)sq->sqes +
				      (sq->sqe_tail & sq->mask) *
					      (ring->flags & IORING_SETUP_SQE128
						       ? 128u
						       : 64u));
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_TIMEOUT;
	sqe->fd = -1;
	sqe->addr = (uintptr_t)timeout;
	sqe->len = 1;
	sqe->off = nr;
	sqe->user_data = OUR_TIMEOUT;
	sq->sqe_tail++;
	return (int)show(ring);
}

int io_uring_wait_cqes(struct uaio_liburing *ring,
		       struct io_uring_cqe **ret_cqe, unsigned nr,
		       struct __kernel_timespec *timeout, sigset_t *mask)
{
	int to_submit = 0;

	if (timeout && ring->features & IORING_FEAT_EXT_ARG)
		return wait_with_arg(ring, ret_cqe,
				     (struct wait){ .nr_wait = nr }, timeout, 0,
				     mask);
	if (timeout)
		to_submit = prepare_timeout(ring, nr, timeout);
	if (to_submit < 0)
		return to_submit;
	return __io_uring_get_cqe(ring, ret_cqe, (unsigned)to_submit, nr, mask);
}

int io_uring_wait_cqe_timeout(struct uaio_liburing *ring,
			      struct io_uring_cqe **ret_cqe,
			      struct __kernel_timespec *timeout)
{
	return io_uring_wait_cqes(ring, ret_cqe, 1, timeout, NULL);
}

int io_uring_submit_and_wait_timeout(struct uaio_liburing *ring,
				     struct io_uring_cqe **ret_cqe, unsigned nr,
				     struct __kernel_timespec *timeout,
				     sigset_t *mask)
{
	int to_submit;

	if (timeout && ring->features & IORING_FEAT_EXT_ARG)
		return wait_with_arg(ring, ret_cqe,
				     (struct wait){
					     .nr_submit = show(ring),
					     .nr_wait = nr,
				     },
				     timeout, 0, mask);
	to_submit =
		timeout ? prepare_timeout(ring, nr, timeout) : (int)show(ring);
	if (to_submit < 0)
		return to_submit;
	return __io_uring_get_cqe(ring, ret_cqe, (unsigned)to_submit, nr, mask);
}

int io_uring_wait_cqes_min_timeout(struct uaio_liburing *ring,
				   struct io_uring_cqe **ret_cqe, unsigned nr,
				   struct __kernel_timespec *timeout,
				   unsigned min_us, sigset_t *mask)
{
	if (!(ring->features & U_FEAT_MIN_TIMEOUT))
		return -EINVAL;
	return wait_with_arg(ring, ret_cqe, (struct wait){ .nr_wait = nr },
			     timeout, min_us, mask);
}

int io_uring_submit_and_wait_min_timeout(struct uaio_liburing *ring,
					 struct io_uring_cqe **ret_cqe,
					 unsigned nr,
					 struct __kernel_timespec *timeout,
					 unsigned min_us, sigset_t *mask)
{
	if (!(ring->features & U_FEAT_MIN_TIMEOUT))
		return -EINVAL;
	return wait_with_arg(
		ring, ret_cqe,
		(struct wait){ .nr_submit = show(ring), .nr_wait = nr },
		timeout, min_us, mask);
}

/* Wait; the timeout and signal mask are in a registered memory region. */
int io_uring_submit_and_wait_reg(struct uaio_liburing *ring,
				 struct io_uring_cqe **ret_cqe, unsigned nr,
				 int reg_index)
{
	enum { REG_WAIT_BYTES = 64 };

	if (!(ring->features & IORING_FEAT_EXT_ARG))
		return -EINVAL;
	return get_cqe(
		ring, ret_cqe,
		(struct wait){
			.nr_submit = show(ring),
			.nr_wait = nr,
			.flags = IORING_ENTER_EXT_ARG | U_ENTER_EXT_ARG_REG,
			.has_time = true,
			.arg = (const void *)((intptr_t)reg_index *
					      REG_WAIT_BYTES),
			.arg_bytes = REG_WAIT_BYTES,
		});
}
