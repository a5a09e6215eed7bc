/* SPDX-License-Identifier: MIT */
/*
 * FUTEX_WAKE, FUTEX_WAIT and FUTEX_WAITV
 *
 * Before it waits, the library finds out whether the wait would end at once, or fail.
 * For this it calls the kernel with a timeout in the past. A wake-up that comes during
 * this call ends the request, as a later wake-up would.
 *
 * Tested by uring/test-uring-futex.c.
 */
#include <errno.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <string.h>

#include "base/asked.h"
#include "base/check.h"
#include "base/newer.h"
#include "op/args.h"
#include "op/rows.h"
#include "op/sleeper.h"

/*
 * Flags of futex_waitv() that older headers lack. NUMA, MPOL: the futex belongs to a NUMA
 * node.
 */
enum { SIZE_U32 = 2, NUMA = 4, MPOL = 8, PRIVATE = 128 };

/*
 * NR_OWN: the library's own futexes in a call (sleeper.h): `end`, before the client's, and
 * `last`, after them. NR_MAX: the most futexes of a call.
 */
enum { NR_OWN = 2, NR_MAX = UAIO_FUTEXES_MAX + NR_OWN };

static struct uaio_futex_waitv own_of(uint32_t *word)
{
	return (struct uaio_futex_waitv){
		.uaddr = (uintptr_t)word,
		.flags = SIZE_U32 | PRIVATE,
	};
}

/*
 * Call futex_waitv() with a timeout in the past, so that it does not wait.
 * Return: as for futex_waitv(); UAIO_OP_BLOCKS: the call would wait.
 */
static int64_t try(const struct uaio_args *args, const void *futexes,
		   uint32_t nr)
{
	const struct timespec past = { .tv_nsec = 1 };
	int64_t res = sys_futex_waitv(futexes, nr, &past);

	if (res != -ETIMEDOUT)
		return res;
	uaio_sleeper_move(args->sleeper, UAIO_SLEEPER_SENT);
	return UAIO_OP_BLOCKS;
}

/*
 * Called by a worker: wait on the futexes. all[1] to all[nr] are the client's; this
 * function fills in all[0] and all[nr + 1], the sleeper's.
 * Return: the index of the client's futex that was woken; -ECANCELED if another thread
 * ended the wait; another error of the call.
 */
static int64_t sleep_on(struct uaio_sleeper *sleeper,
			struct uaio_futex_waitv *all, uint32_t nr)
{
	int64_t res;

	all[0] = own_of(&sleeper->end);
	all[nr + 1] = own_of(&sleeper->last);
	uaio_sleeper_move(sleeper, UAIO_SLEEPER_CALLS);
	do
		res = sys_futex_waitv(all, nr + NR_OWN, NULL);
	while (res == -EINTR && !uaio_sleeper_is_ended(sleeper));
	if (res == 0 || (res < 0 && uaio_sleeper_is_ended(sleeper)))
		return -ECANCELED;
	return res < 0 ? res : res - 1;
}

static int64_t wait_for(const struct uaio_args *args, const void *futexes,
			uint32_t nr, uint32_t extra_flags)
{
	struct uaio_futex_waitv all[NR_MAX];

	if (extra_flags & RWF_NOWAIT)
		return try(args, futexes, nr);
	memcpy(&all[1], futexes, nr * sizeof(all[0]));
	return sleep_on(args->sleeper, all, nr);
}

/*
 * args->out is the futex, args->off its expected value, and args->what the flags of a
 * struct uaio_futex_waitv.
 */
int64_t uaio_futex_wait_run(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags)
{
	const struct uaio_args *args = sqe->args;
	const struct uaio_futex_waitv futex = {
		.val = (uint64_t)args->off,
		.uaddr = (uintptr_t)args->out,
		.flags = args->what,
	};

	(void)fd;
	(void)found;
	return wait_for(args, &futex, 1, extra_flags);
}

/* args->in: an array of struct uaio_futex_waitv. */
int64_t uaio_futex_waitv_run(const struct uaio_sqe *sqe, int fd,
			     struct uaio_found *found, uint32_t extra_flags)
{
	const struct uaio_args *args = sqe->args;

	(void)fd;
	(void)found;
	return wait_for(
		args, args->in,
		(uint32_t)(args->in_bytes / sizeof(struct uaio_futex_waitv)),
		extra_flags);
}

/*
 * sqe->buf is the futex, sqe->len the number of waiters to wake, sqe->call_flags the mask,
 * and sqe->mode the futex's flags.
 */
int64_t uaio_futex_wake_run(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags)
{
	int64_t res;

	(void)fd;
	(void)found;
	(void)extra_flags;
	if (likely(!(sqe->mode & (NUMA | MPOL))))
		return !(uint32_t)sqe->len && sqe->call_flags
			       ? sys_futex_wake_none(sqe->buf,
						     sqe->mode & PRIVATE)
			       : sys_futex_wake(sqe->buf, sqe->mode & PRIVATE,
						(uint32_t)sqe->len,
						sqe->call_flags);
	res = sys_futex_wake_by(sqe->buf, sqe->mode, (uint32_t)sqe->len,
				sqe->call_flags);
	/* A kernel without futex_wake() supports no futexes of NUMA nodes. */
	return res == -ENOSYS ? -EINVAL : res;
}
