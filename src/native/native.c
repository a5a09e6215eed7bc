/* SPDX-License-Identifier: MIT */
#include "native/native.h"

#include <errno.h>
#include <linux/fs.h>

#include "base/check.h"
#include "base/cycles.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/thread.h"
#include "file/inode.h"
#include "req/req.h"
#include "req/stats.h"
#include "native/driver.h"
#include "native/krings.h"
#include "native/nativeint.h"

enum {
	/*
	 * A thread that waits for native completions sleeps at most for this time, and
	 * then looks for completions.
	 */
	SLICE_NS = 100000,
	/*
	 * A call that waits for free blocks on the disk counts as slow after SLOW_US,
	 * plus SLOW_EACH_US for each of its requests. On the test machine finding free
	 * blocks takes 10 us.
	 */
	SLOW_US = 1000,
	SLOW_EACH_US = 100,
};

static struct {
	/*
	 * atomic: how many submitting calls have begun, and how many have ended. While
	 * the numbers differ, a call may be using event_fd and file->nr_native.
	 */
	uint32_t nr_begun;
	uint32_t nr_ended;

	/* atomic: after a refusal, no requests are submitted until this time */
	int64_t again_ns;
	uint64_t nr_executed; /* atomic: statistics */
} natives;

static void forget_requests(void)
{
	store_relaxed(&natives.nr_begun, 0);
	store_relaxed(&natives.nr_ended, 0);
	store_relaxed(&natives.again_ns, 0);
	store_relaxed(&natives.nr_executed, 0);
}

void uaio_natives_init(void)
{
	forget_requests();
	uaio_native_rings_init();
	uaio_driver_init();
}

#ifdef UAIO_TESTING
void uaio_natives_reset(void)
{
	forget_requests();
	uaio_native_rings_reset();
	uaio_driver_init();
}
#endif

int64_t uaio_natives_again_ns(void)
{
	/* relaxed: a hint */
	return load_relaxed(&natives.again_ns);
}

/* How many requests are with the kernel */

uint32_t uaio_native_nr(const struct uaio_group *group)
{
	const struct uaio_native *native = uaio_native_of(group);

	/*
	 * relaxed: the caller sees at least the requests that it has submitted itself
	 */
	return likely(!native) ? 0 : load_relaxed(&native->nr);
}

bool uaio_native_has_by_workers(const struct uaio_group *group)
{
	const struct uaio_native *native = uaio_native_of(group);

	/*
	 * [MB:native-by-worker] seq_cst: leave_to_callers() of ready/fallback.c changes
	 * `keepers` (which threads serve the queue), then makes this load. A worker
	 * counts its request, then reads `keepers`. So one of the two threads sees what
	 * the other has written. Pairs with uaio_native_expect_by_worker().
	 */
	return unlikely(native) && load_seq_cst(&native->nr_by_workers);
}

void uaio_native_expect_by_worker(struct uaio_native *native)
{
	/*
	 * [MB:native-by-worker] seq_cst: counts the request. After that the caller reads
	 * `keepers`, which says which threads serve the queue. Pairs with
	 * uaio_native_has_by_workers().
	 */
	add_seq_cst(&native->nr_by_workers, 1);
}

void uaio_native_unexpect_by_worker(struct uaio_native *native)
{
	/*
	 * relaxed: a thread that reads an old value only serves the queue once more,
	 * and finds no completion there
	 */
	sub_relaxed(&native->nr_by_workers, 1);
}

void uaio_native_await(const struct uaio_group *group, uint32_t nr)
{
	struct uaio_native *native = uaio_native_of(group);

	(void)uaio_sleep_outside(&native->nr, nr, uaio_now_ns() + SLICE_NS);
}

/*
 * Submitting
 */

void uaio_natives_begin(void)
{
	/* [MB:native-begun] seq_cst: a call begins. Pairs with uaio_natives_hold(). */
	add_seq_cst(&natives.nr_begun, 1);
}

void uaio_natives_end(void)
{
	/* [MB:native-begun] seq_cst: a call ended. Pairs with uaio_natives_hold(). */
	add_seq_cst(&natives.nr_ended, 1);
}

static uint16_t opcode_of(enum uaio_op op)
{
	switch (op) {
	case UAIO_OP_READ: return IOCB_CMD_PREAD;
	case UAIO_OP_READV: return IOCB_CMD_PREADV;
	case UAIO_OP_WRITE: return IOCB_CMD_PWRITE;
	default: return IOCB_CMD_PWRITEV;
	}
}

static void fill(struct iocb *iocb, const struct uaio_req *req, int fd,
		 uint32_t rw_flags, int event_fd)
{
	const struct uaio_sqe *sqe = &req->sqe;

	*iocb = (struct iocb){
		.aio_data = (uintptr_t)req,
		.aio_rw_flags = (int)(sqe->rw_flags | rw_flags),
		.aio_lio_opcode = opcode_of(sqe->op),
		.aio_fildes = (uint32_t)fd,
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
		uaio_req_note_start(reqs[i]);
	}
	uaio_stats_move(UAIO_STAY_NONE, UAIO_STAY_KERNEL, nr);
}

/* The kernel has not accepted these requests: subtract them from the counts. */
static void count_out(struct uaio_native *native, struct uaio_req *const *reqs,
		      unsigned nr)
{
	/* [MB:native-begun] seq_cst: pairs with uaio_natives_hold(). */
	for (unsigned i = 0; i < nr; i++)
		sub_seq_cst(&reqs[i]->file->nr_native, 1);
	sub_relaxed(&native->nr, nr);
	uaio_stats_move(UAIO_STAY_KERNEL, UAIO_STAY_NONE, nr);
}

/*
 * Return: whether the eventfd is still in the queue's epoll. If not, the program has
 * closed it.
 */
static __attribute__((noinline)) bool
has_eventfd(const struct uaio_native *native)
{
	bool has_it;
	int fd;

	/*
	 * relaxed, both loads: another thread may move the eventfd to another descriptor
	 * (move_locked() of rings.c). It adds the new descriptor to the epoll before it
	 * changes event_fd. So if event_fd has not changed, epoll_ctl() has failed
	 * because the eventfd is not in the epoll.
	 */
	do {
		fd = load_relaxed(&native->event_fd);
		has_it = uaio_poller_ctl(&native->group->ready.poller,
					 EPOLL_CTL_MOD, fd, EPOLLIN, 0) == 0;
	} while (!has_it && fd != load_relaxed(&native->event_fd));
	return has_it;
}

/*
 * The kernel has refused req, the first request of a call, with `error`. Record what this
 * means for later requests.
 * Return: whether the kernel would accept other requests.
 */
static bool note_refusal(struct uaio_native *native, const struct uaio_req *req,
			 int error)
{
	/*
	 * The program has closed either the request's descriptor, or the library's
	 * eventfd.
	 */
	if (error == -EBADF)
		/* relaxed: a hint */
		store_relaxed(&native->is_lost, !has_eventfd(native));
	if (error == -EOPNOTSUPP)
		/* relaxed: a hint */
		store_relaxed(&req->file->nowait_refused, 1);
	/*
	 * ENOSYS and EPERM mean that a seccomp filter refuses all requests. A security
	 * module may refuse a single request with EPERM, too, so try again after a
	 * while.
	 */
	if (error == -ENOSYS || error == -EPERM)
		store_relaxed(&natives.again_ns,
			      uaio_now_ns() + UAIO_NATIVE_AGAIN_NS);
	/* relaxed: a hint */
	return !load_relaxed(&native->is_lost) &&
	       (error == -EOPNOTSUPP || error == -EINVAL || error == -EFAULT ||
		error == -EACCES || error == -EBADF);
}

/* Measures a submitting call that may wait for free blocks on the disk */
struct timing {
	/* the file of the first request that may wait, with a reference */
	struct uaio_file *file;
	/* an earlier call that waited for free blocks for this inode was slow */
	bool is_suspect;
	/* if is_suspect: how often this thread has slept before the call */
	uint64_t sleeps;
	uint64_t start;
};

static void begin_timing(struct timing *timing, struct uaio_file *file)
{
	/*
	 * uaio_file_try_get() cannot fail, as the file has a request, and so exists.
	 */
	if (!uaio_file_try_get(file))
		return;
	timing->file = file;
	timing->is_suspect = load_relaxed(&file->inode->nr_slow);
	if (unlikely(timing->is_suspect))
		timing->sleeps = uaio_thread_nr_sleeps();
	timing->start = uaio_cycles();
}

/*
 * The call has submitted nr requests. If it was slow, note this for the inode: after
 * several slow calls, workers submit the inode's next writes (policy.c).
 */
static void end_timing(const struct timing *timing, unsigned nr)
{
	uint64_t took = uaio_cycles() - timing->start;

	if (unlikely(took >
		     (SLOW_US + nr * SLOW_EACH_US) * uaio_cycles_per_us()))
		uaio_inode_judge_slow(timing->file->inode,
				      timing->is_suspect &&
					      uaio_thread_nr_sleeps() !=
						      timing->sleeps);
	uaio_file_put(timing->file);
}

unsigned uaio_native_submit(struct uaio_native *native,
			    struct uaio_req *const *reqs, unsigned nr,
			    bool *ret_is_one)
{
	struct iocb iocbs[UAIO_NATIVE_BATCH], *list[UAIO_NATIVE_BATCH];
	struct timing timing = { .file = NULL };
	unsigned nr_taken;
	int event_fd, ret;

	UAIO_CHECK(nr <= UAIO_NATIVE_BATCH);
	*ret_is_one = false;
	/* relaxed: a hint */
	if (unlikely(load_relaxed(&native->is_lost)))
		return 0;
	uaio_natives_begin();
	/*
	 * [MB:native-begun] seq_cst: read event_fd after the call was counted
	 * (nr_begun). Pairs with uaio_natives_yield().
	 */
	event_fd = load_seq_cst(&native->event_fd);
	count_in(reqs, nr);
	for (unsigned i = 0; i < nr; i++) {
		bool may_wait = uaio_native_was_blocking(reqs[i]);

		fill(&iocbs[i], reqs[i], reqs[i]->sqe.fd,
		     may_wait ? 0 : RWF_NOWAIT, event_fd);
		list[i] = &iocbs[i];
		if (unlikely(may_wait) && !timing.file)
			begin_timing(&timing, reqs[i]->file);
	}
	/*
	 * [MB:native-nr] release: this thread has written the requests' members. Pairs
	 * with uaio_native_take().
	 */
	add_release(&native->nr, nr);
	ret = sys_io_submit((uintptr_t)native->ring, nr, list);
	if (unlikely(timing.file))
		end_timing(&timing, nr);
	nr_taken = ret > 0 ? (unsigned)ret : 0;
	if (unlikely(nr_taken < nr))
		count_out(native, reqs + nr_taken, nr - nr_taken);
	if (unlikely(ret < 0))
		*ret_is_one = note_refusal(native, reqs[0], ret);
	uaio_natives_end();
	return nr_taken;
}

/* Submitting by a worker */

const void *uaio_native_called_on(const struct uaio_file *file)
{
	/*
	 * For plain calls on the file, workers pass the file's own address to
	 * uaio_wq_calls(). For submitting calls they pass another address, so that
	 * uaio_wq_callers() finds each kind of call separately.
	 */
	return (const char *)file + 1;
}

/*
 * Submit req by this worker's call, which may wait.
 * Return: whether the kernel has accepted req; then req may be complete and freed.
 */
static bool submit_one(struct uaio_native *native, struct uaio_req *req)
{
	struct uaio_file *file = req->file;
	int fd = load_relaxed(&file->fd);
	struct iocb iocb, *list = &iocb;
	int event_fd, ret;

	/*
	 * [MB:native-closing] seq_cst: this worker has announced its call
	 * (uaio_wq_calls_seq_cst()), then reads is_closing. Pairs with
	 * uaio_closing_see_through().
	 */
	if (load_seq_cst(&file->is_closing) || uaio_req_has_lost_file(req, fd))
		return false;
	/*
	 * [MB:native-begun] seq_cst: read event_fd after the call was counted
	 * (nr_blocking). Pairs with uaio_natives_yield().
	 */
	event_fd = load_seq_cst(&native->event_fd);
	fill(&iocb, req, fd, 0, event_fd);
	count_in(&req, 1);
	/*
	 * [MB:native-nr] release: this thread has written the request's members. Pairs
	 * with uaio_native_take().
	 */
	add_release(&native->nr, 1);
	ret = sys_io_submit((uintptr_t)native->ring, 1, &list);
	if (likely(ret == 1))
		return true;
	count_out(native, &req, 1);
	(void)note_refusal(native, req, ret);
	return false;
}

bool uaio_native_submit_blocking(struct uaio_native *native,
				 struct uaio_req *req,
				 struct uaio_worker *worker)
{
	bool is_taken;

	/* relaxed: a hint */
	if (unlikely(load_relaxed(&native->is_lost)))
		return false;
	if (unlikely(!uaio_wq_calls_seq_cst(worker,
					    uaio_native_called_on(req->file))))
		return false;
	req->native = UAIO_KERNEL_BY_WORKER;
	/*
	 * [MB:native-begun] seq_cst: counts the call; submit_one() then reads event_fd.
	 * Pairs with uaio_natives_yield().
	 */
	add_seq_cst(&native->nr_blocking, 1);
	is_taken = submit_one(native, req);
	uaio_wq_calls(worker, NULL);
	/* [MB:native-begun] seq_cst: the call is over. Pairs with await_blocking(). */
	sub_seq_cst(&native->nr_blocking, 1);
	return is_taken;
}

/*
 * Taking
 */

unsigned uaio_native_take(struct uaio_group *group, struct uaio_req **ret_reqs,
			  int64_t *ret_results, unsigned max)
{
	struct uaio_native *native = uaio_native_of(group);
	struct io_event events[UAIO_NATIVE_BATCH];
	unsigned nr, nr_back = 0;

	if (likely(!native) || !uaio_kaio_has(native->ring))
		return 0;
	uaio_lock(&native->lock, UAIO_RANK_NATIVE);
	nr = uaio_kaio_take(native->ring, events,
			    max < UAIO_NATIVE_BATCH ? max : UAIO_NATIVE_BATCH);
	uaio_unlock(&native->lock, UAIO_RANK_NATIVE);
	/*
	 * [MB:native-nr] acquire: this thread sees the requests' members. Pairs with
	 * uaio_native_submit().
	 */
	(void)load_acquire(&native->nr);
	for (unsigned i = 0; i < nr; i++) {
		struct uaio_req *req =
			(struct uaio_req *)(uintptr_t)events[i].data;

		ret_reqs[i] = req;
		ret_results[i] = uaio_native_result_of(req, events[i].res);
		nr_back += ret_results[i] == -EAGAIN;
		if (req->native == UAIO_KERNEL_BY_WORKER)
			sub_relaxed(&native->nr_by_workers, 1);
		/* [MB:native-begun] seq_cst: pairs with uaio_natives_hold(). */
		sub_seq_cst(&req->file->nr_native, 1);
	}
	/* relaxed: a thread that waits until `nr` changes also takes completions itself */
	sub_relaxed(&native->nr, nr);
	uaio_stats_move(UAIO_STAY_KERNEL, UAIO_STAY_NONE, nr);
	uaio_stats_direct(UAIO_DIRECT_KERNEL, nr - nr_back);
	add_relaxed(&natives.nr_executed, nr - nr_back);
	return nr;
}

uint64_t uaio_natives_executed(void)
{
	return load_relaxed(&natives.nr_executed);
}

/* Descriptors that other threads close */

bool uaio_natives_hold(const struct uaio_file *file, uint32_t *ret_nr)
{
	uint32_t nr_ended, nr_begun;

	/*
	 * [MB:native-begun] seq_cst, all four reads: if the three counts of calls are
	 * equal, no submitting call was in progress while nr_native was read. So the
	 * kernel has exactly the requests that nr_native counts. Pairs with
	 * uaio_native_submit().
	 */
	nr_ended = load_seq_cst(&natives.nr_ended);
	/* [MB:native-begun] seq_cst: the second read: how many calls had begun. */
	nr_begun = load_seq_cst(&natives.nr_begun);
	/* [MB:native-begun] seq_cst: the third read, between the two of nr_begun. */
	*ret_nr = load_seq_cst(&file->nr_native);
	/* [MB:native-begun] seq_cst: the last read: whether a call has begun since. */
	return load_seq_cst(&natives.nr_begun) == nr_begun &&
	       nr_ended == nr_begun;
}

/*
 * After event_fd has changed: wait for submitting calls that may use the old
 * descriptor. They end soon.
 */
void uaio_natives_await_calls(void)
{
	enum { SOON_NS = 20000 };
	uint32_t word = 0, nr_ended;

	for (;;) {
		/* [MB:native-begun] seq_cst: pairs with uaio_native_submit(). */
		nr_ended = load_seq_cst(&natives.nr_ended);
		/*
		 * [MB:native-begun] seq_cst: read nr_begun after nr_ended. Pairs with
		 * uaio_native_submit().
		 */
		if (load_seq_cst(&natives.nr_begun) == nr_ended)
			return;
		(void)uaio_sleep(&word, 0, uaio_now_ns() + SOON_NS);
	}
}
