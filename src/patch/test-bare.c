/* SPDX-License-Identifier: MIT */
/*
 * Part of test-patch.c: an object without a table for unwinding. Its functions have the
 * arguments of a system call, as those of test-places.c.
 */

#define LOCAL(name, ...) __asm__(".text\n.balign 16\n" #name ":\n" __VA_ARGS__)
#define FUNCTION(name, ...)                      \
	__asm__(".globl " #name "\n"             \
		".type " #name ", @function\n"); \
	LOCAL(name, __VA_ARGS__)
#define SITE "mov $426, %eax\n xor %r9d, %r9d\n syscall\n ret\n"

/* The number is in a register, for a call in a loop. */
#define KEPT(name)                                                        \
	FUNCTION(name,                                                    \
		 "mov %rcx, %r10\n push %r12\n mov $426, %r12d\n"         \
		 "test %edi, %edi\n jns 1f\n"                             \
		 "2: mov %r12d, %eax\n syscall\n cmp $-4, %rax\n je 2b\n" \
		 "pop %r12\n ret\n"                                       \
		 "1: xor %eax, %eax\n pop %r12\n ret\n")

#if defined(KEPT_ALONE)

KEPT(bare_kept);
/* It is the argument of a call with another number, or of no system call. */
FUNCTION(bare_argument, "mov $426, %edi\n mov $39, %eax\n syscall\n ret\n");
FUNCTION(bare_returned, "mov $426, %eax\n ret\n");

#elif !defined(OVERLAPS)

KEPT(bare_kept);
/* The way to the call is by a table. */
FUNCTION(bare_kept_behind, "mov $426, %r8d\n jmp *%rsi\n"
			   "pop %rcx\n mov %r8d, %eax\n syscall\n ret\n");

/* What is computed last, and lies first. */
LOCAL(behind_constants, SITE);

/* The loader knows its address. */
FUNCTION(bare_exported, "mov %rcx, %r10\n test %edi, %edi\n js 1f\n" SITE
			"1: xor %eax, %eax\n ret\n");

/* What a named function leads to. */
FUNCTION(bare_called, "mov %rcx, %r10\n call called\n ret\n");
LOCAL(called, SITE);
FUNCTION(bare_jumped, "mov %rcx, %r10\n jmp jumped\n");
LOCAL(jumped, SITE);

/* A pointer that the loader fills in. */
FUNCTION(bare_pointed, "mov %rcx, %r10\n jmp *pointer(%rip)\n");
LOCAL(pointed, SITE);
__asm__(".section .data.rel.ro, \"aw\"\n.balign 8\npointer: .quad pointed\n");

/* An address that an instruction computes, and what it leads to. */
FUNCTION(bare_computed, "mov %rcx, %r10\n lea computed(%rip), %r11\n"
			"jmp *%r11\n");
LOCAL(computed, "call inner\n ret\n");
LOCAL(inner, SITE);

/* A table of jumps. */
FUNCTION(bare_by_table, "mov %rcx, %r10\n mov %edi, %eax\n and $1, %eax\n"
			"lea table(%rip), %r11\n"
			"movslq (%r11,%rax,4), %rax\n add %r11, %rax\n"
			"jmp *%rax\n"
			"first: xor %eax, %eax\n ret\n"
			"second: " SITE);
__asm__(".section .rodata\n.balign 4\n"
	"table: .long first - table, second - table\n");

/*
 * A table of jumps with another one right behind it. If the first were read on, the
 * second's entry would lead to what is no instruction, and over the beginning of one.
 */
FUNCTION(bare_beside, "mov %rcx, %r10\n mov %edi, %eax\n and $1, %eax\n"
		      "lea beside(%rip), %r11\n"
		      "movslq (%r11,%rax,4), %rax\n add %r11, %rax\n"
		      "jmp *%rax\n"
		      "beside_none: xor %eax, %eax\n ret\n"
		      "beside_other: lea behind(%rip), %r11\n"
		      "movslq (%r11), %rax\n add %r11, %rax\n jmp *%rax\n"
		      ".byte 0x48, 0xb8, 0, 0, 0, 0, 0, 0\n"
		      "beside_site: " SITE);
__asm__(".section .rodata\n.balign 4\n.long 0x7fffffff\n"
	"beside: .long beside_none - beside, beside_other - beside\n"
	"behind: .long beside_site - behind\n.long 0x7fffffff\n");

/*
 * Constants that would be addresses in the code if the object were linked to the address
 * that it has: all of the beginning, with those inside of instructions.
 */
FUNCTION(bare_by_constants, "mov %rcx, %r10\n.set constant, 0x1000\n"
			    ".rept 0x400\n mov $constant, %eax\n"
			    ".set constant, constant + 1\n.endr\n"
			    "lea behind_constants(%rip), %r11\n jmp *%r11\n");

/* Nobody names it: it may be data. */
LOCAL(unnamed, SITE);
/* Its address is computed, and it begins like code; but it is none. */
FUNCTION(bare_data, "lea data(%rip), %rax\n ret\n");
LOCAL(data, "mov $426, %eax\n syscall\n .byte 6, 6\n");
/* Its address is computed; it jumps into the middle of an instruction. */
FUNCTION(bare_astray, "lea astray(%rip), %rax\n ret\n");
LOCAL(astray, "mov $426, %eax\n syscall\n jmp bare_exported + 1\n");
/* Part of another instruction. */
FUNCTION(bare_inside, ".byte 0x48, 0xb9, 0xb8, 0xaa, 1, 0, 0, 0x0f, 5, 0\n"
		      "mov %rcx, %rax\n ret\n");

#else

/* Two functions of which the instructions overlap: neither is known to be one. */
FUNCTION(bare_overlapped, "mov %rcx, %r10\n" SITE);
__asm__(".globl bare_overlapping\n.type bare_overlapping, @function\n"
	".set bare_overlapping, bare_overlapped + 1\n");

#endif
