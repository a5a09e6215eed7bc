/* SPDX-License-Identifier: MIT */
/*
 * The functions of libaio 0.3.113, with their symbol versions
 *
 * libaio's functions return a negative error number and leave errno unchanged. Three
 * functions also have an older version (@LIBAIO_0.1); two of these have other arguments.
 *
 * Tested by test/abi/, and by libaio's own tests (test/oracle/harness.py).
 */
#include <errno.h>
#include <signal.h>

#include "base/symver.h"
#include "base/uaddr.h"
#include "aio/aio.h"

enum { KERNEL_SIGSET_BYTES = 8 };

typedef void io_callback_fn(uint64_t ctx, struct iocb *iocb, long res,
			    long res2);

UAIO_EXPORT int uaio_io_setup(int nr_events, uint64_t *ctxp);
UAIO_EXPORT int uaio_io_destroy(uint64_t ctx);
UAIO_EXPORT int uaio_io_submit(uint64_t ctx, long nr, struct iocb **iocbs);
UAIO_EXPORT int uaio_io_cancel(uint64_t ctx, struct iocb *iocb,
			       struct uaio_event *event);
UAIO_EXPORT int uaio_io_cancel_0_1(uint64_t ctx, struct iocb *iocb);
UAIO_EXPORT int uaio_io_getevents(uint64_t ctx, long min_nr, long nr,
				  struct uaio_event *events,
				  const struct timespec *timeout);
UAIO_EXPORT int uaio_io_getevents_0_1(uint64_t ctx, long nr,
				      struct uaio_event *events,
				      const struct timespec *timeout);
UAIO_EXPORT int uaio_io_pgetevents(uint64_t ctx, long min_nr, long nr,
				   struct uaio_event *events,
				   const struct timespec *timeout,
				   const sigset_t *mask);
UAIO_EXPORT int uaio_io_queue_init(int nr_events, uint64_t *ctxp);
UAIO_EXPORT int uaio_io_queue_release(uint64_t ctx);
UAIO_EXPORT int uaio_io_queue_run(uint64_t ctx);
UAIO_EXPORT int uaio_io_queue_wait(uint64_t ctx,
				   const struct timespec *timeout);
UAIO_EXPORT int uaio_io_queue_wait_0_1(uint64_t ctx,
				       const struct timespec *timeout);

UAIO_SYMVER(uaio_io_submit, "io_submit@@LIBAIO_0.1");
UAIO_SYMVER(uaio_io_queue_init, "io_queue_init@@LIBAIO_0.1");
UAIO_SYMVER(uaio_io_queue_run, "io_queue_run@@LIBAIO_0.1");
UAIO_SYMVER(uaio_io_queue_release, "io_queue_release@@LIBAIO_0.1");
UAIO_SYMVER(uaio_io_cancel_0_1, "io_cancel@LIBAIO_0.1");
UAIO_SYMVER(uaio_io_getevents_0_1, "io_getevents@LIBAIO_0.1");
UAIO_SYMVER(uaio_io_queue_wait_0_1, "io_queue_wait@LIBAIO_0.1");
UAIO_SYMVER(uaio_io_setup, "io_setup@@LIBAIO_0.4");
UAIO_SYMVER(uaio_io_destroy, "io_destroy@@LIBAIO_0.4");
UAIO_SYMVER(uaio_io_cancel, "io_cancel@@LIBAIO_0.4");
UAIO_SYMVER(uaio_io_getevents, "io_getevents@@LIBAIO_0.4");
UAIO_SYMVER(uaio_io_queue_wait, "io_queue_wait@@LIBAIO_0.4");
UAIO_SYMVER(uaio_io_pgetevents, "io_pgetevents@@LIBAIO_0.5");

int uaio_io_setup(int nr_events, uint64_t *ctxp)
{
	return (int)uaio_aio_setup((uint32_t)nr_events, ctxp);
}

int uaio_io_destroy(uint64_t ctx)
{
	return (int)uaio_aio_destroy(ctx);
}

int uaio_io_submit(uint64_t ctx, long nr, struct iocb **iocbs)
{
	return (int)uaio_aio_submit(ctx, nr, iocbs);
}

int uaio_io_cancel(uint64_t ctx, struct iocb *iocb, struct uaio_event *event)
{
	(void)event; /* `event` is not written, as in the kernel */
	return (int)uaio_aio_cancel(ctx, iocb);
}

int uaio_io_cancel_0_1(uint64_t ctx, struct iocb *iocb)
{
	return (int)uaio_aio_cancel(ctx, iocb);
}

/*
 * Return: ret; but 0 in place of -EINVAL, if the timeout is 0 and the ring is empty. In
 * that case the original libaio does not call the kernel, which would refuse the other
 * arguments.
 */
static long or_empty(long ret, uint64_t ctx, const struct timespec *timeout)
{
	if (ret == -EINVAL &&
	    uaio_is_accessible((uintptr_t)timeout, sizeof(*timeout)) &&
	    timeout->tv_sec == 0 && timeout->tv_nsec == 0 &&
	    uaio_aio_is_empty(ctx))
		return 0;
	return ret;
}

int uaio_io_getevents(uint64_t ctx, long min_nr, long nr,
		      struct uaio_event *events, const struct timespec *timeout)
{
	long ret = uaio_aio_getevents(ctx, min_nr, nr, events, timeout);

	return (int)or_empty(ret, ctx, timeout);
}

int uaio_io_getevents_0_1(uint64_t ctx, long nr, struct uaio_event *events,
			  const struct timespec *timeout)
{
	return uaio_io_getevents(ctx, 1, nr, events, timeout);
}

int uaio_io_pgetevents(uint64_t ctx, long min_nr, long nr,
		       struct uaio_event *events,
		       const struct timespec *timeout, const sigset_t *mask)
{
	const struct uaio_aio_sigset sigset = { mask, KERNEL_SIGSET_BYTES };
	long ret =
		uaio_aio_pgetevents(ctx, min_nr, nr, events, timeout, &sigset);

	return (int)or_empty(ret, ctx, timeout);
}

int uaio_io_queue_init(int nr_events, uint64_t *ctxp)
{
	if (nr_events <= 0)
		return -EINVAL;
	*ctxp = 0;
	return uaio_io_setup(nr_events, ctxp);
}

int uaio_io_queue_release(uint64_t ctx)
{
	return uaio_io_destroy(ctx);
}

int uaio_io_queue_run(uint64_t ctx)
{
	static const struct timespec now;
	struct uaio_event event;
	int ret;

	while ((ret = uaio_io_getevents(ctx, 0, 1, &event, &now)) == 1) {
		io_callback_fn *callback =
			(io_callback_fn *)(uintptr_t)event.data;

		callback(ctx, (struct iocb *)(uintptr_t)event.obj, event.res,
			 event.res2);
	}
	return ret;
}

int uaio_io_queue_wait(uint64_t ctx, const struct timespec *timeout)
{
	return uaio_io_getevents(ctx, 0, 0, NULL, timeout);
}

int uaio_io_queue_wait_0_1(uint64_t ctx, const struct timespec *timeout)
{
	return uaio_io_queue_wait(ctx, timeout);
}
