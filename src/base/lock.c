/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include "base/cycles.h"
#include "base/sleep.h"

enum {
	/*
	 * How many times a thread tries before it sleeps; this takes about 1.5 us. A
	 * lock is held for about 100 ns; sleeping and waking takes 5 to 50 us. With
	 * spinning, workers execute 1.6 to 3 times as many no-ops a second as without.
	 */
	SPINS = 100,
};

/*
 * Try several times to acquire the lock, but only for a short time: the holder may have
 * been preempted.
 */
static bool spin(struct uaio_lock *lock)
{
	for (unsigned i = 0; i < SPINS; i++) {
		uint32_t free = 0;

		/* [MB:lock] acquire: pairs with uaio_unlock(). */
		if (load_relaxed(&lock->word) == 0 &&
		    cas_acquire(&lock->word, &free, 1))
			return true;
		uaio_cpu_relax();
	}
	return false;
}

__attribute__((noinline)) void uaio_lock_contended(struct uaio_lock *lock)
{
	if (spin(lock))
		return;
	/*
	 * The value 2 says that other threads may sleep. This thread cannot know whether
	 * any does, so it keeps the value 2 when it gets the lock. At worst,
	 * uaio_unlock() makes a needless futex call.
	 *
	 * [MB:lock] acquire: pairs with uaio_unlock().
	 */
	while (xchg_acquire(&lock->word, 2) != 0)
		(void)uaio_sleep(&lock->word, 2, UAIO_FOREVER);
}

__attribute__((noinline)) void uaio_unlock_contended(struct uaio_lock *lock)
{
	uaio_wake(&lock->word, 1);
}

#ifdef UAIO_TESTING
#include "base/check.h"

/* One bit for each rank; set: this thread holds a lock of that rank. */
static _Thread_local uint64_t held;

void uaio_rank_push(enum uaio_lock_rank rank)
{
	UAIO_CHECK(held >> rank == 0);
	held |= 1ull << rank;
}

void uaio_rank_pop(enum uaio_lock_rank rank)
{
	UAIO_CHECK(held & 1ull << rank);
	held &= ~(1ull << rank);
}
#endif
