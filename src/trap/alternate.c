/* SPDX-License-Identifier: MIT */
/*
 * System calls that a signal handler makes while it runs on the alternate stack
 * (sigaltstack)
 *
 * The kernel decides by the stack pointer whether a thread is on its alternate stack. A
 * thread that executes the library is on another stack. So the kernel would start the
 * next handler with SA_ONSTACK at the top of the alternate stack, and overwrite the
 * frame of the handler that made the call. Therefore the library disables the thread's
 * alternate stack during the call:
 *
 *   I1  While the library runs for a thread that was on its alternate stack, the kernel
 *       has no alternate stack for the thread (record->is_off_alternate). If a signal
 *       arrives then, its frame is on the library's stack, and the program's handler
 *       runs later (signal.h).
 *   I2  All signals are blocked from before the thread leaves the alternate stack until
 *       the library has disabled this stack in the kernel. They are blocked again from
 *       before the library enables the alternate stack until the thread is on it.
 *       entry.S and uaio_trap_deliver do this.
 *
 * When entry.S calls a handler, entry.S stores in the thread's record where the
 * alternate stack is. The program may set another alternate stack later. Then the
 * library disables the new stack needlessly, and enables it again afterwards.
 *
 * A thread may have no stack when it makes its last system call: a detached thread of
 * musl unmaps its stack and calls exit; an ending thread of Go leaves its stack to
 * other threads. If the syscall instruction of this last call is not yet patched, it
 * raises SIGSYS, and the signal's frame needs memory:
 *
 *   I3  The library lends the thread an alternate stack, which is near the low end
 *       of the library's own stack, in two cases: when the thread unmaps the stack on
 *       which it runs, or when the thread disables its alternate stack with all signals
 *       blocked. The library takes this lent stack back before the thread unblocks a
 *       signal. sigaltstack() does not report the lent stack to the program.
 *
 * Tested by test/trap.
 */
#include "trap/signal.h"

#if defined(__x86_64__)
#include <ucontext.h>

#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"

enum {
	MASK_BYTES = 8,
	PAGE = 4096,
	RED_ZONE = 128,
	/*
	 * size of the alternate stack that the library lends to a thread (I3): enough
	 * for a signal frame with all registers, and for on_trap()
	 */
	LENT_BYTES = 32 << 10,
	/*
	 * distance from the top of the library's stack down to the lowest address of
	 * the lent stack, which is near the low end of the library's stack
	 */
	LENT_BELOW = UAIO_TRAP_STACK_BYTES - (64 << 10),
};

void uaio_trap_leave_alternate(struct uaio_trap_thread *self)
{
	const stack_t none = { .ss_flags = SS_DISABLE };

	(void)uaio_sys6(SYS_sigaltstack, (long)&none, (long)&self->alternate, 0,
			0, 0, 0);
	(void)sys_sigmask(SIG_SETMASK, &self->entry_mask, NULL);
}

/*
 * Enable the alternate stack in the kernel again. uaio_trap_deliver (entry.S) restores
 * the signal mask once the thread is on that stack.
 */
void uaio_trap_return_alternate(struct uaio_trap_thread *self)
{
	uaio_trap_block(self);
	(void)uaio_sys6(SYS_sigaltstack, (long)&self->alternate, 0, 0, 0, 0, 0);
	self->is_off_alternate = 0;
}

/*
 * Lending alternate stacks to threads (I3)
 */

static stack_t ask_kernel(void)
{
	stack_t now = { .ss_flags = SS_DISABLE };

	(void)uaio_sys6(SYS_sigaltstack, 0, (long)&now, 0, 0, 0, 0);
	return now;
}

static void set(struct uaio_trap_thread *self, const stack_t *stack)
{
	if (self->is_off_alternate)
		self->alternate = *stack;
	else
		(void)uaio_sys6(SYS_sigaltstack, (long)stack, 0, 0, 0, 0, 0);
}

static void lend(struct uaio_trap_thread *self)
{
	const stack_t lent = {
		.ss_sp = (void *)(self->top - LENT_BELOW),
		.ss_size = LENT_BYTES,
	};

	set(self, &lent);
	self->is_lent = true;
}

void uaio_trap_lend_if_unmapped(struct uaio_trap_thread *self, uint64_t addr,
				uint64_t bytes)
{
	stack_t now;

	bytes = (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	if (self->rsp - RED_ZONE - addr >= bytes)
		return;
	now = self->is_off_alternate ? self->alternate : ask_kernel();
	if (now.ss_flags & SS_DISABLE || (uintptr_t)now.ss_sp - addr < bytes)
		lend(self);
}

void uaio_trap_take_back(struct uaio_trap_thread *self)
{
	const stack_t none = { .ss_flags = SS_DISABLE };

	if (likely(!self->is_lent) || self->is_off_alternate)
		return;
	/*
	 * Disable the lent stack only if it is still the thread's alternate stack in
	 * the kernel: the return from a handler may have restored another one.
	 */
	if ((uintptr_t)ask_kernel().ss_sp == self->top - LENT_BELOW)
		set(self, &none);
	self->is_lent = false;
}

static bool gives_up(const stack_t *given)
{
	return given && uaio_can_read((uintptr_t)given, sizeof(*given)) &&
	       given->ss_flags & SS_DISABLE;
}

bool uaio_trap_sigaltstack(struct uaio_trap_thread *self, const long a[6],
			   long *ret)
{
	uint64_t mask = self->mask;

	if (self->is_off_alternate ||
	    (!self->is_lent && !gives_up((const stack_t *)a[0])))
		return false;
	uaio_trap_take_back(self);
	*ret = uaio_sys6(SYS_sigaltstack, a[0], a[1], 0, 0, 0, 0);
	if (!self->is_pending)
		(void)sys_sigmask(SIG_BLOCK, NULL, &mask);
	if (uaio_trap_is_all(mask) && ask_kernel().ss_flags & SS_DISABLE)
		lend(self);
	return true;
}

FOREIGN void uaio_trap_note_alternate(struct uaio_trap_thread *self,
				      const void *context)
{
	const ucontext_t *uc = context;

	self->alternate_low = (uintptr_t)uc->uc_stack.ss_sp;
	self->alternate_bytes = uc->uc_stack.ss_size;
}

FOREIGN static uint64_t set_mask(uint64_t mask)
{
	uint64_t old;

	(void)uaio_sys_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask,
			   (long)&old, MASK_BYTES, 0, 0);
	return old;
}

/*
 * Call the handler on the alternate stack. The handler's system calls are trapped, like
 * all system calls of the program.
 */
FOREIGN static void call_unblocked(struct uaio_trap_thread *self,
				   const struct uaio_trap_call *call)
{
	(void)set_mask(call->mask);
	self->selector = DISPATCH_TRAP;
	call->handler(call->sig, call->info, call->context);
	self->selector = DISPATCH_PASS;
	(void)set_mask(UINT64_MAX);
}

FOREIGN void uaio_trap_call_on_alternate(struct uaio_trap_thread *self,
					 uaio_trap_handler_fn *handler, int sig,
					 siginfo_t *info, void *context)
{
	const stack_t none = { .ss_flags = SS_DISABLE };
	const stack_t alternate = self->alternate;
	const uint64_t entry_mask = self->entry_mask;
	struct uaio_trap_call call = {
		.handler = handler,
		.info = info,
		.context = context,
		.sig = sig,
	};

	self->selector = DISPATCH_PASS;
	call.mask = set_mask(UINT64_MAX);
	(void)uaio_sys_raw(SYS_sigaltstack, (long)&alternate, 0, 0, 0, 0, 0);
	self->is_off_alternate = 0;
	uaio_trap_call_on(self, &call, (self->rsp - RED_ZONE) & ~15ull,
			  call_unblocked);
	(void)uaio_sys_raw(SYS_sigaltstack, (long)&none, 0, 0, 0, 0, 0);
	self->alternate = alternate;
	self->entry_mask = entry_mask;
	self->is_off_alternate = 1;
	(void)set_mask(call.mask);
}
#endif
