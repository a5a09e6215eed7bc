/* SPDX-License-Identifier: MIT */
#include "uring/bell.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/ownfd.h"
#include "proc/process.h"
#include "file/file.h"
#include "op/op.h"
#include "ready/ready.h"
#include "uring/cq.h"
#include "uring/note.h"
#include "uring/ring.h"
#include "uring/share.h"
#include "uring/table.h"

struct uaio_uring_bells uaio_uring_bells;

#ifdef UAIO_TESTING
uint32_t uaio_uring_bells_nr_settled;
#endif

/*
 * Lock of rank BELLS (base/lock.h). A thread holds it to remove a ring from the list of
 * due rings (bell.h, I6).
 */
static struct uaio_lock due_lock;

void uaio_uring_bells_init(void)
{
	/*
	 * When the parent forked, one of its threads may have held the lock: reset it.
	 */
	due_lock = (struct uaio_lock){ 0 };
	/*
	 * relaxed, all: these are hints; rings that a child takes over from its parent
	 * have no bells
	 */
	store_relaxed(&uaio_uring_bells.nr, 0);
	store_relaxed(&uaio_uring_bells.first, NULL);
	store_relaxed(&uaio_uring_bells.nr_forks,
		      load_relaxed(&uaio_process_nr_forks));
}

void uaio_uring_bell_init(struct uaio_uring *ring)
{
	/* relaxed, both: other threads find the ring only once it is published */
	store_relaxed(&ring->bell, -1);
	store_relaxed(&ring->is_rung, false);
	ring->is_in_epoll = ring->is_due = false;
}

/*
 * The list of due rings. A thread that is about to poll checks each of their bells: is
 * it readable exactly if the ring has completions (bell.h, I6)?
 */

static void make_due_locked(struct uaio_uring *ring)
{
	struct uaio_uring *first = load_relaxed(&uaio_uring_bells.first);

	if (ring->is_due)
		return;
	ring->is_due = true;
	do
		ring->next_due = first;
	/*
	 * [MB:uring-due] release: write the ring's next_due before the head of the
	 * list. Pairs with first_due().
	 */
	while (!cas_release(&uaio_uring_bells.first, &first, ring));
}

static struct uaio_uring *first_due(void)
{
	/*
	 * [MB:uring-due] acquire: load the list's head before next_due of each ring.
	 * Pairs with make_due_locked().
	 */
	return load_acquire(&uaio_uring_bells.first);
}

/*
 * Remove a ring from the list of due rings. Caller holds the list's lock and the
 * queue's lock. before: the preceding ring; NULL if the caller found the ring at the
 * head. Other threads may have added rings at the head since then.
 */
static void remove_due_locked(struct uaio_uring *ring,
			      struct uaio_uring *before)
{
	struct uaio_uring *first = ring;

	ring->is_due = false;
	/*
	 * relaxed: the removal publishes nothing. If a completion is posted later, the
	 * ring is in the list again before the tail is published. So a polling thread
	 * that has acquired this tail (uring-cq) finds the ring in the list.
	 */
	if (!before &&
	    cas_relaxed(&uaio_uring_bells.first, &first, ring->next_due))
		return;
	if (!before)
		before = first_due();
	while (before->next_due != ring)
		before = before->next_due;
	before->next_due = ring->next_due;
}

/*
 * Ringing
 */

static void ring_it_locked(struct uaio_uring *ring)
{
	static const uint64_t one = 1;

	make_due_locked(ring);
	if (ring->is_in_epoll)
		uaio_ready_note_nested();
	(void)sys_write(ring->bell, &one, sizeof(one));
	/*
	 * relaxed: the state changes only under the queue's lock; threads without the
	 * lock need only a guess
	 */
	store_relaxed(&ring->is_rung, true);
}

static void hush_locked(struct uaio_uring *ring)
{
	uint64_t count;

	(void)sys_read(ring->bell, &count, sizeof(count));
	/*
	 * relaxed: the state changes only under the queue's lock; threads without the
	 * lock need only a guess
	 */
	store_relaxed(&ring->is_rung, false);
}

void uaio_uring_bell_expect_locked(struct uaio_uring *ring)
{
	make_due_locked(ring);
}

void uaio_uring_bell_ring_locked(struct uaio_uring *ring)
{
	/*
	 * relaxed: if the ring dies just now, the thread that set DEAD will silence
	 * the bell
	 */
	if (!(load_relaxed(&ring->submit) & UAIO_URING_DEAD))
		ring_it_locked(ring);
}

/* Return: whether there is a completion for the client to consume. */
static bool has_some(const struct uaio_uring *ring)
{
	return uaio_uring_unread(ring) || load_relaxed(&ring->first_over);
}

/*
 * Return: whether the bell needs no settling, because the ring has completions and the
 * bell is rung. If the bell is not rung, a poster may be about to ring it: the caller
 * takes the queue's lock to wait for this poster (bell.h, I2).
 */
static bool is_rung_rightly(struct uaio_uring *ring)
{
	if (uaio_uring_is_shared(ring))
		uaio_uring_share_look(ring);
	/*
	 * relaxed: if another thread of the client consumes completions during this
	 * poll, either answer is acceptable
	 */
	return has_some(ring) && load_relaxed(&ring->is_rung);
}

static void settle_locked(struct uaio_uring *ring)
{
	if (has_some(ring) && !ring->is_rung)
		uaio_uring_bell_ring_locked(ring);
	else if (!has_some(ring) && ring->is_rung)
		hush_locked(ring);
}

/*
 * Settle the ring's bell: make it readable exactly if the ring has completions. Call
 * this only if the ring has a bell, and while using the ring (ring.h, I4).
 */
static void settle(struct uaio_uring *ring)
{
	if (is_rung_rightly(ring))
		return;
	uaio_queue_lock(&ring->queue);
	settle_locked(ring);
	uaio_queue_unlock(&ring->queue);
}

/*
 * Settle the bell of a due ring: make it readable exactly if the ring has completions.
 * Then remove the ring from the list if possible (bell.h, I6). Caller holds the list's
 * lock. before: the preceding ring, as in remove_due_locked().
 * Return: whether the ring stays in the list.
 */
static bool settle_due(struct uaio_uring *ring, struct uaio_uring *before)
{
	bool is_due;

#ifdef UAIO_TESTING
	/* relaxed: a statistic */
	add_relaxed(&uaio_uring_bells_nr_settled, 1);
#endif
	if (is_rung_rightly(ring))
		return true;
	uaio_queue_lock(&ring->queue);
	settle_locked(ring);
	is_due = ring->is_rung || uaio_uring_is_shared(ring);
	if (!is_due)
		remove_due_locked(ring, before);
	uaio_queue_unlock(&ring->queue);
	return is_due;
}

void uaio_uring_bell_silence(struct uaio_uring *ring)
{
	uaio_queue_lock(&ring->queue);
	if (ring->bell >= 0)
		hush_locked(ring);
	uaio_queue_unlock(&ring->queue);
}

void uaio_uring_bell_fini(struct uaio_uring *ring)
{
	int bell;

	/*
	 * relaxed, all: no thread uses the ring any more, and uaio_uring_bells.nr is
	 * only a count
	 */
	if (load_relaxed(&ring->bell) < 0)
		return;
	/*
	 * Take both locks: another thread may be moving the bell, or changing its
	 * state.
	 */
	uaio_lock(&due_lock, UAIO_RANK_BELLS);
	uaio_queue_lock(&ring->queue);
	bell = ring->bell;
	store_relaxed(&ring->bell, -1);
	if (ring->is_due)
		remove_due_locked(ring, NULL);
	uaio_queue_unlock(&ring->queue);
	uaio_unlock(&due_lock, UAIO_RANK_BELLS);
	uaio_ownfd_close(bell);
	sub_relaxed(&uaio_uring_bells.nr, 1);
}

/* Finding the bell of a descriptor */

/*
 * Enter the library (entry.h) if this thread may use bells.
 * Return: whether it has entered.
 */
static bool enter(void)
{
	return uaio_engine_is_here() && uaio_enter();
}

static int bell_of(const struct uaio_uring *ring)
{
	/*
	 * [MB:uring-bell] acquire: this thread sees what make() wrote before it published
	 * the bell. Pairs with make().
	 */
	return load_acquire(&ring->bell);
}

/*
 * After a fork other processes may post to rings: add all shared rings that have a bell
 * to the list of due rings.
 */
static void find_shared(void)
{
	/* relaxed: see uaio_uring_is_shared() */
	uint32_t nr_forks = load_relaxed(&uaio_process_nr_forks);

	if (load_relaxed(&uaio_uring_bells.nr_forks) == nr_forks)
		return;
	for (struct uaio_uring *ring = uaio_uring_first(); ring;
	     ring = ring->next) {
		if (bell_of(ring) < 0 || !uaio_uring_is_here(ring) ||
		    !uaio_uring_use(ring))
			continue;
		uaio_queue_lock(&ring->queue);
		/* Check again: the struct may have been reused for another ring. */
		if (ring->bell >= 0 && uaio_uring_is_shared(ring))
			make_due_locked(ring);
		uaio_queue_unlock(&ring->queue);
		uaio_uring_unuse(ring);
	}
	/* [MB:uring-due] release: pairs with uaio_uring_has_due_bells(). */
	store_release(&uaio_uring_bells.nr_forks, nr_forks);
}

void uaio_uring_bells_settle_slowly(void)
{
	struct uaio_uring *before = NULL, *next;

	if (!enter())
		return;
	find_shared();
	uaio_lock(&due_lock, UAIO_RANK_BELLS);
	for (struct uaio_uring *ring = first_due(); ring; ring = next) {
		next = ring->next_due;
		if (settle_due(ring, before))
			before = ring;
	}
	uaio_unlock(&due_lock, UAIO_RANK_BELLS);
	uaio_leave();
}

/*
 * Return: the descriptor of the ring's bell, which is made if needed; -errno if no
 * eventfd can be made. The caller uses the ring.
 */
static int make(struct uaio_uring *ring)
{
	int bell = bell_of(ring), made;

	if (bell >= 0)
		return bell;
	made = uaio_ownfd_event(EFD_CLOEXEC | EFD_NONBLOCK);
	if (made < 0)
		return made;
	uaio_queue_lock(&ring->queue);
	bell = load_relaxed(&ring->bell);
	if (bell < 0) {
		/* relaxed: a count */
		add_relaxed(&uaio_uring_bells.nr, 1);
		/* [MB:uring-bell] release: pairs with bell_of(). */
		store_release(&ring->bell, made);
		if (has_some(ring))
			uaio_uring_bell_ring_locked(ring);
		if (uaio_uring_is_shared(ring))
			make_due_locked(ring);
	}
	uaio_queue_unlock(&ring->queue);
	if (bell < 0)
		return made;
	uaio_ownfd_close(made);
	return bell;
}

/*
 * ring: the ring that the table of rings (table.h) has for fd; or NULL.
 * Return: the ring of fd, which the caller uses (ring.h, I4) until uaio_uring_unuse();
 * NULL if fd is not a ring.
 */
static struct uaio_uring *get(uint32_t fd, struct uaio_uring *ring)
{
	if (ring && unlikely(!uaio_uring_is_here(ring)))
		ring = uaio_uring_adopt(fd, ring);
	if (!ring || !uaio_uring_use(ring))
		return NULL;
	if (uaio_uring_is_still(fd, ring))
		return ring;
	uaio_uring_unuse(ring);
	return NULL;
}

/*
 * Make the ring's bell if needed. Then settle it: make it readable exactly if the ring
 * has completions. The caller uses the ring.
 * Return: the bell's descriptor; -errno if the bell cannot be made.
 */
static int ready_bell(struct uaio_uring *ring)
{
	int bell = make(ring);

	if (bell >= 0)
		settle(ring);
	return bell;
}

static bool is_full(const struct uaio_uring *ring)
{
	const struct uaio_uring_rings *rings = ring->mem.rings;

	/*
	 * relaxed, all: the result is a guess, as it is when the client itself checks
	 * for free entries
	 */
	return load_relaxed(&rings->sq_tail) - load_relaxed(&rings->sq_head) >=
	       load_relaxed(&ring->sq_entries);
}

struct uaio_uring_bell uaio_uring_bell_get(int fd)
{
	struct uaio_uring_bell bell = { .fd = fd };
	struct uaio_uring *ring;
	int number = -1;

	if (fd < 0 || !uaio_uring_known((uint32_t)fd) || !enter())
		return bell;
	/*
	 * The program may have closed fd without the library's notice, and reused it
	 * for another file (table.h, I4): ask the kernel whether fd is still the ring.
	 */
	uaio_uring_tab_closed((unsigned)fd, (unsigned)fd);
	ring = get((uint32_t)fd, uaio_uring_known((uint32_t)fd));
	if (ring)
		number = ready_bell(ring);
	if (number >= 0)
		bell = (struct uaio_uring_bell){
			.ring = ring,
			.fd = number,
			.is_full = is_full(ring),
		};
	else if (ring)
		uaio_uring_unuse(ring);
	uaio_leave();
	return bell;
}

/* As uaio_uring_bell_file(). *ret_ring: the ring, which the caller does not use. */
static struct uaio_file *file_of(int fd, struct uaio_uring **ret_ring,
				 bool *ret_is_full)
{
	struct uaio_uring *ring =
		get((uint32_t)fd, uaio_uring_ask((uint32_t)fd));
	struct uaio_file *file = NULL;
	int bell;

	if (!ring)
		return NULL;
	bell = ready_bell(ring);
	if (bell >= 0 && uaio_file_fix(bell, &file) < 0)
		file = NULL;
	*ret_is_full = is_full(ring);
	*ret_ring = ring;
	uaio_uring_unuse(ring);
	return file;
}

struct uaio_file *uaio_uring_bell_file(int fd, bool *ret_is_full)
{
	struct uaio_uring *ring;

	return file_of(fd, &ring, ret_is_full);
}

/* Let a request that polls a bell poll for what an eventfd reports. */
static void fit_events(struct uaio_sqe *sqe, bool is_full)
{
	/*
	 * An eventfd does not report POLLRDNORM and POLLWRNORM, so poll for their
	 * equivalents.
	 */
	sqe->events |= sqe->events & POLLRDNORM ? POLLIN : 0;
	sqe->events |= sqe->events & POLLWRNORM ? POLLOUT : 0;
	if (is_full)
		sqe->events &= ~(uint64_t)(POLLOUT | POLLWRNORM);
}

struct uaio_file *uaio_uring_polled(struct uaio_sqe *sqe)
{
	struct uaio_uring *ring;
	bool is_full;
	struct uaio_file *file = file_of(sqe->fd, &ring, &is_full);

	if (!file)
		return NULL;
	uaio_uring_note_of(sqe->word)->polled = ring;
	fit_events(sqe, is_full);
	/*
	 * As in the kernel, a poll of a ring ends with its first completion; two
	 * rings that poll each other would otherwise wake each other for ever.
	 */
	sqe->is_multishot = false;
	return file;
}

void uaio_uring_polled_again(struct uaio_sqe *sqe)
{
	struct uaio_uring *ring = uaio_uring_note_of(sqe->word)->polled;
	bool is_sq_full = false;

	if (!ring)
		return;
	/* If the struct was reused for another ring, this does no harm. */
	if (uaio_uring_use(ring)) {
		if (bell_of(ring) >= 0)
			settle(ring);
		is_sq_full = is_full(ring);
		uaio_uring_unuse(ring);
	}
	fit_events(sqe, is_sq_full);
}

void uaio_uring_bell_put_slowly(struct uaio_uring *ring)
{
	/*
	 * uaio_enter() has succeeded in uaio_uring_bell_get(), before the poll. So it
	 * succeeds here, too, also in a signal handler.
	 */
	if (!uaio_enter())
		return;
	uaio_uring_unuse(ring);
	uaio_leave();
}

/*
 * Call epoll_ctl(2) on the ring's bell. The caller uses the ring.
 * Return: the call's result; -ENOMEM if the ring has no bell.
 */
static int control(struct uaio_uring *ring, int epoll, int op,
		   struct epoll_event *event)
{
	int ret = ready_bell(ring);

	if (ret < 0)
		return -ENOMEM;
	/* Read ring->bell again: the bell may have moved to another descriptor. */
	uaio_queue_lock(&ring->queue);
	ring->is_in_epoll |= op == EPOLL_CTL_ADD;
	ret = sys_epoll_ctl(epoll, op, ring->bell, event);
	uaio_queue_unlock(&ring->queue);
	return ret;
}

int uaio_uring_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	struct uaio_uring *ring;
	int ret = 1;

	if (fd < 0 || !uaio_uring_tab_is_used() || !enter())
		return 1;
	/*
	 * The program may have closed fd without the library's notice, and reused it
	 * for another file (table.h, I4): ask the kernel whether fd is still the ring.
	 */
	uaio_uring_tab_closed((unsigned)fd, (unsigned)fd);
	ring = get((uint32_t)fd, uaio_uring_find((uint32_t)fd));
	if (ring) {
		ret = control(ring, epoll, op, event);
		uaio_uring_unuse(ring);
	}
	uaio_leave();
	return ret;
}

/* Moving a bell */

/*
 * If the ring's bell is at fd, move it to another descriptor. Caller holds the queue's
 * lock.
 * Return: 0; -ENOENT: no bell is at fd; -EBUSY: no other descriptor is available.
 */
static int move_locked(struct uaio_uring *ring, int fd)
{
	int to;

	if (ring->bell != fd)
		return -ENOENT;
	to = uaio_ownfd_dup(fd);
	if (to < 0)
		return -EBUSY;
	/* [MB:uring-bell] release: pairs with bell_of(). */
	store_release(&ring->bell, to);
	return 0;
}

int uaio_uring_bell_yield(int fd)
{
	int ret = -ENOENT;

	for (struct uaio_uring *ring = uaio_uring_first();
	     ring && ret == -ENOENT; ring = ring->next) {
		/* relaxed: move_locked() reads it again under the queue's lock */
		if (load_relaxed(&ring->bell) != fd ||
		    !uaio_uring_is_here(ring))
			continue;
		uaio_queue_lock(&ring->queue);
		ret = move_locked(ring, fd);
		uaio_queue_unlock(&ring->queue);
	}
	return ret;
}
