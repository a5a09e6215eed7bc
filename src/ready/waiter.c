/* SPDX-License-Identifier: MIT */
#include "req/stats.h"
#include "ready/waiter.h"

#include <errno.h>
#include <poll.h>

#include "base/check.h"
#include "base/cycles.h"
#include "base/sleepcall.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/ownfd.h"
#include "options/config.h"
#include "wq/wq.h"
#include "check/check.h"
#include "req/queue.h"
#include "wait/page.h"
#include "ready/attend.h"
#include "ready/lead.h"
#include "ready/ready.h"

/*
 * Wake a waiter. As soon as is_woken is set, the waiter's thread may close its eventfd,
 * and another thread may close the queue's epoll. So this function first writes to the
 * eventfd or wakes the epoll, and then sets is_woken. The caller holds the queue's lock
 * meanwhile. If the thread sleeps on the futex is_woken, the caller wakes that futex
 * after releasing the lock.
 */
void uaio_waiter_tell_locked(struct uaio_queue *queue,
			     struct uaio_waiter *waiter,
			     struct uaio_wakeups *wakeups)
{
	bool has_word = waiter->wake_fd < 0 && !waiter->leads;
	uint64_t one = 1;

	list_remove(&waiter->node);
	/*
	 * relaxed: the count changes under the queue's lock. A submitter reads it
	 * without the lock after parking. If the submitter sees an old, too large
	 * count, it calls uaio_waiters_pass_on(), which takes the lock and sees the
	 * true state.
	 */
	sub_relaxed(&queue->group.ready.nr_waiters, 1);
	/*
	 * [MB:lead] [step: TELL_LEADER] seq_cst: writes is_told, then reads is_asleep.
	 * Pairs with sleep_leading() of lead.c. After its sleep the leader takes the
	 * lock before it reads is_woken, so it sees the store below.
	 */
	if (waiter->leads) {
		store_seq_cst(&waiter->is_told, 1);
		if (load_seq_cst(&waiter->is_asleep))
			uaio_poller_wake(&queue->group.ready.poller);
	} else if (waiter->wake_fd >= 0) {
		(void)sys_write(waiter->wake_fd, &one, sizeof(one));
	}
	/*
	 * [MB:woken] release: the last access to the waiter (I2). Pairs with
	 * wait_asleep().
	 */
	store_release(&waiter->is_woken, 1);
	if (!has_word)
		return;
	if (wakeups->nr < UAIO_WAKEUPS_MAX)
		wakeups->words[wakeups->nr++] = &waiter->is_woken;
	else
		uaio_wake(&waiter->is_woken, 1);
}

void uaio_waiters_collect_locked(struct uaio_queue *queue,
				 struct uaio_wakeups *wakeups)
{
	const struct uaio_sink *sink = queue->sink;

	list_for_each_safe (pos, &queue->waiters) {
		struct uaio_waiter *waiter =
			container_of(pos, struct uaio_waiter, node);

		if (sink->is_met(queue, waiter->need)) {
			uaio_waiter_tell_locked(queue, waiter, wakeups);
			queue->nr_wakeups++;
			add_relaxed(&uaio_stats_gauges->nr_wakeups, 1);
		}
	}
}

void uaio_wakeups_deliver(struct uaio_wakeups *wakeups)
{
	for (unsigned i = 0; i < wakeups->nr; i++)
		uaio_wake(wakeups->words[i], 1);
}

void uaio_waiters_dismiss(struct uaio_queue *queue)
{
	struct uaio_wakeups wakeups = { 0 };

	uaio_queue_lock(queue);
	UAIO_CHECK(uaio_queue_is_open_locked(queue));
	/*
	 * relaxed: a thread that reads `generation` without the lock compares it again
	 * under the lock
	 */
	store_relaxed(&queue->generation, queue->generation + 1);
	/*
	 * The queue's epoll is about to be closed; the leader must not use it any more.
	 */
	queue->leader = NULL;
	list_for_each_safe (pos, &queue->waiters)
		uaio_waiter_tell_locked(
			queue, container_of(pos, struct uaio_waiter, node),
			&wakeups);
	uaio_queue_unlock(queue);
	uaio_wakeups_deliver(&wakeups);
}

static struct uaio_slab waiters;

/*
 * List of this thread's waiters. It has several if a signal handler interrupts a sleep
 * and waits for events, too.
 */
static _Thread_local struct uaio_waiter *mine
	__attribute__((tls_model("initial-exec")));

void uaio_waiters_init(void)
{
	/* A child of fork() waits for nothing: only the forking thread exists there. */
	mine = NULL;
	uaio_lost_init();
	uaio_attend_init();
	uaio_slab_init(&waiters, sizeof(struct uaio_waiter), 4096);
}

int uaio_wait_poll(int fd, const struct uaio_wait *wait, int64_t deadline)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	struct timespec left;

	return uaio_sleep_poll(&pfd, fd >= 0, uaio_time_until(deadline, &left),
			       wait->mask, wait->mask_bytes);
}

/*
 * Sleep with the caller's signal mask, which the kernel installs and removes in the
 * same call (ppoll). If there is no eventfd to wake the thread (descriptor table full),
 * sleep for SLICE_NS at a time.
 */
static int sleep_masked(struct uaio_waiter *waiter,
			const struct uaio_wait *wait)
{
	enum { SLICE_NS = 1000000 };
	int64_t now = uaio_now_ns(), until = wait->deadline_ns;
	int ret;

	if (waiter->wake_fd < 0 && until - now > SLICE_NS)
		until = now + SLICE_NS;
	ret = uaio_wait_poll(waiter->wake_fd, wait, until);
	if (ret == -EINTR)
		return ret;
	return uaio_now_ns() >= wait->deadline_ns ? -ETIMEDOUT : 0;
}

static int wait_asleep(struct uaio_waiter *waiter, const struct uaio_wait *wait)
{
	/*
	 * [MB:woken] acquire: the thread that has set is_woken no longer accesses this
	 * waiter. Pairs with uaio_waiter_tell_locked().
	 */
	while (!load_acquire(&waiter->is_woken)) {
		int depth = uaio_step_out_to(wait->is_cancel_point);
		int ret = wait->mask ? sleep_masked(waiter, wait)
				     : uaio_sleep(&waiter->is_woken, 0,
						  wait->deadline_ns);

		uaio_step_in_from(wait->is_cancel_point, depth);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/*
 * Wait for is_woken. Another waiter is the leader, or no request is parked. At
 * intervals check whether the leader is lost (lead.h, I5). If there was no leader when
 * this waiter came, it does not check: it is woken as soon as there is a leader, and
 * then calls this function again.
 */
static int wait_following(struct uaio_queue *queue, struct uaio_waiter *waiter,
			  const struct uaio_wait *wait)
{
	const int64_t max_ns = 1000000000;
	struct uaio_wait slice = *wait;
	uint64_t seen = UINT64_MAX;
	int64_t look_ns = 10000000;
	int ret;

	for (;;) {
		slice.deadline_ns = waiter->is_leaderless
					    ? UAIO_FOREVER
					    : uaio_now_ns() + look_ns;
		if (slice.deadline_ns >= wait->deadline_ns)
			return wait_asleep(waiter, wait);
		ret = wait_asleep(waiter, &slice);
		if (ret != -ETIMEDOUT)
			return ret;
		uaio_lead_challenge(queue, waiter, &seen);
		look_ns = 2 * look_ns < max_ns ? 2 * look_ns : max_ns;
	}
}

/*
 * Put the waiter on the queue's list, unless its need is met already. It may become the
 * leader.
 * Return: 0; -EINVAL: the queue was closed.
 */
static int enter(struct uaio_queue *queue, uint64_t generation,
		 struct uaio_waiter *waiter)
{
	int ret = 0;

	uaio_queue_lock(queue);
	if (uaio_queue_is_over_locked(queue, generation)) {
		ret = -EINVAL;
	} else if (!queue->sink->is_met(queue, waiter->need)) {
		list_add_tail(&queue->waiters, &waiter->node);
		/*
		 * [MB:led] [step: ENTER] seq_cst: counts the waiter, then reads
		 * nr_parked in uaio_lead_unpinned_locked().
		 */
		add_seq_cst(&queue->group.ready.nr_waiters, 1);
		waiter->is_leaderless = waiter->may_lead && !queue->leader &&
					!uaio_lead_locked(queue, waiter);
	} else {
		store_relaxed(&waiter->is_woken, 1);
	}
	uaio_queue_unlock(queue);
	return ret;
}

static void leave(struct uaio_queue *queue, struct uaio_waiter *waiter)
{
	uaio_queue_lock(queue);
	/* [step: LEAVE_WAIT] */
	if (!list_is_empty(&waiter->node)) {
		list_remove(&waiter->node);
		sub_relaxed(&queue->group.ready.nr_waiters, 1);
	}
	uaio_queue_unlock(queue);
}

struct uaio_waiter *uaio_waiter_new(struct uaio_queue *queue)
{
	struct uaio_waiter *waiter = uaio_slab_get(&waiters);

	if (!waiter)
		return NULL;
	waiter->queue = queue;
	waiter->need = UINT64_MAX;
	waiter->leads = waiter->is_leading = false;
	waiter->may_lead = true;
	waiter->is_leaderless = false;
	/* relaxed: no other thread knows the waiter yet */
	store_relaxed(&waiter->is_woken, 0);
	waiter->wake_fd = -1;
	list_init(&waiter->node);
	waiter->outer = mine;
	mine = waiter;
	(void)uaio_lost_watch();
	return waiter;
}

/*
 * The given waiter need not be the first in the thread's list: a signal handler that
 * never returned may have left its own waiter in front.
 */
void uaio_waiter_put(struct uaio_waiter *waiter)
{
	struct uaio_waiter **link = &mine;

	while (*link != waiter)
		link = &(*link)->outer;
	*link = waiter->outer;
	if (waiter->wake_fd >= 0)
		uaio_ownfd_close(waiter->wake_fd);
	uaio_slab_put(&waiters, waiter);
}

struct uaio_waiter *uaio_waiter_leading(void)
{
	struct uaio_waiter *waiter = mine;

	while (waiter && !waiter->is_leading)
		waiter = waiter->outer;
	return waiter;
}

static void forget(struct uaio_queue *queue, uint64_t need)
{
	/*
	 * relaxed: the sink is a constant struct of functions. A closed queue still has
	 * its sink.
	 */
	const struct uaio_sink *sink = load_relaxed(&queue->sink);

	if (sink->forget)
		sink->forget(queue, need);
}

void uaio_waiters_forget(bool keeps_fds)
{
	struct uaio_waiter *waiter;

	/*
	 * First take all waiters off their lists: a leader that stops wakes the next
	 * waiter on the list, which must not be this thread's.
	 */
	for (waiter = mine; waiter; waiter = waiter->outer) {
		leave(waiter->queue, waiter);
		forget(waiter->queue, waiter->need);
	}
	uaio_attend_leave(keeps_fds);
	if (keeps_fds)
		return;
	uaio_lead_forget();
	while (mine)
		uaio_waiter_put(mine);
}

/*
 * Sleep until woken; become the leader if there is none.
 * Return: as uaio_queue_sleep().
 */
static int sleep_serving(struct uaio_queue *queue, uint64_t generation,
			 struct uaio_waiter *waiter,
			 const struct uaio_wait *wait)
{
	bool leads;
	int ret;

	uaio_lead_forget();
	if (wait->mask)
		waiter->wake_fd = uaio_ownfd_event(0);
	ret = enter(queue, generation, waiter);
	if (ret < 0)
		return ret;
	leads = waiter->leads;
	ret = leads ? uaio_lead(queue, waiter, wait)
		    : wait_following(queue, waiter, wait);
	leave(queue, waiter);
	if (leads)
		uaio_lead_stop(queue, waiter);
	return ret;
}

/*
 * Sleep until a thread that posts a completion wakes this one; never lead.
 * Return: as uaio_queue_sleep().
 */
static int sleep_only(struct uaio_queue *queue, uint64_t generation,
		      struct uaio_waiter *waiter, const struct uaio_wait *wait)
{
	int ret;

	waiter->may_lead = false;
	ret = enter(queue, generation, waiter);
	if (ret < 0)
		return ret;
	ret = wait_asleep(waiter, wait);
	leave(queue, waiter);
	return ret;
}

int uaio_queue_sleep(struct uaio_queue *queue, uint64_t generation,
		     uint64_t need, const struct uaio_wait *wait)
{
	struct uaio_waiter *waiter = uaio_waiter_new(queue);
	int ret;

	if (!waiter)
		return -ENOMEM;
	if (unlikely(uaio_config.is_examined))
		uaio_check_look_at_stack();
	waiter->need = need;
	ret = unlikely(wait->sleeps_only)
		      ? sleep_only(queue, generation, waiter, wait)
		      : sleep_serving(queue, generation, waiter, wait);
	uaio_waiter_put(waiter);
	return ret;
}

/*
 * Sleep, and try cold reads at intervals. (A cold read needs pages that are not in the
 * page cache.) A worker executes the oldest cold read and blocks until its pages
 * arrive. The pages of a later read may arrive long before. So the waiting thread tries
 * the later reads.
 */
static int sleep_looking(struct uaio_queue *queue, uint64_t generation,
			 uint64_t need, const struct uaio_wait *wait)
{
	enum { LOOK_NS = 2000000 };
	struct uaio_wait look = *wait;
	int ret;

	/*
	 * relaxed: if another thread submits a cold read just now, the worker executes
	 * it
	 */
	if (!load_relaxed(&queue->group.nr_paged) || wait->sleeps_only)
		return uaio_queue_sleep(queue, generation, need, wait);
	look.deadline_ns = uaio_now_ns() + LOOK_NS;
	if (look.deadline_ns >= wait->deadline_ns)
		return uaio_queue_sleep(queue, generation, need, wait);
	ret = uaio_queue_sleep(queue, generation, need, &look);
	if (ret != -ETIMEDOUT)
		return ret;
	uaio_page_try_group(&queue->group);
	return 0;
}

/*
 * Spin (poll without sleeping) for completions, for as long as a sleep and a wake-up
 * would take. Called if requests usually take less time than that.
 * Return: whether there are enough completions now.
 */
static bool spin_for(const struct uaio_queue *queue, uint64_t need,
		     int64_t spin_ns, int64_t deadline_ns)
{
	enum { SPINS_PER_LOOK = 16 }; /* polls between two reads of the clock */
	/*
	 * relaxed: the sink is a constant struct of functions. A closed queue still has
	 * its sink.
	 */
	const struct uaio_sink *sink = load_relaxed(&queue->sink);
	bool is_there = false;
	int64_t until;

	if (!uaio_wq_may_spin())
		return false;
	until = uaio_now_ns() + spin_ns;
	if (until > deadline_ns)
		until = deadline_ns;
	do {
		for (unsigned i = 0; i < SPINS_PER_LOOK && !is_there; i++) {
			uaio_cpu_relax();
			is_there = sink->is_met(queue, need);
		}
	} while (!is_there && uaio_now_ns() < until);
	uaio_wq_has_spun(is_there);
	return is_there;
}

/*
 * Sleep, and measure the time. If the sleep was no longer than a wake-up takes, record
 * that spinning would have been better.
 */
static int sleep_timed(struct uaio_queue *queue, uint64_t generation,
		       uint64_t need, int64_t spin_ns,
		       const struct uaio_wait *wait)
{
	int64_t since = uaio_now_ns();
	int ret = sleep_looking(queue, generation, need, wait);

	if (uaio_now_ns() - since < 2 * spin_ns)
		uaio_wq_has_spun(true);
	return ret;
}

int uaio_queue_wait(struct uaio_queue *queue, uint64_t generation,
		    uint64_t need, const struct uaio_wait *wait)
{
	int64_t spin_ns = uaio_wq_spin_ns();

	if (likely(!spin_ns))
		return sleep_looking(queue, generation, need, wait);
	if (spin_for(queue, need, spin_ns, wait->deadline_ns))
		return 0;
	return sleep_timed(queue, generation, need, spin_ns, wait);
}

bool uaio_queue_pin_parked(struct uaio_queue *queue)
{
	const struct uaio_group *home = uaio_ready_home(&queue->group.ready);

	/*
	 * relaxed: a thread that parks a request after this read makes sure itself that
	 * some thread serves the queue
	 */
	if (likely(!load_relaxed(&home->ready.nr_parked)) ||
	    !uaio_ready_callers_run())
		return false;
	uaio_ready_pin(&queue->group.ready);
	return true;
}

/*
 * If `waits` is set, the caller sleeps in the epoll next, and takes the epoll's events
 * there. Otherwise this function takes them.
 */
void uaio_queue_run_parked(struct uaio_queue *queue, bool waits)
{
	struct uaio_group *home = uaio_ready_home(&queue->group.ready);

	/*
	 * If a signal handler has left an earlier wait of this thread by siglongjmp(),
	 * the thread still counts as the leader. If it never slept again, it would
	 * remain the leader for ever.
	 */
	uaio_lead_forget();
	(void)uaio_ready_run(home, UAIO_RUN_BY_CALLER);
	/* relaxed, both: hints */
	if (!waits && !uaio_ready_has(&home->ready, UAIO_LEADER) &&
	    !load_relaxed(&queue->sink)->has_unreaped(queue)) {
		/*
		 * If some files cannot be added to the epoll now, a thread must try
		 * their requests at intervals.
		 */
		if (!uaio_ready_arm(home))
			uaio_waiters_back_up(home);
		(void)uaio_ready_look(home, UAIO_RUN_BY_CALLER);
	}
	uaio_ready_unpin(&queue->group.ready);
}

void uaio_queue_run(struct uaio_queue *queue, bool waits)
{
	if (uaio_queue_pin_parked(queue))
		uaio_queue_run_parked(queue, waits);
	uaio_page_try_group(&queue->group);
}

bool uaio_wait_let_signals_in(const struct uaio_wait *wait)
{
	static const struct timespec zero;
	int depth = uaio_step_out_to(false);
	int ret = uaio_sleep_poll(NULL, 0, &zero, wait->mask, wait->mask_bytes);

	uaio_step_in_from(false, depth);
	return ret == -EINTR;
}
