/* SPDX-License-Identifier: MIT */
/*
 * Limits how many workers one device may occupy. So a device that hangs leaves workers
 * for items of other devices (I7 of wq.h).
 *
 * Once 7/8 of the allowed workers exist, a worker that takes an item counts the workers
 * that are busy with the item's device. (While there are fewer workers, nothing is
 * counted.) A device may occupy seven workers for each worker that is free or may still
 * be created. So the first device that hangs gets 7/8 of the limit, the second 7/8 of
 * the remaining workers, and so on. A device that occupies no worker may always have
 * one.
 *
 * Tested by test-queue-devices.c.
 */
#include "base/check.h"
#include "wq/wqint.h"

enum { WORKERS_PER_FREE = 7 };

void uaio_wq_devices_init(struct uaio_wq_account *account)
{
	for (unsigned i = 0; i < UAIO_WQ_DEVICES_MAX; i++)
		list_init(&account->devices[i].items);
}

/*
 * Return: how many workers are in calls on this device; *ret_nr_busy: in calls on any
 * device.
 */
static unsigned count_busy_locked(const struct uaio_wq_account *account,
				  uint32_t device, unsigned *ret_nr_busy)
{
	unsigned nr_of_device = 0;

	*ret_nr_busy = 0;
	list_for_each (pos, &account->workers) {
		const struct uaio_worker *worker =
			container_of(pos, struct uaio_worker, node);

		/*
		 * relaxed, both: if this reads an old busy_since_ns, the worker has
		 * just returned from its call, and looks for work itself. `device` is
		 * up to date: the worker writes it before it sets busy_since_ns under
		 * the lock.
		 */
		if (!load_relaxed(&worker->busy_since_ns))
			continue;
		++*ret_nr_busy;
		nr_of_device += load_relaxed(&worker->device) == device;
	}
	return nr_of_device;
}

static __attribute__((noinline)) bool
has_share_locked(const struct uaio_wq_account *account, uint32_t device)
{
	unsigned nr_busy, nr_free;
	unsigned nr = count_busy_locked(account, device, &nr_busy);

	nr_free = account->max_workers > nr_busy
			  ? account->max_workers - nr_busy
			  : 0;
	return !nr || nr < WORKERS_PER_FREE * nr_free;
}

bool uaio_wq_may_start_locked(const struct uaio_wq_account *account,
			      const struct uaio_work *work)
{
	/*
	 * Fast path: even if one device occupied all existing workers, it would not
	 * exceed its limit.
	 */
	return likely(account->nr_workers * (WORKERS_PER_FREE + 1) <
		      account->max_workers * WORKERS_PER_FREE) ||
	       !work->may_block || !work->device ||
	       has_share_locked(account, work->device);
}

/* Return: the device with this number if items wait for it; else NULL. */
static struct uaio_wq_device *find_locked(struct uaio_wq_account *account,
					  uint32_t number)
{
	for (unsigned i = 0; i < UAIO_WQ_DEVICES_MAX; i++) {
		struct uaio_wq_device *device = &account->devices[i];

		if (device->number == number && !list_is_empty(&device->items))
			return device;
	}
	return NULL;
}

static struct uaio_wq_device *
find_unused_locked(struct uaio_wq_account *account)
{
	for (unsigned i = 0; i < UAIO_WQ_DEVICES_MAX; i++)
		if (list_is_empty(&account->devices[i].items))
			return &account->devices[i];
	return NULL;
}

static void append_locked(struct uaio_wq_account *account,
			  struct uaio_wq_device *device, struct uaio_work *work)
{
	work->is_held = true;
	work->slot = NULL;
	list_add_tail(&device->items, &work->link);
	account->nr_held++;
}

bool uaio_wq_hold_locked(struct uaio_wq_account *account,
			 struct uaio_work *work)
{
	struct uaio_wq_device *device = find_locked(account, work->device);

	if (!device)
		device = find_unused_locked(account);
	if (!device)
		return false;
	device->number = work->device;
	append_locked(account, device, work);
	return true;
}

bool uaio_wq_hold_behind_locked(struct uaio_wq_account *account,
				struct uaio_work *work)
{
	struct uaio_wq_device *device =
		work->may_block && work->device
			? find_locked(account, work->device)
			: NULL;

	if (!device)
		return false;
	work->is_public = false;
	append_locked(account, device, work);
	return true;
}

void uaio_wq_unhold_locked(struct uaio_wq_account *account,
			   struct uaio_work *work)
{
	work->is_held = false;
	list_remove(&work->link);
	account->nr_held--;
}

struct uaio_work *uaio_wq_held_locked(const struct uaio_wq_account *account)
{
	for (unsigned i = 0; i < UAIO_WQ_DEVICES_MAX; i++) {
		const struct uaio_wq_device *device = &account->devices[i];

		if (!list_is_empty(&device->items) &&
		    has_share_locked(account, device->number))
			return container_of(device->items.next,
					    struct uaio_work, link);
	}
	return NULL;
}
