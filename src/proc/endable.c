/* SPDX-License-Identifier: MIT */
#include "proc/endable.h"

#include <errno.h>
#include <stdbool.h>

#include "proc/poller.h"

/*
 * NR_IDLE_MAX: how many unused endables (endable.h) stay open. Each endable has two
 * descriptors.
 */
enum { NR_IDLE_MAX = 8, NR_EVENTS = 2, OF_FILE = 1 };

struct uaio_endable {
	struct uaio_slab_node slab;
	struct uaio_poller poller;
	struct uaio_endable *next_idle; /* under endables.lock */
	uint32_t is_ended;              /* atomic */
};

static struct {
	struct uaio_slab slab;
	struct uaio_lock lock;     /* rank ENDABLES */
	struct uaio_endable *idle; /* under lock; owns */
	unsigned nr_idle;          /* under lock */
} endables;

void uaio_endables_init(void)
{
	uaio_slab_init(&endables.slab, sizeof(struct uaio_endable), 4096);
	endables.lock = (struct uaio_lock){ 0 };
	endables.idle = NULL;
	endables.nr_idle = 0;
}

static struct uaio_endable *take_idle(void)
{
	struct uaio_endable *endable;

	uaio_lock(&endables.lock, UAIO_RANK_ENDABLES);
	endable = endables.idle;
	if (endable) {
		endables.idle = endable->next_idle;
		endables.nr_idle--;
	}
	uaio_unlock(&endables.lock, UAIO_RANK_ENDABLES);
	return endable;
}

/*
 * Keep the endable open for reuse, unless NR_IDLE_MAX endables are kept already.
 * Return: whether it is kept.
 */
static bool keep_idle(struct uaio_endable *endable)
{
	bool is_kept;

	uaio_lock(&endables.lock, UAIO_RANK_ENDABLES);
	is_kept = endables.nr_idle < NR_IDLE_MAX;
	if (is_kept) {
		endable->next_idle = endables.idle;
		endables.idle = endable;
		endables.nr_idle++;
	}
	uaio_unlock(&endables.lock, UAIO_RANK_ENDABLES);
	return is_kept;
}

struct uaio_endable *uaio_endable_get(void)
{
	struct uaio_endable *endable = take_idle();

	if (!endable) {
		endable = uaio_slab_get(&endables.slab);
		if (!endable)
			return NULL;
		uaio_poller_init(&endable->poller);
		if (uaio_poller_open_within_share(&endable->poller) < 0) {
			uaio_slab_put(&endables.slab, endable);
			return NULL;
		}
	}
	/* relaxed: no other thread knows the endable yet */
	store_relaxed(&endable->is_ended, 0);
	return endable;
}

void uaio_endable_put(struct uaio_endable *endable)
{
	if (keep_idle(endable))
		return;
	uaio_poller_fini(&endable->poller);
	uaio_slab_put(&endables.slab, endable);
}

/*
 * Return: whether an event says that the file is ready. An event of the poller's own
 * eventfd does not count: it may be left from a wake-up that was meant for an earlier
 * user of the endable (endable.h).
 */
static bool is_of_file(const struct epoll_event *events, int nr)
{
	for (int i = 0; i < nr; i++)
		if (events[i].data.u64 == OF_FILE)
			return true;
	return false;
}

int uaio_endable_wait(struct uaio_endable *endable, int fd, uint32_t events)
{
	const struct uaio_poller_wait wait = {
		.deadline_ns = INT64_MAX,
		.generation = uaio_poller_generation(&endable->poller),
	};
	struct epoll_event told[NR_EVENTS];
	int ret = uaio_poller_ctl(&endable->poller, EPOLL_CTL_ADD, fd, events,
				  OF_FILE);

	if (ret < 0)
		return ret;
	do {
		/*
		 * relaxed: if another thread sets is_ended after this load, that
		 * thread's wake-up ends the wait
		 */
		if (load_relaxed(&endable->is_ended)) {
			ret = -EINTR;
			break;
		}
		ret = uaio_poller_wait(&endable->poller, told, NR_EVENTS,
				       &wait);
	} while (ret == -EINTR || (ret >= 0 && !is_of_file(told, ret)));
	(void)uaio_poller_ctl(&endable->poller, EPOLL_CTL_DEL, fd, 0, 0);
	return ret < 0 ? ret : 0;
}

void uaio_endable_end(struct uaio_endable *endable)
{
	/*
	 * relaxed: uaio_poller_wake() and the waiting thread both acquire the poller's
	 * lock, so the woken thread sees this store
	 */
	store_relaxed(&endable->is_ended, 1);
	uaio_poller_wake(&endable->poller);
}
