/* SPDX-License-Identifier: MIT */
/*
 * Operations on futexes
 *
 * Tested by test-uring-futex.c.
 */
#include <errno.h>
#include <linux/futex.h>

#include "base/newer.h"
#include "op/sleeper.h"
#include "uring/calls.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/sq.h"

/* All checks below are in the order in which the kernel makes them. */

/*
 * Constants that older headers lack: flags of a futex2 call, and
 * FUTEX_BITSET_MATCH_ANY.
 */
enum { SIZE_U32 = 2, NUMA = 4, MPOL = 8, PRIVATE = 128 };

#define ALL_BITS ((uint64_t)UINT32_MAX)

int uaio_uring_add_sleeper(struct uaio_uring_entry *entry)
{
	struct uaio_uring *ring = entry->ring;
	struct uaio_sleeper *sleeper = uaio_sleeper_new();

	if (!sleeper)
		return -ENOMEM;
	sleeper->next = ring->sleepers;
	ring->sleepers = sleeper;
	entry->args.sleeper = sleeper;
	return 0;
}

/*
 * Return: 0; -EINVAL: the flags or the value are invalid. NUMA futexes are not refused
 * here: kernels without them refuse the system call.
 */
static int check_futex(uint64_t flags, uint64_t value)
{
	const uint64_t others = NUMA | MPOL | PRIVATE;

	return (flags & ~others) != SIZE_U32 || value > UINT32_MAX ? -EINVAL
								   : 0;
}

static int check_one(const struct io_uring_sqe *raw)
{
	if (raw->len || raw->rw_flags || raw->buf_index || raw->file_index)
		return -EINVAL;
	if (raw->addr3 > UINT32_MAX)
		return -EINVAL;
	return check_futex((uint32_t)raw->fd, raw->addr2);
}

int uaio_uring_prep_futex_wake(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	entry->sqe.buf = uaio_uring_pointer(raw->addr);
	entry->sqe.len = raw->addr2;
	entry->sqe.mode = (uint32_t)raw->fd;
	entry->sqe.call_flags = (uint32_t)raw->addr3;
	return check_one(raw);
}

int uaio_uring_prep_futex_wait(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);
	int ret = check_one(raw);

	if (ret < 0)
		return ret;
	/*
	 * Refuse a wait for only some bits: futex_waitv(), the call that the library
	 * can cancel (sleeper.h), does not support such a wait.
	 */
	if (raw->addr3 != ALL_BITS)
		entry->late_error = -EINVAL;
	args->out = uaio_uring_pointer(raw->addr);
	args->off = (int64_t)raw->addr2;
	args->what = (uint32_t)raw->fd;
	return uaio_uring_add_sleeper(entry);
}

static int check_all(uint64_t addr, uint32_t nr)
{
	struct uaio_futex_waitv futex;

	for (uint32_t i = 0; i < nr; i++) {
		if (uaio_uring_copy_in(&futex, addr + i * sizeof(futex),
				       sizeof(futex)) < 0)
			return -EFAULT;
		if (futex.reserved || check_futex(futex.flags, futex.val) < 0)
			return -EINVAL;
	}
	return 0;
}

int uaio_uring_prep_futex_waitv(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);
	int ret;

	if (raw->fd || raw->buf_index || raw->file_index || raw->addr2 ||
	    raw->rw_flags || raw->addr3)
		return -EINVAL;
	if (!raw->len || raw->len > UAIO_FUTEXES_MAX)
		return -EINVAL;
	ret = check_all(raw->addr, raw->len);
	if (ret < 0)
		return ret;
	args->in = uaio_uring_pointer(raw->addr);
	args->in_bytes = raw->len * (uint32_t)sizeof(struct uaio_futex_waitv);
	return uaio_uring_add_sleeper(entry);
}
