/* SPDX-License-Identifier: MIT */
#include "proc/handlers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/lock.h"
#include "base/sleepcall.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/process.h"

enum {
	/*
	 * Two signals that the C library uses itself: to cancel threads, and for
	 * setuid() in all threads.
	 */
	SIG_CANCEL = 32,
	SIG_SETXID = 33,
};

#define BIT(sig) (1ull << ((sig)-1))

/* Signals that are never deferred (I4). */
#define AT_ONCE                                                        \
	(BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) |      \
	 BIT(SIGTRAP) | BIT(SIGSYS) | BIT(SIGABRT) | BIT(SIG_CANCEL) | \
	 BIT(SIG_SETXID) | BIT(SIGKILL) | BIT(SIGSTOP))

uint64_t uaio_handlers_deferrable(void)
{
	return ~AT_ONCE;
}

typedef void handler_fn(int sig, siginfo_t *info, void *context);

/* The kernel's struct sigaction. */
struct action {
	handler_fn *handler;
	uint64_t flags;
	void (*restorer)(void);
	uint64_t mask;
};

#if defined(__x86_64__)

enum {
	NR_SIGNALS = 65,
	/*
	 * A thread counts as sleeping only if its stack pointer is near the frame that
	 * the wait has recorded: at most FRAMES_BELOW bytes below, or FRAMES_ABOVE
	 * bytes above.
	 */
	FRAMES_BELOW = 8192,
	FRAMES_ABOVE = 512,
};

/* A handler that the program has set. */
struct given {
	/* atomic: a signal handler may read it at any time */
	handler_fn *handler;
	/*
	 * atomic: SA_SIGINFO and SA_RESETHAND as the program has set them. For the
	 * kernel, SA_SIGINFO is always set, and SA_RESETHAND never.
	 */
	uint32_t flags;
};

enum { FLAGS_KEPT = SA_SIGINFO | (int)SA_RESETHAND };

static struct {
	struct uaio_lock lock; /* rank HANDLERS */
	struct given given[NR_SIGNALS];
	uint32_t is_on; /* atomic */
} handlers;

/*
 * deferred_mask: the signal mask to restore; deferred_let_in: signals to unblock before
 * the mask is restored. Both are valid if has_deferred is set. They are two variables,
 * not a struct: GCC aligns a struct of 16 bytes to 16 bytes, which may leave a hole in
 * the static TLS.
 */
static _Thread_local uint64_t deferred_mask
	__attribute__((tls_model("initial-exec")));
static _Thread_local uint64_t deferred_let_in
	__attribute__((tls_model("initial-exec")));

/* What the library does when a signal arrives */

/*
 * Return: whether the signal arrived in a wait. If an earlier handler left a wait by
 * siglongjmp(), is_asleep is still set, so compare the stack pointer, too.
 */
static bool is_asleep(uintptr_t stack)
{
	if (!uaio_entry.is_asleep)
		return false;
	if (uaio_entry.asleep_at + FRAMES_ABOVE - stack <=
	    FRAMES_ABOVE + FRAMES_BELOW)
		return true;
	uaio_entry.is_asleep = 0;
	uaio_entry.must_wake = 0;
	return false;
}

/*
 * Defer the program's handler if the thread is inside the library or in a wait (I2,
 * I3).
 * Return: whether the handler is deferred.
 */
static bool defer(int sig, const siginfo_t *info, void *context)
{
	const uint64_t all = ~AT_ONCE;
	ucontext_t *uc = context;
	uint64_t own, *mask = (uint64_t *)&uc->uc_sigmask;
	greg_t *at = &uc->uc_mcontext.gregs[REG_RIP];
	bool sleeps = is_asleep((uintptr_t)uc->uc_mcontext.gregs[REG_RSP]);

	if (!sleeps && !uaio_entry.depth)
		return false;
	/*
	 * Block all signals before this one is queued: a handler with SA_NODEFER does
	 * not block it. Another signal can arrive only before this call. It interrupts
	 * this handler, and its handler ends first. So the handler of the signal that
	 * interrupted the library stores deferred_mask last, and only this handler sees
	 * the thread's own mask.
	 */
	(void)sys_sigmask(SIG_BLOCK, &all, &own);
	if (sys_tgsigqueueinfo(sys_getpid(), sys_gettid(), sig, info) < 0) {
		(void)sys_sigmask(SIG_SETMASK, &own, NULL);
		return false;
	}
	deferred_mask = *mask;
	deferred_let_in |= BIT(sig);
	uaio_entry.has_deferred = 1;
	*mask = all;
	if (!sleeps)
		return true;
	uaio_entry.must_wake = 1;
	if (*at >= (greg_t)(uintptr_t)uaio_sleep_call_begin &&
	    *at < (greg_t)(uintptr_t)uaio_sleep_call_end)
		*at = (greg_t)(uintptr_t)uaio_sleep_call_stopped;
	return true;
}

static void run(int sig, siginfo_t *info, void *context)
{
	const struct given *given = &handlers.given[sig];
	const struct action none = { 0 };
	/*
	 * relaxed: whichever value is loaded, the signal arrived either before or after
	 * the handler was set
	 */
	handler_fn *handler = load_relaxed(&given->handler);

	if (load_relaxed(&given->flags) & (uint32_t)SA_RESETHAND)
		(void)sys_sigaction(sig, &none, NULL);
	handler(sig, info, context);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	if (!defer(sig, info, context))
		run(sig, info, context);
}

/*
 * Called for a handler without SA_SIGINFO: the kernel passes a context, but no
 * siginfo_t. So this function makes a siginfo_t that holds only the signal's number.
 */
static void on_plain_signal(int sig, siginfo_t *info, void *context)
{
	siginfo_t plain;

	(void)info;
	memset(&plain, 0, sizeof(plain));
	plain.si_signo = sig;
	plain.si_code = SI_USER;
	if (!defer(sig, &plain, context))
		run(sig, &plain, context);
}

void uaio_handlers_run(void)
{
	const uint64_t mask = deferred_mask, first = mask & ~deferred_let_in;

	deferred_let_in = 0;
	uaio_entry.has_deferred = 0;
	uaio_entry_barrier();
	(void)sys_sigmask(SIG_SETMASK, &first, NULL);
	/*
	 * A wait with its own signal mask, such as ppoll(), may have let in a signal
	 * that the thread's mask blocks. The kernel has just delivered this signal,
	 * because the mask `first` does not block it. Now restore the thread's mask.
	 */
	if (first != mask)
		(void)sys_sigmask(SIG_SETMASK, &mask, NULL);
}

static const uint8_t *stop_of(void)
{
	return uaio_entry.is_asleep ? &uaio_entry.must_wake : NULL;
}

/* sigaction() and signal(), as the program calls them */

static bool is_ours(const void *handler)
{
	return handler == (const void *)(uintptr_t)on_signal ||
	       handler == (const void *)(uintptr_t)on_plain_signal;
}

/* Return: whether the library replaces this handler of the signal by its own. */
static bool is_deferrable(int sig, const void *handler)
{
	/* A value of -1 to 2 is no function: SIG_ERR, SIG_DFL, SIG_IGN, SIG_HOLD. */
	return sig > 0 && sig < NR_SIGNALS && !(BIT(sig) & AT_ONCE) &&
	       (uintptr_t)handler + 1 > 3 && !is_ours(handler) &&
	       load_relaxed(&handlers.is_on) && uaio_engine_is_of_process();
}

static struct given given_of(int sig)
{
	struct given given = { 0 };

	/* relaxed, both: a signal arrives either before or after the handler is set */
	if (sig > 0 && sig < NR_SIGNALS) {
		given.handler = load_relaxed(&handlers.given[sig].handler);
		given.flags = load_relaxed(&handlers.given[sig].flags);
	}
	return given;
}

static void give(int sig, const struct given *given)
{
	/* relaxed, both: a signal arrives either before or after the handler is set */
	store_relaxed(&handlers.given[sig].handler, given->handler);
	store_relaxed(&handlers.given[sig].flags, given->flags);
}

/*
 * Return: whether the lock was acquired. If not, a handler that was not deferred has
 * interrupted the library, perhaps while the thread held the lock.
 */
static bool lock(void)
{
	bool has_entered = uaio_enter();

	if (has_entered)
		uaio_lock(&handlers.lock, UAIO_RANK_HANDLERS);
	return has_entered;
}

static void unlock(bool has_lock)
{
	if (!has_lock)
		return;
	uaio_unlock(&handlers.lock, UAIO_RANK_HANDLERS);
	uaio_leave();
}

/*
 * Replace the library's handler in *action by the handler that the program has set
 * (I5).
 */
static void show(const struct given *given, struct sigaction *action)
{
	if (!is_ours((const void *)(uintptr_t)action->sa_sigaction))
		return;
	action->sa_sigaction = given->handler;
	action->sa_flags = (action->sa_flags & ~FLAGS_KEPT) | (int)given->flags;
}

int uaio_handlers_sigaction(uaio_sigaction_fn *set, int sig,
			    const struct sigaction *action,
			    struct sigaction *ret_old)
{
	struct given was = given_of(sig), given;
	struct sigaction ours, old;
	bool has_lock;
	int ret;

	if (!action ||
	    !is_deferrable(sig,
			   (const void *)(uintptr_t)action->sa_sigaction)) {
		ret = set(sig, action, ret_old);
		if (ret == 0 && ret_old)
			show(&was, ret_old);
		return ret;
	}
	ours = *action;
	given.handler = ours.sa_sigaction;
	given.flags = (uint32_t)(ours.sa_flags & FLAGS_KEPT);
	ours.sa_sigaction = on_signal;
	ours.sa_flags = (ours.sa_flags & ~FLAGS_KEPT) | SA_SIGINFO;
	has_lock = lock();
	was = given_of(sig);
	give(sig, &given);
	ret = set(sig, &ours, &old);
	if (ret < 0)
		give(sig, &was);
	unlock(has_lock);
	if (ret < 0 || !ret_old)
		return ret;
	show(&was, &old);
	*ret_old = old;
	return ret;
}

uaio_signal_handler_fn *uaio_handlers_signal(uaio_signal_fn *set, int sig,
					     uaio_signal_handler_fn *handler)
{
	const bool wraps = is_deferrable(sig, (const void *)(uintptr_t)handler);
	uaio_signal_handler_fn *old, *ours = handler;
	struct given was = given_of(sig), given;
	struct sigaction action;
	bool has_lock = false;

	if (wraps) {
		given.handler = (handler_fn *)(uintptr_t)handler;
		ours = (uaio_signal_handler_fn *)(uintptr_t)on_plain_signal;
		has_lock = lock();
		given.flags = 0;
		was = given_of(sig);
		give(sig, &given);
	}
	old = set(sig, ours);
	if (wraps && old == SIG_ERR)
		give(sig, &was);
	unlock(has_lock);
	if (!is_ours((const void *)(uintptr_t)old))
		return old;
	action.sa_handler = old;
	show(&was, &action);
	return action.sa_handler;
}

static void take_over(int sig)
{
	struct action action;
	struct given given;

	if (sys_sigaction(sig, NULL, &action) < 0 ||
	    (uintptr_t)action.handler <= 1 ||
	    is_ours((const void *)(uintptr_t)action.handler))
		return;
	given.handler = action.handler;
	given.flags = (uint32_t)action.flags & (uint32_t)FLAGS_KEPT;
	give(sig, &given);
	action.handler = on_signal;
	action.flags =
		(action.flags & ~(uint64_t)(uint32_t)FLAGS_KEPT) | SA_SIGINFO;
	(void)sys_sigaction(sig, &action, NULL);
}

void uaio_handlers_start(void)
{
	if (uaio_sleep_stop_at || !uaio_may_call(UAIO_CALL_TGSIGQUEUEINFO))
		return;
	/*
	 * Only in a child of fork(): the child has inherited the library's handlers
	 * from its parent, so nothing is left to do.
	 */
	if (load_relaxed(&handlers.is_on))
		return;
	uaio_lock(&handlers.lock, UAIO_RANK_HANDLERS);
	/*
	 * relaxed, both: a handler that another thread sets meanwhile need not be
	 * deferred
	 */
	store_relaxed(&uaio_sleep_stop_of, stop_of);
	store_relaxed(&handlers.is_on, 1);
	for (int sig = 1; sig < NR_SIGNALS; sig++)
		if (!(BIT(sig) & AT_ONCE))
			take_over(sig);
	uaio_unlock(&handlers.lock, UAIO_RANK_HANDLERS);
}

void uaio_handlers_forget(void)
{
	handlers.lock = (struct uaio_lock){ 0 };
}

#else

static bool is_ours(const void *handler)
{
	(void)handler;
	return false;
}

void uaio_handlers_start(void)
{
}

void uaio_handlers_forget(void)
{
}

void uaio_handlers_run(void)
{
}

int uaio_handlers_sigaction(uaio_sigaction_fn *set, int sig,
			    const struct sigaction *action,
			    struct sigaction *ret_old)
{
	return set(sig, action, ret_old);
}

uaio_signal_handler_fn *uaio_handlers_signal(uaio_signal_fn *set, int sig,
					     uaio_signal_handler_fn *handler)
{
	return set(sig, handler);
}

#endif

bool uaio_handlers_may_interrupt(int sig)
{
	struct action action;

	/* A value of 0 or 1 is no function: SIG_DFL, SIG_IGN. */
	return sys_sigaction(sig, NULL, &action) < 0 ||
	       ((uintptr_t)action.handler > 1 &&
		!is_ours((const void *)(uintptr_t)action.handler));
}
