/* SPDX-License-Identifier: MIT */
/*
 * Rings of the kernel's beside rings of the library's
 *
 * The kernel may refuse one ring of a process and not another: it charges each to
 * RLIMIT_MEMLOCK. A call goes to the owner of its descriptor. A registered ring has no
 * descriptor, but one of 16 slots of the thread. The kernel knows nothing of the
 * library's rings in these slots, so this file keeps the two kinds apart:
 *
 *   I1  A slot of a thread holds a ring of one kind only. The library notes the slots
 *       that the kernel has filled, and passes no registration on for a slot that holds
 *       a ring of the library's.
 *   I2  A child of fork() has none of its parent's slots, in the kernel and here.
 *
 * Tested by test-uring-kernels.c and test/uring/uring.py.
 */
#include <errno.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "uring/calls.h"
#include "uring/ring.h"
#include "uring/table.h"
#include "uring/uring.h"

static bool has_kernels; /* atomic, relaxed: the client orders its own calls */

/* The slots that the kernel has filled for this thread (I2). */
static _Thread_local struct {
	int pid;
	uint32_t slots; /* a bit for each */
} mine __attribute__((tls_model("initial-exec")));

static uint32_t slots(void)
{
	return mine.slots && mine.pid == sys_getpid() ? mine.slots : 0;
}

static void note(uint32_t slot, bool is_filled)
{
	const uint32_t bit = 1u << slot;

	mine.slots = is_filled ? slots() | bit : slots() & ~bit;
	mine.pid = sys_getpid();
}

bool uaio_uring_has_kernels(void)
{
	return load_relaxed(&has_kernels);
}

bool uaio_uring_is_kernels_slot(uint32_t slot)
{
	return slots() >> slot & 1;
}

bool uaio_uring_is_kernels_ring(uint32_t fd)
{
	int ret;

	if (!uaio_uring_has_kernels())
		return false;
	/* Without requests and without a wait, only the descriptor is checked. */
	ret = sys_uring_enter((int)fd, 0, 0, 0);
	return ret != -EOPNOTSUPP && ret != -EBADF && ret != -ENOSYS;
}

/* Return: the result of the kernel's call for one slot. */
static long ask(const long a[4], struct io_uring_rsrc_update *update)
{
	return sys_uring_register((int)a[0], (unsigned)a[1], update, 1);
}

bool uaio_uring_note_kernels(long ret, const struct io_uring_params *params)
{
	struct io_uring_rsrc_update update = { .offset = (uint32_t)ret };
	struct io_uring_params made;

	store_relaxed(&has_kernels, true);
	/* The kernel has just written there. */
	if (uaio_uring_copy_in(&made, (uintptr_t)params, sizeof(made)) < 0)
		return true;
	if (!(made.flags & IORING_SETUP_REGISTERED_FD_ONLY)) {
		/* A ring of the library's may have had the descriptor before. */
		if (uaio_uring_tab_is_used() && uaio_enter()) {
			uaio_uring_tab_closed((unsigned)ret, (unsigned)ret);
			uaio_leave();
		}
		return true;
	}
	if (!uaio_uring_registered((uint32_t)ret)) {
		note((uint32_t)ret, true);
		return true;
	}
	(void)ask(
		(const long[4]){ ret,
				 IORING_UNREGISTER_RING_FDS |
					 IORING_REGISTER_USE_REGISTERED_RING },
		&update);
	return false;
}

bool uaio_uring_attaches_to_ours(const struct io_uring_params *params)
{
	struct io_uring_params asked;

	return unlikely(uaio_uring_tab_is_used()) &&
	       uaio_uring_copy_in(&asked, (uintptr_t)params, sizeof(asked)) ==
		       0 &&
	       asked.flags & IORING_SETUP_ATTACH_WQ &&
	       uaio_uring_ask(asked.wq_fd);
}

/* Fill the slot that the client names, or the first free one. Return: as ask(). */
static long fill(const long a[4], struct io_uring_rsrc_update *update)
{
	const bool is_any = update->offset == UINT32_MAX;
	uint32_t slot = is_any ? 0 : update->offset;
	uint32_t end = is_any ? UAIO_URING_RINGFDS_MAX : slot + 1;
	long ret;

	for (; slot < end; slot++) {
		if (uaio_uring_registered(slot))
			continue;
		update->offset = slot;
		ret = ask(a, update);
		if (ret != -EBUSY || !is_any)
			return ret;
		/* It was filled by a call that did not come here. */
		note(slot, true);
	}
	return -EBUSY;
}

/* Fill or empty one slot. Return: 0 or a negative error number. */
static long do_one(const long a[4], uint64_t at, bool fills)
{
	struct io_uring_rsrc_update update;
	long ret;

	if (uaio_uring_copy_in(&update, at, sizeof(update)) < 0)
		return -EFAULT;
	ret = fills ? fill(a, &update) : ask(a, &update);
	if (ret < 0)
		return ret;
	note(update.offset, fills);
	if (!fills || uaio_uring_copy_out(at, &update, sizeof(update)) == 0)
		return 0;
	update.data = 0;
	(void)sys_uring_register(
		(int)a[0],
		IORING_UNREGISTER_RING_FDS |
			((unsigned)a[1] & IORING_REGISTER_USE_REGISTERED_RING),
		&update, 1);
	note(update.offset, false);
	return -EFAULT;
}

long uaio_uring_register_kernels(const long a[4])
{
	const uint32_t opcode =
		(uint32_t)a[1] & ~IORING_REGISTER_USE_REGISTERED_RING;
	const uint32_t nr = (uint32_t)a[3];
	long ret = 0;
	uint32_t i;

	if (!nr || nr > UAIO_URING_RINGFDS_MAX)
		return sys_uring_register((int)a[0], (unsigned)a[1],
					  (void *)a[2], nr);
	for (i = 0; i < nr; i++) {
		ret = do_one(a,
			     (uint64_t)a[2] +
				     i * sizeof(struct io_uring_rsrc_update),
			     opcode == IORING_REGISTER_RING_FDS);
		if (ret < 0)
			break;
	}
	return i ? (long)i : ret;
}
