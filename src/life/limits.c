/* SPDX-License-Identifier: MIT */
/*
 * Stores the limits of workers
 *
 * Options set the limits first; later the program may change them by functions of
 * uaio.h. The limits are stored here. So they can be set before the library is started,
 * and still hold in a child of fork(). While the library is started, each change is
 * applied to the work queue at once.
 *
 *   I1  The stored limits are consistent: no account (kind of work) has more fixed workers than
 *       its maximum of workers. A change that would make them inconsistent is refused as a
 *       whole, for both accounts.
 *   I2  While the library is started, the work queue has the stored limits.
 *
 * Thread-safety: any thread; the functions hold the lock for starting the library.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "options/config.h"
#include "options/options.h"
#include "proc/process.h"
#include "wq/wq.h"
#include "life/life.h"

static_assert((int)UAIO_WQ_BOUNDED == UAIO_BOUNDED &&
		      (int)UAIO_WQ_UNBOUNDED == UAIO_UNBOUNDED &&
		      UAIO_NR_ACCOUNTS == 2,
	      "the accounts of uaio.h are the queue's");

/*
 * The limits of one account (kind of work). In an argument that changes limits, -1
 * keeps the old value.
 */
struct limits {
	int max_workers;
	struct uaio_wq_fixed_limits fixed;
};

static const struct limits no_change = { -1, { -1, -1 } };

/* accessed only under the lock for starting the library */
static struct {
	struct limits now[UAIO_NR_ACCOUNTS];
	/*
	 * true: a function of uaio.h has set the limits; false: the options determine
	 * them
	 */
	bool is_set;
} kept;

static struct limits *current(void)
{
	if (kept.is_set)
		return kept.now;
	for (int i = 0; i < UAIO_NR_ACCOUNTS; i++)
		kept.now[i] = (struct limits){
			.max_workers = uaio_option_count(
				UAIO_OPTION_WORKERS, uaio_config.workers, i),
			.fixed.nr_workers = uaio_option_count(
				UAIO_OPTION_FIXED, uaio_config.fixed, i),
			.fixed.max_items =
				uaio_option_count(UAIO_OPTION_MAX_ITEMS,
						  uaio_config.max_items, i),
		};
	return kept.now;
}

static int merged(int now, int asked)
{
	return asked < 0 ? now : asked;
}

static bool is_number(int asked, int max)
{
	return asked >= -1 && asked <= max;
}

/*
 * Compute *ret_next: the limits `now` with the change `asked`.
 * Return: false if the result is not consistent (I1).
 */
static bool merge(const struct limits *now, const struct limits *asked,
		  struct limits *ret_next)
{
	int max_items = merged(now->fixed.max_items, asked->fixed.max_items);

	if (!is_number(asked->max_workers, UAIO_WQ_WORKERS_MAX) ||
	    !is_number(asked->fixed.nr_workers, UAIO_WQ_FIXED_MAX) ||
	    !is_number(asked->fixed.max_items, INT_MAX))
		return false;
	*ret_next = (struct limits){
		.max_workers = merged(now->max_workers, asked->max_workers),
		.fixed.nr_workers =
			merged(now->fixed.nr_workers, asked->fixed.nr_workers),
		.fixed.max_items = max_items < UAIO_WQ_ITEMS_MAX
					   ? max_items
					   : UAIO_WQ_ITEMS_MAX,
	};
	return ret_next->fixed.nr_workers <= ret_next->max_workers;
}

/* Apply changed limits of one account to the work queue. */
static int give_to_queue(int account, const struct limits *asked)
{
	enum uaio_account id = (enum uaio_account)account;
	struct uaio_wq_fixed_limits old;
	int ret = uaio_wq_limit_workers(id, asked->max_workers);

	return ret < 0 ? ret : uaio_wq_limit_fixed(id, &asked->fixed, &old);
}

void uaio_limits_apply(void)
{
	const struct limits *now = current();

	for (int i = 0; i < UAIO_NR_ACCOUNTS; i++)
		(void)give_to_queue(i, &now[i]);
}

static int set_locked(const struct limits asked[], bool is_up,
		      struct limits ret_old[])
{
	struct limits *now = current(), next[UAIO_NR_ACCOUNTS];
	int ret = 0;

	for (int i = 0; i < UAIO_NR_ACCOUNTS; i++)
		if (!merge(&now[i], &asked[i], &next[i]))
			return -EINVAL;
	for (int i = 0; i < UAIO_NR_ACCOUNTS && is_up && ret == 0; i++)
		ret = give_to_queue(i, &asked[i]);
	if (ret < 0) {
		/*
		 * UNTESTED: cannot happen, as the work queue accepts all consistent
		 * limits.
		 */
		uaio_limits_apply();
		return ret;
	}
	for (int i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		ret_old[i] = now[i];
		now[i] = next[i];
		kept.is_set |=
			memcmp(&asked[i], &no_change, sizeof(no_change)) != 0;
	}
	return 0;
}

static int set(const struct limits asked[], struct limits ret_old[])
{
	bool is_up;
	int ret = uaio_engine_lock_state(&is_up);

	if (ret < 0)
		return ret;
	ret = set_locked(asked, is_up, ret_old);
	uaio_engine_unlock_state();
	return ret;
}

int uaio_limits_set_workers(int max_workers[])
{
	struct limits asked[UAIO_NR_ACCOUNTS], old[UAIO_NR_ACCOUNTS];
	int ret;

	for (int i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		asked[i] = no_change;
		asked[i].max_workers = max_workers[i];
	}
	ret = set(asked, old);
	for (int i = 0; i < UAIO_NR_ACCOUNTS && ret == 0; i++)
		max_workers[i] = old[i].max_workers;
	return ret;
}

int uaio_limits_set_fixed(struct uaio_wq_fixed fixed[])
{
	struct limits asked[UAIO_NR_ACCOUNTS], old[UAIO_NR_ACCOUNTS];
	int ret;

	for (int i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		asked[i] = no_change;
		asked[i].fixed.nr_workers = fixed[i].nr_workers;
		asked[i].fixed.max_items = fixed[i].max_items;
	}
	ret = set(asked, old);
	for (int i = 0; i < UAIO_NR_ACCOUNTS && ret == 0; i++)
		fixed[i] = (struct uaio_wq_fixed){
			.nr_workers = old[i].fixed.nr_workers,
			.max_items = old[i].fixed.max_items,
		};
	return ret;
}
