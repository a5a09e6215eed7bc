/* SPDX-License-Identifier: MIT */
/*
 * Part of test-patch.c: call sites, in an object of their own, since the object that
 * contains the library is not patched.
 */
#include "patch/test-places.h"

/*
 * Functions with the arguments of a system call; the fourth is in rcx. Each function is
 * aligned, so that the sites of two functions share no eight-byte word.
 */
#define FUNCTION(name, ...)                    \
	__asm__(".text\n.globl " #name "\n"    \
		".type " #name ", @function\n" \
		".balign 16\n" #name ":\n"     \
		".cfi_startproc\n"             \
		"mov %rcx, %r10\n" __VA_ARGS__ \
		"ret\n.cfi_endproc\n.size " #name ", . - " #name "\n")

FUNCTION(adjacent_setup, "mov $425, %eax\n syscall\n");
FUNCTION(adjacent_enter, "mov $426, %eax\n syscall\n");
FUNCTION(adjacent_register, "mov $427, %eax\n syscall\n");

/*
 * Instructions that compilers put before the call. The trampoline must execute each of
 * them once, in order.
 */
FUNCTION(moved, "mov $426, %eax\n"
		"lea 1(%rdi), %rdi\n"
		"push %rbx\n"
		"movq $7, -8(%rsp)\n"
		"mov %rdi, %rbx\n"
		"movups %xmm0, -32(%rsp)\n"
		"xor %edx, %edx\n"
		"mov $5, %esi\n"
		"movzbl -8(%rsp), %r8d\n"
		"syscall\n"
		"pop %rbx\n");

/*
 * The trampoline must preserve the red zone, the 128 bytes below the stack pointer.
 */
FUNCTION(red_zone, ".set at, -128\n"
		   ".rept 16\n"
		   "movq $0x1000 - at, at(%rsp)\n"
		   ".set at, at + 8\n"
		   ".endr\n"
		   "mov $426, %eax\n syscall\n"
		   "xor %eax, %eax\n"
		   ".set at, -128\n"
		   ".rept 16\n"
		   "cmpq $0x1000 - at, at(%rsp)\n"
		   "setne %cl\n"
		   "or %cl, %al\n"
		   ".set at, at + 8\n"
		   ".endr\n");

/*
 * Check the registers that a system call preserves. Returns a bit for each one that was
 * changed.
 */
FUNCTION(registers,
	 "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push "
	 "%r15\n"
	 "mov $11, %ebx\n mov $12, %ebp\n mov $13, %r12d\n mov $14, %r13d\n"
	 "mov $15, %r14d\n mov $16, %r15d\n"
	 "movq %rbx, %xmm0\n movq %rbp, %xmm7\n movq %r15, %xmm15\n"
	 "std\n stc\n"
	 "mov $426, %eax\n"
	 "syscall\n"
	 "setnc %al\n movzbl %al, %eax\n"
	 "pushfq\n pop %rcx\n cld\n"
	 "test $0x400, %ecx\n jnz 1f\n or $2, %eax\n 1:\n"
	 "cmp $11, %ebx\n je 1f\n or $4, %eax\n 1:\n"
	 "cmp $12, %ebp\n je 1f\n or $8, %eax\n 1:\n"
	 "cmp $13, %r12d\n je 1f\n or $16, %eax\n 1:\n"
	 "cmp $14, %r13d\n je 1f\n or $32, %eax\n 1:\n"
	 "cmp $15, %r14d\n je 1f\n or $64, %eax\n 1:\n"
	 "cmp $16, %r15d\n je 1f\n or $128, %eax\n 1:\n"
	 "movq %xmm0, %rcx\n cmp $11, %rcx\n je 1f\n or $256, %eax\n 1:\n"
	 "movq %xmm7, %rcx\n cmp $12, %rcx\n je 1f\n or $512, %eax\n 1:\n"
	 "movq %xmm15, %rcx\n cmp $16, %rcx\n je 1f\n or $1024, %eax\n 1:\n"
	 "cmp $1, %rdi\n je 1f\n or $2048, %eax\n 1:\n"
	 "cmp $2, %rsi\n je 1f\n or $4096, %eax\n 1:\n"
	 "cmp $3, %rdx\n je 1f\n or $8192, %eax\n 1:\n"
	 "cmp $4, %r10\n je 1f\n or $16384, %eax\n 1:\n"
	 "cmp $5, %r8\n je 1f\n or $32768, %eax\n 1:\n"
	 "cmp $6, %r9\n je 1f\n or $65536, %eax\n 1:\n"
	 "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n");

/* Check vector registers of 32 bytes (AVX). */
FUNCTION(wide, "vmovdqu (%rdi), %ymm1\n vmovdqu (%rdi), %ymm14\n"
	       "mov $426, %eax\n syscall\n"
	       "vpxor (%rdi), %ymm1, %ymm1\n vpxor (%rdi), %ymm14, %ymm14\n"
	       "vpor %ymm1, %ymm14, %ymm1\n"
	       "xor %eax, %eax\n vptest %ymm1, %ymm1\n setnz %al\n"
	       "vzeroupper\n");

/*
 * Check AVX-512: returns a bit if a 64-byte vector was changed, and another if a mask
 * was.
 */
FUNCTION(widest, "vmovdqu64 (%rdi), %zmm17\n vmovdqu64 (%rdi), %zmm31\n"
		 "mov $0x1234567, %eax\n kmovq %rax, %k3\n"
		 "mov $426, %eax\n syscall\n"
		 "kmovq %k3, %rcx\n xor %eax, %eax\n"
		 "cmp $0x1234567, %rcx\n setne %al\n"
		 "vpcmpeqq (%rdi), %zmm17, %k1\n kmovq %k1, %rcx\n"
		 "vpcmpeqq (%rdi), %zmm31, %k1\n kmovq %k1, %rdx\n"
		 "and %rdx, %rcx\n"
		 "cmp $255, %rcx\n je 1f\n or $2, %eax\n 1:\n"
		 "vzeroupper\n");

/*
 * Make a call with zeros in all AVX-512 vectors and masks; the trampoline need not save
 * them.
 */
FUNCTION(emptied, ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, "
		  "29, 30, 31\n vpxord %zmm\\n, %zmm\\n, %zmm\\n\n .endr\n"
		  ".irp n, 0, 1, 2, 3, 4, 5, 6, 7\n"
		  "kxorq %k\\n, %k\\n, %k\\n\n .endr\n vzeroupper\n"
		  "mov $426, %eax\n syscall\n"
		  "kmovq %k3, %rcx\n xor %eax, %eax\n"
		  "vptestmq %zmm17, %zmm17, %k1\n kmovq %k1, %rdx\n"
		  "vptestmq %zmm31, %zmm31, %k1\n kmovq %k1, %rsi\n"
		  "or %rdx, %rcx\n or %rsi, %rcx\n setnz %al\n vzeroupper\n");

/*
 * Set the flags to the argument, make the call, and return the flags after the call.
 */
FUNCTION(flagged, "push %rdi\n popfq\n mov $426, %eax\n syscall\n"
		  "pushfq\n pop %rax\n cld\n");

/* The call's number passes through another register before eax. */
FUNCTION(kept, "push %r15\n mov $426, %r15d\n shr $3, %cl\n"
	       "1: mov %r15d, %eax\n syscall\n"
	       "cmp $-4, %rax\n je 1b\n pop %r15\n");
FUNCTION(kept_low, "push %rbx\n push %rbp\n mov $426, %ebx\n mov %rdx, %rbp\n"
		   "test %edi, %edi\n js 1f\n"
		   "xor %edx, %edx\n mov %ebx, %eax\n syscall\n"
		   "1: pop %rbp\n pop %rbx\n");
/*
 * The instructions before the `syscall` are long enough for the jump, so the `syscall`
 * itself stays.
 */
FUNCTION(kept_before, "push %rbx\n mov $426, %ebx\n mov %ebx, %eax\n"
		      "mov %rdi, %rbx\n xor %edx, %edx\n syscall\n pop %rbx\n");

/* Call sites with a longer mov of the number, or with a mov far before the call. */
FUNCTION(sign_extended, "mov $426, %rax\n syscall\n");
FUNCTION(far_before, "mov $426, %eax\n"
		     ".rept 10\n lea 0x100(%rdi), %rdi\n"
		     "lea -0x100(%rdi), %rdi\n .endr\n syscall\n");

/* Code that only looks like a call site and must not be patched. */
FUNCTION(miss_register,
	 "mov $39, %eax\n .byte 0x41\n mov $426, %eax\n syscall\n");
FUNCTION(miss_wide, ".byte 0x48, 0xb8, 0xaa, 1, 0, 0, 0x0f, 5, 0, 0\n");
FUNCTION(
	miss_inside,
	".byte 0x48, 0xb9, 0xb8, 0xaa, 1, 0, 0, 0x0f, 5, 0\n mov %rcx, %rax\n");
FUNCTION(miss_below,
	 "mov $424, %eax\n test %edi, %edi\n js 1f\n syscall\n 1:\n");
FUNCTION(miss_above,
	 "mov $428, %eax\n test %edi, %edi\n js 1f\n syscall\n 1:\n");
FUNCTION(miss_high, "mov $0x10001aa, %eax\n");
FUNCTION(miss_16_bits,
	 "xor %eax, %eax\n .byte 0x66, 0xb8, 0xaa, 1\n add %al, (%rdi)\n");
FUNCTION(miss_no_call, "mov $426, %eax\n");
/* Calls that are left unpatched because their instructions must not be moved. */
FUNCTION(left_relative, "mov $426, %eax\n lea 1f(%rip), %r8\n 1: syscall\n");
FUNCTION(left_branch, "mov $426, %eax\n jmp 1f\n 1: syscall\n");
FUNCTION(left_overwritten, "mov $426, %eax\n mov $39, %eax\n syscall\n");
/*
 * Left unpatched: a branch leads to the `syscall` itself, with the number in eax.
 */
FUNCTION(left_target, "mov $426, %r11d\n mov %r11d, %eax\n test %edi, %edi\n"
		      "js 1f\n mov %rsi, %rsi\n 1: syscall\n");
/* Left unpatched: an indirect jump may lead to any instruction. */
FUNCTION(left_by_table, "mov $426, %r11d\n test %edi, %edi\n jns 1f\n"
			"jmp *%rsi\n 1: mov %r11d, %eax\n syscall\n");
/* Left unpatched: one path gives the call the number 426, the other path 427. */
FUNCTION(left_either, "mov $426, %r11d\n test %edi, %edi\n jns 1f\n"
		      "mov $427, %r11d\n 1: mov %r11d, %eax\n syscall\n");
/*
 * Left unpatched: before the call site is an instruction that the decoder does not
 * know.
 */
FUNCTION(left_unknown, "test %edi, %edi\n js 1f\n ret\n .byte 0x06\n"
		       "1: mov $426, %eax\n syscall\n");
/*
 * Left unpatched: the mov is in two pages, and the second page cannot become writable.
 * The second page contains no other function.
 */
__asm__(".text\n.balign 4096\n.skip 4096 - 6\n");
__asm__(".globl left_on_two_pages\n"
	".type left_on_two_pages, @function\n"
	"left_on_two_pages:\n"
	".cfi_startproc\n"
	"mov %rcx, %r10\n mov $426, %eax\n syscall\n ret\n"
	".cfi_endproc\n.size left_on_two_pages, . - left_on_two_pages\n"
	".balign 4096\n");
/* An exported function without an unwind entry. */
__asm__(".text\n.globl without_table\n.type without_table, @function\n"
	".balign 16\nwithout_table:\n mov %rcx, %r10\n mov $426, %eax\n "
	"syscall\n ret\n");
