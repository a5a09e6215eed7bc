/* SPDX-License-Identifier: MIT */
/*
 * Chains: submitting requests that are linked (link.h)
 *
 * A front-end (kernel AIO, io_uring or POSIX AIO) begins a chain beside its batch
 * (submit.h). It adds to the chain each request that has a flag in sqe.links. It also
 * adds each request that is submitted while the chain is open or a drain is pending
 * (drain.h). All other requests go to the batch. The first request without a link flag,
 * or the end of the submission, completes the chain. Only then does the chain's first
 * request start, so that an invalid request can cancel the whole chain. The later
 * requests of the chain, and all requests that a drain releases, start when the
 * submission ends. As in the kernel, the requests of the batch start before all of these.
 *
 * As in the kernel, the file of a request in a chain is looked up when the request
 * starts. Until then the program may open the descriptor, or register another file at
 * the request's index. If there is no file when the request starts, the request fails
 * with EBADF. The arguments of a request are checked earlier, when it is added, against
 * the file that its descriptor has at that moment.
 *
 * Context: any thread that has entered the library (entry.h). Only the thread that began a
 * chain uses it.
 *
 * Tested by test-link.c.
 */
#ifndef UAIO_ISSUE_CHAIN_H
#define UAIO_ISSUE_CHAIN_H

#include <stdbool.h>

#include "base/list.h"
#include "op/op.h"
#include "flow/drain.h"
#include "issue/submit.h"

struct uaio_req;

struct uaio_chain {
	struct uaio_batch *batch;      /* borrows */
	struct uaio_req *first, *last; /* or NULL */
	bool is_open;
	bool is_broken; /* all requests of the chain have to be cancelled */
	/* all requests of the chain, even the first, start only when the submission ends */
	bool is_late;
	int mistake; /* error of the request added last, as -errno; 0: none */
	bool has_later;
	/*
	 * requests in the state PREPPED (req.h) that start when the submission ends;
	 * initialised only if has_later
	 */
	struct list later;
};

/*
 * Register the function that starts the waiting requests of a chain (link.h). Called each
 * time the engine starts.
 */
void uaio_chain_init(void);

static inline void uaio_chain_begin(struct uaio_chain *chain,
				    struct uaio_batch *batch)
{
	*chain = (struct uaio_chain){ .batch = batch };
}

static inline bool uaio_chain_is_open(const struct uaio_chain *chain)
{
	return chain->is_open;
}

/*
 * Return: whether sqe has to be added to the chain, not to the batch. This is so if sqe is
 * linked or a drain, or if sqe must wait for a drain (drain.h).
 */
static inline bool uaio_chain_takes(const struct uaio_chain *chain,
				    const struct uaio_sqe *sqe)
{
	return sqe->links || sqe->op == UAIO_OP_LINK_TIMER || chain->is_open ||
	       uaio_drain_is_on(&chain->batch->by.queue->group);
}

/*
 * Add a request to the chain; if no chain is open, begin one.
 * Return: 0: the request will have its completion; -EAGAIN: there is no memory for the
 * request. It then has no completion, and the earlier requests of its chain are
 * cancelled.
 */
int uaio_chain_add(struct uaio_chain *chain, const struct uaio_sqe *sqe);

/*
 * As uaio_chain_add(), for a request on a registered file. sqe->fd is the file's index, which
 * sink->get_fixed() looks up.
 */
int uaio_chain_add_fixed(struct uaio_chain *chain, const struct uaio_sqe *sqe);

/*
 * Add a request that the front-end refuses, so that it completes with `error`. If
 * is_late, it completes when its turn in the chain comes. Otherwise the whole chain is
 * cancelled at once.
 */
int uaio_chain_refuse(struct uaio_chain *chain, const struct uaio_sqe *sqe,
		      int error, bool is_late);

/*
 * For submit.c: make a request of the batch start later, after plan->defer_ns (defer.h).
 * The request then forms a chain by itself. The caller keeps the queue from being freed
 * (uaio_ready_pin()).
 * Return: false if the request cannot be deferred; the caller then issues it.
 */
struct uaio_fault_plan;
bool uaio_chain_defer(struct uaio_batch *batch, struct uaio_file *file,
		      const struct uaio_sqe *sqe,
		      const struct uaio_fault_plan *plan);

void uaio_chain_end_slowly(struct uaio_chain *chain);

/*
 * The submission ends: start the open chain, if any, and all requests whose start was put off
 * until now.
 */
static inline void uaio_chain_end(struct uaio_chain *chain)
{
	if (unlikely(chain->first || chain->is_open || chain->is_broken ||
		     chain->has_later))
		uaio_chain_end_slowly(chain);
}

#endif /* UAIO_ISSUE_CHAIN_H */
