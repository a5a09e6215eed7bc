/* SPDX-License-Identifier: MIT */
#include "engine/wait.h"

#include <errno.h>
#include <poll.h>

#include "base/check.h"
#include "base/cycles.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "engine/ctx.h"
#include "engine/engine.h"
#include "engine/entry.h"
#include "engine/lead.h"
#include "engine/lost.h"
#include "engine/ownfd.h"
#include "engine/page.h"
#include "engine/ready.h"
#include "engine/vain.h"
#include "engine/wq.h"

/*
 * How a waiter is woken depends on how it sleeps. Its descriptor may be closed,
 * and its context's epoll, as soon as it is told, so these are written to first,
 * and here. A word is woken by its address, after.
 */
void uaio_waiter_tell_locked(struct uaio_ctx *ctx, struct uaio_waiter *waiter,
			     struct uaio_wakeups *wakeups)
{
	bool has_word = waiter->wake_fd < 0 && !waiter->leads;
	uint64_t one = 1;

	list_remove(&waiter->node);
	/* relaxed: written under the lock; who reads it wrote first */
	sub_relaxed(&ctx->group.ready.nr_waiters, !waiter->is_parted);
	/*
	 * [MB:lead] seq_cst: told, then looked whether it sleeps. Pairs with
	 * sleep_leading() of lead.c. It looks at the word itself only under
	 * the lock.
	 */
	if (waiter->leads) {
		store_seq_cst(&waiter->is_told, 1);
		if (load_seq_cst(&waiter->is_asleep))
			uaio_poller_wake(&ctx->group.ready.poller);
	} else if (waiter->wake_fd >= 0) {
		(void)sys_write(waiter->wake_fd, &one, sizeof(one));
	}
	/* [MB:woken] release: last touch (I2). Pairs with wait_asleep(). */
	store_release(&waiter->is_woken, 1);
	if (!has_word)
		return;
	if (wakeups->nr < UAIO_WAKEUPS_MAX)
		wakeups->words[wakeups->nr++] = &waiter->is_woken;
	else
		uaio_wake(&waiter->is_woken, 1);
}

void uaio_waiters_collect_locked(struct uaio_ctx *ctx,
				 struct uaio_wakeups *wakeups)
{
	uint32_t unread = uaio_ring_unread(&ctx->ring);

	list_for_each_safe (pos, &ctx->waiters) {
		struct uaio_waiter *waiter =
			container_of(pos, struct uaio_waiter, node);

		if (waiter->need <= unread) {
			uaio_waiter_tell_locked(ctx, waiter, wakeups);
			ctx->nr_wakeups++;
		}
	}
}

void uaio_wakeups_deliver(struct uaio_wakeups *wakeups)
{
	for (unsigned i = 0; i < wakeups->nr; i++)
		uaio_wake(wakeups->words[i], 1);
}

void uaio_waiters_wake_all(struct uaio_ctx *ctx)
{
	struct uaio_wakeups wakeups = { 0 };

	uaio_lock(&ctx->group.lock, UAIO_RANK_GROUP);
	/* Who leads is not to touch what goes away. */
	ctx->leader = NULL;
	list_for_each_safe (pos, &ctx->waiters)
		uaio_waiter_tell_locked(
			ctx, container_of(pos, struct uaio_waiter, node),
			&wakeups);
	uaio_unlock(&ctx->group.lock, UAIO_RANK_GROUP);
	uaio_wakeups_deliver(&wakeups);
}

static struct uaio_slab waiters;

/* The waiters of this thread: of handlers that run in its sleep, too. */
static _Thread_local struct uaio_waiter *mine
	__attribute__((tls_model("initial-exec")));

void uaio_waiters_init(void)
{
	/* A child of fork() waits for nothing. */
	mine = NULL;
	uaio_lost_init();
	uaio_slab_init(&waiters, sizeof(struct uaio_waiter), 4096);
}

/* Under either of the locks under which lives begin. */
static bool is_over_locked(const struct uaio_ctx *ctx, uint64_t life)
{
	/* relaxed: set before the waiters are told, under their lock */
	return ctx->life != life ||
	       load_relaxed(&ctx->tickets) & UAIO_TICKETS_DEAD;
}

int uaio_wait_poll(int fd, const struct uaio_wait *wait, int64_t deadline)
{
	struct pollfd slot = { .fd = fd, .events = POLLIN };
	int64_t left = deadline - uaio_now_ns();
	struct timespec timeout;

	if (left < 0)
		left = 0;
	timeout.tv_sec = left / 1000000000;
	timeout.tv_nsec = left % 1000000000;
	return sys_ppoll(&slot, fd >= 0, &timeout, wait->mask,
			 wait->mask_bytes);
}

/*
 * Sleep with the caller's signal mask, swapped in and out by the kernel in the
 * same call. Without a descriptor to be woken by (the table is full) the sleep
 * is cut in slices.
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
	/* [MB:woken] acquire: pairs with uaio_waiter_tell_locked(). */
	while (!load_acquire(&waiter->is_woken)) {
		int depth = uaio_step_out();
		int ret = wait->mask ? sleep_masked(waiter, wait)
				     : uaio_sleep(&waiter->is_woken, 0,
						  wait->deadline_ns);

		uaio_step_in(depth);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/*
 * Somebody else leads, or nothing is parked. Who leads may be lost: that is looked
 * for. Where nobody led it is told as soon as somebody does, and comes back.
 */
static int wait_following(struct uaio_ctx *ctx, struct uaio_waiter *waiter,
			  const struct uaio_wait *wait)
{
	const int64_t max_ns = 1000000000;
	struct uaio_wait slice = *wait;
	uint64_t seen = UINT64_MAX;
	int64_t look_ns = 10000000;
	int ret;

	do {
		slice.deadline_ns = waiter->is_parted || waiter->is_alone
					    ? UAIO_FOREVER
					    : uaio_now_ns() + look_ns;
		if (slice.deadline_ns >= wait->deadline_ns)
			return wait_asleep(waiter, wait);
		ret = wait_asleep(waiter, &slice);
		look_ns = 2 * look_ns < max_ns ? 2 * look_ns : max_ns;
	} while (ret == -ETIMEDOUT && !uaio_lead_challenge(ctx, waiter, &seen));
	return ret == -ETIMEDOUT ? 0 : ret;
}

/*
 * Take the waiter in, unless it need not sleep. Return: 0, -EINVAL.
 */
static int enter(struct uaio_ctx *ctx, uint64_t life,
		 struct uaio_waiter *waiter)
{
	int ret = 0;

	uaio_lock(&ctx->group.lock, UAIO_RANK_GROUP);
	if (is_over_locked(ctx, life)) {
		ret = -EINVAL;
	} else if (uaio_ring_unread(&ctx->ring) < waiter->need) {
		list_add_tail(&ctx->waiters, &waiter->node);
		/* [MB:led] seq_cst: as in uaio_lead_locked(). */
		add_seq_cst(&ctx->group.ready.nr_waiters, !waiter->is_parted);
		waiter->is_alone = !ctx->leader && !waiter->is_parted &&
				   !uaio_lead_locked(ctx, waiter);
	} else {
		store_relaxed(&waiter->is_woken, 1);
	}
	uaio_unlock(&ctx->group.lock, UAIO_RANK_GROUP);
	return ret;
}

static void leave(struct uaio_ctx *ctx, struct uaio_waiter *waiter)
{
	uaio_lock(&ctx->group.lock, UAIO_RANK_GROUP);
	if (!list_is_empty(&waiter->node)) {
		list_remove(&waiter->node);
		sub_relaxed(&ctx->group.ready.nr_waiters, !waiter->is_parted);
	}
	uaio_unlock(&ctx->group.lock, UAIO_RANK_GROUP);
}

struct uaio_waiter *uaio_waiter_new(struct uaio_ctx *ctx)
{
	struct uaio_waiter *waiter = uaio_slab_get(&waiters);

	if (!waiter)
		return NULL;
	waiter->ctx = ctx;
	waiter->need = UINT32_MAX;
	waiter->leads = waiter->is_leading = false;
	waiter->is_parted = waiter->is_alone = false;
	/* relaxed: nobody knows it yet */
	store_relaxed(&waiter->is_woken, 0);
	waiter->wake_fd = -1;
	list_init(&waiter->node);
	waiter->outer = mine;
	mine = waiter;
	(void)uaio_lost_watch();
	return waiter;
}

/* Those of handlers that have not come back may be in front of it. */
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

void uaio_waiters_forget(bool is_parted)
{
	struct uaio_waiter *waiter;

	/* Off the lists first: who leaves tells the next of a list. */
	for (waiter = mine; waiter; waiter = waiter->outer)
		leave(waiter->ctx, waiter);
	if (is_parted)
		return;
	uaio_lead_forget();
	while (mine)
		uaio_waiter_put(mine);
}

/*
 * Sleep until need events are there.
 * Return: 0 to look again, -EINTR, -ETIMEDOUT, -EINVAL: the context is gone,
 * -ENOMEM.
 */
static int wait_for(struct uaio_ctx *ctx, uint64_t life, uint32_t need,
		    const struct uaio_wait *wait)
{
	struct uaio_waiter *waiter = uaio_waiter_new(ctx);
	int ret;

	if (!waiter)
		return -ENOMEM;
	if (!wait->is_parted)
		uaio_lead_forget();
	waiter->need = need;
	waiter->is_parted = wait->is_parted;
	if (wait->mask && !wait->is_parted)
		waiter->wake_fd = uaio_ownfd_event(0);
	ret = enter(ctx, life, waiter);
	if (ret == 0) {
		bool leads = waiter->leads;

		ret = leads ? uaio_lead(ctx, waiter, wait)
			    : wait_following(ctx, waiter, wait);
		leave(ctx, waiter);
		if (leads)
			uaio_lead_stop(ctx, waiter);
	}
	uaio_waiter_put(waiter);
	return ret;
}

/*
 * The same, looking now and then for cold reads that can be made: one may be
 * there long before an older one that a worker blocks on.
 */
static int wait_looking(struct uaio_ctx *ctx, uint64_t life, uint32_t need,
			const struct uaio_wait *wait)
{
	enum { LOOK_NS = 2000000 };
	struct uaio_wait look = *wait;
	int ret;

	/* relaxed: what others submit meanwhile is the worker's */
	if (!load_relaxed(&ctx->group.nr_paged) || wait->is_parted)
		return wait_for(ctx, life, need, wait);
	look.deadline_ns = uaio_now_ns() + LOOK_NS;
	if (look.deadline_ns >= wait->deadline_ns)
		return wait_for(ctx, life, need, wait);
	ret = wait_for(ctx, life, need, &look);
	if (ret != -ETIMEDOUT)
		return ret;
	uaio_page_try_group(&ctx->group);
	return 0;
}

/*
 * An address that events cannot be stored to (NULL) is noticed when there are
 * any, and they stay.
 */
static long pop_locked(struct uaio_ctx *ctx, struct uaio_event *events,
		       long got, const struct uaio_wait *wait)
{
	long nr = wait->nr - got;

	if (unlikely(!events || wait->is_strict)) {
		long left = uaio_ring_poppable(&ctx->ring,
					       uaio_ring_head(&ctx->ring));

		if (nr > left)
			nr = left;
		if (nr &&
		    (!events || !uaio_can_write((uintptr_t)(events + got),
						(size_t)nr * sizeof(*events))))
			return -EFAULT;
	}
	return uaio_ring_pop(&ctx->ring, events + got, nr);
}

static long pop(struct uaio_ctx *ctx, uint64_t life, struct uaio_event *events,
		long got, const struct uaio_wait *wait)
{
	long ret = -EINVAL;

	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	if (!is_over_locked(ctx, life))
		ret = pop_locked(ctx, events, got, wait);
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	return ret;
}

/*
 * Where requests take less than it takes to sleep and be woken, look out for
 * their events for as long as that. seen is what had been posted before the
 * caller looked.
 * Return: whether there are enough now.
 */
static bool spin_for(const struct uaio_ctx *ctx, uint64_t seen, long need,
		     int64_t spin_ns, int64_t deadline_ns)
{
	enum { SPINS_PER_LOOK = 16 }; /* at the clock */
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
			/* relaxed: the events are taken under a lock */
			is_there = load_relaxed(&ctx->nr_done) - seen >=
				   (uint64_t)need;
		}
	} while (!is_there && uaio_now_ns() < until);
	uaio_wq_has_spun(is_there);
	return is_there;
}

/* Sleep; who sleeps no longer than waking takes could have spun. */
static int wait_timed(struct uaio_ctx *ctx, uint64_t life, uint32_t need,
		      int64_t spin_ns, const struct uaio_wait *wait)
{
	int64_t since = uaio_now_ns();
	int ret = wait_looking(ctx, life, need, wait);

	if (uaio_now_ns() - since < 2 * spin_ns)
		uaio_wq_has_spun(true);
	return ret;
}

/* got events are there already, too few. */
static long wait_more(struct uaio_ctx *ctx, uint64_t life,
		      struct uaio_event *events, long got, uint64_t seen,
		      const struct uaio_wait *wait)
{
	for (;;) {
		uint32_t capacity = load_relaxed(&ctx->capacity);
		long need = wait->min_nr - got;
		int64_t spin_ns;
		int ret = 0;
		long more;

		if (need > capacity)
			need = capacity;
		spin_ns = uaio_wq_spin_ns();
		if (likely(!spin_ns))
			ret = wait_looking(ctx, life, (uint32_t)need, wait);
		else if (!spin_for(ctx, seen, need, spin_ns, wait->deadline_ns))
			ret = wait_timed(ctx, life, (uint32_t)need, spin_ns,
					 wait);
		seen = load_relaxed(&ctx->nr_done);
		more = pop(ctx, life, events, got, wait);
		if (more < 0)
			return got ? got : more;
		got += more;
		if (got >= wait->min_nr)
			return got;
		if (ret < 0)
			return got || ret == -ETIMEDOUT ? got : ret;
	}
}

/* Let signals in that only the caller's mask allows, though nobody slept. */
static long let_signals_in(const struct uaio_wait *wait, long got)
{
	static const struct timespec zero;

	if (sys_ppoll(NULL, 0, &zero, wait->mask, wait->mask_bytes) == -EINTR &&
	    got == 0)
		return -EINTR;
	return got;
}

/* Without waiting the epoll is asked here, else by who sleeps in it. */
static void look_at_parked(struct uaio_ctx *ctx, const struct uaio_wait *wait)
{
	struct uaio_group *home = uaio_ready_home(&ctx->group.ready);

	/* Who left a wait by siglongjmp(), and sleeps no more, leads for ever. */
	uaio_lead_forget();
	(void)uaio_ready_run(home, UAIO_RUN_BY_CALLER);
	/* relaxed: advice */
	if (wait->deadline_ns == 0 && !load_relaxed(&home->ready.is_led) &&
	    !uaio_ring_unread(&ctx->ring)) {
		/* What the epoll does not know it would not tell. */
		(void)uaio_ready_arm(home);
		(void)uaio_ready_look(home, UAIO_RUN_BY_CALLER);
	}
	uaio_ready_unpin(&ctx->group.ready);
}

/*
 * Under the lock under which the context is known to be there.
 * Return: whether something is parked that a caller may run, and pinned.
 */
static bool pin_parked_locked(struct uaio_ctx *ctx)
{
	const struct uaio_group *home = uaio_ready_home(&ctx->group.ready);

	/* relaxed: what others park meanwhile is theirs to see to */
	if (likely(!load_relaxed(&home->ready.nr_parked)) ||
	    !uaio_ready_callers_run())
		return false;
	uaio_ready_pin(&ctx->group.ready);
	return true;
}

static bool is_in_flight(const struct uaio_ctx *ctx)
{
	/* relaxed: what others submit or complete meanwhile is theirs to see to */
	return load_relaxed(&ctx->tickets) / UAIO_TICKET !=
	       load_relaxed(&ctx->nr_done);
}

/* Return: as pop(), for a look that has found nothing. */
static long doze(struct uaio_ctx *ctx, uint64_t life, struct uaio_event *events,
		 const struct uaio_wait *wait)
{
	struct uaio_wait nap = *wait;
	long got;

	nap.deadline_ns = uaio_now_ns() + UAIO_DOZE_NS;
	(void)wait_for(ctx, life, 1, &nap);
	got = pop(ctx, life, events, 0, wait);
	uaio_vain_has_dozed(&ctx->vain, got > 0);
	return got;
}

/* Too few events are there. */
static long get_more(struct uaio_ctx *ctx, uint64_t life,
		     struct uaio_event *events, long got, bool is_pinned,
		     const struct uaio_wait *wait)
{
	/* relaxed: before the look, which is under a lock */
	uint64_t seen = load_relaxed(&ctx->nr_done);
	long more;

	if (is_pinned)
		look_at_parked(ctx, wait);
	if (likely(!wait->is_parted))
		uaio_page_try_group(&ctx->group);
	more = pop(ctx, life, events, got, wait);
	if (more < 0)
		return got ? got : more;
	got += more;
	if (!got && wait->nr && !wait->deadline_ns && is_in_flight(ctx) &&
	    uaio_vain_must_doze(&ctx->vain, load_relaxed(&ctx->nr_done)))
		return doze(ctx, life, events, wait);
	if (got >= wait->min_nr || wait->deadline_ns == 0)
		return unlikely(wait->mask) ? let_signals_in(wait, got) : got;
	return wait_more(ctx, life, events, got, seen, wait);
}

/* With min_nr 0 what is parked may be ready all the same. */
static bool are_too_few(long got, const struct uaio_wait *wait)
{
	return got < wait->min_nr || (got == 0 && wait->nr > 0);
}

long uaio_ctx_getevents(uint64_t handle, struct uaio_event *ret_events,
			const struct uaio_wait *wait)
{
	struct uaio_ctx *ctx = uaio_ctx_find(handle);
	bool is_pinned = false;
	long got = -EINVAL;
	uint64_t life = 0;

	if (!ctx)
		return -EINVAL;
	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	if (load_relaxed(&ctx->handle) == handle) {
		got = pop_locked(ctx, ret_events, 0, wait);
		life = ctx->life;
		is_pinned = got >= 0 && are_too_few(got, wait) &&
			    !wait->is_parted && pin_parked_locked(ctx);
	}
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	if (got < 0)
		return got;
	if (are_too_few(got, wait))
		return get_more(ctx, life, ret_events, got, is_pinned, wait);
	return unlikely(wait->mask) ? let_signals_in(wait, got) : got;
}
