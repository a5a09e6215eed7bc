/* SPDX-License-Identifier: MIT */
#include "engine/ready.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/sys.h"
#include "engine/entry.h"
#include "engine/req.h"
#include "engine/thread.h"

enum {
	/* A first array of descriptors; doubled when too small. */
	FIRST_SLOTS = 512,
	WAKE_FD_MIN = 512, /* out of the way of what clients count on */
	IDLE_S = 5,
};

static struct {
	/* under lock */
	struct uaio_lock lock; /* rank READY */
	struct list parked;
	unsigned nr_parked;
	bool has_thread;

	/* atomic: written once, under lock */
	int wake_fd; /* owns: an eventfd; -1 until needed */

	/* the poller's */
	struct pollfd *slots; /* owns */
	unsigned nr_slots;
	uint32_t round;
} ready;

void uaio_ready_init(void)
{
	ready.lock = (struct uaio_lock){ 0 };
	list_init(&ready.parked);
	ready.nr_parked = 0;
	ready.has_thread = false;
	store_relaxed(&ready.wake_fd, -1);
	ready.slots = NULL;
	ready.nr_slots = 0;
	ready.round = 0;
}

int uaio_ready_own_fd(void)
{
	/* relaxed: it is made before anybody can know its number */
	return load_relaxed(&ready.wake_fd);
}

void uaio_ready_kick(void)
{
	uint64_t one = 1;
	/* relaxed: without it there is no poller */
	int fd = load_relaxed(&ready.wake_fd);

	if (fd >= 0)
		(void)sys_write(fd, &one, sizeof(one));
}

static enum uaio_op_class class_of(const struct uaio_req *req)
{
	return uaio_optab[req->sqe.op].class;
}

/* Polls do not count: they take nothing from the stream. */
static void count_parked_locked(struct uaio_req *req, int change)
{
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

/*
 * Fill the slots with what is parked. If memory for all is refused the oldest
 * are watched; the others move up as these complete.
 */
static unsigned fill_slots(void)
{
	unsigned nr = 1;

	uaio_lock(&ready.lock, UAIO_RANK_READY);
	if (!reserve_slots(ready.nr_parked + 1) && !ready.nr_slots) {
		uaio_unlock(&ready.lock, UAIO_RANK_READY);
		return 0;
	}
	ready.round++;
	ready.slots[0] = (struct pollfd){
		.fd = load_relaxed(&ready.wake_fd),
		.events = POLLIN,
	};
	list_for_each (pos, &ready.parked) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (nr == ready.nr_slots)
			break;
		req->poll_round = ready.round;
		req->poll_slot = nr;
		ready.slots[nr++] = (struct pollfd){
			/* relaxed: a stale number is replaced by the kick */
			.fd = load_relaxed(&req->file->fd),
			.events = poll_events(req),
		};
	}
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	return nr;
}

/* Move the requests whose files are ready to ret_tries, RUNNING. */
static void collect(struct list *ret_tries)
{
	uaio_lock(&ready.lock, UAIO_RANK_READY);
	list_for_each_safe (pos, &ready.parked) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (req->poll_round != ready.round ||
		    !ready.slots[req->poll_slot].revents)
			continue;
		uaio_req_move(req, UAIO_REQ_PARKED, UAIO_REQ_RUNNING);
		ready.nr_parked--;
		list_remove(&req->link);
		list_add_tail(ret_tries, &req->link);
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

	uaio_lock(&ready.lock, UAIO_RANK_READY);
	count_parked_locked(req, -1);
	uaio_req_move(req, UAIO_REQ_RUNNING, UAIO_REQ_PREPPED);
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	uaio_file_make_private(req->file);
	req->is_blocking = true;
	list_init(&startable);
	list_add_tail(&startable, &req->link);
	uaio_req_start_all(&startable);
}

/*
 * Try a ready request.
 * Return: false if it has to wait on.
 */
static bool try(struct uaio_req *req)
{
	int64_t res;

	if (class_of(req) == UAIO_CLASS_POLL) {
		short revents = ready.slots[req->poll_slot].revents;

		complete(req,
			 revents & POLLNVAL ? -EBADF : (unsigned short)revents);
		return true;
	}
	res = uaio_req_try(req);
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

/* Back to the front of the list, in their order: they were the oldest. */
static void park_again(struct list *again)
{
	uaio_lock(&ready.lock, UAIO_RANK_READY);
	list_for_each (pos, again) {
		uaio_req_move(container_of(pos, struct uaio_req, link),
			      UAIO_REQ_RUNNING, UAIO_REQ_PARKED);
		ready.nr_parked++;
	}
	list_splice_tail(again, &ready.parked);
	list_splice_tail(&ready.parked, again);
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
}

/*
 * Sleep until something is ready or changed.
 * Return: false if nothing has been parked for long; the thread leaves then.
 */
static bool wait_ready(unsigned nr)
{
	/* With one slot nothing is parked; with none, memory was refused. */
	static const struct timespec idle = { IDLE_S, 0 },
				     soon = { 0, 1000000 };
	bool leaves = false;
	uint64_t count;
	int ret;

	ret = sys_ppoll(ready.slots, nr,
			nr > 1 ? NULL
			: nr   ? &idle
			       : &soon,
			NULL, 0);
	if (nr && ready.slots[0].revents)
		(void)sys_read(load_relaxed(&ready.wake_fd), &count,
			       sizeof(count));
	if (ret == 0 && nr == 1) {
		uaio_lock(&ready.lock, UAIO_RANK_READY);
		leaves = list_is_empty(&ready.parked);
		ready.has_thread = !leaves;
		uaio_unlock(&ready.lock, UAIO_RANK_READY);
	}
	return !leaves;
}

static void *watch(void *arg)
{
	struct list tries, again, *node;

	(void)arg;
	uaio_thread_begin("uaio-ready");
	list_init(&tries);
	list_init(&again);
	while (wait_ready(fill_slots())) {
		collect(&tries);
		while ((node = list_pop(&tries))) {
			struct uaio_req *req =
				container_of(node, struct uaio_req, link);

			if (is_behind(req, &again) || !try(req))
				list_add_tail(&again, &req->link);
		}
		park_again(&again);
	}
	uaio_leave();
	return NULL;
}

static int start_locked(void)
{
	int fd = load_relaxed(&ready.wake_fd), high;

	if (fd < 0) {
		fd = sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (fd < 0)
			return -EAGAIN;
		high = sys_fcntl(fd, F_DUPFD_CLOEXEC, WAKE_FD_MIN);
		if (high >= 0) {
			(void)sys_close(fd);
			fd = high;
		}
		store_relaxed(&ready.wake_fd, fd);
	}
	if (uaio_thread_start(watch, NULL) < 0)
		return -EAGAIN;
	ready.has_thread = true;
	return 0;
}

int uaio_ready_park(struct uaio_req *req)
{
	int ret = 0;

	uaio_lock(&ready.lock, UAIO_RANK_READY);
	if (!ready.has_thread)
		ret = start_locked();
	if (ret == 0) {
		uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_PARKED);
		req->poll_round = ready.round - 1; /* not watched yet */
		list_add_tail(&ready.parked, &req->link);
		ready.nr_parked++;
		count_parked_locked(req, 1);
	}
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	if (ret == 0)
		uaio_ready_kick();
	return ret;
}

bool uaio_ready_cancel(struct uaio_req *req)
{
	bool was_parked;

	uaio_lock(&ready.lock, UAIO_RANK_READY);
	was_parked = load_relaxed(&req->state) == UAIO_REQ_PARKED;
	if (was_parked) {
		uaio_req_move(req, UAIO_REQ_PARKED, UAIO_REQ_RUNNING);
		list_remove(&req->link);
		ready.nr_parked--;
		count_parked_locked(req, -1);
	}
	uaio_unlock(&ready.lock, UAIO_RANK_READY);
	return was_parked;
}
