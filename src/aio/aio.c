/* SPDX-License-Identifier: MIT */
#include "aio/aio.h"

#include <errno.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sleep.h"
#include "base/uaddr.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "proc/table.h"
#include "file/file.h"
#include "issue/submit.h"
#include "life/life.h"
#include "aio/ctx.h"
#include "aio/handle.h"
#include "aio/iocb.h"

enum {
	NS_PER_S = 1000000000,
	SIGSET_BYTES = 8, /* bytes of the kernel's sigset_t */
};

/*
 * Return: whether the client's memory can be read. Without the option --strict, only
 * the range of the address is checked.
 */
static bool can_read(const void *memory, size_t bytes)
{
	return uaio_is_accessible((uintptr_t)memory, bytes) &&
	       (likely(!uaio_config.is_strict) ||
		uaio_can_read((uintptr_t)memory, bytes));
}

long uaio_aio_setup(uint32_t nr_events, uint64_t *handlep)
{
	uint64_t handle;
	long ret;

	/*
	 * Check the memory even without --strict: programs seldom call io_setup, so this
	 * costs little.
	 */
	if (!uaio_is_accessible((uintptr_t)handlep, sizeof(*handlep)) ||
	    !uaio_can_read((uintptr_t)handlep, sizeof(*handlep)))
		return -EFAULT;
	if (*handlep || !nr_events)
		return -EINVAL;
	if (!uaio_store_zero((uintptr_t)handlep))
		return -EFAULT;
	if (!uaio_enter())
		return -EAGAIN;
	ret = uaio_engine_start();
	if (ret == 0)
		ret = uaio_ctx_setup(nr_events, &handle);
	uaio_leave();
	if (ret == 0)
		*handlep = handle;
	return ret;
}

bool uaio_aio_read_quota(uint64_t *ret_nr, uint64_t *ret_max)
{
	if (!uaio_enter())
		return false;
	*ret_nr = uaio_engine_is_here() ? uaio_ctx_nr_events() : 0;
	*ret_max = uaio_config.max_nr;
	uaio_leave();
	return true;
}

static long destroy(const void *arg)
{
	return uaio_ctx_destroy(*(const uint64_t *)arg);
}

long uaio_aio_destroy(uint64_t handle)
{
	return uaio_engine_is_up() ? uaio_table_do(destroy, &handle) : -EINVAL;
}

/* The arguments of io_cancel(2), which uaio_table_do() passes to cancel(). */
struct target {
	uint64_t handle;
	uint64_t obj;
};

static long cancel(const void *arg)
{
	const struct target *target = arg;

	return uaio_ctx_cancel(target->handle, target->obj);
}

long uaio_aio_cancel(uint64_t handle, struct iocb *iocb)
{
	const struct target target = { handle, (uintptr_t)iocb };

	if (uaio_iocb_check_address(iocb) < 0)
		return -EFAULT;
	if (iocb->aio_key != UAIO_IOCB_KEY || !uaio_engine_is_up())
		return -EINVAL;
	return uaio_table_do(cancel, &target);
}

static inline int translate_writable(struct iocb *iocb,
				     struct uaio_sqe *ret_sqe)
{
	/* Store aio_key now: once the library accepts the iocb, the client may reuse it. */
	iocb->aio_key = UAIO_IOCB_KEY;
	return uaio_iocb_translate(iocb, ret_sqe);
}

static __attribute__((noinline)) int
translate_strictly(struct iocb *iocb, struct uaio_sqe *ret_sqe)
{
	if (!uaio_can_write((uintptr_t)iocb, sizeof(*iocb)))
		return -EFAULT;
	return translate_writable(iocb, ret_sqe);
}

static int translate(struct iocb *iocb, struct uaio_sqe *ret_sqe)
{
	return unlikely(uaio_config.is_strict)
		       ? translate_strictly(iocb, ret_sqe)
		       : translate_writable(iocb, ret_sqe);
}

static __attribute__((noinline)) int refuse_again(struct uaio_batch *batch,
						  const struct uaio_sqe *sqe,
						  struct uaio_file **file)
{
	int ret = uaio_batch_look_again(batch, sqe->fd, file);

	return ret < 0 ? ret : uaio_refuse(sqe, *file);
}

/* As uaio_refuse(). But before the request is refused, look up its file again. */
static inline int refuse(struct uaio_batch *batch, const struct uaio_sqe *sqe,
			 struct uaio_file **file)
{
	int ret = uaio_refuse(sqe, *file);
	/* a copy, so that the caller's variable can stay in a register */
	struct uaio_file *present = *file;

	if (unlikely(ret < 0)) {
		ret = refuse_again(batch, sqe, &present);
		*file = present;
	}
	return ret;
}

/* As uaio_resfd_get(). But before fd is refused, look it up again. */
static int get_resfd(struct uaio_batch *batch, int fd, uint64_t *ret_word)
{
	struct uaio_file *file;
	int ret = uaio_resfd_get(fd, ret_word);

	if (likely(ret == 0))
		return 0;
	ret = uaio_batch_look_again(batch, fd, &file);
	return ret < 0 ? ret : uaio_resfd_get(fd, ret_word);
}

/*
 * Submit a request with IOCB_FLAG_RESFD. The request's word (a value that its
 * completion carries, sink.h) is a reference to the eventfd.
 */
static __attribute__((noinline)) int submit_with_resfd(struct uaio_batch *batch,
						       struct uaio_file *file,
						       struct iocb *iocb)
{
	struct uaio_sqe sqe;
	uint64_t word;
	int ret = get_resfd(batch, (int)iocb->aio_resfd, &word);

	if (ret < 0)
		return ret;
	ret = translate(iocb, &sqe);
	sqe.word = word;
	if (ret == 0)
		ret = refuse(batch, &sqe, &file);
	if (ret == 0)
		ret = uaio_batch_add(batch, file, &sqe);
	if (ret < 0)
		uaio_resfd_put(word);
	return ret;
}

/*
 * Submit one request. Errors are checked in the kernel's order: the iocb's memory, its
 * reserved fields, room in the ring, the iocb's descriptors, the operation.
 */
static int submit_one(struct uaio_batch *batch, struct iocb *iocb)
{
	struct uaio_file *file;
	struct uaio_sqe sqe;
	int ret = uaio_look_up((int)iocb->aio_fildes, &file);

	if (unlikely(ret < 0))
		return ret;
	if (unlikely(iocb->aio_flags & IOCB_FLAG_RESFD))
		return submit_with_resfd(batch, file, iocb);
	ret = translate(iocb, &sqe);
	if (likely(ret == 0))
		ret = refuse(batch, &sqe, &file);
	if (unlikely(ret < 0))
		return ret;
	return uaio_batch_add(batch, file, &sqe);
}

/* Submit one request of a thread with its own descriptor table (table.h). */
static int submit_one_parted(struct uaio_batch *batch, struct iocb *iocb)
{
	struct uaio_file *file;
	struct uaio_sqe sqe;
	uint64_t word = 0;
	int ret = uaio_file_open_parted((int)iocb->aio_fildes, &file);

	if (ret < 0)
		return ret;
	if (iocb->aio_flags & IOCB_FLAG_RESFD)
		ret = uaio_resfd_get_parted((int)iocb->aio_resfd, &word);
	if (ret == 0)
		ret = translate(iocb, &sqe);
	sqe.word = word;
	if (ret == 0)
		ret = uaio_refuse(&sqe, file);
	if (ret == 0)
		ret = uaio_batch_add_parted(batch, file, &sqe);
	uaio_file_put(file);
	return ret;
}

typedef int submit_fn(struct uaio_batch *batch, struct iocb *iocb);

static int next_iocb(struct iocb **from, struct iocb **ret_iocb)
{
	if (unlikely(!uaio_is_accessible((uintptr_t)from, sizeof(*from)) ||
		     (uaio_config.is_strict &&
		      !uaio_can_read((uintptr_t)from, sizeof(*from)))))
		return -EFAULT;
	*ret_iocb = *from;
	return uaio_iocb_check(*ret_iocb);
}

/*
 * Inlined: in the copy for each caller, the compiler knows `submit`, and can inline it.
 */
static inline __attribute__((always_inline)) long
submit_batch(uint64_t handle, long nr, struct iocb **iocbs, submit_fn *submit)
{
	struct uaio_submission submission;
	long room, i = 0;
	int ret = 0;

	room = nr < 0 ? -EINVAL
		      : uaio_submission_begin(&submission, handle, nr);
	if (room < 0 || nr == 0)
		return room;
	/*
	 * If the ring is full, check the first iocb nevertheless: an error in it takes
	 * precedence over EAGAIN.
	 */
	for (; i < room || i == 0; i++) {
		struct iocb *iocb;

		ret = next_iocb(&iocbs[i], &iocb);
		if (likely(ret == 0))
			ret = room ? submit(&submission.batch, iocb) : -EAGAIN;
		if (unlikely(ret < 0))
			break;
	}
	if (room > 0)
		uaio_submission_end(&submission, (uint32_t)i);
	return i ? i : ret;
}

bool uaio_aio_is_empty(uint64_t handle)
{
	bool is_empty;

	if (!uaio_engine_is_up() || !uaio_enter())
		return false;
	is_empty = uaio_ctx_is_empty(handle);
	uaio_leave();
	return is_empty;
}

static __attribute__((noinline)) long submit_parted(uint64_t handle, long nr,
						    struct iocb **iocbs)
{
	long ret;

	if (!uaio_enter())
		return -EAGAIN;
	ret = submit_batch(handle, nr, iocbs, submit_one_parted);
	uaio_leave();
	return ret;
}

long uaio_aio_submit(uint64_t handle, long nr, struct iocb **iocbs)
{
	long ret;

	if (unlikely(uaio_engine_state() != UAIO_ENGINE_UP)) {
		if (uaio_engine_state() == UAIO_ENGINE_DOWN)
			return -EINVAL;
		if (uaio_table_is_other())
			return submit_parted(handle, nr, iocbs);
	}
	if (unlikely(!uaio_enter()))
		return -EAGAIN;
	ret = submit_batch(handle, nr, iocbs, submit_one);
	uaio_leave();
	return ret;
}

/*
 * As in the kernel, tv_sec and tv_nsec may have any values. If their sum is negative,
 * the call waits without a timeout.
 */
static int64_t deadline_of(const struct timespec *timeout)
{
	int64_t ns, deadline;

	if (!timeout)
		return UAIO_FOREVER;
	if (timeout->tv_sec == 0 && timeout->tv_nsec == 0)
		return 0;
	if (__builtin_mul_overflow((int64_t)timeout->tv_sec, (int64_t)NS_PER_S,
				   &ns) ||
	    __builtin_add_overflow(ns, (int64_t)timeout->tv_nsec, &ns) ||
	    ns < 0 || __builtin_add_overflow(uaio_now_ns(), ns, &deadline))
		return UAIO_FOREVER;
	return deadline;
}

static long getevents(uint64_t handle, long min_nr, long nr,
		      struct uaio_event *events, const struct timespec *timeout,
		      const struct uaio_aio_sigset *sigset)
{
	struct uaio_getevents call = { .min_nr = min_nr, .nr = nr };
	long ret;

	if (timeout && !can_read(timeout, sizeof(*timeout)))
		return -EFAULT;
	if (sigset && sigset->mask) {
		call.wait.mask = sigset->mask;
		call.wait.mask_bytes = sigset->mask_bytes;
	}
	if (unlikely(min_nr > nr || min_nr < 0 || !uaio_engine_is_up()))
		return -EINVAL;
	/*
	 * As in the kernel, a bad address is an error only if there are events to store:
	 * for NULL, uaio_ctx_getevents() fails only then.
	 */
	if (unlikely(!uaio_is_accessible((uintptr_t)events, sizeof(*events))))
		events = NULL;
	call.is_strict = uaio_config.is_strict;
	call.wait.sleeps_only = uaio_table_is_other();
	call.wait.deadline_ns = min_nr > 0 ? deadline_of(timeout) : 0;
	if (unlikely(!uaio_enter()))
		return -EAGAIN;
	ret = uaio_ctx_getevents(handle, events, &call);
	uaio_leave();
	return ret;
}

long uaio_aio_getevents(uint64_t handle, long min_nr, long nr,
			struct uaio_event *events,
			const struct timespec *timeout)
{
	return getevents(handle, min_nr, nr, events, timeout, NULL);
}

long uaio_aio_pgetevents(uint64_t handle, long min_nr, long nr,
			 struct uaio_event *events,
			 const struct timespec *timeout,
			 const struct uaio_aio_sigset *sigset)
{
	if (sigset) {
		if (!can_read(sigset, sizeof(*sigset)))
			return -EFAULT;
		if (sigset->mask && sigset->mask_bytes != SIGSET_BYTES)
			return -EINVAL;
		if (sigset->mask && !can_read(sigset->mask, SIGSET_BYTES))
			return -EFAULT;
	}
	return getevents(handle, min_nr, nr, events, timeout, sigset);
}
