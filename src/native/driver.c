/* SPDX-License-Identifier: MIT */
/* The driver's thread (driver.h). Tested by test-driver.c. */
#include <errno.h>

#include "base/check.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/thread.h"
#include "req/queue.h"
#include "req/req.h"
#include "req/stats.h"
#include "native/nativeint.h"

enum {
	/*
	 * epoll data of the io_uring ring's events. (The driver's epoll, the poller,
	 * also reports an eventfd, by which other threads wake the driver. Those events
	 * have other data.)
	 */
	RING_EVENT = 1,
	/*
	 * The interval at which the driver looks for completions if no event can wake
	 * it
	 */
	DEAF_NS = 1000000,
};

/* The driver ends after this time without requests. */
#define IDLE_NS INT64_C(5000000000)

/* State of the driver that only its own thread uses */
struct drive {
	struct uaio_kuring ring;
	uint32_t nr_with_kernel;
	/* the kernel accepts no more requests */
	bool is_refused;
	/* the program has closed the epoll or eventfd that would wake the driver */
	bool is_deaf;
	/*
	 * how many waits in a row timed out although another thread had cleared
	 * is_asleep, and should have woken the driver (wait_in_poller())
	 */
	unsigned nr_late;
	int64_t idle_since_ns;
};

/*
 * Submitting
 */

static void fill(struct io_uring_sqe *to, const struct uaio_req *req, int fd)
{
	const struct uaio_sqe *sqe = &req->sqe;

	to->opcode = (uint8_t)uaio_driver_opcode_of(sqe->op);
	to->fd = fd;
	to->user_data = (uintptr_t)req;
	to->ioprio = sqe->ioprio;
	to->off = (uint64_t)sqe->off;
	to->addr = (uintptr_t)sqe->buf;
	to->len = (uint32_t)sqe->len;
	to->rw_flags = (int)sqe->rw_flags;
}

/* The kernel does not execute these requests, so give them to workers. */
static void send_back(struct uaio_req *const *reqs, unsigned nr)
{
	struct list startable;

	list_init(&startable);
	for (unsigned i = 0; i < nr; i++) {
		reqs[i]->native = UAIO_KERNEL_MAY_WAIT;
		uaio_req_move(reqs[i], UAIO_REQ_RUNNING, UAIO_REQ_PREPPED);
		list_add_tail(&startable, &reqs[i]->link);
	}
	if (nr)
		uaio_flow->start_all(&startable);
}

/*
 * reqs: requests that are submitted together. lost: requests whose descriptor now
 * refers to another file; they are moved here from reqs, and fail with EBADF.
 */
struct batch {
	struct uaio_req *reqs[UAIO_DRIVER_BATCH];
	unsigned nr;
	/* these fail with EBADF */
	struct uaio_req *lost[UAIO_DRIVER_BATCH];
	unsigned nr_lost;
};

static void take_lined(struct drive *drive, struct batch *batch)
{
	uint32_t max = drive->ring.cq_entries - drive->nr_with_kernel;
	struct list *node;

	if (max > UAIO_DRIVER_BATCH)
		max = UAIO_DRIVER_BATCH;
	batch->nr = batch->nr_lost = 0;
	/* relaxed: before the driver sleeps, it checks the list again under the lock */
	if (!load_relaxed(&uaio_driver.nr_lined))
		return;
	uaio_driver_lock();
	while (batch->nr < max && (node = list_pop(&uaio_driver.lined))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		uaio_req_move(req, UAIO_REQ_LINED, UAIO_REQ_RUNNING);
		batch->reqs[batch->nr++] = req;
	}
	store_relaxed(&uaio_driver.nr_lined, uaio_driver.nr_lined - batch->nr);
	drive->nr_with_kernel += batch->nr;
	uaio_driver.nr_with_kernel = drive->nr_with_kernel;
	uaio_driver_unlock();
}

/*
 * Decrement the number of requests with the kernel by nr: these have completed, or were
 * never submitted.
 */
static void uncount(struct drive *drive, unsigned nr)
{
	if (!nr)
		return;
	drive->nr_with_kernel -= nr;
	uaio_driver_lock();
	uaio_driver.nr_with_kernel = drive->nr_with_kernel;
	uaio_driver_unlock();
}

/*
 * Fill an entry of the ring for each request of the batch. A request whose descriptor now
 * refers to another file moves from `reqs` to `lost`.
 */
static void fill_all(struct drive *drive, struct batch *batch)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < batch->nr; i++) {
		struct uaio_req *req = batch->reqs[i];
		/*
		 * relaxed: fd cannot change now, because a thread that closes the
		 * descriptor first waits for the requests that the driver submits
		 */
		int fd = load_relaxed(&req->file->fd);

		if (unlikely(uaio_req_has_lost_file(req, fd))) {
			batch->lost[batch->nr_lost++] = req;
			continue;
		}
		/* [MB:native-begun] seq_cst: pairs with uaio_natives_hold(). */
		add_seq_cst(&req->file->nr_native, 1);
		/*
		 * UAIO_KERNEL_MAY_WAIT says: if the kernel hands the request back, a
		 * worker executes it by a plain call.
		 */
		req->native = UAIO_KERNEL_MAY_WAIT;
		uaio_req_note_start(req);
		fill(uaio_kuring_next(&drive->ring), req, fd);
		batch->reqs[nr++] = req;
	}
	batch->nr = nr;
	uaio_stats_move(UAIO_STAY_NONE, UAIO_STAY_KERNEL, nr);
}

/*
 * Submit the batch.
 * Return: how many of its requests the kernel has accepted, from the first on.
 */
static unsigned submit(struct drive *drive, struct batch *batch)
{
	unsigned nr_taken = 0;
	int ret = 0;

	uaio_natives_begin();
	/*
	 * relaxed, here and below: call_since_ns is a hint for threads that add
	 * requests to the list
	 */
	store_relaxed(&uaio_driver.call_since_ns, uaio_now_ns());
	fill_all(drive, batch);
	if (batch->nr)
		ret = uaio_kuring_submit(&drive->ring);
	store_relaxed(&uaio_driver.call_since_ns, 0);
	if (ret > 0)
		nr_taken = (unsigned)ret;
	for (unsigned i = nr_taken; i < batch->nr; i++)
		/* [MB:native-begun] seq_cst: pairs with uaio_natives_hold(). */
		sub_seq_cst(&batch->reqs[i]->file->nr_native, 1);
	uaio_natives_end();
	uaio_stats_move(UAIO_STAY_KERNEL, UAIO_STAY_NONE, batch->nr - nr_taken);
	if (unlikely(ret < 0)) {
		uaio_driver_note_refusal(ret);
		drive->is_refused = true;
	}
	return nr_taken;
}

/*
 * The program may have changed its credentials since some requests of the batch were
 * submitted. Send those requests to workers. The program cannot change its credentials
 * again before uaio_former_end().
 */
static void begin_with_ids(struct batch *batch, struct uaio_former_call *call)
{
	unsigned nr = batch->nr;

	(void)uaio_former_begin(uaio_former_now(), UAIO_NEEDS_FILE_IDS, true,
				call);
	if (likely(!call->counted_as))
		return;
	for (unsigned i = 0; i < batch->nr; i++)
		if (uaio_req_is_former(batch->reqs[i])) {
			send_back(&batch->reqs[i], 1);
			batch->reqs[i] = NULL;
		}
	batch->nr = 0;
	for (unsigned i = 0; i < nr; i++)
		if (batch->reqs[i])
			batch->reqs[batch->nr++] = batch->reqs[i];
}

/*
 * Submit requests from the list.
 * Return: whether there were any.
 */
static bool submit_some(struct drive *drive)
{
	struct uaio_former_call call;
	unsigned nr_all, nr_taken = 0;
	struct batch batch;

	take_lined(drive, &batch);
	nr_all = batch.nr;
	if (!nr_all)
		return false;
	begin_with_ids(&batch, &call);
	if (likely(!drive->is_refused))
		nr_taken = submit(drive, &batch);
	uaio_former_end(&call);
	uncount(drive, nr_all - nr_taken);
	for (unsigned i = 0; i < batch.nr_lost; i++)
		uaio_flow->complete(batch.lost[i], -EBADF, NULL);
	send_back(batch.reqs + nr_taken, batch.nr - nr_taken);
	return true;
}

/*
 * Completing
 */

/*
 * Return: whether the kernel has not executed the request. A worker then executes it by
 * a plain call, which reports the error, if any.
 */
static bool is_sent_back(int32_t res)
{
	return unlikely(res == -EAGAIN || res == -EINTR || res == -ECANCELED ||
			res == -EOPNOTSUPP || res == -ENOBUFS ||
			res == -ENOMEM);
}

/*
 * Return: whether req can be completed together with others (see finish_together()).
 */
static bool is_plain(const struct uaio_req *req)
{
	return !req->sqe.links &&
	       (uaio_optab[req->sqe.op].class == UAIO_CLASS_READ ||
		uaio_order_is_write(req->order));
}

static void complete_alone(struct uaio_req *req, int64_t res)
{
	/*
	 * If the kernel has refused a misaligned buffer (EINVAL), a worker may still
	 * succeed by an aligned copy (bounce.h).
	 */
	if (res == -EAGAIN || (res == -EINVAL && uaio_config.bounces)) {
		send_back(&req, 1);
	} else {
		req->native = UAIO_KERNEL_HAS_EXECUTED;
		uaio_flow->complete(req, res, NULL);
	}
}

static void count(const struct io_uring_cqe *cqes, unsigned nr)
{
	unsigned nr_executed = 0;

	for (unsigned i = 0; i < nr; i++)
		nr_executed += !is_sent_back(cqes[i].res);
	uaio_stats_move(UAIO_STAY_KERNEL, UAIO_STAY_NONE, nr);
	uaio_stats_direct(UAIO_DIRECT_URING, nr_executed);
	add_relaxed(&uaio_driver.nr_executed, nr_executed);
}

static void complete_all(const struct io_uring_cqe *cqes, unsigned nr)
{
	struct uaio_req *reqs[UAIO_DRIVER_BATCH];
	int64_t results[UAIO_DRIVER_BATCH];
	unsigned nr_plain = 0;

	for (unsigned i = 0; i < nr; i++) {
		struct uaio_req *req =
			(struct uaio_req *)(uintptr_t)cqes[i].user_data;
		int64_t res = is_sent_back(cqes[i].res) ? -EAGAIN : cqes[i].res;

		/* [MB:native-begun] seq_cst: pairs with uaio_natives_hold(). */
		sub_seq_cst(&req->file->nr_native, 1);
		if (is_plain(req)) {
			reqs[nr_plain] = req;
			results[nr_plain++] = res;
		} else {
			complete_alone(req, res);
		}
	}
	if (nr_plain)
		uaio_flow->complete_native(reqs, results, nr_plain);
}

/*
 * Complete requests that the kernel has executed.
 * Return: whether there were any.
 */
static bool take_some(struct drive *drive)
{
	struct io_uring_cqe cqes[UAIO_DRIVER_BATCH];
	unsigned nr = uaio_kuring_take(&drive->ring, cqes, UAIO_DRIVER_BATCH);

	if (!nr)
		return false;
	uncount(drive, nr);
	count(cqes, nr);
	complete_all(cqes, nr);
	return true;
}

/*
 * The thread
 */

/* Return: whether the driver must end. */
static bool is_over_locked(const struct drive *drive, int64_t now)
{
	return !drive->nr_with_kernel &&
	       (drive->is_refused || uaio_driver.ends ||
		now - drive->idle_since_ns >= IDLE_NS);
}

/*
 * The program has closed the epoll, or its eventfd, by a system call that the library
 * does not see. From now on workers execute all requests. The driver only looks at
 * intervals for completions of requests that the kernel still has.
 */
static void go_deaf(struct drive *drive)
{
	/* relaxed: a hint */
	store_relaxed(&uaio_driver.again_ns, UAIO_FOREVER);
	drive->is_refused = drive->is_deaf = true;
}

/* Return: whether one of the events comes from the eventfd that wakes the driver. */
static bool has_wake(const struct epoll_event *events, int nr)
{
	for (int i = 0; i < nr; i++)
		if (events[i].data.u64 != RING_EVENT)
			return true;
	return false;
}

/*
 * Sleep until there is an event, or a timeout.
 * Return: whether the poller (the driver's epoll) still works. A thread that clears
 * is_asleep then wakes the driver. If this wait times out in between, that wake-up ends
 * the next wait. If two waits in a row time out, each after another thread cleared
 * is_asleep, the wake-ups are lost: the program has closed the poller.
 */
static bool wait_in_poller(struct drive *drive)
{
	enum { NR = 4, LATE_MAX = 2 };
	struct epoll_event events[NR];
	struct uaio_poller_wait wait = {
		.generation = uaio_poller_generation(&uaio_driver.poller),
		.deadline_ns = uaio_now_ns() + IDLE_NS,
	};
	int ret = uaio_poller_wait(&uaio_driver.poller, events, NR, &wait);
	bool was_told;

	uaio_driver_lock();
	was_told = !uaio_driver.is_asleep;
	uaio_driver.is_asleep = false;
	uaio_driver_unlock();
	if (has_wake(events, ret))
		drive->nr_late = 0;
	else if (ret == 0 && was_told)
		drive->nr_late++;
	return (ret >= 0 || ret == -EINTR) && drive->nr_late < LATE_MAX;
}

/*
 * Return: whether the driver may sleep now. *ret_is_over: whether the driver must end
 * instead; if so, has_thread is already false.
 */
static bool begin_sleep(struct drive *drive, bool *ret_is_over)
{
	int64_t now = uaio_now_ns();
	bool is_left;

	if (drive->nr_with_kernel || !drive->idle_since_ns)
		drive->idle_since_ns = now;
	uaio_driver_lock();
	is_left = !list_is_empty(&uaio_driver.lined) &&
		  drive->nr_with_kernel < drive->ring.cq_entries;
	*ret_is_over = !is_left && is_over_locked(drive, now);
	if (*ret_is_over)
		uaio_driver.has_thread = uaio_driver.ends = false;
	uaio_driver.is_asleep = !is_left && !*ret_is_over && !drive->is_deaf;
	uaio_driver_unlock();
	return !is_left && !*ret_is_over;
}

/*
 * Sleep, if there is nothing to do.
 * Return: false if the driver must end instead.
 */
static bool sleep_some(struct drive *drive)
{
	bool is_over;

	if (!begin_sleep(drive, &is_over))
		return !is_over;
	if (unlikely(drive->is_deaf)) {
		uint32_t word = 0;

		(void)uaio_sleep(&word, 0, uaio_now_ns() + DEAF_NS);
	} else if (unlikely(!wait_in_poller(drive))) {
		go_deaf(drive);
	}
	return true;
}

void *uaio_driver_main(void *arg)
{
	struct drive drive = { 0 };
	int ret;

	(void)arg;
	uaio_thread_begin("uaio-uring");
	uaio_driver_lock();
	drive.ring = uaio_driver.ring;
	uaio_driver_unlock();
	ret = uaio_kuring_adopt(&drive.ring);
	if (ret == 0)
		ret = uaio_poller_ctl(&uaio_driver.poller, EPOLL_CTL_ADD,
				      drive.ring.fd, EPOLLIN, RING_EVENT);
	uaio_kuring_drop_fd(&drive.ring);
	if (ret < 0) {
		uaio_driver_note_refusal(ret);
		drive.is_refused = true;
	}
	do {
		bool is_busy;

		do {
			is_busy = take_some(&drive);
			is_busy |= submit_some(&drive);
			if (is_busy && !drive.nr_with_kernel)
				drive.idle_since_ns = 0;
		} while (is_busy);
	} while (sleep_some(&drive));
	uaio_kuring_close(&drive.ring);
	uaio_thread_end();
	return NULL;
}
