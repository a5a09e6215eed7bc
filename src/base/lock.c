/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

void uaio_lock_contended(struct uaio_lock *lock)
{
	/*
	 * Once anybody has slept the word stays 2 until a release: a wake too
	 * many is possible, a wake too few is not.
	 *
	 * [MB:lock] acquire: pairs with uaio_unlock().
	 */
	while (xchg_acquire(&lock->word, 2) != 0)
		(void)uaio_sleep(&lock->word, 2, UAIO_FOREVER);
}

#ifdef UAIO_TESTING
#include "base/check.h"

static _Thread_local uint32_t held; /* bit: a lock of that rank is held */

void uaio_rank_push(enum uaio_lock_rank rank)
{
	UAIO_CHECK(held >> rank == 0);
	held |= 1u << rank;
}

void uaio_rank_pop(enum uaio_lock_rank rank)
{
	UAIO_CHECK(held & 1u << rank);
	held &= ~(1u << rank);
}
#endif
