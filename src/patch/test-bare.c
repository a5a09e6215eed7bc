/* SPDX-License-Identifier: MIT */
/*
 * Part of test-patch.c: an object without an unwind table. Its functions have the
 * arguments of a system call, like the functions of test-places.c.
 */

#define LOCAL(name, ...) __asm__(".text\n.balign 16\n" #name ":\n" __VA_ARGS__)
#define FUNCTION(name, ...)                      \
	__asm__(".globl " #name "\n"             \
		".type " #name ", @function\n"); \
	LOCAL(name, __VA_ARGS__)
#define SITE "mov $426, %eax\n xor %r9d, %r9d\n syscall\n ret\n"

/*
 * A call that must stay unpatched. As compilers do in a loop, the code keeps the
 * call's number in another register than eax, and copies it to eax before each call.
 */
#define KEPT(name)                                                        \
	FUNCTION(name,                                                    \
		 "mov %rcx, %r10\n push %r12\n mov $426, %r12d\n"         \
		 "test %edi, %edi\n jns 1f\n"                             \
		 "2: mov %r12d, %eax\n syscall\n cmp $-4, %rax\n je 2b\n" \
		 "pop %r12\n ret\n"                                       \
		 "1: xor %eax, %eax\n pop %r12\n ret\n")

#if defined(KEPT_ALONE)

KEPT(bare_kept);
/*
 * Not a call site of io_uring: 426 is the argument of another system call, or a
 * function's result.
 */
FUNCTION(bare_argument, "mov $426, %edi\n mov $39, %eax\n syscall\n ret\n");
FUNCTION(bare_returned, "mov $426, %eax\n ret\n");

#elif !defined(OVERLAPS)

KEPT(bare_kept);
/* Left unpatched: an indirect jump is between the mov and the call. */
FUNCTION(bare_kept_behind, "mov $426, %r8d\n jmp *%rsi\n"
			   "pop %rcx\n mov %r8d, %eax\n syscall\n ret\n");

/*
 * A call site whose address is computed by code of bare_by_constants, after many other
 * constants.
 */
LOCAL(behind_constants, SITE);

/* A call site in an exported function. */
FUNCTION(bare_exported, "mov %rcx, %r10\n test %edi, %edi\n js 1f\n" SITE
			"1: xor %eax, %eax\n ret\n");

/* Call sites in functions that an exported function calls, or to which it jumps. */
FUNCTION(bare_called, "mov %rcx, %r10\n call called\n ret\n");
LOCAL(called, SITE);
FUNCTION(bare_jumped, "mov %rcx, %r10\n jmp jumped\n");
LOCAL(jumped, SITE);

/* A call site to which a pointer leads; the loader relocates the pointer. */
FUNCTION(bare_pointed, "mov %rcx, %r10\n jmp *pointer(%rip)\n");
LOCAL(pointed, SITE);
__asm__(".section .data.rel.ro, \"aw\"\n.balign 8\npointer: .quad pointed\n");

/*
 * An instruction computes the address of some code. This code calls a function with a
 * call site.
 */
FUNCTION(bare_computed, "mov %rcx, %r10\n lea computed(%rip), %r11\n"
			"jmp *%r11\n");
LOCAL(computed, "call inner\n ret\n");
LOCAL(inner, SITE);

/* A call site to which a jump table leads. */
FUNCTION(bare_by_table, "mov %rcx, %r10\n mov %edi, %eax\n and $1, %eax\n"
			"lea table(%rip), %r11\n"
			"movslq (%r11,%rax,4), %rax\n add %r11, %rax\n"
			"jmp *%rax\n"
			"first: xor %eax, %eax\n ret\n"
			"second: " SITE);
__asm__(".section .rodata\n.balign 4\n"
	"table: .long first - table, second - table\n");

/*
 * Two jump tables, the second directly after the first. The search must not read an
 * entry of the second table as an entry of the first: it would lead to data, and the
 * data, decoded as instructions, would overlap a real instruction.
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
 * Each mov loads a constant. In an object that is linked to a fixed address, these
 * constants could be addresses of code. Most of them would lead into the middle of
 * instructions.
 */
FUNCTION(bare_by_constants, "mov %rcx, %r10\n.set constant, 0x1000\n"
			    ".rept 0x400\n mov $constant, %eax\n"
			    ".set constant, constant + 1\n.endr\n"
			    "lea behind_constants(%rip), %r11\n jmp *%r11\n");

/* Nothing leads to this code, so its bytes may be data. */
LOCAL(unnamed, SITE);
/* Data whose address is computed, and that begins like code. */
FUNCTION(bare_data, "lea data(%rip), %rax\n ret\n");
LOCAL(data, "mov $426, %eax\n syscall\n .byte 6, 6\n");
/*
 * This code's address is computed, but the code jumps into the middle of an
 * instruction, so it counts as data.
 */
FUNCTION(bare_astray, "lea astray(%rip), %rax\n ret\n");
LOCAL(astray, "mov $426, %eax\n syscall\n jmp bare_exported + 1\n");
/*
 * Not a call site: the bytes of the mov and the `syscall` are inside another
 * instruction.
 */
FUNCTION(bare_inside, ".byte 0x48, 0xb9, 0xb8, 0xaa, 1, 0, 0, 0x0f, 5, 0\n"
		      "mov %rcx, %rax\n ret\n");

#else

/*
 * The instructions of two exported functions overlap, so all code counts as unknown.
 */
FUNCTION(bare_overlapped, "mov %rcx, %r10\n" SITE);
__asm__(".globl bare_overlapping\n.type bare_overlapping, @function\n"
	".set bare_overlapping, bare_overlapped + 1\n");

#endif
