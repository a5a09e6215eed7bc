/* SPDX-License-Identifier: MIT */
/*
 * Part of test-scan.c: an object with one kind of system call, which a macro CALLS_...
 * selects.
 */

#define BEGIN(name)                    \
	".text\n.globl " #name "\n"    \
	".type " #name ", @function\n" \
	".balign 16\n" #name ":\n"
#define END(name) ".size " #name ", . - " #name "\n"
#define FUNCTION(name, ...)                                \
	__asm__(BEGIN(name) ".cfi_startproc\n" __VA_ARGS__ \
			    "ret\n.cfi_endproc\n" END(name))

/* A function that is not exported, and has no entry in the unwind table. */
#define BARE __asm__(".text\n.balign 16\nbare: mov $39, %eax\n syscall\n ret\n")

#if defined(CALLS_ADJACENT)
FUNCTION(module, "mov $105, %eax\n syscall\n");
#elif defined(CALLS_SIGNED)
FUNCTION(module, "mov $105, %rax\n lea 1f(%rip), %rdi\n 1: syscall\n");
#elif defined(CALLS_ZERO)
FUNCTION(module, "xor %eax, %eax\n syscall\n");
#elif defined(CALLS_COPIED)
/*
 * The number of each call passes through another register before eax. The calls are in
 * a loop, after a jump, and after a call of a function.
 */
FUNCTION(module, "push %rbx\n mov $105, %ebx\n mov $39, %r8d\n"
		 "1: mov %r8d, %eax\n syscall\n"
		 "cmp $-4, %eax\n je 1b\n ja 2f\n jmp 3f\n"
		 "2: mov %r8d, %eax\n syscall\n"
		 "3: call 4f\n mov %ebx, %eax\n syscall\n"
		 "pop %rbx\n ret\n 4: nop\n");
#elif defined(CALLS_EITHER)
/* The number is one of two, depending on the path. */
FUNCTION(module, "mov $39, %eax\n test %edi, %edi\n je 1f\n"
		 "mov $105, %eax\n 1: syscall\n");
#elif defined(CALLS_LOST)
/* The number is in a caller-saved register, which a called function may change. */
FUNCTION(module, "mov $39, %r8d\n call 1f\n mov %r8d, %eax\n syscall\n"
		 "ret\n 1: mov $105, %r8d\n");
#elif defined(CALLS_ARGUMENT)
FUNCTION(module, "mov %edi, %eax\n syscall\n");
#elif defined(CALLS_BEHIND_CALL)
FUNCTION(module, "mov $39, %eax\n syscall\n syscall\n");
#elif defined(CALLS_BY_TABLE)
/* An indirect jump may lead to any instruction of the function, with any number. */
FUNCTION(module, "mov $39, %eax\n jmp *%rdi\n mov $39, %eax\n syscall\n");
#elif defined(CALLS_FROM_OUTSIDE)
/* Another function branches to the syscall, with another number. */
FUNCTION(module, "mov $39, %eax\n inside: syscall\n");
FUNCTION(outside, ".skip 256, 0x90\n mov $105, %eax\n jmp inside\n");
#elif defined(CALLS_HIGH)
FUNCTION(module, "mov $0x40000069, %eax\n syscall\n");
#elif defined(CALLS_32_BITS)
FUNCTION(module, "mov $213, %eax\n int $0x80\n");
#elif defined(CALLS_SYSENTER)
FUNCTION(module, "mov $213, %eax\n sysenter\n");
#elif defined(CALLS_UNKNOWN)
/*
 * An instruction that the decoder does not know, followed by bytes that look like a
 * call.
 */
FUNCTION(module, ".byte 0x06\n mov $39, %eax\n syscall\n");
#elif defined(CALLS_WITHOUT_TABLE)
__asm__(BEGIN(module) "mov $39, %eax\n syscall\n ret\n" END(module));
#elif defined(CALLS_BARE_CALLED)
FUNCTION(module, "call bare\n");
BARE;
#elif defined(CALLS_BARE_COMPUTED)
FUNCTION(module, "lea bare(%rip), %rax\n");
BARE;
#elif defined(CALLS_BARE_POINTED)
FUNCTION(module, "");
BARE;
__asm__(".section .data.rel.ro, \"aw\"\n.balign 8\n.quad bare\n");
#elif defined(CALLS_DATA)
/*
 * Data among the code. Nothing leads to the first bytes. Code leads to the other bytes,
 * but the first of these is no instruction.
 */
FUNCTION(module, "lea data(%rip), %rax\n");
__asm__(".byte 0x0f, 0x05, 0xcd, 0x80\n"
	"data: .byte 0x06, 0x06, 0x0f, 0x05, 0x0f, 0x34, 0xcd, 0x80\n");
#elif defined(CALLS_INSIDE)
/* Bytes that look like system calls are inside other instructions. */
FUNCTION(module, "mov $0x80cd050f, %eax\n lea 0x340f(%rdi), %rcx\n"
		 "cmpl $0x050f, (%rdi)\n");
#else
FUNCTION(module, "");
#endif
