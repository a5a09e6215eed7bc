/* SPDX-License-Identifier: MIT */
/*
 * Calls of io_uring_register() that register nothing
 *
 * Tested by test-uring-register.c.
 */
#include <errno.h>
#include <limits.h>

#include "base/sleep.h"
#include "file/file.h"
#include "options/options.h"
#include "proc/entry.h"
#include "proc/thread.h"
#include "life/limits.h"
#include "wq/wq.h"
#include "uring/calls.h"
#include "uring/cancel.h"
#include "uring/register.h"
#include "uring/ring.h"

long uaio_uring_limit_workers(void *arg, uint32_t nr)
{
	uint32_t asked[2];
	int limits[2], ret;

	if (!arg || nr != 2)
		return -EINVAL;
	if (uaio_uring_copy_in(asked, (uintptr_t)arg, sizeof(asked)) < 0)
		return -EFAULT;
	for (unsigned i = 0; i < 2; i++) {
		if (asked[i] > INT_MAX)
			return -EINVAL;
		/* The kernel's 0 leaves a limit as it is. */
		limits[i] = !asked[i] ? -1
			    : asked[i] > UAIO_WQ_WORKERS_MAX
				    ? UAIO_WQ_WORKERS_MAX
				    : (int)asked[i];
	}
	ret = uaio_limits_set_workers(limits);
	if (ret < 0)
		return ret;
	for (unsigned i = 0; i < 2; i++)
		asked[i] = (uint32_t)limits[i];
	return uaio_uring_copy_out((uintptr_t)arg, asked, sizeof(asked));
}

/* What is behind the kernel's own sets is not looked at, as there. */
long uaio_uring_bind_workers(const void *arg, uint32_t bytes)
{
	struct uaio_cpus cpus = { { 0 } };

	if (!arg || !bytes)
		return -EINVAL;
	if (bytes > uaio_cpus_bytes())
		bytes = (uint32_t)uaio_cpus_bytes();
	if (uaio_uring_copy_in(&cpus, (uintptr_t)arg, bytes) < 0)
		return -EFAULT;
	return uaio_threads_bind(&cpus);
}

long uaio_uring_unbind_workers(const void *arg, uint32_t bytes)
{
	static const struct uaio_cpus none;

	return arg || bytes ? -EINVAL : uaio_threads_bind(&none);
}

/* What the client gives; older headers lack the last members. */
struct sync_cancel {
	uint64_t addr;
	int32_t fd;
	uint32_t flags;
	struct __kernel_timespec timeout;
	uint8_t opcode;
	uint8_t pad[7];
	uint64_t pad2[3];
};

static bool is_clean(const struct sync_cancel *what)
{
	for (unsigned i = 0; i < sizeof(what->pad); i++)
		if (what->pad[i])
			return false;
	return !(what->pad2[0] | what->pad2[1] | what->pad2[2]);
}

/* Return: until when the call waits for what is being executed. */
static int64_t deadline_of(const struct __kernel_timespec *ts)
{
	int64_t ns;

	if (ts->tv_sec == -1 && ts->tv_nsec == -1)
		return UAIO_FOREVER;
	if (__builtin_mul_overflow(ts->tv_sec, (int64_t)1000000000, &ns) ||
	    __builtin_add_overflow(ns, (int64_t)ts->tv_nsec, &ns) ||
	    __builtin_add_overflow(ns, uaio_now_ns(), &ns))
		return UAIO_FOREVER;
	return ns;
}

/* What is being executed ends by itself: look again until then. */
static int cancel_waiting(struct uaio_uring *ring,
			  const struct uaio_uring_aim *aim, int64_t deadline_ns)
{
	enum { SOON_NS = 1000000 };
	uint32_t word = 0;
	int ret;

	while ((ret = uaio_uring_cancel(ring, aim)) == -EALREADY) {
		int64_t now = uaio_now_ns();

		if (now >= deadline_ns)
			return -ETIME;
		if (uaio_sleep_outside(&word, 0,
				       deadline_ns - now < SOON_NS
					       ? deadline_ns
					       : now + SOON_NS) == -EINTR)
			return -EINTR;
	}
	return ret == -ENOENT ? 0 : ret;
}

long uaio_uring_sync_cancel(struct uaio_uring *ring, const void *arg,
			    uint32_t nr)
{
	struct uaio_uring_aim aim;
	struct sync_cancel what;
	int ret;

	if (!arg || nr != 1)
		return -EINVAL;
	if (uaio_uring_copy_in(&what, (uintptr_t)arg, sizeof(what)) < 0)
		return -EFAULT;
	if (what.flags & ~(uint32_t)UAIO_URING_CANCEL_FLAGS || !is_clean(&what))
		return -EINVAL;
	aim = (struct uaio_uring_aim){
		.user_data = what.addr,
		.flags = what.flags,
		.fd = what.fd,
		.opcode = what.opcode,
	};
	ret = uaio_uring_cancel(ring, &aim);
	if (ret == -EALREADY)
		ret = cancel_waiting(ring, &aim, deadline_of(&what.timeout));
	return ret;
}
