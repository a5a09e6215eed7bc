/* SPDX-License-Identifier: MIT */
/*
 * Decides which requests are native (native.h), and learns from their results which later
 * requests to submit. Tested by test-native.c, test-native-large.c and
 * test-native-blocks.c.
 */
#include <assert.h>
#include <errno.h>
#include <linux/fs.h>

#include "base/check.h"
#include "base/cycles.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/entry.h"
#include "file/inode.h"
#include "file/inspect.h"
#include "req/req.h"
#include "native/nativeint.h"

enum {
	/*
	 * Requests of at least this size are large: the kernel may have to cut them for
	 * the device, and a worker could execute them in segments (split.h).
	 */
	LARGE_BYTES = 512 << 10,
	/*
	 * If the kernel has handed back several requests of a file in a row (vain_max
	 * below), only one in TRY_EVERY is still submitted with RWF_NOWAIT. Small and
	 * large requests are counted separately (nr_unnative).
	 */
	TRY_EVERY = 32,
	/*
	 * Used in place of TRY_EVERY for requests that the client's thread may submit
	 * without RWF_NOWAIT (may_wait_here()). It submits one in TRY_SELDOM of them
	 * with RWF_NOWAIT, and the rest without.
	 */
	TRY_SELDOM = 1024,
	/*
	 * The references to a file that has only one request: one of the table of files,
	 * and one of the request.
	 */
	REFS_ALONE = 2,
};

/*
 * The library counts small and large requests separately. The kernel may hand back the
 * large requests of a file, and execute the small ones, or vice versa.
 */
enum size { SMALL, LARGE, NR_SIZES };

static_assert(sizeof(((struct uaio_file *)0)->nr_unnative) ==
		      NR_SIZES * sizeof(uint32_t),
	      "a count of each");

/*
 * If the kernel has handed back this many requests in a row, it gets only few of the
 * next ones. For large requests two are enough: mostly the device accepts no request of
 * that size, and that does not change.
 */
static const uint32_t vain_max[NR_SIZES] = { [SMALL] = 8, [LARGE] = 2 };

static enum size size_of(const struct uaio_req *req)
{
	return uaio_sqe_bytes(&req->sqe) >= LARGE_BYTES ? LARGE : SMALL;
}

/*
 * Return: whether the kernel has handed back vain_max[size] requests of file in a row;
 * only requests of this size count.
 */
static bool were_in_vain(const struct uaio_file *file, enum size size)
{
	/* relaxed: a hint */
	return unlikely(load_relaxed(&file->nr_unnative[size]) >=
			vain_max[size]);
}

/*
 * Called if were_in_vain(): count this request. Only one in `every` such requests is
 * still submitted with RWF_NOWAIT.
 * Return: whether this request is submitted with RWF_NOWAIT.
 */
static bool is_tried_again(struct uaio_file *file, enum size size,
			   uint32_t every)
{
	/* relaxed: a hint */
	uint32_t nr = load_relaxed(&file->nr_unnative[size]) + 1;
	uint32_t max = vain_max[size];

	if (nr >= max + every)
		nr = max;
	store_relaxed(&file->nr_unnative[size], nr);
	return nr == max;
}

/*
 * Return: whether a request of this size may go to the kernel whole. A large request of
 * a file server may not: the kernel would cut it, and send the pieces to the server one
 * after the other.
 */
static bool is_size_for_kernel(const struct uaio_file *file, enum size size)
{
	return likely(size == SMALL) ||
	       (uaio_config.segments <= 1 &&
		!uaio_file_has(file, UAIO_FILE_F_REMOTE));
}

bool uaio_native_is_refused(const struct uaio_group *group)
{
	/* relaxed: a hint */
	int64_t again = uaio_native_of(group) ? uaio_natives_again_ns()
					      : uaio_native_rings_again_ns();

	return !uaio_may_call(UAIO_CALL_IO_SETUP) ||
	       !uaio_may_call(UAIO_CALL_IO_SUBMIT) ||
	       (again && uaio_now_ns() < again);
}

/* Not inline, as most programs use no direct I/O. */
static __attribute__((noinline)) bool is_for_kernel(const struct uaio_req *req,
						    enum size size)
{
	const struct uaio_sqe *sqe = &req->sqe;
	struct uaio_file *file = req->file;

	return !sqe->ioprio && !sqe->is_async &&
	       req->native == UAIO_KERNEL_HAS_NOT && !req->done_bytes &&
	       !sqe->links && is_size_for_kernel(file, size) &&
	       !uaio_config.force_worker && !uaio_native_is_refused(req->group);
}

static bool is_allowed(void)
{
	return uaio_config.backend == UAIO_BACKEND_AUTO ||
	       uaio_config.backend == UAIO_BACKEND_AIO;
}

/*
 * Return: whether kernel AIO may be used for req, and req is direct I/O that the kernel
 * executes beside other requests on its inode: a read, or a write in place.
 */
static bool is_by_itself(const struct uaio_req *req)
{
	return is_allowed() && !req->sqe.by_door &&
	       (uaio_order_is_direct(req->order) ||
		(req->order == UAIO_ORDER_NONE && uaio_req_inode(req) &&
		 uaio_optab[req->sqe.op].class == UAIO_CLASS_READ)) &&
	       req->file->kind == UAIO_KIND_DIRECT;
}

static bool is_synchronous(const struct uaio_req *req)
{
	return req->sqe.rw_flags & (RWF_DSYNC | RWF_SYNC) ||
	       uaio_file_has(req->file, UAIO_FILE_F_SYNC);
}

/*
 * Return: whether the client's thread may wait while the kernel finds free blocks for
 * req. Two conditions: the inode's last writes were fast (policy.c has the same condition
 * for buffered writes); and the kernel does not sync the file within the call.
 */
static bool may_wait_here(const struct uaio_req *req)
{
	return req->order == UAIO_ORDER_WRITE_INPLACE &&
	       !uaio_config.never_block && uaio_cycles_per_us() &&
	       !uaio_inode_is_slow(req->file->inode) &&
	       (likely(!is_synchronous(req)) || uaio_syncs_later(req->sqe.fd));
}

enum uaio_native_way uaio_native_way(const struct uaio_req *req)
{
	enum size size;
	bool may_wait;

	if (likely(!is_by_itself(req)))
		return UAIO_NATIVE_NOT;
	size = size_of(req);
	/*
	 * A worker must submit a request of a file server: the call may wait even with
	 * RWF_NOWAIT.
	 */
	if (load_relaxed(&req->file->nowait_refused) ||
	    uaio_file_has(req->file, UAIO_FILE_F_REMOTE) ||
	    !is_for_kernel(req, size))
		return UAIO_NATIVE_NOT;
	if (likely(!were_in_vain(req->file, size)))
		return UAIO_NATIVE_NOWAIT;
	may_wait = size == SMALL && may_wait_here(req);
	if (is_tried_again(req->file, size, may_wait ? TRY_SELDOM : TRY_EVERY))
		return UAIO_NATIVE_NOWAIT;
	return may_wait ? UAIO_NATIVE_BLOCKING : UAIO_NATIVE_NOT;
}

bool uaio_native_is_final(const struct uaio_file *file)
{
	return uaio_file_has(file, UAIO_FILE_F_REMOTE);
}

/*
 * Return: whether a worker submits req, which is on a file server, to the kernel
 * (native.h).
 */
static bool is_for_server(const struct uaio_req *req, enum size size)
{
	const struct uaio_sink *sink = uaio_queue_of(req->group)->sink;

	if (size != SMALL || uaio_config.bounces)
		return false;
	return req->order == UAIO_ORDER_WRITE_INPLACE
		       ? !is_synchronous(req)
		       : sink->door == UAIO_DOOR_AIO;
}

/*
 * Return: whether a worker submits req, which is on a disk, to the kernel: a large
 * request, or a write that waits for free blocks.
 */
static bool is_for_device(const struct uaio_req *req, enum size size)
{
	const struct uaio_file *file = req->file;

	/* relaxed, all: hints */
	if (load_relaxed(&file->nowait_refused))
		return false;
	return size == LARGE ? load_relaxed(&file->takes_nowait)
			     : req->order == UAIO_ORDER_WRITE_INPLACE &&
				       load_relaxed(&file->refs) > REFS_ALONE;
}

bool uaio_native_suits_worker(const struct uaio_req *req)
{
	const struct uaio_file *file = req->file;
	enum size size;

	/*
	 * owns_fd: file->fd is a private duplicate, and the request's own descriptor may
	 * refer to another file. relaxed: once set, owns_fd stays set.
	 */
	if (likely(!is_by_itself(req)) || load_relaxed(&file->owns_fd))
		return false;
	size = size_of(req);
	return (uaio_file_has(file, UAIO_FILE_F_REMOTE)
			? is_for_server(req, size)
			: is_for_device(req, size)) &&
	       is_for_kernel(req, size);
}

/*
 * Results
 */

static void note_result(struct uaio_file *file, enum size size, int64_t res,
			bool is_back)
{
	/* relaxed, all: hints */
	uint32_t nr = load_relaxed(&file->nr_unnative[size]);

	if (unlikely(is_back))
		store_relaxed(&file->nr_unnative[size],
			      nr < vain_max[size] ? nr + 1 : nr);
	else if (unlikely(nr))
		store_relaxed(&file->nr_unnative[size], 0);
	/*
	 * A device may refuse RWF_NOWAIT although the file's flags say that it is
	 * supported.
	 */
	if (unlikely(res == -EOPNOTSUPP))
		store_relaxed(&file->nowait_refused, 1);
	else if (unlikely(!load_relaxed(&file->takes_nowait)))
		store_relaxed(&file->takes_nowait, 1);
}

/*
 * Return: whether a short read is complete, because the file ends where the read stopped;
 * or earlier, if the file has shrunk since the read.
 */
static bool has_reached_end(const struct uaio_req *req, int64_t res)
{
	return uaio_optab[req->sqe.op].class == UAIO_CLASS_READ &&
	       uaio_ends_by(req->file, load_relaxed(&req->file->fd),
			    (uint64_t)(req->sqe.off + res));
}

int64_t uaio_native_result_of(const struct uaio_req *req, int64_t res)
{
	uint64_t bytes;
	bool is_back;

	if (uaio_native_was_blocking(req))
		return res;
	bytes = uaio_sqe_bytes(&req->sqe);
	is_back = unlikely((uint64_t)res != bytes) &&
		  (res == -EAGAIN || res == -EOPNOTSUPP ||
		   (res > 0 && !has_reached_end(req, res)));
	note_result(req->file, bytes >= LARGE_BYTES ? LARGE : SMALL, res,
		    is_back);
	return unlikely(is_back) ? -EAGAIN : res;
}
