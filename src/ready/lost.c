/* SPDX-License-Identifier: MIT */
/*
 * Threads that end while they sleep in a call of the library
 *
 * A thread may be cancelled while it waits for events, or a signal handler that runs
 * then may end it. It never comes back from the call. But before the thread is gone,
 * the C library calls a destructor of this file, which clears away what the thread
 * leaves behind: the thread no longer counts as a waiter or a leader.
 *
 * The destructor is that of a key for thread-specific data. For keys beyond the first
 * 32 the C library allocates the values, which it must not do inside a signal handler.
 * If only such keys are left, there is no destructor. Then what a thread leaves behind
 * is found a little later, as after a signal handler that left its sleep by
 * siglongjmp() (lead.h, poller.h).
 */
#include <pthread.h>

#include "base/atomic.h"
#include "proc/entry.h"
#include "proc/poller.h"
#include "proc/table.h"
#include "ready/waiter.h"

/*
 * The C library keeps the values of the first keys in the thread itself, and allocates
 * further ones.
 */
enum { NR_KEYS_INSIDE = 32 };

static struct {
	pthread_key_t key;
	uint32_t has_key; /* atomic: constant once the engine is up */
} lost;

static void clear_up(void *value)
{
	bool is_other = uaio_table_is_other();

	(void)value;
	/*
	 * If this fails, the thread ended inside the library, but not in a sleep: what
	 * it holds is not known.
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
	/* relaxed: done once; a child of fork() has its parent's key */
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
	 * relaxed: constant once the engine is up. The destructor is called for any
	 * value but NULL.
	 */
	return load_relaxed(&lost.has_key) &&
	       pthread_setspecific(lost.key, &lost) == 0;
}
