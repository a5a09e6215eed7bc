/* SPDX-License-Identifier: MIT */
/*
 * WAITID
 *
 * A worker looks whether a child has changed, without waiting. Where only the end of
 * one child is asked for, the sleeper has a descriptor of its process: the worker
 * waits until that is ready. Of many children, and of a child that is stopped or goes
 * on, no file tells: the worker looks again and again, less often as time passes.
 *
 * A child that is named by a descriptor is that of the submission, even if the
 * descriptor is closed then: the sleeper has the file.
 *
 * Tested by uring/test-uring-waitid.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/asked.h"
#include "base/newer.h"
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

/* The children that are meant, and what is to be known of them. */
struct aim {
	int which;
	int id;
	int options;
	siginfo_t *out; /* the client's, or NULL */
};

/*
 * Look, and have the kernel tell the client of what was found.
 * Return: 0; -EAGAIN: there is nothing yet; another error.
 */
static int64_t look(const struct aim *aim)
{
	siginfo_t own = { .si_signo = 0 }, *out = aim->out;
	bool waits = !(aim->options & WNOHANG);
	int ret;

	/*
	 * Nothing is written to the client's before there is something; that it has no
	 * such child is told there as well, but no mistake.
	 */
	ret = sys_waitid(aim->which, aim->id, &own,
			 aim->options | WNOHANG | WNOWAIT);
	if (ret < 0 && ret != -ECHILD)
		return ret;
	if (ret == 0 && waits && !has_found(&own))
		return -EAGAIN;
	if (waits && !out)
		out = &own;
	ret = sys_waitid(aim->which, aim->id, out, aim->options | WNOHANG);
	/* Another thread may have taken it meanwhile. */
	return ret == 0 && waits && !has_found(out) ? -EAGAIN : ret;
}

/* Return: whether a descriptor says that nothing is to be waited for. */
static bool is_nonblocking(const struct aim *aim)
{
	int flags =
		aim->which == UAIO_P_PIDFD ? sys_fcntl(aim->id, F_GETFL, 0) : 0;

	return flags > 0 && flags & O_NONBLOCK;
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

int64_t uaio_waitid_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags)
{
	const struct uaio_args *args = sqe->args;
	struct uaio_sleeper *sleeper = args->sleeper;
	struct aim aim = {
		.which = (int)args->what,
		.id = sqe->fd,
		.options = (int)args->off,
		.out = args->out,
	};
	bool is_of_file = aim.which == UAIO_P_PIDFD && sleeper->file;
	int64_t pause_ns = 0, res;

	(void)fd;
	(void)found;
	if (is_of_file)
		aim.id = uaio_file_use(sleeper->file);
	if (is_nonblocking(&aim))
		aim.options |= WNOHANG;
	/* The submitter has found that it is a child of its own; see uring/waitid.c. */
	if (!(extra_flags & RWF_NOWAIT)) {
		aim.options &= ~__WNOTHREAD;
		uaio_sleeper_move(sleeper, UAIO_SLEEPER_LOOKS);
	}
	res = look(&aim);
	if (res == -EAGAIN && extra_flags & RWF_NOWAIT)
		uaio_sleeper_move(sleeper, UAIO_SLEEPER_SENT);
	while (res == -EAGAIN && !(extra_flags & RWF_NOWAIT)) {
		if (uaio_sleeper_is_ended(sleeper)) {
			res = -ECANCELED;
			break;
		}
		wait_a_while(sleeper, &pause_ns);
		res = look(&aim);
	}
	if (is_of_file)
		uaio_file_unuse(sleeper->file);
	return res == -EAGAIN ? UAIO_OP_BLOCKS : res;
}
