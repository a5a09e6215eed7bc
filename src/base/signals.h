/* SPDX-License-Identifier: MIT */
/*
 * Hide from the program a signal that a system call sends to the calling thread
 *
 * The signals are blocked during the call. If the call has sent one, sigtimedwait()
 * consumes it, so the program does not get it.
 *
 * Tested by op/test-splice.c and test/run.
 */
#ifndef UAIO_BASE_SIGNALS_H
#define UAIO_BASE_SIGNALS_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/calls.h"
#include "base/sys.h"

struct uaio_blocked_signals {
	/* the signals to hide, in the kernel's format of a signal set */
	uint64_t which;
	uint64_t old; /* the thread's mask */
	uint64_t pending;
};

/*
 * Block the signals of `which`.
 * Return: whether they are blocked; the caller then unblocks them. false: a seccomp filter
 * refuses the calls needed.
 */
static inline bool uaio_signals_block(uint64_t which,
				      struct uaio_blocked_signals *ret)
{
	if (!uaio_may_call(UAIO_CALL_SIGPENDING) ||
	    !uaio_may_call(UAIO_CALL_SIGTIMEDWAIT))
		return false;
	ret->which = which;
	ret->pending = 0;
	(void)sys_sigmask(SIG_BLOCK, &which, &ret->old);
	/*
	 * A signal can be pending before the call only if the program has blocked it. So
	 * query the pending signals only then.
	 */
	if (ret->old & which)
		(void)sys_sigpending(&ret->pending);
	return true;
}

/*
 * Unblock the signals. has_sent: the call may have sent a signal, which is consumed. A
 * signal that was pending before the call stays pending.
 */
static inline void
uaio_signals_unblock(const struct uaio_blocked_signals *blocked, bool has_sent)
{
	static const struct timespec zero;
	const uint64_t sent = blocked->which & ~blocked->pending;

	if (has_sent && sent)
		(void)sys_sigtimedwait(&sent, &zero);
	(void)sys_sigmask(SIG_SETMASK, &blocked->old, NULL);
}

/*
 * Write a text of the library. The program gets no SIGPIPE if nobody reads the pipe or
 * socket, unless a seccomp filter refuses the calls needed.
 * Return: as write(2), or -errno.
 */
static inline ssize_t uaio_write_text(int fd, const char *text, size_t len)
{
	struct uaio_blocked_signals blocked;
	bool are_blocked = uaio_signals_block(1ull << (SIGPIPE - 1), &blocked);
	ssize_t ret = sys_write(fd, text, len);

	if (are_blocked)
		uaio_signals_unblock(&blocked, ret == -EPIPE);
	return ret;
}

#endif /* UAIO_BASE_SIGNALS_H */
