/* SPDX-License-Identifier: MIT */
/*
 * Crews (wq.h). A crew has the workers that execute requests of all threads with one
 * identity (credentials and namespaces). This file has the state of all crews. Tested
 * by src/proc/test-identity.c and test-wq.c.
 */
#include <pthread.h>

#include "base/check.h"
#include "proc/thread.h"
#include "wq/wqint.h"

enum {
	/*
	 * Default limits of an account. Of 292 bounded workers one device may occupy
	 * 256 (device.c). That suffices, because programs rarely have more requests
	 * outstanding on a device that answers late.
	 */
	MAX_BOUNDED = 292,
	MAX_UNBOUNDED = 256,
	MAX_ITEMS = 64,
	/*
	 * time to wake a worker: a first estimate, which time_wake_locked() corrects
	 */
	WAKE_NS = 10000,
	/*
	 * How long a change of the ids of all threads waits for workers of other
	 * identities (C4), and how long it sleeps at most before it checks again.
	 */
	PATIENCE_NS = 1000000000,
	PAUSE_NS = 10000000,
};

struct uaio_wq_crew uaio_wq_crews[UAIO_WQ_CREWS];
uint32_t uaio_wq_nr_crews;
const struct uaio_wq_ops *uaio_wq_ops;
struct uaio_wq_tuning uaio_wq_tuning;

uint32_t uaio_wq_ids_change;

static struct uaio_lock crews_lock; /* rank CREWS */

/*
 * Threads of crews other than crew 0 that have ended: each one waits for the end of the
 * one before. So a thread that waits for the last one waits for all. Under crews_lock.
 */
static struct {
	bool is_any;
	pthread_t last;
	uint32_t nr; /* atomic, futex: counts the threads */
} ended;

static void init_crew(struct uaio_wq_crew *crew, const unsigned *max_workers)
{
	static const char *const names[UAIO_NR_ACCOUNTS] = {
		[UAIO_BOUNDED] = "uaio-bound",
		[UAIO_UNBOUNDED] = "uaio-unbound",
	};

	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		struct uaio_wq_account *account = &crew->accounts[i];

		*account = (struct uaio_wq_account){
			.thread_name = names[i],
			.crew = crew,
			.max_workers = max_workers[i],
			.max_items = MAX_ITEMS,
			.wake_ns = WAKE_NS,
			.lists = account->lists,
		};
		list_init(&account->public);
		list_init(&account->workers);
		uaio_wq_devices_init(account);
	}
	crew->manager = (struct uaio_wq_manager){ 0 };
	store_relaxed(&crew->nr_enlisted, 0);
	store_relaxed(&crew->nr_threads, 0);
}

void uaio_wq_init(const struct uaio_wq_ops *ops)
{
	static const unsigned max_workers[UAIO_NR_ACCOUNTS] = {
		[UAIO_BOUNDED] = MAX_BOUNDED,
		[UAIO_UNBOUNDED] = MAX_UNBOUNDED,
	};

	uaio_wq_ops = ops;
	uaio_wq_tuning = (struct uaio_wq_tuning){
		.placement = UAIO_PLACE_PACKED,
		.batch = 64,
		.may_spin = true,
	};
	crews_lock = (struct uaio_lock){ 0 };
	store_relaxed(&uaio_wq_ids_change, 0);
	ended.is_any = false;
	init_crew(&uaio_wq_crews[0], max_workers);
	store_relaxed(&uaio_wq_nr_crews, 1);
}

void uaio_wq_tune(const struct uaio_wq_tuning *tuning)
{
	uaio_wq_tuning = *tuning;
}

/* Return: whether the crew has no request, manager or worker left (C2). */
static bool is_over_locked(struct uaio_wq_crew *crew)
{
	unsigned nr = 0;

	/* relaxed: nr_enlisted changes only under crews_lock, which the caller holds */
	if (load_relaxed(&crew->nr_enlisted) || uaio_manager_is_there(crew))
		return false;
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		uaio_wq_lock(&crew->accounts[i]);
		nr += crew->accounts[i].nr_workers;
		uaio_wq_unlock(&crew->accounts[i]);
	}
	return !nr;
}

/*
 * Set the limits of a crew that served another identity before. The crew's
 * counts stay, as other threads may still read them.
 */
static void limit(struct uaio_wq_crew *crew, const unsigned *max_workers)
{
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		uaio_wq_lock(&crew->accounts[i]);
		crew->accounts[i].max_workers = max_workers[i];
		uaio_wq_unlock(&crew->accounts[i]);
	}
}

/*
 * Form a crew for the calling thread's identity.
 * Return: NULL if all crews are in use.
 */
static struct uaio_wq_crew *form_locked(void)
{
	uint32_t nr = uaio_wq_nr_crews, i = 1;
	unsigned max_workers[UAIO_NR_ACCOUNTS];
	struct uaio_wq_crew *crew;

	while (i < nr && !is_over_locked(&uaio_wq_crews[i]))
		i++;
	if (i == UAIO_WQ_CREWS)
		return NULL;
	crew = &uaio_wq_crews[i];
	for (unsigned k = 0; k < UAIO_NR_ACCOUNTS; k++) {
		struct uaio_wq_account *account = &uaio_wq_crews[0].accounts[k];

		uaio_wq_lock(account);
		/*
		 * At least one worker, even if the limit is 0, as only threads of this
		 * crew may execute its items (I8).
		 */
		max_workers[k] =
			account->max_workers ? account->max_workers : 1;
		uaio_wq_unlock(account);
	}
	if (i == nr)
		init_crew(crew, max_workers);
	else
		limit(crew, max_workers);
	/*
	 * relaxed, both: another thread may read the values just now. If it has a
	 * request in this crew, the values do not change. If not, the old and the new
	 * values both differ from the identity and domain of that thread.
	 */
	store_relaxed(&crew->identity, uaio_identity_mine());
	store_relaxed(&crew->domain, uaio_identity_domain());
	/*
	 * [MB:crews] release: this thread has initialised the crew. Pairs with
	 * uaio_wq_count_crews().
	 */
	if (i == nr)
		store_release(&uaio_wq_nr_crews, nr + 1);
	return crew;
}

uint32_t uaio_wq_count_crews(void)
{
	/* [MB:crews] acquire: the crews up to this count are initialised. */
	return load_acquire(&uaio_wq_nr_crews);
}

static struct uaio_wq_crew *find_locked(void)
{
	/*
	 * relaxed, both: the values change only under crews_lock, which the caller
	 * holds
	 */
	uint32_t nr = load_relaxed(&uaio_wq_nr_crews);

	for (uint32_t i = 1; i < nr; i++)
		if (load_relaxed(&uaio_wq_crews[i].identity) ==
		    uaio_identity_mine())
			return &uaio_wq_crews[i];
	return NULL;
}

unsigned uaio_wq_enlist_slowly(void)
{
	struct uaio_wq_crew *crew = &uaio_wq_crews[0];

	uaio_identity_check();
	if (uaio_identity_mine() == UAIO_IDENTITY_OF_PROCESS) {
		/*
		 * The request belongs to crew 0. If uaio_wq_hold() cannot create the
		 * manager, the submitter executes the request itself.
		 */
		uaio_wq_hold();
		return 0;
	}
	uaio_lock(&crews_lock, UAIO_RANK_CREWS);
	crew = find_locked();
	if (!crew)
		crew = form_locked();
	if (crew)
		store_relaxed(&crew->nr_enlisted, crew->nr_enlisted + 1);
	uaio_unlock(&crews_lock, UAIO_RANK_CREWS);
	if (!crew)
		return UAIO_WQ_NO_CREW;
	(void)uaio_manager_keep(crew);
	return (unsigned)(crew - uaio_wq_crews);
}

void uaio_wq_enlist_in(unsigned crew)
{
	if (!crew)
		return;
	uaio_lock(&crews_lock, UAIO_RANK_CREWS);
	store_relaxed(&uaio_wq_crews[crew].nr_enlisted,
		      uaio_wq_crews[crew].nr_enlisted + 1);
	uaio_unlock(&crews_lock, UAIO_RANK_CREWS);
}

void uaio_wq_delist_slowly(unsigned crew)
{
	uaio_lock(&crews_lock, UAIO_RANK_CREWS);
	store_relaxed(&uaio_wq_crews[crew].nr_enlisted,
		      uaio_wq_crews[crew].nr_enlisted - 1);
	uaio_unlock(&crews_lock, UAIO_RANK_CREWS);
}

void uaio_wq_hold(void)
{
	/*
	 * relaxed: the manager reads nr_enlisted under the manager's lock, which this
	 * thread acquires next
	 */
	store_relaxed(&uaio_wq_crews[0].nr_enlisted, 1);
	(void)uaio_manager_keep(&uaio_wq_crews[0]);
}

bool uaio_wq_is_of_my_domain(const struct uaio_work *work)
{
	/*
	 * relaxed: the crew's domain does not change while the crew counts the item's
	 * request (wq.h, C2)
	 */
	return load_relaxed(&uaio_wq_crews[work->crew].domain) ==
	       uaio_identity_domain();
}

bool uaio_wq_is_of(const struct uaio_work *work, uint32_t identity)
{
	/*
	 * relaxed: the crew's identity does not change while the crew counts the item's
	 * request (wq.h, C2)
	 */
	return load_relaxed(&uaio_wq_crews[work->crew].identity) == identity;
}

struct uaio_wq_crew *uaio_wq_my_crew(void)
{
	struct uaio_wq_crew *crew = NULL;

	if (likely(!uaio_identities_are_many()) ||
	    uaio_identity_mine() == UAIO_IDENTITY_OF_PROCESS)
		return &uaio_wq_crews[0];
	uaio_lock(&crews_lock, UAIO_RANK_CREWS);
	crew = find_locked();
	uaio_unlock(&crews_lock, UAIO_RANK_CREWS);
	return crew;
}

/*
 * The ends of threads, and changes of the ids of all threads (C4)
 */

int uaio_wq_start_thread(struct uaio_wq_crew *crew, void *(*main)(void *),
			 void *arg)
{
	int ret;

	if (crew == &uaio_wq_crews[0])
		return uaio_thread_start(main, arg);
	/*
	 * relaxed: if this thread creates the manager, it holds the manager's lock, which
	 * uaio_wq_ids_begin() acquires. If it creates a worker, it is counted itself
	 */
	add_relaxed(&crew->nr_threads, 1);
	ret = uaio_thread_start_joinable(main, arg);
	if (ret < 0)
		sub_relaxed(&crew->nr_threads, 1);
	return ret;
}

/* Wait until the thread has ended for the C library, too. */
static void join(pthread_t thread)
{
	int state;

	/* pthread_join() would act on a pending pthread_cancel(). */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	(void)pthread_join(thread, NULL);
	(void)pthread_setcancelstate(state, NULL);
}

void uaio_wq_end_thread(struct uaio_wq_crew *crew)
{
	bool has_former;
	pthread_t former;

	if (crew != &uaio_wq_crews[0]) {
		uaio_lock(&crews_lock, UAIO_RANK_CREWS);
		has_former = ended.is_any;
		former = ended.last;
		ended.is_any = true;
		ended.last = pthread_self();
		/* relaxed, both: changed here under the lock */
		sub_relaxed(&crew->nr_threads, 1);
		add_relaxed(&ended.nr, 1);
		uaio_unlock(&crews_lock, UAIO_RANK_CREWS);
		/* relaxed: without the flag no thread sleeps on ended.nr */
		if (load_relaxed(&uaio_wq_ids_change))
			uaio_wake(&ended.nr, 1);
		if (has_former)
			join(former);
	}
	uaio_thread_end();
}

/* Have the crew's idle threads check uaio_wq_is_unwanted(). */
static void rouse(struct uaio_wq_crew *crew)
{
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		uaio_wq_lock(&crew->accounts[i]);
		uaio_wq_unlock(&crew->accounts[i]);
		uaio_ec_notify(&crew->accounts[i].sleepers, ~0u);
	}
	uaio_lock(&crew->manager.lock, UAIO_RANK_MANAGER);
	uaio_unlock(&crew->manager.lock, UAIO_RANK_MANAGER);
	uaio_ec_notify(&crew->manager.calls, 1);
}

/* Return: whether the crew has no thread but a manager that must stay (C2). */
static bool is_bare_locked(struct uaio_wq_crew *crew)
{
	/* relaxed, both: the counts sink only under crews_lock, which the caller holds */
	uint32_t nr = load_relaxed(&crew->nr_threads);

	return !nr || (nr == 1 && load_relaxed(&crew->nr_enlisted) &&
		       uaio_manager_is_there(crew));
}

/* Wait until the crew has no idle thread that may end, at most until the deadline. */
static void await_ends(struct uaio_wq_crew *crew, int64_t deadline_ns)
{
	for (;;) {
		int64_t now = uaio_now_ns();
		uint32_t nr_ended;
		bool is_bare;

		rouse(crew);
		uaio_lock(&crews_lock, UAIO_RANK_CREWS);
		is_bare = is_bare_locked(crew);
		nr_ended = load_relaxed(&ended.nr);
		uaio_unlock(&crews_lock, UAIO_RANK_CREWS);
		if (is_bare || now >= deadline_ns)
			return;
		/* No thread reports that a crew has no more requests: look again. */
		(void)uaio_sleep(&ended.nr, nr_ended,
				 now + PAUSE_NS < deadline_ns ? now + PAUSE_NS
							      : deadline_ns);
	}
}

static bool set_ids_change(void)
{
	bool is_set;

	uaio_lock(&crews_lock, UAIO_RANK_CREWS);
	is_set = !load_relaxed(&uaio_wq_ids_change);
	store_relaxed(&uaio_wq_ids_change, 1);
	uaio_unlock(&crews_lock, UAIO_RANK_CREWS);
	return is_set;
}

void uaio_wq_ids_begin(void)
{
	int64_t deadline_ns;
	pthread_t last;
	bool has_last;
	uint32_t nr;

	while (!set_ids_change())
		(void)uaio_sleep(&uaio_wq_ids_change, 1, UAIO_FOREVER);
	nr = uaio_wq_count_crews();
	deadline_ns = uaio_now_ns() + PATIENCE_NS;
	for (uint32_t i = 1; i < nr; i++)
		rouse(&uaio_wq_crews[i]);
	for (uint32_t i = 1; i < nr; i++)
		await_ends(&uaio_wq_crews[i], deadline_ns);
	uaio_lock(&crews_lock, UAIO_RANK_CREWS);
	has_last = ended.is_any;
	last = ended.last;
	ended.is_any = false;
	uaio_unlock(&crews_lock, UAIO_RANK_CREWS);
	if (has_last)
		join(last);
}

void uaio_wq_ids_end(void)
{
	uaio_lock(&crews_lock, UAIO_RANK_CREWS);
	store_relaxed(&uaio_wq_ids_change, 0);
	uaio_unlock(&crews_lock, UAIO_RANK_CREWS);
	uaio_wake(&uaio_wq_ids_change, ~0u);
}
