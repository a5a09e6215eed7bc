/* SPDX-License-Identifier: MIT */
/*
 * Transitions between the program's code and the library
 *
 * Each instruction of the program that makes system calls has a slot (code of the
 * library, site.h). A system call arrives at the slot with the program's registers
 * unchanged. rax is the call's number; rcx and r11 may be overwritten, as by the
 * kernel. The code must preserve all other registers, and the flags. The code from
 * uaio_trap_code to uaio_trap_code_end is copied to where the program's code can reach
 * it. While the selector (the byte by which the kernel decides whether to trap) is
 * TRAP, only this copy can make system calls for the library.
 */
#if defined(__x86_64__)
#include "trap/state.h"

	.text
	.globl	uaio_trap_code, uaio_trap_code_end
	.hidden	uaio_trap_code, uaio_trap_code_end
	.globl	uaio_trap_restorer, uaio_trap_deliver
	.hidden	uaio_trap_restorer, uaio_trap_deliver
	.globl	uaio_trap_clone_thread, uaio_trap_clone_same
	.hidden	uaio_trap_clone_thread, uaio_trap_clone_same
	.globl	uaio_trap_slot, uaio_trap_slot_end, uaio_trap_slot_pass
	.hidden	uaio_trap_slot, uaio_trap_slot_end, uaio_trap_slot_pass
	.globl	uaio_trap_slot_call
	.hidden	uaio_trap_slot_call
	.globl	uaio_trap_slot_data, uaio_trap_slot_ret
	.hidden	uaio_trap_slot_data, uaio_trap_slot_ret
	.globl	uaio_trap_entry, uaio_trap_signal, uaio_trap_begin
	.hidden	uaio_trap_entry, uaio_trap_signal, uaio_trap_begin
	.globl	uaio_trap_call_on
	.hidden	uaio_trap_call_on
	.hidden	uaio_trap_actions, uaio_trap_defer
	.hidden	uaio_patch_entry_other, uaio_patch_save

	.balign	16
uaio_trap_code:
	/* The return address of handlers, in the form that debuggers recognise. */
uaio_trap_restorer:
	movq	$15, %rax		/* rt_sigreturn */
	syscall
	.balign	16

	/*
	 * All signals are blocked, because a signal arrived while the thread was inside
	 * the library. Let the kernel deliver this signal (by first_mask), then restore
	 * the thread's mask, and jump to r11.
	 */
uaio_trap_deliver:
	leaq	-128(%rsp), %rsp	/* the red zone */
	pushq	%rax
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%r10
	pushq	%r11
	pushq	%gs:T_MASK
	movb	$0, %gs:T_IS_PENDING
	movl	$14, %eax		/* rt_sigprocmask */
	movl	$2, %edi		/* SIG_SETMASK */
	movq	%gs:T_SELF, %rsi
	leaq	T_FIRST_MASK(%rsi), %rsi
	movl	$0, %edx
	movl	$8, %r10d
	syscall
	movl	$14, %eax
	movl	$2, %edi
	movq	%rsp, %rsi
	movl	$0, %edx
	movl	$8, %r10d
	syscall
	leaq	8(%rsp), %rsp
	popq	%r11
	popq	%r10
	popq	%rdx
	popq	%rsi
	popq	%rdi
	popq	%rax
	leaq	128(%rsp), %rsp
	jmp	*%r11

	/*
	 * clone() of a thread, called with all signals blocked. The child finds the
	 * address of its record (thread.h) below the top of its stack.
	 */
uaio_trap_clone_thread:
	syscall
	movq	%rax, %rcx
	jrcxz	1f
	jmp	3f
1:	movq	-8(%rsp), %rcx
	wrgsbase %rcx
	jmp	2f

	/*
	 * clone() of a process. A child of fork() has a copy of its parent's record. A
	 * child of vfork() uses its parent's record, while the parent sleeps.
	 */
uaio_trap_clone_same:
	syscall
	movq	%rax, %rcx
	jrcxz	2f
	jmp	3f
2:	movq	%rdi, %gs:T_SAVED
	movq	%rsi, %gs:T_SAVED+8
	movq	%rdx, %gs:T_SAVED+16
	movq	%r10, %gs:T_SAVED+24
	movq	%r8, %gs:T_SAVED+32
	movl	$157, %eax		/* prctl */
	movl	$59, %edi		/* PR_SET_SYSCALL_USER_DISPATCH */
	movq	%gs:T_DISPATCH, %rsi
	movq	%gs:T_OFFSET, %rdx
	movq	%gs:T_LENGTH, %r10
	movq	%gs:T_SELF, %r8
	leaq	T_SELECTOR(%r8), %r8
	syscall
	movq	%gs:T_SAVED, %rdi
	movq	%gs:T_SAVED+8, %rsi
	movq	%gs:T_SAVED+16, %rdx
	movq	%gs:T_SAVED+24, %r10
	movq	%gs:T_SAVED+32, %r8
	movl	$0, %eax
	/*
	 * The parent and the child both continue here. The parent clears T_IS_INSIDE,
	 * too: its child of vfork() may have set T_IS_INSIDE by execve().
	 */
3:	movb	$DISPATCH_TRAP, %gs:T_SELECTOR
	movb	$0, %gs:T_IS_INSIDE
	movq	%gs:T_CHILD_MASK, %rcx
	movq	%rcx, %gs:T_MASK
	movq	%rcx, %gs:T_FIRST_MASK
	movq	%gs:T_RET, %r11
	jmp	uaio_trap_deliver
	.balign	64
uaio_trap_code_end:

	/*
	 * The template of a slot's code. In each copy the library sets the operands
	 * that are distances (site.c).
	 */
uaio_trap_slot:
	movzwl	%ax, %ecx
	movq	%gs:T_SERVED, %r11
	movzbl	(%r11,%rcx), %ecx
	jrcxz	uaio_trap_slot_pass
	leaq	0(%rip), %r11
uaio_trap_slot_data:
	jmp	*%gs:T_ENTRY
uaio_trap_slot_pass:
	syscall
uaio_trap_slot_call:
	jmp	*0(%rip)
uaio_trap_slot_ret:
uaio_trap_slot_end:

	.type	uaio_trap_entry, %function
	.balign	16
uaio_trap_entry:
	.cfi_startproc
	.cfi_undefined %rip
	movb	$1, %gs:T_IS_INSIDE
	movq	%rsp, %gs:T_RSP
	movq	%rax, %gs:T_NR
	movq	(%r11), %rcx
	movq	%rcx, %gs:T_TARGET
	movq	8(%r11), %rcx
	movq	%rcx, %gs:T_PASS
	movq	%gs:T_ALTERNATE_BYTES, %rcx
	jrcxz	.Lswitch
	jmp	.Lmay_be_alternate
.Lswitch:
	rdfsbase %rcx
	movq	%rcx, %gs:T_FS
	movq	%gs:T_STACK, %rsp
	movq	%gs:T_DONOR, %rcx
	wrfsbase %rcx
	movb	$DISPATCH_PASS, %gs:T_SELECTOR
	call	uaio_patch_entry_other
	movb	$DISPATCH_TRAP, %gs:T_SELECTOR
	movq	%gs:T_FS, %rcx
	wrfsbase %rcx
	movq	%gs:T_RSP, %rsp
	movq	%gs:T_TARGET, %r11
	/*
	 * Leave the library, and continue the program at r11 with the program's
	 * registers.
	 */
.Lleave:
	movb	$0, %gs:T_IS_INSIDE
	movzbl	%gs:T_IS_PENDING, %ecx
	jrcxz	1f
	movq	uaio_trap_deliver_at(%rip), %rcx
	jmp	*%rcx
1:	jmp	*%r11

	/*
	 * Is the thread on the alternate stack? The flags are in rax, and T_NR has the
	 * value of rax.
	 */
.Lmay_be_alternate:
	lahf
	seto	%al
	movq	%rsp, %rcx
	subq	%gs:T_ALTERNATE_LOW, %rcx
	cmpq	%gs:T_ALTERNATE_BYTES, %rcx
	ja	2f
	/*
	 * Block all signals while the kernel still has the alternate stack:
	 * alternate.c, I2.
	 */
	movb	$DISPATCH_PASS, %gs:T_SELECTOR
	movq	%rax, %gs:T_SAVED
	movq	%rdi, %gs:T_SAVED+8
	movq	%rsi, %gs:T_SAVED+16
	movq	%rdx, %gs:T_SAVED+24
	movq	%r10, %gs:T_SAVED+32
	movl	$14, %eax		/* rt_sigprocmask */
	movl	$2, %edi		/* SIG_SETMASK */
	leaq	all_signals(%rip), %rsi
	movq	%gs:T_SELF, %rdx
	leaq	T_ENTRY_MASK(%rdx), %rdx
	movl	$8, %r10d
	syscall
	movb	$1, %gs:T_IS_OFF_ALTERNATE
	movq	%gs:T_SAVED, %rax
	movq	%gs:T_SAVED+8, %rdi
	movq	%gs:T_SAVED+16, %rsi
	movq	%gs:T_SAVED+24, %rdx
	movq	%gs:T_SAVED+32, %r10
2:	addb	$127, %al
	sahf
	movq	%gs:T_NR, %rax
	jmp	.Lswitch
	.cfi_endproc
	.size	uaio_trap_entry, . - uaio_trap_entry

	/*
	 * The kernel calls this in place of each handler of the program: (signal, info,
	 * context)
	 */
	.type	uaio_trap_signal, %function
	.balign	16
uaio_trap_signal:
	.cfi_startproc
	cmpb	$0, %gs:T_IS_INSIDE
	jne	1f
	/* uc_stack of the context */
	movq	16(%rdx), %rax
	movq	%rax, %gs:T_ALTERNATE_LOW
	movq	32(%rdx), %rax
	movq	%rax, %gs:T_ALTERNATE_BYTES
	leaq	uaio_trap_actions(%rip), %rax
	movslq	%edi, %rcx
	jmp	*(%rax,%rcx,8)
1:	jmp	uaio_trap_defer
	.cfi_endproc
	.size	uaio_trap_signal, . - uaio_trap_signal

	/*
	 * uaio_trap_call_on(record, call, stack, function): call a function on another
	 * stack
	 */
	.type	uaio_trap_call_on, %function
	.balign	16
uaio_trap_call_on:
	.cfi_startproc
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	movq	%rsp, %rbx
	.cfi_def_cfa_register %rbx
	movq	%rdx, %rsp
	call	*%rcx
	movq	%rbx, %rsp
	.cfi_def_cfa_register %rsp
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	uaio_trap_call_on, . - uaio_trap_call_on

	/* uaio_trap_begin(stack, entry, record): start the program; does not return. */
	.type	uaio_trap_begin, %function
uaio_trap_begin:
	.cfi_startproc
	.cfi_undefined %rip
	wrgsbase %rdx
	/* Clear the vector registers, as the kernel does for a new program. */
	cmpl	$0, uaio_patch_save+4(%rip)
	je	1f
	subq	$640, %rsp
	andq	$-64, %rsp
	xorl	%edx, %edx
	movl	$0x1f80, 24(%rsp)	/* MXCSR */
	movq	%rdx, 512(%rsp)
	movq	%rdx, 520(%rsp)
	movq	%rdx, 528(%rsp)
	movq	%rdx, 536(%rsp)
	movq	%rdx, 544(%rsp)
	movq	%rdx, 552(%rsp)
	movq	%rdx, 560(%rsp)
	movq	%rdx, 568(%rsp)
	movl	uaio_patch_save(%rip), %eax
	xrstor	(%rsp)
1:	movq	%rdi, %rsp
	movq	%rsi, %r11
	xorl	%eax, %eax
	xorl	%ebx, %ebx
	xorl	%edx, %edx
	xorl	%esi, %esi
	xorl	%edi, %edi
	xorl	%ebp, %ebp
	xorl	%r8d, %r8d
	xorl	%r9d, %r9d
	xorl	%r10d, %r10d
	xorl	%r12d, %r12d
	xorl	%r13d, %r13d
	xorl	%r14d, %r14d
	xorl	%r15d, %r15d
	wrfsbase %rax
	movb	$DISPATCH_TRAP, %gs:T_SELECTOR
	jmp	.Lleave
	.cfi_endproc
	.size	uaio_trap_begin, . - uaio_trap_begin

	.section .rodata
	.balign	8
all_signals:
	.quad	-1

	.bss
	.globl	uaio_trap_deliver_at
	.hidden	uaio_trap_deliver_at
	.balign	8
uaio_trap_deliver_at:
	.skip	8
#endif
	.section .note.GNU-stack, "", %progbits
