/* SPDX-License-Identifier: MIT */
/*
 * Requests that were not completed inside the submitting call
 *
 * States, and who may move a request from one to the next:
 *
 *   FREE -> PREPPED	 the submitter, under the group's lock
 *   PREPPED -> ORDERED	 the submitter, under the inode's lock
 *   ORDERED -> PREPPED	 whoever removes what it waited for, under that lock
 *   PREPPED -> QUEUED	 its starter, before it notes it for the work queue
 *   QUEUED -> PREPPED	 its starter, who got it back from there
 *   PREPPED -> PARKED	 its starter, under its file's lock
 *   PREPPED -> PAGED	 its starter, under page.c's lock
 *   PAGED -> PREPPED	 whoever makes it the oldest of its device, or closes its
 *			 file, under that lock
 *   PREPPED -> RUNNING	 its starter, if no thread can be had for it, or its
 *			 context goes away
 *   QUEUED -> RUNNING	 whoever has got it from the work queue: a worker, a
 *			 canceller, a thread that closes its file or leaves
 *   PARKED -> RUNNING	 a canceller, or the thread that ends it when its time
 *			 is over, under its file's lock
 *   PAGED -> RUNNING	 a canceller, under page.c's lock
 *   ORDERED -> RUNNING	 a canceller, under the inode's lock
 *   RUNNING -> PREPPED	 the thread that tried it, to hand it to a worker
 *   RUNNING -> FREE	 whoever made it RUNNING, by completing it
 *
 * ORDERED, QUEUED, PARKED and PAGED are the states in which it waits; of each
 * there is a row of functions (waits.h). What is PARKED or PAGED may be tried, and
 * has the bit TRIED as long as it is; the thread that tries it is its only owner,
 * and moves it under the lock of the state:
 *
 *   waits -> TRIED	 it begins to try
 *   TRIED -> waits	 the try was in vain, and no canceller has asked for it
 *   TRIED -> RUNNING	 it was made, or needs a worker, or is cancelled
 *
 *   I1  One owner in each state; who made a request RUNNING completes it, once.
 *   I2  A request is on its group's list from PREPPED until its event is
 *       posted, so a canceller that holds the group's lock may look at it.
 *   I3  In each state it is on exactly one other list: a startable list, its
 *       lane's or its device's (link), one of the work queue's (work);
 *       ORDERED ones only on in_order. Being tried it stays where it is.
 *
 * Memory comes from a slab and is kept by the group while it lives: no malloc
 * on the way in.
 */
#ifndef UAIO_ENGINE_REQ_H
#define UAIO_ENGINE_REQ_H

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "wq/wq.h"
#include "file/file.h"
#include "engine/opdef.h"
#include "engine/order.h"
#include "engine/ready.h"

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
	UAIO_REQ_NR_STATES,
	/* A bit beside one of those: somebody tries whether it has to wait. */
	UAIO_REQ_TRIED = 8,
};

static_assert((int)UAIO_REQ_NR_STATES <= (int)UAIO_REQ_TRIED,
	      "a bit of its own");

enum { UAIO_REQ_INLINE_IOVS = 4 };

/*
 * The requests of one queue: what cancelling and closing the queue look
 * through, and where its free requests are kept.
 */
struct uaio_group {
	struct uaio_lock lock; /* rank GROUP */

	/* under lock */
	struct list requests;
	struct uaio_req *free; /* owns */

	struct uaio_ready ready;

	/* under page.c's lock */
	struct list paged;
	uint32_t nr_paged; /* atomic: or being tried */
};

struct uaio_req {
	/*
	 * First what every request that goes through a worker needs of both
	 * sides: three cache lines that change processors, and no more.
	 */
	alignas(64) struct uaio_slab_node node;

	/* under the group's lock */
	struct uaio_req *next_free;
	struct list in_group;

	/* immutable from PREPPED on */
	struct uaio_group *group; /* borrows: it outlives its requests */
	struct uaio_file *file;   /* shares (ref), or NULL: on none */

	/* the owner's, see the states */
	struct uaio_work work; /* QUEUED: the work queue's */
	uint32_t state;        /* atomic: enum uaio_req_state, see above */
	enum uaio_order order; /* immutable, but see order.c */
	int64_t done_bytes;    /* of a stream request that was cut */
	union {
		void *copy;        /* owns: of arguments, or NULL */
		struct iovec *iov; /* the same, if it is vectored */
	};
	struct uaio_sqe sqe; /* advanced as parts of it are done */
	bool is_blocking;    /* its file knows no RWF_NOWAIT */
	bool is_oldest;      /* of its device: it is read by a worker */
	bool owns_lane;      /* it runs on a worker, others wait */
	bool is_one_call;    /* its file may be closed meanwhile */
	uint32_t edges;      /* of its file, before it was tried; or 0 */
	int64_t until_ns;    /* it waits no longer; 0: for ever */

	/* And what only some do. */
	struct list link;
	struct uaio_canceller *canceller; /* TRIED: borrows, or NULL */
	struct list in_timed;             /* timed.c's, if it has a time */
	struct uaio_watch *watch;   /* borrows: its context's on its file */
	struct uaio_device *device; /* whose pages it waits for, or NULL */
	struct list in_paged;       /* of its group, under page.c's lock */
	struct list in_order;       /* under the inode's lock */
	struct uaio_range range; /* what it reads, or whose readers it minds */

	/* in cycles, the owner's; only where statistics are on */
	uint64_t submitted;   /* when the call of io_submit began */
	uint64_t handed_over; /* when it was found that it cannot be inline */
	uint64_t started;     /* when the last call for it was made; 0: none */

	struct iovec inline_iov[UAIO_REQ_INLINE_IOVS];
};

static_assert(offsetof(struct uaio_req, link) == (size_t)3 * 64,
	      "what both sides need is three lines");

/* From nothing. */
void uaio_reqs_init(void);

void uaio_group_init(struct uaio_group *group);
/* Give the free requests back; there are no others. */
void uaio_group_fini(struct uaio_group *group);

/*
 * Make a request of sqe: copy it and its vectors or path, take the references; parks: it
 * is to wait until its file is ready.
 * Return: 0 with a request in PREPPED; -EAGAIN if memory is refused, -EBADF.
 */
int uaio_req_new(struct uaio_queue *queue, const struct uaio_sqe *sqe,
		 bool parks, struct uaio_req **ret_req);

/*
 * Send a PREPPED request on its way: to a worker, once kick is delivered, or to
 * wait until its file is ready.
 */
void uaio_req_start(struct uaio_req *req, struct uaio_kick *kick);

/* Deliver: what no thread can be had for is made here. */
void uaio_req_kick(struct uaio_kick *kick);

/* From nothing: the work queue, for requests. */
void uaio_req_wq_init(void);

/* Create the workers that were not while somebody was about to leave. */
void uaio_req_revive(void);

/*
 * Return: whether a request on file is held at the end of the process: writes
 * and syncs of regular files outlast the wish to end (exit.h).
 */
static inline bool uaio_is_held(const struct uaio_file *file,
				const struct uaio_sqe *sqe)
{
	enum uaio_op_class class = uaio_optab[sqe->op].class;

	/* Both are on a file. */
	return (class == UAIO_CLASS_WRITE || class == UAIO_CLASS_SYNC) &&
	       file->kind < UAIO_KIND_STREAM;
}

static inline bool uaio_req_is_held(const struct uaio_req *req)
{
	return uaio_is_held(req->file, &req->sqe);
}

/* Return: the result of a RUNNING request, made here, however long it takes. */
int64_t uaio_req_make(struct uaio_req *req);

/* The same by a worker: who closes the file may go meanwhile (closing.h). */
int64_t uaio_req_make_by(struct uaio_req *req, struct uaio_worker *worker);

/* The same of part of one: of what sqe says, which is on the same file. */
int64_t uaio_req_make_part(struct uaio_req *req, const struct uaio_sqe *sqe);

/*
 * Make a RUNNING stream request as far as is possible without blocking, on fd.
 * Return: its result; -EAGAIN if it has to wait (part of it may be done),
 * -EOPNOTSUPP if the file knows no such call.
 */
int64_t uaio_req_try(struct uaio_req *req, int fd);

/* bytes of a write have been written: the rest is what remains to do. */
void uaio_req_advance(struct uaio_req *req, uint64_t bytes);

/*
 * Complete a RUNNING request: post its event, start what waited for it. is_last:
 * for who leaves the process or its program, and creates no thread. worker: by
 * whom, or NULL: who is counted as blocked meanwhile.
 */
void uaio_req_complete_by(struct uaio_req *req, int64_t res, bool is_last,
			  struct uaio_worker *worker);

static inline void uaio_req_complete(struct uaio_req *req, int64_t res)
{
	uaio_req_complete_by(req, res, false, NULL);
}

/*
 * The same for reads that wait for nothing but their pages: at most
 * UAIO_REQS_TOGETHER, posted together where they are of one context.
 */
enum { UAIO_REQS_TOGETHER = 16 };

void uaio_req_complete_reads(struct uaio_req *const *reqs,
			     const int64_t *results, unsigned nr);

/*
 * Free the requests of group that works, all of requests without a file, begins
 * with, and fill in their completions: done_bytes is the result.
 * Return: their number, at most max.
 */
unsigned uaio_reqs_unlink(struct uaio_group *group, struct list *works,
			  struct uaio_completion *ret_completions,
			  unsigned max);

/* Return: what a request reports that was cancelled. */
int64_t uaio_req_cancelled_res(const struct uaio_req *req);

/* Start a list of PREPPED requests. */
void uaio_req_start_all(struct list *startable);

static inline struct uaio_req *uaio_req_of(const struct uaio_work *work)
{
	UAIO_CHECK(!work->is_part);
	return container_of(work, struct uaio_req, work);
}

static inline enum uaio_req_state uaio_req_state(const struct uaio_req *req)
{
	/* relaxed: worth something only under the lock of an edge */
	return load_relaxed(&req->state);
}

/* Return: the inode of the file it is on; NULL for streams, devices, none. */
static inline struct uaio_inode *uaio_req_inode(const struct uaio_req *req)
{
	return likely(req->file) ? req->file->inode : NULL;
}

/*
 * Return: the account a request is queued on, if it is. Bounded ones end by
 * themselves: those of files with an inode, and calls that never block.
 */
static inline enum uaio_account uaio_req_account(const struct uaio_req *req)
{
	bool is_bounded = likely(req->file)
				  ? req->file->kind < UAIO_KIND_STREAM
				  : uaio_optab[req->sqe.op].never_blocks;

	return is_bounded ? UAIO_BOUNDED : UAIO_UNBOUNDED;
}

/* Move a request between states; the edge must be the caller's to take. */
static inline void uaio_req_move(struct uaio_req *req, enum uaio_req_state from,
				 enum uaio_req_state to)
{
	/* relaxed: the lock of the edge orders it; others only peek */
	UAIO_CHECK(load_relaxed(&req->state) == from);
	store_relaxed(&req->state, to);
}

/* The same for who looks at something else next, which another writes first. */
static inline void uaio_req_move_seq_cst(struct uaio_req *req,
					 enum uaio_req_state from,
					 enum uaio_req_state to)
{
	UAIO_CHECK(load_relaxed(&req->state) == from);
	/* [MB:closing] seq_cst: see the caller. */
	store_seq_cst(&req->state, to);
}

#endif /* UAIO_ENGINE_REQ_H */
