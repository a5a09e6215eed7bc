/* SPDX-License-Identifier: MIT */
/*
 * WAITID
 *
 * A worker looks whether a child has changed, without waiting. Where only the end of
 * one child is asked for, the sleeper has a descriptor of its process: the worker
 * waits until that is ready. Of many children, and of a child that is stopped or goes
 * on, no file tells: the worker looks again and again, less often as time passes.
 *
 * Tested by uring/test-uring-waitid.c.
 */
#include <errno.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/asked.h"
#include "base/sleep.h"
#include "file/file.h"
#include "op/args.h"
#include "op/rows.h"
#include "op/sleeper.h"
#include "proc/endable.h"

/* How long the worker waits before it looks again: twice as long each time. */
enum { PAUSE_NS = 1000000, PAUSE_MAX_NS = 50000000 };

/* Return: whether the call has found one, of which it has told there. */
static bool has_found(const siginfo_t *info)
{
	return uaio_args_can_read(info, sizeof(*info)) && info->si_signo;
}

/*
 * Look, and have the kernel tell the client of what was found.
 * Return: 0; -EAGAIN: there is nothing yet; another error.
 */
static int64_t look(const struct uaio_sqe *sqe)
{
	const struct uaio_args *args = sqe->args;
	int options = (int)args->off, which = (int)args->what, ret;
	siginfo_t own = { .si_signo = 0 }, *out = args->out;

	if (options & WNOHANG)
		return sys_waitid(which, sqe->fd, out, options);
	/* Nothing is written to the client's before there is something. */
	ret = sys_waitid(which, sqe->fd, &own, options | WNOHANG | WNOWAIT);
	if (ret < 0)
		return ret;
	if (!has_found(&own))
		return -EAGAIN;
	if (!out)
		out = &own;
	ret = sys_waitid(which, sqe->fd, out, options | WNOHANG);
	/* Another thread may have taken it meanwhile. */
	return ret == 0 && !has_found(out) ? -EAGAIN : ret;
}

/* Wait until it may be worth looking. pause_ns is that of the next time. */
static void wait_a_while(struct uaio_sleeper *sleeper, int64_t *pause_ns)
{
	if (*pause_ns == 0 && sleeper->file && sleeper->endable) {
		(void)uaio_endable_wait(sleeper->endable,
					uaio_file_use(sleeper->file), POLLIN);
		uaio_file_unuse(sleeper->file);
		/* It has ended; if another thread waits for it too, that may take. */
		*pause_ns = PAUSE_NS;
		return;
	}
	if (*pause_ns == 0)
		*pause_ns = PAUSE_NS;
	(void)uaio_sleep(&sleeper->end, 0, uaio_now_ns() + *pause_ns);
	if (*pause_ns < PAUSE_MAX_NS)
		*pause_ns *= 2;
}

int64_t uaio_waitid_run(const struct uaio_sqe *sqe, int fd, bool is_stream,
			uint32_t extra_flags)
{
	struct uaio_sleeper *sleeper = sqe->args->sleeper;
	int64_t pause_ns = 0, res = look(sqe);

	(void)fd;
	(void)is_stream;
	if (extra_flags & RWF_NOWAIT)
		return res == -EAGAIN ? -EOPNOTSUPP : res;
	while (res == -EAGAIN) {
		if (uaio_sleeper_is_ended(sleeper))
			return -ECANCELED;
		wait_a_while(sleeper, &pause_ns);
		res = look(sqe);
	}
	return res;
}
