/* SPDX-License-Identifier: MIT */
/*
 * WAITID
 *
 * A worker calls waitid() with WNOHANG until a child has changed its state. If the
 * request waits for the end of one child, its sleeper (op/sleeper.h) has a pidfd of the
 * child, and the worker waits until the pidfd is ready. No file reports changes of
 * several children, or that a child stops or continues. For such a request the worker
 * calls waitid() again and again, less often as time passes.
 *
 * If the client names the child by a pidfd, the request's sleeper (op/sleeper.h) has a
 * reference to the pidfd's file. So the program may close the pidfd after the
 * submission.
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

/* The pause before the next call of waitid(). It doubles each time, up to the maximum. */
enum { PAUSE_NS = 1000000, PAUSE_MAX_NS = 50000000 };

/* Return: whether waitid() has stored a child in info. */
static bool has_found(const siginfo_t *info)
{
	return uaio_args_can_read(info, sizeof(*info)) && info->si_signo;
}

/* Arguments of waitid(): for which children to wait, and which changes to report */
struct aim {
	int which;
	int id;
	int options;
	siginfo_t *out; /* the client's memory for the result, or NULL */
};

/*
 * Call waitid(), to report a change to the client.
 * Return: 0; -EAGAIN: nothing has changed yet; another error.
 */
static int64_t look(const struct aim *aim)
{
	siginfo_t own = { .si_signo = 0 }, *out = aim->out;
	bool waits = !(aim->options & WNOHANG);
	int ret;

	/*
	 * First call waitid() with WNOWAIT and memory of the library. The client's
	 * memory must stay unchanged until a child has changed its state, or waitid()
	 * has failed with ECHILD.
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
	/*
	 * Another thread may have reaped the child between the two calls. Then the
	 * request must wait again.
	 */
	return ret == 0 && waits && !has_found(out) ? -EAGAIN : ret;
}

/* Return: whether the pidfd is O_NONBLOCK, so that the request must not wait. */
static bool is_nonblocking(const struct aim *aim)
{
	int flags =
		aim->which == UAIO_P_PIDFD ? sys_fcntl(aim->id, F_GETFL, 0) : 0;

	return flags > 0 && flags & O_NONBLOCK;
}

/*
 * Wait before the next call of waitid(). *pause_ns: how long to wait; 0: this is the
 * first wait. The function stores the length of the next wait there.
 */
static void wait_a_while(struct uaio_sleeper *sleeper, int64_t *pause_ns)
{
	if (*pause_ns == 0 && sleeper->file && sleeper->endable) {
		(void)uaio_endable_wait(sleeper->endable,
					uaio_file_use(sleeper->file), POLLIN);
		uaio_file_unuse(sleeper->file);
		/*
		 * The child has ended. If waitid() does not report it, another thread
		 * waits for the same child, too. Then make a short pause before the
		 * next call.
		 */
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
	/*
	 * A worker is not the thread that created the child, so it must not use
	 * __WNOTHREAD. uring/waitid.c has checked that the submitting thread created
	 * the child.
	 */
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
