/* SPDX-License-Identifier: MIT */
/*
 * Requests that were not completed inside the submitting call
 *
 * The states of a request, and the thread that may move it from one to the next.
 * (The starter is the thread that sends a request on its way, in send.c.)
 *
 *   FREE -> PREPPED	 the submitter, under the group's lock
 *   PREPPED -> ORDERED	 the submitter, under the inode's lock
 *   ORDERED -> PREPPED	 the thread that removes what the request waited for,
 *			 under that lock
 *   PREPPED -> QUEUED	 the starter, before it adds it to a handover
 *   QUEUED -> PREPPED	 the starter, if the work queue gives it back
 *   PREPPED -> PARKED	 the starter, under its file's lock
 *   PREPPED -> PAGED	 the starter, under page.c's lock
 *   PREPPED -> TIMED	 the starter, under the lock of its home (timer.h)
 *   PAGED -> PREPPED	 the thread that makes it the oldest of its device, or
 *			 that closes its file, under that lock
 *   PREPPED -> RUNNING	 the starter, if there is no thread to execute it, or if
 *			 its queue goes away
 *   QUEUED -> RUNNING	 the thread that got it from the work queue: a worker, a
 *			 canceller, a thread that closes its file or leaves the
 *			 process
 *   PARKED -> RUNNING	 a canceller, or the thread that ends it when its time
 *			 is over, under its file's lock
 *   PAGED -> RUNNING	 a canceller, under page.c's lock
 *   TIMED -> RUNNING	 a canceller, or the thread that ends it when its time
 *			 has come, under the lock of its home
 *   ORDERED -> RUNNING	 a canceller, under the inode's lock
 *   RUNNING -> PREPPED	 the thread that tried it, or that took it back from the
 *			 kernel (native.h), to hand it to a worker
 *   RUNNING -> PARKED	 a worker that has executed one that goes on (flow.h)
 *   RUNNING -> TIMED	 the thread that ended a timer that goes on, or that holds
 *			 a completion back (late.h)
 *   PREPPED -> RUNNING	 the starter, before the kernel has it (native.h): the
 *			 thread that takes its completion completes it
 *   RUNNING -> FREE	 the thread that made it RUNNING, by completing it
 *
 *   PREPPED -> LINED	 the starter, under the driver's lock (driver.h)
 *   LINED -> RUNNING	 the driver, a canceller, or a thread that closes its file
 *			 or leaves the process, under that lock
 *   LINED -> PREPPED	 a starter that finds the driver held up, under that lock
 *
 *   RUNNING -> ASLEEP	 its worker, under the group's lock, and at once to TRIED
 *			 (asleep.h); to RUNNING again if it may not sleep
 *
 *   PREPPED -> HELD	 the submitter, under the group's lock
 *   HELD -> PREPPED	 the thread that completes the one before it, or what its
 *			 queue's drain waits for, under the group's lock
 *   HELD -> TIMED	 the starter of the one before a linked timer (link.h)
 *   HELD -> RUNNING	 a canceller, under the group's lock
 *
 * A request waits in the states ORDERED, QUEUED, PARKED, PAGED, TIMED, HELD,
 * ASLEEP and LINED; each of them has a row of functions (waits.h). A thread may try a request
 * that is PARKED or PAGED, and one that is ASLEEP is being tried. While it does, the request has the bit TRIED, and that
 * thread is its only owner. The thread moves it under the lock of the state:
 *
 *   waits -> TRIED	 the try begins
 *   TRIED -> waits	 the try was in vain, and no canceller has asked for it
 *   TRIED -> RUNNING	 it was executed, or needs a worker, or is cancelled
 *
 *   I1  In each state a request has one owner. The thread that made a request
 *       RUNNING completes it, once.
 *   I2  A request is on its group's list from PREPPED until just before its event
 *       is posted, so a canceller that holds the group's lock may look at it.
 *   I3  In each state it is on exactly one other list: a startable list, that of
 *       its wait queue, of its device or of the driver (all by link), or one of the
 *       work queue's (by work). An ORDERED one is only on its inode's list (in_order), a TIMED
 *       one only in its heap (in_timed), a HELD one on none, or, if it is the
 *       first of a chain, on its group's (held, by link). While it is being
 *       tried it stays where it is.
 *
 * Memory comes from a slab, and the group keeps it for reuse until the group
 * ends: there is no malloc on the way in.
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
	/* It waits; each of these has a row of functions (waits.h). */
	UAIO_REQ_ORDERED, /* behind others of its inode */
	UAIO_REQ_QUEUED,  /* on an account of the work queue */
	UAIO_REQ_PARKED,  /* for its file to be ready */
	UAIO_REQ_PAGED,   /* for its pages to be read in */
	UAIO_REQ_TIMED,   /* for its time to come */
	UAIO_REQ_HELD,    /* for the one before it in its chain, or a drain */
	UAIO_REQ_ASLEEP,  /* TRIED: for a worker's call to end (asleep.h) */
	UAIO_REQ_LINED,   /* for the driver to submit it (driver.h) */
	UAIO_REQ_NR_STATES,
	/* A bit beside PARKED, PAGED or ASLEEP: a thread is trying the request. */
	UAIO_REQ_TRIED = 16,
};

static_assert((int)UAIO_REQ_NR_STATES <= (int)UAIO_REQ_TRIED,
	      "a bit of its own");

/*
 * What the kernel's own asynchronous I/O has to do with a request (native.h, driver.h). Once
 * it may wait for one, and that comes back, a worker executes it.
 */
enum uaio_req_native {
	UAIO_KERNEL_HAS_NOT,
	UAIO_KERNEL_MAY_WAIT,     /* it has the request, or has had it */
	UAIO_KERNEL_BY_WORKER,    /* the same, and a worker has submitted it */
	UAIO_KERNEL_HAS_EXECUTED, /* it is about to be completed */
};

/* What a fault on purpose (fault.h) does to a request. */
enum uaio_req_fault {
	UAIO_REQ_SOUND,
	UAIO_REQ_LATER, /* its completion is to be held back, or is checked */
	UAIO_REQ_SHORTER, /* it was cut, and so is not whole; it may be later, too */
};

/* What its chain, or a drain, has made of a request. */
enum uaio_in_chain {
	UAIO_CHAIN_BEGINS,
	UAIO_CHAIN_UNBEGUN, /* it was refused at its start, or had no file to work on */
	UAIO_CHAIN_CUT,         /* one before it has failed */
	UAIO_CHAIN_CUT_QUIETLY, /* the same, and that one has UAIO_LINK_QUIET */
};

/* Whether its completion is held back (late.h), or its execution. */
enum uaio_req_held {
	UAIO_REQ_NOT_HELD,
	UAIO_REQ_IS_HELD,
	UAIO_REQ_HOLDS_BREAK, /* and what is linked to it may not start */
	UAIO_REQ_DEFERRED,    /* it is not executed yet (defer.h) */
};

enum { UAIO_REQ_INLINE_IOVS = 4 };

struct uaio_req {
	/*
	 * The members that every request which goes through a worker needs on
	 * both sides come first: three cache lines move between processors, and
	 * no more.
	 */
	alignas(64) struct uaio_slab_node node;

	/* under the group's lock */
	struct uaio_req *next_free;
	struct list in_group;

	/* immutable from PREPPED on */
	struct uaio_group *group; /* borrows: it outlives its requests */
	struct uaio_file *file; /* shares (ref); NULL: the operation has none */

	/* the owner's, see the states */
	struct uaio_work work; /* QUEUED: the work queue's */
	uint32_t state;        /* atomic: enum uaio_req_state, see above */
	uint8_t order;         /* enum uaio_order; immutable, but see order.c */
	uint8_t native;        /* enum uaio_req_native */
	/* atomic, set under the group's lock: a canceller could not take it (cancel.c I4) */
	bool is_unwanted;
	struct uaio_found found; /* by the calls made for it */
	int64_t done_bytes; /* done by earlier calls, of a stream request */
	union {
		void *copy;        /* owns: a copy of its arguments, or NULL */
		struct iovec *iov; /* the same, if it is vectored */
	};
	struct uaio_sqe sqe; /* advanced as parts of it are done */
	uint8_t next;        /* enum uaio_next: where its starter sends it */
	bool is_oldest;      /* of its device: a worker reads it, see page.h */
	bool owns_waitq;     /* on a worker; the rest of its wait queue waits */
	bool is_one_call : 1; /* its file may be closed during the call */
	bool was_paged : 1;   /* it has waited for its pages: page.h */
	uint8_t fault : 2;    /* enum uaio_req_fault */
	uint8_t in_chain : 2; /* enum uaio_in_chain; chain.c and link.c write it */
	uint32_t edges;   /* of its file before it was tried; 0: not tried */
	int64_t until_ns; /* when it stops waiting; 0: never */

	/* Members that only some requests need. */
	struct list link;
	/* late.c's and fault.c's; set if fault is, but for held */
	struct {
		uint8_t held; /* enum uaio_req_held; under the group's lock */
		bool awaits_call; /* held until the submitting call is over */
		/* What it was, for traces: */
		uint8_t op;
		uint8_t by; /* enum uaio_by; UAIO_NR_BYS: not known yet */
		int fd;
		uint32_t record;  /* of its memory, for check.h; 0: none */
		int64_t delay_ns; /* for so long it is to be held back */
		int64_t off;      /* -1: none */
		uint64_t len;
		uint64_t file; /* its number in traces; 0: not known */
	} late;
	struct uaio_canceller *canceller; /* TRIED: borrows, or NULL */
	union {
		struct uaio_watch *watch; /* borrows: its queue's on its file */
		struct uaio_req *before;  /* HELD, or a linked timer: link.h */
	};
	struct uaio_req *after; /* if sqe.links: of its chain, or NULL */
	uint32_t since;         /* of its submission: see proc/former.h */
	uint32_t
		weight; /* of its times: sample.h; only where statistics are on */
	struct uaio_device *device; /* the one it reads pages of, or NULL */
	struct list in_paged;       /* of its group, under page.c's lock */
	struct list in_order;       /* under the inode's lock */
	struct list in_index[UAIO_NR_INDEXES]; /* index.h; under the group's */
	union {
		struct uaio_range range;   /* see place.h */
		struct heap_node in_timed; /* PARKED or TIMED, if until_ns */
		/* Of a poll: the thread that last looked (ready.h I11), or NULL. */
		const struct uaio_entry *looker;
	};

	/* in cycles, the owner's; only if weight is not 0 */
	uint64_t submitted;   /* when the call of io_submit began */
	uint64_t handed_over; /* when it turned out not to complete inline */
	uint64_t started;     /* when its last system call began; 0: none did */

	struct iovec inline_iov[UAIO_REQ_INLINE_IOVS];
};

static_assert(offsetof(struct uaio_req, link) == (size_t)3 * 64,
	      "what both sides need is three lines");

/*
 * Return: whether the process has to wait for such a request before it ends: it
 * does for writes, changes of the size and syncs of regular files and block devices
 * (gate.h).
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
 * Return: whether req, on a fixed regular file, uses its descriptor until it is
 * complete (file.h I5): what reads and writes in parts, or tries, goes by the number.
 */
static inline bool uaio_req_uses_number(const struct uaio_req *req)
{
	return unlikely(req->sqe.is_fixed) && req->file && req->file->inode;
}

static inline bool uaio_req_delays_exit(const struct uaio_req *req)
{
	/* A request that was held and has not started has no file. */
	return likely(req->file) && uaio_delays_exit(req->file, &req->sqe);
}

/*
 * Execute sqe, which is part of a RUNNING request or all of it, on the request's
 * file. Blocks as long as the call takes.
 * Return: the result of the call.
 */
int64_t uaio_req_execute_part(struct uaio_req *req, const struct uaio_sqe *sqe);

/*
 * Return: whether fd, on which req would be executed, is another file by now. The
 * request waited meanwhile, and if the program closed fd by a system call of its own,
 * nobody told us; the request must not read from the new file or write to it. A
 * descriptor that the engine owns does not change.
 */
bool uaio_req_has_lost_file(const struct uaio_req *req, int fd);
/* Return: whether that has to be asked of the kernel. */
bool uaio_req_may_lose_file(const struct uaio_req *req, int fd);

/*
 * Try a stream request, on fd: execute as much of it as is possible without
 * blocking. The calling thread is its owner. is_known: it has just found that fd is the
 * request's file. Whether a socket has more to receive is left to it (UAIO_REST_TO_ASK).
 * Return: DONE, with the result in ret_res; WAIT_FILE, for the rest, as part of it may be
 * done; WORKER: only a call that may block serves.
 */
enum uaio_next uaio_req_try(struct uaio_req *req, int fd, bool is_known,
			    int64_t *ret_res);

/* Note that bytes of a write are written; the rest remains to be done. */
void uaio_req_advance(struct uaio_req *req, uint64_t bytes);

/* Return: the result of a request that was cancelled. */
int64_t uaio_req_cancelled_res(const struct uaio_req *req);

/* The most requests that are completed together. */
enum { UAIO_REQS_TOGETHER = 16 };

/*
 * The functions of flow.h that lower rooms, where requests wait, may call. send.c
 * registers them in uaio_flow before there is any request.
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
	/* relaxed: reliable only under the lock of an edge */
	return load_relaxed(&req->state);
}

/* Return: the inode of its file; NULL for a stream, a device, or no file. */
static inline struct uaio_inode *uaio_req_inode(const struct uaio_req *req)
{
	return likely(req->file) ? req->file->inode : NULL;
}

/*
 * Return: the account of the work queue that a request goes to when it is
 * queued. Bounded requests end by themselves: those on files that have an inode,
 * and calls that never block.
 */
static inline enum uaio_account uaio_req_account(const struct uaio_req *req)
{
	bool is_bounded = likely(req->file)
				  ? req->file->kind < UAIO_KIND_STREAM
				  : uaio_optab[req->sqe.op].never_blocks;

	return is_bounded ? UAIO_BOUNDED : UAIO_UNBOUNDED;
}

/*
 * Return: whether any thread may execute req: its file was opened as somebody before,
 * or it makes no call. Security modules may differ all the same.
 */
bool uaio_req_is_neutral(const struct uaio_req *req);

/*
 * The same for ids that the program changes after the submission (proc/former.h). What
 * may wait for ever needs none: nobody could change ids meanwhile.
 */
enum uaio_former_need uaio_req_need(const struct uaio_req *req);

/* Return: whether req is to be executed with ids that the program had before. */
bool uaio_req_is_former_slowly(const struct uaio_req *req);

static inline bool uaio_req_is_former(const struct uaio_req *req)
{
	/* relaxed: the call looks again (proc/former.h F3) */
	return unlikely(load_relaxed(&uaio_former_is_watched)) &&
	       uaio_req_is_former_slowly(req);
}

/*
 * A call of req, with its ids.
 * Return: 0; or -ECANCELED: it is not to be made, and not to be ended.
 */
static inline int uaio_req_begin_call(const struct uaio_req *req,
				      struct uaio_former_call *call)
{
	return likely(!load_relaxed(&uaio_former_is_watched))
		       ? uaio_former_begin(0, UAIO_NEEDS_NO_IDS, true, call)
		       : uaio_former_begin(req->since, uaio_req_need(req),
					   !req->work.crew, call);
}

/* Return: whether the calling thread may execute req (proc/identity.h). */
static inline bool uaio_req_is_mine(const struct uaio_req *req)
{
	return (uaio_wq_is_mine(&req->work) && !uaio_req_is_former(req)) ||
	       (uaio_req_is_neutral(req) &&
		uaio_wq_is_of_my_domain(&req->work));
}

/* The system call of req begins. */
static inline void uaio_req_note_start(struct uaio_req *req)
{
	if (unlikely(req->weight))
		req->started = uaio_cycles();
}

/* Return: what the statistics make of a state. */
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

/* Move a request between states; the caller has to be its owner (see above). */
static inline void uaio_req_move(struct uaio_req *req, enum uaio_req_state from,
				 enum uaio_req_state to)
{
	/* relaxed: the lock of the edge orders it; others only peek */
	UAIO_CHECK(load_relaxed(&req->state) == from);
	store_relaxed(&req->state, to);
	uaio_stats_move(uaio_req_stay(from), uaio_req_stay(to), 1);
}

/*
 * The same, for a thread that next reads something that another thread writes
 * before it reads the state.
 */
static inline void uaio_req_move_seq_cst(struct uaio_req *req,
					 enum uaio_req_state from,
					 enum uaio_req_state to)
{
	UAIO_CHECK(load_relaxed(&req->state) == from);
	/* [MB:closing] seq_cst: see the caller. */
	store_seq_cst(&req->state, to);
	uaio_stats_move(uaio_req_stay(from), uaio_req_stay(to), 1);
}

#endif /* UAIO_REQ_REQ_H */
