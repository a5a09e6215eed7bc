/* SPDX-License-Identifier: MIT */
#include "posix/callback.h"

#include <stddef.h>

#include "base/lock.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "proc/table.h"
#include "proc/thread.h"
#include "check/check.h"

static struct {
	struct uaio_lock lock; /* rank CALLBACK */

	/* under lock: calls without a thread: struct uaio_callback */
	struct list stuck;
} calls;

uint32_t uaio_callbacks_nr_stuck; /* written under lock */

void uaio_callbacks_init(void)
{
	calls.lock = (struct uaio_lock){ 0 };
	list_init(&calls.stuck);
	store_relaxed(&uaio_callbacks_nr_stuck, 0);
}

static void unblock_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	(void)pthread_sigmask(SIG_UNBLOCK, &all, NULL);
}

/* Main function of a thread: call the function of the client that `arg` names. */
static void *make(void *arg)
{
	struct uaio_callback *call = arg;
	uaio_callback_fn *function = call->function;
	union sigval value = call->value;
	bool blocks_signals = call->blocks_signals;

	if (call->by_library)
		uaio_thread_become_clients(call->has_cpus);
	call->begins(call);
	if (!blocks_signals)
		unblock_signals();
	if (unlikely(uaio_config.is_examined))
		uaio_check_notified();
	function(value);
	uaio_callbacks_retry();
	return NULL;
}

static int start(struct uaio_callback *call, const pthread_attr_t *attr)
{
	call->by_library = uaio_is_own_thread();
	return uaio_thread_start_for_client(make, call, attr);
}

static void add_stuck(struct uaio_callback *call)
{
	uaio_lock(&calls.lock, UAIO_RANK_CALLBACK);
	list_add_tail(&calls.stuck, &call->node);
	/*
	 * relaxed: if a call of POSIX AIO does not see the new value yet, a later call
	 * retries
	 */
	store_relaxed(&uaio_callbacks_nr_stuck, 1);
	uaio_unlock(&calls.lock, UAIO_RANK_CALLBACK);
}

/* Remove a call that has no thread. Return: the call, or NULL. */
static struct uaio_callback *pop_stuck(void)
{
	struct list *node;

	uaio_lock(&calls.lock, UAIO_RANK_CALLBACK);
	node = list_pop(&calls.stuck);
	if (!node)
		/* relaxed: as in add_stuck() */
		store_relaxed(&uaio_callbacks_nr_stuck, 0);
	uaio_unlock(&calls.lock, UAIO_RANK_CALLBACK);
	return node ? container_of(node, struct uaio_callback, node) : NULL;
}

void uaio_callbacks_retry_slowly(void)
{
	struct uaio_callback *call;

	/*
	 * Return at once in a signal handler that interrupted the library, because the
	 * handler must not wait for the lock. Return also in a child of fork(), because
	 * the calls are the parent's.
	 */
	if (!uaio_engine_is_up() || !uaio_enter())
		return;
	while ((call = pop_stuck())) {
		call->has_cpus = false;
		if (start(call, NULL) < 0) {
			add_stuck(call);
			break;
		}
	}
	uaio_leave();
}

/*
 * If the caller is outside the library, enter the library. A signal handler that
 * interrupts this function may call the library: that call then fails, because waiting
 * for calls.lock would be a deadlock.
 */
void uaio_callback(struct uaio_callback *callback, const pthread_attr_t *attr)
{
	bool was_outside = uaio_enter();

	if (start(callback, attr) < 0)
		add_stuck(callback);
	if (was_outside)
		uaio_leave();
}

int uaio_callback_try(struct uaio_callback *callback)
{
	return start(callback, NULL);
}
