/* SPDX-License-Identifier: MIT */
/*
 * Makes the kernel's rings for queues, and keeps unused ones (native.h). Tested by
 * test-native-rings.c.
 */
#include <errno.h>

#include "base/check.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "proc/ownfd.h"
#include "native/krings.h"
#include "native/nativeint.h"

enum {
	/*
	 * The number of events of a ring, and the most rings of a process. All
	 * processes share a quota of events (65536 by default), and other processes
	 * need some of it.
	 */
	RING_EVENTS = 128,
	RINGS_MAX = 64,
	/*
	 * The most unused rings that are kept. Making or closing a ring takes long.
	 */
	IDLE_MAX = 4,
};

static struct {
	/* atomic: after a refusal, no ring is made until this time */
	int64_t again_ns;

	struct uaio_lock lock; /* rank NATIVES */
	/* under lock */
	struct list used;
	struct list idle;
	unsigned nr_idle;
	/* rings that exist or are just being made */
	unsigned nr;

	struct uaio_slab slab;
} rings;

static void forget_rings(void)
{
	store_relaxed(&rings.again_ns, 0);
	list_init(&rings.used);
	list_init(&rings.idle);
	rings.nr_idle = rings.nr = 0;
	uaio_slab_init(&rings.slab, sizeof(struct uaio_native), 4096);
}

void uaio_native_rings_init(void)
{
	/* A child of fork() has none of its parent's rings. */
	rings.lock = (struct uaio_lock){ 0 };
	forget_rings();
}

int64_t uaio_native_rings_again_ns(void)
{
	/* relaxed: a hint */
	return load_relaxed(&rings.again_ns);
}

/*
 * If a seccomp filter has refused a call of kernel AIO, the filter will always refuse
 * this call: never try again. If the call failed because a resource is used up, try
 * again after a while.
 */
static void note_no_ring(int error)
{
	bool is_final = error == -ENOSYS || error == -EPERM;

	/* relaxed: a hint */
	store_relaxed(&rings.again_ns,
		      is_final ? UAIO_FOREVER
			       : uaio_now_ns() + UAIO_NATIVE_AGAIN_NS);
}

static void lock(void)
{
	uaio_lock(&rings.lock, UAIO_RANK_NATIVES);
}

static void unlock(void)
{
	uaio_unlock(&rings.lock, UAIO_RANK_NATIVES);
}

#ifdef UAIO_TESTING
void uaio_native_rings_reset(void)
{
	lock();
	forget_rings();
	unlock();
}
#endif

static void count_out_ring(void)
{
	lock();
	rings.nr--;
	unlock();
}

static void destroy(struct uaio_native *native)
{
	/*
	 * If the program has closed the eventfd, its descriptor may belong to a file of
	 * the program by now, so it must not be closed.
	 */
	if (unlikely(load_relaxed(&native->is_lost)))
		uaio_ownfd_give_up(native->event_fd);
	else if (native->event_fd >= 0)
		uaio_ownfd_close(native->event_fd);
	uaio_kaio_close(native->ring);
	uaio_slab_put(&rings.slab, native);
	count_out_ring();
}

/*
 * Make a ring. The caller has already counted it in rings.nr.
 * Return: NULL if no ring can be made; rings.nr then no longer counts it.
 */
static struct uaio_native *create(void)
{
	struct uaio_native *native = uaio_slab_get(&rings.slab);
	int ret;

	if (!native)
		goto err;
	ret = uaio_kaio_open(RING_EVENTS, &native->ring);
	if (ret < 0)
		goto err_slab;
	native->lock = (struct uaio_lock){ 0 };
	store_relaxed(&native->nr, 0);
	store_relaxed(&native->is_lost, 0);
	store_relaxed(&native->nr_blocking, 0);
	store_relaxed(&native->nr_by_workers, 0);
	list_init(&native->node);
	store_relaxed(&native->event_fd, uaio_ownfd_event(0));
	if (native->event_fd >= 0)
		return native;
	note_no_ring(-EMFILE);
	destroy(native);
	return NULL;

err_slab:
	uaio_slab_put(&rings.slab, native);
	note_no_ring(ret);
err:
	count_out_ring();
	return NULL;
}

/*
 * Return: an unused ring; NULL if there is none. *ret_may_create: the caller must then
 * make a ring, which rings.nr counts already.
 */
static struct uaio_native *take_idle(bool *ret_may_create)
{
	struct uaio_native *native = NULL;
	struct list *node;

	lock();
	node = list_pop(&rings.idle);
	if (node) {
		rings.nr_idle--;
		native = container_of(node, struct uaio_native, node);
	}
	*ret_may_create = !node && rings.nr < RINGS_MAX;
	rings.nr += *ret_may_create;
	if (!node && !*ret_may_create)
		note_no_ring(-EAGAIN);
	unlock();
	return native;
}

/*
 * Keep native for another queue.
 * Return: false if enough unused rings are kept.
 */
static bool keep_locked(struct uaio_native *native)
{
	if (rings.nr_idle == IDLE_MAX)
		return false;
	list_add_tail(&rings.idle, &native->node);
	rings.nr_idle++;
	/* relaxed: a hint */
	store_relaxed(&rings.again_ns, 0);
	return true;
}

static void give_back(struct uaio_native *native)
{
	bool is_kept;

	lock();
	/* relaxed: no thread uses the ring any more */
	is_kept = !load_relaxed(&native->is_lost) && keep_locked(native);
	unlock();
	if (!is_kept)
		destroy(native);
}

/*
 * Return: 0 if `native` now is the queue's ring; -EEXIST if the queue has one already;
 * otherwise the error of epoll_ctl().
 */
static int attach_locked(struct uaio_native *native, struct uaio_group *group)
{
	int ret;

	/* relaxed: group->native changes only under the lock, which this thread holds */
	if (load_relaxed(&group->native))
		return -EEXIST;
	ret = uaio_poller_ctl(&group->ready.poller, EPOLL_CTL_ADD,
			      native->event_fd, EPOLLIN, UAIO_POLLER_NOBODYS);
	if (ret < 0)
		return ret;
	native->group = group;
	list_add_tail(&rings.used, &native->node);
	/*
	 * [MB:native] release: this thread has written the ring's members. Pairs with
	 * uaio_native_of().
	 */
	store_release(&group->native, native);
	return 0;
}

static __attribute__((noinline)) struct uaio_native *
make_ring(struct uaio_group *group)
{
	struct uaio_native *native;
	bool may_create;
	int ret;

	/*
	 * If a queue shares the epoll of the commons (ready.h), it has no epoll of its
	 * own. So it gets no ring.
	 */
	if (load_relaxed(&group->ready.home) != group ||
	    !uaio_poller_is_open(&group->ready.poller))
		return NULL;
	native = take_idle(&may_create);
	if (may_create)
		native = create();
	if (!native)
		return NULL;
	lock();
	ret = attach_locked(native, group);
	unlock();
	/* The program may have closed the eventfd while no queue used the ring. */
	if (ret == -EBADF || ret == -EPERM)
		/* relaxed: no other thread has the ring */
		store_relaxed(&native->is_lost, 1);
	if (ret < 0)
		give_back(native);
	if (ret < 0 && ret != -EEXIST)
		note_no_ring(-EAGAIN);
	return uaio_native_of(group);
}

struct uaio_native *uaio_native_get(struct uaio_group *group)
{
	struct uaio_native *native = uaio_native_of(group);

	return likely(native) ? native : make_ring(group);
}

void uaio_native_leave(struct uaio_group *group)
{
	struct uaio_native *native = uaio_native_of(group);

	if (likely(!native))
		return;
	lock();
	list_remove(&native->node);
	unlock();
}

void uaio_native_put(struct uaio_group *group)
{
	struct uaio_native *native = uaio_native_of(group);

	if (likely(!native))
		return;
	UAIO_CHECK(!load_relaxed(&native->nr));
	/* relaxed: no thread uses the queue any more */
	store_relaxed(&group->native, NULL);
	give_back(native);
}

uint32_t uaio_natives_each(void (*act)(struct uaio_group *group))
{
	struct uaio_group *groups[16];
	struct list seen;
	uint32_t nr_requests = 0;
	unsigned nr = 0;

	list_init(&seen);
	lock();
	list_for_each_safe (pos, &rings.used) {
		struct uaio_native *native =
			container_of(pos, struct uaio_native, node);
		/* relaxed: the next call sees requests that this load misses */
		uint32_t nr_left = load_relaxed(&native->nr);

		nr_requests += nr_left;
		if (!nr_left || nr == 16)
			continue;
		uaio_ready_pin(&native->group->ready);
		groups[nr++] = native->group;
		list_remove(pos);
		list_add_tail(&seen, pos);
	}
	/*
	 * Put the rings of the selected queues last, so that the next call selects other
	 * queues first.
	 */
	list_splice_tail(&rings.used, &seen);
	unlock();
	for (unsigned i = 0; i < nr; i++) {
		act(groups[i]);
		uaio_ready_unpin(&groups[i]->ready);
	}
	return nr_requests;
}

/* Moving an eventfd to another descriptor, as the program claims the present one */

/* Return: the ring in list whose eventfd is fd, or NULL. */
static struct uaio_native *find_locked(const struct list *list, int fd)
{
	list_for_each (pos, list) {
		struct uaio_native *native =
			container_of(pos, struct uaio_native, node);

		/* relaxed: event_fd changes only under the lock, which this thread holds */
		if (load_relaxed(&native->event_fd) == fd)
			return native;
	}
	return NULL;
}

/*
 * The eventfd has a new descriptor. Workers may be in calls that use the old descriptor:
 * wait until these calls end, but at most one second. Only a call that waits for free
 * blocks on the disk lasts longer, and by then the kernel has looked up the descriptor.
 */
static void await_blocking(const struct uaio_native *native)
{
	enum { SOON_NS = 100000 };
	int64_t until = uaio_now_ns() + UAIO_NATIVE_AGAIN_NS;
	uint32_t word = 0;

	/*
	 * [MB:native-begun] seq_cst: read nr_blocking after event_fd has changed. Pairs
	 * with uaio_native_submit_blocking().
	 */
	while (load_seq_cst(&native->nr_blocking) && uaio_now_ns() < until)
		(void)uaio_sleep(&word, 0, uaio_now_ns() + SOON_NS);
}

/* Give the eventfd its new descriptor, and replace the old one in the epoll. */
static void move_locked(struct uaio_native *native, struct uaio_group *group,
			int moved)
{
	struct uaio_poller *poller = group ? &group->ready.poller : NULL;
	int old = load_relaxed(&native->event_fd);
	bool is_watched = poller && uaio_poller_ctl(poller, EPOLL_CTL_ADD,
						    moved, EPOLLIN, 0) == 0;

	/*
	 * [MB:native-begun] seq_cst: a submitting thread counts its call (nr_begun or
	 * nr_blocking), then reads event_fd. If it counts the call after this store, the
	 * call uses the new descriptor. Pairs with uaio_native_submit() and submit_one().
	 */
	store_seq_cst(&native->event_fd, moved);
	if (is_watched)
		(void)uaio_poller_ctl(poller, EPOLL_CTL_DEL, old, 0, 0);
}

int uaio_natives_yield(int fd)
{
	struct uaio_group *group = NULL;
	struct uaio_native *native;
	int moved = -EBUSY;

	lock();
	native = find_locked(&rings.used, fd);
	if (native) {
		group = native->group;
		uaio_ready_pin(&group->ready);
	} else {
		native = find_locked(&rings.idle, fd);
	}
	if (native)
		moved = uaio_ownfd_dup(fd);
	if (native && moved >= 0)
		move_locked(native, group, moved);
	unlock();
	if (!native)
		return -ENOENT;
	if (moved >= 0)
		uaio_natives_await_calls();
	if (moved >= 0 && group)
		await_blocking(native);
	if (group)
		uaio_ready_unpin(&group->ready);
	return moved < 0 ? -EBUSY : 0;
}
