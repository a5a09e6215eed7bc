/* SPDX-License-Identifier: MIT */
/*
 * Decides which requests the driver (driver.h) executes, and keeps the driver's list of
 * requests. Tested by test-driver.c.
 */
#include <errno.h>

#include "base/check.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/thread.h"
#include "req/queue.h"
#include "req/req.h"
#include "req/waits.h"
#include "native/nativeint.h"

enum {
	/* direct requests of at least this size may be cut into segments (split.h) */
	LARGE_BYTES = 512 << 10,
	/*
	 * The driver counts as held up if a submitting call lasts longer than this. Few
	 * calls last so long.
	 */
	HELD_UP_NS = 1000000,
};

struct uaio_driver uaio_driver;

/* Which requests the driver executes */

static bool is_refused(void)
{
	/* relaxed: a hint */
	int64_t again = load_relaxed(&uaio_driver.again_ns);

	return again && uaio_now_ns() < again;
}

/* Return: whether --segments asks for cutting this request into segments. */
static bool is_to_be_cut(const struct uaio_file *file,
			 const struct uaio_sqe *sqe)
{
	return uaio_config.segments > 1 &&
	       uaio_file_kind(file) == UAIO_KIND_DIRECT &&
	       uaio_sqe_bytes(sqe) >= LARGE_BYTES;
}

/* Not inline: with the default backend, few requests get here. */
static __attribute__((noinline)) bool takes(const struct uaio_file *file,
					    const struct uaio_sqe *sqe)
{
	enum uaio_kind kind = uaio_file_kind(file);

	return (kind == UAIO_KIND_CACHED || kind == UAIO_KIND_DIRECT) &&
	       uaio_driver_opcode_of(sqe->op) >= 0 && !sqe->is_async &&
	       sqe->off >= 0 && sqe->len <= UINT32_MAX &&
	       !load_relaxed(&file->nowait_refused) &&
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
 * Return: whether req is small direct I/O, which kernel AIO would execute, but the
 * kernel refuses rings or requests of kernel AIO now. The driver then executes req, as
 * that costs less than a worker that sleeps.
 */
static bool is_left_by_kaio(const struct uaio_req *req)
{
	return req->file->kind == UAIO_KIND_DIRECT &&
	       uaio_driver_opcode_of(req->sqe.op) >= 0 &&
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
	       !req->is_oldest && req->native == UAIO_KERNEL_HAS_NOT &&
	       takes(req->file, &req->sqe);
}

int uaio_driver_opcode_of(enum uaio_op op)
{
	switch (op) {
	case UAIO_OP_READ: return IORING_OP_READ;
	case UAIO_OP_READV: return IORING_OP_READV;
	case UAIO_OP_WRITE: return IORING_OP_WRITE;
	case UAIO_OP_WRITEV: return IORING_OP_WRITEV;
	default: return -1;
	}
}

/*
 * Lining up
 */

/*
 * If a seccomp filter has refused a call of io_uring, the filter will always refuse
 * this call: never try again. If the call failed because a resource is used up, try
 * again after a while.
 */
void uaio_driver_note_refusal(int error)
{
	bool is_final = error == -ENOSYS || error == -EPERM || error == -EINVAL;

	/* relaxed: a hint */
	store_relaxed(&uaio_driver.again_ns,
		      is_final ? UAIO_FOREVER
			       : uaio_now_ns() + UAIO_NATIVE_AGAIN_NS);
}

static int start_locked(void)
{
	int ret;

	if (uaio_driver.has_thread)
		return 0;
	if (uaio_is_own_thread())
		return -EAGAIN;
	ret = uaio_poller_open_within_share(&uaio_driver.poller);
	if (ret == 0)
		ret = uaio_kuring_open(UAIO_DRIVER_BATCH, UAIO_DRIVER_ROOM,
				       &uaio_driver.ring);
	if (ret < 0) {
		uaio_driver_note_refusal(ret);
		return ret;
	}
	uaio_driver.has_thread = true;
	uaio_driver.identity = uaio_identity_mine();
	if (uaio_thread_start(uaio_driver_main, NULL) == 0)
		return 0;
	uaio_driver.has_thread = false;
	uaio_kuring_close(&uaio_driver.ring);
	uaio_driver_note_refusal(-EAGAIN);
	return -EAGAIN;
}

static bool has_room_locked(void)
{
	return uaio_driver.nr_lined + uaio_driver.nr_with_kernel <
	       UAIO_DRIVER_ROOM;
}

/*
 * Return: whether the driver has been in one submitting call for long. The kernel then
 * is fetching the memory of a request, perhaps from a server that does not answer.
 */
static bool is_held_up(void)
{
	/* relaxed: a hint */
	int64_t since = load_relaxed(&uaio_driver.call_since_ns);

	return unlikely(since) &&
	       uaio_now_ns() - since > uaio_driver.patience_ns;
}

/* The driver is held up: take all requests off its list, for workers. */
static void take_back_locked(struct list *ret_refused)
{
	struct list *node;

	while ((node = list_pop(&uaio_driver.lined))) {
		uaio_req_move(container_of(node, struct uaio_req, link),
			      UAIO_REQ_LINED, UAIO_REQ_PREPPED);
		list_add_tail(ret_refused, node);
	}
	store_relaxed(&uaio_driver.nr_lined, 0);
}

void uaio_driver_add(struct list *reqs,
		     bool (*is_awaited)(const struct uaio_req *req),
		     struct list *ret_refused)
{
	struct list *node;
	bool wakes, can;

	uaio_driver_lock();
	can = start_locked() == 0 && !is_held_up();
	if (unlikely(!can))
		take_back_locked(ret_refused);
	while ((node = list_pop(reqs))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		if (!can || !has_room_locked() || is_awaited(req) ||
		    unlikely(
			    !uaio_wq_is_of(&req->work, uaio_driver.identity))) {
			list_add_tail(ret_refused, node);
			continue;
		}
		uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_LINED);
		list_add_tail(&uaio_driver.lined, node);
		store_relaxed(&uaio_driver.nr_lined, uaio_driver.nr_lined + 1);
	}
	wakes = uaio_driver.is_asleep && uaio_driver.nr_lined;
	uaio_driver.is_asleep &= !wakes;
	uaio_driver_unlock();
	if (wakes)
		uaio_poller_wake(&uaio_driver.poller);
}

/* Removing requests from the list */

static void leave_locked(struct uaio_req *req)
{
	list_remove(&req->link);
	store_relaxed(&uaio_driver.nr_lined, uaio_driver.nr_lined - 1);
	uaio_req_move(req, UAIO_REQ_LINED, UAIO_REQ_RUNNING);
}

static enum uaio_cancel cancel(struct uaio_req *req,
			       struct uaio_canceller *canceller,
			       struct list *ret_startable)
{
	enum uaio_cancel ret = UAIO_CANCEL_NONE;

	(void)canceller;
	(void)ret_startable;
	uaio_driver_lock();
	if (uaio_req_state(req) == UAIO_REQ_LINED) {
		leave_locked(req);
		ret = UAIO_CANCEL_TAKEN;
	}
	uaio_driver_unlock();
	return ret;
}

static struct uaio_req *take(uaio_is_wanted_fn *is_wanted, const void *arg)
{
	struct uaio_req *found = NULL;

	uaio_driver_lock();
	list_for_each (pos, &uaio_driver.lined) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (!is_wanted(req, arg))
			continue;
		leave_locked(req);
		found = req;
		break;
	}
	uaio_driver_unlock();
	return found;
}

void uaio_driver_init(void)
{
	static const struct uaio_wait_ops lined = {
		.cancel = cancel,
		.take = take,
	};

	uaio_driver.lock = (struct uaio_lock){ 0 };
	store_relaxed(&uaio_driver.again_ns, 0);
	store_relaxed(&uaio_driver.call_since_ns, 0);
	uaio_driver.patience_ns = HELD_UP_NS;
	store_relaxed(&uaio_driver.nr_executed, 0);
	list_init(&uaio_driver.lined);
	uaio_driver.nr_lined = uaio_driver.nr_with_kernel = 0;
	uaio_driver.has_thread = uaio_driver.is_asleep = uaio_driver.ends =
		false;
	uaio_driver.poller.lock = (struct uaio_lock){ 0 };
	uaio_poller_init(&uaio_driver.poller);
	uaio_waits_register(UAIO_REQ_LINED, &lined);
}

uint64_t uaio_driver_executed(void)
{
	return load_relaxed(&uaio_driver.nr_executed);
}

#ifdef UAIO_TESTING
bool uaio_driver_is_there(void)
{
	bool is_there;

	uaio_driver_lock();
	is_there = uaio_driver.has_thread;
	uaio_driver_unlock();
	return is_there;
}

bool uaio_driver_is_refused(void)
{
	return is_refused();
}

bool uaio_driver_is_quiet(void)
{
	bool is_quiet;

	uaio_driver_lock();
	is_quiet = uaio_driver.is_asleep && !uaio_driver.nr_lined;
	uaio_driver_unlock();
	return is_quiet;
}

void uaio_driver_end_when_idle(void)
{
	bool wakes;

	uaio_driver_lock();
	uaio_driver.ends = uaio_driver.has_thread;
	wakes = uaio_driver.is_asleep;
	uaio_driver.is_asleep = false;
	uaio_driver_unlock();
	if (wakes)
		uaio_poller_wake(&uaio_driver.poller);
}

void uaio_driver_have_patience(int64_t ns)
{
	uaio_driver.patience_ns = ns;
}

void uaio_driver_ask_again(void)
{
	store_relaxed(&uaio_driver.again_ns, 0);
}
#endif
