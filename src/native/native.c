/* SPDX-License-Identifier: MIT */
#include "native/native.h"

#include <errno.h>
#include <linux/fs.h>
#include <string.h>

#include "base/check.h"
#include "base/sleep.h"
#include "base/slab.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/ownfd.h"
#include "req/req.h"
#include "req/stats.h"
#include "native/kaio.h"

enum {
	/*
	 * Events of one ring, and rings of one process. The quota of the system is
	 * 65536 by default, and other processes need some of it. The kernel gives a
	 * ring more room than was asked for.
	 */
	RING_EVENTS = 128,
	RINGS_MAX = 64,
	/* Rings that are kept for reuse: to make and to end one takes long. */
	IDLE_MAX = 4,
	/*
	 * A worker executes a larger request in segments, several at a time
	 * (split.h).
	 */
	BYTES_MAX = 512 << 10,
	/*
	 * After so many requests in a row that the kernel would have waited for,
	 * a file's requests go to workers, but for one now and then.
	 */
	VAIN_MAX = 8,
	TRY_EVERY = 32,
	/* How long a thread sleeps that waits for the kernel's completions. */
	SLICE_NS = 100000,
};

/* When to ask again after a refusal. */
#define AGAIN_NS INT64_C(1000000000)

struct uaio_native {
	struct uaio_slab_node slab;

	/* immutable while a queue has it */
	struct uaio_kaio_ring *ring; /* owns */
	struct uaio_group *group;    /* borrows: gives it back */

	/* atomic */
	uint32_t nr; /* requests submitted, or about to be, and not taken */
	uint32_t
		is_lost; /* the program has closed event_fd: no more requests */
	int event_fd;    /* owns: signalled with each completion */

	struct list node; /* under natives.lock: in used or idle */

	struct uaio_lock lock; /* rank NATIVE: of taking completions */
};

static struct {
	/* atomic: submitting calls; event_fd and file->nr_native are in use */
	uint32_t nr_begun;
	uint32_t nr_ended;

	/* atomic: the kernel is asked for no request, for no ring until then */
	int64_t again_ns;
	int64_t ring_again_ns;

	struct uaio_lock lock; /* rank NATIVES */
	/* under lock */
	struct list used;
	struct list idle;
	unsigned nr_idle;
	unsigned nr_rings; /* that exist, or are being made */

	uint64_t nr_executed; /* atomic: statistics */

	struct uaio_slab slab;
} natives;

void uaio_natives_init(void)
{
	/* A child of fork() has none of its parent's rings. */
	store_relaxed(&natives.nr_begun, 0);
	store_relaxed(&natives.nr_ended, 0);
	store_relaxed(&natives.again_ns, 0);
	store_relaxed(&natives.ring_again_ns, 0);
	natives.lock = (struct uaio_lock){ 0 };
	list_init(&natives.used);
	list_init(&natives.idle);
	natives.nr_idle = natives.nr_rings = 0;
	store_relaxed(&natives.nr_executed, 0);
	uaio_slab_init(&natives.slab, sizeof(struct uaio_native), 4096);
}

/*
 * Which requests
 */

/* Return: whether to leave a file's requests to workers this time. */
static bool is_in_vain(struct uaio_file *file)
{
	/* relaxed: advice */
	uint32_t nr = load_relaxed(&file->nr_unnative);

	if (likely(nr < VAIN_MAX))
		return false;
	nr = nr + 1 < VAIN_MAX + TRY_EVERY ? nr + 1 : VAIN_MAX;
	store_relaxed(&file->nr_unnative, nr);
	return nr != VAIN_MAX;
}

static struct uaio_native *ring_of(const struct uaio_group *group)
{
	/* [MB:native] acquire: pairs with attach_locked(). */
	return load_acquire(&group->native);
}

static bool is_refused(const struct uaio_group *group)
{
	/* relaxed, both: advice */
	int64_t again = ring_of(group) ? load_relaxed(&natives.again_ns)
				       : load_relaxed(&natives.ring_again_ns);

	return again && uaio_now_ns() < again;
}

/* Not inline: most programs use no direct I/O. */
static __attribute__((noinline)) bool is_for_kernel(const struct uaio_req *req)
{
	const struct uaio_sqe *sqe = &req->sqe;
	struct uaio_file *file = req->file;

	return file->kind == UAIO_KIND_DIRECT && !sqe->ioprio &&
	       !sqe->is_async && !req->done_bytes && !sqe->links &&
	       !load_relaxed(&file->nowait_refused) &&
	       uaio_sqe_bytes(sqe) < BYTES_MAX && !uaio_config.force_worker &&
	       uaio_may_call(UAIO_CALL_IO_SETUP) &&
	       uaio_may_call(UAIO_CALL_IO_SUBMIT) && !is_refused(req->group) &&
	       !is_in_vain(file);
}

/* Return: whether no other request on its inode waits for req, nor it for one. */
static bool is_by_itself(const struct uaio_req *req)
{
	return uaio_order_is_direct(req->order) ||
	       (req->order == UAIO_ORDER_NONE && uaio_req_inode(req) &&
		uaio_optab[req->sqe.op].class == UAIO_CLASS_READ);
}

bool uaio_native_suits(const struct uaio_req *req)
{
	return uaio_config.backend != UAIO_BACKEND_THREADS &&
	       is_by_itself(req) && is_for_kernel(req);
}

/*
 * Rings
 */

/* A filter stays. What is used up, others may give back. */
static void note_no_ring(int error)
{
	bool is_final = error == -ENOSYS || error == -EPERM;

	/* relaxed: advice */
	store_relaxed(&natives.ring_again_ns,
		      is_final ? UAIO_FOREVER : uaio_now_ns() + AGAIN_NS);
}

static void lock(void)
{
	uaio_lock(&natives.lock, UAIO_RANK_NATIVES);
}

static void unlock(void)
{
	uaio_unlock(&natives.lock, UAIO_RANK_NATIVES);
}

static void count_out_ring(void)
{
	lock();
	natives.nr_rings--;
	unlock();
}

static void destroy(struct uaio_native *native)
{
	/* What is lost may be a file of the program's by now. */
	if (unlikely(load_relaxed(&native->is_lost)))
		uaio_ownfd_give_up(native->event_fd);
	else if (native->event_fd >= 0)
		uaio_ownfd_close(native->event_fd);
	uaio_kaio_close(native->ring);
	uaio_slab_put(&natives.slab, native);
	count_out_ring();
}

/* The ring is counted. Return: NULL: there can be none; then it is not. */
static struct uaio_native *create(void)
{
	struct uaio_native *native = uaio_slab_get(&natives.slab);
	int ret;

	if (!native)
		goto err;
	ret = uaio_kaio_open(RING_EVENTS, &native->ring);
	if (ret < 0)
		goto err_slab;
	native->lock = (struct uaio_lock){ 0 };
	store_relaxed(&native->nr, 0);
	store_relaxed(&native->is_lost, 0);
	list_init(&native->node);
	store_relaxed(&native->event_fd, uaio_ownfd_event(0));
	if (native->event_fd >= 0)
		return native;
	note_no_ring(-EMFILE);
	destroy(native);
	return NULL;

err_slab:
	uaio_slab_put(&natives.slab, native);
	note_no_ring(ret);
err:
	count_out_ring();
	return NULL;
}

/*
 * Return: an idle ring, or NULL. *ret_may_create: then one may be made, and is
 * counted.
 */
static struct uaio_native *take_idle(bool *ret_may_create)
{
	struct uaio_native *native = NULL;
	struct list *node;

	lock();
	node = list_pop(&natives.idle);
	if (node) {
		natives.nr_idle--;
		native = container_of(node, struct uaio_native, node);
	}
	*ret_may_create = !node && natives.nr_rings < RINGS_MAX;
	natives.nr_rings += *ret_may_create;
	if (!node && !*ret_may_create)
		note_no_ring(-EAGAIN);
	unlock();
	return native;
}

/* Return: false if there are enough idle ones. */
static bool keep_locked(struct uaio_native *native)
{
	if (natives.nr_idle == IDLE_MAX)
		return false;
	list_add_tail(&natives.idle, &native->node);
	natives.nr_idle++;
	/* relaxed: advice */
	store_relaxed(&natives.ring_again_ns, 0);
	return true;
}

static void give_back(struct uaio_native *native)
{
	bool is_kept;

	lock();
	/* relaxed: no thread uses it any more */
	is_kept = !load_relaxed(&native->is_lost) && keep_locked(native);
	unlock();
	if (!is_kept)
		destroy(native);
}

/* Return: 0: native is the group's now; -EEXIST: it has one; what epoll_ctl says. */
static int attach_locked(struct uaio_native *native, struct uaio_group *group)
{
	int ret;

	/* relaxed: changes under the lock */
	if (load_relaxed(&group->native))
		return -EEXIST;
	ret = uaio_poller_ctl(&group->ready.poller, EPOLL_CTL_ADD,
			      native->event_fd, EPOLLIN, 0);
	if (ret < 0)
		return ret;
	native->group = group;
	list_add_tail(&natives.used, &native->node);
	/* [MB:native] release: its members. Pairs with ring_of(). */
	store_release(&group->native, native);
	return 0;
}

static __attribute__((noinline)) struct uaio_native *
make_ring(struct uaio_group *group)
{
	struct uaio_native *native;
	bool may_create;
	int ret;

	/* In the commons (ready.h) the epoll is not this queue's. */
	if (load_relaxed(&group->ready.home) != group ||
	    !uaio_poller_is_open(&group->ready.poller))
		return NULL;
	native = take_idle(&may_create);
	if (may_create)
		native = create();
	if (!native)
		return NULL;
	lock();
	ret = attach_locked(native, group);
	unlock();
	/* While it was idle, the program may have closed the eventfd. */
	if (ret == -EBADF || ret == -EPERM)
		/* relaxed: no other thread has it */
		store_relaxed(&native->is_lost, 1);
	if (ret < 0)
		give_back(native);
	if (ret < 0 && ret != -EEXIST)
		note_no_ring(-EAGAIN);
	return ring_of(group);
}

struct uaio_native *uaio_native_get(struct uaio_group *group)
{
	struct uaio_native *native = ring_of(group);

	return likely(native) ? native : make_ring(group);
}

void uaio_native_leave(struct uaio_group *group)
{
	struct uaio_native *native = ring_of(group);

	if (likely(!native))
		return;
	lock();
	list_remove(&native->node);
	unlock();
}

void uaio_native_put(struct uaio_group *group)
{
	struct uaio_native *native = ring_of(group);

	if (likely(!native))
		return;
	UAIO_CHECK(!load_relaxed(&native->nr));
	/* relaxed: no thread uses the group any more */
	store_relaxed(&group->native, NULL);
	give_back(native);
}

uint32_t uaio_native_nr(const struct uaio_group *group)
{
	const struct uaio_native *native = ring_of(group);

	/* relaxed: what the caller has submitted is counted */
	return likely(!native) ? 0 : load_relaxed(&native->nr);
}

void uaio_native_await(const struct uaio_group *group, uint32_t nr)
{
	struct uaio_native *native = ring_of(group);

	(void)uaio_sleep_outside(&native->nr, nr, uaio_now_ns() + SLICE_NS);
}

uint32_t uaio_natives_each(void (*act)(struct uaio_group *group))
{
	struct uaio_group *groups[16];
	struct list seen;
	uint32_t nr_requests = 0;
	unsigned nr = 0;

	list_init(&seen);
	lock();
	list_for_each_safe (pos, &natives.used) {
		struct uaio_native *native =
			container_of(pos, struct uaio_native, node);
		/* relaxed: the caller looks again */
		uint32_t nr_left = load_relaxed(&native->nr);

		nr_requests += nr_left;
		if (!nr_left || nr == 16)
			continue;
		uaio_ready_pin(&native->group->ready);
		groups[nr++] = native->group;
		list_remove(pos);
		list_add_tail(&seen, pos);
	}
	/* Others come first the next time. */
	list_splice_tail(&natives.used, &seen);
	unlock();
	for (unsigned i = 0; i < nr; i++) {
		act(groups[i]);
		uaio_ready_unpin(&groups[i]->ready);
	}
	return nr_requests;
}

/*
 * Submitting
 */

static uint16_t opcode_of(enum uaio_op op)
{
	switch (op) {
	case UAIO_OP_READ: return IOCB_CMD_PREAD;
	case UAIO_OP_READV: return IOCB_CMD_PREADV;
	case UAIO_OP_WRITE: return IOCB_CMD_PWRITE;
	default: return IOCB_CMD_PWRITEV;
	}
}

static void fill(struct iocb *iocb, const struct uaio_req *req, int event_fd)
{
	const struct uaio_sqe *sqe = &req->sqe;

	*iocb = (struct iocb){
		.aio_data = (uintptr_t)req,
		.aio_rw_flags = (int)(sqe->rw_flags | RWF_NOWAIT),
		.aio_lio_opcode = opcode_of(sqe->op),
		.aio_fildes = (uint32_t)sqe->fd,
		.aio_buf = (uintptr_t)sqe->buf,
		.aio_nbytes = sqe->len,
		.aio_offset = sqe->off,
		.aio_flags = IOCB_FLAG_RESFD,
		.aio_resfd = (uint32_t)event_fd,
	};
}

static void count_in(struct uaio_req *const *reqs, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		/* [MB:native-begun] seq_cst: pairs with uaio_natives_hold(). */
		add_seq_cst(&reqs[i]->file->nr_native, 1);
		reqs[i]->started = uaio_stats_now();
	}
}

/* These were not submitted after all. */
static void count_out(struct uaio_native *native, struct uaio_req *const *reqs,
		      unsigned nr)
{
	/* [MB:native-begun] seq_cst: pairs with uaio_natives_hold(). */
	for (unsigned i = 0; i < nr; i++)
		sub_seq_cst(&reqs[i]->file->nr_native, 1);
	sub_relaxed(&native->nr, nr);
}

/*
 * The first request is refused with that error.
 * Return: whether the kernel would take others.
 */
static bool is_of_request(const struct uaio_req *req, int error)
{
	if (error == -EOPNOTSUPP)
		/* relaxed: advice */
		store_relaxed(&req->file->nowait_refused, 1);
	/* A security module may refuse one request as well as a filter all. */
	if (error == -ENOSYS || error == -EPERM)
		store_relaxed(&natives.again_ns, uaio_now_ns() + AGAIN_NS);
	return error == -EOPNOTSUPP || error == -EINVAL || error == -EFAULT ||
	       error == -EACCES || error == -EBADF;
}

/* Return: whether the eventfd is still in the queue's epoll, and so ours. */
static __attribute__((noinline)) bool
has_eventfd(const struct uaio_native *native, int event_fd)
{
	return uaio_poller_ctl(&native->group->ready.poller, EPOLL_CTL_MOD,
			       event_fd, EPOLLIN, 0) == 0;
}

unsigned uaio_native_submit(struct uaio_native *native,
			    struct uaio_req *const *reqs, unsigned nr,
			    bool *ret_is_one)
{
	struct iocb iocbs[UAIO_NATIVE_BATCH], *list[UAIO_NATIVE_BATCH];
	unsigned nr_taken;
	int event_fd, ret;

	UAIO_CHECK(nr <= UAIO_NATIVE_BATCH);
	*ret_is_one = false;
	/* relaxed: advice */
	if (unlikely(load_relaxed(&native->is_lost)))
		return 0;
	/* [MB:native-begun] seq_cst: pairs with uaio_natives_hold(). */
	add_seq_cst(&natives.nr_begun, 1);
	event_fd = load_seq_cst(&native->event_fd);
	count_in(reqs, nr);
	for (unsigned i = 0; i < nr; i++) {
		fill(&iocbs[i], reqs[i], event_fd);
		list[i] = &iocbs[i];
	}
	/* [MB:native-nr] release: the requests. Pairs with uaio_native_take(). */
	add_release(&native->nr, nr);
	ret = sys_io_submit((uintptr_t)native->ring, nr, list);
	nr_taken = ret > 0 ? (unsigned)ret : 0;
	if (unlikely(nr_taken < nr))
		count_out(native, reqs + nr_taken, nr - nr_taken);
	/* A descriptor that is closed is the program's, or ours. */
	if (unlikely(ret == -EBADF))
		/* relaxed: advice */
		store_relaxed(&native->is_lost, !has_eventfd(native, event_fd));
	/* [MB:native-begun] seq_cst: as above. */
	add_seq_cst(&natives.nr_ended, 1);
	*ret_is_one = ret < 0 && !load_relaxed(&native->is_lost) &&
		      is_of_request(reqs[0], ret);
	return nr_taken;
}

/*
 * Taking
 */

static void note_result(struct uaio_file *file, int64_t res)
{
	/* relaxed, all: advice */
	uint32_t nr = load_relaxed(&file->nr_unnative);

	if (unlikely(res == -EAGAIN))
		store_relaxed(&file->nr_unnative, nr < VAIN_MAX ? nr + 1 : nr);
	else if (unlikely(nr))
		store_relaxed(&file->nr_unnative, 0);
	/* A device may know no RWF_NOWAIT where its file said that it does. */
	if (unlikely(res == -EOPNOTSUPP))
		store_relaxed(&file->nowait_refused, 1);
}

/*
 * Return: the result, or -EAGAIN if a worker is to execute the request: it was
 * not executed, or in part, which a kernel may do with RWF_NOWAIT where it would
 * have waited for the rest.
 */
static int64_t result_of(const struct uaio_req *req, int64_t res)
{
	if (likely((uint64_t)res == uaio_sqe_bytes(&req->sqe)))
		return res;
	return res > 0 || res == -EOPNOTSUPP ? -EAGAIN : res;
}

unsigned uaio_native_take(struct uaio_group *group, struct uaio_req **ret_reqs,
			  int64_t *ret_results, unsigned max)
{
	struct uaio_native *native = ring_of(group);
	struct io_event events[UAIO_NATIVE_BATCH];
	unsigned nr, nr_back = 0;

	if (likely(!native) || !uaio_kaio_has(native->ring))
		return 0;
	uaio_lock(&native->lock, UAIO_RANK_NATIVE);
	nr = uaio_kaio_take(native->ring, events,
			    max < UAIO_NATIVE_BATCH ? max : UAIO_NATIVE_BATCH);
	uaio_unlock(&native->lock, UAIO_RANK_NATIVE);
	/* [MB:native-nr] acquire: the requests. Pairs with uaio_native_submit(). */
	(void)load_acquire(&native->nr);
	for (unsigned i = 0; i < nr; i++) {
		struct uaio_req *req =
			(struct uaio_req *)(uintptr_t)events[i].data;

		ret_reqs[i] = req;
		ret_results[i] = result_of(req, events[i].res);
		nr_back += ret_results[i] == -EAGAIN;
		note_result(req->file, events[i].res);
		/* [MB:native-begun] seq_cst: pairs with uaio_natives_hold(). */
		sub_seq_cst(&req->file->nr_native, 1);
	}
	/* relaxed: a thread that waits for it takes completions itself */
	sub_relaxed(&native->nr, nr);
	uaio_stats_direct(UAIO_DIRECT_KERNEL, nr - nr_back);
	add_relaxed(&natives.nr_executed, nr - nr_back);
	return nr;
}

uint64_t uaio_natives_executed(void)
{
	return load_relaxed(&natives.nr_executed);
}

/*
 * Descriptors that others close
 */

bool uaio_natives_hold(const struct uaio_file *file, uint32_t *ret_nr)
{
	uint32_t nr_ended, nr_begun;

	/*
	 * [MB:native-begun] seq_cst, all: no call began before the count was
	 * read that had not ended, nor while it was. So the requests that are
	 * counted are with the kernel. Pairs with uaio_native_submit().
	 */
	nr_ended = load_seq_cst(&natives.nr_ended);
	/* [MB:native-begun] seq_cst: as above. */
	nr_begun = load_seq_cst(&natives.nr_begun);
	/* [MB:native-begun] seq_cst: as above. */
	*ret_nr = load_seq_cst(&file->nr_native);
	/* [MB:native-begun] seq_cst: as above. */
	return load_seq_cst(&natives.nr_begun) == nr_begun &&
	       nr_ended == nr_begun;
}

/* Return: the ring with that eventfd, or NULL. */
static struct uaio_native *find_locked(const struct list *list, int fd)
{
	list_for_each (pos, list) {
		struct uaio_native *native =
			container_of(pos, struct uaio_native, node);

		/* relaxed: changes under the lock */
		if (load_relaxed(&native->event_fd) == fd)
			return native;
	}
	return NULL;
}

/* Calls that use the old number end soon. */
static void await_calls(void)
{
	enum { SOON_NS = 20000 };
	uint32_t word = 0, nr_ended;

	for (;;) {
		/* [MB:native-begun] seq_cst: pairs with uaio_native_submit(). */
		nr_ended = load_seq_cst(&natives.nr_ended);
		/* [MB:native-begun] seq_cst: as above. */
		if (load_seq_cst(&natives.nr_begun) == nr_ended)
			return;
		(void)uaio_sleep(&word, 0, uaio_now_ns() + SOON_NS);
	}
}

int uaio_natives_yield(int fd)
{
	struct uaio_native *native;
	int moved = -EBUSY;

	lock();
	native = find_locked(&natives.used, fd);
	if (!native)
		native = find_locked(&natives.idle, fd);
	if (native)
		moved = uaio_ownfd_dup(fd);
	if (native && moved >= 0)
		/* [MB:native-begun] seq_cst: as above. */
		store_seq_cst(&native->event_fd, moved);
	unlock();
	if (!native)
		return -ENOENT;
	if (moved < 0)
		return -EBUSY;
	await_calls();
	return 0;
}
