/* SPDX-License-Identifier: MIT */
/*
 * Chains: submitting requests that are linked (link.h)
 *
 * Beside its batch (submit.h), a front-end (kernel AIO, io_uring or POSIX AIO) begins a chain.
 * It adds to the chain each request that has a flag in sqe.links, or that is submitted while
 * the chain is open or a drain is pending (drain.h); all others go to the batch. The first
 * request without a link flag, or the end of the submission, completes the chain. Only then
 * does its first request start, so that an invalid request cancels the whole chain. The other
 * requests, and those that a drain releases, start when the submission ends, as in the kernel:
 * requests of the submission that are in no chain start before them.
 *
 * The file of a request in a chain is looked up when the request starts, as in the kernel:
 * until then the descriptor may be opened, or another file registered at its index. If no file
 * is open there at that time, the request fails with EBADF. Its arguments are checked when it
 * is added, against the file that the descriptor refers to at that time.
 *
 * Context: as in submit.h. A chain belongs to its thread.
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
	bool is_broken; /* the whole chain has to be cancelled */
	/* even the first request of the chain starts only when the submission ends */
	bool is_late;
	int mistake; /* -errno of the last request added; or 0 */
	bool has_later;
	/* PREPPED, to start when the submission ends; unset unless has_later */
	struct list later;
};

/*
 * Return: whether sqe has to be added to the chain, not to the batch, because it is linked, is
 * a drain, or comes after a drain that it must not overtake (drain.h).
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
 * Return: whether sqe has to be added to the chain, not to the batch: it is linked, or a
 * drain, or would overtake a drain (drain.h).
 */
static inline bool uaio_chain_takes(const struct uaio_chain *chain,
				    const struct uaio_sqe *sqe)
{
	return sqe->links || sqe->op == UAIO_OP_LINK_TIMER || chain->is_open ||
	       uaio_drain_is_on(&chain->batch->by.queue->group);
}

/*
 * Add a request to the chain; without an open chain, begin one.
 * Return: 0: the request will have its completion; -EAGAIN: memory is refused, so the request
 * is refused and the earlier ones of its chain are cancelled.
 */
int uaio_chain_add(struct uaio_chain *chain, const struct uaio_sqe *sqe);

/*
 * As uaio_chain_add(), for a request on a registered file. sqe->fd is the file's index, which
 * sink->get_fixed() looks up.
 */
int uaio_chain_add_fixed(struct uaio_chain *chain, const struct uaio_sqe *sqe);

/*
 * Add a request that the front-end refuses: it completes with error. If is_late, it fails when
 * its turn comes; otherwise the whole chain is cancelled.
 */
int uaio_chain_refuse(struct uaio_chain *chain, const struct uaio_sqe *sqe,
		      int error, bool is_late);

/*
 * For submit.c: defer a request of the batch by the time in plan (defer.h). The request then
 * forms a chain by itself. The caller has pinned the queue.
 * Return: false if the request cannot be deferred; the caller still has to issue it.
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
