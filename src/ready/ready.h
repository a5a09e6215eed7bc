/* SPDX-License-Identifier: MIT */
/*
 * Readiness: requests that wait until their file is ready
 *
 * A request is parked if it cannot be executed when it is submitted, because its file is
 * not ready. Two kinds of threads of the program try parked requests again. Some wait for
 * events of the queue (a context or ring of the client). Others submit to the queue while
 * one of its files is kicked (see below). One of the threads that sleep for a queue's
 * events is the leader. It sleeps in the queue's epoll, and executes the requests whose
 * files become ready (lead.h). The fallback thread (fallback.c) tries parked requests only
 * if no thread of the program does.
 *
 * Words: a wait queue is the list of a file's parked requests for one direction. A
 * watch connects a queue and a file; it is armed while the queue's epoll has the file.
 * An edge is an event that the edge-triggered epoll reports. To kick a wait queue is to
 * note that its requests must be tried; to run it is to try them. A file is in doubt if
 * it polls ready while calls on it fail with EAGAIN.
 *
 *   I1  Requests parked on an open file are in the file's wait queues, under its lock.
 *       There are four: for reads, for writes, for reads of errors (MSG_ERRQUEUE), and
 *       for polls. One thread at a time runs a wait queue (is_running). It tries the
 *       oldest request first, and the next one only when that is done. So no request
 *       overtakes another, and no two threads try the same request. Polls consume
 *       nothing, so all polls of a file are tried. After some completions in a row a
 *       multishot request waits until the other kicked files have been run
 *       (uaio_sqe_ends_turn()).
 *
 *   I2  A watch is made for the first request of its queue on its file, and exists
 *       until the queue or the file is closed. The epoll of the queue has the file at
 *       most once, edge-triggered. A thread adds the file (arms the watch) when the epoll
 *       is first needed for it.
 *
 *   I3  No edge is lost. An edge kicks the wait queues: it puts their watch on the
 *       queue's list of watches to be run. If the thread that reads the edge from the
 *       epoll also runs the list, it runs these wait queues at once, unless their watch
 *       is already on one of the queue's lists (kick.c). A wait queue that is being run
 *       when its edge comes is tried once more. If an edge comes after a request was
 *       tried, and before the request is parked, the number of edges has changed. So
 *       the request is tried again.
 *
 *   I4  Before a thread sleeps in a queue's epoll, it adds all files with parked
 *       requests to the epoll. If a request is parked while a thread sleeps there, the
 *       parking thread adds the file. Before the sleep, the thread also tries requests
 *       that were not tried yet because the client wanted a worker for them
 *       (IOSQE_ASYNC). The epoll may never report anything for such a request, if it
 *       would fail, or would succeed although the file is not ready.
 *
 *   I5  One thread at a time runs a queue's list of kicked watches; other threads skip
 *       the list. Before the running thread releases the list, it checks the list once
 *       more, under the lock. The number of tries in one run is limited. Watches that are
 *       left over are passed on to a thread that sleeps.
 *
 *       A caller is a thread of the program that runs a list and does not sleep next.
 *       If another thread sleeps in the epoll, the caller adds the files that it has
 *       run to the epoll. This is necessary because the sleeping thread may have left
 *       out files that were still kicked. A caller that puts a wait queue in doubt, or
 *       cannot add its file to the epoll, makes sure that a leader or the fallback
 *       thread serves the queue.
 *
 *   I6  While a request of a queue is parked, some thread serves the queue. Either a
 *       thread sleeps in the queue's epoll (lead.h, attend.h); or the fallback thread
 *       has the queue on its list, or watches the queue's epoll. Each bit of keepers
 *       stands for one such thread or list. A thread that parks writes nr_parked, then
 *       reads keepers. A thread that stops serving writes keepers, then reads
 *       nr_parked.
 *
 *   I7  Requests are tried only with calls that do not block. If a file has no such call,
 *       workers execute its requests when the file is ready, one request of each wait
 *       queue at a time.
 *
 *   I8  A request that is being tried is in the state TRIED, and stays in its wait
 *       queue. A thread that cancels the request meanwhile learns the outcome when the
 *       try ends (waits.h).
 *
 *   I9  The library leaves most file descriptors to the program. A queue whose
 *       descriptors would exceed the library's share gets no epoll. The commons is one
 *       epoll for all such queues: there their requests are watched, counted and run.
 *       No waiter leads in the commons, so the fallback thread serves it. The home of a
 *       queue is the queue itself or the commons; it is chosen when a request is first
 *       parked in the queue, and never changes.
 *
 *   I10 A multishot poll posts a completion for each edge of its own watch, and stays
 *       parked. No thread calls poll() for it, except to find out which events an edge
 *       has reported. To report what is ready at first, the thread that parks the poll
 *       adds the file to the epoll again, under a new generation of the watch. Events
 *       of the old generation are ignored. Several edges that come before a thread acts
 *       on the last of them may share one completion, as in the kernel.
 *
 *       For some files the epoll cannot serve a multishot poll. The epoll refuses such a
 *       file or does not have it, or the file may be ready for one thread only. Then the
 *       poll is tried like other polls, and ends with its first completion; the client
 *       submits it again.
 *
 *       Known deviation of multishot polls: when a file is added again, the epoll
 *       reports once more what is still ready, so there is a completion without a new
 *       edge. This happens if the file is added for other events, for another multishot
 *       poll, or by another descriptor. Suppose that another multishot poll is
 *       parked after a thread has read an edge from the epoll, but before it acts on
 *       the edge. Then the edge is ignored. But the file is added again, so the epoll
 *       reports again what is still ready. The client misses the edge only if the data
 *       that caused it was read meanwhile.
 *
 *   I11 A one-shot poll calls poll() on its file whenever it is run, with two
 *       exceptions. Both require that there was an edge since the last call of poll()
 *       for it. First: the latest edge reports an awaited event, and at that edge the
 *       epoll watched for all awaited events. Then the poll completes with the event.
 *       Second: no edge since the last call of poll() reports an awaited event, and at
 *       each of these edges the epoll watched for all awaited events. Then the poll
 *       goes on waiting.
 *
 *       A thread stores each edge in the file before it runs the file's polls for this
 *       edge. The edge stays stored until the polls are run, even if another edge
 *       follows. The reason is that two threads may store their edges in another order
 *       than the epoll reported them. If an edge may be lost, a one-shot poll calls
 *       poll() instead of going on waiting (UAIO_WAITQS_ASK). An edge completes the
 *       poll without a call of poll() only if the thread that stored the edge also made
 *       the poll's last call. Otherwise the edge may be older than that call of poll(),
 *       and its data may have been read in between.
 *
 *   I12 A multishot receive on a plain TCP socket may get less than its buffer holds
 *       (UAIO_REST_NO_BYTES), without stopping at an urgent mark. It is then not tried
 *       again before the next edge. This is safe only while the epoll also watches for
 *       the end of the stream and has not reported it, and no edge can have been lost
 *       (else told_of_more of struct uaio_file is set). Then the socket held only bytes
 *       at the last edge, and the receive took them all. Later data make another edge.
 *
 * test/model/ready.pml is a model of I1 to I6; [step: ...] in comments of the code
 * names its steps. In most of these steps two threads each write first, and then read
 * what the other wrote. If one omits its read, the model loses a request. The list
 * below names the faults of the model (in ready.py) that omit such a read, and the
 * tests that run both threads of the code:
 *
 *   I3  The submitter reads the number of edges, tries the request, then compares that
 *       number under the file's lock (fault: EDGES_NOT_COMPARED).
 *
 *   I4  A leader sets UAIO_LEADER, then adds files to the epoll; a submitter parks, then
 *       looks for a leader (fault: SLEEPS_UNARMED; test-ready-served.c). The fallback
 *       thread sets UAIO_ADOPTER, then adds files; a submitter looks for this bit, too
 *       (fault: NO_LOOK_FOR_AN_ADOPTER). If the fallback thread's last tries put a file
 *       in doubt, or left one out of the epoll, it keeps the queue on its list (faults:
 *       SERVE_FORGETS_DOUBTS, SERVE_FORGETS_TO_ARM; test-ready-alone.c).
 *
 *   I5  A leader may leave a file kicked, in doubt, or out of the epoll. Then the
 *       fallback thread keeps the queue on its list, even if it has adopted the queue
 *       (faults: KICKED_LEFT_BY_THE_LIST, DOUBT_LEFT_BY_THE_LIST; test-ready-left.c).
 *       test-ready-left.c also has two cases for which the model would need too many
 *       steps. In the first, a caller has run the list, or could not add a file to the
 *       epoll. The caller then checks for a thread that sleeps in the epoll, because
 *       that thread relies on the epoll's events. In the second, a caller wakes a
 *       waiter. As the waiter may leave without looking at the files, the fallback
 *       thread must look, too. In both cases the caller first puts the file on a list,
 *       and then checks. A thread that is about to sleep looks at the lists under the
 *       same lock.
 *
 *   I6  A thread that parks first counts the request, then reads who serves the queue
 *       (fault: LOOKS_BEFORE_IT_COUNTS). A thread that stops serving a queue then checks
 *       whether a request is counted (faults: UNLISTED_WITHOUT_A_LOOK,
 *       DISOWNED_WITHOUT_A_LOOK).
 *
 * test/model/park.pml is a model of how one request is parked while another thread
 * cancels it or closes the queue.
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
 * The kind of thread that runs parked requests. For a thread of the program, a pin
 * (nr_pins) keeps the queue alive; for the fallback thread, nr_served does.
 */
enum uaio_runner {
	UAIO_RUN_BY_CALLER,
	/* a thread of the program that sleeps in the epoll next */
	UAIO_RUN_BY_LEADER,
	UAIO_RUN_BY_FALLBACK,
};

/*
 * Called each time the engine starts, also in a child of fork(): resets the whole
 * state.
 */
void uaio_ready_init(void);
/* Called at the beginning and at the end of each generation (use) of a queue. */
void uaio_ready_init_group(struct uaio_group *group);
void uaio_ready_fini_group(struct uaio_group *group);

/*
 * Count a request that is about to be parked. From now on some thread serves the queue,
 * so call uaio_ready_unexpect() if the request is not parked after all.
 * Return: 0, or -EAGAIN if only the fallback thread could serve the queue, and cannot
 * be started.
 */
int uaio_ready_expect(struct uaio_group *group);

/*
 * Call uaio_ready_expect() for a request that exists already, and find or make the
 * watch of the request's file.
 */
int uaio_ready_expect_req(struct uaio_req *req);
void uaio_ready_unexpect(struct uaio_group *group);

/*
 * The caller has submitted native requests (executed by the kernel itself) of group, or is
 * about to. It has already counted them as parked. Make sure that a thread which sleeps
 * for the group's events completes them. If no thread sleeps, leave them to the client,
 * which probably soon calls the library; but if by_worker is set, wake the fallback thread
 * at once.
 */
void uaio_ready_native_submitted(struct uaio_group *group, bool by_worker);
/*
 * Complete the native requests of group that the kernel has finished. The caller is a
 * thread of the client, and keeps the group alive.
 * Return: how many requests the kernel has finished or given back.
 */
unsigned uaio_ready_take_native(struct uaio_group *group);

/*
 * Return: the home of the group's parked requests. The home counts these requests, and
 * its epoll watches their files. It is the group itself or the commons (commons.c),
 * which is never destroyed.
 */
static inline struct uaio_group *uaio_ready_home(const struct uaio_ready *ready)
{
	/*
	 * relaxed: the caller needs only the pointer, because both possible homes were
	 * complete before any request was parked
	 */
	return load_relaxed(&ready->home);
}

/*
 * Called each time the engine starts, also in a child of fork(): resets the whole
 * state.
 */
void uaio_commons_init(void);
/* Choose the home of group, before the first request is parked in it (commons.c). */
void uaio_commons_settle(struct uaio_group *group);
bool uaio_is_commons(const struct uaio_group *group);

/*
 * Return: the watch that connects group with file, made if there was none; NULL if
 * there is no memory. The caller has a reference to file.
 */
struct uaio_watch *uaio_watch_get(struct uaio_group *group,
				  struct uaio_file *file);

/*
 * Park a request until its file is ready; a request without a file, until it expires.
 * The caller has called uaio_ready_expect(), and has pinned the group or holds its
 * lock. from: the request's state until now (PREPPED, RUNNING or HELD). Afterwards call
 * uaio_ready_submitted() or uaio_ready_announce().
 * Return: false if the queue is being closed: the request still belongs to the caller,
 * in the same state, and uaio_ready_unexpect() was called for it.
 */
bool uaio_ready_park(struct uaio_req *req, enum uaio_req_state from);

/*
 * Call this function after parking requests: it runs kicked files. If a thread sleeps
 * in the epoll, the function adds the requests' files to the epoll. If no thread sleeps
 * in the epoll, but threads wait for the queue's events, one of these threads becomes
 * the leader. has_multishot: some of the requests are multishot polls, so also act on
 * events that the epoll has now.
 */
void uaio_ready_submitted(struct uaio_group *group, bool has_multishot);
/*
 * Like uaio_ready_submitted(), but execute no request. Called by a thread that may
 * become the leader next.
 */
void uaio_ready_announce(struct uaio_group *group);

/*
 * Complete timers that are due (timer.h). Then try requests that may be ready: first
 * requests on kicked files, then requests on a few files of the list `fresh`, the
 * newest first. (A file is on `fresh` if a request was parked on it, and no thread has
 * looked at the file since.) The number of tries is limited. If another thread is
 * running the list of kicked files, only complete timers and native requests.
 * Return: whether a kicked file is left. If so, and `by` is UAIO_RUN_BY_CALLER, this
 * function has made another thread try that file's requests.
 */
bool uaio_ready_run(struct uaio_group *group, enum uaio_runner by);

/*
 * Like uaio_ready_run(), but first run the files of these nr events, which the group's
 * epoll has reported.
 */
bool uaio_ready_run_events(struct uaio_group *group, enum uaio_runner by,
			   const struct epoll_event *events, int nr);

/*
 * Call uaio_ready_run_events() with the events that the epoll has now; do not wait for
 * any.
 * Return: whether a kicked file is left (uaio_ready_run()), or the epoll may have more
 * events.
 */
bool uaio_ready_look(struct uaio_group *group, enum uaio_runner by);

/*
 * Add to the epoll all files on which requests are parked.
 * Return: whether the epoll reports all these files. If false, the caller must later
 * try again the files that the epoll does not report.
 */
bool uaio_ready_arm(struct uaio_group *group);

/*
 * Call uaio_ready_arm() on behalf of another thread, which sleeps in the epoll. If the
 * epoll does not report some files, the fallback thread tries them. Kicked files are
 * passed on to the thread that sleeps.
 */
void uaio_ready_arm_beside(struct uaio_group *group);

/*
 * Add to the epoll the files whose parked requests are all older than the last call of
 * this function. Leave out files with newer requests, because threads of the program
 * often try such requests without the epoll.
 */
void uaio_ready_arm_stale(struct uaio_group *group);

/*
 * Return: whether the epoll reports all files with parked requests: it has them all,
 * and none is in doubt.
 */
bool uaio_ready_is_armed(struct uaio_ready *ready);

/*
 * Return: whether a thread may sleep in the epoll at once. No file is kicked, in doubt
 * or missing in the epoll; and there are no files that must be kicked before each sleep
 * (uaio_ready_kick_personal()).
 */
bool uaio_ready_is_at_rest(struct uaio_ready *ready);

/*
 * Return: whether a file is kicked (its requests must be tried), and no thread is
 * running the list of kicked files.
 */
bool uaio_ready_has_kicked(struct uaio_ready *ready);

/*
 * Kick the files that the epoll refuses, or does not have, or that are in doubt. Their
 * requests must be tried, since the epoll may never report these files.
 */
void uaio_ready_kick_refused(struct uaio_group *group);

/*
 * Kick all files: a thread has taken events from the epoll, and perhaps never acts on
 * them.
 */
void uaio_ready_kick_all(struct uaio_group *group);

/*
 * The group's epoll has reported these events: kick the wait queues that they concern.
 */
void uaio_ready_kick_events(struct uaio_group *group,
			    const struct epoll_event *events, int nr);

/*
 * A worker's call for a parked request has returned. The worker also owned the
 * request's wait queue: kick that wait queue, so that a thread tries the next request.
 */
void uaio_ready_returned(struct uaio_req *req);

/*
 * A completion may make a file ready, for example the ring that gets it. If that file
 * may be in an epoll, call this before posting the completion. As in the kernel, a
 * multishot poll of an epoll then ends with its next completion. Without this, a poll
 * of an epoll that contains the poll's own ring would never stop: each completion would
 * cause another.
 */
void uaio_ready_note_nested(void);

/* The two functions of struct uaio_file_ops that this module implements */
void uaio_watches_move_locked(struct uaio_file *file, int old);
void uaio_watches_drop(struct uaio_file *file);

/*
 * fallback.c: the thread that serves parked requests while no thread of the program
 * waits or submits
 */
void uaio_fallback_init(void);
/*
 * Open the descriptors that the fallback thread needs, while descriptors are available:
 * without that thread no request can be parked. If this fails, uaio_fallback_start()
 * tries again.
 */
void uaio_fallback_reserve(void);

/* Start the fallback thread. Return: 0, or -EAGAIN if it cannot be started. */
int uaio_fallback_start(void);
/*
 * Put group (a queue that is its own home, or the commons) on the fallback thread's
 * list. That thread looks at the group after a while.
 * Return: 0, or -EAGAIN if the fallback thread cannot be started.
 */
int uaio_fallback_list(struct uaio_group *group);
/*
 * The first timer of group, which the fallback thread serves, is due sooner than before
 * (timer.h): wake the thread if it would sleep too long.
 */
void uaio_fallback_hurry(struct uaio_group *group);
/*
 * Like uaio_fallback_list(), but the thread looks at once. Called for a request that is
 * already parked. If the thread cannot be started now, it finds the group when it is
 * started later.
 */
void uaio_fallback_nudge(struct uaio_group *group);
/*
 * The queue of group is being closed: wait until the fallback thread no longer uses it.
 */
void uaio_fallback_forget(struct uaio_group *group);

/*
 * Only tests and benchmarks count and tune what this module does. In normal use
 * counting would cost time, because threads that park requests would all write the same
 * counters.
 */
#if defined(UAIO_TESTING) || defined(UAIO_BENCH)
#define UAIO_READY_IS_MEASURED
#endif

/*
 * Which thread runs parked requests, and when. Tests set this after the engine has
 * started, before any request is parked.
 */
struct uaio_ready_tuning {
	/*
	 * Threads of the program run parked requests while they wait. If false, only
	 * the fallback thread runs parked requests.
	 */
	bool caller_runs;
	/*
	 * the fallback thread looks at a queue only after a while, so that threads of
	 * the program come first
	 */
	bool delays_kick;
};

bool uaio_ready_callers_run(void);

struct uaio_ready_counters {
	/* requests that were parked (waited for a file) */
	uint64_t nr_parked;
	/* of nr_parked: completed by threads of the program */
	uint64_t nr_by_caller;
	/* of nr_parked: completed by the fallback thread */
	uint64_t nr_by_fallback;
	uint64_t nr_fallback_wakes; /* how often the fallback thread woke up */
	uint64_t nr_tries;          /* successful or not */
	/* how often threads of the program slept in an epoll */
	uint64_t nr_sleeps;
	uint64_t nr_events; /* events taken from an epoll */
	uint64_t nr_arms;   /* calls of epoll_ctl() for files */
};

#ifdef UAIO_READY_IS_MEASURED
void uaio_ready_tune(const struct uaio_ready_tuning *tuning);
void uaio_ready_count(struct uaio_ready_counters *ret);
#endif
void uaio_ready_count_sleep(void);

#endif /* UAIO_READY_READY_H */
