/* SPDX-License-Identifier: MIT */
/*
 * Internal header of this module. Requests wait for a file in its wait queues
 * (ready.c); run.c and try.c try them, and done.c completes several at once. watch.c
 * maintains which files the epoll has, kick.c which files must be tried or added.
 * edge.c evaluates the epoll's events, natives.c completes requests that the kernel
 * executed, timer.c ends those whose time is over. commons.c, fallback.c and care.c
 * serve queues that no thread of the program serves. Terms are explained in ready.h.
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
 * A bit beside the bits of the wait queues to be tried. If it is set, each parked poll
 * must query its file by poll(), because no event of the epoll says what is ready.
 */
enum { UAIO_WAITQS_ASK = 1u << UAIO_NR_WAITQS };

/* The epoll watches a stream socket for these events if requests read from it. */
#define UAIO_EVENTS_OF_STREAM (EPOLLIN | EPOLLRDHUP)
/*
 * After one of these events a receive that got less than it asked for may have left
 * something in the socket.
 */
#define UAIO_EVENTS_OF_MORE (EPOLLRDHUP | EPOLLERR | EPOLLHUP)

/*
 * How long the fallback thread sleeps if it has nothing to try. At this interval it
 * also completes what the kernel has executed, in case the client makes no calls.
 */
#define UAIO_FALLBACK_IDLE_NS INT64_C(5000000000)

/* The list of struct uaio_ready (queue.h) that contains a watch */
enum uaio_watch_place {
	UAIO_WATCH_IDLE,
	UAIO_WATCH_KICKED,
	UAIO_WATCH_FRESH,
	UAIO_WATCH_UNARMED,
	UAIO_WATCH_REFUSED,
};

struct uaio_watch {
	struct uaio_slab_node node;

	/* atomic; exists at least as long as this watch */
	struct uaio_file *file;
	/* atomic; exists at least as long as this watch */
	struct uaio_group *group;
	/*
	 * atomic: changes with each use of this memory, and each re-arming. Events of
	 * an older generation are ignored (watch.c).
	 */
	uint32_t generation;

	/* under the file's lock */
	struct list in_file;
	/*
	 * events (EPOLL*) for which the epoll watches the file; 0: not in the epoll
	 */
	uint32_t armed;
	/* atomic: counts events that the epoll has reported */
	uint32_t nr_edges;
	/*
	 * value of uaio_watch_edges() when this watch's latest edge was stored in
	 * file->told. If uaio_watch_edges() still returns this value, no edge was lost
	 * after that.
	 */
	uint32_t nr_told;
	/* how often the file was added to the epoll; never 0 */
	uint32_t nr_adds;
	/*
	 * value of nr_adds when a query last showed that the epoll has the watch's
	 * file, and not another file with the same descriptor; 0: no query has shown
	 * this
	 */
	uint32_t nr_sure;
	/*
	 * value of uaio_ready_nr_nested when a multishot poll was last parked here. If
	 * that counter has changed since, a multishot poll of an epoll ends with its
	 * next completion.
	 */
	uint32_t nr_nested;

	/*
	 * The members from here on change under the lock of the group's struct
	 * uaio_ready.
	 */
	struct list in_group;
	/*
	 * node in the list that `place` names. If `place` is UAIO_WATCH_IDLE: node in
	 * the list `personal`, or in no list.
	 */
	struct list in_list;
	uint32_t place; /* atomic: enum uaio_watch_place */
	/*
	 * bits of the wait queues to be tried; UAIO_WAITQS_ASK: polls must call poll()
	 */
	uint32_t waitqs;
	/* requests may wait for events that `armed` lacks */
	bool is_unarmed;
	/*
	 * a request was parked, and the file may have become ready before that: a
	 * thread must try the request
	 */
	bool is_untried;
	/* atomic: counts edges that a thread may have taken and lost */
	uint32_t nr_lost;
	/*
	 * counts calls of uaio_watch_freshen(), which puts the watch on the fresh list
	 */
	uint32_t nr_fresh;
	/*
	 * value of nr_fresh at the last uaio_ready_arm_stale(); if nr_fresh still has
	 * this value, no request was put on the fresh list since
	 */
	uint32_t seen_fresh;
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
 * What the epoll has reported of a file before a pass over its polls. (A pass tries
 * each of the file's parked polls once.) See edge.c.
 */
struct uaio_told {
	/* file->nr_edges when the pass began */
	uint32_t nr_edges;
	/* file->nr_edges when the previous pass began */
	uint32_t after;
	/*
	 * bits EPOLL* that describe the edges between `after` and `nr_edges`. by_any:
	 * events that at least one edge reported. of_by_all: events for which the epoll
	 * watched at every edge.
	 */
	uint32_t by_any, of_by_all;
};

/*
 * Begin a pass over the polls of file, whose lock is held: move the record of its edges
 * from the file into *told.
 */
void uaio_edge_take_locked(struct uaio_file *file, struct uaio_told *told);

/*
 * Return: the events with which a waiting poll completes, if the file's latest edge
 * came after the poll's last query and answers it; else 0. This saves a call of poll(),
 * as the epoll has just queried the file. The file's lock is held.
 */
int64_t uaio_edge_result_locked(const struct uaio_file *file,
				const struct uaio_req *req);

/*
 * Begin to try a one-shot poll. The file's lock is held.
 * Return: whether the poll goes on waiting, because the edges in *told show that its
 * events have not come. If false, call poll().
 */
bool uaio_edge_begin_poll_locked(const struct uaio_told *told,
				 struct uaio_req *req);

/*
 * Try req, which is in the state TRIED, on the descriptor fd. is_known: fd certainly
 * refers to the request's file.
 * Return: DONE, WAIT_FILE or WORKER, as uaio_req_try(). Also WAIT_FILE if only a
 * blocking call could execute the request, and the file is not ready now.
 */
enum uaio_next uaio_ready_try(struct uaio_req *req, int fd, bool is_known,
			      int64_t *ret_res);

/*
 * Hand a RUNNING request to a worker, which then also owns its wait queue. The worker's
 * call may block for ever, and closing the descriptor would have to wait for the call.
 * So the worker makes the call on a duplicate. If no duplicate can be made (descriptor
 * table full), the worker uses the client's own descriptor: the file is ready, so the
 * call blocks only if another process has just taken the input or connection. But if
 * the call may wait for long even so, req completes with -EMFILE.
 */
void uaio_ready_hand_to_worker(struct uaio_req *req);

/* Return: EPOLL*: the events that req waits for. */
uint32_t uaio_ready_events_of(const struct uaio_req *req);

/*
 * A multishot poll is being parked: add its file to the epoll again, so that the epoll
 * reports what is ready now (I10). The file's lock is held.
 */
void uaio_watch_arm_anew_locked(struct uaio_req *req);

/* Return: the watch of group on file, whose lock is held; or NULL. */
struct uaio_watch *uaio_watch_find_locked(const struct uaio_group *group,
					  const struct uaio_file *file);

/*
 * Put the watch on its queue's list of kicked files: a thread must try the requests in
 * these wait queues. is_armed: the epoll already watches for the events that they
 * await. The file's lock is held.
 */
void uaio_watch_kick(struct uaio_watch *watch, uint32_t waitqs, bool is_armed);
/*
 * Like uaio_watch_kick(), but the only reason is an edge that is stored in the file. So
 * polls need not query the file.
 */
void uaio_watch_kick_told(struct uaio_watch *watch, uint32_t waitqs);

/*
 * The request's call has failed with EAGAIN.
 * Return: whether poll() on fd still reports the file as ready. Then the epoll may
 * never report it, and the caller must put the wait queue in doubt.
 */
bool uaio_ready_is_doubtful(const struct uaio_req *req, int fd);

/*
 * Put these wait queues in doubt: their file polls ready, but calls on it fail with
 * EAGAIN. Threads try them again at intervals. The file's lock is held.
 */
void uaio_watch_doubt(struct uaio_watch *watch, uint32_t waitqs);

/*
 * Return: whether the epoll watches the file for all of these events. The file's lock
 * is held.
 */
static inline bool uaio_watch_tells_locked(const struct uaio_watch *watch,
					   uint32_t events)
{
	return watch->armed && (watch->armed & events) == events;
}

/*
 * Return: whether EAGAIN proves that the file had nothing for the request, so that the
 * epoll reports whatever arrives next. This is so for accepts, and for reads from a
 * stream socket.
 */
static inline bool uaio_ready_is_certain(const struct uaio_req *req)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];

	return op->is_of_socket && op->class == UAIO_CLASS_READ &&
	       req->file->flags & UAIO_FILE_F_SOCK_STREAM;
}

/*
 * Return: whether the epoll may not report the file although it is ready. This is
 * possible if the epoll watched the file already before the request was tried, and the
 * file may poll ready while calls would block. The file's lock is held.
 */
static inline bool uaio_watch_may_not_tell_locked(const struct uaio_req *req)
{
	return !(req->file->flags & UAIO_FILE_F_CERTAIN) &&
	       !uaio_ready_is_certain(req) &&
	       uaio_watch_tells_locked(req->watch, uaio_ready_events_of(req));
}

/*
 * Return: watch->nr_adds if the epoll has the open file to which fd refers now. 0 if
 * not, or if the epoll may have another file under the same descriptor. The file's lock
 * is held.
 *
 * Before each try the library checks whether a descriptor still refers to the file of a
 * watch (uaio_req_has_lost_file()). A query of the file itself takes 0.36 us, this
 * function 0.21 us. But this function alone is no proof: perhaps the file in the epoll
 * has never been the watch's file. So the library queries the file once. If the query
 * succeeds, uaio_watch_is_sure_locked() stores in nr_sure the value that this function
 * returned before. As long as this function returns nr_sure, the descriptor refers to
 * the watch's file.
 */
uint32_t uaio_watch_has_locked(const struct uaio_watch *watch, int fd);

static inline void uaio_watch_is_sure_locked(struct uaio_watch *watch,
					     uint32_t nr_adds)
{
	if (unlikely(nr_adds && watch->nr_sure != nr_adds))
		watch->nr_sure = nr_adds;
}

/*
 * Kick a wait queue of file for the oldest request in it: that request must be tried.
 * `runs`: the group whose kicked files the calling thread is running, or NULL. If the
 * request's home (ready.h) is another group, the fallback thread will try it. The
 * file's lock is held.
 */
void uaio_waitq_kick_locked(struct uaio_file *file, enum uaio_waitq_id id,
			    const struct uaio_group *runs);

/*
 * Requests were parked in these wait queues: put the watch on the fresh list, for a
 * thread to look at. is_untried: the requests were not tried since the file's latest
 * edge, and the epoll does not report that edge again.
 */
void uaio_watch_freshen(struct uaio_watch *watch, uint32_t waitqs,
			bool is_untried);

/*
 * Take the next watch whose requests must be tried. with_fresh: if none is kicked, take
 * one on which a request was parked and which no thread has looked at since. A watch
 * whose file is not yet in the epoll goes to the list of unarmed watches.
 * Return: the watch, and the wait queues to be tried; NULL if there is none. As soon as
 * the lock of ready is released, another thread may drop the watch.
 */
struct uaio_watch *uaio_watch_pop_locked(struct uaio_ready *ready,
					 bool with_fresh, uint32_t *ret_waitqs,
					 bool *ret_was_fresh);

/*
 * Lock the file of a watch that another thread may have dropped. No reference to the
 * file is taken: the watch and the file exist while the lock is held. After the unlock
 * the file exists only as long as one of its requests.
 * Return: the file; NULL, and no lock is held, if group has no such watch any more.
 */
struct uaio_file *uaio_watch_lock_file(const struct uaio_watch *watch,
				       const struct uaio_group *group);

/*
 * Return: whether the watch is on no list, so threads try its requests only after an
 * edge.
 */
static inline bool uaio_watch_is_idle(const struct uaio_watch *watch)
{
	/*
	 * relaxed: if the watch is put on a list meanwhile, a thread takes it from
	 * there and tries the same requests again
	 */
	return load_relaxed(&watch->place) == UAIO_WATCH_IDLE;
}

/*
 * The epoll of group has reported event: store the edge in its file.
 * Return: the file, with its lock held; also the watch, and bits of the wait queues to
 * be tried (perhaps none). NULL, and no lock is held, if the event is obsolete.
 */
struct uaio_file *uaio_edge_note(struct uaio_group *group,
				 const struct epoll_event *event,
				 struct uaio_watch **ret_watch,
				 uint32_t *ret_waitqs);

/*
 * Make the epoll watch the file for all requests that are parked on it. The file's lock
 * is held.
 * Return: 0, or -errno if the epoll cannot add the file now. A file that an epoll can
 * never have is kicked instead; then its requests are tried, and the tries show the
 * reason.
 */
int uaio_watch_arm_locked(struct uaio_watch *watch, struct uaio_file *file);

/*
 * Decrement the number of requests in waitq: one of them is neither parked nor being
 * tried any more.
 */
static inline void uaio_waitq_leave_locked(struct uaio_waitq *waitq)
{
	/* relaxed: submitters read `nr` without the lock, as a hint */
	store_relaxed(&waitq->nr, load_relaxed(&waitq->nr) - 1);
}

/*
 * A request leaves its wait queue: decrement the wait queue's count and the count of
 * parked requests in the request's home.
 */
static inline void uaio_waitq_count_out(struct uaio_waitq *waitq,
					struct uaio_req *req)
{
	uaio_waitq_leave_locked(waitq);
	uaio_ready_unexpect(req->group);
}

/*
 * Return: a counter of the edges that the epoll has reported for this watch, or may
 * have reported. Compare only for equality.
 */
static inline uint32_t uaio_watch_edges(const struct uaio_watch *watch)
{
	/* relaxed: an edge that is counted after this read kicks the wait queue */
	return load_relaxed(&watch->nr_edges) + load_relaxed(&watch->nr_lost);
}

/*
 * Some files are ready for one thread and not for another (signalfd). The epoll queries
 * such a file on behalf of the thread that sleeps in the epoll. So kick these files,
 * and the calling thread tries them itself.
 */
void uaio_ready_kick_personal(struct uaio_ready *ready);

/*
 * A thread of the program has completed requests: the fallback thread can leave the
 * queue to such threads.
 */
static inline void uaio_ready_note_attended(struct uaio_ready *ready)
{
	/* relaxed: the fallback thread only checks whether the number has changed */
	store_relaxed(&ready->nr_attended,
		      load_relaxed(&ready->nr_attended) + 1);
}

/*
 * Complete the group's native requests (executed by the kernel itself; natives.c).
 * Return: how many native requests the kernel has finished or given back; *ret_nr: how
 * many of these it has executed.
 */
unsigned uaio_natives_take(struct uaio_group *group, unsigned *ret_nr);

/*
 * Called by the fallback thread: if UAIO_FALLBACK_IDLE_NS has passed since *looked_ns,
 * complete what the kernel has executed for any group (fallback.c, I5). had_some: what
 * the previous call returned.
 * Return: whether the kernel still has requests; had_some if the time has not passed
 * yet.
 */
bool uaio_natives_look(int64_t *looked_ns, bool had_some);

/* Convert between a watch and the epoll_data of its events. */
uint64_t uaio_watch_data(const struct uaio_watch *watch);
struct uaio_watch *uaio_watch_of_data(uint64_t data);
/* Remove the file, by its descriptor fd, from the epoll. The file's lock is held. */
void uaio_watch_disarm_locked(struct uaio_watch *watch, int fd);

/* watch.c */
void uaio_watches_init(void);
/* Drop the watches of a group that is closed, and has no requests left. */
void uaio_watches_leave(struct uaio_group *group);

/* care.c: what the fallback thread does for one queue; only fallback.c calls it */

/*
 * How urgently a queue on the list needs the fallback thread; of several queues, the
 * greatest value decides how soon the thread looks again
 */
enum uaio_care {
	/* the queue may leave the list */
	UAIO_CARE_LEAVE,
	/* threads of the program serve the queue */
	UAIO_CARE_OTHERS,
	UAIO_CARE_OURS,
};

static inline struct uaio_group *uaio_care_group(struct uaio_ready *ready)
{
	return container_of(ready, struct uaio_group, ready);
}

/*
 * Return: whether threads of the program have completed requests of the queue since the
 * last call. False for the commons: threads that serve one of its queues do not serve
 * the others. False also while the kernel has requests that workers have submitted.
 * Perhaps all threads of the program slept already when the workers submitted, and no
 * thread wakes to complete these requests.
 */
bool uaio_care_is_attended(struct uaio_ready *ready);

/*
 * Try requests of the queue that may be ready, and add all other files to its epoll.
 * Return: whether the epoll now has all files, and none is left to be tried.
 */
bool uaio_care_serve(struct uaio_ready *ready);

/*
 * Adopt a queue: the fallback thread's own epoll watches the queue's epoll
 * (fallback.c).
 * Return: false if that is not possible.
 */
typedef bool uaio_adopt_fn(struct uaio_ready *ready);

/*
 * Look at a queue that is on the fallback thread's list. If no thread of the program
 * serves the queue, adopt it and execute its requests. is_urgent: execute requests even
 * if a thread of the program serves the queue.
 */
enum uaio_care uaio_care_for(struct uaio_ready *ready, bool is_urgent,
			     uaio_adopt_fn *adopt);

/* done.c: a list of receives that were executed, and are completed together */

struct uaio_done {
	unsigned nr;
	/* how many of the nr requests count as parked in home */
	unsigned nr_of_home;
	struct uaio_group *home;
	/*
	 * the requests' files, as a bit set: bit i for a file whose hash (modulo 64) is
	 * i
	 */
	uint64_t files;
	struct uaio_req *reqs[UAIO_REQS_TOGETHER];
	int64_t results[UAIO_REQS_TOGETHER];
	int fds[UAIO_REQS_TOGETHER]; /* the descriptors used */
};

static inline void uaio_done_init(struct uaio_done *done,
				  struct uaio_group *home)
{
	done->nr = done->nr_of_home = 0;
	done->home = home;
	done->files = 0;
}

/*
 * The thread has executed req on fd, with the result res: add req to the list of
 * requests to be completed together. The thread may hold locks.
 * Return: whether req was added; if false, call uaio_done_add().
 */
bool uaio_done_note(struct uaio_done *done, struct uaio_req *req, int64_t res,
		    int fd);
/*
 * Like uaio_done_note(), for a thread that holds no lock. Complete the requests in the
 * list; then add req to the list, or complete it too. Until this call, req counts as
 * parked (nr_parked).
 */
void uaio_done_add(struct uaio_done *done, struct uaio_req *req, int64_t res,
		   int fd);

/* Complete all requests in the list. The thread holds no lock. */
void uaio_done_complete(struct uaio_done *done);

/*
 * Return: whether the list has a receive from `file` for which the socket must still be
 * queried (UAIO_REST_TO_ASK).
 */
bool uaio_done_asks(const struct uaio_done *done, const struct uaio_file *file);

#endif /* UAIO_READY_READYINT_H */
