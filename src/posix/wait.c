/* SPDX-License-Identifier: MIT */
#include "posix/wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/list.h"
#include "base/slab.h"
#include "base/sleep.h"
#include "proc/entry.h"
#include "proc/table.h"
#include "wait/page.h"
#include "ready/waiter.h"
#include "posix/callback.h"
#include "posix/door.h"
#include "posix/posix.h"

enum {
	NS_PER_S = 1000000000,
	AIOCBS_MAX = 56,
	SLICE_NS = 1000000,
};

struct wait {
	struct uaio_slab_node slab;
	uint32_t is_met; /* atomic */

	/* under the lock of the queue */
	struct list node;
	bool is_any; /* every completion wakes the thread (wait.h, I4) */
	int nr;
	const struct aiocb *aiocbs[AIOCBS_MAX];
};

static struct uaio_slab slab;
static struct list waits; /* under the lock of the queue */
/* how many waits are in the list; changes only under the queue's lock */
uint32_t uaio_posix_nr_waits;

void uaio_posix_waits_init(void)
{
	uaio_slab_init(&slab, sizeof(struct wait), 8192);
	list_init(&waits);
	store_relaxed(&uaio_posix_nr_waits, 0);
}

static void add_locked(struct wait *wait)
{
	list_add_tail(&waits, &wait->node);
	/* relaxed, also in remove_locked(): this count changes only under the lock */
	store_relaxed(&uaio_posix_nr_waits, uaio_posix_nr_waits + 1);
}

static void remove_locked(struct wait *wait)
{
	if (!list_is_linked(&wait->node))
		return;
	list_remove(&wait->node);
	store_relaxed(&uaio_posix_nr_waits, uaio_posix_nr_waits - 1);
}

static bool has(const struct wait *wait, const struct aiocb *aiocb)
{
	for (int i = 0; i < wait->nr; i++)
		if (wait->aiocbs[i] == aiocb)
			return true;
	return wait->is_any;
}

void uaio_posix_waits_notify_slowly_locked(const struct aiocb *aiocb)
{
	list_for_each_safe (pos, &waits) {
		struct wait *wait = container_of(pos, struct wait, node);

		if (!has(wait, aiocb))
			continue;
		/* relaxed: the waiting thread reads is_met again under the lock */
		store_relaxed(&wait->is_met, 1);
		remove_locked(wait);
	}
}

/*
 * Return: whether a request of the list is complete, or the list has no requests.
 */
static bool is_one_done(const struct aiocb *const list[], int nr)
{
	bool is_empty = true;

	for (int i = 0; i < nr; i++) {
		if (!list[i])
			continue;
		if (uaio_posix_error(list[i]) != EINPROGRESS)
			return true;
		is_empty = false;
	}
	return is_empty;
}

static uint32_t *word_of(uint64_t need)
{
	return (uint32_t *)(uintptr_t)(need & ~(uint64_t)UAIO_POSIX_IS_WAIT);
}

bool uaio_posix_is_met(const struct uaio_queue *queue, uint64_t need)
{
	(void)queue;
	/*
	 * relaxed: a thread reads this word again under the queue's lock before it
	 * sleeps
	 */
	return load_relaxed(word_of(need));
}

void uaio_posix_forget(struct uaio_queue *queue, uint64_t need)
{
	struct wait *wait;

	if (need == UINT64_MAX || !(need & UAIO_POSIX_IS_WAIT))
		return;
	wait = container_of(word_of(need), struct wait, is_met);
	uaio_queue_lock(queue);
	remove_locked(wait);
	uaio_queue_unlock(queue);
	uaio_slab_put(&slab, wait);
}

int uaio_posix_wait_need(uint64_t need, const struct uaio_wait *wait)
{
	struct uaio_queue *queue = &uaio_posix_queue;
	/*
	 * relaxed: the queue is never closed in this process, so its generation
	 * (queue.h) does not change
	 */
	uint64_t generation = load_relaxed(&queue->generation);
	int ret = 0;

	while (ret == 0 && !uaio_posix_is_met(queue, need)) {
		if (!wait->sleeps_only)
			uaio_queue_run(queue, true);
		if (!uaio_posix_is_met(queue, need))
			ret = uaio_queue_wait(queue, generation, need, wait);
	}
	return uaio_posix_is_met(queue, need) ? 0
	       : ret == -ENOMEM               ? -EAGAIN
					      : ret;
}

static void fill(struct wait *wait, const struct aiocb *const list[], int nr)
{
	store_relaxed(&wait->is_met, 0);
	wait->nr = 0;
	wait->is_any = false;
	for (int i = 0; i < nr; i++) {
		if (!list[i])
			continue;
		if (wait->nr < AIOCBS_MAX)
			wait->aiocbs[wait->nr++] = list[i];
		else
			wait->is_any = true;
	}
}

/*
 * Fill the struct wait, and add it to the list of waits.
 * Return: false if a request is already complete; then the struct was not added.
 */
static bool begin(struct wait *wait, const struct aiocb *const list[], int nr)
{
	bool is_done;

	fill(wait, list, nr);
	uaio_queue_lock(&uaio_posix_queue);
	is_done = is_one_done(list, nr);
	if (!is_done)
		add_locked(wait);
	uaio_queue_unlock(&uaio_posix_queue);
	return !is_done;
}

static void end(struct wait *wait)
{
	uaio_queue_lock(&uaio_posix_queue);
	remove_locked(wait);
	uaio_queue_unlock(&uaio_posix_queue);
}

/*
 * Wait until one of the aiocbs is complete. The caller has entered the library. If the
 * thread is cancelled while it sleeps, uaio_posix_forget() is called when the thread
 * ends.
 */
static int wait_for_one(const struct aiocb *const list[], int nr,
			const struct uaio_wait *how)
{
	struct wait *wait = uaio_slab_get(&slab);
	uint64_t need;
	int ret = 0;

	if (!wait)
		return -EAGAIN;
	need = (uintptr_t)&wait->is_met | UAIO_POSIX_IS_WAIT;
	list_init(&wait->node);
	while (ret == 0 && begin(wait, list, nr)) {
		ret = uaio_posix_wait_need(need, how);
		end(wait);
	}
	uaio_slab_put(&slab, wait);
	/*
	 * If a signal has ended the sleep, it may be the notification that one of these
	 * requests is complete.
	 */
	return ret == -EINTR && is_one_done(list, nr) ? 0 : ret;
}

/*
 * Wait by checking the aiocbs at intervals. Used in a signal handler that interrupted
 * the library. Also used where no request can be pending: in a child of fork() that
 * waits for requests of its parent.
 */
static int wait_outside(const struct aiocb *const list[], int nr,
			int64_t deadline_ns)
{
	uint32_t word = 0;
	int ret = 0;

	while (!is_one_done(list, nr)) {
		int64_t now = uaio_now_ns();

		if (ret == -EINTR)
			return ret;
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		if (!uaio_is_inside())
			(void)pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS,
						    NULL);
		ret = uaio_sleep(&word, 0,
				 deadline_ns - now < SLICE_NS ? deadline_ns
							      : now + SLICE_NS);
		(void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	}
	return 0;
}

static int deadline_of(const struct timespec *timeout, int64_t *ret_ns)
{
	int64_t ns;

	*ret_ns = UAIO_FOREVER;
	if (!timeout)
		return 0;
	if (timeout->tv_nsec < 0 || timeout->tv_nsec >= NS_PER_S)
		return -EINVAL;
	if (timeout->tv_sec < 0)
		*ret_ns = 0;
	else if (!__builtin_mul_overflow((int64_t)timeout->tv_sec,
					 (int64_t)NS_PER_S, &ns) &&
		 !__builtin_add_overflow(ns, timeout->tv_nsec, &ns) &&
		 !__builtin_add_overflow(ns, uaio_now_ns(), &ns))
		*ret_ns = ns;
	return 0;
}

static int suspend(const struct aiocb *const list[], int nr,
		   int64_t deadline_ns)
{
	const struct uaio_wait how = {
		.deadline_ns = deadline_ns,
		.sleeps_only = uaio_table_is_other(),
		.is_cancel_point = true,
		.outlasts_stops = true,
	};
	int ret;

	if (!uaio_posix_is_open() || !uaio_enter())
		return wait_outside(list, nr, deadline_ns);
	ret = wait_for_one(list, nr, &how);
	uaio_leave();
	return ret;
}

int uaio_posix_suspend(const struct aiocb *const list[], int nr,
		       const struct timespec *timeout)
{
	int64_t deadline_ns;
	int ret, type;

	if (nr < 0)
		return -EINVAL;
	uaio_callbacks_retry();
	if (is_one_done(list, nr))
		return 0;
	/*
	 * If this is a signal handler that interrupted the library, the thread may hold
	 * a lock of the library, so it must not be cancelled.
	 */
	if (!uaio_is_inside())
		pthread_testcancel();
	ret = deadline_of(timeout, &deadline_ns);
	if (ret < 0)
		return ret;
	(void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	ret = suspend(list, nr, deadline_ns);
	(void)pthread_setcanceltype(type, NULL);
	return ret == -ETIMEDOUT ? -EAGAIN : ret;
}
