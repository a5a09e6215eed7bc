/* SPDX-License-Identifier: MIT */
/*
 * uaio_patch_entry: the function that trampolines call
 *
 * A trampoline calls uaio_patch_entry with the registers of a system call, and with the
 * stack pointer below the red zone. uaio_patch_entry calls uaio_patch_call(number,
 * arguments), and returns the result in rax. uaio_patch_entry_other calls the function
 * in uaio_patch_other instead.
 *
 * Like a system call, both functions preserve the flags and all registers but rax, rcx
 * and r11. They save the vector registers on the stack in the processor's full width
 * (uaio_patch_save): one by one where that is enough, else by xsavec and xrstor, which
 * take 100 ns more. The code for aarch64 is at the end.
 */
#if defined(__x86_64__)
	.text
	.hidden	uaio_patch_call
	.hidden	uaio_patch_other
	.hidden	uaio_patch_save

/* All flags but the arithmetic ones and the two that are always set. */
#define UNUSUAL ~(0x8d5 | 0x202)

	.macro	zero_upper
	.irp	n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	vpxord	%zmm\n, %zmm\n, %zmm\n
	.endr
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	kxorq	%k\n, %k\n, %k\n
	.endr
	.endm

	.macro	define_entry name, act:vararg
	.globl	\name
	.hidden	\name
	.type	\name, %function
	.balign	16
\name:
	.cfi_startproc
	endbr64
	pushfq
	.cfi_adjust_cfa_offset 8
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	cld
	pushq	%r9
	pushq	%r8
	pushq	%r10
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	/* -48(%rbp): the six arguments; -56(%rbp) is for the result */
	subq	$16, %rsp
	subq	uaio_patch_save+8(%rip), %rsp
	andq	$-64, %rsp
	movl	%eax, %edi
	cmpl	$0, uaio_patch_save+16(%rip)
	je	4f
	/* xgetbv: which components of the vector registers are in use? */
	movl	$1, %ecx
	xgetbv
	testl	uaio_patch_save+20(%rip), %eax
	jne	4f
	/* If the upper parts of the first 16 registers are not in use, moves are faster. */
	movaps	%xmm0, 0(%rsp)
	movaps	%xmm1, 16(%rsp)
	movaps	%xmm2, 32(%rsp)
	movaps	%xmm3, 48(%rsp)
	movaps	%xmm4, 64(%rsp)
	movaps	%xmm5, 80(%rsp)
	movaps	%xmm6, 96(%rsp)
	movaps	%xmm7, 112(%rsp)
	movaps	%xmm8, 128(%rsp)
	movaps	%xmm9, 144(%rsp)
	movaps	%xmm10, 160(%rsp)
	movaps	%xmm11, 176(%rsp)
	movaps	%xmm12, 192(%rsp)
	movaps	%xmm13, 208(%rsp)
	movaps	%xmm14, 224(%rsp)
	movaps	%xmm15, 240(%rsp)
	/* -64(%rbp): whether registers 16 to 31, or the masks, are in use */
	andl	uaio_patch_save+24(%rip), %eax
	movl	%eax, -64(%rbp)
	jz	5f
	vmovdqa64	%zmm16, 256(%rsp)
	vmovdqa64	%zmm17, 320(%rsp)
	vmovdqa64	%zmm18, 384(%rsp)
	vmovdqa64	%zmm19, 448(%rsp)
	vmovdqa64	%zmm20, 512(%rsp)
	vmovdqa64	%zmm21, 576(%rsp)
	vmovdqa64	%zmm22, 640(%rsp)
	vmovdqa64	%zmm23, 704(%rsp)
	vmovdqa64	%zmm24, 768(%rsp)
	vmovdqa64	%zmm25, 832(%rsp)
	vmovdqa64	%zmm26, 896(%rsp)
	vmovdqa64	%zmm27, 960(%rsp)
	vmovdqa64	%zmm28, 1024(%rsp)
	vmovdqa64	%zmm29, 1088(%rsp)
	vmovdqa64	%zmm30, 1152(%rsp)
	vmovdqa64	%zmm31, 1216(%rsp)
	kmovq	%k0, 1280(%rsp)
	kmovq	%k1, 1288(%rsp)
	kmovq	%k2, 1296(%rsp)
	kmovq	%k3, 1304(%rsp)
	kmovq	%k4, 1312(%rsp)
	kmovq	%k5, 1320(%rsp)
	kmovq	%k6, 1328(%rsp)
	kmovq	%k7, 1336(%rsp)
5:	leaq	-48(%rbp), %rsi
	call	\act
	movq	%rax, -56(%rbp)
	cmpl	$2, uaio_patch_save+16(%rip)
	jne	5f
	cmpl	$0, -64(%rbp)
	je	7f
	vmovdqa64	256(%rsp), %zmm16
	vmovdqa64	320(%rsp), %zmm17
	vmovdqa64	384(%rsp), %zmm18
	vmovdqa64	448(%rsp), %zmm19
	vmovdqa64	512(%rsp), %zmm20
	vmovdqa64	576(%rsp), %zmm21
	vmovdqa64	640(%rsp), %zmm22
	vmovdqa64	704(%rsp), %zmm23
	vmovdqa64	768(%rsp), %zmm24
	vmovdqa64	832(%rsp), %zmm25
	vmovdqa64	896(%rsp), %zmm26
	vmovdqa64	960(%rsp), %zmm27
	vmovdqa64	1024(%rsp), %zmm28
	vmovdqa64	1088(%rsp), %zmm29
	vmovdqa64	1152(%rsp), %zmm30
	vmovdqa64	1216(%rsp), %zmm31
	kmovq	1280(%rsp), %k0
	kmovq	1288(%rsp), %k1
	kmovq	1296(%rsp), %k2
	kmovq	1304(%rsp), %k3
	kmovq	1312(%rsp), %k4
	kmovq	1320(%rsp), %k5
	kmovq	1328(%rsp), %k6
	kmovq	1336(%rsp), %k7
	jmp	5f
	/* Registers 16 to 31 and the masks were zero: make them zero again. */
7:	zero_upper
5:	vzeroupper
	movaps	0(%rsp), %xmm0
	movaps	16(%rsp), %xmm1
	movaps	32(%rsp), %xmm2
	movaps	48(%rsp), %xmm3
	movaps	64(%rsp), %xmm4
	movaps	80(%rsp), %xmm5
	movaps	96(%rsp), %xmm6
	movaps	112(%rsp), %xmm7
	movaps	128(%rsp), %xmm8
	movaps	144(%rsp), %xmm9
	movaps	160(%rsp), %xmm10
	movaps	176(%rsp), %xmm11
	movaps	192(%rsp), %xmm12
	movaps	208(%rsp), %xmm13
	movaps	224(%rsp), %xmm14
	movaps	240(%rsp), %xmm15
	jmp	2f
4:	movl	uaio_patch_save(%rip), %eax
	xorl	%edx, %edx
	cmpl	$0, uaio_patch_save+4(%rip)
	je	1f
	/* Clear the header bytes that xrstor checks and xsave does not write. */
	movq	%rdx, 512(%rsp)
	movq	%rdx, 520(%rsp)
	movq	%rdx, 528(%rsp)
	movq	%rdx, 536(%rsp)
	movq	%rdx, 544(%rsp)
	movq	%rdx, 552(%rsp)
	movq	%rdx, 560(%rsp)
	movq	%rdx, 568(%rsp)
	cmpl	$1, uaio_patch_save+4(%rip)
	je	6f
	xsavec	(%rsp)
	jmp	3f
6:	xsave	(%rsp)
	jmp	3f
1:	fxsave	(%rsp)
3:	leaq	-48(%rbp), %rsi
	call	\act
	movq	%rax, -56(%rbp)
	movl	uaio_patch_save(%rip), %eax
	xorl	%edx, %edx
	cmpl	$0, uaio_patch_save+4(%rip)
	je	1f
	xrstor	(%rsp)
	jmp	2f
1:	fxrstor	(%rsp)
2:	leaq	-56(%rbp), %rsp
	popq	%rax
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%r10
	popq	%r8
	popq	%r9
	popq	%rbp
	.cfi_def_cfa %rsp, 16
	/* As after a system call, r11 has the flags, and rcx any value. */
	movq	(%rsp), %r11
	testl	$UNUSUAL, %r11d
	jnz	8f
	/* Faster than popfq: al has OF and IF, and an addition overflows if OF is set. */
	movq	%rax, %rcx
	movl	%r11d, %eax
	xchgb	%al, %ah
	addb	$125, %al
	sahf
	movq	%rcx, %rax
	leaq	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_adjust_cfa_offset 8
8:	popfq
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	define_entry uaio_patch_entry, uaio_patch_call
	define_entry uaio_patch_entry_other, *uaio_patch_other(%rip)
#elif defined(__aarch64__)
/*
 * A system call preserves all registers but x0, the flags, and 16 bytes of each vector
 * register. This code does so, too, but the trampoline saves x16, x17 and x30.
 */
	.text
	.hidden	uaio_patch_call

#define ARGS		16
#define VECTORS		176
#define STATE		160
#define FRAME		688

	.globl	uaio_patch_entry
	.hidden	uaio_patch_entry
	.type	uaio_patch_entry, %function
	.balign	16
uaio_patch_entry:
	.cfi_startproc
	bti	c
	sub	sp, sp, #FRAME
	.cfi_adjust_cfa_offset FRAME
	stp	x29, x30, [sp]
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	mov	x29, sp
	stp	x0, x1, [sp, #ARGS]
	stp	x2, x3, [sp, #ARGS+16]
	stp	x4, x5, [sp, #ARGS+32]
	stp	x6, x7, [sp, #ARGS+48]
	stp	x8, x9, [sp, #ARGS+64]
	stp	x10, x11, [sp, #ARGS+80]
	stp	x12, x13, [sp, #ARGS+96]
	stp	x14, x15, [sp, #ARGS+112]
	str	x18, [sp, #ARGS+128]
	mrs	x9, nzcv
	mrs	x10, fpsr
	stp	x9, x10, [sp, #STATE]
	add	x9, sp, #VECTORS
	stp	q0, q1, [x9, #0]
	stp	q2, q3, [x9, #32]
	stp	q4, q5, [x9, #64]
	stp	q6, q7, [x9, #96]
	stp	q8, q9, [x9, #128]
	stp	q10, q11, [x9, #160]
	stp	q12, q13, [x9, #192]
	stp	q14, q15, [x9, #224]
	stp	q16, q17, [x9, #256]
	stp	q18, q19, [x9, #288]
	stp	q20, q21, [x9, #320]
	stp	q22, q23, [x9, #352]
	stp	q24, q25, [x9, #384]
	stp	q26, q27, [x9, #416]
	stp	q28, q29, [x9, #448]
	stp	q30, q31, [x9, #480]
	mov	w0, w8
	add	x1, sp, #ARGS
	bl	uaio_patch_call
	add	x9, sp, #VECTORS
	ldp	q0, q1, [x9, #0]
	ldp	q2, q3, [x9, #32]
	ldp	q4, q5, [x9, #64]
	ldp	q6, q7, [x9, #96]
	ldp	q8, q9, [x9, #128]
	ldp	q10, q11, [x9, #160]
	ldp	q12, q13, [x9, #192]
	ldp	q14, q15, [x9, #224]
	ldp	q16, q17, [x9, #256]
	ldp	q18, q19, [x9, #288]
	ldp	q20, q21, [x9, #320]
	ldp	q22, q23, [x9, #352]
	ldp	q24, q25, [x9, #384]
	ldp	q26, q27, [x9, #416]
	ldp	q28, q29, [x9, #448]
	ldp	q30, q31, [x9, #480]
	ldp	x9, x10, [sp, #STATE]
	msr	nzcv, x9
	msr	fpsr, x10
	ldr	x18, [sp, #ARGS+128]
	ldp	x14, x15, [sp, #ARGS+112]
	ldp	x12, x13, [sp, #ARGS+96]
	ldp	x10, x11, [sp, #ARGS+80]
	ldp	x8, x9, [sp, #ARGS+64]
	ldp	x6, x7, [sp, #ARGS+48]
	ldp	x4, x5, [sp, #ARGS+32]
	ldp	x2, x3, [sp, #ARGS+16]
	ldr	x1, [sp, #ARGS+8]
	ldp	x29, x30, [sp]
	.cfi_restore x29
	.cfi_restore x30
	add	sp, sp, #FRAME
	.cfi_adjust_cfa_offset -FRAME
	ret
	.cfi_endproc
	.size	uaio_patch_entry, . - uaio_patch_entry
#endif
	.section .note.GNU-stack, "", %progbits
