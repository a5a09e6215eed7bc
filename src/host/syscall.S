/* SPDX-License-Identifier: MIT */
/*
 * The library's syscall(2), by which programs may make the system calls of kernel AIO
 * and io_uring
 *
 * For a number in uaio_host_numbers this function jumps to uaio_host_syscall() with
 * unchanged arguments. It makes any other system call itself, and sets errno as the C
 * library does. It may be called before any constructor has run. It is in assembly
 * because vfork and clone must not return into a stack frame of the library.
 */
	.text
	.globl	syscall
	.type	syscall, %function
	.balign	16
#if defined(__x86_64__)
syscall:
	.cfi_startproc
	endbr64
	cmpq	$511, %rdi
	ja	3f
	leaq	uaio_host_numbers(%rip), %rax
	cmpb	$0, (%rax,%rdi)
	jne	1f
3:
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rsi
	movq	%rcx, %rdx
	movq	%r8, %r10
	movq	%r9, %r8
	movq	8(%rsp), %r9
	syscall
	cmpq	$-4095, %rax
	jae	2f
	ret
1:	jmp	uaio_host_syscall
2:	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	movq	%rax, %rdi
	call	uaio_host_error
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
#elif defined(__aarch64__)
syscall:
	.cfi_startproc
	bti	c
	cmp	x0, #511
	b.hi	3f
	adrp	x9, uaio_host_numbers
	add	x9, x9, :lo12:uaio_host_numbers
	ldrb	w9, [x9, x0]
	cbnz	w9, 1f
3:
	mov	x8, x0
	mov	x0, x1
	mov	x1, x2
	mov	x2, x3
	mov	x3, x4
	mov	x4, x5
	mov	x5, x6
	svc	#0
	cmn	x0, #4095
	b.hs	2f
	ret
1:	b	uaio_host_syscall
2:	b	uaio_host_error
	.cfi_endproc
#endif
	.size	syscall, . - syscall
	.section .note.GNU-stack, "", %progbits
