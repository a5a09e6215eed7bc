/* SPDX-License-Identifier: MIT */
/*
 * Requests that were not completed inside the submitting call
 *
 * The table says which thread moves a request from one state to the next, and under
 * which lock. (The starter is the thread that sends a request on, in send.c.)
 *
 *   FREE -> PREPPED	 the submitter, under the group's lock
 *   RUNNING -> FREE	 the thread that made it RUNNING, by completing it
 *
 *   PREPPED -> ORDERED	 the submitter, under the inode's lock
 *   ORDERED -> PREPPED	 the thread that removes the older request that it waits
 *			 for, under the inode's lock
 *   ORDERED -> RUNNING	 a canceller, under the inode's lock
 *
 *   PREPPED -> QUEUED	 the starter, before it adds it to a handover
 *   QUEUED -> PREPPED	 the starter, if the work queue does not accept it
 *   QUEUED -> RUNNING	 the thread that got it from the work queue: a worker, a
 *			 canceller, a thread that closes its file or leaves the
 *			 process
 *
 *   PREPPED -> PARKED	 the starter, under its file's lock
 *   RUNNING -> PARKED	 a worker that has executed a shot of a multishot request
 *			 (flow.h)
 *   PARKED -> RUNNING	 a canceller, or the thread that expires it, under its
 *			 file's lock
 *
 *   PREPPED -> PAGED	 the starter, under page.c's lock
 *   PAGED -> PREPPED	 the thread that makes it the oldest of its device, or
 *			 that closes its file, under page.c's lock
 *   PAGED -> RUNNING	 a canceller, under page.c's lock
 *
 *   PREPPED -> TIMED	 the starter, under the lock of its home (timer.h)
 *   RUNNING -> TIMED	 the thread that expires a repeating timer, or that holds
 *			 a completion back (late.h)
 *   TIMED -> RUNNING	 a canceller, or the thread that expires it, under the
 *			 lock of its home
 *
 *   PREPPED -> HELD	 the submitter, under the group's lock
 *   HELD -> PREPPED	 the thread that completes the previous request of its
 *			 chain, or the last that its queue's drain waits for,
 *			 under the group's lock
 *   HELD -> TIMED	 the starter of the request to which a timer is linked
 *			 (link.h)
 *   HELD -> RUNNING	 a canceller, under the group's lock
 *
 *   PREPPED -> LINED	 the starter, under the driver's lock (driver.h)
 *   LINED -> RUNNING	 the driver, a canceller, or a thread that closes its file
 *			 or leaves the process, under the driver's lock
 *   LINED -> PREPPED	 a starter that finds the driver delayed, under the
 *			 driver's lock
 *
 *   PREPPED -> RUNNING	 the starter, before the kernel has it (native.h): the
 *			 thread that takes the kernel's completion completes it;
 *			 or if no worker can be had, or its queue is being closed
 *   RUNNING -> PREPPED	 the thread that tried it, or that took it back from the
 *			 kernel (native.h), to hand it to a worker
 *   RUNNING -> ASLEEP	 its worker, under the group's lock, and at once to TRIED
 *			 (asleep.h); to RUNNING again if its queue is being closed
 *
 * A request waits in the states ORDERED, QUEUED, PARKED, PAGED, TIMED, HELD, ASLEEP and
 * LINED. Each of them has a row of functions (waits.h). A thread may try a PARKED or PAGED
 * request; an ASLEEP request is always being tried. Meanwhile the request has the bit
 * TRIED, and that thread is its only owner. The thread moves it under the state's lock:
 *
 *   waits -> TRIED	 the try begins
 *   TRIED -> waits	 the try would have blocked, and no canceller has marked it
 *   TRIED -> RUNNING	 it was executed, or needs a worker, or is cancelled
 *
 *   I1  In each state a request has one owner. The thread that made a request RUNNING
 *       completes it, once.
 *   I2  A request is on its group's list from PREPPED until just before its event is
 *       posted. So a canceller that holds the group's lock may read it.
 *   I3  In each state a request is on exactly one other list:
 *       - by link: a startable list, its wait queue's, its device's or the driver's;
 *       - by work: one of the work queue's;
 *       - ORDERED: only its inode's list (in_order);
 *       - TIMED: only its heap (in_timed);
 *       - HELD: none; but the first request of a chain is on its group's (held, by link).
 *       A request that is being tried stays on its list.
 *
 * Memory comes from a slab. The group keeps it for reuse until the group ends, so
 * submitting calls no malloc().
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
	/* The request waits. Each of these states has a row of functions (waits.h). */
	UAIO_REQ_ORDERED, /* for older requests on its inode */
	UAIO_REQ_QUEUED,  /* for a worker, on an account of the work queue */
	UAIO_REQ_PARKED,  /* until its file is ready */
	UAIO_REQ_PAGED,   /* until its pages are read in */
	UAIO_REQ_TIMED,   /* until its time comes */
	/* for the previous request of its chain, or for a drain */
	UAIO_REQ_HELD,
	/* only with TRIED: a canceller can end the worker's call (asleep.h) */
	UAIO_REQ_ASLEEP,
	UAIO_REQ_LINED, /* for the driver to submit it (driver.h) */
	UAIO_REQ_NR_STATES,
	/* A bit set beside PARKED, PAGED or ASLEEP while a thread tries the request. */
	UAIO_REQ_TRIED = 16,
};

static_assert((int)UAIO_REQ_NR_STATES <= (int)UAIO_REQ_TRIED,
	      "a bit of its own");

/*
 * Whether the kernel's own AIO (native.h) or its io_uring (driver.h) executes a request. If
 * the kernel gives a request back, a worker executes it.
 */
enum uaio_req_native {
	UAIO_KERNEL_HAS_NOT,
	UAIO_KERNEL_MAY_WAIT,  /* the kernel has or had the request */
	UAIO_KERNEL_BY_WORKER, /* the kernel has or had it from a worker */
	/* the kernel has executed the request, which is about to be completed */
	UAIO_KERNEL_HAS_EXECUTED,
};

/* What an injected fault (fault.h) does to a request. */
enum uaio_req_fault {
	UAIO_REQ_SOUND,
	UAIO_REQ_LATER, /* its completion is held back, or its memory is checked */
	/* it was shortened; its completion may be held back, too */
	UAIO_REQ_SHORTER,
};

/* What happened to a request of a chain, or behind a drain. */
enum uaio_in_chain {
	UAIO_CHAIN_BEGINS,
	/* refused when it started, or the file it names did not exist */
	UAIO_CHAIN_UNBEGUN,
	UAIO_CHAIN_CUT, /* an earlier request of the chain failed */
	/* an earlier request with UAIO_LINK_QUIET failed */
	UAIO_CHAIN_CUT_QUIETLY,
};

/* Whether the completion of a request is held back (late.h), or its execution. */
enum uaio_req_held {
	UAIO_REQ_NOT_HELD,
	UAIO_REQ_IS_HELD,
	/* its completion is held back; its failure must break its chain */
	UAIO_REQ_HOLDS_BREAK,
	UAIO_REQ_DEFERRED, /* not executed yet (defer.h) */
};

enum { UAIO_REQ_INLINE_IOVS = 4 };

struct uaio_req {
	/*
	 * The members that both submitter and worker need come first, so that only three cache
	 * lines move between processors.
	 */
	alignas(64) struct uaio_slab_node node;

	/* under the group's lock */
	struct uaio_req *next_free;
	struct list in_group;

	/* immutable from PREPPED on */
	struct uaio_group *group; /* borrows: it outlives its requests */
	struct uaio_file *file; /* shares (ref); NULL: the operation has none */

	/* what state the request is in, which its owner changes (see the table above) */
	struct uaio_work work; /* QUEUED: belongs to the work queue */
	uint32_t state;        /* atomic: enum uaio_req_state */
	uint8_t order;  /* enum uaio_order; changed by order.c and late.c */
	uint8_t native; /* enum uaio_req_native */
	/*
	 * atomic, set under the group's lock: a canceller has asked for its end (cancel.c, I4)
	 */
	bool is_unwanted;
	/* what its system calls have learnt about its socket */
	struct uaio_found found;
	int64_t done_bytes; /* bytes done by earlier calls, if on a stream */
	union {
		void *copy;        /* owns: a copy of its arguments; or NULL */
		struct iovec *iov; /* owns: a copy of its vectors */
	};
	struct uaio_sqe sqe; /* advanced as parts of the request are done */
	uint8_t next;        /* enum uaio_next: where the starter sends it */
	/* it is the oldest read of its device, which a worker executes: page.h */
	bool is_oldest;
	/* a worker executes it, while the other requests of its wait queue wait */
	bool owns_waitq;
	/* one call executes it: its file may be closed during that call */
	bool is_one_call : 1;
	bool was_paged : 1; /* it has waited for its pages: page.h */
	uint8_t fault : 2;  /* enum uaio_req_fault */
	/* enum uaio_in_chain; written by chain.c and link.c */
	uint8_t in_chain : 2;
	/*
	 * WAIT_FILE: how many readiness events (edges) its file had before the try; 0: not
	 * tried
	 */
	uint32_t edges;
	int64_t until_ns; /* when it stops waiting; 0: never */

	/* Members that only some requests use. */
	struct list link;
	/* For late.c and fault.c. Valid if fault is not 0; held is always valid. */
	struct {
		uint8_t held; /* enum uaio_req_held; under the group's lock */
		/* its completion is held back until the submitting call returns */
		bool awaits_call;
		/* The request as submitted, for traces: */
		uint8_t op;
		uint8_t by; /* enum uaio_by; UAIO_NR_BYS: not known yet */
		int fd;
		/* the record of its memory, for check.h; 0: none */
		uint32_t record;
		int64_t delay_ns; /* how long its completion is held back */
		int64_t off;      /* -1: none */
		uint64_t len;
		/* the number that stands for its file in traces; 0: not known */
		uint64_t file;
	} late;
	/* while TRIED: borrows the canceller that waits for it; or NULL */
	struct uaio_canceller *canceller;
	union {
		/* borrows: connects the queue with the file that the request waits for */
		struct uaio_watch *watch;
		/* HELD, or a linked timer: the previous request (link.h) */
		struct uaio_req *before;
	};
	/* if sqe.links: the next request of its chain, or NULL */
	struct uaio_req *after;
	/*
	 * how often the program had changed its credentials when the request was submitted:
	 * proc/former.h
	 */
	uint32_t since;
	/*
	 * how many submissions its times stand for (sample.h); set only if statistics are on
	 */
	uint32_t weight;
	/* the device that it reads pages of, or NULL */
	struct uaio_device *device;
	/* node in the group's list, under page.c's lock */
	struct list in_paged;
	struct list in_order; /* under the inode's lock */
	/* under the group's lock: index.h */
	struct list in_index[UAIO_NR_INDEXES];
	union {
		struct uaio_range range; /* its bytes: place.h */
		/* PARKED or TIMED, if until_ns is not 0 */
		struct heap_node in_timed;
		/*
		 * For a poll: the thread that last checked whether it is ready (ready.h, I11);
		 * or NULL.
		 */
		const struct uaio_entry *looker;
	};

	/* Times in cycles, written by the owner; valid only if weight is not 0. */
	uint64_t submitted; /* when the submitting call began */
	/* when the submitting call passed it on, as it could not complete it */
	uint64_t handed_over;
	/* when its last system call began; 0: none was made */
	uint64_t started;

	struct iovec inline_iov[UAIO_REQ_INLINE_IOVS];
};

static_assert(offsetof(struct uaio_req, link) == (size_t)3 * 64,
	      "what both sides need is three lines");

/*
 * Return: whether the process must wait for such a request before it ends (gate.h). These are
 * writes, changes of the size and syncs, of a regular file or a block device.
 */
static inline bool uaio_delays_exit(const struct uaio_file *file,
				    const struct uaio_sqe *sqe)
{
	enum uaio_op_class class = uaio_optab[sqe->op].class;

	static_assert(UAIO_CLASS_WRITE < UAIO_CLASS_RESIZE &&
			      UAIO_CLASS_RESIZE < UAIO_CLASS_SYNC,
		      "these three are adjacent");
	/* Operations of these classes always have a file. */
	return class >= UAIO_CLASS_WRITE && class <= UAIO_CLASS_SYNC &&
	       file->kind < UAIO_KIND_STREAM;
}

/*
 * Return: whether req, on a fixed (registered) regular file, uses its descriptor until it is
 * complete (file.h, I5). Reads and writes in several parts, and attempts that do not block,
 * need the same descriptor in all of their calls.
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
 * Execute sqe, which is all or part of a RUNNING request, on the request's file. Blocks
 * as long as the call takes.
 * Return: the result of the call.
 */
int64_t uaio_req_execute_part(struct uaio_req *req, const struct uaio_sqe *sqe);

/*
 * Return: whether fd, the descriptor of req, now refers to another file. If the program closed
 * fd by a direct system call, the library does not notice. req must not read or write the new
 * file. A descriptor that the library owns cannot change.
 */
bool uaio_req_has_lost_file(const struct uaio_req *req, int fd);
/* Return: whether only a query of the kernel can tell if fd still refers to req's file. */
bool uaio_req_may_lose_file(const struct uaio_req *req, int fd);

/*
 * Try a stream request on fd: execute as much of it as is possible without blocking. The
 * calling thread is its owner. is_known: the thread has just checked that fd is the request's
 * file. If the rest is UAIO_REST_TO_ASK, the caller checks whether the socket has more to
 * receive. Return: DONE, with the result in ret_res; WAIT_FILE: the request, or the rest of
 * it, waits for the file; WORKER: only a call that may block can execute it.
 */
enum uaio_next uaio_req_try(struct uaio_req *req, int fd, bool is_known,
			    int64_t *ret_res);

/* Skip the first `bytes` bytes of req, which are done; the rest remains to be done. */
void uaio_req_advance(struct uaio_req *req, uint64_t bytes);

int64_t uaio_req_cancelled_res(const struct uaio_req *req);

/* The most requests that are completed together. */
enum { UAIO_REQS_TOGETHER = 16 };

/*
 * The functions of flow.h that lower modules, in which requests wait, may call. send.c
 * registers them in uaio_flow before any request exists.
 */
struct uaio_flow_ops {
	/* uaio_req_complete_by(); worker: the calling worker, or NULL */
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
	/* relaxed: reliable only under the lock that the table of states gives */
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
 * Return: the account of the work queue for a request that becomes QUEUED. The account of
 * bounded work is for requests that end by themselves: requests on regular files and block
 * devices, and calls that never block.
 */
static inline enum uaio_account uaio_req_account(const struct uaio_req *req)
{
	bool is_bounded = likely(req->file)
				  ? req->file->kind < UAIO_KIND_STREAM
				  : uaio_optab[req->sqe.op].never_blocks;

	return is_bounded ? UAIO_BOUNDED : UAIO_UNBOUNDED;
}

/*
 * Return: whether a thread with any credentials may execute req, because the kernel checks the
 * credentials of the file's opener, or because req makes no call. (But a security module may
 * check the caller's credentials.)
 */
bool uaio_req_is_neutral(const struct uaio_req *req);

/*
 * Return: which credentials a call of req depends on, if the program changes its credentials
 * (proc/former.h). A request that may wait for ever depends on none: it would prevent changes
 * for ever.
 */
enum uaio_former_need uaio_req_need(const struct uaio_req *req);

/*
 * Return: whether req must execute with credentials that the program had before it changed
 * them.
 */
bool uaio_req_is_former_slowly(const struct uaio_req *req);

static inline bool uaio_req_is_former(const struct uaio_req *req)
{
	/* relaxed: the call checks again (proc/former.h, F3) */
	return unlikely(load_relaxed(&uaio_former_is_watched)) &&
	       uaio_req_is_former_slowly(req);
}

/*
 * Begin a system call of req, with the credentials that it needs. Return: 0: the caller calls
 * uaio_former_end() after the call; or -ECANCELED: the caller makes no call, and does not call
 * uaio_former_end().
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

/* Return: where a request in this state waits, as the statistics count it. */
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

/* Move a request between states. The caller is its owner, by the table of states above. */
static inline void uaio_req_move(struct uaio_req *req, enum uaio_req_state from,
				 enum uaio_req_state to)
{
	/*
	 * relaxed: the lock that the table names orders it; other threads only read it as a
	 * hint
	 */
	UAIO_CHECK(load_relaxed(&req->state) == from);
	store_relaxed(&req->state, to);
	uaio_stats_move(uaio_req_stay(from), uaio_req_stay(to), 1);
}

/*
 * Like uaio_req_move(), for a caller that then reads what another thread writes, while that
 * thread reads the state after its write.
 */
static inline void uaio_req_move_seq_cst(struct uaio_req *req,
					 enum uaio_req_state from,
					 enum uaio_req_state to)
{
	UAIO_CHECK(load_relaxed(&req->state) == from);
	/* [MB:closing] seq_cst: first the state is written, then the caller reads. */
	store_seq_cst(&req->state, to);
	uaio_stats_move(uaio_req_stay(from), uaio_req_stay(to), 1);
}

#endif /* UAIO_REQ_REQ_H */
