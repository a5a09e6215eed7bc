/* SPDX-License-Identifier: MIT */
/*
 * Part of test-patch-arm.c: call sites, in an object of their own, since the object
 * that contains the library is not patched. The functions have the arguments of a
 * system call.
 */
#define BARE(name, ...)                                                 \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" \
		".balign 16\n" #name ":\n" __VA_ARGS__ ".size " #name   \
		", . - " #name "\n")
#define FUNCTION(name, ...) \
	BARE(name, ".cfi_startproc\n" __VA_ARGS__ "ret\n.cfi_endproc\n")

FUNCTION(adjacent_setup, "mov w8, #425\n svc #0\n");
FUNCTION(adjacent_enter, "mov x8, #426\n svc #0\n");
FUNCTION(adjacent_register, "mov w8, #427\n svc #0x80\n");

/*
 * A call site with instructions that compilers put between the mov of the number and
 * the call.
 */
FUNCTION(moved, "mov x8, #426\n add x0, x0, #1\n mov x2, #0\n"
		"str x1, [sp, #-16]!\n ldr x1, [sp], #16\n svc #0\n");

/* The call's number passes through another register before w8. */
FUNCTION(kept, "stp x29, x30, [sp, #-32]!\n str x19, [sp, #16]\n"
	       "mov w19, #426\n cbnz w0, 1f\n mov x0, #5\n"
	       "1: mov w8, w19\n svc #0\n cmn x0, #4\n b.eq 1b\n"
	       "ldr x19, [sp, #16]\n ldp x29, x30, [sp], #32\n");

/* The call gets 426 on one path, and the number of getpid (172) on another path. */
FUNCTION(either,
	 "cbz x0, 1f\n mov w8, #426\n b 2f\n 1: mov w8, #172\n 2: svc #0\n");
FUNCTION(either_adjacent,
	 "mov w8, #172\n cbz x0, 1f\n mov w8, #426\n 1: svc #0\n");

/*
 * An indirect branch may lead to any instruction, so the number is not certain. The
 * library patches this call site nevertheless, because the trampoline reads the number.
 */
FUNCTION(by_table, "cbz x0, 1f\n adr x9, 1f\n br x9\n"
		   "1: mov w8, #426\n svc #0\n");

/*
 * Functions without an unwind entry: one is exported, the other is called by an
 * exported function.
 */
BARE(without_table, "mov w8, #426\n svc #0\n ret\n");
BARE(without_table_called, "mov x9, x30\n bl local\n mov x30, x9\n ret\n");
__asm__("local: mov w8, #426\n svc #0\n ret\n");

/*
 * Check the registers that a system call preserves: all but x0. Returns 0, or 1 + the
 * number of a register that was changed.
 */
#define EACH_X                                                                 \
	"1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, " \
	"21, 22, 23, 24, 25, 26, 27, 28, 29, 30"
#define EACH_Q                                                               \
	"0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, " \
	"19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31"
#define SAVE                                                     \
	"stp x29, x30, [sp, #-176]!\n stp x19, x20, [sp, #16]\n" \
	"stp x21, x22, [sp, #32]\n stp x23, x24, [sp, #48]\n"    \
	"stp x25, x26, [sp, #64]\n stp x27, x28, [sp, #80]\n"    \
	"stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n"     \
	"stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
#define RESTORE                                                 \
	"ldp x19, x20, [sp, #16]\n"                             \
	"ldp x21, x22, [sp, #32]\n ldp x23, x24, [sp, #48]\n"   \
	"ldp x25, x26, [sp, #64]\n ldp x27, x28, [sp, #80]\n"   \
	"ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n"    \
	"ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n" \
	"ldp x29, x30, [sp], #176\n"

FUNCTION(general_registers,
	 SAVE ".irp n, " EACH_X "\n mov x\\n, #(\\n + 1)\n .endr\n"
	      "mov x8, #426\n svc #0\n mov x0, #0\n"
	      ".irp n, " EACH_X "\n cmp x\\n, #(\\n + 1)\n b.eq 1f\n"
	      "mov x0, #(\\n + 1)\n 1:\n .endr\n"
	      "cmp x8, #426\n b.eq 1f\n mov x0, #9\n 1:\n" RESTORE);

FUNCTION(vector_registers,
	 SAVE ".irp n, " EACH_Q "\n movi v\\n\\().16b, #(\\n + 1)\n .endr\n"
	      "mov x8, #426\n svc #0\n mov x0, #0\n"
	      ".irp n, " EACH_Q "\n mov x1, v\\n\\().d[0]\n"
	      "mov x2, v\\n\\().d[1]\n mov x3, #(0x101 * (\\n + 1))\n"
	      "orr x3, x3, x3, lsl #16\n orr x3, x3, x3, lsl #32\n"
	      "cmp x1, x3\n ccmp x2, x3, #0, eq\n b.eq 1f\n"
	      "mov x0, #(\\n + 1)\n 1:\n .endr\n" RESTORE);

/*
 * Set the flags to the argument, make the call, and return the flags after the call.
 */
FUNCTION(flags, "msr nzcv, x0\n mov x8, #426\n svc #0\n mrs x0, nzcv\n");
FUNCTION(float_flags, "msr fpsr, x0\n mov x8, #426\n svc #0\n mrs x0, fpsr\n");

/* Code that only looks like a call site and must not be patched. */
FUNCTION(miss_below, "mov w8, #424\n cbz x0, 1f\n svc #0\n 1:\n");
FUNCTION(miss_above, "mov w8, #428\n cbz x0, 1f\n svc #0\n 1:\n");
FUNCTION(miss_register, "mov w8, #172\n mov w9, #426\n svc #0\n");
FUNCTION(miss_overwritten, "mov w8, #426\n mov w8, #172\n svc #0\n");
FUNCTION(miss_shifted, "movz w8, #426, lsl #16\n mov w8, #172\n svc #0\n");
FUNCTION(miss_no_call, "mov w8, #426\n");

/* Data in no function. No branch and no name leads to it. */
__asm__(".text\n.balign 16\ndata: mov w8, #426\n svc #0\n .word 0, 0\n");
FUNCTION(get_data, "adrp x0, data\n add x0, x0, :lo12:data\n");
