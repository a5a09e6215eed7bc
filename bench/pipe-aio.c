/* SPDX-License-Identifier: MIT */
/*
 * The implementations (sides) of pipe.c that use AIO: the kernel's, or this library's,
 * which is linked into the program and tuned in several ways.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ready/ready.h"
#include "life/life.h"
#include "aio/aio.h"
#include "aio/ring.h"
#include "pipe.h"

/*
 * The AIO functions of the kernel or of this library. Each returns a result, or -errno.
 */
static const struct calls {
	long (*setup)(unsigned nr_events, uint64_t *handle);
	long (*submit)(uint64_t handle, long nr, struct iocb **iocbs);
	long (*getevents)(uint64_t handle, long min_nr, long nr,
			  struct uaio_event *events,
			  const struct timespec *timeout);
	long (*destroy)(uint64_t handle);
} * calls;

static uint64_t handle;

/* the kernel's AIO, by system calls */

static long result_of(long ret)
{
	return ret < 0 ? -errno : ret;
}

static long kernel_setup(unsigned nr_events, uint64_t *ret_handle)
{
	return result_of(syscall(SYS_io_setup, nr_events, ret_handle));
}

static long kernel_submit(uint64_t ctx, long nr, struct iocb **iocbs)
{
	return result_of(syscall(SYS_io_submit, ctx, nr, iocbs));
}

static long kernel_getevents(uint64_t ctx, long min_nr, long nr,
			     struct uaio_event *events,
			     const struct timespec *timeout)
{
	return result_of(
		syscall(SYS_io_getevents, ctx, min_nr, nr, events, timeout));
}

static long kernel_destroy(uint64_t ctx)
{
	return result_of(syscall(SYS_io_destroy, ctx));
}

static const struct calls of_kernel = {
	.setup = kernel_setup,
	.submit = kernel_submit,
	.getevents = kernel_getevents,
	.destroy = kernel_destroy,
};

static const struct calls of_uaio = {
	.setup = uaio_aio_setup,
	.submit = uaio_aio_submit,
	.getevents = uaio_aio_getevents,
	.destroy = uaio_aio_destroy,
};

/* requests and events, for the kernel's and the library's AIO */

static void submit(const struct pipe_request *requests, unsigned nr)
{
	struct iocb iocbs[PIPE_PAIR], *list[PIPE_PAIR];

	for (unsigned i = 0; i < nr; i++) {
		const struct pipe_request *request = &requests[i];

		iocbs[i] = (struct iocb){
			.aio_data = (uintptr_t)request,
			.aio_lio_opcode = request->is_write ? IOCB_CMD_PWRITE
							    : IOCB_CMD_PREAD,
			.aio_fildes = (uint32_t)request->fd,
			.aio_buf = (uintptr_t)request->buf,
			.aio_nbytes = request->len,
		};
		list[i] = &iocbs[i];
	}
	if (nr) {
		long ret = calls->submit(handle, nr, list);

		if (ret != nr)
			pipe_fail("io_submit", ret < 0 ? (int)ret : -EAGAIN);
	}
}

static void wait(const struct pipe_request *requests, unsigned nr)
{
	struct uaio_event events[PIPE_PAIR];
	unsigned taken = 0;
	long ret;

	do
		ret = calls->getevents(handle, nr, nr, events, NULL);
	while (ret == -EINTR);
	if (ret != nr)
		pipe_fail("io_getevents", ret < 0 ? (int)ret : -EPROTO);
	for (unsigned i = 0; i < nr; i++)
		taken |= pipe_take(requests, nr,
				   (const void *)(uintptr_t)events[i].data,
				   events[i].res);
	pipe_check_taken(taken, nr);
}

static void end(void)
{
	long ret = calls->destroy(handle);

	if (ret < 0)
		pipe_fail("io_destroy", (int)ret);
}

/* the kernel */

static void kernel_begin(const struct pipe_side *side, unsigned nr_requests)
{
	long ret;

	(void)side;
	calls = &of_kernel;
	ret = calls->setup(nr_requests, &handle);
	if (ret < 0)
		pipe_fail("io_setup", (int)ret);
}

const struct pipe_side pipe_kernel = {
	.variant = "kernel",
	.blocks = true,
	.begin = kernel_begin,
	.submit = submit,
	.wait = wait,
	.end = end,
};

/* this library's AIO */

static struct uaio_ready_counters at_start;

static void uaio_begin(const struct pipe_side *side, unsigned nr_requests)
{
	const struct uaio_ready_tuning tuning = {
		.caller_runs = side == &pipe_caller_runs,
	};
	long ret;

	calls = &of_uaio;
	uaio_engine_load();
	ret = calls->setup(nr_requests, &handle);
	if (ret < 0)
		pipe_fail("io_setup", (int)ret);
	/*
	 * The variant pipe_delayed_kick is the library's default, so it needs no
	 * tuning.
	 */
	if (side != &pipe_delayed_kick)
		uaio_ready_tune(&tuning);
}

static void uaio_count(void)
{
	uaio_ready_count(&at_start);
}

static void uaio_print(FILE *file)
{
	struct uaio_ready_counters nr;

	uaio_ready_count(&nr);
#define PRINT(name)                                \
	fprintf(file, ", \"" #name "\": %" PRIu64, \
		nr.nr_##name - at_start.nr_##name)
	PRINT(parked);
	PRINT(by_caller);
	PRINT(by_fallback);
	PRINT(fallback_wakes);
	PRINT(tries);
	PRINT(sleeps);
	PRINT(events);
	PRINT(arms);
#undef PRINT
}

#define SIDE_OF_UAIO(name)                                                \
	{                                                                 \
		.variant = (name), .begin = uaio_begin, .submit = submit, \
		.wait = wait, .count = uaio_count, .print = uaio_print,   \
		.end = end                                                \
	}

const struct pipe_side pipe_worker_for_each = SIDE_OF_UAIO("worker-for-each");
const struct pipe_side pipe_caller_runs = SIDE_OF_UAIO("caller-runs");
const struct pipe_side pipe_delayed_kick =
	SIDE_OF_UAIO("caller-runs+delayed-kick");
