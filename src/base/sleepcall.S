/* SPDX-License-Identifier: MIT */
/*
 * uaio_sleep_call(stop, number, arguments): a system call that sleeps, or -EINTR
 *
 * Where a handler of a signal has to wait until the library has been left (trap/signal.h),
 * it sets *stop, and it is not known whether the thread sleeps already. If it is
 * still before the call, it goes on at uaio_sleep_call_stopped.
 */
	.text
#if defined(__x86_64__)
	.globl	uaio_sleep_call, uaio_sleep_call_begin, uaio_sleep_call_end
	.hidden	uaio_sleep_call, uaio_sleep_call_begin, uaio_sleep_call_end
	.globl	uaio_sleep_call_stopped
	.hidden	uaio_sleep_call_stopped
	.type	uaio_sleep_call, %function
	.balign	16
uaio_sleep_call:
	.cfi_startproc
	endbr64
	movq	%rdi, %r11
	movq	%rsi, %rax
	movq	%rdx, %rcx
	movq	(%rcx), %rdi
	movq	8(%rcx), %rsi
	movq	16(%rcx), %rdx
	movq	24(%rcx), %r10
	movq	32(%rcx), %r8
	movq	40(%rcx), %r9
uaio_sleep_call_begin:
	cmpb	$0, (%r11)
	jne	uaio_sleep_call_stopped
	syscall
uaio_sleep_call_end:
	ret
uaio_sleep_call_stopped:
	movq	$-4, %rax		/* EINTR */
	ret
	.cfi_endproc
	.size	uaio_sleep_call, . - uaio_sleep_call
#endif
	.section .note.GNU-stack, "", %progbits
