/* SPDX-License-Identifier: MIT */
#include "proc/former.h"

#include <errno.h>

#include "base/lock.h"
#include "base/sleep.h"

enum {
	/*
	 * how many changes of ids the library remembers; for each it stores the ids
	 * that the process had after that change
	 */
	NR_KNOWN = 64,
};

/*
 * How long a change of ids waits until the workers' system calls end:
 * PATIENCE_OF_ALL_NS if the thread that changes the ids has all rights on files, else
 * PATIENCE_NS. If a call takes longer, the change fails. But if that thread has all
 * rights, and each unfinished call is PLAIN (see below), the change interrupts these
 * calls instead.
 */
#define PATIENCE_NS INT64_C(5000000000)
#define PATIENCE_OF_ALL_NS INT64_C(1000000000)
static int64_t patience_ns = PATIENCE_NS;

uint32_t uaio_former_is_watched;
uint32_t uaio_former_nr;

/*
 * To count a system call (F2), a worker adds one of these values to nr_calls: GOES_BACK
 * if the worker may have taken former ids (former.h), else PLAIN. A change of ids must
 * wait for a worker with former ids, because the kernel could refuse the change in this
 * worker. If a change succeeds only in some threads, the C library kills the process.
 */
enum { PLAIN = 1, GOES_BACK = 1 << 16 };
static uint32_t nr_calls;    /* atomic, futex */
static uint32_t is_changing; /* atomic, futex */
/*
 * accessed only while is_changing is set; true: a thread without all rights on files
 * has changed the ids
 */
static bool was_without;

static struct {
	struct uaio_lock lock; /* rank IDENTITY */

	/* under lock: the ids that the process had after the change whose number is `nr` */
	struct known {
		bool is_known;
		uint32_t nr;
		struct uaio_attributes attributes;
	} known[NR_KNOWN];
} table;

/*
 * atomic: the element for change number n is n + 1 if the process had all rights on
 * files after this change
 */
static uint32_t had_all[NR_KNOWN];

static void lock(void)
{
	uaio_lock(&table.lock, UAIO_RANK_IDENTITY);
}

static void unlock(void)
{
	uaio_unlock(&table.lock, UAIO_RANK_IDENTITY);
}

/* Record the calling thread's ids as the ids after the latest change. */
static void note(bool is_of_process)
{
	uint32_t nr = uaio_former_now();
	struct known *known = &table.known[nr % NR_KNOWN];
	struct uaio_attributes attributes;
	bool is_known = is_of_process && uaio_attributes_ask(&attributes);

	/*
	 * relaxed, here and where had_all is loaded: a request that is submitted during
	 * the change may record the number of this change or of the one before. Both
	 * are right, because the request is submitted neither before nor after the
	 * change.
	 */
	store_relaxed(&had_all[nr % NR_KNOWN],
		      is_known && uaio_attributes_have_all(&attributes) ? nr + 1
									: 0);
	lock();
	known->is_known = is_known;
	known->nr = nr;
	if (is_known)
		known->attributes = attributes;
	unlock();
}

/* Find the ids after the change with this number. Return: whether they are known. */
static bool look_up(uint32_t nr, struct uaio_attributes *ret)
{
	const struct known *known = &table.known[nr % NR_KNOWN];
	bool is_known;

	lock();
	is_known = known->is_known && known->nr == nr;
	if (is_known)
		*ret = known->attributes;
	unlock();
	return is_known;
}

uint32_t uaio_former_at_start_slowly(uint32_t since)
{
	return load_relaxed(&had_all[since % NR_KNOWN]) == since + 1
		       ? uaio_former_now()
		       : since;
}

/*
 * System calls of workers: counting them, and giving a worker former ids
 */

static void uncount(uint32_t as)
{
	/*
	 * [MB:former] seq_cst, which is also a release: the system call has ended
	 * before the count shows this. Pairs with await().
	 */
	sub_seq_cst(&nr_calls, as);
	if (unlikely(load_seq_cst(&is_changing)))
		uaio_wake(&nr_calls, 1);
}

/*
 * Count a system call, for a request that recorded `since` as the number of the latest
 * change of ids. A change of ids waits until uncount() (F2).
 * Return: the argument for uncount().
 */
static uint32_t count(uint32_t since)
{
	for (;;) {
		uint32_t now = uaio_former_now();
		uint32_t as = since == now ? PLAIN : GOES_BACK;

		/*
		 * [MB:former] seq_cst: count the call, then check for a change. Pairs
		 * with await().
		 */
		add_seq_cst(&nr_calls, as);
		if (likely(!load_seq_cst(&is_changing) &&
			   now == uaio_former_now()))
			return as;
		uncount(as);
		(void)uaio_sleep(&is_changing, 1, UAIO_FOREVER);
	}
}

/*
 * A worker never gets former real ids, or former effective user and group ids. So a
 * call that needs such ids is made only if they are unchanged.
 * Return: whether a and b have equal real ids, and also equal effective ids if the call
 * needs all ids.
 */
static bool has_fixed_ids(const struct uaio_attributes *a,
			  const struct uaio_attributes *b,
			  enum uaio_former_need need)
{
	unsigned nr = need == UAIO_NEEDS_ALL_IDS ? 2 : 1;

	for (unsigned i = 0; i < nr; i++)
		if (a->uids[i] != b->uids[i] || a->gids[i] != b->gids[i])
			return false;
	return true;
}

/*
 * Give this thread the former ids: the file system ids, groups and effective
 * capabilities of *wanted.
 * Return: 0; -ECANCELED if the thread cannot get these ids: then it has its own ids
 * again.
 */
static int take(const struct uaio_attributes *wanted,
		struct uaio_former_call *call)
{
	struct uaio_attributes now;

	if (!uaio_attributes_ask(&call->own))
		return -ECANCELED;
	if (uaio_attributes_are_within(&call->own, wanted) &&
	    uaio_attributes_are_within(wanted, &call->own))
		return 0;
	call->has_taken = true;
	uaio_attributes_take(wanted);
	if (uaio_attributes_ask(&now) &&
	    uaio_attributes_are_within(&now, wanted))
		return 0;
	uaio_attributes_take(&call->own);
	call->has_taken = false;
	return -ECANCELED;
}

/*
 * Prepare a system call for a request that was submitted before a change of ids. If the
 * call needs file ids, take the former ones. Otherwise check that the ids which the
 * call needs are still the same.
 * Return: 0; -ECANCELED if the former ids are unknown. Also if the thread cannot get
 * them, unless they had all rights on files: then the call may use the new ids.
 */
static int go_back(uint32_t since, enum uaio_former_need need,
		   bool is_of_process, struct uaio_former_call *call)
{
	struct uaio_attributes wanted;
	int ret = -ECANCELED;

	if (!is_of_process || !look_up(since, &wanted))
		return -ECANCELED;
	if (need == UAIO_NEEDS_FILE_IDS)
		ret = take(&wanted, call);
	else if (uaio_attributes_ask(&call->own) &&
		 has_fixed_ids(&call->own, &wanted, need))
		ret = 0;
	return ret < 0 && uaio_attributes_have_all(&wanted) ? 0 : ret;
}

int uaio_former_begin_slowly(uint32_t since, enum uaio_former_need need,
			     bool is_of_process, struct uaio_former_call *call)
{
	int ret = 0;

	/*
	 * Do not count a call that needs only real ids. Such a call sends a message and
	 * may block for long, so a change of ids must not wait for the call. If the
	 * change interrupts the call, the kernel restarts the call with the new ids.
	 * This is harmless, because the call does not look up a path again.
	 */
	if (need != UAIO_NEEDS_REAL_IDS)
		call->counted_as = count(since);
	if (unlikely(since != uaio_former_now()))
		ret = go_back(since, need, is_of_process, call);
	if (unlikely(ret < 0) && call->counted_as) {
		uncount(call->counted_as);
		call->counted_as = 0;
	}
	return ret;
}

void uaio_former_end_slowly(struct uaio_former_call *call)
{
	if (call->has_taken)
		uaio_attributes_take(&call->own);
	uncount(call->counted_as);
}

/*
 * Changes of the ids of all threads
 */

static void become_only_one(void)
{
	uint32_t none = 0;

	/*
	 * [MB:former] seq_cst: announce the change before await() reads the count of
	 * calls.
	 */
	while (!cas_seq_cst(&is_changing, &none, 1)) {
		(void)uaio_sleep(&is_changing, 1, UAIO_FOREVER);
		none = 0;
	}
}

static void let_others(void)
{
	/*
	 * [MB:former] release: the number and the ids of this change are recorded
	 * before another change can begin.
	 */
	store_release(&is_changing, 0);
	uaio_wake(&is_changing, ~0u);
}

/*
 * Wait until no call is counted, at most until the deadline.
 * Return: the count when the wait ends.
 */
static uint32_t await(int64_t deadline_ns)
{
	uint32_t nr;

	/* [MB:former] seq_cst: pairs with count(). */
	while ((nr = load_seq_cst(&nr_calls)) && uaio_now_ns() < deadline_ns)
		(void)uaio_sleep(&nr_calls, nr, deadline_ns);
	return nr;
}

int uaio_former_change_begin(bool is_of_process,
			     struct uaio_former_change *change)
{
	struct uaio_attributes attributes;
	uint32_t nr;

	change->had_all = uaio_attributes_ask(&attributes) &&
			  uaio_attributes_have_all(&attributes);
	become_only_one();
	/*
	 * relaxed: the flag changes only while is_changing is set, and this thread has
	 * set it
	 */
	if (!load_relaxed(&uaio_former_is_watched)) {
		note(is_of_process);
		store_relaxed(&uaio_former_is_watched, 1);
	}
	nr = await(uaio_now_ns() +
		   (change->had_all ? PATIENCE_OF_ALL_NS : patience_ns));
	/*
	 * If this thread had all rights, the change may interrupt PLAIN calls: the
	 * kernel restarts these calls with the new ids, which give no additional
	 * rights.
	 */
	if (likely(!nr || (change->had_all && nr < GOES_BACK)))
		return 0;
	let_others();
	return -EAGAIN;
}

void uaio_former_change_end(bool is_of_process, bool has_changed,
			    const struct uaio_former_change *change)
{
	struct uaio_attributes attributes;

	if (has_changed) {
		/*
		 * relaxed: the number changes only while is_changing is set, and this
		 * thread has set it
		 */
		store_relaxed(&uaio_former_nr, uaio_former_now() + 1);
		note(is_of_process);
		/*
		 * If the process had all rights until now and cannot change its new
		 * ids, no request can gain rights any more. So calls need not be
		 * counted.
		 */
		was_without |= !change->had_all;
		if (!was_without && uaio_attributes_ask(&attributes) &&
		    !uaio_attributes_may_change(&attributes))
			store_relaxed(&uaio_former_is_watched, 0);
	}
	let_others();
}

void uaio_former_start(void)
{
	struct uaio_attributes attributes;

	/*
	 * relaxed: if another thread changes the ids while the library starts, the
	 * change counts as made before the start
	 */
	if (load_relaxed(&uaio_former_is_watched) ||
	    !uaio_attributes_ask(&attributes) ||
	    uaio_attributes_have_all(&attributes) ||
	    !uaio_attributes_may_change(&attributes))
		return;
	note(true);
	store_relaxed(&uaio_former_is_watched, 1);
}

void uaio_former_forget(void)
{
	table.lock = (struct uaio_lock){ 0 };
	store_relaxed(&nr_calls, 0);
	store_relaxed(&is_changing, 0);
}

#ifdef UAIO_TESTING
void uaio_former_have_patience(int64_t ns)
{
	patience_ns = ns;
}
#endif
