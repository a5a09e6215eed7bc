/* SPDX-License-Identifier: MIT */
/*
 * Reads from the page cache that do not wait for the device
 *
 * The submitting thread first tries each read by a call that does not wait. If pages
 * are missing, other threads later repeat such a call to check whether the pages have
 * arrived (page.h).
 *
 * Tested by test-policy.c, test-page.c and test-cached.c.
 */
#include <errno.h>
#include <linux/fs.h>
#include <string.h>

#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "options/config.h"
#include "req/call.h"
#include "wait/page.h"

enum {
	/*
	 * A read of at least this size may block the submitting thread (may_wait())
	 * until the kernel has read in a missing page. Otherwise a worker would read
	 * all bytes again, which takes 200 us: longer than the wait.
	 */
	LONG_READ_BYTES = 1 << 20,
};

/*
 * Return: whether nearly all of the range is in the page cache. False on kernels
 * without cachestat() (before 6.5).
 */
static bool is_mostly_cached(const struct uaio_sqe *sqe)
{
	const uint64_t range[2] = { (uint64_t)sqe->off, uaio_sqe_bytes(sqe) };
	enum { CACHED, DIRTY, WRITEBACK, EVICTED, RECENTLY_EVICTED, NR };
	uint64_t nr[NR];

	if (sys_cachestat(sqe->fd, range, nr) < 0)
		return false;
	return nr[CACHED] >= range[1] / uaio_page_bytes() / 16 * 15;
}

static bool may_wait(const struct uaio_sqe *sqe, int64_t got)
{
	return uaio_sqe_bytes(sqe) >= LONG_READ_BYTES &&
	       !uaio_config.never_block &&
	       (got >= LONG_READ_BYTES || is_mostly_cached(sqe));
}

/*
 * Continue a short read. It may have stopped at the end of the file, or at a page that
 * was evicted. It may also have stopped at a page that only a read without RWF_NOWAIT
 * can use (a large page written in parts: seen on ext4). A read of at least
 * LONG_READ_BYTES may continue by a call that may block, as in the kernel. It does so
 * if nearly all of its bytes are cached, or if LONG_READ_BYTES of them have been read
 * already. That costs less than a worker, which would read all bytes again.
 * Return: the whole result, or -EAGAIN if not all of it is cached.
 */
static int64_t read_on(const struct uaio_sqe *sqe, int64_t got,
		       struct uaio_outcome *ret)
{
	enum { IOVS_HERE = 64 };
	struct iovec iov[IOVS_HERE];
	struct uaio_sqe rest = *sqe;
	int64_t res = got;

	if (uaio_optab[sqe->op].is_vectored && sqe->len > IOVS_HERE)
		return -EAGAIN;
	if (uaio_optab[sqe->op].is_vectored) {
		memcpy(iov, sqe->iov, sqe->len * sizeof(*iov));
		uaio_iovs_cut(iov, sqe->len);
		rest.iov = iov;
	}
	while (res > 0) {
		uaio_sqe_advance(&rest, iov, (uint64_t)res);
		if (!uaio_sqe_bytes(&rest))
			return got;
		res = uaio_call(&rest, RWF_NOWAIT, ret);
		if (res == -EAGAIN && may_wait(sqe, got))
			res = uaio_call(&rest, 0, ret);
		if (res > 0)
			got += res;
	}
	/*
	 * If a later call fails, return the bytes that were read. The program's next
	 * read will get the error.
	 */
	return res == -EAGAIN ? -EAGAIN : got;
}

int64_t uaio_read_cached(const struct uaio_sqe *sqe, struct uaio_outcome *ret)
{
	int64_t res = uaio_call(sqe, RWF_NOWAIT, ret);

	if (res > 0 && (uint64_t)res < uaio_sqe_bytes(sqe))
		return read_on(sqe, res, ret);
	if (res == -EAGAIN && may_wait(sqe, 0))
		return uaio_call(sqe, 0, ret);
	return res;
}
