/* SPDX-License-Identifier: MIT */
#include "native/driver.h"

#include <errno.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/poller.h"
#include "proc/thread.h"
#include "req/queue.h"
#include "req/req.h"
#include "req/stats.h"
#include "req/waits.h"
#include "native/kuring.h"
#include "native/nativeint.h"

enum {
	BATCH = 64, /* requests that one call submits at most */
	ROOM = 2048,
	LARGE_BYTES = 512 << 10, /* those from here on may be cut (split.h) */
	/* Of the epoll: not that of the poller's own eventfd. */
	RING_EVENT = 1,
	/* How long a call that submits lasts at most as a rule. */
	HELD_UP_NS = 1000000,
	/* How often a driver that nothing can wake looks for completions. */
	DEAF_NS = 1000000,
};

/* How long the driver stays without requests. */
#define IDLE_NS INT64_C(5000000000)

static struct {
	/* atomic: the kernel is asked for no ring until then */
	int64_t again_ns;
	/* atomic: since when the driver is in a call that submits; or 0 */
	int64_t call_since_ns;
	uint64_t nr_executed; /* atomic: statistics */

	struct uaio_poller poller; /* the driver sleeps there */
	int64_t patience_ns;       /* HELD_UP_NS; tests change it */

	struct uaio_lock lock; /* rank DRIVER */
	/* under lock */
	struct list lined;
	uint32_t nr_lined;       /* atomic: peeked at */
	uint32_t nr_with_kernel; /* those that are being submitted as well */
	bool has_thread;
	bool is_asleep;
	bool ends;               /* for tests: it does not stay idle */
	struct uaio_kuring ring; /* for the driver that has just been started */
} driver;

/* What the driver itself has. */
struct drive {
	struct uaio_kuring ring;
	uint32_t nr_with_kernel;
	bool is_refused; /* the kernel takes no more */
	bool is_deaf;    /* the program has closed what would wake the driver */
	/* waits in a row whose time was over though the driver had been told */
	unsigned nr_late;
	int64_t idle_since_ns;
};

static void lock(void)
{
	uaio_lock(&driver.lock, UAIO_RANK_DRIVER);
}

static void unlock(void)
{
	uaio_unlock(&driver.lock, UAIO_RANK_DRIVER);
}

/*
 * Which requests
 */

static bool is_refused(void)
{
	/* relaxed: advice */
	int64_t again = load_relaxed(&driver.again_ns);

	return again && uaio_now_ns() < again;
}

/* A filter stays. What is used up, others may give back. */
static void note_refusal(int error)
{
	bool is_final = error == -ENOSYS || error == -EPERM || error == -EINVAL;

	/* relaxed: advice */
	store_relaxed(&driver.again_ns,
		      is_final ? UAIO_FOREVER
			       : uaio_now_ns() + UAIO_NATIVE_AGAIN_NS);
}

/* Return: the kernel's number of the operation, or -1. */
static int opcode_of(enum uaio_op op)
{
	switch (op) {
	case UAIO_OP_READ: return IORING_OP_READ;
	case UAIO_OP_READV: return IORING_OP_READV;
	case UAIO_OP_WRITE: return IORING_OP_WRITE;
	case UAIO_OP_WRITEV: return IORING_OP_WRITEV;
	default: return -1;
	}
}

/* Return: whether the user wants it cut into segments. */
static bool is_to_be_cut(const struct uaio_file *file,
			 const struct uaio_sqe *sqe)
{
	return uaio_config.segments > 1 &&
	       uaio_file_kind(file) == UAIO_KIND_DIRECT &&
	       uaio_sqe_bytes(sqe) >= LARGE_BYTES;
}

/* Not inline: by default there is no driver. */
static __attribute__((noinline)) bool takes(const struct uaio_file *file,
					    const struct uaio_sqe *sqe)
{
	enum uaio_kind kind = uaio_file_kind(file);

	return (kind == UAIO_KIND_CACHED || kind == UAIO_KIND_DIRECT) &&
	       opcode_of(sqe->op) >= 0 && !sqe->is_async && sqe->off >= 0 &&
	       sqe->len <= UINT32_MAX && !load_relaxed(&file->nowait_refused) &&
	       !uaio_file_has(file, UAIO_FILE_F_REMOTE) &&
	       !is_to_be_cut(file, sqe) && !uaio_config.force_worker &&
	       uaio_may_call(UAIO_CALL_URING_SETUP) &&
	       uaio_may_call(UAIO_CALL_URING_ENTER) &&
	       uaio_may_call(UAIO_CALL_URING_REGISTER) && !is_refused();
}

bool uaio_driver_takes(const struct uaio_file *file, const struct uaio_sqe *sqe)
{
	return unlikely(uaio_config.backend == UAIO_BACKEND_URING) &&
	       takes(file, sqe);
}

/*
 * Return: whether req is small direct I/O that kernel AIO would execute, if it could
 * be had. To hand a request to the driver costs less than to have a worker sleep.
 */
static bool is_left_by_kaio(const struct uaio_req *req)
{
	return req->file->kind == UAIO_KIND_DIRECT &&
	       opcode_of(req->sqe.op) >= 0 &&
	       uaio_sqe_bytes(&req->sqe) < LARGE_BYTES &&
	       uaio_native_is_refused(req->group);
}

bool uaio_driver_suits(const struct uaio_req *req)
{
	if (likely(uaio_config.backend != UAIO_BACKEND_URING) &&
	    (uaio_config.backend != UAIO_BACKEND_AUTO || !req->file ||
	     likely(!is_left_by_kaio(req))))
		return false;
	return likely(req->file) && req->file->inode && !req->done_bytes &&
	       !req->is_oldest && takes(req->file, &req->sqe);
}

/*
 * Submitting
 */

static void fill(struct io_uring_sqe *to, const struct uaio_req *req, int fd)
{
	const struct uaio_sqe *sqe = &req->sqe;

	to->opcode = (uint8_t)opcode_of(sqe->op);
	to->fd = fd;
	to->user_data = (uintptr_t)req;
	to->ioprio = sqe->ioprio;
	to->off = (uint64_t)sqe->off;
	to->addr = (uintptr_t)sqe->buf;
	to->len = (uint32_t)sqe->len;
	to->rw_flags = (int)sqe->rw_flags;
}

/* The kernel does not take these: workers do. */
static void send_back(struct uaio_req *const *reqs, unsigned nr)
{
	struct list startable;

	list_init(&startable);
	for (unsigned i = 0; i < nr; i++) {
		reqs[i]->sqe.is_async = true;
		uaio_req_move(reqs[i], UAIO_REQ_RUNNING, UAIO_REQ_PREPPED);
		list_add_tail(&startable, &reqs[i]->link);
	}
	if (nr)
		uaio_flow->start_all(&startable);
}

/* Requests that are to be submitted together, and those that cannot be. */
struct batch {
	struct uaio_req *reqs[BATCH];
	unsigned nr;
	struct uaio_req *lost[BATCH]; /* their descriptor is another file's */
	unsigned nr_lost;
};

static void take_lined(struct drive *drive, struct batch *batch)
{
	uint32_t max = drive->ring.cq_entries - drive->nr_with_kernel;
	struct list *node;

	if (max > BATCH)
		max = BATCH;
	batch->nr = batch->nr_lost = 0;
	/* relaxed: looked at under the lock before the driver sleeps */
	if (!load_relaxed(&driver.nr_lined))
		return;
	lock();
	while (batch->nr < max && (node = list_pop(&driver.lined))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		uaio_req_move(req, UAIO_REQ_LINED, UAIO_REQ_RUNNING);
		batch->reqs[batch->nr++] = req;
	}
	store_relaxed(&driver.nr_lined, driver.nr_lined - batch->nr);
	drive->nr_with_kernel += batch->nr;
	driver.nr_with_kernel = drive->nr_with_kernel;
	unlock();
}

/* So many are not with the kernel any more, or never were. */
static void uncount(struct drive *drive, unsigned nr)
{
	if (!nr)
		return;
	drive->nr_with_kernel -= nr;
	lock();
	driver.nr_with_kernel = drive->nr_with_kernel;
	unlock();
}

/* Fill what the ring is to submit. Those whose file is lost leave the batch. */
static void fill_all(struct drive *drive, struct batch *batch)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < batch->nr; i++) {
		struct uaio_req *req = batch->reqs[i];
		/* relaxed: a file that is being closed has it until then */
		int fd = load_relaxed(&req->file->fd);

		if (unlikely(uaio_req_has_lost_file(req, fd))) {
			batch->lost[batch->nr_lost++] = req;
			continue;
		}
		/* [MB:native-begun] seq_cst: pairs with uaio_natives_hold(). */
		add_seq_cst(&req->file->nr_native, 1);
		/* A worker's, should it come back. */
		req->sqe.is_async = true;
		req->started = uaio_stats_now();
		fill(uaio_kuring_next(&drive->ring), req, fd);
		batch->reqs[nr++] = req;
	}
	batch->nr = nr;
}

/* Return: how many of the batch, from the first on, the kernel has. */
static unsigned submit(struct drive *drive, struct batch *batch)
{
	unsigned nr_taken = 0;
	int ret = 0;

	uaio_natives_begin();
	/* relaxed, both: advice to those that line up more */
	store_relaxed(&driver.call_since_ns, uaio_now_ns());
	fill_all(drive, batch);
	if (batch->nr)
		ret = uaio_kuring_submit(&drive->ring);
	store_relaxed(&driver.call_since_ns, 0);
	if (ret > 0)
		nr_taken = (unsigned)ret;
	for (unsigned i = nr_taken; i < batch->nr; i++)
		/* [MB:native-begun] seq_cst: pairs with uaio_natives_hold(). */
		sub_seq_cst(&batch->reqs[i]->file->nr_native, 1);
	uaio_natives_end();
	if (unlikely(ret < 0)) {
		note_refusal(ret);
		drive->is_refused = true;
	}
	return nr_taken;
}

/* Return: whether there was anything. */
static bool submit_some(struct drive *drive)
{
	unsigned nr_all, nr_taken = 0;
	struct batch batch;

	take_lined(drive, &batch);
	nr_all = batch.nr;
	if (!nr_all)
		return false;
	if (likely(!drive->is_refused))
		nr_taken = submit(drive, &batch);
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
 * Return: whether the kernel has not executed it, so that a worker does, whose call
 * tells what is wrong.
 */
static bool is_sent_back(int32_t res)
{
	return unlikely(res == -EAGAIN || res == -EINTR || res == -ECANCELED ||
			res == -EOPNOTSUPP || res == -ENOBUFS ||
			res == -ENOMEM);
}

/* Return: whether it is completed together with others: see finish_together(). */
static bool is_plain(const struct uaio_req *req)
{
	return !req->sqe.links &&
	       (uaio_optab[req->sqe.op].class == UAIO_CLASS_READ ||
		uaio_order_is_write(req->order));
}

static void complete_alone(struct uaio_req *req, int64_t res)
{
	/* A worker may execute it through a copy (bounce.h). */
	if (res == -EAGAIN || (res == -EINVAL && uaio_config.bounces))
		send_back(&req, 1);
	else
		uaio_flow->complete(req, res, NULL);
}

static void count(const struct io_uring_cqe *cqes, unsigned nr)
{
	unsigned nr_executed = 0;

	for (unsigned i = 0; i < nr; i++)
		nr_executed += !is_sent_back(cqes[i].res);
	uaio_stats_direct(UAIO_DIRECT_URING, nr_executed);
	add_relaxed(&driver.nr_executed, nr_executed);
}

static void complete_all(const struct io_uring_cqe *cqes, unsigned nr)
{
	struct uaio_req *reqs[BATCH];
	int64_t results[BATCH];
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

/* Return: whether there was anything. */
static bool take_some(struct drive *drive)
{
	struct io_uring_cqe cqes[BATCH];
	unsigned nr = uaio_kuring_take(&drive->ring, cqes, BATCH);

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

/* Return: whether the driver is to end. */
static bool is_over_locked(const struct drive *drive, int64_t now)
{
	return !drive->nr_with_kernel &&
	       (drive->is_refused || driver.ends ||
		now - drive->idle_since_ns >= IDLE_NS);
}

/*
 * The program has closed the epoll, or its eventfd, by a call that we do not see.
 * Workers execute all from here on. What the kernel has is looked for by the clock.
 */
static void go_deaf(struct drive *drive)
{
	/* relaxed: advice */
	store_relaxed(&driver.again_ns, UAIO_FOREVER);
	drive->is_refused = drive->is_deaf = true;
}

/* Return: whether the poller's own eventfd is among them. */
static bool has_wake(const struct epoll_event *events, int nr)
{
	for (int i = 0; i < nr; i++)
		if (events[i].data.u64 != RING_EVENT)
			return true;
	return false;
}

/*
 * Return: whether the poller works. A thread that has told the driver may be about to
 * wake it when the time is over; then it ends the next wait.
 */
static bool wait_in_poller(struct drive *drive)
{
	enum { NR = 4, LATE_MAX = 2 };
	struct epoll_event events[NR];
	struct uaio_poller_wait wait = {
		.generation = uaio_poller_generation(&driver.poller),
		.deadline_ns = uaio_now_ns() + IDLE_NS,
	};
	int ret = uaio_poller_wait(&driver.poller, events, NR, &wait);
	bool was_told;

	lock();
	was_told = !driver.is_asleep;
	driver.is_asleep = false;
	unlock();
	if (has_wake(events, ret))
		drive->nr_late = 0;
	else if (ret == 0 && was_told)
		drive->nr_late++;
	return (ret >= 0 || ret == -EINTR) && drive->nr_late < LATE_MAX;
}

/*
 * Return: whether the driver may sleep. *ret_is_over: it is to end instead, and is not
 * counted any more.
 */
static bool begin_sleep(struct drive *drive, bool *ret_is_over)
{
	int64_t now = uaio_now_ns();
	bool is_left;

	if (drive->nr_with_kernel || !drive->idle_since_ns)
		drive->idle_since_ns = now;
	lock();
	is_left = !list_is_empty(&driver.lined) &&
		  drive->nr_with_kernel < drive->ring.cq_entries;
	*ret_is_over = !is_left && is_over_locked(drive, now);
	if (*ret_is_over)
		driver.has_thread = driver.ends = false;
	driver.is_asleep = !is_left && !*ret_is_over && !drive->is_deaf;
	unlock();
	return !is_left && !*ret_is_over;
}

/* Return: false if the driver is to end instead. */
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

static void *drive_on(void *arg)
{
	struct drive drive = { 0 };
	int ret;

	(void)arg;
	uaio_thread_begin("uaio-uring");
	lock();
	drive.ring = driver.ring;
	unlock();
	ret = uaio_kuring_adopt(&drive.ring);
	if (ret == 0)
		ret = uaio_poller_ctl(&driver.poller, EPOLL_CTL_ADD,
				      drive.ring.fd, EPOLLIN, RING_EVENT);
	uaio_kuring_drop_fd(&drive.ring);
	if (ret < 0) {
		note_refusal(ret);
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

static int start_locked(void)
{
	int ret;

	if (driver.has_thread)
		return 0;
	if (uaio_is_own_thread())
		return -EAGAIN;
	ret = uaio_poller_open_within_share(&driver.poller);
	if (ret == 0)
		ret = uaio_kuring_open(BATCH, ROOM, &driver.ring);
	if (ret < 0) {
		note_refusal(ret);
		return ret;
	}
	driver.has_thread = true;
	if (uaio_thread_start(drive_on, NULL) == 0)
		return 0;
	driver.has_thread = false;
	uaio_kuring_close(&driver.ring);
	note_refusal(-EAGAIN);
	return -EAGAIN;
}

static bool has_room_locked(void)
{
	return driver.nr_lined + driver.nr_with_kernel < ROOM;
}

/*
 * Return: whether the driver has been in a call for long: the memory of a request is
 * fetched there, perhaps from a server that does not answer.
 */
static bool is_held_up(void)
{
	/* relaxed: advice */
	int64_t since = load_relaxed(&driver.call_since_ns);

	return unlikely(since) && uaio_now_ns() - since > driver.patience_ns;
}

/* What is lined waits no longer for a driver that is held up. */
static void take_back_locked(struct list *ret_refused)
{
	struct list *node;

	while ((node = list_pop(&driver.lined))) {
		uaio_req_move(container_of(node, struct uaio_req, link),
			      UAIO_REQ_LINED, UAIO_REQ_PREPPED);
		list_add_tail(ret_refused, node);
	}
	store_relaxed(&driver.nr_lined, 0);
}

void uaio_driver_add(struct list *reqs,
		     bool (*is_awaited)(const struct uaio_req *req),
		     struct list *ret_refused)
{
	struct list *node;
	bool wakes, can;

	lock();
	can = start_locked() == 0 && !is_held_up();
	if (unlikely(!can))
		take_back_locked(ret_refused);
	while ((node = list_pop(reqs))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		if (!can || !has_room_locked() || is_awaited(req)) {
			list_add_tail(ret_refused, node);
			continue;
		}
		uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_LINED);
		list_add_tail(&driver.lined, node);
		store_relaxed(&driver.nr_lined, driver.nr_lined + 1);
	}
	wakes = driver.is_asleep && driver.nr_lined;
	driver.is_asleep &= !wakes;
	unlock();
	if (wakes)
		uaio_poller_wake(&driver.poller);
}

uint64_t uaio_driver_executed(void)
{
	return load_relaxed(&driver.nr_executed);
}

/*
 * What is lined
 */

static void leave_locked(struct uaio_req *req)
{
	list_remove(&req->link);
	store_relaxed(&driver.nr_lined, driver.nr_lined - 1);
	uaio_req_move(req, UAIO_REQ_LINED, UAIO_REQ_RUNNING);
}

static enum uaio_cancel cancel(struct uaio_req *req,
			       struct uaio_canceller *canceller,
			       struct list *ret_startable)
{
	enum uaio_cancel ret = UAIO_CANCEL_NONE;

	(void)canceller;
	(void)ret_startable;
	lock();
	if (uaio_req_state(req) == UAIO_REQ_LINED) {
		leave_locked(req);
		ret = UAIO_CANCEL_TAKEN;
	}
	unlock();
	return ret;
}

static struct uaio_req *take(uaio_is_wanted_fn *is_wanted, const void *arg)
{
	struct uaio_req *found = NULL;

	lock();
	list_for_each (pos, &driver.lined) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (!is_wanted(req, arg))
			continue;
		leave_locked(req);
		found = req;
		break;
	}
	unlock();
	return found;
}

void uaio_driver_init(void)
{
	static const struct uaio_wait_ops lined = {
		.cancel = cancel,
		.take = take,
	};

	driver.lock = (struct uaio_lock){ 0 };
	store_relaxed(&driver.again_ns, 0);
	store_relaxed(&driver.call_since_ns, 0);
	driver.patience_ns = HELD_UP_NS;
	store_relaxed(&driver.nr_executed, 0);
	list_init(&driver.lined);
	driver.nr_lined = driver.nr_with_kernel = 0;
	driver.has_thread = driver.is_asleep = driver.ends = false;
	driver.poller.lock = (struct uaio_lock){ 0 };
	uaio_poller_init(&driver.poller);
	uaio_waits_register(UAIO_REQ_LINED, &lined);
}

#ifdef UAIO_TESTING
bool uaio_driver_is_there(void)
{
	bool is_there;

	lock();
	is_there = driver.has_thread;
	unlock();
	return is_there;
}

bool uaio_driver_is_refused(void)
{
	return is_refused();
}

bool uaio_driver_is_quiet(void)
{
	bool is_quiet;

	lock();
	is_quiet = driver.is_asleep && !driver.nr_lined;
	unlock();
	return is_quiet;
}

void uaio_driver_end_when_idle(void)
{
	bool wakes;

	lock();
	driver.ends = driver.has_thread;
	wakes = driver.is_asleep;
	driver.is_asleep = false;
	unlock();
	if (wakes)
		uaio_poller_wake(&driver.poller);
}

void uaio_driver_have_patience(int64_t ns)
{
	driver.patience_ns = ns;
}

void uaio_driver_ask_again(void)
{
	store_relaxed(&driver.again_ns, 0);
}
#endif
