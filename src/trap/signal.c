/* SPDX-License-Identifier: MIT */
#include "trap/signal.h"

#if defined(__x86_64__)
#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "base/sleepcall.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "trap/site.h"

enum {
	NR_SIGNALS = 65,
	USER_DISPATCH = 2, /* SYS_USER_DISPATCH */
	RESTORER = 0x04000000,
	MASK_BYTES = 8,
	RED_ZONE = 128,
	/*
	 * call_at_once() and the functions that it calls use at most this number of
	 * bytes of stack
	 */
	FRAMES_BYTES = 4096,
};

typedef void handler_fn(int sig, siginfo_t *info, void *context);

/* The kernel's struct sigaction. */
struct action {
	handler_fn *handler;
	uint64_t flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* The program's handlers, which uaio_trap_signal (entry.S) calls. */
handler_fn *uaio_trap_actions[NR_SIGNALS] __attribute__((visibility("hidden")));

void uaio_trap_signal(int sig, siginfo_t *info, void *context)
	__attribute__((visibility("hidden")));
void uaio_trap_defer(int sig, siginfo_t *info, void *context)
	__attribute__((visibility("hidden")));

static struct {
	struct uaio_lock lock; /* rank TRAP */
	/* under `lock`: the signal actions as the program has set them */
	struct action given[NR_SIGNALS];
} signals;

void uaio_trap_forget_lock(void)
{
	memset(&signals.lock, 0, sizeof(signals.lock));
}

static bool is_default(const struct action *action)
{
	return (uintptr_t)action->handler <= 1;
}

/* What the library does when a signal arrives */

FOREIGN static inline void set_fs(uint64_t fs)
{
	__asm__ volatile("wrfsbase %0" : : "r"(fs) : "memory");
}

FOREIGN static inline uint64_t get_fs(void)
{
	uint64_t fs;

	__asm__ volatile("rdfsbase %0" : "=r"(fs));
	return fs;
}

/*
 * Return: whether an instruction of the thread raised the signal, and would raise it
 * again.
 */
FOREIGN static bool is_fault(int sig, const siginfo_t *info)
{
	return info->si_code > 0 &&
	       (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE ||
		sig == SIGILL || sig == SIGTRAP);
}

/*
 * Members of the thread's record that are saved while a handler runs inside the
 * library, because the handler's system calls overwrite them.
 */
struct outer {
	uint64_t rsp, fs, stack, target, nr, pass, ret, child_mask;
	uint64_t nested_below;
};

FOREIGN static struct outer begin_nested(struct uaio_trap_thread *self,
					 uint64_t stack)
{
	const struct outer outer = {
		.rsp = self->rsp,
		.fs = self->fs,
		.stack = self->stack,
		.target = self->target,
		.nr = self->nr,
		.pass = self->pass,
		.ret = self->ret,
		.child_mask = self->child_mask,
		.nested_below = self->nested_below,
	};

	self->stack = stack & ~63ull;
	self->nested_below = self->rsp;
	return outer;
}

FOREIGN static void end_nested(struct uaio_trap_thread *self,
			       const struct outer *outer)
{
	self->rsp = outer->rsp;
	self->fs = outer->fs;
	self->stack = outer->stack;
	self->target = outer->target;
	self->nr = outer->nr;
	self->pass = outer->pass;
	self->ret = outer->ret;
	self->child_mask = outer->child_mask;
	self->nested_below = outer->nested_below;
}

bool uaio_trap_is_nested(const struct uaio_trap_thread *self)
{
	return self->rsp < self->nested_below ||
	       self->rsp - self->alternate_low <= self->alternate_bytes;
}

FOREIGN static void call_there(struct uaio_trap_thread *self,
			       const struct uaio_trap_call *call)
{
	(void)self;
	call->handler(call->sig, call->info, call->context);
}

/*
 * The library has caused a fault, for example by access to memory of the program that
 * is not mapped. Call the program's handler as if the program had accessed this memory
 * itself, on the stack that the kernel would have chosen. Most handlers do not return.
 * System calls of the handler use the library's stack below the part in use.
 */
FOREIGN static void call_at_once(struct uaio_trap_thread *self, int sig,
				 siginfo_t *info, void *context)
{
	const struct uaio_trap_call call = {
		.handler = uaio_trap_actions[sig],
		.info = info,
		.context = context,
		.sig = sig,
	};
	const ucontext_t *uc = context;
	const uint64_t here = (uintptr_t)__builtin_frame_address(0);
	const uint8_t selector = self->selector;
	const uint64_t fs = get_fs();
	/*
	 * Whether the kernel has called this function on the library's stack; otherwise
	 * it has used the alternate stack.
	 */
	const bool is_on_ours = self->top - here < UAIO_TRAP_STACK_BYTES;
	const struct outer outer = begin_nested(
		self, is_on_ours ? here - FRAMES_BYTES
				 : (uint64_t)uc->uc_mcontext.gregs[REG_RSP] -
					   RED_ZONE);

	self->selector = DISPATCH_TRAP;
	set_fs(outer.fs);
	self->is_inside = 0;
	if (self->is_off_alternate) {
		uaio_trap_call_on_alternate(self, call.handler, sig, info,
					    context);
	} else {
		uaio_trap_note_alternate(self, context);
		if (is_on_ours)
			uaio_trap_call_on(self, &call,
					  (outer.rsp - RED_ZONE) & ~15ull,
					  call_there);
		else
			call_there(self, &call);
	}
	self->is_inside = 1;
	set_fs(fs);
	self->selector = selector;
	end_nested(self, &outer);
}

FOREIGN void uaio_trap_defer(int sig, siginfo_t *info, void *context)
{
	struct uaio_trap_thread *self = uaio_trap_self();
	ucontext_t *uc = context;
	uint64_t all = UINT64_MAX, *mask = (uint64_t *)&uc->uc_sigmask;
	uint8_t selector = self->selector;
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	long pid, tid;

	if (is_fault(sig, info)) {
		call_at_once(self, sig, info, context);
		return;
	}
	self->selector = DISPATCH_PASS;
	/*
	 * Block all signals before this signal is queued, because a handler with
	 * SA_NODEFER does not block its own signal. Until this call, another signal may
	 * interrupt this handler. The nested handler ends first, so the outer handler
	 * stores `mask` last. Only the outer handler sees the thread's own mask.
	 */
	(void)uaio_sys_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0,
			   MASK_BYTES, 0, 0);
	pid = uaio_sys_raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
	tid = uaio_sys_raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
	(void)uaio_sys_raw(SYS_rt_tgsigqueueinfo, pid, tid, sig, (long)info, 0,
			   0);
	self->selector = selector;
	if (!self->is_pending)
		self->let_in = 0;
	if (self->is_pending != UAIO_TRAP_BLOCKED) {
		self->mask = *mask;
		self->is_pending = UAIO_TRAP_DEFERRED;
	}
	self->let_in |= 1ull << (sig - 1);
	self->first_mask = self->mask & ~self->let_in;
	*mask = all;
	/*
	 * If the thread is just about to sleep, continue it after the sleep's system
	 * call, with -EINTR.
	 */
	if (at >= (uintptr_t)uaio_sleep_call_begin &&
	    at < (uintptr_t)uaio_sleep_call_end)
		uc->uc_mcontext.gregs[REG_RIP] = (long)uaio_sleep_call_stopped;
}

/*
 * Call a handler that was set with SA_RESETHAND: first reset the action to the default.
 */
FOREIGN static void call_once(int sig, siginfo_t *info, void *context)
{
	struct uaio_trap_thread *self = uaio_trap_self();
	handler_fn *handler = signals.given[sig].handler;
	struct action none = { 0 };

	self->selector = DISPATCH_PASS;
	(void)uaio_sys_raw(SYS_rt_sigaction, sig, (long)&none, 0, MASK_BYTES, 0,
			   0);
	self->selector = DISPATCH_TRAP;
	handler(sig, info, context);
}

/*
 * Handle a SIGSYS that does not come from the trap: a process has sent it, or a seccomp
 * filter has raised it.
 */
FOREIGN static void call_for_sigsys(int sig, siginfo_t *info, void *context)
{
	struct uaio_trap_thread *self = uaio_trap_self();
	struct action none = { 0 };
	uint64_t mask = UAIO_TRAP_SIGSYS_BIT;

	if (!is_default(&signals.given[SIGSYS])) {
		uaio_trap_note_alternate(self, context);
		signals.given[SIGSYS].handler(sig, info, context);
		return;
	}
	if (signals.given[SIGSYS].handler == (handler_fn *)1 &&
	    info->si_code <= 0)
		return;
	self->selector = DISPATCH_PASS;
	(void)uaio_sys_raw(SYS_rt_sigaction, SIGSYS, (long)&none, 0, MASK_BYTES,
			   0, 0);
	(void)uaio_sys_raw(
		SYS_tgkill, uaio_sys_raw(SYS_getpid, 0, 0, 0, 0, 0, 0),
		uaio_sys_raw(SYS_gettid, 0, 0, 0, 0, 0, 0), SIGSYS, 0, 0, 0);
	(void)uaio_sys_raw(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&mask, 0,
			   MASK_BYTES, 0, 0);
}

/*
 * Handle the SIGSYS of a trapped system call, with all signals blocked. The kernel has
 * not made the call; its number is in rax.
 */
FOREIGN static void on_trap(int sig, siginfo_t *info, void *context)
{
	struct uaio_trap_thread *self = uaio_trap_self();
	ucontext_t *uc = context;
	uint64_t slot = 0;

	if (info->si_code != USER_DISPATCH) {
		call_for_sigsys(sig, info, context);
		return;
	}
	self->selector = DISPATCH_PASS;
	uc->uc_mcontext.gregs[REG_RIP] -= 2;
	if (info->si_arch == AUDIT_ARCH_X86_64)
		slot = uaio_trap_slot_of(
			(uint64_t)uc->uc_mcontext.gregs[REG_RIP]);
	/*
	 * If no slot is free for this system call instruction, let the thread make the
	 * call at the instruction itself. So the selector must stay PASS, and later
	 * calls are not trapped until a patched call has entered and left the library.
	 */
	if (!slot)
		return;
	uc->uc_mcontext.gregs[REG_RIP] = (long)slot;
	self->selector = DISPATCH_TRAP;
}

long uaio_trap_signals_begin(void)
{
	const struct action action = {
		.handler = on_trap,
		.flags = SA_SIGINFO | SA_ONSTACK | RESTORER,
		.restorer =
			(void (*)(void))uaio_trap_code_at(uaio_trap_restorer),
		.mask = UINT64_MAX,
	};

	return uaio_sys6(SYS_rt_sigaction, SIGSYS, (long)&action,
			 (long)&signals.given[SIGSYS], MASK_BYTES, 0, 0);
}

/* Serving rt_sigaction and rt_sigprocmask, by which the program sets handlers and masks */

void uaio_trap_block(struct uaio_trap_thread *self)
{
	const uint64_t all = UINT64_MAX;
	uint64_t old;

	(void)sys_sigmask(SIG_SETMASK, &all, &old);
	/*
	 * If a handler of the program already waits, the record already has the
	 * program's mask, and `old` blocks all signals.
	 */
	if (!self->is_pending) {
		self->mask = self->first_mask = old & ~UAIO_TRAP_SIGSYS_BIT;
		self->let_in = 0;
	}
	self->is_pending = UAIO_TRAP_BLOCKED;
}

/*
 * Report the action of a signal to the program. If the kernel has the library's
 * handler, report the action that the program has set.
 */
static void show(int sig, const struct action *kernels, struct action *ret_old)
{
	*ret_old = kernels->handler == uaio_trap_signal ? signals.given[sig]
							: *kernels;
}

static long install(int sig, const struct action *action,
		    struct action *ret_kernels)
{
	struct action ours = {
		.handler = uaio_trap_signal,
		.flags = (action->flags & ~(uint64_t)SA_RESETHAND) |
			 SA_SIGINFO | RESTORER,
		.restorer =
			(void (*)(void))uaio_trap_code_at(uaio_trap_restorer),
		.mask = action->mask & ~UAIO_TRAP_SIGSYS_BIT,
	};
	struct action old = signals.given[sig];
	handler_fn *old_handler = uaio_trap_actions[sig];
	long ret;

	signals.given[sig] = *action;
	store_relaxed(&uaio_trap_actions[sig], action->flags & SA_RESETHAND
						       ? call_once
						       : action->handler);
	ret = uaio_sys6(SYS_rt_sigaction, sig, (long)&ours, (long)ret_kernels,
			MASK_BYTES, 0, 0);
	if (ret == 0 && ret_kernels->handler == uaio_trap_signal)
		*ret_kernels = old;
	if (ret < 0) {
		signals.given[sig] = old;
		store_relaxed(&uaio_trap_actions[sig], old_handler);
	}
	return ret;
}

static long change_locked(int sig, const struct action *action,
			  struct action *ret_old)
{
	struct action kernels;
	long ret;

	if (sig == SIGSYS) {
		*ret_old = signals.given[SIGSYS];
		if (action)
			signals.given[SIGSYS] = *action;
		return 0;
	}
	/*
	 * A child of vfork() has its own signal actions in the kernel, but shares
	 * `signals` with its parent. So only the process that owns the threads' records
	 * may write to `signals`.
	 */
	if (action && !is_default(action) && sys_getpid() == uaio_trap_pid())
		return install(sig, action, ret_old);
	ret = uaio_sys6(SYS_rt_sigaction, sig, (long)action, (long)&kernels,
			MASK_BYTES, 0, 0);
	if (ret == 0)
		show(sig, &kernels, ret_old);
	return ret;
}

long uaio_trap_sigaction(const long a[6])
{
	const struct action *given = (const struct action *)a[1];
	struct action *ret_old = (struct action *)a[2], action, old;
	int sig = (int)a[0];
	long ret;

	if (a[3] != MASK_BYTES || sig < 1 || sig >= NR_SIGNALS ||
	    ((sig == SIGKILL || sig == SIGSTOP) && given))
		return -EINVAL;
	if ((given && !uaio_can_read((uintptr_t)given, sizeof(*given))) ||
	    (ret_old && !uaio_can_write((uintptr_t)ret_old, sizeof(*ret_old))))
		return -EFAULT;
	if (given)
		action = *given;
	uaio_lock(&signals.lock, UAIO_RANK_TRAP);
	ret = change_locked(sig, given ? &action : NULL, &old);
	uaio_unlock(&signals.lock, UAIO_RANK_TRAP);
	if (ret == 0 && ret_old)
		*ret_old = old;
	return ret;
}

long uaio_trap_sigprocmask(struct uaio_trap_thread *self, const long a[6])
{
	const uint64_t *set = (const uint64_t *)a[1];
	uint64_t *ret_old = (uint64_t *)a[2], given, old;

	if (unlikely(self->is_lent) && set && (int)a[0] != SIG_BLOCK &&
	    uaio_can_read((uintptr_t)set, MASK_BYTES) &&
	    !((int)a[0] == SIG_SETMASK && uaio_trap_is_all(*set)))
		uaio_trap_take_back(self);
	/*
	 * Most calls of rt_sigprocmask do not block SIGSYS: let the kernel serve them.
	 */
	if (a[3] != MASK_BYTES || !set ||
	    !uaio_can_read((uintptr_t)set, MASK_BYTES) ||
	    (given = *set, !(given & UAIO_TRAP_SIGSYS_BIT)) ||
	    (int)a[0] == SIG_UNBLOCK || (int)a[0] > SIG_SETMASK ||
	    (int)a[0] < 0) {
		self->target = self->pass;
		return (long)self->nr;
	}
	if (ret_old && !uaio_can_write((uintptr_t)ret_old, MASK_BYTES))
		return -EFAULT;
	uaio_trap_block(self);
	old = self->mask;
	given &= ~(UAIO_TRAP_SIGSYS_BIT | 1ull << (SIGKILL - 1) |
		   1ull << (SIGSTOP - 1));
	self->mask = (int)a[0] == SIG_BLOCK ? old | given : given;
	self->first_mask = self->mask;
	if (ret_old)
		*ret_old = old;
	return 0;
}
#endif
