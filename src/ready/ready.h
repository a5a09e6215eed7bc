/* SPDX-License-Identifier: MIT */
/*
 * Readiness: requests that wait until their file is ready
 *
 * A request is parked if it cannot be executed when it is submitted, because its file
 * is not ready. Parked requests are tried again by threads of the program that come by:
 * threads that wait for events of the queue (a context or ring of the client), and
 * threads that submit to the queue while a file there is kicked. One of the threads
 * that sleep for a queue's events is the leader: it sleeps in the queue's epoll, and
 * executes the requests whose files become ready (lead.h). The fallback thread
 * (fallback.c) tries parked requests only if no thread of the program comes by.
 *
 * Words: a wait queue is the list of a file's parked requests for one direction. A
 * watch joins a queue and a file; it is armed while the queue's epoll has the file. An
 * edge is an event that the epoll reports, edge-triggered. To kick a wait queue is to
 * note that it must be tried. To run it is to try its requests. A file is in doubt if
 * it polls ready while calls on it fail with EAGAIN.
 *
 *   I1  Requests parked on an open file are in its wait queues, under the file's lock.
 *       There are four: for reads, for writes, for reads of errors (MSG_ERRQUEUE) and
 *       for polls. One thread at a time tries the requests of a wait queue
 *       (is_running). It tries the oldest first, and goes on to the next when that is
 *       done. So no request overtakes another, and no two threads try the same request.
 *       Polls consume nothing from the file, so all polls are tried. After some
 *       completions in a row a multishot request waits until the other kicked files
 *       have been run (uaio_sqe_ends_turn()).
 *
 *   I2  A watch exists from the first request of its queue on its file until the queue
 *       or the file goes away. By the watch the queue's epoll has the file, once,
 *       edge-triggered, from the time when a thread first needs that (armed).
 *
 *   I3  No edge is lost. An edge kicks the wait queues, which puts their watch on the
 *       queue's list of watches to be run. If a wait queue is being run when its edge
 *       comes, it is tried once more. An edge that comes between the try of a request
 *       and its parking changes the number of edges. A thread that takes an edge and
 *       runs the list runs these wait queues at once, without the list, unless their
 *       watch is on a list already.
 *
 *   I4  A thread that sleeps in the epoll has armed all files with parked requests. If
 *       a request is parked later, the thread that parks it arms its file, if a thread
 *       sleeps there. A request that was never tried, because its client wanted a
 *       worker, is run before the sleep: if it would fail, or needs nothing from the
 *       file, the epoll may never report anything for it.
 *
 *   I5  One thread at a time runs the list of a queue; other threads skip it. The
 *       running thread looks at the list once more, under the lock, before it lets go
 *       of the list. A run is bounded; what is left over is passed on to a thread that
 *       sleeps. If a thread sleeps, a caller (a thread of the program) arms the files
 *       that it has run: the sleeping thread may have looked while such a file was
 *       kicked, and so not have armed it. A caller that puts a wait queue in doubt, or
 *       cannot arm it, makes sure that the queue is on the fallback thread's list, or
 *       that a leader looks after it.
 *
 *   I6  While a request of a queue is parked, a thread looks after the queue: a thread
 *       that sleeps in its epoll (lead.h, attend.h), or the fallback thread, which has
 *       the queue on its list or watches the queue's epoll. The thread that parks
 *       writes nr_parked, then reads keepers; the thread that stops looking after the
 *       queue writes keepers, then reads nr_parked. Each bit of keepers stands for one
 *       such thread or list.
 *
 *   I7  Requests are tried only with calls that do not block. If a file knows no such
 *       call, its requests are handed to a worker when the file is ready, one request
 *       of a wait queue at a time.
 *
 *   I8  A request that is being tried is in the state TRIED, and stays in its wait
 *       queue. A thread that cancels the request meanwhile is notified of the outcome
 *       (waits.h).
 *
 *   I9  The library leaves most file descriptors to the program. If its own would
 *       exceed its share, a queue gets no epoll. Requests of such a queue are watched,
 *       counted and run in its home, the commons: one epoll shared by all queues
 *       without one. No waiter leads in the commons, so the fallback thread looks after
 *       it. A queue has one home from the time when a request is first parked in it.
 *
 *   I10 A multishot poll has a completion for each edge of its own watch, and stays
 *       parked. Only edges make it complete: no thread polls the file for it, except to
 *       find what an edge was about. To learn what is ready at first, the thread that
 *       parks the poll arms the file again, under a new generation of the watch. The
 *       epoll then reports what is ready; events of the old generation are void. If
 *       several edges come before a thread has acted on the last, they may share one
 *       completion, as in the kernel. Sometimes the epoll cannot report: it refuses the
 *       file, or does not have it yet, or the file may be ready for one thread only.
 *       Then the poll is tried like other polls, and ends with its first completion;
 *       the client submits it again, which polls the file again. Known deviation: if
 *       the watch is armed for other events, or for another multishot poll, or by
 *       another descriptor, the epoll reports once more what is still ready, so there
 *       is a completion without a new edge. An edge that a thread has taken, and not
 *       acted on, is void if another multishot poll is parked just then. As arming
 *       again reports what is still ready, such an edge has no completion only if its
 *       data was read meanwhile.
 *
 *   I11 Any other poll queries its file by poll() when it is run, with one exception:
 *       it has queried before, it is run because of edges only, and no epoll that
 *       reported an edge said that the awaited events were there, though the epoll was
 *       armed for them. Each edge that a thread takes is noted in the file before the
 *       polls are run for it, and stays noted until they are, even if another edge is
 *       noted after it: threads may note edges in another order than they take them. If
 *       an edge may be lost, the poll queries its file (UAIO_WAITQS_ASK). It also does
 *       if the thread that notes the edge is not the thread that last queried the file
 *       for the poll: the edge may have been taken before that query, and its data read
 *       in between.
 *
 *   I12 A multishot receive that got less from a plain TCP socket than its buffer holds
 *       (UAIO_REST_NO_BYTES), and did not stop at an urgent mark, is not tried again
 *       before the next edge. This is safe only while the epoll also watches for the
 *       end of the stream, has not reported that end, and no edge may be lost
 *       (told_of_more). Then the socket held only bytes when the epoll reported the
 *       last edge, and the receive took them all. Whatever arrives after that edge
 *       makes another edge.
 *
 * test/model/ready.pml is a model of I1 to I6. Comments in the code name its steps, as
 * [step: ...]. Often two threads each write first and then read what the other wrote.
 * If one of the two omits its read, the model loses a request. The list below has the
 * model's faults (ready.py) that omit such a read, and the tests in which both threads
 * of the code meet:
 *
 *   I3  The submitter reads the number of edges, tries, and compares under the file's
 *       lock: EDGES_NOT_COMPARED.
 *
 *   I4  A leader says that it leads, then arms; a submitter parks, then looks for a
 *       leader: SLEEPS_UNARMED; test-ready-served.c. The fallback thread does as a
 *       leader does: NO_LOOK_FOR_AN_ADOPTER. It keeps a queue on its list if its last
 *       look put a file in doubt, or left one unarmed: SERVE_FORGETS_DOUBTS,
 *       SERVE_FORGETS_TO_ARM; test-ready-alone.c.
 *
 *   I5  If a leader leaves a file kicked, in doubt or unarmed, the fallback thread
 *       keeps the queue on its list, though it has adopted the queue:
 *       KICKED_LEFT_BY_THE_LIST, DOUBT_LEFT_BY_THE_LIST; test-ready-left.c. That test
 *       also has two cases that take the model too many steps. A caller that has run
 *       the list, or could not arm, looks whether a thread sleeps and counts on armed
 *       files. A waiter that was woken may leave, so no thread relies on it. In both
 *       cases the look comes after the file was put on a list, under the lock under
 *       which the sleeping thread has looked before it sleeps.
 *
 *   I6  A thread that parks counts, then looks: LOOKS_BEFORE_IT_COUNTS. A thread that
 *       lets a queue go afterwards looks whether a request is counted:
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
 * Which thread runs parked requests. A caller keeps the queue alive by a pin, the
 * fallback thread by nr_served.
 */
enum uaio_runner {
	UAIO_RUN_BY_CALLER,
	UAIO_RUN_BY_LEADER, /* a caller; it sleeps in the epoll next */
	UAIO_RUN_BY_FALLBACK,
};

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_ready_init(void);
/* Called at the beginning and at the end of each generation (use) of a queue. */
void uaio_ready_init_group(struct uaio_group *group);
void uaio_ready_fini_group(struct uaio_group *group);

/*
 * Count a request that is about to be parked, and make sure that a thread looks after
 * it from now on. uaio_ready_unexpect() undoes the count if the request is not parked
 * after all.
 * Return: 0, or -EAGAIN if only the fallback thread could look after it, and cannot be
 * started.
 */
int uaio_ready_expect(struct uaio_group *group);

/*
 * uaio_ready_expect() for an existing request; also finds or makes the watch of its
 * file.
 */
int uaio_ready_expect_req(struct uaio_req *req);
void uaio_ready_unexpect(struct uaio_group *group);

/*
 * The caller has submitted native requests (executed by the kernel itself) of group, or
 * is about to; they are expected already. Make sure that a thread that sleeps there
 * looks after them. If none sleeps there, the client's own thread may come back soon;
 * but for a request submitted by a worker, the fallback thread looks after it at once.
 */
void uaio_ready_native_submitted(struct uaio_group *group, bool by_worker);
/*
 * Complete the native requests of group that the kernel has executed. The caller is a
 * thread of the client, and keeps the group alive.
 * Return: how many.
 */
unsigned uaio_ready_take_native(struct uaio_group *group);

/*
 * Return: the group in which requests of this group are watched and counted while
 * parked: the group itself, or the commons (commons.c), which is never destroyed.
 */
static inline struct uaio_group *uaio_ready_home(const struct uaio_ready *ready)
{
	/* relaxed: either home existed before any request was parked */
	return load_relaxed(&ready->home);
}

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_commons_init(void);
/* Choose the home of group, before the first request is parked in it (commons.c). */
void uaio_commons_settle(struct uaio_group *group);
bool uaio_is_commons(const struct uaio_group *group);

/*
 * Return: the watch of group on file, to which the caller has a reference; NULL if
 * there is no memory.
 */
struct uaio_watch *uaio_watch_get(struct uaio_group *group,
				  struct uaio_file *file);

/*
 * Park an expected request, which is PREPPED, RUNNING or HELD (from), until its file is
 * ready; a request without a file, until it expires. The caller has pinned the group or
 * holds its lock, and afterwards calls uaio_ready_submitted() or uaio_ready_announce().
 * Return: false if the queue is being closed: the request still belongs to the caller,
 * in the same state, and is no longer expected.
 */
bool uaio_ready_park(struct uaio_req *req, enum uaio_req_state from);

/*
 * The caller has parked requests. Run what is kicked. If a thread sleeps in the epoll,
 * arm the files; if threads sleep elsewhere only, have one of them lead. has_multishot:
 * there are multishot polls among the requests, so take the events that the epoll has
 * for their files.
 */
void uaio_ready_submitted(struct uaio_group *group, bool has_multishot);
/* uaio_ready_submitted() for a thread that may lead itself: it runs nothing. */
void uaio_ready_announce(struct uaio_group *group);

/*
 * Complete timers that are due (timer.h), and try requests of this queue that may be
 * ready: those kicked, and those of a few files on which a request was parked since any
 * thread looked, the newest first. Bounded. Does nothing if another thread is running
 * the list.
 * Return: whether a kicked file is left. With UAIO_RUN_BY_CALLER that is passed on to
 * another thread already.
 */
bool uaio_ready_run(struct uaio_group *group, enum uaio_runner by);

/* uaio_ready_run() that begins with the files of nr events of the group's epoll. */
bool uaio_ready_run_events(struct uaio_group *group, enum uaio_runner by,
			   const struct epoll_event *events, int nr);

/*
 * uaio_ready_run_events() with the events that the epoll has now; does not wait.
 * Return: as uaio_ready_run(); also true if the epoll may have more events.
 */
bool uaio_ready_look(struct uaio_group *group, enum uaio_runner by);

/*
 * Arm all files on which requests are parked.
 * Return: as uaio_ready_is_armed(). If false, the caller must look again after a while.
 */
bool uaio_ready_arm(struct uaio_group *group);

/*
 * uaio_ready_arm() on behalf of another thread, which sleeps in the epoll. If some
 * files cannot be armed, nudge the fallback thread; files to be run first are passed
 * on.
 */
void uaio_ready_arm_beside(struct uaio_group *group);

/*
 * Arm only files on which no request was parked since the last call of this function:
 * callers come by and try the other files all the time.
 */
void uaio_ready_arm_stale(struct uaio_group *group);

/* Return: whether all files with parked requests are armed, and none is in doubt. */
bool uaio_ready_is_armed(struct uaio_ready *ready);

/*
 * Return: whether a thread may sleep without any preparation: nothing is kicked, in
 * doubt or unarmed, and no file has to be kicked for each sleep.
 */
bool uaio_ready_is_at_rest(struct uaio_ready *ready);

/* Return: whether a file is kicked and no thread is running the list. */
bool uaio_ready_has_kicked(struct uaio_ready *ready);

/*
 * Kick the files that the epoll refuses, that are in doubt, or that are not armed: no
 * edge would report that they are ready.
 */
void uaio_ready_kick_refused(struct uaio_group *group);

/*
 * Kick all files: a thread that took events from the epoll may not have come back to
 * act on them.
 */
void uaio_ready_kick_all(struct uaio_group *group);

/* Kick the wait queues to which these events of the group's epoll belong. */
void uaio_ready_kick_events(struct uaio_group *group,
			    const struct epoll_event *events, int nr);

/*
 * A worker had a request together with its wait queue, and the request's call has
 * returned: kick the wait queue for the next request.
 */
void uaio_ready_returned(struct uaio_req *req);

/*
 * A completion is about to make a file ready that may be in an epoll, such as a ring of
 * io_uring. As in the kernel, a multishot poll of an epoll then ends with its next
 * completion. Otherwise, if the poll belongs to that same ring, each completion would
 * cause another.
 */
void uaio_ready_note_nested(void);

/* Two functions of struct uaio_file_ops. */
void uaio_watches_move_locked(struct uaio_file *file, int old);
void uaio_watches_drop(struct uaio_file *file);

/*
 * fallback.c: the thread that looks after requests if no thread of the client waits or
 * submits
 */
void uaio_fallback_init(void);
/*
 * Open the descriptors that the fallback thread needs, while some are left: without
 * them no request can wait. If that fails, the thread tries again when it is started.
 */
void uaio_fallback_reserve(void);

/* Start the fallback thread. Return: 0, or -EAGAIN if it cannot be started. */
int uaio_fallback_start(void);
/*
 * Put group, which is its own home or the commons, on the fallback thread's list: the
 * thread looks at it after a while. Return: as uaio_fallback_start().
 */
int uaio_fallback_list(struct uaio_group *group);
/*
 * Wake the fallback thread, which looks after group: the first timer of group is now
 * due sooner than before (timer.h).
 */
void uaio_fallback_hurry(struct uaio_group *group);
/*
 * uaio_fallback_list(), but the thread looks at once. For a request that is parked
 * already: if the thread cannot be started now, it finds the group once it is started.
 */
void uaio_fallback_nudge(struct uaio_group *group);
/* The group goes away: wait until the fallback thread no longer uses it. */
void uaio_fallback_forget(struct uaio_group *group);

/*
 * Only tests and benchmarks count what readiness does, and tune it: in normal use all
 * threads that park requests would write these shared counters.
 */
#if defined(UAIO_TESTING) || defined(UAIO_BENCH)
#define UAIO_READY_IS_MEASURED
#endif

/*
 * Which thread runs parked requests, and when. Set when the engine is up and no request
 * was parked yet.
 */
struct uaio_ready_tuning {
	/* waiting threads run them; else only the fallback thread */
	bool caller_runs;
	/* the fallback thread comes late, so that callers come first */
	bool delays_kick;
};

bool uaio_ready_callers_run(void);

struct uaio_ready_counters {
	uint64_t nr_parked;    /* requests that were parked */
	uint64_t nr_by_caller; /* of these, completed by callers */
	/* of these, completed by the fallback thread */
	uint64_t nr_by_fallback;
	uint64_t nr_fallback_wakes; /* how often the fallback thread woke up */
	uint64_t nr_tries;          /* successful or not */
	uint64_t nr_sleeps;         /* sleeps of callers in an epoll */
	uint64_t nr_events;         /* events taken from an epoll */
	uint64_t nr_arms;           /* calls of epoll_ctl() for files */
};

#ifdef UAIO_READY_IS_MEASURED
void uaio_ready_tune(const struct uaio_ready_tuning *tuning);
void uaio_ready_count(struct uaio_ready_counters *ret);
#endif
void uaio_ready_count_sleep(void);

#endif /* UAIO_READY_READY_H */
