/* SPDX-License-Identifier: MIT */
/*
 * Which requests are native, and what is learnt from their results
 */
#include <errno.h>

#include "base/check.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/entry.h"
#include "req/req.h"
#include "native/nativeint.h"

enum {
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
	/* The references to a file that has one request: its table's, and that. */
	REFS_ALONE = 2,
};

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

static bool is_refused(const struct uaio_group *group)
{
	/* relaxed: advice */
	int64_t again = uaio_native_of(group) ? uaio_natives_again_ns()
					      : uaio_native_rings_again_ns();

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
	       uaio_may_call(UAIO_CALL_IO_SUBMIT) && !is_refused(req->group);
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
	       is_by_itself(req) && is_for_kernel(req) &&
	       !is_in_vain(req->file);
}

bool uaio_native_suits_worker(const struct uaio_req *req)
{
	const struct uaio_file *file = req->file;

	/* relaxed, both: advice; and a file that owns its descriptor keeps it */
	return req->order == UAIO_ORDER_WRITE_INPLACE &&
	       uaio_config.backend != UAIO_BACKEND_THREADS &&
	       load_relaxed(&file->refs) > REFS_ALONE &&
	       !load_relaxed(&file->owns_fd) && is_for_kernel(req);
}

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

int64_t uaio_native_result_of(const struct uaio_req *req, int64_t res)
{
	if (uaio_native_was_blocking(req))
		return res;
	note_result(req->file, res);
	if (likely((uint64_t)res == uaio_sqe_bytes(&req->sqe)))
		return res;
	return res > 0 || res == -EOPNOTSUPP ? -EAGAIN : res;
}
