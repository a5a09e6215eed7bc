/* SPDX-License-Identifier: MIT */
/*
 * The manager: the thread that creates the workers of a crew
 *
 * The manager sleeps until a thread calls it. A thread that queues work, or a worker
 * that is about to block, calls the manager if no awake worker would reach the queued
 * items. The manager then checks every 100 us whether a worker has become free, and
 * creates workers if none has. Once there are enough for a fast disk (UAIO_WQ_ENOUGH),
 * it checks every millisecond. It then adds one worker for each worker that has been
 * blocked for long. Threads of the client, and workers, create no thread except the
 * manager.
 *
 * Tested by test-queue-threads.c.
 */
#include <errno.h>

#include "base/check.h"
#include "proc/thread.h"
#include "wq/wqint.h"

enum {
	/* The manager of crew 0 ends when it has had no work for this time. */
	IDLE_MS = 5000,
	/*
	 * A manager that must not end (C2) checks at this interval whether all threads
	 * of the program have ended.
	 */
	STAY_MS = 1000,
	/* Pause after the system has refused to create a thread. */
	REFUSED_NS = 10000000,
	/* How long a thread waits until the manager has created a thread for it. */
	START_NS = 1000000000,
	/* Time between two checks once there are UAIO_WQ_ENOUGH workers. */
	ENOUGH_NS = 2 * UAIO_WQ_SLOW_NS,
};

/*
 * Return: whether all workers are in calls that have taken at least UAIO_WQ_SHORT_NS.
 * *ret_nr_slow: how many calls have taken UAIO_WQ_SLOW_NS.
 */
static bool all_are_blocked_locked(struct uaio_wq_account *account, int64_t now,
				   unsigned *ret_nr_slow)
{
	*ret_nr_slow = 0;
	list_for_each (pos, &account->workers) {
		const struct uaio_worker *worker =
			container_of(pos, struct uaio_worker, node);
		int64_t since = load_relaxed(&worker->busy_since_ns);

		if (!since || now - since < UAIO_WQ_SHORT_NS)
			return false;
		*ret_nr_slow += now - since >= UAIO_WQ_SLOW_NS;
	}
	return true;
}

static int64_t waiting_since_locked(const struct uaio_wq_account *account)
{
	const struct uaio_work *work;

	if (list_is_empty(&account->public))
		return account->told_ns;
	work = container_of(account->public.next, struct uaio_work, link);
	return work->queued_ns;
}

/*
 * Return: how many workers to add to an account that has workers already. At most,
 * the number of workers doubles, since blocked workers may become free meanwhile.
 */
static unsigned nr_missing_locked(struct uaio_wq_account *account,
				  unsigned need, int64_t now)
{
	unsigned nr = account->nr_workers, nr_slow, most;

	if (!need ||
	    now - waiting_since_locked(account) < UAIO_WQ_PATIENCE_NS ||
	    !all_are_blocked_locked(account, now, &nr_slow))
		return 0;
	most = UAIO_WQ_ENOUGH + nr_slow;
	if (nr >= most)
		return 0;
	nr = nr < most - nr ? nr : most - nr;
	return nr < need ? nr : need;
}

static unsigned nr_to_add_locked(struct uaio_wq_account *account, unsigned need)
{
	unsigned room = account->max_workers - uaio_wq_counted_locked(account);
	unsigned nr = account->max_fixed > account->nr_workers
			      ? account->max_fixed - account->nr_workers
			      : 0;

	if (!account->nr_workers)
		nr = nr ? nr : 1;
	else if (!nr)
		nr = nr_missing_locked(account, need, uaio_now_ns());
	return nr < room ? nr : room;
}

/* Create nr workers. Return: how many of them could not be created. */
static unsigned add_workers(struct uaio_wq_account *account, unsigned nr)
{
	while (nr && uaio_wq_start_thread(account->crew, uaio_worker_main,
					  account) == 0)
		nr--;
	return nr;
}

/*
 * The manager runs one item itself, as there are no workers and none can be created.
 * Unbounded items are completed with an error instead.
 * Return: whether there was an item.
 */
static bool help(struct uaio_wq_account *account)
{
	const struct uaio_wq_account *bounded =
		&account->crew->accounts[UAIO_BOUNDED];
	struct uaio_worker self = { .account = account, .is_helper = true };
	struct uaio_work *work = NULL;

	list_init(&self.done);
	/* [step: HELP] */
	uaio_wq_lock(account);
	if (!account->nr_workers)
		work = uaio_wq_pop_locked(account);
	account->is_helped = work && account == bounded;
	if (!work)
		account->is_manager_told = false;
	uaio_wq_unlock(account);
	if (!work)
		return false;
	if (account != bounded) {
		uaio_wq_ops->refuse(work);
		return true;
	}
	uaio_wq_ops->run(work, &self);
	uaio_worker_flush(&self);
	uaio_wq_lock(account);
	account->is_helped = false;
	uaio_wq_unlock(account);
	return true;
}

/*
 * nr workers were counted in advance, but could not be created: correct the counts.
 * Other threads may have relied on these workers, so look for idle ones.
 * Return: when to check again, like look_after().
 */
static int64_t were_refused(struct uaio_wq_account *account, unsigned nr)
{
	struct uaio_wq_calls calls = { 0 };
	unsigned nr_left;

	/* [step: MANAGER_REFUSED] */
	uaio_wq_lock(account);
	account->nr_workers -= nr;
	account->is_refused = true;
	sub_relaxed(&account->nr_searching, nr);
	uaio_wq_ensure_locked(account, &calls);
	nr_left = account->nr_workers;
	/*
	 * is_manager_told stays set, so the manager checks again without being called.
	 * If there are no workers, it runs the items itself (help()), even if the limit
	 * is 0 by now.
	 */
	uaio_wq_unlock(account);
	(void)uaio_wq_deliver(account, &calls);
	if (nr_left)
		return REFUSED_NS;
	return help(account) ? 1 : 0;
}

/* Record that the system creates threads again. */
static void are_created(struct uaio_wq_account *account)
{
	uaio_wq_lock(account);
	account->is_refused = false;
	uaio_wq_unlock(account);
}

/*
 * Check whether the account needs more workers, and create them.
 * Return: after how many ns to check again; 0: when a thread calls the manager.
 */
static int64_t look_after(struct uaio_wq_account *account)
{
	unsigned need, nr, nr_refused;
	int64_t pause;
	bool was_refused;

	uaio_wq_lock(account);
	need = uaio_wq_need_locked(account);
	if (account->is_manager_told && !account->max_workers &&
	    !account->nr_workers) {
		/*
		 * The limit was set to 0 before the queued items had a worker. So the
		 * manager runs them itself.
		 */
		uaio_wq_unlock(account);
		return help(account) ? 1 : 0;
	}
	/* [step: MANAGER_DISARM] */
	if (!account->is_manager_told ||
	    !uaio_wq_lacks_workers_locked(account, need)) {
		account->is_manager_told = account->is_refused = false;
		uaio_wq_unlock(account);
		return 0;
	}
	/* [step: MANAGER_ADD] Count the workers before they are created. */
	nr = nr_to_add_locked(account, need);
	account->nr_workers += nr;
	pause = account->nr_workers < UAIO_WQ_ENOUGH ? UAIO_WQ_PATIENCE_NS
						     : ENOUGH_NS;
	add_relaxed(&account->nr_searching, nr);
	was_refused = nr && account->is_refused;
	uaio_wq_unlock(account);

	nr_refused = add_workers(account, nr);
	if (nr_refused)
		return were_refused(account, nr_refused);
	if (unlikely(was_refused))
		are_created(account);
	return pause;
}

/* Return: the time without work after which the manager of this crew ends. */
static int64_t idle_ns(const struct uaio_wq_crew *crew)
{
	return (crew == uaio_wq_crews ? IDLE_MS : UAIO_WQ_IDLE_OTHER_MS) *
	       1000000ll;
}

/*
 * Wait until a thread calls the manager.
 * Return: false if the manager must end.
 */
static bool await_call(struct uaio_wq_crew *crew)
{
	struct uaio_wq_manager *manager = &crew->manager;
	int64_t deadline = uaio_now_ns() + idle_ns(crew);
	bool is_late = false;

	for (;;) {
		uint32_t key = uaio_ec_prepare(&manager->calls);
		/*
		 * If all threads of the program have ended, the manager must end as
		 * well. Otherwise the process would go on.
		 */
		bool may_stay = is_late && !uaio_threads_are_last();
		bool was_called;

		uaio_lock(&manager->lock, UAIO_RANK_MANAGER);
		was_called = manager->is_called;
		manager->is_called = false;
		/*
		 * relaxed: a thread that enlists a request acquires this lock
		 * afterwards. So either the manager sees the request here, or that
		 * thread then sees that the manager has ended (C2)
		 */
		if (may_stay && load_relaxed(&crew->nr_enlisted)) {
			deadline = uaio_now_ns() + STAY_MS * 1000000ll;
			is_late = false;
		}
		is_late |= uaio_wq_is_unwanted(crew) &&
			   !load_relaxed(&crew->nr_enlisted);
		if (is_late && !was_called)
			manager->is_there = false;
		uaio_unlock(&manager->lock, UAIO_RANK_MANAGER);
		if (was_called || is_late) {
			uaio_ec_cancel(&manager->calls);
			return was_called;
		}
		is_late = uaio_ec_wait(&manager->calls, key, deadline) ==
			  -ETIMEDOUT;
	}
}

/*
 * Sleep for a fixed time. No thread wakes the manager meanwhile: as is_manager_told is
 * set, threads know that the manager has been called.
 */
static void pause_ns(int64_t ns)
{
	uint32_t word = 0;

	(void)uaio_sleep(&word, 0, uaio_now_ns() + ns);
}

/* Create the thread that a thread of another identity has asked for, if any. */
static void start_for_other(struct uaio_wq_manager *manager)
{
	struct uaio_wq_start *start;

	/*
	 * relaxed: the other thread has called the manager. If the manager misses the
	 * value here, it looks again after it has seen the call under the lock
	 */
	if (likely(!load_relaxed(&manager->start)))
		return;
	uaio_lock(&manager->lock, UAIO_RANK_MANAGER);
	start = manager->start;
	store_relaxed(&manager->start, NULL);
	if (start) {
		start->ret = uaio_thread_start(start->main, start->arg);
		/*
		 * relaxed: the other thread acquires the lock before it reads the
		 * result
		 */
		store_relaxed(&start->is_done, 1);
		uaio_wake(&start->is_done, 1);
	}
	uaio_unlock(&manager->lock, UAIO_RANK_MANAGER);
}

static void *manage(void *arg)
{
	struct uaio_wq_crew *crew = arg;

	uaio_thread_begin("uaio-manager");
	do {
		int64_t pause;

		do {
			int64_t other;

			start_for_other(&crew->manager);
			other = look_after(&crew->accounts[UAIO_UNBOUNDED]);
			pause = look_after(&crew->accounts[UAIO_BOUNDED]);
			if (!pause || (other && other < pause))
				pause = other;
			if (pause >= UAIO_WQ_PATIENCE_NS)
				pause_ns(pause);
		} while (pause);
	} while (await_call(crew));
	uaio_wq_end_thread(crew);
	return NULL;
}

static bool may_create_locked(const struct uaio_wq_crew *crew)
{
	/*
	 * relaxed: the identity does not change while the crew has requests or threads
	 */
	return !crew->manager.is_there &&
	       load_relaxed(&crew->identity) == uaio_identity_mine();
}

/*
 * Acquire the manager's lock. If the caller could create the manager, first wait until
 * no thread changes the ids of all threads (C4 of wq.h).
 */
static void lock_to_create(struct uaio_wq_crew *crew)
{
	uaio_lock(&crew->manager.lock, UAIO_RANK_MANAGER);
	while (uaio_wq_is_unwanted(crew) && may_create_locked(crew)) {
		uaio_unlock(&crew->manager.lock, UAIO_RANK_MANAGER);
		(void)uaio_sleep(&uaio_wq_ids_change, 1, UAIO_FOREVER);
		uaio_lock(&crew->manager.lock, UAIO_RANK_MANAGER);
	}
}

/*
 * [step: MANAGER_CALL] Create the manager. The manager's lock is held meanwhile, so
 * that no other thread relies on a manager whose creation then fails. Only a thread of
 * the crew's identity may create the manager (C1).
 */
static bool create_locked(struct uaio_wq_crew *crew)
{
	if (may_create_locked(crew))
		crew->manager.is_there =
			uaio_wq_start_thread(crew, manage, crew) == 0;
	return crew->manager.is_there;
}

bool uaio_manager_call(struct uaio_wq_crew *crew)
{
	struct uaio_wq_manager *manager = &crew->manager;
	bool was_there, is_there;

	lock_to_create(crew);
	was_there = manager->is_there;
	is_there = create_locked(crew);
	manager->is_called = is_there;
	uaio_unlock(&manager->lock, UAIO_RANK_MANAGER);
	if (was_there)
		uaio_ec_notify(&manager->calls, 1);
	return is_there;
}

bool uaio_manager_keep(struct uaio_wq_crew *crew)
{
	bool is_there;

	lock_to_create(crew);
	is_there = create_locked(crew);
	uaio_unlock(&crew->manager.lock, UAIO_RANK_MANAGER);
	return is_there;
}

bool uaio_manager_tell(struct uaio_wq_crew *crew)
{
	struct uaio_wq_manager *manager = &crew->manager;
	bool is_there;

	uaio_lock(&manager->lock, UAIO_RANK_MANAGER);
	is_there = manager->is_there;
	manager->is_called |= is_there;
	uaio_unlock(&manager->lock, UAIO_RANK_MANAGER);
	if (is_there)
		uaio_ec_notify(&manager->calls, 1);
	return is_there;
}

/*
 * Ask the manager to create a thread, and wait until it has. The manager may need a lock
 * that the caller holds, so do not wait for long.
 * Return: false if the manager does not create the thread.
 */
static bool ask_to_start(struct uaio_wq_manager *manager,
			 struct uaio_wq_start *start)
{
	int64_t deadline_ns = uaio_now_ns() + START_NS;
	bool is_asked;

	uaio_lock(&manager->lock, UAIO_RANK_MANAGER);
	is_asked = manager->is_there && !manager->start;
	if (is_asked) {
		store_relaxed(&manager->start, start);
		manager->is_called = true;
	}
	uaio_unlock(&manager->lock, UAIO_RANK_MANAGER);
	if (!is_asked)
		return false;
	uaio_ec_notify(&manager->calls, 1);
	/* relaxed: the result is read after the lock has been acquired */
	while (!load_relaxed(&start->is_done) && uaio_now_ns() < deadline_ns)
		(void)uaio_sleep(&start->is_done, 0, deadline_ns);
	uaio_lock(&manager->lock, UAIO_RANK_MANAGER);
	if (manager->start == start)
		store_relaxed(&manager->start, NULL);
	uaio_unlock(&manager->lock, UAIO_RANK_MANAGER);
	return load_relaxed(&start->is_done);
}

int uaio_wq_start_for_all(void *(*main)(void *), void *arg)
{
	struct uaio_wq_start start = { .main = main, .arg = arg };

	if (uaio_identity_mine() != UAIO_IDENTITY_OF_PROCESS &&
	    ask_to_start(&uaio_wq_crews[0].manager, &start))
		return start.ret;
	return uaio_thread_start(main, arg);
}

bool uaio_manager_is_there(struct uaio_wq_crew *crew)
{
	bool is_there;

	uaio_lock(&crew->manager.lock, UAIO_RANK_MANAGER);
	is_there = crew->manager.is_there;
	uaio_unlock(&crew->manager.lock, UAIO_RANK_MANAGER);
	return is_there;
}

/*
 * Return: whether the oldest public item has waited too long although a worker should
 * have run it. Private lists need no check. An owner that is awake takes its items at
 * once; if the owner is not awake, other threads are woken for them.
 */
static bool is_starved_locked(const struct uaio_wq_account *account,
			      int64_t now)
{
	const struct uaio_work *oldest;

	if (list_is_empty(&account->public))
		return false;
	oldest = container_of(account->public.next, struct uaio_work, link);
	/*
	 * relaxed: the result is only a hint, so the count may be old. Without workers
	 * an item also starves, as the manager should have created a worker.
	 */
	return now - oldest->queued_ns > UAIO_WQ_STARVED_NS &&
	       (load_relaxed(&account->nr_searching) || !account->nr_workers);
}

static bool account_is_starved(struct uaio_wq_account *account, int64_t now)
{
	bool is_starved;

	/* relaxed: an item that is queued just now has not waited for long */
	if (!load_relaxed(&account->nr_public))
		return false;
	uaio_wq_lock(account);
	is_starved = is_starved_locked(account, now);
	uaio_wq_unlock(account);
	return is_starved;
}

bool uaio_wq_is_starved(int64_t now)
{
	/* relaxed: the result is only a hint */
	uint32_t nr_crews = load_relaxed(&uaio_wq_nr_crews);

	for (uint32_t i = 0; i < nr_crews; i++)
		for (unsigned k = 0; k < UAIO_NR_ACCOUNTS; k++)
			if (account_is_starved(&uaio_wq_crews[i].accounts[k],
					       now))
				return true;
	return false;
}
