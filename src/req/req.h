/* SPDX-License-Identifier: MIT */
/*
 * Requests that do not complete inside the submitting call
 *
 * The table says which thread moves a request from one state to the next, and under
 * which lock. The starter is the thread that sends a PREPPED request to where it is
 * executed or waits (send.c).
 *
 *   FREE -> PREPPED	 by the submitting thread, under the queue's lock
 *   RUNNING -> FREE	 by the thread that made the request RUNNING, when it
 *			 completes the request
 *
 *   PREPPED -> ORDERED	 by the submitting thread, under the inode's lock
 *   ORDERED -> PREPPED	 by the thread that removes the older request for which this
 *			 one waits, under the inode's lock
 *   ORDERED -> RUNNING	 by a canceller, under the inode's lock
 *
 *   PREPPED -> QUEUED	 by the starter, before it adds the request to a handover
 *			 (a batch for the work queue)
 *   QUEUED -> PREPPED	 by the starter, if the work queue does not accept the request
 *   QUEUED -> RUNNING	 by the thread that dequeues the request: a worker, a
 *			 canceller, or a thread that closes the request's file or
 *			 leaves the process
 *
 *   PREPPED -> PARKED	 by the starter, under the file's lock
 *   RUNNING -> PARKED	 by a worker that has executed one call of a multishot
 *			 request (flow.h)
 *   PARKED -> RUNNING	 by a canceller, or by the thread that expires the request,
 *			 under the file's lock
 *
 *   PREPPED -> PAGED	 by the starter, under page.c's lock
 *   PAGED -> PREPPED	 by the thread that makes the request the oldest of its
 *			 device, or that closes its file, under page.c's lock
 *   PAGED -> RUNNING	 by a canceller, under page.c's lock
 *
 *   PREPPED -> TIMED	 by the starter, under the lock of the request's home, the
 *			 queue that expires the request (timer.h)
 *   RUNNING -> TIMED	 by the thread that expires a repeating timer, or that delays
 *			 a completion (late.h)
 *   TIMED -> RUNNING	 by a canceller, or by the thread that expires the request,
 *			 under the lock of its home
 *
 *   PREPPED -> HELD	 by the submitting thread, under the queue's lock
 *   HELD -> PREPPED	 by the thread that completes the previous request of the
 *			 chain, or the last request for which a drain waits, under
 *			 the queue's lock
 *   HELD -> TIMED	 by the starter of the request to which a timer is linked
 *			 (link.h)
 *   HELD -> RUNNING	 by a canceller, under the queue's lock
 *
 *   PREPPED -> LINED	 by the starter, under the driver's lock; the driver is the
 *			 thread that uses the kernel's io_uring (driver.h)
 *   LINED -> RUNNING	 by the driver, by a canceller, or by a thread that closes
 *			 the request's file or leaves the process, under the
 *			 driver's lock
 *   LINED -> PREPPED	 by a starter that finds the driver delayed, under the
 *			 driver's lock
 *
 *   PREPPED -> RUNNING	 by the starter, before it submits the request to the kernel
 *			 (native.h); the thread that gets the kernel's completion
 *			 then completes the request. Also by the starter, if there is
 *			 no worker, or if the request's queue is being closed
 *   RUNNING -> PREPPED	 by the thread that tried the request, or that took it back
 *			 from the kernel (native.h), to give it to a worker. Also by
 *			 the thread that changes a poll, under the queue's lock
 *			 (cancel.c)
 *   RUNNING -> ASLEEP	 by the request's worker, under the queue's lock, together
 *			 with TRIED (asleep.h); the worker makes it RUNNING again if
 *			 its queue is being closed
 *
 * A request waits in the states ORDERED, QUEUED, PARKED, PAGED, TIMED, HELD, ASLEEP and
 * LINED. Each of these states has a struct of functions (waits.h). A thread may try a
 * PARKED or PAGED request; an ASLEEP request is always being tried. During a try the
 * request has the bit TRIED, and the trying thread is its only owner. That thread moves
 * the request under the state's lock:
 *
 *   waits -> TRIED	 the try begins
 *   TRIED -> waits	 the try would have blocked, and no canceller has marked the
 *			 request
 *   TRIED -> RUNNING	 the request was executed, or needs a worker, or is cancelled
 *
 *   I1  In each state a request has one owner. The thread that made a request RUNNING
 *       completes it, once.
 *   I2  A request is on its queue's list of requests from PREPPED until just before its
 *       event is posted. So a canceller that holds the queue's lock may read it.
 *   I3  Besides the list of I2, a request is on exactly one list in each state, by one of
 *       its list nodes:
 *       - link: a list of startable requests, or the list of its wait queue, of its
 *         device or of the driver;
 *       - work: a list of the work queue;
 *       - in_order, if ORDERED: the list of its inode;
 *       - in_timed, if TIMED: a heap of timers;
 *       - if HELD: none, but the first request of a chain is on its queue's list `held`
 *         (by link).
 *       A request that is being tried stays on its list.
 *
 * The memory of a request comes from a slab. The group keeps the memory for reuse until
 * the group ends. So a submitting thread need not call malloc().
 */
#ifndef UAIO_REQ_REQ_H
#define UAIO_REQ_REQ_H

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/list.h"
#include "wq/wq.h"
#include "file/file.h"
#include "op/op.h"
#include "proc/entry.h"
#include "proc/former.h"
#include "req/index.h"
#include "req/place.h"
#include "req/stats.h"

struct uaio_canceller;
struct uaio_device;
struct uaio_completion;
struct uaio_queue;

enum uaio_req_state {
	UAIO_REQ_FREE,
	UAIO_REQ_PREPPED,
	UAIO_REQ_RUNNING,
	/* From here on: states in which a request waits. Each has functions: waits.h */
	/* the request waits for older requests on its inode */
	UAIO_REQ_ORDERED,
	/* waits for a worker, in an account (list) of the work queue */
	UAIO_REQ_QUEUED,
	/* waits until its file is ready */
	UAIO_REQ_PARKED,
	/* waits until its pages are read into the page cache */
	UAIO_REQ_PAGED,
	/* waits until a time */
	UAIO_REQ_TIMED,
	/* waits for the previous request of its chain, or for a drain */
	UAIO_REQ_HELD,
	/*
	 * its worker sleeps in a call that a canceller can end; TRIED is set, too
	 * (asleep.h)
	 */
	UAIO_REQ_ASLEEP,
	/* waits until the driver submits it to the kernel's io_uring (driver.h) */
	UAIO_REQ_LINED,
	UAIO_REQ_NR_STATES,
	/* A bit set beside PARKED, PAGED or ASLEEP while a thread tries the request. */
	UAIO_REQ_TRIED = 16,
};

static_assert((int)UAIO_REQ_NR_STATES <= (int)UAIO_REQ_TRIED,
	      "a bit of its own");

/*
 * How the library has submitted a request to the kernel's own AIO (native.h) or
 * io_uring (driver.h). If the kernel hands a request back, a worker executes it.
 */
enum uaio_req_native {
	/* not submitted; or submitted with RWF_NOWAIT, and perhaps handed back */
	UAIO_KERNEL_HAS_NOT,
	/*
	 * submitted without RWF_NOWAIT, or handed back by the kernel: no thread submits
	 * the request to the kernel again
	 */
	UAIO_KERNEL_MAY_WAIT,
	/* submitted to the kernel's AIO by a worker, without RWF_NOWAIT */
	UAIO_KERNEL_BY_WORKER,
	/* the kernel has executed the request, which is about to be completed */
	UAIO_KERNEL_HAS_EXECUTED,
};

/* What an injected fault (fault.h) does to a request. */
enum uaio_req_fault {
	UAIO_REQ_SOUND,
	/* a fault rule, or a check of the request's memory, delays the completion */
	UAIO_REQ_LATER,
	/*
	 * the fault rule has reduced the request's length; the rule may also delay the
	 * completion
	 */
	UAIO_REQ_SHORTER,
};

/* What happened to a request that is in a chain, or that waits for a drain. */
enum uaio_in_chain {
	UAIO_CHAIN_BEGINS,
	/* refused when it was to start, or its file did not exist */
	UAIO_CHAIN_UNBEGUN,
	/* the request did not start, because an earlier request of the chain failed */
	UAIO_CHAIN_CUT,
	/* as CUT, but the earlier request has UAIO_LINK_QUIET: post no completion */
	UAIO_CHAIN_CUT_QUIETLY,
};

/* Whether a request's completion is delayed (late.h), or its execution (defer.h). */
enum uaio_req_held {
	UAIO_REQ_NOT_HELD,
	UAIO_REQ_IS_HELD,
	/* the completion is delayed, and breaks the chain, as the request failed */
	UAIO_REQ_HOLDS_BREAK,
	/* the request is not executed yet (defer.h) */
	UAIO_REQ_DEFERRED,
};

enum { UAIO_REQ_INLINE_IOVS = 4 };

struct uaio_req {
	/*
	 * The members that both the submitter and a worker need come first, so that
	 * only three cache lines move between their processors.
	 */
	alignas(64) struct uaio_slab_node node;

	/* nodes in lists of the queue's requests, under the queue's lock */
	struct uaio_req *next_free;
	struct list in_group;

	/* immutable from PREPPED on */
	/* borrows: the group outlives its requests */
	struct uaio_group *group;
	/* shares (has a reference); NULL: the operation has no file */
	struct uaio_file *file;

	/* The request's owner changes these members (see the table of states above). */

	/* in state QUEUED: belongs to the work queue */
	struct uaio_work work;
	uint32_t state; /* atomic: enum uaio_req_state */
	/* enum uaio_order; only order.c and late.c change it */
	uint8_t order;
	uint8_t native; /* enum uaio_req_native */
	/*
	 * atomic, set under the queue's lock: a canceller wants the request to end
	 * (cancel.c, I4)
	 */
	bool is_unwanted;
	/* what the request's system calls have found out about its socket */
	struct uaio_found found;
	/* bytes that earlier calls have transferred; or the result, if posted later */
	int64_t done_bytes;
	union {
		/* owns: a copy of the request's arguments; or NULL */
		void *copy;
		/* owns: a copy of the request's vectors */
		struct iovec *iov;
	};
	/* the part of the request that is yet to be done */
	struct uaio_sqe sqe;
	/* enum uaio_next: where the starting thread (send.c) must send the request */
	uint8_t next;
	/* the request is its device's oldest read: a worker executes it (page.h) */
	bool is_oldest;
	/* a worker executes this request; other requests of its wait queue wait */
	bool owns_waitq;
	/*
	 * one system call executes the request: the program may close the file's
	 * descriptor during that call (closing.h)
	 */
	bool is_one_call : 1;
	/* the request has waited until its data was in the page cache (page.h) */
	bool was_paged : 1;
	uint8_t fault : 2; /* enum uaio_req_fault */
	/* enum uaio_in_chain; written by chain.c and link.c */
	uint8_t in_chain : 2;
	/*
	 * If the request is to wait for its file: the file's count of readiness events
	 * (edges) before the try, to notice later events; 0: there was no try.
	 */
	uint32_t edges;
	/* when the request stops waiting; 0: never */
	int64_t until_ns;

	/* Members that only some requests use. */
	struct list link;
	/*
	 * For late.c and fault.c. `held` is always valid, the other members only if
	 * `fault` is not 0.
	 */
	struct {
		uint8_t held; /* enum uaio_req_held; under the queue's lock */
		/* the completion is delayed until the submitting call returns */
		bool awaits_call;
		/* The request as it was submitted, for traces: */
		uint8_t op;
		/* enum uaio_by: the kind of executing thread; UAIO_NR_BYS: unknown */
		uint8_t by;
		int fd;
		/* number of the request's memory record, for check.h; 0: none */
		uint32_t record;
		/* for how long the completion is delayed */
		int64_t delay_ns;
		int64_t off; /* -1: none */
		uint64_t len;
		/* the number of the request's file in traces; 0: unknown */
		uint64_t file;
	} late;
	/* while TRIED; borrows: the canceller that waits for the request; or NULL */
	struct uaio_canceller *canceller;
	union {
		/* borrows: connects the queue with the request's file */
		struct uaio_watch *watch;
		/* if HELD, or a linked timer: the previous request (link.h) */
		struct uaio_req *before;
	};
	/* if sqe.links: the next request of the chain; or NULL */
	struct uaio_req *after;
	/*
	 * uaio_former_now() when the request was submitted: the number of the program's
	 * latest change of user or group ids (proc/former.h)
	 */
	uint32_t since;
	/*
	 * How many submissions the times of this request stand for in the histograms
	 * (sample.h). Set only if statistics are on.
	 */
	uint32_t weight;
	/* the device from which the request reads pages; or NULL */
	struct uaio_device *device;
	/* node in the group's list `paged`, under page.c's lock */
	struct list in_paged;
	/* node in the inode's list, under the inode's lock */
	struct list in_order;
	/*
	 * nodes in the index of the queue's requests (index.h), under the queue's lock
	 */
	struct list in_index[UAIO_NR_INDEXES];
	union {
		struct uaio_range range; /* its bytes: place.h */
		/*
		 * node in a heap of timers: used if PARKED or TIMED, and until_ns is
		 * not 0
		 */
		struct heap_node in_timed;
		/*
		 * For a poll request: the last thread that checked whether its file is
		 * ready (ready.h, I11); or NULL.
		 */
		const struct uaio_entry *looker;
	};

	/*
	 * Times in cycles. The request's owner writes them; valid only if weight is not
	 * 0.
	 */
	/* when the submitting call began */
	uint64_t submitted;
	/*
	 * when the submitting call, which could not complete the request, began to let
	 * it wait or gave it to another thread
	 */
	uint64_t handed_over;
	/* when the last system call of the request began; 0: no call was made */
	uint64_t started;

	struct iovec inline_iov[UAIO_REQ_INLINE_IOVS];
};

static_assert(offsetof(struct uaio_req, link) == (size_t)3 * 64,
	      "what both sides need is three lines");

/*
 * Return: whether exit and exec must wait for this request (gate.h). True for writes,
 * changes of the size and syncs of a regular file or a block device.
 */
static inline bool uaio_delays_exit(const struct uaio_file *file,
				    const struct uaio_sqe *sqe)
{
	enum uaio_op_class class = uaio_optab[sqe->op].class;

	static_assert(UAIO_CLASS_WRITE < UAIO_CLASS_RESIZE &&
			      UAIO_CLASS_RESIZE < UAIO_CLASS_SYNC,
		      "these three are adjacent");
	/* Operations from class WRITE to class SYNC always have a file. */
	return class >= UAIO_CLASS_WRITE && class <= UAIO_CLASS_SYNC &&
	       file->kind < UAIO_KIND_STREAM;
}

/*
 * Return: whether req is on a fixed (registered) regular file and so uses the file's
 * descriptor until it is complete (file.h, I5). The request may need several system
 * calls, all on the same descriptor.
 */
static inline bool uaio_req_uses_number(const struct uaio_req *req)
{
	return unlikely(req->sqe.is_fixed) && req->file && req->file->inode;
}

static inline bool uaio_req_delays_exit(const struct uaio_req *req)
{
	/* A held request that has not started has no file yet. */
	return likely(req->file) && uaio_delays_exit(req->file, &req->sqe);
}

/*
 * Make the system call of sqe, which is all or part of the RUNNING request req. Blocks
 * as long as the call takes.
 * Return: the result of the call.
 */
int64_t uaio_req_execute_part(struct uaio_req *req, const struct uaio_sqe *sqe);

/*
 * Return: whether fd, the descriptor of req, now refers to another file, which req must
 * not read or write. This happens if the program closes fd by a direct system call,
 * which the library does not notice. If the library owns fd, it cannot happen.
 */
bool uaio_req_has_lost_file(const struct uaio_req *req, int fd);
/*
 * Return: whether the library must query the kernel to know if fd still refers to req's
 * file.
 */
bool uaio_req_may_lose_file(const struct uaio_req *req, int fd);

/*
 * Try a request on a stream: execute as much of it as is possible without blocking. The
 * calling thread owns the request. is_known: the thread has just checked that fd is the
 * request's file. If a receive sets req->found.rest to UAIO_REST_TO_ASK, the caller
 * checks whether the socket has more to receive.
 * Return: DONE, with the result in ret_res; WAIT_FILE: the request, or its rest, must
 * wait for the file; WORKER: only a call that may block can execute it.
 */
enum uaio_next uaio_req_try(struct uaio_req *req, int fd, bool is_known,
			    int64_t *ret_res);

/* The first `bytes` bytes of req are done: change req to describe the rest. */
void uaio_req_advance(struct uaio_req *req, uint64_t bytes);

int64_t uaio_req_cancelled_res(const struct uaio_req *req);

/* The greatest number of requests that are completed together. */
enum { UAIO_REQS_TOGETHER = 16 };

/*
 * Functions of the higher module flow (flow.h). The modules with waiting requests call
 * these functions through uaio_flow. send.c sets uaio_flow before any request exists.
 */
struct uaio_flow_ops {
	/* calls uaio_req_complete_by(); worker: the calling worker, or NULL */
	void (*complete)(struct uaio_req *req, int64_t res,
			 struct uaio_worker *worker);
	/* uaio_req_complete_together() */
	void (*complete_together)(struct uaio_req *const *reqs,
				  const int64_t *results, unsigned nr,
				  struct uaio_worker *worker);
	/* uaio_req_complete_native() */
	void (*complete_native)(struct uaio_req *const *reqs,
				const int64_t *results, unsigned nr);
	/* uaio_req_post_more() */
	bool (*post_more)(struct uaio_req *req, int64_t res);
	/* uaio_req_start_all() */
	void (*start_all)(struct list *startable);
	/* uaio_link_expire(), or uaio_defer_start() */
	void (*expire)(struct uaio_req *timer);
	/* uaio_req_hand_over() */
	void (*handover)(struct uaio_handover *handover);
};

extern const struct uaio_flow_ops *uaio_flow;

static inline struct uaio_req *uaio_req_of(const struct uaio_work *work)
{
	UAIO_CHECK(!work->is_part);
	return container_of(work, struct uaio_req, work);
}

static inline enum uaio_req_state uaio_req_state(const struct uaio_req *req)
{
	/*
	 * relaxed: the value is certain only under the lock that the table of states
	 * names
	 */
	return load_relaxed(&req->state);
}

/*
 * Return: the inode of req's file; NULL if the file is a stream or device, or req has no file.
 */
static inline struct uaio_inode *uaio_req_inode(const struct uaio_req *req)
{
	return likely(req->file) ? req->file->inode : NULL;
}

/*
 * Return: the account of the work queue to which req belongs when it becomes QUEUED.
 * The account of bounded work is for requests that end by themselves: requests on
 * regular files and block devices, and calls that never block.
 */
static inline enum uaio_account uaio_req_account(const struct uaio_req *req)
{
	bool is_bounded = likely(req->file)
				  ? req->file->kind < UAIO_KIND_STREAM
				  : uaio_optab[req->sqe.op].never_blocks;

	return is_bounded ? UAIO_BOUNDED : UAIO_UNBOUNDED;
}

/*
 * Return: whether the credentials of the thread that executes req do not matter. This
 * is so if the kernel checks the credentials of the file's opener, or if req makes no
 * call. A security module may still check the caller, so uaio_req_is_mine() also
 * compares the security domain.
 */
bool uaio_req_is_neutral(const struct uaio_req *req);

/*
 * Return: which credentials a system call of req depends on, if the program changes its
 * credentials (proc/former.h). A request that may wait for ever counts as depending on
 * none, as a change of credentials waits for requests that depend on them.
 */
enum uaio_former_need uaio_req_need(const struct uaio_req *req);

/*
 * Return: whether req was submitted before a change of the program's credentials, and
 * depends on credentials.
 */
bool uaio_req_is_former_slowly(const struct uaio_req *req);

static inline bool uaio_req_is_former(const struct uaio_req *req)
{
	/*
	 * relaxed: only a hint, as uaio_former_begin() checks again before a call that
	 * depends on ids (proc/former.h, F3)
	 */
	return unlikely(load_relaxed(&uaio_former_is_watched)) &&
	       uaio_req_is_former_slowly(req);
}

/*
 * Begin a system call of req, with the credentials that it needs.
 * Return: 0: the caller makes the call, and then calls uaio_former_end(); -ECANCELED:
 * the thread cannot get the credentials, so the caller must not make the call.
 */
static inline int uaio_req_begin_call(const struct uaio_req *req,
				      struct uaio_former_call *call)
{
	return likely(!load_relaxed(&uaio_former_is_watched))
		       ? uaio_former_begin(0, UAIO_NEEDS_NO_IDS, true, call)
		       : uaio_former_begin(req->since, uaio_req_need(req),
					   !req->work.crew, call);
}

/* Return: whether the calling thread has the credentials to execute req (proc/identity.h). */
static inline bool uaio_req_is_mine(const struct uaio_req *req)
{
	return (uaio_wq_is_mine(&req->work) && !uaio_req_is_former(req)) ||
	       (uaio_req_is_neutral(req) &&
		uaio_wq_is_of_my_domain(&req->work));
}

static inline void uaio_req_note_start(struct uaio_req *req)
{
	if (unlikely(req->weight))
		req->started = uaio_cycles();
}

/* Return: for what a request in this state waits, as the statistics count it. */
static inline enum uaio_stay uaio_req_stay(uint32_t state)
{
	switch (state & ~(uint32_t)UAIO_REQ_TRIED) {
	case UAIO_REQ_QUEUED: return UAIO_STAY_QUEUED;
	case UAIO_REQ_PARKED: return UAIO_STAY_PARKED;
	case UAIO_REQ_TIMED: return UAIO_STAY_TIMED;
	case UAIO_REQ_ORDERED:
	case UAIO_REQ_PAGED:
	case UAIO_REQ_HELD: return UAIO_STAY_WAITING;
	case UAIO_REQ_LINED: return UAIO_STAY_KERNEL;
	default: return UAIO_STAY_NONE;
	}
}

/* Move a request from one state to another. The caller owns the request. */
static inline void uaio_req_move(struct uaio_req *req, enum uaio_req_state from,
				 enum uaio_req_state to)
{
	/*
	 * relaxed: accesses are ordered by the lock that the table of states names;
	 * without the lock, the state is only a hint
	 */
	UAIO_CHECK(load_relaxed(&req->state) == from);
	store_relaxed(&req->state, to);
	uaio_stats_move(uaio_req_stay(from), uaio_req_stay(to), 1);
}

/*
 * Like uaio_req_move(), for a caller that next reads a flag which another thread sets.
 * The other thread sets the flag first, then reads the state.
 */
static inline void uaio_req_move_seq_cst(struct uaio_req *req,
					 enum uaio_req_state from,
					 enum uaio_req_state to)
{
	UAIO_CHECK(load_relaxed(&req->state) == from);
	/* [MB:closing] seq_cst: the state is stored before the caller reads the flag. */
	store_seq_cst(&req->state, to);
	uaio_stats_move(uaio_req_stay(from), uaio_req_stay(to), 1);
}

#endif /* UAIO_REQ_REQ_H */
