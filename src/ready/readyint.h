/* SPDX-License-Identifier: MIT */
/*
 * Readiness, inside: what the files of this module share. ready.c (wait queues), run.c
 * and try.c (trying), done.c (completing together), watch.c (the epoll), kick.c
 * (lists), edge.c (edges), natives.c (requests that the kernel executes), timer.c
 * (times), commons.c, fallback.c and care.c. Only these files include this header. The
 * words are explained in ready.h.
 */
#ifndef UAIO_READY_READYINT_H
#define UAIO_READY_READYINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "file/file.h"
#include "op/sock.h"
#include "req/queue.h"
#include "req/req.h"
#include "ready/ready.h"

struct epoll_event;

/*
 * A bit beside those of the wait queues: polls are run not only because of events that
 * the epoll has reported since they last ran, so they must query their file.
 */
enum { UAIO_WAITQS_ASK = 1u << UAIO_NR_WAITQS };

/* The events for which a stream socket is armed if requests read from it */
#define UAIO_EVENTS_OF_STREAM (EPOLLIN | EPOLLRDHUP)
/* Events after which a short receive may have left something in the socket */
#define UAIO_EVENTS_OF_MORE (EPOLLRDHUP | EPOLLERR | EPOLLHUP)

/*
 * How long the fallback thread sleeps if nothing has to be tried; also how often it
 * takes completions of native requests for clients that do not call.
 */
#define UAIO_FALLBACK_IDLE_NS INT64_C(5000000000)

/* Which list of struct uaio_ready (queue.h) a watch is on. */
enum uaio_watch_place {
	UAIO_WATCH_IDLE,
	UAIO_WATCH_KICKED,
	UAIO_WATCH_FRESH,
	UAIO_WATCH_UNARMED,
	UAIO_WATCH_REFUSED,
};

struct uaio_watch {
	struct uaio_slab_node node;

	struct uaio_file *file;   /* atomic; borrows: ends with the file */
	struct uaio_group *group; /* atomic; borrows: ends with the group */
	/* atomic: counts the uses of this memory (watch.c) */
	uint32_t generation;

	/* under the file's lock */
	struct list in_file;
	/* EPOLL*: for what it is armed; 0: not in the epoll */
	uint32_t armed;
	uint32_t nr_edges; /* atomic: edges that the epoll has reported */
	/* uaio_watch_edges() when file->told was written for this watch */
	uint32_t nr_told;
	/* how often the file was added to the epoll; never 0 */
	uint32_t nr_adds;
	uint32_t nr_sure; /* nr_adds when surely this file; or 0 */
	/* uaio_ready_nr_nested when a multishot poll was last parked */
	uint32_t nr_nested;

	/* under the lock of the group's struct uaio_ready */
	struct list in_group;
	struct list in_list; /* of place; if idle: personal, or none */
	uint32_t place;      /* atomic: enum uaio_watch_place */
	uint32_t waitqs;     /* wait queues to be run; UAIO_WAITQS_ASK */
	bool is_unarmed;     /* armed may lack events of parked requests */
	bool is_untried;     /* its edge may have come before the parking */
	/* atomic: edges that may have been reported beside nr_edges */
	uint32_t nr_lost;
	uint32_t nr_fresh;   /* how many requests were parked */
	uint32_t seen_fresh; /* nr_fresh at the last uaio_ready_arm_stale() */
};

extern uint32_t uaio_ready_nr_nested; /* atomic: uaio_ready_note_nested() */

#ifdef UAIO_READY_IS_MEASURED
extern struct uaio_ready_tuning uaio_ready_tuning;
extern struct uaio_ready_counters uaio_ready_counters; /* atomic, relaxed */

#define uaio_ready_add(counter, nr) add_relaxed(counter, nr)
#else
static const struct uaio_ready_tuning uaio_ready_tuning = {
	.caller_runs = true,
	.delays_kick = true,
};

#define uaio_ready_add(counter, nr) ((void)(nr))
#endif

static inline enum uaio_waitq_id uaio_waitq_id_of(const struct uaio_req *req)
{
	switch (uaio_optab[req->sqe.op].class) {
	case UAIO_CLASS_POLL: return UAIO_WAITQ_POLL;
	case UAIO_CLASS_WRITE: return UAIO_WAITQ_WRITE;
	default:
		return unlikely(uaio_sock_reads_errors(&req->sqe))
			       ? UAIO_WAITQ_ERRORS
			       : UAIO_WAITQ_READ;
	}
}

static inline bool uaio_is_multishot_poll(const struct uaio_req *req)
{
	return req->sqe.is_multishot &&
	       uaio_waitq_id_of(req) == UAIO_WAITQ_POLL;
}

/*
 * What a file's edges have reported when a pass over its polls begins (edge.c). A pass
 * tries each poll of the file once.
 */
struct uaio_told {
	/* nr_edges of the file at the beginning of the pass */
	uint32_t nr_edges;
	uint32_t after; /* nr_edges when the previous pass began */
	/*
	 * EPOLL*, of the edges between: events that any edge reported, and events for
	 * which the epoll was armed at every edge
	 */
	uint32_t by_any, of_by_all;
};

/* Begin a pass over the polls of a file, whose lock is held. */
void uaio_edge_take_locked(struct uaio_file *file, struct uaio_told *told);

/*
 * Return: the result of a poll that was waiting when the latest edge came, if that edge
 * answers the poll; else 0. This saves poll(): the epoll has queried the file for the
 * same events. The file's lock is held.
 */
int64_t uaio_edge_result_locked(const struct uaio_file *file,
				const struct uaio_req *req);

/*
 * Begin to try a poll that has one completion (not multishot). The file's lock is held.
 * Return: whether the poll waits on without a system call.
 */
bool uaio_edge_begin_poll_locked(const struct uaio_told *told,
				 struct uaio_req *req);

/*
 * Try req, which is TRIED, on fd. is_known: fd is known to be the request's file.
 * Return: as uaio_req_try(); WAIT_FILE also if only a call that may block could execute
 * the request, and it would block now.
 */
enum uaio_next uaio_ready_try(struct uaio_req *req, int fd, bool is_known,
			      int64_t *ret_res);

/*
 * Hand a RUNNING request to a worker, with its wait queue. The worker's call may block,
 * and a thread that closes the descriptor could not wait for it: so the call is never
 * made on the client's own descriptor, but on a duplicate. If the descriptor table is
 * full, req completes with -EAGAIN.
 */
void uaio_ready_hand_to_worker(struct uaio_req *req);

/* Return: EPOLL*: the events that req waits for. */
uint32_t uaio_ready_events_of(const struct uaio_req *req);

/*
 * Arm the watch of a multishot poll that is being parked, so that the epoll reports
 * what is ready now (I10). The file's lock is held.
 */
void uaio_watch_arm_anew_locked(struct uaio_req *req);

/* Return: the watch of group on file, whose lock is held; or NULL. */
struct uaio_watch *uaio_watch_find_locked(const struct uaio_group *group,
					  const struct uaio_file *file);

/*
 * Note that these wait queues of the watch must be run. is_armed: the epoll is armed
 * for the requests parked in them. The file's lock is held.
 */
void uaio_watch_kick(struct uaio_watch *watch, uint32_t waitqs, bool is_armed);
/*
 * uaio_watch_kick() because of an edge that is noted in the file, and for no other
 * reason.
 */
void uaio_watch_kick_told(struct uaio_watch *watch, uint32_t waitqs);

/*
 * A call has failed with EAGAIN.
 * Return: whether the file, queried by its descriptor fd, is ready all the same: then
 * no edge may come.
 */
bool uaio_ready_is_doubtful(const struct uaio_req *req, int fd);

/*
 * Put these wait queues in doubt (their file polls ready, but calls fail with EAGAIN):
 * they are tried again after a while. The file's lock is held.
 */
void uaio_watch_doubt(struct uaio_watch *watch, uint32_t waitqs);

/* Return: whether the epoll is armed for all of events. The file's lock is held. */
static inline bool uaio_watch_tells_locked(const struct uaio_watch *watch,
					   uint32_t events)
{
	return watch->armed && (watch->armed & events) == events;
}

/*
 * Return: whether EAGAIN from a call of the request proves that nothing was there, so
 * that whatever arrives next makes an edge. This is so for reads from a stream socket,
 * and for accepts.
 */
static inline bool uaio_ready_is_certain(const struct uaio_req *req)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];

	return op->is_of_socket && op->class == UAIO_CLASS_READ &&
	       req->file->flags & UAIO_FILE_F_SOCK_STREAM;
}

/*
 * Return: whether the file was armed before the request was tried, so that the epoll
 * may report nothing more: some files poll ready though a call would block. The file's
 * lock is held.
 */
static inline bool uaio_watch_may_not_tell_locked(const struct uaio_req *req)
{
	return !(req->file->flags & UAIO_FILE_F_CERTAIN) &&
	       !uaio_ready_is_certain(req) &&
	       uaio_watch_tells_locked(req->watch, uaio_ready_events_of(req));
}

/*
 * Return: nr_adds if the epoll has the open file that fd refers to now; 0 if not, or if
 * it may have other files by the same descriptor. The file's lock is held.
 *
 * Before each try the library checks whether a descriptor still refers to the file of a
 * watch (uaio_req_has_lost_file()). This function answers in 0.21 us; to query the file
 * itself takes 0.36 us. But the open file that was added to the epoll may itself have
 * been another one. So the file is queried once, and then uaio_watch_is_sure_locked()
 * is called with what this function returned before. As long as it returns nr_sure, the
 * descriptor refers to the file.
 */
uint32_t uaio_watch_has_locked(const struct uaio_watch *watch, int fd);

static inline void uaio_watch_is_sure_locked(struct uaio_watch *watch,
					     uint32_t nr_adds)
{
	if (unlikely(nr_adds && watch->nr_sure != nr_adds))
		watch->nr_sure = nr_adds;
}

/*
 * Kick a wait queue of file, whose lock is held, for the oldest request in it. The
 * fallback thread runs it, unless that request's home is the group that is running.
 */
void uaio_waitq_kick_locked(struct uaio_file *file, enum uaio_waitq_id id,
			    const struct uaio_group *runs);

/*
 * Note that requests were parked in these wait queues, and no thread has tried them
 * since. is_untried: they were not tried since the latest edge either, and the epoll
 * does not report that edge again.
 */
void uaio_watch_freshen(struct uaio_watch *watch, uint32_t waitqs,
			bool is_untried);

/*
 * Take the next watch to be run. with_fresh: also a watch on which a request was parked
 * since any thread looked; it is then put on the list of unarmed watches.
 * Return: the watch and the wait queues, or NULL if there is none. The watch may be
 * dropped as soon as the lock of ready is released.
 */
struct uaio_watch *uaio_watch_pop_locked(struct uaio_ready *ready,
					 bool with_fresh, uint32_t *ret_waitqs,
					 bool *ret_was_fresh);

/*
 * Lock the file of a watch that may have been dropped, without taking a reference: the
 * watch and the file exist while the lock is held. After the lock is released, the file
 * exists only as long as one of its requests.
 * Return: the file; NULL, without a lock, if group has no such watch any more.
 */
struct uaio_file *uaio_watch_lock_file(const struct uaio_watch *watch,
				       const struct uaio_group *group);

/*
 * Return: whether the watch is on no list, so that only an edge makes a thread run it.
 */
static inline bool uaio_watch_is_idle(const struct uaio_watch *watch)
{
	/*
	 * relaxed: if it is on a list, a thread runs it again from there, and finds
	 * less to do
	 */
	return load_relaxed(&watch->place) == UAIO_WATCH_IDLE;
}

/*
 * The epoll of group has reported event: note the edge in its file.
 * Return: that file, with its lock held; the watch, and which wait queues must be run
 * (perhaps none). NULL, without a lock: the event is void.
 */
struct uaio_file *uaio_edge_note(struct uaio_group *group,
				 const struct epoll_event *event,
				 struct uaio_watch **ret_watch,
				 uint32_t *ret_waitqs);

/*
 * Arm a watch for all requests that are parked on file, whose lock is held.
 * Return: 0, or -errno if the epoll cannot add the file now. A file that can never be
 * added is kicked: its requests find out why.
 */
int uaio_watch_arm_locked(struct uaio_watch *watch, struct uaio_file *file);

/*
 * Count out a request that is neither parked in the wait queue nor being tried any
 * more.
 */
static inline void uaio_waitq_leave_locked(struct uaio_waitq *waitq)
{
	/* relaxed: submitters read it without the lock, as a hint */
	store_relaxed(&waitq->nr, load_relaxed(&waitq->nr) - 1);
}

/*
 * Count out a request that leaves its wait queue: its home no longer counts it as
 * parked.
 */
static inline void uaio_waitq_count_out(struct uaio_waitq *waitq,
					struct uaio_req *req)
{
	uaio_waitq_leave_locked(waitq);
	uaio_ready_unexpect(req->group);
}

/*
 * Return: a number that changes with each edge that the epoll reported, or may have
 * reported.
 */
static inline uint32_t uaio_watch_edges(const struct uaio_watch *watch)
{
	/* relaxed: an edge that comes from here on kicks the wait queue */
	return load_relaxed(&watch->nr_edges) + load_relaxed(&watch->nr_lost);
}

/*
 * Kick the files that may be ready for the calling thread though they were not for
 * another (signalfd): the epoll queries such a file on behalf of the thread that sleeps
 * there.
 */
void uaio_ready_kick_personal(struct uaio_ready *ready);

/* Note that a thread of the client has completed requests. */
static inline void uaio_ready_note_attended(struct uaio_ready *ready)
{
	/* relaxed: only that the number changes matters */
	store_relaxed(&ready->nr_attended,
		      load_relaxed(&ready->nr_attended) + 1);
}

/*
 * Complete the requests of the group that the kernel has executed (natives.c).
 * Return: how many native requests the kernel was done with; *ret_nr: how many of them
 * were executed, as the kernel gives some back.
 */
unsigned uaio_natives_take(struct uaio_group *group, unsigned *ret_nr);

/*
 * At intervals (*looked_ns: the last time) complete what the kernel has executed for
 * any group (fallback.c, I5).
 * Return: whether the kernel has requests; had_some if it is not time to look yet.
 */
bool uaio_natives_look(int64_t *looked_ns, bool had_some);

/* Convert between a watch and the data of its events in the epoll. */
uint64_t uaio_watch_data(const struct uaio_watch *watch);
struct uaio_watch *uaio_watch_of_data(uint64_t data);
/* Remove the file, by its descriptor fd, from the epoll. The file's lock is held. */
void uaio_watch_disarm_locked(struct uaio_watch *watch, int fd);

/* watch.c */
void uaio_watches_init(void);
/* Drop the watches of a group that is closed, and has no requests left. */
void uaio_watches_leave(struct uaio_group *group);

/* care.c: what the fallback thread does for one queue; only fallback.c calls it */

/* How much a queue on the list needs the fallback thread, in rising order */
enum uaio_care {
	UAIO_CARE_LEAVE,  /* not at all: it need not be on the list */
	UAIO_CARE_OTHERS, /* callers do what must be done */
	UAIO_CARE_OURS,
};

static inline struct uaio_group *uaio_care_group(struct uaio_ready *ready)
{
	return container_of(ready, struct uaio_group, ready);
}

/*
 * Return: whether callers have completed requests since the last look. False for the
 * commons, as callers of one queue do not serve the others. False also while workers
 * have requests with the kernel: callers may be in a sleep that began before these were
 * submitted.
 */
bool uaio_care_is_attended(struct uaio_ready *ready);

/*
 * Run what is ready, and arm.
 * Return: whether all is armed and nothing is left.
 */
bool uaio_care_serve(struct uaio_ready *ready);

/*
 * Adopt a queue: watch its epoll by the thread's own (fallback.c). Return: false if
 * that is not possible.
 */
typedef bool uaio_adopt_fn(struct uaio_ready *ready);

/*
 * Look at a queue that is on the list, and adopt it if no caller serves it. is_urgent:
 * run it even if callers serve it.
 */
enum uaio_care uaio_care_for(struct uaio_ready *ready, bool is_urgent,
			     uaio_adopt_fn *adopt);

/* done.c: receives that a run has executed, and completes together */

struct uaio_done {
	unsigned nr;
	unsigned nr_of_home; /* of these, counted in nr_parked of home */
	struct uaio_group *home;
	uint64_t files; /* one bit for each file (modulo 64) */
	struct uaio_req *reqs[UAIO_REQS_TOGETHER];
	int64_t results[UAIO_REQS_TOGETHER];
	int fds[UAIO_REQS_TOGETHER]; /* on which they were executed */
};

static inline void uaio_done_init(struct uaio_done *done,
				  struct uaio_group *home)
{
	done->nr = done->nr_of_home = 0;
	done->home = home;
	done->files = 0;
}

/*
 * The thread has executed req on fd, with the result res. It may hold locks.
 * Return: whether req was added to the list; if false, call uaio_done_add().
 */
bool uaio_done_note(struct uaio_done *done, struct uaio_req *req, int64_t res,
		    int fd);
/*
 * uaio_done_note() for a thread that holds no lock: complete the requests in the list,
 * and add req to it, or complete req. In both cases req is still counted as parked
 * (nr_parked) before the call.
 */
void uaio_done_add(struct uaio_done *done, struct uaio_req *req, int64_t res,
		   int fd);

/* Complete all requests in the list. The thread holds no lock. */
void uaio_done_complete(struct uaio_done *done);

/*
 * Return: whether file is a socket of a request in the list that is yet to be queried
 * for more data.
 */
bool uaio_done_asks(const struct uaio_done *done, const struct uaio_file *file);

#endif /* UAIO_READY_READYINT_H */
