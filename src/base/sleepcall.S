/* SPDX-License-Identifier: MIT */
/*
 * uaio_sleep_call(stop, number, arguments): make a system call that sleeps, unless *stop
 * is set
 *
 * If a signal's handler is deferred until the thread leaves the library
 * (proc/handlers.h, trap/signal.h), the signal sets *stop. The signal may arrive after
 * the check of *stop, but before the call. Therefore the library's signal handler
 * checks whether the thread is between begin and end. If so, the handler makes the
 * thread go on at uaio_sleep_call_stopped, which returns -EINTR.
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
