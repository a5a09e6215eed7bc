/* SPDX-License-Identifier: MIT */
#include "engine/poller.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/check.h"
#include "base/sys.h"
#include "engine/entry.h"
#include "engine/ownfd.h"

enum {
	/* One who was woken is back by then, unless he never comes. */
	LOST_NS = 1000000000,
	LOOK_NS = 1000000,
};

static struct {
	struct uaio_lock lock;  /* rank POLLERS */
	struct list open;       /* under lock */
	uint32_t has_no_pwait2; /* atomic: the kernel or a sandbox refuses it */
} pollers;

/*
 * What this thread waits on. It is left behind by a handler that jumps out of
 * the wait, and found by the thread's next one; serial tells the waits apart.
 */
static _Thread_local struct {
	struct uaio_poller *poller; /* its memory outlives it (slab.h) */
	uint32_t life;
	uint32_t side : 1;
	uint32_t serial : 31;
} waiting __attribute__((tls_model("initial-exec")));

void uaio_pollers_init(void)
{
	/* A child of fork() waits on nothing. */
	waiting.poller = NULL;
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
	/* Under the lock as it is: one of the life before may be about to look. */
	lock(poller);
	poller->epoll = poller->wake = -1;
	store_relaxed(&poller->is_open, 0);
	poller->side = 0;
	store_relaxed(&poller->nr_waiting[0], 0);
	store_relaxed(&poller->nr_waiting[1], 0);
	/* relaxed: who left a wait behind long ago is told apart by it */
	store_relaxed(&poller->life, load_relaxed(&poller->life) + 1);
	list_init(&poller->node);
	unlock(poller);
}

static int ctl(int epoll, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = { .events = events };

	event.data.u64 = data;
	return sys_epoll_ctl(epoll, op, fd, &event);
}

static int open_locked(struct uaio_poller *poller)
{
	int ret;

	if (poller->epoll >= 0)
		return 0;
	poller->epoll = uaio_ownfd_epoll();
	if (poller->epoll < 0) {
		ret = poller->epoll;
		goto err;
	}
	poller->wake = uaio_ownfd_event(EFD_NONBLOCK);
	if (poller->wake < 0) {
		ret = poller->wake;
		goto err_epoll;
	}
	/* Level-triggered: who only takes does not take it from who waits. */
	ret = ctl(poller->epoll, EPOLL_CTL_ADD, poller->wake, EPOLLIN, 0);
	if (ret == 0)
		return 0;
	uaio_ownfd_close(poller->wake);
err_epoll:
	uaio_ownfd_close(poller->epoll);
err:
	poller->epoll = poller->wake = -1;
	return ret;
}

int uaio_poller_open(struct uaio_poller *poller)
{
	int ret;

	if (likely(uaio_poller_is_open(poller)))
		return 0;
	uaio_lock(&pollers.lock, UAIO_RANK_POLLERS);
	lock(poller);
	ret = open_locked(poller);
	store_relaxed(&poller->is_open, ret == 0);
	if (ret == 0 && list_is_empty(&poller->node))
		list_add_tail(&pollers.open, &poller->node);
	unlock(poller);
	uaio_unlock(&pollers.lock, UAIO_RANK_POLLERS);
	return ret;
}

int uaio_poller_ctl(struct uaio_poller *poller, int op, int fd, uint32_t events,
		    uint64_t data)
{
	int ret = -EBADF;

	lock(poller);
	if (poller->epoll >= 0)
		ret = ctl(poller->epoll, op, fd, events | EPOLLET, data);
	unlock(poller);
	return ret;
}

int uaio_poller_nest(struct uaio_poller *poller, int op,
		     struct uaio_poller *inner, uint64_t data)
{
	int ret = -EBADF;

	/* Of two pollers the outer comes first. */
	lock(poller);
	uaio_lock(&inner->lock, UAIO_RANK_POLLER_INNER);
	if (poller->epoll >= 0 && inner->epoll >= 0)
		ret = ctl(poller->epoll, op, inner->epoll, EPOLLIN | EPOLLET,
			  data);
	uaio_unlock(&inner->lock, UAIO_RANK_POLLER_INNER);
	unlock(poller);
	return ret;
}

static void wake_locked(struct uaio_poller *poller)
{
	uint64_t one = 1;

	if (poller->wake >= 0)
		(void)sys_write(poller->wake, &one, sizeof(one));
}

void uaio_poller_wake(struct uaio_poller *poller)
{
	lock(poller);
	wake_locked(poller);
	unlock(poller);
}

static void end_wait(void)
{
	struct uaio_poller *poller = waiting.poller;

	waiting.poller = NULL;
	/* relaxed: it changes long after whoever waited was given up */
	if (load_relaxed(&poller->life) == waiting.life)
		/* [MB:poller] release: the call is over. Pairs with
		 * await_waits(). */
		sub_release(&poller->nr_waiting[waiting.side], 1);
}

static uint32_t begin_wait(struct uaio_poller *poller, uint32_t side)
{
	/* A handler jumped out of it, or runs in it: it is over either way. */
	if (unlikely(waiting.poller))
		end_wait();
	waiting.life = uaio_poller_life(poller);
	waiting.side = side & 1;
	waiting.poller = poller;
	return ++waiting.serial;
}

static void leave_wait(uint32_t serial)
{
	/* A wait of a handler that ran meanwhile has ended ours. */
	if (likely(waiting.serial == serial && waiting.poller))
		end_wait();
}

/* Where epoll_pwait2() cannot be had: poll() knows nanoseconds, too. */
static int wait_by_poll(int epoll, struct epoll_event *ret_events, int max,
			const struct timespec *timeout, const void *mask,
			size_t mask_bytes)
{
	struct pollfd slot = { .fd = epoll, .events = POLLIN };
	int ret = sys_ppoll(&slot, 1, timeout, mask, mask_bytes);

	/* With a limit of no descriptors it is not even looked at. */
	if (ret < 0 && ret != -EINVAL)
		return ret;
	return sys_epoll_pwait(epoll, ret_events, max, 0);
}

static int wait_on(int epoll, struct epoll_event *ret_events, int max,
		   const struct uaio_poller_wait *wait)
{
	int64_t left = wait->deadline_ns - uaio_now_ns();
	struct timespec timeout = { 0 };
	int ret;

	if (left > 0) {
		timeout.tv_sec = left / 1000000000;
		timeout.tv_nsec = left % 1000000000;
	}
	/* relaxed: who does not know it yet finds out */
	if (!load_relaxed(&pollers.has_no_pwait2)) {
		ret = sys_epoll_pwait2(epoll, ret_events, max, &timeout,
				       wait->mask, wait->mask_bytes);
		if (ret != -ENOSYS && ret != -EPERM)
			return ret;
		store_relaxed(&pollers.has_no_pwait2, 1);
	}
	return wait_by_poll(epoll, ret_events, max, &timeout, wait->mask,
			    wait->mask_bytes);
}

/*
 * The wake-up has been seen; one that comes from here on is another. Not
 * counted any more, so the poller may have another life, with waits of its own.
 */
static void clear_wake(struct uaio_poller *poller, uint32_t life,
		       const struct epoll_event *events, int nr)
{
	uint64_t count;

	for (int i = 0; i < nr; i++) {
		if (events[i].data.u64)
			continue;
		lock(poller);
		if (poller->wake >= 0 && uaio_poller_life(poller) == life)
			(void)sys_read(poller->wake, &count, sizeof(count));
		unlock(poller);
	}
}

/* Return: the number, which is counted as in use; or -EBADF. */
static int use(struct uaio_poller *poller, uint32_t life, uint32_t *ret_side)
{
	int epoll = -EBADF;

	lock(poller);
	if (poller->epoll >= 0 && uaio_poller_life(poller) == life) {
		epoll = poller->epoll;
		*ret_side = poller->side;
		add_relaxed(&poller->nr_waiting[poller->side], 1);
	}
	unlock(poller);
	return epoll;
}

int uaio_poller_take(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max)
{
	int ret = -EBADF;

	/* It does not sleep, so under the lock. */
	lock(poller);
	if (poller->epoll >= 0)
		ret = sys_epoll_pwait(poller->epoll, ret_events, max, 0);
	unlock(poller);
	return ret;
}

int uaio_poller_wait(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max, const struct uaio_poller_wait *wait)
{
	uint32_t serial, side;
	int epoll = use(poller, wait->life, &side), ret, depth;

	if (epoll < 0)
		return epoll;
	serial = begin_wait(poller, side);
	depth = uaio_step_out();
	ret = wait_on(epoll, ret_events, max, wait);
	uaio_step_in(depth);
	leave_wait(serial);
	clear_wake(poller, wait->life, ret_events, ret);
	return ret;
}

/*
 * Nobody new counts on this side; who does is to come back.
 * Return: false if somebody does not.
 */
static bool await_waits(struct uaio_poller *poller, uint32_t side)
{
	int64_t lost = uaio_now_ns() + LOST_NS;
	uint32_t nr;

	/* [MB:poller] acquire: pairs with end_wait(). */
	while ((nr = load_acquire(&poller->nr_waiting[side]))) {
		if (uaio_now_ns() >= lost)
			return false;
		/* Rare, and soon over: nobody is asked to wake us. */
		(void)uaio_sleep(&poller->nr_waiting[side], nr,
				 uaio_now_ns() + LOOK_NS);
	}
	return true;
}

void uaio_poller_fini(struct uaio_poller *poller)
{
	int epoll, wake;

	/* Held throughout: whose the numbers are can be told at any time. */
	uaio_lock(&pollers.lock, UAIO_RANK_POLLERS);
	list_remove(&poller->node);
	lock(poller);
	wake_locked(poller);
	epoll = poller->epoll;
	wake = poller->wake;
	poller->epoll = poller->wake = -1;
	store_relaxed(&poller->is_open, 0);
	unlock(poller);
	if (epoll >= 0 && await_waits(poller, 0) && await_waits(poller, 1)) {
		uaio_ownfd_close(wake);
		uaio_ownfd_close(epoll);
	}
	uaio_unlock(&pollers.lock, UAIO_RANK_POLLERS);
}

static struct uaio_poller *find_locked(int fd)
{
	list_for_each (pos, &pollers.open) {
		struct uaio_poller *poller =
			container_of(pos, struct uaio_poller, node);
		bool is_it;

		lock(poller);
		is_it = poller->epoll == fd || poller->wake == fd;
		unlock(poller);
		if (is_it)
			return poller;
	}
	return NULL;
}

/* Return: whether the number is free for the host now. */
static bool move_locked(struct uaio_poller *poller, int fd)
{
	int *own, to = uaio_ownfd_dup(fd);
	uint32_t side;

	if (to < 0)
		return false;
	lock(poller);
	side = poller->side;
	own = poller->epoll == fd ? &poller->epoll : &poller->wake;
	*own = to;
	/* Who waits was on the old number, who begins is on the new one. */
	poller->side = !side;
	wake_locked(poller);
	unlock(poller);
	/* Of the number before that one somebody may have been lost. */
	if (await_waits(poller, side))
		return true;
	lock(poller);
	*own = fd;
	unlock(poller);
	uaio_ownfd_close(to);
	return false;
}

bool uaio_pollers_yield(int fd)
{
	struct uaio_poller *poller;
	bool has_moved = false;

	/* Held throughout: none is closed meanwhile. */
	uaio_lock(&pollers.lock, UAIO_RANK_POLLERS);
	poller = find_locked(fd);
	if (poller)
		has_moved = move_locked(poller, fd);
	uaio_unlock(&pollers.lock, UAIO_RANK_POLLERS);
	return has_moved;
}
