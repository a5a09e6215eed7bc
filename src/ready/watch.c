/* SPDX-License-Identifier: MIT */
/*
 * Watches: which files are in a queue's epoll, and for which events (ready.h). Tested
 * by test-ready*.c.
 */
#include <errno.h>
#include <poll.h>

#include "base/sleep.h"
#include "base/sys.h"
#include "ready/readyint.h"

static struct uaio_slab watches;

uint32_t uaio_ready_nr_nested;

void uaio_ready_note_nested(void)
{
	/*
	 * relaxed: the caller next makes the file ready by a system call. Another
	 * thread reads the count only after the epoll has reported that the file is
	 * ready, and so sees the new count
	 */
	add_relaxed(&uaio_ready_nr_nested, 1);
}

void uaio_watches_init(void)
{
	uaio_slab_init(&watches, sizeof(struct uaio_watch), 16384);
}

/*
 * The epoll may report an event of a watch that was dropped meanwhile. The memory of a
 * watch is only ever reused for watches. So the event's data consist of the watch's
 * address and its generation: an old event has an old generation.
 */
uint64_t uaio_watch_data(const struct uaio_watch *watch)
{
	return (uintptr_t)watch | (uint64_t)load_relaxed(&watch->generation)
					  << UAIO_POLLER_POINTER_BITS;
}

struct uaio_watch *uaio_watch_of_data(uint64_t data)
{
	return (struct uaio_watch *)(uintptr_t)(data &
						(UAIO_POLLER_NOBODYS - 1));
}

/*
 * Start a new generation of the watch, so that events which the epoll reported before
 * are ignored. The caller holds the locks of the watch's file and of its queue's struct
 * uaio_ready.
 */
static void renew_locked(struct uaio_watch *watch)
{
	/*
	 * relaxed: a thread that gets an event compares the generation under the file's
	 * lock
	 */
	store_relaxed(&watch->generation,
		      (load_relaxed(&watch->generation) + 1) & UINT16_MAX);
}

/*
 * Creating and dropping
 */

struct uaio_watch *uaio_watch_find_locked(const struct uaio_group *group,
					  const struct uaio_file *file)
{
	list_for_each (pos, &file->watches) {
		struct uaio_watch *watch =
			container_of(pos, struct uaio_watch, in_file);

		/*
		 * relaxed: this member and the list of the file's watches change under
		 * the file's lock, which the caller holds
		 */
		if (load_relaxed(&watch->group) == group)
			return watch;
	}
	return NULL;
}

static struct uaio_watch *make_locked(struct uaio_group *group,
				      struct uaio_file *file)
{
	struct uaio_ready *ready = &group->ready;
	struct uaio_watch *watch = uaio_slab_get(&watches);

	if (!watch)
		return NULL;
	/*
	 * relaxed: uaio_watch_get() reads the member `file` without the lock, but only
	 * as a hint
	 */
	store_relaxed(&watch->file, file);
	watch->armed = 0;
	store_relaxed(&watch->nr_edges, 0);
	store_relaxed(&watch->nr_lost, 0);
	watch->nr_told = 0;
	watch->nr_adds = 1;
	watch->nr_sure = 0;
	watch->waitqs = 0;
	watch->is_unarmed = watch->is_untried = false;
	watch->nr_fresh = watch->seen_fresh = 0;
	/* relaxed: the watch is on no list yet */
	store_relaxed(&watch->place, UAIO_WATCH_IDLE);
	list_init(&watch->in_list);
	list_add_tail(&file->watches, &watch->in_file);
	uaio_lock(&ready->lock, UAIO_RANK_READY);
	renew_locked(watch);
	/*
	 * relaxed: a thread that gets an event compares the group under the file's lock
	 */
	store_relaxed(&watch->group, group);
	list_add_tail(&ready->watches, &watch->in_group);
	if (file->flags & UAIO_FILE_F_PERSONAL)
		/* relaxed: a hint */
		store_relaxed(&ready->has_personal, 1);
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	return watch;
}

static __attribute__((noinline)) struct uaio_watch *
find_or_make(struct uaio_group *home, struct uaio_file *file)
{
	struct uaio_watch *watch;

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	watch = uaio_watch_find_locked(home, file);
	if (!watch)
		watch = make_locked(home, file);
	if (watch)
		store_relaxed(&file->last_watch, watch);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	return watch;
}

struct uaio_watch *uaio_watch_get(struct uaio_group *group,
				  struct uaio_file *file)
{
	struct uaio_group *home = uaio_ready_home(&group->ready);
	/*
	 * relaxed: only a hint, which is checked next. A watch that joins this home and
	 * this file exists as long as the home and the file
	 */
	struct uaio_watch *watch = load_relaxed(&file->last_watch);

	if (likely(watch && load_relaxed(&watch->group) == home &&
		   load_relaxed(&watch->file) == file))
		return watch;
	return find_or_make(home, file);
}

struct uaio_file *uaio_watch_lock_file(const struct uaio_watch *watch,
				       const struct uaio_group *group)
{
	/*
	 * relaxed: under the lock, this function checks whether the watch still belongs
	 * to the file. The memory of files is only ever reused for files (file.h, I2),
	 * and that of watches for watches.
	 */
	struct uaio_file *file = load_relaxed(&watch->file);

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	if (likely(uaio_watch_find_locked(group, file) == watch))
		return file;
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	return NULL;
}

/* Remove a watch from all lists, and free it. The lock of its file is held. */
static void drop_locked(struct uaio_watch *watch)
{
	struct uaio_ready *ready = &load_relaxed(&watch->group)->ready;

	list_remove(&watch->in_file);
	uaio_lock(&ready->lock, UAIO_RANK_READY);
	list_remove(&watch->in_group);
	list_remove(&watch->in_list);
	/*
	 * relaxed: a thread that gets an event compares the group under the file's lock
	 */
	store_relaxed(&watch->group, NULL);
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	uaio_slab_put(&watches, watch);
}

static int ctl(struct uaio_watch *watch, int op, int fd, uint32_t events)
{
	uaio_ready_add(&uaio_ready_counters.nr_arms, 1);
	return uaio_poller_ctl(&load_relaxed(&watch->group)->ready.poller, op,
			       fd, events, uaio_watch_data(watch));
}

/*
 * The program has closed a descriptor without the library's knowledge. So the epoll may
 * still have the watch's file under that descriptor, although the descriptor now refers
 * to another file. Later the descriptor may refer to the watch's file again. So from
 * now on the library trusts no entry of the epoll (uaio_watch_has_locked()).
 */
static void note_deceived(struct uaio_watch *watch)
{
	/*
	 * relaxed: before the library uses the descriptor for a file again, a thread
	 * must make a new entry of the descriptor (file.h). That happens after this
	 * store, so the next user of the descriptor sees is_deceived
	 */
	store_relaxed(&load_relaxed(&watch->group)->ready.is_deceived, 1);
}

void uaio_watch_disarm_locked(struct uaio_watch *watch, int fd)
{
	if (watch->armed && (fd < 0 || ctl(watch, EPOLL_CTL_DEL, fd, 0) < 0))
		note_deceived(watch);
	watch->armed = 0;
}

uint32_t uaio_watch_has_locked(const struct uaio_watch *watch, int fd)
{
	struct uaio_ready *ready = &load_relaxed(&watch->group)->ready;

	return watch->armed && !load_relaxed(&ready->is_deceived) &&
			       uaio_poller_has(&ready->poller, fd)
		       ? watch->nr_adds
		       : 0;
}

void uaio_watches_drop(struct uaio_file *file)
{
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	while (!list_is_empty(&file->watches)) {
		struct uaio_watch *watch = container_of(
			file->watches.next, struct uaio_watch, in_file);

		/*
		 * The queue's epoll is still open, because the watch is on the queue's
		 * list. So remove the file from the epoll.
		 */
		uaio_watch_disarm_locked(watch, load_relaxed(&file->fd));
		drop_locked(watch);
	}
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
}

/*
 * Return: the file of any watch of the group, with a reference; NULL if there is no
 * watch.
 */
static struct uaio_file *get_first(struct uaio_ready *ready)
{
	enum { SOON_NS = 50000 };
	uint32_t word = 0;

	for (;;) {
		struct uaio_file *file = NULL;

		uaio_lock(&ready->lock, UAIO_RANK_READY);
		if (!list_is_empty(&ready->watches))
			file = container_of(ready->watches.next,
					    struct uaio_watch, in_group)
				       ->file;
		if (!file || uaio_file_try_get(file)) {
			uaio_unlock(&ready->lock, UAIO_RANK_READY);
			return file;
		}
		uaio_unlock(&ready->lock, UAIO_RANK_READY);
		/*
		 * Another thread has released the last reference to the file, and is
		 * about to drop this watch: wait a moment.
		 */
		(void)uaio_sleep(&word, 0, uaio_now_ns() + SOON_NS);
	}
}

void uaio_watches_leave(struct uaio_group *group)
{
	struct uaio_file *file;

	while ((file = get_first(&group->ready))) {
		struct uaio_watch *watch;

		uaio_lock(&file->lock, UAIO_RANK_FILE);
		watch = uaio_watch_find_locked(group, file);
		/*
		 * relaxed: fd changes only under the file's lock, which this thread
		 * holds
		 */
		uaio_watch_disarm_locked(watch, load_relaxed(&file->fd));
		drop_locked(watch);
		uaio_unlock(&file->lock, UAIO_RANK_FILE);
		uaio_file_put(file);
	}
}

/*
 * Arming
 */

static uint32_t events_wanted_locked(const struct uaio_file *file)
{
	const struct uaio_waitq *waitqs = file->waitqs;
	bool is_polled = !list_is_empty(&waitqs[UAIO_WAITQ_POLL].parked);
	uint32_t events = is_polled ? file->polled : 0;

	if (!list_is_empty(&waitqs[UAIO_WAITQ_READ].parked))
		events |= file->flags & UAIO_FILE_F_SOCK_STREAM
				  ? UAIO_EVENTS_OF_STREAM
				  : EPOLLIN;
	if (!list_is_empty(&waitqs[UAIO_WAITQ_WRITE].parked))
		events |= EPOLLOUT;
	if (unlikely(!list_is_empty(&waitqs[UAIO_WAITQ_ERRORS].parked)))
		events |= EPOLLERR;
	/*
	 * An epoll always reports EPOLLERR and EPOLLHUP. So polls for these alone also
	 * need the file in the epoll.
	 */
	if (!events && is_polled)
		events = EPOLLERR;
	return events;
}

static uint32_t waiting_waitqs_locked(const struct uaio_file *file)
{
	uint32_t waitqs = 0;

	for (unsigned i = 0; i < UAIO_NR_WAITQS; i++)
		if (!list_is_empty(&file->waitqs[i].parked))
			waitqs |= 1u << i;
	return waitqs;
}

/*
 * Called when the epoll has added the file to which the descriptor refers now. Count
 * the addition; nr_adds is never 0.
 */
static void take_over_locked(struct uaio_watch *watch)
{
	if (!++watch->nr_adds)
		watch->nr_adds = 1;
}

/*
 * Add the file to the epoll for events, or change the events. If no epoll ever accepts
 * this file, kick the watch: a thread then tries the file's requests, and finds out
 * why.
 * Return: 0, or -errno if the epoll does not accept the file now.
 */
static int arm_for_locked(struct uaio_watch *watch, struct uaio_file *file,
			  uint32_t events)
{
	int fd = load_relaxed(&file->fd), ret;
	bool adds = !watch->armed;

	/* [step: ARM] */
	ret = ctl(watch, adds ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, events);
	if (ret == -ENOENT)
		note_deceived(watch);
	if (ret == -EEXIST || ret == -ENOENT) {
		adds = !adds;
		ret = ctl(watch, adds ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd,
			  events);
	}
	if (ret == 0 && adds)
		take_over_locked(watch);
	if (ret == 0) {
		watch->armed = events;
		return 0;
	}
	if (ret != -EPERM && ret != -EBADF)
		return ret;
	file->is_unpollable = ret == -EPERM;
	uaio_watch_kick(watch, waiting_waitqs_locked(file), true);
	return 0;
}

int uaio_watch_arm_locked(struct uaio_watch *watch, struct uaio_file *file)
{
	uint32_t events = events_wanted_locked(file);

	if (file->is_unpollable || (watch->armed & events) == events)
		return 0;
	return arm_for_locked(watch, file, events | watch->armed);
}

void uaio_watch_arm_anew_locked(struct uaio_req *req)
{
	const uint32_t waitqs = 1u << UAIO_WAITQ_POLL;
	struct uaio_watch *watch = req->watch;
	struct uaio_file *file = req->file;
	struct uaio_ready *ready = &load_relaxed(&watch->group)->ready;
	uint32_t events = events_wanted_locked(file) | watch->armed;

	req->edges = uaio_watch_edges(watch);
	watch->nr_nested = load_relaxed(&uaio_ready_nr_nested);
	if (file->is_unpollable) {
		uaio_watch_kick(watch, waitqs, true);
		return;
	}
	uaio_lock(&ready->lock, UAIO_RANK_READY);
	renew_locked(watch);
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	/*
	 * Events that the epoll holds now belong to the old generation, so add the file
	 * again.
	 */
	watch->armed = 0;
	/*
	 * If the epoll does not accept the file now, kick the watch, so that a thread
	 * tries the poll, and later adds the file.
	 */
	if (!uaio_poller_is_open(&ready->poller) ||
	    arm_for_locked(watch, file, events) < 0)
		uaio_watch_kick(watch, waitqs, false);
}

/*
 * Another descriptor
 */

/*
 * Return: whether a parked request uses this watch. If so, the watch's queue stays
 * open.
 */
static bool is_in_use_locked(const struct uaio_watch *watch)
{
	const struct uaio_waitq *waitqs = watch->file->waitqs;

	for (unsigned i = 0; i < UAIO_NR_WAITQS; i++)
		list_for_each (pos, &waitqs[i].parked)
			if (container_of(pos, struct uaio_req, link)->watch ==
			    watch)
				return true;
	return false;
}

/*
 * Kick a watch, and make the fallback thread try its requests, since perhaps no other
 * thread will do so. If no request uses the watch, do nothing: its queue may be
 * closing.
 */
static void kick_at_once(struct uaio_watch *watch, uint32_t waitqs)
{
	if (!is_in_use_locked(watch))
		return;
	uaio_watch_kick(watch, waitqs, false);
	uaio_fallback_nudge(load_relaxed(&watch->group));
}

void uaio_watches_move_locked(struct uaio_file *file, int old)
{
	int fd = load_relaxed(&file->fd);

	list_for_each (pos, &file->watches) {
		struct uaio_watch *watch =
			container_of(pos, struct uaio_watch, in_file);
		uint32_t events = watch->armed;

		if (!events)
			continue;
		uaio_watch_disarm_locked(watch, old);
		if (fd >= 0 && ctl(watch, EPOLL_CTL_ADD, fd, events) == 0) {
			watch->armed = events;
			take_over_locked(watch);
		} else {
			kick_at_once(watch, waiting_waitqs_locked(file));
		}
	}
}
