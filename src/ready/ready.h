/* SPDX-License-Identifier: MIT */
/*
 * Readiness: requests that wait until their file is ready
 *
 * A request that cannot be executed when it is submitted, because its file is
 * not ready, is parked. It is tried again by the threads that come by: those
 * that wait for events of its queue, and those that submit to the queue while
 * something there is kicked. Of the threads that sleep for a queue's events
 * one, the leader, sleeps in the queue's epoll, and itself executes what gets
 * ready there (lead.h). Only where no thread of the program comes by does the
 * fallback thread (fallback.c) try what is parked.
 *
 *   I1  Requests parked on an open file are in its wait queues, one for each
 *       direction, one for reads of errors (MSG_ERRQUEUE) and one for polls,
 *       oldest first, under the file's lock. One
 *       thread at a time tries the requests of a wait queue (is_running), the
 *       oldest first, and goes on to the next when that is done: none overtakes
 *       another, and none is tried by two threads at once. Polls take nothing
 *       from the file: all of them are tried. After some completions in a row
 *       a multishot request waits until the other files that are kicked have been
 *       run (uaio_sqe_ends_turn()).
 *   I2  A watch joins a queue and an open file: it exists from the first
 *       request of the one on the other until either goes away. The queue's
 *       epoll knows the file by it, once, edge-triggered, from the time when a
 *       thread first needs that (armed).
 *   I3  An edge is never lost: it kicks the wait queues, which puts their watch
 *       on the queue's list of what is to be run; a wait queue that is being
 *       run is tried once more; and an edge that came between the try of a
 *       request and its parking shows in the number of edges. The thread that
 *       takes an edge, and runs the list, runs these wait queues at once
 *       instead, unless their watch is on a list.
 *   I4  A thread that sleeps in the epoll has armed all that was parked. What
 *       is parked later is armed by the thread that parks it, if one sleeps. What
 *       was never tried, as its client wanted a worker, is first run: of one that
 *       fails, or asks for nothing, the epoll may never tell.
 *   I5  One thread at a time runs the list of a queue; others skip it. That
 *       thread looks at the list under the lock before it lets go. A run is
 *       bounded; what is left over is passed on to a thread that sleeps. A
 *       caller arms what it has run, if one sleeps: that thread may have looked
 *       when it was kicked, and was not armed. A caller that puts a wait queue
 *       in doubt, or cannot arm it, makes sure that the queue is on the fallback
 *       thread's list, or that a leader looks after it.
 *   I6  While something of a queue is parked, a thread looks after it: one that
 *       sleeps in its epoll (lead.h, attend.h), or the fallback thread, which
 *       has the queue on its list or watches the queue's epoll. Both sides
 *       write first and look then: nr_parked against keepers, one bit of
 *       which stands for each.
 *   I7  Requests are tried only with calls that do not block. Where a file
 *       knows no such call, its requests are handed to a worker when it is
 *       ready, one request of a wait queue at a time.
 *   I8  A request that is being tried is TRIED, and stays in its wait queue. A
 *       thread that cancels it meanwhile is told of the outcome (waits.h).
 *   I9  Descriptors are the program's: where the library's own would be more
 *       than a share of them, a queue gets no epoll. What is parked in it is
 *       watched, counted and run in its home, the commons, with that of all
 *       other queues that have none; no waiter leads there, so the fallback
 *       thread looks after it. A queue has one home from the time when
 *       something is first parked in it.
 *
 *   I10 A multishot poll has a completion for each edge of its own watch, and
 *       stays parked. It goes by edges only: nobody polls the file for it, except
 *       to find what an edge was about. The edge that says what is ready at first
 *       is made by arming the file anew when the request is parked, under a new
 *       generation of the watch; what the epoll said before is void. Edges that
 *       come before a thread has acted on the last may have one completion
 *       together, as in the kernel. Where the epoll cannot tell (it refuses the
 *       file, or was not asked yet; a file that may be ready for one thread only)
 *       the poll is tried like others, and ends with its first completion: the
 *       client submits it again, which looks anew. Window: the epoll tells once
 *       more of what is still ready if the watch is armed for other events, or
 *       for another multishot poll, or by another descriptor: a completion
 *       without a new edge. An edge that a thread has taken, and not acted on,
 *       is void if another multishot poll is parked just then; arming anew
 *       tells what is still ready, so an edge has no completion only if what
 *       it was about was read meanwhile.
 *   I11 Any other poll asks its file (poll()) when it is run, but for one that has
 *       looked before, if only edges have it run, and no epoll that told of one said
 *       that what it waits for was there, though it would have. Each edge that a
 *       thread takes is noted in the file before the polls are run for it, and stays
 *       noted until they are, whichever other edge is noted after it: threads note
 *       edges in another order than they take them. Where an edge may be lost, the
 *       poll asks (UAIO_WAITQS_ASK). It also asks if the thread that notes the edge is
 *       not the one that last looked for it: that edge may have been taken before the
 *       look, and what it was about may have been read in between.
 *   I12 A multishot receive that took less from a plain TCP socket than there was room
 *       for (UAIO_REST_NO_BYTES), and did not stop at an urgent mark, is not tried again
 *       before the next edge. The epoll also watches for the end of the stream. It has
 *       not reported that, and no edge may be lost (told_of_more). So the socket held
 *       only bytes when the epoll reported the last edge, and the receive took them all.
 *       What arrives after that edge makes another.
 *
 * test/model/ready.pml is a model of I1 to I6. Comments in the code name its
 * steps, as [step: ...]. Where two threads each write first and look then, the
 * model loses a request if one of them does not. Below are the faults of the
 * model (ready.py) in which one does not, and the tests in which the threads of
 * the code meet:
 *
 *   I3  The submitter reads the number of edges, tries, and compares under the
 *       file's lock: EDGES_NOT_COMPARED.
 *   I4  A leader says that it leads, then arms; a submitter parks, then looks
 *       for a leader: SLEEPS_UNARMED; test-ready-served.c. The fallback thread
 *       does as a leader: NO_LOOK_FOR_AN_ADOPTER. It keeps a queue in which its
 *       last look has put something in doubt, or has left it unarmed:
 *       SERVE_FORGETS_DOUBTS, SERVE_FORGETS_TO_ARM; test-ready-alone.c.
 *   I5  What a leader leaves kicked, in doubt or unarmed the fallback thread
 *       keeps on its list, though it has adopted the queue:
 *       KICKED_LEFT_BY_THE_LIST, DOUBT_LEFT_BY_THE_LIST; test-ready-left.c.
 *       That test also has what takes the model too many steps: a caller that
 *       has run the list, or could not arm, looks whether a thread sleeps that
 *       counts on that; a waiter that is told may leave, and is not relied on.
 *       Both look after what they have left is on a list, under the lock under
 *       which the other thread has looked before it sleeps.
 *   I6  Parking counts, then looks: LOOKS_BEFORE_IT_COUNTS. A thread that lets
 *       a queue go looks after that whether something is counted:
 *       UNLISTED_WITHOUT_A_LOOK, DISOWNED_WITHOUT_A_LOOK.
 *
 * test/model/park.pml is a model of parking itself, against cancellers, and against the
 * end of the queue.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_READY_READY_H
#define UAIO_READY_READY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "req/queue.h"
#include "req/req.h"

struct epoll_event;
struct uaio_file;
struct uaio_req;
struct uaio_watch;

/*
 * Which thread runs what is parked. Callers keep the queue by a pin, the
 * fallback thread by nr_served.
 */
enum uaio_runner {
	UAIO_RUN_BY_CALLER,
	UAIO_RUN_BY_LEADER, /* a caller that sleeps in the epoll next */
	UAIO_RUN_BY_FALLBACK,
};

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_ready_init(void);
/* Around each generation of a queue. */
void uaio_ready_init_group(struct uaio_group *group);
void uaio_ready_fini_group(struct uaio_group *group);

/*
 * A request is about to be parked: count it, and see to it that a thread looks
 * after it from now on. uaio_ready_unexpect() takes the count back if the
 * request is not parked after all.
 * Return: 0, or -EAGAIN if it takes the fallback thread, and that cannot be
 * started.
 */
int uaio_ready_expect(struct uaio_group *group);

/* The same of a request that there is, with the watch of its file. */
int uaio_ready_expect_req(struct uaio_req *req);
void uaio_ready_unexpect(struct uaio_group *group);

/*
 * The caller has submitted native requests of group, which it has expected, or is about
 * to: see to it that a thread that sleeps there looks after them. If none does: the
 * client's thread, which is here, may come back soon; but if the caller is a worker, the
 * fallback thread looks after them at once.
 */
void uaio_ready_native_submitted(struct uaio_group *group, bool by_worker);
/*
 * Complete what native requests of group are over: by a thread of the client's, which
 * keeps the group.
 * Return: how many.
 */
unsigned uaio_ready_take_native(struct uaio_group *group);

/*
 * Return: the group in which what is parked in this one is watched and counted:
 * itself, or the commons (commons.c), which outlives all.
 */
static inline struct uaio_group *uaio_ready_home(const struct uaio_ready *ready)
{
	/* relaxed: either was there before anything was parked */
	return load_relaxed(&ready->home);
}

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_commons_init(void);
/* Nothing was parked in group yet: choose its home (commons.c). */
void uaio_commons_settle(struct uaio_group *group);
bool uaio_is_commons(const struct uaio_group *group);

/*
 * Return: the watch of group on file, to which the caller has a reference; NULL
 * if memory is refused.
 */
struct uaio_watch *uaio_watch_get(struct uaio_group *group,
				  struct uaio_file *file);

/*
 * Park a request that was expected, and is PREPPED, RUNNING or HELD (from): until its file
 * is ready, or, if it has none, until its time has come. The caller has pinned the group
 * or holds its lock, and then calls uaio_ready_submitted() or uaio_ready_announce().
 * Return: false if its queue is being closed: the request is still the caller's, in the
 * same state, and is not expected any more.
 */
bool uaio_ready_park(struct uaio_req *req, enum uaio_req_state from);

/*
 * The caller has parked requests: run what is kicked; if a thread sleeps in the
 * epoll, arm the files; if only others sleep, have one of them lead. has_multishot:
 * some are multishot polls; take what the epoll says of their files.
 */
void uaio_ready_submitted(struct uaio_group *group, bool has_multishot);
/* The same for a thread that may lead: it runs nothing. */
void uaio_ready_announce(struct uaio_group *group);

/*
 * End what is due (timer.h), and try what may be ready of this queue: what was
 * kicked, and a few of the files
 * on which something was parked since any thread looked, the newest first.
 * Bounded; does nothing if another thread is running the list.
 * Return: whether something kicked is left. A CALLER has passed that on.
 */
bool uaio_ready_run(struct uaio_group *group, enum uaio_runner by);

/* uaio_ready_run() that begins with the files of nr events of the group's epoll. */
bool uaio_ready_run_events(struct uaio_group *group, enum uaio_runner by,
			   const struct epoll_event *events, int nr);

/*
 * The same, after taking the events that the epoll has; does not wait.
 * Return: as above; also true if the epoll may have more events.
 */
bool uaio_ready_look(struct uaio_group *group, enum uaio_runner by);

/*
 * Arm all that is parked.
 * Return: as uaio_ready_is_armed(); if false, the caller looks again after a
 * while.
 */
bool uaio_ready_arm(struct uaio_group *group);

/*
 * The same, for a thread that sleeps in the epoll. If some cannot be armed, the
 * fallback thread is nudged; what has to be run first is passed on.
 */
void uaio_ready_arm_beside(struct uaio_group *group);

/*
 * Arm as uaio_ready_arm(), but only files on which nothing was parked since the
 * last such call: the others are tried by callers, which come by all the time.
 */
void uaio_ready_arm_stale(struct uaio_group *group);

/* Return: whether all that is parked is armed, and nothing is in doubt. */
bool uaio_ready_is_armed(struct uaio_ready *ready);

/* Return: whether, beside that, nothing is kicked, and nothing to be kicked for a sleep. */
bool uaio_ready_is_at_rest(struct uaio_ready *ready);

/* Return: whether something is kicked that no thread is running. */
bool uaio_ready_has_kicked(struct uaio_ready *ready);

/*
 * Kick what the epoll refuses, what is in doubt, and what is not armed: no edge
 * would say that it is ready.
 */
void uaio_ready_kick_refused(struct uaio_group *group);

/*
 * Kick everything: a thread that took events from the epoll may not have come
 * back to act on them.
 */
void uaio_ready_kick_all(struct uaio_group *group);

/* Kick the wait queues that these events of the group's epoll are about. */
void uaio_ready_kick_events(struct uaio_group *group,
			    const struct epoll_event *events, int nr);

/*
 * A request that had its wait queue to itself, on a worker, has returned: kick
 * the next.
 */
void uaio_ready_returned(struct uaio_req *req);

/*
 * A completion is about to make a file ready that is in an epoll, as a ring of io_uring
 * may be. As in the kernel, a multishot poll of an epoll ends after that, with its next
 * completion: if the poll is in that ring itself, each completion would cause another.
 */
void uaio_ready_note_nested(void);

/* Functions of struct uaio_file_ops. */
void uaio_watches_move_locked(struct uaio_file *file, int old);
void uaio_watches_drop(struct uaio_file *file);

/*
 * fallback.c: the thread that looks after requests whose clients do not call
 * in.
 */
void uaio_fallback_init(void);
/*
 * Have the descriptors that the fallback thread needs, without which no request can wait,
 * while there are some. Without success that thread tries again when it is started.
 */
void uaio_fallback_reserve(void);

/* Return: 0, or -EAGAIN if it cannot be started. */
int uaio_fallback_start(void);
/*
 * Have the thread look at group, which is its own home or the commons, after a
 * while. Return: as above.
 */
int uaio_fallback_list(struct uaio_group *group);
/*
 * The first timer of group, which the thread looks after, is due sooner than
 * before (timer.h): have the thread take note.
 */
void uaio_fallback_hurry(struct uaio_group *group);
/*
 * As uaio_fallback_list(), but the thread looks at once. For a request that is parked
 * already: if the thread cannot be started now, it finds the group when it can.
 */
void uaio_fallback_nudge(struct uaio_group *group);
/* The group goes away: wait until the thread does not use it any more. */
void uaio_fallback_forget(struct uaio_group *group);

/*
 * Only tests and measurements count what readiness does, and tune it: counters of the
 * process would be written by all threads that park requests.
 */
#if defined(UAIO_TESTING) || defined(UAIO_BENCH)
#define UAIO_READY_IS_MEASURED
#endif

/*
 * Which thread runs what is parked, and when. Set when the engine is up and nothing was
 * parked yet.
 */
struct uaio_ready_tuning {
	bool caller_runs; /* waiting threads do; else the fallback thread */
	bool delays_kick; /* it comes late, so that callers are first */
};

bool uaio_ready_callers_run(void);

struct uaio_ready_counters {
	uint64_t nr_parked;         /* requests that were parked */
	uint64_t nr_by_caller;      /* of them, completed by callers */
	uint64_t nr_by_fallback;    /* of them, completed by that thread */
	uint64_t nr_fallback_wakes; /* how often that thread woke up */
	uint64_t nr_tries;          /* in vain or not */
	uint64_t nr_sleeps;         /* of callers, in an epoll */
	uint64_t nr_events;         /* taken from an epoll */
	uint64_t nr_arms;           /* calls of epoll_ctl() for files */
};

#ifdef UAIO_READY_IS_MEASURED
void uaio_ready_tune(const struct uaio_ready_tuning *tuning);
void uaio_ready_count(struct uaio_ready_counters *ret);
#endif
void uaio_ready_count_sleep(void);

#endif /* UAIO_READY_READY_H */
