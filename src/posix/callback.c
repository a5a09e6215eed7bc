/* SPDX-License-Identifier: MIT */
#include "posix/callback.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "proc/table.h"
#include "proc/thread.h"

/* After which a thread ends. Tests wait until all have. */
#ifdef UAIO_TESTING
static const int64_t IDLE_NS = 20000000;
#else
static const int64_t IDLE_NS = 5000000000;
#endif
static const int64_t MOMENT_NS = 1000000; /* see I1 */

static struct {
	struct uaio_lock lock; /* rank CALLBACK */
	uint32_t word;         /* atomic: idle threads sleep on it */

	/* under lock */
	struct list waiting; /* struct uaio_callback, oldest first */
	uint32_t nr_idle;    /* threads that sleep, the standby among them */
	uint32_t nr_calling;
	uint32_t nr_starting; /* threads that have not looked yet */
	bool has_standby;     /* one sleeps until the oldest call is overdue */
} pool;

uint32_t uaio_callbacks_nr_stuck; /* written under lock */

enum need { NOTHING, WAKE, START };

void uaio_callbacks_init(void)
{
	pool.lock = (struct uaio_lock){ 0 };
	list_init(&pool.waiting);
	pool.nr_idle = pool.nr_calling = pool.nr_starting = 0;
	pool.has_standby = false;
	store_relaxed(&uaio_callbacks_nr_stuck, 0);
}

static struct uaio_callback *oldest_locked(void)
{
	return list_is_empty(&pool.waiting)
		       ? NULL
		       : container_of(pool.waiting.next, struct uaio_callback,
				      node);
}

/* Return: whether a call may be made by one thread more. */
static bool may_call_locked(const struct uaio_callback *call, int64_t now)
{
	return pool.nr_calling < (uaio_cpus_are_many() ? 2 : 1) ||
	       now - call->since_ns >= MOMENT_NS;
}

/* What there is to do, after the lock is released, so that calls are made. */
static enum need need_locked(void)
{
	if (!oldest_locked())
		return NOTHING;
	if (pool.has_standby &&
	    !may_call_locked(oldest_locked(), uaio_now_ns()))
		return NOTHING;
	if (pool.nr_idle) {
		/* relaxed: changes under the lock; the futex looks at it */
		store_relaxed(&pool.word, pool.word + 1);
		return WAKE;
	}
	if (pool.nr_starting)
		return NOTHING;
	pool.nr_starting++;
	return START;
}

static void *serve(void *arg);

static void meet(enum need need)
{
	if (need == WAKE) {
		uaio_wake(&pool.word, 1);
	} else if (need == START &&
		   uaio_thread_start_for_client(serve, NULL, NULL) < 0) {
		uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
		pool.nr_starting--;
		/* relaxed: a thread that calls the door looks again and again */
		store_relaxed(&uaio_callbacks_nr_stuck, 1);
		uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	}
}

void uaio_callbacks_retry_slowly(void)
{
	enum need need;

	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	store_relaxed(&uaio_callbacks_nr_stuck, 0);
	need = need_locked();
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	meet(need);
}

/* A client's function runs with no signal blocked, as glibc's do. */
static void let_signals(int how)
{
	sigset_t all;

	sigfillset(&all);
	(void)pthread_sigmask(how, &all, NULL);
}

/* When the function has ended its thread. */
static void has_called(void *unused)
{
	enum need need;

	(void)unused;
	let_signals(SIG_BLOCK);
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	pool.nr_calling--;
	need = need_locked();
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	meet(need);
}

static void make(struct uaio_callback *call)
{
	uaio_callback_fn *function = call->function;
	union sigval value = call->value;

	call->begins(call);
	pthread_cleanup_push(has_called, NULL);
	let_signals(SIG_UNBLOCK);
	function(value);
	let_signals(SIG_BLOCK);
	pthread_cleanup_pop(0);
}

/*
 * Sleep until there may be a call to make.
 * Return: whether the thread is of use no longer.
 */
static bool idle_locked(const struct uaio_callback *waiting)
{
	bool is_standby = waiting && !pool.has_standby;
	uint32_t seen = pool.word;
	int64_t until = is_standby ? waiting->since_ns + MOMENT_NS
				   : uaio_now_ns() + IDLE_NS;
	int ret;

	pool.has_standby |= is_standby;
	pool.nr_idle++;
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	ret = uaio_sleep(&pool.word, seen, until);
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	pool.nr_idle--;
	if (is_standby)
		pool.has_standby = false;
	return ret == -ETIMEDOUT && !is_standby &&
	       (!oldest_locked() || pool.has_standby);
}

static void *serve(void *arg)
{
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	pool.nr_starting--;
	for (;;) {
		struct uaio_callback *call = oldest_locked();
		enum need need;

		if (!call || !may_call_locked(call, uaio_now_ns())) {
			if (idle_locked(call))
				break;
			continue;
		}
		list_remove(&call->node);
		pool.nr_calling++;
		need = need_locked();
		uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
		meet(need);
		make(call);
		uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
		pool.nr_calling--;
	}
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	return arg;
}

/* A thread that makes one call. */
static void *make_one(void *arg)
{
	struct uaio_callback *call = arg;
	uaio_callback_fn *function = call->function;
	union sigval value = call->value;

	call->begins(call);
	let_signals(SIG_UNBLOCK);
	function(value);
	return NULL;
}

void uaio_callback(struct uaio_callback *callback, const pthread_attr_t *attr)
{
	enum need need;

	if ((attr || uaio_table_is_other()) &&
	    uaio_thread_start_for_client(make_one, callback, attr) == 0)
		return;
	callback->since_ns = uaio_now_ns();
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	list_add_tail(&pool.waiting, &callback->node);
	need = need_locked();
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	meet(need);
}
