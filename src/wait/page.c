/* SPDX-License-Identifier: MIT */
#include "wait/page.h"

#include <errno.h>
#include <fcntl.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "file/inspect.h"
#include "file/inode.h"
#include "req/call.h"
#include "req/queue.h"
#include "req/req.h"
#include "req/waits.h"

enum {
	/*
	 * The number of devices that can have a list of cold reads. Cold reads of other
	 * devices go to workers.
	 */
	NR_DEVICES = 64,
	/*
	 * About the length of a disk's own queue. If more reads were pending, io_submit
	 * would wait while it starts to read pages. With this limit a workload at depth
	 * 256 makes 0.03 context switches for each read. If the limit is so low that
	 * half of the reads go to workers, the workload makes 0.38.
	 */
	MAX_PENDING = 256,
	/*
	 * How many requests a thread tries together, and how often in a row. A worker
	 * tries fewer requests, to leave some to the waiting thread that it has just
	 * woken. When a worker tried 16 requests, at depth 32, the waiting thread found
	 * no request to try, and slept again. That made 0.14 context switches for each
	 * read instead of 0.10.
	 */
	WAITER_TRIES = UAIO_REQS_TOGETHER,
	WAITER_ROUNDS = 4,
	WORKER_TRIES = 4,
	WORKER_ROUNDS = 16,
	/*
	 * A disk completes reads in about the order of submission. So if this many of
	 * the requests that a thread tries together have found no pages, the thread
	 * does not try the later ones.
	 */
	MISSES = 4,
	/*
	 * A worker executes the oldest read of a device, then the next oldest, and so
	 * on. If this many of these reads return, and meanwhile no try of another read
	 * succeeds, readahead by the submitter does not help (page.h, I5).
	 */
	MAX_FUTILE = 16,
	FIRST_SKIPS = 1 << 10,
	MAX_SKIPS = 1 << 20,
};

struct uaio_device {
	/* immutable once nr_devices includes this device */
	/* UINT64_MAX: a block device, whose number is rdev */
	uint64_t dev;
	uint64_t rdev;
	/* the device is a file server, which may respond late or never */
	bool is_remote;

	/* atomic, a hint */
	/*
	 * how many of the next reads go to workers at once, and do not wait for pages
	 * (I5)
	 */
	uint32_t nr_skips;

	/* under lock; submitters also read nr_pending without the lock (atomic) */
	struct list pending;
	uint32_t nr_pending;
	/* a read of the device is queued for a worker, or a worker executes it */
	bool has_oldest;
	/* a try of another read has succeeded since has_oldest was set */
	bool has_found;
	uint32_t nr_futile;
	uint32_t next_skips;
};

static struct {
	/* atomic: how many devices are in use; written under lock */
	uint32_t nr_devices;
	struct uaio_lock lock; /* rank PAGE */

	/* under lock */
	struct uaio_device devices[NR_DEVICES];
} pages;

void uaio_page_init_group(struct uaio_group *group)
{
	/*
	 * Take the lock, because this memory may have belonged to an earlier queue. A
	 * thread that waited for events of that queue may still read the list and its
	 * count.
	 */
	uaio_lock(&pages.lock, UAIO_RANK_PAGE);
	list_init(&group->paged);
	store_relaxed(&group->nr_paged, 0);
	uaio_unlock(&pages.lock, UAIO_RANK_PAGE);
}

static struct uaio_device *find_device(uint64_t dev, uint64_t rdev)
{
	/*
	 * [MB:device] acquire: all members of these devices are set. Pairs with
	 * add_device_locked().
	 */
	uint32_t nr = load_acquire(&pages.nr_devices);

	for (uint32_t i = 0; i < nr; i++)
		if (pages.devices[i].dev == dev &&
		    pages.devices[i].rdev == rdev)
			return &pages.devices[i];
	return NULL;
}

static struct uaio_device *add_device_locked(uint64_t dev, uint64_t rdev,
					     bool is_remote)
{
	/* relaxed: nr_devices changes only under the lock, which the caller holds */
	uint32_t nr = load_relaxed(&pages.nr_devices);
	struct uaio_device *device = &pages.devices[nr];

	if (nr == NR_DEVICES)
		return NULL;
	*device = (struct uaio_device){
		.dev = dev,
		.rdev = rdev,
		.is_remote = is_remote,
		.next_skips = FIRST_SKIPS,
	};
	list_init(&device->pending);
	/*
	 * [MB:device] release: all members of the device are set. Pairs with
	 * find_device().
	 */
	store_release(&pages.nr_devices, nr + 1);
	return device;
}

static struct uaio_device *new_device(uint64_t dev, uint64_t rdev, int fd)
{
	/*
	 * If the device is a file server, each read gets a worker of its own. So a read
	 * that the server never answers does not delay other reads.
	 */
	bool is_remote = uaio_is_remote(fd);
	struct uaio_device *device;
	struct stat st;

	/*
	 * If fd refers to another file by now, is_remote may describe that file: do not
	 * add the device.
	 */
	if (sys_fstat(fd, &st) < 0 ||
	    (dev == UINT64_MAX ? st.st_rdev != rdev : st.st_dev != dev))
		return NULL;
	uaio_lock(&pages.lock, UAIO_RANK_PAGE);
	device = find_device(dev, rdev);
	if (!device)
		device = add_device_locked(dev, rdev, is_remote);
	uaio_unlock(&pages.lock, UAIO_RANK_PAGE);
	return device;
}

static struct uaio_device *device_of(const struct uaio_inode *inode, int fd)
{
	/*
	 * relaxed: the struct may describe another inode by now. Then the read waits in
	 * the list of a wrong device, where it is executed all the same (page.h, I2)
	 */
	uint64_t dev = load_relaxed(&inode->dev);
	uint64_t rdev = dev == UINT64_MAX ? load_relaxed(&inode->ino) : 0;
	struct uaio_device *device = find_device(dev, rdev);

	return device ? device : new_device(dev, rdev, fd);
}

/*
 * Return: whether this read must go to a worker, because recent tries have found no
 * pages (I5).
 */
static bool skip(struct uaio_device *device)
{
	/* relaxed: if an update is lost, one read more or less goes to a worker */
	uint32_t nr = load_relaxed(&device->nr_skips);

	if (likely(!nr))
		return false;
	store_relaxed(&device->nr_skips, nr - 1);
	return true;
}

static void give_up_locked(struct uaio_device *device)
{
	/* relaxed: a hint */
	store_relaxed(&device->nr_skips, device->next_skips);
	if (device->next_skips < MAX_SKIPS)
		device->next_skips *= 2;
	device->nr_futile = 0;
}

bool uaio_page_start(const struct uaio_inode *inode, const struct uaio_sqe *sqe,
		     uint64_t bytes)
{
	struct uaio_device *device = device_of(inode, sqe->fd);

	/* relaxed: the limit need not be exact */
	if (!device || device->is_remote || skip(device) ||
	    load_relaxed(&device->nr_pending) >= MAX_PENDING)
		return false;
	if (sys_fadvise(sqe->fd, sqe->off, (int64_t)bytes,
			POSIX_FADV_WILLNEED) == 0)
		return true;
	uaio_lock(&pages.lock, UAIO_RANK_PAGE);
	give_up_locked(device);
	uaio_unlock(&pages.lock, UAIO_RANK_PAGE);
	return false;
}

/*
 * relaxed throughout: the counts are written under the lock. Without the lock they are
 * read as a hint
 */
static void enter_locked(struct uaio_req *req)
{
	struct uaio_device *device = req->device;

	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_PAGED);
	list_add_tail(&device->pending, &req->link);
	store_relaxed(&device->nr_pending, device->nr_pending + 1);
	list_add_tail(&req->group->paged, &req->in_paged);
	store_relaxed(&req->group->nr_paged, req->group->nr_paged + 1);
}

static void leave_locked(struct uaio_req *req)
{
	struct uaio_device *device = req->device;

	list_remove(&req->link);
	store_relaxed(&device->nr_pending, device->nr_pending - 1);
	list_remove(&req->in_paged);
	store_relaxed(&req->group->nr_paged, req->group->nr_paged - 1);
}

/*
 * Return: whether req may be tried or queued: no thread is trying it, and its file is
 * not being closed. (If it is, the closing thread queues req.)
 */
static bool is_free_locked(const struct uaio_req *req)
{
	/*
	 * relaxed: the closing thread sets is_closing, and then searches under this
	 * lock. So this thread sees is_closing, or the closing thread finds req
	 */
	return uaio_req_state(req) == UAIO_REQ_PAGED &&
	       !load_relaxed(&req->file->is_closing);
}

static void start_locked(struct uaio_req *req, struct list *ret_startable)
{
	leave_locked(req);
	uaio_req_move(req, UAIO_REQ_PAGED, UAIO_REQ_PREPPED);
	req->next = UAIO_NEXT_WORKER;
	list_add_tail(ret_startable, &req->link);
}

/*
 * Queue the oldest request of the device for a worker, unless a read of the device is
 * queued or executed already (I2).
 */
static void start_oldest_locked(struct uaio_device *device,
				struct list *ret_startable)
{
	if (device->has_oldest)
		return;
	list_for_each (pos, &device->pending) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (!is_free_locked(req))
			continue;
		start_locked(req, ret_startable);
		device->has_oldest = req->is_oldest = true;
		device->has_found = false;
		return;
	}
}

/* Queue each waiting request for a worker of its own (I5). */
static void start_all_locked(struct uaio_device *device,
			     struct list *ret_startable)
{
	list_for_each_safe (pos, &device->pending) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (!is_free_locked(req))
			continue;
		start_locked(req, ret_startable);
	}
}

bool uaio_page_park(struct uaio_req *req)
{
	struct uaio_device *device =
		req->file->kind == UAIO_KIND_CACHED
			? device_of(req->file->inode, req->sqe.fd)
			: NULL;
	bool parks = false;

	if (!device)
		return false;
	req->device = device;
	uaio_lock(&pages.lock, UAIO_RANK_PAGE);
	/* relaxed: as in is_free_locked() */
	if (load_relaxed(&req->file->is_closing)) {
		/* The file is being closed: a worker executes the read. */
	} else if (!device->has_oldest) {
		device->has_oldest = req->is_oldest = true;
		device->has_found = false;
	} else {
		enter_locked(req);
		req->was_paged = parks = true;
	}
	uaio_unlock(&pages.lock, UAIO_RANK_PAGE);
	return parks;
}

struct tries {
	struct uaio_req *reqs[UAIO_REQS_TOGETHER];
	unsigned nr;
};

static void take_locked(struct uaio_req *req, struct tries *tries)
{
	uaio_try_begin_locked(req, UAIO_REQ_PAGED);
	/*
	 * relaxed: the closing thread reads the count under the lock, which this thread
	 * holds (I4)
	 */
	add_relaxed(&req->file->nr_using, 1);
	tries->reqs[tries->nr++] = req;
}

/*
 * Try to read req from the page cache.
 * Return: its result; -EAGAIN if its pages have not arrived.
 */
static int64_t try(struct uaio_req *req)
{
	uint64_t start = req->weight ? uaio_cycles() : 0;
	struct uaio_outcome outcome = { .on = 0 };
	int64_t res = uaio_read_cached(&req->sqe, &outcome);

	if (res == -EAGAIN || res == UAIO_OP_BLOCKS)
		return -EAGAIN;
	req->started = start;
	return res;
}

/*
 * End a try of req that had the result res. If res is -EAGAIN, req goes on waiting,
 * unless it was cancelled. Otherwise it leaves the lists.
 * Return: whether req waits again. Then it may be freed as soon as the lock is
 * released.
 */
static bool settle_locked(struct uaio_req *req, int64_t res,
			  struct uaio_canceller **ret_canceller,
			  struct list *ret_startable)
{
	struct uaio_file *file = req->file;
	bool waits = res == -EAGAIN && !req->canceller;

	if (waits) {
		uaio_try_resume_locked(req, UAIO_REQ_PAGED);
	} else {
		leave_locked(req);
		req->device->has_found |= res != -EAGAIN;
		*ret_canceller = uaio_try_end_locked(req, UAIO_REQ_PAGED);
	}
	/*
	 * relaxed: the closing thread sets is_closing, and then reads nr_using under
	 * this lock. So this thread sees is_closing, or the closing thread sees 0, and
	 * does not sleep
	 */
	if (sub_relaxed(&file->nr_using, 1) == 1 &&
	    load_relaxed(&file->is_closing))
		uaio_wake(&file->nr_using, 1);
	start_oldest_locked(req->device, ret_startable);
	return waits;
}

/*
 * Try all requests of `tries`, and complete those whose pages have arrived.
 * Return: whether the pages of all these requests had arrived.
 */
static bool try_all(const struct tries *tries)
{
	struct uaio_canceller *cancellers[UAIO_REQS_TOGETHER];
	struct uaio_req *ended[UAIO_REQS_TOGETHER];
	int64_t results[UAIO_REQS_TOGETHER];
	unsigned nr_ended = 0, nr_misses = 0;
	const struct uaio_file *file = NULL;
	bool is_lost = false;
	/* bit i is set if the request ended[i] was cancelled */
	uint32_t cancelled = 0;
	struct list startable;

	list_init(&startable);
	for (unsigned i = 0; i < tries->nr; i++) {
		struct uaio_req *req = tries->reqs[i];

		results[i] = -EAGAIN;
		if (nr_misses == MISSES)
			continue;
		/* One check serves successive requests of the same file. */
		if (req->file != file)
			is_lost = uaio_req_has_lost_file(req, req->sqe.fd);
		file = req->file;
		results[i] = unlikely(is_lost) ? -EBADF : try(req);
		nr_misses += results[i] == -EAGAIN;
	}
	uaio_lock(&pages.lock, UAIO_RANK_PAGE);
	for (unsigned i = 0; i < tries->nr; i++) {
		struct uaio_req *req = tries->reqs[i];
		int64_t res = results[i];

		if (settle_locked(req, res, &cancellers[nr_ended], &startable))
			continue;
		if (unlikely(res == -EAGAIN)) {
			res = uaio_req_cancelled_res(req);
			cancelled |= 1u << nr_ended;
		}
		ended[nr_ended] = req;
		results[nr_ended++] = res;
	}
	uaio_unlock(&pages.lock, UAIO_RANK_PAGE);
	uaio_flow->complete_together(ended, results, nr_ended, NULL);
	for (unsigned i = 0; i < nr_ended; i++)
		uaio_canceller_tell(cancellers[i], cancelled & 1u << i);
	if (!list_is_empty(&startable))
		uaio_flow->start_all(&startable);
	return nr_misses == 0;
}

static void take_of_group(struct uaio_group *group, struct tries *ret_tries)
{
	ret_tries->nr = 0;
	uaio_lock(&pages.lock, UAIO_RANK_PAGE);
	list_for_each (pos, &group->paged) {
		struct uaio_req *req =
			container_of(pos, struct uaio_req, in_paged);

		if (is_free_locked(req) && uaio_req_is_mine(req))
			take_locked(req, ret_tries);
		if (ret_tries->nr == WAITER_TRIES)
			break;
	}
	uaio_unlock(&pages.lock, UAIO_RANK_PAGE);
}

static void take_of_device(struct uaio_device *device, struct tries *ret_tries)
{
	ret_tries->nr = 0;
	uaio_lock(&pages.lock, UAIO_RANK_PAGE);
	list_for_each (pos, &device->pending) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (is_free_locked(req) && uaio_req_is_mine(req))
			take_locked(req, ret_tries);
		if (ret_tries->nr == WORKER_TRIES)
			break;
	}
	uaio_unlock(&pages.lock, UAIO_RANK_PAGE);
}

void uaio_page_try_group(struct uaio_group *group)
{
	struct tries tries;
	unsigned nr_rounds = 0;

	/*
	 * relaxed: this thread sees the requests that it has submitted itself. It need
	 * not see a request that another thread submits at the same time
	 */
	if (!load_relaxed(&group->nr_paged))
		return;
	do
		take_of_group(group, &tries);
	while (tries.nr && try_all(&tries) && ++nr_rounds < WAITER_ROUNDS);
}

/*
 * A worker has executed the oldest read of the device. If other reads of the device
 * were tried meanwhile (has_tried), note whether such tries help (I5).
 */
static void judge_locked(struct uaio_device *device, bool has_tried,
			 struct list *ret_startable)
{
	if (device->has_found) {
		device->nr_futile = 0;
		device->next_skips = FIRST_SKIPS;
	} else if (has_tried && ++device->nr_futile == MAX_FUTILE) {
		give_up_locked(device);
		start_all_locked(device, ret_startable);
	}
}

void uaio_page_next(struct uaio_device *device, struct list *ret_startable)
{
	struct tries tries;
	unsigned nr_rounds = 0;
	bool has_tried = false;

	for (;;) {
		take_of_device(device, &tries);
		has_tried |= tries.nr > 0;
		if (!tries.nr || !try_all(&tries) ||
		    ++nr_rounds == WORKER_ROUNDS)
			break;
	}
	uaio_lock(&pages.lock, UAIO_RANK_PAGE);
	device->has_oldest = false;
	judge_locked(device, has_tried, ret_startable);
	start_oldest_locked(device, ret_startable);
	uaio_unlock(&pages.lock, UAIO_RANK_PAGE);
}

static void start_of_file_locked(const struct uaio_file *file,
				 struct uaio_device *device,
				 struct list *ret_startable)
{
	list_for_each_safe (pos, &device->pending) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (req->file != file || uaio_req_state(req) != UAIO_REQ_PAGED)
			continue;
		start_locked(req, ret_startable);
	}
}

static void give_up(struct uaio_file *file, struct list *ret_startable)
{
	struct uaio_device *device = find_device(
		file->inode->dev,
		file->inode->dev == UINT64_MAX ? file->inode->ino : 0);
	uint32_t nr;

	if (!device)
		return;
	for (;;) {
		uaio_lock(&pages.lock, UAIO_RANK_PAGE);
		start_of_file_locked(file, device, ret_startable);
		/*
		 * relaxed: nr_using changes only under the lock, which this thread
		 * holds (I4)
		 */
		nr = load_relaxed(&file->nr_using);
		uaio_unlock(&pages.lock, UAIO_RANK_PAGE);
		if (!nr)
			return;
		(void)uaio_sleep_outside(&file->nr_using, nr, UAIO_FOREVER);
	}
}

static enum uaio_cancel cancel(struct uaio_req *req,
			       struct uaio_canceller *canceller,
			       struct list *ret_startable)
{
	enum uaio_cancel ret;

	(void)ret_startable;
	uaio_lock(&pages.lock, UAIO_RANK_PAGE);
	ret = uaio_try_cancel_locked(req, UAIO_REQ_PAGED, canceller);
	if (ret == UAIO_CANCEL_TAKEN)
		leave_locked(req);
	uaio_unlock(&pages.lock, UAIO_RANK_PAGE);
	return ret;
}

void uaio_page_init(void)
{
	static const struct uaio_wait_ops paged = {
		.cancel = cancel,
		.give_up = give_up,
	};

	pages.lock = (struct uaio_lock){ 0 };
	store_relaxed(&pages.nr_devices, 0);
	uaio_waits_register(UAIO_REQ_PAGED, &paged);
}
