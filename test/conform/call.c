/* SPDX-License-Identifier: MIT */
/*
 * The system calls of kernel AIO, made by libaio's functions or by syscall(2). libaio.h
 * declares its own struct iocb and struct io_event, whose layout is the kernel's. This
 * file renames libaio's structs, because the kernel's header has the same names. No
 * other file uses libaio's structs.
 */
#define iocb libaio_iocb
#define io_event libaio_event
#include <libaio.h>
#undef iocb
#undef io_event

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conform.h"
#include "ring.h"

_Static_assert(sizeof(struct iocb) == sizeof(struct libaio_iocb), "layout");
_Static_assert(sizeof(struct io_event) == sizeof(struct libaio_event),
	       "layout");

enum door door;

#define CTX(ctx) ((io_context_t)(ctx))
#define EVENTS(events) ((struct libaio_event *)(events))

static long answer(long ret)
{
	return ret == -1 ? -errno : ret;
}

static long setup(unsigned int nr, aio_context_t *ctx)
{
	if (door == DOOR_SYSCALL)
		return answer(syscall(SYS_io_setup, nr, ctx));
	return io_setup((int)nr, (io_context_t *)ctx);
}

long call_setup(unsigned int nr, aio_context_t *ctx)
{
	long ret = setup(nr, ctx);

	if (ret == 0)
		ring_watch(*ctx);
	return ret;
}

long call_destroy(aio_context_t ctx)
{
	long ret;

	ring_note(ctx);
	if (door == DOOR_SYSCALL)
		ret = answer(syscall(SYS_io_destroy, ctx));
	else
		ret = io_destroy(CTX(ctx));
	if (ret == 0)
		ring_forget(ctx);
	return ret;
}

long call_submit(aio_context_t ctx, long nr, struct iocb **iocbs)
{
	if (door == DOOR_SYSCALL)
		return answer(syscall(SYS_io_submit, ctx, nr, iocbs));
	return io_submit(CTX(ctx), nr, (struct libaio_iocb **)iocbs);
}

long call_cancel(aio_context_t ctx, struct iocb *cb, struct io_event *event)
{
	if (door == DOOR_SYSCALL)
		return answer(syscall(SYS_io_cancel, ctx, cb, event));
	return io_cancel(CTX(ctx), (struct libaio_iocb *)cb, EVENTS(event));
}

long call_getevents(aio_context_t ctx, long min_nr, long nr,
		    struct io_event *events, struct timespec *timeout)
{
	long head, ret;

	if (door == DOOR_SYSCALL)
		return raw_getevents(ctx, min_nr, nr, events, timeout);
	head = ring_head(ctx);
	ret = io_getevents(CTX(ctx), min_nr, nr, EVENTS(events), timeout);
	ring_reaped(ctx, head, events, ret);
	return ret;
}

long call_pgetevents(aio_context_t ctx, long min_nr, long nr,
		     struct io_event *events, struct timespec *timeout,
		     sigset_t *mask)
{
	struct {
		sigset_t *mask;
		size_t bytes;
	} sig = { mask, _NSIG / 8 };
	long ret, head = ring_head(ctx);

	if (door == DOOR_SYSCALL)
		ret = answer(syscall(SYS_io_pgetevents, ctx, min_nr, nr, events,
				     timeout, &sig));
	else
		ret = io_pgetevents(CTX(ctx), min_nr, nr, EVENTS(events),
				    timeout, mask);
	ring_reaped(ctx, head, events, ret);
	return ret;
}

long raw_getevents(aio_context_t ctx, long min_nr, long nr,
		   struct io_event *events, struct timespec *timeout)
{
	long head = ring_head(ctx);
	long ret = answer(
		syscall(SYS_io_getevents, ctx, min_nr, nr, events, timeout));

	ring_reaped(ctx, head, events, ret);
	return ret;
}
