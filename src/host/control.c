/* SPDX-License-Identifier: MIT */
/*
 * Functions of uaio.h that limit the library's workers, and that cancel requests
 *
 * Context: any thread. In a child of vfork(), or in a signal handler that interrupted
 * the library, uaio_cancel() and the other cancelling functions fail with EAGAIN.
 *
 * Tested by test/host/control.c.
 */
#include <errno.h>

#include "base/symver.h"
#include "base/uaddr.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "proc/table.h"
#include "life/life.h"
#include "aio/handle.h"
#include "host/host.h"
#include "uaio.h"

static bool is_array(const void *array, size_t bytes)
{
	return uaio_is_accessible((uintptr_t)array, bytes);
}

UAIO_EXPORT int uaio_wq_set_workers(int max_workers[2])
{
	int ret;

	if (!is_array(max_workers, 2 * sizeof(*max_workers)))
		return -EFAULT;
	(void)uaio_table_is_other();
	if (!uaio_enter())
		return -EAGAIN;
	ret = uaio_limits_set_workers(max_workers);
	uaio_leave();
	return ret;
}

UAIO_EXPORT int uaio_wq_get_workers(int ret_max_workers[2])
{
	int max_workers[] = { -1, -1 }, ret;

	if (!is_array(ret_max_workers, sizeof(max_workers)))
		return -EFAULT;
	ret = uaio_wq_set_workers(max_workers);
	for (int i = 0; i < 2 && ret == 0; i++)
		ret_max_workers[i] = max_workers[i];
	return ret;
}

UAIO_EXPORT int uaio_wq_set_fixed(struct uaio_wq_fixed fixed[2])
{
	int ret;

	if (!is_array(fixed, 2 * sizeof(*fixed)))
		return -EFAULT;
	(void)uaio_table_is_other();
	if (!uaio_enter())
		return -EAGAIN;
	ret = uaio_limits_set_fixed(fixed);
	uaio_leave();
	return ret;
}

UAIO_EXPORT int uaio_wq_get_fixed(struct uaio_wq_fixed ret_fixed[2])
{
	struct uaio_wq_fixed fixed[] = { { -1, -1 }, { -1, -1 } };
	int ret;

	if (!is_array(ret_fixed, sizeof(fixed)))
		return -EFAULT;
	ret = uaio_wq_set_fixed(fixed);
	for (int i = 0; i < 2 && ret == 0; i++)
		ret_fixed[i] = fixed[i];
	return ret;
}

/*
 * What to cancel: a request, the requests of a descriptor, or those of a context.
 */
struct target {
	uint64_t ctx;
	uint64_t obj;
	int fd;
};

/*
 * Cancel by calling `act`.
 * Return: its result; -EINVAL if the process has made no context; -EAGAIN in a child of
 * vfork(), or in a signal handler that interrupted the library.
 */
static int cancel(uaio_table_act *act, const struct target *target)
{
	if (!uaio_engine_is_up())
		return -EINVAL;
	return uaio_engine_is_ours() ? (int)uaio_table_do(act, target)
				     : -EAGAIN;
}

static long cancel_one(const void *arg)
{
	const struct target *target = arg;

	return uaio_ctx_cancel_one(target->ctx, target->obj);
}

static long cancel_fd(const void *arg)
{
	const struct target *target = arg;

	return uaio_ctx_cancel_fd(target->ctx, target->fd);
}

static long cancel_all(const void *arg)
{
	const struct target *target = arg;

	return uaio_ctx_cancel_all(target->ctx);
}

UAIO_EXPORT int uaio_cancel(uint64_t ctx, const void *iocb)
{
	const struct target target = { ctx, (uintptr_t)iocb, -1 };

	return cancel(cancel_one, &target);
}

UAIO_EXPORT int uaio_cancel_fd(uint64_t ctx, int fd)
{
	const struct target target = { ctx, 0, fd };

	/*
	 * A thread with its own descriptor table executes its requests when it submits
	 * them. So such a thread has no requests to cancel.
	 */
	if (uaio_table_is_other())
		return -ENOENT;
	return cancel(cancel_fd, &target);
}

UAIO_EXPORT int uaio_cancel_all(uint64_t ctx)
{
	const struct target target = { ctx, 0, -1 };

	return cancel(cancel_all, &target);
}
