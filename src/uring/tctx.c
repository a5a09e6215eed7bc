/* SPDX-License-Identifier: MIT */
/*
 * Rings that a thread has registered (IORING_REGISTER_RING_FDS): it names them by
 * their place, and each keeps its ring
 *
 * Tested by test-uring-register.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "base/check.h"
#include "base/slab.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "uring/calls.h"
#include "uring/ring.h"
#include "uring/table.h"

struct places {
	struct uaio_slab_node node;
	uint32_t start_nr; /* of the engine: a child of fork() has none */
	struct uaio_uring *rings[UAIO_URING_RINGFDS_MAX]; /* hold (ring.h) */
};

static struct {
	struct uaio_slab slab;
	uint32_t start_nr;     /* of the engine that the slab is of */
	struct uaio_lock lock; /* rank TABLE */
	pthread_key_t key;
	bool has_key;
} regrings;

/* Return: the places of this thread, or NULL. */
static struct places *mine(void)
{
	return regrings.has_key ? pthread_getspecific(regrings.key) : NULL;
}

static bool is_current(const struct places *places)
{
	return places && places->start_nr == uaio_engine_start_nr();
}

/* The thread ends. */
static void forget(void *value)
{
	struct places *places = value;

	if (!is_current(places) || !uaio_engine_is_up() || !uaio_enter())
		return;
	for (uint32_t i = 0; i < UAIO_URING_RINGFDS_MAX; i++)
		if (places->rings[i])
			uaio_uring_let_go(places->rings[i]);
	uaio_slab_put(&regrings.slab, places);
	uaio_leave();
}

void uaio_uring_regrings_forget(void)
{
	/* The parent's other threads, which may have held it, are not here. */
	regrings.lock = (struct uaio_lock){ 0 };
}

void uaio_uring_regrings_init(void)
{
	if (!regrings.has_key)
		regrings.has_key = !pthread_key_create(&regrings.key, forget);
}

/* Return: the places of this thread; NULL if memory is refused. */
static struct places *places_of_mine(void)
{
	struct places *places = mine();

	if (!regrings.has_key || is_current(places))
		return places;
	uaio_lock(&regrings.lock, UAIO_RANK_TABLE);
	if (regrings.start_nr != uaio_engine_start_nr())
		uaio_slab_init(&regrings.slab, sizeof(struct places), 4096);
	regrings.start_nr = uaio_engine_start_nr();
	uaio_unlock(&regrings.lock, UAIO_RANK_TABLE);
	places = uaio_slab_get(&regrings.slab);
	if (!places)
		return NULL;
	places->start_nr = uaio_engine_start_nr();
	for (uint32_t i = 0; i < UAIO_URING_RINGFDS_MAX; i++)
		places->rings[i] = NULL;
	if (pthread_setspecific(regrings.key, places) == 0)
		return places;
	uaio_slab_put(&regrings.slab, places);
	return NULL;
}

struct uaio_uring *uaio_uring_registered(uint32_t place)
{
	const struct places *places = mine();

	return place < UAIO_URING_RINGFDS_MAX && is_current(places)
		       ? places->rings[place]
		       : NULL;
}

void uaio_uring_meet_thread(void)
{
	/* Without memory it is not known, and gets another error. */
	(void)places_of_mine();
}

bool uaio_uring_knows_thread(void)
{
	return mine() != NULL;
}

/* Put a ring where the client wants it, or where there is room. */
static int add(struct places *places, struct uaio_uring *ring, uint32_t *offset)
{
	uint32_t first = *offset, end = *offset + 1;

	if (*offset == UINT32_MAX) {
		first = 0;
		end = UAIO_URING_RINGFDS_MAX;
	}
	for (uint32_t i = first; i < end; i++) {
		if (places->rings[i] || uaio_uring_is_kernels_slot(i))
			continue;
		if (!uaio_uring_keep(ring))
			return -EBADF;
		places->rings[i] = ring;
		*offset = i;
		return 0;
	}
	return -EBUSY;
}

int uaio_uring_register_new(struct uaio_uring *ring)
{
	struct places *places = places_of_mine();

	if (!places)
		return -ENOMEM;
	for (uint32_t i = 0; i < UAIO_URING_RINGFDS_MAX; i++) {
		if (places->rings[i] || uaio_uring_is_kernels_slot(i))
			continue;
		places->rings[i] = ring;
		return (int)i;
	}
	return -EBUSY;
}

void uaio_uring_unregister_place(uint32_t place)
{
	struct places *places = mine();
	struct uaio_uring *ring = places->rings[place];

	places->rings[place] = NULL;
	if (ring)
		uaio_uring_let_go(ring);
}

static int register_one(struct places *places, uint64_t at)
{
	struct io_uring_rsrc_update update;
	struct uaio_uring *ring;
	int ret;

	if (uaio_uring_copy_in(&update, at, sizeof(update)) < 0)
		return -EFAULT;
	if (update.resv)
		return -EINVAL;
	if (update.offset != UINT32_MAX &&
	    update.offset >= UAIO_URING_RINGFDS_MAX)
		return -EINVAL;
	ring = uaio_uring_ask((uint32_t)update.data);
	if (!ring)
		return sys_fcntl((int)update.data, F_GETFD, 0) < 0
			       ? -EBADF
			       : -EOPNOTSUPP;
	if (!uaio_uring_is_here(ring))
		return -EBADF;
	ret = add(places, ring, &update.offset);
	if (ret < 0)
		return ret;
	if (!uaio_uring_is_still((uint32_t)update.data, ring)) {
		/* The descriptor was closed meanwhile; this is another ring. */
		places->rings[update.offset] = NULL;
		uaio_uring_let_go(ring);
		return -EBADF;
	}
	if (uaio_uring_copy_out(at, &update, sizeof(update)) == 0)
		return 0;
	places->rings[update.offset] = NULL;
	uaio_uring_let_go(ring);
	return -EFAULT;
}

static int unregister_one(struct places *places, uint64_t at)
{
	struct io_uring_rsrc_update update;

	(void)places; /* this thread's */
	if (uaio_uring_copy_in(&update, at, sizeof(update)) < 0)
		return -EFAULT;
	if (update.resv || update.data ||
	    update.offset >= UAIO_URING_RINGFDS_MAX)
		return -EINVAL;
	uaio_uring_unregister_place(update.offset);
	return 0;
}

static long for_all(void *arg, uint32_t nr,
		    int (*act)(struct places *places, uint64_t at))
{
	struct places *places;
	uint32_t i;
	int ret = 0;

	if (!nr || nr > UAIO_URING_RINGFDS_MAX)
		return -EINVAL;
	places = places_of_mine();
	if (!places)
		return -ENOMEM;
	for (i = 0; i < nr && ret == 0; i++)
		ret = act(places,
			  (uintptr_t)arg +
				  i * sizeof(struct io_uring_rsrc_update));
	return ret < 0 && i == 1 ? ret : (long)i - (ret < 0);
}

long uaio_uring_register_rings(void *arg, uint32_t nr)
{
	return for_all(arg, nr, register_one);
}

long uaio_uring_unregister_rings(void *arg, uint32_t nr)
{
	if (nr && nr <= UAIO_URING_RINGFDS_MAX && !uaio_uring_knows_thread())
		return 0;
	return for_all(arg, nr, unregister_one);
}
