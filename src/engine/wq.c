/* SPDX-License-Identifier: MIT */
#include "engine/wq.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "base/eventcount.h"
#include "base/list.h"
#include "base/sys.h"
#include "engine/entry.h"
#include "engine/exit.h"
#include "engine/req.h"
#include "engine/thread.h"

enum {
	/* A disk at depth 32 is kept busy by as many blocking calls. */
	MAX_BOUNDED = 32,
	MAX_UNBOUNDED = 256,
	IDLE_MS = 5000,
};

struct account {
	/* immutable */
	const char *thread_name;
	unsigned max_workers;

	struct uaio_eventcount idle;

	/* under lock */
	struct uaio_lock lock; /* rank ACCOUNT */
	struct list queue;
	unsigned nr_workers;
	unsigned nr_idle; /* of them, asleep or about to look again */
	unsigned nr_queued;
	unsigned nr_coming; /* of them, starting or finishing: they will look */
};

static struct account accounts[UAIO_NR_ACCOUNTS];

void uaio_wq_init(void)
{
	static const struct {
		const char *name;
		unsigned max;
	} limits[UAIO_NR_ACCOUNTS] = {
		[UAIO_BOUNDED] = { "uaio-bound", MAX_BOUNDED },
		[UAIO_UNBOUNDED] = { "uaio-unbound", MAX_UNBOUNDED },
	};

	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		accounts[i] = (struct account){
			.thread_name = limits[i].name,
			.max_workers = limits[i].max,
		};
		list_init(&accounts[i].queue);
	}
}

static struct uaio_req *take_locked(struct account *account)
{
	struct list *node = list_pop(&account->queue);
	struct uaio_req *req;

	if (!node)
		return NULL;
	req = container_of(node, struct uaio_req, link);
	uaio_req_move(req, UAIO_REQ_QUEUED, UAIO_REQ_RUNNING);
	account->nr_queued--;
	return req;
}

/*
 * Return: work, or NULL when the idle time is over; the worker is not counted
 * any more then (I3).
 */
static struct uaio_req *wait_for_work(struct account *account)
{
	int64_t deadline = uaio_now_ns() + IDLE_MS * 1000000ll;
	struct uaio_req *req;
	bool is_late = false;

	for (;;) {
		uint32_t key = uaio_ec_prepare(&account->idle);

		uaio_lock(&account->lock, UAIO_RANK_ACCOUNT);
		req = take_locked(account);
		if (req || is_late) {
			account->nr_idle--;
			if (!req)
				account->nr_workers--;
			uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
			uaio_ec_cancel(&account->idle);
			return req;
		}
		uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
		if (uaio_ec_wait(&account->idle, key, deadline) == -ETIMEDOUT)
			is_late = true;
	}
}

static struct uaio_req *next_work(struct account *account)
{
	struct uaio_req *req;

	uaio_lock(&account->lock, UAIO_RANK_ACCOUNT);
	account->nr_coming--;
	req = take_locked(account);
	if (!req)
		account->nr_idle++;
	uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
	return req ? req : wait_for_work(account);
}

/*
 * What remains is short, and then we look for work: whoever sees the event and
 * submits the next request at once needs no other worker.
 */
static void finishing(struct account *account)
{
	uaio_lock(&account->lock, UAIO_RANK_ACCOUNT);
	account->nr_coming++;
	uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
}

static void *work(void *arg)
{
	struct account *account = arg;
	struct uaio_req *req;

	uaio_thread_begin(account->thread_name);
	while ((req = next_work(account))) {
		int ioprio = req->sqe.ioprio;
		int64_t res;

		if (unlikely(ioprio))
			(void)sys_ioprio_set(ioprio);
		res = uaio_req_make(req);
		if (unlikely(ioprio))
			(void)sys_ioprio_set(0);

		finishing(account);
		uaio_req_complete(req, res);
	}
	uaio_thread_end();
	return NULL;
}

/*
 * Work was queued: see whether another worker is wanted, and count it before
 * it exists, so that two submitters do not both pass the limit.
 */
static bool wants_worker_locked(struct account *account)
{
	/* Those that come or idle will take one request each. */
	if (account->nr_queued <= account->nr_idle + account->nr_coming ||
	    account->nr_workers >= account->max_workers)
		return false;
	account->nr_workers++;
	account->nr_coming++;
	return true;
}

/* Return: whether anybody is there to run what is queued. */
static bool creation_failed(struct account *account)
{
	bool has_workers;

	uaio_lock(&account->lock, UAIO_RANK_ACCOUNT);
	account->nr_workers--;
	account->nr_coming--;
	has_workers = account->nr_workers > 0;
	uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
	return has_workers;
}

/* Take everything off the queue: there is nobody to run it. */
static void give_back(struct account *account, struct list *ret_refused)
{
	uaio_lock(&account->lock, UAIO_RANK_ACCOUNT);
	list_for_each (pos, &account->queue)
		uaio_req_move(container_of(pos, struct uaio_req, link),
			      UAIO_REQ_QUEUED, UAIO_REQ_PREPPED);
	list_splice_tail(ret_refused, &account->queue);
	account->nr_queued = 0;
	uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
}

/*
 * Return: whether somebody waits for it who has looked through the queue, or
 * will, and cannot wait for a worker: all may be in reads that never end.
 */
static bool is_awaited_locked(const struct uaio_req *req)
{
	/* relaxed: set before the look, which is under the lock, too */
	const struct uaio_inode *inode = req->file->inode;

	return load_relaxed(&req->file->is_closing) ||
	       (inode && load_relaxed(&inode->nr_closers) &&
		uaio_order_is_write(req->order)) ||
	       (unlikely(uaio_exit_is_near()) && uaio_req_is_held(req));
}

void uaio_wq_add(enum uaio_account id, struct uaio_req *req,
		 struct uaio_kick *kick, struct list *ret_refused)
{
	struct account *account = &accounts[id];
	bool wants_worker;

	uaio_lock(&account->lock, UAIO_RANK_ACCOUNT);
	if (is_awaited_locked(req)) {
		uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
		list_add_tail(ret_refused, &req->link);
		return;
	}
	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_QUEUED);
	list_add_tail(&account->queue, &req->link);
	account->nr_queued++;
	wants_worker = !kick->is_last && wants_worker_locked(account);
	uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);

	if (!wants_worker) {
		kick->nr[id]++;
		return;
	}
	if (uaio_thread_start(work, account) == 0)
		return;
	if (creation_failed(account))
		kick->nr[id]++;
	else
		give_back(account, ret_refused);
}

/* Return: whether another worker is to be tried for. */
static bool revive(struct account *account)
{
	struct list refused;
	bool wants_worker;

	uaio_lock(&account->lock, UAIO_RANK_ACCOUNT);
	wants_worker = wants_worker_locked(account);
	uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
	if (!wants_worker)
		return false;
	if (uaio_thread_start(work, account) == 0)
		return true;
	if (creation_failed(account))
		return false;
	list_init(&refused);
	give_back(account, &refused);
	uaio_req_start_all(&refused);
	return false;
}

void uaio_wq_revive(void)
{
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++)
		while (revive(&accounts[i]))
			;
}

struct uaio_req *uaio_wq_take(bool (*is_wanted)(const struct uaio_req *req,
						const void *arg),
			      const void *arg)
{
	struct account *account = &accounts[UAIO_BOUNDED];
	struct uaio_req *found = NULL;

	uaio_lock(&account->lock, UAIO_RANK_ACCOUNT);
	list_for_each (pos, &account->queue) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (!is_wanted(req, arg))
			continue;
		list_remove(&req->link);
		account->nr_queued--;
		uaio_req_move(req, UAIO_REQ_QUEUED, UAIO_REQ_RUNNING);
		found = req;
		break;
	}
	uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
	return found;
}

void uaio_wq_kick(struct uaio_kick *kick)
{
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		if (kick->nr[i])
			uaio_ec_notify(&accounts[i].idle, kick->nr[i]);
		kick->nr[i] = 0;
	}
}

bool uaio_wq_cancel(struct uaio_req *req)
{
	struct account *account = &accounts[uaio_req_account(req)];
	bool was_queued;

	uaio_lock(&account->lock, UAIO_RANK_ACCOUNT);
	was_queued = uaio_req_state(req) == UAIO_REQ_QUEUED;
	if (was_queued) {
		list_remove(&req->link);
		account->nr_queued--;
		uaio_req_move(req, UAIO_REQ_QUEUED, UAIO_REQ_RUNNING);
	}
	uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
	return was_queued;
}

unsigned uaio_wq_nr_workers(enum uaio_account id)
{
	struct account *account = &accounts[id];
	unsigned nr;

	uaio_lock(&account->lock, UAIO_RANK_ACCOUNT);
	nr = account->nr_workers;
	uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
	return nr;
}
