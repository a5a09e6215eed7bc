/* SPDX-License-Identifier: MIT */
#include "proc/poller.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/check.h"
#include "base/sleep.h"
#include "base/sleepcall.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/ownfd.h"

enum {
	/*
	 * If a woken thread has not returned from its wait after this time, it counts
	 * as lost (poller.h, I3).
	 */
	LOST_NS = 1000000000,
	LOOK_NS = 1000000,
	/* each poller has an epoll and an eventfd */
	NR_FDS = 2,
};

static struct {
	struct uaio_slab fds;  /* struct uaio_poller_fds */
	struct uaio_lock lock; /* rank POLLERS */
	struct list open;      /* under lock */
	/* atomic: whether the system refuses epoll_pwait2() */
	uint32_t has_no_pwait2;
} pollers;

/*
 * The descriptors on which this thread waits in uaio_poller_wait(). If a handler leaves
 * the wait by siglongjmp(), these variables stay set, and the thread's next wait ends
 * the old one. Each wait of a thread has another `serial` than the thread's previous
 * wait. These are two variables, not a struct: GCC aligns a struct of 16 bytes to 16
 * bytes, which may leave a hole in the static TLS.
 */
static _Thread_local struct uaio_poller_fds *waiting_on /* shares; or NULL */
	__attribute__((tls_model("initial-exec")));
static _Thread_local struct {
	uint32_t side : 1;
	uint32_t serial : 31;
} waiting __attribute__((tls_model("initial-exec")));

void uaio_pollers_init(void)
{
	/* A child of fork() has no wait, even if its parent's thread was in one. */
	waiting_on = NULL;
	uaio_slab_init(&pollers.fds, sizeof(struct uaio_poller_fds), 4096);
	pollers.lock = (struct uaio_lock){ 0 };
	list_init(&pollers.open);
	store_relaxed(&pollers.has_no_pwait2, 0);
}

static void lock(struct uaio_poller *poller)
{
	uaio_lock(&poller->lock, UAIO_RANK_POLLER);
}

static void unlock(struct uaio_poller *poller)
{
	uaio_unlock(&poller->lock, UAIO_RANK_POLLER);
}

void uaio_poller_init(struct uaio_poller *poller)
{
	/*
	 * Do not reset the lock, but acquire it: a thread that knows the poller from
	 * its earlier use may be about to acquire the lock.
	 */
	lock(poller);
	poller->fds = NULL;
	store_relaxed(&poller->is_open, 0);
	/*
	 * relaxed: a thread waits only with a generation that was read after this store
	 */
	store_relaxed(&poller->generation,
		      load_relaxed(&poller->generation) + 1);
	list_init(&poller->node);
	unlock(poller);
}

static int ctl(int epoll, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = { .events = events };

	event.data.u64 = data;
	return sys_epoll_ctl(epoll, op, fd, &event);
}

/*
 * Get the pending events without sleeping.
 * Return: like epoll_wait(2).
 */
static int look(int epoll, struct epoll_event *ret_events, int max)
{
	static const struct timespec zero;
	int ret = sys_epoll_pwait(epoll, ret_events, max, 0);

	return ret == -ENOSYS ? sys_epoll_pwait2(epoll, ret_events, max, &zero,
						 NULL, 0)
			      : ret;
}

static int open_fds(struct uaio_poller_fds *fds)
{
	struct epoll_event nothing;
	int ret;

	fds->epoll = uaio_ownfd_epoll();
	if (fds->epoll < 0)
		return fds->epoll;
	/* Try a wait: a sandbox may allow creating an epoll, but not waiting on it. */
	ret = look(fds->epoll, &nothing, 1);
	if (ret < 0)
		goto err_epoll;
	ret = fds->wake = uaio_ownfd_event(EFD_NONBLOCK);
	if (ret < 0)
		goto err_epoll;
	/*
	 * The eventfd is added level-triggered. If it were edge-triggered, a thread
	 * that only collects events without waiting would consume the wake-up of the
	 * waiting threads.
	 */
	ret = ctl(fds->epoll, EPOLL_CTL_ADD, fds->wake, EPOLLIN, 0);
	if (ret == 0)
		return 0;
	uaio_ownfd_close(fds->wake);
err_epoll:
	uaio_ownfd_close(fds->epoll);
	return ret;
}

static int open_locked(struct uaio_poller *poller)
{
	struct uaio_poller_fds *fds;
	int ret;

	if (poller->fds)
		return 0;
	fds = uaio_slab_get(&pollers.fds);
	if (!fds)
		return -ENOMEM;
	ret = open_fds(fds);
	if (ret < 0) {
		uaio_slab_put(&pollers.fds, fds);
		return ret;
	}
	fds->side = 0;
	/* relaxed, all: no other thread knows the descriptors yet */
	store_relaxed(&fds->nr_waiting[0], 0);
	store_relaxed(&fds->nr_waiting[1], 0);
	store_relaxed(&fds->nr_refs, 1);
	poller->fds = fds;
	return 0;
}

static void put_fds(struct uaio_poller_fds *fds)
{
	/* [MB:poller-fds] release: this thread no longer uses the descriptors. */
	if (sub_release(&fds->nr_refs, 1) != 1)
		return;
	/*
	 * [MB:poller-fds] acquire: the other threads no longer use the descriptors
	 * either.
	 */
	(void)load_acquire(&fds->nr_refs);
	uaio_ownfd_close(fds->wake);
	uaio_ownfd_close(fds->epoll);
	uaio_slab_put(&pollers.fds, fds);
}

static int open_poller(struct uaio_poller *poller, bool is_of_share)
{
	int ret = 0;

	if (likely(uaio_poller_is_open(poller)))
		return 0;
	uaio_lock(&pollers.lock, UAIO_RANK_POLLERS);
	lock(poller);
	if (!poller->fds && is_of_share && !uaio_ownfds_have_room(NR_FDS))
		ret = -EMFILE;
	if (ret == 0)
		ret = open_locked(poller);
	store_relaxed(&poller->is_open, ret == 0);
	if (ret == 0 && list_is_empty(&poller->node))
		list_add_tail(&pollers.open, &poller->node);
	unlock(poller);
	uaio_unlock(&pollers.lock, UAIO_RANK_POLLERS);
	return ret;
}

int uaio_poller_open(struct uaio_poller *poller)
{
	return open_poller(poller, false);
}

int uaio_poller_open_within_share(struct uaio_poller *poller)
{
	return open_poller(poller, true);
}

int uaio_poller_ctl(struct uaio_poller *poller, int op, int fd, uint32_t events,
		    uint64_t data)
{
	int ret = -EBADF;

	lock(poller);
	if (poller->fds)
		ret = ctl(poller->fds->epoll, op, fd, events | EPOLLET, data);
	unlock(poller);
	return ret;
}

bool uaio_poller_has(struct uaio_poller *poller, int fd)
{
	int ret = -EBADF;

	lock(poller);
	/*
	 * EPOLL_CTL_ADD fails, without effect, if the epoll has an entry of this file.
	 * If it succeeds, the new entry is removed at once; its data is 0, which
	 * belongs to no file.
	 */
	if (poller->fds)
		ret = ctl(poller->fds->epoll, EPOLL_CTL_ADD, fd, EPOLLET, 0);
	if (unlikely(ret == 0))
		(void)ctl(poller->fds->epoll, EPOLL_CTL_DEL, fd, 0, 0);
	unlock(poller);
	return ret == -EEXIST;
}

int uaio_poller_nest(struct uaio_poller *poller, int op,
		     struct uaio_poller *inner, uint64_t data)
{
	int ret = -EBADF;

	/* Lock order: the outer poller before the inner one. */
	lock(poller);
	uaio_lock(&inner->lock, UAIO_RANK_POLLER_INNER);
	if (poller->fds && inner->fds)
		ret = ctl(poller->fds->epoll, op, inner->fds->epoll,
			  EPOLLIN | EPOLLET, data);
	uaio_unlock(&inner->lock, UAIO_RANK_POLLER_INNER);
	unlock(poller);
	return ret;
}

static void wake_locked(struct uaio_poller *poller)
{
	uint64_t one = 1;

	if (poller->fds)
		(void)sys_write(poller->fds->wake, &one, sizeof(one));
}

void uaio_poller_wake(struct uaio_poller *poller)
{
	lock(poller);
	wake_locked(poller);
	unlock(poller);
}

void uaio_poller_release(struct uaio_poller_hold *hold)
{
	struct uaio_poller_fds *fds = hold->fds;

	if (!fds)
		return;
	hold->fds = NULL;
	/*
	 * [MB:poller] release: this wait no longer uses the descriptor. Pairs with
	 * await_waits().
	 */
	sub_release(&fds->nr_waiting[hold->side], 1);
	put_fds(fds);
}

static void end_wait(void)
{
	struct uaio_poller_hold hold = { waiting_on, waiting.side };

	waiting_on = NULL;
	uaio_poller_release(&hold);
}

void uaio_poller_forget(void)
{
	if (waiting_on)
		end_wait();
}

static uint32_t begin_wait(const struct uaio_poller_hold *hold)
{
	/*
	 * If this thread still counts as waiting, end the old wait. Either a handler
	 * left that wait by siglongjmp(), or this code runs in a handler that
	 * interrupted that wait.
	 */
	uaio_poller_forget();
	waiting.side = hold->side & 1;
	waiting_on = hold->fds;
	return ++waiting.serial;
}

static void end_wait_of(uint32_t serial)
{
	/*
	 * If a handler interrupted this wait and itself waited on a poller,
	 * begin_wait() in the handler has already ended this wait.
	 */
	if (likely(waiting.serial == serial && waiting_on))
		end_wait();
}

/*
 * Wait by ppoll() where epoll_pwait2() is missing, or the wait must outlast a stop of the
 * process. Like epoll_pwait2(), ppoll() takes nanoseconds. After a stop without a signal
 * handler, the kernel continues ppoll(), whereas epoll_pwait2() fails with EINTR.
 */
static int wait_by_poll(int epoll, struct epoll_event *ret_events, int max,
			const struct timespec *timeout, const void *mask,
			size_t mask_bytes)
{
	struct pollfd pfd = { .fd = epoll, .events = POLLIN };
	int ret = uaio_sleep_poll(&pfd, 1, timeout, mask, mask_bytes);

	return ret > 0 ? look(epoll, ret_events, max) : ret;
}

static int wait_on(int epoll, struct epoll_event *ret_events, int max,
		   const struct uaio_poller_wait *wait)
{
	struct timespec time;
	const struct timespec *timeout =
		uaio_time_until(wait->deadline_ns, &time);
	int ret = -EINVAL;

	if (wait->outlasts_stops)
		ret = wait_by_poll(epoll, ret_events, max, timeout, wait->mask,
				   wait->mask_bytes);
	/* ppoll() fails, for example, if RLIMIT_NOFILE is 0. */
	if (ret >= 0 || ret == -EINTR)
		return ret;
	/*
	 * relaxed: a thread that still loads 0 gets the error from its own call of
	 * epoll_pwait2()
	 */
	if (!load_relaxed(&pollers.has_no_pwait2)) {
		ret = uaio_sleep_epoll(epoll, ret_events, max, timeout,
				       wait->mask, wait->mask_bytes);
		if (ret != -ENOSYS && ret != -EPERM)
			return ret;
		store_relaxed(&pollers.has_no_pwait2, 1);
	}
	ret = wait_by_poll(epoll, ret_events, max, timeout, wait->mask,
			   wait->mask_bytes);
	return ret == -EINVAL ? look(epoll, ret_events, max) : ret;
}

/*
 * If the eventfd is among the events, reset the eventfd, since the thread has seen its
 * wake-up. This wait is no longer counted, so the poller may be in a new generation,
 * whose eventfd must not be reset.
 */
static void clear_wake(struct uaio_poller *poller, uint32_t generation,
		       const struct epoll_event *events, int nr)
{
	uint64_t count;

	for (int i = 0; i < nr; i++) {
		if (events[i].data.u64)
			continue;
		lock(poller);
		if (poller->fds && uaio_poller_generation(poller) == generation)
			(void)sys_read(poller->fds->wake, &count,
				       sizeof(count));
		unlock(poller);
	}
}

int uaio_poller_hold(struct uaio_poller *poller, uint32_t generation,
		     struct uaio_poller_hold *ret)
{
	struct uaio_poller_fds *fds;
	int epoll = -EBADF;

	lock(poller);
	fds = poller->fds;
	if (fds && uaio_poller_generation(poller) == generation) {
		epoll = fds->epoll;
		*ret = (struct uaio_poller_hold){ fds, fds->side };
		/*
		 * relaxed, both: this thread holds the lock, and the poller's own
		 * reference keeps the descriptors open
		 */
		add_relaxed(&fds->nr_waiting[fds->side], 1);
		add_relaxed(&fds->nr_refs, 1);
	}
	unlock(poller);
	return epoll;
}

int uaio_poller_take(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max)
{
	int ret = -EBADF;

	/* look() does not sleep, so it may be called under the lock. */
	lock(poller);
	if (poller->fds)
		/* [step: TAKE] */
		ret = look(poller->fds->epoll, ret_events, max);
	unlock(poller);
	return ret;
}

int uaio_poller_collect(struct uaio_poller *poller, uint32_t generation,
			struct epoll_event *ret_events, int max)
{
	int ret = uaio_poller_take(poller, ret_events, max);

	clear_wake(poller, generation, ret_events, ret);
	return ret;
}

int uaio_poller_wait(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max, const struct uaio_poller_wait *wait)
{
	struct uaio_poller_hold hold;
	int epoll = uaio_poller_hold(poller, wait->generation, &hold), ret,
	    depth;
	uint32_t serial;

	if (epoll < 0)
		return epoll;
	serial = begin_wait(&hold);
	depth = uaio_step_out_to(wait->is_cancel_point);
	ret = wait_on(epoll, ret_events, max, wait);
	uaio_step_in_from(wait->is_cancel_point, depth);
	end_wait_of(serial);
	clear_wake(poller, wait->generation, ret_events, ret);
	return ret;
}

/*
 * Wait until nr_waiting[side] is 0. New waits are counted in the other element of
 * nr_waiting[].
 * Return: false if a thread is lost (poller.h, I3).
 */
static bool await_waits(struct uaio_poller_fds *fds, uint32_t side)
{
	int64_t lost = uaio_now_ns() + LOST_NS;
	uint32_t nr;

	/* [MB:poller] acquire: pairs with uaio_poller_release(). */
	while ((nr = load_acquire(&fds->nr_waiting[side]))) {
		if (uaio_now_ns() >= lost)
			return false;
		/*
		 * Read the count again every LOOK_NS, so that a thread which ends its
		 * wait need not wake this thread. This function is rarely called and
		 * waits briefly.
		 */
		(void)uaio_sleep(&fds->nr_waiting[side], nr,
				 uaio_now_ns() + LOOK_NS);
	}
	return true;
}

void uaio_poller_fini(struct uaio_poller *poller)
{
	struct uaio_poller_fds *fds;

	/*
	 * End this thread's own wait first: this code may run in a handler that
	 * interrupted the wait, or a handler may have left the wait by siglongjmp().
	 */
	uaio_poller_forget();
	/*
	 * Hold both locks, so that at any time either the poller or this thread owns
	 * the descriptors.
	 */
	uaio_lock(&pollers.lock, UAIO_RANK_POLLERS);
	lock(poller);
	wake_locked(poller);
	list_remove(&poller->node);
	fds = poller->fds;
	poller->fds = NULL;
	store_relaxed(&poller->is_open, 0);
	unlock(poller);
	uaio_unlock(&pollers.lock, UAIO_RANK_POLLERS);
	if (fds)
		put_fds(fds);
}

/* The move of a poller's descriptor to another number. */
struct move {
	struct uaio_poller *poller;
	struct uaio_poller_fds *fds; /* shares */
	/* waits on the old number are counted in nr_waiting[side] */
	uint32_t side;
	int from;
	int to;
};

/*
 * If the poller uses the descriptor, replace the descriptor by a duplicate.
 * Return: 0; -ENOENT: the poller does not use it; -EBUSY: no descriptor is free.
 */
static int move_locked(struct uaio_poller *poller, struct move *move)
{
	struct uaio_poller_fds *fds = poller->fds;

	if (!fds || (fds->epoll != move->from && fds->wake != move->from))
		return -ENOENT;
	move->to = uaio_ownfd_dup(move->from);
	if (move->to < 0)
		return -EBUSY;
	if (fds->epoll == move->from)
		fds->epoll = move->to;
	else
		fds->wake = move->to;
	move->poller = poller;
	move->fds = fds;
	move->side = fds->side;
	/*
	 * Threads that already wait use the old number; later waits use the new one.
	 */
	fds->side = !fds->side;
	wake_locked(poller);
	/*
	 * relaxed: this thread holds the lock, and the poller's own reference keeps the
	 * descriptors open
	 */
	add_relaxed(&fds->nr_refs, 1);
	return 0;
}

static int move_any(struct move *move)
{
	int ret = -ENOENT;

	uaio_lock(&pollers.lock, UAIO_RANK_POLLERS);
	list_for_each (pos, &pollers.open) {
		struct uaio_poller *poller =
			container_of(pos, struct uaio_poller, node);

		lock(poller);
		ret = move_locked(poller, move);
		unlock(poller);
		if (ret != -ENOENT)
			break;
	}
	uaio_unlock(&pollers.lock, UAIO_RANK_POLLERS);
	return ret;
}

/*
 * Undo a move, because a lost thread (poller.h, I2) may still wait on the old number.
 * So the library keeps the old number. If the poller is still open, it uses this number
 * again, so that the number has an owner.
 */
static void move_back(const struct move *move)
{
	struct uaio_poller_fds *fds = move->fds;
	bool is_back;

	lock(move->poller);
	is_back = move->poller->fds == fds &&
		  (fds->epoll == move->to || fds->wake == move->to);
	if (is_back && fds->epoll == move->to)
		fds->epoll = move->from;
	else if (is_back)
		fds->wake = move->from;
	unlock(move->poller);
	if (is_back)
		uaio_ownfd_close(move->to);
}

int uaio_pollers_yield(int fd)
{
	struct move move = { .from = fd };
	int ret = move_any(&move);
	bool is_free;

	if (ret < 0)
		return ret;
	/*
	 * await_waits() also fails if a thread was lost at an earlier move of this
	 * descriptor, because that thread may still be counted in
	 * nr_waiting[move.side].
	 */
	is_free = await_waits(move.fds, move.side);
	if (!is_free)
		move_back(&move);
	put_fds(move.fds);
	return is_free ? 0 : -EBUSY;
}
