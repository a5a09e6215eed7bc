/* SPDX-License-Identifier: MIT */
/*
 * Work queue: threads for what would block the caller
 *
 * Two accounts, each with its own list, lock and limit: bounded work (regular
 * files) ends by itself in finite time; unbounded work may wait for ever and
 * must not hold up the other. Requests are taken in order of arrival.
 *
 *   I1  A queued request is on its account's list, RUNNING ones are on none;
 *       both changes happen under the account's lock.
 *   I2  While a request is queued, a worker of the account is awake, or will
 *       be once the kick its enqueuer owes is delivered.
 *   I3  A worker decides to leave under the account's lock, with the list
 *       empty, and is not counted from then on.
 *
 * Workers are created when work finds none idle, and leave after 5 s idle.
 * If a thread is refused, work waits for the workers there are; if there are
 * none, the enqueuer gets it back and makes it itself.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_ENGINE_WQ_H
#define UAIO_ENGINE_WQ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct uaio_req;

enum uaio_account {
	UAIO_BOUNDED,
	UAIO_UNBOUNDED,
	UAIO_NR_ACCOUNTS,
};

/* Wake-ups owed to each account, delivered together: one call per submit. */
struct uaio_kick {
	uint32_t nr[UAIO_NR_ACCOUNTS];
	bool is_last; /* the caller leaves: no thread is created for it */
};

/* From nothing: the threads of another process life are not ours. */
void uaio_wq_init(void);

/*
 * Queue req, which is PREPPED, and note the wake-up owed. If there is no worker
 * and none can be created, all that is queued, req with it, is appended to
 * ret_refused, PREPPED again: the caller makes it. So is a request somebody
 * waits for who leaves the process or closes its file: those are not queued.
 */
void uaio_wq_add(enum uaio_account account, struct uaio_req *req,
		 struct uaio_kick *kick, struct list *ret_refused);

/*
 * Take the oldest bounded request that is queued and wanted.
 * Return: it, RUNNING, the caller's to make and complete; NULL if none is.
 */
struct uaio_req *uaio_wq_take(bool (*is_wanted)(const struct uaio_req *req,
						const void *arg),
			      const void *arg);

/* Create the workers that were not while somebody was about to leave. */
void uaio_wq_revive(void);

/* Deliver what is owed. */
void uaio_wq_kick(struct uaio_kick *kick);

/* Return: true if req was still queued; it is RUNNING and the caller's now. */
bool uaio_wq_cancel(struct uaio_req *req);

/* Return: threads of the account. */
unsigned uaio_wq_nr_workers(enum uaio_account account);

#endif /* UAIO_ENGINE_WQ_H */
