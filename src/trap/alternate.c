/* SPDX-License-Identifier: MIT */
#include "trap/alternate.h"

#if defined(__x86_64__)
#include <ucontext.h>

#include "base/sys.h"
#include "trap/signal.h"

enum { MASK_BYTES = 8, RED_ZONE = 128 };

void uaio_trap_leave_alternate(struct uaio_trap_thread *self)
{
	const stack_t none = { .ss_flags = SS_DISABLE };

	(void)uaio_sys6(SYS_sigaltstack, (long)&none, (long)&self->alternate, 0,
			0, 0, 0);
	(void)sys_sigmask(SIG_SETMASK, &self->entry_mask, NULL);
}

/* The mask is the thread's again when it is on that stack. */
void uaio_trap_return_alternate(struct uaio_trap_thread *self)
{
	uaio_trap_block(self);
	(void)uaio_sys6(SYS_sigaltstack, (long)&self->alternate, 0, 0, 0, 0, 0);
	self->is_off_alternate = 0;
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

/* On the alternate stack, and with the program's selector and fs but in between. */
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
