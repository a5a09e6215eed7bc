/* SPDX-License-Identifier: MIT */
#include "op/sleeper.h"

#include "base/asked.h"
#include "base/atomic.h"
#include "base/sleep.h"
#include "proc/endable.h"
#include "file/file.h"

/* A thread that waits for a change of the state checks again after this time. */
enum { WHILE_NS = 10000000 };

static struct uaio_slab slab;

void uaio_sleepers_init(void)
{
	uaio_slab_init(&slab, sizeof(struct uaio_sleeper), 4096);
}

struct uaio_sleeper *uaio_sleeper_new(void)
{
	struct uaio_sleeper *sleeper = uaio_slab_get(&slab);

	if (!sleeper)
		return NULL;
	/* relaxed, here and below: no other thread knows the sleeper yet */
	store_relaxed(&sleeper->state, UAIO_SLEEPER_NEW);
	store_relaxed(&sleeper->nr_refs, 1);
	store_relaxed(&sleeper->end, 0);
	sleeper->last = sleeper->found = 0;
	sleeper->file = NULL;
	sleeper->endable = NULL;
	return sleeper;
}

void uaio_sleeper_get(struct uaio_sleeper *sleeper)
{
	/* relaxed: the caller has a reference, so no thread frees the sleeper */
	add_relaxed(&sleeper->nr_refs, 1);
}

void uaio_sleeper_put(struct uaio_sleeper *sleeper)
{
	/*
	 * [MB:sleeper] release: this thread has made its last access to the sleeper.
	 * Pairs with the acquire of nr_refs below.
	 */
	if (sub_release(&sleeper->nr_refs, 1) != 1)
		return;
	/*
	 * [MB:sleeper] acquire: the other threads have made their last accesses to the
	 * sleeper. Pairs with the release of nr_refs above.
	 */
	(void)load_acquire(&sleeper->nr_refs);
	if (sleeper->file)
		uaio_file_put(sleeper->file);
	if (sleeper->endable)
		uaio_endable_put(sleeper->endable);
	uaio_slab_put(&slab, sleeper);
}

void uaio_sleeper_end(struct uaio_sleeper *sleeper)
{
	/*
	 * relaxed: the kernel orders this store before the wake-up. A thread that begins
	 * to wait later finds the new value, and does not sleep.
	 */
	store_relaxed(&sleeper->end, 1);
	uaio_wake(&sleeper->end, 1);
	if (sleeper->endable)
		uaio_endable_end(sleeper->endable);
}

bool uaio_sleeper_is_ended(const struct uaio_sleeper *sleeper)
{
	/* relaxed: only a hint; for a thread that waits, the kernel compares the value */
	return load_relaxed(&sleeper->end);
}

void uaio_sleeper_move(struct uaio_sleeper *sleeper,
		       enum uaio_sleeper_state state)
{
	/* relaxed: the state publishes no other data */
	store_relaxed(&sleeper->state, state);
	uaio_wake(&sleeper->state, 1);
}

void uaio_sleeper_let_go(struct uaio_sleeper *sleeper)
{
	uaio_sleeper_move(sleeper, UAIO_SLEEPER_OVER);
	uaio_sleeper_put(sleeper);
}

enum uaio_sleeper_state uaio_sleeper_state(const struct uaio_sleeper *sleeper)
{
	/* relaxed: the state publishes no other data */
	return load_relaxed(&sleeper->state);
}

enum uaio_sleeper_state uaio_sleeper_await(struct uaio_sleeper *sleeper,
					   enum uaio_sleeper_state state)
{
	if (uaio_sleeper_state(sleeper) == state)
		(void)uaio_sleep(&sleeper->state, state,
				 uaio_now_ns() + WHILE_NS);
	return uaio_sleeper_state(sleeper);
}

bool uaio_sleeper_has_request(const struct uaio_sleeper *sleeper)
{
	/* relaxed: the result guards no other memory */
	return load_relaxed(&sleeper->nr_refs) > 1;
}

bool uaio_sleeper_waits(struct uaio_sleeper *sleeper)
{
	/*
	 * FUTEX_REQUEUE moves one waiter from `last` to `found`, and returns how many
	 * it has moved. If a waiter was there, the sleeper's system call sleeps on its
	 * futexes. If the kernel refuses the requeue, assume that the call sleeps.
	 */
	return sys_futex_requeue(&sleeper->last, &sleeper->found) != 0;
}
