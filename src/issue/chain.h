/* SPDX-License-Identifier: MIT */
/*
 * Chains: submitting requests that are linked (link.h)
 *
 * A door begins a chain beside its batch, and adds to it each request that has a
 * flag in sqe.links, and each that comes while a chain is open or a drain is on
 * (drain.h); all others it adds to the batch. The first request without a flag
 * ends the chain, and so does the end of the submission. Only then does the first
 * request start, so that a mistake in any of them cancels all. What is behind the first,
 * and what a drain lets go, starts when the submission ends, as in the kernel: what is
 * submitted with it and is in no chain comes before.
 *
 * The door does not look up the file of a request in a chain. That is done when the
 * request starts, as in the kernel: until then the descriptor may be opened, or
 * another file fixed at its place. If there is no file then, that is the result.
 * A mistake is found by the file that is there when the request is added.
 *
 * Context: as submit.h. A chain is its thread's.
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
	bool is_broken; /* it is to be cancelled */
	bool is_late; /* its first request starts when the submission ends, too */
	int mistake; /* of the last that was added, as -errno; or 0 */
	bool has_later;
	struct list
		later; /* PREPPED requests that start then; nothing without it */
};

/* Called each time the engine starts. */
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
 * Return: whether sqe is to be added to the chain, and not to the batch: it is
 * linked, or a drain, or would overtake a drain (drain.h).
 */
static inline bool uaio_chain_takes(const struct uaio_chain *chain,
				    const struct uaio_sqe *sqe)
{
	return sqe->links || sqe->op == UAIO_OP_LINK_TIMER || chain->is_open ||
	       uaio_drain_is_on(&chain->batch->by.queue->group);
}

/*
 * Add a request to the chain, which it opens if there is none.
 * Return: 0: it will have its completion; -EAGAIN: it is refused, as there is no
 * memory, and what was linked before it is cancelled.
 */
int uaio_chain_add(struct uaio_chain *chain, const struct uaio_sqe *sqe);

/*
 * The same for a request on a fixed file. sqe->fd is the file's place, which the
 * sink looks up (get_fixed).
 */
int uaio_chain_add_fixed(struct uaio_chain *chain, const struct uaio_sqe *sqe);

/*
 * The same for a request that the door refuses itself: error is its result. If
 * is_late, that is so when its turn comes; otherwise all of the chain is cancelled.
 */
int uaio_chain_refuse(struct uaio_chain *chain, const struct uaio_sqe *sqe,
		      int error, bool is_late);

/*
 * For submit.c: defer a request of the batch by its plan (defer.h), which is then as one
 * of a chain of its own. The caller has pinned the queue.
 * Return: false if it cannot be deferred, and is the caller's still.
 */
struct uaio_fault_plan;
bool uaio_chain_defer(struct uaio_batch *batch, struct uaio_file *file,
		      const struct uaio_sqe *sqe,
		      const struct uaio_fault_plan *plan);

void uaio_chain_end_slowly(struct uaio_chain *chain);

/*
 * The submission ends: start the chain that is open, if any, and what was left until
 * now.
 */
static inline void uaio_chain_end(struct uaio_chain *chain)
{
	if (unlikely(chain->first || chain->is_open || chain->is_broken ||
		     chain->has_later))
		uaio_chain_end_slowly(chain);
}

#endif /* UAIO_ISSUE_CHAIN_H */
