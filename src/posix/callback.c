/* SPDX-License-Identifier: MIT */
#include "posix/callback.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/cycles.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "proc/table.h"
#include "proc/thread.h"
#include "check/check.h"

/* Only glibc has these functions (base/libc.h). */
#pragma weak __pthread_register_cancel
#pragma weak __pthread_unregister_cancel
#pragma weak __pthread_unwind_next

/*
 * A thread that is idle for this time ends. In tests the time is shorter, because tests
 * wait until all threads have ended.
 */
#ifdef UAIO_TESTING
static const int64_t IDLE_NS = 20000000;
#else
static const int64_t IDLE_NS = 5000000000;
#endif
static const int64_t MOMENT_NS =
	1000000; /* 1 ms: the short delay of callback.h, I1 */
/*
 * The longest times for which threads spin (callback.h, I6). SPIN_MAX_NS: a thread of the
 * pool that waits for the next function to call. TURN_NS: a thread that has submitted a
 * call, and waits until the function has returned. In a virtual machine an interrupt must
 * wake the other processor, so a woken thread runs only after 25 to 50 us. If both
 * threads spin instead, a short function has returned after 2 us.
 */
static const int64_t SPIN_MAX_NS = 100000;
static const int64_t TURN_NS = 5000;

/*
 * Counts attempts that may be useless, for example spinning. After n useless attempts
 * in a row, 2^n attempts are skipped, at most 64.
 */
struct attempts {
	/* atomic: how many attempts in a row were useless */
	uint32_t nr_failed;
	uint32_t nr_to_skip; /* atomic */
};

static struct {
	struct uaio_lock lock; /* rank CALLBACK */
	/* atomic: the futex on which idle threads sleep */
	uint32_t word;
	/* atomic: how many calls of clients' functions have returned */
	uint32_t nr_returned;
	struct attempts spinning, waiting_for_return;

	/* under lock */
	/* calls that wait for a thread: struct uaio_callback, oldest first */
	struct list waiting;
	/* how many threads sleep or spin; the standby is one of them */
	uint32_t nr_idle;
	uint32_t nr_calling;
	/* how many threads were created, but have not yet acquired the lock */
	uint32_t nr_starting;
	/*
	 * whether some thread is the standby: it sleeps until the oldest waiting call
	 * has waited for MOMENT_NS (I2)
	 */
	bool has_standby;
	/* whether an idle thread spins, so that it need not be woken */
	bool has_spinner;
	/* when a function of a client last returned to a thread of the pool */
	int64_t idle_since_ns;
	/* time from idle_since_ns until the next call of a function was submitted */
	int64_t gap_ns;
	/* average time from the wake-up of a thread until it runs */
	int64_t wake_ns;
} pool;

uint32_t uaio_callbacks_nr_stuck; /* written under lock */

enum need { NOTHING, WAKE, START };

void uaio_callbacks_init(void)
{
	pool.lock = (struct uaio_lock){ 0 };
	list_init(&pool.waiting);
	pool.nr_idle = pool.nr_calling = pool.nr_starting = 0;
	pool.has_standby = pool.has_spinner = false;
	pool.idle_since_ns = pool.wake_ns = 0;
	pool.gap_ns = SPIN_MAX_NS;
	pool.spinning = pool.waiting_for_return = (struct attempts){ 0 };
	store_relaxed(&uaio_callbacks_nr_stuck, 0);
}

/*
 * relaxed, as in end_attempt(): if threads run concurrently, they may skip one attempt
 * too many or too few, which is harmless
 */
static bool may_try(struct attempts *attempts)
{
	uint32_t nr_to_skip = load_relaxed(&attempts->nr_to_skip);

	if (nr_to_skip)
		store_relaxed(&attempts->nr_to_skip, nr_to_skip - 1);
	return !nr_to_skip;
}

static void end_attempt(struct attempts *attempts, bool succeeded)
{
	enum { FAILED_MAX = 6 };
	uint32_t nr_failed =
		succeeded ? 0 : load_relaxed(&attempts->nr_failed) + 1;

	if (nr_failed > FAILED_MAX)
		nr_failed = FAILED_MAX;
	store_relaxed(&attempts->nr_failed, nr_failed);
	store_relaxed(&attempts->nr_to_skip, nr_failed ? 1u << nr_failed : 0);
}

static struct uaio_callback *oldest_locked(void)
{
	return list_is_empty(&pool.waiting)
		       ? NULL
		       : container_of(pool.waiting.next, struct uaio_callback,
				      node);
}

/* Return: whether one more thread may call a function of the client now (I1). */
static bool may_call_locked(const struct uaio_callback *call, int64_t now)
{
	return pool.nr_calling < (uaio_cpus_are_many() ? 2 : 1) ||
	       now - call->since_ns >= MOMENT_NS;
}

/*
 * Return: what must be done so that a thread makes the waiting calls. The caller
 * releases the lock, then passes the result to meet().
 */
static enum need need_locked(void)
{
	if (!oldest_locked())
		return NOTHING;
	if (pool.has_standby &&
	    !may_call_locked(oldest_locked(), uaio_now_ns()))
		return NOTHING;
	if (pool.nr_idle) {
		/*
		 * relaxed: pool.word changes only under the lock; a thread that is
		 * about to sleep lets the kernel compare pool.word
		 */
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
		/*
		 * relaxed: if a call of POSIX AIO does not see the new value yet, a
		 * later call retries
		 */
		store_relaxed(&uaio_callbacks_nr_stuck, 1);
		uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	}
}

void uaio_callbacks_retry_slowly(void)
{
	enum need need;

	/*
	 * Return at once in a signal handler that interrupted the library, because the
	 * handler must not wait for the lock. Return also in a child of fork(), because
	 * the calls are the parent's.
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

/*
 * Block or unblock all signals. As in glibc, no signal is blocked while a function of
 * the client runs.
 */
static void mask_all_signals(int how)
{
	sigset_t all;

	sigfillset(&all);
	(void)pthread_sigmask(how, &all, NULL);
}

/*
 * Return: whether the pool still belongs to the nth start of the library. A function of
 * the client may call fork(); in the child it may return, or end its thread. In the
 * child the result is false, as the pool's contents are the parent's.
 */
static bool is_pool_of(uint32_t n)
{
	return uaio_engine_is_up() && uaio_engine_start_nr() == n;
}

/* A cleanup handler: runs if a function of the client ends its thread. */
static void has_called(void *arg)
{
	const uint32_t *start_nr = arg;
	enum need need;

	if (!is_pool_of(*start_nr))
		return;
	mask_all_signals(SIG_BLOCK);
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	pool.nr_calling--;
	need = need_locked();
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	meet(need);
}

static void make_and_return(uaio_callback_fn *function, union sigval value,
			    bool blocks_signals)
{
	if (!blocks_signals)
		mask_all_signals(SIG_UNBLOCK);
	if (unlikely(uaio_config.is_examined))
		uaio_check_notified();
	function(value);
	/*
	 * relaxed: the thread that waits for nr_returned reads no data that the
	 * function has written
	 */
	add_relaxed(&pool.nr_returned, 1);
	if (!blocks_signals)
		mask_all_signals(SIG_BLOCK);
	(void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

/*
 * Call the function that `call` names.
 * Return: whether the thread still belongs to the pool.
 */
static bool make(struct uaio_callback *call)
{
	uaio_callback_fn *function = call->function;
	uint32_t start_nr = uaio_engine_start_nr();
	union sigval value = call->value;
	bool blocks_signals = call->blocks_signals;
	struct uaio_other_cleanup buffer;

	call->begins(call);
	if (likely(uaio_libc_is_ours())) {
		pthread_cleanup_push(has_called, &start_nr);
		make_and_return(function, value, blocks_signals);
		pthread_cleanup_pop(0);
	} else {
		uaio_other_cleanup_push(&buffer, has_called, &start_nr);
		make_and_return(function, value, blocks_signals);
		uaio_other_cleanup_pop(&buffer, 0);
	}
	return is_pool_of(start_nr);
}

/*
 * Spin until *word no longer has the value `seen`.
 * Return: false if *word still has that value at the time until_ns.
 */
static bool spin(const uint32_t *word, uint32_t seen, int64_t until_ns)
{
	/* how often the word is read between two readings of the clock */
	enum { SPINS_PER_LOOK = 16 };

	do {
		for (unsigned i = 0; i < SPINS_PER_LOOK; i++) {
			/*
			 * relaxed: the caller reads no data that another thread wrote
			 * before it changed *word
			 */
			if (load_relaxed(word) != seen)
				return true;
			uaio_cpu_relax();
		}
	} while (uaio_now_ns() < until_ns);
	return false;
}

/*
 * If the gap before the last submitted call was short enough (I6), spin until the next
 * call is submitted.
 */
static void spin_locked(void)
{
	int64_t spin_ns = 2 * pool.wake_ns;
	uint32_t seen = pool.word;
	bool succeeded;

	if (pool.gap_ns >= spin_ns || pool.has_spinner ||
	    !uaio_cpus_are_many() || !may_try(&pool.spinning))
		return;
	pool.has_spinner = true;
	pool.nr_idle++;
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	succeeded = spin(&pool.word, seen, uaio_now_ns() + spin_ns);
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	pool.nr_idle--;
	pool.has_spinner = false;
	end_attempt(&pool.spinning, succeeded);
}

/* This thread was woken: update the average time that a wake-up takes. */
static void note_wake_locked(void)
{
	const struct uaio_callback *call = oldest_locked();
	int64_t took_ns = call ? uaio_now_ns() - call->since_ns : pool.wake_ns;

	if (took_ns > SPIN_MAX_NS / 2)
		took_ns = SPIN_MAX_NS / 2;
	pool.wake_ns += (took_ns - pool.wake_ns) / 8;
}

/*
 * Sleep until there may be a call to make.
 * Return: whether the thread must end.
 */
static bool sleep_locked(const struct uaio_callback *waiting)
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
	else if (ret == 0)
		note_wake_locked();
	return ret == -ETIMEDOUT && !is_standby &&
	       (!oldest_locked() || pool.has_standby);
}

/*
 * Main function of a thread of the pool. arg: not NULL if a thread of the library has
 * created this thread.
 */
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
		pool.idle_since_ns = uaio_now_ns();
	}
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	return NULL;
}

/*
 * Main function of a thread that makes a single call: because the client has passed
 * thread attributes, or because the call must be made with another descriptor table.
 */
static void *make_one(void *arg)
{
	struct uaio_callback *call = arg;
	uaio_callback_fn *function = call->function;
	union sigval value = call->value;

	if (call->by_library)
		uaio_thread_become_clients(true);
	call->begins(call);
	mask_all_signals(SIG_UNBLOCK);
	function(value);
	return NULL;
}

/*
 * Return: whether the thread that submits the call may wait until the function has
 * returned (I6). The caller leaves the library before it waits.
 */
static bool may_wait_locked(const struct uaio_callback *callback)
{
	return pool.has_spinner && !pool.nr_calling && !callback->by_library &&
	       may_try(&pool.waiting_for_return);
}

/*
 * Add a call to the pool.
 * Return: like may_wait_locked(). *ret_nr_returned: the value of nr_returned before the
 * call.
 */
static bool give_to_pool(struct uaio_callback *callback,
			 uint32_t *ret_nr_returned)
{
	int64_t now = uaio_now_ns();
	enum need need;
	bool may_wait;

	callback->since_ns = now;
	uaio_lock(&pool.lock, UAIO_RANK_CALLBACK);
	if (!pool.nr_calling && !oldest_locked())
		pool.gap_ns = now - pool.idle_since_ns;
	list_add_tail(&pool.waiting, &callback->node);
	need = need_locked();
	may_wait = may_wait_locked(callback);
	/*
	 * relaxed: this thread holds the lock, so no thread has begun the call yet
	 */
	*ret_nr_returned = load_relaxed(&pool.nr_returned);
	uaio_unlock(&pool.lock, UAIO_RANK_CALLBACK);
	meet(need);
	return may_wait;
}

static void wait_for_return(uint32_t nr_returned)
{
	bool succeeded =
		spin(&pool.nr_returned, nr_returned, uaio_now_ns() + TURN_NS);

	end_attempt(&pool.waiting_for_return, succeeded);
}

/*
 * If the caller is outside the library, enter the library. A signal handler that
 * interrupts this function may call the library: that call then fails, because waiting
 * for pool.lock would be a deadlock.
 */
void uaio_callback(struct uaio_callback *callback, const pthread_attr_t *attr)
{
	bool was_outside = uaio_enter(), may_wait = false;
	uint32_t nr_returned;

	callback->by_library = uaio_is_own_thread();
	if (!(attr || uaio_table_is_other()) ||
	    uaio_thread_start_for_client(make_one, callback, attr) < 0)
		may_wait = give_to_pool(callback, &nr_returned);
	if (!was_outside)
		return;
	uaio_leave();
	if (may_wait)
		wait_for_return(nr_returned);
}
