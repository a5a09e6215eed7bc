/* SPDX-License-Identifier: MIT */
/*
 * Threads that end while they sleep in a call of the library
 *
 * A thread may be cancelled while it waits for events, or a signal handler may call
 * pthread_exit() there. Then it never returns from the library's call. Before the
 * thread is gone, the C library calls the destructor in this file. The destructor frees
 * what the thread has left, and removes the thread as a waiter and leader.
 *
 * The destructor belongs to a key for thread-specific data (pthread_key_create()). For
 * the first 32 keys the C library keeps the values in the thread itself. For other keys
 * it allocates memory, which is not allowed in a signal handler. So if none of the
 * first 32 keys is free, the library registers no destructor. It then cleans up later,
 * as it does if a signal handler leaves a sleep by siglongjmp() (lead.h, poller.h).
 */
#include <pthread.h>

#include "base/atomic.h"
#include "proc/entry.h"
#include "proc/poller.h"
#include "proc/table.h"
#include "ready/waiter.h"

/*
 * The C library keeps the values of the first NR_KEYS_INSIDE keys in the thread itself.
 * For other keys it allocates memory.
 */
enum { NR_KEYS_INSIDE = 32 };

static struct {
	pthread_key_t key;
	/*
	 * atomic: the destructor is registered under `key`; constant once the engine
	 * has started
	 */
	uint32_t has_key;
} lost;

static void clear_up(void *value)
{
	bool is_other = uaio_table_is_other();

	(void)value;
	/*
	 * If uaio_enter() fails, the thread ended inside the library, but not in a
	 * sleep. Then the thread may hold locks, so free nothing.
	 */
	if (!uaio_enter())
		return;
	uaio_waiters_forget(is_other);
	if (!is_other)
		uaio_poller_forget();
	uaio_leave();
}

void uaio_lost_init(void)
{
	/*
	 * relaxed: the key is created only once. A child of fork() inherits its
	 * parent's key
	 */
	if (load_relaxed(&lost.has_key) ||
	    pthread_key_create(&lost.key, clear_up))
		return;
	if (lost.key < NR_KEYS_INSIDE)
		store_relaxed(&lost.has_key, 1);
	else
		(void)pthread_key_delete(lost.key);
}

bool uaio_lost_watch(void)
{
	/*
	 * relaxed: constant once the engine is up. The value must not be NULL, or the
	 * destructor is not called.
	 */
	return load_relaxed(&lost.has_key) &&
	       pthread_setspecific(lost.key, &lost) == 0;
}
