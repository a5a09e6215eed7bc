/* SPDX-License-Identifier: MIT */
/*
 * Keep a signal that a call sends to the calling thread from the program
 *
 * The signals are blocked during the call, and a signal that the call has sent is consumed
 * (sigtimedwait), so that the program does not get it.
 *
 * Tested by test-splice.c.
 */
#ifndef UAIO_OP_SIGNALS_H
#define UAIO_OP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/sys.h"

struct uaio_blocked_signals {
	uint64_t which; /* a signal set of the kernel */
	uint64_t old;   /* the thread's mask */
	uint64_t pending;
};

/* Return: whether the signals are blocked; if so, the caller unblocks them. */
static inline bool uaio_signals_block(uint64_t which,
				      struct uaio_blocked_signals *ret)
{
	if (!uaio_may_call(UAIO_CALL_SIGPENDING) ||
	    !uaio_may_call(UAIO_CALL_SIGTIMEDWAIT))
		return false;
	ret->which = which;
	ret->pending = 0;
	(void)sys_sigmask(SIG_BLOCK, &which, &ret->old);
	/* A signal can only be pending if the program has blocked it. */
	if (ret->old & which)
		(void)sys_sigpending(&ret->pending);
	return true;
}

/*
 * End the blocking. has_sent: the call may have sent a signal; it is consumed. A signal that
 * was pending before the call is not consumed.
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

#endif /* UAIO_OP_SIGNALS_H */
