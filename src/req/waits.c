/* SPDX-License-Identifier: MIT */
#include "req/waits.h"

#include "base/sleep.h"

const struct uaio_wait_ops *uaio_waits[UAIO_REQ_NR_STATES];

struct wanted {
	uaio_is_wanted_fn *is_wanted;
	const void *arg;
};

/*
 * The caller will execute the request itself, so it must have the request's
 * credentials.
 */
static bool may_take(const struct uaio_req *req, const void *arg)
{
	const struct wanted *wanted = arg;

	return uaio_wq_is_mine(&req->work) &&
	       wanted->is_wanted(req, wanted->arg);
}

struct uaio_req *uaio_waits_take(uaio_is_wanted_fn *is_wanted, const void *arg)
{
	const struct wanted wanted = { is_wanted, arg };
	struct uaio_req *req = NULL;

	for (unsigned i = 0; i < UAIO_REQ_NR_STATES && !req; i++)
		if (uaio_waits[i] && uaio_waits[i]->take)
			req = uaio_waits[i]->take(may_take, &wanted);
	return req;
}

bool uaio_waits_may_await(const struct uaio_req *req)
{
	for (unsigned i = 0; i < UAIO_REQ_NR_STATES; i++)
		if (uaio_waits[i] && uaio_waits[i]->may_await &&
		    uaio_waits[i]->may_await(req))
			return true;
	return false;
}

void uaio_waits_give_up(struct uaio_file *file, struct list *ret_startable)
{
	for (unsigned i = 0; i < UAIO_REQ_NR_STATES; i++)
		if (uaio_waits[i] && uaio_waits[i]->give_up)
			uaio_waits[i]->give_up(file, ret_startable);
}

void uaio_waits_close_group(struct uaio_group *group)
{
	for (unsigned i = 0; i < UAIO_REQ_NR_STATES; i++)
		if (uaio_waits[i] && uaio_waits[i]->close_group)
			uaio_waits[i]->close_group(group);
}

static struct uaio_canceller nobody;

enum uaio_cancel uaio_try_mark_locked(struct uaio_req *req,
				      struct uaio_canceller *canceller)
{
	req->canceller = &nobody;
	if (uaio_entry.run->posted != req)
		return UAIO_CANCEL_MARKED;
	/*
	 * This thread is trying this request, and is posting one of its results. After
	 * the post, this thread completes the request as cancelled.
	 */
	add_relaxed(&canceller->nr_cancelled, 1);
	return UAIO_CANCEL_ASKED;
}

void uaio_canceller_tell(struct uaio_canceller *canceller, bool was_cancelled)
{
	if (likely(!canceller) || canceller == &nobody)
		return;
	/* relaxed: the release of nr_awaited below orders this addition */
	if (was_cancelled)
		add_relaxed(&canceller->nr_cancelled, 1);
	/*
	 * [MB:told] release: the event was posted, and nr_cancelled changed, before
	 * this. Pairs with uaio_canceller_await(), which may return as soon as
	 * nr_awaited is 0.
	 */
	if (sub_release(&canceller->nr_awaited, 1) == 1)
		uaio_wake(&canceller->nr_awaited, 1);
}

uint32_t uaio_canceller_await(struct uaio_canceller *canceller)
{
	uint32_t nr;

	/* [MB:told] acquire: pairs with uaio_canceller_tell(). */
	while ((nr = load_acquire(&canceller->nr_awaited)))
		(void)uaio_sleep(&canceller->nr_awaited, nr, UAIO_FOREVER);
	/*
	 * relaxed: no thread changes nr_cancelled any more, and the acquire above
	 * orders this load
	 */
	return load_relaxed(&canceller->nr_cancelled);
}
