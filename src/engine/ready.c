/* SPDX-License-Identifier: MIT */
#include "engine/ready.h"

#include <errno.h>
#include <limits.h>
#include <linux/fs.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/sys.h"
#include "engine/entry.h"
#include "engine/ownfd.h"
#include "engine/req.h"
#include "engine/thread.h"

enum {
	/* A first array of descriptors; doubled when too small. */
	FIRST_SLOTS = 512,
	IDLE_S = 5,
	/* A caller that passes by tries so many of its own, oldest first. */
	CALLER_TRIES = 16,
};

static struct {
	struct uaio_lock trying; /* rank TRYING: held by who tries requests */

	/* under lock */
	struct uaio_lock lock; /* rank READY */
	struct list parked;
	unsigned nr_parked;
	unsigned nr_expected; /* about to be parked */
	uint64_t walk;        /* number of walks by callers */
	bool has_thread;

	/* atomic, written under lock */
	int wake_fd; /* owns: an eventfd; -1 until needed */
	int watched; /* the one the poller is about to use, or uses; or -1 */

	uint32_t nr_kicking; /* atomic: calls on wake_fd being made */

	/* the poller's */
	struct pollfd *slots; /* owns */
	unsigned nr_slots;
	unsigned max_slots; /* as many as poll() takes */
	bool is_cut;        /* some had no slot: they are tried unasked */
	uint32_t round;     /* written under lock */
} ready;

void uaio_ready_init(void)
{
	ready.lock = (struct uaio_lock){ 0 };
	ready.trying = (struct uaio_lock){ 0 };
	list_init(&ready.parked);
	ready.nr_parked = 0;
	ready.has_thread = false;
	store_relaxed(&ready.wake_fd, -1);
	store_relaxed(&ready.watched, -1);
	store_relaxed(&ready.nr_kicking, 0);
	ready.slots = NULL;
	ready.nr_slots = 0;
	ready.max_slots = UINT32_MAX;
	ready.round = 0;
	ready.nr_expected = 0;
}

void uaio_ready_kick(void)
{
	uint64_t one = 1;
	int fd;

	/* relaxed: without it there is no poller */
	if (load_relaxed(&ready.wake_fd) < 0)
		return;
	/*
	 * [MB:wake-fd] seq_cst: the count before the number. Pairs with
	 * uaio_ready_yield(): it counts us, or we find the new number.
	 */
	add_seq_cst(&ready.nr_kicking, 1);
	fd = load_seq_cst(&ready.wake_fd);
	(void)sys_write(fd, &one, sizeof(one));
	/* [MB:wake-fd] release: the write is over. Pairs as above. */
	sub_release(&ready.nr_kicking, 1);
}

bool uaio_ready_yield(int fd)
{
	enum { LOOK_NS = 50000 };
	uint32_t nr;
	int own = -1;

	uaio_lock(&ready.lock, UAIO_RANK_READY);
	if (load_relaxed(&ready.wake_fd) == fd) {
		own = uaio_ownfd_dup(fd);
		if (own >= 0)
			/* [MB:wake-fd] seq_cst: before the count is read. */
			store_seq_cst(&ready.wake_fd, own);
	}
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	if (own < 0)
		return false;
	uaio_ready_kick();
	/* Rare, and soon over: nobody is asked to wake us. */
	for (;;) {
		/* [MB:wake-fd] seq_cst: pairs with uaio_ready_kick(). */
		nr = load_seq_cst(&ready.nr_kicking);
		/* [MB:wake-fd] acquire: pairs with wait_ready(). */
		if (!nr && load_acquire(&ready.watched) != fd)
			return true;
		(void)uaio_sleep(&ready.nr_kicking, nr,
				 uaio_now_ns() + LOOK_NS);
	}
}

static enum uaio_op_class class_of(const struct uaio_req *req)
{
	return uaio_optab[req->sqe.op].class;
}

/* Polls do not count: they take nothing from the stream. */
static void count_parked_locked(struct uaio_req *req, int change)
{
	/* relaxed: callers peek at their own context's */
	store_relaxed(&req->group->nr_parked,
		      load_relaxed(&req->group->nr_parked) + (uint32_t)change);
	if (class_of(req) != UAIO_CLASS_POLL) {
		uint32_t *nr =
			&req->file
				 ->nr_parked[class_of(req) == UAIO_CLASS_WRITE];

		/* relaxed: submitters peek at their own file's */
		store_relaxed(nr, load_relaxed(nr) + (uint32_t)change);
	}
}

static short poll_events(const struct uaio_req *req)
{
	switch (class_of(req)) {
	case UAIO_CLASS_POLL: return (short)req->sqe.events;
	case UAIO_CLASS_WRITE: return POLLOUT;
	default: return POLLIN;
	}
}

static bool reserve_slots(unsigned nr)
{
	unsigned want = ready.nr_slots ? ready.nr_slots : FIRST_SLOTS;
	struct pollfd *slots;

	if (nr <= ready.nr_slots)
		return true;
	while (want < nr)
		want *= 2;
	slots = sys_mmap(NULL, want * sizeof(*slots), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(slots))
		return false;
	if (ready.slots)
		(void)sys_munmap(ready.slots, ready.nr_slots * sizeof(*slots));
	ready.slots = slots;
	ready.nr_slots = want;
	return true;
}

/* One slot for all that wait for the same file. */
static void watch_locked(struct uaio_req *req, unsigned *nr)
{
	struct uaio_file *file = req->file;

	/* relaxed: a stale number is replaced by the kick */
	int fd = load_relaxed(&file->fd);

	if (file->poll_round != ready.round) {
		if (*nr >= ready.nr_slots || *nr >= ready.max_slots) {
			ready.is_cut = true;
			return;
		}
		file->poll_round = ready.round;
		file->poll_slot = (*nr)++;
		ready.slots[file->poll_slot] = (struct pollfd){
			/* poll() passes over negative ones, but minds these */
			.fd = fd < 0 ? INT_MAX : fd,
		};
	}
	ready.slots[file->poll_slot].events |= poll_events(req);
	req->poll_round = ready.round;
}

/*
 * Fill the slots with what is parked. If memory for all is refused, or poll()
 * takes fewer (a lowered descriptor limit), the oldest are watched and the
 * others tried now and then.
 * Return: how many slots, with the kicks' as the first; or 0.
 */
static unsigned fill_slots(void)
{
	unsigned nr = 0;

	uaio_lock(&ready.lock, UAIO_RANK_READY);
	ready.is_cut = false;
	if (reserve_slots(ready.nr_parked + 1) || ready.nr_slots) {
		/* 0 is what files have that were never watched. */
		if (++ready.round == 0)
			ready.round = 1;
		/* relaxed: under the lock, as uaio_ready_yield() */
		store_relaxed(&ready.watched, load_relaxed(&ready.wake_fd));
		if (ready.max_slots)
			ready.slots[nr++] = (struct pollfd){
				.fd = load_relaxed(&ready.watched),
				.events = POLLIN,
			};
		list_for_each (pos, &ready.parked)
			watch_locked(container_of(pos, struct uaio_req, link),
				     &nr);
	}
	if (!nr)
		ready.is_cut = true;
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	return nr;
}

/* A request that is asked for errors only is told of them all the same. */
static bool is_ready(const struct uaio_req *req)
{
	if (req->poll_round != ready.round || !ready.slots)
		return ready.is_cut;
	return ready.slots[req->file->poll_slot].revents &
	       (poll_events(req) | POLLERR | POLLHUP | POLLNVAL);
}

static void take_parked_locked(struct uaio_req *req, struct list *ret_tries)
{
	uaio_req_move(req, UAIO_REQ_PARKED, UAIO_REQ_RUNNING);
	ready.nr_parked--;
	list_remove(&req->link);
	list_add_tail(ret_tries, &req->link);
}

/* Move the requests whose files are ready to ret_tries, RUNNING. */
static void collect(struct list *ret_tries)
{
	uaio_lock(&ready.lock, UAIO_RANK_READY);
	list_for_each_safe (pos, &ready.parked) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (is_ready(req))
			take_parked_locked(req, ret_tries);
	}
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
}

static void complete(struct uaio_req *req, int64_t res)
{
	uaio_lock(&ready.lock, UAIO_RANK_READY);
	count_parked_locked(req, -1);
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	uaio_req_complete(req, res);
}

static void hand_to_worker(struct uaio_req *req)
{
	struct list startable;

	/*
	 * It will block, and closing the number could not wait for that: so
	 * never on the client's own number, even if the table is full.
	 */
	if (!uaio_file_make_private(req->file)) {
		complete(req, -EAGAIN);
		return;
	}
	uaio_lock(&ready.lock, UAIO_RANK_READY);
	count_parked_locked(req, -1);
	uaio_req_move(req, UAIO_REQ_RUNNING, UAIO_REQ_PREPPED);
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	req->is_blocking = true;
	list_init(&startable);
	list_add_tail(&startable, &req->link);
	uaio_req_start_all(&startable);
}

/*
 * Try a ready request. Also a poll asks again: the number that was watched may
 * have been closed and have become another file's before it was.
 * Return: false if it has to wait on.
 */
static bool try(struct uaio_req *req)
{
	int64_t res = uaio_req_try(req);

	if (res == -EAGAIN)
		return false;
	if (res == -EOPNOTSUPP)
		hand_to_worker(req);
	else
		complete(req, res);
	return true;
}

/*
 * Of each file and direction only the first is tried that may not overtake:
 * once one of them has to wait on, so have those behind it.
 */
static bool is_behind(const struct uaio_req *req, const struct list *again)
{
	if (class_of(req) == UAIO_CLASS_POLL)
		return false;
	list_for_each (pos, again) {
		const struct uaio_req *other =
			container_of(pos, struct uaio_req, link);

		if (other->file == req->file &&
		    class_of(other) == class_of(req))
			return true;
	}
	return false;
}

/*
 * Back to the front of the list, in their order: they were the oldest. Those
 * whose context goes away are completed instead.
 */
static void park_again(struct list *again)
{
	struct list cancelled, *node;

	list_init(&cancelled);
	uaio_lock(&ready.lock, UAIO_RANK_READY);
	list_for_each_safe (pos, again) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (req->group->is_closing) {
			list_remove(&req->link);
			list_add_tail(&cancelled, &req->link);
			continue;
		}
		uaio_req_move(req, UAIO_REQ_RUNNING, UAIO_REQ_PARKED);
		ready.nr_parked++;
	}
	list_splice_tail(again, &ready.parked);
	list_splice_tail(&ready.parked, again);
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	while ((node = list_pop(&cancelled))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		complete(req, uaio_req_cancelled_res(req));
	}
}

/*
 * Sleep until something is ready or changed.
 * Return: false if nothing has been parked for long, or the host has no thread
 * any more; the thread leaves then.
 */
static bool wait_ready(unsigned nr)
{
	/* With one slot nothing is parked; with none, memory was refused. */
	static const struct timespec idle = { IDLE_S, 0 },
				     soon = { 0, 1000000 };
	bool leaves = false;
	uint64_t count;
	int ret;

	ret = sys_ppoll(ready.slots, nr, ready.is_cut ? &soon : &idle, NULL, 0);
	if (nr && ready.slots[0].revents)
		(void)sys_read(ready.slots[0].fd, &count, sizeof(count));
	/* [MB:wake-fd] release: we are through. Pairs with uaio_ready_yield(). */
	store_release(&ready.watched, -1);
	/* More files than the descriptor limit, lowered meanwhile: fewer, and
	 * all again once it is known how many. */
	if (ret < 0)
		ready.max_slots = nr / 2;
	else
		ready.max_slots = UINT32_MAX;
	if (ret == 0 && nr <= 1) {
		uaio_lock(&ready.lock, UAIO_RANK_READY);
		leaves = list_is_empty(&ready.parked) && !ready.nr_expected;
		ready.has_thread = !leaves;
		uaio_unlock(&ready.lock, UAIO_RANK_READY);
	} else if (ret == 0 && !ready.is_cut) {
		/* What is parked keeps no process. */
		leaves = uaio_threads_are_last(1 + uaio_wq_nr_threads());
		/* Should that be wrong after all, another one starts. */
		uaio_lock(&ready.lock, UAIO_RANK_READY);
		ready.has_thread = !leaves;
		uaio_unlock(&ready.lock, UAIO_RANK_READY);
	}
	return !leaves;
}

/* Try the requests of a list, in order, and park those again that must wait. */
static void try_all(struct list *tries)
{
	struct list again, *node;

	list_init(&again);
	while ((node = list_pop(tries))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		if (is_behind(req, &again) || !try(req))
			list_add_tail(&again, &req->link);
	}
	park_again(&again);
}

static void *watch(void *arg)
{
	struct list tries;

	(void)arg;
	uaio_thread_begin("uaio-ready");
	list_init(&tries);
	while (wait_ready(fill_slots())) {
		uaio_lock(&ready.trying, UAIO_RANK_TRYING);
		collect(&tries);
		try_all(&tries);
		uaio_unlock(&ready.trying, UAIO_RANK_TRYING);
	}
	uaio_thread_end();
	return NULL;
}

/*
 * Walking the list for one context: a request of another on the same file and
 * direction that was passed over keeps those behind it back.
 */
static void pass_locked(struct uaio_req *req)
{
	if (class_of(req) != UAIO_CLASS_POLL)
		req->file->passed[class_of(req) == UAIO_CLASS_WRITE] =
			ready.walk;
}

static bool is_passed_locked(const struct uaio_req *req)
{
	return class_of(req) != UAIO_CLASS_POLL &&
	       req->file->passed[class_of(req) == UAIO_CLASS_WRITE] ==
		       ready.walk;
}

void uaio_ready_try_group(struct uaio_group *group)
{
	struct list tries;
	bool was_missed;
	uint32_t round;
	unsigned nr = 0;

	/* relaxed: a request of this thread is counted, and others race */
	if (!load_relaxed(&group->nr_parked) ||
	    !uaio_trylock(&ready.trying, UAIO_RANK_TRYING))
		return;
	list_init(&tries);
	uaio_lock(&ready.lock, UAIO_RANK_READY);
	round = ready.round;
	ready.walk++;
	list_for_each_safe (pos, &ready.parked) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (req->group != group || is_passed_locked(req)) {
			pass_locked(req);
			continue;
		}
		take_parked_locked(req, &tries);
		if (++nr == CALLER_TRIES)
			break;
	}
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	try_all(&tries);
	/* The poller may have listed what is parked while ours was not. */
	uaio_lock(&ready.lock, UAIO_RANK_READY);
	was_missed = ready.round != round;
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	uaio_unlock(&ready.trying, UAIO_RANK_TRYING);
	if (was_missed)
		uaio_ready_kick();
}

static int start_locked(void)
{
	int fd = load_relaxed(&ready.wake_fd);

	if (fd < 0) {
		fd = uaio_ownfd_event(EFD_NONBLOCK);
		if (fd < 0)
			return -EAGAIN;
		store_relaxed(&ready.wake_fd, fd);
	}
	if (uaio_thread_start(watch, NULL) < 0)
		return -EAGAIN;
	ready.has_thread = true;
	return 0;
}

int uaio_ready_expect(void)
{
	int ret = 0;

	uaio_lock(&ready.lock, UAIO_RANK_READY);
	if (!ready.has_thread)
		ret = start_locked();
	if (ret == 0)
		ready.nr_expected++;
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	return ret;
}

void uaio_ready_unexpect(void)
{
	uaio_lock(&ready.lock, UAIO_RANK_READY);
	ready.nr_expected--;
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
}

bool uaio_ready_park(struct uaio_req *req)
{
	bool parks;

	uaio_lock(&ready.lock, UAIO_RANK_READY);
	ready.nr_expected--;
	parks = !req->group->is_closing;
	if (parks) {
		uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_PARKED);
		req->poll_round = 0; /* not watched yet */
		list_add_tail(&ready.parked, &req->link);
		ready.nr_parked++;
		count_parked_locked(req, 1);
	}
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	if (parks)
		uaio_ready_kick();
	return parks;
}

void uaio_ready_close_group(struct uaio_group *group)
{
	uaio_lock(&ready.lock, UAIO_RANK_READY);
	group->is_closing = true;
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
}

void uaio_ready_hold(void)
{
	uaio_lock(&ready.trying, UAIO_RANK_TRYING);
}

void uaio_ready_release(void)
{
	uaio_unlock(&ready.trying, UAIO_RANK_TRYING);
}

bool uaio_ready_cancel(struct uaio_req *req)
{
	bool was_parked;

	uaio_lock(&ready.lock, UAIO_RANK_READY);
	was_parked = uaio_req_state(req) == UAIO_REQ_PARKED;
	if (was_parked) {
		uaio_req_move(req, UAIO_REQ_PARKED, UAIO_REQ_RUNNING);
		list_remove(&req->link);
		ready.nr_parked--;
		count_parked_locked(req, -1);
	}
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	return was_parked;
}
