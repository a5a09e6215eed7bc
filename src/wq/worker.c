/* SPDX-License-Identifier: MIT */
/*
 * Workers: which items they take, and when they sleep, spin (poll before sleeping) and
 * end (wq.h). Tested by test-queue*.c.
 */
#include <errno.h>

#include "base/check.h"
#include "base/cycles.h"
#include "base/sys.h"
#include "proc/thread.h"
#include "wq/wqint.h"

enum {
	/* A worker that has been idle for this time ends. */
	IDLE_MS = 5000,
	/*
	 * The account records the smallest number of idle workers (least_idle) in each
	 * period of this length. That number of workers may end in the next period.
	 */
	LEAST_NS = 100000000,
	/*
	 * After a fixed worker has run this many items of its own list in a row, it
	 * looks at the public list (I6).
	 */
	STREAK = 16,
	/*
	 * If this many more spins have failed than succeeded, workers do not spin.
	 * Threads that sleep instead of spinning also record whether a spin would have
	 * found work, so workers may spin again.
	 */
	FRUITLESS_MAX = 8,
	WAKE_NS_MIN = 2000,
	WAKE_NS_MAX = 50000,
	/*
	 * After this many sleeps the count of failed spins is reset, so that a worker
	 * spins again.
	 */
	SLEEPS_PER_TRY = 64,
	SPINS_PER_LOOK = 16, /* spins between two reads of the clock */
};

/*
 * Roles
 */

static void give_up_list_locked(struct uaio_worker *self)
{
	struct uaio_wq_account *account = self->account;

	account->owners[self->index] = NULL;
	account->nr_fixed--;
	uaio_wq_spill_locked(account, self->index);
	self->list = NULL;
}

static void take_up_list_locked(struct uaio_worker *self)
{
	struct uaio_wq_account *account = self->account;
	unsigned index = 0;

	while (account->owners[index])
		index++;
	uaio_worklist_init(&account->lists[index]);
	account->owners[index] = self;
	account->nr_fixed++;
	self->index = index;
	self->list = &account->lists[index];
}

/*
 * If max_fixed has changed, the worker may have to give up its private list, or take
 * one. Only the first max_fixed lists have owners, which are the fixed workers.
 * Return: whether items have moved to the public list.
 */
static bool take_role_locked(struct uaio_worker *self)
{
	struct uaio_wq_account *account = self->account;
	bool gives_up = self->list && self->index >= account->max_fixed;

	if (gives_up)
		give_up_list_locked(self);
	if (!self->list && account->nr_fixed < account->max_fixed)
		take_up_list_locked(self);
	return gives_up;
}

/*
 * Taking
 */

/*
 * Count an item that has waited for long while a worker slept, which should not happen.
 */
static void count_late_locked(struct uaio_wq_account *account,
			      const struct uaio_work *work)
{
	if (account->nr_idle &&
	    uaio_now_ns() - work->queued_ns > UAIO_WQ_STALE_NS)
		account->counters.nr_late++;
}

static struct uaio_work *steal_locked(struct uaio_worker *self)
{
	struct uaio_wq_account *account = self->account;

	if (!account->nr_fixed)
		return NULL;
	for (unsigned i = 0; i < UAIO_WQ_FIXED_MAX; i++) {
		struct uaio_work *work;

		if (!uaio_wq_is_open_locked(account, i))
			continue;
		/* [step: STEAL] */
		work = uaio_worklist_take(&account->lists[i]);
		if (work) {
			account->counters.nr_stolen++;
			return work;
		}
	}
	return NULL;
}

static struct uaio_work *take_locked(struct uaio_worker *self)
{
	struct uaio_work *work = uaio_wq_pop_locked(self->account);

	/*
	 * [step: SLEEP_RECHECK] Other threads put items in only under the lock, which
	 * this thread holds. So a list that this thread finds empty stays empty.
	 */
	if (!work && self->list)
		work = uaio_worklist_take(self->list);
	if (!work)
		work = steal_locked(self);
	if (work)
		count_late_locked(self->account, work);
	return work;
}

/*
 * [step: HAND_OFF] The worker is about to block: from here on no other thread relies on
 * this worker (I4). is_patient: nor does the limit count it (I9).
 */
static void block_locked(struct uaio_worker *self, bool is_patient,
			 struct uaio_wq_calls *calls)
{
	struct uaio_wq_account *account = self->account;

	/*
	 * relaxed, both: other threads that rely on the values read them under the
	 * lock, which this thread holds
	 */
	store_relaxed(&self->busy_since_ns, uaio_now_ns());
	sub_relaxed(&account->nr_searching, 1);
	self->is_patient =
		is_patient && account->nr_patient < UAIO_WQ_PATIENT_MAX;
	account->nr_patient += self->is_patient;
	uaio_wq_ensure_locked(account, calls);
}

static bool block(struct uaio_worker *self, bool is_patient)
{
	struct uaio_wq_calls calls = { 0 };

	/* relaxed: only this thread writes busy_since_ns */
	if (self->is_helper || load_relaxed(&self->busy_since_ns))
		return false;
	uaio_wq_lock(self->account);
	block_locked(self, is_patient, &calls);
	uaio_wq_unlock(self->account);
	uaio_wq_deliver_from_worker(self->account, &calls);
	return true;
}

bool uaio_wq_blocks(struct uaio_worker *self)
{
	return block(self, false);
}

/* From now on the limit counts this worker again. */
static __attribute__((noinline)) void count_again(struct uaio_worker *self)
{
	uaio_wq_lock(self->account);
	self->is_patient = false;
	self->account->nr_patient--;
	uaio_wq_unlock(self->account);
}

void uaio_wq_returned(struct uaio_worker *self)
{
	if (self->is_helper)
		return;
	if (unlikely(self->is_patient))
		count_again(self);
	/*
	 * [step: RETURNED] relaxed, both: other threads may see the new values late,
	 * which does no harm (wqint.h)
	 */
	add_relaxed(&self->account->nr_searching, 1);
	store_relaxed(&self->busy_since_ns, 0);
}

void uaio_worker_flush(struct uaio_worker *self)
{
	if (self->nr_done)
		uaio_wq_ops->flush(self);
}

/*
 * Take the next item of the worker's own list, without the lock. Before an item that may
 * block, tell the manager under the lock.
 */
static struct uaio_work *take_own(struct uaio_worker *self)
{
	struct uaio_work *work;

	/*
	 * relaxed: if this thread misses an item here, it finds the item under the lock
	 * before it sleeps
	 */
	if (self->streak >= STREAK && load_relaxed(&self->account->nr_public))
		return NULL;
	work = uaio_worklist_take(self->list);
	if (!work)
		return NULL;
	self->streak++;
	if (work->may_block) {
		/*
		 * relaxed: block() then publishes the device under the lock
		 */
		store_relaxed(&self->device, work->device);
		uaio_worker_flush(self);
		(void)block(self, work->is_patient);
	}
	return work;
}

/*
 * Sleeping
 */

static bool has_work(const struct uaio_worker *self)
{
	/* relaxed: before it sleeps, the worker checks again under the lock */
	return load_relaxed(&self->account->nr_public) ||
	       (self->list && uaio_worklist_count(self->list));
}

/*
 * Spin (poll for work without sleeping), but no longer than waking this worker would
 * take. Only one worker spins at a time. The spinning worker does not hold the lock,
 * because threads need the lock to queue work.
 */
static void spin(struct uaio_worker *self)
{
	struct uaio_wq_account *account = self->account;
	uint32_t none = 0;
	bool is_worth_it = false;
	int64_t until;

	/* relaxed throughout: the values are estimates */
	if (account != &uaio_wq_crews[0].accounts[UAIO_BOUNDED] ||
	    !uaio_wq_may_spin() || !uaio_wq_spin_ns() ||
	    !cas_relaxed(&account->has_spinner, &none, 1))
		return;
	until = uaio_now_ns() + load_relaxed(&account->wake_ns);
	do {
		for (unsigned i = 0; i < SPINS_PER_LOOK && !is_worth_it; i++) {
			uaio_cpu_relax();
			is_worth_it = has_work(self);
		}
	} while (!is_worth_it && uaio_now_ns() < until);
	uaio_wq_has_spun(is_worth_it);
	store_relaxed(&account->has_spinner, 0);
}

/* Measure how long waking a worker takes, as a worker spins no longer than that. */
static void time_wake_locked(struct uaio_wq_account *account)
{
	int64_t cost = uaio_now_ns() - account->granted_ns;
	int64_t wake = load_relaxed(&account->wake_ns);

	/* The average of the measured times rises fast and falls slowly. */
	wake += (cost - wake) / (cost > wake ? 2 : 16);
	wake = wake < WAKE_NS_MIN ? WAKE_NS_MIN : wake;
	wake = wake > WAKE_NS_MAX ? WAKE_NS_MAX : wake;
	/* relaxed, both accesses: threads that spin use wake_ns as an estimate */
	store_relaxed(&account->wake_ns, wake);
}

/*
 * If a client submits one request at a time, each request wakes another worker in turn.
 * Then no worker is idle for long, even if many are not needed. So the account records
 * how many workers were asleep at every moment of the last LEAST_NS. That many workers
 * were not needed, and may end.
 * Return: whether this worker, which is about to sleep, is not needed.
 */
static bool is_surplus_locked(const struct uaio_worker *self, int64_t now)
{
	struct uaio_wq_account *account = self->account;

	if (account->nr_workers <= UAIO_WQ_ENOUGH || self->list)
		return false;
	if (now - account->least_since_ns > LEAST_NS) {
		account->nr_surplus = account->least_idle;
		account->least_idle = account->nr_idle;
		account->least_since_ns = now;
	}
	if (!account->nr_surplus)
		return false;
	account->nr_surplus--;
	if (account->least_idle)
		account->least_idle--;
	return true;
}

static int64_t idle_until_locked(const struct uaio_worker *self, int64_t since)
{
	bool is_usual = self->account->nr_workers <= UAIO_WQ_ENOUGH &&
			self->account->crew == uaio_wq_crews;

	if (self->list)
		return UAIO_FOREVER;
	return since +
	       (is_usual ? IDLE_MS : (int)UAIO_WQ_IDLE_OTHER_MS) * 1000000ll;
}

/*
 * Sleep once.
 * Return: whether the worker has been idle long enough to end.
 */
static bool sleep_once_locked(struct uaio_worker *self, int64_t since)
{
	struct uaio_wq_account *account = self->account;
	int64_t until = idle_until_locked(self, since);
	uint32_t key = uaio_ec_prepare(&account->sleepers);
	int ret;

	uaio_wq_unlock(account);
	ret = uaio_ec_wait(&account->sleepers, key, until);
	uaio_wq_lock(account);
	/*
	 * Other workers may have ended meanwhile. If so, this worker may be idle for a
	 * longer time (idle_until_locked()).
	 */
	return ret == -ETIMEDOUT && until >= idle_until_locked(self, since);
}

/*
 * Sleep until there may be work.
 * Return: false if the worker was idle for too long, and must end. It is then no longer
 * counted.
 */
static bool sleep_locked(struct uaio_worker *self)
{
	struct uaio_wq_account *account = self->account;
	int64_t since = uaio_now_ns();
	bool is_late = is_surplus_locked(self, since), has_slept = false;

	/* [step: SLEEP_IDLE] */
	sub_relaxed(&account->nr_searching, 1);
	account->nr_idle++;
	if (++account->nr_sleeps % SLEEPS_PER_TRY == 0)
		store_relaxed(&account->nr_fruitless, 0);
	self->is_asleep = true;
	while (!account->nr_credits && !is_late &&
	       !(uaio_wq_is_unwanted(account->crew) && !self->list)) {
		is_late = sleep_once_locked(self, since);
		has_slept = true;
	}
	self->is_asleep = false;
	if (!account->nr_credits) {
		/* [step: SLEEP_LEAVE] */
		account->nr_idle--;
		account->nr_workers--;
		list_remove(&self->node);
		return false;
	}
	/*
	 * [step: SLEEP_CREDIT] The thread that granted the credit (wake-up) has counted
	 * this worker as searching.
	 */
	account->nr_credits--;
	if (has_slept)
		time_wake_locked(account);
	return true;
}

static bool must_leave_locked(const struct uaio_worker *self)
{
	const struct uaio_wq_account *account = self->account;
	unsigned nr = uaio_wq_counted_locked(account);

	return nr > account->max_workers &&
	       (nr > 1 ||
		(!load_relaxed(&account->nr_public) && !account->nr_held));
}

static void leave_locked(struct uaio_worker *self, struct uaio_wq_calls *calls)
{
	struct uaio_wq_account *account = self->account;

	/* [step: LEAVE] */
	if (self->list)
		give_up_list_locked(self);
	sub_relaxed(&account->nr_searching, 1);
	account->nr_workers--;
	list_remove(&self->node);
	uaio_wq_ensure_locked(account, calls);
}

/*
 * Move short items (which cannot block) from the public list to the worker's own list,
 * up to a batch. The worker takes items from its own list without the lock, and other
 * threads can still steal them.
 */
static void take_share_locked(struct uaio_worker *self)
{
	struct uaio_wq_account *account = self->account;
	unsigned nr = uaio_wq_tuning.batch;
	struct uaio_work *work;

	while (--nr && (work = uaio_wq_first_short_locked(account)) &&
	       uaio_worklist_has_room(self->list, account->max_items)) {
		(void)uaio_wq_pop_public_locked(account);
		/* [step: TAKE_SHARE] */
		account->counters.nr_shared++;
		uaio_worklist_put(self->list, work, &work->slot);
	}
}

/*
 * Take an item from any list.
 * Return: the item. NULL if the worker must end (*ret_leaves); or if it must first wake
 * threads, or complete the items that it has run, and then call take_any() again.
 */
static struct uaio_work *take_any(struct uaio_worker *self, bool *ret_leaves)
{
	struct uaio_wq_account *account = self->account;
	struct uaio_wq_calls calls = { 0 };
	struct uaio_work *work;

	self->streak = 0;
	uaio_wq_lock(account);
	for (;;) {
		if (take_role_locked(self))
			uaio_wq_ensure_locked(account, &calls);
		*ret_leaves = must_leave_locked(self);
		work = *ret_leaves ? NULL : take_locked(self);
		if (work || self->nr_done || calls.nr_wake ||
		    calls.wakes_manager)
			break;
		if (*ret_leaves) {
			leave_locked(self, &calls);
			break;
		}
		*ret_leaves = !sleep_locked(self);
		if (*ret_leaves)
			break;
	}
	if (work && work->may_block) {
		/*
		 * relaxed: device.c reads the device under the lock, which this thread
		 * holds
		 */
		store_relaxed(&self->device, work->device);
		block_locked(self, work->is_patient, &calls);
	} else if (work && self->list) {
		take_share_locked(self);
	}
	uaio_wq_unlock(account);
	uaio_wq_deliver_from_worker(account, &calls);
	return work;
}

/* Return: the item to run next; NULL if the worker has to end. */
static struct uaio_work *next_work(struct uaio_worker *self)
{
	struct uaio_work *work = NULL;
	bool leaves = false;

	if (self->nr_done >= uaio_wq_tuning.batch)
		uaio_worker_flush(self);
	while (!work && !leaves) {
		if (self->list)
			work = take_own(self);
		/* relaxed: before it sleeps, the worker checks again under the lock */
		if (!work && !load_relaxed(&self->account->nr_public)) {
			uaio_worker_flush(self);
			spin(self);
			if (self->list)
				work = take_own(self);
		}
		if (!work) {
			bool has_done = self->nr_done;

			work = take_any(self, &leaves);
			leaves = leaves && !has_done;
		}
		if (!work || work->may_block)
			uaio_worker_flush(self);
	}
	/* relaxed: an estimate, read by threads that consider spinning */
	if (work)
		store_relaxed(&self->account->is_quick, !work->may_block);
	return work;
}

void *uaio_worker_main(void *arg)
{
	struct uaio_worker self = { .account = arg };
	struct uaio_work *work;

	uaio_thread_begin(self.account->thread_name);
	list_init(&self.done);
	self.tid = (uint32_t)sys_gettid();
	uaio_wq_lock(self.account);
	list_add_tail(&self.account->workers, &self.node);
	uaio_wq_unlock(self.account);
	while ((work = next_work(&self))) {
		uaio_thread_follow(&self.nr_binds);
		uaio_wq_ops->run(work, &self);
	}
	uaio_wq_end_thread(self.account->crew);
	return NULL;
}

/*
 * Spinning (polling without sleeping) in threads that wait until a worker completes a
 * request
 */

int64_t uaio_wq_spin_ns(void)
{
	const struct uaio_wq_account *account =
		&uaio_wq_crews[0].accounts[UAIO_BOUNDED];

	/* relaxed throughout: estimates */
	if (likely(!load_relaxed(&account->is_quick)) ||
	    !uaio_wq_tuning.may_spin || !uaio_cpus_are_many())
		return 0;
	return load_relaxed(&account->wake_ns);
}

bool uaio_wq_may_spin(void)
{
	/* relaxed: the count is an estimate */
	return load_relaxed(
		       &uaio_wq_crews[0].accounts[UAIO_BOUNDED].nr_fruitless) <
	       FRUITLESS_MAX;
}

void uaio_wq_has_spun(bool was_worth_it)
{
	struct uaio_wq_account *account =
		&uaio_wq_crews[0].accounts[UAIO_BOUNDED];
	uint32_t nr = load_relaxed(&account->nr_fruitless);

	/* relaxed: the count is an estimate */
	if (!was_worth_it)
		store_relaxed(&account->nr_fruitless, nr + 1);
	else if (nr)
		store_relaxed(&account->nr_fruitless, nr - 1);
}
