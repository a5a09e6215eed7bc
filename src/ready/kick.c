/* SPDX-License-Identifier: MIT */
/*
 * Lists of watches (a watch: a file for which requests of a queue wait). Kicked: the
 * watch's requests must be tried. Fresh: a request was parked, and no thread has looked
 * at the watch since. Unarmed: the file is not yet in the epoll. Refused: the epoll
 * refuses the file, or the file is in doubt (ready.h).
 *
 * Tested by test-ready*.c.
 */
#include "ready/readyint.h"

enum { ALL_WAITQS = UAIO_WAITQS_ASK | (UAIO_WAITQS_ASK - 1) };

/*
 * always_inline: most callers pass a constant `place`, so the compiler drops most cases
 * of the switch
 */
static inline __attribute__((always_inline)) void
move_locked(struct uaio_ready *ready, struct uaio_watch *watch,
	    enum uaio_watch_place place)
{
	/*
	 * relaxed, here and below: `place` changes only under the lock, which the
	 * caller holds
	 */
	bool was_kicked = load_relaxed(&watch->place) == UAIO_WATCH_KICKED;

	list_remove(&watch->in_list);
	if (was_kicked || place == UAIO_WATCH_KICKED)
		/* relaxed: a hint */
		store_relaxed(&ready->has_kicked,
			      place == UAIO_WATCH_KICKED ||
				      !list_is_empty(&ready->kicked));
	store_relaxed(&watch->place, place);
	switch (place) {
	case UAIO_WATCH_IDLE:
		watch->waitqs = 0;
		if (unlikely(watch->file->flags & UAIO_FILE_F_PERSONAL))
			list_add_tail(&ready->personal, &watch->in_list);
		break;
	case UAIO_WATCH_KICKED:
		list_add_tail(&ready->kicked, &watch->in_list);
		break;
	case UAIO_WATCH_FRESH:
		list_add_head(&ready->fresh, &watch->in_list);
		break;
	case UAIO_WATCH_UNARMED:
		list_add_tail(&ready->unarmed, &watch->in_list);
		break;
	case UAIO_WATCH_REFUSED:
		list_add_tail(&ready->refused, &watch->in_list);
		break;
	}
}

static void lock(struct uaio_ready *ready)
{
	uaio_lock(&ready->lock, UAIO_RANK_READY);
}

static void unlock(struct uaio_ready *ready)
{
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
}

/*
 * Called if wait queues must be run for another reason than an event of the epoll. In
 * this case no edge tells the polls what is ready, so they must query their file.
 * Return: waitqs; if polls are among them, with UAIO_WAITQS_ASK.
 */
static uint32_t asking(uint32_t waitqs)
{
	return waitqs & 1u << UAIO_WAITQ_POLL ? waitqs | UAIO_WAITQS_ASK
					      : waitqs;
}

static bool is_kicked_locked(const struct uaio_watch *watch)
{
	return load_relaxed(&watch->place) == UAIO_WATCH_KICKED;
}

static void kick(struct uaio_watch *watch, uint32_t waitqs, bool is_armed)
{
	struct uaio_ready *ready = &load_relaxed(&watch->group)->ready;

	lock(ready);
	watch->waitqs |= waitqs;
	watch->is_unarmed |= !is_armed;
	if (!is_kicked_locked(watch))
		move_locked(ready, watch, UAIO_WATCH_KICKED);
	unlock(ready);
}

void uaio_watch_kick(struct uaio_watch *watch, uint32_t waitqs, bool is_armed)
{
	kick(watch, asking(waitqs), is_armed);
}

void uaio_watch_kick_told(struct uaio_watch *watch, uint32_t waitqs)
{
	kick(watch, waitqs, true);
}

void uaio_watch_freshen(struct uaio_watch *watch, uint32_t waitqs,
			bool is_untried)
{
	struct uaio_ready *ready = &load_relaxed(&watch->group)->ready;

	lock(ready);
	watch->waitqs |= asking(waitqs);
	watch->is_unarmed = true;
	watch->is_untried |= is_untried;
	watch->nr_fresh++;
	if (!is_kicked_locked(watch))
		move_locked(ready, watch, UAIO_WATCH_FRESH);
	unlock(ready);
}

void uaio_watch_doubt(struct uaio_watch *watch, uint32_t waitqs)
{
	struct uaio_ready *ready = &load_relaxed(&watch->group)->ready;

	lock(ready);
	/*
	 * Even if the watch is on the kicked list, store the wait queues: the thread
	 * that takes the watch from the list tries them.
	 */
	watch->waitqs |= asking(waitqs);
	watch->is_untried = true;
	if (!is_kicked_locked(watch))
		move_locked(ready, watch, UAIO_WATCH_REFUSED);
	unlock(ready);
}

static struct uaio_watch *first_of(const struct list *list)
{
	return list_is_empty(list)
		       ? NULL
		       : container_of(list->next, struct uaio_watch, in_list);
}

struct uaio_watch *uaio_watch_pop_locked(struct uaio_ready *ready,
					 bool with_fresh, uint32_t *ret_waitqs,
					 bool *ret_was_fresh)
{
	struct uaio_watch *watch = first_of(&ready->kicked);

	if (!watch && with_fresh)
		watch = first_of(&ready->fresh);
	if (!watch)
		return NULL;
	/* [step: POP] */
	*ret_waitqs = watch->waitqs;
	*ret_was_fresh = load_relaxed(&watch->place) == UAIO_WATCH_FRESH;
	watch->waitqs = 0;
	watch->is_untried = false;
	move_locked(ready, watch,
		    watch->is_unarmed ? UAIO_WATCH_UNARMED : UAIO_WATCH_IDLE);
	return watch;
}

/* Adding the files of watches on the lists to the epoll */

/*
 * Add a watch's file to the epoll; the watch is on no list. The lock of ready is held;
 * it is released and taken again.
 * Return: whether the epoll has the file.
 */
static bool arm_and_relock(struct uaio_ready *ready, struct uaio_watch *watch)
{
	struct uaio_file *file = watch->file;
	int ret;

	watch->is_unarmed = false;
	if (!uaio_file_try_get(file))
		return true;
	unlock(ready);
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	ret = uaio_watch_arm_locked(watch, file);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	lock(ready);
	/* [step: ARM_REFUSED] */
	if (ret < 0) {
		watch->is_unarmed = true;
		if (!is_kicked_locked(watch))
			move_locked(ready, watch, UAIO_WATCH_REFUSED);
	}
	unlock(ready);
	uaio_file_put(file);
	lock(ready);
	return ret == 0;
}

static bool arm_next_locked(struct uaio_ready *ready, bool *ret_all)
{
	struct uaio_watch *watch = first_of(&ready->fresh);

	if (!watch)
		watch = first_of(&ready->unarmed);
	if (!watch)
		return false;
	/* [step: ARM_NEXT] */
	if (watch->is_untried) {
		move_locked(ready, watch, UAIO_WATCH_KICKED);
		return true;
	}
	move_locked(ready, watch, UAIO_WATCH_IDLE);
	*ret_all &= arm_and_relock(ready, watch);
	return true;
}

bool uaio_ready_arm(struct uaio_group *group)
{
	struct uaio_ready *ready = &group->ready;
	bool all = uaio_poller_is_open(&ready->poller);

	lock(ready);
	while (all && arm_next_locked(ready, &all))
		;
	unlock(ready);
	return uaio_ready_is_armed(ready);
}

void uaio_ready_arm_stale(struct uaio_group *group)
{
	enum { NR = 64 };
	struct uaio_ready *ready = &group->ready;
	struct uaio_watch *watch;

	if (!uaio_poller_is_open(&ready->poller))
		return;
	lock(ready);
	for (unsigned i = 0; i < NR && (watch = first_of(&ready->unarmed));
	     i++) {
		bool is_stale = watch->nr_fresh == watch->seen_fresh;

		watch->seen_fresh = watch->nr_fresh;
		move_locked(ready, watch,
			    is_stale ? UAIO_WATCH_IDLE : UAIO_WATCH_UNARMED);
		if (is_stale && !arm_and_relock(ready, watch))
			break;
	}
	unlock(ready);
}

void uaio_ready_kick_refused(struct uaio_group *group)
{
	struct uaio_ready *ready = &group->ready;
	struct list *const lists[] = { &ready->refused, &ready->fresh,
				       &ready->unarmed };

	lock(ready);
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct uaio_watch *watch;

		while ((watch = first_of(lists[i]))) {
			watch->waitqs = ALL_WAITQS;
			watch->is_unarmed = true;
			move_locked(ready, watch, UAIO_WATCH_KICKED);
		}
	}
	unlock(ready);
}

void uaio_ready_kick_personal(struct uaio_ready *ready)
{
	/*
	 * relaxed: if this thread has made a watch of a file with UAIO_FILE_F_PERSONAL,
	 * it has set has_personal itself. Watches that other threads are just making
	 * may be missed.
	 */
	if (likely(!load_relaxed(&ready->has_personal)))
		return;
	lock(ready);
	while (!list_is_empty(&ready->personal)) {
		struct uaio_watch *watch = first_of(&ready->personal);

		watch->waitqs = ALL_WAITQS;
		move_locked(ready, watch, UAIO_WATCH_KICKED);
	}
	unlock(ready);
}

void uaio_ready_kick_all(struct uaio_group *group)
{
	struct uaio_ready *ready = &group->ready;
	struct uaio_watch *watch;

	lock(ready);
	list_for_each (pos, &ready->watches) {
		watch = container_of(pos, struct uaio_watch, in_group);
		/*
		 * relaxed: the thread that runs the watch first takes it from the
		 * kicked list under this lock, and so sees the new nr_lost
		 */
		store_relaxed(&watch->nr_lost,
			      load_relaxed(&watch->nr_lost) + 1);
		watch->waitqs = ALL_WAITQS;
		if (!is_kicked_locked(watch))
			move_locked(ready, watch, UAIO_WATCH_KICKED);
	}
	unlock(ready);
}
