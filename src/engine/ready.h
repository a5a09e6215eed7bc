/* SPDX-License-Identifier: MIT */
/*
 * Readiness: requests that wait until their file is ready
 *
 * What cannot be made when it is submitted is parked, and tried again by whoever
 * comes by: who waits for events of its context; or submits to it, if something
 * there was kicked. Of those who sleep for events of a context one does so in
 * the context's epoll, and makes itself what gets ready there (lead.h). Only if
 * nobody calls in, the standby thread (standby.c) does it.
 *
 *   I1  Requests parked on an open file are in its lanes, one for each direction
 *       and one for polls, oldest first, under the file's lock. One thread at a
 *       time tries those of a lane (is_running), the oldest first, and goes on
 *       to the next when that is done: none overtakes another, none is tried
 *       twice at once. Polls take nothing from the file: all of them are tried.
 *   I2  A watch joins a context and an open file: it is there from the first
 *       request of the one on the other until either goes. The file is known to
 *       the context's epoll by it, once, edge-triggered, from when somebody
 *       first needs that (armed).
 *   I3  An edge is never lost: it kicks the lanes, which puts their watch on the
 *       context's list of what is to be run; a lane that is being run is tried
 *       once more; and one that came between the try of a request and its
 *       parking is told by the number of edges.
 *   I4  Who sleeps in the epoll has armed all that was parked. What is parked
 *       later is armed by who parks it, if somebody sleeps.
 *   I5  One thread at a time runs the list of a context; others skip. It looks
 *       at the list under the lock before it lets go. A run is bounded; what is
 *       left over is passed on to who sleeps.
 *   I6  While something of a context is parked, somebody looks after it: one
 *       who sleeps in its epoll (lead.h, attend.h), or the standby thread, which has it on its
 *       list or watches its epoll. Both sides write first and look then:
 *       nr_parked against is_led, is_listed, is_adopted.
 *   I7  Requests are tried only with calls that do not block. Files that know
 *       no such call are handed to a worker, one request of a lane at a time,
 *       when they are ready.
 *   I8  A request that is being tried is TRIED, and stays in its lane. A thread
 *       that cancels it meanwhile is told of the outcome (waits.h).
 *   I9  Descriptors are the host's: where ours are more than a share of them, a
 *       context gets no epoll. What is parked in it is watched, counted and run
 *       in its home, the commons, with that of all others that have none; there
 *       nobody leads but the standby thread. A context has one home from when
 *       something is first parked in it.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_ENGINE_READY_H
#define UAIO_ENGINE_READY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"
#include "base/lock.h"
#include "engine/poller.h"

struct uaio_file;
struct uaio_group;
struct uaio_req;
struct uaio_watch;

/* Of a context. */
struct uaio_ready {
	struct uaio_poller poller;
	/* atomic; borrows: it outlives this, see commons.c */
	struct uaio_group *home;

	/* atomic */
	uint32_t nr_parked;   /* or expected to be, or being tried */
	uint32_t nr_pins;     /* who keeps it from going away, for a moment */
	uint32_t nr_attended; /* how often a caller has completed something */
	uint32_t is_led;      /* somebody sleeps in the epoll, or is about to */
	uint32_t nr_waiters;  /* threads that sleep for events in any way */
	uint32_t is_listed;   /* standby.c, written under its lock */
	uint32_t is_adopted;  /* as above */
	uint32_t is_closing;  /* nothing is parked any more */

	struct uaio_lock lock; /* rank READY */

	/* under lock */
	struct list watches;
	struct list kicked;  /* to be run */
	struct list fresh;   /* parked since anybody looked; newest first */
	struct list unarmed; /* looked at, but not known to the epoll */
	struct list refused; /* the epoll does not take them now, or in doubt */
	struct list personal; /* idle ones whose file is PERSONAL */
	bool is_draining;

	/* under the standby thread's lock */
	struct list in_listed;
	struct list in_adopted;
	uint32_t nr_served;
	bool is_urgent;
	/* the standby thread's */
	uint32_t seen_attended;
	uint32_t seen_parks;

	/* atomic */
	uint32_t nr_parks;     /* changes with each that is parked */
	uint32_t has_kicked;   /* written under lock: a guess without it */
	uint32_t has_personal; /* likewise */
};

/* Who runs what is parked. All hold a pin. */
enum uaio_runner {
	UAIO_RUN_BY_CALLER,
	UAIO_RUN_BY_LEADER, /* a caller, too, who sleeps next */
	UAIO_RUN_BY_STANDBY,
};

/* From nothing. */
void uaio_ready_init(void);
void uaio_ready_init_group(struct uaio_group *group);
void uaio_ready_fini_group(struct uaio_group *group);

/*
 * A request is about to be parked: see to it that somebody will look after it,
 * until it is parked or comes to nothing.
 * Return: 0, or -EAGAIN if nobody would.
 */
int uaio_ready_expect(struct uaio_group *group);
void uaio_ready_unexpect(struct uaio_group *group);

/*
 * commons.c: which context what is parked in this one is watched in: itself, or
 * the commons, which outlives all.
 */
static inline struct uaio_group *uaio_ready_home(const struct uaio_ready *ready)
{
	/* relaxed: both were there before anything was parked */
	return load_relaxed(&ready->home);
}

/* From nothing. */
void uaio_commons_init(void);
/* Nothing was parked in group yet: choose its home. */
void uaio_commons_settle(struct uaio_group *group);
bool uaio_is_commons(const struct uaio_group *group);

/* Return: the watch of group on file, which the caller has a reference to. */
struct uaio_watch *uaio_watch_get(struct uaio_group *group,
				  struct uaio_file *file);

/*
 * Park a PREPPED request that was expected.
 * Return: false if its context goes away: the request is the caller's still.
 */
bool uaio_ready_park(struct uaio_req *req);

/*
 * Keep the group from going away, while something of it is known to be there: a
 * ticket, a lock. Nobody sleeps who holds a pin.
 */
static inline void uaio_ready_pin(struct uaio_ready *ready)
{
	/* relaxed: what is there is given up later */
	add_relaxed(&ready->nr_pins, 1);
}

static inline void uaio_ready_unpin(struct uaio_ready *ready)
{
	/* [MB:pin] release: we are through. Pairs with who ends the group. */
	sub_release(&ready->nr_pins, 1);
}

/* Requests were parked: see to it that who sleeps knows their files. */
void uaio_ready_submitted(struct uaio_group *group);

/*
 * Try what may be ready of this context: what was kicked, and a few of what was
 * parked last. Bounded, and nothing if somebody is at it.
 * Return: whether some is left that was kicked: a caller has passed it on.
 */
bool uaio_ready_run(struct uaio_group *group, enum uaio_runner by);

/* The same, after asking the epoll what is ready; does not wait. */
bool uaio_ready_look(struct uaio_group *group, enum uaio_runner by);

/*
 * Make all that is parked known to the epoll.
 * Return: whether it is; else the caller looks again after a while.
 */
bool uaio_ready_arm(struct uaio_group *group);

/*
 * The same for what was parked before the last time, nothing since then: others
 * are tried by callers who are at it all the time.
 */
void uaio_ready_arm_stale(struct uaio_group *group);

/* Return: whether all that is parked is known to the epoll. */
bool uaio_ready_is_armed(struct uaio_ready *ready);

/* Return: whether something was kicked that nobody is running. */
bool uaio_ready_has_kicked(struct uaio_ready *ready);

/* Kick what the epoll does not take: there is no other way to know. */
void uaio_ready_kick_refused(struct uaio_group *group);

/* Kick everything: who was told what is ready may not have come back with it. */
void uaio_ready_kick_all(struct uaio_group *group);

/* Kick what events say, of the context's epoll. */
void uaio_ready_kick_events(struct uaio_group *group,
			    const struct epoll_event *events, int nr);

/* A request that had its lane to itself, on a worker, is through. */
void uaio_ready_returned(struct uaio_req *req);

/* As struct uaio_file_ops says. */
void uaio_watches_move_locked(struct uaio_file *file, int old);
void uaio_watches_drop(struct uaio_file *file);

/* standby.c: the thread that looks after those who do not call in. */
void uaio_standby_init(void);
/* Return: 0, or -EAGAIN if there can be no thread. */
int uaio_standby_start(void);
/* The group is its own home, or the commons. Return: as above. */
int uaio_standby_list(struct uaio_group *group);
/* The same, where what is parked cannot be refused any more; and at once. */
void uaio_standby_nudge(struct uaio_group *group);
/* The group goes away. */
void uaio_standby_forget(struct uaio_group *group);

/*
 * For measurements: how what is parked is run. Set when the engine is up and
 * nothing was parked yet.
 */
struct uaio_ready_tuning {
	bool caller_runs; /* who waits retries; else the standby thread does */
	bool delays_kick; /* it comes late, for callers to be first; else at once */
};

void uaio_ready_tune(const struct uaio_ready_tuning *tuning);
bool uaio_ready_callers_run(void);

struct uaio_ready_counters {
	uint64_t nr_parked;        /* requests that were parked */
	uint64_t nr_by_caller;     /* of them, completed by who called in */
	uint64_t nr_by_standby;    /* of them, completed by the thread */
	uint64_t nr_standby_wakes; /* times that came awake */
	uint64_t nr_tries;         /* in vain or not */
	uint64_t nr_sleeps;        /* of callers, in an epoll */
	uint64_t nr_events;        /* taken from an epoll */
	uint64_t nr_arms;          /* calls of epoll_ctl() for files */
};

void uaio_ready_count(struct uaio_ready_counters *ret);
void uaio_ready_count_sleep(void);

#endif /* UAIO_ENGINE_READY_H */
