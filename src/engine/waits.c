/* SPDX-License-Identifier: MIT */
#include "engine/waits.h"

#include "base/sleep.h"

const struct uaio_wait_ops *uaio_waits[UAIO_REQ_NR_STATES];

void uaio_canceller_tell(struct uaio_canceller *canceller, bool was_cancelled)
{
	if (likely(!canceller))
		return;
	/* relaxed: ordered by what follows */
	if (was_cancelled)
		add_relaxed(&canceller->nr_cancelled, 1);
	/*
	 * [MB:told] release: the event is posted. Pairs with
	 * uaio_canceller_await(), which may return at once.
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
	/* relaxed: all have told */
	return load_relaxed(&canceller->nr_cancelled);
}
