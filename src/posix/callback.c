/* SPDX-License-Identifier: MIT */
#include "posix/callback.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cycles.h"
#include "base/lock.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "proc/table.h"
#include "proc/thread.h"

/* After which a thread ends. Tests wait until all have. */
#ifdef UAIO_TESTING
static const int64_t IDLE_NS = 20000000;
#else
static const int64_t IDLE_NS = 5000000000;
#endif
static const int64_t MOMENT_NS = 1000000; /* see I1 */
/*
 * Where calls follow one another that fast, an idle thread spins for the next: to wake
 * it costs both threads more.
 */
static const int64_t SPIN_NS = 30000;

static struct {
	struct uaio_lock lock; /* rank CALLBACK */
	uint32_t word;         /* atomic: idle threads sleep on it */

	/* under lock */
	struct list waiting; /* struct uaio_callback, oldest first */
	uint32_t nr_idle;    /* threads that sleep, the standby among them */
	uint32_t nr_calling;
	uint32_t nr_starting; /* threads that have not looked yet */
	bool has_standby;     /* one sleeps until the oldest call is overdue */
	bool has_spinner;     /* an idle one spins; it needs no waking */
	bool may_spin;        /* the last to be idle was not idle for long */
} pool;

uint32_t uaio_callbacks_nr_stuck; /* written under lock */

enum need { NOTHING, WAKE, START };

void uaio_callbacks_init(void)
{
	pool.lock = (struct uaio_lock){ 0 };
	list_init(&pool.waiting);
	pool.nr_idle = pool.nr_calling = pool.nr_starting = 0;
	pool.has_standby = pool.has_spinner = pool.may_spin = false;
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
		return pool.has_spinner ? NOTHING : WAKE;
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
		   uaio_thread_start_for_client(
			   serve, uaio_is_own_thread() ? &pool : NULL, NULL) <
			   0) {
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

	/*
	 * A handler that interrupted a holder of the lock leaves it alone, and a
	 * child of fork() what its parent has.
	 */
	if (!uaio_engine_is_up() || !uaio_enter())
		return;
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	store_relaxed(&uaio_callbacks_nr_stuck, 0);
	need = need_locked();
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	meet(need);
	uaio_leave();
}

/* A client's function runs with no signal blocked, as glibc's do. */
static void let_signals(int how)
{
	sigset_t all;

	sigfillset(&all);
	(void)pthread_sigmask(how, &all, NULL);
}

/*
 * Return: whether the pool is still that of when the library had come up for the nth
 * time. A function may fork, and its child return from it, or end its thread: what is
 * in the pool then is the parent's.
 */
static bool is_pool_of(uint32_t n)
{
	return uaio_engine_is_up() && uaio_engine_start_nr() == n;
}

/* When the function has ended its thread. */
static void has_called(void *arg)
{
	const uint32_t *start_nr = arg;
	enum need need;

	if (!is_pool_of(*start_nr))
		return;
	let_signals(SIG_BLOCK);
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	pool.nr_calling--;
	need = need_locked();
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	meet(need);
}

/* Return: whether the thread belongs to the pool as before. */
static bool make(struct uaio_callback *call)
{
	uaio_callback_fn *function = call->function;
	uint32_t start_nr = uaio_engine_start_nr();
	union sigval value = call->value;
	bool is_own = call->is_own;

	call->begins(call);
	pthread_cleanup_push(has_called, &start_nr);
	if (!is_own)
		let_signals(SIG_UNBLOCK);
	function(value);
	if (!is_own)
		let_signals(SIG_BLOCK);
	(void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_cleanup_pop(0);
	return is_pool_of(start_nr);
}

/* Return: whether the word has changed meanwhile. */
static bool spin(uint32_t seen, int64_t until)
{
	enum { SPINS_PER_LOOK = 64 }; /* at the clock */

	do {
		for (unsigned i = 0; i < SPINS_PER_LOOK; i++) {
			/* relaxed: the caller looks again under the lock */
			if (load_relaxed(&pool.word) != seen)
				return true;
			uaio_cpu_relax();
		}
	} while (uaio_now_ns() < until);
	return false;
}

/* Spin for a call, if that has paid recently. */
static void spin_locked(void)
{
	uint32_t seen = pool.word;
	bool has_paid;

	if (!pool.may_spin || pool.has_spinner || !uaio_cpus_are_many())
		return;
	pool.has_spinner = true;
	pool.nr_idle++;
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	has_paid = spin(seen, uaio_now_ns() + SPIN_NS);
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	pool.nr_idle--;
	pool.has_spinner = false;
	pool.may_spin = has_paid;
}

/*
 * Sleep until there may be a call to make.
 * Return: whether the thread is of use no longer.
 */
static bool sleep_locked(const struct uaio_callback *waiting)
{
	bool is_standby = waiting && !pool.has_standby;
	uint32_t seen = pool.word;
	int64_t since = uaio_now_ns();
	int64_t until =
		is_standby ? waiting->since_ns + MOMENT_NS : since + IDLE_NS;
	int ret;

	pool.has_standby |= is_standby;
	pool.nr_idle++;
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	ret = uaio_sleep(&pool.word, seen, until);
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	pool.nr_idle--;
	if (is_standby)
		pool.has_standby = false;
	else
		pool.may_spin |= uaio_now_ns() - since < 2 * SPIN_NS;
	return ret == -ETIMEDOUT && !is_standby &&
	       (!oldest_locked() || pool.has_standby);
}

/* arg: not NULL: a thread of the library's has created this one. */
static void *serve(void *arg)
{
	if (arg)
		uaio_thread_become_clients(false);
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	pool.nr_starting--;
	for (;;) {
		struct uaio_callback *call = oldest_locked();
		enum need need;

		if (!call) {
			spin_locked();
			call = oldest_locked();
		}
		if (!call || !may_call_locked(call, uaio_now_ns())) {
			if (sleep_locked(call))
				break;
			continue;
		}
		list_remove(&call->node);
		pool.nr_calling++;
		need = need_locked();
		uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
		meet(need);
		if (!make(call))
			return NULL;
		uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
		pool.nr_calling--;
	}
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	return NULL;
}

/* A thread that makes one call. */
static void *make_one(void *arg)
{
	struct uaio_callback *call = arg;
	uaio_callback_fn *function = call->function;
	union sigval value = call->value;

	if (call->is_late)
		uaio_thread_become_clients(true);
	call->begins(call);
	let_signals(SIG_UNBLOCK);
	function(value);
	return NULL;
}

static void give_to_pool(struct uaio_callback *callback)
{
	enum need need;

	callback->since_ns = uaio_now_ns();
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	list_add_tail(&pool.waiting, &callback->node);
	need = need_locked();
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	meet(need);
}

/* The caller may be outside the library, where a handler may call it. */
void uaio_callback(struct uaio_callback *callback, const pthread_attr_t *attr)
{
	bool was_outside = uaio_enter();

	callback->is_late = uaio_is_own_thread();
	if (!(attr || uaio_table_is_other()) ||
	    uaio_thread_start_for_client(make_one, callback, attr) < 0)
		give_to_pool(callback);
	if (was_outside)
		uaio_leave();
}
