/* SPDX-License-Identifier: MIT */
/*
 * Readiness, inside: what the files of this room share: ready.c (wait queues), run.c and
 * try.c (trying), done.c (completing together), watch.c (the epoll), kick.c (lists),
 * edge.c (edges), natives.c (the kernel's), timer.c (times), commons.c, fallback.c and
 * care.c. Only they include this.
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
 * A bit beside those of wait queues: polls are run not only for what the epoll has told
 * since they were last run, so they ask their file.
 */
enum { UAIO_WAITQS_ASK = 1u << UAIO_NR_WAITQS };

/* For which events a stream socket is armed that is read from. */
#define UAIO_EVENTS_OF_STREAM (EPOLLIN | EPOLLRDHUP)
/* After which a short receive may have left something. */
#define UAIO_EVENTS_OF_MORE (EPOLLRDHUP | EPOLLERR | EPOLLHUP)

/*
 * So long the fallback thread sleeps if nothing has to be tried; as often it takes what the
 * kernel has executed for those who do not ask.
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

	struct uaio_file *file;   /* atomic; borrows: goes with it */
	struct uaio_group *group; /* atomic; borrows: goes with it */
	uint32_t generation;      /* atomic: of this memory, see watch.c */

	/* under the file's lock */
	struct list in_file;
	uint32_t armed;    /* EPOLL*: what the epoll tells; 0: not in it */
	uint32_t nr_edges; /* atomic: how many it has told */
	uint32_t
		nr_told; /* uaio_watch_edges() when file->told was written for it */
	uint32_t nr_adds; /* how often the epoll has taken the file; never 0 */
	uint32_t nr_sure; /* nr_adds when it was certainly this file; or 0 */
	/* uaio_ready_nr_nested when a multishot poll was last parked */
	uint32_t nr_nested;

	/* under the lock of the group's struct uaio_ready */
	struct list in_group;
	struct list in_list; /* of place; if idle: of personal ones, or none */
	uint32_t place;      /* atomic: enum uaio_watch_place */
	uint32_t waitqs;     /* bits: what is to be run; UAIO_WAITQS_ASK */
	bool is_unarmed;     /* armed may not cover what was parked */
	bool is_untried;     /* its edge may have come before */
	uint32_t
		nr_lost; /* atomic: edges that it may have told beside nr_edges */
	uint32_t nr_fresh;   /* how often something was parked */
	uint32_t seen_fresh; /* nr_fresh at the last look for stale ones */
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

/* What a file's edges have said when a pass over its polls begins: see edge.c. */
struct uaio_told {
	uint32_t nr_edges; /* of the file, by then */
	uint32_t after;    /* nr_edges when the pass before began */
	/* EPOLL*: what one of the edges between them said, and of what each would have */
	uint32_t by_any, of_by_all;
};

/* A pass over the polls of a file, whose lock is held, begins. */
void uaio_edge_take_locked(struct uaio_file *file, struct uaio_told *told);

/*
 * Return: the result of a poll that waited when the latest edge came, if that edge
 * answers it; else 0. The epoll asked the file what poll() would ask it. The file's lock
 * is held.
 */
int64_t uaio_edge_result_locked(const struct uaio_file *file,
				const struct uaio_req *req);

/*
 * A poll with one completion is to be looked at. The file's lock is held.
 * Return: whether the poll waits on without a call.
 */
bool uaio_edge_begin_poll_locked(const struct uaio_told *told,
				 struct uaio_req *req);

/*
 * Try req, which is TRIED, on fd. is_known: fd is known to be its file.
 * Return: as uaio_req_try(); WAIT_FILE also if only a call that blocks could execute it,
 * and that would block now.
 */
enum uaio_next uaio_ready_try(struct uaio_req *req, int fd, bool is_known,
			      int64_t *ret_res);

/*
 * Hand a RUNNING request to a worker, with its wait queue. Its call will block, and a thread
 * that closes the descriptor could not wait for that: so the call is never made on the
 * client's own descriptor. If the descriptor table is full, req completes with -EAGAIN.
 */
void uaio_ready_hand_to_worker(struct uaio_req *req);

/* Return: EPOLL*: the events that the epoll has to tell for a request. */
uint32_t uaio_ready_events_of(const struct uaio_req *req);

/*
 * Arm the watch of a multishot poll that is being parked, so that the epoll says
 * what is ready now (I10). The file's lock is held.
 */
void uaio_watch_arm_anew_locked(struct uaio_req *req);

/* Return: the watch of group on file, whose lock is held; or NULL. */
struct uaio_watch *uaio_watch_find_locked(const struct uaio_group *group,
					  const struct uaio_file *file);

/*
 * Wait queues of the watch are to be run. is_armed: the epoll knows what is
 * parked in them. The file's lock is held.
 */
void uaio_watch_kick(struct uaio_watch *watch, uint32_t waitqs, bool is_armed);
/* The same for what the epoll has told, which is noted in the file, and nothing else. */
void uaio_watch_kick_told(struct uaio_watch *watch, uint32_t waitqs);

/*
 * A call said that it would have to wait.
 * Return: whether the file, by its descriptor fd, is ready all the same: then
 * no edge may come.
 */
bool uaio_ready_is_doubtful(const struct uaio_req *req, int fd);

/*
 * Wait queues are in doubt (their file is ready, but calls would wait): they
 * are tried again after a while. The file's lock is held.
 */
void uaio_watch_doubt(struct uaio_watch *watch, uint32_t waitqs);

/* Return: whether the epoll would tell events. The file's lock is held. */
static inline bool uaio_watch_tells_locked(const struct uaio_watch *watch,
					   uint32_t events)
{
	return watch->armed && (watch->armed & events) == events;
}

/*
 * Return: whether EAGAIN from a call of the request means that nothing was there, so
 * that whatever comes next makes an edge. A stream socket that is read from, or that
 * accepts, says so.
 */
static inline bool uaio_ready_is_certain(const struct uaio_req *req)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];

	return op->is_of_socket && op->class == UAIO_CLASS_READ &&
	       req->file->flags & UAIO_FILE_F_SOCK_STREAM;
}

/*
 * Return: whether the file was armed before the request was tried, so that the
 * epoll may have nothing more to tell: some files poll ready though a call
 * would have to wait. The file's lock is held.
 */
static inline bool uaio_watch_may_not_tell_locked(const struct uaio_req *req)
{
	return !(req->file->flags & UAIO_FILE_F_CERTAIN) &&
	       !uaio_ready_is_certain(req) &&
	       uaio_watch_tells_locked(req->watch, uaio_ready_events_of(req));
}

/*
 * Whether a number is still the file of a watch, which a request asks before each try
 * (uaio_req_has_lost_file()), the epoll tells in 0.21 us, and the file in 0.36. But what
 * the epoll has taken may have been another file by then. So the file is asked once, and
 * then uaio_watch_is_sure_locked() called with what uaio_watch_has_locked() has returned
 * before; from then on, as long as that is nr_sure, the number is the file. The file's
 * lock is held.
 * Return: nr_adds if the epoll has what the file's descriptor fd is now; 0 if not, or if
 * it may have other files by the same number.
 */
uint32_t uaio_watch_has_locked(const struct uaio_watch *watch, int fd);

static inline void uaio_watch_is_sure_locked(struct uaio_watch *watch,
					     uint32_t nr_adds)
{
	if (unlikely(nr_adds && watch->nr_sure != nr_adds))
		watch->nr_sure = nr_adds;
}

/*
 * A wait queue of file, whose lock is held, is to be run for the oldest request
 * in it: by the fallback thread, unless that request is of the group that runs.
 */
void uaio_waitq_kick_locked(struct uaio_file *file, enum uaio_waitq_id id,
			    const struct uaio_group *runs);

/*
 * Requests were parked in these wait queues, and no thread has looked at them.
 * is_untried: they were not tried since the latest edge either, and that edge
 * is not told again.
 */
void uaio_watch_freshen(struct uaio_watch *watch, uint32_t waitqs,
			bool is_untried);

/*
 * Take the next watch that is to be run. with_fresh: also one on which
 * something was parked since any thread looked; it is then noted as unarmed.
 * Return: the watch, and the wait queues; NULL if there is none. It may be dropped as
 * soon as the lock of ready is released.
 */
struct uaio_watch *uaio_watch_pop_locked(struct uaio_ready *ready,
					 bool with_fresh, uint32_t *ret_waitqs,
					 bool *ret_was_fresh);

/*
 * Lock the file of a watch that may have been dropped, and take no reference: while the
 * lock is held the watch stays, and so does the file. Once the lock is released, only a
 * request of the file keeps the file.
 * Return: the file; NULL, without a lock, if group has no such watch any more.
 */
struct uaio_file *uaio_watch_lock_file(const struct uaio_watch *watch,
				       const struct uaio_group *group);

/* Return: whether the watch is on no list, so that nothing but an edge has it run. */
static inline bool uaio_watch_is_idle(const struct uaio_watch *watch)
{
	/* relaxed: on a list, it is run again from there, which finds less to do */
	return load_relaxed(&watch->place) == UAIO_WATCH_IDLE;
}

/*
 * The epoll of group has told of event. Note the edge in its file.
 * Return: that file, with its lock; the watch, and which wait queues are to be run, which
 * may be none. NULL, without a lock: the event is void.
 */
struct uaio_file *uaio_edge_note(struct uaio_group *group,
				 const struct epoll_event *event,
				 struct uaio_watch **ret_watch,
				 uint32_t *ret_waitqs);

/*
 * Arm a watch for all that is parked on file, whose lock is held.
 * Return: 0, or -errno if the epoll cannot take the file now. A file that it will never
 * take is kicked: its requests find out why.
 */
int uaio_watch_arm_locked(struct uaio_watch *watch, struct uaio_file *file);

/* A request is neither parked in the wait queue nor being tried any more. */
static inline void uaio_waitq_leave_locked(struct uaio_waitq *waitq)
{
	/* relaxed: submitters peek */
	store_relaxed(&waitq->nr, load_relaxed(&waitq->nr) - 1);
}

/* A request leaves its wait queue, and its home counts it as parked no more. */
static inline void uaio_waitq_count_out(struct uaio_waitq *waitq,
					struct uaio_req *req)
{
	uaio_waitq_leave_locked(waitq);
	uaio_ready_unexpect(req->group);
}

/* Return: a number that changes with each edge that the epoll told, or may have told. */
static inline uint32_t uaio_watch_edges(const struct uaio_watch *watch)
{
	/* relaxed: edges that come from here on kick the wait queue */
	return load_relaxed(&watch->nr_edges) + load_relaxed(&watch->nr_lost);
}

/*
 * Kick the files that may be ready for the calling thread and were not for
 * another (signalfd): the epoll asks a file for the thread that sleeps there.
 */
void uaio_ready_kick_personal(struct uaio_ready *ready);

/* A client's thread has completed some. */
static inline void uaio_ready_note_attended(struct uaio_ready *ready)
{
	/* relaxed: that it changes is enough */
	store_relaxed(&ready->nr_attended,
		      load_relaxed(&ready->nr_attended) + 1);
}

/*
 * Complete what the kernel has executed for the group (natives.c).
 * Return: how many native requests there were; *ret_nr: how many were completed, as the
 * kernel gives some back.
 */
unsigned uaio_natives_take(struct uaio_group *group, unsigned *ret_nr);

/*
 * Now and then (*looked_ns: the last time) complete what the kernel has executed for any
 * group (fallback.c, I5).
 * Return: whether the kernel has requests; had_some if it was not asked.
 */
bool uaio_natives_look(int64_t *looked_ns, bool had_some);

/* What an event of the epoll says of the watch, and the watch that it is of. */
uint64_t uaio_watch_data(const struct uaio_watch *watch);
struct uaio_watch *uaio_watch_of_data(uint64_t data);
/* Take the file, by its descriptor fd, out of the epoll. Its lock is held. */
void uaio_watch_disarm_locked(struct uaio_watch *watch, int fd);

/* watch.c */
void uaio_watches_init(void);
/* The group goes away, and no request of it is left: drop its watches. */
void uaio_watches_leave(struct uaio_group *group);

/* care.c: what the fallback thread does for one queue; only fallback.c calls it */

/* How much care a queue on the list takes, in rising order. */
enum uaio_care {
	UAIO_CARE_LEAVE,  /* none: it need not be on the list */
	UAIO_CARE_OTHERS, /* callers do what is to be done */
	UAIO_CARE_OURS,
};

static inline struct uaio_group *uaio_care_group(struct uaio_ready *ready)
{
	return container_of(ready, struct uaio_group, ready);
}

/*
 * Return: whether callers have completed something since the last look. In the
 * commons, callers of one queue do not see to the others. Nor do callers see to what
 * workers have submitted to the kernel: they may be in a sleep that began before that.
 */
bool uaio_care_is_attended(struct uaio_ready *ready);

/*
 * Run what is ready, and arm.
 * Return: whether all is armed and nothing is left.
 */
bool uaio_care_serve(struct uaio_ready *ready);

/* Adopt a queue (fallback.c). Return: false if that cannot be. */
typedef bool uaio_adopt_fn(struct uaio_ready *ready);

/* Look at a queue that is on the list, and adopt it if no caller serves it. */
enum uaio_care uaio_care_for(struct uaio_ready *ready, bool is_urgent,
			     uaio_adopt_fn *adopt);

/* done.c: receives that a run has executed, and completes together */

struct uaio_done {
	unsigned nr;
	unsigned nr_of_home; /* of them, counted in nr_parked of home */
	struct uaio_group *home;
	uint64_t files; /* a bit for each of their files */
	struct uaio_req *reqs[UAIO_REQS_TOGETHER];
	int64_t results[UAIO_REQS_TOGETHER];
	int fds[UAIO_REQS_TOGETHER]; /* they were executed on */
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
 * Return: whether req is noted; false: uaio_done_add() is to be called.
 */
bool uaio_done_note(struct uaio_done *done, struct uaio_req *req, int64_t res,
		    int fd);
/*
 * uaio_done_note() for a thread that holds no lock: complete those that are noted, and
 * note or complete req. Either way req is counted as parked (nr_parked) before.
 */
void uaio_done_add(struct uaio_done *done, struct uaio_req *req, int64_t res,
		   int fd);

/* Complete all that are noted. The thread holds no lock. */
void uaio_done_complete(struct uaio_done *done);

/* Return: whether file is a socket that is yet to be asked. */
bool uaio_done_asks(const struct uaio_done *done, const struct uaio_file *file);

#endif /* UAIO_READY_READYINT_H */
