/* SPDX-License-Identifier: MIT */
#include "posix/callback.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/slab.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "proc/process.h"
#include "proc/thread.h"

/* After which a thread ends. Tests wait until all have. */
#ifdef UAIO_TESTING
static const int64_t IDLE_NS = 20000000;
#else
static const int64_t IDLE_NS = 5000000000;
#endif
static const int64_t MOMENT_NS = 1000000; /* see I1 */

struct call {
	struct uaio_slab_node slab;
	struct list node;
	uaio_callback_fn *function;
	union sigval value;
	int64_t since_ns;
};

/* A call by a thread of its own. */
struct own_call {
	struct uaio_slab_node slab;
	uaio_callback_fn *function;
	union sigval value;
};

static struct uaio_slab calls, own_calls;

static struct {
	struct uaio_lock lock; /* rank CALLBACK */
	uint32_t word;         /* atomic: idle threads sleep on it */

	/* under lock */
	struct list waiting; /* struct call, oldest first */
	uint32_t nr_idle;    /* threads that sleep, the standby among them */
	uint32_t nr_calling;
	uint32_t nr_starting; /* threads that have not looked yet */
	bool has_standby;     /* one sleeps until the oldest call is overdue */
} pool;

enum need { NOTHING, WAKE, START };

void uaio_callbacks_init(void)
{
	uaio_slab_init(&calls, sizeof(struct call), 4096);
	uaio_slab_init(&own_calls, sizeof(struct own_call), 4096);
	pool.lock = (struct uaio_lock){ 0 };
	list_init(&pool.waiting);
	pool.nr_idle = pool.nr_calling = pool.nr_starting = 0;
	pool.has_standby = false;
}

static struct call *oldest_locked(void)
{
	return list_is_empty(&pool.waiting)
		       ? NULL
		       : container_of(pool.waiting.next, struct call, node);
}

/* Return: whether a call may be made by one thread more. */
static bool may_call_locked(const struct call *call, int64_t now)
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
		uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	}
}

/* Also when the function has ended its thread. */
static void has_called(void *unused)
{
	enum need need;

	(void)unused;
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	pool.nr_calling--;
	need = need_locked();
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	meet(need);
}

static void make(struct call *call)
{
	const struct call own = *call;

	uaio_slab_put(&calls, call);
	pthread_cleanup_push(has_called, NULL);
	own.function(own.value);
	pthread_cleanup_pop(0);
}

/*
 * Sleep until there may be a call to make.
 * Return: whether the thread is of use no longer.
 */
static bool idle_locked(const struct call *waiting)
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
		struct call *call = oldest_locked();
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

static void *make_own(void *arg)
{
	struct own_call *call = arg;
	const struct own_call own = *call;

	uaio_slab_put(&own_calls, call);
	own.function(own.value);
	return NULL;
}

/* Return: whether a thread with these attributes could be created. */
static bool call_by_own(uaio_callback_fn *function, union sigval value,
			const pthread_attr_t *attr)
{
	struct own_call *call = uaio_slab_get(&own_calls);

	if (!call)
		return false;
	call->function = function;
	call->value = value;
	if (uaio_thread_start_for_client(make_own, call, attr) == 0)
		return true;
	uaio_slab_put(&own_calls, call);
	return false;
}

void uaio_callback(uaio_callback_fn *function, union sigval value,
		   const pthread_attr_t *attr)
{
	struct call *call;
	enum need need;

	if (attr && call_by_own(function, value, attr))
		return;
	call = uaio_slab_get(&calls);
	if (!call)
		return;
	call->function = function;
	call->value = value;
	call->since_ns = uaio_now_ns();
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	list_add_tail(&pool.waiting, &call->node);
	need = need_locked();
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	meet(need);
}
