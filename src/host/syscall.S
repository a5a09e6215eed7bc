/* SPDX-License-Identifier: MIT */
/*
 * syscall(2): clients make the AIO calls through it as well
 *
 * The numbers we answer go to C with the arguments as they are; every other is
 * executed right here, with the C library's rules for errno. It works before
 * any constructor has run. In assembly because the call may be vfork, clone or
 * anything else that cannot stand a frame of ours.
 */
#include <asm/unistd.h>

	.text
	.globl	syscall
	.type	syscall, %function
	.balign	16
#if defined(__x86_64__)
syscall:
	.cfi_startproc
	endbr64
	/* io_setup .. io_cancel are 206 .. 210 */
	leaq	-__NR_io_setup(%rdi), %rax
	cmpq	$(__NR_io_cancel - __NR_io_setup), %rax
	jbe	1f
	cmpq	$__NR_io_pgetevents, %rdi
	je	1f
	/* io_uring_setup, _enter and _register are 425, 426 and 427 */
	leaq	-__NR_io_uring_setup(%rdi), %rax
	cmpq	$(__NR_io_uring_register - __NR_io_uring_setup), %rax
	jbe	1f
	cmpq	$__NR_mmap, %rdi
	je	1f
	cmpq	$__NR_epoll_ctl, %rdi
	je	1f
	cmpq	$__NR_epoll_wait, %rdi
	je	1f
	cmpq	$__NR_epoll_pwait, %rdi
	je	1f
	cmpq	$__NR_epoll_pwait2, %rdi
	je	1f
	cmpq	$__NR_poll, %rdi
	je	1f
	cmpq	$__NR_ppoll, %rdi
	je	1f
	cmpq	$__NR_select, %rdi
	je	1f
	cmpq	$__NR_pselect6, %rdi
	je	1f
	cmpq	$__NR_close, %rdi
	je	1f
	cmpq	$__NR_dup2, %rdi
	je	1f
	cmpq	$__NR_dup3, %rdi
	je	1f
	cmpq	$__NR_close_range, %rdi
	je	1f
	cmpq	$__NR_unshare, %rdi
	je	1f
	cmpq	$__NR_mremap, %rdi
	je	1f
	cmpq	$__NR_munmap, %rdi
	je	1f
	cmpq	$__NR_exit_group, %rdi
	je	1f
	cmpq	$__NR_execve, %rdi
	je	1f
	cmpq	$__NR_execveat, %rdi
	je	1f
	cmpq	$__NR_prctl, %rdi
	je	1f
	cmpq	$__NR_seccomp, %rdi
	je	1f
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
	cmp	x0, #__NR_io_getevents	/* io_setup .. io_getevents: 0 .. 4 */
	b.ls	1f
	cmp	x0, #__NR_io_pgetevents
	b.eq	1f
	/* io_uring_setup, _enter and _register are 425, 426 and 427 */
	sub	x9, x0, #__NR_io_uring_setup
	cmp	x9, #(__NR_io_uring_register - __NR_io_uring_setup)
	b.ls	1f
	cmp	x0, #__NR_mmap
	b.eq	1f
	cmp	x0, #__NR_epoll_ctl
	b.eq	1f
	cmp	x0, #__NR_epoll_pwait
	b.eq	1f
	cmp	x0, #__NR_epoll_pwait2
	b.eq	1f
	cmp	x0, #__NR_ppoll
	b.eq	1f
	cmp	x0, #__NR_pselect6
	b.eq	1f
	cmp	x0, #__NR_close
	b.eq	1f
	cmp	x0, #__NR_dup3
	b.eq	1f
	cmp	x0, #__NR_close_range
	b.eq	1f
	cmp	x0, #__NR_unshare
	b.eq	1f
	cmp	x0, #__NR_mremap
	b.eq	1f
	cmp	x0, #__NR_munmap
	b.eq	1f
	cmp	x0, #__NR_exit_group
	b.eq	1f
	cmp	x0, #__NR_execve
	b.eq	1f
	cmp	x0, #__NR_execveat
	b.eq	1f
	cmp	x0, #__NR_prctl
	b.eq	1f
	cmp	x0, #__NR_seccomp
	b.eq	1f
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
