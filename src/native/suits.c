/* SPDX-License-Identifier: MIT */
/*
 * Which requests are native, and what is learnt from their results. Tested by
 * test-native.c, test-native-large.c and test-native-blocks.c.
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
	 * Such a request is large: the kernel may have to cut it for the device,
	 * and a worker could execute it in segments (split.h).
	 */
	LARGE_BYTES = 512 << 10,
	/*
	 * After a file's nr_unnative its requests of that size are not tried, but
	 * for one now and then.
	 */
	TRY_EVERY = 32,
	/* The same where the client's thread submits them all the same. */
	TRY_SELDOM = 1024,
	/* The references to a file that has one request: its table's, and that. */
	REFS_ALONE = 2,
};

/* Sizes of requests: what the kernel gives back of one says nothing of the other. */
enum size { SMALL, LARGE, NR_SIZES };

static_assert(sizeof(((struct uaio_file *)0)->nr_unnative) ==
		      NR_SIZES * sizeof(uint32_t),
	      "a count of each");

/*
 * So many in a row that the kernel would have waited for are in vain. A large one is
 * given back mostly because the device takes none as large, which stays so.
 */
static const uint32_t vain_max[NR_SIZES] = { [SMALL] = 8, [LARGE] = 2 };

static enum size size_of(const struct uaio_req *req)
{
	return uaio_sqe_bytes(&req->sqe) >= LARGE_BYTES ? LARGE : SMALL;
}

/* Return: whether the last of a file's requests of a size were in vain. */
static bool were_in_vain(const struct uaio_file *file, enum size size)
{
	/* relaxed: advice */
	return unlikely(load_relaxed(&file->nr_unnative[size]) >=
			vain_max[size]);
}

/* They were. Return: whether this one is tried all the same. */
static bool is_tried_again(struct uaio_file *file, enum size size,
			   uint32_t every)
{
	/* relaxed: advice */
	uint32_t nr = load_relaxed(&file->nr_unnative[size]) + 1;
	uint32_t max = vain_max[size];

	if (nr >= max + every)
		nr = max;
	store_relaxed(&file->nr_unnative[size], nr);
	return nr == max;
}

/*
 * Return: whether the kernel is given a request of that size whole. A file server is
 * asked for one piece of a large one after the other.
 */
static bool is_size_for_kernel(const struct uaio_file *file, enum size size)
{
	return likely(size == SMALL) ||
	       (uaio_config.segments <= 1 &&
		!uaio_file_has(file, UAIO_FILE_F_REMOTE));
}

bool uaio_native_is_refused(const struct uaio_group *group)
{
	/* relaxed: advice */
	int64_t again = uaio_native_of(group) ? uaio_natives_again_ns()
					      : uaio_native_rings_again_ns();

	return !uaio_may_call(UAIO_CALL_IO_SETUP) ||
	       !uaio_may_call(UAIO_CALL_IO_SUBMIT) ||
	       (again && uaio_now_ns() < again);
}

/* Not inline: most programs use no direct I/O. */
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
 * Return: whether req is direct I/O, and no other request on its inode waits for it,
 * nor it for one.
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
 * Return: whether the client's thread may wait while the kernel finds blocks for req,
 * as it waits in a buffered write (policy.c): if such writes were fast just before, and
 * if the kernel does not sync the file in the call.
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
	/* A file server has the kernel wait in the call, whatever its flags. */
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

/* Return: whether a worker submits a request of a file server (native.h). */
static bool is_for_server(const struct uaio_req *req, enum size size)
{
	const struct uaio_sink *sink = uaio_queue_of(req->group)->sink;

	if (size != SMALL || uaio_config.bounces)
		return false;
	return req->order == UAIO_ORDER_WRITE_INPLACE
		       ? !is_synchronous(req)
		       : sink->door == UAIO_DOOR_AIO;
}

/* Return: whether the device suits a large request, or a write that waits for blocks. */
static bool is_for_device(const struct uaio_req *req, enum size size)
{
	const struct uaio_file *file = req->file;

	/* relaxed, all: advice */
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

	/* relaxed: a file that owns its descriptor keeps it */
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
	/* relaxed, all: advice */
	uint32_t nr = load_relaxed(&file->nr_unnative[size]);

	if (unlikely(is_back))
		store_relaxed(&file->nr_unnative[size],
			      nr < vain_max[size] ? nr + 1 : nr);
	else if (unlikely(nr))
		store_relaxed(&file->nr_unnative[size], 0);
	/* A device may know no RWF_NOWAIT where its file said that it does. */
	if (unlikely(res == -EOPNOTSUPP))
		store_relaxed(&file->nowait_refused, 1);
	else if (unlikely(!load_relaxed(&file->takes_nowait)))
		store_relaxed(&file->takes_nowait, 1);
}

/*
 * Return: whether a read has read all that there was. Its file may have grown since,
 * or shrunk, and then it had this end at some time between.
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
